"""Library functions: made from nodes or a signature, merged, copied, and removed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gdsurgeon.analysis.queries.function_usage import functions_of, used_functions
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import functions_in, shape_value
from gdsurgeon.graph.body import BodyArg, expanded_args
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import COLOCATION
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.graph.serving import Served
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops.attr_names import COLOCATION_ATTR, SHARED_NAME, STATED_SHAPES
from gdsurgeon.ops.dtypes import REF, base_dtype
from gdsurgeon.ops.kinds import CONTROL_FLOW, OF_A_STEP, PLACEHOLDERS
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.protos import AttrValue, FunctionDef, GradientDef, NodeDef

NO_INLINE = "_noinline"
XLA_MUST_COMPILE = "_XlaMustCompile"
NO_OPTIMIZER_OF_ITS_OWN = b"R\x05R\x03\x98\x01\x01"
"""ConfigProto.graph_options.rewrite_options.disable_meta_optimizer: without it a call optimises its function when it
is first run, even in a session that has the optimiser turned off, and rounds differently. What a session's own
optimiser does with functions is left to the session."""
XLA_RTOL, XLA_ATOL = 1e-4, 1e-5
"""By how much what XLA computes may differ from what TensorFlow's kernels compute."""

LARGE_CONSTANT = 1 << 16
"""Bytes of a constant's record beyond which it is not made part of a function, but handed to it: a function's nodes are
kept in memory, and a constant outside is copied from file to file."""


def is_large_constant(node: Node) -> bool:
    """Whether NODE is better handed to a function than made part of it."""
    record = node.record
    return node.op == "Const" and record is not None and record.end - record.start > LARGE_CONSTANT


def check_fusible(node: Node) -> None:
    """Raises EditError where NODE cannot be part of a function."""
    why = why_not_in_function(node)
    if why:
        message = f"{quoted(node.name)} ({printable(node.op)}) cannot be part of a function: {why}"
        raise EditError(message, code=why.code, facts={"node": node.name, "op": node.op})


def why_not_in_function(node: Node) -> Remark | None:
    """Why NODE cannot be part of a function; None where it can."""
    definition = node.op_def
    if definition is None:
        return Remark("the op is unknown in this version of TensorFlow", "no-such-op")
    if node.op in CONTROL_FLOW:
        return Remark("it is version 1 control flow, which a function cannot contain", "control-flow")
    if node.op in PLACEHOLDERS:
        return Remark("it is an input of the graph", "is-input")
    if any(dtype > REF for dtype in (*(node.output_dtypes or ()), *(node.input_dtypes or ()))):
        return Remark("it has a reference as input or output", "is-reference")
    if node.op in OF_A_STEP:
        return Remark("its state lives for one step, and each call of a function is a separate step", "step-state")
    if definition.is_stateful and "shared_name" in definition.attrs:
        return Remark("other nodes can share the state of this node", "shared-state")
    return None


def output_args(node: Node) -> list[BodyArg]:
    """For each output of NODE the argument of its op that it belongs to. The op must be known."""
    definition = node.op_def
    assert definition is not None
    return expanded_args(definition, node.plain_attr)


def make_function(
    nodes: Sequence[Node], inputs: Sequence[Output], outputs: Sequence[Output], *, attrs: Mapping[str, bool]
) -> FunctionDef:
    """A FunctionDef of NODES, from INPUTS (tensors from outside) to OUTPUTS (tensors of the nodes).

    It has no name yet: see `name_function`. The nodes keep theirs. Stateful ones run whenever the function is called.
    Control inputs from outside are the caller's to give to the call; colocations with nodes outside are left out.

    Args:
        nodes: of one graph; their ops are known, no argument is a reference.
        inputs: every tensor from outside that the nodes read, each once.
        outputs: each once; an input may be among them.
        attrs: bool attrs of the function, such as ``_noinline``.

    Raises:
        EditError: the dtype of an input or output is not known.
    """
    members = {node: node.name for node in nodes}
    function = message("tensorflow.FunctionDef")()
    unique = UniqueNames(set(members.values()).__contains__)
    args = {output: unique(_arg_name(output)) for output in inputs}
    for output, name in args.items():
        function.signature.input_arg.add(name=name, type=_dtype(output))
    spelt: dict[Output, str] = {}
    for node in members:
        for index, arg in enumerate(output_args(node)):
            spelt[Output(node, index)] = f"{node.name}:{arg.arg}:{arg.place}"
    spelt |= args  # one output of a member may be given, and another computed
    for output in outputs:
        name = unique(_arg_name(output) if output not in args else _arg_name(output) + "_out")
        function.signature.output_arg.add(name=name, type=_dtype(output))
        function.ret[name] = spelt[output]
    for node in members:
        _add_node(function, node, members, spelt)
    for key, value in attrs.items():
        function.attr[key].b = value
    return function


