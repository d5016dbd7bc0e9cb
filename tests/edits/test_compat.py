"""compat: what a release does not know, what takes its place, what is refused; the older forms give the same."""

from __future__ import annotations

import json
from functools import partial

import pytest
from support import graphs
from support.desk import Desk, check_refused
from support.expecting import expect, refuse
from support.graphs import (
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    add,
    const,
    dtype,
    function,
    graph,
    library,
    node,
    placeholder,
    scalar,
    versions,
)
from support.running import run

from gdsurgeon.analysis.queries.unknown_to import told, unknown_to
from gdsurgeon.edits.compat import RULES, compat
from gdsurgeon.edits.older import diagonals, padding, resizing, texts
from gdsurgeon.edits.older.defaults import same_value, spelt_out
from gdsurgeon.errors import NothingToDo, UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.op_defs import graph_def_version, table_version
from gdsurgeon.ops.releases import names_with, release, releases
from gdsurgeon.proof.accounting import check_accounted

OLD = versions(24)
X = placeholder("x", shape=(2, 3))
ONES = b"\x0a\x06\x1a\x04\x01\x01\x01\x01"


# -- the table ------------------------------------------------------------------------------------------------


def test_the_table_has_the_releases_and_the_one_that_editing_knows() -> None:
    assert [each.name for each in releases()][:2] == ["1.4", "1.5"]
    newest = releases()[-1]
    assert table_version().startswith(f"{newest.name}.") and newest.version == graph_def_version()
    assert len(releases()) == 34 and release("1.15.5") == release("1.15") is not None
    assert release("1.3") is None and release("1.x") is None


def test_the_table_tells_releases_apart() -> None:
    old, new = release("1.4"), releases()[-1]
    assert old is not None
    assert names_with("AddV2")[0] == "1.5" and old.op_def("AddV2") is None
    definitions = old.op_def("Conv2D"), new.op_def("Conv2D")
    assert definitions[0] is not None and definitions[1] is not None
    assert "dilations" not in definitions[0].attrs and definitions[1].attrs["dilations"].default == [1, 1, 1, 1]
    assert old.knows_as("MatrixDiag", new) and not old.knows_as("Conv2D", new)
    assert old.op_def("not an op\n") is None


# -- what a release does not know -----------------------------------------------------------------------------


def lines(found: Graph, target: str) -> list[str]:
    wanted = release(target)
    assert wanted is not None
    return told(unknown_to(found, wanted))


def test_all_that_is_unknown_is_listed_in_functions_too() -> None:
    found = graph(
        X,
        add("a", "x", "x"),
        add("b", "a", "a"),
        node("c", "Cast", ["b"], SrcT=FLOAT, DstT=FLOAT, Truncate=True),
        node("d", "Bitcast", ["c"], T=FLOAT, type=dtype(22)),
        node("e", "Foo", ["d"]),
        node("f", "F", ["b"]),
        node("g", "Dequantize", ["c", "x", "x"], T=dtype(11), mode="NO"),
        trailer=library(function("F", add("y", "x", "x")), function("Unused", node("y", "Foo", ["x"]))) + OLD,
    )
    assert lines(found, "1.4") == [
        "there is no op 'AddV2' (1.5 is the first to have it): 3 nodes, 'a', 'b', 'y' in function 'F'",
        "Cast has no attr 'Truncate', which is True: 1 node, 'c'",
        "Bitcast does not take uint32 as 'type': 1 node, 'd'",
        "there is no uint32, which Bitcast has as 'type': 1 node, 'd'",
        "no TensorFlow has the op 'Foo': 1 node, 'e'",
        "Dequantize does not take 'NO' as 'mode': 1 node, 'g'",
    ]
    assert lines(found, "2.8")[0] == "no TensorFlow has the op 'Foo': 1 node, 'e'"


