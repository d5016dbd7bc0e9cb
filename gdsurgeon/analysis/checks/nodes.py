"""Checks the nodes of a graph or of a function: their names, attrs and inputs; the results of the structural check."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, count, repeat
from operator import itemgetter
from re import search
from typing import NamedTuple

from gdsurgeon.analysis.checks.attrs import AttrChecks, AttrFindings
from gdsurgeon.errors import InputError, Json, Remark, printable, quoted
from gdsurgeon.graph.index import END_OF_NODE, Table, picked
from gdsurgeon.graph.names import NAME_RULE, format_input, is_valid_name, parse_input
from gdsurgeon.graph.records import CONTROL_INPUT, DATA_INPUT, LARGE, Batch, Item, Record, distinct, input_kind
from gdsurgeon.ops.dtypes import dtype_name, is_readable_as
from gdsurgeon.text import and_more, nearest, suggestion
from gdsurgeon.values import Data
from gdsurgeon.wire.node_record import read_header
from gdsurgeon.wire.protos import NodeDef, decode_error

MOST_FAULTS = 100
"""The maximum number of faults with a text; further ones are only counted."""


@dataclass(eq=False, repr=False)
class Findings(Data):
    """The results of the structural check.

    Attributes:
        faults: the faults that make the graph unusable, one line each.
        counts: the number of faults by code; `faults` holds the first `MOST_FAULTS`.
        warnings: harmless irregularities.
        reordered: rows of nodes with control inputs before data inputs. TensorFlow refuses that; rewriting the node
            fixes it.
        dangling_colocations: rows of nodes that are colocated with a missing node; rewriting the node fixes it.
    """

    faults: list[Remark] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    reordered: list[int] = field(default_factory=list)
    dangling_colocations: list[int] = field(default_factory=list)

    @property
    def fault_count(self) -> int:
        """The number of faults."""
        return self.counts.total()

    def fault(self, text: str, code: str, **facts: Json) -> None:
        """Notes a fault."""
        self.add(Remark(text, code, **facts))

    def add(self, fault: Remark) -> None:
        """Notes a fault."""
        self.counts[fault.code] += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)

    def as_error(self, source_name: str) -> InputError:
        """Returns the error for the graph in the file `source_name`, with these faults."""
        name, count = printable(source_name), self.fault_count
        more = and_more(count - len(self.faults))
        details = (*self.faults, *((more[1:],) if more else ())) if count > 1 else ()
        told = f"{name} is broken in {count:,} places:" if count > 1 else f"{name} is broken: {self.faults[0]}"
        faults = [fault.as_json() for fault in self.faults]
        return InputError(
            told, code="unsound-graph", file=source_name, count=count, faults=faults, advice="repair", details=details
        )

    def of(self, name: str) -> list[Remark]:
        """Returns the faults that name the node `name` of the graph."""
        return [fault for fault in self.faults if name in _nodes_in(fault)]

    def warn(self, text: str, code: str, **facts: Json) -> None:
        """Notes a warning, once."""
        if len(self.warnings) < MOST_FAULTS and text not in self.warnings:
            self.warnings.append(Remark(text, code, **facts))


def _nodes_in(fault: Remark) -> list[object]:
    """Returns the names of the nodes of the graph that `fault` mentions; none if the fault is in a function."""
    facts = fault.facts
    if "function" in facts:
        return []
    nodes = facts.get("nodes", ())
    read = str(facts.get("tensor", "")).removeprefix("^").partition(":")[0]
    return [facts.get("node"), read, *(nodes if isinstance(nodes, list) else ())]


NO_OUTPUT = 255
"""The dtype of output 0 of a node without outputs."""


class NodeChecks:
    """Checks the nodes of a table in one pass. Nodes with equal attrs and kinds of inputs are checked once.

    Args:
        table: the nodes; a node is added to the table before it is checked.
        attrs: checks attrs.
        function: the function with these nodes; '' for the nodes of a graph.

    Attributes:
        colocated: for each name, the rows that are colocated with it.
        functions: the functions in attrs, each with the first row.
        unknown: unknown ops, each with the first row.
        reordered: the rows with control inputs before data inputs.
        faults, warnings: the results.
    """

    def __init__(self, table: Table, attrs: AttrChecks, function: str = "") -> None:
        self.colocated: dict[str, list[int]] = {}
        self.functions: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        self.reordered: list[int] = []
        self.faults, self.warnings = _Lines(), _Lines()
        self._table, self._attrs = table, attrs
        self._of: dict[str, Json] = {"function": function} if function else {}
        self._where = f" of function {quoted(function)}" if function else ""
        self._is_valid: Callable[[str], bool] = is_valid_in_function if function else is_valid_name
        self._first = bytearray()  # for each row the dtype of output 0; 0 if it is unknown
        # Of rows with several outputs, or one of an unknown dtype: the dtypes of runs, and where each run ends.
        self._outputs: dict[int, tuple[list[int], list[int]]] = {}
        self._wanted = bytearray()  # for each input the required dtype; 0 if it is unknown
        self._expected: dict[int, int] = {}  # the required number of data inputs, of rows with a different number
        self._removed: list[tuple[int, int]] = []  # rows, each with the version in which the op was removed

    # -- one pass over the nodes ---------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """Checks the next item of the file."""
        if isinstance(item, Batch):
            kinds = self._table.kinds(len(self._first), len(self._first) + len(item.names))
            self.add_nodes(item.names, *self._looks(item, kinds))
        elif isinstance(item, Record):
            self._add_record(item)

    def add_nodes(self, names: Sequence[str], looks: Sequence[Look], look_of: Sequence[int]) -> None:
        """Checks the next nodes, which are `names`, with `looks`; `look_of` has the number of each node's look."""
        first = len(self._first)
        self._first += bytes(picked([look.first for look in looks], look_of))
        self._wanted += b"".join(picked([look.wanted for look in looks], look_of))
        odd = {number for number, look in enumerate(looks) if not look.is_plain}
        for row, number in enumerate(look_of, first) if odd else ():
            if number in odd:
                self._add_look(row, looks[number])
        if not _all_valid(names):
            for row, name in enumerate(names, first):
                if not self._is_valid(name):
                    row_fact: dict[str, Json] = {} if self._of else {"row": row}
                    text = f"node {quoted(name)}{self._where or f' (number {row})'} has an illegal name: {NAME_RULE}"
                    if not name and not self._of:
                        text = f"node number {row} has no name: {NAME_RULE}"
                    self.faults.add(row, Remark(text, "bad-name", node=name, **row_fact, **self._of))

    def add_arguments(self, dtypes: Sequence[int]) -> None:
        """Adds rows for the arguments of a function, with their `dtypes`; 0 for unknown ones."""
        self._first += bytes(dtypes)

    def _looks(self, batch: Batch, kinds: bytes) -> tuple[list[Look], list[int]]:
        """Returns the distinct looks in `batch`, whose inputs have `kinds`, and for each node its number there."""
        found = [self._attrs.findings(read_header(form), form) for form in batch.forms]
        of_forms = list({id(each): each for each in found}.values())  # forms of equal nodes have the same findings
        form_of = list(picked(distinct([*map(id, found)])[1], batch.form_of))
        looks = [Look(each, DATA_INPUT * min(each.inputs, len(kinds))) for each in of_forms]
        if b"".join(picked([look.kinds + END_OF_NODE for look in looks], form_of)) == kinds:
            return looks, form_of  # each node has as many inputs as its op requires, and no control input
        seen: dict[tuple[int, bytes], int] = defaultdict(count().__next__)
        look_of = list(map(seen.__getitem__, zip(form_of, kinds.split(END_OF_NODE), strict=False)))
        return [Look(of_forms[form], own) for form, own in seen], look_of

    def _add_record(self, record: Record) -> None:
        header, row = record.header(), len(self._first)
        found = self._attrs.findings(header, record.buffer())
        if header.unknown_fields:
            self._note(self.warnings, row, " has an unknown field, which is kept", "unknown-field")
        if not header.op and header.name:
            self._note(self.faults, row, " has no op", "missing-op")
        if not found.faults and not _is_readable(record):
            self._note(self.faults, row, " is corrupt", "corrupt")
        self.add_nodes([header.name], [Look(found, b"".join(map(input_kind, header.inputs)))], [0])

    def _add_look(self, row: int, look: Look) -> None:
        found = look.found
        for other in dict.fromkeys(found.colocated):
            self.colocated.setdefault(other, []).append(row)
        for function in found.functions:
            self.functions.setdefault(function, row)
        if not found.is_defined and (op := self._table.op(row)):
            self.unknown.setdefault(op, row)
        for remarks, lines in ((found.faults, self.faults), (found.warnings, self.warnings)):
            for remark in remarks:
                self._note(lines, row, f": {remark}", remark.code, **remark.facts)
        if found.removed_in:
            self._removed.append((row, found.removed_in))
        if look.is_miscounted:
            self._expected[row] = found.inputs
        if look.lists_outputs:
            runs = found.gives or ()
            self._outputs[row] = [dtype for dtype, _ in runs], [*accumulate(number for _, number in runs)]
        if look.is_late:
            self.reordered.append(row)
            if self._of:
                self._note(self.faults, row, " has a control input before a data input", "out-of-order")
            else:
                text = " has a control input before a data input; written in order"
                self._note(self.warnings, row, text, "out-of-order")

    def _note(self, lines: _Lines, row: int, text: str, code: str, **facts: Json) -> None:
        name = self._table.names[row]
        lines.add(row, Remark(f"node {quoted(name)}{self._where}{text}", code, node=name, **self._of, **facts))

    # -- after all nodes -----------------------------------------------------------------------------------

    def finish(self, producer: int | None) -> None:
        """Checks everything that depends on the version of the `producer`, and on other nodes."""
        self._table.dtypes = self._first
        for row, version in self._removed if producer is not None else ():
            if producer >= version:  # type: ignore[operator]
                op = self._table.op(row)
                text = f": the op {op} is not allowed from GraphDef version {version} on, but this graph has version"
                self._note(self.faults, row, f"{text} {producer}", "missing-op", op=op)
        self._check_inputs()

    def dtype(self, code: int) -> int:
        """Returns the dtype of the tensor that an edge with `code` reads; 0 if it is unknown."""
        row, port = code >> Table.PORT_BITS, code & Table.CONTROL_PORT
        if code < 0 or port == Table.CONTROL_PORT:
            return 0
        if not port:
            return self._first[row]
        dtypes, ends = self._outputs.get(row, ((), ()))
        run = bisect_right(ends, port)
        return dtypes[run] if run < len(dtypes) else 0

    def _has(self, code: int) -> bool:
        """Returns whether a node has the output that an edge with `code` reads, or may have it."""
        row, port = code >> Table.PORT_BITS, code & Table.CONTROL_PORT
        if port == Table.CONTROL_PORT or (port == 0 and self._first[row] != NO_OUTPUT):
            return True
        return port < self._output_count(row) if row in self._outputs or self._first[row] else True

    def _output_count(self, row: int) -> int:
        if row in self._outputs:
            _, ends = self._outputs[row]
            return ends[-1] if ends else 0
        return 0 if self._first[row] == NO_OUTPUT else 1

    def _check_inputs(self) -> None:
        """Checks the inputs of nodes. Comparing columns finds the rows that may have a fault."""
        table, edges = self._table, self._table.edges
        given = bytearray()
        reads = table.plain_reads()
        for start in range(0, len(reads), _AT_ONCE):
            given += bytes(picked(self._first, reads[start : start + _AT_ONCE]))
        suspects = set(self._expected)
        for at in table.odd_edges:
            code = edges[at]
            given[at] = self.dtype(code)
            if code < 0 or not self._has(code):
                suspects.add(table.reader(at))
        if NO_OUTPUT in given:
            suspects.update(table.reader(at) for at, dtype in enumerate(given) if dtype == NO_OUTPUT)
        unlike = set()
        if self._wanted != given:
            pairs = zip(self._wanted, given, strict=True)
            unlike = {at for at, (wanted, has) in enumerate(pairs)
                      if wanted != has != NO_OUTPUT and not is_readable_as(has, wanted)}  # fmt: skip
            suspects.update(map(table.reader, unlike))
        for row in sorted(suspects):
            first, last = table.offsets[row], table.offsets[row + 1]
            for code in edges[first:last]:
                if code < 0:
                    self._note_unresolved(row, table.unresolved[Table.UNRESOLVED - code])
                elif not self._has(code):
                    self._note_output(row, code)
            if row in self._expected:
                control = Table.CONTROL_PORT
                found = sum(
                    code & control != control if code >= 0 else table.unresolved[Table.UNRESOLVED - code][:1] != "^"
                    for code in edges[first:last]
                )
                expected = self._expected[row]
                text = f" has {found} data inputs, but {table.op(row)} requires {expected}"
                self._note(self.faults, row, text, "wrong-count", expected=expected, found=found)
            for at in unlike.intersection(range(first, last)):
                self._note_dtype(row, at, self._wanted[at], given[at])

    def _note_dtype(self, row: int, at: int, wanted: int, given: int) -> None:
        table, expected, found = self._table, dtype_name(wanted), dtype_name(given)
        code = table.edges[at]
        text = f" ({table.op(row)}) requires {expected} as input {at - table.offsets[row]}, but"
        facts: dict[str, Json] = {"expected": expected, "found": found}
        if self._of:
            text += f" reads {found}"
        else:
            tensor = format_input(table.names[code >> Table.PORT_BITS], code & Table.CONTROL_PORT)
            facts["tensor"] = tensor
            text += f" {quoted(tensor)} is {found}"
        self._note(self.faults, row, text, "dtype-mismatch", **facts)

    def _note_output(self, row: int, code: int) -> None:
        producer, number = code >> Table.PORT_BITS, self._output_count(code >> Table.PORT_BITS)
        name = self._table.names[producer]
        tensor = f"{name}:{code & Table.CONTROL_PORT}"
        has = f"{quoted(name)} ({self._table.op(producer)}) has {number} output{'' if number == 1 else 's'}"
        text = f" reads {quoted(tensor)}, but {has}"
        self._note(self.faults, row, text, "no-such-output", tensor=tensor, count=number)

    def _note_unresolved(self, row: int, text: str) -> None:
        """Notes that the input `text` of a row is not an output of a node."""
        if self._of:
            text = text.replace(":", "", 1)
            line = f" reads {quoted(text)}, which the function does not have"
            self._note(self.faults, row, line, "no-such-tensor", tensor=text)
            return
        ref = parse_input(text)
        if ref is None:
            line = f" has the input {quoted(text)}, which is not a tensor name"
            self._note(self.faults, row, line, "bad-tensor-name", tensor=text)
        elif ref.node in self._table.rows:
            line = f" reads {quoted(text)}, but no op has that many outputs"
            self._note(self.faults, row, line, "no-such-output", tensor=text)
        else:
            near = nearest(ref.node, self._table.names) if self.faults.counts.total() < _MOST_SUGGESTIONS else None
            verb = "has a control dependency on" if text[:1] == "^" else "reads"
            line = f" {verb} {quoted(text)}, but there is no node {quoted(ref.node)}.{suggestion(near)}"
            self._note(self.faults, row, line.removesuffix("."), "no-such-node", tensor=text, near=near)

    def tell(self, findings: Findings) -> None:
        """Adds the results to `findings`."""
        findings.faults += self.faults.first()[: MOST_FAULTS - len(findings.faults)]
        findings.counts += self.faults.counts
        if not self._of:
            findings.warnings += self.warnings.first()
            findings.reordered += self.reordered
            for op, row in self.unknown.items():
                name = self._table.names[row]
                text = f"op {quoted(op)} (node {quoted(name)}) is unknown in this version of TensorFlow"
                findings.warn(text, "missing-op", op=op, node=name)


