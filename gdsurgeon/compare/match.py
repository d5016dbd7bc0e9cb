"""Which node of one graph became which of another: from what is certain to what is likely.

Each step pairs what has one possible partner by what the step looks at, and then follows the edges from there
(`Matching.propagate`). Linear in nodes and edges, but for the alignment, whose work is bounded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.alignment import surely_aligned
from gdsurgeon.compare.cones import both, downstream, upstream
from gdsurgeon.compare.matching import FREE, MOST_GROUPED, Matching
from gdsurgeon.compare.namesakes import has_parted_namesakes, pair_namesakes, shorter
from gdsurgeon.compare.refinement import refined
from gdsurgeon.compare.scopes import learnt, renamed
from gdsurgeon.compare.side import Interner, Side
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import PLACEHOLDERS, is_variable


def match(a: Graph, b: Graph, *, by_name: bool = True) -> Matching:
    """Finds for the nodes of A, as it is in its file, which of B they have become.

    Args:
        a, b: the graphs.
        by_name: whether names may speak for a pair.

    Raises:
        InputError: one of them is broken.
    """
    numbers = Interner()
    # A model and what it is frozen to are compared as if both were frozen.
    frozen = _has_variables(a) != _has_variables(b)
    return matched(Side(a, numbers, frozen=frozen), Side(b, numbers, frozen=frozen), numbers, by_name=by_name)


def _has_variables(graph: Graph) -> bool:
    return any(map(is_variable, topology_of(graph).ops()))


def matched(a: Side, b: Side, numbers: Interner, *, by_name: bool = True) -> Matching:
    """See `match`."""
    found = _matched(Matching(a, b, numbers), by_name=by_name)
    if by_name and has_parted_namesakes(found):
        found = shorter(found, _matched(Matching(a, b, numbers), by_name=False))
        found = shorter(found, _matched(Matching(a, b, numbers), by_name=True, trusting=True))
        pair_namesakes(found)
    return found


def _matched(matching: Matching, *, by_name: bool, trusting: bool = False) -> Matching:
    """MATCHING, which is empty, with all pairs; TRUSTING: nodes of the same name and op are paired first."""
    a, b = matching.a, matching.b
    _by_signature(matching)
    if by_name:
        _inputs_by_name(matching)
    if trusting:
        pair_namesakes(matching)
    matching.pair_unique(a.detailed, b.detailed, "weights", Side.has_weights, whatever=True)
    _by_cones(matching, a.detailed, b.detailed, "content")
    _spread(matching)
    if not _is_done(matching):
        _by_cones(matching, a.shaped, b.shaped, "structure")
        _spread(matching)
    if by_name:
        _by_name(matching)
    _by_order(matching)
    _by_surroundings(matching, (8, 4, 2, 1))
    _alike(matching, by_name)
    _spread(matching)
    matching.propagate(a.kind, b.kind, "next to")
    _in_place(matching)
    if by_name:
        _by_name_and_op(matching)
        matching.propagate(a.kind, b.kind, "next to")
    _release_names(matching)
    _constants(matching, by_name)
    _passed(matching)
    return matching


def _release_names(matching: Matching) -> None:
    """Releases partners that only their names connect: without a constant input, and without common neighbors at a
    distance of one or two. Names of inputs and outputs are sufficient.
    """
    a, b, mates = matching.a, matching.b, matching.mates
    for i, j in list(matching.pairs()):
        if matching.evidence[i] not in BY_NAME or any(a.is_constant[u] for u, _ in a.inputs[i]):
            continue
        if not a.inputs[i] or not a.users[i] or not b.inputs[j] or not b.users[j]:
            continue
        around = {u for u, _ in b.inputs[j]} | {v for v, _, _ in b.users[j][:MOST_GROUPED]}
        further = {u for near in around for u, _ in b.inputs[near]}
        further |= {v for near in around for v, _, _ in b.users[near][:MOST_GROUPED]}
        neighbours = [u for u, _ in a.inputs[i]] + [v for v, _, _ in a.users[i]]
        if not any(mates[near] in around or mates[near] in further for near in neighbours):
            matching.release(i)


BY_NAME = frozenset(("name", "scope"))
"""The evidence of names that are no input's."""


def _by_signature(matching: Matching) -> None:
    """Pairs the nodes whose tensors both models give and take under the same names, where they are of the same kind."""
    a, b = matching.a, matching.b
    if not a.served or not b.served:
        return
    for key, i in a.served.items():
        j = b.served.get(key, FREE)
        if j != FREE and a.kind[i] == b.kind[j] and matching.is_free(i, j):
            matching.pair(i, j, "signature")


