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
)
from support.paths import ROOT

from gdsurgeon.analysis.checks.check import apply_repairs, check, check_edited, require_sound
from gdsurgeon.analysis.checks.findings import MOST_FAULTS
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.errors import InputError
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.wire.fields import encode_len, encode_varint

MODELS = ROOT.parent / "shared" / "models"
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


def ints(*values: int) -> bytes:
    return encode_len(1, b"".join(b"\x18" + encode_varint(value) for value in values))


FAULTS: dict[str, tuple[list[bytes], str]] = {
    "no nodes": ([b""], "it has no nodes"),
    "no name": ([C, encode_len(1, encode_len(2, b"NoOp"))], "node number 1 has no name"),
    "illegal name": ([C, node("_x", "NoOp")], r"node '_x' \(number 1\) has an illegal name: letters"),
    "control characters": ([C, node("a\n\x1b", "NoOp")], r"node 'a\\n\\x1b' \(number 1\)"),
    "no op": ([C, encode_len(1, encode_len(1, b"n"))], "node 'n' has no op"),
    "doubled name": ([C, node("c", "NoOp")], "two nodes are named 'c': numbers 0 and 1"),
    "dangling input": ([const("image", [1]), identity("y", "imgae")],
                       "node 'y' reads 'imgae', and there is no node 'imgae'. Did you mean 'image'?"),
    "dangling control": ([C, node("n", "NoOp", ["^cc"])], r"node 'n' waits for '\^cc', and there is no node 'cc'"),
    "no such output": ([C, identity("y", "c:7")], r"node 'y' reads 'c:7', and 'c' \(Const\) has 1 output"),
    "no output at all": ([node("n", "NoOp"), identity("y", "n")], r"'n' \(NoOp\) has 0 outputs"),
    "negative output": ([C, identity("y", "c:-1")], "node 'y' has the input 'c:-1', which is no tensor's name"),
    "output that is no number": ([C, identity("y", "c:abc")], "'c:abc', which is no tensor's name"),
    "huge output": ([C, identity("y", "c:99999999999")], "'c:99999999999', which is no tensor's name"),
    "large output": ([node("u", "MyOp"), identity("y", "u:1048575")], "no op has that many outputs"),
    "empty input": ([C, identity("y", "")], "has the input '', which is no tensor's name"),
    "caret alone": ([C, node("n", "NoOp", ["^"])], r"has the input '\^', which is no tensor's name"),
    "too many inputs": ([C, node("y", "Identity", ["c", "c"], T=FLOAT)], "has 2 data inputs, and Identity takes 1"),
    "too few inputs": ([C, node("y", "AddV2", ["c"], T=FLOAT)], "has 1 data inputs, and AddV2 takes 2"),
    "too few inputs of many": ([C, node("y", "AddN", ["c"], T=FLOAT, N=2)], "has 1 data inputs, and AddN takes 2"),
    "cycle": ([add("a", "b", "b"), identity("b", "d"), identity("d", "a")], "form a cycle outside a while loop: "),
    "self loop": ([identity("a", "a")], "form a cycle outside a while loop: 'a' -> 'a'"),
    "control cycle": ([node("a", "NoOp", ["^b"]), node("b", "NoOp", ["^a"])], "form a cycle"),
    "cycle through a merge": ([C, node("m", "Merge", ["c", "i"], T=FLOAT, N=2), identity("i", "m")], "form a cycle"),
    "missing attr": ([C, node("y", "Identity", ["c"])], r"Identity needs an attr 'T' \(type\), and it is missing"),
    "const without a value": ([node("k", "Const", dtype=FLOAT)], r"Const needs an attr 'value' \(tensor\)"),
    "attr of a wrong kind": ([C, node("y", "Identity", ["c"], T=5)], "attr 'T' is int, and Identity wants type"),
    "attr without a value": ([C, node("y", "Identity", ["c"], T=b"")], "'T' is without a value, and Identity wants"),
    "attr that is a tensor": ([C, node("y", "Identity", ["c"], T=tensor([1]))], "'T' is a tensor, and Identity wants"),
    "no DataType": ([C, node("y", "Identity", ["c"], T=dtype(999))], "'T' is DataType 999, which there is not"),
    "DT_INVALID": ([C, node("y", "Identity", ["c"], T=dtype(0))], "'T' is DataType 0, which there is not"),
    "no DataType in a list": ([node("y", "IdentityN", ["c"], T=dtypes(dtype(77))), C], "'T' is DataType 77"),
    "negative dimension": ([placeholder("p", FLOAT, (-2,))], "'shape' is a shape with the dimension -2"),
    "too many dimensions": ([placeholder("p", FLOAT, (1,) * 255)], "shape of 255 dimensions; 254 are the most"),
    "dtype unlike the tensor": ([node("k", "Const", dtype=INT32, value=tensor([1], FLOAT))],
                                "dtype attr says int32 and its tensor is float32"),
    "tensor without a dtype": ([node("k", "MyOp", value=raw(dtype(0), ()))], "has DataType 0"),
    "short content": ([node("k", "Const", dtype=FLOAT, value=raw(FLOAT, (2,), b"1234"))],
                      r"has 4 bytes of content, and float32 \[2\] takes 8"),
    "long content": ([node("k", "Const", dtype=FLOAT, value=raw(FLOAT, (), b"12345678"))], "has 8 bytes of content"),
    "too many values": ([node("k", "Const", dtype=FLOAT, value=raw(FLOAT, (), rest=encode_len(5, bytes(8))))],
                        r"has 2 values, and its shape \[\] takes 1"),
    "tensor of a negative dimension": ([node("k", "Const", dtype=FLOAT, value=raw(FLOAT, (-1,)))], "the dimension -1"),
    "tensor of many dimensions": ([node("k", "Const", dtype=FLOAT, value=raw(FLOAT, (1,) * 255))], "255 dimensions"),
    "tensor of too many elements": ([node("k", "Const", dtype=FLOAT, value=raw(FLOAT, (1 << 40, 1 << 40)))], "2\\^63"),
    "tensor of unknown rank": ([node("k", "Const", dtype=FLOAT, value=encode_len(8, b"\x08\x01\x12\x02\x18\x01"))],
                               "unknown rank"),
    "tensor behind a number in one attr": (
        [node("k", "Const", dtype=INT32, value=b"\x18\x05" + tensor([1], FLOAT))],
        "dtype attr says int32 and its tensor is float32"),
    "number behind a tensor in one attr": (
        [node("k", "Const", dtype=FLOAT, value=tensor([1], FLOAT) + b"\x18\x05")],
        "attr 'value' is int, and Const wants tensor"),
    "corrupt attr": ([node("k", "MyOp", k=b"\x52\x05ab")], "attr 'k' is corrupt"),
    "corrupt tensor": ([node("k", "Const", dtype=FLOAT, value=encode_len(8, b"\x12\x05a"))], "'value' is corrupt"),
    "missing function": ([C, call("F")], "node 'call' calls the function 'F', which the library has not"),
    "function calls a missing one": (with_functions(calls("F", "G")), "function 'F' calls 'G', which the library has"),
    "function of one name twice": (with_functions(calls("F"), calls("F")), "there are 2 functions named 'F'"),
    "function named like an op": (with_functions(calls("AddV2")), "function 'AddV2' has the name of a TensorFlow op"),
    "function without a name": (with_functions(calls("")), "a function has no name"),
    "recursion": (with_functions(calls("F", "F")), "without end: 'F' -> 'F'"),
    "mutual recursion": (with_functions(calls("F", "G"), calls("G", "F")), "without end: 'F' -> 'G' -> 'F'"),
    "recursion of three behind another": (
        with_functions(calls("Z", "F"), calls("F", "G"), calls("G", "H"), calls("H", "F")),
        "without end: 'F' -> 'G' -> 'H' -> 'F'"),
    "recursion through a body attr": (
        with_functions(
            calls("G"),
            function("F", node("y", "StatelessWhile", ["x"], T=dtypes(FLOAT), cond=func("G"), body=func("F"))),
        ),
        "without end: 'F' -> 'F'"),
    "ret that names nothing": (with_functions(function("F", BODY, ret="z:y:0")), "ret 'out' of function 'F' names 'z:"),
    "reads nothing inside": (with_functions(function("F", node("y", "Identity", ["q"], T=FLOAT))),
                             "node 'y' of function 'F' reads 'q', which it has not"),
    "nodes of one name inside": (with_functions(function("F", BODY, BODY)), "function 'F' has several nodes named 'y'"),
    "edge of another dtype": ([const("i", [1], INT32), identity("y", "i")],
                              r"node 'y' \(Identity\) takes float32 as input 0, and 'i' is int32"),
    "edge of another dtype, further on": (
        [C, const("i", [0], INT32, ()), node("s", "Split", ["i", "c"], T=FLOAT, num_split=2),
         node("y", "Pack", ["i", "s:1"], T=INT32, N=2)],
        r"node 'y' \(Pack\) takes int32 as input 1, and 's:1' is float32"),
    "value where a reference is wanted": (
        [C, node("y", "Assign", ["c", "c"], T=FLOAT)], "takes float32_ref as input 0, and 'c' is float32"),
    "argument of another dtype": (
        [const("i", [1], INT32), node("y", "F", ["i"]), library(calls("F"))], r"\(F\) takes float32 as input 0, and"),
    "dtype that the op does not take": ([node("p", "Placeholder", dtype=STRING), node("y", "Abs", ["p"], T=STRING)],
                                        "attr 'T' is string, and is to be one of bfloat16, float16, float32"),
    "text that the op does not take": (
        [placeholder("q"),
         node("p", "MaxPool", ["q"], T=FLOAT, ksize=ints(1, 1, 1, 1), strides=ints(1, 1, 1, 1), padding="ODD")],
        "attr 'padding' is 'ODD', and is to be one of SAME, VALID"),
    "text that the op does not take, behind one that it takes": (
        [placeholder("q"), *(
            node(name, "MaxPool", ["q"], T=FLOAT, ksize=ints(1, 1, 1, 1), strides=ints(1, 1, 1, 1), padding=padding)
            for name, padding in (("p", "SAME"), ("r", "VALI"))
        )],
        "node 'r': attr 'padding' is 'VALI', and is to be one of SAME, VALID"),
    "number behind a text in one attr": (
        [node(name, "VarHandleOp", dtype=FLOAT, shape=(1,), shared_name=value)
         for name, value in (("v", b"\x12\x01a"), ("w", b"\x12\x01a\x18\x05"))],
        "node 'w': attr 'shared_name' is int, and VarHandleOp wants string"),
    "number below the least": ([node("y", "AddN", [], T=FLOAT, N=0)], "attr 'N' is 0, and the least is 1"),
    "negative number": ([C, node("y", "AddN", ["c"], T=FLOAT, N=-1)], "attr 'N' is -1, and the least is 1"),
    "list below the least": ([node("y", "IdentityN", [], T=encode_len(1, b""))],
                             "'T' is a list of 0, and the least is 1"),
    "list of two kinds": ([node("y", "IdentityN", ["c"], T=encode_len(1, b"\x30\x01\x18\x01")), C],
                          r"attr 'T' is list\(int\) and list\(type\), and IdentityN wants list\(type\)"),
    "list of another kind": ([C, node("y", "IdentityN", ["c"], T=["a"])], r"is list\(string\), and IdentityN wants"),
    "reference as a dtype": ([C, node("y", "Identity", ["c"], T=dtype(101))], "'T' is float32_ref, and an attr cannot"),
    "attr of no function": ([C, node("y", "Identity", ["c"], T=encode_len(9, b"T"))], "attr 'T' stands for one of"),
    "shape of too many elements": ([placeholder("p", FLOAT, (1 << 32, 1 << 32))], "a shape of more than 2\\^63 elem"),
    "texts that are none": ([node("k", "Const", dtype=STRING, value=raw(STRING, (2,), b"\x01\x01a"))],
                            "has a tensor_content that does not hold 2 strings"),
    "op that is gone": ([node("p", "PlaceholderV2", dtype=FLOAT, shape=(1,))],
                        "GraphDefs of version 23 and later have no PlaceholderV2, and this one is of version 1882"),
    "ret of no output": (with_functions(function("F", BODY, ret="y:out:0")), "ret 'out' of function 'F' names 'y:o"),
    "ret of no place": (with_functions(function("F", BODY, ret="y:output:1")), "ret 'out' of function 'F' names 'y"),
    "ret of another dtype": (with_functions(function("F", node("y", "Shape", ["x"], T=FLOAT))),
                             "ret 'out' of function 'F' is to be float32, and 'y:output:0' is int32"),
    "attr missing inside": (with_functions(function("F", node("y", "Identity", ["x"]))),
                            "node 'y' of function 'F': Identity needs an attr 'T'"),
    "edge of another dtype inside": (
        with_functions(function("F", node("n", "Shape", ["x"], T=FLOAT), node("y", "Neg", ["n:output:0"], T=FLOAT))),
        r"node 'y' of function 'F' \(Neg\) takes float32 as input 0, and it reads int32"),
    "too few inputs inside": (with_functions(function("F", node("y", "AddV2", ["x"], T=FLOAT))),
                              "node 'y' of function 'F' has 1 data inputs, and AddV2 takes 2"),
    "control before data inside": (with_functions(function("F", node("y", "Identity", ["^x", "x"], T=FLOAT))),
                                   "node 'y' of function 'F' has a control input before a data input"),
    "cycle inside": (with_functions(function("F", node("y", "AddV2", ["x", "y:z:0"], T=FLOAT))),
                     "the nodes of function 'F' form a cycle"),
    "gradient of nothing": ([C, library(calls("G"), gradients={"F": "G"})], "a gradient entry names the function 'F'"),
}  # fmt: skip


