"""Writes models: the records around an edited graph, and new SavedModels around a graph.

Loaders of TensorFlow 1 run the nodes of the graph, loaders of TensorFlow 2 the functions of the objects. Measured with
TensorFlow 2.21: ``tf.saved_model.load`` and Keras' TFSMLayer run the functions that the object graph names, and none of
the other nodes; the C API, servers and ``tf.compat.v1.saved_model.load`` run the nodes that signatures name. All of
them see the names of nodes and the contents of functions. Each signature whose nodes change gets a new function.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING

from gdsurgeon.analysis.queries.model_contents import faults
from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.analysis.shapes.arithmetic import compatible, merge, stated_shape
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.checkpoint.bundle import Shard, index_path, shard_path
from gdsurgeon.container.checkpoint.edit import Edited, check_identical, edit, rewritten
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.container import META_GRAPHS, Container, only_graph
from gdsurgeon.container.files import ASSETS, CHECKPOINT
from gdsurgeon.container.load import Model, open_model
from gdsurgeon.container.mentions import as_variable, respell
from gdsurgeon.container.meta_graph import GRAPH, MAIN_OP, Around, MetaGraph, Objects
from gdsurgeon.container.objects import ObjectGraph, SignatureFunction, Unlike, held_by, held_nodes
from gdsurgeon.container.output import OutputFolder, OutputTar
from gdsurgeon.container.restoring import restored_keys
from gdsurgeon.container.surroundings import surroundings
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.functions import signature_function
from gdsurgeon.edits.to_savedmodel import bundle_of
from gdsurgeon.errors import EditError, InputError, Json, Remark, ValidationError, printable, quoted
from gdsurgeon.graph.attrs import Shape, shape_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor, plain_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import node_now, serving_of, tensor_now
from gdsurgeon.graph.serving import INIT, Saver, Served, Serving
from gdsurgeon.operation.forms import Form, check_size
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES, is_variable
from gdsurgeon.ops.op_defs import table_version
from gdsurgeon.specification import surroundings as specification
from gdsurgeon.text import Entry, counted, named, nearest, suggestion
from gdsurgeon.wire import output as wire
from gdsurgeon.wire.fields import LEN, VARINT, encode_varint
from gdsurgeon.wire.protos import FunctionDef, MetaGraphDef, SignatureDef, TensorInfo, VariableDef
from gdsurgeon.wire.source import Source, open_source
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, read_chunks, size_of

if TYPE_CHECKING:
    from google.protobuf.internal.containers import MessageMap

TAG = "serve"
_SCHEMA = 1
_V2 = 2
"""The version of a saver whose checkpoints are TensorBundles."""
VARIABLES, TRAINED = "variables", "trainable_variables"
"""Collections of TensorFlow 1."""
_UNSEEN = "tf.saved_model.load would ignore this edit: "
_ADVICE = "without-objects"
MOST = 100
"""Differences that an error lists."""


class _ModelForm(Form):
    """A model around a graph. The proof loads the graph alone.

    Args:
        model: the edited graph, in its container.
        result: of the edit.
    """

    def __init__(self, model: Model, result: EditResult) -> None:
        super().__init__(model.graph)
        self._edited, self._container, self._result = model.graph, model.container, result
        self._around = specification.Around()

    def loads_from(self, staged: str) -> str | bytes:
        return read_chunks(self.graph)

    def _check(self, written: MetaGraph, folder: str) -> None:
        """Compares the written records with the original records and the request; `folder` is staged, or ''.

        Raises:
            ValidationError: a name does not exist; or a difference was not requested.
        """
        original, own = self._edited.pristine(), self._container
        before = {}
        if own is not None:
            before = surroundings(own.meta, own.folder if folder else "")
        found = surroundings(written, folder)
        expected = specification.unchanged(before, original, written.graph, self._result.intent)
        wrong = list(specification.wrong_surroundings(expected, found, self._result.asked, self._around))
        known = Counter(map(_place, (*faults(before, original), *faults(expected.values, written.graph))))
        new = []
        for fault in faults(found, written.graph, self._around.touched):
            known[_place(fault)] -= 1
            if known[_place(fault)] < 0:
                new.append(fault)
        new += self._more_faults(written)
        if new:
            raise ValidationError(
                "the model parts outside the graph would not be valid:",
                details=tuple(new[:MOST]),
                code="unsound-graph",
                facts={"faults": [fault.as_json() for fault in new[:MOST]]},
            )
        if wrong:
            places = [item.as_json() for item in wrong[:MOST] if not isinstance(item, str)]
            raise ValidationError(
                "the model parts outside the graph are not what was requested:",
                details=tuple(item if isinstance(item, str) else item.text for item in wrong[:MOST]),
                code="undeclared-change",
                facts={"count": len(wrong), "places": places},
            )

    def _more_faults(self, written: MetaGraph) -> Iterator[Remark]:
        """Yields faults of the written records that depend on the form."""
        return iter(())


def _place(fault: Remark) -> tuple[tuple[object, ...], str]:
    place = fault.facts["place"]
    assert isinstance(place, list)
    return tuple(place), fault.code


# -- a new SavedModel -------------------------------------------------------------------------------------------------


class NewModelForm(_ModelForm):
    """A new SavedModel around a graph, with a checkpoint of its variables.

    Args:
        model: the graph. If it is part of a model, and the form is slim, the signatures of that model are kept.
        result: of the edit.
        output: gets the files of the checkpoint and the assets.
        is_slim: whether only the needed parts of a model are kept.

    Raises:
        EditError: the checkpoint has no value for a variable.
        InputError: the checkpoint or an asset cannot be read.
    """

    def __init__(self, model: Model, result: EditResult, output: wire.Output, *, is_slim: bool) -> None:
        super().__init__(model, result)
        graph = model.graph
        self._tensors: Edited | None = None
        if is_slim and model.container is not None:
            beside = self._needed_files(serving_of(graph) or Serving())
            self.chunks = saved_model(graph, model.container.meta)
        else:
            beside, self.chunks = bundle_of(graph), saved_model(graph)
        if isinstance(output, (OutputFolder, OutputTar)):
            output.further_files = beside
        check_size(graph, self.chunks)
        self.served = list(graph.serving.called) if is_slim and graph.serving is not None else []
        self._check(only_graph(ChunkSource(self.chunks, graph.source_name)), "")

    def _needed_files(self, serving: Serving) -> Mapping[str, Shard]:
        """Returns the files of the checkpoint, with only the tensors that are restored, and the assets."""
        files: dict[str, Shard] = {}
        if serving.saver is not None:
            self._tensors = _restored_tensors(serving.checkpoint, serving.saver)
            made = rewritten(self._tensors)
            (shard,) = made.shards
            assert not isinstance(shard, str)
            files = {index_path(CHECKPOINT): [made.table], shard_path(CHECKPOINT, 0, 1): shard}
        for path in serving.initialising.feeds.values() if serving.initialising is not None else ():
            source = open_source(path)
            files[os.path.join(ASSETS, os.path.basename(path))] = [SourceSpan(source, 0, source.size)]
        return files

    def check(self, staged: str) -> None:
        folder = os.path.dirname(staged)
        found = open_model(folder).container
        assert found is not None
        self._check(found.meta, folder)
        if self._tensors is not None:
            with open_checkpoint(os.path.join(folder, CHECKPOINT)) as checkpoint:
                check_identical(checkpoint, self._tensors)


def saved_model(graph: Graph, meta: MetaGraph | None = None) -> list[Chunk]:
    """Returns ``saved_model.pb`` with `graph`, whose bytes are copied, and new records; see `_records`."""
    inner = graph.chunks()
    content: list[Chunk] = [
        encode_varint(GRAPH << 3 | LEN) + encode_varint(size_of(inner)),
        *inner,
        _records(graph, meta).SerializeToString(deterministic=True),
    ]
    head = encode_varint(1 << 3 | VARINT) + encode_varint(_SCHEMA)
    return [head + encode_varint(META_GRAPHS << 3 | LEN) + encode_varint(size_of(content)), *content]


def _records(graph: Graph, meta: MetaGraph | None) -> MetaGraphDef:
    """Returns the records of a new model.

    With `meta`, the model around the graph, they have its tags and signatures. Its variables are listed as in
    TensorFlow 1, so tf.saved_model.load restores them as variables without the objects.
    """
    serving = (serving_of(graph) if meta is not None else graph.serving) or Serving()
    new = MetaGraphDef()
    if meta is not None:
        for key in serving.signatures.keys() - {INIT}:
            new.signature_def[key].CopyFrom(meta.around.signature_def[key])
        respell(new, lambda text: tensor_now(graph, text))
        new.meta_info_def.tensorflow_version = meta.around.meta_info_def.tensorflow_version
    else:
        for key, served in serving.signatures.items():
            _put_signature(new.signature_def[key], graph, served)
        new.meta_info_def.tensorflow_version = table_version()
    new.meta_info_def.tags.extend((sorted(meta.tags) if meta is not None else ()) or [TAG])
    _put_initializer(new, serving)
    if serving.saver is not None:
        _put_saver(new, serving.saver)
        _put_variables(new, serving.saver, meta)
    return new


def _restored_tensors(prefix: str, saver: Saver) -> Edited:
    """Returns the tensors of the checkpoint `prefix` from which `saver` restores variables."""
    checkpoint = open_checkpoint(prefix)
    wanted = {saved.key.tensor: saved.variable for saved in saver.variables}
    for key, variable in wanted.items():
        if key not in checkpoint:
            near = nearest(key, checkpoint.keys)
            line = f"{printable(prefix)} has no tensor {quoted(key)}, from which the variable {quoted(variable)} is "
            facts = {"file": prefix, "tensor": key, "node": variable, "near": near}
            line = f"{line}restored.{suggestion(near)}".rstrip(".")
            raise EditError(line, code="no-such-tensor", facts=facts)
    return edit(checkpoint, {}, frozenset(checkpoint.keys) - wanted.keys(), {})


def _put_initializer(new: MetaGraphDef, serving: Serving) -> None:
    """Adds the nodes that a loader runs first, and the files that it feeds."""
    run = serving.initialising
    if run is None:
        return
    if run.targets:
        new.collection_def[MAIN_OP].node_list.value.extend([serving.main_op] if serving.main_op else run.targets)
    for tensor, path in run.feeds.items():
        asset = new.asset_file_def.add(filename=os.path.basename(path))
        asset.tensor_info.name = _spelled(tensor)


def _put_saver(new: MetaGraphDef, saver: Saver) -> None:
    new.saver_def.filename_tensor_name = _spelled(saver.file_name)
    new.saver_def.save_tensor_name = _spelled(saver.save)
    new.saver_def.restore_op_name = saver.restore
    new.saver_def.version = _V2


def _put_variables(new: MetaGraphDef, saver: Saver, meta: MetaGraph | None) -> None:
    """Lists the variables that `saver` restores, with the facts that `meta` has about them or their originals.

    Thus TensorFlow 1 trains them, and tf.saved_model.load restores them as variables. Without `meta`, all are resources
    and trained.
    """
    facts = _variable_facts(saver, meta) if meta is not None else {}
    for saved in saver.variables:
        known, is_resource, is_trained = facts.get(saved.variable, (None, True, True))
        entry = VariableDef()
        if known is not None:
            entry.CopyFrom(known)
        entry.variable_name, entry.initializer_name = _spelled(saved.variable), saved.assign
        entry.initial_value_name, entry.snapshot_name = _spelled(saved.value), _spelled(saved.read)
        entry.is_resource, entry.trainable = is_resource, is_trained
        for collection in (VARIABLES, TRAINED)[: 1 + is_trained]:
            new.collection_def[collection].bytes_list.value.append(entry.SerializeToString(deterministic=True))


def _variable_facts(saver: Saver, meta: MetaGraph) -> dict[str, tuple[VariableDef | None, bool, bool]]:
    """Returns for each variable its entry in `meta`, whether it is a resource, and whether it is trained."""
    graph = meta.graph
    listed = {
        collection: [found for entry in held.bytes_list.value if (found := as_variable(entry)) is not None]
        for collection, held in meta.around.collection_def.items()
    }
    known = {tensor_now(graph, found.variable_name): found for held in listed.values() for found in held}
    trained = {tensor_now(graph, found.variable_name) for found in listed.get(TRAINED, ())}
    objects = meta.around.object_graph_def.nodes
    trained |= {item.variable.name for item in objects if item.variable.trainable}  # by their shared names
    held = held_nodes(meta) if meta.has_objects else {}
    trained |= {tensor_now(graph, _spelled(name)) for name, at in held.items() if objects[at].variable.trainable}
    originals: dict[str, str] = {}
    for copied in graph.serving.copies if graph.serving is not None else ():
        originals |= {copy.name: originals.get(node.name, node.name) for node, copy in copied.nodes.items()}
    out: dict[str, tuple[VariableDef | None, bool, bool]] = {}
    for saved in saver.variables:
        original = originals.get(saved.variable, saved.variable)
        name, node = _spelled(original), graph[original]
        is_trained = name in trained or (node.text_attr("shared_name") or original) in trained
        out[saved.variable] = known.get(name), node.op in RESOURCE_VARIABLES, is_trained
    return out


def _put_signature(
    definition: SignatureDef, graph: Graph, served: Served, known: Mapping[str, TensorInfo] = MappingProxyType({})
) -> None:
    """Makes `definition` the signature `served` of tensors of `graph`; `known` has entries of some tensors."""
    definition.method_name = served.method
    for named_tensors, infos in ((served.inputs, definition.inputs), (served.outputs, definition.outputs)):
        for name, tensor in named_tensors.items():
            infos[name].name = _spelled(tensor)
            if tensor in known:
                infos[name].CopyFrom(known[tensor])
            else:
                _put_type(infos[name], graph, graph.tensor(tensor))


def _put_type(info: TensorInfo, graph: Graph, tensor: Output) -> None:
    dtype, shape = _type(graph, tensor)
    info.dtype = dtype
    info.tensor_shape.CopyFrom(shape_value(shape).shape)


def _type(graph: Graph, tensor: Output) -> tuple[int, Shape]:
    """Returns the dtype and the shape of a tensor: the inferred shape, and the stated shape of a new node."""
    shape = graph.derived(infer_shapes).shape(tensor)
    stated = stated_shape(tensor) if tensor.node.base_name is None else None
    return base_dtype(tensor.dtype), merge(shape, stated) if compatible(shape, stated) else shape


def _spelled(tensor: str) -> str:
    """Returns the name of a tensor as in models, always with its index."""
    ref = parse_tensor(tensor)
    return f"{ref.node}:{ref.port}"


# -- an edited model --------------------------------------------------------------------------------------------------


class EditedModelForm(_ModelForm):
    """The model that was read, with its graph edited.

    Args:
        graph, container: the edited graph and its model.
        result: of the edit; gets notes and warnings.
        as_v1: write it without the objects of TensorFlow 2.

    Raises:
        EditError: the records cannot be written.
        InputError, ValidationError: they would not be valid.
    """

    def __init__(self, container: Container, result: EditResult, *, as_v1: bool) -> None:
        super().__init__(Model(container.graph, container), result)
        meta, graph = container.meta, container.graph
        saver = graph.serving.saver if graph.serving is not None else None
        has_objects = meta.has_objects and not as_v1
        if has_objects:
            _check_functions(meta)
        touched = _touched_signatures(meta, result.intent)
        signatures = _definitions(meta, touched)
        objects = _objects_after(meta, touched, signatures) if has_objects else None
        _check_restorable(graph, result)
        new_saver = None
        if saver is not None:
            new_saver = MetaGraphDef()
            _put_saver(new_saver, saver)
            if VARIABLES not in meta.around.collection_def:
                _put_variables(new_saver, saver, meta)
            if meta.has_objects:
                result.notes.append("written without the model's objects: all loaders run the graph and its signatures")
        lost = meta.members_lost() if result.intent.removed else {}
        if lost:
            counts = [f"{count:,} of {key}" for key, count in lost.items()]
            result.told.append(Entry("removed", "from collections", counts))
            result.facts["collections"] = lost
        self.chunks = container.chunks(Around(signatures, objects, as_v1, new_saver))
        self._around = specification.Around(touched, as_v1)
        self._check(self._read(ChunkSource(self.chunks, graph.source_name)), "")
        intent, functions = result.intent, result.intent.functions
        other_nodes = intent.added, intent.removed, intent.rewired, result.inside
        other_functions = functions.added, functions.removed, functions.changed
        is_other = signatures is not None or new_saver is not None or as_v1 or any((*other_nodes, *other_functions))
        if objects is not None:
            self.served = [key for key in touched if key != INIT]
            result.warnings.extend(_unseen(objects, touched))
        elif is_other and container.kind == "SavedModel":
            self.served = []
        check_size(graph, self.chunks)

    def check(self, staged: str) -> None:
        with closing(open_source(staged)) as source:
            folder = os.path.dirname(staged) if self._container is not None and self._container.folder else ""
            self._check(self._read(source), folder)

    def _read(self, source: Source) -> MetaGraph:
        assert self._container is not None
        return self._container.read_again(source)

    def _more_faults(self, written: MetaGraph) -> Iterator[Remark]:
        assert self._container is not None
        yield from _faults_of_copies(self._container.graph, written)
        if written.has_objects:
            yield from wrong_functions(self._container.meta, written, self._around.touched)


def _check_restorable(graph: Graph, result: EditResult) -> None:
    """Raises EditError if the edit has added variables without values in the checkpoint.

    Copies have the values of their originals, see `_faults_of_copies`.
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


