"""freeze: what cannot be frozen is refused, with the reason; and mistakes in freezing are found by its proof."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from support.desk import Desk, check_refused
from support.graphs import attrs
from support.meta_graphs import checkpoint, graph, meta_graph, put
from support.renaming import QUICK
from support.shipped import Shipped

from gdsurgeon.container import weights
from gdsurgeon.container.restoring import Key
from gdsurgeon.edits.functions import handles
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node

FREEZE = ("freeze", "model", *QUICK)


def test_a_constant_has_the_value_of_the_checkpoint(desk: Desk) -> None:
    put(desk.folder / "model")
    ran = desk.run(*FREEZE, "-o", "frozen.pb")
    assert ran.code == 0, ran.err
    data = (desk.folder / "frozen.pb").read_bytes()
    value = attrs(data, "w")["value"].tensor
    assert struct.unpack("<2f", value.tensor_content) == (1.5, 2.5)
    assert "1 variable" in ran.err


def test_a_meta_graph_and_its_checkpoint(desk: Desk) -> None:
    """Given by the prefix, by the .meta, with values from elsewhere."""
    desk.put("m-1.meta", meta_graph().SerializeToString())
    checkpoint(desk.folder, "m-1")
    for name in ("m-1", "m-1.meta"):
        assert desk.run("freeze", name, *QUICK, "-o", f"{name}.pb").code == 0
    assert (desk.folder / "m-1.pb").read_bytes() == (desk.folder / "m-1.meta.pb").read_bytes()
    desk.put("alone.meta", meta_graph().SerializeToString())
    words = ("alone.meta comes with no checkpoint", "1 variable", "--checkpoint")
    check_refused(desk, 4, words, "freeze", "alone.meta", *QUICK, "-o", "out.pb")
    assert desk.run("freeze", "alone.meta", "--checkpoint", "m-1", *QUICK, "-o", "out.pb").code == 0
    assert (desk.folder / "m-1.pb").read_bytes() == (desk.folder / "out.pb").read_bytes()


def test_no_checkpoint(desk: Desk) -> None:
    put(desk.folder / "model", values=False)
    check_refused(desk, 4, ("model comes with no checkpoint", "--checkpoint"), *FREEZE, "-o", "out.pb")
    check_refused(desk, 3, ("there is no checkpoint nothing",), *FREEZE, "--checkpoint", "nothing", "-o", "out.pb")


@pytest.mark.parametrize(
    ("key", "dtype", "count", "words"),
    [
        ("net/v", "float32", 2, ("has no tensor 'net/w'", "'w'", "Did you mean 'net/v'?")),
        ("net/w", "int32", 2, ("'w' is float32, and 'net/w' in the checkpoint is int32",)),
        ("net/w", "float32", 3, ("'w' is [2], and its value in the checkpoint [3]",)),
    ],
)
def test_a_checkpoint_that_does_not_fit(desk: Desk, key: str, dtype: str, count: int, words: tuple[str, ...]) -> None:
    put(desk.folder / "model", values=False)
    checkpoint(desk.folder / "model", "variables/variables", key, dtype, count)
    check_refused(desk, 4, words, *FREEZE, "-o", "out.pb")


def test_a_variable_that_is_not_restored(desk: Desk) -> None:
    put(desk.folder / "model", meta_graph(restored=False))
    check_refused(desk, 4, ("the variable 'w' is not restored",), *FREEZE, "-o", "out.pb")


def test_signatures(desk: Desk) -> None:
    model = meta_graph()
    del model.signature_def["sparse"], model.signature_def["ragged"]
    model.signature_def["by_name"].CopyFrom(model.signature_def["serving_default"])
    del model.signature_def["serving_default"]
    put(desk.folder / "model", model)
    assert desk.run(*FREEZE, "-o", "one.pb").code == 0
    words = ("no signature 'by_nam'", "Did you mean 'by_name'?")
    check_refused(desk, 3, words, *FREEZE, "--signature", "by_nam", "-o", "out.pb")
    model.signature_def["another"].CopyFrom(model.signature_def["by_name"])
    put(desk.folder / "two", model)
    words = ("several signatures: --signature says which", "'another', 'by_name'")
    check_refused(desk, 4, words, "freeze", "two", *QUICK, "-o", "out.pb")
    put(desk.folder / "none", meta_graph())
    check_refused(desk, 4, ("'z'",), "freeze", "none", "--outputs", "z", *QUICK, "-o", "out.pb")


def test_nothing_to_freeze(desk: Desk) -> None:
    put(desk.folder / "model")
    ran = desk.run(*FREEZE, "--outputs", "x", "-o", "out.pb")
    assert ran.code == 0
    assert "the outputs depend on no variable" in ran.err


def test_a_graph_without_variables_around_it(desk: Desk) -> None:
    desk.put("model.pb", graph())
    words = ("model.pb is a GraphDef of its own",)
    check_refused(desk, 4, words, "freeze", "model.pb", "--outputs", "y", *QUICK, "-o", "out.pb")


@pytest.mark.parametrize("cut", [1, 20])
def test_a_cut_checkpoint(desk: Desk, cut: int) -> None:
    put(desk.folder / "model")
    for name in ("index", "data-00000-of-00001"):
        path = desk.folder / "model" / "variables" / f"variables.{name}"
        whole = path.read_bytes()
        path.write_bytes(whole[:-cut])
        check_refused(desk, 3, ("variables",), *FREEZE, "-o", "out.pb")
        path.write_bytes(whole)


@pytest.mark.tensorflow
def test_a_variable_that_is_written(desk: Desk, saved_models: Shipped) -> None:
    words = ("AssignAddVariableOp", "writes to the variable 'count'")
    check_refused(desk, 4, words, "freeze", saved_models.path("several"), "--signature", "counted", "-o", "out.pb")


# -- mistakes ------------------------------------------------------------------------------------------------


def swapped(real: Any) -> Any:
    """Two variables of one shape get each other's values."""

    def weights_of(prefix: str, keys: dict[str, Key], wanted: Any) -> Any:
        a, b = sorted(keys)[:2]
        return real(prefix, {**keys, a: keys[b], b: keys[a]}, wanted)

    return weights_of


