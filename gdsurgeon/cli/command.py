"""The class of commands, the options that they share, and the objects that these options become."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from gdsurgeon.cli.complete import files, nodes
from gdsurgeon.cli.options import (
    HEADINGS,
    BadValue,
    ConflictingOptions,
    MissingOption,
    Option,
    lines_of,
    names_in,
    once,
    option,
    pairs,
)
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import EditError, GdsurgeonError, UsageError, printable
from gdsurgeon.text import suggestion

if TYPE_CHECKING:
    from gdsurgeon.cli.complete import Completer
    from gdsurgeon.container.files import Wanted
    from gdsurgeon.container.load import Model
    from gdsurgeon.feeds.overrides import Overrides
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Instruction
    from gdsurgeon.proof.settings import Settings
    from gdsurgeon.select import Selection


F = TypeVar("F", bound=Callable[..., object])
Decorator = Callable[[Any], Any]

COMMON = ("-o", "-i", "-n", "--report", "--json", "--validate", "--feed", "-q", "-v")
"""The common options that `COMMAND --help` names."""

LONGEST_TIMEOUT = 10_000_000
"""Seconds; a longer time is a typo, and too long for the clocks of the system."""

_SHOW_ALL = "gdsurgeon.help-all"

# -- errors ------------------------------------------------------------------------------------------------------


class NoSuchCommand(click.UsageError):
    """There is no command `name`; `near` is the command that the user may mean, or None."""

    def __init__(self, name: str, near: str | None, ctx: click.Context) -> None:
        super().__init__(f"unknown command {name!r}.{suggestion(near)}", ctx)
        self.name, self.near = name, near


def usage_error(error: click.ClickException) -> UsageError:
    """Returns the usage error that click reports, with a code and facts."""
    message = error.format_message().replace("is not a valid integer range", "is not a valid integer")
    message = message.replace("is not a valid float range", "is not a valid float").rstrip(".")
    code, facts = UsageError.code, {}
    if isinstance(error, NoSuchCommand):
        code, facts = "no-such-command", {"name": error.name, "near": error.near}
    elif isinstance(error, click.NoSuchOption):
        code, facts = "bad-option", {"option": error.option_name, "near": next(iter(error.possibilities or ()), None)}
    elif isinstance(error, click.BadOptionUsage):
        code, facts = "bad-option", {"option": error.option_name}
    elif isinstance(error, click.BadParameter) and error.param is not None:
        is_option, is_missing = isinstance(error.param, click.Option), isinstance(error, click.MissingParameter)
        called = max(error.param.opts, key=len) if is_option else error.param.human_readable_name
        code = ("missing-option" if is_option else "missing-argument") if is_missing else "bad-value"
        facts = {"option" if is_option else "name": called}
    return UsageError(message, code=code, facts=facts)


# -- commands ----------------------------------------------------------------------------------------------------


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_SHOW_ALL] = True
        click.echo(context.get_help())
        context.exit()


_HELP_ALL = Option(
    ["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_show_all, heading="Messages",
    help="Show the help with all options and exit.",
)  # fmt: skip


class Command(click.Command):
    """A command of gdsurgeon.

    `--help` shows the command's own options and names the common ones; `--help-all` shows all. Values of options are
    parsed before the callback is called. If a query with --json fails, the error is printed as JSON.
    """

    def invoke(self, ctx: click.Context) -> Any:
        values, edits = ctx.params, getattr(self.callback, "edits", False)
        if "model" in values and not edits:
            terminal.note_pipe(values["model"], is_data=True)
        try:
            options = [each for each in self.params if isinstance(each, Option) and each.name in values]
            _check_combined(ctx, options)
            for each in options:
                if each.parse is not None:
                    values[each.name] = each.parse(values[each.name], each.long_name)
            return super().invoke(ctx)
        except GdsurgeonError as error:
            if values.get("as_json") and not edits and not terminal.has_answered:
                from gdsurgeon.cli.hints import error_json

                terminal.answer_json({"error": error_json(error, terminal.command)})
            raise

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *([_HELP_ALL] if ctx.help_option_names else [])]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shows_all = _SHOW_ALL in ctx.meta
        own: list[click.Option] = []
        common: set[str] = set()
        for each in self.get_params(ctx):
            if isinstance(each, Option) and each.is_common and not shows_all:
                common.update(each.opts)
            elif isinstance(each, click.Option) and (
                shows_all or (each is not _HELP_ALL and each is not self.get_help_option(ctx))
            ):
                own.append(each)
        write_options(own, ctx, formatter)
        if not shows_all:
            named = [name for name in COMMON if name in common]
            formatter.write_paragraph()
            formatter.write(f"Common options (--help-all): {', '.join(named or ['-h'])}\n")


def _check_combined(ctx: click.Context, options: Iterable[Option]) -> None:
    """Raises UsageError if a given option lacks an option that it needs, or excludes another given option."""
    given = {each.long_name: each for each in options if is_given(ctx, each)}
    for name, each in given.items():
        if each.needs and given.keys().isdisjoint(each.needs):
            raise MissingOption(f"{name} needs {' or '.join(each.needs)}", option=each.needs[0])
        for excluded in given.keys() & {*each.excludes}:
            raise ConflictingOptions(f"{name} and {excluded} exclude each other: give only one", option=name)


def is_given(ctx: click.Context, parameter: click.Parameter) -> bool:
    """Returns whether `parameter` is on the command line."""
    return ctx.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE


def write_options(options: Iterable[click.Option], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Writes `options` with their help under their headings to `formatter`."""
    sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
    for each in options:
        record = each.get_help_record(ctx)
        if record is not None:
            plain = "Messages" if "--help" in each.opts else "Options"
            sections[getattr(each, "heading", plain)].append(record)
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


