"""Gradients held against differences of what is differentiated: by none of the code that makes them."""

from __future__ import annotations

import random
from array import array
from collections.abc import Mapping, Sequence

from gdsurgeon.analysis.queries.side_effects import ops_in_functions
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.claims import Gradients
from gdsurgeon.errors import NotValidatedError, ValidationError, quoted
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64
from gdsurgeon.ops.kinds import is_random
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import Feeds, Subject, SubjectOptions
from gdsurgeon.proof.trial import EDITED, ORIGINAL, TrialState, nodes_of
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor

MOST_SOURCES = 3
LARGEST, OTHERS = 4, 12
"""Elements of a source that are moved: those of the largest derivative, and some of the rest."""
STEP = 1e-2
"""By which part of their mean size."""
ROUGH, PRECISE = 0.1, 2e-3
"""Differences of two steps, or to two sides, that are farther from each other say nothing; those that say something
are so exact at best."""
_CODES: dict[int, str] = {FLOAT32: "f", FLOAT64: "d"}
_EPSILON: dict[int, float] = {FLOAT32: 1.2e-7, FLOAT64: 2.3e-16}
_OWN_GRADIENT = frozenset("CustomGradient PreventGradient StopGradient".split())
"""Ops whose gradient is on purpose not their derivative, beside those of which the names begin with FakeQuant."""


