"""For each edit command three calls that are right for a model by the way they are chosen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edit_support.model import FLOATS, Model, middle
from gdsurgeon.analysis.queries.attr_text import placed_nodes
from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.ops.dtypes import BOOL, FLOAT64, INT32, INT64, UINT8, dtype_name
from gdsurgeon.ops.kinds import PLACEHOLDERS

INTEGERS: frozenset[int] = frozenset((UINT8, INT32, INT64))

SCALARS: dict[int, str] = dict.fromkeys(FLOATS | INTEGERS, "1") | {BOOL: "false"}
"""The value of a frozen scalar input by its dtype."""

EXCHANGED = {
    "Relu": "Relu6", "Relu6": "Relu", "Elu": "Relu", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "Softmax": "LogSoftmax",
    "Add": "Sub", "AddV2": "Sub", "Mul": "AddV2", "Sub": "AddV2", "Maximum": "Minimum", "Minimum": "Maximum",
}  # fmt: skip
"""Ops and ops that can replace them."""

UNARY = ("Relu", "Relu6", "Elu", "Sigmoid", "Tanh", "Softmax")

DEFAULTS = {
    "MatMul": "transpose_a=false", "Conv2D": "dilations=1,1,1,1", "Cast": "Truncate=false", "Mean": "keep_dims=false",
    "StridedSlice": "new_axis_mask=0", "Shape": "out_type=int32",
}  # fmt: skip
"""An attr of an op, and its default."""

Arguments = list[str]


# -- names and wiring -------------------------------------------------------------------------------------------------


def _rename_ends(model: Model) -> Arguments | None:
    ends = dict.fromkeys([*(node.name for node in model.inputs[:1]), model.outputs[0].name])
    return [f"{name}=renamed/{i}" for i, name in enumerate(ends)]


def _rename_scope(model: Model) -> Arguments | None:
    return ["--rename-scope", f"{model.scopes()[0]}=moved"] if model.scopes() else None


def _reroute_identity(model: Model) -> Arguments | None:
    found = [n for n in model.with_op("Identity") if n.inputs and model.graph.users(n) and model.runs_once(n)]
    return [f"{found[0].name}={found[0].inputs[0].name}"] if found else None


def _reroute_constant(model: Model) -> Arguments | None:
    pair = model.alike()
    return [f"{pair[0].name}={pair[1].name}"] if pair else None


def _reroute_swap(model: Model) -> Arguments | None:
    pair = _reroute_constant(model)
    return ["--swap", *pair] if pair else None


def _insert_at_input(model: Model) -> Arguments | None:
    found = [node for node in model.inputs if model.graph.users(node)]
    return ["--at", found[0].name, model.part("Identity", found[0].output.dtype)] if found else None


def _insert_in_the_middle(model: Model) -> Arguments | None:
    node = middle(model.floats)
    return ["--at", node.name, model.part("Abs", node.output.dtype)] if node else None


def _insert_inside(model: Model) -> Arguments | None:
    node = middle(model.inside)
    return ["--at", node.name, model.part("Identity", node.output.dtype)] if node else None


def _control_above(model: Model) -> Arguments | None:
    output = model.outputs[0]
    found = middle([node for node in model.above(output) if model.runs_once(node) and node is not output])
    return ["--add", f"{output.name}=^{found.name}"] if found else None


def _control_beside(model: Model) -> Arguments | None:
    if not model.floats:
        return None
    late, early = model.floats[-1], model.floats[0]
    return ["--add", f"{late.name}=^{early.name}"] if late not in model.above(early) else None


def _control_removed(model: Model) -> Arguments | None:
    waiting = [node for node in model.floats + model.outputs if node.controls and node.op not in PLACEHOLDERS]
    return ["--remove", f"{waiting[0].name}=^*"] if waiting else None


# -- inputs and outputs -----------------------------------------------------------------------------------------------


def _with_batch(size: str) -> Callable[[Model], Arguments | None]:
    def chosen(model: Model) -> Arguments | None:
        for node in model.inputs:
            shape = stated_shape(node.output)
            is_one_image = shape is not None and len(shape) == 3 and shape.count(-1) == 2
            if shape and len(shape) > 1 and not is_one_image:
                dims = [size, *("?" if dim < 0 else str(dim) for dim in shape[1:])]
                return [f"{node.name}={','.join(dims)}"]
        return None

    return chosen


def _freeze_scalars(model: Model) -> Arguments | None:
    scalars = [node for node in model.inputs if stated_shape(node.output) == () and node.output.dtype in SCALARS]
    return [f"{node.name}={SCALARS[node.output.dtype]}" for node in scalars] or None


def _freeze_all(model: Model) -> Arguments | None:
    with np.load(model.folder / "feeds.npz") as feeds:
        fed = {key: feeds[key] for key in feeds if key.partition("@")[0] in {node.name for node in model.inputs}}
    return ["--values", model.values(**fed)] if fed else None


def _freeze_constant(model: Model) -> Arguments | None:
    node = middle(model.constants)
    if node is None:
        return None
    dtype = dtype_name(node.output.dtype)
    return ["--values", model.values(**{node.name: np.full(stated_shape(node.output) or (), 0.5, dtype)})]


def _preprocessed(op: str, dtypes: frozenset[int] | None) -> Callable[[Model], Arguments | None]:
    def chosen(model: Model) -> Arguments | None:
        found = [node for node in model.inputs if dtypes is None or node.output.dtype in dtypes]
        if not found:
            return None
        dtype = found[0].output.dtype
        part = model.part(op, FLOAT64 if op == "Cast" else dtype, dtype if op == "Cast" else None)
        return [part, "--map", f"{found[0].name}=x,y"]

    return chosen


def _postprocessed(op: str, dtypes: frozenset[int] | None) -> Callable[[Model], Arguments | None]:
    def chosen(model: Model) -> Arguments | None:
        found = [node for node in model.outputs if dtypes is None or node.output.dtype in dtypes]
        if not found:
            return None
        part = model.part(op, found[0].output.dtype)
        return [part, "--map", f"{found[0].name}=x,y"]

    return chosen


# -- nodes ------------------------------------------------------------------------------------------------------------


def _remove_identities(model: Model) -> Arguments | None:
    served = [arg for node in model.outputs if node.op == "Identity" for arg in ("--exclude", f"^{node.name}$")]
    found = [node for node in model.with_op("Identity") if node not in model.outputs]
    return ["--op", "Identity", "--bypass", *served] if found else None


def _remove_dead(model: Model) -> Arguments | None:
    if not model.dead:
        return None
    path = model.folder / "dead.txt"
    path.write_text("\n".join(model.dead))
    return ["--nodes", str(path), "--allow-outputs"]


def _remove_middle(model: Model) -> Arguments | None:
    node = middle(model.floats)
    return ["--node", node.name, "--dangling", "placeholder"] if node else None


def _note(_model: Model) -> Arguments | None:
    return ["--select", ".", "_note:string=edited"]


def _without_shapes(model: Model) -> Arguments | None:
    noted = any(node.has_attr("_output_shapes") for node in model.graph.nodes())
    return ["--select", ".", "--unset", "_output_shapes"] if noted else None


def _default_stated(model: Model) -> Arguments | None:
    for op, attr in DEFAULTS.items():
        key, _, _ = attr.partition("=")
        if any(not node.has_attr(key) for node in model.with_op(op)):
            return ["--op", op, attr]
    return None


def _swap_identities(model: Model) -> Arguments | None:
    return ["--op", "Identity", "op=StopGradient"] if model.with_op("Identity") else None


def _swap_one(ops: frozenset[str]) -> Callable[[Model], Arguments | None]:
    def chosen(model: Model) -> Arguments | None:
        found = [node for node in model.floats if node.op in ops]
        return ["--node", found[0].name, f"op={EXCHANGED[found[0].op]}"] if found else None

    return chosen


def _map_device(model: Model) -> Arguments | None:
    placed = next(placed_nodes(model.graph), None)
    return ["--replace", f"{placed.device}=/cpu:0"] if placed else None


# -- functions, copies and parts, gradients ---------------------------------------------------------------------------


def _fuse_one(model: Model) -> Arguments | None:
    node = middle(model.floats)
    return ["--node", node.name, "--name", "fused"] if node else None


def _fuse_scope(model: Model) -> Arguments | None:
    return ["--scope", model.scopes()[0], "--name", "fused"] if model.scopes() else None


def _fuse_between(model: Model) -> Arguments | None:
    for output in model.outputs:
        above = model.above(output)
        fed = [node.name for node in model.inputs if node in above]
        if fed:
            return ["--between", f"{','.join(fed)}={output.name}", "--with-consts", "--name", "fused"]
    return None


def _inline(*options: str) -> Callable[[Model], Arguments | None]:
    return lambda model: list(options) if any(calling_nodes(model.graph)) else None


def _inline_first(model: Model) -> Arguments | None:
    called = [names for _, names in calling_nodes(model.graph) if names]
    return ["--function", called[0][0]] if called else None


def _extract_tail(model: Model) -> Arguments | None:
    node = middle(model.floats)
    if node is None:
        return None
    below = [output.name for output in model.outputs if node in model.above(output)]
    return ["--inputs", node.name, "--outputs", ",".join(below)]


def _extract_inside(model: Model) -> Arguments | None:
    node = middle(model.inside) or middle(model.floats)
    return ["--outputs", node.name] if node else None


def _import_behind(model: Model) -> Arguments | None:
    output = model.outputs[0]
    part = model.part("Identity", output.output.dtype)
    return [part, "--prefix", "behind", "--map", f"{output.name}=x"]


def _import_in_the_middle(model: Model) -> Arguments | None:
    node = middle(model.floats)
    if node is None:
        return None
    return [model.part("Abs", node.output.dtype), "--prefix", "beside", "--map", f"{node.name}=x"]


def _clone(place: int) -> Callable[[Model], Arguments | None]:
    return lambda model: [model.scopes()[place], "clone"] if model.scopes() else None


def _clone_sharing(model: Model) -> Arguments | None:
    scope = next(iter(model.scopes()), "")
    shared = [node.name for node in model.constants if node.name.startswith(f"{scope}/")]
    return [scope, "clone", "--share", f"^{shared[0]}$"] if shared else None


def _gradients(*options: str) -> Callable[[Model], Arguments | None]:
    def chosen(model: Model) -> Arguments | None:
        for output in model.outputs:
            above = model.above(output) if output.output.dtype in FLOATS else []
            fed = [node for node in model.inputs if node in above and node.output.dtype in FLOATS]
            if fed:
                return ["--ys", output.name, "--xs", fed[0].name, *options]
        return None

    return chosen


CHOICES: dict[str, dict[str, Callable[[Model], Arguments | None]]] = {
    "set-shape": {
        "a batch of 1": _with_batch("1"),
        "an open batch": _with_batch("?"),
        "a batch of 3": _with_batch("3"),
    },
    "freeze-input": {
        "the scalar inputs": _freeze_scalars,
        "every input, at its fed value": _freeze_all,
        "a different value for a constant": _freeze_constant,
    },
    "add-preprocessing": {
        "Identity": _preprocessed("Identity", None),
        "Neg": _preprocessed("Neg", FLOATS),
        "Cast from float64": _preprocessed("Cast", FLOATS | INTEGERS),
    },
    "add-postprocessing": {
        "Identity": _postprocessed("Identity", None),
        "Neg": _postprocessed("Neg", FLOATS),
        "Shape": _postprocessed("Shape", None),
    },
    "rename": {
        "the first input and output": _rename_ends,
        "the largest scope": _rename_scope,
        "all nodes, by a pattern": lambda _model: ["--regex", "^=all/"],
    },
    "reroute": {
        "an Identity to its input": _reroute_identity,
        "a constant to a similar constant": _reroute_constant,
        "the same two, swapped": _reroute_swap,
    },
    "insert": {
        "Identity at an input": _insert_at_input,
        "Abs in the middle": _insert_in_the_middle,
        "Identity in a loop or branch": _insert_inside,
    },
    "control-edges": {
        "a control edge to an output from a node upstream": _control_above,
        "from a node elsewhere": _control_beside,
        "all control edges of a node removed": _control_removed,
    },
    "remove": {
        "Identity, bypassed": _remove_identities,
        "all nodes that no output needs": _remove_dead,
        "a node in the middle, replaced by a placeholder": _remove_middle,
    },
    "set-attr": {
        "a new attribute on all nodes": _note,
        "no recorded shapes": _without_shapes,
        "an explicit default": _default_stated,
        "Identity to StopGradient": _swap_identities,
        "an activation": _swap_one(frozenset(UNARY)),
        "an arithmetic op": _swap_one(frozenset(EXCHANGED) - frozenset(UNARY)),
    },
    "set-device": {
        "none": lambda model: ["--clear"] if any(placed_nodes(model.graph)) else None,
        "the CPU for all nodes": lambda _model: ["--assign", "/cpu:0", "--select", "."],
        "the CPU instead of a different device": _map_device,
    },
    "fuse-ops": {
        "a node in the middle": _fuse_one,
        "the largest scope": _fuse_scope,
        "all between inputs and an output": _fuse_between,
    },
    "inline": {
        "all calls": _inline(),
        "all calls, names kept": _inline("--keep-names"),
        "one function": _inline_first,
    },
    "extract": {
        "the last output": lambda model: ["--outputs", model.outputs[-1].name],
        "all nodes downstream of the middle": _extract_tail,
        "all nodes upstream of a node, in a loop or branch if one exists": _extract_inside,
    },
    "import": {
        "the model itself": lambda model: [str(model.path), "--prefix", "copy"],
        "Identity after an output": _import_behind,
        "Abs after the middle": _import_in_the_middle,
    },
    "clone-scope": {
        "the largest scope": _clone(0),
        "the smallest scope": _clone(-1),
        "the largest scope, a constant shared": _clone_sharing,
    },
    "add-gradients": {
        "of an output by an input": _gradients(),
        "by the weights as well": _gradients("--weights"),
        "with checkpoints": _gradients("--checkpoints", "memory"),
    },
}
"""For each edit command the choices, in words, and the arguments behind MODEL; None where a choice does not apply."""
