"""fuse-ops: the selection becomes a function, and the graph gives what it gave."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.counting import is_linear
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    STRING,
    add,
    const,
    dtypes,
    func,
    g8,
    graph,
    identity,
    library,
    node,
    placeholder,
    scalar,
    tensor,
)

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.errors import EditError, GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import Rewired
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.select import Selection
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.messages import message

runs = pytest.mark.tensorflow

# -- running -----------------------------------------------------------------------------------------------


class Runner:
    """Runs graphs in a process that is started when it is needed, and again where a run did not come back."""

    def __init__(self) -> None:
        self._executor: Executor | None = None
        self._count = 0

    def __call__(
        self,
        what: Graph | bytes,
        *fetches: str,
        initialisers: Sequence[str] = (),
        targets: Sequence[str] = (),
        patience: float = 20.0,
        **feeds: Any,
    ) -> list[Any]:
        """The values of FETCHES as lists, in a session of their own in which INITIALISERS have been run before.

        A node's ``/`` is ``__`` in the name of a feed.

        Raises:
            Refused: TensorFlow does not load or run it.
            GdsurgeonError: it does not come back.
        """
        with self.session(what, patience) as (executor, key):
            executor.initialize(key, initialisers)
            return values(executor, key, fetches, targets, feeds)

    @contextlib.contextmanager
    def session(self, what: Graph | bytes, patience: float = 20.0) -> Iterator[tuple[Executor, str]]:
        """A graph that is loaded: where, and under which key."""
        if self._executor is None:
            self._executor = Executor(Settings(timeout=patience)).start()
        executor = self._executor
        self._count += 1
        key = f"graph {self._count}"
        executor.settings = Settings(timeout=patience)
        try:
            executor.load_bytes(key, graphs.written(what))
            executor.loaded(key)
            yield executor, key
        except GdsurgeonError:
            executor.close()
            self._executor = None
            raise
        finally:
            executor.unload(key)


def fitting(value: Any) -> Any:
    """VALUE as an array of float32, int32 or bool."""
    array = np.asarray(value)
    narrow = {"float64": np.float32, "int64": np.int32}
    return array.astype(narrow.get(str(array.dtype), array.dtype))


def values(
    executor: Executor, key: str, fetches: Sequence[str], targets: Sequence[str], feeds: Mapping[str, Any]
) -> list[Any]:
    given = {name.replace("__", "/"): from_numpy(fitting(value)) for name, value in feeds.items()}
    executor._wait(executor._worker.run(key, "out", given, list(fetches), list(targets)))
    return [executor.tensor("out", i).numpy().tolist() for i in range(len(fetches))]


run = Runner()


def outcome(what: Graph | bytes, *fetches: str, **feeds: Any) -> list[Any] | str:
    """The values, or what TensorFlow says against running it (without what only names places)."""
    try:
        return run(what, *fetches, **feeds)
    except Refused as refused:
        return reason(refused)


def outcomes(what: Graph | bytes, fetches: Sequence[str], feeds: Sequence[Mapping[str, Any]]) -> list[list[Any] | str]:
    """The `outcome` of each of FETCHES alone with each of FEEDS, of a graph that has no state: in one session."""
    found: list[list[Any] | str] = []
    with run.session(what) as (executor, key):
        for given in feeds:
            for fetch in fetches:
                try:
                    found.append(values(executor, key, [fetch], [], given))
                except Refused as refused:
                    found.append(reason(refused))
    return found


def reason(refused: Refused) -> str:
    text = refused.text.rpartition("}}")[2].strip()
    return "a dead value" if "does not have value" in text else text


# -- functions ---------------------------------------------------------------------------------------------

NO_OPTIMIZER = encode_len(2, b"R\x05R\x03\x98\x01\x01")


def call(
    name: str,
    function: str,
    inputs: Sequence[str],
    taken: Sequence[bytes],
    given: Sequence[bytes],
    *,
    stateful: bool = False,
    config_proto: bytes = NO_OPTIMIZER,
    **attrs: Any,
) -> bytes:
    """The record of a call; TAKEN and GIVEN are dtypes."""
    return node(
        name,
        "StatefulPartitionedCall" if stateful else "PartitionedCall",
        inputs,
        Tin=dtypes(*taken),
        Tout=dtypes(*given),
        f=func(function),
        config="",
        config_proto=config_proto,
        executor_type="",
        **attrs,
    )


def function(
    name: str,
    inputs: dict[str, bytes],
    outputs: dict[str, tuple[bytes, str]],
    *body: bytes,
    effects: Sequence[str] = (),
    stateful: bool = False,
) -> Any:
    """A FunctionDef; OUTPUTS: for each the dtype and what it returns; EFFECTS: nodes that run with every call."""
    out = message("tensorflow.FunctionDef")()
    out.signature.name = name
    out.signature.is_stateful = stateful
    for arg, kind in inputs.items():
        out.signature.input_arg.add(name=arg, type=kind[1])
    for arg, (kind, source) in outputs.items():
        out.signature.output_arg.add(name=arg, type=kind[1])
        out.ret[arg] = source
    out.node_def.extend(graphs.proto(*body, trailer=b"").node)
    for effect in effects:
        out.signature.control_output.append(effect)
        out.control_ret[effect] = effect
    return out


def only_function(found: Graph) -> Any:
    (function_,) = list(graphs.parsed(found).library.function)
    return function_


def body_of(function_: Any) -> dict[str, list[str]]:
    """The inputs of each node of a function."""
    return {n.name: list(n.input) for n in function_.node_def}


def expect(found: Graph, *records: bytes) -> None:
    """The graph has these nodes, with these inputs, attrs and devices, in this order, and no fault."""
    nodes = graphs.parsed(found).node
    wanted = graphs.proto(*records).node
    assert [n.name for n in nodes] == [n.name for n in wanted]
    for a, b in zip(nodes, wanted, strict=True):
        assert a == b
    assert check(from_bytes(graphs.written(found))).faults == []


def fused(found: Graph, selection: str | Sequence[str], name: str = "call", **options: Any) -> EditResult:
    """Fuses the nodes whose names match, or those of the names."""
    if isinstance(selection, str):
        return fuse_ops(found, Selection(regexes=(selection,)), name, **options)
    return fuse_ops(found, Selection(nodes=tuple(selection)), name, **options)


def refused(found: Graph, words: str, selection: str | Sequence[str], name: str = "call", **options: Any) -> EditError:
    before = graphs.written(found)
    with pytest.raises(EditError) as caught:
        fused(found, selection, name, **options)
    assert words in caught.value.message
    assert graphs.written(found) == before
    assert not found.is_changed
    return caught.value


X = placeholder("x", FLOAT, (2,))


def unary(op: str, name: str, source: str, *controls: str, kind: bytes = FLOAT, **attrs: Any) -> bytes:
    return node(name, op, [source, *controls], T=kind, **attrs)


def neg(name: str, source: str, *controls: str, **attrs: Any) -> bytes:
    return unary("Neg", name, source, *controls, **attrs)


# -- plain -------------------------------------------------------------------------------------------------


def chain() -> list[bytes]:
    """x -> y = -(x + 1) * (x + 1), with a reader of y."""
    return [
        X,
        const("one", [1, 2]),
        add("sum", "x", "one"),
        neg("neg", "sum"),
        node("mul", "Mul", ["neg", "sum"], T=FLOAT, _note="kept"),
        identity("y", "mul"),
    ]


@runs
def test_the_selection_becomes_a_call() -> None:
    found = graph(*chain())
    result = fused(found, ["sum", "neg", "mul"])
    name = only_function(found).signature.name
    called = call("call", name, ["x", "one"], [FLOAT, FLOAT], [FLOAT])
    expect(found, X, const("one", [1, 2]), called, identity("y", "call"))
    assert run(found, "y", x=[3.0, 4.0]) == run(graph(*chain()), "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]
    journal = result.journal
    assert journal.added == ["call"] and sorted(journal.removed) == ["mul", "neg", "sum"]
    assert journal.rewired == [Rewired("y", 0, "mul", "call")]
    assert journal.moved == {"mul": "call"}
    assert journal.functions.added == [name]
    assert result.claims == (SameOutputs(also=("mul",)),)


def test_the_function_holds_the_nodes_as_they_were() -> None:
    found = graph(*chain())
    fused(found, ["sum", "neg", "mul"])
    made = only_function(found)
    assert made.signature.name.startswith("call_")
    assert [(a.name, a.type) for a in made.signature.input_arg] == [("x", 1), ("one", 1)]
    (given,) = made.signature.output_arg
    assert given.type == 1 and dict(made.ret) == {given.name: "mul:z:0"}
    assert body_of(made) == {"sum": ["x", "one"], "neg": ["sum:z:0"], "mul": ["neg:y:0", "sum:z:0"]}
    assert {n.name: n.attr for n in made.node_def}["mul"]["_note"].s == b"kept"
    assert not made.signature.is_stateful and not made.control_ret


def test_it_is_not_inlined_unless_that_is_asked_for() -> None:
    for options, expected in (({}, True), ({"inline": True}, False), ({"xla": True}, False)):
        found = graph(*chain())
        fused(found, "neg|mul", **options)
        assert only_function(found).attr["_noinline"].b is expected


def test_under_xla_the_call_says_so() -> None:
    found = graph(*chain())
    result = fused(found, "neg|mul", xla=True)
    assert graphs.attrs(found, "call")["_XlaMustCompile"].b
    (claim,) = result.claims
    assert isinstance(claim, SameOutputs) and claim.measured and claim.rtol > 0
    found = graph(*chain())
    (claim,) = fused(found, "neg|mul", xla=True, rtol=0.0, atol=0.0).claims
    assert isinstance(claim, SameOutputs) and (claim.rtol, claim.atol) == (0.0, 0.0)


@runs
def test_constants_may_be_inside_or_outside() -> None:
    found = graph(*chain())
    fuse_ops(found, Selection(nodes=("sum", "neg", "mul"), constants=True), "call")
    assert list(graphs.inputs(found)) == ["x", "call", "y"]
    assert graphs.inputs(found)["call"] == ["x"]
    assert run(found, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]


@runs
def test_nodes_in_any_order() -> None:
    found = graph(*reversed(chain()))
    fused(found, ["sum", "neg", "mul"])
    assert graphs.names(found) == ["y", "call", "one", "x"]
    assert run(found, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]


def test_nodes_may_be_given_as_nodes() -> None:
    found, other = graph(*chain()), graph(*chain())
    fuse_ops(found, [found[n] for n in ("mul", "neg", "sum", "neg")], "call")
    fused(other, ["sum", "neg", "mul"])
    assert graphs.written(found) == graphs.written(other)


def test_what_is_not_touched_keeps_its_bytes() -> None:
    found = graph(*g8())
    before = graphs.bodies_by_name(found)
    fused(found, "bar/[fg]$")
    after = graphs.bodies_by_name(found)
    assert {n for n in after if after[n] != before.get(n)} == {"call", "foo/bar/h"}
    assert graphs.inputs(found)["foo/bar/h"] == ["call", "call:1", "^foo/c"]


def test_equal_pieces_give_equal_functions() -> None:
    one, two = graph(*chain()), graph(*chain())
    fused(one, "neg|mul")
    fused(two, "neg|mul")
    assert graphs.written(one) == graphs.written(two)
    fused(two, ["sum"], "other")
    assert len({f.signature.name for f in two.functions}) == 2


# -- several outputs ---------------------------------------------------------------------------------------


def split() -> list[bytes]:
    """A Split of which the outputs 1 and 2 are read outside, out of order, and a sum of 0 and 1."""
    return [
        placeholder("x", FLOAT, (6,)),
        scalar("axis", 0, INT32),
        node("s", "Split", ["axis", "x"], T=FLOAT, num_split=3),
        add("sum", "s", "s:1"),
        neg("late", "s:2"),
        neg("early", "s:1"),
        neg("of_sum", "sum"),
    ]


@runs
def test_outputs_in_the_middle() -> None:
    found = graph(*split())
    result = fused(found, ["s", "sum", "axis"])
    assert graphs.inputs(found) == {
        "x": [], "call": ["x"], "late": ["call:1"], "early": ["call"], "of_sum": ["call:2"]
    }  # fmt: skip
    assert sorted(only_function(found).ret.values()) == ["s:output:1", "s:output:2", "sum:z:0"]
    assert result.journal.moved == {"s:1": "call", "s:2": "call:1", "sum": "call:2"}
    fetches = ("late", "early", "of_sum")
    x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert run(found, *fetches, x=x) == run(graph(*split()), *fetches, x=x)


@runs
def test_outputs_of_several_arguments() -> None:
    records = [
        placeholder("x", FLOAT, (4,)),
        scalar("k", 2, INT32),
        node("top", "TopKV2", ["x", "k"], T=FLOAT, sorted=True),
        node("unique", "Unique", ["x"], T=FLOAT, out_idx=INT32),
        identity("values", "top"),
        identity("indices", "top:1", kind=INT32),
        identity("places", "unique:1", kind=INT32),
        add("both", "top:1", "k", kind=INT32),
    ]
    found = graph(*records)
    fused(found, "top|unique")
    made = only_function(found)
    assert sorted(made.ret.values()) == ["top:indices:0", "top:values:0", "unique:idx:0"]
    assert [a.type for a in made.signature.output_arg] == [1, 3, 3]
    fetches = ("values", "indices", "places", "both")
    x = [3.0, 1.0, 3.0, 2.0]
    assert run(found, *fetches, x=x) == run(graph(*records), *fetches, x=x)


@runs
def test_arguments_that_stand_for_lists() -> None:
    """Ops with a number of inputs or outputs, or with lists of types, inside and at the boundary."""
    records = [
        placeholder("x", FLOAT, (2,)),
        const("i", [3, 4], INT32),
        node("pass", "IdentityN", ["x", "i", "x"], T=dtypes(FLOAT, INT32, FLOAT)),
        node("pack", "Pack", ["pass", "pass:2", "x"], T=FLOAT, N=3, axis=0),
        node("unpack", "Unpack", ["pack"], T=FLOAT, num=3, axis=0),
        node("sum", "AddN", ["unpack:2", "unpack", "pass:2"], T=FLOAT, N=3),
        identity("y", "sum"),
        neg("z", "unpack:1"),
        identity("j", "pass:1", kind=INT32),
    ]
    found = graph(*records)
    fused(found, ["pass", "pack", "unpack", "sum"])
    made = only_function(found)
    assert body_of(made)["pack"] == ["pass:output:0", "pass:output:2", "x"]
    assert body_of(made)["sum"] == ["unpack:output:2", "unpack:output:0", "pass:output:2"]
    fetches = ("y", "z", "j")
    assert run(found, *fetches, x=[1.0, 2.0]) == run(graph(*records), *fetches, x=[1.0, 2.0])


@runs
def test_attrs_that_are_left_at_their_defaults() -> None:
    records = [
        placeholder("x", FLOAT, (2, 3)),
        node("shape", "Shape", ["x"], T=FLOAT),
        node("size", "Size", ["x"], T=FLOAT),
        node("best", "ArgMax", ["x", "axis"], T=FLOAT),
        scalar("axis", 1, INT32),
        identity("a", "shape", kind=INT32),
        identity("b", "size", kind=INT32),
        identity("c", "best", kind=INT64),
    ]
    found = graph(*records)
    fused(found, ["shape", "size", "best", "axis"])
    x = [[1.0, 5.0, 2.0], [7.0, 1.0, 0.0]]
    assert run(found, "a", "b", "c", x=x) == [[2, 3], 6, [1, 0]]
    assert [a.type for a in only_function(found).signature.output_arg] == [3, 3, 9]


def test_names_of_arguments_do_not_clash() -> None:
    """Arguments, results and nodes share one name space inside a function."""
    records = [
        placeholder("a/x"),
        placeholder("b/x"),
        placeholder("X"),
        placeholder("1"),
        add("x", "a/x", "b/x"),
        add("x_1", "X", "1"),
        add("y", "x", "x_1"),
        neg("p", "y"),
        neg("q", "x"),
    ]
    found = graph(*records)
    fused(found, ["x", "x_1", "y"])
    made = only_function(found)
    names = [*(a.name for a in made.signature.input_arg), *(a.name for a in made.signature.output_arg)]
    names += [n.name for n in made.node_def]
    assert len(set(names)) == len(names)
    assert all(a.name[0].islower() for a in (*made.signature.input_arg, *made.signature.output_arg))


# -- names -------------------------------------------------------------------------------------------------


@runs
def test_outputs_of_the_graph_keep_their_names() -> None:
    found = graph(X, neg("a", "x"), neg("y", "a"), unary("Abs", "z", "a"))
    result = fused(found, ["a", "y", "z"])
    name = only_function(found).signature.name
    expect(found, X, call("call", name, ["x"], [FLOAT], [FLOAT, FLOAT]), identity("y", "call"), identity("z", "call:1"))
    assert run(found, "y", "z", x=[1.0, -2.0]) == [[1.0, -2.0], [1.0, 2.0]]
    assert result.journal.added == ["y", "z", "call"] and result.journal.removed == ["a"]
    assert result.journal.moved == {}


@runs
def test_an_output_node_with_several_outputs_keeps_them_all() -> None:
    records = [placeholder("x", FLOAT, (6,)), scalar("axis", 0, INT32),
               node("s", "Split", ["axis", "x"], T=FLOAT, num_split=3)]  # fmt: skip
    found = graph(*records)
    fused(found, ["s"])
    name = only_function(found).signature.name
    expect(
        found,
        *records[:2],
        call("call", name, ["axis", "x"], [INT32, FLOAT], [FLOAT] * 3),
        node("s", "IdentityN", ["call", "call:1", "call:2"], T=dtypes(FLOAT, FLOAT, FLOAT)),
    )
    assert run(found, "s", "s:1", "s:2", x=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_what_only_waits_for_a_node_does_not_make_it_less_of_an_output() -> None:
    found = graph(X, neg("y", "x"), node("init", "NoOp", ["^y"]))
    fused(found, ["y"])
    assert graphs.ops(found) == {"x": "Placeholder", "call": "PartitionedCall", "y": "Identity", "init": "NoOp"}
    assert graphs.inputs(found)["init"] == ["^call"]


@runs
def test_names_that_are_to_be_kept() -> None:
    found = graph(*chain())
    result = fused(found, ["sum", "neg", "mul"], keep=["sum", "mul"])
    assert graphs.inputs(found) == {
        "x": [], "one": [], "call": ["x", "one"], "sum": ["call"], "mul": ["call:1"], "y": ["call:1"]
    }  # fmt: skip
    assert run(found, "sum", "mul", "y", x=[3.0, 4.0]) == [[4.0, 6.0], [-16.0, -36.0], [-16.0, -36.0]]
    assert result.journal.removed == ["neg"]
    refused(graph(*chain()), "'y' is to be kept and is not among the selected nodes", "neg", keep=["y"])
    refused(graph(*chain()), "has no node 'nge'", "neg", keep=["nge"])


@runs
def test_the_call_may_have_the_name_of_its_first_output() -> None:
    found = graph(X, neg("a", "x"), neg("y", "a"))
    result = fused(found, ["a", "y"], "y")
    expect(found, X, call("y", only_function(found).signature.name, ["x"], [FLOAT], [FLOAT]))
    assert (result.journal.added, result.journal.removed, result.journal.moved) == (["y"], ["a"], {})
    assert run(found, "y", x=[1.0, 2.0]) == [[1.0, 2.0]]


@runs
def test_the_call_may_have_the_name_of_a_node_that_is_read() -> None:
    found = graph(*split())
    result = fused(found, ["s", "sum"], "s")
    assert graphs.inputs(found)["early"] == ["s"] and graphs.inputs(found)["late"] == ["s:1"]
    assert result.journal.moved == {"s:1": "s", "s:2": "s:1", "sum": "s:2"}
    x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert run(found, "late", "early", "of_sum", x=x) == run(graph(*split()), "late", "early", "of_sum", x=x)


def test_the_journal_speaks_of_the_names_that_there_are_in_the_end() -> None:
    found = graph(X, neg("a", "x"), neg("b", "a"), neg("c", "a"))
    journal = fused(found, ["a", "b"], "a").journal
    assert {change.new.partition(":")[0] for change in journal.rewired} <= set(graphs.names(found))
    assert set(journal.moved.values()) <= {"a", "a:1"}


def test_a_name_that_is_not_to_be_had() -> None:
    refused(graph(*chain()), "the name 'x' is taken by a Placeholder node", "neg|mul", "x")
    refused(graph(*chain()), "'_call' is not a legal node name", "neg|mul", "_call")
    refused(graph(*chain()), "is not a legal node name", "neg|mul", "")
    words = "the call cannot have the name of 'z', whose outputs keep it: give it another one"
    refused(graph(X, neg("a", "x"), neg("y", "a"), neg("z", "a")), words, "^[ayz]$", "z")
    refused(graph(*split()[:3]), "the call cannot have the name of 's', whose outputs keep it", ["s"], "s")


def test_names_that_are_no_names_of_functions() -> None:
    for name in ("a/b.c-d", "1", "Neg"):
        found = graph(*chain())
        fused(found, "neg|mul", name)
        made = only_function(found).signature.name
        assert made.replace("_", "a").isalnum() and made[0].isalpha()
        assert found.op_def(made) is not None


@runs
def test_calls_whose_names_differ_in_punctuation_only_have_their_own_functions() -> None:
    """Two bodies that read alike, but for what the function is that both call `f`."""

    def body(op: str) -> Graph:
        inner = function("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, unary(op, "n", "a"))
        return graph(placeholder("i"), call("c", "f", ["i"], [FLOAT], [FLOAT]), library(inner), name="body.pb")

    found = graph(X, neg("p", "x"), neg("q", "x"))
    fused(found, ["p"], "block/x", body=body("Square"))
    fused(found, ["q"], "block_x", body=body("Abs"))
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 4.0], [1.0, 2.0]]


# -- calls in calls ----------------------------------------------------------------------------------------


@runs
def test_a_call_can_be_fused_in_turn() -> None:
    found = graph(*chain())
    fused(found, ["neg", "mul"], "inner")
    fused(found, ["sum", "inner"], "outer")
    assert graphs.inputs(found) == {"x": [], "one": [], "outer": ["x", "one"], "y": ["outer"]}
    assert len(list(found.functions)) == 2
    assert run(found, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]
    again = from_bytes(graphs.written(found))
    fused(again, ["outer"], "outermost")
    assert run(again, "y", x=[3.0, 4.0]) == [[-16.0, -36.0]]


@runs
def test_a_call_by_the_name_of_a_function() -> None:
    made = function("twice", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a"))
    found = graph(X, node("t", "twice", ["x"]), neg("y", "t"), identity("z", "y"), library(made))
    fused(found, ["t", "y"])
    assert body_of(next(f for f in found.functions if f.signature.name != "twice"))["y"] == ["t:o:0"]
    assert run(found, "z", x=[1.0, 2.0]) == [[-2.0, -4.0]]


@runs
def test_functions_that_nodes_pass_on() -> None:
    """A conditional with its branches as functions moves into the function."""
    then = function("then", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "a"))
    other = function("other", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a"))
    chosen = node("if", "StatelessIf", ["p", "x"], Tcond=BOOL, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT),
                  then_branch=func("then"), else_branch=func("other"))  # fmt: skip
    records = [X, placeholder("p", BOOL, ()), chosen, neg("y", "if"), identity("z", "y"), library(then, other)]
    found = graph(*records)
    fused(found, ["if", "y"])
    for p in (True, False):
        assert run(found, "z", x=[1.0, 2.0], p=p) == run(graph(*records), "z", x=[1.0, 2.0], p=p)


# -- state and effects -------------------------------------------------------------------------------------


def random() -> list[bytes]:
    return [
        placeholder("shape", INT32, (1,)),
        node("r", "RandomUniform", ["shape"], T=INT32, dtype=FLOAT, seed=7, seed2=3),
        neg("n", "r"),
        identity("y", "n"),
    ]


@runs
def test_stateful_nodes_make_a_stateful_call() -> None:
    found = graph(*random())
    fused(found, ["r", "n"])
    made = only_function(found)
    assert made.signature.is_stateful
    assert dict(made.control_ret) == {"r": "r"} and list(made.signature.control_output) == ["r"]
    assert graphs.ops(found)["call"] == "StatefulPartitionedCall"
    assert run(found, "y", shape=[3]) == run(graph(*random()), "y", shape=[3])


@runs
def test_what_a_node_does_is_done_though_nobody_reads_it() -> None:
    records = [X, placeholder("ok", BOOL, ()), node("check", "Assert", ["ok", "x"], T=dtypes(FLOAT), summarize=3),
               neg("n", "x"), identity("y", "n")]  # fmt: skip
    found = graph(*records)
    fused(found, ["check", "n"])
    assert graphs.inputs(found)["call"] == ["ok", "x"]
    assert run(found, "y", x=[1.0, 2.0], ok=True) == [[-1.0, -2.0]]
    assert "assertion failed" in str(outcome(found, "y", x=[1.0, 2.0], ok=False))


@runs
def test_control_edges_in_and_out() -> None:
    records = [
        X,
        placeholder("ok", BOOL, ()),
        node("check", "Assert", ["ok", "x"], T=dtypes(FLOAT), summarize=3),
        neg("a", "x"),
        neg("b", "a", "^check"),
        neg("c", "b", "^a", "^check"),
        node("after", "Identity", ["x", "^a", "^c"], T=FLOAT),
        identity("y", "c"),
    ]
    found = graph(*records)
    result = fused(found, ["a", "b", "c"])
    assert graphs.inputs(found)["call"] == ["x", "^check"]
    assert graphs.inputs(found)["after"] == ["x", "^call"]
    made = only_function(found)
    assert body_of(made) == {"a": ["x"], "b": ["a:y:0"], "c": ["b:y:0", "^a"]}
    assert set(made.control_ret.values()) == {"a", "c"}
    assert result.journal.changed == ["after"]
    for fetch in ("y", "after"):
        assert run(found, fetch, x=[1.0, 2.0], ok=True) == run(graph(*records), fetch, x=[1.0, 2.0], ok=True)
        assert "assertion failed" in str(outcome(found, fetch, x=[1.0, 2.0], ok=False))


@runs
def test_what_waited_for_an_effect_inside_waits_for_it_still() -> None:
    records = [X, placeholder("ok", BOOL, ()), node("check", "Assert", ["ok", "x"], T=dtypes(FLOAT), summarize=3),
               node("group", "NoOp", ["^check"]), identity("y", "x", "^group")]  # fmt: skip
    found = graph(*records)
    fused(found, ["check", "group"])
    assert graphs.inputs(found)["y"] == ["x", "^call"]
    assert run(found, "y", x=[1.0, 2.0], ok=True) == [[1.0, 2.0]]
    assert "assertion failed" in str(outcome(found, "y", x=[1.0, 2.0], ok=False))


@runs
def test_a_group_that_nobody_reads_can_still_be_run_under_its_name() -> None:
    """A NoOp at the end, such as an init or a train op, is what is run by name."""
    records = [X, placeholder("ok", BOOL, ()), node("check", "Assert", ["ok", "x"], T=dtypes(FLOAT), summarize=3),
               node("init", "NoOp", ["^check"])]  # fmt: skip
    found = graph(*records)
    fused(found, ["check", "init"], keep=["init"])
    run(found, targets=["init"], x=[1.0, 2.0], ok=True)
    with pytest.raises(Refused, match="assertion failed"):
        run(found, targets=["init"], x=[1.0, 2.0], ok=False)


@runs
@pytest.mark.parametrize(
    "chosen",
    [["array", "write"], ["array", "write", "read"], ["write", "read"], ["set", "get", "minus"], ["get"]],
    ids=" ".join,
)
def test_state_that_is_handed_in_and_out(chosen: list[str]) -> None:
    """A TensorArray lives in a step, and a function's steps are its own: refused, or it runs."""
    records = [
        X,
        scalar("size", 1, INT32),
        scalar("at", 0, INT32),
        node("array", "TensorArrayV3", ["size"], dtype=FLOAT, clear_after_read=False),
        node("write", "TensorArrayWriteV3", ["array", "at", "x", "array:1"], T=FLOAT),
        node("read", "TensorArrayReadV3", ["array", "at", "write"], dtype=FLOAT),
        identity("y", "read"),
        node("h", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="h"),
        node("set", "AssignVariableOp", ["h", "x"], dtype=FLOAT),
        node("get", "ReadVariableOp", ["h", "^set"], dtype=FLOAT),
        neg("minus", "get"),
        identity("z", "minus"),
    ]
    found = graph(*records)
    try:
        fused(found, chosen)
    except EditError as error:
        assert "array" in chosen or "write" in chosen, error.message
        assert not found.is_changed
        return
    assert outcome(found, "y", "z", x=[1.0, 2.0]) == [[1.0, 2.0], [-1.0, -2.0]]


