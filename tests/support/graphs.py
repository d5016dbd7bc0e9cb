"""Graphs for tests: a few words that make GraphDefs as bytes, views to compare them by, and random ones."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.ops.elements import numpy_dtype
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.fields import encode_len, encode_varint
from gdsurgeon.wire.node_record import encode_node
from gdsurgeon.wire.protos import AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, NodeDef
from gdsurgeon.wire.write import read_chunks
from support.drawing import below, pick, pick_some, shuffled

Value = bytes | bool | int | float | str | tuple[int, ...] | list[Any]


def dtype(number: int) -> bytes:
    """An AttrValue that holds a DataType."""
    return b"\x30" + encode_varint(number)


FLOAT, DOUBLE, INT32, UINT8, STRING, INT64, BOOL, RESOURCE = (dtype(n) for n in (1, 2, 3, 4, 7, 9, 10, 20))


def dtypes(*values: bytes | str) -> bytes:
    """An AttrValue that holds a list of the DataTypes VALUES."""
    return attr([*values])


def func(name: str, **attrs: Value) -> bytes:
    """An AttrValue that holds a function."""
    entries = [encode_len(2, encode_len(1, k.encode()) + encode_len(2, attr(v))) for k, v in attrs.items()]
    return encode_len(10, encode_len(1, name.encode()) + b"".join(entries))


def shape_proto(shape: Sequence[int] | None) -> bytes:
    if shape is None:
        return b"\x18\x01"
    return b"".join(encode_len(2, b"\x08" + encode_varint(size) if size else b"") for size in shape)


def attr(value: Value | None) -> bytes:
    """An AttrValue.

    Args:
        value: bytes are an AttrValue already; a str is the dtype of that name, or else a string; a tuple is a shape,
            None one of unknown rank; a list is a list of such values.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"\x28" + bytes([value])
    if isinstance(value, int):
        return b"\x18" + encode_varint(value)
    if isinstance(value, float):
        return b"\x25" + struct.pack("<f", value)
    if isinstance(value, str):
        return dtype(NUMBERS[value]) if value in NUMBERS else encode_len(2, value.encode())
    if isinstance(value, list):
        # The fields of a list have the numbers of an AttrValue's, but for functions; protobuf packs numbers.
        items = [attr(item) for item in value]
        fields = b"".join(b"\x4a" + item[1:] if item[0] == 0x52 else item for item in items)
        return bytes(AttrValue.FromString(encode_len(1, fields)).SerializeToString())
    return encode_len(7, shape_proto(value))


def node(name: str, op: str, inputs: Iterable[str] = (), *, device: str = "", **attrs: Value | None) -> bytes:
    """The record of a node, with its tag."""
    return encode_len(1, encode_node(name, op, inputs, device, {k: attr(v) for k, v in attrs.items()}))


def placeholder(name: str, kind: bytes | str = FLOAT, shape: tuple[int, ...] | None = None) -> bytes:
    return node(name, "Placeholder", dtype=kind, shape=shape)


def tensor(values: Any, kind: bytes | str = FLOAT, shape: Sequence[int] | None = None) -> bytes:
    """An AttrValue that holds a tensor; SHAPE is that of VALUES unless it is given."""
    import numpy as np  # some programs of the tests must not load it

    number = attr(kind)[1:]
    array = np.asarray(values, numpy_dtype(number[0]))
    if array.dtype == object:
        texts = (item if isinstance(item, bytes) else item.encode() for item in array.reshape(-1))
        content = b"".join(encode_len(8, text) for text in texts)
    else:
        content = encode_len(4, array.tobytes())
    dims = array.shape if shape is None else shape
    return encode_len(8, b"\x08" + number + encode_len(2, shape_proto(dims)) + content)


def const(
    name: str,
    values: Any,
    kind: bytes | str = FLOAT,
    shape: Sequence[int] | None = None,
    *,
    controls: Sequence[str] = (),
    **attrs: Value | None,
) -> bytes:
    return node(name, "Const", controls, dtype=kind, value=tensor(values, kind, shape), **attrs)


