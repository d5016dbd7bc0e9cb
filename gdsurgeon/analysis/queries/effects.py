"""Effects of nodes other than their outputs, including effects of the functions that they call.

Effects are state, writes in place, random numbers, and access to files, networks, other processes or Python.

The set of functions that a node runs is a safe superset, because TensorFlow finds functions in many ways: names in
attrs, at any depth, also passed to a function as its attr; gradient functions of called ones; other implementations of
the same interface, which the optimizer substitutes; and names in strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

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
"""An attr of ops: their seeds are effective only if it is true."""


def only_computes(node: Node) -> bool:
    """Returns whether a node has no effect but its outputs, so that it can be removed if it has no consumers."""
    definition = node.op_def
    return (
        definition is not None
        and not definition.is_stateful
        and node.op not in PLACEHOLDERS
        and node.op not in CONTROL_FLOW
    )


def is_seeded(node: Node) -> bool:
    """Returns whether a random op has a seed, so that equal sessions return equal values."""
    definition = node.op_def
    if definition is not None and DETERMINISTIC in definition.attrs and not node.plain_attr(DETERMINISTIC):
        return False
    return any(node.plain_attr(key) for key in ("seed", "seed2"))


def ops_in_functions(node: Node) -> set[str]:
    """Returns the ops in the functions that `node` calls, directly or through other functions."""
    library = node.graph.functions
    return {inner.op for name in library.reachable(functions_of(node)) for inner in library[name].node_def}


def has_state(node: Node) -> bool:
    """Returns whether `node`, or a node in its functions, is stateful, has a reference input or an unknown op."""
    if _has_state(node.op_def):
        return True
    return any(_has_state(node.graph.op_def(op)) for op in ops_in_functions(node))


def have_state(graph: Graph, functions: Iterable[str]) -> bool:
    """Returns whether `functions` of the library of `graph`, or functions they call, have state or hide it."""
    library = graph.functions
    ops = {node.op for name in library.reachable(functions) for node in library[name].node_def}
    return any(_has_state(graph.op_def(op)) or hides_state(op) for op in ops)


def _has_state(definition: OpDef | None) -> bool:
    return definition is None or definition.is_stateful or any(argument.is_ref for argument in definition.inputs)


def written_into(graph: Graph, topology: Topology) -> list[int]:
    """Returns the nodes whose output may be written in place.

    These are the first inputs of in-place ops, and the inputs of nodes that call functions with such ops. In the body
    of a function, its results are included if the graph or its library has any in-place op, because a caller may write
    into them.

    Args:
        graph: a graph, or the body of a function.
        topology: the topology of `graph`.
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
    forwarding = {op for op in topology.ops() if may_have(op, 0, ())}
    starts = written_into(graph, topology)
    return closure(starts, lambda n: topology.data_producers(n) if topology.op(n) in forwarding else ())


def _writing_functions(graph: Graph) -> set[str]:
    """Returns the functions that contain in-place ops, or reach functions that do."""
    writing = [f.signature.name for f in graph.functions if any(node.op in IN_PLACE for node in f.node_def)]
    return graph.functions.reaching(writing) if writing else set()


_INTERFACE = "api_implements"
"""An attr of a function: the interface that it implements. Several functions may implement the same one."""


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
        """Returns whether nodes of `op` may have external effects, by the op table or in functions that they run."""
        if reach_of(op).kind != NONE:
            return True
        definition = self._graph.op_def(op)
        return bool(self._functions) and definition is not None and definition.takes_functions

    def reached_by(self, node: Node) -> str:
        """Returns the op that gives `node` an external effect, its own or one in a function; '' if it has none."""
        if node.op not in self._graph.functions and not self._is_pure(node.op, _attrs_of(node)):
            return node.op
        if not self._functions:
            return ""
        return next((self._functions[name] for name in functions_of(node) if name in self._functions), "")

    def evaluated_at_load(self) -> Iterator[tuple[Node, str]]:
        """Yields nodes with external effects that TensorFlow may run when it only loads the graph, with their ops.

        If a shape depends on a node whose value depends only on constants, shape inference evaluates it. This applies
        to stateless ops whose value reaches an op that may derive a shape from it. Functions are not evaluated.
        """
        topology = topology_of(self._graph)
        ops = [op for op in topology.ops() if reach_of(op).kind not in (NONE, UNKNOWN)]
        ops = [op for op in ops if (definition := op_def(op)) is None or not definition.is_stateful]
        numbers = topology.with_ops(ops) if ops else []
        readers = topology.consumers(control=False) if numbers else []
        for number in numbers:
            node = topology.node(number)
            if not is_pure(node.op, _attrs_of(node)) and _is_looked_at(number, topology, readers):
                yield node, node.op

    def _is_pure(self, op: str, attrs: Mapping[str, object]) -> bool:
        return is_pure(op, attrs) or (self._trusts_unknown and reach_of(op).kind == UNKNOWN)

    def _reaching_functions(self) -> dict[str, str]:
        """Returns the functions with external effects, each with an op that has the effect."""
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
            new = [caller for caller in callers.get(name, ()) if caller not in found]
            found.update(dict.fromkeys(new, found[name]))
            pending += new
        return found

    def _own_reach(self, function: FunctionDef) -> str:
        """Returns the op of the first node of `function` with an external effect, or ''. Does not follow calls."""
        for node in function.node_def:
            if node.op not in self._graph.functions:
                attr = reach_of(node.op).attr
                values = {attr: plain(node.attr[attr])} if attr in node.attr else {}
                if not self._is_pure(node.op, values):
                    return node.op
        return ""


