"""Generates texts for an input: the first consumer that decodes texts decides which.

`_MAKERS` has a function for each decoder: images, recordings, tf.Examples, lines, bytes of tensors. The same functions
make texts inside texts. If no function knows the format of the consumer, the user must give a value. The bytes are the
same for the same seed.
"""

from __future__ import annotations

import base64
import csv
import io
import random
import struct
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

from gdsurgeon.errors import quoted
from gdsurgeon.feeds.consumers import MOST_NODES, Consumer, following
from gdsurgeon.feeds.numbers import (
    INTEGERS,
    Content,
    Picture,
    for_step,
    generated,
    input_seed,
    inputs_of,
    number_content,
    unpacked,
)
from gdsurgeon.graph.attrs import shape_of
from gdsurgeon.graph.constants import raw_value, tensor_value
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import CHECKPOINT_WRITERS, RESTORES
from gdsurgeon.ops.op_defs import Arg, arg_dtypes
from gdsurgeon.text import listed
from gdsurgeon.wire.protos import message

MOST_WRAPPINGS = 2
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
Inside = Callable[[int, int], Content]
"""Returns the content of an output of a decoder, for the number of the output and its dtype."""

_NOT_GENERATED = {
    "ReadFile": "the name of a file", "InitializeTableFromTextFile": "the name of a file",
    "InitializeTableFromTextFileV2": "the name of a file", "DecodeProtoV2": "messages of a type of its own",
    **dict.fromkeys((*RESTORES, *CHECKPOINT_WRITERS, "ShardedFilename"), "the prefix of a checkpoint"),
    "DeserializeSparse": "serialised sparse tensors", "DeserializeManySparse": "serialised sparse tensors",
    "DecodeVideo": "a film", "DecodeAudio": "a recording of an unknown format",
}  # fmt: skip
"""The inputs of some ops that cannot be generated, in words."""


class Feature(NamedTuple):
    """A feature of a tf.Example or tf.SequenceExample.

    Attributes:
        key: the name.
        dtype: float32, int64 or string.
        length: the number of values, in each step of a list.
        content: the values.
        is_list: whether it is a feature list of a tf.SequenceExample.
    """

    key: str
    dtype: int
    length: int
    content: Content
    is_list: bool


class _NotGeneratedError(Exception):
    """No text can be generated for a consumer; the message is the needed text and the reason."""

    def __init__(self, what: str, step: Consumer) -> None:
        super().__init__(f"{for_step(what, step)}, cannot be generated")


def content_of(start: Consumer, dtype: int) -> Content:
    """Returns the values that the consumers of an input expect."""
    try:
        return _content(start, 0, dtype)
    except _NotGeneratedError as error:
        return Content("none", str(error))


def _made_text(what: str, step: Consumer, make: Callable[[int, Picture], bytes]) -> Content:
    """Returns the content of texts that `make` returns for a seed and the size of images; `what` describes them."""
    return Content("text", for_step(what, step), make=make)


def _content(start: Consumer, port: int, dtype: int, depth: int = 0) -> Content:
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
            return _MAKERS[step.op](step, partial(_content, step, depth=depth + 1))
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
        if table is None:
            continue
        for user in table[0].readers(None):
            keys = user.constant(1) if user.op in _INITIALIZERS and user.slot == 0 else None
            if keys is not None and keys.values and (keys.dtype == dtype or {keys.dtype, dtype} <= INTEGERS):
                made = f"keys of the table {quoted(table[0].node.name)}"
                return Content("choice", made, choices=tuple(keys.values[:MOST_KEYS]))
    return None


def _text(content: Content, dtype: int, seed: int, picture: Picture = None) -> bytes:
    """Returns a text with `content`, or a number as text."""
    data = generated(content, dtype, (1,), seed, picture=picture)
    if isinstance(data, list):
        return data[0]
    value = unpacked(dtype, data)[0]
    return b"%d" % value if isinstance(value, int) else b"%g" % value


# -- images and recordings -------------------------------------------------------------------------------


def image(seed: int, height: int = 96, width: int = 128) -> list[bytes]:
    """Returns the rows of an image with smooth shades, edges and some noise; each pixel has 3 bytes."""
    rng = random.Random(seed)
    shades = [(rng.randrange(1, 4), rng.randrange(1, 4), rng.randrange(256)) for _ in range(3)]
    top, left = rng.randrange(height), rng.randrange(width)
    return [
        bytes(
            base + down * y + right * x + 90 * (y > top and x > left) + (noise >> 4) & 255
            for x, noise in enumerate(rng.randbytes(width))
            for down, right, base in shades
        )
        for y in range(height)
    ]


