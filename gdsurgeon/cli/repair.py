"""gdsurgeon repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from gdsurgeon.cli.edit import check_option, checked_model, edit_command, end_check
from gdsurgeon.errors import EditError, printable
from gdsurgeon.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


@edit_command("repair")
@check_option
def command(request: Request, only_check: bool, as_json: bool) -> dict[str, Any]:
    """Fix what keeps TensorFlow from loading a graph.

    The command fixes variable ops that remain in a frozen graph (RefSwitch, Assign, ReadVariableOp, ...), colocation
    with missing nodes, and duplicate node names. The command does not fix two other faults, but lists them: ops that
    TensorFlow does not know, and tables that have no initialiser.

    Proof: the result runs. If MODEL also runs, the outputs are bit-identical.

    \b
    Examples:
      gdsurgeon repair model.pb --check
      gdsurgeon repair model.pb -o repaired.pb
    """
    custom_ops = bool(request.settings.op_libraries)
    if only_check:
        _check(request, custom_ops, as_json=as_json)
    request.repairs = True
    return {"custom_ops": custom_ops}


def _check(request: Request, custom_ops: bool, *, as_json: bool) -> NoReturn:
    """Prints the faults, and ends the command with exit code 0 or 1. Raises EditError if repair cannot fix a fault."""
    from gdsurgeon.container.load import open_model
    from gdsurgeon.graph.load import uniquely_named

    graph = uniquely_named(open_model(request.model, request.wanted).graph)
    checked = checked_model(graph)
    faults = list(_faults(graph, custom_ops))
    left = [fault for fault in faults if not fault["mendable"]]
    error = None
    if left:
        error = EditError(
            f"{printable(graph.source_name)} has {counted(len(left), 'fault')} that repair cannot fix",
            code="not-mendable",
            nodes=[fault["node"] for fault in left if fault["node"]],
        )
    entries = [("fault", fault["text"] + " (cannot be repaired)" * (not fault["mendable"])) for fault in faults]
    entries = entries or [("faults", "none found")]
    end_check("repair", checked, entries, error, is_to_do=bool(faults), as_json=as_json, faults=faults)


def _faults(graph: Graph, custom_ops: bool) -> Iterator[dict[str, Any]]:
    """Yields the faults of a model: text, node ('' if unknown), and whether repair can fix the fault."""
    from gdsurgeon.analysis.checks.check import refusals
    from gdsurgeon.analysis.queries.compatibility import legacy_problems

    found = list(legacy_problems(graph))
    for text in graph.repairs:
        yield {"text": text, "node": "", "mendable": True}
    for each in found:
        yield {"text": each.text, "node": each.node, "mendable": each.is_mendable}
    nodes = {each.node for each in found}
    for fault in refusals(graph, custom_ops=custom_ops):
        if fault.facts.get("node") not in nodes:
            yield {"text": fault, "node": "", "mendable": False}
