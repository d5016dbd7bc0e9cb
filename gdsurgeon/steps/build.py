"""Graphs of steps: before an input of a model, after an output, or instead of a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape, typed
from gdsurgeon.analysis.shapes.inference import shape_of_tensor
from gdsurgeon.arguments import public
from gdsurgeon.edits.parts import POST_SUFFIX, PRE_SUFFIX, RAW_SUFFIX
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import NAME_RULE, is_valid_name
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of, tensor_meant
from gdsurgeon.ops.dtypes import DTYPES, STRING, base_dtype
from gdsurgeon.ops.kinds import IDENTITY, PLACEHOLDERS, RESHAPES
from gdsurgeon.steps.builder import Builder, empty_graph
from gdsurgeon.steps.catalog import AFTER, BEFORE, StepCall, Steps, called, read_steps
from gdsurgeon.steps.value import (
    CLASSES,
    IMAGE_CHANNELS,
    LOG_PROBABILITIES,
    PROBABILITIES,
    InputSpec,
    Unfit,
    Value,
    in_batch,
    layout_of,
    parse_input,
    value_of,
)
from gdsurgeon.text import an, listed, named
from gdsurgeon.wire.write import read_chunks

INSERTED = "_inserted"


@public
def preprocessing(steps: Steps, model: Graph, *, input: str | Output = "", raw: str = "") -> Graph:
    """Builds a graph for `gds.add_preprocessing`, which converts raw values to an input of a model.

    Additional results of steps, such as the placement of a letterbox, become outputs of the model. A step that decodes
    expects a string; or a vector of strings, if the model's input has an open batch dimension and all items get the
    same shape. Otherwise the graph has the input's own dtype and shape, with height and width open if a step changes
    them.

    Args:
        steps: ``"decode-image | resize(224, 224, like=pillow)"``, or several such texts.
        model: the model; it is not changed.
        input: the input, or its name; optional if there is only one input.
        raw: the dtype and shape of the new input, such as ``uint8[?,?,3]``, if they differ from the default.

    Raises:
        UsageError: a syntax error, an unknown step or argument.
        ArgumentError: an argument of this function has a wrong type.
        InputError: a file that a step reads cannot be read.
        EditError: a step is not valid for the result of the previous step, or the last result not for the input.
    """
    chain = Chain(read_steps(steps), BEFORE)
    target = _input(model, input)
    wanted = _spec_of(target, stated_shape(target))
    declared = parse_input(raw) if raw else None
    given = declared or chain.input_for(wanted)
    wants_batch = _wants_batch(chain, declared)
    name, suffix, is_declared = target.node.name, PRE_SUFFIX, declared is not None
    if not wants_batch:
        build, value = begin(name, suffix, given, is_declared=is_declared)
        value = chain.apply(build, value)
        wants_batch = wants_batch is None and value.is_static and _is_item(value, wanted, is_open=True)
    if wants_batch:
        batch = declared or wanted
        build, value = begin(name, suffix, given._replace(shape=(batch.shape[0] if batch.shape else -1,)))
        value = chain.apply_to_batch(build, value)
    elif _is_item(value, wanted) and not _reads_rows(chain, given, is_declared=is_declared):
        results = {what: build.with_batch(result) for what, result in value.results.items()}
        value = build.with_batch(value).replace(results=results)
    _check_fits(value, wanted, target, "expects")
    known = layout_of(wanted.shape)
    if {value.layout, known} == {"NHWC", "NCHW"} and value.channels not in IMAGE_CHANNELS:
        returned = f"the steps return {value.layout}, but {quoted(target.name)}"
        step = "to-nchw" if known == "NCHW" else "to-nhwc"
        message = f"{returned} expects {typed(wanted.dtype, wanted.shape)}: add {step}"
        raise EditError(message, code="steps-unfit")
    for what, result in value.results.items():
        _check_free(what, result.name or "", model, build.graph)
        build.node("Identity", [result.tensor], {}, result.name or "")
    return finish(build, value, name + suffix)


@public
def postprocessing(steps: Steps, model: Graph, *, output: str | Output = "") -> Graph:
    """Builds a graph for `gds.add_postprocessing`, which processes an output of a model.

    The main result of the steps replaces the output, unless it has its own name. Additional results, such as the
    scores of the best classes, become separate outputs.

    Args:
        steps: ``"softmax | top-k(5)"``, or several such texts.
        model: the model; it is not changed.
        output: the output, or its name; optional if there is only one output.

    Raises:
        GdsurgeonError: see `preprocessing`.
    """
    return postprocessed(steps, model, output)[0]


def postprocessed(steps: Steps, model: Graph, output: str | Output) -> tuple[Graph, Value]:
    """Returns the graph of `postprocessing`, and the result of the steps."""
    chain = Chain(read_steps(steps), AFTER)
    source = output_meant(model, output)
    own = source.node.name
    build, value = begin(own, POST_SUFFIX, _spec_of(source, shape_of_tensor(model, source)))
    processed = {own: value}

    def other(text: str) -> Value:
        """Returns the value of a different output of the model. Raises Unfit."""
        tensor = model.tensor(tensor_meant(model, text))
        name = tensor.node.name
        if name == own:
            raise Unfit(f"{quoted(name)} is the output that the steps are added to")
        if name not in processed:
            dtype = DTYPES.get(base_dtype(tensor.dtype))
            if dtype is None or not dtype.kind or tensor.index or len(tensor.node.outputs) != 1:
                raise Unfit(f"{quoted(tensor.name)} is {an(tensor.node.op)}, which no step can process")
            spec = InputSpec(dtype, shape_of_tensor(model, tensor))
            value = value_of(build.placeholder(name, *spec), spec)
            processed[name] = with_known_facts(model, tensor, value)
        return processed[name]

    build.other = other
    value = chain.apply(build, with_known_facts(model, source, value))
    replaced: dict[str, Output] = {}
    added: dict[str, Output] = {}
    if value.name and value.name != own:
        added[value.name] = value.tensor
    else:
        replaced[own] = value.tensor
    unique = model.unique_names()
    for what, result in value.results.items():
        if result.name is None:
            continue
        if result.place and result.name in ("", result.place):
            replaced[result.place] = result.tensor
            continue
        name = result.name or unique(f"{own}_{what}")
        if name in added:
            raise EditError(f"rename: two results would have the name {quoted(name)}")
        added[name] = result.tensor
    for name in added:
        _check_free("rename", name, model, build.graph, [f"{each}{RAW_SUFFIX}" for each in processed])
    for name, given in processed.items():
        build.node("Identity", [replaced.get(name, given.tensor)], {}, name + POST_SUFFIX)
    for name, tensor in added.items():
        build.node("Identity", [tensor], {}, name)
    return _as_file(build), value


@public
def inserted(steps: Steps, model: Graph, tensor: str | Output) -> Graph:
    """Builds a graph for `gds.insert`, which replaces a tensor of a model by a tensor of the same dtype and shape.

    Raises:
        GdsurgeonError: see `preprocessing`.
    """
    chain = Chain(read_steps(steps))
    source = _tensor(model, tensor)
    given = _spec_of(source, shape_of_tensor(model, source))
    build, value = begin(source.node.name, INSERTED, given)
    value = chain.apply(build, with_known_facts(model, source, value))
    if value.results or value.name:
        what = f"the steps also return {listed(value.results)}" if value.results else "rename names an output"
        raise EditError(f"{what}, but insert replaces one tensor by one tensor")
    _check_fits(value, given, source, "is")
    return finish(build, value, source.node.name + INSERTED)


# -- the tensors of a model ------------------------------------------------------------------------------


def _tensor(model: Graph, named: str | Output) -> Output:
    """Returns the tensor `named` of `model`. Raises EditError: it does not exist."""
    return model.output(named) if isinstance(named, Output) else model.tensor(tensor_meant(model, named))


def _input(model: Graph, name: str | Output) -> Output:
    """Returns an input of a model by its name, or the only input."""
    if not name:
        return _only([node.output for node in input_nodes(model)], model, "input", advice="name-input")
    tensor = _tensor(model, name)
    if tensor.node.op not in PLACEHOLDERS:
        model_name = printable(model.source_name)
        message = f"{quoted(tensor.name)} of {model_name} is {an(tensor.node.op)}, not a Placeholder"
        raise EditError(message, advice="cut-first", facts={"model": model_name, "tensor": tensor.name})
    return tensor


def output_meant(model: Graph, name: str | Output) -> Output:
    """Returns an output of a model by its name; without a name, the only output, if possible of a signature.

    Raises:
        UsageError, EditError: there is no such output, or there are several.
    """
    if name:
        return _tensor(model, name)
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


def _spec_of(tensor: Output, shape: Shape) -> InputSpec:
    dtype = DTYPES.get(base_dtype(tensor.dtype))
    if dtype is None or not dtype.kind:
        raise EditError(f"{quoted(tensor.name)} is {typed(tensor.dtype, None)}, a dtype that no step supports")
    return InputSpec(dtype, shape)


# -- the sequence of steps -------------------------------------------------------------------------------

_NOT_EMPTY = frozenset(("images", "resizing", "sounds"))
"""The families of steps with kernels that refuse a tensor without elements."""


class Chain:
    """A sequence of steps for one side of a model, or (`side` is '') for a tensor inside.

    Raises:
        EditError: a step cannot be used there.
    """

    def __init__(self, steps: Sequence[StepCall], side: str = "") -> None:
        self.steps = steps
        for place, (step, _) in enumerate(steps):
            if side and side not in step.sides:
                raise EditError(f"{self.name(place)}: this step is for use {step.sides[0]} a model, not {side} a model")

    def name(self, place: int) -> str:
        """Returns the name of a step in messages."""
        return called([each.name for each in self.steps], place)

    def input_for(self, wanted: InputSpec) -> InputSpec:
        """Returns the input dtype and shape for an output. Raises EditError: they cannot be determined."""
        problem: EditError | None = None
        for place in range(len(self.steps) - 1, -1, -1):
            step, arguments = self.steps[place]
            try:
                before = step.takes(wanted, arguments)
            except Unfit as error:
                problem = EditError(f"{self.name(place)}: {error}", advice="say-raw")
                wanted = wanted._replace(shape=None)
                continue
            if before.dtype != wanted.dtype:  # the step decodes, so its input does not depend on later shapes
                problem = None
            wanted = before
        if problem is not None:
            raise problem
        return wanted

    def apply(self, build: Builder, value: Value) -> Value:
        """Applies all steps to a value. Raises EditError: a step is not valid."""
        for place, (step, arguments) in enumerate(self.steps):
            build.step = step.name
            try:
                if step.family in _NOT_EMPTY and 0 in (value.shape or ()):
                    raise Unfit(f"{value.description} has no elements")
                value = step.call(build, value, arguments)
            except Unfit as error:
                raise EditError(f"{self.name(place)}: {error}", code="step-unfit", step=step.name) from None
            finally:
                build.step = ""
        return value

    def apply_to_batch(self, build: Builder, value: Value) -> Value:
        """Applies all steps to each item of a vector: a function contains the steps for one item.

        This is not slower than later steps that process the batch as a whole.

        Raises:
            EditError: a step is not valid, or the shape of the results is not known.
        """
        inner = Builder(empty_graph(), "")
        item = inner.placeholder("item", value.dtype, ())
        made = self.apply(inner, value.replace(tensor=item, shape=()))
        if not made.is_static:
            last = self.name(len(self.steps) - 1)
            message = f"{last}: all items of a batch need the same shape, but it returns {made.description}"
            raise EditError(message, advice="one-size")
        size = value.shape[0] if value.shape else -1
        every = [made, *made.results.values()]
        whole = [
            each.replace(tensor=tensor, shape=(size, *(each.shape or ())), layout=in_batch(each.layout), extras={})
            for each, tensor in zip(every, build.mapped(inner, [item], every, [value.tensor]), strict=True)
        ]
        return whole[0].replace(results=dict(zip(made.results, whole[1:], strict=True)))


def _wants_batch(chain: Chain, declared: InputSpec | None) -> bool | None:
    """Returns whether the input is a vector of items that are decoded one by one; None if it is not declared."""
    choices = [arguments.get("batch") for step, arguments in chain.steps if step.one_by_one]
    if not choices:
        return False
    if declared is not None:
        return declared.dtype == STRING and declared.shape is not None and len(declared.shape) == 1
    return next((bool(batch) for batch in choices if batch is not None), None)


def _reads_rows(chain: Chain, given: InputSpec, *, is_declared: bool) -> bool:
    """Returns whether the input is a vector with a string for each row of a batch, of any size."""
    return given == InputSpec(STRING, (-1,)) and (
        not is_declared or any(step.family == "records" for step, _ in chain.steps)
    )


def _is_item(value: Value, wanted: InputSpec, *, is_open: bool = False) -> bool:
    """Returns whether `value` is one item while `wanted` is a batch of items, whose size `is_open`."""
    if value.rank is None or not wanted.shape or value.rank != len(wanted.shape) - 1:
        return False
    return wanted.shape[0] < 0 or not is_open


def begin(name: str, suffix: str, spec: InputSpec, *, is_declared: bool = False) -> tuple[Builder, Value]:
    """Returns a graph with a placeholder, and the value of the placeholder."""
    build = Builder(empty_graph(), name + suffix)
    return build, value_of(build.placeholder(name, *spec), spec, is_declared=is_declared)


def finish(build: Builder, value: Value, name: str) -> Graph:
    """Returns the graph, with the value as the node `name`."""
    build.node("Identity", [value.tensor], {}, name)
    return _as_file(build)


def _as_file(build: Builder) -> Graph:
    return from_bytes(read_chunks(build.graph.chunks()), build.graph.source_name)


def _check_fits(value: Value, wanted: InputSpec, target: Output, takes: str) -> None:
    if value.dtype == wanted.dtype and compatible(value.shape, wanted.shape):
        return
    message = f"the steps return {value.description}, but {quoted(target.name)}"
    message += f" {takes} {typed(wanted.dtype, wanted.shape)}"
    if wanted.dtype == STRING:
        message += ": the model itself decodes strings"
    elif wanted.dtype.is_integer and value.is_fraction:
        message += f": the values are {value.bounds}, and cast({wanted.dtype.name}) would leave only zeros"
    else:
        cast = f"cast({wanted.dtype.name})" if value.dtype != wanted.dtype else ""
        missing = [step for step in (_rearranging(value.shape, wanted.shape), cast) if step]
        message += f": add {' and '.join(missing)}" if missing else ""
    raise EditError(message, code="steps-unfit")


def _rearranging(shape: Shape, wanted: Shape) -> str:
    """Returns the step that converts `shape`, of a batch or of an item, to `wanted`; '' if there is no such step."""
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


def _check_free(step: str, name: str, model: Graph, built: Graph, others: Iterable[str] = ()) -> None:
    """Raises EditError if `name`, which a step gives to an output, is not a valid name, or exists already."""
    if not is_valid_name(name):
        raise EditError(f"{step}: {quoted(name)} is not a legal node name ({NAME_RULE})")
    if name in model or name in built or name in others:
        raise EditError(f"{step}: {printable(model.source_name)} already has {quoted(name)}")


# -- facts about the outputs of a model ------------------------------------------------------------------

_FACTS: dict[str, tuple[float, float, str]] = {
    "Softmax": (0.0, 1.0, PROBABILITIES), "LogSoftmax": (-inf, 0.0, LOG_PROBABILITIES), "Sigmoid": (0.0, 1.0, ""),
    "Tanh": (-1.0, 1.0, ""), "Relu": (0.0, inf, ""), "Relu6": (0.0, 6.0, ""), "ArgMax": (0.0, inf, CLASSES),
    "ArgMin": (0.0, inf, CLASSES),
}  # fmt: skip
"""For some ops the bounds and the kind of their results."""
_FARTHEST = 16
"""The number of nodes that forward their input, between a tensor and such an op."""


def with_known_facts(model: Graph, tensor: Output, value: Value) -> Value:
    """Returns the value of a tensor of the model, with the bounds and the kind that its op determines."""
    same_shape = True
    node = tensor.node
    for _ in range(_FARTHEST):
        if node.op not in IDENTITY | RESHAPES or not node.inputs:
            break
        source = node.inputs[0]
        same_shape = same_shape and (node.op in IDENTITY or _last(model, source) == _last(model, node.output) != -1)
        node = source.node
    if node.op not in _FACTS or (node is tensor.node and tensor.index):
        return value
    low, high, kind = _FACTS[node.op]
    if kind == CLASSES:
        count = _class_count(model, node)
        high = float(count - 1) if count > 0 else inf
    value = value.replace(low=max(low, value.low), high=min(high, value.high))
    return value.with_kind(kind) if kind and (same_shape or kind == CLASSES) else value


def _last(model: Graph, tensor: Output) -> int:
    """Returns the last dimension of a tensor; -1 if unknown."""
    shape = shape_of_tensor(model, tensor)
    return shape[-1] if shape else -1


def _class_count(model: Graph, node: Node) -> int:
    """Returns the number of values from which an ArgMax chooses; -1 if unknown."""
    if len(node.inputs) != 2:
        return -1
    scores, axis = node.inputs
    shape, found = shape_of_tensor(model, scores), constant(axis.node)
    if shape is None or found is None or len(found.values) != 1:
        return -1
    place = found.values[0]
    return shape[place] if isinstance(place, int) and -len(shape) <= place < len(shape) else -1
