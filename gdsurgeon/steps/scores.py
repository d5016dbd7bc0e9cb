"""Steps that make scores of what a model computes: probabilities, and what is beyond a threshold."""

from __future__ import annotations

from math import inf

from gdsurgeon.ops.dtypes import BOOL
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.kinds import FLAG, NUMBER
from gdsurgeon.steps.step import BEHIND, Parameter, step
from gdsurgeon.steps.value import CLASSES, LOG_PROBABILITIES, PROBABILITIES, Unfit, Value


@step(
    "softmax",
    "Make probabilities of scores: along the last dimension they sum to one.",
    sides=(BEHIND,),
    example="softmax | top-k(5)",
    explanation="""
    In float32 within 1e-6 of NumPy's exp(x - max) / sum in float64. Integers become float32. What is known to be
    probabilities already, behind a softmax of the model or of the steps, is refused.""",
)
def softmax(build: Builder, value: Value) -> Value:
    value = _scores(build, value)
    tensor = build.add("Softmax", value.tensor)
    return value.but(tensor=tensor, low=0.0, high=1.0, is_whole=False).being(PROBABILITIES)


@step(
    "log-softmax",
    "Make logarithms of probabilities of scores.",
    sides=(BEHIND,),
    example="log-softmax",
    explanation="""
    Along the last dimension. In float32 within 1e-6, beyond -1 within that part, of NumPy's x - max -
    log(sum(exp(x - max))) in float64. What is known to be
    probabilities, or logarithms of such, is refused.""",
)
def log_softmax(build: Builder, value: Value) -> Value:
    value = _scores(build, value)
    tensor = build.add("LogSoftmax", value.tensor)
    return value.but(tensor=tensor, low=-inf, high=0.0, is_whole=False).being(LOG_PROBABILITIES)


def _scores(build: Builder, value: Value) -> Value:
    """VALUE as floats, of which probabilities can be made. Raises Unfit."""
    check_scores(value)
    if value.is_of == PROBABILITIES:
        raise Unfit("gets probabilities already: the values are 0..1, and sum to one")
    if value.is_of == LOG_PROBABILITIES:
        raise Unfit("gets logarithms of probabilities already")
    return build.floating(value)


def check_scores(value: Value) -> None:
    """Raises Unfit where VALUE is not scores, one for each class along its last dimension."""
    value.require_numbers()
    if value.is_of == CLASSES:
        raise Unfit("takes scores, and gets classes")
    if value.rank == 0:
        raise Unfit(f"takes scores along a dimension, and gets {value.told}")


@step(
    "sigmoid",
    "Make of each score a probability of its own.",
    sides=(BEHIND,),
    example="sigmoid | threshold(0.5)",
    explanation="In float32 within 1e-6 of the logistic function in float64. What is known to be 0..1 is refused.",
)
def sigmoid(build: Builder, value: Value) -> Value:
    value.require_numbers()
    if value.is_of == CLASSES:
        raise Unfit("takes scores, and gets classes")
    if value.low >= 0 and value.high <= 1:
        raise Unfit(f"the values are {value.bounds} already")
    value = build.floating(value)
    return value.but(tensor=build.add("Sigmoid", value.tensor), low=0.0, high=1.0, is_whole=False)


@step(
    "threshold",
    "Tell which values reach a number, or make 0 of those that do not.",
    Parameter("at", NUMBER, "the least that counts"),
    Parameter("keep", FLAG, "whether the values that count stay what they are, and the others become 0", False),
    sides=(BEHIND,),
    example="sigmoid | threshold(0.5) | cast(uint8)",
    explanation="""
    It gives bools: x >= at, exactly; NaN does not count. A number that all values, or none of them, are known to reach
    is refused.""",
)
def threshold(build: Builder, value: Value, *, at: float, keep: bool) -> Value:
    value.require_numbers()
    if value.is_of == CLASSES:
        raise Unfit("takes scores, and gets classes: it belongs before")
    if value.dtype.is_integer and (at != int(at) or not value.dtype.bounds[0] <= at <= value.dtype.bounds[1]):
        raise Unfit(f"{at:g} is no {value.dtype.name}")
    if not value.low < at <= value.high:
        raise Unfit(f"{'none' if at > value.high else 'all'} of the values reach {at:g}: they are {value.bounds}")
    counts = build.add("GreaterEqual", value.tensor, build.number(value, at))
    if not keep:
        return value.anew(counts, BOOL, value.shape).but(layout=value.layout, low=0.0, high=1.0)
    tensor = build.add("Select", counts, value.tensor, build.add("ZerosLike", value.tensor))
    return value.but(tensor=tensor, low=min(value.low, 0.0) if at < 0 else 0.0, high=max(value.high, 0.0))
