"""What is different about two nodes that are partners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.analysis.queries.attr_text import format_attr_bytes
from gdsurgeon.analysis.shapes.arithmetic import typed
from gdsurgeon.compare.matching import FREE, Matching
from gdsurgeon.compare.side import Form
from gdsurgeon.graph.names import format_input
from gdsurgeon.ops.op_defs import op_def

OP, DTYPE, SHAPE, ATTR, DEVICE, FUNCTION, INPUT, CONTROL = (
    "op", "dtype", "shape", "attr", "device", "function", "input", "control",
)  # fmt: skip
"""What may be different of a node, a constant's value aside."""
WIRING = frozenset((INPUT, CONTROL))

ABSENT = "nothing"
"""In the place of what one of both has not."""


class Detail(NamedTuple):
    """Something that is different: WHAT, which (the key of an attr, the number of an input), before and after.

    NOW is what BEFORE is called now, of an input that has the name AFTER as well; '' otherwise.
    """

    what: str
    key: str
    before: str
    after: str
    now: str = ""


class Change(NamedTuple):
    """Partners, A's `i` and B's `j`, and all that is different about them, names and a constant's value aside."""

    i: int
    j: int
    details: tuple[Detail, ...]

    @property
    def is_rewired_only(self) -> bool:
        """Whether nothing but what it reads is different."""
        return all(detail.what in WIRING for detail in self.details)


Called = Mapping[str, str]
"""Which function of B each function of A has become."""


def changes(matching: Matching, called: Called) -> Iterator[Change]:
    """The partners that differ in more than names and values."""
    for i, j in matching.pairs():
        one, other = matching.a.forms[i], matching.b.forms[j]
        details = [*_form(one, other, called)] if one is not other or one.functions else []
        details += _inputs(matching, i, j)
        details += _controls(matching, i, j)
        if details:
            yield Change(i, j, tuple(details))


def _form(one: Form, other: Form, called: Called) -> Iterator[Detail]:
    if called.get(one.op, one.op) != other.op:
        yield Detail(OP, "", one.op, other.op)
    if one.tensor != other.tensor:
        before, after = (typed(*form.tensor) if form.tensor else ABSENT for form in (one, other))
        is_shape = one.tensor and other.tensor and one.tensor.dtype == other.tensor.dtype
        yield Detail(SHAPE if is_shape else DTYPE, "value", before, after)
    if one.device != other.device:
        yield Detail(DEVICE, "", one.device or ABSENT, other.device or ABSENT)
    for key in sorted({*one.attrs, *other.attrs}):
        if one.attrs.get(key) != other.attrs.get(key) and _knows(one, key) and _knows(other, key):
            before, after = _text(one, key), _text(other, key)
            if before != after:
                yield Detail(_kind(key), key, before, after)
    for key in sorted({*one.functions, *other.functions}):
        names, others = one.functions.get(key, ()), other.functions.get(key, ())
        if [called.get(name, name) for name in names] != list(others):
            yield Detail(FUNCTION, key, ", ".join(names) or ABSENT, ", ".join(others) or ABSENT)


def _kind(key: str) -> str:
    return {"dtype": DTYPE, "shape": SHAPE}.get(key, ATTR)


def _knows(form: Form, key: str) -> bool:
    """Whether the op of FORM has such an attr: another version of an op may lack it, and that is no change."""
    definition = op_def(form.op)
    return key in form.attrs or definition is None or key in definition.attrs


def _text(form: Form, key: str) -> str:
    """The attr KEY of FORM as text; its default where it has none."""
    data = form.attrs.get(key)
    if data is None:
        definition = op_def(form.op)
        attr = definition.attrs.get(key) if definition is not None else None
        return _default(attr.default) if attr is not None and attr.has_default else ABSENT
    return format_attr_bytes(data)


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    return ABSENT if value is None else str(value).replace(" ", "")


def _inputs(matching: Matching, i: int, j: int) -> Iterator[Detail]:
    """The data inputs that differ, as the files spell them."""
    a, b, mates = matching.a, matching.b, matching.mates
    written, others = a.written[i], b.written[j]
    for slot in range(max(len(written), len(others))):
        read = written[slot] if slot < len(written) else None
        other = others[slot] if slot < len(others) else None
        now = ""
        if read is not None and other is not None:
            u, v = a.passed.get(read[0], read[0]), b.passed.get(other[0], other[0])
            if (mates[u] == v or _are_equal_constants(matching, u, v)) and read[1] == other[1]:
                continue
            now = b.names[mates[read[0]]] if mates[read[0]] != FREE else ""
        before = format_input(a.names[read[0]], read[1]) if read is not None else ABSENT
        after = format_input(b.names[other[0]], other[1]) if other is not None else ABSENT
        if before != after:
            yield Detail(INPUT, str(slot), before, after)
        elif read is not None and now not in ("", a.names[read[0]]):  # otherwise that node is reported itself
            yield Detail(INPUT, str(slot), before, after, format_input(now, read[1]))


def _are_equal_constants(matching: Matching, u: int, v: int) -> bool:
    a, b = matching.a, matching.b
    return a.forms[u].op == b.forms[v].op == "Const" and a.content[u] == b.content[v]


def _controls(matching: Matching, i: int, j: int) -> Iterator[Detail]:
    a, b, mates = matching.a, matching.b, matching.mates
    if not a.controls[i] and not b.controls[j]:
        return
    others = set(b.controls[j])
    kept = {mates[u] for u in a.controls[i]} & others
    gone = {a.names[u]: mates[u] for u in a.controls[i] if mates[u] not in kept}
    new = {b.names[v] for v in others - kept}
    both = gone.keys() & new
    if gone.keys() != new:
        yield Detail(CONTROL, "", *(", ".join(sorted(names - both)) or ABSENT for names in (gone.keys(), new)))
    for name in sorted(both):
        if gone[name] != FREE:
            yield Detail(CONTROL, "", name, name, b.names[gone[name]])
