"""A session in a notebook: the output of a cell is short, and a mistake is an error that names its function."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

import gdsurgeon as gds

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
    (tmp_path / "classifier.pb").write_bytes((ROOT / "fixtures" / "classifier.pb").read_bytes())
    names: dict[str, Any] = {}
    cells = SESSION.strip().splitlines()
    assert len(cells) >= 60
    for cell in cells:
        if cell.startswith("! "):
            mistaken(cell[2:], names)
            continue
        tree = ast.parse(cell)
        if isinstance(tree.body[-1], ast.Expr):
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
