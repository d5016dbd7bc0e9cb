"""Edits without anything to do, and edits of function bodies."""

from __future__ import annotations

import json
import shlex

import pytest
from support.commands import QUICK
from support.desk import Desk
from support.graphs import FLOAT, graph_bytes, node, parsed, placeholder, proto
from support.paths import FIXTURES

from gdsurgeon.graph.load import load

X, Y = placeholder("x", FLOAT, (-1, 2)), node("y", "Relu", ["x"], T=FLOAT)
MODEL = graph_bytes(X, Y, node("z", "Neg", ["y"], T=FLOAT))
IDLE = {
    "rename y=y": "nothing-to-do",
    "set-device --clear": "nothing-to-do",
    "set-device --replace /gpu:0=/cpu:0": "nothing-matched",
    "set-device --assign /cpu:0 --op Conv2D": "nothing-matched",
    "set-attr y T=float32": "nothing-to-do",
    "set-attr --select . --unset _output_shapes": "no-such-attr",
    "set-attr --op Conv2D dilations=1,1,1,1": "nothing-matched",
    "set-shape x=?,2": "nothing-to-do",
    "set-attr y op=Relu": "nothing-to-do",
    "set-attr --op Relu6 op=Relu": "nothing-matched",
    "remove --op Assert": "nothing-matched",
    "remove --select /dropout/ --bypass": "nothing-matched",
    "extract --outputs z": "nothing-to-do",
    "inline": "nothing-to-do",
}
"""Command lines that have nothing to do in `MODEL`, and the code of the reason."""


@pytest.fixture
def there(desk: Desk) -> Desk:
    desk.put("model.pb", MODEL)
    return desk


@pytest.mark.tensorflow
@pytest.mark.parametrize("line", IDLE)
def test_the_graph_is_passed_on(there: Desk, line: str) -> None:
    command, *words = line.split()
    refused = there.refused(4, IDLE[line], command, "model.pb", *words, "--require-change")
    report = there.report(command, "model.pb", *words, "-o", "out.pb")
    assert (report["passed"], report["changed"], report["proof"]["level"]) == (True, False, "unchanged")
    assert refused.error is not None and refused.err.startswith(f"Error: {report['nothing_to_do']}")
    assert (there.folder / "out.pb").read_bytes() == MODEL
    notes = [text for text in there.run(command, "model.pb", *words, "-n").err.splitlines() if text[:6] == "Note: "]
    assert len(notes) == 1 and report["nothing_to_do"] in notes[0] and "Note:" not in refused.err


@pytest.mark.tensorflow
def test_a_change_is_no_reason_for_a_note(there: Desk) -> None:
    report = there.report("rename", "model.pb", "y=w", "-o", "out.pb", *QUICK, "--require-change")
    assert (report["changed"], report["nothing_to_do"]) == (True, None)


@pytest.mark.tensorflow
def test_through_a_pipe(desk: Desk) -> None:
    ran = desk.spawn("set-device", "-", "--clear", data=MODEL)
    assert (ran.code, ran.out) == (0, MODEL)


@pytest.mark.tensorflow
def test_text_stays_as_it_is_written_and_a_backup_is_kept(desk: Desk) -> None:
    text = b"# by hand\n" + (FIXTURES / "tiny.pbtxt").read_bytes()
    desk.put("model.pbtxt", text)
    desk.done("set-device", "model.pbtxt", "--clear", "-i", "--backup", ".bak")
    assert desk.files() == {"model.pbtxt": text, "model.pbtxt.bak": text}


@pytest.mark.tensorflow
def test_what_is_mended_on_the_way_is_proven(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(X, Y, node("z", "Neg", ["^x", "y"], T=FLOAT)))
    report = desk.report("set-device", "model.pb", "--clear", "-o", "out.pb")
    assert report["nothing_to_do"] and report["proof"]["compared"] == 1 and report["proof"]["largest_difference"] == 0
    mended = node("z", "Neg", ["y", "^x"], T=FLOAT)
    assert parsed((desk.folder / "out.pb").read_bytes()) == proto(X, Y, mended)


@pytest.mark.tensorflow
def test_of_several_bodies_one_may_have_nothing_to_do(desk: Desk) -> None:
    bodies = ("--in", "while_body_frozen_82", "--in", "while_cond_frozen_81")
    words = (*bodies, "--op", "AddV2", "--assign", "/cpu:0", "-o", "out.pb", *QUICK)
    report = desk.report("set-device", str(FIXTURES / "functions_tf2.pb"), *words)
    assert list(report["edit"]["function_bodies"]) == ["while_body_frozen_82"] and len(report["edit"]["notes"]) == 2


