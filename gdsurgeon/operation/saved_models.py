"""The forms of models: the model that was read with its graph edited, and new SavedModels around a graph."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import closing

from gdsurgeon.analysis.queries.model_contents import faults
from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.analysis.shapes.arithmetic import compatible, merge, stated_shape
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.checkpoint.edit import Edited, check_identical, rewritten
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.container import Container, only_graph
from gdsurgeon.container.files import ASSETS, CHECKPOINT
from gdsurgeon.container.load import Model
from gdsurgeon.container.meta_graph import OBJECTS, SAVER, MetaGraph
from gdsurgeon.container.output import OutputFolder, OutputTar
from gdsurgeon.container.surroundings import surroundings
from gdsurgeon.container.writing import (
    faults_of_copies,
    is_as_before,
    records_after,
    restored_tensors,
    saved_model,
    unseen,
    wrong_functions,
)
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.functions import signature_function
from gdsurgeon.edits.to_savedmodel import bundle_of
from gdsurgeon.errors import EditError, Remark, ValidationError
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import INIT, Served, Serving
from gdsurgeon.operation.forms import MOST, Form, check_size, unsound
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.specification import surroundings as specification
from gdsurgeon.text import Entry, counted, named
from gdsurgeon.wire import output as wire
from gdsurgeon.wire.source import Source, open_source
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, resolved


def _model_form(
    model: Model,
    result: EditResult,
    chunks: Sequence[Chunk],
    read: Callable[[Source], MetaGraph],
    around: specification.Around,
    *,
    is_new: bool = False,
    tensors: Edited | None = None,
) -> Form:
    """Returns a model around a graph, and checks its records. The proof loads only the graph.

    Args:
        model: the edited graph, in its container.
        result: of the edit.
        chunks: of the file.
        read: returns the MetaGraph in the written file.
        around: how the records are written.
        is_new: whether it is a new SavedModel.
        tensors: the tensors of its checkpoint, if they are written with it.

    Raises:
        OutputError: it is larger than TensorFlow can load.
        ValidationError: a name does not exist; or a difference was not requested.
    """
    graph, container = model
    original = graph.pristine()

    def check_records(written: MetaGraph, folder: str = "") -> None:
        """Compares the written records with the original records and the request; `folder` is staged, or ''."""
        before = surroundings(container.meta, container.folder if folder else "") if container is not None else {}
        found = surroundings(written, folder)
        expected = specification.unchanged(before, original, written.graph, result.intent)
        wrong = list(specification.wrong_surroundings(expected, found, result.asked, around))
        known = Counter(map(_place, (*faults(before, original), *faults(expected.values, written.graph))))
        new: list[Remark] = []
        if container is not None and not is_new:
            new += faults_of_copies(graph, written)
            new += wrong_functions(container.meta, written, around.touched) if written.has_objects else ()
        for fault in faults(found, written.graph, around.touched):
            known[_place(fault)] -= 1
            if known[_place(fault)] < 0:
                new.append(fault)
        if new:
            raise unsound("the model parts outside the graph would not be valid:", new)
        if wrong:
            raise ValidationError(
                "the model parts outside the graph are not what was requested:",
                details=tuple(item if isinstance(item, str) else item.text for item in wrong[:MOST]),
                code="undeclared-change",
                count=len(wrong),
                places=[item.as_json() for item in wrong[:MOST] if not isinstance(item, str)],
            )

    def check(staged: str) -> None:
        folder = os.path.dirname(staged) if is_new or (container is not None and container.folder) else ""
        with closing(open_source(staged)) as source:
            check_records(read(source), folder)
        if tensors is not None:
            with open_checkpoint(os.path.join(folder, CHECKPOINT)) as checkpoint:
                check_identical(checkpoint, tensors)

    chunks = list(resolved(chunks))
    check_size(graph, chunks)
    check_records(read(ChunkSource(chunks, graph.source_name)))
    return Form(chunks, graph.chunks(), check)


def _place(fault: Remark) -> tuple[tuple[object, ...], str]:
    place = fault.facts["place"]
    assert isinstance(place, list)
    return tuple(place), fault.code


def new_model(model: Model, result: EditResult, output: wire.Output, *, is_slim: bool) -> Form:
    """Returns a new SavedModel around a graph, with a checkpoint of its variables.

    Args:
        model: the graph. If it is part of a model, and the form is slim, the signatures of that model are kept.
        result: of the edit.
        output: gets the files of the checkpoint and the assets.
        is_slim: whether only the needed parts of a model are kept.

    Raises:
        EditError: the checkpoint has no value for a variable.
        InputError: the checkpoint or an asset cannot be read.
    """
    graph, tensors = model.graph, None
    meta = model.container.meta if is_slim and model.container is not None else None
    serving = (serving_of(graph) if meta is not None else graph.serving) or Serving()
    if meta is None:
        model = Model(graph, None)  # of a MetaGraph, only the graph is kept
        files = {**bundle_of(graph)}
    else:
        tensors = restored_tensors(serving.checkpoint, serving.saver) if serving.saver is not None else None
        files = rewritten(tensors).at(CHECKPOINT) if tensors is not None else {}
    for path in serving.initialising.feeds.values() if serving.initialising is not None else ():
        source = open_source(path)
        files[os.path.join(ASSETS, os.path.basename(path))] = [SourceSpan(source, 0, source.size)]
    if isinstance(output, (OutputFolder, OutputTar)):
        output.further_files = files
    chunks = saved_model(graph, _type, meta)
    form = _model_form(model, result, chunks, only_graph, specification.Around(), is_new=True, tensors=tensors)
    form.served = list(graph.serving.called) if is_slim and graph.serving is not None else []
    return form


def _type(graph: Graph, tensor: Output) -> tuple[int, Shape]:
    """Returns the dtype and the shape of a tensor: the inferred shape, and the stated shape of a new node."""
    shape = graph.derived(infer_shapes).shape(tensor)
    stated = stated_shape(tensor) if tensor.node.base_name is None else None
    return base_dtype(tensor.dtype), merge(shape, stated) if compatible(shape, stated) else shape


# -- an edited model --------------------------------------------------------------------------------------------------


def edited_model(container: Container, result: EditResult, *, as_v1: bool) -> Form:
    """Returns the model that was read, with its graph edited.

    Args:
        container: the model with the edited graph.
        result: of the edit; gets notes and warnings.
        as_v1: write it without the objects of TensorFlow 2.

    Raises:
        EditError: the records cannot be written.
        InputError, ValidationError: they would not be valid.
    """
    meta, graph, intent = container.meta, container.graph, result.intent
    touched = _touched_signatures(meta, intent)
    records = records_after(meta, touched, _type, signature_function, as_v1=as_v1)
    if records.dropped:
        records = records._replace(dropped=sorted({*records.dropped} - used_functions(graph)))
    _check_restorable(graph, result)
    if SAVER in records.replaced and meta.has_objects:
        result.notes.append("written without the model's objects: all loaders run the graph and its signatures")
    lost = meta.members_lost() if intent.removed else {}
    if lost:
        result.told.append(Entry("removed", "from collections", [f"{count:,} of {key}" for key, count in lost.items()]))
        result.facts["collections"] = lost
    chunks = container.chunks(records)
    around = specification.Around(touched, as_v1)
    form = _model_form(Model(graph, container), result, chunks, container.read_again, around)
    other_nodes = intent.added, intent.removed, intent.rewired, result.inside
    other_functions = intent.functions.added, intent.functions.removed, intent.functions.changed
    if OBJECTS in records.replaced and not as_v1:
        assert records.new is not None
        form.served = [key for key in touched if key != INIT]
        result.warnings.extend(unseen(records.new.object_graph_def, touched))
    elif container.kind == "SavedModel" and any((records.replaced, *other_nodes, *other_functions)):
        form.served = []
    return form


def _check_restorable(graph: Graph, result: EditResult) -> None:
    """Raises EditError if the edit has added variables without values in the checkpoint.

    Copies have the values of their originals, see `faults_of_copies`.
    """
    scopes = graph.serving.copies if graph.serving is not None else ()
    copies = {copy for copied in scopes for copy in copied.nodes.values()}
    added = [node for name in result.intent.added if (node := graph.find(name)) is not None]
    new = [node.name for node in added if is_variable(node.op) and node not in copies]
    if new:
        raise EditError(
            f"the model would have {counted(len(new), 'variable')} ({named(new, 3)}) without values: neither "
            "its checkpoint nor an initializer has them",
            hint="freeze the model first: its variables become constants, which are copied",
            code="not-restored",
        )


def _touched_signatures(meta: MetaGraph, intent: Intent) -> list[str]:
    """Returns the keys of the signatures that changed, or that depend on changed nodes.

    New names of nodes, and changes inside functions, do not count.
    """
    graph = meta.graph
    serving = serving_of(graph)
    if serving is None or graph.serving is None:
        return []
    others = {key for key, served in graph.serving.signatures.items() if meta.signatures.get(key) != served}
    names = {*intent.added, *intent.changed, *(rewired.node for rewired in intent.rewired)}
    nodes = [node for name in names if (node := graph.find(name)) is not None]
    computing = [node for node in nodes if not is_as_before(graph, node)]
    return [
        key
        for key, served in serving.signatures.items()
        if key in others or _depends(graph, served, nodes if key != INIT else computing)
    ]


def _depends(graph: Graph, served: Served, nodes: Collection[Node]) -> bool:
    """Returns whether a signature, with the current names, feeds or depends on one of `nodes`."""
    if not nodes:
        return False
    inputs = [graph.tensor(text) for text in served.inputs.values()]
    ends = [graph[parse_tensor(text).node] for text in served.outputs.values()]  # an initializer has no tensor
    topology = topology_of(graph)
    given = {topology.code(tensor) for tensor in inputs}
    above = topology.upstream(map(topology.id_of, ends), given=given)
    fed = {tensor.node for tensor in inputs}
    return any(node in fed or above[topology.id_of(node)] for node in nodes)