def _faults_of_copies(graph: Graph, written: MetaGraph) -> Iterator[Remark]:
    """Yields faults of copied variables: each is restored with its original, from a key with the same value."""
    serving = graph.serving
    if serving is None or not serving.copies:
        return
    before = (serving.before or serving).keys
    after = restored_keys(written)
    for copied in serving.copies:
        for node, copy in copied.nodes.items():
            old, new = before.get(node.base_name or ""), after.get(copy.name)
            shared = node.text_attr("shared_name")
            if not is_variable(node.op) or old is None or (shared and shared == copy.text_attr("shared_name")):
                continue
            if new is None or new.slice != old.slice or copied.keys.get(new.tensor) != old.tensor:
                key = new.tensor if new is not None else None
                source = "from nothing" if key is None else f"from {quoted(key)}"
                text = f"{quoted(copy.name)} is restored {source}, but {quoted(node.name)} from {quoted(old.tensor)}"
                yield Remark(text, "wrong-key", variable=copy.name, key=key, original=node.name, expected=old.tensor)


# -- signatures of an edited model ------------------------------------------------------------------------------------


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
    computing = [node for node in nodes if not _is_as_before(graph, node)]
    return [
        key
        for key, served in serving.signatures.items()
        if key in others or _depends(graph, served, nodes if key != INIT else computing)
    ]


