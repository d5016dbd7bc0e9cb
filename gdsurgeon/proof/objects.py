"""Runs signatures by the objects of a SavedModel, as ``tf.saved_model.load`` does, without TensorFlow's Python package.

Source: tensorflow/python/saved_model/load.py. A signature is a bare concrete function. The loader passes it the inputs
in the order of the argument keywords, then the objects of ``bound_inputs``. A variable is created anew and restored by
its key in the checkpoint. Two functions of a table create and fill it. A constant and the path of an asset are those of
the graph. Every function of the library is imported as a graph first, where TensorFlow compares the declared shapes
with the inferred shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.container.checkpoint.edit import OBJECT_GRAPH, variable_keys
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.container import Container
from gdsurgeon.graph.attrs import attr_value, func_value, string_value, type_value, types_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import free_scope
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import Key, Restoring
from gdsurgeon.wire.protos import AttrValue, SavedConcreteFunction, SignatureDef
from gdsurgeon.wire.write import read_chunks


class NotReadable(Exception):
    """The objects of a signature are of a kind that is not read here, or do not fit the signature."""


class ByObjects(NamedTuple):
    """A graph that computes signatures twice: by its own nodes and by the model's objects.

    Attributes:
        graph: the nodes of the model and the calls of the objects' functions.
        outputs: by key and name of an output, the tensor that the call returns.
    """

    graph: Graph
    outputs: dict[str, dict[str, str]]


def by_objects(container: Container, keys: Sequence[str], original: Graph) -> ByObjects:
    """The graph of a staged SavedModel, with a call of the function of each signature in KEYS.

    Args:
        container: the SavedModel.
        keys: of signatures.
        original: the graph before the edit. It is restored from its own checkpoint, which TensorFlow may read here.
            The body of each function that it does not have is imported as a graph.

    Raises:
        NotReadable: see there.
    """
    return _Reader(container, original).read(keys)


class _Reader:
    def __init__(self, container: Container, original: Graph) -> None:
        self._graph, self._around = container.graph, container.meta.around
        self._known = original.functions
        self._scope = free_scope(self._graph.names(), "objects")
        self._objects = self._around.object_graph_def.nodes
        assert original.serving is not None
        self._serving = original.serving._replace(signatures=container.meta.signatures)
        self._variables: dict[int, Node] = {}
        self._tables: dict[int, Node] = {}
        self._initialisers: list[str] = []
        self._keys: dict[int, str] = {}

    def read(self, keys: Sequence[str]) -> ByObjects:
        if any(name not in self._graph.functions for name in self._around.object_graph_def.concrete_functions):
            raise NotReadable
        outputs = {key: self._call(key, place) for place, key in enumerate(keys)}
        graph = from_bytes(read_chunks(self._graph.chunks()), self._graph.source_name)
        added = {node.name: Key(self._keys[place]) for place, node in self._variables.items()}
        serving = self._serving
        initialising = serving.initialising or Restoring({}, ())
        initialising = initialising._replace(targets=(*initialising.targets, *self._initialisers))
        graph.serving = serving._replace(
            keys={**serving.keys, **added}, apart=serving.apart | {*added}, initialising=initialising
        )
        return ByObjects(graph, outputs)

    def _call(self, key: str, place: int) -> dict[str, str]:
        """Adds a call of the function of the signature KEY; returns its outputs by name."""
        function, names = self._function(key)
        served, definition = self._serving.signatures[key], self._around.signature_def[key]
        _check_specs(self._around.object_graph_def.concrete_functions[function], definition)
        inputs, outputs = sorted(definition.inputs), sorted(definition.outputs)
        if names != inputs:
            raise NotReadable
        given = [self._graph.tensor(served.inputs[name]) for name in inputs]
        call = self._add_call(f"{self._scope}/{place}", function, given, len(outputs))
        for name in self._graph.functions.reachable([function]):
            if self._known.get(name) != self._graph.functions[name]:
                self._import(name, f"{self._scope}/{place}/{name}")
        return {name: Output(call, number).name for number, name in enumerate(outputs)}

    def _add_call(self, name: str, function: str, given: Sequence[Output], results: int) -> Node:
        """Adds a call of FUNCTION, which must return so many RESULTS, with GIVEN and what it captures."""
        body = Body(self._graph, function)
        bound = self._around.object_graph_def.concrete_functions[function].bound_inputs
        inputs = [*given, *(self._object(number) for number in bound)]
        if (len(body.arguments), len(body.results)) != (len(inputs), results):
            raise NotReadable
        attrs = {"Tin": _dtypes(body.arguments, "dtype"), "Tout": _dtypes(body.results, "T"), "f": func_value(function)}
        return self._add(name, "StatefulPartitionedCall", inputs, attrs)

    def _add(self, name: str, op: str, inputs: Sequence[Output], attrs: Mapping[str, AttrValue]) -> Node:
        encoded = {key: value.SerializeToString() for key, value in attrs.items()}
        return self._graph.add(name, op, inputs, attrs=encoded)

    def _import(self, function: str, scope: str) -> None:
        """Adds the body of FUNCTION, which is not run: TensorFlow checks it as it checks a graph."""
        body = Body(self._graph, function)
        copies = {node: self._graph.add_copy(f"{scope}/{node.name}", node) for node in body.graph.nodes()}
        for node, copied in copies.items():
            inputs = [Output(copies[read.node], read.index) for read in node.inputs]
            self._graph.set_reads(copied, inputs, [copies[control] for control in node.controls])

    def _function(self, key: str) -> tuple[str, list[str]]:
        """The function of the signature KEY, and the names of its inputs in the order in which it takes them."""
        maps = [item for item in self._objects if item.user_object.identifier == "signature_map"]
        children = {child.local_name: child.node_id for item in maps for child in item.children}
        if len(maps) != 1 or not 0 <= children.get(key, -1) < len(self._objects):
            raise NotReadable
        found = self._objects[children[key]].bare_concrete_function
        fields = {pair.key: pair.value for pair in found.function_spec.fullargspec.named_tuple_value.values}
        spelt = (
            [value.string_value for value in fields["kwonlyargs"].list_value.values] if "kwonlyargs" in fields else []
        )
        names = list(found.argument_keywords)
        if spelt != names or found.concrete_function_name not in self._graph.functions:
            raise NotReadable
        return found.concrete_function_name, names

    def _object(self, number: int) -> Output:
        """The tensor that the loader passes for the object NUMBER."""
        if not 0 <= number < len(self._objects):
            raise NotReadable
        found = self._objects[number]
        kind = found.WhichOneof("kind")
        if kind == "constant":
            return self._graph.tensor(found.constant.operation)
        if kind == "asset" and 0 <= found.asset.asset_file_def_index < len(self._around.asset_file_def):
            return self._graph.tensor(self._around.asset_file_def[found.asset.asset_file_def_index].tensor_info.name)
        if kind == "resource":
            return self._table(number).output
        if kind != "variable" or number not in self._checkpoint_keys():
            raise NotReadable
        if number not in self._variables:
            name = f"{self._scope}/variable/{number}"
            shape = attr_value(b"")
            shape.shape.CopyFrom(found.variable.shape)
            attrs = {"dtype": type_value(found.variable.dtype), "shape": shape, "shared_name": string_value(name)}
            self._variables[number] = self._add(name, "VarHandleOp", [], attrs)
        return self._variables[number].output

    def _table(self, number: int) -> Node:
        """The call that creates the table NUMBER; the call that fills it is run once."""
        if number not in self._tables:
            children = {child.local_name: child.node_id for child in self._objects[number].children}
            name = f"{self._scope}/table/{number}"
            create, fill = (self._method(children.get(key, -1)) for key in ("_create_resource", "_initialize"))
            self._tables[number] = self._add_call(name, create, [], 1)
            results = len(Body(self._graph, fill).results)
            self._initialisers.append(self._add_call(f"{name}/filled", fill, [], results).name)
        return self._tables[number]

    def _method(self, number: int) -> str:
        """The only concrete function of the object NUMBER."""
        names = list(self._objects[number].function.concrete_functions) if 0 <= number < len(self._objects) else []
        if len(names) != 1:
            raise NotReadable
        return names[0]

    def _checkpoint_keys(self) -> dict[int, str]:
        """The keys in the checkpoint by the numbers of variables."""
        if not self._keys and self._serving.checkpoint:
            with open_checkpoint(self._serving.checkpoint) as checkpoint:
                if OBJECT_GRAPH in checkpoint:
                    self._keys = variable_keys(checkpoint.tensor(OBJECT_GRAPH).strings()[0])
        return self._keys


def _dtypes(nodes: Sequence[Node], key: str) -> AttrValue:
    return types_value([dtype for node in nodes if isinstance(dtype := node.plain_attr(key), int)])


def _check_specs(function: SavedConcreteFunction, definition: SignatureDef) -> None:
    """Raises NotReadable if the tensors that FUNCTION states are not those of its DEFINITION."""
    arguments = function.canonicalized_input_signature.tuple_value.values
    if len(arguments) != 2 or arguments[0].tuple_value.values:
        raise NotReadable
    for stated, infos in ((arguments[1], definition.inputs), (function.output_signature, definition.outputs)):
        fields = stated.dict_value.fields
        if {name: field.tensor_spec_value.dtype for name, field in fields.items()} != {
            name: info.dtype for name, info in infos.items()
        }:
            raise NotReadable
