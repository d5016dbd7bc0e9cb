"""Reads the edits of a script: the command of each line returns its edit instead of running it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import common_options, usage_error
from gdsurgeon.cli.script import Fault, ScriptLine, Variables, check_names_edits, read_script, read_text
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.container.files import saved_model_at
from gdsurgeon.container.load import meta_of
from gdsurgeon.errors import GdsurgeonError, Line, UsageError, printable, quoted
from gdsurgeon.text import Entry, first_lines
from gdsurgeon.wire.source import STANDARD_INPUT, STANDARD_INPUT_NAME

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit, Instruction

ENDS = ("saved_model", "slim")
"""Forms of a result that later lines cannot edit."""

MOST_FAULTS = 20
"""Maximum number of further faulty lines that are printed."""

_OWN = ("require_change", "changes_values", "as_json")
"""The common options that a line may have."""

_LOOKING = ("only_check", "only_list")
"""Options with which a command makes no edit."""


class ScriptEdits:
    """Collects the edits of a script.

    Args:
        path: the path of the script; ``-`` for standard input.
        request: the request of the whole script; the files and forms of the lines are added to it.
        context: the click context of the command `apply`.
    """

    def __init__(self, path: str, request: Request, context: click.Context) -> None:
        self.name = STANDARD_INPUT_NAME if path in STANDARD_INPUT else path
        self._has_model = context.params["script"] is not None
        self._hint = "give MODEL first, then SCRIPT" if self._has_model else "--check expects a SCRIPT"
        self._path = path
        self._folder = os.getcwd() if path in STANDARD_INPUT else os.path.dirname(os.path.abspath(path))
        self._request = request
        self._context = context
        group = context.find_root().command
        assert isinstance(group, click.Group)
        self._group = group
        self._taken: list[tuple[Request, Sequence[Instruction]]] = []
        self._reads_input = "the script" if path in STANDARD_INPUT else ""
        self._is_ended = False
        if self._folder != os.getcwd() and request.model not in STANDARD_INPUT:
            _make_paths_absolute(request)

    def read(self, variables: Variables) -> list[Instruction]:
        """Returns the instructions of the script, with the values of `variables`.

        Raises:
            GdsurgeonError: lines have faults; the error is that of the first, the details are those of the others.
            InputError: the script cannot be read.
            UsageError: the script contains no edit.
        """
        text = read_text(self._path, self._hint)
        if self._path not in STANDARD_INPUT:
            self._request.others += (self._path,)
        lines = read_script(text, variables)
        check_names_edits(self.name, lines, self._group.list_commands(self._context), self._hint)
        out: list[Instruction] = []
        faults: list[GdsurgeonError] = []
        for line in lines:
            called = f"{self.name}:{line.number}"
            try:
                out += self._instructions(line, called, out)
            except GdsurgeonError as error:
                error.place_at(called)
                if isinstance(line, ScriptLine) and variables.are_left_in(line.words):
                    hint = "single quotes keep $VAR as it is; double quotes replace $VAR by its value"
                    error.hint = error.hint or hint
                faults.append(error)
        terminal.command = "apply"
        try:
            variables.check_used(self.name, text)
        except UsageError as error:
            faults.append(error)
        if faults:
            others = first_lines([printable(error.message) for error in faults[1:]], MOST_FAULTS, "other lines")
            faults[0].details = (*faults[0].details, *others)
            raise faults[0]
        if not out:
            raise UsageError(f"{printable(self.name)} contains no edit", code="no-edit", file=self.name)
        return out

    def inherited(self, request: Request) -> Request:
        """Returns the request of a line: that of the script, with the options of the line from `request`."""
        return replace(
            self._request,
            require_change=request.require_change or self._request.require_change,
            changes_values=request.changes_values or self._request.changes_values,
            others=(),
            report=None,
            functions=request.functions,
            form="model",
            repairs=False,
        )

    def take(self, request: Request, edits: Sequence[Instruction]) -> None:
        """Adds the edits of a line."""
        self._taken.append((request, edits))

    def _instructions(self, line: ScriptLine | Fault, called: str, earlier: Sequence[Instruction]) -> list[Instruction]:
        """Returns the instructions of `line`. Raises GdsurgeonError."""
        if isinstance(line, Fault):
            raise line.error
        if earlier and earlier[-1].form in ENDS and not self._is_ended:
            self._is_ended = True  # reported once, for any number of lines
            message = f"{earlier[-1].called} must be the last line: its result cannot be edited"
            raise UsageError(message, code="not-the-last-line")
        if self._reads_input and not STANDARD_INPUT.isdisjoint(line.words):
            message = f"standard input is already read by {printable(self._reads_input)}"
            raise UsageError(message, code="conflicting-options")
        self._taken.clear()
        settings = terminal.quiet, terminal.verbose, terminal.colour, terminal.debug
        try:
            with inside(self._folder):
                self._run(line)
        finally:  # parsing a line sets them to its options, or the defaults
            terminal.quiet, terminal.verbose, terminal.colour, terminal.debug = settings
        if not self._taken:
            raise UsageError(f"{quoted(line.words[0])} made no edit", code="not-an-edit", name=line.words[0])
        ((request, edits),) = self._taken
        if not STANDARD_INPUT.isdisjoint(request.others):
            self._reads_input = called
        own = self._request
        own.repairs = own.repairs or (request.repairs and not earlier)
        own.others += tuple(path if path == "-" else os.path.join(self._folder, path) for path in request.others)
        reads = dict.fromkeys([*own.settings.reads, *request.settings.reads])
        own.settings = own.settings._replace(reads=tuple(reads))
        if request.form != "model":
            own.form, own.becomes, own.assets = request.form, request.becomes, request.assets
        edits = [edits[0]._replace(edit=self._reporting(edits[0].edit, line)), *edits[1:]]
        return [edit._replace(called=called) for edit in edits]

    def _run(self, edit: ScriptLine) -> None:
        """Runs the command of a line, which adds its edit."""
        name, *arguments = edit.words
        try:
            command = self._group.get_command(self._context, name)
            if command is None or not getattr(command.callback, "edits", False) or name == "apply":
                line = f"{quoted(name)} is not an edit: each line of a script is an edit"
                raise UsageError(line, code="not-an-edit", name=name)
            given = [self._request.model, *arguments]
            with command.make_context(name, given, parent=self._context, help_option_names=[]) as context:
                context.obj = self
                _check_own(command, context)
                command.invoke(context)
        except click.NoSuchOption as error:
            if error.option_name in self._context.help_option_names:
                line = f"options that show help cannot be used in a script: run 'gdsurgeon help {printable(name)}'"
                raise UsageError(line, code="not-in-a-script", option=error.option_name) from error
            raise usage_error(error) from error
        except (click.ClickException, UsageError) as error:
            if arguments and self._is_model(arguments[0]):
                line = f"lines are written without MODEL: leave out {quoted(arguments[0])}"
                raise UsageError(line, code="model-in-a-script", value=arguments[0]) from error
            if isinstance(error, UsageError):
                raise
            raise usage_error(error) from error

    def _is_model(self, word: str) -> bool:
        """Returns whether `word` is the path of MODEL."""
        model = self._request.model
        return word not in STANDARD_INPUT and self._has_model and word in (model, os.path.basename(model))

    def _reporting(self, edit: Edit, line: ScriptLine) -> Edit:
        """Returns `edit` such that it runs in the folder of the script, and its result names `line`."""

        def reporting(graph: Graph) -> EditResult:
            with inside(self._folder):
                result = edit(graph)
            result.told.insert(0, Entry("line", f"{line.number}: {line.text}"))
            return result

        return reporting


def _make_paths_absolute(request: Request) -> None:
    """Makes the paths of `request` absolute, so that its files are found from any folder."""
    if saved_model_at(request.model) or meta_of(request.model).endswith(".meta"):
        request.model = os.path.abspath(request.model)
    if request.wanted.checkpoint:
        request.wanted = request.wanted._replace(checkpoint=os.path.abspath(request.wanted.checkpoint))


def _check_own(command: click.Command, context: click.Context) -> None:
    """Raises UsageError if the line of `context` has an option of the whole script, or makes no edit."""
    whole = {option.name for option in common_options()} - {*_OWN}
    for parameter in command.params:
        if context.get_parameter_source(parameter.name or "") is not click.core.ParameterSource.COMMANDLINE:
            continue
        option = max(parameter.opts, key=len)
        line = ""
        if parameter.name in whole:
            line = Line("{option} is an option of apply, not of a line", option=option)
        elif parameter.name in _LOOKING:
            line = f"{option} makes no edit: each line of a script is an edit"
        if line:
            raise UsageError(line, code="not-in-a-script", option=option)


@contextmanager
def inside(folder: str) -> Iterator[None]:
    """Makes `folder` the current folder while the context is active."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
