"""clone-scope on a MetaGraph: changes in its graph, around it, and in its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import cloned_models, graphs
from support.aside import Aside
from support.cloned_models import CHECKPOINTS, CLONE, PREFIX, SAID, SERVED, SOURCE, TARGET
from support.cloning import texts
from support.desk import check_error
from support.graphs import STRING, dtypes, graph_bytes, identity, node, placeholder, tensor, typed
from support.spoiling import Spoil, reads, spoilt
from support.trained_model import VARIABLES, opened, put

import gdsurgeon as gds
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.errors import EditError, GdsurgeonError, OutputError, UsageError, ValidationError
from gdsurgeon.graph.attrs import string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.operation.edit import Outcome, Request, operate
from gdsurgeon.wire import output
from gdsurgeon.wire.protos import MetaGraphDef, message

COPIES = {"copy/v": "net/v", "copy/of_old/w": "of_old/w"}
"""The new keys, with those of the originals."""


def clone(graph: Graph) -> EditResult:
    return clone_scope(graph, "net", "copy")


def written(model: Path, out: Path | None = None, **how: Any) -> Outcome:
    return operate(Request(str(model), None if out is None else str(out), level="structure", **how), clone)


def not_written(
    model: Path, error: type[GdsurgeonError], code: str, edit: Any = clone, out: str = "out.meta", **facts: Any
) -> None:
    """The operation ends with the error, and the folder of MODEL is as it was."""
    before = listing(model.parent)
    path, level = out if out == "-" else str(model.parent / out), "run" if code == "differs" else "structure"
    with pytest.raises(error) as caught:
        operate(Request(str(model), path, level=level), edit)
    check_error(caught.value, code, facts)
    assert listing(model.parent) == before


def read(path: Path) -> Any:
    return MetaGraphDef.FromString(path.read_bytes())


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- the graph ---------------------------------------------------------------------------------------------


def test_the_saver_saves_and_restores_the_clones() -> None:
    graph = opened()
    clone(graph)
    inputs = graphs.inputs(graph)
    assert inputs["save/SaveV2"][3:] == [*VARIABLES, "copy/v", "copy/w"]
    restored = [("copy/save/Assign_0", "copy/v", 4), ("copy/save/Assign_2", "copy/w", 5)]
    assigned = {name: [variable, f"save/RestoreV2:{number}"] for name, variable, number in restored}
    assert assigned.items() <= inputs.items() and inputs["save/restore_shard"][-2:] == [f"^{name}" for name in assigned]
    for op in ("SaveV2", "RestoreV2"):
        assert texts(graph, f"save/{op}/names")[-2:] == [key.encode() for key in COPIES]
        assert texts(graph, f"save/{op}/slices") == [b"2 0,2", b"", b"", b"", b"2 0,2", b""]
        assert len(graphs.attrs(graph, f"save/{op}")["dtypes"].list.type) == 6
        assert not graph[f"save/{op}/names"].has_attr("_output_shapes")


def test_slots_and_what_needs_them_stay() -> None:
    graph = opened()
    result = clone(graph)
    names = set(graph.names())
    slot = "v/Momentum"
    gone = [slot, f"{slot}/read", f"{slot}/initial", f"{slot}/Assign", "train", "train_w", "gradient_of_w"]
    assert names.isdisjoint(f"copy/{name}" for name in gone)
    assert graphs.inputs(graph)["copy/init"] == ["^copy/v/Assign", "^copy/w/Assign"]
    assert graphs.inputs(graph)["init"][-2:] == ["^copy/v/Assign", "^copy/w/Assign"]
    assert graphs.inputs(graph)["follow"] == ["^follow/Assign"]  # it is no initialiser
    slots = ["net/v/Momentum", "net/w/Momentum"]
    assert {"code": "slots-not-cloned", "nodes": slots} in [note.as_json() for note in result.notes]


def test_slots_are_cloned_where_that_is_asked() -> None:
    graph = opened()
    clone_scope(graph, "net", "copy", with_slots=True)
    inputs = graphs.inputs(graph)
    assert inputs["copy/train_w"] == ["copy/w", "copy/w/Momentum", "copy/rate", "copy/gradient_of_w", "copy/rate"]
    assert inputs["save/SaveV2"][3:] == [*VARIABLES, *(name.replace("net", "copy") for name in VARIABLES)]


def test_a_key_that_the_saver_has_is_not_taken_twice() -> None:
    graph = opened()
    clone(graph)
    clone_scope(graph, "copy", "net/again")
    keys = texts(graph, "save/RestoreV2/names")
    assert len(set(keys)) == len(keys) == 8


def test_a_graph_of_its_own_keeps_its_saver() -> None:
    """No checkpoint is known to have the keys: the clone is initialised, and not restored from the original's keys."""
    result = clone(from_bytes(graphs.written(opened())))
    assert result.intent.changed == []
    assert not [name for name in result.intent.added if name.startswith("copy/save")]


