"""Which tensors a backward pass keeps: the choice, made by a plan, and the nodes that compute the others again."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import has_state
from gdsurgeon.analysis.traversal.control_flow import control_flow
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.gradients.backward_pass import BackwardPass
from gdsurgeon.gradients.checkpointing.forward_pass import TINY, ForwardPass, TensorId, forward_pass
from gdsurgeon.gradients.checkpointing.peak import peak
from gdsurgeon.gradients.checkpointing.planner import CheckpointPlan, CheckpointPlanner
from gdsurgeon.gradients.checkpointing.step import StepGraph, step_of
from gdsurgeon.gradients.checkpointing.sums import Sums
from gdsurgeon.gradients.request import tensors_named
from gdsurgeon.gradients.tensor_sizes import Sizes, together
from gdsurgeon.graph.attrs import bytes_value, type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import ENTER, MARK, READS_SHAPE, RECOMPUTED, SWITCH
from gdsurgeon.runtime.base import TensorSpec
from gdsurgeon.text import MIB, told_apart
from gdsurgeon.wire.protos import AttrValue, GraphDef

MODES = ("none", "speed", "memory", "collection")


class Checkpoints(NamedTuple):
    """The request for the tensors of the forward pass that are kept.

    Attributes:
        mode: one of `MODES`, or '' where `tensors` says it.
        tensors: names of the tensors to keep.
        budget: bytes that the step may use at most; then the plan is the fastest one.
        threads: how many nodes run at a time.
    """

    mode: str = "none"
    tensors: tuple[str, ...] = ()
    budget: int | None = None
    threads: int = 2

    @property
    def wanted(self) -> bool:
        """Whether there is anything to plan."""
        return self.mode != "none" or self.budget is not None


class Checkpointed(NamedTuple):
    """A backward pass that keeps less.

    Attributes:
        definition: replaces `BackwardPass.definition`.
        plan: the plan of the rewrite.
        plain_peak: bytes, as predicted, of the backward pass that keeps everything.
        kept: the tensors that are kept, and their bytes, the largest first.
        again: the nodes that are computed again.
    """

    definition: GraphDef
    plan: CheckpointPlan
    plain_peak: int
    kept: list[tuple[str, int]]
    again: list[str]


def checkpointed(graph: Graph, known: GraphDef, made: BackwardPass, wanted: Checkpoints, sizes: Sizes) -> Checkpointed:
    """Plans and rewrites a backward pass.

    Args:
        graph: that is differentiated; left as it is.
        known: the part of it that matters; see `skeleton`.
        made: the backward pass, which keeps everything.
        wanted: the request.
        sizes: of the tensors of both.

    Raises:
        EditError: the budget cannot be met, or a tensor is not there or of no use as a checkpoint.
    """
    step = step_of([known, made.definition], sizes.tensors)
    there = {node.name for node in known.node}
    step.live = _live(known, made, step)
    sums = Sums(step, [name not in there for name in step.names], [step.index[name] for name in made.seeds])
    found = _forward(graph, made, step, sizes.signatures, sums)
    kept = [step.index[name] for name in made.wanted.names]
    order = peak(step, kept, wanted.threads).order if sums else []
    ordered = sums.keep_order(order)
    if sums.come_before_gradients():
        ordered += _end_forward_pass_first(step, made)
    planner = CheckpointPlanner(found, kept, _results(found, made), _scope(made, step), wanted.threads, sums.prompt())
    plan = _chosen(graph, planner, found, wanted, sizes)
    return Checkpointed(
        _rewritten(known, made, step, plan, sizes.signatures, ordered),
        plan,
        planner.plain.peak.nbytes,
        _kept(found, plan),
        [step.names[number] for number in plan.made.originals.values()],
    )


def _scope(made: BackwardPass, step: StepGraph) -> str:
    """The scope of what is computed again: a free one under that of the gradients."""
    scope = f"{made.wanted.scope}/recompute"
    while any(name == scope or name.startswith(f"{scope}/") for name in step.names):
        scope += "_1"
    return scope


def _forward(
    graph: Graph, made: BackwardPass, step: StepGraph, signatures: Mapping[str, Sequence[TensorSpec]], sums: Sums
) -> ForwardPass:
    weights = [n for name, n in step.index.items() if (node := graph.find(name)) is not None and node.op == "Const"]
    for number in weights:
        step.ops[number] = "Const"
    changed = {node.name for node in made.definition.node}

    def is_fixed(number: int) -> bool:
        name = step.names[number]
        handles = any(base_dtype(found.dtype) in (RESOURCE, VARIANT) for found in signatures[name])
        return handles or not step.is_live(number) or name in changed or number in summed or has_state(graph[name])

    summed = sums.computed_once()
    backward = [number for number, flag in enumerate(sums.is_backward) if flag]
    targets = [step.index[tensor.node.name] for tensor in made.wanted.ys]
    seeds = [step.index[name] for name in made.seeds]
    return forward_pass(step, backward, targets, seeds, weights, is_fixed)


def _end_forward_pass_first(step: StepGraph, made: BackwardPass) -> list[int]:
    """Has the gradients of the targets wait for the targets.

    Where they do not depend on them, the executor would begin with the backward pass of one branch of the graph while
    others are still in their forward pass, or not, as it happens: what memory that takes cannot be foreseen. Returns
    the nodes that wait.
    """
    targets = dict.fromkeys(step.index[tensor.node.name] for tensor in made.wanted.ys)
    awaited = [target for target in targets if step.is_live(target)]
    seeds = [step.index[name] for name in made.seeds]
    for seed in seeds:
        step.waits[seed] += [target for target in awaited if target not in step.waits[seed]]
    return seeds


def _live(known: GraphDef, made: BackwardPass, step: StepGraph) -> list[bool] | None:
    """For each node whether it runs whatever the values are; None where all do."""
    if not set(step.ops) & (SWITCH | ENTER):
        return None
    graph = from_bytes(together(known, made.definition).SerializeToString())
    topology = topology_of(graph)
    flow = control_flow(topology)
    return [flow.runs_once(topology.id_of(graph[name])) for name in step.names]


def _results(found: ForwardPass, made: BackwardPass) -> dict[int, int]:
    """The bytes of the results by the position in the forward pass down to which the backward pass must come."""
    step = found.step
    first: dict[int, int] = {}
    for position, number in enumerate(found.order):
        for producer, _ in step.reads[number]:
            first.setdefault(producer, position)
    out: dict[int, int] = {}
    for source, name in zip(made.wanted.xs, made.wanted.names, strict=True):
        number = step.index[source.node.name]
        position = found.position.get(number, first.get(number, 0))
        out[position] = out.get(position, 0) + step.sizes[step.index[name]][0].nbytes
    return out


def _chosen(
    graph: Graph, planner: CheckpointPlanner, found: ForwardPass, wanted: Checkpoints, sizes: Sizes
) -> CheckpointPlan:
    if wanted.budget is not None:
        return _affordable(planner, wanted.budget, sizes)
    if wanted.mode == "memory":
        return planner.memory()
    plan = planner.speed() if wanted.mode == "speed" else planner.behind(_given(graph, found, wanted))
    if plan is None:
        message = "these checkpoints would require tensors before they are recomputed"
        raise EditError(message, code="would-cycle")
    return plan


def _affordable(planner: CheckpointPlanner, budget: int, sizes: Sizes) -> CheckpointPlan:
    plan = planner.under(budget)
    if plan is None:
        least = planner.memory()
        texts = told_apart(budget, least.peak.nbytes)
        raise EditError(
            f"no plan needs less than {texts[0]}: the minimum is {texts[1]}, with {least.extra:.0%} more work",
            code="over-budget",
            advice="budget-or-batch" if sizes.has_batch else "budget",
            facts={"enough": _enough(least.peak.nbytes), "budget": budget, "least": least.peak.nbytes},
            details=tuple(sizes.warnings),
        )
    return plan


def _enough(nbytes: int) -> str:
    """The MiB that hold NBYTES, rounded up so that they are easily typed."""
    digits = 0 if nbytes >= 100 * MIB else 1
    return f"{math.ceil(nbytes * 10**digits / MIB) / 10**digits:.{digits}f}"


def _given(graph: Graph, found: ForwardPass, wanted: Checkpoints) -> list[TensorId]:
    """The checkpoints that were named, or that the graph marks."""
    step = found.step
    if wanted.mode == "collection":
        marked = [number for number in found.order if _is_marked(graph[step.names[number]])]
        unused = [name for name in step.names if (node := graph.find(name)) is not None and _is_marked(node)]
        if not marked and unused:
            raise _of_no_use(unused)
        if not marked:
            raise EditError(
                f"the graph marks no tensor as a checkpoint: no node on the path has the attr {MARK}",
                code="nothing-marked",
                attr=MARK,
                hint=f"gdsurgeon set-attr MODEL NODE {MARK}:bool=true marks a node",
            )
        return [(number, 0) for number in marked]
    try:
        (tensors,) = tensors_named(graph, wanted.tensors)
    except EditError as error:
        error.hint = f"checkpoints must be {', '.join(MODES)}, or tensors"
        raise
    out = {(step.index.get(tensor.node.name, -1), tensor.index): tensor for tensor in tensors}
    useless = [tensor.name for place, tensor in out.items() if place not in found.buffer]
    if useless:
        raise _of_no_use(useless)
    return list(out)


def _is_marked(node: Node) -> bool:
    value = node.attr(MARK)
    return value is not None and value.b


def _of_no_use(names: Sequence[str]) -> EditError:
    """The error for tensors that are there in any case, or that nothing is computed from."""
    what, they = ("it", "it is") if len(names) == 1 else ("them", "they are")
    return EditError(
        f"{', '.join(map(quoted, names[:8]))} cannot be used as a checkpoint: {they} always kept, or the "
        f"gradients need no tensor that is recomputed from {what}",
        code="no-use",
        tensors=[*names],
    )


def _kept(found: ForwardPass, plan: CheckpointPlan) -> list[tuple[str, int]]:
    """What is kept because the backward pass reads it, or because something is computed again from it."""
    step = plan.made.step
    first = len(found.step)
    read = {step.reads[gate][0] for gate in plan.made.gates}
    for number in range(first):
        if found.is_backward[number] and step.ops[number] not in READS_SHAPE:
            read.update(step.reads[number])
    buffers = {found.buffer[tensor] for tensor in read if tensor in found.buffer}
    sizes = [(format_input(step.names[b[0]], b[1]), found.nbytes[b]) for b in buffers if found.nbytes[b] > TINY]
    return sorted(sizes, key=lambda item: (-item[1], item[0]))


def _rewritten(
    known: GraphDef,
    made: BackwardPass,
    plain: StepGraph,
    plan: CheckpointPlan,
    signatures: Mapping[str, Sequence[TensorSpec]],
    ordered: Iterable[int],
) -> GraphDef:
    """The definition of the backward pass with what PLAN adds to it, and with the waits of ORDERED nodes."""
    step = plan.made.step
    out = type(known)()
    out.CopyFrom(made.definition)
    nodes = {node.name: node for node in out.node}
    originals = {node.name: node for node in known.node}
    devices = {name: node.device for name, node in (originals | nodes).items()}
    for number in (*ordered, *plan.made.rewired):
        node = nodes[step.names[number]]
        del node.input[:]
        node.input.extend(_inputs(step, number))
    gates = {*plan.made.gates}
    for number in range(len(plain), len(step)):
        node = out.node.add()
        if number in plan.made.originals:
            node.CopyFrom(originals[step.names[plan.made.originals[number]]])
            node.attr.pop(MARK, None)
            del node.input[:]
        else:
            node.op = step.ops[number]
            node.attr[RECOMPUTED].CopyFrom(_true())
        if number in gates:
            source, port = _behind_gates(step, gates, number)
            name = step.names[plan.made.originals.get(source, source)]
            node.attr["T"].CopyFrom(type_value(base_dtype(signatures[name][port].dtype)))
            node.device = devices[name]
        node.name = step.names[number]
        node.input.extend(_inputs(step, number))
    return out


def _behind_gates(step: StepGraph, gates: Container[int], number: int) -> TensorId:
    """What passes through a gate, before it passes through any."""
    tensor = (number, 0)
    while tensor[0] in gates:
        tensor = step.reads[tensor[0]][0]
    return tensor


def _true() -> AttrValue:
    value = bytes_value(b"")
    value.b = True
    return value


def _inputs(step: StepGraph, number: int) -> list[str]:
    return [
        *(format_input(step.names[producer], port) for producer, port in step.reads[number]),
        *(f"^{step.names[producer]}" for producer in step.waits[number]),
    ]
