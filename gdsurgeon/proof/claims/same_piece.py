"""A piece that takes another's place: both on inputs that the graph around them would seldom give."""

from __future__ import annotations

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.claims import SamePiece
from gdsurgeon.errors import printable
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import fetching
from gdsurgeon.proof.trial import (
    EDITED,
    ORIGINAL,
    AnyNumbers,
    ComparedPair,
    FeedSource,
    Fetch,
    SameFeed,
    Trial,
    TrialContext,
    TrialRun,
    both_load,
    nodes_of,
)
from gdsurgeon.select import is_constant

MOST_INPUTS = 32
_PIECE, _OTHER_PIECE = "piece", "other piece"


def same_piece_trial(context: TrialContext, claim: SamePiece) -> Trial:
    """What the piece reads is replaced, in both graphs, by numbers of either sign and some size.

    Only the tensors that depend on none of the others that it reads: those are computed from them, as they would be.
    Where the graph does not let that be done (in a loop, say), the outputs of the whole graph are what is compared.
    """
    change, settings = context.change, context.executor.settings
    inputs = _first_inputs(context, claim)
    source = context.original(
        plan_with(settings, change.before, nodes_of([*inputs, *(old for old, _ in claim.outputs)]))
    )
    places = source.places()
    pairs = [pair for pair in claim.outputs if pair[0] in places]
    given = f"edited(x, {', '.join(map(printable, inputs[:3]))}{', ...' if len(inputs) > 3 else ''} := any)"
    statement = f"{given} == original(x, same values)"
    trial = Trial(
        statement,
        [],
        [ComparedPair(old, new, Fetch(_PIECE, old), Fetch(_OTHER_PIECE, new)) for old, new in pairs],
        both_load(change),
        samples=settings.samples,
        rtol=claim.rtol,
        atol=claim.atol,
        shown=False,
    )
    if not inputs or not pairs or not places.keys() >= {*inputs} or source.plan.draws or source.plan.random:
        return trial
    fed: dict[str, FeedSource] = {name: SameFeed(ORIGINAL, name) for name in source.feedable}
    fed |= {tensor: AnyNumbers(Fetch(ORIGINAL, tensor)) for tensor in inputs}
    piece = fetching(context.executor, ORIGINAL, change.before, [old for old, _ in pairs], _PIECE)
    other = fetching(context.executor, EDITED, change.after, [new for _, new in pairs], _OTHER_PIECE)
    trial.runs = [
        TrialRun(source, reported_as=None, optional="end"),
        TrialRun(piece, fed, reported_as=None, optional="end"),
        TrialRun(other, {name: SameFeed(_PIECE, name) for name in fed}, accused=change.called, reported_as=None),
    ]
    return trial


def _first_inputs(context: TrialContext, claim: SamePiece) -> list[str]:
    """The inputs of the piece that depend on something, and on none of its other inputs."""
    graph = context.change.before
    topology = topology_of(graph)
    constant = is_constant(topology)
    numbers_of = {tensor: topology.id_of(graph[parse_tensor(tensor).node]) for tensor in claim.inputs}
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
