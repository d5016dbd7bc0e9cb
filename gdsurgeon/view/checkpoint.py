"""The printed lines about a checkpoint: its tensors, the verification, the changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gdsurgeon.container.checkpoint.slices import spell
from gdsurgeon.errors import Json, printable
from gdsurgeon.graph.attrs import format_shape
from gdsurgeon.text import Entry, columns, counted, renaming, size
from gdsurgeon.view.report import to_json

if TYPE_CHECKING:
    from gdsurgeon.container.checkpoint.stored import Checkpoint, StoredTensor, Verified
    from gdsurgeon.operation.checkpoint import CheckpointOutcome
    from gdsurgeon.operation.convert import Converted


def lines(checkpoint: Checkpoint) -> Iterator[str]:
    """Yields one line for each tensor: its key, dtype and shape, and its number of slices if it is sliced."""
    return columns([(printable(key), _told(checkpoint.tensor(key))) for key in checkpoint.keys], indent="")


def _told(tensor: StoredTensor) -> str:
    slices = f"  {counted(len(tensor.slices), 'slice')}" if tensor.slices else ""
    return f"{tensor.dtype.name} {format_shape(tensor.shape)}{slices}"


def as_json(checkpoint: Checkpoint) -> dict[str, Json]:
    """Returns the content of the checkpoint as JSON."""
    tensors = [
        to_json(tensor, "key", "shape", dtype="dtype.name") | {"slices": [spell(part) for part in tensor.slices]}
        for tensor in map(checkpoint.tensor, checkpoint.keys)
    ]
    return to_json(checkpoint, "prefix", "form") | {"tensors": tensors}


def verified(checkpoint: Checkpoint, found: Verified) -> str:
    """Returns the result of a verification without faults."""
    unused = f"; {size(found.unused)} belong to no tensor" if found.unused else ""
    what = f"{counted(found.tensors, 'tensor')}, {size(found.nbytes)}"
    return f"{printable(checkpoint.prefix)}  {what}: all checksums are correct{unused}"


def verified_json(checkpoint: Checkpoint, found: Verified) -> dict[str, Json]:
    """Returns the result of the verification as JSON, including the faults."""
    facts = to_json(found, "tensors", "unused", "faults", bytes="nbytes")
    return {"prefix": checkpoint.prefix, "passed": not found.faults, **facts}


def summary(outcome: CheckpointOutcome, *, dry_run: bool) -> tuple[str, list[Entry]]:
    """Returns the first line, which names the output, and the entries with the changes and the proof."""
    what = printable(outcome.out) + (" (dry run: nothing written)" if dry_run else "")
    compared = outcome.compared
    what += f"  {counted(compared.tensors, 'tensor')}, {counted(outcome.shards, 'shard')}"
    return f"{what}, {size(outcome.written)} written", list(_entries(outcome))


def _entries(outcome: CheckpointOutcome) -> Iterator[Entry]:
    renamed = [*map(renaming, outcome.renamed.items())]
    if renamed:
        yield Entry("renamed", counted(len(renamed), "tensor") if len(renamed) > 1 else "", renamed)
    if outcome.dropped:
        yield Entry("dropped", counted(len(outcome.dropped), "tensor"), outcome.dropped)
    if outcome.valued:
        yield Entry("set", "", outcome.valued)
    if outcome.followed:
        yield Entry("changed", "the object graph: objects find their values under the new keys")
    compared = outcome.compared
    how = [f"{size(compared.read)} read back"] if compared.read else []
    how += [f"{size(compared.shared)} in the unchanged files"] if compared.shared else []
    what = f"{counted(compared.tensors, 'tensor')}, {', '.join(how) or 'no bytes'}"
    yield Entry("proven", f"tensors identical: {what} ({outcome.seconds:.1f} s)")


def outcome_json(outcome: CheckpointOutcome) -> dict[str, Json]:
    """Returns the outcome as JSON."""
    found = to_json(
        outcome, "shards", "written", "renamed", "dropped", "warnings",
        output="out", set="valued", object_graph_changed="followed", tensors="compared.tensors", nothing_to_do="idle",
    )  # fmt: skip
    return found | {"seconds": round(outcome.seconds, 3)}


def converted_summary(done: Converted, model: str, *, dry_run: bool) -> tuple[str, list[Entry]]:
    """Returns the first line, which names the output, and the entries with the input and the proof."""
    what = printable(done.out) + (" (dry run: nothing written)" if dry_run else "")
    return f"{what}  {_form(done.is_text)} {done.kind}, {size(done.after)}", [
        Entry("of", f"{model}, {_form(done.was_text)}, {size(done.before)}"),
        Entry("proven", f"{_proof(done)} ({done.seconds:.1f} s)"),
    ]


def _proof(done: Converted) -> str:
    return "the file is copied" if done.idle else f"read back: field by field equal to the input {done.kind}"


def converted_json(done: Converted, model: str) -> dict[str, Json]:
    """Returns the outcome of the conversion as JSON."""
    return {
        "model": model,
        **to_json(done, "kind", "warnings", output="out", nothing_to_do="idle"),
        "from": _form(done.was_text),
        "to": _form(done.is_text),
        "bytes": to_json(done, "before", "after"),
        "seconds": round(done.seconds, 3),
    }


def _form(is_text: bool) -> str:
    return "text" if is_text else "binary"
