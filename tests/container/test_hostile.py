"""SavedModels that want something else than to be restored, or are no whole ones."""

from __future__ import annotations

import os
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_error, check_raised
from support.graphs import FLOAT, STRING, const, graph_bytes, node
from support.meta_graphs import meta_graph, put, saved_model
from support.renaming import QUICK
from support.system import within_memory

from gdsurgeon.container.load import load, open_model
from gdsurgeon.errors import InputError
from gdsurgeon.wire.fields import encode_len, encode_varint
from gdsurgeon.wire.protos import FunctionDef, GraphDef

RENAME = ("rename", "model", "x=pixels", "-o", "out")


def restoring_also(*records: bytes, op: str) -> Any:
    """A MetaGraph whose restore op has OP run, one of RECORDS."""
    meta = meta_graph()
    more = GraphDef.FromString(b"".join(records))
    meta.graph_def.node.extend(more.node)
    (restore,) = (n for n in meta.graph_def.node if n.name == "save/all")
    restore.input.append(f"^{op}")
    return meta


def writes(path: str, of: str = "") -> list[bytes]:
    """OF is how a body spells an output."""
    return [const("where", path, STRING), const("what", "here", STRING),
            node("evil", "WriteFile", [f"where{of}", f"what{of}"])]  # fmt: skip


def writing(path: str) -> Any:
    return restoring_also(*writes(path), op="evil")


def writing_in_a_function(path: str) -> Any:
    body = FunctionDef()
    body.signature.name = "restore_all"
    body.node_def.extend(graphs.proto(*writes(path, ":output:0"), trailer=b"").node)
    body.control_ret["evil"] = "evil"
    body.signature.control_output.append("evil")
    meta = restoring_also(op="call")
    call = meta.graph_def.node.add(name="call", op="StatefulPartitionedCall")
    call.attr["f"].func.name = "restore_all"
    call.attr["Tin"].list.SetInParent()
    call.attr["Tout"].list.SetInParent()
    meta.graph_def.library.function.append(body)
    return meta


@pytest.mark.tensorflow
@pytest.mark.parametrize("make", [writing, writing_in_a_function])
def test_a_restore_op_that_writes_is_not_run(desk: Desk, make: Any) -> None:
    path = str(desk.folder / "written")
    put(desk.folder / "model", make(path))
    desk.refused(7, "not-restored", *RENAME)
    desk.refused(7, "not-restored", "freeze", "model", "-o", "frozen.pb")
    assert not os.path.exists(path)


@pytest.mark.tensorflow
def test_a_restore_op_reads_nothing_else(desk: Desk) -> None:
    """It can read its checkpoint and its assets."""
    read = const("where", "/etc/passwd", STRING), node("evil", "ReadFile", ["where"])
    put(desk.folder / "model", restoring_also(*read, op="evil"))
    assert "/etc/passwd" in desk.refused(7, "does-not-run", *RENAME).err


