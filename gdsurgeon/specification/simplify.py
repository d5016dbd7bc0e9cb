"""simplify and its stages: remaining nodes read tensors with the same values and keep their control dependencies.

A tensor that replaces a different one must be equal to it in the original file, by rules of a second implementation
(`equivalence`). Then all values are the same, by induction along the edges. Effects are kept. A new constant depends
only on constants and shapes, and runs once in each run; the proof compares its value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import FunctionChanges, Intent, Rewired
from gdsurgeon.errors import quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import constant, constant_header, constant_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import DTYPES, RESOURCE
from gdsurgeon.ops.kinds import COLOCATION_ATTR, CONTROL_FLOW, PLACEHOLDERS, hides_state, is_random
from gdsurgeon.specification.constants import elements
from gdsurgeon.specification.equivalence import BITS, REFUSING, Certificate, Equivalence
from gdsurgeon.specification.nodes import (
    Rows,
    branches_of,
    calling_nodes,
    kept_names,
    named_by_node,
    overwritten,
    used_functions,
)
from gdsurgeon.specification.specify import Asked, violations
from gdsurgeon.wire.protos import AttrValue

_CONSTANT = ("dtype", "value")
"""The attrs of a constant."""
_OF_A_MERGE = frozenset(("op", "inputs", "attr N", "attr _output_shapes"))
"""The fields of a Merge that change if it becomes an Identity."""


def simplify(
    comparison: Comparison,
    outputs: Sequence[str] = (),
    passes: Sequence[str] = (),
    *,
    max_growth: int = 0,
    certificate: Certificate = Certificate(),  # noqa: B008
    **others: object,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; `others` are arguments of other stages."""
    del others
    before, after, facts = comparison.before, comparison.after, comparison.facts
    same = Equivalence(before, passes, certificate)
    used = used_functions(after) if after.functions else {}
    intent = Intent(removed=facts.removed, rewired=facts.rewired)
    intent.functions.removed = [name for name in facts.functions.removed if name not in used]
    yield from _lost(comparison, same, outputs)
    for slot in facts.rewired:
        if not _may_read(comparison, same, slot):
            yield (f"{quoted(slot.node)} reads {quoted(slot.new)} instead of {quoted(slot.old)}, which is not equal")
    folded = {name: None for name in certificate.constants if name in after}
    yield from _folded(comparison, same, intent, folded, kept_names(before, outputs))
    yield from _opened(comparison, same, certificate.opened)
    for name, altered in facts.altered.items():
        if name in folded:
            continue
        old, new = before[name], after[name]
        if "controls" in altered:
            intent.alter(name, {"controls": frozenset(control.name for control in new.controls)})
            yield from _waits(same, old, new)
        if _is_joined(same, old, new):
            intent.alter(name, {what: value for what, (_, value) in altered.items() if what in _OF_A_MERGE})
    if folded and (grown := _growth(comparison, folded)) > max_growth:
        yield f"constants made the file {grown:,} bytes larger, but only {max_growth:,} are allowed"
    yield from audit(comparison, intent)


def _folded(
    comparison: Comparison, same: Equivalence, intent: Intent, folded: Collection[str], kept: Collection[str]
) -> Iterator[str]:
    """Declares the nodes that became constants, and yields their faults."""
    for name in folded:
        old, new, row = comparison.before[name], comparison.after[name], same.table.rows[name]
        if name in kept or not any(True for _ in same.table.users(row)):
            yield f"{quoted(name)} became a constant, but is an output"
        if row not in same.folded:
            yield f"{quoted(name)} became a constant, but depends on more than constants and shapes"
        if old.output_dtypes != new.output_dtypes:
            yield f"{quoted(name)} became a constant of a different dtype"
        values = {f"attr {key}": new.attr_bytes(key) for key in (*old.attr_keys, *_CONSTANT)}
        values["attr value"] = same.folded.get(row)
        nothing = dict.fromkeys(("inputs", "controls", "colocated"), ())
        intent.alter(name, {"op": "Const", "device": old.device, "attrs": _CONSTANT, **nothing, **values})