# -- large constants ---------------------------------------------------------------------------------------


@runs
def test_large_constants_stay_outside() -> None:
    big = const("weights", [1.0] * 20_000, shape=(2, 10_000))
    records = [X, big, const("small", [3, 4]), add("sum", "x", "small"),
               node("product", "Mul", ["sum", "column"], T=FLOAT),
               node("column", "Sum", ["weights", "axis"], T=FLOAT, Tidx=INT32), const("axis", [1], INT32),
               identity("y", "product")]  # fmt: skip
    found = graph(*records)
    result = fused(found, "weights|small|sum|product|column|axis")
    assert graphs.inputs(found) == {"x": [], "weights": [], "call": ["x", "weights"], "y": ["call"]}
    assert result.notes == ["1 large constant stays outside of the function"]
    assert run(found, "y", x=[1.0, 2.0]) == [[40_000.0, 60_000.0]]
    refused(graph(*records), "holds nothing but large constants", ["weights"])


# -- colocation --------------------------------------------------------------------------------------------


@runs
def test_colocations_are_mended() -> None:
    records = [
        X,
        neg("a", "x", _class=["loc:@z", "other"]),
        neg("b", "a", _class=["loc:@a"]),
        neg("c", "b", _class=["loc:@a", "loc:@x", "loc:@b"]),
        neg("z", "c"),
    ]
    found = graph(*records)
    result = fused(found, ["a", "b"])
    made = {n.name: n for n in only_function(found).node_def}
    assert list(made["a"].attr["_class"].list.s) == [b"other"]
    assert list(made["b"].attr["_class"].list.s) == [b"loc:@a"]
    assert graphs.colocations(found) == {"c": [b"loc:@x"]}
    assert result.notes[0] == "'c' is no longer colocated with 'a'"
    assert run(found, "z", x=[1.0, 2.0]) == [[1.0, 2.0]]
    assert "c" in result.journal.changed


