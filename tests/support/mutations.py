"""Wrong variants of an edited graph: each is one thing done behind the back of the edit's intent.

`mutations` finds them: every node and function of the graph after an edit is looked at, and every kind of mutation that
fits it is given. Nothing here knows the edits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.attrs import functions_in, string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import FLOAT32, INT32, INT64, base_dtype
from support.graphs import attr, body_node, tensor

ADDED, SAID, TOUCHED, UNTOUCHED = "added", "said to be another", "touched", "untouched"
"""The effect of the edit on a node: added; listed in `Intent.changed`; renamed or rewired, or next to such a node."""

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
A_LITTLE = 1 + 2**-20

_TWO_SIDED = {"Sub": 0, "MatMul": 0, "ConcatV2": 0, "Less": 0, "Assert": 1, "StringJoin": 0, **dict.fromkeys(CALLS, 0)}
"""Ops whose inputs must not change places, and the first of the two that do."""

_OTHER_OP = {
    "Sub": "AddV2",
    "Mul": "AddV2",
    "Neg": "Abs",
    "Relu": "Elu",
    "Less": "Greater",
    "ArgMax": "ArgMin",
    "PartitionedCall": "StatefulPartitionedCall",
}
_NOTE = "_note"
_OTHER_ATTR: dict[str, tuple[str, Any]] = {
    "Conv2D": ("padding", "VALID"),
    "MatMul": ("transpose_b", True),
    "Assert": ("summarize", 7),
    "Enter": ("parallel_iterations", 1),
    "HashTableV2": ("use_node_name_sharing", True),
    "VariableV2": ("container", "elsewhere"),
    "TensorArrayV3": ("clear_after_read", True),
    "PartitionedCall": ("executor_type", "SINGLE_THREADED_EXECUTOR"),
    "StatefulPartitionedCall": ("executor_type", "SINGLE_THREADED_EXECUTOR"),
    "Identity": (_NOTE, True),
    "Sub": (_NOTE, True),
    "Const": (_NOTE, True),
    "Placeholder": (_NOTE, True),
}
_CPU = "/device:CPU:0"
_XLA = "_XlaMustCompile"


class Mutation(NamedTuple):
    """A wrong variant: `kind` of `target`, to which the edit has done `where`; SPOIL does it."""

    kind: str
    target: str
    where: str
    spoil: Callable[[Graph], None]

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.where}: {self.target}"


def mutations(graph: Graph, result: EditResult) -> Iterator[Mutation]:
    """All mutations of GRAPH, which an edit with RESULT has changed. They are for another such graph."""
    said, touched = set(result.intent.changed), set(graph.touched())

    def where(node: Node) -> str:
        if node.base_name is None:
            return ADDED
        return SAID if node.name in said else TOUCHED if node in touched else UNTOUCHED

    for node in graph.nodes():
        for kind, spoil in _of_node(graph, node):
            yield Mutation(kind, node.name, where(node), partial(_on_node, node.name, spoil))
    for a, b in _exchangeable(graph):
        yield Mutation("names exchanged", f"{a.name} and {b.name}", where(a), partial(_exchange_names, a.name, b.name))
    yield from _too_many(graph, result)
    yield from _of_functions(graph, result)


def _on_node(name: str, spoil: Change, graph: Graph) -> None:
    spoil(graph, graph[name])


Change = Callable[[Graph, Node], object]


def _of_node(graph: Graph, node: Node) -> Iterator[tuple[str, Change]]:
    yield from _of_edges(graph, node)
    yield from _of_names(graph, node)
    if node.op == "Const" and node.output.dtype == FLOAT32:
        yield "weight scaled", partial(_scale, 2.0)
        yield "weight scaled by a little", partial(_scale, A_LITTLE)
        yield "another dtype", _as_double
    if node.op == "Const" and len(set(_integers(node))) > 1:
        yield "vector turned round", _turn_round
    if node.op in _OTHER_OP:
        yield "another op", lambda g, n: g.set_op(n, _OTHER_OP[n.op])
    if node.has_attr(_XLA):
        yield "XLA taken away", lambda g, n: g.set_attr(n, _XLA, None)
    if node.op in _OTHER_ATTR:
        yield "another attr", _another_attr
    yield "another device", lambda g, n: g.set_device(n, "" if n.device else _CPU)
    if node.op == "Placeholder":
        yield "another shape", _wider
        if len(node.attr("shape").shape.dim) < 4:  # as a picture TensorFlow takes no scalar, and crashes
            yield "a shape that is not known", lambda g, n: g.set_attr(n, "shape", attr(None))
        yield "another dtype", lambda g, n: g.set_attr(n, "dtype", attr("float64"))
    if node.op == "Cast":
        yield "another dtype", lambda g, n: g.set_attr(n, "DstT", attr("float64"))
    if not graph.users(node) and not graph.colocated_with(node):
        yield "node lost", lambda g, n: g.remove([n])
    yield "name that nobody knows", lambda g, n: g.rename({n: n.name + "_nobody"})


def _of_edges(graph: Graph, node: Node) -> Iterator[tuple[str, Change]]:
    first = _TWO_SIDED.get(node.op)
    if first is not None and len(node.inputs) > first + 1:
        a, b = node.inputs[first : first + 2]
        if a != b and base_dtype(a.dtype) == base_dtype(b.dtype):
            yield "inputs swapped", partial(_read, {first: b.name, first + 1: a.name})
    for control in node.controls:
        yield "control edge dropped", partial(_drop_control, control.name)
    yield "control edge added", lambda g, n: g.set_controls(n, [*n.controls, g["nothing"]])
    for slot, read in enumerate(node.inputs):
        count = read.node.output_count or 1
        if count > 1 and read.node.op != "Merge":
            yield "next output", partial(_read, {slot: Output(read.node, (read.index + 1) % count).name})
    for slot, read in enumerate(node.inputs):
        original = _original(graph, read.node) if node.base_name is None else None
        if original is not None:
            yield "original read", partial(_read, {slot: Output(original, read.index).name})
    floats = [slot for slot, read in enumerate(node.inputs) if read.dtype == FLOAT32]
    if floats and node.op != "Merge":
        yield "another tensor read", partial(_read, {floats[0]: "nothing"})


def _of_names(graph: Graph, node: Node) -> Iterator[tuple[str, Change]]:
    if node.colocated:
        yield "colocation dropped", lambda g, n: g.set_colocated(n, ())
    else:
        yield "colocation added", lambda g, n: g.set_colocated(n, [g["nothing"]])
    if node.op == "Enter":
        for frame in _other_texts(graph, node, "frame_name"):
            yield "frame of another loop", partial(_set_frame, frame)
            yield "one Enter in the frame of another loop", partial(_set_text, "frame_name", frame)
    if node.has_attr("shared_name"):
        for name in _other_texts(graph, node, "shared_name"):
            yield "shared name of another", partial(_set_text, "shared_name", name)


def _original(graph: Graph, copy: Node) -> Node | None:
    """Returns the original of a copy in the model, found by its name."""
    name = "t/" + copy.name[2:] if copy.name.startswith("u/") else copy.name.removesuffix("_1")
    found = graph.find(name) if copy.base_name is None and name != copy.name else None
    return found if found is not None and found.op == copy.op else None


def _text(node: Node, key: str) -> str:
    value = node.plain_attr(key)
    return value.decode() if isinstance(value, bytes) else ""


def _other_texts(graph: Graph, node: Node, key: str) -> list[str]:
    """Returns the other values of a text in nodes with the op of `node`."""
    return sorted({_text(n, key) for n in graph.nodes() if n.op == node.op} - {_text(node, key)})


# -- changes of a node -------------------------------------------------------------------------------------------------


def _read(tensors: Mapping[int, str], graph: Graph, node: Node) -> None:
    graph.set_slots({node: {slot: graph.tensor(name) for slot, name in tensors.items()}})


def _drop_control(name: str, graph: Graph, node: Node) -> None:
    kept = [control for control in node.controls if control.name != name]
    assert len(kept) < len(node.controls)
    graph.set_controls(node, kept)


def _floats(proto: Any) -> Any:
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if proto.tensor_content:
        return np.frombuffer(proto.tensor_content, np.float32).reshape(shape)
    return np.array(proto.float_val, np.float32).reshape(shape)


def _scale(factor: float, graph: Graph, node: Node) -> None:
    values: Any = _floats(node.attr("value").tensor)
    scaled: Any = (values * np.float32(factor)).astype(np.float32)
    assert not np.array_equal(values, scaled)
    graph.set_attr(node, "value", tensor(scaled, "float32"))


def _integers(node: Node) -> list[int]:
    proto = node.attr("value").tensor
    if len(proto.tensor_shape.dim) != 1 or proto.dtype not in (INT32, INT64):
        return []
    return [int(v) for v in np.frombuffer(proto.tensor_content, np.int32 if proto.dtype == INT32 else np.int64)]


def _turn_round(graph: Graph, node: Node) -> None:
    graph.set_attr(node, "value", tensor(_integers(node)[::-1], "int32" if node.output.dtype == INT32 else "int64"))


def _as_double(graph: Graph, node: Node) -> None:
    graph.set_attr(node, "value", tensor(_floats(node.attr("value").tensor), "float64"))
    graph.set_attr(node, "dtype", attr("float64"))


def _another_attr(graph: Graph, node: Node) -> None:
    key, new = _OTHER_ATTR[node.op]
    if node.attr_bytes(key) == attr(new):
        new = not new if isinstance(new, bool) else "SAME" if key == "padding" else new * 2
    graph.set_attr(node, key, attr(new))


def _wider(graph: Graph, node: Node) -> None:
    """Makes all dims unknown: inputs that fitted before fit now."""
    shape = node.attr("shape")
    for dim in shape.shape.dim:
        dim.size = -1 if dim.size >= 0 else 1
    graph.set_attr(node, "shape", shape.SerializeToString())


def _set_text(key: str, text: str, graph: Graph, node: Node) -> None:
    graph.set_attr(node, key, string_value(text).SerializeToString())


def _set_frame(frame: str, graph: Graph, node: Node) -> None:
    """Moves the whole loop of a node into a frame."""
    own = _text(node, "frame_name")
    for other in list(graph.nodes()):
        if other.op == "Enter" and _text(other, "frame_name") == own:
            _set_text("frame_name", frame, graph, other)


# -- names, and nodes that are too many ------------------------------------------------------------------------


def _exchangeable(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Unused nodes, each with the next one of the same op and dtypes."""
    last: dict[tuple[Any, ...], Node] = {}
    for node in graph.nodes():
        if not graph.users(node) and node.output_dtypes:
            key = tuple(node.output_dtypes)
            if key in last:
                yield last[key], node
                yield node, last[key]
            last[key] = node


