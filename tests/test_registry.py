"""The registry: its names exist, and all public names are in it."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import click
import pytest

import gdsurgeon
from gdsurgeon import registry
from gdsurgeon.registry import COMMANDS, HOMES, PACKAGES


def command_of(name: str) -> click.Command:
    command = import_module(f"gdsurgeon.cli.{name.replace('-', '_')}").command
    assert isinstance(command, click.Command)
    return command


def test_every_module_of_a_command_has_an_entry() -> None:
    folder = Path(gdsurgeon.__file__).parent / "cli"
    commands = {path.stem for path in folder.glob("*.py") if "\ndef command(" in path.read_text()}
    assert commands == {name.replace("-", "_") for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_summary(name: str) -> None:
    command, summary = command_of(name), COMMANDS[name].help
    assert command.name == name and (command.help or "").split("\n")[0] == summary
    assert summary[0].isupper() and summary.endswith(".") and len(summary) <= 60


@pytest.mark.parametrize("name", HOMES)
def test_a_public_name_is_where_its_home_says(name: str) -> None:
    assert getattr(gdsurgeon, name) is getattr(import_module(f"gdsurgeon.{HOMES[name]}"), name)


def test_type_checkers_see_the_names_that_there_are() -> None:
    """They do not run the registry: its imports for them are the homes."""
    tree = ast.parse(Path(registry.__file__).read_text())
    block = next(item for item in tree.body if isinstance(item, ast.If))
    imports = [item for item in block.body if isinstance(item, ast.ImportFrom)]
    seen = {alias.asname: str(item.module).removeprefix("gdsurgeon.") for item in imports for alias in item.names}
    assert seen == {**HOMES, **dict.fromkeys(PACKAGES, "gdsurgeon")}
    assert sorted(seen) == gdsurgeon.__all__


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = gdsurgeon.nonsense
    assert {"rename", "graph_editor", "__version__"} <= set(dir(gdsurgeon))
