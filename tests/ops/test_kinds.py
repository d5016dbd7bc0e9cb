"""The kinds of ops, dtypes, and ops that TensorFlow does not define."""

from __future__ import annotations

import pickle
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from support import graphs
from support.graphs import FLOAT, INT32, const, dtypes, func, graph, identity, node, placeholder, scalar

import gdsurgeon
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.errors import EditError
from gdsurgeon.feeds.consumers import Consumer
from gdsurgeon.feeds.numbers import number_content
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops import kinds, op_defs
from gdsurgeon.ops.dtypes import DTYPES, FLOATING, NUMBERS, DType, base_dtype, dtype_name, element_size, is_dtype
from gdsurgeon.ops.kinds import UNDEFINED
from gdsurgeon.ops.op_defs import Arg, OpDef, arg_dtypes, op_def, op_names, table_version
from gdsurgeon.ops.reach import KINDS, UNKNOWN, is_pure, reach_of, reaches
from gdsurgeon.ops.releases import TITLES, engine
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.settings import Settings
from gdsurgeon.wire.protos import AttrValue, TensorProto

ALL = [line.split("\t")[0] for line in op_defs.table("ops.txt").splitlines()[1:]]

GONE = {"BigQueryReader", "FusedConv2DBiasActivation", "GenerateBigQueryReaderPartitions", "TryRpc"}
"""Ops that TensorFlow has no more: old graphs have them."""

LISTS = {
    name: value
    for name, value in vars(kinds).items()
    if isinstance(value, (frozenset, set, dict)) and not name.startswith("__") and name != "ASIDE"
}


def known(op: str) -> OpDef:
    found = op_def(op)
    assert found is not None, op
    return found


@pytest.mark.parametrize("ops", LISTS.values(), ids=LISTS)
def test_each_op_in_a_list_exists_or_is_named_as_gone(ops: frozenset[str]) -> None:
    assert {op for op in ops if op_def(op) is None} <= GONE


def test_an_op_that_passes_its_input_on_gives_what_it_takes() -> None:
    for op in kinds.PASSES_ON | kinds.RESHAPES:
        definition = known(op)
        taken = definition.inputs[0]
        for given in definition.outputs:
            assert (given.dtype, given.type_attr) == (taken.dtype, taken.type_attr), op


def test_control_flow_is_all_of_it() -> None:
    named = re.compile(r"(Ref)?(Enter|Exit|Switch|Merge|NextIteration)|LoopCond|_SwitchN|_XlaMerge")
    assert {op for op in ALL if named.fullmatch(op)} == kinds.CONTROL_FLOW


def test_placeholders_are_all_of_them() -> None:
    assert {op for op in ALL if op.startswith("Placeholder")} == kinds.PLACEHOLDERS


def test_variables_are_the_ops_that_give_a_reference_to_any_type_out_of_nothing() -> None:
    def gives_reference(definition: OpDef) -> bool:
        return not definition.inputs and any(o.is_ref and o.type_attr for o in definition.outputs)

    assert {op for op in ALL if gives_reference(known(op))} - {"RefOut"} == kinds.VARIABLES  # RefOut: a test's


def test_assignments_take_what_they_assign_to() -> None:
    for op in kinds.ASSIGNMENTS:
        first = known(op).inputs[0]
        assert first.is_ref or first.dtype == 20, op


def test_calls_have_the_attrs_that_name_functions() -> None:
    for op, (attrs, first) in kinds.CALLED.items():
        definition = known(op)
        assert all("func" in definition.attrs[key].kind for key in attrs), op
        assert {key for key, attr in definition.attrs.items() if "func" in attr.kind} == set(attrs), op
        assert definition.inputs[first].list_attr, op


def test_what_draws_says_so_by_a_seed_or_is_named() -> None:
    random = {op for op in ALL if kinds.is_random(op)}
    seeded = {op for op in ALL if known(op).is_stateful and "seed" in known(op).attrs}
    assert len(seeded) == 27 and random - seeded == kinds._DRAWS_WITHOUT_SEED
    assert sorted(seeded - random) == [
        "CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3", "RandomShuffleQueue", "RandomShuffleQueueV2",
    ]  # fmt: skip
    assert not [op for op in random if op.startswith("Stateless")]
    assert not kinds.is_random("MyRandomUniform")


