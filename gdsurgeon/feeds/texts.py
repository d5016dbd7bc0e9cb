"""Generates texts for an input: the first consumer that decodes texts decides which.

A maker in `_MAKERS` belongs to each decoder: images, recordings, tf.Examples, lines, bytes of tensors. A text inside a
text is made in the same way. If no maker knows the consumer's format, the user must give a value. The bytes are the
same for the same seed, on every machine.
"""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from array import array
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

from gdsurgeon.errors import quoted
from gdsurgeon.feeds.consumers import MOST_NODES, Consumer, following
from gdsurgeon.feeds.numbers import (
    INTEGERS,
    Content,
    Feature,
    Picture,
    for_step,
    generated,
    inputs_of,
    number_content,
    unpacked,
)
from gdsurgeon.graph.attrs import shape_of
from gdsurgeon.graph.constants import raw_value
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import CHECKPOINT_WRITERS, RESTORES
from gdsurgeon.ops.op_defs import Arg, arg_dtypes
from gdsurgeon.runtime.tensor import Tensor, reversed_elements
from gdsurgeon.text import listed
from gdsurgeon.wire.fields import encode_len, encode_varint

MOST_WRAPPINGS = 4
"""The number of texts inside each other that are followed."""
MOST_KEYS = 1000
"""The number of keys of a table to choose from."""
MOST_VALUES = 1 << 24
"""The number of elements of a tensor inside a text."""
STEPS = 3
"""The number of steps of a feature list of a tf.SequenceExample."""
RATE = 16000
"""Samples of a sound in a second, if the graph requires no other rate; and samples of every sound."""

Values = Sequence[float] | Sequence[bytes]
"""The values of a feature of a tf.Example: all are floats, integers or texts."""

_NOT_GENERATED = {
    "ReadFile": "the name of a file", "InitializeTableFromTextFile": "the name of a file",
    "InitializeTableFromTextFileV2": "the name of a file", "DecodeProtoV2": "messages of a type of its own",
    **dict.fromkeys((*RESTORES, *CHECKPOINT_WRITERS, "ShardedFilename"), "the prefix of a checkpoint"),
    "DeserializeSparse": "serialised sparse tensors", "DeserializeManySparse": "serialised sparse tensors",
    "DecodeVideo": "a film", "DecodeAudio": "a recording of a format of its own",
}  # fmt: skip
"""The inputs of some ops that cannot be generated, in words."""

_TOO_LARGE = "would be too large"


class _NotGeneratedError(Exception):
    """No text can be generated for a consumer; the message is the needed text and the reason."""

    def __init__(self, what: str, step: Consumer, why: str = "cannot be generated") -> None:
        super().__init__(f"{for_step(what, step)}, {why}")


def content_of(start: Consumer, dtype: int) -> Content:
    """Returns the values that the consumers of an input expect."""
    try:
        return _content(start, 0, dtype, 0)
    except _NotGeneratedError as error:
        return Content("none", str(error))


def _content(start: Consumer, port: int, dtype: int, depth: int) -> Content:
    """Returns the content of an output of `start`, which is inside of `depth` texts.

    Raises:
        _NotGeneratedError: it cannot be generated.
    """
    content = _table_keys(start, port, dtype)
    if content is not None:
        return content
    if dtype != dtypes.STRING:
        return number_content(start, dtype, port)
    for step in following(start, port):
        if step.op in _NOT_GENERATED:
            raise _NotGeneratedError(_NOT_GENERATED[step.op], step)
        if step.slot <= 0 and step.op in _MAKERS:
            if depth > MOST_WRAPPINGS:
                raise _NotGeneratedError(f"texts inside {depth} texts", step)
            return _MAKERS[step.op](step, depth)
    return Content("text", "plain texts")


_TO_TABLES = inputs_of(
    "Identity Cast Reshape ExpandDims Squeeze Enter Switch StopGradient PlaceholderWithDefault Unique", 0
)
_INITIALIZERS = frozenset(("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2"))


