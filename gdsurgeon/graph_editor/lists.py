"""Nodes and tensors from whatever stands for several of them, and trees of such things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from copy import copy
from typing import Any, TypeAlias, TypeVar

from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.refusal import Refusal, WrongType
from gdsurgeon.graph_editor.view import Subgraph, consumers, node_outputs

Tree: TypeAlias = Any
"""An item, or a list, tuple or mapping of trees."""
T = TypeVar("T")


class ListView(Sequence[T]):
    """A sequence that cannot be changed; added to a list it gives a list.

    Raises:
        TypeError: it is not made of a list or a tuple.
    """

    def __init__(self, list_: Sequence[T]) -> None:
        if not isinstance(list_, (list, tuple)):
            raise WrongType("list", list_)
        self._items = tuple(list_)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __add__(self, other: Iterable[T]) -> list[T]:
        return [*self._items, *other]

    def __radd__(self, other: Iterable[T]) -> list[T]:
        return [*other, *self._items]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, (str, bytes)) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return f"ListView({list(self._items)})"


def is_iterable(obj: object) -> bool:
    """Whether OBJ can be iterated over; a node or a graph never counts as if it could."""
    if isinstance(obj, (Node, Graph)):
        return False
    try:
        iter(obj)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def concatenate_unique(la: list[T], lb: Iterable[T]) -> list[T]:
    """Appends to LA what of LB is not in it, each once; returns LA. The elements must be hashable."""
    la[:] = dict.fromkeys([*la, *lb])
    return la


def flatten_tree(tree: object, leaves: list[object] | None = None) -> list[object]:
    """The leaves of a TREE of mappings and other iterables, appended to LEAVES."""
    out = [] if leaves is None else leaves
    if isinstance(tree, MutableMapping):
        for child in tree.values():
            flatten_tree(child, out)
    elif _is_branch(tree):
        for child in tree:  # type: ignore[attr-defined]
            flatten_tree(child, out)
    else:
        out.append(tree)
    return out


def transform_tree(
    tree: Tree, fn: Callable[[Tree], Tree], iterable_type: Callable[[Iterable[Tree]], Tree] = tuple
) -> Tree:
    """A tree like TREE with FN of each leaf; mappings, named tuples, tuples and lists keep their types.

    Args:
        iterable_type: what other iterables become.
    """
    if isinstance(tree, MutableMapping):
        out = copy(tree)
        for key in out:
            out[key] = transform_tree(tree[key], fn)
        return out
    if not _is_branch(tree):
        return fn(tree)
    children = [transform_tree(child, fn) for child in tree]
    if isinstance(tree, tuple) and hasattr(tree, "_make"):
        return tree._make(children)
    return type(tree)(children) if isinstance(tree, (tuple, list)) else iterable_type(children)


def _is_branch(tree: object) -> bool:
    return is_iterable(tree) and not isinstance(tree, (str, bytes))


def get_unique_graph(
    tops: object, check_types: type | Iterable[type] | None = None, none_if_empty: bool = False
) -> Graph | None:
    """The graph of all TOPS (nodes and tensors), or TOPS itself where it is a graph.

    Args:
        tops: a graph, or nodes and tensors.
        check_types: the types that these may have; by default both.
        none_if_empty: return None for an empty list instead of raising.

    Raises:
        TypeError: an element is not of these types.
        ValueError: they belong to two graphs, or the list is empty.
    """
    if isinstance(tops, Graph):
        return tops
    if not is_iterable(tops):
        raise WrongType("iterable", tops)
    if check_types is None:
        check_types = (Node, Output)
    types = (check_types,) if isinstance(check_types, type) else tuple(check_types)
    items: list[Any] = list(tops)  # type: ignore[call-overload]
    wrong = [item for item in items if not isinstance(item, types)]
    if wrong:
        raise WrongType(" or ".join(t.__name__ for t in types), wrong[0])
    first: Node | Output | None = None
    for top in items:
        if first is None:
            first = top
        elif graph_of(top) is not graph_of(first):
            facts = {"name": top.name, "expected": first.name}
            raise Refusal(f"{quoted(first.name)} and {quoted(top.name)} belong to different graphs", code="other-graph",
                          facts=facts)  # fmt: skip
    if first is None and not none_if_empty:
        raise Refusal("nothing is given, so no graph can be determined", code="nothing-selected")
    return None if first is None else graph_of(first)


def check_graphs(*args: Subgraph | Node | Output) -> None:
    """Raises ValueError where the arguments belong to two graphs; a view of nothing belongs to all."""
    graph: Graph | None = None
    for i, item in enumerate(args):
        other = item.graph if isinstance(item, Subgraph) else graph_of(item)
        if graph is not None and other is not None and other is not graph:
            raise Refusal(
                f"argument {i} belongs to a different graph: {printable(graph.source_name)} and "
                f"{printable(other.source_name)}",
                code="other-graph",
                facts={"value": i},
            )
        graph = graph or other


def make_list_of_op(
    ops: object, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False
) -> list[Node]:
    """OPS as a list of nodes: a graph, a node, or several.

    Args:
        check_graph: whether they must be of one graph.
        allow_graph: whether OPS may be a graph, which stands for its nodes.
        ignore_ts: pass over tensors.

    Raises:
        TypeError: something else is among them.
        ValueError: they are of two graphs.
    """
    if isinstance(ops, Graph):
        if not allow_graph:
            raise WrongType("Node", ops)
        return list(ops.nodes())
    return [item for item in _items(ops, Node, check_graph, ignore_ts) if isinstance(item, Node)]


def make_list_of_t(
    ts: object, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False
) -> list[Output]:
    """TS as a list of tensors: a graph, a tensor, or several; see `make_list_of_op`."""
    if isinstance(ts, Graph):
        if not allow_graph:
            raise WrongType("Output", ts)
        return get_tensors(ts)
    return [item for item in _items(ts, Output, check_graph, ignore_ops) if isinstance(item, Output)]


def _items(given: object, kind: type, check_graph: bool, ignore_others: bool) -> list[object]:
    items: list[object] = list(given) if is_iterable(given) else [given]  # type: ignore[call-overload]
    types = (Node, Output) if ignore_others else (kind,)
    for item in items:
        if not isinstance(item, types):
            raise WrongType(kind.__name__, item)
    if check_graph:
        get_unique_graph(items, types, none_if_empty=True)
    return items


def get_tensors(graph: Graph) -> list[Output]:
    """All tensors of GRAPH, node by node."""
    return [output for node in graph.nodes() for output in node_outputs(node)]


def get_generating_ops(ts: object) -> list[Node]:
    """For each of the tensors TS the node that gives it. Raises as `make_list_of_t` does."""
    return [tensor.node for tensor in make_list_of_t(ts, allow_graph=False)]


def get_consuming_ops(ts: object) -> list[Node]:
    """The nodes that read one of the tensors TS, each once. Raises as `make_list_of_t` does."""
    tensors = make_list_of_t(ts, allow_graph=False)
    return list(dict.fromkeys(node for tensor in tensors for node in consumers(tensor)))