def _is_as_before(graph: Graph, node: Node) -> bool:
    """Returns whether `node` has the op, the attributes and the inputs that it has in the file."""
    if node.base_name is None or node.op_override is not None or node.changed_attrs:
        return False
    then = graph.pristine().base_node(node.base_name)
    reads, controls = (
        [[(read.node.base_name, read.index) for read in each.inputs] for each in (node, then)],
        [{other.base_name for other in each.controls} for each in (node, then)],
    )
    return reads[0] == reads[1] and controls[0] == controls[1]


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


def _definitions(meta: MetaGraph, touched: Collection[str]) -> dict[str, SignatureDef] | None:
    """Returns the signatures after the edit; None if no signature changed.

    The entry of a tensor is kept if the tensor did not change.
    """
    graph, before = meta.graph, meta.graph.pristine()
    serving = serving_of(graph)
    if serving is None or graph.serving is None:
        return None
    if not touched and graph.serving.signatures.keys() == meta.signatures.keys():
        return None
    own = meta.around.signature_def
    known = {
        plain_tensor(info.name): info
        for old in own.values()
        for side in (old.inputs, old.outputs)
        for info in side.values()
        if info.WhichOneof("encoding") == "name"
    }
    part = MetaGraphDef()
    for key, served in graph.serving.signatures.items():
        same = next((old for old in (key, *own) if meta.signatures.get(old) == served), None)
        if same is not None:
            part.signature_def[key].CopyFrom(own[same])
            continue
        is_new = any(parse_tensor(text).node not in before for text in served.tensors)
        _put_signature(part.signature_def[key], graph if is_new else before, served, known)
        for old in own.values():
            for name, value in old.defaults.items():
                tensor = plain_tensor(old.inputs[name].name) if name in old.inputs else None
                for mine in (label for label, text in served.inputs.items() if text == tensor):
                    part.signature_def[key].defaults[mine].CopyFrom(value)
    respell(part, lambda text: tensor_now(graph, text))
    for key in touched:
        if key == INIT:
            continue
        served, definition = graph.serving.signatures[key], part.signature_def[key]
        obsolete = set(served.inputs) - set(serving.signatures[key].inputs)
        for name in obsolete:
            definition.inputs.pop(name, None)
        for texts, infos in ((served.inputs, definition.inputs), (served.outputs, definition.outputs)):
            obsolete |= _update_types(graph, texts, infos)
        for name in obsolete:
            definition.defaults.pop(name, None)
    return dict(part.signature_def)