@pytest.mark.parametrize("part", kinds._BLOCKING.replace("(", "").replace(")", "").split("|"))
def test_each_pattern_of_blocking_ops_matches_one(part: str) -> None:
    assert any(re.search(part, op) for op in ALL)


def test_buffers_of_ops_are_of_one_kind() -> None:
    assert not kinds.ALIASES & kinds.REUSES_INPUT
    assert not kinds._OWN_BUFFERS & (kinds.ALIASES | kinds._HANDED_ON)
    assert kinds.SOURCES - kinds.PLACEHOLDERS - {"Const"} == {
        "Variable", "VariableV2", "VarHandleOp", "_VarHandlesOp",
    }  # fmt: skip


# What several lists said in several ways.


@pytest.mark.parametrize("merge", sorted(kinds.MERGE))
def test_a_loop_closes_at_any_merge(merge: str) -> None:
    m = graph(node("i", "NextIteration", ["x"], T=FLOAT), node("x", merge, ["i", "i"], T=FLOAT))
    topology = Topology(m)
    assert topology.is_loop_back(topology.id_of(m["i"]), topology.id_of(m["x"]))


@pytest.mark.parametrize("op", sorted(kinds.PASSES_ON))
def test_a_weight_is_found_behind_all_that_passes_it_on(op: str) -> None:
    m = graph(const("w", [1.0, 2.0]), node("read", op, ["w"], T=FLOAT), node("y", "Neg", ["read"], T=FLOAT))
    found = Consumer(m["y"]).origin(0)
    assert found is not None and found[0].node.name == "w"


@pytest.mark.parametrize("op", ["Exit", "NextIteration", "RefIdentity", "Print", "_SwitchN"])
def test_what_an_input_is_for_shows_behind_all_that_passes_it_on(op: str) -> None:
    m = graph(
        placeholder("ids", INT32, (2,)),
        node("passed", op, ["ids"], T=INT32),
        const("table", [1.0, 2.0, 3.0]),
        scalar("axis", 0, INT32),
        node("y", "GatherV2", ["table", "passed", "axis"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32),
    )
    assert number_content(Consumer(m["ids"]), 3).made == "indices below 3, for GatherV2 'y'"


@pytest.mark.parametrize("op", ["Enter", "RefEnter", "Switch", "Identity"])
def test_an_array_that_is_written_inside_is_found_behind_all_that_passes_it_on(op: str) -> None:
    m = graph(
        node("array", "TensorArrayV3", [], dtype=FLOAT),
        node("s/handle", op, ["array"], T=graphs.dtype(20)),
        node("s/write", "TensorArrayWriteV3", ["s/handle"], T=FLOAT),
    )
    with pytest.raises(EditError, match="the TensorArray that it reads or writes"):
        clone_scope(m, "s", "t")


def test_memory_of_what_is_there_before_a_run_and_of_what_only_states_a_shape() -> None:
    assert {"Variable", "VariableV2"} <= kinds.SOURCES and "TemporaryVariable" not in kinds.SOURCES
    assert "EnsureShape" in kinds.ALIASES and "DeepCopy" not in kinds.ALIASES


def test_a_transposed_convolution_is_worth_keeping_in_any_number_of_dimensions() -> None:
    transposed = {"Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput"}
    assert transposed <= kinds.HEAVY
    assert {
        "Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter",
    } == kinds.CONVOLUTIONS - kinds.HEAVY  # fmt: skip


PARTS = ["x", "scale", "offset", "mean", "variance"]


def batch_norm(op: str = "FusedBatchNormV3", **attrs: bool) -> Graph:
    """A batch norm `y`; `copy` and `copy_of_copy` hold its output 3, `read` its output 1."""
    types = {"U": FLOAT} if op != "FusedBatchNorm" else {}
    return graph(
        placeholder("x", FLOAT, (2, 2, 2, 3)),
        *(const(name, [1, 2, 3]) for name in PARTS[1:]),
        node("y", op, PARTS, T=FLOAT, **types, **attrs),
        identity("copy", "y:3"),
        identity("copy_of_copy", "copy"),
        identity("read", "y:1"),
    )


def test_the_table_names_outputs_and_attrs_of_ops() -> None:
    for op, undefined in UNDEFINED.items():
        definition = known(op)
        assert max(undefined.always | undefined.unless) < len(definition.outputs)
        assert not undefined.attr or undefined.attr in definition.attrs


@pytest.mark.parametrize(
    ("op", "attrs", "defined"),
    [
        ("FusedBatchNorm", {"is_training": False}, 3),
        ("FusedBatchNormV2", {"is_training": False}, 3),
        ("FusedBatchNormV3", {"is_training": False}, 3),
        ("FusedBatchNormV2", {"is_training": True}, 5),
        ("FusedBatchNormV3", {"is_training": True}, 5),
        ("FusedBatchNormV3", {}, 5),  # training is the default
    ],
)
def test_reserve_spaces_are_not_fetched(op: str, attrs: dict[str, bool], defined: int) -> None:
    plan = plan_with(Settings(), batch_norm(op, **attrs), ["y"])
    assert plan.fetches == ["y", *(f"y:{i}" for i in range(1, defined))]


def test_a_copy_of_an_undefined_output_is_not_fetched() -> None:
    names = ["copy", "copy_of_copy", "read"]
    assert plan_with(Settings(), batch_norm(is_training=False), names).fetches == ["read"]
    assert plan_with(Settings(), batch_norm(is_training=True), names).fetches == names


def test_memory_that_is_not_initialised_is_not_fetched() -> None:
    found = graph(
        const("shape", [2], INT32),
        node("zeros", "Empty", ["shape"], dtype=FLOAT, init=True),
        node("memory", "Empty", ["shape"], dtype=FLOAT),
    )
    assert plan_with(Settings(), found).fetches == ["zeros"]


EACH_DTYPE = pytest.mark.parametrize("dtype", DTYPES.values(), ids=dtype_name)


@EACH_DTYPE
def test_the_number_and_the_field_of_values_are_those_of_the_messages(dtype: DType) -> None:
    tensor = TensorProto(dtype=dtype)
    spelt = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}.get(dtype.name, dtype.name.upper())
    enum = AttrValue.DESCRIPTOR.fields_by_name["type"].enum_type
    assert enum.values_by_number[dtype].name == f"DT_{spelt}"
    assert tensor.dtype == int(dtype) and (not dtype.field or hasattr(tensor, dtype.field))


