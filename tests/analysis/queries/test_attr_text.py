"""Attr values as people write and read them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gdsurgeon.analysis.queries.attr_text import format_attr, format_float, parse_attr, parse_shape
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import kind_of, plain, shape_of
from gdsurgeon.ops.dtypes import DTYPES, dtype_name


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-3", -3),
        ("int", " 0x10 ", 16),
        ("int", "-0x10", -16),
        ("int", str(-(1 << 63)), -(1 << 63)),
        ("float", "0.5", 0.5),
        ("float", "1e-3", struct.unpack("<f", struct.pack("<f", 1e-3))[0]),
        ("float", "3", 3.0),
        ("float", "inf", float("inf")),
        ("bool", "true", True),
        ("bool", "False", False),
        ("bool", "0", False),
        ("string", "SAME", b"SAME"),
        ("string", " a,b ", b" a,b "),
        ("string", "", b""),
        ("string", "grün", "grün".encode()),
        ("type", "float32", 1),
        ("type", "DT_FLOAT", 1),
        ("type", "dt_half", 19),
        ("type", "half", 19),
        ("type", "double", 2),
        ("type", "float32_ref", 101),
        ("type", "DT_INT32_REF", 103),
        ("list(int)", "1,2,2,1", [1, 2, 2, 1]),
        ("list(int)", "[1, 2]", [1, 2]),
        ("list(int)", "[]", []),
        ("list(float)", "0.5,1", [0.5, 1.0]),
        ("list(bool)", "true,false", [True, False]),
        ("list(type)", "float32, DT_INT64", [1, 9]),
        ("list(string)", "a,b c", [b"a", b"b c"]),
        ("list(string)", '["a,b","c"]', [b"a,b", b"c"]),
        ("list(string)", "[]", []),
    ],
)
def test_plain_values(kind: str, text: str, value: object) -> None:
    found = parse_attr(kind, text)
    assert plain(found) == value
    assert kind_of(found) == ("list()" if value == [] else kind)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("[]", []),
        ("[[]]", [()]),
        ("[?,3]", [(-1, 3)]),
        ("[?,3],[]", [(-1, 3), ()]),
        ("[[?,3], [...], [2]]", [(-1, 3), None, (2,)]),
    ],
)
def test_lists_of_shapes(text: str, shapes: list[tuple[int, ...] | None]) -> None:
    found = parse_attr("list(shape)", text)
    assert found.WhichOneof("value") == "list"
    assert [shape_of(shape) for shape in found.list.shape] == shapes


def test_functions() -> None:
    assert parse_attr("func", "f").func.name == "f"
    assert [func.name for func in parse_attr("list(func)", "f,g").list.func] == ["f", "g"]


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("int", "", "'' is not an int"),
        ("int", "1.5", "'1.5' is not an int"),
        ("int", "1_000", "is not an int"),
        ("int", "٣", "is not an int"),
        ("int", str(1 << 63), "of 64 bits"),
        ("int", "9" * 10_000, "of 64 bits"),
        ("float", "x", "'x' is not a float"),
        ("float", "1e40", "is not a float of 32 bits"),
        ("bool", "yes", "'yes' is not a bool: true or false"),
        ("type", "flaot32", r"a type such as float32 or DT_FLOAT. Did you mean 'float32'\?"),
        ("type", "", "'' is not a type"),
        ("shape", "", "'' is not a shape"),
        ("shape", "1,,2", "'1,,2' is not a shape"),
        ("shape", "[1,2", r"'\[1,2' is not a shape"),
        ("shape", "-2", "is not a shape"),
        ("func", "", "'' is not the name of a function"),
        ("list(int)", "", r"'' is not a list of ints \(write \[\] for an empty list\)"),
        ("list(int)", "1,", "'' is not an int"),
        ("list(int)", "[[1]]", r"'\[1\]' is not an int"),
        ("list(shape)", "?,3", "is not a list of shapes"),
        ("list(shape)", "[?,3] [2]", "is not a list of shapes"),
        ("list(shape)", "[?,3],,[2]", "is not a list of shapes"),
        ("list(string)", '["a"', "is not a JSON list of strings"),
        ("list(string)", '["a", 1]', "is not a JSON list of strings"),
        ("tensor", "1", "a tensor cannot be written as text"),
        ("list(tensor)", "1", r"a list\(tensor\) cannot be written as text"),
    ],
)
def test_what_is_not_of_the_kind_is_refused(kind: str, text: str, words: str) -> None:
    with pytest.raises(EditError, match=words):
        parse_attr(kind, text)


def test_what_is_shown() -> None:
    for kind, text in [
        ("int", "-3"),
        ("bool", "true"),
        ("type", "float32"),
        ("shape", "[?,3]"),
        ("shape", "[...]"),
        ("list(int)", "[1,2]"),
        ("list(shape)", "[[?,3],[]]"),
        ("float", "0.1"),
    ]:
        assert format_attr(parse_attr(kind, text)) == text
    assert format_attr(parse_attr("string", "SAME")) == "'SAME'"
    assert format_attr(parse_attr("func", "f")) == "'f'"
    assert format_attr(parse_attr("list(int)", "[]")) == "[]"


def test_what_is_long_or_hostile_is_shown_short_and_escaped() -> None:
    assert format_attr(parse_attr("string", "a\x1b[2Jb\n")) == r"'a\x1b[2Jb\n'"
    assert format_attr(parse_attr("string", "x" * 100)) == f"'{'x' * 60}...'"
    value = parse_attr("string", "")
    value.s = b"\xff\xfe\x00"
    assert format_attr(value) == "3 bytes"
    assert format_attr(parse_attr("list(int)", ",".join("1" * 15))) == "[1,1,1,1,1,1,1,1,1,1,1,1 and 3 more]"
    assert format_attr(type(value)()) == "nothing"


@given(st.floats(width=32, allow_nan=False))
@example(3.4028234663852886e38)  # the largest float: some of its roundings are not floats
def test_a_float_comes_back_from_its_text(number: float) -> None:
    assert parse_attr("float", format_float(number)).f == number


@given(st.lists(st.one_of(st.just(-1), st.integers(0, 10**9)), max_size=6).map(tuple))
def test_a_shape_comes_back_from_its_text(shape: tuple[int, ...]) -> None:
    text = format_attr(parse_attr("shape", "[" + ",".join("?" if d < 0 else str(d) for d in shape) + "]"))
    assert parse_shape(text) == shape


@pytest.mark.parametrize("number", DTYPES)
def test_every_type_comes_back_from_its_name(number: int) -> None:
    assert parse_attr("type", dtype_name(number)).type == number
    assert parse_attr("type", format_attr(parse_attr("type", dtype_name(number) + "_ref"))).type == number + 100