def _update_types(graph: Graph, texts: Mapping[str, str], infos: MessageMap[str, TensorInfo]) -> set[str]:
    """Updates the types in `infos` of the tensors in `texts`, with their names in the file; returns changed labels."""
    then, changed = graph.pristine(), set()
    for name, text in texts.items():
        now = graph.tensor(tensor_now(graph, text) or text)
        if parse_tensor(text).node not in then:
            continue  # the entry of a new node has its current type
        if name in infos and _type(graph, now) != _type(then, then.tensor(text)):
            _put_type(infos[name], graph, now)
            changed.add(name)
    return changed


# -- objects of an edited model ---------------------------------------------------------------------------------------


def _objects_after(
    meta: MetaGraph, touched: Collection[str], definitions: Mapping[str, SignatureDef] | None
) -> Objects | None:
    """Returns the objects after the edit; None if they did not change.

    Args:
        meta: its graph is edited.
        touched: keys of the signatures that changed, or depend on changed nodes.
        definitions: the signatures as they are written, if a signature changed.

    Raises:
        EditError: a touched signature cannot be a function, or needs a node for which there is no object.
    """
    graph, objects = meta.graph, ObjectGraph(meta.objects_now())
    serving = serving_of(graph)
    assert serving is not None
    copies = graph.serving.copies if graph.serving is not None else ()
    new = [copy.name for copied in copies if copied.keys for copy in copied.nodes.values() if is_variable(copy.op)]
    if new:
        which = f"{counted(len(new), 'new variable')} ({named(new, 3, quoted)})"
        message = f"{_UNSEEN}the model's objects cannot hold {which}"
        raise EditError(message, advice=(_ADVICE, "share-variables"), code="not-served", facts={"variables": new})
    added = _needed_functions(graph, objects)
    keys = [key for key in serving.signatures if key != INIT]
    if definitions is None:
        return Objects(objects.proto, added) if added else None
    was = ObjectGraph(meta.around.object_graph_def).signatures
    if not objects.has_signature_map:
        raise EditError(f"{_UNSEEN}the model's objects have no signatures", advice=_ADVICE, code="not-served")
    held = _held_now(graph, held_nodes(meta))
    made: dict[str, SignatureFunction] = {}
    for key in keys:
        if key in touched or key not in was:
            _check_dense(key, definitions[key])
            function, captured = signature_function(graph, key, serving.signatures[key], held)
            for node in captured:
                if node not in held:
                    held[node] = objects.add_constant(node.name)
            made[key] = SignatureFunction(function.signature.name, [held[node] for node in captured])
            added.append(function)
    objects.set_signatures(definitions, keys, made)
    replaced = {was[key].name for key in was if key in made or key not in keys}
    return Objects(objects.proto, added, sorted(replaced - objects.functions - used_functions(graph)))