@EACH_DTYPE
def test_code_and_numpy_say_the_same(dtype: DType) -> None:
    if dtype.code:
        assert struct.calcsize(f"<{dtype.code}") == dtype.size == np.dtype(dtype.numpy).itemsize
        assert np.dtype(dtype.code) == np.dtype(dtype.numpy)
    if dtype.size and (dtype.code or dtype.is_complex or dtype.is_quantized):
        assert (np.dtype(dtype.numpy).kind, np.dtype(dtype.numpy).itemsize) == (dtype.kind, dtype.size)
    if dtype.is_integer and NUMBERS[dtype.numpy].code:
        limits = np.iinfo(dtype.numpy)
        assert dtype.bounds == (limits.min, limits.max)


@EACH_DTYPE
def test_a_dtype_is_its_number_to_others(dtype: DType) -> None:
    again = pickle.loads(pickle.dumps(dtype))
    assert type(again) is int and again == dtype and hash(again) == hash(dtype)
    assert DTYPES[again] is dtype is NUMBERS[dtype.name] and f"{dtype}" == str(again)


def test_kinds() -> None:
    assert {d.name for d in FLOATING} == {"float16", "bfloat16", "float32", "float64"}
    assert [d.name for d in DTYPES.values() if d.is_quantized] == ["qint8", "quint8", "qint32", "qint16", "quint16"]
    assert [d.name for d in DTYPES.values() if d.is_complex] == ["complex64", "complex128"]
    assert {d.name for d in DTYPES.values() if d.is_inexact and not d.is_complex} == {
        d.name for d in DTYPES.values() if "float" in d.name
    }
    assert {d.name for d in DTYPES.values() if d.is_integer} == {d.name for d in DTYPES.values() if "int" in d.name}
    assert element_size(999) == element_size(0) == element_size(NUMBERS["string"]) == 0