def name_function(function: FunctionDef, stem: str) -> None:
    """Gives FUNCTION, which is complete, a name: STEM and a hash of what it computes.

    Function names are global to a process: two graphs that are loaded together must not mean two things by one.
    """
    function.signature.name = ""
    digest = hashlib.sha256(function.SerializeToString(deterministic=True)).hexdigest()[:12]
    function.signature.name = f"{_function_name(stem)}_{digest}"


def _add_node(function: FunctionDef, node: Node, members: Mapping[Node, str], spelt: Mapping[Output, str]) -> None:
    body = function.node_def.add()
    body.CopyFrom(node_def(node))
    del body.input[:]
    for read in node.inputs:
        if read not in spelt:
            message = f"{quoted(node.name)} has the input {quoted(read.name)}, which does not exist"
            raise EditError(message, code="unsound-graph", facts={"node": node.name, "input": read.name})
        body.input.append(spelt[read])
    body.input.extend(f"^{control.name}" for control in node.controls if control in members)
    _keep_inner_colocations(body, {other.name for other in node.colocated if other in members})
    definition = node.op_def
    if definition is not None and definition.is_stateful:
        function.signature.is_stateful = True
        function.signature.control_output.append(node.name)
        function.control_ret[node.name] = node.name


def add_control_outputs(function: FunctionDef, nodes: Sequence[Node]) -> None:
    """Has the call wait for NODES, too, before what waits for the call goes on."""
    for node in nodes:
        if node.name not in function.control_ret:
            function.signature.control_output.append(node.name)
            function.control_ret[node.name] = node.name


def _keep_inner_colocations(body: NodeDef, inner: set[str]) -> None:
    if COLOCATION_ATTR not in body.attr:
        return
    entries = body.attr[COLOCATION_ATTR].list.s
    prefix = len(COLOCATION)
    kept = [e for e in entries if not e.startswith(COLOCATION) or e[prefix:].decode("utf-8", "replace") in inner]
    del body.attr[COLOCATION_ATTR]
    if kept:
        body.attr[COLOCATION_ATTR].list.s.extend(kept)


def _dtype(output: Output) -> int:
    check_typed(output)
    return base_dtype(output.dtype)


def _arg_name(output: Output) -> str:
    """A name for an argument: lower case letters, digits and _, a letter first, as op signatures have it."""
    stem = re.sub(r"[^a-z0-9_]", "_", output.node.name.rpartition("/")[2].lower())
    stem += f"_{output.index}" if output.index else ""
    return stem if stem[:1].isalpha() else f"x_{stem}"


