"""The value of an attr, from the text that a user writes."""

from __future__ import annotations

from gdsurgeon.analysis.queries.attr_text import is_kind, parse_attr
from gdsurgeon.errors import EditError, Json, printable, quoted
from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.text import is_utf8, nearest, suggestion
from gdsurgeon.wire.protos import AttrValue


def attr_from_text(graph: Graph, op: str, key: str, kind: str, text: str) -> AttrValue:
    """Returns the AttrValue of `kind` for attr `key` of `op`, parsed from `text`.

    Raises:
        EditError: the text is not a value of that kind, or names a function that the graph does not have.
    """
    where = f"attr {quoted(key)} of {printable(op)}"
    facts: dict[str, Json] = {"op": op, "attr": key, "expected": kind}
    if not is_kind(kind):
        is_content = (op, key) == ("Const", "value")
        advice = "freeze-input" if is_content else ()
        raise EditError(
            f"{where} has kind {kind}, which cannot be written as text", code="not-text", facts=facts, advice=advice
        )
    if not is_utf8(text) and "func" in kind:
        line = f"{where} has kind {kind}: {quoted(text)} is not UTF-8 text"
        raise EditError(line, code="bad-value", facts=facts | {"value": text})
    try:
        value = parse_attr(kind, text)
    except EditError as error:
        line = f"{where} has kind {kind}: {error.message}"
        raise EditError(line, code=error.code, facts=error.facts | facts) from None
    for func in functions_in(value):
        if func.name not in graph.functions:
            names = [function.signature.name for function in graph.functions]
            has = f"{printable(graph.source_name)} has no function {quoted(func.name)} ({len(names):,})"
            near = nearest(func.name, names)
            found = {"function": func.name, "near": near}
            raise EditError(f"{has}.{suggestion(near)}", code="no-such-function", facts=facts | found)
    return value
