"""Library functions: made from nodes or from a signature, merged, copied, removed, and changed by edits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gdsurgeon.analysis.queries.usage import used_functions
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
from gdsurgeon.values import EXACT, Tolerance, widest
from gdsurgeon.wire.protos import AttrValue, FunctionDef, GradientDef

EMPTY: Mapping[Any, Any] = MappingProxyType({})
NO_INLINE = "_noinline"
XLA_MUST_COMPILE = "_XlaMustCompile"
NO_OPTIMIZER_OF_ITS_OWN = b"R\x05R\x03\x98\x01\x01"
"""ConfigProto.graph_options.rewrite_options.disable_meta_optimizer. Without this option, a call optimises its function
at the first run, even if the optimiser of the session is turned off, and rounds differently."""
COMPILED = Tolerance(1e-4, 1e-5)
"""The allowed differences between the results of XLA and of TensorFlow's kernels."""


def allowed(rtol: float | None, atol: float | None, *, is_compiled: bool) -> Tolerance:
    """Returns the tolerance of outputs; None stands for the default, which depends on whether XLA compiles nodes."""
    default = COMPILED if is_compiled else EXACT
    return Tolerance(default.rtol if rtol is None else rtol, default.atol if atol is None else atol)


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
    stem: str,
    nodes: Sequence[Node],
    inputs: Sequence[Output],
    outputs: Sequence[Output],
    *,
    attrs: Mapping[str, bool] = EMPTY,
    controls: Iterable[Node] = (),
    renamed: Mapping[str, str] = EMPTY,
) -> FunctionDef:
    """Returns a FunctionDef that computes `outputs` from `inputs`; see `name_function` for its name.

    The nodes keep their names. Stateful nodes run in every call. The function has no control inputs: the caller adds
    control inputs from outside to the call. Colocations with nodes outside are left out.

    Args:
        stem: the beginning of the name.
        nodes: nodes of one graph with known ops, without references.
        inputs: all tensors from outside that the nodes read, each once.
        outputs: tensors of the nodes, or inputs, each once.
        attrs: bool attrs of the function, such as ``_noinline``.
        controls: nodes that run before the nodes that depend on a call.
        renamed: new names of functions that the nodes call.

    Raises:
        EditError: the dtype of an input or output is not known.
    """
    members = dict.fromkeys(nodes)
    function = FunctionDef()
    unique = UniqueNames({node.name for node in members}.__contains__)
    args = {output: unique(_arg_name(output)) for output in inputs}
    for output, name in args.items():
        function.signature.input_arg.add(name=name, type=_dtype(output))
    spelt: dict[Output, str] = {}
    for node in members:
        definition = node.op_def
        assert definition is not None
        for index, (arg, place) in enumerate(expanded_args(definition, node.plain_attr)):
            spelt[Output(node, index)] = f"{node.name}:{arg}:{place}"
        function.signature.is_stateful |= definition.is_stateful
    spelt |= args  # a member may have an output that is an input, and a computed output
    for output in outputs:
        name = unique(_arg_name(output) + ("_out" if output in args else ""))
        function.signature.output_arg.add(name=name, type=_dtype(output))
        function.ret[name] = spelt[output]
    for node in members:
        _add_node(function, node, members, spelt)
    stateful = (node for node in members if node.op_def is not None and node.op_def.is_stateful)
    for node in dict.fromkeys((*stateful, *controls)):
        function.signature.control_output.append(node.name)
        function.control_ret[node.name] = node.name
    for key, value in attrs.items():
        function.attr[key].b = value
    respell_body(function, renamed)
    name_function(function, stem)
    return function


def name_function(function: FunctionDef, stem: str) -> None:
    """Sets the name of a complete function: `stem` and a hash of the function.

    Function names are global to a process, so different functions of two graphs need different names.
    """
    function.signature.name = ""
    digest = hashlib.sha256(function.SerializeToString(deterministic=True)).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    function.signature.name = f"{name if name[:1].isalpha() else f'f_{name}'}_{digest}"


def _add_node(function: FunctionDef, node: Node, members: Container[Node], spelt: Mapping[Output, str]) -> None:
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
        inner = {COLOCATION + other.name.encode() for other in node.colocated if other in members}
        entries = body.attr[COLOCATION_ATTR].list.s
        entries[:] = [entry for entry in entries if entry in inner or not entry.startswith(COLOCATION)]
        if not entries:
            del body.attr[COLOCATION_ATTR]


def _dtype(output: Output) -> int:
    check_typed(output)
    return base_dtype(output.dtype)


def _arg_name(output: Output) -> str:
    """Returns a name for an argument, as signatures of ops have it: lower case letters, digits and underscores."""
    stem = re.sub(r"[^a-z0-9_]", "_", output.node.name.rpartition("/")[2].lower())
    stem += f"_{output.index}" if output.index else ""
    return stem if stem[:1].isalpha() else f"x_{stem}"


# -- a signature as a function -----------------------------------------------------------------------------


