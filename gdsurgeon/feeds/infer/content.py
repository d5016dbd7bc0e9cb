"""The kinds of content of an input, as far as the graph shows them; the modules that make feeds use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gdsurgeon.errors import quoted
from gdsurgeon.feeds.infer.consumers import Step

Picture = tuple[int, int] | None
"""The height and width of generated images; None: any."""


class Content(NamedTuple):
    """The values that an input expects.

    Attributes:
        kind: for numbers ``number`` (nothing is known), ``pixels`` (0 to 255), ``unit`` (0 to 1), ``index`` (whole
            numbers below `bound`), ``sorted`` (ascending whole numbers), ``coordinates`` (ascending rows of them),
            ``positions`` (0, 1, 2, ...), ``shape`` (the `choices`, or -1 and ones) or ``setting`` (the `choices` in
            order, the last one repeated). For texts ``text`` or the name of a format; ``jpeg`` is encoded by
            TensorFlow. For both ``choice`` (one of `choices`, by the seed) and ``none`` (cannot be generated).
        made: the generated value and the reason, in a few words; for ``none`` the value that the user must give.
        bound: for whole numbers, one more than the largest; 0: no limit.
        choices: the values to choose from.
        grows: whether a setting can be one larger.
        features: of a tf.Example.
        method: for ``shape`` the op that reads the shape.
        make: for texts, returns the bytes for a seed and the size of images.
    """

    kind: str
    made: str = ""
    bound: int = 0
    choices: tuple[Any, ...] = ()
    grows: bool = False
    features: tuple[Feature, ...] = ()
    method: str = ""
    make: Callable[[int, Picture], bytes] | None = None


class Feature(NamedTuple):
    """A feature of a tf.Example or tf.SequenceExample.

    Attributes:
        key: the name.
        dtype: float32, int64 or string.
        length: the number of values, in each step of a list.
        content: the values.
        is_list: whether it is a feature list of a tf.SequenceExample.
    """

    key: str
    dtype: int
    length: int
    content: Content
    is_list: bool = False


def for_step(what: str, step: Step) -> str:
    """Returns `what` with the consumer that expects it."""
    return f"{what}, for {step.op} {quoted(step.name)}"
