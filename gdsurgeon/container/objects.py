"""The objects of a SavedModel of TensorFlow 2, which ``tf.saved_model.load`` returns.

Facts, from saved_object_graph.proto and measured with TensorFlow 2.21: the children of the node ``signature_map`` name
bare concrete functions by the keys of the signatures. Such a function accepts the inputs in the order of their names,
then the objects with the numbers in its ``bound_inputs``; it returns the outputs in the order of their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.errors import EditError, InputError, quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import Served
from gdsurgeon.ops.kinds import CALLS, COLOCATION_ATTR
from gdsurgeon.wire.protos import (
    SavedBareConcreteFunction,
    SavedConcreteFunction,
    SavedObject,
    SavedObjectGraph,
    SignatureDef,
    StructuredValue,
    TensorInfo,
)

SIGNATURE_MAP = "signature_map"


class SignatureFunction(NamedTuple):
    """A library function that computes a signature: its name, and the objects captured after the inputs."""

    name: str
    bound: Sequence[int]


class ObjectGraph:
    """The objects, to be changed.

    Args:
        proto: is changed.
    """

    def __init__(self, proto: SavedObjectGraph) -> None:
        self.proto = proto

    @property
    def functions(self) -> set[str]:
        """The library functions that the objects name."""
        return {*self.proto.concrete_functions, *self._named()}

    def _named(self) -> set[str]:
        found: set[str] = set()
        for item in self.proto.nodes:
            found.update(item.function.concrete_functions)
            found.add(item.bare_concrete_function.concrete_function_name)
        return found - {""}

    @property
    def callables(self) -> list[str]:
        """The names of the model's functions other than its signatures."""
        root = self.proto.nodes[0].children if self.proto.nodes else ()
        return [child.local_name for child in root if self._at(child.node_id).WhichOneof("kind") == "function"]

    @property
    def signatures(self) -> dict[str, SignatureFunction]:
        """The function of each signature, by its key."""
        out: dict[str, SignatureFunction] = {}
        found = self.signature_map
        for child in found.children if found is not None else ():
            name = self._at(child.node_id).bare_concrete_function.concrete_function_name
            if name:
                out[child.local_name] = SignatureFunction(name, self.bound(name))
        return out

    def bound(self, name: str) -> list[int]:
        """Returns the object numbers of the captures that the function `name` takes after its inputs."""
        known = self.proto.concrete_functions
        return list(known[name].bound_inputs) if name in known else []

    def held(self, calls: Iterable[Node]) -> dict[str, int]:
        """Returns the object numbers of tensors, by name: the captured arguments in `calls` of concrete functions."""
        out: dict[str, int] = {}
        for node in calls:
            called = node.attr("f")
            bound = self.bound(called.func.name) if called is not None else []
            if bound:
                passed = [format_input(read.node.name, read.index) for read in node.inputs[-len(bound) :]]
                out.update(zip(passed, bound, strict=False))
        return out

    def constant(self, place: int) -> str:
        """Returns the name of the Const node that holds the value of the object at `place`; '' if it is no constant."""
        return self._at(place).constant.operation

    def _at(self, place: int) -> SavedObject:
        """Returns the object number `place`. Raises InputError: it does not exist."""
        if not 0 <= place < len(self.proto.nodes):
            count = len(self.proto.nodes)
            line = (
                f"the model's objects are corrupt: object number {place:,} is referenced, but there are only {count:,}"
            )
            raise InputError(line, code="corrupt", found=place, count=count)
        return self.proto.nodes[place]

    def add_constant(self, node: str) -> int:
        """Adds an object for the value of the Const `node`, and returns its number."""
        item = self.proto.nodes.add()
        item.constant.operation = node
        return len(self.proto.nodes) - 1

    def set_signatures(
        self, definitions: Mapping[str, SignatureDef], keys: Iterable[str], made: Mapping[str, SignatureFunction]
    ) -> None:
        """Sets the signatures to those of `keys`; the functions `made` replace the earlier functions of their keys."""
        found = self.signature_map
        assert found is not None
        places = {child.local_name: child.node_id for child in found.children}
        uses = Counter(child.node_id for item in self.proto.nodes for child in item.children)
        free = [places[key] for key in places if key not in keys and uses[places[key]] <= 1]
        del found.children[:]
        for key in keys:
            place = places.get(key)
            if key in made:
                if place is None or uses[place] > 1:
                    place = free.pop() if free else len(self.proto.nodes)
                    if place == len(self.proto.nodes):
                        self.proto.nodes.add()
                item, function = self.proto.nodes[place], made[key]
                item.Clear()
                item.bare_concrete_function.CopyFrom(_bare(function.name, sorted(definitions[key].inputs)))
                self.proto.concrete_functions[function.name].CopyFrom(_concrete(definitions[key], function.bound))
            assert place is not None
            found.children.add(node_id=place, local_name=key)
        named = self._named()
        for name in [name for name in self.proto.concrete_functions if name not in named]:
            del self.proto.concrete_functions[name]

    @property
    def signature_map(self) -> SavedObject | None:
        """The object whose children are the signatures, in which a loader looks them up; None if it does not exist."""
        return next((item for item in self.proto.nodes if item.user_object.identifier == SIGNATURE_MAP), None)


