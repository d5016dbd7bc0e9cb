"""Every edit, done wrong in every way: the engine catches each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.desk import check_raised
from support.every_edit import BIAS, EDITS, FUSED, KERNEL, Edit, named, original
from support.expecting import account
from support.graphs import Builder, const, parsed
from support.mutations import Mutation, mutations

from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.inline import inline
from gdsurgeon.errors import ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.wire.write import read_chunks

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def both(executor: Executor) -> Executor:
    """An executor that has loaded the model, once for all."""
    executor.load_graph(ORIGINAL, original())
    return executor


def proven(executor: Executor, edit: Edit) -> Proof:
    """Returns the proof of an edit: all checks between an edit and its file."""
    graph = original()
    result = edit(graph)
    account(graph, result)
    executor.load(EDITED, read_chunks(graph.chunks()))
    return prove(executor, Change(graph.pristine(), graph, result), Overrides())


VARIANTS: dict[str, Edit] = {
    "fuse-ops --inline": lambda g: fuse_ops(g, FUSED, "f", inline=True),
    "fuse-ops of outputs": lambda g: fuse_ops(g, named("apart", "k"), "f"),
    "inline --keep-names": lambda g: inline(g, keep_names=True),
}


@pytest.mark.parametrize("name", EDITS | VARIANTS)
def test_a_right_edit_passes(name: str, both: Executor) -> None:
    proof = proven(both, (EDITS | VARIANTS)[name])
    assert proof.compared and all(o.comparison is not None and o.comparison.equal for o in proof.compared)
    assert proof.samples == 2
    assert proof.largest_difference == 0
    assert proof.tolerance.is_exact == (name not in ("fuse-ops --xla", "set-shape", "set-shape --fix-batch"))


# -- mutations of the result -------------------------------------------------------------------------------------


def is_wrong(name: str, mutation: Mutation, changed: Sequence[str]) -> bool:
    """Returns whether a mutation is not part of the request, and has an effect.

    `control-edges` may add edges to the nodes that it lists as changed. Edits choose the shared names of new tables and
    variables. The results of `inline` do not depend on the attributes of a new Identity before an argument.
    """
    if name == "control-edges":
        return mutation.kind != "control added" or mutation.node not in changed
    is_named = mutation.node.startswith(("u/v", "u/table", "t/table_1"))
    is_argument = name == "inline" and mutation.node.startswith("called/argument")
    return not ((is_named and mutation.kind == "attr s") or (is_argument and mutation.kind in UNSEEN))


UNSEEN = ("attr added", "colocation", "control added")


def chosen(name: str, data: bytes, changed: Sequence[str]) -> Iterator[Mutation]:
    """Yields each mutation of a node or function that differs from the original, and one of each kind of the others.

    The unchanged nodes that are mutated differ between edits.
    """
    before, after = parsed(original()), parsed(data)
    functions = {function.signature.name: function for function in before.library.function}
    same = {function.signature.name for function in after.library.function} & functions.keys()
    nodes = {node.name: node for node in before.node}
    same |= {node.name for node in after.node if nodes.get(node.name) == node}
    unchanged: dict[tuple[str, bool], list[Mutation]] = {}
    for mutation in mutations(data):
        if not is_wrong(name, mutation, changed):
            continue
        if (mutation.where or mutation.node) in same:
            unchanged.setdefault((mutation.kind, bool(mutation.where)), []).append(mutation)
        else:
            yield mutation
    for gone in sorted(nodes.keys() - {node.name for node in after.node}):
        yield Mutation("node instead of one that is gone", "", gone, data + const(gone, 1.0))
    yield from (found[list(EDITS).index(name) % len(found)] for found in unchanged.values())


@pytest.mark.parametrize("name", EDITS)
def test_a_wrong_edit_is_caught(name: str, both: Executor) -> None:
    """The audit refuses nearly all mutations; the others change a value of an output."""
    graph = original()
    result = EDITS[name](graph)
    found = list(chosen(name, read_chunks(graph.chunks()), result.intent.changed))
    assert len({mutation.kind for mutation in found}) > 25
    for mutation in found:
        with pytest.raises(ValidationError):
            check_accounted(graph, result, [mutation.data])
            both.load(EDITED, mutation.data)
            prove(both, Change(graph.pristine(), graph, result), Overrides())
            pytest.fail(f"nothing reports {mutation[:3]}", pytrace=False)


VALUES = "inputs swapped, another tensor, original, output, last bit, op, results swapped, arguments swapped".split(
    ", "
)
SHOWN = ("t/scaled", "t/difference", "t/scale", "sum", "turn", "outer", "apart", "less", "two", "u/scale")
"""Nodes and functions that outputs of the model show."""
ON_PURPOSE = frozenset(("reroute", "set-attr", "set-attr padding", "set-shape --fix-batch", "fuse-ops --xla"))
"""Edits that change values on purpose, or by rounding."""


@pytest.mark.parametrize("name", [name for name in EDITS if name not in ON_PURPOSE])
def test_a_wrong_value_is_found_by_running_only(name: str, both: Executor) -> None:
    """One mutation of each kind that changes a value of an output; the node differs between edits."""
    graph = original()
    result = EDITS[name](graph)
    result.asked = None
    shown = [m for m in mutations(read_chunks(graph.chunks())) if m.kind in VALUES and (m.where or m.node) in SHOWN]
    silent = [("op", "in"), ("inputs swapped", "t/scaled")]  # a stateful call, and a product
    silent += [(kind, "t/scale") for kind in VALUES if name.startswith("remove -")]
    groups = [[m for m in shown if m.kind == kind and (kind, m.node) not in silent] for kind in VALUES]
    for found in filter(None, groups):
        mutation = found[list(EDITS).index(name) % len(found)]
        both.load(EDITED, mutation.data)
        with pytest.raises(ValidationError) as error:
            prove(both, Change(graph.pristine(), graph, result), Overrides())
        assert error.value.code == "differs", mutation[:3]


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
    "Abs instead of Relu": folded(last="Abs"),
    "Relu6 instead of Relu": folded(last="Relu6"),
    "Elu instead of Relu": folded(last="Elu"),
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
    check_raised(ValidationError, "differs", lambda: proven(both, folding(WRONG_FOLDS[what])))
