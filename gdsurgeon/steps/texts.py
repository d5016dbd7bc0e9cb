"""Steps that take texts apart, or make numbers of them, one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gdsurgeon.errors import quoted
from gdsurgeon.ops.dtypes import INT64, STRING
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.kinds import FILE, TEXTS, FileRead, whole
from gdsurgeon.steps.lines import lines
from gdsurgeon.steps.step import EITHER, FRONT, Arguments, Parameter, Raw, step
from gdsurgeon.steps.value import Unfit, Value


@step(
    "decode-base64",
    "Decode base64 to bytes.",
    sides=(FRONT,),
    example="decode-base64 | decode-image | resize(224, 224, like=keras)",
    explanation="Accepts the standard alphabet (+ and /) and the web-safe one (- and _), with or without = "
    "at the end, white space anywhere, and data URLs (data:image/png;base64,...). Other "
    "characters fail when the model runs. Decodes each string of a tensor separately.",
)
def decode_base64(build: Builder, value: Value) -> Value:
    if value.dtype != STRING:
        raise Unfit(f"decodes strings, got {value.told}")
    text = build.add("StaticRegexReplace", value.tensor, pattern=r"^\s*data:[^,]*,|\s", rewrite="")
    for standard, safe in ((r"\+", "-"), ("/", "_")):
        text = build.add("StaticRegexReplace", text, pattern=standard, rewrite=safe)
    return value.but(tensor=build.add("DecodeBase64", text))


def _words_in(raw: Raw, arguments: Arguments) -> Raw:
    return raw._replace(dtype=STRING)


@step(
    "lookup",
    "Replace words by numbers from a table.",
    Parameter("file", FILE, "a text file with one word on each line", None),
    Parameter("words", TEXTS, "the words, instead of a file", None),
    Parameter("first", whole(0), "the number of the first word", 0),
    Parameter("default", whole(), "the number of unknown words", -1),
    example="lookup(words=[cat, dog], first=1, default=0)",
    explanation="The words are numbered in their order, int64; cast(int32) changes the dtype. They are "
    "stored in the graph; the file is not needed any more. Words are UTF-8 and whole lines, "
    "compared byte for byte. Empty lines at the end of a file are ignored, and no word may occur "
    "twice. The first call fills the table; no node must run before it.",
    sides=EITHER,
    takes=_words_in,
)
def lookup(
    build: Builder, value: Value, *, file: FileRead | None, words: tuple[str, ...] | None, first: int, default: int
) -> Value:
    if value.dtype != STRING:
        raise Unfit(f"looks up words, got {value.told}")
    if (file is None) == (words is None):
        raise Unfit("requires either file=FILE or words=[...]")
    keys = lines(file, "words") if file is not None else [word.encode() for word in words or ()]
    _check_unique(keys)
    content = b"%d\n%b" % (first, b"\n".join(keys))  # tables of one name are one table, wherever they are
    name = f"words_{hashlib.sha256(content).hexdigest()[:16]}"
    table = build.add("HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name=name)
    numbers = build.constant(INT64, range(first, first + len(keys)))
    filled = build.node("InitializeTableV2", [table, build.constant(STRING, keys), numbers], {})
    # Of a table that is filled already TensorFlow compares the size: no call but the first one takes longer for it.
    reading = [table, value.tensor, build.constant(INT64, default)]
    found = build.node("LookupTableFindV2", reading, {}, controls=[filled]).output
    low, high = min(first, default), max(first + len(keys) - 1, default)
    return value.anew(found, INT64, value.shape).but(low=float(low), high=float(high))


def _check_unique(words: Sequence[bytes]) -> None:
    """Raises Unfit where a word is there twice."""
    places: dict[bytes, int] = {}
    for place, word in enumerate(words, 1):
        if word in places:
            raise Unfit(f"{quoted(word.decode())} occurs twice: word {places[word]} and word {place}")
        places[word] = place
