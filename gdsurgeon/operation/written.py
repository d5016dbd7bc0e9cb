"""What an operation writes: a graph, as bytes or text, or a model around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.container.load import Model
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import OutputError, printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import INIT
from gdsurgeon.text import Entry
from gdsurgeon.wire.output import Output
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks, size_of

if TYPE_CHECKING:
    from gdsurgeon.container.container import Container

MOST_COLLECTIONS = 8
"""Collections of which it is told how many members are gone."""
LARGEST = (1 << 31) - 1
"""Bytes of the largest GraphDef that TensorFlow can load."""


class Written(NamedTuple):
    """What an operation writes.

    Attributes:
        chunks: of the file.
        graph: the graph in it, as who reads it will have it.
        edited: that in memory, where the file is not it; None: the file is it, or nobody wants to run it.
        checks: called with the path of the staged file: raise ValidationError if the model is not as it is to be.
        served: keys of the signatures that have other functions for tf.saved_model.load; None: it need not be asked.
    """

    chunks: list[Chunk]
    graph: list[Chunk]
    edited: bytes | None
    checks: Sequence[Callable[[str], None]] = ()
    served: Sequence[str] | None = None


class Form(NamedTuple):
    """In which form something is written.

    Attributes:
        kind: the ``model`` that was read; its ``graph`` alone; a ``saved_model`` that is made around it; or a ``slim``
            one that is made of the one that was read.
        as_v1: whether a SavedModel is written without the objects of TensorFlow 2.
        text: whether a GraphDef is written as text.
        runs: whether the graph will be run.
    """

    kind: str
    as_v1: bool
    text: bool
    runs: bool


def written(model: Model, result: EditResult, output: Output, form: Form) -> Written:
    """What is written of MODEL, which RESULT is the edit of, to OUTPUT.

    Raises:
        OutputError: it is larger than TensorFlow can load.
        EditError, ValidationError: what is around the graph cannot be written, or would be broken.
    """
    graph = model.graph.chunks()
    _check_size(model.graph, size_of(graph))
    if form.text:
        chunks, edited = _as_text(model.graph, graph, output)
        return Written(chunks, [edited], edited)
    if form.kind in ("saved_model", "slim"):
        return _made(model, result, output, graph, form)
    if form.kind != "model" or model.container is None:
        return Written(graph, graph, None)
    what = _in_container(model.container, result, as_v1=form.as_v1)
    _check_size(model.graph, size_of(what.chunks))
    return what._replace(graph=graph, edited=read_chunks(graph) if form.runs else None)


def _made(model: Model, result: EditResult, output: Output, graph: list[Chunk], form: Form) -> Written:
    """What is written where a SavedModel is made, around MODEL or of what it is; OUTPUT is told what is beside it."""
    from gdsurgeon.container.output_folder import OutputFolder
    from gdsurgeon.container.output_tar import OutputTar
    from gdsurgeon.edits.unfreezing import bundle_of
    from gdsurgeon.operation.making import saved_model
    from gdsurgeon.operation.slimming import Beside, around, beside, check_beside
    from gdsurgeon.operation.surroundings import SurroundingsCheck

    if form.kind == "slim" and model.container is not None:
        wanted, chunks = beside(model.graph), saved_model(model.graph, around(model.container.meta))
    else:
        wanted, chunks = Beside(bundle_of(model.graph), None), saved_model(model.graph)
    if isinstance(output, (OutputFolder, OutputTar)):
        output.beside = wanted.files
    _check_size(model.graph, size_of(chunks))
    edited = read_chunks(graph) if form.runs else None
    keys = list(serving.called) if form.kind == "slim" and (serving := model.graph.serving) is not None else []
    surrounded = SurroundingsCheck(model.graph, model.container, result, (), is_made=True)
    surrounded.check_chunks(chunks)
    checks = (surrounded.check_staged, partial(check_beside, wanted=wanted))
    return Written(chunks, graph, edited, checks, keys)


def _in_container(container: Container, result: EditResult, *, as_v1: bool) -> Written:
    """What is written of a model that is more than its graph."""
    from gdsurgeon.container.meta_graph import Around
    from gdsurgeon.operation.objects import (
        check_functions,
        check_no_new_variables,
        check_restorable,
        objects_after,
        unseen,
    )
    from gdsurgeon.operation.saver_around import saver_around
    from gdsurgeon.operation.signatures import definitions, touched_signatures
    from gdsurgeon.operation.surroundings import SurroundingsCheck

    meta = container.meta
    if meta.has_objects and not as_v1:
        check_functions(meta)
    touched = touched_signatures(meta, result.intent)
    signatures = definitions(meta, touched)
    has_objects = meta.has_objects and not as_v1
    if has_objects:
        check_no_new_variables(meta.graph)
    objects = objects_after(meta, touched, signatures) if has_objects else None
    check_restorable(container, result)
    saver = saver_around(meta)
    if saver is not None and meta.has_objects:
        result.notes.append("written without the model's objects: all loaders run the graph and its signatures")
    _tell_what_collections_lose(container, result)
    chunks = container.chunks(Around(signatures, objects, as_v1, saver))
    surrounded = SurroundingsCheck(container.graph, container, result, touched, as_v1=as_v1)
    surrounded.check_chunks(chunks)
    is_other = signatures is not None or saver is not None or as_v1 or _changes_structure(result)
    keys: list[str] | None = [] if is_other and container.kind == "SavedModel" else None
    if objects is not None:
        keys = [key for key in touched if key != INIT]
    if objects is not None:
        result.warnings.extend(unseen(objects, touched))
    return Written(chunks, [], None, (surrounded.check_staged,), keys)


def _changes_structure(result: EditResult) -> bool:
    """Whether more than names and attrs of nodes is different."""
    intent, functions = result.intent, result.intent.functions
    there = (intent.added, intent.removed, intent.rewired, functions.added, functions.removed, functions.changed)
    return any(there) or bool(result.inside)


def _tell_what_collections_lose(container: Container, result: EditResult) -> None:
    """Has RESULT tell which collections of a model have fewer members, since nodes are gone."""
    lost = container.meta.members_lost() if result.intent.removed else {}
    if not lost:
        return
    result.told.append(Entry("removed", "from collections", [f"{count:,} of {key}" for key, count in lost.items()]))
    result.facts["collections"] = lost


def _as_text(graph: Graph, chunks: list[Chunk], output: Output) -> tuple[list[Chunk], bytes]:
    """CHUNKS as text, and the binary graph that a reader of it will have; text that did not change stays as it is."""
    if graph.text is not None and not graph.is_changed:
        return [SourceSpan(graph.text, 0, graph.text.size)], read_chunks(chunks)
    from gdsurgeon.wire.text import to_binary, to_text

    written = to_text(read_chunks(chunks))
    return [written], to_binary(written, output.name)


def _check_size(graph: Graph, size: int) -> None:
    """Raises OutputError where SIZE, in bytes, is more than TensorFlow loads."""
    if size <= LARGEST:
        return
    largest = sorted(graph.nodes(), key=lambda node: node.record.end - node.record.start if node.record else 0)[-5:]
    details = tuple(
        f"{printable(node.name)} ({printable(node.op)}): {(node.record.end - node.record.start) / 2**20:,.1f} MiB"
        for node in reversed(largest)
        if node.record is not None and node.record.end - node.record.start > 1 << 20
    )
    raise OutputError(
        f"the result would be {size / 2**30:.2f} GiB, but TensorFlow loads no GraphDef of 2 GiB or more; "
        "the largest nodes:",
        details=details,
        code="too-large",
    )
