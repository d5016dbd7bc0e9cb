"""Steps that decode texts, or convert them to numbers, one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated

from gdsurgeon.errors import printable, quoted
from gdsurgeon.ops.dtypes import INT64, STRING
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.catalog import BEFORE, step
from gdsurgeon.steps.language import File, FileRead, NotNegative, Texts, whole
from gdsurgeon.steps.value import Unfit, Value


def lines_of(file: FileRead | None, texts: Sequence[str] | None, what: str) -> list[bytes]:
    """Returns the lines of a file, without empty lines at the end, or the given texts; both are `what`.

    Raises Unfit: the file has no lines, or not exactly one of the two is given.
    """
    if (file is None) == (texts is None):
        raise Unfit(f"requires either file=FILE or {what}=[...]")
    if file is None:
        return [text.encode() for text in texts or ()]
    name = printable(file.path)
    try:
        found = [line.removesuffix("\r") for line in file.data.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        number = file.data.count(b"\n", 0, error.start) + 1
        raise Unfit(f"{name} is not UTF-8 text: line {number:,} cannot be decoded") from None
    while found and not found[-1].strip():
        found.pop()
    for number, line in enumerate(found, 1):
        if "\0" in line:
            raise Unfit(f"{name} is not text: line {number:,} has a zero byte")
    if not found:
        raise Unfit(f"{name} is empty: it has no {what}")
    return [line.encode() for line in found]


@step("decode-base64", side=BEFORE, example="decode-base64 | decode-image | resize(224, 224, like=keras)")
def decode_base64(build: Builder, value: Value) -> Value:
    """Decode base64 to bytes.

    Accepts the standard alphabet (+ and /) and the web-safe one (- and _), with or without = at the end, white
    space anywhere, and data URLs (data:image/png;base64,...). Other characters fail when the model runs. Decodes
    each string of a tensor separately.
    """
    if value.dtype != STRING:
        raise Unfit(f"decodes strings, got {value.description}")
    text = build.add("StaticRegexReplace", value.tensor, pattern=r"^\s*data:[^,]*,|\s", rewrite="")
    for standard, safe in ((r"\+", "-"), ("/", "_")):
        text = build.add("StaticRegexReplace", text, pattern=standard, rewrite=safe)
    return value.replace(tensor=build.add("DecodeBase64", text))


@step(
    "lookup",
    example="lookup(words=[cat, dog], first=1, default=0)",
    takes=lambda output, _: output._replace(dtype=STRING),
)
def lookup(
    build: Builder,
    value: Value,
    *,
    file: File | None = None,
    words: Texts | None = None,
    first: NotNegative = 0,
    default: Annotated[int, whole()] = -1,
) -> Value:
    """Replace words by numbers from a table.

    The words are numbered in their order, int64; cast(int32) changes the dtype. They are stored in the graph; the
    file is not needed any more. Words are UTF-8 and whole lines, compared byte for byte. Empty lines at the end of
    a file are ignored, and no word may occur twice. The first call fills the table; no node must run before it.

    Args:
        file: a text file with one word on each line
        words: the words, instead of a file
        first: the number of the first word
        default: the number of unknown words
    """
    if value.dtype != STRING:
        raise Unfit(f"looks up words, got {value.description}")
    keys = lines_of(file, words, "words")
    places: dict[bytes, int] = {}
    for place, word in enumerate(keys, 1):
        if word in places:
            raise Unfit(f"{quoted(word.decode())} occurs twice: word {places[word]} and word {place}")
        places[word] = place
    content = b"%d\n%b" % (first, b"\n".join(keys))  # tables with equal names are one table
    name = f"words_{hashlib.sha256(content).hexdigest()[:16]}"
    table = build.add("HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name=name)
    numbers = build.constant(INT64, range(first, first + len(keys)))
    filled = build.node("InitializeTableV2", [table, build.constant(STRING, keys), numbers], {})
    # TensorFlow only compares the size of a table that is already filled, so only the first call is slower.
    reading = [table, value.tensor, build.constant(INT64, default)]
    found = build.node("LookupTableFindV2", reading, {}, controls=[filled]).output
    low, high = min(first, default), max(first + len(keys) - 1, default)
    return value.fresh(found, INT64, value.shape).replace(low=float(low), high=float(high))
