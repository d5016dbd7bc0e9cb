"""Every place around a graph that holds the name of a node of it.

Facts: saver_def, signature_def, asset_file_def, the collections (names of nodes, VariableDefs, contexts of loops and
conditionals, runners of queues, savers, assets in an Any), and the constants of the object graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from gdsurgeon.errors import EditError, InputError, quoted
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import (
    AssetFileDef,
    CollectionDef,
    CondContextDef,
    ContextDef,
    MetaGraphDef,
    QueueRunnerDef,
    SaverDef,
    SignatureDef,
    TensorInfo,
    VariableDef,
    WhileContextDef,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

Entry = TypeVar("Entry", bound="Message")
Spell = Callable[[str], "str | None"]
"""Returns the new name of a node, a tensor or ``^node``; None if it was removed."""

CONTEXTS: Mapping[str, type[ContextDef]] = {"while_context": WhileContextDef, "cond_context": CondContextDef}
"""The collections of the contexts of loops and of conditionals."""
RUNNERS, SAVERS = "queue_runners", "savers"
"""The collections of what fills queues, and of savers."""
_SAVER = {"filename_tensor_name": "the saver's file name", "save_tensor_name": "saving", "restore_op_name": "restoring"}
_CONTEXT = ("pred_name", "pivot_name", "pivot_for_pred_name", "pivot_for_body_name", "maximum_iterations_name")
_RUNNER = ("queue_name", "close_op_name", "cancel_op_name")
_VARIABLE = ("variable_name", "initial_value_name", "initializer_name", "snapshot_name")


def respell(part: MetaGraphDef, spell: Spell, *, needs_saver: bool = True) -> bool:
    """Has PART, a MetaGraphDef or some fields of one, name nodes as SPELL does; returns whether it has changed.

    Removed nodes are left out of lists of names and of variables. A saver whose nodes were removed is removed as well
    unless `needs_saver`: import_meta_graph makes one for the listed variables.

    Raises:
        EditError: a signature, the saver, an asset or an object needs a removed node.
        InputError: a collection is corrupt.
    """
    before = part.SerializeToString(deterministic=True)
    named = [text for key in _SAVER if (text := getattr(part.saver_def, key))]
    if not needs_saver and any(spell(text) is None for text in named):
        part.ClearField("saver_def")
    for key, what in _SAVER.items():
        text = getattr(part.saver_def, key)
        if text:
            setattr(part.saver_def, key, _needed(spell, text, f"{what} needs"))
    for key, definition in sorted(part.signature_def.items()):
        _respell_signature(key, definition, spell)
    for asset in part.asset_file_def:
        _respell_info(asset.tensor_info, spell, f"the asset {quoted(asset.filename)} is")
    for key, collection in part.collection_def.items():
        _respell_collection(key, collection, spell)
    for item in part.object_graph_def.nodes:
        if item.WhichOneof("kind") == "constant":
            item.constant.operation = _needed(spell, item.constant.operation, "an object of the model is")
    return part.SerializeToString(deterministic=True) != before


def _needed(spell: Spell, text: str, who: str) -> str:
    now = spell(text)
    if now is None:
        raise EditError(
            f"{who} {quoted(text)}, which this edit would remove", code="outside-uses", facts={"tensor": text}
        )
    return now


def _respell_signature(key: str, definition: SignatureDef, spell: Spell) -> None:
    for what, infos in (("input", definition.inputs), ("output", definition.outputs)):
        for name, info in sorted(infos.items()):
            _respell_info(info, spell, f"the {what} {quoted(name)} of the signature {quoted(key)} is")


def _respell_info(info: TensorInfo, spell: Spell, who: str) -> None:
    kind = info.WhichOneof("encoding")
    if kind == "name":
        info.name = _needed(spell, info.name, who)
    elif kind == "coo_sparse":
        for field in ("values_tensor_name", "indices_tensor_name", "dense_shape_tensor_name"):
            setattr(info.coo_sparse, field, _needed(spell, getattr(info.coo_sparse, field), who))
    elif kind == "composite_tensor":
        for component in info.composite_tensor.components:
            _respell_info(component, spell, who)


def _respell_collection(key: str, collection: CollectionDef, spell: Spell) -> None:
    kind = collection.WhichOneof("kind")
    if kind == "node_list":
        names = list(_left(collection.node_list.value, spell))
        collection.node_list.value[:] = names
    elif kind == "bytes_list":
        entries = [
            now for entry in collection.bytes_list.value if (now := respelt_entry(key, entry, spell)) is not None
        ]
        collection.bytes_list.value[:] = entries
    elif kind == "any_list":
        for item in collection.any_list.value:
            if item.type_url.endswith("/tensorflow.AssetFileDef"):
                asset = entry_of(key, AssetFileDef, item.value)
                _respell_info(asset.tensor_info, spell, f"the asset {quoted(asset.filename)} is")
                item.value = asset.SerializeToString(deterministic=True)


def entry_of(key: str, kind: type[Entry], data: bytes) -> Entry:
    """Returns `data`, of the collection `key`, as a message of `kind`.

    Raises InputError: it is not such a message.
    """
    try:
        return kind.FromString(data)
    except decode_error():
        line = f"the collection {quoted(key)} is corrupt: an entry is not a {kind.__name__}"
        raise InputError(line, code="corrupt", facts={"key": key, "expected": kind.__name__}) from None


def _left(names: Iterable[str], spell: Spell) -> Iterator[str]:
    yield from (now for name in names if (now := spell(name)) is not None)


def respelt_entry(key: str, entry: bytes, spell: Spell) -> bytes | None:
    """Returns an entry of a collection of messages with new names; None if its subject was removed."""
    if key in CONTEXTS:
        context = entry_of(key, CONTEXTS[key], entry)
        return context.SerializeToString(deterministic=True) if respell_context(context, spell) else None
    if key == RUNNERS:
        runner = entry_of(key, QueueRunnerDef, entry)
        runner.enqueue_op_name[:] = list(_left(list(runner.enqueue_op_name), spell))
        return _respelt(runner, _RUNNER, spell) if runner.enqueue_op_name else None
    if key == SAVERS:
        return _respelt(entry_of(key, SaverDef, entry), tuple(_SAVER), spell)
    found = as_variable(entry)
    return _respelt(found, _VARIABLE, spell) if found is not None else entry


def _respelt(entry: Message, fields: Iterable[str], spell: Spell) -> bytes | None:
    """Returns `entry` with the new names of nodes in `fields`; None if one of them was removed."""
    for field in fields:
        text = getattr(entry, field)
        if text:
            now = spell(text)
            if now is None:
                return None
            setattr(entry, field, now)
    return entry.SerializeToString(deterministic=True)


def as_variable(entry: bytes) -> VariableDef | None:
    """An entry of a collection as the VariableDef that it is, or None: collections do not say what they hold."""
    try:
        found = VariableDef.FromString(entry)
    except decode_error():
        return None
    is_one = bool(found.variable_name and found.initializer_name) and not _unknown(found)
    return found if is_one else None


def _unknown(found: VariableDef) -> bool:
    from gdsurgeon.wire.messages import unknown_fields

    return len(unknown_fields(found)) > 0


def respell_context(context: ContextDef, spell: Spell) -> bool:
    """Has a context name nodes as SPELL does; returns whether the nodes that it cannot do without are there.

    Nodes are named in single fields, in lists, and in a map. Loaders of TensorFlow 1 refuse a context that names a
    removed node: the node is removed from the lists and the map, and a nested context that requires it is dropped.
    """
    if any(getattr(context, field, "") and spell(getattr(context, field)) is None for field in _CONTEXT):
        return False
    for field in _CONTEXT:
        if text := getattr(context, field, ""):
            setattr(context, field, spell(text))
    for field in ("loop_exit_names", "loop_enter_names"):
        names = getattr(context, field, None)
        if names:
            names[:] = list(_left(names, spell))
    if context.HasField("values_def"):
        values = context.values_def
        values.values[:] = list(_left(list(values.values), spell))
        pairs = [(spell(inner), spell(outer)) for inner, outer in values.external_values.items()]
        values.external_values.clear()
        values.external_values.update(
            {inner: outer for inner, outer in pairs if inner is not None and outer is not None}
        )
    kept = []
    for nested in context.nested_contexts:
        kind = nested.WhichOneof("ctxt")
        if kind is None or respell_context(getattr(nested, kind), spell):
            kept.append(nested.SerializeToString(deterministic=True))
    del context.nested_contexts[:]
    for data in kept:
        context.nested_contexts.add().ParseFromString(data)
    return True


def contexts_in(context: ContextDef) -> Iterator[ContextDef]:
    """CONTEXT, and those that are nested in it."""
    pending = [context]
    for found in pending:  # grows while it is walked
        yield found
        pending += [getattr(nested, kind) for nested in found.nested_contexts if (kind := nested.WhichOneof("ctxt"))]
