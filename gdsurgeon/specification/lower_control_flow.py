"""The stage of compat that replaces loops, conditionals and calls by their nodes, and lists of tensors by arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, FunctionChanges, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import VARIANT
from gdsurgeon.ops.releases import Release, release, releases
from gdsurgeon.specification.sharing import branches_of, calling_nodes, used_functions

LISTS: Mapping[str, tuple[str, ...]] = {
    "TensorListFromTensor": ("TensorArrayScatterV3",),
    "TensorListGetItem": ("TensorArrayReadV3", "Identity"),
    "TensorListLength": ("TensorArraySizeV3",),
    "TensorListReserve": ("Identity", "Fill"),
    "TensorListSetItem": ("TensorArrayWriteV3", "Identity"),
    "TensorListStack": ("TensorArrayGatherV3", "ExpandDims"),
}
"""The forms of lists of tensors, if the release lacks such an op or has it with other inputs."""
BRANCHING = frozenset(("Case", "If", "StatelessCase", "StatelessIf"))
CALLING = BRANCHING | {"PartitionedCall", "StatefulPartitionedCall", "StatelessWhile", "While"}
"""Ops that are replaced by their functions if the release lacks one of them."""
FORWARDING = frozenset(("Identity", "IdentityN", "NoOp"))
"""The ops of nodes that replace such nodes and return their results."""
OF_LOOPS = frozenset(("Enter", "Exit", "Merge", "NextIteration", "Switch"))


def lower_control_flow(comparison: Comparison, target: str) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    wanted = release(target)
    assert wanted is not None
    before, after, facts = comparison.before, comparison.after, comparison.facts
    ops = _ops_of(before)
    lists = _has_other_lists(ops, wanted)
    lowered = _lowered(before) if lists or _lacks_calls(ops, wanted) else set()
    becoming = {name for name, altered in facts.altered.items() if "op" in altered} | lowered
    added = {name for name in facts.added if _scopes(name) & becoming}
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


def _ops_of(graph: Graph) -> set[str]:
    """Returns the ops of a graph and of the functions that it uses."""
    inner = (node.op for name in used_functions(graph) for node in graph.functions[name].node_def)
    return {*graph.store.table.op_names, *inner}


def _has_other_lists(ops: Iterable[str], wanted: Release) -> bool:
    """Returns whether the release lacks today's lists of tensors."""
    pairs = [(wanted.op_def(op), releases()[-1].op_def(op)) for op in ops if op in LISTS]
    return any(old is None or new is None or len(old.inputs) != len(new.inputs) for old, new in pairs)


def _lacks_calls(ops: set[str], wanted: Release) -> bool:
    """Returns whether the release lacks one of the ops that call functions; StatelessCase becomes Case."""
    called = {"Case" if op == "StatelessCase" else op for op in ops & CALLING}
    return any(wanted.op_def(op) is None for op in called)


def _lowered(before: Graph) -> set[str]:
    """Returns the nodes that are replaced by their functions."""
    return {node.name for node in calling_nodes(before) if node.op in CALLING or node.op in before.functions}


def _scopes(name: str) -> set[str]:
    """Returns the name scopes of `name`."""
    parts = name.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))}


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
