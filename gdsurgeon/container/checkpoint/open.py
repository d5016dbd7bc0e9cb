"""Opens a checkpoint by its prefix; without a checkpoint, reports what was found instead."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from gdsurgeon.arguments import StrPath, public
from gdsurgeon.container.checkpoint.bundle import Bundle, index_path
from gdsurgeon.container.checkpoint.stored import Checkpoint
from gdsurgeon.container.checkpoint.table import is_table
from gdsurgeon.errors import InputError, printable
from gdsurgeon.text import named, near_miss
from gdsurgeon.wire.sniff import HEAD, foreign_format
from gdsurgeon.wire.source import open_source

_OF_A_BUNDLE = re.compile(r"(.+)\.(index|meta|data-\d{5}-of-\d{5})\Z", re.DOTALL)
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\Z", re.DOTALL)


def prefix_of(path: str) -> str:
    """Returns the checkpoint prefix of `path`: without .index, .meta or .data-* if that index exists, else `path`."""
    found = _OF_A_BUNDLE.match(path)
    return found[1] if found is not None and os.path.exists(index_path(found[1])) else path


@public
def open_checkpoint(path: StrPath) -> Checkpoint:
    """Opens the checkpoint with the prefix `path`; `path` may also be one of its files.

    It is a TensorBundle (``PATH.index`` with ``PATH.data-*``), or a checkpoint of TensorFlow before 1.0 (V1): the file
    `path` itself, or ``PATH-00000-of-00002`` and so on.

    Raises:
        InputError: there is no such checkpoint; or its index is corrupt or has an unsupported format.
    """
    path = os.fspath(path)
    prefix = prefix_of(path)
    if os.path.exists(index_path(prefix)):
        return Bundle(prefix, open_source(index_path(prefix)))
    found = _SHARD.match(prefix)
    if found is not None and os.path.exists(prefix):
        prefix = found[1]
    shards = _v1_shards(prefix)
    if shards:
        return _v1(prefix, shards)
    if os.path.isfile(prefix):
        source = open_source(prefix)
        try:
            is_v1 = is_table(source)
            foreign = foreign_format(source.read(0, min(HEAD, source.size)))
        finally:
            source.close()
        if is_v1:
            return _v1(prefix, [prefix])
        what, kind = (f": it is {foreign.what}", foreign.kind) if foreign is not None else ("", "")
        line = f"{printable(prefix)} is not a checkpoint{what}.{_those_there(prefix)}".rstrip(".")
        raise InputError(line, code="wrong-format", file=prefix, found=kind)
    if os.path.isdir(prefix):
        line = f"{printable(prefix)} is a folder, not a checkpoint.{_those_in(prefix)}".rstrip(".")
        raise InputError(line, code="is-a-folder", file=prefix)
    line = f"the checkpoint {printable(prefix)} does not exist.{_those_there(prefix)}".rstrip(".")
    raise InputError(line, code="no-such-file", file=prefix)


def _v1(prefix: str, paths: Sequence[str]) -> Checkpoint:
    from gdsurgeon.container.checkpoint.v1 import V1Checkpoint  # few checkpoints have this form

    return V1Checkpoint(prefix, paths)


def _v1_shards(prefix: str) -> list[str]:
    """Returns the files of the V1 checkpoint `prefix` if it is stored in several; else an empty list.

    Raises:
        InputError: a file is missing.
    """
    folder, name = os.path.split(prefix)
    found = [match for entry in listed(folder) if (match := _SHARD.match(entry)) is not None and match[1] == name]
    if not found:
        return []
    count = int(found[0][3])
    shards = [f"{prefix}-{number:05d}-of-{count:05d}" for number in range(count)]
    for shard in shards:
        if not os.path.exists(shard):
            line = f"{printable(shard)} is missing; it is a part of the checkpoint {printable(prefix)}"
            raise InputError(line, code="file-missing", file=shard)
    return shards


def _those_there(prefix: str) -> str:
    """Returns a sentence about the checkpoints in the folder of `prefix`, if `prefix` is not one of them."""
    folder, name = os.path.split(prefix)
    there = _prefixes(folder)
    return near_miss(name, there) or (f" That folder contains {named(there)}" if there else "")


def _those_in(folder: str) -> str:
    """Returns a sentence about the checkpoints in `folder`, which was given instead of a prefix."""
    there = [*_prefixes(folder), *(os.path.join("variables", p) for p in _prefixes(os.path.join(folder, "variables")))]
    return f" It contains {named(there)}" if there else ""


def _prefixes(folder: str) -> list[str]:
    return sorted(name.removesuffix(".index") for name in listed(folder) if name.endswith(".index"))


def listed(folder: str) -> list[str]:
    """Returns the sorted names in `folder` ('': the working folder); an empty list if it cannot be read."""
    try:
        return sorted(os.listdir(folder or "."))
    except OSError:
        return []
