"""Extends the collections of a MetaGraph after an edit has copied a scope: copies are listed with their originals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gdsurgeon.container.mentions import (
    CONTEXTS,
    RUNNERS,
    SAVERS,
    as_variable,
    contexts_in,
    entry_of,
    respell_context,
    respelt_entry,
)
from gdsurgeon.graph.serving import Copied
from gdsurgeon.wire.protos import CollectionDef, ContextDef, MetaGraphDef, QueueRunnerDef

ONE_ALONE = frozenset(("saved_model_main_op", "legacy_init_op", "saved_model_train_op"))
"""Collections of a single node, which loaders run."""


def add_copies(part: MetaGraphDef, copies: Iterable[Copied]) -> bool:
    """Has the collections of PART list what was copied; returns whether that changes any."""
    before = part.SerializeToString(deterministic=True)
    for copied in copies:
        spell = _speller(copied)
        for key, collection in part.collection_def.items():
            _add(key, collection, copied, spell)
    return part.SerializeToString(deterministic=True) != before


Spell = Callable[[str], str]


def _speller(copied: Copied) -> Spell:
    names = {node.name: copy.name for node, copy in copied.nodes.items()}

    def spell(text: str) -> str:
        control, name = text[:1] == "^", text.removeprefix("^")
        node, colon, port = name.partition(":")
        return f"{'^' if control else ''}{names.get(node, node)}{colon}{port}"

    return spell


def _add(key: str, collection: CollectionDef, copied: Copied, spell: Spell) -> None:
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


def _variables(entries: Iterable[bytes], copied: Copied, spell: Spell) -> Iterator[bytes]:
    keys = {old: new for new, old in copied.keys.items()}
    for entry in entries:
        found = as_variable(entry)
        if found is None or spell(found.variable_name) == found.variable_name:
            continue
        copy = as_variable(respelt_entry("", entry, spell) or b"")
        assert copy is not None
        if copy.HasField("save_slice_info_def"):
            name = copy.save_slice_info_def.full_name
            copy.save_slice_info_def.full_name = keys.get(name) or copied.spelt(name)
        yield copy.SerializeToString(deterministic=True)


def _runners(entries: Iterable[bytes], spell: Spell) -> Iterator[bytes]:
    """What fills the copies of queues: what fills the originals, where that was copied."""
    for entry in entries:
        found = entry_of(RUNNERS, QueueRunnerDef, entry)
        filling = [name for name in found.enqueue_op_name if spell(name) != name]
        if filling and spell(found.queue_name) != found.queue_name:
            found.enqueue_op_name[:] = filling
            yield respelt_entry(RUNNERS, found.SerializeToString(), spell) or b""


def _with_contexts(key: str, entries: Iterable[bytes], copied: Copied, spell: Spell) -> Iterator[bytes]:
    """Yields `entries`, contexts of loops or conditionals, and those of the copies; copies inside a context are added
    to it.
    """
    for entry in entries:
        found = entry_of(key, CONTEXTS[key], entry)
        copy = _copy(found, copied, spell)
        if copy is not None:
            yield from (entry, copy.SerializeToString(deterministic=True))
        else:
            yield found.SerializeToString(deterministic=True) if _add_inside(found, copied, spell) else entry


def _copy(context: ContextDef, copied: Copied, spell: Spell) -> ContextDef | None:
    """The context of the copy; None where this one was not copied."""
    if spell(context.pivot_name) == context.pivot_name:
        return None
    out = type(context)()
    out.CopyFrom(context)
    respell_context(out, spell)
    for found in contexts_in(out):
        name = found.context_name
        if name:
            found.context_name = copied.frames.get(name) or copied.spelt(name)
    return out


def _add_inside(context: ContextDef, copied: Copied, spell: Spell) -> bool:
    """Has a context that was not copied hold what was copied inside of it; returns whether there is such a thing."""
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
