"""The structural check: a small graph for each fault and each warning that it knows."""

from __future__ import annotations

import base64
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from support import graphs
from support.desk import check_error
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    add,
    const,
    dtype,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    node,
    placeholder,
    random_graphs,
    tensor,
    typed,
)
from support.paths import MODELS, ROOT

from gdsurgeon.analysis.checks.check import apply_repairs, check, check_edited, require_sound
from gdsurgeon.analysis.checks.nodes import MOST_FAULTS
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.errors import InputError
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.ops.op_defs import graph_def_version
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import VersionDef

C = const("c", [1, 2])
BODY = node("y", "Identity", ["x"], T=FLOAT)


def raw(kind: bytes, shape: tuple[int, ...], content: bytes = b"", rest: bytes = b"") -> bytes:
    """An AttrValue that holds a tensor with any content."""
    body = b"\x08" + kind[1:] + encode_len(2, graphs.shape_proto(shape)) + rest
    return encode_len(8, body + (encode_len(4, content) if content else b""))


def calls(name: str, *callees: str) -> object:
    types = dtypes(FLOAT)
    body = [node(f"n{i}", "PartitionedCall", ["x"], f=func(c), Tin=types, Tout=types) for i, c in enumerate(callees)]
    return function(name, *body, ret="x")


def call(name: str) -> bytes:
    return node("call", "PartitionedCall", ["c"], f=func(name), Tin=dtypes(FLOAT), Tout=dtypes(FLOAT))


def with_functions(*functions: object, records: tuple[bytes, ...] = (C,)) -> list[bytes]:
    return [*records, library(*functions)]


VALUE: dict[str, object] = {"node": "k", "attr": "value"}


def valued(value: bytes, kind: bytes = FLOAT) -> bytes:
    """A constant `k`."""
    return node("k", "Const", dtype=kind, value=value)


