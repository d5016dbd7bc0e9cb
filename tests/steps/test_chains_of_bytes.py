"""Random chains that begin with bytes: of one item and of batches, run, and proven in front of a model."""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stepping import Array, built, check_as_said, execute, joined, png, typed, wav

import gdsurgeon as gds
from gdsurgeon.errors import EditError, NothingToDo
from gdsurgeon.feeds.texts import example
from gdsurgeon.steps.catalog import catalog, read_steps
from gdsurgeon.steps.value import Value


def line(seed: int) -> bytes:
    return b"%d,-2.5,%d\r\n" % (seed, seed * seed)


def an_example(seed: int) -> bytes:
    image = png(np.full((4, 5, 3), seed, np.uint8))
    return example(
        {"a": [1.0 * seed, 2.0], "b": [0.5, -1.0], "n": [seed], "s": [b"cat"], "i": [image], "w": [sound(seed)]}
    )


def picture(seed: int) -> bytes:
    return png(np.full((4 + seed, 5, 3), 50 * seed, np.uint8))


def sound(seed: int) -> bytes:
    return wav(np.random.default_rng(seed).integers(-30000, 30000, (200 + seed, 1)))


FIRST: dict[str, Callable[[int], bytes]] = {
    "decode-csv(3)": line, "decode-csv(3, select=[2, 0], type=int64)": line, "decode-csv(3, type=string)": line,
    "parse-example([a, b], shape=[2])": an_example, "parse-example([n, m], type=int64, default=4)": an_example,
    "parse-example(s, type=string) | lookup(words=[dog, cat])": an_example,
    "parse-example(i, type=string) | decode-image": an_example,
    "parse-example(w, type=string) | decode-wav(samples=190, rate=8000)": an_example,
    "decode-image": picture, "decode-image(channels=1) | exif": picture,
    "decode-wav(samples=190)": sound, "decode-wav(samples=250, rate=8000, channels=2)": sound, "decode-wav": sound,
    "lookup(words=['1,-2.5,1', x], first=1, default=0)": line,
}  # fmt: skip
"""What chains begin with, and what makes an item for it."""
THEN = (
    "cast(float32)", "cast(int32)", "rescale(1/255)", "normalize(mean=0.5)", "expand-dims(-1)", "squeeze(-1)",
    "resize(4, 6, like=keras)", "resize(3, 5, like=pillow)", "to-nchw", "reshape([-1])", "round", "clip(0, 1)",
    "mfcc(64, 30, coefficients=5, mels=10)", "log-mel(50, 40, mels=5, lower=100, upper=3000)", "decode-base64",
    "log-mel(64, 30, mels=5, lower=100, upper=3000, rate=8000)", "lookup(words=[cat])", "decode-csv(3)", "decode-image",
)  # fmt: skip
CHAINS = st.tuples(st.sampled_from(list(FIRST)), st.booleans(), st.lists(st.sampled_from(THEN), max_size=4))
Chain = tuple[str, bool, list[str]]


def spelt(chain: Chain) -> tuple[str, list[str]]:
    """CHAIN as a text, and the names of its steps."""
    text = " | ".join([*(["decode-base64"] if chain[1] else []), chain[0], *chain[2]])
    return text, [found.step.name for found in read_steps(text)]


def items(chain: Chain, count: int) -> list[bytes]:
    made = [FIRST[chain[0]](seed) for seed in range(1, count + 1)]
    return [base64.b64encode(item) for item in made] if chain[1] else made


def refused(error: EditError, names: list[str]) -> None:
    assert error.message.split(":")[0].split(" (step ")[0] in [
        *names,
        "the steps return float32 [?,?,1], but 'x' expects",
    ]
    assert "\n" not in error.message


def test_every_step_that_takes_bytes_is_there() -> None:
    taking = {name for name, step in catalog().items() if step.one_by_one or step.family in ("texts", "records")}
    there = {found.step.name for text in (*FIRST, *THEN) for found in read_steps(text)}
    assert taking <= there


@pytest.mark.tensorflow
@settings(max_examples=60)
@given(CHAINS)
def test_chains_give_what_the_builder_says(chain: Chain) -> None:
    steps, names = spelt(chain)
    try:
        graph, value = typed(steps, "string")
    except EditError as error:
        refused(error, names)
        return
    one = execute(graph, np.array(items(chain, 1)[0], object))
    check_as_said(one, value) if one.dtype != object else None
    if not value.is_static:
        return
    assert value.shape is not None
    try:
        batch = built(steps, value.dtype.name, (-1, *value.shape), raw="string[?]")
    except EditError as error:
        refused(error, names)
        return
    check_batch(execute(batch, items(chain, 2)), one, value)
    assert execute(batch, np.zeros(0, object)).shape == (0, *value.shape)


def check_batch(found: Array, one: Array, value: Value) -> None:
    assert value.shape is not None and found.shape == (2, *value.shape)
    if one.dtype == object:
        assert found[0].tolist() == one.tolist()
    else:
        assert np.allclose(found[0].astype(np.float64), one.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_tensorflow_1_15_knows_what_is_built() -> None:
    parts = [typed(steps, "string")[0] for steps in (*FIRST, *(f"decode-base64 | {steps}" for steps in FIRST))]
    for number, part in enumerate(parts):
        part.rename({node: f"{number}/{node.name}" for node in part.nodes()})
    with pytest.raises(NothingToDo, match=r"TensorFlow 1\.15 can already load the graph"):
        gds.compat(joined(parts), "1.15")
