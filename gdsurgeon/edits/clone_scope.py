"""clone-scope: everything under a name scope once more under another."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import Literal

from gdsurgeon.analysis.queries.initialisers import initialisers
from gdsurgeon.analysis.traversal.boundary import Boundary, boundary
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs
from gdsurgeon.edits.cloning import Beside, LeftOut, Outside, left_out, variables_outside
from gdsurgeon.edits.naming import naming, of_tensors
from gdsurgeon.edits.node_copies import NodeCopy, plan_copy_nodes
from gdsurgeon.edits.reroute import check_can_replace
from gdsurgeon.errors import EditError, Line, Remark, UsageError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, free_scope, scope_prefix
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import ASSIGNMENTS, PASSES_ON, TENSOR_ARRAYS, is_variable
from gdsurgeon.select import compiled, is_constant, matching_ends, scopes, under_scope
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import counted, named, nearest, suggestion

_MOST_PAIRS = 8
"""Names that are told one by one."""


@public
@naming(inputs=of_tensors)
@edit
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
    """Copies everything under the scope SOURCE to the scope TARGET.

    The clone is wired to itself inside, and outside to what SOURCE reads, or to what INPUTS says. Weights are copied;
    while loops, tables, queues and variables get names of their own; colocations and control edges among the nodes are
    those among the clones. What initialises the cloned variables and tables from outside SOURCE is cloned with them.
    The saver of the model that GRAPH is part of, and what initialises that, are not: they work on the clone, too.

    Args:
        graph: changed in place.
        source: a name scope, with or without a slash at the end; the node named exactly like it belongs to it.
        target: the scope of the clone; it must not be in use.
        inputs: (old, new) tensors: what reads OLD in SOURCE has a clone that reads NEW.
        share: regular expressions; constants (and what is computed from constants alone) whose names match are not
            copied: the clone reads the originals.
        unique: where TARGET is in use, take TARGET_1, TARGET_2, ... as a whole, instead of refusing.
        variables: whether the clone gets variables of its own, or reads and trains the originals. Its own are those
            under SOURCE and those that calls of functions there are given; with ``all`` also those elsewhere that
            SOURCE reads.
        with_slots: whether the slots of optimisers, and the steps that need them, are cloned.

    Raises:
        UsageError: one of the scopes is empty, they are one, or a pattern is none.
        EditError: there is no such scope or tensor, TARGET is in use, types differ, a tensor of INPUTS is not read
            under SOURCE, a shared node is not constant, a while loop lies only in part under SOURCE, or functions
            restore variables, and something else with them; the graph is as it was.
    """
    topology = topology_of(graph)
    nodes = _under(topology, source)
    before, after = scope_prefix(source), _free_scope(graph, source, target, unique)
    shared = _shared(topology, nodes, share)
    left = left_out(topology, nodes, shares=variables == "share", with_slots=with_slots)
    cloned = _without(nodes, shared | left.nodes, source)
    replace, warnings = _replacements(graph, cloned, pairs_of(inputs))
    outside = variables_outside(topology, cloned, variables, source, replace)
    own = [*cloned, *outside.nodes]
    assigned = _initialisers(topology, own, left)
    beside = Beside(topology, own, left, before, after)
    names = _copy_names(graph, cloned, [*own, *assigned, *beside.nodes], before, after)
    replaced, respell = replace | beside.replaced, partial(_respell, before=before, after=after)
    plan = plan_copy_nodes(graph, names, names, replace=replaced, respell=respell, topology=topology)
    edges = boundary(own, topology)
    served = _served(graph, edges, frozenset(cloned))
    groups = beside.groups(topology, names)
    copied = plan.apply()
    left.forget(copied)
    beside.apply(copied, groups, intent := _intent(copied))
    same = _claim(before[:-1], after[:-1], edges.inputs if replace else [], served, copied, replace)
    notes = [*([] if groups else _initialised(copied, assigned)), *_notes(copied, shared, outside, left, beside)]
    return EditResult(intent, (SameOutputs(as_graphs=True), same, *beside.claims(copied, served)), warnings, notes)


def _intent(copied: NodeCopy) -> Intent:
    intent = copied.intent()
    intent.copied = {}  # the originals are no other graph's
    return intent


def _copy_names(
    graph: Graph, cloned: Sequence[Node], others: Sequence[Node], before: str, after: str
) -> dict[Node, str]:
    """What the copies of the nodes under the scope and of OTHERS are called."""
    names = {node: _name(node.name, before, after) for node in cloned}
    planned = set(names.values())
    free = UniqueNames(lambda name: name in planned or name in graph)
    outside = dict.fromkeys(node for node in others if node not in names)
    return names | {node: free(after + node.name.removeprefix(before)) for node in outside}


def _served(graph: Graph, edges: Boundary, nodes: Container[Node]) -> list[Output]:
    """What NODES are there for: their tensors that others read, and output 0 of those that nobody reads."""
    read = {output.node for output in edges.inside} | {o.node for o, uses in edges.outer_uses.items() if uses}
    return [
        output
        for output in edges.outputs
        if output.node in nodes
        and (
            edges.outer_uses[output]
            or (
                output.index == 0
                and output.node not in read
                and (output.node in edges.controls_out or not graph.users(output.node))
            )
        )
    ]


def _free_scope(graph: Graph, source: str, target: str, unique: bool) -> str:
    """TARGET as a prefix, in use by nobody."""
    if not scope_prefix(target):
        raise UsageError("the name of the clone's scope is empty", code="bad-name")
    if scope_prefix(target) == scope_prefix(source):
        raise UsageError(f"{quoted(source)} cannot be cloned onto itself", code="bad-name", name=source)
    stem = scope_prefix(target)[:-1]
    free = free_scope(graph.names(), stem)
    if free != stem and not unique:
        raise EditError(f"the scope {quoted(stem)} is in use", code="name-taken", advice="unique-scope", name=stem)
    return free + "/"


def _under(topology: Topology, source: str) -> list[Node]:
    if not scope_prefix(source):
        raise UsageError("the name of the scope to clone is empty", code="bad-name")
    found = list(under_scope(topology, source))
    if not found:
        scope, became = scope_prefix(source)[:-1], topology.graph.became(scope_prefix(source))
        near = nearest(scope, scopes(topology)) if not became else None
        more = f" does not exist any more: {became}" if became else f" does not exist.{suggestion(near)}"
        facts = {"name": scope, "near": near, "reason": became}
        raise EditError(f"scope {quoted(scope)}{more}".rstrip("."), code="no-such-scope", facts=facts)
    return [topology.node(number) for number in found]


def _shared(topology: Topology, nodes: Sequence[Node], patterns: Sequence[str]) -> set[Node]:
    """The nodes that the clone does not get a copy of."""
    if not patterns:
        return set()
    out: set[Node] = set()
    constant = is_constant(topology)
    for pattern in patterns:
        search = compiled(pattern).search
        with matching_ends():
            found = [node for node in nodes if search(node.name)]
        if not found:
            line = Line("{share} {pattern} matched 0 nodes of the scope", pattern=quoted(pattern))
            raise EditError(line, code="nothing-matched", value=pattern)
        for node in found:
            if not constant[topology.id_of(node)]:
                message = f"{quoted(node.name)} cannot be shared: it does not depend only on constants"
                raise EditError(message, code="not-a-constant", node=node.name)
        out.update(found)
    return out


def _initialisers(topology: Topology, nodes: Sequence[Node], left: LeftOut) -> list[Node]:
    """What lies outside and initialises the variables and tables among NODES, but for what is LEFT out."""
    inside = topology.flags(map(topology.id_of, nodes))
    return [topology.node(number) for number in initialisers(topology, inside, left.numbers)]


def _without(nodes: Sequence[Node], others: Container[Node], source: str) -> list[Node]:
    """Those of NODES, under the scope SOURCE, that are cloned, where OTHERS are not."""
    cloned = [node for node in nodes if node not in others]
    if not cloned:
        message = f"nothing would be cloned: every node in {quoted(source)} is shared or left out"
        raise EditError(message, code="nothing-left", name=source)
    _check_arrays(cloned)
    return cloned


def _check_arrays(nodes: Sequence[Node]) -> None:
    """A TensorArray takes each write once, and may be read once: what works on one is cloned with it, or not at all."""
    inside = set(nodes)
    for node in nodes:
        if not node.op.startswith("TensorArray") or not node.inputs or node.op in TENSOR_ARRAYS:
            continue
        source = node.inputs[0].node
        while source.op in PASSES_ON and source.inputs:
            source = source.inputs[0].node
        if source.op in TENSOR_ARRAYS and source not in inside:
            raise EditError(
                f"{quoted(node.name)} would be cloned, but not {quoted(source.name)}, the TensorArray that it "
                "reads or writes; each element of a TensorArray can be written only once",
                code="step-state",
                facts={"node": node.name, "name": source.name},
            )


def _replacements(
    graph: Graph, nodes: Sequence[Node], pairs: Sequence[tuple[str | Output, str | Output]]
) -> tuple[dict[Output, Output], list[str]]:
    """What the clone reads in place of what NODES do, by PAIRS; and what there is to be warned of."""
    out: dict[Output, Output] = {}
    warnings: list[str] = []
    read = {output for node in nodes for output in node.inputs} if pairs else set()
    for pair in pairs:
        old, new = (graph.output(item) for item in pair)
        if old in out:
            message = f"{quoted(old.name)} is replaced twice, by different tensors"
            raise EditError(message, code="given-twice", tensor=old.name)
        if old not in read:
            message = f"no node in the scope uses {quoted(old.name)}"
            raise EditError(message, code="no-consumers", tensor=old.name)
        check_can_replace(old, new)
        if not old.dtype or not new.dtype:
            text = f"the dtype of {quoted(old.name)} or {quoted(new.name)} is unknown, so they were not compared"
            warnings.append(Remark(text, "unknown-dtype", tensor=old.name, replacement=new.name))
        out[old] = new
    return out, warnings


def _name(name: str, before: str, after: str) -> str:
    return after + name[len(before) :] if name.startswith(before) else after[:-1]


def _respell(text: str, before: str, after: str) -> str:
    """The name of a frame or a shared name: it moves with the scope where it is under it, else under the clone's."""
    return _name(text, before, after) if text.startswith(before) or text == before[:-1] else after + text


