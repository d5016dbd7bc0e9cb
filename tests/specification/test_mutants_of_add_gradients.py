"""Mistakes planted in add-gradients: found before anything is run, and the last ones by what the gradients come to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.adding_gradients import small
from support.mutants import Mutant, check_caught, planted
from support.operating import operated

from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.differentiation.differentiator import Differentiator

pytestmark = pytest.mark.tensorflow

EDIT, REQUEST, PASS = "edits.add_gradients", "gradients.request", "gradients.backward_pass"

NAMED = {"ys": ["y", "z"], "xs": ["x", "split:1"], "names": ["of_x", "of_split"]}
GIVEN = {"ys": ["y", "split:1"], "xs": ["x"], "grad_ys": ["g", "split"], "scope": "back"}
WEIGHTS = {"ys": ["y"], "weights": True}


def added(options: dict[str, Any], differentiator: Differentiator) -> tuple[Graph, EditResult]:
    found = from_bytes(small().bytes(), "model.pb")
    return found, add_gradients(found, **options, differentiator=differentiator)


def mutant(mistake: str, module: str, old: str, new: str, options: dict[str, Any]) -> tuple[Mutant, dict[str, Any]]:
    def none() -> tuple[Graph, EditResult]:
        raise NotImplementedError

    return Mutant(mistake, module, old, new, none), options


MUTANTS = [
    mutant("--grad-ys is not looked at", EDIT, "tensors_named(graph, ys, xs, grad_ys)",
           "tensors_named(graph, ys, xs, ())", GIVEN),
    mutant("--grad-ys is not looked at by the backward pass", PASS, "Derivation(ys, xs, grad_ys, wanted.scope)",
           "Derivation(ys, xs, (), wanted.scope)", GIVEN),
    mutant("gradients that come in are given to each other's targets", EDIT, "tensors_named(graph, ys, xs, grad_ys)",
           "tensors_named(graph, ys, xs, grad_ys[::-1])", GIVEN),
    mutant("only the first target is differentiated", EDIT, "tensors_named(graph, ys, xs, grad_ys)",
           "tensors_named(graph, ys[:1], xs, grad_ys[:1])", GIVEN),
    mutant("the first target is differentiated twice", PASS, "Derivation(ys, xs, grad_ys, wanted.scope)",
           "Derivation((ys[0],) * len(ys), xs, grad_ys[:1] * len(ys), wanted.scope)", GIVEN),
    mutant("--weights leaves the first weight out", REQUEST,
           "further = [tensor for tensor in read.constants if tensor not in known]",
           "further = [tensor for tensor in read.constants if tensor not in known][1:]", WEIGHTS),
    mutant("zeros where there is a gradient", PASS, "op = \"Identity\" if tensor is not None else \"ZerosLike\"",
           "op, tensor = \"ZerosLike\", None", NAMED),
    mutant("the scope is not looked at", EDIT, "scope=scope, names=names)", "scope='', names=names)", GIVEN),
    mutant("a target itself is the gradient of all", PASS, "input=[tensor or source.name])", "input=[source.name])",
           NAMED),
]  # fmt: skip

BY_VALUE = [
    mutant("names are given to each other's results", EDIT, "scope=scope, names=names)",
           "scope=scope, names=names[::-1])", NAMED),
    mutant("sources are exchanged", EDIT, "tensors_named(graph, ys, xs, grad_ys)",
           "tensors_named(graph, ys, xs[::-1], grad_ys)", NAMED),
    mutant("results get each other's names", PASS, "_results(wanted, [found.results[i] for i in kept])",
           "_results(wanted, [found.results[i] for i in kept][::-1])",
           {"ys": ["y"], "xs": ["product", "sum", "w", "x"]}),
    mutant("output 0 is read of all", "edits.copying.graft",
           "[Output(graph[name], index) for name, index in read.data]",
           "[Output(graph[name], 0) for name, index in read.data]", WEIGHTS),
]  # fmt: skip


@pytest.mark.parametrize(("found", "options"), MUTANTS, ids=[found.mistake for found, _ in MUTANTS])
def test_a_mistake_is_found(found: Mutant, options: dict[str, Any], differentiator: Differentiator) -> None:
    check_caught(found._replace(case=partial(added, options, differentiator)))


@pytest.mark.parametrize(("found", "options"), BY_VALUE, ids=[found.mistake for found, _ in BY_VALUE])
def test_a_mistake_is_found_by_the_values(
    found: Mutant, options: dict[str, Any], differentiator: Differentiator, tmp_path: Path
) -> None:
    edit: Callable[[Graph], EditResult] = partial(add_gradients, **options, differentiator=differentiator)
    assert operated(tmp_path, small(), edit).proof.compared
    with planted(found), pytest.raises(ValidationError):
        operated(tmp_path, small(), edit)
