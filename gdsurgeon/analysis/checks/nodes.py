"""Checks what each node says of itself: its name, its attrs against its op, the order of its inputs."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain, count, repeat
from operator import itemgetter
from re import search
from typing import NamedTuple

from gdsurgeon.analysis.checks.attrs import AttrChecks, AttrFindings, check_attrs
from gdsurgeon.analysis.checks.findings import MOST_FAULTS, Findings
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import END_OF_NODE, Table, picked
from gdsurgeon.graph.names import is_valid_name
from gdsurgeon.graph.records import CONTROL_INPUT, DATA_INPUT, Batch, Item, Record, input_kind
from gdsurgeon.ops.op_defs import Run, op_def
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.node_record import read_header
from gdsurgeon.wire.protos import NodeDef
from gdsurgeon.wire.scan import LARGE


class NodePass:
    """One pass over the nodes of a table; what many of them have in common is checked once.

    Attributes:
        outputs: how many tensors the op of each row gives; -1 where that is unknown.
        first: the dtype of output 0 of each row; 0 where that is unknown.
        others: the dtypes of all outputs, of the rows that give several.
        wanted: for each input, in the order of `Table.edges`, the dtype that the op wants; 0 where that is unknown.
        miscounted: the rows that have too few or too many data inputs, each with how many its op takes.
        misnamed: the rows whose names TensorFlow would not take.
        reordered: the rows whose control inputs stand before data inputs.
        colocated: for each name the rows that are colocated with it.
        functions: the functions that attrs pass on, each with the first row that does.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self.outputs = array("i")
        self.first = bytearray()
        self.others: dict[int, tuple[Run, ...]] = {}
        self.wanted = bytearray()
        self.miscounted: dict[int, int] = {}
        self.misnamed: list[int] = []
        self.reordered: list[int] = []
        self.colocated: dict[str, list[int]] = {}
        self.functions: dict[str, int] = {}
        self._undefined: list[tuple[int, AttrFindings]] = []  # the function library comes after the nodes
        self._outdated: list[tuple[int, str, int]] = []  # and so do the versions
        self._faults = _Lines()
        self._warnings = _Lines()
        self._attrs = AttrChecks()

    def add(self, item: Item) -> None:
        """Looks at what comes next in the source, and is in the table already."""
        if isinstance(item, Batch):
            self._add_batch(item)
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
                header = record.header()
                found = check_attrs(definition, op, record.buffer(), header.attrs).on(header.device)
                look = _Look(found, b"".join(map(input_kind, header.inputs)))
                self.outputs[row] = found.outputs
                self.first[row] = look.first
                self.wanted[table.offsets[row] : table.offsets[row + 1]] = look.wanted
                self._sort_out_dtypes(row, look)
            self._note(row, name, found)
        for row, op, version in self._outdated:
            if graph.store.versions.producer >= version:
                name, producer = table.names[row], graph.store.versions.producer
                text = (
                    f"node {quoted(name)}: the op {op} is not allowed from GraphDef version {version} on, "
                    "but this graph has"
                )
                self._faults.add(row, Remark(f"{text} version {producer}", "missing-op", node=name, op=op))
        findings.faults += self._faults.first()
        findings.counts += self._faults.counts
        findings.warnings += self._warnings.first()
        findings.reordered += self.reordered
        for op, row in unknown.items():
            name = table.names[row]
            text = f"op {quoted(op)} (node {quoted(name)}) is unknown in this version of TensorFlow"
            findings.warn(text, "missing-op", op=op, node=name)

    def _add_batch(self, batch: Batch) -> None:
        first = len(self.outputs)
        looks, alike = self._looks(batch, self._table.kinds(first, first + len(batch.names)))
        self.outputs.extend(array("i", picked([look.found.outputs for look in looks], alike)))
        self.first += bytes(picked([look.first for look in looks], alike))
        self.wanted += b"".join(picked([look.wanted for look in looks], alike))
        if not all(look.is_plain for look in looks):
            for i, look in enumerate(picked(looks, alike)):
                if not look.is_plain:
                    self._sort_out(first + i, batch.names[i], batch.ops[batch.form_of[i]], look)
        if not _all_valid(batch.names):
            self.misnamed += [first + i for i, name in enumerate(batch.names) if not is_valid_name(name)]

    def _looks(self, batch: Batch, kinds: bytes) -> tuple[list[_Look], list[int]]:
        """What there is to see of the nodes of BATCH, and for each its place there; KINDS are those of their inputs."""
        of_forms = [self._found(form) for form in batch.forms]
        looks = [_Look(found, DATA_INPUT * min(found.inputs, len(kinds))) for found in of_forms]
        if b"".join(picked([look.kinds + END_OF_NODE for look in looks], batch.form_of)) == kinds:
            return looks, batch.form_of  # each has what its op takes, and no control input
        seen: dict[tuple[int, bytes], int] = defaultdict(count().__next__)
        alike = list(map(seen.__getitem__, zip(batch.form_of, kinds.split(END_OF_NODE), strict=False)))
        return [_Look(of_forms[form], own) for form, own in seen], alike

    def _found(self, form: bytes) -> AttrFindings:
        """The findings on the attrs of a node of FORM."""
        header = read_header(form, 0, len(form))
        return self._attrs.findings(op_def(header.op), header.op, form, header.attrs).on(header.device)

    def _add_record(self, record: Record) -> None:
        header, row = record.header(), len(self.outputs)
        found = check_attrs(op_def(header.op), header.op, record.buffer(), header.attrs).on(header.device)
        name, node = header.name, f"node {quoted(header.name)}"
        if header.unknown_fields:
            self._warnings.add(row, Remark(f"{node} has an unknown field, which is kept", "unknown-field", node=name))
        if not header.op and header.name:
            self._faults.add(row, Remark(f"{node} has no op", "missing-op", node=name))
        if not found.faults and not _is_readable(record):
            self._faults.add(row, Remark(f"{node} is corrupt", "corrupt", node=name))
        look = _Look(found, b"".join(map(input_kind, header.inputs)))
        self.outputs.append(found.outputs)
        self.first.append(look.first)
        self.wanted += look.wanted
        self._sort_out(row, header.name, header.op, look)
        if not is_valid_name(header.name):
            self.misnamed.append(row)

    def _sort_out(self, row: int, name: str, op: str, look: _Look) -> None:
        """Records the findings about `row`; for an op that may be a function, texts are made later."""
        found = look.found
        for other in dict.fromkeys(found.colocated):
            self.colocated.setdefault(other, []).append(row)
        for function in found.functions:
            self.functions.setdefault(function, row)
        if op_def(op) is None:
            self._undefined.append((row, found))
        else:
            self._note(row, name, found)
        if found.removed_in:
            self._outdated.append((row, op, found.removed_in))
        self._sort_out_dtypes(row, look)
        if look.is_late:
            self.reordered.append(row)
            text = f"node {quoted(name)} has a control input before a data input; written in order"
            self._warnings.add(row, Remark(text, "out-of-order", node=name))

    def _sort_out_dtypes(self, row: int, look: _Look) -> None:
        if look.is_miscounted:
            self.miscounted[row] = look.found.inputs
        if look.found.gives is not None and look.found.outputs > 1:
            self.others[row] = look.found.gives

    def _note(self, row: int, name: str, found: AttrFindings) -> None:
        for lines, told in ((found.faults, self._faults), (found.warnings, self._warnings)):
            for line in lines:
                told.add(row, Remark(f"node {quoted(name)}: {line}", line.code, node=name, **line.facts))


