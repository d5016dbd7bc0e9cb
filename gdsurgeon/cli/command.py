"""The base class of commands, the kinds of options, and the errors of a command line."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

from gdsurgeon.cli.meanings import known_option
from gdsurgeon.errors import UsageError
from gdsurgeon.text import suggestion

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Instruction

HEADINGS = ("Options", "Selection", "Model", "Output", "Proof", "Feeds", "Messages")
"""The headings of options in the order of the help; a command's own options come first."""
COMMON = ("-o", "-i", "-n", "--report", "--json", "--validate", "--feed", "-q", "-v")
"""The shared options that `COMMAND --help` names."""
_SHOW_ALL = "gdsurgeon.help-all"


class NoSuchCommand(click.UsageError):
    """There is no command `name`; `near` is the command that the user may mean, or None."""

    def __init__(self, name: str, near: str | None, ctx: click.Context) -> None:
        super().__init__(f"unknown command {name!r}.{suggestion(near)}", ctx)
        self.name, self.near = name, near


def usage_error(error: click.ClickException) -> UsageError:
    """Returns the usage error that click reports, with a code and facts."""
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
    """An option that several commands have, under the heading `heading` of `HEADINGS`.

    The names `also` are accepted and not shown in the help. `--help` only names an option that `is_common`.
    """

    is_common = False

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


output_option = functools.partial(known_option, cls=SharedOption, heading="Output")
model_option = functools.partial(known_option, cls=SharedOption, heading="Model")
proof_option = functools.partial(known_option, cls=SharedOption, heading="Proof")
feeds_option = functools.partial(known_option, cls=SharedOption, heading="Feeds")
selection_option = functools.partial(known_option, cls=SharedOption, heading="Selection")
message_option = functools.partial(known_option, cls=SharedOption, heading="Messages")


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_SHOW_ALL] = True
        click.echo(context.get_help())
        context.exit()


_HELP_ALL = SharedOption(
    ["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_show_all, heading="Messages",
    help="Show the help with all options and exit.",
)  # fmt: skip


class Command(click.Command):
    """A click command whose `--help` shows its own options and names the common ones; `--help-all` shows all."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *([_HELP_ALL] if ctx.help_option_names else [])]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shows_all = _SHOW_ALL in ctx.meta
        own: list[click.Option] = []
        shared: dict[str, None] = {}
        for option in self.get_params(ctx):
            if not isinstance(option, click.Option):
                continue
            if isinstance(option, SharedOption) and option.is_common and not shows_all:
                shared.update(dict.fromkeys(option.opts))
            elif shows_all or (option is not _HELP_ALL and option is not self.get_help_option(ctx)):
                own.append(option)
        write_options(own, ctx, formatter)
        if not shows_all:
            named = [name for name in COMMON if name in shared]
            formatter.write_paragraph()
            formatter.write(f"Common options (--help-all): {', '.join(named or ['-h'])}\n")


def write_options(options: Iterable[click.Option], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Writes `options` with their help under their headings to `formatter`."""
    sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
    for option in options:
        record = option.get_help_record(ctx)
        if record is not None:
            plain = "Messages" if "--help" in option.opts else "Options"
            sections[getattr(option, "heading", plain)].append(record)
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


class Script(Protocol):
    """A script of edits: the command of a line adds its edit to the script instead of running it."""

    def inherited(self, request: Request) -> Request:
        """Returns the request of a line: `request` with the options of the script."""

    def take(self, request: Request, edits: Sequence[Instruction]) -> None:
        """Adds the edits of a line."""


def current_script() -> Script | None:
    """Returns the script that the command is a line of, or None."""
    context = click.get_current_context(silent=True)
    return context.obj if context is not None else None
