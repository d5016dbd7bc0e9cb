"""The options that commands share, and the objects that they become."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from gdsurgeon.cli.command import (
    SharedOption,
    current_script,
    feeds_option,
    message_option,
    model_option,
    output_option,
    proof_option,
)
from gdsurgeon.cli.complete import files, paired, placeholders
from gdsurgeon.cli.meanings import MEANINGS
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, UsageError, printable, quoted, reason

if TYPE_CHECKING:
    from gdsurgeon.container.wanted import Wanted
    from gdsurgeon.feeds.overrides import Overrides
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.proof.settings import Settings

LONGEST_TIMEOUT = 10_000_000
"""Seconds; a longer time is a typo, and too long for the clocks of the system."""

F = TypeVar("F", bound=Callable[..., object])

OUT = output_option("-o", "--output", "out", shell_complete=files)

_OUTPUT = (
    output_option("-i", "--in-place"),
    output_option("--backup"),
    output_option("-n", "--dry-run"),
    output_option("--require-change"),
    output_option("--format", "form", choices=["binary", "text"]),
    output_option("--report", shell_complete=files),
)


_MODEL = (
    model_option("--tags"),
    model_option("--signature", "signatures"),
    model_option("--checkpoint", shell_complete=files),
)
_AS_V1 = (
    model_option("--as-v1"),
    proof_option("--no-v2-check"),
)


def _wanted(options: dict[str, Any]) -> Wanted:
    """Removes the options that select a part of a model from OPTIONS, and returns them."""
    from gdsurgeon.container.wanted import Wanted

    tags, checkpoint = options.pop("tags", None), options.pop("checkpoint", None)
    return Wanted(
        tuple(names_in((tags,), "--tags")) if tags is not None else (),
        tuple(options.pop("signatures", ())),
        checkpoint.removesuffix(".index") if checkpoint is not None else "",
    )


def level_option(levels: Sequence[str], text: str) -> Callable[[F], F]:
    """The option for the level of validation, one of LEVELS; TEXT is its help."""
    names = ("--validate", "level")
    return proof_option(*names, also=["--level"], choices=levels, default="run", show_default=True, help=text)


_LEVEL = (
    level_option(["none", "structure", "load", "run"], "Level of the proof before the result is written."),
    proof_option("--changes-values"),
)
_RUNNING = (
    proof_option("--device", default="cpu", show_default=True),
    feeds_option("--feed", "feeds", shell_complete=paired(placeholders)),
    feeds_option("--feeds", "archive", shell_complete=files),
    feeds_option("--shape", "shapes", shell_complete=paired(placeholders)),
    feeds_option("--seed", default=0, show_default=True),
    proof_option("--samples", default=2, show_default=True),
    proof_option("--timeout", default=300.0, show_default=True),
    proof_option("--allow-ops"),
    proof_option("--op-lib", "op_libraries", shell_complete=files),
)


def _remember(name: str) -> Callable[[click.Context, click.Parameter, str | bool | None], str | bool | None]:
    def callback(_context: click.Context, _parameter: click.Parameter, value: str | bool | None) -> str | bool | None:
        if value is not None:
            setattr(terminal, name, value)
        return value

    return callback


_MANNERS = (
    message_option("-q", "--quiet", expose_value=False, callback=_remember("quiet")),
    message_option("-v", "--verbose", callback=_remember("verbose")),
    message_option("--color", default="auto", expose_value=False, callback=_remember("colour"), is_eager=True),
    message_option("--debug", expose_value=False, callback=_remember("debug"), is_eager=True),
)


_AS_JSON = output_option("--json", "as_json")


def _common(command: F, *options: Callable[[Any], Any], without: Sequence[str] = ()) -> F:
    """Adds OPTIONS to COMMAND as common ones, except those of the parameters WITHOUT."""
    for option in reversed(options):
        command = option(command)
        added: list[click.Parameter] = command.__click_params__  # type: ignore[attr-defined]
        if added[-1].name in without:
            added.pop()
        elif isinstance(added[-1], SharedOption):
            added[-1].is_common = True
    return command


@functools.cache
def common_options() -> tuple[click.Option, ...]:
    """Returns the options that most commands have."""

    def nothing() -> None:
        """Takes the options."""

    shared = (*click.command(edit_options(nothing)).params, *click.command(answer_options(nothing)).params)
    return tuple({option.name: option for option in shared if isinstance(option, click.Option)}.values())


def edit_options(command: F, *, without: Sequence[str] = ()) -> F:
    """The options of every command that writes a graph; they arrive as one `request`.

    The options of the parameters WITHOUT have no effect in the command, and are left out.
    """

    @functools.wraps(command)
    def wrapper(model: str, **options: Any) -> object:
        from gdsurgeon.wire.output import STANDARD_OUTPUT

        request = _request(model, options)
        script = current_script()
        if script is not None:
            return command(request=script.inherited(request), **options)
        out = model if request.out is None else request.out
        terminal.stand_in_pipe(model, is_data=out in STANDARD_OUTPUT)
        try:
            return command(request=request, **options)
        except GdsurgeonError as error:
            from gdsurgeon.cli.run_edit import report_failure

            report_failure(request, terminal.command, error)
            raise

    wrapper = _common(wrapper, *_MODEL, *_AS_V1, OUT, *_OUTPUT, *_LEVEL, *_RUNNING, *_MANNERS, without=without)
    wrapper.edits = True  # type: ignore[attr-defined]
    return click.argument("model", shell_complete=files)(wrapper)  # type: ignore[return-value]


def validate_options(command: F) -> F:
    """The options for running graphs, for a command that writes none.

    They arrive as `settings`, `overrides`, `devices` (two to compare, or none), `read` (paths) and `wanted`.
    """

    @functools.wraps(command)
    def wrapper(**options: Any) -> object:
        devices = tuple(_device(text) for text in options["device"].split(","))
        if len(devices) > 2 or len(devices) != len(set(devices)):
            raise UsageError(
                f"--device {options['device']}: give one device, or two to compare",
                code="bad-value",
                facts={"option": "--device", "value": options["device"]},
            )
        options["device"] = devices[0]
        settings, overrides, read = _running(options)
        compared = devices if len(devices) == 2 else ()
        wanted = _wanted(options)
        return command(settings=settings, overrides=overrides, devices=compared, read=read, wanted=wanted, **options)

    return _common(answering_json(wrapper), *_MODEL, *_RUNNING, _AS_JSON, *_MANNERS)  # type: ignore[return-value]


def tolerance_options(command: F) -> F:
    """The options --rtol and --atol, which compare element by element: |a - b| <= atol + rtol * max(|a|, |b|)."""
    return proof_option("--rtol")(proof_option("--atol")(command))


def tensor_tolerance(default: str) -> Callable[[F], F]:
    """The option --tolerance, which compares whole tensors, b being that of MODEL; DEFAULT ends its help."""
    return proof_option("--tolerance", help=f"Allow max |a-b| <= X * max |b| in each tensor{default}.")


def query_options(command: F, *, without: Sequence[str] = ()) -> F:
    """The options of a command that prints something about a graph; the wanted part of a model arrives as `wanted`.

    The options of the parameters WITHOUT have no effect in the command, and are left out.
    """

    @functools.wraps(command)
    def wrapper(**options: Any) -> object:
        return command(wanted=_wanted(options), **options)

    return answer_options(_common(wrapper, *_MODEL, without=without))  # type: ignore[return-value]


def answer_options(command: F, metavar: str = "MODEL") -> F:
    """The options of a command that prints something about its argument, which METAVAR names."""
    answering = _common(answering_json(command), _AS_JSON, *_MANNERS)
    return click.argument("model", metavar=metavar, shell_complete=files)(answering)


def answering_json(command: F) -> F:
    """Makes COMMAND answer an error as JSON, if JSON was requested and nothing was answered yet."""

    @functools.wraps(command)
    def wrapper(**options: Any) -> object:
        terminal.stand_in_pipe(options["model"], is_data=True)
        try:
            return command(**options)
        except GdsurgeonError as error:
            if options["as_json"] and not terminal.has_answered:
                from gdsurgeon.cli.hints import error_json

                terminal.answer_json({"error": error_json(error, terminal.command)})
            raise

    return wrapper  # type: ignore[return-value]


def _request(model: str, options: dict[str, Any]) -> Request:
    """Removes the shared options from OPTIONS, and returns them as a request."""
    from gdsurgeon.operation.edit import Request

    take = options.pop
    settings, overrides, read = _running(options)
    form = take("form")
    return Request(
        model=model,
        out=take("out"),
        in_place=take("in_place"),
        backup=take("backup"),
        dry_run=take("dry_run"),
        require_change=take("require_change"),
        changes_values=take("changes_values"),
        level=take("level"),
        wanted=_wanted(options),
        as_v1=take("as_v1", False),
        v2_check=not take("no_v2_check", False),
        report=take("report"),
        others=read,
        text=None if form is None else form == "text",
        settings=settings,
        overrides=overrides,
    )


def _running(options: dict[str, Any]) -> tuple[Settings, Overrides, tuple[str, ...]]:
    """Removes the options for running graphs from OPTIONS; returns them, and the paths of the files to read."""
    from gdsurgeon.feeds.overrides import Overrides
    from gdsurgeon.proof.settings import Settings

    take = options.pop
    timeout = take("timeout")
    if not math.isfinite(timeout) or timeout > LONGEST_TIMEOUT:
        raise UsageError(
            f"--timeout {timeout}: at most {LONGEST_TIMEOUT:,} seconds", code="bad-value", facts={"option": "--timeout"}
        )
    libraries = tuple(take("op_libraries"))
    for library in libraries:
        if not os.path.isfile(library):
            raise UsageError(
                f"--op-lib {printable(library)} does not exist",
                code="no-such-file",
                facts={"option": "--op-lib", "file": library},
            )
    settings = Settings(
        device=_device(take("device")),
        timeout=timeout,
        op_libraries=libraries,
        allow_ops=take("allow_ops"),
        seed=take("seed"),
        samples=take("samples"),
        verbose=take("verbose"),
    )
    feeds = dict(once((pair(text, "--feed") for text in take("feeds")), "--feed"))
    shapes = {name: _shape(text) for name, text in once((pair(text, "--shape") for text in take("shapes")), "--shape")}
    archive = take("archive")
    read = [value[1:] for value in feeds.values() if value.startswith("@")] + list(libraries)
    overrides = Overrides(
        {_node(name): value for name, value in feeds.items()},
        archive,
        {_node(name): shape for name, shape in shapes.items()},
    )
    return settings, overrides, tuple(read) + ((archive,) if archive is not None else ())


def _node(tensor: str) -> str:
    return tensor.removesuffix(":0")


def _device(text: str) -> str:
    lowered = text.lower()
    if lowered in ("cpu", "gpu"):
        return lowered
    if re.fullmatch(r"/device:[a-z_]+(:[0-9]+)?", lowered):
        return "cpu" if lowered in ("/device:cpu", "/device:cpu:0") else "/device:" + text[8:].upper()
    raise UsageError(
        f"--device {text}: expected cpu, gpu or a name such as /device:GPU:1",
        code="bad-value",
        facts={"option": "--device", "value": text},
    )


def _shape(text: str) -> tuple[int, ...]:
    try:
        dims = tuple(int(dim) for dim in text.strip("[]").split(",") if dim.strip())
    except ValueError:
        dims = (-1,)
    if any(dim < 0 for dim in dims):
        raise UsageError(
            f"--shape {text}: expected a complete shape, such as 1,224,224,3",
            code="bad-value",
            facts={"option": "--shape", "value": text},
        )
    return dims


def names_in(texts: tuple[str, ...], option: str) -> list[str]:
    """The names in the comma-separated lists TEXTS of OPTION.

    Raises:
        UsageError: a list is empty, for example because a variable of a script is empty.
    """
    lists = [[name for part in text.split(",") if (name := part.strip())] for text in texts]
    if not all(lists):
        raise UsageError(f"{option} is empty", code="bad-value", facts={"option": option})
    return [name for names in lists for name in names]


def pair(text: str, what: str = "", *, last: bool = False, form: str = "") -> tuple[str, str]:
    """Splits ``OLD=NEW`` at the first ``=``, or at the LAST one, if OLD may contain some.

    Raises:
        UsageError: there is no ``=``, or OLD is empty.
    """
    old, equals, new = text.rpartition("=") if last else text.partition("=")
    if not equals or not old:
        form = form or (MEANINGS[what].metavar if what in MEANINGS else "OLD=NEW")
        where = f"{what} " if what else ""
        facts = {"option": what, "value": text, "expected": form}
        raise UsageError(f"{where}{quoted(text)} is not a pair {form}", code="not-a-pair", facts=facts)
    return old, new


def once(items: Iterable[tuple[str, str]], what: str = "") -> list[tuple[str, str]]:
    """ITEMS, pairs of a name and its value from the option WHAT. Raises UsageError: a name has two values."""
    out: dict[str, str] = {}
    found = list(items)
    for name, value in found:
        called = name if name.startswith("/") else name.removesuffix(":0")  # a device, or a tensor
        before = out.setdefault(called, value)
        if before != value:
            where = f"{what} " if what else ""
            raise UsageError(
                f"{where}{quoted(called)} has two values: {quoted(before)} and {quoted(value)}",
                code="given-twice",
                facts={"option": what, "name": called},
            )
    return found


def lines_of(file: str, option: str, stream: TextIO | None = None) -> list[str]:
    """The lines of FILE, the value of OPTION, or of STREAM instead, without leading and trailing spaces.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        if stream is not None:
            text = stream.read()
        else:
            with open(file, encoding="utf-8-sig") as lines:
                text = lines.read()
    except OSError as error:
        raise UsageError(
            f"{option} {printable(file)} cannot be read: {reason(error)}",
            code="unreadable",
            facts={"option": option, "file": file},
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{option} {printable(file)} is not UTF-8 text", code="not-text", facts={"option": option, "file": file}
        ) from error
    return [line.strip() for line in text.splitlines()]


def pairs(texts: tuple[str, ...], file: str | None) -> list[tuple[str, str]]:
    """The pairs OLD=NEW on the command line and in FILE, one per line; empty lines and # lines are skipped.

    Raises:
        UsageError: a text is not a pair, or a name has two values.
    """
    found = lines_of(file, "--map-file") if file is not None else []
    written = [pair(line, f"--map-file {file}:") for line in found if line and not line.startswith("#")]
    return once([pair(text) for text in texts] + written)
