"""Texts for an input, by what consumes them: images, recordings, tf.Examples, lines, bytes of tensors."""

from __future__ import annotations

from collections.abc import Container, Iterator
from math import prod
from typing import NamedTuple

from gdsurgeon.errors import quoted
from gdsurgeon.feeds.infer.consumers import MOST_NODES, Outlet, Place, Step, downstream, following
from gdsurgeon.feeds.infer.content import Content, Feature, for_step
from gdsurgeon.feeds.infer.numbers import number_content
from gdsurgeon.feeds.make.numbers import INTEGERS
from gdsurgeon.graph.attrs import shape_of
from gdsurgeon.graph.constants import Constant
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import CHECKPOINT_WRITERS, RESTORES
from gdsurgeon.text import listed

MOST_WRAPPINGS = 4
"""Texts inside texts that are followed."""
MOST_KEYS = 1000
"""The number of keys of a table to choose from."""
MOST_VALUES = 1 << 24
"""Elements of a tensor inside a text, at most."""

_IMAGES = {
    "DecodeJpeg": ("jpeg", "JPEG images"), "DecodeAndCropJpeg": ("jpeg", "JPEG images"),
    "ExtractJpegShape": ("jpeg", "JPEG images"), "DecodeImage": ("jpeg", "JPEG images"),
    "DecodePng": ("png", "PNG images"), "DecodeGif": ("png", "PNG images"), "DecodeWebP": ("png", "PNG images"),
    "DecodeBmp": ("bmp", "BMP images"), "DecodeWav": ("wav", "WAV recordings"),
}  # fmt: skip
_JPEG_ONLY = frozenset(("DecodeAndCropJpeg", "ExtractJpegShape"))
_PARSERS = frozenset(
    """
    ParseExample ParseExampleV2 ParseSingleExample ParseSequenceExample ParseSequenceExampleV2
    ParseSingleSequenceExample
    """.split()
)
_UNMADE = {
    "ReadFile": "the name of a file", "InitializeTableFromTextFile": "the name of a file",
    "InitializeTableFromTextFileV2": "the name of a file", "DecodeProtoV2": "messages of a type of its own",
    **dict.fromkeys((*RESTORES, *CHECKPOINT_WRITERS, "ShardedFilename"), "the prefix of a checkpoint"),
    "DeserializeSparse": "serialised sparse tensors", "DeserializeManySparse": "serialised sparse tensors",
    "DecodeVideo": "a film", "DecodeAudio": "a recording of a format of its own",
}  # fmt: skip
"""What these ops take cannot be made here."""


def string_content(start: Outlet, *, depth: int = 0) -> Content:
    """What kind of text the consumers of START understand; DEPTH: texts that it is inside of."""
    if depth > MOST_WRAPPINGS:
        return _TEXT
    for step in downstream(start, _carries_text):
        content = _content_for(step, depth)
        if content is not None:
            return content
    return _TEXT


_TEXT = Content("text", "plain texts")


def _carries_text(place: Place) -> bool:
    """Whether what PLACE gives may be, or hold, texts."""
    if place.op.startswith("TensorArray"):
        return True
    found = place.output_dtypes()
    return not found or any(dtype in (0, dtypes.STRING, dtypes.RESOURCE, dtypes.VARIANT) for dtype in found)


