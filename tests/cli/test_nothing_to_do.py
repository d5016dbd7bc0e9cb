"""Edits that find nothing to do: the graph is passed on as it is, with a note; --require-change refuses."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from support.desk import Desk, check_refused
from support.graphs import FLOAT, graph_bytes, node, parsed, placeholder, proto
from support.paths import FIXTURES

Y = node("y", "Relu", ["x"], T=FLOAT)
MODEL = graph_bytes(placeholder("x", FLOAT, (-1, 2)), Y, node("z", "Neg", ["y"], T=FLOAT))


pytestmark = pytest.mark.tensorflow


class Idle(NamedTuple):
    """A command line that has nothing to do in `MODEL`."""

    line: str
    said: str


IDLE = [
    Idle("rename y=y", "nothing would change: each node has the name"),
    Idle("set-device --clear", "nothing would change: no node asks for a device"),
    Idle("set-device --map /gpu:0=/cpu:0", "no device is '/gpu:0': no node asks for a device"),
    Idle("set-device --set /cpu:0 --op Conv2D", "--op 'Conv2D' matched 0 nodes"),
    Idle("set-attr y T=float32", "nothing would change: 'y' has T=float32 already"),
    Idle("set-attr --select . --remove _output_shapes", "none of the 3 nodes has an attr '_output_shapes'"),
    Idle("set-attr --op Conv2D dilations=1,1,1,1", "--op 'Conv2D' matched 0 nodes"),
    Idle("set-shape x=?,2", "nothing would change: each input takes the shape"),
    Idle("swap-op --node y Relu", "nothing would change: 'y' is Relu already"),
    Idle("swap-op --op Relu6 Relu", "--op 'Relu6' matched 0 nodes. Did you mean 'Relu'?"),
    Idle("remove --op Assert", "--op 'Assert' matched 0 nodes"),
    Idle("remove --select /dropout/ --bypass", "--select '/dropout/' matched 0 nodes"),
    Idle("extract --outputs z", "nothing would be removed"),
    Idle("inline", "there is no call in the graph to inline"),
]


@pytest.mark.parametrize("idle", IDLE, ids=lambda idle: idle.line)
def test_the_graph_is_passed_on(desk: Desk, idle: Idle) -> None:
    desk.put("model.pb", MODEL)
    command, *words = idle.line.split()
    ran = desk.run(command, "model.pb", *words, "-o", "out.pb", "--report", "report.json")
    assert ran.code == 0, ran.err
    assert [line for line in ran.err.splitlines() if line.startswith("Note: ")] == [
        line for line in ran.err.splitlines() if idle.said in line and "the graph is passed on as it is" in line
    ]
    assert "proven   the graph is unchanged: not run" in ran.err
    assert (desk.folder / "out.pb").read_bytes() == MODEL
    report = json.loads((desk.folder / "report.json").read_bytes())
    assert (report["passed"], report["changed"], report["proof"]["level"]) == (True, False, "unchanged")
    assert idle.said in report["idle"]
    refused = check_refused(desk, 4, (idle.said,), command, "model.pb", *words, "--require-change")
    assert "Note:" not in refused.err


def test_a_change_is_no_reason_for_a_note(desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    ran = desk.run(
        "rename", "model.pb", "y=w", "-o", "out.pb", "--validate", "structure", "--require-change", "--report", "r"
    )
    assert (ran.code, "Note:" in ran.err) == (0, False)
    report = json.loads((desk.folder / "r").read_bytes())
    assert (report["changed"], report["idle"]) == (True, None)


REFUSED = [
    "rename nothing=q",
    "rename --regex nothing=q",
    "remove --node nothing",
    "remove --op Assert --op Neg --allow-outputs",
    "set-attr --op Assert --node y _note:string=x",
    "fuse-ops --op Conv2D --name f",
]


@pytest.mark.parametrize("line", REFUSED)
def test_a_name_that_is_not_there_and_a_part_of_what_is_named_are_refused(desk: Desk, line: str) -> None:
    desk.put("model.pb", MODEL)
    command, *words = line.split()
    assert desk.run(command, "model.pb", *words).code == 4


def test_through_a_pipe(desk: Desk) -> None:
    ran = desk.spawn("set-device", "-", "--clear", data=MODEL)
    assert (ran.code, ran.out) == (0, MODEL)


def test_text_stays_as_it_is_written(desk: Desk) -> None:
    text = b"# by hand\n" + (FIXTURES / "tiny.pbtxt").read_bytes()
    desk.put("model.pbtxt", text)
    assert desk.run("set-device", "model.pbtxt", "--clear", "-o", "out.pbtxt").code == 0
    assert (desk.folder / "out.pbtxt").read_bytes() == text


def test_in_place_with_a_backup(desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    assert desk.run("inline", "model.pb", "-i", "--backup", ".bak").code == 0
    assert desk.files() == {"model.pb": MODEL, "model.pb.bak": MODEL}


def test_what_is_mended_on_the_way_is_proven(desk: Desk) -> None:
    mended = node("z", "Neg", ["y", "^x"], T=FLOAT)
    broken = node("z", "Neg", ["^x", "y"], T=FLOAT)
    desk.put("model.pb", graph_bytes(placeholder("x", FLOAT, (-1, 2)), Y, broken))
    ran = desk.run("set-device", "model.pb", "--clear", "-o", "out.pb")
    assert ran.code == 0, ran.err
    assert "no node asks for a device; the graph is passed on mended" in ran.err
    assert "proven   edited(x) = original(x): 1 output, 2 samples (batches of 1 and 2), bit-identical" in ran.err
    assert parsed((desk.folder / "out.pb").read_bytes()) == proto(placeholder("x", FLOAT, (-1, 2)), Y, mended)


def test_of_several_bodies_one_may_have_nothing_to_do(desk: Desk) -> None:
    model = str(FIXTURES / "functions_tf2.pb")
    command = ("set-device", model, "--in", "while_body_frozen_82", "--in", "while_cond_frozen_81")
    ran = desk.run(*command, "--op", "AddV2", "--set", "/cpu:0", "-o", "out.pb", "--validate", "structure")
    assert (ran.code, "note     --op 'AddV2' matched 0 nodes" in ran.err) == (0, True), ran.err
