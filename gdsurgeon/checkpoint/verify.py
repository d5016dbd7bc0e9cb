"""Holds every byte of a checkpoint against its checksums."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

from gdsurgeon.checkpoint.bundle import Bundle
from gdsurgeon.checkpoint.crc32c import CHUNK, checksum_of, mask
from gdsurgeon.checkpoint.stored import Checkpoint, Part
from gdsurgeon.checkpoint.strings import checksum_of_strings, checksum_of_variants
from gdsurgeon.checkpoint.table import Block
from gdsurgeon.checkpoint.v1 import V1Checkpoint
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import STRING, VARIANT, DType
from gdsurgeon.text import named
from gdsurgeon.wire.fields import WireError
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import SourceSpan


class Verified(NamedTuple):
    """What was found: how many tensors and bytes were read, bytes that belong to no tensor, and what is wrong."""

    tensors: int
    nbytes: int
    unused: int
    faults: tuple[str, ...]


def verify(checkpoint: Checkpoint, told: Callable[[int], None] = lambda _nbytes: None) -> Verified:
    """Holds tensors, and what the index says of them, against their checksums.

    Bytes of a shard that belong to no tensor have no checksum: they are counted.

    Args:
        checkpoint: its index was already verified when it was opened.
        told: called with how many bytes were read since the last time.
    """
    if isinstance(checkpoint, V1Checkpoint):
        return _verify_tables(checkpoint, told)
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
    spans: dict[int, list[SourceSpan]] = {}
    for span in dict.fromkeys(part.span for _, _, part in parts):
        spans.setdefault(id(span.source), []).append(span)
    crossing = {span for of_shard in spans.values() for span in _crossing(of_shard)}
    checksum = cache(partial(_checksum, told))
    for key, dtype, part in parts:
        span = part.span
        what = "its bytes overlap those of a different tensor" if span in crossing else "its checksum is wrong"
        try:
            kind = dtype if dtype in (STRING, VARIANT) else None
            is_right = span not in crossing and checksum(kind, span, math.prod(part.shape)) == part.crc
        except WireError as error:
            is_right, what = False, error.reason
        if not is_right:
            place = f"{printable(span.source.name)}, offsets {span.start:,} to {span.end:,}"
            faults.append(f"{quoted(key)} ({place}): {what}")
    nbytes = sum(span.end - span.start for of_shard in spans.values() for span in of_shard if span not in crossing)
    unused = sum(map(_unused, spans.values()))
    return Verified(len(checkpoint.keys), nbytes, unused, tuple(dict.fromkeys(faults)))


def _crossing(spans: Iterable[SourceSpan]) -> Iterator[SourceSpan]:
    """Those of SPANS, which are different ones of one shard, that begin before the end of an earlier one."""
    end = 0
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if span.start < end and span.end > span.start:
            yield span
        end = max(end, span.end)


def _checksum(told: Callable[[int], None], kind: DType | None, span: SourceSpan, count: int) -> int:
    """The masked checksum of SPAN; of COUNT elements where KIND is STRING or VARIANT. Raises WireError."""
    if kind is None:
        return mask(checksum_of(_read(span, told)))
    data = span.source.read(span.start, span.end - span.start)
    return checksum_of_strings(data, count) if kind == STRING else checksum_of_variants(data, count)


def _read(span: SourceSpan, told: Callable[[int], None]) -> Iterator[bytes]:
    for start in range(span.start, span.end, CHUNK):
        size = min(CHUNK, span.end - start)
        yield span.source.read(start, size)
        told(size)


def _unused(spans: list[SourceSpan]) -> int:
    """Bytes of a shard that none of SPANS, which are of it, has."""
    unused = at = 0
    for span in sorted(spans, key=lambda span: span.start):
        unused += max(span.start - at, 0)
        at = max(at, span.end)
    return unused + spans[0].source.size - at


def _verify_tables(checkpoint: V1Checkpoint, told: Callable[[int], None]) -> Verified:
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
            told(block.size)
        try:
            table.check_frame()
        except InputError as error:
            faults.append(error.message)
    return Verified(len(checkpoint.keys), nbytes, 0, tuple(faults))


def _keys_by_block(checkpoint: V1Checkpoint) -> Mapping[tuple[Source, Block], list[str]]:
    """The keys of the tensors in each block, if the blocks can be read; of compressed blocks none is known."""
    blocks = {table.source: table.blocks for table in checkpoint.tables}
    out: dict[tuple[Source, Block], list[str]] = {}
    try:
        for key in checkpoint.keys:
            places = [(span.source, span.start) for span in checkpoint.where(key) if span.source in blocks]
            held = [
                (source, blocks[source][bisect_right(blocks[source], at, key=_offset) - 1]) for source, at in places
            ]
            for place in dict.fromkeys(held):
                out.setdefault(place, []).append(key)
    except InputError:
        return {}
    return out


def _offset(block: Block) -> int:
    return block.offset
