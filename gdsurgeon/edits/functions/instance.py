"""A library function with the attrs of one call: its nodes, and where every name in its body leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gdsurgeon.analysis.checks.functions import recursions
from gdsurgeon.edits.functions.definition import expanded_args
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import plain
from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import is_valid_name
from gdsurgeon.ops.kinds import CALLS

"""Ops that call the function in their attr ``f``; a node whose op is a function calls that."""


class Ref(NamedTuple):
    """A tensor in a body: output `port` of the node `node`, or, where that is '', the argument number `port`."""

    node: str
    port: int


class Instance:
    """A function as a call has it.

    Args:
        graph: has the function in its library.
        name: of the function.
        values: AttrValues for the attrs of the function.

    Attributes:
        nodes: copies of the body's NodeDefs, their attrs filled in from VALUES.
        args: how many tensors it takes.
        results: what it returns.
        control_results: nodes that have run when a call has.

    Raises:
        EditError: there is no such function, an op in it is not known, or a name or attr leads nowhere.
    """

    def __init__(self, graph: Graph, name: str, values: Mapping[str, Any]) -> None:
        function = graph.functions.get(name)
        if function is None:
            raise EditError(f"the library has no function {quoted(name)}")
        self.name = name
        self._graph = graph
        self._values = values
        self._defaults = {a.name: a.default_value for a in function.signature.attr if a.HasField("default_value")}
        self._tensors: dict[str, list[Ref]] = {}
        self.args = 0
        for arg in function.signature.input_arg:
            count = self._count(arg)
            self._enter(arg.name, [Ref("", self.args + i) for i in range(count)])
            self.args += count
        self.nodes = [self._filled_in(node) for node in function.node_def]
        for node in self.nodes:
            self._enter_outputs(node)
        self.results = [ref for arg in function.signature.output_arg for ref in self._returned(function, arg)]
        names = {node.name for node in self.nodes}
        self.control_results = [target for _, target in sorted(function.control_ret.items()) if target in names]
        for node in self.nodes:  # says now what leads nowhere
            _ = self.inputs(node)

    def _count(self, arg: Any) -> int:
        if arg.number_attr:
            return int(plain(self._value(arg.number_attr)) or 0)
        return len(plain(self._value(arg.type_list_attr)) or ()) if arg.type_list_attr else 1

    def _value(self, key: str) -> Any:
        if key in self._values:
            return self._values[key]
        if key in self._defaults:
            return self._defaults[key]
        raise EditError(f"a call of the function {quoted(self.name)} lacks its attr {quoted(key)}")

    def _enter(self, name: str, refs: list[Ref]) -> None:
        self._tensors[name] = refs
        for i, ref in enumerate(refs):
            self._tensors[f"{name}:{i}"] = [ref]

    def _enter_outputs(self, node: Any) -> None:
        definition = self._graph.op_def(node.op)
        where = f"{quoted(node.name)} in the function {quoted(self.name)}"
        if definition is None:
            raise EditError(f"{where}: the op {quoted(node.op)} is not known here")
        if not is_valid_name(node.name):
            raise EditError(f"{where} has a name that a node of a graph cannot have")
        by_arg: dict[str, list[Ref]] = {arg.name: [] for arg in definition.outputs}
        places = expanded_args(definition, lambda key: plain(node.attr[key]) if key in node.attr else None)
        for index, place in enumerate(places):
            by_arg[place.arg].append(Ref(node.name, index))
        for arg, refs in by_arg.items():
            self._enter(f"{node.name}:{arg}", refs)

    def _filled_in(self, node: Any) -> Any:
        """A copy of NODE with the call's values where its attrs ask for them."""
        copy = type(node)()
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

    def _returned(self, function: Any, arg: Any) -> list[Ref]:
        refs = self.tensors(function.ret[arg.name])
        count = self._count(arg)
        if len(refs) != count:
            raise EditError(f"the function {quoted(self.name)} returns {len(refs)} tensors as {quoted(arg.name)}")
        return refs

    def tensors(self, text: str) -> list[Ref]:
        """What an input or a ret of the body names: one tensor, or all of an argument."""
        refs = self._tensors.get(text)
        if refs is None:
            raise EditError(f"the function {quoted(self.name)} has no tensor {quoted(text)}")
        return refs

    def inputs(self, node: Any) -> list[Ref]:
        """The data inputs of a node of the body."""
        return [ref for text in node.input if not text.startswith("^") for ref in self.tensors(text)]

    def controls(self, node: Any) -> list[str]:
        """The nodes of the body that a node waits for; an argument is there from the beginning."""
        names = (text[1:] for text in node.input if text.startswith("^"))
        return [name for name in names if name not in self._tensors]


class FunctionCall(NamedTuple):
    """A call of a function: its name, and the AttrValues that the call gives it."""

    function: str
    values: Mapping[str, Any]


def call_of(op: str, attrs: Mapping[str, Any]) -> FunctionCall:
    """The call that a node of OP with ATTRS (AttrValues) makes."""
    if op not in CALLS:
        return FunctionCall(op, attrs)
    func = attrs["f"].func
    return FunctionCall(func.name, dict(func.attr))


def is_call(op: str, graph: Graph) -> bool:
    """Whether a node of OP calls a function of GRAPH's library and nothing else."""
    return op in CALLS or op in graph.functions


def instances(graph: Graph, calls: Iterable[tuple[str, FunctionCall, int]]) -> dict[tuple[str, bytes], Instance]:
    """The instances that inlining CALLS needs, those of the calls inside included, by `instance_key`.

    Args:
        graph: has the functions.
        calls: the caller's name, the call, and how many tensors it is given.

    Raises:
        EditError: see `Instance`; or a call is given more or fewer tensors than its function takes.
    """
    out: dict[tuple[str, bytes], Instance] = {}
    pending = list(calls)
    _check_recursion(graph, [call.function for _, call, _ in pending])
    while pending:
        caller, call, given = pending.pop()
        key = instance_key(call)
        known = key in out
        instance = out.setdefault(key, out[key] if known else Instance(graph, call.function, call.values))
        if given != instance.args:
            raise EditError(
                f"{quoted(caller)} has {given} inputs, and the function {quoted(call.function)} takes {instance.args}"
            )
        for node in instance.nodes if not known else ():
            if is_call(node.op, graph):
                pending.append((node.name, call_of(node.op, dict(node.attr)), len(instance.inputs(node))))
    return out


def _check_recursion(graph: Graph, names: Iterable[str]) -> None:
    """Raises EditError where one of the functions NAMES comes to call itself."""
    calls: dict[str, list[str]] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        function = graph.functions.get(name) if name not in calls else None
        if function is not None:
            calls[name] = [callee for node in function.node_def for callee in called_functions(node, graph.functions)]
            pending += calls[name]
    for path in recursions(calls):
        raise EditError(f"functions that call each other without end cannot be inlined: {path}")


def instance_key(call: FunctionCall) -> tuple[str, bytes]:
    """What tells one instance from another."""
    values = sorted(call.values.items())
    return call.function, b"".join(k.encode() + b"\0" + v.SerializeToString(deterministic=True) for k, v in values)