def test_inputs_and_outputs_that_are_no_longer_there_are_listed() -> None:
    found = graph(
        scalar("i", 1, INT32),
        node("l", "TensorListReserve", ["i", "i"], element_dtype=FLOAT, shape_type=INT32),
        node("s", "TensorListStack", ["l", "i"], element_dtype=FLOAT, num_elements=1),
    )
    assert lines(found, "1.12") == ["TensorListStack takes 1 input, and has 2: 1 node, 's'"]


def test_kernels_that_take_two_dims_are_told() -> None:
    assert lines(graph(*rows()), "1.10") == [
        "Softmax takes two dims, and is given 3: 2 nodes, 's_t3', 's_wide'",
        "Softmax takes two dims, and is given any number: 1 node, 's_any'",
        "LogSoftmax takes two dims, and is given 3: 1 node, 'l_t3'",
        "LogSoftmax takes two dims, and is given any number: 1 node, 'l_any'",
    ]
    assert lines(graph(*rows()), "1.12") == []
    found = graph(*rows())
    compat(found, "1.10")
    assert graphs.ops(found)["s_t2"] == "Softmax" and graphs.ops(found)["s_any"] == "Reshape"


def test_check_tells_and_writes_nothing(desk: Desk) -> None:
    desk.put("model.pb", graphs.graph_bytes(X, add("y", "x", "x"), trailer=OLD))
    ran = desk.run("compat", "model.pb", "--target", "1.4", "--check")
    assert ran.code == 4 and ran.errors == ["Error: TensorFlow 1.4 does not know all of model.pb"]
    assert ran.out.decode().splitlines() == [
        "model.pb  2 nodes, 2 op types",
        "  target   TensorFlow 1.4 does not know all of it",
        "  unknown  there is no op 'AddV2' (1.5 is the first to have it): 1 node, 'y'",
    ]
    assert "Hint: gdsurgeon compat model.pb --target 1.4 -o OUT" in ran.err
    ran = desk.run("compat", "model.pb", "--target", "1.15", "--check")
    assert (ran.code, ran.err) == (0, "") and "  target   TensorFlow 1.15 knows all of it" in ran.out.decode()
    found = json.loads(desk.run("compat", "model.pb", "--target", "1.4", "--check", "--json").out)
    assert [(each["node"], each["op"], each["kind"]) for each in found["unknown"]] == [("y", "AddV2", "op")]
    assert found["error"]["code"] == "not-compatible" and found["exit_code"] == 4
    check_refused(desk, 2, ("--json is for --check",), "compat", "model.pb", "--target", "1.4", "--json")
    assert list(desk.files()) == ["model.pb"]
    assert desk.run("compat", "model.pb", "--target", "1.15", "--check", "-o", "out.pb").code == 2


# -- attrs and versions ---------------------------------------------------------------------------------------


def conv(**attrs: object) -> bytes:
    return node("y", "Conv2D", ["x", "w"], T=FLOAT, strides=ONES, padding="SAME", **attrs)  # type: ignore[arg-type]


def test_attrs_with_the_default_of_later_releases_go() -> None:
    nodes = [placeholder("x", shape=(1, 4, 4, 1)), const("w", [1.0], shape=(1, 1, 1, 1))]
    before = [*nodes, conv(dilations=ONES, explicit_paddings=b"\x0a\x00", _note="kept")]
    result = expect(
        before, lambda g: compat(g, "1.4"), [*nodes, conv(_note="kept")], command="compat --target 1.4", trailer=OLD
    )
    assert ("dropped", "Conv2D.dilations, which is the later default: 1 node") in result.told
    other = graph(*nodes, conv(dilations=b"\x0a\x06\x1a\x04\x01\x02\x02\x01"))
    words = r"Conv2D has no attr 'dilations', which is \[1, 2, 2, 1\]; SpaceToBatchND in front .*: 1 node, 'y'"
    refuse(other, words, lambda g: compat(g, "1.4"))


