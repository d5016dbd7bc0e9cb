"""Compares two graphs node by node, function by function; it knows of no edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, filterfalse

from gdsurgeon.compare.intent import Facts, FunctionChanges, Rewired, Value
from gdsurgeon.compare.written import Written
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import attr_value, plain
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.index import COLOCATION, Copied
from gdsurgeon.graph.names import parse_input, plain_tensor, renaming
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import DEBUG_INFO, LARGE, LIBRARY, VERSIONS, Record
from gdsurgeon.ops.dtypes import dtype_name
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.text import named, shortened
from gdsurgeon.values import Data
from gdsurgeon.wire.node_record import other_fields
from gdsurgeon.wire.protos import FunctionDef, NodeDef, decode_error
from gdsurgeon.wire.write import Chunk

Renamed = Mapping[str, str]
"""Names before, and after; all other names are the same in both graphs."""


@dataclass(eq=False, repr=False)
class Comparison(Data):
    """Two graphs and their differences.

    Attributes:
        before, after: the graphs.
        facts: the differences of the nodes, the names in the library, and other fields.
        inside: the same for the bodies of functions that both libraries have and that differ.
        unread: functions whose bodies cannot be read as graphs: they are compared only as a whole.
    """

    before: Graph
    after: Graph
    facts: Facts
    inside: dict[str, Comparison] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def compare_written(
    before: Graph,
    chunks: Sequence[Chunk],
    renamed: Renamed | None = None,
    inside: Mapping[str, Renamed] | None = None,
) -> Comparison:
    """Compares a graph with the written result of an edit.

    Args:
        before: the graph in its file.
        chunks: the written file.
        renamed: the renamed nodes.
        inside: the same for the bodies of functions.

    Raises:
        InputError: the chunks are not a GraphDef.
    """
    renamed = renamed or {}
    written = Written(before, chunks, renamed)
    after, lost, doubled = written.graph, [*written.lost()], [*written.doubled()]
    back = {new: old for old, new in renamed.items()}
    fresh = dict.fromkeys(back.get(name, name) for name in written.fresh)
    names = dict.fromkeys([*filter({*fresh, *renamed}.__contains__, lost), *fresh])
    removed = [*filterfalse(names.__contains__, lost)]
    # In unchanged records, an input can have a name that a different node has now.
    flags = before.store.user_flags(renamed)
    for part in written.kept:
        if part.bounds is not None:  # these were compared with the new names
            flags[part.first : part.last] = bytes(part.last - part.first)
    users = dict.fromkeys(chain(compress(before.store.names, flags), *map(before.store.colocated, renamed)))
    for user in {*users}.intersection(removed):
        del users[user]
    names |= users
    out = Comparison(before, after, _node_facts(before, after, renamed, names))
    out.facts.renamed |= written.renamed
    out.facts.removed += removed
    for name, count in Counter(doubled).items():
        out.facts.graph_fields[f"doubled {name}"] = (None, str(count + 1))
    if not doubled:
        out.facts.graph_fields.update(_displaced(before, written.order, renamed))
    if not written.has_same_fields:
        _compare_other_fields(out, inside or {})
    return out


def _displaced(
    before: Graph, order: Sequence[Copied | str], renamed: Renamed
) -> Iterator[tuple[str, tuple[Value, Value]]]:
    """Yields the nodes that come after a node that they preceded in the file of `before`.

    Args:
        before: the graph.
        order: see `Written`.
        renamed: the renamed nodes.
    """
    table = before.store.table
    moved = {**dict.fromkeys(renamed, -1), **{new: table.rows[old] for old, new in renamed.items()}}
    last = -1
    for part in order:
        if isinstance(part, Copied):
            row, end = part.first, part.last
        else:
            row = moved[part] if part in moved else table.rows.get(part, -1)
            end = row + 1
        for displaced in range(row, min(end, last)) if row >= 0 else ():
            name = part if isinstance(part, str) else table.names[displaced]
            yield f"place of {name}", (f"before {table.names[last]}", f"after {table.names[last]}")
        last = max(last, end - 1)


def compare_files(before: Graph, after: Graph, renamed: Renamed | None = None) -> Comparison:
    """Compares two graphs, each in its file.

    Args:
        before, after: the graphs.
        renamed: the nodes of `before` with a different name in `after`.
    """
    renamed = renamed or {}
    names = dict.fromkeys([*before.store.names, *(n for n in after.store.names if n not in before)])
    changed = (name for name in names if _is_other(before, after, name)) if not renamed else names
    out = Comparison(before, after, _node_facts(before, after, renamed, dict.fromkeys(changed)))
    _compare_other_fields(out, {})
    return out


def _is_other(before: Graph, after: Graph, name: str) -> bool:
    """Returns whether the records of a node have different bytes."""
    old, new = before.store.record(name), after.store.record(name)
    if old is None or new is None:
        return True
    return not _is_same_stretch(old, new, (0, old.end - old.body), (0, new.end - new.body))


_STEP = 1 << 20
"""Bytes that are compared at a time."""


def _is_same_stretch(old: Record, new: Record, mine: tuple[int, int], its: tuple[int, int]) -> bool:
    """Returns whether two byte ranges, (start, end) in the bodies of records, are equal. Reads them in pieces."""
    size = mine[1] - mine[0]
    return size == its[1] - its[0] and all(
        old.source.read(old.body + mine[0] + at, min(_STEP, size - at))
        == new.source.read(new.body + its[0] + at, min(_STEP, size - at))
        for at in range(0, size, _STEP)
    )


# -- nodes ----------------------------------------------------------------------------------------------------


def _node_facts(before: Graph, after: Graph, renamed: Renamed, names: Iterable[str]) -> Facts:
    """Returns the differences of nodes, which have their names before; new nodes have their names after."""
    out = Facts()
    spelt = renaming(renamed)
    taken = frozenset(renamed.values())
    for name in names:
        # A different node may have the node's old name now; that node is not its counterpart.
        is_left, now = name not in renamed and name in taken, renamed.get(name, name)
        new_record = None if is_left else after.store.record(now)
        old_record = before.store.record(name) if new_record is not None else None
        if old_record is None or new_record is None:
            out.added += [now] if new_record is not None else []
            out.removed += [name] if new_record is None and before.store.has(name) else []
            continue
        if name != now:
            out.renamed[name] = now
        inputs = inputs_alone(old_record, new_record, spelt)
        if inputs is not None:
            rewired, altered = input_differences(now, *inputs[1:])
        else:
            rewired, altered = compared_nodes(before[name], after[now], spelt)
        out.rewired += rewired
        if altered:
            out.altered[now] = altered
    out.added += [name for name in renamed if name not in taken and name in after]  # new nodes with such an old name
    return out


def inputs_alone(old: Record, new: Record, spelt: Callable[[str], str]) -> tuple[str, list[str], list[str]] | None:
    """Returns the op of the node `new`, the inputs of `old` with the names after, and the inputs of `new`.

    None if not only names and inputs may differ: such nodes are compared in detail.
    """
    was, now = node_of(old), node_of(new)
    if was is None or now is None or COLOCATION_ATTR in was.attr:
        return None
    mine, its = list(map(spelt, was.input[:])), now.input[:]
    was.name = now.name
    was.input[:] = its
    if was != now or (mine != its and None in map(parse_input, {*mine} ^ {*its})):
        return None
    return now.op, mine, its


def node_of(record: Record) -> NodeDef | None:
    """Returns the node of a record as a message; None if it is large or corrupt."""
    if record.end - record.body > LARGE:
        return None
    try:
        return NodeDef.FromString(bytes(record.buffer()[:]) if record.data is None else record.data)
    except decode_error():
        return None


Differences = tuple[list[Rewired], dict[str, tuple[Value, Value]]]
"""The changed inputs of a node, if their number is the same; and the other properties that differ, before and after."""


def input_differences(name: str, was: Sequence[str], now: Sequence[str]) -> Differences:
    """Returns the differences of the inputs of the node `name`, from those before, with the names after, and `now`."""
    rewired: list[Rewired] = []
    altered: dict[str, tuple[Value, Value]] = {}
    if was == now:
        return rewired, altered
    mine, its = (tuple(plain_tensor(text) for text in texts if text[:1] != "^") for texts in (was, now))
    if len(mine) == len(its):
        pairs = enumerate(zip(mine, its, strict=True))
        rewired = [Rewired(name, slot, old, new) for slot, (old, new) in pairs if old != new]
    else:
        altered["inputs"] = mine, its
    waited, waits = (tuple(sorted({text[1:] for text in texts if text[:1] == "^"})) for texts in (was, now))
    if waited != waits:
        altered["controls"] = waited, waits
    return rewired, altered


def compared_nodes(old: Node, new: Node, spelt: Callable[[str], str]) -> Differences:
    """Returns the differences of two nodes; `spelt` returns the names after of names before."""
    found: dict[str, tuple[Value, Value]] = {"op": (old.op, new.op), "device": (old.device, new.device)}
    was, now = (
        [*(name(read.name) for read in node.inputs), *(f"^{name(control.name)}" for control in node.controls)]
        for node, name in ((old, spelt), (new, str))
    )
    rewired, inputs = input_differences(new.name, was, now)
    found |= inputs
    for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
        if key == COLOCATION_ATTR:
            found["colocated"] = _colocations(old, new, spelt)
            found["class"] = _other_classes(old), _other_classes(new)
        elif not is_same_attr(old, new, key):
            found[f"attr {key}"] = _held(old, key, b"before"), _held(new, key, b"after")
    found["other fields"] = _other_fields_of(old), _other_fields_of(new)
    return rewired, {what: values for what, values in found.items() if values[0] != values[1]}


def _colocations(old: Node, new: Node, spelt: Callable[[str], str]) -> tuple[Value, Value]:
    """Returns the colocations, without those with removed or missing nodes."""
    after = graph_of(new)
    kept = {now for other in old.colocated if other.exists and (now := spelt(other.name)) in after}
    return tuple(sorted(kept)), tuple(sorted({other.name for other in new.colocated if other.exists}))


def is_same_attr(old: Node, new: Node, key: str) -> bool:
    """Returns whether both nodes have the attr, with the same value. Large values are read in pieces."""
    if not (old.has_attr(key) and new.has_attr(key)):
        return False
    assert old.record is not None
    assert new.record is not None
    if _is_same_stretch(old.record, new.record, old.header.attrs[key], new.header.attrs[key]):
        return True
    was, now = old.attr_bytes(key), new.attr_bytes(key)
    return _canonical(was) == _canonical(now)


_LONGEST = 1 << 16
"""The maximum size in bytes of a kept value; of a longer value, only the fact of a difference is kept."""


def _held(node: Node, key: str, when: bytes) -> bytes | None:
    """Returns an attr that differs; of a large one its size and `when` it has this value."""
    if node.record is not None and key in node.header.attrs and key not in node.changed_attrs:
        start, end = node.header.attrs[key]
        if end - start > _LONGEST:
            return b"%d bytes, %b" % (end - start, when)
    return _canonical(node.attr_bytes(key))


def _canonical(data: bytes | None) -> bytes | None:
    """Returns a serialized AttrValue with its fields and maps in a fixed order; a corrupt one unchanged."""
    if data is None:
        return None
    try:
        return attr_value(data).SerializeToString(deterministic=True)
    except decode_error():
        return data


def _other_fields_of(node: Node) -> bytes:
    """Returns the fields of a node's record other than its name, op, inputs, device and attrs."""
    record = node.record
    assert record is not None
    return other_fields(record.buffer())


