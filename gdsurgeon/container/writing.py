"""Writes models: the records around an edited graph, and new SavedModels around a graph.

Loaders of TensorFlow 1 run the nodes of the graph, loaders of TensorFlow 2 the functions of the objects. Measured with
TensorFlow 2.21: ``tf.saved_model.load`` and Keras' TFSMLayer run the functions that the object graph names, and none of
the other nodes; the C API, servers and ``tf.compat.v1.saved_model.load`` run the nodes that signatures name. All of
them see the names of nodes and the contents of functions. Each signature whose nodes change gets a new function.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from gdsurgeon.container.checkpoint.edit import Edited, edit
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.container import META_GRAPHS
from gdsurgeon.container.mentions import as_variable, respell
from gdsurgeon.container.meta_graph import GRAPH, MAIN_OP, OBJECTS, SAVER, SIGNATURES, Around, MetaGraph
from gdsurgeon.container.objects import ObjectGraph, SignatureFunction, Unlike, held_by, held_nodes
from gdsurgeon.container.restoring import restored_keys
from gdsurgeon.errors import EditError, InputError, Remark, printable, quoted
from gdsurgeon.graph.attrs import Shape, shape_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor, plain_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import node_now, serving_of, tensor_now
from gdsurgeon.graph.serving import INIT, Saver, Served, Serving
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES, is_variable
from gdsurgeon.ops.op_defs import table_version
from gdsurgeon.text import counted, named, nearest, suggestion
from gdsurgeon.wire.fields import LEN, VARINT, encode_varint
from gdsurgeon.wire.protos import FunctionDef, MetaGraphDef, SavedObjectGraph, SignatureDef, TensorInfo, VariableDef
from gdsurgeon.wire.write import Chunk, size_of

if TYPE_CHECKING:
    from google.protobuf.internal.containers import MessageMap

TypeOf = Callable[[Graph, Output], tuple[int, Shape]]
"""Returns the dtype and the shape of a tensor that a signature states."""
FunctionOf = Callable[[Graph, str, Served, Collection[Node]], tuple[FunctionDef, Sequence[Node]]]
"""Returns the function of a signature and the nodes that it captures: nodes with objects, and large constants."""
TAG = "serve"
_SCHEMA = 1
_V2 = 2
"""The version of a saver whose checkpoints are TensorBundles."""
VARIABLES, TRAINED = "variables", "trainable_variables"
"""Collections of TensorFlow 1."""
_UNSEEN = "tf.saved_model.load would ignore this edit: "
_ADVICE = "without-objects"


# -- a new SavedModel -------------------------------------------------------------------------------------------------


def saved_model(graph: Graph, type_of: TypeOf, meta: MetaGraph | None = None) -> list[Chunk]:
    """Returns ``saved_model.pb`` with `graph`, whose bytes are copied, and new records; see `_records`."""
    inner = graph.chunks()
    content: list[Chunk] = [
        encode_varint(GRAPH << 3 | LEN) + encode_varint(size_of(inner)),
        *inner,
        _records(graph, type_of, meta).SerializeToString(deterministic=True),
    ]
    head = encode_varint(1 << 3 | VARINT) + encode_varint(_SCHEMA)
    return [head + encode_varint(META_GRAPHS << 3 | LEN) + encode_varint(size_of(content)), *content]


def _records(graph: Graph, type_of: TypeOf, meta: MetaGraph | None) -> MetaGraphDef:
    """Returns the records of a new model.

    With `meta`, the model around the graph, they have its tags and signatures. Its variables are listed as in
    TensorFlow 1, so tf.saved_model.load restores them as variables without the objects.
    """
    serving = (serving_of(graph) if meta is not None else graph.serving) or Serving()
    new = MetaGraphDef()
    if meta is not None:
        for key in serving.signatures.keys() - {INIT}:
            new.signature_def[key].CopyFrom(meta.around.signature_def[key])
        respell(new, graph)
        new.meta_info_def.tensorflow_version = meta.around.meta_info_def.tensorflow_version
    else:
        for key, served in serving.signatures.items():
            _put_signature(new.signature_def[key], graph, served, type_of)
        new.meta_info_def.tensorflow_version = table_version()
    new.meta_info_def.tags.extend((sorted(meta.tags) if meta is not None else ()) or [TAG])
    _put_initializer(new, serving)
    if serving.saver is not None:
        _put_saver(new, serving.saver)
        _put_variables(new, serving.saver, meta)
    return new


def restored_tensors(prefix: str, saver: Saver) -> Edited:
    """Returns the tensors of the checkpoint `prefix` from which `saver` restores variables."""
    checkpoint = open_checkpoint(prefix)
    wanted = {saved.key.tensor: saved.variable for saved in saver.variables}
    for key, variable in wanted.items():
        if key not in checkpoint:
            near = nearest(key, checkpoint.keys)
            line = f"{printable(prefix)} has no tensor {quoted(key)}, from which the variable {quoted(variable)} is "
            line = f"{line}restored.{suggestion(near)}".rstrip(".")
            raise EditError(line, code="no-such-tensor", file=prefix, tensor=key, node=variable, near=near)
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
    definition: SignatureDef,
    graph: Graph,
    served: Served,
    type_of: TypeOf,
    known: Mapping[str, TensorInfo] = MappingProxyType({}),
) -> None:
    """Makes `definition` the signature `served` of tensors of `graph`; `known` has entries of some tensors."""
    definition.method_name = served.method
    for named_tensors, infos in ((served.inputs, definition.inputs), (served.outputs, definition.outputs)):
        for name, tensor in named_tensors.items():
            infos[name].name = _spelled(tensor)
            if tensor in known:
                infos[name].CopyFrom(known[tensor])
            else:
                _put_type(infos[name], *type_of(graph, graph.tensor(tensor)))


def _put_type(info: TensorInfo, dtype: int, shape: Shape) -> None:
    info.dtype = dtype
    info.tensor_shape.CopyFrom(shape_value(shape).shape)


def _spelled(tensor: str) -> str:
    """Returns the name of a tensor as in models, always with its index."""
    ref = parse_tensor(tensor)
    return f"{ref.node}:{ref.port}"


# -- an edited model --------------------------------------------------------------------------------------------------


def records_after(
    meta: MetaGraph, touched: Collection[str], type_of: TypeOf, function_of: FunctionOf, *, as_v1: bool
) -> Around:
    """Returns the records of an edited model that change.

    Args:
        meta: its graph is edited.
        touched: keys of the signatures that changed, or depend on changed nodes.
        type_of, function_of: make the types and functions of signatures.
        as_v1: leave out the objects of TensorFlow 2.

    Raises:
        InputError: the objects name functions that the model lacks.
        EditError: a touched signature cannot be a function, or needs a node for which there is no object.
    """
    saver = meta.graph.serving.saver if meta.graph.serving is not None else None
    new, replaced = MetaGraphDef(), set[int]()
    added: Sequence[FunctionDef] = ()
    dropped: Sequence[str] = ()
    if meta.has_objects and not as_v1:
        _check_functions(meta)
    signatures = _definitions(meta, touched, type_of, is_needed=as_v1 and INIT in meta.signatures)
    if as_v1:
        replaced.add(OBJECTS)
    elif meta.has_objects and (objects := _objects_after(meta, touched, signatures, function_of)) is not None:
        replaced.add(OBJECTS)
        graph, added, dropped = objects
        new.object_graph_def.CopyFrom(graph)
    if signatures is not None:
        replaced.add(SIGNATURES)
        for key, definition in signatures.items():
            if key == INIT and as_v1:  # as in TensorFlow 1
                names = (info.name.removesuffix(":0") for info in definition.outputs.values())
                new.collection_def[MAIN_OP].node_list.value.extend(names)
            else:
                new.signature_def[key].CopyFrom(definition)
    if saver is not None:
        replaced.add(SAVER)
        _put_saver(new, saver)
        if VARIABLES not in meta.around.collection_def:
            _put_variables(new, saver, meta)
    return Around(replaced, new, added, dropped)


def _definitions(
    meta: MetaGraph, touched: Collection[str], type_of: TypeOf, *, is_needed: bool
) -> dict[str, SignatureDef] | None:
    """Returns the signatures after the edit; None if no signature changed, unless `is_needed`.

    The entry of a tensor is kept if the tensor did not change.
    """
    graph, before = meta.graph, meta.graph.pristine()
    serving = serving_of(graph)
    if serving is None or graph.serving is None:
        return None
    if not (touched or is_needed) and graph.serving.signatures.keys() == meta.signatures.keys():
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
        _put_signature(part.signature_def[key], graph if is_new else before, served, type_of, known)
        for old in own.values():
            for name, value in old.defaults.items():
                tensor = plain_tensor(old.inputs[name].name) if name in old.inputs else None
                for mine in (label for label, text in served.inputs.items() if text == tensor):
                    part.signature_def[key].defaults[mine].CopyFrom(value)
    respell(part, graph)
    for key in touched:
        if key == INIT:
            continue
        served, definition = graph.serving.signatures[key], part.signature_def[key]
        obsolete = set(served.inputs) - set(serving.signatures[key].inputs)
        for name in obsolete:
            definition.inputs.pop(name, None)
        for texts, infos in ((served.inputs, definition.inputs), (served.outputs, definition.outputs)):
            obsolete |= _update_types(graph, texts, infos, type_of)
        for name in obsolete:
            definition.defaults.pop(name, None)
    return dict(part.signature_def)


def _update_types(
    graph: Graph, texts: Mapping[str, str], infos: MessageMap[str, TensorInfo], type_of: TypeOf
) -> set[str]:
    """Updates the types in `infos` of the tensors in `texts`, with their names in the file; returns changed labels."""
    then, changed = graph.pristine(), set()
    for name, text in texts.items():
        now = graph.tensor(tensor_now(graph, text) or text)
        if parse_tensor(text).node not in then:
            continue  # the entry of a new node has its current type
        found = type_of(graph, now)
        if name in infos and found != type_of(then, then.tensor(text)):
            _put_type(infos[name], *found)
            changed.add(name)
    return changed


def _objects_after(
    meta: MetaGraph,
    touched: Collection[str],
    definitions: Mapping[str, SignatureDef] | None,
    function_of: FunctionOf,
) -> tuple[SavedObjectGraph, Sequence[FunctionDef], Sequence[str]] | None:
    """Returns the objects after the edit, with their added and dropped functions; None if they did not change.

    `definitions` are the signatures as they are written, if a signature changed.
    """
    graph, part = meta.graph, MetaGraphDef(object_graph_def=meta.around.object_graph_def)
    respell(part, graph)
    objects, serving = ObjectGraph(part.object_graph_def), serving_of(graph)
    assert serving is not None
    copies = graph.serving.copies if graph.serving is not None else ()
    new = [copy.name for copied in copies if copied.keys for copy in copied.nodes.values() if is_variable(copy.op)]
    if new:
        which = f"{counted(len(new), 'new variable')} ({named(new, 3, quoted)})"
        message = f"{_UNSEEN}the model's objects cannot hold {which}"
        raise EditError(message, advice=(_ADVICE, "share-variables"), code="not-served", variables=new)
    added = _needed_functions(graph, objects)
    keys = [key for key in serving.signatures if key != INIT]
    if definitions is None:
        return (objects.proto, added, ()) if added else None
    was = ObjectGraph(meta.around.object_graph_def).signatures
    if objects.signature_map is None:
        raise EditError(f"{_UNSEEN}the model's objects have no signatures", advice=_ADVICE, code="not-served")
    held = _held_now(graph, held_nodes(meta))
    made: dict[str, SignatureFunction] = {}
    for key in keys:
        if key in touched or key not in was:
            _check_dense(key, definitions[key])
            function, captured = function_of(graph, key, serving.signatures[key], held)
            for node in captured:
                if node not in held:
                    held[node] = objects.add_constant(node.name)
            made[key] = SignatureFunction(function.signature.name, [held[node] for node in captured])
            added.append(function)
    objects.set_signatures(definitions, keys, made)
    replaced = {was[key].name for key in was if key in made or key not in keys}
    return objects.proto, added, sorted(replaced - objects.functions)


def _check_functions(meta: MetaGraph) -> None:
    """Raises InputError if the objects name functions that the graph did not have when it was read."""
    functions = meta.graph.pristine().functions
    missing = sorted(name for name in ObjectGraph(meta.around.object_graph_def).functions if name not in functions)
    if missing:
        name = meta.graph.source_name
        line = f"{printable(name)} is corrupt: its objects use the function {quoted(missing[0])}, which does not exist"
        raise InputError(
            line, code="no-such-function", file=name, function=missing[0], count=len(missing), advice=_ADVICE
        )


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
        if node.op != "Const" and not is_as_before(graph, node):  # the object has the value of the Const
            raise EditError(
                f"{_UNSEEN}the edit changes {quoted(now)} ({printable(node.op)}), "
                "but the loader creates this node from the model's objects",
                advice=_ADVICE,
                code="not-served",
                node=now,
            )
    return out


def is_as_before(graph: Graph, node: Node) -> bool:
    """Returns whether `node` has the op, the attributes and the inputs that it has in the file."""
    if node.base_name is None or node.op_override is not None or node.changed_attrs:
        return False
    then = graph.pristine().base_node(node.base_name)
    reads, controls = (
        [[(read.node.base_name, read.index) for read in each.inputs] for each in (node, then)],
        [{other.base_name for other in each.controls} for each in (node, then)],
    )
    return reads[0] == reads[1] and controls[0] == controls[1]


def unseen(objects: SavedObjectGraph, touched: Collection[str]) -> Iterable[str]:
    """Yields warnings about the parts of the edit that tf.saved_model.load ignores."""
    callables = ObjectGraph(objects).callables
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


def faults_of_copies(graph: Graph, written: MetaGraph) -> Iterator[Remark]:
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
