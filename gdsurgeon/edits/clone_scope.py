"""clone-scope: copies a name scope to a different name scope."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from gdsurgeon.analysis.queries.training import (
    first_values,
    initialisers,
    needing,
    saver_behind,
    saver_nodes,
    slots,
)
from gdsurgeon.analysis.shapes.arithmetic import check_can_replace
from gdsurgeon.analysis.traversal.topology import Topology, depending_on, topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs
from gdsurgeon.edits.decorator import edit, of_tensors
from gdsurgeon.edits.inline import is_call
from gdsurgeon.edits.node_copies import NodeCopy, plan_copy
from gdsurgeon.edits.saver import SaverUpdate, existing_nodes, files_restored
from gdsurgeon.errors import EditError, Line, Remark, UsageError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import UniqueNames, free_scope, scope_prefix
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    PASSES_ON,
    PLACEHOLDERS,
    RESOURCE_VARIABLES,
    TEMPORARY,
    TENSOR_ARRAYS,
    VARIABLE_READS,
    VARIABLES,
    is_variable,
)
from gdsurgeon.select import is_constant, matching, scopes, under_scope
from gdsurgeon.text import counted, named, nearest, suggestion

_MOST_PAIRS = 8
"""The largest number of names with a line each."""


@edit(inputs=of_tensors)
def clone_scope(
    graph: Graph,
    source: str,
    target: str,
    *,
    inputs: Pairs[str | Output, str | Output] = (),
    share: Sequence[str] = (),
    unique: bool = False,
    variables: Literal["clone", "share", "all"] = "clone",
    with_slots: bool = False,
) -> EditResult:
    """Copies all nodes under the scope `source` to the scope `target`.

    Inside, the copies use each other. Outside, they read what the originals read, unless `inputs` changes it. Weights
    are copied. Loops, tables, queues and variables get new names. Initialisers of cloned variables and tables are also
    cloned. The saver and the initialisers of the graph's model also work on the clone.

    Args:
        graph: changed in place.
        source: a name scope, with or without a slash at the end. The node of this name belongs to it.
        target: the scope of the clone, which must not be in use.
        inputs: pairs of tensors (old, new): the copies read NEW instead of OLD.
        share: regular expressions. The clone uses the original nodes with matching names, which must be constants or
            depend only on constants.
        unique: if `target` is in use, take TARGET_1, TARGET_2, ... instead of raising an error.
        variables: ``clone``: clone the variables under `source`, and those that are arguments of function calls there;
            ``all``: clone all variables that `source` reads; ``share``: clone no variables.
        with_slots: also clone the slots of optimisers, and the training steps that need them.

    Raises:
        UsageError: a scope is empty, the scopes are equal, or a regular expression is invalid.
        EditError: no such scope or tensor; `target` is in use; types differ; no node under `source` reads a tensor of
            `inputs`; a shared node is not constant; a while loop is only partly under `source`; or functions restore
            variables together with other things. The graph is unchanged.
    """
    topology = topology_of(graph)
    nodes = _nodes_under(topology, source)
    before, after = scope_prefix(source), _free_scope(graph, source, target, unique)
    shared = _shared(topology, nodes, share)
    saver, excluded, excluded_notes = excluded_nodes(
        topology, nodes, shares=variables == "share", with_slots=with_slots
    )
    left = frozenset(map(topology.node, excluded))
    cloned = [node for node in nodes if node not in shared and node not in left]
    if not cloned:
        message = f"nothing would be cloned: every node in {quoted(source)} is shared or left out"
        raise EditError(message, code="nothing-left", name=source)
    _check_arrays(graph, cloned)
    replace, warnings = _replacements(graph, cloned, pairs_of(inputs))
    outside, notes = variables_outside(topology, cloned, variables, source, replace)
    own = [*cloned, *outside]
    inside = topology.flags(map(topology.id_of, own))
    assigned = [topology.node(number) for number in initialisers(topology, inside, excluded)]
    update = SaverUpdate(topology, own, saver, before, after)

    def respell(text: str) -> str:  # a name, a frame or a shared name, always under the scope of the clone
        return after[:-1] if text == before[:-1] else after + text.removeprefix(before)

    names = {node: respell(node.name) for node in cloned}
    planned = set(names.values())
    unique_name = UniqueNames(lambda name: name in planned or name in graph)
    for node in dict.fromkeys((*own, *assigned, *update.nodes)):
        if node not in names:
            names[node] = unique_name(after + node.name.removeprefix(before))
    replaced = replace | update.replaced
    plan = plan_copy(graph, graph, nodes=names, names=names, replace=replaced, respell=respell)
    served = _served(topology, cloned, inside)
    update.find_groups(topology, names)
    copied = plan.apply()
    for node, copy in copied.nodes.items() if left else ():
        if any(control in left for control in node.controls):  # nodes of the original
            graph.set_controls(copy, [copied.node(control) for control in node.controls if control not in left])
    intent = copied.intent()
    intent.copied = {}  # the originals are nodes of the same graph
    update.apply(copied, intent)
    members = frozenset(own)
    fed = [node.name for node in cloned if node.op in PLACEHOLDERS]
    # The clone may read a node outside that depends on an input of the original, which has its own value.
    dependent = depending_on(graph, fed) if fed else frozenset()
    read = [tensor for node in own for tensor in node.inputs if tensor.node not in members] if replace or fed else []
    values = {tensor.name: copied.output(tensor).name for tensor in read if replace or tensor.node.name in dependent}
    same = SameGiven(
        given=values | {old.name: new.name for old, new in replace.items()},
        outputs=tuple((output.name, copied.output(output).name) for output in served),
        statement=f"{after[:-1]}(x) == {before[:-1]}(x)",
        copies={old.name: new.name for old, new in copied.nodes.items()},
        as_graphs=True,
    )
    notes = [
        *_notes(copied, assigned if not update.groups else None, len(shared)),
        *notes,
        *excluded_notes,
        *update.notes,
    ]
    return EditResult(intent, (SameOutputs(as_graphs=True), same, *update.claims(copied, served)), warnings, notes)


def _served(topology: Topology, nodes: Iterable[Node], inside: Sequence[int]) -> list[Output]:
    """Returns the outputs of `nodes` that nodes outside of the clone read, and output 0 of nodes without consumers."""
    numbers = {topology.id_of(node): node for node in nodes}
    read: set[int] = set()
    outside: dict[int, set[int]] = {}  # the outputs of each node that nodes outside of the clone use, -1 for control
    for user in {user for number in numbers for user in topology.users(number)}:
        for producer, index in topology.reads(user):
            if index >= 0:
                read.add(producer)
            if producer in numbers and not inside[user]:
                outside.setdefault(producer, set()).add(index)
    out: list[Output] = []
    for number, node in numbers.items():
        found = sorted(outside.get(number, set()) - {-1})
        if number not in read and node.output_count != 0 and (number in outside or not topology.users(number)):
            found = [0]
        out += [Output(node, index) for index in found]
    return out


def _nodes_under(topology: Topology, source: str) -> list[Node]:
    if not scope_prefix(source):
        raise UsageError("the name of the scope to clone is empty", code="bad-name")
    found = [topology.node(number) for number in under_scope(topology, source)]
    if not found:
        scope, became = scope_prefix(source)[:-1], topology.graph.became(scope_prefix(source))
        near = nearest(scope, scopes(topology)) if not became else None
        more = f" does not exist any more: {became}" if became else f" does not exist.{suggestion(near)}"
        raise EditError(
            f"scope {quoted(scope)}{more}".rstrip("."), code="no-such-scope", name=scope, near=near, reason=became
        )
    return found


def _free_scope(graph: Graph, source: str, target: str, unique: bool) -> str:
    """Returns the prefix of the clone's names, which no node has."""
    if not scope_prefix(target):
        raise UsageError("the name of the clone's scope is empty", code="bad-name")
    if scope_prefix(target) == scope_prefix(source):
        raise UsageError(f"{quoted(source)} cannot be cloned onto itself", code="bad-name", name=source)
    stem = scope_prefix(target)[:-1]
    free = free_scope(graph.names(), stem)
    if free != stem and not unique:
        raise EditError(f"the scope {quoted(stem)} is in use", code="name-taken", advice="unique-scope", name=stem)
    return free + "/"


