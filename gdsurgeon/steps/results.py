"""Steps that say which results become outputs of the model, and under which names."""

from __future__ import annotations

from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.kinds import TEXT
from gdsurgeon.steps.step import BEHIND, Parameter, step
from gdsurgeon.steps.value import Unfit, Value
from gdsurgeon.text import listed

NONE = "none"
"""In the place of a name: that it does not become an output."""

RESULTS = ("scores", "classes", "boxes", "count")


@step(
    "rename",
    "Give results names of their own, or have them be no outputs.",
    Parameter("name", TEXT, "of what the steps give", None),
    *(Parameter(what, TEXT, f"the name of the {what} besides; none: they are no output", None) for what in RESULTS),
    sides=(BEHIND,),
    example="softmax | top-k(5) | rename(classes, scores=probabilities)",
    explanation="""
    Without it what the steps give takes the place of the output behind which they stand, whose own value is called
    OUTPUT_raw then, and what they give besides is called OUTPUT_scores, OUTPUT_classes, OUTPUT_count. What is given a
    name is an output of that name, and the model's own output stays what it was under its own.""",
)
def rename(build: Builder, value: Value, *, name: str | None, **names: str | None) -> Value:
    del build
    given = {what: name for what, name in names.items() if name is not None}
    if name is None and not given:
        raise Unfit("says no name")
    for what in given:
        if what not in value.results:
            there = f": there are {listed(value.results)}" if value.results else ""
            raise Unfit(f"there are no {what} besides what comes in{there}")
    if name == NONE:
        raise Unfit("what comes in is what the steps give: it is an output")
    results = dict(value.results)
    for what, called in given.items():
        results[what] = results[what]._replace(name=None if called == NONE else called)
    return value.but(name=name or value.name, results=results)
