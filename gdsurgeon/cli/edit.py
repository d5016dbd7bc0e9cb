"""Commands that edit: their options, the operation, progress, report and summary; and --check, which only looks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

import gdsurgeon
from gdsurgeon.cli.command import EDIT_OPTIONS, MODEL_ARGUMENT, Command, F, added, current_script, running, wanted
from gdsurgeon.cli.hints import error_json, word_proof, worded
from gdsurgeon.cli.options import ListedTensor, option
from gdsurgeon.cli.terminal import terminal, whole
from gdsurgeon.errors import EditError, GdsurgeonError, Json, NothingToDo, OutputError, UsageError, quoted
from gdsurgeon.registry import COMMANDS
from gdsurgeon.text import Entry

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Outcome, Request
    from gdsurgeon.operation.sequence import Edit, Instruction

REPORTED = (3, 4, 5, 7)
"""Exit codes of errors in the model, the edit or the result, for which a report is written."""

TO_DO = 1
"""The exit code of --check if there is something to do."""

NOTHING_MATCHED = "nothing-matched"
"""The code of an edit that finds none of the nodes that it is for: with --check there is nothing to do."""


def edit_options(command: F, *, without: Sequence[str] = ()) -> F:
    """Adds the options of every command that writes a graph; they arrive as one `request`.

    The options of the parameters `without` have no effect in the command, and are left out.
    """

    @functools.wraps(command)
    def wrapper(**options: Any) -> object:
        from gdsurgeon.wire.output import STANDARD_OUTPUT

        request = _request(options)
        script = current_script()
        if script is not None:
            return command(request=script.inherited(request), **options)
        out = request.model if request.out is None else request.out
        terminal.note_pipe(request.model, is_data=out in STANDARD_OUTPUT)
        try:
            return command(request=request, **options)
        except GdsurgeonError as error:
            report_failure(request, terminal.command, error)
            raise

    wrapper.edits = True  # type: ignore[attr-defined]
    return added(wrapper, MODEL_ARGUMENT, *EDIT_OPTIONS, without=without)  # type: ignore[return-value]


def edit_command(name: str, *, without: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Command]:
    """Makes the command `name` of a function with the command's own options, and adds the options of `edit_options`.

    The function gets the values of the options, and the request if it has a parameter `request`. It returns an edit,
    several edits, or the arguments of the library function that the registry names for the command.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        @functools.wraps(function)
        def wrapper(request: Request, **values: object) -> None:
            asked = {"request": request} if "request" in function.__annotations__ else {}
            edit: Edit | Sequence[Instruction] | dict[str, object] = function(**asked, **values)
            if isinstance(edit, dict):
                edit = functools.partial(getattr(gdsurgeon, COMMANDS[name].function), **edit)
            run_edit(name, request, edit)

        return click.command(name, cls=Command)(edit_options(wrapper, without=without))

    return decorate


_REQUESTED = (
    *("model", "out", "in_place", "backup", "dry_run", "require_change", "changes_values", "level", "as_v1", "report"),
)
"""The options that a request has under the same names."""


def _request(options: dict[str, Any]) -> Request:
    """Removes the shared options from `options`, and returns them as a request."""
    from gdsurgeon.operation.edit import Request

    settings, overrides, others = running(options)
    form = options.pop("form")
    return Request(
        **{name: options.pop(name) for name in _REQUESTED if name in options},
        functions=options.pop("in_functions", ()),
        wanted=wanted(options),
        v2_check=not options.pop("no_v2_check", False),
        others=others,
        text=None if form is None else form == "text",
        settings=settings,
        overrides=overrides,
    )


def run_edit(command: str, request: Request, edit: Edit | Sequence[Instruction]) -> None:
    """Applies `edit`, or several edits, according to `request`, and prints the summary.

    In a line of a script, the edit is only added to the script.

    Raises:
        GdsurgeonError: see `gdsurgeon.operation.edit.operate`; if the result differs from the claims of the edit, the
            report contains the difference.
    """
    from gdsurgeon.operation.edit import operate
    from gdsurgeon.wire.output import OutputFile

    script = current_script()
    if script is not None:
        script.take(request, [request.instruction(edit)] if callable(edit) else edit)
        return
    if request.report is not None:
        OutputFile(request.report)  # refused now rather than after the work

    def report(outcome: Outcome, error: GdsurgeonError | None = None) -> None:
        outcome.warnings = [worded(warning) for warning in outcome.warnings]
        outcome.idle = worded(outcome.idle)
        outcome.result.notes[:] = map(worded, outcome.result.notes)
        word_proof(outcome.proof)
        if request.report is not None:
            from gdsurgeon.view.summary import report as make_report

            failure = error_json(error, command) if error is not None else None
            _write_report(request.report, make_report(outcome, command, failure))
            request.report = None

    def publishing(outcome: Outcome) -> None:
        report(outcome)
        terminal.settle(outcome.has_appeared)

    outcome = operate(request, edit, before_publishing=publishing, on_difference=report, progress=terminal.tell)
    terminal.warn(dict.fromkeys(outcome.warnings))
    if outcome.idle:
        form = "repaired" if outcome.is_repaired else "unchanged"
        terminal.note(f"{outcome.idle}; the output is the {form} graph")
    if not terminal.quiet:
        from gdsurgeon.view.summary import summary

        head, entries = summary(outcome)
        terminal.summary([head], entries)