def test_attrs_that_are_known_stay_with_their_defaults() -> None:
    nodes = [placeholder("x", shape=(1, 4, 4, 1)), const("w", [1.0], shape=(1, 1, 1, 1)), conv(dilations=ONES)]
    expect(nodes, lambda g: compat(g, "1.12"), nodes, trailer=versions(27))


def test_versions_become_those_of_the_release() -> None:
    said = b"\x08\xda\x0e\x10\x80\x10\x18\x1b\x18\x1a"  # producer 1882, min_consumer 2048, bad_consumers 27 and 26
    before = graph(X, node("y", "Neg", ["x"], T=FLOAT), trailer=graphs.encode_len(4, said))
    result = compat(before, "1.12")
    after = graphs.parsed(before).versions
    assert (after.producer, after.min_consumer, list(after.bad_consumers)) == (27, 27, [26])
    assert result.told == [
        ("versions", "producer 1882  ->  27, as TensorFlow 1.12 writes"),
        ("versions", "for GraphDef version 2048 and later  ->  27 and later"),
        ("versions", "not for GraphDef version 27  ->  for it, too"),
    ]
    with pytest.raises(NothingToDo, match=r"TensorFlow 1\.12 knows all of it"):
        compat(graph(X, node("y", "Neg", ["x"], T=FLOAT), trailer=versions(27)), "1.12")


def test_a_file_that_says_nothing_of_versions_goes_on_saying_nothing() -> None:
    expect(graph(X, add("y", "x", "x"), trailer=b""), lambda g: compat(g, "1.4"),
           [X, node("y", "Add", ["x", "x"], T=FLOAT)], trailer=b"")  # fmt: skip


def test_what_has_another_default_is_written_out() -> None:
    ragged = {"RAGGED_RANK": 1, "Tvalues": FLOAT, "batched_input": False}
    before = [placeholder("s", INT64), X, node("y", "RaggedTensorToVariant", ["s", "x"], **ragged)]
    after = [*before[:2], node("y", "RaggedTensorToVariant", ["s", "x"], **ragged, Tsplits=INT64)]
    expect(before, lambda g: compat(g, "1.15"), after, trailer=versions(134))


def test_defaults_can_be_spelt_out() -> None:
    newest = releases()[-1]
    for op, key in (("Conv2D", "dilations"), ("Conv2D", "data_format"), ("LeakyRelu", "alpha"), ("Cast", "Truncate"),
                    ("GatherV2", "batch_dims"), ("Where", "T"), ("Placeholder", "shape")):  # fmt: skip
        definition = newest.op_def(op)
        assert definition is not None
        assert same_value(spelt_out(definition.attrs[key]), definition.attrs[key]), key


# -- older forms ----------------------------------------------------------------------------------------------


def test_an_older_form_keeps_name_inputs_controls_and_device() -> None:
    before = [X, add("y", "x", "x", "^x", device="/cpu:0"), node("z", "Neg", ["y"], T=FLOAT)]
    after = [X, node("y", "Add", ["x", "x", "^x"], T=FLOAT, device="/cpu:0"), before[2]]
    result = expect(before, lambda g: compat(g, "1.4"), after, command="compat --target 1.4", trailer=OLD)
    assert ("replaced", "AddV2  ->  Add: 1 node") in result.told


def test_bodies_of_functions_are_older_too() -> None:
    body = [add("s", "x", "x"), node("y", "Neg", ["s:z:0"], T=FLOAT)]
    call = node("c", "F", ["x"])
    found = graph(X, call, trailer=library(function("F", *body)) + OLD)
    result = compat(found, "1.4")
    changed = graphs.parsed(found).library.function[0]
    assert [(n.op, list(n.input)) for n in changed.node_def] == [("Add", ["x", "x"]), ("Neg", ["s:z:0"])]
    assert result.intent.functions.changed == ["F"] and list(result.inside) == ["F"]