def _exchange_names(a: str, b: str, graph: Graph) -> None:
    one, other = graph[a], graph[b]
    graph.rename({one: b, other: a})


def _too_many(graph: Graph, result: EditResult) -> Iterator[Mutation]:
    value = {"dtype": attr("float32"), "value": tensor(1.0, "float32")}

    def constant(name: str, g: Graph) -> None:
        g.add(name, "Const", attrs=value)

    def placeholder(g: Graph) -> None:
        g.add("extra", "Placeholder", attrs={"dtype": attr("float32")})

    def output(g: Graph) -> None:
        g.add("extra", "Neg", [g["nothing"].output], attrs={"T": attr("float32")})

    def check(g: Graph) -> None:
        inputs = [g["true"].output, g["nothing"].output]
        g.add("extra", "Assert", inputs, attrs={"T": attr(["float32"])})

    def between(name: str, slot: int, g: Graph) -> None:
        node = g[name]
        attrs = {"T": attr("float32")}
        added = g.add(name + "_between", "Identity", [node.inputs[slot]], attrs=attrs)
        g.set_slots({node: {slot: added.output}})

    yield Mutation("node too many", "an unread constant", ADDED, partial(constant, "extra"))
    yield Mutation("node too many", "an input", ADDED, placeholder)
    yield Mutation("node too many", "an output", ADDED, output)
    if "true" in graph:
        yield Mutation("node too many", "an Assert", ADDED, check)
    for name in sorted(set(result.intent.removed)):
        if name not in graph:
            yield Mutation("another node in the place of one that went", name, ADDED, partial(constant, name))
    touched = set(graph.touched())
    for node in graph.nodes():
        for slot, read in enumerate(node.inputs[:2]):
            if read.dtype == FLOAT32 and node.op in ("Sub", "Mul", "MatMul", "Neg", *CALLS):
                where = ADDED if node.base_name is None else TOUCHED if node in touched else UNTOUCHED
                what = f"in front of input {slot} of {node.name}"
                yield Mutation("node too many", what, where, partial(between, node.name, slot))


