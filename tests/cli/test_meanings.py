"""The names of options: each has one meaning in all commands."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from gdsurgeon.cli.main import main
from gdsurgeon.cli.options import MEANINGS
from gdsurgeon.registry import COMMANDS


def options() -> Iterator[tuple[str, click.Option]]:
    """Each option of each command, with its command."""
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        yield from ((name, each) for each in command.params if isinstance(each, click.Option))


@pytest.mark.parametrize("long_name", [*MEANINGS])
def test_an_option_has_one_meaning(long_name: str) -> None:
    meaning = MEANINGS[long_name]
    found = {name: each for name, each in options() if long_name in each.opts}
    assert found, "no command has this option"
    for name, each in found.items():
        assert each.is_flag == (meaning.type is None), name
        if not each.is_flag:
            assert (each.metavar or "", each.multiple) == (meaning.metavar, meaning.multiple), name
            choices = each.type.choices if isinstance(each.type, click.Choice) else ()
            assert set(choices) <= set(meaning.choices) and bool(choices) == bool(meaning.choices), name
            assert choices or repr(each.type) == repr(meaning.type), name
        assert each.help and "\n" not in each.help and len(each.help) <= 78 + len("  [default: none]"), (
            name,
            each.help,
        )
    short = {opt for each in found.values() for opt in each.opts if not opt.startswith("--")}
    assert len(short) <= 1, short


def test_every_option_has_a_meaning() -> None:
    unknown = [(name, opt) for name, each in options() for opt in each.opts if opt[:2] == "--" and opt not in MEANINGS]
    assert not unknown
    assert all(meaning.text.endswith((".", "]", ")")) for meaning in MEANINGS.values())
