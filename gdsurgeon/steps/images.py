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
    "whether a vector of items comes in, and not one; by default where the model has an open batch and sizes are one",
    None,
)
"""The parameter that every step has which works on one item of a batch alone."""


def bytes_in(raw: Raw, arguments: Arguments) -> Raw:
    """What a step takes that decodes one item."""
    return Raw(STRING, ())


def require_bytes(value: Value) -> None:
    """Raises Unfit where VALUE is not the bytes of one item."""
    if value.dtype != STRING:
        raise Unfit(f"decodes bytes, and gets {value.told}")
    if value.rank not in (None, 0):
        raise Unfit(f"decodes one text at a time, and gets {value.told}")


ENCODED = "encoded image"
"""What the bytes of an image are called beside it."""
DECODED, UPRIGHT = "an image as it lies in its file", "an image as it is looked at"
_DCT = {"accurate": "INTEGER_ACCURATE", "fast": "INTEGER_FAST"}


@step(
    "decode-image",
    "Decode a JPEG, PNG, GIF or BMP.",
    Parameter("channels", one_of(0, 1, 3, 4), "of the image: 1 grey, 3 RGB, 4 with alpha; 0: those of the file", 3),
    Parameter("format", choice("any", "jpeg", "png", "gif", "bmp"), "what the bytes are", "any"),
    Parameter("dct", choice("accurate", "fast", "default"), "how JPEGs are decoded", "accurate"),
    BATCH,
    sides=(FRONT,),
    example="decode-image(channels=3) | resize(224, 224, like=pillow) | rescale(1/255)",
    explanation="""
    With dct=accurate, JPEG (baseline, progressive, grey, CMYK), PNG and GIF are what Pillow makes of them, bit for
    bit. A PNG of 16 bits is what OpenCV makes of it. TensorFlow's own default (dct=default) is off by a few grey
    levels in most values of a JPEG. format=any takes JPEG, PNG and GIF; with dct=default BMP, too, by an op that
    TensorFlow has since 2.3. An image has 3 dimensions (height, width, channels) and values of 0..255, uint8.
    Pictures of phones lie on their side as often as not: the step exif behind it turns them upright. A batch is a
    vector of texts, of images that may have different sizes until a step gives them one.""",
    takes=bytes_in,
    one_by_one=True,
)
def decode_image(build: Builder, value: Value, *, channels: int, format: str, dct: str, batch: bool | None) -> Value:
    del batch
    require_bytes(value)
    shape: Shape = (-1, -1, channels or -1)
    if format == "gif" and channels not in (0, 3):
        raise Unfit(f"makes 3 channels of a GIF, not {channels}")
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
    "Turn a JPEG upright, as its EXIF header says that it is looked at.",
    sides=(FRONT,),
    example="decode-image | exif | resize(224, 224, like=pillow)",
    explanation="""
    It stands right behind decode-image, whose bytes it looks at, too. The image is what Pillow's
    ImageOps.exif_transpose gives, bit for bit, for all eight orientations; files without EXIF, and those that are no
    JPEG, are left as they are.""",
    one_by_one=True,
)
def exif(build: Builder, value: Value) -> Value:
    if value.is_of == UPRIGHT:
        raise Unfit("the image is upright already")
    if value.is_of != DECODED:
        place = ": it belongs right behind decode-image" if ENCODED in value.beside else ""
        raise Unfit(f"needs what decode-image (format any or jpeg) makes of a JPEG, and gets {value.told}{place}")
    return upright(build, value.beside[ENCODED].tensor, value).being(UPRIGHT)


@step(
    "reverse-channels",
    "Exchange red and blue: RGB becomes BGR.",
    example="reverse-channels",
    explanation="Of an image with three channels. Done twice it would undo itself, and is refused.",
)
def reverse_channels(build: Builder, value: Value) -> Value:
    value.require_numbers()
    value.require_channels(3, "is for")
    if value.is_reversed:
        raise Unfit(f"the channels are reversed already{f': they are {value.colour}' if value.colour else ''}")
    if value.shape is None:
        raise Unfit("needs an image, and gets a tensor of unknown rank")
    tensor = build.add("ReverseV2", value.tensor, build.axes(value.channel_axis % len(value.shape)))
    colour = {"RGB": "BGR", "BGR": "RGB"}.get(value.colour, value.colour)
    return value.but(tensor=tensor, colour=colour, is_reversed=True)
