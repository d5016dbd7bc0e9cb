"""rewrite: each recorded match satisfies its pattern, and the written graph has the nodes of its replacement.

The edit records which nodes each pattern has matched (`gdsurgeon.patterns.terms.Replaced`). This checker searches for
nothing: it verifies the record on the graph as it was before that round, instantiates the replacement, and compares
all nodes of the result with the written graph. Whether other matches were missed is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import inf

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import EditError, UsageError, quoted
from gdsurgeon.graph.attrs import Plain, attr_value, plain, said_by_inputs, type_value
from gdsurgeon.graph.constants import Constant, constant, constant_header, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output, same_dtype
from gdsurgeon.ops.dtypes import FLOAT16, REF, STRING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import COMMUTATIVE, CONTROL_FLOW, PLACEHOLDERS, UNSET_PLACEHOLDERS
from gdsurgeon.ops.op_defs import OpDef, arg_dtypes
from gdsurgeon.patterns.attrs import misfit, of_constant, spelt
from gdsurgeon.patterns.parse import replacement_of, rule_of
from gdsurgeon.patterns.terms import (
    MOST_EQUAL,
    Anything,
    AttrOf,
    AttrTest,
    AttrVariable,
    DTypeName,
    InputOf,
    Maker,
    Op,
    Ref,
    Replaced,
    Rule,
    Term,
    Value,
    Variable,
    constant_node,
    walk,
)
from gdsurgeon.specification.fuse_ops import Inside, function_violations
from gdsurgeon.specification.nodes import named_nodes, overwritten
from gdsurgeon.wire.protos import AttrValue


def rewrite(
    comparison: Comparison,
    pattern: str | Sequence[Rule],
    replacement: str | Maker | Graph | None = None,
    limit: int | None = None,
    of_largest: float = 1e-4,
    *,
    replaced: Sequence[Replaced] = (),
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; `replaced` is the edit's record of the replaced matches."""
    del of_largest  # an argument of the proof
    intent = Intent()
    if isinstance(replacement, Graph):
        rules = [*pattern] if not isinstance(pattern, str) else [rule_of(pattern, only_pattern=True)]
        added = comparison.facts.functions.added
        if len(added) != 1:
            yield f"{len(added)} functions were added, but exactly one replaces the matches"
            return
        intent.functions.added = [added[0]]
        text, inside = _call(replacement, added[0])
        yield from function_violations(comparison.after, added[0], inside, {})
        rules = [replace(rule, replacement=replacement_of(rule, text), make=None) for rule in rules]
    elif isinstance(pattern, str):
        is_whole = replacement is None or not isinstance(replacement, str)
        rules = [rule_of(pattern if is_whole else f"{pattern} -> {replacement}", only_pattern=replacement is not None)]
    else:
        rules = [*pattern]
    if limit is not None and len(replaced) > limit:
        yield f"{len(replaced)} matches were replaced, but only {limit} may be"
    replay = Replay(comparison, rules)
    try:
        replay.run(replaced)
    except NotAMatch as error:
        yield str(error)
    declare(replay.graph, intent)
    yield from audit(comparison, intent)


def _call(body: Graph, name: str) -> tuple[str, Inside]:
    """Returns the replacement that calls the function `name`, and the function that `body` must have become."""
    inputs = [node.name for node in body.nodes() if node.op in UNSET_PLACEHOLDERS]
    nodes = [node.name for node in body.nodes() if node.op not in UNSET_PLACEHOLDERS]
    named = named_nodes(body)
    results = [output for node in nodes if node in named for output in body[node].outputs]
    inside = Inside(body, nodes, inputs, [output.name for output in results], frozenset(), {})
    op = "StatefulPartitionedCall" if inside.stateful else "PartitionedCall"
    dtypes = [
        ", ".join(dtype_name(base_dtype(tensor.dtype)) for tensor in tensors)
        for tensors in ([body[each].output for each in inputs], results)
    ]
    arguments = ", ".join(f"${each}" for each in inputs)
    call = f'call={op}{{f="{name}", Tin=[{dtypes[0]}], Tout=[{dtypes[1]}]}}({arguments})'
    return f"({', '.join([call, *(f'call:{index}' for index in range(1, len(results)))])})", inside


