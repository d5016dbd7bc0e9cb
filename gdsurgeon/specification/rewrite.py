"""rewrite: what the rules come to, done once more by plain means, is what is written, node by node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, Rewired, made
from gdsurgeon.errors import EditError, UsageError
from gdsurgeon.graph.attrs import said_by_inputs, type_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, format_input
from gdsurgeon.graph.node import Output, same_dtype
from gdsurgeon.ops.dtypes import REF, base_dtype, dtype_name
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS, UNSET_PLACEHOLDERS
from gdsurgeon.ops.op_defs import Arg, OpDef, arg_dtypes
from gdsurgeon.patterns.attrs import misfit, of_constant, spelt
from gdsurgeon.patterns.check import replacement_of, rule_of
from gdsurgeon.patterns.terms import AttrOf, AttrVariable, Maker, Match, Op, Ref, Rule, Term, Value, Variable, walk
from gdsurgeon.specification import fused_function
from gdsurgeon.specification.fused_function import Inside
from gdsurgeon.specification.left_matches import Chosen, Planned, Way
from gdsurgeon.specification.named_nodes import named_nodes
from gdsurgeon.specification.overwriting import overwritten
from gdsurgeon.specification.plain_match import Cell, Cells, Env, PlainMatch, Tensor, reader

ROUNDS, WAYS = 16, 64


def violations(
    comparison: Comparison,
    pattern: str | Sequence[Rule],
    replacement: str | Maker | Graph | None = None,
    limit: int | None = None,
    of_largest: float = 1e-4,
    *,
    left: Collection[Way] = (),
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; what the edit has LEFT since shapes would be others."""
    del of_largest  # of the proof
    before = comparison.before
    chosen = Chosen(comparison, left)
    cells = Cells(before)
    work = _Work(cells, named_nodes(before), chosen)
    intent = Intent()
    if isinstance(replacement, Graph):
        rules = [*pattern] if not isinstance(pattern, str) else [rule_of(pattern, only_pattern=True)]
        added = comparison.facts.functions.added
        if len(added) != 1:
            yield f"{len(added)} functions were added, but exactly one replaces the matches"
            return
        intent.functions.added = [added[0]]
        placed = _Placed(replacement, added[0])
        yield from fused_function.violations(comparison.after, added[0], placed.inside, {})
        rules = [replace(rule, replacement=replacement_of(rule, placed.text), make=None) for rule in rules]
    else:
        rules = [*pattern] if not isinstance(pattern, str) else [_rule(pattern, replacement)]
    for number, rule in enumerate(rules):
        work.apply(rule, number, limit)
    for name, cell in cells.cells.items():
        reads = [format_input(*tensor) for tensor in cell.reads]
        if name not in before:
            intent.added.append(name)
            intent.altered += made(name, cell.op, reads, cell.controls, cell.device, dict(cell.attrs))
        elif name in work.became:
            intent.changed.append(name)
            old = before[name]
            attrs = {key: cell.attrs.get(key) for key in dict.fromkeys((*old.attr_keys, *cell.attrs))}
            intent.altered += [Altered(name, "op", cell.op), Altered(name, "inputs", tuple(reads))]
            intent.altered += [Altered(name, f"attr {key}", value) for key, value in attrs.items()]
        else:
            was = [read.name for read in before[name].inputs]
            slots = enumerate(zip(was, reads, strict=True))
            intent.rewired += [Rewired(name, slot, old, new) for slot, (old, new) in slots if old != new]
    intent.removed = [name for name in cells.gone if name in before]
    yield from audit(comparison, intent)


class _Placed:
    """A graph that takes the place of matches, as the function NAME."""

    def __init__(self, body: Graph, name: str) -> None:
        inputs = [node.name for node in body.nodes() if node.op in UNSET_PLACEHOLDERS]
        nodes = [node.name for node in body.nodes() if node.op not in UNSET_PLACEHOLDERS]
        named = named_nodes(body)
        results = [o for n in nodes if n in named for o in body[n].outputs]
        self.inside = Inside(body, nodes, inputs, [output.name for output in results], frozenset(), {})
        op = "StatefulPartitionedCall" if self.inside.stateful else "PartitionedCall"
        given = ", ".join(dtype_name(base_dtype(body[each].output.dtype)) for each in inputs)
        made = ", ".join(dtype_name(base_dtype(output.dtype)) for output in results)
        read = ", ".join(f"${each}" for each in inputs)
        call = f'call={op}{{f="{name}", Tin=[{given}], Tout=[{made}]}}({read})'
        self.text = f"({', '.join([call, *(f'call:{index}' for index in range(1, len(results)))])})"


