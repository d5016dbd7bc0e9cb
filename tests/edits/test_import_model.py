"""import of a SavedModel: its variables become constants, and its signatures are those of the result as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import loaders
from support.desk import Desk
from support.graphs import FLOAT, add, const, graph_bytes, identity, node, placeholder
from support.meta_graphs import meta_graph, put, read
from support.renaming import QUICK
from support.shipped import Shipped

from gdsurgeon.container.load import load
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.errors import Remark

X = np.array([[2.0, -3.0]], np.float32)
W = np.array([1.5, 2.5])


@pytest.fixture(autouse=True)
def _put(desk: Desk) -> None:
    """y = w x, twice, where w is a variable with a checkpoint."""
    for name, at in (("model", ""), ("other", "net/")):
        records = [placeholder(f"{at}x", FLOAT, (-1, 2)), const(f"{at}w", W), add(f"{at}unused", f"{at}y", f"{at}y")]
        product = node(f"{at}y", "Mul", [f"{at}x", f"{at}w"], T=FLOAT)
        desk.put(f"{name}.pb", graph_bytes(*records[:2], product, records[2]))
        ends = (f"--inputs=x={at}x", f"--outputs=y={at}y", "--unfreeze=w$")
        assert desk.run("to-savedmodel", f"{name}.pb", *ends, *QUICK, "-o", name).code == 0


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("options", "key", "inputs", "output", "expected"),
    [
        (("--prefix", "o"), "o_serving_default", {"x": "o/net/x"}, "o/net/y", X * W),
        ((), "serving_default_1", {"x": "net/x"}, "net/y", X * W),
        (("--prefix", "a/b"), "a_b_serving_default", {"x": "a/b/net/x"}, "a/b/net/y", X * W),
        (("--prefix", "o", "--map", "y=net/x"), "o_serving_default", {"x": "x"}, "o/net/y", X * W * W),
        (("--prefix", "o", "--map", "unused=net/x"), "o_serving_default", {"x": "x"}, "o/net/y", 2 * X * W * W),
    ],
)
def test_signatures_and_values(
    desk: Desk, tf: Any, options: tuple[str, ...], key: str, inputs: dict[str, str], output: str, expected: np.ndarray
) -> None:
    ran = desk.run("import", "model", "other", *options, "-o", "out")
    assert ran.code == 0, ran.err
    found = load(str(desk.folder / "out"))
    assert found.serving is not None
    assert found.serving.called.keys() == {"serving_default", key}
    assert (dict(found.serving.called[key].inputs), dict(found.serving.called[key].outputs)) == (inputs, {"y": output})
    assert sum(node.op == "VarHandleOp" for node in found.nodes()) == 1, "the other one is a constant"
    assert read(desk.folder / "out").meta_graphs[0].signature_def[key].method_name == "tensorflow/serving/predict"
    for way in loaders.ALL:
        assert way(tf, str(desk.folder / "out"), key, {"x": X}) == {"y": expected.tolist()}, way
        assert way(tf, str(desk.folder / "out"), "serving_default", {"x": X}) == {"y": (X * W).tolist()}, way


@pytest.mark.tensorflow
def test_tables_that_a_loader_initialises(desk: Desk, tf: Any, saved_models: Shipped) -> None:
    """A model with a table is imported into a GraphDef, of which a model can be made, but not into a model."""
    other, recorded = saved_models.path("table1"), saved_models.recorded("table1")
    desk.refused(4, "not-initialized", "import", "model", other, "--prefix", "o", "-o", "out")
    assert desk.run("import", "model.pb", other, "--prefix", "o", *QUICK, "-o", "out.pb").code == 0
    notes = [note for note in import_graph(load("model.pb"), load(other), scope="o").notes if isinstance(note, Remark)]
    (note,) = [note for note in notes if note.code == "run-before"]
    (init,), ((tensor, path),) = note.facts["nodes"], note.facts["feeds"].items()  # type: ignore[union-attr, misc]
    run = ("--init", str(init), "--asset", f"{tensor}={path}")
    made = desk.run("to-savedmodel", "out.pb", "--inputs=words=o/words", "--outputs=e=o/out", *run, *QUICK, "-o", "out")
    assert made.code == 0, made.err
    for way in loaders.ALL:
        assert way(tf, "out", "serving_default", recorded.inputs)["e"] == recorded.outputs["e"].tolist()


@pytest.mark.parametrize("gone", [("sparse", "ragged"), ("sparse",)])
def test_signatures_that_cannot_be_given_are_named(desk: Desk, gone: tuple[str, ...]) -> None:
    """They return nothing, or a ragged tensor."""
    meta = meta_graph(lambda name: f"net/{name}")
    for key in {"sparse", "ragged"} - {*gone}:
        del meta.signature_def[key]
    put(desk.folder / "third", meta)
    found = load(str(desk.folder / "model"))
    result = import_graph(found, load(str(desk.folder / "third")), scope="o")
    left = [note for note in result.notes if isinstance(note, Remark) and note.code == "no-signature"]
    assert {note.facts["signature"] for note in left} == {*gone}
    assert found.serving is not None and "o_serving_default" in found.serving.called


@pytest.mark.tensorflow
def test_into_a_graph(desk: Desk) -> None:
    """A GraphDef has no place for signatures, and none for a checkpoint."""
    desk.put("m.pb", graph_bytes(placeholder("a", FLOAT, ()), identity("b", "a")))
    ran = desk.run("import", "m.pb", "other", "--prefix", "o", "-o", "out.pb")
    assert ran.code == 0, ran.err
    found = load(str(desk.folder / "out.pb"))
    assert {"VarHandleOp", "RestoreV2"}.isdisjoint(node.op for node in found.nodes())
    desk.put("s.gds", b"import other --prefix o\nrename b=c\n")
    assert desk.run("apply", "m.pb", "s.gds", "-o", "again.pb").code == 0