def signature_function(
    graph: Graph, key: str, served: Served, held: Collection[Node]
) -> tuple[FunctionDef, list[Node]]:
    """Returns a function that computes a signature, as in models of TensorFlow 2, and its captured nodes.

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
    stem = f"__inference_signature_wrapper_{key}"
    function = make_function(stem, members, arguments, list(outputs.values()))
    shapes = graph.derived(infer_shapes)
    for place, (name, tensor) in enumerate(inputs.items()):  # TensorFlow stores these attrs for each input
        attrs = function.arg_attr[place].attr
        attrs["_user_specified_name"].s = name.encode()
        attrs[STATED_SHAPES].list.shape.add().CopyFrom(shape_value(shapes.shape(tensor)).shape)
    name_function(function, stem)
    return function, captured


# -- merging libraries -------------------------------------------------------------------------------------


@dataclass
class FunctionMerge:
    """A planned merge of functions into a library.

    Attributes:
        added: FunctionDefs to add, with their new names.
        gradients: GradientDefs to add.
        renamed: the new names of functions whose names belong to different functions of the library.
    """

    added: list[FunctionDef] = field(default_factory=list)
    gradients: list[GradientDef] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)

    def apply(self, library: FunctionLibrary) -> None:
        """Adds the functions to `library`."""
        for function in self.added:
            library.add(function)
        for gradient in self.gradients:
            library.add_gradient(gradient)


def plan_function_merge(
    library: FunctionLibrary,
    other: FunctionLibrary,
    names: Iterable[str] | None = None,
    shared: Mapping[str, str] = EMPTY,
) -> FunctionMerge:
    """Plans to add functions of `other`, which can be `library` itself, to `library`.

    Two functions are equal if their definitions are equal, and the definitions of all functions that they call.

    Args:
        library: not changed.
        other: the library of the functions.
        names: the functions; by default all functions of `other`.
        shared: the new shared names of tables, queues and variables in the functions.

    Raises:
        InputError: a library is corrupt.
    """
    chosen = [function.signature.name for function in other] if names is None else names
    functions = {name: respelt(other[name], {}, shared) for name in chosen}
    known = {name: found for name in functions if (found := library.get(name)) is not None}
    different = {name for name, found in known.items() if found is not functions[name] and found != functions[name]}
    # A function that calls a different function is different, even if its definition is equal.
    different = other.reaching(different) if different else different
    unique = UniqueNames(lambda name: name in library or name in functions or op_def(name) is not None)
    renamed = {name: unique(name) for name in functions if name in known and name in different}
    added = [respelt(f, renamed) for name, f in functions.items() if name not in known or name in renamed]
    taken = {gradient.function_name for gradient in library.gradients()}
    gradients: list[GradientDef] = []
    for gradient in other.gradients() if other is not library else ():
        copy = type(gradient)()
        copy.function_name = renamed.get(gradient.function_name, gradient.function_name)
        copy.gradient_func = renamed.get(gradient.gradient_func, gradient.gradient_func)
        if copy.function_name not in taken:  # TensorFlow accepts one gradient for each function
            taken.add(copy.function_name)
            gradients.append(copy)
    return FunctionMerge(added, gradients, renamed)


def respelt(function: FunctionDef, renamed: Mapping[str, str], shared: Mapping[str, str] = EMPTY) -> FunctionDef:
    """Returns `function`, or a copy with new names of functions, also its own name, and with new shared names."""
    if not renamed and shared.keys().isdisjoint(shared_names_of(function)):
        return function
    copy = deepcopy(function)
    copy.signature.name = renamed.get(function.signature.name, function.signature.name)
    respell_body(copy, renamed)
    for node in copy.node_def if shared else ():
        if SHARED_NAME in node.attr:
            old = node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape")
            node.attr[SHARED_NAME].s = shared.get(old, old).encode("utf-8", "surrogateescape")
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


def shared_names_of(function: FunctionDef) -> list[str]:
    """Returns the names by which the nodes of a function share tables, queues and variables."""
    return [
        node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape")
        for node in function.node_def
        if SHARED_NAME in node.attr and node.attr[SHARED_NAME].s
    ]


# -- unused and changed functions --------------------------------------------------------------------------


def drop_unused_functions(graph: Graph, names: Iterable[str] | None = None) -> list[str]:
    """Removes unused functions, and returns their names.

    Nothing is removed if the library belongs to a different graph.

    Args:
        graph: changed in place.
        names: only remove these functions and the functions that they call, if they are unused now, and no unused
            function outside of them calls them. None: all unused functions.
    """
    library = graph.functions
    if graph.is_body or not len(library):
        return []
    everything = [function.signature.name for function in library]
    lost = everything if names is None else sorted(library.reachable(names, gradients=True))
    used = used_functions(graph) | set(library.reachable(set(everything).difference(lost), gradients=True))
    unused = [name for name in lost if name not in used]
    if unused:
        library.remove(unused)
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
        widest(claim.tolerance for claim in same),
        may_differ=any(claim.may_differ for claim in same),
        even_alone=all(claim.even_alone for claim in same),
        as_written=any(claim.as_written for claim in same),
        deployed=any(claim.deployed for claim in same),
        judged=all(claim.judged for claim in same),
    )
