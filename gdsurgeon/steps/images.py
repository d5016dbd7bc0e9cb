"""Steps that make images of bytes, and exchange their colours."""

from __future__ import annotations

from gdsurgeon.graph.attrs import Shape
from gdsurgeon.ops.dtypes import STRING, UINT8
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.kinds import FLAG, choice, one_of
from gdsurgeon.steps.orientation import upright
from gdsurgeon.steps.step import FRONT, Arguments, Parameter, Raw, step
from gdsurgeon.steps.value import CHANNELS, Unfit, Value

BATCH = Parameter(
    "batch",
    FLAG,
    "whether the input is a vector of items instead of one item; by default, if the model has an open batch "
    "dimension and the sizes are equal",
    None,
)
"""The parameter that every step has which works on one item of a batch alone."""


def bytes_in(raw: Raw, arguments: Arguments) -> Raw:
    """What a step takes that decodes one item."""
    return Raw(STRING, ())


def require_bytes(value: Value) -> None:
    """Raises Unfit where VALUE is not the bytes of one item."""
    if value.dtype != STRING:
        raise Unfit(f"decodes bytes, got {value.told}")
    if value.rank not in (None, 0):
        raise Unfit(f"decodes one string at a time, got {value.told}")


ENCODED = "encoded image"
"""The name under which the bytes of an image are kept."""
DECODED, UPRIGHT = "an image as stored in its file", "an image in its upright orientation"
_DCT = {"accurate": "INTEGER_ACCURATE", "fast": "INTEGER_FAST"}


@step(
    "decode-image",
    "Decode a JPEG, PNG, GIF or BMP.",
    Parameter(
        "channels", one_of(0, 1, 3, 4), "of the image: 1 gray, 3 RGB, 4 with alpha; 0 keeps those of the file", 3
    ),
    Parameter("format", choice("any", "jpeg", "png", "gif", "bmp"), "the format of the bytes", "any"),
    Parameter("dct", choice("accurate", "fast", "default"), "the algorithm that decodes JPEGs", "accurate"),
    BATCH,
    sides=(FRONT,),
    example="decode-image(channels=3) | resize(224, 224, like=pillow) | rescale(1/255)",
    explanation="With dct=accurate, the result for JPEG (baseline, progressive, gray, CMYK), PNG and GIF is "
    "the same as Pillow's, bit for bit. For PNGs with 16 bits, it is the same as OpenCV's. "
    "TensorFlow's own default (dct=default) differs by a few gray levels in most values of a "
    "JPEG. format=any accepts JPEG, PNG and GIF; with dct=default also BMP, by an op that "
    "TensorFlow has since 2.3. An image has 3 dimensions (height, width, channels) and values of "
    "0..255, uint8. Photos from phones are often stored on their side; the step exif after this "
    "step turns them upright. A batch is a vector of strings. Its images may have different "
    "sizes until a step makes them equal.",
    takes=bytes_in,
    one_by_one=True,
)
def decode_image(build: Builder, value: Value, *, channels: int, format: str, dct: str, batch: bool | None) -> Value:
    del batch
    require_bytes(value)
    shape: Shape = (-1, -1, channels or -1)
    if format == "gif" and channels not in (0, 3):
        raise Unfit(f"a GIF has 3 channels, not {channels}")
    if format == "bmp":
        tensor = build.add("DecodeBmp", value.tensor, channels=channels)
    elif format == "png":
        tensor = build.add("DecodePng", value.tensor, channels=channels)
    elif format == "any" and dct == "default":
        tensor = build.add("DecodeImage", value.tensor, channels=channels, expand_animations=False)
    else:
        tensor = build.add("DecodeJpeg", value.tensor, channels=channels, dct_method=_DCT.get(dct, ""))
    image = value.but(
        tensor=tensor, dtype=UINT8, shape=shape, layout="HWC", colour=CHANNELS.get(channels, ""), low=0.0, high=255.0
    )
    if format not in ("any", "jpeg"):
        return image
    return image.but(beside={**value.beside, ENCODED: value}).being(DECODED)


@step(
    "exif",
    "Turn a JPEG upright, according to its EXIF header.",
    sides=(FRONT,),
    example="decode-image | exif | resize(224, 224, like=pillow)",
    explanation="Must directly follow decode-image, because it also reads its bytes. Same result as Pillow's "
    "ImageOps.exif_transpose, bit for bit, for all eight orientations. Files without EXIF, and "
    "files other than JPEG, are not changed.",
    one_by_one=True,
)
def exif(build: Builder, value: Value) -> Value:
    if value.is_of == UPRIGHT:
        raise Unfit("the image is already upright")
    if value.is_of != DECODED:
        place = ": it must directly follow decode-image" if ENCODED in value.beside else ""
        raise Unfit(f"requires a JPEG decoded by decode-image (format any or jpeg), got {value.told}{place}")
    return upright(build, value.beside[ENCODED].tensor, value).being(UPRIGHT)


@step(
    "reverse-channels",
    "Swap red and blue: RGB becomes BGR.",
    example="reverse-channels",
    explanation="For images with three channels. A second use would undo the first, and is refused.",
)
def reverse_channels(build: Builder, value: Value) -> Value:
    value.require_numbers()
    value.require_channels(3, "requires")
    if value.is_reversed:
        raise Unfit(f"the channels are already reversed{f': they are {value.colour}' if value.colour else ''}")
    if value.shape is None:
        raise Unfit("requires an image, got a tensor of unknown rank")
    tensor = build.add("ReverseV2", value.tensor, build.axes(value.channel_axis % len(value.shape)))
    colour = {"RGB": "BGR", "BGR": "RGB"}.get(value.colour, value.colour)
    return value.but(tensor=tensor, colour=colour, is_reversed=True)
