"""The claim about batches: for each row, the edited graph returns the values of the original for this row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import forward_walk, topology_of
from gdsurgeon.edits.claims import RowByRow, SameOutputs
from gdsurgeon.errors import EditError, GdsurgeonError, printable, quoted
from gdsurgeon.graph.attrs import FullShape
from gdsurgeon.graph.names import node_of, nodes_of
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import is_inexact
from gdsurgeon.proof.executor import Refused
from gdsurgeon.proof.plan import FetchPlan
from gdsurgeon.proof.proof import DiffersError, agrees
from gdsurgeon.proof.same_outputs import same_outputs_plan, something_compared
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import (
    EDITED,
    ORIGINAL,
    ComparedPair,
    FeedSource,
    Fetch,
    ProofContext,
    RunRefused,
    SameFeed,
    Trial,
    TrialRun,
    random_reasons,
)
from gdsurgeon.runtime.protocol import OutputInfo
from gdsurgeon.runtime.tensor import Tensor, joined_tensors
from gdsurgeon.select import depends_on_feeds
from gdsurgeon.values import Tolerance

MOST_ROWS = 3
"""The number of different rows; a larger batch repeats them."""
TOLERANCE = Tolerance(1e-3, 1e-4)
"""By how much a row may differ: kernels sum in a different order in a different batch."""
MOST_SEARCHED = 2000
"""The number of tensors in the search for the first node that mixes rows."""
SEARCHED_AT_ONCE = 100
BATCH = "batch"


def prove_row_by_row(context: ProofContext, claim: RowByRow) -> Trial:
    """Proves that all rows as a batch of the edited graph return the values of each row separately.

    Raises:
        EditError: the edited graph does not accept the batch, or mixes rows; the error names the first node that does.
    """
    change, executor = context.change, context.executor
    key, alone = (EDITED, change.after) if claim.alone else (ORIGINAL, change.before)
    plan, inside = same_outputs_plan(context, SameOutputs())
    if plan.sampled or claim.alone:  # each row would need its own random values
        plan = context.plan(key, plan.fetches, not_sampled=nodes_of(plan.sampled))
    overrides = context.overrides_of(ORIGINAL)
    overrides = overrides.only({*overrides.names()} - {*claim.inputs})
    if claim.inputs:
        overrides.archive = None
    names = [f"row {number}" for number in range(min(claim.rows, MOST_ROWS))]
    subjects = [Subject(executor, key, alone, plan, overrides, name=name) for name in names]
    for subject in subjects[1:]:  # inputs without a batch get the feeds of the first row
        subject.seed_suffix = subject.name
    first, rows = subjects[0], [names[number % len(names)] for number in range(claim.rows)]
    batch = Subject(executor, EDITED, change.after, FetchPlan(plan.groups), name=BATCH)
    for subject in (*subjects, batch):
        subject.fix_batch()
    shared: dict[str, FeedSource] = {
        name: SameFeed(first.name, name) for name in first.feedable if name not in claim.inputs
    }

    def stacked_feeds(name: str) -> FeedSource:
        return lambda trial, _: joined_tensors([executor.fetched(trial.fed[row][name]) for row in rows], 0)

    def stacked_values(tensor: str) -> Callable[[Trial, int, OutputInfo], Tensor]:
        return lambda trial, sample, info: _stacked(
            [executor.fetched(trial.result(Fetch(name, tensor), sample)) for name in names], claim.rows, info.shape
        )

    def on_refusal(refused: RunRefused) -> GdsurgeonError:
        text = f"the graph does not accept a batch of {claim.rows} times its size: {refused.text}"
        return EditError(text, code="rows-mixed", advice="no-batch-check")

    stacked = {name: stacked_feeds(name) for name in claim.inputs if name in first.feedable}
    runs = [TrialRun(row, shared if row is not first else {}) for row in subjects]
    runs.append(TrialRun(batch, shared | stacked, change.called, on_refusal))
    topology = topology_of(change.after)
    fed = depends_on_feeds(topology)
    fixed = [name for name in plan.fetches if not fed[topology.id_of(change.after[node_of(name)])]]
    reasons = dict.fromkeys(fixed, "depends only on shapes and constants") | random_reasons(plan)
    pairs = [ComparedPair(name, name, stacked_values(name), Fetch(BATCH, name), reasons.get(name, ""),
                          inside=node_of(name) in inside) for name in plan.fetches]  # fmt: skip
    statement = f"edited({claim.rows} rows) == {'edited' if claim.alone else 'original'}(each row)"
    samples = executor.settings.samples
    trial = Trial(executor, statement, runs, pairs, first.name, samples, TOLERANCE)
    trial.skipped, trial.shown, trial.stops = plan.reasons, False, True
    try:
        for _ in trial.each_sample():
            trial.proof.batches = sorted({*trial.proof.batches, claim.rows})
    except DiffersError as differs:
        node = _first_mixing(context, claim, trial, key, names)
        where = f": rows are first mixed at {quoted(node.name)} ({printable(node.op)})" if node is not None else ""
        raise EditError(
            f"the rows of a batch affect each other{where}",
            code="rows-mixed",
            node=None if node is None else node.name,
            details=differs.details,
            advice="no-batch-check",
        ) from differs
    something_compared(trial.proof)
    return trial


def _stacked(different: Sequence[Tensor], count: int, shape: FullShape) -> Tensor:
    """Returns the expected value for a batch from the values of its rows.

    The rows are joined along the axis along which they have `shape`, the shape that the batch returned. A value that is
    the same for each row can be the same for the batch. If no axis fits, the rows are joined along the first axis.

    Args:
        different: the values of the different rows, which the batch repeats.
        count: the number of rows of the batch.
        shape: of the batch.
    """
    rows = [different[number % len(different)] for number in range(count)]
    first = rows[0]
    if any(len(row.shape) != len(first.shape) for row in rows):
        return first
    if first.shape == shape and all(row.tobytes() == first.tobytes() for row in rows):
        return first
    axes = [axis for axis in range(len(first.shape))
            if len({(*row.shape[:axis], *row.shape[axis + 1 :]) for row in rows}) == 1]  # fmt: skip
    is_alike = len(first.shape) == len(shape)
    fitting = [axis for axis in axes if is_alike and sum(row.shape[axis] for row in rows) == shape[axis]]
    return joined_tensors(rows, (fitting or axes)[0]) if axes else first


def _searched(context: ProofContext, claim: RowByRow, wrong: Sequence[str]) -> Iterator[list[str]]:
    """Yields the fetchable floats between the inputs and the wrong outputs in topological order."""
    graph = context.change.after
    topology = topology_of(graph)
    above = topology.upstream([topology.id_of(graph[name]) for name in wrong], control=False)
    below = forward_walk(topology, [topology.id_of(graph[name]) for name in claim.inputs])
    nodes = [topology.node(number) for number in topological_order(topology) if above[number] and below[number]]
    floats = [n.name for n in nodes if n.name in context.change.before and any(map(is_inexact, n.output_dtypes or ()))]
    for start in range(0, min(len(floats), MOST_SEARCHED), SEARCHED_AT_ONCE):
        part = floats[start : start + SEARCHED_AT_ONCE]
        tensors = [name for name in context.plan(EDITED, part).fetches if node_of(name) in part]
        yield sorted(tensors, key=lambda name: part.index(node_of(name)))


def _first_mixing(context: ProofContext, claim: RowByRow, trial: Trial, key: str, names: Sequence[str]) -> Node | None:
    """Returns the first node in topological order whose floats differ between the batch and the rows."""
    assert trial.failure is not None
    executor = context.executor
    for tensors in _searched(context, claim, nodes_of(output.after for output in trial.failure.wrong)):
        try:
            for name in names:
                executor.run(key, f"{name} searched", trial.fed[name], tensors)
            summary = executor.run(EDITED, "batch searched", trial.fed[BATCH], tensors)
        except Refused:
            continue
        expected = [
            _stacked([executor.tensor(f"{name} searched", n) for name in names], claim.rows, info.shape)
            for n, info in enumerate(summary.outputs)
        ]
        executor.put("rows searched", expected)
        pairs = [(place, place) for place in range(len(tensors))]
        found = executor.compare("rows searched", "batch searched", pairs, TOLERANCE)
        for tensor, comparison in zip(tensors, found, strict=True):
            if not agrees(comparison, TOLERANCE):
                return context.change.after[node_of(tensor)]
    return None
