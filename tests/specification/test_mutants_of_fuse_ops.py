"""Mistakes planted in fuse-ops, and in what makes functions: each is found without running anything."""

from __future__ import annotations

import pytest
from support.fusing import chain, fused, split
from support.graphs import (
    FLOAT,
    INT32,
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
    unary,
)
from support.mutants import Mutant, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph

FUSE, MAKE, BODY = "edits.fuse_ops", "edits.functions.definition", "edits.functions.fusion_body"


def in_order() -> tuple[Graph, EditResult]:
    """Nodes with a device, an attr and colocations, that wait for others inside and outside, and are waited for."""
    found = graph(
        X, placeholder("z", FLOAT, (2,)), node("ready", "NoOp"), neg("a", "x"), neg("b", "z"),
        add("c", "a", "x", "^b", "^ready", device="/cpu:0", _class=["loc:@a", "loc:@x"], _note="kept"),
        node("d", "Sub", ["c", "b"], T=FLOAT), neg("y", "d"), identity("w", "z", "^c"), identity("v", "z", "^d"),
    )  # fmt: skip
    return found, fused(found, ["a", "b", "c", "d"])


def of_a_split() -> tuple[Graph, EditResult]:
    found = graph(*split())
    return found, fused(found, ["s", "sum"])


def with_an_end() -> tuple[Graph, EditResult]:
    """An output of the graph is among the nodes, and one that is to be kept."""
    found = graph(X, neg("a", "x"), neg("b", "a"), unary("Tanh", "y", "b"), neg("z", "b"))
    return found, fused(found, ["a", "b", "y"], keep=["b"])


def compiled() -> tuple[Graph, EditResult]:
    found = graph(*chain())
    return found, fused(found, ["neg", "mul"], xla=True)


def in_line() -> tuple[Graph, EditResult]:
    found = graph(*chain())
    return found, fused(found, ["neg", "mul"], inline=True)


def stateful() -> tuple[Graph, EditResult]:
    """A node that draws random numbers, which has state."""
    found = graph(
        X, const("shape", [2], INT32),
        node("noise", "RandomUniform", ["shape"], T=INT32, dtype=FLOAT, seed=1, seed2=2), add("sum", "x", "noise"),
        neg("y", "sum"),
    )  # fmt: skip
    return found, fused(found, ["noise", "sum"])


def twice() -> tuple[Graph, EditResult]:
    """The library has a function of the name that a hash would tell apart."""
    plain = define("call", {"x": FLOAT}, {"sum": (FLOAT, "sum:z:0")}, add("sum", "x", "x"))
    found = graph(X, neg("sum", "x"), neg("y", "sum"), call("z", "call", ["x"], [FLOAT], [FLOAT]), library(plain))
    return found, fused(found, ["sum"])


def large() -> tuple[Graph, EditResult]:
    found = graph(placeholder("x", FLOAT, (1,)), const("w", [0.5] * 20_000), node("y", "Mul", ["x", "w"], T=FLOAT),
                  neg("z", "y"))  # fmt: skip
    return found, fused(found, ["w", "y"])


def with_a_body() -> tuple[Graph, EditResult]:
    """A body that takes two inputs by name, gives two results, and calls a function of which the model has another."""

    def g(op: str) -> bytes:
        return library(define("g", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, unary(op, "n", "x")))

    found = graph(
        X, placeholder("z", FLOAT, (2,)), add("a", "x", "z"), neg("b", "a"), neg("u", "a"), neg("v", "b"),
        call("mine", "g", ["x"], [FLOAT], [FLOAT]), g("Neg"),
    )  # fmt: skip
    body = graph(
        placeholder("z", FLOAT, (2,)), placeholder("x", FLOAT, (2,)), call("sum", "g", ["x"], [FLOAT], [FLOAT]),
        node("b", "Sub", ["sum", "z"], T=FLOAT), node("a", "Mul", ["z", "x"], T=FLOAT), g("Square"), name="body.pb",
    )  # fmt: skip
    return found, fused(found, ["a", "b"], body=body)


def mapped_body() -> tuple[Graph, EditResult]:
    found = graph(X, placeholder("z", FLOAT, (2,)), node("a", "Sub", ["x", "z"], T=FLOAT), neg("u", "a"))
    body = graph(placeholder("p", FLOAT, (2,)), placeholder("q", FLOAT, (2,)), scalar("axis", 0, INT32),
                 node("parts", "Split", ["axis", "p"], T=FLOAT, num_split=2),
                 node("r", "Sub", ["q", "parts:1"], T=FLOAT), name="body.pb")  # fmt: skip
    return found, fused(found, ["a"], body=body, mapped=[("z", "p"), ("x", "q")])


