"""Steps that tell classes: the best, the best few, and what they are called."""

from __future__ import annotations

from math import inf

from gdsurgeon.errors import printable
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import INT32, INT64, STRING
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.kinds import FILE, TEXT, TEXTS, FileRead, whole
from gdsurgeon.steps.layout import AXIS
from gdsurgeon.steps.lines import lines
from gdsurgeon.steps.scores import check_scores
from gdsurgeon.steps.step import BEHIND, Parameter, step
from gdsurgeon.steps.value import CLASSES, Unfit, Value
from gdsurgeon.text import counted


@step(
    "argmax",
    "Return the index of the largest value: the class.",
    Parameter("axis", AXIS, "the dimension of the classes; negative numbers count from the end", -1),
    sides=(BEHIND,),
    example="argmax | cast(int32)",
    explanation="Same result as NumPy's argmax: of equal values, the first. The dimension is removed. "
    "Classes are int64 and start at 0.",
)
def argmax(build: Builder, value: Value, *, axis: int) -> Value:
    check_scores(value)
    shape, count = None, -1
    if value.shape is not None:
        rank = len(value.shape)
        if not -rank <= axis < rank:
            raise Unfit(f"axis {axis} does not exist: there are {rank} dimensions")
        shape, count = _without(value.shape, axis), value.shape[axis]
        if count == 0:
            raise Unfit(f"the value has no classes: {value.told}")
    tensor = build.add("ArgMax", value.tensor, build.constant(INT32, axis))
    return _classes(value.anew(tensor, INT64, shape), count)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    place = axis % len(shape)
    return shape[:place] + shape[place + 1 :]


def _classes(value: Value, count: int) -> Value:
    """VALUE, which tells one of COUNT classes; -1: how many there are is not known."""
    return value.but(low=0.0, high=float(count - 1) if count >= 0 else inf).being(CLASSES)


@step(
    "top-k",
    "Return the classes with the largest scores, and their scores.",
    Parameter("k", whole(1), "how many"),
    sides=(BEHIND,),
    example="softmax | top-k(5)",
    explanation="Works along the last dimension. The largest score comes first; of equal scores, the first "
    "class. The next step gets the classes, int32. The scores become an additional output "
    "OUTPUT_scores, which the step rename can rename.",
)
def top_k(build: Builder, value: Value, *, k: int) -> Value:
    check_scores(value)
    count, shape = -1, value.shape
    if shape is not None:
        count = shape[-1]
        shape = (*shape[:-1], k)
    if -1 < count < k:
        raise Unfit(f"{k} of {counted(count, 'value')} are requested: {value.told}")
    node = build.node("TopKV2", [value.tensor, build.constant(INT32, k)], {})
    scores, classes = node.outputs
    of_classes = value.anew(classes, INT32, shape).giving(scores=value.but(tensor=scores, shape=shape, layout=""))
    return _classes(of_classes, count)


@step(
    "labels",
    "Replace class numbers by names.",
    Parameter("file", FILE, "a text file with one name on each line", None),
    Parameter("names", TEXTS, "the names, instead of a file", None),
    Parameter("first", whole(0), "the class of the first name", 0),
    Parameter("other", TEXT, "the name of classes without a name", None),
    sides=(BEHIND,),
    example="argmax | labels(names=[cat, dog], other=unknown)",
    explanation="The names become a constant of the graph; the file is not needed any more. If the number of "
    "classes is known, there must be as many names, unless other names the rest. A class without "
    "a name becomes other. Without other, such a class is an error when the model runs: GatherV2 "
    "reports the class and the number of names. Use first=1, with other, for files that do not "
    "name class 0, the background. After top-k or nms, the names belong to its classes; after "
    "nms, they are empty for padding. Names are UTF-8 and whole lines. Empty lines at the end of "
    "a file are ignored.",
)
def labels(
    build: Builder,
    value: Value,
    *,
    file: FileRead | None,
    names: tuple[str, ...] | None,
    first: int,
    other: str | None,
) -> Value:
    if (file is None) == (names is None):
        raise Unfit("requires either file=FILE or names=[...]")
    texts = lines(file, "names") if file is not None else [name.encode() for name in names or ()]
    beside = value.results.get(CLASSES)
    classes = value if beside is None or value.is_of == CLASSES else beside.value
    _check_classes(classes)
    if other is None:
        _check_count(classes, len(texts), first, f" in {printable(file.path)}" if file is not None else "")
    named = _named(build, classes, texts, first, other)
    if beside is None or classes is value:
        return named
    count = value.results.get("count")
    named = named if count is None else _kept_alone(build, named, count.value)
    return value.but(results={**value.results, CLASSES: beside._replace(value=named)})


def _kept_alone(build: Builder, names: Value, count: Value) -> Value:
    """Returns `names`, [rows] or [images,rows], with empty strings after the first `count`."""
    assert names.shape is not None
    ranks = build.add("Range", *(build.constant(INT32, number) for number in (0, names.shape[-1], 1)))
    end = count.tensor if count.rank == 0 else build.add("ExpandDims", count.tensor, build.constant(INT32, -1))
    empty = build.add("ZerosLike", names.tensor)
    return names.but(tensor=build.add("Select", build.add("Less", ranks, end), names.tensor, empty))


def _check_classes(value: Value) -> None:
    """Raises Unfit where VALUE is no classes."""
    if not value.dtype.is_integer or value.dtype.is_quantized:
        before = (
            "the value holds labels already" if value.dtype == STRING else "add argmax, top-k or cast(int32) before it"
        )
        raise Unfit(f"requires classes, which are whole numbers, got {value.told}: {before}")


def _check_count(value: Value, names: int, first: int, where: str) -> None:
    """Raises Unfit where VALUE is known to tell more or fewer classes than there are NAMES, which are WHERE."""
    count = int(value.high) + 1 if value.is_of == CLASSES and value.high < inf else -1
    if count < 0 or (names == count and not first):
        return
    verb = "is" if names == 1 else "are"
    there = f"there {verb} {counted(names, 'name')}{where}{f' from class {first} on' if first else ''}"
    told = f"{there}, but {count:,} class{'es' * (count != 1)}"
    if names > count and not first:
        raise Unfit(f"{told}: {counted(names - count, 'name')} too many")
    hint = ", or first=1 if class 0 has no name" if not first and names == count - 1 else ""
    raise Unfit(f"{told}: give the rest a name with other=...{hint}")


def _named(build: Builder, value: Value, names: list[bytes], first: int, other: str | None) -> Value:
    """The NAMES of the classes that are VALUE."""
    if value.dtype not in (INT32, INT64):
        value = build.cast(value, INT32 if value.dtype.size < 4 else INT64)
    tensor = value.tensor
    if other is not None:  # the first and the last name are for all that lies before and behind
        names = [other.encode(), *names, other.encode()]
        ends = [build.constant(value.dtype, number) for number in (first - 1, first + len(names) - 2)]
        tensor, first = build.add("ClipByValue", tensor, *ends), first - 1
    if first:
        tensor = build.add("Sub", tensor, build.constant(value.dtype, first))
    found = _gathered(build, build.constant(STRING, names), tensor)
    return value.anew(found, STRING, value.shape)


def _gathered(build: Builder, items: Output, places: Output) -> Output:
    return build.add("GatherV2", items, places, build.constant(INT32, 0))
