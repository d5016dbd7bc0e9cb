"""The reverse walk of backpropagation over a tf.Graph, with the gradient functions that TensorFlow has registered.

As TensorFlow's eager tape goes about it: only what lies between the targets and the sources is walked; the uses of
each tensor are counted, and an operation is differentiated when the gradients of all its outputs have come. Entries
are taken from a queue, and not from a stack as the tape does it: that is the order of `tf.gradients`, so that sums of
three and more partial gradients are the same bits.

Runs where TensorFlow has been imported.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.ops.kinds import CALLS, LOOPS
from gdsurgeon.runtime.differentiation.modules import GraphOperation, GraphTensor, Modules

TAKES_NONE: Mapping[str, frozenset[int]] = {
    "SoftmaxCrossEntropyWithLogits": frozenset((1,)),
    "SparseSoftmaxCrossEntropyWithLogits": frozenset((1,)),
    "FusedBatchNorm": frozenset((1, 2, 3, 4)),
    "FusedBatchNormV2": frozenset((1, 2, 3, 4)),
    "FusedBatchNormV3": frozenset((1, 2, 3, 4, 5)),
}
"""Outputs of ops whose gradient functions accept None for a gradient that does not exist; others get zeros."""


class NoGradient(NamedTuple):
    """An operation on the way that cannot be differentiated: its name, its op, the custom gradient that it asks for."""

    node: str
    op: str
    reason: str


class Path(NamedTuple):
    """What lies between sources and targets.

    Attributes:
        operations: in the order in which they are found, going back from the targets.
        members: the same as a set.
    """

    operations: list[GraphOperation]
    members: set[GraphOperation]


def path(modules: Modules, ys: Sequence[GraphTensor], xs: Sequence[GraphTensor]) -> Path:
    """The operations through which a gradient may flow from YS back to XS."""
    reached: set[GraphOperation] = set()
    forward = deque(x.op for x in xs)
    while forward:
        operation = forward.popleft()
        if operation not in reached:
            reached.add(operation)
            for output in operation.outputs:
                if modules.is_trainable(output):
                    forward.extend(output.consumers())
    found: list[GraphOperation] = []
    backward = deque(y.op for y in ys)
    while backward:
        operation = backward.popleft()
        if operation in reached:
            reached.remove(operation)
            found.append(operation)
            backward.extend(read.op for read in operation.inputs)
    return Path(found, set(found))


def without_gradient(modules: Modules, between: Path, xs: Sequence[GraphTensor]) -> tuple[list[NoGradient], list[str]]:
    """The operations of a path that have no gradient function, and (apart) the function calls that have none."""
    missing: list[NoGradient] = []
    calls: list[str] = []
    stop = _stop(between, xs)
    for operation in between.operations:
        if operation in stop:
            continue
        if operation.type in LOOPS:  # whose gradient functions need to know more of a loop than a GraphDef says
            missing.append(NoGradient(operation.name, operation.type, ""))
            continue
        try:
            modules.gradient_function(operation)
        except LookupError:
            if operation.type in CALLS or modules.is_function(operation.graph, operation.type):
                calls.append(operation.name)
            else:
                custom = operation.node_def.attr["_gradient_op_type"].s.decode("utf-8", "replace")
                missing.append(NoGradient(operation.name, operation.type, custom))
    return missing, calls


def _stop(between: Path, xs: Sequence[GraphTensor]) -> set[GraphOperation]:
    """The sources that depend on no other source: their operations are not differentiated."""
    return {x.op for x in xs if not any(read.op in between.members for read in x.op.inputs)}


def upstream(between: Path, operations: Iterable[GraphOperation]) -> set[GraphOperation]:
    """OPERATIONS and those of a path that they depend on."""
    found: set[GraphOperation] = set()
    pending = list(operations)
    while pending:
        operation = pending.pop()
        if operation in between.members and operation not in found:
            found.add(operation)
            pending.extend(read.op for read in operation.inputs)
    return found


class ReverseWalk:
    """One backward pass.

    Args:
        modules: the parts of TensorFlow in use, see `gdsurgeon.runtime.differentiation.modules.Modules`.
        between: what to walk over.
        xs: the sources.
        missing: names of the operations without a gradient function.

    Attributes:
        stopped: the operations among MISSING that a gradient has come to: it goes no further.
    """

    def __init__(
        self, modules: Modules, between: Path, xs: Sequence[GraphTensor], missing: Collection[str] = ()
    ) -> None:
        self._modules = modules
        self._between = between
        self._xs = xs
        self._missing = frozenset(missing)
        self.stopped: list[GraphOperation] = []
        self._stop = _stop(between, xs)
        self._pending: Counter[GraphOperation] = Counter(
            read.op for operation in between.operations for read in operation.inputs if read.op in between.members
        )
        self._partial: dict[
            Hashable, list[GraphTensor]
        ] = {}  # gradients that have come, by the reference of the tensor
        self._whole: dict[
            Hashable, GraphTensor
        ] = {}  # sums of them, of the outputs of operations that were walked over

    def run(self, ys: Sequence[GraphTensor], grad_ys: Sequence[GraphTensor]) -> list[GraphTensor | None]:
        """The gradient of the sum of GRAD_YS * YS with respect to each source; None where none flows.

        A gradient is a tensor or IndexedSlices.
        """
        for y, gradient in zip(ys, grad_ys, strict=True):
            self._partial.setdefault(y.ref(), []).append(gradient)
        first = dict.fromkeys(y.op for y in ys)
        ready = deque(op for op in first if op in self._between.members and not self._pending[op])
        while ready:
            operation = ready.popleft()
            for read, found in zip(tuple(operation.inputs), self._differentiate(operation), strict=False):
                if found is not None:
                    self._partial.setdefault(read.ref(), []).append(found)
            for producer in self._producers(operation):
                self._pending[producer] -= 1
                if not self._pending[producer]:
                    ready.append(producer)
        return [self._whole.get(x.ref()) for x in self._xs]

    def _producers(self, operation: GraphOperation) -> list[GraphOperation]:
        return [read.op for read in operation.inputs if read.op in self._between.members]

    def _differentiate(self, operation: GraphOperation) -> list[GraphTensor | None]:
        """The gradients with respect to the inputs of OPERATION."""
        reads = tuple(operation.inputs)
        given = [self._sum(output) for output in operation.outputs]
        if operation in self._stop or all(gradient is None for gradient in given):
            return [None] * len(reads)
        if operation.name in self._missing:
            self.stopped.append(operation)
            return [None] * len(reads)
        function = self._modules.gradient_function(operation)
        if function is None:  # said to be not differentiable
            return [None] * len(reads)
        takes_none = TAKES_NONE.get(operation.type, frozenset())
        for index, output in enumerate(operation.outputs):
            if given[index] is None and index not in takes_none and self._modules.is_trainable(output):
                given[index] = self._modules.zeros_like(output)
        with self._modules.name_scope(f"{operation.name}_grad"):
            found = function(operation, *given)
        gradients = list(found) if isinstance(found, (list, tuple)) else [found]
        for read, gradient in zip(reads, gradients, strict=False):
            self._modules.merge_shape(gradient, read)
        return gradients

    def _sum(self, output: GraphTensor) -> GraphTensor | None:
        """The gradient of an output after all its partial gradients have come; None if there are none."""
        partial = self._partial.pop(output.ref(), None)
        if not partial:
            return None
        whole = partial[0] if len(partial) == 1 else self._modules.add(partial)
        self._whole[output.ref()] = whole
        return whole
