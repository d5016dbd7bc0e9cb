"""The differences of two nodes that are partners, and of inputs, outputs and signatures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from gdsurgeon.analysis.queries.attr_text import format_attr_bytes
from gdsurgeon.analysis.queries.signature import TensorInfo, input_nodes, output_nodes, tensor_info
from gdsurgeon.analysis.shapes.arithmetic import typed
from gdsurgeon.compare.matching import FREE, Matching
from gdsurgeon.compare.side import Form
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.op_defs import op_def

OP, DTYPE, SHAPE, ATTR, DEVICE, FUNCTION, INPUT, CONTROL = (
    "op", "dtype", "shape", "attr", "device", "function", "input", "control",
)  # fmt: skip
"""The properties of a node that may differ, except the value of a constant."""
WIRING = frozenset((INPUT, CONTROL))

ABSENT = "nothing"
"""The text for a missing value."""


class Detail(NamedTuple):
    """A difference of a property, for example `what` ``attr`` and `key` ``padding``, or ``input`` and ``0``.

    `now` is the present name of `before`, for an input with the same text before and after; otherwise ''.
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
        """Whether only its inputs differ."""
        return all(detail.what in WIRING for detail in self.details)


Called = Mapping[str, str]
"""Which function of B each function of A has become."""


def changes(matching: Matching, called: Called) -> Iterator[Change]:
    """Yields the changes of matched nodes that differ in more than names and values."""
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
                yield Detail({"dtype": DTYPE, "shape": SHAPE}.get(key, ATTR), key, before, after)
    for key in sorted({*one.functions, *other.functions}):
        names, others = one.functions.get(key, ()), other.functions.get(key, ())
        if [called.get(name, name) for name in names] != list(others):
            yield Detail(FUNCTION, key, ", ".join(names) or ABSENT, ", ".join(others) or ABSENT)


def _knows(form: Form, key: str) -> bool:
    """Returns whether the op has this attr: a different version of an op may lack it, which is not a change."""
    definition = op_def(form.op)
    return key in form.attrs or definition is None or key in definition.attrs


def _text(form: Form, key: str) -> str:
    """Returns an attr as text, or its default value."""
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
    """Yields the data inputs that differ, with their names in the files."""
    a, b, mates = matching.a, matching.b, matching.mates
    for slot, (read, other) in enumerate(zip_longest(a.written[i], b.written[j])):
        now = ""
        if read is not None and other is not None:
            u, v = a.passed.get(read[0], read[0]), b.passed.get(other[0], other[0])
            are_equal = a.forms[u].op == b.forms[v].op == "Const" and a.content[u] == b.content[v]
            if (mates[u] == v or are_equal) and read[1] == other[1]:
                continue
            now = b.names[mates[read[0]]] if mates[read[0]] != FREE else ""
        before = format_input(a.names[read[0]], read[1]) if read is not None else ABSENT
        after = format_input(b.names[other[0]], other[1]) if other is not None else ABSENT
        if before != after:
            yield Detail(INPUT, str(slot), before, after)
        elif read is not None and now not in ("", a.names[read[0]]):  # otherwise that node is reported itself
            yield Detail(INPUT, str(slot), before, after, format_input(now, read[1]))


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


OUTPUT = "output"


class EndChange(NamedTuple):
    """An input or an output that differs: before (None if it is new) and after (None if it was removed)."""

    side: str
    before: TensorInfo | None
    after: TensorInfo | None


class SignatureChange(NamedTuple):
    """A difference of a signature (`side` and `name` are ''), or of one of its tensors.

    `before` and `after` are tensors, or '' if missing; for a whole signature its key, or ''.
    """

    key: str
    side: str
    name: str
    before: str
    after: str


def end_changes(matching: Matching) -> Iterator[EndChange]:
    """Yields the inputs and outputs that were added, removed, or changed in name, dtype or declared shape."""
    for side, nodes in ((INPUT, input_nodes), (OUTPUT, output_nodes)):
        yield from _ends(matching, side, nodes(matching.a.graph), nodes(matching.b.graph))


def _ends(matching: Matching, side: str, before: Iterable[Node], after: Iterable[Node]) -> Iterator[EndChange]:
    a, b = matching.a, matching.b
    left = {b.graph.store.table.rows[node.name]: node for node in after}
    for node in before:
        other = left.pop(matching.mates[a.graph.store.table.rows[node.name]], None)
        for was, now in zip_longest(_infos(side, node), _infos(side, other)):
            if was is None or now is None or was._replace(op="") != now._replace(op=""):
                yield EndChange(side, was, now)
    for node in left.values():
        yield from (EndChange(side, None, info) for info in _infos(side, node))


def _infos(side: str, node: Node | None) -> list[TensorInfo]:
    if node is None:
        return []
    outputs = [Output(node, 0)] if side == INPUT else node.outputs
    return [tensor_info(output) for output in outputs]


def signature_changes(matching: Matching) -> Iterator[SignatureChange]:
    """Yields the differences of the called signatures, including tensors that belong to a different node now."""
    servings = matching.a.graph.serving, matching.b.graph.serving
    before, after = (serving.called if serving is not None else {} for serving in servings)
    rows, others = (side.graph.store.table.rows for side in (matching.a, matching.b))

    def is_same(one: str, other: str) -> bool:
        was, now = parse_tensor(one), parse_tensor(other)
        row = rows.get(was.node)
        return row is not None and was.port == now.port and matching.mates[row] == others.get(now.node)

    for key in sorted({*before, *after}):
        if key not in before or key not in after:
            yield SignatureChange(key, "", "", key if key in before else "", key if key in after else "")
            continue
        for side in (INPUT, OUTPUT):
            was, now = (getattr(served, f"{side}s") for served in (before[key], after[key]))
            for name in sorted({*was, *now}):
                if name not in was or name not in now or not is_same(was[name], now[name]):
                    yield SignatureChange(key, side, name, was.get(name, ""), now.get(name, ""))