def scalar(name: str, value: float, kind: bytes | str = FLOAT) -> bytes:
    return const(name, value, kind)


def typed(op: str, name: str, *inputs: str, kind: bytes | str = FLOAT, **attrs: Value | None) -> bytes:
    """The record of a node whose attr `T` is `kind`; `inputs` may end with control inputs."""
    return node(name, op, inputs, T=kind, **attrs)


def identity(name: str, source: str, *controls: str, **attrs: Any) -> bytes:
    return typed("Identity", name, source, *controls, **attrs)


def neg(name: str, source: str, *controls: str, **attrs: Any) -> bytes:
    return typed("Neg", name, source, *controls, **attrs)


def relu(name: str, source: str, *controls: str, **attrs: Any) -> bytes:
    return typed("Relu", name, source, *controls, **attrs)


def add(name: str, a: str, b: str, *controls: str, **attrs: Any) -> bytes:
    return typed("AddV2", name, a, b, *controls, **attrs)


X = placeholder("x", FLOAT, (2,))
VARIABLE = node("v", "VariableV2", dtype=FLOAT, shape=(2,))


def versions(producer: int) -> bytes:
    return encode_len(4, b"\x08" + encode_varint(producer))


VERSIONS = versions(1882)


def library(*functions: Any, gradients: Mapping[str, str] | None = None) -> bytes:
    """The library field with FunctionDef messages, and gradients as (function, its gradient)."""
    out = FunctionDefLibrary()
    out.function.extend(functions)
    for name, gradient in (gradients or {}).items():
        out.gradient.add(function_name=name, gradient_func=gradient)
    return encode_len(2, out.SerializeToString(deterministic=True))


def define(
    name: str,
    inputs: Mapping[str, bytes | str],
    outputs: Mapping[str, tuple[bytes | str, str]],
    *body: bytes,
    effects: Sequence[str] = (),
    stateful: bool = False,
) -> Any:
    """A FunctionDef; OUTPUTS: for each the dtype and what it returns; EFFECTS: nodes that run with every call."""
    out = FunctionDef()
    out.signature.name = name
    out.signature.is_stateful = stateful
    for arg, kind in inputs.items():
        out.signature.input_arg.add(name=arg, type=attr(kind)[1])
    for arg, (kind, source) in outputs.items():
        out.signature.output_arg.add(name=arg, type=attr(kind)[1])
        out.ret[arg] = source
    out.node_def.extend(proto(*body, trailer=b"").node)
    for effect in effects:
        out.signature.control_output.append(effect)
        out.control_ret[effect] = effect
    return out


def function(name: str, *body: bytes, ret: str = "") -> Any:
    """A FunctionDef from float `x` to float `out`, with the node records BODY; it returns RET, or output 0 of `y`."""
    out = define(name, {"x": FLOAT}, {"out": (FLOAT, ret)}, *body)
    out.ret["out"] = ret or f"y:{_first_output(out.node_def)}:0"
    return out


def _first_output(nodes: Any) -> str:
    definitions = [op_def(n.op) for n in nodes if n.name == "y"]
    return next((d.outputs[0].name for d in definitions if d is not None and d.outputs), "y")


NO_OPTIMIZER = encode_len(2, b"R\x05R\x03\x98\x01\x01")


def call(
    name: str,
    function: str,
    inputs: Sequence[str],
    taken: Sequence[bytes | str],
    given: Sequence[bytes | str],
    *,
    stateful: bool = False,
    config_proto: bytes = NO_OPTIMIZER,
    **attrs: Any,
) -> bytes:
    """The record of a call; TAKEN and GIVEN are dtypes."""
    return node(
        name,
        "StatefulPartitionedCall" if stateful else "PartitionedCall",
        inputs,
        Tin=dtypes(*taken),
        Tout=dtypes(*given),
        f=func(function),
        config="",
        config_proto=config_proto,
        executor_type="",
        **attrs,
    )


