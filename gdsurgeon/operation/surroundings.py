"""The surroundings of an edited graph, read again as they are written: their names exist, and are as was asked for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing

from gdsurgeon.analysis.checks.surroundings import faults
from gdsurgeon.container.container import Container, SavedModel, only_graph
from gdsurgeon.container.load import open_model
from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.container.surroundings import Surroundings, surroundings
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import Remark, ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.visible import copies_faults, wrong_functions
from gdsurgeon.specification.surroundings import Around, unchanged, wrong_surroundings
from gdsurgeon.wire.source import Source, open_source
from gdsurgeon.wire.write import Chunk, ChunkSource

MOST = 100
"""Differences that an error lists."""
Fault = tuple[tuple[object, ...], str]


class SurroundingsCheck:
    """Compares what is written around an edited graph with what was there and what was asked for.

    Args:
        graph: the edited graph.
        container: the model that it is part of; None where it had none.
        result: of the edit.
        touched: keys of the signatures that are computed by other nodes.
        as_v1: whether the objects are left out.
        is_made: whether the model is made anew, in the place of the container's.
    """

    def __init__(
        self,
        graph: Graph,
        container: Container | None,
        result: EditResult,
        touched: Collection[str],
        *,
        as_v1: bool = False,
        is_made: bool = False,
    ) -> None:
        self._graph, self._container, self._result = graph, container, result
        self._how = Around(touched, as_v1)
        self._is_made = is_made

    def check_chunks(self, chunks: list[Chunk]) -> None:
        """Checks the file that CHUNKS are. Raises ValidationError: see `check_staged`."""
        source = ChunkSource(chunks, self._graph.source_name)
        self._check(only_graph(source) if self._is_made else self._written(source), "")

    def check_staged(self, path: str) -> None:
        """Checks the model that is staged at PATH, with the files of its folder.

        Raises:
            ValidationError: a name is not there; or something differs from what was there and was not asked for.
        """
        if self._is_made:
            found = open_model(os.path.dirname(path)).container
            assert found is not None
            self._check(found.meta, os.path.dirname(path))
            return
        with closing(open_source(path)) as source:
            folder = os.path.dirname(path) if isinstance(self._container, SavedModel) else ""
            self._check(self._written(source), folder)

    def _written(self, source: Source) -> MetaGraph:
        assert self._container is not None
        return self._container.read_again(source)

    def _check(self, written: MetaGraph, folder: str) -> None:
        original = self._graph.pristine()
        before: Surroundings = {}
        own = self._container
        if own is not None:
            before = surroundings(own.meta, own.folder if folder and isinstance(own, SavedModel) else "")
        found = surroundings(written, folder)
        expected = unchanged(before, original, written.graph, self._result.intent)
        wrong = list(wrong_surroundings(expected, found, self._result.asked, self._how))
        known = Counter(_places(faults(before, original))) | Counter(_places(faults(expected.values, written.graph)))
        self._refuse_faults(known, found, written)
        if wrong:
            places = [item.as_json() for item in wrong[:MOST] if not isinstance(item, str)]
            raise ValidationError(
                "the model parts outside the graph are not what was requested:",
                details=tuple(item if isinstance(item, str) else item.text for item in wrong[:MOST]),
                code="undeclared-change",
                facts={"count": len(wrong), "places": places},
            )

    def _refuse_faults(self, known: Counter[Fault], found: Surroundings, written: MetaGraph) -> None:
        """Raises ValidationError if FOUND has faults that are not KNOWN of the original."""
        new = []
        for fault in faults(found, written.graph, self._how.touched):
            known.subtract(_places([fault]))
            if known[next(_places([fault]))] < 0:
                new.append(fault)
        if self._container is not None and not self._is_made:
            new += copies_faults(self._container, written)
            if written.has_objects:
                new += wrong_functions(self._container.meta, written, self._how.touched)
        if new:
            raise ValidationError(
                "the model parts outside the graph would not be valid:",
                details=tuple(new[:MOST]),
                code="unsound-graph",
                facts={"faults": [fault.as_json() for fault in new[:MOST]]},
            )


def _places(found: Iterable[Remark]) -> Iterator[Fault]:
    """The place and the code of each fault."""
    for fault in found:
        place = fault.facts["place"]
        assert isinstance(place, list)
        yield tuple(place), fault.code
