"""Plans which tensors a backward pass keeps and which it recomputes, and predicts the costs.

The forward pass is cut into segments. The cost of a cut is the bytes that cross it and must be kept; the cost of a
segment is the time to recompute it. While the backward pass works on a segment, memory contains all tensors kept before
it, the needed tensors of the segment, and the gradients: their sum must be below a bound. Two dynamic programs over
possible cuts find the least possible bound, and the least time under a given bound.

The dynamic programs only estimate the loads. Each plan is simulated before it is accepted, and the differences between
the simulated load and the estimate correct the estimate.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.gradients.recompute import ForwardPass, Recomputation, recomputed
from gdsurgeon.gradients.step_graph import TINY, Peak, TensorId, hold, peak, slots_to_hold, waits_for_releases
from gdsurgeon.ops.kinds import HEAVY, REUSES_INPUT

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

MOST_CUTS = 1000
MOST_CUTS_FOR_TIME = 160
LEVELS = 64
"""The number of levels of kept bytes that are distinguished if time is minimized as well."""


class Cuts(NamedTuple):
    """Positions after which the forward pass is cut, ascending, and the segments that are kept completely."""

    positions: tuple[int, ...]
    kept_segments: frozenset[int] = frozenset()


NO_CUTS = Cuts(())


@dataclass
class Costs:
    """The costs of cuts and of the segments between them. Index 0 is the beginning, the last index is the end.

    Attributes:
        cuts: the position after which each cut is.
        crossing: (i, j): bytes that cross cut j and were written after cut i.
        idle: the same for buffers that the backward pass itself does not need.
        needed: (i, j): bytes written between the cuts that the backward pass needs.
        at_work: (i, j): the peak while the backward pass works between the cuts, without bytes kept before them.
        time: (i, j): the time to recompute the segment between them.
    """

    cuts: list[int]
    crossing: Array
    idle: Array
    needed: Array
    at_work: Array
    time: Array


class Load(NamedTuple):
    """The memory while the backward pass works at a position, without kept bytes.

    Attributes:
        before: bytes written before each position that the backward pass needs; one entry more than positions.
        busy: for each position these bytes, its gradients, and the results so far.
    """

    before: Array
    busy: Array

    def highest(self, start: int, end: int) -> float:
        """Returns the highest load from position `start` to before `end`; at least 0."""
        return float(max([0.0, *self.busy[start:end]]))


def load(found: ForwardPass, results: Mapping[int, int]) -> Load:
    """Returns the load at each position; `results` has the bytes of the results by position."""
    import numpy as np

    count = len(found.order)
    written, alive, made = np.zeros(count + 1), np.zeros(count + 2), np.zeros(count + 1)
    needed = set(found.needed())
    for buffer, end in found.ends.items():
        nbytes, start = found.nbytes[buffer], found.start(buffer)
        alive[start] += nbytes
        # If an op overwrites its input, the gradient of the input overwrites the gradient of the output.
        alive[end if end > start and found.step.ops[found.order[end]] in REUSES_INPUT else end + 1] -= nbytes
        if buffer in needed:
            written[start + 1] += nbytes
    for position, nbytes in results.items():
        made[position] += nbytes
    before = np.cumsum(written)
    return Load(before, before[1:] + np.cumsum(alive)[:count] + np.cumsum(made[::-1])[::-1][:count])


def costs(found: ForwardPass, cuts: Sequence[int], work: Load) -> Costs:
    """Returns the costs of cuts at ascending positions. Quadratic in the number of cuts, linear in nodes."""
    import numpy as np

    places = [-1, *cuts, len(found.order) - 1]
    size = len(places)
    tables = [np.zeros((size + 1, size + 1)) for _ in ("crossing", "idle")]
    needed = set(found.needed())
    for buffer, end in found.ends.items():
        nbytes = found.nbytes[buffer]
        if nbytes <= TINY:
            continue
        first, last = (bisect_left(places, position) for position in (found.start(buffer), end))
        # It crosses the cuts first..last-1, and was written after all cuts before the first.
        for table in tables[:1] if buffer in needed else tables:
            table[0, first] += nbytes
            table[0, last] -= nbytes
            table[first, first] -= nbytes
            table[first, last] += nbytes
    crossing, idle = (np.cumsum(np.cumsum(t, axis=0), axis=1)[:size, :size] for t in tables)
    busy = [work.highest(a + 1, b + 1) for a, b in itertools.pairwise(places)]
    ends = np.array(places) + 1
    before = work.before[ends]
    at_work = np.full((size, size), np.inf)
    for i in range(size - 1):
        at_work[i, i + 1 :] = np.maximum.accumulate(np.array(busy[i:])) - before[i]
    each = _times(found)
    times = np.concatenate([[0.0], np.cumsum(each)])
    time = np.maximum(times[ends][None, :] - times[ends][:, None], 0.0)
    # An output that crosses the cut after its node is kept, so the node is not recomputed.
    outputs = {cut: [(found.order[cut], i) for i in range(len(found.step.sizes[found.order[cut]]))] for cut in cuts}
    spared = np.array([each[cut] if any(found.ends.get(o, -1) > cut for o in outputs[cut]) else 0.0 for cut in cuts])
    time[:, 1:-1] -= np.minimum(spared[None, :], time[:, 1:-1])
    return Costs(list(cuts), crossing, idle, before[None, :] - before[:, None], at_work, time)


def _times(found: ForwardPass) -> list[float]:
    """Returns the time for each position; 0 if no needed tensor depends on it."""
    useful = [False] * len(found.order)
    readers: dict[int, list[int]] = {}
    for position, number in enumerate(found.order):
        for producer, _ in found.step.reads[number]:
            if producer in found.position:
                readers.setdefault(found.position[producer], []).append(position)
    needed = {found.start(buffer) for buffer in found.needed()}
    for position in range(len(found.order) - 1, -1, -1):
        useful[position] = position in needed or any(useful[reader] for reader in readers.get(position, ()))
    return [found.step.costs[n] if useful[p] else 0.0 for p, n in enumerate(found.order)]


def possible_cuts(found: ForwardPass, most: int) -> list[int]:
    """Returns at most `most` positions for cuts, those with the fewest bytes, spread over the forward pass."""
    import numpy as np

    count = len(found.order)
    if count < 2:
        return []
    alive, written = np.zeros(count + 1), np.zeros(count)
    for buffer, end in found.ends.items():
        alive[found.start(buffer)] += found.nbytes[buffer]
        alive[end] -= found.nbytes[buffer]
        if buffer in found.users:
            written[found.start(buffer)] += found.nbytes[buffer]
    crossing = np.cumsum(alive)[: count - 1]
    weight = np.cumsum(written + written.sum() / count + 1.0)
    window = np.minimum((weight[: count - 1] / weight[-1] * most).astype(int), most - 1)
    best: dict[int, int] = {}
    for position in range(count - 1):
        known = best.get(window[position])
        if known is None or crossing[position] < crossing[known]:
            best[window[position]] = position
    return sorted(best.values())


def least_memory(table: Costs) -> tuple[float, Cuts]:
    """Returns the least possible bound, and its cuts; every segment is recomputed."""
    import numpy as np

    high = float(table.at_work[0, -1])
    low, best = 0.0, _under(table, high)
    for _ in range(40):
        if high - low <= high / 500 + 1:
            break
        middle = (low + high) / 2
        found = _under(table, middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    assert best is not None
    positions = [table.cuts[index - 1] for index in best]
    return high, Cuts(tuple(int(p) for p in np.unique(positions)) if positions else ())


def _under(table: Costs, bound: float) -> list[int] | None:
    """Returns the cuts that keep the least while `bound` is never exceeded, or None."""
    import numpy as np

    size = len(table.at_work)
    kept = np.full(size, np.inf)
    came: list[int] = [0] * size
    kept[0] = 0.0
    for j in range(1, size):
        fits = kept[:j] + table.at_work[:j, j] <= bound
        total = np.where(fits, kept[:j] + table.crossing[:j, j], np.inf)
        came[j] = int(np.argmin(total))
        kept[j] = total[came[j]]
    if not np.isfinite(kept[-1]):
        return None
    out: list[int] = []
    j = came[-1]
    while j > 0:
        out.append(j)
        j = came[j]
    return out[::-1]


_Path = tuple[int, bool, "_Path"] | tuple[()]
"""The last cut, whether the segment after it is kept completely, and the path to the cut."""


def least_time(table: Costs, bound: float) -> Cuts | None:
    """Returns the cuts with the least time for recomputation under a bound, or None.

    Kept bytes are distinguished in steps of a 64th of the bound; of two paths with nearly equal bytes, the slower is
    dropped.
    """
    size = len(table.at_work)
    step = max(bound / LEVELS, 1.0)
    labels: list[list[tuple[float, float, _Path]]] = [[(0.0, 0.0, ())]]  # time, kept bytes, and path to each cut
    for j in range(1, size):
        best: dict[int, tuple[float, float, _Path]] = {}
        for i in range(j):
            stays = table.needed[i, j] + table.idle[i, j]
            for spent, before, path in labels[i]:
                if before + table.at_work[i, j] > bound:
                    continue
                ways = [(spent, before + stays, True)]
                if j < size - 1:
                    ways.append((spent + table.time[i, j], before + table.crossing[i, j], False))
                for time, kept, keeps in ways:
                    level = int(kept / step)
                    if level not in best or (time, kept) < best[level][:2]:
                        best[level] = time, kept, (i, keeps, path)
        labels.append([])
        for level in sorted(best):  # labels that are not worse than a different one in both kept bytes and time
            if not labels[-1] or best[level][0] < labels[-1][-1][0]:
                labels[-1].append(best[level])
    if not labels[-1]:
        return None
    *_, path = min(labels[-1], key=lambda label: label[:2])
    segments: list[tuple[int, bool]] = []
    while path:
        cut, keeps, path = path
        segments.append((cut, keeps))
    segments.reverse()
    positions: list[int] = []  # the cuts without those between segments that are kept completely
    kept_segments: set[int] = set()
    for number, (cut, keeps) in enumerate(segments):
        if number and not (keeps and segments[number - 1][1]):
            positions.append(table.cuts[cut - 1])
        if keeps:
            kept_segments.add(len(positions))
    return Cuts(tuple(positions), frozenset(kept_segments))


def cuts_after(found: ForwardPass, tensors: Sequence[TensorId]) -> Cuts:
    """Returns cuts after given tensors."""
    positions = {found.start(buffer) for tensor in tensors if (buffer := found.buffer.get(tensor)) is not None}
    return Cuts(tuple(sorted(p for p in positions if p < len(found.order) - 1)))


def heavy_tensors(found: ForwardPass) -> list[TensorId]:
    """Returns the outputs of convolutions and matrix products."""
    return [(number, 0) for number in found.order if found.step.ops[number] in HEAVY]


ROUNDS = 8
"""The number of corrections."""
MOST_STALE = 2
"""The number of rounds without a new plan after which the search ends."""
BOUNDS = (1.0, 0.9)
"""Fractions of a budget that are tried as a bound: the simulated peak may be larger than the estimate."""
ABOUT = 1.02
"""Peaks that differ by a smaller factor count as equal."""
NEAR = 1.2
"""A plan may exceed a budget by this factor before it is settled, and be below the budget after that."""
MOST_SETTLED = 4
"""The number of plans that are settled to find the best plan."""


class CheckpointPlan(NamedTuple):
    """A way to run the backward pass.

    Attributes:
        cuts: the cuts of the forward pass.
        made: the rewritten step.
        peak: its simulated memory.
        extra: the time of the recomputation, as a fraction of the time of the plain step.
    """

    cuts: Cuts
    made: Recomputation
    peak: Peak
    extra: float


class CheckpointPlanner:
    """Proposes plans for one step.

    Args:
        found: the forward pass.
        kept: the nodes whose outputs exist until the end.
        results: bytes of the results, by their position in the forward pass.
        scope: the name scope of new nodes.
        threads: the number of nodes that run at the same time.
        prompt: the backward nodes that must not be held back.
    """

    def __init__(
        self,
        found: ForwardPass,
        kept: Sequence[int],
        results: Mapping[int, int],
        scope: str,
        threads: int = 2,
        prompt: Collection[int] = frozenset(),
    ) -> None:
        self.found = found
        self._prompt = prompt
        self._threads = threads
        self._kept = kept
        self._scope = scope
        self._load = load(found, results)
        self._total = sum(found.step.costs) or 1.0
        self._known: dict[Cuts, CheckpointPlan | None] = {}
        self.plain = CheckpointPlan(NO_CUTS, Recomputation(found.step), peak(found.step, kept, threads), 0.0)

    def evaluate(self, cuts: Cuts) -> CheckpointPlan | None:
        """Returns the plan for cuts; None if nodes would wait for each other."""
        if cuts not in self._known:
            made = recomputed(self.found, cuts.positions, cuts.kept_segments, self._scope)
            played = peak(made.step, self._kept, self._threads)
            runs = len(played.order) == len(made.step)
            self._known[cuts] = CheckpointPlan(cuts, made, played, made.cost / self._total) if runs else None
        return self._known[cuts]

    def keeping(self, tensors: Sequence[TensorId]) -> CheckpointPlan | None:
        """Returns the plan that keeps only `tensors`, and tensors that must be kept with them."""
        plan = self.evaluate(cuts_after(self.found, tensors))
        return None if plan is None else self.settled(plan)

    def memory(self) -> CheckpointPlan:
        """Returns the plan with the least peak, and the least time among about equal peaks."""
        plans = self._small
        near = [_smallest(plans), *sorted(plans, key=lambda plan: plan.peak.nbytes)][:MOST_SETTLED]
        return _smallest([self.settled(plan) for plan in {plan.cuts: plan for plan in near}.values()])

    def under(self, budget: int) -> CheckpointPlan | None:
        """Returns the fastest plan whose peak is at most `budget` bytes, or None."""
        if self.plain.peak.nbytes <= budget:
            return self.settled(self.plain, budget)
        plans = self._proposals(MOST_CUTS_FOR_TIME, lambda table: [least_time(table, part * budget) for part in BOUNDS])
        heavy = self.evaluate(cuts_after(self.found, heavy_tensors(self.found)))
        plans += [*([heavy] if heavy is not None else []), *self._small]
        near = {plan.cuts: plan for plan in sorted(plans, key=_time_first) if plan.peak.nbytes <= NEAR * budget}
        left_out = [plan.cuts for plan in near.values() if plan.peak.nbytes > budget][MOST_SETTLED:]
        settled = (self.settled(plan, budget) for cuts, plan in near.items() if cuts not in left_out)
        fastest = next((plan for plan in settled if plan.peak.nbytes <= budget), None)
        if fastest is None and (least := self.memory()).peak.nbytes <= budget:
            return least
        return fastest

    def settled(self, plan: CheckpointPlan, budget: int | None = None) -> CheckpointPlan:
        """Returns a plan with waits that keep its peak low for all schedules of threads.

        The peak is below `budget` bytes, or without a budget below the simulated peak.
        """
        bound = round(plan.peak.nbytes * ABOUT) if budget is None else budget
        old, found = plan.made.step, self.found
        first = len(found.step)
        fixed = {number for number in range(first) if found.is_constant[number] and not found.is_backward[number]}
        may_wait = [*(number for number in found.backward if number not in self._prompt), *plan.made.originals]
        slots = slots_to_hold(old, may_wait, fixed)
        runs = [old.is_live(number) for number in range(len(old))]
        waits = waits_for_releases(old, plan.peak, slots, runs, bound)
        if not waits:
            return plan
        step = old.copy()
        held = hold(step, waits, slots, self._scope)
        rewired = plan.made.rewired | {node: None for node in held.values() if node < first}
        made = replace(plan.made, step=step, gates=[*plan.made.gates, *held], rewired=rewired)
        played = peak(step, self._kept, self._threads)
        return plan._replace(made=made, peak=played) if played.nbytes <= bound else plan

    @cached_property
    def _small(self) -> list[CheckpointPlan]:
        """Plans that need little memory, before they are settled."""
        plans = [self.plain, *self._proposals(MOST_CUTS, lambda table: [least_memory(table)[1]])]

        def fast_and_small(table: Costs) -> list[Cuts | None]:
            bound, cuts = least_memory(table)
            return [cuts, least_time(table, bound * ABOUT)]

        return plans + self._proposals(MOST_CUTS_FOR_TIME, fast_and_small)

    def _proposals(self, most: int, propose: Callable[[Costs], Sequence[Cuts | None]]) -> list[CheckpointPlan]:
        """Returns the proposed plans; each round corrects the load."""
        out: list[CheckpointPlan] = []
        possible = possible_cuts(self.found, most)
        work = self._load
        seen: set[Cuts] = set()
        stale = 0
        for _ in range(ROUNDS):
            table = costs(self.found, possible, work)
            proposed = (self.evaluate(cuts) for cuts in propose(table) if cuts is not None)
            plans = [plan for plan in proposed if plan is not None]
            new = [plan for plan in plans if plan.cuts not in seen]
            seen.update(plan.cuts for plan in plans)
            out += new
            stale = 0 if new else stale + 1
            if not plans or stale == MOST_STALE:
                return out
            work = Load(work.before, self._corrected(work, plans[0]))
        return out

    def _corrected(self, work: Load, plan: CheckpointPlan) -> Array:
        """Returns the load, corrected by the simulation of a plan."""
        busy: Array = work.busy.copy()
        bounds = [0, *(cut + 1 for cut in plan.cuts.positions), len(busy)]
        estimates: list[float] = []
        for start, end in itertools.pairwise(bounds):
            kept = sum(self.found.nbytes[b] for b in plan.made.kept if self.found.start(b) < start)
            estimates.append(float(kept + work.highest(start, end) - work.before[start]))
        # The segments between two triggers, and their peak; from the last segment down.
        begins = {number: at for at, number in enumerate(plan.peak.order)}
        above, since = len(estimates), 0
        for segment, at in [*((s, begins[trigger]) for s, trigger in plan.made.triggers.items()), (-1, None)]:
            if segment + 1 < above:
                window = range(segment + 1, above)
                seen = max(plan.peak.live[since:at], default=0)
                highest = max(estimates[number] for number in window)
                busy[bounds[window.start] : bounds[above]] += 0.7 * (seen - highest)
                since, above = at or 0, segment + 1
        return busy


def _time_first(plan: CheckpointPlan) -> tuple[float, int]:
    return plan.extra, plan.peak.nbytes


def _smallest(plans: Sequence[CheckpointPlan]) -> CheckpointPlan:
    """Returns the plan with the least peak, and the least time among about equal peaks."""
    least = min(plan.peak.nbytes for plan in plans)
    return min((plan for plan in plans if plan.peak.nbytes <= ABOUT * least), key=_time_first)
