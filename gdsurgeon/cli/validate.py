"""gdsurgeon validate."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes, paired, placeholders
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import level_option, pairs, tolerance_options, validate_options
from gdsurgeon.cli.tensor_lists import tensor_lists, tensors_in, unnamed
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, UsageError, ValidationError, printable
from gdsurgeon.wire.source import STANDARD_INPUT

if TYPE_CHECKING:
    from gdsurgeon.operation.validate import Verdict
    from gdsurgeon.operation.validate_request import ValidateRequest


@click.command("validate", cls=Command)
@click.argument("model", shell_complete=files)
@click.argument("other", shell_complete=files, required=False)
@level_option(["structure", "load", "run"], "Level of the validation.")
@known_option("--map", "mapped", shell_complete=paired(nodes), help="LEFT of MODEL has the name RIGHT in OTHER.")
@known_option("--map-file", shell_complete=files)
@tensor_lists(outputs="Compare these tensors of MODEL; NAME is the tensor's name in OTHER.")
@known_option("--pre", shell_complete=files)
@known_option("--pre-map", shell_complete=paired(placeholders))
@known_option("--post", shell_complete=files)
@known_option("--post-map", shell_complete=paired(nodes))
@tolerance_options
@known_option("--no-grappler")
@known_option("--first-divergence")
@known_option("--lockstep")
@known_option("--reduce", shell_complete=files)
@known_option("--strict")
@known_option("--profile")
@known_option("--save-outputs", shell_complete=files)
@known_option("--save-feeds", shell_complete=files)
@known_option("--golden", shell_complete=files)
@validate_options
@click.pass_context
def command(context: click.Context, /, model: str, other: str | None, as_json: bool, **options: Any) -> None:
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
    from gdsurgeon.operation.validate import Verdict, carry_out

    options["all_recorded"] = context.get_parameter_source("samples") == click.core.ParameterSource.DEFAULT
    verdict = Verdict(_request(model, other, as_json, options))
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


def _request(model: str, other: str | None, as_json: bool, options: Mapping[str, Any]) -> ValidateRequest:
    """Returns the request of the OPTIONS."""
    from gdsurgeon.cli.parts import mappings
    from gdsurgeon.operation.validate_request import ValidateRequest

    map_file = options["map_file"]
    outputs = tensors_in(options["outputs"], "--outputs")
    named = [] if other is None else [f"{tensor}={name}" for tensor, name in outputs if name]
    return ValidateRequest(
        model=model,
        other=other,
        level=options["level"],
        names=pairs((*options["mapped"], *named), map_file),
        pre=options["pre"],
        post=options["post"],
        pre_map=mappings(options["pre_map"], "--pre-map"),
        post_map=mappings(options["post_map"], "--post-map"),
        outputs=[tensor for tensor, _ in outputs] if named else unnamed(outputs, "--outputs"),
        rtol=options["rtol"],
        atol=options["atol"],
        devices=options["devices"],
        first_divergence=options["first_divergence"],
        lockstep=options["lockstep"],
        reduce=options["reduce"],
        profile=options["profile"],
        save_outputs=options["save_outputs"],
        save_feeds=options["save_feeds"],
        golden=options["golden"],
        grappler=not options["no_grappler"],
        strict=options["strict"],
        wanted=options["wanted"],
        settings=options["settings"],
        overrides=options["overrides"],
        all_recorded=options["all_recorded"],
        others=(*options["read"], *((map_file,) if map_file is not None else ())),
        as_json=as_json,
    )


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
