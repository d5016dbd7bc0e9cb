"""The folder of a model as a tar stream: nothing but files and folders, all of them inside of it."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator

from gdsurgeon.errors import InputError, OutputError, printable, quoted, reason
from gdsurgeon.wire.source import LONGEST_STREAM
from gdsurgeon.wire.write import Chunk, size_of

MAGIC_AT, MAGIC = 257, b"ustar"
BLOCK = 512
"""Bytes of a header; what a file holds is filled up to a multiple of them."""
MOST_MEMBERS = 100_000
_PIECE = 1 << 20


def is_tar(head: bytes) -> bool:
    """Whether a stream with the beginning HEAD, a block, is a tar archive."""
    return head.startswith(MAGIC, MAGIC_AT)


class _Stream:
    """What READ gives, as tarfile takes it, and how much of it there was."""

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self._read = read
        self._name = name
        self.taken = 0

    def read(self, size: int) -> bytes:
        data = self._read(size)
        self.taken += len(data)
        if self.taken > LONGEST_STREAM:
            raise InputError(
                f"{printable(self._name)} does not end within {LONGEST_STREAM >> 30} GiB", hint="name a folder"
            )
        return data


def unpack(read: Callable[[int], bytes], folder: str, name: str) -> None:
    """Puts what the tar stream NAME holds into FOLDER, which is empty.

    Args:
        read: gives the next bytes of it, at most so many as it is asked for; none at its end.
        folder: gets nothing that would not lie in it, and neither links nor devices.
        name: what the stream is called in messages.

    Raises:
        InputError: it is broken, cut short or too long, or holds something else than files and folders.
        OutputError: FOLDER cannot be written to.
    """
    stream = _Stream(read, name)
    end = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK * 128) as archive:  # type: ignore[call-overload]
            for count, member in enumerate(archive):
                if count == MOST_MEMBERS:
                    raise InputError(f"{printable(name)} is a tar archive of more than {MOST_MEMBERS:,} files")
                _put(archive, member, folder, name)
                end = member.offset_data + -(-member.size // BLOCK) * BLOCK
        while stream.read(_PIECE):
            pass  # the writer is not to meet a closed pipe
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise InputError(f"{printable(name)} is a tar archive that is cut short or corrupt: {error}") from error
    except OSError as error:
        raise OutputError(
            f"{printable(name)} cannot be unpacked into the temporary folder {printable(folder)}: {reason(error)}",
            hint="TMPDIR names another folder",
        ) from error
    if stream.taken < end + BLOCK:
        raise InputError(f"{printable(name)} is a tar archive that is cut short: its end is missing")


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str, name: str) -> None:
    """Writes MEMBER of ARCHIVE below FOLDER. Raises InputError where it has no place there."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    what = f"{printable(name)} is a tar archive with {quoted(member.name)}"
    if member.name.startswith("/") or ".." in parts or "\0" in member.name:
        raise InputError(f"{what}, which does not lie in its folder")
    path = os.path.join(folder, *parts)
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return
    if not member.isreg() or member.issparse():
        raise InputError(f"{what}, which is neither a file nor a folder")
    data = archive.extractfile(member)
    assert data is not None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not parts or os.path.lexists(path):
        raise InputError(f"{what} twice")
    with open(path, "xb") as file:
        while piece := data.read(_PIECE):
            file.write(piece)


def packed(files: Iterator[tuple[str, list[Chunk] | None]]) -> Iterator[Chunk]:
    """A tar stream of FILES: paths with what is in them, None for a folder, each behind that which it is in."""
    for path, chunks in files:
        info = tarfile.TarInfo(path)
        info.mode, info.type = (0o755, tarfile.DIRTYPE) if chunks is None else (0o644, tarfile.REGTYPE)
        info.size = size_of(chunks or ())
        yield info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
        yield from chunks or ()
        yield bytes(-info.size % BLOCK)
    yield bytes(2 * BLOCK)