class NotAMatch(Exception):
    """A recorded match is wrong, or must not be replaced."""


class Replay:
    """Replaces the recorded matches of rules once more, on a copy of the original graph.

    Args:
        comparison: of the graphs before and after.
        rules: the rules.
        match: verifies a record; `VerifiedMatch` by default.

    Attributes:
        graph: the graph with the replacements so far.
        named: the names of nodes that must be kept.
        written: nodes whose memory an op may write into.
    """

    def __init__(
        self,
        comparison: Comparison,
        rules: Sequence[Rule],
        match: Callable[[Replay, Rule, Replaced], VerifiedMatch] | None = None,
    ) -> None:
        self.comparison, self.rules, self._verified = comparison, rules, match or VerifiedMatch
        self.graph, self.named = comparison.before.copy(), named_nodes(comparison.before)
        self.written: set[Node] = set()
        self._forwarded: dict[Output, Output] = {}

    def run(self, replaced: Sequence[Replaced]) -> None:
        """Replaces the matches, round by round. Raises NotAMatch."""
        for _, records in groupby(replaced, lambda record: (record.rule, record.round)):
            self.written = overwritten(self.graph)
            matches = [self._verified(self, self.rules[record.rule], record) for record in records]
            members = [node for match in matches for node in match.members]
            if len(members) > len({*members}):
                raise NotAMatch("two replaced matches share a node")
            for match in matches:
                match.instantiate()
            self._replace(matches)

    def is_free(self, node: Node) -> bool:
        """Returns whether a node can be removed: its name is not used, and it has no control edges or colocations."""
        is_awaited = any(node in user.controls for user in self.graph.users(node))
        return not (node.name in self.named or node.controls or is_awaited or self.graph.colocated_with(node))

    def _replace(self, matches: Sequence[VerifiedMatch]) -> None:
        graph = self.graph
        going: list[Node] = []
        unused: dict[Node, None] = {}
        for match in matches:
            unused |= {read.node: None for node in (*match.outcomes, *match.going) for read in node.inputs}
            going += [*match.going, *self._put(match)]
        for node in going:
            for other in graph.colocated_with(node):
                graph.set_colocated(other, [each for each in other.colocated if each is not node])
        graph.remove(going)
        while going := [node for node in unused if self._is_unused(node)]:
            graph.remove(going)
            unused = {above: None for node in going for above in (*(read.node for read in node.inputs), *node.controls)}

    def _is_unused(self, node: Node) -> bool:
        graph, definition = self.graph, node.op_def
        if node not in graph or node.name in self.named or graph.users(node) or graph.colocated_with(node):
            return False
        return definition is not None and not definition.is_stateful and node.op not in PLACEHOLDERS | CONTROL_FLOW

    def _put(self, match: VerifiedMatch) -> list[Node]:
        """Puts the replacement of a match; returns the nodes of results, and temporary nodes, that are removed."""
        going = []
        for new in match.new:
            if not new.inputs:
                self.graph.set_controls(new, match.anchor())
        for root, result in zip(match.roots, match.results, strict=True):
            outcome = match.outcomes[root.node]
            while result in self._forwarded:
                result = self._forwarded[result]
            if outcome == "identity":
                self._become(root.node, "Identity", [result], {"T": serialized(type_value(base_dtype(root.dtype)))})
            elif outcome == "removed":
                self._reroute(root, result)
                going.append(root.node)
            elif result.node is not root.node:
                self._become(root.node, result.node.op, result.node.inputs, result.node.changed_attrs)
                for output in result.node.outputs:
                    self._reroute(output, Output(root.node, output.index))
                going.append(result.node)
        return list(dict.fromkeys(going))

    def _reroute(self, old: Output, new: Output) -> None:
        self.graph.reroute(self.graph.uses(old), new)
        self._forwarded[old] = new

    def _become(self, node: Node, op: str, inputs: Sequence[Output], attrs: Mapping[str, bytes | None]) -> None:
        lost = [key for key in node.attr_keys if key[:1] != "_" or key in ("_output_shapes", "_gradient_op_type")]
        self.graph.replace_op(node, op, inputs, {**dict.fromkeys(lost), **attrs})


