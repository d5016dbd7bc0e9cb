"""Several edits: each edits the result of the previous edit, as if that had been written and read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import NamedTuple

from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.load import Model
from gdsurgeon.edits.claims import EditResult, checked_result, on_purpose
from gdsurgeon.errors import EditError, GdsurgeonError, Line, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.forms import Form, FormName, unsound, written
from gdsurgeon.proof.change import Step
from gdsurgeon.values import Data
from gdsurgeon.wire.output import Output
from gdsurgeon.wire.write import ChunkSource, spells

Edit = Callable[[Graph], EditResult]
FORMS: dict[str, FormName] = {"freeze": "graph", "to_savedmodel": "saved_model", "slim": "slim"}
"""The form of the model after edits that change it."""


class Instruction(NamedTuple):
    """An edit, and its options.

    Attributes:
        edit: called with the graph, once.
        called: its name in messages, such as a line of a script; '' if it is the only edit.
        functions: library functions that are edited instead of the graph.
        require_change: refuse the edit if nothing would change.
        changes_values: whether it changes values on purpose; then it does not claim equal values.
    """

    edit: Edit
    called: str = ""
    functions: tuple[str, ...] = ()
    require_change: bool = False
    changes_values: bool = False

    def apply(self, graph: Graph, *, check: bool) -> EditResult:
        """Edits the graph or its functions. With `check`, every changed node must be valid for its op.

        Raises:
            EditError: the edit is refused, or nothing would change.
            ValidationError: the result would not be valid.
        """
        try:
            if self.functions:
                from gdsurgeon.edits.functions import in_functions

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
    """Raises ValidationError if a changed node, also inside functions, is not valid for its op."""
    from gdsurgeon.analysis.checks.check import check_edited

    faults = check_edited(graph)
    for name, (body, _) in result.inside.items():
        for fault in check_edited(body):
            text = f"in the function {quoted(name)}: {fault}"
            faults.append(Remark(text, fault.code, function=name, **fault.facts))
    if faults:
        raise unsound("the result would not be a valid graph:", faults)


@dataclass(eq=False, repr=False)
class Carried(Data):
    """The result of several edits.

    Attributes:
        model: with the last edit that changed it.
        steps: the edits that changed something.
        idle: for each other edit, why nothing would change, with its name.
        served: see `Form.served`; of the steps before the last.
        form: of the result; see `gdsurgeon.operation.edit.Request`.
    """

    model: Model
    steps: list[Step] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    served: Sequence[str] | None = None
    form: FormName = "model"


def carry_out(model: Model, instructions: Sequence[Instruction], output: Output, *, check: bool) -> Carried:
    """Applies instructions, each to the result of the previous one.

    Args:
        model: its graph is edited.
        instructions: at least one.
        output: of the last result.
        check: check each result, and except for the last compare its differences with the claims of the edit.

    Raises:
        GdsurgeonError: the first error of an instruction, with the name of the instruction.
    """
    out, opened = Carried(model), model
    for instruction in instructions:
        if out.steps and opened is out.model:
            opened = _reopened(out, instruction.called, output, check=check)
            opened.graph.became = partial(what_became, out.steps)
        try:
            result = instruction.apply(opened.graph, check=check)
        except NothingToDo as idle:
            if instruction.require_change:
                raise
            out.idle.append(idle.message)
            continue
        form = FORMS.get(result.asked.edit) if result.asked is not None else None
        out.form = form or out.form
        if form == "graph":
            opened = opened._replace(container=None)
        out.model = opened
        out.steps.append(Step(opened.graph.pristine(), opened.graph, result, instruction.called))
    return out


def form_of(
    model: Model,
    result: EditResult,
    output: Output,
    form: FormName = "model",
    *,
    as_v1: bool = False,
    text: bool = False,
) -> Form:
    """Writes an edited model in a form, see `gdsurgeon.operation.edit.Request`; with `text`, a GraphDef as text.

    Raises:
        OutputError: it is larger than TensorFlow can load.
        EditError, InputError, ValidationError: the records around the graph cannot be written, or would not be valid.
    """
    if text or form == "graph" or (form == "model" and model.container is None):
        return written(model.graph, output, text=text)
    from gdsurgeon.operation.saved_models import edited_model, new_model

    if form == "model":
        assert model.container is not None
        return edited_model(model.container, result, as_v1=as_v1)
    return new_model(model, result, output, is_slim=form == "slim")


def is_undone(carried: Carried, first: Model, form: Form) -> bool:
    """Returns whether several edits cancel each other: the graph has the bytes of the file of `first`."""
    before, after = first.container, carried.model.container
    if len(carried.steps) < 2 or (before is None) != (after is None) or not spells(form.graph, first.graph.source):
        return False
    if before is None:
        return True
    return before.read_again(ChunkSource(form.chunks, first.graph.source_name)).around == before.meta.around


def together(steps: Sequence[Step], idle: Sequence[str] = ()) -> EditResult:
    """Returns the combined result of `steps`, at least one, for display, with a note for each of `idle`."""
    if len(steps) == 1 and not idle:
        return steps[0].result
    out = EditResult(reduce(Intent.then, (step.result.intent for step in steps)), ())
    for step in steps:
        result = step.result
        out.claims += result.claims
        out.told += result.told
        for own, lines in ((out.warnings, result.warnings), (out.notes, result.notes)):
            own += [Line("{place}: {line}", place=printable(step.called), line=printable(line)) for line in lines]
    out.notes += idle
    return out


def _reopened(carried: Carried, called: str, output: Output, *, check: bool) -> Model:
    """Returns the model as if it had been written and read again, for the edit `called`.

    With `check`, the differences of the last step are compared with its claims.

    Raises:
        EditError: the last step has copied variables: their checkpoint does not exist yet.
    """
    model, step = carried.model, carried.steps[-1]
    if model.graph.serving is not None and model.graph.serving.adds_keys:
        last = printable(step.called)
        line = Line("no edit can follow {last}, because its result has a checkpoint of its own", last=last)
        error = EditError(line, code="not-the-last-line")
        error.place_at(called)
        raise error
    try:
        form = form_of(model, step.result, output)
        if check:
            from gdsurgeon.proof.accounting import check_accounted

            check_accounted(model.graph, step.result, form.graph)
    except GdsurgeonError as error:
        error.place_at(step.called)
        raise
    carried.served = with_keys(carried.served, form.served)
    source = ChunkSource(form.chunks, model.graph.source_name)
    if model.container is not None:
        container = model.container.reopened(source)
        return Model(container.graph, container)
    return Model(Graph(source), None)


def with_keys(served: Sequence[str] | None, last: Sequence[str] | None) -> Sequence[str] | None:
    """Returns the keys of `served` and `last`, see `Form.served`."""
    return None if served is None and last is None else list(dict.fromkeys([*(served or ()), *(last or ())]))


def what_became(steps: Sequence[Step], name: str) -> str:
    """Returns which of `steps` renamed or removed the node `name`, such as ``line 3 renamed it to 'b'``; or ''.

    A name that ends in a slash is a scope; then its first renamed or removed node is described.
    """
    out: list[str] = []
    now = called = ""
    for step in steps:
        intent = step.result.intent
        gone = (*intent.renamed, *intent.removed)
        first = next((node for node in gone if node == name or (name[-1:] == "/" and node.startswith(name))), None)
        if first is not None:
            out, now, called = [], first, "it" if first == name else quoted(first)
        _, colon, number = step.called.rpartition(":")
        place = f"line {number}" if colon else printable(step.called)  # `fix.gds:3`, or the number of an edit
        if now in intent.renamed:
            now = intent.renamed[now]
            out.append(f"{place} to {quoted(now)}" if out else f"{place} renamed {called} to {quoted(now)}")
        elif now in intent.removed:
            out.append(f"{place} removed {'that' if out else called}")
            now = ""
    return ", ".join(out)
