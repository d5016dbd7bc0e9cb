"""Checks what each node says of itself: its name, its attrs against its op, the order of its inputs."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from operator import add, itemgetter

from gdsurgeon.analysis.checks.attrs import AttrFindings, check_attrs
from gdsurgeon.analysis.checks.findings import MOST_FAULTS, Findings
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import is_valid_name
from gdsurgeon.graph.records import Batch, Item, Record
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.fields import LEN, Field, encode_len
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.node_record import ATTR, read_attr
from gdsurgeon.wire.scan import LARGE
from gdsurgeon.wire.source import Source

_MEMO_BYTES = 512
"""Bytes of attrs of which it is remembered what there is to say."""
_MEMO_SIZE = 20_000
"""Attrs that are remembered before all are forgotten: where each node has its own, that is of no use."""


class NodePass:
    """One pass over the nodes; what many of them have in common is checked once.

    Attributes:
        inputs, outputs: how many tensors the op of each row takes and gives; -1 where that is unknown.
        misnamed: the rows whose names TensorFlow would not take.
        reordered: the rows whose control inputs stand before data inputs.
        colocated: for each name the rows that are colocated with it.
        functions: the functions that attrs pass on, each with the first row that does.
    """

    def __init__(self) -> None:
        self.inputs = array("i")
        self.outputs = array("i")
        self.misnamed: list[int] = []
        self.reordered: list[int] = []
        self.colocated: dict[str, list[int]] = {}
        self.functions: dict[str, int] = {}
        self._undefined: list[tuple[int, AttrFindings]] = []  # the function library comes after the nodes
        self._faults = _Sentences()
        self._warnings = _Sentences()
        self._memo: dict[tuple[str | bytes, ...], AttrFindings] = {}

    def add(self, item: Item, source: Source) -> None:
        """Looks at what comes next in SOURCE."""
        if isinstance(item, Batch):
            if not self._add_batch(item):
                for record in item.records(source):
                    self._add_record(record)
        elif isinstance(item, Record):
            self._add_record(item)

    def tell(self, graph: Graph, findings: Findings) -> None:
        """Notes what was found in GRAPH, row by row, once all nodes were looked at and the functions are known."""
        table = graph.store.table
        unknown: dict[str, int] = {}
        for row, early in self._undefined:
            name, op = table.names[row], table.op(row)
            definition, found = graph.op_def(op), early
            if definition is None and op:
                unknown.setdefault(op, row)
            elif definition is not None:
                record = table.record(row)
                found = check_attrs(definition, op, record.buffer(), record.header().attrs)
                self.inputs[row], self.outputs[row] = found.inputs, found.outputs
            self._note(row, name, found)
        self._faults.tell(findings.fault)
        findings.fault_count += self._faults.count - len(self._faults.kept)
        self._warnings.tell(findings.warn)
        findings.reordered += self.reordered
        for op, row in unknown.items():
            findings.warn(f"op {quoted(op)} (node {quoted(table.names[row])}) is not known to this TensorFlow")

    def _add_batch(self, batch: Batch) -> bool:
        """Looks at nodes that were parsed together; False, with nothing done, where protobuf cannot read an attr."""
        entries = list(dict.fromkeys(batch.attrs))
        try:
            message("tensorflow.NodeDef").FromString(b"".join(encode_len(ATTR, entry) for entry in entries if entry))
        except decode_error():
            return False
        # A character for each entry, a text for the attrs of each node, and one for its op and attrs.
        chars = dict(zip(entries, map(chr, count()), strict=False))
        attrs = "".join(map(chars.__getitem__, batch.attrs)).split(chars[b""])[:-1]
        ops = list(dict.fromkeys(batch.ops))
        of_op = dict(zip(ops, map(chr, count()), strict=False))
        keys = list(map(add, map(of_op.__getitem__, batch.ops), attrs))
        found = {key: self._found(ops[ord(key[0])], [entries[ord(c)] for c in key[1:]]) for key in dict.fromkeys(keys)}
        first = len(self.inputs)
        for column, numbers in (
            (self.inputs, {key: of_key.inputs for key, of_key in found.items()}),
            (self.outputs, {key: of_key.outputs for key, of_key in found.items()}),
        ):
            column.extend(list(map(numbers.__getitem__, keys)))
        odd = {key for key, of_key in found.items() if not of_key.is_plain}
        late = set(_rows_with_late_data(batch.inputs))
        for i in sorted({*late, *(i for i, key in enumerate(keys) if key in odd)} if odd else late):
            if keys[i] in odd:
                self._sort_out(first + i, batch.names[i], batch.ops[i], found[keys[i]])
            if i in late:
                self._note_order(first + i, batch.names[i])
        if not _all_valid(batch.names):
            self.misnamed += [first + i for i, name in enumerate(batch.names) if not is_valid_name(name)]
        return True

    def _found(self, op: str, entries: list[bytes]) -> AttrFindings:
        """The findings on the attr map ENTRIES of a node; remembered, for others will have the same."""
        key: tuple[str | bytes, ...] = (op, *entries)
        found = self._memo.get(key)
        if found is not None:
            return found
        buf = b"".join(entries)
        spans: dict[str, tuple[int, int]] = {}
        pos = 0
        for entry in entries:
            name, start, end = read_attr(buf, Field(ATTR, LEN, pos, pos, pos + len(entry)))
            spans[name] = (start, end)
            pos += len(entry)
        found = check_attrs(op_def(op), op, buf, spans)
        if len(buf) <= _MEMO_BYTES:
            if len(self._memo) >= _MEMO_SIZE:
                self._memo.clear()
            self._memo[key] = found
        return found

    def _add_record(self, record: Record) -> None:
        header, row = record.header(), len(self.inputs)
        found = check_attrs(op_def(header.op), header.op, record.buffer(), header.attrs)
        node = f"node {quoted(header.name)}"
        if header.unknown_fields:
            self._warnings.add(row, f"{node} has an unknown field, which is kept")
        if not header.op and header.name:
            self._faults.add(row, f"{node} has no op")
        if not found.faults and not _is_readable(record):
            self._faults.add(row, f"{node} is corrupt")
        self.inputs.append(found.inputs)
        self.outputs.append(found.outputs)
        if not found.is_plain:
            self._sort_out(row, header.name, header.op, found)
        if any(True for _ in _rows_with_late_data([*header.inputs, ""])):
            self._note_order(row, header.name)
        if not is_valid_name(header.name):
            self.misnamed.append(row)

    def _sort_out(self, row: int, name: str, op: str, found: AttrFindings) -> None:
        """Puts down what was FOUND at ROW; of an op that may be a function's, sentences are made later."""
        for other in dict.fromkeys(found.colocated):
            self.colocated.setdefault(other, []).append(row)
        for function in found.functions:
            self.functions.setdefault(function, row)
        if op_def(op) is None:
            self._undefined.append((row, found))
        else:
            self._note(row, name, found)

    def _note(self, row: int, name: str, found: AttrFindings) -> None:
        for text in found.faults:
            self._faults.add(row, f"node {quoted(name)}: {text}")
        for text in found.warnings:
            self._warnings.add(row, f"node {quoted(name)}: {text}")

    def _note_order(self, row: int, name: str) -> None:
        self.reordered.append(row)
        self._warnings.add(row, f"node {quoted(name)} has a control input before a data input; written in order")


