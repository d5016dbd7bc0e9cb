"""Library functions: made from nodes or from a signature, merged, copied, removed, and changed by edits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

from gdsurgeon.analysis.queries.usage import functions_of, used_functions
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import public
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.edits.claims import Claim, EditResult, SameOutputs, SameSites, Unchanged, checked_result
from gdsurgeon.errors import EditError, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.attrs import functions_in, shape_value
from gdsurgeon.graph.body import Body, expanded_args
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import COLOCATION
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.graph.serving import Served
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops.dtypes import REF, base_dtype
from gdsurgeon.ops.kinds import COLOCATION_ATTR, CONTROL_FLOW, OF_A_STEP, PLACEHOLDERS, SHARED_NAME, STATED_SHAPES
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.protos import AttrValue, FunctionDef, GradientDef

NO_INLINE = "_noinline"
XLA_MUST_COMPILE = "_XlaMustCompile"
NO_OPTIMIZER_OF_ITS_OWN = b"R\x05R\x03\x98\x01\x01"
"""ConfigProto.graph_options.rewrite_options.disable_meta_optimizer. Without this option, a call optimises its function
at the first run, even if the optimiser of the session is turned off, and rounds differently."""
XLA_RTOL, XLA_ATOL = 1e-4, 1e-5
"""The allowed differences between the results of XLA and of TensorFlow's kernels."""

LARGE_CONSTANT = 1 << 16
"""Size in bytes of the largest constant that becomes part of a function. Larger constants become arguments, because the
nodes of a function are kept in memory, and a constant in the graph is copied from file to file."""


# -- nodes as a function -----------------------------------------------------------------------------------


def is_large_constant(node: Node) -> bool:
    """Returns whether a node is a constant that should be an argument of a function instead of a part of it."""
    record = node.record
    return node.op == "Const" and record is not None and record.end - record.start > LARGE_CONSTANT


def check_fusible(node: Node) -> None:
    """Raises EditError if a node cannot be part of a function."""
    why = why_not_in_function(node)
    if why:
        message = f"{quoted(node.name)} ({printable(node.op)}) cannot be part of a function: {why}"
        raise EditError(message, code=why.code, node=node.name, op=node.op)


def why_not_in_function(node: Node) -> Remark | None:
    """Returns the reason why a node cannot be part of a function; None if it can."""
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


def make_function(
    nodes: Sequence[Node], inputs: Sequence[Output], outputs: Sequence[Output], *, attrs: Mapping[str, bool]
) -> FunctionDef:
    """Returns a FunctionDef without a name that computes `outputs` from `inputs`; see `name_function`.

    The nodes keep their names. Stateful nodes run in every call. The function has no control inputs: the caller adds
    control inputs from outside to the call. Colocations with nodes outside are left out.

    Args:
        nodes: nodes of one graph with known ops, without references.
        inputs: all tensors from outside that the nodes read, each once.
        outputs: tensors of the nodes, or inputs, each once.
        attrs: bool attrs of the function, such as ``_noinline``.

    Raises:
        EditError: the dtype of an input or output is not known.
    """
    members = {node: node.name for node in nodes}
    function = FunctionDef()
    unique = UniqueNames(set(members.values()).__contains__)
    args = {output: unique(_arg_name(output)) for output in inputs}
    for output, name in args.items():
        function.signature.input_arg.add(name=name, type=_dtype(output))
    spelt: dict[Output, str] = {}
    for node in members:
        definition = node.op_def
        assert definition is not None
        for index, arg in enumerate(expanded_args(definition, node.plain_attr)):
            spelt[Output(node, index)] = f"{node.name}:{arg.arg}:{arg.place}"
    spelt |= args  # a member may have an output that is an input, and a computed output
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
    """Sets the name of a complete function: `stem` and a hash of the function.

    Function names are global to a process, so different functions of two graphs need different names.
    """
    function.signature.name = ""
    digest = hashlib.sha256(function.SerializeToString(deterministic=True)).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    function.signature.name = f"{name if name[:1].isalpha() else f'f_{name}'}_{digest}"


def add_control_outputs(function: FunctionDef, nodes: Sequence[Node]) -> None:
    """Makes `nodes` control outputs of a function: they run before the nodes that depend on the call."""
    for node in nodes:
        if node.name not in function.control_ret:
            function.signature.control_output.append(node.name)
            function.control_ret[node.name] = node.name


