"""Mistakes planted in inline: each is found without running anything."""

from __future__ import annotations

import pytest
from support.graphs import FLOAT, X, add, call, define, graph, identity, library, neg, node, placeholder, scalar
from support.inlining import F1, TWO, TWO_CALL, I
from support.mutants import Mutant, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.inline import inline
from gdsurgeon.graph.graph import Graph

INLINE, HAND, UNUSED = "edits.inline", "edits.copying.replacing", "edits.functions.unused"


def in_order() -> tuple[Graph, EditResult]:
    """A call on a device that waits for two, and is waited for; its body has control edges, and does more than give."""
    made = define(
        "f", {"a": FLOAT, "b": FLOAT}, {"o": (FLOAT, "d:z:0")}, neg("n", "a"), scalar("k", 1), node("own", "NoOp"),
        node("d", "Sub", ["n:y:0", "b", "^own"], T=FLOAT, device="/cpu:1", _class=["loc:@n"], _note="kept"),
        node("late", "NoOp", ["^k"]), effects=["late"], stateful=True,
    )  # fmt: skip
    found = graph(
        X, placeholder("z", FLOAT, (2,)), node("ready", "NoOp"), node("set", "NoOp"),
        call("c", "f", ["x", "z", "^ready", "^set"], F1 * 2, F1, stateful=True, device="/cpu:0"),
        neg("y", "c"), identity("w", "x", "^c", "^other"), node("other", "NoOp"), library(made),
    )  # fmt: skip
    return found, inline(found)


def plain() -> tuple[Graph, EditResult]:
    found = graph(X, I, TWO_CALL, neg("y", "c"), identity("q", "c:2"), library(TWO))
    return found, inline(found)


def nested(keep_names: bool = False) -> tuple[Graph, EditResult]:
    """A call of a function that calls another twice; and a function that another call keeps."""
    inner = define("inner", {"a": FLOAT}, {"o": (FLOAT, "d:z:0")}, scalar("k", 1),
                     node("d", "Sub", ["k:output:0", "a"], T=FLOAT))  # fmt: skip
    outer = define(
        "outer",
        {"a": FLOAT, "b": FLOAT},
        {"o": (FLOAT, "s:z:0")},
        call("p", "inner", ["a"], F1, F1),
        call("q", "inner", ["b"], F1, F1),
        node("s", "Sub", ["p:output:0", "q:output:0"], T=FLOAT),
    )
    kept = define("kept", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "a"))
    found = graph(
        X,
        placeholder("z", FLOAT, (2,)),
        call("c", "outer", ["x", "z"], F1 * 2, F1),
        neg("y", "c"),
        call("stays", "kept", ["x"], F1, F1),
        library(outer, inner, kept, gradients={"kept": "inner"}),
    )
    return found, inline(found, ["outer"], keep_names=keep_names)  # fmt: skip


def by_their_names() -> tuple[Graph, EditResult]:
    return nested(keep_names=True)


def for_its_effects() -> tuple[Graph, EditResult]:
    made = define("f", {"a": FLOAT}, {}, neg("n", "a"), node("done", "NoOp", ["^n"]), effects=["done"], stateful=True)
    found = graph(
        X, call("c", "f", ["x"], F1, [], stateful=True), identity("y", "x", "^c"), neg("z", "x"), library(made)
    )
    return found, inline(found)


def an_output() -> tuple[Graph, EditResult]:
    made = define("f", {"a": FLOAT, "b": FLOAT}, {"o": (FLOAT, "n:y:0"), "p": (FLOAT, "s:z:0")}, neg("n", "a"),
                    add("s", "a", "b"))  # fmt: skip
    found = graph(X, placeholder("z", FLOAT, (2,)), call("c", "f", ["x", "z"], F1 * 2, F1 * 2), library(made))
    return found, inline(found)


