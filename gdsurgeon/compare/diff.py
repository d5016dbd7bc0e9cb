"""Compares two graphs: finds which node became which, and the differences, including functions."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from gdsurgeon.analysis.queries.constants import value_of
from gdsurgeon.arguments import public
from gdsurgeon.compare.changes import SHAPE, Change, EndChange, SignatureChange, changes, end_changes, signature_changes
from gdsurgeon.compare.distance import Distance, are_stored_alike, distance, has_value
from gdsurgeon.compare.match import match
from gdsurgeon.compare.matching import FREE, Matching
from gdsurgeon.compare.surroundings import Difference as Surrounding
from gdsurgeon.compare.surroundings import compare_surroundings
from gdsurgeon.container.load import Model
from gdsurgeon.errors import EditError, InputError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.values import Data
from gdsurgeon.wire.protos import FunctionDef
from gdsurgeon.wire.source import Source

NAMES, WEIGHTS, SHAPES = "names", "weights", "shapes"
IGNORABLE = (NAMES, WEIGHTS, SHAPES)
"""Differences that can be ignored."""


_NO_DIFFERENCES = frozenset(("a", "b", "matching", "weights", "unread"))
"""The fields of a `Difference` that are not differences."""


class ValueChange(NamedTuple):
    """Partners with different values: A's `i` and B's `j`; the distance is None if a value cannot be read."""

    i: int
    j: int
    is_weight: bool
    distance: Distance | None


@dataclass(eq=False, repr=False)
class Difference(Data):
    """The differences between the graphs A and B.

    Attributes:
        a, b: the graphs.
        matching: which node became which; None if both have the same bytes.
        changes: partners that differ in more than names and values.
        renamed: partners with different names.
        hunks: the removed and added nodes.
        values: constants and variables with different values.
        weights: the number of compared constants and variables that training may have set.
        unread: the number of variables whose values are in no available checkpoint.
        ends: inputs and outputs that differ.
        signatures: the differences of signatures.
        around: other differences of two models, outside the graphs.
        functions: the bodies that differ, by the names of both functions.
        functions_renamed: functions with different names.
        functions_removed, functions_added: functions without a partner.
        is_opaque: whether these are bodies that differ and cannot be read as graphs.
    """

    a: Graph
    b: Graph
    matching: Matching | None = None
    changes: list[Change] = field(default_factory=list)
    renamed: list[tuple[int, int]] = field(default_factory=list)
    hunks: list[Hunks] = field(default_factory=list)
    values: list[ValueChange] = field(default_factory=list)
    weights: int = 0
    unread: int = 0
    ends: list[EndChange] = field(default_factory=list)
    signatures: list[SignatureChange] = field(default_factory=list)
    around: list[Surrounding] = field(default_factory=list)
    functions: dict[tuple[str, str], Difference] = field(default_factory=dict)
    functions_renamed: list[tuple[str, str]] = field(default_factory=list)
    functions_removed: list[str] = field(default_factory=list)
    functions_added: list[str] = field(default_factory=list)
    is_opaque: bool = False

    @property
    def removed(self) -> list[int]:
        """Returns the nodes of A without a partner."""
        return [i for i, mate in enumerate(self.matching.mates) if mate == FREE] if self.matching is not None else []

    @property
    def added(self) -> list[int]:
        """The nodes of B that are new."""
        return [j for j, mate in enumerate(self.matching.back) if mate == FREE] if self.matching is not None else []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is different."""
        return not any(value for key, value in vars(self).items() if key not in _NO_DIFFERENCES)

    def names(self, i: int, j: int) -> tuple[str, str]:
        """Returns the names of the node `i` of A and the node `j` of B."""
        assert self.matching is not None
        return self.matching.a.names[i], self.matching.b.names[j]

    def mapping(self) -> str:
        """Returns the renamed nodes as ``old=new`` lines, the format of `validate --map-file`."""
        pairs = (self.names(i, j) for i, j in self.renamed)
        return "".join(f"{old}={new}\n" for old, new in pairs)

    def renamings(self) -> dict[tuple[str, str], int]:
        """Returns the changes of names, by scope if possible, the most frequent first."""
        return dict(Counter(_renamed_scope(*self.names(i, j)) for i, j in self.renamed).most_common())


def _renamed_scope(old: str, new: str) -> tuple[str, str]:
    """Returns both names without the scopes and the name that they have in common at the end."""
    before, after = old.split("/"), new.split("/")
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    return "/".join(before), "/".join(after)


# -- two graphs, with their functions ----------------------------------------------------------------------------

_PIECE = 1 << 20


def diff_models(one: Model, other: Model, ignore: Collection[str] = ()) -> Difference:
    """Returns the differences between the graphs of two models and between their other contents. See `diff`."""
    out = diff(one.graph, other.graph, ignore)
    if one.container is not None and other.container is not None:
        names = {old: new for i, j in out.matching.pairs() for old, new in [out.names(i, j)]} if out.matching else {}
        found = compare_surroundings(one.container, other.container, names)
        out.around = [
            item
            for item in found
            if not (item.place[0] == "signature" and (len(item.place) == 2 or item.place[-1] == "tensor"))
        ]  # without differences that `signatures` contains
    return out


