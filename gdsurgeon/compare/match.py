"""Finds which node of one graph became which node of another graph.

Each step pairs nodes that have one possible partner, and then follows the edges from there (`Matching.propagate`). The
first steps compare what nodes compute; later steps use order, names and places. All steps are linear in nodes and
edges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from gdsurgeon.analysis.traversal.order import depth_first
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.changes import CONTROL, DEVICE, OP, changes, end_changes
from gdsurgeon.compare.matching import FREE, MOST_READERS, Matching, namesakes, pair_namesakes
from gdsurgeon.compare.side import Interner, Side, sides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import PLACEHOLDERS, is_variable

MOST_DISTINGUISHED = 200
"""The maximum number of consumers of a node that `downstream` distinguishes; of more, only the count is used."""

MOST_WORK = 4_000_000
"""The maximum number of elements that one alignment looks at, counted once for each level."""


UNPAIRED, OTHER_VALUE, TRAINED, OTHER_END = 2, 2, 4, 4
"""The weights of a node without a partner, and of a different value, trained value, and input or output."""
WEIGHTS = {OP: 4, CONTROL: 1, DEVICE: 1}
"""The weights of other differences; 2 by default."""


def match(a: Graph, b: Graph) -> Matching:
    """Returns which nodes of `b` the nodes of `a` became.

    If only one of the graphs has variables, variables are compared as constants.

    Raises:
        InputError: one of the graphs is broken.
    """
    has_variables = [any(map(is_variable, topology_of(graph).ops())) for graph in (a, b)]
    one, other = sides(a, b, frozen=has_variables[0] != has_variables[1])
    found = _matched(Matching(one, other))
    if any(found.mates[i] != j for i, j in namesakes(found)):
        found = min(_matched(Matching(one, other), trusting=True), found, key=weight)
        pair_namesakes(found)
    return found


def weight(matching: Matching) -> int:
    """Returns the number of differences in a report of `matching`, with weights.

    Two models seldom have an equal trained value by chance, so a difference of such a value has a larger weight.
    """
    a, b = matching.a, matching.b
    found = UNPAIRED * (matching.mates.count(FREE) + matching.back.count(FREE))
    for i, j in matching.pairs():
        found += a.names[i] != b.names[j]
        if a.content[i] != b.content[j] and a.forms[i].tensor is not None:
            found += TRAINED if a.forms[i].is_trained else OTHER_VALUE
    found += OTHER_END * sum(1 for _ in end_changes(matching))
    return found + sum(WEIGHTS.get(detail.what, 2) for change in changes(matching, {}) for detail in change.details)


def _matched(matching: Matching, *, trusting: bool = False) -> Matching:
    """Returns `matching`, which is empty, with all pairs.

    Args:
        matching: without pairs.
        trusting: whether nodes of the same name and op are paired before their content is compared.
    """
    a, b = matching.a, matching.b
    _by_interface(matching)
    if trusting:
        pair_namesakes(matching)
    # A node with unique weights is known, even if it has different inputs.
    matching.pair_unique(*map(_labels_of_trained, (a, b)), is_certain=True)
    for labels in ((a.detailed, b.detailed), (a.shaped, b.shaped)):
        # Nodes whose upstream or downstream part is equal, and occurs once in each graph, are partners.
        parts: list[Sequence[Sequence[int]]] = []
        for cone, edges in ((upstream, "inputs"), (downstream, "users")):
            if not _is_done(matching):
                parts.append(list(_cone_numbers(matching, labels, cone, edges)))
                matching.pair_unique(*parts[-1])
        # Of several nodes with both parts equal, those of the same name are partners.
        for i, j in namesakes(matching) if not _is_done(matching) else ():
            is_equal = not a.is_constant[i] and all(keys_a[i] == keys_b[j] for keys_a, keys_b in parts)
            if is_equal and matching.is_free(i, j):
                matching.pair(i, j)
        del parts  # a large part of the memory
        matching.propagate(a.shaped, b.shaped)
    if not _is_done(matching):
        _by_order(matching)
        _equal_groups(matching)
    matching.propagate(a.kind, b.kind)
    _in_place(matching)
    matching.propagate(a.kind, b.kind)
    _constants(matching)
    _passed(matching)
    return matching


def _is_done(matching: Matching) -> bool:
    free_a, free_b = matching.free()
    return not free_a or not free_b


# -- interface and names ---------------------------------------------------------------------------------------


def _by_interface(matching: Matching) -> None:
    """Pairs tensors of signatures with the same names and kinds, and inputs of the same name and structure."""
    a, b = matching.a, matching.b
    for key, i in a.served.items():
        j = b.served.get(key, FREE)
        if j != FREE and a.kind[i] == b.kind[j] and matching.is_free(i, j):
            matching.pair(i, j)
    inputs = {b.names[j]: j for j in b.inner if b.forms[j].op in PLACEHOLDERS}
    for i in a.inner:
        j = inputs.get(a.names[i], FREE) if a.forms[i].op in PLACEHOLDERS else FREE
        if j != FREE and a.structure[i] == b.structure[j] and matching.is_free(i, j):
            matching.pair(i, j)


def _has_same_reader(matching: Matching, i: int, j: int) -> bool:
    """Returns whether a consumer of `i` and a consumer of `j` are partners, and read them at the same input."""
    readers = {(matching.mates[v], slot, port) for v, slot, port in matching.a.uses(i)}
    return any(use in readers for use in matching.b.uses(j))


# -- upstream and downstream -----------------------------------------------------------------------------------


def _cone_numbers(
    matching: Matching, labels: Sequence[Sequence[int]], cone: Callable[..., list[int]], edges: str
) -> Iterator[list[int]]:
    """Yields for each side the numbers that `cone` returns; -1 for nodes without `edges`."""
    numbers, sides = Interner(), (matching.a, matching.b)
    found = [cone(side, own, numbers) for side, own in zip(sides, labels, strict=True)]
    del numbers  # a large part of the memory
    for side, keys in zip(sides, found, strict=True):
        yield [key if neighbors else -1 for key, neighbors in zip(keys, getattr(side, edges), strict=True)]


def _labels_of_trained(side: Side) -> list[int]:
    """Returns the label of each node that reads a trained constant, and -1 for other nodes."""
    is_trained = [form.is_trained for form in side.forms]
    return [
        label if any(is_trained[u] for u, _ in reads) else -1
        for label, reads in zip(side.detailed, side.inputs, strict=True)
    ]


def upstream(side: Side, labels: Sequence[int], numbers: Interner) -> list[int]:
    """Returns a number for each node, from its label and the numbers of its inputs: equal if all upstream is equal.

    This is hash-consing (Ershov, 1958).
    """
    out = [-1] * side.size
    inputs = side.inputs
    for node in side.order:
        key = [labels[node]]
        for producer, port in inputs[node]:
            key += (out[producer], port)
        out[node] = numbers[tuple(key)]
    return out


def downstream(side: Side, labels: Sequence[int], numbers: Interner) -> list[int]:
    """Returns a number for each node, from its label, and from the numbers and inputs of its consumers."""
    out = [-1] * side.size
    for node in reversed(side.order):
        key = [labels[node]]
        if (count := side.count_uses(node)) <= MOST_DISTINGUISHED:
            for reader, slot, port in sorted([(out[reader], slot, port) for reader, slot, port in side.uses(node)]):
                key += (reader, slot, port)
        else:
            key.append(count)
        out[node] = numbers[tuple(key)]
    return out


def _refined(matching: Matching, rounds: int) -> tuple[list[int], list[int]]:
    """Returns a color for each node; free nodes have the same color if all nodes within `rounds` edges correspond.

    This is color refinement (Weisfeiler and Leman, 1968). Each pair of partners has its own color.
    """
    free, sides = matching.free(), (matching.a, matching.b)
    others = -1 - matching.a.size  # constants have negative colors, different from those of pairs
    colors = [
        [-1 - i if mate != FREE else others - label
         for i, (mate, label) in enumerate(zip(matching.mates, matching.a.shaped, strict=True))],
        [-1 - i if i != FREE else others - label for i, label in zip(matching.back, matching.b.shaped, strict=True)],
    ]  # fmt: skip
    for side, nodes, found in zip(sides, free, colors, strict=True):
        for node in nodes:
            found[node] = side.shaped[node]
    for _ in range(rounds):
        numbers = Interner()
        colors = [_next_colors(*each, numbers) for each in zip(sides, free, colors, strict=True)]
    return colors[0], colors[1]


def _next_colors(side: Side, free: Sequence[int], colors: list[int], numbers: Interner) -> list[int]:
    out = list(colors)
    for node in free:
        reads = tuple([(colors[u], port) for u, port in side.inputs[node]])
        count = side.count_uses(node)
        around = sorted([(colors[v], slot, port) for v, slot, port in side.uses(node)]) if count <= MOST_READERS else ()
        order = [
            sorted([colors[other] for other in nodes]) if len(nodes) <= MOST_READERS else [len(nodes)]
            for nodes in (side.controls[node], side.waiting[node])
        ]
        out[node] = numbers[colors[node], reads, count, tuple(around), tuple(map(tuple, order))]
    return out


def _equal_groups(matching: Matching) -> None:
    """Pairs groups of equal nodes with equal neighbors, if both graphs have the same number.

    Any pairing of such nodes is valid if their neighbors are paired accordingly.
    """
    a, b = matching.a, matching.b
    for nodes, others in _groups(*matching.free(), *_refined(matching, 4)):
        by_name = sorted(nodes, key=a.names.__getitem__), sorted(others, key=b.names.__getitem__)
        for i, j in zip(*by_name, strict=True):
            if matching.is_free(i, j) and not matching.is_contradicted(i, j):
                matching.pair(i, j)
                matching.propagate(a.shaped, b.shaped, seeds=[i])
    matching.propagate(a.shaped, b.shaped)


Keys = Sequence[int] | Mapping[int, int]
"""A number for each node."""


def _groups(
    nodes_a: Iterable[int], nodes_b: Iterable[int], keys_a: Keys, keys_b: Keys
) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the nodes of both sides with the same key, for each key that both sides have equally often."""
    groups: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, nodes, keys in ((0, nodes_a, keys_a), (1, nodes_b, keys_b)):
        for node in nodes:
            groups[keys[node]][side].append(node)
    return (group for group in groups.values() if len(group[0]) == len(group[1]))


