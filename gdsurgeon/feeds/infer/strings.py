"""Generates texts for an input: the first consumer that decodes texts decides which.

A maker in `_MAKERS` belongs to each decoder: images, recordings, tf.Examples, lines, bytes of tensors. A text inside a
text is made in the same way. If no maker knows the consumer's format, the user must give a value.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Container, Iterator, Sequence
from math import prod
from typing import NamedTuple
from zlib import crc32

from gdsurgeon.errors import quoted
from gdsurgeon.feeds.infer.consumers import MOST_NODES, Outlet, Place, Step, downstream, following
from gdsurgeon.feeds.infer.numbers import (
    Content,
    Feature,
    Picture,
    for_step,
    number_content,
    number_values,
    packed_numbers,
)
from gdsurgeon.feeds.make import encoded
from gdsurgeon.feeds.make.numbers import INTEGERS, listed
from gdsurgeon.graph.attrs import shape_of
from gdsurgeon.graph.constants import Constant
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import CHECKPOINT_WRITERS, RESTORES
from gdsurgeon.runtime.tensor import Tensor, reversed_elements
from gdsurgeon.text import listed as listed_names

MOST_WRAPPINGS = 4
"""The number of texts inside each other that are followed."""
MOST_KEYS = 1000
"""The number of keys of a table to choose from."""
MOST_VALUES = 1 << 24
"""The number of elements of a tensor inside a text."""
STEPS = 3
"""The number of steps of a feature list of a tf.SequenceExample."""

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
"""Inputs of these ops that cannot be generated."""


def string_content(start: Outlet, *, depth: int = 0) -> Content:
    """Returns the kind of text that the consumers of `start` decode; it is inside of `depth` other texts."""
    for step in downstream(start, _carries_text) if depth <= MOST_WRAPPINGS else ():
        if step.op in _UNMADE:
            return Content("none", f"{for_step(_UNMADE[step.op], step)}, cannot be generated")
        if step.slot <= 0 and step.op in _MAKERS:
            return _MAKERS[step.op](step, depth)
    return Content("text", "plain texts")


def text(content: Content, seed: int, picture: Picture = None) -> bytes:
    """Returns a text with `content`; images have the height and width of `picture` if it is given."""
    if content.kind == "choice":
        return bytes(content.choices[seed % len(content.choices)])
    return content.make(seed, picture) if content.make is not None else b"text %d" % seed


def _carries_text(place: Place) -> bool:
    """Returns whether an output of `place` can be, or contain, a text."""
    if place.op.startswith("TensorArray"):
        return True
    found = place.output_dtypes()
    return not found or any(dtype in (0, dtypes.STRING, dtypes.RESOURCE, dtypes.VARIANT) for dtype in found)


def _of_consumers(outlet: Outlet, dtype: int, depth: int) -> Content:
    """Returns the content that the consumers of an output of a decoder expect."""
    content = table_keys(outlet, dtype)
    if content is not None:
        return content
    return string_content(outlet, depth=depth + 1) if dtype == dtypes.STRING else number_content(outlet, dtype)


def _numbers(content: Content, dtype: int, shape: tuple[int, ...], seed: int) -> bytes:
    """Returns the elements of a tensor of numbers."""
    if content.kind == "choice":
        chosen = [content.choices[(seed + i) % len(content.choices)] for i in range(prod(shape))]
        data = packed_numbers(dtype, chosen)
    else:
        data = number_values(content, dtype, shape, seed)
    assert isinstance(data, bytes)
    return data


def _too_much(what: str, step: Step) -> Content:
    return Content("none", f"{for_step(what, step)}, would be too large")


def _seed_of(seed: int, key: str) -> int:
    """Returns the seed of a part of a text: a different one for each `key`."""
    return 1000 * seed + crc32(key.encode("utf-8", "surrogateescape")) % 1000


# -- images and recordings -------------------------------------------------------------------------------


def _jpeg(step: Step, depth: int) -> Content:
    """TensorFlow encodes JPEG images, but only if they are the whole input; inside a text, PNG images replace them."""
    if not depth:
        return Content("jpeg", for_step("JPEG images", step), make=_png_bytes)
    if step.op in _JPEG_ONLY:
        return Content("none", f"{for_step('JPEG images inside another text', step)}, cannot be generated")
    return _png(step, depth)


def _png_bytes(seed: int, picture: Picture) -> bytes:
    return encoded.png(encoded.picture(seed, *picture or ()))


def _png(step: Step, _depth: int) -> Content:
    return Content("png", for_step("PNG images", step), make=_png_bytes)


def _bmp(step: Step, _depth: int) -> Content:
    return Content("bmp", for_step("BMP images", step), make=lambda s, p: encoded.bmp(encoded.picture(s, *p or ())))


def _wav(step: Step, _depth: int) -> Content:
    """The recording has the sample rate that the graph subtracts from the decoded rate, if it subtracts one."""
    rates = [user.ints(1) for user, slot in step.place.readers(1) if user.op == "Sub" and slot == 0]
    rate = next((rate for rate in rates if len(rate) == 1 and 0 < rate[0] < 1 << 30), ())
    return Content("wav", for_step("WAV recordings", step), make=lambda seed, _: encoded.wav(seed, *rate))


# -- texts inside texts ----------------------------------------------------------------------------------


def _base64(step: Step, depth: int) -> Content:
    return _wrapped(step, depth, " in base64", lambda data: base64.urlsafe_b64encode(data).rstrip(b"="))


def _compressed(step: Step, depth: int) -> Content:
    method = step.place.text("compression_type")
    compress = {"ZLIB": encoded.zlib_stream, "GZIP": encoded.gzip_stream}.get(method, bytes)
    return _wrapped(step, depth, f" compressed by {method}" if method else "", compress)


def _wrapped(step: Step, depth: int, how: str, wrap: Callable[[bytes], bytes]) -> Content:
    inner = string_content(Outlet(step.place, 0), depth=depth + 1)
    what = inner.made.split(", for ")[0]
    made = for_step(f"{what}{how}", step)
    return inner if inner.kind == "none" else Content("wrapped", made, make=lambda s, p: wrap(text(inner, s, p)))


def _json(step: Step, depth: int) -> Content:
    inner = string_content(Outlet(step.place, 0), depth=depth + 1)
    features = inner.features if inner.kind == "example" else ()
    made = for_step(f"tf.Example with {_keys(features)}, as JSON", step)
    make: Maker = lambda seed, _: encoded.json_example(_values_of(features, seed))  # noqa: E731
    return inner if inner.kind == "none" else Content("json", made, features=features, make=make)


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
            content = _of_consumers(Outlet(step.place, group.values + i), dtype, depth)
            if content.kind == "none":
                return content
            if count > MOST_VALUES:
                return _too_much(f"{count} values for one feature", step)
            features.append(Feature(key.decode("utf-8", "surrogateescape"), dtype, count, content, group.is_list))
    single = [feature for feature in features if not feature.is_list]
    repeated = [feature for feature in features if feature.is_list]

    def sequence(seed: int, _: Picture) -> bytes:
        steps = [_values_of(repeated, seed, step) for step in range(STEPS)]
        lists = {feature.key: [values[feature.key] for values in steps] for feature in repeated}
        return encoded.sequence_example(_values_of(single, seed), lists)

    is_sequence = "Sequence" in step.op
    made = for_step(f"tf.{'Sequence' * is_sequence}Example with {_keys(features)}", step)
    make: Maker = sequence if is_sequence else lambda seed, _: encoded.example(_values_of(single, seed))
    return Content("sequence" if is_sequence else "example", made, features=tuple(features), make=make)


def _keys(features: Sequence[Feature]) -> str:
    """Returns the first few keys of `features`."""
    return listed_names((feature.key for feature in features), 5) or "nothing"


def _values_of(features: Sequence[Feature], seed: int, step: int = 0) -> dict[str, encoded.Feature]:
    """Returns the values of features of a tf.Example by key; `step` is the number in a list of steps."""
    out: dict[str, encoded.Feature] = {}
    for feature in features:
        content, count, own = feature.content, feature.length, _seed_of(seed, feature.key) + step
        if feature.dtype != dtypes.STRING:
            out[feature.key] = list(listed(feature.dtype, _numbers(content, feature.dtype, (count,), own)))
        elif content.kind == "text":
            chance = random.Random(own)
            out[feature.key] = [b"text %d" % chance.randrange(8) for _ in range(count)]
        else:
            out[feature.key] = [text(content, own + i) for i in range(count)]
    return out


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


# -- tables ----------------------------------------------------------------------------------------------


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


def _no_bytes(step: Step) -> Content | None:
    """Returns the content that cannot be generated if the bytes of the dtype that `step` decodes are not known."""
    dtype = step.place.number("out_type")
    if dtypes.element_size(dtype) or dtype == dtypes.STRING:
        return None
    return Content("none", f"{for_step(f'bytes of {dtypes.dtype_name(dtype)}', step)}, cannot be generated")


def _tensor(step: Step, depth: int) -> Content:
    """A serialised tensor."""
    dtype, shape = step.place.number("out_type"), _shape_behind(step)
    if (refused := _no_bytes(step)) is not None:
        return refused
    if prod(shape) > MOST_VALUES:
        return _too_much(f"a tensor of {prod(shape)} elements", step)
    inner = _of_consumers(Outlet(step.place, 0), dtype, depth)

    def make(seed: int, _: Picture) -> bytes:
        is_text = dtype == dtypes.STRING
        texts = [text(inner, seed + i) for i in range(prod(shape))] if is_text else []
        return encoded.tensor_proto(dtype, shape, texts if is_text else _numbers(inner, dtype, shape, seed))

    made = for_step(f"serialised tensors of {dtypes.dtype_name(dtype)}", step)
    return inner if inner.kind == "none" else Content("tensor", made, make=make)


def _raw(step: Step, _depth: int) -> Content:
    """The bytes of a tensor."""
    place, dtype = step.place, step.place.number("out_type")
    if (refused := _no_bytes(step)) is not None:
        return refused
    size = dtypes.element_size(dtype) or 1
    fixed = place.ints(1) if step.op == "DecodePaddedRaw" else ()
    length = max(fixed[0], 0) // size if len(fixed) == 1 else _length_behind(step)
    if length > MOST_VALUES:
        return _too_much(f"{length * size} bytes", step)
    is_swapped = place.node.setting("little_endian") is False and size > 1
    inner = number_content(Outlet(place, 0), dtype)

    def make(seed: int, _: Picture) -> bytes:
        data = _numbers(inner, dtype, (length,), seed)
        if is_swapped:  # the elements in reverse, and then all bytes: this reverses the bytes of each element
            turned = reversed_elements(Tensor(dtype, (length,), data)).data
            return bytes(turned)[::-1] if isinstance(turned, memoryview) else data
        return data

    return Content("raw", for_step(f"{length * size} bytes of {dtypes.dtype_name(dtype)}", step), make=make)


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


def _spelt(content: Content, dtype: int, seed: int) -> bytes:
    """Returns a number as text."""
    value = listed(dtype, _numbers(content, dtype, (1,), seed))[0]
    return b"%d" % value if isinstance(value, int) else b"%g" % value


def _digits(step: Step, _depth: int) -> Content:
    dtype = step.place.number("out_type")
    dtype = dtype if dtype in (dtypes.FLOAT64, dtypes.INT32, dtypes.INT64) else dtypes.FLOAT32
    inner = number_content(Outlet(step.place, 0), dtype)
    is_any = inner.kind == "number" and not inner.bound
    make: Maker = lambda seed, _: b"%d" % (seed % 10) if is_any else _spelt(inner, dtype, seed)  # noqa: E731
    return Content("digits", for_step("digits", step), make=make)


def _csv(step: Step, depth: int) -> Content:
    """A line with the fields that a DecodeCSV reads."""
    place = step.place
    types = place.listed("OUT_TYPE")
    columns = [column for column in place.listed("select_cols") if column >= 0] or list(range(len(types)))
    if max(columns, default=0) > MOST_NODES:
        return _too_much(f"lines of {max(columns)} fields", step)
    fields = [(dtypes.INT32, Content("number"))] * (max(columns, default=-1) + 1)
    for i, (column, dtype) in enumerate(zip(columns, types, strict=False)):
        dtype = dtype if dtype in (dtypes.FLOAT32, dtypes.FLOAT64, dtypes.STRING, dtypes.INT32) else dtypes.INT64
        fields[column] = dtype, _of_consumers(Outlet(place, i), dtype, depth)
    delimiter = (place.text("field_delim") or ",").encode()

    def field(dtype: int, content: Content, seed: int) -> bytes:
        out = text(content, seed) if dtype == dtypes.STRING else _spelt(content, dtype, seed)
        is_special = any(c in out for c in (delimiter, b'"', b"\n", b"\r"))
        return b'"' + out.replace(b'"', b'""') + b'"' if is_special else out

    def make(seed: int, _: Picture) -> bytes:
        return delimiter.join(field(*item, _seed_of(seed, str(i))) for i, item in enumerate(fields))

    return Content("csv", for_step(f"lines of {len(fields)} fields", step), make=make)


Maker = Callable[[int, Picture], bytes]
_MAKERS: dict[str, Callable[[Step, int], Content]] = {
    **dict.fromkeys("DecodeJpeg DecodeAndCropJpeg ExtractJpegShape DecodeImage".split(), _jpeg),
    **dict.fromkeys("DecodePng DecodeGif DecodeWebP".split(), _png),
    "DecodeBmp": _bmp, "DecodeWav": _wav, "DecodeBase64": _base64, "DecodeCompressed": _compressed,
    "DecodeJSONExample": _json, **dict.fromkeys(_PARSERS, _example), "ParseTensor": _tensor,
    **dict.fromkeys(("DecodeRaw", "DecodePaddedRaw"), _raw), "StringToNumber": _digits, "DecodeCSV": _csv,
}  # fmt: skip
"""For each op that decodes texts, the function that returns the content of these texts."""
