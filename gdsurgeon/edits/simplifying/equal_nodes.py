"""Equal nodes once: who reads the second of two that compute the same reads the first."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from gdsurgeon.edits.simplifying.draft import CONTROL, Draft
from gdsurgeon.graph.constants import constant_span
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import Batch, Record, batches
from gdsurgeon.ops.kinds import ASIDE, PLACEHOLDERS
from gdsurgeon.wire.node_record import Header, read_header

_NEVER = PLACEHOLDERS | {"NoOp"}
_LONG = 1 << 12
"""Bytes of a value above which its sum is compared."""
_STEP = 1 << 20
"""Bytes of a value that are read at a time."""

_Key = tuple[object, ...]


def equal_nodes(draft: Draft) -> None:
    """Nodes of one op that read the same, with the same attrs, on the same device."""
    alike = draft.remembered(_Alike)
    alike.begin()
    ops = {op for op in draft.topology.ops() if op not in _NEVER and not draft.takes_functions(op)}
    is_other_order = False
    for number in draft.again("equal-nodes", ops):
        if number in draft.merges or not draft.is_pure(number):
            continue
        first = alike.first(draft, number)
        if first == number:
            continue
        if not draft.is_named(number):
            draft.stand_in(number, first)
        elif not draft.is_named(first):
            draft.stand_in(first, number)
            alike.put_first(number)
            is_other_order = True
    draft.settle("equal-nodes")
    if is_other_order:
        draft.refresh()


class _Alike:
    """Which nodes are the same, from one time to the next.

    Of most nodes there is no second that reads the same: attrs are looked at where there is.
    """

    def __init__(self, draft: Draft) -> None:
        self._forms = _Forms(draft)
        self._reads: dict[int, _Key] = {}  # what each node was found to read, when it was looked at last
        self._keys: dict[int, _Key] = {}  # of the nodes whose attrs were looked at
        self._alone: dict[_Key, int] = {}  # by what it reads the one node that does, or _SEVERAL
        self._same: dict[_Key, dict[int, None]] = {}  # by their key nodes that were the same when they were looked at
        self._firsts: dict[_Key, int] = {}  # by their key the node that comes first

    def begin(self) -> None:
        """Has nodes be compared anew: which comes first may be another now."""
        self._firsts = {}

    def put_first(self, number: int) -> None:
        """Has those behind a node that are the same as it be compared with that."""
        self._firsts[self._keys[number]] = number

    def first(self, draft: Draft, number: int) -> int:
        """The first of the nodes that are the same as a node; itself, where no other comes before it."""
        reads = self._reads[number] = self._read(draft, number)
        other = self._alone.setdefault(reads, number)
        if other not in (number, _SEVERAL):
            if self._still_reads(draft, other, reads):
                self._alone[reads] = _SEVERAL
                self._same.setdefault(self._key(draft, other), {})[other] = None
            else:
                self._alone[reads] = number
        if self._alone[reads] == number:
            return number
        key = self._key(draft, number)
        if key not in self._firsts:
            self._firsts[key] = self._first_of_others(draft, number, key)
        self._same[key][number] = None
        return self._firsts[key]

    def _first_of_others(self, draft: Draft, number: int, key: _Key) -> int:
        """The same of those that were looked at before; those behind the node have to be looked at again."""
        reads = self._reads[number]
        others = [n for n in self._same.get(key, ()) if n != number and self._still_reads(draft, n, reads)]
        self._same[key] = dict.fromkeys(others)
        draft.note_alone(n for n in others if draft.place(n) > draft.place(number))
        return min((*others, number), key=draft.place)

    def _still_reads(self, draft: Draft, number: int, reads: _Key) -> bool:
        return self._reads[number] == reads and not draft.gone[number] and not draft.has_replacement(number)

    def _key(self, draft: Draft, number: int) -> _Key:
        """What a node reads, with its attrs and its device."""
        key = self._keys[number] = (self._reads[number], self._forms.attrs(draft, number))
        return key

    def _read(self, draft: Draft, number: int) -> _Key:
        """The op, what a node reads, in order, and what it waits for; of a constant, how long it is."""
        op, codes = draft.ops[number], draft.topology.inputs(number)
        reads = draft.data(number)
        waits = {code for code in codes if code & CONTROL == CONTROL} if len(codes) > len(reads) else ()
        size = (self._forms.size_of_value(draft, number),) if op == "Const" else ()
        return (op, *reads, *sorted(waits), *size)


_SEVERAL = -1


class _Forms:
    """What nodes have beside names and inputs: read for all of a file at once, and taken apart where it is asked for.

    A node that was edited, or is of another op than in the file, is asked itself, and so is one that is large.
    """

    def __init__(self, draft: Draft) -> None:
        table = draft.topology.table
        self._forms: list[bytes] = []
        self._form_of: list[int] = []  # of each row of the file, or -1
        self._headers: dict[int, Header] = {}
        self._attrs: dict[int, _Key] = {}
        self._own: dict[tuple[int, str], _Key] = {}
        for item in batches(table.source, forms=True) if len(table.rows) == len(table.names) else ():
            if isinstance(item, Batch):
                self._form_of += [len(self._forms) + place for place in item.form_of]
                self._forms += item.forms
            elif isinstance(item, Record):
                self._form_of.append(-1)
        self._form_of += [-1] * (draft.topology.size - len(self._form_of))
        for node in draft.graph.touched():
            self._form_of[draft.topology.id_of(node)] = -1

    def size_of_value(self, draft: Draft, number: int) -> int:
        """Bytes of the value of a constant."""
        form = self._form(draft, number)
        if form < 0:
            return draft.topology.node(number).attr_size("value")
        start, end = self._header(form).attrs.get("value", (0, 0))
        return end - start

    def attrs(self, draft: Draft, number: int) -> _Key:
        """The device, and the attrs that say something, by their keys; of a value, which may be large, a sum."""
        form = self._form(draft, number)
        if form < 0 or len(self._forms[form]) > _LONG:
            place = number, draft.ops[number]
            if place not in self._own:
                self._own[place] = tuple(_attrs(draft.topology.node(number)))
            return self._own[place]
        if form not in self._attrs:
            data, header = self._forms[form], self._header(form)
            told = sorted(header.attrs.keys() - ASIDE)
            self._attrs[form] = (header.device, *((key, data[slice(*header.attrs[key])]) for key in told))
        return self._attrs[form]

    def _form(self, draft: Draft, number: int) -> int:
        form = self._form_of[number]
        return form if form >= 0 and draft.topology.table.op(number) == draft.ops[number] else -1

    def _header(self, form: int) -> Header:
        if form not in self._headers:
            self._headers[form] = read_header(self._forms[form], 0, len(self._forms[form]))
        return self._headers[form]


def _attrs(node: Node) -> Iterator[object]:
    yield node.device
    yield from ((key, _value(node, key)) for key in sorted(node.attr_keys) if key not in ASIDE)


def _value(node: Node, key: str) -> bytes | None:
    """What an attr holds; of a constant's value, which may be large, what tells it from others."""
    is_large = (node.op, key) == ("Const", "value") and node.attr_size(key) > _LONG
    span = constant_span(node) if is_large else None
    if span is None:
        return node.attr_bytes(key)
    summed = blake2b()
    for start in range(span.start, span.end, _STEP):
        summed.update(span.source.read(start, min(_STEP, span.end - start)))
    return summed.digest()