@public
def diff(a: Graph, b: Graph, ignore: Collection[str] = ()) -> Difference:
    """Returns the differences between the graphs `a` and `b`, as they are in memory.

    Args:
        a, b: the graphs.
        ignore: differences that do not count: names, weights (values that training sets), shapes; see `IGNORABLE`.

    Raises:
        InputError: one of the graphs is broken.
    """
    a, b = a.written(), b.written()
    out = Difference(a, b)
    if a.serving is None and b.serving is None and are_same_bytes(a.source, b.source):
        return out
    out.matching = match(a, b)
    called = compare_functions(out, ignore)
    describe(out, called, ignore)
    return out


def are_same_bytes(one: Source, other: Source) -> bool:
    """Returns whether both sources have the same bytes; reading stops at the first difference."""
    if one.size != other.size:
        return False
    pieces = ((at, min(_PIECE, one.size - at)) for at in range(0, one.size, _PIECE))
    return all(one.read(*piece) == other.read(*piece) for piece in pieces)


Pair = tuple[str, str]


def compare_functions(out: Difference, ignore: Collection[str] = ()) -> dict[str, str]:
    """Adds the differences of the functions to `out`, and returns the new names of functions.

    Functions are matched by their names, then by matched calls, then by their content.
    """
    before, after = ({function.signature.name: function for function in graph.functions} for graph in (out.a, out.b))
    if not before and not after:
        return {}
    called: dict[str, str] = {}
    taken: set[str] = set()
    bodies: dict[Pair, Difference] = {}

    def follow(candidates: Iterable[Pair]) -> None:
        """Pairs functions, and the functions that matched nodes of their bodies call, if both are free."""
        pending = deque(dict.fromkeys(candidates))
        while pending:
            one, other = pending.popleft()
            if one in before and other in after and one not in called and other not in taken:
                called[one] = other
                taken.add(other)
                if before[one] != after[other]:
                    bodies[one, other] = body = _compared_bodies(out, one, other)
                    pending += _called_by_partners(body.matching)

    follow(chain(zip(before, before, strict=True), _called_by_partners(out.matching)))
    follow(
        _with_unique_content(
            [f for n, f in before.items() if n not in called], [f for n, f in after.items() if n not in taken]
        )
    )
    for pair, body in bodies.items():
        if body.matching is not None:
            describe(body, called, ignore)
        if not body.is_empty:
            out.functions[pair] = body
    out.functions_renamed = [pair for pair in called.items() if pair[0] != pair[1]] if NAMES not in ignore else []
    out.functions_removed = [name for name in before if name not in called]
    out.functions_added = [name for name in after if name not in taken]
    return called


def _compared_bodies(out: Difference, one: str, other: str) -> Difference:
    """Returns the difference of two functions, with matched nodes if both can be read as graphs."""
    try:
        a, b = Body(out.a, one, lenient=True).graph, Body(out.b, other, lenient=True).graph
    except EditError:
        return Difference(out.a, out.b, is_opaque=True)
    return Difference(a, b, match(a, b))


def _called_by_partners(matching: Matching | None) -> Iterator[Pair]:
    """Yields the functions that matched nodes call at the same place."""
    if matching is None:
        return
    for i, j in matching.pairs():
        one, other = matching.a.forms[i], matching.b.forms[j]
        yield one.op, other.op
        for key, names in one.functions.items():
            yield from zip(names, other.functions.get(key, ()), strict=False)


