"""For each edit command calls that are valid for a model, because the facts of the model choose their arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np

import gdsurgeon as gds
from gdsurgeon.analysis.queries.attr_text import placed_nodes
from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.analysis.traversal.control_flow import control_flow_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, REF, UINT8, dtype_name
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS

FLOATS = frozenset((FLOAT32, FLOAT64))
INTEGERS = frozenset((UINT8, INT32, INT64))
SCALARS = dict.fromkeys(FLOATS | INTEGERS, "1") | {BOOL: "false"}
"""The value of a frozen scalar input by its dtype."""

EXCHANGED = {
    "Relu": "Relu6", "Relu6": "Relu", "Elu": "Relu", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "Softmax": "LogSoftmax",
    "Add": "Sub", "AddV2": "Sub", "Mul": "AddV2", "Sub": "AddV2", "Maximum": "Minimum", "Minimum": "Maximum",
}  # fmt: skip
"""Ops and ops that can replace them."""
UNARY = frozenset(("Relu", "Relu6", "Elu", "Sigmoid", "Tanh", "Softmax"))

DEFAULTS = {
    "MatMul": "transpose_a=false", "Conv2D": "dilations=1,1,1,1", "Cast": "Truncate=false", "Mean": "keep_dims=false",
    "StridedSlice": "new_axis_mask=0", "Shape": "out_type=int32",
}  # fmt: skip
"""An attr of an op, and its default."""

T = TypeVar("T")


class Model:
    """A model, with the facts that the choices need.

    Attributes:
        path: the path of its file.
        folder: a folder for parts and values; may contain ``feeds.npz``.
        graph: the model.
        inputs: the placeholders.
        outputs: the output nodes, without variables.
        floats: nodes upstream of an output that compute one tensor of floats, once in each run; producers first.
        inside: such nodes in loops and branches.
        constants: constants of floats upstream of an output.
        dead: names of nodes that no output needs.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.graph = gds.load(str(path))
        self.outputs = [node for node in output_nodes(self.graph) if node.output.dtype < REF]
        self.inputs = [node for node in self.graph.nodes() if node.op in PLACEHOLDERS]
        self._topology, self._flow = topology_of(self.graph), control_flow_of(self.graph)
        needed = self.upstream(*self.outputs)
        floats = [node for node in needed if node.output_count == 1 and node.output.dtype in FLOATS]
        self.constants = [node for node in floats if node.op == "Const"]
        computed = [node for node in floats if node.inputs and node.op not in CONTROL_FLOW]
        self.floats = [node for node in computed if self.runs_once(node) and node not in self.outputs]
        self.inside = [node for node in computed if not self.runs_once(node)]
        names = {node.name for node in needed}
        self.dead = [name for name in self.graph.names() if name not in names]

    def runs_once(self, node: Node) -> bool:
        """Returns whether the node is outside of all loops and branches."""
        return self._flow.runs_once(self._topology.id_of(node))

    def upstream(self, *nodes: Node) -> list[Node]:
        """Returns `nodes` and the nodes that they depend on."""
        flags = self._topology.upstream(map(self._topology.id_of, nodes))
        return [found for found in self.graph.nodes() if flags[self._topology.id_of(found)]]

    def with_op(self, *ops: str) -> list[Node]:
        """Returns the nodes with these ops, in the order of the file."""
        return [node for node in self.graph.nodes() if node.op in ops]

    def scopes(self) -> list[str]:
        """Returns the outermost scopes, the largest first."""
        counted = Counter(name.partition("/")[0] for name in self.graph.names() if "/" in name)
        return [scope for scope, _ in counted.most_common()]

    def part(self, op: str, dtype: int, result: int | None = None) -> str:
        """Writes a graph that computes ``y = op(x)``; a Cast returns the dtype `result`. Returns its path."""
        attrs = {"T": dtype} if result is None else {"SrcT": dtype, "DstT": result}
        said = " ".join(f'attr {{ key: "{key}" value {{ type: {value} }} }}' for key, value in attrs.items())
        given = f'node {{ name: "x" op: "Placeholder" attr {{ key: "dtype" value {{ type: {dtype} }} }} }}'
        return self.written("part.pbtxt", f'{given} node {{ name: "y" op: "{op}" input: "x" {said} }}')

    def written(self, name: str, text: str) -> str:
        """Writes a file into the folder. Returns its path."""
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def values(self, arrays: dict[str, np.ndarray]) -> list[str]:
        """Returns the option for an archive of arrays."""
        np.savez(self.folder / "values.npz", allow_pickle=False, **arrays)
        return ["--values", str(self.folder / "values.npz")]


