"""Whether a release of TensorFlow or a different engine supports a graph, including its functions.

Also known problems that keep old graphs from being loaded or run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

from gdsurgeon.analysis.checks.attrs import check_values
from gdsurgeon.analysis.queries.training import assignments
from gdsurgeon.analysis.queries.usage import op_counts, used_functions
from gdsurgeon.analysis.shapes.inference import called_shapes, given_shapes, infer_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.attrs import Shape, kind_of, plain
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import REF, RESOURCE, base_dtype, dtype_name
from gdsurgeon.ops.kinds import REFERENCE_OPS, VALUE_OPS, is_table
from gdsurgeon.ops.op_defs import AttrDef, OpDef, arg_count
from gdsurgeon.ops.releases import MATRICES_ONLY, ONE_GROUP, OTHERWISE, SELECT, Engine, Release, names_with, releases
from gdsurgeon.text import counted, listed
from gdsurgeon.wire.protos import AttrValue


class Place(NamedTuple):
    """A node and the function whose body it is in; `function` is '' for a node of the graph."""

    function: str
    node: str


@dataclass
class LackingOp:
    """An op that an engine lacks.

    Attributes:
        nodes: the number of nodes of the op, including nodes of functions.
        first: some nodes of the op, nodes of the graph before nodes of functions.
        is_select: whether the engine supports it as a TensorFlow op that is linked into the program.
    """

    op: str
    is_select: bool = False
    nodes: int = 0
    first: list[Place] = field(default_factory=list)


class OpsOfGraph(NamedTuple):
    """The ops of a graph that an engine lacks, and counts.

    Attributes:
        lacking: the lacking ops, the most frequent first.
        nodes: the number of nodes in the graph and in the functions that it uses.
        ops: the number of different ops of the counted nodes.
    """

    lacking: list[LackingOp]
    nodes: int
    ops: int


MOST_PLACES = 1000
"""The maximum number of nodes of an op that are named."""


def lacking_ops(graph: Graph, engine: Engine) -> OpsOfGraph:
    """Returns the ops of `graph`, and of the functions that it uses, that `engine` lacks. O(n)."""
    counts = Counter(op_counts(graph))
    found: dict[str, LackingOp] = {}
    topology = topology_of(graph)
    for op in filter(partial(_is_lacking, graph, engine), list(counts)):
        places = [Place("", topology.name(number)) for number in topology.with_ops([op])[:MOST_PLACES]]
        found[op] = LackingOp(op, engine.ops.get(op) == SELECT, counts[op], places)
    for function in sorted(used_functions(graph)):
        for node in graph.functions[function].node_def if function in graph.functions else ():
            counts[node.op] += 1
            if _is_lacking(graph, engine, node.op):
                lacking = found.setdefault(node.op, LackingOp(node.op, engine.ops.get(node.op) == SELECT))
                lacking.nodes += 1
                if len(lacking.first) < MOST_PLACES:
                    lacking.first.append(Place(function, node.name))
    ranked = sorted(found.values(), key=lambda each: (-each.nodes, each.op))
    return OpsOfGraph(ranked, counts.total(), len(counts))


def _is_lacking(graph: Graph, engine: Engine, op: str) -> bool:
    """Returns whether `engine` lacks `op`; functions of the graph are not ops."""
    return op not in graph.functions and engine.ops.get(op, SELECT) == SELECT


class Unknown(NamedTuple):
    """A property of a node that a release does not know, or interprets differently.

    Attributes:
        function: the function whose body the node is in; '' for a node of the graph.
        node: its name.
        op: its op.
        kind: ``op``, ``attr`` (the op has no such attr), ``value`` (the attr does not allow the value), ``missing`` (a
            required attr), ``default`` (the node lacks the attr, and its default differs), ``inputs``, ``outputs``,
            ``dims`` (the inputs have more dims, or groups of channels, than supported).
        key: the attr, or ''.
        text: the problem in words; equal for nodes with the same problem.
    """

    function: str
    node: str
    op: str
    kind: str
    key: str
    text: str


def unknown_to(graph: Graph, release: Release) -> list[Unknown]:
    """Returns everything that `release` does not know about the nodes of `graph` and of the functions it uses."""
    look = _Look(graph, release)
    topology = topology_of(graph)
    looked_at = topology.with_ops(op for op in topology.ops() if look.may_lack(op))
    out = [unknown for number in looked_at for unknown in look.at("", topology.node(number))]
    out += look.too_much("", graph, {})
    needs_shapes = any(release.takes_less(node.op) for function in graph.functions for node in function.node_def)
    called = called_shapes(graph) if needs_shapes else {}
    for name in sorted(used_functions(graph)):
        if name in graph.functions:
            body = Body(graph, name, {}, lenient=True)
            out += [unknown for node in body.graph.nodes() if node not in body.graph.ends
                    for unknown in look.at(name, node)]  # fmt: skip
            out += look.too_much(name, body.graph, given_shapes(body, called))
    return out


def unknown_version(graph: Graph, release: Release) -> str:
    """Returns why `release` would refuse a file because of the versions that it states; '' if it would not."""
    versions = graph.store.versions
    if release.version in versions.bad_consumers:
        return f"the file excludes GraphDef version {release.version}"
    if versions.min_consumer > release.version:
        return (
            f"the file requires GraphDef version {versions.min_consumer} or later, but TensorFlow "
            f"{release.name} has version {release.version}"
        )
    return ""


def told(found: list[Unknown]) -> list[str]:
    """Returns one line for each problem, with the nodes that have it."""
    groups: dict[str, list[Unknown]] = {}
    for unknown in found:
        groups.setdefault(unknown.text, []).append(unknown)
    out = []
    for text, those in groups.items():
        places = (quoted(u.node) + (f" in function {quoted(u.function)}" if u.function else "") for u in those)
        out.append(f"{text}: {counted(len(those), 'node')}, {listed(places, 3)}")
    return out


class _Look:
    """Finds everything about nodes that a release does not know."""

    def __init__(self, graph: Graph, release: Release) -> None:
        self._functions = graph.functions
        self._release = release
        self._newest = newest = releases()[-1]
        self._producer = min(graph.store.producer, release.version)
        self._is_newer = graph.store.producer > release.version
        self._definition = cache(release.op_def)
        self._is_alike = cache(lambda op: release.knows_as(op, newest))

    def too_much(self, function: str, graph: Graph, given: Mapping[Output, Shape]) -> Iterator[Unknown]:
        """Yields the nodes of a graph whose input shapes the kernels of the release may not support.

        `given` holds known shapes.
        """
        topology = topology_of(graph)
        found = topology.with_ops(op for op in (*MATRICES_ONLY, *ONE_GROUP) if self._release.takes_less(op))
        shapes = infer_shapes(graph, given) if found else None
        for node in map(topology.node, found):
            read = [shapes.shape(read) if shapes is not None else None for read in node.inputs]
            if node.op in MATRICES_ONLY:
                dims = None if not read or read[0] is None else len(read[0])
                is_known, text = dims == 2, f"requires two dims, but has {'any number' if dims is None else dims}"
            else:
                count = groups(node, read)
                is_known, text = count == 1, f"supports only one group of channels, but has {count}"
            if not is_known:
                yield Unknown(function, node.name, node.op, "dims", "", f"{node.op} {text}")

    def may_lack(self, op: str) -> bool:
        """Returns whether there may be something about a node of `op` that the release does not know."""
        definition = self._definition(op)
        if definition is None or not self._is_alike(op) or definition.removed_in:
            return True
        has_types = any("type" in attr.kind and not attr.allowed for attr in definition.attrs.values())
        return has_types and self._release.last_dtype < self._newest.last_dtype

    def at(self, function: str, node: Node) -> Iterator[Unknown]:
        """Yields everything about a node that the release does not know."""
        definition = self._definition(node.op)
        for kind, key, text in self._lines(node, definition):
            yield Unknown(function, node.name, node.op, kind, key, text)
        newest = None if definition is None or self._is_alike(node.op) else self._newest.op_def(node.op)
        if definition is not None and newest is not None and len(definition.outputs) < len(newest.outputs):
            count = arg_count(definition.outputs, definition, node.plain_attr)
            read = {read.index for user in node.graph.users(node) for read in user.inputs if read.node is node}
            for index in sorted(index for index in read if index >= count):
                text = f"{node.op} has {counted(count, 'output')}, but output {index} is used"
                yield Unknown(function, node.name, node.op, "outputs", "", text)

    def _lines(self, node: Node, definition: OpDef | None) -> Iterator[tuple[str, str, str]]:
        if definition is None:
            if node.op not in self._functions:
                yield "op", "", _unknown_op(node.op)
            return
        if definition.removed_in and self._producer >= definition.removed_in:
            yield "op", "", f"{node.op} is not allowed from GraphDef version {definition.removed_in} on"
        keys = node.attr_keys
        if not self._is_alike(node.op):
            yield from self._differing(node, definition, keys)
        for key in keys:
            attr = definition.attrs.get(key)
            if attr is not None and "type" in attr.kind:
                yield from self._types(node, attr)

    def _differing(self, node: Node, definition: OpDef, keys: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
        """Yields everything unknown about a node whose op differs from that of the newest release."""
        newest = self._newest.op_def(node.op)
        stated: dict[str, bytes] = {}
        for key in keys:
            attr = definition.attrs.get(key)
            if attr is None and key[:1] != "_":
                yield "attr", key, f"{node.op} has no attr {quoted(key)}, which is {_told(node.attr(key))}"
            elif attr is not None and attr.kind != "tensor" and node.attr_size(key):
                stated[key] = node.attr_bytes(key) or b""
        for fault in check_values(definition, stated, keys):
            is_missing = fault.code == "no-such-attr"
            text = str(fault) if is_missing else f"{node.op}: {fault}"
            yield "missing" if is_missing else "value", str(fault.facts["attr"]), text
        latest = newest.attrs if newest is not None else {}
        for attr in (attr for attr in definition.attrs.values() if attr.has_default and attr.name not in keys):
            now = latest.get(attr.name)
            if now is not None and now.has_default and now.default != attr.default:
                yield "default", attr.name, f"{quoted(attr.name)} of {node.op} has a different default"
        unsaid = OTHERWISE.get(node.op)
        if unsaid and self._is_newer and unsaid not in definition.attrs and unsaid not in keys:
            yield "default", unsaid, f"{node.op} behaves as with {quoted(unsaid)} = True in later releases"
        wanted = arg_count(definition.inputs, definition, node.plain_attr)
        if wanted != len(node.inputs):
            yield "inputs", "", f"{node.op} requires {counted(wanted, 'input')}, but has {len(node.inputs)}"

    def _types(self, node: Node, attr: AttrDef) -> Iterator[tuple[str, str, str]]:
        """Yields DataTypes that the release does not know."""
        data = node.attr_bytes(attr.name) or b""
        if len(data) == 2 and data[0] == _TYPE and data[1] <= self._release.last_dtype:
            return  # nearly all attrs
        value = node.attr(attr.name)
        for dtype in [] if value is None else [value.type] if attr.kind == "type" else value.list.type:
            if base_dtype(dtype) > self._release.last_dtype:
                yield (
                    "value",
                    attr.name,
                    f"{quoted(attr.name)} of {node.op} is {dtype_name(dtype)}, which does not exist",
                )


def groups(node: Node, shapes: Sequence[Shape]) -> int:
    """Returns the number of channel groups of a Conv2D whose inputs have `shapes`; 1 if it is not known.

    Each filter reads the channels of one group.
    """
    given, filters = (shapes[0], shapes[1]) if len(shapes) > 1 else (None, None)
    if given is None or filters is None or len(given) != 4 or len(filters) != 4:
        return 1
    depth, seen = given[1 if node.text_attr("data_format") == "NCHW" else 3], filters[2]
    return depth // seen if 0 < seen < depth and depth % seen == 0 else 1


_TYPE = 0x30
"""The tag of the DataType in an AttrValue."""


def _unknown_op(op: str) -> str:
    known = names_with(op)
    if not known:
        return f"no release of TensorFlow has the op {quoted(op)}"
    where = f"added in {known[0]}" if known[-1] == releases()[-1].name else f"last in {known[-1]}"
    return f"the op {quoted(op)} does not exist ({where})"


def _told(value: AttrValue | None) -> str:
    """Returns a short text for the value of an attr."""
    held = None if value is None else plain(value)
    if held is None:
        return f"a {kind_of(value)}" if value is not None else "nothing"
    return printable(held.decode("utf-8", "replace") if isinstance(held, bytes) else str(held))[:40]


WITHOUT_REFERENCES = {
    **REFERENCE_OPS,
    **VALUE_OPS,
    "Assign": "Identity",
    "AssignAdd": "Add",
    "AssignSub": "Sub",
    "IsVariableInitialized": "Const",
    "ResourceGather": "Gather",
    "AssignVariableOp": "NoOp",
    "AssignAddVariableOp": "NoOp",
    "AssignSubVariableOp": "NoOp",
    "ScatterNdAdd": "TensorScatterAdd",
    "ScatterNdSub": "TensorScatterSub",
    "ScatterNdUpdate": "TensorScatterUpdate",
}
"""Ops that require a variable, with the equivalent op for a value, as in a frozen graph."""
_UPDATES = re.compile("^(Resource)?(Sparse)?Apply[A-Z]|^(Resource)?Scatter[A-Z]")
"""Ops that change a variable, mostly for training. If their outputs are unused, they can be removed without loss."""


class LegacyProblem(NamedTuple):
    """A problem of a node.

    Attributes:
        kind: ``reference``, ``colocation``, ``table`` or ``name``.
        node: its name.
        text: the problem in words.
        becomes: the replacement op of the node; '' if it is repaired differently, or not at all.
        is_mendable: whether it can be repaired.
    """

    kind: str
    node: str
    text: str
    becomes: str = ""
    is_mendable: bool = True


def legacy_problems(graph: Graph) -> list[LegacyProblem]:
    """Returns all known faults; nodes with the same name were renamed before, see `uniquely_named`."""
    return [*_references(graph), *_colocations(graph), *_tables(graph)]


def _references(graph: Graph) -> Iterator[LegacyProblem]:
    """Yields nodes that require a variable but read a value, and their consumers, which then also read values."""
    plain: set[Node] = set()  # nodes that will output values
    pending = [node for node in graph.nodes() if _wants_variable(node)]
    waiting = dict.fromkeys(pending)
    found: dict[Node, LegacyProblem] = {}
    while pending:
        node = pending.pop()
        read = next((read for read in node.inputs[:1] if read.node in plain or not _is_variable(read.dtype)), None)
        if node in found or read is None:
            continue
        becomes = _instead(node)
        what = dtype_name(read.dtype % REF) if read.dtype else "not a variable"
        text = f"{quoted(node.name)} ({printable(node.op)}) requires a variable, but {quoted(read.name)} is {what}"
        found[node] = LegacyProblem("reference", node.name, text, becomes, bool(becomes))
        plain.add(node)
        pending += [user for user in graph.users(node) if user in waiting and user not in found]
    yield from (found[node] for node in waiting if node in found)


def _instead(node: Node) -> str:
    """Returns the op that computes the same from a value instead of a variable; '' if no op does."""
    if node.op == "ResourceGather" and node.setting("batch_dims"):
        return ""
    if _UPDATES.search(node.op) and node.op not in WITHOUT_REFERENCES:
        is_read = any(read.node is node for user in node.graph.users(node) for read in user.inputs)
        return "" if is_read else "NoOp"
    return WITHOUT_REFERENCES.get(node.op, "")


def _wants_variable(node: Node) -> bool:
    definition = node.op_def
    if definition is None or not definition.inputs or not node.inputs:
        return False
    first = definition.inputs[0]
    is_known = node.op in WITHOUT_REFERENCES or _UPDATES.search(node.op) is not None
    return first.is_ref or (is_known and first.dtype == RESOURCE)


def _is_variable(dtype: int) -> bool:
    return not dtype or dtype > REF or dtype == RESOURCE


def _colocations(graph: Graph) -> Iterator[LegacyProblem]:
    for node in graph.nodes():
        for other in node.colocated if node.has_attr("_class") else ():
            if not other.exists:
                text = f"{quoted(node.name)} is colocated with {quoted(other.name)}, which does not exist"
                yield LegacyProblem("colocation", node.name, text)


def _tables(graph: Graph) -> Iterator[LegacyProblem]:
    """Yields tables that have lookups but are not initialized by any node."""
    topology = topology_of(graph)
    for number in topology.with_ops(op for op in topology.ops() if is_table(op) and not op.startswith("Mutable")):
        readers = [user for user in topology.users(number) if "Find" in topology.op(user)]
        if readers and not assignments(topology, number):
            name = topology.name(number)
            text = f"no node initializes the table {quoted(name)} ({printable(topology.op(number))})"
            yield LegacyProblem("table", name, text, is_mendable=False)
