"""check-ops: its report about a list of ops, as text and as JSON, and its exit codes."""

from __future__ import annotations

import json

import pytest
from support import graphs
from support.desk import Desk
from support.engines import does, engine_in
from support.graphs import FLOAT, add, const, graph_bytes, node, placeholder
from support.paths import ROOT

OPENCV = ("check-ops", "m.pb", "--for", "opencv")
X = placeholder("x", shape=(-1, 3))
TWICE = graph_bytes(X, add("y", "x", "x"))


def lacking() -> bytes:
    """A graph with ops that engines lack, for which something helps; one of them in a function."""
    body = graphs.library(graphs.function("F", node("y", "AudioSpectrogram", ["x"])))
    call = node("called", "PartitionedCall", ["stopped"], f=graphs.func("F"), Tin=graphs.dtypes(FLOAT),
                Tout=graphs.dtypes(FLOAT))  # fmt: skip
    stopped = node("stopped", "StopGradient", ["x"], T=FLOAT)
    variable = node("v", "VariableV2", dtype=FLOAT, shape=(3,))
    chosen = node("chosen", "SelectV2", ["x", "x", "x"], T=FLOAT)
    return graph_bytes(X, stopped, call, variable, chosen, trailer=body + graphs.VERSIONS)


def test_an_engine_that_has_all(desk: Desk) -> None:
    desk.put("m.pb", TWICE)
    for engine in ("opencv", "openvino", "tfjs", "tflite"):
        ran = desk.run("check-ops", "m.pb", "--for", engine)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.decode().splitlines()[0] == "m.pb  2 nodes, 2 op types" and "has all of them" in ran.out.decode()


def test_what_is_lacking_is_told_with_what_helps(desk: Desk) -> None:
    desk.put("m.pb", lacking())
    ran = desk.run(*OPENCV)
    assert ran.code == 4 and " lacks 5 ops of m.pb" in ran.errors[0] and "--run loads MODEL in the engine" in ran.err
    lines = [line.strip().removeprefix("lacks").strip() for line in ran.out.decode().splitlines()[2:]]
    assert sorted(lines) == [
        "AudioSpectrogram: 1 node, 'y' in function 'F'",
        "PartitionedCall: 1 node, 'called'; gdsurgeon inline replaces calls of functions",
        "SelectV2: 1 node, 'chosen'",
        "StopGradient: 1 node, 'stopped'; gdsurgeon simplify removes it",
        "VariableV2: 1 node, 'v'; gdsurgeon freeze converts variables to constants",
    ]


def test_lines_are_short_unless_all_is_asked_for(desk: Desk) -> None:
    names = [f"{'deep/' * 30}n{number}" for number in range(5)]
    desk.put("m.pb", graph_bytes(X, *(node(name, "StopGradient", ["x"], T=FLOAT) for name in names)))
    shown, whole = (desk.run(*OPENCV, *v).out.decode() for v in ((), ("-v",)))
    assert max(map(len, shown.splitlines())) < 160 and "5 nodes" in shown and "and 4 more" in shown
    assert all(name in whole for name in names[:3])
    first = json.loads(desk.run(*OPENCV, "--json").out)["lacking"][0]["first"]
    assert [place["node"] for place in first] == names


def test_older_forms_and_linked_ops(desk: Desk) -> None:
    desk.put("m.pb", graph_bytes(X, node("y", "BatchMatMulV2", ["x", "x"], T=FLOAT)))
    said = desk.run(*OPENCV).out.decode()
    assert "BatchMatMulV2: 1 node, 'y'; gdsurgeon compat --for 1.13 replaces it by BatchMatMul if possible" in said
    desk.put("m.pb", graph_bytes(X, *STAYING["an output"]))  # an output keeps its name: simplify does not remove it
    assert "StopGradient: 1 node, 'y'\n" in desk.run(*OPENCV).out.decode()
    desk.put("m.pb", graph_bytes(X, node("y", "Erf", ["x"], T=FLOAT)))
    assert "OpsSet.SELECT_TF_OPS" in desk.run("check-ops", "m.pb", "--for", "tflite").out.decode()


def test_json_has_all_of_it(desk: Desk) -> None:
    desk.put("m.pb", lacking())
    ran = desk.run("check-ops", "m.pb", "--for", "tfjs", "--json")
    found = json.loads(ran.out)
    assert ran.code == found["exit_code"] == found["error"]["exit"] == 4 and found["error"]["code"] == "ops-lacking"
    assert (found["engine"], found["nodes"], found["op_types"], found["run"]) == ("tfjs", 6, 6, None)
    by_op = {each["op"]: each for each in found["lacking"]}
    assert by_op["AudioSpectrogram"]["first"] == [{"function": "F", "node": "y"}]
    assert by_op["StopGradient"]["help"] and not by_op["AudioSpectrogram"]["help"] if "StopGradient" in by_op else True
    desk.put("m.pb", TWICE)
    assert json.loads(desk.run("check-ops", "m.pb", "--for", "tfjs", "--json").out)["error"] is None


def test_any_form_of_a_graph(desk: Desk) -> None:
    """Text, standard input, a broken graph (which an engine may take all the same), and a file that is no graph."""
    desk.done("check-ops", str(ROOT / "fixtures" / "tiny.pbtxt"), "--for", "opencv")
    assert desk.run("check-ops", "-", "--for", "opencv", data=TWICE).code == 0
    desk.put("m.pb", graph_bytes(add("y", "gone", "gone")))
    desk.done(*OPENCV)
    desk.refused(3, "unsound-graph", "check-ops", "m.pb", "--for", "tflite", "--run", file="m.pb", count=2)
    desk.put("m.pb", b"no graph at all")
    desk.refused(3, "wrong-format", *OPENCV, file="m.pb")


