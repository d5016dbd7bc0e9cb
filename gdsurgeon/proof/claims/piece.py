"""The proof of a piece that takes another's place: both on inputs that the graph around them would seldom give."""

from __future__ import annotations

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.claims import SamePiece
from gdsurgeon.errors import NotValidatedError, ValidationError, printable
from gdsurgeon.feeds.input_spec import input_seed
from gdsurgeon.feeds.make.numbers import numbers
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.dtypes import FLOAT16, FLOAT32, FLOAT64
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.comparing import EDITED, ORIGINAL, Comparing, initialize
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.proof import OutputProof, Proof
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.select import is_constant

_FLOATS = (FLOAT16, FLOAT32, FLOAT64)
MOST_INPUTS = 32


class PieceProof(Comparing):
    """What the piece reads is replaced, in both graphs, by numbers of either sign and some size.

    Only the tensors that depend on none of the others that it reads: those are computed from them, as they would be.
    Where the graph does not let that be done (in a loop, say), the outputs of the whole graph are what is compared.
    """

    def __init__(self, executor: Executor, change: Change, overrides: Overrides, claim: SamePiece) -> None:
        super().__init__(executor, change, overrides)
        self.claim = claim
        self.proof = Proof("run")
        self.proof.rtol, self.proof.atol = claim.rtol, claim.atol
        self.incomparable = {}
        self.inputs = self._first_inputs()
        wanted = [*self.inputs, *(old for old, _ in claim.outputs)]
        nodes = dict.fromkeys(parse_tensor(tensor).node for tensor in wanted)
        self.source = Subject(executor, ORIGINAL, self.original_graph, outputs=list(nodes), overrides=self.overrides)
        self.pairs = [pair for pair in claim.outputs if self.source.place(pair[0]) is not None]

    def _first_inputs(self) -> list[str]:
        """The inputs of the piece that depend on something, and on none of its other inputs."""
        graph = self.original_graph
        topology = Topology(graph)
        constant = is_constant(topology)
        numbers_of = {tensor: topology.id_of(graph[parse_tensor(tensor).node]) for tensor in self.claim.inputs}
        varying = [tensor for tensor, number in numbers_of.items() if not constant[number]]
        if len(varying) > MOST_INPUTS:
            return []
        out: list[str] = []
        for tensor in varying:
            above = topology.upstream([numbers_of[tensor]])
            others = {numbers_of[other] for other in varying} - {numbers_of[tensor]}
            if not any(above[number] for number in others):
                out.append(tensor)
        return out

    def run(self) -> Proof:
        self.load()
        available = all(self.source.place(tensor) is not None for tensor in self.inputs)
        if not self.inputs or not self.pairs or not available or self.source.plan.draws or self.source.plan.random:
            return self.proof
        initialize(self.source, self.name)
        for sample in range(self.executor.settings.samples):
            if not self._ran(sample):
                break
            self.proof.samples = sample + 1
        self.conclude()
        if self.proof.samples:
            names = ", ".join(printable(tensor) for tensor in self.inputs[:3])
            more = ", ..." if len(self.inputs) > 3 else ""
            self.proof.statement = f"edited(x, {names}{more} := any) = original(x, the same)"
        return self.proof

    def _ran(self, sample: int) -> bool:
        """Runs and compares one sample; False where the original does not take such values."""
        try:
            feeds, runs = self.source.start(sample, {})
            for run in runs:
                self.executor.wait(run)
            fed: Feeds = dict(feeds)
            for tensor in self.inputs:
                fed[tensor] = self._replacement(sample, tensor)
            self.executor.wait(self.executor.run(ORIGINAL, "piece", fed, [old for old, _ in self.pairs]))
        except (Refused, NotValidatedError):
            return False
        try:
            summary = self.executor.wait(self.executor.run(EDITED, "other piece", fed, [new for _, new in self.pairs]))
        except Refused as refused:
            raise ValidationError(f"the result does not run: {printable(refused.text)}") from refused
        pending = self.executor.compare(
            "piece",
            "other piece",
            [(i, i) for i in range(len(self.pairs))],
            rtol=self.claim.rtol,
            atol=self.claim.atol,
        )
        outputs = [
            OutputProof(old, new, info.dtype, info.shape, comparison=comparison)
            for (old, new), info, comparison in zip(
                self.pairs, summary.outputs, self.executor.comparisons(pending), strict=True
            )
        ]
        self.proof.note(outputs)
        self.proof.statement = f"edited = original, {', '.join(map(printable, self.inputs[:3]))} being any numbers,"
        self.judge(outputs, sample)
        self.proof.outputs = outputs
        for name in ("piece", "other piece"):
            self.executor.drop(name)
        self.source.finish(sample)
        return True

    def _replacement(self, sample: int, tensor: str) -> Tensor | Result:
        """Numbers of either sign in the place of floats; anything else as it is."""
        place = self.source.place(tensor)
        assert place is not None
        result = self.source.result(sample, place[0])
        value = self.executor.tensor(result, place[1])
        if value.dtype not in _FLOATS:
            return Result(result, place[1])
        seed = input_seed(self.executor.settings.seed + sample, f"piece {tensor}")
        return Tensor(value.dtype, value.shape, numbers(value.dtype, value.count, 0, seed, wide=True))
