from __future__ import annotations

import gc
import os
import stat
import threading
from pathlib import Path

import pytest

from gdsurgeon.errors import InputError, OutputError
from gdsurgeon.wire import output
from gdsurgeon.wire.output import OutputFile, same_file
from gdsurgeon.wire.source import FileSource, open_source
from gdsurgeon.wire.write import SourceSpan


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def save(path: Path, data: bytes) -> None:
    with OutputFile(str(path)) as output:
        output.stage([data])
        output.publish()


def test_the_output_appears_when_it_is_published_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "out.pb"
    with OutputFile(str(path)) as output:
        staged = Path(output.stage([b"new"]))
        assert staged.parent == tmp_path
        assert staged.read_bytes() == b"new"
        assert not path.exists()
        output.publish()
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.pb"]


@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt])
def test_what_is_staged_and_not_published_leaves_nothing(tmp_path: Path, fault: type[BaseException]) -> None:
    path = tmp_path / "out.pb"
    path.write_bytes(b"old")
    with pytest.raises(fault), OutputFile(str(path)) as output:
        output.stage([b"new"])
        raise fault
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.pb"]


def test_a_source_that_is_cut_short_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(10_000))
    source = open_source(str(tmp_path / "in"))
    os.truncate(tmp_path / "in", 10)
    with pytest.raises(InputError), OutputFile(str(tmp_path / "out.pb")) as output:
        output.stage([SourceSpan(source, 0, 10_000)])
    source.close()
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("bits", [0o600, 0o644, 0o755, 0o666])
def test_the_mode_of_the_old_file_is_kept(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "out.pb"
    path.write_bytes(b"old")
    path.chmod(bits)
    save(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", bits)


@pytest.mark.parametrize(("mask", "bits"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path, mask: int, bits: int) -> None:
    before = os.umask(mask)
    try:
        save(tmp_path / "out.pb", b"new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "out.pb") == bits


def test_a_symbolic_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "model.pb"
    target.write_bytes(b"old")
    link = tmp_path / "link.pb"
    link.symlink_to("real/model.pb")
    save(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["link.pb", "real"]
    assert os.listdir(tmp_path / "real") == ["model.pb"]


def test_a_dangling_link_is_filled(tmp_path: Path) -> None:
    link = tmp_path / "link.pb"
    link.symlink_to("later.pb")
    save(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "later.pb").read_bytes() == b"new"


def test_a_hard_link_to_the_old_file_keeps_the_old_bytes(tmp_path: Path) -> None:
    path = tmp_path / "out.pb"
    path.write_bytes(b"old")
    os.link(path, tmp_path / "other.pb")
    save(path, b"new")
    assert (tmp_path / "other.pb").read_bytes() == b"old"


def test_a_reader_of_the_old_file_keeps_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "out.pb"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        save(path, b"new")
        assert reader.read() == b"old"


def test_a_name_as_long_as_may_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 252 + ".pb")
    save(path, b"new")
    assert path.read_bytes() == b"new"


def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="it is a directory"):
        OutputFile(str(tmp_path))
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(OutputError, match="symbolic links"):
        OutputFile(str(tmp_path / "ring"))
    (tmp_path / "fixed").write_bytes(b"old")
    (tmp_path / "fixed").chmod(0o444)
    with pytest.raises(OutputError, match="read-only"):
        OutputFile(str(tmp_path / "fixed"))


@pytest.mark.parametrize("call", ["fsync", "write", "replace"])
def test_a_failure_on_the_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "out.pb"
    path.write_bytes(b"old")

    def fail(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="no space left"):  # noqa: SIM117 (the patch must end before the folder is read)
        with monkeypatch.context() as patch, OutputFile(str(path)) as output:
            patch.setattr(os, call, fail)
            output.stage([b"new"])
            output.publish()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.pb"]


def test_a_pipe_is_streamed_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    with OutputFile(str(path)) as output:
        assert output.is_stream
        staged = output.stage([b"a" * 100_000])
        assert Path(staged).parent != tmp_path
        output.publish()
    reader.join()
    assert found == [b"a" * 100_000]
    assert not os.path.exists(staged)
    assert stat.S_ISFIFO(path.stat().st_mode)


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


def test_the_same_file_by_other_names(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    (tmp_path / "link").symlink_to("a")
    os.link(path, tmp_path / "hard")
    assert same_file(str(path), str(tmp_path / "link"))
    assert same_file(str(path), str(tmp_path / "hard"))
    assert same_file(str(path), str(tmp_path / "." / "a"))
    (tmp_path / "other").touch()
    assert not same_file(str(path), str(tmp_path / "other"))
    assert not same_file(str(path), str(tmp_path / "missing"))


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


def test_what_only_some_may_read_is_at_no_time_there_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.pb"
    path.write_bytes(b"old")
    path.chmod(0o600)
    seen = []
    write = output.write_chunks

    def watched(fd: int, chunks: object) -> None:
        seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
        write(fd, chunks)  # type: ignore[arg-type]

    monkeypatch.setattr(output, "write_chunks", watched)
    save(path, b"new")
    assert (seen, mode(path)) == ([0o600], 0o600)
