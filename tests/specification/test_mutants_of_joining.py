"""Mistakes planted in import, insert, add-preprocessing, add-postprocessing, and in what copies graphs in."""

from __future__ import annotations

from typing import Any

import pytest
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    UINT8,
    X,
    add,
    call,
    const,
    define,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    versions,
)
from support.graphs import loop as while_loop
from support.mutants import Mutant, check_caught

from gdsurgeon.edits.add_postprocessing import add_postprocessing
from gdsurgeon.edits.add_preprocessing import add_preprocessing
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.copying.parts import Mapped
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.insert import insert
from gdsurgeon.graph.graph import Graph

COPY, NAMES, MERGE = "edits.copying.copy_in", "edits.copying.fresh_names", "edits.functions.merge"
COPIES = "edits.copying.node_copy"
IMPORT, INSERT = "edits.import_graph", "edits.insert"
PRE, POST, PARTS = "edits.add_preprocessing", "edits.add_postprocessing", "edits.copying.parts"


def halves(name: str = "halves") -> list[bytes]:
    return [scalar("axis", 0, INT32), node(name, "Split", ["axis", "x"], T=FLOAT, num_split=2)]


def theirs() -> Graph:
    """u * k - v, with a device, a control edge, a colocation, and a name that the model has."""
    return graph(
        placeholder("u"), placeholder("v"), const("k", [10, 10]), node("ready", "NoOp", ["^k", "^u"]),
        node("mul", "Mul", ["u", "k"], T=FLOAT), neg("x", "mul"),
        node("y", "Sub", ["mul", "v", "^ready"], T=FLOAT, device="/cpu:0", _class=["loc:@k", "loc:@u"]),
        name="other.pb",
    )  # fmt: skip


def connected() -> tuple[Graph, EditResult]:
    found = graph(X, *halves(), neg("y", "halves"))
    return found, import_graph(found, theirs(), connect=[("halves:1", "u"), ("y", "v")])


def under_a_scope() -> tuple[Graph, EditResult]:
    found = graph(X, neg("y", "x"))
    return found, import_graph(found, theirs(), scope="other")


def of_a_loop() -> tuple[Graph, EditResult]:
    found = graph(*while_loop())
    return found, import_graph(found, graph(*while_loop(step=2)))


def table(name: str) -> list[bytes]:
    kind: dict[str, Any] = {"key_dtype": STRING, "value_dtype": INT32, "container": ""}
    return [node(name, "HashTableV2", shared_name="t", **kind), node(f"{name}_size", "LookupTableSizeV2", [name])]


def of_a_table() -> tuple[Graph, EditResult]:
    found = graph(*table("mine"))
    return found, import_graph(found, graph(*table("its")))


def of_nameless_variables() -> tuple[Graph, EditResult]:
    def variable(name: str) -> list[bytes]:
        return [node(name, "VarHandleOp", dtype=FLOAT, shape=(2,)), node(f"{name}_read", "ReadVariableOp", [name],
                                                                         dtype=FLOAT)]  # fmt: skip

    found = graph(*variable("mine"))
    return found, import_graph(found, graph(*variable("its")))


def of_an_old_graph() -> tuple[Graph, EditResult]:
    found = graph(X, neg("y", "x"))
    return found, import_graph(found, graph(placeholder("p", FLOAT, ()), neg("q", "p"), trailer=versions(21)))


