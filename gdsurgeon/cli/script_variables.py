"""The variables of a script: those of --var and of the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from gdsurgeon.cli.options import Pairs
from gdsurgeon.cli.script import VARIABLE
from gdsurgeon.errors import UsageError, printable, quoted
from gdsurgeon.text import nearest, suggestion

NAMED = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
"""A reference to a variable in a text."""


class Variables(Mapping[str, str]):
    """The values of a script's variables; notes which of them are used.

    Args:
        given: pairs ``VAR=VALUE``; the other variables are those of the environment.

    Raises:
        UsageError: an argument is not a pair, has an invalid name, or sets a variable twice.
    """

    def __init__(self, given: Pairs) -> None:
        self._given: dict[str, str] = {}
        self._used: set[str] = set()
        for name, value in given:
            if VARIABLE.fullmatch(name) is None:
                rule = "letters, digits and _, no digit first" + (", without $" if name.startswith("$") else "")
                raise UsageError(
                    f"--var {quoted(f'{name}={value}')}: {quoted(name)} is not the name of a variable ({rule})",
                    code="bad-name",
                    facts={"option": "--var", "name": name},
                )
            if name in self._given:
                raise UsageError(
                    f"--var sets {quoted(name)} twice", code="given-twice", facts={"option": "--var", "name": name}
                )
            self._given[name] = value

    def __getitem__(self, name: str) -> str:
        self._used.add(name)
        return self._given[name] if name in self._given else os.environ[name]

    def __contains__(self, name: object) -> bool:
        return name in self._given or name in os.environ

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._given, *os.environ]))

    def __len__(self) -> int:
        return len({*self._given, *os.environ})

    def are_left_in(self, words: Iterable[str]) -> bool:
        """Returns whether WORDS still contain a reference to one of the variables."""
        return any(name in self for word in words for name in NAMED.findall(word))

    def check_used(self, called: str, text: str) -> None:
        """Raises UsageError if the script TEXT, whose name is CALLED, does not use one of the given variables."""
        for name in self._given:
            if name not in self._used:
                named = NAMED.findall(text)
                why = ": it is not replaced between single quotes, after a backslash and in comments"
                near = nearest(name, dict.fromkeys(named))
                more = why if near == name else suggestion(near)
                line = f"--var {printable(name)}: {printable(called)} does not use ${printable(name)}"
                raise UsageError(
                    f"{line}{'.' if more.startswith(' ') else ''}{more}".rstrip("."),
                    code="unused-variable",
                    facts={"name": name, "near": near},
                )
