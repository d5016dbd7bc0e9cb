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
            a graph, whose placeholders have the names of variables, and whose outputs are the results: it becomes a
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
        found = _last_round(log, rule, number, limit, replaced)
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
) -> tuple[list[Rule], FunctionDef | None]:
    """Returns the rules, checked for the graph, and the function that they call if the replacement is a graph."""
    function = None
    if isinstance(pattern, str):
        is_whole = replacement is None or isinstance(replacement, str)
        text = f"{pattern} -> {replacement}" if isinstance(replacement, str) else pattern
        rules = [rule_of(text, name="rule", only_pattern=not is_whole)]
    else:
        rules = list(pattern)
    if isinstance(replacement, Graph):
        if graph.is_body:
            message = "a graph can replace nodes only in the model, not in one of its functions"
            raise EditError(message, code="in-function")
        function = function_of(replacement)
        name = function.signature.name
        if name in graph.functions:
            message = f"the function {quoted(name)} exists already"
            raise EditError(message, code="name-taken", function=name)
        rules = [calling(rule, replacement, function) for rule in rules]
    elif replacement is not None and not isinstance(pattern, str):
        message = "rules already have replacements: a replacement cannot be given with them"
        raise EditError(message, code="conflicting-options")
    elif callable(replacement):
        rules = [replace(rule, make=replacement) for rule in rules]
    for rule in rules:
        check_terms(graph, rule)
    return rules, function


_ENDLESS = f"still matches after {MOST_ROUNDS} rounds: its replacement matches its own pattern"


def _last_round(log: RewriteLog, rule: Rule, number: int, limit: int | None, replaced: list[PlannedRewrite]) -> Round:
    """Applies a rule until no match can be replaced, or for `MOST_ROUNDS`; returns the first round that is not
    carried out.
    """
    for round_ in range(MOST_ROUNDS + 1):
        most = None if limit is None else limit - len(replaced)
        found = look(log.graph, rule, log.made, most, strict=not replaced)
        if not found.planned or round_ == MOST_ROUNDS:
            break
        log.carry_out(found.planned, found.named, number, round_)
        replaced += found.planned
    return found


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
        details = tuple(first_lines([f"{quoted(each.node.name)}: {each.why}" for each in left], MOST_TOLD))
        message = f"{len(left):,} match{'es' * (len(left) != 1)}, but none can be replaced:"
        return EditError(message, code="nothing-replaced", left=[_left(each) for each in left], details=details)
    ops = topology_of(graph).ops()
    terms = (term for rule in rules for root in rule.pattern for term in walk(root) if isinstance(term, Op))
    needed = dict.fromkeys(term.ops[0] for term in terms if len(term.ops) == 1 and not term.optional)
    missing = [op for op in needed if op not in ops]
    near = nearest(missing[0], ops) if len(missing) == 1 else None
    why = f": the graph has none of {named(missing)}" if missing else ""
    if len(missing) == 1:
        why = f": the graph has no {printable(missing[0])}.{suggestion(near)}"
    message = f"no nodes of {printable(graph.source_name)} match{why}"
    return EditError(message, code="nothing-matched", missing_ops=[*missing], near=near)


def _notes(replaced: Sequence[PlannedRewrite]) -> list[str]:
    """Returns notes about replacements that cannot be compared in isolation."""
    hidden = sum(each.is_hidden for each in replaced)
    where = "is in a loop or a branch" if hidden == 1 else "are in loops or branches"
    out: list[str] = []
    if hidden:
        text = f"{hidden:,} of {len(replaced):,} {where}, and cannot be compared in isolation"
        out.append(Remark(f"{text}: only the outputs are compared", "not-in-isolation", count=hidden))
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
