"""Tables and bundles of checkpoints, and errors in them."""

from __future__ import annotations

import itertools
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bundles import SMALL, compressed, files_of, snappy, values
from support.desk import Desk
from support.published import FOLDER
from support.system import is_linear

from gdsurgeon.container.checkpoint import slices
from gdsurgeon.container.checkpoint import table as tables
from gdsurgeon.container.checkpoint.bundle import HEADER_KEY, Bundle
from gdsurgeon.container.checkpoint.edit import as_it_is, edit, relinked
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.slices import Extents, Piece, extents, parse_slice_spec, slice_key, spell, stretched
from gdsurgeon.container.checkpoint.stored import OBJECT_GRAPH
from gdsurgeon.container.checkpoint.table import Table, build_table, checksum, extend, mask, uncompress
from gdsurgeon.errors import InputError
from gdsurgeon.ops.dtypes import FLOAT32
from gdsurgeon.wire.fields import WireError
from gdsurgeon.wire.protos import BundleEntryProto, BundleHeaderProto
from gdsurgeon.wire.source import BytesSource
from gdsurgeon.wire.write import SourceSpan, read_chunks, size_of

ENTRY = BundleEntryProto


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, data in files_of(SMALL, "m").items():
        Path(name).write_bytes(data)
    return tmp_path


def refused(path: str = "m", key: str | None = None) -> str:
    """Checks the error for a checkpoint that cannot be opened, or for its tensor KEY."""
    with pytest.raises(InputError) as caught, open_checkpoint(path) as checkpoint:
        assert key is not None
        _ = checkpoint.tensor(key).parts
    assert caught.value.exit_code == 3 and "\n" not in caught.value.message
    return caught.value.message


def alter_index(change: Callable[[dict[bytes, bytes]], object]) -> None:
    with open_checkpoint("m") as checkpoint:
        assert isinstance(checkpoint, Bundle)
        records = dict(checkpoint.records)
    change(records)
    Path("m.index").write_bytes(build_table(sorted(records.items())))


def alter(key: bytes, **changes: int) -> None:
    """Changes fields of the entry KEY of the index."""

    def change(records: dict[bytes, bytes]) -> None:
        entry = ENTRY.FromString(records[key])
        for name, value in changes.items():
            setattr(entry, name, value)
        records[key] = entry.SerializeToString()

    alter_index(change)


def test_what_is_in_it(small: Path) -> None:
    with open_checkpoint("m") as checkpoint:
        assert checkpoint.keys == ["bias", "kernel", "names", "step"]
        assert values(checkpoint) == {drawn.key: drawn.data for drawn in SMALL}
        kernel = checkpoint.tensor("kernel")
        assert (kernel.dtype, kernel.shape, len(kernel.parts)) == (FLOAT32, (4, 3), 2)
        assert [part.span.source.name for part in kernel.parts] == ["m.data-00000-of-00002", "m.data-00001-of-00002"]
        assert checkpoint.stretch("kernel", ((1, 2), (2, 1))).data() == struct.pack("<2f", 5, 8)
        assert checkpoint.verify().faults == ()
        assert "step" in checkpoint and "stp" not in checkpoint


@pytest.mark.parametrize("path", ["m.index", "m.data-00001-of-00002", "m.meta", "./m"])
def test_a_file_of_it_names_it(small: Path, path: str) -> None:
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.prefix in ("m", "./m")


def test_no_such_checkpoint(small: Path) -> None:
    assert refused("n") == "the checkpoint n does not exist. That folder contains m"
    Path("model.ckpt-100.index").write_bytes(b"")
    assert refused("model.ckpt-10") == "the checkpoint model.ckpt-10 does not exist. Did you mean 'model.ckpt-100'?"
    assert refused(".") == ". is a folder, not a checkpoint. It contains m, model.ckpt-100"
    assert refused("nowhere/m") == "the checkpoint nowhere/m does not exist"
    Path("graph.pb").write_bytes(b"\x0a\x03\x0a\x01a")
    assert refused("graph.pb").startswith("graph.pb is not a checkpoint.")
    Path("picture").write_bytes(b"\x89PNG" + bytes(60))
    assert refused("picture").startswith("picture is not a checkpoint: it is a PNG image")
    Path("v1-00000-of-00002").write_bytes(b"")
    assert refused("v1") == "v1-00001-of-00002 is missing; it is a part of the checkpoint v1"


