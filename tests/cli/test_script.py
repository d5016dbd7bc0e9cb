"""The language of scripts: words, quotes, comments, variables, and lines that continue others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.desk import check_error

from gdsurgeon.cli.script import read_script
from gdsurgeon.steps.language import parse

VARIABLES = {
    "A": "one", "B": "two words", "EMPTY": "", "QUOTES": "'\"#$A\\", "_x9": "under", "PARTS": "here",
    "SHELL": "gdsurgeon a; b && c | gdsurgeon > `x` $(z)",
}  # fmt: skip


def words(text: str) -> list[tuple[str, ...]]:
    """The words of each line; no line may be wrong."""
    lines = read_script(text, VARIABLES)
    assert not [line for line in lines if line.error is not None]
    return [line.words for line in lines if line.error is None]


def check_fault(text: str, number: int, code: str, variables: Mapping[str, str] = VARIABLES, **facts: object) -> None:
    """The one fault in TEXT is in the line NUMBER, and has the code CODE and FACTS."""
    (fault,) = (line for line in read_script(text, variables) if line.error is not None)
    assert fault.number == number
    check_error(fault.error, code, facts)


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
        (
            "--feed x=[[1,2]] *.pb a~/b a|b a| (c) d>e f<g & h=i",
            "--feed x=[[1,2]] *.pb a~/b a|b a| (c) d>e f<g & h=i".split(),
        ),
        (  # shell features are faults only outside quotes and values
            "'gdsurgeon' 'A=b' ';' \"&&\" '>' \\> \\| \\; '`' '$(' '&'",
            ["gdsurgeon", "A=b", ";", "&&", ">", ">", "|", ";", "`", "$(", "&"],
        ),
        ('$SHELL "$SHELL"', ["gdsurgeon a; b && c | gdsurgeon > `x` $(z)"] * 2),
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
    found = [(line.number, list(line.words)) for line in read_script(text, {}) if line.error is None]
    assert found == wanted


def test_a_quote_that_a_line_leaves_open_is_not_closed_by_the_next_one() -> None:
    found = read_script("a 'b \\\nc' d", {})
    assert [line.number for line in found if line.error is not None] == [1, 2]


def test_a_line_is_told_as_it_is_written_without_comments_and_the_values_of_variables() -> None:
    (line,) = read_script("  rename  $A=b \\\n   c='d' # why\n", VARIABLES)
    assert (line.number, line.text, line.words) == (1, "rename $A=b c='d'", ("rename", "one=b", "c=d"))


WRONG = {
    "'": ["rename 'a", "rename 'a\\"],
    '"': ['rename "a'],
    "${": ["rename ${A", "rename ${}", "rename ${A:-b}"],
    "“": ["rename “a”=b"],
    "|": ["rename a=b | gdsurgeon rename - b=c", "rename a=b |gdsurgeon rename - b=c"],
    "&&": ["rename a=b && rename b=c"],
    "||": ["rename a=b || rename b=c"],
    ";": ["rename a=b; rename b=c", "rename a=b;rename b=c"],
    ">": ["rename a=b > out.pb", "rename a=b >out.pb"],
    "2>": ["rename a=b 2>log"],
    "<": ["rename a=b < in.pb"],
    "&": ["rename a=b &"],
    "A=": ["A=b rename a=b", "export A=b"],
    "$(": ["rename a=$(cat x)", 'rename "a=$(cat x)"'],
    "~": ["insert --at a ~/b.pb"],
    "`": ["rename a=`cat x`"],
}
"""Wrong lines by their wrong part."""


@pytest.mark.parametrize(
    ("text", "code", "facts"),
    [
        *((text, "bad-script", {"value": value}) for value, texts in WRONG.items() for text in texts),
        ("rename $NONE", "no-such-variable", {"name": "NONE", "near": None}),
        ("rename ${NONE}x", "no-such-variable", {"name": "NONE"}),
        ("rename $PART", "no-such-variable", {"name": "PART", "near": "PARTS"}),
        ("gdsurgeon rename m.pb a=b", "model-in-a-script", {}),
        ("/usr/bin/gdsurgeon", "model-in-a-script", {}),
        ("python -m gdsurgeon rename a=b", "model-in-a-script", {}),
        ("insert --at a --steps divide(2) | cast(uint8)", "bad-script", {"option": "--steps"}),
        ("insert --at a --steps=divide(2) | cast(uint8)", "bad-script", {"option": "--steps"}),
    ],
)
def test_what_is_wrong_is_said_with_the_first_of_its_lines(text: str, code: str, facts: dict[str, object]) -> None:
    check_fault(f"a\n# b\n\\\n  {text}\nlast", 3, code, **facts)


def test_each_wrong_line_is_found_and_the_right_ones_are_read() -> None:
    lines = read_script("a\n'b\nc\n$NONE\nd", VARIABLES)
    assert [(line.number, line.error is not None) for line in lines] == [
        (1, False), (2, True), (3, False), (4, True), (5, False),
    ]  # fmt: skip


AGREED = st.text(alphabet="ab ='\"\\#\t-ä*:", max_size=20)
"""Texts with the same meaning in all shells: no variables."""


def test_a_blank_after_a_backslash_is_found_in_its_own_line() -> None:
    check_fault("a \\\n  b \\\n  c \\ \n  d", 3, "bad-script", value="\\")


def test_a_number_sign_in_a_continued_word_starts_no_comment() -> None:
    assert words("a\\\n#b c") == [("a#b", "c")]
    assert words("a\\\r\n#b c") == [("a#b", "c")]
    assert words("a \\\n#b c") == [("a",)]


@pytest.mark.parametrize("text", ["a \\ \nb=c\nd", "a \\\t\n  b\\\n c\nd", "a\\ \r\nb\nd", "a \\  \n  \nd"])
def test_a_blank_behind_the_last_backslash(text: str) -> None:
    check_fault(text, 1, "bad-script", value="\\")
    assert read_script(text, {})[1].words == ("d",)


def test_a_blank_behind_a_backslash_that_continues_nothing() -> None:
    assert words("a # b \\ \nc") == [("a",), ("c",)]
    assert words("a \\\\ \nc") == [("a", "\\"), ("c",)]
    assert words("a '\\' \nc") == [("a", "\\"), ("c",)]


STEPS = {
    "FILE": "my labels (old).txt", "N": "224", "LIST": "[1, 2]", "WORD": "uint8", "EMPTY": "", "PIPES": "a | b",
    "SINGLE": "it's", "DOUBLE": 'a "b"', "CHAIN": "divide(2) | cast(uint8)", "CALL": "1), divide(2", "KEY": "file=x",
    "BLANKS": " a ", "CURLY": "“a”", "QUOTED": "'a b'",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("labels(file=$FILE)", "labels(file='my labels (old).txt')"),
        ("labels(file='$FILE')", "labels(file='my labels (old).txt')"),
        ("labels(file=$WORD/$FILE)", "labels(file='uint8/my labels (old).txt')"),
        ("resize($N, ${N})", "resize(224, 224)"),
        ("divide($N/2)", "divide(224/2)"),
        ("normalize(mean=$LIST, std=[$N,$FILE])", "normalize(mean=[1, 2], std=[224,'my labels (old).txt'])"),
        ("cast($WORD) | labels(file=$PIPES)", "cast(uint8) | labels(file='a | b')"),
        ("labels(file=$EMPTY)", "labels(file='')"),
        ("labels(file=$SINGLE)", 'labels(file="it\'s")'),
        ("labels(file='$SINGLE')", 'labels(file="it\'s")'),
        ("labels(file=$DOUBLE)", "labels(file='a \"b\"')"),
        ("divide($CALL)", "divide('1), divide(2')"),
        ("divide($KEY)", "divide('file=x')"),
        ("divide($BLANKS)", "divide(' a ')"),
        ("divide($CURLY)", "divide('“a”')"),
        ("divide($QUOTED)", "divide('a b')"),
        ("$CHAIN", "divide(2) | cast(uint8)"),
        ("$CHAIN | round", "divide(2) | cast(uint8) | round"),
        ("to-$WORD", "to-uint8"),
    ],
)
def test_a_value_among_the_arguments_of_a_step_is_one_argument(text: str, wanted: str) -> None:
    for line in (f'insert --at a --steps "{text}"', f'insert --at a "--steps={text}"'):
        (found,) = read_script(line, STEPS)
        assert found.words[-1].removeprefix("--steps=") == wanted


def test_a_value_that_no_text_of_steps_can_hold() -> None:
    check_fault('insert --at a --steps "labels(file=$A)"', 1, "bad-script", {"A": "'\" x"})


@given(
    st.text(alphabet="ab ,()[]|='\\$1#.", max_size=8),
    st.sampled_from(["divide($A)", "divide(x=[1,$A])", "divide(x='$A')"]),
)
def test_any_value_is_one(value: str, text: str) -> None:
    (line,) = read_script(f'insert --at a --steps "{text}"', {"A": value})
    (call,) = parse(line.words[-1])
    (argument,) = call.arguments
    if "'" in text:
        assert argument.value == value
    elif "[" in text:
        assert isinstance(argument.value, list) and len(argument.value) == 2


@given(AGREED)
@example("a \\\\ b")
@example('"a\\" b" \'c\\\'')
def test_words_are_those_of_a_shell(text: str) -> None:
    text = "rename " + re.sub(r"\\[ \t]+$", "", text)  # a blank behind the last backslash is a fault
    text = re.sub(r"(?<=\S)#|(?<=\\\s)#", "h", text)  # in the middle of a word it begins a comment for shlex alone
    lines = read_script(text, {})
    try:
        wanted = shlex.split(text, comments=True)
    except ValueError:
        assert text.endswith("\\") or lines[0].error is not None
    else:
        assert [line.words for line in lines] == [tuple(wanted)] * bool(wanted)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), min_size=1))
def test_quoted_words_are_what_they_were(listed: list[str]) -> None:
    assert words(shlex.join(listed)) == [tuple(listed)]


@given(st.text())
def test_no_text_is_too_much(text: str) -> None:
    lines = read_script(text, VARIABLES)
    numbers = [line.number for line in lines]
    assert numbers == sorted(set(numbers))
    assert all(1 <= number <= text.count("\n") + 1 for number in numbers)