# -- order and place -------------------------------------------------------------------------------------------


def _by_order(matching: Matching) -> None:
    """Pairs nodes that occur in the same order: nodes with equal neighbors first, then nodes with equal form."""
    a, b = matching.a, matching.b
    order_a, order_b = _canonical_orders(a, b)
    for rounds in (1, 0):
        colors_a, colors_b = _refined(matching, rounds)
        for x, y in aligned([colors_a[i] for i in order_a], [colors_b[j] for j in order_b]):
            i, j = order_a[x], order_b[y]
            is_known = bool(a.inputs[i]) or _has_same_reader(matching, i, j)
            if matching.is_free(i, j) and is_known and not matching.is_contradicted(i, j):
                matching.pair(i, j)
        matching.propagate(a.shaped, b.shaped)


def _canonical_orders(a: Side, b: Side) -> list[list[int]]:
    """Returns the nodes of each side in the order of a depth-first walk over the inputs.

    The walk begins at nodes without consumers, in an order that their content determines. Such nodes with the same
    content as others are left out.
    """
    up, down = Interner(), Interner()
    out = []
    for side in (a, b):
        keys = list(zip(downstream(side, side.shaped, down), upstream(side, side.shaped, up), strict=True))
        ends = [node for node in side.inner if not side.users[node]]
        counts = Counter(keys[end] for end in ends)
        roots = sorted((end for end in ends if counts[keys[end]] == 1), key=keys.__getitem__)
        out.append(depth_first(roots, side.size, partial(_computed, side)))
    return out


