"""Attr values and device strings as text."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache

from gdsurgeon.errors import EditError, Json, printable, quoted
from gdsurgeon.graph.attrs import Shape, attr_value, format_shape, func_value, shape_of, shape_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import Record, parsed_nodes
from gdsurgeon.ops.dtypes import FLOAT16, FLOAT32, FLOAT64, NUMBERS, REF, dtype_name
from gdsurgeon.text import and_more, nearest, suggestion
from gdsurgeon.wire.protos import AttrValue, NameAttrList, decode_error

KINDS = ("int", "float", "bool", "type", "shape", "string", "func")
"""The kinds that can be written as text, alone or as ``list(kind)``."""

MOST_SHOWN = 12
"""The maximum number of items of a list that are shown."""
LONGEST_SHOWN = 60
"""The maximum number of characters of a string that are shown."""

_WANTED = {
    "int": "an int",
    "float": "a float",
    "bool": "a bool: true or false",
    "type": "a type such as float32 or DT_FLOAT",
    "shape": "a shape such as ?,224,3 ([] is a scalar, '...' is an unknown rank)",
    "string": "a string",
    "func": "the name of a function",
}


def is_kind(kind: str) -> bool:
    """Returns whether values of `kind` can be written as text."""
    return _item_kind(kind) in KINDS


def parse_attr(kind: str, text: str) -> AttrValue:
    """Returns the AttrValue of `kind`, as named in op signatures, that `text` describes.

    Items of a list are separated by commas, with or without brackets; ``[]`` is the empty list. Strings with commas
    are written as JSON: ``["a,b","c"]``. In a list of shapes, each shape is in brackets: ``[?,3],[]``.

    Raises:
        EditError: `text` is not of that kind; the message says what is expected.
    """
    item = _item_kind(kind)
    if item not in KINDS:
        raise EditError(f"a {kind} cannot be written as text", code="not-text", expected=kind)
    field, parse = _PARSERS[item]
    if item == kind:
        return AttrValue(**{field: parse(text.strip() if item != "string" else text)})
    value = AttrValue()
    value.list.SetInParent()
    getattr(value.list, field).extend(map(parse, _items(item, text)))
    return value


def _item_kind(kind: str) -> str:
    return kind[5:-1] if kind.startswith("list(") and kind.endswith(")") else kind


def _items(kind: str, text: str) -> list[str]:
    """Returns the items of a list, as text."""
    stripped = text.strip()
    if stripped in ("[]", "[ ]"):
        return []
    if kind == "string" and stripped.startswith('["'):
        return _json_strings(stripped)
    if kind == "shape":
        return _shapes(stripped)
    inner = stripped[1:-1] if stripped.startswith("[") and stripped.endswith("]") else stripped
    if not inner.strip():
        raise _refusal(f"list({kind})", text, f"is not a list of {kind}s (write [] for an empty list)")
    return [part.strip() for part in inner.split(",")]


def _json_strings(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _refusal("list(string)", text, f"is not a JSON list of strings: {error}") from error
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise _refusal("list(string)", text, "is not a JSON list of strings")
    return found


_SHAPE = re.compile(r"\[[^\[\]]*\]")
_SHAPES = re.compile(r"\[[^\[\]]*\](\s*,\s*\[[^\[\]]*\])*")


def _shapes(text: str) -> list[str]:
    inner = text[1:-1].strip() if text.startswith("[[") and text.endswith("]]") else text
    if not _SHAPES.fullmatch(inner):
        raise _refusal("list(shape)", text, "is not a list of shapes such as [?,224,3],[]")
    return _SHAPE.findall(inner)


def _wrong(kind: str, text: str, more: str = "", **facts: Json) -> EditError:
    return _refusal(kind, text, f"is not {_WANTED[kind]}{more}", **facts)


def _refusal(kind: str, text: str, why: str, **facts: Json) -> EditError:
    return EditError(f"{quoted(text)} {why}", code="bad-value", facts={"value": text, "expected": kind, **facts})


def _int(text: str) -> int:
    if not re.fullmatch(r"[+-]?([0-9]+|0[xX][0-9a-fA-F]+)", text):
        raise _wrong("int", text)
    number = int(text, 16 if "x" in text.lower() else 10) if len(text) <= 30 else 1 << 64
    if not -(1 << 63) <= number < 1 << 63:
        raise _wrong("int", text, " of 64 bits", bits=64)
    return number


def _float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _wrong("float", text) from None
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise _wrong("float", text, " of 32 bits", bits=32) from None
    return number


_BOOLS = {"true": True, "false": False, "1": True, "0": False}


def _bool(text: str) -> bool:
    if text.lower() not in _BOOLS:
        raise _wrong("bool", text)
    return _BOOLS[text.lower()]


@cache
def _types() -> Mapping[str, int]:
    """Returns DataTypes by lowercase name, in Python (``float32``, ``float32_ref``) and protobuf (``dt_float``)."""
    enum = AttrValue.DESCRIPTOR.fields_by_name["type"].enum_type
    assert enum is not None
    out = {value.name.lower(): value.number for value in enum.values if value.number}
    out |= {"float": FLOAT32, "double": FLOAT64, "half": FLOAT16}
    for name, number in NUMBERS.items():
        out[name] = number
        out[f"{name}_ref"] = number + REF
    return out


def _type(text: str) -> int:
    number = _types().get(text.lower())
    if number is None:
        near = nearest(text.lower(), _types())
        raise _wrong("type", text, f".{suggestion(near)}".rstrip("."), near=near)
    return number


def parse_shape(text: str) -> Shape:
    """Parses a shape: ``?,224,3`` with or without brackets, ``[]`` for a scalar, ``...`` for an unknown rank.

    An unknown dimension is ``?``, ``-1`` or ``None``.

    Raises:
        EditError: `text` is not a shape.
    """
    stripped = text.strip()
    bracketed = stripped.startswith("[") and stripped.endswith("]") and len(stripped) > 1
    inner = stripped[1:-1].strip() if bracketed else stripped
    if inner == "...":
        return None
    if not inner:
        if bracketed:
            return ()
        raise _wrong("shape", text)
    dims: list[int] = []
    for dim in (part.strip() for part in inner.split(",")):
        if dim in ("?", "-1", "None"):
            dims.append(-1)
        elif re.fullmatch(r"[0-9]{1,18}", dim):
            dims.append(int(dim))
        else:
            raise _wrong("shape", text)
    return tuple(dims)


def _func(text: str) -> NameAttrList:
    if not text:
        raise _wrong("func", text)
    return func_value(text).func


_PARSERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "int": ("i", _int),
    "float": ("f", _float),
    "bool": ("b", _bool),
    "type": ("type", _type),
    "shape": ("shape", lambda text: shape_value(parse_shape(text)).shape),
    "string": ("s", lambda text: text.encode("utf-8", "surrogateescape")),
    "func": ("func", _func),
}
"""For each kind, the field of an AttrValue and the function that parses its value."""


def format_attr(value: AttrValue) -> str:
    """Formats an AttrValue for a message, in the syntax of `parse_attr`; long values are shortened."""
    which = value.WhichOneof("value")
    if which is None:
        return "nothing"
    if which != "list":
        return _format(which)(getattr(value, which))
    for field, items in value.list.ListFields():
        shown = [_format(field.name)(item) for item in items[:MOST_SHOWN]]
        return f"[{','.join(shown)}{and_more(len(items) - MOST_SHOWN)}]"
    return "[]"


def format_attr_bytes(data: bytes) -> str:
    """Formats a serialized AttrValue like `format_attr`; a corrupt one as its size in bytes."""
    try:
        return format_attr(attr_value(data))
    except decode_error():
        return f"{len(data):,} bytes"


def format_float(number: float, code: str = "<f") -> str:
    """Returns the shortest text that parses to the same float; `code` is its format, by default 32 bits."""
    for digits in range(1, 10) if math.isfinite(number) else ():
        text = f"{number:.{digits}g}"
        with suppress(OverflowError):
            if struct.pack(code, float(text)) == struct.pack(code, number):
                return text
    return str(number)


def format_element(element: int | float | complex | bool | bytes) -> str:
    """Formats an element: a number as written in a command, a string in quotes, shortened if it is long."""
    if isinstance(element, bytes):
        return format_string(element)
    if isinstance(element, bool):
        return "true" if element else "false"
    if isinstance(element, complex):
        return str(element).strip("()")
    return repr(element).removesuffix(".0")


def format_string(data: bytes) -> str:
    """Formats a string in quotes, shortened if it is long; data that is not UTF-8 as its size in bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{len(data):,} bytes"
    if len(text) > LONGEST_SHOWN:
        return f"'{printable(text[:LONGEST_SHOWN])}...'"
    return quoted(text)


