"""Places where something else is computed: each by itself, on numbers of either sign that reach what ops clip."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.claims import SameSites, Site
from gdsurgeon.graph.graph import Graph
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
from gdsurgeon.text import counted

_SITES, _OTHER_SITES = "sites", "other sites"


def same_sites_trial(context: TrialContext, claim: SameSites) -> Trial:
    """What the sites read is replaced, in both graphs, by numbers of either sign, between 1/8 and 32.

    Only the tensors that depend on none of the others that a site reads: those are computed from them, as they would
    be. Sites in a loop are compared by what the whole graph gives.
    """
    change, settings = context.change, context.executor.settings
    reads = _first_inputs(change.before, claim.sites)
    tensors = [tensor for read in reads for tensor in read]
    given = [old for site in claim.sites for old, _ in site.outputs]
    source = context.original(plan_with(settings, change.before, nodes_of([*tensors, *given])))
    places = source.places()
    pairs: list[tuple[str, str]] = []
    fed: dict[str, FeedSource] = {name: SameFeed(ORIGINAL, name) for name in source.feedable}
    count = 0
    for site, read in zip(claim.sites, reads, strict=True):
        found = [pair for pair in site.outputs if pair[0] in places]
        if read and found and places.keys() >= {*read}:
            pairs += found
            fed |= {tensor: AnyNumbers(Fetch(ORIGINAL, tensor), of_all_sizes=True) for tensor in read}
            count += 1
    trial = Trial(
        f"edited = original at {counted(count, 'site')}, each on any numbers from -32 to 32",
        [],
        [ComparedPair(old, new, Fetch(_SITES, old), Fetch(_OTHER_SITES, new), inside=True) for old, new in pairs],
        both_load(change),
        samples=settings.samples,
        of_largest=claim.of_largest,
        shown=False,
    )
    if not pairs or source.plan.draws or source.plan.random:
        return trial
    mine = fetching(context.executor, ORIGINAL, change.before, [old for old, _ in pairs], _SITES)
    theirs = fetching(context.executor, EDITED, change.after, [new for _, new in pairs], _OTHER_SITES)
    after = {name: context.after(name) for name in fed}
    trial.runs = [
        TrialRun(source, reported_as=None, optional="end"),
        TrialRun(mine, fed, reported_as=None, optional="end"),
        TrialRun(
            theirs,
            {now: SameFeed(_SITES, name) for name, now in after.items()},
            accused=change.called,
            reported_as=None,
        ),
    ]
    return trial


def _first_inputs(graph: Graph, sites: Sequence[Site]) -> list[list[str]]:
    """For each site the inputs that depend on something, and on none of its other inputs."""
    topology = topology_of(graph)
    constant = is_constant(topology)
    out: list[list[str]] = []
    for site in sites:
        numbers = {tensor: topology.id_of(graph[parse_tensor(tensor).node]) for tensor in site.inputs}
        varying = {tensor: number for tensor, number in numbers.items() if not constant[number]}
        first = []
        for tensor, number in varying.items():
            above = topology.upstream([number]) if len(varying) > 1 else b""
            if not any(above[other] for other in varying.values() if other != number):
                first.append(tensor)
        out.append(first)
    return out
