"""Restoring the variables of a MetaGraph: the runs that restore it, the keys of the variables, and their values.

Source: the runs of tf.compat.v1.saved_model.load and tf.compat.v1.train.Saver.restore, and their feeds."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping

from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.slices import parse_slice_spec
from gdsurgeon.container.checkpoint.stored import OBJECT_GRAPH, Checkpoint, variable_keys
from gdsurgeon.container.mentions import entry_of
from gdsurgeon.container.meta_graph import MAIN_OP, MetaGraph
from gdsurgeon.container.objects import held_nodes, nodes_of
from gdsurgeon.errors import EditError, InputError, printable, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import TENSOR, constant_in, raw_value
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import plain_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.records import NODE
from gdsurgeon.graph.serving import INIT, Key, Restoring
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops.dtypes import CONTENT, ELEMENT_FIELDS, STRING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import ASSIGNMENTS, IDENTITY, is_variable
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.wire.fields import LEN, encode_len, encode_varint
from gdsurgeon.wire.node_record import ATTR, DEVICE, KEY, NAME, OP, VALUE, encode_attr
from gdsurgeon.wire.protos import AssetFileDef, MetaGraphDef, NodeDef
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, ChunkSource, size_of

INIT_COLLECTIONS = (MAIN_OP, "legacy_init_op")
RESTORE = "RestoreV2"
_TEXTS = {"Restore": (1,), "RestoreSlice": (1, 2), RESTORE: (1, 2)}
"""Ops that read a checkpoint, with the inputs that name the tensors and their slices."""
_PASSED_ON = IDENTITY | {"Reshape", "Cast"}


def restoring(model: MetaGraph, checkpoint: str) -> Restoring | None:
    """Returns the run that restores the variables of `model` from the checkpoint with the prefix `checkpoint`.

    None if the model has no saver, or no checkpoint.
    """
    saver = model.around.saver_def
    if not saver.restore_op_name or not checkpoint:
        return None
    return Restoring({plain_tensor(saver.filename_tensor_name): checkpoint}, (_node(saver.restore_op_name),))


def initialising(model: MetaGraph, assets: str) -> Restoring | None:
    """Returns the run that initializes `model` in a loader, or None; its assets are in the folder `assets`."""
    around = model.around
    present = [key for key in INIT_COLLECTIONS if key in around.collection_def]  # reading a missing key adds it
    targets = [name for key in present for name in around.collection_def[key].node_list.value]
    if not targets and INIT in model.signatures:
        targets = list(model.signatures[INIT].outputs.values())
    if not targets:
        return None
    files = {plain_tensor(tensor): f"{assets}/{name}" for tensor, name in _assets(model.around)}
    return Restoring(files, tuple(dict.fromkeys(map(_node, targets))))


def _node(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def check_assets(around: MetaGraphDef, name: str) -> None:
    """Raises InputError if an asset of the model `name`, which has `around`, is outside its folder of assets."""
    for _, file in _assets(around):
        if not file or file.startswith("/") or "\0" in file or os.pardir in file.split("/"):
            line = f"{printable(name)} has an asset {quoted(file)} that is outside its folder of assets"
            raise InputError(line, code="bad-name", file=name, name=file)


def _assets(around: MetaGraphDef) -> Iterator[tuple[str, str]]:
    """Yields the tensor fed with each asset's path, and the file name. TensorFlow 1 stores assets in a collection."""
    for asset in around.asset_file_def:
        yield asset.tensor_info.name, asset.filename
    if not around.asset_file_def and "saved_model_assets" in around.collection_def:
        for item in around.collection_def["saved_model_assets"].any_list.value:
            asset = entry_of("saved_model_assets", AssetFileDef, item.value)
            yield asset.tensor_info.name, asset.filename


# -- keys of variables ---------------------------------------------------------------------------------------


