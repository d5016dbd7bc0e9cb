"""Generates a feed for a placeholder from its dtype, its shape and its consumers, or uses the user's values."""

from __future__ import annotations

from math import prod
from typing import NamedTuple
from zlib import crc32

from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.errors import Line, NotValidatedError, UsageError, quoted
from gdsurgeon.feeds.given import given_feeds, packed
from gdsurgeon.feeds.infer.consumers import outlet_of, through_identities
from gdsurgeon.feeds.infer.numbers import (
    Content,
    chance_setting,
    number_content,
    number_values,
    packed_numbers,
    setting_of,
)
from gdsurgeon.feeds.infer.shapes import candidate_shapes
from gdsurgeon.feeds.infer.strings import string_content, table_keys, text
from gdsurgeon.feeds.make import encoded
from gdsurgeon.feeds.make.numbers import numbers
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import Shape, format_shape
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.placeholders import placeholder_shape
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import PLACEHOLDERS, UNSET_PLACEHOLDERS
from gdsurgeon.runtime.tensor import Tensor

MOST_BYTES = 1 << 30
"""The largest generated feed in bytes."""
MOST_TEXTS = 16
"""The number of different images, recordings and the like for one input; more elements repeat them."""


class Jpeg(NamedTuple):
    """A feed that TensorFlow must encode: an image for each element."""

    shape: tuple[int, ...]
    pictures: tuple[encoded.Pixels, ...]


Feed = Tensor | Jpeg


class InputSpec(NamedTuple):
    """How a placeholder is fed.

    Attributes:
        name: the node.
        dtype: DataType.
        stated: the shape in the graph.
        shapes: full shapes to try, likeliest first.
        content: the kind of the values.
        given: the user's values, one for each sample; later samples use the first value. Empty without user values.
        has_default: whether the input has a default value.
        default: the default, if it is a small constant.
    """

    name: str
    dtype: int
    stated: Shape
    shapes: tuple[tuple[int, ...], ...]
    content: Content
    given: tuple[Tensor, ...] = ()
    has_default: bool = False
    default: Constant | None = None


def input_spec(node: Node) -> InputSpec:
    """Returns how a placeholder is fed, as far as its graph determines this.

    Raises:
        NotValidatedError: no feed with this dtype is possible.
    """
    dtype = dtypes.base_dtype(node.output.dtype)
    if dtype != dtypes.STRING and not dtypes.element_size(dtype):
        what = dtypes.dtype_name(dtype) if dtype else "unknown"
        raise NotValidatedError(
            f"no feed can be generated for {quoted(node.name)}: its dtype is {what}",
            advice="cannot-be-fed",
        )
    start = outlet_of(node)
    content = table_keys(start, dtype)
    if content is None:
        content = string_content(start) if dtype == dtypes.STRING else number_content(start, dtype)
    shapes = tuple(candidate_shapes(node))
    if dtype == dtypes.STRING:  # a string is a recording or an image: one tensor does not hold a million of them
        shapes = tuple(shape for shape in shapes if prod(shape) <= MOST_TEXTS) or shapes[:1]
    if node.op in UNSET_PLACEHOLDERS:
        return InputSpec(node.name, dtype, placeholder_shape(node), shapes, content)
    default = constant(through_identities(node.inputs[0].node)) if node.inputs else None  # a variable has its value
    if default is not None and compatible(default.shape, placeholder_shape(node)):
        shapes = tuple(dict.fromkeys([default.shape, *shapes]))
    return InputSpec(node.name, dtype, placeholder_shape(node), shapes, content, has_default=True, default=default)


def narrowed(spec: InputSpec, most: int) -> InputSpec:
    """Returns `spec` with integers below `most`, if nothing is known about its numbers."""
    content, is_number = spec.content, spec.dtype in dtypes.FLOATING or dtypes.DTYPES[spec.dtype].is_integer
    if spec.given or not is_number or content.kind not in ("number", "index"):
        return spec
    bound = min(content.bound or most, most)
    made = (
        f"whole numbers below {bound}: the graph refuses other values"
        if bound > 1
        else "0: the graph refuses other values"
    )
    return spec._replace(content=Content("index", made, bound=bound))


def overridden(spec: InputSpec, overrides: Overrides) -> InputSpec:
    """Returns `spec` with the user's values and shape.

    Raises:
        UsageError: these do not fit.
    """
    given = given_feeds(spec.name, spec.dtype, spec.stated, overrides)
    for sample, value in enumerate(given):
        if value.dtype != spec.dtype or not compatible(value.shape, spec.stated):
            of = f", sample {sample}," if sample else ""
            found = f"{dtypes.dtype_name(value.dtype)} {format_shape(value.shape)}"
            raise UsageError(
                f"the feed for {quoted(spec.name)}{of} is {found}, but {dtypes.dtype_name(spec.dtype)} "
                f"{format_shape(spec.stated)} is expected",
                code="dtype-mismatch" if value.dtype != spec.dtype else "shape-mismatch",
                facts={"node": spec.name},
            )
    if given:
        return spec._replace(shapes=(given[0].shape,), given=given)
    shape = overrides.shapes.get(spec.name)
    if shape is None:
        return spec
    if not compatible(shape, spec.stated):
        raise UsageError(
            Line(
                "{name} accepts {stated}, but {shapes} gives {given}",
                name=quoted(spec.name),
                stated=format_shape(spec.stated),
                given=format_shape(shape),
            )
        )
    return spec._replace(shapes=(shape,))


