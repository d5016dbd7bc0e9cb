"""Steps that return classes: the best, the best few, and their names; and the step that names results."""

from __future__ import annotations

from math import inf

from gdsurgeon.errors import printable
from gdsurgeon.ops.dtypes import INT32, INT64, STRING
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.catalog import AFTER, step
from gdsurgeon.steps.language import Count, File, NotNegative, Text, Texts
from gdsurgeon.steps.layout import Axis, axis_from_front
from gdsurgeon.steps.scores import check_scores
from gdsurgeon.steps.texts import lines_of
from gdsurgeon.steps.value import CLASSES, Unfit, Value
from gdsurgeon.text import counted, listed


@step("argmax", side=AFTER, example="argmax | cast(int32)")
def argmax(build: Builder, value: Value, *, axis: Axis = -1) -> Value:
    """Return the index of the largest value: the class.

    Same result as NumPy's argmax: of equal values, the first. The dimension is removed. Classes are int64 and start
    at 0.

    Args:
        axis: the dimension of the classes; negative numbers count from the end
    """
    check_scores(value)
    shape, count = None, -1
    if value.shape is not None:
        place = axis_from_front(axis, len(value.shape))
        shape, count = value.shape[:place] + value.shape[place + 1 :], value.shape[place]
        if count == 0:
            raise Unfit(f"the value has no classes: {value.description}")
    tensor = build.add("ArgMax", value.tensor, axis)
    return _classes(value.fresh(tensor, INT64, shape), count)


def _classes(value: Value, count: int) -> Value:
    """Returns the value as classes; `count` is their number, -1 if unknown."""
    return value.replace(low=0.0, high=float(count - 1) if count >= 0 else inf).with_kind(CLASSES)


@step("top-k", side=AFTER, example="softmax | top-k(5)")
def top_k(build: Builder, value: Value, *, k: Count) -> Value:
    """Return the classes with the largest scores, and their scores.

    Works along the last dimension. The largest score comes first; of equal scores, the first class. The next step
    gets the classes, int32. The scores become an additional output OUTPUT_scores, which the step rename can rename.

    Args:
        k: how many
    """
    check_scores(value)
    count, shape = -1, value.shape
    if shape is not None:
        count = shape[-1]
        shape = (*shape[:-1], k)
    if -1 < count < k:
        raise Unfit(f"{k} of {counted(count, 'value')} are requested: {value.description}")
    node = build.node("TopKV2", [value.tensor, k], {})
    scores, classes = node.outputs
    of_classes = value.fresh(classes, INT32, shape).with_results(
        scores=value.replace(tensor=scores, shape=shape, layout="")
    )
    return _classes(of_classes, count)


@step("labels", side=AFTER, example="argmax | labels(names=[cat, dog], other=unknown)")
def labels(
    build: Builder,
    value: Value,
    *,
    file: File | None = None,
    names: Texts | None = None,
    first: NotNegative = 0,
    other: Text | None = None,
) -> Value:
    """Replace class numbers by names.

    The names become a constant of the graph; the file is not needed any more. If the number of classes is known,
    there must be as many names, unless other names the rest. A class without a name becomes other. Without other,
    such a class is an error when the model runs: GatherV2 reports the class and the number of names. Use first=1,
    with other, for files that do not name class 0, the background. After top-k or nms, the names belong to its
    classes; after nms, they are empty for padding. Names are UTF-8 and whole lines. Empty lines at the end of a
    file are ignored.

    Args:
        file: a text file with one name on each line
        names: the names, instead of a file
        first: the class of the first name
        other: the name of classes without a name
    """
    texts = lines_of(file, names, "names")
    classified = value.results.get(CLASSES)
    classes = value if classified is None or value.kind == CLASSES else classified
    if not classes.dtype.is_integer or classes.dtype.is_quantized:
        is_named, hint = classes.dtype == STRING, "add argmax, top-k or cast(int32) before it"
        before = "the value holds labels already" if is_named else hint
        raise Unfit(f"requires classes, which are whole numbers, got {classes.description}: {before}")
    if other is None:
        _check_count(classes, len(texts), first, f" in {printable(file.path)}" if file is not None else "")
    named = _named(build, classes, texts, first, other)
    if classified is None or classes is value:
        return named
    count = value.results.get("count")
    if count is not None:  # empty strings follow the first `count` names
        ranks = build.add("Range", 0, named.dims[-1], 1)
        end = count.tensor if count.rank == 0 else build.add("ExpandDims", count.tensor, -1)
        empty = build.add("ZerosLike", named.tensor)
        named = named.replace(tensor=build.add("Select", build.add("Less", ranks, end), named.tensor, empty))
    return value.replace(results={**value.results, CLASSES: named})


