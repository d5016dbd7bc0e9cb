"""The words of hints: below the command line an error says what helps by a code, and here are its options."""

from __future__ import annotations

from collections.abc import Mapping

from gdsurgeon.errors import GdsurgeonError

HINTS: Mapping[str, str] = {
    "give-attr": "--set {key}=VALUE gives one",
}


def hint_of(error: GdsurgeonError, command: str = "") -> str | None:
    """The second line of ERROR, as COMMAND says it; None where there is nothing to say."""
    words = [_words(code, error, command) for code in error.advice]
    return "; ".join(filter(None, [error.hint, *words])) or None


def error_json(error: GdsurgeonError, command: str = "") -> dict[str, object]:
    """ERROR for machines."""
    return {
        "code": error.code,
        "message": error.message,
        "details": list(error.details),
        "hint": hint_of(error, command),
        "facts": error.facts,
        "exit": error.exit_code,
    }


def _words(code: str, error: GdsurgeonError, command: str) -> str:
    return HINTS[code].format_map(error.facts)