# -- functions -------------------------------------------------------------------------------------------------


def _of_functions(graph: Graph, result: EditResult) -> Iterator[Mutation]:
    known = {function.signature.name for function in graph.pristine().functions}
    for function in graph.functions:
        name = function.signature.name
        where = UNTOUCHED if name in known else ADDED
        for kind, change in _of_body(function):
            yield Mutation(kind, name, where, partial(_replace, name, change))
        yield Mutation("another device in a function", name, where, partial(_replace, name, _device_in_body))
    called = {func.name for node in graph.nodes() for key in node.attr_keys for func in functions_in(node.attr(key))}
    for node in graph.nodes():
        for key in node.attr_keys:
            if "func" in str(node.attr(key).WhichOneof("value")):
                for other in _alike(graph, node.attr(key).func.name):
                    where = ADDED if node.base_name is None else UNTOUCHED
                    yield Mutation(
                        "another function called",
                        f"{key} of {node.name}: {other}",
                        where,
                        partial(_call, node.name, key, other),
                    )
    for name in sorted(known - called):
        if name in graph.functions and not any(_calls(f, name) for f in graph.functions):
            yield Mutation("function lost", name, UNTOUCHED, partial(_remove_function, name))
    yield Mutation("function too many", "an uncalled one", ADDED, _add_function)