class Script(Protocol):
    """A script of edits: the command of a line adds its edit to the script instead of running it."""

    def inherited(self, request: Request) -> Request:
        """Returns the request of a line: `request` with the options of the script."""

    def take(self, request: Request, edits: Sequence[Instruction]) -> None:
        """Adds the edits of a line."""


def current_script() -> Script | None:
    """Returns the script that the command is a line of, or None."""
    context = click.get_current_context(silent=True)
    return context.obj if context is not None else None


# -- shared options ----------------------------------------------------------------------------------------------


def collected(name: str, options: Sequence[Decorator], collect: Callable[[dict[str, Any]], object]) -> Decorator:
    """Returns a decorator that adds `options` to a command, which gets the object that they become as `name`.

    `collect` removes their values from a dictionary with the values of all options, and returns the object.
    """

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapper(**values: Any) -> object:
            return command(**{name: collect(values)}, **values)

        return added(wrapper, *options)  # type: ignore[return-value]

    return decorate


def added(command: F, *options: Decorator, without: Sequence[str] = ()) -> F:
    """Adds `options` to `command`, except those of the parameters `without`."""
    for each in reversed(options):
        command = each(command)
    parameters: list[click.Parameter] = command.__click_params__  # type: ignore[attr-defined]
    parameters[:] = [parameter for parameter in parameters if parameter.name not in without]
    return command


def pairs_argument(metavar: str, complete: Completer, **map_file: Any) -> Decorator:
    """Returns a decorator that adds the argument `metavar` for pairs, and --map-file; they arrive as `pairs`."""
    argument = click.argument("texts", metavar=metavar, shell_complete=complete, nargs=-1)
    return collected(
        "pairs",
        [argument, option("--map-file", **map_file)],
        lambda options: pairs(options.pop("texts"), options.pop("map_file")),
    )


common = functools.partial(option, is_common=True)
output_option = functools.partial(option, heading="Output")
_MODEL = (
    common("--tags", heading="Model"),
    common("--signature", "signatures", heading="Model"),
    common("--checkpoint", heading="Model"),
)
_AS_V1 = common("--as-v1", heading="Model"), common("--no-v2-check", heading="Proof")
_OUTPUT = (
    common("-o", "--output", "out", heading="Output"),
    common("-i", "--in-place", heading="Output"),
    common("--backup", heading="Output"),
    common("-n", "--dry-run", heading="Output"),
    common("--require-change", heading="Output"),
    common("--format", "form", heading="Output", choices=["binary", "text"]),
    common("--report", heading="Output"),
)
_JSON = common("--json", "as_json", heading="Output")


def level_option(levels: Sequence[str], text: str, **attributes: object) -> Decorator:
    """Returns the option for the level of validation, one of `levels`; `text` is its help."""
    names = ("--validate", "level")
    return option(
        *names, choices=levels, default="run", show_default=True, help=text, heading="Proof",
        **attributes,
    )  # fmt: skip


_LEVEL = (
    level_option(
        ["none", "structure", "load", "run"], "Level of the proof before the result is written.", is_common=True
    ),
    common("--changes-values", heading="Proof"),
)
_RUNNING = (
    common("--device", heading="Proof", default="cpu", show_default=True),
    common("--feed", "feeds", heading="Feeds"),
    common("--feeds", "archive", heading="Feeds"),
    common("--shape", "shapes", heading="Feeds"),
    common("--seed", heading="Feeds", default=0, show_default=True),
    common("--samples", heading="Proof", default=2, show_default=True),
    common("--timeout", heading="Proof", default=300.0, show_default=True),
    common("--allow-ops", heading="Proof"),
    common("--op-lib", "op_libraries", heading="Proof"),
)