def _png(seed: int, size: Picture) -> bytes:
    """Returns an image as a PNG file (RFC 2083)."""
    rows = image(seed, *size or ())
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    data = wrapped("ZLIB", b"".join(b"\0" + row for row in rows))
    chunks = b"IHDR" + header, b"IDAT" + data, b"IEND"
    framed = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", crc32(chunk)) for chunk in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def _bmp(seed: int, size: Picture) -> bytes:
    """Returns an image as an uncompressed BMP file: the rows from bottom to top, the colors from blue to red."""
    rows = image(seed, *size or ())
    width = len(rows[0]) // 3
    pixels = ([row[at : at + 3][::-1] for at in range(0, 3 * width, 3)] for row in reversed(rows))
    data = b"".join(b"".join(row) + b"\0" * (-3 * width % 4) for row in pixels)
    header = struct.pack("<IiiHHIIiiII", 40, width, len(rows), 1, 24, 0, len(data), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, 54) + header + data


def _jpeg(seed: int, size: Picture) -> bytes:
    """Returns a baseline JPEG file (ITU T.81) of random blocks with some texture, with subsampled colors.

    In both Huffman tables, 4 bits are the number of bits of the value after them; no bits end the frequencies of a
    block.
    """
    height, width = size or (96, 128)
    rng = random.Random(seed)
    before = [0, 0, 0]
    bits = ""
    for _, color in product(range(-(-height // 16) * -(-width // 16)), (0, 0, 0, 0, 1, 2)):
        most = 40 if color else 100
        shade = rng.randrange(-most, most)
        for value in (shade - before[color], *(rng.randrange(1, 9) * rng.choice((-1, 1)) for _ in range(3)), 0):
            length = abs(value).bit_length()
            word = value if value > 0 else value + (1 << length) - 1
            bits += f"{length:04b}" + (f"{word:0{length}b}" if length else "")
        before[color] = shade
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
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
    form = struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", len(content))
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(content), b"WAVE") + form + content


def _image(form: str, encode: Callable[[int, Picture], bytes]) -> Callable[[Consumer, Inside], Content]:
    """Returns the maker of images that `encode` encodes."""
    return lambda step, _: _made_text(f"{form} images", step, encode)


def _recording(step: Consumer, _: Inside) -> Content:
    """Returns the content for a WAV decoder.

    The sample rate is the constant that the graph subtracts from the decoded rate, if it subtracts one.
    """
    rates = [user.ints(1) for user in step.readers(1) if user.op == "Sub" and user.slot == 0]
    rate = next((rate[0] for rate in rates if len(rate) == 1 and 0 < rate[0] < 1 << 30), RATE)
    return _made_text("WAV recordings", step, lambda seed, _: _wav(seed, rate))


# -- texts inside texts ----------------------------------------------------------------------------------


def wrapped(method: str, data: bytes) -> bytes:
    """Returns `data` in base64, as the JSON of a tf.Example, or in an uncompressed ZLIB or GZIP stream."""
    if method in ("ZLIB", "GZIP"):  # compressed bytes would depend on the version of zlib
        stream = zlib.compressobj(0, wbits=31 if method == "GZIP" else 15)
        return stream.compress(data) + stream.flush()
    if method == "JSON":
        from google.protobuf.json_format import MessageToJson

        return MessageToJson(message("tensorflow.Example").FromString(data)).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=") if method == "base64" else data


def _wrapped(step: Consumer, inside: Inside) -> Content:
    """Returns the content of a text that is in base64, in JSON, or compressed."""
    method = {"DecodeBase64": "base64", "DecodeJSONExample": "JSON"}.get(step.op) or step.setting(
        "compression_type", ""
    )
    inner = inside(0, dtypes.STRING)
    if method == "JSON" and inner.kind != "example":
        inner = Content("example", "tf.Example with nothing", make=lambda *_: b"")
    how = {"": "", "base64": " in base64", "JSON": ", as JSON"}.get(method, f" compressed by {method}")

    def make(seed: int, size: Picture) -> bytes:
        return wrapped(method, _text(inner, dtypes.STRING, seed, size))

    return _made_text(inner.made.split(", for ")[0] + how, step, make)


# -- examples --------------------------------------------------------------------------------------------


def _example(step: Consumer, inside: Inside) -> Content:
    """Returns the content of a tf.Example or tf.SequenceExample."""
    features = list(_features(step, inside))
    single, repeated = ([feature for feature in features if feature.is_list == is_list] for is_list in (False, True))
    is_sequence = "Sequence" in step.op

    def make(seed: int, _: Picture) -> bytes:
        if not is_sequence:
            return example(_values_of(single, seed))
        steps = [_values_of(repeated, seed, number) for number in range(STEPS)]
        lists = {f.key: _message("FeatureList", feature=[_feature(each[f.key]) for each in steps]) for f in repeated}
        context = _map(_values_of(single, seed))
        made = _message("SequenceExample", context=context, feature_lists={"feature_list": lists})
        return bytes(made.SerializeToString(deterministic=True))

    first = listed((feature.key for feature in features), 5) or "nothing"
    content = _made_text(f"tf.{'Sequence' * is_sequence}Example with {first}", step, make)
    return content if is_sequence else content._replace(kind="example")


def _features(step: Consumer, inside: Inside) -> Iterator[Feature]:
    """Yields a feature for each output of a parser with values."""
    definition, node = step.node.op_def, step.node
    assert definition is not None

    def tensors(args: Iterable[Arg]) -> Iterator[tuple[str, int, int]]:
        """Yields for each tensor of `args` the name of the argument, its index there, and its dtype."""
        for arg in args:
            yield from ((arg.name, i, dtype) for i, dtype in enumerate(arg_dtypes([arg], definition, node.plain_attr)))

    keys: dict[str, list[Any]] = defaultdict(list)  # attributes of some parsers, and constant inputs of others
    for slot, (name, _, _) in enumerate(islice(tensors(definition.inputs), MOST_NODES)):
        found = step.constant(slot) if name.endswith("_keys") else None
        keys[name] += found.values if found is not None else ()
    for port, (name, i, dtype) in enumerate(tensors(definition.outputs)):
        group = name.removesuffix("_values")
        names = keys[f"{group}_keys"] or step.setting(f"{group}_keys", [])
        if name == group or i >= len(names):
            continue
        shapes = node.attr(f"{group}_shapes")
        dims = [shape_of(shape) or () for shape in shapes.list.shape][i : i + 1] if shapes is not None else []
        # An unknown first dimension is a length: one row of the others.
        count = prod(max(dim, 1) for dim in dims[0]) if dims else 2 if "ragged" in group else 1
        if count > MOST_VALUES:
            raise _NotGeneratedError(f"{count} values for one feature", step)
        key = names[i].decode("utf-8", "replace")
        yield Feature(key, dtype, count, inside(port, dtype), group.startswith("feature_list"))


def _values_of(features: Sequence[Feature], seed: int, step: int = 0) -> dict[str, Values]:
    """Returns the values of features of a tf.Example by key; `step` is the number in a list of steps."""
    out: dict[str, Values] = {}
    for feature in features:
        data = generated(feature.content, feature.dtype, (feature.length,), input_seed(seed, feature.key) + step)
        out[feature.key] = unpacked(feature.dtype, data) if isinstance(data, bytes) else data
    return out


def example(features: Mapping[str, Values]) -> bytes:
    """Returns a serialized tf.Example with these features."""
    return bytes(_message("Example", features=_map(features)).SerializeToString(deterministic=True))


def _message(name: str, **fields: Any) -> Any:
    return message(f"tensorflow.{name}")(**fields)


def _map(features: Mapping[str, Values]) -> Any:
    return _message("Features", feature={key: _feature(values) for key, values in features.items()})


def _feature(values: Values) -> Any:
    first = values[0] if values else 0.0
    kind = "bytes_list" if isinstance(first, bytes) else "int64_list" if isinstance(first, int) else "float_list"
    return _message("Feature", **{kind: {"value": values}})


# -- bytes and lines -------------------------------------------------------------------------------------

_SAME_ORDER: dict[str, Container[int]] = inputs_of(
    "Identity Cast Sub Add AddV2 Mul RealDiv Div Enter Switch StopGradient StridedSlice Slice ExpandDims", 0
)
_DEFAULT_LENGTH = 16


def _decoded_dtype(step: Consumer, count: int) -> int:
    """Returns the dtype that a decoder of `count` elements returns. Raises _NotGeneratedError if that is impossible."""
    dtype = step.setting("out_type", 0)
    if count > MOST_VALUES or (not dtypes.element_size(dtype) and dtype != dtypes.STRING):
        raise _NotGeneratedError(f"{count} elements of {dtypes.dtype_name(dtype)}", step)
    return dtype


def _tensor(step: Consumer, inside: Inside) -> Content:
    """Returns the content of a serialized tensor, in the shape that its consumers expect."""
    targets = (_target(user) for user in following(step, 0, _SAME_ORDER))
    shape = next((tuple(max(dim, 1) for dim in dims) for dims in targets if dims), (2, 3))
    dtype = _decoded_dtype(step, prod(shape))
    inner = inside(0, dtype)

    def make(seed: int, _: Picture) -> bytes:
        data = generated(inner, dtype, shape, seed)
        value = tensor_value(dtype, shape, data) if isinstance(data, list) else raw_value(dtype, shape, data)
        return value.tensor.SerializeToString(deterministic=True)

    return _made_text(f"serialised tensors of {dtypes.dtype_name(dtype)}", step, make)


def _raw(step: Consumer, _: Inside) -> Content:
    """Returns the content of the bytes of a tensor."""
    fixed = step.ints(1) if step.op == "DecodePaddedRaw" else ()
    size = dtypes.element_size(step.setting("out_type", 0)) or 1
    length = max(fixed[0], 0) // size if len(fixed) == 1 else _expected_length(step)
    dtype = _decoded_dtype(step, length)
    is_swapped = step.node.setting("little_endian") is False
    inner = number_content(step, dtype)

    def make(seed: int, _: Picture) -> bytes:
        data = generated(inner, dtype, (length,), seed)
        assert isinstance(data, bytes)
        return b"".join(data[at : at + size][::-1] for at in range(0, len(data), size)) if is_swapped else data

    return _made_text(f"{length * size} bytes of {dtypes.dtype_name(dtype)}", step, make)


def _expected_length(step: Consumer) -> int:
    """Returns the number of elements of one text that the consumers of a decoder of bytes expect."""

    def last(user: Consumer, slot: int) -> int:
        return max([0, *user.ints(slot)[-1:]])

    most = 0
    for user in following(step, 0, _SAME_ORDER):
        dims = _target(user)
        if user.op == "StridedSlice":
            end = 0 if user.node.setting("end_mask") else last(user, 2)
        elif user.op == "Slice":
            end = last(user, 1) + last(user, 2)
        else:
            end = prod(max(dim, 1) for dim in dims) if dims == (1,) or max(dims, default=0) > 1 else 0
        if end:
            most = max(most, end + sum(last(s, 1) for s in user.path() if s.op in ("StridedSlice", "Slice")))
    return most or _DEFAULT_LENGTH


def _target(step: Consumer) -> tuple[int, ...]:
    """Returns the shape that a Reshape or EnsureShape outputs, -1 for an unknown dimension; () for other ops."""
    if step.op == "EnsureShape":
        value = step.node.attr("shape")
        return (shape_of(value.shape) if value is not None else None) or ()
    return step.ints(1) if step.op == "Reshape" and step.slot == 0 else ()


def _digits(step: Consumer, _: Inside) -> Content:
    dtype = step.setting("out_type", 0) or dtypes.FLOAT32
    inner = number_content(step, dtype)
    if inner.kind == "number":
        inner, dtype = Content("index", bound=10), dtypes.INT32
    return _made_text("digits", step, lambda seed, _: _text(inner, dtype, seed))


def _csv(step: Consumer, inside: Inside) -> Content:
    """Returns the content of a line with the fields that a DecodeCSV reads."""
    types: list[int] = step.setting("OUT_TYPE", [])
    selected: list[int] = step.setting("select_cols", [])
    columns = [column for column in selected if column >= 0] or list(range(len(types)))
    count = max(columns, default=-1) + 1
    if count > MOST_NODES:
        raise _NotGeneratedError(f"lines of {count} fields", step)
    fields = [(Content("number"), int(dtypes.INT32))] * count
    for port, (column, dtype) in enumerate(zip(columns, types, strict=False)):
        fields[column] = inside(port, dtype), dtype

    def make(seed: int, _: Picture) -> bytes:
        line = io.StringIO(newline="")
        texts = [_text(*field, input_seed(seed, str(i))).decode("latin-1") for i, field in enumerate(fields)]
        csv.writer(line, delimiter=step.setting("field_delim", "") or ",").writerow(texts)
        return line.getvalue().removesuffix("\r\n").encode("latin-1")

    return _made_text(f"lines of {count} fields", step, make)


_PARSERS = """
    ParseExample ParseExampleV2 ParseSingleExample ParseSequenceExample ParseSequenceExampleV2
    ParseSingleSequenceExample
"""
_MAKERS: dict[str, Callable[[Consumer, Inside], Content]] = {
    **dict.fromkeys("DecodeJpeg DecodeAndCropJpeg ExtractJpegShape DecodeImage".split(), _image("JPEG", _jpeg)),
    **dict.fromkeys("DecodePng DecodeGif DecodeWebP".split(), _image("PNG", _png)), "DecodeBmp": _image("BMP", _bmp),
    **dict.fromkeys(_PARSERS.split(), _example), **dict.fromkeys(("DecodeRaw", "DecodePaddedRaw"), _raw),
    **dict.fromkeys(("DecodeBase64", "DecodeCompressed", "DecodeJSONExample"), _wrapped),
    "DecodeWav": _recording, "ParseTensor": _tensor, "StringToNumber": _digits, "DecodeCSV": _csv,
}  # fmt: skip
"""For each op that decodes texts, the function that returns their content."""
