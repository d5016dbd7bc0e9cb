"""Steps of the library: whatever a caller gives, it is taken, or a line of the library's own says what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.stepping import model, ops

import gdsurgeon as gds
from gdsurgeon.errors import UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.steps.catalog import read_steps

NO_STEPS: dict[str, tuple[object, str]] = {
    "nothing": ([], "no steps are given"),
    "no text": ("", "steps, column 1: a step is missing, at the end"),
    "a number": (3, "or a list of such texts, not int"),
    "None": (None, "or a list of such texts, not None"),
    "bytes": (b"rescale(2)", "or a list of such texts, not bytes"),
    "a dict": ({"rescale": 2}, "or a list of such texts, not dict"),
    "a list with a dict in it": (["rescale(2)", {"rescale": 2}], "or a list of such texts, not a list with dict"),
    "a list with None in it": ([None], "or a list of such texts, not a list with None"),
    "read and unread ones": ([*read_steps("rescale(2)"), "round"], "or a list of such texts"),
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
        with pytest.raises(UsageError, match=r"^the model must be a graph, as gds.load\(PATH\) returns it, not "):
            build()


def test_what_names_no_tensor() -> None:
    given: Any = 3
    with pytest.raises(UsageError, match=r"^the input must be given by its name, not by int$"):
        gds.steps.preprocessing("rescale(2)", model(), input=given)
    with pytest.raises(UsageError, match=r"^the output must be given by its name, not by int$"):
        gds.steps.postprocessing("rescale(2)", model(), output=given)
    with pytest.raises(UsageError, match=r"^the tensor must be given by its name, not by int$"):
        gds.steps.inserted("rescale(2)", model(), given)
    with pytest.raises(UsageError, match=r"^raw '3' is not a dtype with a shape"):
        gds.steps.preprocessing("rescale(2)", model(), raw=given)


def test_a_tensor_is_meant_by_its_name_or_itself() -> None:
    m = model()
    x, y = m["x"].output, m["y"].output
    given: Any = (step for step in ("rescale(2)", "round"))
    wanted = ["Placeholder", "Mul", "Round", "Identity"]
    assert ops(gds.steps.preprocessing(given, m, input=x)) == wanted
    assert ops(gds.steps.postprocessing(("rescale(2)", "round"), m, output=y)) == wanted
    assert ops(gds.steps.inserted(read_steps("rescale(2) | round"), m, x)) == wanted
