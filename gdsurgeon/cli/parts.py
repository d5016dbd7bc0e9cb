"""The second graph of a command, and the pairs of names that connect it with the model."""

from __future__ import annotations

import os

from gdsurgeon.analysis.checks.check import require_sound
from gdsurgeon.cli.options import pair
from gdsurgeon.container.load import load, reads_of
from gdsurgeon.edits.parts import Mapped
from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Request


def load_part(path: str, request: Request) -> Graph:
    """The graph at PATH, checked according to REQUEST, to which the path is added.

    Raises:
        InputError: the graph cannot be read, or is not sound.
        UsageError: both graphs would come from standard input.
    """
    if path == "-" and request.model == "-":
        raise UsageError("only one of the graphs can be read from standard input", code="conflicting-options")
    request.others += (path,)
    reads = map(os.path.abspath, reads_of(path))
    request.settings = request.settings._replace(reads=(*request.settings.reads, *reads))
    part = load(path)
    if request.level != "none":
        require_sound(part)
    return part


def mappings(texts: tuple[str, ...], option: str = "--map") -> list[Mapped]:
    """Splits texts ``NAME=RAW,RESULT``. Raises UsageError: a text has a different form."""
    out: list[Mapped] = []
    for text in texts:
        name, ends = pair(text, option, form="NAME=RAW,RESULT")
        raw, comma, result = ends.partition(",")
        if not comma or not raw or not result:
            raise UsageError(
                f"{option} {quoted(text)} is not NAME=RAW,RESULT",
                code="not-a-pair",
                facts={"option": option, "value": text},
            )
        out.append(Mapped(name.removesuffix(":0"), raw, result))
    return out
