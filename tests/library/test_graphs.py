"""A graph in a notebook: Python's protocols, protection against accidents, and graphs after an error or interrupt."""

from __future__ import annotations

import ast
import copy
import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.desk import check_raised
from support.expecting import account
from support.graphs import FLOAT, const, graph, identity, node, placeholder, typed
from support.paths import FIXTURES
from support.shipped import Shipped

import gdsurgeon as gds
from gdsurgeon.errors import EditError, NothingToDo
from gdsurgeon.graph.attrs import int_value

CLASSIFIER = FIXTURES / "classifier.pb"


def small() -> gds.Graph:
    return graph(placeholder("x", shape=(2,)), const("k", [1.0, 2.0]), typed("Mul", "y", "x", "k"), identity("z", "y"))


def test_protocols() -> None:
    found = small()
    assert (len(found), [node.name for node in found], list(gds.Graph.names(found))) == (4, [*"xkyz"], [*"xkyz"])
    assert ("x" in found, found["x"] in found, "w" in found, 5 in found, small()["x"] in found) == (
        True, True, False, False, False,
    )  # fmt: skip
    assert found._ipython_key_completions_() == [*"xkyz"]
    assert bool(graph()) and len(graph()) == 0
    assert set(gds.__all__) <= set(dir(gds))


def outcomes(tmp_path: Path) -> list[object]:
    found = gds.load(CLASSIFIER)
    result = gds.simplify(found)
    feeds = {"image": np.zeros((50, 64, 64, 3), np.float32)}
    outcome = gds.operate(CLASSIFIER, gds.simplify, out=tmp_path / "o.pb", level="structure", feeds=feeds)
    everything = gds.select_nodes(found, gds.Selection(exclude="no such name"))
    selected, shapes = everything[0], gds.infer_shapes(found)
    verdict = gds.validate(CLASSIFIER, level="structure")
    applied = gds.apply(gds.load(CLASSIFIER), [gds.simplify])
    return [
        found, selected, selected.outputs, everything, result, outcome, outcome.proof, verdict, applied, shapes,
        gds.signature(found), gds.check(found), gds.diff(gds.load(CLASSIFIER), found), gds.boundary(everything),
        gds.check_ops(CLASSIFIER, "tflite"), outcome.request,
        gds.value_of(gds.load(CLASSIFIER)["MobilenetV2/Conv/weights"]),
    ]  # fmt: skip


def test_what_a_cell_shows_is_short(tmp_path: Path) -> None:
    for shown in outcomes(tmp_path):
        text = repr(shown)
        if not isinstance(shown, (gds.Node, list, type(gds.boundary([])))):
            assert type(pickle.loads(pickle.dumps(shown))) is type(shown)
        assert len(text) < 1500 and "\n" not in text, type(shown)


