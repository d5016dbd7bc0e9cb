"""gdsurgeon simplify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gdsurgeon.cli.edit import check_edit, check_option, edit_command, named_edit
from gdsurgeon.cli.options import ConflictingOptions, ListedTensor, option, tensor_tolerance

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Instruction


@edit_command("simplify")
@check_option
@option("--outputs", help="Keep only what these tensors need.")
@option("--passes")
@option("--skip")
@option("--keep-checks")
@option("--max-growth", default=0, show_default=True)
@option("--for", "engine", default="", help="Write constants in the form that this engine expects: opencv.")
@option("--fold-bn")
@tensor_tolerance(" (--fold-bn; default 1e-3)", needs="--fold-bn")
def command(
    request: Request,
    only_check: bool,
    as_json: bool,
    outputs: list[ListedTensor],
    skip: list[str],
    keep_checks: bool,
    tolerance: float | None,
    **arguments: Any,
) -> list[Instruction]:
    """Remove redundant nodes; outputs stay bit-identical.

    These passes are repeated until nothing changes: inline, unread, control-edges, conditions, checks, stop-gradients,
    identities, neutral, pairs, equal-nodes, same-shape, dropout, shapes, constants, bodies, functions. Inputs and
    outputs keep their names. --shape gives an input a fixed shape.

    With --fold-bn, batch norms, factors, paddings and dilations are folded into convolutions and matrix products. The
    outputs then agree up to rounding, and every folded layer is also checked in isolation.

    \b
    Examples:
      gdsurgeon simplify model.pb -o smaller.pb
      gdsurgeon simplify model.pb --outputs logits --keep-checks -o smaller.pb
      gdsurgeon simplify model.pb --fold-bn -o quicker.pb
      gdsurgeon simplify model.pb --passes unread,identities -o smaller.pb
      gdsurgeon simplify model.pb --shape image=1,224,224,3 -o smaller.pb
    """
    from gdsurgeon.analysis.queries.signature import input_nodes
    from gdsurgeon.edits.simplify import simplify
    from gdsurgeon.feeds.given import as_meant, check_names
    from gdsurgeon.feeds.overrides import Overrides
    from gdsurgeon.runtime.evaluator import Evaluator

    if tolerance is not None:
        arguments["tolerance"] = tolerance
    if keep_checks and not arguments["fold_bn"] and {*arguments["passes"]} - {*skip} == {"checks"}:
        line = "nothing to do: --passes checks and --keep-checks exclude each other"
        raise ConflictingOptions(line, option="--keep-checks")
    settings = request.settings
    evaluator = Evaluator(settings.timeout, settings.op_libraries, verbose=settings.verbose)
    # The edits of a script run after all lines are read, so the process ends with the program.
    click.get_current_context().find_root().with_resource(evaluator)
    request.evaluator = evaluator

    def edit(graph: Graph) -> EditResult:
        meant = as_meant(request.overrides, graph)
        check_names(Overrides(shapes=meant.shapes), [node.name for node in input_nodes(graph)])
        return simplify(
            graph,
            [output.tensor for output in outputs],
            skip=[*skip, *["checks"] * keep_checks],
            shapes=list(meant.shapes.items()),
            evaluate=evaluator,
            **arguments,
        )

    edits = named_edit(request, edit, outputs)
    if only_check:
        check_edit("simplify", request, edits, as_json=as_json)
    return edits
