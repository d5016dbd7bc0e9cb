"""What every command is: its own options come first in its help, those that it shares under headings."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import click

HEADINGS = ("Options", "Selection", "Output", "Proof", "Feeds", "Messages")
"""In the order of the help; a command's own options are the first."""


class SharedOption(click.Option):
    """An option that many commands have; HEADING is one of `HEADINGS`."""

    def __init__(self, declarations: Sequence[str], *, heading: str, **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self.heading = heading


output_option = functools.partial(click.option, cls=SharedOption, heading="Output")
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