COPIES: dict[str, Callable[[gds.Graph], gds.Graph]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "method": gds.Graph.copy,
    "pickle": lambda g: pickle.loads(pickle.dumps(g)),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("model", ["functions_tf2.pb", "while_v1.pb", "classifier.pb"])
def test_a_copy_is_independent(name: str, model: str) -> None:
    found = gds.load(FIXTURES / model)
    first = next(iter(found))
    gds.rename(found, {first.name: "renamed_first"})
    added = found.add("added", "Identity", [first.output], attrs={"T": FLOAT})
    found.set_controls(found["added"], [first])
    before = found.to_bytes()
    other = COPIES[name](found)
    assert other.to_bytes() == before
    gds.rename(other, {"added": "other", "renamed_first": "again"})
    other.remove([other["other"]])
    assert (found.to_bytes(), added.name, first.name) == (before, "added", "renamed_first")
    assert "added" in found and "added" not in other and other["again"].op == first.op
    gds.rename(found, {"added": "mine"})
    assert "mine" not in other
    assert (copy.copy(first), copy.deepcopy([first])) == (first, [first])


TRAPS: dict[str, tuple[Callable[[gds.Graph], object], str]] = {
    "the name of a node": (lambda g: setattr(g["x"], "name", "w"), "read-only"),
    "the op of a node": (lambda g: setattr(g["y"], "op", "Add"), "read-only"),
    "the index of a tensor": (lambda g: setattr(g["y"].output, "index", 1), "read-only"),
    "an input that is not there": (lambda g: g.add("c", "Relu", ["w"]), "no-such-node"),
    "an input that is no tensor": (lambda g: g.add("c", "Relu", [3]), "bad-type"),  # type: ignore[list-item]
    "a number as a control input": (lambda g: g.add("c", "Relu", (), [3]), "bad-type"),  # type: ignore[list-item]
    "an attr that is not serialised": (lambda g: g.add("c", "Relu", attrs={"T": 1}), "bad-type"),  # type: ignore[dict-item]
    "a value that is not serialised": (lambda g: g.set_attr(g["y"], "T", [1]), "bad-type"),  # type: ignore[arg-type]
    "a number as an input": (lambda g: g.set_inputs(g["y"], ["x", 3]), "bad-type"),  # type: ignore[list-item]
    "a name for a node": (lambda g: g.set_controls("y", ()), "bad-type"),  # type: ignore[arg-type]
    "a device that is no text": (lambda g: g.set_device(g["y"], 3), "bad-type"),  # type: ignore[arg-type]
    "an op that is no text": (lambda g: g.add("c", 3), "bad-type"),  # type: ignore[arg-type]
    "a key that is no name": (lambda g: g[3], "bad-type"),  # type: ignore[index]
    "a node of another graph": (lambda g: gds.remove(g, [small()["x"]]), "other-graph"),
    "a node that is pickled": (lambda g: pickle.dumps(g["x"]), "not-picklable"),
    "a body that is pickled": (lambda g: pickle.dumps(called()[1].graph), "not-picklable"),
    "a pattern without $": (lambda g: list(gds.matches(g, "Mul(x, k)")), "bad-rule"),
    "a path that is no path": (lambda g: g.save(3), "bad-type"),  # type: ignore[arg-type]
    "an edit of a function that returns nothing": (
        lambda g: gds.in_functions(called()[0], called()[1].name, lambda g: None),  # type: ignore
        "bad-type",
    ),
    "an edit that returns nothing": (lambda g: gds.apply(g, [lambda g: None]), "bad-type"),  # type: ignore
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_a_mistake_leaves_the_graph(name: str) -> None:
    mistake, code = TRAPS[name]
    found = small()
    before = found.to_bytes()
    check_raised(gds.GdsurgeonError, code, lambda: mistake(found))
    assert (found.to_bytes(), found.is_changed, list(found.names())) == (before, False, [*"xkyz"])


def called() -> tuple[gds.Graph, gds.Body]:
    found = gds.load(FIXTURES / "functions_tf2.pb")
    return found, gds.Body(found, next(iter(found.functions)).signature.name)


def test_calls_are_inlined_one_by_one() -> None:
    taken = ["float32"]
    body = graphs.define("f", {"a": FLOAT}, {"o": (FLOAT, "s:y:0")}, node("s", "Neg", ["a"], T=FLOAT))
    calls = [graphs.call(name, "f", ["x"], taken, taken) for name in ("c", "d")]
    found = graph(placeholder("x"), *calls, identity("y", "c"), identity("z", "d"), graphs.library(body))
    result = gds.inline(found, nodes=["c", "x"])
    account(found, result)
    assert list(found.names()) == ["x", "d", "y", "z", "c/s"] and "f" in found.functions


def test_nothing_selected_is_no_reason_to_pass_a_graph_on() -> None:
    """An edit of a plugin that raises NothingToDo passes the model on; to select nothing is a mistake there."""
    for selection in (gds.Selection(ops="Conv"), gds.Selection(regexes="w"), gds.Selection(ops="Mul", exclude=".")):
        with pytest.raises(EditError) as caught:
            gds.select_nodes(small(), selection)
        assert not isinstance(caught.value, NothingToDo)


def test_inputs_by_name() -> None:
    found = small()
    added = found.add("c", "Relu", ["y", "x:0"], ["^z"], attrs={"T": FLOAT})
    assert [read.name for read in added.inputs] == ["y", "x"] and added.controls == (found["z"],)
    assert found.add("d", "Relu", "y", attrs={"T": FLOAT}).inputs == (found["y"].output,)


def broken() -> gds.Graph:
    found = small()
    found.set_attr(found["y"], "T", int_value(3).SerializeToString())
    return found


def mistyped() -> gds.Graph:
    """The node y reads an integer; only a look at the dtypes of its inputs shows it."""
    found = small()
    found.add("i", "Const", attrs={"dtype": graphs.INT32, "value": graphs.tensor(1, graphs.INT32)})
    found.set_inputs(found["y"], [found["x"].output, found["i"].output])
    return found


@pytest.mark.parametrize("make", [broken, mistyped])
def test_only_a_sound_graph_is_saved(make: Callable[[], gds.Graph], tmp_path: Path) -> None:
    found = make()
    with pytest.raises(gds.GdsurgeonError) as caught:
        found.save(tmp_path / "m.pb")
    assert (caught.value.code, caught.value.function) == ("unsound-graph", "Graph.save")
    assert not list(tmp_path.iterdir())
    assert gds.check(found).fault_count
    found.save(tmp_path / "m.pb", check=False)
    assert (tmp_path / "m.pb").read_bytes() == found.to_bytes()


def test_graphs_are_compared_as_they_are() -> None:
    found = gds.load(CLASSIFIER)
    assert gds.diff(gds.load(CLASSIFIER), found).matching is None
    gds.rename(found, {"image": "picture"})
    assert len(gds.diff(gds.load(CLASSIFIER), found).renamed) == 1
    assert gds.diff(found, found.copy()).matching is None
    assert "picture" in gds.picture(found, "dot", depth=1)


def test_a_value_is_an_array() -> None:
    found = graph(const("k", [[1.0, 2.0]]), const("s", [b"a", b""], graphs.STRING), placeholder("x"))
    value = np.asarray(gds.value_of(found["k"]))
    assert (value.dtype, value.shape, value.tolist()) == (np.float32, (1, 2), [[1.0, 2.0]])
    assert np.asarray(gds.value_of(found["s"])).tolist() == [b"a", b""]
    assert np.asarray(gds.value_of(found["k"]), np.float64).dtype == np.float64
    assert gds.value_of(found["x"]) is None


class Interrupt:
    """Raises KeyboardInterrupt at one of the lines of the package that a call runs."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if "gdsurgeon" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt
        return self

    def during(self, call: Callable[[], object]) -> bool:
        """Whether CALL was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            call()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False


INTERRUPTED: dict[str, tuple[str, Callable[[gds.Graph], object]]] = {
    "rename": ("classifier.pb", lambda g: gds.rename(g, patterns={"^": "p/"})),
    "simplify": ("functions_tf2.pb", lambda g: gds.simplify(g)),
    "clone_scope": ("while_v1.pb", lambda g: gds.clone_scope(g, "while", "again")),
    "inline": ("functions_tf2.pb", lambda g: gds.inline(g)),
    "remove": ("control_edges.pb", lambda g: gds.remove(g, gds.Selection(ops="NoOp"), dangling="drop")),
    "strip_weights": ("functions_tf2.pb", lambda g: gds.strip_weights(g)),
}  # fmt: skip


@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupt_leaves_the_graph(name: str) -> None:
    model, edit = INTERRUPTED[name]

    def fresh() -> gds.Graph:
        found = gds.load(FIXTURES / model)
        gds.rename(found, {next(iter(found)).name: "renamed_before"})
        return found

    expected, counting = fresh(), Interrupt(0)
    edit(expected)
    counting.during(lambda: edit(fresh()))
    hits = 0
    for part in range(1, 25):
        found = fresh()
        before = found.to_bytes(), list(found.names())
        at = Interrupt(counting.count * part // 25)
        if at.during(lambda: edit(found)):  # noqa: B023
            hits += 1
            assert (found.to_bytes(), list(found.names())) == before, part
            assert found.functions.is_changed is False
            edit(found)
        assert found.to_bytes() == expected.to_bytes() != before[0]
    assert hits >= 10


@pytest.mark.tensorflow
def test_several_edits_are_proven_together() -> None:
    found = small()
    original = found.copy()
    results = [gds.rename(found, {"y": "w"}), gds.set_device(found, nodes=["w"], device="/cpu:0")]
    state = found.to_bytes()
    results.append(gds.rename(found, {"z": "out"}))
    final = found.to_bytes()
    assert gds.prove(original, found, results).compared
    assert found.to_bytes() == final and found["out"].inputs[0].name == "w"
    assert gds.prove(gds.from_bytes(state), found, results[2]).compared
    for before, some in ((original, results[:2]), (gds.from_bytes(state), results)):
        check_raised(gds.GdsurgeonError, "other-graph", partial(gds.prove, before, found, some))
    found.set_device(found["w"], "")  # no edit says so
    with pytest.raises(gds.GdsurgeonError):
        gds.prove(original, found, results)


@pytest.mark.tensorflow
def test_a_saved_model_is_frozen_as_by_the_command(saved_models: Shipped, tmp_path: Path) -> None:
    path = saved_models.path("resource")
    graph = gds.load(path)
    with pytest.raises(gds.GdsurgeonError) as caught:
        graph.save(tmp_path / "graph.pb")
    assert (caught.value.code, caught.value.facts["kind"]) == ("wrong-format", "SavedModel")
    assert caught.value.hint and not list(tmp_path.iterdir())
    before = graph.copy()
    results = [gds.freeze(graph)]
    results.append(gds.set_device(graph, nodes=gds.Selection(ops="MatMul"), device="/cpu:0"))
    assert gds.prove(before, graph, results).compared
    graph.save(tmp_path / "saved.pb")

    def edit(found: gds.Graph) -> gds.EditResult:
        return gds.freeze(found)

    outcome = gds.operate(path, edit, out=tmp_path / "operated.pb")
    assert outcome.proof.compared and gds.load(outcome.out).serving is None
    together = [edit, lambda g: gds.set_device(g, nodes=gds.Selection(ops="MatMul"), device="/cpu:0")]
    gds.operate(path, together, out=tmp_path / "both.pb", level="structure")
    assert (tmp_path / "both.pb").read_bytes() == (tmp_path / "saved.pb").read_bytes()
    gds.operate(path, lambda g: gds.set_device(g, clear=True), out=tmp_path / "folder", level="structure")


MOST_LINES = 30
WIDTH = 160
"""Characters of a line of a notebook, on average."""

SESSION = """
import copy, gdsurgeon as gds, numpy as np, pathlib, pickle
path = pathlib.Path("classifier.pb")
g = gds.load(path)
g
len(g)
before = g.copy()
gds.signature(g)
gds.check(g)
[node.name for node in g if node.op == "Placeholder"]
"image" in g
g["image"]
g["image"].outputs
g["MobilenetV2/Conv/Conv2D"].inputs
g["MobilenetV2/Conv/Conv2D"].plain_attr("strides")
g.users(g["image"])
gds.select_nodes(g, gds.Selection(ops="Conv2D"))
gds.select_nodes(g, gds.Selection(scopes="MobilenetV2"))
gds.select_nodes(g, gds.Selection(forward="image", exclude="weights"))
gds.boundary(gds.select_nodes(g, gds.Selection(scopes="MobilenetV2/Conv")))
list(gds.matches(g, "Relu6($x)"))[0]
gds.infer_shapes(g)
value = gds.value_of(g["MobilenetV2/Conv/weights"])
value
np.asarray(value).mean() < 1
value.statistics
gds.check_ops(path, "tflite")
renamed = gds.rename(g, {"image": "picture"})
renamed
renamed.intent
renamed.claims
! EditError: gds.rename(g, {"imge": "x"})
! TypeError: gds.rename(g, 5)
! TypeError: gds.rename(g, "image")
! TypeError: gds.rename(g, names={"a": "b"})
! EditError: gds.rename(g, {"picture": "classes"})
! EditError: gds.reroute(g, {"picture": "probabilities"})
! EditError: gds.remove(g, "picture")
! EditError: gds.extract(g, "picture", "nothing")
! EditError: gds.set_shape(g, {"picture": (1, 2)})
! EditError: gds.select_nodes(g, gds.Selection(ops="Conv"))
! EditError: gds.matches(g, "Relu6(x)")
! UsageError: gds.select_nodes(g, gds.Selection(regexes="("))
! EditError: g["imge"]
! EditError: g.add("c4", "Relu", ["imge"])
! TypeError: g.set_attr(g["MobilenetV2/Conv/Conv2D"], "strides", [1, 1, 1, 1])
! AttributeError: setattr(g["picture"], "name", "image")
! TypeError: g.save(None)
! UsageError: gds.prove(g, before, renamed)
! UsageError: gds.operate(path, lambda g: None, out="x.pb", level="none")
simplified = gds.simplify(g)
simplified
moved = gds.set_device(g, nodes=gds.Selection(ops="Conv2D"), device="/cpu:0")
proof = gds.prove(before, g, [renamed, simplified, moved])
proof
gds.diff(before, g)
gds.picture(g, "dot", depth=1).count("->") > 0
page = g._repr_html_()
other = copy.deepcopy(g)
pickle.loads(pickle.dumps(other)).to_bytes() == g.to_bytes()
gds.freeze_input(other, {"picture": np.zeros((1, 64, 64, 3), np.float32)})
ge = gds.graph_editor
ge.get_backward_walk_ops([g["classes"]], control_inputs=True)[:3]
ge.sgv_scope("MobilenetV2/Conv", g)
g.to_graph_def().node[0].name
g.save("edited.pb")
outcome = gds.operate(path, gds.simplify, out="operated.pb", level="structure")
outcome
gds.validate("edited.pb", level="structure")
gds.load("edited.pb").to_bytes() == g.to_bytes()
"""


def lines_of(text: str) -> int:
    """The lines that a notebook needs for TEXT."""
    return sum(1 + len(line) // WIDTH for line in text.splitlines())


@pytest.mark.tensorflow
def test_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classifier.pb").write_bytes(CLASSIFIER.read_bytes())
    names: dict[str, Any] = {}
    cells = SESSION.strip().splitlines()
    assert len(cells) >= 60
    for cell in cells:
        if cell.startswith("! "):
            mistaken(cell[2:], names)
            continue
        if isinstance(ast.parse(cell).body[-1], ast.Expr):
            shown = repr(eval(cell, names))
        else:
            exec(cell, names)
            shown = ""
        printed = capsys.readouterr()
        assert lines_of(shown + printed.out + printed.err) <= MOST_LINES, cell


def mistaken(cell: str, names: dict[str, Any]) -> None:
    """The cell raises an error of the library that names its function, and leaves the graph as it was."""
    kind, code = cell.split(": ", 1)
    graph = names["g"]
    before = graph.to_bytes(), list(graph.names())
    with pytest.raises(gds.GdsurgeonError) as caught:
        eval(code, names)
    error = caught.value
    assert kind in {each.__name__ for each in type(error).__mro__}, f"{cell}: {type(error).__name__}"
    called = ast.parse(code, mode="eval").body
    if isinstance(called, ast.Call) and isinstance(called.func, ast.Attribute):
        assert error.function.rpartition(".")[2] == called.func.attr, cell
        assert str(error).startswith(error.function), cell
    assert lines_of(str(error)) <= MOST_LINES, cell
    assert (graph.to_bytes(), list(graph.names())) == before, cell