def _shared(topology: Topology, nodes: Sequence[Node], patterns: Sequence[str]) -> set[Node]:
    """Returns the nodes whose names match `patterns`: the clone uses the originals."""
    out: set[Node] = set()
    for pattern in patterns:
        found = matching([pattern], nodes, lambda node: node.name)
        if not found:
            line = Line("{share} {pattern} matched 0 nodes of the scope", pattern=quoted(pattern))
            raise EditError(line, code="nothing-matched", value=pattern)
        constant = is_constant(topology)
        for node in found:
            if not constant[topology.id_of(node)]:
                message = f"{quoted(node.name)} cannot be shared: it does not depend only on constants"
                raise EditError(message, code="not-a-constant", node=node.name)
        out.update(found)
    return out


def _check_arrays(graph: Graph, nodes: Sequence[Node]) -> None:
    """Raises EditError if a user of a TensorArray is cloned without it: each element can be written only once."""
    topology, inside = topology_of(graph), set(nodes)
    ops = {op for op in topology.ops() - TENSOR_ARRAYS if op.startswith("TensorArray")}
    for node in map(topology.node, topology.with_ops(ops)):
        if node not in inside or not node.inputs:
            continue
        source = node.inputs[0].node
        while source.op in PASSES_ON and source.inputs:
            source = source.inputs[0].node
        if source.op in TENSOR_ARRAYS and source not in inside:
            raise EditError(
                f"{quoted(node.name)} would be cloned, but not {quoted(source.name)}, the TensorArray that it "
                "reads or writes; each element of a TensorArray can be written only once",
                code="step-state",
                node=node.name,
                name=source.name,
            )


