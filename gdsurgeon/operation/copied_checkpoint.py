"""The checkpoint of a model in which variables were copied: two keys, one tensor; and the output that it is part of."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable

from gdsurgeon.container.checkpoint.bundle import Bundle, Files, index_path, shard_path
from gdsurgeon.container.checkpoint.edit import (
    BundleOutput,
    Edited,
    check_identical,
    counts_taken,
    relinked,
    rewritten,
)
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.stored import Checkpoint, StoredTensor
from gdsurgeon.container.checkpoint.table import pieces_of
from gdsurgeon.container.files import CHECKPOINT
from gdsurgeon.container.output_folder import OutputFolder
from gdsurgeon.container.output_tar import OutputTar
from gdsurgeon.errors import EditError, Line, OutputError, UsageError, printable, quoted, reason
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.paths import lock_of
from gdsurgeon.values import Closing
from gdsurgeon.wire.folder import State
from gdsurgeon.wire.lock import Lock
from gdsurgeon.wire.output import Earlier, Output
from gdsurgeon.wire.write import Chunk

SUFFIX = ".meta"


class CopiedCheckpoint(Closing):
    """The checkpoint of the model that GRAPH is part of, with the keys of the variables that were copied.

    Use as a context manager.

    Raises:
        InputError: it cannot be read.
        EditError: it lacks a tensor that is to have another key, too, or has that key already.
    """

    def __init__(self, graph: Graph) -> None:
        assert graph.serving is not None
        self._graph = graph
        self._folder = ""
        self._bundle: BundleOutput | None = None
        self._lock: Lock | None = None
        self.checkpoint = open_checkpoint(graph.serving.checkpoint)
        try:
            self.edited = Edited(_with_copies(self.checkpoint, graph), {})
        except BaseException:
            self.checkpoint.close()
            raise

    def close(self) -> None:
        """Closes the checkpoint; what of it stood in for another is gone."""
        self.checkpoint.close()
        if self._lock is not None:
            self._lock.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def files(self, *, in_place: bool = False) -> Files:
        """What it consists of: the shards of the one that there is, and another index."""
        checkpoint = self.checkpoint
        if not isinstance(checkpoint, Bundle):
            return rewritten(self.edited)
        return relinked(checkpoint, self.edited, counts_taken(checkpoint.prefix) if in_place else None)

    def going_with(self, output: Output, *, in_place: bool) -> Output:
        """OUTPUT, of the model, with it: in the folder of a SavedModel, or beside a MetaGraph.

        Raises:
            UsageError: the output has no name from which that of the checkpoint follows; or the one that is to be
                replaced is of the old form.
            OutputError: there is a checkpoint of that name.
        """
        files = self.files(in_place=in_place)
        if isinstance(output, (OutputFolder, OutputTar)):
            paths = (shard_path(CHECKPOINT, number, len(files.shards)) for number in range(len(files.shards)))
            output.beside = {index_path(CHECKPOINT): [files.table], **dict(zip(paths, files.shards, strict=True))}
            return output
        self._bundle = BundleOutput(_prefix(output, self, in_place), *files, replacing=in_place)
        if in_place:
            assert isinstance(self.checkpoint, Bundle)
            self._lock = lock_of(self._bundle.index.name)
            self._bundle.index.replaces = self.checkpoint.state
        return WithCheckpoint(output, self._bundle, in_place=in_place)

    def check(self, folder: str) -> None:
        """Sees to it that what is staged, of a SavedModel in FOLDER, is what it is to be.

        Raises:
            ValidationError: it is not.
            InputError: what it was made of was changed meanwhile.
        """
        staged = (
            self._bundle.staged() if self._bundle is not None else open_checkpoint(os.path.join(folder, CHECKPOINT))
        )
        with staged as written:
            check_identical(written, self.edited)
        self.checkpoint.check_unchanged()

    def for_proof(self) -> str:
        """Has the graph be restored from it, as it lies in a folder for temporary files; returns that.

        Raises:
            OutputError: it cannot be put there.
        """
        files = self.files()
        self._folder = tempfile.mkdtemp(prefix="gdsurgeon-")
        prefix = os.path.join(self._folder, "variables")
        try:
            for number, shard in enumerate(files.shards):
                path = shard_path(prefix, number, len(files.shards))
                if isinstance(shard, str):
                    os.symlink(os.path.abspath(shard), path)
                else:
                    _write(path, pieces_of(shard))
            _write(index_path(prefix), [files.table])
        except OSError as error:
            raise OutputError(f"{printable(prefix)} cannot be written: {reason(error)}") from error
        serving = self._graph.serving
        assert serving is not None and serving.restoring is not None
        if serving.saver is not None:  # the earlier content before restores the original from where it was
            self._graph.serving = serving._replace(checkpoint=prefix)
            return self._folder
        feeds = dict.fromkeys(serving.restoring.feeds, prefix)
        self._graph.serving = serving._replace(restoring=serving.restoring._replace(feeds=feeds))
        return self._folder


def _write(path: str, pieces: Iterable[bytes]) -> None:
    with open(path, "wb") as file:
        file.writelines(pieces)


def _with_copies(checkpoint: Checkpoint, graph: Graph) -> dict[str, StoredTensor]:
    tensors = {key: checkpoint.tensor(key) for key in checkpoint.keys}
    for copied in graph.serving.copies if graph.serving is not None else ():
        for new, old in copied.keys.items():
            if old not in tensors:
                message = checkpoint.no_such_key(old).message
                raise EditError(message, code="no-such-tensor", facts={"file": checkpoint.prefix, "key": old})
            if new in tensors:
                message = f"{printable(checkpoint.prefix)} already has a tensor {quoted(new)}"
                raise EditError(message, code="name-taken", facts={"file": checkpoint.prefix, "key": new})
            tensors[new] = tensors[old]
    return tensors


class WithCheckpoint(Closing):
    """A MetaGraph's output with the checkpoint beside it: the checkpoint appears first, or neither does.

    Args:
        file: the output of the MetaGraph.
        bundle: that of the checkpoint.
        in_place: whether the checkpoint takes the place of the one that there is.
    """

    is_stream = False
    files: State | None = None

    def __init__(self, file: Output, bundle: BundleOutput, *, in_place: bool) -> None:
        self.name = file.name
        self._file, self._bundle = file, bundle
        self.replaces = file.replaces
        self.replaced = (bundle.index.name,) if in_place else ()

    @property
    def has_appeared(self) -> bool:
        """Whether the MetaGraph has its name by now."""
        return self._file.has_appeared

    def is_terminal(self) -> bool:
        """Whether what is written would appear on a terminal."""
        return False

    def close(self) -> None:
        """What has not appeared is gone."""
        self._bundle.close()
        self._file.close()

    def stage(self, chunks: Iterable[Chunk]) -> str:
        """Writes both where nobody takes them for the output; returns the path of the MetaGraph.

        Raises:
            OutputError: they cannot be written; nothing is left behind.
        """
        self._bundle.stage()
        return self._file.stage(chunks)

    def publish(self) -> None:
        """Has both take their names. Raises OutputError: they cannot; what was there is as it was."""
        with Earlier(self._bundle.index.name, self._file) as earlier:
            earlier.keep()
            try:
                self._bundle.publish()
                self._file.publish()
            except BaseException:
                if not self.has_appeared:
                    self._bundle.withdraw_shards()
                raise

    def stream(self, chunks: Iterable[Chunk]) -> None:
        """Raises OutputError: a MetaGraph with its checkpoint cannot be streamed."""
        raise OutputError(
            f"{printable(self.name)} cannot be written: a checkpoint is not a stream",
            code="not-replaceable",
            facts={"file": self.name},
        )


def _prefix(file: Output, checkpoint: CopiedCheckpoint, in_place: bool) -> str:
    if in_place:
        if not isinstance(checkpoint.checkpoint, Bundle):
            line = "{prefix} is a V1 checkpoint, which cannot be written; use {out} to name a new output"
            raise UsageError(Line(line, prefix=printable(checkpoint.checkpoint.prefix)))
        return checkpoint.checkpoint.prefix
    if file.is_stream or not file.name.endswith(SUFFIX):
        raise UsageError(
            f"{printable(file.name)} cannot be the output: it must be named NAME{SUFFIX}. The checkpoint with "
            "the keys of the cloned variables is then written next to it, under NAME",
            code="bad-name",
            facts={"file": file.name, "expected": f"NAME{SUFFIX}"},
        )
    return file.name.removesuffix(SUFFIX)
