"""The stages of simplify on a graph or on the body of a function: each one is checked separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes.inference import called_shapes
from gdsurgeon.analysis.traversal.topology import Topology, members, topology_of
from gdsurgeon.compare.intent import FunctionChanges, Intent, Rewired
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.functions import XLA_MUST_COMPILE
from gdsurgeon.edits.replacing import drop_colocations
from gdsurgeon.edits.simplifying.constants import Evaluate, Folding, constant_attrs
from gdsurgeon.edits.simplifying.functions import STANDS_FOR, decide_calls
from gdsurgeon.edits.simplifying.graph_view import BITS, CHECKS, CONTROL, GraphView, Pass, run_passes
from gdsurgeon.edits.simplifying.passes import lasting, remove_unused
from gdsurgeon.edits.simplifying.shapes import dropout, may_refuse, same_shape
from gdsurgeon.edits.simplifying.sums import Sums
from gdsurgeon.errors import EditError, NotValidatedError, Remark
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import STATED_SHAPES
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.specification.equivalence import Certificate
from gdsurgeon.specification.specify import Asked
from gdsurgeon.values import Data
from gdsurgeon.wire.protos import FunctionDef, NodeDef

SAME_SHAPE = "same-shape"
"""The pass that removes nodes that return their input, given known shapes."""
DROPOUT = "dropout"
"""The pass that removes dropout with probability 0."""
SHAPES = "shapes"
"""The pass that folds values that known shapes determine."""
CONSTANTS = "constants"
"""The pass that folds values that depend only on constants."""
CONDITIONS = "conditions"
"""The pass that removes conditionals with a constant condition."""


SUMS = "integer_sums"
"""The stage that adds the constants of sums of integers to each other first."""


@dataclass(eq=False, repr=False)
class How(Data):
    """The request.

    Attributes:
        chosen: the names of all chosen passes.
        passes: the chosen passes that work on a view.
        evaluate: see `gdsurgeon.edits.simplify.simplify`; None if values cannot be computed any more.
        before_change: called before the graph changes.
        notes: notes for the user.
    """

    chosen: Sequence[str]
    passes: Sequence[Pass]
    evaluate: Evaluate | None
    before_change: Callable[[], object]
    notes: list[str]


@dataclass(eq=False, repr=False)
class Step(Data):
    """The result of a stage.

    Attributes:
        stage: the name of its specification.
        intent: the changes.
        counts: the number of removed nodes and edges, and of new constants, by pass.
        arguments: the arguments of the stage, without outputs.
        certificate: the steps that the specification does not derive itself.
        growth: by how many bytes constants make the file larger at most.
        folded: the nodes that became constants, and consumers of shapes that became constants with one dim of -1.
        idle: nodes whose random values are not used any more.
        as_written: whether values depend on functions that were not optimized.
        refusing: removed Reshape nodes that fail for some inputs.
    """

    stage: str
    intent: Intent = field(default_factory=Intent)
    counts: Counter[str] = field(default_factory=Counter)
    arguments: dict[str, object] = field(default_factory=dict)
    certificate: Certificate | None = None
    growth: int = 0
    folded: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    as_written: bool = False
    refusing: list[str] = field(default_factory=list)


# -- nodes ----------------------------------------------------------------------------------------------------


def simplify_nodes(
    view: GraphView, how: How, room: int, refused: set[str], effects: Callable[[GraphView], Sequence[int]]
) -> Step:
    """Runs the passes and folds constants until nothing changes.

    Args:
        view: of the graph, which is changed.
        how: the request.
        room: by how many bytes constants may let the file grow.
        refused: the names of nodes that are not folded; more are added.
        effects: returns the nodes that are kept because of their effects.
    """
    step = Step("simplify", arguments={"passes": tuple(how.chosen), "max_growth": room}, counts=view.counts)
    of_shapes = [each for name, each in ((DROPOUT, dropout), (SAME_SHAPE, same_shape)) if name in how.chosen]
    kept = [number for number, flag in enumerate(view.kept) if flag]
    is_done = False
    while not is_done:
        view.roots = [*kept, *effects(view)]
        run_passes(view, how.passes)
        _carry_out(view, how.before_change)
        view.renew()
        is_done = not _fold(view, how, room - step.growth, refused, step)
        if not is_done:
            view.renew()
        view.roots = [*kept, *effects(view)]
        before = len(view.moved)
        for each in of_shapes:
            each(view)
        if len(view.moved) > before:
            remove_unused(view)
            _carry_out(view, how.before_change)
            view.renew()
            is_done = False
    step.intent = _changes(view)
    step.idle = [view.topology.name(number) for number in view.idle]
    step.certificate = _certificate(view)
    step.folded += step.certificate.constants.keys() - step.certificate.opened
    return step


def _certificate(view: GraphView) -> Certificate:
    """Returns the steps that the specification does not derive itself.

    The step of a node is also recorded for the equal nodes that it replaced.
    """
    name, spelt = view.topology.name, partial(_spelt, view.topology)
    constants, moved, opened = dict(view.constants), dict(view.moved), set(view.opened)
    for old, new in reversed(view.replaced_nodes.items()):
        if new in moved:
            moved.setdefault(old, moved[new])
        if new in constants and view.ops[old] != "Const":
            constants[old] = constants[new]
            opened |= {old} if new in opened else set()
    return Certificate(
        {name(old): name(new) for old, new in view.replaced_nodes.items()},
        {name(old): spelt(new) for old, new in moved.items()},
        {name(number): value for number, value in constants.items()},
        frozenset(map(name, opened)),
    )


def _carry_out(view: GraphView, before_change: Callable[[], object]) -> None:
    """Changes the graph in accordance with the view; `before_change` is called first, if there are any changes."""
    graph, topology = view.graph, topology_of(view.graph)
    numbers = sorted(number for number in view.changed if not view.removed[number])
    going = [topology.node(number) for number in members(view.removed) if number not in topology.gone]
    if numbers or going:
        before_change()
    for number in numbers:
        node = topology.node(number)
        data, waits = _parted(view.topology, number)
        graph.set_reads(node, map(topology.tensor, data), dict.fromkeys(topology.node(code >> BITS) for code in waits))
        if number in view.merges:
            graph.set_op(node, "Identity")
            for key in ("N", STATED_SHAPES):
                if node.has_attr(key):
                    graph.set_attr(node, key, None)
    drop_colocations(graph, going)
    graph.remove(going)


def _changes(view: GraphView) -> Intent:
    """Returns the differences between a graph and the graph for which the view was made."""
    start, now = view.start, view.topology
    intent = Intent(removed=[start.name(number) for number in members(view.removed) if number not in start.gone])
    for number in sorted(map(now.id_of, view.graph.touched())):
        name = now.name(number)
        (before, waited), (data, waits) = _parted(start, number), _parted(now, number)
        is_other = view.ops[number] != view.ops_at_start[number]
        if waits != waited or is_other:
            intent.changed.append(name)
        if not is_other and data != before:
            intent.rewired += _rewired(start, now, number, data)
    final = {number: view.final(code) for number, code in view.moved.items()}
    intent.moved = {
        now.name(number): _spelt(now, code) for number, code in final.items() if not view.removed[code >> BITS]
    }
    return intent


def _rewired(before: Topology, after: Topology, number: int, codes: Sequence[int]) -> list[Rewired]:
    """Returns the changed data inputs of a node, which are `codes` after."""
    name, slots = after.name(number), enumerate(zip(_parted(before, number)[0], codes, strict=True))
    return [Rewired(name, at, _spelt(before, old), _spelt(after, new)) for at, (old, new) in slots if old != new]


def _parted(topology: Topology, number: int) -> tuple[list[int], list[int]]:
    """Returns the codes of the inputs and of the control inputs of a node."""
    codes = topology.inputs(number)
    data = [code for code in codes if code & CONTROL != CONTROL]
    return data, [code for code in codes if code & CONTROL == CONTROL] if len(data) < len(codes) else []


def _spelt(topology: Topology, code: int) -> str:
    """Returns the name of a tensor."""
    return format_input(topology.name(code >> BITS), code & CONTROL)


# -- constants ------------------------------------------------------------------------------------------------


def _fold(view: GraphView, how: How, room: int, refused: set[str], step: Step) -> bool:
    """Folds constants; returns False if nothing is constant. `step` gets the details."""
    shapes = view.shapes() if SHAPES in how.chosen else None
    if shapes is None and how.evaluate is None:
        return False
    folding = Folding(view, shapes, how.evaluate, refused)
    try:
        values = folding.fold(room)
    except NotValidatedError as error:
        how.notes.append(Remark(f"{error.message}; these nodes are kept", "not-computed", reason=error.code))
        how.evaluate = None
        return _fold(view, how, room, refused, step)
    opened = folding.opened(room) if not values else {}
    if not values and not opened:
        return False
    values = values or opened
    by_shape = sum(number in folding.known or number in opened for number in values)
    view.counts += Counter({SHAPES: by_shape, CONSTANTS: len(values) - by_shape})
    view.opened |= opened.keys()
    step.growth += max(0, folding.price(values))
    step.folded += [view.topology.name(user) for number in opened for user in folding.users[number]]
    step.as_written |= folding.comes_of_calls(values)
    idle, top = folding.idle(values), view.topology
    if shapes is not None:
        step.refusing += [top.name(number) for number in idle if may_refuse(view, shapes, number)]
    how.before_change()
    _become_constants(view, values, idle)
    return True


def _become_constants(view: GraphView, values: Mapping[int, Tensor], idle: Sequence[int]) -> None:
    """Makes nodes constants, and removes the nodes that only they needed."""
    graph, node_of = view.graph, view.topology.node
    going, attrs = [node_of(number) for number in idle], {n: constant_attrs(value) for n, value in values.items()}
    view.become_constants({number: each["value"] for number, each in attrs.items()})
    view.remove(idle, "")
    del view.counts[""]
    for number, each in attrs.items():
        node = node_of(number)
        graph.set_op(node, "Const")
        graph.set_inputs(node, ())
        graph.set_colocated(node, ())
        for key in node.attr_keys:
            graph.set_attr(node, key, None)
        for key, data in each.items():
            graph.set_attr(node, key, data)
    drop_colocations(graph, going)
    graph.remove(going)


def regrouped(view: GraphView, how: How) -> Step | None:
    """Adds the constants of sums of integers to each other first. Returns None if there are no such sums."""
    sums, top = Sums(view), view.topology
    if how.evaluate is None or not sums.found:
        return None
    how.before_change()
    intent = Intent()
    for number, (op, codes) in sums.found.items():
        is_other = op != view.ops[number] or sums.shape(number << BITS) is not None
        intent.changed += [top.name(number)] if is_other else []
        intent.rewired += _rewired(top, top, number, codes)
        view.graph.replace_op(top.node(number), op, map(top.tensor, codes))
    return Step(SUMS, intent)


# -- calls ----------------------------------------------------------------------------------------------------


def decided(graph: Graph, how: How) -> Step | None:
    """Makes conditionals with constant conditions plain calls. Returns None if there are no such conditionals."""
    intent = decide_calls(graph, how.before_change) if CONDITIONS in how.chosen else Intent()
    if not intent.changed:
        return None
    return Step("decide_calls", intent, Counter({CONDITIONS: len(intent.changed)}), as_written=True)


_SYMBOLIC = "SymbolicGradient"
"""An op that differentiates a function, for which a StopGradient matters."""


Done = tuple[EditResult, Counter[str], Counter[str]]
"""The result of a stage in several function bodies, the removed nodes and edges by pass, and removed checks by op."""


def in_bodies(
    graph: Graph, before_change: Callable[[], object], simplified: Callable[[Body], Step | None]
) -> Iterator[Done]:
    """Changes the bodies of the functions that are called until nothing changes; yields the result of each stage.

    Args:
        graph: the library is changed before a result is yielded.
        before_change: called before the library changes.
        simplified: changes a body by one stage; returns None if nothing changes. The shapes of arguments on which all
            calls agree are known.
    """
    names = _bodies_of(graph)
    while names:
        shapes = called_shapes(graph, use_stated=False)
        found: dict[str, list[tuple[Body, Step]]] = {}
        for name in names:
            body = _open(graph, name, shapes.get(name, ()))
            step = simplified(body) if body is not None else None
            if body is not None and step is not None:
                found.setdefault(step.stage, []).append((body, step))
        names = [body.name for pairs in found.values() for body, _ in pairs]
        for pairs in found.values():
            yield _replaced(graph, pairs, before_change)


def _bodies_of(graph: Graph) -> list[str]:
    """Returns the functions whose bodies may change, callers first.

    Excluded are functions of a model whose objects keep them, functions that XLA compiles, that stand for an op, or
    that SymbolicGradient differentiates, and all functions that these call.
    """
    library = graph.functions
    if graph.is_body or graph.serving is not None or not library:
        return []
    called: list[str] = []
    barred: list[str] = []
    for node, names in calling_nodes(graph):
        called += names
        barred += names if node.op == _SYMBOLIC or node.plain_attr(XLA_MUST_COMPILE) else ()
    reached = library.reachable(called)
    for name in reached:
        function = library[name]
        if STANDS_FOR & set(function.attr) or _is_compiled(function):
            barred.append(name)
        for inner in function.node_def:
            if inner.op == _SYMBOLIC or _is_compiled(inner):
                barred += called_functions(inner, library)
    counts = Counter(function.signature.name for function in library)
    kept = {*library.reachable(barred), *(name for name, count in counts.items() if count > 1)}
    return [name for name in reached if name not in kept]


def _is_compiled(item: NodeDef | FunctionDef) -> bool:
    return XLA_MUST_COMPILE in item.attr and item.attr[XLA_MUST_COMPILE].b


def _open(graph: Graph, name: str, shapes: Sequence[Shape]) -> Body | None:
    """Returns a function body as a graph; None if it is not sound."""
    try:
        body = Body(graph, name, shapes=shapes)
        topology = topology_of(body.graph)
        topology.check_reads(topology.numbers())
    except EditError:
        return None
    return body


def simplified_body(body: Body, how: How, refused: set[str]) -> Step | None:
    """Simplifies a body by one stage; constants do not let it grow. Returns None if nothing changes."""
    kept = map(topology_of(body.graph).id_of, kept_in(body))
    view = GraphView(body.graph, kept, keeps_checks="checks" not in how.chosen)
    step = simplify_nodes(view, how, 0, refused, lasting)
    return step if step.counts.total() else regrouped(view, how) or decided(body.graph, how)


def kept_in(body: Body) -> list[Node]:
    """Returns the nodes of a body that must keep their names."""
    return [*body.graph.ends, *body.control_results.values()]


def _replaced(graph: Graph, found: Sequence[tuple[Body, Step]], before_change: Callable[[], object]) -> Done:
    """Writes the changed bodies to the library; returns the result of the stage."""
    counts: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    functions = [body.function_def() for body, _ in found]
    before_change()
    for (body, step), function in zip(found, functions, strict=True):
        graph.functions.replace(function)
        before = body.graph.pristine()
        counts += step.counts
        checks += Counter(op for name in step.intent.removed if (op := before[name].op) in CHECKS)
    inside = {body.name: (body.graph, EditResult(step.intent)) for body, step in found}
    certificates = {body.name: step.certificate for body, step in found if step.certificate is not None}
    step = found[0][1]
    asked = Asked("simplify_bodies", {"stage": step.stage, **step.arguments})
    intent = Intent(functions=FunctionChanges(changed=[*inside]))
    return EditResult(intent, asked=asked, inside=inside, decided={"certificates": certificates}), counts, checks
