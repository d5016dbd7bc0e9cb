"""The surroundings of an edited graph, read again as they are written: their names exist, and are as was asked for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing

from gdsurgeon.analysis.checks.surroundings import faults
from gdsurgeon.container.container import Container, SavedModel, only_graph
from gdsurgeon.container.held import Unlike, held_by, held_nodes
from gdsurgeon.container.load import open_model
from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.container.objects import ObjectGraph
from gdsurgeon.container.restoring import restored_keys
from gdsurgeon.container.surroundings import Surroundings, surroundings
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import EditError, InputError, Remark, ValidationError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import node_now
from gdsurgeon.graph.serving import INIT
from gdsurgeon.ops.kinds import is_variable
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


def wrong_functions(meta: MetaGraph, written: MetaGraph, touched: Collection[str]) -> Iterator[Remark]:
    """What is wrong with the functions, as they are WRITTEN, that compute the signatures TOUCHED of META.

    Each of them is compared with the nodes of its signature, one by one.
    """
    if not touched:
        return  # the objects are as they were, and may be corrupt
    objects = ObjectGraph(written.around.object_graph_def)
    known = {now: place for name, place in held_nodes(meta).items() if (now := node_now(meta.graph, name)) is not None}
    for key in touched:
        function = objects.signatures.get(key)
        if key == INIT or key not in written.signatures:
            continue
        if function is None:
            yield Remark(f"the objects have no signature {quoted(key)}", "no-such-signature", signature=key)
            continue
        try:
            held = held_by(written.graph, written.signatures[key], function)
        except (Unlike, EditError, InputError) as unlike:
            text = f"the function of the signature {quoted(key)} differs: {unlike}"
            yield Remark(text, "wrong-function", signature=key)
            continue
        for node, place in held.items():
            if known.get(node, place) != place or (node not in known and objects.constant(place) != node):
                text = f"the function of the signature {quoted(key)} gets {quoted(node)} from a different object"
                yield Remark(text, "wrong-function", signature=key, node=node)


def copies_faults(container: Container, written: MetaGraph) -> Iterator[Remark]:
    """What is wrong with the variables that were copied, as they are WRITTEN of CONTAINER, a line each.

    Each is restored where its original is, from a key of its own, which is to hold the same.
    """
    serving = container.graph.serving
    if serving is None or not serving.copies:
        return
    before = (serving.before or serving).keys
    after = restored_keys(written)
    for copied in serving.copies:
        for node, copy in copied.nodes.items():
            if not is_variable(node.op):
                continue
            old, new = before.get(node.base_name or ""), after.get(copy.name)
            if old is None or _is_shared(node, copy):
                continue
            if new is None or new.slice != old.slice or copied.keys.get(new.tensor) != old.tensor:
                key = new.tensor if new is not None else None
                source = "from nothing" if key is None else f"from {quoted(key)}"
                text = f"{quoted(copy.name)} is restored {source}, but {quoted(node.name)} from {quoted(old.tensor)}"
                yield Remark(text, "wrong-key", variable=copy.name, key=key, original=node.name, expected=old.tensor)


def _is_shared(node: Node, copy: Node) -> bool:
    """Whether both are one variable by the name that they share."""
    name = node.text_attr("shared_name")
    return bool(name) and name == copy.text_attr("shared_name")


def _places(found: Iterable[Remark]) -> Iterator[Fault]:
    """The place and the code of each fault."""
    for fault in found:
        place = fault.facts["place"]
        assert isinstance(place, list)
        yield tuple(place), fault.code
