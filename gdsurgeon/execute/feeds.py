"""Makes a feed for any placeholder: from its dtype, its shape, and what consumes it; or takes what a user gives."""

from __future__ import annotations

import base64
import random
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes import compatible, format_shape, placeholder_shape
from gdsurgeon.errors import NotValidatedError, UsageError, printable, quoted
from gdsurgeon.execute import encoded
from gdsurgeon.execute.consumers import Step, downstream, through_identities
from gdsurgeon.execute.input_shapes import candidate_shapes
from gdsurgeon.execute.settings import Overrides
from gdsurgeon.graph import dtypes
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.runtime.tensor import Tensor

MOST_BYTES = 1 << 30
"""A feed of more bytes than this is not made."""


class Jpeg(NamedTuple):
    """A feed that TensorFlow has to encode first: a picture for each element."""

    shape: tuple[int, ...]
    pictures: tuple[encoded.Pixels, ...]


Feed = Tensor | Jpeg


class Content(NamedTuple):
    """What goes into an input.

    Attributes:
        kind: ``number``, ``jpeg``, ``png``, ``bmp``, ``wav``, ``example``, ``base64``, ``digits`` or ``text``.
        bound: for integers, one more than the largest value; 0 where nothing limits it.
        features: for ``example``, (key, dtype, values) of each feature.
        websafe: for ``base64``.
    """

    kind: str
    bound: int = 0
    features: tuple[tuple[str, int, int], ...] = ()


class InputSpec(NamedTuple):
    """How a placeholder is fed.

    Attributes:
        name: the node.
        dtype: DataType.
        stated: the shape that the placeholder states.
        shapes: full shapes to try, likeliest first.
        content: what goes in.
        given: the value that the user has supplied, or None.
    """

    name: str
    dtype: int
    stated: Shape
    shapes: tuple[tuple[int, ...], ...]
    content: Content
    given: Tensor | None = None


def input_spec(graph: Graph, node: Node) -> InputSpec:
    """How the placeholder NODE is fed, by what GRAPH says of it.

    Raises:
        NotValidatedError: no feed of that dtype can be made.
    """
    dtype = node.output.dtype
    if dtype != dtypes.STRING and dtype not in dtypes.SIZES:
        what = dtypes.dtype_name(dtype) if dtype else "unknown"
        raise NotValidatedError(f"no feed can be made for {quoted(node.name)}: its dtype is {what}", hint=_HOW)
    content = _string_content(graph, node) if dtype == dtypes.STRING else Content("number", _bound(graph, node, dtype))
    return InputSpec(node.name, dtype, placeholder_shape(node), tuple(candidate_shapes(graph, node)), content)


def overridden(spec: InputSpec, overrides: Overrides) -> InputSpec:
    """SPEC with what the user says of it.

    Raises:
        UsageError: that does not fit.
    """
    given = _given(spec, overrides)
    if given is not None:
        if given.dtype != spec.dtype or not compatible(given.shape, spec.stated):
            raise UsageError(
                f"the feed for {quoted(spec.name)} is {dtypes.dtype_name(given.dtype)} {format_shape(given.shape)}, "
                f"and it takes {dtypes.dtype_name(spec.dtype)} {format_shape(spec.stated)}"
            )
        return spec._replace(shapes=(given.shape,), given=given)
    shape = overrides.shapes.get(spec.name)
    if shape is None:
        return spec
    if not compatible(shape, spec.stated):
        raise UsageError(
            f"{quoted(spec.name)} takes {format_shape(spec.stated)}, and --shape says {format_shape(shape)}"
        )
    return spec._replace(shapes=(shape,))


_HOW = "--feed NAME=VALUE, --feeds FILE.npz or --shape NAME=1,2,3 supply it; --validate structure does without"


def make_feed(spec: InputSpec, shape: tuple[int, ...], seed: int) -> Feed:
    """A value for the input, by SEED.

    Raises:
        NotValidatedError: it would be too big.
    """
    if spec.given is not None:
        return spec.given
    count = 1
    for dim in shape:
        count *= dim
    if count * dtypes.SIZES.get(spec.dtype, 64) > MOST_BYTES:
        raise NotValidatedError(f"a feed for {quoted(spec.name)} {format_shape(shape)} would be too big", hint=_HOW)
    if spec.dtype == dtypes.STRING:
        return _strings(spec.content, shape, count, seed)
    if not shape and spec.dtype in _SCALARS:
        return Tensor(spec.dtype, (), _SCALARS[spec.dtype](_scalar(spec.name, seed)))
    return Tensor(spec.dtype, shape, numbers(spec.dtype, count, spec.content.bound, seed))


