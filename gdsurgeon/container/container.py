"""A model as it is shipped: a SavedModel, or a MetaGraph with its checkpoint; its graph is edited in place."""

from __future__ import annotations

import os
from functools import partial
from typing import Protocol

from gdsurgeon.container.files import ASSETS, CHECKPOINT, Wanted
from gdsurgeon.container.meta_graph import AS_IT_IS, Around, MetaGraph
from gdsurgeon.container.restoring import check_assets, initialising, keys_by_objects, restored_keys, restoring, weights
from gdsurgeon.errors import InputError, Json, Line, UsageError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import META_GRAPH, Serving, no_signature
from gdsurgeon.text import and_more
from gdsurgeon.wire.fields import LEN, Field, encode_varint
from gdsurgeon.wire.folder import State
from gdsurgeon.wire.source import Source, fields_of
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of

MOST_NAMED = 20
"""Sets of tags that a message names."""
MOST_GRAPHS = 1000
"""The maximum number of MetaGraphs of a SavedModel that are read."""
META_GRAPHS = 2
"""Field number of the MetaGraphDefs in a SavedModel."""


class Container(Protocol):
    """What is around a graph.

    Attributes:
        kind: the name of the kind.
        meta: the MetaGraph.
        checkpoint: the prefix of its checkpoint; '' where it has none.
        files: the state of the folder that it is; None where it is a file.
    """

    kind: str
    meta: MetaGraph
    checkpoint: str
    files: State | None

    @property
    def graph(self) -> Graph:
        """The graph, to be changed."""

    def chunks(self, around: Around = AS_IT_IS) -> list[Chunk]:
        """The file that holds the graph, as it is now."""

    def read_again(self, source: Source) -> MetaGraph:
        """The MetaGraph in SOURCE, the file as it is written."""

    def reopened(self, source: Source) -> Container:
        """Returns the same container with `source` instead of its file."""


class SavedModel:
    """The folder of a SavedModel.

    Args:
        folder: its path.
        source: its ``saved_model.pb``.
        wanted: what of it.
        files: the state of the folder.

    Raises:
        InputError: it is corrupt, or has no such MetaGraph.
        UsageError: it has several, and it is not said which is meant.
    """

    kind = "SavedModel"

    def __init__(self, folder: str, source: Source, wanted: Wanted, files: State | None) -> None:
        self.folder = folder
        self.files: State | None = files
        self._source = source
        self._wanted = wanted
        self._places = _places(source)
        found = [MetaGraph(source, place.value, place.end) for place in self._places]
        self._chosen = _chosen(found, wanted.tags, source.name)
        self.meta = found[self._chosen]
        for meta in found:
            check_assets(meta.around, source.name)
        own = os.path.join(folder, CHECKPOINT)
        self.checkpoint = wanted.checkpoint or (own if os.path.isfile(f"{own}.index") else "")
        self.meta.graph.serving = _serving(self.kind, self.meta, self.checkpoint, os.path.join(folder, ASSETS), wanted)

    @property
    def graph(self) -> Graph:
        """The graph, to be changed."""
        return self.meta.graph

    def chunks(self, around: Around = AS_IT_IS) -> list[Chunk]:
        """``saved_model.pb`` as it is now; see `MetaGraph.chunks`."""
        place = self._places[self._chosen]
        inner = self.meta.chunks(around)
        head = encode_varint(META_GRAPHS << 3 | LEN) + encode_varint(size_of(inner))
        before, after = SourceSpan(self._source, 0, place.start), SourceSpan(self._source, place.end, self._source.size)
        return [before, head, *inner, after]

    def read_again(self, source: Source) -> MetaGraph:
        """The MetaGraph in SOURCE, the file as it is written."""
        place = _places(source)[self._chosen]
        return MetaGraph(source, place.value, place.end)

    def reopened(self, source: Source) -> SavedModel:
        """Returns the same container with `source` instead of its file."""
        return SavedModel(self.folder, source, self._wanted, self.files)


