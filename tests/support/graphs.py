"""Graphs for tests: a few words that make GraphDefs as bytes, views to compare them by, and random ones."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from hypothesis import strategies as st

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.fields import encode_len, encode_varint
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.node_record import encode_node
from gdsurgeon.wire.write import read_chunks
from support.drawing import below, pick, pick_some, shuffled

Value = bytes | bool | int | float | str | tuple[int, ...] | list[str]


def dtype(number: int) -> bytes:
    """An AttrValue that holds a DataType."""
    return b"\x30" + encode_varint(number)


FLOAT, DOUBLE, INT32, UINT8, STRING, INT64, BOOL, RESOURCE = (dtype(n) for n in (1, 2, 3, 4, 7, 9, 10, 20))


def dtypes(*values: bytes) -> bytes:
    """An AttrValue that holds a list of the DataTypes VALUES."""
    return encode_len(1, b"".join(b"\x30" + value[1:] for value in values))


def func(name: str, **attrs: Value) -> bytes:
    """An AttrValue that holds a function."""
    entries = [encode_len(2, encode_len(1, k.encode()) + encode_len(2, attr(v))) for k, v in attrs.items()]
    return encode_len(10, encode_len(1, name.encode()) + b"".join(entries))


def shape_proto(shape: Sequence[int] | None) -> bytes:
    if shape is None:
        return b"\x18\x01"
    return b"".join(encode_len(2, b"\x08" + encode_varint(size) if size else b"") for size in shape)


def attr(value: Value | None) -> bytes:
    """An AttrValue: bytes are one already, a tuple is a shape, a list is one of strings, None an unknown rank."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"\x28" + bytes([value])
    if isinstance(value, int):
        return b"\x18" + encode_varint(value)
    if isinstance(value, float):
        return b"\x25" + struct.pack("<f", value)
    if isinstance(value, str):
        return encode_len(2, value.encode())
    if isinstance(value, list):
        return encode_len(1, b"".join(encode_len(2, text.encode()) for text in value))
    return encode_len(7, shape_proto(value))


def node(name: str, op: str, inputs: Iterable[str] = (), *, device: str = "", **attrs: Value | None) -> bytes:
    """The record of a node, with its tag."""
    return encode_len(1, encode_node(name, op, inputs, device, {k: attr(v) for k, v in attrs.items()}))


def placeholder(name: str, kind: bytes = FLOAT, shape: tuple[int, ...] | None = None) -> bytes:
    return node(name, "Placeholder", dtype=kind, shape=shape)


def tensor(values: Sequence[float], kind: bytes = FLOAT, shape: Sequence[int] | None = None) -> bytes:
    """An AttrValue that holds a tensor, of float32 or int32."""
    dims = [len(values)] if shape is None else shape
    content = struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'i'}", *values)
    return encode_len(8, b"\x08" + kind[1:] + encode_len(2, shape_proto(dims)) + encode_len(4, content))


def const(
    name: str,
    values: Sequence[float],
    kind: bytes = FLOAT,
    shape: Sequence[int] | None = None,
    **attrs: Value | None,
) -> bytes:
    return node(name, "Const", dtype=kind, value=tensor(values, kind, shape), **attrs)


def scalar(name: str, value: float, kind: bytes = FLOAT) -> bytes:
    return const(name, [value], kind, ())


def identity(name: str, source: str, *controls: str, kind: bytes = FLOAT, **attrs: Value | None) -> bytes:
    return node(name, "Identity", [source, *controls], T=kind, **attrs)


def add(name: str, a: str, b: str, *controls: str, kind: bytes = FLOAT, **attrs: Value | None) -> bytes:
    return node(name, "AddV2", [a, b, *controls], T=kind, **attrs)


def versions(producer: int) -> bytes:
    return encode_len(4, b"\x08" + encode_varint(producer))


VERSIONS = versions(1882)


def library(*functions: Any, gradients: Mapping[str, str] | None = None) -> bytes:
    """The library field with FunctionDef messages, and gradients as (function, its gradient)."""
    out = message("tensorflow.FunctionDefLibrary")()
    out.function.extend(functions)
    for name, gradient in (gradients or {}).items():
        out.gradient.add(function_name=name, gradient_func=gradient)
    return encode_len(2, out.SerializeToString(deterministic=True))