def restored_keys(model: MetaGraph) -> dict[str, Key]:
    """Returns the checkpoint key of each variable that the restore op assigns to, by the name of its node in the file.

    In TensorFlow 1 the assignments are in the graph; in TensorFlow 2, in a function with the variables as arguments.
    """
    name = _node(model.around.saver_def.restore_op_name)
    graph = model.graph.pristine()
    node = graph.find(name) if name else None
    if node is None:
        return {}
    called = node.attr("f")
    function = called.func.name if called is not None else ""
    if not function:
        nodes = {each.name: node_def(each) for each in closure([node], _producers)}
        return _with_shared(graph, dict(_assigned(nodes)))
    body = graph.functions.get(function)
    if body is None or any(arg.number_attr or arg.type_list_attr for arg in body.signature.input_arg):
        return {}
    arguments = [arg.name for arg in body.signature.input_arg]
    given = {argument: tensor.node.name for argument, tensor in zip(arguments, node.inputs, strict=False)}
    found = dict(_assigned({each.name: each for each in body.node_def}))
    return _with_shared(graph, {given[argument]: key for argument, key in found.items() if argument in given})


def keys_by_objects(model: MetaGraph, checkpoint: str, restored: Container[str]) -> dict[str, Key]:
    """Returns the keys of the variables not in `restored`, by node, as tf.saved_model.load finds them.

    The objects of the model give an object number for each node. The object graph of the checkpoint has the same
    numbers, and gives the key for each. If either cannot be read, its variables have no keys.
    """
    graph = model.graph.pristine()
    others = (
        {node.name for node in nodes_of(graph, is_variable) if node.name not in restored} if model.has_objects else ()
    )
    try:
        objects = {name: number for name, number in held_nodes(model).items() if name in others} if others else {}
        if not objects:
            return {}
        with open_checkpoint(checkpoint) as opened:
            keys = variable_keys(opened.tensor(OBJECT_GRAPH).strings()[0])
    except InputError:
        return {}
    found = {name: Key(keys[number]) for name, number in objects.items() if number in keys}
    return {name: key for name, key in _with_shared(graph, found).items() if name not in restored}


def _with_shared(graph: Graph, keys: dict[str, Key]) -> dict[str, Key]:
    """Adds to `keys` the keys of variables with the shared name of a variable in `keys`."""
    names = {node.name: name_at_run_time(node) for node in nodes_of(graph, is_variable)}
    by_name = {names[name]: key for name, key in keys.items() if name in names}
    return keys | {name: by_name[shared] for name, shared in names.items() if shared in by_name}


def name_at_run_time(node: Node) -> tuple[object, object]:
    """Returns the container and name of a node's resource at run time; nodes with equal names share one resource."""
    return node.plain_attr("container") or b"", node.plain_attr("shared_name") or node.name.encode()


def _producers(node: Node) -> list[Node]:
    """Returns the nodes that `node` depends on through inputs and control inputs."""
    return [other for other in (*(read.node for read in node.inputs), *node.controls) if other.exists]


def _reads(node: NodeDef) -> list[tuple[str, int]]:
    """Returns the data inputs of a node of a graph or of a function: the name of each, and the number of its output."""
    parts = [text.split(":") for text in node.input if not text.startswith("^")]
    return [(name, int(at[-1]) if at and at[-1].isdecimal() else 0) for name, *at in parts]


def _assigned(nodes: Mapping[str, NodeDef]) -> Iterator[tuple[str, Key]]:
    """Yields the variable and the key for each of `nodes` that assigns a value from a checkpoint."""
    texts: dict[str, list[str]] = {}  # one restore op lists the keys of all variables
    for node in nodes.values():
        reads = _reads(node) if node.op in ASSIGNMENTS else []
        if len(reads) < 2:
            continue
        name, place = reads[1]
        passed: set[str] = set()  # an unchecked graph can have a cycle
        while name in nodes and nodes[name].op in _PASSED_ON and nodes[name].input and name not in passed:
            passed.add(name)
            name, place = _reads(nodes[name])[0]
        slots = _TEXTS.get(nodes[name].op, ()) if name in nodes else ()
        if slots and len(sources := _reads(nodes[name])) > slots[-1]:
            held = [sources[slot][0] for slot in slots]
            texts |= {other: _texts(nodes.get(other)) for other in held if other not in texts}
            if place < min(len(texts[other]) for other in held):
                yield reads[0][0], Key(*(texts[other][place] for other in held))