def other_slice(real: Any) -> Any:
    """The slices of a partitioned variable are taken from where the first is."""

    def weights_of(prefix: str, keys: dict[str, Key], wanted: Any) -> Any:
        first = {key.tensor: key for _, key in sorted(keys.items(), reverse=True)}
        return real(prefix, {name: first[key.tensor] for name, key in keys.items()}, wanted)

    return weights_of


def transposed_axis(real: Any) -> Any:
    def gather(graph: Graph, node: Node, held: Any) -> None:
        real(graph, node, held)
        graph.set_attr(graph[node.inputs[2].node.name], "value", attrs_of_one())

    return gather


def attrs_of_one() -> bytes:
    from gdsurgeon.graph.constants import tensor_value
    from gdsurgeon.ops.dtypes import INT32

    return bytes(tensor_value(INT32, (), [1]).SerializeToString())


def negated(real: Any) -> Any:
    def read(graph: Graph, node: Node, held: Any) -> None:
        real(graph, node, held)
        graph.set_op(node, "Neg")

    return read


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "module", "place", "mistake"),
    [
        ("branches", weights, "weights", swapped),
        ("part_ref", weights, "weights", other_slice),
        ("part_resource", weights, "weights", other_slice),
        ("embedding", handles, "ResourceGather", transposed_axis),
        ("dense", handles, "ReadVariableOp", negated),
    ],
)
def test_a_mistake_is_found_by_the_proof(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    saved_models: Shipped,
    name: str,
    module: Any,
    place: str,
    mistake: Any,
) -> None:
    if module is handles:
        monkeypatch.setitem(handles._CONVERSIONS, place, mistake(handles._CONVERSIONS[place]))  # type: ignore[arg-type]
    else:
        monkeypatch.setattr(module, place, mistake(getattr(module, place)))
    ran = desk.run("freeze", saved_models.path(name), "-o", "out.pb")
    assert ran.code == 5, ran.err
    assert desk.files() == {}
