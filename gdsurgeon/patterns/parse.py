"""Parses rules: ``Mul($x, Sigmoid($x)) -> Swish($x)``; the page of rewrite describes the language."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterable
from typing import NamedTuple

from gdsurgeon.errors import UsageError, printable, quoted
from gdsurgeon.ops.dtypes import NUMBERS
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
    Scalar,
    Term,
    Value,
    Variable,
)
from gdsurgeon.text import near_miss

DEEPEST = 60
"""The largest depth of nested terms."""
MOST_TERMS = 500
DTYPES = {**NUMBERS, "float": NUMBERS["float32"], "double": NUMBERS["float64"], "half": NUMBERS["float16"]}
KINDS = ("const", "scalar")

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_>]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[a-z][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?(?:inf|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])", re.ASCII)
_TEXT = re.compile(r"""b'(?:[^'\\]|\\.)*'|b"(?:[^"\\]|\\.)*\"""", re.ASCII)
_LOW = re.compile(r"[+-]?(?:inf|(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,20}", re.ASCII)  # longer ones are of no type of integers
_INDEX = re.compile(r"\d{1,6}(?![\w.])", re.ASCII)
_RELATIONS = ("!=", "<=", ">=", "=", "<", ">")


class Sides(NamedTuple):
    """A parsed rule: the terms of the pattern's results, and of the replacement, if there is one."""

    pattern: tuple[Term, ...]
    replacement: tuple[Term, ...] | None


def parse_rule(text: str, place: str = "column ", *, only_pattern: bool = False) -> Sides:
    """Returns the rule in `text`.

    Args:
        text: ``PATTERN -> REPLACEMENT``.
        place: the text before the column in errors.
        only_pattern: whether a pattern without replacement is allowed.

    Raises:
        UsageError: the text is not a rule; the message gives the column.
    """
    return _RuleParser(text, place).rule(only_pattern)


def parse_replacement(text: str, labels: Iterable[str], place: str = "replacement, column ") -> tuple[Term, ...]:
    """Returns the terms of a replacement for a pattern with `labels`. Raises UsageError; see `parse_rule`.

    Literals of bytes, as Python writes them, are constants of texts.
    """
    parser = _RuleParser(text, place)
    parser.labels.update(labels)
    parser.allows_texts = True
    out = parser.side()
    parser.end()
    return out


def wrong_at(place: str, text: str, column: int, what: str) -> UsageError:
    """Returns the error for the rule `text` at a column, from 1."""
    message = f"{printable(place)}{column}: {where(text, column - 1)}: {what}"
    return UsageError(message, code="bad-rule", facts={"column": column})