def variable_value(dtype: int, shape: tuple[int, ...], seed: int) -> Tensor:
    """A value for a variable that the file has none for."""
    count = 1
    for dim in shape:
        count *= dim
    return Tensor(dtype, shape, numbers(dtype, count, 0, seed))


# -- numbers ---------------------------------------------------------------------------------------------

# Floats by their bits: random ones under the mask, the rest fixed, so that all are positive and below 1.
_FLOAT_BITS = {
    1: (4, 0x017FFFFF, 0x3E000000), 2: (8, 0x000FFFFFFFFFFFFF, 0x3FE0000000000000), 19: (2, 0x03FF, 0x3800),
    14: (2, 0x007F, 0x3F00), 24: (1, 0x03, 0x38), 25: (1, 0x07, 0x30), 26: (1, 0x07, 0x30), 27: (1, 0x07, 0x30),
    28: (1, 0x03, 0x38), 8: (4, 0x017FFFFF, 0x3E000000), 18: (8, 0x000FFFFFFFFFFFFF, 0x3FE0000000000000),
}  # fmt: skip
_INTEGERS = {3: "i", 5: "h", 6: "b", 9: "q", 17: "H", 22: "I", 23: "Q", 11: "b", 13: "i", 15: "h", 16: "H"}
_SCALARS: dict[int, Callable[[float], bytes]] = {
    1: lambda v: array("f", [v]).tobytes(), 2: lambda v: array("d", [v]).tobytes(),
    3: lambda v: array("i", [max(int(v), 3)]).tobytes(), 9: lambda v: array("q", [max(int(v), 3)]).tobytes(),
    10: lambda _: b"\0",
}  # fmt: skip


def numbers(dtype: int, count: int, bound: int, seed: int) -> bytes:
    """COUNT elements of DTYPE, little-endian: floats between 0 and 1, bytes of any value, small integers."""
    chance = random.Random(seed)
    if dtype in _FLOAT_BITS:
        size, mask, fixed = _FLOAT_BITS[dtype]
        parts = count * (2 if dtype in (8, 18) else 1)
        return _patterned(chance, parts, size, mask, fixed)
    if dtype in (dtypes.UINT8, 12) and not bound:
        return chance.randbytes(count)
    if dtype == dtypes.BOOL:
        return bytes(b & 1 for b in chance.randbytes(count))
    if dtype in _INTEGERS:
        most = min(bound or 10, 100_000)
        return array(_INTEGERS[dtype], [chance.randrange(most) for _ in range(count)]).tobytes()
    return bytes(b % (bound or 4) for b in chance.randbytes(count * dtypes.SIZES[dtype]))


def _patterned(chance: random.Random, count: int, size: int, mask: int, fixed: int) -> bytes:
    """COUNT words of SIZE bytes, random under MASK; by arithmetic on one long integer, which is fast."""
    if not count:
        return b""
    bits = int.from_bytes(chance.randbytes(count * size), "little")
    masks = int.from_bytes(mask.to_bytes(size, "little") * count, "little")
    fixes = int.from_bytes(fixed.to_bytes(size, "little") * count, "little")
    return (bits & masks | fixes).to_bytes(count * size, "little")


def _scalar(name: str, seed: int) -> float:
    """A value for a scalar, which is a setting more often than data: by what it is called."""
    lowered = name.lower()
    if "size" in lowered:
        return 40.0
    if "keep" in lowered:
        return 1.0
    if any(word in lowered for word in ("drop", "phase", "train")):
        return 0.0
    if any(word in lowered for word in ("factor", "scale", "thresh", "prob", "rate")):
        return 0.7
    return round(random.Random(seed).uniform(0.25, 0.75), 3)


