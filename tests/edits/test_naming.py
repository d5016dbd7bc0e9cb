"""The name of a tensor in a signature is valid wherever a command expects a tensor or a node.

They write KEY/name, or the name alone for a signature that was selected.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.desk import Desk
from support.graphs import FLOAT, identity, placeholder, scalar, typed
from support.meta_graphs import meta_graph, put, saved_model
from support.renaming import QUICK

from gdsurgeon.container.load import load
from gdsurgeon.edits.extract import extract

X, Y = "serving_default/x", "serving_default/y"

EDITS = (
    ("rename", f"{Y}=q"),
    ("rename", "ragged/r/0=q"),
    ("reroute", f"{Y}={X}", "--only", "unused"),
    ("reroute", f"ragged/r/0={X}", "--only", "unused"),
    ("add-preprocessing", "pre.pb", "--map", f"{X}=raw,out", "--as-v1"),
    ("add-postprocessing", "pre.pb", "--map", f"{Y}=raw,out"),
    ("freeze", "--outputs", Y, "--inputs", X),
    ("freeze-input", f"{X}=[[1, 2]]"),
    ("set-shape", f"{X}=3,2"),
    ("control-edges", "--add", f"{Y}=^{X}"),
    ("import", "pre.pb", "--map", f"{Y}=raw"),
    ("insert", "--at", f"{Y}", "pre.pb"),
    ("remove", "--node", "serving_default/y", "--allow-outputs", "--dangling", "placeholder"),
    ("set-attr", Y, "_note:string=hello"),
    ("set-device", "--assign", "/cpu:0", "--forward", X),
    ("set-attr", "--node", Y, "op=Add"),
    ("fuse-ops", "--between", f"{X}={Y}", "--name", "call", "--expose", Y),
    ("clone-scope", "y", "z", "--map", f"{X}=unused"),
    ("signature", "--inputs", f"new:x={X}", "--outputs", f"new:y={Y}"),
)


@pytest.fixture(autouse=True)
def _put(desk: Desk) -> None:
    put(desk.folder / "model")
    desk.put("pre.pb", placeholder("raw", FLOAT, (-1, 2)) + identity("out", "raw"))


NODES = {X: "x", Y: "y", "ragged/r/0": "y"}
OUTS = ("by_key", "by_name", "by_node")


def spelt(arguments: tuple[str, ...], names: dict[str, str] = NODES) -> tuple[str, ...]:
    """ARGUMENTS with other NAMES for the tensors."""
    for called, name in names.items():
        arguments = tuple(text.replace(called, name) for text in arguments)
    return arguments


SELECTED = ("--signature", "serving_default", "--signature", "ragged")


@pytest.mark.parametrize("arguments", EDITS, ids=lambda arguments: arguments[0])
def test_all_names_are_one(desk: Desk, arguments: tuple[str, ...]) -> None:
    """With the key, without it for a signature that was selected, and by the nodes."""
    meta = meta_graph()
    served = meta.signature_def["serving_default"]
    served.inputs["image"].CopyFrom(served.inputs["x"])
    served.outputs["scores"].CopyFrom(served.outputs["y"])
    desk.put("model/saved_model.pb", saved_model(meta).SerializeToString())
    own = {X: "image", Y: "scores", "ragged/r/0": "r/0"}
    for out, (command, *rest) in zip(OUTS, (arguments, spelt(arguments, own), spelt(arguments)), strict=True):
        desk.done(command, "model", *rest, *SELECTED, *QUICK, "-o", out)
    trees = [{p.removeprefix(out): d for p, d in desk.files().items() if p.startswith(out)} for out in OUTS]
    assert trees[0]
    assert trees[0] == trees[1] == trees[2]


def test_in_the_library(desk: Desk) -> None:
    graphs = [load(str(desk.folder / "model")) for _ in range(2)]
    named, plain = (extract(graph, [x], [y]) for graph, x, y in zip(graphs, (X, "x"), (Y, "y"), strict=True))
    assert named.asked == plain.asked
    assert [node.name for node in graphs[0].nodes()] == [node.name for node in graphs[1].nodes()]


def test_a_node_goes_first(desk: Desk) -> None:
    """The error names both."""
    meta = meta_graph()
    meta.graph_def.node.add(name=Y, op="NoOp")
    desk.put("model/saved_model.pb", saved_model(meta).SerializeToString())
    ran = desk.done("rename", "model", f"{Y}=idle", *QUICK, "-o", "out")
    assert ran.err.count("Warning: ") == 1 and f"'{Y}'" in ran.err
    assert b"idle" in desk.run("select", "out", "--node", "idle").out


def test_near_misses(desk: Desk) -> None:
    for command in (("rename", "model", "serving_defualt/y=q"), ("extract", "model", "--outputs", "serving_default/Y")):
        desk.refused(4, "no-such-node", *command, *QUICK, near=Y)


@pytest.mark.tensorflow
def test_feeds(desk: Desk) -> None:
    np.savez(desk.folder / "feeds.npz", **{X: np.array([[2.0, 3.0]], np.float32)})
    for arguments in (("--feed", f"{X}=[[2, 3]]"), ("--feeds", "feeds.npz"), ("--shape", f"{X}=1,2")):
        desk.done("rename", "model", "y=q", *arguments, "-n")
        ran = desk.done("validate", "model", *arguments, "--outputs", Y, "--samples", "1")
        assert "y" in ran.err
        if arguments[0] != "--shape":
            assert "7.5" in ran.err, ran.err  # 3 x 2.5


@pytest.mark.tensorflow
def test_two_models(desk: Desk) -> None:
    desk.done("rename", "model", "y=q", *QUICK, "-o", "other")
    desk.done("validate", "model", "other", "--map", f"{Y}={Y}", "--outputs", Y)
    twice = typed("Mul", "out", "raw", "two")
    desk.put("double.pb", placeholder("raw", FLOAT, (-1, 2)) + scalar("two", 2) + twice)
    edit = ("add-preprocessing", "model", "double.pb", "--map", f"{X}=raw,out", "--as-v1", "-o", "doubled")
    desk.done(*edit)
    desk.done("validate", "model", "doubled", "--pre", "double.pb", "--pre-map", f"{X}=raw,out")
