"""Output files and source files."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from gdsurgeon.errors import InputError
from gdsurgeon.wire import source as source_module
from gdsurgeon.wire.output import OutputFile
from gdsurgeon.wire.source import WINDOW, BytesSource, FileSource, Window, open_source
from gdsurgeon.wire.write import SourceSpan


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


def test_a_file_source_keeps_its_bytes_when_its_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(b"old" * 5000)
    source = open_source(str(path))
    assert isinstance(source, FileSource)
    with OutputFile(str(path)) as output:
        output.stage([b"x", SourceSpan(source, 0, source.size)])
        output.publish()
    assert source.read(0, 3) == b"old"
    source.close()
    assert path.read_bytes() == b"x" + b"old" * 5000


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