def test_every_op_of_the_table_is_found_and_sound() -> None:
    assert len(ALL) > 1000
    assert len(set(ALL)) == len(ALL)
    for name in ALL:
        found = known(name)
        assert found.name == name
        for arg in (*found.inputs, *found.outputs):
            assert arg.dtype or arg.type_attr or arg.list_attr, name
            assert not arg.dtype or is_dtype(arg.dtype), name
            if arg.type_attr:
                assert found.attrs[arg.type_attr].kind == "type", name
            if arg.number_attr:
                assert found.attrs[arg.number_attr].kind == "int", name
            if arg.list_attr:
                assert found.attrs[arg.list_attr].kind == "list(type)", name


def test_signatures() -> None:
    split = known("Split")
    assert split.inputs == (Arg("split_dim", 3), Arg("value", type_attr="T"))
    assert split.outputs == (Arg("output", type_attr="T", number_attr="num_split"),)
    assert (split.attrs["T"].kind, split.attrs["T"].has_default, split.is_stateful) == ("type", False, False)
    variable = known("VariableV2")
    assert variable.outputs == (Arg("ref", type_attr="dtype", is_ref=True),) and variable.is_stateful
    assert known("Case").outputs == (Arg("output", list_attr="Tout"),)
    assert [a.name for a in known("Merge").outputs] == ["output", "value_index"]
    seed = known("RandomUniform").attrs["seed"]
    assert (seed.has_default, seed.default) == (True, 0)


@pytest.mark.parametrize("name", ["", "NoSuchOp", "#", "Add\t", "\nAdd", "add", "Ad", ">Add", "Add>", "A\n"])
def test_what_is_no_op_is_none(name: str) -> None:
    assert op_def(name) is None


def test_the_version_is_that_of_a_tensorflow() -> None:
    assert [int(part) for part in table_version().split(".")[:2]] >= [2, 16]


@pytest.mark.parametrize(
    ("record", "outputs", "inputs"),
    [
        (node("n", "Split", num_split=3, T=FLOAT), [1, 1, 1], [3, 1]),
        (node("n", "IdentityN", T=dtypes(FLOAT, INT32)), [1, 3], [1, 3]),
        (node("n", "VariableV2", dtype=FLOAT), [101], []),
        (node("n", "NoOp"), [], []),
        (node("n", "AddV2"), [0], [0, 0]),
        (node("n", "Split", T=FLOAT), [1], [3, 1]),
        (node("n", "AddN", N=0, T=FLOAT), [1], []),
        (node("n", "Split", num_split=-1, T=FLOAT), [1], [3, 1]),
        (node("n", "Shape", T=FLOAT), [3], [1]),
        (node("n", "PartitionedCall", Tin=dtypes(FLOAT), Tout=dtypes(INT32, FLOAT), f=func("f")), [3, 1], [1]),
    ],
)
def test_dtypes_of_a_nodes_outputs_and_inputs(record: bytes, outputs: list[int], inputs: list[int]) -> None:
    found = graph(record)["n"]
    assert found.output_dtypes == outputs
    assert found.input_dtypes == inputs


def test_a_count_beyond_any_real_nodes_does_not_become_a_list_of_that_length() -> None:
    found = graph(node("n", "Split", num_split=1 << 62, T=FLOAT))["n"].output_dtypes
    assert found is not None
    assert len(found) < 1 << 21


def test_a_library_function_is_an_op() -> None:
    function = graphs.function("Mine", node("y", "Identity", ["x"], T=FLOAT))
    found = graph(node("n", "Mine", ["n"]), trailer=graphs.library(function))
    assert found["n"].output_dtypes == [1]
    assert found.op_def("NotMine") is None


def test_an_attr_reader_that_knows_nothing() -> None:
    definition = known("Split")
    assert arg_dtypes(definition.outputs, definition, lambda _name: None) == [0]


def test_dtypes() -> None:
    assert len(NUMBERS) == len(DTYPES)
    assert {d.name for n, d in DTYPES.items() if not element_size(n)} == {"string", "resource", "variant"}
    assert [dtype_name(n) for n in (1, 101, 7, 999, 0, 100)] == [
        "float32", "float32_ref", "string", "dtype 999", "dtype 0", "dtype 100",
    ]  # fmt: skip
    assert [is_dtype(n) for n in (1, 101, 0, 100, 999, -1, 1 << 40)] == [True, True, *[False] * 5]
    assert [base_dtype(n) for n in (1, 101, 0)] == [1, 1, 0]