# -- refusals ----------------------------------------------------------------------------------------------


def test_a_path_that_leaves_and_comes_back_is_printed() -> None:
    error = refused(graph(*g8()), "'foo/c' -> 'foo/bar/g' -> 'foo/bar/h'", ["foo/c", "foo/bar/f", "foo/bar/h"])
    assert error.hint is not None
    records = [X, neg("a", "x"), node("w", "NoOp", ["^a"]), neg("b", "x", "^w"), identity("y", "b")]
    refused(graph(*records), "a path leaves it and comes back: 'a' -> 'w' -> 'b'", ["a", "b"])
    fused(graph(*records), ["a", "w", "b"])


TABLE = node("t", "HashTableV2", key_dtype=INT32, value_dtype=FLOAT, shared_name="t")
VARIABLE = node("v", "VariableV2", dtype=FLOAT, shape=(2,))
SWITCH = [placeholder("p", BOOL, ()), node("switch", "Switch", ["x", "p"], T=FLOAT)]


@pytest.mark.parametrize(
    ("records", "chosen", "words"),
    [
        ([neg("y", "x")], ["x", "y"], "'x' (Placeholder) cannot be fused: it is an input of the graph"),
        ([node("d", "PlaceholderWithDefault", ["k"], dtype=FLOAT, shape=(2,)), const("k", [1, 2]), neg("y", "d")],
         ["d", "y"], "'d' (PlaceholderWithDefault) cannot be fused: it is an input of the graph"),
        ([VARIABLE, identity("y", "v")], ["v"], "'v' (VariableV2) cannot be fused: it takes or gives a reference"),
        ([VARIABLE, node("set", "Assign", ["v", "x"], T=FLOAT)], ["set"], "'set' (Assign) cannot be fused: it takes"),
        ([TABLE], ["t"], "'t' (HashTableV2) cannot be fused: it holds state that others may share"),
        ([node("h", "VarHandleOp", dtype=FLOAT, shape=(2,))], ["h"], "it holds state that others may share"),
        ([node("q", "FIFOQueueV2", component_types=dtypes(FLOAT))], ["q"], "it holds state that others may share"),
        ([node("u", "MyOp", ["x"])], ["u"], "'u' (MyOp) cannot be fused: the op is not known here"),
        (SWITCH, ["switch"], "'switch' (Switch) cannot be fused: it is v1 control flow"),
        ([*SWITCH, node("merge", "Merge", ["switch", "switch:1"], T=FLOAT, N=2)], ["merge"], "(Merge) cannot be fused"),
        ([node("y", "Neg", ["x"])], ["y"], "the type of 'y' (Neg) is not known here"),
        ([node("u", "MyOp"), node("y", "Pack", ["u"], N=1)], ["y"], "is not known here"),
    ],
)  # fmt: skip
def test_what_cannot_be_part_of_a_function(records: list[bytes], chosen: list[str], words: str) -> None:
    refused(graph(X, *records), words, chosen)


