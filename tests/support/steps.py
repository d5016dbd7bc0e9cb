"""Tiny steps, node by node or any."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from gdsurgeon.gradients.checkpointing.peak import Peak, peak
from gdsurgeon.gradients.checkpointing.step import StepGraph, TensorSize

Read = str | tuple[str, int]


class Maker:
    """A step, node by node. Sizes are bytes of the outputs."""

    def __init__(self) -> None:
        self.step = StepGraph()

    def __call__(
        self,
        name: str,
        op: str,
        reads: Sequence[Read] = (),
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
    for number in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from(OPS)) if number else "Placeholder"
        reads: list[tuple[int, int]] = []
        if op not in ("Placeholder", "Const"):
            producers = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=3))
            reads = [(p, draw(st.integers(0, len(step.sizes[p]) - 1))) for p in producers]
        if op in ("Identity", "Reshape"):
            sizes = [step.sizes[reads[0][0]][reads[0][1]]]
        elif op == "IdentityN":
            sizes = [step.sizes[p][port] for p, port in reads]
        else:
            sizes = [TensorSize(None, n) for n in draw(st.lists(st.integers(0, 5), min_size=1, max_size=2))]
        waits = draw(st.lists(st.integers(0, number - 1), max_size=1)) if number else []
        step.add(f"n{number}", op, reads, waits, sizes, draw(st.sampled_from((0.0, 1e6))))
    return step