def _inputs_by_name(matching: Matching) -> None:
    """Pairs the inputs of the same name and structure: by it callers feed them."""
    a, b = matching.a, matching.b
    places = {b.names[j]: j for j in b.inner if b.forms[j].op in PLACEHOLDERS}
    for i in a.inner:
        if a.forms[i].op in PLACEHOLDERS:
            j = places.get(a.names[i], FREE)
            if j != FREE and a.structure[i] == b.structure[j] and matching.is_free(i, j):
                matching.pair(i, j, "input")


def _is_done(matching: Matching) -> bool:
    free_a, free_b = matching.free()
    return not free_a or not free_b


def _spread(matching: Matching) -> None:
    """Follows edges, first to nodes whose neighbors are also equal."""
    a, b = matching.a, matching.b
    matching.propagate(a.detailed, b.detailed, "next to", near=True)
    if not _is_done(matching):
        matching.propagate(a.shaped, b.shaped, "next to", near=True)
        matching.propagate(a.shaped, b.shaped, "next to")


def _by_cones(matching: Matching, labels_a: Sequence[int], labels_b: Sequence[int], evidence: str) -> None:
    """Pairs nodes whose upstream part, downstream part or both are equal, and occur once in each graph."""
    numbers = matching.numbers
    up_a, up_b = upstream(matching.a, labels_a, numbers), upstream(matching.b, labels_b, numbers)
    down_a, down_b = downstream(matching.a, labels_a, numbers), downstream(matching.b, labels_b, numbers)
    matching.pair_unique(both(up_a, down_a, numbers), both(up_b, down_b, numbers), evidence)
    matching.pair_unique(up_a, up_b, f"{evidence} upstream", lambda side, node: bool(side.inputs[node]))
    matching.pair_unique(down_a, down_b, f"{evidence} downstream", lambda side, node: bool(side.users[node]))


def _alike(matching: Matching, by_name: bool) -> None:
    """Pairs groups of equal nodes with equal surroundings, if both graphs have the same number: any pairing is right
    as long as the neighbors follow it.
    """
    a, b = matching.a, matching.b
    if _is_done(matching):
        return
    for nodes, others in _groups(*matching.free(), *refined(matching, 4)):
        if len(nodes) != len(others):
            continue
        if by_name:
            nodes, others = sorted(nodes, key=a.names.__getitem__), sorted(others, key=b.names.__getitem__)
        for i, j in zip(nodes, others, strict=True):
            if matching.is_free(i, j) and not matching.is_contradicted(i, j):
                matching.pair(i, j, "alike")
                matching.propagate(a.shaped, b.shaped, "next to", near=True, seeds=[i])


Keys = Sequence[int] | Mapping[int, int]


def _groups(
    nodes_a: Iterable[int], nodes_b: Iterable[int], keys_a: Keys, keys_b: Keys
) -> Iterator[tuple[list[int], list[int]]]:
    """Those of both sides that have a key in common, by key."""
    groups_a: dict[int, list[int]] = defaultdict(list)
    groups_b: dict[int, list[int]] = defaultdict(list)
    for i in nodes_a:
        groups_a[keys_a[i]].append(i)
    for j in nodes_b:
        groups_b[keys_b[j]].append(j)
    for key, found in groups_a.items():
        if key in groups_b:
            yield found, groups_b[key]


def _by_name(matching: Matching) -> None:
    """Pairs nodes that have the same name, or that of a scope that was renamed, and the same structure."""
    a, b = matching.a, matching.b
    places = {name: j for j, name in enumerate(b.names)}
    for i in matching.free()[0]:
        j = places.get(a.names[i], FREE)
        if j != FREE and a.shaped[i] == b.shaped[j] and matching.is_free(i, j) and not matching.is_contradicted(i, j):
            matching.pair(i, j, "name")
    _spread(matching)
    if _is_done(matching):
        return
    renamings = learnt((a.names[i], b.names[j]) for i, j in matching.pairs())
    for i in matching.free()[0] if renamings else ():
        for name in renamed(a.names[i], renamings):
            j = places.get(name, FREE)
            if j == FREE or a.structure[i] != b.structure[j] or not matching.is_free(i, j):
                continue
            if not matching.is_contradicted(i, j):
                matching.pair(i, j, "scope")
                break
    _spread(matching)


