"""Texts: patterns, and records of tf.Example."""

from __future__ import annotations

import re

from gdsurgeon.edits.older.site import Rule, Site, typed
from gdsurgeon.errors import Remark
from gdsurgeon.graph.attrs import int_value
from gdsurgeon.graph.constants import Constant
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import INT32, STRING

_BEGINNING = re.compile(r"\^?([\w/:@ -]+)\.\*\$?", re.ASCII)
"""A pattern of which every text is that begins with some letters, and has no second line."""


# -- patterns -------------------------------------------------------------------------------------------------


def _static_match(site: Site) -> str:
    pattern = site.text("pattern", _bytes(site, "pattern"))
    return site.become("RegexFullMatch", [site.node.inputs[0], pattern], drop=("pattern",))


def _static_replace(site: Site) -> str:
    pattern, rewrite = (site.text(key, _bytes(site, key)) for key in ("pattern", "rewrite"))
    return site.become("RegexReplace", [site.node.inputs[0], pattern, rewrite], drop=("pattern", "rewrite"))


def _bytes(site: Site, key: str) -> bytes:
    return site.node.text_attr(key).encode("utf-8", "surrogateescape")


def _match(site: Site) -> str:
    """Whether a text begins so: its beginning is compared, and it is held to have one line."""
    value = site.value(1)
    pattern = value.values[0] if value is not None and len(value.values) == 1 else b""
    found = _BEGINNING.fullmatch(pattern.decode("utf-8", "replace")) if isinstance(pattern, bytes) else None
    if found is None:
        return Remark(
            "its pattern is not a fixed prefix followed by .*, and no other pattern has an older equivalent",
            "not-a-prefix",
        )
    if site.shape(0) != ():
        return Remark("its input is not known to be a scalar: set the input shapes with set-shape", "shape-unknown")
    read, letters = site.node.inputs[0], found[1].encode()
    ends = [site.ints("begin", 0), site.ints("count", len(letters))]
    first = site.add("first", "Substr", [read, *ends], **typed(T=INT32))
    begins = site.add("begins", "Equal", [first, site.text("letters", letters)], **typed(T=STRING))
    return site.become("LogicalAnd", [begins, _has_one_line(site, read)])


def _has_one_line(site: Site, read: Output) -> Output:
    """Whether a text is still that when it is parted at the ends of lines, and joined without them."""
    texts = site.add("texts", "Reshape", [read, site.ints("one", [1])], **typed(T=STRING, Tshape=INT32))
    lines = site.add("lines", "StringSplit", [texts, site.text("end", b"\n")])
    parts = Output(lines.node, 1)
    joined = site.add("joined", "ReduceJoin", [parts, site.ints("all", [0])])
    return site.add("one_line", "Equal", [joined, read], **typed(T=STRING))


# -- records --------------------------------------------------------------------------------------------------


def _parse(site: Site) -> str:
    """ParseExample takes the keys one by one, which are in a vector now; what is parsed is the same."""
    node = site.node
    if node.plain_attr("ragged_value_types") not in (None, []):
        return Remark(
            "it returns ragged tensors: parse them as sparse tensors instead",
            "ragged-output",
        )
    shape = site.shape(0)
    if shape is None or len(shape) != 1:
        what = "is of unknown rank" if shape is None else "is a scalar"
        return Remark(
            f"its input {what}, but must be a vector of records: set the input shape with set-shape",
            "wrong-shape",
            shape=shape,
        )
    known = [site.value(slot) for slot in (2, 3)]
    if None in known:
        return Remark("the names of its features are not constants", "not-a-constant")
    serialized, names, _, _, _, *defaults = node.inputs
    scopes = ("sparse_keys", "dense_keys")
    keys = [[site.text(f"{scope}_{number}", key) for number, key in enumerate(_texts(value))]
            for scope, value in zip(scopes, known, strict=True)]  # fmt: skip
    attrs = {key: int_value(len(several)) for key, several in zip(("Nsparse", "Ndense"), keys, strict=True)}
    drop = ("num_sparse", "ragged_value_types", "ragged_split_types")
    return site.become("ParseExample", [serialized, names, *keys[0], *keys[1], *defaults], drop=drop, attrs=attrs)


def _texts(value: Constant | None) -> list[bytes]:
    return [item for item in value.values if isinstance(item, bytes)] if value is not None else []


RULES = (
    Rule("ParseExampleV2", "ParseExample", "a vector of records, constant keys, no ragged tensors", _parse),
    Rule("StaticRegexFullMatch", "RegexFullMatch", "", _static_match),
    Rule("StaticRegexReplace", "RegexReplace", "", _static_replace),
    Rule("RegexFullMatch", "Equal of the beginning", "a single text, a pattern that is its beginning and .*", _match),
)
