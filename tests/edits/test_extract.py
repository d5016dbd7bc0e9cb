"""extract; and edits inside the bodies of functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.cloning import KEYS, table, variable
from support.desk import Desk, check_error
from support.expecting import account, expect, refused, sound
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    RESOURCE,
    STRING,
    UINT8,
    VARIABLE,
    Builder,
    X,
    add,
    const,
    define,
    dtypes,
    func,
    graph,
    graph_bytes,
    identity,
    library,
    neg,
    node,
    placeholder,
    relu,
    typed,
)
from support.operating import refused as not_written
from support.running import run

from gdsurgeon.analysis.queries.usage import calling
from gdsurgeon.container.load import load
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs, Unchanged
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.functions import in_functions
from gdsurgeon.edits.remove import remove
from gdsurgeon.edits.rename import rename
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.edits.set_device import set_device
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection, selected_nodes
from gdsurgeon.wire.protos import MetaGraphDef, VariableDef


def model() -> list[bytes]:
    """x -> conv -> relu -> (head, aux); and a part that has nothing to do with it."""
    return [
        placeholder("x", FLOAT, (-1, 2)),
        const("w", [1, 2, 3, 4, 5, 6], FLOAT, (2, 3)),
        typed("MatMul", "conv", "x", "w", transpose_a=False, transpose_b=False),
        relu("relu", "conv"),
        const("k", [10, 20, 30]),
        typed("Mul", "head", "relu", "k"),
        neg("aux", "relu"),
        placeholder("other", INT32, ()),
        identity("apart", "other", kind=INT32),
    ]


def named(*names: str) -> list[bytes]:
    """The records of model() with these names."""
    by_name = dict(zip(graphs.names(graph_bytes(*model())), model(), strict=True))
    return [by_name[name] for name in names]


# -- cutting at outputs and at inputs --------------------------------------------------------------------------


def test_a_cut_input_becomes_a_placeholder_of_its_name_dtype_and_shape() -> None:
    found = graph(*model())
    result = expect(found, lambda g: extract(g, ["relu"], ["head"]), [RELU, *named("k", "head")])
    (claim,) = result.claims
    assert claim == SameGiven({"relu": "relu"}, (("head", "head"),), "edited(x) == original(x, relu given)")
    assert run(found, "head", relu=[[1.0, 2.0, 3.0]]) == [[[10, 40, 90]]]


RELU = placeholder("relu", FLOAT, (-1, 3))
HEAD = named("x", "w", "conv", "relu", "k", "head")
BIAS = [*model(), placeholder("bias", FLOAT, (3,)), add("y", "head", "bias")]
DEFAULT = [const("d", [1, 1, 1]), node("p", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=(3,)), *model(),
           add("y", "head", "p")]  # fmt: skip
SIDE_BY_SIDE = [X, neg("a", "x"), typed("Abs", "b", "a"), add("y", "a", "b")]
CHECKED = [X, placeholder("checked"), node("guard", "NoOp", ["^checked"]), identity("y", "x", "^guard"),
           identity("z", "x")]  # fmt: skip
WAITED = [X, neg("a", "x"), typed("Abs", "b", "a"), node("k", "NoOp", ["^b"]), identity("y", "x", "^k"),
          identity("z", "x")]  # fmt: skip
GUARDED = [X, node("guard", "NoOp"), neg("a", "x", "^guard"), typed("Abs", "y", "a")]
BEHIND = [X, neg("a", "x"), node("n", "NoOp", ["^a"]), typed("Abs", "y", "a", "^n")]


def split() -> list[bytes]:
    return [
        placeholder("x", FLOAT, (4,)), const("axis", [0], INT32, ()),
        typed("Split", "s", "axis", "x", num_split=2), neg("p", "s"), typed("Sub", "q", "s:1", "p"),
    ]  # fmt: skip


S, S_1 = placeholder("s", FLOAT, (2,)), placeholder("s_1", FLOAT, (2,))


def stays(name: str) -> dict[str, Any]:
    return {"code": "stays-input", "node": name}


def not_needed(name: str) -> dict[str, Any]:
    return {"code": "not-needed", "tensor": name}


def waited(node: str, name: str, *nodes: str) -> dict[str, Any]:
    return {"code": "only-waited-for", "nodes": [*nodes], "node": node, "name": name}


@pytest.mark.parametrize(
    ("records", "inputs", "outputs", "after", "notes", "pairs"),
    [
        (model(), [], ["aux", "apart", "aux:0"], named("x", "w", "conv", "relu", "aux", "other", "apart"), [],
         ["aux", "apart"]),
        (model(), [], ["relu", "head"], HEAD, [], ["relu", "head"]),
        (model(), [], ["conv"], named("x", "w", "conv"), [], ["conv"]),
        (model(), [], ["w"], named("w"), [], ["w"]),
        (model(), [], ["x"], named("x"), [], ["x"]),
        (split(), [], ["s:1"], split()[:3], [], ["s:1"]),
        (model(), ["x"], ["head"], HEAD, [], ["head"]),
        (model(), ["x", "w"], ["conv"], [*named("x"), placeholder("w", FLOAT, (2, 3)), *named("conv")], [], ["conv"]),
        ([const("z", [1]), *model(), add("y", "z", "head")], ["relu"], ["y"],
         [const("z", [1]), RELU, *named("k", "head"), add("y", "z", "head")], [], ["y"]),
        (BIAS, ["relu"], ["y"], [RELU, *named("k", "head"), *BIAS[-2:]], [stays("bias")], ["y"]),
        (DEFAULT, ["relu"], ["y"], [*DEFAULT[:2], RELU, *named("k", "head"), DEFAULT[-1]], [], ["y"]),
        (model(), ["relu", "relu:0"], ["head"], [RELU, *named("k", "head")], [], ["head"]),
        (model(), ["conv", "relu"], ["head"], [RELU, *named("k", "head")], [not_needed("conv")], ["head"]),
        ([*model(), placeholder("spare")], ["spare", "x"], ["head"], HEAD, [not_needed("spare")], ["head"]),
        (SIDE_BY_SIDE, ["a", "b"], ["y"],
         [placeholder("a", FLOAT, (2,)), placeholder("b", FLOAT, (2,)), SIDE_BY_SIDE[3]], [], ["y"]),
        (model(), ["relu"], ["relu", "head"], [RELU, *named("k", "head")], [], ["head"]),
        (split(), ["s:0"], ["q"], [*split()[:3], placeholder("s_0", FLOAT, (2,)), neg("p", "s_0"), split()[4]],
         [stays("x")], ["q"]),
        (split(), ["s:1", "s"], ["q"], [S_1, S, neg("p", "s"), typed("Sub", "q", "s_1", "p")], [], ["q"]),
        (CHECKED, ["x"], ["y"], CHECKED[:4], [stays("checked")], ["y"]),
        (WAITED, [], ["y"], WAITED[:5], [waited("y", "k", "a", "b")], ["y"]),
        (BEHIND, ["a"], ["y"], [*BEHIND[:2], placeholder("a_0", FLOAT, (2,)), BEHIND[2],
                                typed("Abs", "y", "a_0", "^n")],
         [stays("x"), waited("y", "n", "a")], ["y"]),
        (GUARDED, ["a"], ["y"], [placeholder("a", FLOAT, (2,)), GUARDED[3]], [], ["y"]),
        ([X, identity("a", "x"), identity("y", "x", _class=["loc:@a", "loc:@x"])], ["x"], ["y"],
         [X, identity("y", "x", _class=["loc:@x"])], [], ["y"]),
        ([X, identity("a", "x"), identity("y", "a", _class=["loc:@a"])], ["a"], ["y"],
         [placeholder("a", FLOAT, (2,)), identity("y", "a")], [], ["y"]),
        *(([placeholder("x", kind, (2, 1)), identity("a", "x", kind=kind), identity("y", "a", kind=kind)], ["a"], ["y"],
           [placeholder("a", kind, (2, 1)), identity("y", "a", kind=kind)], [], ["y"])
          for kind in (BOOL, INT32, INT64, STRING, UINT8, DOUBLE)),
    ],
)  # fmt: skip
def test_parts(
    records: list[bytes], inputs: list[str], outputs: list[str], after: list[bytes], notes: list[Any], pairs: list[str]
) -> None:
    result = expect(records, partial(extract, inputs=inputs, outputs=outputs), after)
    assert [note.as_json() for note in result.notes] == notes
    (claim,) = result.claims
    assert isinstance(claim, SameGiven) and claim.outputs == tuple((name, name) for name in pairs)


def test_inputs_may_be_tensors() -> None:
    edit = lambda g: extract(g, [g.tensor("relu")], [g["head"].output])  # noqa: E731
    expect(model(), edit, [RELU, *named("k", "head")])


def test_output_1_is_cut_while_output_0_is_still_needed() -> None:
    found = graph(*split())
    after = [*split()[:3], S_1, split()[3], typed("Sub", "q", "s_1", "p")]
    result = expect(found, lambda g: extract(g, ["s:1"], ["q"]), after)
    (claim,) = result.claims
    assert isinstance(claim, SameGiven) and claim.given == {"s:1": "s_1"}
    assert run(found, "q", x=[1.0, 2.0, 3.0, 4.0], s_1=[10.0, 20.0]) == [[11, 22]]


# -- initialisers --------------------------------------------------------------------------------------------


TABLES = [
    KEYS,
    *table("s", "s", "init_s"),
    *table("t", "t", "init_t"),
    node("all", "NoOp", ["^init_s/fill", "^init_t/fill"]),
]


def test_initialisers_of_the_tables_that_stay_stay() -> None:
    found = graph(*TABLES)
    result = expect(found, lambda g: extract(g, ["k"], ["t/find"]), [KEYS, *TABLES[7:13]])
    assert "init_s/fill" in result.intent.removed and "all" in result.intent.removed
    assert run(found, "t/find", k=[1, 7], initialisers=["init_t/fill"]) == [[5, -1]]


def test_no_initialiser_stays_without_its_table() -> None:
    found = graph(*TABLES, identity("y", "s/find"))
    extract(found, ["s/find"], ["y"])
    assert graphs.ops(found) == {"s/find": "Placeholder", "y": "Identity"}


@pytest.mark.parametrize("resource", [False, True])
def test_initialisers_of_the_variables_that_stay_stay(resource: bool) -> None:
    records = [X, *variable("s", "init", resource=resource)]
    found = graph(*records, identity("z", "x"))
    expect(found, lambda g: extract(g, [], ["s/mul"]), records)
    assert run(found, "s/mul", x=[1.0, 2.0], initialisers=["init/Assign"]) == [[6, 16]]


def test_a_table_that_is_filled_by_way_of_an_identity() -> None:
    """Handles and references pass through Identity nodes, and tables through several."""
    found = graph(*TABLES, identity("same", "s/table", kind=RESOURCE))
    fill = found["init_s/fill"]
    found.set_inputs(fill, [found["same"].output, *fill.inputs[1:]])
    extract(found, ["k"], ["s/find"])
    assert run(found, "s/find", k=[1, 7], initialisers=["init_s/fill"]) == [[5, -1]]


def test_an_initialiser_that_reads_a_cut_tensor_still_reads_it() -> None:
    """The initial value of a variable is not an input of the part."""
    records = [X, neg("a", "x"), VARIABLE, typed("Assign", "v/assign", "v", "a"), add("y", "a", "v")]
    found = graph(*records)
    extract(found, ["a"], ["y"])
    inputs = graphs.inputs(found)
    assert inputs["v/assign"][0] == "v" and inputs["y"][1] == "v"
    assert sound(found)


# -- what cannot be ------------------------------------------------------------------------------------------


BRANCHES = [
    placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()), typed("Switch", "s", "x", "p"),
    typed("Square", "more", "s:1"), typed("Abs", "less", "s"), typed("Merge", "m", "less", "more", N=2), neg("y", "m"),
]  # fmt: skip
UNKNOWN = [placeholder("x"), node("u", "MyOp", ["x"]), identity("y", "u")]
BAD_NAME = [placeholder("x"), node("n", "NoOp"), identity("b", "x"), identity("_a", "x"), add("y", "b", "_a")]
LOOP = graphs.loop()


@pytest.mark.parametrize(
    ("records", "inputs", "outputs", "code", "facts"),
    [
        (model(), [], [], "missing-argument", {}),
        (model(), ["x"], [], "missing-argument", {}),
        *((model(), [name], [output], "not-needed", {"tensor": name}) for name, output in
          (("relu", "apart"), ("other", "head"), ("head", "head"), ("head", "relu"))),
        (model(), ["rely"], ["head"], "no-such-node", {"node": "rely", "near": "relu"}),
        (model(), ["^relu"], ["head"], "bad-tensor-name", {"tensor": "^relu"}),
        (model(), [], ["head:1"], "no-such-tensor", {"tensor": "head:1"}),
        (model()[:3], ["x"], ["conv"], "nothing-to-do", {}),
        (model()[:3], [], ["conv"], "nothing-to-do", {}),
        (UNKNOWN, ["u"], ["y"], "unknown-dtype", {"tensor": "u", "op": "MyOp"}),
        (BAD_NAME, ["b", "_a"], ["y"], "bad-name", {"name": "_a"}),
        *((LOOP, [name], ["out"], "crosses-loop", {"tensor": name, "loop": "w"}) for name in
          ("w/Add", "w/Identity", "w/Switch:1", "w/Merge", "w/Limit", "w/Enter")),
        *((LOOP, [], [name], "crosses-loop", {"tensor": name, "loop": "w"}) for name in ("w/Add", "w/Less", "w/Merge")),
        *((BRANCHES, [name], ["y"], "crosses-branch", {"tensor": name, "end": "input"}) for name in ("more", "less")),
        *((BRANCHES, [], [name], "crosses-branch", {"tensor": name, "end": "output"}) for name in ("more", "s", "s:1")),
        (model(), [], [graph(*model())["head"].output], "other-graph", {"tensor": "head"}),
        (model(), [graph(*model())["relu"].output], ["head"], "other-graph", {"tensor": "relu"}),
    ],
)  # fmt: skip
def test_what_cannot_be_cut(
    records: list[bytes], inputs: list[Any], outputs: list[Any], code: str, facts: dict[str, Any]
) -> None:
    """A placeholder instead of the result of a branch would be there whichever branch is taken."""
    refused(graph(*records), code, partial(extract, inputs=inputs, outputs=outputs), **facts)


def test_a_cut_in_front_of_a_loop_and_behind_it() -> None:
    records = graphs.loop()
    records[1:2] = [placeholder("from", INT32, ()), neg("zero", "from", kind=INT32)]
    records.append(neg("y", "out", kind=INT32))
    found = graph(*records)
    extract(found, ["zero"], ["out"])
    assert run(found, "out", n=6, zero=-3) == [6]
    found = graph(*records)
    extract(found, ["w/Exit"], ["y"])
    assert graphs.inputs(found) == {"w/Exit": [], "out": ["w/Exit"], "y": ["out"]}


# -- MetaGraphs ------------------------------------------------------------------------------------------------


def trained(resource: bool) -> Any:
    """y = x * w, with a saver of w and of a variable u that y does not depend on; a MetaGraph as training leaves it."""
    out = MetaGraphDef()
    m = Builder()
    m.placeholder("x", "float32", (-1, 2))
    names = []
    for name in ("w", "u"):
        op = "VarHandleOp" if resource else "VariableV2"
        m.node(name, op, dtype="float32", shape=(2,), container="", shared_name=name)
        m.const(f"{name}/initial", [1.0, 2.0])
        read = f"{name}/Read/ReadVariableOp" if resource else f"{name}/read"
        assign, kind = ("AssignVariableOp", "dtype") if resource else ("Assign", "T")
        m.node(f"{name}/Assign", assign, [name, f"{name}/initial"], **{kind: "float32"})
        m.node(read, *(("ReadVariableOp", [name]) if resource else ("Identity", [name])), **{kind: "float32"})
        variable = VariableDef(variable_name=f"{name}:0", initializer_name=f"{name}/Assign")
        variable.initial_value_name, variable.snapshot_name = f"{name}/initial:0", f"{read}:0"
        variable.is_resource = resource
        out.collection_def["variables"].bytes_list.value.append(variable.SerializeToString())
        names.append(read)
    used = m.node("used", "ReadVariableOp", ["w"], dtype="float32") if resource else "w/read"
    m.typed("Mul", "y", "x", used)
    m.const("save/Const", "model", "string")
    m.const("save/names", ["w", "u"], "string")
    m.const("save/slices", ["", ""], "string")
    where = ["save/Const", "save/names", "save/slices"]
    m.node("save/SaveV2", "SaveV2", [*where, *names], dtypes=["float32", "float32"])
    m.typed("Identity", "save/control_dependency", "save/Const", "^save/SaveV2", kind="string")
    m.node("save/RestoreV2", "RestoreV2", where, dtypes=["float32", "float32"])
    for i, name in enumerate(("w", "u")):
        m.node(f"save/Assign_{i}", assign, [name, f"save/RestoreV2:{i}"], **{kind: "float32"})
    m.node("save/restore_all", "NoOp", ["^save/Assign_0", "^save/Assign_1"])
    out.graph_def.CopyFrom(m.graph_def)
    out.saver_def.filename_tensor_name, out.saver_def.save_tensor_name = "save/Const:0", "save/control_dependency:0"
    out.saver_def.restore_op_name, out.saver_def.version = "save/restore_all", 2
    return out


@pytest.mark.tensorflow
@pytest.mark.parametrize("resource", [False, True])
def test_the_inference_part_of_a_meta_graph_without_its_saver(desk: Desk, resource: bool) -> None:
    """The variables run on values that are made up; collections keep those that stay."""
    desk.put("model.meta", trained(resource).SerializeToString())
    report = desk.report("extract", "model.meta", "--inputs", "x", "--outputs", "y", "-o", "out.meta")
    assert report["proof"]["compared"] == 1
    found = MetaGraphDef.FromString((desk.folder / "out.meta").read_bytes())
    variables = map(VariableDef.FromString, found.collection_def["variables"].bytes_list.value)
    assert [variable.variable_name for variable in variables] == ["w:0"]
    names = {node.name for node in found.graph_def.node}
    assert not found.HasField("saver_def") and {"x", "w", "w/initial", "w/Assign", "y"} < names
    assert not any(name.startswith(("u", "save/")) and name != "used" for name in names)


@pytest.mark.tensorflow
def test_resource_variables_without_values_run_on_values_that_are_made_up(desk: Desk) -> None:
    desk.put("model.meta", trained(True).SerializeToString())
    assert desk.report("rename", "model.meta", "w=v", "-o", "out.meta")["proof"]["compared"]
    wrong = trained(True)
    next(node for node in wrong.graph_def.node if node.name == "y").op = "AddV2"
    desk.put("wrong.meta", wrong.SerializeToString())
    desk.done("validate", "model.meta", "model.meta")
    assert desk.run("validate", "model.meta", "wrong.meta").code == 5


SPLIT = [X, const("axis", 0, INT32), typed("Split", "s", "axis", "x", num_split=2), neg("a", "s"),
         neg("b", "s:1"), add("sum", "a", "b")]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("extract --inputs in=s:1 --outputs out=b", {"in": [], "out": ["in"]}),
        ("extract --inputs left=a,right=b --outputs sum", {"left": [], "right": [], "sum": ["left", "right"]}),
        ("simplify --outputs out=a:0", {"x": [], "axis": [], "s": ["axis", "x"], "out": ["s"]}),
    ],
)
def test_tensors_of_lists_get_names(desk: Desk, call: str, found: dict[str, list[str]]) -> None:
    """By the command alone, and by a line of a script."""
    desk.put("m.pb", graph_bytes(*SPLIT))
    desk.put("s.gds", call.encode())
    command, *words = call.split()
    for arguments in ((command, "m.pb", *words), ("apply", "m.pb", "s.gds")):
        report = desk.report(*arguments, "-o", "out.pb")
        assert report["passed"] and report["proof"]["compared"] and graphs.inputs(load("out.pb")) == found


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("exit_code", "code", "call", "facts"),
    [
        (2, "not-a-pair", "extract --outputs =b", {"option": "--outputs", "value": "=b"}),
        (4, "bad-tensor-name", "extract --outputs out=s:1", {"tensor": "s:1", "name": "out"}),
        (4, "name-taken", "extract --inputs b=a --outputs sum", {"name": "b"}),
        (2, "bad-value", "check-ops --for tflite --run --outputs out=b", {"option": "--outputs", "near": "b"}),
        (2, "bad-value", "validate --outputs out=b", {"option": "--outputs", "near": "b"}),
    ],
)
def test_a_name_that_a_tensor_of_a_list_cannot_have(
    desk: Desk, exit_code: int, code: str, call: str, facts: dict[str, Any]
) -> None:
    desk.put("m.pb", graph_bytes(*SPLIT))
    command, *words = call.split()
    desk.refused(exit_code, code, command, "m.pb", *words, **facts)


def halving() -> Builder:
    """A v2 loop: five iterations of ``v -> relu(v) * 0.5``; and ``y = -x``."""
    cond = define("cond", {"i": INT32, "v": FLOAT}, {"go": (BOOL, "less:z:0")}, const("limit", 5, INT32),
                  typed("Less", "less", "i", "limit:output:0", kind=INT32))  # fmt: skip
    body = define("body", {"i": INT32, "v": FLOAT}, {"next": (INT32, "add:z:0"), "out": (FLOAT, "mul:z:0")},
                  const("one", 1, INT32), const("half", 0.5), add("add", "i", "one:output:0", kind=INT32),
                  relu("act", "v"), typed("Mul", "mul", "act:activations:0", "half:output:0"),
                  neg("unread", "mul:z:0"))  # fmt: skip
    loop = node("loop", "StatelessWhile", ["zero", "x"], T=dtypes(INT32, FLOAT), cond=func("cond"), body=func("body"))
    records = placeholder("x", "float32", (2,)), const("zero", 0, "int32"), loop, identity("halved", "loop:1")
    return Builder(*records, neg("y", "x"), library(cond, body))


def body_of(graph: Graph, name: str = "body") -> dict[str, list[str]]:
    return {node.name: list(node.input) for node in graph.functions.get(name).node_def}


def in_body(edit: Callable[[Graph], EditResult]) -> Callable[[Graph], EditResult]:
    return lambda graph: in_functions(graph, ["body"], edit)


def test_a_rename_in_a_body() -> None:
    graph = halving().graph()
    result = in_functions(graph, ["body"], lambda body: rename(body, [("act", "relu"), ("v", "value")]))
    assert body_of(graph)["relu"] == ["value"]
    assert body_of(graph)["mul"] == ["relu:activations:0", "half:output:0"]
    assert result.intent.functions.changed == ["body"]
    assert result.inside["body"][1].intent.renamed == {"act": "relu", "v": "value"}
    assert result.claims == (SameOutputs(),)


def test_colocations_in_a_body_follow_a_rename() -> None:
    model = halving()
    neighbor = next(n for n in model.graph_def.library.function[1].node_def if n.name == "unread")
    neighbor.attr["_class"].list.s.append(b"loc:@act")
    graph = model.graph()
    in_functions(graph, ["body"], lambda body: rename(body, [("act", "relu")]))
    written = next(n for n in graph.functions.get("body").node_def if n.name == "unread")
    assert list(written.attr["_class"].list.s) == [b"loc:@relu"]


def test_a_selection_in_a_body_leaves_arguments_and_results_out() -> None:
    body = Body(halving().graph(), "body").graph
    everything = [node.name for node in selected_nodes(body, Selection(regexes=(".",)))]
    assert everything == ["one", "half", "add", "act", "mul", "unread"]
    assert [n.name for n in selected_nodes(body, Selection(forward=("v",)))] == ["act", "mul", "unread"]
    assert [n.name for n in selected_nodes(body, Selection(nodes=("v",)))] == ["v"]


def test_removal_in_a_body_keeps_the_library() -> None:
    graph = halving().graph()
    in_functions(graph, ["body"], lambda body: remove(body, Selection(nodes=("unread",))))
    assert "unread" not in body_of(graph)
    assert [function.signature.name for function in graph.functions] == ["cond", "body"]


def test_what_a_body_returns_is_not_removed() -> None:
    edit = in_body(lambda body: remove(body, Selection(nodes=("unread", "mul"))))
    refused(halving().graph(), "has-consumers", edit, consumers={"mul": ["out"]})


def test_two_functions_are_changed_or_neither() -> None:
    graph = halving().graph()
    both = ["body", "cond"]
    refused(graph, "no-such-node", lambda g: in_functions(g, both, lambda b: rename(b, [("act", "relu")])), node="act")
    in_functions(graph, both, lambda body: set_device(body, device="/cpu:0", nodes=Selection(ops=("Const",))))
    assert {n.device for f in graph.functions for n in f.node_def if n.op == "Const"} == {"/device:CPU:0"}


def test_who_calls_a_function() -> None:
    assert [node.name for node in calling(halving().graph(), ["cond"])] == ["loop"]


def test_values_that_are_not_claimed_to_be_equal_inside_are_not_outside() -> None:
    graph = halving().graph()
    result = in_functions(graph, ["body"], lambda body: reroute(body, [("act", "v")]))
    assert body_of(graph)["mul"] == ["v", "half:output:0"]
    assert result.claims == (Unchanged(),)


@pytest.mark.tensorflow
def test_a_claim_that_does_not_hold_inside_fails(tmp_path: Path) -> None:
    def wrong(body: Graph) -> EditResult:
        result = rename(body, [("act", "relu")])
        body.set_op(body["relu"], "Relu6")
        return result

    check_error(not_written(tmp_path, halving(), in_body(wrong)), "undeclared-change", {})


# -- sorting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "order"),
    [
        (model()[::-1], ["x", "w", "conv", "relu", "aux"]),
        ([X, neg("b", "a"), neg("a", "x"), neg("y", "b"), identity("z", "y")], ["x", "a", "b", "y"]),
        ([*SIDE_BY_SIDE, neg("z", "y")], ["x", "a", "b", "y"]),  # in the order of the file, if that is sorted
        ([X, identity("y", "x", "^guard"), neg("a", "x"), node("guard", "NoOp", ["^a"])], ["x", "a", "guard", "y"]),
        ([*graphs.loop()[::-1]], None),
    ],
)
def test_sorted_nodes_come_after_their_inputs(records: list[bytes], order: list[str] | None) -> None:
    found = graph(*records)
    output = order[-1] if order else "out"
    result = extract(found, [], [output], sort=True)
    names = [each.name for each in found.nodes()]
    assert graphs.names(found.to_bytes()) == names
    if order is not None:
        assert names == order
    seen: set[str] = set()
    for each in found.nodes():
        late = {read.node for read in each.inputs if read.node.op != "NextIteration"} | {*each.controls}
        assert {read.name for read in late} <= seen
        seen.add(each.name)
    assert result.intent.is_sorted
    sound(found)


def test_a_sorted_graph_is_edited_further_and_copied() -> None:
    found = graph(*model()[::-1])
    extract(found, [], ["head"], sort=True)
    rename(found, [("conv", "matmul")])
    names = ["x", "w", "matmul", "relu", "k", "head"]
    assert graphs.names(found.copy().to_bytes()) == graphs.names(found.to_bytes()) == names
    remove(found, Selection(nodes=("head",)), allow_outputs=True)
    assert graphs.names(found.to_bytes()) == [*names[:4], "k"]


def test_the_command_sorts_and_reports_it(desk: Desk) -> None:
    desk.put("m.pb", graph_bytes(*SIDE_BY_SIDE[::-1]))
    report = desk.report("extract", "m.pb", "--outputs", "y", "--sort", "-o", "out.pb", "--validate", "structure")
    assert graphs.names((desk.folder / "out.pb").read_bytes()) == ["x", "a", "b", "y"]
    assert report["edit"]["notes"] == ["each node is written after its inputs"]


def test_places_are_checked() -> None:
    found = graph(*model()[::-1])
    result = extract(found, [], ["head"], sort=True)
    account(found, result)
    found.sort([found["head"], found["x"]])
    with pytest.raises(ValidationError):
        account(found, result)
