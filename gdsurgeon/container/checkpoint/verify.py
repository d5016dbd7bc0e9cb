"""Compares every byte of a checkpoint with its checksums."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import NamedTuple

from gdsurgeon.container.checkpoint.bundle import Bundle
from gdsurgeon.container.checkpoint.stored import Checkpoint, Part, checksum_of_variants, decode_strings
from gdsurgeon.container.checkpoint.table import Block, checksum, pieces_of
from gdsurgeon.container.checkpoint.v1 import V1Checkpoint
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import STRING, VARIANT, DType
from gdsurgeon.text import named
from gdsurgeon.wire.fields import WireError
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import SourceSpan, read_chunks, size_of


class Verified(NamedTuple):
    """The result: numbers of tensors, of bytes that were read, and of bytes that belong to no tensor; all faults."""

    tensors: int
    nbytes: int
    unused: int
    faults: tuple[str, ...]


def verify(checkpoint: Checkpoint, progress: Callable[[int], None] = lambda _nbytes: None) -> Verified:
    """Compares tensors, and their entries in the index, with their checksums.

    Bytes of a shard that belong to no tensor have no checksum: they are counted.

    Args:
        checkpoint: its index was already verified when it was opened.
        progress: called with the number of bytes that were read since the last call.
    """
    if isinstance(checkpoint, V1Checkpoint):
        return _verify_tables(checkpoint, progress)
    assert isinstance(checkpoint, Bundle)
    faults: list[str] = []
    try:
        checkpoint.table.check_frame()
    except InputError as error:
        faults.append(error.message)
    parts: list[tuple[str, DType, Part]] = []
    for key in checkpoint.keys:
        try:
            tensor = checkpoint.tensor(key)
            parts += ((key, tensor.dtype, part) for part in tensor.parts)
        except InputError as error:
            faults.append(error.message)

    @cache
    def found(kind: DType | None, span: SourceSpan, count: int) -> int:
        if kind == STRING:
            return decode_strings(read_chunks([span]), count)[1]
        return checksum(_reported(span)) if kind is None else checksum_of_variants(read_chunks([span]), count)

    def _reported(span: SourceSpan) -> Iterator[bytes]:
        for piece in pieces_of([span]):
            yield piece
            progress(len(piece))

    spans: dict[int, list[SourceSpan]] = {}
    for span in sorted({part.span for _, _, part in parts}, key=attrgetter("start", "end")):
        spans.setdefault(id(span.source), []).append(span)
    crossing: set[SourceSpan] = set()
    unused = 0
    for of_shard in spans.values():
        end = 0
        for span in of_shard:
            if span.start < end and span.end > span.start:
                crossing.add(span)  # the span begins before the end of an earlier span
            unused += max(span.start - end, 0)
            end = max(end, span.end)
        unused += of_shard[0].source.size - end
    for key, dtype, part in parts:
        span = part.span
        what = "its bytes overlap those of a different tensor" if span in crossing else "its checksum is wrong"
        kind = dtype if dtype in (STRING, VARIANT) else None
        try:
            is_right = span not in crossing and found(kind, span, math.prod(part.shape)) == part.crc
        except WireError as error:
            is_right, what = False, error.reason
        if not is_right:
            place = f"{printable(span.source.name)}, offsets {span.start:,} to {span.end:,}"
            faults.append(f"{quoted(key)} ({place}): {what}")
    nbytes = sum(size_of(span for span in of_shard if span not in crossing) for of_shard in spans.values())
    return Verified(len(checkpoint.keys), nbytes, unused, tuple(dict.fromkeys(faults)))


def _verify_tables(checkpoint: V1Checkpoint, progress: Callable[[int], None]) -> Verified:
    faults: list[str] = []
    nbytes = 0
    keys: Mapping[tuple[Source, Block], list[str]] | None = None
    for table in checkpoint.tables:
        for block in table.blocks:
            try:
                table.check(block)
            except InputError as error:
                keys = keys if keys is not None else _keys_by_block(checkpoint)
                found = keys.get((table.source, block))
                faults.append(error.message + (f" (the block contains {named(found, show=quoted)})" if found else ""))
            nbytes += block.size
            progress(block.size)
        try:
            table.check_frame()
        except InputError as error:
            faults.append(error.message)
    return Verified(len(checkpoint.keys), nbytes, 0, tuple(faults))


def _keys_by_block(checkpoint: V1Checkpoint) -> Mapping[tuple[Source, Block], list[str]]:
    """Returns the keys of the tensors in each uncompressed block; an empty mapping if a block cannot be read."""
    blocks = {table.source: table.blocks for table in checkpoint.tables}
    out: dict[tuple[Source, Block], list[str]] = {}
    try:
        for key in checkpoint.keys:
            for span in checkpoint.where(key):
                if span.source in blocks:
                    of_table = blocks[span.source]
                    block = of_table[bisect_right(of_table, span.start, key=attrgetter("offset")) - 1]
                    held = out.setdefault((span.source, block), [])
                    if key not in held[-1:]:
                        held.append(key)
    except InputError:
        return {}
    return out
