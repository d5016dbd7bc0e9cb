"""Comparison of two graphs by name, and the differences of an edited graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate
from typing import Any

import pytest
from support.graphs import (
    FLOAT,
    INT32,
    VERSIONS,
    add,
    const,
    func,
    function,
    graph,
    identity,
    library,
    node,
    placeholder,
    scalar,
    typed,
)
from support.system import calls

from gdsurgeon.compare import comparison
from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.changes import Detail
from gdsurgeon.compare.comparison import compare_files, compare_written
from gdsurgeon.compare.copies import differing_copies, plain_copies
from gdsurgeon.compare.diff import Difference, diff
from gdsurgeon.compare.intent import Altered, Copies, Facts, FunctionChanges, Intent, Rewired
from gdsurgeon.compare.written import Written
from gdsurgeon.edits.node_copies import copy_nodes
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Use
from gdsurgeon.view.difference import Counts, counts, lines
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, read_chunks

TYPE = type_value(2).SerializeToString()


def before() -> Graph:
    return graph(
        const("a", [1]), const("b", [1]), add("y", "a", "b", "^b"), identity("z", "y", _class=["loc:@a"]),
        library(function("f")),
    )  # fmt: skip


CHANGES: dict[str, tuple[Callable[[Graph], Any], Facts]] = {
    "nothing": (lambda g: None, Facts()),
    "written anew": (lambda g: g.touch(g["y"]), Facts()),
    "the same inputs": (lambda g: g.set_inputs(g["y"], g["y"].inputs), Facts()),
    "inputs": (
        lambda g: g.set_inputs(g["y"], [g["b"].output, g["a"].output]),
        Facts(rewired=[Rewired("y", 0, "a", "b"), Rewired("y", 1, "b", "a")]),
    ),
    "fewer inputs": (
        lambda g: g.set_inputs(g["y"], [g["a"].output]),
        Facts(altered={"y": {"inputs": (("a", "b"), ("a",))}}),
    ),
    "reroute": (lambda g: g.reroute([Use(g["z"], 0)], g["a"].output), Facts(rewired=[Rewired("z", 0, "y", "a")])),
    "control inputs": (lambda g: g.set_controls(g["y"], []), Facts(altered={"y": {"controls": (("b",), ())}})),
    "colocations": (
        lambda g: g.set_colocated(g["z"], [g["b"]]),
        Facts(altered={"z": {"colocated": (("a",), ("b",))}}),
    ),
    "an attr": (lambda g: g.set_attr(g["z"], "T", TYPE), Facts(altered={"z": {"attr T": (FLOAT, TYPE)}})),
    "an attr less": (lambda g: g.set_attr(g["z"], "T", None), Facts(altered={"z": {"attr T": (FLOAT, None)}})),
    "an op": (lambda g: g.set_op(g["z"], "Snapshot"), Facts(altered={"z": {"op": ("Identity", "Snapshot")}})),
    "a device": (lambda g: g.set_device(g["z"], "/cpu:0"), Facts(altered={"z": {"device": ("", "/cpu:0")}})),
    "a name": (lambda g: g.rename({g["a"]: "c"}), Facts(renamed={"a": "c"})),
    "names exchanged": (lambda g: g.rename({g["a"]: "b", g["b"]: "a"}), Facts(renamed={"a": "b", "b": "a"})),
    "a node more": (lambda g: g.add("n", "NoOp"), Facts(added=["n"])),
    "a copy": (lambda g: g.add_copy("c", g["a"]), Facts(added=["c"])),
    "a node less": (lambda g: g.remove([g["z"]]), Facts(removed=["z"])),
    "a function more": (
        lambda g: g.functions.add(function("g")),
        Facts(functions=FunctionChanges(added=["g"])),
    ),
    "a function less": (
        lambda g: g.functions.remove(["f"]),
        Facts(functions=FunctionChanges(removed=["f"])),
    ),
    "another function": (
        lambda g: g.functions.replace(function("f", ret="x")),
        Facts(functions=FunctionChanges(changed=["f"])),
    ),
}


def compared(found: Graph, **renamed: str) -> Facts:
    return compare_written(found.pristine(), found.chunks(), renamed).facts


@pytest.mark.parametrize("what", CHANGES)
def test_each_primitive_is_told(what: str) -> None:
    found = before()
    change, facts = CHANGES[what]
    change(found)
    assert compared(found, **facts.renamed) == facts


def test_what_comes_back_to_what_it_was_is_no_change() -> None:
    found = before()
    found.set_device(found["z"], "/cpu:0")
    found.set_device(found["z"], "")
    found.rename({found["a"]: "c"})
    found.rename({found["c"]: "a"})
    assert compared(found) == Facts()


@pytest.mark.parametrize("what", [what for what, (_, facts) in CHANGES.items() if facts != Facts()])
def test_an_undeclared_change_is_a_fault(what: str) -> None:
    found = before()
    CHANGES[what][0](found)
    assert audit(compare_written(found.pristine(), found.chunks()), Intent())


@pytest.mark.parametrize(
    "intent",
    [
        Intent(renamed={"a": "b"}),
        Intent(added=["n"]),
        Intent(removed=["a"]),
        Intent(rewired=[Rewired("z", 0, "y", "a")]),
        Intent(changed=["z"], altered=[Altered("z", "device", "/cpu:0")]),
        Intent(changed=["n"], altered=[Altered("n", "device", "")]),
        Intent(graph_fields={"versions": b"\x08\x1b"}),
        Intent(functions=FunctionChanges(added=["g"])),
        Intent(functions=FunctionChanges(removed=["f"])),
    ],
    ids=str,
)
def test_a_declared_change_that_does_not_exist_is_a_fault(intent: Intent) -> None:
    found = before()
    assert audit(compare_written(found.pristine(), found.chunks()), intent)


def test_a_replaced_node_without_its_replacement_is_a_fault() -> None:
    found = before()
    found.remove([found["z"]])
    assert audit(compare_written(found.pristine(), found.chunks()), Intent(removed=["z"], added=["z"]))


def test_a_name_that_another_node_has_now() -> None:
    found = before()
    found.remove([found["z"]])
    found.add("z", "Identity", [found["y"].output], attrs={"T": FLOAT})
    assert compared(found) == Facts(altered={"z": {"colocated": (("a",), ())}})


def test_a_long_value_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte that an edit replaces is not held in memory to report the change."""
    monkeypatch.setattr(comparison, "_LONGEST", 16)
    model = graph(const("a", [float(i) for i in range(64)]), identity("y", "a"))
    other = graph(const("a", [float(i) for i in range(1, 65)]))
    model.rename({model["a"]: "old"})
    copy = model.add_copy("a", other["a"])
    model.reroute([Use(model["y"], 0)], copy.output)
    model.remove([model["old"]])
    facts = compare_written(model.pristine(), model.chunks()).facts
    (was, now) = facts.altered["a"]["attr value"]
    assert was != now
    assert all(isinstance(value, bytes) and len(value) < 64 and b" bytes, " in value for value in (was, now))


