# ruff: noqa: E501 (a text of the source stands in one line here, too)
"""Mistakes planted in the passes of simplify, which the specification of what may be read instead must find."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from support.evaluating import Evaluations
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    add,
    const,
    dtype,
    dtypes,
    encode_len,
    func,
    function,
    graph,
    identity,
    library,
    node,
    placeholder,
    scalar,
    tensor,
)
from support.mutants import Mutant, check_caught
from support.v1_control_flow import cond, while_loop

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Served, Serving
from gdsurgeon.runtime.tensor import from_numpy

PASSES = "edits.simplifying"
FOLDING = f"{PASSES}.folding"
WRITTEN = "analysis.queries.in_place"
DRAFT, EQUAL, PAIRS, NEUTRAL = f"{PASSES}.draft", f"{PASSES}.equal_nodes", f"{PASSES}.pairs", f"{PASSES}.neutral"


def simplified(*records: bytes, served: bool = False) -> tuple[Graph, EditResult]:
    found = graph(*records)
    if served:
        found.serving = Serving("SavedModel", "", {"a": Served({"x": "in"}, {"y": "y"})})
    return found, simplify(found)


X = placeholder("x", FLOAT, (2, 3))


def weights() -> tuple[Graph, EditResult]:
    """Constants that differ in their values, nodes that differ in their attrs, devices and inputs."""
    named = [const(name, [1.0, 2.0, at]) for at, name in enumerate("abcd")]
    devices = [node(f"n{i}", "Neg", ["x"], T=FLOAT, device=f"/cpu:{i}") for i in range(2)]
    leaks = [node(f"l{i}", "LeakyRelu", ["x"], T=FLOAT, alpha=i / 8) for i in range(2)]
    split = [scalar("axis", 0, INT32), node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2)]
    again = [scalar("axis_1", 0, INT32), node("s_1", "Split", ["axis_1", "x"], T=FLOAT, num_split=2)]
    sums = [add("e", "a", "b"), add("f", "c", "d"), add("g", "n0", "n1"), add("h", "l0", "l1"), add("i", "s", "s_1:1")]
    copies = [identity("j", "e"), add("y", "j", "f"), node("z", "AddN", ["g", "h"], T=FLOAT, N=2)]
    return simplified(X, *named, *devices, *leaks, *split, *again, *sums, *copies)


def reads() -> tuple[Graph, EditResult]:
    """A variable that is read before and after it is changed."""
    change = node("change", "AssignVariableOp", ["v", "x"], dtype=FLOAT)
    read = [node("a", "ReadVariableOp", ["v"], dtype=FLOAT), node("b", "ReadVariableOp", ["v", "^group"], dtype=FLOAT)]
    return simplified(X, node("v", "VarHandleOp", dtype=FLOAT, shape=(2, 3), shared_name="v"), change,
                      node("group", "NoOp", ["^change"]), *read, add("y", "a", "b"))  # fmt: skip


def references() -> tuple[Graph, EditResult]:
    """A variable of version 1, of which an Identity takes the value; and an Identity that may go."""
    variable = node("v", "VariableV2", dtype=FLOAT, shape=(2, 3))
    change = node("change", "AssignAdd", ["v", "same"], T=FLOAT)
    return simplified(X, variable, identity("read", "v"), identity("same", "x"), change, add("y", "read", "change"))


def numbers() -> tuple[Graph, EditResult]:
    """Ops that come near to changing nothing, or to undoing what another did, and some that do."""
    half, turn = dtype(19), const("turn", [1, 0, 2], INT32)
    cube = [placeholder("c", FLOAT, (2, 2, 2)), turn, const("roll", [1, 2, 0], INT32)]
    rolled = [node(b, "Transpose", [a, "roll"], T=FLOAT, Tperm=INT32) for a, b in (("c", "r"), ("r", "r2"))]
    turned = [node(b, "Transpose", [a, "turn"], T=FLOAT, Tperm=INT32) for a, b in (("c", "t"), ("t", "t2"))]
    casts = [node("h", "Cast", ["x"], SrcT=FLOAT, DstT=half), node("h2", "Cast", ["h"], SrcT=half, DstT=FLOAT)]
    units = [scalar("one", 1), scalar("zero", 0), node("m", "Mul", ["x", "one"], T=FLOAT), add("p", "x", "zero"),
             node("q", "Sub", ["zero", "x"], T=FLOAT), node("w", "Sub", ["x", "one"], T=FLOAT)]  # fmt: skip
    undone = [node("n", "Neg", ["x"], T=FLOAT), node("n2", "Neg", ["n"], T=FLOAT), node("o", "Relu", ["x"], T=FLOAT),
              node("o2", "Relu", ["o"], T=FLOAT)]  # fmt: skip
    ends = [node("y", "AddN", ["h2", "m", "p", "q", "w", "n2", "o2"], T=FLOAT, N=7), add("z", "r2", "t2")]
    return simplified(X, *cube, *rolled, *turned, *casts, *units, *undone, *ends)


def large_weights() -> tuple[Graph, EditResult]:
    """Weights of some thousand numbers, of which the last is another."""
    many = [float(i) for i in range(2000)]
    weights = [const("v", many), const("w", [*many[:-1], 7])]
    records = [node(f"add_{name}", "AddV2", ["z", name], T=FLOAT) for name in "vw"]
    return simplified(placeholder("z", FLOAT, (2000,)), *weights, *records, identity("i", "add_w"),
                      node("y", "Sub", ["add_v", "i"], T=FLOAT))  # fmt: skip


def branches() -> tuple[Graph, EditResult]:
    """A conditional with equal constants on both sides, and one without a condition."""
    too = node("c/too", "Const", ["^c/switch_f"], dtype=FLOAT, value=tensor([2], FLOAT, ()))
    left = [node("c/left", "Mul", ["c/neg", "c/too"], T=FLOAT), node("z", "Merge", ["c/left", "c/mul"], T=FLOAT, N=2)]
    return simplified(*cond(too, *left, node("unread", "Neg", ["c/neg"], T=FLOAT)), scalar("k", 3))


def decided() -> tuple[Graph, EditResult]:
    yes = node("p", "Const", dtype=BOOL, value=encode_len(8, b"\x08\x0a\x12\x00\x58\x01"))
    return simplified(yes, *cond()[1:])


def served() -> tuple[Graph, EditResult]:
    call = node("y", "PartitionedCall", ["in"], f=func("F"), Tin=dtypes(FLOAT), Tout=dtypes(FLOAT))
    bodies = library(function("F", node("y", "Neg", ["x"], T=FLOAT)), function("G", node("y", "Neg", ["x"], T=FLOAT)))
    return simplified(X, identity("in", "x"), call, node("other", "Neg", ["y"], T=FLOAT), bodies, served=True)


def said() -> tuple[Graph, EditResult]:
    return simplified(placeholder("s", STRING), node("p", "PrintV2", ["s"]), identity("t", "s", kind=STRING),
                      node("y", "StringLower", ["t"]), scalar("k", 1), placeholder("unread"))  # fmt: skip


def constant(*records: bytes) -> tuple[Graph, EditResult]:
    """Weights that are computed of others, by numpy."""
    weights = [const("a", [1, 2, 3]), const("b", [4, 5, 6]), node("c", "Mul", ["a", "b"], T=FLOAT)]
    found = graph(X, *weights, *records, add("y", "x", "c"))
    return found, simplify(found, evaluate=Evaluations())


def growing() -> tuple[Graph, EditResult]:
    times = const("times", [99], INT32)
    return constant(times, node("t", "Tile", ["a", "times"], T=FLOAT), add("z", "x", "t"))


def outputs() -> tuple[Graph, EditResult]:
    return constant(const("d", [9, 8, 7]), add("z", "d", "c"))


def fed() -> tuple[Graph, EditResult]:
    found = graph(X, const("a", [1, 2, 3]), const("b", [4, 5, 6]), node("c", "Mul", ["a", "b"], T=FLOAT),
                  add("s", "x", "c"), node("y", "Relu", ["s"], T=FLOAT))  # fmt: skip
    return found, simplify(
        found, evaluate=lambda _, names: {name: from_numpy(np.zeros(3, np.float32)) for name in names}
    )


def turning() -> tuple[Graph, EditResult]:
    """A loop that adds the same in each turn, and a product of constants behind it."""
    twice = node("w/twice", "Mul", ["w/three", "w/three"], T=FLOAT)
    loop = while_loop(twice, add("w/plus", "w/v", "w/twice"), result="w/plus")
    found = graph(*loop, scalar("a", 2), scalar("b", 3), node("c", "Mul", ["a", "b"], T=FLOAT), add("z", "out", "c"))
    return found, simplify(found, evaluate=lambda _, names: {name: from_numpy(np.float32(6)) for name in names})


def granted() -> tuple[Graph, EditResult]:
    """Two constants of which one alone may be made larger; the second is one only when a predicate is known."""
    arrays = {"p": from_numpy(np.array(True)), "t": from_numpy(np.arange(297, dtype=np.float32)),
              "u": from_numpy(np.arange(297, dtype=np.float32) / 3)}  # fmt: skip
    sides = [node("s", "Switch", ["b", "p"], T=FLOAT), node("u", "Tile", ["s:1", "times"], T=FLOAT),
             node("v", "Neg", ["s"], T=FLOAT), node("m", "Merge", ["v", "u"], T=FLOAT, N=2)]  # fmt: skip
    found = graph(placeholder("x"), const("a", [1, 2, 3]), const("b", [4, 5, 6]), const("times", [99], INT32),
                  scalar("one", 1), scalar("two", 2), node("p", "Less", ["one", "two"], T=FLOAT),
                  node("t", "Tile", ["a", "times"], T=FLOAT), *sides, add("y", "x", "t"), add("z", "x", "m"))  # fmt: skip
    return found, simplify(found, evaluate=lambda _, names: {name: arrays[name] for name in names}, max_growth=1500)


def chosen() -> tuple[Graph, EditResult]:
    """Some passes alone, for one output."""
    nodes = [const("a", [1, 2, 3]), const("b", [4, 5, 6]), node("c", "Mul", ["a", "b"], T=FLOAT), add("d", "x", "c")]
    found = graph(X, *nodes, identity("i", "d"), node("y", "Relu", ["i"], T=FLOAT), node("z", "Abs", ["i"], T=FLOAT))
    return found, simplify(
        found, ["y"], passes=["unread", "identities", "constants"], skip=["identities"], evaluate=Evaluations()
    )


def overwritten() -> tuple[Graph, EditResult]:
    """What a variable of version 1 was before it is changed, in two shapes."""
    dims = [const("flat", [-1], INT32), const("tall", [3, 2], INT32)]
    variable = [
        node("v", "VariableV2", dtype=FLOAT, shape=(2, 3)),
        node("change", "AssignAdd", ["v", "x", "^a"], T=FLOAT),
    ]
    shapes = [node("a", "Reshape", ["v", "flat"], T=FLOAT), node("b", "Reshape", ["a", "tall", "^change"], T=FLOAT)]
    return simplified(X, *variable, *dims, *shapes, node("y", "Relu", ["b"], T=FLOAT), scalar("k", 1))


def written() -> tuple[Graph, EditResult]:
    """A tensor that is written into in place, one of the same values, and a pool that draws where it looks; and a copy."""
    fixed = [
        const("at", [0], INT32),
        const("row", [1.0, 2.0, 3.0], FLOAT, (1, 3)),
        placeholder("image", FLOAT, (1, 9, 9, 1)),
    ]
    ratio = encode_len(1, encode_len(4, struct.pack("<4f", 1, 1.5, 1.5, 1)))
    pools = [node(name, "FractionalMaxPool", ["image"], T=FLOAT, pooling_ratio=ratio) for name in ("p", "q")]
    twice = [node(name, "Neg", ["x"], T=FLOAT) for name in ("a", "b")]
    return simplified(X, *fixed, *twice, node("c", "InplaceAdd", ["a", "at", "row"], T=FLOAT), *pools, identity("i", "b"),
                      node("y", "Sub", ["c", "i"], T=FLOAT), node("z", "Sub", ["p", "q"], T=FLOAT))  # fmt: skip


def written_by_calls() -> tuple[Graph, EditResult]:
    """A tensor that a function which is called by another writes into, and one of the same values."""
    fixed = [const("at", [0], INT32), const("row", [1.0, 2.0, 3.0], FLOAT, (1, 3))]
    writes = function("W", *fixed, node("y", "InplaceAdd", ["x", "at:output:0", "row:output:0"], T=FLOAT))
    ends = {"Tin": dtypes(FLOAT), "Tout": dtypes(FLOAT)}
    outer = function("V", node("y", "PartitionedCall", ["x"], f=func("W"), **ends))
    twice = [node(name, "Neg", ["x"], T=FLOAT) for name in ("a", "b")]
    call = node("c", "If", ["p", "a"], then_branch=func("V"), else_branch=func("V"), Tcond=BOOL, **ends)
    return simplified(
        X,
        placeholder("p", BOOL, ()),
        *twice,
        call,
        identity("i", "b"),
        node("y", "Sub", ["c", "i"], T=FLOAT),
        library(writes, outer),
    )


LASTING = "return not (is_random(op) and not _takes_resource(draft.graph, op))"
MUTANTS = [
    Mutant("values of constants do not count", EQUAL, "told = sorted(header.attrs.keys() - ASIDE)", 'told = sorted(header.attrs.keys() - ASIDE - {"value"})', weights),
    Mutant("large values of constants do not count", EQUAL, "summed.update(span.source.read(start, min(_STEP, span.end - start)))", "pass", large_weights),
    Mutant("attrs do not count", EQUAL, "(self._reads[number], self._forms.attrs(draft, number))", "(self._reads[number], ())", weights),
    Mutant("devices do not count", EQUAL, "(header.device, *((key", "(None, *((key", weights),
    Mutant("another output of an equal node", DRAFT, "self._equals[code >> BITS] << BITS | code & CONTROL", "self._equals[code >> BITS] << BITS", weights),
    Mutant("what nodes wait for does not count", EQUAL, "return (op, *reads, *sorted(waits), *size)", "return (op, *reads, *size)", branches),
    Mutant("nodes with a state are merged", DRAFT, "if definition is None or definition.is_stateful:", "if definition is None:", reads),
    Mutant("edges from what lasts go", DRAFT, "top.downstream(self._doing, self._readers)", "top.downstream([], self._readers)", reads),
    Mutant("references are taken for values", DRAFT, "return definition is None or any(output.is_ref for output in definition.outputs)", "return False", references),
    Mutant("a branch is waited for no longer", DRAFT, "if self.topology.op(producer) in CONTROL_FLOW and self.is_waited_for(number):", "if False:", branches),
    Mutant("every sum is neutral", NEUTRAL, "-0.0 if dtype.is_float else 0", "0.0", numbers),
    Mutant("the other input stays", NEUTRAL, "return ones.index(True) ^ 1 if True in ones else None", "return ones.index(True) if True in ones else None", numbers),
    Mutant("all numbers are neutral", NEUTRAL, "return found == wanted and copysign(1, found) == copysign(1, wanted)", "return True", numbers),
    Mutant("all orders go back", PAIRS, "if [first[place] for place in then] == list(range(size)) else None", "if size else None", numbers),
    Mutant("all types are wide", PAIRS, "or not _holds(wide, given):", "or False:", numbers),
    Mutant("twice is nothing", PAIRS, "return inner << BITS if _same_op(draft, number, inner) else None", "return draft.data(inner)[0] if _same_op(draft, number, inner) else None", numbers),
    Mutant("what is printed goes", f"{PASSES}.roots", LASTING, "return False", said),
    Mutant("names that are served go", "edits.simplify", "[*inputs, *outputs, *served_nodes(graph)]", "[*inputs, *outputs]", served),
    Mutant("outputs go", "edits.simplify", "[*inputs, *outputs, *served_nodes(graph)]", "[*inputs, *served_nodes(graph)]", numbers),
    Mutant("inputs go", "edits.simplify", "[*inputs, *outputs, *served_nodes(graph)]", "[*outputs]", said),
    Mutant("a branch is given the predicate", f"{PASSES}.conditions", "data = draft.data(number)[0]", "data = draft.data(number)[1]", decided),
    Mutant("constants are others", f"{PASSES}.literal", 'memoryview(value.data).cast("B")', "memoryview(bytes(value.data)[::-1])", constant),
    Mutant("the file grows", FOLDING, "if spent + price <= room:", "if True:", growing),
    Mutant("an output is folded", FOLDING, 'if self.top.op(number) == "Const" or self.draft.kept[number]:', 'if self.top.op(number) == "Const":', outputs),
    Mutant("what is in a loop is folded", FOLDING, "if not draft.harmless[number] or op in PLACEHOLDERS", 'if op in PLACEHOLDERS | {"Merge", "Exit"}', turning),
    Mutant("inputs are taken for constants", FOLDING, "or op in PLACEHOLDERS or draft", "or draft", fed),
    Mutant("what is written into is merged", DRAFT, "if self._written[number]:", "if False:", written),
    Mutant("what functions write into is merged", WRITTEN, "if not writing.isdisjoint(functions_of(topology.node(number))):", "if False:", written_by_calls),
    Mutant("functions of functions are forgotten", WRITTEN, "return graph.functions.reaching(writing) if writing else set()", "return set(writing)", written_by_calls),
    Mutant("what draws is merged", DRAFT, "_is_pure(definition) and not hides_state(op)", "_is_pure(definition)", written),
    Mutant("room is used twice", "edits.simplify", "self._room -= found.growth", "pass", granted),
    Mutant("a pass is done that was not to be", "edits.simplify", "if name in (passes or PASSES) and name not in (*skip, *unfit)", "if name in (passes or PASSES)", chosen),
    Mutant("outputs are forgotten", "edits.simplify", '{"outputs": tuple(end.name for end in self._ends), **arguments}', "arguments", chosen),
    Mutant("what a reference refers to is read later", PAIRS, "if source != start and not draft.gives_reference(source):", "if source != start:", overwritten),
    Mutant("a node is forgotten", f"{PASSES}.carry_out", "graph.set_reads(node, inputs, dict.fromkeys(topology.node(code >> BITS) for code in waits))", "graph.set_reads(node, inputs, [])", reads),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
