"""Compares a written checkpoint with the intended one."""

from __future__ import annotations

import os
from typing import NamedTuple

from gdsurgeon.checkpoint.crc32c import CHUNK
from gdsurgeon.checkpoint.edit import Edited, Value
from gdsurgeon.checkpoint.stored import Checkpoint
from gdsurgeon.errors import ValidationError, printable, quoted
from gdsurgeon.text import named
from gdsurgeon.wire.write import SourceSpan, read_chunks


class Compared(NamedTuple):
    """What was compared: tensors; bytes that were read, of both; and bytes that are those of the same file."""

    tensors: int
    read: int
    shared: int


def check_identical(written: Checkpoint, edited: Edited) -> Compared:
    """Sees to it that WRITTEN has the tensors of EDITED: their keys, dtypes, shapes, slices, and every byte.

    Raises:
        ValidationError: it has not.
    """
    if list(written.keys) != edited.keys:
        others = sorted({*written.keys} ^ {*edited.keys})
        raise _differs(written, f"the keys differ: {named(others, show=quoted)}")
    read = shared = 0
    for key, tensor in edited.kept.items():
        found = written.tensor(key)
        if (found.dtype, found.shape, found.slices) != (tensor.dtype, tensor.shape, tensor.slices):
            raise _differs(written, f"{quoted(key)} has a different dtype, shape or slices")
        for part, origin in zip(found.parts, tensor.parts, strict=True):
            size = part.span.end - part.span.start
            if origin.crc is not None and part.crc != origin.crc:
                raise _differs(written, f"{quoted(key)} has a different checksum")
            if _is_same_place(part.span, origin.span):
                shared += size
                continue
            if size != origin.span.end - origin.span.start or not _is_same(part.span, origin.span):
                raise _differs(written, f"{quoted(key)} has different bytes")
            read += size
    for key, value in edited.values.items():
        read += _check_value(written, key, value)
    return Compared(len(written.keys), read, shared)


def _check_value(written: Checkpoint, key: str, value: Value) -> int:
    found = written.tensor(key)
    if (found.dtype, found.shape, found.slices) != (value.dtype, value.shape, ()):
        raise _differs(written, f"{quoted(key)} does not have the dtype and shape of its new value")
    data = read_chunks(value.item(key).data)
    if found.parts[0].data() != data:
        raise _differs(written, f"{quoted(key)} does not have the bytes of its new value")
    return len(data)


def _is_same_place(one: SourceSpan, other: SourceSpan) -> bool:
    if (one.start, one.end) != (other.start, other.end):
        return False
    a, b = one.source.fileno(), other.source.fileno()
    return one.source is other.source or (a is not None and b is not None and os.path.sameopenfile(a, b))


def _is_same(one: SourceSpan, other: SourceSpan) -> bool:
    """Whether two spans of one length hold the same bytes."""
    for at in range(0, one.end - one.start, CHUNK):
        size = min(CHUNK, one.end - one.start - at)
        if one.source.read(one.start + at, size) != other.source.read(other.start + at, size):
            return False
    return True


def _differs(written: Checkpoint, what: str) -> ValidationError:
    return ValidationError(f"read-back check of {printable(written.prefix)} failed: {what}")
