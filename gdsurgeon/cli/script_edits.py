"""The edits of a script: its lines, each handed to the command that it names, which says what it would do."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.script import Fault, ScriptLine, read_script
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.container.files import saved_model_at
from gdsurgeon.container.load import meta_of
from gdsurgeon.errors import GdsurgeonError, InputError, Line, UsageError, printable, quoted
from gdsurgeon.operation.sequence import Edit, Instruction
from gdsurgeon.wire.source import STANDARD_INPUT, open_source

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request

ENDS = ("saved_model", "slim")
"""Forms of which nothing is edited further."""

_OWN = frozenset(("model", "require_change"))
"""Of the options that all edits share those that a line may have."""


class ScriptEdits:
    """The edits of a script, as the commands that its lines name hand them over.

    Args:
        path: of the script; ``-`` for standard input.
        request: of the whole; it learns what the lines read and make.
        context: of the command that applies the script.
    """

    def __init__(self, path: str, request: Request, context: click.Context) -> None:
        self.name = "<stdin>" if path in STANDARD_INPUT else path
        self._path = path
        self._folder = os.getcwd() if path in STANDARD_INPUT else os.path.dirname(os.path.abspath(path))
        self._request = request
        self._context = context
        self._taken: list[tuple[Request, Edit]] = []
        self._reads_input = "the script" if path in STANDARD_INPUT else ""
        if self._folder != os.getcwd() and request.model not in STANDARD_INPUT:
            _have_found(request)

    def read(self, variables: Mapping[str, str]) -> list[Instruction]:
        """The instructions of the script, in which VARIABLES have their values.

        Raises:
            GdsurgeonError: the first line with which something is wrong says so; the details are the others.
            InputError: the script cannot be read.
            UsageError: it holds no edit.
        """
        text = self._text()
        out: list[Instruction] = []
        faults: list[GdsurgeonError] = []
        for line in read_script(text, variables):
            called = f"{self.name}:{line.number}"
            try:
                out.append(self._instruction(line, called, out))
            except GdsurgeonError as error:
                error.place_at(called)
                faults.append(error)
        terminal.command = "apply"
        if faults:
            faults[0].details = (*faults[0].details, *(printable(error.message) for error in faults[1:]))
            raise faults[0]
        if not out:
            raise UsageError(f"{printable(self.name)} holds no edit")
        return out

    def _text(self) -> str:
        with closing(open_source(self._path)) as source:
            data = source.read(0, source.size)
        if self._path not in STANDARD_INPUT:
            self._request.others += (self._path,)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            text = f"{printable(self.name)} is no script: it is not UTF-8 text"
            raise InputError(text, hint="MODEL comes first, then SCRIPT") from error

    def inherited(self, request: Request) -> Request:
        """The request of a line, which says REQUEST: it is that of the whole, but for what is the line's own."""
        return replace(
            self._request, require_change=request.require_change or self._request.require_change,
            others=(), report=None, functions=(), form="model",
        )  # fmt: skip

    def take(self, request: Request, edit: Edit) -> None:
        """Notes what the command of a line would do."""
        self._taken.append((request, edit))

    def _instruction(self, line: ScriptLine | Fault, called: str, earlier: Sequence[Instruction]) -> Instruction:
        """The instruction that LINE is. Raises GdsurgeonError."""
        if isinstance(line, Fault):
            raise UsageError(line.message)
        if earlier and earlier[-1].form in ENDS:
            raise UsageError(f"what {earlier[-1].called} makes is not edited further: that line has to be the last")
        if self._reads_input and not STANDARD_INPUT.isdisjoint(line.words):
            raise UsageError(f"standard input is read already: by {printable(self._reads_input)}")
        self._taken.clear()
        manners = terminal.quiet, terminal.colour, terminal.debug
        try:
            with inside(self._folder):
                self._run(line)
        finally:  # parsing a line has them as it says, or by default
            terminal.quiet, terminal.colour, terminal.debug = manners
        if not self._taken:
            raise UsageError(f"{quoted(line.words[0])} has made no edit")
        ((request, edit),) = self._taken
        if not STANDARD_INPUT.isdisjoint(request.others):
            self._reads_input = called
        own = self._request
        own.others += tuple(path if path == "-" else os.path.join(self._folder, path) for path in request.others)
        if request.form != "model":
            own.form, own.becomes, own.assets = request.form, request.becomes, request.assets
        return request.instruction(self._told(edit, line), called)

    def _run(self, line: ScriptLine) -> None:
        """Has the command that LINE names hand over its edit."""
        name, *arguments = line.words
        group = self._context.parent
        assert group is not None and isinstance(group.command, click.Group)
        try:
            command = group.command.get_command(group, name)
            if command is None or not getattr(command.callback, "edits", False) or name == "apply":
                raise UsageError(f"{quoted(name)} is no edit: a script holds edits, a line each")
            given = [self._request.model, *arguments]
            with command.make_context(name, given, parent=self._context, help_option_names=[]) as context:
                context.obj = self
                _check_own(command, context)
                command.invoke(context)
        except click.NoSuchOption as error:
            if error.option_name in self._context.help_option_names:
                raise UsageError(f"{quoted(name)} is asked for help: gdsurgeon help {printable(name)}") from error
            raise UsageError(error.format_message().rstrip(".")) from error
        except click.ClickException as error:
            raise UsageError(error.format_message().rstrip(".")) from error

    def _told(self, edit: Edit, line: ScriptLine) -> Callable[[Graph], EditResult]:
        """EDIT, whose result tells that it is LINE; it is made where the script is."""

        def telling(graph: Graph) -> EditResult:
            with inside(self._folder):
                result = edit(graph)
            result.told.insert(0, (f"line {line.number}", line.text))
            return result

        return telling


def _have_found(request: Request) -> None:
    """Has REQUEST find the files around its model, such as a checkpoint, wherever an edit asks for them."""
    if saved_model_at(request.model) or meta_of(request.model).endswith(".meta"):
        request.model = os.path.abspath(request.model)
    if request.wanted.checkpoint:
        request.wanted = request.wanted._replace(checkpoint=os.path.abspath(request.wanted.checkpoint))


def _check_own(command: click.Command, context: click.Context) -> None:
    """Raises UsageError where the line of CONTEXT has an option that says something of the whole."""
    for parameter in command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name in _of_the_whole() and source is click.core.ParameterSource.COMMANDLINE:
            option = max(parameter.opts, key=len)
            raise UsageError(Line("{option} is for the whole script: apply takes it, and no line", option=option))


@functools.cache
def _of_the_whole() -> frozenset[str]:
    """The names of the options that all edits share, but for those that a line may have."""

    def nothing() -> None:
        """Takes the options."""

    shared = click.command(edit_options(nothing)).params
    return frozenset(parameter.name or "" for parameter in shared) - _OWN


@contextmanager
def inside(folder: str) -> Iterator[None]:
    """Has relative paths be those of FOLDER."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
