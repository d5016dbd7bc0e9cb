"""The catalog of steps as text: a list, or the help of one step."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence

from gdsurgeon.errors import Json
from gdsurgeon.steps.catalog import Parameter, Step, spelt
from gdsurgeon.text import columns
from gdsurgeon.view.report import to_json

WIDTH = 100


def listed(steps: Sequence[Step]) -> Iterator[str]:
    """Yields the lines of each step, grouped by family."""
    family = ""
    rows = dict(zip(steps, columns([(step.name, step.summary) for step in steps], indent="  "), strict=True))
    for step, row in rows.items():
        if step.family != family:
            yield from (["", f"{step.family}:"] if family else [f"{step.family}:"])
            family = step.family
        yield row
        used = f"      {step.usage}"
        yield from textwrap.wrap(used, WIDTH, subsequent_indent=" " * 10) if step.parameters else ()


def explained(step: Step) -> Iterator[str]:
    """Yields the complete help of `step`."""
    yield from textwrap.wrap(step.usage, WIDTH, subsequent_indent=" " * 4)
    yield f"  {step.summary}"
    if step.explanation:
        yield ""
        yield from textwrap.wrap(
            step.explanation, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
    if step.parameters:
        yield ""
        widest = max(len(parameter.name) for parameter in step.parameters)
        for parameter in step.parameters:
            text = f"  {parameter.name:<{widest}}  {parameter.help} ({_kind(parameter)})"
            yield from textwrap.wrap(text, WIDTH, subsequent_indent=" " * (widest + 4), break_on_hyphens=False)
    yield ""
    yield f"  Example: {step.example}"
    yield f"  Belongs {' or '.join(step.sides)} a model."


def _kind(parameter: Parameter) -> str:
    if parameter.is_required or parameter.default is None:
        return parameter.kind.says
    return f"{parameter.kind.says}; default: {spelt(parameter.default).strip(chr(39))}"


def as_json(steps: Sequence[Step]) -> str:
    """Returns the steps as JSON."""
    keys = ("name", "family", "summary", "explanation", "example", "sides")
    found = [
        {key: getattr(step, key) for key in keys} | {"parameters": [*map(_parameter, step.parameters)]}
        for step in steps
    ]
    return json.dumps({"steps": found}, indent=2)


def _parameter(parameter: Parameter) -> dict[str, Json]:
    default = parameter.default if isinstance(parameter.default, (bool, int, float, str)) else None
    found = to_json(parameter, "name", takes="kind.says", help="help", required="is_required")
    return found | {"default": default}
