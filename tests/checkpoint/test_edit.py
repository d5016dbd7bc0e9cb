"""Edits of a checkpoint, the files that hold them, and what is noticed where those hold something else."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.bundles import SMALL, Drawn, files_of, values
from support.desk import Desk

from gdsurgeon.container.checkpoint.bundle import Bundle, Item, build_bundle
from gdsurgeon.container.checkpoint.edit import (
    BundleOutput,
    Edited,
    Files,
    check_identical,
    edit,
    relinked,
    rewritten,
)
from gdsurgeon.container.checkpoint.stored import new_tensor
from gdsurgeon.errors import EditError, OutputError, ValidationError
from gdsurgeon.ops.dtypes import FLOAT32, INT32
from gdsurgeon.wire import output
from gdsurgeon.wire.source import BytesSource, Source
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks

THREE = [Drawn(key, FLOAT32, (1,), struct.pack("<f", n), ((None, n),)) for n, key in enumerate("abc")]
NINE = struct.pack("<f", 9)
VALUE = new_tensor(FLOAT32, (1,), NINE)


def bundle(files: dict[str, bytes], prefix: str = "m") -> Bundle:
    """The checkpoint that FILES in memory are."""
    return Bundle(
        prefix,
        BytesSource(files[f"{prefix}.index"]),
        lambda n, m: BytesSource(files[f"{prefix}.data-{n:05}-of-{m:05}"]),
    )


def as_bundle(files: Files, there: dict[str, bytes], spoil: Callable[[bytes], bytes] = lambda data: data) -> Bundle:
    """FILES as a checkpoint, where shards are those THERE or (SPOILed) new ones."""

    def opened(number: int, _count: int) -> Source:
        shard = files.shards[number]
        return BytesSource(there[shard] if isinstance(shard, str) else spoil(read_chunks(shard)))

    return Bundle("n", BytesSource(files.table), opened)


@pytest.mark.parametrize("taken", [None, {3}, {1, 2, 3, 4}])
@pytest.mark.parametrize("changed", ["a", "b", "c", "ab", "abc"])
def test_shards_that_nothing_uses_are_left_out(changed: str, taken: set[int] | None) -> None:
    there = files_of(THREE, "m")
    with bundle(there) as before:
        edited = edit(before, {}, [], dict.fromkeys(changed, VALUE))
        files = relinked(before, edited, taken)
        assert sum(isinstance(shard, str) for shard in files.shards) == 3 - len(changed)
        count = 4 - len(changed)
        assert len(files.shards) == (count if not taken or count not in taken else max(taken) + 1)
        after = as_bundle(files, there)
        assert values(after) == {d.key: NINE if d.key in changed else d.data for d in THREE}
        check_identical(after, edited)


def spoilt(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (lambda e: {k: v for k, v in e.items() if k != "b"}, "the keys differ: 'b'"),
        (lambda e: {**e, "b": e["kernel"]}, "'b' has a different dtype, shape or slices"),
        (lambda e: {**e, "b": VALUE}, "'b' has a different dtype, shape or slices"),
        (lambda e: {**e, "b": new_tensor(FLOAT32, (3,), bytes(12))}, "'b' has different bytes"),
    ],
)  # fmt: skip
def test_another_result_than_it_was_to_be(expected: Callable[[Edited], Edited], said: str) -> None:
    there = files_of(SMALL, "m")
    with bundle(there) as before:
        edited = edit(before, {"bias": "b"}, [], {})
        written = as_bundle(rewritten(edited), there)
        check_identical(written, edited)
        with pytest.raises(ValidationError, match=said):
            check_identical(written, expected(edited))


def test_bytes_that_were_written_otherwise() -> None:
    there = files_of(SMALL, "m")
    with bundle(there) as before:
        edited = edit(before, {}, ["step"], {})
        with pytest.raises(ValidationError, match="'names' has different bytes"):
            check_identical(as_bundle(rewritten(edited), there, spoilt), edited)
    other = [drawn._replace(data=bytes(12)) if drawn.key == "bias" else drawn for drawn in SMALL]
    with bundle(files_of(other, "m")) as written, pytest.raises(ValidationError, match="a different checksum"):
        check_identical(written, edit(bundle(there), {}, [], {}))


def test_a_disk_that_writes_something_else_is_noticed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data in files_of(SMALL, "m").items():
        desk.put(name, data)
    before = desk.files()
    real = output.write_chunks

    def spoiling(fd: int, chunks: list[Chunk]) -> int:
        return real(fd, [spoilt(read_chunks(chunks))] if any(isinstance(c, SourceSpan) for c in chunks) else chunks)

    monkeypatch.setattr(output, "write_chunks", spoiling)
    ran = desk.run("checkpoint", "m", "--drop", "step", "-o", "n")
    assert (ran.code, ran.errors) == (5, ["Error: read-back check of n failed: 'names' has different bytes"])
    assert desk.files() == before and desk.temporary_files() == []


def test_all_edits_happen_at_once() -> None:
    with bundle(files_of(THREE, "m")) as before:
        edited = edit(before, {"a": "b", "b": "c"}, ["c"], {"a": VALUE})
        assert {key: tensor.is_new for key, tensor in edited.items()} == {"b": True, "c": False}
        with pytest.raises(EditError, match="two tensors would have the key 'c'"):
            edit(before, {"a": "b", "b": "c"}, [], {})
        with pytest.raises(EditError, match=r"'a' is float32 \[1\], but its new value is int32 \[1\]"):
            edit(before, {}, [], {"a": new_tensor(INT32, (1,), bytes(4))})


def test_two_items_of_a_bundle_cannot_have_one_key() -> None:
    item = Item("a", FLOAT32, (1,), [bytes(4)])
    with pytest.raises(EditError, match="two tensors would have the key 'a'"):
        build_bundle([item, item])


def test_a_bundle_is_not_replaced_by_one_of_the_same_prefix(tmp_path: Path) -> None:
    prefix = str(tmp_path / "m")
    files = build_bundle([Item("a", FLOAT32, (1,), [bytes(4)])])
    with BundleOutput(prefix, *files) as output:
        output.stage()
        output.publish()
    with pytest.raises(OutputError, match="is not replaced"):
        BundleOutput(prefix, *files)
