"""One round of a rule over a graph: all matches that do not overlap, and why the others stay."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf

from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.edits.rewriting.carrying_out import GONE, IDENTITY, IN_PLACE, Planned
from gdsurgeon.edits.rewriting.ground import BITS, CONTROL, Ground, Place, codes_read, kept_terms
from gdsurgeon.edits.rewriting.matching import MOST_WAYS, Matcher
from gdsurgeon.edits.rewriting.planning import NewOutput, Planner, Replacement, Unfit
from gdsurgeon.edits.rewriting.searching import Found
from gdsurgeon.edits.rewriting.shapes import ReplacedShapes
from gdsurgeon.edits.sites import LARGEST_FED
from gdsurgeon.errors import EditError, Remark, UsageError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.patterns.attrs import same_value
from gdsurgeon.patterns.check import replacement_of
from gdsurgeon.patterns.terms import MOST_EQUAL, Match, Op, Rule, walk

OWN = Remark("it is a result of the rule", "own-result")
CLIPS = frozenset(("ClipByValue", "Maximum", "Minimum"))
ALREADY = Remark("it already equals its replacement", "unchanged")


@dataclass(eq=False)
class Left:
    """A match that stays as it is: the node of its first result, and why."""

    rule: str
    node: Node
    why: Remark


@dataclass(eq=False)
class Round:
    """What a round has found.

    Attributes:
        planned: what is to be done.
        left: what stays.
        named: nodes that stay although nobody reads them.
        tried: how often a term was held against a tensor.
    """

    planned: list[Planned] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    named: set[Node] = field(default_factory=set)
    tried: int = 0


def look(graph: Graph, rule: Rule, made: Container[Node], most: int | None = None, *, strict: bool = True) -> Round:
    """What RULE does with GRAPH, which stays as it is.

    Args:
        graph: in which matches are looked for.
        rule: with what takes their place.
        made: nodes that the rule has made before: what consists of these alone is replaced only by less.
        most: matches that are replaced at most, in topological order.
        strict: whether it is an error that a replacement fits no match whatever; else such matches stay.

    Raises:
        EditError, UsageError: the replacement fits no match whatever.
    """
    return _Look(graph, rule, made, strict).round(most)


class _Look:
    def __init__(self, graph: Graph, rule: Rule, made: Container[Node], strict: bool) -> None:
        self.graph, self.rule, self.made, self.strict = graph, rule, made, strict
        self.topology = topology_of(graph)
        self.ground = Ground(graph, self.topology)
        self.matcher = Matcher(self.topology, rule, self.ground.ends)
        self.planner = Planner(graph, rule.text, rule.place)
        self.shapes = ReplacedShapes(self.matcher.facts)

    def round(self, most: int | None) -> Round:
        out = Round(named={self.topology.node(number) for number in self.ground.named | self.ground.ends})
        roots = self.matcher.roots()
        found: list[tuple[int, Planned | Remark]] = []
        taken: set[int] = set()
        if len(self.rule.pattern) == 1 and most is None:
            found = [(root, outcome) for root in roots if (outcome := self._at(root, ())) is not None]
            if not self._overlap(found):
                roots = []
        if roots:
            found = list(self._in_order(roots, taken, most))
        for root, outcome in sorted(found, key=lambda each: each[0]):
            if isinstance(outcome, Planned):
                out.planned.append(outcome)
            else:
                out.left.append(Left(self.rule.name, self.topology.node(root), outcome))
        out.tried = self.matcher.tried
        return out

    def _overlap(self, found: Sequence[tuple[int, Planned | Remark]]) -> bool:
        """Whether a node is part of two of the matches that would be replaced."""
        seen: set[Node] = set()
        for _, outcome in found:
            if isinstance(outcome, Planned):
                if not seen.isdisjoint(outcome.members):
                    return True
                seen |= outcome.members
        return False

    def _in_order(
        self, roots: Sequence[int], taken: set[int], most: int | None
    ) -> Iterator[tuple[int, Planned | Remark]]:
        """One match after the other, producers first; none has a node of one before."""
        count = 0
        for root in sorted(roots, key=self.ground.place_in_order):
            if count == most:
                return
            outcome = None if root in taken else self._at(root, taken)
            if outcome is None and taken and next(self.matcher.ways(root), None) is not None:
                is_done = root in taken and len(self.rule.pattern) > 1
                outcome = None if is_done else Remark("it shares nodes with a match that is replaced", "overlaps")
            if isinstance(outcome, Planned):
                count += 1
                taken.update(self.topology.id_of(node) for node in outcome.members)
            if outcome:
                yield root, outcome

    def _at(self, root: int, taken: Container[int]) -> Planned | Remark | None:
        """What is done at a node, or why nothing is although the pattern matches; None where it does not."""
        why: Remark | None = None
        for found in islice(self.matcher.ways(root, taken), MOST_WAYS):
            outcome = self._planned(found)
            if isinstance(outcome, Planned):
                return outcome
            why = why or outcome
        return why

    # -- one match -------------------------------------------------------------------------------------------

    def _planned(self, found: Found) -> Planned | Remark:
        try:
            return self._checked(found)
        except Unfit as error:
            return error.why
        except (EditError, UsageError) as error:
            if self.strict:
                raise
            return Remark(error.message, error.code, **error.facts)

    def _checked(self, found: Found) -> Planned | Remark:
        """What is done with a match. Raises Unfit: nothing, as the message says."""
        match = match_of(self.topology, self.rule, found)
        terms, planner, text = self.rule.replacement, self.planner, None
        if terms is None:
            text = self.rule.make(match) if self.rule.make is not None else None
            if text is None:
                return Remark("the rule declines it", "rule-leaves")
            terms, planner = replacement_of(self.rule, text), Planner(self.graph, text, "replacement, column ")
        place = self.ground.place(self.rule, found, kept_terms(self.rule, terms))
        read = codes_read(self.topology, found, terms)
        why = self.ground.why_not(place, read)
        if why:
            return why
        roots = tuple(Output(self.topology.node(number), port) for number, port in place.roots)
        replacement = planner.plan(terms, match, roots)
        fates = dict(self._fates(roots, replacement))
        members = {self.topology.node(number) for number in found.members()}
        going = [self.topology.node(number) for number in place.going]
        if all(node in self.made for node in members) and len(going) + len(fates) <= len(replacement.nodes):
            return OWN
        why = self.shapes.why_not(self.rule, found, match, replacement) or self._lost_setting(match, replacement)
        if why:
            return why
        return Planned(
            rule=self.rule.name,
            roots=roots,
            fates=fates,
            going=going,
            reads=self._reads(place),
            anchor=self._anchor(place, read),
            replacement=replacement,
            bindings=told_bindings(match),
            members=members,
            is_hidden=not self.ground.runs_once(place.roots[0][0]),
            beyond=self._beyond(found),
            placed=tuple(
                self._name(found, term) for root in self.rule.pattern for term in walk(root) if isinstance(term, Op)
            ),
            tensors={name: tensor.name for name, tensor in match.tensors.items()},
            text=text or "",
        )

    def _name(self, found: Found, term: Op) -> str:
        return self.topology.name(found.placed[term]) if term in found.placed else ""

    def _lost_setting(self, match: Match, replacement: Replacement) -> Remark | None:
        """That a new node of the op of a result would have a default where that has another value, unasked."""
        terms = [term for root in self.rule.pattern for term in walk(root) if isinstance(term, Op)]
        asked = {(op, test.key) for term in terms for op in term.ops for test in term.attrs}
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

    def _beyond(self, found: Found) -> float | None:
        """By what a match clips that is beyond the numbers that it is run on."""
        for number in found.members():
            for code in self.topology.inputs(number) if self.topology.op(number) in CLIPS else ():
                held = self.matcher.facts.value(code) if code & CONTROL != CONTROL else None
                for value in held.values if held is not None and len(held.values) <= MOST_EQUAL else ():
                    if isinstance(value, float) and LARGEST_FED <= abs(value) < inf:
                        return value
        return None

    def _reads(self, place: Place) -> list[Output]:
        """The tensors that what is replaced reads from outside of it."""
        inside = place.found.members() - place.kept
        codes = dict.fromkeys(
            code
            for number in inside
            for code in self.topology.inputs(number)
            if code & CONTROL != CONTROL and code >> BITS not in inside
        )
        return [_output(self.topology, code) for code in codes]

    def _anchor(self, place: Place, read: Sequence[int]) -> list[Node]:
        number = self.ground.anchor(place, read)
        return [] if number is None else [self.topology.node(number)]

    def _fates(self, roots: Sequence[Output], replacement: Replacement) -> Iterator[tuple[Node, str]]:
        """What becomes of the nodes that give results. Raises Unfit: a name would be lost."""
        results: dict[Node, list[tuple[int, Output | NewOutput]]] = {}
        for root, result in zip(roots, replacement.results, strict=True):
            results.setdefault(root.node, []).append((root.index, result))
        owners: set[object] = set()
        for node, given in results.items():
            new = {result.node for _, result in given if isinstance(result, NewOutput)}
            is_same = all(isinstance(result, NewOutput) and result.index == port for port, result in given)
            if is_same and len(new) == 1 and owners.isdisjoint(new):
                owners |= new
                if self._is_already(node, replacement):
                    raise Unfit(ALREADY)
                yield node, IN_PLACE
            elif self.ground.is_free(self.topology.id_of(node)):
                yield node, GONE
            elif len(given) == 1 and given[0][0] == 0:
                if node.op == "Identity" and list(node.inputs) == [given[0][1]]:
                    text = f"{quoted(node.name)} keeps its name, because it is an output or has control outputs"
                    raise Unfit(Remark(text, "name-stays", node=node.name))
                yield node, IDENTITY
            else:
                text = f"{quoted(node.name)} is an output and would lose its name"
                raise Unfit(Remark(text, "name-lost", node=node.name))

    @staticmethod
    def _is_already(node: Node, replacement: Replacement) -> bool:
        """Whether a node is what would take its place."""
        if len(replacement.nodes) != 1 or replacement.nodes[0].op != node.op:
            return False
        new = replacement.nodes[0]
        attrs = {key: node.attr_bytes(key) for key in node.attr_keys if not key.startswith("_")}
        return list(node.inputs) == new.inputs and attrs == new.attrs


def match_of(topology: Topology, rule: Rule, found: Found) -> Match:
    """FOUND, in nodes and tensors."""
    tensors = {name: _output(topology, code) for name, code in found.tensors.items()}
    nodes = {label: topology.node(number) for label, number in found.nodes.items()}
    roots = [Output(topology.node(found.root(term)), term.port) for term in rule.pattern]
    return Match(tensors, nodes, found.attrs, tuple(roots))


def _output(topology: Topology, code: int) -> Output:
    return Output(topology.node(code >> BITS), code & CONTROL)


def told_bindings(match: Match) -> dict[str, str]:
    """What names stand for, to be told."""
    from gdsurgeon.analysis.queries.attr_text import format_attr
    from gdsurgeon.graph.attrs import attr_value

    out = {f"${name}": tensor.name for name, tensor in match.tensors.items()}
    out |= {label: node.name for label, node in match.nodes.items()}
    return out | {f"${name}": format_attr(attr_value(data)) for name, data in match.attrs.items()}
