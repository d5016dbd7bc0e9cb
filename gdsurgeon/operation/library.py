"""The whole operation, and the proof of an edit, as functions of the library."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from gdsurgeon.arguments import StrPath, public
from gdsurgeon.compare.diff import are_same_bytes
from gdsurgeon.container.files import Wanted
from gdsurgeon.container.load import Model, reads_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import UsageError, printable, quoted
from gdsurgeon.feeds.overrides import Feeds, Shapes, overrides_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation import edit as whole
from gdsurgeon.operation.edit import LEVELS, Outcome, Request
from gdsurgeon.operation.proving import Proving
from gdsurgeon.operation.sequence import Edit, Instruction, carry_out
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.change import Step
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.settings import Progress, Settings, silent
from gdsurgeon.wire.output import OutputFile


@public
def operate(
    model: StrPath,
    edit: Edit | Sequence[Edit],
    *,
    out: StrPath | None = None,
    in_place: bool = False,
    backup: str | None = None,
    dry_run: bool = False,
    require_change: bool = False,
    changes_values: bool = False,
    level: str = "run",
    functions: Sequence[str] = (),
    feeds: Feeds | None = None,
    archive: StrPath | None = None,
    shapes: Shapes | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Loads `model`, edits it, proves the edit, and writes the result only after that.

    Args:
        model: a path, or ``-`` for standard input.
        edit: called with the graph, once: ``lambda graph: gds.rename(graph, [("x", "image")])``. Each of several edits
            is called with the result of the previous one.
        out: a path, ``-`` for standard output; None: the name of `model` with ``.edited`` in it.
        in_place: replace `model`.
        backup: a suffix; the old file is kept under its name with this suffix. None: it is not kept.
        dry_run: do everything except writing.
        require_change: refuse an edit that finds nothing to do, instead of writing the unchanged graph.
        changes_values: the edit changes values on purpose: the proof measures how far the outputs that it reaches are
            from what they were, and requires only the others to be the same.
        level: how far to prove the result: ``none``, ``structure``, ``load`` or ``run``.
        functions: library functions to whose bodies the edit is applied, instead of to the graph.
        feeds: values for inputs, see `Feeds`.
        archive: an .npz file with values for inputs.
        shapes: full shapes of inputs whose values are generated.
        settings: how the graphs are run.
        progress: called with an `Event` when a step begins.

    Raises:
        UsageError: the arguments contradict each other, or a value does not fit its input.
        InputError: `model` cannot be read or is broken.
        EditError: the edit is refused.
        ValidationError: the result does not load, does not run, or differs from what the edit claims.
        NotValidatedError: the check is not possible on this machine.
        OutputError: the result cannot be written.

        After any error, `model` and an earlier output are unchanged, and no other files remain.
    """
    given = locals()
    _check_level(level, LEVELS)
    options: dict[str, Any] = {name: value for name, value in given.items() if name in Request.__dataclass_fields__}
    options |= {"functions": tuple(functions), "settings": settings or Settings()}
    request = Request(**options, overrides=overrides_of(feeds, archive, shapes))
    return whole.operate(request, edit if callable(edit) else _instructions(request, edit), progress=progress)


def _instructions(request: Request, edits: Sequence[Edit]) -> list[Instruction]:
    if not edits:
        raise UsageError("no edit is given", code="missing-argument")
    return [request.instruction(edit, f"edit {number}") for number, edit in enumerate(edits, 1)]


class Applied(NamedTuple):
    """Edits that were made of a graph, one after the other; see `apply`.

    Attributes:
        graph: the edited graph. `Graph.save` writes it without a proof.
        steps: the edits that changed something, each with the graphs before and after it and its result.
    """

    graph: Graph
    steps: Sequence[Step]


