"""Checks without execution that every difference of an edit was requested and declared.

A comparison of the graph with the written graph finds the differences. The edit declares the expected differences. A
specification derives them from the request, and shares no code with the edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison, compare_written
from gdsurgeon.edits.claims import EditResult, Stage
from gdsurgeon.errors import ValidationError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.specification.specify import Asked, stage_violations, violations
from gdsurgeon.wire.protos import AttrValue, NodeDef, NodeHeaders
from gdsurgeon.wire.write import Chunk, resolved

MOST_DETAILS = 100
UNREQUESTED = "the result is not what was requested:", "unrequested-change"


def check_accounted(graph: Graph, result: EditResult, chunks: Sequence[Chunk]) -> None:
    """Compares the file of a graph with the written graph, and the differences with the result of the edit.

    Args:
        graph: after the edit.
        result: of the edit.
        chunks: the binary GraphDef that is written.

    Raises:
        ValidationError: a difference was not declared or requested, or a declared or requested difference does not
            exist.
    """
    stages = result.stages or (Stage(graph.pristine(), result),)
    before = graph.pristine()
    done: list[Asked] = []
    for at, stage in enumerate(stages):
        following = stages[at + 1].before if at + 1 < len(stages) else None
        asked = stage.result.asked or result.asked
        written = chunks if following is None else list(resolved(following.chunks()))
        after = _check(before, replace(stage.result, asked=asked), written)
        done += [asked] if asked is not None else []
        if following is not None:
            # The graph that was read replaces it: the bytes are equal, and it is indexed.
            after.serving = following.serving
            before = after
    if result.asked is not None and result.stages:
        _refuse(stage_violations(result.asked, done, after), *UNREQUESTED)


def _check(before: Graph, result: EditResult, chunks: Sequence[Chunk]) -> Graph:
    """Compares a file with the written result of an edit; returns the graph that was read from it."""
    inside = {name: inner.intent.renamed for name, (_, inner) in result.inside.items()}
    comparison = compare_written(before, chunks, result.intent.renamed, inside)
    changes = "the result has changes that the edit did not declare:"
    _refuse(unaccounted(comparison, result), changes, "undeclared-change")
    _refuse(missing_functions(comparison), "the result calls functions that do not exist:", "no-such-function")
    _refuse(unasked(comparison, result), *UNREQUESTED)
    return comparison.after


def _refuse(faults: Iterator[str], message: str, code: str) -> None:
    """Raises ValidationError if there are `faults`."""
    details = tuple(islice(faults, MOST_DETAILS))
    if details:
        raise ValidationError(message, code=code, details=details)


def unaccounted(comparison: Comparison, result: EditResult) -> Iterator[str]:
    """Yields a line for each undeclared difference, and for each declared difference that does not exist."""
    yield from audit(comparison, result.intent, "the edit did not declare it")
    for name, (_, inner) in result.inside.items():
        body = comparison.inside.get(name)
        found = ["nothing differs"] if body is None else unaccounted(body, inner)
        yield from (f"in the function {quoted(name)}: {fault}" for fault in found)


def missing_functions(comparison: Comparison) -> Iterator[str]:
    """Yields a line for each call of a removed function, and for each missing function that a new or changed node
    calls.

    Reads attributes itself, because the code that tells edits which functions are used may be wrong.
    """
    gone = {*comparison.facts.functions.removed}
    there = {function.signature.name for function in comparison.after.functions}
    for where, op, attrs, is_new in _users(comparison):
        called = {name for value in attrs for name in _called(value)}
        for name in sorted({op, *called} & gone | (called - there if is_new else set())):
            yield f"{where} calls {quoted(name)}"


def _users(comparison: Comparison) -> Iterator[tuple[str, str, Iterable[AttrValue], bool]]:
    """Yields the description, op and attributes of nodes that may call functions, and whether the node is new or
    changed."""
    after, facts = comparison.after, comparison.facts
    new, new_functions = {*facts.added, *facts.altered}, {*facts.functions.added, *facts.functions.changed}
    nodes = [after[name] for name in (new if _may_some_call(after, new) else ()) if _may_call(_op(after, name))]
    if facts.functions.removed:  # otherwise unchanged nodes need not be found, which indexes the file
        topology = topology_of(after)
        nodes = [topology.node(number) for number in topology.with_ops(filter(_may_call, topology.ops()))]
    for node in nodes:
        yield f"the node {quoted(node.name)}", node.op, (value for _, value in node.attrs()), node.name in new
    for function in after.functions if facts.functions.removed or new_functions else ():
        name = function.signature.name
        for inner in function.node_def:
            where = f"the node {quoted(inner.name)} of the function {quoted(name)}"
            yield where, inner.op, inner.attr.values(), name in new_functions


def _may_some_call(graph: Graph, names: Iterable[str]) -> bool:
    """Returns whether one of the nodes `names` of a written graph may call functions; decodes many nodes at once."""
    records = [record.data for name in names if (record := graph.store.record(name)) is not None]
    return None in records or any(map(_may_call, set(NodeHeaders.FromString(b"".join(filter(None, records))).op)))


def _op(graph: Graph, name: str) -> str:
    """Returns the op of a written node, '' without the node; protobuf decodes small records faster than `Node` does."""
    record = graph.store.record(name)
    if record is None or record.data is None:
        return graph[name].op if record is not None else ""
    return NodeDef.FromString(record.data).op


@cache
def _may_call(op: str) -> bool:
    definition = op_def(op)
    return bool(op) and (definition is None or definition.takes_functions)


def _called(value: AttrValue) -> Iterator[str]:
    for function in (value.func, *value.list.func):
        if function.name:
            yield function.name
            for inner in function.attr.values():
                yield from _called(inner)


def unasked(comparison: Comparison, result: EditResult) -> Iterator[str]:
    """Yields a line for each difference that was not requested, and for each requested difference that does not
    exist."""
    if result.asked is not None:
        yield from violations(comparison, result.asked, result.decided)
    for name, (_, inner) in result.inside.items():
        body = comparison.inside.get(name)
        if body is not None:
            yield from (f"in the function {quoted(name)}: {fault}" for fault in unasked(body, inner))
