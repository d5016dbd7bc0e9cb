"""Compares two graphs: finds which node became which, and the differences, including functions."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator

from gdsurgeon.arguments import public
from gdsurgeon.compare.difference import NAMES, Difference, describe
from gdsurgeon.compare.match import match
from gdsurgeon.compare.matching import Matching
from gdsurgeon.compare.surroundings import compare_surroundings
from gdsurgeon.container.load import Model
from gdsurgeon.container.surroundings import Place
from gdsurgeon.errors import EditError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.protos import FunctionDef
from gdsurgeon.wire.source import Source

_PIECE = 1 << 20


def diff_models(one: Model, other: Model, ignore: Collection[str] = ()) -> Difference:
    """Returns the differences between the graphs of two models and between their other contents. See `diff`."""
    out = diff(one.graph, other.graph, ignore)
    if one.container is not None and other.container is not None:
        names = {old: new for i, j in out.matching.pairs() for old, new in [out.names(i, j)]} if out.matching else {}
        found = compare_surroundings(one.container, other.container, names)
        out.around = [item for item in found if not _is_told(item.place)]
    return out


def _is_told(place: Place) -> bool:
    """Returns whether the differences of signatures report `place`."""
    return place[0] == "signature" and (len(place) == 2 or place[-1] == "tensor")


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
    libraries = _Libraries(out.a, out.b)
    if not libraries.before and not libraries.after:
        return {}
    assert out.matching is not None
    libraries.follow(out.matching)
    libraries.pair_by_content()
    called = libraries.called
    for pair, body in libraries.bodies.items():
        if body.matching is not None:
            describe(body, called, ignore)
        if not body.is_empty:
            out.functions[pair] = body
    out.functions_renamed = [pair for pair in called.items() if pair[0] != pair[1]] if NAMES not in ignore else []
    out.functions_removed = [name for name in libraries.before if name not in called]
    taken = set(called.values())
    out.functions_added = [name for name in libraries.after if name not in taken]
    return called


class _Libraries:
    """Two libraries, while partners are sought.

    Attributes:
        before, after: the functions of both, by name.
        called: which became which.
        bodies: the bodies of partners that are not the same bytes.
    """

    def __init__(self, a: Graph, b: Graph) -> None:
        self._a, self._b = a, b
        self.before = {function.signature.name: function for function in a.functions}
        self.after = {function.signature.name: function for function in b.functions}
        self.called: dict[str, str] = {}
        self.bodies: dict[Pair, Difference] = {}
        self._taken: set[str] = set()
        self._pending: deque[Pair] = deque()
        for name in self.before:
            if name in self.after:
                self._pair(name, name)

    def _pair(self, one: str, other: str) -> None:
        if one in self.before and other in self.after and one not in self.called and other not in self._taken:
            self.called[one] = other
            self._taken.add(other)
            self._pending.append((one, other))

    def follow(self, matching: Matching) -> None:
        """Pairs the functions that partners call, recursively."""
        self._calls(matching)
        while self._pending:
            pair = self._pending.popleft()
            one, other = self.before[pair[0]], self.after[pair[1]]
            if one == other:
                continue
            body = self.bodies[pair] = self._compared(pair)
            if body.matching is not None:
                self._calls(body.matching)

    def _compared(self, pair: Pair) -> Difference:
        try:
            one, other = Body(self._a, pair[0], lenient=True).graph, Body(self._b, pair[1], lenient=True).graph
        except EditError:
            return Difference(self._a, self._b, is_opaque=True)
        out = Difference(one, other)
        out.matching = match(one, other)
        return out

    def _calls(self, matching: Matching) -> None:
        for i, j in matching.pairs():
            one, other = matching.a.forms[i], matching.b.forms[j]
            self._pair(one.op, other.op)
            for key, names in one.functions.items():
                for name, its_name in zip(names, other.functions.get(key, ()), strict=False):
                    self._pair(name, its_name)

    def pair_by_content(self) -> None:
        """Pairs functions without callers, or without callers that have partners, if their content is unique."""
        groups: dict[object, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
        for place, (functions, taken) in enumerate(((self.before, self.called), (self.after, self._taken))):
            for name, function in functions.items():
                if name not in taken:
                    groups[tuple(_content(function))][place].append(name)
        for ones, others in groups.values():
            if len(ones) == len(others) == 1:
                self._pair(ones[0], others[0])
        while self._pending:
            pair = self._pending.popleft()
            if self.before[pair[0]] != self.after[pair[1]]:
                self.bodies[pair] = self._compared(pair)


def _content(function: FunctionDef) -> Iterator[tuple[str, ...]]:
    """Yields the content of a function without names."""
    yield tuple(str(arg.type) for arg in function.signature.input_arg)
    yield tuple(str(arg.type) for arg in function.signature.output_arg)
    yield tuple(sorted(node.op for node in function.node_def))