def _bare(name: str, inputs: Sequence[str]) -> SavedBareConcreteFunction:
    """Returns a concrete function with keyword arguments `inputs`, in the form that TensorFlow uses for signatures."""
    out = SavedBareConcreteFunction()
    out.concrete_function_name = name
    out.argument_keywords.extend(inputs)
    out.allowed_positional_arguments = int(len(inputs) == 1)  # Keras' TFSMLayer passes one
    spec = out.function_spec.fullargspec.named_tuple_value
    spec.name = "FullArgSpec"
    values = {key: spec.values.add(key=key).value for key in _ARGUMENTS}
    for key in ("varargs", "varkw", "defaults", "kwonlydefaults"):
        values[key].none_value.SetInParent()
    values["args"].list_value.SetInParent()
    values["annotations"].dict_value.SetInParent()
    values["kwonlyargs"].list_value.SetInParent()
    for key in inputs:
        values["kwonlyargs"].list_value.values.add(string_value=key)
    out.function_spec.input_signature.none_value.SetInParent()
    return out


_ARGUMENTS = ("args", "varargs", "varkw", "defaults", "kwonlyargs", "kwonlydefaults", "annotations")
"""The fields of Python's inspect.FullArgSpec."""


def _concrete(definition: SignatureDef, bound: Sequence[int]) -> SavedConcreteFunction:
    out = SavedConcreteFunction()
    out.bound_inputs.extend(bound)
    arguments = out.canonicalized_input_signature.tuple_value
    arguments.values.add().tuple_value.SetInParent()
    _put_specs(arguments.values.add(), definition.inputs)
    _put_specs(out.output_signature, definition.outputs)
    return out


def _put_specs(value: StructuredValue, infos: Mapping[str, TensorInfo]) -> None:
    value.dict_value.SetInParent()
    for key in sorted(infos):
        spec = value.dict_value.fields[key].tensor_spec_value
        spec.name = key
        spec.dtype = infos[key].dtype
        spec.shape.CopyFrom(infos[key].tensor_shape)


def held_nodes(meta: MetaGraph) -> Mapping[str, int]:
    """Returns the object numbers of the nodes in the file of `meta`, by node name."""
    if meta.held is None:
        meta.held = _held_nodes(meta)
    return meta.held


def _held_nodes(meta: MetaGraph) -> dict[str, int]:
    graph, objects = meta.graph.pristine(), ObjectGraph(meta.around.object_graph_def)
    out = objects.held(nodes_of(graph, CALLS.__contains__))
    for key, function in objects.signatures.items():
        if key in meta.signatures and function.name in graph.functions:
            try:
                out |= held_by(graph, meta.signatures[key], function)
            except (Unlike, EditError, InputError):
                pass  # the graph calls the function, so its captures are already known; or it cannot be read
    return out


def nodes_of(graph: Graph, is_wanted: Callable[[str], bool]) -> Iterator[Node]:
    """Returns an iterator over the nodes of a file whose op `is_wanted`; other nodes are not read."""
    table = graph.store.table
    wanted = {number for number, op in enumerate(table.op_names) if is_wanted(op)}
    return (graph[table.names[row]] for row, number in enumerate(table.ops) if number in wanted)


class Unlike(Exception):
    """The nodes of a signature differ from those of its function; the text describes the difference."""


def held_by(graph: Graph, served: Served, function: SignatureFunction) -> dict[str, int]:
    """Compares the nodes of `graph` that compute `served` with those of `function`, which computes the same.

    Returns:
        The nodes whose values the function captures, and the objects that it gets them from.

    Raises:
        Unlike: they are not the same, node by node.
    """
    body = Body(graph, function.name)
    inputs = [graph.tensor(text) for _, text in sorted(served.inputs.items())]
    outputs = [graph.tensor(text) for _, text in sorted(served.outputs.items())]
    places = {node: place for place, node in enumerate(body.arguments)}
    if len(outputs) != len(body.results) or len(places) != len(inputs) + len(function.bound):
        raise Unlike(f"{quoted(function.name)} has a different number of arguments or results")
    held: dict[str, int] = {}
    pending = list(zip(outputs, (result.inputs[0] for result in body.results), strict=True))
    seen = set(pending)
    while pending:
        mine, theirs = pending.pop()
        place = places.get(theirs.node)
        if place is not None and place >= len(inputs):
            bound = function.bound[place - len(inputs)]
            if held.setdefault(mine.node.name, bound) != bound:
                raise Unlike(f"{quoted(mine.node.name)} refers to two different objects")
        elif place is not None or mine in inputs:
            if place is None or mine != inputs[place]:
                raise Unlike(f"{quoted(mine.name)} is not argument {place} of the function")
        else:
            _check_alike(mine, theirs, body.graph)
            more = [pair for pair in zip(mine.node.inputs, theirs.node.inputs, strict=True) if pair not in seen]
            seen.update(more)
            pending += more
    return held


def _check_alike(mine: Output, theirs: Output, body: Graph) -> None:
    """Raises Unlike if `mine`, a tensor of the graph, differs from `theirs`, a tensor of `body`."""
    a, b = mine.node, theirs.node
    same = mine.index == theirs.index and (a.op, a.device, len(a.inputs)) == (b.op, b.device, len(b.inputs))
    if not same or _attrs(a) != _attrs(b):
        raise Unlike(f"{quoted(mine.name)} differs from {quoted(theirs.name)}")
    waits = {control.name for control in a.controls if control.name in body}
    if waits != {control.name for control in b.controls}:
        raise Unlike(f"{quoted(a.name)} and {quoted(b.name)} have different control inputs")


def _attrs(node: Node) -> dict[str, object]:
    return {key: value for key, value in node.attrs() if key != COLOCATION_ATTR}
