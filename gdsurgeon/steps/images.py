"""Steps that decode images, turn them upright, and swap their colors."""

from __future__ import annotations

from typing import Annotated

from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import BOOL, INT32, STRING, UINT8
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.catalog import BEFORE, Arguments, step
from gdsurgeon.steps.language import Flag, choice, one_of
from gdsurgeon.steps.value import CHANNELS, InputSpec, Unfit, Value


def bytes_in(output: InputSpec, arguments: Arguments) -> InputSpec:
    """Returns the input of a step that decodes one item."""
    return InputSpec(STRING, ())


def require_bytes(value: Value) -> None:
    """Raises Unfit if the value is not the bytes of one item."""
    if value.dtype != STRING:
        raise Unfit(f"decodes bytes, got {value.description}")
    if value.rank not in (None, 0):
        raise Unfit(f"decodes one string at a time, got {value.description}")


ENCODED = "encoded image"
"""The name of the extra value with the bytes of an image."""
DECODED, UPRIGHT = "an image as stored in its file", "an image in its upright orientation"
_DCT = {"accurate": "INTEGER_ACCURATE", "fast": "INTEGER_FAST"}


@step(
    "decode-image",
    side=BEFORE,
    example="decode-image(channels=3) | resize(224, 224, like=pillow) | rescale(1/255)",
    takes=bytes_in,
    one_by_one=True,
)
def decode_image(
    build: Builder,
    value: Value,
    *,
    channels: Annotated[int, one_of(0, 1, 3, 4)] = 3,
    format: Annotated[str, choice("any", "jpeg", "png", "gif", "bmp")] = "any",
    dct: Annotated[str, choice("accurate", "fast", "default")] = "accurate",
    batch: Flag | None = None,
) -> Value:
    """Decode a JPEG, PNG, GIF or BMP.

    With dct=accurate, the result for JPEG (baseline, progressive, gray, CMYK), PNG and GIF is the same as Pillow's,
    bit for bit. For PNGs with 16 bits, it is the same as OpenCV's. TensorFlow's own default (dct=default) differs
    by a few gray levels in most values of a JPEG. format=any accepts JPEG, PNG and GIF; with dct=default also BMP,
    by an op that TensorFlow has since 2.3. An image has 3 dimensions (height, width, channels) and values of
    0..255, uint8. Photos from phones are often stored on their side; the step exif after this step turns them
    upright. A batch is a vector of strings. Its images may have different sizes until a step makes them equal.

    Args:
        channels: of the image: 1 gray, 3 RGB, 4 with alpha; 0 keeps those of the file
        format: the format of the bytes
        dct: the algorithm that decodes JPEGs
        batch: whether the input is a vector of items instead of one item; by default, if the model has an open
            batch dimension and the sizes are equal
    """
    del batch
    require_bytes(value)
    shape: Shape = (-1, -1, channels or -1)
    if format == "gif" and channels not in (0, 3):
        raise Unfit(f"a GIF has 3 channels, not {channels}")
    attrs: dict[str, object] = {"dct_method": _DCT.get(dct, "")}
    if format in ("bmp", "png"):
        attrs = {}
    elif format == "any" and dct == "default":
        attrs = {"expand_animations": False}
    op = {"bmp": "DecodeBmp", "png": "DecodePng"}.get(format, "DecodeJpeg" if "dct_method" in attrs else "DecodeImage")
    tensor = build.add(op, value.tensor, channels=channels, **attrs)
    image = value.replace(
        tensor=tensor, dtype=UINT8, shape=shape, layout="HWC", colour=CHANNELS.get(channels, ""), low=0.0, high=255.0
    )
    if format not in ("any", "jpeg"):
        return image
    return image.replace(extras={**value.extras, ENCODED: value}).with_kind(DECODED)


@step("exif", side=BEFORE, example="decode-image | exif | resize(224, 224, like=pillow)", one_by_one=True)
def exif(build: Builder, value: Value) -> Value:
    """Turn a JPEG upright, according to its EXIF header.

    Must directly follow decode-image, because it also reads its bytes. Same result as Pillow's
    ImageOps.exif_transpose, bit for bit, for all eight orientations. Files without EXIF, and files other than JPEG,
    are not changed.
    """
    if value.kind == UPRIGHT:
        raise Unfit("the image is already upright")
    if value.kind != DECODED:
        place = ": it must directly follow decode-image" if ENCODED in value.extras else ""
        raise Unfit(f"requires a JPEG decoded by decode-image (format any or jpeg), got {value.description}{place}")
    return _upright(build, value.extras[ENCODED].tensor, value).with_kind(UPRIGHT)