def _replacements(
    graph: Graph, nodes: Sequence[Node], pairs: Sequence[tuple[str | Output, str | Output]]
) -> tuple[dict[Output, Output], list[str]]:
    """Returns the tensors that the copies of `nodes` read instead of others, and warnings."""
    out: dict[Output, Output] = {}
    warnings: list[str] = []
    read = {output for node in nodes for output in node.inputs} if pairs else set()
    for pair in pairs:
        old, new = (graph.output(item) for item in pair)
        if old in out:
            message = f"{quoted(old.name)} is replaced twice, by different tensors"
            raise EditError(message, code="given-twice", tensor=old.name)
        if old not in read:
            raise EditError(f"no node in the scope uses {quoted(old.name)}", code="no-consumers", tensor=old.name)
        check_can_replace(old, new)
        if not old.dtype or not new.dtype:
            text = f"the dtype of {quoted(old.name)} or {quoted(new.name)} is unknown, so they were not compared"
            warnings.append(Remark(text, "unknown-dtype", tensor=old.name, replacement=new.name))
        out[old] = new
    return out, warnings


def _notes(copied: NodeCopy, assigned: Sequence[Node] | None, shared: int) -> Iterator[str]:
    """Yields notes about the names in the clone.

    Args:
        copied: the clone.
        assigned: the nodes of initialisers that are cloned as well; None: a group of initialisers also runs them.
        shared: the number of nodes that the clone shares with the original.
    """
    variables = sum(is_variable(node.op) for node in copied.nodes)
    found = [node for node in assigned or copied.nodes if node.op in ASSIGNMENTS]
    if assigned is not None and found and (assigned or variables):
        cloned = f"; the {len(assigned):,} nodes of their initializers are cloned as well" if assigned else ""
        names = [copied.nodes[node].name for node in found]
        text = f"to initialize the clone, run these nodes first: {named(names, 4, quoted)}{cloned}"
        yield Remark(text, "run-before", nodes=names)
    if variables:
        yield Remark(f"{counted(variables, 'variable')} cloned", "variables-cloned", count=variables)
    if shared:
        yield Remark(f"{counted(shared, 'node')} shared with the original", "shared", count=shared)
    for what, new in (("while loop", copied.frames), ("shared name", copied.shared_names)):
        yield from _renamed(what, new)
    for name in copied.common:
        text = f"shared name {quoted(name)} stays common to both, because nodes outside the scope also use it"
        yield Remark(text, "stays-common", name=name)
    yield from _renamed("function", copied.functions)