def _check_functions(meta: MetaGraph) -> None:
    """Raises InputError if the objects name functions that the graph did not have when it was read."""
    functions = meta.graph.pristine().functions
    missing = sorted(name for name in ObjectGraph(meta.around.object_graph_def).functions if name not in functions)
    if missing:
        name = meta.graph.source_name
        line = f"{printable(name)} is corrupt: its objects use the function {quoted(missing[0])}, which does not exist"
        facts: dict[str, Json] = {"file": name, "function": missing[0], "count": len(missing)}
        raise InputError(line, code="no-such-function", facts=facts, advice=_ADVICE)


def _check_dense(key: str, definition: SignatureDef) -> None:
    for name, info in (*definition.inputs.items(), *definition.outputs.items()):
        if info.WhichOneof("encoding") != "name":
            line = f"{_UNSEEN}{quoted(name)} of the signature {quoted(key)} is not a dense tensor"
            raise EditError(line, advice=_ADVICE, code="not-served")


def _needed_functions(graph: Graph, objects: ObjectGraph) -> list[FunctionDef]:
    """Returns the functions that the objects need and that the edited graph no longer calls."""
    lost = [name for name in sorted(objects.functions) if name not in graph.functions]
    before = graph.pristine().functions
    return [before[name] for name in before.reachable(lost) if name not in graph.functions]