def _remember(name: str) -> Callable[[click.Context, click.Parameter, str | bool], None]:
    return lambda _context, _parameter, value: setattr(terminal, name, value)


_message_option = functools.partial(common, heading="Messages", expose_value=False)
_MESSAGES = (
    _message_option("-q", "--quiet", callback=_remember("quiet")),
    _message_option("-v", "--verbose", callback=_remember("verbose")),
    _message_option("--color", default="auto", callback=_remember("colour"), is_eager=True),
    _message_option("--debug", callback=_remember("debug"), is_eager=True),
)
MODEL_ARGUMENT = click.argument("model", shell_complete=files)


@functools.cache
def common_options() -> tuple[click.Option, ...]:
    """Returns the options that most commands have."""
    parameters = click.command(added(lambda: None, *EDIT_OPTIONS, _JSON)).params
    return tuple(each for each in parameters if isinstance(each, click.Option))


EDIT_OPTIONS = (*_MODEL, *_AS_V1, *_OUTPUT, *_LEVEL, *_RUNNING, *_MESSAGES)


class Query(NamedTuple):
    """The model that a query is about, or the body of its library function `function`."""

    path: str
    wanted: Wanted
    function: str | None
    as_json: bool

    def open(self, path: str = "") -> Model:
        """Opens the model at `path`, by default that of the query.

        Raises:
            InputError: the model cannot be read.
            EditError: the function does not exist, or its body cannot become a graph.
        """
        from gdsurgeon.container.load import Model, open_model

        found = open_model(path or self.path, self.wanted)
        if self.function is None:
            return found
        from gdsurgeon.graph.body import Body

        return Model(Body(found.graph, self.function).graph, None)


def query_command(name: str, *, without: Sequence[str] = ()) -> Callable[[Callable[..., object]], Command]:
    """Makes the command `name` of a function that prints something about a graph, which it gets as `query`.

    The options of the parameters `without` have no effect in the command, and are left out.
    """

    def collect(options: dict[str, Any]) -> Query:
        functions = options.pop("in_functions")
        if len(functions) > 1:
            raise UsageError("give --in once", code="given-twice", option="--in")
        return Query(options.pop("model"), wanted(options), next(iter(functions), None), options.pop("as_json"))

    def decorate(function: Callable[..., object]) -> Command:
        body = option("--in", "in_functions", heading="Selection", help="Look into the body of this function.")
        callback = collected("query", [MODEL_ARGUMENT, _JSON, *_MESSAGES, *_MODEL, body], collect)(function)
        return click.command(name, cls=Command)(added(callback, without=without))

    return decorate


def answer_options(command: F, metavar: str = "MODEL") -> F:
    """Adds the options of a command that prints something about its argument, which `metavar` names."""
    return added(command, click.argument("model", metavar=metavar, shell_complete=files), _JSON, *_MESSAGES)


def validate_options(command: F) -> F:
    """Adds the options for running graphs, for a command that writes none.

    They arrive as `settings`, `overrides`, `devices` (two to compare, or none), `others` (paths of files) and `wanted`.
    """

    @functools.wraps(command)
    def wrapper(**options: Any) -> object:
        devices = tuple(_device(text) for text in options["device"].split(","))
        if len(devices) > 2 or len(devices) != len(set(devices)):
            raise _bad_value("--device", options["device"], "give one device, or two to compare")
        options["device"] = devices[0]
        settings, overrides, others = running(options)
        options |= {"settings": settings, "overrides": overrides, "others": others, "wanted": wanted(options)}
        return command(devices=devices if len(devices) == 2 else (), **options)

    return added(wrapper, *_MODEL, *_RUNNING, _JSON, *_MESSAGES)  # type: ignore[return-value]


# -- objects -----------------------------------------------------------------------------------------------------


def _bad_value(option: str, value: str, expected: str) -> UsageError:
    return BadValue(f"{option} {value}: {expected}", option=option, value=value)


def wanted(options: dict[str, Any]) -> Wanted:
    """Removes the options that select a part of a model from `options`, and returns them."""
    from gdsurgeon.container.files import Wanted

    tags, checkpoint = options.pop("tags", None), options.pop("checkpoint", None)
    return Wanted(
        tuple(names_in((tags,), "--tags")) if tags is not None else (),
        tuple(options.pop("signatures", ())),
        checkpoint.removesuffix(".index") if checkpoint is not None else "",
    )


