"""Writes GraphDefs of any size to disk as hand-encoded protobuf, in little memory.

    generate.py big BYTES PATH      402 nodes: 400 Consts that share BYTES, an AddN of them all
    generate.py medium BYTES PATH   702 nodes: 350 layers of a Const and an AddV2
    generate.py chain NODES PATH    AddV2 nodes, each reading the two before it
    generate.py redundant NODES PATH  layers; simplify removes half of the nodes
    generate.py tanh STEPS PATH     a chain of Tanh
    generate.py consumers N PATH    N slices of one tensor, squared and added up
    generate.py tiny 0 PATH         4 nodes: a MatMul and a Softmax
    generate.py checkpoint BYTES PREFIX   a checkpoint

Every graph is one that TensorFlow loads. `rename_of` names the node in its middle that the bench
renames.
"""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import BinaryIO

BIG_LAYERS = 400
MEDIUM_LAYERS = 350
TOWERS = ("left", "right")
SCOPE_NODES = 10_000
SLICED = 1 << 20
PRODUCER = 1882
DT_FLOAT, DT_INT32 = 1, 3
CHUNK = 1 << 20

Piece = bytes | memoryview


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number takes ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def header(number: int, length: int) -> bytes:
    """What precedes a length-delimited field."""
    return varint(number << 3 | 2) + varint(length)


