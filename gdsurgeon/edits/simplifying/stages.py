"""The stages of simplify on a graph or on the body of a function: each changes the graph once and is checked
separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes.inference import Shapes, called_shapes
from gdsurgeon.analysis.traversal.topology import Topology, members, topology_of
from gdsurgeon.compare.intent import FunctionChanges, Intent, Rewired
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.functions import XLA_MUST_COMPILE
from gdsurgeon.edits.replacing import drop_colocations
from gdsurgeon.edits.simplifying.constants import Evaluate, Folding, constant_attrs
from gdsurgeon.edits.simplifying.functions import STANDS_FOR, decide_calls
from gdsurgeon.edits.simplifying.graph_view import BITS, CHECKS, CONTROL, GraphView, Pass, run_passes
from gdsurgeon.edits.simplifying.passes import lasting, remove_unused
from gdsurgeon.edits.simplifying.shapes import may_refuse, same_shape
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import STATED_SHAPES
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.specification.specify import Asked
from gdsurgeon.values import Data
from gdsurgeon.wire.protos import FunctionDef, NodeDef


def carry_out(view: GraphView, before_change: Callable[[], object]) -> Intent:
    """Changes the graph in accordance with the view; returns the changes.

    Args:
        view: the changes to make.
        before_change: called first, if there are any.
    """
    graph, topology = view.graph, topology_of(view.graph)
    numbers = sorted(number for number in view.changed if not view.removed[number])
    going = [topology.node(number) for number in members(view.removed) if number not in topology.gone]
    if numbers or going:
        before_change()
    intent = Intent(removed=[node.name for node in going])
    for number in numbers:
        node = topology.node(number)
        data, waits = _parted(view.topology, number)
        before, waited = _parted(topology, number)
        inputs = [Output(topology.node(code >> BITS), code & CONTROL) for code in data]
        if waits != waited or number in view.merges:
            intent.changed.append(node.name)
        if number not in view.merges:
            slots = enumerate(zip(before, data, inputs, strict=True))
            intent.rewired += [
                Rewired(node.name, i, _spelt(topology, old), new.name) for i, (old, code, new) in slots if old != code
            ]
        graph.set_reads(node, inputs, dict.fromkeys(topology.node(code >> BITS) for code in waits))
    for number in view.merges:
        if not view.removed[number]:
            _become_identity(graph, topology.node(number))
    drop_colocations(graph, going)
    graph.remove(going)
    return intent


def _parted(topology: Topology, number: int) -> tuple[list[int], list[int]]:
    """Returns the codes of the inputs and of the control inputs of a node."""
    codes = topology.inputs(number)
    data = [code for code in codes if code & CONTROL != CONTROL]
    return data, [code for code in codes if code & CONTROL == CONTROL] if len(data) < len(codes) else []


def _spelt(topology: Topology, code: int) -> str:
    """Returns the name of a tensor."""
    return format_input(topology.name(code >> BITS), code & CONTROL)


def _become_identity(graph: Graph, node: Node) -> None:
    graph.set_op(node, "Identity")
    for key in ("N", STATED_SHAPES):
        if node.has_attr(key):
            graph.set_attr(node, key, None)


def become_constants(folding: Folding, values: Mapping[int, Tensor]) -> Intent:
    """Makes nodes constants and removes the nodes that only they needed; returns the changes."""
    graph, topology = folding.graph, folding.top
    idle = folding.idle(values)
    going = [topology.node(number) for number in idle]
    intent = Intent(removed=[node.name for node in going])
    folding.view.become_constants(values)
    folding.view.remove(idle, "constants")
    for number, value in values.items():
        node = topology.node(number)
        intent.changed.append(node.name)
        graph.set_op(node, "Const")
        graph.set_inputs(node, ())
        graph.set_colocated(node, ())
        for key in node.attr_keys:
            graph.set_attr(node, key, None)
        for key, data in constant_attrs(value).items():
            graph.set_attr(node, key, data)
    drop_colocations(graph, going)
    graph.remove(going)
    return intent


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


@dataclass(eq=False, repr=False)
class How(Data):
    """The request.

    Attributes:
        chosen: the names of all chosen passes.
        passes: the chosen passes that work on a view.
        evaluate: see `gdsurgeon.edits.simplify.simplify`; None if values cannot be computed any more.
        before_change: called before the graph changes.
    """

    chosen: Sequence[str]
    passes: Sequence[Pass]
    evaluate: Evaluate | None
    before_change: Callable[[], object]


@dataclass(eq=False, repr=False)
class Step(Data):
    """The result of a stage.

    Attributes:
        stage: the name of its specification.
        intent: the changes.
        counts: the number of removed nodes and edges, and of new constants, by pass.
        arguments: the arguments of the stage, without outputs.
        growth: by how many bytes the file grows at most.
        reshapes: consumers of shapes that became constants with one dim of -1.
        idle: nodes whose random values are not used any more.
        as_written: whether values depend on functions that were not optimized.
        refusing: removed Reshape nodes that fail for some inputs.
    """

    stage: str
    intent: Intent
    counts: Counter[str]
    arguments: dict[str, object] = field(default_factory=dict)
    growth: int = 0
    reshapes: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    as_written: bool = False
    refusing: list[str] = field(default_factory=list)


def passed(view: GraphView, how: How) -> Step:
    """Runs the passes on a view until no pass changes anything."""
    run_passes(view, how.passes)
    return Step("simplify", carry_out(view, how.before_change), Counter(view.counts), {"passes": tuple(how.chosen)})


def folded(view: GraphView, how: How, room: int, refused: set[str]) -> Step | None:
    """Folds constants. Returns None if nothing is constant.

    Args:
        view: of the graph.
        how: the request.
        room: by how many bytes the file may grow.
        refused: the names of nodes that are not folded; more are added.

    Raises:
        NotValidatedError: values cannot be computed; nothing was changed.
    """
    shapes = view.shapes() if SHAPES in how.chosen else None
    if shapes is None and how.evaluate is None:
        return None
    folding = Folding(view, shapes, how.evaluate, refused)
    values = folding.fold(room)
    opened = folding.opened(room) if not values else {}
    if not values and not opened:
        return None
    growth = max(0, folding.price(values or opened))
    by_shape = sum(number in folding.known or number in opened for number in values or opened)
    name = view.topology.name
    reshapes = [name(user) for number in opened for user in folding.users[number]]
    as_written = folding.comes_of_calls(values)
    counts = Counter({SHAPES: by_shape, CONSTANTS: len(values or opened) - by_shape})
    arguments: dict[str, object] = {"max_growth": room, "opens": bool(opened)}
    refusing = _refusing(view, shapes, folding.idle(values or opened)) if shapes is not None else []
    how.before_change()
    intent = become_constants(folding, values or opened)
    return Step("fold_constants", intent, counts, arguments, growth, reshapes, as_written=as_written, refusing=refusing)


def _refusing(view: GraphView, shapes: Shapes, going: Sequence[int]) -> list[str]:
    """Returns the names of the removed nodes that fail for some inputs."""
    return [view.topology.name(number) for number in going if may_refuse(view, shapes, number)]


def passed_by(view: GraphView, how: How) -> Step | None:
    """Removes nodes that return their input, given known shapes. Returns None if there are no such nodes."""
    if not {SAME_SHAPE, DROPOUT} & {*how.chosen}:
        return None
    moved, idle = same_shape(view, view.shapes(), how.chosen)
    if not moved:
        return None
    remove_unused(view)
    intent = carry_out(view, how.before_change)
    intent.moved = {name: now for name, now in moved.items() if parse_tensor(now).node in view.graph}
    counts = Counter({DROPOUT: len(idle), SAME_SHAPE: len(moved) - len(idle)})
    return Step("same_shape", intent, counts, idle=idle)


def decided(view: GraphView, how: How) -> Step | None:
    """Makes conditionals with constant conditions plain calls. Returns None if there are no such conditionals."""
    intent = decide_calls(view.graph, how.before_change) if CONDITIONS in how.chosen else Intent()
    if not intent.changed:
        return None
    return Step("decide_calls", intent, Counter({CONDITIONS: len(intent.changed)}), as_written=True)


_SYMBOLIC = "SymbolicGradient"
"""An op that differentiates a function, for which a StopGradient matters."""


class Done(NamedTuple):
    """The result of a stage in several function bodies.

    Attributes:
        result: the result, as of an edit.
        counts: the number of removed nodes and edges by pass.
        checks: the number of removed checks by op.
    """

    result: EditResult
    counts: Counter[str]
    checks: Counter[str]


def in_bodies(graph: Graph, how: How) -> Iterator[Done]:
    """Simplifies the bodies of the functions that are called, stage by stage; yields the result of each stage.

    Known shapes of arguments come from the calls. The library is changed before a result is yielded. Constants do not
    let a body grow.

    Raises:
        NotValidatedError: values cannot be computed; the yielded stages remain done.
    """
    names = _bodies_of(graph)
    refused: dict[str, set[str]] = {name: set() for name in names}
    stages: list[Callable[[_Opened], Step | None]] = [
        lambda body: _passed(body, how),
        lambda body: folded(body.view, how, 0, refused[body.name]),
        lambda body: passed_by(body.view, how),
        lambda body: decided(body.view, how),
    ]
    while names:
        bodies = _Bodies(graph, names, how)
        changed: dict[str, None] = {}
        for stage in stages:
            found = [(body, step) for body in bodies.opened() if (step := stage(body)) is not None]
            changed |= dict.fromkeys(body.name for body, _ in found)
            for alike in (_with(found, opens=False), _with(found, opens=True)):  # which are held to different rules
                if alike:
                    yield bodies.replaced(alike)
        names = [*changed]


def _with(found: Sequence[tuple[_Opened, Step]], *, opens: bool) -> list[tuple[_Opened, Step]]:
    return [(body, step) for body, step in found if bool(step.reshapes) is opens]


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


class _Opened(Body):
    """A function body with a view of it.

    Args:
        owner: the graph that contains the function.
        name: the function.
        shapes: the shapes of its arguments.
        keeps_checks: whether a check counts as an effect.
    """

    def __init__(self, owner: Graph, name: str, shapes: Sequence[Shape], *, keeps_checks: bool) -> None:
        super().__init__(owner, name, shapes=shapes)
        topology = topology_of(self.graph)
        topology.check_reads(topology.numbers())
        kept = map(topology.id_of, (*self.graph.ends, *self.control_results.values()))
        self.view = GraphView(self.graph, kept, keeps_checks=keeps_checks)
        self.view.roots = [*(number for number, flag in enumerate(self.view.kept) if flag), *lasting(self.view)]


class _Bodies:
    """Function bodies; each one is converted to a graph once until it changes."""

    def __init__(self, graph: Graph, names: Sequence[str], how: How) -> None:
        self._graph, self._names, self._keeps_checks = graph, names, "checks" not in how.chosen
        self._before_change = how.before_change
        self._shapes = called_shapes(graph, use_stated=False)
        self._held: dict[str, _Opened | None] = {}

    def opened(self) -> Iterator[_Opened]:
        """Yields the bodies that can be converted to sound graphs."""
        for name in self._names:
            if name not in self._held:
                self._held[name] = self._open(name)
            body = self._held[name]
            if body is not None:
                yield body

    def _open(self, name: str) -> _Opened | None:
        try:
            return _Opened(self._graph, name, self._shapes.get(name, ()), keeps_checks=self._keeps_checks)
        except EditError:
            return None

    def replaced(self, found: Sequence[tuple[_Opened, Step]]) -> Done:
        """Writes the changed bodies to the library; returns the result of the stage."""
        counts: Counter[str] = Counter()
        checks: Counter[str] = Counter()
        functions = [body.function_def() for body, _ in found]
        self._before_change()
        for (body, step), function in zip(found, functions, strict=True):
            self._graph.functions.replace(function)
            del self._held[body.name]
            before = body.graph.pristine()
            counts += step.counts
            checks += Counter(op for name in step.intent.removed if (op := before[name].op) in CHECKS)
        inside = {body.name: (body.graph, EditResult(step.intent)) for body, step in found}
        intent = Intent(functions=FunctionChanges(changed=[*inside]))
        step = found[0][1]
        asked = Asked("simplify_bodies", {"stage": step.stage, **step.arguments})
        return Done(EditResult(intent, asked=asked, inside=inside), counts, checks)


def _passed(body: _Opened, how: How) -> Step | None:
    """Runs the passes on a body. Returns None if no pass changes anything."""
    step = passed(body.view, how)
    return step if step.counts.total() else None