def of_functions() -> tuple[Graph, EditResult]:
    """Functions of one name: `f` with other bodies, `g` that calls it, `same` the same, `d` with a gradient."""

    def library_of(body: bytes, *more: Any, **gradients: str) -> bytes:
        g = define("g", {"x": FLOAT}, {"o": (FLOAT, "c:output:0")}, call("c", "f", ["x"], [FLOAT], [FLOAT]))
        f = define("f", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, body)
        same = define("same", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "x"))
        return library(f, g, same, *more, gradients=gradients)

    d = define("d", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "x"))
    d_grad = define("d_grad", {"x": FLOAT, "dy": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "dy"))
    held = node("h", "HashTableV2", key_dtype=STRING, value_dtype=INT32, container="", shared_name="t")
    holds = define("holds", {"x": FLOAT}, {"o": (FLOAT, "x")}, held, stateful=True)
    found = graph(X, *table("mine"), call("y", "g", ["x"], [FLOAT], [FLOAT]), library_of(neg("n", "x")))
    calls = [call(name, name, ["p"], [FLOAT], [FLOAT]) for name in ("g", "same", "d")]
    calls.append(call("holds", "holds", ["p"], [FLOAT], [FLOAT], stateful=True))
    square = node("n", "Square", ["x"], T=FLOAT)
    other = graph(placeholder("p"), *calls, library_of(square, d, d_grad, holds, d="d_grad"), name="other.pb")
    return found, import_graph(found, other)


def inserted() -> tuple[Graph, EditResult]:
    found = graph(X, *halves(), add("y", "halves:1", "halves", "^halves"), neg("z", "halves:1"))
    body = graph(placeholder("in"), scalar("two", 2), node("ready", "NoOp", ["^in"]),
                 node("z", "Mul", ["in", "two", "^ready"], T=FLOAT, _class=["loc:@in"]), name="body.pb")  # fmt: skip
    return found, insert(found, "halves:1", body)


def inserted_under_a_scope() -> tuple[Graph, EditResult]:
    found = graph(X, neg("y", "x"))
    return found, insert(found, "x", graph(placeholder("in"), neg("out", "in")), scope="s")


def behind_two_inputs() -> tuple[Graph, EditResult]:
    """Each input of the model has two readers, and somebody who waits for it."""
    found = graph(
        placeholder("a", FLOAT, (-1, 3)), placeholder("b", FLOAT, (-1, 3)), node("seen", "NoOp", ["^a"]),
        neg("k", "a"), add("y", "a", "b"), neg("z", "b"),
    )  # fmt: skip
    pre = graph(
        placeholder("a", UINT8, (-1, 3)), placeholder("b", UINT8, (2, 3)), scalar("k", 2),
        node("a_preprocessed", "Cast", ["a"], SrcT=UINT8, DstT=FLOAT),
        node("cast", "Cast", ["b"], SrcT=UINT8, DstT=FLOAT), node("b_preprocessed", "Mul", ["cast", "k"], T=FLOAT),
        name="pre.pb",
    )  # fmt: skip
    return found, add_preprocessing(found, pre)


def mapped_input() -> tuple[Graph, EditResult]:
    found = graph(placeholder("a"), neg("y", "a"))
    part = graph(placeholder("x", FLOAT, (4,)), *halves("parts"), neg("late", "parts:1"), name="pre.pb")
    return found, add_preprocessing(found, part, mapped=[Mapped("a", "x", "late")])


def behind_two_outputs() -> tuple[Graph, EditResult]:
    found = graph(X, neg("a", "x"), identity("b", "x"), neg("inside", "a"), node("n", "NoOp", ["^a"]),
                  neg("a_raw", "x"))  # fmt: skip
    post = graph(
        placeholder("a"), placeholder("b"), node("a_postprocessed", "Square", ["a"], T=FLOAT),
        node("b_postprocessed", "Sub", ["b", "a"], T=FLOAT), name="post.pb",
    )  # fmt: skip
    return found, add_postprocessing(found, post)


def one_output_of_two() -> tuple[Graph, EditResult]:
    found = graph(placeholder("v"), neg("a", "v"))
    post = graph(placeholder("x"), *halves("parts"), name="post.pb")
    return found, add_postprocessing(found, post, mapped=[Mapped("a", "x", "parts:1")])