def _table_keys(start: Consumer, port: int, dtype: int) -> Content | None:
    """Returns the keys of the table that reads an output of `start`; None if no table is initialized with such keys."""
    if dtype not in (dtypes.STRING, dtypes.INT32, dtypes.INT64):
        return None
    for step in following(start, port, _TO_TABLES):
        table = step.origin(0) if step.op.startswith("LookupTableFind") and step.slot == 1 else None
        for user in table[0].readers(None) if table is not None else ():
            keys = user.constant(1) if user.op in _INITIALIZERS and user.slot == 0 else None
            if keys is not None and keys.values and (keys.dtype == dtype or {keys.dtype, dtype} <= INTEGERS):
                made = f"keys of the table {quoted(table[0].name)}" if table is not None else ""
                return Content("choice", made, choices=tuple(keys.values[:MOST_KEYS]))
    return None


def _seed_of(seed: int, key: str) -> int:
    """Returns the seed of a part of a text: a different one for each `key`."""
    return 1000 * seed + crc32(key.encode("utf-8", "surrogateescape")) % 1000


# -- images and recordings -------------------------------------------------------------------------------


class Pixels(NamedTuple):
    """An image that has not been encoded: row-major, interleaved channels, one byte each."""

    height: int
    width: int
    channels: int
    data: bytes


