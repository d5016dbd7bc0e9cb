"""The options that name what a signature takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from gdsurgeon.cli.complete import nodes, paired
from gdsurgeon.cli.options import pair

if TYPE_CHECKING:
    from gdsurgeon.edits.signatures import Named

F = TypeVar("F", bound=Callable[..., object])
FORM = "[KEY:]NAME=TENSOR"


def taking_and_giving(taken: str, given: str) -> Callable[[F], F]:
    """The options --input and --output; TAKEN and GIVEN are their helps."""

    def wrapper(command: F) -> F:
        for option, name, text in (("--output", "outputs", given), ("--input", "inputs", taken)):
            add = click.option(option, name, metavar=FORM, multiple=True, shell_complete=paired(nodes), help=text)
            command = add(command)
        return command

    return wrapper


def named(text: str, option: str) -> Named:
    """TEXT, of OPTION, as the tensor that it names. Raises UsageError: it is not of that form."""
    from gdsurgeon.edits.signatures import DEFAULT_KEY, Named

    name, tensor = pair(text, option, form=FORM)
    key, colon, rest = name.partition(":")
    return Named(rest, tensor, key) if colon else Named(name, tensor, DEFAULT_KEY)