def _bound(graph: Graph, node: Node, dtype: int) -> int:
    """For an integer input that indexes a constant: how many rows that has."""
    if dtype not in _INTEGERS and dtype != dtypes.UINT8:
        return 0
    bounds: list[int] = []
    queue = [node]
    for producer in queue:  # grows while it is walked
        for user in graph.users(producer):
            slot = next((i for i, read in enumerate(user.inputs) if read.node is producer), -1)
            if user.op in ("Gather", "GatherV2", "ResourceGather", "GatherNd") and slot == 1:
                header = constant_header(through_identities(user.inputs[0].node))
                if header is not None and header.dims:
                    bounds.append(header.dims[0])
            elif user.op in ("Identity", "Cast", "Reshape", "ExpandDims", "Squeeze") and len(queue) < 100 and slot == 0:
                queue.append(user)
    return min(bounds, default=0)


# -- strings ---------------------------------------------------------------------------------------------

_DECODERS = {
    "DecodeJpeg": "jpeg", "DecodeAndCropJpeg": "jpeg", "DecodeImage": "jpeg", "ExtractJpegShape": "jpeg",
    "DecodePng": "png", "DecodeBmp": "bmp", "DecodeGif": "png", "DecodeWav": "wav", "DecodeBase64": "base64",
    "StringToNumber": "digits",
}  # fmt: skip
_PARSERS = frozenset(("ParseExample", "ParseExampleV2", "ParseSingleExample"))


def _string_content(graph: Graph, node: Node) -> Content:
    """What kind of text the consumers of a string input understand."""
    for step in downstream(graph, node):
        if step.op in _DECODERS:
            return Content(_DECODERS[step.op])
        if step.op in _PARSERS:
            return Content("example", features=tuple(_features(step)))
    return Content("text")


def _features(step: Step) -> list[tuple[str, int, int]]:
    """(key, dtype, values) of the features that a ParseExample op asks for."""

    def listed(key: str, what: str) -> list[Any]:
        value = step.attr(key)
        return list(getattr(value.list, what)) if value is not None else []

    dense_types, sparse_types = listed("Tdense", "type"), listed("sparse_types", "type")
    dense_shapes = listed("dense_shapes", "shape")
    if step.op == "ParseExampleV2":
        sparse, dense = _constant_strings(step, 2), _constant_strings(step, 3)
    elif step.op == "ParseExample":
        n_sparse, n_dense = step.attr("Nsparse").i, step.attr("Ndense").i
        sparse = [key for i in range(n_sparse) for key in _constant_strings(step, 2 + i)]
        dense = [key for i in range(n_dense) for key in _constant_strings(step, 2 + n_sparse + i)]
    else:
        sparse, dense = listed("sparse_keys", "s"), listed("dense_keys", "s")
    out: list[tuple[str, int, int]] = []
    for i, key in enumerate(dense):
        count = 1
        for dim in dense_shapes[i].dim if i < len(dense_shapes) else ():
            count *= max(dim.size, 1)
        out.append((key.decode(), dense_types[i] if i < len(dense_types) else dtypes.FLOAT32, count))
    out.extend(
        (key.decode(), sparse_types[i] if i < len(sparse_types) else dtypes.INT64, 1) for i, key in enumerate(sparse)
    )
    return out


def _constant_strings(step: Step, slot: int) -> list[bytes]:
    found = step.constant(slot)
    return list(found.values) if found is not None else []


def _strings(content: Content, shape: tuple[int, ...], count: int, seed: int) -> Feed:
    if content.kind == "jpeg":
        return Jpeg(shape, tuple(encoded.picture(seed + i) for i in range(count)))
    return Tensor(dtypes.STRING, shape, [_text(content, seed + i) for i in range(count)])


def _text(content: Content, seed: int) -> bytes:
    if content.kind == "png":
        return encoded.png(encoded.picture(seed))
    if content.kind == "bmp":
        return encoded.bmp(encoded.picture(seed))
    if content.kind == "wav":
        return encoded.wav(seed)
    if content.kind == "digits":
        return b"%d" % (seed % 10)
    if content.kind == "base64":
        return base64.urlsafe_b64encode(encoded.png(encoded.picture(seed))).rstrip(b"=")
    if content.kind == "example":
        features = {key: encoded.feature_of(dtype, n, seed) for key, dtype, n in content.features}
        return encoded.example(features)
    return b"text %d" % seed