def test_a_constant_that_a_loop_needs_is_in_the_loop() -> None:
    found = graph(
        placeholder("x", shape=(2,)),
        node("enter", "Enter", ["x"], T=FLOAT, frame_name="loop"),
        node("y", "LeakyRelu", ["enter"], T=FLOAT, alpha=0.5),
        node("exit", "Exit", ["y"], T=FLOAT),
    )
    compat(found, "1.4")
    assert graphs.inputs(found)["y/alpha"] == ["^enter"]


REFUSED = {
    "its output 5, for gradients, is read": [
        placeholder("x", shape=(1, 2, 2, 1)),
        const("s", [1.0]),
        node("b", "FusedBatchNormV3", ["x", "s", "s", "s", "s"], T=FLOAT, U=FLOAT, is_training=False),
        node("y", "Neg", ["b:5"], T=FLOAT),
    ],
    "alpha is 1.5: with one from 0 to 1": [X, node("y", "LeakyRelu", ["x"], T=FLOAT, alpha=1.5)],
    "it is of float64: of float32": [
        placeholder("x", DOUBLE, (2,)), node("y", "LeakyRelu", ["x"], T=DOUBLE, alpha=0.5),
    ],
    "shapes that do not fit": [
        placeholder("x", shape=(-1,)),
        node("y", "Equal", ["x", "x"], T=FLOAT, incompatible_shape_error=False),
    ],
    "it pads what it gives": [
        placeholder("x", shape=(5, 4)), placeholder("s", shape=(5,)), scalar("n", 3, INT32), scalar("t", 0.5),
        node("y", "NonMaxSuppressionV4", ["x", "s", "n", "t", "t"], T=FLOAT, pad_to_max_output_size=True),
    ],
    "soft_nms_sigma is not a constant 0": [
        placeholder("x", shape=(5, 4)), placeholder("s", shape=(5,)), scalar("n", 3, INT32), scalar("t", 0.5),
        node("y", "NonMaxSuppressionV5", ["x", "s", "n", "t", "t", "t"], T=FLOAT),
    ],
    "more of it is read than which boxes": [
        placeholder("x", shape=(5, 4)), placeholder("s", shape=(5,)), scalar("n", 3, INT32), scalar("t", 0.5),
        scalar("z", 0), node("b", "NonMaxSuppressionV5", ["x", "s", "n", "t", "t", "z"], T=FLOAT),
        node("y", "Neg", ["b:1"], T=FLOAT),
    ],
    "ab,bc->a is no product of matrices": [
        X, node("y", "Einsum", ["x", "x"], T=FLOAT, N=2, equation="ab,bc->a"),
    ],
    "ab,b...->a... is no product of matrices": [
        X, node("y", "Einsum", ["x", "x"], T=FLOAT, N=2, equation="ab,b...->a..."),
    ],
    "ab->ba is no product of matrices": [X, node("y", "Einsum", ["x"], T=FLOAT, N=1, equation="ab->ba")],
    "its types are not the same": [
        placeholder("x", dtype(6), (2, 2)),
        node("y", "BatchMatMulV3", ["x", "x"], Ta=dtype(6), Tb=dtype(6), Tout=INT32),
    ],
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_has_no_older_form_is_refused_with_the_reason(why: str) -> None:
    refuse(graph(*REFUSED[why]), why, lambda g: compat(g, "1.4"))


def test_all_reasons_are_told_at_once() -> None:
    words = refuse(graph(X, node("f", "Foo", ["x"]), node("g", "Bar", ["x"])), "TensorFlow 2.3 cannot take model.pb:",
                   lambda g: compat(g, "2.3"))  # fmt: skip
    assert words.code == "not-compatible"
    assert words.details == tuple(
        f"no TensorFlow has the op '{op}': 1 node, '{n}'" for op, n in (("Foo", "f"), ("Bar", "g"))
    )


def test_there_are_releases_of_which_there_is_no_table() -> None:
    words = r"no table of TensorFlow '0\.12': there is one of each from 1\.4 to"
    error = refuse(graph(X), words, lambda g: compat(g, "0.12"), error=UsageError)
    assert error.code == "no-such-release" and "2.3" in error.facts["releases"]
    for asked, near in (("1.3", False), ("v1.15", True)):
        said = refuse(graph(X), f"TensorFlow '{asked}'", partial(compat, target=asked), error=UsageError).message
        assert ("Did you mean '1.15'?" in said) == near
    json.dumps(error.facts)


def broadcasting() -> list[bytes]:
    """Products and choices of tensors of several shapes, known and not."""
    out = [
        placeholder("a", shape=(-1, 1, 2, 3)),
        placeholder("b", shape=(2, 3, 2)),
        placeholder("n"),
        placeholder("row"),
    ]
    out += [node("m", "BatchMatMulV2", ["a", "b"], T=FLOAT), node("m2", "BatchMatMulV2", ["b", "n"], T=FLOAT)]
    out += [node("mx", "BatchMatMulV2", ["b", "b"], T=FLOAT, adj_x=False, adj_y=True)]
    out += [
        scalar("zero", 0),
        node("c", "Greater", ["b", "zero"], T=FLOAT),
        node("c0", "All", ["c", "all"], Tidx=INT32),
    ]
    out += [const("all", [0, 1, 2], INT32), const("last", [1], INT32)]
    out += [node("cl", "All", ["c", "last"], Tidx=INT32)]  # (2, 2)
    out += [node("s", "SelectV2", ["c", "zero", "b"], T=FLOAT), node("s2", "SelectV2", ["cl", "n", "zero"], T=FLOAT)]
    out += [node("s3", "SelectV2", ["c0", "b", "zero"], T=FLOAT), node("s4", "SelectV2", ["c", "b", "b"], T=FLOAT)]
    out += [node("cn", "Greater", ["row", "zero"], T=FLOAT), node("s5", "SelectV2", ["cn", "row", "b"], T=FLOAT)]
    out += [node("w", "BroadcastTo", ["n", "wide"], T=FLOAT, Tidx=INT64), const("wide32", [2, 3, 2, 2], INT32)]
    out += [node("wide", "Cast", ["wide32"], SrcT=INT32, DstT=INT64)]
    return out


def contracting() -> list[bytes]:
    """Products in the forms that attention has them in, and plain ones; those that keep the order add no Transpose."""
    out = [placeholder("p", shape=(-1, 3, 2, 4)), placeholder("q", shape=(-1, 3, 2, 4)), placeholder("m", shape=(3, 2))]
    out += [node("e0", "Einsum", ["p", "q"], T=FLOAT, N=2, equation="aecd,abcd->acbe")]
    out += [node("e1", "Einsum", ["p", "q"], T=FLOAT, N=2, equation="abcd,aecd->aceb")]
    out += [node("e5", "Einsum", ["e0", "q"], T=FLOAT, N=2, equation="acbe,aecd->abcd")]
    out += [node("e6", "Einsum", ["m", "m"], T=FLOAT, N=2, equation="ab,cb->ca")]
    return [*out, node("e7", "Einsum", ["m", "k"], T=FLOAT, N=2, equation="ij,jk->ik"), placeholder("k", shape=(2, 2))]


def rows() -> list[bytes]:
    """Softmaxes of tensors of several ranks, known and not."""
    out = [placeholder("t3", shape=(2, 3, 4)), placeholder("t2", shape=(-1, 3)), placeholder("any")]
    out += [placeholder("wide", shape=(2, 2, -1))]
    out += [node(f"s_{of}", "Softmax", [of], T=FLOAT) for of in ("t3", "t2", "any", "wide")]
    return [*out, node("l_t3", "LogSoftmax", ["t3"], T=FLOAT), node("l_any", "LogSoftmax", ["any"], T=FLOAT)]


def others() -> list[bytes]:
    norm = node("bn", "FusedBatchNormV3", ["i", "two", "two", "two", "two"], T=FLOAT, U=FLOAT, is_training=False)
    out = [placeholder("i", shape=(-1, 3, 3, 2)), const("two", [1.5, 2.5]), norm]
    out += [
        node("v", "LeakyRelu", ["i"], T=FLOAT, alpha=0.25),
        add("av", "v", "v"),
        node("e", "EnsureShape", ["v"], T=FLOAT, shape=(-1, 3, 3, 2)),
    ]
    out += [scalar("q", 0.5), node("eq", "Equal", ["i", "q"], T=FLOAT, incompatible_shape_error=False)]
    out += [placeholder("boxes", shape=(-1, 4)), placeholder("scores", shape=(-1,)), scalar("k", 4, INT32)]
    out += [scalar("iou", 0.5), scalar("thr", 0.4), scalar("none", 0)]
    nms = ["boxes", "scores", "k", "iou", "thr"]
    out += [node("n3", "NonMaxSuppressionV3", nms, T=FLOAT), node("n4", "NonMaxSuppressionV4", nms, T=FLOAT)]
    out += [node("n5", "NonMaxSuppressionV5", [*nms, "none"], T=FLOAT)]
    return out


ELSEWHERE = {rule.op for family in (diagonals, padding, resizing, texts) for rule in family.RULES}
"""Those that `test_compat_arrays`, `test_compat_images` and `test_compat_texts` run."""


@pytest.mark.tensorflow
def test_older_forms_give_the_same_bit_for_bit() -> None:
    """All of them, in one graph each for what is fed; and they are those that there are."""
    import numpy as np

    rng = np.random.default_rng(1)

    def normal(*shape: int) -> object:
        return rng.normal(size=shape).astype(np.float32)

    corners = rng.uniform(0, 1, (9, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.1, 0.6, (9, 2))], 1).astype(np.float32)
    fed = [
        (broadcasting(), {"a": normal(3, 1, 2, 3), "b": normal(2, 3, 2), "n": normal(2, 2), "row": normal(2)}),
        (
            broadcasting(),
            {"a": normal(0, 1, 2, 3), "b": normal(2, 3, 2), "n": normal(1, 2, 2), "row": normal(1, 1, 3, 1)},
        ),
        (others(), {"i": normal(2, 3, 3, 2), "boxes": boxes, "scores": rng.uniform(size=9).astype(np.float32)}),
        (rows(), {"t3": normal(2, 3, 4), "t2": normal(2, 3), "any": normal(5), "wide": normal(2, 2, 3)}),
        (rows(), {"t3": normal(2, 3, 4), "t2": normal(0, 3), "any": normal(1, 2, 1, 3), "wide": normal(2, 2, 3)}),
        (contracting(), {"p": normal(2, 3, 2, 4), "q": normal(2, 3, 2, 4), "m": normal(3, 2), "k": normal(2, 2)}),
        (others(), {"i": normal(1, 3, 3, 2), "boxes": boxes[:0], "scores": np.zeros(0, np.float32)}),
    ]
    seen = set()
    for records, feeds in fed:
        found = graph(*records)
        old = graphs.written(found)
        wanted = [name for name, op in graphs.ops(found).items() if op in RULES]
        seen |= {graphs.ops(found)[name] for name in wanted}
        result = compat(found, "1.4")
        check_accounted(found, result, found.chunks())
        assert run(found, *wanted, **feeds) == run(old, *wanted, **feeds)
    assert RULES.keys() - seen == {
        "BatchMatMulV3", "NotEqual", "TensorArrayV3", "DisableCopyOnRead", "StatelessCase", "GatherV2",
        "MatrixBandPart", *ELSEWHERE,
    }  # fmt: skip
