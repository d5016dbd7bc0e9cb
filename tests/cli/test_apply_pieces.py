"""apply: what is proven in pieces is told piece by piece; what a line must not do beside its edit."""

from __future__ import annotations

import json

import pytest
from support.commands import FILES
from support.desk import Desk

pytestmark = pytest.mark.tensorflow


def test_values_of_a_later_piece_are_told_beside_those_of_an_earlier_one(desk: Desk) -> None:
    desk.put("model.pb", FILES["model.pb"])
    desk.put("s.gds", b"rename image=picture\nswap-op --node scores Neg\n")
    ran = desk.run("apply", "model.pb", "s.gds", "-o", "out.pb", "--report", "r.json")
    assert ran.code == 0, ran.err
    proof = json.loads((desk.folder / "r.json").read_text())["proof"]
    outputs = [output for output in proof["outputs"] if output["edited"] == "scores"]
    assert [o["compared"] for o in outputs] == [True, False]
    assert outputs[0]["value"] != outputs[1]["value"]


def test_what_is_proven_behind_a_line_that_changes_values_is_told(desk: Desk) -> None:
    desk.put("model.pb", FILES["model.pb"])
    desk.put("s.gds", b"swap-op --node scores Neg\nrename image=picture\n")
    ran = desk.run("apply", "model.pb", "s.gds", "-o", "out.pb")
    assert ran.code == 0, ran.err
    assert "s.gds:2: edited(x) = original(x) under the new names" in ran.err
    assert "  proven   s.gds:1: it loads and runs: 1 output, none compared (downstream of the edit)\n" in ran.err
    assert "(s.gds:1, not compared: downstream of the edit)" in ran.err


def test_gradients_are_a_line_where_a_process_serves_nobody_else(desk: Desk) -> None:
    desk.put("model.pb", FILES["model.pb"])
    desk.put("s.gds", b"rename image=picture\nadd-gradients --ys tower/same --xs picture --names slope\n")
    ran = desk.start("apply", "model.pb", "s.gds", "-o", "out.pb").communicate()
    assert (desk.folder / "out.pb").exists(), ran


def test_a_line_writes_no_file_beside_the_result(desk: Desk) -> None:
    desk.put("model.pb", FILES["model.pb"])
    desk.put("s.gds", b"add-preprocessing --input image --steps 'divide(2)' --emit pre.pb\n")
    ran = desk.run("apply", "model.pb", "s.gds", "-o", "out.pb")
    assert ran.code == 2
    assert "s.gds:1: --emit writes a file beside the result" in ran.err
    assert sorted(desk.files()) == ["model.pb", "s.gds"]


def test_what_is_around_a_shrink_without_a_tolerance_is_proven(desk: Desk) -> None:
    for name in ("model.pb", "pre.pb", "post.pb"):
        desk.put(name, FILES[name])
    desk.put("s.gds", b"add-preprocessing pre.pb\nadd-postprocessing post.pb\nshrink --to float16 --min 1\n"
                      b"rename image=picture\n")  # fmt: skip
    ran = desk.run("apply", "model.pb", "s.gds", "-o", "out.pb", "--report", "r.json")
    assert ran.code == 0, ran.err
    proof = json.loads((desk.folder / "r.json").read_text())["proof"]
    assert [(p["called"], p["judged"], p["statement"]) for p in proof["pieces"]] == [
        ("s.gds:1 to 2", True, "edited(x) = original(x, image := image_preprocessed), "
                               "what came from pre.pb and post.pb = each on its own"),
        ("s.gds:3", False, "it runs, and nothing is claimed"),
        ("s.gds:4", True, "edited(x) = original(x) under the new names"),
    ]  # fmt: skip
    assert proof["judged"] and proof["statement"].count("nothing is claimed") == 1
    assert ran.err.count("and nothing is claimed") == 1
    assert ran.err.count("measured s.gds:3: scores") == 1
    assert "  proven   in 3 pieces, each held against what the one before has made (" in ran.err


def test_the_same_is_said_once(desk: Desk) -> None:
    desk.put("model.pb", FILES["model.pb"])
    desk.put("s.gds", b"insert tower/scaled --steps 'divide(2)'\nadd-preprocessing --input image --steps 'divide(3)'\n")
    ran = desk.run("apply", "model.pb", "s.gds", "-o", "out.pb", "--report", "r.json")
    assert ran.code == 0, ran.err
    proof = json.loads((desk.folder / "r.json").read_text())["proof"]
    assert proof["statement"] == (
        "edited(x) = original(x, image := image_preprocessed, tower/scaled := tower/scaled_inserted), "
        "what came from the steps = the steps on their own"
    )
