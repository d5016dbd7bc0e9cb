"""Restoring the variables of a MetaGraph: the runs that restore it, the keys of the variables, and their values.

Source: the runs of tf.compat.v1.saved_model.load and tf.compat.v1.train.Saver.restore, and their feeds."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping

from gdsurgeon.container.checkpoint.edit import OBJECT_GRAPH, variable_keys
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.slices import parse_slice_spec
from gdsurgeon.container.checkpoint.stored import Checkpoint
from gdsurgeon.container.mentions import entry_of
from gdsurgeon.container.meta_graph import MAIN_OP, MetaGraph
from gdsurgeon.container.objects import held_nodes, nodes_of
from gdsurgeon.errors import EditError, InputError, printable, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import TENSOR, Constant, constant, constant_in, raw_value
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import plain_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import INIT, Key, Restoring
from gdsurgeon.ops.dtypes import CONTENT, ELEMENT_FIELDS, STRING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import ASSIGNMENTS, IDENTITY, is_variable
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.wire.fields import LEN, encode_len, encode_varint
from gdsurgeon.wire.node_record import ATTR, DEVICE, KEY, NAME, OP, VALUE, encode_attr
from gdsurgeon.wire.protos import AssetFileDef, FunctionDef, MetaGraphDef, NodeDef
from gdsurgeon.wire.scan import NODE
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, ChunkSource, size_of

INIT_COLLECTIONS = (MAIN_OP, "legacy_init_op")
RESTORE = "RestoreV2"
_TEXTS = {"Restore": (1,), "RestoreSlice": (1, 2), RESTORE: (1, 2)}
"""Ops that read a checkpoint, with the inputs that name the tensors and their slices."""
_PASSED_ON = IDENTITY | {"Reshape", "Cast"}


def restoring(model: MetaGraph, checkpoint: str) -> Restoring | None:
    """The run that restores the variables of MODEL from the checkpoint with the prefix CHECKPOINT; None: none can."""
    saver = model.around.saver_def
    if not saver.restore_op_name or not checkpoint:
        return None
    return Restoring({plain_tensor(saver.filename_tensor_name): checkpoint}, (_node(saver.restore_op_name),))


def initialising(model: MetaGraph, assets: str) -> Restoring | None:
    """Returns the run by which a loader initializes `model`, whose assets are in the folder `assets`; None if there is
    none.
    """
    around = model.around
    present = [key for key in INIT_COLLECTIONS if key in around.collection_def]  # to ask for a missing one adds it
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
    """Raises InputError if an asset of AROUND, which the model NAME holds, is not a file below the folder of assets."""
    for _, file in _assets(around):
        if not file or file.startswith("/") or "\0" in file or os.pardir in file.split("/"):
            line = f"{printable(name)} has an asset {quoted(file)} that is outside its folder of assets"
            raise InputError(line, code="bad-name", facts={"file": name, "name": file})


def _assets(around: MetaGraphDef) -> Iterator[tuple[str, str]]:
    """(tensor that is fed with the path, name of the file) of each asset; TensorFlow 1 kept them in a collection."""
    for asset in around.asset_file_def:
        yield asset.tensor_info.name, asset.filename
    if not around.asset_file_def and "saved_model_assets" in around.collection_def:
        for item in around.collection_def["saved_model_assets"].any_list.value:
            asset = entry_of("saved_model_assets", AssetFileDef, item.value)
            yield asset.tensor_info.name, asset.filename


# -- which variable has which key ----------------------------------------------------------------------------


def restored_keys(model: MetaGraph) -> dict[str, Key]:
    """The key of each variable (by the name of its node in the file) that the restore op assigns to.

    TensorFlow 1 has the assignments in the graph, TensorFlow 2 in a function that is given the variables.
    """
    name = _node(model.around.saver_def.restore_op_name)
    graph = model.graph.pristine()
    node = graph.find(name) if name else None
    if node is None:
        return {}
    function = _called(node)
    if function is None:
        return _with_shared(graph, dict(_assigned(closure([node], _producers))))
    body = graph.functions.get(function)
    if body is None or any(arg.number_attr or arg.type_list_attr for arg in body.signature.input_arg):
        return {}
    arguments = [arg.name for arg in body.signature.input_arg]
    given = {argument: tensor.node.name for argument, tensor in zip(arguments, node.inputs, strict=False)}
    found = dict(_assigned_inside(body))
    return _with_shared(graph, {given[argument]: key for argument, key in found.items() if argument in given})


def keys_by_objects(model: MetaGraph, checkpoint: str, restored: Container[str]) -> dict[str, Key]:
    """The keys of variables (by node) that are not RESTORED by the restore op, as tf.saved_model.load finds them.

    The model's objects say which of them the nodes stand for, and the checkpoint's own object graph, whose objects have
    the same numbers, the key of each. What cannot be read of either has no key.
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
    """KEYS, and those of the variables that are the same ones by their shared name."""
    names = {node.name: name_at_run_time(node) for node in nodes_of(graph, is_variable)}
    by_name = {names[name]: key for name, key in keys.items() if name in names}
    return keys | {name: by_name[shared] for name, shared in names.items() if shared in by_name}


def name_at_run_time(node: Node) -> tuple[object, object]:
    """What the resource of a node is called at run time: those of one name are one."""
    return node.plain_attr("container") or b"", node.plain_attr("shared_name") or node.name.encode()


def _called(node: Node) -> str | None:
    """The function that NODE calls, or None."""
    value = node.attr("f")
    return value.func.name or None if value is not None else None


