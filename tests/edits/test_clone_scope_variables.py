"""clone-scope on what TensorFlow 1 has trained and saved: proven, and then restored and trained by TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import cloned_models
from support.aside import Aside
from support.cloned_models import CHECKPOINTS, CLONE, PREFIX, SAID, SERVED, SOURCE, TARGET

from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.operation.edit import Outcome, Request, operate

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


@pytest.fixture(scope="module")
def trainer() -> Iterator[Aside]:
    with Aside(cloned_models.__name__) as process:
        yield process


@pytest.fixture(scope="module")
def models(trainer: Aside, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cloned_models")
    trainer.ask("make", folder=str(folder))
    return folder


def cloned(folder: Path, name: str) -> Outcome:
    is_folder = name == SERVED
    model = folder / name if is_folder else folder / name / f"{PREFIX}.meta"
    out = folder / name / (CLONE if is_folder else f"{CLONE}.meta")
    if is_folder:  # no model is written into its own folder
        model = model.rename(folder / "original")
        out.parent.mkdir()
    return operate(Request(str(model), str(out)), lambda graph: clone_scope(graph, SOURCE, TARGET))


@pytest.fixture(scope="module")
def outcomes(trainer: Aside, models: Path) -> dict[str, Outcome]:
    found = {name: cloned(models, name) for name in (*CHECKPOINTS, SERVED)}
    trainer.ask("try", folder=str(models))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CHECKPOINTS, SERVED])
def test_a_clone_is_proven_and_trains_in_tensorflow(models: Path, outcomes: dict[str, Outcome], name: str) -> None:
    """It gives the same at first; two steps on the one leave the other; both are saved, restored and initialised."""
    assert outcomes[name].proof.statement == "edited(x) = original(x), copy(x) = net(x), net and copy apart"
    last = "Sum" if name == "trained_inside" else "out"  # there the loss reads what the network gives
    mine, its = f"{SOURCE}/{last}", f"{TARGET}/{last}"
    compared = {(output.before, output.after) for output in outcomes[name].proof.compared}
    assert {(mine, its), (mine, mine), (its, its)} <= compared
    assert (models / name / SAID).read_text() == ""