def _content_for(step: Step, depth: int) -> Content | None:
    """What STEP understands, where it is an op that takes texts apart."""
    op, place = step.op, step.place
    if op in _UNMADE:
        return Content("none", f"{for_step(_UNMADE[op], step)}, cannot be generated")
    if step.slot > 0:
        return None
    if op in _IMAGES:
        kind, made = _IMAGES[op]
        if (
            kind == "jpeg" and depth
        ):  # only TensorFlow can encode those, and a string inside a string is not encoded by it
            if op in _JPEG_ONLY:
                return Content("none", f"{for_step('JPEG images inside another text', step)}, cannot be generated")
            kind, made = "png", "PNG images"
        return Content(kind, for_step(made, step), shape=_rate(place) if kind == "wav" else ())
    if op in _PARSERS:
        return _example(step, depth)
    if op in ("DecodeRaw", "DecodePaddedRaw", "ParseTensor"):
        return _raw(step, depth)
    if op in ("DecodeBase64", "DecodeCompressed", "DecodeJSONExample"):
        return _wrapped(step, string_content(Outlet(place, 0), depth=depth + 1))
    if op == "DecodeCSV":
        return _csv(step, depth)
    if op == "StringToNumber":
        dtype = place.number("out_type")
        dtype = dtype if dtype in (dtypes.FLOAT64, dtypes.INT32, dtypes.INT64) else dtypes.FLOAT32
        inner = number_content(Outlet(place, 0), dtype)
        return Content("digits", for_step("digits", step), dtype=dtype, inner=(inner,))
    return None


def _rate(place: Place) -> tuple[int, ...]:
    """The sample rate that a recording has to have, where the graph subtracts one from what the file states."""
    rates = [user.ints(1) for user, slot in place.readers(1) if user.op == "Sub" and slot == 0]
    return next((rate for rate in rates if len(rate) == 1 and 0 < rate[0] < 1 << 30), ())


def _wrapped(step: Step, inner: Content) -> Content:
    """Texts inside texts."""
    if inner.kind == "none":
        return inner
    if step.op == "DecodeJSONExample":
        features = inner.features if inner.kind == "example" else ()
        return Content("json", for_step(f"tf.Example with {_keys(features)}, as JSON", step), features=features)
    what = inner.made.split(", for ")[0]
    if step.op == "DecodeBase64":
        return Content("base64", for_step(f"{what} in base64", step), inner=(inner,))
    method = step.place.text("compression_type")
    how = f" compressed by {method}" if method else ""
    return Content("compressed", for_step(f"{what}{how}", step), method=method, inner=(inner,))


def _too_much(what: str, step: Step) -> Content:
    return Content("none", f"{for_step(what, step)}, would be too large")


# -- examples --------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Features of a parser that are described in one way, with the same number of outputs for each; `values` is the
    first's place.
    """

    keys: list[bytes]
    types: list[int]
    counts: list[int]
    values: int
    is_list: bool


def _example(step: Step, depth: int) -> Content:
    features: list[Feature] = []
    for group in _groups(step):
        for i, key in enumerate(group.keys):
            dtype = group.types[i] if i < len(group.types) else 0
            dtype = dtype if dtype in (dtypes.FLOAT32, dtypes.STRING) else dtypes.INT64
            count = group.counts[i] if i < len(group.counts) else 1
            content = _behind(Outlet(step.place, group.values + i), dtype, depth + 1)
            if content.kind == "none":
                return content
            if count > MOST_VALUES:
                return _too_much(f"{count} values for one feature", step)
            features.append(Feature(key.decode("utf-8", "surrogateescape"), dtype, count, content, group.is_list))
    sequence = "Sequence" in step.op
    kind, name = ("sequence", "tf.SequenceExample") if sequence else ("example", "tf.Example")
    return Content(kind, for_step(f"{name} with {_keys(tuple(features))}", step), features=tuple(features))


def _keys(features: tuple[Feature, ...]) -> str:
    """The keys of FEATURES, the first few of them."""
    return listed((feature.key for feature in features), 5) or "nothing"


def _behind(outlet: Outlet, dtype: int, depth: int) -> Content:
    """What the consumers of OUTLET want, whatever it is."""
    choices = table_keys(outlet, dtype)
    if choices is not None:
        return choices
    return string_content(outlet, depth=depth) if dtype == dtypes.STRING else number_content(outlet, dtype)


def _groups(step: Step) -> Iterator[_Group]:
    """The features that a parser asks for, with where it gives their values; see the ops' definitions."""
    place, op = step.place, step.op

    def sizes(key: str, n: int) -> list[int]:
        value = place.attr(key)
        shapes = list(value.list.shape) if value is not None else []
        # A first dim that is not known is a length: one row of what follows.
        return [prod(max(dim, 1) for dim in shape_of(shape) or ()) for shape in shapes] or [1] * n

    inputs = _key_inputs(step)
    at = 0
    for part in ("context_", "feature_list_") if "Sequence" in op else ("",):
        is_list = part == "feature_list_"
        sparse, dense, ragged = (inputs.get(f"{part}{kind}", []) for kind in ("sparse", "dense", "ragged"))
        yield _Group(sparse, place.listed(f"{part}sparse_types"), [], at + len(sparse), is_list)
        at += 3 * len(sparse)
        dense_types = place.listed(f"{part}dense_types" if is_list else f"T{part}dense")
        yield _Group(dense, dense_types, sizes(f"{part}dense_shapes", len(dense)), at, is_list)
        at += len(dense) * (2 if is_list and op != "ParseSingleSequenceExample" else 1)
        yield _Group(ragged, place.listed(f"{part}ragged_value_types"), [2] * len(ragged), at, is_list)
        at += 2 * len(ragged)  # lists have a third output, and nothing comes after them