@pytest.mark.parametrize("name", ["Enter", "Merge", "LoopCond", "Switch", "NextIteration", "Exit"])
def test_the_working_of_a_loop_cannot_be_fused(name: str) -> None:
    words = f"'w/{name}' ({name}) cannot be fused: it is v1 control flow, which a function body cannot hold"
    refused(graph(*graphs.loop()), words, [f"w/{name}"])


def test_an_empty_selection() -> None:
    found = graph(*chain())
    refused(found, "--select 'nothing' matched 0 nodes", "nothing")
    refused(found, "nothing is selected", [])
    with pytest.raises(EditError, match="nothing is selected"):
        fuse_ops(found, [], "call")
    assert not found.is_changed


def test_nodes_of_another_graph() -> None:
    found, other = graph(*chain()), graph(*chain())
    for nodes in ([other["neg"], other["mul"]], [found["neg"], other["mul"]]):
        with pytest.raises(EditError):
            fuse_ops(found, nodes, "call")
        assert graphs.written(found) == graphs.graph_bytes(*chain())
        assert graphs.written(other) == graphs.graph_bytes(*chain())


# -- loops -------------------------------------------------------------------------------------------------


def while_loop(*body: bytes, result: str, exits: Sequence[str] = ()) -> list[bytes]:
    """For i from 0 while i < n: v = RESULT; BODY computes that from v (`w/v`), i (`w/i`) and 3 (`w/three`)."""

    def enter(name: str, source: str, kind: bytes, constant: bool) -> bytes:
        return node(name, "Enter", [source], T=kind, frame_name="w", is_constant=constant, parallel_iterations=10)

    return [
        placeholder("n", INT32, ()),
        scalar("zero", 0, INT32),
        scalar("start", 1),
        scalar("three", 3),
        enter("w/Enter", "zero", INT32, False),
        enter("w/Enter_v", "start", FLOAT, False),
        enter("w/three", "three", FLOAT, True),
        enter("w/limit", "n", INT32, True),
        node("w/Merge", "Merge", ["w/Enter", "w/NextIteration"], T=INT32, N=2),
        node("w/Merge_v", "Merge", ["w/Enter_v", "w/NextIteration_v"], T=FLOAT, N=2),
        node("w/Less", "Less", ["w/Merge", "w/limit"], T=INT32),
        node("w/LoopCond", "LoopCond", ["w/Less"]),
        node("w/Switch", "Switch", ["w/Merge", "w/LoopCond"], T=INT32),
        node("w/Switch_v", "Switch", ["w/Merge_v", "w/LoopCond"], T=FLOAT),
        identity("w/i", "w/Switch:1", kind=INT32),
        identity("w/v", "w/Switch_v:1"),
        node("w/one", "Const", ["^w/i"], dtype=INT32, value=tensor([1], INT32, ())),
        add("w/Add", "w/i", "w/one", kind=INT32),
        *body,
        node("w/NextIteration", "NextIteration", ["w/Add"], T=INT32),
        node("w/NextIteration_v", "NextIteration", [result], T=FLOAT),
        node("w/Exit", "Exit", ["w/Switch"], T=INT32),
        node("w/Exit_v", "Exit", ["w/Switch_v"], T=FLOAT),
        *(node(f"w/Exit_{i}", "Exit", [name], T=FLOAT) for i, name in enumerate(exits)),
        identity("out", "w/Exit_v"),
    ]


