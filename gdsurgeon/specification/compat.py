"""compat: each node is valid for the release; nodes that were valid are unchanged, others are older forms.

The edit records the replacement of each node (`gdsurgeon.patterns.terms.Replaced`). This checker instantiates the
replacements on the original graph, and compares the result with the written graph. The table of releases is shared with
the edit; the check of a node against it is a second implementation.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, FunctionChanges, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import attr_value, kind_of, plain
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import DTYPES, VARIANT
from gdsurgeon.ops.kinds import CALLS, CASES, COLOCATION_ATTR, IFS, WHILES
from gdsurgeon.ops.op_defs import AttrDef, arg_count
from gdsurgeon.ops.releases import Release, release, releases
from gdsurgeon.patterns.attrs import default_of, same_value
from gdsurgeon.patterns.terms import Op, Replaced, Rule, Term, constant_node
from gdsurgeon.specification.nodes import branches_of, calling_nodes, used_functions
from gdsurgeon.specification.rewrite import (
    NotAMatch,
    Replay,
    VerifiedMatch,
    declare,
    reader,
    value_of,
)
from gdsurgeon.wire.protos import AttrValue

NO_EFFECT = {"VarHandleOp": {"debug_name"}}
"""Attrs without effect on values, by op."""
NO_EFFECT_ON_CALLS = frozenset(("output_shapes", "parallel_iterations", "config", "config_proto", "executor_type"))
ANY_NODE = Rule("older form", (Op((), "n", (), "", "", None, False, False, 0, 1),), None, "n=*", "")
"""The rule of all replacements, in which ``n`` is the node."""
UNREAD = frozenset(("tensor", "func", "list(func)"))
"""Kinds of attrs that a release does not restrict."""


def compat(
    comparison: Comparison,
    target: str,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    replaced: Mapping[str, Sequence[Replaced]] | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; `replaced` has the records of each function, '' the graph's."""
    del rtol, atol  # of the proof
    wanted = release(target)
    assert wanted is not None
    before, after, records = comparison.before, comparison.after, replaced or {}
    yield from _unfit(after, wanted)
    yield from _versions(before, after, wanted)
    intent = Intent(functions=FunctionChanges(changed=[*comparison.inside]))
    if "versions" in comparison.facts.graph_fields:
        intent.graph_fields["versions"] = comparison.facts.graph_fields["versions"][1]
    yield from _differing(comparison, wanted, records.get("", ()), intent)
    for name, inside in comparison.inside.items():
        found = _differing(inside, wanted, records.get(name, ()), Intent())
        yield from (f"in the function {quoted(name)} {line}" for line in found)


def _versions(before: Graph, after: Graph, wanted: Release) -> Iterator[str]:
    was, now, most = before.store.versions, after.store.versions, wanted.version
    if (now.producer, now.min_consumer) != (min(was.producer, most), min(was.min_consumer, most)):
        yield f"the versions are {now.producer} and {now.min_consumer}"
    if list(now.bad_consumers) != [version for version in was.bad_consumers if version != most]:
        yield f"the bad_consumers are {list(now.bad_consumers)}"


# -- replacements --------------------------------------------------------------------------------------------


def _differing(comparison: Comparison, wanted: Release, replaced: Sequence[Replaced], intent: Intent) -> Iterator[str]:
    """Yields differences from the graph with the recorded replacements, and with the attrs that the release needs."""
    replay = Replay(comparison, [ANY_NODE], partial(_OlderForm, wanted))
    try:
        replay.run(replaced)
    except NotAMatch as error:
        yield str(error)
    graph = replay.graph
    for name in dict.fromkeys([*(node.name for node in graph.touched()), *comparison.facts.altered]):
        node = graph.find(name)
        if node is not None:
            was = _attrs_of(node)
            for key, data in {**dict.fromkeys(was), **_attrs_for(node.op, was, wanted)}.items():
                graph.set_attr(node, key, data)
    declare(graph, intent)
    yield from audit(comparison, intent)


def _attrs_of(node: Node) -> dict[str, bytes]:
    return {key: node.attr_bytes(key) or b"" for key in node.attr_keys if key != COLOCATION_ATTR}