def _key_inputs(step: Step) -> dict[str, list[bytes]]:
    """The keys that a parser asks for, by kind; they are attrs of some parsers and constant inputs of others."""
    place, op = step.place, step.op
    kinds = ["sparse", "dense"] if "V2" not in op else ["sparse", "dense", "ragged"]
    if "Sequence" in op:
        kinds = [f"{part}_{kind}" for part in ("context", "feature_list") for kind in kinds]
    if op in ("ParseSingleExample", "ParseSequenceExample"):
        return {kind: place.listed(f"{kind}_keys") for kind in kinds}
    out: dict[str, list[bytes]] = {}
    at = 2  # behind the examples, and their names or what may be missing
    for kind in kinds:
        count = 1 if "V2" in op else min(place.number(f"N{kind}"), MOST_NODES)
        constants = [place.constant(at + i) for i in range(count)]
        out[kind] = [key for found in constants if found is not None for key in found.values if isinstance(key, bytes)]
        at += count
    return out


def _is_text(found: Constant) -> bool:
    return found.dtype == dtypes.STRING


def table_keys(start: Outlet, dtype: int) -> Content | None:
    """For what is looked up in a table: the keys of DTYPE that the table is initialised with; None where none are."""
    if dtype not in (dtypes.STRING, dtypes.INT32, dtypes.INT64):
        return None
    for step in following(start, _TO_TABLES):
        if step.op not in ("LookupTableFind", "LookupTableFindV2") or step.slot != 1:
            continue
        table = step.place.origin(0)
        if table is None:
            continue
        for user, slot in table.place.readers(None):
            keys = user.constant(1) if user.op in _INITIALIZERS and slot == 0 else None
            if keys is None or not keys.values:
                continue
            if _is_text(keys) == (dtype == dtypes.STRING) and (_is_text(keys) or keys.dtype in INTEGERS):
                made = f"keys of the table {quoted(table.place.name)}"
                return Content("choice", made, choices=tuple(keys.values[:MOST_KEYS]))
    return None


_TO_TABLES: dict[str, Container[int]] = dict.fromkeys(
    "Identity Cast Reshape ExpandDims Squeeze Enter Switch StopGradient PlaceholderWithDefault Unique".split(), (0,)
)
_INITIALIZERS = frozenset(("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2"))


# -- bytes and lines -------------------------------------------------------------------------------------

_SAME_PLACES: dict[str, Container[int]] = dict.fromkeys(
    "Identity Cast Sub Add AddV2 Mul RealDiv Div Enter Switch StopGradient StridedSlice Slice ExpandDims".split(), (0,)
)
_DEFAULT_LENGTH = 16