def _renamed(what: str, names: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each new name in the clone, or one line for many names."""
    code = what.replace(" ", "-")
    pairs = {old: f"{quoted(old)} is {quoted(new)}" for old, new in names.items()}
    if len(pairs) > _MOST_PAIRS:
        text = f"{counted(len(pairs), what)} renamed in the clone: {named(list(pairs.values()), 2)}"
        yield Remark(text, code, renamed=dict(names))
        return
    for old, pair in pairs.items():
        yield Remark(f"{what} {pair} in the clone", code, renamed={old: names[old]})


# -- variables outside of the scope ------------------------------------------------------------------------


def variables_outside(
    topology: Topology, nodes: Sequence[Node], which: str, source: str, replaced: Iterable[Output]
) -> tuple[list[Node], list[str]]:
    """Returns the variables outside of a scope that are cloned with it, with the nodes that connect them.

    Also returns a line about the other variables that the scope reads. A function contains no variables: the variables
    that it reads are arguments of its calls.

    Args:
        topology: the topology of the graph.
        nodes: the cloned nodes of the scope.
        which: ``clone``: the resource variables that are arguments of function calls among `nodes`; ``all``: the
            variables that any of `nodes` reads; ``share``: no variables.
        source: the scope.
        replaced: tensors that the clone does not read.
    """
    if which == "share" or not any(map(is_variable, topology.ops())):
        return [], []
    inside, without = topology.flags(map(topology.id_of, nodes)), {topology.code(output) for output in replaced}
    variables = RESOURCE_VARIABLES | VARIABLES - TEMPORARY
    found = everything = _paths_from(topology, nodes, without, PASSES_ON | VARIABLE_READS, variables)
    if which == "clone":
        calls = [node for node in nodes if is_call(node.op, topology.graph)]
        found = _paths_from(topology, calls, without, PASSES_ON, RESOURCE_VARIABLES)
    others = sorted(n for n in set(everything).difference(found) if is_variable(topology.op(n)) and not inside[n])
    notes: list[str] = []
    if others:
        names = [topology.name(number) for number in others]
        stay = "stays" if len(others) == 1 else "stay"
        outside = f"{counted(len(others), 'variable')} outside of {quoted(source.strip('/'))}"
        text = f"{outside} {stay} shared with the original: {named(names, 3, quoted)}"
        notes.append(Remark(text, "stays-common", nodes=names))
    return [topology.node(number) for number in sorted(found) if not inside[number]], notes


def _paths_from(
    topology: Topology, nodes: Sequence[Node], replaced: Container[int], through: Container[str], ends: Container[str]
) -> list[int]:
    """Returns the producers of `nodes` whose op is in `ends`, and the paths to such producers over ops in `through`."""
    leads: dict[int, bool] = {}
    for node in nodes:
        for start, index in topology.reads(topology.id_of(node)):
            if index < 0 or start in leads or start << Table.PORT_BITS | index in replaced:
                continue
            path = [start]
            while path[-1] not in leads and topology.op(path[-1]) in through:
                leads[path[-1]] = False
                path += topology.data_producers(path[-1])[:1]
            found = leads.get(path[-1], False) or topology.op(path[-1]) in ends
            leads.update((number, found) for number in path)
    return [number for number, found in leads.items() if found]


# -- nodes that are left out -------------------------------------------------------------------------------


def excluded_nodes(
    topology: Topology, nodes: Sequence[Node], *, shares: bool, with_slots: bool
) -> tuple[set[int], set[int], list[str]]:
    """Returns the nodes of savers, all excluded nodes, and a line for each kind of excluded variable.

    Excluded are the nodes of savers, and the nodes that a loader runs or feeds; also the variables and their initial
    values if the clone `shares` the variables; and the slots of optimisers, and the nodes that need them, without
    `with_slots`.
    """
    numbers = [topology.id_of(node) for node in nodes]
    inside = topology.flags(numbers)
    files = files_restored(topology)
    saver = saver_nodes(topology) | (saver_behind(topology, files) if files else set())
    fixed = set(saver)
    serving = serving_of(topology.graph)
    for run in serving.runs if serving is not None else ():
        fixed.update(existing_nodes(topology, run.feeds))
        pending = existing_nodes(topology, run.targets)
        for number in pending:  # grows during the loop, by the members of groups
            pending += [p for p in topology.producers(number) if topology.op(number) == topology.op(p) == "NoOp"]
        fixed.update(pending)
    excluded: set[int] = set()
    notes: list[str] = []
    kept = [] if with_slots else slots(topology, numbers)
    if kept:
        excluded = needing(topology, kept, inside, fixed)
        names = [topology.name(number) for number in kept]
        text = f"{counted(len(kept), 'optimizer slot')} not cloned: {named(names, 3, quoted)}"
        notes.append(Remark(text, "slots-not-cloned", nodes=names))
    if shares:
        own = {number for number in numbers if is_variable(topology.op(number))} - excluded
        excluded |= own | first_values(topology, own, inside)
        if own:
            text = f"{counted(len(own), 'variable')} shared with the original"
            notes.append(Remark(text, "variables-shared", count=len(own)))
    return saver, fixed | excluded, notes