def _by_name_and_op(matching: Matching) -> None:
    """Pairs what has the same name and the same op, or the same name and the same inputs, and is else different.

    A node with different inputs is the same node if it also has the same consumer, or none, because then callers fetch
    it.
    """
    a, b = matching.a, matching.b
    places = {name: j for j, name in enumerate(b.names)}
    for i in matching.free()[0]:
        j = places.get(a.names[i], FREE)
        if j == FREE or not matching.is_free(i, j):
            continue
        if matching.is_contradicted(i, j):
            is_read = bool(a.users[i] or b.users[j])
            if a.shaped[i] == b.shaped[j] and (_has_reader(matching, i, j) if is_read else bool(a.inputs[i])):
                matching.pair(i, j, "name")
        elif a.kind[i] == b.kind[j] or _reads_the_same(matching, i, j):
            matching.pair(i, j, "name")


def _in_place(matching: Matching) -> None:
    """Pairs nodes with different ops that have the same place: between the same nodes."""
    a, b, mates = matching.a, matching.b, matching.mates
    free_a, free_b = matching.free()
    places: dict[Place, list[int]] = defaultdict(list)
    for j in free_b:
        if b.inputs[j] and b.users[j]:
            places[tuple(b.inputs[j]), tuple(sorted(b.users[j]))].append(j)
    for i in free_a:
        if a.inputs[i] and a.users[i]:
            reads = tuple((mates[u], port) for u, port in a.inputs[i])
            users = tuple(sorted((mates[v], slot, port) for v, slot, port in a.users[i]))
            found = places.pop((reads, users), ())
            if len(found) == 1:
                matching.pair(i, found[0], "in its place")


Place = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int, int], ...]]


def _reads_the_same(matching: Matching, i: int, j: int) -> bool:
    reads = [(matching.mates[u], port) for u, port in matching.a.inputs[i]]
    return bool(reads) and reads == matching.b.inputs[j]


NARROW = 2
"""Rounds up to which surroundings tell something only where some of them have partners."""


def _any_node(_side: Side, _node: int) -> bool:
    return True


def _by_surroundings(matching: Matching, rounds: Sequence[int]) -> None:
    """Pairs nodes whose surroundings are equal for `rounds` steps, and which occur once in each graph."""
    a, b = matching.a, matching.b
    for count in rounds:
        if _is_done(matching):
            return
        among = matching.is_beside_pair if count <= NARROW else _any_node
        if matching.pair_unique(*refined(matching, count), "surroundings", among):
            matching.propagate(a.shaped, b.shaped, "next to", near=True)
            matching.propagate(a.shaped, b.shaped, "next to")


def _by_order(matching: Matching) -> None:
    """Pairs nodes that occur in the same known order: first by their neighbors, then by their form."""
    a, b, numbers = matching.a, matching.b, matching.numbers
    if _is_done(matching):
        return
    order_a, order_b = (
        _canonical_order(
            side, _ends(side, downstream(side, side.shaped, numbers), upstream(side, side.shaped, numbers))
        )
        for side in (a, b)
    )
    for near in (True, False):
        tokens_a, tokens_b = _tokens(matching, 0, order_a, near=near), _tokens(matching, 1, order_b, near=near)
        for x, y in surely_aligned(tokens_a, tokens_b):
            i, j = order_a[x], order_b[y]
            if (
                matching.is_free(i, j)
                and not matching.is_contradicted(i, j)
                and (a.inputs[i] or _has_reader(matching, i, j))
            ):
                matching.pair(i, j, "order nearby" if near else "order")
        matching.propagate(a.shaped, b.shaped, "next to", near=True)
        matching.propagate(a.shaped, b.shaped, "next to")


def _tokens(matching: Matching, side: int, nodes: Sequence[int], *, near: bool) -> list[int]:
    """A number for each of NODES of A (SIDE 0) or B (1): its pair's, or, if it is free, of what it is (NEAR: and its
    neighbours)."""
    numbers, labels = matching.numbers, (matching.a, matching.b)[side].shaped
    out: list[int] = []
    for node in nodes:
        i = node if not side else matching.back[node]
        if i != FREE and matching.mates[i] != FREE:
            out.append(numbers["pair", i])
        else:
            out.append(matching.near(side, node) if near else labels[node])
    return out


def _has_reader(matching: Matching, i: int, j: int) -> bool:
    """Whether one who reads I is the partner of one who reads J so."""
    readers = {(matching.mates[v], slot, port) for v, slot, port in matching.a.users[i]}
    return any(use in readers for use in matching.b.users[j])


