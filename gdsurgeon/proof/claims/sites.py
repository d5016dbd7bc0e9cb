"""Places where something else is computed: each by itself, on numbers of either sign that reach what ops clip."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.shapes.inference import shape_of_tensor
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.claims import SamePiece, SameSites, Site
from gdsurgeon.errors import printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import Subject, fetching
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
"""A site that reads more tensors is compared only by the outputs of the graph."""
LEAST_ROWS = 16
"""Places at which each channel is computed, at least: at one alone it may be next to nothing by chance."""


def same_sites_trial(context: TrialContext, claim: SameSites) -> Trial:
    """What the sites read is replaced, in both graphs, by numbers of either sign, between 1/8 and 32.

    Only the tensors that depend on none of the others that a site reads: those are computed from them, as they would
    be. Sites in a loop are compared by what the whole graph gives. Sites with channels are given numbers a million
    times as large, too: beside these what is added to a channel is nothing, and how it is multiplied shows.
    """
    change, settings = context.change, context.executor.settings
    reads = _first_inputs(change.before, claim.sites)
    tensors = [tensor for read in reads for tensor in read]
    given = [old for site in claim.sites for old, _ in site.outputs]
    source = context.original(plan_with(settings, change.before, nodes_of([*tensors, *given])))
    places = source.places()
    found = [
        (site, read)
        for site, read in zip(claim.sites, reads, strict=True)
        if read and places.keys() >= {*read} and any(old in places for old, _ in site.outputs)
    ]
    runs, pairs = [TrialRun(source, reported_as=None, optional="end")], list[ComparedPair]()
    for large in (False, True):
        some = [(site, read) for site, read in found if not large or site.channels is not None]
        more_runs, more_pairs = _alone(context, source, some, large)
        runs, pairs = runs + more_runs, pairs + more_pairs
    beyond = " and large numbers" if any(site.channels is not None for site, _ in found) else ""
    is_fixed = not pairs or bool(source.plan.draws or source.plan.random)
    within = f", within {claim.of_largest:g}" if claim.of_largest else ""
    return Trial(
        f"each changed site in isolation: edited == original on random numbers from -32 to 32{beyond}{within}",
        [] if is_fixed else runs,
        pairs,
        both_load(change),
        samples=settings.samples,
        of_largest=claim.of_largest,
        shown=False,
    )


def _alone(
    context: TrialContext, source: Subject, sites: Sequence[tuple[Site, list[str]]], large: bool
) -> tuple[list[TrialRun], list[ComparedPair]]:
    """The runs of SITES by themselves, each with what it reads that is replaced, and what is compared of them."""
    places = source.places()
    fed: dict[str, FeedSource] = {name: SameFeed(ORIGINAL, name) for name in source.feedable}
    rows: dict[str, int] = {}
    for site, read in sites:
        for tensor in read:
            least = LEAST_ROWS if site.any_rows and _takes_more(context.change.before, tensor) else 0
            rows[tensor] = min(least, rows.get(tensor, LEAST_ROWS))
    made: dict[str, AnyNumbers] = {}  # tensors that are one tensor after the edit have the same numbers
    for tensor, least in rows.items():
        numbers = AnyNumbers(Fetch(ORIGINAL, tensor), of_all_sizes=True, large=large, rows=least)
        fed[tensor] = made.setdefault(context.after(tensor), numbers)
    fed |= {name: made[now] for name in source.feedable if (now := context.after(name)) in made}
    what = ", large numbers" if large else ""
    mine, theirs = f"sites{what}", f"other sites{what}"
    pairs = [
        ComparedPair(old + what, new + what, Fetch(mine, old), Fetch(theirs, new), site=True, channels=site.channels)
        for site, _ in sites
        for old, new in site.outputs
        if old in places
    ]
    if not pairs:
        return [], []
    change, executor = context.change, context.executor
    after = {name: context.after(name) for name in fed}
    fetched = [[old for site, _ in sites for old, _ in site.outputs if old in places], [f.theirs.tensor for f in pairs]]
    first = TrialRun(fetching(executor, ORIGINAL, change.before, fetched[0], mine), fed, reported_as=None)
    first.optional = "" if any(site.channels is not None for site, _ in sites) else "end"
    second = TrialRun(
        fetching(executor, EDITED, change.after, fetched[1], theirs),
        {now: SameFeed(mine, name) for name, now in after.items()},
        accused=change.called,
        reported_as=None,
    )
    return [first, second], pairs


def _takes_more(graph: Graph, tensor: str) -> bool:
    """Whether more rows can be fed than there are: the number may follow from what the graph says."""
    shape = shape_of_tensor(graph, graph.tensor(tensor))
    return not shape or shape[0] < 0


def _first_inputs(graph: Graph, sites: Sequence[Site]) -> list[list[str]]:
    """For each site the inputs that depend on something, and on none of its other inputs."""
    topology = topology_of(graph)
    constant = is_constant(topology)
    out: list[list[str]] = []
    for site in sites:
        numbers = {tensor: topology.id_of(graph[parse_tensor(tensor).node]) for tensor in site.inputs}
        varying = {tensor: number for tensor, number in numbers.items() if not constant[number]}
        first = []
        for tensor, number in varying.items() if len(varying) <= MOST_INPUTS else ():
            above = topology.upstream([number]) if len(varying) > 1 else b""
            if not any(above[other] for other in varying.values() if other != number):
                first.append(tensor)
        out.append(first)
    return out


_PIECE, _OTHER_PIECE = "piece", "other piece"


def same_piece_trial(context: TrialContext, claim: SamePiece) -> Trial:
    """What the piece reads is replaced, in both graphs, by numbers of either sign and some size.

    Only the tensors that depend on none of the others that it reads: those are computed from them, as they would be.
    Where the graph does not let that be done (in a loop, say), the outputs of the whole graph are what is compared.
    """
    change, settings = context.change, context.executor.settings
    (inputs,) = _first_inputs(change.before, [Site(claim.inputs, claim.outputs)])
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
