from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdsurgeon.errors import InputError
from gdsurgeon.wire.source import BytesSource, FileSource, open_source
from gdsurgeon.wire.write import BUFFER, Chunk, SourceSpan, read_chunks, size_of, write_chunks

BIG = random.Random(5).randbytes(3 * BUFFER + 12_345)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[FileSource]:
    path = tmp_path / "source"
    path.write_bytes(BIG)
    opened = open_source(str(path))
    assert isinstance(opened, FileSource)
    yield opened
    opened.close()


def chunks_of(source: FileSource) -> list[Chunk]:
    """Fresh bytes, short spans and long ones, of a file and of memory; one is empty."""
    return [
        b"head",
        SourceSpan(source, 10, 20),
        SourceSpan(source, 100, 100 + 4096),
        SourceSpan(source, 1000, len(BIG) - 7),
        b"",
        b"x" * (BUFFER + 1),
        SourceSpan(source, 50, 50),
        SourceSpan(BytesSource(BIG), 3, BUFFER + 9),
        SourceSpan(source, 0, 5000),
        b"tail",
    ]


EXPECTED = b"".join(
    [b"head", BIG[10:20], BIG[100:4196], BIG[1000:-7], b"x" * (BUFFER + 1), BIG[3 : BUFFER + 9], BIG[:5000], b"tail"]
)


def write(path: Path, chunks: list[Chunk], flags: int = 0) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
    try:
        return write_chunks(fd, chunks)
    finally:
        os.close(fd)


def refuse(number: int, calls: list[int] | None = None) -> Callable[..., int]:
    def refusing(*_arguments: object) -> int:
        if calls is not None:
            calls.append(number)
        raise OSError(number, os.strerror(number))

    return refusing


def test_sizes_and_contents_of_chunks(source: FileSource) -> None:
    assert size_of(chunks_of(source)) == len(EXPECTED)
    assert read_chunks(chunks_of(source)) == EXPECTED


def test_chunks_are_written_in_order(source: FileSource, tmp_path: Path) -> None:
    assert write(tmp_path / "out", chunks_of(source)) == len(EXPECTED)
    assert (tmp_path / "out").read_bytes() == EXPECTED


needs_copy_file_range = pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="no copy_file_range here")


@needs_copy_file_range
@pytest.mark.parametrize("first", [errno.EXDEV, errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM])
@pytest.mark.parametrize("second", [None, errno.EINVAL, errno.ENOSYS])
def test_each_way_that_does_not_work_gives_way_to_the_next(
    source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, second: int | None
) -> None:
    tried: list[int] = []
    monkeypatch.setattr(os, "copy_file_range", refuse(first, tried))
    if second is not None:
        monkeypatch.setattr(os, "sendfile", refuse(second, tried))
    assert write(tmp_path / "out", chunks_of(source)) == len(EXPECTED)
    assert (tmp_path / "out").read_bytes() == EXPECTED
    assert tried == [first, second] if second is not None else [first]


@needs_copy_file_range
def test_a_way_that_copies_a_part_and_then_refuses(
    source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_copy, real_send = os.copy_file_range, os.sendfile
    state = {"copies": 0, "sends": 0}

    def copy(src: int, dst: int, count: int, offset: int) -> int:
        state["copies"] += 1
        if state["copies"] > 2:
            raise OSError(errno.EXDEV, "")
        return real_copy(src, dst, min(count, 1001), offset)

    def send(out: int, src: int, offset: int, count: int) -> int:
        state["sends"] += 1
        if state["sends"] > 3:
            raise OSError(errno.EINVAL, "")
        return real_send(out, src, offset, min(count, 777))

    monkeypatch.setattr(os, "copy_file_range", copy)
    monkeypatch.setattr(os, "sendfile", send)
    assert write(tmp_path / "out", chunks_of(source)) == len(EXPECTED)
    assert (tmp_path / "out").read_bytes() == EXPECTED
    assert state == {"copies": 3, "sends": 4}


def test_short_writes_and_short_reads(source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write, real_pread = os.write, os.pread
    monkeypatch.setattr(os, "copy_file_range", refuse(errno.EXDEV), raising=False)
    monkeypatch.setattr(os, "sendfile", refuse(errno.EINVAL), raising=False)
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, bytes(data[:65_537])))
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real_pread(fd, min(size, 40_003), at))
    assert write(tmp_path / "out", chunks_of(source)) == len(EXPECTED)
    assert (tmp_path / "out").read_bytes() == EXPECTED


@needs_copy_file_range
def test_no_bytes_and_no_error_gives_way_to_the_next(
    source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    assert write(tmp_path / "out", chunks_of(source)) == len(EXPECTED)
    assert (tmp_path / "out").read_bytes() == EXPECTED


@pytest.mark.parametrize("ladder", ["copy_file_range", "sendfile", "read"])
def test_a_source_that_became_shorter_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ladder: str
) -> None:
    path = tmp_path / "source"
    path.write_bytes(BIG)
    source = open_source(str(path))
    if ladder != "copy_file_range":
        monkeypatch.setattr(os, "copy_file_range", refuse(errno.EXDEV), raising=False)
    if ladder == "read":
        monkeypatch.setattr(os, "sendfile", refuse(errno.EINVAL), raising=False)
    os.truncate(path, 20_000)
    with pytest.raises(InputError, match="cut short"):
        write(tmp_path / "out", [SourceSpan(source, 0, len(BIG))])
    source.close()


@needs_copy_file_range
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT])
def test_an_error_that_no_other_way_helps_is_raised(
    source: FileSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "copy_file_range", refuse(number))
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        write(tmp_path / "out", chunks_of(source))
    assert caught.value.errno == number


def test_to_a_file_opened_for_appending(source: FileSource, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"before")
    write(tmp_path / "out", chunks_of(source), os.O_APPEND)
    assert (tmp_path / "out").read_bytes() == b"before" + EXPECTED
