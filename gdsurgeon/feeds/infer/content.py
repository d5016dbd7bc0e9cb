"""The kinds of content of an input, as far as the graph shows them; the modules that make feeds use them."""

from __future__ import annotations

from typing import Any, NamedTuple

from gdsurgeon.errors import quoted
from gdsurgeon.feeds.infer.consumers import Step


class Content(NamedTuple):
    """What goes into an input.

    Attributes:
        kind: of numbers: ``number`` (nothing is known of them), ``pixels`` (0 to 255), ``unit`` (0 to 1), ``index``
            (whole numbers below `bound`), ``sorted`` (such that never become smaller), ``coordinates`` (rows of them,
            ascending), ``positions`` (0, 1, 2, ...), ``shape`` (the `choices`, or with -1 where there are others) or
            ``setting`` (the `choices` in their order, the last again and again); of texts: ``jpeg``, ``png``, ``bmp``,
            ``wav``, ``example``, ``sequence``, ``json``, ``base64``, ``compressed``, ``raw``, ``tensor``, ``csv``,
            ``digits`` or ``text``; of both ``choice`` (one of `choices` by the seed) and ``none`` (cannot be made).
        made: the generated value and the reason, in a few words; for ``none`` the value that the user has to give.
        bound: for whole numbers, one more than the largest; 0 where nothing limits it.
        choices: values that mean something.
        grows: whether a setting may as well be one larger.
        features: for ``example``, ``sequence`` and ``json`` the features, for ``csv`` the fields.
        dtype: for ``raw``, ``tensor`` and ``digits`` the DataType of what is read out of the text.
        shape: for ``raw`` and ``tensor`` the shape of that; for ``wav`` the sample rate, where that matters.
        method: for ``compressed`` how, for ``csv`` what parts the fields, for ``raw`` whether it is ``big`` endian, for
            ``shape`` the op that takes it.
        inner: for ``base64``, ``compressed``, ``raw``, ``tensor`` and ``digits`` what is in the text.
    """

    kind: str
    made: str = ""
    bound: int = 0
    choices: tuple[Any, ...] = ()
    grows: bool = False
    features: tuple[Feature, ...] = ()
    dtype: int = 0
    shape: tuple[int, ...] = ()
    method: str = ""
    inner: tuple[Content, ...] = ()


class Feature(NamedTuple):
    """A feature of a tf.Example or tf.SequenceExample, or a field of a line.

    Attributes:
        key: its name.
        dtype: float32, int64 or string; of a field any.
        length: values, in each step of a list.
        content: the kind of the values.
        is_list: whether it is a feature list of a tf.SequenceExample.
    """

    key: str
    dtype: int
    length: int
    content: Content
    is_list: bool = False


def for_step(what: str, step: Step) -> str:
    """WHAT is fed, with the consumer that it is for."""
    return f"{what}, for {step.op} {quoted(step.name)}"
