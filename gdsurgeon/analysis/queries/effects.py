"""Effects of nodes other than their outputs, including effects of the functions that they call.

Effects are state, writes in place, random numbers, and access to files, networks, other processes or Python.

The set of functions that a node runs is a safe superset, because TensorFlow finds functions in many ways: names in
attrs, at any depth, also passed to a function as its attr; gradient functions of called ones; other implementations of
the same interface, which the optimizer substitutes; and names in strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gdsurgeon.analysis.queries.usage import functions_of, may_call
from gdsurgeon.analysis.traversal.control_flow import decided, untaken_branches
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.errors import EditError, InputError, Line, printable, quoted
from gdsurgeon.graph.attrs import functions_in, plain
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import FunctionLibrary, called_functions, closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import (
    CALLED,
    CONTROL_FLOW,
    IFS,
    IN_PLACE,
    PASSES_ON,
    PLACEHOLDERS,
    WHILES,
    hides_state,
    is_random,
    may_have,
)
from gdsurgeon.ops.op_defs import OpDef, op_def
from gdsurgeon.ops.reach import FILE_READ, NONE, UNKNOWN, is_pure, reach_of
from gdsurgeon.wire.protos import AttrValue, FunctionDef

DETERMINISTIC = "deterministic"
"""Attr of ops without which their seeds do not count."""


def only_computes(node: Node) -> bool:
    """Whether a node does nothing but compute what its consumers read: without these it can be removed."""
    definition = node.op_def
    return (
        definition is not None
        and not definition.is_stateful
        and node.op not in PLACEHOLDERS
        and node.op not in CONTROL_FLOW
    )


def is_seeded(node: Node) -> bool:
    """Whether a random op has a seed, so that equal sessions give equal values."""
    definition = node.op_def
    if definition is not None and DETERMINISTIC in definition.attrs and not node.plain_attr(DETERMINISTIC):
        return False
    return any(node.plain_attr(key) for key in ("seed", "seed2"))


def ops_in_functions(node: Node) -> set[str]:
    """The ops that run inside the functions that NODE calls, directly or through others."""
    library = node.graph.functions
    return {inner.op for name in library.reachable(functions_of(node)) for inner in library[name].node_def}


def has_state(node: Node) -> bool:
    """Whether NODE, or a function that it calls, is stateful, random, changes a variable, or is of an unknown op."""
    if _has_state(node.op_def):
        return True
    return any(_has_state(node.graph.op_def(op)) for op in ops_in_functions(node))


def have_state(graph: Graph, functions: Iterable[str]) -> bool:
    """Whether FUNCTIONS of a graph's library, or what they call, do more than compute."""
    library = graph.functions
    ops = {node.op for name in library.reachable(functions) for node in library[name].node_def}
    return any(_has_state(graph.op_def(op)) or hides_state(op) for op in ops)


def _has_state(definition: OpDef | None) -> bool:
    return definition is None or definition.is_stateful or any(argument.is_ref for argument in definition.inputs)


def written_into(graph: Graph, topology: Topology) -> list[int]:
    """Returns the nodes whose output is written in place: first inputs of such ops, and arguments that lead to them.

    Of a function's body also its results, where anybody does so in the graph or in its library: who calls it may.

    Args:
        graph: a graph, or the body of a function.
        topology: of GRAPH.
    """
    library = graph if graph.owner is None else graph.owner
    writing = library.derived(_writing_functions)
    found = [producer for n in topology.with_ops(IN_PLACE) for producer in topology.data_producers(n)[:1]]
    for number in topology.with_ops(op for op in topology.ops() if may_call(graph, op)) if writing else ():
        if not writing.isdisjoint(functions_of(topology.node(number))):
            found += topology.data_producers(number)
    if graph.ends and (writing or topology_of(library).ops() & IN_PLACE):
        found += map(topology.id_of, graph.ends)
    return found


def in_written_memory(graph: Graph, topology: Topology) -> set[int]:
    """Returns the nodes whose outputs may share memory that is written in place, because it is forwarded."""
    pending = written_into(graph, topology)
    seen = set(pending)
    while pending:
        number = pending.pop()
        new = set(topology.data_producers(number)) - seen if may_have(topology.op(number), 0, ()) else set()
        seen |= new
        pending += new
    return seen