def only_reads(node: Node) -> bool:
    """Returns whether `node`, including functions that it calls, has no external effects but reading files."""
    own = () if node.op in node.graph.functions else (node.op,)
    return all(reach_of(op).kind in (NONE, FILE_READ) for op in (*own, *ops_in_functions(node)))


def external_effect_line(node: Node, op: str) -> Line:
    """Returns a line for the user: `node` has an external effect, by `op`, which must be allowed."""
    where = f"{quoted(node.name)} ({printable(node.op)})"
    return Line("{node} reads or writes outside the graph ({op}); {allow_ops} allows it", node=where, op=op)


def external_effects_of(graph: Graph, *, trusts_unknown: bool = False) -> ExternalEffects:
    """Returns the external effects of the nodes of the present graph."""
    return graph.derived(_EFFECTS[trusts_unknown])


_EFFECTS = {trusts: partial(ExternalEffects, trusts_unknown=trusts) for trusts in (False, True)}


def _is_looked_at(number: int, topology: Topology, readers: list[list[int]]) -> bool:
    """Returns whether the value of a node reaches a node that does more than forward it."""
    passing = closure([number], lambda n: (r for r in readers[n] if topology.op(r) in PASSES_ON))
    return any(topology.op(reader) not in PASSES_ON for n in passing for reader in readers[n])


def _attrs_of(node: Node) -> dict[str, object]:
    """Returns the plain value of the attr that determines the external effect of `node`, if it has that attr.

    The value is None if the attr is corrupt.
    """
    attr = reach_of(node.op).attr
    if not attr or not node.has_attr(attr):
        return {}
    try:
        return {attr: node.plain_attr(attr)}
    except InputError:
        return {attr: None}


def _runs(library: FunctionLibrary) -> dict[str, set[str]]:
    """Returns, for each function, the functions that may run when it runs."""
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
    """Yields the functions that `attrs` name: as functions, or in strings."""
    for value in attrs.values():
        yield from (func.name for func in functions_in(value))
        yield from (name for name in _strings(value) if name in library)


def _strings(value: AttrValue) -> Iterable[str]:
    held = plain(value)
    items = held if isinstance(held, list) else [held]
    return [item.decode("utf-8", "replace") for item in items if isinstance(item, bytes)]


MOST_CALLS = 100
"""The maximum depth of nested calls that are examined; deeper calls are assumed to be random."""
_Arguments = tuple[bool | None, ...]
"""For each argument of a function, its known truth value, or None."""


def random_nodes(graph: Graph) -> list[int]:
    """Returns the numbers of the random nodes of `graph`, including nodes that call random functions.

    Branches that are never taken, whatever the graph is fed, are left out.
    """
    return _random_nodes(graph, {}, 0, {})


_Searched = dict[tuple[str, _Arguments], bool]
"""Whether functions are random, by name and arguments."""


def _random_nodes(graph: Graph, known: Mapping[int, bool], depth: int, searched: _Searched) -> list[int]:
    """Returns the random nodes of `graph`; `known` holds the conditions whose value its caller determines."""
    topology = topology_of(graph)
    ops = {op: is_random(op) for op in topology.ops() if is_random(op) or may_call(graph, op)}
    found = topology.with_ops(ops)
    dead = untaken_branches(topology, known) if found else ()
    found = [number for number in found if not dead[number]]
    return [n for n in found if ops[topology.op(n)] or _calls_random(topology, n, known, depth, searched)]


def _calls_random(topology: Topology, number: int, known: Mapping[int, bool], depth: int, searched: _Searched) -> bool:
    """Returns whether a node calls a function that is random with its arguments."""
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
    for key in ((name, passed) for name in names):
        if key not in searched:
            searched[key] = False  # a recursive call adds nothing
            searched[key] = _is_random(topology.graph, *key, depth + 1, searched)
        if searched[key]:
            return True
    return False


def _is_random(graph: Graph, name: str, passed: _Arguments, depth: int, searched: _Searched) -> bool:
    try:
        body = Body(graph, name) if depth <= MOST_CALLS else None
    except EditError:
        body = None
    if body is None:
        return True  # a function whose body cannot be examined is assumed to be random
    topology = topology_of(body.graph)
    pairs = zip(body.arguments, passed, strict=False)
    known = {topology.id_of(argument): value for argument, value in pairs if value is not None}
    return bool(_random_nodes(body.graph, known, depth, searched))