class Look(NamedTuple):
    """The properties of equal nodes: the findings about their attrs, and the kinds of their inputs."""

    found: AttrFindings
    kinds: bytes

    @property
    def is_miscounted(self) -> bool:
        """Whether there are too few or too many data inputs."""
        return self.kinds.count(DATA_INPUT) != self.found.inputs >= 0

    @property
    def is_late(self) -> bool:
        """Whether a data input is after a control input."""
        return CONTROL_INPUT + DATA_INPUT in self.kinds

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to note about the node."""
        return self.found.is_plain and not (self.is_miscounted or self.is_late or self.lists_outputs)

    @property
    def lists_outputs(self) -> bool:
        """Whether `first` does not describe all outputs."""
        count = self.found.outputs
        return count > 1 or (count == 1 and not self.first)

    @property
    def first(self) -> int:
        """The dtype of output 0; 0 if it is unknown."""
        if self.found.outputs == 0:
            return NO_OUTPUT
        return next((dtype for dtype, number in self.found.gives or () if number), 0)

    @property
    def wanted(self) -> bytes:
        """For each input the dtype that the op requires; 0 if it is unknown, and for control inputs."""
        if self.found.takes is None or self.is_miscounted:
            return bytes(len(self.kinds))
        dtypes = chain.from_iterable(repeat(dtype, number) for dtype, number in self.found.takes)
        return bytes(next(dtypes) if kind == ord(DATA_INPUT) else 0 for kind in self.kinds)


class _Lines:
    """Remarks about rows, in row order. After the first `MOST_FAULTS`, they are only counted."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, Remark]] = []
        self.counts: Counter[str] = Counter()

    def add(self, row: int, line: Remark) -> None:
        self.counts[line.code] += 1
        self._kept.append((row, line))
        if len(self._kept) > 2 * MOST_FAULTS:
            self._kept = self._kept_first()

    def _kept_first(self) -> list[tuple[int, Remark]]:
        return sorted(self._kept, key=itemgetter(0))[:MOST_FAULTS]

    def first(self) -> list[Remark]:
        return [line for _, line in self._kept_first()]


def is_valid_in_function(name: str) -> bool:
    """Returns whether a node of a function can have the name: it can begin with an underscore."""
    return is_valid_name("." + name[1:] if name[:1] == "_" else name)


def _is_readable(record: Record) -> bool:
    """Returns whether protobuf can read the record; large records are assumed to be readable."""
    if record.end - record.body > LARGE:
        return True
    try:
        NodeDef.FromString(record.buffer()[0 : record.end - record.body])
    except decode_error():
        return False
    return True


def _all_valid(names: Sequence[str]) -> bool:
    """Returns whether all `names` are obviously legal; False if each must be checked."""
    joined = "\n".join(["", *names]).encode("utf-8", "surrogatepass")
    return joined.translate(None, _NAME_BYTES) == b"\n" * len(names) and not search(rb"\n([_/-]|\Z|(?=\n))", joined)


_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/"
_AT_ONCE = 1 << 14
"""The number of inputs whose dtypes one call looks up."""
_MOST_SUGGESTIONS = 5
"""The number of faults up to which missing nodes are reported with a suggestion."""