def test_each_op_has_a_line_and_none_was_left_unseen() -> None:
    assert [op for op, _ in reaches()] == op_names()
    assert {reach.kind for _, reach in reaches()} == set(KINDS)


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("Relu", "none"),
        ("ScalarSummary", "none"),
        ("ShardedFilename", "none"),
        ("ReadFile", "file read"),
        ("CSVDataset", "file read"),
        ("SaveV2", "file write"),
        ("DatasetToTFRecord", "file write"),
        ("DistributedSave", "network"),
        ("RegisterDatasetV2", "network"),
        ("DatasetFromGraph", "process"),
        ("XlaCallModule", "process"),
        ("Abort", "process"),
        ("EagerPyFunc", "python"),
    ],
)
def test_what_ops_reach(op: str, kind: str) -> None:
    assert reach_of(op).kind == kind
    assert is_pure(op, {}) is (kind == "none")


@pytest.mark.parametrize("op", ["NoSuchOp", "", "Relu\t", "Relu\nRelu6", "#"])
def test_what_is_not_in_the_table_reaches(op: str) -> None:
    assert reach_of(op).kind == UNKNOWN
    assert not is_pure(op, {})


@pytest.mark.parametrize(("op", "reach"), [(op, reach) for op, reach in reaches() if reach.attr])
def test_the_default_of_an_attr_that_decides_is_harmless(op: str, reach: object) -> None:
    attr = reach_of(op).attr
    default = known(op).attrs[attr].default
    assert is_pure(op, {attr: default.encode() if isinstance(default, str) else default})
    assert is_pure(op, {})


def test_an_attr_decides_only_with_a_plain_value() -> None:
    assert is_pure("PrintV2", {"output_stream": b"log(info)"})
    assert not is_pure("PrintV2", {"output_stream": b"file:///tmp/x"})
    assert not is_pure("PrintV2", {"output_stream": None})  # the function's caller says what it is
    assert not is_pure("DebugNanCount", {"debug_urls": [b"file:///tmp"]})
    assert not is_pure("DecodeProtoV2", {"descriptor_source": b"/etc/passwd"})


TABLE = Path(gdsurgeon.__file__).parent / "data" / "engines.txt"


@pytest.mark.parametrize("name", TITLES)
def test_an_engine_has_a_version_and_what_all_of_them_take(name: str) -> None:
    found = engine(name)
    assert found.called == f"{TITLES[name]} {found.version}" and found.version.count(".") == 2
    common = """Abs AddV2 AvgPool BiasAdd ConcatV2 Const Conv2D DepthwiseConv2dNative FusedBatchNormV3 Identity MatMul
        MaxPool Mean Mul Pad Placeholder Relu Relu6 Reshape Sigmoid Softmax Squeeze StridedSlice Sub Tanh Transpose"""
    assert [op for op in common.split() if found.ops.get(op) != ""] == []
    assert not {"DecodeWav", "NoSuchOp", ""} & {op for op, kind in found.ops.items() if not kind}


def test_ops_of_tensorflow_that_can_be_linked_are_told_apart() -> None:
    ops = engine("tflite").ops
    assert ops["Erf"] == ops["DecodeJpeg"] == "select" and set(ops.values()) == {"", "select"}
    assert {kind for name in TITLES if name != "tflite" for kind in engine(name).ops.values()} == {""}
    assert all(op in ops and not ops[op] for op in ("SplitV", "BatchToSpaceND", "StatelessWhile", "TensorListStack"))


def test_loops_count_where_they_are_taken_whole() -> None:
    assert {"Enter", "Exit", "NextIteration"} <= set(engine("openvino").ops)
    assert not {"Enter", "Exit", "NextIteration"} & set(engine("opencv").ops)


def test_the_table_is_small_and_sorted_and_of_ops() -> None:
    assert TABLE.stat().st_size < 40_000
    lines = TABLE.read_text().splitlines()
    heads = [line for line in lines if line.startswith(">")]
    assert [head[1:].partition("\t")[0] for head in heads] == sorted(TITLES)
    for name in TITLES:
        ops = list(engine(name).ops)
        assert ops == sorted(set(ops)) and len(ops) > 90
        assert sum(op_def(op) is None for op in ops) < 20  # tfjs has some of its own
