"""The closing summary of an edit, and its report as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from gdsurgeon.errors import Json, printable
from gdsurgeon.graph.attrs import format_shape
from gdsurgeon.ops.dtypes import dtype_name
from gdsurgeon.text import change, counted, first_lines, labelled, listed, named, ops, renaming, size

if TYPE_CHECKING:
    from gdsurgeon.analysis.queries.signature import Signature, TensorInfo
    from gdsurgeon.comparison.intent import Intent
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.operation.edit import Outcome
    from gdsurgeon.proof.change import Step
    from gdsurgeon.proof.proof import OutputProof, Piece, Proof

MOST_LINES = 8
"""Outputs, renames and the like that are shown one a line; of the others the number is said."""

MOST_SCRIPT_LINES = 24
"""Lines of a script that are shown."""


def summary(outcome: Outcome) -> list[str]:
    """What has been done, a line each; the first names the output."""
    before, after = outcome.counts_before, outcome.counts_after
    what = printable(outcome.out)
    if outcome.request.dry_run:
        what += " (dry run: nothing written)"
    head = f"{what}  {size(outcome.size)}, {counted(after.nodes, 'node')}{change(before.nodes, after.nodes)}"
    if before.ops is not None and after.ops is not None:
        head += f", {counted(len(after.ops), 'op type')}{change(len(before.ops), len(after.ops))}"
    return [head, *labelled(_entries(outcome))]


def _entries(outcome: Outcome) -> Iterator[tuple[str, str]]:
    if outcome.before is not None and outcome.after is not None:
        yield from _interface("input", outcome.before.inputs, outcome.after.inputs, outcome)
        yield from _interface("output", outcome.before.outputs, outcome.after.outputs, outcome)
    yield from _intent(outcome)
    yield from _told(outcome.result.told)
    for note in outcome.result.notes:
        yield "note", printable(note)
    yield from proof_entries(outcome.proof)


def _told(told: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What edits have to tell; of the lines of a long script the first."""
    lines = sum(label.startswith("line ") for label, _ in told)
    seen = 0
    for label, text in told:
        seen += label.startswith("line ")
        if seen <= MOST_SCRIPT_LINES or not label.startswith("line "):
            yield label, printable(text)
        elif seen == MOST_SCRIPT_LINES + 1:
            yield "line", f"and {counted(lines - MOST_SCRIPT_LINES, 'line')} more"


def _interface(
    label: str, before: tuple[TensorInfo, ...], after: tuple[TensorInfo, ...], outcome: Outcome
) -> Iterator[tuple[str, str]]:
    """Each input or output; what has changed of it."""
    renamed = outcome.result.intent.renamed
    was = {renamed.get(info.name, info.name): info for info in before} if label == "input" else {}
    old = {info.name: info for info in before} | was
    changed = [info for info in after if old.get(info.name) != info]
    unchanged = len(after) - len(changed)
    for info in changed[:MOST_LINES]:
        previous = old.get(info.name)
        line = f"{printable(info.name)}  "
        if previous is None:
            line += info.spelt
        elif previous.spelt != info.spelt:
            line += f"{previous.spelt}  ->  {info.spelt}"
        else:
            line += info.spelt + (f"  (was {printable(previous.name)})" if previous.name != info.name else "")
        yield label, line
    if len(changed) > MOST_LINES:
        yield label, f"and {len(changed) - MOST_LINES:,} more"
    if unchanged:
        same = [info for info in after if old.get(info.name) == info]
        yield label, f"{listed((f'{printable(i.name)} {i.spelt}' for i in same), 4)}"


def _intent(outcome: Outcome) -> Iterator[tuple[str, str]]:
    intent = outcome.result.intent
    yield from _names_and_nodes(intent, _gained(outcome))
    for what, names in asdict(intent.functions).items():
        if names:
            yield what, f"{counted(len(names), 'function')}: {named(names)}"
    for name, (_, inner) in outcome.result.inside.items():
        yield from ((what, f"in {printable(name)}: {text}") for what, text in _names_and_nodes(inner.intent))
        yield from ((what, f"in {printable(name)}: {text}") for what, text in tensor_entries(inner.intent))
    yield from tensor_entries(intent)


