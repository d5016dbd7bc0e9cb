"""Arguments of public functions: checked against the annotations, and brought into one form, before anything runs.

The annotation of a parameter is its contract. A path may be an `os.PathLike`, pairs may be a mapping, one string may
stand for a sequence of one. Anything else is an `ArgumentError`, which names the function and the argument.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, wraps
from inspect import Parameter, signature, unwrap
from operator import is_
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args

from gdsurgeon.errors import ArgumentError, GdsurgeonError, quoted

Hint: TypeAlias = Any
"""An annotation, or a value that is still to be compared with one."""
A = TypeVar("A")
B = TypeVar("B")
F = TypeVar("F", bound=Callable[..., Hint])

Pairs: TypeAlias = Mapping[A, B] | Iterable[tuple[A, B]]
"""Pairs, or a mapping."""
StrPath: TypeAlias = str | os.PathLike[str]
"""A path, as text or as an object such as `pathlib.Path`."""

_SEQUENCES = (Sequence, Iterable, Collection, Iterator, list, tuple, set, frozenset, Set)
_TEXTS = (str, bytes, bytearray, memoryview)
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_Fit = Callable[[object], object]


class _Unfit(Exception):
    """A value does not fit its annotation."""


def _origin(hint: Hint) -> Hint:
    return typing.get_origin(hint)


def public(function: F) -> F:
    """Checks the arguments of `function`, and brings them into the form that its annotations describe.

    If the function raises an exception, its first argument that is a graph is restored. Errors of the library get the
    name of the function.

    Raises:
        ArgumentError: an argument is missing, unknown or of the wrong type.
    """
    name = function.__qualname__

    @wraps(function)
    def checked(*args: Hint, **kwargs: Hint) -> Hint:
        fits, bind = _fits_of(function)
        try:
            bound = bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(name, "", str(error)) from None
        _fit_all(name, fits, bound.arguments)
        graph = next((value for value in bound.arguments.values() if getattr(value, "keeps_journal", False)), None)
        try:
            if graph is None:
                return function(*bound.args, **bound.kwargs)
            savepoint = graph.savepoint()
            try:
                graph.begin_edit(savepoint)
                result = function(*bound.args, **bound.kwargs)
                graph.end_edit(savepoint, result)
                return result
            except BaseException:  # an interrupt included
                graph.take_back_edit(savepoint)
                raise
        except GdsurgeonError as error:
            error.function = name
            raise

    return checked  # type: ignore[return-value]


def _fit_all(called: str, fits: Mapping[str, _Fit], values: dict[str, object]) -> None:
    """Brings `values`, the arguments of the function `called`, into the form of their annotations."""
    for key, value in values.items():
        if key in fits:
            try:
                values[key] = fits[key](value)
            except _Unfit as unfit:
                raise ArgumentError(called, key, str(unfit), found=value) from None


class _Names(dict[str, object]):
    """The names in annotations. Names that only type checkers import mean any value."""

    def __missing__(self, name: str) -> object:
        return object


@cache
def _fits_of(function: Callable[..., object]) -> tuple[dict[str, _Fit], Callable[..., Hint]]:
    """Returns the check of each annotated parameter of `function`, and the function that binds the arguments."""
    inner = unwrap(function)
    wanted = signature(inner)
    names = _Names(vars(builtins) | vars(sys.modules[inner.__module__]))
    fits = {
        parameter.name: _fit(eval(parameter.annotation, {}, names))
        for parameter in wanted.parameters.values()
        if parameter.kind not in _VARIABLE and parameter.annotation is not Parameter.empty
    }
    return fits, wanted.bind


def _fit(hint: Hint) -> _Fit:
    """Returns a function that checks a value against the annotation `hint`, and converts the value to its form."""
    origin, arms = _origin(hint), get_args(hint)
    kind, expected = origin or hint, described(hint)
    if origin in (Union, types.UnionType):
        return _fit_union(hint, arms)
    if origin is Literal:
        return _only(lambda value: value in arms, expected)
    if origin is tuple:
        return _fit_sequence(hint, arms[0]) if arms[1:] == (...,) else _fit_tuple(expected, arms)
    if origin is not None and issubclass(origin, Mapping):
        return _fit_mapping(expected, *arms)
    if origin in _SEQUENCES:
        return _fit_sequence(hint, arms[0])
    if kind is Callable:
        return _only(callable, "a function")
    if kind is os.PathLike:
        return _only(lambda value: isinstance(value, os.PathLike), "a path", os.fspath)
    if kind in (int, float):
        method = "__index__" if kind is int else "__float__"
        return _only(
            lambda n: (
                type(n) is kind
                or (not isinstance(n, (bool, *_TEXTS)) and (hasattr(n, method) or hasattr(n, "__index__")))
            ),
            "a whole number" if kind is int else "a number",
            kind,
        )
    if kind is bool:
        return _only(lambda value: type(value).__name__ in ("bool", "bool_"), "True or False", bool)
    if not isinstance(kind, type) or kind is object or getattr(kind, "_is_protocol", False):
        return lambda value: value
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _fit_named_tuple(kind)
    return _instance(kind)


def _instance(kind: type) -> _Fit:
    """Returns a check for instances of `kind`; it is not made by `_only`, because lists can have a million items."""
    expected = described(kind)

    def fit(value: object) -> object:
        if isinstance(value, kind):
            return value
        raise _Unfit(expected)

    return fit


def _only(is_valid: Callable[[Hint], object], expected: str, convert: Callable[[Hint], object] | None = None) -> _Fit:
    """Returns a check that accepts the values that are valid, and converts them."""

    def fit(value: object) -> object:
        if not is_valid(value):
            raise _Unfit(expected)
        return value if convert is None else convert(value)

    return fit


def _fit_union(hint: Hint, arms: Sequence[Hint]) -> _Fit:
    """Accepts a value of one of `arms`. A mapping and pairs of the same are both returned as a list of pairs."""
    origins = [_origin(arm) for arm in arms if arm is not type(None)]
    if len(origins) == 2 and Mapping in origins and any(_is_pairs(arm) for arm in arms):
        pairs = next(arm for arm in arms if _origin(arm) in _SEQUENCES)
        fits = [_fit(arm) for arm in [*(arm for arm in arms if arm is type(None)), pairs]]
    else:  # an instance of a named tuple is accepted, but no plain tuple of its fields
        records = [arm for arm in arms if hasattr(arm, "_fields")]
        fits = [_instance(arm) for arm in records]
        fits += [_fit(arm) for arm in sorted(arms, key=lambda arm: _origin(arm) is not None) if arm not in records]

    def fit(value: object) -> object:
        reasons = []
        for one in fits:
            try:
                return one(value)
            except _Unfit as unfit:
                reasons.append(str(unfit))
        raise _Unfit(reasons[-1] if ":" in reasons[-1] else described(hint))

    return fit


def _is_pairs(hint: Hint) -> bool:
    """Returns whether `hint` is a sequence of pairs."""
    if _origin(hint) not in _SEQUENCES or len(get_args(hint)) != 1:
        return False
    items = get_args(hint)[0]
    kinds = get_args(items) if _origin(items) in (Union, types.UnionType) else (items,)
    return all((_origin(kind) is tuple and len(get_args(kind)) == 2) or hasattr(kind, "_fields") for kind in kinds)


def _fit_sequence(hint: Hint, item: Hint) -> _Fit:
    """Accepts a sequence. One value that fits `item` stands for a sequence of one; a mapping stands for its pairs."""
    one, are_pairs, expected = _fit(item), _is_pairs(hint), described(hint)
    is_sequence = _origin(hint) is Sequence
    makes: Callable[[Iterable[object]], object] = tuple if _origin(hint) is tuple else list

    def fit(value: object) -> object:
        if isinstance(value, Mapping) and is_sequence and not are_pairs:
            raise _Unfit(expected)
        if isinstance(value, Mapping):
            value = list(value.items() if are_pairs else value)
        elif isinstance(value, _TEXTS) or not isinstance(value, Iterable):
            try:
                return makes([one(value)])
            except _Unfit:
                raise _Unfit(expected) from None
        given = value if isinstance(value, (list, tuple)) else list(value)
        found = []
        for number, element in enumerate(given):
            try:
                found.append(one(element))
            except _Unfit as unfit:
                raise _Unfit(f"{expected}: item {number} is {type(element).__name__}, expected {unfit}") from None
        is_same = makes is list or isinstance(given, tuple)
        return given if is_same and all(map(is_, found, given)) else makes(found)

    return fit


def _fit_tuple(expected: str, items: Sequence[Hint]) -> _Fit:
    fits = [_fit(item) for item in items]

    def fit(value: object) -> object:
        if isinstance(value, (Mapping, *_TEXTS)) or not isinstance(value, Sequence) or len(value) != len(fits):
            raise _Unfit(expected)
        found = [one(element) for one, element in zip(fits, value, strict=True)]
        return value if isinstance(value, tuple) and all(map(is_, found, value)) else tuple(found)

    return fit


def _fit_named_tuple(kind: Hint) -> _Fit:
    """Accepts a named tuple, or a plain tuple of its fields."""
    most, least = len(kind._fields), len(kind._fields) - len(kind._field_defaults)
    expected = f"{kind.__name__}({', '.join(kind._fields)})"

    def fit(value: object) -> object:
        if isinstance(value, kind):
            return value
        if not isinstance(value, (tuple, list)) or not least <= len(value) <= most:
            raise _Unfit(expected)
        return kind(*value)

    return fit


def _fit_mapping(expected: str, key: Hint, item: Hint) -> _Fit:
    """Accepts a mapping, or pairs with different keys."""
    keys, items = _fit(key), _fit(item)

    def fit(value: object) -> object:
        pairs = value.items() if isinstance(value, Mapping) else value
        if isinstance(pairs, _TEXTS) or not isinstance(pairs, Iterable):
            raise _Unfit(expected)
        found: dict[object, object] = {}
        for pair in pairs:
            if isinstance(pair, _TEXTS) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise _Unfit(expected)
            name = keys(pair[0])
            if name in found:
                raise _Unfit(f"{expected}: the key {quoted(str(name))} is given twice")
            found[name] = items(pair[1])
        return found

    return fit


def path_of(given: StrPath | None) -> str | None:
    """Returns the path `given` as text."""
    return None if given is None else os.fspath(given)


def fit_fields(instance: Hint) -> None:
    """Brings the fields of `instance`, a dataclass, into the form of their annotations.

    Raises:
        ArgumentError: a field has the wrong type.
    """
    kind: Hint = type(instance)
    _fit_all(kind.__name__, _fits_of(kind)[0], instance.__dict__)


def described(hint: Hint) -> str:
    """Returns the annotation `hint` for a message: ``a sequence of str or Node``."""
    origin, arms = _origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return "None"
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(described, arms)))
    if origin is Literal:
        return f"one of {', '.join(map(repr, arms))}"
    if origin is tuple and arms[1:] != (...,):
        return f"({', '.join(map(described, arms))})"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {described(arms[0])} to {described(arms[1])}"
    if origin in _SEQUENCES:
        return f"a sequence of {described(arms[0])}"
    if origin is Callable:
        return "a function"
    return str(getattr(hint, "__name__", "any value")) if hint is not object else "any value"


def pairs_of(given: Mapping[A, B] | Iterable[tuple[A, B]]) -> list[tuple[A, B]]:
    """Returns the pairs of a mapping or a sequence."""
    return list(given.items() if isinstance(given, Mapping) else given)
