from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.graphs import FLOAT, INT32, dtypes, func, graph, node

from gdsurgeon.ops import op_defs
from gdsurgeon.ops.dtypes import DTYPES, NUMBERS, base_dtype, dtype_name, element_size, is_dtype
from gdsurgeon.ops.op_defs import Arg, arg_dtypes, op_def, table_version

ALL = [line.split("\t")[0] for line in op_defs.table("ops.txt").splitlines()[1:]]


def test_every_op_of_the_table_is_found_and_sound() -> None:
    assert len(ALL) > 1000
    assert len(set(ALL)) == len(ALL)
    for name in ALL:
        found = op_def(name)
        assert found is not None, name
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
    split = op_def("Split")
    assert split is not None
    assert split.inputs == (Arg("split_dim", 3), Arg("value", type_attr="T"))
    assert split.outputs == (Arg("output", type_attr="T", number_attr="num_split"),)
    assert (split.attrs["T"].kind, split.attrs["T"].has_default, split.is_stateful) == ("type", False, False)
    variable = op_def("VariableV2")
    assert variable is not None
    assert variable.outputs == (Arg("ref", type_attr="dtype", is_ref=True),)
    assert variable.is_stateful
    case = op_def("Case")
    assert case is not None
    assert case.outputs == (Arg("output", list_attr="Tout"),)
    merge = op_def("Merge")
    assert merge is not None
    assert [a.name for a in merge.outputs] == ["output", "value_index"]
    random = op_def("RandomUniform")
    assert random is not None
    assert (random.attrs["seed"].has_default, random.attrs["seed"].default) == (True, 0)


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
    definition = op_def("Split")
    assert definition is not None

    def nothing(_name: str) -> Any:
        return None

    assert arg_dtypes(definition.outputs, definition, nothing) == [0]


def test_dtypes() -> None:
    assert len(NUMBERS) == len(DTYPES)
    assert {n for n in DTYPES if element_size(n)} == set(DTYPES) - {
        NUMBERS["string"],
        NUMBERS["resource"],
        NUMBERS["variant"],
    }
    assert [dtype_name(n) for n in (1, 101, 7, 999, 0, 100)] == [
        "float32", "float32_ref", "string", "dtype 999", "dtype 0", "dtype 100",
    ]  # fmt: skip
    assert [is_dtype(n) for n in (1, 101, 0, 100, 999, -1, 1 << 40)] == [True, True, *[False] * 5]
    assert [base_dtype(n) for n in (1, 101, 0)] == [1, 1, 0]