def _gained(outcome: Outcome) -> dict[str, int] | None:
    """The ops of which there are more nodes than before; None where that is not known."""
    before, after = outcome.counts_before.ops, outcome.counts_after.ops
    if before is None or after is None:
        return None
    return {op: n - before.get(op, 0) for op, n in after.items() if n > before.get(op, 0)}


def _names_and_nodes(intent: Intent, gained: dict[str, int] | None = None) -> Iterator[tuple[str, str]]:
    for line in first_lines(list(intent.renamed.items()), MOST_LINES, show=renaming):
        yield "renamed", line
    if intent.added:
        are_all = gained is not None and sum(gained.values()) == len(intent.added)
        what = ops(gained) if gained is not None and are_all else named(intent.added)
        yield "added", f"{counted(len(intent.added), 'node')}: {what}"
    if intent.removed:
        yield "removed", f"{counted(len(intent.removed), 'node')}: {named(intent.removed)}"
    if intent.changed:
        yield "changed", f"{counted(len(intent.changed), 'node')}: {named(intent.changed)}"


def tensor_entries(intent: Intent) -> Iterator[tuple[str, str]]:
    """What tensors are called now, and which inputs read something else, by the names before."""
    for old, new in list(intent.moved.items())[:MOST_LINES]:
        yield "moved", renaming((old, new))
    if len(intent.moved) > MOST_LINES:
        yield "moved", f"and {counted(len(intent.moved) - MOST_LINES, 'other tensor')}"
    rewired = [slot for slot in intent.rewired if slot.old != slot.new]  # not what only has another node of the name
    origin = intent.origins()
    for slot in rewired[:MOST_LINES]:
        old = origin(slot.old) or slot.old
        was = f"{printable(old)} (now {printable(slot.old)})" if old == slot.new else printable(old)
        yield "rewired", f"{printable(slot.node)} input {slot.slot}: {was}  ->  {printable(slot.new)}"
    if len(rewired) > MOST_LINES:
        yield "rewired", f"and {counted(len(rewired) - MOST_LINES, 'other input')}"


def proof_entries(proof: Proof) -> Iterator[tuple[str, str]]:
    """What was executed, what it returned, and what that proves."""
    if proof.level == "none":
        yield "proven", "nothing: neither checked nor run"
        return
    if proof.level == "unchanged":
        yield "proven", "the graph is unchanged: not run"
        return
    if proof.level == "structure":
        yield "proven", "structure only: not run"
        return
    if proof.level == "load":
        yield "proven", f"it loads ({proof.runtime}, {proof.seconds:.1f} s); not run"
        yield from _elsewhere(proof)
        return
    last = proof.pieces[-1].proof if proof.pieces else proof
    if last.feeds:
        yield "fed", listed((f"{printable(n)} {t}" for n, t in last.feeds.items()), 4)
    yield from _outputs(proof.pieces[:-1], last)
    yield from left_out(proof)
    if proof.chance:
        yield "random", chance(proof)
    if proof.memory is not None:
        yield "measured", f"{size(proof.memory.edited)} at most, of a budget of {size(proof.memory.budget)}"
    where = f"({proof.where}, {proof.seconds:.1f} s)"
    for called, piece in [(p.called, p.proof) for p in proof.pieces] or [("", proof)]:
        place = f"{printable(called)}: " if proof.pieces else ""
        measured = piece.compared if not piece.judged else [output for output in piece.outputs if output.moved]
        yield from (("measured", place + _measured(output)) for output in measured[:MOST_LINES])
        yield "proven", f"{place}{_shown(piece)}{'' if place else f' {where}'}"
    if proof.pieces:
        yield "proven", f"in {len(proof.pieces)} pieces, each held against what the one before has made {where}"
    if proof.deployed is not None:
        yield "deployed", deployed(proof)
    yield from _elsewhere(proof)


def _outputs(earlier: Sequence[Piece], last: Proof) -> Iterator[tuple[str, str]]:
    """What the result returned, proven in the LAST piece; of EARLIER ones what was not compared."""
    between = [(f"{printable(p.called)}, ", o) for p in earlier for o in p.proof.outputs if o.comparison is None]
    found = [*between, *(("", output) for output in last.outputs)]
    for place, output in found[:MOST_LINES]:
        line = returned(output)
        line += f"  ({place}not compared: {printable(output.reason)})" if output.comparison is None else ""
        yield output_label(output), line
    yield from more_outputs([output for _, output in found])