def model(
    *, name: str = "conv", padding: str = "SAME", weights: tuple[float, ...] = (3, 4), source: str = "x"
) -> Graph:
    return graph(
        placeholder("x"),
        placeholder("z"),
        const("w", weights),
        node(name, "Conv2D", [source, "w"], T=FLOAT, padding=padding),
        node("out", "Relu", [name], T=FLOAT),
    )


def details(found: Difference) -> dict[str, tuple[Detail, ...]]:
    return {found.names(c.i, c.j)[1]: c.details for c in found.changes}


def test_the_same_bytes_are_not_even_matched() -> None:
    found = diff(model(), model())
    assert found.is_empty and found.matching is None
    assert lines(found)[-1] == "  identical bytes"


def test_another_order_of_nodes_and_attrs_is_no_difference() -> None:
    a = graph(placeholder("x"), node("y", "Conv2D", ["x", "x"], T=FLOAT, padding="SAME", data_format="NHWC"))
    b = graph(node("y", "Conv2D", ["x", "x"], padding="SAME", T=FLOAT), placeholder("x"))
    assert diff(a, b).is_empty  # NHWC is what the op has by default


def test_a_value_with_its_distance() -> None:
    found = diff(model(), model(weights=(3, 4.5)))
    (value,) = found.values
    assert value.is_weight and value.distance is not None
    assert (value.distance.relative, value.distance.largest, value.distance.differing) == (0.1, 0.5, 1)
    assert diff(model(), model(weights=(3, 4.5)), {"weights"}).is_empty
    assert "  value" not in "\n".join(lines(found)) and "1 of 1 differ, by 0.1 of their norm" in "\n".join(lines(found))