@pytest.mark.parametrize(
    ("arguments", "code", "option"),
    [
        ((), "missing-option", "--for"),
        (("--for", "torch"), "bad-value", "--for"),
        (("--for", "opencv", "--rtol", "0"), "missing-option", "--rtol"),
        (("--for", "opencv", "--outputs", "y"), "missing-option", "--outputs"),
        (("--for", "opencv", "--run-in", "."), "missing-option", "--run-in"),
        (("--for", "opencv", "--run", "--run-in", "gone.whl"), "no-such-file", "run_in"),
        (("--for", "opencv", "--run", "--device", "gpu"), "bad-value", "--device"),
        (("--for", "opencv", "--run", "--device", "cpu,gpu"), "bad-value", "--device"),
    ],
)
def test_what_contradicts_itself(desk: Desk, arguments: tuple[str, ...], code: str, option: str) -> None:
    desk.put("m.pb", TWICE)
    desk.refused(2, code, "check-ops", "m.pb", *arguments, option=option)
    if option == "run_in":
        reported = desk.answer("check-ops", "m.pb", *arguments, code=2)["error"]["facts"]
        assert reported["option"] == "--run-in"


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    return engine_in(tmp_path_factory.mktemp("engine"))


@pytest.mark.tensorflow
def test_a_run_says_what_an_engine_gives(desk: Desk, engine: str) -> None:
    desk.put("m.pb", TWICE)
    call = (*OPENCV, "--run", "--run-in", engine)
    ran = desk.done(*call)
    assert ran.err == ""
    assert "OpenCV 9.8.7 returns the same as TensorFlow: 1 output, 2 input sets, bit-identical" in ran.out.decode()
    desk.put("m.pb", graph_bytes(X, add("y", "x", "x"), does(run="x + x + 1")))
    ran = desk.run(*call, "--json")
    found = json.loads(ran.out)
    assert ran.code == found["exit_code"] == 5 and found["error"]["code"] == "engine-differs"
    assert "outputs of m.pb in OpenCV 9.8.7 differ from TensorFlow's: y" in ran.err
    (output,) = found["run"]["outputs"]
    assert output["name"] == "y" and output["max_abs_difference"] == pytest.approx(1.0) and not output["agrees"]
    desk.done(*call, "--atol", "1.5", "--outputs", "y")


@pytest.mark.tensorflow
def test_what_is_not_taken_is_told_with_what_may_help(desk: Desk, engine: str) -> None:
    stopped = node("s", "StopGradient", ["x"], T=FLOAT)
    desk.put("m.pb", graph_bytes(X, stopped, add("y", "s", "s"), does(load="fail('no')")))
    call = (*OPENCV, "--run", "--run-in")
    ran = desk.run(*call, engine)
    assert ran.code == 4 and ran.errors == ["Error: OpenCV 9.8.7 does not load m.pb: no"]
    assert "lacks StopGradient" in ran.err and "Hint: gdsurgeon simplify m.pb --for opencv -o OUT" in ran.err
    assert ran.out.decode().splitlines()[-1] == "  refused  OpenCV 9.8.7 does not load m.pb: no"
    assert "gdsurgeon simplify removes it" in ran.out.decode()
    found = json.loads(desk.run(*call, engine, "--json").out)
    assert (found["run"]["engine"], found["run"]["refused"]) == ("OpenCV 9.8.7", "no")
    assert [each["op"] for each in found["lacking"]] == ["StopGradient"] and found["exit_code"] == 4
    ran = desk.refused(2, "wrong-format", *call, str(desk.folder), path=str(desk.folder))
    assert "Hint" not in ran.err


STAYING = {
    "an op that nothing takes away": [node("y", "Erfc", ["x"], T=FLOAT)],
    "an output": [node("y", "StopGradient", ["x"], T=FLOAT)],
    "one of two": [node("s", "StopGradient", ["x"], T=FLOAT), node("y", "Erfc", ["s"], T=FLOAT)],
}
GOING = {
    "an op of constants": [const("c", [1, 2, 3]), node("e", "Erfc", ["c"], T=FLOAT), add("y", "x", "e")],
    "an op of shapes": [node("s", "Shape", ["x"], T=FLOAT, out_type=graphs.INT32),
                        node("f", "Cast", ["s"], SrcT=graphs.INT32, DstT=FLOAT), node("y", "Erfc", ["f"], T=FLOAT)],
    "nothing that is lacking": [add("y", "x", "x")],
}  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("records", [*STAYING.values(), *GOING.values()], ids=[*STAYING, *GOING])
def test_simplify_is_named_where_it_may_help(desk: Desk, engine: str, records: list[bytes]) -> None:
    desk.put("m.pb", graph_bytes(X, *records, does(load="fail('no')")))
    ran = desk.run(*OPENCV, "--run", "--run-in", engine)
    assert ran.code == 4 and ("simplify m.pb" in ran.err) == (records in GOING.values()), ran.err


@pytest.mark.tensorflow
def test_what_tensorflow_does_not_run_cannot_be_compared(desk: Desk, engine: str) -> None:
    """No hint names an option that check-ops has not."""
    desk.put("m.pb", graph_bytes(X, node("y", "NoSuchOp", ["x"], T=FLOAT)))
    ran = desk.run(*OPENCV, "--run", "--run-in", engine)
    assert ran.code == 7 and "Op type not registered 'NoSuchOp'" in ran.err and "--op-lib" in ran.err
    desk.put("m.pb", graph_bytes(X, node("y", "ReadFile", ["name"]), placeholder("name", graphs.STRING, ())))
    again = desk.run(*OPENCV, "--run", "--run-in", engine)
    assert again.code == 7 and "Hint: --allow-ops" in again.err and "--validate" not in ran.err + again.err
