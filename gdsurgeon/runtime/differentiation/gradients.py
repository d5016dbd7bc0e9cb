"""Makes the nodes of a backward pass with the gradient functions that TensorFlow's Python package has registered.

Runs in the worker process, where TensorFlow has been imported.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.ops.kinds import LOOPS
from gdsurgeon.runtime.differentiation.modules import GraphTensor, Modules, TensorGraph
from gdsurgeon.runtime.differentiation.reverse_walk import (
    NoGradient,
    ReverseWalk,
    path,
    upstream,
    without_gradient,
)

if TYPE_CHECKING:
    from tensorflow.core.framework.graph_pb2 import GraphDef

SEED = "grad_ys_"
"""Beginning of the names, under the scope, of the nodes that are the gradients of the targets, as TensorFlow has it."""

_MOST_UIDS = 1 << 20
_graphs = itertools.count()


class Derivation(NamedTuple):
    """A request for gradients: the outputs to differentiate, and the tensors to differentiate by.

    Attributes:
        ys: tensors (``node`` or ``node:1``), whose sum is differentiated.
        xs: tensors to differentiate by.
        grad_ys: the incoming gradient of each of YS; () for ones.
        scope: the name scope for the new nodes.
        own: by the reverse walk, where all function calls on the way have gradient functions; else (and where they
            do not) by `tf.compat.v1.gradients`.
    """

    ys: tuple[str, ...]
    xs: tuple[str, ...]
    grad_ys: tuple[str, ...] = ()
    scope: str = "gradients"
    own: bool = True


class Backward(NamedTuple):
    """A backward pass.

    Attributes:
        graph: a serialised GraphDef: the nodes that are new, those that were there and have become others, and the
            functions that are new.
        changed: names of those that were there.
        results: for each source the tensor that is its gradient, or None where none flows.
        missing: operations on the way that have no gradient; where there are some, nothing else is here.
        own: whether it was made by the reverse walk; else by tf.compat.v1.gradients.
        calls: the function calls on the way that have no gradient function of their own.
    """

    graph: bytes = b""
    changed: tuple[str, ...] = ()
    results: tuple[str | None, ...] = ()
    missing: tuple[NoGradient, ...] = ()
    own: bool = True
    calls: tuple[str, ...] = ()


def derive(tf: ModuleType, data: bytes | bytearray | memoryview, wanted: Derivation) -> Backward:
    """Makes the nodes of a backward pass.

    Args:
        tf: the package.
        data: a serialised GraphDef; the values of large constants are not needed, a Placeholder does for them.
        wanted: what of it is to be differentiated.
    """
    v1 = tf.compat.v1
    graph_def = v1.GraphDef.FromString(bytes(data))
    modules = Modules(tf)
    _pass_function_numbers(modules, graph_def)
    names = _own_function_names(graph_def)
    _rename_functions(graph_def, names)
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
        targets, sources, given = ([_tensor(graph, name) for name in names] for names in wanted[:3])
        before = graph.as_graph_def()
        between = path(modules, targets, sources)
        missing, calls = without_gradient(modules, between, sources)
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
                walk = ReverseWalk(modules, between, sources, [item.node for item in missing])
                found = walk.run(targets, first)
            if walk.stopped:
                behind = {operation.name for operation in upstream(between, walk.stopped)}
                return Backward(missing=tuple(item for item in missing if item.node in behind))
        else:
            found = v1.gradients(targets, sources, given or None, name=wanted.scope)
            opened = wanted.scope + "/"
        with v1.name_scope(opened):
            results = [_dense(tf, gradient) for gradient in found]
    made = _difference(v1, graph, before, results, own=own, calls=calls)
    if not names:
        return made
    added = v1.GraphDef.FromString(made.graph)
    _rename_functions(added, {new: old for old, new in names.items()})
    return made._replace(graph=added.SerializeToString())


def _tensor(graph: TensorGraph, name: str) -> GraphTensor:
    return graph.get_tensor_by_name(name if ":" in name else name + ":0")


def _dense(tf: ModuleType, gradient: GraphTensor | None) -> GraphTensor | None:
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def _pass_function_numbers(modules: Modules, graph_def: GraphDef) -> None:
    """Has TensorFlow number new functions behind those of the graph: it looks at no names that are taken."""
    ends = [re.search(r"_(\d+)$", function.signature.name) for function in graph_def.library.function]
    highest = max((int(end[1]) for end in ends if end is not None), default=0)
    while highest and highest < _MOST_UIDS and modules.uid() <= highest:
        pass


def _own_function_names(graph_def: GraphDef) -> dict[str, str]:
    """Names for the functions of a graph that no other graph of this process has had.

    TensorFlow keeps one library for all of them, in which it puts what it makes of a loop, under a name that follows
    from the loop's. The first graph keeps its names.
    """
    number = next(_graphs)
    return {f.signature.name: f"{f.signature.name}_of_{number}" for f in graph_def.library.function if number}


def _rename_functions(graph_def: GraphDef, names: Mapping[str, str]) -> None:
    """Gives functions other names, wherever they are called or passed on."""
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


def _difference(
    v1: ModuleType,
    graph: TensorGraph,
    before: GraphDef,
    results: Sequence[GraphTensor | None],
    *,
    own: bool,
    calls: Sequence[str],
) -> Backward:
    """What has come into GRAPH since it was BEFORE, as far as RESULTS depend on it."""
    after = graph.as_graph_def()
    old = {node.name: node for node in before.node}
    new = {node.name: node for node in after.node}
    names = [None if tensor is None else tensor.name.removesuffix(":0") for tensor in results]
    changed = [name for name, node in old.items() if new[name] != node]
    wanted: set[str] = set()
    pending = [name.partition(":")[0] for name in names if name is not None]
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending.extend(text.lstrip("^").partition(":")[0] for text in new[name].input)
    out = v1.GraphDef()
    for node in after.node:
        if node.name in wanted and (node.name not in old or node.name in changed):
            out.node.add().CopyFrom(node)
    known = {function.signature.name for function in before.library.function}
    for function in after.library.function:
        if function.signature.name not in known:
            out.library.function.add().CopyFrom(function)
    return Backward(
        out.SerializeToString(),
        tuple(name for name in changed if name in wanted),
        tuple(names),
        own=own,
        calls=tuple(calls),
    )