FAULTS: dict[str, tuple[list[bytes], str, dict[str, object]]] = {
    "no nodes": ([b""], "no-nodes", {}),
    "no name": ([C, encode_len(1, encode_len(2, b"NoOp"))], "bad-name", {"node": "", "row": 1}),
    "illegal name": ([C, node("_x", "NoOp")], "bad-name", {"node": "_x", "row": 1}),
    "control characters": ([C, node("a\n\x1b", "NoOp")], "bad-name", {"node": "a\n\x1b", "row": 1}),
    "no op": ([C, encode_len(1, encode_len(1, b"n"))], "missing-op", {"node": "n"}),
    "doubled name": ([C, node("c", "NoOp")], "name-taken", {"node": "c", "rows": [0, 1]}),
    "dangling input": ([const("image", [1]), identity("y", "imgae")],
                       "no-such-node", {"node": "y", "tensor": "imgae", "near": "image"}),
    "dangling control": ([C, node("n", "NoOp", ["^cc"])], "no-such-node", {"node": "n", "tensor": "^cc"}),
    "no such output": ([C, identity("y", "c:7")], "no-such-output", {"node": "y", "tensor": "c:7", "count": 1}),
    "no output at all": ([node("n", "NoOp"), identity("y", "n")],
        "no-such-output", {"node": "y", "tensor": "n:0", "count": 0}),
    "negative output": ([C, identity("y", "c:-1")], "bad-tensor-name", {"node": "y", "tensor": "c:-1"}),
    "output that is no number": ([C, identity("y", "c:abc")], "bad-tensor-name", {"node": "y", "tensor": "c:abc"}),
    "huge output": ([C, identity("y", "c:99999999999")], "bad-tensor-name", {"node": "y", "tensor": "c:99999999999"}),
    "large output": ([node("u", "MyOp"), identity("y", "u:1048575")],
        "no-such-output", {"node": "y", "tensor": "u:1048575"}),
    "empty input": ([C, identity("y", "")], "bad-tensor-name", {"node": "y", "tensor": ""}),
    "caret alone": ([C, node("n", "NoOp", ["^"])], "bad-tensor-name", {"node": "n", "tensor": "^"}),
    "too many inputs": ([C, node("y", "Identity", ["c", "c"], T=FLOAT)],
        "wrong-count", {"node": "y", "expected": 1, "found": 2}),
    "too few inputs": ([C, typed("AddV2", "y", "c")], "wrong-count", {"node": "y", "expected": 2, "found": 1}),
    "too few inputs of many": ([C, node("y", "AddN", ["c"], T=FLOAT, N=2)],
        "wrong-count", {"node": "y", "expected": 2, "found": 1}),
    "cycle": ([add("a", "b", "b"), identity("b", "d"), identity("d", "a")], "cycle", {"nodes": ["d", "b", "a"]}),
    "self loop": ([identity("a", "a")], "cycle", {"nodes": ["a"]}),
    "control cycle": ([node("a", "NoOp", ["^b"]), node("b", "NoOp", ["^a"])], "cycle", {"nodes": ["b", "a"]}),
    "cycle through a merge": ([C, node("m", "Merge", ["c", "i"], T=FLOAT, N=2), identity("i", "m")],
        "cycle", {"nodes": ["i", "m"]}),
    "missing attr": ([C, node("y", "Identity", ["c"])], "no-such-attr", {"node": "y", "attr": "T"}),
    "const without a value": ([node("k", "Const", dtype=FLOAT)], "no-such-attr", {"node": "k", "attr": "value"}),
    "attr of a wrong kind": ([C, identity("y", "c", kind=5)],
        "bad-value", {"node": "y", "attr": "T", "expected": "type", "found": ["int"]}),
    "attr without a value": ([C, identity("y", "c", kind=b"")],
        "bad-value", {"node": "y", "attr": "T", "expected": "type", "found": []}),
    "attr that is a tensor": ([C, identity("y", "c", kind=tensor([1]))],
        "bad-value", {"node": "y", "attr": "T", "expected": "type", "found": "tensor"}),
    "no DataType": ([C, identity("y", "c", kind=dtype(999))], "bad-value", {"node": "y", "attr": "T", "found": 999}),
    "DT_INVALID": ([C, identity("y", "c", kind=dtype(0))], "bad-value", {"node": "y", "attr": "T", "found": 0}),
    "no DataType in a list": ([node("y", "IdentityN", ["c"], T=dtypes(dtype(77))), C],
        "bad-value", {"node": "y", "attr": "T", "found": 77}),
    "negative dimension": ([placeholder("p", FLOAT, (-2,))], "bad-value", {"node": "p", "attr": "shape"}),
    "too many dimensions": ([placeholder("p", FLOAT, (1,) * 255)], "bad-value", {"node": "p", "attr": "shape"}),
    "dtype unlike the tensor": ([node("k", "Const", dtype=INT32, value=tensor([1], FLOAT))],
                                "dtype-mismatch",
                                {"node": "k", "attr": "value", "expected": "int32", "found": "float32"}),
    "tensor without a dtype": ([node("k", "MyOp", value=raw(dtype(0), ()))], "bad-value", VALUE),
    "short content": ([valued(raw(FLOAT, (2,), b"1234"))], "wrong-count", VALUE),
    "long content": ([valued(raw(FLOAT, (), b"12345678"))], "wrong-count", VALUE),
    "too many values": ([valued(raw(FLOAT, (), rest=encode_len(5, bytes(8))))], "wrong-count", VALUE),
    "tensor of a negative dimension": ([valued(raw(FLOAT, (-1,)))], "bad-value", VALUE),
    "tensor of many dimensions": ([valued(raw(FLOAT, (1,) * 255))], "bad-value", VALUE),
    "tensor of too many elements": ([valued(raw(FLOAT, (1 << 40, 1 << 40)))], "bad-value", VALUE),
    "tensor of unknown rank": ([valued(encode_len(8, b"\x08\x01\x12\x02\x18\x01"))], "bad-value", VALUE),
    "tensor behind a number in one attr": (
        [node("k", "Const", dtype=INT32, value=b"\x18\x05" + tensor([1], FLOAT))],
        "dtype-mismatch", {"node": "k", "attr": "value", "expected": "int32", "found": "float32"}),
    "number behind a tensor in one attr": (
        [valued(tensor([1], FLOAT) + b"\x18\x05")],
        "bad-value", {"node": "k", "attr": "value", "expected": "tensor", "found": ["int"]}),
    "corrupt attr": ([node("k", "MyOp", k=b"\x52\x05ab")], "corrupt", {"node": "k", "attr": "k"}),
    "corrupt tensor": ([valued(encode_len(8, b"\x12\x05a"))], "corrupt", VALUE),
    "missing function": ([C, call("F")], "no-such-function", {"node": "call", "name": "F"}),
    "function calls a missing one": (with_functions(calls("F", "G")),
        "no-such-function", {"function": "F", "name": "G"}),
    "function of one name twice": (with_functions(calls("F"), calls("F")), "name-taken", {"function": "F", "count": 2}),
    "function named like an op": (with_functions(calls("AddV2")), "name-taken", {"function": "AddV2"}),
    "function without a name": (with_functions(calls("")), "bad-name", {"function": ""}),
    "recursion": (with_functions(calls("F", "F")), "recursion", {"functions": ["F", "F"]}),
    "mutual recursion": (with_functions(calls("F", "G"), calls("G", "F")), "recursion", {"functions": ["F", "G", "F"]}),
    "recursion of three behind another": (
        with_functions(calls("Z", "F"), calls("F", "G"), calls("G", "H"), calls("H", "F")),
        "recursion", {"functions": ["F", "G", "H", "F"]}),
    "recursion through a body attr": (
        with_functions(
            calls("G"),
            function("F", node("y", "StatelessWhile", ["x"], T=dtypes(FLOAT), cond=func("G"), body=func("F"))),
        ),
        "recursion", {"functions": ["F", "F"]}),
    "ret that names nothing": (with_functions(function("F", BODY, ret="z:y:0")),
        "no-such-tensor", {"function": "F", "output": "out", "tensor": "z:y:0"}),
    "reads nothing inside": (with_functions(function("F", node("y", "Identity", ["q"], T=FLOAT))),
                             "no-such-tensor", {"function": "F", "node": "y", "tensor": "q"}),
    "nodes of one name inside": (with_functions(function("F", BODY, BODY)),
        "name-taken", {"function": "F", "node": "y"}),
    "edge of another dtype": ([const("i", [1], INT32), identity("y", "i")],
                              "dtype-mismatch", {"node": "y", "tensor": "i", "expected": "float32", "found": "int32"}),
    "edge of another dtype, further on": (
        [C, const("i", [0], INT32, ()), node("s", "Split", ["i", "c"], T=FLOAT, num_split=2),
         node("y", "Pack", ["i", "s:1"], T=INT32, N=2)],
        "dtype-mismatch", {"node": "y", "tensor": "s:1", "expected": "int32", "found": "float32"}),
    "value where a reference is wanted": (
        [C, node("y", "Assign", ["c", "c"], T=FLOAT)],
            "dtype-mismatch", {"node": "y", "tensor": "c", "expected": "float32_ref", "found": "float32"}),
    "argument of another dtype": (
        [const("i", [1], INT32), node("y", "F", ["i"]), library(calls("F"))],
            "dtype-mismatch", {"node": "y", "tensor": "i", "expected": "float32", "found": "int32"}),
    "dtype that the op does not take": ([node("p", "Placeholder", dtype=STRING), node("y", "Abs", ["p"], T=STRING)],
                                        "bad-value", {"node": "y", "attr": "T", "found": "string"}),
    "text that the op does not take": (
        [placeholder("q"),
         node("p", "MaxPool", ["q"], T=FLOAT, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="ODD")],
        "bad-value", {"node": "p", "attr": "padding", "found": "ODD"}),
    "text that the op does not take, behind one that it takes": (
        [placeholder("q"), *(
            node(name, "MaxPool", ["q"], T=FLOAT, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding=padding)
            for name, padding in (("p", "SAME"), ("r", "VALI"))
        )],
        "bad-value", {"node": "r", "attr": "padding", "found": "VALI"}),
    "number behind a text in one attr": (
        [node(name, "VarHandleOp", dtype=FLOAT, shape=(1,), shared_name=value)
         for name, value in (("v", b"\x12\x01a"), ("w", b"\x12\x01a\x18\x05"))],
        "bad-value", {"node": "w", "attr": "shared_name", "expected": "string", "found": ["int"]}),
    "number below the least": ([node("y", "AddN", [], T=FLOAT, N=0)],
        "bad-value", {"node": "y", "attr": "N", "expected": 1, "found": 0}),
    "negative number": ([C, node("y", "AddN", ["c"], T=FLOAT, N=-1)],
        "bad-value", {"node": "y", "attr": "N", "expected": 1, "found": -1}),
    "list below the least": ([node("y", "IdentityN", [], T=encode_len(1, b""))],
                             "bad-value", {"node": "y", "attr": "T", "expected": 1, "found": 0}),
    "list of two kinds": ([node("y", "IdentityN", ["c"], T=encode_len(1, b"\x30\x01\x18\x01")), C],
                          "bad-value",
                          {"node": "y", "attr": "T", "expected": "list(type)", "found": ["list(int)", "list(type)"]}),
    "list of another kind": ([C, node("y", "IdentityN", ["c"], T=["a"])],
        "bad-value", {"node": "y", "attr": "T", "expected": "list(type)", "found": ["list(string)"]}),
    "reference as a dtype": ([C, identity("y", "c", kind=dtype(101))],
        "bad-value", {"node": "y", "attr": "T", "dtype": "float32_ref"}),
    "attr of no function": ([C, identity("y", "c", kind=encode_len(9, b"T"))],
        "no-such-function", {"node": "y", "attr": "T"}),
    "shape of too many elements": ([placeholder("p", FLOAT, (1 << 32, 1 << 32))],
        "bad-value", {"node": "p", "attr": "shape"}),
    "wrong texts": ([valued(raw(STRING, (2,), b"\x01\x01a"), STRING)], "corrupt", VALUE),
    "removed op": ([node("p", "PlaceholderV2", dtype=FLOAT, shape=(1,))],
                        "missing-op", {"node": "p", "op": "PlaceholderV2"}),
    "ret of no output": (with_functions(function("F", BODY, ret="y:out:0")),
        "no-such-tensor", {"function": "F", "output": "out", "tensor": "y:out:0"}),
    "ret of no place": (with_functions(function("F", BODY, ret="y:output:1")),
        "no-such-tensor", {"function": "F", "output": "out", "tensor": "y:output:1"}),
    "ret of another dtype": (with_functions(function("F", node("y", "Shape", ["x"], T=FLOAT))),
                             "dtype-mismatch",
        {"function": "F", "output": "out", "tensor": "y:output:0", "expected": "float32", "found": "int32"}),
    "attr missing inside": (with_functions(function("F", node("y", "Identity", ["x"]))),
                            "no-such-attr", {"function": "F", "node": "y", "attr": "T"}),
    "edge of another dtype inside": (
        with_functions(function("F", node("n", "Shape", ["x"], T=FLOAT), node("y", "Neg", ["n:output:0"], T=FLOAT))),
        "dtype-mismatch", {"function": "F", "node": "y", "expected": "float32", "found": "int32"}),
    "too few inputs inside": (with_functions(function("F", node("y", "AddV2", ["x"], T=FLOAT))),
                              "wrong-count", {"function": "F", "node": "y", "expected": 2, "found": 1}),
    "control before data inside": (with_functions(function("F", node("y", "Identity", ["^x", "x"], T=FLOAT))),
                                   "out-of-order", {"function": "F", "node": "y"}),
    "cycle inside": (with_functions(function("F", node("y", "AddV2", ["x", "y:z:0"], T=FLOAT))),
                     "cycle", {"function": "F"}),
    "no device": ([C, identity("y", "c", device="bogus")], "bad-device", {"node": "y", "device": "bogus"}),
    "no device of a call": ([C, node("y", "F", ["c"], device="gpu:0"), library(calls("F"))],
        "bad-device", {"node": "y", "device": "gpu:0"}),
    "no device of a large node": ([const("k", [0.0] * 20_000, device="/gpu")],
        "bad-device", {"node": "k", "device": "/gpu"}),
    "no device inside": (with_functions(function("F", identity("y", "x", device="/job:"))),
                         "bad-device", {"function": "F", "node": "y", "device": "/job:"}),
    "node and input of one name": (with_functions(function("F", BODY, node("x", "NoOp"))),
                                   "name-taken", {"function": "F", "node": "x"}),
    "gradient of nothing": ([C, library(calls("G"), gradients={"F": "G"})], "no-such-function", {"name": "F"}),
}  # fmt: skip


