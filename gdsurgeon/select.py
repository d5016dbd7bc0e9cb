"""The selection language, which selects nodes of a graph. All commands and the library use it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NoReturn, TypeAlias, TypeVar

from gdsurgeon.analysis.traversal.topology import Topology, between, forward_walk, members, serving_alone, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.errors import EditError, Line, NothingToDo, UsageError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor, scope_prefix
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import node_of, tensor_meant
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS, READS_SHAPE, is_random
from gdsurgeon.selection import Selection as Selection
from gdsurgeon.text import nearest, suggestion

T = TypeVar("T")
MOST_SHOWN = 10
"""Nodes that the `repr` of a list shows."""
PATIENCE = 10
"""Seconds of this process's time in which regular expressions are matched."""


@public
def select_nodes(graph: Graph, selection: Selection) -> list[Node]:
    """Returns the selected nodes of `graph`, in file order, then the added nodes.

    A tensor of a signature is named ``KEY/name``.

    The nodes that stand for the arguments and results of a function, in its body, are selected only by name.

    Raises:
        EditError: a name, scope, op, pattern or walk matches no node, or nothing is left after the exclusion.
        UsageError: a pattern is not a regular expression.
    """
    try:
        return selected_nodes(graph, selection)
    except NothingToDo as error:  # in an edit of the caller's it would mean that this has nothing to do
        raise EditError(error.message, code=error.code, facts=error.facts) from None


def selected_nodes(graph: Graph, selection: Selection) -> list[Node]:
    """Returns the nodes as `select_nodes` does, for edits that have nothing to do if nothing is selected.

    Raises:
        EditError, UsageError: see `select_nodes`.
        NothingToDo: no part of the selection matches a node, or nothing is left after the exclusion.
    """
    topology = topology_of(graph)
    return NodeList(topology.node(number) for number in members(selected(topology, meant(graph, selection))))


Nodes: TypeAlias = Selection | Iterable[str | Node]
"""Nodes as arguments: a selection, or names and nodes of the graph."""


class NodeList(list[Node]):
    """Nodes; their `repr` shows the first ones."""

    def __repr__(self) -> str:
        more = f", ... ({len(self):,} nodes)" if len(self) > MOST_SHOWN else ""
        return f"[{', '.join(map(repr, self[:MOST_SHOWN]))}{more}]"


def meant(graph: Graph, selection: Selection) -> Selection:
    """Returns `selection` with each ``KEY/name`` replaced by the name in `graph`."""
    tensor = partial(tensor_meant, graph)
    return selection.renamed(tensor, lambda text: node_of(tensor, text))


def nodes_of(graph: Graph, selection: Nodes) -> list[Node]:
    """Returns the nodes of a selection, or of a list of nodes and names, each once.

    Raises:
        EditError: see `select_nodes`; or a node is not in `graph`, or no node is selected.
        NothingToDo: see `selected_nodes`.
    """
    if isinstance(selection, Selection):
        return selected_nodes(graph, selection)
    given = list(selection)
    graph.prefetch([item for item in given if isinstance(item, str)])
    nodes = own_nodes(graph, given)
    if not nodes:
        raise EditError("nothing is selected: the list of nodes is empty", code="nothing-selected")
    return nodes


def one_node(graph: Graph, item: str | Node) -> Node:
    """Returns `item`, or the node of `graph` with that name. Raises EditError if `graph` does not have it."""
    if isinstance(item, str):
        return graph[item]
    if item not in graph:
        raise EditError(
            f"{quoted(item.name)} belongs to a different graph, or was removed",
            code="other-graph",
            node=item.name,
        )
    return item


def own_nodes(graph: Graph, nodes: Iterable[str | Node]) -> list[Node]:
    """Returns `nodes`, given as nodes or names, each once. Raises EditError if a node is not in `graph`."""
    return list(dict.fromkeys(one_node(graph, item) for item in nodes))


