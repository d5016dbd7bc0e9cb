"""The output of a SavedModel: a folder that appears completely or not at all, or a tar stream of a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from gdsurgeon.container.checkpoint.bundle import Shard, index_path
from gdsurgeon.container.files import CHECKPOINT, FINGERPRINT, GRAPH_FILE, TEXT_FILE
from gdsurgeon.container.tar import packed
from gdsurgeon.errors import InputError, OutputError, printable, unwritable
from gdsurgeon.wire.folder import Folder, changed_meanwhile
from gdsurgeon.wire.output import (
    Output,
    OutputFile,
    StagedOutput,
    absent_folders,
    exchange_names,
    is_at,
    make_folders,
    resolved,
    sync_folder,
    temporary_name,
)
from gdsurgeon.wire.write import Chunk

REPLACED = frozenset((GRAPH_FILE, TEXT_FILE, FINGERPRINT))
"""The files of a SavedModel that a new graph replaces; the fingerprint is a fingerprint of the graph."""


class OutputFolder(StagedOutput):
    """The folder of a SavedModel.

    The model's other files (checkpoint, assets, ...) are hard-linked, or copied if links are not possible. An earlier
    SavedModel of the same name is exchanged for the new one in one step. No other folder is replaced or extended.

    Attributes:
        further_files: further files, by their paths in the folder: existing files, or content to write.

    Args:
        path: the output.
        model: the folder that is edited; '' for a new SavedModel.
        graph_file: the name of the file of its graph.

    Raises:
        OutputError: `path` is not a SavedModel or an empty folder, is in something that is not a folder, or is a link
            into a folder that does not exist.
    """

    def __init__(self, path: str, model: str, *, graph_file: str = GRAPH_FILE) -> None:
        super().__init__(path)
        self.further_files: Mapping[str, Shard] = {}
        self._graph_file = graph_file
        self._model = model
        self._target = resolved(path)
        self._absent = absent_folders(path, self._target)
        if os.path.lexists(self._target) and not is_replaceable(self._target):
            what = "a folder, but not a SavedModel" if os.path.isdir(self._target) else "a file"
            raise _not_replaceable(path, f"it is {what}")

    def stage(self, chunks: Iterable[Chunk]) -> str:
        """Writes the folder with `chunks` as its graph; returns the path of the graph's file. Raises OutputError."""
        self.staged = temporary_name(self._target)
        graph_file = os.path.join(self.staged, self._graph_file)
        try:
            make_folders(self._absent)
            os.mkdir(self.staged)
            if self._model:
                with Folder(self._model) as folder:
                    folder.copy_to(self.staged, REPLACED | self._superseded(), self.files)
            for name, content in self.further_files.items():
                self._put(os.path.join(self.staged, name), content)
            self._put(graph_file, chunks)
            if self._model:
                shutil.copymode(self._model, self.staged)
            sync_folder(self.staged)
        except OSError as error:
            self.close()
            raise unwritable(self.name, error) from error
        except BaseException as error:
            self.close()
            if self.replaces is not None and isinstance(error, InputError) and error.code == "file-changed":
                raise changed_meanwhile(self.name) from error
            raise
        return graph_file

    def _superseded(self) -> set[str]:
        """Returns the files of the model's checkpoint if a different checkpoint replaces it."""
        if index_path(CHECKPOINT) not in self.further_files:
            return set()
        folder, name = os.path.split(CHECKPOINT)
        there = os.path.join(self._model, folder)
        files = os.listdir(there) if os.path.isdir(there) else []
        return {os.path.join(folder, file) for file in files if file.startswith(f"{name}.")}

    def _put(self, path: str, content: str | Iterable[Chunk]) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        own = os.path.relpath(content, self._model) if isinstance(content, str) and self._model else ""
        if own and not own.startswith(os.pardir):
            with Folder(self._model) as folder:
                folder.place(own, path, self.files)
            return
        with OutputFile(path) as file:
            if isinstance(content, str):
                file.stage_file(content)
            else:
                file.stage(content)
            file.publish()

    def _take_name(self, staged: str) -> None:
        if os.path.isdir(self._target) and os.listdir(self._target):
            exchange(staged, self._target)
        else:
            os.rename(staged, self._target)

    def _remove(self, staged: str) -> None:
        shutil.rmtree(staged, ignore_errors=True)