def graph_bytes(*records: bytes, trailer: bytes = VERSIONS) -> bytes:
    return b"".join(records) + trailer


def graph(*records: bytes, trailer: bytes = VERSIONS, name: str = "model.pb") -> Graph:
    return from_bytes(graph_bytes(*records, trailer=trailer), name)


def proto(*records: bytes, trailer: bytes = VERSIONS) -> Any:
    return GraphDef.FromString(graph_bytes(*records, trailer=trailer))


class Builder:
    """A GraphDef of `records` that grows node by node: `graph_def`. What adds a node returns its name."""

    def __init__(self, *records: bytes, producer: int = 2474) -> None:
        self.graph_def = proto(*records, trailer=versions(producer) if producer else b"")

    def add(self, name: str, record: bytes) -> str:
        self.graph_def.MergeFromString(record)
        return name

    def node(self, name: str, op: str, inputs: Sequence[str] = (), **attrs: Any) -> str:
        return self.add(name, node(name, op, inputs, **attrs))

    def typed(self, op: str, name: str, *inputs: str, kind: str = "float32", **attrs: Any) -> str:
        """Adds a node whose attr `T` is `kind`."""
        return self.node(name, op, inputs, T=kind, **attrs)

    def placeholder(self, name: str, dtype: str = "float32", shape: Sequence[int] | None = None) -> str:
        return self.node(name, "Placeholder", dtype=dtype, **({} if shape is None else {"shape": tuple(shape)}))

    def const(self, name: str, value: Any, dtype: str = "float32", controls: Sequence[str] = ()) -> str:
        return self.add(name, const(name, value, dtype, controls=controls))

    def bytes(self) -> bytes:
        return bytes(self.graph_def.SerializeToString(deterministic=True))

    def graph(self, name: str = "part.pb") -> Graph:
        return from_bytes(self.bytes(), name)

    def write(self, path: Path) -> str:
        path.write_bytes(self.bytes())
        return str(path)


# Views of a graph.


def written(what: Graph | bytes) -> bytes:
    """The bytes that a graph comes to."""
    return what if isinstance(what, bytes) else read_chunks(what.chunks())


def parsed(what: Graph | bytes) -> Any:
    """The GraphDef message that protobuf makes of a graph's bytes."""
    return GraphDef.FromString(written(what))


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


def only_function(found: Graph) -> Any:
    (function_,) = list(parsed(found).library.function)
    return function_


def body_of(function_: Any) -> dict[str, list[str]]:
    """The inputs of each node of a function."""
    return {n.name: list(n.input) for n in function_.node_def}


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
    make = NodeDef.FromString
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


def loop(step: int = 1) -> list[bytes]:
    """A v1 while loop: i from 0 in steps of STEP while i < n."""
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
        const("w/one", step, INT32, controls=["^w/Identity"]),
        add("w/Add", "w/Identity", "w/one", kind=INT32),
        node("w/NextIteration", "NextIteration", ["w/Add"], T=INT32),
        node("w/Exit", "Exit", ["w/Switch"], T=INT32),
        identity("out", "w/Exit", kind=INT32),
    ]


