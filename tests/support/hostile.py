"""Builders of graphs, sound and hostile: bytes put together by hand, so that anything can be wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gdsurgeon.graph.attrs import shape_value, type_value
from gdsurgeon.wire.fields import encode_len, encode_varint
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.node_record import encode_node

FLOAT, INT32, STRING, BOOL = 1, 3, 7, 10
NODE, LIBRARY = 1, 2


# -- attrs -------------------------------------------------------------------------------------------------


def a_type(dtype: int = FLOAT) -> bytes:
    return bytes(type_value(dtype).SerializeToString())


def a_shape(*dims: int) -> bytes:
    return bytes(shape_value(dims).SerializeToString())


def an_int(number: int) -> bytes:
    return bytes(message("tensorflow.AttrValue")(i=number).SerializeToString())


def a_bool(value: bool) -> bytes:
    return encode_varint(5 << 3) + bytes([value])


def a_text(text: str) -> bytes:
    return encode_len(2, text.encode())


def a_tensor(dtype: int, content: bytes, *dims: int) -> bytes:
    shape = message("tensorflow.TensorShapeProto")(dim=[{"size": dim} for dim in dims])
    proto = encode_varint(1 << 3) + encode_varint(dtype) + encode_len(2, shape.SerializeToString())
    return encode_len(8, proto + encode_len(4, content))


def colocated_with(*names: str) -> bytes:
    return bytes(
        message("tensorflow.AttrValue")(list={"s": [b"loc:@" + name.encode() for name in names]}).SerializeToString()
    )


# -- nodes -------------------------------------------------------------------------------------------------


def record(body: bytes) -> bytes:
    """BODY as a node record of a GraphDef."""
    return encode_len(NODE, body)


def node(name: str, op: str, inputs: Iterable[str] = (), **attrs: bytes) -> bytes:
    return record(encode_node(name, op, inputs, "", attrs))


def placeholder(name: str, *dims: int, dtype: int = FLOAT) -> bytes:
    return node(name, "Placeholder", dtype=a_type(dtype), shape=a_shape(*dims))


def identity(name: str, *inputs: str, dtype: int = FLOAT, **attrs: bytes) -> bytes:
    return node(name, "Identity", inputs, T=a_type(dtype), **attrs)


def no_op(name: str, *inputs: str) -> bytes:
    return node(name, "NoOp", inputs)


def const(name: str, content: bytes, *dims: int, dtype: int = FLOAT, controls: Iterable[str] = ()) -> bytes:
    return node(name, "Const", controls, dtype=a_type(dtype), value=a_tensor(dtype, content, *dims))


VERSIONS = encode_len(4, b"\x08\xb3\x13")  # producer 2483

PLAIN = placeholder("x", -1, 4) + identity("y", "x") + identity("z", "y") + VERSIONS
"""x -> y -> z, float32 [?,4]."""

WEIGHTS = bytes(range(256)) * 800
HEAVY = (
    placeholder("x", -1, 4)
    + identity("y", "x")
    + const("w", WEIGHTS, len(WEIGHTS) // 4)
    + identity("v", "w")
    + const("w2", WEIGHTS, len(WEIGHTS) // 4)
    + identity("v2", "w2")
    + VERSIONS
)
"""x -> y, and two weights of 200 kB, which are copied by span."""


def loop(*, endless: bool = False) -> bytes:
    """A v1 while loop: n counts up to 10, or never ends."""
    limit = encode_int(10 if not endless else -1)
    compare = "Less" if not endless else "NotEqual"
    step = encode_int(1 if not endless else 0)
    extra = {"incompatible_shape_error": a_bool(True)} if endless else {}
    frame = {"frame_name": a_text("loop"), "is_constant": a_bool(False), "parallel_iterations": an_int(1)}
    return (
        const("start", encode_int(0), dtype=INT32)
        + node("enter", "Enter", ["start"], T=a_type(INT32), **frame)
        + node("merge", "Merge", ["enter", "next"], T=a_type(INT32), N=an_int(2))
        + const("limit", limit, dtype=INT32, controls=["^merge"])
        + node("compare", compare, ["merge", "limit"], T=a_type(INT32), **extra)
        + node("cond", "LoopCond", ["compare"])
        + node("switch", "Switch", ["merge", "cond"], T=a_type(INT32))
        + identity("body", "switch:1", dtype=INT32)
        + const("step", step, dtype=INT32, controls=["^body"])
        + node("add", "AddV2", ["body", "step"], T=a_type(INT32))
        + node("next", "NextIteration", ["add"], T=a_type(INT32))
        + node("exit", "Exit", ["switch"], T=a_type(INT32))
        + identity("result", "exit", dtype=INT32)
        + VERSIONS
    )


def encode_int(number: int) -> bytes:
    return number.to_bytes(4, "little", signed=True)


# -- functions ---------------------------------------------------------------------------------------------


def function(name: str, *called: str, by: str = "op", ret: str = "last:output:0") -> Any:
    """A function float32 -> float32 that calls CALLED: as ops, by an attr of PartitionedCall, or as a While's body."""
    out = message("tensorflow.FunctionDef")()
    out.signature.name = name
    out.signature.input_arg.add(name="a", type=FLOAT)
    out.signature.output_arg.add(name="r", type=FLOAT)
    for i, callee in enumerate(called):
        op = {"op": callee, "attr": "PartitionedCall", "body": "StatelessWhile"}[by]
        call = out.node_def.add(name=f"call{i}", op=op, input=["a"])
        if by == "attr":
            call.attr["f"].func.name = callee
            call.attr["Tin"].list.type.append(FLOAT)
            call.attr["Tout"].list.type.append(FLOAT)
        elif by == "body":
            call.attr["cond"].func.name = callee
            call.attr["body"].func.name = callee
            call.attr["T"].list.type.append(FLOAT)
    last = out.node_def.add(name="last", op="Identity", input=["a"])
    last.attr["T"].type = FLOAT
    out.ret["r"] = ret
    return out