MUTANTS = [
    Mutant("--connect reads output 0 rather than k", IMPORT, "replace[node] = graph.tensor(tensor)",
           "replace[node] = graph[tensor.partition(':')[0]].output", connected),
    Mutant("--connect takes the first tensor for all", IMPORT, "replace[node] = graph.tensor(tensor)",
           "replace[node] = graph.tensor(connect[0][0])", connected),
    Mutant("the results of two placeholders are exchanged", IMPORT, "    has_outputs = bool(output_nodes(graph))\n",
           "    has_outputs = bool(output_nodes(graph))\n"
           "    replace = dict(zip(replace, reversed(replace.values())))\n",
           connected),
    Mutant("a connected placeholder comes along all the same", COPY,
           "originals = [node for node in other.nodes() if node not in replace]", "originals = list(other.nodes())",
           connected),
    Mutant("the scope is not looked at", IMPORT, "for node in other.nodes() if node not in replace} if prefix else {}",
           "for node in ()}", under_a_scope),
    Mutant("constants come under no scope", IMPORT, "if node not in replace} if prefix else {}",
           "if node not in replace and node.op != 'Const'} if prefix else {}", under_a_scope),
    Mutant("frames of one name are one", COPY, "fresh_frame_names(topology, frames, lambda name: name)", "{}",
           of_a_loop),
    Mutant("an imported table shares the model's of that name", COPY,
           "fresh_shared_names(topology, shared, lambda name: name, used)", "{}", of_a_table),
    Mutant("names in use are not thought to be", NAMES,
           "return _fresh(wanted, {*shared_names_in_use(topology), *used}, respell) if wanted else {}",
           "return _fresh(wanted, {*used}, respell) if wanted else {}", of_a_table),
    Mutant("variables without a name share the model's", COPY, "    nameless = nameless_variables(plan)\n",
           "    nameless = {}\n", of_nameless_variables),
    Mutant("an unknown shape of an old graph becomes a scalar", COPIES, "if node.op == \"Placeholder\" and old <",
           "if node.op == \"PlaceholderV2\" and old <", of_an_old_graph),
    Mutant("copies read output 0", COPIES, "return original if node is None else Output(node, original.index)",
           "return original if node is None else Output(node, 0)", mapped_input),
    Mutant("inputs are read backwards", COPIES, "[self.output(read) for read in node.inputs])",
           "[self.output(read) for read in node.inputs][::-1])", connected),
    Mutant("control edges are lost", COPIES, "[self.node(control) for control in node.controls]", "[]", connected),
    Mutant("control edges to placeholders are lost", COPIES, "[self.node(control) for control in node.controls]",
           "[self.nodes[control] for control in node.controls if control in self.nodes]", connected),
    Mutant("colocations are lost", COPIES, "if node.attr_bytes(COLOCATION_ATTR) or node.colocated:", "if False:",
           connected),
    Mutant("colocations with placeholders are lost", COPIES,
           "[self.node(other) for other in node.colocated if other.exists]",
           "[self.nodes[n] for n in node.colocated if n in self.nodes]", connected),
    Mutant("devices are lost", "graph.graph", "        node.device_override = original.device_override\n",
           "        node.device_override = ''\n", connected),
    Mutant("functions of one name and other bodies are merged", MERGE,
           "if name in library and library.get(name) != function}",
           "if name in library and library.get(name).signature != function.signature}", of_functions),
    Mutant("a caller of a function that became another keeps calling the model's", MERGE,
           "return {name for name in other.reaching(unequal) if name in library}", "return unequal", of_functions),
    Mutant("bodies call the model's functions of those names", MERGE,
           "    respell_body(copy, renamed)\n    return copy", "    return copy", of_functions),
    Mutant("calls that are copied in keep the old names", COPIES, "            if self.functions:\n",
           "            if False:\n", of_functions),
    Mutant("gradients of functions are not registered", MERGE,
           "        for gradient in self.gradients:\n            library.add_gradient(gradient)\n", "", of_functions),
    Mutant("a gradient is registered the wrong way round", MERGE,
           "copy.gradient_func = renamed.get(gradient.gradient_func, gradient.gradient_func)",
           "copy.gradient_func = copy.function_name", of_functions),
    Mutant("a function that nobody calls stays behind", MERGE, "if name not in library or name in renamed]",
           "if name in other.calls('g') or name in renamed]", of_functions),
    Mutant("a function shares the model's table", COPY, "respell_shared_names(functions.added, shared)",
           "functions.added", of_functions),
    Mutant("insert reads output 0", INSERT, "replace={placeholder: output}",
           "replace={placeholder: output.node.output}", inserted),
    Mutant("insert has the first reader read it only", INSERT, "    uses = graph.uses(output)\n",
           "    uses = graph.uses(output)[:1]\n", inserted),
    Mutant("insert has those read it, too, who read the node's other output", INSERT, "    uses = graph.uses(output)\n",
           "    uses = [u for o in output.node.outputs for u in graph.uses(o)]\n", inserted),
    Mutant("insert has them read the placeholder's reader", INSERT, "    new = copied.output(result)\n",
           "    new = output\n", inserted),
    Mutant("insert does not look at the scope", INSERT,
           "for node in body.nodes() if node is not placeholder} if prefix", "for node in ()} if prefix",
           inserted_under_a_scope),
    Mutant("the results of two inputs are exchanged", PRE, "        result = copied.output(binding.result)\n",
           "        result = copied.output(bindings[bindings.index(binding) - 1].result)\n", behind_two_inputs),
    Mutant("one reader of an input is left out", PRE, "        uses[binding] = graph.uses(node.output)\n",
           "        uses[binding] = graph.uses(node.output)[-1:]\n", behind_two_inputs),
    Mutant("the raw inputs are exchanged", PRE, "replace={b.placeholder: b.node.output for b in bindings}",
           "replace={b.placeholder: c.node.output for b, c in zip(bindings, bindings[::-1])}", behind_two_inputs),
    Mutant("the input keeps the model's dtype", PRE, "_PLACEHOLDER_ATTRS if mine.attr_bytes(key)",
           "_PLACEHOLDER_ATTRS[1:] if mine.attr_bytes(key)", behind_two_inputs),
    Mutant("the input keeps the model's shape", PRE, "_PLACEHOLDER_ATTRS if mine.attr_bytes(key)",
           "_PLACEHOLDER_ATTRS[:1] if mine.attr_bytes(key)", behind_two_inputs),
    Mutant("a mapped result is output 0", PARTS, "    output = part.tensor(name)\n",
           "    output = part[name.partition(':')[0]].output\n", one_output_of_two),
    Mutant("who reads an output inside reads the result", POST,
           "    graph.rename({b.node: raw[b] for b in bindings})\n",
           "    inside = [u for b in bindings for u in graph.uses(b.node.output)]\n"
           "    graph.rename({b.node: raw[b] for b in bindings})\n"
           "    graph.reroute(inside, bindings[1].node.output)\n",
           behind_two_outputs),
    Mutant("the results of two outputs are exchanged", POST,
           "names={b.result.node: served[b] for b in bindings if b in direct}",
           "names={b.result.node: served[c] for b, c in zip(bindings, bindings[::-1])}", behind_two_outputs),
    Mutant("the part reads each other's outputs", POST, "replace={b.placeholder: b.node.output for b in bindings}",
           "replace={b.placeholder: c.node.output for b, c in zip(bindings, bindings[::-1])}", behind_two_outputs),
    Mutant("the raw values are exchanged", POST, "raw = {b: unique(b.node.name + RAW_SUFFIX) for b in bindings}",
           "raw = {b: unique(c.node.name + RAW_SUFFIX) for b, c in zip(bindings, bindings[::-1])}", behind_two_outputs),
    Mutant("the raw value is served", POST, "hand_on(graph, served[binding], [copied.output(binding.result)])",
           "hand_on(graph, served[binding], [binding.node.output])", one_output_of_two),
    Mutant("output 0 is served", POST, "[copied.output(binding.result)])",
           "[copied.output(binding.result).node.output])", one_output_of_two),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
