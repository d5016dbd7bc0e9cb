"""A checkpoint with other keys, without some tensors, or with other values; and the files that hold that."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import NamedTuple

from gdsurgeon.checkpoint import object_graph
from gdsurgeon.checkpoint.bundle import Bundle, encode_key, shard_path
from gdsurgeon.checkpoint.publish import Shard
from gdsurgeon.checkpoint.slices import slice_key
from gdsurgeon.checkpoint.stored import Checkpoint, StoredTensor
from gdsurgeon.checkpoint.write import Entries, Item, build_bundle, item_of, item_of_strings
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.ops.dtypes import STRING, DType
from gdsurgeon.text import is_utf8
from gdsurgeon.wire.protos import BundleEntryProto
from gdsurgeon.wire.write import Chunk


class Value(NamedTuple):
    """The new value of a tensor: its elements row by row, little-endian, or strings."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes | list[bytes]

    def item(self, key: str) -> Item:
        """Returns the value as an item to be stored under `key`."""
        if isinstance(self.data, list):
            return item_of_strings(key, self.shape, self.data)
        return Item(key, self.dtype, self.shape, (self.data,))


class Edited(NamedTuple):
    """The intended result of editing a checkpoint.

    Attributes:
        kept: unchanged tensors, by their new keys.
        values: those that get a value, by key.
    """

    kept: dict[str, StoredTensor]
    values: dict[str, Value]

    @property
    def keys(self) -> list[str]:
        """All of them, sorted."""
        return sorted((*self.kept, *self.values))


def edit(
    checkpoint: Checkpoint, renamed: Mapping[str, str], dropped: Collection[str], values: Mapping[str, Value]
) -> Edited:
    """CHECKPOINT with tensors renamed, dropped, and holding other values, all at once; an object graph follows.

    Args:
        checkpoint: it is only looked at.
        renamed: new keys by the old ones.
        dropped: keys of tensors that are to go.
        values: new values by (old) keys, each of the dtype and shape that the tensor has.

    Raises:
        EditError: a key is not there; a new one is taken or none at all; a value does not fit.
    """
    for key in (*renamed, *dropped, *values):
        if key not in checkpoint:
            raise EditError(checkpoint.no_such_key(key).message)
    for key in values:
        if key in dropped:
            raise EditError(f"{quoted(key)} is both dropped and given a new value")
    fresh = dict(values)
    if object_graph.KEY in checkpoint and object_graph.KEY not in (*dropped, *values):
        data = checkpoint.tensor(object_graph.KEY).strings()[0]
        changed = object_graph.followed(data, renamed, frozenset(dropped))
        if changed != data:
            fresh[object_graph.KEY] = Value(STRING, (), [changed])
    kept: dict[str, StoredTensor] = {}
    placed: dict[str, Value] = {}
    for key in checkpoint.keys:
        if key in dropped:
            continue
        new = renamed.get(key, key)
        check_key(new)
        if new in kept or new in placed:
            raise EditError(f"two tensors would have the key {quoted(new)}")
        if key in fresh:
            _check_fits(checkpoint.tensor(key), fresh[key])
            placed[new] = fresh[key]
        else:
            kept[new] = checkpoint.tensor(key)
    return Edited(kept, placed)


def check_key(key: str) -> None:
    """Raises EditError where a checkpoint cannot call a tensor KEY."""
    if not key or key.startswith("\0") or not is_utf8(key):
        raise EditError(f"{quoted(key)} cannot be the key of a tensor: a key is UTF-8 text and not empty")


def _check_fits(tensor: StoredTensor, value: Value) -> None:
    if (tensor.dtype, tensor.shape) != (value.dtype, value.shape):
        raise EditError(
            f"{quoted(tensor.key)} is {tensor.dtype.name} {list(tensor.shape)}, but its new value is "
            f"{value.dtype.name} {list(value.shape)}"
        )


class Files(NamedTuple):
    """What a TensorBundle consists of: the bytes of its index, and its shards."""

    table: bytes
    shards: list[Shard]


def as_it_is(bundle: Bundle) -> Files:
    """The files of BUNDLE."""
    count = bundle.header.num_shards
    source = bundle.table.source
    return Files(source.read(0, source.size), [shard_path(bundle.prefix, shard, count) for shard in range(count)])


def rewritten(edited: Edited) -> Files:
    """EDITED in one shard of its own, that holds nothing else; tensors are copied from file to file."""
    items: list[Item] = []
    for key in edited.keys:
        tensor = edited.kept.get(key)
        if tensor is None:
            items.append(edited.values[key].item(key))
        else:
            items += (item_of(tensor, part, key) for part in tensor.parts)
    built = build_bundle(items)
    return Files(built.table, [built.data])


def relinked(bundle: Bundle, edited: Edited, taken: Container[int] | None = None) -> Files:
    """Returns the files of `edited`, which was made from `bundle`: its shards, and one more for new values.

    Unused shards are left out. If the checkpoint is edited in place, an unused shard remains if no shard needs a new
    name; otherwise unused names are chosen, with the help of empty shards.

    Args:
        bundle: the checkpoint that was edited.
        edited: the result of the edit.
        taken: in place, the numbers of shards for which files with the prefix exist.

    Raises:
        InputError: a tensor is not in the files as the index says.
    """
    for tensor in edited.kept.values():
        _ = tensor.parts  # as the index says, or an error
    count = bundle.header.num_shards
    paths = [shard_path(bundle.prefix, shard, count) for shard in range(count)]
    used = sorted({shard for tensor in edited.kept.values() for shard in bundle.shards_of(tensor)})
    if taken is not None and not edited.values:
        used = list(range(count))
    numbers = {old: new for new, old in enumerate(used)}
    records: dict[bytes, bytes] = {}
    for key, tensor in edited.kept.items():
        own = encode_key(tensor.key)
        names = {own: encode_key(key)}
        names |= {slice_key(own, part): slice_key(encode_key(key), part) for part in tensor.slices}
        records |= {new: _moved(bundle.records[old], numbers) for old, new in names.items()}
    entries, chunks, at = Entries(records), list[Chunk](), 0
    for key, value in sorted(edited.values.items()):
        item = value.item(key)
        at += entries.add(item, len(used), at)
        chunks += item.data
    shards: list[Shard] = [paths[old] for old in used]
    if edited.values or not shards:
        shards.append(chunks)
        while taken is not None and len(shards) in taken:
            shards.append([])
    header = type(bundle.header)()
    header.CopyFrom(bundle.header)
    header.num_shards = len(shards)
    return Files(entries.index(header.SerializeToString()), shards)


def _moved(record: bytes, numbers: Mapping[int, int]) -> bytes:
    """An entry, where shards have other NUMBERS."""
    entry = BundleEntryProto.FromString(record)
    number = numbers.get(entry.shard_id, 0)
    if number == entry.shard_id:
        return record
    entry.shard_id = number
    return entry.SerializeToString()
