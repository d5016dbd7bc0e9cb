"""Output files and source files."""

from __future__ import annotations

import errno
import gc
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdsurgeon.errors import InputError
from gdsurgeon.wire import source as source_module
from gdsurgeon.wire.output import OutputFile
from gdsurgeon.wire.source import WINDOW, BytesSource, FileSource, Window, open_source
from gdsurgeon.wire.write import BUFFER, Chunk, SourceSpan, read_chunks, size_of, write_chunks


def save(path: Path, data: bytes) -> None:
    with OutputFile(str(path)) as output:
        output.stage([data])
        output.publish()


def test_a_source_that_is_cut_short_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(10_000))
    source = open_source(str(tmp_path / "in"))
    os.truncate(tmp_path / "in", 10)
    with pytest.raises(InputError), OutputFile(str(tmp_path / "out.pb")) as output:
        output.stage([SourceSpan(source, 0, 10_000)])
    source.close()
    assert os.listdir(tmp_path) == ["in"]


def test_a_reader_of_the_old_file_keeps_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "out.pb"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        save(path, b"new")
        assert reader.read() == b"old"


def test_a_stream_that_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def read_a_little() -> None:
        with path.open("rb") as reader:
            reader.read(1)

    reader = threading.Thread(target=read_a_little)
    reader.start()
    with pytest.raises(BrokenPipeError), OutputFile(str(path)) as output:
        staged = output.stage([bytes(10_000_000)])
        output.publish()
    reader.join()
    assert not os.path.exists(staged)


def test_a_descriptor_is_not_left_open(tmp_path: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc here")
    gc.collect()  # what other tests have left open is closed now, and not meanwhile
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        save(tmp_path / "out.pb", b"new")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)))
    source = open_source(str(path))
    assert (source.size, source.name) == (256, str(path))
    assert source.fileno() is not None
    assert source.read(10, 5) == bytes(range(10, 15))
    assert source.read(256, 0) == b""
    with pytest.raises(InputError, match="cut short"):
        source.read(250, 7)
    source.close()
    source.close()


@pytest.mark.parametrize("how", ["grown", "shrunk", "rewritten"])
def test_a_file_that_changes_is_noticed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abcdef")
    source = open_source(str(path))
    source.check_unchanged()
    if how == "rewritten":
        path.write_bytes(b"ABCDEF")
        os.utime(path, ns=(1, 1))
    else:
        os.truncate(path, 10 if how == "grown" else 2)
    with pytest.raises(InputError, match="changed while it was being read"):
        source.check_unchanged()
    source.close()


def test_a_window_is_a_buffer_on_a_stretch() -> None:
    data = bytes(i % 251 for i in range(3 * WINDOW))
    window = Window(BytesSource(data), 7, len(data) - 9)
    inside = data[7:-9]
    assert len(window) == len(inside)
    for at in (0, 1, WINDOW, WINDOW - 1, 5, len(inside) - 1, 0):
        assert window[at] == inside[at]
    assert window[3 : WINDOW + 50] == inside[3 : WINDOW + 50]


def test_what_is_missing_or_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\\nthere cannot be opened: no such file"):
        open_source(str(tmp_path / "no\nthere"))
    with pytest.raises(InputError, match="is a directory, not a GraphDef"):
        open_source(str(tmp_path))


@pytest.mark.parametrize("limit", [10, 1 << 26])
def test_a_pipe_is_held_in_memory_or_spilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(source_module, "SPOOL_IN_MEMORY", limit)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = os.urandom(300_000)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    source = open_source(str(path))
    writer.join()
    assert isinstance(source, FileSource if limit == 10 else BytesSource)
    assert source.read(0, source.size) == data
    opened = source.fileno()
    assert opened is None or os.pread(opened, len(data) + 1, 0) == data
    source.close()


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
