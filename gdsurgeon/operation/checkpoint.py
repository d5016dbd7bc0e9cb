"""The operation on a checkpoint: open, edit, stage, read back, publish."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from gdsurgeon.arguments import Pairs, StrPath, fit_fields, pairs_of, path_of, public
from gdsurgeon.container.checkpoint.bundle import Bundle, Files, index_path, shard_path
from gdsurgeon.container.checkpoint.edit import (
    BundleOutput,
    Compared,
    Edited,
    as_it_is,
    check_identical,
    counts_taken,
    edit,
    relinked,
    rewritten,
)
from gdsurgeon.container.checkpoint.open import open_checkpoint, prefix_of
from gdsurgeon.container.checkpoint.stored import OBJECT_GRAPH, Checkpoint, StoredTensor, new_tensor
from gdsurgeon.container.files import CHECKPOINT, GRAPH_FILE, saved_model_at
from gdsurgeon.errors import EditError, InputError, Line, NothingToDo, UsageError, printable, quoted
from gdsurgeon.feeds.given import array_file, of_array
from gdsurgeon.graph.names import under_scope
from gdsurgeon.operation.paths import back_up, check_agree, lock_of
from gdsurgeon.ops.dtypes import DTYPES
from gdsurgeon.select import matching, substituted
from gdsurgeon.wire.folder import changed_meanwhile
from gdsurgeon.wire.output import STANDARD_OUTPUT, same_file
from gdsurgeon.wire.write import size_of

Pair = tuple[str, str]


@dataclass(frozen=True)
class CheckpointRequest:
    """The changes of a checkpoint, and the output.

    Attributes:
        prefix: of the checkpoint, or one of its files.
        renames: (old, new) keys.
        scopes: (old, new) prefixes of keys, each up to a slash; an empty new prefix removes the old one.
        patterns: (regular expression, replacement) as for `re.sub`, applied to every key.
        drops: regular expressions, searched in every key: matching tensors are removed.
        values: (key, .npy file).
        out: the prefix of the result; None: that of the checkpoint, followed by ``.edited``.
        in_place: replace the index of the checkpoint.
        backup: with `in_place`, the suffix under which the old index is kept.
        dry_run: do everything except writing.
        require_change: fail if nothing would change; otherwise the checkpoint is written unchanged.
    """

    prefix: StrPath
    renames: Pairs[str, str] = ()
    scopes: Pairs[str, str] = ()
    patterns: Pairs[str, str] = ()
    drops: Sequence[str] = ()
    values: Pairs[str, StrPath] = ()
    out: StrPath | None = None
    in_place: bool = False
    backup: str | None = None
    dry_run: bool = False
    require_change: bool = False

    def __post_init__(self) -> None:
        fit_fields(self)


class CheckpointOutcome(NamedTuple):
    """The result of the operation.

    Attributes:
        out: the prefix of the result.
        shards: the number of files with its tensors.
        written: the number of written bytes, without shared files.
        renamed: new keys by old keys.
        dropped: removed keys.
        valued: (new) keys of tensors with new values.
        followed: whether the object graph was changed with them.
        compared: the comparison of the result with the expected tensors.
        idle: why nothing would change, or ''.
        warnings: one line each.
        seconds: of the whole operation.
    """

    out: str
    shards: int
    written: int
    renamed: dict[str, str]
    dropped: list[str]
    valued: list[str]
    followed: bool
    compared: Compared
    idle: str
    warnings: list[str]
    seconds: float


@public
def operate_checkpoint(
    request: CheckpointRequest, *, before_publishing: Callable[[Callable[[], bool]], None] = lambda _appeared: None
) -> CheckpointOutcome:
    """Edits a checkpoint.

    New keys need no new shards: the shards are linked under the new name, or copied if links are not possible. If
    tensors are removed or get values, one new shard with all tensors is written. In place, the shards are kept, a
    further shard has the values, and only the index is replaced.

    Args:
        request: the changes and the output.
        before_publishing: called after the check and before publishing, with a function that returns whether the result
            has appeared.

    Raises:
        GdsurgeonError: of any kind; earlier files are unchanged, and no staged file is left.
    """
    started = time.monotonic()
    check_agree(path_of(request.out), in_place=request.in_place, backup=request.backup)
    with _lock(request), open_checkpoint(request.prefix) as checkpoint:
        out = _output_prefix(request, checkpoint)
        wanted = _wanted(request, checkpoint)
        edited = edit(checkpoint, wanted.renamed, wanted.dropped, wanted.values)
        files = _files(request, checkpoint, edited, wanted)
        bundle = checkpoint if request.in_place and isinstance(checkpoint, Bundle) else None
        written = len(files.table) + sum(size_of(shard) for shard in files.shards if not isinstance(shard, str))
        with BundleOutput(out, *files, replacing=request.in_place) as output:
            if bundle is not None:
                output.replaces = output.index.replaces = bundle.state
            if not request.dry_run:
                output.stage()
            with output.opened() as staged:
                compared = check_identical(staged, edited)
            if not request.dry_run:
                _publish(request, checkpoint, output, before_publishing)
        count = bundle.header.num_shards if bundle is not None else len(files.shards)
        if len(files.shards) != count and not request.dry_run and request.backup is None:
            for number in range(count):  # their tensors are in shards with other names
                with suppress(OSError):  # it is a second name of a shard in use
                    os.unlink(shard_path(checkpoint.prefix, number, count))
    renamed, dropped, values, idle = wanted
    followed = OBJECT_GRAPH in edited and edited[OBJECT_GRAPH].is_new and OBJECT_GRAPH not in values
    return CheckpointOutcome(
        out, len(files.shards), written, renamed, dropped, sorted(renamed.get(key, key) for key in values), followed,
        compared, idle, _warnings(request, checkpoint, renamed, dropped), time.monotonic() - started,
    )  # fmt: skip


def _lock(request: CheckpointRequest) -> AbstractContextManager[object]:
    """Returns a lock on the checkpoint if it is replaced, or on the SavedModel around it."""
    prefix = prefix_of(os.fspath(request.prefix))
    if not request.in_place or request.dry_run or not os.path.isfile(index_path(prefix)):
        return nullcontext()
    model = os.path.normpath(os.path.join(os.path.dirname(prefix), os.pardir))
    is_part = os.path.basename(prefix) == os.path.basename(CHECKPOINT) and saved_model_at(model)
    return lock_of(model if is_part else index_path(prefix))


def _output_prefix(request: CheckpointRequest, checkpoint: Checkpoint) -> str:
    if request.in_place:
        if not isinstance(checkpoint, Bundle):
            text = "{prefix} is a V1 checkpoint, which cannot be written; use {out} to give the result a new prefix"
            line = Line(text, prefix=printable(checkpoint.prefix))
            raise UsageError(line, code="conflicting-options", option="out")
        return checkpoint.prefix
    if request.out is None:
        return f"{checkpoint.prefix}.edited"
    if request.out in STANDARD_OUTPUT:
        text = "a checkpoint has several files and cannot be written to standard output"
        raise UsageError(text, code="bad-value", option="out")
    out = prefix_of(os.fspath(request.out))
    if same_file(index_path(out), index_path(checkpoint.prefix)):
        text = f"{printable(out)} is the input checkpoint itself"
        raise UsageError(text, advice="replace-model", code="would-replace", file=out)
    return out


class _Wanted(NamedTuple):
    """New keys by old keys, removed keys, values by key; and why nothing would change, or ''."""

    renamed: dict[str, str]
    dropped: list[str]
    values: dict[str, StoredTensor]
    idle: str


def _wanted(request: CheckpointRequest, checkpoint: Checkpoint) -> _Wanted:
    renamed = _renamed(request, checkpoint)
    found = {pattern: matching([pattern], checkpoint.keys, str) for pattern in request.drops}
    dropped, unmatched = sorted({*chain(*found.values())}), [pattern for pattern, keys in found.items() if not keys]
    values = {key: _value(checkpoint, key, os.fspath(path)) for key, path in pairs_of(request.values)}
    others = f"matched none of {len(checkpoint.keys):,} keys"
    if renamed or dropped or values:
        if unmatched:
            raise EditError(f"pattern {quoted(unmatched[0])} {others}")
        return _Wanted(renamed, dropped, values, "")
    why = f"pattern {quoted(unmatched[0])} {others}" if unmatched else "each tensor already has its new key"
    idle = NothingToDo(f"nothing would change: {why}")
    if request.require_change:
        raise idle
    return _Wanted({}, [], {}, idle.message)


def _renamed(request: CheckpointRequest, checkpoint: Checkpoint) -> dict[str, str]:
    wanted: dict[str, tuple[str, str]] = {}
    keys = [key for key in checkpoint.keys if key != OBJECT_GRAPH]

    def add(found: Iterable[Pair], by: str) -> None:
        pairs = list(found)
        if not pairs:
            raise EditError(f"{by} matched none of {len(keys):,} keys")
        for old, new in pairs:
            name, first = wanted.setdefault(old, (new, by))
            if name != new:
                raise EditError(
                    f"{quoted(old)} cannot be renamed to both {quoted(name)} ({first}) and {quoted(new)} ({by})"
                )

    for old, new in pairs_of(request.renames):
        if old not in checkpoint:
            raise EditError(checkpoint.no_such_key(old).message)
        if old == OBJECT_GRAPH:
            raise EditError(f"{quoted(old)} is the key of TensorFlow's object graph and cannot be renamed")
        add([(old, new)], f"{old}={new}")
    for old, new in pairs_of(request.scopes):
        add(under_scope(keys, old, new), f"scope {quoted(old)}")
    for pattern, replacement in pairs_of(request.patterns):
        add(substituted(pattern, replacement, keys), f"pattern {quoted(pattern)}")
    return {old: new for old, (new, _) in wanted.items() if old != new}


def _value(checkpoint: Checkpoint, key: str, path: str) -> StoredTensor:
    """Returns the value in the .npy file `path` for the tensor `key`."""
    if key not in checkpoint:
        raise EditError(checkpoint.no_such_key(key).message)
    tensor = checkpoint.tensor(key)
    what = f"the value {printable(path)} for {quoted(key)}"
    found = of_array(what, tensor.dtype, array_file(what, path))
    data = found.data if isinstance(found.data, list) else bytes(found.data)
    return new_tensor(DTYPES[found.dtype], found.shape, data)


def _files(request: CheckpointRequest, checkpoint: Checkpoint, edited: Edited, wanted: _Wanted) -> Files:
    if not isinstance(checkpoint, Bundle):
        return rewritten(edited)
    if wanted.idle:
        return as_it_is(checkpoint)
    if request.in_place:
        return relinked(checkpoint, edited, counts_taken(checkpoint.prefix))
    return rewritten(edited) if wanted.dropped or wanted.values else relinked(checkpoint, edited)


def _publish(
    request: CheckpointRequest,
    checkpoint: Checkpoint,
    output: BundleOutput,
    before_publishing: Callable[[Callable[[], bool]], None],
) -> None:
    """Publishes the staged files, if the files of `checkpoint` did not change meanwhile."""
    with ExitStack() as stack:
        back_up(output.index.name, request.backup, output, stack)
        try:
            checkpoint.check_unchanged()
        except InputError as error:
            raise changed_meanwhile(output.prefix) if request.in_place else error from error
        before_publishing(lambda: output.has_appeared)
        output.publish()


def _warnings(
    request: CheckpointRequest, checkpoint: Checkpoint, renamed: dict[str, str], dropped: list[str]
) -> list[str]:
    folder, name = os.path.split(os.path.abspath(checkpoint.prefix))
    model = os.path.join(os.path.dirname(folder), GRAPH_FILE)
    if request.in_place and (renamed or dropped) and name == "variables" and os.path.exists(model):
        return [f"{printable(model)} still restores its variables from the old keys"]
    return []