def _held_now(graph: Graph, held: Mapping[str, int]) -> dict[Node, int]:
    """Returns the objects of nodes of the edited graph; `held` has them by the names in the file.

    Raises:
        EditError: such a node changed, but a loader makes it from the object.
    """
    out: dict[Node, int] = {}
    for name, place in held.items():
        now = node_now(graph, name)
        if now is None:
            continue
        node = graph[now]
        out[node] = place
        if node.op != "Const" and not _is_as_before(graph, node):  # the object has the value of the Const
            raise EditError(
                f"{_UNSEEN}the edit changes {quoted(now)} ({printable(node.op)}), "
                "but the loader creates this node from the model's objects",
                advice=_ADVICE,
                code="not-served",
                facts={"node": now},
            )
    return out


def _unseen(objects: Objects, touched: Collection[str]) -> Iterable[str]:
    """Yields warnings about the parts of the edit that tf.saved_model.load ignores."""
    callables = ObjectGraph(objects.graph).callables
    if callables and set(touched) - {INIT}:
        yield f"the model's other functions ({named(callables, 3)}) are unchanged: only its signatures have the edit"
    if INIT in touched:
        yield (
            "tf.saved_model.load initializes the model by its unchanged objects, although the graph's "
            "initializer differs"
        )


def wrong_functions(meta: MetaGraph, written: MetaGraph, touched: Collection[str]) -> Iterator[Remark]:
    """Yields the faults of the written functions of the signatures `touched`.

    Each function is compared with the nodes of its signature, one by one.
    """
    if not touched:
        return  # the objects did not change, and may be corrupt
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
