"""Nodes with the same name and op in both graphs: partners if that makes the report shorter.

Two matchings are compared: one that begins with the content of nodes, and one that begins with their names. Where they
disagree, the one with fewer and smaller differences is used, for each place of the graph separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gdsurgeon.analysis.traversal.order import UnionFind
from gdsurgeon.compare.matching import FREE, Matching
from gdsurgeon.compare.side import Side
from gdsurgeon.ops.kinds import PLACEHOLDERS

RENAMED, UNPAIRED, REWIRED, WAITS, OTHER_DEVICE = 1, 2, 2, 1, 1
"""The weights of differences: of a name, a node of one graph only, an input, a control edge, a device."""
OTHER_CONSTANT = 1
"""An input from a different, equal constant, which is not reported."""
OTHER_KIND, OTHER_STRUCTURE, OTHER_CONTENT = 4, 3, 2
TRAINED = 4
"""Another value that training has set: two models seldom have an equal one by chance."""
OTHER_END = 4
"""An input or output has a different name, or is not an output any more."""


def namesakes(matching: Matching) -> Iterator[tuple[int, int]]:
    """Yields the pairs of nodes in both graphs with the same name and op; the versions of the op may differ."""
    a, b = matching.a, matching.b
    places = {name: j for j, name in enumerate(b.names)}
    for i, name in enumerate(a.names):
        j = places.get(name, FREE)
        if j != FREE and a.kind[i] == b.kind[j]:
            yield i, j


def pair_namesakes(matching: Matching) -> None:
    """Pairs the namesakes that are free."""
    for i, j in namesakes(matching):
        if matching.is_free(i, j):
            matching.pair(i, j)


def has_parted_namesakes(matching: Matching) -> bool:
    """Returns whether some nodes of the same name and op are not matched with each other."""
    return any(matching.mates[i] != j for i, j in namesakes(matching))


def shorter(one: Matching, other: Matching) -> Matching:
    """Returns `one`, with the pairs of `other` in each place where these are at most as many differences. Linear."""
    a, b = one.a, one.b
    parted = bytearray(one.mates[i] != other.mates[i] for i in range(a.size))
    places = UnionFind(a.size + b.size)
    for i in range(a.size):
        if parted[i]:
            for mate in (one.mates[i], other.mates[i]):
                if mate != FREE:
                    places.join(i, a.size + mate)
    concerned: list[tuple[int, int]] = []  # a node whose report differs, and one of its place
    for i in range(a.size):
        first = FREE
        for near in _around(a, i):
            if parted[near]:
                if first != FREE:
                    places.join(first, near)
                first = near
        if first != FREE:
            concerned.append((i, first))
    less: dict[int, int] = defaultdict(int)  # by place: the number of reports with OTHER minus that with ONE
    for i, near in concerned:
        less[places.root(near)] += _weight(other, i) - _weight(one, i)
    for j in range(b.size):
        if one.back[j] != other.back[j]:
            less[places.root(a.size + j)] += UNPAIRED * ((other.back[j] == FREE) - (one.back[j] == FREE))
    out = Matching(a, b)
    for i in range(a.size):
        taken = other if parted[i] and less[places.root(i)] <= 0 else one
        if taken.mates[i] != FREE:
            out.pair(i, taken.mates[i])
    return out


def _around(side: Side, node: int) -> Iterator[int]:
    """Yields `node`, and the nodes on which its report depends."""
    yield node
    yield from (producer for producer, _ in side.inputs[node])
    yield from side.controls[node]
    if node in side.passed:
        yield side.passed[node]


def _weight(matching: Matching, i: int) -> int:
    """Returns the number of reported differences of the node `i` of A."""
    a, b, mates = matching.a, matching.b, matching.mates
    j = mates[i]
    if j == FREE:
        return UNPAIRED
    out = RENAMED * (a.names[i] != b.names[j]) + OTHER_DEVICE * (a.forms[i].device != b.forms[j].device)
    is_end = not a.users[i] and not a.waiting[i]
    if not a.is_constant[i] and i not in a.passed:
        is_other_end = is_end != (not b.users[j] and not b.waiting[j])
        is_interface = is_end or a.forms[i].op in PLACEHOLDERS
        out += OTHER_END * (is_other_end or (is_interface and a.names[i] != b.names[j]))
    if a.kind[i] != b.kind[j]:
        out += OTHER_KIND
    elif a.structure[i] != b.structure[j]:
        out += TRAINED if a.forms[i].is_trained else OTHER_STRUCTURE
    elif a.content[i] != b.content[j]:
        out += TRAINED if a.forms[i].is_trained else OTHER_CONTENT
    if i in a.passed or j in b.passed:
        return out + REWIRED * (mates[a.passed.get(i, i)] != b.passed.get(j, j))
    reads = [(mates[u], port) for u, port in a.inputs[i]]
    others = b.inputs[j]
    for read, other, (u, _) in zip(reads, others, a.inputs[i], strict=False):
        if read != other:
            is_equal = a.is_constant[u] and a.content[u] == b.content[other[0]]
            out += OTHER_CONSTANT if is_equal else REWIRED
    out += REWIRED * abs(len(reads) - len(others))
    if a.controls[i] or b.controls[j]:
        out += WAITS * len({mates[u] for u in a.controls[i]} ^ {*b.controls[j]})
    return out