def _producers(node: Node) -> list[Node]:
    """The nodes that NODE reads and waits for."""
    return [other for other in (*(read.node for read in node.inputs), *node.controls) if other.exists]


def _assigned(nodes: Iterable[Node]) -> Iterator[tuple[str, Key]]:
    """(variable, key) of each of NODES that assigns to it what a checkpoint holds."""
    texts: dict[Node, list[str]] = {}  # one restore op names the keys of all
    for node in nodes:
        if node.op in ASSIGNMENTS and len(node.inputs) > 1:
            value = origin(node.inputs[1])
            slots = _TEXTS.get(value.node.op, ())
            if slots and len(value.node.inputs) > slots[-1]:
                held = [value.node.inputs[slot].node for slot in slots]
                texts |= {other: _texts(constant(other)) for other in held if other not in texts}
                yield from _keyed(node.inputs[0].node.name, value.index, *map(texts.__getitem__, held))


def _assigned_inside(function: FunctionDef) -> Iterator[tuple[str, Key]]:
    """The same of the arguments and nodes of FUNCTION, as that spells them: to make a graph of it takes far longer."""
    nodes = {node.name: node for node in function.node_def}
    texts: dict[str, list[str]] = {}
    for node in function.node_def:
        if node.op in ASSIGNMENTS and len(node.input) > 1:
            name, place = _origin_inside(nodes, node.input[1])
            if name in nodes and nodes[name].op == RESTORE and len(nodes[name].input) > 2:
                held = [_place(text)[0] for text in nodes[name].input[1:3]]
                texts |= {other: _texts_inside(nodes.get(other)) for other in held if other not in texts}
                yield from _keyed(_place(node.input[0])[0], place, *map(texts.__getitem__, held))


def _keyed(variable: str, place: int, *held: list[str]) -> Iterator[tuple[str, Key]]:
    """VARIABLE with the key of tensor PLACE of a restore op that is given names and slices, HELD, where it has one."""
    if place < min(map(len, held)):
        yield variable, Key(*(texts[place] for texts in held))


def origin(tensor: Output) -> Output:
    """What TENSOR is, before it was passed on and reshaped."""
    passed: set[Node] = set()  # what has not been checked may go round in a circle
    while tensor.node.op in _PASSED_ON and tensor.node.inputs and tensor.node not in passed:
        passed.add(tensor.node)
        tensor = tensor.node.inputs[0]
    return tensor


def _origin_inside(nodes: Mapping[str, NodeDef], text: str) -> tuple[str, int]:
    """The same of a tensor that a function with NODES spells as TEXT: the node or argument, and the place in that."""
    passed: set[str] = set()
    name, place = _place(text)
    while name in nodes and nodes[name].op in _PASSED_ON and nodes[name].input and name not in passed:
        passed.add(name)
        name, place = _place(nodes[name].input[0])
    return name, place


def _place(text: str) -> tuple[str, int]:
    """The node or argument, and the place among its tensors, of what a function spells as TEXT."""
    name, *at = text.split(":")
    return name, int(at[-1]) if at and at[-1].isdecimal() else 0


def _texts(found: Constant | None) -> list[str]:
    """The strings in a constant; none where it is no constant."""
    values = found.values if found is not None else ()
    return [item.decode(errors="replace") for item in values if isinstance(item, bytes)]


def _texts_inside(node: NodeDef | None) -> list[str]:
    """The same of a node of a function."""
    if node is None or node.op != "Const":
        return []
    return _texts(constant_in(node.attr["value"].SerializeToString()))


def weights(prefix: str, keys: Mapping[str, Key], wanted: Mapping[str, tuple[int, str]]) -> Source:
    """A GraphDef with a constant for each variable that is WANTED; its bytes are read from the checkpoint when it is.

    Args:
        prefix: of the checkpoint.
        keys: where in it the values are, by variable.
        wanted: for each variable its dtype, and the device of its constant.

    Raises:
        EditError: the restore op restores no such variable, or the checkpoint has none of it, or of another dtype.
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
                facts={"variable": name, "near": near},
            )
        if key.tensor not in checkpoint:
            near = nearest(key.tensor, checkpoint.keys)
            what = f"has no tensor {quoted(key.tensor)}, from which the variable {quoted(name)} is restored"
            message = f"{printable(prefix)} {what}.{suggestion(near)}".rstrip(".")
            facts = {"file": prefix, "key": key.tensor, "variable": name, "near": near}
            raise EditError(message, code="no-such-tensor", facts=facts)
        chunks += _constant(name, checkpoint, key, dtype, device)
    return ChunkSource(chunks, f"the checkpoint {prefix}")


def _constant(name: str, checkpoint: Checkpoint, key: Key, dtype: int, device: str) -> Iterator[Chunk]:
    """The field of a GraphDef that holds the constant NAME."""
    stored = checkpoint.tensor(key.tensor)
    if stored.dtype != base_dtype(dtype):
        raise EditError(
            f"the variable {quoted(name)} is {dtype_name(dtype)}, but {quoted(key.tensor)} in the checkpoint "
            f"is {stored.dtype.name}",
            code="dtype-mismatch",
            facts={"variable": name, "expected": dtype_name(dtype), "key": key.tensor, "found": stored.dtype.name},
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
    """CHUNKS as the length-delimited field NUMBER."""
    return [encode_varint(number << 3 | LEN) + encode_varint(size_of(chunks)), *chunks]
