"""Parses and checks rules: ``Mul($x, Sigmoid($x)) -> Swish($x)``; the page of rewrite describes the language.

Names must be bound before they are used, and each result must be found from earlier ones.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from gdsurgeon.errors import UsageError, printable, quoted
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.parser import Parser, where
from gdsurgeon.patterns.terms import (
    Anything,
    AttrOf,
    AttrTerm,
    AttrTest,
    AttrVariable,
    DTypeName,
    InputOf,
    Op,
    Ref,
    Rule,
    Scalar,
    Term,
    Value,
    Variable,
    walk,
)
from gdsurgeon.text import near_miss

DEEPEST = 60
"""The largest depth of nested terms."""
MOST_TERMS = 500
DTYPES = {**NUMBERS, "float": NUMBERS["float32"], "double": NUMBERS["float64"], "half": NUMBERS["float16"]}
KINDS = ("const", "scalar")
TRUTHS = ("false", "true")

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_>]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[a-z][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?(?:inf|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])", re.ASCII)
_TEXT = re.compile(r"""b'(?:[^'\\]|\\.)*'|b"(?:[^"\\]|\\.)*\"""", re.ASCII)
_LOW = re.compile(r"[+-]?(?:inf|(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,20}", re.ASCII)  # longer ones are of no type of integers
_INDEX = re.compile(r"\d{1,6}(?![\w.])", re.ASCII)
_RELATION = re.compile("!=|<=|>=|=|<|>")
_PLACE = "replacement, column "


class Bound(NamedTuple):
    """The names that each match binds: variables, attr variables, and labels."""

    tensors: frozenset[str]
    attrs: frozenset[str]
    labels: frozenset[str]


def rule_of(text: str, *, name: str = "", place: str = "column ", only_pattern: bool = False) -> Rule:
    """Returns the checked rule of a text.

    Args:
        text: ``PATTERN -> REPLACEMENT``.
        name: the name of the rule.
        place: the text before the column in errors.
        only_pattern: whether a pattern without replacement is allowed.

    Raises:
        UsageError: the text is not a rule, or uses an unbound name; the message gives the column.
    """
    parser = _RuleParser(text, place)
    pattern = parser.pattern()
    if only_pattern and parser.is_end():
        return Rule(name, pattern, None, text, place)
    if not parser.skip("->"):
        raise parser.error("'->' must separate the pattern from its replacement")
    return Rule(name, pattern, parser.replacement(pattern), text, place)


@lru_cache(1 << 8)
def replacement_of(rule: Rule, text: str) -> tuple[Term, ...]:
    """Returns the terms of a replacement for the pattern of `rule`. Raises UsageError; see `rule_of`.

    Literals of bytes, as Python writes them, are constants of texts.
    """
    labels = (term.label for root in rule.pattern for term in walk(root) if isinstance(term, Op))
    return _RuleParser(text, _PLACE, labels).replacement(rule.pattern)


def parse_replacement(text: str, labels: Iterable[str]) -> tuple[Term, ...]:
    """Returns the terms of a replacement that may use any variable, and nodes with `labels`; see `replacement_of`."""
    return _RuleParser(text, _PLACE, labels).replacement(())


def wrong_at(place: str, text: str, column: int, what: str) -> UsageError:
    """Returns the error for the rule `text` at a column, from 1."""
    message = f"{printable(place)}{column}: {where(text, column - 1)}: {what}"
    return UsageError(message, code="bad-rule", column=column)


def bound_by(pattern: Sequence[Term]) -> Bound:
    """Returns the names that each match of `pattern` binds; of an optional node, only the first input counts."""
    tensors, attrs, labels = set[str](), set[str](), set[str]()
    pending = list(pattern)
    while pending:
        term = pending.pop()
        if isinstance(term, Variable):
            tensors.add(term.name)
        elif isinstance(term, Op) and term.optional:
            pending += term.inputs[:1] if term.inputs else ()
        elif isinstance(term, Op):
            attrs.update(test.value.name for test in term.attrs if isinstance(test.value, AttrVariable))
            labels.update([term.label] if term.label else [])
            pending += term.inputs or ()
    return Bound(frozenset(tensors), frozenset(attrs), frozenset(labels))