def _opened(comparison: Comparison, same: Equivalence, opened: Collection[str]) -> Iterator[str]:
    """Yields a line for each shape with a dim of -1 that is not determined, or that is an input of another op."""
    table, rows = same.table, {same.table.rows[name] for name in opened}
    for row in rows:
        value = constant_in(same.folded.get(row, b""))
        dims = [dim for dim in value.values if isinstance(dim, int)] if value and len(value.shape) == 1 else []
        if dims.count(-1) != 1 or min(dims) < -1 or 0 in dims:
            yield f"{quoted(table.names[row])} is a shape with an open dim that the other dims do not determine"
    tensors = {same.normal(row << BITS) for row in rows}
    for user in range(len(table.names)) if rows else ():
        reads, _ = same.edges(user)
        places = [at for at, code in enumerate(reads) if same.normal(code) in tensors and user not in same.folded]
        is_plain = table.op(user) == "Reshape" and places == [1]
        if places and not is_plain and table.names[user] in comparison.after:
            yield f"{quoted(table.names[user])} reads a shape with an open dim, but is not a Reshape"


def _growth(comparison: Comparison, folded: Collection[str]) -> int:
    """Returns by how many bytes the constants `folded` are larger than the nodes that were removed or replaced."""
    before, after = comparison.before.store.table, comparison.after.store.table
    spans = [(after, after.rows[name], 1) for name in folded]
    spans += [(before, before.rows[name], -1) for name in (*folded, *comparison.facts.removed)]
    return sum((table.ends[row] - table.starts[row]) * sign for table, row, sign in spans)


def _lost(comparison: Comparison, same: Equivalence, outputs: Sequence[str]) -> Iterator[str]:
    """Yields removed nodes that must be kept."""
    before, after = comparison.before, comparison.after
    named, rows = kept_names(before, ()), Rows(before)
    is_open = not outputs and not before.ends and (before.serving is None or not before.serving.called)
    for name in sorted({parse_tensor(text).node for text in outputs}):
        if name not in after:
            yield f"{quoted(name)} was removed, but is an output"
    for name in comparison.facts.removed:
        row = rows.table.rows[name]
        is_output = is_open and rows.table.unread[row] and rows.op(row) != "Const" and rows.has_value(row)
        if rows.op(row) in PLACEHOLDERS:
            yield f"{quoted(name)} was removed, but is an input"
        elif name in named:
            yield f"{quoted(name)} was removed, but the model's signatures or saver use it"
        elif not outputs and not same.dead[row] and _lasts(same, row):
            yield f"{quoted(name)} was removed, but has a lasting effect"
        elif is_output and not same.dead[row] and not same.branching[row]:
            yield f"{quoted(name)} was removed, but has no consumers, so it is an output"


def _lasts(same: Equivalence, row: int) -> bool:
    op, serving = same.table.op(row), same.graph.serving
    if (op == "NoOp" or serving is not None) and not any(True for _ in same.table.users(row)):
        waited = same.edges(row)[1]
        if op == "NoOp" and same.waits(waited):
            return True  # it may be fetched to run its control inputs
        if serving is not None and any(is_lasting(same, other) for other in waited):
            return True  # a saver fetches it
    return is_lasting(same, row)


def is_lasting(same: Equivalence, row: int) -> bool:
    """Returns whether a row has an effect after the run, or controls other nodes."""
    op = same.table.op(row)
    if op in CONTROL_FLOW or same.is_quiet(row) or (op in REFUSING and "checks" in same.rules):
        return False
    definition = same.graph.op_def(op)
    draws = definition is not None and is_random(op) and all(arg.dtype != RESOURCE for arg in definition.inputs)
    return not draws


def _may_read(comparison: Comparison, same: Equivalence, slot: Rewired) -> bool:
    old, new = map(same.code, (slot.old, slot.new))
    if old is None or new is None:
        return False
    if same.is_same(old, new) or (same.is_dead(old) and same.is_dead(new)):
        return True
    is_reshape = comparison.before[slot.node].op == "Reshape"
    if is_reshape and slot.slot == 0 and "pairs" in same.rules:
        return same.elements(old) == same.elements(new)
    is_shape = (is_reshape and slot.slot == 1) or same.normal(old) >> BITS not in same.opened
    return is_shape and "equal-nodes" in same.rules and same.shape(old) == same.shape(new)