def description(spec: InputSpec, shape: tuple[int, ...] | None = None) -> str:
    """Returns the feed of an input and its reason in a few words; `shape` is its shape if it is not the likeliest."""
    if spec.given:
        return "given"
    content, is_setting = setting_of(spec.name, spec.dtype, spec.shapes[0] if shape is None else shape, spec.content)
    if not spec.has_default:
        return content.made
    made = "different from its default" if is_setting and spec.default is not None else content.made
    return f"{made}; also its default, on one more sample"


def input_seed(seed: int, name: str) -> int:
    """Returns the seed of an input: different for each input, and equal for one name in every graph."""
    return 1000 * seed + crc32(name.encode()) % 1000


def make_feed(
    spec: InputSpec,
    shape: tuple[int, ...],
    seed: int,
    picture: tuple[int, int] | None = None,
    *,
    wide: bool = False,
    sample: int = 0,
) -> Feed:
    """Returns a value for an input.

    Args:
        spec: how to feed the input; the user's values are not changed.
        shape: the full shape.
        seed: for random values.
        picture: height and width of images in pixels, if they are fixed.
        wide: for feeds that should differ from others: floats are also negative, and integer settings are larger by
            one.
        sample: its number, which chooses the given value, and the side of a condition.

    Raises:
        NotValidatedError: the value cannot be generated, or is too large.
    """
    if spec.given:
        return spec.given[sample if sample < len(spec.given) else 0]
    count = prod(shape)
    if spec.content.kind == "none":
        raise NotValidatedError(f"no feed can be generated for {quoted(spec.name)}: {spec.content.made}", advice="feed")
    if count * (dtypes.element_size(spec.dtype) or 64) > MOST_BYTES:
        raise NotValidatedError(
            f"a feed for {quoted(spec.name)} {format_shape(shape)} would be too large", advice="feed"
        )
    if spec.content.kind == "choice":
        chosen = [spec.content.choices[(seed + i) % len(spec.content.choices)] for i in range(count)]
        return Tensor(spec.dtype, shape, packed(spec.dtype, chosen))
    if spec.dtype == dtypes.STRING:
        return _strings(spec.content, shape, count, seed, picture)
    content, is_setting = setting_of(spec.name, spec.dtype, shape, spec.content)
    if is_setting and spec.default is not None and shape == spec.default.shape == ():
        return _other_setting(spec, spec.default, content, seed, sample)
    if is_setting and content.kind != "setting":
        if spec.dtype == dtypes.BOOL:  # of a conditional: one side, then the other
            return Tensor(spec.dtype, shape, bytes([(sample + input_seed(0, spec.name)) & 1]))
        return Tensor(spec.dtype, shape, chance_setting(spec.dtype, seed))
    return Tensor(spec.dtype, shape, number_values(content, spec.dtype, shape, seed, wide=wide))


def _other_setting(spec: InputSpec, default: Constant, content: Content, seed: int, sample: int) -> Tensor:
    """Returns a scalar that differs from the default of a setting; for a condition the other side, then this side."""
    usual = default.values[0]
    assert not isinstance(usual, bytes)
    if spec.dtype == dtypes.BOOL:
        return Tensor(spec.dtype, (), bytes([(bool(usual) + sample + 1) & 1]))
    other = content.choices[0] if content.kind == "setting" else usual
    if other == usual and spec.dtype in dtypes.FLOATING:
        return Tensor(spec.dtype, (), chance_setting(spec.dtype, seed))
    return Tensor(spec.dtype, (), packed_numbers(spec.dtype, [usual + 1 if other == usual else other]))


def variable_value(dtype: int, shape: tuple[int, ...], seed: int) -> Tensor:
    """Returns a value for a variable without a value in the file."""
    return Tensor(dtype, shape, numbers(dtype, prod(shape), 0, seed))


def _strings(content: Content, shape: tuple[int, ...], count: int, seed: int, picture: tuple[int, int] | None) -> Feed:
    if content.kind == "jpeg":
        return Jpeg(shape, tuple(encoded.picture(seed + i, *picture or ()) for i in range(count)))
    distinct = [text(content, seed + i, picture) for i in range(min(count, MOST_TEXTS))]
    return Tensor(dtypes.STRING, shape, [distinct[i % MOST_TEXTS] for i in range(count)])


def given_shapes(graph: Graph, overrides: Overrides) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of inputs that the user gave, directly or by values.

    Raises:
        UsageError: a value cannot be read, or does not fit.
    """
    out = dict(overrides.shapes)
    for node in map(graph.find, overrides.values) if overrides.archive is None else graph.nodes():
        if node is not None and node.op in PLACEHOLDERS and node.name not in out:
            given = given_feeds(node.name, node.output.dtype, placeholder_shape(node), overrides)
            if given:
                out[node.name] = given[0].shape
    return out
