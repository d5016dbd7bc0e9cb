"""gdsurgeon repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import EditError, UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


@click.command("repair", cls=Command)
@edit_options
@click.option("--check", "--list", "only_check", is_flag=True, help="Only list what is wrong: exit 0 or 4.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print JSON.")
def command(request: Request, only_check: bool, as_json: bool) -> None:
    """Put right what keeps an old graph from being loaded.

    Ops that want a variable and read a value, as in a frozen graph (RefSwitch, Assign, ReadVariableOp, ...), become
    those that give the same of a value; colocations with nodes that are not there go; of several nodes with one name
    each gets its own. Tables that nothing initialises and ops that TensorFlow does not know are named. Proven by
    running: the result runs, and where MODEL does, the outputs are bit-identical.

    \b
    Examples:
      gdsurgeon repair model.pb --list
      gdsurgeon repair model.pb -o mended.pb
    """
    if as_json and not only_check:
        raise UsageError("--json is for --list: --report writes what was done", code="missing-option")
    if only_check:
        if request.out is not None or request.in_place:
            raise UsageError(
                "--check (--list) writes nothing: it goes with neither -o nor -i", code="conflicting-options"
            )
        _check(request, as_json=as_json)
        return
    from functools import partial

    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.repair import repair

    request.mends = True
    run_edit("repair", request, partial(repair, custom_ops=bool(request.settings.op_libraries)))


class _Fault(NamedTuple):
    """What is wrong with a model, the NODE with which it is ('' where it is not said), and whether it can be mended."""

    text: str
    node: str
    mendable: bool

    @property
    def told(self) -> str:
        """It in a line."""
        return self.text + ("" if self.mendable else " (cannot be mended)")


def _check(request: Request, *, as_json: bool) -> None:
    """Prints what is wrong. Raises EditError: something is."""
    from gdsurgeon.analysis.queries.op_usage import op_counts
    from gdsurgeon.container.load import open_model
    from gdsurgeon.graph.uniquely import uniquely_named
    from gdsurgeon.view.findings import findings

    graph = uniquely_named(open_model(request.model, request.wanted).graph)
    faults = list(_faults(graph, custom_ops=bool(request.settings.op_libraries)))
    error = None
    if faults:
        error = EditError(f"{printable(graph.source_name)} is to be mended", code="to-be-mended")
    if as_json:
        terminal.answer(_json(graph, faults, error))
    else:
        entries = [("fault", each.told) for each in faults] or [("faults", "none that is known here")]
        found = findings(graph.source_name, graph.node_count, len(op_counts(graph)), entries)
        terminal.answer("\n".join(found))
    if error is not None:
        raise error


def _faults(graph: Graph, *, custom_ops: bool) -> Iterator[_Fault]:
    from gdsurgeon.analysis.checks.check import refusals
    from gdsurgeon.analysis.queries.ailments import ailments

    found = list(ailments(graph))
    yield from (_Fault(text, "", mendable=True) for text in graph.mended)
    yield from (_Fault(each.text, each.node, each.is_mendable) for each in found)
    nodes = {each.node for each in found}
    others = (fault for fault in refusals(graph, custom_ops=custom_ops) if fault.facts.get("node") not in nodes)
    yield from (_Fault(text, "", mendable=False) for text in others)


def _json(graph: Graph, faults: Sequence[_Fault], error: EditError | None) -> str:
    import json

    from gdsurgeon.cli.hints import error_json

    found = {
        "model": graph.source_name,
        "faults": [each._asdict() for each in faults],
        "error": error_json(error, "repair") if error is not None else None,
        "exit_code": error.exit_code if error is not None else 0,
    }
    return json.dumps(found, indent=2)