def _writing_functions(graph: Graph) -> set[str]:
    """The functions that write into what they are given, or may hand on to others that do."""
    writing = [f.signature.name for f in graph.functions if any(node.op in IN_PLACE for node in f.node_def)]
    return graph.functions.reaching(writing) if writing else set()


_INTERFACE = "api_implements"
"""Attr of a function: the interface that it implements, as others may too."""


class ExternalEffects:
    """The external effects of the nodes of a graph: files, networks, other processes, Python.

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


def external_effect_line(node: Node, op: str) -> Line:
    """That NODE reaches outside by OP, which has to be allowed, as a line for a person."""
    where = f"{quoted(node.name)} ({printable(node.op)})"
    return Line("{node} reads or writes outside the graph ({op}); {allow_ops} allows it", node=where, op=op)


def external_effects_of(graph: Graph, *, trusts_unknown: bool = False) -> ExternalEffects:
    """Returns the external effects of the nodes of the present graph."""
    return graph.derived(_trusting if trusts_unknown else _strict)


def _trusting(graph: Graph) -> ExternalEffects:
    return ExternalEffects(graph, True)


def _strict(graph: Graph) -> ExternalEffects:
    return ExternalEffects(graph, False)


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


MOST_CALLS = 100
"""Calls inside one another that are looked into; what lies deeper is believed to draw."""
_Arguments = tuple[bool | None, ...]
"""Of the arguments of a function, those that are decided."""


def random_nodes(graph: Graph) -> list[int]:
    """The numbers of the nodes of GRAPH that draw, themselves or in a function, whatever the graph is fed."""
    return _RandomSearch().drawing(graph, {}, 0)


class _RandomSearch:
    def __init__(self) -> None:
        self._known: dict[tuple[str, _Arguments], bool] = {}

    def drawing(self, graph: Graph, known: Mapping[int, bool], depth: int) -> list[int]:
        """Returns the random nodes of `graph`; `known` holds the conditions whose value its caller determines."""
        topology = topology_of(graph)
        ops = {op: is_random(op) for op in topology.ops() if is_random(op) or may_call(graph, op)}
        found = topology.with_ops(ops)
        dead = untaken_branches(topology, known) if found else ()
        found = [number for number in found if not dead[number]]
        return [n for n in found if ops[topology.op(n)] or self._draws_inside(topology, n, known, depth)]

    def _draws_inside(self, topology: Topology, number: int, known: Mapping[int, bool], depth: int) -> bool:
        node = topology.node(number)
        if not any(map(is_random, ops_in_functions(node))):
            return False
        attrs, first = CALLED.get(node.op, ((), 0))
        arguments = [decided(topology, producer, known) for producer in topology.data_producers(number)]
        names = functions_of(node)
        if node.op in IFS and arguments and arguments[0] is not None:
            taken = node.attr(attrs[not arguments[0]])
            names = [taken.func.name] if taken is not None else names
        # The values that a loop forwards differ in each iteration.
        passed = () if node.op in WHILES else tuple(arguments[first:])
        return any(self._function_draws(topology.graph, name, passed, depth) for name in names)

    def _function_draws(self, graph: Graph, name: str, passed: _Arguments, depth: int) -> bool:
        if (name, passed) not in self._known:
            self._known[name, passed] = False  # where it calls itself that says nothing new
            self._known[name, passed] = depth >= MOST_CALLS or self._body_draws(graph, name, passed, depth + 1)
        return self._known[name, passed]

    def _body_draws(self, graph: Graph, name: str, passed: _Arguments, depth: int) -> bool:
        try:
            body = Body(graph, name)
        except EditError:
            return True  # each call says what it is
        topology = topology_of(body.graph)
        pairs = zip(body.arguments, passed, strict=False)
        known = {topology.id_of(argument): value for argument, value in pairs if value is not None}
        return bool(self.drawing(body.graph, known, depth))