CHECKED = {
    "simplify": 1,
    "simplify --passes constants": 0,
    "simplify --passes constants --outputs q=y": 1,
    "rewrite Relu($x)->Relu6($x)": 1,
    "rewrite Relu6($x)->Relu($x)": 0,
    "rewrite Neg(Identity($x))->Neg($x)": 4,
    "repair": 0,
}
"""Command lines, and their exit codes with --check."""


@pytest.mark.tensorflow
@pytest.mark.parametrize("line", CHECKED)
def test_a_check_writes_nothing(desk: Desk, line: str) -> None:
    """Exit code 0: nothing to do; 1: something to do; 4: impossible."""
    read = [node(name, op, ["i"], T=FLOAT) for name, op in (("z", "Neg"), ("w", "Abs"))]
    desk.put("model.pb", graph_bytes(X, Y, node("i", "Identity", ["y"], T=FLOAT), *read))
    command, *words = line.split()
    arguments = (command, "model.pb", *words, "--check")
    ran, found = desk.run(*arguments), desk.answer(*arguments, "--json", code=CHECKED[line])
    assert ran.code == found["exit_code"] == CHECKED[line] and list(desk.files()) == ["model.pb"]
    assert bool(found["error"]) == (ran.code == 4)
    desk.refused(2, "conflicting-options", *arguments, "-o", "out.pb", option="--check")
    desk.refused(2, "missing-option", *arguments[:-1], "--json", option="--check")
    desk.put("s.gds", shlex.join([command, *words, "--check"]).encode())
    desk.refused(2, "not-in-a-script", "apply", "model.pb", "s.gds", option="--check")


WITH_FUNCTIONS = str(FIXTURES / "functions_tf2.pb")
BODY = "while_body_frozen_82"


def body_nodes(path: str) -> dict[str, list[str]]:
    return {node.name: list(node.input) for node in load(path).functions.get(BODY).node_def}


def test_select_and_inspect_look_into_a_body(desk: Desk) -> None:
    assert desk.run("select", WITH_FUNCTIONS, "--in", BODY, "--op", "AddV2").out == b"while/add\nwhile/add_1\n"
    shown = json.loads(desk.run("inspect", WITH_FUNCTIONS, "--in", BODY, "--json").out)
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
    ran = desk.done(command, WITH_FUNCTIONS, "--in", BODY, *EDITS[command], "-o", "out.pb", "--validate", "structure")
    assert f"changed  1 function: {BODY}" in ran.err
    same_nodes = body_nodes(str(desk.folder / "out.pb")) == body_nodes(WITH_FUNCTIONS)
    assert same_nodes == (command in ("set-attr", "set-device"))
    before, after = load(WITH_FUNCTIONS), load(str(desk.folder / "out.pb"))
    for function in before.functions:
        same = after.functions.get(function.signature.name) == function
        assert same == (function.signature.name != BODY)
    assert [node.record and node.record.buffer() for node in before.nodes()] == [
        node.record and node.record.buffer() for node in after.nodes()
    ]


@pytest.mark.tensorflow
def test_a_function_that_is_not_there_and_a_node_that_is_not_in_it(desk: Desk) -> None:
    rename = ("rename", WITH_FUNCTIONS, "--in")
    desk.refused(4, "no-such-function", *rename, "while_body", "a=b", function="while_body", near=BODY)
    desk.refused(4, "no-such-node", *rename, BODY, "while/ad=b", node="while/ad", near="while/add")


@pytest.mark.tensorflow
def test_an_argument_is_not_removed(desk: Desk) -> None:
    consumers = {"while_placeholder_1": ["while/StatefulPartitionedCall"]}
    arguments = ("remove", WITH_FUNCTIONS, "--in", BODY, "--node", "while_placeholder_1")
    desk.refused(4, "has-consumers", *arguments, consumers=consumers)


@pytest.mark.tensorflow
def test_what_an_op_does_not_allow_is_found_inside(desk: Desk) -> None:
    ran = desk.refused(4, "does-not-fit", "set-attr", WITH_FUNCTIONS, "--in", BODY, "while/add", "T=string")
    assert ran.error is not None and "while/add" in [each["node"] for each in ran.error.facts["misfits"]]


@pytest.mark.tensorflow
def test_an_edit_inside_is_told_and_proven_from_outside(desk: Desk) -> None:
    command = ("rename", WITH_FUNCTIONS, "--in", BODY, "while/add=while/sum", "-o", "out.pb", "--report", "r")
    ran = desk.done(*command)
    assert "bit-identical" in ran.err and f"in {BODY}: while/add  ->  while/sum" in ran.err
    report = json.loads((desk.folder / "r").read_bytes())
    assert report["edit"]["function_bodies"][BODY]["renamed"] == {"while/add": "while/sum"}