def test_the_folder_of_a_saved_model(tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "variables.index").write_bytes(b"")
    assert refused(str(tmp_path)).endswith("It contains variables/variables")


def test_no_such_tensor(small: Path) -> None:
    assert refused(key="kernl") == "m has no tensor 'kernl' (4 tensors). Did you mean 'kernel'?"
    assert refused(key="") == "m has no tensor '' (4 tensors)."


def header(*, endianness: int = 0, min_consumer: int = 0) -> bytes:
    found = BundleHeaderProto(num_shards=1, endianness=endianness)
    found.version.min_consumer = min_consumer
    return build_table([(HEADER_KEY, found.SerializeToString())])


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
A_POINTER = "a Git LFS pointer, not the file itself: run 'git lfs pull'"


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (None, "m.index is corrupt: it does not end like a table of tensors; was it cut short?"),
        (b"", "m.index is empty (0 bytes)"),
        (header(endianness=1), "m was written on a big-endian machine and cannot be read here"),
        (header(min_consumer=2), "m has format version 2; the newest supported version is 1"),
        (build_table([(b"w", b"")]), "m.index is corrupt: it has no checkpoint header"),
        (build_table([(b"", b"\xff")]), "m.index is corrupt: it has no checkpoint header"),
        (POINTER, f"m.index is {A_POINTER}"),
    ],
    ids=["cut", "empty", "big-endian", "newer", "no header", "corrupt header", "pointer"],
)
def test_an_index_that_is_refused(small: Path, index: bytes | None, said: str) -> None:
    path = Path("m.index")
    path.write_bytes(path.read_bytes()[:-20] if index is None else index)
    assert refused() == said


def test_a_shard_that_is_a_pointer(small: Path) -> None:
    Path("m.data-00001-of-00002").write_bytes(POINTER[:30])
    assert refused(key="step").startswith(f"m.data-00001-of-00002 is {A_POINTER}; 'step' ends at byte ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dtype": 99}, "'bias' has dtype 99, which is unknown"),
        ({"size": 11}, "'bias' has 11 bytes, which do not fit float32 [3]"),
        ({"shard_id": 2}, "'bias' is in shard 2, but there are 2 shards"),
        ({"offset": -1}, "'bias' has a negative size"),
    ],
)
def test_bad_entries(small: Path, changes: dict[str, int], said: str) -> None:
    alter(b"bias", **changes)
    assert refused(key="bias") == f"m.index has a bad entry: {said}"


def test_entries_of_slices(small: Path) -> None:
    key = slice_key(b"kernel", ((0, 2), (0, None)))
    alter(key, dtype=2)
    assert refused(key="kernel") == ("m.index has a bad entry: the slice 0,2:- of 'kernel' does not fit float32 [4, 3]")
    alter_index(lambda records: records.pop(key))
    assert refused(key="kernel") == "m.index has a bad entry: the slice 0,2:- of 'kernel' has no entry"


def test_slices_that_leave_some_out(small: Path) -> None:
    def change(records: dict[bytes, bytes]) -> None:
        entry = ENTRY.FromString(records[b"kernel"])
        del entry.slices[0]
        records[b"kernel"] = entry.SerializeToString()

    alter_index(change)
    with open_checkpoint("m") as checkpoint, pytest.raises(InputError, match="do not cover all of it"):
        checkpoint.stretch("kernel")


def test_slices_that_are_not_there_to_ask_for(small: Path) -> None:
    with open_checkpoint("m") as checkpoint:
        for part, said in (
            (((0, 1),), "has 2 dimensions, but the slice has 1"),
            (((3, 2), (0, None)), "the slice is outside of it"),
        ):
            with pytest.raises(InputError, match=said):
                checkpoint.stretch("kernel", part)
        with pytest.raises(InputError, match=re.escape("slices of this dtype cannot be joined")):
            checkpoint.stretch("names", ((0, 1),))
        with pytest.raises(InputError, match="not a tensor of strings"):
            checkpoint.tensor("bias").strings()


