"""The closing summary of an edit, and its report as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gdsurgeon.errors import Json, printable
from gdsurgeon.graph.attrs import format_shape
from gdsurgeon.ops.dtypes import dtype_name
from gdsurgeon.ops.kinds import ASSIGNMENTS
from gdsurgeon.text import Entry, change, counted, listed, renaming, size
from gdsurgeon.view.report import to_json

if TYPE_CHECKING:
    from gdsurgeon.analysis.queries.signature import TensorInfo
    from gdsurgeon.compare.intent import Intent
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.operation.edit import Outcome
    from gdsurgeon.proof.change import Step
    from gdsurgeon.proof.proof import Deployed, OutputProof, Piece, Proof

FEW = 3
"""Inputs or outputs up to which savers are not looked for."""


def summary(outcome: Outcome) -> tuple[str, list[Entry]]:
    """Returns the first line, which names the output, and the entries with the changes and the proof."""
    before, after = outcome.counts_before, outcome.counts_after
    what = printable(outcome.out)
    if outcome.request.dry_run:
        what += " (dry run: nothing written)"
    head = f"{what}  {size(outcome.size)}, {counted(after.nodes, 'node')}{change(before.nodes, after.nodes)}"
    if before.ops is not None and after.ops is not None:
        head += f", {counted(len(after.ops), 'op type')}{change(len(before.ops), len(after.ops))}"
    return head, list(_entries(outcome))


def _entries(outcome: Outcome) -> Iterator[Entry]:
    if outcome.before is not None and outcome.after is not None:
        yield from _interface("input", outcome.before.inputs, outcome.after.inputs, outcome)
        yield from _interface("output", outcome.before.outputs, outcome.after.outputs, outcome)
    yield from _intent(outcome)
    yield from outcome.result.told
    for note in outcome.result.notes:
        yield Entry("note", note)
    yield from proof_entries(outcome.proof)


def _interface(
    label: str, before: tuple[TensorInfo, ...], after: tuple[TensorInfo, ...], outcome: Outcome
) -> Iterator[Entry]:
    """Yields the inputs or outputs that changed, and those that did not.

    Assignments and the tensors of savers are only counted.
    """
    aside = _aside(after, outcome)
    renamed = outcome.result.intent.renamed
    was = {renamed.get(info.name, info.name): info for info in before} if label == "input" else {}
    old = None if after == before else {info.name: info for info in before} | was
    same: list[TensorInfo] = []
    for info in after:
        if aside and info in aside:
            continue
        previous = info if old is None else old.get(info.name)
        if previous == info:
            same.append(info)
            continue
        line = f"{info.name}  "
        if previous is None:
            line += info.spelt
        elif previous.spelt != info.spelt:
            line += f"{previous.spelt}  ->  {info.spelt}"
        else:
            line += info.spelt + (f"  (was {previous.name})" if previous.name != info.name else "")
        yield Entry(label, line)
    if same:
        yield Entry(label, f"{len(same):,} unchanged" if len(same) > 1 else "", _Texts(same))
    if aside:
        count = f"{counted(len(aside), 'assignment')} of variables or tensors of savers"
        yield Entry(label, count, _Texts([*aside]))


class _Texts(Sequence[str]):
    """Tensors as text, which is made when it is read: a brief summary shows few of many tensors."""

    def __init__(self, tensors: Sequence[TensorInfo]) -> None:
        self._tensors = tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return _Texts(self._tensors[key])
        return f"{self._tensors[key].name} {self._tensors[key].spelt}"


def _aside(tensors: Sequence[TensorInfo], outcome: Outcome) -> dict[TensorInfo, None]:
    """Returns the tensors that only initialize or save variables; none if all do."""
    from gdsurgeon.analysis.queries.training import saver_of, saver_scopes

    scopes = saver_scopes(outcome.steps[-1].after) if outcome.steps and len(tensors) > FEW else []
    found = dict.fromkeys(t for t in tensors if t.op in ASSIGNMENTS or (scopes and saver_of(t.name, scopes)))
    return found if len(found) < len(tensors) else {}


def _intent(outcome: Outcome) -> Iterator[Entry]:
    intent = outcome.result.intent
    yield from _nodes(intent)
    for what, names in asdict(intent.functions).items():
        if names:
            yield Entry(what, counted(len(names), "function"), list(names))
    for name, (_, inner) in outcome.result.inside.items():
        for label, text, names in (*_nodes(inner.intent), *tensor_entries(inner.intent)):
            yield Entry(label, f"in {name}: {text}".removesuffix(": "), names)
    yield from tensor_entries(intent)


def _several(label: str, noun: str, items: list[str]) -> Iterator[Entry]:
    """Yields an entry with `items`, if there are any, and their number if there are several."""
    if items:
        yield Entry(label, counted(len(items), noun) if len(items) > 1 else "", items)


def _nodes(intent: Intent) -> Iterator[Entry]:
    yield from _several("renamed", "node", [*map(renaming, intent.renamed.items())])
    for label, names in (("added", intent.added), ("removed", intent.removed), ("changed", intent.changed)):
        if names:
            yield Entry(label, counted(len(names), "node"), names)


def tensor_entries(intent: Intent) -> Iterator[Entry]:
    """Yields renamed tensors, and inputs that read a different tensor, with the names before the edit."""
    yield from _several("moved", "tensor", [*map(renaming, intent.moved.items())])
    origin = intent.origins()
    lines = []
    for slot in intent.rewired:
        if slot.old != slot.new:  # else only the node has a different name
            old = origin(slot.old) or slot.old
            was = f"{old} (now {slot.old})" if old == slot.new else old
            lines.append(f"{slot.node} input {slot.slot}: {was}  ->  {slot.new}")
    yield from _several("rewired", "input", lines)


def proof_entries(proof: Proof) -> Iterator[Entry]:
    """Yields the inputs and outputs of the runs, and the equations that they prove."""
    unproven = {
        "none": "nothing: the result was neither checked nor run",
        "unchanged": "the graph is unchanged: not run",
        "structure": "structure only: not run",
        "load": f"the result loads: not run ({proof.runtime}, {proof.seconds:.1f} s)",
    }
    if proof.level in unproven:
        yield Entry("proven", unproven[proof.level])
        yield from _loaded_elsewhere(proof)
        return
    last = proof.pieces[-1].proof if proof.pieces else proof
    if last.feeds:
        yield Entry("fed", "", [f"{name} {text}" for name, text in last.feeds.items()])
    yield from _outputs(proof.pieces[:-1], last)
    yield from left_out(proof)
    if proof.random_nodes:
        yield Entry("random", chance(proof))
    if proof.memory is not None:
        yield Entry("measured", f"{size(proof.memory.edited)} at most, of a budget of {size(proof.memory.budget)}")
    parts = f"{len(proof.pieces)} proofs, " if proof.pieces else ""
    where = f" ({parts}{proof.where}, {proof.seconds:.1f} s)"
    for called, piece in [(p.called, p.proof) for p in proof.pieces] or [("", proof)]:
        place = f"{called}: " if proof.pieces else ""
        measured = piece.compared if not piece.judged else [output for output in piece.outputs if output.moved]
        yield from (Entry("measured", place + _measured(output)) for output in measured)
        first, *others = _shown(piece)
        yield Entry("proven", f"{place}{first}{where}")
        where = ""
        yield from (Entry("proven", f"{place}{line}") for line in others)
    if proof.deployed is not None:
        yield Entry("optimized", optimized(proof.deployed))
    yield from _loaded_elsewhere(proof)


def _outputs(earlier: Sequence[Piece], last: Proof) -> Iterator[Entry]:
    """Yields the result's tensors that the last proof ran, and the outputs that earlier proofs did not compare."""
    between = [(f"{p.called}, ", o) for p in earlier for o in p.proof.outputs if o.comparison is None]
    for place, output in (*between, *(("", output) for output in last.outputs)):
        line = returned(output)
        line += f"  ({place}not compared: {output.reason})" if output.comparison is None else ""
        yield Entry(output_label(output), line)


