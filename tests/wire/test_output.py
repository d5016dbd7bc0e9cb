from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from gdsurgeon.errors import InputError
from gdsurgeon.wire.output import OutputFile
from gdsurgeon.wire.source import FileSource, open_source
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