def _is_joined(same: Equivalence, old: Node, new: Node) -> bool:
    """Returns whether a Merge became an Identity of its only live input."""
    if (old.op, new.op) != ("Merge", "Identity") or len(new.inputs) != 1:
        return False
    row = same.table.rows.get(new.inputs[0].node.name)
    code = same.table.rows[old.name] << BITS
    return row is not None and same.normal(code) != code and same.is_same(code, row << BITS | new.inputs[0].index)


def _waits(same: Equivalence, old: Node, new: Node) -> Iterator[str]:
    """Yields missing and undeclared control dependencies of a node; a data input counts as one."""
    rows, names = same.table.rows, same.table.names
    read = [code for output in new.inputs if (code := same.code(output.name)) is not None]
    source = same.code(old.inputs[0].name) if old.op == "Reshape" and "pairs" in same.rules else None
    read += same.same_elements(source) if source is not None else ()  # it reads the input of an earlier Reshape now
    waited = [rows[control.name] for control in old.controls]
    now = same.waits([rows[control.name] for control in new.controls if control.name in rows])
    for code in sorted(same.waits_beside(read, waited) - now):
        yield f"{quoted(new.name)} lacks the required control dependency on {quoted(names[code >> BITS])}"
    for code in sorted(now - same.waits(waited)):
        yield (f"{quoted(new.name)} has a control dependency on {quoted(names[code >> BITS])}, which was not requested")


# -- the stages --------------------------------------------------------------------------------------------------

_PASSES = frozenset("""
    inline unread control-edges conditions checks stop-gradients identities neutral pairs equal-nodes same-shape dropout
    shapes constants bodies functions
""".split())  # fmt: skip
_OF_PASSES: Mapping[str, Collection[str]] = {
    "decide_calls": {"conditions"}, "inline": {"inline"}, "integer_sums": {"constants"}, "simplify": _PASSES,
}  # fmt: skip
"""For each stage, the passes that it belongs to."""
_OF_ARGUMENTS = {"fold_batch_norms": "fold_bn", "set_shape": "shapes", "spelt_constants": "engine"}


def simplify_stages(asked: Asked, stages: Sequence[Asked], after: Graph) -> Iterator[str]:
    """Yields the differences between the requests of the stages and the user's request.

    `violations` checks the changes of each stage, against the request of this stage.

    Args:
        asked: the user's request.
        stages: the request of each stage.
        after: the graph after the last stage.
    """
    given: Mapping[str, Any] = asked.arguments
    engine, outputs, most = given.get("engine"), given.get("outputs", ()), given.get("max_growth", 0)
    chosen = {*(given.get("passes") or _PASSES)}.difference(given.get("skip", ()))
    if engine:
        chosen -= {"equal-nodes"} if given.get("shapes") else {"equal-nodes", "shapes"}
    for stage in stages:
        done: Mapping[str, Any] = stage.arguments
        is_body = stage.edit == "simplify_bodies"
        name = stage.edit if not is_body else done["stage"] if "bodies" in chosen else ""
        if not (given.get(_OF_ARGUMENTS.get(name, "")) or chosen.intersection(_OF_PASSES.get(name, ()))):
            yield f"{stage.edit} was done, but was not requested"
        for name in sorted({*done.get("passes", ())} - chosen):
            yield f"the pass {quoted(name)} was done, but was not requested"
        if {*map(parse_tensor, done.get("outputs", outputs))} != {*map(parse_tensor, outputs)}:
            yield f"{stage.edit} was done for different outputs than requested"
        if done.get("max_growth", 0) > most:
            yield f"constants made the file up to {done['max_growth']:,} bytes larger, but only {most:,} are allowed"
    if engine:
        yield from not_spelt_out(after)


# -- the bodies of functions -------------------------------------------------------------------------------------


