"""Graphs that can be read and are broken, or have nodes that cannot run: message and exit code of the command line.

The ids of the cases begin with the row of the table of faults that they come from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import pytest
from support import graphs
from support.desk import Desk, check_said
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    add,
    const,
    dtypes,
    func,
    function,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
)
from support.renaming import EARLIER, QUICK
from support.system import memory

from gdsurgeon.feeds.input_spec import input_spec
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.fields import encode_len

X = placeholder("x", FLOAT, (-1, 4))
Y = identity("y", "x")


def value(kind: bytes, shape: tuple[int, ...], rest: bytes) -> bytes:
    """An AttrValue that holds a tensor of any content."""
    return encode_len(8, b"\x08" + kind[1:] + encode_len(2, graphs.shape_proto(shape)) + rest)


class Run(NamedTuple):
    """An edit of a graph: the graph, the command line behind its name, the exit code and the message."""

    records: list[bytes]
    line: str
    code: int
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = MappingProxyType({})


NO_WAITING = {"TF_ENABLE_ONEDNN_OPTS": "0"}
"""Without its allocator TensorFlow does not wait ten seconds, twice, for memory to become free."""
VARIABLE = node("v", "VarHandleOp", dtype=FLOAT, shape=(4,), shared_name="v")
READ = node("r", "ReadVariableOp", ["v"], dtype=FLOAT)
TABLE = node("t", "HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name="t")
LOOKUP = node("y", "LookupTableFindV2", ["t", "s", "d"], Tin=STRING, Tout=INT64)
NONE = node("d", "Const", dtype=INT64, value=value(INT64, (), encode_len(10, b"\x01")))
UNKNOWN = node("c", "MyOp", ["x"])
FILE = node("y", "ReadFile", ["x"])
SPLAT = node("k", "Const", dtype=FLOAT, value=value(FLOAT, (1 << 34,), encode_len(5, bytes(4))))
PY = {"Tin": dtypes(FLOAT), "Tout": dtypes(FLOAT), "token": "t"}
HUGE = [const("huge", [1 << 17, 1 << 17], INT32), const("one", [1], FLOAT, ())]
BY = [const("k", [1, 2, 3, 4]), const("by", [1 << 30], INT32)]
WIDE = [const("k", [1, 2, 3, 4]), const("by", [1 << 30, 1 << 30], INT32, (1, 2))]
ENDS = [const("from", [0], INT32, ()), const("to", [(1 << 31) - 1], INT32, ()), const("step", [1], INT32, ())]
GIANTS: dict[str, list[bytes]] = {
    "fill": [*HUGE, node("n", "Fill", ["huge", "one"], T=FLOAT, index_type=INT32)],
    "tile": [*BY, node("n", "Tile", ["k", "by"], T=FLOAT, Tmultiples=INT32)],
    "pad": [*WIDE, node("n", "Pad", ["k", "by"], T=FLOAT, Tpaddings=INT32)],
    "splat": [SPLAT, identity("n", "k")],
    "range": [*ENDS, node("r", "Range", ["from", "to", "step"], Tidx=INT32), identity("n", "r", kind=INT32)],
}
"""Constants of a few bytes from which a node n makes some GiB."""
PATH = node("name", "Const", dtype=STRING, value=value(STRING, (), encode_len(8, b"labels.txt")))
CALLED, SLICES = (
    node(name, "Const", dtype=STRING, value=value(STRING, (1,), encode_len(8, text)))
    for name, text in (("names", b"x"), ("slices", b""))
)
DRAWN = [const("d", [4], INT32), node("u", "RandomUniform", ["d"], T=INT32, dtype=FLOAT)]
INSIDE = function("F", const("d", [4], INT32), node("u", "RandomUniform", ["d:output:0"], T=INT32, dtype=FLOAT),
                  node("y", "AddV2", ["x", "u:output:0"], T=FLOAT))  # fmt: skip
STATEFUL = node("y", "StatefulPartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("F"))
REF = node("v", "VariableV2", dtype=FLOAT, shape=(4,))
SWITCHED = [REF, placeholder("p", BOOL, ()), node("s", "RefSwitch", ["v", "p"], T=FLOAT), add("y", "x", "s:1")]


def placed(device: str) -> bytes:
    return node("y", "Identity", ["x"], T=FLOAT, device=device)


JPEG = [placeholder("x", STRING, ()), node("d", "DecodeJpeg", ["x"]), identity("y", "d", kind=graphs.UINT8)]

UNFIT: dict[str, Run] = {
    "34-unknown-op-is-edited": Run([X, Y, UNKNOWN], "rename y=q --validate structure", 0, ("'MyOp'", "'c'")),
    "34-unknown-op-is-not-run": Run([X, Y, UNKNOWN], "rename y=q", 7, ("'MyOp'", "--op-lib")),
    "36-unknown-attr": Run([X, identity("y", "x", new=3)], "rename y=q --validate structure", 0, ("'new'", "no attr")),
    "42-splat-of-64-gib-is-edited": Run([X, Y, SPLAT], "rename y=q --validate structure", 0),
    "42-splat-of-64-gib-is-not-run": Run([X, Y, SPLAT, identity("z", "k")], "rename y=q", 7, ("model.pb", "'k'"),
                                         NO_WAITING),
    "48-variable": Run([X, VARIABLE, READ, add("y", "x", "r")], "rename y=q", 7, ("'v'", "variable")),
    "49-table-without-initialiser": Run(
        [placeholder("s", STRING, (-1,)), TABLE, NONE, LOOKUP], "rename y=q", 7, ("model.pb", "not initialized")),
    "50-python": Run([X, node("p", "PyFunc", ["x"], **PY), identity("y", "p")], "rename y=q", 7,
                     ("'p' (PyFunc)", "outside", "--allow-ops")),
    "50-file": Run([placeholder("x", STRING, ()), FILE], "rename y=q", 7, ("'y' (ReadFile)", "outside")),
    "50-file-beside-an-output-that-runs": Run([X, Y, PATH, node("f", "ReadFile", ["name"])], "rename y=q", 7,
                                              ("f: 'f' (ReadFile)", "outside", "--allow-ops")),
    "50-save-beside-an-output-that-runs": Run(
        [X, Y, PATH, CALLED, SLICES, node("s", "SaveV2", ["name", "names", "slices", "x"], dtypes=dtypes(FLOAT)),
         identity("done", "name", "^s", kind=STRING)], "rename y=q", 0, ("not run  done", "bit-identical")),
    **{f"giant-{op}": Run([X, Y, *giant], "rename y=q --validate structure", 0) for op, giant in GIANTS.items()},
    "random-op-is-drawn": Run([X, *DRAWN, add("y", "x", "u")], "rename y=q", 0, ("u: sampled once", "bit-identical")),
    "random-op-in-a-function": Run(
        [X, STATEFUL, library(INSIDE)], "rename x=q", 0, ("both graphs run with the same seed", "bit-identical")),
    "reference-behind-a-switch": Run([X, *SWITCHED], "rename y=q", 7, ("no output of", "--validate structure")),
    "reference-behind-a-switch-unrun": Run([X, *SWITCHED], "rename y=q --validate structure", 0),
    "device-of-another-machine": Run(
        [X, placed("/job:worker/task:3")], "rename y=q", 7, ("Cannot assign", "set-device --clear")),
    "device-that-is-not-here": Run([X, placed("/device:GPU:0")], "rename y=q --device cpu", 0, ("bit-identical (CPU",)),
    "nan-throughout": Run(
        [X, const("k", [math.nan] * 4), add("y", "x", "k")], "rename y=q", 0, ("q is all NaN", "--feed")),
    "nan-in-places": Run([X, const("k", [math.nan, 1, 2, 3]), add("y", "x", "k")], "rename y=q", 0, ("bit-identical",)),
    "60-corrupt-image": Run(JPEG, "rename y=q --feed x=no-image", 7, ("does not run", "Unknown image file format")),
}  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("run", UNFIT.values(), ids=UNFIT)
def test_what_a_graph_holds_that_an_edit_or_a_run_cannot_take(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    for name, setting in run.environment.items():
        monkeypatch.setenv(name, setting)
    before = {"model.pb": graph_bytes(*run.records), "out.pb": EARLIER}
    desk.restore(before)
    command, *arguments = run.line.split()
    ran = desk.run(command, "model.pb", *arguments, "-o", "out.pb")
    assert ran.code == run.code, ran
    assert all(word in ran.err for word in run.words), ran
    assert "Traceback" not in ran.err and desk.temporary_files() == []
    if run.code:
        check_said(ran)
        assert desk.files() == before
    else:
        assert desk.files()["model.pb"] == before["model.pb"]


@pytest.mark.parametrize("giant", GIANTS.values(), ids=GIANTS)
def test_what_constants_would_make_is_not_made_by_edits_or_questions(desk: Desk, giant: list[bytes]) -> None:
    desk.put("model.pb", graph_bytes(X, Y, *giant))
    for line in (
        "inspect model.pb", "validate model.pb --level structure",
        "extract model.pb --outputs n -o n.pb --validate structure",
        "set-shape model.pb x=2,4 -o x.pb --validate structure",
    ):  # fmt: skip
        assert memory(partial(desk.done, *line.split())) < 64 << 20


def test_what_is_random_stays_so(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(X, *DRAWN, add("y", "x", "u"), node("f", "ReadFile", ["name"]), PATH))
    for arguments in (("freeze-input", "d=4"), ("extract", "--outputs", "y,f"), ("rename", "y=q")):
        desk.done(arguments[0], "model.pb", *arguments[1:], "-o", "out.pb", *QUICK)
        found = from_bytes(bytes(desk.files()["out.pb"]), "out.pb")  # type: ignore[arg-type]
        assert (found["u"].op, found["f"].op) == ("RandomUniform", "ReadFile")


def chain(count: int) -> bytes:
    links = (node(f"n{i}", "Neg", [f"n{i - 1}" if i else "x"], T=FLOAT) for i in range(count))
    return graph_bytes(placeholder("x", FLOAT, (-1, 4)), *links)


def test_row_45_what_is_found_out_of_an_input_takes_as_much_memory_as_the_chain_behind_it_is_long() -> None:
    def most(count: int) -> int:
        x = from_bytes(chain(count))["x"]
        return memory(lambda: input_spec(x))

    most(500)  # what is loaded once is loaded now
    assert most(4000) < 6 * most(1000)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_row_45_a_chain_of_100000_nodes_is_proven(desk: Desk) -> None:
    desk.put("model.pb", chain(100_000))
    desk.done("rename", "model.pb", "n5=q", "-o", "out.pb")


GIVEN, Z = placeholder("x"), identity("z", "y")
LISTS = {
    "texts": ["a"],
    "ints": encode_len(1, b"\x18\x01\x18\x02"),
    "floats": encode_len(1, b"\x25\x00\x00\x80\x3f"),
    "shapes": encode_len(1, encode_len(7, b"")),
    "nothing": b"",
    "a dtype": FLOAT,
}
CALL = node("y", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("F"))
ASTRAY = function("F", node("y", "Identity", ["q:z:9"], T=FLOAT), ret="u:v:0")
UNSOUND: dict[str, list[bytes]] = {
    **{f"IdentityN of {what}": [GIVEN, node("y", "IdentityN", ["x"], T=value), Z] for what, value in LISTS.items()},
    **{f"output of {what}": [GIVEN, node("y", "IdentityN", ["x"], T=value)] for what, value in LISTS.items()},
    "AddN of texts": [GIVEN, node("y", "AddN", ["x"], T=FLOAT, N=["a"]), Z],
    "constant of shapes": [node("x", "Const", dtype=FLOAT, value=LISTS["shapes"]), identity("y", "x"), Z],
    "no name": [GIVEN, node("", "Identity", ["x"], T=FLOAT), identity("y", "x"), Z],
    "caret": [GIVEN, node("^a", "Identity", ["x"], T=FLOAT), identity("y", "^a"), Z],
    "colon": [GIVEN, node("a:0", "Identity", ["x"], T=FLOAT), identity("y", "a:0"), Z],
    "dangling": [GIVEN, identity("y", "gone"), Z],
    "dangling and waiting": [GIVEN, node("y", "AddV2", ["gone", "x"], T=FLOAT), identity("z", "y", "^nobody")],
    "no such output": [GIVEN, identity("y", "x:7"), identity("z", "y:abc")],
    "cycle": [GIVEN, add("y", "x", "z"), Z],
    "two of one name": [GIVEN, identity("y", "x"), identity("y", "x"), Z],
    "no op": [GIVEN, encode_len(1, encode_len(1, b"y") + encode_len(3, b"x")), Z],
    "too few inputs": [GIVEN, node("y", "AddV2", ["x"], T=FLOAT), Z],
    "too many inputs": [GIVEN, node("y", "Identity", ["x", "x"], T=FLOAT), Z],
    "no attr": [GIVEN, node("y", "Identity", ["x"]), Z],
    "function astray": [GIVEN, CALL, Z, library(ASTRAY)],
    "two functions of one name": [GIVEN, CALL, Z, library(ASTRAY, ASTRAY)],
    "function without end": [GIVEN, CALL, Z, library(function("F", node("y", "F", ["x"]), ret="y:out:0"))],
    "no function": [GIVEN, CALL, Z],
}  # fmt: skip
QUESTIONS = ("inspect M --json", "select M --forward x", "select M --between x=z", "validate M --level structure")
EDITS = """
    rename M y=q
    rename M --rename-scope y=q
    rename M y=q --in F
    reroute M y=x
    reroute M --swap y=x
    fuse-ops M --node y --name K
    fuse-ops M --between x=z --name K
    clone-scope M y v
    remove M --node y --bypass
    remove M --forward y --allow-outputs
    remove M --node y --dangling placeholder
    extract M --outputs y
    extract M --outputs z --inputs y
    import M P --map x=z
    control-edges M --add y=x
    set-attr M y _k:int=3
    set-device M --clear
    set-shape M x=1,2
    freeze-input M x=1
    set-attr M y op=Neg
    add-preprocessing M P --map x=p,q
    add-postprocessing M P --map z=p,q
    inline M
""".strip().splitlines()


@pytest.mark.parametrize("records", UNSOUND.values(), ids=UNSOUND)
def test_no_command_fails_by_itself(desk: Desk, records: list[bytes]) -> None:
    desk.put("M", graph_bytes(*records))
    desk.put("P", graph_bytes(placeholder("p"), identity("q", "p")))
    lines = [*QUESTIONS, *(f"{line} --validate none -o out" for line in EDITS)]
    for line in lines:
        ran = desk.run(*line.split())
        assert ran.code in (0, 2, 3, 4), (line, ran)
        assert "internal error" not in ran.err
    assert desk.files()["M"] == graph_bytes(*records)