def doubling_loop(scope: str, source: str, rounds: int = 3) -> list[bytes]:
    """A v1 loop in which SOURCE becomes 2 s - 1, ROUNDS times: the result is ``done`` of SCOPE."""
    enter = {"frame_name": f"{scope}/frame", "is_constant": False, "parallel_iterations": 10}
    n = f"{scope}/"
    again = [f"^{n}again"]
    return [
        const(n + "zero", 0, INT32), const(n + "rounds", rounds, INT32),
        typed("Enter", n + "enter_i", n + "zero", kind=INT32, **enter),
        typed("Enter", n + "enter_s", source, **enter),
        typed("Enter", n + "limit", n + "rounds", kind=INT32, **enter | {"is_constant": True}),
        typed("Merge", n + "merge_i", n + "enter_i", n + "next_i", kind=INT32, N=2),
        typed("Merge", n + "merge_s", n + "enter_s", n + "next_s", N=2),
        typed("Less", n + "less", n + "merge_i", n + "limit", kind=INT32), node(n + "cond", "LoopCond", [n + "less"]),
        typed("Switch", n + "switch_i", n + "merge_i", n + "cond", kind=INT32),
        typed("Switch", n + "switch_s", n + "merge_s", n + "cond"),
        const(n + "one", 1, INT32, controls=again), const(n + "shift", 1.0, controls=again),
        identity(n + "again", n + "switch_i:1", kind=INT32), add(n + "add_i", n + "again", n + "one", kind=INT32),
        add(n + "twice", n + "switch_s:1", n + "switch_s:1"), typed("Sub", n + "less_s", n + "twice", n + "shift"),
        typed("NextIteration", n + "next_i", n + "add_i", kind=INT32),
        typed("NextIteration", n + "next_s", n + "less_s"), typed("Exit", n + "done", n + "switch_s"),
    ]  # fmt: skip


def through_array(read: str, scope: str = "", **attrs: Any) -> list[bytes]:
    """READ written into a TensorArray and, after that, read from it: the result is ``stored`` of SCOPE."""
    n = f"{scope}/" if scope else ""
    return [
        const(n + "size", 1, INT32), const(n + "first", 0, INT32),
        node(n + "array", "TensorArrayV3", [n + "size"], dtype=FLOAT, clear_after_read=False, **attrs),
        typed("TensorArrayWriteV3", n + "write", n + "array", n + "first", read, n + "array:1"),
        node(n + "stored", "TensorArrayReadV3", [n + "array", n + "first", n + "array:1", f"^{n}write"], dtype=FLOAT),
    ]  # fmt: skip


def counting_loop(*, endless: bool = False) -> Builder:
    """A v1 while loop that counts to 3, or an endless one; inside, `square` and `fixed` are unused."""
    return Builder(
        const("start", 0, INT32),
        typed("Enter", "enter", "start", kind=INT32, frame_name="frame", is_constant=False, parallel_iterations=1),
        typed("Merge", "merge", "enter", "next", kind=INT32, N=2),
        const("limit", 3, INT32, controls=["^merge"]), typed("Less", "less", "merge", "limit", kind=INT32),
        const("always", True, BOOL, controls=["^merge"]),
        node("condition", "LoopCond", ["always" if endless else "less"]),
        typed("Switch", "switch", "merge", "condition", kind=INT32), identity("body", "switch:1", kind=INT32),
        const("one", 1, INT32, controls=["^body"]), add("added", "body", "one", kind=INT32),
        typed("Square", "square", "body", kind=INT32), neg("fixed", "one", kind=INT32),
        typed("NextIteration", "next", "added", kind=INT32), typed("Exit", "exit", "switch", kind=INT32),
        neg("y", "exit", kind=INT32),
    )  # fmt: skip


CRASHING = b64decode("CgYKAW4SAUYSFwoVCgMKAUYaBgoBYRIBRhoGCgFiEgFG")
"""A node that calls a function that calls itself: TensorFlow overflows its stack when it loads this."""


def doubling(shape: tuple[int, ...] | None = None) -> bytes:
    """float32 x -> y = x + x."""
    return graph_bytes(placeholder("x", FLOAT, shape), add("y", "x", "x"))


def hanging(says: str = "") -> bytes:
    """Fetching y prints what it SAYS, and waits for an element of an empty queue for ever."""
    return graph_bytes(
        const("s", says, STRING),
        node("said", "PrintV2", ["s"]),
        node("q", "FIFOQueueV2", component_types=[FLOAT], shapes=[]),
        node("y", "QueueDequeueV2", ["q", *(["^said"] if says else [])], component_types=[FLOAT]),
    )


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
    return Drawn(data, GraphDef.FromString(data))
