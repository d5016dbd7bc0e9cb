"""compat: converts a graph for an older release of TensorFlow, with older forms of ops that the release lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter

from gdsurgeon.analysis.queries.compatibility import Unknown, told, unknown_to
from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.analysis.shapes.inference import called_shapes, given_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.edits.claims import Claim, EditResult, SameOutputs, Site, Stage, claims_apart
from gdsurgeon.edits.decorator import edit
from gdsurgeon.edits.downgrade import control_flow, tensor_lists
from gdsurgeon.edits.downgrade.candidate import ROUNDING, Analysis, Candidate, Rule
from gdsurgeon.edits.downgrade.forms import HARMLESS, RULES
from gdsurgeon.edits.rewriting.rounds import PlannedRewrite, RewriteLog
from gdsurgeon.edits.simplifying.functions import written
from gdsurgeon.edits.simplifying.passes import served_nodes
from gdsurgeon.errors import EditError, Json, NothingToDo, Remark, UsageError, printable, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLS, CONVOLUTIONS, PRODUCTS
from gdsurgeon.ops.releases import OTHERWISE, Release, release, releases
from gdsurgeon.patterns.attrs import default_of, same_value
from gdsurgeon.patterns.terms import Replaced
from gdsurgeon.specification.specify import Asked
from gdsurgeon.text import Entry, counted, nearest, suggestion
from gdsurgeon.values import Tolerance
from gdsurgeon.wire.protos import VersionDef

MOST_STEPS = 8
"""The largest number of replacements of one node in sequence; each is an older form of the previous one."""
MOST_GROUPS = 2
"""The largest number of groups of replaced nodes that run in isolation, the first nodes of each op first."""


@edit()
def compat(graph: Graph, target: str, *, rtol: float | None = None, atol: float | None = None) -> EditResult:
    """Converts a graph for the release `target` of TensorFlow.

    Attrs that the release lacks are removed if they have the default value of the newest release. Ops become older
    forms that compute the same values. The versions of the file become those of the release.

    Args:
        graph: changed in place.
        target: a release, ``1.15`` or ``1.15.5``.
        rtol, atol: the largest difference of outputs; by default that of the older forms (`Rule.tolerance`, nearly
            always 0), and the rounding of kernels if matrix products were in functions.

    Raises:
        UsageError: the release is unknown.
        EditError: some ops or attrs have no older form; the details list them, and the graph is unchanged.
        NothingToDo: the release can load the graph.
    """
    work = _Work(graph, known_release(target))
    result = work.carry_out()
    if not graph.is_changed:
        raise NothingToDo(f"nothing would change: TensorFlow {work.release.name} can already load the graph")
    return replace(result, claims=tuple(work.claims(rtol, atol)))


def known_release(target: str) -> Release:
    """Returns the release `target`. Raises UsageError if it is unknown."""
    found = release(target)
    if found is None:
        names = [each.name for each in releases()]
        # A number that is too small or too large is not a typo: 1.3 is not 1.13.
        near = None if target.replace(".", "").isdecimal() else nearest(target, names)
        known = f"known releases are {names[0]} to {names[-1]}.{suggestion(near)}"
        message = f"TensorFlow {quoted(target)} is not a known release; {known}"
        raise UsageError(message, code="no-such-release", target=target, near=near, releases=[*names])
    return found


class _Work:
    """Converts a graph.

    Attributes:
        tolerance: the largest difference that the older forms may cause.
        lowering: the stage that replaced loops, conditionals and calls by their nodes, if that was needed.
        inside: the changed functions, by name: the body, and the result.
    """

    def __init__(self, graph: Graph, wanted: Release) -> None:
        self.graph = graph
        self.release = wanted
        self.newest = releases()[-1]
        self.tolerance = 0.0
        self.lowering: Stage | None = None
        self.inside: dict[str, tuple[Graph, EditResult]] = {}
        self._before = graph.pristine()
        self._replaced: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._notes: dict[str, None] = {}
        self._records: dict[str, list[Replaced]] = {}  # by function; '' for the graph
        self._sites: dict[str, tuple[list[str], Rule]] = {}  # the inputs of each replaced node, and the rule
        self._reasons: list[EditError] = []
        self._refused: dict[tuple[str, str], Remark] = {}  # by function and node

    def carry_out(self) -> EditResult:
        """Converts the graph; returns the changes, without claims. Raises EditError; the graph is changed then."""
        inner = _ops_in_functions(self.graph)
        ops = inner | topology_of(self.graph).ops()
        if control_flow.is_needed(ops, self.release) or tensor_lists.is_needed(ops, self.release):
            self._lower(ROUNDING if inner & (PRODUCTS | CONVOLUTIONS) else 0.0)
        called = called_shapes(self.graph) if len(self.graph.functions) else {}
        intent = self._convert(self.graph, "", {})
        for name in sorted(used_functions(self.graph)):
            if name in self.graph.functions:
                self._convert_function(name, called)
        self._set_versions(intent)
        left = unknown_to(self.graph, self.release)
        if left or self._reasons:
            raise self._not_compatible(left)
        intent.functions.changed = [*self.inside]
        facts: dict[str, Json] = {
            "target": self.release.name,
            "replaced": dict(self._replaced),
            "dropped": dict(self._dropped),
            "producer": min(self.graph.store.producer, self.release.version),
        }
        result = EditResult(intent, told=[*self._told()], notes=[*self._notes], facts=facts, inside=self.inside)
        result.decided = {"replaced": self._records}
        if self.lowering is None:
            return result
        stages = (self.lowering, Stage(self._before, replace(result)))
        return replace(result, intent=self.lowering.result.intent.then(intent), stages=stages)

    def _lower(self, tolerance: float) -> None:
        """Converts loops, conditionals and calls to version 1; the reason is recorded if that is impossible.

        Args:
            tolerance: the rounding of the nodes of functions, which other kernels may run then.
        """
        functions = [function.signature.name for function in self.graph.functions]
        spare = written(self.graph)
        try:
            for op, count in control_flow.lower(self.graph).items():
                self._replaced[f"{op}  ->  {'its nodes' if op in CALLS else 'version 1 control flow'}"] += count
            ops = _ops_in_functions(self.graph) | topology_of(self.graph).ops()
            if tensor_lists.is_needed(ops, self.release):
                self._replaced["lists of tensors  ->  TensorArrayV3"] += tensor_lists.make_arrays(
                    self.graph, self.release
                )
        except EditError as error:
            self._reasons.append(error)
            self.graph = spare
            return
        self.tolerance = tolerance
        touched = self.graph.touched()
        added = [node.name for node in touched if node.base_name is None]
        gone = [*self.graph.removed()]
        intent = Intent(
            added=added,
            removed=[name for name in gone if name not in {*added}],
            changed=[node.name for node in touched if node.base_name is not None],
            functions=FunctionChanges(removed=[name for name in functions if name not in self.graph.functions]),
        )
        asked = Asked("lower_control_flow", {"target": self.release.name})
        self.lowering = Stage(self._before, EditResult(intent, asked=asked))
        self._before = written(self.graph)

    def _not_compatible(self, left: Sequence[Unknown]) -> EditError:
        """Returns the error that lists the remaining nodes, each with the reason why it has no older form."""
        pairs = [(each, self._refused.get((each.function, each.node))) for each in left]
        texts = told([each._replace(text=f"{each.text}; {why}") if why else each for each, why in pairs])
        unknown: list[Json] = [
            {"function": function, "node": node, "op": op, "kind": kind, "attr": key, "reason": why and why.as_json()}
            for (function, node, op, kind, key, _), why in pairs
        ]
        reasons: list[Json] = [{"code": error.code, **error.facts} for error in self._reasons]
        return EditError(
            f"{printable(self.graph.source_name)} cannot be converted for TensorFlow {self.release.name}:",
            code="not-compatible",
            details=(*texts, *(error.message for error in self._reasons)),
            target=self.release.name,
            unknown=unknown,
            reasons=reasons,
        )

    # -- nodes ---------------------------------------------------------------------------------------------

    def _convert(self, graph: Graph, function: str, given: Mapping[Output, Shape]) -> Intent:
        """Replaces the nodes of a graph, or of the body of `function`, by older forms; returns the changes.

        Args:
            graph: changed in place.
            function: the name of the function, or ''.
            given: known shapes.
        """
        changed = self._fit_attrs(graph, _nodes_of(graph, lambda op: not self.release.knows_as(op, self.newest)))
        self._dropped.update(what for _, what in changed if what)
        analysis, log = Analysis(graph, self.release, given), RewriteLog(graph)
        named = {*output_nodes(graph), *served_nodes(graph), *graph.ends}
        nodes = _nodes_of(graph, RULES.__contains__)
        for round_ in range(MOST_STEPS):
            planned = [plan for node in nodes if (plan := self._planned(analysis, node, function)) is not None]
            done = len(log.replaced)
            log.carry_out(planned, named, 0, round_)
            self._fit_attrs(graph, [graph[name] for record in log.replaced[done:] for name in record.made])
            nodes = [plan.roots[0].node for plan in planned]
        self._notes.update(analysis.notes)
        self._records[function] = log.replaced
        intent = log.intent()
        intent.changed = [*dict.fromkeys([*intent.changed, *(node.name for node, _ in changed)])]
        return intent

    def _planned(self, analysis: Analysis, node: Node, function: str) -> PlannedRewrite | None:
        """Returns the plan for the older form of a node; None if it needs none, or has none."""
        rule, known = RULES.get(node.op), self.release.op_def(node.op)
        keys = [key for key in node.attr_keys if known is not None and key not in known.attrs and key[:1] != "_"]
        if rule is None or not (keys or known is None or self.release.takes_less(node.op)):
            return None
        form = rule.form if isinstance(rule.form, str) else rule.form(Candidate(analysis, node))
        if isinstance(form, Remark):
            self._refused[function, node.name] = form
        if form is None or isinstance(form, Remark):
            return None
        self._replaced[f"{node.op}  ->  {rule.to}"] += 1
        if not function and node.base_name is not None:
            read, earlier = self._sites.get(node.name, ([tensor.name for tensor in node.inputs], rule))
            self._sites[node.name] = read, max(rule, earlier, key=attrgetter("tolerance"))
        self.tolerance = max(self.tolerance, rule.tolerance)
        return analysis.planned(node, form)

    def _fit_attrs(self, graph: Graph, nodes: Iterable[Node]) -> list[tuple[Node, str]]:
        """Removes attrs that the release lacks and that have no effect, and adds attrs with different defaults.

        Returns:
            the changed nodes, each with a text about a removed attr, or ''.
        """
        changed: list[tuple[Node, str]] = []
        for node in nodes:
            old, new = self.release.op_def(node.op), self.newest.op_def(node.op)
            if old is None or new is None:
                continue
            for key in node.attr_keys:
                is_harmless = key in HARMLESS.get(node.op, ())
                is_default = key != OTHERWISE.get(node.op) and same_value(node.attr_bytes(key), new.attrs.get(key))
                if key not in old.attrs and not key.startswith("_") and (is_harmless or is_default):
                    graph.set_attr(node, key, None)
                    why = "does not affect values" if is_harmless else "has its default value"
                    changed.append((node, f"{node.op}.{key}, which {why}"))
            for attr in old.attrs.values():
                newer = new.attrs.get(attr.name)
                if newer is None or not newer.has_default or node.has_attr(attr.name):
                    continue
                if not attr.has_default or attr.default != newer.default:
                    graph.set_attr(node, attr.name, default_of(newer))
                    changed.append((node, ""))
        return changed

    def _convert_function(self, name: str, called: dict[str, list[Shape]]) -> None:
        """Replaces the nodes of a function by older forms."""
        try:
            body = Body(self.graph, name)
        except EditError:
            return  # its dtypes depend on its calls; faults are reported
        intent = self._convert(body.graph, name, given_shapes(body, called))
        if body.graph.is_edited:
            self.graph.functions.replace(body.function_def())
            self.inside[name] = body.graph, EditResult(intent)

    def _set_versions(self, intent: Intent) -> None:
        was, wanted, now = self.graph.store.versions, self.release.version, VersionDef()
        now.CopyFrom(was)
        now.producer, now.min_consumer = min(was.producer, wanted), min(was.min_consumer, wanted)
        del now.bad_consumers[:]
        now.bad_consumers.extend(version for version in was.bad_consumers if version != wanted)
        if now != was:
            intent.graph_fields["versions"] = data = now.SerializeToString(deterministic=True)
            self.graph.set_versions(data)

    # -- results ------------------------------------------------------------------------------------------

    def claims(self, rtol: float | None, atol: float | None) -> Iterator[Claim]:
        """Yields the claims that outputs are the same, and that replaced nodes compute the same values in isolation.

        If there are very many, the first of each op are run. Nodes in functions are compared only by the outputs.
        """
        relative, absolute = (self.tolerance if given is None else given for given in (rtol, atol))
        is_called = bool(self.inside) or self.lowering is not None
        # Some forms need finite tensors for equal values.
        finite = tuple(read[rule.finite] for read, rule in self._sites.values() if rule.finite is not None)
        yield SameOutputs(Tolerance(relative, absolute), as_written=is_called, finite=finite)
        turns: Counter[str] = Counter()
        found: dict[float, list[tuple[int, Site]]] = {}
        for name, (read, rule) in self._sites.items():
            node, before = self.graph[name], self.graph.pristine()[name]
            returned = min(each.output_count or 0 for each in (node, before))
            pairs = [(format_input(name, index),) * 2 for index in range(returned)]
            if pairs and all(parse_tensor(tensor).node in self.graph for tensor in read):
                allowed = max(rule.tolerance, relative) if rule.tolerance else 0.0
                found.setdefault(allowed, []).append((turns[before.op], Site(tuple(read), tuple(pairs))))
                turns[before.op] += 1
        for allowed, sites in sorted(found.items()):
            ordered = [site for _, site in sorted(sites, key=itemgetter(0))]
            yield from claims_apart(ordered, Tolerance(of_largest=allowed), MOST_GROUPS)

    def _told(self) -> Iterator[Entry]:
        for what, count in self._replaced.items():
            yield Entry("replaced", f"{what}: {counted(count, 'node')}")
        for what, count in self._dropped.items():
            yield Entry("dropped", f"{what}: {counted(count, 'node')}")
        was = self.graph.store.versions
        if was.producer > self.release.version:
            written = f"{self.release.version}, as written by TensorFlow {self.release.name}"
            yield Entry("versions", f"producer {was.producer}  ->  {written}")
        if was.min_consumer > self.release.version:
            yield Entry("versions", f"min_consumer {was.min_consumer}  ->  {self.release.version}")
        if self.release.version in was.bad_consumers:
            yield Entry("versions", f"bad_consumers: {self.release.version} removed")


def _ops_in_functions(graph: Graph) -> set[str]:
    """Returns the ops of the functions that a graph uses."""
    library = graph.functions
    return {node.op for name in used_functions(graph) if name in library for node in library[name].node_def}


def _nodes_of(graph: Graph, is_meant: Callable[[str], bool]) -> list[Node]:
    """Returns the nodes with selected ops, without the arguments and results of a function."""
    topology = topology_of(graph)
    nodes = map(topology.node, topology.with_ops(op for op in topology.ops() if is_meant(op)))
    return [node for node in nodes if node not in graph.ends]
