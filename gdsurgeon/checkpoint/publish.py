"""The files of a TensorBundle, which appear together or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from gdsurgeon.checkpoint.bundle import Bundle, index_path, shard_path
from gdsurgeon.checkpoint.write import Item, build_bundle
from gdsurgeon.errors import OutputError, printable, unwritable
from gdsurgeon.values import Closing
from gdsurgeon.wire.output import OutputFile
from gdsurgeon.wire.source import Source, open_source
from gdsurgeon.wire.write import Chunk

_SHARD = re.compile(r"\.data-\d{5}-of-(\d{5})")

Shard = str | Sequence[Chunk]
"""A shard to publish: an existing file, or content to write."""


class BundleOutput(Closing):
    """A TensorBundle that is being written: staged, perhaps read, then published.

    First its shards get their names, which are unused. Then the index gets its name, which completes the bundle. If a
    shard exists already as a file, it becomes a hard link to that file if possible, otherwise a copy.

    Use it as a context manager: staged files that were not published are removed.

    Attributes:
        index: the file with the index.

    Args:
        prefix: the new prefix.
        table: the bytes of its index.
        shards: in order.
        replacing: whether an existing index of that name is replaced.

    Raises:
        OutputError: something of that prefix is there and is not replaced; or the folder cannot be written to.
    """

    def __init__(self, prefix: str, table: bytes, shards: Sequence[Shard], *, replacing: bool = False) -> None:
        if not replacing:
            check_free(prefix)
        self.prefix = prefix
        self.index = OutputFile(index_path(prefix))
        self._table = table
        self._shards = [
            (number, shard, OutputFile(path))
            for number, shard in enumerate(shards)
            if shard != (path := shard_path(prefix, number, len(shards)))
        ]

    def stage(self) -> None:
        """Writes everything under names of its own.

        Raises:
            OutputError: it cannot be written; nothing is left behind.
        """
        for _, shard, output in self._shards:
            if isinstance(shard, str):
                output.stage_file(shard)
            else:
                output.stage(shard)
        self.index.stage([self._table])

    def staged(self) -> Bundle:
        """What was staged, opened: the caller closes it."""
        assert self.index.staged is not None
        places = {number: output.staged for number, _, output in self._shards}

        def opened(number: int, shards: int) -> Source:
            return open_source(places.get(number) or shard_path(self.prefix, number, shards))

        return Bundle(self.prefix, open_source(self.index.staged), opened)

    def publish(self) -> None:
        """Has the files take their names.

        Raises:
            OutputError: one could not; then none has.
        """
        try:
            for _, _, output in self._shards:
                output.publish()
            self.index.publish()
        except BaseException:
            if not self.has_appeared:
                self.withdraw_shards()
            raise

    def withdraw_shards(self) -> None:
        """Removes the shards that already have their names, because their checkpoint will not appear."""
        for _, _, output in self._shards:
            if output.has_appeared:
                output.withdraw()

    @property
    def has_appeared(self) -> bool:
        """Whether the bundle is there by now."""
        return self.index.has_appeared

    def close(self) -> None:
        """Removes files that have not been published."""
        for _, _, output in self._shards:
            output.close()
        self.index.close()


def write_bundle(prefix: str, items: Iterable[Item]) -> None:
    """Writes a TensorBundle of one shard with ITEMS: all of it appears, or nothing.

    Raises:
        OutputError: it cannot be written, or there is one.
        EditError: two items are one tensor.
    """
    built = build_bundle(items)
    with BundleOutput(prefix, built.table, [built.data]) as output:
        output.stage()
        output.publish()


def check_free(prefix: str) -> None:
    """Raises OutputError where there is a checkpoint of that prefix, or a part of one."""
    for entry in _beside(prefix):
        if entry == index_path(os.path.basename(prefix)) or _shard_of(entry, prefix) is not None:
            raise OutputError(
                f"{printable(prefix)} cannot be written: {printable(entry)} exists already, and a checkpoint "
                "is not replaced file by file",
                code="not-replaceable",
                facts={"file": prefix, "found": entry},
                hint="remove it first, or use a different prefix",
            )


def counts_taken(prefix: str) -> set[int]:
    """Returns the shard counts for which files with the prefix exist: ``PREFIX.data-00000-of-00002`` gives 2."""
    found = (_shard_of(entry, prefix) for entry in _beside(prefix))
    return {int(match[1]) for match in found if match is not None}


def _beside(prefix: str) -> list[str]:
    folder = os.path.dirname(prefix)
    try:
        return sorted(os.listdir(folder or "."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unwritable(prefix, error) from error


def _shard_of(file: str, prefix: str) -> re.Match[str] | None:
    """What FILE is called behind the PREFIX, where it is called as a shard."""
    name = os.path.basename(prefix)
    return _SHARD.fullmatch(file[len(name) :]) if file.startswith(name) else None