def _shown(proof: Proof) -> list[str]:
    """Returns the proven equations. The first line adds the numbers of tensors and input sets, and the closeness."""
    counts = f"{compared_counts(proof)}, {input_sets(proof)}"
    by_graphs = [f"{equation}, by comparing the graphs only ({why})" for equation, why in proof.as_graphs.items()]
    if proof.compared and not proof.judged:
        return [f"the result runs: {counts}, differences measured but not judged"]
    if proof.compared:
        first, *others = [*proof.claims, *by_graphs]
        return [f"{first}: {counts}, {equality(proof)}", *others]
    if by_graphs:
        return by_graphs
    moved = [output for output in proof.outputs if output.moved is not None and not output.inside]
    if moved:
        return [f"the result runs: {counted(len(moved), 'output')} measured, {input_sets(proof)}"]
    reasons = listed(dict.fromkeys(o.reason for o in proof.outputs), 2)
    return [f"the result runs: {counted(len(proof.outputs), 'output')}, none compared ({reasons})"]


def _loaded_elsewhere(proof: Proof) -> Iterator[Entry]:
    """Yields the other loaders and releases that loaded or ran the result."""
    if proof.served:
        yield Entry("loader", f"tf.saved_model.load {proof.served}")
    if proof.released:
        yield Entry("run in", proof.released)


def output_label(output: OutputProof) -> str:
    """Returns the label of an output, or of an inner tensor that was also compared."""
    return "also compared" if output.inside or output.site else "returned"


def returned(output: OutputProof) -> str:
    """Returns an output with its dtype and shape, and its value if that is small."""
    line = f"{output.after}  {dtype_name(output.dtype)} {format_shape(output.shape)}"
    return line + (f" = {output.value}" if output.value else "")


def left_out(proof: Proof) -> Iterator[Entry]:
    """Yields the outputs that were not run, with the reasons."""
    for name, reason in proof.skipped:
        yield Entry("not run", f"{name}: {reason}")


