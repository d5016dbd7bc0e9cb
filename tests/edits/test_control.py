"""control; the numbers are those of the section on control inputs of the specification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.expecting import expect, refuse
from support.graphs import BOOL, FLOAT, INT32, Drawn, add, const, g8, graph, identity, inputs, node, placeholder
from support.paths import FIXTURES

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.cli.main import exit_code
from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.control import Edge, control, control_outputs
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes


def refused(found: Graph, words: str, *, add: Sequence[Edge] = (), remove: Sequence[Edge] = ()) -> None:
    refuse(found, words, lambda g: control(g, add=add, remove=remove))


def test_adding_appends() -> None:
    found = graph(*g8())
    result = control(found, add=[("foo/bar/h", "^a"), ("foo/bar/h", "foo/d"), ("foo/bar/e", "a")])
    assert inputs(found)["foo/bar/h"] == ["foo/bar/f", "foo/bar/g", "^foo/c", "^a", "^foo/d"]
    assert inputs(found)["foo/bar/e"] == ["foo/c", "foo/d", "^a"]
    assert result.intent.changed == ["foo/bar/h", "foo/bar/e"]
    assert result.claims == (SameOutputs(),)
    assert result.notes[0] == "foo/bar/h waits for a"
    assert check(from_bytes(graphs.written(found))).faults == []


def test_what_is_there_is_not_added() -> None:
    refused(graph(*g8()), "'foo/bar/h' waits for 'foo/c' already", add=[("foo/bar/h", "^foo/c")])
    refused(graph(*g8()), "is given to 'foo/bar/e' twice", add=[("foo/bar/e", "^a"), ("foo/bar/e", "a")])


def test_removing() -> None:
    after = [*g8()[:-1], graphs.add("foo/bar/h", "foo/bar/f", "foo/bar/g")]
    command = "control --remove foo/bar/h=^foo/c"
    result = expect(g8(), lambda g: control(g, remove=[("foo/bar/h", "^foo/c")]), after, command=command)
    assert result.intent.changed == ["foo/bar/h"]
    assert result.notes == ["foo/bar/h no longer waits for foo/c"]


def test_what_is_not_there_is_not_removed() -> None:
    words = r"'foo/bar/h' does not wait for 'a': its control inputs are '\^foo/c'"
    refused(graph(*g8()), words, remove=[("foo/bar/h", "a")])
    refused(
        graph(*g8()), "'foo/bar/e' does not wait for 'foo/c': it has no control inputs", remove=[("foo/bar/e", "foo/c")]
    )
    refused(graph(*g8()), "'foo/bar/e' has no control inputs", remove=[("foo/bar/e", "^*")])


def test_control_outputs() -> None:
    found = graph(const("a", [1]), const("b", [1]), const("x", [1]), add("c", "a", "b", "^x", "^x"))
    assert control_outputs(found) == {found["x"]: [found["c"]]}
    control(found, add=[("b", "x"), ("c", "a")])
    assert control_outputs(found) == {found["x"]: [found["b"], found["c"]], found["a"]: [found["c"]]}


def test_all_control_inputs_of_a_node() -> None:
    found = graph(const("a", [1]), const("b", [1]), identity("c", "a", "^a", "^b"))
    result = control(found, remove=[("c", "*")])
    assert inputs(found)["c"] == ["a"]
    assert result.notes == [
        "c no longer waits for a",
        "c no longer waits for b",
        "nothing waits for b or reads it any more",
    ]


def test_one_that_is_there_twice_is_gone() -> None:
    found = graph(const("a", [1]), identity("c", "a", "^a", "^a"))
    control(found, remove=[("c", "a")])
    assert inputs(found)["c"] == ["a"]


def test_adding_and_removing_at_once() -> None:
    found = graph(const("a", [1]), const("b", [1]), identity("c", "a", "^a"))
    control(found, add=[("c", "b")], remove=[("c", "a")])
    assert inputs(found)["c"] == ["a", "^b"]
    refused(graph(const("a", [1]), identity("c", "a", "^a")), "already", add=[("c", "a")], remove=[("c", "a")])


def test_nodes_can_be_given() -> None:
    found, other = graph(*g8()), graph(*g8())
    control(found, add=[(found["foo/bar/e"], found["a"])])
    assert inputs(found)["foo/bar/e"][-1] == "^a"
    with pytest.raises(EditError, match="'a' belongs to another graph"):
        control(found, add=[("foo/bar/f", other["a"])])


def test_names_that_are_none() -> None:
    refused(graph(*g8()), "has no node 'foo/bar/i' .* Did you mean", add=[("foo/bar/i", "a")])
    refused(graph(*g8()), "has no node 'aa'", add=[("foo/bar/h", "^aa")])
    refused(graph(*g8()), "'a:0' is not a node", add=[("foo/bar/h", "a:0")])
    refused(graph(*g8()), "'^foo/bar/h' is not a node".replace("^", r"\^"), add=[("^foo/bar/h", "a")])
    refused(graph(*g8()), "no control edge is given")


def test_a_control_input_that_no_node_stands_behind_can_be_removed() -> None:
    found = graph(const("a", [1]), identity("c", "a", "^gone"))
    control(found, remove=[("c", "^gone")])
    assert inputs(found)["c"] == ["a"]


def test_cycles_are_refused_with_their_path() -> None:
    refused(graph(*g8()), "'a' cannot wait for itself", add=[("a", "a")])
    refused(graph(*g8()), "a cycle would come about: '.*' -> '.*' -> '.*'", add=[("a", "foo/bar/h")])
    found = graph(const("a", [1]), const("b", [1]))
    refused(found, "a cycle would come about: '[ab]' -> '[ab]' -> '[ab]'", add=[("a", "b"), ("b", "a")])
    long = graph(const("n0", [1]), *(identity(f"n{i + 1}", f"n{i}") for i in range(100)))
    with pytest.raises(EditError) as caught:
        control(long, add=[("n0", "n100")])
    assert len(caught.value.message) < 200 and "'...'" not in caught.value.message and " ... " in caught.value.message


def test_a_cycle_that_is_opened_in_the_same_edit() -> None:
    found = graph(const("a", [1]), identity("b", "a"), node("w", "NoOp", ["^b"]))
    control(found, add=[("b", "w")], remove=[("w", "b")])
    assert inputs(found) == {"a": [], "b": ["a", "^w"], "w": []}


def test_a_cycle_that_was_there_before_can_be_opened() -> None:
    found = graph(node("a", "NoOp", ["^b"]), node("b", "NoOp", ["^a"]), node("c", "NoOp"))
    control(found, add=[("c", "a")])
    control(found, remove=[("a", "b")])
    assert check(from_bytes(graphs.written(found))).faults == []


# While loops and conditionals.


def test_edges_inside_a_loop() -> None:
    found = graph(*graphs.loop())
    control(found, add=[("w/Add", "w/Less"), ("out", "n"), ("w/Enter", "n"), ("w/NextIteration", "w/one")])
    assert check(from_bytes(graphs.written(found))).faults == []


def test_edges_between_frames_are_refused() -> None:
    words = "'w/Add' would have inputs from two places: .*inside the while loop 'w'.* and 'n' .outside of while loops"
    refused(graph(*graphs.loop()), words, add=[("w/Add", "n")])
    words = "'late' would have inputs from two places"
    refused(graph(*graphs.loop(), identity("late", "n", kind=INT32)), words, add=[("late", "w/Add")])


def test_a_constant_enters_the_frame_of_what_it_waits_for() -> None:
    lone = [const("k", [1], INT32, ()), identity("kk", "k", kind=INT32)]
    control(graph(*graphs.loop(), *lone), add=[("k", "w/Identity")])
    words = "'sum' would have inputs from two places"
    refused(graph(*graphs.loop(), *lone, add("sum", "kk", "n", kind=INT32)), words, add=[("k", "w/Identity")])


def test_only_a_data_input_closes_a_loop() -> None:
    found = graph(*graphs.loop())
    refused(found, "'w/Merge' cannot wait for 'w/NextIteration'", add=[("w/Merge", "w/NextIteration")])
    refused(found, "a cycle would come about", add=[("w/Identity", "w/NextIteration")])


def test_waiting_for_a_branch_that_may_not_be_taken_is_warned_of() -> None:
    records = [
        placeholder("x"),
        placeholder("p", BOOL, ()),
        node("s", "Switch", ["x", "p"], T=FLOAT),
        identity("t", "s:1"),
        node("m", "Merge", ["t", "s"], T=FLOAT, N=2),
        identity("y", "x"),
    ]
    result = control(graph(*records), add=[("y", "t")])
    assert result.warnings == ["'y' will run only where 't' does, which is in a branch of a conditional"]
    assert control(graph(*records), add=[("t", "s"), ("y", "m")]).warnings == []


# What is written.


def test_only_the_nodes_that_wait_are_written_anew() -> None:
    found = graph(*g8())
    before = graphs.bodies_by_name(found)
    result = control(found, add=[("foo/bar/e", "a")], remove=[("foo/bar/h", "foo/c")])
    after = graphs.bodies_by_name(found)
    assert {name for name in after if after[name] != before[name]} == set(result.intent.changed)


def test_an_edit_and_its_inverse_give_back_the_bytes() -> None:
    found = graph(*g8())
    control(found, add=[("foo/bar/e", "a"), ("foo/bar/h", "a")])
    back = from_bytes(graphs.written(found))
    control(back, remove=[("foo/bar/e", "a"), ("foo/bar/h", "a")])
    assert graphs.written(back) == graphs.graph_bytes(*g8())


def test_many_edges_are_noted_shortly() -> None:
    found = graph(const("a", [1]), *(identity(f"n{i}", "a") for i in range(30)))
    notes = control(found, add=[(f"n{i}", "a") for i in range(30)]).notes
    assert len(notes) == 9 and notes[-1] == "and 22 more control edges"


def _reaches(edges: dict[str, set[str]], start: str, goal: str) -> bool:
    seen, pending = set(), [start]
    while pending:
        name = pending.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            pending.extend(edges[name])
    return False


@given(st.data())
def test_random_edges(data: st.DataObject) -> None:
    drawn: Drawn = data.draw(graphs.random_graphs())
    names = [n.name for n in drawn.message.node]
    edges = data.draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), min_size=1, max_size=4))
    producers = {n.name: {text.lstrip("^").split(":")[0] for text in n.input} for n in drawn.message.node}
    controls = {n.name: [text[1:] for text in n.input if text[0] == "^"] for n in drawn.message.node}
    legal = len(set(edges)) == len(edges)
    for after, before in edges:
        legal = legal and before not in controls[after] and not _reaches(producers, before, after)
        producers[after].add(before)
    found = from_bytes(drawn.data)
    try:
        control(found, add=edges)
    except EditError:
        assert not legal
        assert graphs.written(found) == drawn.data
        return
    assert legal
    expected = {n.name: list(dict.fromkeys(controls[n.name])) for n in drawn.message.node}
    for after, before in edges:
        expected[after].append(before)
    changed = {after for after, _ in edges}
    for n in graphs.parsed(found).node:
        now = [text[1:] for text in n.input if text[0] == "^"]
        assert now == (expected[n.name] if n.name in changed else controls[n.name])
    assert check(from_bytes(graphs.written(found))).faults == []


# The command line.


def run(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> tuple[int, str]:
    code = exit_code(["control", *arguments])
    return code, capsys.readouterr().err


@pytest.mark.tensorflow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, first, second = str(FIXTURES / "control_edges.pb"), str(tmp_path / "1.pb"), str(tmp_path / "2.pb")
    code, said = run(capsys, [model, "--add", "total=^values", "-o", first])
    assert (code, "total waits for values" in said, "bit-identical" in said) == (0, True, True), said
    code, said = run(capsys, [first, "--remove", "total=^*", "-o", second])
    assert (code, "total no longer waits for check/Assert" in said) == (0, True), said


@pytest.mark.tensorflow
def test_tensorflow_takes_edges_inside_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.pb")
    edges = ["--add", "while/next_i=^while/next_s", "--add", "sum=^while/Exit", "--add", "while/Enter=^n"]
    code, said = run(capsys, [str(FIXTURES / "while_v1.pb"), *edges, "-o", out])
    assert (code, "bit-identical" in said) == (0, True), said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "nothing to do"),
        (["--add", "total"], 2, "'total' is not a pair NODE=^BEFORE"),
        (["--add", "total="], 2, "is not a pair NODE=^BEFORE"),
        (["--add", "total=^"], 2, "is not a pair NODE=^BEFORE"),
        (["--remove", "total=values"], 2, "Hint: --remove 'total=^values'"),
        (["--add", "total=^valus"], 4, "Did you mean 'values'?"),
        (["--add", "values=^total"], 4, "a cycle would come about: "),
        (["--remove", "total=^values"], 4, "its control inputs are '^check/Assert'"),
    ],
)
def test_the_command_refuses(
    arguments: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.pb"
    tail = ["-o", str(out), "--validate", "structure"]
    done, said = run(capsys, [str(FIXTURES / "control_edges.pb"), *arguments, *tail])
    assert (done, words in said, out.exists()) == (code, True, False), said