@pytest.mark.parametrize("size", [2, 100])
def test_a_zero_of_the_other_sign_is_another_value(size: int) -> None:
    a, b = (graph(const("w", [zero] + [1.0] * (size - 1)), identity("y", "w")) for zero in (0.0, -0.0))
    (value,) = diff(a, b).values
    assert value.distance is not None
    assert (value.distance.largest, value.distance.differing) == (0.0, 1)
    assert diff(a, a).is_empty


@pytest.mark.parametrize("size", [3, 100])
def test_complex_values(size: int) -> None:
    a, b = (
        graph(const("w", [*values, *[0j] * (size - 2)], "complex64"), identity("y", "w", kind="complex64"))
        for values in ([3 + 4j, 0j], [3 + 2j, complex(-0.0, 0)])
    )
    (value,) = diff(a, b).values
    assert value.distance is not None and value.distance[:4] == (0.4, 2.0, 2, size)


def unary(op: str, name: str, *controls: str) -> Graph:
    return graph(placeholder("x"), placeholder("z"), typed(op, name, "x", *controls), identity("y", name))


@pytest.mark.parametrize(
    ("a", "b", "node", "detail", "counted"),
    [
        (model(), model(padding="VALID"), "conv", ("attr", "padding", "'SAME'", "'VALID'"), (4, 0, 1, 0)),
        (model(), model(weights=(3, 4, 5)), "w", ("shape", "value", "float32 [2]", "float32 [3]"), (4, 0, 1, 0)),
        (model(), model(source="z"), "conv", ("input", "0", "x", "z"), (4, 0, 0, 1)),
        (unary("Relu", "r"), unary("Relu", "r", "^z"), "r", ("control", "", "nothing", "z"), (3, 0, 0, 1)),
        (unary("Relu", "r"), unary("Elu", "q"), "q", ("op", "", "Relu", "Elu"), (3, 1, 1, 0)),
    ],
    ids=["attr", "shape", "input", "control input", "op"],
)
def test_a_changed_node(a: Graph, b: Graph, node: str, detail: tuple[str, ...], counted: tuple[int, ...]) -> None:
    found = diff(a, b)
    assert (details(found), counts(found)) == ({node: (Detail(*detail),)}, Counts(*counted, 0, 0, 0))
    assert not found.hunks and not found.values
    assert diff(a, b, {"shapes"}).is_empty == (detail[0] == "shape")


def test_added_and_removed_belong_together_where_they_are_in_one_place() -> None:
    def blocks(middle: str) -> Graph:
        records = [placeholder("x")]
        last = "x"
        for name in ("a", "b"):
            if middle == "two":
                records += [node(f"{name}/1", "Abs", [last], T=FLOAT), node(f"{name}/2", "Neg", [f"{name}/1"], T=FLOAT)]
                last = f"{name}/2"
            else:
                records.append(node(f"{name}/0", "Softsign", [last], T=FLOAT))
                last = f"{name}/0"
            records += [const(f"{name}/w", [ord(name), 2]), node(f"{name}/mul", "Mul", [last, f"{name}/w"], T=FLOAT)]
            last = f"{name}/mul"
        return graph(*records)

    found = diff(blocks("one"), blocks("two"))
    (hunks,) = found.hunks
    assert (dict(hunks.removed), dict(hunks.added), len(hunks.places)) == ({"Softsign": 1}, {"Abs": 1, "Neg": 1}, 2)
    assert "  replaced  2 x  Softsign -> Abs, Neg  (e.g. a/1)" in lines(found)


