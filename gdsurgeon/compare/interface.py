"""What two graphs take and give: inputs, outputs, and signatures, by which node became which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import TensorInfo, input_nodes, output_nodes, tensor_info
from gdsurgeon.compare.matching import Matching
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import Served

INPUT, OUTPUT = "input", "output"


class EndChange(NamedTuple):
    """An input or an output that differs: before (None if it is new) and after (None if it was removed)."""

    side: str
    before: TensorInfo | None
    after: TensorInfo | None


class SignatureChange(NamedTuple):
    """What differs of a signature: of all of it (SIDE and NAME are ''), or of one tensor that callers give or get.

    `before` and `after` are tensors, or '' if missing; for a whole signature its key, or ''.
    """

    key: str
    side: str
    name: str
    before: str
    after: str


def end_changes(matching: Matching) -> Iterator[EndChange]:
    """The inputs and outputs that differ in name, dtype or stated shape, those that came and those that went."""
    for side, nodes in ((INPUT, input_nodes), (OUTPUT, output_nodes)):
        yield from _ends(matching, side, nodes(matching.a.graph), nodes(matching.b.graph))


def _ends(matching: Matching, side: str, before: Iterable[Node], after: Iterable[Node]) -> Iterator[EndChange]:
    a, b = matching.a, matching.b
    left = {b.graph.store.table.rows[node.name]: node for node in after}
    for node in before:
        row = a.graph.store.table.rows[node.name]
        other = left.pop(matching.mates[row], None)
        infos, others = _infos(side, node), _infos(side, other)
        for place in range(max(len(infos), len(others))):
            was = infos[place] if place < len(infos) else None
            now = others[place] if place < len(others) else None
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
    one, other = matching.a.graph.serving, matching.b.graph.serving
    before = one.called if one is not None else {}
    after = other.called if other is not None else {}
    is_same = _same_tensor(matching)
    for key in sorted({*before, *after}):
        if key not in before or key not in after:
            yield SignatureChange(key, "", "", key if key in before else "", key if key in after else "")
            continue
        for side, was, now in _sides(before[key], after[key]):
            for name in sorted({*was, *now}):
                if name not in was or name not in now or not is_same(was[name], now[name]):
                    yield SignatureChange(key, side, name, was.get(name, ""), now.get(name, ""))


def _sides(one: Served, other: Served) -> Iterator[tuple[str, Mapping[str, str], Mapping[str, str]]]:
    yield INPUT, one.inputs, other.inputs
    yield OUTPUT, one.outputs, other.outputs


def _same_tensor(matching: Matching) -> Callable[[str, str], bool]:
    rows, others = (side.graph.store.table.rows for side in (matching.a, matching.b))

    def is_same(one: str, other: str) -> bool:
        was, now = parse_tensor(one), parse_tensor(other)
        row = rows.get(was.node)
        return row is not None and was.port == now.port and matching.mates[row] == others.get(now.node)

    return is_same