@step("reverse-channels", example="reverse-channels")
def reverse_channels(build: Builder, value: Value) -> Value:
    """Swap red and blue: RGB becomes BGR.

    For images with three channels. A second use would undo the first, and is refused.
    """
    value.require_numbers()
    value.require_channels(3, "requires")
    if value.is_reversed:
        raise Unfit(f"the channels are already reversed{f': they are {value.colour}' if value.colour else ''}")
    if value.shape is None:
        raise Unfit("requires an image, got a tensor of unknown rank")
    tensor = build.add("ReverseV2", value.tensor, (value.channel_axis % len(value.shape),))
    colour = {"RGB": "BGR", "BGR": "RGB"}.get(value.colour, value.colour)
    return value.replace(tensor=tensor, colour=colour, is_reversed=True)


# -- the orientation in an EXIF header, in stock ops without control flow -----------------------------------
#
# EXIF (CIPA DC-008) is a TIFF header after the bytes `Exif` and two zeros: the byte order, the offset of the first
# directory, and there a number of entries of 12 bytes. Regular expressions convert both byte orders to one, and find
# the entry.

_HEAD = 1 << 17
"""The bytes of a file in which the EXIF header begins: each segment before it has up to 64 KiB."""
_HEADER = r"^(?:\CPNG|GIF8)|^\C*?Exif\x00\x00(II|MM)"
"""The bytes before a TIFF header, which are removed. Other files lose their magic number, so no header fits."""
_OFFSET = r"^(?:II\*\x00(\C)(\C)(\C)(\C)|MM\x00\*(\C)(\C)(\C)(\C))|^\C*"
_COUNT = r"^(?:(\C)\x00|\x00(\C))|^\C*"
"""The number of entries of a directory with less than 256 entries is one of two bytes."""
_ENTRIES = (
    r"^\C\C(?:\C{12})*?(?:\x12\x01\x03\x00\x01\x00\x00\x00([\x01-\x08])\x00"
    r"|\x01\x12\x00\x03\x00\x00\x00\x01\x00([\x01-\x08]))\C*|^\C*"
)
"""Tag 0x0112 with one number of 16 bits, in both byte orders."""
_ORDERS = ((0, 1, 2),) * 5 + ((1, 0, 2),) * 4
"""By orientation (0: not stated), the source of each dimension of the image: from 5 on it is transposed."""
_FLIPS = [axis in flipped for flipped in ((), (), (1,), (0, 1), (0,), (), (1,), (0, 1), (0,)) for axis in range(3)]
"""By orientation, whether each dimension is then reversed."""


def _upright(build: Builder, data: Output, image: Value) -> Value:
    """Returns the image that was decoded from `data` in the orientation of its header, if there is a header."""

    def replaced(text: Output, pattern: str, rewrite: str) -> Output:
        return build.add("StaticRegexReplace", text, pattern=pattern, rewrite=rewrite, replace_global=False)

    def number(text: Output, *, is_little: bool = True) -> Output:
        """Returns the number in up to four bytes; 0 without bytes."""
        return build.add("Squeeze", build.add("DecodePaddedRaw", text, 4, out_type=INT32, little_endian=is_little))

    tiff = replaced(build.add("Substr", data, 0, _HEAD), _HEADER, r"\1")
    offset = number(replaced(build.add("Substr", tiff, 0, 8), _OFFSET, r"\4\3\2\1\5\6\7\8"), is_little=False)
    offset = build.add("ClipByValue", offset, 0, build.add("StringLength", tiff))
    count = number(replaced(build.add("Substr", tiff, offset, 2), _COUNT, r"\1\2"))
    entries = build.add("Substr", tiff, offset, build.add("AddV2", build.add("Mul", count, 12), 2))
    orientation = number(replaced(entries, _ENTRIES, r"\1\2"))
    turned = build.add("Transpose", image.tensor, build.add("GatherV2", _ORDERS, orientation, 0))
    flips = build.constant(BOOL, _FLIPS, (len(_ORDERS), 3))
    return image.replace(tensor=build.add("Reverse", turned, build.add("GatherV2", flips, orientation, 0)))