# -- what a user gives -----------------------------------------------------------------------------------


def _given(spec: InputSpec, overrides: Overrides) -> Tensor | None:
    """The user's value for an input, or None."""
    text = overrides.values.get(spec.name)
    if text is not None and text.startswith("@"):
        return _from_file(spec, text[1:])
    if text is not None:
        return _from_text(spec, text)
    if overrides.archive is not None:
        return _from_archive(spec, overrides.archive)
    return None


def _from_file(spec: InputSpec, path: str) -> Tensor:
    try:
        if path.endswith(".npy"):
            import numpy as np

            return _from_array(spec, np.load(path, allow_pickle=False))
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        raise UsageError(f"the feed {printable(path)} for {quoted(spec.name)} cannot be read: {error}") from error
    if spec.dtype != dtypes.STRING:
        raise UsageError(
            f"{quoted(spec.name)} takes {dtypes.dtype_name(spec.dtype)}: a feed from a file must be .npy, "
            "raw bytes are for string inputs"
        )
    return Tensor(dtypes.STRING, _ones(spec), [data])


def _from_archive(spec: InputSpec, path: str) -> Tensor | None:
    try:
        import numpy as np

        with np.load(path, allow_pickle=False) as arrays:
            return _from_array(spec, arrays[spec.name]) if spec.name in arrays else None
    except (OSError, ValueError) as error:
        raise UsageError(f"the feeds {printable(path)} cannot be read: {error}") from error


_QUANTISED = frozenset((11, 12, 13, 15, 16))


def _from_array(spec: InputSpec, value: Any) -> Tensor:
    from gdsurgeon.runtime.tensor import from_numpy

    try:
        # The quantised types have no array type of their own: their words come as plain integers.
        tensor = from_numpy(value, spec.dtype) if spec.dtype in _QUANTISED else from_numpy(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the feed for {quoted(spec.name)} does not fit: {error}") from error
    return tensor


def _ones(spec: InputSpec) -> tuple[int, ...]:
    """The shape of one element with the rank of the placeholder."""
    return (1,) * len(spec.stated or ())


def _from_text(spec: InputSpec, text: str) -> Tensor:
    """A value as it is spelt on the command line: a number, true, a text, or nested lists of numbers in brackets."""
    import json

    if spec.dtype == dtypes.STRING and not text.startswith("["):
        return Tensor(dtypes.STRING, _ones(spec), [text.encode("utf-8", "surrogateescape")])
    try:
        value = json.loads(text.lower() if spec.dtype != dtypes.STRING else text)
    except ValueError:
        raise UsageError(f"the feed {quoted(text)} for {quoted(spec.name)} is not a number or a list of them") from None
    flat: list[Any] = []
    shape = _flatten(value, flat)
    if shape is None:
        raise UsageError(f"the feed {quoted(text)} for {quoted(spec.name)} is a ragged list")
    if not isinstance(value, list):
        shape = _ones(spec)
    try:
        return Tensor(spec.dtype, shape, _packed(spec.dtype, flat))
    except (TypeError, ValueError, OverflowError, KeyError, AttributeError):
        name = dtypes.dtype_name(spec.dtype)
        raise UsageError(f"the feed {quoted(text)} for {quoted(spec.name)} is not {name}") from None


def _packed(dtype: int, flat: Sequence[Any]) -> bytes | list[bytes]:
    if dtype == dtypes.STRING:
        return [item.encode() for item in flat]
    if dtype == dtypes.BOOL:
        return bytes(bool(item) for item in flat)
    if dtype == dtypes.UINT8:
        return bytes(flat)
    codes: Mapping[int, str] = {1: "f", 2: "d", **_INTEGERS}
    return array(codes[dtype], flat).tobytes()


def _flatten(value: Any, out: list[Any]) -> tuple[int, ...] | None:
    """Appends the elements of nested lists to OUT; the shape, or None where it is ragged."""
    if not isinstance(value, list):
        out.append(value)
        return ()
    shapes = {_flatten(item, out) for item in value}
    if len(shapes) > 1 or None in shapes:
        return None
    inner = shapes.pop() if shapes else ()
    return (len(value), *inner) if inner is not None else None