def _rule(pattern: str, replacement: str | Maker | None) -> Rule:
    if replacement is None or isinstance(replacement, str):
        return rule_of(pattern if replacement is None else f"{pattern} -> {replacement}")
    return replace(rule_of(pattern, only_pattern=True), make=replacement)


class _Left(Exception):
    """A match stays."""


class _Work:
    def __init__(self, cells: Cells, named: set[str], chosen: Chosen) -> None:
        self.cells, self.named, self.chosen = cells, named, chosen
        self.became: set[str] = set()  # nodes that are others now
        self.stands: dict[Tensor, Tensor] = {}
        self.done = 0
        self.written: set[str] = set()  # what may be in memory that somebody writes into
        self.turn = (0, 0)  # which rule, and which round of it
        self._made: set[str] = set()
        self._levels: dict[str, int] | None = None

    def apply(self, rule: Rule, number: int, limit: int | None) -> None:
        self._made = set()
        for round_ in range(ROUNDS):
            self.turn = number, round_
            sites = self._sites(rule, None if limit is None else limit - self.done)
            if not sites:
                return
            self.done += len(sites)
            self._carry_out(sites)

    def level(self, name: str) -> int:
        if self._levels is None:
            self._levels = self.cells.levels()
        return self._levels[name]

    # -- which ---------------------------------------------------------------------------------------------

    def _sites(self, rule: Rule, most: int | None) -> list[_Site]:
        self._levels = None
        self.written = overwritten(self.cells)
        match = PlainMatch(self.cells, rule, {node.name for node in self.cells.graph.ends})
        roots = match.roots()
        alone = [site for root in roots if (site := self._at(match, root, ())) is not None]
        members = [name for site in alone for name in {*site.env.placed.values()}]
        if len(rule.pattern) > 1 or most is not None or len(members) > len({*members}):
            alone = []
            taken: set[str] = set()
            for root in sorted(roots, key=lambda name: (self.level(name), self.cells.row(name))):
                site = self._at(match, root, taken) if root not in taken and len(alone) != most else None
                if site is not None:
                    alone.append(site)
                    taken.update(site.env.placed.values())
        return sorted(alone, key=lambda site: self.cells.row(site.roots[0][0]))

    def _at(self, match: PlainMatch, root: str, taken: Iterable[str]) -> _Site | None:
        for env in islice(match.ways(root, {*taken}), WAYS):
            if self.chosen.is_left(env):
                continue
            try:
                site = _Site(self, match.rule, env)
            except _Left:
                continue
            if self.chosen.keeps_shape(*self.turn, site):
                return site
        return None

    def is_free(self, name: str) -> bool:
        """Whether a node may go without its name being missed."""
        waited = any(name in self.cells.node(user).controls for user in self.cells.users(name))
        beside = name in self.cells.graph and any(
            each.name in self.cells for each in self.cells.graph.colocated_with(self.cells.graph[name])
        )
        return name not in self.named and not self.cells.node(name).controls and not waited and not beside

    def is_own(self, names: Iterable[str]) -> bool:
        return all(name in self._made for name in names)

    # -- done ----------------------------------------------------------------------------------------------

    def _carry_out(self, sites: Sequence[_Site]) -> None:
        cells = self.cells
        unique = UniqueNames(lambda name: name in cells)
        going: list[str] = []
        loose: dict[str, None] = {}  # each once: what many read is not asked for again with each of them
        for site in sites:
            loose |= {read: None for name in (*site.fates, *site.going) for read, _ in cells.node(name).reads}
            going += [*site.going, *self._put(site, unique)]
        for name in dict.fromkeys(going):
            cells.drop(name)
        while loose:
            names, loose = loose, {}
            for name in names:
                loose |= self._dropped(name)

    def _dropped(self, name: str) -> dict[str, None]:
        """Takes NAME out where nobody needs it any longer; returns what it has read, which may go then."""
        cells = self.cells
        if name not in cells or name in self.named or not self._may_go(name) or cells.is_used(name):
            return {}
        if name in cells.graph and any(n.name in cells for n in cells.graph.colocated_with(cells.graph[name])):
            return {}
        cell = cells.node(name)
        cells.drop(name)
        return dict.fromkeys([*(read for read, _ in cell.reads), *cell.controls])

    def _may_go(self, name: str) -> bool:
        op, definition = self.cells.op(name), self.cells.definition(name)
        return definition is not None and not definition.is_stateful and op not in PLACEHOLDERS | CONTROL_FLOW

    def now(self, tensor: Tensor) -> Tensor:
        while tensor in self.stands:
            tensor = self.stands[tensor]
        return tensor

    def _put(self, site: _Site, unique: UniqueNames) -> list[str]:
        """Puts what takes the place of a match there; returns the nodes of results that go."""
        cells, first = self.cells, site.roots[0][0]
        names: dict[int, str] = {}
        for root, result in zip(site.roots, site.results, strict=True):
            if site.fates[root[0]] == "in place":
                names[result[0]] = root[0]  # type: ignore[index]

        def settled(tensor: Planned) -> Tensor:
            node, port = tensor
            return (names[node], port) if isinstance(node, int) else self.now((node, port))

        for number, new in enumerate(site.news):
            reads = [settled(tensor) for tensor in new.reads]
            if number in names:
                self._become(names[number], replace(new, reads=reads))
                continue
            name = names[number] = unique(f"{first}/{new.op}")
            controls = [] if reads else list(site.anchor)
            cells.add(name, Cell(new.op, reads, controls, new.attrs, cells.node(first).device))
            self._made.add(name)
        going = []
        for root, result in zip(site.roots, site.results, strict=True):
            new_tensor = settled(result)
            if site.fates[root[0]] == "identity":
                dtype = type_value(base_dtype(cells.dtype(root))).SerializeToString(deterministic=True)
                self._become(root[0], Cell("Identity", [new_tensor], [], {"T": dtype}))
            elif site.fates[root[0]] == "gone":
                for user in cells.users(root[0]):
                    cell = cells.node(user)
                    cells.put(user, replace(cell, reads=[new_tensor if t == root else t for t in cell.reads]))
                self.stands[root] = new_tensor
                going.append(root[0])
        return going

    def _become(self, name: str, new: Cell) -> None:
        old = self.cells.node(name)
        stale = ("_output_shapes", "_gradient_op_type")
        kept = {key: data for key, data in old.attrs.items() if key[0] == "_" and key not in stale}
        self.cells.put(name, Cell(new.op, new.reads, old.controls, {**kept, **new.attrs}, old.device))
        self._made.add(name)
        if name in self.cells.graph:
            self.became.add(name)


