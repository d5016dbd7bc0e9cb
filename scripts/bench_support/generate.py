"""Writes models of any size to disk, in little memory.

    generate.py big BYTES PATH      402 nodes: 400 Consts that share BYTES, an AddN of them all
    generate.py medium BYTES PATH   702 nodes: 350 layers of a Const and an AddV2
    generate.py chain NODES PATH    AddV2 nodes, each reading the two before it
    generate.py towers NODES PATH   two scopes of equal layers
    generate.py redundant NODES PATH  layers; simplify removes half of the nodes
    generate.py pointwise STEPS PATH  a chain of cheap elementwise ops, three a step
    generate.py tanh STEPS PATH     a chain of Tanh
    generate.py consumers N PATH    N slices of one tensor, squared and added up
    generate.py tiny 0 PATH         4 nodes: a MatMul and a Softmax
    generate.py part 0 PATH         a graph that reads a tensor of towers
    generate.py checkpoint BYTES PREFIX   a checkpoint of ten tensors

TensorFlow loads every graph. A graph is written as many GraphDefs of some nodes each: joined, they are one GraphDef.
"""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from gdsurgeon.ops.dtypes import FLOAT32, INT32
from gdsurgeon.wire.protos import GraphDef

LAYERS = 400
"""Layers of big; medium has 350."""
SCOPE_NODES = 10_000
SLICED = 1 << 20
PRODUCER = 1882
CHUNK = 1 << 20

Node = Any


def node(name: str, op: str, *inputs: str, **attrs: int) -> Node:
    """Returns a NodeDef; attrs are dtypes, except N. T is float32 if it is not given."""
    message = GraphDef().node.add(name=name, op=op, input=inputs)
    for key, value in ({"T": FLOAT32} | attrs).items():
        setattr(message.attr[key], "i" if key == "N" else "type", value)
    return message


def placeholder(name: str, *dims: int) -> Node:
    message = GraphDef().node.add(name=name, op="Placeholder")
    message.attr["dtype"].type = FLOAT32
    for dim in dims:
        message.attr["shape"].shape.dim.add(size=dim)
    return message


def constant(name: str, content: bytes, dims: Sequence[int] = (), dtype: int = FLOAT32) -> Node:
    message = GraphDef().node.add(name=name, op="Const")
    message.attr["dtype"].type = dtype
    tensor = message.attr["value"].tensor
    tensor.dtype, tensor.tensor_content = dtype, content
    for dim in dims:
        tensor.tensor_shape.dim.add(size=dim)
    return message


def floats(*values: float) -> bytes:
    return array("f", values).tobytes()


