"""gdsurgeon checkpoint."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command, output_option
from gdsurgeon.cli.complete import checkpoint_keys, files, paired
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import answer_options, pair, pairs
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import InputError, UsageError, printable, quoted
from gdsurgeon.text import counted, first_lines, size

if TYPE_CHECKING:
    from gdsurgeon.checkpoint.stored import Checkpoint
    from gdsurgeon.operation.checkpoint import CheckpointRequest


MOST_FAULTS = 100
"""Maximum number of faults that are listed."""


@click.command("checkpoint", cls=Command)
@partial(answer_options, metavar="PREFIX")
@known_option("--list", "listing", help="List the tensors; this is the default.")
@known_option("--verify", "verifying")
@known_option("--rename", "renames", shell_complete=paired(checkpoint_keys), help="Rename the key of a tensor.")
@known_option("--rename-scope", "scopes")
@known_option("--regex", "patterns")
@known_option("--map-file", "file", shell_complete=files)
@known_option("--drop", "drops")
@known_option("--set", "values", shell_complete=paired(checkpoint_keys))
@output_option("-o", "--output", "out", shell_complete=files, help="Write to the new prefix OUT.")
@output_option("-i", "--in-place", help="Replace the index; the shards are kept.")
@output_option("--backup", help="With -i: keep the old index, with SUFFIX added to its name.")
@output_option("-n", "--dry-run")
@output_option("--require-change")
def command(
    model: str,
    as_json: bool,
    verbose: bool,
    listing: bool,
    verifying: bool,
    renames: tuple[str, ...],
    scopes: tuple[str, ...],
    patterns: tuple[str, ...],
    file: str | None,
    drops: tuple[str, ...],
    values: tuple[str, ...],
    out: str | None,
    in_place: bool,
    backup: str | None,
    dry_run: bool,
    require_change: bool,
) -> None:
    """List, verify or edit the tensors of a checkpoint.

    The checkpoint is PREFIX.index with PREFIX.data-*, or a V1 file. A change of keys does not read or copy tensors: the
    new checkpoint gets hard links to the shards. All edits are made in one step. Each edit names the key that a tensor
    has in PREFIX, not its new key. The object graph of tf.train.Checkpoint is updated.

    Proof: the new checkpoint is read back, and its tensors are identical.

    \b
    Examples:
      gdsurgeon checkpoint model.ckpt-100 --list
      gdsurgeon checkpoint model.ckpt-100 --rename-scope old_net=net --drop /Adam -o net.ckpt
      gdsurgeon checkpoint saved/variables/variables --verify
    """
    del verbose
    wanted = pairs(renames, file)
    edits = bool(wanted or scopes or patterns or drops or values)
    if listing + verifying + edits > 1:
        raise UsageError("give only one of --list, --verify and edits", code="conflicting-options")
    if not edits:
        if out is not None or in_place or backup is not None or dry_run or require_change:
            raise UsageError(
                "nothing to write: give --rename, --rename-scope, --regex, --map-file, --drop or --set",
                code="missing-option",
            )
        _look(model, as_json, verifying)
        return
    from gdsurgeon.operation.checkpoint import CheckpointRequest

    _edit(
        CheckpointRequest(
            prefix=model,
            renames=wanted,
            scopes=[pair(text, "--rename-scope") for text in scopes],
            patterns=[pair(text, "--regex", last=True) for text in patterns],
            drops=drops,
            values=[_file(text) for text in values],
            out=out,
            in_place=in_place,
            backup=backup,
            dry_run=dry_run,
            require_change=require_change,
        ),
        as_json,
    )


def _file(text: str) -> tuple[str, str]:
    """Returns the key and the file of ``KEY=@FILE.npy``."""
    key, at, path = text.partition("=@")
    if not key or not at or not path.endswith(".npy"):
        raise UsageError(
            f"--set {quoted(text)} is not a pair KEY=@FILE.npy",
            code="not-a-pair",
            facts={"option": "--set", "value": text},
        )
    return key, path


def _look(prefix: str, as_json: bool, verifying: bool) -> None:
    from gdsurgeon.checkpoint.open import open_checkpoint

    with open_checkpoint(prefix) as checkpoint:
        if verifying:
            _verify(checkpoint, as_json)
        elif as_json:
            from gdsurgeon.view.checkpoint import as_json as described

            terminal.answer_json(described(checkpoint))
        else:
            from gdsurgeon.view.checkpoint import lines

            terminal.answer("\n".join(lines(checkpoint)))


def _verify(checkpoint: Checkpoint, as_json: bool) -> None:
    from gdsurgeon.checkpoint.verify import verify
    from gdsurgeon.view.checkpoint import verified, verified_json

    found = verify(checkpoint, _Told())
    if as_json:
        terminal.answer_json(verified_json(checkpoint, found))
    elif not found.faults:
        terminal.answer(verified(checkpoint, found))
    if found.faults:
        faults = counted(len(found.faults), "fault")
        raise InputError(
            f"{printable(checkpoint.prefix)} is corrupt: {faults}",
            details=first_lines(found.faults, MOST_FAULTS),
            code="corrupt",
            facts={"file": checkpoint.prefix},
        )


class _Told:
    """Shows the number of bytes that were read."""

    def __init__(self) -> None:
        self._nbytes = 0

    def __call__(self, nbytes: int) -> None:
        self._nbytes += nbytes
        from gdsurgeon.proof.settings import Event

        terminal.tell(Event(f"verified {size(self._nbytes)}"))


def _edit(request: CheckpointRequest, as_json: bool) -> None:
    from gdsurgeon.operation.checkpoint import operate_checkpoint
    from gdsurgeon.view.checkpoint import outcome_json, summary

    outcome = operate_checkpoint(request, before_publishing=terminal.settle)
    terminal.warn(outcome.warnings)
    if outcome.idle:
        terminal.note(f"{outcome.idle}; the output is the unchanged checkpoint")
    if as_json:
        terminal.answer_json(outcome_json(outcome))
    head, entries = summary(outcome, dry_run=request.dry_run)
    terminal.summary([head], entries)