class _RuleParser(Parser):
    """Parses a rule, or one of its sides."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text)
        self.place = place
        self.terms = 0
        self.labels: set[str] = set()
        self.allows_texts = False

    # -- the rule ------------------------------------------------------------------------------------------

    def rule(self, only_pattern: bool) -> Sides:
        pattern = self.side()
        if only_pattern and self.is_end():
            return Sides(pattern, None)
        if not self.skip("->"):
            raise self.error("'->' must separate the pattern from its replacement")
        replacement = self.side()
        self.end()
        return Sides(pattern, replacement)

    def side(self) -> tuple[Term, ...]:
        """Parses a term, or several in parentheses."""
        if not self.skip("("):
            return (self._term(0),)
        return tuple(self._term(0) for _ in self.until(")"))

    def end(self) -> None:
        """Raises UsageError unless the text ends here."""
        if not self.is_end():
            raise self.error("the rule should end here")

    # -- terms ---------------------------------------------------------------------------------------------

    def _term(self, depth: int) -> Term:
        self.space()
        start, column = self.at, self.at + 1
        self.terms += 1
        if depth > DEEPEST or self.terms > MOST_TERMS:
            raise self.error(f"a rule has at most {MOST_TERMS} terms, nested at most {DEEPEST} deep")
        here = self.text[start : start + 1]
        if here == "$":
            return self._variable(column)
        if here == "[" or _NUMBER.match(self.text, start):
            shape, values = self._numbers()
            return Value(shape, tuple(values), column)
        text = self.match(_TEXT) if self.allows_texts else ""
        if text:
            return Value((), (literal_eval(text),), column)
        for word in ("true", "false"):
            if self._skip_word(word):
                return Value((), (word == "true",), column)
        if self._skip_word("_"):
            return Anything(column)
        label, ops = "", self._ops()
        if self.skip("=", but=("=>",)):
            if len(ops) != 1 or not _LABEL.fullmatch(ops[0]):
                raise self.error("the name of a node must begin with a lower-case letter", start)
            label, ops = ops[0], self._ops()
            self.labels.add(label)
        return self._node(label, ops, column, depth)

    def _node(self, label: str, ops: tuple[str, ...], column: int, depth: int) -> Term:
        if not label and len(ops) == 1 and ops[0] in self.labels and self.text.startswith(".", self.at):
            return self._input_of(ops[0], column)
        optional = self.skip("?")
        attrs, like, has_attrs = self._attrs()
        inputs, rest = self._inputs(depth) if self.skip("(") else (None, False)
        port = self._port()
        if len(ops) == 1 and ops[0] in self.labels and ops[0] != label:
            if not (label or optional or has_attrs or inputs is not None):
                return Ref(ops[0], port, column)
            return Op((), label, attrs, like, ops[0], inputs, rest, optional, port, column)
        return Op(() if ops == ("*",) else ops, label, attrs, like, "", inputs, rest, optional, port, column)

    def _input_of(self, label: str, column: int) -> InputOf:
        self.skip(".")
        first = self.match(_INDEX)
        rest = self.skip("*")
        if not (first or rest):
            raise self.error("the index of an input or * must follow '.'")
        return InputOf(label, int(first or 0), rest, column)

    def _inputs(self, depth: int) -> tuple[tuple[Term, ...], bool]:
        found: list[Term] = []
        for _ in self.until(")"):
            if self.skip("..."):
                if not self.skip(")"):
                    raise self.error("'...' must come last")
                return tuple(found), True
            found.append(self._term(depth + 1))
        return tuple(found), False

    def _port(self) -> int:
        if not self.skip(":"):
            return 0
        found = self.match(_INDEX)
        if not found:
            raise self.error("the index of an output must follow ':'")
        return int(found)

    def _ops(self) -> tuple[str, ...]:
        if self.skip("*"):
            return ("*",)
        out: list[str] = []
        while True:
            word = self.match(_WORD)
            if not word:
                raise self.error(
                    "an op is missing" if out or self.is_end() else "a term must be an op, $name, _ or a value"
                )
            out.append(word)
            if not self.skip("|"):
                return tuple(out)

    def _variable(self, column: int) -> Variable:
        name = self._dollar()
        if not self.skip(":"):
            return Variable(name, "", None, None, column)
        start = self.at
        if self.skip("["):
            dims = tuple(self._dim() for _ in self.until("]"))
            return Variable(name, "const", None, dims, column)
        low = self.match(_LOW)
        if low:
            high = self.match(_LOW) if self.skip("..") else ""
            if not high or float(low) > float(high):
                raise self.error("bounds must be LOW..HIGH", start)
            return Variable(name, "const", (float(low), float(high)), None, column)
        kind = self.match(_WORD)
        if kind not in KINDS:
            known = ", ".join(KINDS)
            raise self.error(f"after ':' {known}, a shape or bounds must follow.{near_miss(kind, KINDS)}", start)
        return Variable(name, kind, None, None, column)

    def _dollar(self) -> str:
        self.skip("$")
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise self.error("a name must follow '$'")
        self.at = found.end()
        return found[0]

    def _dim(self) -> int:
        if self.skip("?"):
            return -1
        found = self.match(_INDEX)
        if not found:
            raise self.error("a dimension must be a number or ?")
        return int(found)

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
        for word in ("true", "false"):
            if self._skip_word(word):
                return word == "true"
        found = self.match(_NUMBER)
        if not found:
            raise self.error("a number is missing")
        return int(found) if _WHOLE.fullmatch(found) else float(found)

    def _attrs(self) -> tuple[tuple[AttrTest, ...], str, bool]:
        """Parses the content of braces: attrs, and the label of a node whose attrs are copied."""
        if not self.skip("{"):
            return (), "", False
        like = ""
        out: list[AttrTest] = []
        for _ in self.until("}"):
            each = self._attr()
            if isinstance(each, str):
                like = each
            else:
                out.append(each)
        return tuple(out), like, True

    def _attr(self) -> AttrTest | str:
        if self.skip("="):
            label = self.match(_LABEL)
            if not label:
                raise self.error("the name of a node must follow '='")
            return label
        self.space()
        column = self.at + 1
        key = self.match(_NAME)
        if not key:
            raise self.error("an attr is missing")
        relation = next((each for each in _RELATIONS if self.skip(each)), "")
        if not relation:
            raise self.error("after an attr, = and its value must follow")
        return AttrTest(key, relation, self._attr_value(), column)

    def _attr_value(self) -> AttrTerm:
        self.space()
        if self.text.startswith("$", self.at):
            return AttrVariable(self._dollar())
        if self.skip("["):
            return [self._scalar() for _ in self.until("]")]
        return self._scalar_or_attr()

    def _scalar_or_attr(self) -> AttrTerm:
        start = self.at
        word = self.match(_LABEL)
        if word and self.skip("."):
            key = self.match(_NAME)
            if not key:
                raise self.error("an attr must follow '.'")
            return AttrOf(word, key)
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
        if word in ("true", "false"):
            return word == "true"
        if word in DTYPES:
            return DTypeName(int(DTYPES[word]))
        if not word:
            raise self.error("a value is missing", start)
        near = near_miss(word, DTYPES)
        raise self.error(f"{quoted(word)} is not a dtype; texts need double quotes.{near}", start)

    # -- characters ----------------------------------------------------------------------------------------

    def _skip_word(self, word: str) -> bool:
        self.space()
        found = _WORD.match(self.text, self.at)
        if found is None or found[0] != word or self.text.startswith(("(", "{", "="), found.end()):
            return False
        self.at = found.end()
        return True

    def error(self, what: str, place: int | None = None) -> UsageError:
        """Returns an error at an index, by default the current one."""
        at = self.at if place is None else place
        return wrong_at(self.place, self.text, at + 1, what)
