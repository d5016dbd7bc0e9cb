"""set-attr: each selected node has the given op and attrs, and nothing else is different."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import dtype_name
from gdsurgeon.specification.selected import Selecting, selected
from gdsurgeon.text import spelt_value
from gdsurgeon.wire.protos import AttrValue, TensorShapeProto


def violations(
    comparison: Comparison,
    nodes: Selecting | Iterable[str],
    values: Iterable[tuple[str, object]] = (),
    remove: Sequence[str] = (),
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    names = selected(comparison.before, nodes)
    given = {key: spelt_value(value) for key, value in values}
    if "op" in given:
        yield from _of_new_op(comparison, names, given.pop("op"), given)
        return
    texts = {name.partition(":")[0]: text for name, text in given.items()}
    intent = Intent()
    for name in names:
        node = comparison.after[name]
        intent.alter(name, {f"attr {key}": node.attr_bytes(key) for key in texts})
        intent.alter(name, dict.fromkeys(f"attr {key}" for key in remove if key != "_class"))
        yield from _wrong(node, texts)
        if "_class" in remove:
            altered = comparison.facts.altered.get(name, {})
            intent.alter(name, {"colocated": (), **({"class": ()} if "class" in altered else {})})
    yield from audit(comparison, intent)


def _of_new_op(comparison: Comparison, names: Iterable[str], op: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yields the violations if the nodes `names` get the op `op`, with `texts` for its attrs."""
    before, after = comparison.before, comparison.after
    definition = after.op_def(op)
    args = () if definition is None else definition.inputs
    follow = {key for arg in args for key in (arg.type_attr, arg.number_attr, arg.list_attr)}  # from the inputs
    intent = Intent()
    for name in names:
        old, new = before[name], after[name]
        is_new = old.op != op
        if not is_new and not texts:
            continue
        intent.alter(name, {"op": op})
        for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
            is_known = definition is not None and key in definition.attrs
            if is_known or (is_new and (not key.startswith("_") or key == "_output_shapes")):
                intent.alter(name, {f"attr {key}": new.attr_bytes(key) if is_known else None})
            was, now = old.attr_bytes(key), new.attr_bytes(key)
            if is_known and was is not None and key not in texts and was != now and key not in follow:
                yield f"the attr {key} of {quoted(name)} was changed"
        yield from _wrong(new, texts)
    yield from audit(comparison, intent)


def _wrong(node: Node, texts: Mapping[str, str]) -> Iterator[str]:
    for key, text in texts.items():
        data = node.attr_bytes(key)
        if data is None or not spells(text, attr_value(data)):
            yield f"{quoted(node.name)} should have {key} = {text}, but does not"


def spells(text: str, value: AttrValue) -> bool:
    """Returns whether `text`, as a user writes it, means `value`."""
    kind = value.WhichOneof("value")
    if kind != "list":
        return kind is not None and _is(text if kind == "s" else text.strip(), kind, getattr(value, kind))
    fields = value.list.ListFields()
    if not fields:
        return text.strip() in ("[]", "[ ]")
    field, items = fields[0][0].name, list(fields[0][1])
    return len(fields) == 1 and any(
        len(parts) == len(items) and all(_is(part, field, item) for part, item in zip(parts, items, strict=True))
        for parts in _parts(text.strip())
    )


def _parts(text: str) -> Iterator[list[str]]:
    """Yields the ways to parse a list."""
    if text.startswith('["'):
        yield json.loads(text)
    yield re.findall(r"\[[^\[\]]*\]", text)
    yield [part.strip() for part in text.removeprefix("[").removesuffix("]").split(",")]


def _is(text: str, kind: str, value: object) -> bool:
    return kind in _READERS and _READERS[kind](text, value)


def _is_shape(text: str, value: object) -> bool:
    assert hasattr(value, "dim")
    shape: TensorShapeProto = value  # type: ignore[assignment]
    dims = [-1 if dim.strip() in ("?", "None") else dim.strip() for dim in text.strip().strip("[]").split(",")]
    if dims == ["..."]:
        return shape.unknown_rank
    return not shape.unknown_rank and [dim.size for dim in shape.dim] == [int(dim) for dim in dims if dim != ""]


_READERS: dict[str, Callable[[str, object], bool]] = {
    "i": lambda text, value: value == int(text, 0 if "x" in text.lower() else 10),
    "f": lambda text, value: struct.pack("<f", float(text)) == struct.pack("<f", float(str(value))),
    "b": lambda text, value: value == (text.lower() in ("true", "1")),
    "s": lambda text, value: value == text.encode("utf-8", "surrogateescape"),
    "type": lambda text, value: _dtype(text) in (dtype_name(int(str(value))), f"{value}"),
    "shape": _is_shape,
    "func": lambda text, value: getattr(value, "name", None) == text,
}


def _dtype(text: str) -> str:
    name = text.lower().removeprefix("dt_")
    return {"float": "float32", "double": "float64", "half": "float16"}.get(name, name)
