"""Contents for string inputs: images, sounds, tf.Examples."""

from __future__ import annotations

import random
import struct
import zlib
from array import array
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.dtypes import FLOAT32, INT64, UINT8
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
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    out = [b"\x89PNG\r\n\x1a\n"]
    for kind, data in chunks:
        out.append(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
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


@lru_cache(maxsize=128)
def wav(seed: int, samples: int = 16000, rate: int = 16000) -> bytes:
    """A WAV file, mono, 16 bits, of noise over a tone; SAMPLES at RATE Hz."""
    chance = random.Random(seed)
    period = chance.randrange(20, 200)
    data = array("h", [((i % period) * 20000 // period) - 10000 + chance.randrange(-500, 500) for i in range(samples)])
    content = data.tobytes()
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def example(features: Mapping[str, Feature]) -> bytes:
    """A serialised tf.Example with FEATURES."""
    entries = [
        encode_len(1, encode_len(1, key.encode()) + encode_len(2, _feature(values)))
        for key, values in sorted(features.items())
    ]
    return encode_len(1, b"".join(entries))


def _feature(values: Feature) -> bytes:
    first = values[0] if values else 0.0
    if isinstance(first, bytes):
        return encode_len(1, b"".join(encode_len(1, v) for v in values if isinstance(v, bytes)))
    if isinstance(first, float):
        return encode_len(2, encode_len(1, struct.pack(f"<{len(values)}f", *values)))
    return encode_len(3, encode_len(1, b"".join(encode_varint(v) for v in values if isinstance(v, int))))


ENCODER_INPUT, ENCODER_OUTPUT = "pixels", "jpeg"


def jpeg_encoder() -> bytes:
    """A GraphDef that makes a JPEG of pixels: TensorFlow brings the codec, so nobody else has to."""
    dtype = type_value(UINT8).SerializeToString()
    placeholder = encode_node(ENCODER_INPUT, "Placeholder", (), "", {"dtype": dtype})
    encode = encode_node(ENCODER_OUTPUT, "EncodeJpeg", (ENCODER_INPUT,), "", {})
    return encode_len(1, placeholder) + encode_len(1, encode)


def feature_of(dtype: int, count: int, seed: int) -> Feature:
    """COUNT values of a feature of tf.Example: float32, int64 or string."""
    chance = random.Random(seed)
    if dtype == FLOAT32:
        return [chance.random() for _ in range(count)]
    if dtype == INT64:
        return [chance.randrange(8) for _ in range(count)]
    return [b"text %d" % chance.randrange(8) for _ in range(count)]