def _format(field: str) -> Callable[..., str]:
    """Returns the function that formats the value of the field `field` of an AttrValue."""
    return _FORMATS.get(field, lambda _: f"a {field}")


_FORMATS: dict[str, Callable[..., str]] = {
    "s": format_string,
    "i": str,
    "f": format_float,
    "b": lambda item: "true" if item else "false",
    "type": dtype_name,
    "shape": lambda item: format_shape(shape_of(item)),
    "func": lambda item: quoted(item.name),
}


Device = Mapping[str, str]
"""The parts that a device string states: ``job``, ``replica``, ``task``, ``type`` and ``id``."""

USUAL_TYPES = frozenset(("CPU", "GPU", "TPU"))

_PART = re.compile(
    r"/job:(?P<job>[A-Za-z][A-Za-z0-9_]*|\*)"
    r"|/replica:(?P<replica>[0-9]{1,9}|\*)"
    r"|/task:(?P<task>[0-9]{1,9}|\*)"
    r"|/device:(?P<type>[A-Za-z][A-Za-z0-9_]*|\*)(?::(?P<id>[0-9]{1,9}|\*))?"
    r"|/(?P<short>(?i:cpu|gpu|tpu))(?::(?P<short_id>[0-9]{1,9}|\*))?"
)


def parse_device(text: str) -> Device | None:
    """Returns the parts of a device string, with ``/gpu:0`` equal to ``/device:GPU:0``; None if it is invalid.

    A part ``*`` counts as not stated. The grammar is that of TensorFlow's device_name_utils.cc.
    """
    out: dict[str, str] = {}
    pos = 0
    while pos < len(text):
        match = _PART.match(text, pos)
        if match is None or (match.end() < len(text) and text[match.end()] != "/"):
            return None
        for part, value in match.groupdict().items():
            if value is not None and value != "*":
                _put(out, part, value)
        pos = match.end()
    return out if out else None


def _put(out: dict[str, str], part: str, value: str) -> None:
    part = {"short": "type", "short_id": "id"}.get(part, part)
    if part == "type":
        out[part] = value.upper() if value.upper() in USUAL_TYPES else value
    else:
        out[part] = value if part == "job" else str(int(value))


def format_device(device: Device) -> str:
    """Returns the device string in its full spelling: ``/job:worker/task:0/device:GPU:0``."""
    out = "".join(f"/{part}:{device[part]}" for part in ("job", "replica", "task") if part in device)
    if "type" in device or "id" in device:
        out += f"/device:{device.get('type', '*')}:{device.get('id', '*')}"
    return out


def placed_nodes(graph: Graph) -> Iterator[Node]:
    """Yields the nodes of `graph` that have a device, without nodes of functions; one pass over the file."""
    touched, removed = set(graph.touched()), graph.removed()
    for item in parsed_nodes(graph.source):
        header = item.header() if isinstance(item, Record) else item
        if header.device and header.name not in removed and (node := graph.base_node(header.name)) not in touched:
            yield node
    yield from (node for node in graph.touched() if node.device)
