"""show and view on the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support import graphs, meta_graphs
from support.bundles import Drawn, files_of
from support.desk import Desk, check_said
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    add,
    const,
    func,
    function,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
    relu,
    scalar,
    tensor,
)

from gdsurgeon.cli.main import exit_code
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.graph.constants import raw_value
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.view.content import content_of
from gdsurgeon.view.outline import Outlines
from gdsurgeon.view.tree import folded, table, whole, within
from gdsurgeon.wire.write import read_chunks

HEAD = graph_bytes(
    placeholder("x", FLOAT, (-1, 4)),
    const("w", [1, 0, float("nan"), float("inf"), -2.5, 3, 4, 5], shape=(4, 2)),
    node("h", "MatMul", ["x", "w", "^x"], device="/cpu:0", T=FLOAT, _note="<b>", _class=["loc:@w"]),
    node("s", "Split", ["axis", "h"], T=FLOAT, num_split=2),
    scalar("axis", 1, INT32),
    identity("y", "s:1"),
    add("z", "s:1", "s:1", "^h"),
)


@pytest.fixture
def shown(desk: Desk) -> Any:
    """The lines shown for nodes of HEAD."""
    desk.put("m.pb", HEAD)

    def show(*words: str, model: str = "m.pb", code: int = 0) -> list[str]:
        ran = desk.run("show", model, *words)
        assert ran.code == code, ran.err
        assert "Traceback" not in ran.err and "internal error" not in ran.err
        return ran.out.decode().splitlines()

    return show


def one(desk: Desk, *words: str, model: str = "m.pb") -> Any:
    """The one node that is shown, as JSON."""
    (found,) = json.loads(desk.run("show", model, *words, "--json").out)["nodes"]
    return found


def test_a_node(shown: Any) -> None:
    assert shown("h") == [
        "h  MatMul",
        "  device    /cpu:0",
        "  inputs",
        "    0  a  float32 [?,4]  x  Placeholder",
        "    1  b  float32 [4,2]  w  Const = 1, 0, nan, inf, -2.5, 3, 4, 5",
        "    ^x  Placeholder",
        "  outputs",
        "    0  product  float32 [?,2]  used once",
        "      input 1 of  s  Split",
        "  control outputs",
        "    z  AddV2",
        "  attrs",
        "    T      float32",
        "    _note  '<b>'",
        "  colocated with",
        "    w",
    ]


def test_a_constant(shown: Any) -> None:
    assert shown("w")[-7:] == [
        "  colocated with it",
        "    h  MatMul",
        "  value     float32 [4,2], 8 elements, 32 bytes",
        "    range   -2.5 to 5",
        "    mean    1.75, standard deviation 2.54542",
        "    of them 1 zero, 1 NaN, 1 infinite",
        "    all     1, 0, nan, inf, -2.5, 3, 4, 5",
    ]
    assert shown("w", "--all-values")[-4:] == ["    [[1, 0],", "     [nan, inf],", "     [-2.5, 3],", "     [4, 5]]"]
    assert shown("axis", "--all-values")[-1] == "    1"


def test_json(desk: Desk, shown: Any) -> None:
    found = one(desk, "s:1")
    assert found["inputs"][1] == {
        "tensor": "h", "exists": True, "op": "MatMul", "argument": "value", "dtype": "float32", "shape": [None, 2],
        "elements": None,
    }  # fmt: skip
    assert [(o["index"], o["asked_for"], o["shape"], len(o["readers"])) for o in found["outputs"]] == [
        (0, False, [None, 1], 0), (1, True, [None, 1], 3),
    ]  # fmt: skip
    assert found["attrs"] == {"T": {"kind": "type", "value": "float32"}, "num_split": {"kind": "int", "value": 2}}
    value = one(desk, "w", "--all-values")["value"]
    assert value["values"] == value["first"] == [1.0, 0.0, "NaN", "Infinity", -2.5, 3.0, 4.0, 5.0]
    assert value["statistics"] | {"mean": 0, "std": 0} == {
        "count": 8, "zeros": 1, "nan": 1, "infinite": 1, "minimum": -2.5, "maximum": 5.0, "mean": 0, "std": 0,
    }  # fmt: skip
    assert (one(desk, "h")["control_inputs"], one(desk, "h")["control_outputs"]) == (["x"], ["z"])
    assert (one(desk, "h")["colocated_with"], one(desk, "w")["colocated_with_it"]) == (["w"], ["h"])
    assert one(desk, "h")["device"] == "/cpu:0"


def test_nodes_that_are_selected(shown: Any) -> None:
    heads = [line for line in shown("y", "--op", "Const", "--node", "y") if line[:1] not in (" ", "")]
    assert heads == ["y  Identity", "w  Const", "axis  Const"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "no nodes are named or selected"),
        (["hh"], 4, "has no node 'hh' (7 nodes)"),
        (["axes"], 4, "Did you mean 'axis'?"),
        (["s:2"], 4, "'s:2': node 's' (Split) has 2 outputs"),
        (["a:b:c"], 4, "is not a tensor name"),
        (["--op", "Konst"], 4, "matched 0 nodes"),
        (["h", "--in", "F"], 4, "has no function 'F'"),
        (["h", "--save", "h.npy"], 4, "'h' is 'MatMul', whose value is not in the files"),
        (["w", "axis", "--save", "h.npy"], 4, "expects one node, got 2"),
        (["w", "--save", "m.pb"], 2, "would replace m.pb"),
        (["w", "--save", "m.pb/w.npy"], 6, "m.pb/w.npy"),
        (["w", "--save", "-", "--json"], 2, "both write to standard output"),
    ],
)
def test_what_is_refused(desk: Desk, words: list[str], code: int, said: str) -> None:
    desk.put("m.pb", HEAD)
    before = desk.files()
    ran = desk.run("show", "m.pb", *words)
    check_said(ran, said, code=code)
    assert desk.files() == before and not desk.temporary_files()


def test_many_readers_are_counted(desk: Desk, shown: Any) -> None:
    desk.put("m.pb", graph_bytes(placeholder("x"), *(identity(f"y{i}", "x") for i in range(30))))
    lines = shown("x")
    assert sum(line.startswith("      input 0 of") for line in lines) == 20 and "      and 10 more" in lines
    assert [reader["node"] for reader in one(desk, "x")["outputs"][0]["readers"]] == [f"y{i}" for i in range(30)]


def test_names_are_data(desk: Desk, shown: Any) -> None:
    name = "a\x1b[31m\n<b>"
    odd = node(name, "Identity", ["x"], device="\x07", T=FLOAT, **{"_\t": "\x1b"})
    desk.put("m.pb", graph_bytes(placeholder("x"), odd, identity("y", name)))
    for words in ((name,), ("x",), ("y",)):
        text = desk.run("show", "m.pb", *words)
        assert text.code == 3
        assert not set(text.out.decode()) & set("\x1b\x07\t") and text.out.count(b"\n\x3c") == 0
    assert "a\\x1b[31m\\n<b>  Identity" in shown(name, code=3)
    assert one(desk, name)["name"] == name


def test_small_constants_are_told_with_who_reads_them(desk: Desk, shown: Any) -> None:
    texts = node("t", "Const", dtype=graphs.STRING, value=tensor(["a\n", "b" * 70], graphs.STRING))
    desk.put("m.pb", graph_bytes(
        scalar("f", 0.1), const("nine", range(9), INT32), const("none", []), const("long", [1e-10] * 8), texts,
        node("y", "Whatever", ["f", "nine", "none", "long", "t"]),
    ))  # fmt: skip
    assert shown("y")[3:8] == [
        "    0  float32 []   f     Const = 0.1",
        "    1  int32 [9]    nine  Const",
        "    2  float32 [0]  none  Const",
        "    3  float32 [8]  long  Const = 1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10, ...",
        "    4  string [2]   t     Const = 'a\\n', ...",
    ]
    found = [read["elements"] for read in one(desk, "y")["inputs"]]
    assert found == [[0.1], None, [], [1e-10] * 8, ["a\n", "b" * 70]]


def test_in_a_function(desk: Desk, shown: Any) -> None:
    inner = function("F", scalar("k", 3), node("y", "Mul", ["x", "k:output:0"], T=FLOAT))
    records = [placeholder("x"), node("c", "F", ["x"]), identity("out", "c")]
    desk.put("m.pb", graph_bytes(*records, trailer=library(inner) + graphs.VERSIONS))
    assert "  calls     F, 2 nodes" in shown("c")
    assert one(desk, "c")["functions"] == [{"name": "F", "nodes": 2}]
    assert shown("x", "out", "--in", "F")[0] == "x  Placeholder  (an argument of the function)"
    assert "out  Identity  (a result of the function)" in shown("out", "--in", "F")
    assert shown("k", "--in", "F")[-1] == "    all     3"


def test_a_function_that_is_not_there(desk: Desk, shown: Any) -> None:
    desk.put("m.pb", graph_bytes(placeholder("x"), node("c", "PartitionedCall", ["x"], Tin=graphs.dtypes(FLOAT),
                                                        Tout=graphs.dtypes(FLOAT), f=func("gone"))))  # fmt: skip
    assert "  calls     gone, which the library does not have" in shown("c", code=3)


def test_long_lists_are_wrapped_and_callers_have_lines_of_their_own(desk: Desk, shown: Any) -> None:
    kinds = graphs.dtypes(*[FLOAT] * 12)
    desk.put("m.pb", graph_bytes(placeholder("x"), node("y", "Whatever", ["x"], kinds=kinds, label="a, b" * 30)))
    assert shown("y")[-3:] == [
        "    kinds  [float32,float32,float32,float32,float32,float32,float32,float32,",
        "           float32,float32,float32,float32]",
        "    label  'a, ba, ba, ba, ba, ba, ba, ba, ba, ba, ba, ba, ba, ba, ba, b...'",
    ]
    meta_graphs.put(desk.folder / "sm", values=False)
    lines = shown("y", model="sm")
    assert lines[lines.index("      called  ragged/r/0") + 1] == "      called  serving_default/y"
    assert shown("w", model="sm")[-1].endswith("name the checkpoint with --checkpoint")
    desk.put("v.pb", graph_bytes(node("v", "VariableV2", dtype=FLOAT, shape=(2,))))
    assert shown("v", model="v.pb")[-1] == "  no value  the file has no value of this variable"


def test_a_loop(desk: Desk, shown: Any) -> None:
    desk.put("m.pb", graphs.counting_loop().bytes())
    lines = shown("merge", "switch:1")
    assert "    1  inputs[1]  int32     next   NextIteration" in lines
    assert any("<- selected" in line for line in lines)


@pytest.mark.parametrize(
    ("records", "word", "lines"),
    [
        (
            [identity("y", "gone")],
            "y",
            ["  broken    node 'y' reads 'gone', but there is no node 'gone'",
             "    0  input  gone  does not exist"],
        ),
        ([placeholder("x"), identity("y", "x:3")], "y", ["    0  input  x:3  does not exist"]),
        ([placeholder("x"), identity("y", "x:3")], "x", ["    3  does not exist  used once"]),
        ([identity("y", "a:b:c")], "y", ["    0  a:b:c  does not exist"]),
        ([placeholder("x"), identity("y", "x", "^no")], "y", ["    ^no  does not exist"]),
        ([identity("a", "b"), identity("b", "a")], "a", ["    0  input  float32  b  Identity"]),
        ([placeholder("x"), node("k", "Const", dtype=FLOAT)], "k", ["  no value  the value of 'k' cannot be read: its attr 'value' is missing or corrupt"]),  # noqa: E501
        ([placeholder("x"), node("y", "Whatever", ["x", "x"])], "y", ["    1  float32  x  Placeholder"]),
    ],
)  # fmt: skip
def test_a_broken_graph(desk: Desk, records: list[bytes], word: str, lines: list[str]) -> None:
    desk.put("m.pb", graph_bytes(*records))
    ran = desk.run("show", "m.pb", word)
    assert ran.code == (0 if b"Whatever" in b"".join(records) else 3)
    assert "Traceback" not in ran.err and "internal error" not in ran.err
    shown = ran.out.decode().splitlines()
    assert [line for line in lines if line not in shown] == [], ran.out.decode()


def test_a_broken_graph_as_json_and_nothing_saved(desk: Desk) -> None:
    desk.put("m.pb", graph_bytes(scalar("k", 1), identity("y", "gone")))
    ran = desk.run("show", "m.pb", "y", "--json")
    found = json.loads(ran.out)
    assert ran.code == 3 and found["fault_count"] == 1 and found["nodes"][0]["faults"] == found["faults"]
    assert desk.run("show", "m.pb", "k", "--save", "k.npy").code == 3
    assert "k.npy" not in desk.files()


def test_a_value_that_is_saved(desk: Desk) -> None:
    desk.put("m.pb", HEAD)
    desk.put("w.npy", b"earlier")
    desk.done("show", "m.pb", "w", "--save", "w.npy")
    expected = np.array([1, 0, np.nan, np.inf, -2.5, 3, 4, 5], np.float32).reshape(4, 2)
    np.testing.assert_equal(np.load(desk.folder / "w.npy"), expected)
    out = desk.run("show", "m.pb", "w", "--save", "-").out
    np.testing.assert_equal(np.load(io.BytesIO(out)), expected)


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e5m2", "int4", "qint8", "quint16", "complex64", "bool", "float16"]
)
def test_every_type_that_is_saved_freezes_and_sets(desk: Desk, name: str) -> None:
    dtype = NUMBERS[name]
    kind, zeros, data = graphs.dtype(dtype), bytes(2 * dtype.size), (b"\1" + bytes(6) + b"\1") * 2
    data = data[: 2 * dtype.size]
    for path, content in (("m.pb", zeros), ("n.pb", data)):
        value = raw_value(dtype, (2,), content).SerializeToString()
        desk.put(path, graph_bytes(node("k", "Const", dtype=kind, value=value), identity("y", "k", kind=kind)))
    desk.done("show", "n.pb", "k", "--save", "k.npy")
    desk.done("freeze-input", "m.pb", "k=@k.npy", "-o", "o.pb", "--validate", "structure")
    assert one(desk, "k", model="o.pb")["value"] == one(desk, "k", model="n.pb")["value"]
    drawn = Drawn("k", dtype, (2,), zeros, ((None, 0),))
    for path, content in files_of([drawn], "ckpt").items():
        desk.put(str(path), content)
    desk.done("checkpoint", "ckpt", "--set", "k=@k.npy", "-o", "two")
    with open_checkpoint(str(desk.folder / "two")) as found:
        assert read_chunks(found.stretch("k").chunks) == data


def test_words_of_another_size_are_refused(desk: Desk) -> None:
    kind = graphs.dtype(NUMBERS["bfloat16"])
    value = raw_value(NUMBERS["bfloat16"], (2,), bytes(4)).SerializeToString()
    desk.put("m.pb", graph_bytes(node("k", "Const", dtype=kind, value=value), const("f", [1, 2])))
    np.save(desk.folder / "k.npy", np.zeros(2, "V4"))
    for name in ("k", "f"):
        assert desk.run("freeze-input", "m.pb", f"{name}=@k.npy", "-o", "o.pb", "--validate", "structure").code == 4


def test_a_variable_of_a_saved_model(desk: Desk) -> None:
    folder: Path = meta_graphs.put(desk.folder / "sm")
    found = one(desk, "w", model="sm")
    assert found["value"]["first"] == [1.5, 2.5]
    assert one(desk, "serving_default/y", model="sm")["outputs"][0]["called"] == ["ragged/r/0", "serving_default/y"]
    assert one(desk, "serving_default/y", model="sm")["outputs"][0]["asked_for"]
    desk.done("show", "sm", "w", "--save", "w.npy")
    np.save(desk.folder / "v.npy", np.load(desk.folder / "w.npy") * 2)
    prefix = str(folder / "variables" / "variables")
    desk.done("checkpoint", prefix, "--set", "net/w=@v.npy", "-o", "two")
    assert one(desk, "w", "--checkpoint", "two", model="sm")["value"]["first"] == [3.0, 5.0]


def test_a_variable_without_a_checkpoint_and_one_that_the_checkpoint_lacks(desk: Desk) -> None:
    meta_graphs.put(desk.folder / "sm", values=False)
    assert one(desk, "w", model="sm")["value"] is None
    ran = desk.run("show", "sm", "w", "--save", "w.npy")
    check_said(ran, "'w' is 'VariableV2', whose value is not in the files", code=4)
    meta_graphs.checkpoint(desk.folder / "sm", "variables/variables", key="other")
    ran = desk.done("show", "sm", "w")
    assert b"has no tensor 'net/w'" in ran.out
    assert one(desk, "w", model="sm")["value"]["error"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


View = Callable[..., Ran]


def dense(scope: str, source: str, op: str = "Relu") -> list[bytes]:
    return [
        const(f"{scope}/w", [0.5] * 16, shape=[4, 4]),
        node(f"{scope}/MatMul", "MatMul", [source, f"{scope}/w"], T=FLOAT),
        node(f"{scope}/Act", op, [f"{scope}/MatMul"], T=FLOAT),
    ]


def chain(*scopes: str) -> list[bytes]:
    records, source = [placeholder("x", shape=(-1, 4))], "x"
    for scope in scopes:
        records += dense(scope, source)
        source = f"{scope}/Act"
    return [*records, node("y", "Softmax", [source], T=FLOAT)]


NET = chain("net/first", "net/block_1", "net/block_2", "net/block_3")


@pytest.fixture
def view(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> View:
    monkeypatch.chdir(tmp_path)

    def run(*options: str, records: list[bytes] | None = None, trailer: bytes = graphs.VERSIONS) -> Ran:
        data = graphs.graph_bytes(*(NET if records is None else records), trailer=trailer)
        (tmp_path / "model.pb").write_bytes(data)
        code = exit_code(["view", "model.pb", *options])
        return Ran(code, *capsys.readouterr())

    return run


def test_a_tree_of_scopes_with_what_is_in_them(view: View) -> None:
    assert [line.split() for line in view().out.splitlines()] == [
        "nodes params FLOPs output".split(),
        "model.pb 14 64 128".split(),
        "├─ x Placeholder 1 f32[?,4]".split(),
        "├─ net 12 64 128 f32[?,4]".split(),
        "│ └─ first .. block_3 x 4 12 64 128 f32[?,4]".split(),
        "│ ├─ MatMul 1 32 f32[?,4]".split(),
        "│ └─ Act Relu 1 f32[?,4]".split(),
        "└─ y Softmax 1 f32[?,4]".split(),
    ]


def test_columns_stand_below_their_heads(view: View) -> None:
    head, *lines = view().out.splitlines()
    for name, numbers in (("nodes", "14 1 12 12 1 1 1"), ("params", "64 64 64"), ("FLOPs", "128 128 128 32")):
        end = head.index(name) + len(name)
        cells = [line[end - 6 : end].split()[-1] for line in lines if line[end - 1 : end].strip()]
        assert " ".join(cells) == numbers
    assert {line.index("f32") for line in lines if "f32" in line} == {head.index("output")}


def labels(text: str) -> list[str]:
    """The first column, without the lines of the tree."""
    return [line.lstrip("│├└─ ").split("   ")[0].rstrip() for line in text.splitlines()[1:]]


def test_neighbours_of_another_structure_are_lines_of_their_own(view: View) -> None:
    records = [*chain("a", "b", "c")[:-1], *dense("d", "c/Act", "Tanh"), *dense("e", "d/Act")]
    assert labels(view("--depth", "1", records=records).out) == ["model.pb", "x  Placeholder", "a .. c x 3", "d", "e"]


@pytest.mark.parametrize(("count", "beside"), [(9, 11), (30, 2)])
def test_many_nodes_in_a_row_are_counted_and_with_a_depth_listed(view: View, count: int, beside: int) -> None:
    """Very many are counted with a depth as well, unless all of them are asked for."""
    names = [f"n{number}" for number in range(count)]
    records = [placeholder("x")]
    records += [node(n, "Neg" if i % 3 else "Relu", [names[i - 1] if i else "x"], T=FLOAT) for i, n in enumerate(names)]
    counted = f"Placeholder, Neg x {count * 2 // 3}, Relu x {count // 3}"
    assert labels(view(records=records).out) == ["model.pb", counted]
    assert len(labels(view("--depth", "1", records=records).out)) == beside
    assert len(labels(view("--depth", "1", "-v", records=records).out)) == count + 2


@pytest.mark.parametrize("path", ["save", "net/save_1"])
def test_a_saver_is_one_line(view: View, path: str) -> None:
    records = [*NET, const(f"{path}/Const", ["m"], STRING, ())]
    for kind in ("names", "slices"):
        records.append(const(f"{path}/{kind}", ["net/first/w"], STRING))
    reads = [f"{path}/Const", f"{path}/names", f"{path}/slices"]
    records.append(node(f"{path}/RestoreV2", "RestoreV2", reads, dtypes=graphs.dtypes(FLOAT)))
    records += [node(f"{path}/Identity_{i}", "Identity", [f"{path}/RestoreV2"], T=FLOAT) for i in range(4)]
    for options in ((), ("--depth", "3")):
        assert path.rpartition("/")[2] in labels(view(*options, records=records).out)
        assert "Identity" not in view(*options, records=records).out
    assert "Identity_3" in view("--depth", "3", "-v", records=records).out
    assert "Identity_3" in view("--depth", "3", "--json", records=records).out
    assert "Identity_3" in view("--depth", "3", "--scope", path, records=records).out


def test_of_very_many_neighbours_the_first_are_shown_and_with_a_depth_all(view: View) -> None:
    records = [placeholder("x", shape=(-1, 4))]
    for number in range(100):
        records += dense(f"s{number}", "x", "Tanh" if number % 2 else "Relu")
    shown = labels(view(records=records).out)
    assert len(shown) == 46 and shown[-1] == "... 57 more"
    assert len(labels(view("--depth", "1", records=records).out)) == 102
    for number in range(100, 300):
        records += dense(f"s{number}", "x", "Tanh" if number % 2 else "Relu")
    assert [len(labels(view("--depth", "1", *more, records=records).out)) for more in ((), ("-v",))] == [201, 302]


def test_no_line_is_wider_than_eighty_columns(view: View) -> None:
    long = "a_very_long_name_of_a_scope_that_somebody_has_made/and_another_one_in_it_that_is_no_shorter"
    out = view("--depth", "4", records=chain(long, long + "_2")).out
    assert max(map(len, out.splitlines())) <= 80
    assert " x 2" in out and ".." in out


def test_a_scope_alone(view: View) -> None:
    assert labels(view("--scope", "net/block_2").out) == ["net/block_2", "MatMul", "Act  Relu"]
    ran = view("--scope", "net/blok_2")
    assert (ran.code, ran.out) == (4, "")
    assert "scope 'net/blok_2' does not exist. Did you mean 'net/block_2'?" in ran.err


def test_json_has_all_that_is_seen(view: View) -> None:
    found = json.loads(view("--json", "--depth", "2").out)
    assert {key: found[key] for key in ("scope", "nodes", "parameters", "flops")} == {
        "scope": "", "nodes": 14, "parameters": 64, "flops": 128,
    }  # fmt: skip
    assert [item.get("scope", item.get("name")) for item in found["items"]] == ["x", "net", "y"]
    blocks = found["items"][1]["items"]
    assert [block["scope"] for block in blocks] == ["net/first", "net/block_1", "net/block_2", "net/block_3"]
    assert len({block["structure"] for block in blocks}) == 1
    assert "items" not in blocks[0]
    assert found["items"][2] == {
        "name": "y", "op": "Softmax", "nodes": 1, "parameters": 0, "flops": 0, "output": "float32 [?,4]",
        "faults": 0,
    }  # fmt: skip


def test_a_function_opens_below_its_call(view: View) -> None:
    body = function("dense", const("w", [0.5] * 16, shape=[4, 4]), node("y", "MatMul", ["x", "w:output:0"], T=FLOAT))
    dtypes = graphs.dtypes(FLOAT)
    call = node("c", "PartitionedCall", ["x"], Tin=dtypes, Tout=dtypes, f=func("dense"))
    records = [placeholder("x", shape=(-1, 4)), call]
    out = view("--depth", "2", records=records, trailer=library(body)).out
    inside = ["x  Placeholder", "y  MatMul", "out  Identity"]
    assert labels(out) == ["model.pb", "x  Placeholder", "c  PartitionedCall", *inside]
    of_function = labels(view("--in", "dense", records=records, trailer=library(body)).out)
    assert of_function[0] == "the function dense of model.pb"


def test_gradients_lie_apart_or_beside_what_they_are_of(view: View) -> None:
    records = [*NET, node("gradients/net/block_1/Act_grad/ReluGrad", "Neg", ["y"], T=FLOAT)]
    records += [node("gradients/Fill", "Neg", ["y"], T=FLOAT)]
    apart = labels(view("--depth", "1", records=records).out)
    assert apart == ["model.pb", "x  Placeholder", "net", "y  Softmax", "gradients"]
    beside = labels(view("--depth", "3", "--gradients", "together", records=records).out)
    assert "gradients  Neg" in beside and "Act_grad  Neg" in beside


@pytest.mark.parametrize(
    "options, text",
    [
        (["-o", "picture.png"], "-o picture.png: expected the suffix .html, .svg"),
        (["-o", "-"], "-o -: expected the suffix .html, .svg"),
        (["-o", "x.html", "--depth", "2"], "an HTML page shows the whole model"),
        (["-o", "x.svg", "--json"], "--json prints the tree"),
        (["--depth", "0"], "0 is not in the range"),
        (["--format", "gif"], "'gif' is not one of"),
    ],
)
def test_mistakes(view: View, tmp_path: Path, options: list[str], text: str) -> None:
    ran = view(*options)
    assert ran.code == 2
    assert text in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pb"]


@pytest.mark.parametrize(("width", "count"), [(20, 1), (40, 2), (80, 4), (200, 4)])
def test_numbers_are_whole_on_every_terminal_or_not_there(width: int, count: int) -> None:
    """Without UTF-8 the tree is ASCII; colours are sequences."""
    graph = graphs.graph(*NET)
    outlines = Outlines(graph, content_of(graph, "model.pb"))
    head = whole(outlines)
    head.items = within(outlines, head, 2)
    lines = folded(head.items or ())
    rows = table(head, lines, width=width, colour=False, ascii_only=False).splitlines()
    assert rows[0].split() == ["nodes", "params", "FLOPs", "output"][:count]
    assert max(map(len, rows)) <= min(width, 80)  # numbers are next to their names
    for name, *numbers in (row.split() for row in rows[1:]):
        assert not any("\u2026" in number for number in numbers[-1:]), name
    assert table(head, lines, width=width, colour=False, ascii_only=True).isascii()
    assert "\x1b[" in table(head, lines, width=width, colour=True, ascii_only=True)


def test_a_picture_does_not_replace_its_model(view: View, tmp_path: Path) -> None:
    (tmp_path / "link.svg").symlink_to("model.pb")
    for options in (["-o", "model.pb", "--format", "svg"], ["-o", "link.svg"]):
        ran = view(*options)
        assert ran.code == 2
        assert "would replace model.pb, which is an input" in ran.err
        assert (tmp_path / "model.pb").read_bytes() == graphs.graph_bytes(*NET)


def test_a_broken_graph_is_shown_and_its_faults_are_told(view: View, tmp_path: Path) -> None:
    """A picture of it replaces nothing."""
    broken = [placeholder("x"), relu("r", "gone")]
    ran = view(records=broken)
    assert ran.code == 3 and "r  Relu" in ran.out and "gone" in ran.err
    assert view("-o", "x.svg", records=broken).code == 3
    assert 'class="n f"' in (tmp_path / "x.svg").read_text()
    (tmp_path / "old.html").write_text("earlier")
    assert view("-o", "old.html", records=broken).code == 3
    assert (tmp_path / "old.html").read_text() == "earlier"


def test_faults_are_marked_where_they_are(view: View, tmp_path: Path) -> None:
    records = [placeholder("x"), relu("a/good", "x"), relu("a/bad", "gone"), relu("b/p", "b/q"), relu("b/q", "a/bad:1")]
    rows = view("--depth", "2", records=records).out.splitlines()[2:]
    shown = {row.strip("│├└─ ").split()[0]: row for row in rows}
    assert {name for name, row in shown.items() if "broken" in row} == {"a", "b", "bad", "q"}
    assert "1 broken" in shown["a"]
    items = json.loads(view("--json", records=records).out)["items"]
    assert {item.get("scope", item.get("name")): item["faults"] for item in items} == {"x": 0, "a": 1, "b": 1}
    assert view("-o", "x.svg", "--depth", "1", records=records).code == 3
    assert (tmp_path / "x.svg").read_text().count("1 broken") == 2
    cycle = [placeholder("x"), relu("p", "q"), relu("q", "p"), relu("r", "x"), relu("s", "q")]
    out = json.loads(view("--json", "--depth", "1", records=cycle).out)
    assert [item["name"] for item in out["items"] if item["faults"]] == ["p", "q"]


def test_names_are_escaped(view: View) -> None:
    out = view(records=[placeholder("x"), node("a\x1b[31m/b", "Relu", ["x"], T=FLOAT)]).out
    assert "\x1b" not in out
    assert r"a\x1b[31m" in out


def test_an_empty_graph_has_nothing_in_it(view: View) -> None:
    ran = view(records=[])
    assert (ran.code, labels(ran.out)) == (3, ["model.pb"])
    assert "has no nodes" in ran.err
    assert view("-o", "x.svg", records=[]).code == 3
