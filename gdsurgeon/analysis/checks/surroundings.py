"""Finds faults in the surroundings of a graph: names that the graph does not have, and wrong types of tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape
from gdsurgeon.analysis.shapes.inference import shape_of_tensor
from gdsurgeon.container.objects import SIGNATURE_MAP
from gdsurgeon.container.surroundings import (
    MISSING,
    UNKNOWN,
    UNREACHABLE,
    Function,
    Node,
    Place,
    Surroundings,
    Tensor,
    Value,
)
from gdsurgeon.errors import Remark, printable, quoted
from gdsurgeon.graph.attrs import format_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_input
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.ops.kinds import ASSIGNMENTS
from gdsurgeon.wire.protos import StructuredValue

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
        if isinstance(item, (Node, Tensor)):
            ref = parse_input(item)
            node = graph.find(ref.node) if ref is not None else None
            if ref is None or node is None:
                yield "no-such-node", f"the graph has no node {quoted(item)}", item
            elif node.output_count is not None and ref.port >= max(node.output_count, isinstance(item, Node)):
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
    known = shape_of_tensor(graph, tensor) if infer else stated_shape(tensor)
    if isinstance(shape, tuple) and not compatible(shape, known):  # type: ignore[arg-type]
        yield "shape-mismatch", f"{quoted(name)} is {format_shape(known)}", name