def _shown(proof: Proof) -> str:
    """What running has shown."""
    counts = f"{compared_counts(proof)}, {proven_counts(proof)}"
    if proof.compared and not proof.judged:
        return f"it loads and runs: {compared_counts(proof)} measured, {proven_counts(proof)}, and nothing is claimed"
    by_graphs = [
        f"{equation} by the comparison of the graphs alone ({why})" for equation, why in proof.as_graphs.items()
    ]
    if proof.compared:
        return "; ".join([f"{proof.statement}: {counts}, {equality(proof)}", *by_graphs])
    if by_graphs:
        return "; ".join(by_graphs)
    moved = [output for output in proof.outputs if output.moved is not None and not output.inside]
    if moved:
        return f"it loads and runs: {counted(len(moved), 'output')} measured, {proven_counts(proof)}"
    reasons = listed(dict.fromkeys(printable(o.reason) for o in proof.outputs), 2)
    return f"it loads and runs: {counted(len(proof.outputs), 'output')}, none compared ({reasons})"


def _elsewhere(proof: Proof) -> Iterator[tuple[str, str]]:
    """What others make of the result."""
    if proof.served:
        yield "served", f"tf.saved_model.load {proof.served}"
    if proof.released:
        yield "run in", proof.released


def output_label(output: OutputProof) -> str:
    """What stands before the line of an output, of what it was decided by, or of a place inside that was compared."""
    return "inside" if output.site else "behind" if output.inside else "returned"


def returned(output: OutputProof) -> str:
    """An output with its type, and its value where that is small."""
    line = f"{printable(output.after)}  {dtype_name(output.dtype)} {format_shape(output.shape)}"
    return line + (f" = {printable(output.value)}" if output.value else "")


def more_outputs(outputs: Sequence[OutputProof]) -> Iterator[tuple[str, str]]:
    """How many of OUTPUTS are not listed."""
    rest = outputs[MOST_LINES:]
    if rest:
        labels = {*map(output_label, rest)}
        label = next(each for each in ("inside", "behind", "returned") if each in labels)
        yield label, f"and {counted(len(rest), 'output' if label == 'returned' else 'tensor')} more"


def left_out(proof: Proof) -> Iterator[tuple[str, str]]:
    """The outputs that were not run."""
    for name, reason in proof.skipped[:3]:
        yield "not run", f"{printable(name)}: {printable(reason)}"
    if len(proof.skipped) > 3:
        yield "not run", f"and {counted(len(proof.skipped) - 3, 'output')} more"


def chance(proof: Proof, *, two: bool = True) -> str:
    """What becomes of the random ops, where one graph is run, or TWO on the same draws."""
    drawn = [printable(name) for name in proof.chance if name in proof.drawn]
    others = [name for name in proof.chance if name not in proof.drawn]
    inside = [printable(name) for name in others if name in proof.enclosed]
    alone = [printable(name) for name in others if name not in proof.enclosed]
    what = "drawn once, and fed to both" if two else "drawn anew in each run"
    parts = [f"{listed(drawn, 3)}: {what}"] if drawn else []
    parts += [f"{listed(inside, 3)}: in a loop or a function"] if inside else []
    parts += [f"{listed(alone, 3)}: drawn by one of the two alone"] if alone else []
    return "; ".join(parts)


def compared_counts(proof: Proof) -> str:
    """``1 output``, and what decided it or was compared inside, where there is such."""
    labels = Counter(map(output_label, proof.compared))
    told = [counted(labels["returned"], "output")]
    told += [f"{counted(labels['behind'], 'tensor')} behind it"] if labels["behind"] else []
    told += [f"{counted(labels['inside'], 'tensor')} inside"] if labels["inside"] else []
    return " and ".join(filter(None, (", ".join(told[:-1]), told[-1])))


def proven_counts(proof: Proof) -> str:
    """``2 samples (batches of 1 and 2)``."""
    batches = f" (batches of {' and '.join(map(str, proof.batches))})" if len(proof.batches) > 1 else ""
    return counted(proof.samples, "sample") + batches


