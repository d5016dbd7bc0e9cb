"""The parts of a model outside its graph, their faults, and the problems that loaders of the model would have."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from gdsurgeon.analysis.queries.usage import op_usage
from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.container.checkpoint.bundle import Bundle, shard_path
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.stored import Checkpoint
from gdsurgeon.container.container import Container
from gdsurgeon.container.objects import SIGNATURE_MAP
from gdsurgeon.container.surroundings import MISSING, UNKNOWN, UNREACHABLE, Function, Place, Surroundings, Tensor, Value
from gdsurgeon.container.surroundings import Node as NodeName
from gdsurgeon.errors import InputError, Remark, printable, quoted
from gdsurgeon.graph.attrs import Shape, format_shape, shape_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import INIT, Key, Served, Serving
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.ops.kinds import ASSIGNMENTS, TEMPORARY, is_variable
from gdsurgeon.ops.op_defs import table_version
from gdsurgeon.text import counted, near_miss
from gdsurgeon.text import named as listed
from gdsurgeon.wire.protos import StructuredValue

BY_NODES, BY_OBJECTS, INITIALISED, BY_NOTHING = "restored", "restored by objects", "initialised", "not restored"
"""How a variable gets its value."""


class ModelVariable(NamedTuple):
    """A variable.

    Attributes:
        name: the name of its node.
        dtype, shape: as stated by the node; the shape may come from the checkpoint, and is None if it is unknown.
        key: the key of its value in the checkpoint; None if it has none.
        by: how it gets its value: `BY_NODES` and so on.
        signatures: keys of the signatures that need it.
    """

    name: str
    dtype: int
    shape: Shape
    key: Key | None
    by: str
    signatures: tuple[str, ...]


class Asset(NamedTuple):
    """A file of the model, the tensor that is fed with its path, and whether the file exists."""

    path: str
    tensor: str
    is_there: bool


class Contents(NamedTuple):
    """The parts of a model outside its graph.

    Attributes:
        collections: the number of entries of each collection.
        checkpoint: its open checkpoint; None if none can be read.
        unreadable: why the checkpoint cannot be read, or ''.
        signatures: the number of signatures for callers.
    """

    variables: list[ModelVariable]
    assets: list[Asset]
    collections: dict[str, int]
    checkpoint: Checkpoint | None
    unreadable: str
    signatures: int


def contents(container: Container) -> Contents:
    """Returns the parts of `container` outside its graph, as in its files. Raises InputError if it is corrupt."""
    graph, serving = container.graph.pristine(), container.graph.serving or Serving()
    checkpoint, unreadable = _opened(container.checkpoint)
    collections = container.meta.around.collection_def.items()
    return Contents(
        _variables(graph, serving, checkpoint),
        [
            Asset(path, tensor, os.path.isfile(path))
            for tensor, path in (serving.initialising.feeds if serving.initialising is not None else {}).items()
        ],
        {key: len(getattr(held, held.WhichOneof("kind") or "node_list").value) for key, held in sorted(collections)},
        checkpoint,
        unreadable,
        len(serving.called),
    )


def _opened(prefix: str) -> tuple[Checkpoint | None, str]:
    try:
        return (open_checkpoint(prefix) if prefix else None), ""
    except InputError as error:
        return None, error.message


def _variables(graph: Graph, serving: Serving, checkpoint: Checkpoint | None) -> list[ModelVariable]:
    topology = topology_of(graph)
    numbers = topology.with_ops(op for op in topology.ops() if is_variable(op) and op not in TEMPORARY)
    if not numbers:
        return []
    targets = serving.initialising.targets if serving.initialising is not None else ()
    loading = topology.upstream([topology.id_of(node) for name in targets if (node := graph.find(name)) is not None])
    needed = {key: topology.upstream(map(topology.id_of, named(graph, s))) for key, s in serving.called.items()}
    out = []
    for number in numbers:
        node = topology.node(number)
        key = serving.keys.get(node.name)
        by = BY_NOTHING if not loading[number] else INITIALISED
        if key is not None:
            by = BY_OBJECTS if node.name in serving.apart else BY_NODES
        dtype = node.plain_attr("dtype")
        signatures = tuple(signature for signature, above in needed.items() if above[number])
        shape = _shape(node, key, checkpoint)
        out.append(
            ModelVariable(node.name, base_dtype(dtype) if isinstance(dtype, int) else 0, shape, key, by, signatures)
        )
    return out


def named(graph: Graph, served: Served) -> Iterable[Node]:
    """Returns the nodes of `graph` that a signature names."""
    found = (graph.find(text.partition(":")[0]) for text in served.tensors)
    return dict.fromkeys(node for node in found if node is not None)


def _shape(node: Node, key: Key | None, checkpoint: Checkpoint | None) -> Shape:
    stated = node.attr("shape")
    shape = shape_of(stated.shape) if stated is not None else None
    if shape is None and key is not None and not key.slice and checkpoint is not None and key.tensor in checkpoint:
        with suppress(InputError):  # its reader will report the error
            return checkpoint.tensor(key.tensor).shape
    return shape


def called_keys(serving: Serving) -> list[str]:
    """Returns the keys of all signatures for callers, whichever are selected."""
    return [key for key in serving.signatures if key != INIT]


ALL = "all loaders"
NODES = "TensorFlow Serving, the C API, tf.compat.v1"
OBJECTS = "tf.saved_model.load, Keras' TFSMLayer"


class LoadingProblem(NamedTuple):
    """A problem that makes loaders fail.

    Attributes:
        loaders: the loaders that fail.
        what: the problem.
        advice: the code of the repair, as in `GdsurgeonError.advice`; '' if no repair is known.
        facts: the facts of the advice.
    """

    loaders: str
    what: str
    advice: str = ""
    facts: Mapping[str, str] = {}


def loading_problems(container: Container, contents: Contents) -> list[LoadingProblem]:
    """Returns the problems of loaders with `container`, which holds `contents`; problems of all loaders first."""
    found = [
        *_of_signatures(container),
        *_of_the_checkpoint(container, contents),
        *_of_values(contents),
        *_of_assets(contents),
        *_of_ops(container),
        *_of_objects(container),
    ]
    facts = {"model": printable(container.graph.source_name), "prefix": printable(container.checkpoint)}
    found.sort(key=lambda trouble: (ALL, NODES, OBJECTS).index(trouble.loaders))
    return [trouble._replace(facts={**facts, **trouble.facts}) for trouble in found]


def _of_signatures(container: Container) -> Iterator[LoadingProblem]:
    graph, serving = container.graph, container.graph.serving or Serving()
    if container.kind == "SavedModel" and not called_keys(serving):
        yield LoadingProblem(ALL, "it has no signature to call", "add-signature")
    for key, served in serving.called.items():
        for tensor in served.tensors:
            if tensor.partition(":")[0] not in graph:
                what = f"the signature {quoted(key)} refers to {quoted(tensor)}, which does not exist in the graph"
                yield LoadingProblem(ALL, what, "remove-signature", {"key": printable(key)})


def _of_the_checkpoint(container: Container, contents: Contents) -> Iterator[LoadingProblem]:
    """Yields problems of the checkpoint: it is missing or unreadable, or lacks a file or a tensor."""
    if contents.unreadable:
        yield LoadingProblem(ALL, contents.unreadable, "name-checkpoint")
    checkpoint = contents.checkpoint
    needed = [variable for variable in contents.variables if variable.signatures]
    if checkpoint is None:
        if not container.checkpoint and (needed or (contents.variables and not called_keys(_serving(container)))):
            what = f"the checkpoint with the values of {counted(len(contents.variables), 'variable')} is missing"
            yield LoadingProblem(ALL, what, "name-checkpoint")
        return
    shards = checkpoint.header.num_shards if isinstance(checkpoint, Bundle) else 0
    paths = (shard_path(checkpoint.prefix, shard, shards) for shard in range(shards))
    missing = next((path for path in paths if not os.path.exists(path)), None)
    if missing is not None:
        yield LoadingProblem(ALL, f"{printable(missing)} is missing; it is a part of the checkpoint")
    lost = {v.key.tensor: v.name for v in contents.variables if v.key is not None and v.key.tensor not in checkpoint}
    if lost:
        key, name = next(iter(lost.items()))
        what = f"the checkpoint has no tensor {quoted(key)}, from which {quoted(name)} is restored"
        more = f", nor {counted(len(lost) - 1, 'other')} that the model restores" if len(lost) > 1 else ""
        near = near_miss(key, checkpoint.keys).strip()
        yield LoadingProblem(ALL, f"{what}{more}{f'. {near}' if near else ''}", "rename-keys")


def _serving(container: Container) -> Serving:
    return container.graph.serving or Serving()


def _of_values(contents: Contents) -> Iterator[LoadingProblem]:
    """Yields problems of variables that a signature needs but that have no value, or only for some loaders."""
    if contents.checkpoint is None:
        return
    lost, apart = ([v for v in contents.variables if v.signatures and v.by == by] for by in (BY_NOTHING, BY_OBJECTS))
    if lost:
        yield LoadingProblem(ALL, f"no node restores or initializes {_needed(lost)}", "keep-others")
    if apart:
        yield LoadingProblem(NODES, f"only the model's objects restore {_needed(apart)}", "slim")


def _needed(variables: Sequence[ModelVariable]) -> str:
    """Returns a text that names `variables`, the signatures that need them, and the error of TensorFlow."""
    keys = list(dict.fromkeys(key for variable in variables for key in variable.signatures))
    names = listed([variable.name for variable in variables], 2, show=quoted)
    return f'{names}, needed by {listed(keys, 2, show=quoted)} ("Could not find variable")'


def _of_assets(contents: Contents) -> Iterator[LoadingProblem]:
    missing = [asset.path for asset in contents.assets if not asset.is_there]
    if missing:
        yield LoadingProblem(ALL, f"{listed(missing, 3, show=printable)} is missing; a table is filled from it")


def _of_ops(container: Container) -> Iterator[LoadingProblem]:
    unknown = [op.op for op in op_usage(container.graph) if not op.is_known and not op.is_function]
    if unknown:
        what = f"TensorFlow {table_version()} does not know {listed(unknown, 5, show=quoted)}"
        yield LoadingProblem(ALL, what, "custom-ops")


def _of_objects(container: Container) -> Iterator[LoadingProblem]:
    """Yields problems of the objects that cannot be restored."""
    objects, graph = container.meta.around.object_graph_def, container.graph
    if not objects.nodes:
        return
    whats = []
    slots = sum(1 for item in objects.nodes if item.slot_variables)
    if slots:
        whats.append(f"{counted(slots, 'object')} of an old optimizer (\"no attribute 'add_slot'\")")
    lost = [name for name in sorted(objects.concrete_functions) if graph.functions.get(name) is None]
    if lost:
        whats.append(f"objects name functions that do not exist: {listed(lost, 2, show=quoted)}")
    gone = [c for item in objects.nodes if (c := item.constant.operation) and c not in graph]
    if gone:
        whats.append(f"objects name constants that do not exist: {listed(gone, 2, show=quoted)}")
    served = called_keys(_serving(container))
    maps = [item for item in objects.nodes if item.user_object.identifier == "signature_map"]
    known = {child.local_name for item in maps for child in item.children}
    if maps and known != set(served):
        whats.append(f"the objects have different signatures: {listed(sorted(known), 5, show=quoted) or 'none'}")
    yield from (LoadingProblem(OBJECTS, what, "slim") for what in whats)


_FAR = 16
"""The maximum number of nodes between a variable and the value that is read from it."""


def faults(found: Surroundings, graph: Graph, inferred: Collection[str] = ()) -> Iterator[Remark]:
    """Yields the faults of the surroundings `found` of a graph.

    Args:
        found: the surroundings.
        graph: as it is in its file.
        inferred: keys of signatures whose shapes are compared with inferred shapes; for others, the stated shapes are
            used.

    Yields:
        A remark for each fault, with the place.
    """
    for place, value in found.items():
        for fault in _names(value, graph, found):
            yield _at(place, *fault)
        if isinstance(value, tuple) and place[0] == "collection":
            for item in value:
                if isinstance(item, dict) and item.get("message") == "VariableDef":
                    yield from (_at(place, *fault) for fault in _variable(item, graph))
        if value == MISSING and place[0] == "asset":
            yield _at(place, "file-missing", f"the file {quoted(place[1])} is missing", place[1])
        if place[0] == "object" and place[-1] == "checkpoint key" and ("checkpoint", str(value)) not in found:
            yield _at(place, "no-such-key", f"the checkpoint has no {quoted(str(value))}", str(value))
        if place[0] == "signature" and place[-1] == "tensor" and isinstance(value, Tensor):
            places = ((*place[:-1], what) for what in ("dtype", "shape"))
            dtype, shape = map(found.get, places)
            infer = place[1] in inferred
            yield from (_at(place, *fault) for fault in _type(value, dtype, shape, graph, infer))
    yield from _served_functions(found)


def _served_functions(found: Surroundings) -> Iterator[Remark]:
    """Yields a remark for each signature whose function has other arguments or results than its SignatureDef."""
    maps = [place[1] for place, value in found.items() if place[0] == "object" and value == SIGNATURE_MAP]
    children = [(place[2].removeprefix("child "), value, place) for place, value in found.items()
                if place[0] == "object" and place[1] in maps and place[2].startswith("child ")]  # fmt: skip
    for key, child, place in children:
        function = found.get(("object", str(child), "function 0"))
        if not isinstance(function, dict) or ("signature", key, "method") not in found:
            continue
        sides: dict[str, dict[str, dict[str, Value]]] = {"input": {}, "output": {}}
        for at, value in found.items():
            if at[:2] == ("signature", key) and at[2] in sides and at[-1] in ("dtype", "shape"):
                sides[at[2]].setdefault(at[3], {})[at[-1]] = value
        keywords = found.get(("object", str(child), "argument_keywords"), ())
        positional = found.get(("object", str(child), "allowed_positional_arguments"), 0)
        # As in TensorFlow, one positional argument is allowed if it is the only argument, otherwise none.
        if keywords != tuple(sorted(sides["input"])) or positional != (len(sides["input"]) == 1):
            yield _at(place, "wrong-function", f"the function of {quoted(key)} has different argument names", key)
        for side, wanted in sides.items():
            declared = _declared(function.get(f"{side}s"))
            for name in sorted({*wanted, *declared}):
                if wanted.get(name) != declared.get(name):
                    text = (
                        f"the function of {quoted(key)} and the signature declare the {side} {quoted(name)} differently"
                    )
                    yield _at(place, "wrong-function", text, name)


def _declared(structure: Value | None) -> dict[str, dict[str, Value]]:
    """Returns the dtype and the shape of each named tensor in a serialized StructuredValue."""
    if not isinstance(structure, bytes):
        return {}
    value: Any = StructuredValue.FromString(structure)
    if value.WhichOneof("kind") == "tuple_value":  # positional arguments and keyword arguments
        value = value.tuple_value.values[-1]
    specs = {name: field.tensor_spec_value for name, field in value.dict_value.fields.items()}
    return {
        name: {"dtype": spec.dtype,
               "shape": UNKNOWN if spec.shape.unknown_rank else tuple(dim.size for dim in spec.shape.dim)}
        for name, spec in specs.items()
    }  # fmt: skip


def _at(place: Place, code: str, text: str, name: str) -> Remark:
    return Remark(f"{printable(': '.join(place))}: {text}", code, place=list(place), name=name)


Fault = tuple[str, str, str]
"""The code, the text, and the name that is wrong."""


def _names(value: Value, graph: Graph, found: Surroundings) -> Iterator[Fault]:
    """Yields the faults of names in `value` that do not exist in `graph`, its library or its objects."""
    pending: list[tuple[str, Value]] = [("", value)]
    while pending:
        key, item = pending.pop()
        if isinstance(item, (NodeName, Tensor)):
            ref = parse_input(item)
            node = graph.find(ref.node) if ref is not None else None
            if ref is None or node is None:
                yield "no-such-node", f"the graph has no node {quoted(item)}", item
            elif node.output_count is not None and ref.port >= max(node.output_count, isinstance(item, NodeName)):
                yield "no-such-output", f"{quoted(node.name)} has no output {ref.port}", item
        elif isinstance(item, Function):
            if item not in graph.functions:
                yield "no-such-function", f"the library has no function {quoted(item)}", item
        elif isinstance(item, tuple):
            pending += [(key, inner) for inner in item]
        elif isinstance(item, dict):
            pending += item.items()
            if item.get("concrete function") == MISSING:
                name = str(item["name"])
                yield "no-such-function", f"the objects do not describe the function {quoted(name)}", name
        elif isinstance(item, str) and item.startswith(UNREACHABLE) and key == "captures":
            yield "no-such-object", f"the object {quoted(item)} does not exist", item


def _variable(record: dict[str, Value], graph: Graph) -> Iterator[Fault]:
    """Yields the faults of a VariableDef that assigns or reads a different variable."""
    variable, initializer, snapshot = (
        _node(record.get(key), graph) for key in ("variable_name", "initializer_name", "snapshot_name")
    )
    if variable is None:
        return
    name = variable.node.name
    if initializer is not None and initializer.node.op in ASSIGNMENTS:
        read = initializer.node.inputs[:1]
        if read and read[0].node is not variable.node:
            yield "wrong-variable", f"{quoted(initializer.node.name)} does not assign to {quoted(name)}", name
    for _ in range(_FAR):
        if snapshot is None or snapshot.node is variable.node:
            return
        snapshot = next(iter(snapshot.node.inputs), None)
    yield "wrong-variable", f"{quoted(str(record['snapshot_name']))} does not read {quoted(name)}", name


def _node(text: Any, graph: Graph) -> Output | None:
    ref = parse_input(text) if text else None
    node = graph.find(ref.node) if ref is not None else None
    return Output(node, ref.port) if node is not None and ref is not None else None


def _type(name: Tensor, dtype: Value | None, shape: Value | None, graph: Graph, infer: bool) -> Iterator[Fault]:
    """Yields the faults of the dtype and the shape that a signature states for the tensor `name`."""
    tensor = _node(name, graph)
    if tensor is None or tensor.node.output_dtypes is None or tensor.index >= len(tensor.node.output_dtypes):
        return
    own = base_dtype(tensor.dtype)
    if dtype and dtype != own:  # some models do not state it
        yield "dtype-mismatch", f"{quoted(name)} is {dtype_name(own)}", name
    from gdsurgeon.analysis.shapes.inference import shape_of_tensor

    known = shape_of_tensor(graph, tensor) if infer else stated_shape(tensor)
    if isinstance(shape, tuple) and not compatible(shape, known):  # type: ignore[arg-type]
        yield "shape-mismatch", f"{quoted(name)} is {format_shape(known)}", name
