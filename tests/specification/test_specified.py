"""Every edit is decorated and has a specification that takes what the edit takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature, unwrap
from pathlib import Path

import pytest

from gdsurgeon import edits, specification
from gdsurgeon.registry import COMMANDS, HOMES
from gdsurgeon.specification.specify import specification_of

EDITS = {entry.function for entry in COMMANDS.values() if HOMES.get(entry.function, "").startswith("edits.")}

STAGES = {
    "fold_batch_norms",
    "decide_calls",
    "fold_constants",
    "same_shape",
    "simplify_bodies",
    "spelt_constants",
    "lower_control_flow",
}
"""The stages of edits that have a specification of their own."""


def test_every_edit_says_what_was_asked_of_it() -> None:
    texts = [path.read_text() for path in Path(edits.__path__[0]).glob("*.py")]
    assert {name for text in texts for name in re.findall(r"\n@edit\(.*\)\ndef (\w+)\(", text)} == EDITS
    assert {name for name in EDITS if unwrap(function(name)) is not function(name)} == EDITS


def test_every_edit_has_a_specification() -> None:
    names = {path.stem for path in Path(specification.__path__[0]).glob("[a-z]*.py")}
    assert {name for name in {*names, *EDITS} if specification_of(name)} == EDITS | STAGES | {"simplify_stages"}
    assert specification_of("edit_of_a_plugin") is None


def function(name: str) -> Callable[..., object]:
    found: Callable[..., object] = getattr(import_module(f"gdsurgeon.{HOMES[name]}"), name)
    return found


@pytest.mark.parametrize("name", sorted(EDITS))
def test_a_specification_takes_what_its_edit_takes(name: str) -> None:
    """By keyword alone it is told what the edit has decided."""
    asked = {item.name: item.default for item in parameters(function(name))}
    stated = specification_of(name)
    assert stated is not None
    found = parameters(stated)
    decided = (Parameter.VAR_KEYWORD, Parameter.KEYWORD_ONLY)
    taken = {item.name: item.default for item in found if item.kind not in decided}
    takes_more = any(item.kind is Parameter.VAR_KEYWORD for item in found)
    assert taken.items() <= asked.items() and (takes_more or taken == asked)


def parameters(item: Callable[..., object]) -> list[Parameter]:
    """The parameters of an edit besides the graph, or of a specification besides the comparison."""
    return list(signature(item).parameters.values())[1:]
