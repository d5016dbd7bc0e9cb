"""The entry point: finds the command, and turns every way to fail into its exit code."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click

from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, UsageError, printable

COMMANDS = {
    "add-gradients": "Add nodes that compute gradients.",
    "add-postprocessing": "Put a graph behind a model's outputs.",
    "add-preprocessing": "Put a graph in front of a model's inputs.",
    "clone-scope": "Copy a name scope, with its own weights, loops and variables.",
    "control": "Add and remove control edges.",
    "extract": "Take the part of a graph between inputs and outputs.",
    "freeze-input": "Make inputs constants.",
    "fuse-ops": "Make the selected nodes one call of a function.",
    "import": "Join another graph to a model.",
    "inline": "Put the bodies of functions in the place of their calls.",
    "insert": "Splice a graph into a tensor.",
    "inspect": "Show what a graph takes and gives.",
    "remove": "Remove the selected nodes.",
    "rename": "Rename nodes, scopes, or many nodes by a pattern.",
    "reroute": "Have the consumers of one tensor read another.",
    "select": "Print the nodes that a selection picks.",
    "set-attr": "Set attrs of nodes.",
    "set-device": "Say where nodes ask to run.",
    "set-shape": "Set the shapes that inputs take.",
    "validate": "Prove that a model runs, or gives what another gives.",
}


class Commands(click.Group):
    """Loads a command's module when it is called: a command's imports are its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from gdsurgeon.graph.names import near_miss

            raise click.UsageError(f"there is no command {cmd_name!r}.{near_miss(cmd_name, COMMANDS)}", ctx)
        module = import_module(f"gdsurgeon.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _print_version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from gdsurgeon import __version__

        click.echo(f"gdsurgeon {__version__}")
        context.exit()


@click.group(
    cls=Commands,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="The version."
)
def main() -> None:
    """Edit a TensorFlow GraphDef, prove the edit by running it, then write it.

    MODEL is a frozen GraphDef, binary or text, or '-' for standard input. Without -o the result goes to
    MODEL's name with .edited in it. Standard output is data, standard error is for people.

    \b
    Exit codes: 0 done, 2 usage, 3 bad input, 4 edit refused, 5 validation failed, 6 cannot write,
    7 could not be validated here.
    """


class Terminated(BaseException):
    """A signal that ends the program, as an exception so that everything is cleaned up on the way."""

    def __init__(self, number: int) -> None:
        self.number = number


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated(number)


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that was closed before the program began: writing to it is an error."""

    def write(self, _text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "it is closed")


def run() -> NoReturn:
    """Runs the command line and ends the process."""
    # No cycles worth collecting are made, and looking for them among a million nodes takes longer than the edit.
    gc.disable()
    _open_standard_descriptors()
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
            signal.signal(getattr(signal, name), _terminate)
    code = exit_code(sys.argv[1:])
    # What is left needs no cleaning up, and freeing a million nodes takes time.
    os._exit(code)


def _open_standard_descriptors() -> None:
    """Sees to it that no file that is opened becomes standard output because that was closed."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number; cannot be written to
    if sys.stdout is None:
        sys.stdout = ClosedOutput()


def exit_code(arguments: list[str]) -> int:
    """Runs the command line ARGUMENTS; what goes wrong is said on standard error."""
    try:
        code = _exit_code(arguments)
        sys.stdout.flush()
        return code
    except GdsurgeonError as error:
        if terminal.debug:
            show_traceback()
        terminal.error(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        terminal.say("Interrupted")
        return 130
    except Terminated as ended:
        return 128 + ended.number
    except BrokenPipeError:
        return 141
    except MemoryError:
        terminal.say("Error: out of memory")
        return 6
    except Exception as error:
        if terminal.debug:
            show_traceback()
        if isinstance(error, OSError) and error.filename is None:
            # Whatever is read or staged says so itself: what is left is standard output.
            terminal.say(f"Error: <stdout> cannot be written: {(error.strerror or str(error)).lower()}")
            return 6
        terminal.say(f"Error: internal fault ({type(error).__name__}: {printable(str(error))})")
        terminal.say("Hint: please report it, with what --debug shows")
        return 1


def show_traceback() -> None:
    """Shows the exception that is being handled, whole."""
    import traceback

    traceback.print_exc()


def _exit_code(arguments: list[str]) -> int:
    try:
        # Not `main.main()`: that turns a closed pipe into exit code 1.
        with main.make_context("gdsurgeon", arguments) as context:
            main.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "gdsurgeon"
        raise UsageError(error.format_message().rstrip("."), hint=f"{where} --help") from error
    except click.ClickException as error:
        raise UsageError(error.format_message()) from error
    return 0
