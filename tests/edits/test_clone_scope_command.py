"""clone-scope on the command line, and its proof."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.cloning import KEYS, MODEL, layer, table, variable
from support.desk import Desk, check_error
from support.graphs import (
    DOUBLE,
    FLOAT,
    INT32,
    STRING,
    X,
    add,
    const,
    graph_bytes,
    identity,
    neg,
    node,
    placeholder,
    tensor,
)
from support.patience import within
from support.v1_control_flow import LOOP

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Request, operate

CLONE = ("clone-scope", "model.pb")
OUT = ("-o", "out.pb")


def proof_of(desk: Desk, records: Sequence[bytes], *arguments: str) -> dict[str, Any]:
    """The proof of a clone, as the report has it."""
    desk.put("model.pb", graph_bytes(*records))
    ran = desk.run(*CLONE, *arguments, *OUT, "--report", "report.json")
    assert ran.code == 0, ran.err
    report = json.loads(desk.files()["report.json"])
    assert report["proof"]["largest_difference"] == 0
    return {**report["proof"], "added": report["edit"]["added"]}


def pairs_of(proof: dict[str, Any]) -> set[tuple[str, str]]:
    return {(o["original"], o["edited"]) for o in proof["outputs"] if o["compared"] and o["equal"]}


@pytest.mark.tensorflow
def test_a_clone_is_proven(desk: Desk) -> None:
    proof = proof_of(desk, MODEL, "s", "t", "--input", "x=z")
    assert proof["statement"] == "edited(x) = original(x), t(x) = s(x)"
    assert pairs_of(proof) == {("y", "y"), ("s/add", "t/add")}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "records",
    [
        [X, *layer("s", "x"), neg("y", "s/add")],
        [X, placeholder("s/in", FLOAT, (2,)), add("s/sum", "s/in", "x"), identity("y", "s/sum")],
        [KEYS, *table("s", "s/table", "s/init"), identity("y", "s/find")],
        [KEYS, *table("s", "s/table", "init"), identity("y", "s/find")],
        [X, *variable("s", "s/init"), identity("y", "s/mul")],
        [X, *variable("s", "init"), identity("y", "s/mul")],
        [r.replace(b"w/", b"s/") for r in LOOP],
        [X, const("s/n", [2], INT32), node("s/r", "RandomUniform", ["s/n"], T=INT32, dtype=FLOAT),
         node("s/mul", "Mul", ["s/r", "x"], T=FLOAT), identity("y", "s/mul")],
    ],
    ids=["layer", "placeholder", "table", "table filled outside", "variable", "variable set outside", "loop", "random"],
)  # fmt: skip
def test_scopes_of_all_kinds_are_proven(desk: Desk, records: list[bytes]) -> None:
    proof = proof_of(desk, records, "s", "t")
    assert any(new.startswith("t/") for _, new in pairs_of(proof)), proof


WEIGHT = tensor([2.000001, 3])


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("spoil", "wrong"),
    [
        (lambda g: g.set_attr(g["t/w"], "value", WEIGHT), "t/add"),
        (lambda g: g.set_op(g["t/add"], "Sub"), "t/add"),
        (lambda g: g.set_inputs(g["t/mul"], [g["x"].output, g["t/w"].output]), "t/add"),
        (lambda g: g.set_attr(g["s/w"], "value", WEIGHT), "y"),
    ],
    ids=["a weight", "an op", "an input", "a weight of the original"],
)
def test_a_clone_that_is_wrong_is_caught(tmp_path: Path, spoil: Callable[[Graph], None], wrong: str) -> None:
    def edit(found: Graph) -> EditResult:
        result = clone_scope(found, "s", "t", inputs=[("x", "z")])
        spoil(found)
        return result

    (tmp_path / "model.pb").write_bytes(graph_bytes(*MODEL))
    with pytest.raises(ValidationError) as caught:
        operate(Request(str(tmp_path / "model.pb"), out=str(tmp_path / "out.pb")), edit)
    check_error(caught.value, "differs", {"tensors": [wrong]})
    assert not (tmp_path / "out.pb").exists()


@pytest.mark.tensorflow
def test_a_graph_that_runs_on_no_feed_is_given_up_soon(desk: Desk) -> None:
    """Sounds are made for the input, and not by the million where its shape is not known."""
    records = [
        node("sound", "Placeholder", dtype=STRING),
        node("s/wav", "DecodeWav", ["sound"], desired_channels=1, desired_samples=-1),
        const("s/odd", [7, 11, 13], INT32),
        node("s/cut", "Reshape", ["s/wav", "s/odd"], T=FLOAT, Tshape=INT32),
        identity("y", "s/cut"),
    ]
    desk.put("model.pb", graph_bytes(*records))
    with within(15):
        desk.refused(7, "unfeedable", *CLONE, "s", "t", *OUT, node="s/cut")


@pytest.mark.tensorflow
def test_options(desk: Desk) -> None:
    taken = [*MODEL, const("t/x", [1, 1])]
    proof = proof_of(desk, taken, "s", "t", "--unique", "--share", "w$", "--share", "/b$")
    assert sorted(proof["added"]) == ["t_1/add", "t_1/mul"]


@pytest.mark.parametrize(
    ("options", "exit_code", "code", "facts"),
    [
        (["s"], 2, "missing-argument", {}),
        (["s", "t", "--input", "x"], 2, "not-a-pair", {"value": "x"}),
        (["s", "t", "--input", "x=d"], 4, "dtype-mismatch", {"tensor": "x", "replacement": "d"}),
        (["tower", "t"], 4, "no-such-scope", {"name": "tower"}),
        (["s", "t", "--share", "mul"], 4, "not-a-constant", {"node": "s/mul"}),
        (["s", "u"], 4, "name-taken", {"name": "u"}),
    ],
)
def test_errors(desk: Desk, options: list[str], exit_code: int, code: str, facts: dict[str, Any]) -> None:
    desk.put("model.pb", graph_bytes(*MODEL, placeholder("d", DOUBLE, (2,)), const("u/x", [1])))
    desk.refused(exit_code, code, *CLONE, *options, *OUT, "--validate", "none", **facts)
