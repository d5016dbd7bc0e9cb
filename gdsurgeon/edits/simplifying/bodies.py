"""The bodies of functions that stay: what is done with a graph is done with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes.inference import called_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.functions import XLA_MUST_COMPILE
from gdsurgeon.edits.simplifying.draft import CHECKS, Draft
from gdsurgeon.edits.simplifying.inlining import STANDS_FOR
from gdsurgeon.edits.simplifying.roots import lasting
from gdsurgeon.edits.simplifying.stages import How, Step, decided, folded, passed, passed_by
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.asked import Asked
from gdsurgeon.wire.protos import FunctionDef, NodeDef

_SYMBOLIC = "SymbolicGradient"
"""An op that looks into a function for what is to be derived: there a StopGradient counts."""


class Done(NamedTuple):
    """What was done in several bodies at once.

    Attributes:
        result: as of an edit.
        counts: the nodes and edges that went, by the pass that took them.
        checks: the checks among the nodes that went, by their ops.
    """

    result: EditResult
    counts: Counter[str]
    checks: Counter[str]


def in_bodies(graph: Graph, how: How) -> Iterator[Done]:
    """Makes the bodies of functions simpler that nodes of GRAPH come to call, a stage after the other.

    What calls pass says of what shape arguments are. Each stage is done in the library when it is given; no body grows
    by its constants.

    Raises:
        NotValidatedError: constants cannot be computed; what was given stays done.
    """
    names = _bodies_of(graph)
    refused: dict[str, set[str]] = {name: set() for name in names}
    stages: list[Callable[[_Opened], Step | None]] = [
        lambda body: _passed(body, how),
        lambda body: folded(body.draft, how, 0, refused[body.name]),
        lambda body: passed_by(body.draft, how),
        lambda body: decided(body.draft, how),
    ]
    while names:
        bodies = _Bodies(graph, names, keeps_checks="checks" not in how.chosen)
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
    """The functions whose bodies may be others, callers first.

    Not those of a model whose objects keep its functions; nor what XLA compiles, stands for something else, or is
    derived when it runs, with all that these call.
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
    """A body with a draft of it.

    Args:
        owner: the graph in whose library it is.
        name: of the function.
        shapes: of its arguments.
        keeps_checks: whether a check counts as an effect.
    """

    def __init__(self, owner: Graph, name: str, shapes: Sequence[Shape], *, keeps_checks: bool) -> None:
        super().__init__(owner, name, shapes=shapes)
        topology = topology_of(self.graph)
        topology.check_reads(topology.numbers())
        kept = map(topology.id_of, (*self.graph.ends, *self.control_results.values()))
        self.draft = Draft(self.graph, kept, keeps_checks=keeps_checks)
        self.draft.roots = [*(number for number, flag in enumerate(self.draft.kept) if flag), *lasting(self.draft)]


class _Bodies:
    """Bodies, each opened once for as long as it stays as it is."""

    def __init__(self, graph: Graph, names: Sequence[str], *, keeps_checks: bool) -> None:
        self._graph, self._names, self._keeps_checks = graph, names, keeps_checks
        self._shapes = called_shapes(graph, use_stated=False)
        self._held: dict[str, _Opened | None] = {}

    def opened(self) -> Iterator[_Opened]:
        """Those that can be had as graphs, and read nothing that is not there."""
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
        """Has the library hold what was FOUND in one stage."""
        counts: Counter[str] = Counter()
        checks: Counter[str] = Counter()
        functions = [body.function_def() for body, _ in found]
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
    """Has the passes go over a body; None where they find nothing."""
    step = passed(body.draft, how)
    return step if step.counts.total() else None
