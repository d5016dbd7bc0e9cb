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