class _OlderForm(VerifiedMatch):
    """A replaced node; it keeps its name and all its outputs."""

    def __init__(self, wanted: Release, replay: Replay, rule: Rule, record: Replaced) -> None:
        self._release = wanted
        super().__init__(replay, rule, record)

    def _check_conditions(self) -> None:
        """Raises NotAMatch if the release supports the node, or if numbers or texts of the replacement are wrong."""
        (node,), library = self.members, self._graph.functions
        if self.record.text != self._computed(node):
            raise self._wrong("the replacement has wrong numbers or texts")
        attrs = _attrs_for(node.op, _attrs_of(node), self._release)
        faults = _faults(node.op, attrs, len(node.inputs), self._release, library, 0)
        if not self._release.takes_less(node.op) and not any(faults):
            raise self._wrong(f"TensorFlow {self._release.name} supports it")

    def _computed(self, node: Node) -> str:
        """Returns the replacement with the numbers and texts that depend on attrs and constants of a node."""
        text, known = self.record.text, self._release.op_def(node.op)
        if node.op == "ParseExampleV2":
            vectors = map(value_of, node.inputs[2:4])
            keys = [repr(key) for vector in vectors if vector is not None for key in vector.values]
            return f"{text.partition('(')[0]}({', '.join(['n.0', 'n.1', *keys, 'n.5*'])})"
        if node.text_attr("padding") == "EXPLICIT" and known is not None and "explicit_paddings" not in known.attrs:
            listed = node.ints_attr("explicit_paddings")
            pairs = [listed[at : at + 2] for at in range(0, len(listed), 2)]
            kind = DTYPES[node.inputs[0].dtype]
            least = "-inf" if kind.is_float else kind.bounds[0]
            inputs = f"PadV2(n.0, {pairs}, {least})" if node.op == "MaxPool" else f"Pad(n.0, {pairs}), n.1"
            return f'{node.op}{{=n, padding="VALID", explicit_paddings=[]}}({inputs})'
        if node.op != "Conv2D":
            return text
        filters, (op, *groups) = constant_node(node.inputs[1]), text.split("Conv2D{=n}")
        if op == "ConcatV2(":
            axis = 1 if node.text_attr("data_format") == "NCHW" else 3
            split = f"Split{{num_split={len(groups)}}}"
            first = f"Conv2D{{=n}}(i={split}({axis}, n.0), f={split}(3, n.1))"
            others = [f"Conv2D{{=n}}(i:{at}, f:{at})" for at in range(1, len(groups))]
            return f"ConcatV2({', '.join([first, *others])}, {axis})"
        *_, count, times = found = literal_eval(text.partition("Reshape(n.1, ")[2].rstrip(")"))
        header = constant_header(filters) if filters is not None else None
        is_whole = header is None or header.dims == (*found[:2], 1, count * times)
        return f"DepthwiseConv2dNative{{=n}}(n.0, Reshape(n.1, {found}))" if is_whole else ""

    def _result(self, term: Term, root: Output) -> Output:
        del root  # which keeps its outputs
        self._wanted = 0
        return self._tensor(term)


def _attrs_for(op: str, attrs: Mapping[str, bytes], wanted: Release) -> dict[str, bytes]:
    """Returns the attrs of a node without those that the release lacks and that have no effect, and with the defaults
    that the release has not.
    """
    old, new = wanted.op_def(op), releases()[-1].op_def(op)
    if old is None or new is None:
        return {**attrs}
    is_call = any("func" in attr.kind for attr in new.attrs.values())
    idle = NO_EFFECT.get(op, set()) | {key for key, attr in new.attrs.items() if same_value(attrs.get(key), attr)}
    idle |= NO_EFFECT_ON_CALLS if is_call else set()
    known = [(attr, new.attrs[attr.name]) for attr in old.attrs.values() if attr.name in new.attrs]
    others = [b for a, b in known if b.has_default and not (a.has_default and a.default == b.default)]
    missing = {attr.name: default_of(attr) for attr in others if attr.name not in attrs}
    return {key: data for key, data in attrs.items() if key in old.attrs or key[:1] == "_" or key not in idle} | missing


# -- validity for the release --------------------------------------------------------------------------------


def _unfit(graph: Graph, wanted: Release) -> Iterator[str]:
    """Yields the faults of a graph and its used functions, a line for each."""
    producer, library = graph.store.versions.producer, graph.functions
    seen: dict[tuple[object, ...], list[str]] = {}  # most nodes are like others
    for node in graph.nodes():
        definition, count = wanted.op_def(node.op), len(node.inputs)
        read = {name for name, attr in definition.attrs.items() if attr.kind not in UNREAD} if definition else ()
        attrs = {key: node.attr_bytes(key) or b"" if key in read else b"" for key in node.attr_keys}
        form = (node.op, *attrs.items(), count)
        if form not in seen:
            seen[form] = list(_faults(node.op, attrs, count, wanted, library, producer))
        yield from (f"{quoted(node.name)} {line}" for line in seen[form])
    for name in used_functions(graph):
        for inner in library[name].node_def:
            reads = [text for text in inner.input if text[:1] != "^"]
            count = -1 if any(text.count(":") == 1 for text in reads) else len(reads)  # all tensors of an output
            attrs = {key: value.SerializeToString() for key, value in inner.attr.items()}
            for line in _faults(inner.op, attrs, count, wanted, library, producer):
                yield f"in the function {quoted(name)} {quoted(inner.name)} {line}"


