"""The language of steps, their arguments, and steps as a library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.stepping import model, ops, typed

import gdsurgeon as gds
from gdsurgeon.errors import ArgumentError, GdsurgeonError, UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.steps.catalog import catalog, read_steps
from gdsurgeon.steps.language import Argument, Call, File, Literal, parse


def value(text: str) -> Literal:
    return parse(f"f({text})")[0].arguments[0].value


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("round", [Call("round", ())]),
        ("round()", [Call("round", ())]),
        (" a|b ( ) |\nc", [Call("a", ()), Call("b", ()), Call("c", ())]),
        ("resize(2, width = 3)", [Call("resize", (Argument("", 2), Argument("width", 3)))]),
        ("a(half-pixel=true)", [Call("a", (Argument("half-pixel", True),))]),
    ],
)
def test_calls(text: str, calls: list[Call]) -> None:
    assert parse(text) == calls


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1", 1), ("-1", -1), ("+2", 2), ("1.", 1.0), (".5", 0.5), ("-1e-3", -0.001), ("1/4", 0.25), ("-1/4", -0.25),
        ("1/255", 1 / 255), ("true", True), ("False", False), ("keras-caffe", "keras-caffe"), ("l.txt", "l.txt"),
        ("/a/b c", None), ("'/a b|c,(d)'", "/a b|c,(d)"), ('"it\'s"', "it's"), ("''", ""), ("[]", []),
        ("[1, 2.5, [x, 'y']]", [1, 2.5, ["x", "y"]]), ("1/x", "1/x"), ("1e", "1e"), ("'“'", "“"),
    ],
)  # fmt: skip
def test_values(text: str, found: Literal | None) -> None:
    if found is None:
        with pytest.raises(UsageError):
            value(text)
        return
    assert value(text) == found and type(value(text)) is type(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b", "steps, column 3: a: '|' must separate steps, at 'b'"),
        ("a(x=1, 2)", "steps, column 8: a: after x=... arguments must be given by name, at '2)'"),
        ("a(x=1, x=2)", "steps, column 8: a: x is given twice, at 'x=2)'"),
        ("a('x)", "steps, column 3: a: the text that begins with ' is not terminated, at ''x)'"),
        ("a(x=’y’)", "steps, column 5: a: ’ is a typographic character; use ', at '’y’)'"),
        ("a(–1)", "steps, column 3: a: – is a typographic character; use -, at '–1)'"),
        ("a(1/0)", "steps, column 3: a: this is not a number, at '1/0)'"),
        ("a(1e999)", "steps, column 3: a: this number is too large, at '1e999)'"),
        ("a(" + "9" * 5000 + ")", f"steps, column 3: a: this is not a number, at '{'9' * 20}...'"),
        ("a(" + "[" * 99, f"steps, column 11: a: lists can be nested at most 8 deep, at '{'[' * 20}...'"),
    ],
)
def test_what_is_not_in_the_language(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text)
    assert error.value.message == said


@given(st.text("ab1|(),=[]'\" .-/\n“–", max_size=30))
@example("a(\\")
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        assert parse(text)
    except UsageError as error:
        assert error.message.startswith("steps, column ") and "\n" not in error.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("decode-imag", "'decode-imag' is not a step. Did you mean 'decode-image'?"),
        ("resize(2, 3, height=4)", "resize: height is given twice"),
        ("round(1)", "round accepts 0 arguments"),
        ("resize(2, 3, antialias=1)", "resize: antialias is 1, but must be true or false"),
        ("divide(x)", "divide: by is 'x', but must be a number other than 0"),
        ("divide(0)", "divide: by is 0, but must be a number other than 0"),
        ("normalize(mean=[])", "normalize: mean is [], but must be a number, or a list with one for each channel"),
    ],
)  # fmt: skip
def test_arguments_that_are_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_steps(text)
    assert error.value.message == said


def test_several_texts_are_one_after_the_other() -> None:
    assert [step.step.name for step in read_steps(["round | round", "divide(2)"])] == ["round", "round", "divide"]
    with pytest.raises(UsageError, match="no steps are given"):
        read_steps([])


@pytest.mark.parametrize("name", catalog())
def test_a_step_says_all_of_itself(name: str) -> None:
    step = catalog()[name]
    assert step.name == name and step.summary[0].isupper() and step.summary.endswith(".")
    assert name in [found.step.name for found in read_steps(step.example)]
    assert step.explanation == "" or step.explanation.endswith(".")
    for parameter in step.parameters:
        assert parameter.help and not parameter.help.endswith(".")
        if not parameter.is_required and parameter.default is not None:
            default = parameter.default.name if hasattr(parameter.default, "name") else parameter.default
            parameter.kind.read(list(default) if isinstance(default, tuple) else default)  # type: ignore[arg-type]


FILE = get_args(File)[1]
LITERALS = (
    "0", "1", "-1", "2", "3", "7", "300", "1.5", "-0.5", "1/255", "1e-40", "1e-320", "1e39", "-1e300", "2147483647",
    "9223372036854775807", "1" + "0" * 400, "true", "false", "keras", "pillow", "opencv", "tf1", "bilinear", "bicubic",
    "nearest", "linear", "area", "uint8", "float16", "float32", "int64", "NHWC", "RGB", "keras-tf", "keras-caffe",
    "any", "''", "'a b'", "[]", "[0]", "[1, 2, 3]", "[-1, 3]", "[2, 0, 1]", "[1e39, 0, 1]", "[0, 0, 0]", "[[1], [2]]",
)  # fmt: skip
RAWS = (
    "uint8[5,4,3]",
    "uint8[?,?,?,3]",
    "float32[?,3]",
    "float64[]",
    "int32[...]",
    "string",
    "bool[2]",
    "float16[2,2,2,3]",
)


@st.composite
def calls(draw: st.DrawFn) -> str:
    step = catalog()[draw(st.sampled_from(sorted(catalog())))]
    given: list[str] = []
    for parameter in step.parameters:
        if parameter.kind is not FILE and (parameter.is_required or draw(st.booleans())):
            given.append(f"{parameter.name}={draw(st.sampled_from(LITERALS))}")
    return f"{step.name}({', '.join(given)})"


@settings(max_examples=300)
@given(st.lists(calls(), min_size=1, max_size=4), st.sampled_from(RAWS))
@example(["rescale(scale=1e39)"], "uint8[5,4,3]")
@example(["cast(type=float64)", "rescale(scale=1e300)", "rescale(scale=1e300)", "cast(type=int64)"], "uint8[5,4,3]")
@example(["pad(value=1e39)"], "float32[5,4,3]")
@example(["clip(low=-1e300, high=1e300)"], "float32[5,4,3]")
def test_whatever_is_given(steps: list[str], raw: str) -> None:
    try:
        graph, value = typed(" | ".join(steps), raw)
    except GdsurgeonError as error:
        assert "\n" not in error.message and error.exit_code in (2, 4)
        return
    assert graph.node_count >= 2 and not value.low > value.high


NO_STEPS: dict[str, tuple[object, str]] = {
    "nothing": ([], "no steps are given"),
    "no text": ("", "steps, column 1: a step is missing, at the end"),
    "a number": (3, "expected str or a sequence of str or StepCall, got int"),
    "None": (None, "expected str or a sequence of str or StepCall, got NoneType"),
    "bytes": (b"rescale(2)", "expected str or a sequence of str or StepCall, got bytes"),
    "a dict": ({"rescale": 2}, "expected str or a sequence of str or StepCall, got dict"),
    "a list with a dict in it": (["rescale(2)", {"rescale": 2}], "item 1 is dict, expected str or StepCall, got list"),
    "a list with None in it": ([None], "item 0 is NoneType, expected str or StepCall, got list"),
}


def each_side(steps: Any, graph: Any) -> list[Callable[[], Graph]]:
    return [
        lambda: gds.steps.preprocessing(steps, graph),
        lambda: gds.steps.postprocessing(steps, graph),
        lambda: gds.steps.inserted(steps, graph, "y"),
    ]


@pytest.mark.parametrize("name", NO_STEPS)
def test_what_is_no_steps(name: str) -> None:
    steps, said = NO_STEPS[name]
    for build in each_side(steps, model()):
        with pytest.raises(UsageError) as error:
            build()
        assert error.value.message.endswith(said) and "\n" not in error.value.message


@pytest.mark.parametrize("graph", ["model.pb", None, 3], ids=str)
def test_what_is_no_model(graph: object) -> None:
    for build in each_side("rescale(2)", graph):
        with pytest.raises(UsageError, match="argument 'model': expected Graph, got "):
            build()


def test_what_names_no_tensor() -> None:
    given: Any = 3
    for argument, build in (
        ("input", lambda: gds.steps.preprocessing("rescale(2)", model(), input=given)),
        ("output", lambda: gds.steps.postprocessing("rescale(2)", model(), output=given)),
        ("tensor", lambda: gds.steps.inserted("rescale(2)", model(), given)),
        ("raw", lambda: gds.steps.preprocessing("rescale(2)", model(), raw=given)),
    ):
        with pytest.raises(ArgumentError) as error:
            build()
        assert error.value.facts["argument"] == argument and error.value.facts["found"] == "int"


def test_a_tensor_is_meant_by_its_name_or_itself() -> None:
    m = model()
    x, y = m["x"].output, m["y"].output
    given: Any = (step for step in ("rescale(2)", "round"))
    wanted = ["Placeholder", "Mul", "Round", "Identity"]
    assert ops(gds.steps.preprocessing(given, m, input=x)) == wanted
    assert ops(gds.steps.postprocessing(("rescale(2)", "round"), m, output=y)) == wanted
    assert ops(gds.steps.inserted(read_steps("rescale(2) | round"), m, x)) == wanted
    assert ops(gds.steps.inserted([*read_steps("rescale(2)"), "round"], m, x)) == wanted
