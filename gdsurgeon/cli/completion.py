"""gdsurgeon completion, and the answers to the requests of the shells."""

from __future__ import annotations

import os
import shlex
from typing import ClassVar

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

from gdsurgeon.cli.command import Command
from gdsurgeon.errors import INTERNAL_FAULT, UsageError

PROGRAM = "gdsurgeon"

COMPLETE = "_GDSURGEON_COMPLETE"
"""The environment variable of a request."""

_BASH = """\
_gdsurgeon_completion() {
    local kind value
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value; do
        case $kind in
            file) compopt -o default ;;
            open) compopt -o nospace; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(%(complete_var)s=bash_complete GDSURGEON_BREAKS="$COMP_WORDBREAKS" \\
        GDSURGEON_LINE="${COMP_LINE:0:COMP_POINT}" "$1" 2>/dev/null)
}
complete -o nosort -F _gdsurgeon_completion %(prog_name)s
"""


class Bash(ShellComplete):
    """Completion in bash, for words that contain ``=`` and ``:``.

    Click's class uses COMP_WORDS, which bash splits at these characters. This class splits the line itself, and its
    answers leave out the part that bash treats as earlier words.
    """

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        # With one more letter, the last word is the one at the cursor.
        words = split_arg_string(os.environ["GDSURGEON_LINE"] + "x")
        self._typed = words[-1][:-1]
        return words[1:-1], self._typed

    def format_completion(self, item: CompletionItem) -> str:
        if item.type != "plain":
            return f"{item.type}\t"
        value: str = item.value
        if not _is_quoted(os.environ["GDSURGEON_LINE"]):
            breaks = set(os.environ["GDSURGEON_BREAKS"]) & set("=:@")
            cut = max((self._typed.rfind(mark) for mark in breaks), default=-1) + 1
            value = value.removeprefix(self._typed[:cut])
        return f"{'open' if value.endswith(('=', '/')) else 'plain'}\t{value}"


def _is_quoted(line: str) -> bool:
    """Returns whether the end of `line` is within quotes, which bash treats as one word."""
    try:
        shlex.split(line.rstrip("\\"))
    except ValueError:
        return True
    return False


add_completion_class(Bash)


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the shell script that completes commands.

    The script completes commands, options, values of options, and files. If the command line names a model that is not
    too large, the script also completes the names of nodes, ops, scopes and functions.

    \b
    Examples:
      gdsurgeon completion bash > ~/.local/share/bash-completion/completions/gdsurgeon
      gdsurgeon completion zsh > ~/.zfunc/_gdsurgeon
      gdsurgeon completion fish > ~/.config/fish/completions/gdsurgeon.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(click.Command(PROGRAM), {}, PROGRAM, COMPLETE).source(), nl=False)


def answer(program: click.Command) -> int:
    """Answers the request in the environment and returns the exit code. After an error there are no completions."""
    try:
        failed = shell_complete(program, {}, PROGRAM, COMPLETE, os.environ[COMPLETE])
    except Exception:  # an error message would disturb the line that the user is typing
        return INTERNAL_FAULT
    return UsageError.exit_code if failed else 0