def _faults(
    op: str, attrs: dict[str, bytes], count: int, wanted: Release, library: FunctionLibrary, producer: int
) -> Iterator[str]:
    """Yields the faults of a node with `count` inputs; -1 if the number is not known."""
    definition = wanted.op_def(op)
    if definition is None:
        if op not in library:
            yield f"is a {op}, which TensorFlow {wanted.name} does not have"
        return
    if definition.removed_in and min(producer, wanted.version) >= definition.removed_in:
        yield f"is a {op}, which GraphDefs of that version no longer allow"
    yield from (f"has {key}" for key in sorted(attrs.keys() - definition.attrs.keys()) if key[:1] != "_")
    for attr in definition.attrs.values():
        if attr.name not in attrs:
            yield from () if attr.has_default else (f"lacks {attr.name}",)
        elif attr.kind not in UNREAD:
            value = attr_value(attrs[attr.name])
            if value.WhichOneof("value") not in (None, "placeholder"):
                yield from (f"has {attr.name} {what}" for what in _wrong(value, attr, wanted))
    expected = arg_count(definition.inputs, definition, reader(attrs))
    if count not in (-1, expected):
        yield f"has {count} inputs, but {op} expects {expected}"


def _wrong(value: AttrValue, attr: AttrDef, wanted: Release) -> Iterator[str]:
    """Yields the faults of the value of an attr."""
    if kind_of(value) not in (attr.kind, "list()"):
        yield f"of a wrong type: {kind_of(value)}"
        return
    held = plain(value)
    items: list[Any] = held if isinstance(held, list) else [held]
    if attr.kind.endswith(("type", "type)")):
        allowed = attr.allowed or range(wanted.last_dtype + 1)
        yield from (f"{item}" for item in items if item not in allowed and item - 100 not in allowed)
    if attr.texts:
        yield from (repr(item) for item in items if item.decode("utf-8", "replace") not in attr.texts)
    if attr.minimum is not None and (len(items) if attr.kind.startswith("list(") else items[0]) < attr.minimum:
        yield f"less than {attr.minimum}"


# -- the stage that lowers control flow -----------------------------------------------------------------------

LISTS: Mapping[str, tuple[str, ...]] = {
    "TensorListFromTensor": ("TensorArrayScatterV3",),
    "TensorListGetItem": ("TensorArrayReadV3", "Identity"),
    "TensorListLength": ("TensorArraySizeV3",),
    "TensorListReserve": ("Identity", "Fill"),
    "TensorListSetItem": ("TensorArrayWriteV3", "Identity"),
    "TensorListStack": ("TensorArrayGatherV3", "ExpandDims"),
}
"""The forms of lists of tensors, if the release lacks such an op or has it with other inputs."""
BRANCHING = CASES | IFS
CALLING = BRANCHING | CALLS | WHILES
"""Ops that are replaced by their functions if the release lacks one of them."""
FORWARDING = frozenset(("Identity", "IdentityN", "NoOp"))
"""The ops of nodes that replace such nodes and return their results."""
OF_LOOPS = frozenset(("Enter", "Exit", "Merge", "NextIteration", "Switch"))