class _RuleParser(Parser):
    """Parses a rule, or one of its sides.

    Args:
        text: the rule, or the side.
        place: the text before the column in errors.
        labels: of the nodes of the pattern, if the text is only a replacement, which may have constants of texts.
    """

    def __init__(self, text: str, place: str, labels: Iterable[str] | None = None) -> None:
        super().__init__(text)
        self._place, self._allows_texts, self._terms = place, labels is not None, 0
        self._labels = {*(labels or ())}
        self._is_pattern = False
        self._bound: Bound | None = None
        self._results, self._optional, self._made = frozenset[str](), frozenset[str](), set[str]()

    def error(self, what: str, place: int | None = None) -> UsageError:
        """Returns an error at an index, by default the current one."""
        return wrong_at(self._place, self.text, (self.at if place is None else place) + 1, what)

    def _check(self, is_right: object, term: Term | AttrTest, what: str) -> None:
        """Raises UsageError for a term unless it `is_right`."""
        if not is_right:
            raise wrong_at(self._place, self.text, term.column, what)

    # -- sides ---------------------------------------------------------------------------------------------

    def pattern(self) -> tuple[Op | Ref, ...]:
        """Parses the pattern of a rule."""
        self._is_pattern = True
        out, known = list[Op | Ref](), set[str]()
        for root in self._side():
            is_node = isinstance(root, Ref) or (isinstance(root, Op) and not root.optional)
            self._check(is_node, root, "a result of a pattern must be an existing node")
            assert isinstance(root, Op | Ref)
            is_listed = root.label and any((each.label, each.port) == (root.label, root.port) for each in out)
            self._check(not is_listed, root, "this result is listed twice")
            terms = [*walk(root)]
            names = {f"${term.name}" for term in terms if isinstance(term, Variable)}
            names |= {term.label for term in terms if isinstance(term, Op | Ref) and term.label}
            what = "this result has no $name or node in common with the earlier ones"
            self._check(not known or names & known, root, what)
            known |= names
            out.append(root)
        if not out:
            raise wrong_at(self._place, self.text, 1, "a pattern is missing")
        named = (term for root in out for term in walk(root) if isinstance(term, Op) and not term.optional and term.ops)
        self._check(isinstance(out[0], Op) and any(True for _ in named), out[0], "a pattern must name at least one op")
        self._is_pattern = False
        return tuple(out)

    def replacement(self, pattern: Sequence[Op | Ref]) -> tuple[Term, ...]:
        """Parses the replacement of a pattern, until the end; without a pattern, variables are not checked."""
        self._bound = bound_by(pattern) if pattern else None
        self._results, self._made = frozenset(root.label for root in pattern), set()
        self._optional = frozenset(self._labels.difference(bound_by(pattern).labels))
        out = self._side()
        if not self.is_end():
            raise self.error("the rule should end here")
        if pattern and len(out) != len(pattern):
            what = f"the pattern has {len(pattern)} results, but the replacement has {len(out)}"
            raise wrong_at(self._place, self.text, out[0].column if out else 1, what)
        return out

    def _side(self) -> tuple[Term, ...]:
        """Parses a term, or several in parentheses."""
        if not self.skip("("):
            return (self._term(0),)
        return tuple(self._term(0) for _ in self.until(")"))

    # -- terms ---------------------------------------------------------------------------------------------

    def _term(self, depth: int) -> Term:
        self.space()
        start, column = self.at, self.at + 1
        self._terms += 1
        if depth > DEEPEST or self._terms > MOST_TERMS:
            raise self.error(f"a rule has at most {MOST_TERMS} terms, nested at most {DEEPEST} deep")
        if self.text.startswith("$", start):
            return self._variable(column)
        if self.text.startswith("[", start) or _NUMBER.match(self.text, start):
            shape, values = self._numbers()
            value = Value(shape, tuple(values), column)
            self._check(self._is_pattern or values or len(shape) == 1, value, "an empty list cannot contain lists")
            return value
        text = self.match(_TEXT) if self._allows_texts else ""
        if text:
            return Value((), (literal_eval(text),), column)
        word = self._word_of((*TRUTHS, "_"))
        if word == "_":
            self._check(self._is_pattern, Anything(column), "'_' is allowed only in patterns: give it a name there")
            return Anything(column)
        if word:
            return Value((), (word == "true",), column)
        label, ops = "", self._ops()
        if self.skip("=", but=("=>",)):
            if len(ops) != 1 or not _LABEL.fullmatch(ops[0]):
                raise self.error("the name of a node must begin with a lower-case letter", start)
            if ops[0] in self._labels:
                raise self.error(f"{quoted(ops[0])} already names a node", start)
            label, ops = ops[0], self._ops()
            self._labels.add(label)
        out = self._node(label, ops, column, depth)
        self._made |= {label}
        return out

    def _node(self, label: str, ops: tuple[str, ...], column: int, depth: int) -> Term:
        named = ops[0] if len(ops) == 1 and ops[0] in self._labels and ops[0] != label else ""
        if named and not label and self.text.startswith(".", self.at):
            return self._input_of(named, column)
        optional, like, has_rest = self.skip("?"), "", False
        attrs: list[AttrTest] = []
        inputs: list[Term] | None = None
        if has_attrs := self.skip("{"):
            for _ in self.until("}"):
                if self.skip("="):
                    like = self._must(_LABEL, "the name of a node must follow '='")
                else:
                    attrs.append(self._attr())
        if self.skip("("):
            inputs = []
            for _ in self.until(")"):
                if has_rest := self.skip("..."):
                    if not self.skip(")"):
                        raise self.error("'...' must come last")
                    break
                inputs.append(self._term(depth + 1))
        port = int(self._must(_INDEX, "the index of an output must follow ':'")) if self.skip(":") else 0
        if named and not (label or optional or has_attrs or inputs is not None):
            ref = Ref(named, port, column)
            what = f"{quoted(named)} is a result, so its replacement cannot read it"
            self._check(named not in self._results, ref, what)
            self._known(ref, named, lambda bound: bound.labels | self._made)
            return ref
        own = () if named or ops == ("*",) else ops
        given = None if inputs is None else tuple(inputs)
        out = Op(own, label, tuple(attrs), like, named, given, has_rest, optional, port, column)
        self._check_op(out)
        return out

    def _check_op(self, term: Op) -> None:
        if self._is_pattern:
            what = f"{quoted(term.same)} names a node: in a pattern no term may follow it"
            self._check(not term.same, term, what)
            for op in term.ops:
                what = f"{op} is part of loops or conditions, which rules do not support"
                self._check(op not in CONTROL_FLOW, term, what)
                self._check(op not in PLACEHOLDERS, term, f"{op} is an input, which rules do not support")
            self._check(term.inputs or not term.optional, term, "an optional node must have an input that replaces it")
            self._check(not term.like, term, f"'={term.like}' is allowed only in replacements")
            return
        self._check(not (term.optional or term.rest), term, "'?' and '...' are allowed only in patterns")
        self._check(term.same or len(term.ops) == 1, term, "a replacement must name exactly one op")
        for label in filter(None, (term.same, term.like)):
            self._known(term, label, lambda bound: bound.labels)

    def _known(self, term: Term | AttrTest, name: str, known: Callable[[Bound], Iterable[str]], mark: str = "") -> None:
        """Raises UsageError for a name in a replacement that is not one of the `known` names of each match."""
        names = {*known(self._bound)} if self._bound is not None else {name}
        if name in names:
            return
        near = near_miss(f"{mark}{name}", [f"{mark}{each}" for each in sorted(names)])
        what = f"the pattern does not bind {quoted(mark + name)} in every match.{near}"
        if not mark and name in self._optional:
            what = f"{quoted(name)} is optional and may be missing from a match"
        self._check(False, term, what)

    def _input_of(self, label: str, column: int) -> InputOf:
        self.skip(".")
        first = self.match(_INDEX)
        out = InputOf(label, int(first or 0), self.skip("*"), column)
        if not (first or out.rest):
            raise self.error("the index of an input or * must follow '.'")
        self._check(not self._is_pattern, out, "inputs of a node are allowed only in replacements")
        self._known(out, label, lambda bound: bound.labels)
        return out

    def _ops(self) -> tuple[str, ...]:
        if self.skip("*"):
            return ("*",)
        out: list[str] = []
        while not out or self.skip("|"):
            what = "an op is missing" if out or self.is_end() else "a term must be an op, $name, _ or a value"
            out.append(self._must(_WORD, what))
        return tuple(out)

    def _variable(self, column: int) -> Variable:
        out = Variable(self._dollar(), "", None, None, column)
        if self.skip(":"):
            self._check(self._is_pattern, out, "conditions on a variable are allowed only in the pattern")
            return self._conditions(out)
        self._known(out, out.name, lambda bound: bound.tensors, "$")
        return out

    def _conditions(self, variable: Variable) -> Variable:
        start = self.at
        if self.skip("["):
            what = "a dimension must be a number or ?"
            dims = tuple(-1 if self.skip("?") else int(self._must(_INDEX, what)) for _ in self.until("]"))
            return replace(variable, kind="const", dims=dims)
        low = self.match(_LOW)
        if low:
            high = self.match(_LOW) if self.skip("..") else ""
            if not high or float(low) > float(high):
                raise self.error("bounds must be LOW..HIGH", start)
            return replace(variable, kind="const", bounds=(float(low), float(high)))
        kind = self.match(_WORD)
        if kind not in KINDS:
            known = ", ".join(KINDS)
            raise self.error(f"after ':' {known}, a shape or bounds must follow.{near_miss(kind, KINDS)}", start)
        return replace(variable, kind=kind)

    def _dollar(self) -> str:
        self.skip("$")
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise self.error("a name must follow '$'")
        self.at = found.end()
        return found[0]

    # -- values --------------------------------------------------------------------------------------------

    def _numbers(self, depth: int = 0) -> tuple[tuple[int, ...], list[float | int | bool]]:
        """Parses a number or nested lists; returns the shape and the elements."""
        if depth > DEEPEST:
            raise self.error(f"lists can be nested at most {DEEPEST} deep")
        start = self.at
        if not self.skip("["):
            return (), [self._number()]
        items = [self._numbers(depth + 1) for _ in self.until("]")]
        if len({shape for shape, _ in items}) > 1:
            raise self.error("this list is ragged", start)
        inner = items[0][0] if items else ()
        return (len(items), *inner), [value for _, values in items for value in values]

    def _number(self) -> float | int | bool:
        word = self._word_of(TRUTHS)
        found = word or self._must(_NUMBER, "a number is missing")
        return word == "true" if word else int(found) if _WHOLE.fullmatch(found) else float(found)

    def _attr(self) -> AttrTest:
        self.space()
        column = self.at + 1
        key = self._must(_NAME, "an attr is missing")
        relation = self._must(_RELATION, "after an attr, = and its value must follow")
        out = AttrTest(key, relation, self._attr_value(), column)
        self._check(relation == "=" or self._is_pattern, out, "in a replacement, set an attr with =")
        if isinstance(out.value, AttrOf):
            self._check(not self._is_pattern, out, "an attr of a different node is allowed only in replacements")
            self._known(out, out.value.label, lambda bound: bound.labels)
        if isinstance(out.value, AttrVariable):
            self._known(out, out.value.name, lambda bound: bound.attrs | bound.tensors, "$")
        return out

    def _attr_value(self) -> AttrTerm:
        self.space()
        start = self.at
        if self.text.startswith("$", start):
            return AttrVariable(self._dollar())
        if self.skip("["):
            return [self._scalar() for _ in self.until("]")]
        word = self.match(_LABEL)
        if word and self.skip("."):
            return AttrOf(word, self._must(_NAME, "an attr must follow '.'"))
        self.at = start
        return self._scalar()

    def _scalar(self) -> Scalar | DTypeName:
        self.space()
        start = self.at
        if self.skip('"'):
            end = self.text.find('"', self.at)
            if end < 0:
                raise self.error("this text is not terminated", start)
            found, self.at = self.text[self.at : end], end + 1
            return found
        if _NUMBER.match(self.text, start):
            return self._number()
        word = self.match(_WORD)
        if word in TRUTHS:
            return word == "true"
        if word in DTYPES:
            return DTypeName(int(DTYPES[word]))
        if not word:
            raise self.error("a value is missing", start)
        near = near_miss(word, DTYPES)
        raise self.error(f"{quoted(word)} is not a dtype; texts need double quotes.{near}", start)

    # -- characters ----------------------------------------------------------------------------------------

    def _must(self, pattern: re.Pattern[str], what: str) -> str:
        """Returns the next text that matches `pattern`. Raises UsageError with the text `what` if nothing matches."""
        found = self.match(pattern)
        if not found:
            raise self.error(what)
        return found

    def _word_of(self, words: Container[str]) -> str:
        """Skips and returns the next word if it is one of `words`, and not an op or the label of one."""
        self.space()
        found = _WORD.match(self.text, self.at)
        if found is None or found[0] not in words or self.text.startswith(("(", "{", "="), found.end()):
            return ""
        self.at = found.end()
        return found[0]
