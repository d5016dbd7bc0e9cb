"""gdsurgeon add-gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import listed, nodes
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, names_in, tolerance_options
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.runtime.differentiator import Differentiator


@click.command("add-gradients", cls=Command)
@edit_options
@known_option("--ys", shell_complete=listed(nodes), required=True)
@known_option("--xs", shell_complete=listed(nodes))
@known_option("--weights")
@known_option("--grad-ys", shell_complete=listed(nodes))
@known_option("--prefix", "scope")
@known_option("--names")
@known_option("--unconnected", default="error", show_default=True)
@known_option("--checkpoints", shell_complete=listed(nodes))
@known_option("--budget")
@known_option("--threads")
@tolerance_options
def command(
    request: Request,
    ys: tuple[str, ...],
    xs: tuple[str, ...],
    weights: bool,
    grad_ys: tuple[str, ...],
    scope: str | None,
    names: tuple[str, ...],
    unconnected: str,
    checkpoints: tuple[str, ...],
    budget: float | None,
    threads: int | None,
    rtol: float | None,
    atol: float | None,
) -> None:
    """Add nodes that compute gradients.

    The gradient functions are those of TensorFlow. With --checkpoints or --budget, only a part of the tensors of the
    forward pass is kept in memory; the backward pass computes the other tensors again. Such gradients need less memory
    and more time. The choice of tensors depends on the input shapes; --shape sets these shapes.

    Proof: the gradients are bit-identical to those of tf.gradients on MODEL, and the outputs of MODEL do not
    change.

    \b
    Examples:
      gdsurgeon add-gradients classifier.pb --ys logits --xs image --names saliency -o explained.pb
      gdsurgeon add-gradients model.pb --ys loss --weights --checkpoints memory --shape image=32,224,224,3
      gdsurgeon add-gradients model.pb --ys loss --weights --budget 900 --shape image=32,224,224,3
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.add_gradients import add_gradients

    _check(bool(xs or weights), scope)
    targets, sources, given = names_in(ys, "--ys"), names_in(xs, "--xs"), names_in(grad_ys, "--grad-ys")
    called = names_in(names, "--names")
    kept = _kept(checkpoints, budget, threads)
    # In a script the edit is made when all lines are read: the process ends with the whole.
    differentiator = click.get_current_context().find_root().with_resource(_differentiator(request))
    run_edit(
        "add-gradients",
        request,
        lambda graph: add_gradients(
            graph,
            targets,
            sources,
            weights=weights,
            grad_ys=given,
            scope=scope or "",
            names=called,
            unconnected=unconnected,
            checkpoints=kept[0] if len(kept) == 1 else kept,
            budget=budget,
            shapes=_shapes(request, graph),
            threads=threads,
            rtol=rtol or 0.0,
            atol=atol or 0.0,
            differentiator=differentiator,
        ),
    )


def _check(has_sources: bool, scope: str | None) -> None:
    """Raises UsageError if --xs and --weights are missing, or the scope is empty."""
    if not has_sources:
        raise UsageError(
            "--xs or --weights is missing: the tensors with respect to which gradients are computed",
            code="missing-option",
            facts={"option": "--xs"},
        )
    if scope is not None and not scope.strip("/"):
        raise UsageError("--prefix is empty", code="bad-value", facts={"option": "--prefix"})


def _differentiator(request: Request) -> Differentiator:
    from gdsurgeon.runtime.differentiator import Differentiator

    settings = request.settings
    return Differentiator(
        settings.timeout, settings.op_libraries, verbose=settings.verbose, allow_ops=settings.allow_ops
    )


def _shapes(request: Request, graph: Graph) -> dict[str, tuple[int, ...]]:
    from gdsurgeon.feeds.given import as_meant
    from gdsurgeon.feeds.input_spec import given_shapes

    return given_shapes(graph, as_meant(request.overrides, graph))


def _kept(checkpoints: tuple[str, ...], budget: float | None, threads: int | None) -> list[str]:
    """Returns the values of --checkpoints. Raises UsageError if the options for plans conflict."""
    from gdsurgeon.gradients.checkpointing.rewrite import MODES

    if budget is not None and checkpoints:
        raise UsageError(
            "--budget chooses the checkpoints: give --budget or --checkpoints, not both",
            code="conflicting-options",
            facts={"option": "--budget"},
        )
    if threads is not None and budget is None and checkpoints in ((), ("none",)):
        raise UsageError(
            "--threads needs --checkpoints or --budget",
            code="missing-option",
            facts={"option": "--threads"},
        )
    kept = names_in(checkpoints, "--checkpoints") or ["none"]
    if len(kept) > 1 and set(kept) & set(MODES):
        raise UsageError(
            f"--checkpoints expects one of {', '.join(MODES)}, or tensors",
            code="bad-value",
            facts={"option": "--checkpoints"},
        )
    return kept
