"""How shells ask for completions, and the scripts that have them ask."""

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

from gdsurgeon.errors import INTERNAL_FAULT, UsageError

PROGRAM = "gdsurgeon"

COMPLETE = "_GDSURGEON_COMPLETE"
"""The variable in which a shell asks."""

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
    """Bash, with words that hold ``=`` and ``:``.

    Click's own class goes by COMP_WORDS, which bash has cut at those; this one cuts the line itself, and leaves out of
    its answers what bash takes for earlier words.
    """

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        # A letter more, and the last word is the one that the cursor is in or would begin.
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
    """Whether the end of LINE is in quotes, of which bash takes the whole for one word."""
    try:
        shlex.split(line.rstrip("\\"))
    except ValueError:
        return True
    return False


add_completion_class(Bash)


def script(shell: str) -> str:
    """The script that has SHELL (bash, zsh, fish) complete the command line."""
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(click.Command(PROGRAM), {}, PROGRAM, COMPLETE).source()


def answer(program: click.Command) -> int:
    """Answers the shell that asks in the environment; gives the exit code. What goes wrong has no completions."""
    try:
        failed = shell_complete(program, {}, PROGRAM, COMPLETE, os.environ[COMPLETE])
    except Exception:  # there is nobody to tell: the user is in the middle of a line
        return INTERNAL_FAULT
    return UsageError.exit_code if failed else 0
