"""The book of steps: every step by its name. It names families and loads them when it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple

from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.steps.kinds import FileRead
from gdsurgeon.steps.parse import parse
from gdsurgeon.steps.step import REGISTERED, Step
from gdsurgeon.text import listed, nearest, suggestion

FAMILIES = (
    "images", "resizing", "arithmetic", "layout", "sounds", "texts", "records",
    "scores", "classes", "boxes", "restoring", "results",
)  # fmt: skip
"""The modules of this package whose functions are steps, in the order of the list of steps."""


class Written(NamedTuple):
    """A step as a user has written it, with its arguments."""

    step: Step
    arguments: dict[str, object]


@cache
def book() -> dict[str, Step]:
    """All steps by name, family by family."""
    homes = [import_module(f"gdsurgeon.steps.{family}").__name__ for family in FAMILIES]
    steps = [step for step in REGISTERED.values() if step.apply.__module__ in homes]
    return {step.name: step for step in sorted(steps, key=lambda step: homes.index(step.apply.__module__))}


def find(name: str) -> Step:
    """Returns the step `name`.

    Raises UsageError: unknown; the message suggests a step, or names steps with such a parameter.
    """
    steps = book()
    if name not in steps:
        having = [step.name for step in steps.values() if name in (parameter.name for parameter in step.parameters)]
        near = nearest(name, steps) if not having else None
        told = f" It is a parameter of {listed(having)}." if having else suggestion(near)
        facts = {"step": name, "near": near, "parameter_of": having}
        raise UsageError(f"{quoted(name)} is not a step.{told}", code="no-such-step", advice="list-steps", facts=facts)
    return steps[name]


def written(text: str | Sequence[str]) -> list[Written]:
    """The steps in TEXT, or in several texts one after the other, with their arguments.

    Raises:
        UsageError: the text is not in the language, a step is unknown, or an argument missing, unknown or of another
            kind.
        InputError: a file that is an argument cannot be read.
    """
    calls = [call for part in ([text] if isinstance(text, str) else text) for call in parse(part)]
    if not calls:
        raise UsageError("no steps are given", code="missing-argument")
    names = [call.name for call in calls]
    steps = [find(name) for name in names]
    return [Written(step, step.bind(calls[place], called(names, place))) for place, step in enumerate(steps)]


def called(names: Sequence[str], place: int) -> str:
    """What the step at PLACE of steps with NAMES is called in a message: with its place where there are several."""
    return names[place] if names.count(names[place]) == 1 else f"{names[place]} (step {place + 1})"


def files_read(steps: Sequence[Written]) -> list[str]:
    """The paths of the files that STEPS have read."""
    return [value.path for _, arguments in steps for value in arguments.values() if isinstance(value, FileRead)]