def check_differences(graph: Graph, claim: Gradients, weights: bool, state: TrialState) -> None:
    """Moves a few elements of a few sources of GRAPH a little, and holds the change of the targets against CLAIM.

    A source of which two steps say two things (at a kink, in the noise) says nothing. With WEIGHTS the targets must
    not change with one of which there is no gradient.

    Raises:
        ValidationError: a gradient is not the derivative, or there is none where there is a derivative.
    """
    if _is_another(graph, claim):
        return
    pairs: list[tuple[str, str]] = list(zip(claim.xs, claim.names, strict=True))
    chosen = list(dict.fromkeys([*pairs[:1], *pairs[-1:], *pairs[len(pairs) // 2 :]]))[:MOST_SOURCES]
    if weights:
        chosen += [(name, "") for name in _left_out(graph, claim)[:MOST_SOURCES]]
    try:
        differences = _Differences(state.executor, claim, _feeds(graph, claim, state))
    except (Refused, NotValidatedError):
        return
    for source, name in chosen:
        try:
            found = differences.of(source, name, state.fed[EDITED])
        except (Refused, TypeError):
            continue
        if found is not None:
            what = f"{quoted(name)} is not the gradient" if name else "there is no gradient"
            raise ValidationError(
                f"{what} for {quoted(source)}: if a few of its elements change, the targets change by "
                f"{found[0]:.4g}" + (f", but the gradient predicts {found[1]:.4g}" if name else ""),
                code="differs",
                facts={"node": source, "name": name or None},
            )


def _feeds(graph: Graph, claim: Gradients, state: TrialState) -> Feeds:
    """What the original was fed, and what the targets and the gradients that come in want besides."""
    executor, fed = state.executor, state.fed[ORIGINAL]
    plan = plan_with(executor.settings, graph, nodes_of([*claim.ys, *claim.grad_ys]))
    subject = Subject(executor, ORIGINAL, graph, plan=plan, options=SubjectOptions("differences", defaults=False))
    if {*subject.feedable} <= fed.keys():
        return fed
    feeds, runs = subject.start(0, {name: value for name, value in fed.items() if name in subject.feedable})
    subject.wait(runs)
    subject.finish(0)
    return fed | feeds


def _left_out(graph: Graph, claim: Gradients) -> list[str]:
    """The floating constants of more than one element on which the targets depend, and of which none is a source."""
    topology = topology_of(graph)
    above = topology.upstream([topology.id_of(graph.tensor(name).node) for name in claim.ys], control=False)
    nodes = [topology.node(number) for number in topology.with_ops(["Const"]) if above[number]]
    headers = {node.name: constant_header(node) for node in nodes if node.name not in claim.xs}
    return [name for name, found in headers.items() if found and found.dtype in _CODES and found.elements > 1]


def _is_another(graph: Graph, claim: Gradients) -> bool:
    """Whether gradients need not be derivatives, on purpose, or the targets are drawn anew in each run."""
    topology = topology_of(graph)
    above = topology.upstream([topology.id_of(graph.tensor(name).node) for name in claim.ys])
    nodes = [topology.node(number) for number in topology.numbers() if above[number]]
    ops = {op for node in nodes for op in (node.op, *ops_in_functions(node))}
    marked = any(node.has_attr("_gradient_op_type") for node in nodes)
    return marked or any(op in _OWN_GRADIENT or op.startswith("FakeQuant") or is_random(op) for op in ops)


class _Differences:
    """The targets' sum, weighted by the gradients that come in, as a function of one source."""

    def __init__(self, executor: Executor, claim: Gradients, feeds: Feeds) -> None:
        self.executor, self.claim, self.feeds = executor, claim, feeds

    def of(self, source: str, name: str, edited: Feeds) -> tuple[float, float] | None:
        """What a difference says and what the gradient NAME says, where these are two things."""
        (x,) = self._values([source], {})
        values = _numbers(x)
        slopes: Sequence[float] = _numbers(self._run(EDITED, edited, [name])[0]) if name else [0.0] * len(values)
        if len(values) != len(slopes) or not values:
            return None
        moves = _moves(slopes)
        size = sum(abs(values[place]) for place in moves) / len(moves)
        step = STEP * max(size, 1e-3)
        said = sum(slopes[place] * sign for place, sign in moves.items())
        at = {part: self._sum({source: _moved(x, moves, part * step)}) for part in (-1.0, -0.25, 0.0, 0.25, 1.0)}
        sums = {part: total for part, (total, _) in at.items()}
        wide, narrow = (sums[1.0] - sums[-1.0]) / (2 * step), (sums[0.25] - sums[-0.25]) / (0.5 * step)
        sides = (sums[0.25] - sums[0.0]) / (0.25 * step), (sums[0.0] - sums[-0.25]) / (0.25 * step)
        noise = 64 * _EPSILON[x.dtype] * at[0.0][1] / step
        both = max(abs(wide), abs(narrow), abs(said))
        is_smooth = max(abs(wide - narrow), abs(sides[0] - sides[1]), noise) <= ROUGH * both
        wrong = abs(said - narrow) > 4 * (abs(wide - narrow) + noise) + PRECISE * both
        return (narrow, said) if is_smooth and wrong else None

    def _sum(self, given: Feeds) -> tuple[float, float]:
        tensors = [*self.claim.ys, *self.claim.grad_ys]
        found = [_numbers(value) for value in self._values(tensors, given)]
        ys, weights = found[: len(self.claim.ys)], found[len(self.claim.ys) :]
        terms = [a * b for y, w in zip(ys, weights, strict=True) for a, b in zip(y, w, strict=True)] if weights else [
            a for y in ys for a in y
        ]  # fmt: skip
        return sum(terms), sum(map(abs, terms))

    def _values(self, tensors: Sequence[str], given: Feeds) -> list[Tensor]:
        return self._run(ORIGINAL, self.feeds | given, tensors)

    def _run(self, key: str, feeds: Feeds, tensors: Sequence[str]) -> list[Tensor]:
        unfed = list(dict.fromkeys(name for name in tensors if name not in feeds))
        if unfed:
            self.executor.wait(self.executor.run(key, "differences", feeds, unfed))
        places = {name: Result("differences", place) for place, name in enumerate(unfed)}
        return [self.executor.fetched(places[name] if name in places else feeds[name]) for name in tensors]


def _numbers(tensor: Tensor) -> array[float]:
    """The elements. Raises TypeError where these are no floats of the usual sizes."""
    if tensor.dtype not in _CODES or isinstance(tensor.data, list):
        raise TypeError("neither float32 nor float64")
    out: array[float] = array(_CODES[tensor.dtype])
    out.frombytes(tensor.data)
    return out


def _moved(tensor: Tensor, moves: Mapping[int, float], step: float) -> Tensor:
    values = _numbers(tensor)
    for place, sign in moves.items():
        values[place] += step * sign
    return Tensor(tensor.dtype, tensor.shape, values.tobytes())


def _moves(slopes: Sequence[float]) -> dict[int, float]:
    """Some elements, and to which side each is moved: those of the largest slope uphill, others either way."""
    chance = random.Random(len(slopes))
    largest = sorted(range(len(slopes)), key=lambda place: -abs(slopes[place]))[:LARGEST]
    others = chance.sample(range(len(slopes)), min(OTHERS, len(slopes)))
    moves = {place: chance.choice((-1.0, 1.0)) for place in others}
    return moves | {place: 1.0 if slopes[place] >= 0 else -1.0 for place in largest}
