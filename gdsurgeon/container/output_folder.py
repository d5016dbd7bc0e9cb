"""The output where it is a SavedModel: a folder that appears whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gdsurgeon.checkpoint.bundle import index_path
from gdsurgeon.checkpoint.publish import Shard
from gdsurgeon.container.files import ASSETS, CHECKPOINT, FINGERPRINT, GRAPH_FILE, TEXT_FILE
from gdsurgeon.errors import InputError, OutputError, printable, reason
from gdsurgeon.values import Closing
from gdsurgeon.wire.output import Output, OutputFile, link_or_copy, sync_folder, temporary_name
from gdsurgeon.wire.write import Chunk

REPLACED = frozenset((GRAPH_FILE, TEXT_FILE, FINGERPRINT))
"""What of a SavedModel the graph takes the place of; the fingerprint is one of that."""
_EXCHANGE = 2
_HERE = -100


class OutputFolder(Closing):
    """Where a SavedModel is written: staged beside its target, perhaps proven, then published by a rename.

    What the model has beside its graph (checkpoint, assets, ...) is linked, or copied where links are not possible. An
    earlier SavedModel of that name is exchanged for the new one in one step. No other folder is replaced, or added to.

    Use as a context manager, as `OutputFile`.

    Attributes:
        beside: further files that it is to hold, by their paths in it: files that there are, or what is written.

    Args:
        path: the output.
        model: the folder that is edited; '' where a new one is made.
        assets: paths of files that a new one holds.
        graph_file: what its graph is called.

    Raises:
        OutputError: PATH is something else than a SavedModel or an empty folder, or in a folder that is not there.
    """

    is_stream = False
    replaced = ()

    def __init__(self, path: str, model: str, assets: Sequence[str] = (), *, graph_file: str = GRAPH_FILE) -> None:
        self.name = path
        self._graph_file = graph_file
        self.staged: str | None = None
        self._made: os.stat_result | None = None  # of what is staged, from the moment at which it is to take its name
        self._is_noted = False  # that it has its name
        self._model = model
        self._assets = assets
        self.beside: Mapping[str, Shard] = {}
        self._target = os.path.realpath(path)
        parent = os.path.dirname(self._target)
        if not os.path.isdir(parent):
            raise OutputError(f"{printable(path)} cannot be written: there is no folder {printable(parent)}")
        if os.path.lexists(self._target) and not is_replaceable(self._target):
            what = "a folder that is no SavedModel" if os.path.isdir(self._target) else "a file"
            message = f"{printable(path)} cannot be written: it is {what}"
            raise OutputError(message, code="not-replaceable", facts={"file": path})

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
            os.mkdir(self.staged)
            if self._model:
                link_tree(self._model, self.staged, REPLACED | self._superseded())
            self._put_assets(os.path.join(self.staged, ASSETS))
            for name, content in self.beside.items():
                self._put(os.path.join(self.staged, name), content)
            self._put(graph_file, chunks)
            if self._model:
                shutil.copymode(self._model, self.staged)
            sync_folder(self.staged)
        except OSError as error:
            self.close()
            raise OutputError(f"{printable(self.name)} cannot be written: {reason(error)}") from error
        except BaseException:
            self.close()
            raise
        return graph_file

    def _superseded(self) -> set[str]:
        """The files of the model's checkpoint, where it is to hold another."""
        if index_path(CHECKPOINT) not in self.beside:
            return set()
        folder, name = os.path.split(CHECKPOINT)
        there = os.path.join(self._model, folder)
        files = os.listdir(there) if os.path.isdir(there) else []
        return {os.path.join(folder, file) for file in files if file.startswith(f"{name}.")}

    @staticmethod
    def _put(path: str, content: str | Iterable[Chunk]) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(content, str):
            link_or_copy(os.path.realpath(content), path)
            return
        with OutputFile(path) as file:
            file.stage(content)
            file.publish()

    def _put_assets(self, folder: str) -> None:
        if self._assets:
            os.mkdir(folder)
        for path in self._assets:
            shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))

    def stream(self, chunks: Iterable[Chunk]) -> None:
        """Raises OutputError: a folder cannot be streamed."""
        raise OutputError(f"{printable(self.name)} is a folder: it cannot be streamed")

    def publish(self) -> None:
        """Has the staged folder take its name. Raises OutputError: it cannot; the target is as it was."""
        assert self.staged is not None
        try:
            self._made = os.stat(self.staged)
            if os.path.isdir(self._target) and os.listdir(self._target):
                exchange(self.staged, self._target)
            else:
                os.rename(self.staged, self._target)
            self._is_noted = True
            sync_folder(os.path.dirname(self._target))
        except OSError as error:
            raise OutputError(f"{printable(self.name)} cannot be written: {reason(error)}") from error
        self.close()  # what was exchanged for it
        self.staged = None

    @property
    def has_appeared(self) -> bool:
        """Whether the staged folder has its name by now, though a signal may have come before anybody could note it."""
        return self._is_noted or _is_at(self._target, self._made)

    def close(self) -> None:
        """Removes what was staged and not published, or what the published folder has replaced."""
        if self.staged is not None:
            shutil.rmtree(self.staged, ignore_errors=True)


