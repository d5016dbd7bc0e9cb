"""simplify and its stages: remaining nodes read tensors with the same values and keep their control dependencies.

A tensor that replaces a different one must be equal to it in the original file, by rules of a second implementation
(`equivalence`). Then all values are the same, by induction along the edges. Effects are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import FunctionChanges, Intent, Rewired
from gdsurgeon.errors import quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import DTYPES, RESOURCE
from gdsurgeon.ops.kinds import COLOCATION_ATTR, CONTROL_FLOW, PLACEHOLDERS, hides_state, is_random
from gdsurgeon.specification.constants import elements
from gdsurgeon.specification.equivalence import BITS, PORT, REFUSING, Equivalence
from gdsurgeon.specification.nodes import Rows, branches_of, calling_nodes, kept_names, named_by_node, used_functions
from gdsurgeon.specification.specify import Asked, violations
from gdsurgeon.wire.protos import AttrValue, FunctionDef

_ALL = ("inline", "unread", "control-edges", "conditions", "checks", "stop-gradients", "identities", "neutral", "pairs",
        "equal-nodes", "functions")  # fmt: skip
_OF_A_MERGE = frozenset(("op", "inputs", "attr N", "attr _output_shapes"))
"""The fields of a Merge that change if it becomes an Identity."""


def simplify(
    comparison: Comparison,
    outputs: Sequence[str] = (),
    passes: Sequence[str] = (),
    skip: Sequence[str] = (),
    *,
    engine: str = "",
    **folding: object,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; `folding` has arguments of other stages."""
    del folding
    before, after, facts = comparison.before, comparison.after, comparison.facts
    rules = [name for name in passes or _ALL if name not in skip]
    same = Equivalence(before, rules)
    used = used_functions(after) if after.functions else {}
    intent = Intent(removed=facts.removed, rewired=facts.rewired)
    intent.functions.removed = [name for name in facts.functions.removed if name not in used]
    yield from _lost(comparison, same, outputs)
    for slot in facts.rewired:
        if not _may_read(comparison, same, slot):
            yield (f"{quoted(slot.node)} reads {quoted(slot.new)} instead of {quoted(slot.old)}, which is not equal")
    for name, altered in facts.altered.items():
        old, new = before[name], after[name]
        if "controls" in altered:
            intent.alter(name, {"controls": frozenset(control.name for control in new.controls)})
            yield from _waits(same, old, new)
        if _is_joined(same, old, new):
            intent.alter(name, {what: value for what, (_, value) in altered.items() if what in _OF_A_MERGE})
    yield from audit(comparison, intent)
    if engine:
        yield from not_spelt_out(after)


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
        is_output = is_open and row in rows.table.unread and rows.op(row) != "Const" and rows.has_value(row)
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
    shapes = comparison.before[slot.node].op == "Reshape" and slot.slot == 0 and "pairs" in same.rules
    return shapes and same.is_same(same.elements(old), same.elements(new))


def _is_joined(same: Equivalence, old: Node, new: Node) -> bool:
    """Returns whether a Merge became an Identity of its only live input."""
    if (old.op, new.op) != ("Merge", "Identity") or len(new.inputs) != 1:
        return False
    row = same.table.rows.get(new.inputs[0].node.name)
    code = same.table.rows[old.name] << BITS
    return row is not None and same.normal(code) != code and same.is_same(code, row << BITS | new.inputs[0].index)


def _waits(same: Equivalence, old: Node, new: Node) -> Iterator[str]:
    """Yields missing and undeclared control dependencies of a node; a data input counts as one."""
    rows = same.table.rows
    read = [code for output in new.inputs if (code := same.code(output.name)) is not None]
    waited = [rows[control.name] for control in old.controls]
    had, needed = same.waits(waited), same.waits_beside(read, waited)
    now = same.waits([rows[control.name] for control in new.controls if control.name in rows])
    new_ones = now - had
    there = {*new_ones, *map(same.normal, read), *(code >> BITS << BITS | PORT for code in read)}
    for code in sorted(needed - now):
        if not any(same.is_same(code, other) for other in there):
            yield (
                f"{quoted(new.name)} lacks the required control dependency on {quoted(same.table.names[code >> BITS])}"
            )
    for code in sorted(new_ones):
        if not any(same.is_same(code, other) for other in had):
            yield (
                f"{quoted(new.name)} has a control dependency on {quoted(same.table.names[code >> BITS])}, "
                "which was not requested"
            )