def test_an_input_of_another_dtype_is_no_new_input() -> None:
    a = graph(placeholder("x"), node("n", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT), identity("y", "n"))
    b = graph(placeholder("x", INT32), node("n", "Cast", ["x"], SrcT=INT32, DstT=FLOAT), identity("y", "n"))
    found = diff(a, b)
    (end,) = found.ends
    assert end.before is not None and end.after is not None
    assert (end.before.spelt, end.after.spelt) == ("float32", "int32")
    assert not found.hunks


def test_what_reads_an_equal_constant_is_the_same() -> None:
    a = graph(placeholder("x"), scalar("c", 2), add("y", "x", "c"), add("z", "y", "c"))
    b = graph(placeholder("x"), scalar("c", 2), scalar("d", 2), add("y", "x", "c"), add("z", "y", "d"))
    found = diff(a, b)
    assert not found.changes
    assert [hunks.added for hunks in found.hunks] == [{"Const": 1}]


def test_bodies_of_functions() -> None:
    def calling(name: str, op: str) -> Graph:
        body = function(name, node("y", op, ["x"], T=FLOAT), ret=f"y:{'activations' if op == 'Relu' else 'y'}:0")
        call = node("call", "PartitionedCall", ["x"], Tin=[], f=func(name))
        return graph(placeholder("x"), call, trailer=library(body))

    assert diff(calling("f", "Relu"), calling("f_12", "Relu"), {"names"}).is_empty
    assert diff(calling("f", "Relu"), calling("f_12", "Relu")).functions_renamed == [("f", "f_12")]
    found = diff(calling("f", "Relu"), calling("f_12", "Neg"))
    assert list(found.functions) == [("f", "f_12")]


