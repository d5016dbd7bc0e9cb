"""Several edits, each of the result of the previous edit, as if that had been written and read again; and its forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    OutputError,
    Remark,
    ValidationError,
    printable,
    quoted,
)
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.change import Step
from gdsurgeon.values import Data
from gdsurgeon.wire.output import Output
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, read_chunks, resolved, size_of, spells

FormName = Literal["model", "graph", "saved_model", "slim"]
"""See `gdsurgeon.operation.edit.Request`."""
LARGEST = (1 << 31) - 1
"""Bytes of the largest GraphDef that TensorFlow can load."""
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
        form: of the result; see `gdsurgeon.operation.edit.Request`.
    """

    edit: Edit
    called: str = ""
    functions: tuple[str, ...] = ()
    require_change: bool = False
    form: FormName = "model"
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
        facts = {"faults": [fault.as_json() for fault in faults[:100]]}
        details = tuple(faults[:100])
        raise ValidationError(
            "the result would not be a valid graph:", details=details, code="unsound-graph", facts=facts
        )


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
        form = instruction.form
        if form == "model" and result.asked is not None:
            form = FORMS.get(result.asked.edit, "model")
        out.form = form if form != "model" else out.form
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
    intent = steps[0].result.intent
    for step in steps[1:]:
        intent = intent.then(step.result.intent)

    def placed(step: Step, lines: Sequence[str]) -> list[str]:
        return [Line("{place}: {line}", place=printable(step.called), line=printable(line)) for line in lines]

    return EditResult(
        intent,
        tuple(claim for step in steps for claim in step.result.claims),
        warnings=[warning for step in steps for warning in placed(step, step.result.warnings)],
        notes=[*(note for step in steps for note in placed(step, step.result.notes)), *idle],
        told=[line for step in steps for line in step.result.told],
    )


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


# -- the forms of a result ----------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Form(Data):
    """An edited model in the form in which it is written.

    Attributes:
        chunks: of the file.
        graph: chunks of the binary graph in it; the same list if the file is only this graph.
        check: compares the staged file with the expected model, and raises ValidationError if it differs. A graph is
            compared elsewhere (`check_accounted`).
        served: keys of the signatures whose functions for tf.saved_model.load changed; None: it need not load the file.
    """

    chunks: list[Chunk]
    graph: list[Chunk]
    check: Callable[[str], None] = lambda _staged: None
    served: Sequence[str] | None = None

    def loads_from(self, staged: str) -> str | bytes:
        """Returns the binary graph for the proof: the path of its file, or its bytes."""
        return staged if self.chunks is self.graph else read_chunks(self.graph)


def written(graph: Graph, output: Output, *, text: bool) -> Form:
    """Returns a graph as it is written: as text, or binary. The proof of a text loads the graph that is read from it.

    Raises:
        OutputError: it is larger than TensorFlow can load.
    """
    chunks = list(resolved(graph.chunks()))
    check_size(graph, chunks)
    if not text:
        return Form(chunks, chunks)
    if graph.text is not None and not graph.is_changed:
        return Form([SourceSpan(graph.text, 0, graph.text.size)], [read_chunks(chunks)])
    from gdsurgeon.wire.text import to_binary, to_text

    data = to_text(read_chunks(chunks))
    return Form([data], [to_binary(data, output.name)])


def check_size(graph: Graph, chunks: Sequence[Chunk]) -> None:
    """Raises OutputError if a file with `chunks`, which contains `graph`, is larger than TensorFlow can load."""
    size = size_of(chunks)
    if size <= LARGEST:
        return
    sizes = [(node.record.end - node.record.start, node) for node in graph.nodes() if node.record is not None]
    details = tuple(
        f"{printable(node.name)} ({printable(node.op)}): {length / 2**20:,.1f} MiB"
        for length, node in sorted(sizes, key=lambda item: item[0])[:-6:-1]
        if length > 1 << 20
    )
    raise OutputError(
        f"the result would be {size / 2**30:.2f} GiB, but TensorFlow loads no GraphDef of 2 GiB or more; "
        "the largest nodes:",
        details=details,
        code="too-large",
    )
