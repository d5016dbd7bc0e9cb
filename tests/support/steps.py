"""Tiny steps, node by node or any."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from gdsurgeon.gradients.step_graph import Peak, StepGraph, TensorSize, peak
from support.drawing import below, pick, pick_some


class Maker:
    """A step, node by node. Sizes are bytes of the outputs."""

    def __init__(self) -> None:
        self.step = StepGraph()

    def __call__(
        self,
        name: str,
        op: str,
        reads: Sequence[str | tuple[str, int]] = (),
        sizes: Sequence[int] = (100,),
        waits: Sequence[str] = (),
        cost: float = 0.0,
    ) -> int:
        pairs = [(self.step.index[r], 0) if isinstance(r, str) else (self.step.index[r[0]], r[1]) for r in reads]
        outputs = [TensorSize((size,), size) for size in sizes]
        return self.step.add(name, op, pairs, [self.step.index[w] for w in waits], outputs, cost)

    def peak(self, *kept: str, threads: int = 1) -> Peak:
        return peak(self.step, [self.step.index[name] for name in kept], threads)


OPS = ("Custom", "Relu", "AddN", "Identity", "Reshape", "IdentityN", "Placeholder", "Const")


@st.composite
def steps(draw: st.DrawFn) -> StepGraph:
    step = StepGraph()
    for number in range(1 + draw(below(12))):
        op = pick(draw, OPS) if number else "Placeholder"
        reads: list[tuple[int, int]] = []
        if op not in ("Placeholder", "Const"):
            producers = pick_some(draw, range(number), 3, least=1)
            reads = [(p, draw(below(len(step.sizes[p])))) for p in producers]
        if op in ("Identity", "Reshape"):
            sizes = [step.sizes[reads[0][0]][reads[0][1]]]
        elif op == "IdentityN":
            sizes = [step.sizes[p][port] for p, port in reads]
        else:
            sizes = [TensorSize(None, n) for n in pick_some(draw, range(6), 2, least=1)]
        waits = pick_some(draw, range(number), 1) if number else []
        step.add(f"n{number}", op, reads, waits, sizes, 1e6 * draw(below(2)))
    return step