def test_every_byte_is_verified(small: Path) -> None:
    """A changed byte of the index or of a shard is found, and the tensor is named."""
    for name, data in files_of(SMALL, "m").items():
        for at in range(len(data)):
            Path(name).write_bytes(data[:at] + bytes((data[at] ^ 16,)) + data[at + 1 :])
            try:
                with open_checkpoint("m") as checkpoint:
                    faults = checkpoint.verify().faults
            except InputError as error:
                faults = (error.message,)
            assert len(faults) == 1 and name in faults[0], (name, at)
            assert name == "m.index" or any(f"'{drawn.key}'" in faults[0] for drawn in SMALL)
        Path(name).write_bytes(data)


def test_bytes_that_belong_to_no_tensor_are_counted(small: Path) -> None:
    path = Path("m.data-00000-of-00002")
    path.write_bytes(path.read_bytes() + bytes(5))
    with open_checkpoint("m") as checkpoint:
        found = checkpoint.verify()
    assert (found.faults, found.unused, found.tensors) == ((), 5, 4)


def test_a_fault_says_where(small: Path) -> None:
    path = Path("m.data-00000-of-00002")
    path.write_bytes(b"\1" + path.read_bytes()[1:])
    with open_checkpoint("m") as checkpoint:
        assert checkpoint.verify().faults == ("'bias' (m.data-00000-of-00002, offsets 0 to 12): its checksum is wrong",)
    path.unlink()
    with open_checkpoint("m") as checkpoint:
        said = "m.data-00000-of-00002 cannot be opened: no such file or directory"
        assert checkpoint.verify().faults == (said,)


COMPRESSED = ("serving_half_plus_two_sm", "serving_half_plus_two_tf2_sm")
"""Those whose index is in Snappy."""
INDICES = sorted(FOLDER.rglob("*.index"))


@pytest.mark.parametrize("path", INDICES, ids=lambda path: path.relative_to(FOLDER).parts[0])
def test_published_checkpoints(desk: Desk, path: Path) -> None:
    with open_checkpoint(str(path)) as checkpoint:
        assert isinstance(checkpoint, Bundle)
        found = checkpoint.verify()
        assert (found.faults, found.unused) == ((), 0)
        files = relinked(checkpoint, edit(checkpoint, {}, [], {}))
        assert files.shards == as_it_is(checkpoint).shards
        assert list(Table(BytesSource(files.table)).records()) == list(checkpoint.table.records())
        if path.relative_to(FOLDER).parts[0] not in COMPRESSED:
            assert files.table == as_it_is(checkpoint).table
        held = values(checkpoint)
    first = checkpoint.keys[-1]
    desk.done("checkpoint", str(path), "--drop", f"^{first}$", "-o", "n")
    with open_checkpoint("n") as written:
        left = values(written)
    for key in left:
        assert key.startswith("_") or left[key] == held[key]
    assert {*held} - {*left} == {first}


def test_there_are_some() -> None:
    assert len(INDICES) >= 4


@pytest.mark.parametrize(
    ("text", "shape", "part"),
    [
        ("", (), None),
        ("4 6 0,2:0,6", (4, 6), ((0, 2), (0, 6))),
        ("4 6 0,2:-", (4, 6), ((0, 2), (0, None))),
        ("4 6 -:-", (4, 6), None),
        ("4 6 0,4:-", (4, 6), None),
        ("0 3 -:1,2", (0, 3), ((0, None), (1, 2))),
        ("7 7,0", (7,), ((7, 0),)),
    ],
)
def test_specs(text: str, shape: tuple[int, ...], part: object) -> None:
    assert parse_slice_spec(text) == (shape, part)
    if part is not None:
        assert text.split(" ")[-1] == spell(parse_slice_spec(text)[1] or ())


