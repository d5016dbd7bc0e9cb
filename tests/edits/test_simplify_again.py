"""simplify: what was looked at is looked at again where something near it has changed, and not elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.graphs import BOOL, FLOAT, INT32, add, const, dtypes, graph, identity, node, placeholder, scalar
from support.system import calls, is_linear

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.edits.simplifying.graph_view import GraphView
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.tensor import Tensor, from_numpy

X = placeholder("x", FLOAT, (2, 3))


def _true(data: bytes, names: Sequence[str]) -> Mapping[str, Tensor]:
    del data
    return {name: from_numpy(np.array(True)) for name in names}


def turns(count: int, beside: int, *more: bytes) -> Graph:
    """COUNT conditionals, each decided by what comes of the one before, and BESIDE nodes of which nothing comes."""
    records, last = [X, node("t", "Const", dtype=BOOL, value=graphs.tensor([True], BOOL, ()))], "t"
    for i in range(count):
        records += [node(f"q{i}", "Equal", [last, last], T=BOOL), node(f"s{i}", "Switch", ["t", f"q{i}"], T=BOOL),
                    node(f"a{i}", "LogicalNot", [f"s{i}"]), node(f"b{i}", "LogicalNot", [f"s{i}:1"]),
                    node(f"m{i}", "Merge", [f"a{i}", f"b{i}"], T=BOOL, N=2)]  # fmt: skip
        last = f"m{i}"
    records.append(node("z", "Select", [last, "x", "x"], T=FLOAT))
    for i in range(beside):
        records += [scalar(f"c{i}", i + 2), add(f"p{i}", f"p{i - 1}" if i else "x", f"c{i}"),
                    node(f"r{i}", "Tanh", [f"p{i}"], T=FLOAT)]  # fmt: skip
    return graph(*records, *more)


def simpler(found: Graph) -> EditResult:
    return simplify(found, evaluate=_true, max_growth=1 << 20)


def test_each_conditional_is_decided() -> None:
    assert len(simpler(turns(5, 0)).stages) > 5


def test_what_is_one_or_two_nodes_further_on_is_looked_at_again() -> None:
    found = turns(
        1,
        0,
        node("n", "Neg", ["x", "^m0"], T=FLOAT),
        node("o", "Neg", ["n"], T=FLOAT),
        node("y", "Relu", ["o"], T=FLOAT),
        node("k", "Const", ["^m0"], device="/cpu:0", dtype=INT32, value=graphs.tensor([1, 0], INT32)),
        const("l", [1, 0], INT32),
        node("v", "Transpose", ["x", "k"], T=FLOAT, Tperm=INT32),
        node("u", "Transpose", ["v", "l"], T=FLOAT, Tperm=INT32),
        node("w", "Tanh", ["u"], T=FLOAT),
    )
    simpler(found)
    assert [read.name for name in "yw" for read in found[name].inputs] == ["x", "x"]


def test_what_stays_as_it_is_costs_hardly_more_where_there_are_more_turns() -> None:
    simpler(turns(1, 1))  # what is looked up once is looked up now

    def of_idle(count: int) -> int:
        return calls(partial(simpler, turns(count, 40))) - calls(partial(simpler, turns(count, 5)))

    assert of_idle(6) < 2.5 * of_idle(1)


def test_turns_are_linear() -> None:
    assert is_linear(lambda count: partial(simpler, turns(3, count)), 20, 80)


@pytest.mark.parametrize("kind", ["deep", "wide", "many", "alike"])
def test_the_work_grows_with_the_graph_whatever_its_form(kind: str) -> None:
    assert is_linear(lambda count: partial(simplify, FORMS[kind](count)), 40, 160)


def _deep(count: int) -> Graph:
    records, last = [X], "x"
    for i in range(count):
        records += [identity(f"i{i}", last), node(f"n{i}", "Neg", [f"i{i}"], T=FLOAT)]
        last = f"n{i}"
    return graph(*records)


def _wide(count: int) -> Graph:
    """One node that all read and wait for, and one that reads all."""
    records = [X, *(node(f"r{i}", "Tanh", [f"i{i}", "^x"], T=FLOAT) for i in range(count))]
    records += [identity(f"i{i}", "x") for i in range(count)]
    return graph(*records, node("y", "AddN", [f"r{i}" for i in range(count)], T=FLOAT, N=count))


def _many(count: int) -> Graph:
    """Small branches that have nothing to do with each other."""
    out = []
    for i in range(count):
        out += [placeholder(f"x{i}", FLOAT, (2, 3)), identity(f"i{i}", f"x{i}")]
        out += [node(f"r{i}", "Relu", [f"i{i}"], T=FLOAT), node(f"y{i}", "Relu", [f"r{i}"], T=FLOAT)]
    return graph(*out)


def _alike(count: int) -> Graph:
    """Nodes that are the same and all keep their names, but are found to be so late."""
    return graph(X, *(identity(f"i{i}", "x") for i in range(count)),
                 *(node(f"y{i}", "Tanh", [f"i{i}"], T=FLOAT) for i in range(count)))  # fmt: skip


FORMS: dict[str, Callable[[int], Graph]] = {"deep": _deep, "wide": _wide, "many": _many, "alike": _alike}


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_overlooked(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    drawn = [_drawn(chance) for _ in range(10)]
    found = [_simplified(data) for data in drawn]
    monkeypatch.setattr(GraphView, "dirty_nodes", lambda view, what, ops, *_, **__: iter(view.with_ops(ops)))
    assert found == [_simplified(data) for data in drawn]


def _simplified(data: bytes) -> bytes:
    found = from_bytes(data)
    try:
        simplify(found)
    except NothingToDo:
        return b""
    return graphs.written(found)


def _drawn(chance: Random) -> bytes:
    """A graph in which much goes, one thing because of another."""
    records = [X, const("k", [0, 1], INT32), const("turn", [1, 0], INT32), const("to", [2, 3], INT32), scalar("one", 1)]
    tensors, names = ["x", "one"], ["x"]
    for i in range(chance.randrange(10, 50)):
        op, name, source = chance.choice([*OPS]), f"n{i}", chance.choice(tensors[-4:])
        waits = [f"^{each}" for each in chance.sample(names, min(len(names), 2)) if chance.random() < 0.3]
        beside = {"_class": [f"loc:@{chance.choice(names)}"]} if chance.random() < 0.15 else {}
        names.append(name)
        if op == "NoOp":
            records.append(node(name, op, waits or [f"^{chance.choice(names[:-1])}"]))
            continue
        if op == "Merge":
            records += [node(f"{name}/s", "Switch", [source, "yes"], T=FLOAT), identity(f"{name}/i", f"{name}/s:1"),
                        node(f"{name}/j", "Neg", [f"{name}/s"], T=FLOAT)]  # fmt: skip
            reads, attrs = [f"{name}/j", f"{name}/i"], {"T": FLOAT, "N": 2}
        elif op == "IdentityN":
            reads, attrs = [source, chance.choice(tensors)], {"T": dtypes(FLOAT, FLOAT)}
            tensors.append(f"{name}:1")
        else:
            reads, attrs = [source, *(chance.choice(others) for others in OPS[op])], {"T": FLOAT, **ATTRS.get(op, {})}
        if op in ("AddV2", "Sub", "Mul") and chance.random() < 0.5:
            reads[1] = chance.choice(tensors)
        records.append(node(name, op, [*reads, *waits], **attrs, **beside))
        tensors.append(name)
    return graphs.graph_bytes(*records, node("yes", "Const", dtype=BOOL, value=graphs.tensor([True], BOOL, ())))


OPS: dict[str, Sequence[Sequence[str]]] = {
    "AddV2": [["one"]], "Sub": [["one"]], "Mul": [["one"]], "Neg": [], "Relu": [], "Identity": [], "IdentityN": [],
    "Transpose": [["k", "turn"]], "Reshape": [["to"]], "StopGradient": [], "NoOp": [], "Merge": [],
}  # fmt: skip
ATTRS: dict[str, dict[str, Any]] = {"Transpose": {"Tperm": INT32}, "Reshape": {"Tshape": INT32}}
