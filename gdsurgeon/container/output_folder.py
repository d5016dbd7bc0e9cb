"""The output where it is a SavedModel: a folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence

from gdsurgeon.container.checkpoint.bundle import Shard, index_path
from gdsurgeon.container.files import ASSETS, CHECKPOINT, FINGERPRINT, GRAPH_FILE, TEXT_FILE
from gdsurgeon.errors import InputError, OutputError, printable, unwritable
from gdsurgeon.values import Closing
from gdsurgeon.wire.folder import Folder, State
from gdsurgeon.wire.lock import changed_meanwhile
from gdsurgeon.wire.output import (
    Output,
    OutputFile,
    absent_folders,
    exchange_known,
    exchange_names,
    is_at,
    make_folders,
    remove_folders,
    resolved,
    sync_folder,
    temporary_name,
)
from gdsurgeon.wire.write import Chunk

REPLACED = frozenset((GRAPH_FILE, TEXT_FILE, FINGERPRINT))
"""What of a SavedModel the graph takes the place of; the fingerprint is one of that."""


class OutputFolder(Closing):
    """The output of a SavedModel: staged next to its target, proven if requested, then published by a rename.

    The model's other files (checkpoint, assets, ...) are hard-linked, or copied if links are not possible. An earlier
    SavedModel of the same name is exchanged for the new one in one step. No other folder is replaced or extended.

    Use as a context manager, as `OutputFile`.

    Attributes:
        beside: further files, by their paths in the folder: existing files, or content to write.

    Args:
        path: the output.
        model: the folder that is edited; '' where a new one is made.
        assets: paths of files that a new one holds.
        graph_file: what its graph is called.

    Raises:
        OutputError: PATH is something else than a SavedModel or an empty folder, in something that is not a folder, or
            a link into a folder that does not exist.
    """

    is_stream = False
    replaced = ()
    replaces: State | None = None

    def __init__(self, path: str, model: str, assets: Sequence[str] = (), *, graph_file: str = GRAPH_FILE) -> None:
        self.name = path
        self._graph_file = graph_file
        self.staged: str | None = None
        self._made: os.stat_result | None = None  # of what is staged, from the moment at which it is to take its name
        self._is_noted = False  # that it has its name
        self._model = model
        self._assets = assets
        self.beside: Mapping[str, Shard] = {}
        self.files: State | None = None
        self._target = resolved(path)
        self._absent = absent_folders(path, self._target)
        if os.path.lexists(self._target) and not is_replaceable(self._target):
            what = "a folder, but not a SavedModel" if os.path.isdir(self._target) else "a file"
            raise _not_replaceable(path, f"it is {what}")

    def is_terminal(self) -> bool:
        """Whether what is written would appear on a terminal."""
        return False

    def stage(self, chunks: Iterable[Chunk]) -> str:
        """Writes the folder with CHUNKS as its graph under a name of its own; returns the path of the graph's file.

        Raises:
            OutputError: it cannot be written; nothing is left behind.
        """
        self.staged = temporary_name(self._target)
        graph_file = os.path.join(self.staged, self._graph_file)
        try:
            make_folders(self._absent)
            os.mkdir(self.staged)
            if self._model:
                with Folder(self._model) as folder:
                    folder.copy_to(self.staged, REPLACED | self._superseded(), self.files)
            self._put_assets(os.path.join(self.staged, ASSETS))
            for name, content in self.beside.items():
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
        if index_path(CHECKPOINT) not in self.beside:
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

    def _put_assets(self, folder: str) -> None:
        if self._assets:
            os.mkdir(folder)
        for path in self._assets:
            shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))

    def stream(self, chunks: Iterable[Chunk]) -> None:
        """Raises OutputError: a folder cannot be streamed."""
        line = f"{printable(self.name)} is a folder and cannot be written to a stream"
        raise OutputError(line, code="is-a-folder", facts={"file": self.name})

    def publish(self) -> None:
        """Has the staged folder take its name. Raises OutputError: it cannot; the target is as it was."""
        assert self.staged is not None
        try:
            self._made = os.stat(self.staged)
            if self.replaces is not None and exchange_known(self.staged, self._target, self.replaces):
                pass
            elif os.path.isdir(self._target) and os.listdir(self._target):
                exchange(self.staged, self._target)
            else:
                os.rename(self.staged, self._target)
            self._is_noted = True
            for folder in (os.path.dirname(self._target), *map(os.path.dirname, self._absent)):
                sync_folder(folder)
        except OSError as error:
            raise unwritable(self.name, error) from error
        self.close()  # what was exchanged for it
        self.staged = None

    @property
    def has_appeared(self) -> bool:
        """Whether the staged folder has its name by now, though a signal may have come before anybody could note it."""
        return self._is_noted or is_at(self._target, self._made)

    def close(self) -> None:
        """Removes what was staged and not published, or what the published folder has replaced."""
        if self.staged is not None:
            shutil.rmtree(self.staged, ignore_errors=True)
            if not self.has_appeared:
                remove_folders(self._absent)


def _not_replaceable(path: str, why: str, what: str = "") -> OutputError:
    line = f"{what}{printable(path)} cannot be written: {why}"
    return OutputError(line, code="not-replaceable", facts={"file": path})


def is_replaceable(folder: str) -> bool:
    """Whether FOLDER is a SavedModel or empty."""
    try:
        found = os.listdir(folder)
    except OSError:
        return False
    return not found or any(name in (GRAPH_FILE, TEXT_FILE) for name in found)


def exchange(path: str, other: str) -> None:
    """Exchanges the names of two folders, in one step where the system can. Raises OSError."""
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
    """Keeps a folder under another name until OUTPUT has appeared, and from then on: its files are linked.

    Use as a context manager, and `keep` in it: where an exception leaves it and OUTPUT has not appeared, what had that
    name before has it again. To enter it does nothing, so that a signal that comes there leaves nothing.

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
        self._made: os.stat_result | None = None  # of what is staged, under whichever name it is

    def __enter__(self) -> FolderBackup:
        return self

    def keep(self) -> None:
        """Keeps the folder. Raises OutputError: it cannot be written, or BACKUP is something else than a SavedModel."""
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
        """Has what is staged and what is called as the backup change names; one of them may not be there."""
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
            return  # the earlier backup is left where it is, under a name that says so
        shutil.rmtree(self._staged, ignore_errors=True)