def running(options: dict[str, Any]) -> tuple[Settings, Overrides, tuple[str, ...]]:
    """Removes the options for running graphs from `options`; returns them, and the paths of the files to read."""
    from gdsurgeon.feeds.overrides import Overrides
    from gdsurgeon.proof.settings import Settings

    take = options.pop
    timeout, libraries, archive = options["timeout"], options["op_libraries"], take("archive")
    if not timeout <= LONGEST_TIMEOUT:  # or it is no number
        raise BadValue(f"--timeout {timeout}: at most {LONGEST_TIMEOUT:,} seconds", option="--timeout")
    for library in libraries:
        if not os.path.isfile(library):
            line = f"--op-lib {printable(library)} does not exist"
            raise UsageError(line, code="no-such-file", option="--op-lib", file=library)
    own = {name: take(name) for name in ("timeout", "op_libraries", "allow_ops", "seed", "samples")}
    settings = Settings(device=_device(take("device")), verbose=terminal.verbose, **own)
    feeds, shapes = once(take("feeds"), "--feed"), once(take("shapes"), "--shape")
    read = [*(value[1:] for _, value in feeds if value.startswith("@")), *libraries]
    read += [path for path in (archive, options.get("map_file")) if path is not None]
    overrides = Overrides(
        {name.removesuffix(":0"): value for name, value in feeds},
        archive,
        {name.removesuffix(":0"): _shape(value) for name, value in shapes},
    )
    return settings, overrides, tuple(read)


def _device(text: str) -> str:
    lowered = text.lower()
    if lowered in ("cpu", "gpu"):
        return lowered
    if re.fullmatch(r"/device:[a-z_]+(:[0-9]+)?", lowered):
        return "cpu" if lowered in ("/device:cpu", "/device:cpu:0") else "/device:" + text[8:].upper()
    raise _bad_value("--device", text, "expected cpu, gpu or a name such as /device:GPU:1")


def _shape(text: str) -> tuple[int, ...]:
    try:
        dims = tuple(int(dim) for dim in text.strip("[]").split(",") if dim.strip())
    except ValueError:
        dims = (-1,)
    if any(dim < 0 for dim in dims):
        raise _bad_value("--shape", text, "expected a complete shape, such as 1,224,224,3")
    return dims


_option = functools.partial(option, heading="Selection")
_SELECTION = (
    _option("--node", "nodes"),
    _option("--nodes", "file"),
    _option("--select", "regexes"),
    _option("--op", "ops"),
    _option("--scope", "scopes"),
    _option("--between"),
    _option("--forward"),
    _option("--backward"),
    _option("--exclude"),
    _option("--control-edges", "control"),
    _option("--with-consts", "constants"),
)

in_functions = _option("--in", "in_functions")
"""The option --in of an edit: its request has the functions whose bodies are edited."""


def selecting(name: str = "selection", *, by_position: bool = True, is_required: bool = False) -> Decorator:
    """Returns a decorator that adds the options of a selection; they arrive as one selection.

    Args:
        name: the argument of the command that gets the selection.
        by_position: whether the command also has the argument [NODE]...
        is_required: whether a selection that names nothing is refused.
    """

    def collect(options: dict[str, Any]) -> Selection:
        selection = _selection(options)
        if is_required:
            required(selection)
        return selection

    arguments = [click.argument("chosen", metavar="[NODE]...", shell_complete=nodes, nargs=-1)] * by_position
    return collected(name, [*_SELECTION, *arguments], collect)


selection_options = selecting()
"""Adds the options of a selection, and the argument [NODE]...; they arrive as `selection`."""


def _selection(options: dict[str, Any]) -> Selection:
    """Removes the options of a selection from `options`, and returns the selection."""
    from gdsurgeon.select import Selection

    take = options.pop
    nodes, file = (*take("chosen", ()), *take("nodes")), take("file")
    model = click.get_current_context().params.get("model")
    if file == "-" == model:
        raise ConflictingOptions("only one of MODEL and --nodes can be read from standard input")
    kept: dict[str, Any] = {
        name: take(name) for name in ("regexes", "ops", "scopes", "exclude", "control", "constants")
    }
    kept |= {name: tuple(take(name)) for name in ("between", "forward", "backward")}
    return Selection(nodes=(*nodes, *(_names(file) if file is not None else ())), **kept)


def required(selection: Selection) -> None:
    """Raises UsageError if `selection` names nothing."""
    if selection.names_nothing:
        hint = "NODE ..., --select REGEX, --op TYPE, --scope SCOPE, --between IN=OUT, ..."
        raise UsageError("no nodes are selected", code="nothing-selected", hint=hint)


def _names(file: str) -> list[str]:
    """Returns the nodes in the lines of `file`; the name of a tensor means its node."""
    names = [line.partition(":")[0] for line in lines_of(file, "--nodes", sys.stdin if file == "-" else None) if line]
    if not names:  # a pipe that has found nothing does not mean everything
        raise EditError(
            f"{'standard input' if file == '-' else printable(file)} contains no names",
            code="nothing-selected",
            file=file,
        )
    return names
