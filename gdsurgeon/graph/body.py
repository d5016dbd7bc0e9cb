"""The body of a library function as a graph, and back.

TensorFlow runs a body as a graph whose arguments and results are nodes. A body is also such a graph here: an argument
is a Placeholder, and a result is an Identity that reads the returned tensor. Code that accepts a graph accepts a body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdsurgeon.errors import EditError, Json, quoted
from gdsurgeon.graph.attrs import Shape, plain, shape_value, type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, format_input, is_valid_name
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import INPUT_SHAPES, PLACEHOLDERS, STATED_SHAPES
from gdsurgeon.ops.op_defs import AttrReader, OpDef, arg_dtypes
from gdsurgeon.text import an, nearest, suggestion
from gdsurgeon.wire.protos import ArgDef, AttrValue, FunctionDef, GraphDef, NodeDef, TensorShapeProto
from gdsurgeon.wire.source import BytesSource


def expanded_args(definition: OpDef, read: AttrReader) -> list[tuple[str, int]]:
    """Returns for each output of an op its output argument and the place in it; bodies spell ``node:arg:place``.

    `read` returns the values of attrs.
    """
    return [
        (arg.name, index) for arg in definition.outputs for index in range(len(arg_dtypes([arg], definition, read)))
    ]


def argument_shape(function: FunctionDef, index: int) -> TensorShapeProto | None:
    """Returns the shape that a function states for the argument `index`, or None."""
    attrs = function.arg_attr[index].attr if index in function.arg_attr else {}
    if "_user_specified_shape" in attrs:
        return attrs["_user_specified_shape"].shape
    shapes = attrs[STATED_SHAPES].list.shape if STATED_SHAPES in attrs else ()
    return shapes[0] if shapes else None


class Body:
    """A function as a graph that can be changed; `commit` replaces the function in the library by the changed body.

    Args:
        owner: the graph whose library holds the function.
        name: the name of the function.
        values: AttrValues for the attrs of the function, from a call; a body with values is not for `commit`.
        lenient: whether to read as much as possible: the outputs of an unknown op are assumed to be those that other
            nodes read, and an attr that the call lacks is empty.
        shapes: the shapes of the arguments in calls, instead of the stated ones; missing shapes are unknown.

    Attributes:
        graph: the body. It shares the library with the owner. Nodes have the names that they have in the function.
        arguments: the placeholders, in the order in which a call passes tensors.
        results: the nodes that read the returned tensors, in the order of the tensors.
        control_results: the nodes that must run before a call ends, by their names in the signature.

    Raises:
        EditError: there is no such function, an op in it is unknown, a tensor or attr that it names does not exist, or
            (without `values`) an attr or the number of tensors of an argument depends on the call.
    """

    def __init__(
        self,
        owner: Graph,
        name: str,
        values: Mapping[str, AttrValue] | None = None,
        *,
        lenient: bool = False,
        shapes: Sequence[Shape] | None = None,
    ) -> None:
        function = owner.functions.get(name)
        if function is None:
            known = [function.signature.name for function in owner.functions]
            near = nearest(name, known)
            raise EditError(
                f"the library has no function {quoted(name)}.{suggestion(near)}".rstrip("."),
                code="no-such-function",
                facts={"function": name, "near": near},
            )
        self.name = name
        self._owner = owner
        self._function = function
        reader = _Reader(owner, function, values, lenient, shapes)
        data = reader.graph_def().SerializeToString(deterministic=True)
        source = BytesSource(data, f"the function {name} of {owner.source_name}")
        self.graph = Graph(source, functions=owner.functions)
        self.graph.owner = owner
        self.arguments = [self.graph[name] for name in reader.arguments]
        self.results = [self.graph[name] for name in reader.results]
        self.control_results = {key: self.graph[node] for key, node in reader.control_results.items()}
        self.graph.ends = dict.fromkeys((*self.arguments, *self.results))
        self._retyped: dict[Node, tuple[int, Shape]] = {}

    def retype(self, end: Node, dtype: int, shape: Shape = None) -> None:
        """Changes the dtype of an argument or a result; the caller must change the calls to match.

        Args:
            end: the argument or the result.
            dtype: its new dtype.
            shape: the shape of an argument; None if it is not known.

        Raises:
            EditError: its dtype depends on the call.
        """
        is_argument = end in self.arguments
        args = self._function.signature.input_arg if is_argument else self._function.signature.output_arg
        ends = self.arguments if is_argument else self.results
        if len(args) != len(ends) or not args[ends.index(end)].type:
            raise EditError(
                f"the type of {quoted(end.name)} in the function {quoted(self.name)} depends on each call",
                code="depends-on-call",
                facts={"function": self.name, "node": end.name},
            )
        self._retyped[end] = dtype, shape
        self.graph.set_attr(end, "dtype" if is_argument else "T", type_value(dtype))

    # -- back to a function ----------------------------------------------------------------------------------

    def function_def(self) -> FunctionDef:
        """Returns the FunctionDef of the body as it is now; untouched nodes are copied unchanged.

        Raises:
            EditError: an argument or a result was removed, or changed other than in its name, its dtype (by `retype`)
                or the input of a result; or an added or changed node is a placeholder that is not an argument.
        """
        self._check_ends()
        out = FunctionDef()
        out.CopyFrom(self._function)
        for place, (arg, node) in enumerate(zip(out.signature.input_arg, self.arguments, strict=True)):
            arg.name = node.name
            if node in self._retyped:
                dtype, shape = self._retyped[node]
                _retype(arg, dtype)
                out.resource_arg_unique_id.pop(place, None)
                stated = out.attr[INPUT_SHAPES].list.shape if INPUT_SHAPES in out.attr else ()
                if place < len(stated):
                    stated[place].CopyFrom(shape_value(shape).shape)
                for key in ("_handle_dtypes", "_handle_shapes", STATED_SHAPES):
                    if place in out.arg_attr:
                        out.arg_attr[place].attr.pop(key, None)
        self._put_nodes(out)
        self._put_results(out)
        return out

    def commit(self) -> None:
        """Replaces the function in the library by the body as it is now. Raises EditError: see `function_def`."""
        self._owner.functions.replace(self.function_def())

    def _check_ends(self) -> None:
        gone = self.graph.removed()
        for what, nodes in (("argument", self.arguments), ("result", self.results)):
            for node in nodes:
                rewired = node.controls or (what == "argument" and node.inputs)
                is_other = node.changed_attrs and node not in self._retyped
                if node.base_name in gone or is_other or node.op_override or node.device_override or rewired:
                    raise EditError(
                        f"{quoted(node.name)} is {an(what)} of the function {quoted(self.name)}: only its name can "
                        "change",
                        code="is-input" if what == "argument" else "is-output",
                        facts={"node": node.name, "function": self.name},
                    )
        for node in self.graph.touched():
            if node.op in PLACEHOLDERS and node not in self.graph.ends:
                raise EditError(
                    f"{quoted(node.name)} is a placeholder, and a function cannot have placeholders, only arguments",
                    code="placeholder-in-function",
                    facts={"node": node.name, "function": self.name},
                )

    def _put_nodes(self, out: FunctionDef) -> None:
        originals = {node.name: node for node in self._function.node_def}
        touched = set(self.graph.touched())
        for node in list(touched):
            if node.op_override or node.name != node.base_name:  # its outputs have different names
                touched.update(self.graph.users(node), self.graph.colocated_with(node))
        del out.node_def[:]
        for node in self.graph.nodes():
            if node in self.graph.ends:
                continue
            if node not in touched:
                out.node_def.append(originals[node.name])
                continue
            written = node_def(node)
            del written.input[:]
            written.input.extend([*map(self._spelt, node.inputs), *(f"^{control.name}" for control in node.controls)])
            out.node_def.append(written)
            if node.op_override or node.base_name not in originals:  # the signature already covers the original ops
                definition = node.op_def
                out.signature.is_stateful |= definition is not None and definition.is_stateful

    def _put_results(self, out: FunctionDef) -> None:
        out.ret.clear()
        for arg, node in zip(out.signature.output_arg, self.results, strict=True):
            arg.name = node.name if node.name != node.base_name else arg.name
            if node in self._retyped:
                _retype(arg, self._retyped[node][0])
            out.ret[arg.name] = self._spelt(node.inputs[0])
        gone = self.graph.removed()
        kept = {key: node.name for key, node in self.control_results.items() if node.base_name not in gone}
        out.control_ret.clear()
        out.control_ret.update(kept)
        keys = [key for key in out.signature.control_output if key in kept]
        del out.signature.control_output[:]
        out.signature.control_output.extend(keys)

    def _spelt(self, output: Output) -> str:
        """Returns the name of a tensor in the function's spelling."""
        if output.node in self.graph.ends:
            return output.node.name
        definition = output.node.op_def
        assert definition is not None
        arg, place = expanded_args(definition, output.node.plain_attr)[output.index]
        return f"{output.node.name}:{arg}:{place}"