def no_ret() -> object:
    out = function("F", BODY)
    out.ret.clear()  # type: ignore[attr-defined]
    return out


def doubled_argument() -> object:
    out = function("F", BODY)
    out.signature.input_arg.add(name="x", type=1)  # type: ignore[attr-defined]
    return out


def control_ret() -> object:
    out = function("F", BODY)
    out.control_ret["a"] = "gone"  # type: ignore[attr-defined]
    return out


FAULTS["no ret"] = (with_functions(no_ret()), "function 'F' has no ret for its output 'out'")
FAULTS["doubled argument"] = (with_functions(doubled_argument()), "function 'F' has several inputs named 'x'")
FAULTS["control_ret that names nothing"] = (with_functions(control_ret()), "control_ret 'a' of function 'F' names")


@cache
def idle(count: int) -> bytes:
    """Records of COUNT nodes that do nothing."""
    return b"".join(node(f"more_{i}", "NoOp") for i in range(count))


@pytest.mark.parametrize(("records", "words"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("beside", [0, 5000])
def test_each_fault(records: list[bytes], words: str, beside: int) -> None:
    """Alone, and with nodes so many behind it that they are parsed in runs."""
    found = graph(*records, idle(beside if records != [b""] else 0))
    findings = check(found)
    assert findings.fault_count == len(findings.faults) == 1, findings.faults
    assert re.search(words.replace("?", r"\?"), findings.faults[0]), findings.faults
    with pytest.raises(InputError, match=r"model\.pb is broken: "):
        require_sound(found)


WARNINGS: dict[str, tuple[list[bytes], str]] = {
    "unknown op": ([C, node("y", "MyOp", ["c"])], r"op 'MyOp' \(node 'y'\) is not known to this TensorFlow"),
    "unknown attr": ([C, identity("y", "c", new_attr=5)], "node 'y': Identity has no attr 'new_attr'"),
    "unknown field of the graph": ([C, b"\x7a\x02ab"], r"it has an unknown field 15 \(wire type 2\), which is kept"),
    "field one of another wire type": ([C, b"\x08\x01"], r"unknown field 1 \(wire type 0\)"),
    "unknown field of a node": (
        [C, encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + b"\x78\x05")],
        "node 'n' has an unknown field, which is kept",
    ),
    "dangling colocation": (
        [C, const("d", [1], _class=["loc:@gone"])], "node 'd' is colocated with 'gone', which is not there"
    ),
    "control input before data": ([C, node("y", "Identity", ["^c", "c"], T=FLOAT)], "'y' has a control input before"),
    "unknown op inside a function": (
        with_functions(function("F", node("y", "MyOp", ["x"]))), "op 'MyOp'.*is not known to this TensorFlow"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("records", "words"), WARNINGS.values(), ids=WARNINGS)
@pytest.mark.parametrize("beside", [0, 5000])
def test_each_warning_is_no_fault(records: list[bytes], words: str, beside: int) -> None:
    findings = check(graph(idle(beside), *records))
    assert findings.faults == []
    assert len(findings.warnings) == 1, findings.warnings
    assert re.search(words, findings.warnings[0])


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
    "attrs of nobody": [
        C, identity("y", "c", _dtype=dtype(999), _shape=(-7,), _list=encode_len(1, b"\x30\x01\x18\x01"))
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
    assert all("MyCustomOp" in warning for warning in findings.warnings)


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
    assert "cycle" in fault
    assert " -> '...'" in fault or " -> ... -> " in fault
    assert len(fault) < 300


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
    with pytest.raises(InputError, match="broken in 5,000 places") as caught:
        require_sound(graph(*[identity(f"n{i}", "gone") for i in range(5000)]))
    assert caught.value.details[-1] == f"and {5000 - MOST_FAULTS:,} more"
    assert "--validate none" in (hint_of(caught.value) or "")


def test_function_chains_are_followed_without_recursion() -> None:
    functions = [calls(f"F{i}", f"F{i + 1}") for i in range(1500)] + [calls("F1500")]
    assert check(graph(*with_functions(*functions))).faults == []
    closed = [*functions[:-1], calls("F1500", "F0")]
    assert any("without end" in fault for fault in check(graph(*with_functions(*closed))).faults)


def test_a_node_of_an_illegal_name_is_there_for_those_that_are_colocated_with_it() -> None:
    findings = check(graph(const("a:0", [1], _class=["loc:@a:0"])))
    assert [fault for fault in findings.faults if "illegal name" not in fault] == findings.warnings == []


def test_two_graphs_in_one_file() -> None:
    data = graphs.graph_bytes(*graphs.g8())
    findings = check(from_bytes(data + data))
    assert findings.fault_count == 8
    assert "two nodes are named 'a': numbers 0 and 8" in findings.faults


def test_a_file_cut_between_nodes_has_dangling_inputs() -> None:
    whole = graphs.g8()
    findings = check(graph(*whole[::-1][:5], trailer=b""))
    assert any("there is no node 'foo/c'" in fault or "foo/b" in fault for fault in findings.faults)


@pytest.mark.parametrize(
    "text",
    ["CgYKAW4SAUYSFwoVCgMKAUYaBgoBYRIBRhoGCgFiEgFG", "CgYKAW4SAUYSHgoNCgMKAUYaBgoBYhIBRwoNCgMKAUcaBgoBYhIBRg=="],
)
def test_graphs_that_kill_tensorflow_are_refused(text: str) -> None:
    findings = check(from_bytes(base64.b64decode(text)))
    assert any("call each other without end" in fault for fault in findings.faults)


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
    assert check_edited(found) == [
        "node 'foo/c': AddV2 needs an attr 'T' (type), and it is missing",
        "node 'foo/bar/e' has 1 data inputs, and AddV2 takes 2",
    ]


def test_an_edit_that_has_a_reference_read_as_what_it_is_not_is_a_fault() -> None:
    variable = node("v", "VariableV2", dtype=FLOAT, shape=(2,))
    assign = node("assign", "Assign", ["v", "x"], T=FLOAT)
    found = graph(variable, placeholder("x", FLOAT, (2,)), assign, identity("read", "v"), placeholder("n", INT32, ()))
    found.set_inputs(found["read"], [found["x"].output])
    found.set_inputs(found["assign"], [found["v"].output, found["v"].output])
    assert check_edited(found) == []
    found.set_inputs(found["assign"], [found["x"].output, found["n"].output])
    assert check_edited(found) == [
        "node 'assign' (Assign) takes float32_ref as input 0, and 'x' is float32",
        "node 'assign' (Assign) takes float32 as input 1, and 'n' is int32",
    ]
