"""The claim about batches: for each row, the edited graph returns the values of the original for this row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import forward_walk
from gdsurgeon.edits.claims import RowByRow, SameOutputs
from gdsurgeon.errors import EditError, GdsurgeonError, printable, quoted
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import is_inexact
from gdsurgeon.proof.claims.same_outputs import same_outputs_plan, something_compared
from gdsurgeon.proof.engine import as_batch
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import DiffersError, agrees
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    EDITED,
    ORIGINAL,
    ComparedPair,
    FeedSource,
    Fetch,
    RunRefusal,
    SameFeed,
    Stacked,
    StackedFeeds,
    Trial,
    TrialContext,
    TrialRun,
    TrialState,
    both_load,
    chance_reasons,
    nodes_of,
)
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.select import depends_on_feeds

MOST_ROWS = 3
"""The number of different rows; a larger batch repeats them."""
RTOL, ATOL = 1e-3, 1e-4
"""By how much a row may differ: kernels sum in a different order in a different batch."""
MOST_SEARCHED = 2000
"""The number of tensors in the search for the first node that mixes rows."""
SEARCHED_AT_ONCE = 100


def row_by_row_trial(context: TrialContext, claim: RowByRow) -> Trial:
    """Returns the trial of each row separately, and of all rows as a batch of the edited graph."""
    plan, inside = _plan(context, claim)
    rows = [_row(context, claim, plan, number) for number in range(min(claim.rows, MOST_ROWS))]
    names = tuple(rows[number % len(rows)].name for number in range(claim.rows))
    batch = Subject(
        context.executor, EDITED, context.change.after, plan=FetchPlan(plan.groups), options=_options("batch")
    )
    batch.specs = []
    shared = [name for name in rows[0].feedable if name not in claim.inputs]
    runs = [TrialRun(row, {name: SameFeed(rows[0].name, name) for name in shared} if row is not rows[0] else {},
                     reported_as=None) for row in rows]  # fmt: skip
    fed: dict[str, FeedSource] = {name: SameFeed(rows[0].name, name) for name in shared}
    fed |= {name: StackedFeeds(names, name) for name in claim.inputs if name in rows[0].feedable}
    runs.append(TrialRun(batch, fed, accused=context.change.called, reported_as=None, blame=partial(_refuse, claim)))
    reasons = _of_the_shape(context, plan) | chance_reasons(plan)
    pairs = [ComparedPair(name, name, Stacked(names, name), Fetch(batch.name, name), reasons.get(name, ""),
                          inside=parse_tensor(name).node in inside) for name in plan.fetches]  # fmt: skip
    return Trial(
        f"edited({claim.rows} rows) == {'edited' if claim.alone else 'original'}(each row)",
        runs,
        pairs,
        both_load(context.change),
        lead=rows[0].name,
        samples=context.executor.settings.samples,
        rtol=RTOL,
        atol=ATOL,
        conditions=[something_compared],
        skipped=plan.reasons,
        shown=False,
        each=partial(_note_batch, claim),
        stops=True,
        accuse=partial(_accuse, context, claim, names),
    )


def _plan(context: TrialContext, claim: RowByRow) -> tuple[FetchPlan, set[str]]:
    """Returns the fetches of a row, and the nodes that are not outputs; random values are not shared."""
    plan, inside = same_outputs_plan(context, SameOutputs())
    if plan.draws or claim.alone:
        graph = context.change.after if claim.alone else context.change.before
        drawn = frozenset(nodes_of(plan.draws))
        plan = plan_with(context.executor.settings, graph, nodes_of(plan.fetches), undrawable=drawn)
    return plan, inside


def _of_the_shape(context: TrialContext, plan: FetchPlan) -> dict[str, str]:
    """Returns the fetches that depend only on shapes and constants: they show nothing about rows."""
    graph = context.change.after
    topology = topology_of(graph)
    fed = depends_on_feeds(topology)
    alone = [name for name in plan.fetches if not fed[topology.id_of(graph[parse_tensor(name).node])]]
    return dict.fromkeys(alone, "depends only on shapes and constants")


def _options(name: str, salt: str = "") -> SubjectOptions:
    return SubjectOptions(name, salt=salt, batches=False)


def _row(context: TrialContext, claim: RowByRow, plan: FetchPlan, number: int) -> Subject:
    """Returns the run of one row; inputs without a batch get the feeds of the first row."""
    name, salt = f"row {number}", f"row {number}" if number else ""
    graph = context.change.after if claim.alone else context.change.before
    key = EDITED if claim.alone else ORIGINAL
    overrides = context.overrides_before()
    overrides = overrides.only({*overrides.names()} - {*claim.inputs})
    overrides.archive = None if claim.inputs else overrides.archive
    return Subject(context.executor, key, graph, plan=plan, overrides=overrides, options=_options(name, salt))


def _note_batch(claim: RowByRow, state: TrialState, sample: int) -> None:
    del sample
    state.proof.batches = sorted({*state.proof.batches, claim.rows})


# -- where it does not hold -----------------------------------------------------------------------------------


def _refuse(claim: RowByRow, refusal: RunRefusal) -> GdsurgeonError:
    return EditError(
        f"the graph does not accept a batch of {claim.rows} times its size: {refusal.text}",
        code="rows-mixed",
        advice="no-batch-check",
    )


def _accuse(
    context: TrialContext,
    claim: RowByRow,
    names: tuple[str, ...],
    state: TrialState,
    differs: DiffersError,
    wrong: Sequence[str],
) -> GdsurgeonError:
    """Returns the error with the first node that mixes rows."""
    node = _first_mixing(context, claim, names, state, nodes_of(wrong))
    where = f": rows are first mixed at {quoted(node.name)} ({printable(node.op)})" if node is not None else ""
    return EditError(
        f"the rows of a batch affect each other{where}",
        code="rows-mixed",
        facts={"node": None if node is None else node.name},
        details=differs.details,
        advice="no-batch-check",
    )


def _first_mixing(
    context: TrialContext, claim: RowByRow, names: tuple[str, ...], state: TrialState, wrong: Sequence[str]
) -> Node | None:
    """Returns the first node in topological order whose floats differ from those of the rows."""
    graph = context.change.after
    for tensors in _searched(context, claim, wrong):
        found = _unequal(context.executor, claim, names, state, tensors)
        if found is not None:
            return graph[parse_tensor(found).node]
    return None


def _searched(context: TrialContext, claim: RowByRow, wrong: Sequence[str]) -> Iterator[list[str]]:
    """Yields the fetchable floats between the inputs and the wrong outputs in topological order."""
    graph = context.change.after
    topology = topology_of(graph)
    above = topology.upstream([topology.id_of(graph[name]) for name in wrong], control=False)
    below = forward_walk(topology, [topology.id_of(graph[name]) for name in claim.inputs])
    between = [number for number in topological_order(topology) if above[number] and below[number]]
    nodes = [topology.node(number) for number in between]
    nodes = [n for n in nodes if n.name in context.change.before and any(map(is_inexact, n.output_dtypes or ()))]
    for start in range(0, min(len(nodes), MOST_SEARCHED), SEARCHED_AT_ONCE):
        part = [node.name for node in nodes[start : start + SEARCHED_AT_ONCE]]
        plan = plan_with(context.executor.settings, graph, part)
        order = {name: place for place, name in enumerate(part)}
        tensors = [name for name in plan.fetches if parse_tensor(name).node in order]
        yield sorted(tensors, key=lambda name: order[parse_tensor(name).node])


def _unequal(
    executor: Executor, claim: RowByRow, names: tuple[str, ...], state: TrialState, tensors: Sequence[str]
) -> str | None:
    """Returns the first tensor that differs between the batch and the rows."""
    key = EDITED if claim.alone else ORIGINAL
    try:
        for name in dict.fromkeys(names):
            executor.wait(executor.run(key, f"{name} searched", state.fed[name], tensors))
        summary = executor.wait(executor.run(EDITED, "batch searched", state.fed["batch"], tensors))
    except Refused:
        return None
    joined = []
    for place, info in enumerate(summary.outputs):
        rows = {name: executor.fetched(Result(f"{name} searched", place)) for name in dict.fromkeys(names)}
        joined.append(as_batch([rows[name] for name in names], info.shape))
    executor.put("rows searched", joined)
    pairs = [(place, place) for place in range(len(tensors))]
    compared = executor.comparisons(executor.compare("rows searched", "batch searched", pairs, rtol=RTOL, atol=ATOL))
    return next((t for t, found in zip(tensors, compared, strict=True) if not agrees(found, RTOL, ATOL)), None)