def _retype(arg: ArgDef, dtype: int) -> None:
    arg.type = dtype
    del arg.handle_data[:]


class _Reader:
    """The reader of a FunctionDef; see `Body`."""

    def __init__(
        self,
        owner: Graph,
        function: FunctionDef,
        values: Mapping[str, AttrValue] | None,
        lenient: bool,
        shapes: Sequence[Shape] | None,
    ) -> None:
        self._owner = owner
        self._function = function
        self._values = values
        self._lenient = lenient
        self._shapes = shapes
        self._name = function.signature.name
        self._where = f"the function {quoted(self._name)}"
        self._defaults = {a.name: a.default_value for a in function.signature.attr if a.HasField("default_value")}
        self._tensors: dict[str, list[str]] = {}  # from the function's spelling to the graph's
        self.arguments: list[str] = []
        self.results: list[str] = []
        nodes = {node.name for node in function.node_def}
        self.control_results = {key: name for key, name in sorted(function.control_ret.items()) if name in nodes}
        self._unique = UniqueNames(nodes.__contains__)

    def graph_def(self) -> GraphDef:
        """Returns the body as a GraphDef without a library."""
        function = self._function
        out = GraphDef()
        out.versions.producer = self._owner.store.producer  # the meaning of a scalar's shape depends on it
        for arg in function.signature.input_arg:
            self._add_argument(out, arg)
        nodes = [self._filled_in(node) for node in function.node_def]
        for node in nodes:
            self._enter_outputs(node)
        for node in nodes:
            texts = list(node.input)
            del node.input[:]
            node.input.extend(t for text in texts if text[:1] != "^" for t in self._named(text))
            node.input.extend(text for text in texts if text[:1] == "^")
            out.node.append(node)
        for arg in function.signature.output_arg:
            self._add_result(out, arg)
        return out

    def _add_argument(self, out: GraphDef, arg: ArgDef) -> None:
        dtypes = self._dtypes(arg)
        names = [self._unique(arg.name if len(dtypes) == 1 else f"{arg.name}_{i}") for i in range(len(dtypes))]
        for name, dtype in zip(names, dtypes, strict=True):
            node = out.node.add(name=name, op="Placeholder")
            node.attr["dtype"].type = dtype
            self._state_shape(node, len(self.arguments))
            self.arguments.append(name)
        self._enter(arg.name, names)

    def _state_shape(self, node: NodeDef, place: int) -> None:
        """Sets the shape of `node`, the argument number `place`, if a shape is known."""
        if self._shapes is None:
            stated = argument_shape(self._function, place)
            if stated is not None:
                node.attr["shape"].shape.CopyFrom(stated)
        elif place < len(self._shapes):
            node.attr["shape"].CopyFrom(shape_value(self._shapes[place]))

    def _add_result(self, out: GraphDef, arg: ArgDef) -> None:
        tensors = self._named(self._function.ret[arg.name])
        dtypes = self._dtypes(arg)
        if len(tensors) != len(dtypes):
            line = f"{self._where} returns {len(tensors)} tensors as {quoted(arg.name)}"
            raise self._error("wrong-count", line, name=arg.name, expected=len(dtypes), found=len(tensors))
        for i, (tensor, dtype) in enumerate(zip(tensors, dtypes, strict=True)):
            name = self._unique(arg.name if len(dtypes) == 1 else f"{arg.name}_{i}")
            node = out.node.add(name=name, op="Identity", input=[tensor])
            node.attr["T"].type = base_dtype(dtype)
            self.results.append(name)

    def _dtypes(self, arg: ArgDef) -> list[int]:
        """Returns the DataTypes of the tensors that an argument or result stands for."""
        if arg.type_list_attr:
            return list(self._value(arg.type_list_attr).list.type)
        dtype = arg.type or self._value(arg.type_attr).type
        return [dtype] * (self._value(arg.number_attr).i if arg.number_attr else 1)

    def _value(self, key: str) -> AttrValue:
        if self._values is None:
            line = f"{quoted(key)} of {self._where} depends on each call; inline the function to change its nodes"
            raise self._error("depends-on-call", line, attr=key)
        if key in self._values:
            return self._values[key]
        if key in self._defaults:
            return self._defaults[key]
        if self._lenient:
            return AttrValue()
        raise self._error("no-such-attr", f"a call of {self._where} lacks the attr {quoted(key)}", attr=key)

    def _error(self, code: str, line: str, **facts: Json) -> EditError:
        return EditError(line, code=code, facts={"function": self._name, **facts})

    def _enter(self, name: str, tensors: list[str]) -> None:
        self._tensors[name] = tensors
        for i, tensor in enumerate(tensors):
            self._tensors[f"{name}:{i}"] = [tensor]

    def _enter_outputs(self, node: NodeDef) -> None:
        definition = self._owner.op_def(node.op)
        where = f"{quoted(node.name)} in {self._where}"
        if definition is None and self._lenient:
            return
        if definition is None:
            line = f"{where}: the op {quoted(node.op)} is unknown in this version of TensorFlow"
            raise self._error("no-such-op", line, node=node.name, op=node.op)
        if not is_valid_name(node.name):
            line = f"{where} has a name that is not allowed for a node of a graph"
            raise self._error("bad-name", line, name=node.name)
        by_arg: dict[str, list[str]] = {arg.name: [] for arg in definition.outputs}
        places = expanded_args(definition, lambda key: plain(node.attr[key]) if key in node.attr else None)
        for index, (arg, _) in enumerate(places):
            by_arg[arg].append(format_input(node.name, index))
        for arg, tensors in by_arg.items():
            self._enter(f"{node.name}:{arg}", tensors)

    def _filled_in(self, node: NodeDef) -> NodeDef:
        """Returns a copy of `node` whose placeholder attrs have the values of the call."""
        copy = NodeDef()
        copy.CopyFrom(node)
        pending = list(copy.attr.values())
        while pending:
            value = pending.pop()
            which = value.WhichOneof("value")
            if which == "placeholder":
                value.CopyFrom(self._value(value.placeholder))
            elif which == "func":
                pending.extend(value.func.attr.values())
            elif which == "list":
                pending.extend(v for func in value.list.func for v in func.attr.values())
        return copy

    def _named(self, text: str) -> list[str]:
        """Returns the tensors that an input or a ret names: one tensor, or all tensors of an argument."""
        tensors = self._tensors.get(text)
        if tensors is None and self._lenient:
            name, *rest = text.split(":")
            return [format_input(name, int(rest[-1]) if rest and rest[-1].isdecimal() else 0)]
        if tensors is None:
            raise self._error("no-such-tensor", f"{self._where} has no tensor {quoted(text)}", tensor=text)
        return tensors