class OutputTar(Output):
    """Standard output, to which a SavedModel is written as a tar stream of the files in its folder.

    It is staged in a folder for temporary files.

    Attributes:
        further_files: see `OutputFolder`.

    Args:
        model: the folder that is edited; '' for a new SavedModel.
    """

    is_stream = True

    def __init__(self, model: str) -> None:
        self._stream = OutputFile("-")
        self.name = self._stream.name
        self._model = model
        self.further_files: Mapping[str, Shard] = {}
        self._stack = ExitStack()
        self._staged = ""

    def is_terminal(self) -> bool:
        return self._stream.is_terminal()

    def close(self) -> None:
        """Removes the staging folder."""
        self._stack.close()

    def stage(self, chunks: Iterable[Chunk]) -> str:
        """Writes the folder with `chunks` as its graph; returns the path of the graph's file. Raises OutputError."""
        from tempfile import TemporaryDirectory

        try:
            place = self._stack.enter_context(TemporaryDirectory(prefix="gdsurgeon-", suffix=".tmp"))
        except OSError as error:
            raise unwritable(self.name, error, "staged") from error
        folder = self._stack.enter_context(OutputFolder(os.path.join(place, "model"), self._model))
        folder.further_files, folder.files = self.further_files, self.files
        graph_file = folder.stage(chunks)
        self._staged = os.path.dirname(graph_file)
        return graph_file

    def publish(self) -> None:
        self._stream.stream(packed(self._staged))

    def stream(self, chunks: Iterable[Chunk]) -> None:
        """Streams the folder with `chunks` as its graph. Raises: see `Output.publish`."""
        self.stage(chunks)
        self.publish()


def _not_replaceable(path: str, why: str, what: str = "") -> OutputError:
    line = f"{what}{printable(path)} cannot be written: {why}"
    return OutputError(line, code="not-replaceable", file=path)


def is_replaceable(folder: str) -> bool:
    """Returns whether `folder` is a SavedModel or empty."""
    try:
        found = os.listdir(folder)
    except OSError:
        return False
    return not found or any(name in (GRAPH_FILE, TEXT_FILE) for name in found)


def exchange(path: str, other: str) -> None:
    """Exchanges the names of two folders, in one step if the system can. Raises OSError."""
    if exchange_names(path, other):
        return
    away = temporary_name(other)
    os.rename(other, away)
    try:
        os.rename(path, other)
    except OSError:
        os.rename(away, other)
        raise
    os.rename(away, path)


class FolderBackup:
    """Keeps a folder under another name after an output has appeared: its files are linked.

    Use as a context manager, and call `keep` inside. If an exception leaves it before the output has appeared, the
    earlier backup gets its name again. Entering does nothing, so a signal at that moment leaves no trace.

    Args:
        folder: the folder to keep.
        backup: its other name.
        output: the output.
    """

    def __init__(self, folder: str, backup: str, output: Output) -> None:
        self._folder = folder
        self._backup = backup
        self._output = output
        self._staged = temporary_name(backup)
        self._made: os.stat_result | None = None  # of the staged folder, under either name

    def __enter__(self) -> FolderBackup:
        return self

    def keep(self) -> None:
        """Keeps the folder. Raises OutputError: it cannot be written, or the earlier backup is not a SavedModel."""
        try:
            if os.path.lexists(self._backup) and not is_replaceable(self._backup):
                raise _not_replaceable(self._backup, "it is not a SavedModel", "the backup ")
            os.mkdir(self._staged)
            self._made = os.stat(self._staged)
            with Folder(self._folder) as folder:
                folder.copy_to(self._staged)
            self._swap()
        except OSError as error:
            raise unwritable(self._backup, error, role="the backup") from error
        except InputError as error:
            raise changed_meanwhile(self._folder) if error.code == "file-changed" else error from error

    def _swap(self) -> None:
        """Exchanges the names of the staged folder and the backup; one of them may not exist."""
        if not os.path.lexists(self._backup):
            os.rename(self._staged, self._backup)
        elif not os.path.lexists(self._staged):
            os.rename(self._backup, self._staged)
        else:
            exchange(self._staged, self._backup)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None and not self._output.has_appeared and is_at(self._backup, self._made):
                self._swap()
        except OSError:
            return  # the earlier backup keeps its temporary name
        shutil.rmtree(self._staged, ignore_errors=True)
