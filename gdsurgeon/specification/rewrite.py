"""rewrite: each recorded match satisfies its pattern, and the written graph has the nodes of its replacement.

The edit records which nodes each pattern has matched (`gdsurgeon.patterns.terms.Replaced`). This checker searches for
nothing: it verifies the record on the graph as it was before that round, instantiates the replacement, and compares
all nodes of the result with the written graph. Whether other matches were missed is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import inf

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, Rewired, made
from gdsurgeon.errors import EditError, UsageError, quoted
from gdsurgeon.graph.attrs import attr_value, said_by_inputs, type_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import same_dtype
from gdsurgeon.ops.dtypes import FLOAT16, REF, STRING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import COMMUTATIVE, CONTROL_FLOW, PLACEHOLDERS, UNSET_PLACEHOLDERS
from gdsurgeon.ops.op_defs import Arg, OpDef, arg_dtypes
from gdsurgeon.patterns.attrs import misfit, of_constant, spelt
from gdsurgeon.patterns.check import replacement_of, rule_of
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
    walk,
)
from gdsurgeon.specification.drafts import AttrReader, Draft, DraftNode, Tensor, named_nodes, overwritten
from gdsurgeon.specification.fuse_ops import Inside, function_violations

NewTensor = tuple["str | int", int]
"""An output of a node of the graph, by name, or of a new node, by its index among the new nodes."""


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
    replay.declare(intent)
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
    """Replaces the recorded matches of rules once more.

    Args:
        comparison: of the graphs before and after.
        rules: the rules.
        match: verifies a record; `VerifiedMatch` by default.

    Attributes:
        draft: the graph with the replacements so far.
    """

    def __init__(
        self,
        comparison: Comparison,
        rules: Sequence[Rule],
        match: Callable[[Replay, Rule, Replaced], VerifiedMatch] | None = None,
    ) -> None:
        self.comparison, self.rules, self._verified = comparison, rules, match or VerifiedMatch
        self.draft = Draft(comparison.before)
        self.named = named_nodes(comparison.before)
        self.written: set[str] = set()  # nodes whose memory an op may write into
        self.became: set[str] = set()  # nodes of the original that are different now
        self._forwarded: dict[Tensor, Tensor] = {}

    def run(self, replaced: Sequence[Replaced]) -> None:
        """Replaces the matches, round by round. Raises NotAMatch."""
        for _, records in groupby(replaced, lambda record: (record.rule, record.round)):
            self.written = overwritten(self.draft)
            matches = [self._verified(self, self.rules[record.rule], record) for record in records]
            members = [name for match in matches for name in match.members]
            if len(members) > len({*members}):
                raise NotAMatch("two replaced matches share a node")
            self._replace(matches)

    def declare(self, intent: Intent) -> None:
        """Adds the changes to `intent`: how each changed node must be now."""
        before, draft = self.comparison.before, self.draft
        for name, node in draft.changed.items():
            inputs = [format_input(*tensor) for tensor in node.inputs]
            if name not in before:
                intent.added.append(name)
                intent.altered += made(name, node.op, inputs, node.controls, node.device, dict(node.attrs))
            elif name in self.became:
                intent.changed.append(name)
                attrs = {key: node.attrs.get(key) for key in dict.fromkeys((*before[name].attr_keys, *node.attrs))}
                intent.altered += [Altered(name, "op", node.op), Altered(name, "inputs", tuple(inputs))]
                intent.altered += [Altered(name, f"attr {key}", value) for key, value in attrs.items()]
            else:
                slots = enumerate(zip((read.name for read in before[name].inputs), inputs, strict=True))
                intent.rewired += [Rewired(name, slot, old, new) for slot, (old, new) in slots if old != new]
        intent.removed += [name for name in draft.removed if name in before]

    def is_free(self, name: str) -> bool:
        """Returns whether a node can be removed: its name is not used, and it has no control edges or colocations."""
        draft = self.draft
        has_control_outputs = any(name in draft.node(user).controls for user in draft.users(name))
        is_colocated = name in draft.graph and any(
            each.name in draft for each in draft.graph.colocated_with(draft.graph[name])
        )
        return name not in self.named and not draft.node(name).controls and not has_control_outputs and not is_colocated

    def _replace(self, matches: Sequence[VerifiedMatch]) -> None:
        draft = self.draft
        going: list[str] = []
        loose: dict[str, None] = {}
        for match in matches:
            loose |= {read: None for name in (*match.results_of, *match.going) for read, _ in draft.node(name).inputs}
            going += [*match.going, *self._put(match)]
        for name in dict.fromkeys(going):
            draft.drop(name)
        while loose:
            names, loose = loose, {}
            for name in names:
                loose |= self._dropped(name)

    def _dropped(self, name: str) -> dict[str, None]:
        """Removes a node that no node uses any more; returns its producers, which may be unused then."""
        draft = self.draft
        if name not in draft or name in self.named or any(True for _ in draft.users(name)):
            return {}
        definition = draft.definition(name)
        if definition is None or definition.is_stateful or draft.op(name) in PLACEHOLDERS | CONTROL_FLOW:
            return {}
        if name in draft.graph and any(n.name in draft for n in draft.graph.colocated_with(draft.graph[name])):
            return {}
        node = draft.node(name)
        draft.drop(name)
        return dict.fromkeys(node.producers())

    def _put(self, match: VerifiedMatch) -> list[str]:
        """Puts the replacement of a match; returns the nodes of results that are removed."""
        draft, first = self.draft, match.roots[0][0]

        def current(tensor: NewTensor) -> Tensor:
            node, port = tensor
            found = (match.record.made[node], port) if isinstance(node, int) else (node, port)
            while found in self._forwarded:
                found = self._forwarded[found]
            return found

        for new, name in zip(match.new, match.record.made, strict=True):
            node = replace(new, inputs=[current(tensor) for tensor in new.inputs])
            if name in match.results_of:
                self._become(name, node)
            elif name in draft:
                raise NotAMatch(f"the new node {quoted(name)} has the name of an existing node")
            else:
                node.controls = [] if node.inputs else match.anchor()
                node.device = draft.node(first).device
                draft.put(name, node)
        going = []
        for root, result in zip(match.roots, match.results, strict=True):
            tensor, outcome = current(result), match.results_of[root[0]]
            if outcome == "identity":
                dtype = type_value(base_dtype(draft.dtype(root))).SerializeToString(deterministic=True)
                self._become(root[0], DraftNode("Identity", [tensor], [], {"T": dtype}))
            elif outcome == "removed":
                for user in [*draft.users(root[0])]:
                    node = draft.node(user)
                    draft.put(user, replace(node, inputs=[tensor if t == root else t for t in node.inputs]))
                self._forwarded[root] = tensor
                going.append(root[0])
        return going

    def _become(self, name: str, new: DraftNode) -> None:
        old = self.draft.node(name)
        stale = ("_output_shapes", "_gradient_op_type")
        kept = {key: data for key, data in old.attrs.items() if key[0] == "_" and key not in stale}
        self.draft.put(name, DraftNode(new.op, new.inputs, old.controls, {**kept, **new.attrs}, old.device))
        if name in self.draft.graph:
            self.became.add(name)


class VerifiedMatch:
    """A recorded match, verified, and its replacement.

    Attributes:
        record: the record.
        members: the matched nodes.
        roots, results: the tensors that the match computes, and what replaces each of them.
        results_of: what happens to each node of `roots`.
        going: the other nodes that are removed.
        new: the nodes of the replacement.

    Raises:
        NotAMatch: the record does not satisfy the pattern, or the match must not be replaced.
    """

    def __init__(self, replay: Replay, rule: Rule, record: Replaced) -> None:
        self.record, self._replay, self._draft = record, replay, replay.draft
        self._where = f"the match of {rule.text.strip()} at {quoted(record.placed[0])}"
        terms = [term for root in rule.pattern for term in walk(root) if isinstance(term, Op)]
        self._placed = dict(zip(terms, record.placed, strict=True))
        self._tensors: dict[str, Tensor] = {}
        for variable, text in record.tensors.items():
            ref = parse_tensor(text)
            self._tensors[variable] = (ref.node, ref.port)
        self._nodes = {term.label: name for term, name in self._placed.items() if term.label and name}
        self._attrs: dict[str, bytes] = {}
        self.members = {name for name in record.placed if name}
        for name in (*self.members, *(name for name, _ in self._tensors.values())):
            if name not in self._draft:
                raise self._wrong(f"{quoted(name)} does not exist")
        self.roots = [(self._nodes[r.label] if isinstance(r, Ref) else self._placed[r], r.port) for r in rule.pattern]
        for root, tensor in zip(rule.pattern, self.roots, strict=True):
            if not self._holds(root, tensor):
                raise self._wrong("the nodes do not match the pattern")
        replacement = rule.replacement if rule.replacement is not None else replacement_of(rule, record.text)
        inner = [term for root in replacement for term in walk(root)]
        labels = {term.label for term in inner if isinstance(term, Ref)}
        kept_terms = [term for term in terms if term.label and term.label in labels]
        kept = {self._placed[below] for term in kept_terms for below in walk(term) if isinstance(below, Op)}
        self._kept = kept - {name for name, _ in self.roots}
        self.going = [name for name in self.members - self._kept if name not in {root for root, _ in self.roots}]
        self._read = [tensor for term in inner for tensor in self._bound(term)]
        self._check_conditions()
        self._labels: dict[str, int] = {}
        self.new: list[DraftNode] = []
        try:
            self.results = [self._result(term, root) for term, root in zip(replacement, self.roots, strict=True)]
        except (ValueError, EditError, UsageError) as error:
            raise self._wrong(str(error)) from None
        if len(self.new) != len(record.made):
            raise self._wrong(f"the replacement has {len(self.new)} nodes, but {len(record.made)} are recorded")
        self.results_of = self._outcomes()

    def _wrong(self, why: str) -> NotAMatch:
        return NotAMatch(f"{self._where} was replaced, but {why}")

    def anchor(self) -> list[str]:
        """Returns the control inputs of new constants: in a loop, the recorded ones among the tensors read."""
        if not any(op in CONTROL_FLOW for op in self._draft.graph.store.table.op_names):
            return []
        names = [name for new, name in zip(self.new, self.record.made, strict=True) if not new.inputs]
        made = self._replay.comparison.after.find(names[0]) if names else None
        controls = [] if made is None else [control.name for control in made.controls]
        return [control for control in controls if control in {name for name, _ in self._read}]

    def _bound(self, term: Term) -> list[Tensor]:
        """Returns the tensors of the graph that a term of the replacement stands for."""
        if isinstance(term, Variable):
            return [self._tensors[term.name]]
        if isinstance(term, InputOf):
            inputs = self._draft.node(self._nodes[term.label]).inputs
            return inputs[term.first :] if term.rest else inputs[term.first : term.first + 1]
        return [(self._nodes[term.label], term.port)] if isinstance(term, Ref) and term.label in self._nodes else []

    # -- the pattern -----------------------------------------------------------------------------------------

    def _holds(self, term: Term, tensor: Tensor) -> bool:
        """Returns whether a term of the pattern matches a tensor with the recorded bindings."""
        name = tensor[0]
        if isinstance(term, Anything):
            return True
        if isinstance(term, Variable):
            bound = self._tensors.get(term.name)
            return bound is not None and self._is_kind(term, name) and self._is_equal(bound, tensor)
        if isinstance(term, Value):
            return self._is_value(term, name)
        if not isinstance(term, Op):
            return isinstance(term, Ref) and (self._nodes.get(term.label), term.port) == tensor
        if not self._placed[term]:
            return bool(term.optional and term.inputs and self._holds(term.inputs[0], tensor))
        op = self._draft.op(name)
        is_op = op in term.ops or (not term.ops and op not in CONTROL_FLOW and op not in PLACEHOLDERS)
        if (self._placed[term], term.port) != tensor or not is_op or name in {n.name for n in self._draft.graph.ends}:
            return False
        return self._has_attrs(term, name) and self._has_inputs(term, name)

    def _has_inputs(self, term: Op, name: str) -> bool:
        terms, tensors = term.inputs, self._draft.node(name).inputs
        if terms is None:
            return True
        if len(tensors) < len(terms) or (len(tensors) > len(terms) and not term.rest):
            return False
        bound = dict(self._attrs)
        if all(map(self._holds, terms, tensors)):
            return True
        self._attrs = bound
        op = self._draft.op(name)
        is_commutative = op in COMMUTATIVE and (op != "Add" or self._draft.dtype((name, 0)) != STRING)
        return len(tensors) == len(terms) == 2 and is_commutative and all(map(self._holds, terms, tensors[::-1]))

    def _is_equal(self, one: Tensor, other: Tensor) -> bool:
        """Returns whether two tensors are the same, or small constants with the same value."""
        a, b = self._draft.value(one[0]), self._draft.value(other[0])
        if one == other or a is None or b is None or max(len(a.values), len(b.values)) > MOST_EQUAL:
            return one == other
        return (a.dtype, a.shape, *map(repr, a.values)) == (b.dtype, b.shape, *map(repr, b.values))

    def _is_kind(self, term: Variable, name: str) -> bool:
        if not term.kind:
            return True
        header, wanted = self._draft.header(name), term.dims
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
        found, (low, high) = self._draft.value(name), term.bounds
        return found is not None and all(isinstance(v, int | float) and low <= v <= high for v in found.values)

    def _is_value(self, term: Value, name: str) -> bool:
        found = self._draft.value(name)
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

    def _has_attrs(self, term: Op, name: str) -> bool:
        node, definition = self._draft.node(name), self._draft.definition(name)
        for test in term.attrs:
            if isinstance(test.value, AttrVariable):
                if test.key not in node.attrs:
                    return False
                data = attr_value(node.attrs[test.key]).SerializeToString(deterministic=True)
                if self._attrs.setdefault(test.value.name, data) != data:
                    return False
                continue
            have: object = AttrReader(node.attrs)(test.key)
            if have is None and definition is not None and test.key in definition.attrs:
                have = definition.attrs[test.key].default
            if have is None or not satisfies(test, have):
                return False
        return True

    # -- conditions ------------------------------------------------------------------------------------------

    def _check_conditions(self) -> None:
        """Raises NotAMatch if a node outside needs a removed node, or a removed node has control inputs."""
        draft, inside = self._draft, self.members - self._kept
        for name in self.going:
            if name in self._replay.named or draft.node(name).controls:
                raise self._wrong(f"{quoted(name)} must be kept")
            if not all(user in inside for user in draft.users(name)):
                raise self._wrong(f"{quoted(name)} has other consumers")
        if any(tensor[0] in self.going for tensor in self._read):
            raise self._wrong("the replacement reads a removed node")
        for root in {name for name, _ in self.roots}:
            for user in draft.users(root):
                for tensor in draft.node(user).inputs:
                    if tensor[0] == root and tensor not in self.roots and user not in inside:
                        raise self._wrong(f"{quoted(format_input(*tensor))} has consumers and no replacement")
        if any(draft.dtype((name, 0)) > REF for name in inside):
            raise self._wrong("a node is a reference")
        ends = {name for name, _ in (*self._read, *self.roots)}
        if not ends.isdisjoint(self._replay.written):
            raise self._wrong("an op may change a value in place")

    def _outcomes(self) -> dict[str, str]:
        """Returns what happens to each node of the results: it becomes a new node or an Identity, or is removed."""
        out: dict[str, str] = {}
        used: set[int] = set()
        for name in dict.fromkeys(name for name, _ in self.roots):
            pairs = [(port, new) for (root, port), new in zip(self.roots, self.results, strict=True) if root == name]
            nodes = {new[0] for _, new in pairs}
            only = next(iter(nodes)) if len(nodes) == 1 else None
            if isinstance(only, int) and only not in used and all(port == new[1] for port, new in pairs):
                used.add(only)
                out[name] = "in place"
                if self.record.made[only] != name:
                    raise self._wrong(f"{quoted(name)} did not become the node that replaces it")
            elif self._replay.is_free(name):
                out[name] = "removed"
            elif len(pairs) == 1 and pairs[0][0] == 0:
                out[name] = "identity"
            else:
                raise self._wrong(f"{quoted(name)} lost its name")
        return out

    # -- the replacement -------------------------------------------------------------------------------------

    def _result(self, term: Term, root: Tensor) -> NewTensor:
        self._wanted = base_dtype(self._draft.dtype(root))
        found = self._constant(term, self._wanted) if isinstance(term, Value) else self._tensor(term)
        if not same_dtype(self._dtype(found), self._draft.dtype(root)):
            raise self._wrong("the replacement has a different dtype")
        return found

    def _tensor(self, term: Term) -> NewTensor:
        for tensor in self._bound(term):
            return tensor
        if isinstance(term, Ref):
            return self._labels[term.label], term.port
        assert isinstance(term, Op)
        index = self._node(term)
        if term.label:
            self._labels[term.label] = index
        return index, term.port

    def _dtype(self, tensor: NewTensor) -> int:
        if isinstance(tensor[0], str):
            return self._draft.dtype((tensor[0], tensor[1]))
        node = self.new[tensor[0]]
        definition = self._draft.graph.op_def(node.op)
        assert definition is not None
        return arg_dtypes(definition.outputs, definition, AttrReader(node.attrs))[tensor[1]]

    def _constant(self, term: Value, dtype: int) -> NewTensor:
        value = tensor_value(dtype, term.shape, term.values).SerializeToString(deterministic=True)
        attrs = {"value": value, "dtype": type_value(dtype).SerializeToString(deterministic=True)}
        self.new.append(DraftNode("Const", [], [], attrs))
        return len(self.new) - 1, 0

    def _node(self, term: Op) -> int:
        like = self._nodes.get(term.same or term.like)
        op = self._draft.op(like) if term.same and like is not None else term.ops[0]
        definition = self._draft.graph.op_def(op)
        assert definition is not None
        old = {} if like is None else self._draft.all_attrs(like)
        attrs = {key: data for key, data in old.items() if key in definition.attrs}
        given = {test.key: self._attr(definition, test.key, test.value) for test in term.attrs}
        terms: list[Term] = []
        tensors: list[NewTensor | None] = []
        for each in term.inputs or ():
            found: list[NewTensor | None] = [None] if isinstance(each, Value) else []
            found += self._bound(each) if isinstance(each, InputOf) else [] if found else [self._tensor(each)]
            terms += [each] * len(found)
            tensors += found
        args = _args(definition, len(terms), AttrReader({**attrs, **given}))
        types = {a.type_attr: base_dtype(self._dtype(t)) for a, t in zip(args, tensors, strict=True) if t is not None}
        inputs: list[NewTensor] = []
        for arg, each, tensor in zip(args, terms, tensors, strict=True):
            if tensor is not None:
                inputs.append(tensor)
                continue
            held = AttrReader({**attrs, **given})(arg.type_attr)
            default = definition.attrs[arg.type_attr].default if arg.type_attr else 0
            dtype = (
                (STRING if isinstance(each, Value) and each.is_text else arg.dtype)
                or types.get(arg.type_attr)
                or held
                or default
                or self._wanted
            )
            assert isinstance(each, Value)
            inputs.append(self._constant(each, dtype if isinstance(dtype, int) else 0))
        said = said_by_inputs(definition, [base_dtype(self._dtype(tensor)) for tensor in inputs])
        attrs |= {key: value.SerializeToString(deterministic=True) for key, value in said.items()} | given
        wanted = arg_dtypes(definition.inputs, definition, AttrReader(attrs))
        if (
            any(misfit(data, definition.attrs[key]) for key, data in attrs.items())
            or not all(same_dtype(dtype, self._dtype(tensor)) for dtype, tensor in zip(wanted, inputs, strict=True))
            or any(key not in attrs and not attr.has_default for key, attr in definition.attrs.items())
        ):
            raise self._wrong(f"a new {op} would not be valid")
        self.new.append(DraftNode(op, inputs, [], attrs))  # type: ignore[arg-type]
        return len(self.new) - 1

    def _attr(self, definition: OpDef, key: str, value: object) -> bytes:
        if isinstance(value, AttrOf):
            held = self._draft.all_attrs(self._nodes[value.label]).get(value.key)
            if held is None:
                raise self._wrong(f"{quoted(self._nodes[value.label])} has no attr {value.key}")
            return held
        if isinstance(value, AttrVariable):
            if value.name in self._attrs:
                return self._attrs[value.name]
            return of_constant(definition.attrs[key], self._draft.value(self._tensors[value.name][0]))
        return spelt(definition.attrs[key], value)


def _args(definition: OpDef, count: int, read: AttrReader) -> list[Arg]:
    """Returns the argument of each of `count` inputs; the attrs have the lengths of several lists."""
    lists = [arg for arg in definition.inputs if arg.number_attr or arg.list_attr]
    left = count - len(definition.inputs) + len(lists)
    sizes = {arg.name: left // len(lists) for arg in lists}
    for arg in lists if len(lists) > 1 else ():
        held = read(arg.number_attr or arg.list_attr)
        sizes[arg.name] = len(held) if isinstance(held, list) else held if isinstance(held, int) else sizes[arg.name]
    return [arg for arg in definition.inputs for _ in range(sizes.get(arg.name, 1))]


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