def with_functions(*functions: Any, call: str | None = None) -> bytes:
    """x -> n, n being a call of the first function (or of CALL), with a library of FUNCTIONS."""
    library = message("tensorflow.FunctionDefLibrary")(function=functions)
    name = call or functions[0].signature.name
    return (
        placeholder("x", -1, 4) + node("n", name, ["x"]) + encode_len(LIBRARY, library.SerializeToString()) + VERSIONS
    )


def nested_func_attr(depth: int) -> bytes:
    """An AttrValue: a func whose attr is a func whose attr is a func ..."""
    value = b""
    for _ in range(depth):
        entry = encode_len(1, b"k") + encode_len(2, value)
        value = encode_len(10, encode_len(1, b"f") + encode_len(2, entry))
    return value


def nested_in_library(depth: int) -> bytes:
    """A graph whose function library holds a node with such an attr."""
    inner = encode_node("n", "NoOp", (), "", {"_f": nested_func_attr(depth)})
    return PLAIN + encode_len(LIBRARY, encode_len(1, encode_len(1, encode_len(1, b"F")) + encode_len(3, inner)))


# -- what else a file may be -------------------------------------------------------------------------------

ONNX = b"\x08\x07" + encode_len(2, b"pytorch") + encode_len(3, b"1.9") + encode_len(7, encode_len(2, b"g"))
TFLITE = b"\x1c\x00\x00\x00TFL3" + bytes(64)
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(64)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
TEXT = b"""node {
  name: "x"
  op: "Placeholder"
  attr { key: "dtype" value { type: DT_FLOAT } }
}
node {
  name: "y"
  op: "Identity"
  input: "x"
  attr { key: "T" value { type: DT_FLOAT } }
}
"""


def write_huge(path: str, sizes: Sequence[int]) -> None:
    """A graph with a Const of each of SIZES bytes, named w0, w1, ...: a sparse file, which takes no room."""
    with open(path, "wb") as file:
        file.write(placeholder("x", -1, 4) + identity("y", "x"))
        for i, size in enumerate(sizes):
            # The same nesting as in `const`, from the inside out, without the content.
            shape = message("tensorflow.TensorShapeProto")(dim=[{"size": size // 4}]).SerializeToString()
            head = encode_varint(1 << 3) + encode_varint(FLOAT) + encode_len(2, shape)
            head += encode_varint(4 << 3 | 2) + encode_varint(size)
            for prefix, number in ((b"", 8), (encode_len(1, b"value"), 2), (b"", 5)):
                length = len(head) + size
                head = prefix + encode_varint(number << 3 | 2) + encode_varint(length) + head
            head = encode_node(f"w{i}", "Const", (), "", {"dtype": a_type(FLOAT)}) + head
            file.write(encode_varint(NODE << 3 | 2) + encode_varint(len(head) + size) + head)
            file.seek(size, 1)
        file.write(VERSIONS)
