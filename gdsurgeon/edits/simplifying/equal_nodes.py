"""Equal nodes: consumers of a node that computes the same as an earlier node read the earlier one."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from gdsurgeon.edits.simplifying.graph_view import CONTROL, GraphView
from gdsurgeon.graph.constants import constant_span
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import Batch, Record, batches
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import ANY_ORDER, ASIDE, PLACEHOLDERS
from gdsurgeon.wire.node_record import Header, read_header

_NEVER = PLACEHOLDERS | {"NoOp"}
_LONG = 1 << 12
"""The size in bytes above which values are compared by hash."""
_STEP = 1 << 20
"""The number of bytes that are hashed at a time."""

_Key = tuple[object, ...]


def equal_nodes(view: GraphView) -> None:
    """Merges nodes with the same op, inputs, attrs and device. The order of inputs that commute does not matter."""
    alike = view.equal if isinstance(view.equal, _Alike) else _Alike(view)
    view.equal = alike
    alike.firsts = {}  # the first node of a group may be a different one
    ops = {op for op in view.topology.ops() if op not in _NEVER and not view.takes_functions(op)}
    is_other_order = False
    for number in view.dirty_nodes("equal-nodes", ops):
        if number in view.merges or not view.is_pure(number):
            continue
        first = alike.first(view, number)
        if first == number:
            continue
        if not view.must_keep(number):
            view.replace_node(number, first)
        elif not view.must_keep(first):
            view.replace_node(first, number)
            alike.firsts[alike.keys[number]] = number
            is_other_order = True
    view.commit("equal-nodes")
    if is_other_order:
        view.refresh()


class _Alike:
    """Groups of equal nodes, kept between calls of the pass.

    Most nodes have unique inputs; attrs are compared only for nodes with the same inputs.

    Attributes:
        keys: the key of each node whose attrs were compared.
        firsts: for each key, the node that comes first.
    """

    def __init__(self, view: GraphView) -> None:
        self._forms = _Forms(view)
        self._reads: dict[int, _Key] = {}  # the inputs of each node at the last look
        self.keys: dict[int, _Key] = {}
        self._alone: dict[_Key, int] = {}  # by inputs, the only node, or _SEVERAL
        self._same: dict[_Key, dict[int, None]] = {}  # by their key nodes that were the same when they were looked at
        self.firsts: dict[_Key, int] = {}

    def first(self, view: GraphView, number: int) -> int:
        """Returns the first node that is equal to a node; the node itself if there is no earlier one."""
        reads = self._reads[number] = self._read(view, number)
        other = self._alone.setdefault(reads, number)
        if other not in (number, _SEVERAL):
            if self._still_reads(view, other, reads):
                self._alone[reads] = _SEVERAL
                self._same.setdefault(self._key(view, other), {})[other] = None
            else:
                self._alone[reads] = number
        if self._alone[reads] == number:
            return number
        key = self._key(view, number)
        if key not in self.firsts:
            self.firsts[key] = self._first_of_others(view, number, key)
        self._same[key][number] = None
        return self.firsts[key]

    def _first_of_others(self, view: GraphView, number: int, key: _Key) -> int:
        """Returns the first of the known equal nodes; later ones are looked at again."""
        reads = self._reads[number]
        others = [n for n in self._same.get(key, ()) if n != number and self._still_reads(view, n, reads)]
        self._same[key] = dict.fromkeys(others)
        view.mark_dirty_self(n for n in others if view.place(n) > view.place(number))
        return min((*others, number), key=view.place)

    def _still_reads(self, view: GraphView, number: int, reads: _Key) -> bool:
        return self._reads[number] == reads and not view.removed[number] and not view.has_replacement(number)

    def _key(self, view: GraphView, number: int) -> _Key:
        """Returns the inputs, attrs and device of a node."""
        key = self.keys[number] = (self._reads[number], self._forms.attrs(view, number))
        return key

    def _read(self, view: GraphView, number: int) -> _Key:
        """Returns the op, the inputs and control inputs of a node; for a constant also the size of its value."""
        op, codes = view.ops[number], view.topology.inputs(number)
        reads = view.data(number)
        if op in ANY_ORDER and (op != "Add" or view.topology.node(number).setting("T") != STRING):
            reads.sort()
        waits = {code for code in codes if code & CONTROL == CONTROL} if len(codes) > len(reads) else ()
        size = (self._forms.size_of_value(view, number),) if op == "Const" else ()
        return (op, *reads, *sorted(waits), *size)


_SEVERAL = -1


class _Forms:
    """The attrs and devices of nodes, read for the whole file at once and decoded on demand.

    Edited and large nodes are read one by one.
    """

    def __init__(self, view: GraphView) -> None:
        table = view.topology.table
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
        self._form_of += [-1] * (view.topology.size - len(self._form_of))
        for node in view.graph.touched():
            self._form_of[view.topology.id_of(node)] = -1

    def size_of_value(self, view: GraphView, number: int) -> int:
        """Returns the size in bytes of the value of a constant."""
        form = self._form(view, number)
        if form < 0:
            return view.topology.node(number).attr_size("value")
        start, end = self._header(form).attrs.get("value", (0, 0))
        return end - start

    def attrs(self, view: GraphView, number: int) -> _Key:
        """Returns the device and the relevant attrs by key; large values are hashed."""
        form = self._form(view, number)
        if form < 0 or len(self._forms[form]) > _LONG:
            place = number, view.ops[number]
            if place not in self._own:
                self._own[place] = tuple(_attrs(view.topology.node(number)))
            return self._own[place]
        if form not in self._attrs:
            data, header = self._forms[form], self._header(form)
            told = sorted(header.attrs.keys() - ASIDE)
            self._attrs[form] = (header.device, *((key, data[slice(*header.attrs[key])]) for key in told))
        return self._attrs[form]

    def _form(self, view: GraphView, number: int) -> int:
        form = self._form_of[number]
        return form if form >= 0 and view.topology.table.op(number) == view.ops[number] else -1

    def _header(self, form: int) -> Header:
        if form not in self._headers:
            self._headers[form] = read_header(self._forms[form])
        return self._headers[form]


def _attrs(node: Node) -> Iterator[object]:
    yield node.device
    yield from ((key, _value(node, key)) for key in sorted(node.attr_keys) if key not in ASIDE)


def _value(node: Node, key: str) -> bytes | None:
    """Returns the value of an attr; for the large value of a constant, its hash."""
    is_large = (node.op, key) == ("Const", "value") and node.attr_size(key) > _LONG
    span = constant_span(node) if is_large else None
    if span is None:
        return node.attr_bytes(key)
    summed = blake2b()
    for start in range(span.start, span.end, _STEP):
        summed.update(span.source.read(start, min(_STEP, span.end - start)))
    return summed.digest()
