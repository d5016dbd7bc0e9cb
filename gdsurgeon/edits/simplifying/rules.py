"""Rules that replace the result of a match by one of its own tensors; see `gdsurgeon.patterns.exact`."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.edits.simplifying.graph_view import BITS, CONTROL, GraphView, Pass
from gdsurgeon.graph.constants import Constant
from gdsurgeon.ops.kinds import COMMUTATIVE
from gdsurgeon.patterns.exact import Bound, ExactRule, is_literal, rules_by_op
from gdsurgeon.patterns.terms import AttrVariable, Op, Term, Value, Variable


class Match:
    """A match of an exact rule at a node of a view.

    Attributes:
        tensors: the codes of variables, by name.
        nodes: the matched nodes with labels.
        others: the codes of constants and variables that are not needed to compute the tensor that is kept.
    """

    def __init__(self, view: GraphView, rule: ExactRule) -> None:
        self._view, self._rule = view, rule
        self.tensors: dict[str, int] = {}
        self.others: list[int] = []
        self.nodes: dict[str, int] = {}
        self._attrs: dict[str, object] = {}

    def kept(self, number: int) -> int | None:
        """Returns the tensor that replaces the result of a node; None if the rule does not match there."""
        if not self._holds(self._rule.pattern, number << BITS, False):
            return None
        condition, name = self._rule.condition, self._rule.kept
        bound = Bound(
            lambda variable: self._view.constant(self.tensors[variable]),
            self._attrs,
            lambda label, key: self._view.topology.node(self.nodes[label]).setting(key),
        )
        if condition is not None and not condition(bound):
            return None
        return self.tensors[name] if name in self.tensors else self.nodes[name] << BITS

    def _holds(self, term: Term, code: int, is_kept: bool) -> bool:
        """Returns whether a term matches a tensor; `is_kept`: the tensor that is kept depends on it."""
        if isinstance(term, Op):
            return self._is_op(term, code, is_kept)
        if isinstance(term, Variable):
            is_kept = is_kept or term.name == self._rule.kept
            known = self.tensors.setdefault(term.name, code)
            if not self._is_kind(term, code) or (known != code and not self._is_equal(known, code)):
                return False
        elif not isinstance(term, Value) or not is_literal(self._view.constant(code, only_scalar=True), term):
            return False
        if not is_kept:
            self.others.append(code)
        return True

    def _is_op(self, term: Op, code: int, is_kept: bool) -> bool:
        view, number = self._view, code >> BITS
        is_inner = term is not self._rule.pattern
        if code & CONTROL or view.ops[number] not in term.ops or (is_inner and number in view.waiting):
            return False
        reads, terms = view.data(number), term.inputs or ()
        if len(reads) != len(terms) or not self._has_attrs(term, number):
            return False
        if term.label:
            self.nodes[term.label] = number
        is_kept = is_kept or (bool(term.label) and term.label == self._rule.kept)
        if len(terms) != 2 or view.ops[number] not in COMMUTATIVE:
            return self._all_hold(terms, reads, is_kept)
        was = dict(self.tensors), list(self.others)
        if self._all_hold(terms, reads, is_kept):
            return True
        self.tensors, self.others = was
        return self._all_hold(terms, reads[::-1], is_kept)

    def _all_hold(self, terms: Sequence[Term], reads: Sequence[int], is_kept: bool) -> bool:
        for term, code in zip(terms, reads, strict=True):  # noqa: SIM110  # faster
            if not self._holds(term, code, is_kept):
                return False
        return True

    def _has_attrs(self, term: Op, number: int) -> bool:
        for test in term.attrs:
            found: object = self._view.topology.node(number).setting(test.key)
            wanted: object = test.value
            if isinstance(wanted, AttrVariable):
                wanted = self._attrs.setdefault(wanted.name, found)
            if found is None or found != wanted:
                return False
        return True

    def _is_kind(self, term: Variable, code: int) -> bool:
        if not term.kind:
            return True
        value = self._view.constant(code)
        if value is None or (term.dims is not None and value.shape != term.dims):
            return False
        if term.bounds is None:
            return term.kind == "const" or not value.shape
        low, high = term.bounds
        return all(not isinstance(item, bytes) and low <= item <= high for item in value.values)

    def _is_equal(self, one: int, other: int) -> bool:
        """Returns whether two tensors are constants with the same bits."""
        a, b = self._view.constant(one), self._view.constant(other)
        return a is not None and b is not None and _bits(a) == _bits(b)


def _bits(value: Constant) -> tuple[object, ...]:
    return value.dtype, value.shape, *map(repr, value.values)


def by_rules(names: Sequence[str]) -> Pass:
    """Returns the pass that applies the rules of the passes `names`."""
    rules = rules_by_op(names)
    reach = max((rule.depth for each in rules.values() for rule in each), default=1)

    def run(view: GraphView) -> None:
        replaced: dict[int, str] = {}
        for number in view.dirty_nodes("rules", rules, reach=reach):
            reads = view.data(number)
            for rule in rules[view.ops[number]]:
                if rule.is_forward:
                    source, others = reads[0] if len(reads) == 1 else None, []
                elif _may_match(view, rule, reads):
                    match = Match(view, rule)
                    source, others = match.kept(number), match.others
                else:
                    continue
                if source is not None and view.replace_all_uses(number, source, others):
                    replaced[number] = rule.of
                    break
        view.commit("")
        view.skip_own_changes("rules")
        view.counts.update(name for number, name in replaced.items() if view.removed[number])
        view.counts.pop("", None)

    return run


def _may_match(view: GraphView, rule: ExactRule, reads: Sequence[int]) -> bool:
    """Returns whether one of the inputs of a node is the number, or has an op, without which a rule does not match."""
    if rule.literal is not None:
        return any(is_literal(view.constant(code, only_scalar=True), rule.literal) for code in reads)
    return not rule.needed or any(view.ops[code >> BITS] in rule.needed for code in reads)