def declare(graph: Graph, intent: Intent) -> None:
    """Declares the changes of an edited graph: all fields of its new and changed nodes."""
    for node in graph.touched():
        inputs, controls = tuple(read.name for read in node.inputs), frozenset(other.name for other in node.controls)
        if node.base_name is None:
            attrs = {key: node.attr_bytes(key) for key in node.attr_keys}
            intent.add(node.name, node.op, inputs, controls, node.device, attrs)
            continue
        intent.alter(node.name, {"op": node.op, "device": node.device, "inputs": inputs, "controls": controls})
        intent.alter(node.name, {f"attr {key}": data for key, data in node.changed_attrs.items()})
    intent.removed += graph.removed()


def serialized(value: AttrValue) -> bytes:
    """Returns the bytes of a value, with its maps in a fixed order."""
    return value.SerializeToString(deterministic=True)


def reader(attrs: Mapping[str, bytes]) -> Callable[[str], Plain | None]:
    """Returns a function that returns the plain value of an attr."""
    return lambda key: plain(attr_value(attrs[key])) if key in attrs else None


def value_of(tensor: Output) -> Constant | None:
    """Returns the value of the small constant that a tensor forwards."""
    node = constant_node(tensor)
    return None if node is None else constant(node)


class VerifiedMatch:
    """A recorded match, verified, and its replacement.

    Attributes:
        record: the record.
        members: the matched nodes.
        roots: the tensors that the match computes.
        going: the other nodes that are removed.
        new, results: the new nodes, and the tensors that replace `roots`; see `instantiate`.
        outcomes: what happens to each node of `roots`: it becomes a new node or an Identity, or is removed.

    Raises:
        NotAMatch: the record does not satisfy the pattern, or the match must not be replaced.
    """

    def __init__(self, replay: Replay, rule: Rule, record: Replaced) -> None:
        self.record, self._replay, self._graph = record, replay, replay.graph
        self._where = f"the match of {rule.text.strip()} at {quoted(record.placed[0])}"
        terms = [term for root in rule.pattern for term in walk(root) if isinstance(term, Op)]
        try:
            nodes = [self._graph[name] if name else None for name in record.placed]
            self._tensors = {name: self._graph.tensor(text) for name, text in record.tensors.items()}
        except EditError as error:
            raise self._wrong(error.message) from None
        self._placed = dict(zip(terms, nodes, strict=True))
        self._nodes = {term.label: node for term, node in self._placed.items() if term.label and node is not None}
        self._attrs: dict[str, bytes] = {}
        self.members = {node for node in nodes if node is not None}
        self.roots = [Output(self._node_of(term), term.port) for term in rule.pattern]
        if not all(self._has_placed(term, node) for term, node in self._placed.items() if node is not None):
            raise self._wrong("the nodes do not match the pattern")
        self._replacement = rule.replacement or replacement_of(rule, record.text)
        inner = [term for root in self._replacement for term in walk(root)]
        labels = {term.label for term in inner if isinstance(term, Ref)}
        kept_terms = [term for term in terms if term.label and term.label in labels]
        kept = {self._placed[below] for term in kept_terms for below in walk(term) if isinstance(below, Op)}
        roots = {root.node for root in self.roots}
        self._inside = self.members - (kept - roots)
        self.going = [node for node in self._inside if node not in roots]
        self._read = [tensor for term in inner for tensor in self._bound(term)]
        self._check_conditions()
        self._labels: dict[str, Node] = {}
        self.new: list[Node] = []
        self.results: list[Output] = []
        self.outcomes: dict[Node, str] = {}

    def _node_of(self, term: Op | Ref) -> Node:
        node = self._nodes.get(term.label) if isinstance(term, Ref) else self._placed[term]
        if node is None:
            raise self._wrong("a result has no node")
        return node

    def _wrong(self, why: str) -> NotAMatch:
        return NotAMatch(f"{self._where} was replaced, but {why}")

    def anchor(self) -> list[Node]:
        """Returns the control inputs of new constants: in a loop, the recorded ones among the tensors read."""
        if not any(op in CONTROL_FLOW for op in self._graph.store.table.op_names):
            return []
        names = [name for new, name in zip(self.new, self.record.made, strict=True) if not new.inputs]
        made = self._replay.comparison.after.find(names[0]) if names else None
        read = {tensor.node.name: tensor.node for tensor in self._read}
        return [] if made is None else [read[control.name] for control in made.controls if control.name in read]

    def _bound(self, term: Term) -> Sequence[Output]:
        """Returns the tensors of the graph that a term of the replacement stands for."""
        if isinstance(term, Variable):
            return [self._tensors[term.name]]
        if isinstance(term, InputOf):
            return self._nodes[term.label].inputs[term.first : None if term.rest else term.first + 1]
        if isinstance(term, Ref) and term.label in self._nodes:
            return [Output(self._nodes[term.label], term.port)]
        return []

    # -- the pattern -----------------------------------------------------------------------------------------

    def _has_placed(self, term: Op, node: Node) -> bool:
        """Returns whether a node has the op, the attrs and the inputs of a term of the pattern."""
        is_op = node.op in term.ops if term.ops else node.op not in CONTROL_FLOW | PLACEHOLDERS
        if not is_op or node in self._graph.ends or not self._has_attrs(term, node):
            return False
        terms, tensors = term.inputs, node.inputs
        if terms is None or (term.rest and len(tensors) > len(terms)):
            return all(map(self._is_bound, terms or (), tensors))
        is_commutative = node.op in COMMUTATIVE and (node.op != "Add" or node.output.dtype != STRING)
        orders = [tensors, tensors[::-1]] if is_commutative and len(tensors) == 2 else [tensors]
        return len(terms) == len(tensors) and any(all(map(self._is_bound, terms, order)) for order in orders)

    def _is_bound(self, term: Term, tensor: Output) -> bool:
        """Returns whether a tensor is the one that the record binds to a term of the pattern."""
        if isinstance(term, Variable):
            bound = self._tensors.get(term.name)
            return bound is not None and _is_of_kind(term, tensor) and _is_equal(bound, tensor)
        if isinstance(term, Value):
            return _is_value(term, value_of(tensor))
        if isinstance(term, Op) and self._placed[term] is None:
            return bool(term.optional and term.inputs and self._is_bound(term.inputs[0], tensor))
        if isinstance(term, Op | Ref):
            node = self._placed[term] if isinstance(term, Op) else self._nodes.get(term.label)
            return (node, term.port) == (tensor.node, tensor.index)
        return isinstance(term, Anything)

    def _has_attrs(self, term: Op, node: Node) -> bool:
        for test in term.attrs:
            if isinstance(test.value, AttrVariable):
                value = node.attr(test.key)
                if value is None or self._attrs.setdefault(test.value.name, found := serialized(value)) != found:
                    return False
            elif (have := node.setting(test.key)) is None or not satisfies(test, have):
                return False
        return True

    # -- conditions ------------------------------------------------------------------------------------------

    def _check_conditions(self) -> None:
        """Raises NotAMatch if a node outside needs a removed node, or a removed node has control inputs."""
        graph, inside = self._graph, self._inside
        for node in self.going:
            if node.name in self._replay.named or node.controls:
                raise self._wrong(f"{quoted(node.name)} must be kept")
            if not inside.issuperset(graph.users(node)):
                raise self._wrong(f"{quoted(node.name)} has other consumers")
        if any(tensor.node in self.going for tensor in self._read):
            raise self._wrong("the replacement reads a removed node")
        for node in {root.node for root in self.roots}:
            for tensor in (read for user in graph.users(node) if user not in inside for read in user.inputs):
                if tensor.node is node and tensor not in self.roots:
                    raise self._wrong(f"{quoted(tensor.name)} has consumers and no replacement")
        if any(node.output.dtype > REF for node in inside):
            raise self._wrong("a node is a reference")
        if not self._replay.written.isdisjoint(tensor.node for tensor in (*self._read, *self.roots)):
            raise self._wrong("an op may change a value in place")

    # -- the replacement -------------------------------------------------------------------------------------

    def instantiate(self) -> None:
        """Adds the nodes of the replacement to the graph; one that a matched node becomes has a temporary name."""
        try:
            self.results = [self._result(term, root) for term, root in zip(self._replacement, self.roots, strict=True)]
        except (ValueError, EditError, UsageError) as error:
            raise self._wrong(str(error)) from None
        if len(self.new) != len(self.record.made):
            raise self._wrong(f"the replacement has {len(self.new)} nodes, but {len(self.record.made)} are recorded")
        placed = dict(zip(self.new, self.record.made, strict=True))
        pairs = [*zip(self.roots, self.results, strict=True)]
        for node in dict.fromkeys(root.node for root in self.roots):
            mine = [(root.index, new) for root, new in pairs if root.node is node]
            first = mine[0][1].node
            if first in placed and all(new == Output(first, port) for port, new in mine):
                self.outcomes[node] = "in place"
                if placed.pop(first) != node.name:
                    raise self._wrong(f"{quoted(node.name)} did not become the node that replaces it")
            elif self._replay.is_free(node):
                self.outcomes[node] = "removed"
            elif [port for port, _ in mine] == [0]:
                self.outcomes[node] = "identity"
            else:
                raise self._wrong(f"{quoted(node.name)} lost its name")
        if any(new.name != name for new, name in placed.items()):
            raise self._wrong("a new node has the name of a matched node")

    def _result(self, term: Term, root: Output) -> Output:
        self._wanted = base_dtype(root.dtype)
        found = self._constant(term, self._wanted) if isinstance(term, Value) else self._tensor(term)
        if not same_dtype(found.dtype, root.dtype):
            raise self._wrong("the replacement has a different dtype")
        return found

    def _tensor(self, term: Term) -> Output:
        for tensor in self._bound(term):
            return tensor
        if isinstance(term, Ref):
            return Output(self._labels[term.label], term.port)
        assert isinstance(term, Op)
        node = self._node(term)
        if term.label:
            self._labels[term.label] = node
        return Output(node, term.port)

    def _add(self, op: str, inputs: Sequence[Output], attrs: Mapping[str, bytes]) -> Node:
        graph, made, number = self._graph, self.record.made, len(self.new)
        name = made[number] if number < len(made) else ""
        if not name or name in {root.node.name for root in self.roots}:
            name = graph.unique_names()(f"{self.roots[0].node.name}/new")
        self.new.append(graph.add(name, op, inputs, attrs=attrs, device=self.roots[0].node.device))
        return self.new[-1]

    def _constant(self, term: Value, dtype: int) -> Output:
        value = tensor_value(dtype, term.shape, term.values)
        return self._add("Const", (), {"value": serialized(value), "dtype": serialized(type_value(dtype))}).output

    def _node(self, term: Op) -> Node:
        like = self._nodes.get(term.same or term.like)
        op = like.op if term.same and like is not None else term.ops[0]
        definition = self._graph.op_def(op)
        assert definition is not None
        given = {test.key: self._attr(definition, test.key, test.value) for test in term.attrs}
        old = () if like is None else (key for key in like.attr_keys if key in definition.attrs and key not in given)
        attrs = {key: like.attr_bytes(key) or b"" for key in old if like is not None} | given
        found = list[Value | Output]()
        for each in term.inputs or ():
            is_several = isinstance(each, InputOf)
            found += self._bound(each) if is_several else [each if isinstance(each, Value) else self._tensor(each)]
        wanted = _typed(definition, attrs, given, found)
        for at, item in enumerate(found):
            if isinstance(item, Value):
                dtype = base_dtype(wanted[at]) if at < len(wanted) else 0
                found[at] = self._constant(item, STRING if item.is_text else dtype or self._wanted)
        inputs = [item for item in found if isinstance(item, Output)]
        wanted = _typed(definition, attrs, given, inputs)
        if (
            any(misfit(data, definition.attrs[key]) for key, data in attrs.items())
            or len(wanted) != len(inputs)
            or not all(same_dtype(dtype, tensor.dtype) for dtype, tensor in zip(wanted, inputs, strict=True))
            or any(key not in attrs and not attr.has_default for key, attr in definition.attrs.items())
        ):
            raise self._wrong(f"a new {op} would not be valid")
        return self._add(op, inputs, attrs)

    def _attr(self, definition: OpDef, key: str, value: object) -> bytes:
        if isinstance(value, AttrOf):
            node = self._nodes[value.label]
            held = node.attr_bytes(value.key)
            if held is None:
                raise self._wrong(f"{quoted(node.name)} has no attr {value.key}")
            return held
        if isinstance(value, AttrVariable):
            if value.name in self._attrs:
                return self._attrs[value.name]
            return of_constant(definition.attrs[key], value_of(self._tensors[value.name]))
        return spelt(definition.attrs[key], value)