def test_a_cut_graph(desk: Desk) -> None:
    put(desk.folder / "model")
    path = desk.folder / "model" / "saved_model.pb"
    whole = path.read_bytes()
    for size in (0, 1, 2, 3, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        desk.refused(3, "wrong-format" if size in (0, 2) else "corrupt", *RENAME, *QUICK, file="model")


def test_a_meta_graph_with_two_graphs(desk: Desk) -> None:
    """A parser of messages would merge them."""
    meta = meta_graph()
    doubled = meta.SerializeToString() + encode_len(2, meta.graph_def.SerializeToString())
    (desk.folder / "model").mkdir()
    desk.put("model/saved_model.pb", encode_len(2, doubled))
    desk.refused(3, "wrong-format", *RENAME, *QUICK, file="model", count=2)
    desk.put("two.meta", doubled)
    desk.refused(3, "wrong-format", "rename", "two.meta", "x=pixels", *QUICK, "-o", "o.meta", file="two.meta", count=2)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_lengths_that_are_claimed(desk: Desk, number: int) -> None:
    (desk.folder / "model").mkdir()
    for claimed in ((1 << 31) - 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1):
        inner = encode_varint(number << 3 | 2) + encode_varint(claimed) + b"abc"
        for data in (inner, encode_len(2, inner)):
            desk.put("model/saved_model.pb", data)
            desk.refused(3, "corrupt", *RENAME, *QUICK, file="model")


def test_what_is_around_the_graph_is_broken(desk: Desk) -> None:
    (desk.folder / "model").mkdir()
    whole = meta_graph()
    desk.put("model/saved_model.pb", encode_len(2, whole.SerializeToString() + encode_len(5, b"\xff\xff")))
    desk.refused(3, "corrupt", *RENAME, *QUICK, file="model")
    whole.collection_def["while_context"].bytes_list.value[0] = b"\xff\xff"
    desk.put("model/saved_model.pb", saved_model(whole).SerializeToString())
    desk.refused(3, "corrupt", *RENAME, *QUICK, key="while_context", expected="WhileContextDef")
    old = meta_graph()
    del old.asset_file_def[:]  # as TensorFlow 1 had it
    old.collection_def["saved_model_assets"].any_list.value[0].value = b"\xff\xff"
    desk.put("model/saved_model.pb", saved_model(old).SerializeToString())
    desk.refused(3, "corrupt", *RENAME, *QUICK, key="saved_model_assets")


def test_names_of_nodes_that_are_not_there(desk: Desk) -> None:
    meta = meta_graph()
    meta.signature_def["serving_default"].outputs["y"].name = "nowhere:0"
    meta.saver_def.restore_op_name = "nobody"
    put(desk.folder / "model", meta)
    for arguments in (RENAME, ("inspect", "model"), ("freeze", "model", "-o", "frozen.pb")):
        before = desk.files()
        ran = desk.run(*arguments, *(() if arguments[0] == "inspect" else QUICK))
        assert ran.code in (0, 3, 4), ran
        assert "internal error" not in ran.err
        assert ran.code == 0 or desk.files() == before


def circle(spelt: str = "{}") -> list[bytes]:
    """Two nodes that read each other; SPELT is how their outputs are."""
    return [node(a, "Identity", [spelt.format(b)], T=FLOAT) for a, b in (("back", "forth"), ("forth", "back"))]


def assigned_in_a_circle() -> Any:
    meta = restoring_also(*circle(), op="back")
    (assign,) = (n for n in meta.graph_def.node if n.name == "save/Assign")
    assign.input[1] = "forth"
    return meta


def assigned_in_a_circle_in_a_function() -> Any:
    meta = restoring_also(op="call")
    body = meta.graph_def.library.function.add()
    body.signature.name = "restore_all"
    body.signature.input_arg.add(name="w", type=101)
    body.node_def.extend(graphs.proto(*circle("{}:output:0"), trailer=b"").node)
    body.node_def.add(name="assign", op="Assign", input=["w", "forth:output:0"]).attr["T"].type = 1
    call = meta.graph_def.node.add(name="call", op="restore_all", input=["w"])
    call.attr["f"].func.name = "restore_all"
    meta.saver_def.restore_op_name = "call"
    return meta


@pytest.mark.parametrize("make", [assigned_in_a_circle, assigned_in_a_circle_in_a_function])
def test_where_a_value_comes_from_is_not_sought_in_circles(desk: Desk, make: Any) -> None:
    put(desk.folder / "model", make())
    desk.refused(3, "unsound-graph", *RENAME, *QUICK, file="model", count=1)


BROKEN_OBJECTS = {
    "function": lambda item: item.nodes.add().function.concrete_functions.append("nowhere"),
    "bare": lambda item: setattr(item.nodes.add().bare_concrete_function, "concrete_function_name", "nowhere"),
    "concrete": lambda item: item.concrete_functions["nowhere"].SetInParent(),
}


@pytest.mark.parametrize("name", BROKEN_OBJECTS)
def test_objects_that_name_a_function_that_is_not_there(desk: Desk, name: str) -> None:
    meta = meta_graph(objects=True)
    BROKEN_OBJECTS[name](meta.object_graph_def)
    put(desk.folder / "model", meta)
    facts = {"file": "model", "function": "nowhere"}
    desk.refused(3, "no-such-function", *RENAME, *QUICK, **facts)
    renaming = ("signature", "model", "--rename", "serving_default=main", "-o", "out")
    desk.refused(3, "no-such-function", *renaming, *QUICK, **facts)
    desk.done("inspect", "model")
    desk.done(*RENAME, *QUICK, "--as-v1")


MUCH = 192 << 20
"""Bytes that a reader may take for some MB of input."""
GRAPH = encode_len(2, graph_bytes(node("n", "NoOp")))
META_GRAPH = encode_len(2, GRAPH)
SMALL = {
    "fields": (META_GRAPH + b"\x78\x01" * 2_000_000, {"code": "too-large", "reason": "fields"}),
    "fields of a MetaGraph": (
        encode_len(2, GRAPH + b"\x78\x01" * 2_000_000),
        {"code": "too-large", "reason": "fields"},
    ),
    "graphs": (META_GRAPH * 90_000, {"code": "wrong-format", "count": 90_000}),
}


@pytest.mark.parametrize("function", [b"", encode_len(1, encode_len(1, b"f"))], ids=["empty", "named"])
def test_very_many_functions(desk: Desk, function: bytes) -> None:
    desk.put("m.pb", graph_bytes(node("n", "NoOp"), trailer=encode_len(2, encode_len(1, function) * 1_000_000)))

    def refused() -> None:
        check_raised(InputError, "too-large", lambda: len(load("m.pb").functions), file="m.pb", reason="functions")

    within_memory(MUCH, refused)


@pytest.mark.parametrize(("data", "wanted"), SMALL.values(), ids=SMALL)
def test_models_of_small_parts(desk: Desk, data: bytes, wanted: dict[str, object]) -> None:
    os.mkdir("model")
    desk.put("model/saved_model.pb", b"\x08\x01" + data)

    def refused() -> None:
        with pytest.raises(InputError) as caught:
            open_model("model")
        facts = dict(wanted)
        check_error(caught.value, str(facts.pop("code")), {"file": "model", **facts})

    within_memory(MUCH, refused)
