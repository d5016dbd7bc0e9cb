"""Contents for string inputs: images, sounds, tf.Examples, tensors; the same bytes wherever they are made."""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gdsurgeon.errors import Json
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.ops.dtypes import UINT8
from gdsurgeon.wire.fields import encode_len, encode_varint
from gdsurgeon.wire.node_record import encode_node

Feature = list[float] | list[int] | list[bytes]


class Pixels(NamedTuple):
    """An image that has not been encoded: row-major, interleaved channels, a byte each."""

    height: int
    width: int
    channels: int
    data: bytes


def picture(seed: int, height: int = 96, width: int = 128, channels: int = 3) -> Pixels:
    """A picture with smooth shades, edges and some noise, as photographs have; by SEED."""
    chance = random.Random(seed)
    noise = chance.randbytes(height * width * channels)
    shades = [(chance.randrange(1, 4), chance.randrange(1, 4), chance.randrange(256)) for _ in range(channels)]
    top, left = chance.randrange(height // 2), chance.randrange(width // 2)
    out = bytearray(height * width * channels)
    at = 0
    for y in range(height):
        for x in range(width):
            inside = top <= y < top + height // 3 and left <= x < left + width // 3
            for down, right, base in shades:
                out[at] = (base + down * y + right * x + 90 * inside + (noise[at] >> 4)) & 255
                at += 1
    return Pixels(height, width, channels, bytes(out))


def png(pixels: Pixels) -> bytes:
    """PIXELS as a PNG file (RFC 2083), 1, 3 or 4 channels."""
    colour = {1: 0, 3: 2, 4: 6}[pixels.channels]
    stride = pixels.width * pixels.channels
    rows = b"".join(b"\0" + pixels.data[y * stride : (y + 1) * stride] for y in range(pixels.height))
    header = struct.pack(">IIBBBBB", pixels.width, pixels.height, 8, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib_stream(rows)), (b"IEND", b"")]
    out = [b"\x89PNG\r\n\x1a\n"]
    for kind, data in chunks:
        out.append(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return b"".join(out)


def zlib_stream(data: bytes) -> bytes:
    """DATA as zlib has it (RFC 1950), not made smaller: what compresses differs from one zlib to the next."""
    return b"\x78\x01" + _stored(data) + struct.pack(">I", zlib.adler32(data))


def gzip_stream(data: bytes) -> bytes:
    """DATA as gzip has it (RFC 1952), not made smaller, of no time and no system."""
    end = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + _stored(data) + end


def _stored(data: bytes) -> bytes:
    """DATA in stored blocks (RFC 1951)."""
    out = []
    for at in range(0, len(data) or 1, 65535):
        block = data[at : at + 65535]
        last = at + 65535 >= len(data)
        out.append(struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block)
    return b"".join(out)


def bmp(pixels: Pixels) -> bytes:
    """PIXELS (3 channels) as an uncompressed BMP file."""
    stride = pixels.width * 3
    padding = b"\0" * (-stride % 4)
    rows = []
    for y in reversed(range(pixels.height)):
        row = bytearray(pixels.data[y * stride : (y + 1) * stride])
        row[0::3], row[2::3] = row[2::3], row[0::3]
        rows.append(bytes(row) + padding)
    data = b"".join(rows)
    header = struct.pack("<IiiHHIIiiII", 40, pixels.width, pixels.height, 1, 24, 0, len(data), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, 54) + header + data


RATE = 16000
"""Samples of a sound in a second, where nothing says how many; and samples of every sound."""


@lru_cache(maxsize=128)
def wav(seed: int, rate: int = RATE) -> bytes:
    """A WAV file, mono, 16 bits, of noise over a tone; RATE is what it says of its samples."""
    chance = random.Random(seed)
    period = chance.randrange(20, 200)
    data = array("h", [((i % period) * 20000 // period) - 10000 + chance.randrange(-500, 500) for i in range(RATE)])
    content = data.tobytes()
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def example(features: Mapping[str, Feature]) -> bytes:
    """A serialised tf.Example with FEATURES."""
    return encode_len(1, _features(features))


def sequence_example(context: Mapping[str, Feature], lists: Mapping[str, Sequence[Feature]]) -> bytes:
    """A serialised tf.SequenceExample with the features CONTEXT and the feature lists LISTS."""
    entries = [
        encode_len(1, encode_len(1, _key(key)) + encode_len(2, b"".join(encode_len(1, _feature(s)) for s in steps)))
        for key, steps in sorted(lists.items())
    ]
    return encode_len(1, _features(context)) + encode_len(2, b"".join(entries))


def _features(features: Mapping[str, Feature]) -> bytes:
    return b"".join(
        encode_len(1, encode_len(1, _key(key)) + encode_len(2, _feature(values)))
        for key, values in sorted(features.items())
    )


def _key(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _feature(values: Feature) -> bytes:
    first = values[0] if values else 0.0
    if isinstance(first, bytes):
        return encode_len(1, b"".join(encode_len(1, v) for v in values if isinstance(v, bytes)))
    if isinstance(first, float):
        return encode_len(2, encode_len(1, struct.pack(f"<{len(values)}f", *values)))
    return encode_len(3, encode_len(1, b"".join(encode_varint(v) for v in values if isinstance(v, int))))


def json_example(features: Mapping[str, Feature]) -> bytes:
    """A tf.Example with FEATURES as JSON."""
    return json.dumps({"features": {"feature": {k: _json_feature(v) for k, v in sorted(features.items())}}}).encode()


def _json_feature(values: Feature) -> dict[str, dict[str, Sequence[Json]]]:
    first = values[0] if values else 0.0
    if isinstance(first, bytes):
        texts = [base64.b64encode(v).decode() for v in values if isinstance(v, bytes)]
        return {"bytesList": {"value": texts}}
    if isinstance(first, float):
        return {"floatList": {"value": list(values)}}
    return {"int64List": {"value": [str(v) for v in values]}}


def tensor_proto(dtype: int, shape: Sequence[int], data: bytes | list[bytes]) -> bytes:
    """A serialised TensorProto with the elements DATA."""
    dims = b"".join(encode_len(2, b"\x08" + encode_varint(size)) for size in shape)
    content = b"".join(encode_len(8, text) for text in data) if isinstance(data, list) else encode_len(4, data)
    return b"\x08" + encode_varint(dtype) + encode_len(2, dims) + content


ENCODER_INPUT, ENCODER_OUTPUT = "pixels", "jpeg"


def jpeg_encoder() -> bytes:
    """A GraphDef that encodes pixels as JPEG with TensorFlow's own codec, so no other library is needed."""
    dtype = type_value(UINT8).SerializeToString()
    placeholder = encode_node(ENCODER_INPUT, "Placeholder", (), "", {"dtype": dtype})
    encode = encode_node(ENCODER_OUTPUT, "EncodeJpeg", (ENCODER_INPUT,), "", {})
    return encode_len(1, placeholder) + encode_len(1, encode)
