"""--check: says whether an edit has something to do, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from gdsurgeon.cli.hints import error_json, worded
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.summary import whole
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import EditError, GdsurgeonError, Json, NothingToDo, UsageError
from gdsurgeon.text import Entry

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Instruction

F = TypeVar("F", bound=Callable[..., object])

TO_DO = 1
"""The exit code if there is something to do."""

NOTHING_MATCHED = "nothing-matched"
"""The code of an edit that finds none of the nodes that it is for: with --check there is nothing to do."""


def check_option(command: F) -> F:
    """The options --check and --json of an edit; they arrive as `only_check` and `as_json`."""
    command = known_option("--json", "as_json", help="With --check: print JSON.")(command)
    return known_option("--check", "only_check")(command)


def refuse_options(request: Request, *, only_check: bool, as_json: bool, option: str = "--check") -> None:
    """Raises UsageError if OPTION, which writes nothing, is given with an output, or --json without it."""
    if as_json and not only_check:
        raise UsageError(
            f"--json needs {option}; --report FILE writes the report of an edit",
            code="missing-option",
            facts={"option": option},
        )
    if only_check and (request.out is not None or request.in_place):
        raise UsageError(
            f"{option} writes nothing: leave out -o and -i", code="conflicting-options", facts={"option": option}
        )


def check_edit(command: str, request: Request, edits: Sequence[Instruction], *, as_json: bool) -> NoReturn:
    """Prints what EDITS would do to the model, and ends the command with exit code 0 or 1.

    Raises:
        GdsurgeonError: the model cannot be read or is not sound, or an edit is impossible.
    """
    from gdsurgeon.analysis.checks.check import require_sound
    from gdsurgeon.container.load import open_model

    graph = open_model(request.model, request.wanted).graph
    answer = Answer(command, graph)
    facts: dict[str, Json] = {}
    done: list[tuple[str, str]] = []
    idle = ""
    error: EditError | None = None
    try:
        if request.level != "none":
            require_sound(graph)
        for each in edits:
            try:
                result = each.apply(graph, check=request.level != "none")
            except NothingToDo as nothing:
                idle = idle or worded(nothing.message)
            else:
                facts |= result.facts
                told = [*result.told, *(Entry("note", worded(note)) for note in result.notes)]
                done += list(whole(told)) or [("changes", command)]
    except EditError as refused:
        idle = worded(refused.message)
        error = refused if refused.code != NOTHING_MATCHED else None
    reason = idle if not done else None
    entries = done or ([("result", idle)] if error is None else [])
    answer.give(entries, error, is_to_do=bool(done), as_json=as_json, edit=facts, reason=reason)


class Answer:
    """What --check prints about a model.

    Args:
        command: the name of the command.
        graph: the graph of the model, before any edit.
    """

    def __init__(self, command: str, graph: Graph) -> None:
        from gdsurgeon.analysis.queries.usage import op_counts

        self._command, self._model = command, graph.source_name
        self._size = graph.node_count, len(op_counts(graph))

    def give(
        self,
        entries: Sequence[tuple[str, str]],
        error: GdsurgeonError | None,
        *,
        is_to_do: bool,
        as_json: bool,
        **more: Json,
    ) -> NoReturn:
        """Prints ENTRIES, or with AS_JSON what MORE holds, and ends the command with exit code 0 or 1.

        Raises:
            GdsurgeonError: ERROR, if it is given.
        """
        from gdsurgeon.view.findings import findings

        code = error.exit_code if error is not None else TO_DO if is_to_do else 0
        if as_json:
            wrong = error_json(error, self._command) if error is not None else None
            terminal.answer_json({"model": self._model, **more, "error": wrong, "exit_code": code})
        elif entries:
            terminal.answer_lines(findings(self._model, *self._size, entries))
        if error is not None:
            raise error
        click.get_current_context().exit(code)
