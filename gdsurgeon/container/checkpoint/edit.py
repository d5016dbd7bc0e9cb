"""Edits checkpoints, writes the result as a TensorBundle, and compares the written files with the intended result."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Container, Iterable, Mapping
from typing import NamedTuple

from gdsurgeon.container.checkpoint.bundle import (
    Bundle,
    Entries,
    Files,
    Shard,
    build_bundle,
    encode_key,
    index_path,
    items_of,
    shard_path,
)
from gdsurgeon.container.checkpoint.slices import slice_key
from gdsurgeon.container.checkpoint.stored import OBJECT_GRAPH, Checkpoint, StoredTensor, new_tensor, object_graph
from gdsurgeon.container.checkpoint.table import pieces_of
from gdsurgeon.errors import EditError, OutputError, ValidationError, printable, quoted, unwritable
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.text import is_utf8, named
from gdsurgeon.wire.output import Earlier, Output, OutputFile
from gdsurgeon.wire.protos import BundleEntryProto, BundleHeaderProto
from gdsurgeon.wire.source import BytesSource, Source, open_source
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, size_of

_ATTRIBUTE = "/.ATTRIBUTES/"
"""The separator in a key between the path of an object and the name of its attribute."""
_SHARD = re.compile(r"\.data-\d{5}-of-(\d{5})")

Edited = Mapping[str, StoredTensor]
"""The tensors of an edited checkpoint, by their new keys; some have new values, see `new_tensor`."""


def edit(
    checkpoint: Checkpoint, renamed: Mapping[str, str], dropped: Collection[str], values: Mapping[str, StoredTensor]
) -> Edited:
    """Renames and drops tensors of a checkpoint, and sets values, all at once; the object graph is updated.

    Args:
        checkpoint: it is not changed.
        renamed: new keys by the old ones.
        dropped: keys of tensors to remove.
        values: new values by (old) keys, each with the dtype and shape of the tensor.

    Raises:
        EditError: a key does not exist; a new key is taken or not a key; a value does not fit.
    """
    for key in (*renamed, *dropped, *values):
        if key not in checkpoint:
            raise EditError(checkpoint.no_such_key(key).message)
    for key in values:
        if key in dropped:
            raise EditError(f"{quoted(key)} is both dropped and given a new value")
    fresh = dict(values)
    if OBJECT_GRAPH in checkpoint and OBJECT_GRAPH not in (*dropped, *values):
        data = checkpoint.tensor(OBJECT_GRAPH).strings()[0]
        changed = _object_graph_after(data, renamed, frozenset(dropped))
        if changed != data:
            fresh[OBJECT_GRAPH] = new_tensor(STRING, (), [changed])
    edited: dict[str, StoredTensor] = {}
    for key in checkpoint.keys:
        if key in dropped:
            continue
        new, tensor, value = renamed.get(key, key), checkpoint.tensor(key), fresh.get(key)
        if not new or new.startswith("\0") or not is_utf8(new):
            raise EditError(f"{quoted(new)} cannot be the key of a tensor: a key is UTF-8 text and not empty")
        if new in edited:
            raise EditError(f"two tensors would have the key {quoted(new)}")
        if value is not None and (tensor.dtype, tensor.shape) != (value.dtype, value.shape):
            raise EditError(
                f"{quoted(key)} is {tensor.dtype.name} {list(tensor.shape)}, but its new value is "
                f"{value.dtype.name} {list(value.shape)}"
            )
        edited[new] = value or tensor
    return edited


def _object_graph_after(data: bytes, renamed: Mapping[str, str], dropped: Container[str]) -> bytes:
    """Returns the object graph `data` with `renamed` keys and without `dropped` tensors.

    The names of the objects and of their variables (`full_name`) do not change: an object finds its value under the new
    key. An object without any value left is no longer a slot of an optimizer, because TensorFlow would look for its
    values.

    Raises:
        InputError: `data` is not an object graph.
        EditError: a new key has a different end, by which TensorFlow identifies the attribute of an object.
    """
    graph = object_graph(data)
    before = graph.SerializeToString()
    emptied: set[int] = set()
    for number, node in enumerate(graph.nodes):
        left = [attribute for attribute in node.attributes if attribute.checkpoint_key not in dropped]
        if node.attributes and not left:
            emptied.add(number)
        del node.attributes[:]
        node.attributes.extend(left)
        for attribute in node.attributes:
            old = attribute.checkpoint_key
            if old in renamed:
                new = renamed[old]
                end = _ATTRIBUTE + old.partition(_ATTRIBUTE)[2]
                if _ATTRIBUTE in old and _ATTRIBUTE + new.partition(_ATTRIBUTE)[2] != end:
                    raise EditError(
                        f"{quoted(old)} cannot be renamed to {quoted(new)}: objects find their values by "
                        f"the end of the key, {quoted(end)}"
                    )
                attribute.checkpoint_key = new
    for node in graph.nodes if emptied else ():
        slots = [slot for slot in node.slot_variables if slot.slot_variable_node_id not in emptied]
        del node.slot_variables[:]
        node.slot_variables.extend(slots)
    after = graph.SerializeToString()
    return after if after != before else data


# -- files -------------------------------------------------------------------------------------------------------


def as_it_is(bundle: Bundle) -> Files:
    """Returns the files of `bundle`, unchanged."""
    count = bundle.header.num_shards
    source = bundle.table.source
    return Files(source.read(0, source.size), [shard_path(bundle.prefix, shard, count) for shard in range(count)])


def rewritten(edited: Edited) -> Files:
    """Returns `edited` as a bundle of one new shard; tensors are copied from file to file."""
    return build_bundle(item for key in sorted(edited) for item in items_of(key, edited[key]))


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
    kept = {key: tensor for key, tensor in edited.items() if not tensor.is_new}
    values = [item for key in sorted(edited.keys() - kept.keys()) for item in items_of(key, edited[key])]
    old: dict[bytes, bytes] = {}  # entries, by their new keys
    used: set[int] = set()
    for key, tensor in kept.items():
        _ = tensor.parts  # as the index says, or an error
        own, new = encode_key(tensor.key), encode_key(key)
        old[new] = bundle.records[own]
        old |= {slice_key(new, part): bundle.records[slice_key(own, part)] for part in tensor.slices}
        names = [slice_key(new, part) for part in tensor.slices] or [new]
        used |= {BundleEntryProto.FromString(old[name]).shard_id for name in names}
    count = bundle.header.num_shards
    kept_shards = sorted(used) if taken is None or values else range(count)
    numbers = {shard: number for number, shard in enumerate(kept_shards)}
    records: dict[bytes, bytes] = {}
    for name, data in old.items():
        entry = BundleEntryProto.FromString(data)
        number = numbers.get(entry.shard_id, 0)
        is_same = number == entry.shard_id
        entry.shard_id = number
        records[name] = data if is_same else entry.SerializeToString()
    entries, chunks, at = Entries(records), list[Chunk](), 0
    for item in values:
        at += entries.add(item, len(numbers), at)
        chunks += item.data
    shards: list[Shard] = [shard_path(bundle.prefix, shard, count) for shard in numbers]
    if values or not shards:
        shards.append(chunks)
        while taken is not None and len(shards) in taken:
            shards.append([])
    header = BundleHeaderProto.FromString(bundle.header.SerializeToString())
    header.num_shards = len(shards)
    return Files(entries.index(header.SerializeToString()), shards)


# -- publishing --------------------------------------------------------------------------------------------------


class BundleOutput(Output):
    """A TensorBundle that is being written: staged, perhaps read, then published.

    First its shards get their names, which are unused. Then the index gets its name, which completes the bundle. If a
    shard exists already as a file, it becomes a hard link to that file if possible, otherwise a copy.

    If the bundle is the checkpoint of a MetaGraph, the file of the MetaGraph gets its name after the index. If that
    fails, the earlier index is restored.

    Use it as a context manager: staged files that were not published are removed.

    Attributes:
        index: the file with the index.

    Args:
        prefix: the new prefix.
        table: the bytes of its index.
        shards: in order.
        replacing: whether an existing index of that name is replaced.
        model: the output of the MetaGraph.

    Raises:
        OutputError: there is a file with the prefix that is not replaced; or the folder cannot be written to.
    """

    def __init__(
        self, prefix: str, table: bytes, shards: list[Shard], *, replacing: bool = False, model: Output | None = None
    ) -> None:
        if not replacing:
            _check_free(prefix)
        self.prefix = prefix
        self.index = OutputFile(index_path(prefix))
        self._table = table
        paths = [*Files(table, shards).at(prefix)][1:]
        self._shards = {p: (shard, OutputFile(p)) for p, shard in zip(paths, shards, strict=True) if shard != p}
        self._last = model or self.index
        self.name, self.replaces = self._last.name, self._last.replaces
        self.replaced = (self.index.name,) if replacing else ()

    def stage(self, chunks: Iterable[Chunk] = ()) -> str:
        """Writes all files under temporary names, with `chunks` as the MetaGraph; returns the path of the last file.

        Raises:
            OutputError: a file cannot be written; all staged files are removed.
        """
        for shard, output in self._shards.values():
            if isinstance(shard, str):
                output.stage_file(shard)
            else:
                output.stage(shard)
        path = self.index.stage([self._table])
        return path if self._last is self.index else self._last.stage(chunks)

    def opened(self) -> Bundle:
        """Opens the files as they are staged, or as they would be written; the caller closes the result."""

        def opener(number: int, shards: int) -> Source:
            path = shard_path(self.prefix, number, shards)
            shard, output = self._shards.get(path, (path, None))
            shard = output.staged or shard if output is not None else shard
            return open_source(shard) if isinstance(shard, str) else ChunkSource(shard, f"shard {number}")

        staged = self.index.staged
        index = open_source(staged) if staged is not None else BytesSource(self._table, self.index.name)
        return Bundle(self.prefix, index, opener)

    def publish(self) -> None:
        """Gives the files their names.

        Raises:
            OutputError: a file could not be renamed; then the other files are removed, and an earlier index remains.
        """
        with Earlier(self.index.name if self._last is not self.index else None, self._last) as earlier:
            earlier.keep()
            try:
                for _, output in self._shards.values():
                    output.publish()
                self.index.publish()
                if self._last is not self.index:
                    self._last.publish()
            except BaseException:
                for _, output in self._shards.values():
                    if output.has_appeared and not self.has_appeared:
                        output.withdraw()
                raise

    @property
    def has_appeared(self) -> bool:
        """Whether the last file has its name."""
        return self._last.has_appeared

    def close(self) -> None:
        """Removes files that have not been published."""
        for output in (*(output for _, output in self._shards.values()), self.index, self._last):
            output.close()


def _check_free(prefix: str) -> None:
    """Raises OutputError if there is a checkpoint with the prefix, or a part of one."""
    for entry, shards in _files_of(prefix):
        if shards or entry == index_path(os.path.basename(prefix)):
            raise OutputError(
                f"{printable(prefix)} cannot be written: {printable(entry)} exists already, and a checkpoint "
                "is not replaced file by file",
                code="not-replaceable",
                file=prefix,
                found=entry,
                hint="remove it first, or use a different prefix",
            )


def counts_taken(prefix: str) -> set[int]:
    """Returns the shard counts for which files with the prefix exist: 2 for ``PREFIX.data-00000-of-00002``."""
    return {shards for _, shards in _files_of(prefix) if shards}


def _files_of(prefix: str) -> list[tuple[str, int]]:
    """Returns the names of files that begin with the prefix, and their shard counts; 0 if the file is not a shard."""
    folder, name = os.path.split(prefix)
    try:
        found = [file for file in sorted(os.listdir(folder or ".")) if file.startswith(name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unwritable(prefix, error) from error
    matches = [(file, _SHARD.fullmatch(file[len(name) :])) for file in found]
    return [(file, int(match[1]) if match is not None else 0) for file, match in matches]


# -- comparing ---------------------------------------------------------------------------------------------------


class Compared(NamedTuple):
    """The number of compared tensors; of bytes that were read; and of bytes that both have in the same file."""

    tensors: int
    read: int
    shared: int


def check_identical(written: Checkpoint, edited: Edited) -> Compared:
    """Checks that `written` has the tensors of `edited`: their keys, dtypes, shapes, slices, and every byte.

    Raises:
        ValidationError: a tensor differs.
    """

    def error(what: str) -> ValidationError:
        return ValidationError(f"read-back check of {printable(written.prefix)} failed: {what}")

    if list(written.keys) != sorted(edited):
        others = sorted({*written.keys} ^ {*edited})
        raise error(f"the keys differ: {named(others, show=quoted)}")
    read = shared = 0
    for key, tensor in edited.items():
        found = written.tensor(key)
        if (found.dtype, found.shape, found.slices) != (tensor.dtype, tensor.shape, tensor.slices):
            raise error(f"{quoted(key)} has a different dtype, shape or slices")
        for part, origin in zip(found.parts, tensor.parts, strict=True):
            size = size_of([part.span])
            if origin.crc is not None and part.crc != origin.crc:
                raise error(f"{quoted(key)} has a different checksum")
            if _is_same_place(part.span, origin.span):
                shared += size
                continue
            pairs = zip(pieces_of([part.span]), pieces_of([origin.span]), strict=False)
            if size != size_of([origin.span]) or any(one != other for one, other in pairs):
                raise error(f"{quoted(key)} has different bytes")
            read += size
    return Compared(len(written.keys), read, shared)


def _is_same_place(one: SourceSpan, other: SourceSpan) -> bool:
    if (one.start, one.end) != (other.start, other.end):
        return False
    a, b = one.source.fileno(), other.source.fileno()
    return one.source is other.source or (a is not None and b is not None and os.path.sameopenfile(a, b))
