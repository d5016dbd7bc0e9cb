# ruff: noqa: E501 (a text of the source stands in one line here, too)
"""Mistakes planted in compat and in the older forms: the specification finds them before anything is run."""

from __future__ import annotations

import pytest
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    add,
    call,
    const,
    define,
    dtype,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    node,
    placeholder,
    scalar,
    versions,
)
from support.mutants import Mutant, check_caught

from gdsurgeon.comparison.compare import compare_files
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.compat import compat
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.asked import Asked
from gdsurgeon.specification.specify import violations
from gdsurgeon.wire.fields import encode_len

COMPAT, SITE = "edits.compat", "edits.older.site"
ONES = b"\x0a\x06\x1a\x04\x01\x01\x01\x01"


def model() -> Graph:
    """An op that is not there, one that lacks an attr, one that has another default said; in a function, too."""
    return graph(
        placeholder("x", shape=(1, 4, 4, 1)),
        placeholder("x2", shape=(1, 4, 4, 1)),
        add("a", "x", "x2", "^w"),
        const("w", [1.0], shape=(1, 1, 1, 1)),
        node("c", "Conv2D", ["a", "w"], T=FLOAT, strides=ONES, padding="SAME", dilations=ONES, data_format="NHWC"),
        node("l", "LeakyRelu", ["c"], T=FLOAT, alpha=0.5),
        node("s", "FusedBatchNormV3", ["l", "one", "one", "one", "one"], T=FLOAT, U=FLOAT, is_training=False),
        const("one", [1.0]),
        node("f", "F", ["s"]),
        node("k", "Cast", ["f"], SrcT=FLOAT, DstT=INT32, Truncate=False),
        trailer=library(function("F", add("y", "x", "x")), function("G", node("y", "Neg", ["x"], T=FLOAT)))
        + versions(1882),
    )


def for_1_4() -> tuple[Graph, EditResult]:
    found = model()
    return found, compat(found, "1.4")


def banned() -> tuple[Graph, EditResult]:
    """What the file says that must not read it, the release among them."""
    said = b"\x08\xda\x0e\x18\x18\x18\x19"  # producer 1882, bad_consumers 24 and 25
    found = graph(placeholder("x"), add("y", "x", "x"), trailer=encode_len(4, said))
    return found, compat(found, "1.4")


def boxes() -> tuple[Graph, EditResult]:
    found = graph(
        placeholder("b", shape=(5, 4)),
        placeholder("s", shape=(5,)),
        scalar("n", 3, INT32),
        scalar("t", 0.5),
        scalar("z", 0),
        node("y", "NonMaxSuppressionV5", ["b", "s", "n", "t", "t", "z"], T=FLOAT),
        node("q", "SelectV2", ["c", "s", "z"], T=FLOAT),
        node("c", "Greater", ["s", "z"], T=FLOAT),
    )
    return found, compat(found, "1.4")


def for_1_15() -> tuple[Graph, EditResult]:
    found = model()
    return found, compat(found, "1.15")


def defaulting() -> tuple[Graph, EditResult]:
    """An attr that says nothing, and that 1.15 needs."""
    ragged = {"RAGGED_RANK": 1, "Tvalues": FLOAT, "batched_input": False}
    found = graph(placeholder("s", INT64), placeholder("x"), node("y", "RaggedTensorToVariant", ["s", "x"], **ragged))
    return found, compat(found, "1.15")


