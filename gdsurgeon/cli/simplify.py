"""gdsurgeon simplify."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.check_edit import check_edit, check_option, refuse_options
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, names_in, tensor_tolerance
from gdsurgeon.cli.tensor_lists import named_edit, tensor_lists, tensors_in
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.attrs import Shape
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.runtime.evaluator import Evaluator


@click.command("simplify", cls=Command)
@edit_options
@check_option
@tensor_lists(outputs="Keep only what these tensors need.")
@known_option("--passes")
@known_option("--skip")
@known_option("--keep-checks")
@known_option("--max-growth", default=0, show_default=True)
@known_option("--for", "engine", help="Write constants in the form that this engine expects: opencv.")
@known_option("--fold-bn")
@tensor_tolerance(" (--fold-bn; default 1e-3)")
def command(
    request: Request,
    only_check: bool,
    as_json: bool,
    outputs: tuple[str, ...],
    passes: tuple[str, ...],
    skip: tuple[str, ...],
    keep_checks: bool,
    max_growth: int,
    engine: str | None,
    fold_bn: bool,
    tolerance: float | None,
) -> None:
    """Remove redundant nodes; outputs stay bit-identical.

    These passes are repeated until nothing changes: inline, unread, control-edges, conditions, checks, stop-gradients,
    identities, neutral, pairs, equal-nodes, same-shape, dropout, shapes, constants, bodies, functions. Inputs and
    outputs keep their names. --shape gives an input a fixed shape.

    With --fold-bn, batch norms, paddings and dilations are folded into convolutions and matrix products. The outputs
    then agree up to rounding, and every folded layer is also checked in isolation.

    \b
    Examples:
      gdsurgeon simplify model.pb -o smaller.pb
      gdsurgeon simplify model.pb --outputs logits --keep-checks -o smaller.pb
      gdsurgeon simplify model.pb --fold-bn -o quicker.pb
      gdsurgeon simplify model.pb --passes unread,identities -o smaller.pb
      gdsurgeon simplify model.pb --shape image=1,224,224,3 -o smaller.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.simplify import simplify

    if tolerance is not None and not fold_bn:
        raise UsageError(
            "--tolerance needs --fold-bn: other passes are bit-identical",
            code="missing-option",
            facts={"option": "--fold-bn"},
        )
    ends, wanted = tensors_in(outputs, "--outputs"), names_in(passes, "--passes")
    without = names_in(skip, "--skip")
    _check_more_than_checks(wanted, without, keep_checks and not fold_bn)
    refuse_options(request, only_check=only_check, as_json=as_json)
    evaluator = _evaluator(request)
    near = {} if tolerance is None else {"tolerance": tolerance}

    def edit(graph: Graph) -> EditResult:
        return simplify(
            graph,
            [end.tensor for end in ends],
            passes=wanted,
            skip=[*without, *["checks"] * keep_checks],
            shapes=_shapes(request, graph),
            max_growth=max_growth,
            evaluate=evaluator,
            engine=engine or "",
            fold_bn=fold_bn,
            **near,
        )

    request = replace(request, evaluator=evaluator)
    edits = named_edit(request, edit, ends)
    if only_check:
        check_edit("simplify", request, edits, as_json=as_json)
    run_edit("simplify", request, edits)


def _shapes(request: Request, graph: Graph) -> list[tuple[str, Shape]]:
    """Returns the fixed shapes of inputs. Raises UsageError if an input does not exist."""
    from gdsurgeon.analysis.queries.signature import input_nodes
    from gdsurgeon.feeds.given import as_meant, check_names
    from gdsurgeon.feeds.overrides import Overrides

    meant = as_meant(request.overrides, graph)
    check_names(Overrides(shapes=meant.shapes), [node.name for node in input_nodes(graph)])
    return list(meant.shapes.items())


def _check_more_than_checks(wanted: Sequence[str], without: Sequence[str], keeps_checks: bool) -> None:
    """Raises UsageError if checks are kept and the only pass in WANTED but not in WITHOUT is that of checks."""
    if keeps_checks and {*wanted} - {*without} == {"checks"}:
        raise UsageError(
            "nothing to do: --passes checks and --keep-checks exclude each other",
            code="conflicting-options",
            facts={"option": "--keep-checks"},
        )


def _evaluator(request: Request) -> Evaluator:
    """Returns the evaluator of constants, which lives until the command ends: a script runs its edits last."""
    from gdsurgeon.runtime.evaluator import Evaluator

    settings = request.settings
    evaluator = Evaluator(settings.timeout, settings.op_libraries, verbose=settings.verbose)
    return click.get_current_context().find_root().with_resource(evaluator)