def is_replaceable(folder: str) -> bool:
    """Whether FOLDER is a SavedModel or empty."""
    try:
        found = os.listdir(folder)
    except OSError:
        return False
    return not found or any(name in (GRAPH_FILE, TEXT_FILE) for name in found)


def link_tree(model: str, other: str, left_out: Iterable[str] = ()) -> None:
    """Has the folder OTHER hold the files of the folder MODEL, but for those at its top that are LEFT_OUT.

    Files are linked, or copied where links are not possible.

    Raises:
        OSError: of any kind.
        InputError: there is another folder by now, of the same name: what was found may be of both, or not be all.
    """
    leaving, before = set(left_out), os.stat(model)
    for relative, is_folder in tree(model):
        if relative in leaving:
            continue
        target = os.path.join(other, relative)
        if is_folder:
            os.mkdir(target)
        else:
            link_or_copy(os.path.realpath(os.path.join(model, relative)), target)
    if not os.path.samestat(before, os.stat(model)):
        raise InputError(f"{printable(model)} was replaced while it was being read")


def tree(root: str) -> Iterator[tuple[str, bool]]:
    """(path from ROOT, whether it is a folder) of all below it, a folder before what it holds. Raises OSError."""
    pending = [""]
    while pending:
        folder = pending.pop()
        for name in sorted(os.listdir(os.path.join(root, folder))):
            relative = os.path.join(folder, name)
            is_folder = os.path.isdir(os.path.join(root, relative))
            yield relative, is_folder
            if is_folder:
                pending.append(relative)


def _is_at(path: str, made: os.stat_result | None) -> bool:
    """Whether the folder that was MADE is called PATH by now: read off the disk, as a signal may hinder any note."""
    try:
        return made is not None and os.path.samestat(os.stat(path), made)
    except OSError:
        return False


def exchange(path: str, other: str) -> None:
    """Exchanges the names of two folders, in one step where the system can. Raises OSError."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        if rename(_HERE, os.fsencode(path), _HERE, os.fsencode(other), _EXCHANGE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number))
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
        folder: what is kept.
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
        name = printable(self._backup)
        try:
            if os.path.lexists(self._backup) and not is_replaceable(self._backup):
                raise OutputError(f"the backup {name} cannot be written: it is no SavedModel")
            os.mkdir(self._staged)
            self._made = os.stat(self._staged)
            link_tree(self._folder, self._staged)
            self._swap()
        except OSError as error:
            raise OutputError(f"the backup {name} cannot be written: {reason(error)}") from error

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
            if kind is not None and not self._output.has_appeared and _is_at(self._backup, self._made):
                self._swap()
        except OSError:
            return  # the earlier backup is left where it is, under a name that says so
        shutil.rmtree(self._staged, ignore_errors=True)
