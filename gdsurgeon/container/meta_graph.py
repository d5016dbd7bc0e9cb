"""A MetaGraphDef as spans: its graph, and its other parts; unedited parts are copied."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from gdsurgeon.container.mentions import add_copies, respell
from gdsurgeon.errors import InputError, printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import plain_tensor
from gdsurgeon.graph.serving import Served
from gdsurgeon.wire.fields import LEN, Field, encode_varint
from gdsurgeon.wire.protos import (
    CollectionDef,
    FunctionDef,
    MetaGraphDef,
    TensorInfo,
    decode_error,
)
from gdsurgeon.wire.source import Source, SourceSlice, fields_of
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, size_of

MAIN_OP = "saved_model_main_op"
"""The collection that names the op that a loader runs first."""
GRAPH = 2
"""Field number of the GraphDef in a MetaGraphDef."""
SAVER, SIGNATURES, OBJECTS = 3, 5, 7
"""Field numbers: the saver, a signature, and the object graph, by which tf.saved_model.load finds everything."""
MOST_AROUND = 1 << 30
"""The maximum size in bytes of the parts outside the graph, which are parsed at once."""


class Around(NamedTuple):
    """The new parts of a MetaGraph outside its graph.

    Attributes:
        replaced: the field numbers of the existing parts that are left out.
        new: the parts that are added.
        added: functions that they need, for the library.
        dropped: names of library functions that are no longer needed.
    """

    replaced: Collection[int] = ()
    new: MetaGraphDef | None = None
    added: Sequence[FunctionDef] = ()
    dropped: Sequence[str] = ()


AS_IT_IS = Around()


class MetaGraph:
    """A MetaGraphDef.

    Args:
        source: the source that holds the message.
        start, end: offsets of the message in `source`.

    Attributes:
        graph: its graph, over a part of `source`.
        held: the result of `held_nodes`; None until it is needed.

    Raises:
        InputError: it is corrupt, or has no graph.
    """

    def __init__(self, source: Source, start: int, end: int) -> None:
        self._source = source
        self._start, self._end = start, end
        self._fields = fields_of(source, start, end)
        graphs = [field for field in self._fields if _is_graph(field)]
        if len(graphs) != 1:
            what = "no graph" if not graphs else f"{len(graphs)} graphs in one MetaGraphDef"
            raise InputError(
                f"{printable(source.name)} holds {what}", code="wrong-format", file=source.name, count=len(graphs)
            )
        place = graphs[0]
        piece = SourceSlice(source, start + place.value, start + place.end)
        self.graph = Graph(piece, file_bytes=source.size)
        self.held: Mapping[str, int] | None = None

    def _bytes(self, field: Field) -> bytes:
        return self._source.read(self._start + field.start, field.end - field.start)

    @cached_property
    def around(self) -> MetaGraphDef:
        """All of it but the graph. Not to be changed. Raises InputError."""
        others = [field for field in self._fields if not _is_graph(field)]
        if sum(field.end - field.start for field in others) > MOST_AROUND:
            raise InputError(f"{printable(self._source.name)} has more than 1 GiB of data outside its graph")
        return self._parsed(b"".join(map(self._bytes, others)))

    def _parsed(self, data: bytes) -> MetaGraphDef:
        try:
            return MetaGraphDef.FromString(data)
        except decode_error():
            line = f"{printable(self._source.name)} is corrupt: the part outside its graph cannot be parsed"
            raise InputError(line, code="corrupt", file=self._source.name) from None

    @property
    def tags(self) -> frozenset[str]:
        """The tags by which a loader asks for it."""
        return frozenset(self.around.meta_info_def.tags)

    @property
    def has_objects(self) -> bool:
        """Whether it has the object graph of TensorFlow 2, by which tf.saved_model.load finds everything."""
        return bool(self.around.object_graph_def.nodes)

    @cached_property
    def signatures(self) -> Mapping[str, Served]:
        """The signatures, by key; of a tensor that is no dense one, its components."""
        return {
            key: Served(dict(_tensors(definition.inputs)), dict(_tensors(definition.outputs)), definition.method_name)
            for key, definition in sorted(self.around.signature_def.items())
        }

    # -- writing ---------------------------------------------------------------------------------------------

    def chunks(self, around: Around = AS_IT_IS) -> list[Chunk]:
        """Returns the current message, with the references to nodes updated to the current graph.

        Raises:
            EditError: a part requires a removed node.
        """
        if not self.graph.is_changed and not around.replaced:
            return [SourceSpan(self._source, self._start, self._end)]
        out: list[Chunk] = []
        for field in self._fields:
            if _is_graph(field):
                inner = self._graph_chunks(around)
                out += [encode_varint(GRAPH << 3 | LEN) + encode_varint(size_of(inner)), *inner]
            elif field.number not in around.replaced:
                out.append(self._respelt(field))
        if around.new is not None:
            out.append(around.new.SerializeToString(deterministic=True))
        return out

    def _graph_chunks(self, around: Around) -> list[Chunk]:
        chunks = self.graph.chunks()
        if not (around.added or around.dropped):
            return chunks
        written = Graph(ChunkSource(chunks, self.graph.source_name))
        written.functions.remove(around.dropped)
        for function in around.added:
            written.functions.add(function)
        return written.chunks()

    def members_lost(self) -> dict[str, int]:
        """Returns the number of members that each collection loses because their nodes were removed."""
        before = self.around.collection_def
        part = MetaGraphDef(collection_def=before)
        respell(part, self.graph)
        lost = {key: _members(before[key]) - _members(part.collection_def[key]) for key in sorted(before)}
        return {key: count for key, count in lost.items() if count > 0}

    def _respelt(self, field: Field) -> Chunk:
        as_it_was = SourceSpan(self._source, self._start + field.start, self._start + field.end)
        part = self._parsed(self._bytes(field))
        is_respelt = respell(part, self.graph, needs_saver=bool(self.tags))
        lists_copies = add_copies(part, self.graph.serving.copies if self.graph.serving is not None else ())
        return part.SerializeToString(deterministic=True) if is_respelt or lists_copies else as_it_was


def _members(collection: CollectionDef) -> int:
    kind = collection.WhichOneof("kind")
    return len(getattr(collection, kind).value) if kind is not None else 0


def _is_graph(field: Field) -> bool:
    return field.number == GRAPH and field.wire_type == LEN


def _tensors(infos: Mapping[str, TensorInfo]) -> Iterator[tuple[str, str]]:
    for key, info in sorted(infos.items()):
        kind = info.WhichOneof("encoding")
        if kind == "coo_sparse":
            for part in ("values", "indices", "dense_shape"):
                yield f"{key}/{part}", plain_tensor(getattr(info.coo_sparse, f"{part}_tensor_name"))
        elif kind == "composite_tensor":
            for number, component in enumerate(info.composite_tensor.components):
                yield f"{key}/{number}", plain_tensor(component.name)
        else:
            yield key, plain_tensor(info.name)
