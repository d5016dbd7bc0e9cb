"""A model as it is shipped: a SavedModel, or a MetaGraph with its checkpoint; its graph is edited in place."""

from __future__ import annotations

import os
from functools import partial

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


class Container:
    """The file of a model, with everything around the graph.

    Args:
        source: the bytes of the file that holds the graph.
        files: the state of the folder of a SavedModel; None for a file.

    Attributes:
        kind: the name of the kind.
        meta: the MetaGraph.
        checkpoint: the prefix of its checkpoint; '' without one.
    """

    kind: str
    meta: MetaGraph
    checkpoint: str

    def __init__(self, source: Source, wanted: Wanted, files: State | None) -> None:
        self._source = source
        self._wanted = wanted
        self.files = files

    @property
    def graph(self) -> Graph:
        """The graph, to be changed."""
        return self.meta.graph

    def chunks(self, around: Around = AS_IT_IS) -> list[Chunk]:
        """Returns the current content of the file that holds the graph; see `MetaGraph.chunks`."""
        raise NotImplementedError

    def read_again(self, source: Source) -> MetaGraph:
        """Returns the MetaGraph in `source`, the written file."""
        raise NotImplementedError

    def reopened(self, source: Source) -> Container:
        """Returns the same container with `source` instead of its file."""
        raise NotImplementedError

    def _serve(self, own: str, assets: str) -> None:
        """Sets the prefix of the checkpoint, `own` by default, and the serving of the graph.

        Raises:
            InputError: there is no signature with a selected key.
        """
        meta, wanted = self.meta, self._wanted
        checkpoint = self.checkpoint = wanted.checkpoint or own
        missing = [key for key in wanted.signatures if key not in meta.signatures]
        if missing:
            remark = no_signature(missing[0], meta.signatures)
            line = f"{printable(meta.graph.source_name)} has {remark}"
            raise InputError(line, code=remark.code, facts=remark.facts)
        restored = restored_keys(meta) if checkpoint else {}
        by_objects = keys_by_objects(meta, checkpoint, restored) if checkpoint else {}
        keys = restored | by_objects
        meta.graph.serving = Serving(
            self.kind,
            checkpoint,
            meta.signatures,
            wanted.signatures,
            restoring(meta, checkpoint),
            initialising(meta, assets),
            keys,
            frozenset(by_objects),
            weights=partial(weights, checkpoint, keys) if checkpoint else None,
        )


class SavedModel(Container):
    """The folder of a SavedModel.

    Args:
        folder: its path.
        source: its ``saved_model.pb``.
        wanted: the part of it to use.
        files: the state of the folder.

    Raises:
        InputError: it is corrupt, or has no such MetaGraph.
        UsageError: it has several, and `wanted` does not select one.
    """

    kind = "SavedModel"

    def __init__(self, folder: str, source: Source, wanted: Wanted, files: State | None) -> None:
        super().__init__(source, wanted, files)
        self.folder = folder
        self._places = _places(source)
        found = [MetaGraph(source, place.value, place.end) for place in self._places]
        self._chosen = _chosen(found, wanted.tags, source.name)
        self.meta = found[self._chosen]
        for meta in found:
            check_assets(meta.around, source.name)
        own = os.path.join(folder, CHECKPOINT)
        self._serve(own if os.path.isfile(f"{own}.index") else "", os.path.join(folder, ASSETS))

    def chunks(self, around: Around = AS_IT_IS) -> list[Chunk]:
        place = self._places[self._chosen]
        inner = self.meta.chunks(around)
        head = encode_varint(META_GRAPHS << 3 | LEN) + encode_varint(size_of(inner))
        before, after = SourceSpan(self._source, 0, place.start), SourceSpan(self._source, place.end, self._source.size)
        return [before, head, *inner, after]

    def read_again(self, source: Source) -> MetaGraph:
        place = _places(source)[self._chosen]
        return MetaGraph(source, place.value, place.end)

    def reopened(self, source: Source) -> SavedModel:
        return SavedModel(self.folder, source, self._wanted, self.files)


class MetaGraphFile(Container):
    """A ``.meta`` file, with the checkpoint of its name.

    Args:
        path: its path.
        source: its bytes.
        wanted: the part of it to use.

    Raises:
        InputError: it is corrupt.
    """

    kind = META_GRAPH

    def __init__(self, path: str, source: Source, wanted: Wanted) -> None:
        super().__init__(source, wanted, None)
        self.meta = MetaGraph(source, 0, source.size)
        self._path = path
        own = path.removesuffix(".meta")
        is_there = own != path and (os.path.isfile(f"{own}.index") or os.path.isfile(own))
        self._serve(own if is_there else "", "")

    def chunks(self, around: Around = AS_IT_IS) -> list[Chunk]:
        return self.meta.chunks(around)

    def read_again(self, source: Source) -> MetaGraph:
        return MetaGraph(source, 0, source.size)

    def reopened(self, source: Source) -> MetaGraphFile:
        return MetaGraphFile(self._path, source, self._wanted)


def _places(source: Source) -> list[Field]:
    """Returns the MetaGraphDef fields of the SavedModel in `source`."""
    found = fields_of(source, 0, source.size)
    places = [field for field in found if field.number == META_GRAPHS and field.wire_type == LEN]
    if not 0 < len(places) <= MOST_GRAPHS:
        count = f"with {len(places):,} graphs; at most {MOST_GRAPHS:,} are supported"
        what = count if places else "without a graph"
        facts: dict[str, Json] = {"file": source.name, "count": len(places)}
        raise InputError(f"{printable(source.name)} is a SavedModel {what}", code="wrong-format", facts=facts)
    return places


def only_graph(source: Source) -> MetaGraph:
    """Returns the first MetaGraph of the SavedModel in `source`."""
    place = _places(source)[0]
    return MetaGraph(source, place.value, place.end)


def _chosen(found: list[MetaGraph], tags: tuple[str, ...], name: str) -> int:
    """Returns the index of the MetaGraph that the tags select; without tags, one tagged ``serve`` is preferred."""
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
        line = f"{printable(name)} has no graph with the tags {quoted(wanted)}"
        line += f"; its graphs have the tags: {printable(shown)}"
        raise InputError(line, code="no-such-tag", facts=facts | {"name": wanted})
    line = "{model} has {count} graphs; select one with {tags} ({there})"
    message = Line(line, model=printable(name), count=str(len(found)), there=printable(shown))
    raise UsageError(message, code="missing-option", facts=facts | {"option": "tags"})
