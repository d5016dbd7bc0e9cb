"""add-gradients: a backward pass for a frozen graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from gdsurgeon.edits.backward_pass import BackwardPass, backward_pass
from gdsurgeon.edits.gradient_request import wanted_gradients
from gdsurgeon.edits.graft import graft
from gdsurgeon.edits.skeleton import skeleton
from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import EditResult, Gradients
from gdsurgeon.graph.node import Output
from gdsurgeon.runtime.differentiator import Differentiator

UNCONNECTED = ("error", "zero")
MOST_NAMED = 8


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
    differentiator: Differentiator | None = None,
) -> EditResult:
    """Adds nodes that compute the gradient of the sum of YS with respect to each of XS.

    Args:
        graph: changed in place.
        ys: floating tensors.
        xs: floating tensors: inputs, activations, constants.
        weights: take every floating constant of more than one element that YS depend on as a source too; those
            through which no gradient flows are left out.
        grad_ys: what the gradients of YS are, a tensor of the same shape for each; by default ones.
        scope: name scope of the new nodes; it must not be in use. By default ``gradients``, made unique.
        names: of the nodes that hold the results, one for each of XS; by default the node's own name under SCOPE.
        unconnected: what the gradient with respect to a tensor is that YS do not depend on: ``error`` refuses,
            ``zero`` gives zeros.
        differentiator: is asked for TensorFlow's gradient functions; by default a process for this call alone.

    Raises:
        EditError: a tensor is not there or not floating, an op on the way has no gradient, a v1 while loop is on the
            way, YS do not depend on one of XS, or a name is taken; GRAPH is as it was.
        ValidationError, NotValidatedError: TensorFlow's Python package crashes, or is not there.
    """
    if unconnected not in UNCONNECTED:
        raise UsageError(f"unconnected gradients are {' or '.join(UNCONNECTED)}, not {quoted(unconnected)}")
    wanted, faults = wanted_gradients(graph, ys, xs, weights=weights, grad_ys=grad_ys, scope=scope, names=names)
    known = skeleton(graph, wanted.tensors)
    with nullcontext(differentiator) if differentiator is not None else Differentiator() as asked:
        made = backward_pass(graph, wanted, known, asked, zeros=unconnected == "zero", faults=faults)
    wanted = made.wanted
    journal = graft(graph, made.definition)
    claim = Gradients(
        tuple(y.name for y in wanted.ys),
        tuple(x.name for x in wanted.xs),
        tuple(gradient.name for gradient in wanted.grad_ys),
        wanted.names,
        wanted.scope,
        differentiator,
    )
    return EditResult(journal, (claim,), notes=[*_notes(made)])


def _notes(made: BackwardPass) -> Iterator[str]:
    for source, name in list(zip(made.wanted.xs, made.wanted.names, strict=True))[:MOST_NAMED]:
        yield f"d/d {source.name} is {name}"
    if len(made.wanted.names) > MOST_NAMED:
        yield f"and {len(made.wanted.names) - MOST_NAMED} more, by their own names under {made.wanted.scope}/"
    if made.unconnected:
        yield f"zeros for {', '.join(x.name for x in made.unconnected[:MOST_NAMED])}: no gradient flows there"
    if made.calls:
        yield f"by TensorFlow's own gradients: the function call {made.calls[0]} has no gradient function of its own"
