"""The output where it is a SavedModel and a stream: a tar archive of its folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing

from gdsurgeon.container.checkpoint.bundle import Shard
from gdsurgeon.container.files import ASSETS, GRAPH_FILE
from gdsurgeon.container.output_folder import REPLACED, OutputFolder
from gdsurgeon.container.tar import packed
from gdsurgeon.errors import unwritable
from gdsurgeon.values import Closing
from gdsurgeon.wire.folder import Folder, State
from gdsurgeon.wire.output import OutputFile
from gdsurgeon.wire.source import open_source
from gdsurgeon.wire.write import Chunk, SourceSpan

File = tuple[str, list[Chunk] | None]


class OutputTar(Closing):
    """Standard output, to which a SavedModel is written as a tar stream of what is in its folder.

    If the result must be read first, it is staged in a folder for temporary files.

    Use as a context manager, as `OutputFile`.

    Attributes:
        beside: see `OutputFolder`.

    Args:
        model: the folder that is edited; '' where a new one is made.
        assets: paths of files that a new one holds.
    """

    is_stream = True
    has_appeared = False
    replaced = ()

    def __init__(self, model: str, assets: Sequence[str] = ()) -> None:
        self._stream = OutputFile("-")
        self.name = self._stream.name
        self._model = model
        self._assets = assets
        self.beside: Mapping[str, Shard] = {}
        self.files: State | None = None
        self.replaces: State | None = None
        self._stack = ExitStack()
        self._staged = ""

    def is_terminal(self) -> bool:
        """Whether what is written would appear on a terminal."""
        return self._stream.is_terminal()

    def close(self) -> None:
        """Removes the staging folder."""
        self._stack.close()

    def stage(self, chunks: Iterable[Chunk]) -> str:
        """Writes the folder with CHUNKS as its graph; returns the path of the graph's file. Raises OutputError."""
        from tempfile import TemporaryDirectory

        try:
            place = self._stack.enter_context(TemporaryDirectory(prefix="gdsurgeon-", suffix=".tmp"))
        except OSError as error:
            raise unwritable(self.name, error, "staged") from error
        folder = self._stack.enter_context(OutputFolder(os.path.join(place, "model"), self._model, self._assets))
        folder.beside, folder.files = self.beside, self.files
        graph_file = folder.stage(chunks)
        self._staged = os.path.dirname(graph_file)
        return graph_file

    def publish(self) -> None:
        """Streams the staged files. Raises OutputError, or BrokenPipeError: the reader has closed the stream."""
        self._stream.stream(packed(_listed(self._staged, None)))

    def stream(self, chunks: Iterable[Chunk]) -> None:
        """Streams the folder with CHUNKS as its graph. Raises: see `publish`."""
        self._stream.stream(packed(self._files(list(chunks))))

    def _files(self, graph: list[Chunk]) -> Iterator[File]:
        yield GRAPH_FILE, graph
        if self._model:
            yield from (item for item in _listed(self._model, self.files) if item[0] not in REPLACED)
        if self._assets:
            yield ASSETS, None
        for path in self._assets:
            yield from _file(os.path.join(ASSETS, os.path.basename(path)), path)
        for inner in sorted({os.path.dirname(name) for name in self.beside}):
            yield inner, None
            for name, content in self.beside.items():
                if os.path.dirname(name) == inner:
                    yield from _file(name, content) if isinstance(content, str) else [(name, list(content))]


def _listed(path: str, before: State | None) -> Iterator[File]:
    """All that is in the folder PATH, which is in the state from BEFORE where that is known."""
    with Folder(path) as folder:
        for entry in folder.entries():
            if entry.is_folder:
                yield entry.path, None
            else:
                with folder.source(entry.path, before) as source:
                    yield entry.path, [SourceSpan(source, 0, source.size)]


def _file(name: str, path: str) -> Iterator[File]:
    """The file PATH by its NAME in the folder, open until the next one is asked for."""
    with closing(open_source(path)) as source:
        yield name, [SourceSpan(source, 0, source.size)]
