"""The function library: copied by span, decoded on demand, extended by whole functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from copy import copy
from typing import NamedTuple, TypeVar

from gdsurgeon.errors import InputError, printable
from gdsurgeon.graph.attrs import functions_in, is_too_deeply_nested
from gdsurgeon.graph.journal import Journal
from gdsurgeon.graph.records import LIBRARY, distinct
from gdsurgeon.ops.op_defs import Arg, AttrDef, OpDef, op_def
from gdsurgeon.wire.fields import LEN, Field, WireError, encode_len, encode_varint, fields
from gdsurgeon.wire.protos import ArgDef, FunctionDef, GradientDef, NodeDef, decode_error
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks, size_of

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
    """A field of the library: a function, a GradientDef, or an unknown field.

    `place` is its span in the file; None if an edit has made it. `home` is the start of the library field around it.
    """

    __slots__ = ("calls", "function", "gradient", "home", "place")

    def __init__(
        self, home: int, place: SourceSpan | None, function: FunctionDef | None, gradient: GradientDef | None = None
    ) -> None:
        self.home, self.place, self.function, self.gradient = home, place, function, gradient
        self.calls: tuple[str, ...] | None = None  # the functions that it calls, once requested

    def names(self, names: frozenset[str]) -> bool:
        """Returns whether it is a function with one of `names`, or a GradientDef that refers to one of them."""
        if self.function is not None:
            return self.function.signature.name in names
        gradient = self.gradient
        return gradient is not None and not names.isdisjoint((gradient.function_name, gradient.gradient_func))

    def chunk(self) -> Chunk:
        """Returns its bytes."""
        if self.place is not None:
            return self.place
        number, message = (_FUNCTION, self.function) if self.function is not None else (_GRADIENT, self.gradient)
        assert message is not None
        return encode_len(number, message.SerializeToString(deterministic=True))


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
        self.version = 0
        self.is_changed = False

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __iter__(self) -> Iterator[FunctionDef]:
        """Yields the FunctionDefs in file order, including duplicate names, then the added ones. Do not modify them."""
        return iter([entry.function for entry in self._all() if entry.function is not None])

    def get(self, name: str) -> FunctionDef | None:
        """Returns the FunctionDef `name`, or None. Do not modify it: pass a changed copy to `replace`."""
        entry = self._find(name)
        return None if entry is None else entry.function

    def __getitem__(self, name: str) -> FunctionDef:
        """Returns the FunctionDef `name`, which must exist; see `get`."""
        function = self._names()[name].function
        assert function is not None
        return function

    def calls(self, name: str) -> tuple[str, ...]:
        """Returns the functions that the function `name` calls or forwards, each once, even if not in the library."""
        entry = self._find(name)
        if entry is None or entry.function is None:
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
        return [entry.gradient for entry in self._all() if entry.gradient is not None]

    def other_fields(self) -> bytes:
        """Returns the fields of the library other than functions and GradientDefs, serialized."""
        return read_chunks(entry.chunk() for entry in self._all() if entry.function is None and entry.gradient is None)

    def _find(self, name: str) -> _Entry | None:
        return self._names().get(name) if self._spans or self._entries else None

    def _names(self) -> dict[str, _Entry]:
        self._all()
        return self._by_name

    def _all(self) -> dict[_Entry, None]:
        if self._entries is None:
            entries: dict[_Entry, None] = {}
            for span in self._spans:
                data = self._source.read(span.value, span.end - span.value)
                try:
                    self._read(span, data, entries)
                except (WireError, decode_error()):
                    nested = is_too_deeply_nested(data, "library")
                    what = "too deeply nested (function attrs inside function attrs)" if nested else "corrupt"
                    raise InputError(
                        f"the function library of {printable(self._source.name)} is {what}",
                        code="too-deep" if nested else "corrupt",
                        file=self._source.name,
                    ) from None
            self._entries = entries
        return self._entries

    def _read(self, span: Field, data: bytes, entries: dict[_Entry, None]) -> None:
        """Adds the fields of a library field to `entries`. Raises InputError: there are too many functions."""
        for field in fields(data, 0, len(data)):
            if len(entries) == MOST_FUNCTIONS:
                line = f"{printable(self._source.name)} has more than {MOST_FUNCTIONS:,} functions"
                raise InputError(
                    line, code="too-large", file=self._source.name, most=MOST_FUNCTIONS, reason="functions"
                )
            number = field.number if field.wire_type == LEN else 0
            body = data[field.value : field.end]
            entry = _Entry(
                span.start,
                SourceSpan(self._source, span.value + field.start, span.value + field.end),
                FunctionDef.FromString(body) if number == _FUNCTION else None,
                GradientDef.FromString(body) if number == _GRADIENT else None,
            )
            entries[entry] = None
            if entry.function is not None:
                self._by_name.setdefault(entry.function.signature.name, entry)

    def add(self, function: FunctionDef) -> None:
        """Adds a FunctionDef; its name must be free."""
        name = function.signature.name
        assert self._find(name) is None
        self.journal.set_item(self._by_name, name, self._add(function))

    def replace(self, function: FunctionDef) -> None:
        """Replaces the function that has the same name as `function`."""
        entry = self._find(function.signature.name)
        assert entry is not None
        for key, value in (("function", function), ("calls", None), ("place", None)):
            self.journal.set_attribute(entry, key, value)
        self._note()

    def remove(self, names: Collection[str]) -> None:
        """Removes functions, and the GradientDefs that name them."""
        gone = frozenset(names)
        self.journal.set_attribute(self, "_entries", {entry: None for entry in self._all() if not entry.names(gone)})
        for name in gone:
            self.journal.drop_item(self._by_name, name)
        self._note()

    def add_gradient(self, gradient: GradientDef) -> None:
        """Adds a GradientDef."""
        self._add(None, gradient)

    def _add(self, function: FunctionDef | None, gradient: GradientDef | None = None) -> _Entry:
        entry = _Entry(self._spans[-1].start if self._spans else -1, None, function, gradient)
        self.journal.set_item(self._all(), entry, None)
        self._note()
        return entry

    def _note(self) -> None:
        """Records that the library has changed."""
        self.version += 1
        if not self.is_changed:
            self.journal.set_attribute(self, "is_changed", True)

    def copy(self, journal: Journal) -> FunctionLibrary:
        """Returns an independent library with the same functions; `journal` records its changes."""
        out = FunctionLibrary(self._source, self._spans, journal)
        copies = {entry: copy(entry) for entry in self._all()}
        out._entries = dict.fromkeys(copies.values())
        out._by_name = {name: copies[entry] for name, entry in self._by_name.items()}
        out.is_changed = self.is_changed
        return out

    def written(self) -> list[tuple[Field | None, list[Chunk]]]:
        """Returns the library fields of the file, each with its chunks as they are now; unchanged ones are spans.

        The last field also contains the additions. If the file has no library, they are a new field, None.
        """
        bodies: dict[int, list[Chunk]] = {span.start: [] for span in self._spans} or {-1: []}
        for entry in self._all():
            bodies[entry.home].append(entry.chunk())
        spans: list[Field | None] = [*self._spans] or [None]
        out: list[tuple[Field | None, list[Chunk]]] = []
        for span, body in zip(spans, bodies.values(), strict=True):
            size = size_of(body)
            if span is not None and size == span.end - span.value and not any(isinstance(c, bytes) for c in body):
                out.append((span, [SourceSpan(self._source, span.start, span.end)]))
            else:
                head = encode_varint(LIBRARY << 3 | LEN) + encode_varint(size)
                out.append((span, [head, *body] if size else []))
        return out

    def chunks(self) -> list[Chunk]:
        """Returns all library fields as they are now."""
        return [chunk for _, chunks in self.written() for chunk in chunks]


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
    own = FunctionDef()
    own.CopyFrom(function)
    nodes = list(own.node_def)
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
