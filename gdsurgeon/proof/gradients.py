"""The proof of added gradients: they equal TensorFlow's own gradients of the original, and finite differences."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from gdsurgeon.analysis.queries.effects import ops_in_functions
from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.topology import members, topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.add_gradients import graft
from gdsurgeon.edits.claims import EditResult, Gradients, SameOutputs
from gdsurgeon.errors import EditError, GdsurgeonError, Line, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.gradients.backward_pass import skeleton
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import free_scope, node_of
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64, base_dtype
from gdsurgeon.ops.kinds import is_random
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.cost import peak_bytes
from gdsurgeon.proof.executor import Refused
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import MemoryUse, Proof
from gdsurgeon.proof.same_outputs import same_outputs_plan, side_by_side, something_compared
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.proof.trial import DO_WITHOUT, EDITED, ORIGINAL, ProofContext, RunRefused, Trial
from gdsurgeon.runtime.base import Derivation
from gdsurgeon.runtime.evaluator import Differentiator
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Array, Tensor, from_numpy
from gdsurgeon.specification.specify import Asked
from gdsurgeon.text import and_more, named, told_apart
from gdsurgeon.wire.protos import GraphDef
from gdsurgeon.wire.write import read_chunks

STATEMENT = "edited(x) == original(x), gradients == tf.gradients"
DEPLOYED = "deployed"
_NO_SYMBOLIC_GRADIENT = "No gradient defined for op: "
"""TensorFlow's message when it runs a SymbolicGradient of a function with such an op."""
TRACED_RUNS = 3
LONGEST_TRACING = 4.0
"""The seconds for traced runs; at least one run after the first is traced."""
BUDGET_MARGIN = 0.15
"""By which part a run may exceed its budget: threads race, and buffers have fixed sizes."""
SMALL_MARGIN = 1 << 20
"""The same in bytes, for small budgets."""


def prove_gradients(context: ProofContext, claim: Gradients) -> Trial:
    """Proves the outputs and the gradients of both graphs; TensorFlow adds its gradients to the original.

    The gradients are also compared with the request, and with finite differences of the original.
    """
    change = context.change
    asked, original = change.result.asked, change.before
    _check_asked(asked, claim)
    before = from_bytes(with_own_gradients(original, claim, context.executor.settings.timeout), original.source_name)
    before.serving = original.serving
    context.executor.load_graph(ORIGINAL, before)
    context = context._replace(change=Change(before, change.after, EditResult(Intent()), change.called))
    served = [node.name for node in output_nodes(original)]
    own = {*claim.names}
    same = SameOutputs(claim.tolerance, also=(*served, *claim.names))
    plan, inside = same_outputs_plan(context, same)
    # Outputs of the original run separately: the consumers of a tensor can change the order of a sum, as in AddN.
    separate = [[n for n in names if (n in own) == is_own] for names in plan.groups for is_own in (False, True)]
    plan.groups = [names for names in separate if names]
    trial = side_by_side(context, plan, same, inside)
    trial.statement, trial.runs[0].on_refusal = STATEMENT, _on_refusal
    for pair in trial.pairs:
        pair.exact, pair.site = node_of(pair.after) not in own, False
    for sample in trial.each_sample():
        if sample == 0 and trial.failure is None:
            check_differences(original, claim, asked is not None and bool(asked.arguments.get("weights")), trial)
            if claim.budget is not None:
                _check_memory(change, claim, claim.budget, trial)
    something_compared(trial.proof)
    _check_compared(claim, dict(plan_with(context.executor.settings, before, claim.names).reasons), trial.proof)
    return trial