class _Look(NamedTuple):
    """What there is to see of nodes that are alike: the findings on their attrs, and the kinds of their inputs."""

    found: AttrFindings
    kinds: bytes

    @property
    def is_miscounted(self) -> bool:
        """Whether there are too few or too many data inputs."""
        return self.kinds.count(DATA_INPUT) != self.found.inputs >= 0

    @property
    def is_late(self) -> bool:
        """Whether a data input stands after a control input."""
        return CONTROL_INPUT + DATA_INPUT in self.kinds

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to say."""
        return self.found.is_plain and not self.is_miscounted and not self.is_late and self.found.outputs <= 1

    @property
    def first(self) -> int:
        """The dtype of output 0; 0 where that is unknown."""
        return next((dtype for dtype, count in self.found.gives or () if count), 0)

    @property
    def wanted(self) -> bytes:
        """For each input the dtype that the op wants; 0 where that is unknown, and for control inputs."""
        if self.found.takes is None or self.is_miscounted:
            return bytes(len(self.kinds))
        dtypes = chain.from_iterable(repeat(dtype, count) for dtype, count in self.found.takes)
        return bytes(next(dtypes) if kind == ord(DATA_INPUT) else 0 for kind in self.kinds)


class _Lines:
    """Lines about rows, in the order of the rows; those that would not be told are only counted."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, Remark]] = []
        self.counts: Counter[str] = Counter()

    def add(self, row: int, line: Remark) -> None:
        self.counts[line.code] += 1
        # Rows come in order, but for those that had to wait for the functions.
        if len(self._kept) < MOST_FAULTS or row < self._kept[MOST_FAULTS - 1][0]:
            self._kept.append((row, line))

    def first(self) -> list[Remark]:
        return [line for _, line in sorted(self._kept, key=itemgetter(0))][:MOST_FAULTS]


def _is_readable(record: Record) -> bool:
    """Whether protobuf can read the record; of a large one only what was looked at already is known."""
    if record.end - record.body > LARGE:
        return True
    try:
        NodeDef.FromString(record.buffer()[0 : record.end - record.body])
    except decode_error():
        return False
    return True


def _all_valid(names: Sequence[str]) -> bool:
    """Returns whether all `names`, none of them empty, are obviously legal; False if each must be checked."""
    joined = "\n".join(["", *names]).encode("utf-8", "surrogatepass")
    return joined.translate(None, _NAME_BYTES) == b"\n" * len(names) and not search(rb"\n[_/-]", joined)


_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/"
