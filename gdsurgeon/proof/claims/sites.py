"""Runs changed places of a graph in isolation, on random numbers that the inputs of the graph would not reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
"""The least number of places at which a channel is computed: at a single place its value can be small by chance."""


def same_sites_trial(context: TrialContext, claim: SameSites) -> Trial:
    """Returns the trial of sites: their inputs are replaced by numbers between -32 and 32 in both graphs.

    Sites with channels also get numbers that are a million times as large, so that wrong factors show.
    """
    has_channels = any(site.channels is not None for site in claim.sites)
    kinds = [_Kind("sites")] + ([_Kind("sites", ", large numbers", is_large=True)] if has_channels else [])
    trial, found = _trial(context, claim.sites, kinds)
    beyond = " and large numbers" if any(site.channels is not None for site, _ in found) else ""
    within = f", within {claim.of_largest:g}" if claim.of_largest else ""
    trial.statement = (
        f"each changed site in isolation: edited == original on random numbers from -32 to 32{beyond}{within}"
    )
    trial.of_largest = claim.of_largest
    return trial


def same_piece_trial(context: TrialContext, claim: SamePiece) -> Trial:
    """Returns the trial of a part of the graph that was replaced: its inputs are random numbers in both graphs."""
    trial, found = _trial(context, [Site(claim.inputs, claim.outputs)], [_Kind("piece")])
    inputs = [tensor for _, read in found for tensor in read]
    given = f"edited(x, {', '.join(map(printable, inputs[:3]))}{', ...' if len(inputs) > 3 else ''} := any)"
    trial.statement = f"{given} == original(x, same values)"
    trial.rtol, trial.atol = claim.rtol, claim.atol
    return trial


class _Kind(NamedTuple):
    """The values that sites get.

    Attributes:
        name: ``sites`` or ``piece``, the name of the runs.
        label: is added to names of runs and tensors.
        is_large: whether only sites with channels run, on large numbers.
    """

    name: str
    label: str = ""
    is_large: bool = False

    @property
    def is_piece(self) -> bool:
        """Whether the site is a replaced part of the graph; its outputs count like outputs of the graph."""
        return self.name == "piece"


def _trial(
    context: TrialContext, sites: Sequence[Site], kinds: Sequence[_Kind]
) -> tuple[Trial, list[tuple[Site, list[str]]]]:
    """Returns a trial of sites, and the sites that it contains with their replaced inputs.

    Only inputs that do not depend on other inputs of the site are replaced; the others are computed from them. Sites in
    loops cannot run in isolation, and are covered by the outputs of the graph.
    """
    change, settings = context.change, context.executor.settings
    reads = _first_inputs(change.before, sites)
    tensors = [tensor for read in reads for tensor in read]
    given = [old for site in sites for old, _ in site.outputs]
    source = context.original(plan_with(settings, change.before, nodes_of([*tensors, *given])))
    places = source.places()
    found = [
        (site, read)
        for site, read in zip(sites, reads, strict=True)
        if read and places.keys() >= {*read} and any(old in places for old, _ in site.outputs)
    ]
    trial = Trial("", [], [], both_load(change), samples=settings.samples, shown=False)
    for kind in kinds if not (source.plan.draws or source.plan.random) else ():
        some = [(site, read) for site, read in found if not kind.is_large or site.channels is not None]
        runs, pairs = _isolated(context, source, some, kind)
        trial.runs, trial.pairs = [*trial.runs, *runs], [*trial.pairs, *pairs]
    if trial.pairs:
        trial.runs.insert(0, TrialRun(source, reported_as=None, optional="end"))
    return trial, found


def _isolated(
    context: TrialContext, source: Subject, sites: Sequence[tuple[Site, list[str]]], kind: _Kind
) -> tuple[list[TrialRun], list[ComparedPair]]:
    """Returns the runs of sites with their replaced inputs in both graphs, and the pairs of outputs."""
    places, change, executor = source.places(), context.change, context.executor
    fed: dict[str, FeedSource] = {name: SameFeed(ORIGINAL, name) for name in source.feedable}
    rows: dict[str, int] = {}
    for site, read in sites:
        for tensor in read:
            least = LEAST_ROWS if site.any_rows and _takes_more(change.before, tensor) else 0
            rows[tensor] = min(least, rows.get(tensor, LEAST_ROWS))
    made: dict[str, AnyNumbers] = {}  # tensors that are one tensor after the edit get the same numbers
    for tensor, least in rows.items():
        numbers = AnyNumbers(Fetch(ORIGINAL, tensor), not kind.is_piece, large=kind.is_large, rows=least)
        fed[tensor] = made.setdefault(context.after(tensor), numbers)
    fed |= {name: made[now] for name in source.feedable if (now := context.after(name)) in made}
    mine, theirs = f"{kind.name}{kind.label}", f"other {kind.name}{kind.label}"
    pairs = [
        ComparedPair(
            old + kind.label,
            new + kind.label,
            Fetch(mine, old),
            Fetch(theirs, new),
            site=not kind.is_piece,
            channels=site.channels,
        )
        for site, _ in sites
        for old, new in site.outputs
        if old in places
    ]
    if not pairs:
        return [], []
    after = {name: context.after(name) for name in fed}
    outputs = [old for site, _ in sites for old, _ in site.outputs if old in places]
    first = TrialRun(fetching(executor, ORIGINAL, change.before, outputs, mine), fed, reported_as=None)
    first.optional = "" if any(site.channels is not None for site, _ in sites) else "end"
    second = TrialRun(
        fetching(executor, EDITED, change.after, [pair.theirs.tensor for pair in pairs], theirs),
        {now: SameFeed(mine, name) for name, now in after.items()},
        accused=change.called,
        reported_as=None,
    )
    return [first, second], pairs


def _takes_more(graph: Graph, tensor: str) -> bool:
    """Returns whether more rows than the graph has can be fed; a fixed number of rows may follow from the graph."""
    shape = shape_of_tensor(graph, graph.tensor(tensor))
    return not shape or shape[0] < 0


def _first_inputs(graph: Graph, sites: Sequence[Site]) -> list[list[str]]:
    """Returns for each site the inputs that are not constant and do not depend on other inputs of the site."""
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