def origin(tensor: Output) -> Output:
    """Returns the tensor that `tensor` is computed from through ops such as Identity, Reshape and Cast."""
    passed: set[Node] = set()  # an unchecked graph can have a cycle
    while tensor.node.op in _PASSED_ON and tensor.node.inputs and tensor.node not in passed:
        passed.add(tensor.node)
        tensor = tensor.node.inputs[0]
    return tensor


def _texts(node: NodeDef | None) -> list[str]:
    """Returns the strings in a constant; none for other nodes."""
    if node is None or node.op != "Const":
        return []
    found = constant_in(node.attr["value"].SerializeToString())
    return [item.decode(errors="replace") for item in found.values if isinstance(item, bytes)] if found else []


# -- values ------------------------------------------------------------------------------------------------------


def weights(prefix: str, keys: Mapping[str, Key], wanted: Mapping[str, tuple[int, str]]) -> Source:
    """Returns a GraphDef with a constant for each variable in `wanted`; values are read from the checkpoint on demand.

    Args:
        prefix: the prefix of the checkpoint.
        keys: the checkpoint keys of the values, by variable.
        wanted: the dtype of each variable, and the device of its constant.

    Raises:
        EditError: a variable is not restored, is not in the checkpoint, or has a different dtype there.
        InputError: the checkpoint cannot be read.
    """
    checkpoint = open_checkpoint(prefix)
    chunks: list[Chunk] = []
    for name, (dtype, device) in wanted.items():
        key = keys.get(name)
        if key is None:
            near = nearest(name, keys)
            raise EditError(
                f"the variable {quoted(name)} is not restored from the checkpoint, so it has no value to "
                f"freeze.{suggestion(near)}".rstrip("."),
                code="not-restored",
                variable=name,
                near=near,
            )
        if key.tensor not in checkpoint:
            near = nearest(key.tensor, checkpoint.keys)
            what = f"has no tensor {quoted(key.tensor)}, from which the variable {quoted(name)} is restored"
            message = f"{printable(prefix)} {what}.{suggestion(near)}".rstrip(".")
            raise EditError(message, code="no-such-tensor", file=prefix, key=key.tensor, variable=name, near=near)
        chunks += _constant(name, checkpoint, key, dtype, device)
    return ChunkSource(chunks, f"the checkpoint {prefix}")


def _constant(name: str, checkpoint: Checkpoint, key: Key, dtype: int, device: str) -> Iterator[Chunk]:
    """Yields the chunks of the GraphDef field that holds the constant `name`."""
    stored = checkpoint.tensor(key.tensor)
    if stored.dtype != base_dtype(dtype):
        raise EditError(
            f"the variable {quoted(name)} is {dtype_name(dtype)}, but {quoted(key.tensor)} in the checkpoint "
            f"is {stored.dtype.name}",
            code="dtype-mismatch",
            variable=name,
            expected=dtype_name(dtype),
            key=key.tensor,
            found=stored.dtype.name,
        )
    value: list[Chunk]
    if stored.dtype == STRING:
        shape = stored.shape
        value = [encode_len(ELEMENT_FIELDS[STRING.field], text) for text in stored.strings()]
    else:
        found = checkpoint.stretch(key.tensor, parse_slice_spec(key.slice)[1])
        shape = found.shape
        value = _wrapped(CONTENT, found.chunks) if size_of(found.chunks) else []
    tensor = raw_value(stored.dtype, shape).tensor
    tensor_chunks = _wrapped(TENSOR, [tensor.SerializeToString(), *value])
    entry = [encode_len(KEY, b"value"), *_wrapped(VALUE, tensor_chunks)]
    head = encode_len(NAME, name.encode()) + encode_len(OP, b"Const")
    head += encode_len(DEVICE, device.encode()) if device else b""
    head += encode_attr("dtype", type_value(stored.dtype).SerializeToString())
    yield from _wrapped(NODE, [head, *_wrapped(ATTR, entry)])


def _wrapped(number: int, chunks: list[Chunk]) -> list[Chunk]:
    """Returns `chunks` as the length-delimited field `number`."""
    return [encode_varint(number << 3 | LEN) + encode_varint(size_of(chunks)), *chunks]