def _add_node(function: FunctionDef, node: Node, members: Mapping[Node, str], spelt: Mapping[Output, str]) -> None:
    body = function.node_def.add()
    body.CopyFrom(node_def(node))
    del body.input[:]
    for read in node.inputs:
        if read not in spelt:
            message = f"{quoted(node.name)} has the input {quoted(read.name)}, which does not exist"
            raise EditError(message, code="unsound-graph", node=node.name, input=read.name)
        body.input.append(spelt[read])
    body.input.extend(f"^{control.name}" for control in node.controls if control in members)
    if COLOCATION_ATTR in body.attr:
        inner = {other.name for other in node.colocated if other in members}
        entries, prefix = body.attr[COLOCATION_ATTR].list.s, len(COLOCATION)
        kept = [e for e in entries if not e.startswith(COLOCATION) or e[prefix:].decode("utf-8", "replace") in inner]
        del body.attr[COLOCATION_ATTR]
        if kept:
            body.attr[COLOCATION_ATTR].list.s.extend(kept)
    definition = node.op_def
    if definition is not None and definition.is_stateful:
        function.signature.is_stateful = True
        add_control_outputs(function, [node])


def _dtype(output: Output) -> int:
    check_typed(output)
    return base_dtype(output.dtype)


def _arg_name(output: Output) -> str:
    """Returns a name for an argument, as signatures of ops have it: lower case letters, digits and underscores."""
    stem = re.sub(r"[^a-z0-9_]", "_", output.node.name.rpartition("/")[2].lower())
    stem += f"_{output.index}" if output.index else ""
    return stem if stem[:1].isalpha() else f"x_{stem}"


# -- a signature as a function -----------------------------------------------------------------------------


class MadeSignature(NamedTuple):
    """A signature as a function, and the nodes that are its arguments after the inputs."""

    function: FunctionDef
    captured: list[Node]


def signature_function(graph: Graph, key: str, served: Served, held: Collection[Node]) -> MadeSignature:
    """Returns a function that computes a signature, as in models of TensorFlow 2.

    Its arguments are the inputs in the order of their names, then the captured nodes. Its results are the outputs in
    the order of their names. The graph does not change.

    Args:
        graph: the graph of a model.
        key: the key of the signature.
        served: the signature, with the tensors of `graph`.
        held: nodes whose values are captured, such as variables. Large constants are also captured.

    Raises:
        EditError: a needed node cannot be part of a function, or two inputs are one tensor.
    """
    inputs = {name: graph.tensor(text) for name, text in sorted(served.inputs.items())}
    outputs = {name: graph.tensor(text) for name, text in sorted(served.outputs.items())}
    starts = set(inputs.values())
    if len(starts) < len(inputs):
        message = f"two inputs of the signature {quoted(key)} are the same tensor, which is not possible for a function"
        raise EditError(message, code="given-twice", signature=key)
    topology = topology_of(graph)
    given = {topology.code(tensor) for tensor in (*starts, *(node.output for node in held))}
    ends = [topology.id_of(tensor.node) for tensor in outputs.values() if tensor not in starts]
    above = topology.upstream(ends, given=given)
    left = {*held, *(tensor.node for tensor in starts if tensor.node.op in PLACEHOLDERS)}
    found = (topology.node(number) for number in topology.numbers() if above[number])
    members = [node for node in found if node not in left and not is_large_constant(node)]
    for node in members:
        why = why_not_in_function(node)
        if why:
            raise EditError(
                f"the signature {quoted(key)} cannot be converted to a function for tf.saved_model.load: "
                f"{quoted(node.name)} ({printable(node.op)}): {why}",
                code=why.code,
                signature=key,
                node=node.name,
                op=node.op,
                advice="without-objects",
            )
    read = dict.fromkeys(
        [*(output.node for node in members for output in node.inputs), *(o.node for o in outputs.values())]
    )
    captured = [node for node in read if node in held or is_large_constant(node)]
    arguments = [*inputs.values(), *(node.output for node in captured)]
    function = make_function(members, arguments, list(outputs.values()), attrs={})
    shapes = graph.derived(infer_shapes)
    for place, (name, tensor) in enumerate(inputs.items()):  # TensorFlow stores these attrs for each input
        attrs = function.arg_attr[place].attr
        attrs["_user_specified_name"].s = name.encode()
        attrs[STATED_SHAPES].list.shape.add().CopyFrom(shape_value(shapes.shape(tensor)).shape)
    name_function(function, f"__inference_signature_wrapper_{key}")
    return MadeSignature(function, captured)


# -- merging libraries -------------------------------------------------------------------------------------


@dataclass
class FunctionMerge:
    """A planned merge of functions into a library.

    Attributes:
        added: FunctionDefs to add, with their new names.
        gradients: GradientDefs to add.
        renamed: the new names of functions whose names belong to different functions of the library.
    """

    added: list[FunctionDef]
    gradients: list[GradientDef]
    renamed: dict[str, str]

    def apply(self, library: FunctionLibrary) -> dict[str, str]:
        """Adds the functions to `library`; returns `renamed`."""
        for function in self.added:
            library.add(function)
        for gradient in self.gradients:
            library.add_gradient(gradient)
        return self.renamed