def _with_unique_content(*sides: Iterable[FunctionDef]) -> Iterator[Pair]:
    """Yields each two functions with equal types and ops, if no other function of either side has them."""
    groups: dict[object, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for place, functions in enumerate(sides):
        for function in functions:
            signature = function.signature
            types = [[arg.type for arg in args] for args in (signature.input_arg, signature.output_arg)]
            content = str((types, sorted(node.op for node in function.node_def)))
            groups[content][place].append(signature.name)
    return ((ones[0], others[0]) for ones, others in groups.values() if len(ones) == len(others) == 1)


# -- nodes ------------------------------------------------------------------------------------------------------


def describe(out: Difference, called: Mapping[str, str], ignore: Collection[str]) -> None:
    """Adds the differences of nodes to `out`, whose nodes are matched."""
    matching = out.matching
    assert matching is not None
    for change in changes(matching, called):
        details = tuple(detail for detail in change.details if detail.what != SHAPE or SHAPES not in ignore)
        if details:
            out.changes.append(change._replace(details=details))
    if NAMES not in ignore:
        names, others = matching.a.names, matching.b.names
        out.renamed = [(i, j) for i, j in matching.pairs() if names[i] != others[j]]
    out.hunks = hunks(matching)
    out.values = list(_values(out, ignore))
    out.ends = [end for end in end_changes(matching) if _counts(end, ignore)]
    out.signatures = list(signature_changes(matching))


def _counts(end: EndChange, ignore: Collection[str]) -> bool:
    before, after = end.before, end.after
    if before is None or after is None:
        return True
    has_other_name = before.name != after.name and NAMES not in ignore
    has_other_shape = before.shape != after.shape and SHAPES not in ignore
    return has_other_name or has_other_shape or before.dtype != after.dtype


def _values(out: Difference, ignore: Collection[str]) -> Iterator[ValueChange]:
    """Yields the constants and variables whose values differ."""
    matching = out.matching
    assert matching is not None
    a, b = matching.a, matching.b
    for i, j in matching.pairs():
        one, other = a.forms[i], b.forms[j]
        if one.op == other.op == "Const":
            if one.is_trained:
                out.weights += 1
            is_same_kind = one.tensor is not None and one.tensor == other.tensor
            if a.content[i] == b.content[j] or not is_same_kind or (one.is_trained and WEIGHTS in ignore):
                continue
            found = _distance(out, i, j)
            if found is None or found.differing:  # the same elements may be stored in two ways
                yield ValueChange(i, j, one.is_trained, found)
        elif one.tensor is not None and other.tensor is not None and WEIGHTS not in ignore:
            yield from _variable(out, i, j)


def _variable(out: Difference, i: int, j: int) -> Iterator[ValueChange]:
    """Yields the difference of two variables, or of a variable and a constant."""
    name, its_name = out.names(i, j)
    if not has_value(out.a, name) or not has_value(out.b, its_name):
        out.unread += 1
        return
    out.weights += 1
    if are_stored_alike(out.a, name, out.b, its_name):
        return
    found = _distance(out, i, j)
    if found is None or found.differing:
        yield ValueChange(i, j, True, found)


def _distance(out: Difference, i: int, j: int) -> Distance | None:
    name, its_name = out.names(i, j)
    try:
        one, other = value_of(out.a[name]), value_of(out.b[its_name])
    except InputError:
        return None
    if one is None or other is None or (one.dtype, one.shape) != (other.dtype, other.shape):
        return None
    return distance(one, other)


class Hunk(NamedTuple):
    """A replacement: nodes of A without partners, and nodes of B without partners, in file order."""

    removed: tuple[int, ...]
    added: tuple[int, ...]


class Hunks(NamedTuple):
    """Hunks in which the same numbers of nodes of the same ops were removed and added."""

    removed: Counter[str]
    added: Counter[str]
    places: tuple[Hunk, ...]


def hunks(matching: Matching) -> list[Hunks]:
    """Returns the added and removed nodes, grouped by content."""
    kinds: dict[tuple[tuple[tuple[str, int], ...], ...], list[Hunk]] = defaultdict(list)
    for hunk in _connected(matching):
        before = Counter(matching.a.forms[i].op for i in hunk.removed)
        after = Counter(matching.b.forms[j].op for j in hunk.added)
        kinds[tuple(tuple(sorted(counts.items())) for counts in (before, after))].append(hunk)
    return [Hunks(Counter(dict(b)), Counter(dict(a)), tuple(found)) for (b, a), found in kinds.items()]


def _connected(matching: Matching) -> Iterator[Hunk]:
    """Yields the connected groups of nodes without partners; groups of A and B with the same neighbors are joined."""
    a, b = matching.a, matching.b
    removed = [i for i, mate in enumerate(matching.mates) if mate == FREE]
    added = [j for j, mate in enumerate(matching.back) if mate == FREE]
    near: dict[int, list[int]] = {place: [] for place in (*removed, *(a.size + j for j in added))}

    def join(one: int, other: int) -> None:
        near[one].append(other)
        near[other].append(one)

    for side, first, free in ((a, 0, matching.mates), (b, a.size, matching.back)):
        for node in removed if not first else added:
            for producer, _ in side.written[node]:
                if free[producer] == FREE:
                    join(first + node, first + producer)
    _join_sides(matching, removed, added, join)
    seen: set[int] = set()
    for place in near:
        group = sorted(closure([place], near.__getitem__)) if place not in seen else []
        seen.update(group)
        if group:
            yield Hunk(tuple(n for n in group if n < a.size), tuple(n - a.size for n in group if n >= a.size))


def _join_sides(matching: Matching, removed: list[int], added: list[int], join: Callable[[int, int], None]) -> None:
    """Joins old and new inputs of the same node, and nodes with the same inputs, except constants."""
    a, b = matching.a, matching.b
    readers = {v for i in removed for v, _, _ in a.uses(i) if matching.mates[v] != FREE}
    for v in sorted(readers):
        for (u, _), (w, _) in zip(a.inputs[v], b.inputs[matching.mates[v]], strict=False):
            if matching.mates[u] == FREE and matching.back[w] == FREE:
                join(u, a.size + w)
    reading: dict[tuple[int, int], int] = {}
    for i in removed:
        for u, port in a.inputs[i]:
            if matching.mates[u] != FREE and not a.is_constant[u]:
                reading.setdefault((matching.mates[u], port), i)
    for j in added:
        for read in b.inputs[j]:
            if read in reading:
                join(reading[read], a.size + j)