def _other_classes(node: Node) -> Value:
    """Returns the entries of ``_class`` that are not colocations; its bytes if it cannot be decoded."""
    data = node.attr_bytes(COLOCATION_ATTR)
    if data is None:
        return ()
    try:
        entries = attr_value(data).list.s
    except decode_error():
        return data
    return tuple(entry.decode("utf-8", "surrogateescape") for entry in entries if not entry.startswith(COLOCATION))


MOST_SHOWN = 60
"""The number of characters of an attr in a line."""


def rewiring_text(slot: Rewired) -> str:
    """Returns a changed input in words."""
    return f"input {slot.slot} is {quoted(slot.new)}, not {quoted(slot.old)}"


def difference_text(what: str, was: Value, now: Value) -> str:
    """Returns a difference of a node in words; `what` is a property as in `Facts.altered`."""
    if what == "attr value":
        return "its value differs"
    if what == "other fields":
        return "its unknown fields differ"
    if what in ("op", "device"):
        return f"{what} {' -> '.join(printable(str(value)) or 'nothing' for value in (was, now))}"
    if what.startswith("attr "):
        return f"{printable(what[5:])} {_attr_text(was)} -> {_attr_text(now)}"
    kind = {"controls": "control inputs", "colocated": "colocated nodes"}.get(what, what)
    before, after = (named(list(map(str, names or ())), 3, quoted) or "nothing" for names in (was, now))
    return f"{kind}: {after} instead of {before}"