class MetaGraphFile:
    """A ``.meta`` file, with the checkpoint of its name.

    Args:
        path: its path.
        source: its bytes.
        wanted: what of it.

    Raises:
        InputError: it is corrupt.
    """

    kind = META_GRAPH
    files: State | None = None

    def __init__(self, path: str, source: Source, wanted: Wanted) -> None:
        self.meta = MetaGraph(source, 0, source.size)
        self._path, self._wanted = path, wanted
        own = path.removesuffix(".meta")
        is_there = own != path and _is_checkpoint(own)  # without the suffix the file itself would pass for a checkpoint
        self.checkpoint = wanted.checkpoint or (own if is_there else "")
        self.meta.graph.serving = _serving(self.kind, self.meta, self.checkpoint, "", wanted)

    @property
    def graph(self) -> Graph:
        """The graph, to be changed."""
        return self.meta.graph

    def chunks(self, around: Around = AS_IT_IS) -> list[Chunk]:
        """The file as it is now; see `MetaGraph.chunks`."""
        return self.meta.chunks(around)

    def read_again(self, source: Source) -> MetaGraph:
        """The MetaGraph in SOURCE, the file as it is written."""
        return MetaGraph(source, 0, source.size)

    def reopened(self, source: Source) -> MetaGraphFile:
        """Returns the same container with `source` instead of its file."""
        return MetaGraphFile(self._path, source, self._wanted)


def _is_checkpoint(prefix: str) -> bool:
    return os.path.isfile(f"{prefix}.index") or os.path.isfile(prefix)


def _places(source: Source) -> list[Field]:
    """Where the MetaGraphDefs are."""
    found = fields_of(source, 0, source.size)
    places = [field for field in found if field.number == META_GRAPHS and field.wire_type == LEN]
    if not 0 < len(places) <= MOST_GRAPHS:
        what = (
            "without a graph" if not places else f"with {len(places):,} graphs; at most {MOST_GRAPHS:,} are supported"
        )
        facts: dict[str, Json] = {"file": source.name, "count": len(places)}
        raise InputError(f"{printable(source.name)} is a SavedModel {what}", code="wrong-format", facts=facts)
    return places


def only_graph(source: Source) -> MetaGraph:
    """The first MetaGraph of the SavedModel in SOURCE."""
    place = _places(source)[0]
    return MetaGraph(source, place.value, place.end)


def _chosen(found: list[MetaGraph], tags: tuple[str, ...], name: str) -> int:
    """Which of several MetaGraphs is meant."""
    fitting = [number for number, meta in enumerate(found) if not tags or meta.tags == frozenset(tags)]
    if not tags and len(fitting) > 1:
        fitting = [number for number in fitting if found[number].tags == {"serve"}] or fitting
    if len(fitting) == 1:
        return fitting[0]
    there = [",".join(sorted(meta.tags)) for meta in found]
    shown = "; ".join(text or "no tags" for text in there[:MOST_NAMED]) + and_more(len(there) - MOST_NAMED)
    facts: dict[str, Json] = {"file": name, "found": there}
    if not fitting:
        wanted = ",".join(sorted(tags))
        line = (
            f"{printable(name)} has no graph with the tags {quoted(wanted)}; its graphs have the tags: "
            f"{printable(shown)}"
        )
        raise InputError(line, code="no-such-tag", facts=facts | {"name": wanted})
    message = Line(
        "{model} has {count} graphs; select one with {tags} ({there})",
        model=printable(name),
        count=str(len(found)),
        there=printable(shown),
    )
    raise UsageError(message, code="missing-option", facts=facts | {"option": "tags"})


def _serving(kind: str, meta: MetaGraph, checkpoint: str, assets: str, wanted: Wanted) -> Serving:
    name = meta.graph.source_name
    signatures = meta.signatures
    missing = [key for key in wanted.signatures if key not in signatures]
    if missing:
        remark = no_signature(missing[0], signatures)
        raise InputError(f"{printable(name)} has {remark}", code=remark.code, facts=remark.facts)
    restored = restored_keys(meta) if checkpoint else {}
    apart = keys_by_objects(meta, checkpoint, restored) if checkpoint else {}
    keys = restored | apart
    makes = partial(weights, checkpoint, keys) if checkpoint else None
    return Serving(
        kind,
        checkpoint,
        signatures,
        wanted.signatures,
        restoring(meta, checkpoint),
        initialising(meta, assets),
        keys,
        frozenset(apart),
        weights=makes,
    )
