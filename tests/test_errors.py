"""Errors: their text, their code, and that only the command line names its options."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gdsurgeon
from gdsurgeon.cli.hints import HINTS, OPTIONS, error_json, hint_of, worded
from gdsurgeon.errors import EditError, InputError, Line, UsageError, joined, quoted

PACKAGE = Path(gdsurgeon.__file__).parent


def modules() -> Iterator[tuple[Path, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, path.read_text()


def below() -> Iterator[tuple[Path, str]]:
    return ((path, text) for path, text in modules() if "cli" not in path.relative_to(PACKAGE).parts)


def test_the_text_of_an_error_is_all_of_it() -> None:
    error = InputError("m.pb is broken:", details=("one", "two"), hint="look")
    assert str(error) == "m.pb is broken:\n  one\n  two\nlook"
    assert str(EditError("no")) == "no"


def test_an_error_for_machines() -> None:
    error = EditError("no", code="no-such-op", advice="give-attr", facts={"key": "T"}, details=("one",))
    assert error_json(error) == {
        "code": "no-such-op", "message": "no", "details": ["one"], "hint": "T=VALUE sets it",
        "facts": {"key": "T"}, "exit": 4,
    }  # fmt: skip
    assert (UsageError("no").code, EditError("no").facts) == ("usage", {})


def test_advice_is_told_as_the_command_calls_its_options() -> None:
    error = InputError("broken", hint="look", advice=("do-without-running", "repair"))
    assert hint_of(error, "rename") == (
        "look; --validate structure does not run it; --validate none allows an edit that repairs the graph"
    )
    assert hint_of(error, "validate") == "look; --validate structure does not run it"
    assert hint_of(InputError("broken", advice="repair"), "validate") is None


@pytest.mark.parametrize(("length", "shown"), [(200, 202), (201, 202), (50_000_000, 202)])
def test_a_name_in_a_message_is_cut_in_the_middle(length: int, shown: int) -> None:
    name = "begin" + "/" * (length - 8) + "end"
    found = quoted(name)
    assert len(found) == shown and found.startswith("'begin/") and found.endswith("/end'")
    assert (found == f"'{name}'") is (length == 200)


def test_an_argument_of_another_package_is_called_what_it_is() -> None:
    error = EditError("no", advice="map-name", facts={"argument": "theirs", "form": "A=B"})
    assert hint_of(error) == "name it with theirs A=B"


def test_every_advice_has_words_and_all_words_are_used() -> None:
    known: set[str] = set()
    for path, text in modules():
        if path.name != "hints.py":
            known.update(literals(text))
    given = {
        constant.value
        for _, text in modules()
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.keyword) and call.arg == "advice"
        for constant in ast.walk(call.value)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str) and "-" in constant.value
    }
    assert set(HINTS) <= known
    assert given <= set(HINTS)


@pytest.mark.parametrize("code", HINTS)
def test_a_hint_is_filled_in(code: str) -> None:
    facts = {name for _, name, _, _ in string.Formatter().parse(HINTS[code]) if name}
    found = hint_of(EditError("no", advice=code, facts=dict.fromkeys(facts - {"option"}, "x")), "rename")
    assert found and "{" not in found


def test_a_line_names_arguments_and_the_command_line_its_options() -> None:
    line = Line("{reasons}; {seen}", reasons=joined("; ", ["a{b", Line("{allow_ops} runs {it}", it="'{x}'")]), seen="y")
    assert line == "a{b; allow_ops runs '{x}'; y"
    assert worded(line) == "a{b; --allow-ops runs '{x}'; y"
    assert error_json(UsageError(line, details=(line,)))["details"] == [worded(line)]


@cache
def literals(source: str) -> tuple[str, ...]:
    """The strings of a module, without those that say what something is."""
    items = list(ast.walk(ast.parse(source)))
    docstrings = {item.value for item in items if isinstance(item, ast.Expr)}
    constants = (item for item in items if isinstance(item, ast.Constant) and item not in docstrings)
    return tuple(item.value for item in constants if isinstance(item.value, str))


FLAG = re.compile(r"--[a-z]|(^| |\()-[a-z][ ,)]| -[a-z]$")


def flags(source: str) -> list[str]:
    return [text for text in literals(source) if FLAG.search(text)]


def test_no_line_below_the_command_line_names_an_option() -> None:
    assert [(path.name, line) for path, text in below() for line in flags(text)] == []


@pytest.mark.parametrize("line", ["--golden", "without -i", "-o PATH", "give {x} (--top)", "say --op-lib x"])
def test_an_option_in_a_line_is_found(line: str) -> None:
    assert flags(f'def f(x):\n    """--in-docs"""\n    g(f{line!r})') == [
        part for part in re.split(r"\{x\}", line) if "-" in part
    ]


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    pending = [node]
    while pending:
        yield (item := pending.pop())
        pending += reversed(list(ast.iter_child_nodes(item)))


@cache
def lines(source: str) -> list[tuple[ast.Call, ast.expr]]:
    """The lines of a module, each with its template: the last assignment to the name, if it is a name."""
    found: list[tuple[ast.Call, ast.expr]] = []
    texts: dict[str, ast.expr] = {}
    for item in in_order(ast.parse(source)) if "Line" in source else ():
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            texts[item.targets[0].id] = item.value
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id == "Line":
            found.append((item, texts.get(ast.unparse(item.args[0]), item.args[0])))
    return found


def arguments(source: str) -> Iterator[str]:
    """The arguments that the lines of a module name: the fields of their templates that are no facts."""
    for line, template in lines(source):
        if isinstance(template, ast.Constant) and all(keyword.arg for keyword in line.keywords):
            fields = {name for _, name, _, _ in string.Formatter().parse(str(template.value)) if name}
            yield from fields - {keyword.arg for keyword in line.keywords}


def dynamic(source: str) -> list[str]:
    """The templates that are put together as a module runs: what arguments they name does not stand in the source."""
    return [ast.unparse(template) for _, template in lines(source) if not isinstance(template, ast.Constant)]


def test_every_template_of_a_line_stands_in_the_source() -> None:
    found = [(path.name, line) for path, text in below() for line in dynamic(text)]
    assert [where for where, _ in found] == ["errors.py"] * 2  # `joined`, whose fields are facts, and `named_argument`


def test_a_template_that_is_put_together_is_found() -> None:
    source = "line = f'{{{x}}}'\nLine(line)\nLine('{a}')\nline = 'x'\nLine(line)\nLine(f'{{{y}}}')"
    assert dynamic(source) == ["f'{{{x}}}'", "f'{{{y}}}'"]


def test_every_argument_in_a_line_has_an_option_and_all_options_are_used() -> None:
    assert {name for _, text in below() for name in arguments(text)} - set(OPTIONS) == set()
    said = {name for _, text in below() for line in literals(text) for name in re.findall("[a-z_]+", line)}
    assert {name for name, option in OPTIONS.items() if option != f"--{name.replace('_', '-')}"} <= said


def test_the_arguments_of_a_line_are_found() -> None:
    source = "line = 'the {a} of {b}'\nLine(line, b=1)\nLine('{c}', **facts)\nLine('{d}')"
    assert set(arguments(source)) == {"a", "d"}