def _attr_text(data: Value) -> str:
    if not isinstance(data, bytes):
        return "absent"
    try:
        value = attr_value(data)
    except decode_error():
        return "corrupt"
    simple = dtype_name(value.type) if value.HasField("type") else plain(value)
    text = simple.decode("utf-8", "replace") if isinstance(simple, bytes) else str(simple)
    return printable(shortened(text if simple is not None else " ".join(str(value).split()), MOST_SHOWN))


# -- functions and other fields --------------------------------------------------------------------------------


def _compare_other_fields(out: Comparison, inside: Mapping[str, Renamed]) -> None:
    """Compares the fields of the two files outside their nodes."""
    before, after = out.before, out.after
    old = {function.signature.name: function for function in before.functions}
    new = {function.signature.name: function for function in after.functions}
    out.facts.functions = FunctionChanges(
        added=[name for name in new if name not in old],
        removed=[name for name in old if name not in new],
        changed=[name for name, function in new.items() if name in old and not _same(old[name], function)],
    )
    for name in out.facts.functions.changed:
        _compare_inside(out, name, inside.get(name, {}))
    found = out.facts.graph_fields
    counts = [
        Counter(
            [f"function {function.signature.name}" for function in graph.functions]
            + [f"gradient of {gradient.function_name}" for gradient in graph.functions.gradients()]
        )
        for graph in (before, after)
    ]
    for what, count in counts[1].items():
        if count > max(1, counts[0][what]):
            found[f"doubled {what}"] = None, str(count)
    fields = [_other_fields(graph) for graph in (before, after)]
    for what in dict.fromkeys((*fields[0], *fields[1])):
        if fields[0].get(what) != fields[1].get(what):
            found[what] = fields[0].get(what), fields[1].get(what)


