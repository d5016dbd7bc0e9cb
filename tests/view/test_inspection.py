"""What inspect shows of the fixtures, to the letter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.desk import Desk
from support.graphs import FLOAT, STRING, const, function, graph_bytes, identity, node, placeholder, relu, shape_proto
from support.paths import FIXTURES

from gdsurgeon.cli.main import exit_code
from gdsurgeon.wire.fields import encode_len

TENSORS: dict[str, tuple[list[str], list[str]]] = {
    "classifier.pb": (["image float32 [?,64,64,3]"], ["classes int64 [?]"]),
    "control_edges.pb": (["values float32 [?,4]"], ["total float32 []", "swapped float32 [?,4]"]),
    "decode_jpeg.pb": (["image string []"], ["image_preprocessed float32 [1,64,64,3]"]),
    "functions_tf2.pb": (["x float32 [?,4]"], ["Identity float32"]),
    "label_lookup.pb": (["classes int64 [?]"], ["classes_postprocessed string [?]"]),
    "tiny.pbtxt": (["x float32 [?,3]"], ["y float32 [?,3]"]),
    "while_v1.pb": (["n int32 []"], ["while/Exit int32", "sum int32"]),
}
"""The inputs and outputs of each fixture."""
OPS = {
    "functions_tf2.pb": "Greater, NoOp, Placeholder, StatefulPartitionedCall, StatelessIf, Sum, While, Const x 6, "
    "Identity x 3",
    "tiny.pbtxt": "AddV2, Mul, Placeholder, Const x 2",
}


def shown_of(tensors: list[dict[str, Any]]) -> list[str]:
    """TENSORS of the JSON, as the text has them."""
    shapes = (
        "" if t["shape"] is None else f" [{','.join('?' if d is None else str(d) for d in t['shape'])}]"
        for t in tensors
    )
    return [f"{t['name']} {t['dtype']}{shape}" for t, shape in zip(tensors, shapes, strict=True)]


@pytest.mark.parametrize("name", sorted(file.name for file in FIXTURES.iterdir()))
def test_the_json(name: str, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["inspect", name, "--json"]) == 0
    captured = capsys.readouterr()
    found: dict[str, Any] = json.loads(captured.out)
    assert list(found) == [
        "file", "format", "bytes", "nodes", "producer", "functions", "variables", "inputs", "outputs", "ops", "faults",
        "fault_count", "warnings",
    ]  # fmt: skip
    assert (shown_of(found["inputs"]), shown_of(found["outputs"])) == TENSORS[name]
    assert {tensor["op"] for tensor in found["inputs"]} == {"Placeholder"}
    assert {tensor["op"] for tensor in found["outputs"]} <= found["ops"].keys()
    assert found["file"] == name
    assert found["format"] == ("text" if name.endswith(".pbtxt") else "binary")
    assert found["bytes"] == (fixtures / name).stat().st_size
    assert found["nodes"] == sum(found["ops"].values())
    assert len(found["functions"]) == (6 if name == "functions_tf2.pb" else 0)
    assert (found["variables"], found["faults"], found["fault_count"], found["warnings"]) == (0, [], 0, [])
    assert captured.err == ""


@pytest.mark.parametrize("name", TENSORS)
def test_the_text(name: str, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["inspect", name]) == 0
    captured = capsys.readouterr()
    head, *lines, ops = captured.out.splitlines()
    inputs, outputs = TENSORS[name]
    assert head.startswith(f"{name}  ") and captured.err == ""
    assert [" ".join(line.split()) for line in lines] == ["inputs", *inputs, "outputs", *outputs]
    assert ops.startswith("  ops       ") and ops.split(maxsplit=1)[1] == OPS.get(name, ops.split(maxsplit=1)[1])


BROKEN = """\
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "Neg" input: "nobody" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { } } } }
versions { producer: 2474 }
"""


def test_a_broken_graph_is_shown_and_its_faults_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.pbtxt").write_text(BROKEN)
    assert exit_code(["inspect", "broken.pbtxt"]) == 3
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[1:6] == ["  inputs", "    x  float32", "  outputs", "    y  float32", "    v  float32 []"]
    assert lines[6] == "  1 variable, whose values are not in the file"
    assert captured.err.startswith("Error: broken.pbtxt is broken: ") and "'nobody'" in captured.err

    assert exit_code(["inspect", "broken.pbtxt", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["fault_count"] == 1 == len(found["faults"]) and "'nobody'" in found["faults"][0]
    assert found["variables"] == 1
    assert exit_code(["inspect", "broken.pbtxt", "--ops", "--sizes", "--functions", "--strings"]) == 3
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-3:] == ["  constants  none", "  functions  none", "  strings  none"]
    assert captured.err.startswith("Error: broken.pbtxt is broken: ")


def test_long_lists_are_cut_and_savers_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    variables = [f"v{number}" for number in range(3)]
    records = [node("x", "Placeholder", dtype=FLOAT)]
    records += [node(name, "Identity", ["x"], T=FLOAT) for name in (f"y{number}" for number in range(40))]
    records += [node(name, "VariableV2", dtype=FLOAT, shape=()) for name in variables]
    records += [node(f"{name}/Assign", "Assign", [name, "x"], T=FLOAT) for name in variables]
    records += [const("save/a", ["m"], STRING, ()), const("save/b", ["v0"], STRING), const("save/c", [""], STRING)]
    records.append(node("save/RestoreV2", "RestoreV2", ["save/a", "save/b", "save/c"], dtypes=graphs.dtypes(FLOAT)))
    records += [node(f"save/Assign_{n}", "Assign", [n, "save/RestoreV2"], T=FLOAT) for n in variables]
    Path("m.pb").write_bytes(graphs.graph_bytes(*records))

    def outputs(*more: str) -> list[str]:
        assert exit_code(["inspect", "m.pb", *more]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line.strip() for line in lines[lines.index("  outputs") + 1 :] if line.startswith("    ")]

    found = outputs()
    assert [line.split()[0] for line in found[:30]] == [f"y{number}" for number in range(30)]
    assert [line.split()[:2] for line in found[30:]] == [["and", "10"], ["save/...", "3"], ["3", "assignments"]]
    assert len(outputs("-v")) == 46


# What is shown when it is asked for.


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines that inspect prints after those that it always prints, up to the ops."""
    assert exit_code(["inspect", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines: list[str] = captured.out.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("  ops")]
    return lines[starts[0] :]


def test_ops_that_are_not_known(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = graphs.library(function("f", node("y", "Identity", ["x"], T=graphs.FLOAT)))
    data = graphs.graph_bytes(placeholder("x"), node("u", "My\x1bOp"), node("c", "f", ["x"]), trailer=library)
    Path("odd.pb").write_bytes(data)
    assert exit_code(["inspect", "odd.pb", "--ops"]) == 0
    captured = capsys.readouterr()
    known = [line for line in captured.out.splitlines() if "unknown in" in line or "a function" in line]
    assert len(known) == 2
    assert known[0].startswith("    My\\x1bOp         1             0  unknown in TensorFlow 2.")
    assert known[1] == "    f                1             0  a function"
    assert "\x1b" not in captured.out + captured.err


def test_sizes(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "classifier.pb", "--sizes", "--top", "3")[1:] == [
        "  constants  146, 154.1 KiB",
        "    16.1 KiB  float32  [1,1,32,128]  MobilenetV2/Conv_1/weights",
        "    12.1 KiB  float32  [1,1,96,32]   MobilenetV2/expanded_conv_8/project/weights",
        "     9.1 KiB  float32  [1,1,96,24]   MobilenetV2/expanded_conv_7/project/weights",
        "    and 143 more, 116.8 KiB",
    ]
    lines = shown(capsys, "functions_tf2.pb", "--sizes", "--top", "5")
    assert lines[-2] == "     55 bytes  int32    []     while/add_1/y  (in function while_body_frozen_82)"
    assert len(shown(capsys, "classifier.pb", "--sizes")) == 13


def test_sizes_of_none_and_of_one_value_for_many(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.pb").write_bytes(graphs.graph_bytes(placeholder("x")))
    assert shown(capsys, "none.pb", "--sizes")[1:] == ["  constants  none"]
    value = encode_len(8, b"\x08\x01" + encode_len(2, shape_proto([1000, 1000])) + b"\x2d\x00\x00\x80\x3f")
    Path("ones.pb").write_bytes(graphs.graph_bytes(node("ones", "Const", dtype=graphs.FLOAT, value=value)))
    assert shown(capsys, "ones.pb", "--sizes")[-1] == "    60 bytes  float32  [1000,1000]  ones  (expands to 3.8 MiB)"


def test_functions(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "functions_tf2.pb", "--functions")[1:]
    assert lines[:9] == [
        "  functions  6",
        "    __inference_dense_frozen_84(x: float32, matmul_readvariableop_resource: float32) -> (identity: float32)",
        "      7 nodes, stateful",
        "      called by node StatefulPartitionedCall",
        "      called by function while_body_frozen_82",
        "      calls __inference_scale_36",
        "    __inference_scale_36(x: float32) -> (identity: float32)",
        "      3 nodes",
        "      called by functions __inference_dense_frozen_84, cond_true_62",
    ]
    assert shown(capsys, "classifier.pb", "--functions")[1:] == ["  functions  none"]


def test_functions_that_nobody_uses(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    functions = (function(name, identity("y", "x")) for name in ("f", "f_grad"))
    library = graphs.library(*functions, gradients={"f": "f_grad"})
    Path("unused.pb").write_bytes(graphs.graph_bytes(placeholder("x"), trailer=library))
    assert shown(capsys, "unused.pb", "--functions")[1:] == [
        "  functions  2, 2 unused",
        "    f(x: float32) -> (out: float32)",
        "      1 node, unused",
        "    f_grad(x: float32) -> (out: float32)",
        "      1 node, unused",
        "      gradient of f",
    ]


def test_strings(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = graphs.graph_bytes(
        const("labels", [f"label {i}" for i in range(10)], STRING),
        const("data/files", ["/home/bob/a.jpg", "/home/bob/b.jpg"], STRING),
        const("blobs", [b"\x89PNG\x00\xff", b"\xff\xfe"], STRING),
        node("table", "HashTableV2", key_dtype=STRING, value_dtype=graphs.INT64, shared_name="t_/tmp/vocab.txt_-2"),
        const("evil", ["a\nb \u202e", "x" * 500], STRING),
    )
    Path("strings.pb").write_bytes(data)
    assert shown(capsys, "strings.pb", "--strings")[1:] == [
        "  paths  3 in 2 places",
        "    data/files          '/home/bob/a.jpg', '/home/bob/b.jpg'",
        "    table  shared_name  't_/tmp/vocab.txt_-2'",
        "  texts  12 in 2 places",
        "    labels  'label 0', 'label 1', 'label 2' and 7 more",
        f"    evil    'a\\nb \\u202e', '{'x' * 100}...'",
        "  binary  2 strings of binary data: blobs",
    ]
    lines = shown(capsys, "strings.pb", "--strings", "--top", "1")
    assert lines[3] == lines[6] == "    and 1 more place (--top)"
    assert shown(capsys, "classifier.pb", "--strings")[1:] == ["  strings  none"]


def test_names_are_escaped(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("evil.pb").write_bytes(graphs.graph_bytes(const("a\x1b[2J\nb", [1.0]), const("c\x9bd", ["x y"], STRING)))
    assert (
        exit_code(["inspect", "evil.pb", "--sizes", "--strings", "--ops", "--functions"]) == 3
    )  # such names are illegal
    captured = capsys.readouterr()
    assert "a\\x1b[2J\\nb" in captured.out and "c\\x9bd" in captured.out
    assert not {"\x1b", "\x9b"} & set(captured.out + captured.err)


def test_the_json_has_what_was_asked_for(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = graphs.graph_bytes(
        const("files", ["/home/bob/a.jpg", "b", b"\xff"], STRING),
        identity("y", "files", kind=STRING),
        node("u", "MyOp"),
    )
    Path("all.pb").write_bytes(data)
    everything = ["--ops", "--sizes", "--functions", "--strings"]
    assert exit_code(["inspect", "all.pb", "--json", *everything]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(found)[-4:] == ["op_details", "constants", "function_details", "strings"]
    assert found["op_details"][0] == {
        "op": "Const", "nodes": 1, "nodes_in_functions": 0, "known": True, "function": False
    }  # fmt: skip
    assert [op["op"] for op in found["op_details"] if not op["known"]] == ["MyOp"]
    (constant,) = found["constants"]["largest"]
    expected = {"name": "files", "dtype": "string", "shape": [3], "function": None}
    assert found["constants"]["bytes"] == constant["bytes"] == len(data) - len(graphs.graph_bytes(
        identity("y", "files", kind=STRING), node("u", "MyOp")
    ))  # fmt: skip
    assert constant.items() >= expected.items()
    assert found["function_details"] == []
    assert found["strings"] == [{
        "node": "files", "function": None, "attr": "value", "count": 2, "paths": ["/home/bob/a.jpg"], "texts": ["b"],
        "binary": 1, "unread_bytes": 0,
    }]  # fmt: skip

    assert exit_code(["inspect", "functions_tf2.pb", "--json", "--functions"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found)[-1] == "function_details" and "constants" not in found and "strings" not in found
    assert [f["name"] for f in found["function_details"]] == found["functions"]
    assert found["function_details"][3] == {
        "name": "cond_true_62",
        "inputs": [{"name": "cond_while", "type": "float32"}],
        "outputs": [{"name": "cond_identity", "type": "float32"}],
        "nodes": 2,
        "stateful": False,
        "used": True,
        "calls": ["__inference_scale_36"],
        "called_by_nodes": ["cond"],
        "called_by_functions": [],
        "gradient_of": [],
    }


def test_top_belongs_to_something(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["inspect", "tiny.pbtxt", "--top", "3"]) == 2
    assert "--top needs --sizes or --strings" in capsys.readouterr().err
    assert exit_code(["inspect", "tiny.pbtxt", "--sizes", "--top", "0"]) == 2


def test_an_answer_without_parts_has_at_most_60_lines_of_160_characters(desk: Desk) -> None:
    scopes = [f"{'scope/' * 30}{i}" for i in range(200)]
    savers = [
        record
        for i in range(20)
        for record in (const(f"save{i}/Const", b"model", STRING, ()), node(f"save{i}/s", "SaveV2", [f"save{i}/Const"]))
    ]
    variables = [node(f"{name}/v", "VariableV2", dtype=FLOAT, shape=(2,)) for name in scopes]
    records = [*variables, *savers, *(relu(f"{name}/y", f"{name}/x") for name in scopes)]
    inputs = [placeholder(f"{name}/x") for name in scopes]
    desk.put("m.pb", graph_bytes(*inputs, *records, *(node(f"n{i}", f"{'Op' * 20}{i}") for i in range(30))))
    brief, whole = (desk.run("inspect", "m.pb", *words).out.decode().splitlines() for words in ((), ("-v",)))
    assert len(brief) <= 60 and max(map(len, brief)) <= 160 and len(whole) > 400


@pytest.mark.parametrize(
    "words",
    [
        "inspect a.pb --sizes --ops", "show a.pb {name}/y {name}/c", "diff a.pb b.pb", "view a.pb",
        "view a.pb --depth 9", "check-ops a.pb --for opencv", "check-ops a.pb --for tf1.4", "repair --check a.pb",
    ],
)  # fmt: skip
def test_the_lines_of_an_answer_have_at_most_160_characters(words: str, desk: Desk) -> None:
    name, op = "scope/" * 30 + "n" * 20, "Op" * 60
    y, c = relu(f"{name}/y", f"{name}/x"), const(f"{name}/c", [1.0] * 30, FLOAT, (30,))
    nodes = [placeholder(f"{name}/x"), c, node(f"{name}/op", op, [f"{name}/y"])]
    desk.put("a.pb", graph_bytes(*nodes[:2], y, nodes[2]))
    desk.put("b.pb", graph_bytes(*nodes, identity(f"{name}/z", f"{name}/x"), identity(f"{name}/y", f"{name}/z")))
    ran = desk.run(*words.format(name=name).split())
    lines = ran.out.decode().splitlines()
    assert lines and max(map(len, lines)) <= 160
