"""The accounting, or the proof by execution, refuses gradients with a mistake in the code of add-gradients."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from support.adding_gradients import small
from support.mutants import Accounted, Bench, check_share
from support.operating import operated

from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.runtime.evaluator import Differentiator

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

OPTIONS = {
    "named": {"ys": ["y", "z"], "xs": ["x", "split:1"], "names": ["of_x", "of_split"]},
    "given": {"ys": ["y", "split:1"], "xs": ["x"], "grad_ys": ["g", "split"], "scope": "back"},
    "weights": {"ys": ["y"], "weights": True},
    "many": {"ys": ["y"], "xs": ["product", "sum", "w", "x"]},
}


@pytest.mark.parametrize("module", ["edits.add_gradients", "gradients.backward_pass", "gradients.request"])
def test_mistakes_are_caught(module: str, differentiator: Differentiator, tmp_path: Path) -> None:
    cases = {}
    for name, options in OPTIONS.items():
        edit = partial(add_gradients, **options, differentiator=differentiator)
        cases[name] = Accounted(small().bytes(), edit, run=partial(operated, tmp_path, small(), edit))
    check_share(Bench(cases, seconds=1), module)
