"""Rounds of a rule: finds the matches of a graph that do not overlap, and replaces them."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import only_computes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.claims import LARGEST_FED, Site
from gdsurgeon.edits.replacing import drop_colocations
from gdsurgeon.edits.rewriting.conditions import Affected, ReplacedShapes, RewriteContext
from gdsurgeon.edits.rewriting.matching import MOST_WAYS, Matcher
from gdsurgeon.edits.rewriting.planning import New, NewOutput, Planner, Replacement, Unfit
from gdsurgeon.errors import EditError, Remark, UsageError, printable, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import STATED_SHAPES
from gdsurgeon.patterns.attrs import same_value
from gdsurgeon.patterns.parse import replacement_of
from gdsurgeon.patterns.terms import MOST_EQUAL, Match, Op, Replaced, Rule, walk

STALE = frozenset((STATED_SHAPES, "_gradient_op_type"))
"""Attrs that describe the outputs or the gradient of the old op."""

IN_PLACE, IDENTITY, GONE = "in place", "identity", "gone"
"""The outcome of the node of a result: it becomes a new node or an Identity, or it is removed and consumers are
rerouted.
"""


@dataclass(eq=False)
class PlannedRewrite:
    """A match and its replacement.

    Attributes:
        rule: the name of the rule.
        roots: the tensors of the results.
        outcomes: what happens to the node of each result.
        going: the other nodes that are removed.
        reads: the tensors that the match reads.
        anchor: control inputs of new constants, so that they run where the match runs.
        replacement: the new nodes.
        bindings: the bindings of names, for the summary.
        members: the matched nodes.
        is_hidden: whether the match is in a loop or a branch, where nothing can be fetched.
        beyond: a bound of a clipping op that the numbers of the proof do not reach, or None.
        placed, tensors, text: see `gdsurgeon.patterns.terms.Replaced`.
    """

    rule: str
    roots: tuple[Output, ...]
    outcomes: dict[Node, str]
    anchor: list[Node]
    replacement: Replacement
    placed: tuple[str, ...]
    text: str
    members: set[Node]
    going: list[Node] = field(default_factory=list)
    reads: list[Output] = field(default_factory=list)
    bindings: dict[str, str] = field(default_factory=dict)
    is_hidden: bool = False
    beyond: float | None = None
    tensors: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class RewriteLog:
    """All changes of a graph.

    Attributes:
        graph: changed in place.
        made: new and changed nodes.
        replaced: the records of the replaced matches.
    """

    graph: Graph
    made: set[Node] = field(default_factory=set)
    replaced: list[Replaced] = field(default_factory=list)
    _sites: dict[str, tuple[PlannedRewrite, tuple[str, ...]]] = field(default_factory=dict)
    _changed: dict[Node, None] = field(default_factory=dict)
    _added: dict[Node, None] = field(default_factory=dict)
    _removed: list[Node] = field(default_factory=list)
    _stands: dict[Output, Output] = field(default_factory=dict)
    _read: dict[Node, tuple[Output, ...]] = field(default_factory=dict)

    def carry_out(self, planned: Sequence[PlannedRewrite], named: Collection[Node], rule: int, round_: int) -> None:
        """Replaces matches that do not overlap; `named` nodes stay even if they are unused."""
        unique = self.graph.unique_names()
        going: dict[Node, None] = {}
        loose: list[Node] = []
        for each in planned:
            for root in each.roots:
                if root.node not in self._added:
                    reads = tuple(read.name for read in each.reads)
                    is_there = all(read.node not in self._added for read in each.reads)
                    self._sites.setdefault(root.name, (each, reads if is_there else ()))
            loose += [read.node for node in (*each.outcomes, *each.going) for read in node.inputs]
            nodes = self._add(each, unique)
            going.update(dict.fromkeys((*self._put(each, nodes), *each.going)))
            made = tuple(nodes[new].name for new in each.replacement.nodes)
            self.replaced.append(Replaced(rule, round_, each.placed, each.tensors, each.text, made))
        drop_colocations(self.graph, going)
        self.remove(going)
        self.remove_loose(loose, named)

    def _put(self, each: PlannedRewrite, nodes: dict[New, Node]) -> list[Node]:
        """Replaces one match; returns the nodes of results that are unused then."""
        going = []
        for root, result in zip(each.roots, each.replacement.results, strict=True):
            new = self._settled(result, nodes)
            if each.outcomes[root.node] == IDENTITY:
                attrs = {"T": type_value(base_dtype(root.dtype)).SerializeToString(deterministic=True)}
                self.become(root.node, "Identity", [new], attrs)
            elif each.outcomes[root.node] == GONE:
                self._reroute(root, new)
                going.append(root.node)
        return going

    def _add(self, each: PlannedRewrite, unique: UniqueNames) -> dict[New, Node]:
        """Adds the nodes of a replacement; a node with the outcome `IN_PLACE` is the node of its result."""
        first = each.roots[0].node
        nodes: dict[New, Node] = {}
        for root, result in zip(each.roots, each.replacement.results, strict=True):
            if each.outcomes[root.node] == IN_PLACE and isinstance(result, NewOutput):
                nodes[result.node] = root.node
        for new in each.replacement.nodes:
            inputs = [self._settled(tensor, nodes) for tensor in new.inputs]
            if new in nodes:
                self.become(nodes[new], new.op, inputs, new.attrs)
                continue
            name = unique(f"{first.name}/{new.op}")
            controls = () if inputs else each.anchor
            node = self.graph.add(name, new.op, inputs, controls, attrs=new.attrs, device=first.device, after=first)
            nodes[new] = self.added(node)
        return nodes

    def added(self, node: Node) -> Node:
        """Records a new node; returns it."""
        self._added[node] = None
        self.made.add(node)
        return node

    def is_new(self, node: Node) -> bool:
        """Returns whether a node was added."""
        return node in self._added

    def _settled(self, tensor: Output | NewOutput, nodes: dict[New, Node]) -> Output:
        """Returns the current tensor of the graph."""
        return self.now(tensor) if isinstance(tensor, Output) else Output(nodes[tensor.node], tensor.index)

    def now(self, tensor: Output) -> Output:
        """Returns the tensor that replaces `tensor`, if it was removed."""
        while tensor in self._stands:
            tensor = self._stands[tensor]
        return tensor

    def become(self, node: Node, op: str, inputs: Sequence[Output], attrs: Mapping[str, bytes]) -> None:
        """Changes the op, the inputs and the attrs of a node; attrs that begin with an underscore are kept."""
        lost = dict.fromkeys(key for key in node.attr_keys if key in STALE or (key not in attrs and key[:1] != "_"))
        changed = {key: data for key, data in attrs.items() if node.attr_bytes(key) != data}
        self.graph.replace_op(node, op, inputs, lost | changed)
        for user in self.graph.users(node) if self.graph.is_body else ():
            self.graph.touch(user)  # its input names the output argument of the op
        self.made.add(node)
        if node not in self._added:
            self._changed[node] = None

    def _reroute(self, old: Output, new: Output) -> None:
        uses = self.graph.uses(old)
        for use in uses:
            self._read.setdefault(use.node, use.node.inputs)
        self.graph.reroute(uses, new)
        self._stands[old] = new

    # -- removal -------------------------------------------------------------------------------------------

    def remove(self, nodes: Iterable[Node]) -> None:
        """Removes nodes, which other nodes do not use."""
        going = list(nodes)
        self.graph.remove(going)
        for node in going:
            if node in self._added:
                del self._added[node]
            else:
                self._removed.append(node)
            self._changed.pop(node, None)
            self._read.pop(node, None)

    def remove_loose(self, nodes: Iterable[Node], named: Collection[Node]) -> None:
        """Removes those of `nodes` that are unused, and all upstream nodes that only they needed."""
        pending = list(dict.fromkeys(nodes))
        used: dict[Node, int] = {}  # counted once for each node, which can have very many users
        while pending:
            node = pending.pop()
            if node not in self.graph or node in named or not only_computes(node):
                continue
            if node not in used:
                used[node] = len(self.graph.users(node))
            if not used[node] and not self.graph.colocated_with(node):
                producers = dict.fromkeys([*(read.node for read in node.inputs), *node.controls])
                used.update((each, used[each] - 1) for each in producers if each in used)
                pending += producers
                self.remove([node])

    # -- results ------------------------------------------------------------------------------------------

    def intent(self) -> Intent:
        """Returns the changes."""
        rewired: list[Rewired] = []
        for node, was in self._read.items():
            if node not in self._changed and node not in self._added:
                slots = enumerate(zip(was, node.inputs, strict=True))
                rewired += [Rewired(node.name, i, old.name, new.name) for i, (old, new) in slots if old != new]
        return Intent(
            added=[node.name for node in self._added],
            removed=[node.name for node in self._removed],
            changed=[node.name for node in self._changed],
            rewired=rewired,
            moved={old.name: self.now(old).name for old in self._stands if old.node not in self._added},
        )

    def sites(self) -> list[Site]:
        """Returns where values changed, for tensors that exist in the file."""
        gone = {node.name for node in self._removed}
        moved = {tensor.name for tensor in self._stands}
        out: dict[PlannedRewrite, Site] = {}
        for each, reads in self._sites.values():
            pairs = [
                (root.name, self.now(root).name)
                for root in each.roots
                if root.name in self._sites and (root in self._stands or root.node.name not in gone)
            ]
            if pairs:  # constants may be removed
                there = [name for name in reads if name in moved or name.partition(":")[0] not in gone]
                out[each] = Site(tuple(there), tuple(pairs))
        return list(out.values())


OWN = Remark("it is a result of the rule", "own-result")
CLIPS = frozenset(("ClipByValue", "Maximum", "Minimum"))
ALREADY = Remark("it already equals its replacement", "unchanged")


class SkippedMatch(NamedTuple):
    """A match that stays: the node of its first result, and the reason."""

    rule: str
    node: Node
    why: Remark


class Round(NamedTuple):
    """The result of a round.

    Attributes:
        planned: the replacements.
        left: the skipped matches.
        named: nodes that stay even if they are unused.
        tried: the number of comparisons of terms with tensors.
    """

    planned: list[PlannedRewrite]
    left: list[SkippedMatch]
    named: set[Node]
    tried: int


def look(graph: Graph, rule: Rule, made: Container[Node], most: int | None = None, *, strict: bool = True) -> Round:
    """Returns what a rule does in one round; the graph is not changed.

    Args:
        graph: the graph.
        rule: the rule, with a replacement.
        made: nodes that the rule has made: a match of such nodes is replaced only by fewer nodes.
        most: the largest number of replacements, in topological order.
        strict: whether to raise an error if the replacement is wrong for all matches; otherwise matches are skipped.

    Raises:
        EditError, UsageError: the replacement is wrong for all matches.
    """
    return _Look(graph, rule, made, strict).round(most)


class _Look:
    def __init__(self, graph: Graph, rule: Rule, made: Container[Node], strict: bool) -> None:
        self.graph, self.rule, self.made, self.strict = graph, rule, made, strict
        self.topology = topology_of(graph)
        self.context = RewriteContext(graph, self.topology)
        self.matcher = Matcher(self.topology, rule, frozenset(map(self.topology.id_of, graph.ends)))
        self.planner = Planner(graph, rule.text, rule.place)
        self.shapes = ReplacedShapes(self.matcher.facts)

    def round(self, most: int | None) -> Round:
        roots, found = self.matcher.roots(), list[tuple[int, PlannedRewrite | Remark]]()
        if is_single := len(self.rule.pattern) == 1 and most is None:
            found = [(root, outcome) for root in roots if (outcome := self._at(root, ())) is not None]
        members = [node for _, each in found if isinstance(each, PlannedRewrite) for node in each.members]
        if not is_single or len(members) > len({*members}):
            found = sorted(self._in_order(roots, most), key=lambda each: each[0])
        return Round(
            [each for _, each in found if isinstance(each, PlannedRewrite)],
            [SkippedMatch(self.rule.name, self.topology.node(root), each)
             for root, each in found if isinstance(each, Remark)],
            self.context.named,
            self.matcher.tried,
        )  # fmt: skip

    def _in_order(self, roots: Sequence[int], most: int | None) -> Iterator[tuple[int, PlannedRewrite | Remark]]:
        """Yields the outcome at each root in topological order; no match contains a node of an earlier one."""
        count, taken = 0, set[int]()
        for root in sorted(roots, key=self.context.levels.__getitem__):  # nodes of equal level stay in file order
            if count == most:
                return
            outcome = None if root in taken else self._at(root, taken)
            if outcome is None and taken and next(self.matcher.ways(root), None) is not None:
                is_done = root in taken and len(self.rule.pattern) > 1
                outcome = None if is_done else Remark("it shares nodes with a match that is replaced", "overlaps")
            if isinstance(outcome, PlannedRewrite):
                count += 1
                taken.update(map(self.topology.id_of, outcome.members))
            if outcome:
                yield root, outcome

    def _at(self, root: int, taken: Container[int]) -> PlannedRewrite | Remark | None:
        """Returns the replacement at a node, or the reason why its match is skipped; None if the pattern does not
        match.
        """
        why: Remark | None = None
        for match in islice(self.matcher.ways(root, taken), MOST_WAYS):
            try:
                return self._planned(match)
            except Unfit as error:
                why = why or error.why
            except (EditError, UsageError) as error:
                if self.strict:
                    raise
                why = why or Remark(error.message, error.code, **error.facts)
        return why

    # -- one match -------------------------------------------------------------------------------------------

    def _planned(self, match: Match) -> PlannedRewrite:
        """Returns the replacement of a match. Raises Unfit with the reason why the match is skipped."""
        terms, planner, text = self.rule.replacement, self.planner, None
        if terms is None:
            text = self.rule.make(match) if self.rule.make is not None else None
            if text is None:
                raise Unfit(Remark("the rule declines it", "rule-leaves"))
            terms, planner = replacement_of(self.rule, text), Planner(self.graph, text, "replacement, column ")
        affected = Affected.of(match, terms)
        if why := self.context.why_not(affected):
            raise Unfit(why)
        replacement = planner.plan(terms, match)
        outcomes, members = dict(self._outcomes(match.roots, replacement)), {*match.placed.values()}
        inside = affected.changing
        if all(node in self.made for node in members) and len(affected.changing) <= len(replacement.nodes):
            raise Unfit(OWN)
        ops = [term for root in self.rule.pattern for term in walk(root) if isinstance(term, Op)]
        if why := self.shapes.why_not(self.rule, match, replacement) or _lost_setting(ops, match, replacement):
            raise Unfit(why)
        return PlannedRewrite(
            self.rule.name,
            match.roots,
            outcomes,
            self.context.anchor(affected),
            replacement,
            tuple(match.placed[op].name if op in match.placed else "" for op in ops),
            text or "",
            members,
            affected.going,
            list(dict.fromkeys(read for node in inside for read in node.inputs if read.node not in inside)),
            told_bindings(match),
            not self.context.runs_once(affected.ends[0]),
            self._beyond(match),
            {name: tensor.name for name, tensor in match.tensors.items()},
        )

    def _beyond(self, match: Match) -> float | None:
        """Returns a bound by which a match clips if the numbers of the proof do not reach it."""
        for read in (read for node in match.placed.values() if node.op in CLIPS for read in node.inputs):
            held = self.matcher.facts.value(self.topology.code(read))
            for value in held.values if held is not None and len(held.values) <= MOST_EQUAL else ():
                if isinstance(value, float) and LARGEST_FED <= abs(value) < inf:
                    return value
        return None

    def _outcomes(self, roots: Sequence[Output], replacement: Replacement) -> Iterator[tuple[Node, str]]:
        """Yields what happens to the nodes of the results. Raises Unfit if a name would be lost."""
        results: dict[Node, list[tuple[int, Output | NewOutput]]] = {}
        for root, result in zip(roots, replacement.results, strict=True):
            results.setdefault(root.node, []).append((root.index, result))
        owners: set[object] = set()
        for node, given in results.items():
            new = {result.node for _, result in given if isinstance(result, NewOutput)}
            is_same = all(isinstance(result, NewOutput) and result.index == port for port, result in given)
            if is_same and len(new) == 1 and owners.isdisjoint(new):
                owners |= new
                if _is_already(node, replacement):
                    raise Unfit(ALREADY)
                yield node, IN_PLACE
            elif self.context.is_free(node):
                yield node, GONE
            elif len(given) == 1 and given[0][0] == 0:
                if node.op == "Identity" and list(node.inputs) == [given[0][1]]:
                    text = f"{quoted(node.name)} keeps its name, because it is an output or has control outputs"
                    raise Unfit(Remark(text, "name-stays", node=node.name))
                yield node, IDENTITY
            else:
                text = f"{quoted(node.name)} is an output and would lose its name"
                raise Unfit(Remark(text, "name-lost", node=node.name))


def _is_already(node: Node, replacement: Replacement) -> bool:
    """Returns whether a node equals its replacement."""
    if len(replacement.nodes) != 1 or replacement.nodes[0].op != node.op:
        return False
    new = replacement.nodes[0]
    attrs = {key: node.attr_bytes(key) for key in node.attr_keys if not key.startswith("_")}
    return list(node.inputs) == new.inputs and attrs == new.attrs


def _lost_setting(ops: Sequence[Op], match: Match, replacement: Replacement) -> Remark | None:
    """Returns a reason if a new node with the op of a result would lose an attr value not mentioned in the rule."""
    asked = {(op, test.key) for term in ops for op in term.ops for test in term.attrs}
    for root in match.roots:
        for new in replacement.nodes:
            if new.op != root.node.op or new.op == "Const":
                continue
            for attr in new.definition.attrs.values():
                held = root.node.attr_bytes(attr.name)
                is_said = attr.name in new.attrs or (new.op, attr.name) in asked
                if held is None or is_said or not attr.has_default or same_value(held, attr):
                    continue
                text = f"{quoted(root.name)} has {attr.name}, but a new {printable(new.op)} would have the default:"
                text += " {=n} copies the attrs of node n"
                return Remark(text, "loses-attr", node=root.node.name, op=new.op, attr=attr.name)
    return None


def told_bindings(match: Match) -> dict[str, str]:
    """Returns the bindings of names as texts."""
    from gdsurgeon.analysis.queries.attr_text import format_attr
    from gdsurgeon.graph.attrs import attr_value

    out = {f"${name}": tensor.name for name, tensor in match.tensors.items()}
    out |= {label: node.name for label, node in match.nodes.items()}
    return out | {f"${name}": format_attr(attr_value(data)) for name, data in match.attrs.items()}
