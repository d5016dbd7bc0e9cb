"""What a trainer has in a graph besides the network, read off its edges: savers, and what optimisers keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.kinds import IDENTITY, PLACEHOLDERS, RESTORES, SAVES, VARIABLE_READS, is_step, is_variable
from gdsurgeon.specification.sharing import assignments

_OF_FILES = PLACEHOLDERS | {"Const", "Pack", "ShardedFilename", "ShardedFilespec", "StringJoin"}
_PASSING = IDENTITY | {"Reshape", "Cast"}


def read(table: Table, row: int) -> list[int]:
    """The rows whose tensors ROW reads, in order."""
    codes = [code for code in table.inputs(row) if code >= 0]
    return [code >> Table.PORT_BITS for code in codes if code & Table.CONTROL_PORT != Table.CONTROL_PORT]


def waited_for(table: Table, row: int) -> set[int]:
    """The rows that ROW waits for."""
    return {code >> Table.PORT_BITS for code in table.inputs(row) if code & Table.CONTROL_PORT == Table.CONTROL_PORT}


def of_op(table: Table, *ops: str) -> list[int]:
    """The rows of OPS."""
    numbers = {number for number, op in enumerate(table.op_names) if op in ops}
    return [row for row, number in enumerate(table.ops) if number in numbers] if numbers else []


def with_servants(table: Table, rows: Iterable[int], may: Collection[int] | None = None) -> set[int]:
    """ROWS, and what serves them alone: of those that MAY, or (None) of what makes the names of files."""
    out = set(rows)
    pending = list(out)
    while pending:
        for row in {code >> Table.PORT_BITS for code in table.inputs(pending.pop()) if code >= 0}:
            fits = table.op(row) in _OF_FILES if may is None else row in may and table.op(row) not in PLACEHOLDERS
            if fits and row not in out and out.issuperset(table.users(row)):
                out.add(row)
                pending.append(row)
    return out


def saver_rows(table: Table) -> set[int]:
    """All of what saves and restores."""
    saves = of_op(table, *SAVES)
    files = closure([row for save in saves for row in read(table, save)[:1]], lambda row: read(table, row))
    restores = [
        row
        for row in of_op(table, *RESTORES)
        for file in read(table, row)[:1]
        if table.op(file) in PLACEHOLDERS or (file in files and table.op(file) in _OF_FILES)
    ]
    return with_servants(table, closure([*saves, *restores], table.users))


def loader_rows(graph: Graph) -> set[int]:
    """What whoever loads the model feeds and runs, with the groups that this consists of."""
    table = graph.store.table
    runs = graph.serving.runs if graph.serving is not None else []
    fed = {table.rows[parse_tensor(tensor).node] for run in runs for tensor in run.feeds}

    def grouped(row: int) -> Iterator[int]:
        if table.op(row) == "NoOp":
            yield from (other for other in waited_for(table, row) if table.op(other) == "NoOp")

    return fed | closure([table.rows[name] for run in runs for name in run.targets], grouped)


def slot_rows(graph: Graph, rows: Iterable[int]) -> set[int]:
    """Those of ROWS that are variables of optimisers."""
    table = graph.store.table
    trained, others = set[int](), set[int]()
    for step in of_op(table, *filter(is_step, table.op_names)):
        taken = [_path(table, row)[-1] for row in read(table, step)]
        trained |= {*taken[:1]}
        others |= {*taken[1:]}
    out = set()
    for row in rows:
        if is_variable(table.op(row)) and row not in trained:
            name = table.names[row]
            beside = [other.name for other in graph[name].colocated if is_variable(other.op)]
            if row in others or any(name.startswith(other + "/") for other in beside):
                out.add(row)
    return out


def useless_rows(table: Table, inside: set[int], variables: set[int], but: set[int]) -> set[int]:
    """Those INSIDE that nobody needs without VARIABLES."""
    first = set(assignments(table, variables))
    below = closure(variables, lambda row: {*table.users(row)} & inside - first - but)
    return with_servants(table, below | (first & inside), inside)


class Kept(NamedTuple):
    """A variable in an op of a saver: which of the tensors there, and the nodes between the two."""

    op: int
    place: int
    path: tuple[int, ...]


def kept_places(graph: Graph, variables: Collection[int], savers: Collection[int]) -> list[Kept]:
    """Where SAVERS have VARIABLES, in order."""
    table = graph.store.table
    out = []
    for op in set(of_op(table, *SAVES)) & {*savers}:
        for place, row in enumerate(read(table, op)[SAVES[table.op(op)] :]):
            path = _path(table, row)
            if path[-1] in variables:
                out.append(Kept(op, place, tuple(path[:-1])))
    for row in variables:
        for assign in {*assignments(table, [row])} & {*savers}:
            code = table.inputs(assign)[1]
            path = [assign]
            while table.op(code >> Table.PORT_BITS) in _PASSING:
                path.append(code >> Table.PORT_BITS)
                code = table.inputs(path[-1])[0]
            if table.op(code >> Table.PORT_BITS) == "RestoreV2":
                out.append(Kept(code >> Table.PORT_BITS, code & Table.CONTROL_PORT, tuple(path)))
    return sorted(out)


def _path(table: Table, row: int) -> list[int]:
    """ROW, and what it reads and passes on, to the variable where that is one."""
    path = [row]
    while table.op(path[-1]) in VARIABLE_READS and (above := read(table, path[-1])):
        path.append(above[0])
    return path