class _Sentences:
    """Sentences about rows, told in the order of the rows; those that would not be told are only counted."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, str]] = []
        self.count = 0

    def add(self, row: int, text: str) -> None:
        self.count += 1
        # Rows come in order, but for those that had to wait for the functions.
        if len(self.kept) < MOST_FAULTS or row < self.kept[MOST_FAULTS - 1][0]:
            self.kept.append((row, text))

    def tell(self, to: Callable[[str], None]) -> None:
        for _, text in sorted(self.kept, key=itemgetter(0)):
            to(text)


def _rows_with_late_data(inputs: Sequence[str]) -> Iterator[int]:
    """The rows among INPUTS, each ending with an empty one, where a data input stands after a control input."""
    if not _LATE_DATA.search("\0".join(inputs)):
        return
    row, controls, is_late = 0, False, False
    for text in inputs:
        if not text:
            if is_late:
                yield row
            row, controls, is_late = row + 1, False, False
        elif text[0] == "^":
            controls = True
        else:
            is_late |= controls


_LATE_DATA = re.compile(r"\^[^\0]*\0[^^\0]")


def _is_readable(record: Record) -> bool:
    """Whether protobuf can read the record; of a large one only what was looked at already is known."""
    if record.end - record.body > LARGE:
        return True
    try:
        message("tensorflow.NodeDef").FromString(record.buffer()[0 : record.end - record.body])
    except decode_error():
        return False
    return True


def _all_valid(names: Sequence[str]) -> bool:
    """Whether plainly all NAMES are legal; False where that takes a closer look at each."""
    joined = ("\n" + "\n".join(names)).encode("utf-8", "surrogatepass")
    strange = joined.translate(None, _NAME_BYTES)
    odd_starts = (b"\n_", b"\n-", b"\n/", b"\n\n")
    return (
        len(strange) == joined.count(b"\n") and not joined.endswith(b"\n") and not any(s in joined for s in odd_starts)
    )


_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/"