def lower_control_flow(comparison: Comparison, target: str) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    wanted = release(target)
    assert wanted is not None
    before, after, facts = comparison.before, comparison.after, comparison.facts
    inner = (node.op for name in used_functions(before) for node in before.functions[name].node_def)
    ops = {*before.store.table.op_names, *inner}
    pairs = [(wanted.op_def(op), releases()[-1].op_def(op)) for op in ops & LISTS.keys()]
    lists = any(old is None or new is None or len(old.inputs) != len(new.inputs) for old, new in pairs)
    called = {"Case" if op == "StatelessCase" else op for op in ops & CALLING}
    lacks_calls = any(wanted.op_def(op) is None for op in called)
    calls = (node for node in calling_nodes(before) if node.op in CALLING or node.op in before.functions)
    lowered = {node.name for node in calls if lists or lacks_calls}
    becoming = {name for name, altered in facts.altered.items() if "op" in altered} | lowered
    added = {name for name in facts.added if any(name[:at] in becoming for at, end in enumerate(name) if end == "/")}
    read = {read.node.name for name in lowered for read in before[name].inputs}
    kept = {name for name in lowered if name in after and after[name].op in FORWARDING and "op" in facts.altered[name]}
    intent = Intent(added=[*sorted(added), *kept], removed=[name for name in facts.removed if name in lowered])
    intent.functions = FunctionChanges(removed=facts.functions.removed if lowered else [])
    for name, altered in facts.altered.items():
        old, new = before[name], after[name]
        found = [Altered(name, what, now) for what, (_, now) in altered.items() if lists and _of_list(what, old, new)]
        waited, controls = {control.name for control in old.controls}, [control.name for control in new.controls]
        if "controls" in altered and waited & lowered and {*controls} <= waited | added | read:
            found.append(Altered(name, "controls", tuple(controls)))
        intent.altered += found
        intent.changed += [name] if found else []
    for slot in facts.rewired:
        source, target = (text.partition(":")[0] for text in (slot.old, slot.new))
        is_own = slot.node in becoming and target in added
        if lists and slot.node in becoming and before[slot.node].op in LISTS:  # it reads the same at a different index
            is_own |= target in {read.node.name for read in before[slot.node].inputs}
        intent.rewired += [slot] if is_own or (source in lowered and (target in added or target in read)) else []
    for name in lowered:
        yield from _wrong_results(before[name], after.find(name), lowered, before.functions)
    yield from audit(comparison, intent)


def _of_list(what: str, old: Node, new: Node) -> bool:
    """Returns whether `what` of a node may change because lists of tensors are replaced."""
    if new.op not in LISTS.get(old.op, ()):
        value = old.attr("T")
        dtypes = [] if value is None else [value.type, *value.list.type]
        is_forwarding = old.op == new.op and old.op in FORWARDING | OF_LOOPS and VARIANT in dtypes
        return is_forwarding and what in ("attr T", "attr _output_shapes")
    key = what.removeprefix("attr ")
    return what in ("op", "inputs") or (what != key and not (old.has_attr(key) and new.has_attr(key)))


def _wrong_results(old: Node, new: Node | None, lowered: set[str], library: FunctionLibrary) -> Iterator[str]:
    """Yields faults of the node that replaces a loop or a conditional.

    It must return the results in order, and keep the control dependencies and the effects of its branches.
    """
    where = quoted(old.name)
    if old.op not in CALLING or "Call" in old.op:
        return
    if new is None or new.op not in FORWARDING or len(new.inputs) != len(old.output_dtypes or ()):
        yield f"{where} does not have its former outputs"
        return
    lost = {control.name for control in old.controls} - lowered - {control.name for control in new.controls}
    yield from (f"{where} lost its control dependency on {quoted(name)}" for name in sorted(lost))
    if old.op in BRANCHING and not _waits_for_branches(old, new, library):
        yield f"{where} has no control dependency on the effects of its branches"
    for index, read in enumerate(new.inputs):
        if old.op in BRANCHING:
            if read.node.op != "Merge" or read.index or len(read.node.inputs) != len(branches_of(old)):
                yield f"{where} reads {quoted(read.name)}, which is not the result of its branches"
            continue
        at, way = read, []
        while at.node.op in ("Exit", "Switch", "Merge", "Enter") and at.index == 0:
            way.append(at.node.op)
            at = at.node.inputs[0]
        begins = old.inputs[index]
        if way != ["Exit", "Switch", "Merge", "Enter"] or (begins.node.name not in lowered and at.name != begins.name):
            yield f"{where} reads {quoted(read.name)}, which is not the loop's result for {quoted(begins.name)}"


def _waits_for_branches(old: Node, new: Node, library: FunctionLibrary) -> bool:
    """Returns whether a node has a control dependency on a Merge of nodes after each branch.

    The branches of an If are in the order of the outputs of a Switch.
    """
    functions = branches_of(old)
    for merge in new.controls:
        if merge.op == "Merge" and len(merge.inputs) == len(functions):
            ends = [read.node for read in merge.inputs]
            pairs = zip(functions, ends, strict=True)
            return all(
                not library[function.name].control_ret or {*end.controls} - {read.node for read in end.inputs}
                for function, end in pairs
            )
    return False
