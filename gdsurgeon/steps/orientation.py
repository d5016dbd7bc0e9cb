"""The orientation that a JPEG's EXIF header states, read and undone in stock ops, without control flow.

EXIF (CIPA DC-008) is a TIFF header behind the bytes `Exif` and two zeros: the order of bytes, where the first directory
begins, and there a number of entries of 12 bytes. Regular expressions bring both orders to one, and find the entry.
"""

from __future__ import annotations

from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import BOOL, INT32
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.value import Value

HEAD = 1 << 17
"""Bytes of a file in which the EXIF header begins: of the segments before it each has up to 64 KiB."""
_HEADER_SIZE = 8
_ENTRY = 12

_HEADER = r"^(?:\CPNG|GIF8)|^\C*?Exif\x00\x00(II|MM)"
"""What precedes a TIFF header, which is left without it. Files of other kinds lose their mark, and have none."""
_OFFSET = r"^(?:II\*\x00(\C)(\C)(\C)(\C)|MM\x00\*(\C)(\C)(\C)(\C))|^\C*"
_COUNT = r"^(?:(\C)\x00|\x00(\C))|^\C*"
"""Of a directory with less than 256 entries one of two bytes is how many."""
_ENTRIES = (
    r"^\C\C(?:\C{12})*?(?:\x12\x01\x03\x00\x01\x00\x00\x00([\x01-\x08])\x00"
    r"|\x01\x12\x00\x03\x00\x00\x00\x01\x00([\x01-\x08]))\C*|^\C*"
)
"""Tag 0x0112, one number of 16 bits, in either order of bytes."""

_ORDERS = ((0, 1, 2),) * 5 + ((1, 0, 2),) * 4
"""By orientation (0: none is stated), where each dimension of the picture comes from: from 5 on it is transposed."""
_FLIPPED = (
    (False, False), (False, False), (False, True), (True, True), (True, False),
    (False, False), (False, True), (True, True), (True, False),
)  # fmt: skip
"""Likewise, whether it is then turned upside down, and left to right."""


def upright(build: Builder, data: Output, image: Value) -> Value:
    """IMAGE, decoded of DATA, as its header says that it is looked at; as it is where no header says so."""
    orientation = _orientation(build, data)
    first = build.constant(INT32, 0)
    orders = build.constant(INT32, [axis for order in _ORDERS for axis in order], (len(_ORDERS), 3))
    flips = build.constant(BOOL, [flip for pair in _FLIPPED for flip in (*pair, False)], (len(_FLIPPED), 3))
    turned = build.add("Transpose", image.tensor, build.add("GatherV2", orders, orientation, first))
    return image.but(tensor=build.add("Reverse", turned, build.add("GatherV2", flips, orientation, first)))


def _orientation(build: Builder, data: Output) -> Output:
    """A number from 1 to 8, or 0."""
    start, two, four = (build.constant(INT32, number) for number in (0, 2, 4))
    head = build.add("Substr", data, start, build.constant(INT32, HEAD))
    tiff = _replaced(build, head, _HEADER, r"\1")
    header = build.add("Substr", tiff, start, build.constant(INT32, _HEADER_SIZE))
    found = _number(build, _replaced(build, header, _OFFSET, r"\4\3\2\1\5\6\7\8"), four, is_little=False)
    offset = build.add("ClipByValue", found, start, build.add("StringLength", tiff))
    count = _number(build, _replaced(build, build.add("Substr", tiff, offset, two), _COUNT, r"\1\2"), four)
    length = build.add("AddV2", build.add("Mul", count, build.constant(INT32, _ENTRY)), two)
    entries = build.add("Substr", tiff, offset, length)
    return _number(build, _replaced(build, entries, _ENTRIES, r"\1\2"), four)


def _replaced(build: Builder, text: Output, pattern: str, rewrite: str) -> Output:
    return build.add("StaticRegexReplace", text, pattern=pattern, rewrite=rewrite, replace_global=False)


def _number(build: Builder, text: Output, four: Output, *, is_little: bool = True) -> Output:
    """The number that the bytes of TEXT, up to FOUR, are; 0 of none."""
    numbers = build.add("DecodePaddedRaw", text, four, out_type=INT32, little_endian=is_little)
    return build.add("Squeeze", numbers)
