"""All that is different between two graphs, names aside."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.analysis.queries.constants import value_of
from gdsurgeon.analysis.traversal.order import UnionFind
from gdsurgeon.compare.changes import SHAPE, Change, EndChange, SignatureChange, changes, end_changes, signature_changes
from gdsurgeon.compare.distance import Distance, distance, distance_of_few
from gdsurgeon.compare.matching import FREE, Matching
from gdsurgeon.compare.side import Form
from gdsurgeon.compare.surroundings import Difference as Surrounding
from gdsurgeon.errors import InputError
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.constants import decode_tensor
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64, INT32, INT64
from gdsurgeon.values import Data

NAMES, WEIGHTS, SHAPES = "names", "weights", "shapes"
IGNORABLE = (NAMES, WEIGHTS, SHAPES)
"""Differences that can be ignored."""


MOST_FEW = 64
"""Elements up to which numbers are compared one by one."""


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
        return not (
            self.is_opaque
            or self.changes
            or self.renamed
            or self.hunks
            or self.values
            or self.ends
            or self.signatures
            or self.around
            or self.functions
            or self.functions_renamed
            or self.functions_removed
            or self.functions_added
        )

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
        counts: dict[tuple[str, str], int] = {}
        for i, j in self.renamed:
            pair = _renamed_scope(*self.names(i, j))
            counts[pair] = counts.get(pair, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _renamed_scope(old: str, new: str) -> tuple[str, str]:
    """Returns both names without the scopes and the name that they have in common at the end."""
    before, after = old.split("/"), new.split("/")
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    return "/".join(before), "/".join(after)


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
            found = _of_few(one, other) or _distance(out, i, j)
            if found is None or found.differing:  # the same elements may be stored in two ways
                yield ValueChange(i, j, one.is_trained, found)
        elif one.tensor is not None and other.tensor is not None and WEIGHTS not in ignore:
            yield from _variable(out, i, j)


def _variable(out: Difference, i: int, j: int) -> Iterator[ValueChange]:
    """Yields the difference of two variables, or of a variable and a constant."""
    from gdsurgeon.compare.distance import are_stored_alike, has_value

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


def _of_few(one: Form, other: Form) -> Distance | None:
    """Returns the distance of two small constants of numbers; None if they are not."""
    if not one.value or not other.value:
        return None
    a, b = (decode_tensor(attr_value(form.value).tensor) for form in (one, other))
    if a is None or b is None or a.dtype not in (FLOAT32, FLOAT64, INT32, INT64) or len(a.values) > MOST_FEW:
        return None
    return distance_of_few(a, b)


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
    """Returns the added and removed nodes, grouped by content, the largest first."""
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
    places = UnionFind(a.size + b.size)
    for side, first, free in ((a, 0, matching.mates), (b, a.size, matching.back)):
        for node in removed if not first else added:
            for producer, _ in side.written[node]:
                if free[producer] == FREE:
                    places.join(first + node, first + producer)
    _join_sides(matching, removed, added, places)
    pieces: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for i in removed:
        pieces[places.root(i)][0].append(i)
    for j in added:
        pieces[places.root(a.size + j)][1].append(j)
    for gone, new in pieces.values():
        yield Hunk(tuple(gone), tuple(new))


def _join_sides(matching: Matching, removed: list[int], added: list[int], places: UnionFind) -> None:
    """Joins old and new inputs of the same node, and nodes with the same inputs, except constants."""
    a, b = matching.a, matching.b
    readers = {v for i in removed for v, _, _ in a.users[i] if matching.mates[v] != FREE}
    for v in sorted(readers):
        for (u, _), (w, _) in zip(a.inputs[v], b.inputs[matching.mates[v]], strict=False):
            if matching.mates[u] == FREE and matching.back[w] == FREE:
                places.join(u, a.size + w)
    reading: dict[tuple[int, int], int] = {}
    for i in removed:
        for u, port in a.inputs[i]:
            if matching.mates[u] != FREE and not a.is_constant[u]:
                reading.setdefault((matching.mates[u], port), i)
    for j in added:
        for read in b.inputs[j]:
            if read in reading:
                places.join(reading[read], a.size + j)