LOOP = while_loop(
    node("w/two", "Const", ["^w/i"], dtype=FLOAT, value=tensor([2], FLOAT, ())),
    node("w/double", "Mul", ["w/v", "w/two"], T=FLOAT),
    add("w/plus", "w/double", "w/three"),
    result="w/plus",
)


@runs
@pytest.mark.parametrize(
    "chosen",
    [
        ["w/double", "w/plus"],
        ["w/two", "w/double", "w/plus"],
        ["w/one", "w/Add"],
        ["w/one", "w/two"],
        ["w/one", "w/Add", "w/two", "w/double", "w/plus"],
        ["w/i", "w/one", "w/Add"],
        ["w/Less"],
        ["w/i", "w/v", "w/one", "w/Add", "w/two", "w/double", "w/plus"],
    ],
    ids=lambda chosen: " ".join(name[2:] for name in chosen),
)
def test_a_part_of_a_loop_body(chosen: list[str]) -> None:
    found = graph(*LOOP)
    fused(found, chosen)
    assert [run(found, "out", "w/Exit", n=n) for n in (0, 1, 3)] == [[1.0, 0], [5.0, 1], [29.0, 3]]


@runs
def test_a_part_of_a_loop_body_with_its_constants() -> None:
    found = graph(*LOOP)
    fuse_ops(found, Selection(nodes=("w/double", "w/plus"), constants=True), "call")
    assert "w/two" not in found
    assert run(found, "out", n=3) == [29.0]


def test_inside_and_outside_of_a_loop_do_not_go_together() -> None:
    words = "the selection lies in part inside the while loop 'w', and in part outside"
    records = [*LOOP, neg("aside", "three")]
    refused(graph(*records), words, ["w/plus", "aside"])
    refused(graph(*records), words, ["w/plus", "out"])


def test_the_condition_and_the_body_of_a_loop_do_not_go_together() -> None:
    refused(graph(*LOOP), "a path leaves it and comes back", ["w/Less", "w/Add"])


def test_two_loops_do_not_go_together() -> None:
    second = [r.replace(b"w/", b"u/").replace(b"\x12\x01w", b"\x12\x01u") for r in LOOP]  # names and frame
    records = [*LOOP, *(r for r in second if r not in LOOP and b"out" not in r)]
    assert check(graph(*records)).faults == []
    refused(graph(*records), "while loop", ["w/double", "u/double"])


# -- conditionals ------------------------------------------------------------------------------------------


def cond(*extra: bytes) -> list[bytes]:
    """A conditional as TensorFlow makes it: the pivots hang on the predicate, the data on a copy of it.

    y = 2 x where p, else -x - 10.
    """
    return [
        placeholder("p", BOOL, ()),
        X,
        node("c/Switch", "Switch", ["p", "p"], T=BOOL),
        identity("c/switch_t", "c/Switch:1", kind=BOOL),
        identity("c/switch_f", "c/Switch", kind=BOOL),
        identity("c/pred_id", "p", kind=BOOL),
        node("c/two", "Const", ["^c/switch_t"], dtype=FLOAT, value=tensor([2], FLOAT, ())),
        node("c/x_t", "Switch", ["x", "c/pred_id"], T=FLOAT),
        node("c/mul", "Mul", ["c/x_t:1", "c/two"], T=FLOAT),
        node("c/x_f", "Switch", ["x", "c/pred_id"], T=FLOAT),
        neg("c/neg", "c/x_f"),
        node("c/ten", "Const", ["^c/switch_f"], dtype=FLOAT, value=tensor([10], FLOAT, ())),
        node("c/sub", "Sub", ["c/neg", "c/ten"], T=FLOAT),
        node("c/Merge", "Merge", ["c/sub", "c/mul"], T=FLOAT, N=2),
        identity("y", "c/Merge"),
        *extra,
    ]


def taken_both_ways(what: Graph | bytes, *fetches: str) -> list[list[Any] | str]:
    return [outcome(what, *fetches, p=p, x=[1.0, 2.0]) for p in (True, False)]


BOTH_WAYS = [[[2.0, 4.0]], [[-11.0, -12.0]]]


@runs
@pytest.mark.parametrize(
    "chosen",
    [["c/mul"], ["c/neg", "c/sub"], ["c/neg"], ["c/two", "c/mul"], ["c/neg", "c/ten", "c/sub"], ["c/ten", "c/sub"]],
    ids=" ".join,
)
def test_a_part_of_a_branch(chosen: list[str]) -> None:
    found = graph(*cond())
    fused(found, chosen)
    assert taken_both_ways(found, "y") == BOTH_WAYS


@runs
def test_a_constant_alone_stays_in_its_branch() -> None:
    records = cond(identity("only", "c/two"))
    found = graph(*records)
    fused(found, ["c/two"])
    assert taken_both_ways(found, "only") == taken_both_ways(graph(*records), "only") == [[2.0], "a dead value"]


def test_the_two_sides_of_a_conditional_do_not_go_together() -> None:
    refused(graph(*cond()), "they lie in different branches of a conditional", ["c/mul", "c/neg"])
    refused(graph(*cond()), "they lie in different branches of a conditional", ["c/two", "c/ten"])


@runs
def test_a_node_outside_goes_along_where_nobody_else_reads_it() -> None:
    """What is computed for one branch alone may be computed in it."""
    records = [r for r in cond() if b"c/two" not in r]
    records += [scalar("two", 2), neg("minus", "two"), node("c/mul", "Mul", ["c/x_t:1", "minus"], T=FLOAT)]
    found = graph(*records)
    fused(found, ["minus", "two", "c/mul"])
    assert taken_both_ways(found, "y") == [[[-2.0, -4.0]], [[-11.0, -12.0]]]


def test_a_node_that_is_read_in_a_branch_and_outside_of_it_stays_outside() -> None:
    records = [r for r in cond() if b"c/two" not in r]
    records += [scalar("two", 2), neg("minus", "two"), node("c/mul", "Mul", ["c/x_t:1", "minus"], T=FLOAT)]
    for reader in (neg("outside", "minus"), node("waiting", "NoOp", ["^minus"])):
        found = graph(*records, reader)
        refused(found, "they lie in different branches of a conditional", ["minus", "c/mul"])


@runs
@pytest.mark.parametrize("keep", [[], ["aside"]])
def test_an_output_beside_a_branch_is_not_drawn_into_it(keep: list[str]) -> None:
    """The output exists whatever is decided: refused, or still there both ways."""
    records = cond(neg("aside", "x"), *([add("c/more", "c/mul", "aside"), identity("m", "c/more")] if keep else []))
    found = graph(*records)
    try:
        fused(found, ["c/mul", "aside", *(["c/more"] if keep else [])], keep=keep)
    except EditError as error:
        assert "different branches" in error.message and not found.is_changed
        return
    assert taken_both_ways(found, "aside") == [[[-1.0, -2.0]]] * 2


@runs
def test_a_conditional_in_another() -> None:
    records = cond(
        placeholder("q", BOOL, ()),
        node("d/Switch", "Switch", ["c/mul", "q"], T=FLOAT),
        neg("d/neg", "d/Switch:1"),
        unary("Abs", "d/abs", "d/Switch"),
        node("d/Merge", "Merge", ["d/abs", "d/neg"], T=FLOAT, N=2),
        identity("z", "d/Merge"),
    )
    refused(graph(*records), "different branches", ["d/neg", "c/neg"])
    found = graph(*records)
    fused(found, ["d/neg"])
    for q in (True, False):
        for p in (True, False):
            given = {"p": p, "q": q, "x": [1.0, 2.0]}
            assert outcome(found, "z", **given) == outcome(graph(*records), "z", **given)


