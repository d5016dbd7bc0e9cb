"""rewrite: replaces the nodes that match a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import public
from gdsurgeon.edits.claims import EditResult, site_claims
from gdsurgeon.edits.decorator import edit
from gdsurgeon.edits.rewriting.matching import Matcher
from gdsurgeon.edits.rewriting.planning import calling, check_pattern, check_terms, function_of
from gdsurgeon.edits.rewriting.rounds import (
    ALREADY,
    OWN,
    PlannedRewrite,
    RewriteLog,
    Round,
    SkippedMatch,
    look,
    told_bindings,
)
from gdsurgeon.errors import EditError, Json, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.patterns.parse import rule_of
from gdsurgeon.patterns.terms import Maker, Match, Op, Rule, walk
from gdsurgeon.text import Entry, and_more, first_lines, named, nearest, suggestion
from gdsurgeon.values import Tolerance
from gdsurgeon.wire.protos import FunctionDef

MOST_ROUNDS = 16
"""The largest number of rounds of a rule: its replacement may match again."""
OF_LARGEST = 1e-4
"""The default tolerance: max |a - b| / max |a| of each tensor."""
MOST_TOLD = 8


@edit()
def rewrite(
    graph: Graph,
    pattern: str | Sequence[Rule],
    replacement: str | Maker | Graph | None = None,
    *,
    limit: int | None = None,
    of_largest: float = OF_LARGEST,
) -> EditResult:
    """Replaces the nodes that match a pattern, until no match can be replaced.

    A match is skipped if an inner node has other consumers or control edges, is an output, or is in a different loop or
    branch; the nodes of results keep their names. If matches overlap, the first one in topological order is replaced.
    Nodes that a rule has made are replaced again only by fewer nodes.

    Args:
        graph: changed in place.
        pattern: a rule, ``PATTERN -> REPLACEMENT``, or a pattern; or rules, which are applied in order.
        replacement: for a pattern: a text; a function from a `Match` to a text (or to None, which skips the match); or
            a
            graph, whose placeholders have the names of variables, and whose outputs are the results: it becomes a
            function, and each match becomes a call.
        limit: the largest number of replaced matches of all rules.
        of_largest: the largest max |a - b| / max |a| of a result; the proof compares the values.

    Raises:
        UsageError: a rule is not valid; the message gives the column.
        EditError: nothing matches, no match can be replaced, or the replacement is not valid; the graph is unchanged.
        NothingToDo: each match already equals its replacement.
    """
    rules, function = _rules_and_function(graph, pattern, replacement)
    topology = topology_of(graph)
    topology.check_reads(topology.numbers())
    log = RewriteLog(graph)
    replaced, left, endless = list[PlannedRewrite](), list[SkippedMatch](), list[str]()
    for number, rule in enumerate(rules):
        log.made = set()
        *_, found = _to_the_end(log, rule, number, limit, replaced)
        left += [each for each in found.left if each.why != ALREADY or each.node not in log.made]
        if found.planned:
            endless.append(rule.name)
    if not replaced:
        raise _nothing(graph, rules, left)
    intent = log.intent()
    if function is not None:
        graph.functions.add(function)
        intent.functions.added.append(function.signature.name)
    return EditResult(
        intent,
        site_claims(log.sites(), Tolerance(of_largest=of_largest)),
        [Remark(f"the rule {printable(name)} {_ENDLESS}", "endless", rule=name) for name in endless],
        _notes(replaced),
        told=list(_told(rules, replaced, left)),
        facts=_facts(replaced, left),
        decided={"replaced": log.replaced},
    )


def _rules_and_function(
    graph: Graph, pattern: str | Sequence[Rule], replacement: str | Maker | Graph | None
) -> tuple[Sequence[Rule], FunctionDef | None]:
    """Returns the rules, checked for the graph, and the function that they call if the replacement is a graph."""
    rules = _rules(pattern, replacement)
    function = _function(graph, replacement) if isinstance(replacement, Graph) else None
    if isinstance(replacement, Graph) and function is not None:
        rules = [calling(rule, replacement, function) for rule in rules]
    for rule in rules:
        check_terms(graph, rule)
    return rules, function


_ENDLESS = f"still matches after {MOST_ROUNDS} rounds: its replacement matches its own pattern"


def _function(graph: Graph, body: Graph) -> FunctionDef | None:
    """Returns `body` as a new function of `graph`."""
    if graph.is_body:
        raise EditError("a graph can replace nodes only in the model, not in one of its functions", code="in-function")
    function = function_of(body)
    if function.signature.name in graph.functions:
        name = function.signature.name
        raise EditError(f"the function {quoted(name)} exists already", code="name-taken", facts={"function": name})
    return function


def _rules(pattern: str | Sequence[Rule], replacement: str | Maker | Graph | None) -> list[Rule]:
    if isinstance(replacement, Graph):
        return [rule_of(pattern, name="rule", only_pattern=True)] if isinstance(pattern, str) else list(pattern)
    if not isinstance(pattern, str):
        if replacement is not None:
            raise EditError(
                "rules already have replacements: a replacement cannot be given with them", code="conflicting-options"
            )
        return list(pattern)
    if replacement is None:
        return [rule_of(pattern, name="rule")]
    if isinstance(replacement, str):
        return [rule_of(f"{pattern} -> {replacement}", name="rule")]
    return [replace(rule_of(pattern, name="rule", only_pattern=True), make=replacement)]


def _to_the_end(
    log: RewriteLog, rule: Rule, number: int, limit: int | None, replaced: list[PlannedRewrite]
) -> Iterator[Round]:
    """Applies a rule until no match can be replaced; yields each round, and the last one changed nothing."""
    for round_ in range(MOST_ROUNDS):
        most = None if limit is None else limit - len(replaced)
        found = look(log.graph, rule, log.made, most, strict=not replaced)
        yield found
        if not found.planned:
            return
        log.carry_out(found.planned, found.named, number, round_)
        replaced += found.planned
    yield look(log.graph, rule, log.made, None if limit is None else limit - len(replaced), strict=False)


@public
def matches(graph: Graph, pattern: str | Rule) -> Iterator[Match]:
    """Yields the matches of a pattern: for each node of its first result, the first way in which it matches.

    Args:
        graph: not changed.
        pattern: a pattern, or a rule, whose pattern is used.

    Raises:
        UsageError: the pattern is not valid; the message gives the column.
        EditError: an op lacks an attr that the pattern mentions.
    """
    rule = rule_of(pattern, name="rule", only_pattern=True) if isinstance(pattern, str) else pattern
    check_pattern(graph, rule)
    topology = topology_of(graph)
    matcher = Matcher(topology, rule, frozenset(map(topology.id_of, graph.ends)))
    return (match for root in matcher.roots() for match in islice(matcher.ways(root), 1))


class Listed(NamedTuple):
    """A match in a list.

    Attributes:
        rule: the name of the rule.
        nodes: the tensors of the results.
        bindings: the bindings of names.
        why: the reason why the rule skips it, a `Remark`; '' if it does not.
    """

    rule: str
    nodes: tuple[str, ...]
    bindings: dict[str, str]
    why: str = ""


def listed(graph: Graph, rules: Sequence[Rule]) -> Iterator[Listed]:
    """Yields the matches of `rules` in a graph, which is not changed; each rule is applied separately.

    Raises:
        EditError, UsageError: a replacement is not valid.
    """
    for rule in rules:
        if rule.replacement is None and rule.make is None:
            for match in matches(graph, rule):
                yield Listed(rule.name, tuple(root.name for root in match.roots), told_bindings(match))
            continue
        check_terms(graph, rule)
        found = look(graph, rule, ())
        for each in found.planned:
            yield Listed(rule.name, tuple(root.name for root in each.roots), each.bindings)
        for left in found.left:
            yield Listed(rule.name, (left.node.name,), {}, left.why)


# -- the summary -----------------------------------------------------------------------------------------------


def _nothing(graph: Graph, rules: Sequence[Rule], left: Sequence[SkippedMatch]) -> EditError:
    """Returns the error for rules that changed nothing."""
    if left and all(each.why in (OWN, ALREADY) for each in left):
        return NothingToDo("nothing would change: every match already equals its replacement")
    if left:
        details = first_lines([f"{quoted(each.node.name)}: {each.why}" for each in left], MOST_TOLD)
        return EditError(
            f"{len(left):,} match{'es' * (len(left) != 1)}, but none can be replaced:",
            code="nothing-replaced",
            facts={"left": [_left(each) for each in left]},
            details=tuple(details),
        )
    ops = topology_of(graph).ops()
    missing = [op for rule in rules for op in _needed_ops(rule) if op not in ops]
    name = printable(graph.source_name)
    missing = list(dict.fromkeys(missing))
    near = nearest(missing[0], ops) if len(missing) == 1 else None
    why = _why_not(missing, near)
    facts: dict[str, Json] = {"missing_ops": missing, "near": near}
    return EditError(f"no nodes of {name} match{why}", code="nothing-matched", facts=facts)


def _why_not(missing: list[str], near: str | None) -> str:
    """Returns a text about the ops that rules need and the graph lacks."""
    if len(missing) == 1:
        return f": the graph has no {printable(missing[0])}.{suggestion(near)}"
    return f": the graph has none of {named(missing)}" if missing else ""


def _needed_ops(rule: Rule) -> Iterator[str]:
    """Yields the ops without which a pattern cannot match."""
    for root in rule.pattern:
        for term in walk(root):
            if isinstance(term, Op) and len(term.ops) == 1 and not term.optional:
                yield term.ops[0]


def _notes(replaced: Sequence[PlannedRewrite]) -> list[str]:
    """Returns notes about replacements that cannot be compared in isolation."""
    hidden = sum(each.is_hidden for each in replaced)
    where = "is in a loop or a branch" if hidden == 1 else "are in loops or branches"
    out: list[str] = []
    if hidden:
        text = (
            f"{hidden:,} of {len(replaced):,} {where}, and cannot be compared in isolation: only the "
            "outputs are compared"
        )
        out.append(Remark(text, "not-in-isolation", count=hidden))
    beyond = {each.beyond: each.roots[0].name for each in replaced if each.beyond is not None}
    for value, name in list(beyond.items())[:MOST_TOLD]:
        text = f"{quoted(name)} clips at {value:g}, which the values of its isolated run do not reach"
        out.append(Remark(text, "clips-beyond", tensor=name, value=value))
    return out


def _told(rules: Sequence[Rule], replaced: Sequence[PlannedRewrite], left: Sequence[SkippedMatch]) -> Iterator[Entry]:
    counts = Counter(each.rule for each in replaced)
    for rule in rules:
        if counts[rule.name]:
            name = f"{rule.name}: " if len(rules) > 1 else ""
            yield Entry("replaced", f"{name}{counts[rule.name]:,} match{'es' * (counts[rule.name] != 1)}")
    whys = Counter(each.why for each in left)
    first = {each.why: each.node.name for each in reversed(left)}
    for why, count in whys.most_common():
        yield Entry("skipped", f"{quoted(first[why])}{and_more(count - 1)}: {why}")


def _facts(replaced: Sequence[PlannedRewrite], left: Sequence[SkippedMatch]) -> dict[str, Json]:
    return {
        "replaced": [
            {"rule": each.rule, "nodes": [root.name for root in each.roots], "bindings": each.bindings}
            for each in replaced
        ],
        "left": [_left(each) for each in left],
    }


def _left(each: SkippedMatch) -> dict[str, Json]:
    why = each.why
    return {"rule": each.rule, "node": each.node.name, "why": str(why), "code": why.code, "facts": why.facts}
