"""freeze-input: inputs are constants with the requested values, and nothing else is different."""

from __future__ import annotations

import ast
import json
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import cast

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.surroundings import Surroundings
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.specification.sharing import unread
from gdsurgeon.specification.surroundings import Expected


def violations(comparison: Comparison, values: Sequence[tuple[str, object]]) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    intent = Intent()
    for name, value in values:
        name = name.removesuffix(":0")
        old, new = before[name], after[name]
        intent.alter(name, {"op": "Const", "inputs": (), "attr shape": None, "attr _output_shapes": None})
        intent.alter(name, {"attr dtype": type_value(old.output.dtype), "attr value": new.attr_bytes("value")})
        found = constant(new)
        if found is not None and not _is(found, value):
            yield f"{quoted(name)} should be {str(value)[:60]}, but is {str(found.values)[:60]}"
    intent.removed = list(unread(before, [name.removesuffix(":0") for name, _ in values]))
    yield from audit(comparison, intent)


def around(expected: Expected, found: Surroundings, values: Sequence[tuple[str, object]]) -> Iterator[str]:
    """Removes the inputs that are constants now from the expected signatures."""
    del found
    names = {f"{name.removesuffix(':0')}:0" for name, _ in values}
    for place, value in list(expected.values.items()):
        if place[0] == "signature" and place[2] == "input" and place[-1] == "tensor" and value in names:
            _, key, _, label, _ = place
            expected.drop(place[:4], ("signature", key, "default", label))
    yield from ()


def _is(found: Constant, value: object) -> bool:
    """Returns whether a constant has a value. One number also means a tensor of this element with dimensions of 1."""
    if isinstance(value, str) and [_equal(value, item) for item in found.values if isinstance(item, bytes)] == [True]:
        return True  # text, even if it looks like a number
    listed = getattr(value, "tolist", None)
    items: list[object] = []
    _flatten(listed() if listed is not None else value if not isinstance(value, str) else _parsed(value), items)
    return len(items) == len(found.values) and all(map(_equal, items, found.values))


def _parsed(text: str) -> object:
    spelt = re.sub(r"\b(true|false)\b", lambda word: word[0].title(), text.strip(), flags=re.IGNORECASE)
    spelt = re.sub(r"\b(nan|inf)(inity)?\b", lambda word: f"'{word[0]}'", spelt, flags=re.IGNORECASE)
    for parse in (json.loads, ast.literal_eval):  # JSON accepts text that is not UTF-8, literal_eval accepts tuples
        with suppress(ValueError, SyntaxError):
            return cast("object", parse(spelt))
    return text


def _flatten(value: object, out: list[object]) -> None:
    if isinstance(value, (list, tuple)):
        for item in value:
            _flatten(item, out)
    else:
        out.append(value)


def _equal(wanted: object, found: object) -> bool:
    if isinstance(found, bytes):
        return wanted == found or str(wanted) == found.decode("utf-8", "surrogateescape")
    if isinstance(wanted, str):
        try:
            wanted = float(wanted)
        except ValueError:
            return True  # an unknown spelling
    if isinstance(found, float) and isinstance(wanted, (int, float)):
        near = abs(found - wanted) <= 2**-7 * abs(wanted)  # the precision of the coarsest floating-point dtype
        return near or struct.pack("<d", found) == struct.pack("<d", wanted) or found != found
    return wanted == found