@runs
def test_branches_of_two_conditionals_that_are_not_in_one_another() -> None:
    """What reads from both runs where both are taken; what reads from one does not hang on the other."""
    records = [
        placeholder("p", BOOL, ()),
        placeholder("q", BOOL, ()),
        X,
        node("where_p", "Switch", ["x", "p"], T=FLOAT),
        node("where_q", "Switch", ["x", "q"], T=FLOAT),
        neg("a", "where_p:1"),
        add("b", "a", "where_q:1"),
        neg("c", "b"),
        identity("y", "a"),
        identity("z", "c"),
    ]
    refused(graph(*records), "different branches of a conditional", ["a", "b"])
    found = graph(*records)
    fused(found, ["b", "c"])
    for p in (True, False):
        for q in (True, False):
            for fetch in ("y", "z"):
                given = {"p": p, "q": q, "x": [1.0, 2.0]}
                assert outcome(found, fetch, **given) == outcome(graph(*records), fetch, **given)


def test_conditionals_on_two_outputs_of_one_node() -> None:
    records = [
        placeholder("both", BOOL, (2,)),
        X,
        node("u", "Unpack", ["both"], T=BOOL, num=2, axis=0),
        identity("second", "u:1", kind=BOOL),
        node("where_p", "Switch", ["x", "u"], T=FLOAT),
        node("where_q", "Switch", ["x", "u:1"], T=FLOAT),
        node("where_second", "Switch", ["x", "second"], T=FLOAT),
        neg("p", "where_p:1"),
        neg("q", "where_q:1"),
        neg("r", "where_second:1"),
        *(identity(f"y_{name}", name) for name in "pqr"),
    ]
    refused(graph(*records), "different branches of a conditional", ["p", "q"])
    refused(graph(*records), "different branches of a conditional", ["p", "r"])
    fused(graph(*records), ["q", "r"])


def test_a_switch_that_leads_nowhere_is_no_internal_fault() -> None:
    """A broken graph is repaired by edits."""
    for records in ([node("s", "Switch", ["x", "gone"], T=FLOAT)], [node("s", "Switch", ["x"], T=FLOAT)],
                    [identity("i", "gone", kind=BOOL), node("s", "Switch", ["x", "i"], T=FLOAT)]):  # fmt: skip
        found = graph(X, *records, neg("a", "s:1"), neg("b", "x"), identity("y", "b"))
        fused(found, ["b"])
        assert graphs.inputs(found)["y"] == ["call"]


def test_what_an_earlier_edit_has_added_in_a_branch_holds_the_call_there() -> None:
    found = graph(placeholder("p", BOOL, ()), X, node("s", "Switch", ["x", "p"], T=FLOAT), neg("a", "s:1"),
                  neg("b", "a"), identity("y", "b"))  # fmt: skip
    fused(found, ["a"], "first")
    fused(found, ["b"], "second")
    assert graphs.inputs(found)["second"] == ["first"] and len(graphs.names(found)) == 6


# -- another body ------------------------------------------------------------------------------------------


def tanh(backward: bool = True) -> list[bytes]:
    """A chain of tanh and its backward pass, in the order in which TensorFlow would have made them."""
    records = [placeholder("x", FLOAT, (2,)), unary("Tanh", "a1", "x"), unary("Tanh", "a2", "a1")]
    records.append(unary("Tanh", "a3", "a2"))
    if backward:
        records += [
            placeholder("dy", FLOAT, (2,)),
            node("a3_grad", "TanhGrad", ["a3", "dy"], T=FLOAT),
            node("a2_grad", "TanhGrad", ["a2", "a3_grad"], T=FLOAT),
            node("a1_grad", "TanhGrad", ["a1", "a2_grad"], T=FLOAT),
        ]
    return records


def tanh_grad2(y: str = "a2", dy: str = "dy", result: str = "a2_grad", kind: bytes = FLOAT) -> Graph:
    """Two steps of the backward pass that need only the inner tanh: the outer one is computed again."""
    return graph(
        placeholder(y, kind),
        placeholder(dy, kind),
        unary("Tanh", "again", y, kind=kind),
        node("step", "TanhGrad", ["again", dy], T=kind),
        node(result, "TanhGrad", [y, "step"], T=kind),
        name="body.pb",
    )


GRADS = "a3_grad|a2_grad"


@runs
def test_another_body_that_needs_fewer_inputs() -> None:
    found = graph(*tanh())
    result = fused(found, GRADS, "tanh_grad2", body=tanh_grad2())
    name = only_function(found).signature.name
    assert name.startswith("tanh_grad2_")
    expect(
        found,
        *tanh()[:5],
        call("tanh_grad2", name, ["dy", "a2"], [FLOAT] * 2, [FLOAT]),
        node("a1_grad", "TanhGrad", ["a1", "tanh_grad2"], T=FLOAT),
    )
    assert result.notes == ["'a3' is not needed by body.pb"]
    given = {"x": [0.3, -0.7], "dy": [1.0, 0.5]}
    assert run(found, "a1_grad", **given) == run(graph(*tanh()), "a1_grad", **given)
    assert body_of(only_function(found)) == {
        "again": ["a2"], "step": ["again:y:0", "dy"], "a2_grad": ["a2", "step:z:0"]
    }  # fmt: skip


@runs
def test_a_body_is_paired_by_what_is_mapped() -> None:
    found = graph(*tanh())
    pairs = [("a2", "p"), ("dy:0", "q"), ("a2_grad", "r")]
    fused(found, GRADS, body=tanh_grad2("p", "q", "r"), mapped=pairs)
    assert graphs.inputs(found)["call"] == ["dy", "a2"]
    given = {"x": [0.3, -0.7], "dy": [1.0, 0.5]}
    assert run(found, "a1_grad", **given) == run(graph(*tanh()), "a1_grad", **given)


@runs
def test_what_is_mapped_goes_before_what_has_the_same_name() -> None:
    found = graph(X, placeholder("y", FLOAT, (2,)), node("d", "Sub", ["x", "y"], T=FLOAT), identity("o", "d"))
    body = graph(placeholder("x"), placeholder("y"), node("d", "Sub", ["x", "y"], T=FLOAT), name="body.pb")
    fused(found, ["d"], body=body, mapped=[("x", "y"), ("y", "x")])
    assert run(found, "o", x=[5.0, 5.0], y=[2.0, 3.0]) == [[-3.0, -2.0]]


@runs
def test_a_body_is_paired_by_the_order_of_first_use() -> None:
    """The placeholders in the order in which the body's nodes read them, the inputs in the selection's."""
    found = graph(X, placeholder("y", FLOAT, (2,)), node("d", "Sub", ["y", "x"], T=FLOAT), identity("o", "d"))
    body = graph(placeholder("late"), placeholder("early"), node("e", "Sub", ["early", "late"], T=FLOAT))
    fused(found, ["d"], body=body)
    assert graphs.inputs(found)["call"] == ["y", "x"]
    assert run(found, "o", x=[5.0, 5.0], y=[2.0, 3.0]) == [[-3.0, -2.0]]


@runs
def test_a_body_is_paired_by_name_where_the_order_is_another() -> None:
    found = graph(X, placeholder("y", FLOAT, (2,)), node("d", "Sub", ["y", "x"], T=FLOAT), identity("o", "d"))
    body = graph(placeholder("x"), placeholder("y"), neg("n", "x"), add("d", "n", "y"))
    fused(found, ["d"], body=body)
    assert run(found, "o", x=[5.0, 5.0], y=[2.0, 3.0]) == [[-3.0, -2.0]]


def test_pairs_that_are_not_clear() -> None:
    error = refused(graph(*tanh()), "the selection has 'a3', 'dy', 'a2' left as inputs, and body.pb 'p', 'q': which "
                    "is which?", GRADS, body=tanh_grad2("p", "q"))  # fmt: skip
    assert error.hint is not None and "--map" in error.hint
    two = graph(*tanh(), identity("g3", "a3_grad"))
    refused(two, "body.pb has no result for 'a3_grad'", GRADS, body=tanh_grad2())
    body = graph(placeholder("dy"), placeholder("a2"), neg("r1", "dy"), neg("r2", "a2"), name="body.pb")
    error = refused(graph(*tanh()), "which is which?", GRADS, body=body)
    assert "'a2_grad'" in error.message and "'r1', 'r2'" in error.message


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("a1", "a2")], "'a1' is not at the boundary of the selection, which is 'a3', 'dy', 'a2', 'a2_grad'"),
        ([("a3", "again")], "'a3' is not at the boundary"),
        ([("a2", "a2"), ("a3", "a2")], "is mapped twice"),
        ([("a2", "a2"), ("a2", "dy")], "is mapped twice"),
        ([("a2_grad", "a2_grad"), ("a2_grad", "step")], "is mapped twice"),
        ([("a2", "nope")], "body.pb has no node 'nope'"),
        ([("nope", "a2")], "model.pb has no node 'nope'"),
        ([("a2:1", "a2")], "has 1 output"),
        ([("a2", "a2:1")], "has 1 output"),
    ],
)
def test_pairs_that_make_no_sense(pairs: list[tuple[str, str]], words: str) -> None:
    refused(graph(*tanh()), words, GRADS, body=tanh_grad2(), mapped=pairs)


