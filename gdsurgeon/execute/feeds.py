"""Makes a feed for any placeholder: from its dtype, its shape, and what consumes it; or takes what a user gives."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

from gdsurgeon.analysis.shapes import compatible, format_shape, placeholder_shape
from gdsurgeon.errors import NotValidatedError, UsageError, quoted
from gdsurgeon.execute import encoded
from gdsurgeon.execute.consumers import Step, downstream, through_identities
from gdsurgeon.execute.given_feeds import given_feed, packed
from gdsurgeon.execute.input_shapes import candidate_shapes
from gdsurgeon.execute.numbers import INTEGERS, SCALARS, numbers
from gdsurgeon.execute.settings import Overrides
from gdsurgeon.graph import dtypes
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.constants import constant, constant_header
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
        choices: values to choose from, where only those mean something.
        features: for ``example``, (key, dtype, values) of each feature.
    """

    kind: str
    bound: int = 0
    choices: tuple[Any, ...] = ()
    features: tuple[tuple[str, int, int], ...] = ()


class InputSpec(NamedTuple):
    """How a placeholder is fed.

    Attributes:
        name: the node.
        dtype: DataType.
        stated: the shape that the placeholder states.
        shapes: full shapes to try, likeliest first.
        content: what goes in.
        given: the values that the user has supplied, one for each sample, the first for any that are missing.
    """

    name: str
    dtype: int
    stated: Shape
    shapes: tuple[tuple[int, ...], ...]
    content: Content
    given: tuple[Tensor, ...] = ()


def input_spec(graph: Graph, node: Node) -> InputSpec:
    """How the placeholder NODE is fed, by what GRAPH says of it.

    Raises:
        NotValidatedError: no feed of that dtype can be made.
    """
    dtype = node.output.dtype
    if dtype != dtypes.STRING and dtype not in dtypes.SIZES:
        what = dtypes.dtype_name(dtype) if dtype else "unknown"
        raise NotValidatedError(f"no feed can be made for {quoted(node.name)}: its dtype is {what}", hint=_HOW)
    choices = _choices(graph, node) if dtype in (dtypes.STRING, dtypes.INT32, dtypes.INT64) else ()
    if choices:
        content = Content("choice", choices=choices)
    elif dtype == dtypes.STRING:
        content = _string_content(graph, node)
    else:
        content = Content("number", _bound(graph, node, dtype))
    shapes = tuple(candidate_shapes(graph, node))
    if dtype == dtypes.STRING:  # a text is a recording or a picture: nobody has a million of them in one tensor
        shapes = tuple(shape for shape in shapes if prod(shape) <= MOST_TEXTS) or shapes[:1]
    return InputSpec(node.name, dtype, placeholder_shape(node), shapes, content)


def overridden(spec: InputSpec, overrides: Overrides) -> InputSpec:
    """SPEC with what the user says of it.

    Raises:
        UsageError: that does not fit.
    """
    given = given_feed(spec.name, spec.dtype, spec.stated, overrides)
    if given is not None:
        if given.dtype != spec.dtype or not compatible(given.shape, spec.stated):
            raise UsageError(
                f"the feed for {quoted(spec.name)} is {dtypes.dtype_name(given.dtype)} {format_shape(given.shape)}, "
                f"and it takes {dtypes.dtype_name(spec.dtype)} {format_shape(spec.stated)}"
            )
        return spec._replace(shapes=(given.shape,), given=(given,))
    shape = overrides.shapes.get(spec.name)
    if shape is None:
        return spec
    if not compatible(shape, spec.stated):
        raise UsageError(
            f"{quoted(spec.name)} takes {format_shape(spec.stated)}, and --shape says {format_shape(shape)}"
        )
    return spec._replace(shapes=(shape,))


_HOW = "--feed NAME=VALUE, --feeds FILE.npz or --shape NAME=1,2,3 supply it; --validate structure does without"


def input_seed(seed: int, name: str) -> int:
    """The seed of an input's value: its own for each input, and the same for one name in every graph."""
    return 1000 * seed + crc32(name.encode()) % 1000


MOST_TEXTS = 16
"""Recordings, pictures and the like that are made for one input; of more elements they come again."""


