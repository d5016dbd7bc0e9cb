"""The records outside a graph that hold names of its nodes: they are updated after an edit.

These are saver_def, signature_def, asset_file_def, the collections (names of nodes, VariableDefs, contexts of loops and
conditionals, runners of queues, savers, assets in an Any), and the constants of the object graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from gdsurgeon.errors import EditError, InputError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import renaming
from gdsurgeon.graph.served import tensor_now
from gdsurgeon.graph.serving import Copied
from gdsurgeon.wire.protos import (
    AssetFileDef,
    CollectionDef,
    CondContextDef,
    ContextDef,
    MetaGraphDef,
    QueueRunnerDef,
    SaverDef,
    VariableDef,
    WhileContextDef,
    decode_error,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

Entry = TypeVar("Entry", bound="Message")
Spell = Callable[[str], "str | None"]
"""Returns the new name of a node, a tensor or ``^node``; None if it was removed."""

CONTEXTS: Mapping[str, type[ContextDef]] = {"while_context": WhileContextDef, "cond_context": CondContextDef}
"""The collections of the contexts of loops and of conditionals."""
RUNNERS, SAVERS = "queue_runners", "savers"
ONE_ALONE = frozenset(("saved_model_main_op", "legacy_init_op", "saved_model_train_op"))
"""Collections of a single node, which loaders run."""
_SAVER = {"filename_tensor_name": "the saver's file name", "save_tensor_name": "saving", "restore_op_name": "restoring"}
_NAMES = frozenset(
    """
    SaverDef.filename_tensor_name SaverDef.save_tensor_name SaverDef.restore_op_name
    TensorInfo.name TensorInfo.CooSparse.values_tensor_name TensorInfo.CooSparse.indices_tensor_name
    TensorInfo.CooSparse.dense_shape_tensor_name CollectionDef.NodeList.value
    VariableDef.variable_name VariableDef.initial_value_name VariableDef.initializer_name VariableDef.snapshot_name
    QueueRunnerDef.queue_name QueueRunnerDef.enqueue_op_name QueueRunnerDef.close_op_name QueueRunnerDef.cancel_op_name
    WhileContextDef.pivot_name WhileContextDef.pivot_for_pred_name WhileContextDef.pivot_for_body_name
    WhileContextDef.maximum_iterations_name WhileContextDef.loop_exit_names WhileContextDef.loop_enter_names
    CondContextDef.pred_name CondContextDef.pivot_name ValuesDef.values ValuesDef.external_values
    """.split()
)
"""The fields that hold names of nodes or tensors."""


def respell(part: MetaGraphDef, graph: Graph, *, needs_saver: bool = True) -> bool:
    """Updates the names of nodes of `graph` in `part`, some fields of a MetaGraphDef; returns whether it has changed.

    Removed nodes are left out of lists of names and of variables. A saver whose nodes were removed is removed as well
    unless `needs_saver`: import_meta_graph makes one for the listed variables.

    Raises:
        EditError: a signature, the saver, an asset or an object needs a removed node.
        InputError: a collection is corrupt.
    """
    before, spell = part.SerializeToString(deterministic=True), partial(tensor_now, graph)
    named = [text for key in _SAVER if (text := getattr(part.saver_def, key))]
    if not needs_saver and any(spell(text) is None for text in named):
        part.ClearField("saver_def")
    for key, what in _SAVER.items():
        text = getattr(part.saver_def, key)
        if text:
            setattr(part.saver_def, key, _required(spell, f"{what} needs")(text))
    for key, definition in sorted(part.signature_def.items()):
        for side, infos in (("input", definition.inputs), ("output", definition.outputs)):
            for name, info in sorted(infos.items()):
                _respell(info, _required(spell, f"the {side} {quoted(name)} of the signature {quoted(key)} is"))
    for asset in part.asset_file_def:
        _respell_asset(asset, spell)
    for key, collection in part.collection_def.items():
        kind = collection.WhichOneof("kind")
        if kind == "node_list":
            _respell(collection.node_list, spell)
        elif kind == "bytes_list":
            entries = [respelt_entry(key, entry, spell) for entry in collection.bytes_list.value]
            collection.bytes_list.value[:] = [entry for entry in entries if entry is not None]
        elif kind == "any_list":
            for member in collection.any_list.value:
                if member.type_url.endswith("/tensorflow.AssetFileDef"):
                    asset = entry_of(key, AssetFileDef, member.value)
                    _respell_asset(asset, spell)
                    member.value = asset.SerializeToString(deterministic=True)
    for item in part.object_graph_def.nodes:
        if item.WhichOneof("kind") == "constant":
            item.constant.operation = _required(spell, "an object of the model is")(item.constant.operation)
    return part.SerializeToString(deterministic=True) != before


def _required(spell: Spell, who: str) -> Callable[[str], str]:
    """Returns `spell` with an error for removed nodes; the message begins with `who`."""

    def spelt(text: str) -> str:
        now = spell(text)
        if now is None:
            line = f"{who} {quoted(text)}, which this edit would remove"
            raise EditError(line, code="outside-uses", tensor=text)
        return now

    return spelt


def _respell_asset(asset: AssetFileDef, spell: Spell) -> None:
    _respell(asset.tensor_info, _required(spell, f"the asset {quoted(asset.filename)} is"))


def _respell(found: Message, spell: Spell) -> bool:
    """Updates the names in a message; returns False if a field with a single name names a removed node.

    Removed nodes are left out of lists and maps, and so are the messages of a list that require a removed node: loaders
    of TensorFlow 1 refuse a context that names a removed node.
    """
    for field, value in found.ListFields():
        is_name = field.full_name.removeprefix("tensorflow.") in _NAMES
        if is_name and isinstance(value, str):
            now = spell(value)
            if now is None:
                return False
            setattr(found, field.name, now)
        elif is_name and isinstance(value, Mapping):
            names: Any = value
            pairs = [(spell(inner), spell(outer)) for inner, outer in names.items()]
            names.clear()
            names.update({inner: outer for inner, outer in pairs if inner is not None and outer is not None})
        elif is_name:
            value[:] = [now for text in value if (now := spell(text)) is not None]
        elif hasattr(value, "ListFields"):
            if not _respell(value, spell):
                return False
        elif field.message_type is not None and not isinstance(value, Mapping):
            kept = [item for item in value if _respell(item, spell)]
            del value[:]
            value.extend(kept)
    return True


def entry_of(key: str, kind: type[Entry], data: bytes) -> Entry:
    """Returns `data`, of the collection `key`, as a message of `kind`.

    Raises InputError: it is not such a message.
    """
    try:
        return kind.FromString(data)
    except decode_error():
        line = f"the collection {quoted(key)} is corrupt: an entry is not a {kind.__name__}"
        raise InputError(line, code="corrupt", key=key, expected=kind.__name__) from None


def respelt_entry(key: str, entry: bytes, spell: Spell) -> bytes | None:
    """Returns an entry of a collection of messages with new names; None if its subject was removed."""
    found: Any
    if key in CONTEXTS:
        found = entry_of(key, CONTEXTS[key], entry)
    elif key == RUNNERS:
        found = entry_of(key, QueueRunnerDef, entry)
    else:
        found = entry_of(key, SaverDef, entry) if key == SAVERS else as_variable(entry)
    if found is None:
        return entry
    is_kept = _respell(found, spell) and (key != RUNNERS or found.enqueue_op_name)
    return bytes(found.SerializeToString(deterministic=True)) if is_kept else None


def as_variable(entry: bytes) -> VariableDef | None:
    """Returns a collection entry as a VariableDef, or None: collections do not declare the type of their entries."""
    from gdsurgeon.wire.protos import unknown_fields

    try:
        found = VariableDef.FromString(entry)
    except decode_error():
        return None
    return found if found.variable_name and found.initializer_name and not len(unknown_fields(found)) else None


# -- copies of scopes --------------------------------------------------------------------------------------------


def add_copies(part: MetaGraphDef, copies: Iterable[Copied]) -> bool:
    """Adds the copies of nodes to the collections of `part` that list the originals; returns whether any changes."""
    before = part.SerializeToString(deterministic=True)
    for copied in copies:
        spell = renaming({node.name: copy.name for node, copy in copied.nodes.items()})
        for key, collection in part.collection_def.items():
            _add(key, collection, copied, spell)
    return part.SerializeToString(deterministic=True) != before


def _add(key: str, collection: CollectionDef, copied: Copied, spell: Callable[[str], str]) -> None:
    kind = collection.WhichOneof("kind")
    if kind == "node_list" and key not in ONE_ALONE:
        names = collection.node_list.value
        names.extend([spell(name) for name in names if spell(name) != name])
    elif kind == "bytes_list":
        entries = list(collection.bytes_list.value)
        if key in CONTEXTS:
            collection.bytes_list.value[:] = _with_contexts(key, entries, copied, spell)
        elif key == RUNNERS:
            collection.bytes_list.value.extend(_runners(entries, spell))
        elif key != SAVERS:
            collection.bytes_list.value.extend(_variables(entries, copied, spell))


def _variables(entries: Iterable[bytes], copied: Copied, spell: Callable[[str], str]) -> Iterator[bytes]:
    keys = {old: new for new, old in copied.keys.items()}
    for entry in entries:
        copy = as_variable(entry)
        if copy is None or spell(copy.variable_name) == copy.variable_name:
            continue
        _respell(copy, spell)
        if copy.HasField("save_slice_info_def"):
            name = copy.save_slice_info_def.full_name
            copy.save_slice_info_def.full_name = keys.get(name) or copied.spelt(name)
        yield copy.SerializeToString(deterministic=True)


def _runners(entries: Iterable[bytes], spell: Callable[[str], str]) -> Iterator[bytes]:
    """Yields the runners of copied queues: the copied ops that fill the originals."""
    for entry in entries:
        found = entry_of(RUNNERS, QueueRunnerDef, entry)
        filling = [name for name in found.enqueue_op_name if spell(name) != name]
        if filling and spell(found.queue_name) != found.queue_name:
            found.enqueue_op_name[:] = filling
            _respell(found, spell)
            yield found.SerializeToString(deterministic=True)


def _with_contexts(key: str, entries: Iterable[bytes], copied: Copied, spell: Callable[[str], str]) -> Iterator[bytes]:
    """Yields `entries`, contexts of loops or conditionals, and the contexts of their copies.

    Copies inside a context that was not copied are added to it.
    """
    for entry in entries:
        found = entry_of(key, CONTEXTS[key], entry)
        copy = _copy(found, copied, spell)
        if copy is not None:
            yield from (entry, copy.SerializeToString(deterministic=True))
        else:
            yield found.SerializeToString(deterministic=True) if _add_inside(found, copied, spell) else entry


def _copy(context: ContextDef, copied: Copied, spell: Callable[[str], str]) -> ContextDef | None:
    """Returns the context of the copy; None if the context was not copied."""
    if spell(context.pivot_name) == context.pivot_name:
        return None
    out = type(context).FromString(context.SerializeToString())
    _respell(out, spell)
    pending = [out]
    for found in pending:  # grows during the loop
        if found.context_name:
            found.context_name = copied.frames.get(found.context_name) or copied.spelt(found.context_name)
        pending += [getattr(nested, kind) for nested in found.nested_contexts if (kind := nested.WhichOneof("ctxt"))]
    return out


def _add_inside(context: ContextDef, copied: Copied, spell: Callable[[str], str]) -> bool:
    """Adds the copies inside a context that was not copied; returns whether any were added."""
    values = context.values_def.values
    more = [now for text in values if (now := spell(text)) != text]
    values.extend(more)
    has_changed = bool(more)
    for nested in list(context.nested_contexts):
        kind = nested.WhichOneof("ctxt")
        if kind is None:
            continue
        copy = _copy(getattr(nested, kind), copied, spell)
        if copy is not None:
            getattr(context.nested_contexts.add(), kind).CopyFrom(copy)
        has_changed |= copy is not None or _add_inside(getattr(nested, kind), copied, spell)
    return has_changed