@pytest.mark.parametrize(
    "text", ["4", "4 6", "4 6 0,2", "4 0,2:-", "4 0,5", "4 -1,2", "a -", "4 0;2", "4 1,-1", " -", "-"]
)
def test_what_is_no_spec(text: str) -> None:
    with pytest.raises(InputError, match="is not a shape with a slice"):
        parse_slice_spec(text)


def test_keys_of_slices() -> None:
    assert slice_key(b"w", ((0, 2), (0, None))) == b"\0w\0\1\1\2\x80\x82\x80\x7f"
    assert slice_key(b"a\0b\xffc", ()) == b"\0a\0\xffb\xff\0c\0\1\0"
    assert slice_key(b"w", ((64, 1 << 20),)) == b"\x00w\x00\x01\x01\x01\xc0@\xf0\x10\x00\x00"


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Extents], Extents]:
    """A shape, boxes that are all of it, and one that is wanted."""
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=3)))
    chance = random.Random(draw(st.integers(0, 1 << 32)))
    cuts = []
    for dim in shape:
        edges = sorted({0, dim, *(chance.randrange(dim + 1) for _ in range(chance.choice((0, 1, 2))))})
        cuts.append([(a, b - a) for a, b in itertools.pairwise(edges)])
    grid: list[Extents] = list(itertools.product(*cuts))
    chance.shuffle(grid)
    starts = [chance.randrange(dim) for dim in shape]
    wanted = tuple((s, chance.choice((0, 1, dim - s, dim - s))) for s, dim in zip(starts, shape, strict=True))
    return shape, grid, wanted if chance.random() < 0.7 else tuple((0, dim) for dim in shape)


def cut(array: np.ndarray, box: Extents) -> bytes:
    return array[tuple(slice(s, s + n) for s, n in box)].tobytes()


