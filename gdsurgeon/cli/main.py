"""The entry point: finds commands, runs one, and returns an exit code for every kind of failure."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from gdsurgeon import __version__
from gdsurgeon.cli.command import NoSuchCommand, usage_error
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import INTERNAL_FAULT, GdsurgeonError, OutputError, UsageError, printable, quoted, reason
from gdsurgeon.registry import COMMANDS
from gdsurgeon.resources import exhausted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from click.shell_completion import CompletionItem


SYNONYMS = {
    "control": "control-edges",
    "cut": "extract",
    "draw": "view",
    "export": "to-savedmodel",
    "fold-bn": "simplify --fold-bn",
    "info": "inspect",
    "join": "import",
    "merge": "import",
    "netron": "view",
    "optimise": "simplify",
    "optimize": "simplify",
    "plot": "view",
    "prune": "simplify",
    "set-input-shape": "set-shape",
    "shrink": "quantize",
    "split": "extract",
    "strip": "strip-weights",
    "subgraph": "extract",
    "summary": "inspect",
    "swap-op": "set-attr",
}
"""The commands that users may mean by names that no command has."""


class Commands(click.Group):
    """The group of all commands. The module of a command is imported when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *plugins()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        terminal.command = cmd_name
        if cmd_name in COMMANDS:
            command: click.Command = import_module(f"gdsurgeon.cli.{cmd_name.replace('-', '_')}").command
            return command
        found = plugins()
        if cmd_name not in found:
            from gdsurgeon.text import nearest

            raise NoSuchCommand(cmd_name, SYNONYMS.get(cmd_name) or nearest(cmd_name, [*COMMANDS, *found]), ctx)
        return load(found[cmd_name])

    def invoke(self, ctx: click.Context) -> object:
        with terminal.progress():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        if not incomplete or incomplete[0].isalnum():
            return [CompletionItem(name) for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            groups.setdefault(entry.group, []).append((name, entry.help))
        for name, plugin in plugins().items():
            try:
                text = load(plugin).get_short_help_str(limit=80)
            except UsageError as error:
                text = f"({error.message})"
            groups.setdefault("From other packages", []).append((name, text))
        widest = max(len(name) for records in groups.values() for name, _ in records)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), text) for name, text in records])


# -- plugins -----------------------------------------------------------------------------------------------------

GROUP = "gdsurgeon.commands"


def plugins() -> dict[str, EntryPoint]:
    """Returns the commands of other packages by name, in alphabetical order, except those with our names."""
    if not _is_mentioned():
        return {}
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found) if name not in COMMANDS}


def _is_mentioned() -> bool:
    """Returns whether an installed package mentions the group. Importing importlib.metadata takes 50 ms."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except NotADirectoryError:
            return True  # an archive: importlib.metadata can look into it
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                        if GROUP in file.read():
                            return True
                except (OSError, UnicodeDecodeError):
                    pass  # most packages have none
    return False


def load(plugin: EntryPoint) -> click.Command:
    """Returns the command of a plugin.

    Raises:
        UsageError: the plugin cannot be imported, or is not a click command.
    """
    called = f"the command {quoted(plugin.name)} ({printable(plugin.value)})"
    try:
        found = plugin.load()
    except (Exception, SystemExit) as error:  # a plugin can fail in any way
        line = f"{called} cannot be loaded: {type(error).__name__}: {printable(str(error))}"
        raise UsageError(line, code="bad-plugin", name=plugin.name) from error
    if not isinstance(found, click.Command):
        raise UsageError(f"{called} is not a click command", code="bad-plugin", name=plugin.name)
    return found


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": lambda name: "validate" if name == "level" else name,  # a second name of the option
    },
)
@click.version_option(__version__, prog_name="gdsurgeon", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Edit a TensorFlow GraphDef, prove the edit, then write it.

    MODEL is a GraphDef (binary or text), the folder of a SavedModel, a .meta file, or the prefix of its checkpoint. '-'
    reads MODEL from standard input; the folder of a SavedModel is then a tar stream. Without -o, the result is written
    next to MODEL, with .edited in its name. Data is printed to standard output; messages are printed to standard error.

    COMMAND --help shows the options of a command. 'gdsurgeon help options' shows the options that most commands have.

    \b
    Exit codes: 0 done, 2 usage error, 3 bad input, 4 edit refused, 5 validation failed,
    6 cannot write, 7 cannot validate on this machine, 70 internal error.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


class Terminated(BaseException):
    """Raised by a signal that ends the program."""

    def __init__(self, number: int) -> None:
        self.number = number


def _terminate(number: int, _frame: FrameType | None) -> None:
    if terminal.is_settled():
        return  # the output has appeared: the process ends at once
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


def run() -> NoReturn:
    """Runs the command line and ends the process."""
    # Few reference cycles are created, and searching a million nodes for them takes longer than the edit.
    gc.disable()
    _open_standard_descriptors()
    try:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # they raise an exception, so that all cleanup code runs
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
                signal.signal(getattr(signal, name), _terminate)
        sys.unraisablehook = _not_raised
        if "_GDSURGEON_COMPLETE" in os.environ:
            from gdsurgeon.cli.completion import answer

            code = answer(main)
        else:
            code = exit_code(sys.argv[1:])
    except KeyboardInterrupt:  # a second interrupt, during the cleanup of the first
        code = 130
    except Terminated as ended:
        code = 128 + ended.number
    except BaseException as error:  # an error in the code that reports errors or cleans up
        code = _fault(error)
    # Nothing else needs cleanup, and freeing a million nodes takes time.
    os._exit(code)


_SOON = 0.001
"""Seconds after which a signal is raised again whose exception Python discarded."""


def _not_raised(unraisable: sys.UnraisableHookArgs) -> None:
    """Raises a signal again that arrived inside a destructor, where Python discards exceptions."""
    error = unraisable.exc_value
    if isinstance(error, (KeyboardInterrupt, Terminated)) and hasattr(signal, "setitimer"):
        number = error.number if isinstance(error, Terminated) else signal.SIGINT
        signal.signal(signal.SIGALRM, lambda _, frame: _terminate(number, frame))
        signal.setitimer(signal.ITIMER_REAL, _SOON)
    else:
        sys.__unraisablehook__(unraisable)


def _open_standard_descriptors() -> None:
    """Opens closed standard descriptors, so that no other file gets their numbers."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest free number; cannot be written to
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # until the process ends