def plan_function_merge(library: FunctionLibrary, other: FunctionLibrary) -> FunctionMerge:
    """Plans to add the functions of `other` to `library`.

    Two functions are equal if their definitions are equal, and the definitions of all functions that they call.

    Raises:
        InputError: a library is corrupt.
    """
    functions = {function.signature.name: function for function in other}
    if not functions:
        return FunctionMerge([], [], {})
    different = {name for name, function in functions.items() if name in library and library.get(name) != function}
    # A function that calls a different function is different, even if its definition is equal.
    renamed_ones = {name for name in other.reaching(different) if name in library}
    unique = UniqueNames(lambda name: name in library or name in functions or op_def(name) is not None)
    renamed = {name: unique(name) for name in functions if name in renamed_ones}
    added = [respelt(f, renamed) for name, f in functions.items() if name not in library or name in renamed]
    taken = {gradient.function_name for gradient in library.gradients()}
    gradients: list[GradientDef] = []
    for gradient in other.gradients():
        copy = type(gradient)()
        copy.function_name = renamed.get(gradient.function_name, gradient.function_name)
        copy.gradient_func = renamed.get(gradient.gradient_func, gradient.gradient_func)
        if copy.function_name not in taken:  # TensorFlow accepts one gradient for each function
            taken.add(copy.function_name)
            gradients.append(copy)
    return FunctionMerge(added, gradients, renamed)


def respelt(function: FunctionDef, renamed: Mapping[str, str]) -> FunctionDef:
    """Returns a copy of `function` with new names for itself and for the functions that it calls."""
    if not renamed:
        return function
    copy = deepcopy(function)
    copy.signature.name = renamed.get(function.signature.name, function.signature.name)
    respell_body(copy, renamed)
    return copy


def respell_body(function: FunctionDef, renamed: Mapping[str, str]) -> None:
    """Changes the names of the functions that the nodes of `function` call."""
    for node in function.node_def if renamed else ():
        node.op = renamed.get(node.op, node.op)
        for value in node.attr.values():
            _respell_value(value, renamed)


def _respell_value(value: AttrValue, renamed: Mapping[str, str]) -> bool:
    """Changes the names of the functions in an AttrValue. Returns whether a name changed."""
    found = [func for func in functions_in(value) if func.name in renamed]
    for func in found:
        func.name = renamed[func.name]
    return bool(found)


def respell_functions(graph: Graph, node: Node, renamed: Mapping[str, str]) -> None:
    """Changes the names of the functions that `node` calls."""
    if node.op in renamed:
        graph.set_op(node, renamed[node.op])
    definition = node.op_def
    for key in node.attr_keys:
        kind = definition.attrs[key].kind if definition is not None and key in definition.attrs else ""
        if not kind or "func" in kind:
            value = node.attr(key)
            if value is not None and _respell_value(value, renamed):
                graph.set_attr(node, key, value)


# -- functions that contain shared names -------------------------------------------------------------------


def plan_function_copies(library: FunctionLibrary, nodes: Iterable[Node], shared: Mapping[str, str]) -> FunctionMerge:
    """Plans copies of the functions that `nodes` call directly or indirectly and that contain a name of `shared`.

    Copied calls share all other functions with the originals.

    Args:
        library: the library of the graph.
        nodes: nodes that are copied.
        shared: the new shared names of the copies.
    """
    if not len(library):
        return FunctionMerge([], [], {})
    called = library.reachable(name for node in nodes for name in functions_of(node))
    holding = library.reaching(n for n in called if not shared.keys().isdisjoint(shared_names_of(library[n])))
    unique = UniqueNames(lambda name: name in library or op_def(name) is not None)
    renamed = {name: unique(name) for name in called if name in holding}
    added = respell_shared_names([respelt(library[name], renamed) for name in renamed], shared)
    return FunctionMerge(added, [], renamed)


def shared_names_called(library: FunctionLibrary, nodes: Iterable[Node]) -> set[str]:
    """Returns the shared names in the functions that `nodes` call directly or indirectly."""
    if not len(library):
        return set()
    called = library.reachable(name for node in nodes for name in functions_of(node))
    return {name for function in called for name in shared_names_of(library[function])}


def respell_shared_names(functions: Iterable[FunctionDef], shared: Mapping[str, str]) -> list[FunctionDef]:
    """Returns the functions; those that contain a name of `shared` are copies with the new name."""
    out: list[FunctionDef] = []
    for function in functions:
        if not shared.keys().isdisjoint(shared_names_of(function)):
            function = deepcopy(function)
            for node in function.node_def:
                if SHARED_NAME in node.attr:
                    old = node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape")
                    node.attr[SHARED_NAME].s = shared.get(old, old).encode("utf-8", "surrogateescape")
        out.append(function)
    return out


