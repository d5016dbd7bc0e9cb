"""What was asked of an edit: its name and its arguments, as they were before it began."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from inspect import signature
from typing import NamedTuple, ParamSpec, Protocol, TypeVar, cast

from gdsurgeon.graph.node import Node, Output

P = ParamSpec("P")
R = TypeVar("R")

_signature = cache(signature)
"""Looked up once: that takes longer than many an edit."""


class Asked(NamedTuple):
    """What was asked of an edit.

    Attributes:
        edit: the name of its function.
        arguments: what that was called with besides the graph, by name. Nodes and tensors are there by their names.
    """

    edit: str
    arguments: dict[str, object]


def edit(function: Callable[P, R]) -> Callable[P, R]:
    """Has the result of an edit say what was asked: of the outermost edit, where one is written on another."""

    @wraps(function)
    def asking(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = _signature(function).bind(*args, **kwargs)
        _, *keys = bound.arguments
        for key in keys:
            if isinstance(bound.arguments[key], Iterator):  # what can be walked once only is walked here
                bound.arguments[key] = list(bound.arguments[key])
        asked = Asked(function.__name__, {key: _spelt(bound.arguments[key]) for key in keys})
        result = function(*bound.args, **bound.kwargs)
        cast("_Answer", result).asked = asked
        return result

    return asking


class _Answer(Protocol):
    """What an edit returns, as far as it matters here."""

    asked: Asked | None


def _spelt(value: object) -> object:
    """VALUE with names in the place of nodes and tensors, which may be called otherwise later."""
    if isinstance(value, (Node, Output)):
        return value.name
    if isinstance(value, dict):
        return {_spelt(key): _spelt(item) for key, item in value.items()}
    if isinstance(value, (list, set, frozenset)) or type(value) is tuple:
        return tuple(_spelt(item) for item in value)
    return value
