"""set-attr op=NEWOP: changes the op of nodes, which keep the inputs and attrs that fit the new op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from gdsurgeon.analysis.queries.attr_text import is_kind, parse_attr
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import EditError, InputError, Json, NothingToDo, printable, quoted
from gdsurgeon.graph.attrs import Plain, functions_in, kind_of, plain, said_by_inputs
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, same_dtype
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.ops.kinds import CONTROL_FLOW
from gdsurgeon.ops.op_defs import AttrDef, OpDef, arg_dtypes, op_names
from gdsurgeon.text import Entry, counted, is_utf8, listed, nearest, suggestion
from gdsurgeon.wire.protos import AttrValue

Attrs = Mapping[str, AttrValue]
"""AttrValues by key."""


def change_op(graph: Graph, nodes: Sequence[Node], op: str, values: Sequence[tuple[str, str]]) -> EditResult:
    """Gives `nodes` the op `op`, with `values` for its attrs; nodes that have all of that already are not changed.

    See `gdsurgeon.edits.set_attr.set_attr`.

    Raises:
        EditError: there is no such op, nothing would change, or something of a node does not fit the op: the
            number or dtypes of its inputs, a consumer, or an attr that has no value and no default; the graph is as
            it was.
    """
    definition = _definition(graph, op)
    given = _given(graph, definition, values)
    swaps = {node: _Swap(node, definition, given) for node in nodes if node.op != op or _differs(node, given)}
    if not swaps:
        what = ", ".join([f"op={printable(op)}", *(f"{printable(key)}={printable(text)}" for key, text in values)])
        who = quoted(nodes[0].name) if len(nodes) == 1 else f"each of the {len(nodes):,} nodes"
        raise NothingToDo(f"nothing would change: {who} already has {what}")
    for swap in swaps.values():
        _check_readers(swap, swaps)
    ops = Counter(node.op for node in swaps if node.op != op)
    intent = Intent(changed=[node.name for node in swaps])
    for swap in swaps.values():
        swap.carry_out(graph)
    told = [Entry("swapped", f"{old}  ->  {op}: {counted(count, 'node')}") for old, count in ops.items()]
    inferred, dropped = _by_key(swaps, lambda swap: swap.inferred), _by_key(swaps, lambda swap: swap.dropped)
    facts: dict[str, Json] = {"swapped": dict(ops), "inferred": inferred, "dropped": dropped}
    return EditResult(intent, notes=_notes(inferred, dropped, len(swaps), len(nodes)), told=told, facts=facts)


def _definition(graph: Graph, op: str) -> OpDef:
    definition = graph.op_def(op)
    if definition is None:
        near = nearest(op, op_names())
        message = f"{quoted(op)} is not a known op.{suggestion(near)}"
        raise EditError(message, code="no-such-op", facts={"op": op, "near": near})
    return definition


def _given(graph: Graph, definition: OpDef, values: Sequence[tuple[str, str]]) -> dict[str, AttrValue]:
    out: dict[str, AttrValue] = {}
    for key, text in values:
        if key not in definition.attrs:
            near = nearest(key, definition.attrs)
            message = f"{definition.name} has no attr {quoted(key)}.{suggestion(near)}"
            raise EditError(message, code="no-such-attr", facts={"op": definition.name, "attr": key, "near": near})
        if key in out:
            raise EditError(f"attr {quoted(key)} is given more than once", code="given-twice", attr=key)
        out[key] = attr_from_text(graph, definition.name, key, definition.attrs[key].kind, text)
    return out


def _differs(node: Node, given: Attrs) -> bool:
    """Whether one of the attrs that are GIVEN has a different value in NODE."""
    return any(node.attr_bytes(key) != value.SerializeToString(deterministic=True) for key, value in given.items())


class _Swap:
    """What a node becomes.

    Attributes:
        old: the op that it was.
        definition: the signature of the new one.
        inputs, outputs: the DataTypes that it takes and gives then.
        attrs: those that the new op gets, without defaults.
        inferred: the keys of those of them that the inputs say and the node did not have.
        dropped: keys of attrs that the new op does not have.
    """

    def __init__(self, node: Node, definition: OpDef, given: Attrs) -> None:
        if node.op in CONTROL_FLOW or definition.name in CONTROL_FLOW:
            raise _misfit(
                node, definition, "the ops of loops and conditionals cannot be changed separately", "control-flow"
            )
        self.node = node
        self.old = node.op
        self.definition = definition
        sources = [base_dtype(source.dtype) for source in node.inputs]
        said = said_by_inputs(definition, sources)
        self.attrs: dict[str, AttrValue] = {}
        self.inferred: list[str] = []
        for attr in definition.attrs.values():
            value = given.get(attr.name, said.get(attr.name))
            if value is None:
                value = _kept(node, attr)
            elif attr.name not in given and attr.name not in node.attr_keys:
                self.inferred.append(attr.name)
            if value is not None:
                self.attrs[attr.name] = value
            elif not attr.has_default:
                why = f"it requires an attr {quoted(attr.name)} ({attr.kind}), which the node does not have"
                raise _misfit(node, definition, why, "attr-needed", advice="give-attr", facts={"key": attr.name})
        self.inputs = arg_dtypes(definition.inputs, definition, self._read)
        self.outputs = arg_dtypes(definition.outputs, definition, self._read)
        self._check(sources)
        stays = {*definition.attrs, *(key for key in node.attr_keys if key.startswith("_") and key != STATED_SHAPES)}
        self.dropped = [key for key in node.attr_keys if key not in stays and node.op != definition.name]

    def _read(self, key: str) -> Plain | None:
        return plain(self.attrs[key]) if key in self.attrs else None

    def _check(self, sources: Sequence[int]) -> None:
        """Refuses inputs that are too many, too few or of other dtypes, and dtypes that the op does not have."""
        if len(sources) != len(self.inputs):
            why = f"it has {counted(len(self.inputs), 'input')}, but the node has {len(sources):,}"
            facts: dict[str, Json] = {"expected": len(self.inputs), "found": len(sources)}
            raise _misfit(self.node, self.definition, why, "wrong-count", facts=facts)
        for slot, (wanted, source, dtype) in enumerate(zip(self.inputs, self.node.inputs, sources, strict=True)):
            if not same_dtype(wanted, dtype):
                why = (
                    f"it expects {dtype_name(wanted)} as input {slot}, but {quoted(source.name)} is {dtype_name(dtype)}"
                )
                facts = {"tensor": source.name, "expected": dtype_name(wanted), "found": dtype_name(dtype)}
                raise _misfit(self.node, self.definition, why, "dtype-mismatch", facts=facts)
        for attr in self.definition.attrs.values():
            value = self.attrs.get(attr.name) if attr.allowed else None
            for dtype in () if value is None else [value.type] if attr.kind == "type" else value.list.type:
                if dtype not in attr.allowed:
                    allowed = listed(map(dtype_name, attr.allowed), 20)
                    why = f"its {attr.name} cannot be {dtype_name(dtype)}, only one of {allowed}"
                    facts = {"attr": attr.name, "dtype": dtype_name(dtype)}
                    raise _misfit(self.node, self.definition, why, "dtype-not-allowed", facts=facts)

    def carry_out(self, graph: Graph) -> None:
        """Makes the node what it becomes."""
        graph.set_op(self.node, self.definition.name)
        for key in self.dropped:
            graph.set_attr(self.node, key, None)
        for key, value in self.attrs.items():
            data = value.SerializeToString(deterministic=True)
            if self.node.attr_bytes(key) != data:
                graph.set_attr(self.node, key, data)


def _kept(node: Node, attr: AttrDef) -> AttrValue | None:
    """The value that NODE has of an attr, or None; what is corrupt or of another kind is not kept."""
    try:
        value = node.attr(attr.name)
    except InputError:
        return None
    if value is None:
        return None
    kind = kind_of(value)
    return value if kind == attr.kind or (kind == "list()" and attr.kind.startswith("list(")) else None


def _check_readers(swap: _Swap, swaps: Mapping[Node, _Swap]) -> None:
    """Refuses outputs that are missing or of other dtypes where something reads them."""
    node = swap.node
    for user in node.graph.users(node):
        wanted = swaps[user].inputs if user in swaps else user.input_dtypes
        for slot, source in enumerate(user.inputs):
            if source.node is not node:
                continue
            if source.index >= len(swap.outputs):
                why = f"it has {counted(len(swap.outputs), 'output')}, but {quoted(user.name)} uses {source.name}"
                facts: dict[str, Json] = {"tensor": source.name, "user": user.name, "count": len(swap.outputs)}
                raise _misfit(node, swap.definition, why, "no-such-tensor", facts=facts)
            takes = wanted[slot] if wanted is not None and slot < len(wanted) else 0
            gives = swap.outputs[source.index]
            if not same_dtype(takes, gives):
                why = f"it returns {dtype_name(gives)}, but {quoted(user.name)} expects {dtype_name(takes)}"
                facts = {"user": user.name, "expected": dtype_name(takes), "found": dtype_name(gives)}
                raise _misfit(node, swap.definition, why, "dtype-mismatch", facts=facts)


def _misfit(
    node: Node, definition: OpDef, why: str, code: str, *, advice: str = "", facts: Mapping[str, Json] | None = None
) -> EditError:
    who = f"{quoted(node.name)} ({printable(node.op)}) cannot become {printable(definition.name)}"
    facts = {"node": node.name, "op": node.op, "new_op": definition.name, **(facts or {})}
    return EditError(f"{who}: {why}", code=code, advice=advice or (), facts=facts)


def _by_key(swaps: Mapping[Node, _Swap], keys: Callable[[_Swap], Iterable[str]]) -> dict[str, list[str]]:
    """The nodes of SWAPS by the attrs that KEYS returns of them."""
    out: dict[str, list[str]] = {}
    for node, swap in swaps.items():
        for key in keys(swap):
            out.setdefault(key, []).append(node.name)
    return out


def _notes(
    inferred: Mapping[str, Sequence[str]], dropped: Mapping[str, Sequence[str]], swapped: int, selected: int
) -> list[str]:
    """What became of attrs, and which nodes stay."""
    lines = [(key, "follows from the inputs", who) for key, who in inferred.items()]
    for key, who in dropped.items():
        stale = "describes the old op" if key == STATED_SHAPES else "does not belong to the new op"
        lines.append((key, f"{stale} and is removed", who))
    out = [
        f"attr {quoted(key)} {what}: {quoted(who[0]) if len(who) == 1 else counted(len(who), 'node')}"
        for key, what, who in lines
    ]
    if swapped < selected:
        out.append(f"{selected - swapped:,} of the {selected:,} nodes are unchanged")
    return out


def attr_from_text(graph: Graph, op: str, key: str, kind: str, text: str) -> AttrValue:
    """Returns the AttrValue of `kind` for attr `key` of `op`, parsed from `text`.

    Raises:
        EditError: the text is not a value of that kind, or names a function that the graph does not have.
    """
    where = f"attr {quoted(key)} of {printable(op)}"
    facts: dict[str, Json] = {"op": op, "attr": key, "expected": kind}
    if not is_kind(kind):
        is_content = (op, key) == ("Const", "value")
        advice = "freeze-input" if is_content else ()
        raise EditError(
            f"{where} has kind {kind}, which cannot be written as text", code="not-text", facts=facts, advice=advice
        )
    if not is_utf8(text) and "func" in kind:
        line = f"{where} has kind {kind}: {quoted(text)} is not UTF-8 text"
        raise EditError(line, code="bad-value", facts=facts | {"value": text})
    try:
        value = parse_attr(kind, text)
    except EditError as error:
        line = f"{where} has kind {kind}: {error.message}"
        raise EditError(line, code=error.code, facts=error.facts | facts) from None
    for func in functions_in(value):
        if func.name not in graph.functions:
            names = [function.signature.name for function in graph.functions]
            has = f"{printable(graph.source_name)} has no function {quoted(func.name)} ({len(names):,})"
            near = nearest(func.name, names)
            found = {"function": func.name, "near": near}
            raise EditError(f"{has}.{suggestion(near)}", code="no-such-function", facts=facts | found)
    return value