def _same(a: FunctionDef, b: FunctionDef) -> bool:
    return a == b or a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)


def _other_fields(graph: Graph) -> dict[str, Value]:
    """Returns the fields of a graph other than nodes and functions, by name."""
    out: dict[str, Value] = {f"gradient of {g.function_name}": g.gradient_func for g in graph.functions.gradients()}
    fields: dict[str, bytes] = {}
    for item in graph.store.layout.others:
        if item.number != LIBRARY:
            what = _FIELDS.get(item.number, f"field {item.number}")
            fields[what] = fields.get(what, b"") + graph.source.read(item.value, item.end - item.value)
    return out | {"library": graph.functions.other_fields() or None} | fields


_FIELDS = {VERSIONS: "versions", DEBUG_INFO: "debug info"}


def _compare_inside(out: Comparison, name: str, renamed: Renamed) -> None:
    """Compares the bodies of the function `name`, and its other fields."""
    old, new = out.before.functions[name], out.after.functions[name]
    try:
        bodies = Body(out.before, name).graph, Body(out.after, name).graph
    except EditError:
        out.unread.append(name)
        return
    facts = _node_facts(*bodies, renamed, dict.fromkeys([*bodies[0].names(), *bodies[1].names()]))
    parts = _parts(old, renamed), _parts(new, {})
    for what in parts[0]:
        if parts[0][what] != parts[1][what]:
            facts.graph_fields[what] = parts[0][what], parts[1][what]
    out.inside[name] = Comparison(*bodies, facts)


def _parts(function: FunctionDef, renamed: Renamed) -> dict[str, Value]:
    """Returns the parts of a function that its body as a graph does not contain."""
    rest = FunctionDef()
    rest.CopyFrom(function)
    del rest.node_def[:]
    rest.ret.clear()
    for arg in (*rest.signature.input_arg, *rest.signature.output_arg):
        arg.name = renamed.get(arg.name, arg.name)
    controls = {key: renamed.get(node, node) for key, node in rest.control_ret.items()}
    rest.control_ret.clear()
    signature = rest.signature.SerializeToString(deterministic=True)
    rest.ClearField("signature")
    return {
        "signature": signature,
        "what runs with it": tuple(sorted(f"{key}={node}" for key, node in controls.items())),
        "attrs": rest.SerializeToString(deterministic=True),
    }