def selected(topology: Topology, selection: Selection) -> bytearray:
    """Returns a flag for each node of `topology`: whether it is selected. Linear in nodes and edges.

    See `select_nodes`.
    """
    if selection.names_nothing:
        raise EditError(
            "nothing is selected: select nodes by name, scope, op, pattern or connection to other nodes",
            code="nothing-selected",
        )
    flags = _named(topology, selection) if selection.names_something else topology.flags(topology.numbers())
    if selection.constants:  # and nodes that are computed only from constants, if only selected nodes read them
        constant = is_constant(topology)
        for number in serving_alone(topology, members(flags), lambda n: bool(constant[n]), lambda _: True):
            flags[number] = 1
    if selection.exclude:
        for number in matching(selection.exclude, members(flags), topology.name):
            flags[number] = 0
    for end in topology.graph.ends:
        flags[topology.id_of(end)] &= end.name in selection.nodes
    if not any(flags):
        raise NothingToDo("the selection is empty: every node that it names is excluded", code="all-excluded")
    return flags


def _named(topology: Topology, selection: Selection) -> bytearray:
    flags = bytearray(topology.size)
    missed: NothingToDo | None = None
    for part in _parts(topology, selection):
        try:
            for number in part:
                flags[number] = 1
        except NothingToDo as error:
            missed = missed or error
    if missed is not None:
        raise EditError(missed.message, code=missed.code, facts=missed.facts) if any(flags) else missed
    return flags


def _parts(topology: Topology, selection: Selection) -> Iterator[Iterable[int]]:
    """Yields the nodes of each part of `selection`. Iterating over a part without nodes raises NothingToDo."""
    graph = topology.graph
    yield [topology.id_of(graph[name]) for name in selection.nodes]
    for pattern in selection.regexes:
        yield _some(matching([pattern], topology.numbers(), topology.name), Line("{regexes}"), [pattern])
    for op in selection.ops:
        of_op = (n for n in topology.numbers() if topology.op(n) == op)
        yield _some(of_op, Line("{ops}"), [op], op, dict.fromkeys(map(topology.op, topology.numbers())))
    for scope in selection.scopes:
        found = under_scope(topology, scope)
        yield _some(found, Line("{scopes}"), [scope], scope_prefix(scope)[:-1], scopes(topology))
    for start, end in selection.between:
        sources = [_tensor(topology, text) for text in start]
        targets = [_tensor(topology, text)[0] for text in end]
        flags = between(topology, sources, targets, control=selection.control)
        yield _some(members(flags), Line("{between}"), [",".join(start), ",".join(end)])
    seeds = [_node(topology, text) for text in selection.forward]
    if seeds:
        yield members(forward_walk(topology, seeds, control=selection.control))
    seeds = [_node(topology, text) for text in selection.backward]
    if seeds:
        yield members(topology.upstream(seeds, control=selection.control))


def _some(
    found: Iterable[int], part: Line, given: Sequence[str], name: str = "", known: Iterable[str] = ()
) -> Iterator[int]:
    """Yields `found`. Raises NothingToDo if it is empty.

    Args:
        found: the numbers of the nodes that match.
        part: the part of the selection, for the message.
        given: the user's values for this part.
        name: a name that may be a typo for one of `known`.
        known: the names that exist.
    """
    count = 0
    for number in found:
        count += 1
        yield number
    if not count:
        near = nearest(name, known) if name else None
        text = f"{'='.join(map(quoted, given))} matched 0 nodes{'.' if near else ''}{suggestion(near)}"
        line = Line("{part} {text}", part=part, text=text)
        raise NothingToDo(
            line, code="nothing-matched", argument=part.template.strip("{}"), value="=".join(given), near=near
        )


def scopes(topology: Topology) -> list[str]:
    """Returns all name scopes, including outer scopes."""
    out: dict[str, None] = {}
    for number in topology.numbers():
        scope = topology.name(number).rpartition("/")[0]
        while scope and scope not in out:
            out[scope] = None
            scope = scope.rpartition("/")[0]
    return list(out)