@pytest.mark.parametrize("width", [1, 40, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    found = diff(model(), model(name="n" * width, padding="VALID", weights=(1, 2, 3), source="z"))
    assert max(map(len, lines(found))) <= 80


PLAIN = ["s/w", "s/two", "s/add", "s/neg", "s/wait"]


def original_graph(*more: bytes) -> Graph:
    return graph(
        placeholder("x", FLOAT, (4,)), scalar("axis", 0, INT32), node("ready", "NoOp"),
        const("s/w", [1, 2]), node("s/two", "Split", ["axis", "x"], T=FLOAT, num_split=2),
        add("s/add", "s/two:1", "s/w", "^ready"), identity("s/neg", "s/add", "^s/w", "^ready", device="/cpu:0"),
        node("s/wait", "NoOp", ["^s/add", "^s/neg"]), *more,
    )  # fmt: skip


def copied(found: Graph, *names: str, outside: Mapping[str, str] | None = None) -> Copies:
    given = {f"s/{name}": f"t/{name}" for name in names} or {name: "t" + name[1:] for name in PLAIN}
    replace = {found.tensor(old): found.tensor(new) for old, new in (outside or {}).items()}
    copy_nodes(found, [found[name] for name in given], lambda name: "t" + name[1:], replace=replace)
    return Copies(found.pristine(), given, outside or {}, True)


def seen(found: Graph, copies: Copies) -> tuple[set[str], list[str]]:
    """Which copies are plainly right, and what is wrong with the others."""
    after = compare_written(found.pristine(), found.chunks()).after
    return plain_copies(copies, after), list(differing_copies(copies, found.pristine(), after, Intent()))


def test_right_copies_are_passed_over() -> None:
    found = original_graph()
    assert seen(found, copied(found)) == ({*PLAIN}, [])


MISTAKES: dict[str, tuple[str, Callable[[Graph], Any]]] = {
    "an op": ("s/neg", lambda g: g.set_op(g["t/neg"], "Snapshot")),
    "a device": ("s/neg", lambda g: g.set_device(g["t/neg"], "/cpu:1")),
    "an attr": ("s/add", lambda g: g.set_attr(g["t/add"], "T", TYPE)),
    "an attr more": ("s/wait", lambda g: g.set_attr(g["t/wait"], "_more", TYPE)),
    "an attr less": ("s/neg", lambda g: g.set_attr(g["t/neg"], "T", None)),
    "a value": ("s/w", lambda g: g.set_attr(g["t/w"], "value", g["axis"].attr_bytes("value"))),
    "another output": ("s/add", lambda g: g.set_inputs(g["t/add"], [g["t/two"].output, g["t/w"].output])),
    "the original": ("s/neg", lambda g: g.set_inputs(g["t/neg"], [g["s/add"].output])),
    "the inputs exchanged": ("s/add", lambda g: g.set_inputs(g["t/add"], g["t/add"].inputs[::-1])),
    "an input more": ("s/add", lambda g: g.set_inputs(g["t/add"], [*g["t/add"].inputs, g["x"].output])),
    "an input less": ("s/add", lambda g: g.set_inputs(g["t/add"], g["t/add"].inputs[:1])),
    "no control input": ("s/wait", lambda g: g.set_controls(g["t/wait"], [])),
    "one of the original's": ("s/wait", lambda g: g.set_controls(g["t/wait"], [g["s/add"], g["t/neg"]])),
    "one more": ("s/neg", lambda g: g.set_controls(g["t/neg"], [*g["t/neg"].controls, g["x"]])),
    "a colocation": ("s/add", lambda g: g.set_colocated(g["t/add"], [g["x"]])),
    "nothing": ("s/wait", lambda g: g.remove([g["t/wait"]])),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_copy_is_found_among_right_ones(mistake: str) -> None:
    found = original_graph()
    copies = copied(found)
    name, change = MISTAKES[mistake]
    change(found)
    plain, faults = seen(found, copies)
    assert plain == {*PLAIN} - {name}
    assert faults
    assert all(f"'t{name[1:]}'" in fault for fault in faults)


def test_what_holds_names_or_depends_on_the_file_takes_a_closer_look() -> None:
    found = original_graph(
        add("s/beside", "s/add", "s/w", _class=["loc:@s/w"]), placeholder("s/in", FLOAT, (2,)),
        node("s/enter", "Enter", ["x"], T=FLOAT, frame_name="loop"),
    )  # fmt: skip
    plain, faults = seen(found, copied(found, "w", "two", "add", "beside", "in", "enter"))
    assert (plain, faults) == ({"s/w", "s/two", "s/add", "s/in"}, [])


def test_a_needless_index_is_no_difference() -> None:
    found = original_graph(add("s/odd", "s/add:0", "s/two:1"))
    plain, faults = seen(found, copied(found, "two", "w", "add", "odd"))
    assert (plain & {"s/two", "s/add"}, faults) == ({"s/two", "s/add"}, [])


def test_what_stands_for_a_node_that_is_copied_is_read_in_the_place_of_its_copy() -> None:
    found = original_graph(const("other", [3, 4]))
    copies = copied(found, "w", "two", "add", outside={"s/w": "other"})
    assert seen(found, copies) == ({"s/w", "s/two", "s/add"}, [])
    found.set_inputs(found["t/add"], [found["t/two"].outputs[1], found["t/w"].output])
    assert seen(found, copies)[1] == ["'t/add', the copy of 's/add', differs: input 1 is 't/w', not 'other'"]


def test_names_that_no_input_can_spell_are_not_taken_for_tensors() -> None:
    """The record of a node that is called like an output of another."""
    found = original_graph(const("s/two:1", [1]))
    copies = copied(found)._replace(names={"s/two:1": "t/else", "s/w": "t/w", "s/add": "t/add"})
    found.set_inputs(found["t/add"], [found.add("t/else", "Const").output, found["t/w"].output])
    plain, faults = seen(found, copies)
    assert "s/add" not in plain
    assert "'t/add', the copy of 's/add', differs: input 0 is 't/else', not 's/two:1'" in faults


def test_of_another_graph_what_stands_for_its_nodes_is_read() -> None:
    part = graph(placeholder("in", FLOAT, (4,)), node("ready", "NoOp"), identity("a", "in", "^ready"),
                 identity("b", "a"), identity("c", "ready"))  # fmt: skip
    found = graph(placeholder("x", FLOAT, (4,)), identity("a", "x"), identity("b", "a"), identity("c", "x"))
    copies = Copies(part, {"a": "a", "b": "b", "c": "c"}, {"in": "x"}, False)
    assert plain_copies(copies, found) == {"b"}


CONSUMERS = 300
"""So many consumers are compared column by column."""


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ({}, Facts()),
        ({7: identity("n7", "hub")}, Facts(rewired=[Rewired("n7", 0, "core", "hub")])),
        ({7: identity("n7", "n6")}, Facts(rewired=[Rewired("n7", 0, "core", "n6")])),
        ({7: identity("n7", "core:0")}, Facts()),
        ({7: identity("n7", "core", "^n6")}, Facts(altered={"n7": {"controls": ((), ("n6",))}})),
        ({7: typed("Neg", "n7", "core")}, Facts(altered={"n7": {"op": ("Identity", "Neg")}})),
        ({7: identity("n7", "core", device="/cpu:0")}, Facts(altered={"n7": {"device": ("", "/cpu:0")}})),
        ({7: identity("hub", "core")}, Facts(added=["hub"], removed=["n7"])),
        ({7: identity("n6", "core")}, Facts(removed=["n7"], graph_fields={"doubled n6": (None, "2")})),
    ],
)
def test_one_wrong_consumer_of_a_renamed_node_is_found(wrong: dict[int, bytes], facts: Facts) -> None:
    found = graph(placeholder("hub"), *(identity(f"n{i}", "hub") for i in range(CONSUMERS)))
    right = (identity(f"n{i}", "core") for i in range(CONSUMERS))
    now = graph(placeholder("core"), *(wrong.get(i, record) for i, record in enumerate(right)))
    facts.renamed["hub"] = "core"
    assert compare_written(found.pristine(), now.chunks(), {"hub": "core"}).facts == facts


def test_a_colocation_with_a_renamed_node_is_compared() -> None:
    def many(hub: str, colocated: str) -> Graph:
        others = (identity(f"n{i}", hub) for i in range(CONSUMERS))
        return graph(placeholder(hub), identity("a", hub, _class=[f"loc:@{colocated}"]), *others)

    before = many("hub", "hub").pristine()
    right, wrong = (compare_written(before, many("core", name).chunks(), {"hub": "core"}) for name in ("core", "hub"))
    assert right.facts == Facts(renamed={"hub": "core"})
    assert wrong.facts == Facts(renamed={"hub": "core"}, altered={"a": {"colocated": (("core",), ())}})


def test_of_a_graph_that_was_edited_nothing_is_said() -> None:
    found = original_graph()
    copies = copied(found)
    after = compare_written(found.pristine(), found.chunks()).after
    assert plain_copies(copies._replace(originals=found), after) == set()
    assert plain_copies(copies, found) == set()


def chain(count: int) -> tuple[Graph, Copies]:
    found = graph(placeholder("x", FLOAT, (4,)), const("s/w", [1]), *(
        add(f"s/n{i}", f"s/n{i - 1}" if i else "x", "s/w") for i in range(count)
    ))  # fmt: skip
    names = ["w", *(f"n{i}" for i in range(count))]
    return found, copied(found, *names)


def test_a_plain_copy_costs_a_few_calls() -> None:
    def work(count: int) -> int:
        found, copies = chain(count)
        after = compare_written(found.pristine(), found.chunks()).after
        return calls(partial(list, differing_copies(copies, found.pristine(), after, Intent())))

    work(5)  # what is looked up once is looked up now
    assert work(300) - work(100) < 20 * 200


UNKNOWN = encode_len(900, b"unknown")
GRADIENT = encode_len(2, encode_len(1, b"f") + encode_len(2, b"g"))


def with_unknown(record: bytes) -> bytes:
    """The record of a node, shorter than 100 bytes, with an additional unknown field."""
    return encode_len(1, record[2:] + UNKNOWN)


def f(more: bytes = b"", in_node: bytes = b"") -> Any:
    """The function f with the field MORE, and its node with the field IN_NODE."""
    body = node("y", "Neg", ["x"], T=FLOAT)
    found = function("f", encode_len(1, body[2:] + in_node))
    return type(found).FromString(found.SerializeToString() + more)


PARTS = {
    "a": const("a", [1]),
    "b": const("b", [2]),
    "y": with_unknown(node("y", "Neg", ["a"], T=FLOAT)),
    "z": identity("z", "y"),
    "library": library(f(), function("g"), gradients={"f": "g"}),
    "more": encode_len(2, encode_len(3, encode_len(2, b"f"))),
    "versions": VERSIONS,
    "unknown": UNKNOWN,
}
WHOLE = graph(*PARTS.values(), trailer=b"")


def written(text: str, **instead: bytes) -> Facts:
    """The facts of a file written from the parts named in TEXT; parts in parentheses are written again."""
    chunks: list[Chunk] = []
    for word in text.split():
        name = word.strip("()")
        if word != name:
            chunks.append(instead.get(name, PARTS[name]))
        else:
            start = sum(len(part) for other, part in PARTS.items() if [*PARTS].index(other) < [*PARTS].index(name))
            chunks.append(SourceSpan(WHOLE.source, start, start + len(PARTS[name])))
    facts = compare_written(WHOLE, chunks).facts
    assert facts == compare_written(WHOLE, [read_chunks(chunks)]).facts  # as where a text file is written
    return facts


REST = "library more versions unknown"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"a b (b) y z {REST}", "doubled b"),
        (f"a (b) b y z {REST}", "doubled b"),
        (f"a (b) (b) y z {REST}", "doubled b"),
        (f"a b y z (z) {REST}", "doubled z"),
        (f"a b b y z {REST}", "doubled b"),
        (f"a b y a b y z {REST}", "doubled y"),
        (f"a b y z {REST} a b", "doubled a"),
        (f"b a y z {REST}", "place of a"),
        (f"b (a) y z {REST}", "place of a"),
        (f"(b) a y z {REST}", "place of a"),
        (f"a y z b {REST}", "place of b"),
        (f"y z a b {REST}", "place of a"),
    ],
)
def test_nodes_that_are_written_twice_or_elsewhere(text: str, what: str) -> None:
    assert what in written(text).graph_fields


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        ("library library more unknown", "versions"),
        ("library library more versions unknown", "doubled function f"),
        ("library library more versions unknown", "doubled gradient of f"),
        ("library library versions unknown", "library"),
        ("library versions unknown", "library"),
        ("library more more versions unknown", "library"),
        ("library more versions versions unknown", "versions"),
        ("library more versions (versions) unknown", "versions"),
        ("library more unknown unknown", "versions"),
        ("library more versions", "field 900"),
        ("library more versions unknown unknown", "field 900"),
        ("library more versions unknown (unknown)", "field 900"),
    ],
)
def test_what_stands_beside_the_nodes_is_lost_or_written_twice(rest: str, what: str) -> None:
    assert what in written(f"a b y z {rest}").graph_fields


