"""The proof of added gradients: the original with the gradients that TensorFlow itself makes gives the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.add_gradients import graft
from gdsurgeon.edits.claims import EditResult, Gradients, SameOutputs
from gdsurgeon.errors import EditError, GdsurgeonError, Line, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.gradients.skeleton import skeleton
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import free_scope, parse_tensor
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.proof.change import Change, opened_again
from gdsurgeon.proof.claims.finite_differences import check_differences
from gdsurgeon.proof.claims.same_outputs import same_outputs_plan, side_by_side_trial
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.models.trace import peak_bytes
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import MemoryUse, Proof
from gdsurgeon.proof.restored import with_restoring
from gdsurgeon.proof.subject import Feeds
from gdsurgeon.proof.trial import DO_WITHOUT, EDITED, ORIGINAL, RunRefusal, Trial, TrialContext, TrialState
from gdsurgeon.runtime.differentiation.differentiator import Differentiator
from gdsurgeon.runtime.differentiation.gradients import Derivation
from gdsurgeon.specification.asked import Asked
from gdsurgeon.text import and_more, named, told_apart
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.write import read_chunks

STATEMENT = "edited(x) == original(x), gradients == tf.gradients"
DEPLOYED = "deployed"
_NO_SYMBOLIC_GRADIENT = "No gradient defined for op: "
"""What TensorFlow says when it runs a SymbolicGradient of a function that holds such an op."""
TRACED_RUNS = 3
LONGEST_TRACING = 4.0
"""Seconds in which as many runs are traced as fit, one after the first at least."""
BUDGET_MARGIN = 0.15
"""By which part of it a run may be over its budget: threads race, and buffers come in sizes of their own."""
SMALL_MARGIN = 1 << 20
"""The same in bytes, for budgets so small that next to nothing is a large part of them."""


def gradients_trial(context: TrialContext, claim: Gradients) -> Trial:
    """Both graphs give what the original gives, and gradients under the same names: made here, and by TensorFlow.

    They are held against what was asked, too, and against differences of the original.
    """
    change = context.change
    _check_asked(change.result.asked, claim)
    data = with_own_gradients(change.before, claim, context.executor.settings.timeout)
    before = from_bytes(data, change.before.source_name)
    before.serving = change.before.serving
    context.executor.load_bytes(ORIGINAL, with_restoring(before, data))
    context = context._replace(change=Change(before, change.after, EditResult(Intent()), change.called))
    served = [node.name for node in output_nodes(change.before)]
    own = {*claim.names}
    same = SameOutputs(rtol=claim.rtol, atol=claim.atol, also=(*served, *claim.names))
    plan, inside = same_outputs_plan(context, same)
    # What was there before is run apart: AddN's order of a sum, for one, hangs on who else reads what it adds.
    apart = [[n for n in names if (n in own) == is_own] for names in plan.groups for is_own in (False, True)]
    plan.groups = [names for names in apart if names]
    trial = side_by_side_trial(context, plan, same, inside)
    for pair in trial.pairs:
        pair.exact = parse_tensor(pair.after).node not in own
    trial.runs[0].blame = _blame
    unrun = dict(plan_with(context.executor.settings, before, list(claim.names)).reasons)
    trial.conditions = [*trial.conditions, partial(_compared, claim, unrun)]
    weights = change.result.asked is not None and bool(change.result.asked.arguments.get("weights"))
    checks: list[Callable[[TrialState], None]] = [partial(check_differences, change.before, claim, weights)]
    if claim.budget is not None:
        checks.append(partial(_check_memory, claim, claim.budget, read_chunks(change.after.chunks()), change.called))
    trial.first = partial(_all, checks)
    return replace(trial, statement=STATEMENT)


def _all(checks: Sequence[Callable[[TrialState], None]], state: TrialState) -> None:
    for check in checks:
        check(state)


def _check_asked(asked: Asked | None, claim: Gradients) -> None:
    """Raises ValidationError where other gradients were made than those that were asked for."""
    if asked is None or asked.edit != "add_gradients":
        return
    wanted = {key: tuple(str(name).removesuffix(":0") for name in _names(asked.arguments.get(key)))
              for key in ("ys", "xs", "grad_ys", "names")}  # fmt: skip
    given = len(wanted["xs"])
    made = {"ys": claim.ys, "xs": claim.xs, "grad_ys": claim.grad_ys, "names": claim.names}
    made["xs"] = made["xs"][:given] if asked.arguments.get("weights") else made["xs"]
    made["names"] = made["names"][: len(wanted["names"])]
    wrong = [key for key in wanted if wanted[key] != made[key]]
    faults = [f"{key} should be {named(wanted[key])}, but are {named(made[key])}" for key in wrong]
    for source, name in list(zip(claim.xs, claim.names, strict=True))[len(wanted["names"]) :]:
        own = f"{claim.scope}/{source.replace(':', '_')}"
        if name != own and not name.startswith(f"{own}_"):
            wrong.append(source)
            faults.append(f"the gradient for {quoted(source)} has the name {quoted(name)}")
    if faults:
        raise ValidationError(
            "the result is not what was requested:",
            code="unrequested-change",
            facts={"names": wrong},
            details=tuple(faults[:100]),
        )


def _names(value: object) -> tuple[object, ...]:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, tuple) else ()


def _blame(refusal: RunRefusal) -> GdsurgeonError:
    if _NO_SYMBOLIC_GRADIENT in refusal.text:
        op = refusal.text.partition(_NO_SYMBOLIC_GRADIENT)[2].split()[0].rstrip(".,:;)")
        return EditError(
            f"the gradients do not run: TensorFlow differentiates a function call as a whole, and {op} has no "
            "gradient there",
            code="no-gradient",
            facts={"op": op},
            hint="gdsurgeon inline MODEL inlines the calls, except in loops and conditionals",
        )
    return refusal.error or ValidationError(f"the gradients do not run: {refusal.text}", code="does-not-run")


def _compared(claim: Gradients, unrun: Mapping[str, str], proof: Proof) -> None:
    """Raises NotValidatedError where no gradient was compared; of some that were not there is a warning."""
    compared = {parse_tensor(output.after).node for output in proof.compared}
    reasons = {parse_tensor(output.after).node: output.reason for output in proof.outputs}
    reasons |= unrun
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
            facts={"tensors": left},
            advice=DO_WITHOUT,
        )
    proof.warnings.append(Line("not all gradients were compared ({name}: {reason}{more})", **facts))


# -- their memory ---------------------------------------------------------------------------------------------


def _check_memory(claim: Gradients, budget: int, edited: bytes, called: str, state: TrialState) -> None:
    """Notes the peak of the memory of a run that fetches only the gradients, and compares it with the budget."""
    executor = state.executor
    executor.load_bytes(DEPLOYED, edited, optimize=True)
    try:
        use = MemoryUse(_peak(executor, state.fed[EDITED], claim.names), budget)
    except Refused as refused:
        raise ValidationError(
            f"{called} does not run when TensorFlow optimizes it: {printable(refused.text)}", code="does-not-run"
        ) from refused
    finally:
        executor.unload(DEPLOYED)
    state.proof.memory = use
    check_budget(state.proof, use)


def _peak(executor: Executor, feeds: Feeds, names: Sequence[str]) -> int:
    """The bytes that a run allocates at most, all devices together; the first run is not counted."""
    peaks: list[int] = []
    started = time.monotonic()
    while len(peaks) <= TRACED_RUNS and (len(peaks) < 2 or time.monotonic() - started < LONGEST_TRACING):
        run = executor.wait(executor.run(DEPLOYED, DEPLOYED, feeds, list(names), trace=True))
        executor.drop(DEPLOYED)
        peaks.append(sum(peak_bytes(run.metadata or b"").values()))
    return max(peaks[1:])


def check_budget(proof: Proof, use: MemoryUse) -> None:
    """Raises ValidationError where a run takes clearly more than its budget; a little more is a warning."""
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


def _scope(graph: Graph, claim: Gradients) -> str:
    """A scope for TensorFlow's nodes in which neither the graph nor the results have names."""
    names = map(str.lower, (*graph.names(), *claim.names))
    return free_scope(names, f"{claim.scope}_of_tensorflow".lower())


