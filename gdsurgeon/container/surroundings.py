"""The surroundings of a graph in a SavedModel or a MetaGraph, as plain data by place.

Everything is read from the file. The module shares no code with the modules that write a model, so that it detects
their errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.stored import OBJECT_GRAPH, variable_keys
from gdsurgeon.container.files import ASSETS, CHECKPOINT, FINGERPRINT, GRAPH_FILE, TEXT_FILE, VARIABLES
from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.errors import unreadable
from gdsurgeon.graph.serving import INIT
from gdsurgeon.wire.folder import Folder, Identity
from gdsurgeon.wire.protos import AssetFileDef, MetaGraphDef, TensorInfo, decode_error, message, unknown_fields

if TYPE_CHECKING:
    from google.protobuf.message import Message


class Node(str):
    """The name of a node of the graph."""

    __slots__ = ()


class Tensor(str):
    """The name of a tensor of the graph, ``node:0``."""

    __slots__ = ()


class Function(str):
    """The name of a function of the library."""

    __slots__ = ()


Value = str | bytes | int | float | bool | tuple["Value", ...] | dict[str, "Value"]
"""Plain data; names in it are a `Node`, a `Tensor` or a `Function`."""
Place = tuple[str, ...]
Surroundings = dict[Place, Value]

INITIALISERS = ("saved_model_main_op", "legacy_init_op", "saved_model_train_op")
"""Collections of nodes that a loader runs."""
UNKNOWN, MISSING = "unknown", "missing"
"""The value of a shape of unknown rank, and of something that the model names and does not have."""
ROOT = "root"
UNREACHABLE = "#"
"""The first letter of the path of an object that no loader gives to its caller."""
_ENTRIES = {
    "while_context": "WhileContextDef",
    "cond_context": "CondContextDef",
    "queue_runners": "QueueRunnerDef",
    "savers": "SaverDef",
}
"""The messages in the collections that always hold the same kind."""
_NODE_NAMES = frozenset(
    """
    SaverDef.filename_tensor_name SaverDef.save_tensor_name SaverDef.restore_op_name TensorInfo.name
    TensorInfo.CooSparse.values_tensor_name TensorInfo.CooSparse.indices_tensor_name
    TensorInfo.CooSparse.dense_shape_tensor_name VariableDef.variable_name VariableDef.initial_value_name
    VariableDef.initializer_name VariableDef.snapshot_name QueueRunnerDef.queue_name QueueRunnerDef.enqueue_op_name
    QueueRunnerDef.close_op_name QueueRunnerDef.cancel_op_name WhileContextDef.pivot_name
    WhileContextDef.pivot_for_pred_name WhileContextDef.pivot_for_body_name WhileContextDef.loop_exit_names
    WhileContextDef.loop_enter_names WhileContextDef.maximum_iterations_name CondContextDef.pred_name
    CondContextDef.pivot_name ValuesDef.values ValuesDef.external_values SavedConstant.operation
    CollectionDef.NodeList.value
    """.split()
)
"""The fields of messages that name a node or a tensor."""
_FUNCTION_NAMES = frozenset(
    """
    SavedFunction.concrete_functions SavedBareConcreteFunction.concrete_function_name
    CapturedTensor.concrete_function
    """.split()
)
_OPAQUE = frozenset(("FunctionSpec", "StructuredValue", "TensorProto", "OpList"))
"""Messages that name nothing: their bytes are compared."""
_TOP_LEVEL = (GRAPH_FILE, TEXT_FILE, FINGERPRINT)


def surroundings(meta: MetaGraph, folder: str = "") -> Surroundings:
    """Returns the surroundings of the graph of `meta`.

    Args:
        meta: as it is in its file.
        folder: of the SavedModel that it is part of; its files are read as well. '' if the files do not matter.

    Returns:
        The values by place, in a fixed order. The first string of a place is one of ``tags``, ``meta info``,
        ``signature``, ``initialiser``, ``asset``, ``file``, ``saver``, ``collection``, ``object``, ``function`` and
        ``checkpoint``.

    Raises:
        InputError: a file cannot be read.
    """
    around = meta.around
    out: Surroundings = {("tags",): tuple(sorted(around.meta_info_def.tags))}
    info = _plain(around.meta_info_def)
    out |= {("meta info", key): value for key, value in info.items() if key != "tags"}
    out.update(_signatures(around))
    out.update(_initialisers(around))
    files = _files(folder) if folder else None
    out.update(_assets(around, files))
    out |= {("saver", key): value for key, value in _plain(around.saver_def).items()}
    for key, collection in sorted(around.collection_def.items()):
        if key not in INITIALISERS:
            out["collection", key] = _members(key, collection)
    own = _checkpoint(os.path.join(folder, CHECKPOINT)) if folder else {}
    keys = own.pop(OBJECT_GRAPH, {})
    out.update(_objects(around, keys if isinstance(keys, dict) else {}))
    out |= {("checkpoint", key): value for key, value in own.items()}
    return out


def _signatures(around: MetaGraphDef) -> Iterator[tuple[Place, Value]]:
    for key, definition in sorted(around.signature_def.items()):
        if key == INIT:
            continue
        yield ("signature", key, "method"), definition.method_name
        for side, infos in (("input", definition.inputs), ("output", definition.outputs)):
            for name, info in sorted(infos.items()):
                for what, value in _tensor_info(info).items():
                    yield ("signature", key, side, name, what), value
        for name, default in sorted(definition.defaults.items()):
            yield ("signature", key, "default", name), _plain_value(default)


def _tensor_info(info: TensorInfo) -> dict[str, Value]:
    kind = info.WhichOneof("encoding")
    shape = info.tensor_shape
    is_known = info.HasField("tensor_shape") and not shape.unknown_rank
    out: dict[str, Value] = {
        "dtype": info.dtype,
        "shape": tuple(dim.size for dim in shape.dim) if is_known else UNKNOWN,
    }
    if kind == "name":
        return {"tensor": name_of(info.name), **out}
    return {"encoding": kind or "", "tensors": _plain_value(getattr(info, kind)) if kind else (), **out}


def _initialisers(around: MetaGraphDef) -> Iterator[tuple[Place, Value]]:
    """Yields the nodes that a loader runs once, grouped by the collection or signature that names them."""
    for key in INITIALISERS:
        if key in around.collection_def:
            yield ("initialiser", key), _members(key, around.collection_def[key])
    if INIT in around.signature_def:
        infos = around.signature_def[INIT].outputs
        yield ("initialiser", INIT), tuple(Node(info.name.removesuffix(":0")) for _, info in sorted(infos.items()))


def _assets(around: MetaGraphDef, files: Mapping[str, Value] | None) -> Iterator[tuple[Place, Value]]:
    tensors: dict[str, list[Value]] = {}
    for asset in around.asset_file_def:
        tensors.setdefault(asset.filename, []).append(_plain_value(asset.tensor_info))
    for name, infos in sorted(tensors.items()):
        yield ("asset", name, "tensors"), tuple(infos)
    for name in sorted(tensors) if files is not None else ():
        yield ("asset", name, "content"), (files or {}).get(f"{ASSETS}/{name}", MISSING)
    for path, content in sorted((files or {}).items()):
        if path.removeprefix(f"{ASSETS}/") not in tensors:
            yield ("file", path), content


def _files(folder: str) -> dict[str, Value]:
    """Returns the size and the SHA-256 of each file in `folder`, except the graph and the checkpoint."""
    out: dict[str, Value] = {}
    try:
        with Folder(folder) as opened:
            for entry in opened.entries():
                top = entry.path.partition("/")[0]
                if not entry.is_folder and top not in (*_TOP_LEVEL, VARIABLES):
                    out[entry.path] = (entry.identity.size, _digest(entry.identity, os.path.join(folder, entry.path)))
    except OSError as error:
        raise unreadable(folder, error) from error
    return out


@cache
def _digest(identity: Identity, path: str) -> str:
    del identity  # only a key of the cache: a changed file is read again
    import hashlib

    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _checkpoint(prefix: str) -> dict[str, Value]:
    """Returns the dtype and shape of each tensor of the checkpoint `prefix`; of the object graph, keys by object."""
    if not os.path.isfile(f"{prefix}.index"):
        return {}
    with open_checkpoint(prefix) as checkpoint:
        out: dict[str, Value] = {
            tensor.key: (tensor.dtype, tensor.shape) for tensor in map(checkpoint.tensor, checkpoint.keys)
        }
        if OBJECT_GRAPH in checkpoint:
            data = checkpoint.tensor(OBJECT_GRAPH).strings()[0]
            out[OBJECT_GRAPH] = {str(n): key for n, key in variable_keys(data).items()}
        return out


# -- collections -----------------------------------------------------------------------------------------------


def _members(key: str, collection: Any) -> Value:
    kind = collection.WhichOneof("kind")
    if kind is None:
        return ()
    values = getattr(collection, kind).value
    if kind == "node_list":
        return tuple(name_of(name) for name in values)
    if kind == "bytes_list":
        return tuple(_entry(key, entry) for entry in values)
    if kind == "any_list":
        return tuple(_any(item) for item in values)
    return tuple(values)


def _entry(key: str, entry: bytes) -> Value:
    """Returns `entry` of the collection `key` as a record if it is a message of the expected type; else its bytes."""
    kind = _ENTRIES.get(key, "VariableDef")
    try:
        found: Any = message(f"tensorflow.{kind}").FromString(entry)
    except decode_error():
        return entry
    if kind == "VariableDef" and not (found.variable_name and found.initializer_name and not unknown_fields(found)):
        return entry
    return {"message": kind, **_plain(found)}


def _any(item: Any) -> Value:
    if item.type_url.endswith("/tensorflow.AssetFileDef"):
        try:
            return {"message": "AssetFileDef", **_plain(AssetFileDef.FromString(item.value))}
        except decode_error():
            pass  # it is compared as bytes
    return {"type": str(item.type_url), "value": bytes(item.value)}


# -- objects ---------------------------------------------------------------------------------------------------


def _objects(around: MetaGraphDef, keys: Mapping[str, Value]) -> Iterator[tuple[Place, Value]]:
    """Yields the parts of each object by its path from the root, as a loader finds it; `keys` are its checkpoint keys.

    An object that only a function captures has no path: it is described where it is captured. The path of an object
    that nothing refers to is its number.
    """
    objects = around.object_graph_def
    paths = _paths(objects)
    described = _Described(around, paths)
    for number, path in paths.items():
        for what, value in described.object(number).items():
            yield ("object", path, what), value
        if str(number) in keys:
            yield ("object", path, "checkpoint key"), keys[str(number)]
    for number in sorted(set(range(len(objects.nodes))) - paths.keys() - described.captured):
        yield ("object", f"{UNREACHABLE}{number}"), described.object(number)
    for name in sorted(set(objects.concrete_functions) - described.functions):
        yield ("function", name), described.function(name)


def _paths(objects: Any) -> dict[int, str]:
    """Returns the path of each object reachable from the root, by number: the shortest path, then the first by name."""
    paths = {0: ROOT} if objects.nodes else {}
    pending = list(paths)
    for number in pending:  # grows while it is walked
        for child in sorted(objects.nodes[number].children, key=lambda child: child.local_name):
            if child.node_id not in paths and 0 <= child.node_id < len(objects.nodes):
                paths[child.node_id] = f"{paths[number]}.{child.local_name}"
                pending.append(child.node_id)
    return paths


class _Described:
    """Describes the objects of a model.

    Args:
        around: the model.
        paths: of its objects.

    Attributes:
        captured: the numbers of objects without a path that were described as captures.
        functions: the names of the concrete functions that were described.
    """

    def __init__(self, around: MetaGraphDef, paths: Mapping[int, str]) -> None:
        self._objects: Any = around.object_graph_def
        self._assets = around.asset_file_def
        self._paths = paths
        self.captured: set[int] = set()
        self.functions: set[str] = set()

    def object(self, number: int) -> dict[str, Value]:
        """Returns the description of the object `number`, with its children by name."""
        item = self._objects.nodes[number]
        out = self._own(number)
        out |= {f"child {child.local_name}": self._named(child.node_id) for child in item.children}
        names = [*item.function.concrete_functions, item.bare_concrete_function.concrete_function_name]
        out |= {f"function {place}": self.function(name) for place, name in enumerate(filter(None, names))}
        return out

    def _own(self, number: int) -> dict[str, Value]:
        item = self._objects.nodes[number]
        kind = item.WhichOneof("kind")
        out: dict[str, Value] = {"kind": kind or ""}
        own = _plain(getattr(item, kind)) if kind is not None else {}
        own.pop("concrete_functions", None)
        own.pop("concrete_function_name", None)
        if kind == "asset":
            place = item.asset.asset_file_def_index
            own = _plain(self._assets[place]) if place < len(self._assets) else {"asset": place}
        out |= own
        slots = [(self._named(s.original_variable_node_id), s.slot_name, self._named(s.slot_variable_node_id))
                 for s in item.slot_variables]  # fmt: skip
        if slots:
            out["slot variables"] = tuple(slots)
        for name, saveable in sorted(item.saveable_objects.items()):
            out[f"saveable {name}"] = self._named(saveable.save_function), self._named(saveable.restore_function)
        for field in ("registered_name", "registered_saver"):
            if getattr(item, field):
                out[field] = getattr(item, field)
        if item.HasField("serialized_user_proto"):
            out["serialized_user_proto"] = item.serialized_user_proto.SerializeToString(deterministic=True)
        return out

    def function(self, name: str) -> Value:
        """Returns the description of the concrete function `name`: its signature, and the objects that it captures."""
        self.functions.add(name)
        if name not in self._objects.concrete_functions:
            return {"name": Function(name), "concrete function": MISSING}
        found = self._objects.concrete_functions[name]
        return {
            "name": Function(name),
            "captures": tuple(self._capture(number) for number in found.bound_inputs),
            "inputs": _plain_value(found.canonicalized_input_signature),
            "outputs": _plain_value(found.output_signature),
        }

    def _named(self, number: int) -> str:
        return self._paths.get(number, f"{UNREACHABLE}{number}")

    def _capture(self, number: int) -> Value:
        if number in self._paths or not 0 <= number < len(self._objects.nodes):
            return self._named(number)
        self.captured.add(number)
        item = self._objects.nodes[number]
        if item.WhichOneof("kind") == "captured_tensor":
            self.functions.add(item.captured_tensor.concrete_function)
        return self._own(number)


# -- messages --------------------------------------------------------------------------------------------------


def name_of(text: str) -> Value:
    """Returns `text` as a Node (``node``, ``^node``) or a Tensor (``node:0``); '' is returned unchanged."""
    if not text:
        return ""
    return Tensor(text) if ":" in text else Node(text)


def _plain(found: Message) -> dict[str, Value]:
    """Returns the fields of a message that are set, by name."""
    out: dict[str, Value] = {}
    for field, value in found.ListFields():
        whole = field.full_name.removeprefix("tensorflow.")
        if hasattr(value, "items"):  # a map; asking its descriptor loads all of protobuf
            names = name_of if whole in _NODE_NAMES else str
            pairs = [(names(key), _plain_value(item, whole)) for key, item in sorted(value.items())]
            out[field.name] = tuple({"key": key, "value": item} for key, item in pairs)
        elif isinstance(value, (str, bytes, int, float)) or hasattr(value, "ListFields"):
            out[field.name] = _plain_value(value, whole)
        else:
            out[field.name] = tuple(_plain_value(item, whole) for item in value)
    others: Any = unknown_fields(found)
    unknown = [(item.field_number, item.wire_type, str(item.data)) for item in others]
    if unknown:
        out["unknown fields"] = tuple(unknown)
    return out


def _plain_value(value: Any, field: str = "") -> Value:
    if hasattr(value, "ListFields"):
        opaque = value.DESCRIPTOR.name in _OPAQUE
        return bytes(value.SerializeToString(deterministic=True)) if opaque else _plain(value)
    if field in _NODE_NAMES:
        return name_of(value)
    if field in _FUNCTION_NAMES:
        return Function(value) if value else ""
    found: Value = value
    return found