def no_ret() -> object:
    out = function("F", BODY)
    out.ret.clear()  # type: ignore[attr-defined]
    return out


def doubled_argument() -> object:
    out = function("F", BODY)
    out.signature.input_arg.add(name="x", type=1)  # type: ignore[attr-defined]
    return out


def doubled_attr() -> object:
    out = function("F", BODY)
    for _ in range(2):
        out.signature.attr.add(name="T", type="type")  # type: ignore[attr-defined]
    return out


def control_ret() -> object:
    out = function("F", BODY)
    out.control_ret["a"] = "gone"  # type: ignore[attr-defined]
    return out


FAULTS["no ret"] = (with_functions(no_ret()), "no-such-output", {"function": "F", "output": "out"})
FAULTS["doubled argument"] = (with_functions(doubled_argument()), "name-taken", {"function": "F", "input": "x"})
FAULTS["doubled attr"] = (with_functions(doubled_attr()), "name-taken", {"function": "F", "attr": "T"})
FAULTS["control_ret that names nothing"] = (
    with_functions(control_ret()),
    "no-such-node",
    {"function": "F", "output": "a", "node": "gone"},
)


@cache
def idle(count: int) -> bytes:
    """Records of COUNT nodes that do nothing."""
    return b"".join(node(f"more_{i}", "NoOp") for i in range(count))