def simplify_bodies(
    comparison: Comparison,
    stage: str = "simplify",
    *,
    certificates: Mapping[str, Certificate] = MappingProxyType({}),
    **asked: object,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; `stage` and `asked` are the request for each body.

    Functions that XLA compiles, that stand for an op, or that SymbolicGradient differentiates must not change.
    """
    derived = _derived(comparison.before)
    for name, inside in comparison.inside.items():
        decided = {"certificate": certificates[name]} if name in certificates else {}
        faults = violations(inside, Asked(stage, asked), decided)
        yield from (f"in the function {quoted(name)}: {fault}" for fault in faults)
        attrs = {key: value.b for key, value in comparison.before.functions[name].attr.items()}
        stands_for_op = not {"_implements", "api_implements"}.isdisjoint(attrs)
        if name in derived or stands_for_op or attrs.get("_XlaMustCompile", False):
            yield f"the function {quoted(name)} must not change, but was changed"
    yield from audit(comparison, Intent(functions=FunctionChanges(changed=[*comparison.inside])))


def _derived(graph: Graph) -> set[str]:
    """Returns the functions that SymbolicGradient differentiates, directly or indirectly."""
    named = [name for node in calling_nodes(graph) if node.op == "SymbolicGradient" for name in named_by_node(node)]
    for function in graph.functions:
        inner = [node for node in function.node_def if node.op == "SymbolicGradient"]
        named += [value.func.name for node in inner for value in node.attr.values()]
    return set(graph.functions.reachable(named))


# -- calls with constant conditions ------------------------------------------------------------------------------

_STATELESS = frozenset(("StatelessIf", "StatelessCase"))


def decide_calls(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`.

    If and Case with constant conditions become calls; loops without iterations return their inputs.
    """
    del outputs
    intent = Intent()
    for name in comparison.facts.altered:
        old, new = comparison.before[name], comparison.after[name]
        function = _function(old)
        if not function and not _hands_on(comparison.before, old):
            continue
        op = "IdentityN" if not function else "PartitionedCall" if old.op in _STATELESS else "StatefulPartitionedCall"
        kept = ("Tin", "Tout", "_class") if function else ("T", "_class")
        attrs = {key: old.attr_bytes(key) for key in kept if old.has_attr(key)}
        if function:
            attrs["f"] = new.attr_bytes("f")
            if AttrValue.FromString(attrs["f"] or b"").func.SerializeToString() != function:
                yield f"{quoted(name)} calls a different function than the one that is always called"
        values = {f"attr {key}": attrs.get(key) for key in (*old.attr_keys, *new.attr_keys)}
        inputs = tuple(read.name for read in old.inputs[bool(function) :])
        intent.alter(name, {"op": op, "inputs": inputs, "attrs": tuple(sorted(attrs)), **values})
    yield from audit(comparison, intent)


def _hands_on(graph: Graph, node: Node) -> bool:
    """Returns whether a loop has no iteration: its condition returns a constant and has no effects."""
    condition = node.attr("cond") if node.op in ("StatelessWhile", "While") else None
    if condition is None or condition.func.name not in graph.functions:
        return False
    called = condition.func
    inside = (each.op for name in graph.functions.reachable([called.name]) for each in graph.functions[name].node_def)
    if any((found := graph.op_def(op)) is None or found.is_stateful or hides_state(op) for op in inside):
        return False
    results = Body(graph, called.name, called.attr).results
    if len(results) != 1:
        return False
    node = results[0].inputs[0].node
    while node.op == "Identity" and not node.controls:
        node = node.inputs[0].node
    value = constant(node) if not node.controls else None
    return value is not None and value.shape == () and not any(value.values)


def _function(node: Node) -> bytes:
    """Returns the function that a node always calls, serialized; b'' if it is not constant."""
    reads = node.inputs
    found = constant(reads[0].node) if node.op in (*_STATELESS, "If", "Case") and reads else None
    functions = branches_of(node)
    if found is None or found.shape != () or reads[0].node.controls or not functions:
        return b""
    at = bool(found.values[0]) if node.op.endswith("If") else int(found.values[0])
    return functions[at if 0 <= at < len(functions) else -1].SerializeToString()


# -- sums of integers --------------------------------------------------------------------------------------------


def integer_sums(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`.

    Changed sums of integers have the same terms with the same signs. Integers wrap around, so the values are the same.
    A sum may have a different value if only one other sum reads it, which is checked instead.
    """
    graphs = before, after = comparison.before, comparison.after
    kept, written, intent = kept_names(before, outputs), overwritten(before), Intent()
    names = dict.fromkeys([*(slot.node for slot in comparison.facts.rewired), *comparison.facts.altered])
    inner, pending = set[str](), [*names]
    for name in pending:  # grows while it is walked
        if not _is_integer_sum(name, graphs) or not written.isdisjoint(read.node for read in before[name].inputs):
            yield f"{quoted(name)} was changed, but is not a sum of integers"
            continue
        intent.alter(name, {"op": after[name].op, "inputs": tuple(read.name for read in after[name].inputs)})
        users = [user for graph in graphs for user in (graph.users(graph[name]) or [graph[name]])]
        reads = [[read.node.name for read in user.inputs].count(name) for user in users]  # 0 without users
        if name not in kept and reads == [1, 1] and all(_is_integer_sum(user.name, graphs) for user in users):
            inner.add(name)
            further = dict.fromkeys(user.name for user in users if user.name not in names)
            names |= further
            pending += further
    for name in sorted(names.keys() - inner):
        if _terms(before, name, inner) != _terms(after, name, inner):
            yield f"{quoted(name)} is a sum of different terms"
    yield from audit(comparison, intent)


def _is_integer_sum(name: str, graphs: Sequence[Graph]) -> bool:
    for node in (graph.find(name) for graph in graphs):
        dtype = node.setting("T") if node is not None and node.op in _SIGNS and not node.controls else None
        if node is None or not (dtype in DTYPES and DTYPES[dtype].is_integer):
            return False
        if {read.dtype for read in node.inputs} != {dtype}:
            return False
    return True


_SIGNS = {"Add": 1, "AddV2": 1, "Sub": -1}
"""Sums, with the sign of the second term."""


def _terms(graph: Graph, name: str, inner: Collection[str]) -> Counter[tuple[str, int]]:
    """Returns the terms of a sum with their signs; sums in `inner` are replaced by their terms."""
    found, pending = Counter[tuple[str, int]](), [(graph[name], 1)]
    for node, sign in pending:  # grows while it is walked
        for read, each in zip(node.inputs, (sign, sign * _SIGNS.get(node.op, 0)), strict=False):
            if read.node.name in inner:
                pending.append((read.node, each))
            else:
                found[read.name, each] += 1
    return found


# -- constants for a different engine: each stores all its elements, unchanged, and has one consumer ----------------


def spelt_constants(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del outputs
    before, after, facts = comparison.before, comparison.after, comparison.facts
    intent = Intent()
    originals: dict[str, str] = {}
    for slot in facts.rewired:
        if slot.new in facts.added and originals.setdefault(slot.new, slot.old) == slot.old:
            intent.rewired.append(slot)
    for name in facts.added:
        old = before.find(originals.get(name, ""))
        if old is None or old.op != "Const":
            yield f"{quoted(name)} was added, but is not a copy of a constant"
            continue
        yield from _faults(old, after[name])
        keys = dict.fromkeys(key for key in old.attr_keys if key != COLOCATION_ATTR)
        attrs = {key: old.attr_bytes(key) if key != "value" else None for key in keys}
        intent.add(name, "Const", (), [each.name for each in old.controls], old.device, attrs)
    for name in facts.altered:
        if before[name].op == "Const":
            yield from _faults(before[name], after[name])
            intent.alter(name, {"attr value": after[name].attr_bytes("value")})
    yield from audit(comparison, intent)
    yield from not_spelt_out(after)


def not_spelt_out(graph: Graph) -> Iterator[str]:
    """Yields a line for each constant of `graph` that several inputs read or that does not store each element."""
    read = Counter(output.node.name for node in graph.nodes() for output in node.inputs)
    for node in graph.nodes():
        if node.op == "Const" and read[node.name] > 1:
            yield f"{quoted(node.name)} has {read[node.name]} consumers"
        if node.op == "Const" and not _is_whole(node):
            yield f"{quoted(node.name)} does not spell out all its elements"


def _is_whole(node: Node) -> bool:
    """Returns whether a constant of numbers stores each of its elements; true for any other constant."""
    header = constant_header(node)
    dtype = DTYPES.get(header.dtype) if header is not None else None
    if header is None or header.content_bytes or dtype is None or not dtype.size:
        return True
    return header.values >= header.elements or header.dims is None or min(header.dims, default=0) < 0


def _faults(old: Node, new: Node) -> Iterator[str]:
    if new.attr_bytes("value") == old.attr_bytes("value"):
        return
    was, now = elements(old), elements(new)
    if was is None or was != now:
        yield f"{quoted(new.name)} does not have the elements of {quoted(old.name)}"
