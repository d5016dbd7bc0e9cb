"""The tensors that a backward pass keeps: the choice by a plan, the nodes that recompute the others, the summary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import has_state
from gdsurgeon.analysis.traversal.control_flow import control_flow
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import EditError, Json, quoted
from gdsurgeon.gradients.backward_pass import BackwardPass, Sizes, tensors_named, together
from gdsurgeon.gradients.planner import CheckpointPlan, CheckpointPlanner, heavy_tensors
from gdsurgeon.gradients.recompute import ForwardPass, forward_pass
from gdsurgeon.gradients.step_graph import TINY, StepGraph, TensorId, peak, step_of
from gdsurgeon.gradients.sums import keep_order, sums_of
from gdsurgeon.graph.attrs import bool_value, type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import format_input, free_scope
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import ENTER, MARK, READS_SHAPE, RECOMPUTED, SWITCH
from gdsurgeon.runtime.base import TensorSpec
from gdsurgeon.text import MIB, Entry, counted, size, told_apart
from gdsurgeon.wire.protos import GraphDef

MODES = ("none", "speed", "memory", "collection")


class Checkpoints(NamedTuple):
    """The request for the tensors of the forward pass that are kept.

    Attributes:
        mode: one of `MODES`, or '' if `tensors` are given.
        tensors: names of the tensors to keep.
        budget: the largest number of bytes that the step may use; the plan is then the fastest one.
        threads: the number of nodes that run at the same time.
    """

    mode: str = "none"
    tensors: tuple[str, ...] = ()
    budget: int | None = None
    threads: int = 2

    @property
    def wanted(self) -> bool:
        """Whether a plan is requested."""
        return self.mode != "none" or self.budget is not None


class Checkpointed(NamedTuple):
    """A backward pass that keeps less.

    Attributes:
        definition: replaces `BackwardPass.definition`.
        plan: the plan of the rewrite.
        plain_peak: the predicted peak of the backward pass that keeps everything, in bytes.
        kept: the kept tensors and their bytes, the largest first.
        again: the nodes that are recomputed.
    """

    definition: GraphDef
    plan: CheckpointPlan
    plain_peak: int
    kept: list[tuple[str, int]]
    again: list[str]


def checkpointed(graph: Graph, known: GraphDef, made: BackwardPass, wanted: Checkpoints, sizes: Sizes) -> Checkpointed:
    """Plans and rewrites a backward pass.

    Args:
        graph: the differentiated graph; it is not changed.
        known: the necessary part of it; see `skeleton`.
        made: the backward pass, which keeps everything.
        wanted: the request.
        sizes: the sizes of all tensors.

    Raises:
        EditError: the budget is too small, or a tensor does not exist or cannot be a checkpoint.
    """
    step = step_of([known, made.definition], sizes.tensors)
    there = {node.name for node in known.node}
    if set(step.ops) & (SWITCH | ENTER):
        whole = from_bytes(together(known, made.definition).SerializeToString())
        topology = topology_of(whole)
        flow = control_flow(topology)
        step.live = [flow.runs_once(topology.id_of(whole[name])) for name in step.names]
    seeds = [step.index[name] for name in made.seeds]
    targets = list(dict.fromkeys(step.index[tensor.node.name] for tensor in made.wanted.ys))
    is_backward = [name not in there for name in step.names]
    sums = sums_of(step, is_backward, seeds)
    weights = [n for name, n in step.index.items() if (node := graph.find(name)) is not None and node.op == "Const"]
    for number in weights:
        step.ops[number] = "Const"
    fixed = sums.computed_once.union(step.index[node.name] for node in made.definition.node)

    def is_fixed(number: int) -> bool:
        name = step.names[number]
        handles = any(base_dtype(tensor.dtype) in (RESOURCE, VARIANT) for tensor in sizes.signatures[name])
        return handles or number in fixed or not step.is_live(number) or has_state(graph[name])

    backward = [number for number, flag in enumerate(is_backward) if flag]
    found = forward_pass(step, backward, targets, seeds, weights, is_fixed)
    kept = [step.index[name] for name in made.wanted.names]
    ordered = keep_order(step, is_backward, sums, peak(step, kept, wanted.threads).order) if sums.sharing else []
    if sums.come_before_gradients:
        # Otherwise the executor may begin the backward pass of one branch of the graph during the forward pass of other
        # branches, which makes the peak unpredictable.
        for seed in seeds:
            step.waits[seed] += [t for t in targets if step.is_live(t) and t not in step.waits[seed]]
        ordered += seeds
    scope = free_scope(step.names, f"{made.wanted.scope}/recompute")
    first: dict[int, int] = {}
    for position, number in enumerate(found.order):
        for producer, _ in step.reads[number]:
            first.setdefault(producer, position)
    results: dict[int, int] = {}  # their bytes by the position in the forward pass that the backward pass must reach
    for source, result in zip(made.wanted.xs, kept, strict=True):
        number = step.index[source.node.name]
        position = found.position.get(number, first.get(number, 0))
        results[position] = results.get(position, 0) + step.sizes[result][0].nbytes
    planner = CheckpointPlanner(found, kept, results, scope, wanted.threads, sums.prompt)
    plan = _chosen(graph, planner, found, wanted, sizes)
    # The tensors that are kept for the backward pass, or for the recomputation.
    step = plan.made.step
    read = {step.reads[gate][0] for gate in plan.made.gates}
    for number in backward:
        if step.ops[number] not in READS_SHAPE:
            read.update(step.reads[number])
    buffers = {found.buffer[tensor] for tensor in read if tensor in found.buffer}
    tensors = [(format_input(step.names[b[0]], b[1]), found.nbytes[b]) for b in buffers if found.nbytes[b] > TINY]
    return Checkpointed(
        _rewritten(known, made, found.step, plan, sizes.signatures, ordered),
        plan,
        planner.plain.peak.nbytes,
        sorted(tensors, key=lambda item: (-item[1], item[0])),
        [step.names[number] for number in plan.made.originals.values()],
    )


def _chosen(
    graph: Graph, planner: CheckpointPlanner, found: ForwardPass, wanted: Checkpoints, sizes: Sizes
) -> CheckpointPlan:
    if wanted.mode == "memory":
        return planner.memory()
    if wanted.budget is None:
        tensors = heavy_tensors(found) if wanted.mode == "speed" else _given(graph, found, wanted)
        plan = planner.keeping(tensors)
        if plan is None:
            message = "these checkpoints would require tensors before they are recomputed"
            raise EditError(message, code="would-cycle")
        return plan
    plan = planner.under(wanted.budget)
    if plan is not None:
        return plan
    least = planner.memory()
    nbytes, digits = least.peak.nbytes, 0 if least.peak.nbytes >= 100 * MIB else 1
    enough = f"{math.ceil(nbytes * 10**digits / MIB) / 10**digits:.{digits}f}"  # MiB, rounded up, easy to type
    texts = told_apart(wanted.budget, nbytes)
    raise EditError(
        f"no plan needs less than {texts[0]}: the minimum is {texts[1]}, with {least.extra:.0%} more work",
        code="over-budget",
        advice="budget-or-batch" if sizes.has_batch else "budget",
        facts={"enough": enough, "budget": wanted.budget, "least": nbytes},
        details=tuple(sizes.warnings),
    )


def _given(graph: Graph, found: ForwardPass, wanted: Checkpoints) -> list[TensorId]:
    """Returns the checkpoints that the user names, or that the graph marks."""
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
    """Returns the error for tensors that are always kept, or that no recomputation needs."""
    what, they = ("it", "it is") if len(names) == 1 else ("them", "they are")
    return EditError(
        f"{', '.join(map(quoted, names[:8]))} cannot be used as a checkpoint: {they} always kept, or the "
        f"gradients need no tensor that is recomputed from {what}",
        code="no-use",
        tensors=[*names],
    )


def _rewritten(
    known: GraphDef,
    made: BackwardPass,
    plain: StepGraph,
    plan: CheckpointPlan,
    signatures: Mapping[str, Sequence[TensorSpec]],
    ordered: Iterable[int],
) -> GraphDef:
    """Returns the definition of the backward pass with the nodes of a plan, and with the waits of ordered nodes."""
    step = plan.made.step
    out = deepcopy(made.definition)
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
            node.attr[RECOMPUTED].CopyFrom(bool_value(True))
        if number in gates:
            source, port = number, 0
            while source in gates:
                source, port = step.reads[source][0]
            name = step.names[plan.made.originals.get(source, source)]
            node.attr["T"].CopyFrom(type_value(base_dtype(signatures[name][port].dtype)))
            node.device = devices[name]
        node.name = step.names[number]
        node.input.extend(_inputs(step, number))
    return out


def _inputs(step: StepGraph, number: int) -> list[str]:
    return [
        *(format_input(step.names[producer], port) for producer, port in step.reads[number]),
        *(f"^{step.names[producer]}" for producer in step.waits[number]),
    ]


# -- the summary and the report --------------------------------------------------------------------------


def report(
    made: BackwardPass, early: Sequence[str], found: Checkpointed | None, wanted: Checkpoints
) -> tuple[list[Entry], dict[str, Json]]:
    """Returns the gradients, the sums in parts and the plan of checkpoints, for the summary and for the report.

    Args:
        made: the gradients.
        early: names of the sums that are computed in parts.
        found: the checkpoints, if there is a plan.
        wanted: the request for checkpoints.
    """
    request = made.wanted
    pairs = list(zip(request.xs, request.names, strict=True))
    renamed = [(x, name) for x, name in pairs if name != f"{request.scope}/{x.name}"]
    if len(pairs) - len(renamed) <= 1:
        renamed = pairs
    told = [Entry("gradient", f"{name}  of {source.name}") for source, name in renamed]
    if len(pairs) > len(renamed):
        count = counted(len(pairs) - len(renamed), "tensor")
        told.append(Entry("gradient", f"of {count}: {request.scope}/ and the name of the tensor"))
    zeros, left_out = ([x.name for x in tensors] for tensors in (made.unconnected, made.left_out))
    weights = counted(sum(request.in_functions.values()), "weight")
    if zeros:
        told.append(Entry("zeros", "no gradient reaches", zeros))
    if left_out:
        told.append(Entry("left out", f"{counted(len(left_out), 'weight')} without a gradient", left_out))
    if request.in_functions:
        told.append(Entry("left out", f"{weights} in functions (see gdsurgeon inline)", list(request.in_functions)))
    if made.calls:
        told.append(Entry("computed", f"by TensorFlow's own gradients: {made.calls[0]} is a call without a gradient"))
    if early:
        told.append(Entry("summed", f"{counted(len(early), 'gradient')} in parts, as they are computed", early))
    facts: dict[str, Json] = {
        "ys": [y.name for y in request.ys],
        "results": {x.name: name for x, name in pairs},
        "unconnected": zeros,
        "left_out": left_out,
        "weights_in_functions": dict(request.in_functions),
        "scope": request.scope,
        "by": "reverse walk" if made.own else "tf.gradients",
        "early_sums": list(early),
    }
    if found is None:
        return told, facts
    plan, on, segments = found.plan, counted(wanted.threads, "thread"), len(found.plan.cuts.positions) + 1
    facts["plan"] = {
        "kept": [{"tensor": name, "bytes": nbytes} for name, nbytes in found.kept],
        "recomputed": found.again,
        "segments": segments,
        "predicted_peak_bytes": plan.peak.nbytes,
        "predicted_plain_peak_bytes": found.plain_peak,
        "predicted_extra_work": round(plan.extra, 4),
    }
    if not found.again:
        told.append(Entry("plan", f"keep everything: predicted peak {size(found.plain_peak)}, on {on}"))
        return told, facts
    kept = size(sum(nbytes for _, nbytes in found.kept))
    chosen = wanted.mode or f"{len(wanted.tensors)} given"
    if wanted.budget is not None:
        chosen = f"the fastest under {size(wanted.budget)}"
    ratio = found.plain_peak / max(plan.peak.nbytes, 1)
    told += [
        Entry("plan", f"{chosen}: {counted(segments, 'segment')}, {plan.extra:+.0%} work"),
        Entry("kept", f"{counted(len(found.kept), 'tensor')}, {kept}", [f"{name} {size(n)}" for name, n in found.kept]),
        Entry("recomputed", counted(len(found.again), "node")),
        Entry("memory", f"predicted peak {size(plan.peak.nbytes)}, on {on} (without checkpoints "
                        f"{size(found.plain_peak)}, {ratio:.2f} x)"),
    ]  # fmt: skip
    return told, facts
