"""Errors: what they say as text, what they say by code, and that no room below the command line names its options."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdsurgeon
from gdsurgeon.cli.hints import HINTS, error_json, hint_of
from gdsurgeon.errors import EditError, InputError, UsageError

PACKAGE = Path(gdsurgeon.__file__).parent
ADVICE = re.compile(r"(?:advice=|advice = |advice \+= |DO_WITHOUT = |HOW_TO_PAIR = )([^\n]*)")


def below() -> Iterator[tuple[Path, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "cli" not in path.relative_to(PACKAGE).parts:
            yield path, path.read_text()


def test_the_text_of_an_error_is_all_of_it() -> None:
    error = InputError("m.pb is broken:", details=("one", "two"), hint="look")
    assert str(error) == "m.pb is broken:\n  one\n  two\nlook"
    assert str(EditError("no")) == "no"


def test_an_error_for_machines() -> None:
    error = EditError("no", code="no-such-op", advice="give-attr", facts={"key": "T"}, details=("one",))
    assert error_json(error) == {
        "code": "no-such-op", "message": "no", "details": ["one"], "hint": "--set T=VALUE gives one",
        "facts": {"key": "T"}, "exit": 4,
    }  # fmt: skip
    assert (UsageError("no").code, EditError("no").facts) == ("usage", {})


def test_advice_is_told_as_the_command_calls_its_options() -> None:
    error = InputError("broken", hint="look", advice=("do-without-running", "repair"))
    assert hint_of(error, "rename") == (
        "look; --validate structure does without running it; --validate none lets an edit through that repairs it"
    )
    assert hint_of(error, "validate") == "look; --level structure does without running it"
    assert hint_of(InputError("broken", advice="repair"), "validate") is None


def test_every_advice_has_words_and_all_words_are_used() -> None:
    lines = [line.partition("facts=")[0] for _, text in below() for line in ADVICE.findall(text)]
    used = {code for line in lines for code in re.findall(r'"([a-z][a-z-]+)"', line)}
    assert used == set(HINTS)


@pytest.mark.parametrize("code", HINTS)
def test_a_hint_is_filled_in(code: str) -> None:
    facts = {name for _, name, _, _ in string.Formatter().parse(HINTS[code]) if name}
    found = hint_of(EditError("no", advice=code, facts=dict.fromkeys(facts - {"level", "option"}, "x")), "rename")
    assert found and "{" not in found


def test_no_hint_below_the_command_line_names_an_option() -> None:
    wrong = [(path.name, hint) for path, text in below() for hint in re.findall(r'hint=f?"[^"]*--[a-z][^"]*"', text)]
    assert wrong == []
