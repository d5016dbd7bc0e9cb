"""Reads the file of a script, or refuses it with the kind of file that it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing

from gdsurgeon.cli.script import Fault, ScriptLine
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.text import near_miss, shortened
from gdsurgeon.wire import sniff
from gdsurgeon.wire.source import STANDARD_INPUT, STANDARD_INPUT_NAME, open_source

FEWEST = 3
"""Minimum lines of a file that is refused if no line begins with a command."""


def read_text(path: str, hint: str) -> str:
    """Returns the text of the script PATH; ``-`` is standard input.

    Raises:
        InputError: the file cannot be read, is not text, or is a model; the error has the hint HINT.
    """
    name = printable(STANDARD_INPUT_NAME if path in STANDARD_INPUT else path)
    if path not in STANDARD_INPUT and os.path.isdir(path):
        raise InputError(f"{name} is not a script: it is a folder", hint=hint, code="is-a-folder", facts={"file": path})
    with closing(open_source(path)) as source:
        data = source.read(0, source.size)
    what = _other_than_text(data)
    if what:
        raise InputError(
            f"{name} is not a script: it is {what}", hint=hint, code="not-a-script", facts={"file": path, "found": what}
        )
    return data.decode("utf-8-sig")


def _other_than_text(data: bytes) -> str:
    """Returns what DATA is if it is not UTF-8 text or is a model as text; '' if it may be a script."""
    head = data[: sniff.HEAD]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text, but a script must be UTF-8"
    kind = sniff.kind_of_text(head)
    if kind:
        return f"a {kind} in text form"
    try:
        data.decode()
        is_text = sniff.is_text(head)
    except UnicodeDecodeError:
        is_text = False
    if is_text:
        return ""
    if sniff.is_binary_graph(data):
        return "a GraphDef"
    foreign = sniff.foreign_format(head) or sniff.container_format(data)
    return foreign.what.removesuffix(", not a GraphDef").removesuffix(", not a model") if foreign else "not UTF-8 text"


def check_names_edits(name: str, lines: Sequence[ScriptLine | Fault], commands: AbstractSet[str], hint: str) -> None:
    """Raises InputError if no line begins with one of COMMANDS, and less than half of the lines have a typo of one."""
    words = [line.words[0] for line in lines if isinstance(line, ScriptLine)]
    if len(lines) < FEWEST or not words or not commands.isdisjoint(words):
        return
    if 2 * sum(bool(near_miss(word, commands)) for word in words) >= len(words):
        return  # typos
    begins = quoted(shortened(words[0], 30))
    line = f"{printable(name)} is not a script: no line begins with a command (the first begins with {begins})"
    raise InputError(line, hint=hint, code="not-a-script", facts={"file": name})
