"""set-attr: attrs of nodes, written as text and checked against the signature of the op; `change_op` does ``op=``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.checks.attr_fit import misfits
from gdsurgeon.analysis.queries.attr_text import KINDS, format_attr, is_kind
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.change_op import attr_from_text, change_op
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.naming import naming, of_selection
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
from gdsurgeon.graph.attrs import kind_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.attr_names import COLOCATION_ATTR
from gdsurgeon.ops.op_defs import OpDef
from gdsurgeon.select import Nodes, Selection, nodes_of
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import first_lines, nearest, spelt_value, suggestion
from gdsurgeon.wire.protos import AttrValue

OP = "op"
"""The key that stands for the op of a node. ``op:KIND`` is an attr of that name."""
MOST_DETAILS = 10

Changes = dict[Node, dict[str, AttrValue | None]]
"""For each node the AttrValues that it gets, by key; None takes the attr away."""


@public
@naming(nodes=of_selection)
@edit
def set_attr(
    graph: Graph,
    nodes: Nodes,
    values: Pairs[str, object] = (),
    *,
    remove: Sequence[str] = (),
) -> EditResult:
    """Sets and removes attrs of nodes; the key ``op`` changes the op of the nodes.

    A value is text of the kind that the signature of the node's op says (see `attr_text.parse_attr`). Of an attr that
    the op does not have, the kind is that of the value that is there, or is given: ``KEY:KIND``. `in_functions` reaches
    nodes inside functions.

    With the key ``op`` the nodes keep their names, their inputs and the attrs that the new op also has. The other
    values are attrs of the new op. Its remaining attrs are inferred from the inputs or have the op's defaults; attrs
    that it does not have are removed, except those whose names begin with an underscore.

    Args:
        graph: changed in place.
        nodes: which nodes: a selection, or names or nodes of this graph.
        values: (KEY or KEY:KIND, a text, number, bool or list); ``("op", OP)`` for an op that TensorFlow knows, or a
            function of GRAPH.
        remove: keys of attrs to take away, from those of the nodes that have them. Removing ``_class`` takes the
            colocations of the nodes away.

    Raises:
        UsageError: an op and an attr to remove are given.
        EditError: no such node, op or attr, a value of the wrong kind, a function that is not in the library, a
            required attr would be missing, nothing would change, or an input would no longer fit what it reads; the
            graph is as it was.
    """
    pairs = [(key, _text(key, value)) for key, value in pairs_of(values)]
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
        return change_op(graph, nodes_of(graph, nodes), op[0], [pair for pair in pairs if pair[0] != OP])
    wanted = _wanted(pairs, remove)
    targets = _nodes(graph, nodes)
    plan = _NewAttrs(graph, wanted, remove)
    changes = plan.changes(targets)
    if not changes:
        raise NothingToDo(_nothing_changed(targets, wanted))
    _check_fit(changes)
    notes = _notes(changes, len(targets))
    for node, attrs in changes.items():
        for key, value in attrs.items():
            if key == COLOCATION_ATTR:
                graph.set_colocated(node, ())
            data = None if value is None else value.SerializeToString(deterministic=True)
            graph.set_attr(node, key, data)
    intent = Intent(changed=[node.name for node in changes])
    return EditResult(intent, warnings=list(plan.warnings), notes=notes)


def _text(key: str, value: object) -> str:
    """VALUE for the attr KEY as text. Raises ArgumentError."""
    try:
        return spelt_value(value)
    except TypeError:
        raise ArgumentError("set_attr", f"values[{key!r}]", "a text, number, bool or list", found=value) from None


class _WantedAttr(NamedTuple):
    """An attr to set. `kind` is '' where the user has not given one."""

    key: str
    kind: str
    text: str


def _wanted(values: Iterable[tuple[str, str]], remove: Sequence[str]) -> list[_WantedAttr]:
    out: list[_WantedAttr] = []
    for name, text in values:
        key, _, kind = name.partition(":")
        if not key or key.encode(errors="ignore").decode() != key:
            raise EditError(f"{quoted(name)} is not a valid attr name", code="bad-name", name=name)
        if kind and not is_kind(kind):
            raise EditError(f"{quoted(kind)} is not a kind of attr", code="no-such-kind", value=kind, hint=_KINDS)
        if key == COLOCATION_ATTR:
            raise EditError(
                f"{quoted(COLOCATION_ATTR)} cannot be set: colocations are updated when nodes are renamed",
                code="not-text",
                advice="remove-attr",
                key=COLOCATION_ATTR,
            )
        out.append(_WantedAttr(key, kind, text))
    counts = Counter([wanted.key for wanted in out] + list(remove))
    for key, count in counts.items():
        if count > 1:
            raise EditError(f"attr {quoted(key)} is given more than once", code="given-twice", attr=key)
    if not counts:
        raise EditError("nothing would change: no attr is given", code="missing-argument")
    return out


_KINDS = f"the kinds are {', '.join(KINDS)}, and list(...) of each"


def _nodes(graph: Graph, nodes: Nodes) -> list[Node]:
    """The nodes that are meant, each once."""
    if isinstance(nodes, Selection) and nodes == Selection(nodes=nodes.nodes):
        nodes = nodes.nodes  # for which no file need be indexed
    return nodes_of(graph, nodes)


class _NewAttrs:
    """Works out what each node gets."""

    def __init__(self, graph: Graph, wanted: Sequence[_WantedAttr], remove: Sequence[str]) -> None:
        self._graph = graph
        self._wanted = wanted
        self._remove = remove
        self._parsed: dict[tuple[str, str, str], AttrValue] = {}  # by op, key and kind
        self.warnings: dict[str, None] = {}

    def changes(self, nodes: Sequence[Node]) -> Changes:
        out: Changes = {}
        for node in nodes:
            attrs: dict[str, AttrValue | None] = {}
            for wanted in self._wanted:
                value = self._value(node, wanted)
                if value != _present(node, wanted.key):
                    attrs[wanted.key] = value
            for key in self._remove:
                if key in node.attr_keys:
                    _check_removable(node, key)
                    attrs[key] = None
            if attrs:
                out[node] = attrs
        for key in self._remove:
            if not any(key in attrs for attrs in out.values()):
                refusal = EditError if out else NothingToDo
                keys = sorted({name for node in nodes[:1000] for name in node.attr_keys})
                near = nearest(key, keys)
                who = f"node {quoted(nodes[0].name)}" if len(nodes) == 1 else f"none of the {len(nodes):,} nodes"
                raise refusal(
                    f"{who} has {'no' if len(nodes) == 1 else 'an'} attr {quoted(key)}.{suggestion(near)}",
                    code="no-such-attr",
                    facts={"attr": key, "near": near, "count": len(nodes)},
                )
        return out

    def _value(self, node: Node, wanted: _WantedAttr) -> AttrValue:
        definition = node.op_def
        kind = _kind(node, definition, wanted)
        place = (node.op, wanted.key, kind)
        if place not in self._parsed:
            if definition is not None and wanted.key not in definition.attrs and not wanted.key.startswith("_"):
                text = f"{printable(node.op)} has no attr {quoted(wanted.key)}"
                self.warnings[Remark(text, "no-such-attr", op=node.op, attr=wanted.key)] = None
            self._parsed[place] = attr_from_text(self._graph, node.op, wanted.key, kind, wanted.text)
        return _with_func_attrs(self._parsed[place], node, wanted.key)


def _kind(node: Node, definition: OpDef | None, wanted: _WantedAttr) -> str:
    """The kind that the attr must have. Raises EditError where it is not known, or not what the user says."""
    op = printable(node.op)
    if definition is not None and wanted.key in definition.attrs:
        kind = definition.attrs[wanted.key].kind
        if wanted.kind not in ("", kind):
            raise EditError(
                f"attr {quoted(wanted.key)} of {op} has kind {kind}, not {wanted.kind}",
                code="wrong-kind",
                facts={"op": node.op, "attr": wanted.key, "expected": kind, "found": wanted.kind},
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
    """The value that is there, or None; what is corrupt counts as absent, for it may be what is to be put right."""
    try:
        return node.attr(key)
    except InputError:
        return None


def _with_func_attrs(value: AttrValue, node: Node, key: str) -> AttrValue:
    """VALUE, if it is one function with the attrs that the function there before is called with."""
    present = _present(node, key) if value.WhichOneof("value") == "func" else None
    if present is None or present.WhichOneof("value") != "func" or not present.func.attr:
        return value
    present.func.name = value.func.name
    return present


def _check_removable(node: Node, key: str) -> None:
    definition = node.op_def
    if definition is not None and key in definition.attrs and not definition.attrs[key].has_default:
        raise EditError(
            f"{printable(node.op)} (node {quoted(node.name)}) requires its attr {quoted(key)}",
            code="attr-needed",
            facts={"node": node.name, "op": node.op, "attr": key},
        )


def _nothing_changed(nodes: Sequence[Node], wanted: Sequence[_WantedAttr]) -> str:
    what = ", ".join(f"{printable(w.key)}={printable(w.text)}" for w in wanted)
    who = quoted(nodes[0].name) if len(nodes) == 1 else f"each of the {len(nodes):,} nodes"
    return f"nothing would change: {who} already has {what}"


def _notes(changes: Changes, selected: int) -> list[str]:
    """What has changed, nodes that get the same in one line."""
    names: dict[tuple[str, str | None], list[str]] = {}
    before: dict[tuple[str, str | None], dict[str, None]] = {}
    for node, attrs in changes.items():
        for key, value in attrs.items():
            what = key, None if value is None else format_attr(value)
            present = _present(node, key)
            names.setdefault(what, []).append(node.name)
            before.setdefault(what, {})["nothing" if present is None else format_attr(present)] = None
    out: list[str] = []
    for (key, new), who in names.items():
        old = list(before[key, new])
        was = old[0] if len(old) == 1 else f"{len(old):,} different values"
        was = "" if was == "nothing" else f" (was {was})"
        where = quoted(who[0]) if len(who) == 1 else f"{len(who):,} nodes"
        text = f"{key} removed" if new is None else f"{key} = {new}"
        out.append(Remark(f"{text}{was}: {where}", "attr-set", attr=key, value=new, old=old, nodes=who))
    if kept := selected - len(changes):
        out.append(Remark(f"{kept:,} of the {selected:,} nodes are unchanged", "unchanged", count=kept))
    return out


def _check_fit(changes: Changes) -> None:
    """Refuses changes after which an input would not fit what it reads."""
    found = misfits(changes)
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
