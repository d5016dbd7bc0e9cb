"""Checks of a parsed rule: names are bound before they are used, and each result can be found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.patterns.parse import parse_replacement, parse_rule, wrong_at
from gdsurgeon.patterns.terms import Anything, AttrOf, AttrVariable, InputOf, Op, Ref, Rule, Term, Value, Variable, walk
from gdsurgeon.text import near_miss


class Bound(NamedTuple):
    """The names that each match binds: variables, attr variables, and labels."""

    tensors: frozenset[str]
    attrs: frozenset[str]
    labels: frozenset[str]


def rule_of(text: str, *, name: str = "", place: str = "column ", only_pattern: bool = False) -> Rule:
    """Returns the checked rule of a text.

    Raises:
        UsageError: the text is not a rule, or uses an unbound name; the message gives the column.
    """
    sides = parse_rule(text, place, only_pattern=only_pattern)
    pattern = _Checker(text, place).pattern(sides.pattern)
    rule = Rule(name, pattern, None, text, place)
    if sides.replacement is None:
        return rule
    _Checker(text, place).replacement(sides.replacement, rule)
    return Rule(name, pattern, sides.replacement, text, place)


@lru_cache(1 << 8)
def replacement_of(rule: Rule, text: str) -> tuple[Term, ...]:
    """Returns the terms of a replacement for the pattern of `rule`. Raises UsageError; see `rule_of`."""
    place = "replacement, column "
    labels = [term.label for root in rule.pattern for term in walk(root) if isinstance(term, Op) and term.label]
    terms = parse_replacement(text, labels, place)
    _Checker(text, place).replacement(terms, rule)
    return terms


def bound_by(pattern: Sequence[Term]) -> Bound:
    """Returns the names that each match of `pattern` binds; of an optional node, only the first input counts."""
    tensors: set[str] = set()
    attrs: set[str] = set()
    labels: set[str] = set()
    pending = list(pattern)
    while pending:
        term = pending.pop()
        if isinstance(term, Variable):
            tensors.add(term.name)
        elif isinstance(term, Op):
            if term.optional:
                pending += term.inputs[:1] if term.inputs else ()
                continue
            attrs.update(test.value.name for test in term.attrs if isinstance(test.value, AttrVariable))
            labels.update([term.label] if term.label else [])
            pending += term.inputs or ()
    return Bound(frozenset(tensors), frozenset(attrs), frozenset(labels))


class _Checker:
    def __init__(self, text: str, place: str) -> None:
        self.text, self.place = text, place

    def wrong(self, term: Term, what: str) -> UsageError:
        """Returns the error for a term."""
        return wrong_at(self.place, self.text, term.column, what)

    # -- patterns ------------------------------------------------------------------------------------------

    def pattern(self, sides: tuple[Term, ...]) -> tuple[Op | Ref, ...]:
        if not sides:
            raise UsageError(f"{self.place}1: a pattern is missing", code="bad-rule")
        out: list[Op | Ref] = []
        labels: set[str] = set()
        given: set[tuple[str, int]] = set()
        for root in sides:
            if not isinstance(root, Op | Ref) or (isinstance(root, Op) and root.optional):
                raise self.wrong(root, "a result of a pattern must be an existing node")
            for term in walk(root):
                self._term(term, labels)
            if root.label and (root.label, root.port) in given:
                raise self.wrong(root, "this result is listed twice")
            given.add((root.label, root.port))
            out.append(root)
        if isinstance(out[0], Ref) or not any(
            term.ops for root in out for term in walk(root) if isinstance(term, Op) and not term.optional
        ):
            raise self.wrong(out[0], "a pattern must name at least one op")
        self._check_joined(out)
        return tuple(out)

    def _term(self, term: Term, labels: set[str]) -> None:
        """Checks a term of a pattern."""
        if isinstance(term, InputOf):
            raise self.wrong(term, "inputs of a node are allowed only in replacements")
        if isinstance(term, Ref) and term.label not in labels:
            raise self.wrong(term, f"{quoted(term.label)} does not name an earlier node")
        if not isinstance(term, Op):
            return
        if term.same:
            raise self.wrong(term, f"{quoted(term.same)} names a node: in a pattern no term may follow it")
        for op in term.ops:
            if op in CONTROL_FLOW:
                raise self.wrong(term, f"{op} is part of loops or conditions, which rules do not support")
            if op in PLACEHOLDERS:
                raise self.wrong(term, f"{op} is an input, which rules do not support")
        if term.optional and not term.inputs:
            raise self.wrong(term, "an optional node must have an input that replaces it")
        if term.like:
            raise self.wrong(term, f"'={term.like}' is allowed only in replacements")
        for test in term.attrs:
            if isinstance(test.value, AttrOf):
                raise wrong_at(
                    self.place, self.text, test.column, "an attr of a different node is allowed only in replacements"
                )
        if term.label:
            if term.label in labels:
                raise self.wrong(term, f"{quoted(term.label)} already names a node")
            labels.add(term.label)

    def _check_joined(self, roots: Sequence[Op | Ref]) -> None:
        """Checks that each further result shares a name with earlier results."""
        known: set[str] = set()
        for root in roots:
            names = set(_names(root))
            if known and not names & known:
                raise self.wrong(root, "this result has no $name or node in common with the earlier ones")
            known |= names

    # -- replacements --------------------------------------------------------------------------------------

    def replacement(self, terms: Sequence[Term], rule: Rule) -> None:
        if len(terms) != len(rule.pattern):
            what = f"the pattern has {len(rule.pattern)} results, but the replacement has {len(terms)}"
            raise wrong_at(self.place, self.text, terms[0].column if terms else 1, what)
        bound = bound_by(rule.pattern)
        optional = {
            term.label for root in rule.pattern for term in walk(root) if isinstance(term, Op) and term.label
        } - bound.labels
        made: set[str] = set()
        results = {root.label for root in rule.pattern}
        for root in terms:
            for term in walk(root):
                if isinstance(term, Ref) and term.label in results:
                    raise self.wrong(term, f"{quoted(term.label)} is a result, so its replacement cannot read it")
                self._new(term, bound, made, optional)

    def _new(self, term: Term, bound: Bound, made: set[str], optional: set[str]) -> None:
        """Checks a term of a replacement."""
        if isinstance(term, Anything):
            raise self.wrong(term, "'_' is allowed only in patterns: give it a name there")
        if isinstance(term, Variable):
            if term.kind:
                raise self.wrong(term, "conditions on a variable are allowed only in the pattern")
            self._known(term, term.name, bound.tensors, "$")
        if isinstance(term, Value) and not term.values and len(term.shape) > 1:
            raise self.wrong(term, "an empty list cannot contain lists")
        if isinstance(term, Ref | InputOf):
            self._known(term, term.label, bound.labels | (made if isinstance(term, Ref) else set()), "", optional)
        if not isinstance(term, Op):
            return
        if term.optional or term.rest:
            raise self.wrong(term, "'?' and '...' are allowed only in patterns")
        if len(term.ops) != 1 and not term.same:
            raise self.wrong(term, "a replacement must name exactly one op")
        for label in filter(None, (term.same, term.like)):
            self._known(term, label, bound.labels, "", optional)
        for test in term.attrs:
            if test.relation != "=":
                raise wrong_at(self.place, self.text, test.column, "in a replacement, set an attr with =")
            if isinstance(test.value, AttrOf):
                self._known(term, test.value.label, bound.labels, "", optional)
            if isinstance(test.value, AttrVariable):
                self._known(term, test.value.name, bound.attrs | bound.tensors, "$")
        if term.label:
            if term.label in bound.labels | made | optional:
                raise self.wrong(term, f"{quoted(term.label)} already names a node")
            made.add(term.label)

    def _known(
        self, term: Term, name: str, known: frozenset[str] | set[str], mark: str, optional: set[str] | None = None
    ) -> None:
        if name in known:
            return
        if optional and name in optional:
            raise self.wrong(term, f"{quoted(name)} is optional and may be missing from a match")
        near = near_miss(f"{mark}{name}", [f"{mark}{each}" for each in sorted(known)])
        raise self.wrong(term, f"the pattern does not bind {quoted(mark + name)} in every match.{near}")


def _names(root: Term) -> Iterator[str]:
    """Yields the names by which a result can be found from a different one."""
    for term in walk(root):
        if isinstance(term, Variable):
            yield f"${term.name}"
        elif isinstance(term, Ref) or (isinstance(term, Op) and term.label):
            yield term.label