def field(number: int, content: bytes | str | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    if isinstance(content, str):
        content = content.encode()
    return header(number, len(content)) + content


def shape(*dims: int) -> bytes:
    """A TensorShapeProto."""
    return b"".join(field(2, field(1, dim)) for dim in dims)


def attr(name: str, value: bytes) -> bytes:
    """An entry of NodeDef.attr; `value` is an encoded AttrValue."""
    return field(5, field(1, name) + field(2, value))


def type_attr(name: str = "T", dtype: int = DT_FLOAT) -> bytes:
    return attr(name, field(6, dtype))


def node(name: str, op: str, inputs: Iterable[str] = (), attrs: bytes = b"") -> bytes:
    body = field(1, name) + field(2, op) + b"".join(field(3, tensor) for tensor in inputs) + attrs
    return field(1, body)


def placeholder(name: str, *dims: int) -> bytes:
    return node(name, "Placeholder", (), type_attr("dtype") + attr("shape", field(7, shape(*dims))))


def constant(name: str, dims: tuple[int, ...], content: Iterable[memoryview], size: int) -> Iterator[Piece]:
    """A Const of `size` bytes of content, in pieces that are never all in memory."""
    tensor = field(1, DT_FLOAT) + field(2, shape(*dims)) + header(4, size)
    value = header(8, len(tensor) + size) + tensor
    entry = field(1, "value") + header(2, len(value) + size) + value
    body = field(1, name) + field(2, "Const") + type_attr("dtype") + header(5, len(entry) + size) + entry
    yield header(1, len(body) + size) + body
    yield from content


class Weights:
    """Endless floats between -0.1 and 0.1: one random block, started elsewhere for each layer."""

    def __init__(self) -> None:
        generator = random.Random(1)
        values = array("f", (generator.uniform(-0.1, 0.1) for _ in range(CHUNK // 4)))
        self.block = memoryview(values.tobytes() * 2)

    def take(self, size: int, layer: int) -> Iterator[memoryview]:
        start = layer * 4096 % CHUNK
        while size > 0:
            piece = self.block[start : start + min(size, CHUNK)]
            size -= len(piece)
            yield piece


def weighted_layer(name: str, floats: int, weights: Weights, layer: int) -> Iterator[Piece]:
    return constant(name, (floats,), weights.take(4 * floats, layer), 4 * floats)


def big(total: int) -> Iterator[Piece]:
    floats, weights = total // BIG_LAYERS // 4, Weights()
    names = [f"layer_{i}/weights" for i in range(BIG_LAYERS)]
    yield placeholder("x", floats)
    for i, name in enumerate(names):
        yield from weighted_layer(name, floats, weights, i)
    count = attr("N", field(3, BIG_LAYERS + 1))
    yield node("output", "AddN", ["x", *names], count + type_attr())


def medium(total: int) -> Iterator[Piece]:
    floats, weights = total // MEDIUM_LAYERS // 4, Weights()
    yield placeholder("x", floats)
    last = "x"
    for i in range(MEDIUM_LAYERS):
        yield from weighted_layer(f"layer_{i}/weights", floats, weights, i)
        yield node(f"layer_{i}/add", "AddV2", [last, f"layer_{i}/weights"], type_attr())
        last = f"layer_{i}/add"
    yield node("output", "Identity", [last], type_attr())


def chain_name(i: int) -> str:
    return f"scope_{i // SCOPE_NODES}/node_{i}"


def chain(nodes: int) -> Iterator[Piece]:
    before, last, attrs = "a", "b", type_attr()
    yield placeholder(before, -1) + placeholder(last, -1)
    for i in range(nodes - 2):
        name = chain_name(i)
        yield node(name, "AddV2", (last, before), attrs)
        before, last = last, name


def towers(nodes: int) -> Iterator[Piece]:
    """Two scopes of equal layers, each a small weight, an addition and a tanh."""
    weights = array("f", [0.01] * 8).tobytes()
    yield placeholder("x", -1, 8)
    for scope in TOWERS:
        last = "x"
        for i in range((nodes // len(TOWERS)) // 3):
            block = f"{scope}/block_{i // 100}"
            yield from constant(f"{block}/weight_{i}", (8,), [memoryview(weights)], len(weights))
            yield node(f"{block}/add_{i}", "AddV2", [last, f"{block}/weight_{i}"], type_attr())
            last = f"{block}/tanh_{i}"
            yield node(last, "Tanh", [f"{block}/add_{i}"], type_attr())
        yield node(f"{scope}/out", "Identity", [last], type_attr())


def redundant(nodes: int) -> Iterator[Piece]:
    """Blocks of ten layers of six nodes, where half of the nodes return their input; and the sum of the blocks."""
    one = array("f", [1.0]).tobytes()
    yield placeholder("x", -1, 8)
    yield from constant("one", (), [memoryview(one)], len(one))
    last, ends = "x", []
    for i in range(nodes // 6):
        if i % 10 == 0:
            ends.append(last)
            last = "x"
        block = f"block_{i // 10}/layer_{i}"
        weights = array("f", [i / nodes] * 8).tobytes()
        yield from constant(f"{block}/weight", (8,), [memoryview(weights)], len(weights))
        yield node(f"{block}/read", "Identity", [f"{block}/weight"], type_attr())
        yield node(f"{block}/add", "AddV2", [last, f"{block}/read"], type_attr())
        yield node(f"{block}/same", "Identity", [f"{block}/add"], type_attr())
        yield node(f"{block}/times", "Mul", [f"{block}/same", "one"], type_attr())
        last = f"{block}/tanh"
        yield node(last, "Tanh", [f"{block}/times"], type_attr())
    ends = [*ends[1:], last]
    yield node("out", "AddN", ends, attr("N", field(3, len(ends))) + type_attr())


def pointwise(steps: int) -> Iterator[Piece]:
    """A chain of cheap elementwise ops, three a step, on whatever is fed."""
    yield placeholder("x", -1)
    last = "x"
    for i in range(steps):
        for op, value in (("Mul", 0.999), ("AddV2", 0.002), ("Minimum", 1.5)):
            name = f"chain/{op}_{i}"
            scalar = array("f", [value]).tobytes()
            yield from constant(f"{name}/scalar", (), [memoryview(scalar)], len(scalar))
            yield node(name, op, [last, f"{name}/scalar"], type_attr())
            last = name
    yield node("out", "Identity", [last], type_attr())


def tanh(steps: int) -> Iterator[Piece]:
    """A chain of Tanh on whatever is fed."""
    yield placeholder("x", -1)
    last = "x"
    for i in range(steps):
        yield node(f"tanh_{i}", "Tanh", [last], type_attr())
        last = f"tanh_{i}"
    yield node("out", "Identity", [last], type_attr())


def consumers(count: int) -> Iterator[Piece]:
    """COUNT short slices of one tensor, each squared and summed; the gradient of each has the size of the tensor."""
    yield placeholder("x", SLICED)
    yield integers("axis", 0)
    yield integers("size", SLICED // count)
    for i in range(count):
        part = f"part_{i}"
        yield integers(f"{part}/begin", i * (SLICED // count))
        yield node(f"{part}/slice", "Slice", ["x", f"{part}/begin", "size"], type_attr() + type_attr("Index", DT_INT32))
        yield node(f"{part}/square", "Square", [f"{part}/slice"], type_attr())
        yield node(f"{part}/sum", "Sum", [f"{part}/square", "axis"], type_attr() + type_attr("Tidx", DT_INT32))
    yield node("out", "AddN", [f"part_{i}/sum" for i in range(count)], attr("N", field(3, count)) + type_attr())


def integers(name: str, value: int) -> bytes:
    """A Const: a vector of one int32."""
    content = field(1, DT_INT32) + field(2, shape(1)) + field(4, array("i", [value]).tobytes())
    return node(name, "Const", (), type_attr("dtype", DT_INT32) + attr("value", field(8, content)))


def tiny(_: int) -> Iterator[Piece]:
    kernel = array("f", [0.5, -1.0, 0.25, 1.0, 0.75, -0.5, -0.25, 0.1, 1.5, -0.3, 0.2, 0.6]).tobytes()
    yield placeholder("x", -1, 4)
    yield from constant("kernel", (4, 3), [memoryview(kernel)], len(kernel))
    yield node("logits", "MatMul", ["x", "kernel"], type_attr())
    yield node("probabilities", "Softmax", ["logits"], type_attr())


def part(_: int) -> Iterator[Piece]:
    """A graph to be spliced into a tensor of towers."""
    yield placeholder("given", -1, 8)
    yield node("made", "Neg", ["given"], type_attr())


KINDS = {
    "big": big, "medium": medium, "chain": chain, "tiny": tiny, "towers": towers, "pointwise": pointwise,
    "tanh": tanh, "consumers": consumers, "part": part, "redundant": redundant,
}  # fmt: skip


def rename_of(kind: str, size: int) -> tuple[str, str]:
    """The node in the middle that the bench renames, and its new name."""
    if kind == "big":
        return f"layer_{BIG_LAYERS // 2}/weights", f"layer_{BIG_LAYERS // 2}/renamed_weights"
    if kind == "medium":
        return f"layer_{MEDIUM_LAYERS // 2}/weights", f"layer_{MEDIUM_LAYERS // 2}/renamed_weights"
    if kind == "towers":
        return "left/out", "left/renamed"
    if kind == "chain":
        return chain_name(size // 2), f"scope_{size // 2 // SCOPE_NODES}/renamed"
    return "probabilities", "scores"


def write(pieces: Iterable[Piece], out: BinaryIO) -> None:
    """Writes a GraphDef whose nodes are `pieces`, small ones joined."""
    waiting: list[Piece] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK:
            out.writelines(waiting)
            waiting, size = [], 0
    waiting.append(field(4, field(1, PRODUCER)))
    out.writelines(waiting)


def write_checkpoint(prefix: str, size: int) -> None:
    """Writes a checkpoint of ten tensors of float32."""
    from gdsurgeon.container.checkpoint.bundle import Item, build_bundle
    from gdsurgeon.container.checkpoint.edit import BundleOutput
    from gdsurgeon.container.checkpoint.table import checksum
    from gdsurgeon.ops.dtypes import FLOAT32

    data = random.Random(1).randbytes(size // 10 // 4 * 4)
    crc, shape = checksum([data]), (len(data) // 4,)
    files = build_bundle([Item(f"layer_{n}/kernel", FLOAT32, shape, (data,), crc) for n in range(10)])
    with BundleOutput(prefix, *files) as output:
        output.stage()
        output.publish()


def main() -> None:
    kind, size, path = sys.argv[1:]
    if kind == "checkpoint":
        write_checkpoint(path, int(size))
        return
    with open(path, "wb", buffering=CHUNK) as out:
        write(KINDS[kind](int(size)), out)


if __name__ == "__main__":
    main()