def image(seed: int, height: int = 96, width: int = 128, channels: int = 3) -> Pixels:
    """Returns an image with smooth shades, edges and some noise, like a photograph."""
    rng = random.Random(seed)
    noise = rng.randbytes(height * width * channels)
    shades = [(rng.randrange(1, 4), rng.randrange(1, 4), rng.randrange(256)) for _ in range(channels)]
    top, left = rng.randrange(height // 2), rng.randrange(width // 2)
    out = bytearray(height * width * channels)
    at = 0
    for y in range(height):
        for x in range(width):
            inside = top <= y < top + height // 3 and left <= x < left + width // 3
            for down, right, base in shades:
                out[at] = (base + down * y + right * x + 90 * inside + (noise[at] >> 4)) & 255
                at += 1
    return Pixels(height, width, channels, bytes(out))


def _rows(pixels: Pixels) -> list[bytes]:
    stride = pixels.width * pixels.channels
    return [pixels.data[y * stride : (y + 1) * stride] for y in range(pixels.height)]


def _png(seed: int, size: Picture) -> bytes:
    """Returns an image as a PNG file (RFC 2083) with 3 channels."""
    pixels = image(seed, *size or ())
    header = struct.pack(">IIBBBBB", pixels.width, pixels.height, 8, 2, 0, 0, 0)
    data = zlib_stream(b"".join(b"\0" + row for row in _rows(pixels)))
    out = [b"\x89PNG\r\n\x1a\n"]
    for chunk in (b"IHDR" + header, b"IDAT" + data, b"IEND"):
        out.append(struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", crc32(chunk)))
    return b"".join(out)


def _bmp(seed: int, size: Picture) -> bytes:
    """Returns an image as an uncompressed BMP file."""
    pixels = image(seed, *size or ())
    rows = []
    for row in reversed(_rows(pixels)):
        turned = bytearray(row)
        turned[0::3], turned[2::3] = turned[2::3], turned[0::3]
        rows.append(bytes(turned) + b"\0" * (-len(row) % 4))
    data = b"".join(rows)
    header = struct.pack("<IiiHHIIiiII", 40, pixels.width, pixels.height, 1, 24, 0, len(data), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, 54) + header + data


def _jpeg(seed: int, size: Picture) -> bytes:
    """Returns a baseline JPEG file (ITU T.81) of shades with some texture, with subsampled colors.

    In both Huffman tables, 4 bits are the number of bits of the value after them; no bits end the frequencies of a
    block.
    """
    height, width = size or (96, 128)
    rng = random.Random(seed)
    shades = [(rng.randrange(200), rng.randrange(8, 32), rng.randrange(8, 32)) for _ in range(3)]
    before = [0, 0, 0]
    bits: list[str] = []

    def add(value: int) -> None:
        length = abs(value).bit_length()
        word = value if value > 0 else value + (1 << length) - 1
        bits.append(f"{length:04b}" + (f"{word:0{length}b}" if length else ""))

    for row, column in product(range(-(-height // 16)), range(-(-width // 16))):
        for color, y, x in (*((0, y, x) for y in (0, 0.5) for x in (0, 0.5)), (1, 0, 0), (2, 0, 0)):
            base, down, right = shades[color]
            most = 40 if color else 100
            shade = int(base + down * (row + y) + right * (column + x)) % (2 * most) - most
            add(shade - before[color])
            before[color] = shade
            for _ in range(3):
                add(rng.randrange(1, 9) * rng.choice((-1, 1)))
            add(0)
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    data = int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\0")
    table = bytes((0, 0, 0, 12, *[0] * 12, *range(12)))
    segments = (
        (0xDB, b"\0" + bytes([8] * 64)),
        (0xC0, struct.pack(">BHHB", 8, height, width, 3) + bytes((1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0))),
        (0xC4, b"\x00" + table + b"\x10" + table),
        (0xDA, bytes((3, 1, 0, 2, 0, 3, 0, 0, 63, 0))),
    )
    head = b"".join(struct.pack(">BBH", 0xFF, marker, 2 + len(body)) + body for marker, body in segments)
    return b"\xff\xd8" + head + data + b"\xff\xd9"


@lru_cache(maxsize=128)
def _wav(seed: int, rate: int) -> bytes:
    """Returns a WAV file, mono, 16 bits, of noise and a tone; `rate` is the declared rate."""
    rng = random.Random(seed)
    period = rng.randrange(20, 200)
    tone = [((i % period) * 20000 // period) - 10000 + rng.randrange(-500, 500) for i in range(RATE)]
    content = array("h", tone).tobytes()
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def _image(step: Consumer, _depth: int) -> Content:
    """Returns the content for an image decoder."""
    if step.op == "DecodeBmp":
        return Content("bmp", for_step("BMP images", step), make=_bmp)
    if step.op in ("DecodePng", "DecodeGif", "DecodeWebP"):
        return Content("png", for_step("PNG images", step), make=_png)
    return Content("jpeg", for_step("JPEG images", step), make=_jpeg)


def _recording(step: Consumer, _depth: int) -> Content:
    """Returns the content for a WAV decoder.

    The sample rate is the constant that the graph subtracts from the decoded rate, if it subtracts one.
    """
    rates = [user.ints(1) for user in step.readers(1) if user.op == "Sub" and user.slot == 0]
    rate = next((rate[0] for rate in rates if len(rate) == 1 and 0 < rate[0] < 1 << 30), RATE)
    return Content("wav", for_step("WAV recordings", step), make=lambda seed, _: _wav(seed, rate))


# -- texts inside texts ----------------------------------------------------------------------------------


def zlib_stream(data: bytes) -> bytes:
    """Returns data as zlib has it (RFC 1950), not compressed: compressed bytes depend on the version of zlib."""
    return b"\x78\x01" + _stored(data) + struct.pack(">I", zlib.adler32(data))


def gzip_stream(data: bytes) -> bytes:
    """Returns data as gzip has it (RFC 1952), not compressed, without time and system."""
    end = struct.pack("<II", crc32(data), len(data) & 0xFFFFFFFF)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + _stored(data) + end


def _stored(data: bytes) -> bytes:
    """Returns data in stored blocks (RFC 1951)."""
    blocks = [data[at : at + 65535] for at in range(0, len(data) or 1, 65535)]
    heads = [struct.pack("<BHH", i == len(blocks) - 1, len(b), len(b) ^ 0xFFFF) for i, b in enumerate(blocks)]
    return b"".join(head + block for head, block in zip(heads, blocks, strict=True))


def _wrapped(step: Consumer, depth: int) -> Content:
    """Returns the content of a text that is in base64, or compressed."""
    method = step.setting("compression_type", "")
    how = f" compressed by {method}" if method else " in base64" if step.op == "DecodeBase64" else ""
    wrap: Callable[[bytes], bytes] = {"ZLIB": zlib_stream, "GZIP": gzip_stream}.get(method, bytes)
    if step.op == "DecodeBase64":
        wrap = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=")  # noqa: E731
    inner = _content(step, 0, dtypes.STRING, depth + 1)
    made = for_step(f"{inner.made.split(', for ')[0]}{how}", step)
    return Content("wrapped", made, make=lambda seed, size: wrap(inner.make(seed, size)))


def _json(step: Consumer, depth: int) -> Content:
    features = _content(step, 0, dtypes.STRING, depth + 1).features
    made = for_step(f"tf.Example with {_keys(features)}, as JSON", step)

    def make(seed: int, _: Picture) -> bytes:
        values = {key: _json_feature(found) for key, found in sorted(_values_of(features, seed).items())}
        return json.dumps({"features": {"feature": values}}).encode()

    return Content("json", made, features=features, make=make)


def _json_feature(values: Values) -> dict[str, dict[str, list[Any]]]:
    if values and isinstance(values[0], bytes):
        texts = [base64.b64encode(v).decode() for v in values if isinstance(v, bytes)]
        return {"bytesList": {"value": texts}}
    if values and isinstance(values[0], int):
        return {"int64List": {"value": list(map(str, values))}}
    return {"floatList": {"value": list(values)}}


# -- examples --------------------------------------------------------------------------------------------


def _example(step: Consumer, depth: int) -> Content:
    """Returns the content of a tf.Example: for each output of the parser with values, a feature."""
    definition, node = step.node.op_def, step.node

    def places(args: Sequence[Arg]) -> list[tuple[str, int, int]]:
        """Returns for each tensor of `args` the name of the argument, its index there, and its dtype."""
        found = [(arg.name, arg_dtypes([arg], definition, node.plain_attr)) for arg in args]
        return [(name, i, dtype) for name, types in found for i, dtype in enumerate(types)]

    assert definition is not None
    keys: dict[str, list[bytes]] = {}  # the keys are attributes of some parsers, and constant inputs of others
    for slot, (name, _, _) in enumerate(places(definition.inputs)[:MOST_NODES]):
        found = step.constant(slot) if name.endswith("_keys") else None
        keys.setdefault(name, []).extend([k for k in found.values if isinstance(k, bytes)] if found is not None else [])
    features: list[Feature] = []
    for port, (name, i, dtype) in enumerate(places(definition.outputs)):
        group = name.removesuffix("_values")
        names = keys.get(f"{group}_keys") or step.setting(f"{group}_keys", [])
        if name == group or i >= len(names):
            continue
        shapes = node.attr(f"{group}_shapes")
        dims = [shape_of(shape) or () for shape in shapes.list.shape][i : i + 1] if shapes is not None else []
        # An unknown first dimension is a length: one row of the others.
        count = prod(max(dim, 1) for dim in dims[0]) if dims else 2 if "ragged" in group else 1
        if count > MOST_VALUES:
            raise _NotGeneratedError(f"{count} values for one feature", step, _TOO_LARGE)
        content = _content(step, port, dtype, depth + 1)
        key = names[i].decode("utf-8", "surrogateescape")
        features.append(Feature(key, dtype, count, content, group.startswith("feature_list")))
    single = [feature for feature in features if not feature.is_list]
    repeated = [feature for feature in features if feature.is_list]

    def sequence(seed: int, _: Picture) -> bytes:
        steps = [_values_of(repeated, seed, step) for step in range(STEPS)]
        lists = {f.key: b"".join(encode_len(1, _feature(values[f.key])) for values in steps) for f in repeated}
        return encode_len(1, _map(_encoded(_values_of(single, seed)))) + encode_len(2, _map(lists))

    is_sequence = "Sequence" in step.op
    first = listed((feature.key for feature in features), 5) or "nothing"
    made = for_step(f"tf.{'Sequence' * is_sequence}Example with {first}", step)
    make = sequence if is_sequence else lambda seed, _: example(_values_of(single, seed))
    return Content("sequence" if is_sequence else "example", made, features=tuple(features), make=make)


def _keys(features: Sequence[Feature]) -> str:
    """Returns the first few keys of `features`."""
    return listed((feature.key for feature in features), 5) or "nothing"


def _values_of(features: Sequence[Feature], seed: int, step: int = 0) -> dict[str, Values]:
    """Returns the values of features of a tf.Example by key; `step` is the number in a list of steps."""
    out: dict[str, Values] = {}
    for feature in features:
        own = _seed_of(seed, feature.key) + step
        if feature.content.kind == "text":
            rng = random.Random(own)
            out[feature.key] = [b"text %d" % rng.randrange(8) for _ in range(feature.length)]
        else:
            data = generated(feature.content, feature.dtype, (feature.length,), own)
            out[feature.key] = unpacked(feature.dtype, data) if isinstance(data, bytes) else data
    return out


def example(features: Mapping[str, Values]) -> bytes:
    """Returns a serialized tf.Example with these features."""
    return encode_len(1, _map(_encoded(features)))


def _encoded(features: Mapping[str, Values]) -> dict[str, bytes]:
    return {key: _feature(values) for key, values in features.items()}


def _map(entries: Mapping[str, bytes]) -> bytes:
    """Returns a map of messages by key, as the fields of a message."""
    keys = {key: key.encode("utf-8", "surrogateescape") for key in sorted(entries)}
    return b"".join(encode_len(1, encode_len(1, name) + encode_len(2, entries[key])) for key, name in keys.items())


def _feature(values: Values) -> bytes:
    if values and isinstance(values[0], bytes):
        return encode_len(1, b"".join(encode_len(1, v) for v in values if isinstance(v, bytes)))
    if values and isinstance(values[0], int):
        return encode_len(3, encode_len(1, b"".join(encode_varint(v) for v in values if isinstance(v, int))))
    return encode_len(2, encode_len(1, struct.pack(f"<{len(values)}f", *values)))


# -- bytes and lines -------------------------------------------------------------------------------------

_SAME_ORDER: dict[str, Container[int]] = inputs_of(
    "Identity Cast Sub Add AddV2 Mul RealDiv Div Enter Switch StopGradient StridedSlice Slice ExpandDims", 0
)
_DEFAULT_LENGTH = 16


def _decoded_dtype(step: Consumer) -> int:
    """Returns the dtype that a decoder of bytes returns. Raises _NotGeneratedError if its bytes are not known."""
    dtype = step.setting("out_type", 0)
    if not dtypes.element_size(dtype) and dtype != dtypes.STRING:
        raise _NotGeneratedError(f"bytes of {dtypes.dtype_name(dtype)}", step)
    return dtype


def _tensor(step: Consumer, depth: int) -> Content:
    """Returns the content of a serialized tensor, in the shape that its consumers expect."""
    dtype = _decoded_dtype(step)
    targets = (_target(user) for user in following(step, 0, _SAME_ORDER))
    shape = next((tuple(max(dim, 1) for dim in dims) for dims in targets if dims), (2, 3))
    if prod(shape) > MOST_VALUES:
        raise _NotGeneratedError(f"a tensor of {prod(shape)} elements", step, _TOO_LARGE)
    inner = _content(step, 0, dtype, depth + 1)

    def make(seed: int, _: Picture) -> bytes:
        data = generated(inner, dtype, shape, seed)
        proto = raw_value(dtype, shape, data if isinstance(data, bytes) else b"").tensor
        proto.string_val.extend(data if isinstance(data, list) else [])
        return proto.SerializeToString(deterministic=True)

    return Content("tensor", for_step(f"serialised tensors of {dtypes.dtype_name(dtype)}", step), make=make)


def _raw(step: Consumer, _depth: int) -> Content:
    """Returns the content of the bytes of a tensor."""
    dtype = _decoded_dtype(step)
    size = dtypes.element_size(dtype) or 1
    fixed = step.ints(1) if step.op == "DecodePaddedRaw" else ()
    length = max(fixed[0], 0) // size if len(fixed) == 1 else _expected_length(step)
    if length > MOST_VALUES:
        raise _NotGeneratedError(f"{length * size} bytes", step, _TOO_LARGE)
    is_swapped = step.node.setting("little_endian") is False and size > 1
    inner = number_content(step, dtype)

    def make(seed: int, _: Picture) -> bytes:
        data = generated(inner, dtype, (length,), seed)
        assert isinstance(data, bytes)
        if is_swapped:  # the elements in reverse, and then all bytes: this reverses the bytes of each element
            return reversed_elements(Tensor(dtype, (length,), data)).tobytes()[::-1]
        return data

    return Content("raw", for_step(f"{length * size} bytes of {dtypes.dtype_name(dtype)}", step), make=make)


def _expected_length(step: Consumer) -> int:
    """Returns the number of elements of one text that the consumers of a decoder of bytes expect."""

    def last(user: Consumer, slot: int) -> int:
        return max([0, *user.ints(slot)[-1:]])

    most = 0
    for user in following(step, 0, _SAME_ORDER):
        begin = sum(last(s, 1) for s in user.path() if s.op in ("StridedSlice", "Slice"))
        dims = _target(user)
        if any(dim > 1 for dim in dims) or dims == (1,):
            most = max(most, begin + prod(max(dim, 1) for dim in dims))
        elif user.op == "StridedSlice" and user.slot == 0 and not user.node.setting("end_mask"):
            most = max(most, begin + last(user, 2))
        elif user.op == "Slice" and user.slot == 0:
            most = max(most, begin + last(user, 1) + last(user, 2))
    return most or _DEFAULT_LENGTH


def _target(step: Consumer) -> tuple[int, ...]:
    """Returns the shape that a Reshape or EnsureShape outputs, -1 for an unknown dimension; () for other ops."""
    if step.op == "EnsureShape":
        value = step.node.attr("shape")
        return (shape_of(value.shape) if value is not None else None) or ()
    return step.ints(1) if step.op == "Reshape" and step.slot == 0 else ()


def _spelt(content: Content, dtype: int, seed: int) -> bytes:
    """Returns a number, or a text, as text."""
    data = generated(content, dtype, (1,), seed)
    if isinstance(data, list):
        return data[0]
    value = unpacked(dtype, data)[0]
    return b"%d" % value if isinstance(value, int) else b"%g" % value


def _digits(step: Consumer, _depth: int) -> Content:
    dtype = step.setting("out_type", 0) or dtypes.FLOAT32
    inner = number_content(step, dtype)
    is_any = inner.kind == "number" and not inner.bound

    def make(seed: int, _: Picture) -> bytes:
        return b"%d" % (seed % 10) if is_any else _spelt(inner, dtype, seed)

    return Content("digits", for_step("digits", step), make=make)


def _csv(step: Consumer, depth: int) -> Content:
    """Returns the content of a line with the fields that a DecodeCSV reads."""
    types: list[int] = step.setting("OUT_TYPE", [])
    selected: list[int] = step.setting("select_cols", [])
    columns = [column for column in selected if column >= 0] or list(range(len(types)))
    if max(columns, default=0) > MOST_NODES:
        raise _NotGeneratedError(f"lines of {max(columns)} fields", step, _TOO_LARGE)
    fields = [(Content("number"), int(dtypes.INT32))] * (max(columns, default=-1) + 1)
    for i, (column, dtype) in enumerate(zip(columns, types, strict=False)):
        fields[column] = _content(step, i, dtype, depth + 1), dtype
    delimiter = (step.setting("field_delim", "") or ",").encode()

    def quoted_field(text: bytes) -> bytes:
        is_special = any(c in text for c in (delimiter, b'"', b"\n", b"\r"))
        return b'"' + text.replace(b'"', b'""') + b'"' if is_special else text

    def make(seed: int, _: Picture) -> bytes:
        texts = [_spelt(*field, _seed_of(seed, str(i))) for i, field in enumerate(fields)]
        return delimiter.join(map(quoted_field, texts))

    return Content("csv", for_step(f"lines of {len(fields)} fields", step), make=make)


_PARSERS = """
    ParseExample ParseExampleV2 ParseSingleExample ParseSequenceExample ParseSequenceExampleV2
    ParseSingleSequenceExample
"""
_MAKERS: dict[str, Callable[[Consumer, int], Content]] = {
    **dict.fromkeys("DecodeJpeg DecodeAndCropJpeg ExtractJpegShape DecodeImage DecodePng DecodeGif DecodeWebP "
                    "DecodeBmp".split(), _image),
    **dict.fromkeys(_PARSERS.split(), _example), **dict.fromkeys(("DecodeRaw", "DecodePaddedRaw"), _raw),
    **dict.fromkeys(("DecodeBase64", "DecodeCompressed"), _wrapped),
    "DecodeWav": _recording, "DecodeJSONExample": _json, "ParseTensor": _tensor, "StringToNumber": _digits,
    "DecodeCSV": _csv,
}  # fmt: skip
"""For each op that decodes texts, the function that returns their content."""