# -- the stages --------------------------------------------------------------------------------------------------

_PASSES = frozenset((*_ALL, "same-shape", "dropout", "shapes", "constants", "bodies"))
_OF_PASSES: Mapping[str, Collection[str]] = {
    "decide_calls": {"conditions"}, "fold_constants": {"constants", "shapes"}, "inline": {"inline"},
    "same_shape": {"dropout", "same-shape"}, "simplify": _PASSES,
}  # fmt: skip
"""For each stage, the passes that it belongs to."""
_OF_ARGUMENTS = {"fold_batch_norms": "fold_bn", "set_shape": "shapes", "spelt_constants": "engine"}


def simplify_stages(asked: Asked, stages: Sequence[tuple[Asked, int]], after: Graph) -> Iterator[str]:
    """Yields the differences between the requests of the stages and the user's request.

    `violations` checks the changes of each stage, against the request of this stage.

    Args:
        asked: the user's request.
        stages: the request of each stage, and by how many bytes the graph has grown.
        after: the graph after the last stage.
    """
    given: Mapping[str, Any] = asked.arguments
    engine, outputs, grown = given.get("engine"), given.get("outputs", ()), 0
    chosen = {*(given.get("passes") or _PASSES)}.difference(given.get("skip", ()))
    if engine:
        chosen -= {"equal-nodes"} if given.get("shapes") else {"equal-nodes", "shapes"}
    for stage, more in stages:
        done: Mapping[str, Any] = stage.arguments
        is_body = stage.edit == "simplify_bodies"
        name = stage.edit if not is_body else done["stage"] if "bodies" in chosen else ""
        if not (given.get(_OF_ARGUMENTS.get(name, "")) or chosen.intersection(_OF_PASSES.get(name, ()))):
            yield f"{stage.edit} was done, but was not requested"
        for name in sorted({*done.get("passes", ())} - chosen):
            yield f"the pass {quoted(name)} was done, but was not requested"
        if {*map(parse_tensor, done.get("outputs", outputs))} != {*map(parse_tensor, outputs)}:
            yield f"{stage.edit} was done for different outputs than requested"
        grown += max(more, 0) if stage.edit == "fold_constants" else 0
    if grown > (most := given.get("max_growth", 0)):
        yield f"constants made the file {grown:,} bytes larger, but only {most:,} are allowed"
    if engine:
        yield from not_spelt_out(after)


# -- the bodies of functions -------------------------------------------------------------------------------------


def simplify_bodies(comparison: Comparison, stage: str = "simplify", **asked: object) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; `stage` and `asked` are the request for each body.

    Functions that XLA compiles, that stand for an op, or that SymbolicGradient differentiates must not change.
    """
    derived = _derived(comparison.before)
    for name, inside in comparison.inside.items():
        faults = violations(inside, Asked(stage, asked))
        yield from (f"in the function {quoted(name)}: {fault}" for fault in faults)
        if name in derived or _is_looked_into(comparison.before.functions[name]):
            yield f"the function {quoted(name)} must not change, but was changed"
    yield from audit(comparison, Intent(functions=FunctionChanges(changed=[*comparison.inside])))


def _is_looked_into(function: FunctionDef) -> bool:
    """Returns whether a function stands for an op, or XLA compiles it."""
    attrs = {key: value.b for key, value in function.attr.items()}
    return bool({"_implements", "api_implements"} & attrs.keys()) or attrs.get("_XlaMustCompile", False)


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


# -- nodes that return their input, given known shapes -----------------------------------------------------------

_SUMMING = frozenset(("All", "Any", "Max", "Mean", "Min", "Prod", "Sum"))
_SAME_ELEMENTS = _SUMMING | {"BroadcastTo", "EnsureShape", "ExpandDims", "Reshape", "Slice", "Squeeze", "StridedSlice"}


def same_shape(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`.

    It is checked that each removed node can only return its input or fail. The proof compares both tensors, which shows
    that the shapes are equal.
    """
    before, facts = comparison.before, comparison.facts
    same = Equivalence(before, ("checks",))
    intent = Intent(removed=facts.removed, rewired=facts.rewired)
    kept, gone = kept_names(before, outputs), {*facts.removed}
    for name in facts.removed:
        row = same.table.rows[name]
        is_plain = before[name].op in _SAME_ELEMENTS or same.free[row] or not is_lasting(same, row)
        is_used = any(True for _ in same.table.users(row))
        if name in kept or before[name].op in PLACEHOLDERS or not is_used or not is_plain:
            yield f"{quoted(name)} was removed, but is more than a shape"
    for slot in facts.rewired:
        if not _leads_to(same, slot):
            yield (f"{quoted(slot.node)} reads {quoted(slot.new)} instead of {quoted(slot.old)}, which is not equal")
    for name, altered in facts.altered.items():
        if "controls" in altered:
            expected = {_awaited(same, control, gone) for control in before[name].controls}
            intent.alter(name, {"controls": frozenset(expected)})
    yield from audit(comparison, intent)