@pytest.mark.parametrize("record", [node("y", "Neg", ["a"], T=FLOAT), with_unknown(PARTS["y"])])
def test_an_unknown_field_of_a_node_is_lost_or_doubled(record: bytes) -> None:
    assert [*written(f"a b (y) z {REST}", y=record).altered["y"]] == ["other fields"]
    parts = b"".join({**PARTS, "y": record}.values())
    assert [*compare_files(WHOLE, from_bytes(parts, "other.pb")).facts.altered["y"]] == ["other fields"]


@pytest.mark.parametrize(
    ("instead", "what"),
    [
        (encode_len(2, PARTS["library"][2:] + GRADIENT), "doubled gradient of f"),
        (library(f(), function("g"), gradients={"g": "f"}), "gradient of f"),
        (library(f(), function("g")), "gradient of f"),
        (encode_len(2, PARTS["library"][2:] + UNKNOWN), "library"),
    ],
)
def test_what_a_library_has_beside_its_functions(instead: bytes, what: str) -> None:
    assert what in written("a b y z (library) more versions unknown", library=instead).graph_fields


@pytest.mark.parametrize("changed", [f(UNKNOWN), f(in_node=UNKNOWN)])
def test_an_unknown_field_of_a_function(changed: Any) -> None:
    instead = library(changed, function("g"), gradients={"f": "g"})
    parts = [SourceSpan(WHOLE.source, 0, 0), b"".join({**PARTS, "library": instead}.values())]
    comparison = compare_written(WHOLE, parts)
    assert comparison.facts.functions.changed == ["f"]
    assert comparison.inside["f"].facts != Facts()


