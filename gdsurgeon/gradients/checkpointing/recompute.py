"""Has the backward pass of a step compute forward tensors again instead of keeping them.

"Training Deep Nets with Sublinear Memory Cost" (Chen et al., 2016): the forward pass is cut into segments; what crosses
a cut is kept, and the rest of a segment is computed again from that. TensorFlow's scheduler runs whatever it can, and
would do so right away: so what a segment is computed from passes through gates, which open when the gradients have
come down to it and those of the segment behind it are done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from gdsurgeon.gradients.checkpointing.forward_pass import ForwardPass, TensorId
from gdsurgeon.gradients.checkpointing.step import StepGraph


@dataclass
class Recomputation:
    """A step that computes some of its forward pass twice.

    Attributes:
        step: the new one; the nodes of the old one have the numbers that they had.
        originals: for each node that is computed again, the one that it repeats.
        gates: the Identity nodes that wait.
        triggers: the NoOp nodes that they wait for, by segment, from the last segment down.
        rewired: the backward nodes that read something else than before.
        kept: the kept buffers, including those that are not worth recomputing.
        cost: of what is computed again, as `StepGraph.costs` has it.
    """

    step: StepGraph
    originals: dict[int, int] = field(default_factory=dict)
    gates: list[int] = field(default_factory=list)
    triggers: dict[int, int] = field(default_factory=dict)
    rewired: dict[int, None] = field(default_factory=dict)
    kept: frozenset[TensorId] = frozenset()
    cost: float = 0.0


def recomputed(found: ForwardPass, cuts: Sequence[int], kept_segments: Collection[int], scope: str) -> Recomputation:
    """Rewrites the step. Gates wait for nodes that run whatever the values are, and for no others.

    Args:
        found: its forward pass.
        cuts: positions behind which it is cut, ascending.
        kept_segments: numbers of the segments that are kept completely; the last one always is.
        scope: the name scope of the new nodes.
    """
    return _Rewriting(found, cuts, kept_segments, scope).run()


class _Rewriting:
    def __init__(self, found: ForwardPass, cuts: Sequence[int], kept_segments: Collection[int], scope: str) -> None:
        self.found = found
        self.scope = scope
        self.segment = _segments(len(found.order), cuts)
        self.last = len(cuts)
        self.always = {*kept_segments, self.last}
        self.kept = self._kept()
        self.out = Recomputation(found.step.copy(), kept=self.kept)
        self.step = self.out.step
        self.users = self._users()
        self.behind = self._behind()
        self.clones: dict[int, int] = {}
        self.gated: dict[tuple[TensorId, int], int] = {}

    def _kept(self) -> frozenset[TensorId]:
        found = self.found
        worth = set(found.needed())
        out: set[TensorId] = set()
        for buffer, end in found.ends.items():
            first = self.segment[found.start(buffer)]
            crosses = self.segment[end] != first
            stays = first in self.always if buffer in worth else buffer in found.users
            if crosses or stays:
                out.add(buffer)
        return frozenset(out | self._read_late(out))

    def _read_late(self, kept: Collection[TensorId]) -> set[TensorId]:
        """Buffers that a user reads together with those of a later segment: it runs when that is computed again."""
        by_user: dict[int, list[TensorId]] = {}
        for buffer, users in self.found.users.items():
            if buffer not in kept:
                for user in users:
                    by_user.setdefault(user, []).append(buffer)
        out: set[TensorId] = set()
        for buffers in by_user.values():
            segments = [self.segment[self.found.start(buffer)] for buffer in buffers]
            out.update(b for b, segment in zip(buffers, segments, strict=True) if segment < max(segments))
        return out

    def _users(self) -> dict[int, dict[int, None]]:
        """Returns for each segment the backward nodes that read recomputed tensors."""
        out: dict[int, dict[int, None]] = {}
        for buffer, users in self.found.users.items():
            if buffer not in self.kept:
                out.setdefault(self.segment[self.found.start(buffer)], {}).update(dict.fromkeys(users))
        return out

    def run(self) -> Recomputation:
        for segment in sorted(self.users, reverse=True):
            trigger = self._trigger(segment)
            for user in self.users[segment]:
                self._rewire(user, segment, trigger)
        return self.out

    def _rewire(self, user: int, segment: int, trigger: int) -> None:
        reads = self.step.reads[user]
        for slot, tensor in enumerate(reads):
            buffer = self.found.buffer.get(tensor)
            if buffer is None or buffer in self.kept or self.segment[self.found.start(buffer)] != segment:
                continue
            reads[slot] = (self._clone(tensor[0], segment, trigger), tensor[1])
            self.out.rewired[user] = None

    def _clone(self, number: int, segment: int, trigger: int) -> int:
        """The node that computes again what NUMBER did; it and all that it needs for that, inputs first."""
        pending = [number]
        while pending:
            current = pending[-1]
            if current in self.clones:
                pending.pop()
                continue
            missing = [p for p, port in self.step.reads[current] if self._again((p, port)) and p not in self.clones]
            if missing:
                pending += missing
                continue
            pending.pop()
            self._make(current, segment, trigger)
        return self.clones[number]

    def _again(self, tensor: TensorId) -> bool:
        """Whether a tensor is computed again when what reads it is."""
        buffer = self.found.buffer.get(tensor)
        return buffer is not None and buffer not in self.kept

    def _make(self, number: int, segment: int, trigger: int) -> None:
        step = self.step
        reads: list[TensorId] = []
        for tensor in step.reads[number]:
            if self._again(tensor):
                reads.append((self.clones[tensor[0]], tensor[1]))
            elif tensor[0] in self.found.position:
                reads.append((self._gate(tensor, segment, trigger), 0))
            else:
                reads.append(self._outside(tensor, segment, trigger))
        name = f"{self.scope}/segment_{segment}/{step.names[number]}"
        clone = step.add(name, step.ops[number], reads, (), step.sizes[number], step.costs[number])
        self.clones[number] = clone
        self.out.originals[clone] = number
        self.out.cost += step.costs[number]

    def _outside(self, tensor: TensorId, segment: int, trigger: int) -> TensorId:
        """What is not computed twice in any case: constants as they are, and through a gate what is not."""
        return tensor if self.found.is_constant[tensor[0]] else (self._gate(tensor, segment, trigger), 0)

    def _gate(self, tensor: TensorId, segment: int, trigger: int) -> int:
        key = (tensor, segment)
        if key not in self.gated:
            sizes = self.step.sizes[tensor[0]]
            name = f"{self.scope}/segment_{segment}/gate_{len(self.gated)}"
            gate = self.step.add(name, "Identity", [tensor], [trigger], sizes[tensor[1] : tensor[1] + 1])
            self.gated[key] = gate
            self.out.gates.append(gate)
        return self.gated[key]

    def _trigger(self, segment: int) -> int:
        """What the gates of SEGMENT wait for: the gradients that its users need, and the users behind it."""
        awaited = (*self._gradients_into(self.users[segment]), *self._users_behind(segment))
        waits = [n for n in awaited if self.step.is_live(n) and not self.behind[n] >> segment & 1]
        trigger = self.step.add(f"{self.scope}/segment_{segment}/trigger", "NoOp", (), dict.fromkeys(waits), ())
        self.out.triggers[segment] = trigger
        return trigger

    def _users_behind(self, segment: int) -> Iterable[int]:
        """The users of the next segment that is computed again."""
        later = [other for other in self.users if other > segment]
        return self.users[min(later)] if later else ()

    def _behind(self) -> list[int]:
        """For each backward node the segments whose users it is one of or depends on; bit by bit."""
        marks: dict[int, int] = {}
        for segment, users in self.users.items():
            for user in users:
                marks[user] = marks.get(user, 0) | 1 << segment
        return self.found.step.behind(marks, self.found.backward)

    def _gradients_into(self, users: Iterable[int]) -> Iterable[int]:
        """The backward nodes that bring gradients to USERS, or to what reads those that none comes into."""
        step, carries_gradient = self.found.step, self.found.carries_gradient
        seen: set[int] = set()
        pending = list(users)
        while pending:
            user = pending.pop()
            if user in seen:
                continue
            seen.add(user)
            yield from (p for p, _ in step.reads[user] if carries_gradient[p])
            if not carries_gradient[user]:
                pending.extend(self.found.backward_readers[user])


def _segments(count: int, cuts: Sequence[int]) -> list[int]:
    """For each position the number of its segment."""
    out: list[int] = []
    for segment, end in enumerate([*(cut + 1 for cut in cuts), count]):
        out += [segment] * (end - len(out))
    return out
