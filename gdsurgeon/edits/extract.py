"""extract: the part of a graph that computes some outputs from some inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.analysis.queries.initialisers import needed_initialisers
from gdsurgeon.analysis.traversal.control_flow import control_flow, while_frames
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Altered, Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.naming import naming, of_tensors
from gdsurgeon.edits.replacing import add_placeholder, drop_colocations, known_shapes
from gdsurgeon.errors import EditError, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import check_name
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import META_GRAPH
from gdsurgeon.ops.kinds import CONTROL_FLOW, IDENTITY, PLACEHOLDERS, UNSET_PLACEHOLDERS
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import counted, named

_NO_WORK = PLACEHOLDERS | CONTROL_FLOW | IDENTITY | {"Const", "NoOp"}
"""Ops of nodes that nobody minds: they compute nothing."""


@public
@naming(inputs=of_tensors, outputs=of_tensors)
@edit
def extract(graph: Graph, inputs: Sequence[str | Output], outputs: Sequence[str | Output]) -> EditResult:
    """Cuts GRAPH down to what computes OUTPUTS from INPUTS.

    An input that is no placeholder becomes one, with its dtype and shape and, where it is output 0, its name.
    Initialisers of the variables and tables that stay stay too; functions that nobody calls any more leave. Of a
    MetaGraph the saver leaves, and the collections keep the variables that stay.

    Args:
        graph: changed in place.
        inputs: tensors at which to cut; other placeholders that the outputs depend on stay inputs. Of several those
            that no output depends on are passed over.
        outputs: tensors, of which at least one is given.

    Raises:
        EditError: no such tensor, no output depends on an input, a cut inside a while loop, or nothing would be
            removed; the graph is as it was.
    """
    if not outputs:
        raise EditError("no outputs: name the tensors that the extracted part computes", code="missing-argument")
    ends = list(dict.fromkeys(graph.output(item) for item in outputs))
    starts = list(dict.fromkeys(graph.output(item) for item in inputs))
    serving = serving_of(graph)
    return cut_down(graph, starts, ends, listed=serving is not None and serving.kind == META_GRAPH)


def cut_down(
    graph: Graph, starts: list[Output], ends: list[Output], also: Sequence[Node] = (), *, listed: bool = False
) -> EditResult:
    """What `extract` does; ALSO stays, with all that it depends on; LISTED: see `needed_initialisers`."""
    topology = topology_of(graph)
    kept = needed(topology, starts, ends)
    unneeded = _unneeded(topology, starts, kept)
    if unneeded:
        starts = [output for output in starts if output not in unneeded]
        kept = needed(topology, starts, ends)
    cut = _cuts(starts)
    _check(topology, starts, ends)
    notes: list[str] = [
        *(
            Remark(f"input {quoted(name)} is not needed: no output depends on it", "not-needed", tensor=name)
            for name in (output.name for output in unneeded)
        ),
        *_stays(topology, starts, kept),
        *_waited_for(topology, starts, ends, kept),
    ]
    initialisers = needed_initialisers(topology, kept, listed=listed)
    for number in (*initialisers, *members(topology.upstream(map(topology.id_of, also)))):
        kept[number] = 1
    shapes = known_shapes(graph, cut)
    going = [topology.node(number) for number in topology.numbers() if not kept[number]]
    if not going and not cut:
        raise NothingToDo("nothing would be removed: the outputs need the whole graph")
    intent = Intent(removed=[node.name for node in going])

    names = _cut(graph, cut, kept, topology, shapes, intent)
    drop_colocations(graph, going)
    graph.remove(going)
    taken = {name: node for node, name in names.items() if node.name != name}
    if taken:
        graph.rename({node: name for name, node in taken.items()})
    intent.removed = [name for name in intent.removed if name not in set(names.values())]
    intent.functions.removed = drop_unused_functions(graph)
    values = dict(zip((output.name for output in cut), names.values(), strict=True))
    pairs = tuple((output.name, output.name) for output in ends if output not in cut)
    statement = equation([printable(name) for name in values], " given" if values else "")
    return EditResult(intent, (SameGiven(values, pairs, statement),), [], notes)


def _cuts(starts: Sequence[Output]) -> list[Output]:
    return [output for output in starts if output.node.op not in PLACEHOLDERS]


def needed(topology: Topology, starts: Sequence[Output], ends: Sequence[Output], *, control: bool = True) -> bytearray:
    """For each node whether it is needed for ENDS when STARTS are given."""
    given = {topology.code(output) for output in _cuts(starts)}
    wanted = [topology.id_of(end.node) for end in ends if topology.code(end) not in given]
    return topology.upstream(wanted, given=given, control=control)


def _unneeded(topology: Topology, starts: Sequence[Output], kept: bytearray) -> list[Output]:
    """Those of STARTS that nothing which is KEPT reads. Raises EditError where that is so of all."""
    read = {pair for number in members(kept) for pair in topology.reads(number)} if starts else set()
    out = [output for output in starts if (topology.id_of(output.node), output.index) not in read]
    if out and len(out) == len(starts):
        message = f"{quoted(out[0].name)} cannot be an input of the part: no output depends on it"
        raise EditError(message, code="not-needed", tensor=out[0].name)
    return out


def _stays(topology: Topology, starts: Sequence[Output], kept: bytearray) -> list[Remark]:
    """A line for each placeholder that is needed beside STARTS."""
    names = [
        topology.name(n)
        for n in topology.with_ops(UNSET_PLACEHOLDERS)
        if starts and kept[n] and Output(topology.node(n), 0) not in starts
    ]
    return [Remark(f"{quoted(n)} remains an input: the outputs depend on it", "stays-input", node=n) for n in names]


def _waited_for(
    topology: Topology, starts: Sequence[Output], ends: Sequence[Output], kept: bytearray
) -> Iterable[Remark]:
    """A line where something is computed only because somebody waits for it."""
    read = needed(topology, starts, ends, control=False)
    waited = [n for n in members(kept) if not read[n] and topology.op(n) not in _NO_WORK]
    if not waited:
        return
    edges = [(n, p) for n in members(read) for p, port in topology.reads(n) if port < 0 and not read[p]]
    user, producer = next((edge for edge in edges if edge[1] in waited), edges[0])
    names = [topology.name(n) for n in waited]
    one = len(names) == 1
    yield Remark(
        f"{counted(len(names), 'node')} ({named(names, 3)}) {'stays' if one else 'stay'} only because of "
        f"control dependencies, for example because {quoted(topology.name(user))} runs after "
        f"{quoted(topology.name(producer))}",
        "only-waited-for",
        nodes=names,
        node=topology.name(user),
        name=topology.name(producer),
    )


def _check(topology: Topology, starts: Sequence[Output], ends: Sequence[Output]) -> None:
    frames = while_frames(topology)
    for output in starts:
        if output.node.op not in PLACEHOLDERS:
            check_typed(output)
            check_name(output.node.name)
    for output in (*starts, *ends):
        frame = frames.of[topology.id_of(output.node)]
        if frame >= 0:
            raise EditError(
                f"{quoted(output.name)} is inside the while loop {quoted(frames.names[frame])}, which cannot be cut",
                code="crosses-loop",
                facts={"tensor": output.name, "loop": frames.names[frame]},
            )
    flow = control_flow(topology)
    for output in starts:
        if output.node.op not in PLACEHOLDERS and flow.of_tensor(topology.id_of(output.node), output.index):
            raise EditError(
                f"{quoted(output.name)} is in a branch of a conditional: a placeholder in "
                "a branch would always have a value",
                code="crosses-branch",
                facts={"tensor": output.name, "end": "input"},
            )
    for output in ends:
        if output not in starts and flow.of_tensor(topology.id_of(output.node), output.index):
            raise EditError(
                f"{quoted(output.name)} cannot be an output: it is in a branch of a conditional, "
                "and a branch does not always run",
                code="crosses-branch",
                facts={"tensor": output.name, "end": "output"},
            )


def _cut(
    graph: Graph,
    cut: Sequence[Output],
    kept: bytearray,
    topology: Topology,
    shapes: dict[Output, tuple[int, ...] | None],
    intent: Intent,
) -> dict[Node, str]:
    """Puts placeholders in the place of the tensors CUT; returns them with the names that they are to have."""
    unique = graph.unique_names()
    out: dict[Node, str] = {}
    for output in cut:
        stays = kept[topology.id_of(output.node)]
        name = output.node.name
        if output.index or stays:
            name = unique(f"{name}_{output.index}")
        first_name = name if name not in graph else unique(f"{name}_input")
        node = add_placeholder(graph, first_name, output.dtype, shapes[output], after=output.node)
        uses = [use for use in graph.uses(output) if kept[topology.id_of(use.node)]]
        graph.reroute(uses, node.output)
        intent.rewired += [Rewired(use.node.name, use.slot, output.name, name) for use in uses]
        out[node] = name
        intent.added.append(name)
        intent.altered.append(Altered(name, "attr shape", node.attr_bytes("shape")))
    return out
