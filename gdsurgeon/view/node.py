"""The details of nodes, as text and as JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Any

from gdsurgeon.analysis.queries.attr_text import format_attr, format_element
from gdsurgeon.analysis.queries.constants import ConstantValues, Element, value_of
from gdsurgeon.analysis.queries.node_facts import InputFacts, NodeFacts, OutputFacts
from gdsurgeon.analysis.shapes.arithmetic import typed
from gdsurgeon.errors import EditError, InputError, Json, Line, printable
from gdsurgeon.graph.attrs import format_shape, kind_of, shape_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import STRING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import COLOCATION_ATTR, is_variable
from gdsurgeon.ops.op_defs import table_version
from gdsurgeon.text import columns, counted, size
from gdsurgeon.view.report import shape_json, to_json

MOST_LISTED = 20
"""Lines of one list that are shown to people."""
WIDEST = 40
"""The maximum width to which a column is padded."""
MOST_FIRST = 8
"""Elements of a value that are shown by default."""
MOST_VALUES = 10_000_000
"""Elements of a value that are printed."""
WIDTH = 80
"""The maximum number of columns of a line, if names allow."""


@dataclass
class ShownNode:
    """A node to be shown.

    Attributes:
        facts: the facts about the node.
        marked: indices of the outputs that were asked for by name.
        faults: the faults of the node.
        is_whole: whether all of its value is printed.
    """

    facts: NodeFacts
    marked: set[int] = field(default_factory=set)
    faults: Sequence[str] = ()
    is_whole: bool = False


# -- for people ----------------------------------------------------------------------------------------------


def lines(shown: ShownNode) -> Iterator[str]:
    """Yields the lines about a node: its inputs and outputs, its attrs, its value."""
    facts = shown.facts
    node = facts.node
    head = f"{printable(node.name)}  {printable(node.op)}"
    article = "an" if facts.end[:1] in tuple("aeiou") else "a"
    yield head + (f"  ({article} {facts.end} of the function)" if facts.end else "")
    yield from (f"  broken    {fault}" for fault in shown.faults)
    if node.op_def is None:
        yield f"  op        unknown in TensorFlow {table_version()}"
    if node.device:
        yield f"  device    {printable(node.device)}"
    if facts.inputs or facts.controls:
        yield "  inputs"
    yield from _columns([[str(slot), *_input_row(read)] for slot, read in enumerate(facts.inputs)])
    controls = [(name, "does not exist" if node is None else printable(node.op)) for name, node in facts.controls]
    yield from _columns([[f"^{printable(name)}", op] for name, op in controls])
    yield from _output_lines(facts.outputs, shown.marked)
    yield from _section("control outputs", [[printable(user.name), printable(user.op)] for user in facts.waiting])
    yield from _attr_lines(node)
    rows = [[printable(name), "" if there else "does not exist"] for name, there in facts.colocated]
    yield from _section("colocated with", rows)
    yield from _section("colocated with it", [[printable(it.name), printable(it.op)] for it in facts.companions])
    for name, count in facts.functions:
        there = "which the library does not have" if count is None else f"{counted(count, 'node')}"
        yield f"  calls     {printable(name)}, {there}"
    yield from _value_lines(node, is_whole=shown.is_whole)


def _input_row(read: InputFacts) -> list[str]:
    if not read.is_there:
        return [printable(read.argument), "", printable(read.name), "does not exist"]
    op = printable(read.op) + (f" = {_fitting(read.elements, len(read.elements), WIDEST)}" if read.elements else "")
    return [printable(read.argument), typed(read.dtype, read.shape), printable(read.name), op]


def _fitting(elements: Sequence[Element], count: int, room: int) -> str:
    """Returns the first of `count` elements, at least one, in at most `room` characters, and dots if there are more."""
    texts: list[str] = []
    for text in map(format_element, elements):
        if texts and len(", ".join([*texts, text])) > room:
            break
        texts.append(text)
    return ", ".join([*texts, "..."] if len(texts) < count else texts)


def _output_lines(outputs: Sequence[OutputFacts], marked: set[int]) -> Iterator[str]:
    if outputs:
        yield "  outputs"
    for output in outputs:
        facts = [str(output.index), printable(output.argument), typed(output.dtype, output.shape)]
        if not output.is_there:
            facts = [str(output.index), "does not exist"]
        uses = len(output.readers)
        facts += ["unused" if not uses else "used once" if uses == 1 else f"used {counted(uses, 'time')}"]
        facts += ["<- selected"] if output.index in marked else []
        yield "    " + "  ".join(filter(None, facts))
        yield from _columns([["called", printable(name)] for name in output.served], "      ")
        rows = [[f"input {r.slot} of", printable(r.node.name), printable(r.node.op)] for r in output.readers]
        yield from _columns(rows, "      ")


def _columns(rows: Sequence[Sequence[str]], indent: str = "    ") -> Iterator[str]:
    """Yields the first rows as a table without empty columns, and the number of other rows."""
    shown = rows[:MOST_LISTED]
    width = max(map(len, shown), default=0)
    yield from columns([[*row, *[""] * (width - len(row))] for row in shown], indent, widest=WIDEST)
    if len(rows) > len(shown):
        yield f"{indent}and {len(rows) - len(shown):,} more"


def _section(head: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield f"  {head}"
        yield from _columns(rows)


def _attr_lines(node: Node) -> Iterator[str]:
    rows = []
    for key in _attr_keys(node):
        try:
            value = node.attr(key)
        except InputError:
            rows.append((printable(key), "corrupt"))
            continue
        assert value is not None
        tensor = value.tensor if value.WhichOneof("value") == "tensor" else None
        text = f"a tensor: {typed(tensor.dtype, shape_of(tensor.tensor_shape))}" if tensor else format_attr(value)
        rows.append((printable(key), text))
    if rows:
        yield "  attrs"
    width = max((len(key) for key, _ in rows), default=0)
    for key, text in rows:
        for number, line in enumerate(_wrapped(text, WIDTH - width - 6)):
            yield f"    {key if not number else '':<{width}}  {line}"


def _wrapped(text: str, room: int) -> list[str]:
    """Returns a list as lines of at most `room` characters, if its items allow."""
    out = [""]
    for part in text.split(",") if text.startswith("[") else [text]:
        if out[-1] and len(out[-1]) + len(part) + 1 > room:
            out[-1] += ","
            out.append(part)
        else:
            out[-1] += f",{part}" if out[-1] else part
    return out


def _attr_keys(node: Node) -> Iterator[str]:
    """Yields the keys of attrs that are not shown elsewhere, as constant values and colocations are."""
    for key in sorted(node.attr_keys):
        is_value = key == "value" and node.op == "Const"
        if not is_value and not (key == COLOCATION_ATTR and node.colocated):
            yield key


# -- values --------------------------------------------------------------------------------------------------


def _value_lines(node: Node, *, is_whole: bool) -> Iterator[str]:
    try:
        value = value_of(node)
    except InputError as error:
        yield f"  no value  {error.message}"
        return
    if value is None:
        if is_variable(node.op) and (not isinstance(node.graph, Graph) or node.graph.serving is None):
            yield "  no value  the file has no value of this variable"
        elif is_variable(node.op):
            yield Line(
                "  no value  the value of a variable is in its checkpoint: name the checkpoint with {checkpoint}"
            )
        return
    what = f"{value.dtype.name} {format_shape(value.shape)}"
    yield f"  value     {what}, {counted(value.count, 'element')}, {size(value.nbytes)}"
    if value.count > 1 and value.stored < value.count:
        yield f"    stored  {counted(value.stored, 'element')}; the last is repeated"
    if value.count > 1:
        yield from (
            f"    {label:<7} {text}"
            for label, text in value.statistics.lines("empty" if value.dtype == STRING else "zero")
        )
    if is_whole:
        yield from _whole(value)
    elif value.count:
        first = _fitting(value.first(MOST_FIRST), value.count, WIDTH - 14 - len(", ..."))
        yield f"    {'first' if value.count > MOST_FIRST else 'all':<7} {first}"


def _whole(value: ConstantValues) -> Iterator[str]:
    """Yields all elements, one row per line, in brackets as in NumPy and `freeze-input`."""
    check_printable(value)
    elements = [_in_full(element) for element in value.first(value.count)]
    row = value.shape[-1] if value.shape else 1
    for start in range(0, len(elements), max(row, 1)):
        opened = closed = 0
        step = 1
        for dim in reversed(value.shape):
            step *= dim
            opened += start % step == 0
            closed += (start + row) % step == 0
        dims = len(value.shape)
        text = " " * (dims - opened) + "[" * opened + ", ".join(elements[start : start + row]) + "]" * closed
        yield "    " + text + ("," if closed < dims else "")
    if not elements:
        yield "    []"


def _in_full(element: Element) -> str:
    if not isinstance(element, bytes):
        return format_element(element)
    try:
        return f"'{printable(element.decode())}'"
    except UnicodeDecodeError:
        return repr(element)


def check_printable(value: ConstantValues) -> None:
    """Raises EditError if `value` has more elements than are printed."""
    if value.count > MOST_VALUES:
        line = "{count} elements are more than can be printed ({most}): {save} writes them to a file"
        raise EditError(Line(line, count=f"{value.count:,}", most=f"{MOST_VALUES:,}"))


# -- for machines ----------------------------------------------------------------------------------------------


def as_json(shown: ShownNode) -> dict[str, Json]:
    """Returns a node as JSON, with all consumers and elements; unknown facts are null."""
    facts = shown.facts
    node = facts.node
    return {
        **to_json(node, "name", "op", "device"),
        "known": node.op_def is not None,
        "stands_for": facts.end or None,
        "faults": list(shown.faults),
        "inputs": [
            to_json(read, "op", "argument", "dtype", "shape", tensor="name", exists="is_there")
            | {"elements": None if read.elements is None else [*map(element_json, read.elements)]}
            for read in facts.inputs
        ],
        "control_inputs": [name for name, _ in facts.controls],
        "outputs": [
            to_json(output, "index", "argument", "dtype", "shape", exists="is_there", called="served")
            | {
                "asked_for": output.index in shown.marked,
                "readers": [to_json(r, node="node.name", op="node.op", input="slot") for r in output.readers],
            }
            for output in facts.outputs
        ],
        "control_outputs": [user.name for user in facts.waiting],
        "attrs": {key: _attr_json(node, key) for key in _attr_keys(node)},
        "colocated_with": [name for name, _ in facts.colocated],
        "colocated_with_it": [other.name for other in facts.companions],
        "functions": [{"name": name, "nodes": count} for name, count in facts.functions],
        "value": _value_json(node, is_whole=shown.is_whole),
    }


def _attr_json(node: Node, key: str) -> dict[str, Json]:
    try:
        value = node.attr(key)
    except InputError:
        return {"kind": None, "value": None}
    assert value is not None
    which = value.WhichOneof("value")
    if which != "list":
        found = None if which is None else _item_json(which, getattr(value, which))
        return {"kind": kind_of(value) or None, "value": found}
    items: list[Json] = [_item_json(name.name, item) for name, held in value.list.ListFields() for item in held]
    return {"kind": kind_of(value), "value": items}


def _item_json(field: str, item: Any) -> Json:
    """Returns an item of an AttrValue as JSON; `field` is the name of its field."""
    if field == "type":
        return dtype_name(item)
    if field == "shape":
        return shape_json(shape_of(item))
    if field == "func":
        return str(item.name)
    if field == "tensor":
        return {"dtype": dtype_name(base_dtype(item.dtype)), "shape": shape_json(shape_of(item.tensor_shape))}
    found: Json = element_json(item)
    return found


def _value_json(node: Node, *, is_whole: bool) -> Json:
    try:
        value = value_of(node)
    except InputError as error:
        return {"error": error.message}
    if value is None:
        return None
    out: dict[str, Json] = {
        "dtype": value.dtype.name,
        "shape": list(value.shape),
        "bytes": value.nbytes,
        "stored": value.stored,
        "statistics": {key: element_json(item) for key, item in value.statistics._asdict().items()},
        "first": [element_json(element) for element in value.first(MOST_FIRST)],
    }
    if is_whole:
        check_printable(value)
        out["values"] = [element_json(element) for element in value.first(value.count)]
    return out


def element_json(element: Element | None) -> Json:
    """Returns an element as JSON: ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` as in protobuf's JSON; complex numbers
    as two numbers, and bytes that are not UTF-8 as ``{"base64": ...}``.
    """
    if isinstance(element, bytes):
        try:
            return element.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(element).decode()}
    if isinstance(element, complex):
        return [element_json(element.real), element_json(element.imag)]
    if isinstance(element, float) and not isfinite(element):
        return "NaN" if isnan(element) else "Infinity" if element > 0 else "-Infinity"
    return element
