"""The command fuse-ops: its proofs and its results."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.desk import Desk
from support.fusing import GRADS, chain, tanh, tanh_grad2
from support.graphs import (
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
    typed,
    written,
)

from gdsurgeon.wire.fields import encode_len

pytestmark = pytest.mark.tensorflow

CALL = ("fuse-ops", "model.pb", "-o", "out.pb")


def report(desk: Desk, records: list[bytes], *options: str, code: int = 0) -> Any:
    """The report of the command on a graph of RECORDS; there is an output where it ends well."""
    desk.put("model.pb", graph_bytes(*records))
    found = desk.report(*CALL, *options, code=code)
    assert found["passed"] == (desk.folder / "out.pb").exists() == (code == 0)
    return found


def compared(found: Any) -> set[tuple[str, str, bool]]:
    return {(o["original"], o["edited"], o["equal"]) for o in found["proof"]["outputs"] if o["compared"]}


def test_fusing_is_proven(desk: Desk) -> None:
    found = report(desk, chain(), "--between", "x=mul", "--with-consts", "--name", "block")
    assert found["edit"]["moved"] == {"mul": "block"}
    assert compared(found) == {("y", "y", True), ("mul", "block", True)}
    found = report(desk, chain(), "--between", "x=y", "--with-consts", "--name", "block")
    assert sorted(found["edit"]["removed"]) == ["mul", "neg", "one", "sum"]
    assert compared(found) == {("y", "y", True)}


def test_another_body_is_proven_and_a_wrong_one_is_caught(desk: Desk) -> None:
    options = ("--select", GRADS, "--name", "tanh_grad2", "--with", "body.pb")
    desk.put("body.pb", written(tanh_grad2("p", "q")))
    found = report(desk, tanh(), *options, "--map", "a2=p", "--map", "dy=q")
    assert {before for before, _, equal in compared(found) if equal} >= {"a1_grad"}
    assert "'a3'" in str(found["edit"]["notes"])
    (desk.folder / "out.pb").unlink()
    desk.put("body.pb", graph_bytes(placeholder("a2"), placeholder("dy"), typed("Tanh", "again", "a2"),
                                    node("a2_grad", "TanhGrad", ["again", "dy"], T=FLOAT)))  # fmt: skip
    report(desk, tanh(), *options, code=5)
    report(desk, tanh(), *options, "--rtol", "1e-9", code=5)
    report(desk, tanh(), *options, "--atol", "100")


def test_a_body_that_rounds_otherwise_passes_within_a_tolerance(desk: Desk) -> None:
    model = [X, const("three", [3, 3]), node("d", "RealDiv", ["x", "three"], T=FLOAT), identity("y", "d")]
    third = const("third", [1 / 3, 1 / 3])
    desk.put("body.pb", graph_bytes(placeholder("x"), placeholder("three"), third,
                                    node("d", "Mul", ["x", "third"], T=FLOAT)))  # fmt: skip
    options = ("--node", "d", "--name", "m", "--with", "body.pb", "--feed", "x=[7, 1e10]")
    report(desk, model, *options, code=5)
    assert report(desk, model, *options, "--rtol", "1e-6")["proof"]["tolerance"]["rtol"] == 1e-6


def test_xla_compiles_and_is_compared_within_a_tolerance(desk: Desk) -> None:
    records = [placeholder("x", FLOAT, (64, 64)), typed("Tanh", "a", "x"), typed("Exp", "b", "a"), add("c", "b", "a"),
               typed("Sigmoid", "d", "c"), identity("y", "d")]  # fmt: skip
    assert report(desk, records, "--select", "^[abcd]$", "--name", "fast", "--xla")["proof"]["tolerance"]["rtol"] > 0
    assert graphs.attrs((desk.folder / "out.pb").read_bytes(), "fast")["_XlaMustCompile"].b


def test_what_xla_cannot_compile_is_said_in_its_words(desk: Desk) -> None:
    records = [placeholder("x", FLOAT, (2,)), node("s", "AsString", ["x"], T=FLOAT),
               node("n", "StringLength", ["s"]), identity("y", "n", kind=INT32)]  # fmt: skip
    found = report(desk, records, "--select", "^[sn]$", "--name", "fast", "--xla", code=5)
    assert "AsString" in found["error"]["message"]


def test_a_convolution_under_xla_is_warned_about(desk: Desk) -> None:
    records = [placeholder("x", FLOAT, (1, 4, 4, 1)), const("k", [1, 2, 3, 4], shape=(2, 2, 1, 1)),
               node("conv", "Conv2D", ["x", "k"], T=FLOAT, strides=[1, 1, 1, 1], padding="SAME"),
               typed("Relu", "r", "conv"), identity("y", "r")]  # fmt: skip
    found = report(desk, records, "--select", "conv|r$", "--name", "fast", "--xla")
    assert any("Conv2D" in warning for warning in found["warnings"])


@pytest.mark.parametrize("op", ["RandomUniform", "FractionalAvgPool", "FractionalMaxPool"])
def test_a_random_op_gets_one_seed_in_both_graphs(desk: Desk, op: str) -> None:
    ratio = encode_len(1, encode_len(4, struct.pack("<4f", 1, 1.5, 1.5, 1)))
    drawn = [const("shape", [3], INT32), node("r", op, ["shape"], T=INT32, dtype=FLOAT)]
    pooled = [placeholder("x", FLOAT, (1, 20, 20, 1)), node("r", op, ["x"], T=FLOAT, pooling_ratio=ratio)]
    records = [*(drawn if op == "RandomUniform" else pooled), neg("n", "r"), identity("y", "n")]
    found = report(desk, records, "--select", "^[rn]$", "--name", "call")
    assert any("'r': random" in warning for warning in found["warnings"]) and compared(found)


def test_a_proof_writes_no_file_unless_that_is_allowed(desk: Desk, tmp_path: Path) -> None:
    """Nobody who fetches y writes a file; everybody who calls the function would."""
    there = tmp_path / "written.txt"
    writing = [const("name", str(there), STRING), const("content", "text", STRING),
               node("write", "WriteFile", ["name", "content"])]  # fmt: skip
    desk.put("model.pb", graph_bytes(X, *writing, neg("n", "x"), identity("y", "n")))
    assert desk.run(*CALL, "--node", "write", "--node", "n", "--name", "call").code in (4, 7)
    desk.put("model.pb", graph_bytes(X, neg("n", "x"), identity("y", "n")))
    desk.put("body.pb", graph_bytes(placeholder("x"), *writing, neg("n", "x", "^write")))
    body = (*CALL, "--node", "n", "--name", "call", "--with", "body.pb")
    assert desk.run(*body).code in (4, 7)
    assert not there.exists()
    code = desk.run(*body, "--allow-ops").code
    assert code in (0, 4) and there.exists() == (code == 0)


def test_options_that_belong_together(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(*chain()))
    desk.refused(2, "missing-option", *CALL, "--select", "neg", "--name", "call", "--map", "a=b", option="--with")
    desk.refused(4, "name-taken", *CALL, "--select", "neg", "--name", "x", "--validate", "none", name="x")
