"""The claims of an edit that has something else compute what was computed, at places of the graph all over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.edits.claims import Claim, SameOutputs, SameSites, Site
from gdsurgeon.graph.names import parse_tensor

AT_ONCE = 16
"""Sites of one trial: what they read and give is in memory together."""
MOST_GROUPS = 8
LARGEST_FED = 32
"""What the numbers do not reach on which a site is run by itself."""


def site_claims(sites: Sequence[Site], of_largest: float) -> tuple[Claim, ...]:
    """That all outputs and what each of SITES gives are what they were, and so for the sites by themselves.

    Args:
        sites: all places where something else is computed; of very many, the first are run by themselves.
        of_largest: by how much a tensor may differ, as a part of its own largest element.
    """
    outputs = SameOutputs(of_largest=of_largest, may_differ=True, also=nodes_of_sites(sites))
    return (outputs, *claims_apart(sites, of_largest, MOST_GROUPS))


def nodes_of_sites(sites: Iterable[Site]) -> tuple[str, ...]:
    """The nodes whose outputs SITES give, by their names before."""
    return tuple(dict.fromkeys(parse_tensor(old).node for site in sites for old, _ in site.outputs))


def claims_apart(sites: Iterable[Site], of_largest: float, most: int | None = None) -> list[SameSites]:
    """What is claimed of SITES by themselves; MOST: claims, that is, groups of sites that are run together."""
    groups = _apart([site for site in sites if site.inputs], most)
    return [SameSites(tuple(group), of_largest) for group in groups]


def _apart(sites: Iterable[Site], most: int | None) -> list[list[Site]]:
    """SITES in groups; in none of them one reads what another gives, for that is fed then and not computed."""
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
