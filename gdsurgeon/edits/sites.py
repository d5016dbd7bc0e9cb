"""The claims of edits that change the computation at many places of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.edits.claims import Claim, SameOutputs, SameSites, Site
from gdsurgeon.graph.names import parse_tensor

AT_ONCE = 16
"""The number of sites in one trial: all their inputs and outputs are in memory together."""
MOST_GROUPS = 8
LARGEST_FED = 32
"""The limit of the numbers on which a site runs in isolation."""


def site_claims(sites: Sequence[Site], of_largest: float) -> tuple[Claim, ...]:
    """Returns the claims that all outputs and the outputs of all sites are the same, also for each site in isolation.

    Args:
        sites: all places at which the computation changed; if there are very many, only the first run in isolation.
        of_largest: by how much a tensor may differ, as a part of its own largest element.
    """
    outputs = SameOutputs(of_largest=of_largest, may_differ=True, also=nodes_of_sites(sites))
    return (outputs, *claims_apart(sites, of_largest, MOST_GROUPS))


def nodes_of_sites(sites: Iterable[Site]) -> tuple[str, ...]:
    """Returns the nodes that compute the outputs of `sites` in the original."""
    return tuple(dict.fromkeys(parse_tensor(old).node for site in sites for old, _ in site.outputs))


def claims_apart(sites: Iterable[Site], of_largest: float, most: int | None = None) -> list[SameSites]:
    """Returns the claims about `sites` in isolation; `most` limits the number of claims."""
    groups = _apart([site for site in sites if site.inputs], most)
    return [SameSites(tuple(group), of_largest) for group in groups]


def _apart(sites: Iterable[Site], most: int | None) -> list[list[Site]]:
    """Returns `sites` in groups without dependencies: an output of a site cannot be fed and computed in one run."""
    groups: list[tuple[list[Site], set[str], set[str]]] = []
    for site in sites:
        read, given = {*site.inputs}, {name for pair in site.outputs for name in pair}
        for group, all_read, all_given in groups:
            if len(group) < AT_ONCE and all_read.isdisjoint(given) and all_given.isdisjoint(read):
                break
        else:
            if len(groups) == most:
                continue
            group, all_read, all_given = [], set(), set()
            groups.append((group, all_read, all_given))
        group.append(site)
        all_read |= read
        all_given |= given
    return [group for group, _, _ in groups]
