"""simplify: random graphs give what they gave; and what others that simplify graphs have done wrong."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import graphs
from support.drawing import Draw, below, pick
from support.evaluating import by_tensorflow
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    NO_OPTIMIZER,
    add,
    const,
    define,
    dtypes,
    func,
    graph,
    identity,
    library,
    node,
    placeholder,
    relu,
    scalar,
    typed,
)
from support.running import run, values
from support.simplifying import simplified
from support.v1_control_flow import while_loop

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.edits.simplifying.graph_view import GraphView
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.body import expanded_args
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Output, placeholder_shape

BASE = [
    placeholder("x", FLOAT, (2, 2)), placeholder("p", BOOL, ()), scalar("one", 1), scalar("nil", 0),
    const("turn", [1, 0], INT32), const("flat", [-1], INT32), const("square", [2, 2], INT32), scalar("one_1", 1),
    const("w", [1.5, -2, 0.25, 3], FLOAT, (2, 2)), const("w_1", [1.5, -2, 0.25, 3], FLOAT, (2, 2)),
    const("dims", [0, 1], INT32), const("none", [0, 0], INT32), const("rest", [-1, 2], INT32),
]  # fmt: skip
FED = {"x": [[1.5, -0.0], [-3.0, 1e-30]]}
_UNARY = ("Relu", "Neg", "Abs", "Identity", "StopGradient", "Snapshot", "PreventGradient", "Floor")
_BINARY = ("Mul", "RealDiv", "Sub", "AddV2", "Maximum")


@st.composite
def models(draw: st.DrawFn, *, loops: bool = True) -> bytes:
    """A graph of a dozen steps, each of a few nodes, of tensors that all have one shape; conditionals may be in it."""
    values, records = ["x", "w", "w_1"], list(BASE)
    for i in range(draw(below(12)) + 2):
        made = _step(draw, f"n{i}", values)
        records += made
        values.append(f"n{i}")
    if loops and draw(below(3)) == 0:
        records += _loop(draw)
    return graphs.graph_bytes(*records)


def _loop(draw: Draw) -> list[bytes]:
    """A loop in which there are constants, products of such, and shapes of what goes round."""
    inner = [
        node("w/k", "Const", ["^w/i"], dtype=FLOAT, value=graphs.tensor([0.5], FLOAT, ())),
        typed("Mul", "w/kk", "w/k", "w/k"), typed("Mul", "w/threes", "w/three", "w/three"),
        typed("Shape", "w/shape", "w/v", out_type=INT32),
        typed("Fill", "w/filled", "w/shape", "w/kk"), identity("w/same", "w/v"),
        typed("Reshape", "w/shaped", "w/v", "w/shape"),
    ]  # fmt: skip
    parts = ("w/k", "w/kk", "w/threes", "w/filled", "w/same", "w/shaped", "w/v", "w/three")
    steps = [typed(pick(draw, _BINARY), f"w/s{i}", pick(draw, parts), pick(draw, parts)) for i in range(2)]
    return while_loop(*inner, *steps, add("w/sum", *(f"w/s{i}" for i in range(2))), result="w/sum")


def _step(draw: Draw, name: str, values: Sequence[str]) -> list[bytes]:
    """Nodes that compute NAME of some of VALUES."""
    a, b = pick(draw, values), pick(draw, values)
    waits = [f"^{pick(draw, values)}"] if draw(below(4)) == 0 else []
    kind = draw(below(13))
    if kind < 3:
        return [typed(pick(draw, _UNARY), name, a, *waits)]
    if kind < 5:
        other = pick(draw, (b, "one", "nil", "one_1"))
        return [typed(pick(draw, _BINARY), name, a, other, *waits)]
    if kind == 5:
        return [typed("Transpose", name, a, pick(draw, ("turn", "dims")), Tperm=INT32)]
    if kind == 6:
        there = typed("Reshape", f"{name}/there", a, "flat")
        return [there, typed("Reshape", name, f"{name}/there", "square", *waits)]
    if kind == 7:
        wide = node(f"{name}/wide", "Cast", [a], SrcT=FLOAT, DstT=pick(draw, (DOUBLE, INT32, graphs.dtype(19))))
        narrow = wide[wide.index(b"DstT") :]
        back = next(kind for kind in (DOUBLE, INT32, graphs.dtype(19)) if kind in narrow)
        return [wide, node(name, "Cast", [f"{name}/wide"], SrcT=back, DstT=FLOAT)]
    if kind == 8:
        both = node(f"{name}/both", "IdentityN", [a, b], T=dtypes(FLOAT, FLOAT))
        return [both, add(name, f"{name}/both", f"{name}/both:1", *waits)]
    if kind == 9:
        shape = typed("Shape", f"{name}/shape", a, out_type=INT32)
        filled = typed("Fill", f"{name}/fill", f"{name}/shape", pick(draw, ("one", "nil")))
        return [shape, filled, typed(pick(draw, _BINARY), name, b, f"{name}/fill", *waits)]
    if kind == 10:
        flat = typed("Reshape", f"{name}/flat", a, pick(draw, ("square", "flat")))
        back = typed("Reshape", f"{name}/back", f"{name}/flat", "square")
        part = typed("Slice", f"{name}/part", f"{name}/back", "none", pick(draw, ("square", "rest")),
                     Index=INT32)  # fmt: skip
        return [flat, back, part, add(name, b, f"{name}/part", *waits)]
    if kind == 11:
        shape = typed("Shape", f"{name}/shape", a, out_type=INT32)
        size = typed("Mul", f"{name}/size", f"{name}/shape", "turn", kind=INT32)
        turned = add(f"{name}/sum", f"{name}/size", "square", kind=INT32)
        wide = node(f"{name}/wide", "Cast", [f"{name}/sum"], SrcT=INT32, DstT=FLOAT)
        return [shape, size, turned, wide, add(name, b, f"{name}/wide", *waits)]
    return _conditional(draw, name, a, b)


def _conditional(draw: Draw, name: str, a: str, b: str) -> list[bytes]:
    """2 A where a predicate holds, else B - 2; the predicate may be a constant."""
    value = draw(below(3))
    fixed = [] if value == 2 else [const(f"{name}/p", bool(value), BOOL)]
    on = f"{name}/p" if fixed else "p"
    two = graphs.tensor([2], FLOAT, ())
    twos = [node(f"{name}/two_{s}", "Const", [f"^{name}/switch_{s}"], dtype=FLOAT, value=two) for s in "tf"]
    return [
        *fixed, typed("Switch", f"{name}/Switch", on, on, kind=BOOL),
        identity(f"{name}/switch_t", f"{name}/Switch:1", kind=BOOL),
        identity(f"{name}/switch_f", f"{name}/Switch", kind=BOOL),
        *twos, typed("Switch", f"{name}/a", a, on), typed("Switch", f"{name}/b", b, on),
        identity(f"{name}/same", f"{name}/a:1"), typed("Mul", f"{name}/mul", f"{name}/same", f"{name}/two_t"),
        typed("Sub", f"{name}/sub", f"{name}/b", f"{name}/two_f"),
        typed("Merge", name, f"{name}/sub", f"{name}/mul", N=2),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.tensorflow
@given(models())
def test_random_graphs_give_what_they_gave(data: bytes) -> None:
    try:
        found, _ = simplified(from_bytes(data), again=False, evaluate=by_tensorflow)
    except NothingToDo:
        return
    after = graphs.written(found)
    assert check(from_bytes(after)).faults == []
    assert len(after) <= len(data)
    before = from_bytes(data)
    outputs = [
        n.name
        for n in found.nodes()
        if n.name in before and not found.users(n) and n.op not in ("Const", "Placeholder")
    ]
    assert both_ways(after, outputs) == both_ways(data, outputs)


@pytest.mark.tensorflow
@settings(max_examples=8)
@given(models(loops=False))
def test_random_functions_give_what_they_gave(data: bytes) -> None:
    called, outputs = as_a_function(data)
    try:
        found, _ = simplified(from_bytes(called), skip=["inline"], evaluate=by_tensorflow)
    except NothingToDo:
        return
    after = graphs.written(found)
    assert check(from_bytes(after)).faults == []
    assert len(after) <= len(called)
    assert both_ways(after, outputs) == both_ways(called, outputs)


def as_a_function(data: bytes) -> tuple[bytes, list[str]]:
    """A graph that calls a function which is the graph DATA, and its outputs."""
    whole = from_bytes(data)
    taken = [n for n in whole.nodes() if n.op == "Placeholder"]
    unread = [n for n in whole.nodes() if not whole.users(n) and n.op not in ("Const", "Placeholder")]
    given = [n.output for n in unread]
    body = [n for n in graphs.parsed(data).node if n.op != "Placeholder"]
    for each in body:
        reads = whole[each.name].inputs
        waits = [text for text in each.input if text[0] == "^" and whole[text[1:]] not in taken]
        del each.input[:]
        each.input.extend([*map(_spelt, reads), *waits])
    ins = {n.name: bytes([0x30, n.output.dtype]) for n in taken}
    outs = {f"o{i}": (bytes([0x30, tensor.dtype]), _spelt(tensor)) for i, tensor in enumerate(given)}
    made = define("F", ins, outs)
    made.node_def.extend(body)
    ends = {"Tin": dtypes(*ins.values()), "Tout": dtypes(*(kind for kind, _ in outs.values()))}
    call = node("c", "PartitionedCall", [n.name for n in taken], f=func("F"), config_proto=NO_OPTIMIZER, **ends)
    last = [identity(f"y{i}", f"c:{i}", kind=kind) for i, (kind, _) in enumerate(outs.values())]
    inputs = [placeholder(n.name, ins[n.name], placeholder_shape(n)) for n in taken]
    return graphs.graph_bytes(*inputs, call, *last, library(made)), [f"y{i}" for i in range(len(last))]


def _spelt(tensor: Output) -> str:
    """A tensor as bodies spell it."""
    if tensor.node.op == "Placeholder":
        return tensor.node.name
    assert tensor.node.op_def is not None
    arg, place = expanded_args(tensor.node.op_def, tensor.node.plain_attr)[tensor.index]
    return f"{tensor.node.name}:{arg}:{place}"


def both_ways(data: bytes, outputs: Sequence[str]) -> list[str]:
    """The values of OUTPUTS for both predicates."""
    with run.session(data) as (executor, key):
        feeds = FED | ({"n": 3} if "out" in outputs else {})
        return [repr(values(executor, key, outputs, [], {"p": p, **feeds})) for p in (True, False)]


# -- what others have done wrong ------------------------------------------------------------------------------


def test_a_long_chain_is_walked() -> None:
    names = ["x", *(f"i{i}" for i in range(5000))]
    found = graph(placeholder("x"), *(identity(new, old) for old, new in pairwise(names)), relu("y", "i4999"))
    simplify(found)
    assert graphs.names(found) == ["x", "y"]


def looked_at(data: bytes, patch: pytest.MonkeyPatch | None = None) -> bytes:
    """The result of simplify; with PATCH each pass looks at all nodes again, not at those near a change only."""
    found = from_bytes(data)
    if patch is not None:
        patch.setattr(GraphView, "dirty_nodes", lambda view, what, ops, *_, **__: iter(view.with_ops(ops)))
    with suppress(NothingToDo):
        simplify(found)
    return graphs.written(found)


READS: dict[str, Sequence[Sequence[str]]] = {
    "AddV2": [["one"]], "Sub": [["one"]], "Mul": [["one"]], "Neg": [], "Relu": [], "Identity": [], "IdentityN": [],
    "Transpose": [["k", "turn"]], "Reshape": [["to"]], "StopGradient": [], "NoOp": [], "Merge": [],
}  # fmt: skip
"""For each op what a node may read besides the tensor that it is made of."""
ATTRS: dict[str, dict[str, bytes]] = {"Transpose": {"Tperm": INT32}, "Reshape": {"Tshape": INT32}}


def much_goes(chance: Random) -> bytes:
    """A graph in which much goes, one thing because of another."""
    records = [placeholder("x", FLOAT, (2, 3)), const("k", [0, 1], INT32), const("turn", [1, 0], INT32),
               const("to", [2, 3], INT32), scalar("one", 1), const("yes", True, BOOL)]  # fmt: skip
    tensors, names = ["x", "one"], ["x"]
    for i in range(chance.randrange(10, 50)):
        op, name, source = chance.choice([*READS]), f"n{i}", chance.choice(tensors[-4:])
        waits = [f"^{each}" for each in chance.sample(names, min(len(names), 2)) if chance.random() < 0.3]
        beside = {"_class": [f"loc:@{chance.choice(names)}"]} if chance.random() < 0.15 else {}
        names.append(name)
        if op == "NoOp":
            records.append(node(name, op, waits or [f"^{chance.choice(names[:-1])}"]))
            continue
        reads = [source, *(chance.choice(others) for others in READS[op])]
        attrs: dict[str, Any] = {**ATTRS.get(op, {}), **beside}
        if op == "Merge":
            records += [typed("Switch", f"{name}/s", source, "yes"), identity(f"{name}/i", f"{name}/s:1"),
                        typed("Neg", f"{name}/j", f"{name}/s")]  # fmt: skip
            reads, attrs = [f"{name}/j", f"{name}/i"], {"N": 2, **beside}
        elif op == "IdentityN":
            reads, attrs = [source, chance.choice(tensors)], {"kind": dtypes(FLOAT, FLOAT), **beside}
            tensors.append(f"{name}:1")
        elif op in ("AddV2", "Sub", "Mul") and chance.random() < 0.5:
            reads[1] = chance.choice(tensors)
        records.append(typed(op, name, *reads, *waits, **attrs))
        tensors.append(name)
    return graphs.graph_bytes(*records)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_overlooked(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    drawn = [much_goes(chance) for _ in range(10)]
    found = [looked_at(data) for data in drawn]
    assert found == [looked_at(data, monkeypatch) for data in drawn]