@public
def apply(graph: Graph, edits: Sequence[Edit]) -> Applied:
    """Applies `edits` to `graph` in order. Each edit gets the previous result, as if it had been written and loaded.

    Each edit's differences are checked against its declarations; `prove` checks the edits together by execution, and
    `operate` does both for a file.

    Args:
        graph: as it was loaded: a GraphDef of its own. The first edit changes it.
        edits: at least one: ``[lambda graph: gds.rename(graph, [("x", "image")]), ...]``.

    Raises:
        UsageError: there is no edit, or `graph` is part of a model.
        EditError: an edit is refused; the message begins with its number.
        ValidationError: an edit changed something that it does not declare.
    """
    if graph.serving is not None:
        text = f"{printable(graph.source_name)} is not only a graph: use operate to edit models"
        raise UsageError(text, code="wrong-format", file=graph.source_name)
    if graph.is_changed:
        text = f"{printable(graph.source_name)} was already edited"
        raise UsageError(text, code="already-edited", file=graph.source_name)
    carried = carry_out(
        Model(graph, None), _instructions(Request(graph.source_name), edits), OutputFile("-"), check=True
    )
    if carried.steps:
        last = carried.steps[-1]
        check_accounted(last.after, last.result, last.after.chunks())
    return Applied(carried.model.graph, carried.steps)


@public
def prove(
    before: Graph,
    after: Graph,
    results: EditResult | Applied | Sequence[EditResult],
    *,
    level: str = "run",
    feeds: Feeds | None = None,
    archive: StrPath | None = None,
    shapes: Shapes | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> Proof:
    """Proves the edits that turned `before` into `after` by running both graphs; neither has to be written.

    Several edits are proven together, as `operate` and `apply` do. Two files are compared by `validate`.

    Args:
        before: the graph before the edits, such as the file loaded again, or a copy from then.
        after: the graph after them.
        results: the result of the edit, the results of several edits in order, or the return value of `apply`.
        level: ``load`` or ``run``.
        feeds, archive, shapes, settings, progress: as for `operate`.

    Raises:
        UsageError: there is no such level, a value does not fit its input, or the results are not those of the edits
            that turned `before` into `after`.
        ValidationError: the graph does not load, does not run, or differs from what the edits claim.
        NotValidatedError: the check is not possible on this machine.
    """
    _check_level(level, ("load", "run"))
    steps = _steps(before, after, results)
    settings = settings or Settings()
    if after.serving is not None:
        settings = settings.reading(reads_of(after.source_name, Wanted(checkpoint=after.serving.checkpoint)))
    overrides = overrides_of(feeds, archive, shapes)
    with whole.checkpoint_of(after) as checkpoint:
        if checkpoint is not None:
            settings = settings.reading([checkpoint.for_proof()])
        with Proving(settings, overrides, level, progress) as proving:
            if not steps:
                return Proof("unchanged")
            proving.begin(steps[0].before)
            return proving.prove(steps, steps[-1].after.chunks())


def _steps(before: Graph, after: Graph, results: EditResult | Applied | Sequence[EditResult]) -> Sequence[Step]:
    """Returns the steps of the edits, each with the graphs before and after it."""
    if isinstance(results, Applied):
        _check_is(before, results.steps[0].before if results.steps else after)
        return results.steps
    given = [results] if isinstance(results, EditResult) else list(results)
    if not given:
        raise UsageError("there is no result of an edit to prove", code="missing-argument", argument="results")
    states = after.states(given)
    if states is None and len(given) > 1:
        raise UsageError(
            "the given results must be those of the last edits of the graph, in the order of the edits",
            code="other-graph",
            argument="results",
            count=len(given),
            hint="give the result of each edit since BEFORE; gds.apply makes edits that are functions of your own",
        )
    _check_is(before, states[0] if states is not None else after.pristine())
    if len(given) == 1 and (states is None or are_same_bytes(states[0].source, after.source)):
        return [Step(after.pristine(), after, given[0])]
    assert states is not None
    for first, second in pairwise(states):
        second.made_from(first)
    called = [f"edit {number}" for number in range(1, len(given) + 1)]
    return [Step(*item) for item in zip(states, states[1:], given, called, strict=False)]


def _check_is(before: Graph, expected: Graph) -> None:
    """Raises UsageError if the graph before the edits is not the `expected` graph."""
    if before is not expected and not are_same_bytes(before.written().source, expected.source):
        raise UsageError(
            f"{printable(before.source_name)} is not the graph before these edits",
            code="other-graph",
            argument="before",
            file=before.source_name,
            hint="gds.load the file again, or keep graph.copy() from before the edits",
        )


def _check_level(level: str, levels: Sequence[str]) -> None:
    if level not in levels:
        text = f"{quoted(level)} is not a level; levels are {', '.join(levels)}"
        raise UsageError(text, code="bad-value", option="level", value=level)
