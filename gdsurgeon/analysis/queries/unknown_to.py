"""The parts of a graph, functions included, that a release of TensorFlow does not know: ops, attrs, values, types,
versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.called_shapes import called_shapes, given_shapes
from gdsurgeon.analysis.queries.function_usage import used_functions
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.attrs import Shape, kind_of, plain
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.ops.op_defs import AttrDef, OpDef, arg_count
from gdsurgeon.ops.releases import MATRICES_ONLY, ONE_GROUP, OTHERWISE, Release, names_with, releases
from gdsurgeon.text import counted, listed
from gdsurgeon.wire.protos import AttrValue


class Unknown(NamedTuple):
    """Something about a node that a release does not know, or takes for something else.

    Attributes:
        function: in whose body the node is; '' where it is one of the graph.
        node: its name.
        op: its op.
        kind: ``op``, ``attr`` (it has none of that name), ``value`` (it does not take that one), ``missing`` (an attr
            that it needs), ``default`` (another is taken where the node has none), ``inputs``, ``outputs``,
            ``dims`` (it is given more).
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
    """All that RELEASE does not know of the nodes of GRAPH, and of the functions that these come to use."""
    look = _Look(graph, release)
    topology = topology_of(graph)
    looked_at = topology.with_ops(op for op in topology.ops() if look.may_lack(op))
    out = [unknown for number in looked_at for unknown in look.at("", topology.node(number))]
    out += look.too_much("", graph, {})
    called = called_shapes(graph) if look.asks_shapes(graph) else {}
    for name in sorted(used_functions(graph)):
        if name in graph.functions:
            body = Body(graph, name, {}, lenient=True)
            out += [unknown for node in body.graph.nodes() if node not in body.graph.ends
                    for unknown in look.at(name, node)]  # fmt: skip
            out += look.too_much(name, body.graph, given_shapes(body, called))
    return out


