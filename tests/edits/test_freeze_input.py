"""freeze-input: inputs of a graph become constants."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support import graphs
from support.desk import Desk, Ran
from support.expecting import expect
from support.freezing import constant_of, not_frozen, value_of
from support.graph_editor_running import float32, run
from support.graphs import BOOL, FLOAT, INT32, Builder, add, const, graph, identity, node, placeholder, scalar
from support.operating import operated, refused

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.runtime.client import Worker

# -- the node ------------------------------------------------------------------------------------------------


def dropout() -> list[bytes]:
    return [
        placeholder("x", FLOAT, (-1, 2)), placeholder("keep_prob", FLOAT, ()), placeholder("train", BOOL, ()),
        node("scaled", "Mul", ["x", "keep_prob"], T=FLOAT), node("n", "NoOp", ["^train"]),
        identity("y", "scaled", "^n"), identity("t", "train", kind=BOOL),
    ]  # fmt: skip


@pytest.mark.tensorflow
def test_placeholders_become_constants_of_their_names_where_they_were(worker: Worker) -> None:
    found = graph(*dropout())
    frozen = [
        constant_of("keep_prob", FLOAT, (), float_val=[0.5]),
        constant_of("train", BOOL, (), bool_val=[False]),
    ]
    result = expect(
        found,
        lambda g: freeze_input(g, {"keep_prob": "0.5", "train": "false"}),
        [dropout()[0], *frozen, *dropout()[3:]],
        command="freeze-input keep_prob=0.5 train=false",
    )
    assert graphs.names(found) == ["x", "keep_prob", "train", "scaled", "n", "y", "t"]
    wanted = graphs.proto(*dropout())
    got = graphs.parsed(found)
    assert [got.node[i] for i in (0, 3, 4, 5, 6)] == [wanted.node[i] for i in (0, 3, 4, 5, 6)]
    for i, number in ((1, 1), (2, 10)):
        made = got.node[i]
        assert (made.op, made.attr["dtype"].type, sorted(made.attr)) == ("Const", number, ["dtype", "value"])
    assert (value_of(found, "keep_prob"), value_of(found, "train")) == (((), [0.5]), ((), [False]))
    assert result.intent.changed == ["keep_prob", "train"]
    assert result.intent.added == result.intent.removed == result.intent.rewired == []
    (claim,) = result.claims
    assert isinstance(claim, SameGiven)
    assert claim.given == {"keep_prob": "keep_prob", "train": "train"}
    assert sorted(claim.outputs) == [("t", "t"), ("y", "y")]
    assert claim.statement == "edited(x) = original(x, keep_prob := its value, train := its value)"
    assert run(worker, found, "y", "t", fed={"x": float32([[2, 4]])}) == [[[1, 2]], False]


def test_others_keep_their_bytes() -> None:
    found = graph(*dropout())
    before = graphs.bodies(found)
    freeze_input(found, {"train": False})
    after = graphs.bodies(found)
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, True, True, True, True]


def test_attrs_colocations_device_and_control_inputs_stay() -> None:
    found = graph(const("k", [1]), node("p", "Placeholder", ["^k"], dtype=FLOAT, shape=(), device="/cpu:0",
                  _class=["loc:@k"], _user=5, _output_shapes=graphs.encode_len(1, graphs.encode_len(7, b""))),
                  identity("y", "p", _class=["loc:@p"]))  # fmt: skip
    freeze_input(found, {"p": 3})
    got = graphs.parsed(found).node[1]
    assert (got.op, got.device, list(got.input), got.attr["_user"].i) == ("Const", "/cpu:0", ["^k"], 5)
    assert graphs.colocations(found) == {"p": [b"loc:@k"], "y": [b"loc:@p"]}
    assert "shape" not in got.attr
    shapes = got.attr["_output_shapes"].list.shape
    assert not shapes or not shapes[0].dim


def test_a_stale_output_shape_goes() -> None:
    shapes = graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto([-1])))
    found = graph(placeholder("x"), node("p", "Placeholder", dtype=FLOAT, shape=(-1,), _output_shapes=shapes),
                  identity("y", "p"))  # fmt: skip
    freeze_input(found, {"p": "[1, 2, 3]"})
    assert "_output_shapes" not in graphs.attrs(found, "p")


@pytest.mark.tensorflow
def test_a_placeholder_with_a_default(worker: Worker) -> None:
    records = [placeholder("x", FLOAT, (2,)), scalar("one", 1), node("keep", "PlaceholderWithDefault", ["one"],
               dtype=FLOAT, shape=()), node("y", "Mul", ["x", "keep"], T=FLOAT)]  # fmt: skip
    found = graph(*records)
    freeze_input(found, {"keep": "0.5"})
    got = graphs.parsed(found)
    assert [n.name for n in got.node] == ["x", "one", "keep", "y"] or [n.name for n in got.node] == ["x", "keep", "y"]
    assert (graphs.ops(found)["keep"], graphs.inputs(found)["keep"]) == ("Const", [])
    assert check(from_bytes(graphs.written(found))).faults == []
    assert run(worker, found, "y", fed={"x": float32([2, 4])}) == [[1, 2]]


def test_a_computed_default_that_nobody_needs_any_more_is_no_output() -> None:
    """What fed the default alone would be served where nothing was served before."""
    from gdsurgeon.analysis.queries.signature import signature

    found = graph(placeholder("x"), scalar("one", 1), identity("default", "one"),
                  node("keep", "PlaceholderWithDefault", ["default"], dtype=FLOAT, shape=()),
                  add("y", "x", "keep"))  # fmt: skip
    freeze_input(found, {"keep": 0.5})
    assert [o.name for o in signature(from_bytes(graphs.written(found))).outputs] == ["y"]


def test_placeholder_v2() -> None:
    found = graph(node("p", "PlaceholderV2", dtype=INT32, shape=(2,)), identity("y", "p", kind=INT32))
    after = [constant_of("p", INT32, (2,), int_val=[1, 2]), identity("y", "p", kind=INT32)]
    expect(found, lambda g: freeze_input(g, {"p": "[1, 2]"}), after)
    assert (graphs.ops(found)["p"], value_of(found)) == ("Const", ((2,), [1, 2]))
    assert check(from_bytes(graphs.written(found))).faults == []


def test_a_name_with_its_index() -> None:
    found = graph(placeholder("p", INT32, ()), identity("y", "p", kind=INT32))
    after = [constant_of("p", INT32, (), int_val=[4]), identity("y", "p", kind=INT32)]
    expect(found, lambda g: freeze_input(g, {"p:0": 4}), after, command="freeze-input p:0=4")
    assert value_of(found) == ((), [4])


# -- proven --------------------------------------------------------------------------------------------------


def built() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.placeholder("scale", "float32", ())
    m.node("y", "Mul", ["x", "scale"], T="float32")
    return m


@pytest.mark.tensorflow
def test_a_freeze_is_proven(tmp_path: Path) -> None:
    overrides = Overrides({"x": "[1, 2]"})
    outcome = operated(tmp_path, built(), lambda g: freeze_input(g, {"scale": "3"}), overrides=overrides)
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[3, 6]")]
    assert outcome.proof.feeds == {"x": "float32 [2]"}
    assert [i.name for i in outcome.after.inputs] == ["x"]  # type: ignore[union-attr]


@pytest.mark.tensorflow
def test_constants_get_other_values(tmp_path: Path) -> None:
    m = built()
    m.const("w", [1.0, 2.0])
    m.const("shift", 1.0)
    m.node("scaled", "Mul", ["y", "w"], T="float32")
    m.node("z", "Add", ["scaled", "shift"], T="float32")
    outcome = operated(
        tmp_path,
        m,
        lambda g: freeze_input(g, {"w": np.array([3, 4], np.float32), "shift": "10", "scale": "2"}),
        overrides=Overrides({"x": "[1, 2]"}),
    )
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("z", "[16, 26]")]
    assert set(outcome.result.intent.changed) == {"w", "shift", "scale"}
    error = not_frozen(load(str(tmp_path / "out.pb")), {"w": np.ones((1, 2), np.float32)}, "it takes")
    assert "float32 [2]" in error.message


@pytest.mark.tensorflow
def test_all_inputs_may_be_frozen(tmp_path: Path) -> None:
    outcome = operated(tmp_path, built(), lambda g: freeze_input(g, {"scale": "3", "x": "[1, 2]"}))
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[3, 6]")]
    assert outcome.proof.samples == 1


@pytest.mark.tensorflow
def test_a_value_on_which_the_model_does_not_run_is_refused(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", "float32", (4,))
    m.placeholder("size", "int32", (1,))
    m.node("y", "Reshape", ["x", "size"], T="float32", Tshape="int32")
    error = refused(tmp_path, m, lambda g: freeze_input(g, {"size": "[3]"}))
    assert error.exit_code == 5


@pytest.mark.tensorflow
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_no_number_is_proven(value: str, tmp_path: Path) -> None:
    outcome = operated(tmp_path, built(), lambda g: freeze_input(g, {"scale": value}))
    assert [o.after for o in outcome.proof.compared] == ["y"]


@pytest.mark.tensorflow
def test_a_frozen_default_is_proven(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("one", 1.0)
    m.node("scale", "PlaceholderWithDefault", ["one"], dtype="float32", shape=())
    m.node("y", "Mul", ["x", "scale"], T="float32")
    outcome = operated(tmp_path, m, lambda g: freeze_input(g, {"scale": "3"}), overrides=Overrides({"x": "[1, 2]"}))
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[3, 6]")]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "overrides", [Overrides({"scale": "2"}), Overrides(shapes={"scale": ()})], ids=["feed", "shape"]
)
def test_a_feed_for_a_frozen_input_is_refused(overrides: Overrides, tmp_path: Path) -> None:
    """It would be ignored in silence: the result has no such input."""
    with pytest.raises(GdsurgeonError) as caught:
        operated(tmp_path, built(), lambda g: freeze_input(g, {"scale": "3"}), overrides=overrides)
    assert caught.value.exit_code == 2
    assert "'scale'" in caught.value.message


# -- the command line ----------------------------------------------------------------------------------------


def command(desk: Desk, *arguments: str) -> Ran:
    ran = desk.run("freeze-input", "model.pb", *arguments)
    assert "Traceback" not in ran.err and "internal fault" not in ran.err, ran.err
    return ran


@pytest.mark.tensorflow
def test_feed_of_a_frozen_input_is_refused_by_the_command(desk: Desk) -> None:
    built().write(desk.folder / "model.pb")
    ran = command(desk, "scale=3", "--feed", "scale=2", "-o", "out.pb")
    assert ran.code == 2, ran.err
    assert "scale" in ran.err.splitlines()[0] and "frozen" in ran.err
    assert not (desk.folder / "out.pb").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["scale=3"], 0, ""),
        (["scale=@value.npy"], 0, ""),
        (["scale=-3", "x=1,2"], 0, ""),
        (["scale=3", "scale=4"], 2, "two values"),
        (["scale=3", "scale:0=4"], 2, "two values"),
        (["scale"], 2, "is not a pair"),
        (["=3"], 2, "is not a pair"),
        ([], 2, "NAME=VALUE"),
        (["scale="], 4, "is not a number"),
        (["scale=@gone.npy"], 2, "no such file"),
        (["scale=@model.pb"], 2, "no .npy file"),
        (["scale=@empty.npy"], 2, "no .npy file"),
        (["scale=@cut.npy"], 2, "no .npy file"),
        (["scale=@pickled.npy"], 2, "no .npy file"),
        (["scale=@archive.npz"], 2, "no .npy file"),
        (["scale=@."], 2, "is a directory"),
        (["scale=@double.npy"], 4, "float64"),
        (["scal=3"], 4, "Did you mean 'scale'"),
        (["--values", "archive.npz"], 0, ""),
        (["x=1,2", "--values", "archive.npz"], 0, ""),
        (["scale=3", "--values", "archive.npz"], 2, "two values"),
        (["--values", "value.npy"], 2, "no .npz archive"),
        (["--values", "model.pb"], 2, "no .npz archive"),
        (["--values", "gone.npz"], 2, "no such file"),
    ],
)
def test_command(arguments: list[str], code: int, words: str, desk: Desk) -> None:
    built().write(desk.folder / "model.pb")
    np.save(desk.folder / "value.npy", np.float32(3))
    np.save(desk.folder / "double.npy", np.float64(3))
    np.save(desk.folder / "pickled.npy", np.array([{}], object))
    np.savez(desk.folder / "archive.npz", scale=np.float32(3))
    desk.put("empty.npy", b"")
    desk.put("cut.npy", (desk.folder / "value.npy").read_bytes()[:-2])
    before = desk.files()
    ran = command(desk, *arguments, "-o", "out.pb", "--validate", "structure", "--report", "report.json")
    assert ran.code == code, ran.err
    assert words in ran.err
    after = desk.files()
    assert {k: after[k] for k in before} == before
    written = set(after) - set(before)
    assert written == {"out.pb", "report.json"} if not code else written <= {"report.json"}
    if "report.json" in written:
        assert json.loads(after["report.json"])["passed"] == (not code)


def test_a_constant_that_notes_its_shape_gets_another_value() -> None:
    noted = graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto(())))
    found = graphs.graph(
        graphs.node("k", "Const", dtype=graphs.FLOAT, value=graphs.tensor([1], shape=()), _output_shapes=noted)
    )
    result = freeze_input(found, {"k": "2"})
    check_accounted(found, result, found.chunks())
    assert value_of(found, "k") == ((), [2.0])
