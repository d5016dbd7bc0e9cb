"""The claim about batches: for each row, the edited graph returns the values of the original for this row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import forward_walk, topology_of
from gdsurgeon.edits.claims import RowByRow, SameOutputs
from gdsurgeon.errors import EditError, GdsurgeonError, printable, quoted
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import is_inexact
from gdsurgeon.proof.executor import Refused
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import DiffersError, agrees
from gdsurgeon.proof.same_outputs import same_outputs_plan, something_compared
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    EDITED,
    ORIGINAL,
    ComparedPair,
    FeedSource,
    Fetch,
    RunRefusal,
    SameFeed,
    Session,
    Trial,
    TrialRun,
    chance_reasons,
    nodes_of,
)
from gdsurgeon.runtime.protocol import OutputInfo, Result
from gdsurgeon.runtime.tensor import Tensor, joined_tensors
from gdsurgeon.select import depends_on_feeds

MOST_ROWS = 3
"""The number of different rows; a larger batch repeats them."""
RTOL, ATOL = 1e-3, 1e-4
"""By how much a row may differ: kernels sum in a different order in a different batch."""
MOST_SEARCHED = 2000
"""The number of tensors in the search for the first node that mixes rows."""
SEARCHED_AT_ONCE = 100
BATCH = "batch"


def prove_row_by_row(session: Session, claim: RowByRow) -> Trial:
    """Proves that all rows as a batch of the edited graph return the values of each row separately.

    Raises:
        EditError: the edited graph does not accept the batch, or mixes rows; the error names the first node that does.
    """
    graph, executor, settings = session.change.after, session.executor, session.executor.settings
    key = EDITED if claim.alone else ORIGINAL
    plan, inside = same_outputs_plan(session, SameOutputs())
    if plan.draws or claim.alone:  # each row would need its own random values
        plan = session.plan(key, nodes_of(plan.fetches), undrawable=nodes_of(plan.draws))
    rows = [_row(session, claim, key, plan, number) for number in range(min(claim.rows, MOST_ROWS))]
    names = tuple(rows[number % len(rows)].name for number in range(claim.rows))
    options = SubjectOptions(BATCH, batches=False)
    batch = Subject(executor, EDITED, graph, plan=FetchPlan(plan.groups), options=options)
    batch.specs = []
    shared: dict[str, FeedSource] = {
        name: SameFeed(rows[0].name, name) for name in rows[0].feedable if name not in claim.inputs
    }
    stacked = {name: _stacked_feeds(names, name) for name in claim.inputs if name in rows[0].feedable}

    def blame(refusal: RunRefusal) -> GdsurgeonError:
        text = f"the graph does not accept a batch of {claim.rows} times its size: {refusal.text}"
        return EditError(text, code="rows-mixed", advice="no-batch-check")

    runs = [TrialRun(row, shared if row is not rows[0] else {}, reported_as=None) for row in rows]
    runs.append(TrialRun(batch, shared | stacked, session.change.called, blame, reported_as=None))
    topology = topology_of(graph)
    fed = depends_on_feeds(topology)
    fixed = [name for name in plan.fetches if not fed[topology.id_of(graph[parse_tensor(name).node])]]
    reasons = dict.fromkeys(fixed, "depends only on shapes and constants") | chance_reasons(plan)
    pairs = [ComparedPair(name, name, _stacked_values(names, name), Fetch(BATCH, name), reasons.get(name, ""),
                          inside=parse_tensor(name).node in inside) for name in plan.fetches]  # fmt: skip
    statement = f"edited({claim.rows} rows) == {'edited' if claim.alone else 'original'}(each row)"
    trial = Trial(executor, statement, runs, pairs, session.both_load(), rows[0].name, settings.samples, RTOL, ATOL)
    trial.skipped, trial.shown, trial.stops = plan.reasons, False, True
    try:
        for _ in trial.each_sample():
            trial.proof.batches = sorted({*trial.proof.batches, claim.rows})
    except DiffersError as differs:
        node = _first_mixing(session, claim, trial, key, names)
        where = f": rows are first mixed at {quoted(node.name)} ({printable(node.op)})" if node is not None else ""
        raise EditError(
            f"the rows of a batch affect each other{where}",
            code="rows-mixed",
            facts={"node": None if node is None else node.name},
            details=differs.details,
            advice="no-batch-check",
        ) from differs
    something_compared(trial.proof)
    return trial


def _row(session: Session, claim: RowByRow, key: str, plan: FetchPlan, number: int) -> Subject:
    """Returns the run of one row; inputs without a batch get the feeds of the first row."""
    name, graph = f"row {number}", session.change.after if claim.alone else session.change.before
    overrides = session.overrides_before()
    overrides = overrides.only({*overrides.names()} - {*claim.inputs})
    overrides.archive = None if claim.inputs else overrides.archive
    options = SubjectOptions(name, salt=name if number else "", batches=False)
    return Subject(session.executor, key, graph, plan=plan, overrides=overrides, options=options)


def _stacked_feeds(rows: Sequence[str], name: str) -> Callable[[Trial, int], Tensor]:
    """Returns the feed of the batch: the feeds `name` of the runs `rows`, joined in this order."""
    return lambda trial, _: joined_tensors([trial.executor.fetched(trial.fed[row][name]) for row in rows], 0)


def _stacked_values(rows: Sequence[str], tensor: str) -> Callable[[Trial, int, OutputInfo], Tensor]:
    """Returns the expected value of `tensor` for the batch: its values in the runs `rows`."""

    def expected(trial: Trial, sample: int, info: OutputInfo) -> Tensor:
        values = {row: trial.executor.fetched(trial.result(Fetch(row, tensor), sample)) for row in {*rows}}
        return _as_batch([values[row] for row in rows], info.shape)

    return expected


def _as_batch(rows: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Returns the value for a batch from the values `rows` of its rows.

    The rows are joined along the axis along which they have `shape`, the shape that the batch returned. A value that is
    the same for each row can be the same for the batch. If no axis fits, the rows are joined along the first axis.
    """
    first = rows[0]
    if any(len(row.shape) != len(first.shape) for row in rows):
        return first
    if first.shape == shape and all(row.tobytes() == first.tobytes() for row in rows):
        return first
    axes = [axis for axis in range(len(first.shape))
            if len({(*row.shape[:axis], *row.shape[axis + 1 :]) for row in rows}) == 1]  # fmt: skip
    fitting = [axis for axis in axes if axis < len(shape) and sum(row.shape[axis] for row in rows) == shape[axis]]
    fitting = fitting if len(first.shape) == len(shape) else []
    return joined_tensors(rows, (fitting or axes)[0]) if axes else first


