"""The language of scripts: words, quotes, comments, variables, and lines that continue others."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gdsurgeon.cli.script import Fault, ScriptLine, read_script

VARIABLES = {"A": "one", "B": "two words", "EMPTY": "", "QUOTES": "'\"#$A\\", "_x9": "under", "PARTS": "here"}


def words(text: str) -> list[tuple[str, ...]]:
    """The words of each line; no line may be wrong."""
    lines = read_script(text, VARIABLES)
    assert not [line for line in lines if isinstance(line, Fault)]
    return [line.words for line in lines if isinstance(line, ScriptLine)]


def faults(text: str) -> list[tuple[int, str]]:
    return [tuple(line) for line in read_script(text, VARIABLES) if isinstance(line, Fault)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("rename a=b", ["rename", "a=b"]),
        ("  rename\ta=b  ", ["rename", "a=b"]),
        ("'a b' c", ["a b", "c"]),
        ("\"a b\"'c d'e", ["a bc de"]),
        ("'' \"\"", ["", ""]),
        ("a''b", ["ab"]),
        (r"a\ b \# \' \" \\ \$A", ["a b", "#", "'", '"', "\\", "$A"]),
        (r"'a\b' 'a\'", ["a\\b", "a\\"]),
        (r'"a\b \" \\ \$A \`"', ['a\\b " \\ $A `']),
        ("a#b '#c' # d", ["a#b", "#c"]),
        ("rename a=b#", ["rename", "a=b#"]),
        ("$A ${A} x$A.y ${A}y", ["one", "one", "xone.y", "oney"]),
        ("$B \"$B\" '$B'", ["two words", "two words", "$B"]),
        ("$EMPTY x", ["", "x"]),
        ("x$EMPTY", ["x"]),
        ("$QUOTES", ["'\"#$A\\"]),
        ("$_x9", ["under"]),
        ("a$", ["a$"]),
        ("$", ["$"]),
        ('"$" $. $1 $- a$$', ["$", "$.", "$1", "$-", "a$$"]),
        ("^scope/.*$ x", ["^scope/.*$", "x"]),
        ("größe=Bild 画像 $é", ["größe=Bild", "画像", "$é"]),
        ("--feed x=[[1,2]] *.pb ~/a a;b a|b (c) <d >e &", "--feed x=[[1,2]] *.pb ~/a a;b a|b (c) <d >e &".split()),
    ],
)
def test_words(text: str, wanted: list[str]) -> None:
    assert words(text) == [tuple(wanted)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("\n\n  \n\t\n", []),
        ("# a\n  # b\nc", [(3, ["c"])]),
        ("a\nb\n", [(1, ["a"]), (2, ["b"])]),
        ("a\r\nb\r\n", [(1, ["a"]), (2, ["b"])]),
        ("a \\\n b\nc", [(1, ["a", "b"]), (3, ["c"])]),
        ("a \\\r\n b\r\nc", [(1, ["a", "b"]), (3, ["c"])]),
        ("a\\\nb", [(1, ["ab"])]),
        ('"a \\\n b" c', [(1, ["a  b", "c"])]),
        ("a \\\n\\\n b\nc", [(1, ["a", "b"]), (4, ["c"])]),
        ("a \\\n# a comment\nb", [(1, ["a"]), (3, ["b"])]),
        ("a \\", [(1, ["a"])]),
        ("a \\\n", [(1, ["a"])]),
        ("a \\\\\nb", [(1, ["a", "\\"]), (2, ["b"])]),
        ("a \\\\\\\n b", [(1, ["a", "\\", "b"])]),
        ("# ends with a backslash \\\nb", [(2, ["b"])]),
        ("a # ends with a backslash \\\nb", [(1, ["a"]), (2, ["b"])]),
        ("a '#' \\\nb", [(1, ["a", "#", "b"])]),
        ("a\\ # b \\\nb", [(1, ["a #", "b", "b"])]),
        ("'a\\'\nb", [(1, ["a\\"]), (2, ["b"])]),
        ("\\\n\\\n", []),
        ("\\\n\na", [(3, ["a"])]),
    ],
)
def test_lines(text: str, wanted: list[tuple[int, list[str]]]) -> None:
    found = [(line.number, list(line.words)) for line in read_script(text, {}) if isinstance(line, ScriptLine)]
    assert found == wanted


def test_a_quote_that_a_line_leaves_open_is_not_closed_by_the_next_one() -> None:
    first, second = read_script("a 'b \\\nc' d", {})
    assert (first, second) == (Fault(1, "a quote ' is not closed"), Fault(2, "a quote ' is not closed"))


def test_a_line_is_told_as_it_is_written_without_comments_and_the_values_of_variables() -> None:
    (line,) = read_script("  rename  $A=b \\\n   c='d' # why\n", VARIABLES)
    assert isinstance(line, ScriptLine)
    assert (line.number, line.text, line.words) == (1, "rename $A=b c='d'", ("rename", "one=b", "c=d"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rename 'a", "a quote ' is not closed"),
        ('rename "a', 'a quote " is not closed'),
        ("rename 'a\\", "a quote ' is not closed"),
        ("rename $NONE", "the variable 'NONE' is not set"),
        ("rename ${NONE}x", "the variable 'NONE' is not set"),
        ("rename ${A", "${...} names no variable"),
        ("rename ${}", "${...} names no variable"),
        ("rename ${A:-b}", "${...} names no variable"),
        ("rename “a”=b", "a typographic quote “: ' and \" are quotes"),
    ],
)
def test_what_is_wrong_is_said_with_the_first_of_its_lines(text: str, said: str) -> None:
    ((number, message),) = faults(f"a\n# b\nc \\\n  {text}\nlast")
    assert (number, message) == (3, said)


def test_each_wrong_line_is_found_and_the_right_ones_are_read() -> None:
    lines = read_script("a\n'b\nc\n$NONE\nd", VARIABLES)
    assert [(line.number, isinstance(line, Fault)) for line in lines] == [
        (1, False), (2, True), (3, False), (4, True), (5, False),
    ]  # fmt: skip


def test_a_variable_that_is_nearly_there_is_offered() -> None:
    ((_, message),) = faults("rename $PART")
    assert message == "the variable 'PART' is not set. Did you mean 'PARTS'?"


AGREED = st.text(alphabet="ab ='\"\\#\t-ä*;", max_size=20)
"""What is the same in all shells: no variables."""


@given(AGREED)
@example("a \\\\ b")
@example('"a\\" b" \'c\\\'')
def test_words_are_those_of_a_shell(text: str) -> None:
    text = re.sub(r"(?<=\S)#|(?<=\\\s)#", "h", text)  # in the middle of a word it begins a comment for shlex alone
    lines = read_script(text, {})
    try:
        wanted = shlex.split(text, comments=True)
    except ValueError:
        assert text.endswith("\\") or isinstance(lines[0], Fault)
    else:
        assert [line[2:] for line in lines] == [(tuple(wanted),)] * bool(wanted)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), min_size=1))
def test_quoted_words_are_what_they_were(listed: list[str]) -> None:
    assert words(shlex.join(listed)) == [tuple(listed)]


@given(st.text())
def test_no_text_is_too_much(text: str) -> None:
    lines = read_script(text, VARIABLES)
    numbers = [line.number for line in lines]
    assert numbers == sorted(set(numbers))
    assert all(1 <= number <= text.count("\n") + 1 for number in numbers)