def random_record(rng: random.Random, name: str, names: list[str]) -> bytes:
    spelt = [rng.choice(["{}", "{}", "{}:0", "{}:1", "^{}"]).format(rng.choice(names)) for _ in range(rng.randrange(4))]
    inputs = sorted(spelt, key=lambda text: text[0] == "^")
    more = {"_class": [f"loc:@{rng.choice(names)}"]} if rng.random() < 0.2 else {}
    return node(name, rng.choice(["Neg", "Mul", "Pack", f"Op{rng.randrange(3)}"]), inputs, **more)


@pytest.mark.parametrize("seed", range(40))
def test_what_was_put_together_is_compared_as_a_file_is(seed: int) -> None:
    """Two files that are made of a third have what they have copied of it in common; the rest is read."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randrange(2, 30))]
    records = {name: random_record(rng, name, names) for name in names}
    whole = graph(*records.values(), trailer=VERSIONS)
    ends = dict(zip(names, accumulate(map(len, records.values())), strict=True))

    def put_together(before: dict[str, bytes]) -> tuple[list[Chunk], dict[str, bytes]]:
        """Chunks, and the records that they spell: those BEFORE, others, and fewer."""
        chunks: list[Chunk] = []
        spelt: dict[str, bytes] = {}
        for name, record in before.items():
            kind = rng.choice(["as it was"] * 5 + ["another", "gone"])
            if kind != "gone":
                spelt[name] = record if kind == "as it was" else random_record(rng, name, names)
                is_copied = spelt[name] == records[name] and rng.random() < 0.7
                span = SourceSpan(whole.source, ends[name] - len(records[name]), ends[name])
                chunks.append(span if is_copied else spelt[name])
        return [*chunks, SourceSpan(whole.source, ends[names[-1]], whole.source.size)], spelt

    first, was = put_together(records)
    middle = Graph(ChunkSource(first, "middle.pb"))
    second, now = put_together(was)
    found = Written(middle, second, {})
    assert found.fresh == [name for name in now if now[name] != was[name]]
    assert [*found.lost()] == [name for name in was if now.get(name) != was[name]]
    assert found.has_same_fields
    of_files = compare_written(from_bytes(read_chunks(first)), [read_chunks(second)]).facts
    assert compare_written(middle, second).facts == of_files


def test_a_removed_consumer_of_a_renamed_node_is_listed_once() -> None:
    found = graph(const("a", [1]), identity("y", "a"))
    found.remove([found["y"]])
    found.rename({found["a"]: "b"})
    facts = compare_written(found.pristine(), found.chunks(), {"a": "b"}).facts
    assert facts == Facts(renamed={"a": "b"}, removed=["y"])