MUTANTS = [
    Mutant("what the call waited for is lost", INLINE, "        controls = list(call.controls)\n",
           "        controls = []\n", in_order),
    Mutant("the first only of what the call waited for is waited for", INLINE,
           "        controls = list(call.controls)\n", "        controls = list(call.controls)[:1]\n", in_order),
    Mutant("arguments do not wait for what the call waited for", INLINE,
           "gated = [self._identity(f\"{call.name}/argument\", output, controls, call) for output in values]",
           "gated = [self._identity(f\"{call.name}/argument\", output, [], call) for output in values]", in_order),
    Mutant("nodes without inputs do not wait for what the call waited for", INLINE,
           "if start and not new.inputs and not new.controls:", "if False:", in_order),
    Mutant("nobody waits for what a call did besides its results", INLINE,
           "effects = [nodes[node] for node in body.control_results.values()]", "effects = []", in_order),
    Mutant("nobody waits for a call that was there for its effects", INLINE,
           "effects = [nodes[node] for node in body.control_results.values()]", "effects = []", for_its_effects),
    Mutant("who waited for the call waits for nothing", INLINE,
           "new = [n for control in user.controls for n in (done if control is call else [control])]",
           "new = [control for control in user.controls if control is not call]", in_order),
    Mutant("who waited for the call waits for nothing else any more", INLINE,
           "new = [n for control in user.controls for n in (done if control is call else [control])]", "new = done",
           in_order),
    Mutant("the bodies do not inherit the call's device", INLINE, "device=old.device or call.device",
           "device=old.device", in_order),
    Mutant("all in the body runs on the call's device", INLINE, "device=old.device or call.device",
           "device=call.device or old.device", in_order),
    Mutant("control edges in the body are lost", INLINE,
           "[nodes[control] for control in old.controls if control in nodes]", "[]", in_order),
    Mutant("colocations in the body are lost", INLINE, "        if old.colocated:\n", "        if False:\n", in_order),
    Mutant("attrs that the op does not know are lost", INLINE,
           "attrs = {key: value for key in old.attr_keys if (value := old.attr_bytes(key)) is not None}",
           "attrs = {k: v for k in old.attr_keys if k[0] != '_' and (v := old.attr_bytes(k)) is not None}", in_order),
    Mutant("the arguments are exchanged", INLINE, "zip(body.arguments, outside, strict=True)",
           "zip(body.arguments, outside[::-1], strict=True)", nested),
    Mutant("the results are exchanged", INLINE,
           "place = [Output(keeper, i) for i in range(len(results))] if keeper is not None else list(results)",
           "place = [Output(keeper, i) for i in range(len(results))] if keeper is not None else list(results)[::-1]",
           plain),
    Mutant("all results are the first", INLINE, "{slot: place[user.inputs[slot].index] for slot in slots}",
           "{slot: place[0] for slot in slots}", plain),
    Mutant("inside, output 0 is read of all", INLINE, "[counterparts[read.node][read.index] for read in old.inputs]",
           "[counterparts[read.node][0] for read in old.inputs[::-1]]", nested),
    Mutant("the results of an output are exchanged", INLINE,
           "{'results' if results else 'done'}\", results, effects, call)",
           "{'results' if results else 'done'}\", results[::-1], effects, call)", an_output),
    Mutant("a call that nobody reads is gone", INLINE, "        if loose or not is_read:\n", "        if loose:\n",
           an_output),
    Mutant("constants in the body have no device", INLINE, "device=old.device or call.device, after=call",
           "device='' if old.op == 'Const' else old.device or call.device, after=call", in_order),
    Mutant("functions that are still called are dropped", UNUSED,
           "sorted(lost - used_functions(graph) - set(library.reachable(others, gradients=True)))",
           "sorted(lost)", nested),
    Mutant("functions that nobody calls any more stay", UNUSED, "    library.remove(unused)\n    return unused\n\n\n",
           "    return []\n\n\n", nested),
    Mutant("the nodes have other names", INLINE, "old.name if self.keep_names else f\"{call.name}/{old.name}\"",
           "f\"{call.name}/{old.name}\"", by_their_names),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
