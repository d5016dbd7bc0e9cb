"""While TensorFlow is busy the differences are accounted for; what is wrong then is told of after what runs show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import FLOAT, graph, identity, node, placeholder

from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.operation import proving
from gdsurgeon.operation.proving import Proving
from gdsurgeon.proof import prove as module
from gdsurgeon.proof.change import Step
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import Trial

WRONG = ValidationError("more is different than was said")
NOT_RUN = NotValidatedError("it cannot be run here")


def proven(monkeypatch: pytest.MonkeyPatch, found: GdsurgeonError | None, run: Callable[[], Proof]) -> list[str]:
    """What is done, in order, where the accounting has FOUND something and the graphs are RUN so."""
    done: list[str] = []

    def tried(*_: Any) -> Trial:
        done.append("run")
        trial = Trial(Executor(Settings()), "", [], [], {})
        trial.proof = run()
        return trial

    def accounted(*_: Any) -> GdsurgeonError | None:
        done.append("accounted for")
        return found

    monkeypatch.setattr(Executor, "load_bytes", lambda *_: done.append("loading"))
    monkeypatch.setattr(Executor, "check_device", lambda _: "CPU")
    monkeypatch.setattr(module, "_proven", tried)
    monkeypatch.setattr(module, "finish", lambda *_: None)
    monkeypatch.setattr(proving, "_unaccounted", accounted)
    model = graph(placeholder("x", FLOAT, (2,)), identity("a", "x"), node("y", "Neg", ["a"], T=FLOAT))
    result = rename(model, [("a", "b")])
    steps = [Step(model.pristine(), model, result)]
    Proving(Settings(), Overrides(), "run").prove(steps, model.chunks(), b"")
    return done


def failing(error: GdsurgeonError) -> Callable[[], Proof]:
    def run() -> Proof:
        raise error

    return run


def test_it_is_accounted_for_once_and_before_anything_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proven(monkeypatch, None, lambda: Proof("run")) == ["loading", "accounted for", "run"]


@pytest.mark.parametrize(
    ("found", "run", "told"),
    [
        (WRONG, lambda: Proof("run"), WRONG),
        (WRONG, failing(NOT_RUN), WRONG),
        (None, failing(NOT_RUN), NOT_RUN),
        (WRONG, failing(differs := ValidationError("the result differs")), differs),
    ],
)
def test_what_a_run_shows_is_told_of_first(
    found: GdsurgeonError | None, run: Callable[[], Proof], told: GdsurgeonError, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GdsurgeonError) as error:
        proven(monkeypatch, found, run)
    assert error.value is told
