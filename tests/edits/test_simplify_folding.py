"""simplify: values that depend only on constants or on known shapes become constants; and values that must not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.desk import Desk, check_error
from support.evaluating import Evaluations, array, by_tensorflow
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    add,
    const,
    graph,
    identity,
    neg,
    node,
    placeholder,
    relu,
    scalar,
    typed,
)
from support.running import run
from support.simplifying import simplified, stays
from support.system import is_linear
from support.v1_control_flow import while_loop

from gdsurgeon.compare.comparison import compare_files
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.runtime.evaluator import Evaluator
from gdsurgeon.runtime.tensor import Tensor, from_numpy
from gdsurgeon.specification.equivalence import Certificate
from gdsurgeon.specification.specify import Asked, violations

X = placeholder("x", FLOAT, (-1, 3))


def product(name: str, a: str, b: str, *controls: str, kind: bytes = FLOAT) -> bytes:
    return typed("Mul", name, a, b, *controls, kind=kind)


def folded(*records: bytes, evaluate: Any = None, **how: Any) -> tuple[Graph, EditResult]:
    """The graph of RECORDS, simplified; constants are computed by EVALUATE."""
    return simplified(*records, evaluate=evaluate or Evaluations(), **how)


def unfolded(*records: bytes, **how: Any) -> Evaluations:
    """Nothing can be done for RECORDS; returns the evaluations that were needed to find this."""
    asked = Evaluations()
    stays(*records, evaluate=asked, **how)
    return asked


def test_one_batch_for_all_of_them() -> None:
    asked = Evaluations()
    pieces = [[const(f"a{i}", [1, 2, i]), const(f"b{i}", [4, 5, 6]), product(f"c{i}", f"a{i}", f"b{i}"),
               product(f"y{i}", "x", f"c{i}")] for i in range(5)]  # fmt: skip
    folded(X, *(record for piece in pieces for record in piece), evaluate=asked)
    assert [sorted(names) for names in asked.asked] == [[f"c{i}" for i in range(5)]]


def test_the_certificate_has_the_bytes_of_the_constant_and_no_copy() -> None:
    edited = graph(X, const("a", [1, 2, 3]), const("b", [4, 5, 6]), product("c", "a", "b"), add("y", "x", "c"))
    (stage,) = simplify(edited, evaluate=Evaluations()).stages
    (certificate,) = stage.result.decided.values()
    assert isinstance(certificate, Certificate)
    assert certificate.constants["c"] is edited["c"].attr_bytes("value")


def test_what_follows_from_a_folded_constant_is_found() -> None:
    ones = [const("a", [0.5]), const("b", [2]), const("s", [], INT32), product("c", "a", "b"),
            typed("Reshape", "one", "c", "s")]  # fmt: skip
    found, _ = folded(X, *ones, product("m", "x", "one"), typed("Relu", "y", "m"))
    assert graphs.ops(found) == {"x": "Placeholder", "y": "Relu"}


def test_a_constant_that_only_folded_nodes_shared() -> None:
    ones = [const("a", [2]), const("b", [4, 5, 6]), product("c", "a", "b"), product("d", "b", "b")]
    found, _ = folded(X, *ones, product("y", "x", "c"), product("z", "x", "d"))
    assert graphs.names(found) == ["x", "c", "d", "y", "z"]


# -- what stays ---------------------------------------------------------------------------------------------------


def test_a_file_does_not_grow() -> None:
    grid = [const("w", list(range(50)), FLOAT, (1, 50)), const("times", [40, 1], INT32),
            typed("Tile", "g", "w", "times")]  # fmt: skip
    asked = unfolded(X, *grid, typed("MatMul", "y", "x", "g"))
    assert ["g"] in asked.asked  # small enough to be looked at
    found, _ = folded(X, *grid, typed("MatMul", "y", "x", "g"), max_growth=8000)
    assert graphs.ops(found)["g"] == "Const"
    assert found.source.size < len(graphs.written(found)) <= found.source.size + 8000


def test_a_splat_is_one_number_and_a_big_one_stays() -> None:
    def fill(*dims: int) -> list[bytes]:
        return [const("dims", dims, INT32), scalar("two", 2), typed("Fill", "f", "dims", "two"),
                typed("MatMul", "y", "x", "f")]  # fmt: skip

    found, _ = folded(X, *fill(3, 500))
    assert graphs.ops(found)["f"] == "Const"
    assert graphs.parsed(found).node[1].attr["value"].tensor.float_val == [2]
    for passes in ([], ["constants", "unread"]):
        assert unfolded(X, *fill(3, 50000), passes=passes).asked == []  # nor is it computed


def test_what_is_too_large_leaves_what_it_is_computed_of() -> None:
    dims = [const("a", [300], INT32), const("b", [100], INT32), product("dims", "a", "b", kind=INT32)]
    found, _ = folded(X, *dims, scalar("k", 2), typed("Fill", "f", "dims", "k"), add("y", "x", "f"))
    assert graphs.ops(found) == {"x": "Placeholder", "dims": "Const", "k": "Const", "f": "Fill", "y": "AddV2"}


def test_a_weight_that_others_read_is_not_doubled() -> None:
    w = const("w", list(range(900)), FLOAT, (30, 30))
    turned = [const("turn", [1, 0], INT32), typed("Transpose", "t", "w", "turn", Tperm=INT32)]
    x = placeholder("x", FLOAT, (-1, 30))
    first, second = (typed("MatMul", name, "x", source) for name, source in (("y", "t"), ("z", "w")))
    unfolded(x, w, *turned, first, second)
    found, _ = folded(x, w, *turned, first)
    assert graphs.names(found) == ["x", "t", "y"]


def test_what_is_in_a_loop_or_a_branch_stays_there() -> None:
    inner = [node(f"w/{i}", "Const", ["^w/i"], dtype=FLOAT, value=graphs.tensor([i], FLOAT, ())) for i in (5, 6)]
    loop = [*inner, product("w/30", "w/5", "w/6"), add("w/plus", "w/v", "w/30"), product("w/n", "w/three", "w/three"),
            add("w/both", "w/plus", "w/n")]  # fmt: skip
    found, _ = folded(*while_loop(*loop, result="w/both"), scalar("k", 1))
    assert {"w/5", "w/6", "w/30", "w/three", "w/n"} <= set(graphs.names(found))
    assert graphs.ops(found)["w/n"] == "Mul"  # a constant there would be one for each turn, or outside
    rank = [typed("Rank", "w/rank", "w/v"), node("w/float", "Cast", ["w/rank"], SrcT=INT32, DstT=FLOAT)]
    found, _ = folded(*while_loop(*rank, add("w/plus", "w/v", "w/float"), result="w/plus"), scalar("k", 1))
    assert graphs.ops(found)["w/rank"] == "Rank"


def test_what_draws_or_reaches_a_file_stays() -> None:
    shape = const("s", [2, 3], INT32)
    drawn = typed("RandomUniform", "r", "s", kind=INT32, dtype=FLOAT)
    name = node("name", "Const", dtype=STRING, value=graphs.encode_len(8, b"\x08\x07\x12\x00\x42\x01v"))
    read = node("f", "ReadFile", ["name"])
    assert unfolded(X, shape, drawn, add("y", "x", "r"), name, read, node("l", "StringLength", ["f"])).asked == []
    call = node("c", "PartitionedCall", ["s"], f=graphs.func("F"), Tin=graphs.dtypes(INT32), Tout=graphs.dtypes(INT32))
    body = graphs.library(graphs.function("F", neg("y", "x", kind=INT32)))
    unfolded(X, shape, call, typed("Reshape", "y", "x", "c"), body, skip=["inline"])


def test_what_waits_is_not_folded_before_its_time() -> None:
    said = node("p", "PrintV2", ["text"])
    text = node("text", "Const", dtype=STRING, value=graphs.encode_len(8, b"\x08\x07\x12\x00\x42\x01v"))
    unfolded(X, text, said, scalar("a", 1), scalar("b", 2), product("c", "a", "b", "^p"), add("y", "x", "c"))


def test_who_cannot_compute_leaves_it() -> None:
    def broken(data: bytes, names: Sequence[str]) -> Any:
        raise NotValidatedError("no TensorFlow", code="no-engine")

    found = graph(X, scalar("a", 1.5), scalar("b", 2), product("c", "a", "b"), add("i", "x", "c"), identity("j", "i"),
                  typed("Relu", "y", "j"))  # fmt: skip
    result = simplify(found, evaluate=broken)
    assert graphs.ops(found)["c"] == "Mul"
    (note,) = result.notes
    check_error(note, "not-computed", {"reason": "no-engine"})


def test_devices_stay_and_neighbours_do_not() -> None:
    inner = typed("Mul", "c", "a", "b", device="/cpu:0", _class=["loc:@a"])
    found, _ = folded(X, const("a", [1, 2, 3]), const("b", [3, 2, 1]), inner, typed("Neg", "n", "x", _class=["loc:@b"]),
                      add("y", "n", "c"))  # fmt: skip
    assert found["c"].device == "/cpu:0"
    assert graphs.colocations(found) == {}


# -- sums of integers ---------------------------------------------------------------------------------------------


def sums(*forms: str, kind: Any = INT32, one: Sequence[int] = (1 << 30,), two: Sequence[int] = (7,)) -> list[bytes]:
    """Sums of integers, each of the one before, given as their op and their inputs."""
    parts = [form.split() for form in forms]
    steps = [typed(op, f"s{i}", *reads, kind=kind) for i, (op, *reads) in enumerate(parts)]
    constants = [const(name, list(value), kind, () if len(value) == 1 else None)
                 for name, value in (("one", one), ("two", two))]  # fmt: skip
    return [placeholder("i", kind, (2,)), *constants, *steps, typed("Abs", "y", f"s{len(steps) - 1}", kind=kind)]


REGROUPED = [
    (first, then)
    for first in ("AddV2 i one", "Add one i", "Sub i one", "Sub one i")
    for then in ("Add s0 two", "AddV2 two s0", "Sub s0 two", "Sub two s0")
]


@pytest.mark.parametrize(("first", "then"), REGROUPED)
def test_constants_of_a_sum_of_integers_are_one(first: str, then: str) -> None:
    records = sums(first, then)
    found, result = folded(*records, evaluate=by_tensorflow)
    assert sorted(graphs.ops(found)) == ["i", "s0", "s1", "y"] and graphs.ops(found)["s0"] == "Const"
    assert result.claims == (SameOutputs(deployed=True),)  # s0 has a different value
    fed = {"i": np.array([2**31 - 1, -(2**31)], np.int32)}
    assert run(found, "y", "s1", **fed) == run(graph(*records), "y", "s1", **fed)


@pytest.mark.parametrize("kind", ["int64", "uint8", "int8", "int16", "uint16", "uint32", "uint64"])
def test_sums_of_all_integers(kind: str) -> None:
    most = NUMBERS[kind].bounds[1]
    for forms in (["AddV2 i one", "Sub s0 two"], ["Sub one i", "AddV2 s0 two"], ["Sub i one", "Sub s0 two"]):
        given = [placeholder("p", INT32, (2,)), node("i", "Cast", ["p"], SrcT=INT32, DstT=kind, Truncate=False)]
        records = [*given, *sums(*forms, kind=kind, one=(most,), two=(most - 3, 5))[1:-1]]
        records.append(typed("Identity", "y", "s1", kind=kind))
        found, _ = folded(*records, evaluate=by_tensorflow, passes=["constants", "unread"])
        assert sorted(graphs.ops(found)) == ["i", "p", "s0", "s1", "y"]
        fed = {"p": np.array([-1, 5])}
        assert run(found, "y", **fed) == run(graph(*records), "y", **fed)


def test_a_chain_of_sums_is_one() -> None:
    def chain(count: int) -> list[bytes]:
        return sums("AddV2 i one", *(f"{'Sub' if n % 3 else 'AddV2'} s{n} two" for n in range(count)))

    found, _ = folded(*chain(6), evaluate=by_tensorflow)
    assert sorted(graphs.ops(found)) == ["i", "s5", "s6", "y"]
    fed = {"i": np.array([2**31 - 1, -(2**31)], np.int32)}
    assert run(found, "y", **fed) == run(graph(*chain(6)), "y", **fed)
    assert is_linear(lambda n: partial(simplified, *chain(n), again=False, evaluate=by_tensorflow), 60, 240)


def test_sums_that_stay() -> None:
    plain = ("AddV2 i one", "AddV2 s0 two")
    unfolded(*sums(*plain, kind=FLOAT))
    unfolded(
        *sums(*plain), typed("Identity", "z", "s0", kind=INT32), skip=["identities"]
    )  # another node reads the first sum
    unfolded(*sums(*plain), typed("Abs", "z", "i", "^s0", kind=INT32), skip=["control-edges"])
    unfolded(*sums(*plain), outputs=["y", "s0"])
    unfolded(*sums(*plain, one=(1, 2, 3), two=(1, 2)))
    unfolded(*sums(*plain), skip=["constants"])
    column = [const("column", [[1], [2]], INT32), placeholder("i", INT32, (2, 2)), const("row", [[3, 4]], INT32)]
    unfolded(*column, typed("AddV2", "s0", "i", "column", kind=INT32), typed("AddV2", "y", "s0", "row", kind=INT32))


WRONG_SUMS: dict[str, tuple[list[bytes], list[str], dict[str, Any]]] = {
    "sign": ([], ["Sub one two", "AddV2 i s0"], {}),
    "term": ([], ["AddV2 one one", "AddV2 i s0"], {}),
    "op": ([], ["Mul one two", "AddV2 i s0"], {}),
    "read": ([typed("Abs", "z", "s0", kind=INT32)], ["AddV2 one two", "AddV2 i s0"], {}),
    "awaited": ([node("z", "NoOp", ["^s0"])], ["AddV2 one two", "AddV2 i s0"], {}),
    "output": ([], ["AddV2 one two", "AddV2 i s0"], {"outputs": ["y", "s0"]}),
    "float": ([], ["AddV2 one two", "AddV2 i s0"], {"kind": FLOAT}),
    "waits": ([], ["AddV2 one two ^i", "AddV2 i s0"], {}),
}


@pytest.mark.parametrize(("more", "forms", "how"), WRONG_SUMS.values(), ids=WRONG_SUMS)
def test_a_wrong_sum_is_found(more: list[bytes], forms: list[str], how: dict[str, Any]) -> None:
    asked = Asked("integer_sums", {"outputs": how.get("outputs", [])})

    def faults(*after: str) -> list[str]:
        both = [[*sums(*each, kind=how.get("kind", INT32)), *more] for each in (["AddV2 i one", "AddV2 s0 two"], after)]
        return [*violations(compare_files(*(graph(*records) for records in both)), asked)]

    assert faults(*forms)
    assert (not faults("AddV2 two one", "Add s0 i")) == (not more and not how)


# -- shapes -------------------------------------------------------------------------------------------------------


def test_the_work_of_folding_grows_with_the_graph() -> None:
    def rows(count: int) -> Any:
        records = [X]
        for i in range(count):
            records += [const(f"a{i}", [i, 2, 3]), const(f"b{i}", [4, 5, i]), product(f"c{i}", f"a{i}", f"b{i}"),
                        product(f"y{i}", "x", f"c{i}")]  # fmt: skip
        return partial(simplified, graph(*records), again=False, evaluate=_fives)

    def chain(count: int) -> Any:
        records = [X, const("a0", [1, 2, 3]), const("b", [4, 5, 6])]
        records += [product(f"a{i + 1}", f"a{i}", "b") for i in range(count)]
        return partial(simplified, graph(*records, add("y", "x", f"a{count}")), again=False, evaluate=_fives)

    assert is_linear(rows, 20, 80)
    assert is_linear(chain, 20, 80)


def _fives(data: bytes, names: Sequence[str]) -> Mapping[str, Tensor]:
    del data
    return {name: from_numpy(np.full(3, 5, np.float32)) for name in names}


def test_what_comes_of_a_function_is_compared_where_it_was_there_before() -> None:
    b = node("b", "Const", dtype=FLOAT, value=graphs.tensor([4, 5, 6]))
    body = graphs.function("F", b, product("c", "b:output:0", "b:output:0"), product("z", "c:z:0", "x"), ret="z:z:0")
    call = node("y", "PartitionedCall", ["x"], f=graphs.func("F"), Tin=graphs.dtypes(FLOAT), Tout=graphs.dtypes(FLOAT))
    found, result = folded(X, call, typed("Relu", "r", "y"), graphs.library(body))
    assert sorted(graphs.ops(found).values()) == ["Const", "Mul", "Placeholder", "Relu"]
    assert isinstance(result.claims[0], SameOutputs)
    assert result.claims[0].also == ()


# -- by TensorFlow ------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_what_does_not_run_leaves_the_rest() -> None:
    bad = [const("a", [0, 0, 1], INT32), typed("InvertPermutation", "r", "a", kind=INT32),
           typed("Reshape", "z", "x", "r")]  # fmt: skip
    good = [const("b", [4, 5, 6]), const("k", [1, 2, 3]), product("c", "k", "b"), add("y", "x", "c")]
    found = graph(placeholder("x", FLOAT), *bad, *good)
    with Evaluator() as evaluate:
        simplify(found, evaluate=evaluate)
    assert {"c": "Const", "r": "InvertPermutation"}.items() <= graphs.ops(found).items()


def test_a_constant_of_no_elements_has_its_shape() -> None:
    records = [placeholder("x", FLOAT, (-1, 4)), const("empty", [], FLOAT, (4, 0)), const("turn", [1, 0], INT32),
               typed("Transpose", "t", "empty", "turn", Tperm=INT32), scalar("axis", 0, INT32),
               typed("ConcatV2", "y", "x", "t", "axis", N=2, Tidx=INT32)]  # fmt: skip
    found, _ = folded(*records, evaluate=by_tensorflow)
    assert array(found["t"]).shape == (0, 4)
    assert run(found, "y", x=[[0.5, 1.5, 2.5, 3.5]]) == [[[0.5, 1.5, 2.5, 3.5]]]


@pytest.mark.tensorflow
def test_constants_that_are_compared_are_no_outputs(desk: Desk) -> None:
    twice = [typed("Mul", "c", "a", "a"), neg("d", "a")]
    sums = [add("e", "x", "c"), add("f", "e", "d"), relu("y", "f")]
    desk.put("m.pb", graphs.graph_bytes(placeholder("x", FLOAT, (2,)), const("a", [1.5, 2.0]), *twice, *sums))
    desk.put("script", b"simplify --outputs y --max-growth 999\nrename y=z\n")
    plain = ("simplify", "m.pb", "--max-growth", "999")
    shaped, asked = (*plain, "--shape", "x=2"), (*plain, "--outputs", "y")
    for arguments in (plain, asked, shaped, ("apply", "m.pb", "script")):
        desk.done(*arguments, "-n", "--report", "r.json")
        proof = json.loads((desk.folder / "r.json").read_text())["proof"]
        assert proof["compared"] == 1
        assert {each["original"]: each["inner"] for each in proof["outputs"]} == {"y": False, "c": True, "d": True}


VALUE = graph(const("c", [1, 2, 3]))["c"].attr_bytes("value") or b""


def faults(before: Sequence[bytes], after: Sequence[bytes], *constants: str, **equal: str) -> list[str]:
    """The faults that the check finds if a certificate says that CONSTANTS are 1, 2, 3."""
    asked = Asked("simplify", {"passes": ("constants", "equal-nodes", "unread"), "max_growth": 1 << 10})
    certificate = Certificate(equal, constants=dict.fromkeys(constants, VALUE))
    return list(violations(compare_files(graph(*before), graph(*after)), asked, {"certificate": certificate}))


def test_the_check_follows_the_inputs_of_a_constant_to_the_end() -> None:
    rest = [X, relu("y", "b")]
    found = faults([*rest, neg("a", "x"), neg("b", "a")], [*rest, const("b", [1, 2, 3])], "a", "b")
    assert "'b' became a constant, but depends on more than constants and shapes" in found


def test_a_constant_of_the_file_keeps_its_value() -> None:
    rest = [X, add("y", "x", "c")]
    assert faults([*rest, const("c", [4, 5, 6])], [*rest, const("c", [1, 2, 3])], "c")


def test_a_constant_is_not_equal_to_one_that_runs_in_a_branch() -> None:
    branch = [X, placeholder("p", BOOL, ()), typed("Switch", "s", "x", "p"), identity("t", "s:1"),
              const("w", [1, 2, 3], controls=["^t"]), add("z", "t", "w")]  # fmt: skip
    before = [*branch, const("c", [-1, -2, -3]), neg("n", "c"), add("y", "x", "n")]
    found = faults(before, [*branch, add("y", "x", "w")], "n", n="w")
    assert found == ["'y' reads 'w' instead of 'n', which is not equal"]


def test_a_rule_may_match_a_node_that_becomes_an_equal_constant() -> None:
    records = [X, scalar("k", 0), typed("Abs", "once", "k"), typed("Abs", "twice", "once")]
    found, _ = folded(*records, add("y", "twice", "x"), add("z", "k", "x"), max_growth=100)
    assert graphs.inputs(found) == {"x": [], "k": [], "y": ["k", "x"], "z": ["k", "x"]}
