"""Arguments of any size and kind: a graph is built, or a line says why not."""

from __future__ import annotations

from typing import get_args

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.stepping import typed

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.steps.catalog import catalog
from gdsurgeon.steps.language import File

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
