"""Steps that convert the results of a model to scores: probabilities, thresholds."""

from __future__ import annotations

from math import inf

from gdsurgeon.ops.dtypes import BOOL
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.catalog import AFTER, step
from gdsurgeon.steps.language import Flag, Number
from gdsurgeon.steps.value import CLASSES, LOG_PROBABILITIES, PROBABILITIES, Unfit, Value


@step("softmax", side=AFTER, example="softmax | top-k(5)")
def softmax(build: Builder, value: Value) -> Value:
    """Convert scores to probabilities that sum to one along the last dimension.

    In float32, within 1e-6 of NumPy's exp(x - max) / sum in float64. Integers become float32. Values known to be
    probabilities already, from a softmax of the model or of the steps, are refused.
    """
    value = _scores(build, value)
    tensor = build.add("Softmax", value.tensor)
    return value.replace(tensor=tensor, low=0.0, high=1.0, is_whole=False).with_kind(PROBABILITIES)


@step("log-softmax", side=AFTER, example="log-softmax")
def log_softmax(build: Builder, value: Value) -> Value:
    """Convert scores to logarithms of probabilities.

    Along the last dimension. In float32, within 1e-6 of NumPy's x - max - log(sum(exp(x - max))) in float64; below
    -1, within the same relative difference. Values known to be probabilities, or their logarithms, are refused.
    """
    value = _scores(build, value)
    tensor = build.add("LogSoftmax", value.tensor)
    return value.replace(tensor=tensor, low=-inf, high=0.0, is_whole=False).with_kind(LOG_PROBABILITIES)


def _scores(build: Builder, value: Value) -> Value:
    """Returns `value` as floats that can be converted to probabilities. Raises Unfit."""
    check_scores(value)
    if value.kind == PROBABILITIES:
        raise Unfit("the values are already probabilities: they are 0..1 and sum to one")
    if value.kind == LOG_PROBABILITIES:
        raise Unfit("the values are already logarithms of probabilities")
    return build.floating(value)


def check_scores(value: Value) -> None:
    """Raises Unfit if the value does not consist of scores, one for each class along the last dimension."""
    require_no_classes(value)
    if value.rank == 0:
        raise Unfit(f"requires scores along a dimension, got {value.description}")


def require_no_classes(value: Value) -> None:
    """Raises Unfit if the value does not consist of numbers, or if it consists of classes."""
    value.require_numbers()
    if value.kind == CLASSES:
        raise Unfit("requires scores, got classes: move it before the step that makes classes")


@step("sigmoid", side=AFTER, example="sigmoid | threshold(0.5)")
def sigmoid(build: Builder, value: Value) -> Value:
    """Convert each score to a probability (logistic function).

    In float32, within 1e-6 of the logistic function in float64. Values known to be 0..1 are refused.
    """
    require_no_classes(value)
    if value.low >= 0 and value.high <= 1:
        raise Unfit(f"the values are already {value.bounds}")
    value = build.floating(value)
    return value.replace(tensor=build.add("Sigmoid", value.tensor), low=0.0, high=1.0, is_whole=False)


@step("threshold", side=AFTER, example="sigmoid | threshold(0.5) | cast(uint8)")
def threshold(build: Builder, value: Value, *, at: Number, keep: Flag = False) -> Value:
    """Compare values with a threshold, or set values below it to 0.

    Returns bools: x >= at, exactly; false for NaN. A threshold that all values are known to reach, or none, is
    refused.

    Args:
        at: the threshold
        keep: whether values at or above the threshold are kept, and the others become 0
    """
    require_no_classes(value)
    value.require_in_range(at)
    if not value.low < at <= value.high:
        raise Unfit(f"{'none' if at > value.high else 'all'} of the values can reach {at:g}: they are {value.bounds}")
    counts = build.add("GreaterEqual", value.tensor, build.number(value, at))
    if not keep:
        return value.fresh(counts, BOOL, value.shape).replace(layout=value.layout, low=0.0, high=1.0)
    tensor = build.add("Select", counts, value.tensor, build.add("ZerosLike", value.tensor))
    return value.replace(tensor=tensor, low=min(value.low, 0.0) if at < 0 else 0.0, high=max(value.high, 0.0))