def with_own_gradients(graph: Graph, claim: Gradients, timeout: float | None) -> bytes:
    """GRAPH as it is in its file and the gradients that tf.compat.v1.gradients makes of it, a serialised GraphDef.

    Raises:
        EditError, ValidationError, NotValidatedError: see `Differentiator.derive`.
    """
    out = opened_again(graph)
    scope = _scope(out, claim)
    xs = [out.output(name) for name in claim.xs]
    known = skeleton(out, (*(out.output(name) for name in (*claim.ys, *claim.grad_ys)), *xs))
    wanted = Derivation(claim.ys, claim.xs, claim.grad_ys, scope, own=False)
    with nullcontext(claim.differentiator) if claim.differentiator is not None else Differentiator(timeout) as asked:
        found = asked.derive(known.SerializeToString(), wanted)
    if found.missing:
        node = found.missing[0].node
        raise NotValidatedError(
            f"{quoted(node)} has no gradient in TensorFlow", code="no-gradient", facts={"node": node}
        )
    definition = message("tensorflow.GraphDef").FromString(found.graph)
    for x, name, tensor in zip(xs, claim.names, found.results, strict=True):
        result = definition.node.add(name=name, op="Identity" if tensor else "ZerosLike", input=[tensor or x.name])
        result.attr["T"].type = base_dtype(x.dtype)
    if not found.changed:  # nothing of the code that has made the edit has a part in it then
        definition.ClearField("versions")
        return read_chunks(graph.chunks()) + definition.SerializeToString()
    graft(out, definition)
    return read_chunks(out.chunks())