def _typed(
    definition: OpDef, attrs: dict[str, bytes], given: Mapping[str, bytes], found: Sequence[Value | Output]
) -> list[int]:
    """Adds the attrs that inputs determine and those that are `given` to `attrs`; returns the dtype of each input."""
    dtypes = [base_dtype(item.dtype) if isinstance(item, Output) else 0 for item in found]
    attrs |= {key: serialized(value) for key, value in said_by_inputs(definition, dtypes).items()}
    attrs |= given
    return arg_dtypes(definition.inputs, definition, reader(attrs))


def _is_equal(one: Output, other: Output) -> bool:
    """Returns whether two tensors are the same, or small constants with the same value."""
    a, b = value_of(one), value_of(other)
    if one == other or a is None or b is None or max(len(a.values), len(b.values)) > MOST_EQUAL:
        return one == other
    return (a.dtype, a.shape, *map(repr, a.values)) == (b.dtype, b.shape, *map(repr, b.values))


def _is_of_kind(term: Variable, tensor: Output) -> bool:
    if not term.kind:
        return True
    node, wanted = constant_node(tensor), term.dims
    header = constant_header(node) if node is not None else None
    if header is None or header.dims is None:
        return False
    if wanted is not None and (
        len(wanted) != len(header.dims) or any(want not in (-1, dim) for want, dim in zip(wanted, header.dims))  # noqa: B905
    ):
        return False
    if term.kind == "scalar" and header.elements != 1:
        return False
    if term.bounds is None:
        return True
    found, (low, high) = value_of(tensor), term.bounds
    return found is not None and all(isinstance(v, int | float) and low <= v <= high for v in found.values)