@pytest.mark.parametrize(("records", "code", "facts"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("beside", [0, 5000])
def test_each_fault(records: list[bytes], code: str, facts: dict[str, object], beside: int) -> None:
    """Alone, and with nodes so many behind it that they are parsed in runs, and in small ones."""
    found = graph(*records, idle(beside if records != [b""] else 0))
    findings = check(found)
    assert findings.fault_count == len(findings.faults) == 1, findings.faults
    check_error(findings.faults[0], code, facts)
    with pytest.MonkeyPatch.context() as patch:
        for limit, size in (("SMALLEST_CHUNK", 256), ("LARGEST_CHUNK", 512), ("AT_ONCE", 16)):
            patch.setattr(f"gdsurgeon.graph.records.{limit}", size)
        in_chunks = check(graph(*records, idle(beside if records != [b""] else 0)))
    assert [fault.as_json() for fault in in_chunks.faults] == [fault.as_json() for fault in findings.faults]
    with pytest.raises(InputError) as caught:
        require_sound(found)
    check_error(caught.value, "unsound-graph", {"count": 1, "faults": [findings.faults[0].as_json()]})


WARNINGS: dict[str, tuple[list[bytes], str, dict[str, object]]] = {
    "unknown op": ([C, node("y", "MyOp", ["c"])], "missing-op", {"op": "MyOp", "node": "y"}),
    "unknown attr": ([C, identity("y", "c", new_attr=5)],
        "no-such-attr", {"node": "y", "attr": "new_attr", "op": "Identity"}),
    "unknown field of the graph": ([C, b"\x7a\x02ab"], "unknown-field", {"field": 15}),
    "field one of another wire type": ([C, b"\x08\x01"], "unknown-field", {"field": 1}),
    "unknown field of a node": (
        [C, encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + b"\x78\x05")],
        "unknown-field", {"node": "n"},
    ),
    "dangling colocation": (
        [C, const("d", [1], _class=["loc:@gone"])], "no-such-node", {"node": "d", "name": "gone"}
    ),
    "control input before data": ([C, node("y", "Identity", ["^c", "c"], T=FLOAT)], "out-of-order", {"node": "y"}),
    "unknown op inside a function": (
        with_functions(function("F", node("y", "MyOp", ["x"]))), "missing-op", {"op": "MyOp", "function": "F"}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("records", "code", "facts"), WARNINGS.values(), ids=WARNINGS)
@pytest.mark.parametrize("beside", [0, 5000])
def test_each_warning_is_no_fault(records: list[bytes], code: str, facts: dict[str, object], beside: int) -> None:
    findings = check(graph(idle(beside), *records))
    assert findings.faults == []
    assert len(findings.warnings) == 1, findings.warnings
    check_error(findings.warnings[0], code, facts)


SOUND: dict[str, list[bytes]] = {
    "eight nodes": graphs.g8(),
    "three additions": graphs.r3(),
    "loop": graphs.loop(),
    "backwards": graphs.g8()[::-1],
    "loop backwards": graphs.loop()[::-1],
    "attr with an underscore": [C, identity("y", "c", _anything=5)],
    "attr with a default left out": [C, node("y", "Print", ["c", "c"], T=FLOAT, U=dtypes(FLOAT))],
    "empty list": [node("q", "FIFOQueueV2", component_types=dtypes(FLOAT), shapes=encode_len(1, b""))],
    "attr of a function": [C, identity("y", "c", _f=encode_len(9, b"T"))],
    "no versions, with the old one": [C, b"\x18\x05"],
    "splat of 64 GiB": [node("k", "Const", dtype=FLOAT, value=raw(FLOAT, (1 << 34,), rest=encode_len(5, bytes(4))))],
    "call": [C, call("F"), library(calls("F", "G"), calls("G"))],
    "diamond of functions": with_functions(calls("fa", "fb", "fc"), calls("fb", "fd"), calls("fc", "fd"), calls("fd")),
    "reference": [node("v", "VariableV2", dtype=FLOAT, shape=(1,)),
                  node("y", "Identity", ["v"], T=dtype(1))],
    "texts": [node("k", "Const", dtype=STRING, value=raw(STRING, (2,), b"\x01\x00a"))],
    "no value for an empty list": [node("q", "FIFOQueueV2", component_types=dtypes(FLOAT), shapes=b"")],
    "attr that each call gives": [C, library(function("F", node("y", "Identity", ["x"], T=encode_len(9, b"T"))))],
    "constant that each call gives": [
        C, library(function("F", node("y", "Const", dtype=FLOAT, value=encode_len(9, b"value"))))
    ],
    "dtype of a constant that each call gives": [
        C, library(function("F", node("y", "Const", dtype=encode_len(9, b"T"), value=tensor([1]))))
    ],
    "attrs of no node": [
        C, identity("y", "c", _dtype=dtype(999), _shape=(-7,), _list=encode_len(1, b"\x30\x01\x18\x01"))
    ],
    "devices": [
        const("c", [1, 2], device="/job:w/task:3/device:GPU:0"), identity("y", "c", device="/gpu:*"),
        node("z", "F", ["c"]),
        library(function("F", identity("y", "x", device="/device:TPU"))),
    ],
    "gradient": [C, library(calls("F"), calls("G"), gradients={"F": "G"})],
}  # fmt: skip


@pytest.mark.parametrize("records", SOUND.values(), ids=SOUND)
def test_what_is_sound_has_no_faults_and_no_warnings(records: list[bytes]) -> None:
    findings = check(graph(*records))
    assert (findings.faults, findings.warnings) == ([], [])
    require_sound(graph(*records))


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures").iterdir()), ids=lambda p: p.name)
def test_the_fixtures_are_sound(path: Path) -> None:
    findings = check(load(str(path)))
    assert (findings.faults, findings.warnings) == ([], [])


_NOT_SOUND = (
    "tfjs_iris_fused_raw.pb",  # its fused convolutions lack attrs that they must have
    "dl4j_scatter_nd_update_locking_rank1shape_1indices.pb",  # its variable is a constant, and assigned to
)
"""What TensorFlow does not import, either."""


@pytest.mark.models
@pytest.mark.skipif(not MODELS.is_dir(), reason="the published models are not here")
def test_the_published_frozen_graphs_are_sound() -> None:
    wrong = {}
    for path in sorted(MODELS.glob("*.pb")):
        if path.name in _NOT_SOUND:
            continue
        findings = check(load(str(path)))
        if findings.fault_count:
            wrong[path.name] = findings.faults[:3]
    assert not wrong


@given(random_graphs())
def test_random_sound_graphs_have_no_faults(drawn: graphs.Drawn) -> None:
    findings = check(from_bytes(drawn.data))
    assert findings.faults == []
    assert all(getattr(warning, "facts", {}).get("op") == "MyCustomOp" for warning in findings.warnings)


# What protobuf does not read, TensorFlow does not either.

BAD = b"\x0a\x7fx"  # a field that is longer than what is left
UNREADABLE = {
    "node": encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + b"\x2a\x7f"),
    "attr entry": encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + encode_len(5, BAD)),
    "attr entry of an unknown op": encode_len(1, encode_len(1, b"n") + encode_len(2, b"My") + encode_len(5, BAD)),
    "attr key": encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + encode_len(5, encode_len(1, b"\xff"))),
    "attr value": node("n", "NoOp", _k=encode_len(1, BAD)),
    "device": encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + encode_len(4, b"\xff")),
    "debug info of a node": encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + encode_len(6, BAD)),
    "type of a node": encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + encode_len(7, BAD)),
    "versions": encode_len(4, BAD),
    "library": encode_len(2, BAD),
    "function": encode_len(2, encode_len(1, BAD)),
    "debug info": encode_len(5, BAD),
    "dimension": node("k", "Const", dtype=FLOAT, value=encode_len(8, b"\x08\x01" + encode_len(2, encode_len(2, BAD)))),
}


