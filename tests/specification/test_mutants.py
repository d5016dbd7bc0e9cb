"""The accounting refuses what edits write with a mistake in their code, before anything is run.

A mistake survives if the accounting accepts a result that differs from the right one. There are three kinds:

- The result is right in another way: other new names, an implied control edge more or less, commuted inputs of a
  product, a function copied that could be shared, less simplified.
- The result says less: a new placeholder has no shape.
- The result is wrong, and refused when it is loaded or run: values of new constants, shapes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from support.adding_gradients import small
from support.mutants import Accounted, Bench, check_share
from support.operating import operated

from gdsurgeon import edits
from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.runtime.evaluator import Differentiator
from specification.cases import CASES

FOLDER = Path(edits.__path__[0])
EDIT_MODULES = {
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if path.name != "__init__.py"
}

NOT_IN_CASES = """
    add_gradients change_signatures claims decorator freeze rename to_savedmodel
    downgrade.tensor_lists
""".split()
"""Modules of `edits` that the cases hardly run, or that other tests with mistakes cover."""
OTHERS = {
    "analysis.queries": "attr_text compatibility effects training usage",
    "analysis.traversal": "topology",
    "graph": "functions graph names writing",
    "wire": "node_record",
    "": "select",
}
MODULES = [
    *sorted(f"edits.{name}" for name in EDIT_MODULES if name not in NOT_IN_CASES),
    *(f"{package}.{name}".lstrip(".") for package, names in OTHERS.items() for name in names.split()),
]
LEAST = {
    "analysis.queries.usage": 0.95,
    "edits.inline": 0.65,
    "edits.downgrade.candidate": 0.65,
}
"""The least share of caught mistakes in modules in which many mistakes give another right result."""


def test_the_exceptions_exist() -> None:
    assert set(NOT_IN_CASES) < EDIT_MODULES


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_mistakes_are_caught(module: str, bench: Bench) -> None:
    check_share(bench, module, LEAST.get(module, 0.75))


def test_fewer_are_caught_without_the_specifications(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdsurgeon.proof.accounting.unasked", lambda *_: iter(()))
    with pytest.raises(AssertionError):
        check_share(bench, "edits.node_copies")


GRADIENTS = {
    "named": {"ys": ["y", "z"], "xs": ["x", "split:1"], "names": ["of_x", "of_split"]},
    "given": {"ys": ["y", "split:1"], "xs": ["x"], "grad_ys": ["g", "split"], "scope": "back"},
    "weights": {"ys": ["y"], "weights": True},
    "many": {"ys": ["y"], "xs": ["product", "sum", "w", "x"]},
}


@pytest.mark.slow
@pytest.mark.parametrize("module", ["edits.add_gradients", "gradients.backward_pass"])
def test_mistakes_in_gradients_are_caught(module: str, differentiator: Differentiator, tmp_path: Path) -> None:
    cases = {}
    for name, options in GRADIENTS.items():
        edit = partial(add_gradients, **options, differentiator=differentiator)
        cases[name] = Accounted(small().bytes(), edit, run=partial(operated, tmp_path, small(), edit))
    check_share(Bench(cases, seconds=1), module)
