"""gdsurgeon check-ops."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, listed, nodes
from gdsurgeon.cli.options import names_in, tolerance_options, validate_options
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import EditError, GdsurgeonError, UsageError, ValidationError, printable

if TYPE_CHECKING:
    from gdsurgeon.operation.check_ops import CheckedOps, CheckOpsRequest

ENGINES = ("opencv", "openvino", "tfjs", "tflite")


@click.command("check-ops", cls=Command)
@click.argument("model", shell_complete=files)
@click.option("--for", "engine", type=click.Choice(ENGINES), help="The engine that is to take MODEL.  [required]")
@click.option("--run", is_flag=True, help="Have the engine itself run MODEL, and compare it with TensorFlow.")
@click.option(
    "--run-in", metavar="WHEEL|DIR", shell_complete=files, help="With --run: where the engine is, if not installed."
)
@click.option(
    "--outputs", metavar="NAME,...", shell_complete=listed(nodes), multiple=True, help="With --run: tensors to compare."
)
@tolerance_options
@validate_options
def command(model: str, engine: str | None, as_json: bool, **options: Any) -> None:
    """Tell which ops of MODEL another engine lacks, and whether it gives there what it gives in TensorFlow.

    The ops of MODEL and of the functions that it uses are looked up in a list that the engine's release was asked for.
    It says nothing of attrs, types and shapes. --run has the engine, where it is installed, take MODEL and run it on
    the feeds that a proof makes, in a process of its own; what it gives is compared with what TensorFlow gives. Exit
    code 0: it has all ops, or gives the same; 4: it lacks some, or does not take MODEL; 5: it gives something else.

    \b
    Examples:
      gdsurgeon check-ops model.pb --for tflite
      gdsurgeon check-ops model.pb --for opencv --run --rtol 1e-5 --atol 1e-5
      gdsurgeon check-ops model.pb --for openvino --run --run-in openvino.whl --json
    """
    if engine is None:
        raise UsageError(
            f"--for says which engine is to take it: {', '.join(ENGINES)}",
            code="missing-option",
            facts={"option": "--for"},
        )
    from gdsurgeon.operation.check_ops import carry_out

    checked = carry_out(_request(model, engine, options), terminal.tell)
    error = _verdict(checked, model)
    terminal.answer(_text(checked, error, as_json=as_json, whole=options["settings"].verbose))
    if error is not None:
        raise error


def _request(model: str, engine: str, options: dict[str, Any]) -> CheckOpsRequest:
    """What the OPTIONS of the command ask for."""
    from gdsurgeon.operation.check_ops import CheckOpsRequest

    outputs = names_in(options["outputs"], "--outputs")
    run = None
    if options["run"]:
        from gdsurgeon.proof.engines import EngineRequest

        if len(options["devices"]) > 1 or options["settings"].device != "cpu":
            raise UsageError(
                "--device: engines are run on the CPU, and compared with TensorFlow on the CPU",
                code="bad-value",
                facts={"option": "--device"},
            )
        run = EngineRequest(engine, options["run_in"], outputs, options["rtol"], options["atol"])
    else:
        for option, given in (("--run-in", options["run_in"]), ("--outputs", outputs), ("--rtol", options["rtol"]),
                              ("--atol", options["atol"])):  # fmt: skip
            if given or given == 0.0:
                raise UsageError(f"{option} needs --run", code="missing-option", facts={"option": option})
    return CheckOpsRequest(model, engine, run, options["wanted"], options["settings"], options["overrides"])


def _verdict(checked: CheckedOps, model: str) -> GdsurgeonError | None:
    """The error that it comes to; None where the engine has all, or gives the same."""
    from gdsurgeon.text import counted, named

    name = printable(checked.graph.source_name)
    if checked.refusal is not None:
        return checked.refusal
    facts = {"engine": checked.engine.name, "model": shlex.quote(printable(model))}
    if checked.run is not None:
        from gdsurgeon.proof.engines import told

        wrong = checked.run.wrong
        if not wrong:
            return None
        what = named([output.name for output in wrong], 3)
        return ValidationError(
            f"{checked.run.called} loads {name} and gives something else: "
            f"{what} {'differs' if len(wrong) == 1 else 'differ'}",
            code="engine-differs",
            details=tuple(f"{printable(output.name)}: {told(output)}" for output in wrong),
            facts=facts,
        )
    lacking = checked.found.lacking
    if not lacking:
        return None
    runs_here = checked.engine.name != "tfjs"
    return EditError(
        f"{checked.engine.called} lacks {counted(len(lacking), 'op')} of {name}",
        code="ops-lacking",
        facts=facts,
        advice="run-there" if runs_here else (),
    )


def _helps(checked: CheckedOps) -> dict[str, str]:
    """What helps against what is lacking, in words, by op."""
    from gdsurgeon.cli.hints import HINTS

    return {lacking.op: HINTS[found.code].format_map(found.facts) for lacking, found in checked.helps() if found}


def _text(checked: CheckedOps, error: GdsurgeonError | None, *, as_json: bool, whole: bool) -> str:
    from gdsurgeon.view import check_ops as view

    if not as_json:
        return "\n".join(view.lines(checked, _helps(checked), whole=whole))
    import json

    from gdsurgeon.cli.hints import error_json

    wrong = error_json(error, "check-ops") if error is not None else None
    return json.dumps(view.as_json(checked, _helps(checked), wrong), indent=2)
