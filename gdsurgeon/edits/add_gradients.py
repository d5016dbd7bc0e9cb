"""add-gradients: adds a backward pass to a frozen graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

from gdsurgeon.compare.intent import Altered, Intent, made
from gdsurgeon.edits.claims import EditResult, Gradients
from gdsurgeon.edits.decorator import edit, of_tensors
from gdsurgeon.errors import EditError, Line, UsageError, quoted
from gdsurgeon.gradients.backward_pass import BackwardPass, backward_pass, skeleton
from gdsurgeon.gradients.checkpoints import MODES, Checkpointed, Checkpoints, checkpointed, journal_of, told_of
from gdsurgeon.gradients.request import SCOPE, GradientRequest, tensors_named, wanted_gradients
from gdsurgeon.gradients.sums import many_partial_gradients, with_early_sums
from gdsurgeon.gradients.tensor_sizes import Sizes, tensor_sizes
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import CONTROL, format_input, parse_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.runtime.differentiator import Differentiator
from gdsurgeon.text import MIB
from gdsurgeon.wire.protos import GraphDef, NodeDef

UNCONNECTED = ("error", "zero")
MOST_THREADS = 64
MOST_BUDGET = 1 << 40
"""MiB; more is no bound at all."""
XLA = "_XlaMustCompile"


@edit(ys=of_tensors, xs=of_tensors, grad_ys=of_tensors, checkpoints=of_tensors)
def add_gradients(
    graph: Graph,
    ys: Sequence[str | Output],
    xs: Sequence[str | Output] = (),
    *,
    weights: bool = False,
    grad_ys: Sequence[str | Output] = (),
    scope: str = "",
    names: Sequence[str] = (),
    unconnected: str = "error",
    checkpoints: str | Sequence[str] = "none",
    budget: float | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    threads: int | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    differentiator: Differentiator | None = None,
) -> EditResult:
    """Adds nodes that compute the gradient of the sum of YS with respect to each of XS.

    Args:
        graph: changed in place.
        ys, xs: floating tensors; XS are inputs, activations, constants.
        weights: take every floating constant of more than one element that YS depend on as a source too; those
            through which no gradient flows are left out.
        grad_ys: what the gradients of YS are, a tensor of the same shape for each; by default ones.
        scope: name scope of the new nodes; it must not be in use. By default ``gradients``, made unique.
        names: of the nodes that hold the results, one for each of XS; by default the node's own name under SCOPE.
        unconnected: of a tensor that YS do not depend on: ``error`` refuses, ``zero`` gives zeros.
        checkpoints: what is kept of the forward pass, while the rest is computed again: ``none`` keeps everything,
            ``speed`` the outputs of convolutions and matrix products, ``memory`` what takes the least memory,
            ``collection`` the nodes with an attr ``_checkpoint``; or the names of tensors.
        budget: MiB that a run may use at most; what is kept is then what takes the least time.
        shapes: of inputs, for what memory a plan takes; open dimensions count as 1.
        threads: TensorFlow's inter-op threads where the plan will run; by default one for each processor here.
        rtol, atol: by how much the gradients may differ from those of tf.gradients in the proof; by default not a bit.
        differentiator: is asked for TensorFlow's gradient functions; by default a process for this call alone.

    Raises:
        EditError: a tensor is not there or not floating, an op on the way has no gradient, a v1 while loop is on the
            way, YS do not depend on one of XS, a name is taken, or no plan stays under the budget; GRAPH is as it was.
        ValidationError, NotValidatedError: TensorFlow's Python package crashes, or is not there.
    """
    zeros = _zeros(unconnected)
    plan = _checkpoints(checkpoints, budget, threads)
    tensors = tensors_named(graph, ys, xs, grad_ys)
    wanted = wanted_gradients(graph, tensors, weights=weights, scope=scope, names=names)
    with nullcontext(differentiator) if differentiator is not None else Differentiator() as asked:
        known = skeleton(graph, wanted.tensors)
        made = backward_pass(graph, wanted, known, asked, zeros=zeros)
        thrifty = _thrifty(graph, known, made, plan, shapes or {}, asked)
    result = _added(graph, made, plan, thrifty, [*_warnings(known, plan, thrifty.found), *thrifty.warnings])
    if not scope and made.wanted.scope != SCOPE:
        result.notes.insert(
            0, f"the new nodes are in the scope {quoted(made.wanted.scope)}, because {quoted(SCOPE)} is in use"
        )
    claim = _claim(made.wanted, differentiator)
    result.claims = (replace(claim, budget=plan.budget, rtol=rtol, atol=atol),)
    return result


def _zeros(unconnected: str) -> bool:
    if unconnected not in UNCONNECTED:
        message = f"gradients of unconnected tensors must be {' or '.join(UNCONNECTED)}, not {quoted(unconnected)}"
        raise UsageError(message, code="bad-value", facts={"name": "unconnected", "value": unconnected})
    return unconnected == "zero"


def _added(graph: Graph, made: BackwardPass, plan: Checkpoints, thrifty: _Thrifty, warnings: list[str]) -> EditResult:
    """Puts the nodes into GRAPH; what there is to say of them."""
    served = [y.node for y in made.wanted.ys if not graph.users(y.node)]
    result = EditResult(graft(graph, thrifty.definition), warnings=warnings)
    result.told = told_of(made, thrifty.early, thrifty.found, plan)
    result.facts = {"gradients": journal_of(made, thrifty.early, thrifty.found)}
    text = "is not an output any more, because its gradient uses it; it can still be fetched"
    result.notes = [f"{quoted(y.name)} {text}" for y in served if graph.users(y)]
    return result


def _claim(wanted: GradientRequest, differentiator: Differentiator | None) -> Gradients:
    ys, xs, grad_ys = (tuple(tensor.name for tensor in tensors) for tensors in (wanted.ys, wanted.xs, wanted.grad_ys))
    return Gradients(ys, xs, grad_ys, wanted.names, wanted.scope, differentiator)


def _checkpoints(checkpoints: str | Sequence[str], budget: float | None, threads: int | None) -> Checkpoints:
    threads = threads or min(os.cpu_count() or 1, MOST_THREADS)
    if budget is not None and not budget > 0:
        message = f"a budget must be a positive number of MiB, got {budget:g}"
        raise UsageError(message, code="bad-value", facts={"name": "budget", "value": str(budget)})
    if budget is not None and checkpoints != "none":
        raise UsageError(
            "a budget and checkpoints exclude each other: give only one of them", code="conflicting-options"
        )
    nbytes = None if budget is None else int(min(budget, MOST_BUDGET) * MIB)
    if isinstance(checkpoints, str) and checkpoints in MODES:
        return Checkpoints(checkpoints, budget=nbytes, threads=threads)
    tensors = (checkpoints,) if isinstance(checkpoints, str) else tuple(checkpoints)
    if not tensors:
        message = f"checkpoints must be {', '.join(MODES)} or names of tensors"
        raise UsageError(message, code="missing-argument", name="checkpoints")
    return Checkpoints("", tensors, nbytes, threads)


class _Thrifty(NamedTuple):
    """A backward pass that takes less memory: its definition, the sums that are taken early, the plan it follows."""

    definition: GraphDef
    early: list[str]
    found: Checkpointed | None = None
    warnings: Sequence[str] = ()


def _thrifty(
    graph: Graph,
    known: GraphDef,
    made: BackwardPass,
    plan: Checkpoints,
    shapes: Mapping[str, tuple[int, ...]],
    asked: Differentiator,
) -> _Thrifty:
    """The backward pass MADE with early sums, and as PLAN wants it."""

    def sized(definition: GraphDef) -> Sizes:
        return tensor_sizes(graph, known, definition, shapes, asked)

    sizes = _sizes(made, plan, sized)
    if sizes is None:
        return _Thrifty(made.definition, [])
    definition, early = with_early_sums(made.definition, sizes.tensors, {node.name for node in known.node})
    if not plan.wanted:
        return _Thrifty(definition, early)
    if early:
        sizes = sized(definition)
    found = checkpointed(graph, known, made._replace(definition=definition), plan, sizes)
    return _Thrifty(found.definition, early, found, sizes.warnings)


def _sizes(made: BackwardPass, plan: Checkpoints, sized: Callable[[GraphDef], Sizes]) -> Sizes | None:
    """The sizes of all tensors where they are needed: for a plan, and to find large sums where that can be done."""
    if not plan.wanted and not many_partial_gradients(made.definition):
        return None
    try:
        return sized(made.definition)
    except EditError:  # the graph does not take 1 for every open dimension
        if plan.wanted:
            raise
        return None


def _warnings(known: GraphDef, plan: Checkpoints, found: Checkpointed | None) -> Iterator[str]:
    if found is not None and found.plan.peak.nbytes > found.plain_peak:
        yield Line("these checkpoints need more memory than no checkpoints; {checkpoints} memory finds better ones")
    compiled = [n.name for n in known.node if XLA in n.attr and n.attr[XLA].b] if plan.wanted else []
    if compiled:
        yield (
            f"XLA compiles {quoted(compiled[0])} as a whole; XLA decides which of its inner tensors are "
            "kept or computed again"
        )


class Read(NamedTuple):
    """The inputs of a node as a NodeDef spells them: (node, index) of the data inputs, nodes of the control inputs."""

    data: list[tuple[str, int]]
    controls: list[str]


def read_of(definition: NodeDef) -> Read:
    """The inputs of a NodeDef."""
    out = Read([], [])
    for text in definition.input:
        ref = parse_input(text)
        assert ref is not None  # TensorFlow has written it
        if ref.port == CONTROL:
            out.controls.append(ref.node)
        else:
            out.data.append((ref.node, ref.port))
    return out


def graft(graph: Graph, definition: GraphDef) -> Intent:
    """Adds the nodes of DEFINITION to GRAPH; those whose names are taken take the place of what is there.

    Its functions are added to the library. Everything that a node reads is in GRAPH or in DEFINITION. What the nodes
    are to be is said as DEFINITION has it: no specification knows that.
    """
    intent = Intent()
    nodes: dict[str, Node] = {}
    for function in definition.library.function:
        graph.functions.add(function)
        intent.functions.added.append(function.signature.name)
    for item in definition.node:
        there = graph.find(item.name)
        attrs = {key: value.SerializeToString() for key, value in item.attr.items() if key != COLOCATION_ATTR}
        if there is None:
            intent.altered += _said(item, attrs)
            there = graph.add(item.name, item.op, attrs=attrs, device=item.device)
            intent.added.append(item.name)
        else:
            gone = [key for key in there.attr_keys if key not in item.attr and key != COLOCATION_ATTR]
            stays = [said for said in _said(item, attrs) if said.what not in ("device", "colocated", "attrs")]
            intent.altered += [*stays, *(Altered(item.name, f"attr {key}", None) for key in gone)]
            _become(graph, there, item)
            intent.changed.append(item.name)
        nodes[item.name] = there
    for item in definition.node:
        read = read_of(item)
        node = nodes[item.name]
        graph.set_inputs(node, [Output(graph[name], index) for name, index in read.data])
        if read.controls or node.controls:
            graph.set_controls(node, [graph[name] for name in read.controls])
    return intent


LARGEST_SAID = 1 << 16
"""Bytes of an attr up to which it is said what it holds; of larger ones that they are there."""


def _said(definition: NodeDef, attrs: Mapping[str, bytes]) -> list[Altered]:
    """All that a node is which DEFINITION makes; ATTRS are its attrs, serialised."""
    read = read_of(definition)
    inputs = [format_input(name, index) for name, index in read.data]
    small = {key: value if len(value) <= LARGEST_SAID else None for key, value in attrs.items()}
    return made(definition.name, definition.op, inputs, list(dict.fromkeys(read.controls)), definition.device, small)


def _become(graph: Graph, node: Node, definition: NodeDef) -> None:
    """Gives NODE the op and the attrs of a NodeDef."""
    if node.op != definition.op:
        graph.set_op(node, definition.op)
    for key in node.attr_keys:
        if key not in definition.attr and key != COLOCATION_ATTR:
            graph.set_attr(node, key, None)
    for key, value in definition.attr.items():
        if key != COLOCATION_ATTR and node.attr(key) != value:
            graph.set_attr(node, key, value)
