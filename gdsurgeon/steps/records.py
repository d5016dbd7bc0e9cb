"""Steps that parse records: lines of CSV, and tf.Examples."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, TypeAlias

from gdsurgeon.graph.attrs import Shape, format_shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, STRING, DType
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.catalog import BEFORE, Arguments, spelt, step
from gdsurgeon.steps.language import TEXTS, Kind, Literal, Text, Wholes, dtype_of, items_of, whole
from gdsurgeon.steps.value import InputSpec, Unfit, Value

MOST_COLUMNS = 10_000
MOST_DEFAULTS = 1 << 20
"""The largest number of values for a missing feature."""


def _default(literal: Literal) -> tuple[Literal, ...]:
    items = items_of(literal)
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


def _keys(literal: Literal) -> object:
    if "" in items_of(literal) or len(set(map(str, items_of(literal)))) != len(items_of(literal)):
        raise ValueError
    return TEXTS.read(literal)


Defaults: TypeAlias = Annotated[tuple[Literal, ...], Kind("a number or a text, or a list of them", _default)]
FieldType: TypeAlias = Annotated[DType, dtype_of("float32", "float64", "int32", "int64", "string")]
FeatureType: TypeAlias = Annotated[DType, dtype_of("float32", "int64", "string")]
Delimiter: TypeAlias = Annotated[str, Kind("one character, or tab", _delimiter)]
Keys: TypeAlias = Annotated[tuple[str, ...], Kind("a key, or a list of different keys", _keys)]


def _defaults(build: Builder, dtype: DType, items: Sequence[Literal], shape: tuple[int, ...]) -> Output:
    """Returns a constant. Raises Unfit: an item does not have the dtype."""
    values: list[object] = [
        str(item).encode() if dtype == STRING else float(item) if dtype.is_float and isinstance(item, int) else item
        for item in items
    ]
    try:
        return build.constant(dtype, values, shape)
    except Unfit:
        wrong = spelt(items[0] if len(set(map(str, items))) == 1 else list(items))
        raise Unfit(f"default {wrong} is not {dtype.name}") from None


@step(
    "decode-csv",
    side=BEFORE,
    example="decode-csv(4) | normalize(mean=[5.8, 3.1, 3.8, 1.2], std=[0.8, 0.4, 1.8, 0.8])",
    takes=lambda output, _: InputSpec(STRING, output.shape[:-1] if output.shape else (-1,)),
)
def decode_csv(
    build: Builder,
    value: Value,
    *,
    columns: Annotated[int, whole(1, MOST_COLUMNS)],
    type: FieldType = FLOAT32,
    select: Wholes | None = None,
    default: Defaults | None = None,
    delimiter: Delimiter = ",",
    na: Text | None = None,
) -> Value:
    """Split lines of CSV: their fields become the last dimension.

    As in RFC 4180, fields that contain the delimiter are in double quotes. A line is one string; the input has one
    string for each row of the model's input. A line with more or fewer fields fails when the model runs, and so
    does an empty field without a default. A line feed at the end is not part of a line. Numbers are rounded to the
    nearest value of the dtype.

    Args:
        columns: the number of fields in each line
        type: the dtype of the selected fields
        select: the fields to select, counted from 0, in this order; by default all
        default: the value of an empty field: one for all, or one for each selected field
        delimiter: the character between fields
        na: a text that also means an empty field, such as NA
    """
    if value.dtype != STRING:
        raise Unfit(f"splits lines, got {value.description}")
    selected = range(columns) if select is None else select
    if not selected or not all(0 <= place < columns for place in selected):
        raise Unfit(f"select requires fields from 0 to {columns - 1}")
    if default is not None and len(default) not in (1, len(selected)):
        raise Unfit(f"default must be one for all fields, or one for each of {len(selected)}, but has {len(default)}")
    if na and default is None:
        raise Unfit("na requires a default")
    text = build.add("StaticRegexReplace", value.tensor, pattern=r"[\r\n]+$", rewrite="")
    # A default without a value makes an empty field an error.
    items: list[tuple[Literal, ...]] = [()] if default is None else [(item,) for item in default]
    given = [_defaults(build, type, item, (len(item),)) for item in items]
    unread = build.constant(STRING, [b""]) if len(set(selected)) < columns else text
    fields = [unread] * columns
    for place, field in enumerate(selected):
        fields[field] = given[place if len(given) > 1 else 0]
    parsed = build.node("DecodeCSV", [text, *fields], {"field_delim": delimiter, "na_value": na or ""}).outputs
    tensor = build.add("Pack", *(parsed[field] for field in selected), axis=-1)
    return value.fresh(tensor, type, None if value.shape is None else (*value.shape, len(selected)))


def _examples_in(output: InputSpec, arguments: Arguments) -> InputSpec:
    shape, keys = arguments["shape"], arguments["features"]
    assert isinstance(shape, tuple) and isinstance(keys, tuple)
    rank = len(shape) or int(len(keys) > 1)
    if output.shape is None or len(output.shape) not in (rank, rank + 1):
        return InputSpec(STRING, (-1,))
    return InputSpec(STRING, output.shape[: len(output.shape) - rank])


@step(
    "parse-example",
    side=BEFORE,
    example="parse-example([sepal_length, sepal_width, petal_length, petal_width])",
    takes=_examples_in,
)
def parse_example(
    build: Builder,
    value: Value,
    *,
    features: Keys,
    type: FeatureType = FLOAT32,
    shape: Wholes = (),
    default: Defaults | None = None,
) -> Value:
    """Parse serialized tf.Examples: one feature, or several joined.

    The input is one serialized Example, or a vector of them. Several features are joined along the last dimension,
    in the given order, one column for each value. Other features of an Example are ignored. A missing feature
    without a default fails when the model runs, and so does a feature of a different dtype or size. With shape
    [-1], all features of a batch are padded to the longest with the default (0, or an empty string). For an image
    inside an Example, use parse-example(image/encoded, type=string) | decode-image.

    Args:
        features: the keys of the features
        type: of the features, as in the Example
        shape: of each feature; [] for one value; the first dimension may be -1 for any number
        default: the value of a missing feature: one value, or one for each element
    """
    if value.dtype != STRING or value.rank not in (0, 1):
        raise Unfit(f"requires a serialized tf.Example, or a vector of them, got {value.description}")
    if any(dim < 0 for dim in shape[1:]) or any(dim < -1 for dim in shape):
        raise Unfit(f"shape {format_shape(shape)} is open: only the first dimension may be -1")
    is_open = bool(shape) and shape[0] < 0
    missing = _missing(build, type, shape, default)
    parts = _parser(build, value, features, missing, shape)[: len(features)]
    if len(parts) == 1:
        return value.fresh(parts[0], type, (*value.dims, *shape))
    if not shape:
        return value.fresh(build.add("Pack", *parts, axis=-1), type, (*value.dims, len(parts)))
    if is_open and len(shape) > 1:
        raise Unfit("can join several features only if their sizes are known")
    tensor = build.add("ConcatV2", *parts, -1)
    joined: Shape = (*value.dims, *shape[:-1], -1 if is_open else shape[-1] * len(parts))
    return value.fresh(tensor, type, joined)


def _missing(build: Builder, dtype: DType, shape: tuple[int, ...], default: tuple[Literal, ...] | None) -> Output:
    """Returns the default of a feature; without values, a missing feature is an error."""
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
    """Returns the features of one Example, or of each Example in a vector."""
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
