"""What around a graph names a node follows it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.desk import Desk
from support.graphs import FLOAT, INT32, node, placeholder, scalar
from support.meta_graphs import meta_graph, put, read, saved_model
from support.renaming import QUICK

from gdsurgeon.wire.protos import message

OTHERS = (
    "x",
    "w",
    "w/initial",
    "w/Assign",
    "w/read",
    "y",
    "unused",
    "asset",
    "init",
    "save/file",
    "save/all",
    "save/saved",
)


def plainly(model: Any) -> Any:
    """MODEL with its collections of messages in a form that does not depend on how maps are ordered in bytes."""
    for meta in model.meta_graphs:
        for key, kind in (("while_context", "WhileContextDef"), ("cond_context", "CondContextDef")):
            if key in meta.collection_def:
                entries = meta.collection_def[key].bytes_list.value
                parsed = [message(f"tensorflow.{kind}").FromString(entry) for entry in entries]
                entries[:] = [entry.SerializeToString(deterministic=True) for entry in parsed]
    return model


@pytest.mark.parametrize("old", OTHERS)
@pytest.mark.parametrize("objects", [False, True])
def test_whatever_names_a_node_follows_it(desk: Desk, old: str, objects: bool) -> None:
    put(desk.folder / "model", meta_graph(objects=objects))
    ran = desk.run("rename", "model", f"{old}=pixels", *QUICK, "-o", "out")
    assert ran.code == 0, ran.err
    wanted = saved_model(meta_graph(lambda name: "pixels" if name == old else name, objects=objects))
    assert plainly(read("out")) == wanted
    assert desk.run("rename", "out", f"pixels={old}", *QUICK, "-o", "back").code == 0
    assert (desk.folder / "back" / "saved_model.pb").read_bytes() == (
        desk.folder / "model" / "saved_model.pb"
    ).read_bytes()


def test_all_names_follow_at_once(desk: Desk) -> None:
    put(desk.folder / "model")
    assert desk.run("rename", "model", "--regex", "^=p/", *QUICK, "-o", "out").code == 0
    assert plainly(read("out")) == saved_model(meta_graph(lambda name: "p/" + name))


def test_of_several_graphs_the_others_stay(desk: Desk) -> None:
    put(desk.folder / "model", meta_graph(tags=["serve", "tpu"]), meta_graph(), meta_graph(tags=["train"]))
    assert desk.run("rename", "model", "x=pixels", "--tags", "serve,tpu", *QUICK, "-o", "out").code == 0
    renamed = meta_graph(lambda name: "pixels" if name == "x" else name, tags=["serve", "tpu"])
    assert plainly(read("out")) == saved_model(renamed, meta_graph(), meta_graph(tags=["train"]))
    assert desk.run("rename", "model", "x=pixels", *QUICK, "-o", "served").code == 0  # the one to serve
    renamed = meta_graph(lambda name: "pixels" if name == "x" else name)
    assert plainly(read("served")) == saved_model(
        meta_graph(tags=["serve", "tpu"]), renamed, meta_graph(tags=["train"])
    )


def test_tags_that_are_not_there(desk: Desk) -> None:
    put(desk.folder / "model", meta_graph(tags=["serve", "tpu"]), meta_graph(tags=["train"]))
    rename = ("rename", "model", "x=pixels", *QUICK, "-o", "out")
    there = ["serve,tpu", "train"]
    desk.refused(3, "no-such-tag", *rename, "--tags", "serve", file="model", name="serve", found=there)
    desk.refused(2, "missing-option", *rename, file="model", option="tags", found=there)
    inspect = ("inspect", "model", "--tags", "train", "--signature", "serving_defalt")
    desk.refused(3, "no-such-signature", *inspect, signature="serving_defalt")


@pytest.mark.parametrize(
    ("gone", "needed"),
    [
        ("x", "y:0"),
        ("w/initial", "w/initial:0"),
        ("asset", "asset:0"),
        ("save/saved", "save/saved:0"),
        ("save/all", "save/all"),
        ("save/file", "save/file:0"),
    ],
)
def test_what_something_needs_cannot_go(desk: Desk, gone: str, needed: str) -> None:
    put(desk.folder / "model")
    readers = {"x": ["y", "unused"], "w/initial": ["w/Assign"], "asset": ["path", "init"],
               "save/file": ["save/SaveV2", "save/saved", "save/RestoreV2", "save/Assign", "save/all"]}  # fmt: skip
    nodes = [word for name in (gone, *readers.get(gone, ())) for word in ("--node", name)]
    arguments = ("remove", "model", *nodes, "--allow-outputs", *QUICK, "-o", "out")
    desk.refused(4, "outside-uses", *arguments, tensor=needed)


def test_members_of_collections_that_go_are_told(desk: Desk) -> None:
    put(desk.folder / "model")
    ran = desk.run("simplify", "model", *QUICK, "-o", "out", "--outputs", "y", "--report", "r.json")
    assert ran.code == 0, ran.err
    (line,) = [line for line in ran.err.splitlines() if "collections" in line]
    assert line.startswith("  removed  from collections: ") and "1 of losses" in line
    lost = json.loads((desk.folder / "r.json").read_text())["edit"]["collections"]
    assert lost["losses"] == 1 and "rates" not in lost and "variables" not in lost
    desk.put("two.gds", b"remove --node unused\nrename x=pixels\n")
    ran = desk.run("apply", "model", "two.gds", *QUICK, "-o", "again", "--report", "r.json")
    assert "  removed  from collections: 1 of losses" in ran.err
    assert json.loads((desk.folder / "r.json").read_text())["steps"][0]["edit"]["collections"] == {"losses": 1}


def test_a_signature_stays_with_the_name_that_another_node_takes(desk: Desk) -> None:
    put(desk.folder / "model")
    desk.put("twice.pb", scalar("two", 2) + post())
    ran = desk.run("add-postprocessing", "model", "twice.pb", *QUICK, "-o", "out")
    assert ran.code == 0, ran.err
    meta = read("out").meta_graphs[0]
    assert meta.signature_def["serving_default"].outputs["y"].name == "y:0"
    served = {node.name: node for node in meta.graph_def.node}
    was = served[served["y"].input[0]]
    assert (was.op, list(was.input), list(served["y"].input)) == ("Mul", ["x", "w/read"], [was.name, "two"])


def post() -> bytes:
    return placeholder("y", FLOAT, (-1, 2)) + node("y_postprocessed", "Mul", ["y", "two"], T=FLOAT)


def test_what_an_input_is_by_default_follows_it(desk: Desk) -> None:
    """A signature says what an input is where a caller does not give it; one that takes another type has none."""
    meta = meta_graph()
    default = meta.signature_def["serving_default"].defaults["x"]
    default.dtype, default.float_val[:] = 1, [2.0, 3.0]
    put(desk.folder / "model", meta)

    def defaults(folder: str) -> dict[str, Any]:
        return dict(read(folder).meta_graphs[0].signature_def["serving_default"].defaults)

    renaming = ("signature", "model", "--rename", "serving_default/x=seen", *QUICK, "-o", "renamed")
    assert desk.run(*renaming).code == 0
    assert defaults("renamed") == {"seen": default}
    adding = ("signature", "model", "--outputs", "serving_default:again=y", *QUICK, "-o", "added")
    assert desk.run(*adding).code == 0
    assert defaults("added") == {"x": default}
    desk.put("pre.pb", placeholder("raw", INT32) + node("used", "Cast", ["raw"], SrcT=INT32, DstT=FLOAT))
    edit = ("add-preprocessing", "model", "pre.pb", "--map", "x=raw,used", *QUICK, "-o", "cast")
    ran = desk.run(*edit)
    assert ran.code == 0, ran.err
    assert defaults("cast") == {}
