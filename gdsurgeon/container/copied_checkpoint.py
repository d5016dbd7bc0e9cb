"""The checkpoint of a model with copied variables, which is written with the model."""

from __future__ import annotations

import os
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from gdsurgeon.container.checkpoint.bundle import Bundle, Files
from gdsurgeon.container.checkpoint.edit import BundleOutput, check_identical, counts_taken, relinked, rewritten
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.stored import Checkpoint, StoredTensor
from gdsurgeon.container.checkpoint.table import pieces_of
from gdsurgeon.container.files import CHECKPOINT
from gdsurgeon.container.output import OutputFolder, OutputTar
from gdsurgeon.errors import EditError, Line, OutputError, UsageError, printable, quoted, reason
from gdsurgeon.graph.graph import Graph
from gdsurgeon.values import Closing
from gdsurgeon.wire.folder import Lock
from gdsurgeon.wire.output import Output

SUFFIX = ".meta"


class CopiedCheckpoint(Closing):
    """The checkpoint of the model around `graph`, with additional keys for copied variables.

    Use as a context manager.

    Raises:
        InputError: it cannot be read.
        EditError: it lacks the tensor of a copied variable, or already has the new key.
    """

    def __init__(self, graph: Graph) -> None:
        assert graph.serving is not None
        self._graph = graph
        self._bundle: BundleOutput | None = None
        with ExitStack() as stack:
            self.checkpoint = stack.enter_context(open_checkpoint(graph.serving.checkpoint))
            self.edited = _with_copies(self.checkpoint, graph)
            self._open = stack.pop_all()

    def close(self) -> None:
        """Closes the checkpoint, and removes its temporary folder."""
        self._open.close()

    def _files(self, *, in_place: bool = False) -> Files:
        """Returns the shards of the original checkpoint, and a new index."""
        checkpoint = self.checkpoint
        if not isinstance(checkpoint, Bundle):
            return rewritten(self.edited)
        return relinked(checkpoint, self.edited, counts_taken(checkpoint.prefix) if in_place else None)

    def output_with(self, output: Output, *, in_place: bool) -> Output:
        """Returns the output of the model with the checkpoint: in the folder of a SavedModel, or next to a MetaGraph.

        Raises:
            UsageError: the name of the checkpoint does not follow from that of the output; or a V1 checkpoint would be
                replaced.
            OutputError: a checkpoint with that name exists.
        """
        files = self._files(in_place=in_place)
        if isinstance(output, (OutputFolder, OutputTar)):
            output.further_files = files.at(CHECKPOINT)
            return output
        prefix = _prefix(output, self, in_place)
        self._bundle = bundle = BundleOutput(prefix, *files, replacing=in_place, model=output)
        if in_place:
            assert isinstance(self.checkpoint, Bundle)
            self._open.enter_context(Lock(bundle.index.name, lambda: None))
            bundle.index.replaces = self.checkpoint.state
        return bundle

    def check(self, folder: str) -> None:
        """Compares the staged checkpoint, of a SavedModel in `folder`, with the expected tensors.

        Raises:
            ValidationError: it differs.
            InputError: the original checkpoint has changed since.
        """
        staged = (
            self._bundle.opened() if self._bundle is not None else open_checkpoint(os.path.join(folder, CHECKPOINT))
        )
        with staged as written:
            check_identical(written, self.edited)
        self.checkpoint.check_unchanged()

    def for_proof(self) -> str:
        """Writes it to a temporary folder from which the graph is restored; returns the folder.

        Raises:
            OutputError: it cannot be written.
        """
        folder = self._open.enter_context(TemporaryDirectory(prefix="gdsurgeon-", ignore_cleanup_errors=True))
        prefix = os.path.join(folder, "variables")
        files = self._files().at(prefix)
        try:
            for path, content in files.items():
                if isinstance(content, str):
                    os.symlink(os.path.abspath(content), path)
                    continue
                with open(path, "wb") as file:
                    file.writelines(pieces_of(content))
        except OSError as error:
            raise OutputError(f"{printable(prefix)} cannot be written: {reason(error)}") from error
        serving = self._graph.serving
        assert serving is not None and serving.restoring is not None
        if serving.saver is not None:  # the original is restored from its own place
            self._graph.serving = serving._replace(checkpoint=prefix)
        else:
            feeds = dict.fromkeys(serving.restoring.feeds, prefix)
            self._graph.serving = serving._replace(restoring=serving.restoring._replace(feeds=feeds))
        return folder


def _with_copies(checkpoint: Checkpoint, graph: Graph) -> dict[str, StoredTensor]:
    tensors = {key: checkpoint.tensor(key) for key in checkpoint.keys}
    for copied in graph.serving.copies if graph.serving is not None else ():
        for new, old in copied.keys.items():
            if old not in tensors:
                message = checkpoint.no_such_key(old).message
                raise EditError(message, code="no-such-tensor", file=checkpoint.prefix, key=old)
            if new in tensors:
                message = f"{printable(checkpoint.prefix)} already has a tensor {quoted(new)}"
                raise EditError(message, code="name-taken", file=checkpoint.prefix, key=new)
            tensors[new] = tensors[old]
    return tensors


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
            file=file.name,
            expected=f"NAME{SUFFIX}",
        )
    return file.name.removesuffix(SUFFIX)
