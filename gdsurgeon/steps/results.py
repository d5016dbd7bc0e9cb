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
    "Give results their own names, or do not make them outputs.",
    Parameter("name", TEXT, "the name of the main result", None),
    *(Parameter(what, TEXT, f"the name of the {what}; none: not an output", None) for what in RESULTS),
    sides=(BEHIND,),
    example="softmax | top-k(5) | rename(classes, scores=probabilities)",
    explanation="Without this step, the result of the steps replaces the model's output; the output's "
    "original value is renamed to OUTPUT_raw. Additional results are named OUTPUT_scores, "
    "OUTPUT_classes, OUTPUT_count. A result with a name becomes an output of that name, and the "
    "model's own output keeps its name and value.",
)
def rename(build: Builder, value: Value, *, name: str | None, **names: str | None) -> Value:
    del build
    given = {what: name for what, name in names.items() if name is not None}
    if name is None and not given:
        raise Unfit("no name is given")
    for what in given:
        if what not in value.results:
            there = f": the results are {listed(value.results)}" if value.results else ""
            raise Unfit(f"the steps have no additional result {what}{there}")
    if name == NONE:
        raise Unfit("the result of the steps equals their input, which is already an output")
    results = dict(value.results)
    for what, called in given.items():
        results[what] = results[what]._replace(name=None if called == NONE else called)
    return value.but(name=name or value.name, results=results)
