"""table-to-gather: lookups become GatherV2 nodes, tables and initializers are removed."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_error
from support.expecting import account, expect, refused
from support.graphs import (
    FLOAT,
    INT32,
    INT64,
    STRING,
    const,
    define,
    graph,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
    scalar,
    typed,
)
from support.mutants import Accounted
from support.running import run

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.table_to_gather import table_to_gather
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Restoring, Served, Serving
from gdsurgeon.select import Selection


def table(name: str, keys: list[int], *, op: str = "HashTableV2", key: int = INT64, **attrs: Any) -> list[bytes]:
    """A table of strings with an initializer."""
    version = "V2" if op.endswith("V2") else ""
    return [
        node(name, op, key_dtype=key, value_dtype=STRING, **attrs), const(f"{name}/keys", keys, key),
        const(f"{name}/words", [chr(97 + each % 26) for each in keys], STRING),
        node(f"{name}/init", f"InitializeTable{version}", [name, f"{name}/keys", f"{name}/words"], Tkey=key,
             Tval=STRING),
    ]  # fmt: skip


def lookup(
    name: str, source: str, keys: str = "k", *, default: str = "unknown", key: int = INT64, **more: Any
) -> bytes:
    return node(
        name, "LookupTableFindV2", [source, keys, default, *more.pop("controls", ())], Tin=key, Tout=STRING, **more
    )


KEYS = placeholder("k", INT64, (-1,))
COMMAND = {
    "good": ("model.pb",),
    "poor": (),
    "unknown": (("model.pb", "--node", "lable_table"), "label_table"),
    "node": ("label_table", (), None),
    "more": [*table("label_table", [1, 0]), const("id", [0, 7], INT64), scalar("unknown", "?", STRING),
             lookup("label", "label_table", "id")],
}  # fmt: skip
UNKNOWN = scalar("unknown", "?", STRING)
MODEL = [KEYS, *table("t", [2, 0, 1]), UNKNOWN, lookup("y", "t")]


def gathered(name: str, source: str, index: str, key: int = INT64) -> bytes:
    return node(name, "GatherV2", [source, index, f"{source.split('/')[0]}/axis"], Tparams=STRING, Tindices=key,
                Taxis=INT32)  # fmt: skip


def index(name: str, source: str, keys: str = "k", key: int = INT64) -> list[bytes]:
    """The nodes that compute the index of a GatherV2."""
    steps = [("from_low", "Maximum", "low"), ("to_high", "Minimum", "high"), ("index", "Add", "one")]
    reads = [keys, f"{name}/from_low", f"{name}/to_high"]
    return [typed(op, f"{name}/{step}", read, f"{source}/{other}", kind=key)
            for (step, op, other), read in zip(steps, reads, strict=True)]  # fmt: skip


def numbers(name: str, count: int, key: int = INT64) -> list[bytes]:
    return [*(scalar(f"{name}/{each}", value, key) for each, value in (("low", -1), ("high", count), ("one", 1))),
            scalar(f"{name}/axis", 0, INT32)]  # fmt: skip


AFTER = [KEYS, *numbers("t", 3), const("t/values", ["?", "a", "b", "c", "?"], STRING), *index("y", "t"),
         gathered("y", "t/values", "y/index")]  # fmt: skip


@pytest.mark.tensorflow
def test_a_lookup_becomes_a_gather() -> None:
    result = expect(MODEL, table_to_gather, AFTER, command="table-to-gather")
    assert result.claims == (SameOutputs(also=("y",)),)
    assert result.facts == {"tables": {"t": ["y"]}}


@pytest.mark.parametrize(("kind", "most"), [(INT64, (1 << 63) - 1), (INT32, (1 << 31) - 1)])
def test_keys_inside_and_outside_of_the_table(kind: bytes, most: int) -> None:
    keys = const("k", [[-most - 1, -most, -4, -1, 0, 1], [2, 3, 4, 5, most - 1, most]], kind)
    records = [keys, *table("t", [3, 0, 2, 1], key=kind), UNKNOWN, lookup("y", "t", key=kind)]
    found = graph(*records)
    account(found, table_to_gather(found))
    expected = run(graph_bytes(*records), "y", initialisers=["t/init"])
    assert run(found, "y") == expected == [[[b"?"] * 4 + [b"a", b"b"], [b"c", b"d", *[b"?"] * 4]]]


WAITING = [
    KEYS, node("ready", "NoOp"), *table("t", [1, 0], shared_name="names"), UNKNOWN, scalar("other", "other", STRING),
    lookup("y", "t", controls=["^t/init"], _class=["loc:@t"]), lookup("z", "t", default="other"), lookup("w", "t"),
    node("init", "NoOp", ["^t/init", "^ready"]), identity("words", "t/words", kind=STRING),
]  # fmt: skip


def test_several_lookups_and_nodes_that_wait_for_the_initializer() -> None:
    values = [
        const(name, [each, "a", "b", each], STRING) for name, each in (("t/values", "?"), ("t/values_1", "other"))
    ]
    expect(WAITING, table_to_gather, [
        KEYS, node("ready", "NoOp"), *numbers("t", 2), values[0], *index("y", "t"), values[1], *index("z", "t"),
        *index("w", "t"), const("t/words", ["b", "a"], STRING), gathered("y", "t/values", "y/index"),
        gathered("z", "t/values_1", "z/index"), gathered("w", "t/values", "w/index"), node("init", "NoOp", ["^ready"]),
        identity("words", "t/words", kind=STRING),
    ])  # fmt: skip


def test_old_ops_and_an_imported_table() -> None:
    old = [KEYS, *table("t", [0, 1], op="HashTable"), UNKNOWN,
           node("y", "LookupTableFind", ["t", "k", "unknown"], Tin=INT64, Tout=STRING)]  # fmt: skip
    imported = [*MODEL[:4], node("t/init", "LookupTableImportV2", ["t", "t/keys", "t/words"], Tin=INT64, Tout=STRING),
                *MODEL[5:]]  # fmt: skip
    for records in (old, imported):
        found = graph(*records)
        account(found, table_to_gather(found))
        assert [n.op for n in graphs.parsed(found).node if n.name == "y"] == ["GatherV2"]
        assert not [n for n in graphs.parsed(found).node if "Table" in n.op]


STRINGS = [
    node("t", "HashTableV2", key_dtype=STRING, value_dtype=STRING),
    const("t/keys", ["a"], STRING), node("t/init", "InitializeTableV2", ["t", "t/keys", "t/keys"], Tkey=STRING,
    Tval=STRING), node("y", "LookupTableFindV2", ["t", "t/keys", "unknown"], Tin=STRING, Tout=STRING),
]  # fmt: skip
FILE = node("t/init", "InitializeTableFromTextFileV2", ["t", "file"], key_index=-1, value_index=-2)
MUTABLE = node("t", "MutableHashTableV2", key_dtype=INT64, value_dtype=STRING)
READER = define("f", {"x": FLOAT}, {"o": (FLOAT, "x")},
                node("h", "HashTableV2", key_dtype=INT64, value_dtype=STRING, shared_name="names"))  # fmt: skip
REFUSED: dict[str, tuple[list[bytes], str, dict[str, Any]]] = {
    "string keys": ([*STRINGS, UNKNOWN], "keys-not-integers", {"dtype": "string"}),
    "a gap": ([KEYS, *table("t", [0, 2]), UNKNOWN, lookup("y", "t")], "keys-not-dense", {}),
    "a key twice": ([KEYS, *table("t", [0, 0]), UNKNOWN, lookup("y", "t")], "keys-not-dense", {}),
    "a file": ([KEYS, MODEL[1], const("file", "a.txt", STRING), FILE, *MODEL[5:]], "values-in-a-file", {}),
    "mutable": ([KEYS, MUTABLE, *MODEL[2:]], "unsupported-table", {"op": "MutableHashTableV2"}),
    "exported": ([*MODEL, node("e", "LookupTableExportV2", ["t"], Tkeys=INT64, Tvalues=STRING)], "used-elsewhere",
                 {"user": "e"}),
    "written": ([*MODEL, node("e", "LookupTableInsertV2", ["t", "k", "y"], Tin=INT64, Tout=STRING)], "used-elsewhere",
                {"user": "e"}),
    "no initializer": ([*MODEL[:4], *MODEL[5:]], "not-initialized-once", {"nodes": []}),
    "two initializers": ([*MODEL, node("again", "InitializeTableV2", ["t", "t/keys", "t/words"], Tkey=INT64,
                                       Tval=STRING)], "not-initialized-once", {"nodes": ["t/init", "again"]}),
    "computed values": ([placeholder("t/words", STRING, (3,)), *MODEL[:3], *MODEL[4:]], "not-constant",
                        {"tensor": "t/words"}),
    "a computed default": ([*MODEL[:5], placeholder("unknown", STRING, ()), MODEL[6]], "not-constant",
                           {"tensor": "unknown"}),
    "a default of two": ([*MODEL[:5], const("unknown", ["a", "b"], STRING), MODEL[6]], "bad-default", {}),
    "no lookup": (MODEL[:5], "no-lookup", {}),
    "a shared name": ([*WAITING, node("more", "HashTableV2", key_dtype=INT64, value_dtype=STRING, shared_name="names")],
                      "shared-table", {"shared_name": "names"}),
    "a shared name in a function": ([*WAITING, library(READER)], "shared-table", {"shared_name": "names"}),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_tables(what: str) -> None:
    records, code, facts = REFUSED[what]
    tables = 2 if what == "a shared name" else 1
    refused(graph(*records), code, partial(table_to_gather, nodes=["t"]), table="t", **facts)
    error = refused(graph(*records), "nothing-to-do", table_to_gather, error=NothingToDo)
    assert [reason["code"] for reason in error.facts["tables"]][:1] == [code] and len(error.facts["tables"]) == tables


def test_tables_that_stay_are_noted_and_a_selection_has_a_table() -> None:
    found = graph(*MODEL, *table("gap", [0, 2]), lookup("z", "gap"))
    refused(found, "not-a-table", partial(table_to_gather, nodes=["y", "k"]), nodes=["y", "k"])
    refused(found, "keys-not-dense", partial(table_to_gather, nodes=Selection(regexes=(".",))), table="gap")
    result = table_to_gather(found)
    account(found, result)
    (note,) = result.notes
    check_error(note, "keys-not-dense", {"table": "gap"})
    assert [n.name for n in found.nodes() if "HashTable" in n.op] == ["gap"]
    refused(graph(KEYS), "nothing-to-do", table_to_gather, error=NothingToDo, tables=[])


def loaded() -> Graph:
    """A SavedModel whose loader runs the initializer."""
    found = graph(*MODEL)
    found.serving = Serving("SavedModel", signatures={"a": Served({"x": "k"}, {"y": "y"})},
                            initialising=Restoring({}, ("t/init",)))  # fmt: skip
    return found


def test_an_initializer_that_a_loader_runs_becomes_a_noop() -> None:
    found = loaded()
    account(found, table_to_gather(found))
    assert (found["t/init"].op, found["t/init"].inputs, found["t/init"].attr_keys) == ("NoOp", (), ())
    assert found.find("t") is None


@pytest.mark.tensorflow
def test_the_outputs_are_bit_identical_without_an_initializer(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(*WAITING))
    desk.done("table-to-gather", "model.pb", "-o", "out.pb", "--report", "report.json", "--feed", "k=[-5, 0, 1, 9]")
    report = json.loads(desk.files()["report.json"])
    assert report["proof"]["largest_difference"] == 0 and report["proof"]["compared"] >= 3
    assert report["edit"]["tables"] == {"t": ["y", "z", "w"]}


MUTATED = {
    "one": Accounted(graph_bytes(*MODEL), table_to_gather),
    "loaded": Accounted(loaded, table_to_gather),
    "several": Accounted(graph_bytes(*WAITING), table_to_gather),
    "selected": Accounted(graph_bytes(*MODEL, *table("s", [1, 0], key=INT32)), partial(table_to_gather, nodes=["t"])),
}