@cache
def constants(count: int) -> bytes:
    return b"".join(const(f"c{i}", [1]) for i in range(count))


@pytest.mark.parametrize("field", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("beside", [1, 3000])
def test_what_protobuf_cannot_read_is_refused(field: bytes, beside: int) -> None:
    from google.protobuf.message import DecodeError

    data = constants(beside) + field + graphs.VERSIONS
    with pytest.raises(DecodeError):
        graphs.parsed(data)
    with pytest.raises(InputError):
        require_sound(from_bytes(data))


# Sizes.


def test_a_long_chain_is_checked_without_recursion() -> None:
    """Written from its end to its beginning, so that the search for cycles has to walk all of it."""
    count = 20_000
    records = [identity(f"n{i}", f"n{i - 1}") for i in range(count - 1, 0, -1)] + [const("n0", [1])]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        findings = check(graph(*records))
    finally:
        sys.setrecursionlimit(limit)
    assert findings.faults == []


def test_a_long_cycle_is_shown_in_short() -> None:
    records = [identity(f"n{i}", f"n{(i - 1) % 5000}") for i in range(5000)]
    (fault,) = check(graph(*records)).faults
    assert fault.code == "cycle" and len(fault) < 300
    assert fault.facts["nodes"] == [f"n{i}" for i in range(1, 13)]


def test_a_hub_that_everybody_reads() -> None:
    count = 5_000
    records = [const("hub", [1]), *(identity(f"n{i}", "hub") for i in range(count)),
               node("all", "AddN", [f"n{i}" for i in range(count)], T=FLOAT, N=count)]  # fmt: skip
    found = graph(*records)
    assert check(found).faults == []
    assert len(found.users(found["hub"])) == count


def test_very_many_faults_are_counted_and_the_first_are_listed() -> None:
    findings = check(graph(*[identity(f"n{i}", "gone") for i in range(5000)]))
    assert (findings.fault_count, len(findings.faults)) == (5000, MOST_FAULTS)
    with pytest.raises(InputError) as caught:
        require_sound(graph(*[identity(f"n{i}", "gone") for i in range(5000)]))
    assert (caught.value.facts["count"], len(caught.value.facts["faults"])) == (5000, MOST_FAULTS)
    assert caught.value.details[-1] == f"and {5000 - MOST_FAULTS:,} more"
    assert "--validate none" in (hint_of(caught.value) or "")


def test_function_chains_are_followed_without_recursion() -> None:
    functions = [calls(f"F{i}", f"F{i + 1}") for i in range(1500)] + [calls("F1500")]
    assert check(graph(*with_functions(*functions))).faults == []
    closed = [*functions[:-1], calls("F1500", "F0")]
    assert [fault.code for fault in check(graph(*with_functions(*closed))).faults] == ["recursion"]


def test_a_node_of_an_illegal_name_is_there_for_those_that_are_colocated_with_it() -> None:
    findings = check(graph(const("a:0", [1], _class=["loc:@a:0"])))
    assert ([fault.code for fault in findings.faults], findings.warnings) == (["bad-name"], [])


def test_a_file_cut_between_nodes_has_dangling_inputs() -> None:
    whole = graphs.g8()
    findings = check(graph(*whole[::-1][:5], trailer=b""))
    assert {fault.code for fault in findings.faults} == {"no-such-node"}


@pytest.mark.parametrize(
    "text",
    ["CgYKAW4SAUYSFwoVCgMKAUYaBgoBYRIBRhoGCgFiEgFG", "CgYKAW4SAUYSHgoNCgMKAUYaBgoBYhIBRwoNCgMKAUcaBgoBYhIBRg=="],
)
def test_graphs_that_kill_tensorflow_are_refused(text: str) -> None:
    findings = check(from_bytes(base64.b64decode(text)))
    assert "recursion" in findings.counts


def test_counts_as_large_as_can_be_are_no_work() -> None:
    """Each node has attrs of its own, so that nothing is remembered from one to the next."""
    records = [node(f"n{i}", "Split", ["axis", "c"], T=FLOAT, num_split=(1 << 40) + i) for i in range(50)]
    assert check(graph(C, const("axis", [0], INT32, ()), *records)).fault_count == 0


# Repairs.


def test_what_only_needs_writing_anew_is_repaired() -> None:
    found = graph(
        C, node("y", "AddV2", ["^c", "c", "c"], T=FLOAT), const("d", [1], _class=["loc:@gone", "loc:@c", "other"])
    )
    apply_repairs(found, check(found))
    assert graphs.inputs(found)["y"] == ["c", "c", "^c"]
    assert sorted(graphs.colocations(found)["d"]) == [b"loc:@c", b"other"]
    again = check(from_bytes(graphs.written(found)))
    assert (again.faults, again.warnings) == ([], [])


def test_an_edit_that_leaves_a_node_without_what_its_op_needs_is_a_fault() -> None:
    found = graph(*graphs.g8())
    assert check_edited(found) == []
    found.rename({found["a"]: "z"})
    assert check_edited(found) == []
    found.set_attr(found["foo/c"], "T", None)
    found.set_inputs(found["foo/bar/e"], [found["foo/c"].output])
    assert [fault.as_json() for fault in check_edited(found)] == [
        {"code": "no-such-attr", "node": "foo/c", "attr": "T"},
        {"code": "wrong-count", "node": "foo/bar/e", "expected": 2, "found": 1},
    ]


def test_an_edit_that_has_a_reference_read_as_what_it_is_not_is_a_fault() -> None:
    variable = node("v", "VariableV2", dtype=FLOAT, shape=(2,))
    assign = node("assign", "Assign", ["v", "x"], T=FLOAT)
    found = graph(variable, placeholder("x", FLOAT, (2,)), assign, identity("read", "v"), placeholder("n", INT32, ()))
    found.set_inputs(found["read"], [found["x"].output])
    found.set_inputs(found["assign"], [found["v"].output, found["v"].output])
    assert check_edited(found) == []
    found.set_inputs(found["assign"], [found["x"].output, found["n"].output])
    facts = {"code": "dtype-mismatch", "node": "assign"}
    assert [fault.as_json() for fault in check_edited(found)] == [
        {**facts, "tensor": "x", "expected": "float32_ref", "found": "float32"},
        {**facts, "tensor": "n", "expected": "float32", "found": "int32"},
    ]


NOW = graph_def_version()
GONE = node("p", "PlaceholderV2", dtype=FLOAT, shape=(1,))  # removed in 23
GONE_INSIDE_MANY = b"".join(node(f"n{i}", "NoOp") for i in range(3000)) + GONE


def faults(records: bytes, **versions: object) -> list[str]:
    trailer = encode_len(4, VersionDef(**versions).SerializeToString())
    return check(graph(records, trailer=trailer)).faults


@pytest.mark.parametrize(
    ("records", "versions", "words"),
    [
        (
            const("c", [1]),
            {"min_consumer": NOW + 1},
            f"requires GraphDef version {NOW + 1} or later",
        ),
        (
            const("c", [1]),
            {"bad_consumers": [3, NOW]},
            f"it excludes GraphDef version {NOW}",
        ),
        (const("c", [1]), {"producer": -1}, "its producer version -1 does not exist"),
        (
            GONE,
            {"producer": 23},
            "'p': the op PlaceholderV2 is not allowed from GraphDef version 23 on, but this",
        ),
        (GONE_INSIDE_MANY, {"producer": 24}, "'p': the op PlaceholderV2 is not allowed from GraphDef version 23 on"),
    ],
    ids=["min_consumer too new", "bad consumer", "missing producer", "removed op", "among many"],
)
def test_versions_that_tensorflow_refuses(records: bytes, versions: dict[str, object], words: str) -> None:
    (fault,) = faults(records, **versions)
    assert re.search(words, fault)


def test_versions_that_tensorflow_takes() -> None:
    assert faults(const("c", [1]), min_consumer=NOW, bad_consumers=[NOW - 1, NOW + 1], producer=NOW + 1000) == []
    assert faults(GONE, producer=22) == []
    assert faults(GONE) == []
