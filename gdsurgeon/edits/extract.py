"""extract: keeps only the part of a graph that computes some outputs from some inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from operator import not_

from gdsurgeon.analysis.queries.training import needed_initialisers
from gdsurgeon.analysis.traversal.control_flow import control_flow_of
from gdsurgeon.analysis.traversal.order import sorted_numbers
from gdsurgeon.analysis.traversal.topology import Topology, members, topology_of
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.edits.decorator import edit, of_tensors
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.replacing import check_outside_of_loops, distinct_outputs, put_placeholders
from gdsurgeon.errors import EditError, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import META_GRAPH
from gdsurgeon.ops.kinds import CONTROL_FLOW, IDENTITY, PLACEHOLDERS, UNSET_PLACEHOLDERS
from gdsurgeon.text import counted, named

_NO_WORK = PLACEHOLDERS | CONTROL_FLOW | IDENTITY | {"Const", "NoOp"}
"""Ops that compute nothing."""


@edit(inputs=of_tensors, outputs=of_tensors)
def extract(
    graph: Graph, inputs: Sequence[str | Output], outputs: Sequence[str | Output], *, sort: bool = False
) -> EditResult:
    """Reduces the graph to the part that computes `outputs` from `inputs`.

    An input that is not a placeholder becomes a placeholder of the same dtype and shape. If it is output 0 of its node,
    it keeps the name. Initialisers of needed variables and tables stay. Unused functions are removed. In a MetaGraph,
    the saver is removed, and the collections keep only the needed variables.

    Args:
        graph: changed in place.
        inputs: the tensors at which to cut. Other placeholders that the outputs need stay inputs. Tensors that no
            output needs are ignored if at least one is needed.
        outputs: at least one tensor.
        sort: write each node after its inputs, for programs that require this order.

    Raises:
        EditError: no such tensor, no output depends on an input, a tensor is inside a while loop, or nothing would be
            removed or sorted. The graph is unchanged.
    """
    if not outputs:
        raise EditError("no outputs: name the tensors that the extracted part computes", code="missing-argument")
    ends, starts = distinct_outputs(graph, outputs), distinct_outputs(graph, inputs)
    serving = serving_of(graph)
    return cut_down(graph, starts, ends, listed=serving is not None and serving.kind == META_GRAPH, sort=sort)


def cut_down(
    graph: Graph,
    starts: list[Output],
    ends: list[Output],
    also: Sequence[Node] = (),
    *,
    listed: bool = False,
    sort: bool = False,
) -> EditResult:
    """Reduces the graph as `extract` does, but keeps the nodes `also` with all that they depend on.

    For `listed` see `needed_initialisers`; for `sort` see `extract`.
    """
    topology = topology_of(graph)
    kept = needed(topology, starts, ends)
    read = {pair for number in members(kept) for pair in topology.reads(number)} if starts else set()
    unneeded = [output for output in starts if (topology.id_of(output.node), output.index) not in read]
    if unneeded:
        if len(unneeded) == len(starts):
            name = unneeded[0].name
            message = f"{quoted(name)} cannot be an input of the part: no output depends on it"
            raise EditError(message, code="not-needed", tensor=name)
        starts = [output for output in starts if output not in unneeded]
        kept = needed(topology, starts, ends)
    cut = _cuts(starts)
    check_outside_of_loops(graph, (*starts, *ends), ", which cannot be cut")
    flow = control_flow_of(graph)
    for output, end in (*((o, "input") for o in cut), *((o, "output") for o in ends if o not in starts)):
        if flow.of_tensor(topology.id_of(output.node), output.index):
            why = "is in a branch of a conditional: a placeholder in a branch would always have a value"
            if end == "output":
                why = "cannot be an output: it is in a branch of a conditional, and a branch does not always run"
            raise EditError(f"{quoted(output.name)} {why}", code="crosses-branch", tensor=output.name, end=end)
    result = EditResult()
    for name in (output.name for output in unneeded):
        text = f"input {quoted(name)} is not needed: no output depends on it"
        result.note(text, "not-needed", tensor=name)
    for number in topology.with_ops(UNSET_PLACEHOLDERS) if starts else ():
        if kept[number] and topology.node(number).output not in starts:
            text = f"{quoted(topology.name(number))} remains an input: the outputs depend on it"
            result.note(text, "stays-input", node=topology.name(number))
    result.notes += _waited_for(topology, starts, ends, kept)
    initialisers = needed_initialisers(topology, kept, listed=listed)
    for number in (*initialisers, *members(topology.upstream(map(topology.id_of, also)))):
        kept[number] = 1
    for number in topology.gone:
        kept[number] = 1
    going = dict.fromkeys(compress(topology.names(), map(not_, kept)))
    order = sorted_numbers(topology) if sort else []
    if not going and not cut and order == sorted(order):
        raise NothingToDo("nothing would be removed: the outputs need the whole graph")
    uses = {output: [use for use in graph.uses(output) if kept[topology.id_of(use.node)]] for output in cut}
    values = put_placeholders(graph, uses, going, result.intent)
    if sort:
        topology = topology_of(graph)
        graph.sort(map(topology.node, sorted_numbers(topology)))
        result.intent.is_sorted = True
        result.note("each node is written after its inputs", "sorted")
    result.intent.functions.removed = drop_unused_functions(graph)
    pairs = tuple((output.name, output.name) for output in ends if output not in cut)
    statement = equation([printable(name) for name in values], " given" if values else "")
    result.claims = (SameGiven(values, pairs, statement),)
    return result


def _cuts(starts: Sequence[Output]) -> list[Output]:
    return [output for output in starts if output.node.op not in PLACEHOLDERS]


def needed(topology: Topology, starts: Sequence[Output], ends: Sequence[Output], *, control: bool = True) -> bytearray:
    """Returns for each node whether `ends` need it if `starts` are given. `control`: follow control edges."""
    given = {topology.code(output) for output in _cuts(starts)}
    wanted = [topology.id_of(end.node) for end in ends if topology.code(end) not in given]
    return topology.upstream(wanted, given=given, control=control)


def _waited_for(
    topology: Topology, starts: Sequence[Output], ends: Sequence[Output], kept: bytearray
) -> Iterator[Remark]:
    """Yields a line if nodes are needed only because of control edges."""
    read = needed(topology, starts, ends, control=False)
    waited = [n for n in members(kept) if not read[n] and topology.op(n) not in _NO_WORK]
    if not waited:
        return
    edges = [(n, p) for n in members(read) for p, port in topology.reads(n) if port < 0 and not read[p]]
    user, producer = next((edge for edge in edges if edge[1] in waited), edges[0])
    names = [topology.name(n) for n in waited]
    yield Remark(
        f"{counted(len(names), 'node')} ({named(names, 3)}) {'stays' if len(names) == 1 else 'stay'} only because of "
        f"control dependencies, for example because {quoted(topology.name(user))} runs after "
        f"{quoted(topology.name(producer))}",
        "only-waited-for",
        nodes=names,
        node=topology.name(user),
        name=topology.name(producer),
    )