def _calls(function: Any, name: str) -> bool:
    return any(value.func.name == name for node in function.node_def for value in node.attr.values())


def _of_body(function: Any) -> Iterator[tuple[str, Callable[[Any], None]]]:
    signature, nodes = function.signature, function.node_def
    if any(node.op == "Sub" for node in nodes):
        yield "inputs swapped in a function", lambda f: _exchange(_first(f, "Sub").input)
        yield "another op in a function", lambda f: setattr(_first(f, "Sub"), "op", "AddV2")
    if any(node.op == "Const" and node.attr["dtype"].type == FLOAT32 for node in nodes):
        yield "weight of another sign in a function", partial(_scale_in_body, -1.0)
        yield "weight scaled by a little in a function", partial(_scale_in_body, A_LITTLE)
    if len(signature.output_arg) > 1:
        yield "results of a function exchanged", _exchange_results
    args = [arg.type for arg in signature.input_arg]
    if len(args) > 1 and args[0] == args[-1]:
        yield "arguments of a function exchanged", _exchange_arguments
    yield "attr of a function", _another_function_attr
    if any(inner.startswith("^") for node in nodes for inner in node.input):
        yield "control edge dropped in a function", _drop_in_body
    if function.control_ret:
        yield "control result of a function dropped", lambda f: f.control_ret.clear()


def _replace(name: str, change: Callable[[Any], None], graph: Graph) -> None:
    copy = type(graph.functions.get(name))()
    copy.CopyFrom(graph.functions.get(name))
    change(copy)
    assert copy != graph.functions.get(name)
    graph.functions.replace(copy)


def _first(function: Any, op: str) -> Any:
    """Returns the first node with an op; a Const must have floats."""
    return next(n for n in function.node_def if n.op == op and (op != "Const" or n.attr["dtype"].type == FLOAT32))


def _exchange(inputs: Any) -> None:
    inputs[0], inputs[1] = inputs[1], inputs[0]


def _device_in_body(function: Any) -> None:
    node = function.node_def[0]
    node.device = "" if node.device else _CPU


def _scale_in_body(factor: float, function: Any) -> None:
    node = _first(function, "Const")
    scaled = (_floats(node.attr["value"].tensor) * np.float32(factor)).astype(np.float32)
    node.attr["value"].ParseFromString(tensor(scaled, "float32"))


def _exchange_results(function: Any) -> None:
    first, last = (function.signature.output_arg[i].name for i in (0, -1))
    function.ret[first], function.ret[last] = function.ret[last], function.ret[first]


def _exchange_arguments(function: Any) -> None:
    args = function.signature.input_arg
    args[0].name, args[-1].name = args[-1].name, args[0].name


def _another_function_attr(function: Any) -> None:
    if "_noinline" in function.attr:
        del function.attr["_noinline"]
    else:
        function.attr["_noinline"].b = True


def _drop_in_body(function: Any) -> None:
    node = next(node for node in function.node_def if any(inner.startswith("^") for inner in node.input))
    kept = [inner for inner in node.input if not inner.startswith("^")]
    del node.input[:]
    node.input.extend(kept)


def _alike(graph: Graph, name: str) -> list[str]:
    """Other functions with the same types."""
    own = graph.functions.get(name)

    def types(function: Any) -> tuple[list[int], list[int]]:
        signature = function.signature
        return [arg.type for arg in signature.input_arg], [arg.type for arg in signature.output_arg]

    if own is None:
        return []
    names = [f.signature.name for f in graph.functions if f.signature.name != name and types(f) == types(own)]
    return sorted(names)[:1]


def _call(name: str, key: str, function: str, graph: Graph) -> None:
    value = graph[name].attr(key)
    value.func.name = function
    graph.set_attr(graph[name], key, value.SerializeToString())


def _remove_function(name: str, graph: Graph) -> None:
    graph.functions.remove([name])


def _add_function(graph: Graph) -> None:
    copy = type(next(iter(graph.functions)))()
    copy.signature.name = "extra_function"
    copy.signature.output_arg.add(name="out", type=FLOAT32)
    body_node(copy, "one", "Const", dtype="float32", value=tensor(1.0, "float32"))
    copy.ret["out"] = "one:output:0"
    graph.functions.add(copy)
