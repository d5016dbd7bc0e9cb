"""add-gradients: adds a backward pass to a frozen graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

from gdsurgeon.compare.intent import Intent, Value
from gdsurgeon.edits.claims import EditResult, Gradients
from gdsurgeon.edits.decorator import edit, of_tensors
from gdsurgeon.edits.functions import XLA_MUST_COMPILE as XLA
from gdsurgeon.errors import EditError, Line, UsageError, quoted
from gdsurgeon.gradients.backward_pass import (
    SCOPE,
    BackwardPass,
    Sizes,
    backward_pass,
    skeleton,
    tensor_sizes,
    tensors_named,
    wanted_gradients,
)
from gdsurgeon.gradients.checkpoints import MODES, Checkpointed, Checkpoints, checkpointed, report
from gdsurgeon.gradients.sums import many_partial_gradients, with_early_sums
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import CONTROL, InputRef, format_input, parse_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.runtime.evaluator import Differentiator
from gdsurgeon.text import MIB
from gdsurgeon.values import Tolerance
from gdsurgeon.wire.protos import GraphDef

UNCONNECTED = ("error", "zero")
MOST_THREADS = 64
MOST_BUDGET = 1 << 40
"""MiB; more is no bound at all."""


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
    """Adds nodes that compute the gradients of the sum of `ys` with respect to each of `xs`.

    Args:
        graph: changed in place.
        ys, xs: floating-point tensors; `xs` are inputs, activations or constants.
        weights: also compute the gradients of all floating-point constants of more than one element that `ys` depend
            on, except those through which no gradient flows.
        grad_ys: the incoming gradients, a tensor of the same shape for each of `ys`; by default ones.
        scope: the name scope of the new nodes, which must not be in use. By default ``gradients``, made unique.
        names: the names of the results, one for each of `xs`; by default the name of the node under the scope.
        unconnected: for tensors that `ys` do not depend on: ``error`` raises an error, ``zero`` returns zeros.
        checkpoints: the kept tensors of the forward pass; all others are recomputed: ``none`` keeps everything,
            ``speed`` the outputs of convolutions and matrix products, ``memory`` the tensors that need the least
            memory, ``collection`` the nodes with an attr ``_checkpoint``; or the names of tensors.
        budget: the largest MiB that a run may allocate; the kept tensors are then those that need the least time.
        shapes: shapes of inputs, to compute the memory of a plan; unknown dimensions count as 1.
        threads: TensorFlow's inter-op threads of the runs; by default one for each processor of this machine.
        rtol, atol: the allowed differences from the gradients of tf.gradients in the proof; by default they are equal.
        differentiator: computes TensorFlow's gradient functions; by default a new process.

    Raises:
        EditError: a tensor does not exist or is not floating-point, an op on the path has no gradient, a v1 while loop
            is on the path, `ys` do not depend on one of `xs`, a name is taken, or no plan fits the budget. The graph is
            unchanged.
        ValidationError, NotValidatedError: TensorFlow's Python package crashes, or is not installed.
    """
    if unconnected not in UNCONNECTED:
        message = f"gradients of unconnected tensors must be {' or '.join(UNCONNECTED)}, not {quoted(unconnected)}"
        raise UsageError(message, code="bad-value", name="unconnected", value=unconnected)
    plan = _checkpoints(checkpoints, budget, threads)
    tensors = tensors_named(graph, ys, xs, grad_ys)
    request = wanted_gradients(graph, tensors, weights=weights, scope=scope, names=names)
    with nullcontext(differentiator) if differentiator is not None else Differentiator() as asked:
        known = skeleton(graph, request.tensors)
        made = backward_pass(graph, request, known, asked, zeros=unconnected == "zero")

        def sized(definition: GraphDef) -> Sizes:
            return tensor_sizes(graph, known, definition, shapes or {}, asked)

        made, early, found, warnings = _with_less_memory(graph, known, made, plan, sized)
    request = made.wanted
    outputs = [y.node for y in request.ys if not graph.users(y.node)]
    result = EditResult(graft(graph, made.definition))
    if found is not None and found.plan.peak.nbytes > found.plain_peak:
        line = "these checkpoints need more memory than no checkpoints; {checkpoints} memory finds better ones"
        result.warnings.append(Line(line))
    compiled = [n.name for n in known.node if XLA in n.attr and n.attr[XLA].b] if plan.wanted else []
    if compiled:
        text = f"XLA compiles {quoted(compiled[0])} as a whole; XLA decides which of its inner tensors are "
        result.warnings.append(f"{text}kept or computed again")
    result.warnings += warnings
    result.told, facts = report(made, early, found, plan)
    result.facts = {"gradients": facts}
    if not scope and request.scope != SCOPE:
        text = f"the new nodes are in the scope {quoted(request.scope)}, because {quoted(SCOPE)} is in use"
        result.notes.append(text)
    text = "is not an output any more, because its gradient uses it; it can still be fetched"
    result.notes += [f"{quoted(y.name)} {text}" for y in outputs if graph.users(y)]
    of_ys, of_xs, incoming = (tuple(t.name for t in side) for side in (request.ys, request.xs, request.grad_ys))
    scope = request.scope
    claim = Gradients(of_ys, of_xs, incoming, request.names, scope, differentiator, plan.budget, Tolerance(rtol, atol))
    result.claims = (claim,)
    return result


def _checkpoints(checkpoints: str | Sequence[str], budget: float | None, threads: int | None) -> Checkpoints:
    threads = threads or min(os.cpu_count() or 1, MOST_THREADS)
    if budget is not None and not budget > 0:
        message = f"a budget must be a positive number of MiB, got {budget:g}"
        raise UsageError(message, code="bad-value", name="budget", value=str(budget))
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


def _with_less_memory(
    graph: Graph, known: GraphDef, made: BackwardPass, plan: Checkpoints, sized: Callable[[GraphDef], Sizes]
) -> tuple[BackwardPass, list[str], Checkpointed | None, Sequence[str]]:
    """Returns a backward pass that needs less memory, with early sums and as `plan` requires it.

    Also returns the early sums, the plan that was found, and warnings. The sizes of tensors are needed for a plan, and
    to find large sums.
    """
    if not plan.wanted and not many_partial_gradients(made.definition):
        return made, [], None, ()
    try:
        sizes = sized(made.definition)
    except EditError:  # the graph does not accept 1 for every unknown dimension
        if plan.wanted:
            raise
        return made, [], None, ()
    definition, early = with_early_sums(known, made.definition, sizes.tensors)
    made = made._replace(definition=definition)
    if not plan.wanted:
        return made, early, None, ()
    if early:
        sizes = sized(definition)
    found = checkpointed(graph, known, made, plan, sizes)
    return made._replace(definition=found.definition), early, found, sizes.warnings


LARGEST_DECLARED = 1 << 16
"""The largest size in bytes of an attr whose value is declared; larger attrs are declared as present."""


def graft(graph: Graph, definition: GraphDef) -> Intent:
    """Adds the nodes and functions of `definition` to `graph`. A node whose name is taken replaces the present node.

    The inputs of the nodes are in `graph` or in `definition`. The intent declares the fields of the nodes, because the
    specification cannot derive them.
    """
    intent = Intent()
    reads: dict[Node, tuple[list[InputRef], dict[str, None]]] = {}
    for function in definition.library.function:
        graph.functions.add(function)
        intent.functions.added.append(function.signature.name)
    for item in definition.node:
        node = graph.find(item.name)
        refs = [ref for text in item.input if (ref := parse_input(text)) is not None]
        data = [ref for ref in refs if ref.port != CONTROL]
        inputs, controls = (
            [format_input(*ref) for ref in data],
            dict.fromkeys(r.node for r in refs if r.port == CONTROL),
        )
        attrs = {key: value.SerializeToString() for key, value in item.attr.items() if key != COLOCATION_ATTR}
        declared = {key: value if len(value) <= LARGEST_DECLARED else None for key, value in attrs.items()}
        if node is None:
            intent.add(item.name, item.op, inputs, list(controls), item.device, declared)
            node = graph.add(item.name, item.op, attrs=attrs, device=item.device)
        else:
            values: dict[str, Value] = {f"attr {key}": value for key, value in declared.items() if value is not None}
            removed = [key for key in node.attr_keys if key not in item.attr and key != COLOCATION_ATTR]
            values |= dict.fromkeys(f"attr {key}" for key in removed)
            intent.alter(item.name, {"op": item.op, "inputs": tuple(inputs), "controls": tuple(controls), **values})
            new = {key: value for key, value in item.attr.items() if key in attrs and node.attr(key) != value}
            graph.replace_op(node, item.op, attrs={**dict.fromkeys(removed), **new})
        reads[node] = data, controls
    for node, (data, controls) in reads.items():
        graph.set_reads(node, [Output(graph[name], port) for name, port in data], [graph[name] for name in controls])
    return intent