def _claim(
    source: str,
    target: str,
    read: Sequence[Output],
    given: Sequence[Output],
    copied: NodeCopy,
    replace: dict[Output, Output],
) -> SameGiven:
    """The clone gives what the original gives on what the clone reads."""
    values = {output.name: copied.output(output).name for output in read}
    values |= {old.name: new.name for old, new in replace.items()}
    return SameGiven(
        given=values,
        outputs=tuple((output.name, copied.output(output).name) for output in given),
        statement=f"{target}(x) == {source}(x)",
        copies={old.name: new.name for old, new in copied.nodes.items()},
        beside=tuple(output.name for output in given),
        as_graphs=True,
    )


def _initialised(copied: NodeCopy, assigned: Sequence[Node]) -> list[str]:
    """What has to be run for the clone to have values."""
    inside = [node for node in copied.nodes if node.op in ASSIGNMENTS]
    found = [node for node in assigned if node.op in ASSIGNMENTS] or inside
    if not found or not (assigned or any(is_variable(node.op) for node in copied.nodes)):
        return []
    cloned = f"; the {len(assigned):,} nodes of their initializers are cloned as well" if assigned else ""
    names = [copied.nodes[node].name for node in found]
    return [
        Remark(
            f"to initialize the clone, run these nodes first: {named(names, 4, quoted)}{cloned}",
            "run-before",
            nodes=names,
        )
    ]


