"""Plans which tensors a backward pass keeps and which it recomputes, and predicts the costs.

Each plan is simulated before it is accepted. The dynamic programs that propose cuts only estimate the loads; the
differences between the simulated load and the estimate correct them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.gradients.cuts import (
    MOST_CUTS,
    MOST_CUTS_FOR_TIME,
    NO_CUTS,
    Costs,
    Cuts,
    Load,
    costs,
    cuts_after,
    heavy_tensors,
    least_memory,
    least_time,
    load,
    possible_cuts,
)
from gdsurgeon.gradients.peak import Peak, hold, peak, slots_to_hold, waits_for_releases
from gdsurgeon.gradients.recompute import Recomputation, recomputed
from gdsurgeon.gradients.step_graph import ForwardPass, TensorId

if TYPE_CHECKING:
    from gdsurgeon.gradients.cuts import Array

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
        plans = self._proposals(MOST_CUTS_FOR_TIME, lambda table: _within(table, budget))
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
        return plans + self._proposals(MOST_CUTS_FOR_TIME, _fast_and_small)

    def _proposals(self, most: int, propose: Callable[[Costs], list[Cuts]]) -> list[CheckpointPlan]:
        """Returns the proposed plans; each round corrects the load."""
        out: list[CheckpointPlan] = []
        cuts = possible_cuts(self.found, most)
        work = self._load
        seen: set[Cuts] = set()
        stale = 0
        for _ in range(ROUNDS):
            table = costs(self.found, cuts, work)
            plans = [plan for found in propose(table) if (plan := self.evaluate(found)) is not None]
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
        for segments, seen in self._windows(plan, len(estimates)):
            highest = max(estimates[segment] for segment in segments)
            for segment in segments:
                busy[bounds[segment] : bounds[segment + 1]] += 0.7 * (seen - highest)
        return busy

    @staticmethod
    def _windows(plan: CheckpointPlan, count: int) -> list[tuple[range, int]]:
        """Returns the segments between two triggers, and their peak; from the last segment down."""
        begins = {number: at for at, number in enumerate(plan.peak.order)}
        triggers = list(plan.made.triggers.items())  # from the last segment down
        out: list[tuple[range, int]] = []
        above, since = count, 0
        for segment, trigger in triggers:
            at = begins[trigger]
            if segment + 1 < above:
                out.append((range(segment + 1, above), max(plan.peak.live[since:at], default=0)))
                since, above = at, segment + 1
        out.append((range(above), max(plan.peak.live[since:], default=0)))
        return out


def _time_first(plan: CheckpointPlan) -> tuple[float, int]:
    return plan.extra, plan.peak.nbytes


def _smallest(plans: Sequence[CheckpointPlan]) -> CheckpointPlan:
    """Returns the plan with the least peak, and the least time among about equal peaks."""
    least = min(plan.peak.nbytes for plan in plans)
    return min((plan for plan in plans if plan.peak.nbytes <= ABOUT * least), key=_time_first)


def _fast_and_small(table: Costs) -> list[Cuts]:
    bound, cuts = least_memory(table)
    fast = least_time(table, bound * ABOUT)
    return [cuts] if fast is None else [cuts, fast]


def _within(table: Costs, budget: int) -> list[Cuts]:
    found = [least_time(table, part * budget) for part in BOUNDS]
    return [cuts for cuts in found if cuts is not None]
