"""``KEY/name`` names a signature's tensor in the arguments of an edit; a node of that name takes precedence.

So does ``name``, for a signature that was selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Concatenate, ParamSpec, Protocol

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.served import node_of, serving_of, tensor_meant

P = ParamSpec("P")
Meant = Callable[[str], str]
"""From what the user has written to the tensor that is meant."""
Naming = Callable[[Meant, object], object]
"""Has the names in an argument be those that are meant."""
Edit = Callable[Concatenate[Graph, P], EditResult]


class _Tuple(Protocol):
    def _replace(self, **fields: object) -> object: ...


def naming(**arguments: Naming) -> Callable[[Edit[P]], Edit[P]]:
    """Has ARGUMENTS of an edit, by name, hold the names that are meant, before anybody notes what was asked."""

    def naming_edit(function: Edit[P]) -> Edit[P]:
        @wraps(function)
        def resolving(graph: Graph, /, *args: P.args, **kwargs: P.kwargs) -> EditResult:
            serving = serving_of(graph)
            if serving is None:
                return function(graph, *args, **kwargs)
            bound = signature(function).bind(graph, *args, **kwargs)
            tensors, doubtful = serving.spellings, dict[str, str]()

            def meant(text: str) -> str:
                found = tensor_meant(graph, text)
                called = tensors.get(text, text)
                if found == text != called and parse_tensor(called).node != text:
                    doubtful[text] = called
                return found

            for key, resolve in arguments.items():
                if key in bound.arguments:
                    bound.arguments[key] = resolve(meant, bound.arguments[key])
            result = function(*bound.args, **bound.kwargs)
            for text, tensor in doubtful.items():
                result.warnings.append(
                    f"{quoted(text)} is both a node and a name in a signature for {quoted(tensor)}; the node is used"
                )
            return result

        return resolving

    return naming_edit


def of_tensors(meant: Meant, value: object) -> object:
    """Of a tensor, or of any number of them, in pairs perhaps."""
    if isinstance(value, str):
        return meant(value)
    if isinstance(value, Iterable):
        found = [of_tensors(meant, item) for item in value]
        return tuple(found) if isinstance(value, tuple) else found
    return value


def of_nodes(meant: Meant, value: object) -> object:
    """Of a node, or of any number of them: those of the tensors."""
    return of_tensors(lambda text: node_of(meant, text), value)


def of_olds(kind: Naming) -> Naming:
    """Of what comes first in each of several tuples, or of the keys of a mapping."""

    def resolve(meant: Meant, value: object) -> object:
        if isinstance(value, Mapping):
            return {kind(meant, key): item for key, item in value.items()}
        assert isinstance(value, Iterable)
        return [(kind(meant, first), *rest) for first, *rest in value]

    return resolve


def of_field(name: str, kind: Naming) -> Naming:
    """Of the field NAME of each of several named tuples."""

    def resolved(meant: Meant, item: _Tuple) -> object:
        return item._replace(**{name: kind(meant, getattr(item, name))})

    def resolve(meant: Meant, value: object) -> object:
        assert isinstance(value, Iterable)
        return [resolved(meant, item) for item in value]

    return resolve


def of_sites(meant: Meant, value: object) -> object:
    """Of a tensor, of any number of them, or of a selection."""
    from gdsurgeon.select import Selection

    return of_selection(meant, value) if isinstance(value, Selection) else of_tensors(meant, value)


def of_selection(meant: Meant, value: object) -> object:
    """Of a selection, its nodes and the ends of its walks; or of any number of nodes."""
    from gdsurgeon.select import Selection

    if not isinstance(value, Selection):
        return of_nodes(meant, value)
    return value.renamed(meant, lambda text: node_of(meant, text))