def unknown_version(graph: Graph, release: Release) -> str:
    """Why RELEASE would not read a file for what it says of versions; '' where it would."""
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
    """Looks at nodes through the eyes of a release."""

    def __init__(self, graph: Graph, release: Release) -> None:
        self._functions = graph.functions
        self._release = release
        self._newest = releases()[-1]
        self._producer = min(graph.store.producer, release.version)
        self._is_newer = graph.store.producer > release.version
        self._definitions: dict[str, OpDef | None] = {}
        self._alike: dict[str, bool] = {}

    def _definition(self, op: str) -> OpDef | None:
        if op not in self._definitions:
            self._definitions[op] = self._release.op_def(op)
            self._alike[op] = self._release.knows_as(op, self._newest)
        return self._definitions[op]

    def asks_shapes(self, graph: Graph) -> bool:
        """Whether it follows from shapes in a function of GRAPH whether the release takes a node."""
        return any(self._release.takes_less(node.op) for function in graph.functions for node in function.node_def)

    def too_much(self, function: str, graph: Graph, given: Mapping[Output, Shape]) -> Iterator[Unknown]:
        """The nodes of a graph whose inputs may be more than the kernels of the release take; GIVEN: known shapes."""
        topology = topology_of(graph)
        found = topology.with_ops(op for op in (*MATRICES_ONLY, *ONE_GROUP) if self._release.takes_less(op))
        shapes = infer_shapes(graph, given) if found else None
        for node in map(topology.node, found):
            read = [shapes.shape(read) if shapes is not None else None for read in node.inputs]
            text = _too_many_dims(node.op, read) if node.op in MATRICES_ONLY else _several_groups(node, read)
            if text:
                yield Unknown(function, node.name, node.op, "dims", "", text)

    def may_lack(self, op: str) -> bool:
        """Whether the release may not know something of a node of OP."""
        definition = self._definition(op)
        if definition is None or not self._alike[op] or definition.removed_in:
            return True
        has_types = any("type" in attr.kind and not attr.allowed for attr in definition.attrs.values())
        return has_types and self._release.last_dtype < self._newest.last_dtype

    def at(self, function: str, node: Node) -> Iterator[Unknown]:
        """What is unknown of NODE."""
        definition = self._definition(node.op)
        for kind, key, text in self._lines(node, definition):
            yield Unknown(function, node.name, node.op, kind, key, text)
        newest = None if definition is None or self._alike[node.op] else self._newest.op_def(node.op)
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
        if not self._alike[node.op]:
            yield from self._differing(node, definition, keys)
        for key in keys:
            attr = definition.attrs.get(key)
            if attr is not None and "type" in attr.kind:
                yield from self._types(node, attr)

    def _differing(self, node: Node, definition: OpDef, keys: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
        """What is unknown of a node whose op is not as it is in the newest release."""
        newest = self._newest.op_def(node.op)
        for key in keys:
            attr = definition.attrs.get(key)
            if key.startswith("_"):
                continue
            if attr is None:
                value = node.attr(key)
                yield "attr", key, f"{node.op} has no attr {quoted(key)}, which is {_told(value)}"
            elif attr.kind != "tensor":
                yield from _unfit(node, attr)
        for attr in definition.attrs.values():
            if attr.name in keys:
                continue
            now = newest.attrs.get(attr.name) if newest is not None else None
            if not attr.has_default:
                yield "missing", attr.name, f"{node.op} requires an attr {quoted(attr.name)}"
            elif now is not None and now.has_default and now.default != attr.default:
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
            return  # as nearly all of them
        value = node.attr(attr.name)
        for dtype in [] if value is None else [value.type] if attr.kind == "type" else value.list.type:
            if base_dtype(dtype) > self._release.last_dtype:
                yield (
                    "value",
                    attr.name,
                    f"{quoted(attr.name)} of {node.op} is {dtype_name(dtype)}, which does not exist",
                )


def groups(node: Node, shapes: Sequence[Shape]) -> int:
    """How many groups a Conv2D has, whose inputs are of SHAPES: each filter sees the channels of one; 1: not known."""
    given, filters = (shapes[0], shapes[1]) if len(shapes) > 1 else (None, None)
    if given is None or filters is None or len(given) != 4 or len(filters) != 4:
        return 1
    depth, seen = given[1 if node.text_attr("data_format") == "NCHW" else 3], filters[2]
    return depth // seen if 0 < seen < depth and depth % seen == 0 else 1


def _several_groups(node: Node, shapes: Sequence[Shape]) -> str:
    count = groups(node, shapes)
    return f"{node.op} supports only one group of channels, but has {count}" if count > 1 else ""


def _too_many_dims(op: str, shapes: Sequence[Shape]) -> str:
    shape = shapes[0] if shapes else None
    if shape is not None and len(shape) == 2:
        return ""
    return f"{op} requires two dims, but has {'any number' if shape is None else len(shape)}"


_TYPE = 0x30
"""The tag of the DataType in an AttrValue."""


def _unfit(node: Node, attr: AttrDef) -> Iterator[tuple[str, str, str]]:
    """What an attr of NODE holds and may not."""
    value = node.attr(attr.name)
    kind = "" if value is None else kind_of(value)
    if value is None or not kind or kind == "placeholder":
        return
    if kind != attr.kind and not (kind == "list()" and attr.kind.startswith("list(")):
        yield "value", attr.name, f"{quoted(attr.name)} of {node.op} must be {attr.kind}, not {kind}"
        return
    held = plain(value)
    items = held if isinstance(held, list) else [held]
    for item in items if attr.allowed else ():
        if item not in attr.allowed:
            assert isinstance(item, int)
            yield "value", attr.name, f"{quoted(attr.name)} of {node.op} cannot be {dtype_name(item)}"
    for item in items if attr.texts else ():
        if isinstance(item, bytes) and item.decode("utf-8", "replace") not in attr.texts:
            spelt = printable(item.decode("utf-8", "replace"))
            yield "value", attr.name, f"{quoted(attr.name)} of {node.op} cannot be {quoted(spelt)}"
    if attr.minimum is not None:
        size = len(items) if attr.kind.startswith("list(") else held
        if isinstance(size, int) and size < attr.minimum:
            yield "value", attr.name, f"{quoted(attr.name)} of {node.op} must be at least {attr.minimum}"


def _unknown_op(op: str) -> str:
    known = names_with(op)
    if not known:
        return f"no release of TensorFlow has the op {quoted(op)}"
    where = f"added in {known[0]}" if known[-1] == releases()[-1].name else f"last in {known[-1]}"
    return f"the op {quoted(op)} does not exist ({where})"


def _told(value: AttrValue | None) -> str:
    """An attr's value in a few words."""
    held = None if value is None else plain(value)
    if held is None:
        return f"a {kind_of(value)}" if value is not None else "nothing"
    return printable(held.decode("utf-8", "replace") if isinstance(held, bytes) else str(held))[:40]
