"""Steps of the library: whatever a caller gives, it is taken, or a line of the library's own says what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.stepping import model, ops

import gdsurgeon as gds
from gdsurgeon.errors import ArgumentError, UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.steps.catalog import read_steps

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
