"""gdsurgeon check-ops."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, NoReturn

import click

from gdsurgeon.cli.command import Command, validate_options
from gdsurgeon.cli.complete import files
from gdsurgeon.cli.options import BadValue, ConflictingOptions, MissingOption, option, tolerance_options, unnamed
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import EditError, GdsurgeonError, ValidationError, printable
from gdsurgeon.text import nearest, suggestion

if TYPE_CHECKING:
    from gdsurgeon.container.files import Wanted
    from gdsurgeon.operation.check_ops import CheckedOps


ENGINES = ("opencv", "openvino", "tfjs", "tflite")


def _names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Returns the values of --for."""
    from gdsurgeon.ops.releases import releases

    names = (*ENGINES, *(f"tf{release.name}" for release in releases()))
    return [name for name in names if name.startswith(incomplete)]


@click.command("check-ops", cls=Command)
@click.argument("model", shell_complete=files)
@option("--for", "engine", shell_complete=_names)
@option("--run")
@option("--run-in", help="With --run: run the engine in this wheel or folder, if the engine is not installed.")
@option("--outputs", help="With --run: compare these tensors.", parse=unnamed)
@tolerance_options
@validate_options
def command(model: str, engine: str | None, as_json: bool, **options: Any) -> None:
    """List ops that an engine or an older TensorFlow lacks.

    For an engine, the ops of MODEL and its functions are compared with a list of ops that a release of the engine
    supports. The list does not cover attrs, dtypes and shapes. With --run, the engine runs MODEL in a separate process
    on generated or given inputs. The outputs of the engine are compared with the outputs of TensorFlow.

    For a TensorFlow release such as tf1.15, ops, attrs, values and dtypes are checked.

    Exit code 0: nothing is lacking, or the outputs agree; 4: ops are lacking, or the engine refuses MODEL; 5: the
    outputs differ.

    \b
    Examples:
      gdsurgeon check-ops model.pb --for tflite
      gdsurgeon check-ops model.pb --for tf1.15
      gdsurgeon check-ops model.pb --for opencv --run --rtol 1e-5 --atol 1e-5
      gdsurgeon check-ops model.pb --for openvino --run --run-in openvino.whl --json
    """
    _check_options(engine, options)
    assert engine is not None
    if engine not in ENGINES:
        _check_release(model, options["wanted"], engine.removeprefix("tf"), as_json=as_json)
    from gdsurgeon.cli.hints import HINTS, error_json
    from gdsurgeon.operation.check_ops import check_ops
    from gdsurgeon.view import check_ops as view

    feeds = options["overrides"]
    checked = check_ops(
        model,
        engine,
        place=options["run_in"],
        **{name: options[name] for name in ("run", "outputs", "rtol", "atol", "settings")},
        **options["wanted"]._asdict(),
        feeds=feeds.values,
        archive=feeds.archive,
        shapes=feeds.shapes,
        progress=terminal.tell,
    )
    error = _verdict(checked, model)
    helps = {op: HINTS[code].format_map(facts) for op, (code, facts) in checked.helps().items()}
    if as_json:
        wrong = error_json(error, "check-ops") if error is not None else None
        terminal.answer_json(view.as_json(checked, helps, wrong))
    else:
        terminal.answer_lines(view.lines(checked, helps, whole=terminal.verbose))
    if error is not None:
        raise error


def _check_options(engine: str | None, options: dict[str, Any]) -> None:
    """Raises UsageError if an option is missing or has no effect."""
    if engine is None:
        line = f"--for is missing: {', '.join(ENGINES)}, or a TensorFlow release such as tf1.15"
        raise MissingOption(line, option="--for")
    if engine not in ENGINES and not re.match(r"tf[0-9]", engine):
        near = nearest(engine, ENGINES)
        known = f"neither an engine ({', '.join(ENGINES)}) nor a TensorFlow release such as tf1.15"
        line = f"--for {printable(engine)} is {known}.{suggestion(near)}"
        raise BadValue(line, option="--for", value=engine, near=near)
    if not options["run"]:
        for name in ("run_in", "outputs", "rtol", "atol"):
            if options[name] not in (None, []):
                option = f"--{name.replace('_', '-')}"
                raise MissingOption(f"{option} needs --run", option=option)
    elif engine not in ENGINES:
        line = "--run is for engines; compat --for {} --run-in WHEEL runs the converted model in this release"
        raise ConflictingOptions(line.format(engine), option="--run")
    elif len(options["devices"]) > 1 or options["settings"].device != "cpu":
        line = "--device: an engine runs on the CPU and is compared with TensorFlow on the CPU"
        raise BadValue(line, option="--device")


def _check_release(model: str, wanted: Wanted, name: str, *, as_json: bool) -> NoReturn:
    """Prints what the TensorFlow release NAME does not support. Raises EditError if there is something."""
    from gdsurgeon.analysis.queries.compatibility import told, unknown_to, unknown_version
    from gdsurgeon.cli.edit import checked_model, end_check
    from gdsurgeon.container.load import open_model
    from gdsurgeon.edits.compat import known_release

    release = known_release(name)
    graph = open_model(model, wanted).graph
    unknown, version = unknown_to(graph, release), unknown_version(graph, release)
    error = None
    if unknown or version:
        error = EditError(
            f"TensorFlow {release.name} does not support all of {printable(graph.source_name)}",
            code="not-compatible",
            target=release.name,
            model=shlex.quote(printable(model)),
            advice="make-older",
        )
    entries = [("target", f"TensorFlow {release.name} {'does not support' if error else 'supports'} all nodes")]
    entries += [("unknown", line) for line in (*told(unknown), *([version] if version else []))]
    found = {"target": release.name, "unknown": [each._asdict() for each in unknown], "version": version or None}
    end_check("check-ops", checked_model(graph), entries, error, is_to_do=False, as_json=as_json, **found)


def _verdict(checked: CheckedOps, model: str) -> GdsurgeonError | None:
    """Returns the error of the command; None if no op is lacking and the outputs agree."""
    from gdsurgeon.text import counted, named

    name = printable(checked.graph.source_name)
    if checked.refusal is not None:
        return checked.refusal
    facts = {"engine": checked.engine.name, "model": shlex.quote(printable(model))}
    if checked.run is not None:
        from gdsurgeon.proof.elsewhere import told

        wrong = checked.run.wrong
        if not wrong:
            return None
        what = named([output.name for output in wrong], 3)
        return ValidationError(
            f"outputs of {name} in {checked.run.called} differ from TensorFlow's: {what}",
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
