"""The decorator of edits: it checks arguments, resolves the names of a model, and records the request.

``KEY/name`` means a tensor of a signature in the arguments of an edit; a node of that name takes precedence. The same
is true for ``name``, for a selected signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Protocol

from gdsurgeon.arguments import public
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import EditError, NothingToDo, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import node_of, serving_of, tensor_meant
from gdsurgeon.specification.specify import Asked

P = ParamSpec("P")
Resolver = Callable[[str], str]
"""Returns the tensor that a name of the user means."""
Naming = Callable[[Resolver, Any], object]
"""Resolves the names in an argument."""
Edit = Callable[Concatenate[Graph, P], EditResult]

_signature = cache(signature)
"""Cached, because it takes longer than many an edit."""


class _Tuple(Protocol):
    def _replace(self, **fields: object) -> object: ...


def edit(*, select: str = "", **arguments: Naming) -> Callable[[Edit[P]], Edit[P]]:
    """Makes a function an edit: see `public`; names in `arguments` are resolved, and the result has the request.

    The function gets the argument `select` as a `NodeList`; it is an error if no node is selected. If an edit calls a
    different edit, its result has the request of the outermost edit.
    """
    if select:
        arguments[select] = of_selection

    def decorate(function: Edit[P]) -> Edit[P]:
        @wraps(function)
        def run(graph: Graph, /, *args: P.args, **kwargs: P.kwargs) -> EditResult:
            bound = _signature(function).bind(graph, *args, **kwargs)
            given, ambiguous = bound.arguments, _resolve(graph, bound.arguments, arguments)
            _, *keys = given
            for key in keys:
                if isinstance(given[key], Iterator):  # an iterator can be used only once
                    given[key] = list(given[key])
            asked = Asked(function.__name__, {key: _spelt(given[key]) for key in keys})
            if select:
                from gdsurgeon.select import NodeList, nodes_of

                try:
                    given[select] = NodeList(nodes_of(graph, given[select]))
                except NothingToDo as error:  # a graph without the edit is not the requested result
                    raise EditError(error.message, code=error.code, facts=error.facts) from error
            result = function(*bound.args, **bound.kwargs)
            result.asked = asked
            for text, tensor in ambiguous.items():
                line = f"{quoted(text)} is both a node and a name in a signature for {quoted(tensor)}; the node is used"
                result.warnings.append(line)
            return result

        return public(run)

    return decorate


def _resolve(graph: Graph, given: dict[str, object], arguments: Mapping[str, Naming]) -> dict[str, str]:
    """Resolves names in `given`. Returns the names that are nodes and also mean a different tensor of a signature."""
    ambiguous: dict[str, str] = {}
    serving = serving_of(graph)
    if serving is None:
        return ambiguous
    tensors = serving.spellings

    def resolver(text: str) -> str:
        found = tensor_meant(graph, text)
        called = tensors.get(text, text)
        if found == text != called and parse_tensor(called).node != text:
            ambiguous[text] = called
        return found

    for key, resolve in arguments.items():
        if key in given:
            given[key] = resolve(resolver, given[key])
    return ambiguous


def _spelt(value: object) -> object:
    """Returns `value` with names instead of nodes and tensors, whose names may change later."""
    if isinstance(value, (Node, Output)):
        return value.name
    if isinstance(value, dict):
        return {_spelt(key): _spelt(item) for key, item in value.items()}
    if isinstance(value, (list, set, frozenset)) or type(value) is tuple:
        return tuple(_spelt(item) for item in value)
    return value


# -- the kinds of arguments with names ---------------------------------------------------------------------


def of_tensors(resolver: Resolver, value: object) -> object:
    """Resolves a tensor, or several, also in pairs."""
    if isinstance(value, str):
        return resolver(value)
    if isinstance(value, Iterable):
        found = [of_tensors(resolver, item) for item in value]
        return tuple(found) if isinstance(value, tuple) else found
    return value


def of_nodes(resolver: Resolver, value: object) -> object:
    """Resolves a node, or several: the producers of the tensors."""
    return of_tensors(lambda text: node_of(resolver, text), value)


def of_olds(kind: Naming) -> Naming:
    """Resolves the first item of each of several tuples, or the keys of a mapping."""

    def resolve(resolver: Resolver, value: Any) -> object:
        if isinstance(value, Mapping):
            return {kind(resolver, key): item for key, item in value.items()}
        return [(kind(resolver, first), *rest) for first, *rest in value]

    return resolve


def of_field(name: str, kind: Naming) -> Naming:
    """Resolves the field `name` of each of several named tuples."""

    def resolve(resolver: Resolver, value: Iterable[_Tuple]) -> object:
        return [item._replace(**{name: kind(resolver, getattr(item, name))}) for item in value]

    return resolve


def of_selection(resolver: Resolver, value: object) -> object:
    """Resolves a selection, its nodes and the ends of its walks; or nodes."""
    from gdsurgeon.select import Selection

    if not isinstance(value, Selection):
        return of_nodes(resolver, value)
    return value.renamed(resolver, lambda text: node_of(resolver, text))


def of_sites(resolver: Resolver, value: object) -> object:
    """Resolves a tensor, several, or a selection."""
    from gdsurgeon.select import Selection

    return (of_selection if isinstance(value, Selection) else of_tensors)(resolver, value)
