"""Graphs of steps: in front of an input of a model, behind an output, or in a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape, typed
from gdsurgeon.analysis.shapes.inference import shape_of_tensor
from gdsurgeon.edits import add_postprocessing, add_preprocessing
from gdsurgeon.errors import EditError, UsageError, printable, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Output
from gdsurgeon.graph.served import serving_of, tensor_meant
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.steps.behind import Behind, check_free
from gdsurgeon.steps.book import Written, written
from gdsurgeon.steps.builder import Builder, empty_graph
from gdsurgeon.steps.chain import Chain
from gdsurgeon.steps.known import known_of
from gdsurgeon.steps.raw import IMAGE_CHANNELS, known_dtype, layout_of, parse_raw, value_of
from gdsurgeon.steps.step import BEHIND, FRONT, Raw
from gdsurgeon.steps.value import Value
from gdsurgeon.text import an, listed, named
from gdsurgeon.wire.write import read_chunks

Steps = str | Sequence[str] | Sequence[Written]
"""Steps as a text, as several texts, or read already."""

INSERTED = "_inserted"


def preprocessing(steps: Steps, model: Graph, *, input: str | Output = "", raw: str = "") -> Graph:
    """A graph for `gds.add_preprocessing`: what makes of raw values what an input of MODEL takes.

    Additional results of steps, such as the placement of a letterbox, become outputs of the model. A step that decodes
    expects a string; or a vector of strings, if the model's input has an open batch dimension and all items get the
    same shape. Otherwise the graph has the input's own dtype and shape, with height and width open if a step changes
    them.

    Args:
        steps: ``"decode-image | resize(224, 224, like=pillow)"``, or several such texts.
        model: left as it is.
        input: the input, or its name; may be left out where there is one.
        raw: the dtype and shape of the new input, such as ``uint8[?,?,3]``, if they differ from the default.

    Raises:
        UsageError: the steps are not in the language, or a step or an argument is unknown; or an argument of this
            function is of another type.
        InputError: a file that a step reads cannot be read.
        EditError: a step does not fit what comes before it, or the result not the input; which, is in the message.
    """
    _check_model(model)
    chain = Chain(_read(steps), FRONT)
    target = _input(model, input)
    wanted = _raw_of(target, stated_shape(target))
    declared = parse_raw(raw) if raw else None
    given = declared or chain.raw(wanted)
    wants_batch = _wants_batch(chain, declared)
    name, suffix, is_declared = target.node.name, add_preprocessing.SUFFIX, declared is not None
    if not wants_batch:
        build, value = begin(name, suffix, given, is_declared=is_declared)
        value = chain.apply(build, value)
        wants_batch = wants_batch is None and value.is_static and _is_item(value, wanted, is_open=True)
    if wants_batch:
        build, value = begin(name, suffix, given._replace(shape=_batch_of(declared or wanted)))
        value = chain.apply_to_batch(build, value)
    elif _is_item(value, wanted) and not _is_vector_of_texts(given, declared):
        besides = {what: r._replace(value=build.with_batch(r.value)) for what, r in value.results.items()}
        value = build.with_batch(value).but(results=besides)
    _check_fits(value, wanted, target, "expects")
    _check_layout(value, wanted, target)
    for what, result in value.results.items():
        check_free(what, result.name or "", model, build.graph)
        build.node("Identity", [result.value.tensor], {}, result.name or "")
    return finish(build, value, name + suffix)


def postprocessing(steps: Steps, model: Graph, *, output: str | Output = "") -> Graph:
    """A graph for `gds.add_postprocessing`: what makes something of an output of MODEL.

    The main result of the steps replaces the output, unless it has its own name. Additional results, such as the
    scores of the best classes, become separate outputs.

    Args:
        steps: ``"softmax | top-k(5)"``, or several such texts.
        model: left as it is.
        output: the output, or its name; may be left out where there is one.

    Raises:
        UsageError, InputError, EditError: see `preprocessing`.
    """
    return stood_behind(steps, model, output)[0]


def stood_behind(steps: Steps, model: Graph, output: str | Output) -> tuple[Graph, Value]:
    """The graph that `postprocessing` gives, and what is known of what the steps give."""
    _check_model(model)
    chain = Chain(_read(steps), BEHIND)
    source = output_meant(model, output)
    build, value = begin(source.node.name, add_postprocessing.SUFFIX, _raw_given(model, source))
    behind = Behind(model, build, source, value)
    build.other = lambda name: behind.other(model.tensor(tensor_meant(model, name)))
    value = chain.apply(build, known_of(model, source, value))
    behind.take(value)
    return _as_file(build), value


def inserted(steps: Steps, model: Graph, tensor: str | Output) -> Graph:
    """A graph for `gds.insert`: what makes of TENSOR of MODEL another one of its type and shape.

    Raises:
        UsageError, InputError, EditError: see `preprocessing`.
    """
    _check_model(model)
    chain = Chain(_read(steps))
    source = _tensor(model, tensor, "tensor")
    given = _raw_given(model, source)
    build, value = begin(source.node.name, INSERTED, given)
    value = chain.apply(build, known_of(model, source, value))
    if value.results or value.name:
        what = f"the steps also return {listed(value.results)}" if value.results else "rename names an output"
        raise EditError(f"{what}, but insert replaces one tensor by one tensor")
    _check_fits(value, given, source, "is")
    return finish(build, value, source.node.name + INSERTED)


def _read(steps: object) -> list[Written]:
    """STEPS, which may be anything. Raises UsageError, InputError: see `written`; or they are no text, and no list."""
    if isinstance(steps, str):
        return written(steps)
    if not isinstance(steps, Iterable) or isinstance(steps, (Mapping, bytes)):
        raise UsageError(f"{_STEPS}, not {_kind(steps)}")
    items: list[object] = list(steps)
    texts = [step for step in items if isinstance(step, str)]
    read = [step for step in items if isinstance(step, Written)]
    strange = [step for step in items if not isinstance(step, (str, Written))]
    if strange or (texts and read):
        raise UsageError(f"{_STEPS}{f', not a list with {_kind(strange[0])}' if strange else ''}")
    return read or written(texts)


_STEPS = "steps must be a text such as 'decode-image | rescale(1/255)', or a list of such texts"


def _kind(value: object) -> str:
    """Returns the kind of a wrong argument: ``None``, ``int``, ``dict``."""
    return "None" if value is None else type(value).__name__


def _check_model(model: object) -> None:
    """Raises UsageError where a caller has given another thing than a graph, such as its path."""
    if not isinstance(model, Graph):
        raise UsageError(f"the model must be a graph, as gds.load(PATH) returns it, not {_kind(model)}")


def _tensor(model: Graph, named: object, what: str) -> Output:
    """Returns the tensor of `model` that is used as `what`. Raises UsageError, EditError: there is no such tensor."""
    if isinstance(named, Output):
        return model.output(named)
    if not isinstance(named, str):
        raise UsageError(f"the {what} must be given by its name, not by {_kind(named)}")
    return model.tensor(tensor_meant(model, named))


def _input(model: Graph, name: str | Output) -> Output:
    """The input of MODEL that is meant."""
    if not name:
        return _only([node.output for node in input_nodes(model)], model, "input", advice="name-input")
    tensor = _tensor(model, name, "input")
    if tensor.node.op not in PLACEHOLDERS:
        model_name = printable(model.source_name)
        told = f"{quoted(tensor.name)} of {model_name} is {an(tensor.node.op)}, not a Placeholder"
        raise EditError(told, advice="cut-first", facts={"model": model_name, "tensor": tensor.name})
    return tensor


def output_meant(model: Graph, name: str | Output) -> Output:
    """Returns the output of MODEL that NAME means; without a name, the only one, that of a signature if there is one.

    Raises:
        UsageError, EditError: there is none, or there are several.
    """
    if name:
        return _tensor(model, name, "output")
    serving = serving_of(model)
    if serving is not None and serving.called:
        texts = dict.fromkeys(text for served in serving.called.values() for text in served.outputs.values())
        found = [model.tensor(text) for text in texts]
    else:
        found = [output for node in output_nodes(model) for output in node.outputs]
    return _only(found, model, "output", advice="name-output")


def _only(tensors: Sequence[Output], model: Graph, what: str, *, advice: str) -> Output:
    if len(tensors) == 1:
        return tensors[0]
    name = printable(model.source_name)
    if not tensors:
        raise EditError(f"{name} has no {what}")
    raise EditError(f"{name} has {len(tensors)} {what}s: {named([t.name for t in tensors], 8)}", advice=advice)


def _raw_given(model: Graph, tensor: Output) -> Raw:
    """What a TENSOR of MODEL is."""
    return _raw_of(tensor, shape_of_tensor(model, tensor))


def _raw_of(tensor: Output, shape: tuple[int, ...] | None) -> Raw:
    dtype = known_dtype(tensor.dtype)
    if dtype is None or not dtype.kind:
        raise EditError(f"{quoted(tensor.name)} is {typed(tensor.dtype, None)}, a dtype that no step supports")
    return Raw(dtype, shape)


def _wants_batch(chain: Chain, declared: Raw | None) -> bool | None:
    """Returns whether the input is a vector of items that are decoded one by one; None if it is not declared."""
    said = [step.arguments.get("batch") for step in chain.steps if step.step.one_by_one]
    if not said:
        return False
    if declared is not None:
        return declared.dtype == STRING and declared.shape is not None and len(declared.shape) == 1
    return next((bool(batch) for batch in said if batch is not None), None)


def _is_item(value: Value, wanted: Raw, *, is_open: bool = False) -> bool:
    """Returns whether `value` is one item while `wanted` is a batch of items, whose size `is_open`."""
    if value.rank is None or not wanted.shape or value.rank != len(wanted.shape) - 1:
        return False
    return wanted.shape[0] < 0 or not is_open


def _is_vector_of_texts(given: Raw, declared: Raw | None) -> bool:
    """Returns whether `given` is one record for each item of a batch, unless it is `declared` as one item."""
    return declared is None and given.dtype == STRING and given.shape == (-1,)


def _batch_of(known: Raw) -> tuple[int]:
    """The shape of a vector of items, one for each that KNOWN, which has the batch in front, is of."""
    return (known.shape[0] if known.shape else -1,)


def begin(name: str, suffix: str, raw: Raw, *, is_declared: bool = False) -> tuple[Builder, Value]:
    """A graph with a placeholder NAME that takes RAW."""
    build = Builder(empty_graph(), name + suffix)
    placeholder = build.node("Placeholder", (), {"dtype": raw.dtype, "shape": raw.shape}, name)
    return build, value_of(placeholder.output, raw, is_declared=is_declared)


def _check_fits(value: Value, wanted: Raw, target: Output, takes: str) -> None:
    if value.dtype == wanted.dtype and compatible(value.shape, wanted.shape):
        return
    told = f"the steps return {value.told}, but {quoted(target.name)} {takes} {typed(wanted.dtype, wanted.shape)}"
    if wanted.dtype == STRING:
        told += ": the model itself decodes strings"
    elif wanted.dtype.is_integer and value.is_fraction:
        told += f": the values are {value.bounds}, and cast({wanted.dtype.name}) would leave only zeros"
    else:
        cast = f"cast({wanted.dtype.name})" if value.dtype != wanted.dtype else ""
        missing = [step for step in (_rearranging(value.shape, wanted.shape), cast) if step]
        told += f": add {' and '.join(missing)}" if missing else ""
    raise EditError(told, code="steps-unfit")


def _check_layout(value: Value, wanted: Raw, target: Output) -> None:
    """Raises EditError where VALUE fits by its shape alone: by what is WANTED the channels lie at the other end."""
    known = layout_of(wanted.shape)
    if {value.layout, known} == {"NHWC", "NCHW"} and value.channels not in IMAGE_CHANNELS:
        other = "to-nchw" if known == "NCHW" else "to-nhwc"
        told = f"the steps return {value.layout}, but {quoted(target.name)} expects {typed(wanted.dtype, wanted.shape)}"
        raise EditError(f"{told}: add {other}", code="steps-unfit")


def _rearranging(shape: Shape, wanted: Shape) -> str:
    """The step that makes SHAPE, of a batch or of one item of it, fit where WANTED is; '' where none does, or need."""
    if shape is None or wanted is None or compatible(shape, wanted):
        return ""
    found = {}
    if len(shape) >= 3:
        *batch, height, width, channels = shape
        found["to-nchw"] = (*batch, channels, height, width)
        *batch, channels, height, width = shape
        found["to-nhwc"] = (*batch, height, width, channels)
    if shape[-1:] == (1,):
        found["squeeze(-1)"] = shape[:-1]
    found["expand-dims(-1)"] = (*shape, 1)
    fitting = (step for step, made in found.items() if compatible(made, wanted) or compatible(made, wanted[1:]))
    return next(fitting, "")


def finish(build: Builder, value: Value, name: str) -> Graph:
    """The graph as a file has it, with VALUE under NAME."""
    build.node("Identity", [value.tensor], {}, name)
    return _as_file(build)


def _as_file(build: Builder) -> Graph:
    return from_bytes(read_chunks(build.graph.chunks()), build.graph.source_name)