def test_a_body_of_other_types() -> None:
    refused(graph(*tanh()), "'dy' is float32 [2], and 'dy' of body.pb, which is to take its place, is float64",
            GRADS, body=tanh_grad2(kind=DOUBLE))  # fmt: skip
    body = graph(placeholder("a2", FLOAT), placeholder("dy", FLOAT, (3,)), add("a2_grad", "a2", "dy"), name="body.pb")
    refused(graph(*tanh()), "'dy' is float32 [2], and 'dy' of body.pb, which is to take its place, is float32 [3]",
            GRADS, body=body)  # fmt: skip
    body = graph(placeholder("a2"), placeholder("dy"), add("s", "a2", "dy"),
                 node("a2_grad", "Cast", ["s"], SrcT=FLOAT, DstT=DOUBLE), name="body.pb")  # fmt: skip
    refused(graph(*tanh()), "'a2_grad' is float32, and 'a2_grad' of body.pb", GRADS, body=body)


@pytest.mark.parametrize(
    ("records", "result", "words"),
    [
        ([node("u", "MyOp")], "u", "'u' of body.pb: MyOp is not known here"),
        ([placeholder("more")], "more", "left as inputs"),
        ([const("k", [1, 2]), node("d", "PlaceholderWithDefault", ["k"], dtype=FLOAT, shape=(2,))], "d",
         "'d' of body.pb stands for no input of the selection"),
        ([VARIABLE, identity("r", "v")], "r", "'v'"),
        ([node("h", "VarHandleOp", dtype=FLOAT, shape=(2,)), node("r", "ReadVariableOp", ["h"], dtype=FLOAT)], "r",
         "'h'"),
        ([node("q", "FIFOQueueV2", component_types=dtypes(FLOAT)), node("s", "QueueSizeV2", ["q"]),
          node("f", "Cast", ["s"], SrcT=INT32, DstT=FLOAT)], "f", "'q'"),
    ],
    ids=["an unknown op", "another input", "a default", "a variable", "a resource variable", "a queue"],
)  # fmt: skip
def test_what_a_body_cannot_hold(records: list[bytes], result: str, words: str) -> None:
    """What cannot be fused cannot come in with a body either."""
    body = graph(placeholder("i"), *records, add("o", "i", result), name="body.pb")
    refused(graph(X, neg("n", "x"), identity("y", "n")), words, ["n"], body=body)


def test_a_body_is_left_as_it_is() -> None:
    body = tanh_grad2()
    before = graphs.written(body)
    fused(graph(*tanh()), GRADS, body=body)
    assert graphs.written(body) == before and not body.is_changed


@runs
def test_a_body_with_several_results() -> None:
    records = [X, neg("a", "x"), unary("Abs", "b", "x"), identity("p", "a"), identity("q", "b")]
    found = graph(*records)
    body = graph(placeholder("i"), unary("Square", "b", "i"), unary("Relu", "a", "i"), name="body.pb")
    fused(found, ["a", "b"], body=body)
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 0.0], [1.0, 4.0]]  # by name
    found = graph(*records)
    body = graph(placeholder("i"), unary("Square", "r", "i"), unary("Relu", "s", "i"), name="body.pb")
    fused(found, ["a", "b"], body=body)
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 4.0], [1.0, 0.0]]  # by order
    found = graph(*records)
    body = graph(placeholder("i"), scalar("axis", 0, INT32), node("s", "Split", ["axis", "i"], T=FLOAT, num_split=2))
    fused(found, ["a", "b"], body=body)
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0], [-2.0]]  # two outputs of one node


@runs
def test_two_outputs_may_have_one_result_and_a_result_may_be_an_input() -> None:
    records = [X, neg("a", "x"), unary("Abs", "b", "x"), identity("p", "a"), identity("q", "b")]
    body = graph(placeholder("i"), unary("Relu", "r", "i"), name="body.pb")
    found = graph(*records)
    fused(found, ["a", "b"], body=body, mapped=[("a", "r"), ("b", "r")])
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, 0.0]] * 2
    found = graph(*records)
    fused(found, ["a", "b"], body=body, mapped=[("a", "i"), ("b", "r")])
    assert run(found, "p", "q", x=[1.0, -2.0]) == [[1.0, -2.0], [1.0, 0.0]]


@runs
def test_a_body_with_functions_of_its_own() -> None:
    def inner(op: str) -> Any:
        return function("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, unary(op, "n", "a"))

    body = graph(placeholder("i"), call("c", "f", ["i"], [FLOAT], [FLOAT]), library(inner("Square")), name="body.pb")
    found = graph(X, neg("a", "x"), call("b", "f", ["a"], [FLOAT], [FLOAT]), identity("y", "b"),
                  library(inner("Abs")))  # fmt: skip
    result = fused(found, ["a"], body=body)
    assert sorted(f.signature.name for f in found.functions) == sorted(["f", *result.journal.functions.added])
    assert len(result.journal.functions.added) == 2
    assert run(found, "y", x=[1.0, -2.0]) == [[1.0, 4.0]]
    again = graph(X, neg("a", "x"), identity("y", "a"), library(inner("Square")))
    assert len(fused(again, ["a"], body=body).journal.functions.added) == 1


@runs
def test_a_body_with_weights_of_its_own() -> None:
    weights = const("weights", [1.0] * 20_000, shape=(2, 10_000))
    body = graph(placeholder("i"), weights, const("axis", [1], INT32),
                 node("column", "Sum", ["weights", "axis"], T=FLOAT, Tidx=INT32), add("o", "i", "column"),
                 name="body.pb")  # fmt: skip
    found = graph(X, neg("n", "x"), identity("y", "n"))
    result = fused(found, ["n"], body=body)
    assert graphs.inputs(found) == {"x": [], "call/weights": [], "call": ["x", "call/weights"], "y": ["call"]}
    assert "call/weights" in result.journal.added
    assert run(found, "y", x=[1.0, 2.0]) == [[10_001.0, 10_002.0]]


@runs
def test_a_body_with_weights_in_a_loop() -> None:
    """Weights from outside reach a loop through an Enter: refused, or it runs."""
    weights = const("weights", [1.0] * 20_000)
    body = graph(placeholder("w/v"), weights, const("axis", [0], INT32),
                 node("sum", "Sum", ["weights", "axis"], T=FLOAT, Tidx=INT32),
                 add("w/double", "w/v", "sum"), name="body.pb")  # fmt: skip
    found = graph(*LOOP)
    try:
        fused(found, ["w/double"], body=body, mapped=[("w/v", "w/v")])
    except EditError:
        assert not found.is_changed
        return
    assert outcome(found, "out", n=2) == [40_007.0]


@runs
def test_a_body_in_a_loop_that_does_not_need_what_changes_in_it() -> None:
    """The call belongs to the iteration, whatever it reads: without that the loop does not end."""
    found = graph(*LOOP)
    body = graph(placeholder("i"), neg("o", "i"), name="body.pb")
    try:
        fused(found, ["w/double", "w/plus"], body=body, mapped=[("w/three", "i")])
    except EditError:
        assert not found.is_changed
        return
    assert run(found, "out", n=2, patience=5) == [-3.0]


@runs
@pytest.mark.parametrize("needs", ["x", ""])
def test_a_body_in_a_branch_that_does_not_need_what_is_decided(needs: str) -> None:
    """The call belongs to the branch, whatever it reads: otherwise both sides of the conditional give a value."""
    records = cond(node("c/both", "Mul", ["c/x_t:1", "x"], T=FLOAT), identity("only", "c/both"))
    found = graph(*records)
    body = graph(placeholder("i"), neg("o", "i")) if needs else graph(const("k", [7, 7]), neg("o", "k"))
    try:
        fused(found, ["c/both"], body=body, mapped=[("x", "i")] if needs else [])
    except EditError:
        assert not found.is_changed
        return
    assert taken_both_ways(found, "only") == [[[-1.0, -2.0] if needs else [-7.0, -7.0]], "a dead value"]


# -- size --------------------------------------------------------------------------------------------------


def test_many_nodes_and_many_outputs_take_linear_time() -> None:
    def fusion(count: int) -> Callable[[], object]:
        found = graph(X, *(neg(f"n{i}", "x") for i in range(count)))
        return lambda: fused(found, "^n")

    assert is_linear(fusion, 100, 800)


def test_a_long_chain() -> None:
    records = [placeholder("n0"), *(neg(f"n{i}", f"n{i - 1}") for i in range(1, 20_000))]
    found = graph(*records)
    fuse_ops(found, Selection(ops=("Neg",)), "call", inline=True)
    assert len(only_function(found).node_def) == 19_999


# -- the command -------------------------------------------------------------------------------------------


class Command:
    """`gdsurgeon fuse-ops model.pb`, with what it says and writes."""

    def __init__(self, folder: Path, read: Callable[[], Any]) -> None:
        self.folder, self._read = folder, read

    def put(self, name: str, what: Graph) -> str:
        (self.folder / name).write_bytes(graphs.written(what))
        return str(self.folder / name)

    def __call__(self, *options: str) -> tuple[int, str, dict[str, Any]]:
        """The exit code, standard error, and the report."""
        terminal.__init__()  # type: ignore[misc]
        self._read()
        before = (self.folder / "model.pb").read_bytes()
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        code = exit_code(["fuse-ops", str(self.folder / "model.pb"), "-o", str(self.folder / "out.pb"), "--report",
                          str(report), *options])  # fmt: skip
        said = self._read().err
        assert "Traceback" not in said and "internal fault" not in said
        assert (self.folder / "model.pb").read_bytes() == before
        assert (self.folder / "out.pb").exists() == (code == 0), said
        if report.exists():  # of what differs, too
            assert json.loads(report.read_text())["passed"] == (code == 0)
        assert report.exists() or code, said
        return code, said, json.loads(report.read_text()) if code == 0 else {}


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys.readouterr)