def function(name: str, *body: bytes, ret: str = "") -> Any:
    """A FunctionDef from float `x` to float `out`, with the node records BODY; it returns RET, or output 0 of `y`."""
    out = message("tensorflow.FunctionDef")()
    out.signature.name = name
    out.signature.input_arg.add(name="x", type=1)
    out.signature.output_arg.add(name="out", type=1)
    out.node_def.extend(proto(*body, trailer=b"").node)
    out.ret["out"] = ret or f"y:{_first_output(out.node_def)}:0"
    return out


def _first_output(nodes: Any) -> str:
    definitions = [op_def(n.op) for n in nodes if n.name == "y"]
    return next((d.outputs[0].name for d in definitions if d is not None and d.outputs), "y")


def graph_bytes(*records: bytes, trailer: bytes = VERSIONS) -> bytes:
    return b"".join(records) + trailer


def graph(*records: bytes, trailer: bytes = VERSIONS, name: str = "model.pb") -> Graph:
    return from_bytes(graph_bytes(*records, trailer=trailer), name)


def proto(*records: bytes, trailer: bytes = VERSIONS) -> Any:
    return message("tensorflow.GraphDef").FromString(graph_bytes(*records, trailer=trailer))


# Views of a graph.


def written(what: Graph | bytes) -> bytes:
    """The bytes that a graph comes to."""
    return what if isinstance(what, bytes) else read_chunks(what.chunks())


def parsed(what: Graph | bytes) -> Any:
    """The GraphDef message that protobuf makes of a graph's bytes."""
    return message("tensorflow.GraphDef").FromString(written(what))


def names(what: Graph | bytes) -> list[str]:
    return [n.name for n in parsed(what).node]


def inputs(what: Graph | bytes) -> dict[str, list[str]]:
    """The inputs of each node as they are spelt."""
    return {n.name: list(n.input) for n in parsed(what).node}


def ops(what: Graph | bytes) -> dict[str, str]:
    return {n.name: n.op for n in parsed(what).node}


def attrs(what: Graph | bytes, name: str) -> dict[str, Any]:
    """The AttrValues of node NAME."""
    (found,) = [n for n in parsed(what).node if n.name == name]
    return dict(found.attr)


def colocations(what: Graph | bytes) -> dict[str, list[bytes]]:
    return {n.name: list(n.attr["_class"].list.s) for n in parsed(what).node if "_class" in n.attr}


