"""compat: converts a graph for an older release of TensorFlow, with older forms of ops that the release lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from gdsurgeon.analysis.queries.compatibility import Unknown, told, unknown_to
from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.analysis.shapes.inference import called_shapes, given_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.edits.claims import Claim, EditResult, SameOutputs, SameSites, claims_apart
from gdsurgeon.edits.claims import Site as ClaimedSite
from gdsurgeon.edits.decorator import edit
from gdsurgeon.edits.downgrade import control_flow, tensor_lists
from gdsurgeon.edits.downgrade.candidate import ROUNDING, Analysis, Candidate, Rule
from gdsurgeon.edits.downgrade.forms import HARMLESS, RULES
from gdsurgeon.errors import EditError, Json, NothingToDo, Remark, UsageError, printable, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLS, CONVOLUTIONS, PRODUCTS
from gdsurgeon.ops.op_defs import AttrDef
from gdsurgeon.ops.releases import OTHERWISE, Release, release, releases
from gdsurgeon.patterns.attrs import default_of, same_value
from gdsurgeon.text import Entry, counted, nearest, suggestion
from gdsurgeon.wire.protos import VersionDef
from gdsurgeon.wire.write import ChunkSource

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
    wanted = known_release(target)
    _Work(_copy(graph), wanted).carry_out()
    work = _Work(graph, wanted)
    work.carry_out()
    if not graph.is_changed:
        raise NothingToDo(f"nothing would change: TensorFlow {wanted.name} can already load the graph")
    relative, absolute = (work.tolerance if given is None else given for given in (rtol, atol))
    outputs = SameOutputs(relative, absolute, as_written=bool(work.bodies) or work.lowered, finite=work.finite)
    return work.result((outputs, *work.claims_of_sites(relative)))


def _tolerance(rule: Rule) -> float:
    return rule.tolerance


def known_release(target: str) -> Release:
    """Returns the release `target`. Raises UsageError if it is unknown."""
    found = release(target)
    if found is None:
        first, last = releases()[0].name, releases()[-1].name
        # A number that is too small or too large is not a typo: 1.3 is not 1.13.
        is_number = target.replace(".", "").isdecimal()
        near = None if is_number else nearest(target, [each.name for each in releases()])
        raise UsageError(
            f"TensorFlow {quoted(target)} is not a known release; known releases are {first} to "
            f"{last}.{suggestion(near)}",
            code="no-such-release",
            facts={"target": target, "near": near, "releases": [each.name for each in releases()]},
        )
    return found


def _copy(graph: Graph) -> Graph:
    """Returns a copy of the graph."""
    out = Graph(ChunkSource(graph.chunks(), graph.source_name))
    out.serving = graph.serving
    return out


class _Work:
    """Converts a graph.

    Attributes:
        bodies: the changed functions, by name.
        lowered: whether loops, conditionals and calls were replaced by their nodes.
        tolerance: the largest difference that the older forms may cause.
    """

    def __init__(self, graph: Graph, wanted: Release) -> None:
        self.graph = graph
        self.release = wanted
        self.newest = releases()[-1]
        self.bodies: dict[str, Body] = {}
        self._versions: bytes | None = None
        self._replaced: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._notes: dict[str, None] = {}
        self.lowered = False
        self.tolerance = 0.0
        self._sites: dict[str, tuple[list[str], Rule]] = {}  # the inputs of each replaced node, and the rule
        self._functions = [function.signature.name for function in graph.functions]
        self._reasons: list[EditError] = []
        self._refused: dict[tuple[str, str], str] = {}  # by function and node

    def carry_out(self) -> None:
        """Converts the graph. Raises EditError; the graph is changed then."""
        if control_flow.is_needed(self.graph, self.release) or tensor_lists.is_needed(self.graph, self.release):
            self._lower()
        called = called_shapes(self.graph) if len(self.graph.functions) else {}
        self._mend(self.graph, "", {})
        for name in sorted(used_functions(self.graph)):
            if name in self.graph.functions:
                self._mend_function(name, called)
        self._say_versions()
        left = unknown_to(self.graph, self.release)
        if left or self._reasons:
            raise EditError(
                f"{printable(self.graph.source_name)} cannot be converted for TensorFlow {self.release.name}:",
                code="not-compatible",
                details=(
                    *told([self._with_reason(each) for each in left]),
                    *(error.message for error in self._reasons),
                ),
                facts={
                    "target": self.release.name,
                    "unknown": [self._as_json(each) for each in left],
                    "reasons": [{"code": error.code, **error.facts} for error in self._reasons],
                },
            )

    def _lower(self) -> None:
        """Converts loops, conditionals and calls to version 1; the reason is recorded if that is impossible."""
        inner = {node.op for name in used_functions(self.graph) if name in self.graph.functions
                 for node in self.graph.functions[name].node_def}  # fmt: skip
        try:
            for op, count in control_flow.lower(self.graph).items():
                self._replaced[f"{op}  ->  {'its nodes' if op in CALLS else 'version 1 control flow'}"] += count
            if tensor_lists.is_needed(self.graph, self.release):
                self._replaced["lists of tensors  ->  TensorArrayV3"] += tensor_lists.make_arrays(
                    self.graph, self.release
                )
            self.lowered = True
            if inner & (PRODUCTS | CONVOLUTIONS):
                self.tolerance = ROUNDING
        except EditError as error:
            self._reasons.append(error)
            self.graph = _copy(self.graph.pristine())

    def _with_reason(self, unknown: Unknown) -> Unknown:
        """Adds the reason why a node has no older form."""
        why = self._refused.get((unknown.function, unknown.node), "")
        return unknown._replace(text=f"{unknown.text}; {why}") if why else unknown

    def _as_json(self, unknown: Unknown) -> Json:
        """Returns a remaining node, and the reason, as JSON."""
        why = self._refused.get((unknown.function, unknown.node))
        reason = why.as_json() if isinstance(why, Remark) else None
        _, node, op, kind, key, _ = unknown
        return {"function": unknown.function, "node": node, "op": op, "kind": kind, "attr": key, "reason": reason}

    # -- nodes ---------------------------------------------------------------------------------------------

    def _mend(self, graph: Graph, function: str, given: Mapping[Output, Shape]) -> None:
        """Replaces the nodes of a graph, or of the body of `function`, by older forms; `given` has known shapes."""
        analysis = Analysis(graph, self.release, given)
        for node in _nodes_of(graph, lambda op: op in RULES and not self._takes_all(op)):
            self._mend_node(analysis, node, function)
        for node in _nodes_of(graph, lambda op: not self.release.knows_as(op, self.newest)):
            self._mend_attrs(graph, node)
        self._notes.update(analysis.notes)

    def _mend_node(self, analysis: Analysis, node: Node, function: str) -> None:
        read = [tensor.name for tensor in node.inputs]
        for _ in range(MOST_STEPS):
            rule = RULES.get(node.op)
            if rule is None or not self._is_wanting(node):
                return
            old = node.op
            why = rule.apply(Candidate(analysis, node))
            if why is None:
                return
            if why:
                self._refused[function, node.name] = why
                return
            self._replaced[f"{old}  ->  {rule.to}"] += 1
            if not function and node.base_name is not None:
                known = self._sites.get(node.name)
                self._sites[node.name] = read, rule if known is None else max(rule, known[1], key=_tolerance)
            self.tolerance = max(self.tolerance, rule.tolerance)

    def _takes_all(self, op: str) -> bool:
        """Returns whether the release supports an op as the newest release does."""
        return self.release.knows_as(op, self.newest) and not self.release.takes_less(op)

    def _is_wanting(self, node: Node) -> bool:
        """Returns whether the release lacks the op of a node, or an attr without default value."""
        definition = self.release.op_def(node.op)
        if definition is None or self.release.takes_less(node.op):
            return True
        newest = self.newest.op_def(node.op)
        attrs = newest.attrs if newest is not None else {}
        return any(
            key not in definition.attrs and not (key in attrs and same_value(node.attr_bytes(key), attrs[key]))
            for key in node.attr_keys
            if not key.startswith("_")
        )

    def _mend_attrs(self, graph: Graph, node: Node) -> None:
        """Removes attrs that the release lacks and that have no effect, and adds attrs with different defaults."""
        if self.release.knows_as(node.op, self.newest):
            return
        old, new = self.release.op_def(node.op), self.newest.op_def(node.op)
        if old is None or new is None:
            return
        for key in node.attr_keys:
            if key in old.attrs or key.startswith("_"):
                continue
            if self._says_nothing(node, key, new.attrs.get(key)):
                graph.set_attr(node, key, None)
                why = "does not affect values" if key in HARMLESS.get(node.op, ()) else "has its default value"
                self._dropped[f"{node.op}.{key}, which {why}"] += 1
        for attr in old.attrs.values():
            newer = new.attrs.get(attr.name)
            if newer is None or not newer.has_default or node.has_attr(attr.name):
                continue
            if not attr.has_default or attr.default != newer.default:
                graph.set_attr(node, attr.name, default_of(newer))

    @staticmethod
    def _says_nothing(node: Node, key: str, newer: AttrDef | None) -> bool:
        if key in HARMLESS.get(node.op, ()):
            return True
        if key == OTHERWISE.get(node.op):
            return False
        return newer is not None and same_value(node.attr_bytes(key), newer)

    def _mend_function(self, name: str, called: dict[str, list[Shape]]) -> None:
        """Replaces the nodes of a function by older forms."""
        try:
            body = Body(self.graph, name)
        except EditError:
            return  # its dtypes depend on its calls; faults are reported
        self._mend(body.graph, name, given_shapes(body, called))
        if body.graph.is_edited:
            self.graph.functions.replace(body.function_def())
            self.bodies[name] = body

    # -- versions ------------------------------------------------------------------------------------------

    def _say_versions(self) -> None:
        versions = VersionDef()
        versions.CopyFrom(self.graph.store.versions)
        versions.producer = min(versions.producer, self.release.version)
        versions.min_consumer = min(versions.min_consumer, self.release.version)
        kept = [version for version in versions.bad_consumers if version != self.release.version]
        if len(kept) < len(versions.bad_consumers):
            versions.ClearField("bad_consumers")
            versions.bad_consumers.extend(kept)
        if versions != self.graph.store.versions:
            self._versions = versions.SerializeToString(deterministic=True)
            self.graph.set_versions(self._versions)

    # -- results ------------------------------------------------------------------------------------------

    def claims_of_sites(self, tolerance: float) -> Iterator[SameSites]:
        """Yields the claims that replaced nodes compute the same values in isolation.

        If there are very many, the first of each op are run. Nodes in functions are compared only by the outputs.
        """
        turns: Counter[str] = Counter()
        found: list[tuple[int, float, ClaimedSite]] = []
        for name, (read, rule) in self._sites.items():
            node, before = self.graph[name], self.graph.pristine()[name]
            returned = min(each.output_count or 0 for each in (node, before))
            pairs = [(format_input(name, index),) * 2 for index in range(returned)]
            if pairs and all(parse_tensor(tensor).node in self.graph for tensor in read):
                allowed = max(rule.tolerance, tolerance) if rule.tolerance else 0.0
                found.append((turns[before.op], allowed, ClaimedSite(tuple(read), tuple(pairs))))
                turns[before.op] += 1
        found.sort(key=lambda each: each[0])
        for allowed in sorted({each[1] for each in found}):
            yield from claims_apart([site for _, its, site in found if its == allowed], allowed, MOST_GROUPS)

    @property
    def finite(self) -> tuple[str, ...]:
        """The tensors that must be finite for equal values."""
        return tuple(read[rule.finite] for read, rule in self._sites.values() if rule.finite is not None)

    def result(self, claims: tuple[Claim, ...]) -> EditResult:
        """Returns the changes and claims."""
        intent = _intent(self.graph)
        gone = [name for name in self._functions if name not in self.graph.functions]
        intent.functions = FunctionChanges(changed=list(self.bodies), removed=gone)
        if self._versions is not None:
            intent.graph_fields["versions"] = self._versions
        inside = {name: (body.graph, EditResult(_intent(body.graph))) for name, body in self.bodies.items()}
        facts: dict[str, Json] = {
            "target": self.release.name,
            "replaced": dict(self._replaced),
            "dropped": dict(self._dropped),
            "producer": min(self.graph.store.producer, self.release.version),
        }
        told_of = [*self._told()]
        return EditResult(intent, claims, notes=list(self._notes), told=told_of, facts=facts, inside=inside)

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


def _nodes_of(graph: Graph, is_meant: Callable[[str], bool]) -> list[Node]:
    """Returns the nodes with selected ops, without the arguments and results of a function."""
    topology = topology_of(graph)
    nodes = map(topology.node, topology.with_ops(op for op in topology.ops() if is_meant(op)))
    return [node for node in nodes if node not in graph.ends]


def _intent(graph: Graph) -> Intent:
    """Returns the changes of the nodes of a graph."""
    added = [node.name for node in graph.touched() if node.base_name is None]
    gone = [node.base_name for node in graph.removed() if node.base_name is not None]
    changed = [node.name for node in graph.touched() if node.base_name is not None]
    return Intent(added=added, removed=[name for name in gone if name not in added], changed=changed)