def some(found: Iterable[T]) -> list[T]:
    """Returns the items. Raises IndexError if there are no items."""
    if items := list(found):
        return items
    raise IndexError


def middle(nodes: list[Node]) -> Node:
    """Returns the node in the middle. Raises IndexError if there are no nodes."""
    return nodes[len(nodes) // 2]


def batch(model: Model, size: str) -> list[str]:
    """Returns a shape with this batch size for the first input that has a batch."""
    for node in model.inputs:
        shape = stated_shape(node.output) or ()
        is_one_image = len(shape) == 3 and shape.count(-1) == 2
        if len(shape) > 1 and not is_one_image:
            return [f"{node.name}={','.join([size, *('?' if dim < 0 else str(dim) for dim in shape[1:])])}"]
    raise IndexError


def freeze_all(model: Model) -> list[str]:
    """Returns the fed value of each input."""
    names = {node.name for node in model.inputs}
    with np.load(model.folder / "feeds.npz") as feeds:
        fed = some(key for key in feeds if key.partition("@")[0] in names)
        return model.values({key: feeds[key] for key in fed})


def freeze_constant(model: Model) -> list[str]:
    """Returns a different value for a constant."""
    node = middle(model.constants)
    return model.values({node.name: np.full(stated_shape(node.output) or (), 0.5, dtype_name(node.output.dtype))})


def joined(nodes: list[Node], model: Model, op: str, dtypes: frozenset[int] | None = None) -> list[str]:
    """Returns a part with `op`, joined to the first of the nodes with one of the dtypes."""
    node = some(node for node in nodes if dtypes is None or node.output.dtype in dtypes)[0]
    dtype = node.output.dtype
    part = model.part(op, FLOAT64, dtype) if op == "Cast" else model.part(op, dtype)
    return [part, "--map", f"{node.name}=x,y"]


def equal_constants(model: Model) -> tuple[str, str]:
    """Returns the names of two constants with one dtype and shape."""
    seen: dict[tuple[object, ...], str] = {}
    for node in model.constants:
        if model.runs_once(node) and not node.controls:
            kind = node.output.dtype, stated_shape(node.output)
            if kind in seen:
                return seen[kind], node.name
            seen[kind] = node.name
    raise IndexError


def reroute_identity(model: Model) -> list[str]:
    """Returns the first Identity with consumers, and its input."""
    found = [node for node in model.with_op("Identity") if node.inputs and model.graph.users(node)]
    node = some(node for node in found if model.runs_once(node))[0]
    return [f"{node.name}={node.inputs[0].name}"]


def insertion(node: Node, model: Model, op: str) -> list[str]:
    """Returns the arguments that insert an op after a node."""
    return ["--at", node.name, model.part(op, node.output.dtype)]


def remove_identities(model: Model) -> list[str]:
    """Returns the removal of each Identity that is not an output."""
    some(node for node in model.with_op("Identity") if node not in model.outputs)
    outputs = (node.name for node in model.outputs if node.op == "Identity")
    return ["--op", "Identity", "--bypass", *(word for name in outputs for word in ("--exclude", f"^{name}$"))]


def default_stated(model: Model) -> list[str]:
    """Returns an op and an attr that a node of this op lacks, with its default."""
    absent = (
        (op, attr)
        for op, attr in DEFAULTS.items()
        if any(not node.has_attr(attr.partition("=")[0]) for node in model.with_op(op))
    )
    op, attr = some(absent)[0]
    return ["--op", op, attr]


def exchanged(model: Model, ops: frozenset[str]) -> list[str]:
    """Returns a node with one of the ops, and its new op."""
    node = some(node for node in model.floats if node.op in ops)[0]
    return ["--node", node.name, f"op={EXCHANGED[node.op]}"]


def extract_tail(model: Model) -> list[str]:
    """Returns the nodes downstream of the middle."""
    node = middle(model.floats)
    outputs = [output.name for output in model.outputs if node in model.upstream(output)]
    return ["--inputs", node.name, "--outputs", ",".join(outputs)]


def imported(node: Node, model: Model, op: str, prefix: str) -> list[str]:
    """Returns a part that reads a node."""
    return [model.part(op, node.output.dtype), "--prefix", prefix, "--map", f"{node.name}=x"]


def gradients(model: Model, *options: str) -> list[str]:
    """Returns an output and an input of floats upstream of it."""
    for output in model.outputs:
        upstream = model.upstream(output) if output.output.dtype in FLOATS else []
        if fed := [node for node in model.inputs if node in upstream and node.output.dtype in FLOATS]:
            return ["--ys", output.name, "--xs", fed[0].name, *options]
    raise IndexError


def calling(model: Model, *options: str) -> list[str]:
    """Returns the options if the model calls functions."""
    some(calling_nodes(model.graph))
    return list(options)


CHOICES: dict[str, dict[str, Callable[[Model], list[str]]]] = {
    "set-shape": {
        "a batch of 1": lambda m: batch(m, "1"),
        "an open batch": lambda m: batch(m, "?"),
        "a batch of 3": lambda m: batch(m, "3"),
    },
    "freeze-input": {
        "the scalar inputs": lambda m: some(
            f"{node.name}={SCALARS[node.output.dtype]}"
            for node in m.inputs
            if stated_shape(node.output) == () and node.output.dtype in SCALARS
        ),
        "every input, at its fed value": freeze_all,
        "a different value for a constant": freeze_constant,
    },
    "add-preprocessing": {
        "Identity": lambda m: joined(m.inputs, m, "Identity"),
        "Neg": lambda m: joined(m.inputs, m, "Neg", FLOATS),
        "Cast from float64": lambda m: joined(m.inputs, m, "Cast", FLOATS | INTEGERS),
    },
    "add-postprocessing": {
        "Identity": lambda m: joined(m.outputs, m, "Identity"),
        "Neg": lambda m: joined(m.outputs, m, "Neg", FLOATS),
        "Shape": lambda m: joined(m.outputs, m, "Shape"),
    },
    "rename": {
        "the first input and output": lambda m: [
            f"{name}=renamed/{i}"
            for i, name in enumerate(dict.fromkeys([*(node.name for node in m.inputs[:1]), m.outputs[0].name]))
        ],
        "the largest scope": lambda m: ["--rename-scope", f"{m.scopes()[0]}=moved"],
        "all nodes, by a pattern": lambda _: ["--regex", "^=all/"],
    },
    "reroute": {
        "an Identity to its input": reroute_identity,
        "a constant to a similar constant": lambda m: ["=".join(equal_constants(m))],
        "the same two, swapped": lambda m: ["--swap", "=".join(equal_constants(m))],
    },
    "insert": {
        "Identity at an input": lambda m: insertion(some(filter(m.graph.users, m.inputs))[0], m, "Identity"),
        "Abs in the middle": lambda m: insertion(middle(m.floats), m, "Abs"),
        "Identity in a loop or branch": lambda m: insertion(middle(m.inside), m, "Identity"),
    },
    "control-edges": {
        "a control edge to an output from a node upstream": lambda m: [
            "--add",
            f"{(out := m.outputs[0]).name}=^"
            f"{middle([node for node in m.upstream(out) if m.runs_once(node) and node != out]).name}",
        ],
        "from a node elsewhere": lambda m: [
            *some(["--add"] if m.floats[-1] not in m.upstream(m.floats[0]) else []),
            f"{m.floats[-1].name}=^{m.floats[0].name}",
        ],
        "all control edges of a node removed": lambda m: some(
            ["--remove", f"{node.name}=^*"]
            for node in m.floats + m.outputs
            if node.controls and node.op not in PLACEHOLDERS
        )[0],
    },
    "remove": {
        "Identity, bypassed": remove_identities,
        "all nodes that no output needs": lambda m: (
            ["--nodes", m.written("dead.txt", "\n".join(some(m.dead))), "--allow-outputs"]
        ),
        "a node in the middle, replaced by a placeholder": lambda m: (
            f"--node {middle(m.floats).name} --dangling placeholder".split()
        ),
    },
    "set-attr": {
        "a new attribute on all nodes": lambda _: ["--select", ".", "_note:string=edited"],
        "no recorded shapes": lambda m: some(
            ["--select", ".", "--unset", "_output_shapes"] for n in m.graph.nodes() if n.has_attr("_output_shapes")
        )[0],
        "an explicit default": default_stated,
        "Identity to StopGradient": lambda m: ["--op", some(m.with_op("Identity"))[0].op, "op=StopGradient"],
        "an activation": lambda m: exchanged(m, UNARY),
        "an arithmetic op": lambda m: exchanged(m, frozenset(EXCHANGED) - UNARY),
    },
    "set-device": {
        "none": lambda m: some(["--clear"] if any(placed_nodes(m.graph)) else []),
        "the CPU for all nodes": lambda _: ["--assign", "/cpu:0", "--select", "."],
        "the CPU instead of a different device": lambda m: (
            f"--replace {some(placed_nodes(m.graph))[0].device}=/cpu:0".split()
        ),
    },
    "fuse-ops": {
        "a node in the middle": lambda m: ["--node", middle(m.floats).name, "--name", "fused"],
        "the largest scope": lambda m: ["--scope", m.scopes()[0], "--name", "fused"],
        "all between inputs and an output": lambda m: some(
            ["--between", f"{','.join(fed)}={output.name}", "--with-consts", "--name", "fused"]
            for output, upstream in ((output, m.upstream(output)) for output in m.outputs)
            if (fed := [node.name for node in m.inputs if node in upstream])
        )[0],
    },
    "inline": {
        "all calls": calling,
        "all calls, names kept": lambda m: calling(m, "--keep-names"),
        "one function": lambda m: ["--function", some(names[0] for _, names in calling_nodes(m.graph) if names)[0]],
    },
    "extract": {
        "the last output": lambda m: ["--outputs", m.outputs[-1].name],
        "all nodes downstream of the middle": extract_tail,
        "all nodes upstream of a node, in a loop or branch if one exists": lambda m: (
            f"--outputs {middle(m.inside or m.floats).name}".split()
        ),
    },
    "import": {
        "the model itself": lambda m: [str(m.path), "--prefix", "copy"],
        "Identity after an output": lambda m: imported(m.outputs[0], m, "Identity", "behind"),
        "Abs after the middle": lambda m: imported(middle(m.floats), m, "Abs", "beside"),
    },
    "clone-scope": {
        "the largest scope": lambda m: [m.scopes()[0], "clone"],
        "the smallest scope": lambda m: [m.scopes()[-1], "clone"],
        "the largest scope, a constant shared": lambda m: some(
            [scope, "clone", "--share", f"^{node.name}$"]
            for scope in m.scopes()[:1]
            for node in m.constants
            if node.name.startswith(f"{scope}/")
        )[0],
    },
    "add-gradients": {
        "of an output by an input": gradients,
        "by the weights as well": lambda m: gradients(m, "--weights"),
        "with checkpoints": lambda m: gradients(m, "--checkpoints", "memory"),
    },
}
"""By edit command: functions that return arguments for a model. They raise IndexError if they do not apply."""
