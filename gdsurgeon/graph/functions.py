"""The function library: copied by span, decoded on demand, extended by whole functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from gdsurgeon.errors import InputError, Json, printable
from gdsurgeon.graph.attrs import functions_in, is_too_deeply_nested
from gdsurgeon.graph.journal import Journal
from gdsurgeon.graph.records import LIBRARY, distinct
from gdsurgeon.ops.op_defs import Arg, AttrDef, OpDef, op_def
from gdsurgeon.wire.fields import LEN, Field, WireError, encode_len, encode_varint, fields
from gdsurgeon.wire.protos import ArgDef, FunctionDef, FunctionDefLibrary, GradientDef, NodeDef, decode_error
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of

T = TypeVar("T", bound=Hashable)


def closure(starts: Iterable[T], step: Callable[[T], Iterable[T]]) -> set[T]:
    """Returns `starts` and all items that `step` reaches from them, directly or indirectly; does not recurse."""
    out = set(starts)
    pending = list(out)
    while pending:
        new = set(step(pending.pop())) - out
        out |= new
        pending += new
    return out


class _Entry:
    """A function of the library. `place` is its index among the functions of the file; None if an edit added it."""

    __slots__ = ("calls", "changed", "function", "place")

    def __init__(self, function: FunctionDef, place: int | None) -> None:
        self.function = function
        self.place = place
        self.changed = place is None
        self.calls: tuple[str, ...] | None = None  # the functions that it calls, once requested

    def copy(self) -> _Entry:
        out = _Entry(self.function, self.place)
        out.changed, out.calls = self.changed, self.calls
        return out

    def encoded(self) -> bytes:
        return encode_len(_FUNCTION, self.function.SerializeToString(deterministic=True))


_FUNCTION, _GRADIENT = 1, 2
"""Field numbers of FunctionDefLibrary."""
MOST_FUNCTIONS = 100_000
"""Limit on functions: each needs at least a kilobyte of memory, but an empty function only two bytes of the file."""


class FunctionLibrary:
    """The functions of a graph. Unchanged functions are written by copying their bytes.

    Args:
        source: the graph's source.
        spans: its top-level library fields (protobuf allows several; they add up).
        journal: records each change, so that it can be undone.

    Attributes:
        version: a number that increases with every change.
        is_changed: whether functions were added, replaced or removed.
    """

    def __init__(self, source: Source, spans: list[Field], journal: Journal) -> None:
        self._source = source
        self._spans = spans
        self.journal = journal
        self._entries: dict[_Entry, None] | None = None  # in order
        self._by_name: dict[str, _Entry] = {}
        self._gradients: dict[int, GradientDef] = {}
        self._new_gradients: dict[int, GradientDef] = {}
        self.version = 0
        self.is_changed = False
        self._by_place: tuple[tuple[int, int], dict[int, _Entry]] | None = None
        self._first_places: dict[int, int] = {}  # from the start of a library field to the index of its first function

    def __len__(self) -> int:
        return len({entry.function.signature.name for entry in self._all()})

    def __bool__(self) -> bool:
        """Returns whether the library has any function, without counting them."""
        return bool(self._all())

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __iter__(self) -> Iterator[FunctionDef]:
        """Yields the FunctionDefs in file order, including duplicate names, then the added ones. Do not modify them."""
        return iter([entry.function for entry in self._all()])

    def get(self, name: str) -> FunctionDef | None:
        """Returns the FunctionDef `name`, or None. Do not modify it: pass a changed copy to `replace`."""
        entry = self._find(name)
        return None if entry is None else entry.function

    def __getitem__(self, name: str) -> FunctionDef:
        """Returns the FunctionDef `name`, which must exist; see `get`."""
        return self._by_name[name].function

    def calls(self, name: str) -> tuple[str, ...]:
        """Returns the functions that the function `name` calls or forwards, each once, even if not in the library."""
        entry = self._find(name)
        if entry is None:
            return ()
        if entry.calls is None:
            nodes = entry.function.node_def
            entry.calls = tuple(dict.fromkeys(callee for node in nodes for callee in called_functions(node, self)))
        return entry.calls

    def reachable(self, names: Iterable[str], *, gradients: bool = False) -> list[str]:
        """Returns the `names` in the library and the library functions they call, directly or indirectly, each once.

        With `gradients`, also the functions that are registered as gradients of any of them.
        """
        registered: dict[str, list[str]] = {}
        for gradient in self.gradients() if gradients else ():
            registered.setdefault(gradient.function_name, []).append(gradient.gradient_func)
        out = dict.fromkeys(name for name in names if name in self)
        pending = list(out)
        for name in pending:  # grows during the loop
            for callee in (*self.calls(name), *registered.get(name, ())):
                if callee in self and callee not in out:
                    out[callee] = None
                    pending.append(callee)
        return list(out)

    def reaching(self, names: Iterable[str]) -> set[str]:
        """Returns `names` and the functions that call one of them, directly or indirectly."""
        callers: dict[str, list[str]] = {}
        for function in self:
            for callee in self.calls(function.signature.name):
                callers.setdefault(callee, []).append(function.signature.name)
        return closure(names, lambda name: callers.get(name, ()))

    def gradients(self) -> list[GradientDef]:
        """Returns the GradientDefs (name of a function, name of its gradient function)."""
        self._all()
        return [*self._gradients.values(), *self._new_gradients.values()]

    def other_fields(self) -> bytes:
        """Returns the fields of the library other than functions and GradientDefs, serialized."""
        out: list[bytes] = []
        for span in self._spans:
            data = self._source.read(span.value, span.end - span.value)
            out += [data[f.start : f.end] for f in fields(data, 0, len(data)) if f.number not in (_FUNCTION, _GRADIENT)]
        return b"".join(out)

    def _find(self, name: str) -> _Entry | None:
        if not self._spans and not self._entries:
            return None
        self._all()
        return self._by_name.get(name)

    def _all(self) -> dict[_Entry, None]:
        if self._entries is None:
            entries: dict[_Entry, None] = {}
            for span, library in zip(self._spans, self._libraries(), strict=True):
                self._first_places[span.start] = len(entries)
                for function in library.function:
                    entry = _Entry(function, len(entries))
                    entries[entry] = None
                    self._by_name.setdefault(function.signature.name, entry)
                self._gradients.update(enumerate(library.gradient, len(self._gradients)))
            self._entries = entries
        return self._entries

    def _libraries(self) -> list[FunctionDefLibrary]:
        out: list[FunctionDefLibrary] = []
        count = 0
        for span in self._spans:
            data = self._source.read(span.value, span.end - span.value)
            count += self._count(data, MOST_FUNCTIONS - count)
            try:
                out.append(FunctionDefLibrary.FromString(data))
            except decode_error():
                nested = is_too_deeply_nested(data, "library")
                what = "too deeply nested (function attrs inside function attrs)" if nested else "corrupt"
                raise InputError(
                    f"the function library of {printable(self._source.name)} is {what}",
                    code="too-deep" if nested else "corrupt",
                    file=self._source.name,
                ) from None
        return out

    def _count(self, data: bytes, most: int) -> int:
        """Returns the number of functions in the serialised library `data`. Raises InputError: it exceeds `most`."""
        found = (field for field in fields(data, 0, len(data)) if field.number == _FUNCTION)
        try:
            count = sum(1 for _ in islice(found, most + 1))
        except WireError:
            return 0  # it is reported when the library is read
        if count > most:
            line = f"{printable(self._source.name)} has more than {MOST_FUNCTIONS:,} functions"
            facts: dict[str, Json] = {"file": self._source.name, "most": MOST_FUNCTIONS, "reason": "functions"}
            raise InputError(line, code="too-large", facts=facts)
        return count

    def add(self, function: FunctionDef) -> None:
        """Adds a FunctionDef; its name must be free."""
        name = function.signature.name
        assert self._find(name) is None
        entry = _Entry(function, None)
        self.journal.set_item(self._all(), entry, None)
        self.journal.set_item(self._by_name, name, entry)
        self._note()

    def replace(self, function: FunctionDef) -> None:
        """Replaces the function that has the same name as `function`."""
        entry = self._find(function.signature.name)
        assert entry is not None
        for key, value in (("function", function), ("calls", None), ("changed", True)):
            self.journal.set_attribute(entry, key, value)
        self._note()

    def remove(self, names: Collection[str]) -> None:
        """Removes functions, and the GradientDefs that name them."""
        names = frozenset(names)
        left = {entry: None for entry in self._all() if entry.function.signature.name not in names}
        self.journal.set_attribute(self, "_entries", left)
        for name in names:
            self.journal.drop_item(self._by_name, name)
        for key in ("_gradients", "_new_gradients"):
            found: dict[int, GradientDef] = getattr(self, key)
            kept = {n: g for n, g in found.items() if not names & {g.function_name, g.gradient_func}}
            self.journal.set_attribute(self, key, kept)
        self._note()

    def add_gradient(self, gradient: GradientDef) -> None:
        """Adds a GradientDef."""
        self._all()
        number = next(reversed(self._new_gradients), -1) + 1
        self.journal.set_item(self._new_gradients, number, gradient)
        self._note()

    def _note(self) -> None:
        """Records that the library has changed."""
        self.version += 1
        if not self.is_changed:
            self.journal.set_attribute(self, "is_changed", True)

    def copy(self, journal: Journal) -> FunctionLibrary:
        """Returns an independent library with the same functions; `journal` records its changes."""
        out = FunctionLibrary(self._source, self._spans, journal)
        copies = {entry: entry.copy() for entry in self._all()}
        out._entries = dict.fromkeys(copies.values())
        out._by_name = {name: copies[entry] for name, entry in self._by_name.items()}
        out._gradients, out._new_gradients = dict(self._gradients), dict(self._new_gradients)
        out._first_places, out.is_changed = self._first_places, self.is_changed
        return out

    def chunks(self) -> list[Chunk]:
        """Returns all library fields as they are now."""
        return [chunk for span in self._spans for chunk in self.chunks_of(span)] if self._spans else self.added_chunks()

    def added_chunks(self) -> list[Chunk]:
        """Returns a library field with the additions to a file that has no library; nothing if there are none."""
        added = self._added()
        return [encode_len(LIBRARY, added)] if added else []

    def chunks_of(self, field: Field) -> list[Chunk]:
        """Returns a library `field` of the file as it is now; the last field also contains the additions."""
        self._all()
        body, is_same = self._body(field, self._first_places[field.start])
        added = self._added() if field == self._spans[-1] else b""
        if is_same and not added:
            return [SourceSpan(self._source, field.start, field.end)]
        chunks: list[Chunk] = [*body, added] if added else body
        size = size_of(chunks)
        head = encode_varint(LIBRARY << 3 | LEN) + encode_varint(size)
        return [head, *chunks] if size else []

    def _added(self) -> bytes:
        out = [entry.encoded() for entry in self._all() if entry.place is None]
        out += [encode_len(_GRADIENT, g.SerializeToString(deterministic=True)) for g in self._new_gradients.values()]
        return b"".join(out)

    def _left(self) -> dict[int, _Entry]:
        """Returns the functions of the file that were not removed, by `place`."""
        now = self.version, self.journal.rewinds
        if self._by_place is None or self._by_place[0] != now:
            self._by_place = now, {entry.place: entry for entry in self._all() if entry.place is not None}
        return self._by_place[1]

    def _body(self, span: Field, first: int) -> tuple[list[Chunk], bool]:
        """Returns the fields of a library field as they are now, and whether they are all unchanged.

        `first` is the index of its first function.
        """
        left = self._left()
        kept_gradients = {(g.function_name, g.gradient_func) for g in self._gradients.values()}
        out: list[Chunk] = []
        place, is_same = first, True
        data = self._source.read(span.value, span.end - span.value)
        for field in fields(data, 0, len(data)):
            chunk: Chunk | None = SourceSpan(self._source, span.value + field.start, span.value + field.end)
            if field.number == _FUNCTION and field.wire_type == LEN:
                entry = left.get(place)
                place += 1
                if entry is None or entry.changed:
                    chunk = None if entry is None else entry.encoded()
                    is_same = False
            elif field.number == _GRADIENT and field.wire_type == LEN:
                gradient = GradientDef.FromString(data[field.value : field.end])
                if (gradient.function_name, gradient.gradient_func) not in kept_gradients:
                    chunk, is_same = None, False
            if chunk is not None:
                out.append(chunk)
        return out, is_same


class Nodes(NamedTuple):
    """The nodes of a function, column by column.

    Attributes:
        names: one for each node.
        inputs: for each node its inputs as spelt in the function.
        forms: the serialized fields of nodes other than names, inputs and debug info, each once.
        form_of: for each node the index of its form.
    """

    names: list[str]
    inputs: list[list[str]]
    forms: list[bytes]
    form_of: list[int]


def nodes_of(function: FunctionDef) -> Nodes:
    """Returns the nodes of `function`."""
    copy = FunctionDef()
    copy.CopyFrom(function)
    nodes = list(copy.node_def)
    names, inputs = [node.name for node in nodes], [node.input[:] for node in nodes]
    for node in nodes:
        node.ClearField("name")
        node.ClearField("input")
        node.ClearField("experimental_debug_info")
    return Nodes(names, inputs, *distinct([node.SerializeToString(deterministic=True) for node in nodes]))


def called_functions(node: NodeDef, library: FunctionLibrary) -> list[str]:
    """Returns the functions that a NodeDef calls or forwards: those in its attrs, and its op if in the library."""
    called = [func.name for value in node.attr.values() for func in functions_in(value)]
    if node.op in library:
        called.append(node.op)
    return called


def function_op_def(function: FunctionDef) -> OpDef:
    """Returns the signature of a library function in the form of an op's signature."""
    signature = function.signature
    attrs = {a.name: AttrDef(a.name, a.type, a.HasField("default_value"), None) for a in signature.attr}
    return OpDef(
        signature.name,
        tuple(_arg(arg) for arg in signature.input_arg),
        tuple(_arg(arg) for arg in signature.output_arg),
        attrs,
        signature.is_stateful,
    )


def _arg(arg: ArgDef) -> Arg:
    return Arg(arg.name, arg.type, arg.type_attr, arg.number_attr, arg.type_list_attr, arg.is_ref)


def resolve_op(name: str, library: FunctionLibrary) -> OpDef | None:
    """Returns the signature of the op or else the library function `name`; None if there is neither."""
    found = op_def(name)
    if found is None:
        function = library.get(name)
        if function is not None:
            return function_op_def(function)
    return found
