"""gdsurgeon checkpoint."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gdsurgeon.cli.command import Command, answer_options, output_option
from gdsurgeon.cli.complete import checkpoint_keys, paired
from gdsurgeon.cli.options import ConflictingOptions, MissingOption, not_a_pair, once, option, pairs_of_file
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import InputError, printable
from gdsurgeon.text import counted, first_lines, size

if TYPE_CHECKING:
    from gdsurgeon.container.checkpoint.stored import Checkpoint


MOST_FAULTS = 100
"""Maximum number of faults that are listed."""


@click.command("checkpoint", cls=Command)
@partial(answer_options, metavar="PREFIX")
@option("--list", "listing", help="List the tensors; this is the default.")
@option("--verify")
@option("--rename", "renames", shell_complete=paired(checkpoint_keys), help="Rename the key of a tensor.")
@option("--rename-scope", "scopes", shell_complete=None)
@option("--regex", "patterns")
@option("--map-file")
@option("--drop", "drops")
@option("--set", "values", parse=lambda texts, _: [_file(text) for text in texts])
@output_option("-o", "--output", "out", help="Write to the new prefix OUT.")
@output_option("-i", "--in-place", help="Replace the index; the shards are kept.")
@output_option("--backup", help="With -i: keep the old index, with SUFFIX added to its name.")
@output_option("-n", "--dry-run")
@output_option("--require-change")
def command(
    model: str,
    as_json: bool,
    listing: bool,
    verify: bool,
    map_file: str | None,
    **options: Any,
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
    options["renames"] = once([*options["renames"], *pairs_of_file(map_file)])
    edits = any(options[name] for name in ("renames", "scopes", "patterns", "drops", "values"))
    if listing + verify + edits > 1:
        raise ConflictingOptions("give only one of --list, --verify and edits")
    if not edits:
        if any(
            options[name] not in (None, False) for name in ("out", "in_place", "backup", "dry_run", "require_change")
        ):
            raise MissingOption("nothing to write: give --rename, --rename-scope, --regex, --map-file, --drop or --set")
        _look(model, as_json, verify)
        return
    from gdsurgeon.operation.checkpoint import CheckpointRequest, operate_checkpoint
    from gdsurgeon.view.checkpoint import outcome_json, summary

    request = CheckpointRequest(prefix=model, **options)
    outcome = operate_checkpoint(request, before_publishing=terminal.settle)
    terminal.report(
        outcome, "checkpoint", outcome_json(outcome), summary(outcome, dry_run=request.dry_run), as_json=as_json
    )


def _file(text: str) -> tuple[str, str]:
    """Returns the key and the file of ``KEY=@FILE.npy``."""
    key, at, path = text.partition("=@")
    if not key or not at or not path.endswith(".npy"):
        raise not_a_pair(text, "--set", "KEY=@FILE.npy", "a pair ")
    return key, path


def _look(prefix: str, as_json: bool, verify: bool) -> None:
    from gdsurgeon.container.checkpoint.open import open_checkpoint
    from gdsurgeon.view.checkpoint import as_json as described
    from gdsurgeon.view.checkpoint import lines

    with open_checkpoint(prefix) as checkpoint:
        if verify:
            _verify(checkpoint, as_json)
        elif as_json:
            terminal.answer_json(described(checkpoint))
        else:
            terminal.answer("\n".join(lines(checkpoint)))


def _verify(checkpoint: Checkpoint, as_json: bool) -> None:
    from gdsurgeon.proof.settings import Event
    from gdsurgeon.view.checkpoint import verified, verified_json

    nbytes = 0

    def progress(count: int) -> None:
        nonlocal nbytes
        nbytes += count
        terminal.tell(Event(f"verified {size(nbytes)}"))

    found = checkpoint.verify(progress)
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
            file=checkpoint.prefix,
        )
