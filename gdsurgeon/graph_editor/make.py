"""New nodes of the few kinds that edits need, and an empty graph to put some into."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.edits.replacing import add_placeholder, known_shapes
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.graph_editor.names import PLACEHOLDER_PREFIX, placeholder_name
from gdsurgeon.graph_editor.refusal import Refusal, WrongType, refusals
from gdsurgeon.ops.dtypes import NUMBERS, STRING, base_dtype, is_dtype
from gdsurgeon.wire.protos import AttrValue, TensorProto
from gdsurgeon.wire.scan import VERSIONS
from gdsurgeon.wire.source import BytesSource


def empty_graph(like: Graph, name: str = "<empty>") -> Graph:
    """A graph without nodes and functions that has the versions of LIKE, so that a copy of that means the same."""
    spans = like.store.fields(VERSIONS)
    data = b"".join(like.source.read(field.start, field.end - field.start) for field in spans)
    return Graph(BytesSource(data, name))


def dtype_number(dtype: object) -> int:
    """The DataType that DTYPE means: its number or name, or a dtype of TensorFlow or numpy.

    Raises:
        TypeError: it means none.
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


def make_placeholder(
    g: Graph, name: str, dtype: object, shape: Iterable[int | None] | None = None, uniquify_name: bool = False
) -> Node:
    """Adds a Placeholder.

    Args:
        g: changed in place.
        name: its name.
        dtype: see `dtype_number`.
        shape: its dimensions, None or -1 for an unknown one; None for an unknown rank.
        uniquify_name: take NAME_1, NAME_2, ... where NAME is taken, instead of refusing.

    Raises:
        TypeError: `dtype` is not a dtype.
        ValueError: the name is illegal or taken.
    """
    number = dtype_number(dtype)
    dims = None if shape is None else tuple(-1 if size is None else int(size) for size in shape)
    with refusals():
        return add_placeholder(g, g.unique_names()(name) if uniquify_name else name, number, dims)


def make_placeholder_from_tensor(
    g: Graph, t: Output, scope: str | None = None, prefix: str = PLACEHOLDER_PREFIX
) -> Node:
    """Adds a Placeholder that can replace the tensor `t`: with its dtype, and its shape as far as it is known.

    Args:
        g: changed in place; not necessarily the graph of T.
        t: the tensor.
        scope, prefix: see `placeholder_name`; a name that is taken is made unique.

    Raises:
        TypeError: T is no tensor.
        ValueError: the dtype of T is not known, or the name is illegal.
    """
    name = placeholder_name(t, scope, prefix)
    with refusals():
        check_typed(t)
        return make_placeholder(g, name, t.dtype, known_shapes(graph_of(t.node), [t])[t], uniquify_name=True)


def make_placeholder_from_dtype_and_shape(
    g: Graph,
    dtype: object,
    shape: Iterable[int | None] | None = None,
    scope: str | None = None,
    prefix: str = PLACEHOLDER_PREFIX,
) -> Node:
    """Adds a Placeholder that is called ``geph``, below SCOPE; see `make_placeholder`. A taken name is made unique."""
    return make_placeholder(g, placeholder_name(scope=scope, prefix=prefix), dtype, shape, uniquify_name=True)


def make_const(g: Graph, name: str, value: object, uniquify_name: bool = False) -> Node:
    """Adds a Const.

    Args:
        g: changed in place.
        name: its name.
        value: a numpy array, or anything that numpy makes an array of; Python's floats become float32 and its ints
            int32, as in TensorFlow.
        uniquify_name: take NAME_1, NAME_2, ... where NAME is taken, instead of refusing.

    Raises:
        TypeError: TensorFlow has no such elements.
        ValueError: the name is illegal or taken.
    """
    import numpy as np

    array = np.asarray(value)
    if not hasattr(value, "dtype") and array.dtype.name in ("float64", "int64"):
        array = array.astype({"f": np.float32, "i": np.int32}[array.dtype.kind])
    tensor = TensorProto()
    tensor.dtype = STRING if array.dtype.kind in "USO" else dtype_number(array.dtype)
    tensor.tensor_shape.SetInParent()
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if tensor.dtype == STRING:
        items = array.reshape(-1).tolist()
        tensor.string_val.extend(item.encode() if isinstance(item, str) else item for item in items)
    else:
        tensor.tensor_content = array.astype(array.dtype.newbyteorder("<")).tobytes()
    attr = AttrValue(tensor=tensor)
    attrs = {"dtype": type_value(tensor.dtype).SerializeToString(), "value": attr.SerializeToString()}
    with refusals():
        return g.add(g.unique_names()(name) if uniquify_name else name, "Const", attrs=attrs)


def make_identity(g: Graph, name: str, input: Output, uniquify_name: bool = False) -> Node:
    """Adds an Identity of the tensor INPUT.

    Raises:
        ValueError: INPUT is of another graph, its dtype is not known, or the name is illegal or taken.
    """
    if input.node.graph is not g:
        raise Refusal(
            f"{quoted(input.name)} belongs to a different graph", code="other-graph", facts={"tensor": input.name}
        )
    with refusals():
        check_typed(input)
        attrs = {"T": type_value(base_dtype(input.dtype)).SerializeToString()}
        return g.add(g.unique_names()(name) if uniquify_name else name, "Identity", [input], attrs=attrs)
