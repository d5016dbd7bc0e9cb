"""Two of a kind exchanged in random graphs: each line of the report is true of the two files, and there are few."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import FLOAT, Drawn, add, const, graph, node, placeholder, random_graphs, scalar, tensor

from gdsurgeon.compare.changes import Detail
from gdsurgeon.compare.diff import diff
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.view.difference import Counts, as_json, counts
from gdsurgeon.wire.protos import GraphDef


def exchanged(before: Any, what: str, choose: Any) -> Any:
    """BEFORE with the values of two constants, two inputs of a node, or the names of two nodes of an op exchanged."""
    after = GraphDef.FromString(before.SerializeToString())
    if what == "inputs":
        places = [(n, i, j) for n in after.node for j, b in enumerate(n.input) for i, a in enumerate(n.input[:j])
                  if a != b and a[0] != "^" != b[0]]  # fmt: skip
    else:
        alike = ((a, b) for j, b in enumerate(after.node) for a in after.node[:j] if a.op == b.op)
        places = [
            (a, b) for a, b in alike if (a.op == "Const") == (what == "values") and a.attr["dtype"] == b.attr["dtype"]
        ]
    if not places:
        return after
    place = choose(places)
    if what == "inputs":
        reader, i, j = place
        reader.input[i], reader.input[j] = reader.input[j], reader.input[i]
    elif what == "values":
        one, other = (each.attr["value"].SerializeToString() for each in place)
        place[0].attr["value"].ParseFromString(other)
        place[1].attr["value"].ParseFromString(one)
    else:
        names = {place[0].name: place[1].name, place[1].name: place[0].name}
        for each in after.node:
            each.name = names.get(each.name, each.name)
            each.input[:] = [renamed(text, names) for text in each.input]
            classes = each.attr["_class"].list.s if "_class" in each.attr else []
            classes[:] = [b"loc:@" + names.get(c[5:].decode(), c[5:].decode()).encode() for c in classes]
    return after


def renamed(text: str, names: dict[str, str]) -> str:
    name, colon, port = text.removeprefix("^").partition(":")
    return "^" * (text[0] == "^") + names.get(name, name) + colon + port


def check_true(found: dict[str, Any], before: Any, after: Any) -> int:
    """All that FOUND says is so of the two files; returns of how many nodes and inputs it says something."""
    one, other = ({n.name: n for n in each.node} for each in (before, after))
    for pair in found["renamed"]:
        assert pair["before"] in one and pair["after"] in other and pair["before"] != pair["after"], pair
    now = {pair["before"]: pair["after"] for pair in found["renamed"]}
    gone, new = ({(n["name"], n["op"]) for n in found[key]} for key in ("removed", "added"))
    assert gone <= {(n.name, n.op) for n in before.node} and new <= {(n.name, n.op) for n in after.node}
    assert not gone & new
    count = len(now) + len(gone) + len(new) + len(found["values"])
    for value in found["values"]:
        a, b = one[value["before"]], other[value["after"]]
        assert now.get(a.name, a.name) == b.name and a.attr["value"] != b.attr["value"], value
    for change in found["changed"]:
        a, b = one[change["before"]], other[change["after"]]
        assert now.get(a.name, a.name) == b.name
        for detail in change["details"]:
            count += 1
            was, is_ = detail["before"], detail["after"]
            assert was != is_ or now[was.partition(":")[0]] == detail["now"].partition(":")[0], detail
            if detail["what"] == "input":
                for each, text in ((a, was), (b, is_)):
                    data = [read.removesuffix(":0") for read in each.input if read[0] != "^"]
                    slot = int(detail["key"])
                    assert text == (data[slot] if slot < len(data) else "nothing"), (detail, data)
            elif detail["what"] == "control":
                for each, text in ((a, was), (b, is_)):
                    assert text == "nothing" or {f"^{name}" for name in text.split(", ")} <= {*each.input}, detail
            else:
                assert (was, is_) == tuple(getattr(each, detail["what"]) or "nothing" for each in (a, b)), detail
    return count


@settings(max_examples=200)
@given(random_graphs(most=12), st.sampled_from(("values", "inputs", "names")), st.data())
def test_what_is_reported_is_true_and_short(drawn: Drawn, what: str, data: st.DataObject) -> None:
    for number, each in enumerate(n for n in drawn.message.node if n.op == "Const" and n.attr["dtype"].type == 1):
        each.attr["value"].ParseFromString(tensor([number, -number]))
    after = exchanged(drawn.message, what, lambda places: data.draw(st.sampled_from(places)))
    a, b = (from_bytes(each.SerializeToString()) for each in (drawn.message, after))
    found = as_json(diff(a, b))
    count = check_true(found, drawn.message, after)
    assert count <= 2 or what == "names"


def convolutions(first: list[float], second: list[float]) -> Graph:
    layers = [
        record
        for name, weights in (("c", first), ("d", second))
        for record in (
            const(f"{name}/w", weights),
            node(name, "Conv2D", ["x", f"{name}/w"], T=FLOAT, padding="SAME"),
            node(f"{name}/relu", "Relu", [name], T=FLOAT),
        )
    ]
    return graph(placeholder("x"), *layers, add("y", "c/relu", "d/relu"))


def difference(*reads: str) -> Graph:
    return graph(scalar("p", 3), scalar("q", 5), node("s", "Sub", reads, T=FLOAT))


def test_names_are_trusted_before_values() -> None:
    found = diff(convolutions([1, 2], [3, 4]), convolutions([3, 4], [1, 2]))
    assert counts(found) == Counts(6, 0, 0, 0, 2, 0, 0)
    found = diff(difference("p", "q"), difference("q", "p"))
    assert counts(found) == Counts(2, 0, 0, 1, 0, 0, 0)


def test_a_name_that_another_node_has_now() -> None:
    """The input of y kept its name in the file but is a different node: the report names it."""

    def model(first: str, second: str) -> Graph:
        two = [node(first, "Neg", ["x"], T=FLOAT), node(second, "Exp", ["x"], T=FLOAT)]
        return graph(placeholder("x"), *two, node("y", "Relu", ["n"], T=FLOAT), node("z", "Tanh", ["e"], T=FLOAT))

    found = diff(model("n", "e"), model("e", "n"))
    assert {found.names(c.i, c.j)[1]: c.details for c in found.changes} == {
        "y": (Detail("input", "0", "n", "n", "e"),),
        "z": (Detail("input", "0", "e", "e", "n"),),
    }
    assert not diff(model("n", "e"), model("e", "n"), {"names"}).is_empty