@runs
def test_fusing_is_proven(command: Command) -> None:
    command.put("model.pb", graph(*chain()))
    code, said, report = command("--between", "x=mul", "--with-consts", "--name", "block")
    assert code == 0 and "bit-identical" in said
    assert report["edit"]["moved"] == {"mul": "block"}
    assert {(o["original"], o["edited"], o["equal"]) for o in report["proof"]["outputs"]} == {
        ("y", "y", True), ("mul", "block", True)
    }  # fmt: skip
    assert report["proof"]["timing"] is None


@runs
def test_another_body_is_proven(command: Command) -> None:
    command.put("model.pb", graph(*tanh()))
    body = command.put("body.pb", tanh_grad2("p", "q"))
    code, said, report = command("--select", GRADS, "--name", "tanh_grad2", "--with", body, "--map", "a2=p", "--map",
                                 "dy=q")  # fmt: skip
    assert code == 0, said
    assert "bit-identical" in said and "'a3' is not needed by" in said
    assert {o["original"] for o in report["proof"]["outputs"]} >= {"a1_grad"}


@runs
def test_a_wrong_body_is_caught(command: Command) -> None:
    command.put("model.pb", graph(*tanh()))
    body = command.put("body.pb", graph(placeholder("a2"), placeholder("dy"), unary("Tanh", "again", "a2"),
                                        node("a2_grad", "TanhGrad", ["again", "dy"], T=FLOAT)))  # fmt: skip
    code, said, _ = command("--select", GRADS, "--name", "tanh_grad2", "--with", body)
    assert code == 5 and "the result differs" in said
    code, said, _ = command("--select", GRADS, "--name", "tanh_grad2", "--with", body, "--rtol", "1e-9")
    assert code == 5
    code, said, _ = command("--select", GRADS, "--name", "tanh_grad2", "--with", body, "--atol", "100")
    assert code == 0, said


@runs
def test_a_body_that_rounds_otherwise_passes_within_a_tolerance(command: Command) -> None:
    command.put("model.pb", graph(X, const("three", [3, 3]), node("d", "RealDiv", ["x", "three"], T=FLOAT),
                                  identity("y", "d")))  # fmt: skip
    third = const("third", [1 / 3, 1 / 3])
    body = command.put("body.pb", graph(placeholder("x"), placeholder("three"), third,
                                        node("d", "Mul", ["x", "third"], T=FLOAT)))  # fmt: skip
    options = ("--node", "d", "--name", "m", "--with", body, "--feed", "x=[7, 1e10]")
    assert command(*options)[0] == 5
    code, said, report = command(*options, "--rtol", "1e-6")
    assert code == 0, said
    assert report["proof"]["tolerance"]["rtol"] == 1e-6


@runs
def test_xla_compiles_and_is_measured(command: Command) -> None:
    records = [placeholder("x", FLOAT, (64, 64)), unary("Tanh", "a", "x"), unary("Exp", "b", "a"), add("c", "b", "a"),
               unary("Sigmoid", "d", "c"), identity("y", "d")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, report = command("--select", "^[abcd]$", "--name", "fast", "--xla")
    assert code == 0, said
    assert report["proof"]["tolerance"]["rtol"] > 0
    timing = report["proof"]["timing"]
    assert timing["original"] > 0 and timing["edited"] > 0 and timing["runs"] >= 3
    assert "measured" in said
    assert graphs.attrs((command.folder / "out.pb").read_bytes(), "fast")["_XlaMustCompile"].b


@runs
def test_what_xla_cannot_compile_is_said_in_its_words(command: Command) -> None:
    records = [placeholder("x", FLOAT, (2,)), node("s", "AsString", ["x"], T=FLOAT),
               node("n", "StringLength", ["s"]), identity("y", "n", kind=INT32)]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, _ = command("--select", "^[sn]$", "--name", "fast", "--xla")
    assert code == 5 and "AsString" in said, said


@runs
def test_a_convolution_under_xla_is_warned_about(command: Command) -> None:
    records = [placeholder("x", FLOAT, (1, 4, 4, 1)), const("k", [1, 2, 3, 4], shape=(2, 2, 1, 1)),
               node("conv", "Conv2D", ["x", "k"], T=FLOAT, strides=ints(1, 1, 1, 1), padding="SAME"),
               unary("Relu", "r", "conv"), identity("y", "r")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, report = command("--select", "conv|r$", "--name", "fast", "--xla")
    assert code == 0, said
    assert any("convolution (Conv2D)" in warning for warning in report["warnings"])


def ints(*values: int) -> bytes:
    return encode_len(1, b"".join(bytes([0x18, value]) for value in values))


@runs
def test_a_random_op_is_not_said_to_be_compared(command: Command) -> None:
    records = [const("shape", [3], INT32), node("r", "RandomUniform", ["shape"], T=INT32, dtype=FLOAT), neg("n", "r"),
               identity("y", "n")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, _ = command("--select", "^[rn]$", "--name", "call")
    assert code == 7 and "random" in said


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--name", "call"], 2, "no nodes are selected"),
        (["--select", "neg"], 2, "--name"),
        (["--select", "neg", "--name", "call", "--map", "a=b"], 2, "--with BODY gives one"),
        (["--select", "neg", "--name", "call", "--with", "missing.pb"], 3, "missing.pb"),
        (["--select", "neg", "--name", "x", "--validate", "none"], 4, "the name 'x' is taken"),
        (["--node", "sum", "--node", "mul", "--name", "c", "--validate", "none"], 4, "'sum' -> 'neg' -> 'mul'"),
    ],
)
def test_errors(command: Command, options: list[str], code: int, words: str) -> None:
    command.put("model.pb", graph(*chain()))
    found, said, _ = command(*options)
    assert found == code and words in said


def test_without_running(command: Command) -> None:
    command.put("model.pb", graph(*chain()))
    for level in ("none", "structure"):
        (command.folder / "out.pb").unlink(missing_ok=True)
        assert command("--select", "neg|mul", "--name", "call", "--validate", level)[0] == 0
    assert "call" in graphs.names((command.folder / "out.pb").read_bytes())


def text(name: str, value: bytes) -> bytes:
    return node(name, "Const", dtype=STRING, value=encode_len(8, b"\x08\x07\x12\x00" + encode_len(8, value)))


@runs
def test_a_proof_writes_no_file_unless_that_is_allowed(command: Command, tmp_path: Path) -> None:
    """Nobody who fetches y writes a file; everybody who calls the function would."""
    written = tmp_path / "written.txt"
    records = [X, text("name", str(written).encode()), text("content", b"text"),
               node("write", "WriteFile", ["name", "content"]), neg("n", "x"), identity("y", "n")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, _ = command("--node", "write", "--node", "n", "--name", "call")
    assert not written.exists()
    assert code in (4, 7), said


@runs
def test_a_body_that_writes_a_file_is_not_run_unless_that_is_allowed(command: Command, tmp_path: Path) -> None:
    written = tmp_path / "written.txt"
    command.put("model.pb", graph(X, neg("n", "x"), identity("y", "n")))
    body = graph(placeholder("x"), text("name", str(written).encode()), text("content", b"text"),
                 node("write", "WriteFile", ["name", "content"]), neg("n", "x", "^write"))  # fmt: skip
    code, said, _ = command("--node", "n", "--name", "call", "--with", command.put("body.pb", body))
    assert not written.exists()
    assert code in (4, 7), said
    code, said, _ = command("--node", "n", "--name", "call", "--with", str(tmp_path / "body.pb"), "--allow-ops")
    assert code in (0, 4), said
    assert written.exists() == (code == 0)


@runs
def test_a_string_constant_is_fused_like_any_other() -> None:
    words = node("words", "Const", dtype=STRING, value=encode_len(8, b"\x08\x07\x12\x04\x12\x02\x08\x02B\x01aB\x02bc"))
    records = [words, node("length", "StringLength", ["words"]), identity("y", "length", kind=INT32)]
    found = graph(*records)
    fused(found, ["words", "length"])
    assert run(found, "y") == [[1, 2]]