def matching(patterns: Iterable[str], items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """Returns the items with names in which one of `patterns` is found. Raises as `compiled` and `matching_ends` do."""
    searches = [compiled(pattern).search for pattern in patterns]
    with matching_ends():
        return [item for item in items if any(search(name(item)) for search in searches)]


@contextmanager
def matching_ends() -> Iterator[None]:
    """Limits the time of matching in this context to `PATIENCE` seconds.

    Some patterns need twice the time for each letter of a name. The limit works only in the main thread, which receives
    signals.

    Raises:
        EditError: the matching took longer.
    """

    def late(_number: int, _frame: object) -> NoReturn:
        raise EditError(
            f"a regular expression took longer than {PATIENCE} s",
            code="timed-out",
            hint="avoid a repetition inside a repetition, such as (a+)+: such a pattern takes very "
            "long on names that do not match",
        )

    try:
        before = signal.signal(signal.SIGVTALRM, late)
    except (AttributeError, ValueError):  # Windows, or not the main thread
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


BAD_PATTERN = (re.error, RecursionError, OverflowError)
"""What `re` raises for a text that is no regular expression, or too large or deep a one."""


def compiled(pattern: str) -> re.Pattern[str]:
    """Returns `pattern` as a compiled regular expression. Raises UsageError if it is not valid."""
    try:
        return re.compile(pattern)
    except BAD_PATTERN as error:
        raise UsageError(
            f"{quoted(pattern)} is not a regular expression: {error}", code="bad-pattern", value=pattern
        ) from error


def under_scope(topology: Topology, scope: str) -> Iterator[int]:
    """Yields the nodes under a name scope, and the node with the scope's own name; '' selects the whole graph."""
    prefix = scope_prefix(scope)
    if not prefix:
        yield from topology.numbers()
        return
    for number in topology.numbers():
        name = topology.name(number)
        if name.startswith(prefix) or name == prefix[:-1]:
            yield number


def _node(topology: Topology, text: str) -> int:
    """Returns the node that the user named, by its own name or by the name of one of its output tensors."""
    if ":" in text:
        return _tensor(topology, text)[0]
    return topology.id_of(topology.graph[parse_tensor(text).node])


def _tensor(topology: Topology, text: str) -> tuple[int, int]:
    """Returns the node and the output index of a tensor name given by the user."""
    ref = parse_tensor(text)
    return topology.id_of(topology.graph.tensor(text).node), ref.port


def is_constant(topology: Topology) -> bytearray:
    """Returns a flag for each node: whether it depends only on constants."""
    from gdsurgeon.analysis.traversal.order import topological_order

    out = bytearray(topology.size)
    stateful: dict[str, bool] = {}
    for number in topological_order(topology):
        op = topology.op(number)
        if op not in stateful:
            definition = topology.graph.op_def(op)
            excepted = op in CONTROL_FLOW | PLACEHOLDERS
            stateful[op] = definition is None or definition.is_stateful or excepted
        producers = topology.producers(number)
        out[number] = op == "Const" or (
            bool(producers) and not stateful[op] and all(out[producer] for producer in producers)
        )
    return out


def depends_on_feeds(topology: Topology) -> bytearray:
    """Returns a flag for each node: whether it depends on the values of feeds or on state.

    Dependence only on shapes or random values does not count.
    """
    consumers = topology.consumers(control=False)
    out = bytearray(topology.size)
    pending = [n for n in topology.numbers() if not topology.data_producers(n) and topology.op(n) != "Const"]
    pending = [n for n in pending if not is_random(topology.op(n))]
    for number in pending:  # grows while it is walked
        if not out[number] and topology.op(number) not in READS_SHAPE:
            out[number] = 1
            pending += consumers[number]
    return out


def substituted(pattern: str, replacement: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """Returns pairs of old and new name for each of `names` that contains `pattern`, as replaced by `re.sub`.

    Raises:
        UsageError: the substitution is not valid.
    """
    try:
        with matching_ends():
            substitute = re.compile(pattern).subn
            return [(name, new) for name in names for new, count in (substitute(replacement, name),) if count]
    except (*BAD_PATTERN, IndexError) as error:
        raise UsageError(
            f"{quoted(pattern)} with the replacement {quoted(replacement)} is not a valid substitution: {error}",
            code="bad-pattern",
            facts={"value": pattern, "replacement": replacement},
        ) from error
