"""Mistakes planted in slim, and in what makes the nodes that restore and save variables."""

from __future__ import annotations

import pytest
from support.graphs import FLOAT, INT64, STRING, add, dtypes, func, graph, identity, library, node, placeholder, scalar
from support.graphs import function as function_def
from support.mutants import Mutant, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.slim import slim
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Key, Restoring, Served, Serving

SLIM, SAVER = "edits.slim", "edits.copying.saver"
CONCERNED = "if next(concerned, None) is not None else None"
ALSO_KEPT = "if not kept[number] and topology.op(number) != 'Const']"
KEPT = "for key in signatures or serving.called}"


def model() -> Graph:
    """Three variables, one of them no signature's, two parts of one tensor, a table, functions, a saver."""
    restored = [node("r", "RestoreV2", ["file", "file", "file"], dtypes=dtypes(FLOAT))]
    found = graph(
        placeholder("x", FLOAT, (2,)),
        node("v", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="v"),
        node("v/read", "ReadVariableOp", ["v"], dtype=FLOAT),
        node("w", "VariableV2", dtype=FLOAT, shape=(2,)),
        identity("w/read", "w"),
        node("u", "VariableV2", dtype=FLOAT, shape=(2,)),
        add("s", "v/read", "w/read", "^x"),
        add("y", "x", "s", _class=["loc:@u"]),
        node("table", "HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name="t"),
        node("size", "LookupTableSizeV2", ["table"]),
        placeholder("file", STRING, ()),
        node("fill", "InitializeTableFromTextFileV2", ["table", "file"], key_index=-2, value_index=-1),
        node("init", "NoOp", ["^fill"]),
        *restored,
        node("call", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("f")),
        scalar("unused", 1),
        library(function_def("f"), function_def("g")),
    )
    found.serving = Serving(
        "SavedModel",
        "checkpoint",
        {"a": Served({"x": "x"}, {"y": "y"}), "b": Served({}, {"n": "size"}), "c": Served({"x": "x"}, {"z": "call"})},
        restoring=Restoring({"file": "checkpoint"}, ("r",)),
        initialising=Restoring({"file": "words.txt"}, ("init",)),
        keys={"v": Key("net", "4 0,2"), "w": Key("net", "4 2,2"), "u": Key("u")},
    )
    return found


def whole() -> tuple[Graph, EditResult]:
    found = model()
    return found, slim(found)


def one() -> tuple[Graph, EditResult]:
    found = model()
    return found, slim(found, signatures=["a"])


MUTANTS = [
    Mutant("what no signature needs stays", SLIM, "if not kept[number]]", ALSO_KEPT, whole),
    Mutant("all signatures are kept", SLIM, KEPT, "for key in serving.called}", one),
    Mutant("what initialises a table is lost", SLIM, CONCERNED, "if False else None", whole),
    Mutant("what initialises any table stays", SLIM, CONCERNED, "if True else None", one),
    Mutant("a variable is not restored", SAVER, "in out.items()}", "in list(out.items())[1:]}", one),
    Mutant("unused functions stay", SLIM, "intent.functions.removed = drop_unused_functions(graph)", "pass", one),
    Mutant("each is given the first value", SAVER, "Output(read, number)", "Output(read, 0)", one),
    Mutant("slices are forgotten", SAVER, '"slices": [key.slice for key', '"slices": ["" for key', one),
    Mutant("keys are others", SAVER, '"names": [key.tensor for', '"names": [f"{key.tensor}_" for', one),
    Mutant("not all are restored", SAVER, '"NoOp", controls=assigned)', '"NoOp", controls=assigned[1:])', one),
    Mutant("what is saved is another's", SAVER, "*values]", "*values[::-1]]", one),
    Mutant("saving waits for nothing", SAVER, "[path.output], [write]", "[path.output], []", one),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