def _leads_to(same: Equivalence, slot: Rewired) -> bool:
    """Returns whether only nodes that may return their input are between two tensors."""
    code, wanted = same.code(slot.old), same.code(slot.new)
    while code is not None and code != wanted:
        op, reads = _plain(same, code)
        following = _kept(same, op, reads)
        if following is None and op in _SAME_ELEMENTS and all(same.free[read >> BITS] for read in reads[1:]):
            following = reads[0] if _may_be_whole(same.graph[same.table.names[code >> BITS]]) else None
        code = following
    return code is not None


def _kept(same: Equivalence, op: str, reads: Sequence[int]) -> int | None:
    """Returns the tensor that dropout with probability 0 keeps; otherwise None."""
    if op in ("Select", "SelectV2") and len(reads) == 3 and _holds(same, reads[0]):
        return reads[1]
    if op != "Mul" or len(reads) != 2:
        return None
    return next((reads[1 - at] for at, code in enumerate(reads) if _is_one(same, code)), None)


def _is_one(same: Equivalence, code: int) -> bool:
    """Returns whether all elements of a tensor are 1: the floor of a number from 1 to 2, or true as a number."""
    op, reads = _plain(same, code)
    if op == "Cast":
        return _holds(same, reads[0])
    return op == "Floor" and _bounds(same, reads[0]) == (1, 2)


def _holds(same: Equivalence, code: int) -> bool:
    """Returns whether all elements of a tensor are true, because uniform values are not below a number."""
    op, reads = _plain(same, code)
    bounds = _bounds(same, reads[0]) if op == "GreaterEqual" else None
    least = _number(same, reads[1]) if bounds is not None else None
    return bounds is not None and least is not None and bounds[0] >= least


def _bounds(same: Equivalence, code: int) -> tuple[float, float] | None:
    """Returns the bounds of random values, the second one excluded."""
    plus = 0.0
    while True:
        op, reads = _plain(same, code)
        if op == "RandomUniform":
            return plus, plus + 1
        numbers = [_number(same, read) for read in reads] if op in ("Add", "AddV2") else []
        if 0 not in numbers and 1 not in numbers:
            return None
        at = next(at for at, number in enumerate(numbers) if number in (0, 1))
        plus += numbers[at] or 0
        code = reads[1 - at]


def _plain(same: Equivalence, code: int) -> tuple[str, list[int]]:
    reads, waited = same.edges(code >> BITS)
    return ("", []) if waited or code & PORT else (same.table.op(code >> BITS), reads)


def _number(same: Equivalence, code: int) -> float | None:
    found = constant(same.graph[same.table.names[code >> BITS]])
    value = found.values[0] if found is not None and found.shape == () and found.values else None
    return value if isinstance(value, float) else None


def _may_be_whole(node: Node) -> bool:
    """Returns whether a slice may be a slice of the whole tensor, or a reduction may combine single elements."""
    values = [found.values if (found := constant(read.node)) is not None else None for read in node.inputs[1:]]
    if node.op == "Slice":
        return values[0] is not None and not any(values[0])
    if node.op == "StridedSlice":
        masks = [node.setting(f"{key}_mask") for key in ("ellipsis", "new_axis", "shrink_axis")]
        return not any(masks) and values[2] is not None and all(step == 1 for step in values[2])
    if node.op in _SUMMING:
        return bool(node.setting("keep_dims")) or values[0] is None  # of a scalar nothing says so
    return True


def _awaited(same: Equivalence, control: Node, gone: set[str]) -> str:
    """Returns the node that replaces a control input: the inputs 0 of the removed nodes `gone` lead to it."""
    name = control.name
    while name in gone:
        reads, _ = same.edges(same.table.rows[name])
        if not reads:
            break
        name = same.table.names[reads[0] >> BITS]
    return name


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
