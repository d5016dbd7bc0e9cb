"""Models as tar streams: nothing but files and folders, all of them inside the folder of the model."""

from __future__ import annotations

import errno
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

from gdsurgeon.container.files import saved_model_at
from gdsurgeon.errors import InputError, Json, OutputError, printable, quoted, unwritable
from gdsurgeon.text import named, shortened
from gdsurgeon.wire.folder import Folder
from gdsurgeon.wire.source import (
    LONGEST_STREAM,
    STANDARD_INPUT_NAME,
    corrupt_file,
    endless,
    head_of_standard_input,
    read_standard_input,
)
from gdsurgeon.wire.write import Chunk, SourceSpan

MAGIC_AT, MAGIC = 257, b"ustar"
BLOCK = 512
"""The size in bytes of a header; the content of a file is padded to a multiple of it."""
MOST_MEMBERS = 100_000
"""Files and folders of an archive."""
LONGEST_NAME, LONGEST_PART = 1024, 255
"""Bytes of a name, and of a part of it between two slashes."""
LONGEST_HEADER = 1 << 20
"""Bytes of a header that holds names and sizes for which the block of a member has no room."""
_PIECE = 1 << 20
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_FOLDER = tarfile.DIRTYPE
_OTHERS = {b"1": "hard link", b"2": "link", b"3": "device", b"4": "device", b"6": "fifo", b"S": "sparse file"}
_OF_NAMES = (errno.ENAMETOOLONG, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.EILSEQ)
"""Errors of a system that does not allow a name."""


class _Archive:
    """The tar archive `name`; `read(size)` returns its next bytes, at most `size`, and no bytes at its end.

    Time and memory are bounded by the size of the archive; those of `tarfile` are not.
    """

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self.name = name
        self._read = read
        self._taken = 0

    def members(self) -> Iterator[tarfile.TarInfo]:
        """Yields the members, with the type of a sparse file if the headers before it describe one.

        Read the `content` of a file before the next member is requested. Raises InputError.
        """
        stated: dict[str, bytes] = {}
        while any(head := self._exactly(BLOCK)):
            try:
                info = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise self.corrupt(f"a header cannot be parsed: {error}") from error
            if info.size < 0:
                raise self.corrupt("a header has a negative size")
            if info.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
                if info.size > LONGEST_HEADER:
                    what = f"is a tar archive with a header of {info.size:,} bytes, which is too large"
                    raise self.error(what, "too-large")
                data = self._exactly(info.size)
                if info.type == tarfile.XHDTYPE:
                    stated |= self._records(data)
                elif info.type == tarfile.GNUTYPE_LONGNAME:
                    stated["path"] = data.rstrip(b"\0")
                padding = -info.size % BLOCK
            else:
                info.name = os.fsdecode(stated["path"]) if "path" in stated else info.name + "/" * info.isdir()
                info.size = self._number(stated["size"]) if "size" in stated else info.size
                info.size *= not info.isdir()
                if any(key.startswith("GNU.sparse") for key in stated):
                    info.type = tarfile.GNUTYPE_SPARSE
                stated, padding = {}, -info.size % BLOCK
                yield info
            self._exactly(padding)

    def content(self, size: int) -> Iterator[bytes]:
        """Yields the next `size` bytes in pieces. Raises InputError."""
        while size:
            data = self._some(min(size, _PIECE))
            if not data:
                raise self.corrupt("it is cut short")
            size -= len(data)
            yield data

    def drain(self) -> None:
        """Reads the rest of the stream, so that the writer does not get a closed pipe. Raises InputError."""
        while self._some(_PIECE):
            pass

    def _some(self, size: int) -> bytes:
        data = self._read(size)
        self._taken += len(data)
        if self._taken > LONGEST_STREAM:
            raise endless(self.name, "name a folder instead")
        return data

    def _exactly(self, size: int) -> bytes:
        return b"".join(self.content(size))

    def _records(self, data: bytes) -> dict[str, bytes]:
        """Returns the records of a POSIX.1-2001 header: each has a length, a blank, a key, an equals sign, a value."""
        out: dict[str, bytes] = {}
        at = 0
        while at < len(data) and data[at]:
            digits, blank, _ = data[at : at + 20].partition(b" ")
            end = at + self._number(digits)
            key, equals, value = data[at + len(digits) + 1 : end - 1].partition(b"=")
            if not blank or not equals or data[end - 1 : end] != b"\n":
                raise self.corrupt("a header is not a list of records")
            out[os.fsdecode(key)] = value
            at = end
        return out

    def _number(self, digits: bytes) -> int:
        if not digits.isdigit() or len(digits) > 20:
            raise self.corrupt("a header has a field that is not a number")
        return int(digits)

    def corrupt(self, what: str) -> InputError:
        return corrupt_file(self.name, f"{what}, and it is a tar archive", reason=what)

    def error(self, what: str, code: str, **facts: Json) -> InputError:
        return InputError(f"{printable(self.name)} {what}", code=code, facts={"file": self.name, **facts})


