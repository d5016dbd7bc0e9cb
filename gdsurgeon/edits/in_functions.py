"""Applies edits to the functions of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gdsurgeon.arguments import public
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.edits.claims import Claim, EditResult, SameOutputs, SameSites, Unchanged, checked_result
from gdsurgeon.errors import EditError, NothingToDo
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.protos import FunctionDef


def changed_functions(functions: Iterable[FunctionDef], change: Callable[[FunctionDef], bool]) -> list[FunctionDef]:
    """Returns copies of the functions that `change` changes; it returns whether it has changed its argument."""
    out: list[FunctionDef] = []
    for function in functions:
        copy = type(function)()
        copy.CopyFrom(function)
        if change(copy):
            out.append(copy)
    return out


def replace_functions(graph: Graph, functions: Iterable[FunctionDef]) -> FunctionChanges:
    """Replaces library functions by functions with the same names. Returns the changes."""
    changes = FunctionChanges()
    for function in functions:
        graph.functions.replace(function)
        changes.changed.append(function.signature.name)
    return changes


@public
def in_functions(graph: Graph, names: Sequence[str], edit: Callable[[Graph], EditResult]) -> EditResult:
    """Applies an edit to library functions as if each were a graph.

    All calls of a function change with it. The arguments and results of a function can be renamed but not removed.

    Args:
        graph: changed in place.
        names: the names of the functions.
        edit: called with each function as a graph; see `gdsurgeon.graph.body.Body`.

    Raises:
        EditError: there is no such function, a function cannot be converted to a graph, or the edit raises an error.
            The graph is unchanged.
        NothingToDo: the edit raises NothingToDo for each function.
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
    changes = replace_functions(graph, made)
    return EditResult(
        Intent(functions=changes),
        (_claim([claim for result in results.values() for claim in result.claims]),),
        warnings=[warning for result in results.values() for warning in result.warnings],
        notes=[*(note for result in results.values() for note in result.notes), *(error.message for error in idle)],
        told=[line for result in results.values() for line in result.told],
        facts={"functions": {name: result.facts for name, result in results.items() if result.facts}},
        inside={body.name: (body.graph, results[body.name]) for body in bodies if body.name in changes.changed},
    )


def _claim(claims: Sequence[Claim]) -> Claim:
    """Returns what the claims about functions imply for the graph: equal outputs, or nothing.

    The tensors of sites inside functions cannot be fetched.
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
