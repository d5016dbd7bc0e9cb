"""Mistakes planted in extract, and in what it is written on: each is found without running anything."""

from __future__ import annotations

import pytest
from support.cloning import KEYS, table, variable
from support.extracting import model
from support.graphs import FLOAT, INT32, X, add, call, define, graph, identity, library, neg, node, placeholder, scalar
from support.mutants import Mutant, account, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.extract import extract
from gdsurgeon.graph.graph import Graph

EXTRACT, PLACES, NEEDED = "edits.extract", "edits.copying.placeholders", "analysis.queries.initialisers"


def at_relu() -> tuple[Graph, EditResult]:
    found = graph(*model(), add("sum", "head", "aux"))
    return found, extract(found, ["relu"], ["head", "aux"])


def at_output_1() -> tuple[Graph, EditResult]:
    """A cut at output 1 of a node of which output 0 is needed too, and of which others read output 1 as well."""
    found = graph(
        placeholder("x", FLOAT, (6, 2)), scalar("axis", 0, INT32),
        node("s", "Split", ["axis", "x"], T=FLOAT, num_split=3), add("y", "s:1", "s"), neg("z", "s:1"), neg("w", "s:1"),
    )  # fmt: skip
    return found, extract(found, ["s:1"], ["y", "z"])


def waiting() -> tuple[Graph, EditResult]:
    found = graph(X, neg("seen", "x"), node("ready", "NoOp", ["^seen"]), neg("h", "x"), neg("y", "h", ), neg("z", "h"),
                  identity("out", "y", "^ready"))  # fmt: skip
    return found, extract(found, [], ["out"])


def of_a_table() -> tuple[Graph, EditResult]:
    found = graph(KEYS, *table("s", "kept", "init"), neg("y", "s/find"), neg("other", "s/find"))
    return found, extract(found, [], ["y"])


def of_a_variable() -> tuple[Graph, EditResult]:
    found = graph(X, *variable("s", "init"), neg("y", "s/mul"), neg("other", "s/mul"))
    return found, extract(found, [], ["y"])


def of_functions() -> tuple[Graph, EditResult]:
    names = ("f", "f_grad", "g", "g_grad")
    functions = [define(n, {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "x")) for n in names]
    found = graph(X, call("a", "f", ["x"], [FLOAT], [FLOAT]), call("b", "g", ["x"], [FLOAT], [FLOAT]),
                  library(*functions, gradients={"f": "f_grad", "g": "g_grad"}))  # fmt: skip
    return found, extract(found, [], ["a"])


def beside_a_cut() -> tuple[Graph, EditResult]:
    found = graph(X, neg("a", "x"), neg("b", "a"), identity("y", "b", _class=["loc:@b"]), neg("z", "a"))
    return found, extract(found, ["b"], ["y"])


MUTANTS = [
    Mutant("the placeholder at the cut has a batch of one baked in", PLACES, "= shape_value(shape).SerializeToString()",
           "= shape_value((1, *shape[1:])).SerializeToString()", at_relu),
    Mutant("the placeholder at the cut is of another type", PLACES, "type_value(base_dtype(dtype))",
           "type_value(base_dtype(dtype) + 1)", at_relu),
    Mutant("only the first of the outputs is extracted", EXTRACT,
           "ends = list(dict.fromkeys(graph.output(item) for item in outputs))", "ends = [graph.output(outputs[0])]",
           at_relu),
    Mutant("all that reads the cut tensor stays", EXTRACT, "    names = _cut(graph,",
           "    going = [node for node in going if node not in graph.users(starts[0].node)] if starts else going\n"
           "    intent.removed = [node.name for node in going]\n    names = _cut(graph,",
           at_output_1),
    Mutant("the cut is at output 0", EXTRACT, "starts = list(dict.fromkeys(graph.output(item) for item in inputs))",
           "starts = [graph.output(item).node.output for item in inputs]", at_output_1),
    Mutant("only the first reader reads the placeholder", EXTRACT,
           "[use for use in graph.uses(output) if kept[topology.id_of(use.node)]]",
           "[use for use in graph.uses(output) if kept[topology.id_of(use.node)]][:1]", at_output_1),
    Mutant("who reads another output reads the placeholder", EXTRACT,
           "[use for use in graph.uses(output) if kept[topology.id_of(use.node)]]",
           "[u for o in output.node.outputs for u in graph.uses(o) if kept[topology.id_of(u.node)]]", at_output_1),
    Mutant("the placeholder has a name of its own", EXTRACT, "            name = unique(f\"{name}_{output.index}\")\n",
           "            name = unique(f\"{name}_in\")\n", at_output_1),
    Mutant("control edges are dropped, with what they led to", EXTRACT,
           "    kept = needed(topology, starts, ends)\n    unneeded = ",
           "    for user in list(graph.nodes()):\n        graph.set_controls(user, ())\n"
           "    kept = needed(topology, starts, ends, control=False)\n    unneeded = ", waiting),
    Mutant("inputs that nothing needs stay", EXTRACT, "for number in topology.numbers() if not kept[number]]",
           "for number in topology.numbers() if not kept[number] and topology.op(number) != 'Placeholder']", at_relu),
    Mutant("initialisers are cut away", EXTRACT, "*needed_initialisers(topology, kept)", "*()", of_a_table),
    Mutant("assignments of variables are cut away", NEEDED,
           "found = [user for number in holders for user in assignments(topology, number)]",
           "found = [u for n in holders for u in assignments(topology, n) if topology.op(u) != 'Assign']",
           of_a_variable),
    Mutant("the gradient functions of functions are thrown away", "analysis.queries.function_usage",
           "for name in names), gradients=True))", "for name in names)))", of_functions),
    Mutant("functions that nobody calls stay", "edits.functions.unused", "    if unused:\n", "    if False:\n",
           of_functions),
    Mutant("functions are thrown away", "edits.functions.unused", "if (name := function.signature.name) not in used]",
           "if (name := function.signature.name) != '']", of_functions),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)


def test_who_stood_beside_a_tensor_at_the_cut_is_free() -> None:
    account(beside_a_cut)
    assert beside_a_cut()[0]["y"].colocated == ()
