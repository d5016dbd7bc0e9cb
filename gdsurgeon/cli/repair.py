"""gdsurgeon repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from gdsurgeon.cli.check_edit import Answer, check_option, refuse_options
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options
from gdsurgeon.errors import EditError, printable
from gdsurgeon.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


@click.command("repair", cls=Command)
@edit_options
@check_option
def command(request: Request, only_check: bool, as_json: bool) -> None:
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
    refuse_options(request, only_check=only_check, as_json=as_json)
    if only_check:
        _check(request, as_json=as_json)
        return
    from functools import partial

    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.repair import repair

    request.mends = True
    run_edit("repair", request, partial(repair, custom_ops=bool(request.settings.op_libraries)))


class _Fault(NamedTuple):
    """A fault of a model: its `text`, its `node` ('' if unknown), and whether repair can fix it."""

    text: str
    node: str
    mendable: bool

    @property
    def told(self) -> str:
        """The fault in one line."""
        return self.text + ("" if self.mendable else " (cannot be repaired)")


def _check(request: Request, *, as_json: bool) -> None:
    """Prints what is wrong, and ends the command with exit code 0 or 1. Raises EditError: repair cannot fix it."""
    from gdsurgeon.container.load import open_model
    from gdsurgeon.graph.load import uniquely_named

    graph = uniquely_named(open_model(request.model, request.wanted).graph)
    answer = Answer("repair", graph)
    faults = list(_faults(graph, custom_ops=bool(request.settings.op_libraries)))
    left = [fault for fault in faults if not fault.mendable]
    error = None
    if left:
        error = EditError(
            f"{printable(graph.source_name)} has {counted(len(left), 'fault')} that repair cannot fix",
            code="not-mendable",
            facts={"nodes": [fault.node for fault in left if fault.node]},
        )
    entries = [("fault", fault.told) for fault in faults] or [("faults", "none found")]
    described = [fault._asdict() for fault in faults]
    answer.give(entries, error, is_to_do=bool(faults), as_json=as_json, faults=described)


def _faults(graph: Graph, *, custom_ops: bool) -> Iterator[_Fault]:
    from gdsurgeon.analysis.checks.check import refusals
    from gdsurgeon.analysis.queries.compatibility import legacy_problems

    found = list(legacy_problems(graph))
    yield from (_Fault(text, "", mendable=True) for text in graph.mended)
    yield from (_Fault(each.text, each.node, each.is_mendable) for each in found)
    nodes = {each.node for each in found}
    others = (fault for fault in refusals(graph, custom_ops=custom_ops) if fault.facts.get("node") not in nodes)
    yield from (_Fault(text, "", mendable=False) for text in others)