def weights(total: int, layers: int) -> Iterator[Node]:
    """Yields a Const for each layer: random floats between -0.1 and 0.1, from one block with a different start."""
    generator, count = random.Random(1), total // layers // 4
    block = floats(*(generator.uniform(-0.1, 0.1) for _ in range(CHUNK // 4)))
    block *= 4 * count // CHUNK + 2
    for layer in range(layers):
        start = layer * 4096 % CHUNK
        yield constant(f"layer_{layer}/weights", block[start : start + 4 * count], [count])


def big(total: int) -> Iterator[Node]:
    yield placeholder("x", total // LAYERS // 4)
    yield from weights(total, LAYERS)
    yield node("output", "AddN", "x", *(f"layer_{i}/weights" for i in range(LAYERS)), N=LAYERS + 1)


def medium(total: int) -> Iterator[Node]:
    yield placeholder("x", total // 350 // 4)
    last = "x"
    for weight in weights(total, 350):
        yield weight
        yield node(added := weight.name.replace("weights", "add"), "AddV2", last, weight.name)
        last = added
    yield node("output", "Identity", last)


def chain(nodes: int) -> Iterator[Node]:
    before, last = "a", "b"
    yield placeholder(before, -1)
    yield placeholder(last, -1)
    for i in range(nodes - 2):
        yield node(name := f"scope_{i // SCOPE_NODES}/node_{i}", "AddV2", last, before)
        before, last = last, name


def towers(nodes: int) -> Iterator[Node]:
    """Two scopes of equal layers, each a small weight, an addition and a tanh."""
    yield placeholder("x", -1, 8)
    for scope in ("left", "right"):
        last = "x"
        for i in range(nodes // 2 // 3):
            block = f"{scope}/block_{i // 100}"
            yield constant(f"{block}/weight_{i}", floats(*[0.01] * 8), [8])
            yield node(f"{block}/add_{i}", "AddV2", last, f"{block}/weight_{i}")
            yield node(last := f"{block}/tanh_{i}", "Tanh", f"{block}/add_{i}")
        yield node(f"{scope}/out", "Identity", last)


def redundant(nodes: int) -> Iterator[Node]:
    """Blocks of ten layers of six nodes, where half of the nodes return their input; and the sum of the blocks."""
    yield placeholder("x", -1, 8)
    yield constant("one", floats(1.0))
    last, ends = "x", []
    for i in range(nodes // 6):
        block = f"block_{i // 10}/layer_{i}"
        yield constant(f"{block}/weight", floats(*[i / nodes] * 8), [8])
        yield node(f"{block}/read", "Identity", f"{block}/weight")
        yield node(f"{block}/add", "AddV2", last if i % 10 else "x", f"{block}/read")
        yield node(f"{block}/same", "Identity", f"{block}/add")
        yield node(f"{block}/times", "Mul", f"{block}/same", "one")
        yield node(last := f"{block}/tanh", "Tanh", f"{block}/times")
        if i % 10 == 9 or i == nodes // 6 - 1:
            ends.append(last)
    yield node("out", "AddN", *ends, N=len(ends))


def pointwise(steps: int) -> Iterator[Node]:
    """A chain of cheap elementwise ops, three a step, on any vector."""
    yield placeholder("x", -1)
    last = "x"
    for i in range(steps):
        for op, value in (("Mul", 0.999), ("AddV2", 0.002), ("Minimum", 1.5)):
            name = f"chain/{op}_{i}"
            yield constant(f"{name}/scalar", floats(value))
            yield node(name, op, last, f"{name}/scalar")
            last = name
    yield node("out", "Identity", last)


def tanh(steps: int) -> Iterator[Node]:
    yield placeholder("x", -1)
    for i in range(steps):
        yield node(f"tanh_{i}", "Tanh", f"tanh_{i - 1}" if i else "x")
    yield node("out", "Identity", f"tanh_{steps - 1}")


def consumers(count: int) -> Iterator[Node]:
    """Short slices of one tensor, each squared and summed; the gradient of each has the size of the tensor."""
    yield placeholder("x", SLICED)
    yield constant("axis", bytes(4), [1], INT32)
    yield constant("size", array("i", [SLICED // count]).tobytes(), [1], INT32)
    for i in range(count):
        part = f"part_{i}"
        yield constant(f"{part}/begin", array("i", [i * (SLICED // count)]).tobytes(), [1], INT32)
        yield node(f"{part}/slice", "Slice", "x", f"{part}/begin", "size", Index=INT32)
        yield node(f"{part}/square", "Square", f"{part}/slice")
        yield node(f"{part}/sum", "Sum", f"{part}/square", "axis", Tidx=INT32)
    yield node("out", "AddN", *(f"part_{i}/sum" for i in range(count)), N=count)


def tiny(_: int) -> Iterator[Node]:
    yield placeholder("x", -1, 4)
    yield constant("kernel", floats(0.5, -1.0, 0.25, 1.0, 0.75, -0.5, -0.25, 0.1, 1.5, -0.3, 0.2, 0.6), [4, 3])
    yield node("logits", "MatMul", "x", "kernel")
    yield node("probabilities", "Softmax", "logits")


def part(_: int) -> Iterator[Node]:
    yield placeholder("given", -1, 8)
    yield node("made", "Neg", "given")


def write_graph(nodes: Iterable[Node], path: str) -> None:
    """Writes a GraphDef, some nodes at a time."""
    nodes = iter(nodes)
    with open(path, "wb", buffering=CHUNK) as out:
        while some := list(islice(nodes, 10)):
            out.write(GraphDef(node=some).SerializeToString())
        graph = GraphDef()
        graph.versions.producer = PRODUCER
        out.write(graph.SerializeToString())


def write_checkpoint(prefix: str, size: int) -> None:
    """Writes a checkpoint of ten tensors of float32."""
    from gdsurgeon.container.checkpoint.bundle import Item, build_bundle
    from gdsurgeon.container.checkpoint.edit import BundleOutput
    from gdsurgeon.container.checkpoint.table import checksum

    data = random.Random(1).randbytes(size // 10 // 4 * 4)
    crc, shape = checksum([data]), (len(data) // 4,)
    files = build_bundle([Item(f"layer_{n}/kernel", FLOAT32, shape, (data,), crc) for n in range(10)])
    with BundleOutput(prefix, *files) as output:
        output.stage()
        output.publish()


KINDS = {
    "big": big, "medium": medium, "chain": chain, "tiny": tiny, "towers": towers, "pointwise": pointwise,
    "tanh": tanh, "consumers": consumers, "part": part, "redundant": redundant,
}  # fmt: skip

if __name__ == "__main__":
    kind, size, path = sys.argv[1:]
    if kind == "checkpoint":
        write_checkpoint(path, int(size))
    else:
        write_graph(KINDS[kind](int(size)), path)
