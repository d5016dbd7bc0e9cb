"""The accounting refuses what edits write with a mistake in their code, before anything is run.

A mistake survives if the accounting accepts a result that differs from the right one. There are three kinds:

- The result is right in another way: other new names, an implied control edge more or less, commuted inputs of a
  product, a function copied that could be shared, less simplified.
- The result says less: a new placeholder has no shape.
- The result is wrong, and refused when it is loaded or run: values of new constants, shapes.
"""

from __future__ import annotations

import pytest
from support.mutants import Bench, check_share

from specification.cases import CASES

MODULES = [
    f"{package}.{name}".lstrip(".")
    for package, names in {
        "analysis.queries": "attr_text compatibility effects training usage",
        "analysis.traversal": "walks",
        "edits": "add_postprocessing add_preprocessing clone_scope cloning compat control_edges extract "
        "freeze_input functions fuse_ops import_graph inline insert node_copies parts quantize remove repair replacing "
        "reroute rewrite saver set_attr set_device set_shape simplify slim strip_weights",
        "edits.downgrade": "candidate control_flow forms",
        "edits.rewriting": "conditions matching planning rounds",
        "edits.simplifying": "batch_norms channels constants engines equal_nodes fold_sites folds functions graph_view "
        "paddings passes shapes stages",
        "graph": "functions graph names writing",
        "wire": "node_record",
        "": "select",
    }.items()
    for name in names.split()
]
LEAST = {
    "analysis.queries.usage": 0.95,
    "edits.inline": 0.65,
    "edits.downgrade.candidate": 0.65,
}
"""The least share of caught mistakes in modules in which many mistakes give another right result."""


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
