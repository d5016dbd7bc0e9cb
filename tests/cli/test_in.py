"""--in FUNCTION: commands that do to the body of a function what they do to a graph."""

from __future__ import annotations

import json

import pytest
from support.desk import Desk
from support.paths import FIXTURES

from gdsurgeon.graph.load import load

MODEL = str(FIXTURES / "functions_tf2.pb")
BODY = "while_body_frozen_82"


def body_nodes(path: str) -> dict[str, list[str]]:
    return {node.name: list(node.input) for node in load(path).functions.get(BODY).node_def}


def test_select_and_inspect_look_into_a_body(desk: Desk) -> None:
    assert desk.run("select", MODEL, "--in", BODY, "--op", "AddV2").out == b"while/add\nwhile/add_1\n"
    shown = json.loads(desk.run("inspect", MODEL, "--in", BODY, "--json").out)
    assert [item["name"] for item in shown["inputs"]][-2:] == ["while_placeholder_1", "while_42_0"]
    assert [item["name"] for item in shown["outputs"]] == [
        "while_identity", "while_identity_1", "while_identity_2", "while_identity_3", "while_42",
    ]  # fmt: skip


EDITS = {
    "rename": ["while/add=while/sum"],
    "set-attr": ["while/add", "_note:string=x"],
    "set-device": ["--op", "AddV2", "--assign", "/cpu:0"],
    "control-edges": ["--add", "while/add=^while/add_1"],
    "reroute": ["while/add_1=while/add"],
}


@pytest.mark.parametrize("command", EDITS)
def test_an_edit_changes_the_body_and_nothing_else(desk: Desk, command: str) -> None:
    ran = desk.run(command, MODEL, "--in", BODY, *EDITS[command], "-o", "out.pb", "--validate", "structure")
    assert ran.code == 0, ran.err
    assert f"changed  1 function: {BODY}" in ran.err
    assert body_nodes(str(desk.folder / "out.pb")) != body_nodes(MODEL) or command in ("set-attr", "set-device")
    before, after = load(MODEL), load(str(desk.folder / "out.pb"))
    for function in before.functions:
        same = after.functions.get(function.signature.name) == function
        assert same == (function.signature.name != BODY)
    assert b"".join(n.record.buffer() for n in before.nodes() if n.record) == b"".join(  # type: ignore[misc]
        n.record.buffer()
        for n in after.nodes()
        if n.record  # type: ignore[misc]
    )


def test_the_summary_and_the_report_say_what_was_done_inside(desk: Desk) -> None:
    ran = desk.run(
        "rename", MODEL, "--in", BODY, "while/add=while/sum", "-o", "out.pb", "--validate", "structure", "--report", "r"
    )
    assert f"in {BODY}: while/add  ->  while/sum" in ran.err
    report = json.loads((desk.folder / "r").read_bytes())
    assert report["edit"]["function_bodies"][BODY]["renamed"] == {"while/add": "while/sum"}


@pytest.mark.tensorflow
def test_a_function_that_is_not_there_and_a_node_that_is_not_in_it(desk: Desk) -> None:
    desk.refused(4, "no-such-function", "rename", MODEL, "--in", "while_body", "a=b", function="while_body", near=BODY)
    desk.refused(4, "no-such-node", "rename", MODEL, "--in", BODY, "while/ad=b", node="while/ad", near="while/add")


@pytest.mark.tensorflow
def test_an_argument_is_not_removed(desk: Desk) -> None:
    consumers = {"while_placeholder_1": ["while/StatefulPartitionedCall"]}
    arguments = ("remove", MODEL, "--in", BODY, "--node", "while_placeholder_1")
    desk.refused(4, "has-consumers", *arguments, consumers=consumers)


@pytest.mark.tensorflow
def test_what_an_op_does_not_allow_is_found_inside(desk: Desk) -> None:
    ran = desk.refused(4, "does-not-fit", "set-attr", MODEL, "--in", BODY, "while/add", "T=string")
    assert ran.error is not None and "while/add" in [each["node"] for each in ran.error.facts["misfits"]]


@pytest.mark.tensorflow
def test_an_edit_inside_is_proven_from_outside(desk: Desk) -> None:
    ran = desk.run("rename", MODEL, "--in", BODY, "while/add=while/sum", "-o", "out.pb")
    assert ran.code == 0, ran.err
    assert "bit-identical" in ran.err