def _is_value(term: Value, found: Constant | None) -> bool:
    if found is None or (term.shape and term.shape != found.shape):
        return False
    if not found.values:
        return bool(term.shape)
    near = 1e-3 if found.dtype == FLOAT16 else 1e-5
    for index, have in enumerate(found.values):
        want = term.values[index] if term.shape else term.values[0]
        if isinstance(have, bytes) or isinstance(have, bool) != isinstance(want, bool):
            return False
        if have != want and (isinstance(have, int) or not are_near(have, want, near)):
            return False
    return True


def satisfies(test: AttrTest, have: object) -> bool:
    """Returns whether the value `have` of an attribute passes `test`."""
    if test.relation in ("=", "!="):
        return _same(have, test.value) == (test.relation == "=")
    if isinstance(have, bool) or not isinstance(have, int | float) or not isinstance(test.value, int | float):
        return False
    below, equal = have < test.value, have == test.value
    return {"<": below, "<=": below or equal, ">": not below and not equal, ">=": not below}[test.relation]


def are_near(have: float, want: float, near: float) -> bool:
    """Returns whether two numbers differ by at most the fraction `near` of `want`."""
    return abs(want) != inf and abs(have - want) <= near * abs(want)


def _same(have: object, want: object) -> bool:
    if isinstance(want, list):
        return isinstance(have, list) and len(have) == len(want) and all(map(_same, have, want))
    if isinstance(want, DTypeName):
        return have == want.number
    if isinstance(want, str):
        return have in (want, want.encode())
    if isinstance(have, bool) != isinstance(want, bool):
        return False
    if isinstance(have, int | float) and isinstance(want, int | float):
        return have == want or (isinstance(have, float) and are_near(have, want, 1e-5))
    return False
