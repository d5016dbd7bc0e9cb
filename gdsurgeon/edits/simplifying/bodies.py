"""The bodies of functions that stay: the passes go over them as over a graph, and constants are folded there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.function_usage import calling_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.functions.definition import XLA_MUST_COMPILE
from gdsurgeon.edits.simplifying.carry_out import become_constants, carry_out
from gdsurgeon.edits.simplifying.draft import CHECKS, Draft, Pass, to_the_end
from gdsurgeon.edits.simplifying.folding import Evaluate, Folding
from gdsurgeon.edits.simplifying.inlining import STANDS_FOR
from gdsurgeon.edits.simplifying.roots import lasting
from gdsurgeon.errors import EditError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.asked import Asked
from gdsurgeon.wire.protos import FunctionDef, NodeDef

_SYMBOLIC = "SymbolicGradient"
"""An op that looks into a function for what is to be derived: there a StopGradient counts."""


class How(NamedTuple):
    """What is done in bodies.

    Attributes:
        passes: by their names.
        keeps_checks: whether a check counts as an effect.
        evaluate: as in `gdsurgeon.edits.simplify.simplify`; no body grows by what it gives.
    """

    passes: Mapping[str, Pass]
    keeps_checks: bool
    evaluate: Evaluate | None


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

    Each stage is done in the library when it is given.

    Raises:
        NotValidatedError: constants cannot be computed; what was given stays done.
    """
    left = _bodies_of(graph)
    refused: dict[str, set[str]] = {name: set() for name in left}
    while left:
        passed = _passed(graph, left, how)
        if passed is not None:
            yield passed
        folded = _folded(graph, left, how, refused) if how.evaluate is not None else None
        if folded is not None:
            yield folded
        left = [] if folded is None else [*folded.result.inside]


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


def _opened(graph: Graph, names: Iterable[str]) -> Iterator[Body]:
    """The bodies that can be had as graphs, and read nothing that is not there."""
    for name in names:
        try:
            body = Body(graph, name)
            topology = topology_of(body.graph)
            topology.check_reads(topology.numbers())
        except EditError:
            continue
        yield body


def _draft(body: Body, how: How) -> Draft:
    kept = map(topology_of(body.graph).id_of, (*body.graph.ends, *body.control_results.values()))
    draft = Draft(body.graph, kept, keeps_checks=how.keeps_checks)
    draft.roots = [*(number for number, flag in enumerate(draft.kept) if flag), *lasting(draft)]
    return draft


def _passed(graph: Graph, names: Sequence[str], how: How) -> Done | None:
    """Has the passes go over bodies; None where they find nothing."""
    found: list[tuple[Body, Intent]] = []
    counts: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    for body in _opened(graph, names):
        draft = _draft(body, how)
        to_the_end(draft, how.passes.values())
        if draft.counts.total():
            intent = carry_out(draft)
            before = body.graph.pristine()
            counts += draft.counts
            checks += Counter(op for name in intent.removed if (op := before[name].op) in CHECKS)
            found.append((body, intent))
    return _done(graph, found, counts, checks, Asked("simplify_bodies", {"passes": tuple(how.passes)}))


def _folded(graph: Graph, names: Sequence[str], how: How, refused: Mapping[str, set[str]]) -> Done | None:
    """Has nodes of bodies be the constants that they give; None where none are such."""
    found: list[tuple[Body, Intent]] = []
    count = 0
    for body in _opened(graph, names):
        folding = Folding(_draft(body, how), None, how.evaluate, refused[body.name])
        values = folding.fold(0)
        if values:
            count += len(values)
            found.append((body, become_constants(folding, values)))
    asked = Asked("simplify_bodies", {"evaluate": how.evaluate, "folds": True})
    return _done(graph, found, Counter({"constants": count}), Counter(), asked)


def _done(
    graph: Graph, found: Sequence[tuple[Body, Intent]], counts: Counter[str], checks: Counter[str], asked: Asked
) -> Done | None:
    """Has the library hold what was FOUND; None where that is nothing."""
    functions = [body.function_def() for body, _ in found]
    for function in functions:
        graph.functions.replace(function)
    if not found:
        return None
    inside = {body.name: (body.graph, EditResult(intent)) for body, intent in found}
    intent = Intent(functions=FunctionChanges(changed=[*inside]))
    return Done(EditResult(intent, asked=asked, inside=inside), counts, checks)
