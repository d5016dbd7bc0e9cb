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
    """The file of a model, with everything around the graph: a SavedModel, or a ``.meta`` file with its checkpoint.

    Args:
        path: the folder of the SavedModel, or the path of the ``.meta`` file.
        source: the bytes of the file that holds the graph.
        wanted: the part of the model to use.
        files: the state of the folder of a SavedModel; None for a ``.meta`` file.

    Attributes:
        kind: the name of the kind.
        folder: the folder of a SavedModel; '' for a ``.meta`` file.
        meta: the MetaGraph.
        checkpoint: the prefix of its checkpoint; '' without one.

    Raises:
        InputError: the file is corrupt, or has no such MetaGraph or signature.
        UsageError: the file has several MetaGraphs, and `wanted` does not select one.
    """

    def __init__(self, path: str, source: Source, wanted: Wanted, files: State | None = None) -> None:
        self._path, self._source, self._wanted = path, source, wanted
        self.files = files
        self.folder = path if files is not None else ""
        self.kind = "SavedModel" if self.folder else META_GRAPH
        self._places = self._meta_graphs(source)
        found = [MetaGraph(source, place.value, place.end) for place in self._places]
        self._chosen = _chosen(found, wanted.tags, source.name) if self.folder else 0
        self.meta = found[self._chosen]
        for meta in found if self.folder else ():
            check_assets(meta.around, source.name)
        self.checkpoint = wanted.checkpoint or self._own_checkpoint()
        self.graph.serving = self._serving(os.path.join(self.folder, ASSETS) if self.folder else "")

    @property
    def graph(self) -> Graph:
        """The graph, to be changed."""
        return self.meta.graph

    def chunks(self, around: Around = AS_IT_IS) -> list[Chunk]:
        """Returns the current content of the file that holds the graph; see `MetaGraph.chunks`."""
        inner = self.meta.chunks(around)
        if not self.folder:
            return inner
        place = self._places[self._chosen]
        head = encode_varint(META_GRAPHS << 3 | LEN) + encode_varint(size_of(inner))
        before, after = SourceSpan(self._source, 0, place.start), SourceSpan(self._source, place.end, self._source.size)
        return [before, head, *inner, after]

    def read_again(self, source: Source) -> MetaGraph:
        """Returns the MetaGraph in `source`, the written file."""
        place = self._meta_graphs(source)[self._chosen]
        return MetaGraph(source, place.value, place.end)

    def reopened(self, source: Source) -> Container:
        """Returns the same container with `source` instead of its file."""
        return Container(self._path, source, self._wanted, self.files)

    def _meta_graphs(self, source: Source) -> list[Field]:
        return _places(source) if self.folder else [Field(META_GRAPHS, LEN, 0, 0, source.size)]

    def _own_checkpoint(self) -> str:
        own = os.path.join(self.folder, CHECKPOINT) if self.folder else self._path.removesuffix(".meta")
        is_file = own != self._path and not self.folder and os.path.isfile(own)
        return own if own != self._path and (is_file or os.path.isfile(f"{own}.index")) else ""

    def _serving(self, assets: str) -> Serving:
        meta, wanted, checkpoint = self.meta, self._wanted, self.checkpoint
        missing = [key for key in wanted.signatures if key not in meta.signatures]
        if missing:
            remark = no_signature(missing[0], meta.signatures)
            line = f"{printable(meta.graph.source_name)} has {remark}"
            raise InputError(line, code=remark.code, facts=remark.facts)
        restored = restored_keys(meta) if checkpoint else {}
        by_objects = keys_by_objects(meta, checkpoint, restored) if checkpoint else {}
        keys = restored | by_objects
        return Serving(
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


def _places(source: Source) -> list[Field]:
    """Returns the MetaGraphDef fields of the SavedModel in `source`."""
    found = fields_of(source, 0, source.size)
    places = [field for field in found if field.number == META_GRAPHS and field.wire_type == LEN]
    if not 0 < len(places) <= MOST_GRAPHS:
        count = f"with {len(places):,} graphs; at most {MOST_GRAPHS:,} are supported"
        what = count if places else "without a graph"
        raise InputError(
            f"{printable(source.name)} is a SavedModel {what}", code="wrong-format", file=source.name, count=len(places)
        )
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