def unpack(read: Callable[[int], bytes], folder: str, name: str) -> None:
    """Unpacks the tar stream `name` into `folder`, which is empty.

    Args:
        read: `read(size)` returns the next bytes of the stream, at most `size`, and no bytes at its end.
        folder: the target; members outside it, links and devices are refused.
        name: the name of the stream in messages.

    Raises:
        InputError: it is broken, cut short or too long, or contains members that are neither files nor folders.
        OutputError: `folder` cannot be written to.
    """
    archive = _Archive(read, name)
    there: dict[str, bool] = {}  # whether it is a folder, by path
    for member in archive.members():
        try:
            _put(archive, member, folder, there)
        except OSError as error:
            if error.errno in _OF_NAMES:
                raise _refused(
                    archive, member, "has a name that the operating system does not allow", "bad-name"
                ) from error
            failed = unwritable(name, error, f"unpacked into the temporary folder {printable(folder)}")
            failed.hint = "set TMPDIR to a different folder"
            raise failed from error
    archive.drain()


def _put(archive: _Archive, member: tarfile.TarInfo, folder: str, there: dict[str, bool]) -> None:
    """Writes `member` of `archive` below `folder`; `there` holds the existing paths. Raises InputError, OSError."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if member.name.startswith("/") or ".." in parts or "\0" in member.name:
        raise _refused(archive, member, "is outside the archive's folder", "bad-name")
    if member.type != _FOLDER and member.type not in _FILES:
        what = _OTHERS.get(member.type, "member of an unknown type")
        error = _refused(archive, member, f"is a {what}", "link-in-savedmodel" if "link" in what else "wrong-format")
        error.facts["found"] = what
        error.hint = "copy the folder with its links resolved (cp -rL), then pack it" if "link" in what else None
        raise error
    if len(os.fsencode(member.name)) > LONGEST_NAME or any(len(os.fsencode(part)) > LONGEST_PART for part in parts):
        raise _refused(archive, member, "has a name that is too long", "bad-name")
    paths = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    if member.type != _FOLDER and (not paths or paths[-1] in there):
        raise _refused(archive, member, "is in the archive twice", "name-taken")
    for path in paths if member.type == _FOLDER else paths[:-1]:
        if not there.get(path, True):
            raise _refused(archive, member, f"needs a folder {quoted(path)}, but that is a file", "name-taken")
        if path not in there:
            os.mkdir(os.path.join(folder, path))
        there[path] = True
    if member.type != _FOLDER:
        there[paths[-1]] = False
        with open(os.path.join(folder, paths[-1]), "xb") as file:
            file.writelines(archive.content(member.size))
    if len(there) > MOST_MEMBERS:
        raise archive.error(f"is a tar archive with more than {MOST_MEMBERS:,} files", "too-large")


def _refused(archive: _Archive, member: tarfile.TarInfo, what: str, code: str) -> InputError:
    name = quoted(shortened(member.name, LONGEST_PART))
    return archive.error(f"is a tar archive with {name}, which {what}", code, name=member.name)


def packed(path: str) -> Iterator[Chunk]:
    """Yields the folder `path` as a tar stream; read each chunk before the next one is requested."""
    with Folder(path) as folder:
        for entry in folder.entries():
            info = tarfile.TarInfo(entry.path)
            if entry.is_folder:
                info.mode, info.type = 0o755, tarfile.DIRTYPE
                yield info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
                continue
            with folder.source(entry.path) as source:
                info.size = source.size
                yield info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
                yield SourceSpan(source, 0, source.size)
            yield bytes(-info.size % BLOCK)
    yield bytes(2 * BLOCK)


_rooms = ExitStack()
"""The folders of unpacked models."""


@cache
def _room(_stream: object) -> str:
    from tempfile import TemporaryDirectory

    try:
        return _rooms.enter_context(TemporaryDirectory(prefix="gdsurgeon-", suffix=".tmp", ignore_cleanup_errors=True))
    except OSError:
        return ""


@cache
def _model(_stream: object) -> str:
    return _unpacked(room()) if head_of_standard_input(BLOCK).startswith(MAGIC, MAGIC_AT) else ""


def room() -> str:
    """Returns the folder for unpacking a model, and creates it on first use; '' if it cannot be created."""
    return _room(sys.stdin)


def arrived() -> str:
    """Returns the folder of the SavedModel that arrived as a tar stream; '' if the input is not a tar archive.

    Raises:
        InputError: the archive is broken, or holds no SavedModel.
        OutputError: it cannot be unpacked.
    """
    return _model(sys.stdin)


def forget() -> None:
    """Removes the unpacked files."""
    _rooms.close()
    _room.cache_clear()
    _model.cache_clear()


def _unpacked(folder: str) -> str:
    if not folder:
        line = f"{STANDARD_INPUT_NAME} cannot be unpacked: no folder for temporary files was found"
        raise OutputError(line, code="unwritable", file=STANDARD_INPUT_NAME)
    unpack(read_standard_input, folder, STANDARD_INPUT_NAME)
    there = os.listdir(folder)
    for model in (folder, *(os.path.join(folder, name) for name in there if len(there) == 1)):
        if saved_model_at(model):
            return model
    line = f"{STANDARD_INPUT_NAME} is a tar archive without a SavedModel; it contains {named(sorted(there))}"
    raise InputError(line, code="wrong-format", file=STANDARD_INPUT_NAME, found=sorted(there))