def _raw(step: Step, depth: int) -> Content:
    """Bytes that become a tensor."""
    place = step.place
    dtype = place.number("out_type")
    if not dtypes.element_size(dtype) and dtype != dtypes.STRING:
        return Content("none", f"{for_step(f'bytes of {dtypes.dtype_name(dtype)}', step)}, cannot be generated")
    if step.op == "ParseTensor":
        shape = _shape_behind(step)
        if prod(shape) > MOST_VALUES:
            return _too_much(f"a tensor of {prod(shape)} elements", step)
        inner = _behind(Outlet(place, 0), dtype, depth + 1)
        made = for_step(f"serialised tensors of {dtypes.dtype_name(dtype)}", step)
        return inner if inner.kind == "none" else Content("tensor", made, dtype=dtype, shape=shape, inner=(inner,))
    size = dtypes.element_size(dtype) or 1
    length = _length_behind(step)
    fixed = place.ints(1) if step.op == "DecodePaddedRaw" else ()
    if len(fixed) == 1:
        length = max(fixed[0], 0) // size
    if length > MOST_VALUES:
        return _too_much(f"{length * size} bytes", step)
    endian = "big" if place.node.setting("little_endian") is False and size > 1 else ""
    inner = number_content(Outlet(place, 0), dtype)
    made = for_step(f"{length * size} bytes of {dtypes.dtype_name(dtype)}", step)
    return Content("raw", made, dtype=dtype, shape=(length,), method=endian, inner=(inner,))


def _length_behind(step: Step) -> int:
    """How many elements the consumers of a decoder of bytes want of one text."""
    most = 0
    for user in following(Outlet(step.place, 0), _SAME_PLACES):
        begin = sum(_last(s, 1) for s in user.path() if s.op in ("StridedSlice", "Slice"))
        if user.slot != 0:
            continue
        if user.op in ("Reshape", "EnsureShape"):
            dims = _target(user)
            if any(dim > 1 for dim in dims) or dims == (1,):
                most = max(most, begin + prod(max(dim, 1) for dim in dims))
        elif user.op == "StridedSlice" and not user.place.node.setting("end_mask"):
            most = max(most, begin + _last(user, 2))
        elif user.op == "Slice":
            most = max(most, begin + _last(user, 1) + max(_last(user, 2), 0))
    return most or _DEFAULT_LENGTH


def _last(step: Step, slot: int) -> int:
    """The last number of a constant input that is a place or a size; 0 where it is neither."""
    found = step.place.ints(slot)
    return max(found[-1], 0) if found else 0


def _shape_behind(step: Step) -> tuple[int, ...]:
    """The shape that the consumers of a parsed tensor want."""
    for user in following(Outlet(step.place, 0), _SAME_PLACES):
        dims = _target(user) if user.op in ("Reshape", "EnsureShape") and user.slot == 0 else ()
        if dims:
            return tuple(max(dim, 1) for dim in dims)
    return (2, 3)


def _target(step: Step) -> tuple[int, ...]:
    """The shape that a Reshape or EnsureShape gives, -1 for what it leaves open."""
    if step.op == "EnsureShape":
        value = step.place.attr("shape")
        return (shape_of(value.shape) if value is not None else None) or ()
    return step.place.ints(1)


def _csv(step: Step, depth: int) -> Content:
    """Lines with the fields that a DecodeCSV asks for."""
    place = step.place
    types = place.listed("OUT_TYPE")
    columns = [column for column in place.listed("select_cols") if column >= 0] or list(range(len(types)))
    if max(columns, default=0) > MOST_NODES:
        return _too_much(f"lines of {max(columns)} fields", step)
    unread = Feature("", dtypes.INT32, 1, Content("number"))
    fields = [unread] * (max(columns, default=-1) + 1)
    for i, (column, dtype) in enumerate(zip(columns, types, strict=False)):
        dtype = dtype if dtype in (dtypes.FLOAT32, dtypes.FLOAT64, dtypes.STRING, dtypes.INT32) else dtypes.INT64
        fields[column] = Feature("", dtype, 1, _behind(Outlet(place, i), dtype, depth + 1))
    delimiter = place.text("field_delim") or ","
    made = for_step(f"lines of {len(fields)} fields", step)
    return Content("csv", made, features=tuple(fields), method=delimiter)