class _Site:
    """A match with what takes its place. Raises _Left: it stays."""

    def __init__(self, work: _Work, rule: Rule, env: Env) -> None:
        self.work, self.cells, self.env = work, work.cells, env
        self.news: list[Cell] = []
        self._labels: dict[str, int] = {}
        self.roots = [(env.nodes[r.label] if isinstance(r, Ref) else env.placed[r], r.port) for r in rule.pattern]
        self.match = self._match()
        terms = rule.replacement
        if terms is None:
            try:
                text = rule.make(self.match) if rule.make is not None else None
            except KeyError:  # it asks for what no file has
                text = None
            if text is None:
                raise _Left
            terms = replacement_of(rule, text)
        refs = {t.label for root in terms for t in walk(root) if isinstance(t, Ref)}
        kept_terms = [
            t for root in rule.pattern for t in walk(root) if isinstance(t, Op) and t.label in refs and t.label
        ]
        kept = {
            env.placed[below] for t in kept_terms for below in walk(t) if isinstance(below, Op) and below in env.placed
        }
        ends = {name for name, _ in self.roots}
        self.kept = kept - ends
        self.going = [n for n in dict.fromkeys(env.placed.values()) if n not in ends and n not in self.kept]
        read = [self._found(t) for root in terms for t in walk(root) if self._is_read(t)]
        self._check(read)
        self.anchor = self._anchor([tensor for tensor in dict.fromkeys(read) if tensor is not None])
        try:
            self.results = [self._result(term, root) for term, root in zip(terms, self.roots, strict=True)]
        except (ValueError, EditError, UsageError):
            raise _Left from None
        self.fates = self._fates()
        members = {*env.placed.values()}
        if work.is_own(members) and len(self.going) + len(self.fates) <= len(self.news):
            raise _Left

    def _match(self) -> Match:
        """The match as a function is given it: in nodes of the file, where it is of these."""
        graph, env = self.cells.graph, self.env
        tensors = {k: Output(graph[n], port) for k, (n, port) in env.tensors.items() if n in graph}
        roots = tuple(Output(graph[name], port) for name, port in self.roots if name in graph)
        return Match(tensors, {k: graph[n] for k, n in env.nodes.items() if n in graph}, env.attrs, roots)

    def _is_read(self, term: Term) -> bool:
        return isinstance(term, Variable) or (isinstance(term, Ref) and term.label in self.env.nodes)

    def _found(self, term: Term) -> Tensor | None:
        if isinstance(term, Variable):
            return self.env.tensors[term.name]
        return (self.env.nodes[term.label], term.port) if isinstance(term, Ref) else None

    def _anchor(self, read: Sequence[Tensor]) -> list[str]:
        """Only in loops, where whatever it is comes out of the written graph; its values are what the run shows."""
        first = self.roots[0][0]
        after = self.work.chosen.comparison.after
        name = next((n for n in (f"{first}/Const", first) if n in after), None)
        controls = [] if name is None else [control.name for control in after[name].controls]
        return [c for c in controls if c in {n for n, _ in read}] if self.work.chosen.flows else []

    def _check(self, read: Sequence[Tensor | None]) -> None:
        """Nobody outside needs what goes, and nothing of it waits for another node."""
        cells, inside = self.cells, {*self.env.placed.values()} - self.kept
        for name in self.going:
            if name in self.work.named or cells.node(name).controls:
                raise _Left
            if not all(user in inside for user in cells.readers(name)):
                raise _Left
        if any(tensor is not None and tensor[0] in self.going for tensor in read):
            raise _Left
        results = {*self.roots}
        for root in {name for name, _ in self.roots}:
            for user in cells.users(root):
                for tensor in cells.node(user).reads:
                    if tensor[0] == root and tensor not in results and user not in inside:
                        raise _Left
        if any(cells.dtype((name, 0)) > REF for name in inside):
            raise _Left
        given = {tensor[0] for tensor in read if tensor is not None} | {name for name, _ in self.roots}
        if not given.isdisjoint(self.work.written):
            raise _Left
        if len({name for name, _ in self.roots}) > 1:
            first = min(self.work.level(name) for name, _ in self.roots)
            if any(tensor is not None and self.work.level(tensor[0]) >= first for tensor in read):
                raise _Left

    # -- what takes its place --------------------------------------------------------------------------------

    def _result(self, term: Term, root: Tensor) -> Planned:
        self._wanted = base_dtype(self.cells.dtype(root))
        found = self._constant(term, self._wanted) if isinstance(term, Value) else self._tensor(term)
        if not same_dtype(self._dtype(found), self.cells.dtype(root)):
            raise _Left
        return found

    def _tensor(self, term: Term) -> Planned:
        if isinstance(term, Variable):
            return self.env.tensors[term.name]
        if isinstance(term, Ref):
            if term.label in self._labels:
                return self._labels[term.label], term.port
            return self.env.nodes[term.label], term.port
        assert isinstance(term, Op)
        number = self._node(term)
        if term.label:
            self._labels[term.label] = number
        return number, term.port

    def _dtype(self, tensor: Planned) -> int:
        if isinstance(tensor[0], str):
            return self.cells.dtype((tensor[0], tensor[1]))
        cell = self.news[tensor[0]]
        definition = self.cells.graph.op_def(cell.op)
        assert definition is not None
        return arg_dtypes(definition.outputs, definition, reader(cell.attrs))[tensor[1]]

    def _constant(self, term: Value, dtype: int) -> Planned:
        value = tensor_value(dtype, term.shape, term.values).SerializeToString(deterministic=True)
        attrs = {"value": value, "dtype": type_value(dtype).SerializeToString(deterministic=True)}
        self.news.append(Cell("Const", [], [], attrs))
        return len(self.news) - 1, 0

    def _node(self, term: Op) -> int:
        like = self.env.nodes.get(term.same or term.like)
        op = self.cells.op(like) if term.same and like is not None else term.ops[0]
        definition = self.cells.graph.op_def(op)
        assert definition is not None
        old = {} if like is None else self.cells.all_attrs(like)
        attrs = {key: data for key, data in old.items() if key in definition.attrs}
        given = {test.key: self._attr(definition, test.key, test.value) for test in term.attrs}
        inputs = term.inputs or ()
        plain = [None if isinstance(each, Value) else self._tensor(each) for each in inputs]
        args = _args(definition, len(inputs))
        types = {a.type_attr: base_dtype(self._dtype(t)) for a, t in zip(args, plain, strict=True) if t is not None}
        reads: list[Planned] = []
        for arg, each, tensor in zip(args, inputs, plain, strict=True):
            if tensor is not None:
                reads.append(tensor)
                continue
            held = reader({**attrs, **given})(arg.type_attr)
            default = definition.attrs[arg.type_attr].default if arg.type_attr else 0
            dtype = arg.dtype or types.get(arg.type_attr) or held or default or self._wanted
            assert isinstance(each, Value)
            reads.append(self._constant(each, dtype if isinstance(dtype, int) else 0))
        said = said_by_inputs(definition, [base_dtype(self._dtype(tensor)) for tensor in reads])
        attrs |= {key: value.SerializeToString(deterministic=True) for key, value in said.items()} | given
        for key, data in attrs.items():
            if misfit(data, definition.attrs[key]):
                raise _Left
        takes = arg_dtypes(definition.inputs, definition, reader(attrs))
        if not all(same_dtype(a, self._dtype(t)) for a, t in zip(takes, reads, strict=True)):
            raise _Left
        if any(key not in attrs and not attr.has_default for key, attr in definition.attrs.items()):
            raise _Left
        self.news.append(Cell(op, reads, [], attrs))  # type: ignore[arg-type]
        return len(self.news) - 1

    def _attr(self, definition: OpDef, key: str, value: object) -> bytes:
        if isinstance(value, AttrOf):
            held = self.cells.all_attrs(self.env.nodes[value.label]).get(value.key)
            if held is None:
                raise _Left
            return held
        if isinstance(value, AttrVariable):
            if value.name in self.env.attrs:
                return self.env.attrs[value.name]
            return of_constant(definition.attrs[key], self.cells.value(self.env.tensors[value.name][0]))
        return spelt(definition.attrs[key], value)

    def _fates(self) -> dict[str, str]:
        """What becomes of the nodes that give results."""
        out: dict[str, str] = {}
        owned: set[int] = set()
        for name in dict.fromkeys(name for name, _ in self.roots):
            given = [(root[1], new) for root, new in zip(self.roots, self.results, strict=True) if root[0] == name]
            new = {result[0] for _, result in given}
            only = next(iter(new)) if len(new) == 1 else None
            if isinstance(only, int) and only not in owned and all(port == result[1] for port, result in given):
                owned.add(only)
                if self._is_already(name):
                    raise _Left
                out[name] = "in place"
            elif self.work.is_free(name):
                out[name] = "gone"
            elif len(given) == 1 and given[0][0] == 0:
                cell = self.cells.node(name)
                if cell.op == "Identity" and [*cell.reads] == [given[0][1]]:
                    raise _Left
                out[name] = "identity"
            else:
                raise _Left
        return out

    def _is_already(self, name: str) -> bool:
        cell = self.cells.node(name)
        if len(self.news) != 1:
            return False
        attrs = {key: data for key, data in cell.attrs.items() if key[0] != "_"}
        return (cell.op, [*cell.reads], attrs) == (self.news[0].op, [*self.news[0].reads], self.news[0].attrs)


def _args(definition: OpDef, count: int) -> list[Arg]:
    """For each of COUNT inputs its argument."""
    lists = [arg for arg in definition.inputs if arg.number_attr or arg.list_attr]
    each = (count - len(definition.inputs) + len(lists)) // len(lists) if lists else 1
    return [arg for arg in definition.inputs for _ in range(each if arg in lists else 1)]
