"""set-attr: sets and removes attrs of nodes, or changes their op. The signature of the op says what values mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

from gdsurgeon.analysis.checks.check import input_faults
from gdsurgeon.analysis.queries.attr_text import KINDS, format_attr, is_kind, parse_attr
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.decorator import edit, of_selection
from gdsurgeon.errors import (
    ArgumentError,
    EditError,
    InputError,
    Json,
    NothingToDo,
    Remark,
    UsageError,
    printable,
    quoted,
)
from gdsurgeon.graph.attrs import functions_in, kind_of, said_by_inputs
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.names import node_of
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.ops.kinds import COLOCATION_ATTR, CONTROL_FLOW, STATED_SHAPES
from gdsurgeon.ops.op_defs import OpDef, op_names
from gdsurgeon.select import Nodes, Selection, nodes_of
from gdsurgeon.text import Entry, counted, first_lines, is_utf8, listed, nearest, spelt_value, suggestion
from gdsurgeon.wire.protos import AttrValue

OP = "op"
"""The key for the op of a node. ``op:KIND`` is an attr with this name."""
MOST_DETAILS = 10
_KINDS = f"the kinds are {', '.join(KINDS)}, and list(...) of each"

Changes = dict[Node, dict[str, AttrValue | None]]
"""The new AttrValues of each node, by key; None removes the attr."""


@edit(nodes=of_selection)
def set_attr(
    graph: Graph,
    nodes: Nodes,
    values: Pairs[str, object] = (),
    *,
    remove: Sequence[str] = (),
) -> EditResult:
    """Sets and removes attrs of nodes; the key ``op`` changes the op of the nodes.

    A value is text, whose kind follows from the signature of the op (see `attr_text.parse_attr`). For other attrs the
    kind is that of the present value, or is given as ``KEY:KIND``. `in_functions` changes nodes inside functions.

    With the key ``op`` the nodes keep their names, their inputs and the attrs that the new op also has. The other
    values are attrs of the new op. Its remaining attrs are inferred from the inputs or have the op's defaults; attrs
    that it does not have are removed, except those whose names begin with an underscore.

    Args:
        graph: changed in place.
        nodes: a selection, or names or nodes of the graph.
        values: (KEY or KEY:KIND, a text, number, bool or list); ``("op", OP)`` for an op that TensorFlow knows, or a
            function of the graph.
        remove: keys of attrs to remove from the nodes that have them. Removing ``_class`` removes the colocations of
            the nodes.

    Raises:
        UsageError: `values` contains an op, and `remove` is not empty.
        EditError: no such node, op or attr, a value of the wrong kind, a function that is not in the library, a
            required attr would be missing, nothing would change, or an input would not match its consumer any more. The
            graph is unchanged.
    """
    pairs: list[tuple[str, str]] = []
    for key, value in pairs_of(values):
        try:
            pairs.append((key, spelt_value(value)))
        except TypeError:
            expected = "a text, number, bool or list"
            raise ArgumentError("set_attr", f"values[{key!r}]", expected, found=value) from None
    op = [text for key, text in pairs if key == OP]
    if op:
        if remove:
            raise UsageError(
                "op= already removes the attrs that the new op does not have: do not give attrs to remove",
                code="conflicting-options",
                attr=list(remove),
            )
        if len(op) > 1:
            raise EditError("two new ops are given", code="given-twice", attr=OP)
        return _change_op(graph, nodes_of(graph, nodes), op[0], [pair for pair in pairs if pair[0] != OP])
    wanted = _new_attrs(pairs, remove)
    if isinstance(nodes, Selection) and nodes == Selection(nodes=nodes.nodes):
        nodes = nodes.nodes  # names do not require an index of the file
    targets = nodes_of(graph, nodes)
    result = EditResult()
    changes = _changes(graph, targets, wanted, remove, result)
    if not changes:
        raise NothingToDo(_nothing_changed(targets, [(attr.key, attr.text) for attr in wanted]))
    _add_notes(result, changes, len(targets))
    _apply(graph, changes)
    result.intent.changed = [node.name for node in changes]
    return result


def _nothing_changed(nodes: Sequence[Node], values: Sequence[tuple[str, str]]) -> str:
    what = ", ".join(f"{printable(key)}={printable(text)}" for key, text in values)
    who = quoted(nodes[0].name) if len(nodes) == 1 else f"each of the {len(nodes):,} nodes"
    return f"nothing would change: {who} already has {what}"


def _from_text(graph: Graph, op: str, key: str, kind: str, text: str) -> AttrValue:
    """Returns the AttrValue of `kind` for the attr `key` of `op`.

    Raises:
        EditError: the text is not a value of this kind, or names a function that the graph does not have.
    """
    where = f"attr {quoted(key)} of {printable(op)}"
    facts: dict[str, Json] = {"op": op, "attr": key, "expected": kind}
    if not is_kind(kind):
        advice = "freeze-input" if (op, key) == ("Const", "value") else ()
        line = f"{where} has kind {kind}, which cannot be written as text"
        raise EditError(line, code="not-text", facts=facts, advice=advice)
    if not is_utf8(text) and "func" in kind:
        line = f"{where} has kind {kind}: {quoted(text)} is not UTF-8 text"
        raise EditError(line, code="bad-value", facts=facts, value=text)
    try:
        value = parse_attr(kind, text)
    except EditError as error:
        line = f"{where} has kind {kind}: {error.message}"
        raise EditError(line, code=error.code, facts=error.facts | facts) from None
    for func in functions_in(value):
        if func.name not in graph.functions:
            names = [function.signature.name for function in graph.functions]
            near = nearest(func.name, names)
            line = f"{printable(graph.source_name)} has no function {quoted(func.name)} ({len(names):,})"
            found = {"function": func.name, "near": near}
            raise EditError(f"{line}.{suggestion(near)}", code="no-such-function", facts=facts | found)
    return value


# -- attrs -------------------------------------------------------------------------------------------------


class _NewAttr(NamedTuple):
    """An attr to set. `kind` is '' if the user has not given it."""

    key: str
    kind: str
    text: str


def _new_attrs(values: Sequence[tuple[str, str]], remove: Sequence[str]) -> list[_NewAttr]:
    out: list[_NewAttr] = []
    for name, text in values:
        key, _, kind = name.partition(":")
        if not key or key.encode(errors="ignore").decode() != key:
            raise EditError(f"{quoted(name)} is not a valid attr name", code="bad-name", name=name)
        if kind and not is_kind(kind):
            raise EditError(f"{quoted(kind)} is not a kind of attr", code="no-such-kind", value=kind, hint=_KINDS)
        if key == COLOCATION_ATTR:
            line = f"{quoted(COLOCATION_ATTR)} cannot be set: colocations are updated when nodes are renamed"
            raise EditError(line, code="not-text", advice="remove-attr", key=COLOCATION_ATTR)
        out.append(_NewAttr(key, kind, text))
    counts = Counter([attr.key for attr in out] + list(remove))
    for key, count in counts.items():
        if count > 1:
            raise EditError(f"attr {quoted(key)} is given more than once", code="given-twice", attr=key)
    if not counts:
        raise EditError("nothing would change: no attr is given", code="missing-argument")
    return out


def _changes(
    graph: Graph, nodes: Sequence[Node], wanted: Sequence[_NewAttr], remove: Sequence[str], result: EditResult
) -> Changes:
    """Returns the changes of the nodes; `result` gets warnings."""
    out: Changes = {}
    parsed: dict[tuple[str, str, str], AttrValue] = {}  # by op, key and kind
    for node in nodes:
        attrs: dict[str, AttrValue | None] = {}
        definition = node.op_def
        for attr in wanted:
            kind = _kind(node, definition, attr)
            place = (node.op, attr.key, kind)
            if place not in parsed:
                is_odd = definition is not None and attr.key not in definition.attrs and not attr.key.startswith("_")
                if is_odd and not any(place[:2] == other[:2] for other in parsed):
                    text = f"{printable(node.op)} has no attr {quoted(attr.key)}"
                    result.warn(text, "no-such-attr", op=node.op, attr=attr.key)
                parsed[place] = _from_text(graph, node.op, attr.key, kind, attr.text)
            value, present = parsed[place], _present(node, attr.key)
            is_func = present is not None and value.WhichOneof("value") == present.WhichOneof("value") == "func"
            if present is not None and is_func and present.func.attr:  # a function keeps the attrs of the call
                value = deepcopy(present)
                value.func.name = parsed[place].func.name
            if value != present:
                attrs[attr.key] = value
        for key in remove:
            if key in node.attr_keys:
                if definition is not None and key in definition.attrs and not definition.attrs[key].has_default:
                    raise EditError(
                        f"{printable(node.op)} (node {quoted(node.name)}) requires its attr {quoted(key)}",
                        code="attr-needed",
                        node=node.name,
                        op=node.op,
                        attr=key,
                    )
                attrs[key] = None
        if attrs:
            out[node] = attrs
    for key in remove:
        if not any(key in attrs for attrs in out.values()):
            near = nearest(key, sorted({name for node in nodes[:1000] for name in node.attr_keys}))
            is_one = len(nodes) == 1
            who = f"node {quoted(nodes[0].name)} has no" if is_one else f"none of the {len(nodes):,} nodes has an"
            raise (EditError if out else NothingToDo)(
                f"{who} attr {quoted(key)}.{suggestion(near)}",
                code="no-such-attr",
                attr=key,
                near=near,
                count=len(nodes),
            )
    return out


def _kind(node: Node, definition: OpDef | None, wanted: _NewAttr) -> str:
    """Returns the kind of the attr. Raises EditError if it is unknown, or differs from the given kind."""
    op = printable(node.op)
    if definition is not None and wanted.key in definition.attrs:
        kind = definition.attrs[wanted.key].kind
        if wanted.kind not in ("", kind):
            raise EditError(
                f"attr {quoted(wanted.key)} of {op} has kind {kind}, not {wanted.kind}",
                code="wrong-kind",
                op=node.op,
                attr=wanted.key,
                expected=kind,
                found=wanted.kind,
            )
        return kind
    if wanted.kind:
        return wanted.kind
    present = _present(node, wanted.key)
    kind = "" if present is None else kind_of(present)
    if kind and kind != "list()":
        return kind
    spelling = f"write {printable(wanted.key)}:KIND=VALUE to give its kind; {_KINDS}"
    facts: dict[str, Json] = {"node": node.name, "op": node.op, "attr": wanted.key}
    if definition is None or wanted.key.startswith("_"):
        line = f"the kind of attr {quoted(wanted.key)} of {op} is unknown"
        raise EditError(line, code="unknown-kind", facts=facts, hint=spelling)
    near = nearest(wanted.key, definition.attrs)
    line = f"{op} (node {quoted(node.name)}) has no attr {quoted(wanted.key)}.{suggestion(near)}"
    raise EditError(line, code="no-such-attr", facts=facts | {"near": near}, hint=spelling)


def _present(node: Node, key: str) -> AttrValue | None:
    """Returns the present value; None if it is absent or corrupt, because the edit may repair a corrupt value."""
    try:
        return node.attr(key)
    except InputError:
        return None


def _add_notes(result: EditResult, changes: Changes, selected: int) -> None:
    """Adds a note for each new value of an attr."""
    found: dict[tuple[str, str | None], list[tuple[str, str]]] = {}  # the nodes and their present values
    for node, attrs in changes.items():
        for key, value in attrs.items():
            present = _present(node, key)
            old = "nothing" if present is None else format_attr(present)
            new = None if value is None else format_attr(value)
            found.setdefault((key, new), []).append((node.name, old))
    for (key, new), pairs in found.items():
        who, old_values = [name for name, _ in pairs], [*dict.fromkeys(old for _, old in pairs)]
        was = old_values[0] if len(old_values) == 1 else f"{len(old_values):,} different values"
        was = "" if was == "nothing" else f" (was {was})"
        where = quoted(who[0]) if len(who) == 1 else f"{len(who):,} nodes"
        text = f"{key} removed" if new is None else f"{key} = {new}"
        result.note(f"{text}{was}: {where}", "attr-set", attr=key, value=new, old=old_values, nodes=who)
    if kept := selected - len(changes):
        result.note(f"{kept:,} of the {selected:,} nodes are unchanged", "unchanged", count=kept)


def _apply(graph: Graph, changes: Changes) -> None:
    """Sets attrs. Raises EditError if an input does not match its consumer any more."""
    found = [fault for node, attrs in changes.items() for fault in _misfits(node, attrs)]
    wrong = {fault.facts["node"] for fault in found}
    typed: list[Node] = []  # the nodes whose inputs or outputs change their number or dtypes
    for node, attrs in changes.items():
        definition = node.op_def
        args = (*definition.inputs, *definition.outputs) if definition is not None else ()
        if any(attr in attrs for arg in args for attr in (arg.type_attr, arg.number_attr, arg.list_attr)):
            typed.append(node)

    def change() -> None:
        for node, attrs in changes.items():
            for key, new in attrs.items():
                if key == COLOCATION_ATTR:
                    graph.set_colocated(node, ())
                graph.set_attr(node, key, new)

    found += [fault for fault in _new_faults(typed, change) if fault.facts["node"] not in wrong]
    if not found:
        return
    hint = "select all nodes that must change together"
    if len(found) == 1:
        raise EditError(found[0], code=found[0].code, facts=found[0].facts, hint=hint)
    raise EditError(
        f"{len(found):,} edges of the graph would not fit any more:",
        code="does-not-fit",
        misfits=[each.as_json() for each in found],
        hint=hint,
        details=first_lines(found, MOST_DETAILS),
    )


def _new_faults(nodes: Iterable[Node], change: Callable[[], None]) -> list[Remark]:
    """Calls `change`, which changes `nodes`. Returns the faults of inputs of `nodes` and their users that it causes."""

    def faults(node: Node) -> list[Remark]:
        try:
            return input_faults(node)
        except InputError:  # an attr is corrupt
            return []

    affected = dict.fromkeys(nodes)
    affected |= dict.fromkeys(user for node in list(affected) for user in graph_of(node).users(node))
    before = {fault for node in affected for fault in faults(node)}
    change()
    return [fault for node in affected for fault in faults(node) if fault not in before]


def _misfits(node: Node, attrs: Mapping[str, AttrValue | None]) -> Iterator[Remark]:
    """Yields negative numbers of tensors, and a dtype that the tensor of a constant does not have."""
    definition, header = node.op_def, constant_header(node) if node.op == "Const" else None
    for arg in (*definition.inputs, *definition.outputs) if definition is not None else ():
        value = attrs.get(arg.number_attr)
        if value is not None and value.i < 0:
            text = (
                f"attr {quoted(arg.number_attr)} of {quoted(node.name)} is a number of tensors and cannot be {value.i}"
            )
            yield Remark(text, "bad-value", node=node.name, attr=arg.number_attr, value=value.i)
    dtype = attrs.get("dtype")
    if header is not None and dtype is not None and header.dtype != dtype.type:
        expected, found = dtype_name(dtype.type), dtype_name(header.dtype)
        text = f"the tensor of {quoted(node.name)} is {found}, and the edit would not convert it to {expected}"
        yield Remark(text, "dtype-mismatch", node=node.name, expected=expected, found=found)


# -- ops ---------------------------------------------------------------------------------------------------


def _change_op(graph: Graph, nodes: Sequence[Node], op: str, values: Sequence[tuple[str, str]]) -> EditResult:
    """Changes the op of nodes, with `values` for its attrs; see `set_attr`."""
    definition = graph.op_def(op)
    if definition is None:
        near = nearest(op, op_names())
        message = f"{quoted(op)} is not a known op.{suggestion(near)}"
        raise EditError(message, code="no-such-op", op=op, near=near)
    given: dict[str, AttrValue] = {}
    for key, text in values:
        if key not in definition.attrs:
            near = nearest(key, definition.attrs)
            message = f"{definition.name} has no attr {quoted(key)}.{suggestion(near)}"
            raise EditError(message, code="no-such-attr", op=op, attr=key, near=near)
        if key in given:
            raise EditError(f"attr {quoted(key)} is given more than once", code="given-twice", attr=key)
        given[key] = _from_text(graph, op, key, definition.attrs[key].kind, text)
    old_ops = {
        node: node.op
        for node in nodes
        if node.op != op or any(_present(node, key) != value for key, value in given.items())
    }
    if not old_ops:
        raise NothingToDo(_nothing_changed(nodes, [(OP, op), *values]))
    changes: Changes = {}
    inferred: dict[str, list[str]] = {}
    dropped: dict[str, list[str]] = {}
    for node, old in old_ops.items():
        new: dict[str, AttrValue | None] = {**_attrs_for(node, definition, given)}
        for key in new:
            if key not in given and key not in node.attr_keys:
                inferred.setdefault(key, []).append(node.name)
        for key in node.attr_keys if old != op else ():
            if key not in definition.attrs and (key == STATED_SHAPES or not key.startswith("_")):
                dropped.setdefault(key, []).append(node.name)
                new[key] = None
        changes[node] = {key: value for key, value in new.items() if _present(node, key) != value or value is None}

    def change() -> None:
        for node, attrs in changes.items():
            graph.replace_op(node, op, attrs=attrs)

    names = {node.name: node for node in changes}
    for fault in _new_faults(changes, change):
        user = str(fault.facts["node"])
        node = names.get(user) or graph[node_of(str(fault.facts["tensor"]))]
        facts = {**fault.facts, **({} if user in names else {"user": user})}
        raise _refusal(node.name, old_ops[node], op, fault, fault.code, facts)
    ops = Counter(old for old in old_ops.values() if old != op)
    lines = [(key, "follows from the inputs", who) for key, who in inferred.items()]
    for key, who in dropped.items():
        stale = "describes the old op" if key == STATED_SHAPES else "does not belong to the new op"
        lines.append((key, f"{stale} and is removed", who))
    notes = [
        f"attr {quoted(key)} {what}: {quoted(who[0]) if len(who) == 1 else counted(len(who), 'node')}"
        for key, what, who in lines
    ]
    if len(changes) < len(nodes):
        notes.append(f"{len(nodes) - len(changes):,} of the {len(nodes):,} nodes are unchanged")
    told = [Entry("swapped", f"{old}  ->  {op}: {counted(count, 'node')}") for old, count in ops.items()]
    report: dict[str, Json] = {"swapped": dict(ops), "inferred": inferred, "dropped": dropped}
    return EditResult(Intent(changed=[*names]), notes=notes, told=told, facts=report)


def _refusal(
    node: str, old: str, op: str, why: str, code: str, facts: Mapping[str, Json], advice: str = ""
) -> EditError:
    """Returns the error that the node `node` with the op `old` cannot have the op `op`."""
    line = f"{quoted(node)} ({printable(old)}) cannot become {printable(op)}: {why}"
    return EditError(line, code=code, advice=advice or (), facts={**facts, "node": node, "op": old, "new_op": op})


def _attrs_for(node: Node, definition: OpDef, given: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    """Returns the attrs of `node` with a new op: given, inferred from the inputs, or present.

    Raises:
        EditError: a required attr is missing, the op does not support a dtype, or one of the ops is control flow.
    """

    def refusal(why: str, code: str, *, advice: str = "", **facts: Json) -> EditError:
        return _refusal(node.name, node.op, definition.name, why, code, facts, advice)

    if node.op in CONTROL_FLOW or definition.name in CONTROL_FLOW:
        raise refusal("the ops of loops and conditionals cannot be changed separately", "control-flow")
    read = said_by_inputs(definition, [base_dtype(source.dtype) for source in node.inputs])
    out: dict[str, AttrValue] = {}
    for attr in definition.attrs.values():
        value = given.get(attr.name, read.get(attr.name))
        if value is None and (present := _present(node, attr.name)) is not None:
            kind = kind_of(present)  # a value of a different kind is not kept
            value = present if kind == attr.kind or (kind == "list()" and attr.kind.startswith("list(")) else None
        if value is None:
            if not attr.has_default:
                why = f"it requires an attr {quoted(attr.name)} ({attr.kind}), which the node does not have"
                raise refusal(why, "attr-needed", advice="give-attr", key=attr.name)
            continue
        out[attr.name] = value
        for dtype in () if not attr.allowed else [value.type] if attr.kind == "type" else value.list.type:
            if dtype not in attr.allowed:
                allowed = listed(map(dtype_name, attr.allowed), 20)
                why = f"its {attr.name} cannot be {dtype_name(dtype)}, only one of {allowed}"
                raise refusal(why, "dtype-not-allowed", attr=attr.name, dtype=dtype_name(dtype))
    return out