def _searched(session: Session, claim: RowByRow, wrong: Sequence[str]) -> Iterator[list[str]]:
    """Yields the fetchable floats between the inputs and the wrong outputs in topological order."""
    graph = session.change.after
    topology = topology_of(graph)
    above = topology.upstream([topology.id_of(graph[name]) for name in wrong], control=False)
    below = forward_walk(topology, [topology.id_of(graph[name]) for name in claim.inputs])
    between = [number for number in topological_order(topology) if above[number] and below[number]]
    nodes = [topology.node(number) for number in between]
    nodes = [n for n in nodes if n.name in session.change.before and any(map(is_inexact, n.output_dtypes or ()))]
    for start in range(0, min(len(nodes), MOST_SEARCHED), SEARCHED_AT_ONCE):
        part = [node.name for node in nodes[start : start + SEARCHED_AT_ONCE]]
        order = {name: place for place, name in enumerate(part)}
        fetches = plan_with(session.executor.settings, graph, part).fetches
        tensors = [name for name in fetches if parse_tensor(name).node in order]
        yield sorted(tensors, key=lambda name: order[parse_tensor(name).node])


def _first_mixing(session: Session, claim: RowByRow, trial: Trial, key: str, rows: Sequence[str]) -> Node | None:
    """Returns the first node in topological order whose floats differ between the batch and the rows."""
    assert trial.failure is not None
    executor = session.executor
    for tensors in _searched(session, claim, nodes_of(output.after for output in trial.failure.wrong)):
        try:
            for row in {*rows}:
                executor.wait(executor.run(key, f"{row} searched", trial.fed[row], tensors))
            summary = executor.wait(executor.run(EDITED, "batch searched", trial.fed[BATCH], tensors))
        except Refused:
            continue
        expected = []
        for place, info in enumerate(summary.outputs):
            values = {row: executor.fetched(Result(f"{row} searched", place)) for row in {*rows}}
            expected.append(_as_batch([values[row] for row in rows], info.shape))
        executor.put("rows searched", expected)
        pairs = [(place, place) for place in range(len(tensors))]
        found = executor.compare("rows searched", "batch searched", pairs, rtol=RTOL, atol=ATOL)
        for tensor, comparison in zip(tensors, found, strict=True):
            if not agrees(comparison, RTOL, ATOL):
                return session.change.after[parse_tensor(tensor).node]
    return None
