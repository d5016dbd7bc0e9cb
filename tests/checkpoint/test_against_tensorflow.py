"""Checkpoints that TensorFlow has written are read, and those that are written here it reads: the same tensors."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from support.bundles import SMALL, V1_DTYPES, Drawn, compressed, contents, restored, save, save_v1

from gdsurgeon.container.checkpoint.bundle import index_path, shard_path
from gdsurgeon.container.checkpoint.edit import Files, edit, relinked, rewritten
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.slices import parse_slice_spec
from gdsurgeon.container.checkpoint.stored import Checkpoint
from gdsurgeon.errors import InputError
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.wire.write import read_chunks


def check(checkpoint: Checkpoint, tensors: list[Drawn]) -> None:
    """That CHECKPOINT holds TENSORS, in the slices that they are stored in."""
    assert list(checkpoint.keys) == [tensor.key for tensor in tensors]
    for drawn in tensors:
        tensor = checkpoint.tensor(drawn.key)
        assert (tensor.dtype, tensor.shape) == (drawn.dtype, drawn.shape)
        if drawn.dtype == STRING:
            assert tensor.strings() == drawn.data
        else:
            assert checkpoint.stretch(drawn.key).data() == drawn.data
    assert checkpoint.verify().faults == ()


def write(prefix: Path, files: Files) -> None:
    """The FILES, without the care that is taken of what a user keeps."""
    Path(index_path(str(prefix))).write_bytes(files.table)
    for number, shard in enumerate(files.shards):
        path = Path(shard_path(str(prefix), number, len(files.shards)))
        if isinstance(shard, str):
            path.hardlink_to(shard)
        else:
            path.write_bytes(read_chunks(shard))


def check_read(tf: Any, prefix: Path, tensors: list[Drawn], key: Any = lambda key: key) -> None:
    """That TensorFlow finds TENSORS there, under their KEYs."""
    found = restored(tf, prefix, [(key(tensor.key), tensor.dtype) for tensor in tensors])
    assert found == [tensor.data for tensor in tensors]


@pytest.mark.tensorflow
@given(tensors=contents())
def test_bundles(tf: Any, tensors: list[Drawn]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours, linked = (Path(folder) / name for name in ("theirs", "ours", "linked"))
        save(tf, theirs, tensors)
        if not tensors:
            return
        with open_checkpoint(str(theirs)) as checkpoint:
            check(checkpoint, tensors)
            write(ours, rewritten(edit(checkpoint, {}, [], {})))
            new = {tensor.key: f"new/{tensor.key}" for tensor in tensors}
            write(linked, relinked(checkpoint, edit(checkpoint, new, [], {})))
            if len({shard for tensor in tensors for _, shard in tensor.parts}) == 1:
                assert index(ours) == index(theirs)
        check_read(tf, ours, tensors)
        check_read(tf, linked, tensors, new.__getitem__)
        Path(f"{theirs}.index").write_bytes(compressed(index(ours)))
        with open_checkpoint(str(theirs)) as checkpoint:
            assert checkpoint.keys == [tensor.key for tensor in tensors]


def index(prefix: Path) -> bytes:
    return Path(f"{prefix}.index").read_bytes()


@pytest.mark.tensorflow
@settings(max_examples=40)
@given(tensors=contents(dtypes=V1_DTYPES, shards=1))
def test_v1_checkpoints(tf: Any, tensors: list[Drawn]) -> None:
    if not tensors:
        return
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = Path(folder) / "model.ckpt", Path(folder) / "ours"
        save_v1(tf, theirs, tensors)
        with open_checkpoint(str(theirs)) as checkpoint:
            check(checkpoint, tensors)
            write(ours, rewritten(edit(checkpoint, {}, [], {})))
        check_read(tf, ours, tensors)


@pytest.mark.tensorflow
def test_an_index_of_many_blocks(tf: Any, tmp_path: Path) -> None:
    keys = sorted(f"{hashlib.sha512(bytes((i >> 8, i & 255))).hexdigest() * 4}/{i}" for i in range(1200))
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "theirs"),
        tensor_names=keys,
        shape_and_slices=[""] * len(keys),
        tensors=list(tf.unstack(tf.range(len(keys)))),
    )
    with open_checkpoint(str(tmp_path / "theirs")) as checkpoint:
        assert checkpoint.keys == sorted(keys)
        assert all(checkpoint.stretch(key).data() == i.to_bytes(4, "little") for i, key in enumerate(keys))
        write(tmp_path / "ours", rewritten(edit(checkpoint, {}, [], {})))
    assert index(tmp_path / "ours") == index(tmp_path / "theirs")
    reader = tf.train.load_checkpoint(str(tmp_path / "ours"))
    assert sorted(reader.get_variable_to_shape_map()) == sorted(keys)
    assert all(reader.get_tensor(key) == i for i, key in list(enumerate(keys))[::7])
    Path(f"{tmp_path / 'ours'}.index").write_bytes(compressed(index(tmp_path / "ours")))
    assert tf.train.load_checkpoint(str(tmp_path / "ours")).get_tensor(keys[77]) == 77
    with open_checkpoint(str(tmp_path / "ours")) as checkpoint:
        assert checkpoint.keys == sorted(keys) and checkpoint.verify().faults == ()


@pytest.mark.tensorflow
def test_slices_as_tensorflow_restores_them(tf: Any, tmp_path: Path) -> None:
    whole = tf.reshape(tf.range(6 * 5 * 4), (6, 5, 4))
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "m"),
        tensor_names=["w", "w", "w"],
        shape_and_slices=["6 5 4 0,2:-:-", "6 5 4 2,4:0,3:-", "6 5 4 2,4:3,2:-"],
        tensors=[whole[:2], whole[2:, :3], whole[2:, 3:]],
    )
    with open_checkpoint(str(tmp_path / "m")) as checkpoint:
        for text in ("-:-:-", "1,3:-:-", "2,2:0,2:1,2", "0,6:4,1:3,1", "5,1:4,1:-"):
            _, part = parse_slice_spec(f"6 5 4 {text}")
            (wanted,) = restored(tf, tmp_path / "m", [("w", checkpoint.tensor("w").dtype)], [f"6 5 4 {text}"])
            assert checkpoint.stretch("w", part).data() == wanted


@pytest.mark.tensorflow
def test_every_byte_of_a_v1_checkpoint_is_verified(tf: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.ckpt"
    save_v1(tf, path, [drawn for drawn in SMALL if drawn.key != "names"])
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes((data[at] ^ 16,)) + data[at + 1 :])
        try:
            with open_checkpoint(str(path)) as checkpoint:
                faults = checkpoint.verify().faults
        except InputError as error:
            faults = (error.message,)
        assert faults and "m.ckpt" in faults[0], at
    at = data.index(SMALL[0].data)
    path.write_bytes(data[:at] + b"!" + data[at + 1 :])
    with open_checkpoint(str(path)) as checkpoint:
        (fault,) = checkpoint.verify().faults
    said = "is corrupt: the checksum of its block at offset 0 is wrong (the block contains 'bias', 'kernel', 'step')"
    assert fault == f"{path} {said}"
    path.write_bytes(data[:-60])
    with pytest.raises(InputError, match="is not a checkpoint"):
        open_checkpoint(str(path))
