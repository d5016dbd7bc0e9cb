"""Calls of functions, inlined, and what the graph then gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.inline import inline
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.messages import message
from support import graphs
from support.expecting import refuse
from support.graphs import FLOAT, INT32, add, call, const, define, graph, graph_bytes, neg, node, scalar
from support.patience import LONG_ENOUGH, within
from support.running import outcome


def refused(found: Graph, words: str, *functions: str, **options: Any) -> EditError:
    with within(LONG_ENOUGH):
        return refuse(found, re.escape(words), lambda g: inline(g, functions, **options))


def same(records: Sequence[bytes], *fetches: str, feeds: Sequence[dict[str, Any]], **options: Any) -> Graph:
    """The graph with everything inlined; it must give what it gave, whatever it is fed."""
    found = graph(*records)
    inline(found, **options)
    assert check(from_bytes(graphs.written(found))).faults == []
    for given_ in feeds:
        before = outcome(graph_bytes(*records), *fetches, **given_)
        assert outcome(found, *fetches, **given_) == before, given_
    return found


def functions_of(found: Graph) -> list[str]:
    return [f.signature.name for f in graphs.parsed(found).library.function]


XS = [{"x": [1.0, -2.0]}]


TWICE = define("twice", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a"))


LESS_ONE = define(
    "less_one", {"a": FLOAT}, {"o": (FLOAT, "d:z:0")}, scalar("k", 1), node("d", "Sub", ["a", "k:output:0"], T=FLOAT)
)


F1 = [FLOAT]


TWO = define(
    "two", {"a": FLOAT, "b": INT32}, {"p": (FLOAT, "n:y:0"), "q": (INT32, "b"), "r": (FLOAT, "a")}, neg("n", "a")
)


TWO_CALL = call("c", "two", ["x", "i"], [FLOAT, INT32], [FLOAT, INT32, FLOAT])


I = const("i", [4], INT32)  # noqa: E741


def listed() -> Any:
    """A function of N tensors of type T, and of tensors of the types Ts: the sum of those, and these as they are."""
    made = message("tensorflow.FunctionDef")()
    made.signature.name = "listed"
    made.signature.input_arg.add(name="many", type_attr="T", number_attr="N")
    made.signature.input_arg.add(name="mixed", type_list_attr="Ts")
    made.signature.output_arg.add(name="sum", type_attr="T")
    made.signature.output_arg.add(name="same", type_list_attr="Ts")
    for name, kind in (("T", "type"), ("N", "int"), ("Ts", "list(type)")):
        made.signature.attr.add(name=name, type=kind)
    made.node_def.extend(graphs.proto(node("s", "AddN", ["many"]), node("m", "IdentityN", ["mixed"]),
                                      trailer=b"").node)  # fmt: skip
    made.node_def[0].attr["T"].placeholder = "T"
    made.node_def[0].attr["N"].placeholder = "N"
    made.node_def[1].attr["T"].placeholder = "Ts"
    made.ret["sum"], made.ret["same"] = "s:sum:0", "m:output"
    return made
