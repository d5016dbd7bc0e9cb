"""Arguments of public functions: the forms that are accepted, and what a wrong one is answered with."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.expecting import account
from support.graphs import const, graph, identity, placeholder

import gdsurgeon as gds
from gdsurgeon.registry import COMMANDS, HOMES

Call = Callable[[gds.Graph], object]


def small() -> gds.Graph:
    return graph(placeholder("x", shape=(2,)), const("k", [1.0, 2.0]), identity("y", "x"), identity("z", "k"))


SAME: dict[str, tuple[Call, Call]] = {
    "pairs as a mapping": (lambda g: gds.rename(g, {"x": "a"}), lambda g: gds.rename(g, [("x", "a")])),
    "patterns as a mapping": (
       lambda g: gds.rename(g, patterns={"^": "p"}), lambda g: gds.rename(g, patterns=[("^", "p")])),
    "lists as pairs": (lambda g: gds.reroute(g, [["x", "k"]]), lambda g: gds.reroute(g, [("x", "k")])),
    "a mapping of tensors": (lambda g: gds.reroute(g, {"x": "k"}), lambda g: gds.reroute(g, [("x", "k")])),
    "a mapping as pairs": (
       lambda g: gds.freeze_input(g, [("x", [1, 2])]), lambda g: gds.freeze_input(g, {"x": [1, 2]})),
    "shapes as a mapping": (lambda g: gds.set_shape(g, {"x": [3]}), lambda g: gds.set_shape(g, [("x", (3,))])),
    "one name": (lambda g: gds.extract(g, "x", "y"), lambda g: gds.extract(g, ["x"], ["y"])),
    "a set": (lambda g: gds.extract(g, {"x"}, {"y"}), lambda g: gds.extract(g, ["x"], ["y"])),
    "one op": (
        lambda g: gds.set_device(g, nodes=gds.Selection(ops="Identity"), device="/cpu:0"),
        lambda g: gds.set_device(g, nodes=gds.Selection(ops=("Identity",)), device="/cpu:0"),
    ),
    "values of attrs": (
        lambda g: gds.set_attr(g, "y", {"_a:list(int)": [1, 2], "_b:bool": True, "_c:float": np.float32(0.5)}),
        lambda g: gds.set_attr(g, ["y"], [("_a:list(int)", "[1, 2]"), ("_b:bool", "true"), ("_c:float", "0.5")]),
    ),
    "a number of numpy": (
        lambda g: gds.reroute(g, {"x": "k"}, swap=np.bool_(True)),
        lambda g: gds.reroute(g, {"x": "k"}, swap=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_forms_that_mean_the_same(name: str) -> None:
    one, other = small(), small()
    results: Any = [call(g) for call, g in zip(SAME[name], (one, other), strict=True)]
    assert graphs.written(one) == graphs.written(other)
    account(one, results[0])
    account(other, results[1])


WRONG: dict[str, tuple[Call, str, str]] = {
    "a number for pairs": (lambda g: gds.rename(g, 5), "rename", "pairs"),
    "letters for a pair": (lambda g: gds.rename(g, ["ab"]), "rename", "pairs"),
    "three for two": (lambda g: gds.rename(g, [("a", "b", "c")]), "rename", "pairs"),
    "a number in a pair": (lambda g: gds.rename(g, [("x", 3)]), "rename", "pairs"),
    "a text for a mapping": (lambda g: gds.freeze_input(g, "x"), "freeze_input", "values"),
    "a text for a shape": (lambda g: gds.set_shape(g, {"x": "2"}), "set_shape", "shapes"),
    "no graph": (lambda g: gds.rename("model.pb", {"x": "a"}), "rename", "graph"),
    "a text for a number": (lambda g: gds.simplify(g, tolerance="much"), "simplify", "tolerance"),
    "a text for a bool": (lambda g: gds.strip_weights(g, keep_strings="no"), "strip_weights", "keep_strings"),
    "an unknown argument": (lambda g: gds.rename(g, name="a"), "rename", ""),
    "a missing argument": (lambda g: gds.clone_scope(g, "x"), "clone_scope", ""),
    "a mapping for names": (lambda g: gds.extract(g, {"x": 1}, "y"), "extract", "inputs"),
    "a field of a selection": (lambda g: gds.Selection(ops=5), "Selection", "ops"),
    "a number for a path": (lambda g: gds.load(5), "load", "path"),
    "an attr of no kind": (lambda g: gds.set_attr(g, "y", {"T": object()}), "set_attr", "values['T']"),
    "no function": (lambda g: gds.operate("m.pb", 5), "operate", "edit"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(name: str) -> None:
    call, function, argument = WRONG[name]
    found = small()
    before = graphs.written(found)
    with pytest.raises(TypeError) as caught:
        call(found)
    error = caught.value
    assert isinstance(error, gds.GdsurgeonError) and error.code == "bad-type"
    assert (error.facts["function"], error.facts["argument"]) == (function, argument)
    assert error.function == function and str(error).startswith(function)
    assert graphs.written(found) == before


@pytest.mark.parametrize("name", [name for name in gds.__all__ if inspect.isfunction(getattr(gds, name))])
def test_every_function_names_itself(name: str) -> None:
    with pytest.raises(gds.GdsurgeonError) as caught:
        getattr(gds, name)(no_such_argument=1)
    assert caught.value.facts["function"] == name


def test_paths_as_objects(tmp_path: Path) -> None:
    model = tmp_path / "model.pb"
    model.write_bytes(graphs.written(small()))
    gds.operate(model, lambda g: gds.rename(g, {"x": "a"}), out=tmp_path / "out.pb", level="none")
    assert "a" in gds.load(tmp_path / "out.pb")
    gds.operate_convert(gds.ConvertRequest(model, tmp_path / "model.pbtxt"))
    assert gds.validate(tmp_path / "model.pbtxt", level="structure").loaded == ""
    assert gds.check_ops(model, "tflite").found is not None


def test_the_page_of_the_library_lists_every_public_name_once() -> None:
    page = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
    table = page[page.index("## All functions") : page.index("## From tf.contrib")]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    edits = [e.function for e in COMMANDS.values() if HOMES.get(e.function, "").startswith("edits.")]
    assert sorted([*edits, *(name for cell in cells for name in re.findall(r"`(\w+)`", cell))]) == sorted(gds.__all__)
    renamed = [
        e.function for name, e in COMMANDS.items() if e.function in edits and e.function != name.replace("-", "_")
    ]
    assert re.findall(r"`gds\.(\w+)`", table) == renamed
    assert [name for name in dir(gds) if not name.startswith("__")] == sorted(gds.__all__)
