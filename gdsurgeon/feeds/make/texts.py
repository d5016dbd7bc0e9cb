"""Made-up texts: what `string_feeds` finds that an input wants, as bytes that depend on the seed alone."""

from __future__ import annotations

import base64
import random
from math import prod
from zlib import crc32

from gdsurgeon.feeds.infer.content import Content, Feature
from gdsurgeon.feeds.infer.numbers import number_values, packed_numbers
from gdsurgeon.feeds.make import encoded
from gdsurgeon.feeds.make.numbers import listed
from gdsurgeon.ops import dtypes
from gdsurgeon.runtime.tensor import Tensor, reversed_elements

STEPS = 3
"""Steps of a feature list of a tf.SequenceExample."""


def text(content: Content, seed: int, picture: tuple[int, int] | None = None) -> bytes:
    """A text with CONTENT, by SEED; an image of the height and width of PICTURE, where that is given."""
    kind = content.kind
    if kind in ("png", "jpeg"):
        return encoded.png(encoded.picture(seed, *picture or ()))
    if kind == "bmp":
        return encoded.bmp(encoded.picture(seed, *picture or ()))
    if kind == "wav":
        return encoded.wav(seed, *content.shape)
    if kind == "choice":
        return bytes(content.choices[seed % len(content.choices)])
    if kind in ("example", "sequence", "json"):
        return _example_text(content, seed)
    if kind == "base64":
        return base64.urlsafe_b64encode(text(content.inner[0], seed, picture)).rstrip(b"=")
    if kind == "compressed":
        data = text(content.inner[0], seed, picture)
        return {"ZLIB": encoded.zlib_stream, "GZIP": encoded.gzip_stream}.get(content.method, bytes)(data)
    if kind in ("raw", "tensor"):
        return _tensor_text(content, seed)
    if kind == "csv":
        delimiter = content.method
        return delimiter.encode().join(
            _field(f, _seed_of(seed, str(i)), delimiter) for i, f in enumerate(content.features)
        )
    if kind == "digits":
        return _digits(content.dtype, content.inner[0], seed)
    return b"text %d" % seed


def _seed_of(seed: int, key: str) -> int:
    """The seed of a part of a text: its own for each."""
    return 1000 * seed + crc32(key.encode("utf-8", "surrogateescape")) % 1000


def _example_text(content: Content, seed: int) -> bytes:
    single = {f.key: _values(f, _seed_of(seed, f.key)) for f in content.features if not f.is_list}
    if content.kind == "example":
        return encoded.example(single)
    if content.kind == "json":
        return encoded.json_example(single)
    lists = {
        f.key: [_values(f, _seed_of(seed, f.key) + step) for step in range(STEPS)]
        for f in content.features
        if f.is_list
    }
    return encoded.sequence_example(single, lists)


def _values(feature: Feature, seed: int) -> encoded.Feature:
    """The values of a feature of tf.Example: float32, int64 or string."""
    content, count = feature.content, feature.length
    if feature.dtype == dtypes.STRING:
        if content.kind == "text":
            chance = random.Random(seed)
            return [b"text %d" % chance.randrange(8) for _ in range(count)]
        return [text(content, seed + i) for i in range(count)]
    return list(listed(feature.dtype, _numbers(content, feature.dtype, (count,), seed)))


def _numbers(content: Content, dtype: int, shape: tuple[int, ...], seed: int) -> bytes:
    """The elements of a tensor of numbers."""
    if content.kind == "choice":
        chosen = [content.choices[(seed + i) % len(content.choices)] for i in range(prod(shape))]
        data = packed_numbers(dtype, chosen)
    else:
        data = number_values(content, dtype, shape, seed)
    assert isinstance(data, bytes)
    return data


def _tensor_text(content: Content, seed: int) -> bytes:
    """A tensor as its bytes, or as a serialised TensorProto."""
    shape, inner = content.shape, content.inner[0]
    if content.dtype == dtypes.STRING:
        return encoded.tensor_proto(content.dtype, shape, [text(inner, seed + i) for i in range(prod(shape))])
    data = _numbers(inner, content.dtype, shape, seed)
    if content.kind == "tensor":
        return encoded.tensor_proto(content.dtype, shape, data)
    if content.method == "big":  # the elements the other way round, and then all bytes: each element's are turned
        turned = reversed_elements(Tensor(content.dtype, shape, data)).data
        return bytes(turned)[::-1] if isinstance(turned, memoryview) else data
    return data


def _digits(dtype: int, content: Content, seed: int) -> bytes:
    """A number as text."""
    if content.kind == "number" and not content.bound:
        return b"%d" % (seed % 10)
    return _spelt(listed(dtype, _numbers(content, dtype, (1,), seed))[0])


def _spelt(value: float) -> bytes:
    return b"%d" % value if isinstance(value, int) else b"%g" % value


def _field(feature: Feature, seed: int, delimiter: str) -> bytes:
    """A field of a line."""
    content, dtype = feature.content, feature.dtype
    if dtype == dtypes.STRING:
        out = text(content, seed)
    else:
        out = _spelt(listed(dtype, _numbers(content, dtype, (1,), seed))[0])
    if any(c in out for c in (delimiter.encode(), b'"', b"\n", b"\r")):
        out = b'"' + out.replace(b'"', b'""') + b'"'
    return out