@pytest.mark.parametrize("most_runs", [4096, 0])
@given(drawn=boxes())
def test_a_box_put_together_from_boxes(most_runs: int, drawn: tuple[tuple[int, ...], list[Extents], Extents]) -> None:
    shape, grid, wanted = drawn
    array = np.arange(np.prod(shape, dtype=int), dtype="<i4").reshape(shape)
    pieces = []
    for box in grid:
        data = b"padding" + cut(array, box)
        pieces.append(Piece(box, SourceSpan(BytesSource(data), 7, len(data))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "MOST_RUNS", most_runs)
        chunks = stretched(pieces, wanted, 4)
    assert read_chunks(chunks) == cut(array, wanted)
    assert size_of(chunks) == len(cut(array, wanted))
    for chunk in chunks:
        assert isinstance(chunk, SourceSpan)
        whole = chunk.source.read(chunk.start, chunk.end - chunk.start)
        for start in range(0, len(whole), 5):
            assert chunk.source.read(chunk.start + start, 5)[: len(whole) - start] == whole[start : start + 5]


def test_rows_that_follow_each_other_are_one_span() -> None:
    source = BytesSource(bytes(range(96)))
    first, second = SourceSpan(source, 0, 48), SourceSpan(source, 48, 96)
    pieces = [Piece(((2, 2), (0, 24)), second), Piece(((0, 2), (0, 24)), first)]
    assert stretched(pieces, ((0, 4), (0, 24)), 1) == [first, second]


def test_what_no_piece_has_is_missed() -> None:
    source = BytesSource(bytes(16))
    pieces = [Piece(((0, 2), (0, 4)), SourceSpan(source, 0, 8)), Piece(((2, 1), (0, 4)), SourceSpan(source, 8, 12))]
    assert size_of(stretched(pieces, ((0, 3), (0, 4)), 1)) == 12
    for target in (((0, 4), (0, 4)), ((0, 4), (0, 2)), ((2, 2), (1, 1))):
        with pytest.raises(LookupError):
            stretched(pieces, target, 1)


def test_extents_of_all_of_a_dimension() -> None:
    assert extents(((1, None), (0, 2)), (4, 6)) == ((1, 3), (0, 2))


def test_very_many_pieces_are_found_soon() -> None:
    source = BytesSource(bytes(4))

    def put_together(count: int) -> Callable[[], int]:
        pieces = [Piece(((row, 1), (0, 4)), SourceSpan(source, 0, 4)) for row in range(count)]
        return lambda: size_of(stretched(pieces, ((0, count), (0, 4)), 1))

    assert put_together(20_000)() == 80_000
    assert is_linear(put_together, 200, 1600)


def made(tf: Any, value: float) -> Any:
    """A model of two variables with the slots of an optimiser, to be saved or restored."""
    optimiser = tf.compat.v1.train.AdamOptimizer(0.1)
    model = tf.Module()
    model.kernel = tf.Variable(tf.fill([2, 3], value), name="net/kernel")
    model.bias = tf.Variable(tf.fill([3], value), name="net/bias")
    optimiser.apply_gradients([(tf.ones_like(v), v) for v in (model.kernel, model.bias)])
    return tf.train.Checkpoint(model=model, optimizer=optimiser)


@pytest.fixture(scope="module")
def saved(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, np.ndarray]:
    checkpoint = made(tf, 2.0)
    return checkpoint.save(str(tmp_path_factory.mktemp("saved") / "m")), checkpoint.model.kernel.numpy()


def valued(tf: Any, dtype: str, value: list[Any]) -> Any:
    """VALUE as a tensor of DTYPE."""
    return tf.constant(value) if dtype == "string" else tf.cast(tf.cast(value, tf.float32), dtype)


def edited(desk: Desk, prefix: str, *arguments: str) -> str:
    desk.done("checkpoint", prefix, *arguments, "-o", "n")
    return str(desk.folder / "n")


@pytest.mark.tensorflow
def test_objects_find_their_values_under_new_keys(tf: Any, desk: Desk, saved: tuple[str, np.ndarray]) -> None:
    prefix, kernel = saved
    path = edited(desk, prefix, "--regex", "^model/=net/", "--rename-scope", "optimizer=adam")
    assert any(name == "net/kernel/.ATTRIBUTES/VARIABLE_VALUE" for name, _ in tf.train.list_variables(path))
    fresh = made(tf, 0.0)
    fresh.restore(path).assert_existing_objects_matched().assert_consumed()
    assert np.array_equal(fresh.model.kernel.numpy(), kernel)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        named = tf.compat.v1.get_variable("net/kernel", [2, 3])
        tf.compat.v1.train.Saver([named]).restore(session, path)  # by names, which it finds in the object graph, too
        assert np.array_equal(session.run(named), kernel)


@pytest.mark.tensorflow
def test_an_optimiser_that_was_dropped_is_not_looked_for(tf: Any, desk: Desk, saved: tuple[str, np.ndarray]) -> None:
    prefix, kernel = saved
    path = edited(desk, prefix, "--drop", "OPTIMIZER_SLOT", "--drop", "^optimizer/")
    assert not any("optimizer" in name.lower() for name, _ in tf.train.list_variables(path))
    fresh = made(tf, 0.0)
    fresh.restore(path).expect_partial()
    assert np.array_equal(fresh.model.kernel.numpy(), kernel)
    fresh.optimizer.apply_gradients([(tf.ones_like(fresh.model.kernel), fresh.model.kernel)])


@pytest.mark.tensorflow
def test_a_value_that_was_set_is_restored(tf: Any, desk: Desk, saved: tuple[str, np.ndarray]) -> None:
    prefix, _ = saved
    np.save("bias.npy", np.array([7, 8, 9], np.float32))
    path = edited(desk, prefix, "--set", "model/bias/.ATTRIBUTES/VARIABLE_VALUE=@bias.npy")
    fresh = made(tf, 0.0)
    fresh.restore(path).assert_existing_objects_matched()
    assert fresh.model.bias.numpy().tolist() == [7, 8, 9]


@pytest.mark.tensorflow
def test_without_the_object_graph_it_is_one_of_names(tf: Any, desk: Desk, saved: tuple[str, np.ndarray]) -> None:
    prefix, kernel = saved
    path = edited(desk, prefix, "--drop", f"^{OBJECT_GRAPH}$")
    with open_checkpoint(path) as checkpoint:
        assert OBJECT_GRAPH not in checkpoint
    assert np.array_equal(tf.train.load_variable(path, "model/kernel/.ATTRIBUTES/VARIABLE_VALUE"), kernel)


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "bool", "string", "complex64"])
def test_values_of_other_dtypes_are_set(tf: Any, desk: Desk, dtype: str) -> None:
    before, after = ([b"a", b"bc"], [b"", b"d"]) if dtype == "string" else ([0, 1], [1, 1])
    path = str(desk.folder / "m")
    tensors = [valued(tf, dtype, before)]
    tf.raw_ops.SaveV2(prefix=path, tensor_names=["w"], shape_and_slices=[""], tensors=tensors)
    value = valued(tf, dtype, after)
    array = np.array(after, "S") if dtype == "string" else value.numpy()
    np.save("w.npy", array.view("V1") if dtype.startswith("float8") else array)  # NumPy cannot read these names
    (read,) = tf.raw_ops.RestoreV2(
        prefix=edited(desk, path, "--set", "w=@w.npy"), tensor_names=["w"], shape_and_slices=[""], dtypes=[value.dtype]
    )
    assert read.numpy().tolist() == value.numpy().tolist()