def _measured(output: OutputProof) -> str:
    """How far an output is from what it was, and which tolerance would have passed."""
    from gdsurgeon.proof.proof import difference

    found = output.comparison or output.moved
    assert found is not None
    how = "the same" if found.equal else difference(found)
    return f"{printable(output.after)}: {how}"


def equality(proof: Proof) -> str:
    """How equal the outputs are."""
    if proof.onednn_difference:
        return f"bit-identical without oneDNN, and with its kernels but for up to {proof.onednn_difference:.3g}"
    if proof.of_largest and proof.largest_difference:
        part = f"{proof.largest_part:.2g} of the largest element of its tensor (allowed was {proof.of_largest:g})"
        return f"nothing differs by more than {part}"
    if not proof.rtol and not proof.atol:
        return "equal, but for the signs of zeros" if proof.of_largest and not proof.is_exact else "bit-identical"
    if not proof.largest_difference:
        return f"equal (allowed were rtol {proof.rtol:g}, atol {proof.atol:g})"
    return f"within rtol {proof.rtol:g}, atol {proof.atol:g}: they differ by up to {proof.largest_difference:.3g}"


def deployed(proof: Proof) -> str:
    """How the graphs compare as TensorFlow deploys them."""
    found = proof.deployed
    assert found is not None
    if found.why_not:
        return f"optimised by Grappler it was not compared: {printable(found.why_not)}"
    same = "bit-identical" if found.is_exact else "equal, but for the signs of zeros"
    if found.difference:
        same = f"within rtol and atol {found.tolerance:g}: they differ by up to {found.difference:.3g}"
    if found.difference and found.of_largest:
        part = f"{found.difference:.2g} of the largest element of its tensor"
        same = f"no output differs by more than {part} (allowed was {found.tolerance:g})"
    if found.is_both:
        return f"both optimised by Grappler, with the kernels that TensorFlow takes: {same}"
    return f"optimised by Grappler, with the kernels that TensorFlow takes, and the original as it is written: {same}"


def report(outcome: Outcome, command: str, error: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """The whole outcome for machines; ERROR is what kept the output from appearing, if something did."""
    return {
        "command": command,
        "passed": error is None,
        "error": error,
        "model": outcome.request.model,
        "output": outcome.out,
        "changed": not outcome.idle,
        "idle": outcome.idle or None,
        "dry_run": outcome.request.dry_run,
        "bytes": outcome.size,
        "nodes": {"before": outcome.counts_before.nodes, "after": outcome.counts_after.nodes},
        "ops": {"before": outcome.counts_before.ops, "after": outcome.counts_after.ops},
        "before": signature_json(outcome.before),
        "after": signature_json(outcome.after),
        "edit": _edit_json(outcome.result),
        **({"steps": [_step_json(step) for step in outcome.steps]} if command == "apply" else {}),
        "claims": [type(claim).__name__ for claim in outcome.result.claims],
        "proof": outcome.proof.as_json(),
        "warnings": outcome.warnings,
        "seconds": round(outcome.seconds, 3),
    }


def _step_json(step: Step) -> dict[str, Json]:
    result = step.result
    return {
        "called": step.called,
        "asked": result.asked.edit.replace("_", "-") if result.asked is not None else None,
        "edit": _edit_json(result),
        "claims": [type(claim).__name__ for claim in result.claims],
        "warnings": result.warnings,
    }


def _edit_json(result: EditResult) -> dict[str, Json]:
    inside = {name: _intent_json(inner.intent) for name, (_, inner) in result.inside.items()}
    return {
        **_intent_json(result.intent),
        **({"inside": inside} if inside else {}),
        "notes": result.notes,
        **result.facts,
    }


def _intent_json(intent: Intent) -> dict[str, Json]:
    return {
        "renamed": intent.renamed,
        "added": intent.added,
        "removed": intent.removed,
        "rewired": [slot._asdict() for slot in intent.rewired],
        "changed": intent.changed,
        "moved": intent.moved,
        "functions": asdict(intent.functions) | {"renamed": intent.renamed_functions},
    }


def signature_json(signature: Signature | None) -> dict[str, Json] | None:
    """Inputs and outputs; an unknown dimension is null, an unknown shape too."""
    if signature is None:
        return None
    return {
        "inputs": [info.as_json() for info in signature.inputs],
        "outputs": [info.as_json() for info in signature.outputs],
    }
