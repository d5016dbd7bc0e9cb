"""extract: the part of a graph that computes some outputs from some inputs."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick_some
from support.expecting import check_graph, expect
from support.extracting import model, named, refused
from support.graph_editor_running import float32, run
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    add,
    const,
    graph,
    graph_bytes,
    identity,
    node,
    placeholder,
)

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.extract import extract
from gdsurgeon.errors import EditError
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.client import Worker

# -- cutting at outputs --------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_outputs_alone(worker: Worker) -> None:
    found = graph(*model())
    result = expect(found, lambda g: extract(g, [], ["head"]), named("x", "w", "conv", "relu", "k", "head"))
    assert result.intent.removed == ["aux", "other", "apart"]
    assert result.intent.added == result.notes == []
    assert result.claims == (SameGiven({}, (("head", "head"),), "edited(x) = original(x)"),)
    assert run(worker, found, "head", fed={"x": float32([[1, -1]])}) == [[[0, 0, 0]]]


def test_bytes_of_what_stays_are_copied() -> None:
    found = graph(*model())
    extract(found, [], ["head"])
    assert graphs.written(found) == graph_bytes(*named("x", "w", "conv", "relu", "k", "head"))


def test_several_outputs() -> None:
    found = graph(*model())
    (claim,) = extract(found, [], ["aux", "apart", "aux:0"]).claims
    check_graph(found, *named("x", "w", "conv", "relu", "aux", "other", "apart"))
    assert isinstance(claim, SameGiven)
    assert claim.outputs == (("aux", "aux"), ("apart", "apart"))


def test_an_output_that_is_read_inside_too() -> None:
    found = graph(*model())
    (claim,) = extract(found, [], ["relu", "head"]).claims
    check_graph(found, *named("x", "w", "conv", "relu", "k", "head"))
    assert isinstance(claim, SameGiven)
    assert claim.outputs == (("relu", "relu"), ("head", "head"))


def test_an_inner_tensor_as_the_only_output() -> None:
    expect(model(), lambda g: extract(g, [], ["conv"]), named("x", "w", "conv"))


def test_a_constant_as_output() -> None:
    expect(model(), lambda g: extract(g, [], ["w"]), named("w"))


def test_a_placeholder_as_output() -> None:
    expect(model(), lambda g: extract(g, [], ["x"]), named("x"))


def test_output_1() -> None:
    records = [placeholder("x", FLOAT, (4,)), const("axis", [0], INT32, ()),
               node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2), identity("p", "s")]  # fmt: skip
    found = graph(*records)
    (claim,) = extract(found, [], ["s:1"]).claims
    check_graph(found, *records[:3])
    assert isinstance(claim, SameGiven) and claim.outputs == (("s:1", "s:1"),)


# -- cutting at inputs ---------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_a_cut_input_becomes_a_placeholder_of_its_name_dtype_and_shape(worker: Worker) -> None:
    found = graph(*model())
    result = expect(
        found, lambda g: extract(g, ["relu"], ["head"]), [placeholder("relu", FLOAT, (-1, 3)), *named("k", "head")]
    )
    assert result.intent.added == ["relu"]
    assert result.intent.removed == ["x", "w", "conv", "aux", "other", "apart"]
    (claim,) = result.claims
    assert claim == SameGiven({"relu": "relu"}, (("head", "head"),), "edited(x) = original(x, relu given)")
    assert run(worker, found, "head", fed={"relu": float32([[1, 2, 3]])}) == [[[10, 40, 90]]]


def test_inputs_may_be_tensors() -> None:
    found = graph(*model())
    expect(
        found,
        lambda g: extract(g, [g.tensor("relu")], [g["head"].output]),
        [placeholder("relu", FLOAT, (-1, 3)), *named("k", "head")],
    )


def test_a_cut_input_stands_where_the_tensor_was_made() -> None:
    found = graph(const("z", [1]), *model(), add("y", "z", "head"))
    extract(found, ["relu"], ["y"])
    assert graphs.names(found) == ["z", "relu", "k", "head", "y"]


def test_an_input_that_is_a_placeholder_stays_as_it_is() -> None:
    found = graph(*model())
    result = extract(found, ["x"], ["head"])
    assert graphs.written(found) == graph_bytes(*named("x", "w", "conv", "relu", "k", "head"))
    assert result.notes == []
    assert result.claims == (SameGiven({}, (("head", "head"),), "edited(x) = original(x)"),)


def test_a_constant_may_become_an_input() -> None:
    expect(
        model(),
        lambda g: extract(g, ["x", "w"], ["conv"]),
        [named("x")[0], placeholder("w", FLOAT, (2, 3)), *named("conv")],
    )


def test_other_placeholders_stay_inputs_and_are_noted() -> None:
    records = [*model(), placeholder("bias", FLOAT, (3,)), add("y", "head", "bias")]
    found = graph(*records)
    result = extract(found, ["relu"], ["y"])
    assert result.notes == ["'bias' stays an input: the outputs depend on it"]
    check_graph(found, placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"), *records[-2:])


def test_an_input_with_a_default_stays_one() -> None:
    records = [const("d", [1, 1, 1]), node("p", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=(3,)),
               *model(), add("y", "head", "p")]  # fmt: skip
    expect(
        records,
        lambda g: extract(g, ["relu"], ["y"]),
        [*records[:2], placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"), records[-1]],
    )


def test_the_same_input_twice_is_cut_once() -> None:
    found = graph(*model())
    result = extract(found, ["relu", "relu:0"], ["head"])
    assert result.intent.added == ["relu"]
    check_graph(found, placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"))


def test_an_input_above_another() -> None:
    """The outputs depend on the upper one by way of the lower one alone."""
    found = graph(*model())
    result = extract(found, ["conv", "relu"], ["head"])
    assert result.notes == ["'conv' is not needed: no output depends on it"]
    check_graph(found, placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"))


def test_an_input_that_no_output_depends_on_is_passed_over() -> None:
    found = graph(*model(), placeholder("spare"))
    result = extract(found, ["spare", "x"], ["head"])
    assert result.notes == ["'spare' is not needed: no output depends on it"]
    check_graph(found, *named("x", "w", "conv", "relu", "k", "head"))


def test_an_input_beside_another() -> None:
    records = [placeholder("x", FLOAT, (2,)), node("a", "Neg", ["x"], T=FLOAT), node("b", "Abs", ["a"], T=FLOAT),
               add("y", "a", "b")]  # fmt: skip
    expect(
        records,
        lambda g: extract(g, ["a", "b"], ["y"]),
        [placeholder("a", FLOAT, (2,)), placeholder("b", FLOAT, (2,)), records[3]],
    )


def split() -> list[bytes]:
    return [
        placeholder("x", FLOAT, (4,)), const("axis", [0], INT32, ()),
        node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2),
        node("p", "Neg", ["s"], T=FLOAT), node("q", "Sub", ["s:1", "p"], T=FLOAT),
    ]  # fmt: skip


@pytest.mark.tensorflow
def test_output_1_is_cut_while_output_0_is_still_needed(worker: Worker) -> None:
    found = graph(*split())
    result = expect(
        found,
        lambda g: extract(g, ["s:1"], ["q"]),
        [*split()[:3], placeholder("s_1", FLOAT, (2,)), split()[3], node("q", "Sub", ["s_1", "p"], T=FLOAT)],
    )
    assert result.intent.added == ["s_1"]
    assert result.notes == ["'x' stays an input: the outputs depend on it"]
    (claim,) = result.claims
    assert isinstance(claim, SameGiven) and claim.given == {"s:1": "s_1"}
    fed = {"x": float32([1, 2, 3, 4]), "s_1": float32([10, 20])}
    assert run(worker, found, "q", fed=fed) == [[11, 22]]


def test_output_0_is_cut_while_output_1_is_still_needed() -> None:
    found = graph(*split())
    result = extract(found, ["s:0"], ["q"])
    (added,) = result.intent.added
    assert added != "s"
    check_graph(found, *split()[:3], placeholder(added, FLOAT, (2,)), node("p", "Neg", [added], T=FLOAT), split()[4])


def test_both_outputs_are_cut() -> None:
    found = graph(*split())
    result = extract(found, ["s:1", "s"], ["q"])
    assert sorted(result.intent.added) == ["s", "s_1"]
    assert graphs.inputs(found) == {"s": [], "s_1": [], "p": ["s"], "q": ["s_1", "p"]}
    assert result.intent.removed == ["x", "axis"]


def test_the_name_of_a_new_placeholder_is_taken() -> None:
    found = graph(*split(), placeholder("s_1", FLOAT, (2,)), add("r", "q", "s_1"))
    result = extract(found, ["s:1"], ["r"])
    assert result.intent.added == ["s_1_1"]
    assert graphs.inputs(found)["q"] == ["s_1_1", "p"]
    assert graphs.inputs(found)["r"] == ["q", "s_1"]


def test_the_name_of_a_new_placeholder_is_that_of_a_node_that_goes() -> None:
    found = graph(*split(), identity("s_1", "x"), identity("s_input", "x"))
    result = extract(found, ["s", "s:1"], ["q"])
    assert len(set(result.intent.added)) == 2
    assert sorted(graphs.names(found)) == sorted([*result.intent.added, "p", "q"])
    assert not set(result.intent.removed) & set(graphs.names(found))


def test_a_tensor_as_input_and_output() -> None:
    found = graph(*model())
    (claim,) = extract(found, ["relu"], ["relu", "head"]).claims
    check_graph(found, placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"))
    assert isinstance(claim, SameGiven) and claim.outputs == (("head", "head"),)


@pytest.mark.parametrize("producer", [20, 24])
def test_an_unknown_shape_as_producers_spell_it(producer: int) -> None:
    trailer = graphs.versions(producer)
    records = [placeholder("x", FLOAT, None), identity("a", "x"), node("y", "Neg", ["a"], T=FLOAT)]
    found = graph(*records, trailer=trailer)
    extract(found, ["a"], ["y"])
    assert ("shape" in graphs.attrs(found, "a")) == (producer >= 24)


@pytest.mark.parametrize("kind", [BOOL, INT32, INT64, STRING, graphs.UINT8, graphs.DOUBLE])
def test_the_dtype_of_a_cut_input(kind: bytes) -> None:
    records = [placeholder("x", kind, (2, 1)), identity("a", "x", kind=kind), identity("y", "a", kind=kind)]
    expect(records, lambda g: extract(g, ["a"], ["y"]), [placeholder("a", kind, (2, 1)), records[2]])


def test_a_cut_where_the_dtype_is_unknown_is_refused() -> None:
    found = graph(placeholder("x"), node("u", "MyOp", ["x"]), identity("y", "u"))
    refused(found, r"the type of 'u' \(MyOp\) is not known", ["u"], ["y"])


# -- big graphs ----------------------------------------------------------------------------------------------


def test_two_long_chains() -> None:
    half = 5_000
    records = [placeholder("x", FLOAT, (1,))]
    for chain in "ab":
        records += [node(f"{chain}{i}", "Neg", [f"{chain}{i - 1}" if i else "x"], T=FLOAT) for i in range(half)]
    found = graph(*records)
    result = extract(found, [f"a{half // 2}"], [f"a{half - 1}"])
    assert len(result.intent.removed) == half + half // 2 + 1
    assert graphs.written(found) == graph_bytes(
        placeholder(f"a{half // 2}", FLOAT, (1,)), *records[2 + half // 2 : 1 + half]
    )


# -- any graph -----------------------------------------------------------------------------------------------


def producers(n: Any) -> list[tuple[str, int]]:
    """What a NodeDef reads, and (index -1) waits for."""
    out = []
    for text in n.input:
        name, _, index = text.lstrip("^").partition(":")
        out.append((name, -1 if text[0] == "^" else int(index or 0)))
    return out


def naive(message: Any, inputs: list[str], outputs: list[str]) -> tuple[set[str], set[tuple[str, int]]]:
    """The nodes that OUTPUTS need when INPUTS are given, and what those read."""

    def parsed(text: str) -> tuple[str, int]:
        name, _, index = text.partition(":")
        return name, int(index or 0)

    by_name = {n.name: n for n in message.node}
    given = {parsed(text) for text in inputs}
    pending = [name for name, index in map(parsed, outputs) if (name, index) not in given]
    kept: set[str] = set()
    read: set[tuple[str, int]] = set()
    while pending:
        name = pending.pop()
        if name in kept:
            continue
        kept.add(name)
        for producer in producers(by_name[name]):
            read.add(producer)
            if producer not in given:
                pending.append(producer[0])
    return kept, read


@st.composite
def extractions(draw: st.DrawFn) -> tuple[graphs.Drawn, list[str], list[str]]:
    drawn = draw(graphs.random_graphs())
    tensors = [f"{n.name}{index}" for n in drawn.message.node if n.op not in ("NoOp", "Custom", "MyCustomOp")
               for index in (("", ":1") if n.op == "Split" else ("",))]  # fmt: skip
    inputs = pick_some(draw, tensors, 2, unique=True)
    return drawn, inputs, pick_some(draw, tensors, 2, least=1, unique=True)


@given(extractions())
def test_any_extraction(case: tuple[graphs.Drawn, list[str], list[str]]) -> None:
    drawn, inputs, outputs = case
    kept, read = naive(drawn.message, inputs, outputs)
    found = from_bytes(drawn.data)
    try:
        result = extract(found, inputs, outputs)
    except EditError:
        assert graphs.written(found) == drawn.data
        unread = not any(is_read(t, read) for t in inputs) and inputs
        unknown = any(n.op == "MyCustomOp" for n in drawn.message.node)
        assert unread or unknown or (not inputs and kept == {n.name for n in drawn.message.node})
        return
    inputs = [t for t in inputs if is_read(t, read)]
    kept, _ = naive(drawn.message, inputs, outputs)
    (claim,) = [c for c in result.claims if isinstance(c, SameGiven)]
    places = dict(claim.given)
    assert set(places) == set(inputs)
    written = graphs.parsed(found)
    names = {n.name for n in written.node}
    assert names == kept | set(places.values()) and len(names) == len(written.node)
    old = {n.name: n for n in drawn.message.node}
    for new in written.node:
        if new.name in places.values():
            assert new.op == "Placeholder" and not new.input
            continue
        expected = [place_of(text, places) for text in old[new.name].input]
        assert (
            list(new.input)
            == [t for t in expected if t[0] != "^"] + list(dict.fromkeys(t for t in expected if t[0] == "^"))
            or list(new.input) == expected
        )
        entries = list(old[new.name].attr["_class"].list.s) if "_class" in old[new.name].attr else []
        assert set(new.attr["_class"].list.s) <= set(entries)
    assert {t.partition(":")[0] for o in outputs for t in [places.get(o, o)]} <= names
    assert check(from_bytes(graphs.written(found))).faults == []
    assert set(result.intent.removed) == set(old) - names


def is_read(text: str, read: Container[tuple[str, int]]) -> bool:
    name, _, index = text.partition(":")
    return (name, int(index or 0)) in read


def place_of(text: str, places: dict[str, str]) -> str:
    return places.get(text, text)