def _canonical_order(side: Side, ends: Sequence[int]) -> list[int]:
    """The nodes in the order in which a walk over the inputs, in their order, leaves them, from each of ENDS."""
    seen = bytearray(side.size)
    out: list[int] = []
    inputs = side.inputs
    for end in ends:
        if seen[end]:
            continue
        seen[end] = 1
        path = [(end, iter(inputs[end]))]
        while path:
            node, reads = path[-1]
            for producer, _ in reads:
                if not seen[producer]:
                    seen[producer] = 1
                    if not side.is_constant[producer]:
                        path.append((producer, iter(inputs[producer])))
                        break
            else:
                out.append(node)
                path.pop()
    return out


def _ends(side: Side, down: Sequence[int], up: Sequence[int]) -> list[int]:
    """Returns the nodes without consumers, in an order that their content determines; nodes without one are equal."""
    ends = [node for node in side.inner if not side.users[node]]
    counts = Counter((down[end], up[end]) for end in ends)
    alone = [end for end in ends if counts[down[end], up[end]] == 1]
    return sorted(alone, key=lambda end: (down[end], up[end]))


def _constants(matching: Matching, by_name: bool) -> None:
    """Pairs constants by their consumers; constants without paired consumers by their value, and by name."""
    a, b = matching.a, matching.b
    for labels_a, labels_b in ((a.content, b.content), (a.structure, b.structure), (a.kind, b.kind)):
        for i, j in list(matching.pairs()):
            reads = b.inputs[j]
            for slot, (u, port) in enumerate(a.inputs[i]):
                if slot >= len(reads) or not a.is_constant[u]:
                    continue
                v, other = reads[slot]
                if b.is_constant[v] and port == other and matching.is_free(u, v) and labels_a[u] == labels_b[v]:
                    matching.pair(u, v, "read by")
    places = {name: j for j, name in enumerate(b.names)} if by_name else {}
    for i, is_constant in enumerate(a.is_constant):
        j = places.get(a.names[i], FREE) if is_constant else FREE
        if j != FREE and matching.is_free(i, j) and b.is_constant[j] and a.structure[i] == b.structure[j]:
            matching.pair(i, j, "name")
    numbers, mates, back = matching.numbers, matching.mates, matching.back
    free_a = [i for i, is_constant in enumerate(a.is_constant) if is_constant and mates[i] == FREE]
    free_b = [j for j, is_constant in enumerate(b.is_constant) if is_constant and back[j] == FREE]
    for labels_a, labels_b in ((a.content, b.content), (a.structure, b.structure)):
        keys_a = {i: numbers["placed", labels_a[i], _order_around(a, i, mates.__getitem__)] for i in free_a}
        keys_b = {j: numbers["placed", labels_b[j], _order_around(b, j, _partnered(back))] for j in free_b}
        for group, others in _groups(free_a, free_b, keys_a, keys_b):
            nodes = [i for i in group if mates[i] == FREE]
            are_unread = not any(a.users[i] for i in nodes) and not any(b.users[j] for j in others)
            is_telling = are_unread or (labels_a is a.content and a.forms[group[0]].is_trained)
            is_sure = labels_a is a.content or len(nodes) == 1
            if len(nodes) == len(others) and is_telling and is_sure:
                for i, j in zip(nodes, others, strict=True):
                    if matching.is_free(i, j):
                        matching.pair(i, j, "value")


def _partnered(back: Sequence[int]) -> Callable[[int], int]:
    return lambda j: j if back[j] != FREE else FREE


def _order_around(side: Side, node: int, name: Callable[[int], int]) -> tuple[tuple[int, ...], ...]:
    """What a node waits for, and what waits for it, as NAME calls them."""
    return tuple(tuple(sorted(map(name, nodes))) for nodes in (side.controls[node], side.waiting[node]))


def _passed(matching: Matching) -> None:
    """Pairs what passes on constants that are partners: by what it reads, then by the constant; by name, if it can."""
    a, b = matching.a, matching.b
    direct_a, direct_b = ({n: side.written[n][0][0] for n in side.passed} for side in (a, b))
    for sources_a, sources_b in ((direct_a, direct_b), (a.passed, b.passed)):
        passing: dict[int, dict[str, int]] = defaultdict(dict)
        for j, source in sources_b.items():
            if matching.back[j] == FREE:
                passing[source][b.names[j]] = j
        for i, source in sources_a.items():
            others = passing.get(matching.mates[source])
            if not others or matching.mates[i] != FREE:
                continue
            name = a.names[i] if a.names[i] in others else next(iter(others))
            matching.pair(i, others.pop(name), "passes on")
