"""By which op a node reaches files, networks, other processes or Python: itself, or in functions that it has run.

The set of such functions is a safe superset, because TensorFlow finds functions in many ways: names in attrs, at any
    depth, also passed to a function as its attr; gradient functions of called ones; other implementations of the same
    interface, which the optimizer substitutes; and names in strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gdsurgeon.analysis.queries.function_usage import functions_of
from gdsurgeon.analysis.queries.side_effects import ops_in_functions
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.errors import InputError, Line, printable, quoted
from gdsurgeon.graph.attrs import functions_in, plain
from gdsurgeon.graph.closure import closure
from gdsurgeon.graph.functions import FunctionLibrary, called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import PASSES_ON
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.ops.reach import FILE_READ, NONE, UNKNOWN, is_pure, reach_of
from gdsurgeon.wire.protos import AttrValue, FunctionDef

_INTERFACE = "api_implements"
"""Attr of a function: the interface that it implements, as others may too."""


class Outside:
    """What the nodes of GRAPH reach outside of it, as it is now.

    Args:
        graph: the graph.
        trusts_unknown: whether unknown ops count as harmless, because the user vouches for them.
    """

    def __init__(self, graph: Graph, trusts_unknown: bool) -> None:
        self._graph = graph
        self._trusts_unknown = trusts_unknown
        self._functions = self._reaching_functions()

    def may_reach(self, op: str) -> bool:
        """Whether a node of OP may reach anything: not, unless the table says so or it runs functions that do."""
        if reach_of(op).kind != NONE:
            return True
        definition = self._graph.op_def(op)
        return bool(self._functions) and definition is not None and definition.takes_functions

    def reached_by(self, node: Node) -> str:
        """The op by which NODE reaches outside, its own or one inside a function; '' where it does not."""
        if node.op not in self._graph.functions and not self._is_pure(node.op, _attrs_of(node)):
            return node.op
        if not self._functions:
            return ""
        return next((self._functions[name] for name in functions_of(node) if name in self._functions), "")

    def evaluated_at_load(self) -> Iterator[tuple[Node, str]]:
        """The nodes that TensorFlow may evaluate when it only loads the graph, and by which op each reaches outside.

        Shape inference evaluates what depends on constants alone where a shape depends on it: ops without state, whose
        value gets to one that may make a shape of it. It evaluates no functions.
        """
        topology = topology_of(self._graph)
        ops = [op for op in topology.ops() if reach_of(op).kind not in (NONE, UNKNOWN) and not _is_stateful(op)]
        numbers = topology.with_ops(ops) if ops else []
        readers = topology.consumers(control=False) if numbers else []
        for number in numbers:
            node = topology.node(number)
            if not is_pure(node.op, _attrs_of(node)) and _is_looked_at(number, topology, readers):
                yield node, node.op

    def _is_pure(self, op: str, attrs: Mapping[str, object]) -> bool:
        return is_pure(op, attrs) or (self._trusts_unknown and reach_of(op).kind == UNKNOWN)

    def _reaching_functions(self) -> dict[str, str]:
        """The functions that reach outside, each with an op by which it does."""
        library = self._graph.functions
        own = {function.signature.name: self._own_reach(function) for function in library}
        found = {name: op for name, op in own.items() if op}
        if not found:
            return found
        callers: dict[str, list[str]] = {}
        for caller, callees in _runs(library).items():
            for callee in callees:
                callers.setdefault(callee, []).append(caller)
        pending = list(found)
        for name in pending:  # grows while it is walked
            for caller in callers.get(name, ()):
                if caller not in found:
                    found[caller] = found[name]
                    pending.append(caller)
        return found

    def _own_reach(self, function: FunctionDef) -> str:
        """The op of the first node of FUNCTION that reaches outside; ''. Calls are not followed."""
        for node in function.node_def:
            if node.op not in self._graph.functions:
                attr = reach_of(node.op).attr
                values = {attr: plain(node.attr[attr])} if attr in node.attr else {}
                if not self._is_pure(node.op, values):
                    return node.op
        return ""


def only_reads(node: Node) -> bool:
    """Whether all that NODE reaches outside, also in the functions that it has run, is files that it reads."""
    own = () if node.op in node.graph.functions else (node.op,)
    return all(reach_of(op).kind in (NONE, FILE_READ) for op in (*own, *ops_in_functions(node)))


def reaching(node: Node, op: str) -> Line:
    """That NODE reaches outside by OP, which has to be allowed, as a line for a person."""
    where = f"{quoted(node.name)} ({printable(node.op)})"
    return Line("{node} reads or writes outside the graph ({op}); {allow_ops} allows it", node=where, op=op)


def outside_of(graph: Graph, *, trusts_unknown: bool = False) -> Outside:
    """What the nodes of GRAPH reach outside of it, as it is now; see `Outside`."""
    return graph.derived(_trusting if trusts_unknown else _strict)


def _trusting(graph: Graph) -> Outside:
    return Outside(graph, True)


def _strict(graph: Graph) -> Outside:
    return Outside(graph, False)


def _is_looked_at(number: int, topology: Topology, readers: list[list[int]]) -> bool:
    """Whether the value of a node gets to another that does more than pass it on."""
    passing = closure([number], lambda n: (r for r in readers[n] if topology.op(r) in PASSES_ON))
    return any(topology.op(reader) not in PASSES_ON for n in passing for reader in readers[n])


def _is_stateful(op: str) -> bool:
    definition = op_def(op)
    return definition is not None and definition.is_stateful


def _attrs_of(node: Node) -> dict[str, object]:
    """The plain value of the attr on which it depends what NODE reaches, where it has that attr."""
    attr = reach_of(node.op).attr
    if not attr or not node.has_attr(attr):
        return {}
    try:
        return {attr: node.plain_attr(attr)}
    except InputError:
        return {attr: None}


def _runs(library: FunctionLibrary) -> dict[str, set[str]]:
    """For each function those that may run when it does."""
    out: dict[str, set[str]] = {}
    interfaces: dict[str, list[str]] = {}
    for function in library:
        name = function.signature.name
        named = out.setdefault(name, set())
        named.update(_functions_named(function.attr, library))
        for argument in function.signature.attr:
            named.update(func.name for func in functions_in(argument.default_value))
        for node in function.node_def:
            named.update(called_functions(node, library))
            named.update(_functions_named(node.attr, library))
        if _INTERFACE in function.attr:
            interfaces.setdefault(repr(plain(function.attr[_INTERFACE])), []).append(name)
    for gradient in library.gradients():
        out.setdefault(gradient.function_name, set()).add(gradient.gradient_func)
    for names in interfaces.values():
        for name in names:
            out[name].update(names)
    return out


def _functions_named(attrs: Mapping[str, AttrValue], library: FunctionLibrary) -> Iterator[str]:
    """The functions that ATTRS name: as functions, or in a string."""
    for value in attrs.values():
        yield from (func.name for func in functions_in(value))
        yield from (name for name in _strings(value) if name in library)


def _strings(value: AttrValue) -> Iterable[str]:
    held = plain(value)
    items = held if isinstance(held, list) else [held]
    return [item.decode("utf-8", "replace") for item in items if isinstance(item, bytes)]
