"""gdsurgeon add-gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import BadValue, MissingOption, option, tolerance_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit


@edit_command("add-gradients")
@option("--ys", required=True)
@option("--xs")
@option("--weights")
@option("--grad-ys")
@option("--prefix", "scope")
@option("--names")
@option("--unconnected", default="error", show_default=True)
@option("--checkpoints")
@option("--budget", excludes="--checkpoints")
@option("--threads")
@tolerance_options
def command(request: Request, checkpoints: list[str], **arguments: Any) -> Edit:
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
    from gdsurgeon.edits.add_gradients import add_gradients
    from gdsurgeon.feeds.given import as_meant
    from gdsurgeon.feeds.input_spec import given_shapes
    from gdsurgeon.runtime.evaluator import Differentiator

    _check(checkpoints=checkpoints, **arguments)
    arguments = {name: value for name, value in arguments.items() if value is not None}
    settings = request.settings
    differentiator = Differentiator(
        settings.timeout, settings.op_libraries, verbose=settings.verbose, allow_ops=settings.allow_ops
    )
    # The edits of a script run after all lines are read, so the process ends with the program.
    click.get_current_context().find_root().with_resource(differentiator)
    return lambda graph: add_gradients(
        graph,
        checkpoints=checkpoints[0] if len(checkpoints) == 1 else checkpoints or "none",
        shapes=given_shapes(graph, as_meant(request.overrides, graph)),
        differentiator=differentiator,
        **arguments,
    )


def _check(
    *,
    xs: list[str],
    weights: bool,
    scope: str | None,
    checkpoints: list[str],
    budget: float | None,
    threads: int | None,
    **_: object,
) -> None:
    """Raises UsageError if options conflict, or an option lacks the option that it needs."""
    from gdsurgeon.gradients.checkpoints import MODES

    if not (xs or weights):
        line = "--xs or --weights is missing: the tensors with respect to which gradients are computed"
        raise MissingOption(line, option="--xs")
    if scope is not None and not scope.strip("/"):
        raise BadValue("--prefix is empty", option="--prefix")
    if threads is not None and budget is None and checkpoints in ([], ["none"]):
        raise MissingOption("--threads needs --checkpoints or --budget", option="--threads")
    if len(checkpoints) > 1 and set(checkpoints) & set(MODES):
        raise BadValue(f"--checkpoints expects one of {', '.join(MODES)}, or tensors", option="--checkpoints")