def report_failure(request: Request, command: str, error: GdsurgeonError, *, of_script: bool = False) -> None:
    """Writes the report of an edit that failed, unless it is already written or would replace an input.

    A usage error gets a report only `of_script`, because the path of the report may be a part of the error.
    """
    if request.report is None or (error.exit_code not in REPORTED and not of_script):
        return
    from gdsurgeon.operation.edit import locate
    from gdsurgeon.operation.paths import check_replaces_nothing

    if isinstance(error, UsageError):
        try:
            locate(request)
        except GdsurgeonError:
            return  # the paths of outputs are not valid

    kept = [request.model, *request.others, *([request.out] if request.out is not None else [])]
    try:
        check_replaces_nothing([("--report", request.report)], kept)
        _write_report(
            request.report,
            {
                "command": command,
                "passed": False,
                "error": error_json(error, command),
                "model": request.model,
                "output": None,
                "warnings": [worded(warning) for warning in error.warnings],
            },
        )
    except (UsageError, OutputError) as other:
        terminal.warn([other.message])


def _write_report(path: str, report: Mapping[str, Json]) -> None:
    import json

    terminal.write(path, json.dumps(report, indent=2).encode() + b"\n")


def named_edit(request: Request, edit: Edit, tensors: Sequence[ListedTensor]) -> list[Instruction]:
    """Returns the instructions of `request` to make `edit`, and to rename the `tensors` that have a new name."""
    from gdsurgeon.edits.claims import SameGiven
    from gdsurgeon.edits.rename import rename
    from gdsurgeon.operation.sequence import Instruction

    if not any(name for _, name in tensors):
        return [request.instruction(edit)]
    placeholders: dict[str, str] = {}

    def first(graph: Graph) -> EditResult:
        result = edit(graph)
        for claim in result.claims:
            if isinstance(claim, SameGiven):
                placeholders.update(claim.given)
        return result

    def second(graph: Graph) -> EditResult:
        plain = [(tensor.removesuffix(":0"), name) for tensor, name in tensors if name]
        pairs = [(placeholders.get(tensor, tensor), name) for tensor, name in plain]
        for tensor, name in pairs:
            if ":" in tensor:
                raise EditError(
                    f"{quoted(tensor)} cannot be renamed, because its node has several outputs: "
                    f"insert an Identity named {quoted(name)} first",
                    code="bad-tensor-name",
                    tensor=tensor,
                    name=name,
                )
        return rename(graph, pairs)

    return [request.instruction(first), Instruction(second)]


# -- --check -----------------------------------------------------------------------------------------------------


OUTPUTS = "--output --in-place"
"""The options that an option excludes with which nothing is written."""


def check_option(command: F, others: str = "") -> F:
    """Adds the options --check and --json of an edit; they arrive as `only_check` and `as_json`.

    `others` are the other options with which the command prints its answer.
    """
    return added(
        command,
        option("--check", "only_check", excludes=f"{OUTPUTS} {others}"),
        option("--json", "as_json", needs=f"--check {others}", help="With --check: print JSON."),
    )


def check_edit(command: str, request: Request, edits: Sequence[Instruction], *, as_json: bool) -> NoReturn:
    """Prints what `edits` would do to the model, and ends the command with exit code 0 or 1.

    Raises:
        GdsurgeonError: the model cannot be read or is not sound, or an edit is impossible.
    """
    from gdsurgeon.analysis.checks.check import require_sound
    from gdsurgeon.container.load import open_model

    graph = open_model(request.model, request.wanted).graph
    checked = checked_model(graph)
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
                lines = [*result.told, *(Entry("note", worded(note)) for note in result.notes)]
                done += whole(lines) or [("changes", command)]
    except EditError as refused:
        idle = worded(refused.message)
        error = refused if refused.code != NOTHING_MATCHED else None
    entries = done or ([("result", idle)] if error is None else [])
    reason = idle if not done else None
    end_check(command, checked, entries, error, is_to_do=bool(done), as_json=as_json, edit=facts, reason=reason)


def checked_model(graph: Graph) -> tuple[str, int, int]:
    """Returns the name of a model, and the numbers of its nodes and ops."""
    from gdsurgeon.analysis.queries.usage import op_counts

    return graph.source_name, graph.node_count, len(op_counts(graph))


def end_check(
    command: str,
    checked: tuple[str, int, int],
    entries: Sequence[tuple[str, str]],
    error: GdsurgeonError | None,
    *,
    is_to_do: bool,
    as_json: bool,
    **facts: Json,
) -> NoReturn:
    """Prints `entries`, or with `as_json` the facts, and ends `command` with exit code 0 or 1.

    Raises:
        GdsurgeonError: `error`, if it is not None.
    """
    from gdsurgeon.view.report import findings

    code = error.exit_code if error is not None else TO_DO if is_to_do else 0
    if as_json:
        wrong = error_json(error, command) if error is not None else None
        terminal.answer_json({"model": checked[0], **facts, "error": wrong, "exit_code": code})
    elif entries:
        terminal.answer_lines(findings(*checked, entries))
    if error is not None:
        raise error
    click.get_current_context().exit(code)
