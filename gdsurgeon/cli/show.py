"""gdsurgeon show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Query, query_command, selecting
from gdsurgeon.cli.complete import nodes
from gdsurgeon.cli.hints import worded
from gdsurgeon.cli.options import ConflictingOptions, option
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import EditError, GdsurgeonError, UsageError, quoted

if TYPE_CHECKING:
    from gdsurgeon.analysis.checks.nodes import Findings
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.graph.node import Node
    from gdsurgeon.select import Selection
    from gdsurgeon.view.node import ShownNode


@query_command("show")
@selecting(by_position=False)
@click.argument("names", metavar="[NODE]...", shell_complete=nodes, nargs=-1)
@option("--all-values")
@option("--save")
def command(query: Query, selection: Selection, names: tuple[str, ...], all_values: bool, save: str | None) -> None:
    """Show the details of nodes.

    The command prints the inputs of a node with dtypes and shapes, the consumers of each output, the attrs, the device,
    the control edges and the functions. For constants and restored variables, it also prints the first elements and
    statistics. NODE can also be a tensor (node:1), or KEY/NAME for an input or output of the signature KEY.

    If the graph has structural faults, the command still shows the nodes. It prints the faults to standard error and
    ends with exit code 3.

    \b
    Examples:
      gdsurgeon show model.pb logits/weights
      gdsurgeon show model.pb logits/weights --save weights.npy
      gdsurgeon show model.pb --op Conv2D --json | jq '.nodes[].outputs[0].shape'
    """
    if not names and selection.names_nothing:
        hint = "NODE ..., or --select REGEX, --op TYPE, --scope SCOPE; gdsurgeon view MODEL shows the nodes"
        raise UsageError("no nodes are named or selected", code="nothing-selected", hint=hint)
    from gdsurgeon.analysis.checks.check import check

    graph = query.open().graph
    findings = check(graph)
    try:
        shown = _shown(graph, names, selection, findings)
        for item in shown:
            item.is_whole = all_values
        if save is not None and not findings.fault_count:
            _save(query, save, [item.facts.node for item in shown])
        if save != "-" or findings.fault_count:
            _answer(graph, shown, findings, as_json=query.as_json)
    except EditError:
        raise
    except GdsurgeonError:
        if not findings.fault_count:
            raise
        raise findings.as_error(graph.source_name) from None  # the faults keep the command from showing more
    if findings.fault_count:
        raise findings.as_error(graph.source_name)


def _shown(graph: Graph, names: tuple[str, ...], selection: Selection, findings: Findings) -> list[ShownNode]:
    from gdsurgeon.analysis.queries.node_facts import node_facts
    from gdsurgeon.select import meant, selected_nodes
    from gdsurgeon.view.node import ShownNode

    marked: dict[Node, set[int]] = {}
    for name in names:
        node, index = _named(graph, name)
        marked.setdefault(node, set()).update(() if index is None else (index,))
    if not selection.names_nothing:
        for node in selected_nodes(graph, meant(graph, selection)):
            marked.setdefault(node, set())
    return [ShownNode(facts, marked[facts.node], findings.of(facts.node.name)) for facts in node_facts(graph, marked)]


def _named(graph: Graph, text: str) -> tuple[Node, int | None]:
    """Returns the node that `text` names, and the index of its output if `text` is a tensor, else None."""
    from gdsurgeon.graph.served import tensor_meant

    found = graph.find(text)
    if found is not None:
        return found, None
    name = text.removeprefix("^")
    tensor = tensor_meant(graph, name)
    if tensor == name and ":" not in name:
        return graph[name], None
    output = graph.tensor(tensor)
    return output.node, output.index


def _answer(graph: Graph, shown: list[ShownNode], findings: Findings, *, as_json: bool) -> None:
    from gdsurgeon.view import node

    if not as_json:
        lines = [worded(line) for item in shown for line in ("", *node.lines(item))][1:]
        if any(item.is_whole for item in shown):
            terminal.answer("\n".join(lines))
        else:
            terminal.answer_lines(lines)
        return
    terminal.answer_json(
        {
            "file": graph.source_name,
            "nodes": [node.as_json(item) for item in shown],
            "faults": findings.faults,
            "fault_count": findings.fault_count,
        }
    )


def _save(query: Query, path: str, shown: list[Node]) -> None:
    """Writes the value of the only node in `shown` to `path`, completely or not at all."""
    from gdsurgeon.analysis.queries.constants import value_of
    from gdsurgeon.operation.paths import check_replaces_nothing, check_takes_binary
    from gdsurgeon.wire.output import STANDARD_OUTPUT, OutputFile

    if query.as_json and path in STANDARD_OUTPUT:
        raise ConflictingOptions("--json and --save - cannot both write to standard output", option="--save")
    check_replaces_nothing([("--save", path)], [query.path])
    if len(shown) != 1:
        raise EditError(
            f"--save expects one node, got {len(shown):,}", code="wrong-count", option="--save", count=len(shown)
        )
    value = value_of(shown[0])
    if value is None:
        raise EditError(
            f"{quoted(shown[0].name)} is {quoted(shown[0].op)}, whose value is not in the files",
            code="value-unknown",
            node=shown[0].name,
            op=shown[0].op,
        )
    with OutputFile(path) as output:
        check_takes_binary(output)
        terminal.is_settled = lambda: output.has_appeared
        output.stage(value.npy())
        output.publish()
