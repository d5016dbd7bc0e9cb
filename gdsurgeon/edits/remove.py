"""remove: takes nodes out of a graph, and mends what is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.analysis.shapes import compatible, describe, stated_shape
from gdsurgeon.analysis.signature import output_nodes
from gdsurgeon.analysis.topology import Topology
from gdsurgeon.edits.outputs import unrenamed_outputs
from gdsurgeon.edits.placeholders import add_placeholder, check_replaceable, known_shapes
from gdsurgeon.edits.unused_functions import drop_unused_functions
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import EditResult, Journal, Rewired, SameGiven
from gdsurgeon.graph.node import Node, Output, same_dtype
from gdsurgeon.select import Selection, select_nodes


def remove(
    graph: Graph,
    selection: Selection | Iterable[Node],
    *,
    bypass: bool = False,
    bypass_input: int | None = None,
    dangling: str | None = None,
    allow_outputs: bool = False,
) -> EditResult:
    """Removes the selected nodes.

    A node that waited for one of them waits for what that waited for; colocations with them are dropped, and so are
    functions that nobody calls any more.

    Args:
        graph: changed in place.
        selection: which nodes.
        bypass: what reads a removed node reads the node's input instead: its only input that is not a constant.
        bypass_input: with BYPASS, the input that is meant, counted from 0.
        dangling: ``placeholder``: what reads a removed node reads a placeholder of that dtype and shape instead.
        allow_outputs: whether outputs of the graph may be removed.

    Raises:
        EditError: something still reads one of the nodes, one of them is an output of the graph, or no input or
            placeholder can take its place; the graph is as it was.
    """
    nodes = select_nodes(graph, selection) if isinstance(selection, Selection) else list(dict.fromkeys(selection))
    if not nodes:
        raise EditError("nothing is selected: there is nothing to remove")
    members = dict.fromkeys(nodes)
    read = _outer_reads(graph, members)
    if not bypass and dangling is None:
        _check_unread(read)
    if not allow_outputs:
        _check_no_outputs(graph, members)
    journal = Journal(removed=[node.name for node in nodes])
    place: dict[Output, Output] = {}
    placeholders: dict[Output, str] = {}
    if bypass:
        place = {output: _bypass(output, members, bypass_input) for output in read}
    elif dangling is not None:
        placeholders = _placeholder_names(graph, read, members)
    shapes = known_shapes(graph, placeholders)
    given = {output.name: new.name for output, new in place.items()} | {o.name: n for o, n in placeholders.items()}

    _mend_controls(graph, members, bypass, journal)
    for node in nodes:
        for other in graph.colocated_with(node):
            if other not in members:
                graph.set_colocated(other, [o for o in other.colocated if o not in members])
    _redirect(graph, read, place, journal)
    dtypes = {output: output.dtype for output in placeholders}
    _exchange(graph, nodes, read, placeholders, dtypes, shapes, journal)
    journal.functions.removed = drop_unused_functions(graph)
    statement = "edited(x) = original(x)"
    if given:
        shown = ", ".join(f"{printable(old)} := {printable(new)}" for old, new in list(given.items())[:3])
        statement = f"edited(x) = original(x, {shown}{', ...' if len(given) > 3 else ''})"
    return EditResult(journal, (SameGiven(given, unrenamed_outputs(graph), statement),))


Reads = dict[Output, list[tuple[Node, int]]]


def _outer_reads(graph: Graph, members: dict[Node, None]) -> Reads:
    """The outputs of MEMBERS that others read, with the places where they do."""
    out: Reads = {}
    for node in members:
        for user in graph.users(node):
            if user not in members:
                for slot, read in enumerate(user.inputs):
                    if read.node is node:
                        out.setdefault(read, []).append((user, slot))
    return out


def _check_unread(read: Reads) -> None:
    if not read:
        return
    lines = tuple(f"{quoted(user.name)} reads {quoted(o.name)}" for o, places in read.items() for user, _ in places)
    hint = "--bypass has readers take the node's input, --dangling placeholder a placeholder"
    if len(lines) == 1:
        output, places = next(iter(read.items()))
        raise EditError(
            f"{quoted(output.node.name)} cannot be removed: {quoted(places[0][0].name)} reads it", hint=hint
        )
    more = (f"and {len(lines) - 20:,} more",) if len(lines) > 20 else ()
    raise EditError("the selected nodes are still read:", details=lines[:20] + more, hint=hint)


def _check_no_outputs(graph: Graph, members: dict[Node, None]) -> None:
    outputs = [node for node in output_nodes(graph, Topology(graph)) if node in members]
    if outputs:
        names = ", ".join(quoted(node.name) for node in outputs[:5]) + (", ..." if len(outputs) > 5 else "")
        raise EditError(
            f"{names}: {'an output' if len(outputs) == 1 else 'outputs'} of the graph would be removed",
            hint="--allow-outputs lets that happen; extract --outputs cuts a graph down to some outputs",
        )


def _bypass(output: Output, members: dict[Node, None], which: int | None) -> Output:
    """What takes the place of OUTPUT: the input of its node, or of the nodes before it that are removed as well."""
    seen: set[Output] = set()
    start = output
    while output.node in members:
        if output in seen:
            raise EditError(f"{quoted(start.name)} cannot be bypassed: it is a loop of removed nodes")
        seen.add(output)
        output = _input_of(output, which)
    if not same_dtype(start.dtype, output.dtype) or not compatible(stated_shape(start), stated_shape(output)):
        raise EditError(
            f"{quoted(start.name)} ({describe(start)}) cannot be bypassed: its input {quoted(output.name)} "
            f"is {describe(output)}"
        )
    return output


def _input_of(output: Output, which: int | None) -> Output:
    node = output.node
    where = f"{quoted(node.name)} ({printable(node.op)})"
    if which is not None:
        if which >= len(node.inputs):
            raise EditError(f"{where} cannot be bypassed by input {which}: it has {len(node.inputs)}")
        return node.inputs[which]
    if not node.inputs:
        raise EditError(f"{where} cannot be bypassed: it has no input")
    if len(node.inputs) == len(node.output_dtypes or (0,)):
        return node.inputs[output.index]
    if output.index:
        raise EditError(f"{where} cannot be bypassed: its output {output.index} is no input's counterpart")
    found = [read for read in node.inputs if read.node.op != "Const"]
    if len(found) != 1:
        names = ", ".join(quoted(read.name) for read in node.inputs)
        raise EditError(
            f"{where} cannot be bypassed: it has several inputs ({names})", hint="--bypass-input N says which is meant"
        )
    return found[0]


def _placeholder_names(graph: Graph, read: Reads, members: dict[Node, None]) -> dict[Output, str]:
    """A name for each placeholder: that of its node, where it stands for output 0."""
    for output in read:
        check_replaceable(output)
    unique = graph.unique_names()
    del members
    return {o: o.node.name if not o.index else unique(f"{o.node.name}_{o.index}") for o in read}


def _mend_controls(graph: Graph, members: dict[Node, None], bypass: bool, journal: Journal) -> None:
    """Who waited for a removed node waits for what that waited for (bypassed: for what it read, too)."""
    waiting = dict.fromkeys(user for node in members for user in graph.users(node) if user not in members)
    for user in waiting:
        if not any(control in members for control in user.controls):
            continue
        new: dict[Node, None] = {}
        seen: set[Node] = set()
        pending = list(reversed(user.controls))
        while pending:
            control = pending.pop()
            if control not in members:
                new[control] = None
            elif control not in seen:
                seen.add(control)
                before = [*control.controls, *((read.node for read in control.inputs) if bypass else ())]
                pending.extend(reversed(before))
        new.pop(user, None)
        graph.set_controls(user, new)
        journal.changed.append(user.name)


def _redirect(graph: Graph, read: Reads, place: dict[Output, Output], journal: Journal) -> None:
    changes: dict[Node, dict[int, Output]] = {}
    for output, new in place.items():
        for user, slot in read[output]:
            changes.setdefault(user, {})[slot] = new
            journal.rewired.append(Rewired(user.name, slot, output.name, new.name))
    graph.set_slots(changes)


def _exchange(
    graph: Graph,
    nodes: Sequence[Node],
    read: Reads,
    placeholders: dict[Output, str],
    dtypes: dict[Output, int],
    shapes: dict[Output, tuple[int, ...] | None],
    journal: Journal,
) -> None:
    """Removes NODES; placeholders that take their places get their names as soon as those are free."""
    unique = graph.unique_names()
    made: dict[Node, str] = {}
    changes: dict[Node, dict[int, Output]] = {}
    for output, name in placeholders.items():
        node = add_placeholder(graph, unique(f"{name}_placeholder"), dtypes[output], shapes[output], after=output.node)
        made[node] = name
        for user, slot in read[output]:
            changes.setdefault(user, {})[slot] = node.output
    graph.set_slots(changes)
    graph.remove(nodes)
    if made:
        graph.rename(made)
    journal.added = list(made.values())
    journal.removed = [name for name in journal.removed if name not in set(journal.added)]
