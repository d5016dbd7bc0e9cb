"""What every command is: its own options come first in its help, those that it shares under headings."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

from gdsurgeon.errors import UsageError
from gdsurgeon.text import suggestion

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Instruction

HEADINGS = ("Options", "Selection", "Model", "Output", "Proof", "Feeds", "Messages")
"""In the order of the help; a command's own options are the first."""


class NoSuchCommand(click.UsageError):
    """There is no command `name`; `near` is a name like it, or None."""

    def __init__(self, name: str, near: str | None, ctx: click.Context) -> None:
        super().__init__(f"there is no command {name!r}.{suggestion(near)}", ctx)
        self.name, self.near = name, near


def usage_error(error: click.ClickException) -> UsageError:
    """The mistake in a command line that click reports, with a code and facts."""
    message = error.format_message().replace("is not a valid integer range", "is not a valid integer")
    message = message.replace("is not a valid float range", "is not a valid float").rstrip(".")
    code, facts = UsageError.code, {}
    if isinstance(error, NoSuchCommand):
        code, facts = "no-such-command", {"name": error.name, "near": error.near}
    elif isinstance(error, click.NoSuchOption):
        code, facts = "bad-option", {"option": error.option_name, "near": next(iter(error.possibilities or ()), None)}
    elif isinstance(error, click.BadOptionUsage):
        code, facts = "bad-option", {"option": error.option_name}
    elif isinstance(error, click.BadParameter) and error.param is not None:
        is_option, is_missing = isinstance(error.param, click.Option), isinstance(error, click.MissingParameter)
        called = max(error.param.opts, key=len) if is_option else error.param.human_readable_name
        code = ("missing-option" if is_option else "missing-argument") if is_missing else "bad-value"
        facts = {"option" if is_option else "name": called}
    return UsageError(message, code=code, facts=facts)


class SharedOption(click.Option):
    """An option that many commands have; HEADING is one of `HEADINGS`.

    What is called ALSO so is taken, and not shown.
    """

    def __init__(
        self, declarations: Sequence[str], *, heading: str, also: Sequence[str] = (), **attributes: Any
    ) -> None:
        super().__init__([*declarations, *also], **attributes)
        self.heading = heading
        self._also = also

    def _shown(self) -> click.Option:
        shown = copy.copy(self)
        shown.opts = [name for name in self.opts if name not in self._also]
        return shown

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return click.Option.get_help_record(self._shown(), ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return click.Option.get_error_hint(self._shown(), ctx)


output_option = functools.partial(click.option, cls=SharedOption, heading="Output")
model_option = functools.partial(click.option, cls=SharedOption, heading="Model")
proof_option = functools.partial(click.option, cls=SharedOption, heading="Proof")
feeds_option = functools.partial(click.option, cls=SharedOption, heading="Feeds")
selection_option = functools.partial(click.option, cls=SharedOption, heading="Selection")
message_option = functools.partial(click.option, cls=SharedOption, heading="Messages")


class Command(click.Command):
    """A click command whose help has headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                own = "Messages" if parameter is self.get_help_option(ctx) else "Options"
                sections[getattr(parameter, "heading", own)].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class Script(Protocol):
    """What a command is a line of: it only hands its edit over."""

    def inherited(self, request: Request) -> Request:
        """The request of a line, which says REQUEST."""

    def take(self, request: Request, edits: Sequence[Instruction]) -> None:
        """Notes what the command of a line would do."""


def current_script() -> Script | None:
    """The script of which the command is a line; None where it stands for itself."""
    context = click.get_current_context(silent=True)
    return context.obj if context is not None else None
