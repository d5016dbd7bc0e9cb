"""Random chains of steps: a graph runs and returns what the builder predicts, or one line refuses the chain."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.desk import check_raised
from support.graphs import Builder
from support.stepping import Array, built, check_as_said, execute, joined, png, typed, wav

import gdsurgeon as gds
from gdsurgeon.errors import EditError, NothingToDo
from gdsurgeon.feeds.texts import example
from gdsurgeon.graph.attrs import format_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.elements import numpy_dtype
from gdsurgeon.steps import postprocessing, preprocessing
from gdsurgeon.steps.catalog import catalog, read_steps
from gdsurgeon.steps.value import Value, parse_input

POOL = (
    "cast(float32)", "cast(uint8)", "cast(int32)", "cast(int8)", "cast(float16)", "cast(float64)", "cast(bool)",
    "cast(int16, saturate=false)", "rescale(1/255)", "rescale(-2, 3)", "rescale(0, 1)", "divide(255)", "divide(-0.5)",
    "normalize(mean=[1, 2, 3], std=[1, 2, 4])", "normalize(mean=0.5)", "normalize(std=2)", "normalize(like=keras-tf)",
    "normalize(like=keras-caffe)", "normalize(like=keras-torch)", "normalize(mean=[1, 2])", "clip(0, 1)",
    "clip(-3, 100)", "round", "reverse-channels", "resize(4, 7, like=keras)", "resize(4, 7, like=pillow)",
    "resize(9, 3, like=opencv)", "resize(3, 3, like=tf1, method=nearest)",
    "resize(5, 5, method=lanczos5, antialias=true)", "resize(5, 2, method=area)",
    "resize(5, 2, method=bilinear, align-corners=true)", "short-side(4, like=opencv, method=nearest)",
    "short-side(6, like=pillow, method=bilinear)", "letterbox(6, 9, like=opencv)",
    "letterbox(5, 4, method=nearest, pad=0)", "center-crop(3, 2)", "center-crop(2, 3, half=true)",
    "pad(top=1, right=2, value=7)", "pad(bottom=1)", "to-nchw", "to-nhwc", "expand-dims(0)", "expand-dims(-1)",
    "squeeze(0)", "squeeze(-1)", "reshape([-1])", "reshape([2, -1, 3])", "transpose([1, 0, 2])",
    "transpose([0, 2, 1, 3])", "assume(low=-1e300, high=1e300)", "assume(layout=HWC)", "assume(colour=BGR)",
    "mfcc(64, 30, coefficients=5, mels=10, rate=8000)", "mfcc(50, 50, mels=20, rate=16000)",
    "log-mel(64, 30, mels=5, lower=100, upper=3000, rate=8000)",
    "log-mel(50, 50, mels=4, lower=0, upper=4000, rate=8000, power=2, fft=128)", "assume(layout=WC)",
    "clip(0, 7)", "clip(1, 7)", "rescale(3)",
)  # fmt: skip
RAWS = (
    "uint8[5,4,3]", "uint8[2,6,5,3]", "float32[5,4,3]", "float32[1,3,6,5]", "int32[4,5,1]", "float64[3,2]", "bool[4]",
    "int64[]", "float16[2,4,4,3]", "uint8[5,4,4]", "float32[200]", "float32[2,150]", "float32[170,1]", "float64[0,99]",
)  # fmt: skip


def test_the_pool_has_every_step_that_takes_numbers() -> None:
    taking_bytes = {name for name, step in catalog().items() if step.one_by_one}
    here = {read_steps(text)[0].step.name for text in POOL}
    families = ("images", "resizing", "arithmetic", "layout", "sounds")
    assert here == {name for name, step in catalog().items() if step.family in families} - taking_bytes


@pytest.mark.parametrize(
    "steps",
    [
        "expand-dims(0) | cast(float32) | letterbox(5, 4, method=nearest, pad=0)",
        "expand-dims(-1) | resize(4, 7, like=keras)",
        "cast(float32) | log-mel(64, 30, mels=5, lower=100, upper=3000, rate=8000)",
    ],
)
def test_a_dimension_known_to_be_zero_is_refused(steps: str) -> None:
    check_raised(EditError, "step-unfit", lambda: typed(steps, "float64[0,99]"))


def value_for(raw: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    dtype, shape = parse_input(raw)
    assert shape is not None
    return (np.random.default_rng(len(raw)).random(shape) * 255).astype(numpy_dtype(dtype))


def opened(raw: str) -> str:
    """RAW with all of its dimensions open but the last, which are the channels."""
    dtype, shape = parse_input(raw)
    assert shape is not None
    return dtype.name + format_shape((*(-1 for _ in shape[:-1]), *shape[-1:]))


@pytest.mark.tensorflow
@settings(max_examples=100)
@given(st.tuples(st.lists(st.sampled_from(POOL), min_size=1, max_size=6), st.sampled_from(RAWS)))
def test_what_is_built_gives_what_the_builder_says(chain: tuple[list[str], str]) -> None:
    steps, raw = " | ".join(chain[0]), chain[1]
    try:
        graph, value = typed(steps, raw)
    except EditError as error:
        first = error.message.split(":")[0].split(" (step ")[0]
        assert first in [step.partition("(")[0] for step in chain[0]] and "\n" not in error.message
        return
    with np.errstate(over="ignore"):
        found = execute(graph, value_for(raw))
        check_as_said(found, value)
        try:
            graph, value = typed(steps, opened(raw))
        except EditError:
            return  # nothing shows any longer that it is an image
        again = execute(graph, value_for(raw))
        check_as_said(again, value)
    if "assume" not in steps and "normalize(mean=[" not in steps:
        assert np.array_equal(found, again, equal_nan=found.dtype.kind == "f")


PICTURES = [png(np.random.default_rng(n).integers(0, 256, (5 + n, 4, 3)).astype(np.uint8)) for n in range(2)]


@pytest.mark.tensorflow
@settings(max_examples=30)
@given(st.lists(st.sampled_from(POOL), max_size=4), st.sampled_from(POOL))
def test_of_a_batch_comes_what_comes_of_each(steps: list[str], last: str) -> None:
    text = " | ".join(["decode-image", "resize(4, 4, like=pillow)", *steps, last])
    try:
        alone, value = typed(text, "string")
    except EditError:
        return
    batch = built(text.replace("image", "image(batch=true)", 1), value.dtype.name, (-1, *(value.shape or ())))
    each = [execute(alone, picture) for picture in PICTURES]
    assert np.array_equal(execute(batch, PICTURES), np.stack(each), equal_nan=each[0].dtype.kind == "f")


def some_chains(count: int) -> list[tuple[str, str, Value]]:
    """Returns accepted chains: the steps, the input, and the predicted value."""
    choose = random.Random(0)
    out: list[tuple[str, str, Value]] = []
    while len(out) < count:
        steps, raw = " | ".join(choose.choices(POOL, k=choose.randrange(1, 6))), choose.choice(RAWS)
        try:
            out.append((steps, raw, typed(steps, raw)[1]))
        except EditError:
            pass
    return out


def check_proven(model: Graph, result: gds.EditResult, count: int) -> None:
    proof = gds.prove(model.pristine(), model, result)
    assert len(proof.outputs) >= count and all(output.comparison is not None for output in proof.outputs)


@pytest.mark.tensorflow
def test_chains_are_proven_in_front_of_a_model() -> None:
    """A hundred of them in one proof, each in front of an input of its own."""
    m, chosen = Builder(), CHOSEN[:100]
    for number, (_, _, value) in enumerate(chosen):
        m.placeholder(f"x{number}", value.dtype.name, value.shape)
        m.node(f"y{number}", "Identity", [f"x{number}"], T=value.dtype.name)
    model = m.graph("model.pb")
    parts = [preprocessing(steps, model, input=f"x{n}", raw=raw) for n, (steps, raw, _) in enumerate(chosen)]
    check_proven(model, gds.add_preprocessing(model, joined(parts)), 100)


@pytest.mark.tensorflow
def test_chains_are_proven_behind_a_model() -> None:
    """A hundred of them in one proof, each behind an output of its own."""
    m, parts = Builder(), []
    for number, (_, raw, _) in enumerate(CHOSEN[100:]):
        dtype, shape = parse_input(raw)
        m.placeholder(f"x{number}", dtype.name, shape)
        m.node(f"y{number}", "Identity", [f"x{number}"], T=dtype.name)
    model = m.graph("model.pb")
    for number, (steps, _, _) in enumerate(CHOSEN[100:]):
        try:
            parts.append(postprocessing(steps, model, output=f"y{number}"))
        except EditError:
            pass  # nothing says there that three dimensions are an image
    assert len(parts) > 80
    check_proven(model, gds.add_postprocessing(model, joined(parts)), len(parts))


@pytest.mark.parametrize("start", [0, 100])
def test_tensorflow_1_15_knows_what_is_built(start: int) -> None:
    batch = "decode-image | letterbox(4, 4, like=pillow) | short-side(5, like=opencv)"
    check_old([(steps, raw) for steps, raw, _ in CHOSEN[start : start + 100]], built(batch, "uint8", (-1, 5, 5, 3)))


def check_old(chains: list[tuple[str, str]], *more: Graph) -> None:
    """TensorFlow 1.15 has the ops of CHAINS, which are steps and the input of each, and of MORE."""
    parts = [typed(steps, raw)[0] for steps, raw in chains]
    for number, part in enumerate(parts):
        part.rename({node: f"{number}/{node.name}" for node in part.nodes()})
    with pytest.raises(NothingToDo, match=r"TensorFlow 1\.15 can already load the graph"):
        gds.compat(joined([*parts, *more]), "1.15")


CHOSEN = some_chains(200)


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
CHAINS_OF_BYTES = st.tuples(st.sampled_from(list(FIRST)), st.booleans(), st.lists(st.sampled_from(THEN), max_size=4))
Chain = tuple[str, bool, list[str]]


def spelt(chain: Chain) -> tuple[str, list[str]]:
    """CHAIN as a text, and the names of its steps."""
    text = " | ".join([*(["decode-base64"] if chain[1] else []), chain[0], *chain[2]])
    return text, [found.step.name for found in read_steps(text)]


def items(chain: Chain, count: int) -> list[bytes]:
    made = [FIRST[chain[0]](seed) for seed in range(1, count + 1)]
    return [base64.b64encode(item) for item in made] if chain[1] else made


def refused(error: EditError, names: list[str]) -> None:
    refusing = error.message.split(":")[0].split(" (step ")[0]
    assert refusing in [*names, "the steps return float32 [?,?,1], but 'x' expects"] and "\n" not in error.message


def test_every_step_that_takes_bytes_is_there() -> None:
    taking = {name for name, step in catalog().items() if step.one_by_one or step.family in ("texts", "records")}
    there = {found.step.name for text in (*FIRST, *THEN) for found in read_steps(text)}
    assert taking <= there


@pytest.mark.tensorflow
@settings(max_examples=60)
@given(CHAINS_OF_BYTES)
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


def test_tensorflow_1_15_knows_what_is_built_of_bytes() -> None:
    check_old([(prefix + steps, "string") for prefix in ("", "decode-base64 | ") for steps in FIRST])