def shared_names_in_functions(library: FunctionLibrary) -> set[str]:
    """Returns the shared names in the functions of a library."""
    return {name for function in library for name in shared_names_of(function)}


def shared_names_of(function: FunctionDef) -> list[str]:
    """Returns the shared names in a function."""
    return [
        node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape")
        for node in function.node_def
        if SHARED_NAME in node.attr and node.attr[SHARED_NAME].s
    ]


# -- unused functions --------------------------------------------------------------------------------------


def drop_left(graph: Graph, names: Iterable[str]) -> list[str]:
    """Removes the functions `names`, and the functions that they call, if they are unused now. Returns the names.

    A function stays if an unused function that is not reachable from `names` calls it.
    """
    library = graph.functions
    lost = set(library.reachable(names, gradients=True))
    others = {function.signature.name for function in library} - lost
    unused = sorted(lost - used_functions(graph) - set(library.reachable(others, gradients=True)))
    library.remove(unused)
    return unused


def drop_unused_functions(graph: Graph) -> list[str]:
    """Removes all unused functions, unless the library belongs to a different graph. Returns the names."""
    if graph.is_body or not len(graph.functions):
        return []
    used = used_functions(graph)
    unused = [name for function in graph.functions if (name := function.signature.name) not in used]
    if unused:
        graph.functions.remove(unused)
    return unused


def changed_functions(functions: Iterable[FunctionDef], change: Callable[[FunctionDef], bool]) -> list[FunctionDef]:
    """Returns copies of the functions that `change` changes; it returns whether it has changed its argument."""
    out: list[FunctionDef] = []
    for function in functions:
        copy = deepcopy(function)
        if change(copy):
            out.append(copy)
    return out


def replace_functions(graph: Graph, functions: Iterable[FunctionDef]) -> FunctionChanges:
    """Replaces library functions by functions with the same names. Returns the changes."""
    changes = FunctionChanges()
    for function in functions:
        graph.functions.replace(function)
        changes.changed.append(function.signature.name)
    return changes


@public
def in_functions(graph: Graph, names: Sequence[str], edit: Callable[[Graph], EditResult]) -> EditResult:
    """Applies an edit to library functions as if each were a graph.

    All calls of a function change with it. The arguments and results of a function can be renamed but not removed.

    Args:
        graph: changed in place.
        names: the names of the functions.
        edit: called with each function as a graph; see `gdsurgeon.graph.body.Body`.

    Raises:
        EditError: there is no such function, a function cannot be converted to a graph, or the edit raises an error.
            The graph is unchanged.
        NothingToDo: the edit raises NothingToDo for each function.
    """
    bodies = [Body(graph, name) for name in dict.fromkeys(names)]
    if not bodies:
        raise EditError("no function is given", code="missing-argument")
    results: dict[str, EditResult] = {}
    idle: list[NothingToDo] = []
    for body in bodies:
        try:
            results[body.name] = checked_result(edit(body.graph), edit)
        except NothingToDo as error:
            idle.append(error)
    if not results:
        raise idle[0]
    made = [body.function_def() for body in bodies if body.graph.is_edited]
    changes = replace_functions(graph, made)
    return EditResult(
        Intent(functions=changes),
        (_claim([claim for result in results.values() for claim in result.claims]),),
        warnings=[warning for result in results.values() for warning in result.warnings],
        notes=[*(note for result in results.values() for note in result.notes), *(error.message for error in idle)],
        told=[line for result in results.values() for line in result.told],
        facts={"functions": {name: result.facts for name, result in results.items() if result.facts}},
        inside={body.name: (body.graph, results[body.name]) for body in bodies if body.name in changes.changed},
    )


def _claim(claims: Sequence[Claim]) -> Claim:
    """Returns what the claims about functions imply for the graph: equal outputs, or nothing.

    The tensors of sites inside functions cannot be fetched.
    """
    same = [claim for claim in claims if isinstance(claim, SameOutputs)]
    if len(same) + sum(isinstance(claim, SameSites) for claim in claims) < len(claims):
        return Unchanged()
    return SameOutputs(
        rtol=max(claim.rtol for claim in same),
        atol=max(claim.atol for claim in same),
        of_largest=max(claim.of_largest for claim in same),
        may_differ=any(claim.may_differ for claim in same),
        even_alone=all(claim.even_alone for claim in same),
        as_written=any(claim.as_written for claim in same),
        deployed=any(claim.deployed for claim in same),
        judged=all(claim.judged for claim in same),
    )