def _check_count(value: Value, names: int, first: int, where: str) -> None:
    """Raises Unfit if the number of classes is known, and different from the number of names; `where` they are."""
    count = int(value.high) + 1 if value.kind == CLASSES and value.high < inf else -1
    if count < 0 or (names == count and not first):
        return
    verb = "is" if names == 1 else "are"
    there = f"there {verb} {counted(names, 'name')}{where}{f' from class {first} on' if first else ''}"
    message = f"{there}, but {count:,} class{'es' * (count != 1)}"
    if names > count and not first:
        raise Unfit(f"{message}: {counted(names - count, 'name')} too many")
    hint = ", or first=1 if class 0 has no name" if not first and names == count - 1 else ""
    raise Unfit(f"{message}: give the rest a name with other=...{hint}")


def _named(build: Builder, value: Value, names: list[bytes], first: int, other: str | None) -> Value:
    """Returns the names of classes."""
    if value.dtype not in (INT32, INT64):
        value = build.cast(value, INT32 if value.dtype.size < 4 else INT64)
    tensor = value.tensor
    if other is not None:  # the first and the last name are for all classes outside the range
        names = [other.encode(), *names, other.encode()]
        ends = [build.constant(value.dtype, number) for number in (first - 1, first + len(names) - 2)]
        tensor, first = build.add("ClipByValue", tensor, *ends), first - 1
    if first:
        tensor = build.add("Sub", tensor, build.constant(value.dtype, first))
    found = build.add("GatherV2", build.constant(STRING, names), tensor, 0)
    return value.fresh(found, STRING, value.shape)


NONE = "none"
"""Given as a name: the result does not become an output."""


@step("rename", family="results", side=AFTER, example="softmax | top-k(5) | rename(classes, scores=probabilities)")
def rename(
    build: Builder,
    value: Value,
    *,
    name: Text | None = None,
    scores: Text | None = None,
    classes: Text | None = None,
    boxes: Text | None = None,
    count: Text | None = None,
) -> Value:
    """Give results their own names, or do not make them outputs.

    Without this step, the result of the steps replaces the model's output; the output's original value is renamed
    to OUTPUT_raw. Additional results are named OUTPUT_scores, OUTPUT_classes, OUTPUT_count. A result with a name
    becomes an output of that name, and the model's own output keeps its name and value.

    Args:
        name: the name of the main result
        scores: the name of the scores; none: not an output
        classes: the name of the classes; none: not an output
        boxes: the name of the boxes; none: not an output
        count: the name of the count; none: not an output
    """
    del build
    names = {"scores": scores, "classes": classes, "boxes": boxes, "count": count}
    given = {what: name for what, name in names.items() if name is not None}
    if name is None and not given:
        raise Unfit("no name is given")
    for what in given:
        if what not in value.results:
            there = f": the results are {listed(value.results)}" if value.results else ""
            raise Unfit(f"the steps have no additional result {what}{there}")
    if name == NONE:
        raise Unfit("the result of the steps equals their input, which is already an output")
    results = dict(value.results)
    for what, called in given.items():
        results[what] = results[what].replace(name=None if called == NONE else called)
    return value.replace(name=name or value.name, results=results)
