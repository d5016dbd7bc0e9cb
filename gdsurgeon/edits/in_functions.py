"""Edits inside functions: what changes a graph changes the body of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import Claim, EditResult, SameOutputs, SameSites, Unchanged, checked_result
from gdsurgeon.errors import EditError, NothingToDo
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph


@public
def in_functions(graph: Graph, names: Sequence[str], edit: Callable[[Graph], EditResult]) -> EditResult:
    """Applies EDIT to the bodies of library functions, as it would be applied to a graph.

    All calls of a function change with it. Its arguments and results can be renamed and not removed.

    Args:
        graph: changed in place: its library.
        names: of the functions, each once.
        edit: is called with each body in turn; see `gdsurgeon.graph.body.Body`.

    Raises:
        EditError: there is no such function, its body cannot be made a graph, or EDIT refuses one; the graph is as it
            was.
        NothingToDo: EDIT finds nothing to do in any of them.
    """
    bodies = [Body(graph, name) for name in dict.fromkeys(names)]
    if not bodies:
        raise EditError("no function is given", code="missing-argument")
    results: dict[str, EditResult] = {}
    idle: list[NothingToDo] = []
    for body in bodies:
        try:
            results[body.name] = checked_result(edit(body.graph), edit)
        except NothingToDo as error:
            idle.append(error)
    if not results:
        raise idle[0]
    made = [body.function_def() for body in bodies if body.graph.is_edited]
    for function in made:
        graph.functions.replace(function)
    changed = [function.signature.name for function in made]
    return EditResult(
        Intent(functions=FunctionChanges(changed=changed)),
        (_claim([claim for result in results.values() for claim in result.claims]),),
        warnings=[warning for result in results.values() for warning in result.warnings],
        notes=[*(note for result in results.values() for note in result.notes), *(error.message for error in idle)],
        told=[line for result in results.values() for line in result.told],
        facts={"functions": {name: result.facts for name, result in results.items() if result.facts}},
        inside={body.name: (body.graph, results[body.name]) for body in bodies if body.name in changed},
    )


def _claim(claims: Sequence[Claim]) -> Claim:
    """What follows for the whole graph from what is claimed of bodies: that no value changes, or nothing.

    Sites in a body have no tensors that could be fetched.
    """
    same = [claim for claim in claims if isinstance(claim, SameOutputs)]
    if len(same) + sum(isinstance(claim, SameSites) for claim in claims) < len(claims):
        return Unchanged()
    return SameOutputs(
        rtol=max(claim.rtol for claim in same),
        atol=max(claim.atol for claim in same),
        of_largest=max(claim.of_largest for claim in same),
        may_differ=any(claim.may_differ for claim in same),
        even_alone=all(claim.even_alone for claim in same),
        as_written=any(claim.as_written for claim in same),
        deployed=any(claim.deployed for claim in same),
        judged=all(claim.judged for claim in same),
    )
