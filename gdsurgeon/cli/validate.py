"""gdsurgeon validate."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from gdsurgeon.cli.command import Command, level_option, validate_options
from gdsurgeon.cli.complete import files
from gdsurgeon.cli.options import Pairs, once, option, pairs_of_file, tensors_in, tolerance_options, unnamed
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, UsageError, ValidationError, printable
from gdsurgeon.wire.source import STANDARD_INPUT

if TYPE_CHECKING:
    from gdsurgeon.operation.validate import Verdict


@click.command("validate", cls=Command)
@click.argument("model", shell_complete=files)
@click.argument("other", shell_complete=files, required=False)
@level_option(["structure", "load", "run"], "Level of the validation.")
@option("--map", "mapped", help="LEFT of MODEL has the name RIGHT in OTHER.")
@option("--map-file")
@option("--outputs", parse=None, help="Compare these tensors of MODEL; NAME is the tensor's name in OTHER.")
@option("--pre")
@option("--pre-map")
@option("--post")
@option("--post-map")
@tolerance_options
@option("--no-grappler")
@option("--first-divergence")
@option("--lockstep")
@option("--reduce")
@option("--strict")
@option("--profile")
@option("--save-outputs")
@option("--save-feeds")
@option("--golden")
@validate_options
def command(
    model: str,
    other: str | None,
    as_json: bool,
    mapped: Pairs,
    map_file: str | None,
    outputs: tuple[str, ...],
    no_grappler: bool,
    **options: Any,
) -> None:
    """Check that a model loads and runs, or compare two models.

    Outputs are paired by name. If an output has no partner, the validation fails. The graphs are run without
    optimization, and then again with TensorFlow's optimizer (Grappler). Differences that do not show in the outputs are
    listed. Replaced nodes are also run in isolation on random inputs. With two devices (--device cpu,gpu), MODEL on one
    device is compared with MODEL on the other device.

    \b
    Examples:
      gdsurgeon validate model.pb
      gdsurgeon validate model.pb edited.pb --rtol 1e-5 --first-divergence
      gdsurgeon validate model.pb --feeds feeds.npz --golden outputs.npz
    """
    from gdsurgeon.operation.validate import ValidateRequest, Verdict, carry_out

    listed = [] if other is None else tensors_in(outputs, "--outputs")
    named = [(tensor, name) for tensor, name in listed if name]
    samples = click.get_current_context().get_parameter_source("samples")
    verdict = Verdict(
        ValidateRequest(
            model=model,
            other=other,
            as_json=as_json,
            names=once([*mapped, *named, *pairs_of_file(map_file)]),
            outputs=unnamed(outputs, "--outputs") if other is None else [tensor for tensor, _ in listed],
            grappler=not no_grappler,
            all_recorded=samples == click.core.ParameterSource.DEFAULT,
            **options,
        )
    )
    try:
        carry_out(verdict, terminal.tell)
    except UsageError:
        raise
    except GdsurgeonError as error:
        if other is not None and isinstance(error, ValidationError) and not {model, other} & STANDARD_INPUT:
            error.advice = (*error.advice, "what-changed")
            error.facts.update(model=shlex.quote(printable(model)), other=shlex.quote(printable(other)))
        _show(verdict, as_json, error)
        raise
    _show(verdict, as_json, None)


def _show(verdict: Verdict, as_json: bool, error: GdsurgeonError | None) -> None:
    """Prints the verdict, as JSON or as lines."""
    from gdsurgeon.cli.hints import error_json, word_proof, worded
    from gdsurgeon.view.verdict import verdict_json, verdict_summary

    verdict.warnings = list(dict.fromkeys(map(worded, verdict.warnings)))
    for proof in filter(None, (verdict.proof, verdict.optimized)):
        word_proof(proof)
    terminal.warn(verdict.warnings)
    if as_json:
        wrong = error_json(error, "validate") if error is not None else None
        terminal.answer_json(verdict_json(verdict, wrong))
    elif verdict.graphs:
        terminal.summary(*verdict_summary(verdict, error), height=None)
