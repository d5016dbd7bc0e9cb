"""Holds every byte of a checkpoint against its checksums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gdsurgeon.checkpoint.bundle import Bundle
from gdsurgeon.checkpoint.crc32c import CHUNK, checksum_of, mask
from gdsurgeon.checkpoint.stored import Checkpoint, Part
from gdsurgeon.checkpoint.strings import checksum_of_strings, checksum_of_variants
from gdsurgeon.checkpoint.table import Block, Table
from gdsurgeon.checkpoint.v1 import V1Checkpoint
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.ops.dtypes import STRING, VARIANT, DType
from gdsurgeon.text import named
from gdsurgeon.wire.fields import WireError
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
        checkpoint: what is opened has its index verified already; that is a part of opening it.
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
    covered: dict[int, list[SourceSpan]] = {}
    nbytes = 0
    for key in checkpoint.keys:
        try:
            tensor = checkpoint.tensor(key)
            for part in tensor.parts:
                faults += _faults(key, tensor.dtype, part, told)
                covered.setdefault(id(part.span.source), []).append(part.span)
                nbytes += part.span.end - part.span.start
        except InputError as error:
            faults.append(error.message)
    unused = sum(map(_unused, covered.values()))
    return Verified(len(checkpoint.keys), nbytes, unused, tuple(dict.fromkeys(faults)))


def _faults(key: str, dtype: DType, part: Part, told: Callable[[int], None]) -> Iterator[str]:
    span = part.span
    what = "its checksum is wrong"
    try:
        if dtype == STRING:
            crc = checksum_of_strings(part.data(), math.prod(part.shape))
        elif dtype == VARIANT:
            crc = checksum_of_variants(part.data(), math.prod(part.shape))
        else:
            crc = mask(checksum_of(_read(span, told)))
    except WireError as error:
        crc, what = None, error.reason
    if crc != part.crc:
        yield f"{quoted(key)} ({printable(span.source.name)}, offsets {span.start:,} to {span.end:,}): {what}"


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
    for table in checkpoint.tables:
        for block in table.blocks:
            try:
                table.check(block)
            except InputError as error:
                faults.append(error.message + _those_in(checkpoint, table, block))
            nbytes += block.size
            told(block.size)
        try:
            table.check_frame()
        except InputError as error:
            faults.append(error.message)
    return Verified(len(checkpoint.keys), nbytes, 0, tuple(faults))


def _those_in(checkpoint: V1Checkpoint, table: Table, block: Block) -> str:
    """What is said of the tensors in a block."""
    try:
        found = [
            key
            for key in checkpoint.keys
            if any(
                span.source is table.source and block.offset <= span.start < block.offset + block.size
                for span in checkpoint.where(key)
            )
        ]
    except InputError:
        return ""
    return f" (it has {named(found, show=quoted)})" if found else ""
