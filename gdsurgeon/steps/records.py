"""Steps that take records apart: lines of CSV, and tf.Examples."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gdsurgeon.graph.attrs import Shape, format_shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64, INT32, INT64, NUMBERS, STRING, DType
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.kinds import TEXT, WHOLES, Kind, whole
from gdsurgeon.steps.parse import Literal
from gdsurgeon.steps.step import FRONT, Arguments, Parameter, Raw, spelt, step
from gdsurgeon.steps.value import Unfit, Value
from gdsurgeon.text import listed, near_miss

MOST_COLUMNS = 10_000
MOST_DEFAULTS = 1 << 20
"""Values that stand for a feature which is missing."""


def _type_of(*dtypes: DType) -> Kind:
    """One of DTYPES."""
    names = [dtype.name for dtype in dtypes]

    def read(literal: Literal) -> DType:
        if not isinstance(literal, str) or literal not in names:
            raise ValueError(near_miss(literal, names) if isinstance(literal, str) else "")
        return NUMBERS[literal]

    return Kind(f"one of {listed(names, len(names))}", read)


def _default(literal: Literal) -> tuple[Literal, ...]:
    items = literal if isinstance(literal, list) else [literal]
    if not items or any(isinstance(item, (list, bool)) for item in items):
        raise ValueError
    return tuple(items)


def _delimiter(literal: Literal) -> str:
    if literal == "tab":
        return "\t"
    text = str(literal) if isinstance(literal, (str, int)) and not isinstance(literal, bool) else ""
    if len(text) != 1 or not text.isascii() or text in '"\r\n':
        raise ValueError
    return text


def _keys(literal: Literal) -> tuple[str, ...]:
    items = literal if isinstance(literal, list) else [literal]
    keys = tuple(item for item in items if isinstance(item, str) and item)
    if not items or len(keys) != len(items) or len(set(keys)) != len(keys):
        raise ValueError
    return keys


_DEFAULT = Kind("a number or a text, or a list of them", _default)


def _defaults(build: Builder, dtype: DType, items: Sequence[Literal], shape: tuple[int, ...]) -> Output:
    """A constant of ITEMS. Raises Unfit: one is not of DTYPE."""
    values: list[object] = [
        str(item).encode() if dtype == STRING else float(item) if dtype.is_float and isinstance(item, int) else item
        for item in items
    ]
    try:
        return build.constant(dtype, values, shape)
    except Unfit:
        told = spelt(items[0] if len(set(map(str, items))) == 1 else list(items))
        raise Unfit(f"default {told} is not {dtype.name}") from None


def _lines_in(raw: Raw, arguments: Arguments) -> Raw:
    return Raw(STRING, raw.shape[:-1] if raw.shape else (-1,))


@step(
    "decode-csv",
    "Split lines of CSV: their fields become the last dimension.",
    Parameter("columns", whole(1, MOST_COLUMNS), "the number of fields in each line"),
    Parameter("type", _type_of(FLOAT32, FLOAT64, INT32, INT64, STRING), "the dtype of the selected fields", FLOAT32),
    Parameter("select", WHOLES, "the fields to select, counted from 0, in this order; by default all", None),
    Parameter("default", _DEFAULT, "the value of an empty field: one for all, or one for each selected field", None),
    Parameter("delimiter", Kind("one character, or tab", _delimiter), "the character between fields", ","),
    Parameter("na", TEXT, "a text that also means an empty field, such as NA", None),
    sides=(FRONT,),
    example="decode-csv(4) | normalize(mean=[5.8, 3.1, 3.8, 1.2], std=[0.8, 0.4, 1.8, 0.8])",
    explanation="As in RFC 4180, fields that contain the delimiter are in double quotes. A line is one "
    "string; the input has one string for each row of the model's input. A line with more or "
    "fewer fields fails when the model runs, and so does an empty field without a default. A "
    "line feed at the end is not part of a line. Numbers are rounded to the nearest value of the "
    "dtype.",
    takes=_lines_in,
)
def decode_csv(
    build: Builder,
    value: Value,
    *,
    columns: int,
    type: DType,
    select: tuple[int, ...] | None,
    default: tuple[Literal, ...] | None,
    delimiter: str,
    na: str | None,
) -> Value:
    if value.dtype != STRING:
        raise Unfit(f"splits lines, got {value.told}")
    taken = range(columns) if select is None else select
    if not taken or not all(0 <= place < columns for place in taken):
        raise Unfit(f"select requires fields from 0 to {columns - 1}")
    if default is not None and len(default) not in (1, len(taken)):
        raise Unfit(f"default must be one for all fields, or one for each of {len(taken)}, but has {len(default)}")
    if na and default is None:
        raise Unfit("na requires a default")
    text = build.add("StaticRegexReplace", value.tensor, pattern=r"[\r\n]+$", rewrite="")
    given = [_field_default(build, type, default, place) for place in range(len(default or (0,)))]
    unread = build.constant(STRING, [b""]) if len(set(taken)) < columns else text
    fields = [unread] * columns
    for place, field in enumerate(taken):
        fields[field] = given[place if len(given) > 1 else 0]
    node = build.node("DecodeCSV", [text, *fields], {"field_delim": delimiter, "na_value": na or ""})
    parsed = node.outputs
    tensor = build.add("Pack", *(parsed[field] for field in taken), axis=-1)
    return value.anew(tensor, type, None if value.shape is None else (*value.shape, len(taken)))


def _field_default(build: Builder, dtype: DType, default: Sequence[Literal] | None, place: int) -> Output:
    """What stands for an empty field: one value, or none, which makes it an error."""
    items = [] if default is None else [default[place]]
    return _defaults(build, dtype, items, (len(items),))


def _examples_in(raw: Raw, arguments: Arguments) -> Raw:
    shape, keys = arguments["shape"], arguments["features"]
    assert isinstance(shape, tuple) and isinstance(keys, tuple)
    rank = len(shape) or int(len(keys) > 1)
    if raw.shape is None or len(raw.shape) not in (rank, rank + 1):
        return Raw(STRING, (-1,))
    return Raw(STRING, raw.shape[: len(raw.shape) - rank])


@step(
    "parse-example",
    "Parse serialized tf.Examples: one feature, or several joined.",
    Parameter("features", Kind("a key, or a list of different keys", _keys), "the keys of the features"),
    Parameter("type", _type_of(FLOAT32, INT64, STRING), "of the features, as in the Example", FLOAT32),
    Parameter("shape", WHOLES, "of each feature; [] for one value; the first dimension may be -1 for any number", ()),
    Parameter("default", _DEFAULT, "the value of a missing feature: one value, or one for each element", None),
    sides=(FRONT,),
    example="parse-example([sepal_length, sepal_width, petal_length, petal_width])",
    explanation="The input is one serialized Example, or a vector of them. Several features are joined along "
    "the last dimension, in the given order, one column for each value. Other features of an "
    "Example are ignored. A missing feature without a default fails when the model runs, and so "
    "does a feature of a different dtype or size. With shape [-1], all features of a batch are "
    "padded to the longest with the default (0, or an empty string). For an image inside an "
    "Example, use parse-example(image/encoded, type=string) | decode-image.",
    takes=_examples_in,
)
def parse_example(
    build: Builder,
    value: Value,
    *,
    features: tuple[str, ...],
    type: DType,
    shape: tuple[int, ...],
    default: tuple[Literal, ...] | None,
) -> Value:
    if value.dtype != STRING or value.rank not in (0, 1):
        raise Unfit(f"requires a serialized tf.Example, or a vector of them, got {value.told}")
    if any(dim < 0 for dim in shape[1:]) or any(dim < -1 for dim in shape):
        raise Unfit(f"shape {format_shape(shape)} is open: only the first dimension may be -1")
    is_open = bool(shape) and shape[0] < 0
    missing = _missing(build, type, shape, default)
    node = _parser(build, value, features, missing, shape)
    parts = node[: len(features)]
    assert value.shape is not None
    if len(parts) == 1:
        return value.anew(parts[0], type, (*value.shape, *shape))
    if not shape:
        return value.anew(build.add("Pack", *parts, axis=-1), type, (*value.shape, len(parts)))
    if is_open and len(shape) > 1:
        raise Unfit("can join several features only if their sizes are known")
    tensor = build.add("ConcatV2", *parts, build.constant(INT32, -1))
    joined: Shape = (*value.shape, *shape[:-1], -1 if is_open else shape[-1] * len(parts))
    return value.anew(tensor, type, joined)


def _missing(build: Builder, dtype: DType, shape: tuple[int, ...], default: tuple[Literal, ...] | None) -> Output:
    """What stands for a feature that is missing: nothing, which makes it an error, or as many values as it has."""
    if shape and shape[0] < 0:
        items = default or (("",) if dtype == STRING else (0,))
        if len(items) > 1:
            raise Unfit("requires one single default if the shape is open")
        return _defaults(build, dtype, items, ())
    if default is None:
        return build.constant(dtype, [], (0,))
    count = prod(shape)
    if count > MOST_DEFAULTS:
        raise Unfit(f"has too many values for defaults: {count:,}; the limit is {MOST_DEFAULTS:,}")
    if len(default) not in (1, count):
        raise Unfit(f"default has {len(default)} values, but the shape {format_shape(shape)} requires {count}")
    return _defaults(build, dtype, default * count if len(default) == 1 else default, shape)


def _parser(
    build: Builder, value: Value, features: tuple[str, ...], missing: Output, shape: tuple[int, ...]
) -> Sequence[Output]:
    """What FEATURES are in VALUE: of one Example, or of each of a vector."""
    defaults = [missing] * len(features)
    known: dict[str, object] = {
        "sparse_types": [],
        "Tdense": [missing.dtype] * len(features),
        "dense_shapes": [shape] * len(features),
    }
    if value.rank == 0:
        known |= {"num_sparse": 0, "sparse_keys": [], "dense_keys": features}
        return build.node("ParseSingleExample", [value.tensor, *defaults], known).outputs
    names = build.constant(STRING, [])
    keys = [build.constant(STRING, [key.encode()], ()) for key in features]
    known |= {"Nsparse": 0, "Ndense": len(features)}
    return build.node("ParseExample", [value.tensor, names, *keys, *defaults], known).outputs