def make_feed(
    spec: InputSpec,
    shape: tuple[int, ...],
    seed: int,
    picture: tuple[int, int] | None = None,
    *,
    wide: bool = False,
    sample: int = 0,
) -> Feed:
    """A value for the input, by SEED; an image of the height and width of PICTURE, where that is given.

    WIDE: floats of either sign, and whole settings one larger, for feeds that are to be unlike the others.

    Raises:
        NotValidatedError: it would be too big.
    """
    if spec.given:
        return spec.given[sample if sample < len(spec.given) else 0]
    count = 1
    for dim in shape:
        count *= dim
    if count * dtypes.SIZES.get(spec.dtype, 64) > MOST_BYTES:
        raise NotValidatedError(f"a feed for {quoted(spec.name)} {format_shape(shape)} would be too big", hint=_HOW)
    if spec.content.choices:
        chosen = [spec.content.choices[(seed + i) % len(spec.content.choices)] for i in range(count)]
        return Tensor(spec.dtype, shape, packed(spec.dtype, chosen))
    if spec.dtype == dtypes.STRING:
        return _strings(spec.content, shape, count, seed, picture)
    if not shape and spec.dtype in SCALARS:
        value = _scalar(spec.name, seed)
        if wide and spec.dtype in (dtypes.INT32, dtypes.INT64) and not spec.content.bound:
            value = max(value, 3.0) + 1
        return Tensor(spec.dtype, (), SCALARS[spec.dtype](value))
    return Tensor(spec.dtype, shape, numbers(spec.dtype, count, spec.content.bound, seed, wide=wide))


def variable_value(dtype: int, shape: tuple[int, ...], seed: int) -> Tensor:
    """A value for a variable that the file has none for."""
    count = 1
    for dim in shape:
        count *= dim
    return Tensor(dtype, shape, numbers(dtype, count, 0, seed))


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


def _choices(graph: Graph, node: Node) -> tuple[Any, ...]:
    """For an input that is looked up in a table: the keys that the table is initialised with."""
    for step_node, slot in _through(graph, node, ("Identity", "Cast", "Reshape", "ExpandDims", "Squeeze")):
        if step_node.op not in ("LookupTableFind", "LookupTableFindV2") or slot != 1:
            continue
        for user in graph.users(through_identities(step_node.inputs[0].node)):
            if user.op in ("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2"):
                keys = constant(through_identities(user.inputs[1].node))
                if keys is not None and keys.values:
                    return tuple(keys.values[:1000])
    return ()


def _bound(graph: Graph, node: Node, dtype: int) -> int:
    """For an integer input that indexes a constant: how many there are to choose from."""
    if dtype not in INTEGERS and dtype != dtypes.UINT8:
        return 0
    bounds: list[int] = []
    for user, slot in _through(graph, node, ("Identity", "Cast", "Reshape", "ExpandDims", "Squeeze")):
        if user.op in ("Gather", "GatherV2", "ResourceGather", "GatherNd") and slot == 1:
            header = constant_header(through_identities(user.inputs[0].node))
            axis = constant(through_identities(user.inputs[2].node)) if len(user.inputs) > 2 else None
            at = int(axis.values[0]) if axis is not None and axis.values else 0
            if header is not None and header.dims and -len(header.dims) <= at < len(header.dims):
                bounds.append(header.dims[at])
    return min(bounds, default=0)


def _through(graph: Graph, node: Node, transparent: tuple[str, ...]) -> Iterator[tuple[Node, int]]:
    """The consumers of NODE, and of what TRANSPARENT ops make of it, each with the slot that reads it."""
    queue = [node]
    for producer in queue:  # grows while it is walked
        for user in graph.users(producer):
            slot = next((i for i, read in enumerate(user.inputs) if read.node is producer), -1)
            yield user, slot
            if user.op in transparent and slot == 0 and len(queue) < 100:
                queue.append(user)


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


def _strings(content: Content, shape: tuple[int, ...], count: int, seed: int, picture: tuple[int, int] | None) -> Feed:
    if content.kind == "jpeg":
        return Jpeg(shape, tuple(encoded.picture(seed + i, *picture or ()) for i in range(count)))
    distinct = [_text(content, seed + i, picture) for i in range(min(count, MOST_TEXTS))]
    return Tensor(dtypes.STRING, shape, [distinct[i % MOST_TEXTS] for i in range(count)])


def _text(content: Content, seed: int, picture: tuple[int, int] | None) -> bytes:
    if content.kind == "png":
        return encoded.png(encoded.picture(seed, *picture or ()))
    if content.kind == "bmp":
        return encoded.bmp(encoded.picture(seed, *picture or ()))
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