def _computed(side: Side, node: int) -> list[int]:
    """Returns the producers of a node that are not constants."""
    return [producer for producer, _ in side.inputs[node] if not side.is_constant[producer]]


def aligned(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the places of equal elements of `a` and `b` that correspond, ascending in both.

    Equal elements at both ends, and elements that occur once in both (patience diff, Bram Cohen), correspond; the parts
    between them are aligned in the same way. A pair is left out if the alignment from the other end does not find it:
    if a run of equal elements got longer, the new elements cannot be determined.
    """
    last_a, last_b = len(a) - 1, len(b) - 1
    back = {(last_a - x, last_b - y) for x, y in _aligned(a[::-1], b[::-1])}
    return [pair for pair in _aligned(a, b) if pair in back]


def _aligned(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    pending = [(0, len(a), 0, len(b))]
    work = 0
    while pending:
        at, a_end, to, b_end = pending.pop()
        while at < a_end and to < b_end and a[at] == b[to]:
            pairs.append((at, to))
            at, to = at + 1, to + 1
        while at < a_end and to < b_end and a[a_end - 1] == b[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            pairs.append((a_end, b_end))
        work += a_end - at + b_end - to
        if at == a_end or to == b_end or work > MOST_WORK:
            continue
        counts = Counter(a[at:a_end]), Counter(b[to:b_end])
        where = {b[y]: y for y in range(to, b_end)}
        once = [(x, where[a[x]]) for x in range(at, a_end) if counts[0][a[x]] == counts[1][a[x]] == 1]
        anchors = _ascending(once)
        for x, y in [*anchors, (a_end, b_end)] if anchors else ():
            pending.append((at, x, to, y))
            at, to = x + 1, y + 1
        pairs += anchors
    return sorted(pairs)


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns a longest subsequence of `pairs`, which ascend in their first item, that also ascends in the second."""
    tops: list[int] = []
    ends: list[int] = []
    before = [-1] * len(pairs)
    for at, (_, y) in enumerate(pairs):
        pile = bisect_left(tops, y)
        before[at] = ends[pile - 1] if pile else -1
        tops[pile : pile + 1] = [y]
        ends[pile : pile + 1] = [at]
    out: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        out.append(pairs[at])
        at = before[at]
    return out[::-1]


def _in_place(matching: Matching) -> None:
    """Pairs nodes with different ops that have the same inputs and the same consumers."""
    a, b, mates = matching.a, matching.b, matching.mates
    free_a, free_b = matching.free()
    places: dict[object, list[int]] = defaultdict(list)
    for j in free_b:
        if b.inputs[j] and b.users[j]:
            places[b.inputs[j], tuple(sorted(b.uses(j)))].append(j)
    for i in free_a:
        if a.inputs[i] and a.users[i]:
            reads = tuple((mates[u], port) for u, port in a.inputs[i])
            users = tuple(sorted((mates[v], slot, port) for v, slot, port in a.uses(i)))
            found = places.pop((reads, users), ())
            if len(found) == 1:
                matching.pair(i, found[0])


# -- constants -------------------------------------------------------------------------------------------------


def _constants(matching: Matching) -> None:
    """Pairs constants by their consumers; then by name; then trained or unused ones by value and control edges."""
    a, b, mates, back = matching.a, matching.b, matching.mates, matching.back
    for labels_a, labels_b in ((a.content, b.content), (a.structure, b.structure), (a.kind, b.kind)):
        for i, j in list(matching.pairs()):
            for (u, port), (v, other) in zip(a.inputs[i], b.inputs[j], strict=False):
                is_pair = a.is_constant[u] and b.is_constant[v] and port == other and labels_a[u] == labels_b[v]
                if is_pair and matching.is_free(u, v):
                    matching.pair(u, v)
    free_a = [i for i, is_constant in enumerate(a.is_constant) if is_constant and mates[i] == FREE]
    free_b = [j for j, is_constant in enumerate(b.is_constant) if is_constant and back[j] == FREE]
    places = {b.names[j]: j for j in free_b}
    for i in free_a:
        j = places.get(a.names[i], FREE)
        if j != FREE and a.structure[i] == b.structure[j]:
            matching.pair(i, j)
    numbers, own = Interner(), [j if i != FREE else FREE for j, i in enumerate(back)]
    edged = (_with_controls(a, free_a, mates, numbers), _with_controls(b, free_b, own, numbers))
    for keys_a, keys_b in (edged, (a.content, b.content)):
        free_a, free_b = ([n for n in ns if mates[n] == FREE] for ns, mates in ((free_a, mates), (free_b, back)))
        for nodes, others in _groups(free_a, free_b, keys_a, keys_b):
            for i, j in zip(nodes, others, strict=True):
                if a.forms[i].is_trained or not (a.users[i] or b.users[j]):
                    matching.pair(i, j)


def _with_controls(side: Side, nodes: Iterable[int], mates: Sequence[int], numbers: Interner) -> dict[int, int]:
    """Returns a number for each of `nodes`, from its content and the partners of its control inputs and outputs."""
    return {
        node: numbers[
            side.content[node],
            tuple(sorted(mates[other] for other in side.controls[node])),
            tuple(sorted(mates[other] for other in side.waiting[node])),
        ]
        for node in nodes
    }


def _passed(matching: Matching) -> None:
    """Pairs nodes that forward paired constants: by their input, then by the constant, and by name."""
    a, b = matching.a, matching.b
    direct_a, direct_b = ({n: side.written[n][0][0] for n in side.passed} for side in (a, b))
    for sources_a, sources_b in ((direct_a, direct_b), (a.passed, b.passed)):
        passing: dict[int, dict[str, int]] = defaultdict(dict)
        for j, source in sources_b.items():
            if matching.back[j] == FREE:
                passing[source][b.names[j]] = j
        for i, source in sources_a.items():
            others = passing.get(matching.mates[source])
            if others and matching.mates[i] == FREE:
                name = a.names[i] if a.names[i] in others else next(iter(others))
                matching.pair(i, others.pop(name))
