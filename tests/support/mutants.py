"""Mistakes planted in the code: a module's source with a text replaced, in force for as long as a test needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from inspect import getsource, unwrap
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

from gdsurgeon.analysis.checks.check import check_edited
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.accounting import check_accounted

Case = Callable[[], tuple[Graph, EditResult]]
"""An edit of a graph on which a mistake has an effect."""


class Mutant(NamedTuple):
    """A mistake.

    Attributes:
        mistake: in words.
        module: where it is, below ``gdsurgeon``.
        old, new: the text, which stands in the module's source once, and what is there instead.
        case: an edit that goes wrong with it.
    """

    mistake: str
    module: str
    old: str
    new: str
    case: Case


def account(case: Case) -> None:
    """Makes an edit, and all the checks that take no TensorFlow; raises ValidationError where it is found wrong."""
    graph, result = case()
    chunks = graph.chunks()
    faults = check_edited(graph)
    if faults:
        raise ValidationError("faults:", details=tuple(faults))
    check_accounted(graph, result, chunks)


def check_caught(mutant: Mutant) -> None:
    """Asserts that the edit is in order, and is refused as wrong with the mistake in it."""
    account(mutant.case)
    with planted(mutant), pytest.raises(ValidationError):
        account(mutant.case)


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Has the functions of the mutant's module do what they do with the mistake in it, whoever has imported them."""
    module = import_module(f"gdsurgeon.{mutant.module}")
    source = getsource(module)
    assert source.count(mutant.old) == 1, f"stands {source.count(mutant.old)} times in {mutant.module}: {mutant.old}"
    wrong = ModuleType(module.__name__)
    wrong.__file__ = module.__file__
    exec(compile(source.replace(mutant.old, mutant.new), "<mutant>", "exec"), vars(wrong))
    exchanged = [(mine, mine.__code__) for mine, its in _pairs(module, wrong) if mine.__code__ != its.__code__]
    for mine, its in _pairs(module, wrong):
        mine.__code__ = its.__code__
    try:
        yield
    finally:
        for function, code in exchanged:
            function.__code__ = code


def _pairs(module: ModuleType, wrong: ModuleType) -> Iterator[tuple[FunctionType, FunctionType]]:
    """The functions and methods of a module with their counterparts in its copy."""
    pending = [(vars(module), vars(wrong))]
    for mine, its in pending:  # grows while it is walked
        for name, value in list(mine.items()):
            if isinstance(value, type) and value.__module__ == module.__name__ and isinstance(its[name], type):
                pending.append((dict(vars(value)), dict(vars(its[name]))))
            function, counterpart = _function(value), _function(its.get(name))
            if function is not None and counterpart is not None and counterpart.__code__.co_filename == "<mutant>":
                yield function, counterpart


def _function(value: Any) -> FunctionType | None:
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, cached_property):
        value = value.func
    elif isinstance(value, (classmethod, staticmethod)):
        value = value.__func__
    value = unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None