def _check_asked(asked: Asked | None, claim: Gradients) -> None:
    """Raises ValidationError if other gradients were added than requested."""
    if asked is None or asked.edit != "add_gradients":
        return
    faults: dict[str, str] = {}
    for key in ("ys", "xs", "grad_ys", "names"):
        value, made = asked.arguments.get(key), getattr(claim, key)
        names = (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ()
        wanted = tuple(str(name).removesuffix(":0") for name in names)
        # Weights follow the requested sources, and the results of other sources the requested names.
        made = made[: len(wanted)] if key == "names" or (key == "xs" and asked.arguments.get("weights")) else made
        if wanted != made:
            faults[key] = f"{key} should be {named(wanted)}, but are {named(made)}"
    for source, name in list(zip(claim.xs, claim.names, strict=True))[len(wanted) :]:  # without a requested name
        if not f"{name}_".startswith(f"{claim.scope}/{source.replace(':', '_')}_"):
            faults[source] = f"the gradient for {quoted(source)} has the name {quoted(name)}"
    if faults:
        raise ValidationError(
            "the result is not what was requested:",
            code="unrequested-change",
            names=[*faults],
            details=tuple(faults.values())[:100],
        )


def _on_refusal(refusal: RunRefused) -> GdsurgeonError:
    if _NO_SYMBOLIC_GRADIENT in refusal.text:
        op = refusal.text.partition(_NO_SYMBOLIC_GRADIENT)[2].split()[0].rstrip(".,:;)")
        return EditError(
            f"the gradients do not run: TensorFlow differentiates a function call as a whole, and {op} has no "
            "gradient there",
            code="no-gradient",
            op=op,
            hint="gdsurgeon inline MODEL inlines the calls, except in loops and conditionals",
        )
    return refusal.error or ValidationError(f"the gradients do not run: {refusal.text}", code="does-not-run")


def _check_compared(claim: Gradients, unrun: dict[str, str], proof: Proof) -> None:
    """Raises NotValidatedError if no gradient was compared; warns if only some were compared."""
    compared = {node_of(output.after) for output in proof.compared}
    reasons = {node_of(output.after): output.reason for output in proof.outputs} | unrun
    left = [name for name in claim.names if name not in compared]
    if not left:
        return
    facts = {
        "name": printable(left[0]),
        "reason": printable(reasons.get(left[0], "not run")),
        "more": and_more(len(left) - 1),
    }
    if len(left) == len(claim.names):
        raise NotValidatedError(
            Line("no gradient could be compared ({name}: {reason}{more})", **facts),
            code="nothing-comparable",
            tensors=left,
            advice=DO_WITHOUT,
        )
    proof.warnings.append(Line("not all gradients were compared ({name}: {reason}{more})", **facts))


# -- their memory ---------------------------------------------------------------------------------------------


def _check_memory(change: Change, claim: Gradients, budget: int, trial: Trial) -> None:
    """Records the peak memory of a run that fetches only the gradients, and compares it with the budget.

    The peak is the largest number of allocated bytes on all devices; the first run does not count.
    """
    executor, peaks = trial.executor, list[int]()
    executor.load(DEPLOYED, read_chunks(change.after.chunks()), optimize=True)
    started = time.monotonic()
    try:
        while len(peaks) <= TRACED_RUNS and (len(peaks) < 2 or time.monotonic() - started < LONGEST_TRACING):
            run = executor.run(DEPLOYED, DEPLOYED, trial.fed[EDITED], list(claim.names), trace=True)
            executor.drop(DEPLOYED)
            peaks.append(sum(peak_bytes(run.metadata or b"").values()))
    except Refused as refused:
        raise ValidationError(
            f"{change.called} does not run when TensorFlow optimizes it: {printable(refused.text)}", code="does-not-run"
        ) from refused
    finally:
        executor.unload(DEPLOYED)
    trial.proof.memory = MemoryUse(max(peaks[1:]), budget)
    check_budget(trial.proof, trial.proof.memory)


def check_budget(proof: Proof, use: MemoryUse) -> None:
    """Raises ValidationError if a run clearly exceeds its budget; a small excess is a warning."""
    if use.edited <= use.budget:
        return
    taken, budget = told_apart(use.edited, use.budget)
    if use.edited > use.budget + max(BUDGET_MARGIN * use.budget, SMALL_MARGIN):
        raise ValidationError(
            f"a run of the gradients needs {taken}, but the budget is {budget}",
            code="over-budget",
            advice="plan-again",
        )
    proof.warnings.append(f"a run of the gradients needs {taken}, slightly more than the budget")


# -- TensorFlow's own -----------------------------------------------------------------------------------------


def with_own_gradients(graph: Graph, claim: Gradients, timeout: float | None) -> bytes:
    """Returns the graph of the file with the gradients of tf.compat.v1.gradients, a serialised GraphDef.

    Raises:
        EditError, ValidationError, NotValidatedError: see `Differentiator.derive`.
    """
    out = graph.copy()
    names = map(str.lower, (*out.names(), *claim.names))
    scope = free_scope(names, f"{claim.scope}_of_tensorflow".lower())  # names of TensorFlow's nodes
    xs = [out.output(name) for name in claim.xs]
    known = skeleton(out, (*(out.output(name) for name in (*claim.ys, *claim.grad_ys)), *xs))
    wanted = Derivation(claim.ys, claim.xs, claim.grad_ys, scope, own=False)
    with nullcontext(claim.differentiator) if claim.differentiator is not None else Differentiator(timeout) as asked:
        found = asked.derive(known.SerializeToString(), wanted)
    if found.missing:
        node = found.missing[0].node
        raise NotValidatedError(f"{quoted(node)} has no gradient in TensorFlow", code="no-gradient", node=node)
    definition = GraphDef.FromString(found.graph)
    for x, name, tensor in zip(xs, claim.names, found.results, strict=True):
        result = definition.node.add(name=name, op="Identity" if tensor else "ZerosLike", input=[tensor or x.name])
        result.attr["T"].type = base_dtype(x.dtype)
    if not found.changed:  # nothing of the code that has made the edit has a part in it then
        definition.ClearField("versions")
        return read_chunks(graph.chunks()) + definition.SerializeToString()
    graft(out, definition)
    return read_chunks(out.chunks())


MOST_SOURCES = 3
LARGEST, OTHERS = 4, 12
"""The number of moved elements of a source: those with the largest derivative, and random others."""
STEP = 1e-2
"""The size of a step, relative to the mean size of the elements."""
ROUGH, PRECISE = 0.1, 2e-3
"""Limits of the deviation of two finite differences: a larger one shows nothing, and PRECISE is the best precision."""
_EPSILON: dict[int, float] = {FLOAT32: 1.2e-7, FLOAT64: 2.3e-16}
_OWN_GRADIENT = frozenset("CustomGradient PreventGradient StopGradient".split())
"""Ops whose gradient is intentionally not their derivative, in addition to FakeQuant ops."""


def check_differences(graph: Graph, claim: Gradients, weights: bool, trial: Trial) -> None:
    """Changes a few elements of a few sources slightly, and compares the change of the targets with the gradients.

    Sources for which two step sizes disagree are skipped. With `weights`, the targets must not depend on constants
    without a gradient.

    Raises:
        ValidationError: a gradient is not the derivative, or a derivative without a gradient is not zero.
    """
    if _is_another(graph, claim):
        return
    import numpy as np

    pairs: list[tuple[str, str]] = list(zip(claim.xs, claim.names, strict=True))
    chosen = list(dict.fromkeys([*pairs[:1], *pairs[-1:], *pairs[len(pairs) // 2 :]]))[:MOST_SOURCES]
    if weights:
        chosen += [(name, "") for name in _left_out(graph, claim)[:MOST_SOURCES]]
    try:
        feeds = _feeds(graph, claim, trial)
    except (Refused, NotValidatedError):
        return
    for source, name in chosen:
        try:
            with np.errstate(all="ignore"):
                found = _disagreement(trial, claim, feeds, source, name)
        except (Refused, TypeError):
            continue
        if found is not None:
            what = f"{quoted(name)} is not the gradient" if name else "there is no gradient"
            raise ValidationError(
                f"{what} for {quoted(source)}: if a few of its elements change, the targets change by "
                f"{found[0]:.4g}" + (f", but the gradient predicts {found[1]:.4g}" if name else ""),
                code="differs",
                node=source,
                name=name or None,
            )


def _feeds(graph: Graph, claim: Gradients, trial: Trial) -> Feeds:
    """Returns the feeds of the original, and of the targets and incoming gradients."""
    executor, fed = trial.executor, trial.fed[ORIGINAL]
    plan = replace(plan_with(executor.settings, graph, (*claim.ys, *claim.grad_ys)), defaults=[])
    subject = Subject(executor, ORIGINAL, graph, plan, name="differences")
    if {*subject.feedable} <= fed.keys():
        return fed
    feeds, _ = subject.run(0, {name: value for name, value in fed.items() if name in subject.feedable})
    subject.finish(0)
    return fed | feeds


def _upstream(graph: Graph, claim: Gradients, *, control: bool = True) -> list[Node]:
    """Returns the nodes that the targets depend on; without `control`, only by values."""
    topology = topology_of(graph)
    ends = [topology.id_of(graph.tensor(name).node) for name in claim.ys]
    return list(map(topology.node, members(topology.upstream(ends, control=control))))


def _left_out(graph: Graph, claim: Gradients) -> list[str]:
    """Returns the float constants with several elements that the targets depend on and that are not sources."""
    nodes = [node for node in _upstream(graph, claim, control=False) if node.op == "Const"]
    headers = {node.name: constant_header(node) for node in nodes if node.name not in claim.xs}
    return [name for name, found in headers.items() if found and found.dtype in _EPSILON and found.elements > 1]


def _is_another(graph: Graph, claim: Gradients) -> bool:
    """Returns whether gradients may intentionally differ from derivatives, or the targets are random."""
    nodes = _upstream(graph, claim)
    ops = {op for node in nodes for op in (node.op, *ops_in_functions(node))}
    marked = any(node.has_attr("_gradient_op_type") for node in nodes)
    return marked or any(op in _OWN_GRADIENT or op.startswith("FakeQuant") or is_random(op) for op in ops)


def _disagreement(trial: Trial, claim: Gradients, feeds: Feeds, source: str, name: str) -> tuple[float, float] | None:
    """Returns the finite difference and the prediction of a gradient if they disagree.

    The function is the sum of the targets, weighted by the incoming gradients.

    Args:
        trial: of the gradients.
        claim: the targets and the incoming gradients.
        feeds: of the original.
        source: the tensor that changes.
        name: the node of its gradient; '' if it has no gradient.
    """
    executor, tensors = trial.executor, [*claim.ys, *claim.grad_ys]

    def run(key: str, fed: Feeds, names: Sequence[str]) -> list[Tensor]:
        unfed = list(dict.fromkeys(name for name in names if name not in fed))
        if unfed:
            executor.run(key, "differences", fed, unfed)
        known = fed | {name: Result("differences", place) for place, name in enumerate(unfed)}
        return [executor.fetched(known[name]) for name in names]

    def weighted(part: float) -> tuple[float, float]:
        """Returns the sum of the targets and of their sizes after a part of the step."""
        moved = values.copy()
        moved[places] += [part * step * sign for sign in signs]
        fed = feeds | {source: from_numpy(moved.reshape(x.shape))}
        found = [_floats(value).astype("float64") for value in run(ORIGINAL, fed, tensors)]
        ys, weights = found[: len(claim.ys)], found[len(claim.ys) :]
        terms = [y * w for y, w in zip(ys, weights, strict=True)] if weights else ys
        return float(sum(term.sum() for term in terms)), float(sum(abs(term).sum() for term in terms))

    def slope(low: float, high: float) -> float:
        """Returns the derivative along the step, between two parts of the step."""
        return (at[high][0] - at[low][0]) / ((high - low) * step)

    (x,) = run(ORIGINAL, feeds, [source])
    values = _floats(x)
    slopes = _floats(run(EDITED, trial.fed[EDITED], [name])[0]) if name else 0 * values
    if len(values) != len(slopes) or not len(values):
        return None
    chance = random.Random(len(slopes))
    moves = {place: chance.choice((-1, 1)) for place in chance.sample(range(len(slopes)), min(OTHERS, len(slopes)))}
    moves |= {place: 1 if slopes[place] >= 0 else -1 for place in (-abs(slopes)).argsort()[:LARGEST].tolist()}
    places, signs = [*moves], [*moves.values()]
    step = STEP * max(float(abs(values[places]).mean()), 1e-3)
    said = float((slopes[places] * signs).sum())
    at = {part: weighted(part) for part in (-1.0, -0.25, 0.0, 0.25, 1.0)}
    wide, narrow = slope(-1.0, 1.0), slope(-0.25, 0.25)
    noise = 64 * _EPSILON[x.dtype] * at[0.0][1] / step
    both = max(abs(wide), abs(narrow), abs(said))
    is_smooth = max(abs(wide - narrow), abs(slope(-0.25, 0.0) - slope(0.0, 0.25)), noise) <= ROUGH * both
    wrong = abs(said - narrow) > 4 * (abs(wide - narrow) + noise) + PRECISE * both
    return (narrow, said) if is_smooth and wrong else None


def _floats(tensor: Tensor) -> Array:
    """Returns the elements of a tensor. Raises TypeError if these are neither float32 nor float64."""
    if tensor.dtype not in _EPSILON:
        raise TypeError("neither float32 nor float64")
    return tensor.numpy().reshape(-1)