def _function_name(stem: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    return name if name[:1].isalpha() else f"f_{name}"


class MadeSignature(NamedTuple):
    """A signature as a function, and the nodes whose values it takes after the inputs."""

    function: FunctionDef
    captured: list[Node]


def signature_function(graph: Graph, key: str, served: Served, held: Collection[Node]) -> MadeSignature:
    """The function of what GRAPH computes from the inputs of SERVED, the signature KEY, for its outputs.

    Its arguments are the inputs in the order of their names, then what it captures; its results are the outputs in the
    order of their names. The nodes stay in GRAPH.

    Args:
        graph: of a model.
        key: of the signature.
        served: names tensors of GRAPH as it is now.
        held: nodes whose values are captured, such as variables. Large constants are captured, too.

    Raises:
        EditError: a node on the way cannot be part of a function, or two inputs are one tensor.
    """
    inputs = {name: graph.tensor(text) for name, text in sorted(served.inputs.items())}
    outputs = {name: graph.tensor(text) for name, text in sorted(served.outputs.items())}
    if len(set(inputs.values())) < len(inputs):
        message = f"two inputs of the signature {quoted(key)} are the same tensor, which is not possible for a function"
        raise EditError(message, code="given-twice", signature=key)
    found = _between(topology_of(graph), inputs.values(), outputs.values(), held)
    members = [node for node in found if not is_large_constant(node)]
    for node in members:
        why = why_not_in_function(node)
        if why:
            raise EditError(
                f"the signature {quoted(key)} cannot be converted to a function for tf.saved_model.load: "
                f"{quoted(node.name)} ({printable(node.op)}): {why}",
                code=why.code,
                facts={"signature": key, "node": node.name, "op": node.op},
                advice="without-objects",
            )
    read = [*(output for node in members for output in node.inputs), *outputs.values()]
    captured = list(dict.fromkeys(output.node for output in read if _is_captured(output.node, held)))
    arguments = [*inputs.values(), *(node.output for node in captured)]
    function = make_function(members, arguments, list(outputs.values()), attrs={})
    _describe(function, graph, inputs)
    name_function(function, f"__inference_signature_wrapper_{key}")
    return MadeSignature(function, captured)


def _is_captured(node: Node, held: Collection[Node]) -> bool:
    return node in held or is_large_constant(node)


def _between(
    topology: Topology, inputs: Collection[Output], outputs: Collection[Output], held: Collection[Node]
) -> list[Node]:
    """The nodes that OUTPUTS depend on, between INPUTS and the nodes HELD on the one side and themselves."""
    given = {topology.code(tensor) for tensor in (*inputs, *(node.output for node in held))}
    above = topology.upstream([topology.id_of(tensor.node) for tensor in outputs if tensor not in inputs], given=given)
    placeholders = {tensor.node for tensor in inputs if tensor.node.op in PLACEHOLDERS}
    found = (topology.node(number) for number in topology.numbers() if above[number])
    return [node for node in found if node not in held and node not in placeholders]


def _describe(function: FunctionDef, graph: Graph, inputs: Mapping[str, Output]) -> None:
    """Says of each argument that is an input what callers call it, and its shape, as TensorFlow does."""
    shapes = graph.derived(infer_shapes)
    for place, (name, tensor) in enumerate(inputs.items()):
        attrs = function.arg_attr[place].attr
        attrs["_user_specified_name"].s = name.encode()
        attrs[STATED_SHAPES].list.shape.add().CopyFrom(shape_value(shapes.shape(tensor)).shape)


@dataclass
class FunctionMerge:
    """A merge that has been planned and not been made.

    Attributes:
        added: FunctionDefs to add, with their new names.
        gradients: GradientDefs to add.
        renamed: the new names of functions whose names were taken by unequal ones.
    """

    added: list[FunctionDef]
    gradients: list[GradientDef]
    renamed: dict[str, str]

    def apply(self, library: FunctionLibrary) -> dict[str, str]:
        """Makes the merge; returns `renamed`."""
        for function in self.added:
            library.add(function)
        for gradient in self.gradients:
            library.add_gradient(gradient)
        return self.renamed


def plan_function_merge(library: FunctionLibrary, other: FunctionLibrary) -> FunctionMerge:
    """Plans to add the functions of OTHER to LIBRARY.

    Two functions are equal where their definitions are, and those of all functions that they call.

    Raises:
        InputError: a library is corrupt.
    """
    functions = {function.signature.name: function for function in other}
    if not functions:
        return FunctionMerge([], [], {})
    unequal = _unequal(library, other, functions)
    unique = UniqueNames(lambda name: name in library or name in functions or op_def(name) is not None)
    renamed = {name: unique(name) for name in functions if name in unequal}
    added = [respelt(f, renamed) for name, f in functions.items() if name not in library or name in renamed]
    return FunctionMerge(added, list(_gradients(library, other, renamed)), renamed)


def _unequal(library: FunctionLibrary, other: FunctionLibrary, functions: Mapping[str, FunctionDef]) -> set[str]:
    """The functions whose names LIBRARY uses for something else."""
    unequal = {name for name, function in functions.items() if name in library and library.get(name) != function}
    # A function that calls an unequal one means something else, even where its text is the same.
    return {name for name in other.reaching(unequal) if name in library}


def _gradients(library: FunctionLibrary, other: FunctionLibrary, renamed: Mapping[str, str]) -> list[GradientDef]:
    """The GradientDefs to add: TensorFlow allows one for each function."""
    taken = {gradient.function_name for gradient in library.gradients()}
    out: list[GradientDef] = []
    for gradient in other.gradients():
        copy = type(gradient)()
        copy.function_name = renamed.get(gradient.function_name, gradient.function_name)
        copy.gradient_func = renamed.get(gradient.gradient_func, gradient.gradient_func)
        if copy.function_name not in taken:
            taken.add(copy.function_name)
            out.append(copy)
    return out


def respelt(function: FunctionDef, renamed: Mapping[str, str]) -> FunctionDef:
    """FUNCTION with the new names, its own and those it calls; itself where none is concerned."""
    if not renamed:
        return function
    copy = type(function)()
    copy.CopyFrom(function)
    copy.signature.name = renamed.get(function.signature.name, function.signature.name)
    respell_body(copy, renamed)
    return copy


def respell_body(function: FunctionDef, renamed: Mapping[str, str]) -> None:
    """Has the nodes in FUNCTION call functions by their new names."""
    for node in function.node_def if renamed else ():
        node.op = renamed.get(node.op, node.op)
        for value in node.attr.values():
            respell_value(value, renamed)


def respell_value(value: AttrValue, renamed: Mapping[str, str]) -> bool:
    """Gives the functions in an AttrValue their new names; returns whether there were any to give."""
    found = [func for func in functions_in(value) if func.name in renamed]
    for func in found:
        func.name = renamed[func.name]
    return bool(found)


def respell_functions(graph: Graph, node: Node, renamed: Mapping[str, str]) -> None:
    """Has NODE call functions by their new names."""
    if node.op in renamed:
        graph.set_op(node, renamed[node.op])
    definition = node.op_def
    for key in node.attr_keys:
        kind = definition.attrs[key].kind if definition is not None and key in definition.attrs else ""
        if kind and "func" not in kind:
            continue
        value = node.attr(key)
        if value is not None and respell_value(value, renamed):
            graph.set_attr(node, key, value)


def plan_function_copies(library: FunctionLibrary, nodes: Iterable[Node], shared: Mapping[str, str]) -> FunctionMerge:
    """Plans copies of those functions that NODES call, directly or not, and that hold state by a name in SHARED.

    A copied call of any other function can call the same one. SHARED gives the shared names of the copies.
    """
    if not len(library):
        return FunctionMerge([], [], {})
    called = library.reachable(name for node in nodes for name in functions_of(node))
    holding = library.reaching(name for name in called if any(held in shared for held in _shared_names(library[name])))
    unique = UniqueNames(lambda name: name in library or op_def(name) is not None)
    renamed = {name: unique(name) for name in called if name in holding}
    added = respell_shared_names([respelt(library[name], renamed) for name in renamed], shared)
    return FunctionMerge(added, [], renamed)


def shared_names_called(library: FunctionLibrary, nodes: Iterable[Node]) -> set[str]:
    """The shared names that the functions hold which NODES call, directly or not."""
    if not len(library):
        return set()
    called = library.reachable(name for node in nodes for name in functions_of(node))
    return {name for function in called for name in _shared_names(library[function])}


def respell_shared_names(functions: Iterable[FunctionDef], shared: Mapping[str, str]) -> list[FunctionDef]:
    """FUNCTIONS, those that hold a name in SHARED as copies with the new one."""
    out: list[FunctionDef] = []
    for function in functions:
        if any(name in shared for name in _shared_names(function)):
            copy = type(function)()
            copy.CopyFrom(function)
            for node in copy.node_def:
                if SHARED_NAME in node.attr:
                    old = node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape")
                    node.attr[SHARED_NAME].s = shared.get(old, old).encode("utf-8", "surrogateescape")
            function = copy
        out.append(function)
    return out


def shared_names_in_functions(library: FunctionLibrary) -> set[str]:
    """The shared names that the functions of a library hold."""
    return {name for function in library for name in _shared_names(function)}


def _shared_names(function: FunctionDef) -> list[str]:
    return [
        node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape")
        for node in function.node_def
        if SHARED_NAME in node.attr and node.attr[SHARED_NAME].s
    ]


def drop_left(graph: Graph, names: Iterable[str]) -> list[str]:
    """Takes those of the functions NAMES, and of those that they call, out of the library that nobody needs any longer.

    NAMES are of functions that lost a caller; what only others need that nobody calls stays with these. Returns the
    names.
    """
    library = graph.functions
    lost = set(library.reachable(names, gradients=True))
    others = {function.signature.name for function in library} - lost
    unused = sorted(lost - used_functions(graph) - set(library.reachable(others, gradients=True)))
    library.remove(unused)
    return unused


def drop_unused_functions(graph: Graph) -> list[str]:
    """Takes what no node uses out of the library, unless it is another graph's; returns the names."""
    if graph.is_body or not len(graph.functions):
        return []
    used = used_functions(graph)
    unused = [name for function in graph.functions if (name := function.signature.name) not in used]
    if unused:
        graph.functions.remove(unused)
    return unused
