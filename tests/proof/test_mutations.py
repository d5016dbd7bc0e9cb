"""Every edit, done wrong in every way: the engine catches each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.every_edit import BIAS, EDITS, KERNEL, Edit, named, original
from support.graphs import Builder
from support.mutations import ADDED, SAID, TOUCHED, UNTOUCHED, Mutation, mutations

from gdsurgeon.analysis.checks.check import check_edited
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.errors import GdsurgeonError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.change import edited
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.wire.write import read_chunks

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def both(executor: Executor) -> Executor:
    """An executor that has loaded the model, once for all."""
    executor.load_source(ORIGINAL, original())
    return executor


def proven(executor: Executor, edit: Edit, spoil: Callable[[Graph], None] | None = None) -> Proof:
    """The proof of EDIT, with SPOIL done behind its back: all that stands between an edit and its file."""
    graph = original()
    result = edit(graph)
    if spoil is not None:
        spoil(graph)
    faults = check_edited(graph)
    if faults:
        raise ValidationError("the result would be broken:", details=tuple(faults))
    chunks = graph.chunks()
    check_accounted(graph, result, chunks)
    executor.load_bytes(EDITED, read_chunks(chunks))
    return prove(executor, edited(graph, result), Overrides())


@pytest.mark.parametrize("name", EDITS)
def test_a_right_edit_passes(name: str, both: Executor) -> None:
    proof = proven(both, EDITS[name])
    assert proof.compared and all(o.comparison is not None and o.comparison.equal for o in proof.compared)


# -- what is done wrong ------------------------------------------------------------------------------------------

UNSEEN = frozenset(
    f"{scope}{name}"
    for scope in ("", "t/", "u/")
    for name in "check report percent told written lonely all hundred".split()
)
"""Nodes that no output shows: an Assert that passes, inputs of an Assert only, nodes that are run by name."""


OF_VALUES = frozenset(("inputs swapped", "another tensor read", "original read", "another attr", "node lost"))
"""Kinds for which a mutation that no output shows is tried as well."""

ANYWHERE = frozenset(("weight scaled", "another dtype", "a shape that is not known", "colocation added"))
"""Kinds that are tried only on nodes that an edit has touched: similar kinds are tried on the others."""

ALIKE = frozenset(("clone-scope --map", "rename --rename-scope", "set-attr padding"))
"""Edits for which similar edits are tried on untouched nodes."""


@cache
def spoilt(name: str) -> list[Mutation]:
    """All mutations of what the edit NAME makes of the model."""
    graph = original()
    return list(mutations(graph, EDITS[name](graph)))


def chosen(name: str) -> list[Mutation]:
    """Returns mutations for the edit NAME: for each kind, one of an added node, of a declared change, of a touched
    node and of an untouched node, which differs between edits; for some kinds, one more that no output shows."""
    groups: dict[tuple[str, str, bool], list[Mutation]] = {}
    for mutation in spoilt(name):
        untouched = mutation.where in (TOUCHED, UNTOUCHED) and mutation.kind in ANYWHERE
        if not untouched and (mutation.where != UNTOUCHED or name not in ALIKE):
            key = (mutation.kind, mutation.where, mutation.kind in OF_VALUES and mutation.target in UNSEEN)
            groups.setdefault(key, []).append(mutation)
    turn = list(EDITS).index(name)
    return [found[turn % len(found) if where == UNTOUCHED else 0] for (_, where, _), found in groups.items()]


MORE = [
    ("clone-scope", "shared name of another", "u/v"),
    ("clone-scope", "one Enter in the frame of another loop", "u/while/limit"),
    ("clone-scope", "original read", "u/difference"),
    ("clone-scope", "another function called", "f of u/told: other_turn"),
    ("clone-scope", "name that nobody knows", "t/result"),
    ("clone-scope --map", "inputs swapped", "u/percent"),
    ("extract", "control edge dropped", "t/stored"),
    ("extract", "node lost", "t/init"),
    ("fuse-ops --xla", "weight scaled by a little", "k"),
    ("fuse-ops --xla", "weight scaled by a little in a function", "turn"),
    ("inline", "control edge dropped", "called/argument"),
    ("remove --dangling", "control edge dropped", "t/stored"),
    ("reroute", "inputs swapped in a function", "outer"),
    ("set-attr", "inputs swapped in a function", "outer"),
    ("set-attr", "next output", "t/difference"),
]
"""Cases that what is chosen may leave out."""


def more(name: str, kind: str, target: str) -> Mutation:
    return next(m for m in spoilt(name) if (m.kind, m.target) == (kind, target))


def is_wrong(name: str, mutation: Mutation) -> bool:
    """Whether it is nothing that the edit itself may do.

    `control-edges` may add an edge to the nodes that it lists as changed, and values that XLA computes may differ a
    little.
    """
    if name == "control-edges" and mutation.where == SAID:
        return mutation.kind != "control edge added"
    if name == "fuse-ops --xla" and mutation.where == ADDED:
        return mutation.kind != "weight scaled by a little in a function"
    return True


def cases() -> list[Any]:
    found: dict[str, tuple[str, Mutation]] = {}
    tried: set[tuple[str, str]] = set()
    for name in EDITS:
        wrong = [m for m in chosen(name) if is_wrong(name, m)]
        elsewhere = {m.kind for m in wrong if m.where != UNTOUCHED}
        for m in wrong:
            if m.where == UNTOUCHED:
                # It is the same for all edits: where others of its kind are tried, it need not be tried again.
                if m.kind in elsewhere and (m.kind, m.target) in tried:
                    continue
                tried.add((m.kind, m.target))
            found[f"{name}: {m.name}"] = (name, m)
    found |= {f"{case[0]}: {(m := more(*case)).name}": (case[0], m) for case in MORE}
    return [pytest.param(*case, id=case_id) for case_id, case in found.items()]


CASES = cases()


@pytest.mark.parametrize(("name", "mutation"), CASES)
def test_a_wrong_edit_is_caught(name: str, mutation: Mutation, both: Executor) -> None:
    try:
        proven(both, EDITS[name], mutation.spoil)
    except ValidationError as error:
        assert error.exit_code == 5
    except GdsurgeonError as error:
        pytest.fail(f"exit code {error.exit_code}: {error.message}", pytrace=False)
    else:
        pytest.fail("nobody notices", pytrace=False)


VALUES = (
    "inputs swapped", "another tensor read", "original read", "next output", "weight scaled by a little", "another op",
    "inputs swapped in a function", "results of a function exchanged", "arguments of a function exchanged",
)  # fmt: skip
SHOWN = ("t/scaled", "t/difference", "t/scale", "sum", "turn", "outer", "apart", "less", "two", "u/scale")
"""Nodes and functions that outputs of the model show."""
ON_PURPOSE = frozenset(("reroute", "set-attr", "set-attr padding", "set-shape --fix-batch", "fuse-ops --xla"))
"""Edits that change values on purpose, or by rounding."""


def shown(name: str) -> list[Mutation]:
    """Mutations that change a value of an output: of each kind one, a different one for each edit."""
    groups: dict[str, list[Mutation]] = {}
    unread = ["t/scale"] if name.startswith("remove -") else []
    for mutation in spoilt(name) if name not in ON_PURPOSE else ():
        if mutation.kind in VALUES and mutation.target in SHOWN and mutation.target not in unread:
            groups.setdefault(mutation.kind, []).append(mutation)
    return [found[list(EDITS).index(name) % len(found)] for found in groups.values()]


@pytest.mark.parametrize("name", EDITS)
def test_a_wrong_value_is_found_by_running_alone(name: str, both: Executor) -> None:
    for mutation in shown(name):
        graph = original()
        result = EDITS[name](graph)
        result.asked = None
        mutation.spoil(graph)
        both.load_bytes(EDITED, read_chunks(graph.chunks()))
        with pytest.raises(ValidationError) as error:
            prove(both, edited(graph, result), Overrides())
        assert error.value.code == "differs", mutation.name


# -- folds -------------------------------------------------------------------------------------------------------


def folded(
    *,
    kernel: Any = 1.0,
    bias: float = 1.0,
    order: str = "conv bias relu",
    last: str = "Relu",
) -> Builder:
    """A convolution, a bias and a Relu: the kernel and the bias times these, the steps in this ORDER."""
    p = Builder()
    p.placeholder("positive", "float32", (1, 4, 4, 1))
    p.const("w", np.multiply(KERNEL, kernel))
    p.const("b", np.multiply(BIAS, bias))
    value = "positive"
    for i, step in enumerate(order.split()):
        if step == "conv":
            value = p.typed("Conv2D", f"n{i}", value, "w", strides=[1, 1, 1, 1], padding="SAME")
        elif step == "bias":
            value = p.typed("BiasAdd", f"n{i}", value, "b", data_format="NHWC")
        else:
            value = p.typed(last if step == "relu" else step, f"n{i}", value)
    p.typed("Identity", "map", value)
    return p


def folding(body: Builder) -> Edit:
    nodes = named("convolved", "biased", "map", "kernel", "bias")
    return lambda g: fuse_ops(g, nodes, "f", body=body.graph("body.pb"))


WRONG_FOLDS: dict[str, Builder] = {
    "the bias has another sign": folded(bias=-1.0),
    "the kernel has another sign": folded(kernel=-1.0),
    "the sum has another sign": folded(order="conv bias Neg relu"),
    "the bias is added behind the Relu": folded(order="conv relu bias"),
    "no Relu": folded(order="conv bias"),
    "another sign behind the Relu": folded(order="conv bias relu Neg"),
    "Abs in the place of Relu": folded(last="Abs"),
    "Relu6 in the place of Relu": folded(last="Relu6"),
    "Elu in the place of Relu": folded(last="Elu"),
    "Relu in front, where all is positive": folded(order="relu conv bias"),
    "a Relu in front, too": folded(order="relu conv bias relu"),
    "the kernel by a little": folded(kernel=1 + 2**-20),
    "the bias by a little": folded(bias=1 + 2**-20),
    "a weight of the kernel is that of another": folded(kernel=[[[[4.0]], [[0.25]]], [[[1.0]], [[1.0]]]]),
}
"""Bodies that return the right values, or nearly, for the positive numbers that the model has there."""


def test_a_right_fold_passes(both: Executor) -> None:
    assert proven(both, folding(folded())).compared


@pytest.mark.parametrize("what", WRONG_FOLDS)
def test_a_wrong_fold_is_caught(what: str, both: Executor) -> None:
    with pytest.raises(ValidationError) as error:
        proven(both, folding(WRONG_FOLDS[what]))
    assert error.value.code == "differs"
