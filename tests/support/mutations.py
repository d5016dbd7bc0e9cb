"""Variants of a GraphDef with one small change each.

The changes do not depend on any edit. A comparison of the graphs, or the audit of an edit, must report every variant.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from gdsurgeon.compare.comparison import compare_files
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.differences import listed_differences
from gdsurgeon.wire.protos import GraphDef
from support.graphs import define, node, typed


class Mutation(NamedTuple):
    """A graph with a change.

    Attributes:
        kind: the kind of the change.
        where: the function that contains the node, or ''.
        node: the name of the node; the name of a function, or '', if no node is changed.
        data: the graph.
    """

    kind: str
    where: str
    node: str
    data: bytes


OTHER_OP = {
    "Relu": "Relu6", "Relu6": "Relu", "Less": "LessEqual", "LessEqual": "Less", "Greater": "GreaterEqual",
    "GreaterEqual": "Greater", "Minimum": "Maximum", "Maximum": "Minimum", "Sub": "SquaredDifference", "Max": "Min",
    "Sum": "Mean", "Mean": "Sum", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "Floor": "Round", "MaxPool": "AvgPool",
    "Exp": "Expm1", "Log": "Log1p", "Elu": "Selu", "LogicalAnd": "LogicalOr", "All": "Any", "Mul": "AddV2",
    "Neg": "Abs", "ArgMax": "ArgMin", "PartitionedCall": "StatefulPartitionedCall",
}  # fmt: skip

Nodes = dict[str, Any]
"""The nodes of a graph or a function, by name."""


def _swap(items: Any, a: int, b: int) -> None:
    items[a], items[b] = items[b], items[a]


def _op(node: Any, _: Nodes) -> None:
    node.op = OTHER_OP[node.op]


def _device(node: Any, _: Nodes) -> None:
    node.device = "" if node.device else "/device:CPU:0"


def _note(node: Any, _: Nodes) -> None:
    node.attr["_note"].b = True


def _attr(node: Any, kind: str) -> None:
    """Changes the first attribute that has a value of the kind."""
    key = min(key for key, value in node.attr.items() if value.WhichOneof("value") == kind and key != "_note")
    value = node.attr[key]
    if kind == "b":
        value.b = not value.b
    elif kind == "i":
        value.i += 1
    elif kind == "f":
        value.f = value.f * 1.01 + 0.5
    elif kind == "s":
        value.s = {b"SAME": b"VALID", b"VALID": b"SAME"}.get(value.s, value.s + b"_other")
    elif kind == "type":
        value.type = 1 if value.type != 1 else 2
    elif kind == "shape":
        sizes = [-1 if dim.size >= 0 else 1 for dim in value.shape.dim]
        for dim, size in zip(value.shape.dim, sizes, strict=True):
            dim.size = size
    elif kind == "func":
        value.func.name = "no_such_function"


def _branches(node: Any, _: Nodes) -> None:
    if "then_branch" in node.attr:
        _names_swapped(node.attr["then_branch"].func, node.attr["else_branch"].func)


def _colocation(node: Any, nodes: Nodes) -> None:
    if "_class" in node.attr:
        del node.attr["_class"]
    else:
        other = min(name for name in nodes if name != node.name)
        node.attr["_class"].list.s.append(b"loc:@" + other.encode())


def _text_of_another(node: Any, nodes: Nodes) -> None:
    """Uses the frame, or the shared name, of a different node with the same op."""
    key = next(key for key in ("frame_name", "shared_name") if key in node.attr)
    node.attr[key].s = min({n.attr[key].s for n in nodes.values() if n.op == node.op} - {node.attr[key].s})


def _values(node: Any) -> tuple[Any, list[bytes] | Any]:
    """Returns the tensor of a constant, and its elements: as bytes, or as the list of a field."""
    if node.op != "Const":
        raise LookupError
    tensor = node.attr["value"].tensor
    content, size = tensor.tensor_content, {1: 4, 2: 8, 3: 4, 9: 8, 10: 1, 19: 2, 14: 2}.get(tensor.dtype, 1)
    if content:
        return tensor, [content[at : at + size] for at in range(0, len(content), size)]
    return tensor, next(value for field, value in tensor.ListFields() if field.name.endswith("_val"))


def _element(node: Any, change: Callable[[bytes], bytes]) -> None:
    """Changes the bytes of the middle element, or replaces it in its field."""
    tensor, items = _values(node)
    at = len(items) // 2
    if tensor.tensor_content:
        items[at] = change(items[at])
        tensor.tensor_content = b"".join(items)
    else:
        items[at] = items[at] + b"!" if isinstance(items[at], bytes) else not items[at] if tensor.dtype == 10 else (
            -items[at] - 1 if change is _sign else items[at] + 1
        )  # fmt: skip


def _last_bit(element: bytes) -> bytes:
    return bytes([element[0] ^ 1]) + element[1:]


def _sign(element: bytes) -> bytes:
    return element[:-1] + bytes([element[-1] ^ 0x80])


def _elements_swapped(node: Any, _: Nodes) -> None:
    tensor, items = _values(node)
    _swap(items, 0, next(at for at, item in enumerate(items) if item != items[0]))
    if tensor.tensor_content:
        tensor.tensor_content = b"".join(items)


def _tensors(node: Any) -> list[str]:
    return [text for text in node.input if not text.startswith("^")]


def _inputs_swapped(node: Any, _: Nodes) -> None:
    at = node.op.startswith("Select")  # the values, and not the condition
    if len(_tensors(node)) > at + 1:
        _swap(node.input, at, at + 1)


def _output(node: Any, nodes: Nodes) -> None:
    """Reads output 0 instead of output 1, or output 1 of an op that can have several outputs."""
    for at, text in enumerate(node.input):
        source = nodes.get(text.partition(":")[0])
        if text.endswith(":1"):
            node.input[at] = text[:-1] + "0"
            return
        if source is not None and source.op in ("Split", "Switch", "TopKV2", "Unpack"):
            node.input[at] = re.sub(r"(:\d+)?\Z", ":1", text, count=1)
            return


def _dtype(node: Any) -> int:
    return next((node.attr[key].type for key in ("T", "dtype") if key in node.attr), 0)


def _another_tensor(node: Any, nodes: Nodes) -> None:
    """Reads a constant with the same dtype instead of the first input."""
    kind = _dtype(nodes[_tensors(node)[0].partition(":")[0]])
    read = {text: nodes.get(text.partition(":")[0]) for other in nodes.values() for text in _tensors(other)}
    sources = {text: n.ByteSize() for text, n in read.items() if n and n.op == "Const" and _dtype(n) == kind}
    node.input[0] = min(sources.keys() - {*node.input}, key=lambda text: (sources[text], text))  # a scalar, if possible


def _original(node: Any, nodes: Nodes) -> None:
    """Reads the original of a copy, found by its name."""
    for at, text in enumerate(node.input):
        name, colon, port = text.partition(":")
        original = "t/" + name[2:] if name.startswith("u/") else name.removesuffix("_1")
        if original != name and original in nodes and nodes[original].op == nodes[name].op:
            node.input[at] = original + colon + port
            return


def _control_dropped(node: Any, _: Nodes) -> None:
    node.input.remove(next(text for text in reversed(node.input) if text.startswith("^")))


def _control_added(node: Any, nodes: Nodes) -> None:
    node.input.append("^" + min(n for n in nodes if n != node.name and f"^{n}" not in node.input))


NODES: dict[str, Callable[[Any, Nodes], None]] = {
    "op": _op, "device": _device, "attr added": _note, "branches": _branches, "colocation": _colocation,
    "text of another": _text_of_another, "last bit": lambda node, _: _element(node, _last_bit),
    "sign": lambda node, _: _element(node, _sign), "elements swapped": _elements_swapped,
    "inputs swapped": _inputs_swapped, "output": _output, "another tensor": _another_tensor, "original": _original,
    "control dropped": _control_dropped, "control added": _control_added,
    **{f"attr {kind}": lambda node, _, kind=kind: _attr(node, kind) for kind in "b i f s type shape func".split()},
}  # fmt: skip
"""Functions that change a node, by kind. LookupError, StopIteration or ValueError: the kind does not fit the node."""


def _all_changes(graph: Any) -> Iterator[tuple[str, str, Callable[[Any], object]]]:
    """Yields the kind, the name of a node or function, and the function of each change of a whole graph."""
    read = {text.removeprefix("^").partition(":")[0] for n in graph.node for text in n.input}
    types = {
        f.signature.name: [[arg.type for arg in args] for args in (f.signature.input_arg, f.signature.output_arg)]
        for f in graph.library.function
    }
    for at, found in enumerate(graph.node):
        yield "name", found.name, lambda g, at=at: _renamed(g, g.node[at].name, g.node[at].name + "_other")
        if found.name not in read:
            yield "node lost", found.name, lambda g, at=at: g.node.pop(at)
        for key, value in found.attr.items():
            alike = (name for name in types if name != value.func.name and types[name] == types.get(value.func.name))
            if other := next(alike, ""):
                change = lambda g, at=at, key=key, other=other: setattr(g.node[at].attr[key].func, "name", other)  # noqa: E731
                yield "function", found.name, change
        if _dtype(found) == 1 and found.input[:1] and not found.input[0].startswith("^"):
            yield "Identity before an input", found.name, lambda g, at=at: _before_input(g, at)
    unread = [n for n, found in enumerate(graph.node) if found.name not in read and _dtype(found) == 1]
    for a, b in pairwise(unread):
        yield "names swapped", graph.node[a].name, lambda g, a=a, b=b: _names_swapped(g.node[a], g.node[b])
    for record in (node("extra", "NoOp"), node("extra", "Placeholder", dtype="float32"),
                   typed("Neg", "extra", graph.node[0].name)):  # fmt: skip
        yield "node added", "extra", lambda g, record=record: g.MergeFromString(record)
    calls = {value.func.name for nodes in (graph.node, *(f.node_def for f in graph.library.function)) for n in nodes
             for value in n.attr.values()}  # fmt: skip
    for at, function in enumerate(graph.library.function):
        name = function.signature.name
        if name not in calls:
            yield "function lost", name, lambda g, at=at: g.library.function.pop(at)
        for kind, change in FUNCTIONS.items():
            yield kind, name, lambda g, at=at, change=change: change(g.library.function[at])
    spare = define("extra_function", {}, {"out": ("float32", "one:output:0")}, *_ONE)
    yield "function added", "extra_function", lambda g: g.library.function.append(spare)


_ONE = (node("one", "Const", dtype="float32"),)


def _renamed(graph: Any, old: str, new: str) -> None:
    """Renames a node, also in the inputs of its consumers and in colocations."""
    for found in graph.node:
        found.name = new if found.name == old else found.name
        for at, text in enumerate(found.input):
            name, colon, port = text.removeprefix("^").partition(":")
            if name == old:
                found.input[at] = "^" * text.startswith("^") + new + colon + port
        if "_class" in found.attr:
            texts = found.attr["_class"].list.s
            texts[:] = [b"loc:@" + new.encode() if text == b"loc:@" + old.encode() else text for text in texts]


def _before_input(graph: Any, at: int) -> None:
    reader = graph.node[at]
    name = reader.name + "_between"
    graph.MergeFromString(typed("Identity", name, reader.input[0]))
    reader.input[0] = name


def _names_swapped(a: Any, b: Any) -> None:
    a.name, b.name = b.name, a.name


def _arguments(function: Any) -> None:
    first, last = (next(iter(function.signature.input_arg[at:])) for at in (0, -1))
    if first.type == last.type:
        first.name, last.name = last.name, first.name


def _results(function: Any) -> None:
    first, last = (function.signature.output_arg[at].name for at in (0, -1))
    function.ret[first], function.ret[last] = function.ret[last], function.ret[first]


def _noinline(function: Any) -> None:
    function.attr["_noinline"].b = not function.attr["_noinline"].b


FUNCTIONS: dict[str, Callable[[Any], None]] = {
    "arguments swapped": _arguments, "results swapped": _results, "attr of a function": _noinline,
    "control results dropped": lambda function: function.control_ret.clear(),
}  # fmt: skip


def mutations(data: bytes, *, each: int | None = None, whole: bool = True) -> Iterator[Mutation]:
    """Yields the variants of a graph.

    Args:
        data: the graph.
        each: the number of variants per kind, of random nodes; None for all.
        whole: whether to yield also changes of the graph and of functions, in addition to changes of nodes.
    """
    graph, kept = GraphDef.FromString(data), GraphDef.FromString(data)
    bodies = [("", graph.node, kept.node)]
    for function, its in zip(graph.library.function, kept.library.function, strict=True):
        bodies.append((its.signature.name, function.node_def, its.node_def))
    places = [(where, {n.name: n for n in its}, *pair)
              for where, found, its in bodies for pair in zip(found, its, strict=True)]  # fmt: skip
    chance = random.Random(0)
    for kind, change in NODES.items():
        done = 0
        for where, nodes, found, was in chance.sample(places, len(places)) if each else places:
            if done == each:
                break
            with suppress(LookupError, StopIteration, ValueError):
                change(found, nodes)
                if found != was:
                    done += 1
                    yield Mutation(kind, where, was.name, graph.SerializeToString(deterministic=True))
            found.CopyFrom(was)
    for kind, name, alter in _all_changes(kept) if whole else ():
        changed = GraphDef.FromString(data)
        with suppress(LookupError, StopIteration):
            alter(changed)
            if changed != kept:
                yield Mutation(kind, "", name, changed.SerializeToString(deterministic=True))


def unnamed(data: bytes, each: int) -> list[Mutation]:
    """Returns the variants whose changed node the comparison of graphs does not name."""
    before = from_bytes(GraphDef.FromString(data).SerializeToString(deterministic=True), "a.pb")
    out = []
    for changed in mutations(data, each=each, whole=False):
        found = listed_differences(compare_files(before, from_bytes(changed.data, "b.pb")))
        if (changed.where, changed.node) not in {(item.where, item.name) for item in found}:
            out.append(changed)
    return out