MUTANTS = [
    Mutant("the call does not wait for what the nodes waited for", FUSE,
           "controls = [*fusion.edges.controls_in, *_tie(", "controls = [*_tie(", in_order),
    Mutant("control edges inside the function are lost", MAKE,
           "body.input.extend(f\"^{control.name}\" for control in node.controls if control in members)", "pass",
           in_order),
    Mutant("stateful nodes of the function are no control outputs of it", MAKE,
           "        function.control_ret[node.name] = node.name\n\n\ndef add_control_outputs",
           "\n\ndef add_control_outputs", stateful),
    Mutant("the call does not see to what others wait for", FUSE,
           "    add_control_outputs(function, list(fusion.edges.controls_out))\n", "", in_order),
    Mutant("the call sees to the first only that others wait for", FUSE, "list(fusion.edges.controls_out))",
           "list(fusion.edges.controls_out)[:1])", in_order),
    Mutant("a function with stateful ops is called as a stateless one", FUSE,
           "return \"StatefulPartitionedCall\" if function.signature.is_stateful else \"PartitionedCall\"",
           "return \"PartitionedCall\"", stateful),
    Mutant("a function with stateful ops says that it has none", MAKE,
           "        function.signature.is_stateful = True\n", "", stateful),
    Mutant("devices are lost inside the function", MAKE, "    del body.input[:]\n",
           "    del body.input[:]\n    body.device = ''\n", in_order),
    Mutant("attrs are lost inside the function", MAKE, "    del body.input[:]\n",
           "    del body.input[:]\n    body.attr.pop('_note', None)\n", in_order),
    Mutant("--xla compiles nothing", FUSE, "    if xla:  # on the call:", "    if False:  # on the call:", compiled),
    Mutant("--xla does not have the function compiled", FUSE, "| ({XLA_MUST_COMPILE: True} if xla else {})", "",
           compiled),
    Mutant("all is compiled by XLA", FUSE, "| ({XLA_MUST_COMPILE: True} if xla else {})", "| {XLA_MUST_COMPILE: True}",
           in_order),
    Mutant("the function is not kept from being inlined", FUSE, "({} if may_inline else {NO_INLINE: True})", "{}",
           in_order),
    Mutant("--inline is not looked at", FUSE, "({} if may_inline else {NO_INLINE: True})", "{NO_INLINE: True}",
           in_line),
    Mutant("the function's attrs are not written", MAKE, "        function.attr[key].b = value\n", "        pass\n",
           in_order),
    Mutant("the function's name does not say what it computes", MAKE,
           "function.signature.name = f\"{_function_name(stem)}_{digest}\"",
           "function.signature.name = _function_name(stem)", twice),
    Mutant("the call optimises its function by itself", FUSE, "bytes_value(NO_OPTIMIZER_OF_ITS_OWN)",
           "bytes_value(b\"\")", in_order),
    Mutant("colocations inside the function are lost", MAKE,
           "{other.name for other in node.colocated if other in members}", "set()", in_order),
    Mutant("colocations with nodes outside are kept", MAKE,
           "{other.name for other in node.colocated if other in members}", "{other.name for other in node.colocated}",
           in_order),
    Mutant("who waited for a fused node waits for nothing", FUSE,
           "dict.fromkeys(call if control in members else control for control in user.controls)",
           "dict.fromkeys(control for control in user.controls if control not in members)", in_order),
    Mutant("inputs of the call are exchanged", FUSE, "    inputs = plan.add_inputs(graph, last, intent.added)\n",
           "    inputs = plan.add_inputs(graph, last, intent.added)[::-1]\n", in_order),
    Mutant("the results of the function are exchanged", MAKE, "        function.ret[name] = spelt[output]\n",
           "        function.ret[name] = spelt[outputs[outputs.index(output) - 1]]\n", of_a_split),
    Mutant("readers read each other's results", FUSE,
           "    place = {output: Output(call, i) for i, output in enumerate(fusion.outputs)}\n",
           "    place = {o: Output(call, len(fusion.outputs) - 1 - i) for i, o in enumerate(fusion.outputs)}\n",
           of_a_split),
    Mutant("all read the first result", FUSE,
           "    place = {output: Output(call, i) for i, output in enumerate(fusion.outputs)}\n",
           "    place = {o: Output(call, 0) for i, o in enumerate(fusion.outputs)}\n", of_a_split),
    Mutant("inside, output 0 is read of all", MAKE,
           "spelt[Output(node, index)] = f\"{node.name}:{arg.arg}:{arg.place}\"",
           "spelt[Output(node, index)] = f\"{node.name}:{arg.arg}:0\"", of_a_split),
    Mutant("inside, inputs are read backwards", MAKE, "    for read in node.inputs:\n",
           "    for read in node.inputs[::-1]:\n", of_a_split),
    Mutant("kept nodes hand on the first result", FUSE, "handed_on[output.node].append((place[output], output.dtype))",
           "handed_on[output.node].append((place[fusion.outputs[0]], output.dtype))", with_an_end),
    Mutant("--keep is not looked at", FUSE, "if node in wanted or (node not in read and", "if (node not in read and",
           with_an_end),
    Mutant("a large constant is made part of the function", FUSE,
           "members = [node for node in nodes if not is_large_constant(node)]", "members = list(nodes)", large),
    Mutant("the placeholders of the body are exchanged", BODY,
           "        return {tensor: found[tensor] for tensor in self.inputs if tensor in found}\n",
           "        return dict(zip(found, reversed(found.values())))\n", with_a_body),
    Mutant("the results of the body are exchanged", BODY,
           "inner_outputs = [results[output] for output in hole.outputs]",
           "inner_outputs = [results[output] for output in hole.outputs][::-1]", with_a_body),
    Mutant("the body's names are not looked at", BODY,
           "            if tensor not in found and tensor.name in by_name:\n", "            if False:\n", with_a_body),
    Mutant("what is mapped is not looked at", BODY, "        chosen[tensor] = inner\n", "        pass\n", mapped_body),
    Mutant("BODY calls the model's function of its function's name", BODY,
           "    respell_body(function, merge.renamed)\n", "", with_a_body),
    Mutant("BODY's functions are the model's where their names are", "edits.functions.merge",
           "if name in library and library.get(name) != function}", "if name in library and False}", with_a_body),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