def _notes(copied: NodeCopy, shared: set[Node], *others: Outside | LeftOut | Beside) -> list[str]:
    out: list[str] = []
    count = sum(is_variable(node.op) for node in copied.nodes)
    if count:
        out.append(Remark(f"{counted(count, 'variable')} cloned", "variables-cloned", count=count))
    if shared:
        out.append(Remark(f"{counted(len(shared), 'node')} shared with the original", "shared", count=len(shared)))
    out += _pairs("while loop", "runs as", copied.frames)
    out += _pairs("shared name", "is", copied.shared_names)
    for name in copied.common:
        text = f"shared name {quoted(name)} stays common to both, because nodes outside the scope also use it"
        out.append(Remark(text, "stays-common", name=name))
    out += _pairs("function", "is", copied.functions)
    return out + [note for other in others for note in other.notes]


def _pairs(what: str, verb: str, names: Mapping[str, str]) -> list[Remark]:
    """A line for each of the NAMES of WHAT in the original, with that in the clone; one for all where they are many."""
    pairs = [f"{quoted(old)} {verb} {quoted(new)}" for old, new in names.items()]
    code = what.replace(" ", "-")
    if len(pairs) > _MOST_PAIRS:
        text = f"{counted(len(pairs), what)} renamed in the clone: {named(pairs, 2)}"
        return [Remark(text, code, renamed=dict(names))]
    return [
        Remark(f"{what} {pair} in the clone", code, renamed={old: new})
        for pair, (old, new) in zip(pairs, names.items(), strict=True)
    ]