def lowered() -> tuple[Graph, EditResult]:
    """A loop and a call of a function, each with a reader that waits, too."""
    kinds = {"i": INT32, "v": FLOAT}
    less = define("less", kinds, {"go": (BOOL, "l:z:0")}, scalar("k", 3, INT32),
                  node("l", "Less", ["i", "k:output:0"], T=INT32))  # fmt: skip
    step = define("step", kinds, {"j": (INT32, "a:z:0"), "w": (FLOAT, "b:z:0")}, scalar("one", 1, INT32),
                  add("a", "i", "one:output:0", kind=INT32), add("b", "v", "v"))  # fmt: skip
    state = {"T": dtypes(INT32, FLOAT), "cond": func("less"), "body": func("step")}
    found = graph(
        placeholder("x", shape=(2,)),
        scalar("z", 0, INT32),
        node("w", "While", ["z", "x", "^x"], **state),
        call("c", "double", ["w:1"], [FLOAT], [FLOAT]),
        identity("y", "c", "^c"),
        identity("late", "x", "^w"),
        library(less, step, define("double", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a"))),
    )
    return found, compat(found, "1.4")


def padded() -> tuple[Graph, EditResult]:
    """What pads by numbers, with and without groups of channels, and a choice among functions."""
    numbers = encode_len(1, encode_len(3, bytes([0, 0, 1, 2, 0, 3, 0, 0])))
    wanted = {"T": FLOAT, "strides": ONES, "padding": "EXPLICIT", "explicit_paddings": numbers}
    called = b"".join(encode_len(9, encode_len(1, name)) for name in (b"double", b"double"))
    found = graph(
        placeholder("x", shape=(1, 4, 4, 4)), scalar("k", 1, INT32),
        const("w", [1.0] * 4, shape=(1, 1, 4, 1)), const("g", [1.0, 2.0, 3.0, 4.0], shape=(1, 1, 2, 2)),
        const("d", [1.0, 2.0, 3.0, 4.0] * 2, shape=(1, 2, 1, 4)),
        node("c", "Conv2D", ["x", "w"], **wanted), node("cg", "Conv2D", ["x", "g"], **wanted),
        node("cd", "Conv2D", ["x", "d"], T=FLOAT, strides=ONES, padding="SAME"),
        node("m", "MaxPool", ["x"], **wanted, ksize=ONES),
        node("s", "Case", ["k", "x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), branches=encode_len(1, called)),
        library(define("double", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a"))),
    )  # fmt: skip
    return found, compat(found, "1.4")


def parsed() -> tuple[Graph, EditResult]:
    """Records with two features."""

    def texts(*held: bytes) -> bytes:
        return encode_len(
            8, b"\x08\x07\x12\x04\x12\x02\x08" + bytes([len(held)]) + b"".join(encode_len(8, t) for t in held)
        )

    shapes = encode_len(1, encode_len(7, b"") * 2)
    found = graph(
        placeholder("s", STRING, (-1,)), node("n", "Const", dtype=STRING, value=texts()),
        node("k", "Const", dtype=STRING, value=texts(b"a", b"b")), const("p", [1.0], shape=()), const("q", [2.0], shape=()),
        node("y", "ParseExampleV2", ["s", "n", "n", "k", "n", "p", "q"], Tdense=dtypes(FLOAT, FLOAT), num_sparse=0,
             dense_shapes=shapes, sparse_types=encode_len(1, b""), ragged_value_types=encode_len(1, b""),
             ragged_split_types=encode_len(1, b"")),
    )  # fmt: skip
    return found, compat(found, "1.4")


PADDING, KERNELS, TEXTS = "edits.older.padding", "edits.older.kernels", "edits.older.texts"
FLOW = "edits.older.control_flow"
ARITHMETIC, SPELT = "edits.older.arithmetic", "edits.older.defaults"
MUTANTS = [
    Mutant("an attr goes that is known", COMPAT, 'if key in old.attrs or key.startswith("_"):', "if key == 'T':", for_1_4),
    Mutant("versions stay", COMPAT, "self._say_versions()", "pass", for_1_4),
    Mutant("the producer is any", COMPAT, "min(versions.producer, self.release.version)", "1", for_1_4),
    Mutant("who may not read it is lost", COMPAT, "versions.bad_consumers.extend(kept)", "pass", banned),
    Mutant("it is another op", ARITHMETIC, 'site.become("Add")', 'site.become("Mul")', for_1_4),
    Mutant("it reads the other", ARITHMETIC, 'site.become("Add")', 'site.become("Add", site.node.inputs[::-1])', for_1_4),
    Mutant("new nodes are anywhere", SITE, 'f"{self.node.name}/{name}"', 'f"other/{name}"', boxes),
    Mutant("the device is another", SITE, "self.graph.set_op(node, op)",
           'self.graph.set_op(node, op), self.graph.set_device(node, "/gpu:0")', boxes),
    Mutant("controls are lost", SITE, "self.graph.set_op(node, op)",
           "self.graph.set_op(node, op), self.graph.set_controls(node, [])", for_1_4),
    Mutant("what is known is replaced", COMPAT, "if definition is None or self.release.takes_less(node.op):\n            return True", "return True", for_1_15),
    Mutant("the results are another op", FLOW, 'else "IdentityN"', 'else "ShapeN"', lowered),
    Mutant("who waits for a loop does not", FLOW, "controls = [*self.node.controls, *ends]", "controls = []", lowered),
    Mutant("nodes of a loop are anywhere", FLOW, 'self.unique(f"{self.node.name}/{name}")', "self.unique(name)", lowered),
    Mutant("a reader of a loop reads another result", FLOW, "exit_.output for exit_ in exits]", "exit_.output for exit_ in exits[::-1]]", lowered),
    Mutant("the other side is padded", PADDING, 'site.const("paddings", INT32, amounts,', 'site.const("paddings", INT32, amounts[::-1],', padded),
    Mutant("what is not the least is around", PADDING, 'float("-inf") if', "0.5 if", padded),
    Mutant("it still pads", PADDING, 'string_value("VALID")', 'string_value("SAME")', padded),
    Mutant("groups have each other's filters", KERNELS, "Output(part, index) for part in parts", "Output(part, index if part is parts[0] else count - 1 - index) for part in parts", padded),
    Mutant("filters are of another size", KERNELS, "*filters[:2], count", "*filters[1::-1], count", padded),
    Mutant("a branch is missing", FLOW, "functions = list(value.list.func) if", "functions = list(value.list.func)[1:] if", padded),
    Mutant("features have each other's names", TEXTS, "enumerate(_texts(value))", "enumerate(_texts(value)[::-1])", parsed),
    Mutant("features have each other's defaults", TEXTS, "*keys[1], *defaults]", "*keys[1], *defaults[::-1]]", parsed),
    Mutant("another default is written", SPELT, "return value.SerializeToString(deterministic=True)\n\n\n_F",
           'return b"\\x30\\x03"\n\n\n_F', defaulting),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)


# -- what is written is held against the release, whatever was different before --------------------------------

LEFT = {
    "is a AddV2": [placeholder("x"), add("y", "x", "x")],
    "is a Foo": [placeholder("x"), node("y", "Foo", ["x"])],
    "has Truncate": [placeholder("x"), node("y", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT, Truncate=False)],
    "has type 22": [placeholder("x"), node("y", "Bitcast", ["x"], T=FLOAT, type=dtype(22))],
    "has T of another kind": [placeholder("x"), node("y", "Neg", ["x"], T=3)],
    "lacks T": [placeholder("x"), node("y", "Neg", ["x"])],
    "reads 1 tensors": [placeholder("x"), node("y", "Add", ["x"], T=FLOAT)],
    "has padding b'NO'": [
        placeholder("x"),
        node("y", "Conv2D", ["x", "x"], T=FLOAT, strides=ONES, padding="NO"),
    ],
    "less than 1": [placeholder("x"), node("y", "AddN", T=FLOAT, N=0)],
    "the versions are 25": [placeholder("x")],
    "in the function 'F' 'y' is a AddV2": [placeholder("x"), node("c", "F", ["x"])],
}


@pytest.mark.parametrize("fault", LEFT)
def test_what_the_release_does_not_take_is_found_wherever_it_is(fault: str) -> None:
    producer = 25 if "versions" in fault else 24
    functions = library(function("F", add("y", "x", "x")))
    found = graph(*LEFT[fault], trailer=functions + versions(producer))
    lines = list(violations(compare_files(found, found), Asked("compat", {"target": "1.4"})))
    assert len(lines) == 1 and fault in lines[0], lines