def chance(proof: Proof, *, two: bool = True) -> str:
    """Returns how the values of random ops were chosen in a run of one graph, or of two."""
    from gdsurgeon.proof.proof import ENCLOSED, FED

    sampled, inside, single = (
        [name for name, kind in proof.random_nodes.items() if kind == wanted] for wanted in (FED, ENCLOSED, "")
    )
    what = "sampled once and fed to both graphs" if two else "sampled in each run"
    parts = [f"{listed(sampled, 3)}: {what}"] if sampled else []
    parts += [f"{listed(inside, 3)}: in a loop or a function"] if inside else []
    parts += [f"{listed(single, 3)}: only in one of the graphs"] if single else []
    return "; ".join(parts)


def compared_counts(proof: Proof) -> str:
    """Returns the numbers of compared tensors: ``1 output``, or ``1 output and 2 inner tensors``."""
    inner = sum(output_label(output) != "returned" for output in proof.compared)
    outputs = len(proof.compared) - inner
    counts = [counted(outputs, "output")] if outputs else []
    return " and ".join([*counts, *([counted(inner, "inner tensor")] if inner else [])])


def input_sets(proof: Proof) -> str:
    """Returns the number of input sets and their batch sizes: ``2 input sets (batch 1 and 2)``."""
    batches = f" (batch {' and '.join(map(str, proof.batches))})" if len(proof.batches) > 1 else ""
    return counted(proof.samples, "input set") + batches


def _measured(output: OutputProof) -> str:
    """Returns the difference of an output from its value before, and the tolerance that would pass."""
    from gdsurgeon.proof.proof import difference

    found = output.comparison or output.moved
    assert found is not None
    return f"{output.after}: {'bit-identical' if found.equal else difference(found, of_largest=output.moved is None)}"


def equality(proof: Proof) -> str:
    """Returns how closely the outputs agree."""
    if proof.onednn_difference:
        return f"bit-identical without oneDNN, {largest(proof.onednn_difference)} with oneDNN"
    rtol, atol, part = proof.tolerance
    if part and proof.largest_difference:
        return of_largest(part, proof.largest_part)
    if not rtol and not atol:
        return "equal except for signs of zeros" if part and not proof.is_exact else "bit-identical"
    allowed = ", ".join(f"{name} {bound:g}" for name, bound in (("rtol", rtol), ("atol", atol)) if bound)
    if rtol == atol:
        allowed = f"rtol and atol {rtol:g}"
    if not proof.largest_difference:
        return f"equal (allowed: {allowed})"
    return f"within {allowed} ({largest(proof.largest_difference)})"


def largest(difference: float) -> str:
    """Returns the difference as text: ``largest absolute difference 0.01``."""
    return f"largest absolute difference {difference:.3g}"


def of_largest(tolerance: float, found: float) -> str:
    """Returns the bound for each tensor: ``within 0.001 of the largest element (found 2e-05)``."""
    return f"within {tolerance:g} of the largest element (found {found:.2g})"


def optimized(found: Deployed) -> str:
    """Returns the comparison of the graphs after TensorFlow optimized them."""
    if found.why_not:
        return f"by Grappler, not compared: {found.why_not}"
    how = "bit-identical" if found.is_exact else "equal except for signs of zeros"
    if found.difference:
        how = f"within rtol and atol {found.tolerance:g} ({largest(found.difference)})"
        how = of_largest(found.tolerance, found.difference) if found.of_largest else how
    return f"by Grappler, {'both graphs' if found.is_both else 'only the result'}: {how}"


def report(outcome: Outcome, command: str, error: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Returns the whole outcome as JSON; `error` is the error that prevented the output, if any."""
    steps = {"steps": [_step_json(step) for step in outcome.steps]} if command == "apply" else {}
    return {
        "command": command,
        "passed": error is None,
        "error": error,
        **to_json(
            outcome, "before", "after", "warnings",
            model="request.model", output="out", nothing_to_do="idle", dry_run="request.dry_run", bytes="size",
        ),
        "changed": not outcome.idle,
        "nodes": {"before": outcome.counts_before.nodes, "after": outcome.counts_after.nodes},
        "ops": {"before": outcome.counts_before.ops, "after": outcome.counts_after.ops},
        **_result_json(outcome.result),
        **steps,
        "proof": outcome.proof.as_json(),
        "seconds": round(outcome.seconds, 3),
    }  # fmt: skip


def _step_json(step: Step) -> dict[str, Json]:
    asked = step.result.asked
    called = {"called": step.called, "asked": asked.edit.replace("_", "-") if asked is not None else None}
    return {**called, **_result_json(step.result), "warnings": step.result.warnings}


def _result_json(result: EditResult) -> dict[str, Json]:
    inside = {name: _intent_json(inner.intent) for name, (_, inner) in result.inside.items()}
    bodies = {"function_bodies": inside} if inside else {}
    edit = {**_intent_json(result.intent), **bodies, "notes": result.notes, **result.facts}
    return {"edit": edit, "claims": [type(claim).__name__ for claim in result.claims]}


def _intent_json(intent: Intent) -> dict[str, Json]:
    return {
        **to_json(intent, "renamed", "added", "removed", "rewired", "changed", "moved"),
        "functions": to_json(intent.functions) | {"renamed": intent.renamed_functions},
    }
