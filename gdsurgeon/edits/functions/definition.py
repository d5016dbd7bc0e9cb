"""Nodes made a library function: the FunctionDef that computes what they compute."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.body import BodyArg, expanded_args
from gdsurgeon.graph.index import COLOCATION
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output, check_typed
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops.attr_names import COLOCATION_ATTR
from gdsurgeon.ops.dtypes import REF, base_dtype
from gdsurgeon.ops.kinds import CONTROL_FLOW, OF_A_STEP, PLACEHOLDERS
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.protos import FunctionDef, NodeDef

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