RECORDS = st.dictionaries(st.binary(max_size=9), st.binary(max_size=60), max_size=70).map(lambda d: sorted(d.items()))


def opened(data: bytes) -> Table:
    return Table(BytesSource(data, "t.index"))


def check_all(data: bytes) -> list[tuple[bytes, bytes]]:
    table = opened(data)
    for block in table.blocks:
        table.check(block)
    table.check_frame()
    return list(table.records())


@pytest.mark.parametrize("size", [30, 300, 1 << 18])
@settings(max_examples=40)
@given(records=RECORDS)
def test_what_is_built_is_read(size: int, records: list[tuple[bytes, bytes]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BLOCK_SIZE", size)
        data = build_table(records)
    for table in (data, compressed(data)):
        assert check_all(table) == records
        assert [
            (key, span.source.read(span.start, span.end - span.start)) for key, span in opened(table).located()
        ] == records
    if size == 30 and len(records) > 9:
        assert len(opened(data).blocks) > 1


def test_a_byte_that_is_another_is_noticed_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_SIZE", 60)
    records = [(f"key_{i:02d}".encode(), bytes([i] * (i % 7))) for i in range(20)]
    for data in (build_table(records), compressed(build_table(records))):
        for at in range(len(data)):
            for bit in (1, 128):
                with pytest.raises(InputError, match=r"t\.index is corrupt"):
                    check_all(data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :])


def test_a_table_that_is_cut_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_SIZE", 60)
    data = build_table([(f"key_{i:02d}".encode(), b"value") for i in range(20)])
    for end in range(1, len(data)):
        with pytest.raises(InputError, match=r"t\.index is corrupt: it does not end like a table of tensors"):
            opened(data[:end])


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"abcabcabc", b"x" * 300]), max_size=12).map(b"".join))
def test_snappy(data: bytes) -> None:
    assert uncompress(snappy(data)) == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cut short"),
        (b"\x05\x10ab", "cut short"),
        (b"\x05\x04ab", "2 bytes instead of the expected 5"),
        (b"\x05\x04ab\x01\x03", "a copy refers to bytes that do not exist"),
        (b"\x05\x04ab\x01", "cut short"),
        (b"\x05\x04ab\x02\x01", "cut short"),
        (b"\x05\xf0", "cut short"),
    ],
)
def test_what_snappy_does_not_write(data: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        uncompress(data)


def bit_by_bit(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)  # RFC 3720, B.4
def test_published_values(data: bytes, crc: int) -> None:
    assert extend(0, data) == crc


@given(st.binary(max_size=4000), st.binary(max_size=4000))
def test_a_checksum_continues_where_it_ended(one: bytes, other: bytes) -> None:
    assert extend(extend(0, one), other) == bit_by_bit(one + other)
    assert checksum([one, other]) == mask(bit_by_bit(one + other))


def test_masked_as_leveldb_does() -> None:
    assert mask(0) == 0xA282EAD8
    assert mask(0xE3069283) == ((0xE3069283 >> 15 | 0xE3069283 << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