def test_an_initialiser_that_restores_is_cloned() -> None:
    """What tf.compat.v1.train.init_from_checkpoint makes: it reads a file that no saver writes."""

    def text(name: str, value: str, shape: tuple[int, ...] | None = None) -> bytes:
        return node(name, "Const", dtype=STRING, value=tensor([value], STRING, shape))

    found = from_bytes(graph_bytes(
        placeholder("x", graphs.FLOAT, (2,)), node("net/w", "VariableV2", dtype=graphs.FLOAT, shape=(2,)),
        text("from", "other.ckpt", ()), text("from/names", "w"), text("from/slices", ""),
        node("from/restore", "RestoreV2", ["from", "from/names", "from/slices"], dtypes=dtypes(graphs.FLOAT)),
        typed("Assign", "net/w/Assign", "net/w", "from/restore"), identity("net/read", "net/w"),
        typed("Mul", "net/y", "x", "net/read"),
    ))  # fmt: skip
    clone(found)
    assert graphs.inputs(found)["copy/w/Assign"] == ["copy/w", "from/restore"]


# -- around the graph --------------------------------------------------------------------------------------


def test_in_place_the_index_is_exchanged_and_kept(tmp_path: Path) -> None:
    before = listing(put(tmp_path).parent)
    written(tmp_path / "model.meta", in_place=True, backup=".bak")
    after = listing(tmp_path)
    assert set(after) == {*before, "model.meta.bak", "model.index.bak"}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"model.meta", "model.index"}
    assert {name: after[f"{name}.bak"] for name in changed} == {name: before[name] for name in changed}
    with open_checkpoint(str(tmp_path / "model")) as found:
        assert {*COPIES} <= set(found.keys)


def test_nothing_is_written_on_a_dry_run_or_where_something_is_in_the_way(tmp_path: Path) -> None:
    model = put(tmp_path)
    before = listing(tmp_path)
    written(model, tmp_path / "out.meta", dry_run=True)
    for out in ("out.pb", "-"):
        not_written(model, UsageError, "bad-name", out=out, expected="NAME.meta")
    assert listing(tmp_path) == before
    (tmp_path / "out.index").write_bytes(b"of another")
    not_written(model, OutputError, "not-replaceable")
    assert listing(tmp_path) == {**before, "out.index": b"of another"}


@pytest.mark.parametrize("in_place", [False, True])
def test_neither_appears_where_one_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool) -> None:
    """The MetaGraph is the last to get its name."""
    import os

    model = put(tmp_path)
    before = listing(tmp_path)

    def failing(work: Callable[[str, str], object]) -> Callable[[str, str], object]:
        def fail(source: str, target: str) -> object:
            if target.endswith(".meta"):
                raise OSError(5, "the disk is full")
            return work(source, target)

        return fail

    monkeypatch.setattr(os, "replace", failing(os.replace))
    monkeypatch.setattr(output, "exchange_names", failing(output.exchange_names))
    with pytest.raises(OutputError):
        written(model, None if in_place else tmp_path / "out.meta", in_place=in_place)
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("keys", "code", "key"),
    [([*VARIABLES.values(), "copy/v"], "name-taken", "copy/v"), (["net/v"], "no-such-tensor", "of_old/w")],
)
def test_a_checkpoint_with_other_keys(tmp_path: Path, keys: list[str], code: str, key: str) -> None:
    not_written(put(tmp_path, keys), EditError, code, key=key)


def in_a_folder(folder: Path) -> Path:
    """The same as a SavedModel."""
    meta = put(folder)
    model = folder / "model"
    (model / "variables").mkdir(parents=True)
    for path in folder.glob("model.*"):
        if path != meta:
            path.rename(model / "variables" / path.name.replace("model", "variables"))
    saved = message("tensorflow.SavedModel")(saved_model_schema_version=1, meta_graphs=[read(meta)])
    (model / "saved_model.pb").write_bytes(saved.SerializeToString())
    meta.unlink()
    return model


