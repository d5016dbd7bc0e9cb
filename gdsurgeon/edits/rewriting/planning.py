"""The replacement of a match: new nodes with their attrs and dtypes, computed before the graph is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.functions import check_fusible, make_function
from gdsurgeon.errors import EditError, Json, Remark, printable, quoted
from gdsurgeon.graph.attrs import Plain, attr_value, plain, said_by_inputs, type_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output, same_dtype
from gdsurgeon.ops.dtypes import DTYPES, STRING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import UNSET_PLACEHOLDERS
from gdsurgeon.ops.op_defs import AttrDef, OpDef, arg_dtypes, op_names
from gdsurgeon.patterns.attrs import misfit, of_constant, spelt
from gdsurgeon.patterns.parse import bound_by, replacement_of, wrong_at
from gdsurgeon.patterns.terms import (
    AttrOf,
    AttrTest,
    AttrVariable,
    InputOf,
    Match,
    Op,
    Ref,
    Rule,
    Term,
    Value,
    walk,
)
from gdsurgeon.text import counted, near_miss, nearest, suggestion
from gdsurgeon.wire.protos import FunctionDef


@dataclass(eq=False)
class New:
    """A new node.

    Attributes:
        op: its op.
        inputs: tensors of the graph, and outputs of other new nodes.
        attrs: serialized, without default values.
        definition: the signature of its op.
    """

    op: str
    inputs: list[Output | NewOutput]
    attrs: dict[str, bytes]
    definition: OpDef

    def read(self, key: str) -> Plain | None:
        """Returns the plain value of an attr."""
        return plain(attr_value(self.attrs[key])) if key in self.attrs else None

    @property
    def dtypes(self) -> list[int]:
        """The dtypes of its outputs."""
        return arg_dtypes(self.definition.outputs, self.definition, self.read)


@dataclass(frozen=True)
class NewOutput:
    """An output of a new node."""

    node: New
    index: int

    @property
    def dtype(self) -> int:
        """Its DataType; 0 if it is unknown."""
        found = self.node.dtypes
        return found[self.index] if self.index < len(found) else 0


@dataclass
class Replacement:
    """The replacement of a match.

    Attributes:
        nodes: the new nodes in topological order.
        results: the tensors that replace the results of the pattern.
    """

    nodes: list[New] = field(default_factory=list)
    results: list[Output | NewOutput] = field(default_factory=list)


class Unfit(Exception):
    """The replacement is not valid for a match.

    Attributes:
        why: the reason.
    """

    def __init__(self, why: Remark) -> None:
        super().__init__(why)
        self.why = why


class Planner:
    """Converts the terms of a replacement to new nodes.

    Args:
        graph: not changed.
        text, place: the text of the terms, and the text before the column in errors.
    """

    def __init__(self, graph: Graph, text: str, place: str) -> None:
        self._graph = graph
        self._text, self._place = text, place
        self._match = Match({}, {}, {})
        self._out = Replacement()
        self._made: dict[str, New] = {}
        self._dtype = 0

    def plan(self, terms: Sequence[Term], match: Match) -> Replacement:
        """Returns the replacement of a match; if the match has no results, only the new nodes.

        Raises:
            Unfit: the replacement is not valid for this match.
            UsageError: it is not valid for any match.
        """
        self._match, self._out, self._made = match, Replacement(), {}
        if not match.roots and isinstance(terms[0], Op):
            self._node(terms[0])
        for term, root in zip(terms, match.roots, strict=bool(match.roots)):
            self._dtype = base_dtype(root.dtype)
            found = self._constant(term, self._dtype) if isinstance(term, Value) else self._tensor(term)
            if not same_dtype(found.dtype, root.dtype):
                made, was = dtype_name(base_dtype(found.dtype)), dtype_name(self._dtype)
                text = f"{quoted(root.name)} is {was}, but the replacement is {made}"
                raise Unfit(Remark(text, "dtype-mismatch", tensor=root.name, expected=was, found=made))
            self._out.results.append(found)
        return self._out

    def _tensor(self, term: Term) -> Output | NewOutput:
        if isinstance(term, Ref) and term.label in self._made:
            return self._output(self._made[term.label], term)
        if not isinstance(term, Op):
            (found,) = self._read(term)
            return found
        new = self._node(term)
        if term.label:
            self._made[term.label] = new
        return self._output(new, term)

    def _read(self, term: Term) -> Sequence[Output]:
        """Returns the tensors of the graph that `term` stands for."""
        found = self._match.bound(term)
        if isinstance(term, Ref) and found[0].index >= (found[0].node.output_count or found[0].index + 1):
            what = f"{quoted(term.label)} ({printable(found[0].node.op)}) has no such output"
            raise self._wrong(term, "no-such-output", what, op=found[0].node.op)
        if isinstance(term, InputOf) and not (found or term.rest):
            op = self._match.nodes[term.label].op
            what = f"{quoted(term.label)} ({printable(op)}) has no input {term.first}"
            raise self._wrong(term, "no-such-input", what, op=op)
        return found

    def _output(self, new: New, term: Op | Ref) -> NewOutput:
        if term.port >= len(new.dtypes):
            raise self._wrong(term, "no-such-output", f"{printable(new.op)} has no output {term.port}", op=new.op)
        return NewOutput(new, term.port)

    # -- nodes -----------------------------------------------------------------------------------------------

    def _node(self, term: Op) -> New:
        like = self._match.nodes.get(term.same or term.like)
        op = like.op if term.same and like is not None else term.ops[0]
        definition = self.definition(term, op)
        given = {test.key: self._attr(test, definition.attrs[test.key]) for test in term.attrs}
        copied = {} if like is None else {k: like.attr_bytes(k) for k in like.attr_keys if k in definition.attrs}
        attrs = {key: data for key, data in copied.items() if data is not None}
        found: list[Value | Output | NewOutput] = []
        for each in term.inputs or ():
            is_several = isinstance(each, InputOf)
            found += self._read(each) if is_several else [each if isinstance(each, Value) else self._tensor(each)]
        new = New(op, [], attrs, definition)
        dtypes = self._typed(new, given, found)
        for at, item in enumerate(found):
            if isinstance(item, Value):
                dtype = base_dtype(dtypes[at]) if at < len(dtypes) else 0
                found[at] = self._constant(item, STRING if item.is_text else dtype or self._dtype)
        new.inputs += [item for item in found if not isinstance(item, Value)]
        self._check(term, new, self._typed(new, given, found))
        self._out.nodes.append(new)
        return new

    @staticmethod
    def _typed(new: New, given: dict[str, bytes], found: Sequence[Value | Output | NewOutput]) -> list[int]:
        """Sets the attrs that inputs determine and those that are `given`; returns the dtype of each input."""
        dtypes = [0 if isinstance(item, Value) else base_dtype(item.dtype) for item in found]
        said = said_by_inputs(new.definition, dtypes)
        new.attrs |= {key: value.SerializeToString(deterministic=True) for key, value in said.items()} | given
        return arg_dtypes(new.definition.inputs, new.definition, new.read)

    def _constant(self, term: Value, dtype: int) -> NewOutput:
        kind = DTYPES.get(dtype)
        if kind is None:
            raise Unfit(Remark(f"the dtype of {_shown(term)} is unknown", "unknown-dtype"))
        try:
            value = tensor_value(dtype, term.shape, term.values).SerializeToString(deterministic=True)
        except ValueError as error:
            text = f"{_shown(term)} {error}"
            raise Unfit(Remark(text, "bad-value", value=_shown(term), dtype=dtype_name(dtype))) from None
        definition = self._graph.op_def("Const")
        assert definition is not None
        attrs = {"value": value, "dtype": type_value(dtype).SerializeToString(deterministic=True)}
        new = New("Const", [], attrs, definition)
        self._out.nodes.append(new)
        return NewOutput(new, 0)

    def definition(self, term: Op, op: str) -> OpDef:
        """Returns the signature of the op of a new node. Raises EditError if the op or an attr is unknown."""
        definition = self._graph.op_def(op)
        if definition is None:
            raise self._wrong(term, "no-such-op", f"{quoted(op)} is not a known op.{near_miss(op, op_names())}")
        for test in term.attrs:
            if test.key not in definition.attrs:
                what = f"{op} has no attr {test.key}.{near_miss(test.key, definition.attrs)}"
                raise self._wrong(test, "no-such-attr", what)
        return definition

    def check_count(self, term: Op, definition: OpDef, is_right: bool, count: int) -> None:
        """Raises EditError unless `count` inputs are the right number."""
        if not is_right:
            what = f"{definition.name} does not accept {counted(count, 'input')}"
            raise self._wrong(term, "wrong-count", what, op=definition.name, found=count)

    def _attr(self, test: AttrTest, attr: AttrDef) -> bytes:
        if isinstance(test.value, AttrOf):
            node = self._match.nodes[test.value.label]
            value = node.attr(test.value.key)
            if value is None:
                text = f"{quoted(node.name)} has no attr {test.value.key}"
                raise Unfit(Remark(text, "no-such-attr", node=node.name, attr=test.value.key))
            return value.SerializeToString(deterministic=True)
        if isinstance(test.value, AttrVariable):
            if test.value.name in self._match.attrs:
                return self._match.attrs[test.value.name]
            try:
                return of_constant(attr, self._match.value(test.value.name))
            except ValueError as error:
                tensor = self._match.tensors[test.value.name].name
                raise Unfit(Remark(f"{error}: {quoted(tensor)}", "bad-value", attr=attr.name, tensor=tensor)) from None
        try:
            return spelt(attr, test.value)
        except ValueError as error:
            facts = {"attr": attr.name, "expected": attr.kind}
            raise self._wrong(test, "bad-value", str(error), **facts) from None

    def _check(self, term: Op, new: New, dtypes: Sequence[int]) -> None:
        """Refuses missing and invalid attrs, and inputs that do not have these `dtypes`."""
        for attr in new.definition.attrs.values():
            if attr.name not in new.attrs and not attr.has_default:
                what = f"{printable(new.op)} requires an attr {attr.name} ({attr.kind})"
                raise self._wrong(term, "attr-needed", what, op=new.op, attr=attr.name)
            why = misfit(new.attrs[attr.name], attr) if attr.name in new.attrs else ""
            if why:
                raise Unfit(Remark(f"{printable(new.op)}: {why}", "bad-value", op=new.op, attr=attr.name))
        self.check_count(term, new.definition, len(dtypes) == len(new.inputs), len(new.inputs))
        if not self._match.roots:
            return  # the nodes that it reads may get other dtypes later
        for wanted, tensor in zip(dtypes, new.inputs, strict=True):
            if not same_dtype(wanted, tensor.dtype):
                read, takes = dtype_name(base_dtype(tensor.dtype)), dtype_name(base_dtype(wanted))
                text = f"{printable(new.op)} accepts {takes}, but would get {read}"
                raise Unfit(Remark(text, "dtype-mismatch", op=new.op, expected=takes, found=read))

    def _wrong(self, term: Term | AttrTest, reason: str, what: str, **facts: Json) -> EditError:
        """Returns the error for a replacement that is not valid for any match, with its column."""
        return _misfit(self._place, self._text, term, reason, what, **facts)


def check_pattern(graph: Graph, rule: Rule) -> None:
    """Raises EditError if a pattern has an attr that its ops lack, or a word that is neither an op nor a function."""
    topology = topology_of(graph)
    for term in (term for root in rule.pattern for term in walk(root) if isinstance(term, Op)):
        for item in term.inputs or ():
            word = item.ops[0] if isinstance(item, Op) and len(item.ops) == 1 and item.inputs is None else ""
            if word[:1].islower() and graph.op_def(word) is None and not topology.with_ops([word]):
                what = f"there is no op {printable(word)}: a variable is written ${printable(word)}"
                raise _misfit(rule.place, rule.text, item, "no-such-op", what, op=word, near=f"${word}")
        definitions = [graph.op_def(op) for op in term.ops]
        keys = dict.fromkeys(key for each in definitions if each is not None for key in each.attrs)
        for test in term.attrs if definitions and None not in definitions else ():
            of_later = (topology.node(number).has_attr(test.key) for number in topology.with_ops(term.ops))
            if test.key not in keys and not test.key.startswith("_") and not any(of_later):
                near, have = nearest(test.key, keys), "has" if len(term.ops) == 1 else "have"
                what = f"{' and '.join(term.ops)} {have} no attr {test.key}.{suggestion(near)}"
                facts: dict[str, Json] = {"ops": list(term.ops), "attr": test.key, "near": near}
                raise _misfit(rule.place, rule.text, test, "no-such-attr", what, **facts)


def check_terms(graph: Graph, rule: Rule) -> None:
    """Raises EditError if a rule is not valid for any graph with these functions."""
    check_pattern(graph, rule)
    planner = Planner(graph, rule.text, rule.place)
    for term in (term for root in rule.replacement or () for term in walk(root)):
        if isinstance(term, Op) and term.ops:
            definition, count = planner.definition(term, term.ops[0]), len(term.inputs or ())
            several = [arg for arg in definition.inputs if arg.number_attr or arg.list_attr]
            left = count - len(definition.inputs) + len(several)
            is_unknown = any(isinstance(each, InputOf) for each in term.inputs or ())
            planner.check_count(term, definition, is_unknown or left == 0 or (left > 0 and bool(several)), count)


def _misfit(place: str, text: str, term: Term | AttrTest, reason: str, what: str, **facts: Json) -> EditError:
    """Returns the error for a rule that is not valid for any match, with its column and reason."""
    said = wrong_at(place, text, term.column, what)
    return EditError(said.message, code="bad-rule", facts=said.facts | facts, reason=reason)


def _shown(term: Value) -> str:
    return str(term.values[0] if not term.shape else list(term.values))


STEM = "rewritten"
"""The beginning of the names of functions that replace matches."""


def function_of(body: Graph) -> FunctionDef:
    """Returns `body` as a function of its placeholders, in their order; results are the outputs without consumers.

    Raises:
        EditError: it has functions of its own, or nodes that a function cannot contain.
    """
    if any(True for _ in body.functions):
        message = f"{printable(body.source_name)} has functions of its own: inline them first"
        raise EditError(message, code="has-functions", file=body.source_name)
    inputs, nodes = _inputs(body), [node for node in body.nodes() if node.op not in UNSET_PLACEHOLDERS]
    for node in nodes:
        check_fusible(node)
    return make_function(STEM, nodes, inputs, _results(body))


def calling(rule: Rule, body: Graph, function: FunctionDef) -> Rule:
    """Returns `rule` with a call of `function` as its replacement.

    Raises:
        EditError: a placeholder is not a variable of the pattern, or the number of results differs.
    """
    bound, where = bound_by(rule.pattern).tensors, printable(body.source_name)
    for tensor in _inputs(body):
        name = tensor.node.name
        if name not in bound:
            near = nearest(f"${name}", [f"${each}" for each in sorted(bound)])
            what = f"is a placeholder, but the pattern does not bind {quoted('$' + name)} in every match"
            message = f"{quoted(name)} of {where} {what}.{suggestion(near)}"
            raise EditError(message, code="unbound-input", node=name, near=near)
    results = _results(body)
    if len(results) != len(rule.pattern):
        given = counted(len(results), "result")
        message = f"{where} has {given}, but the pattern has {len(rule.pattern):,}"
        raise EditError(message, code="wrong-count", expected=len(rule.pattern), found=len(results))
    op = "StatefulPartitionedCall" if function.signature.is_stateful else "PartitionedCall"
    types = f"Tin={_types(_inputs(body))}, Tout={_types(results)}"
    read = ", ".join(f"${tensor.node.name}" for tensor in _inputs(body))
    call = f'rewritten={op}{{f="{function.signature.name}", {types}}}({read})'
    text = f"({', '.join([call, *(f'rewritten:{index}' for index in range(1, len(results)))])})"
    return replace(rule, replacement=replacement_of(rule, text), make=None, text=text, place="replacement, column ")


def _inputs(body: Graph) -> list[Output]:
    return [node.output for node in body.nodes() if node.op in UNSET_PLACEHOLDERS]


def _results(body: Graph) -> list[Output]:
    return [output for node in output_nodes(body) for output in node.outputs if node.op not in UNSET_PLACEHOLDERS]


def _types(tensors: Sequence[Output]) -> str:
    return f"[{', '.join(dtype_name(base_dtype(tensor.dtype)) for tensor in tensors)}]"