def exit_code(arguments: list[str]) -> int:
    """Runs the command line `arguments` and returns its exit code. Errors are printed to standard error."""
    try:
        code = _exit_code(arguments)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, Terminated, click.Abort) as ended:
        return _ended(ended)
    except BrokenPipeError:
        return 141
    except Exception as error:
        if terminal.debug:
            sys.__excepthook__(*sys.exc_info())  # prints the traceback
        if isinstance(error, GdsurgeonError):
            signalled = _signal_before(error)
            if signalled is not None:
                return _ended(signalled)
            terminal.error(error)
            return error.exit_code
        if isinstance(error, OSError) and error.filename is None and not exhausted(error):
            # Errors of all other files have names, so the error is in standard output.
            terminal.say(f"Error: <stdout> cannot be written: {reason(error)}")
            return OutputError.exit_code
        return _fault(error)
    finally:
        forget()


def forget() -> None:
    """Removes the files of a model that came as a tar stream; the module is loaded only for such a stream."""
    tar = sys.modules.get("gdsurgeon.container.tar")
    if tar is not None:
        tar.forget()


def _fault(error: BaseException) -> int:
    """Prints the unexpected error `error`, or the resource that is exhausted, and returns the exit code."""
    want = exhausted(error)
    if want:
        terminal.say(f"Error: {want}")
        return OutputError.exit_code
    terminal.say(f"Error: internal error ({type(error).__name__}: {printable(str(error))})")
    terminal.say("Hint: please report it with the output of --debug")
    return INTERNAL_FAULT


def _signal_before(error: BaseException) -> BaseException | None:
    """Returns the signal during whose cleanup `error` was raised, or None."""
    cause = error.__context__
    while cause is not None and not isinstance(cause, (KeyboardInterrupt, Terminated)):
        cause = cause.__context__
    return cause


def _ended(signalled: BaseException) -> int:
    """Returns the exit code for a signal; prints a line if it is an interrupt."""
    if isinstance(signalled, Terminated):
        return 128 + signalled.number
    terminal.say("Interrupted")
    return 130


def _exit_code(arguments: list[str]) -> int:
    try:
        # `main.main()` would return exit code 1 for a closed pipe.
        with main.make_context("gdsurgeon", arguments) as context:
            main.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:  # a plugin calls `sys.exit`, with a number, or with a text for an internal error
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        terminal.say(f"Error: {printable(str(ended.code))}")
        return INTERNAL_FAULT
    except click.ClickException as error:
        wrong = usage_error(error)
        if isinstance(error, click.UsageError):
            wrong.hint = f"{error.ctx.command_path if error.ctx is not None else 'gdsurgeon'} --help"
        raise wrong from error
    return 0
