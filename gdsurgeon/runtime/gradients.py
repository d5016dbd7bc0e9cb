"""Builds the nodes of a backward pass with the gradient functions that TensorFlow's Python package has registered.

The reverse walk follows TensorFlow's eager tape: it visits only operations between the targets and the sources. It
counts the uses of each tensor, and differentiates an operation when the gradients of all its outputs have arrived.
Unlike the tape, it takes operations from a queue and not from a stack. This is the order of `tf.gradients`, so sums of
three and more partial gradients have the same bits.

The worker process imports this module after TensorFlow. Some of the imported functions of TensorFlow are not public and
may move between releases.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import tensorflow as tf
from tensorflow.python.eager.backprop_util import AggregateIndexedSlicesGradients, IsTrainable
from tensorflow.python.framework.ops import get_gradient_function, uid
from tensorflow.python.ops.control_flow_state import ZerosLike
from tensorflow.python.ops.default_gradient import supports_default_grad

from gdsurgeon.ops.kinds import CALLS, LOOPS
from gdsurgeon.runtime.base import SEED, Backward, Derivation, NoGradient

if TYPE_CHECKING:
    from tensorflow import Operation
    from tensorflow import Tensor as GraphTensor
    from tensorflow.core.framework.graph_pb2 import GraphDef

T = TypeVar("T", bound=Hashable)

_MOST_UIDS = 1 << 20
_graphs = itertools.count()

ACCEPTS_NONE: Mapping[str, frozenset[int]] = {
    "SoftmaxCrossEntropyWithLogits": frozenset((1,)),
    "SparseSoftmaxCrossEntropyWithLogits": frozenset((1,)),
    "FusedBatchNorm": frozenset((1, 2, 3, 4)),
    "FusedBatchNormV2": frozenset((1, 2, 3, 4)),
    "FusedBatchNormV3": frozenset((1, 2, 3, 4, 5)),
}
"""Outputs of ops whose gradient functions accept None for a gradient that does not exist; other outputs get zeros."""

Path: TypeAlias = "dict[Operation, None]"
"""The operations between sources and targets, in the order of a walk back from the targets."""


def derive(data: bytes | bytearray | memoryview, wanted: Derivation) -> Backward:
    """Makes the nodes of a backward pass.

    Args:
        data: a serialised GraphDef. A Placeholder may stand for each large constant.
        wanted: the targets and sources.
    """
    v1 = tf.compat.v1
    graph_def = v1.GraphDef.FromString(bytes(data))
    _pass_function_numbers(graph_def)
    names = _unique_function_names(graph_def)
    _rename_functions(graph_def, names)
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
        targets, sources, given = (
            [graph.get_tensor_by_name(name if ":" in name else f"{name}:0") for name in names] for names in wanted[:3]
        )
        before = graph.as_graph_def()
        between = path(targets, sources)
        missing, calls = _without_gradient(between, sources)
        if any(item.op in LOOPS for item in missing) or (missing and calls):
            return Backward(missing=tuple(missing))
        own = wanted.own and not calls
        if own:
            with v1.name_scope(wanted.scope) as opened:
                first = [
                    tf.identity(given[number], name=f"{SEED}{number}")
                    if given
                    else tf.ones(tf.shape(y), y.dtype, name=f"{SEED}{number}")
                    for number, y in enumerate(targets)
                ]
                lacking = {item.node for item in missing}
                found, stopped = reverse_walk(between, targets, first, sources, lacking)
            if stopped:
                above = _closure(stopped, lambda each: _producers(each, between))
                names_above = {operation.name for operation in above}
                return Backward(missing=tuple(item for item in missing if item.node in names_above))
        else:
            found = v1.gradients(targets, sources, given or None, name=wanted.scope)
            opened = wanted.scope + "/"
        with v1.name_scope(opened):
            results = [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in found]
    tensors = tuple(None if tensor is None else tensor.name.removesuffix(":0") for tensor in results)
    added, changed = _difference(before, graph.as_graph_def(), tensors)
    _rename_functions(added, {new: old for old, new in names.items()})
    return Backward(added.SerializeToString(), changed, tensors, own=own, calls=tuple(calls))


# -- the walk ---------------------------------------------------------------------------------------------------------


def path(ys: Sequence[GraphTensor], xs: Sequence[GraphTensor]) -> Path:
    """Returns the operations through which a gradient may flow from `ys` back to `xs`."""

    def consumers(operation: Operation) -> Iterator[Operation]:
        for output in filter(IsTrainable, operation.outputs):
            yield from output.consumers()

    reached = _closure((x.op for x in xs), consumers)
    return _closure((y.op for y in ys if y.op in reached), lambda each: _producers(each, reached))


def _closure(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """Returns `starts` and everything that follows from them, in the order of a walk in breadth."""
    found = dict.fromkeys(starts)
    pending = deque(found)
    while pending:
        for each in following(pending.popleft()):
            if each not in found:
                found[each] = None
                pending.append(each)
    return found


def _producers(operation: Operation, among: Collection[Operation]) -> Iterator[Operation]:
    """Yields those of `among` that make the inputs of an operation, once for each input."""
    return (read.op for read in operation.inputs if read.op in among)


def reverse_walk(
    between: Path,
    ys: Sequence[GraphTensor],
    grad_ys: Sequence[GraphTensor],
    xs: Sequence[GraphTensor],
    missing: Collection[str] = (),
) -> tuple[list[GraphTensor | None], list[Operation]]:
    """Differentiates the sum of `grad_ys` * `ys` with respect to each of `xs`.

    Args:
        between: the operations to walk over.
        ys, grad_ys: the targets and their incoming gradients.
        xs: the sources.
        missing: names of the operations without a gradient function.

    Returns:
        For each source a tensor, IndexedSlices, or None if no gradient reaches it; and the operations of `missing` that
        a gradient reached, where the walk stopped.
    """
    stop = _first_sources(between, xs)
    pending = Counter(producer for operation in between for producer in _producers(operation, between))
    partial: dict[Hashable, list[GraphTensor]] = {}  # gradients that have arrived, by the reference of the tensor
    whole: dict[Hashable, GraphTensor] = {}  # their sums, for the outputs of visited operations
    stopped: list[Operation] = []

    def total(output: GraphTensor) -> GraphTensor | None:
        arrived = partial.pop(output.ref(), None)
        if arrived is None:
            return None
        has_slices = any(isinstance(gradient, tf.IndexedSlices) for gradient in arrived)
        add = AggregateIndexedSlicesGradients if has_slices else tf.add_n
        whole[output.ref()] = arrived[0] if len(arrived) == 1 else add(arrived)
        return whole[output.ref()]

    def differentiate(operation: Operation) -> Sequence[GraphTensor | None]:
        given = [total(output) for output in operation.outputs]
        if operation in stop or all(gradient is None for gradient in given):
            return ()
        if operation.name in missing:
            stopped.append(operation)
            return ()
        function = get_gradient_function(operation)
        if function is None:  # registered as not differentiable
            return ()
        accepts_none = ACCEPTS_NONE.get(operation.type, frozenset())
        for index, output in enumerate(operation.outputs):
            if given[index] is None and index not in accepts_none and IsTrainable(output):
                given[index] = ZerosLike(operation, index) if supports_default_grad(output) else None
        with tf.compat.v1.name_scope(f"{operation.name}_grad"):
            found = function(operation, *given)
        return found if isinstance(found, (list, tuple)) else [found]

    for y, gradient in zip(ys, grad_ys, strict=True):
        partial.setdefault(y.ref(), []).append(gradient)
    ready = deque(op for op in dict.fromkeys(y.op for y in ys) if op in between and not pending[op])
    while ready:
        operation = ready.popleft()
        reads = tuple(operation.inputs)
        for read, gradient in zip(reads, differentiate(operation), strict=False):
            if gradient is None:
                continue
            if isinstance(gradient, tf.Tensor) and read.dtype != tf.resource:
                gradient.set_shape(read.shape)
            partial.setdefault(read.ref(), []).append(gradient)
        for producer in _producers(operation, between):
            pending[producer] -= 1
            if not pending[producer]:
                ready.append(producer)
    return [whole.get(x.ref()) for x in xs], stopped


def _without_gradient(between: Path, xs: Sequence[GraphTensor]) -> tuple[list[NoGradient], list[str]]:
    """Returns the operations of a path without a gradient function, and the names of the function calls without one."""
    missing: list[NoGradient] = []
    calls: list[str] = []
    stop = _first_sources(between, xs)
    for operation in between:
        if operation in stop:
            continue
        if operation.type in LOOPS:  # their gradient functions need facts about a loop that a GraphDef does not have
            missing.append(NoGradient(operation.name, operation.type, ""))
            continue
        try:
            get_gradient_function(operation)
        except LookupError:
            if operation.type in CALLS or operation.graph._is_function(operation.type):
                calls.append(operation.name)
            else:
                custom = operation.node_def.attr["_gradient_op_type"].s.decode("utf-8", "replace")
                missing.append(NoGradient(operation.name, operation.type, custom))
    return missing, calls


def _first_sources(between: Path, xs: Sequence[GraphTensor]) -> set[Operation]:
    """Returns the operations of the sources that depend on no other source; they are not differentiated."""
    return {x.op for x in xs if not any(read.op in between for read in x.op.inputs)}


# -- the graph before and after ---------------------------------------------------------------------------------------


def _pass_function_numbers(graph_def: GraphDef) -> None:
    """Makes TensorFlow number new functions after those of the graph: it does not check which names are used."""
    ends = [re.search(r"_(\d+)$", function.signature.name) for function in graph_def.library.function]
    highest = max((int(end[1]) for end in ends if end is not None), default=0)
    while highest and highest < _MOST_UIDS and uid() <= highest:
        pass


def _unique_function_names(graph_def: GraphDef) -> dict[str, str]:
    """Returns new names for the functions of a graph, which no earlier graph of this process has used.

    TensorFlow has one library for all graphs, and adds the functions that it makes for a loop under names derived from
    the names of the loop's functions. The first graph keeps its names.
    """
    number = next(_graphs)
    return {f.signature.name: f"{f.signature.name}_of_{number}" for f in graph_def.library.function if number}


def _rename_functions(graph_def: GraphDef, names: Mapping[str, str]) -> None:
    """Renames functions, also in all calls and attributes."""
    if not names:
        return
    bodies = [function.node_def for function in graph_def.library.function]
    for node in itertools.chain(graph_def.node, *bodies):
        node.op = names.get(node.op, node.op)
        pending = list(node.attr.values())
        while pending:
            value = pending.pop()
            kind = value.WhichOneof("value")
            for func in (value.func,) if kind == "func" else value.list.func if kind == "list" else ():
                func.name = names.get(func.name, func.name)
                pending.extend(func.attr.values())
    for function in graph_def.library.function:
        function.signature.name = names.get(function.signature.name, function.signature.name)
    for gradient in graph_def.library.gradient:
        gradient.function_name = names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)


def _difference(before: GraphDef, after: GraphDef, results: Sequence[str | None]) -> tuple[GraphDef, tuple[str, ...]]:
    """Returns the new or changed nodes that `results` depend on with all new functions, and the names of the changed
    nodes."""
    old = {node.name: node for node in before.node}
    new = {node.name: node for node in after.node}
    needed = _closure(
        (name.partition(":")[0] for name in results if name is not None),
        lambda name: (text.lstrip("^").partition(":")[0] for text in new[name].input),
    )
    changed = {name: None for name, node in old.items() if name in needed and new[name] != node}
    out = tf.compat.v1.GraphDef()
    out.node.extend(node for name, node in new.items() if name in needed and (name not in old or name in changed))
    known = {function.signature.name for function in before.library.function}
    out.library.function.extend(f for f in after.library.function if f.signature.name not in known)
    return out, tuple(changed)
