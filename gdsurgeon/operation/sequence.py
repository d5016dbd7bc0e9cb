"""Edits one after the other: each is made of what the one before has written, as if that had been a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from gdsurgeon.container.load import Model
from gdsurgeon.edits.claims import EditResult, checked_result, on_purpose
from gdsurgeon.errors import (
    EditError,
    GdsurgeonError,
    Line,
    NothingToDo,
    Remark,
    ValidationError,
    printable,
    quoted,
)
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.store import Store
from gdsurgeon.operation.became import what_became
from gdsurgeon.operation.written import Form, Written, written
from gdsurgeon.proof.change import Step
from gdsurgeon.values import Data
from gdsurgeon.wire.output import Output
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, ChunkSource, resolved, spells

Edit = Callable[[Graph], EditResult]
ModelForm = Literal["model", "graph", "saved_model", "slim"]
FORMS: dict[str, ModelForm] = {"freeze": "graph", "to_savedmodel": "saved_model", "slim": "slim"}
"""For edits that make a model of another form of it, that form."""


class Instruction(NamedTuple):
    """An edit, and what goes with it.

    Attributes:
        edit: called with the graph, once.
        called: what it is called in messages, such as a line of a script; '' where it is the only one.
        functions: library functions to whose bodies it is applied, in the place of the graph.
        require_change: refuse it where there is nothing to do.
        changes_values: whether it changes values on purpose: that they are the same is not claimed.
        form: what is made of the model; see `gdsurgeon.operation.edit.Request`.
    """

    edit: Edit
    called: str = ""
    functions: tuple[str, ...] = ()
    require_change: bool = False
    form: ModelForm = "model"
    changes_values: bool = False

    def apply(self, graph: Graph, *, check: bool) -> EditResult:
        """Edits GRAPH, or the bodies of its functions; with CHECK, no node is left that its op does not allow.

        Raises:
            EditError: it is refused, or finds nothing to do.
            ValidationError: the result would be broken.
        """
        try:
            if self.functions:
                from gdsurgeon.edits.in_functions import in_functions

                result = in_functions(graph, self.functions, self.edit)
            else:
                result = checked_result(self.edit(graph), self.edit)
            if self.changes_values:
                result.claims = on_purpose(result.claims)
            if check:
                _check_result(graph, result)
        except GdsurgeonError as error:
            error.place_at(self.called)
            raise
        return result


def _check_result(graph: Graph, result: EditResult) -> None:
    """Raises ValidationError where the edit has left a node that its op does not allow, also inside functions."""
    from gdsurgeon.analysis.checks.check import check_edited

    faults = check_edited(graph)
    for name, (body, _) in result.inside.items():
        for fault in check_edited(body):
            text = f"in the function {quoted(name)}: {fault}"
            faults.append(Remark(text, fault.code, function=name, **fault.facts))
    if faults:
        facts = {"faults": [fault.as_json() for fault in faults[:100]]}
        details = tuple(faults[:100])
        raise ValidationError(
            "the result would not be a valid graph:", details=details, code="unsound-graph", facts=facts
        )


@dataclass(eq=False, repr=False)
class Carried(Data):
    """What has become of a model.

    Attributes:
        model: as it is now; it holds the last edit that has done something.
        steps: the edits that have done something.
        idle: for each of the others why there was nothing to do, with what it is called.
        served: the keys of signatures that have other functions since the steps before the last.
        loads: whether these steps have loaders asked.
        form: what the edits have made of the model; see `gdsurgeon.operation.edit.Request`.
    """

    model: Model
    steps: list[Step] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    served: list[str] = field(default_factory=list)
    loads: bool = False
    form: ModelForm = "model"

    def served_with(self, last: Sequence[str] | None) -> Sequence[str] | None:
        """The keys of signatures that have other functions, LAST among them; see `Written.served`."""
        return list(dict.fromkeys([*self.served, *(last or ())])) if self.loads or last is not None else None


def carry_out(model: Model, instructions: Sequence[Instruction], output: Output, *, check: bool) -> Carried:
    """Applies INSTRUCTIONS, each to the model as the one before has written it.

    Args:
        model: its graph is edited.
        instructions: at least one.
        output: where the result will be written.
        check: whether each result is checked; and, but for the last one, each difference accounted for.

    Raises:
        GdsurgeonError: the first instruction that is refused says so, with what it is called.
    """
    out, opened = Carried(model), model
    for instruction in instructions:
        if out.steps and opened is out.model:
            _check_goes_on(out, instruction.called)
            opened = _reopened(out, output, check=check)
            opened.graph.became = partial(what_became, out.steps)
        try:
            result = instruction.apply(opened.graph, check=check)
        except NothingToDo as idle:
            if instruction.require_change:
                raise
            out.idle.append(idle.message)
            continue
        form = instruction.form
        if form == "model" and result.asked is not None:
            form = FORMS.get(result.asked.edit, "model")
        out.form = form if form != "model" else out.form
        if form == "graph":
            opened = opened._replace(container=None)
        out.model = opened
        out.steps.append(Step(opened.graph.pristine(), opened.graph, result, instruction.called))
    return out


def is_undone(carried: Carried, first: Model, what: Written) -> bool:
    """Whether WHAT is written after several edits is what FIRST was read from, byte for byte as to the graph."""
    before, after = first.container, carried.model.container
    if len(carried.steps) < 2 or (before is None) != (after is None):
        return False
    if not spells(what.graph, first.graph.source):
        return False
    if before is None:
        return True
    return before.read_again(ChunkSource(what.chunks, first.graph.source_name)).around == before.meta.around


def together(steps: Sequence[Step], idle: Sequence[str] = ()) -> EditResult:
    """What STEPS, at least one, come to, to be shown; a note for each that was IDLE."""
    if len(steps) == 1 and not idle:
        return steps[0].result
    intent = steps[0].result.intent
    for step in steps[1:]:
        intent = intent.then(step.result.intent)
    return EditResult(
        intent,
        tuple(claim for step in steps for claim in step.result.claims),
        warnings=[warning for step in steps for warning in _placed(step, step.result.warnings)],
        notes=[*(note for step in steps for note in _placed(step, step.result.notes)), *idle],
        told=[line for step in steps for line in step.result.told],
    )


def _placed(step: Step, lines: Sequence[str]) -> list[str]:
    return [Line("{place}: {line}", place=printable(step.called), line=printable(line)) for line in lines]


def _check_goes_on(carried: Carried, called: str) -> None:
    """Raises EditError where the last step has copied variables: what CALLED would edit has no checkpoint yet."""
    serving = carried.model.graph.serving
    if serving is not None and serving.adds_keys:
        line = Line(
            "no edit can follow {last}, because its result has a checkpoint of its own",
            last=printable(carried.steps[-1].called),
        )
        error = EditError(line, code="not-the-last-line")
        error.place_at(called)
        raise error


def _reopened(carried: Carried, output: Output, *, check: bool) -> Model:
    """The model as it would be read from what is written of it; the last step is accounted for with CHECK."""
    model, step = carried.model, carried.steps[-1]
    try:
        what = written(model, step.result, output, Form("model", as_v1=False, text=False, runs=False))
        if check:
            from gdsurgeon.proof.accounting import check_accounted

            check_accounted(model.graph, step.result, what.graph)
    except GdsurgeonError as error:
        error.place_at(step.called)
        raise
    carried.served += what.served or ()
    carried.loads |= what.served is not None
    source = ChunkSource(resolved(what.chunks), model.graph.source_name)
    if model.container is None:
        graph = Graph(source)
        graph.store = Store(source, index=partial(_index, model.graph.store, what.chunks, source))
        return Model(graph, None)
    container = model.container.reopened(source)
    return Model(container.graph, container)


def _index(before: Store, chunks: Iterable[Chunk], source: Source) -> Table | None:
    """The index of SOURCE, which is CHUNKS, where that can be had from the index of the file BEFORE."""
    if not before.has_table:
        return None
    from gdsurgeon.compare.written import WrittenFinder

    return WrittenFinder(before.table, ChunkSource(chunks, source.name)).table(source)
