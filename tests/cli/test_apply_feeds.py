"""apply: what a user says of feeds, by the names before the script or after it."""

from __future__ import annotations

import pytest
from support.commands import FILES
from support.desk import Desk

SCRIPT = b"add-preprocessing pre.pb\nrename image=picture\n"


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["image", "picture"])
def test_an_input_is_fed_by_either_of_its_names(desk: Desk, name: str) -> None:
    desk.put("model.pb", FILES["model.pb"])
    desk.put("pre.pb", FILES["pre.pb"])
    desk.put("fix.gds", SCRIPT)
    ran = desk.run("apply", "model.pb", "fix.gds", "-o", "out.pb", "--feed", f"{name}=[[1, 2]]")
    assert ran.code == 0, ran.err
    assert "bit-identical" in ran.err


@pytest.mark.tensorflow
def test_a_name_that_there_is_neither_before_nor_after(desk: Desk) -> None:
    desk.put("model.pb", FILES["model.pb"])
    desk.put("pre.pb", FILES["pre.pb"])
    desk.put("fix.gds", SCRIPT)
    ran = desk.run("apply", "model.pb", "fix.gds", "-o", "out.pb", "--feed", "imag=[[1, 2]]")
    assert ran.code == 2
    assert "'imag'" in ran.err