@cache
def _envelope() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="tests/envelope.proto", package="tests", syntax="proto3")
    entry = file.message_type.add(name="Envelope")
    entry.field.add(name="node", number=1, type=field.TYPE_BYTES, label=field.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tests.Envelope"))


def bodies(what: Graph | bytes) -> list[bytes]:
    """The NodeDefs of a graph as they are encoded, in order; found by protobuf and not by the code under test."""
    return list(_envelope().FromString(written(what)).node)


def bodies_by_name(what: Graph | bytes) -> dict[str, bytes]:
    make = message("tensorflow.NodeDef").FromString
    return {make(body).name: body for body in bodies(what)}


def is_message(data: bytes) -> bool:
    """Whether protobuf takes DATA for a sequence of fields, field 1 being bytes."""
    from google.protobuf.message import DecodeError

    try:
        _envelope().FromString(data)
    except DecodeError:
        return False
    return True


# The graphs that the specification is written on.


def g8() -> list[bytes]:
    """Eight nodes in two scopes, with a control edge."""
    return [
        const("a", [1, 1]),
        const("foo/b", [2, 2]),
        add("foo/c", "a", "foo/b"),
        const("foo/d", [3, 3]),
        add("foo/bar/e", "foo/c", "foo/d"),
        add("foo/bar/f", "foo/c", "foo/d"),
        add("foo/bar/g", "foo/c", "a"),
        add("foo/bar/h", "foo/bar/f", "foo/bar/g", "^foo/c"),
    ]


def r3() -> list[bytes]:
    """Three separate additions, the third of another shape."""
    return [
        const("a0", [1, 1]),
        const("b0", [2, 2]),
        add("c0", "a0", "b0"),
        const("a1", [3, 3]),
        const("b1", [4, 4]),
        add("c1", "a1", "b1"),
        const("a2", [3, 3, 3]),
        const("b2", [4, 4, 4]),
        add("c2", "a2", "b2"),
    ]


def loop() -> list[bytes]:
    """A v1 while loop: i from 0 while i < n."""
    return [
        placeholder("n", INT32, ()),
        scalar("zero", 0, INT32),
        node("w/Enter", "Enter", ["zero"], T=INT32, frame_name="w", is_constant=False, parallel_iterations=10),
        node("w/Merge", "Merge", ["w/Enter", "w/NextIteration"], T=INT32, N=2),
        node("w/Limit", "Enter", ["n"], T=INT32, frame_name="w", is_constant=True, parallel_iterations=10),
        node("w/Less", "Less", ["w/Merge", "w/Limit"], T=INT32),
        node("w/LoopCond", "LoopCond", ["w/Less"]),
        node("w/Switch", "Switch", ["w/Merge", "w/LoopCond"], T=INT32),
        identity("w/Identity", "w/Switch:1", kind=INT32),
        node("w/one", "Const", ["^w/Identity"], dtype=INT32, value=tensor([1], INT32, ())),
        add("w/Add", "w/Identity", "w/one", kind=INT32),
        node("w/NextIteration", "NextIteration", ["w/Add"], T=INT32),
        node("w/Exit", "Exit", ["w/Switch"], T=INT32),
        identity("out", "w/Exit", kind=INT32),
    ]


# Random graphs.

NAMES = ("a", "b", "ab", "a_1", "a/b", "b/a", "a/b/c", "x", "A", "x.y", "in", "node/in")
KINDS = ("Const", "AddV2", "Identity", "Split", "NoOp", "Custom")


class Drawn(NamedTuple):
    """A random graph: its bytes, and the message with the same nodes."""

    data: bytes
    message: Any


@st.composite
def random_graphs(draw: st.DrawFn, *, most: int = 8, colocation: bool = True) -> Drawn:
    """A sound graph of float32 tensors: constants, sums, two-output splits, control inputs, colocations.

    Nodes are in any order, so that inputs come from later nodes as well.
    """
    count = 1 + draw(below(most))
    chosen = shuffled(draw, NAMES)[:count]
    records: list[bytes] = []
    tensors: list[str] = []
    for index, name in enumerate(chosen):
        kind = pick(draw, KINDS) if tensors else "Const"
        extra: dict[str, Value] = {}
        controls = [f"^{c}" for c in pick_some(draw, chosen[:index], 2)] if index else []
        if colocation and index and draw(st.booleans()):
            extra["_class"] = ["loc:@" + c for c in pick_some(draw, chosen, 2, unique=True)]
        device = "/cpu:0" if draw(st.booleans()) else ""
        if kind == "Const":
            records.append(node(name, kind, controls, device=device, dtype=FLOAT, value=tensor([1, 2]), **extra))
        elif kind == "AddV2":
            records.append(
                node(name, kind, [pick(draw, tensors), pick(draw, tensors), *controls], device=device, T=FLOAT, **extra)
            )
        elif kind == "Identity":
            records.append(node(name, kind, [pick(draw, tensors), *controls], device=device, T=FLOAT, **extra))
        elif kind == "Split":
            axis = f"axis_{index}"
            records.append(const(axis, [0], INT32, ()))
            records.append(node(name, kind, [axis, pick(draw, tensors), *controls], T=FLOAT, num_split=2, **extra))
            tensors.append(f"{name}:1")
        elif kind == "Custom":
            reads = pick_some(draw, tensors, 3)
            records.append(node(name, "MyCustomOp", [*reads, *controls], **extra))
            continue
        else:
            records.append(node(name, kind, controls, device=device, **extra))
            continue
        tensors.append(name)
    records = shuffled(draw, records)
    data = graph_bytes(*records)
    return Drawn(data, message("tensorflow.GraphDef").FromString(data))
