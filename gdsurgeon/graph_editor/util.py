"""Lists and trees of nodes and tensors, their names, control outputs, and new nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from copy import copy
from typing import Any, TypeAlias, TypeVar

from gdsurgeon.edits.control_edges import control_outputs
from gdsurgeon.edits.replacing import add_identity, add_placeholder, known_shapes
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import raw_value, tensor_value
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.graph.records import VERSIONS
from gdsurgeon.ops.dtypes import NUMBERS, STRING, is_dtype
from gdsurgeon.text import an
from gdsurgeon.wire.source import BytesSource

__all__ = [
    "ControlOutputs", "ListView", "Refusal", "check_graphs", "empty_graph", "find_corresponding",
    "find_corresponding_elem", "get_consuming_ops", "get_generating_ops", "get_tensors", "get_unique_graph",
    "is_iterable", "lookup", "make_const", "make_identity", "make_list_of_op", "make_list_of_t", "make_placeholder",
    "make_placeholder_from_dtype_and_shape", "make_placeholder_from_tensor", "placeholder_name", "scope_basename",
    "scope_dirname", "scope_finalize",
]  # fmt: skip

Tree: TypeAlias = Any
"""An item, or a list, tuple or mapping of trees."""
T = TypeVar("T")

PLACEHOLDER_PREFIX = "geph"
"""The beginning of the names of new placeholders: graph editor placeholder."""


Refusal = EditError
"""The arguments contradict each other, or the edit is not possible; nothing was changed."""


class WrongType(EditError, TypeError):
    """An argument does not have the type `expected`; nothing was changed."""

    def __init__(self, expected: str, argument: object) -> None:
        found = type(argument).__name__
        shown = printable(repr(argument)) if isinstance(argument, (str, int, float, type(None))) else an(found)
        line = f"{an(expected)} is expected, not {shown}"
        super().__init__(line, code="wrong-type", expected=expected, found=found)


def check_type(argument: object, kind: type) -> None:
    """Raises TypeError if `argument` is not a `kind`."""
    if not isinstance(argument, kind):
        raise WrongType(kind.__name__, argument)


# -- lists and trees ---------------------------------------------------------------------------------------


class ListView(tuple[T, ...]):
    """A sequence that cannot be changed; the sum of a view and a list is a list.

    Raises:
        TypeError: the argument is neither a list nor a tuple.
    """

    def __new__(cls, list_: Sequence[T]) -> ListView[T]:
        if not isinstance(list_, (list, tuple)):
            raise WrongType("list", list_)
        return super().__new__(cls, list_)

    def __add__(self, other: Iterable[T]) -> list[T]:  # type: ignore[override]
        return [*self, *other]

    def __radd__(self, other: Iterable[T]) -> list[T]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, (str, bytes)) and list(self) == list(other)

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        return f"ListView({list(self)})"


def is_iterable(obj: object) -> bool:
    """Returns whether `obj` is iterable; nodes and graphs do not count as iterable."""
    if isinstance(obj, (Node, Graph)):
        return False
    try:
        iter(obj)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def concatenate_unique(la: list[T], lb: Iterable[T]) -> list[T]:
    """Appends to `la` the elements of `lb` that it does not contain, each once; returns `la`."""
    la[:] = dict.fromkeys([*la, *lb])
    return la


def flatten_tree(tree: object, leaves: list[object] | None = None) -> list[object]:
    """Returns the leaves of a tree of mappings and other iterables, appended to `leaves`."""
    out = [] if leaves is None else leaves
    transform_tree(tree, out.append)
    return out


def transform_tree(
    tree: Tree, fn: Callable[[Tree], Tree], iterable_type: Callable[[Iterable[Tree]], Tree] = tuple
) -> Tree:
    """Returns a tree like `tree`, with the result of `fn` for each leaf.

    Mappings, named tuples, tuples and lists keep their types; `iterable_type` is the type of other iterables.
    """
    if isinstance(tree, MutableMapping):
        out = copy(tree)
        for key in out:
            out[key] = transform_tree(tree[key], fn)
        return out
    if not is_iterable(tree) or isinstance(tree, (str, bytes)):
        return fn(tree)
    children = [transform_tree(child, fn) for child in tree]
    if isinstance(tree, tuple) and hasattr(tree, "_make"):
        return tree._make(children)
    return type(tree)(children) if isinstance(tree, (tuple, list)) else iterable_type(children)


def check_one_graph(items: Sequence[Node | Output]) -> None:
    """Raises ValueError if nodes and tensors belong to different graphs."""
    for item in items:
        if graph_of(item) is not graph_of(items[0]):
            raise EditError(
                f"{quoted(items[0].name)} and {quoted(item.name)} belong to different graphs",
                code="other-graph",
                name=item.name,
                expected=items[0].name,
            )


def get_unique_graph(
    tops: object, check_types: type | Iterable[type] | None = None, none_if_empty: bool = False
) -> Graph | None:
    """Returns the graph of all `tops`.

    Args:
        tops: a graph, which is returned, or nodes and tensors.
        check_types: the allowed types of elements; by default nodes and tensors.
        none_if_empty: return None for an empty list instead of an error.

    Raises:
        TypeError: an element has a different type.
        ValueError: the elements belong to different graphs, or the list is empty.
    """
    if isinstance(tops, Graph):
        return tops
    if not is_iterable(tops):
        raise WrongType("iterable", tops)
    types = (check_types,) if isinstance(check_types, type) else tuple(check_types or (Node, Output))
    items = _typed(tops, types, " or ".join(kind.__name__ for kind in types))
    check_one_graph(items)
    if not items and not none_if_empty:
        raise EditError("nothing is given, so no graph can be determined", code="nothing-selected")
    return graph_of(items[0]) if items else None


def _typed(given: Any, types: tuple[type, ...], expected: str) -> list[Any]:
    """Returns one item or several as a list. Raises TypeError if one has none of the `types`."""
    items = list(given) if is_iterable(given) else [given]
    for item in items:
        if not isinstance(item, types):
            raise WrongType(expected, item)
    return items


def check_graphs(*args: Any) -> None:
    """Raises ValueError if views, nodes and tensors belong to different graphs. An empty view belongs to any graph."""
    graphs = [graph_of(arg) if isinstance(arg, (Node, Output)) else arg.graph for arg in args]
    first = next((graph for graph in graphs if graph is not None), None)
    for number, graph in enumerate(graphs):
        if first is not None and graph is not None and graph is not first:
            names = f"{printable(first.source_name)} and {printable(graph.source_name)}"
            line = f"argument {number} belongs to a different graph: {names}"
            raise EditError(line, code="other-graph", value=number)


def make_list_of_op(
    ops: object, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False
) -> list[Node]:
    """Returns `ops` as a list of nodes.

    Args:
        ops: a graph, a node, or several nodes.
        check_graph: check that all belong to one graph.
        allow_graph: allow a graph, which stands for its nodes.
        ignore_ts: ignore tensors.

    Raises:
        TypeError: an element has a different type.
        ValueError: the elements belong to different graphs.
    """
    return _list_of(Node, ops, check_graph, allow_graph, ignore_ts)


def make_list_of_t(
    ts: object, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False
) -> list[Output]:
    """Returns `ts` as a list of tensors; see `make_list_of_op`."""
    return _list_of(Output, ts, check_graph, allow_graph, ignore_ops)


def _list_of(kind: type[T], given: object, check_graph: bool, allow_graph: bool, ignore_others: bool) -> list[T]:
    if isinstance(given, Graph) and allow_graph:
        given = given.nodes() if kind is Node else get_tensors(given)
    items = _typed(given, (Node, Output) if ignore_others else (kind,), kind.__name__)
    if check_graph:
        check_one_graph(items)
    return [item for item in items if isinstance(item, kind)]


# -- neighbours --------------------------------------------------------------------------------------------


def node_outputs(node: Node) -> list[Output]:
    """Returns the output tensors of `node`; for an unknown op, the first one and those with consumers."""
    if (count := node.output_count) is not None:
        return [Output(node, index) for index in range(count)]
    read = (output.index for user in node.graph.users(node) for output in user.inputs if output.node is node)
    return [Output(node, index) for index in sorted({0, *read})]


def consumers(tensor: Output) -> list[Node]:
    """Returns the nodes that read `tensor`, each once."""
    return [user for user in tensor.node.graph.users(tensor.node) if tensor in user.inputs]


def get_tensors(graph: Graph) -> list[Output]:
    """Returns all tensors of `graph`, node by node."""
    return [output for node in graph.nodes() for output in node_outputs(node)]


def get_generating_ops(ts: object) -> list[Node]:
    """Returns the producer of each of the tensors `ts`. For errors see `make_list_of_t`."""
    return [tensor.node for tensor in make_list_of_t(ts, allow_graph=False)]


def get_consuming_ops(ts: object) -> list[Node]:
    """Returns the consumers of the tensors `ts`, each once. For errors see `make_list_of_t`."""
    tensors = make_list_of_t(ts, allow_graph=False)
    return list(dict.fromkeys(node for tensor in tensors for node in consumers(tensor)))


class ControlOutputs:
    """The control outputs of each node, always those of the present graph.

    Raises:
        TypeError: the argument is not a graph.
    """

    def __init__(self, graph: Graph) -> None:
        check_type(graph, Graph)
        self._graph = graph

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    def update(self) -> ControlOutputs:
        """Returns itself: the table is always up to date."""
        return self

    def get(self, op: Node) -> list[Node]:
        """Returns the nodes with a control dependency on `op`, each once."""
        return [user for user in self._graph.users(op) if op in user.controls]

    def get_all(self) -> dict[Node, list[Node]]:
        """Returns the control outputs of each node that has any, in linear time."""
        return control_outputs(self._graph)


# -- names -------------------------------------------------------------------------------------------------


def scope_finalize(scope: str) -> str:
    """Returns `scope` with a slash at the end; '' stays empty."""
    return scope + "/" if scope and not scope.endswith("/") else scope


def scope_dirname(scope: str) -> str:
    """Returns a name without its last part: ``foo/bar/`` for ``foo/bar/op``."""
    return scope[: scope.rfind("/") + 1]


def scope_basename(scope: str) -> str:
    """Returns the last part of a name: ``op`` for ``foo/bar/op``."""
    return scope[scope.rfind("/") + 1 :]


def tensor_name(tensor: Output) -> str:
    """Returns ``node:index``, also for output 0: regular expressions for tensors are searched in this form."""
    return f"{tensor.node.name}:{tensor.index}"


def placeholder_name(t: Output | None = None, scope: str | None = None, prefix: str = PLACEHOLDER_PREFIX) -> str:
    """Returns the name of a placeholder that replaces a tensor: ``foo/geph__b_0`` for output 0 of ``foo/b``.

    Args:
        t: the tensor; None for a placeholder that replaces no tensor.
        scope: the new scope; None keeps the scope of `t`, '' is the root.
        prefix: the beginning of the last part; a name that already has it stays.

    Raises:
        TypeError: `t` is not a tensor.
    """
    if t is None:
        return scope_finalize(scope or "") + prefix
    check_type(t, Output)
    base = scope_basename(t.node.name)
    if not base.startswith(prefix + "__"):
        base = f"{prefix}__{base}_{t.index}"
    return (scope_dirname(t.node.name) if scope is None else scope_finalize(scope)) + base


def lookup(graph: Graph, name: str) -> Node | Output:
    """Returns the node `name`, or if there is no such node, the tensor of that name (``node:0``).

    Raises:
        ValueError: there is neither, or the name is not valid.
    """
    if name.startswith("^"):
        message = f"{quoted(name)} is a control input, which is neither a node nor a tensor"
        raise EditError(message, code="bad-tensor-name", tensor=name)
    return graph.find(name) or (graph.tensor(name) if ":" in name else graph[name])


def find_corresponding_elem(target: Node | Output, dst_graph: Graph, dst_scope: str = "", src_scope: str = "") -> Any:
    """Returns the node or tensor of `dst_graph` with the name of `target`, under `dst_scope` instead of `src_scope`.

    Raises:
        TypeError: `target` is neither a node nor a tensor.
        ValueError: `target` is not under `src_scope`, or `dst_graph` has no such node or tensor.
    """
    if not isinstance(target, (Node, Output)):
        raise WrongType("Node or Output", target)
    node = target if isinstance(target, Node) else target.node
    name = moved_name(node.name, src_scope, dst_scope)
    return lookup(dst_graph, name if isinstance(target, Node) else f"{name}:{target.index}")


def find_corresponding(targets: Any, dst_graph: Graph, dst_scope: str = "", src_scope: str = "") -> Any:
    """Returns the result of `find_corresponding_elem` for each leaf of a tree."""
    return transform_tree(targets, lambda target: find_corresponding_elem(target, dst_graph, dst_scope, src_scope))


def moved_name(name: str, src_scope: str, dst_scope: str) -> str:
    """Returns `name` under `dst_scope` instead of `src_scope`. The node with the name of the scope belongs to it.

    Raises:
        ValueError: `name` is not under `src_scope`.
    """
    before, after = scope_finalize(src_scope), scope_finalize(dst_scope)
    if name.startswith(before):
        return after + name[len(before) :]
    scope = before[:-1]
    if name == scope and after:
        return after[:-1]
    line = f"{quoted(name)} is not in the scope {quoted(scope)}"
    raise EditError(line, code="outside-scope", node=name, scope=scope)


# -- new nodes ---------------------------------------------------------------------------------------------


def empty_graph(like: Graph, name: str = "<empty>") -> Graph:
    """Returns a graph without nodes and functions. It has the versions of `like`, so copied nodes mean the same."""
    spans = like.store.fields(VERSIONS)
    data = b"".join(like.source.read(field.start, field.end - field.start) for field in spans)
    return Graph(BytesSource(data, name))


def dtype_number(dtype: object) -> int:
    """Returns the DataType for a number, a name, or a dtype of TensorFlow or NumPy.

    Raises:
        TypeError: `dtype` is not a data type.
    """
    if isinstance(dtype, int) and is_dtype(dtype):
        return dtype
    number = getattr(dtype, "as_datatype_enum", None)
    if isinstance(number, int):
        return number
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", "")
    if name in NUMBERS:
        return NUMBERS[name]
    raise WrongType("data type", dtype)


def _name(g: Graph, name: str, uniquify_name: bool) -> str:
    return g.unique_names()(name) if uniquify_name else name


def make_placeholder(
    g: Graph, name: str, dtype: object, shape: Iterable[int | None] | None = None, uniquify_name: bool = False
) -> Node:
    """Adds a Placeholder.

    Args:
        g: changed in place.
        name: its name.
        dtype: see `dtype_number`.
        shape: its dimensions, None or -1 for an unknown dimension; None for an unknown rank.
        uniquify_name: if the name is taken, use NAME_1, NAME_2, ... instead of raising an error.

    Raises:
        TypeError: `dtype` is not a dtype.
        ValueError: the name is illegal or taken.
    """
    number = dtype_number(dtype)
    dims = None if shape is None else tuple(-1 if size is None else int(size) for size in shape)
    return add_placeholder(g, _name(g, name, uniquify_name), number, dims)


def make_placeholder_from_tensor(
    g: Graph, t: Output, scope: str | None = None, prefix: str = PLACEHOLDER_PREFIX
) -> Node:
    """Adds a Placeholder that can replace the tensor `t`: with its dtype, and its shape if it is known.

    Args:
        g: changed in place; not necessarily the graph of `t`.
        t: the tensor.
        scope, prefix: see `placeholder_name`; a name that is taken is made unique.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: the dtype of `t` is unknown, or the name is illegal.
    """
    name = placeholder_name(t, scope, prefix)
    check_typed(t)
    return make_placeholder(g, name, t.dtype, known_shapes(graph_of(t.node), [t])[t], uniquify_name=True)


def make_placeholder_from_dtype_and_shape(
    g: Graph,
    dtype: object,
    shape: Iterable[int | None] | None = None,
    scope: str | None = None,
    prefix: str = PLACEHOLDER_PREFIX,
) -> Node:
    """Adds a Placeholder with the name ``geph`` (made unique) under `scope`; see `make_placeholder`."""
    return make_placeholder(g, placeholder_name(scope=scope, prefix=prefix), dtype, shape, uniquify_name=True)


def make_const(g: Graph, name: str, value: object, uniquify_name: bool = False) -> Node:
    """Adds a Const.

    Args:
        g: changed in place.
        name: its name.
        value: a NumPy array, or a value that NumPy converts to an array; Python's floats become float32 and its ints
            int32, as in TensorFlow.
        uniquify_name: see `make_placeholder`.

    Raises:
        TypeError: TensorFlow does not support such elements.
        ValueError: the name is illegal or taken.
    """
    import numpy as np

    array = np.asarray(value)
    if not hasattr(value, "dtype") and array.dtype.name in ("float64", "int64"):
        array = array.astype({"f": np.float32, "i": np.int32}[array.dtype.kind])
    if array.dtype.kind in "USO":
        items = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
        tensor = tensor_value(STRING, array.shape, items)
    else:
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        tensor = raw_value(dtype_number(array.dtype), array.shape, data)
    attrs = {"dtype": type_value(tensor.tensor.dtype), "value": tensor}
    return g.add(_name(g, name, uniquify_name), "Const", attrs=attrs)


def make_identity(g: Graph, name: str, input: Output, uniquify_name: bool = False) -> Node:
    """Adds an Identity of the tensor `input`.

    Raises:
        ValueError: `input` belongs to a different graph, its dtype is unknown, or the name is illegal or taken.
    """
    if input.node.graph is not g:
        line = f"{quoted(input.name)} belongs to a different graph"
        raise EditError(line, code="other-graph", tensor=input.name)
    check_typed(input)
    return add_identity(g, _name(g, name, uniquify_name), [input])