@pytest.mark.parametrize("in_place", [False, True])
def test_a_saved_model_gets_another_index(tmp_path: Path, in_place: bool) -> None:
    model = in_a_folder(tmp_path)
    before = listing(model / "variables")
    out, kept = (model, tmp_path / "model.bak") if in_place else (tmp_path / "out", model)
    written(model, None if in_place else out, in_place=in_place, backup=".bak" if in_place else None)
    after = listing(out / "variables")
    assert before.keys() == after.keys() and listing(kept / "variables") == before
    assert {name for name in before if before[name] != after[name]} == {"variables.index"}
    with open_checkpoint(str(out / "variables" / "variables")) as found:
        assert {*COPIES} <= set(found.keys)


@pytest.mark.tensorflow
def test_the_library_proves_it(tmp_path: Path) -> None:
    graph = gds.load(str(put(tmp_path)))
    proof = gds.prove(graph.pristine(), graph, clone(graph))
    assert proof.statement == "edited(x) == original(x), copy(x) == net(x), net and copy have separate variables"


# -- mistakes around the graph -----------------------------------------------------------------------------


def _not_restored(graph: Graph, _: EditResult) -> None:
    shard = graph["save/restore_shard"]
    graph.set_controls(shard, [control for control in shard.controls if control.name != "copy/save/Assign_2"])


def _key_missing(graph: Graph, _: EditResult) -> None:
    assert graph.serving is not None
    (copied,) = graph.serving.copies
    graph.serving = graph.serving._replace(copies=(copied._replace(keys={"copy/v": "net/v"}),))


def _sharing(graph: Graph, _: EditResult) -> None:
    """With a name for the originals, which ref variables have not: the proof has it run."""
    for name in ("net/w", "copy/w"):
        graph.set_attr(graph[name], "shared_name", string_value("w").SerializeToString())


RESTORED = {"code": "wrong-key", "variable": "copy/v", "key": "net/v", "original": "net/v", "expected": "net/v"}
NOT_RESTORED = {"code": "wrong-key", "variable": "copy/w", "key": None, "original": "net/w", "expected": "of_old/w"}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("spoil", "code", "facts"),
    [
        (reads("copy/save/Assign_0", 1, "save/RestoreV2"), "unsound-graph", {"faults": [RESTORED]}),
        (_not_restored, "unsound-graph", {"faults": [NOT_RESTORED]}),
        (_key_missing, "unsound-graph", {"faults": [{**NOT_RESTORED, "key": "copy/of_old/w"}]}),
        (_sharing, "differs", {"tensors": ["copy/w/read", "copy/y", "net/w/read", "net/y"]}),
        (reads("copy/w/read", 0, "net/w"), "differs", {"tensors": ["copy/w/read", "copy/y"]}),
    ],
)
def test_a_mistake_around_the_graph_is_found(tmp_path: Path, spoil: Spoil, code: str, facts: dict[str, Any]) -> None:
    """That a copy shares a variable is found by running it."""
    not_written(put(tmp_path), ValidationError, code, spoilt(clone, spoil), **facts)


def cloned(folder: Path, name: str) -> Outcome:
    is_folder = name == SERVED
    model = folder / name if is_folder else folder / name / f"{PREFIX}.meta"
    out = folder / name / (CLONE if is_folder else f"{CLONE}.meta")
    if is_folder:  # no model is written into its own folder
        model = model.rename(folder / "original")
        out.parent.mkdir()
    return operate(Request(str(model), str(out)), lambda graph: clone_scope(graph, SOURCE, TARGET))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Outcome, str]]:
    """The proof of each clone of a model trained by TensorFlow 1, and the faults found by further training."""
    folder = tmp_path_factory.mktemp("cloned_models")
    with Aside(cloned_models.__name__) as trainer:
        trainer.ask("make", folder=str(folder))
        found = {name: cloned(folder, name) for name in (*CHECKPOINTS, SERVED)}
        trainer.ask("try", folder=str(folder))
    return {name: (outcome, (folder / name / SAID).read_text()) for name, outcome in found.items()}


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", [*CHECKPOINTS, SERVED])
def test_a_clone_is_proven_and_trains_in_tensorflow(outcomes: dict[str, tuple[Outcome, str]], name: str) -> None:
    """It gives the same at first; two steps on the one leave the other; both are saved, restored and initialised."""
    outcome, said = outcomes[name]
    assert outcome.proof.statement == (
        "edited(x) == original(x), copy(x) == net(x), net and copy have separate variables"
    )
    last = "Sum" if name == "trained_inside" else "out"  # there the loss reads what the network gives
    mine, its = f"{SOURCE}/{last}", f"{TARGET}/{last}"
    assert {(mine, its), (mine, mine), (its, its)} <= {(each.before, each.after) for each in outcome.proof.compared}
    assert said == ""
