"""fuse-ops: a call replaces the nodes: it has their inputs, outputs, control inputs and control outputs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.copies import is_copied_attr
from gdsurgeon.compare.intent import Altered, Copies, Intent
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import bytes_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, is_numbered
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.kinds import COLOCATION_ATTR, PLACEHOLDERS
from gdsurgeon.selection import Selection
from gdsurgeon.specification.joining import ImportedFunctions
from gdsurgeon.specification.nodes import selected


class Inside(NamedTuple):
    """The expected content of a function.

    Attributes:
        graph: the graph of the nodes.
        nodes: their names.
        args: the tensors that they read from outside, in the order of the function's arguments.
        results: the tensors that the function returns.
        effects: nodes that must run with each call, in addition to stateful nodes.
        functions: the new names of the functions that the nodes call.
    """

    graph: Graph
    nodes: Sequence[str]
    args: Sequence[str]
    results: Sequence[str]
    effects: frozenset[str]
    functions: Mapping[str, str]

    @property
    def stateful(self) -> frozenset[str]:
        """The nodes that have effects, or whose results depend on more than what they read."""
        found = ((name, self.graph[name].op_def) for name in self.nodes)
        return frozenset(name for name, definition in found if definition is not None and definition.is_stateful)


def function_violations(after: Graph, name: str, inside: Inside, attrs: Mapping[str, bool]) -> Iterator[str]:
    """Yields the differences of a function from its expected content.

    Args:
        after: the graph.
        name: the name of the function.
        inside: the expected content.
        attrs: the expected attrs.
    """
    function = after.functions.get(name)
    if function is None:
        yield f"the function {quoted(name)} is missing"
        return
    where = f"the function {quoted(name)}"
    try:
        body = Body(after, name)
    except EditError as error:
        yield f"{where} cannot be read: {error.message}"
        return
    if {key: value.b for key, value in function.attr.items()} != attrs:
        yield f"{where} has different attrs"
    if function.signature.is_stateful != bool(inside.stateful):
        yield f"{where} is {'' if inside.stateful else 'not '}stateful, but is not marked so"
    if set(function.control_ret.values()) != inside.stateful | inside.effects:
        yield f"{where} has other control outputs than {sorted(inside.stateful | inside.effects)}"
    inner = {node.name for node in body.graph.nodes() if node not in body.graph.ends}
    if inner != set(inside.nodes) or len(body.arguments) != len(inside.args):
        yield f"{where} has different nodes or arguments"
        return
    given = dict(zip(inside.args, (node.name for node in body.arguments), strict=True))
    returned = [read.name for node in body.results for read in node.inputs]
    if returned != [given.get(tensor, tensor) for tensor in inside.results]:
        yield f"{where} returns {returned}"
    for node in inside.nodes:
        for fault in _differences(inside.graph[node], body.graph[node], given, inside):
            yield f"{quoted(node)} in {where} {fault}"


def _differences(old: Node, new: Node, given: Mapping[str, str], inside: Inside) -> Iterator[str]:
    members = frozenset(inside.nodes)
    reads = [given.get(read.name, "") if read.node.name not in members else read.name for read in old.inputs]
    expected = inside.functions.get(old.op, old.op), old.device, reads, *_names(old, members)
    found = new.op, new.device, [read.name for read in new.inputs], *_names(new)
    for what, wanted, has in zip(
        ("op", "device", "inputs", "control inputs", "colocation"), expected, found, strict=True
    ):
        if wanted != has:
            yield f"has the {what} {has}"
    for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
        if key != COLOCATION_ATTR and not is_copied_attr(old, new, key, inside.functions):
            yield f"has a different {quoted(key)}"


def _names(node: Node, among: Container[str] | None = None) -> Iterator[list[str]]:
    """Yields the names of the control inputs and of the colocated nodes of a node, those `among` names only."""
    for others in (node.controls, node.colocated):
        yield sorted({other.name for other in others if among is None or other.name in among})


XLA = "_XlaMustCompile"
LARGE = 1 << 16
"""The largest size in bytes of the record of a constant that becomes part of the function."""
OF_ITS_OWN = b"R\x05R\x03\x98\x01\x01"
"""A ConfigProto with which a call does not optimize its function separately."""


def fuse_ops(
    comparison: Comparison,
    nodes: Selection | Sequence[str],
    name: str,
    inline: bool = False,
    xla: bool = False,
    body: Graph | None = None,
    mapped: Sequence[tuple[str, str]] = (),
    keep: Sequence[str] = (),
    rtol: float | None = None,
    atol: float | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del rtol, atol  # of the proof
    before, after = comparison.before, comparison.after
    names = sorted(selected(before, nodes), key=before.store.table.rows.__getitem__)
    edges = Edges.of(before, [n for n in names if not _is_large(before[n])], keep)
    call = after.find(name)
    function = call.attr("f") if call is not None else None
    if call is None or function is None:
        yield f"the call {quoted(name)} is missing"
        return
    intent = Intent()
    attrs = ({} if inline or xla else {"_noinline": True}) | ({XLA: True} if xla else {})
    if body is None:
        inside = Inside(before, edges.members, edges.inputs, edges.outputs, edges.awaited, {})
        reads = list(edges.inputs)
    else:
        imported = ImportedFunctions(comparison, body)
        yield from imported.violations()
        # Exits of loops without consumers, and nodes that no signature of the model names.
        serving = serving_of(before)
        keys = serving.called.values() if serving is not None else ()
        served = {tensor.removesuffix(":0") for key in keys for tensor in key.outputs.values()}
        free = [n for n in edges.kept if before[n].op in ("Exit", "RefExit") or (keys and n not in served)]
        optional = [name for name in free if name not in keep]
        placeholders, results = _paired(body, edges, mapped, optional)
        dropped = [name for name in optional if name not in results]  # each is the only output of its node
        outputs, kept_names = ([name for name in each if name not in dropped] for each in (edges.outputs, edges.kept))
        edges = edges._replace(outputs=outputs, kept=kept_names)
        reads = [tensor for tensor in edges.inputs if tensor in placeholders]
        large = [node.name for node in body.nodes() if _is_large(node)]
        copies = {stem: new for new in comparison.facts.added for stem in large if is_numbered(new, f"{name}/{stem}")}
        intent.added += copies.values()
        intent.copies.append(Copies(body, copies, {}, False))
        args = [*(placeholders[tensor] for tensor in reads), *copies]
        inner = [node.name for node in body.nodes() if node.name not in args]
        ends = [results[tensor] for tensor in edges.outputs if tensor in results]
        inside = Inside(body, inner, args, ends, frozenset(), imported.names)
        reads += copies.values()
        intent.renamed_functions = imported.renamed
        intent.functions.added += imported.added.values()
    if function.func.name not in before.functions:
        intent.functions.added.append(function.func.name)
    yield from function_violations(after, function.func.name, inside, attrs)
    yield from _call(call, edges, reads, inside, xla, intent)
    place = {tensor: format_input(name, index) for index, tensor in enumerate(edges.outputs)}
    for user, slot, tensor in edges.readers:
        intent.rewire([(user, slot)], tensor, place[tensor])
    for user in edges.waiters:
        controls = dict.fromkeys(name if c.name in edges.members else c.name for c in before[user].controls)
        intent.alter(user, {"controls": tuple(controls)})
    for kept in (node for node in edges.kept if node != name):
        values = [place[format_input(kept, index)] for index in range(before[kept].output_count or 0)]
        op = "NoOp" if not values else "Identity" if len(values) == 1 else "IdentityN"
        intent.add(kept, op, values, () if values else [name])
    intent.removed = [member for member in edges.members if member not in edges.kept and member != name]
    yield from audit(comparison, intent)


def _call(call: Node, edges: Edges, reads: Sequence[str], inside: Inside, xla: bool, intent: Intent) -> Iterator[str]:
    """Declares the call, and yields a line if it has different control inputs, or is not compiled."""
    attrs: dict[str, bytes | None] = dict.fromkeys(["Tin", "Tout", "f", *([XLA] if xla else [])])
    for key, data in (("config", b""), ("config_proto", OF_ITS_OWN), ("executor_type", b"")):
        attrs[key] = bytes_value(data).SerializeToString()
    op = "StatefulPartitionedCall" if inside.stateful else "PartitionedCall"
    # A pivot, an Identity of an input, makes the call run in the loop or branch of the nodes.
    pivots = [
        node.name
        for node in call.controls
        if node.name.startswith(f"{call.name}/pivot") and any(read.name in edges.inputs for read in node.inputs)
    ]
    intent.added += pivots
    intent.altered += [Altered(name, "op", "Identity") for name in pivots]
    intent.add(call.name, op, reads, frozenset([*edges.waits, *pivots]), attrs=attrs)
    if xla and not call.plain_attr(XLA):
        yield f"the call {quoted(call.name)} is not compiled by XLA"


class Edges(NamedTuple):
    """The edges between the fused nodes and the other nodes.

    Attributes:
        members: the fused nodes, in file order.
        inputs: the tensors from outside that they read, in the order of first use.
        outputs: the tensors that the call returns.
        kept: the nodes whose names stay.
        waits: the control inputs from outside.
        awaited: the members that are control inputs of outside nodes.
        readers: the consumers outside, each with the slot and the tensor.
        waiters: the outside nodes with control inputs from the members.
    """

    members: list[str]
    inputs: list[str]
    outputs: list[str]
    kept: list[str]
    waits: list[str]
    awaited: frozenset[str]
    readers: list[tuple[str, int, str]]
    waiters: list[str]

    @classmethod
    def of(cls, graph: Graph, members: list[str], keep: Sequence[str]) -> Edges:
        inside, nodes = frozenset(members), [graph[name] for name in members]
        users = {name: [graph[user] for user in dict.fromkeys(graph.store.users(name))] for name in members}
        reading = [(u, slot, r) for name in members for u in users[name] for slot, r in enumerate(u.inputs)
                   if r.node.name == name]  # fmt: skip
        waiting = [(u, name) for name in members for u in users[name] if any(c.name == name for c in u.controls)]
        read, waited = {r.node.name for _, _, r in reading}, {name for _, name in waiting}
        kept = [
            n.name for n in nodes if n.name in keep or (n.name not in read and (n.output_count or n.name not in waited))
        ]
        outside = [(u.name, slot, r.name) for u, slot, r in reading if u.name not in inside]
        wanted = {tensor for _, _, tensor in outside}
        return cls(
            members,
            list(dict.fromkeys(r.name for node in nodes for r in node.inputs if r.node.name not in inside)),
            [format_input(n.name, i) for n in nodes for i in range(n.output_count or 0)
             if n.name in kept or format_input(n.name, i) in wanted],
            kept,
            list(dict.fromkeys(c.name for node in nodes for c in node.controls if c.name not in inside)),
            frozenset(name for u, name in waiting if u.name not in inside),
            outside,
            list(dict.fromkeys(u.name for u, _ in waiting if u.name not in inside)),
        )  # fmt: skip


def _is_large(node: Node) -> bool:
    """Returns whether a constant is an argument of the function instead of a part of it."""
    return node.op == "Const" and node.record is not None and node.record.end - node.record.start > LARGE


def _paired(
    body: Graph, edges: Edges, mapped: Sequence[tuple[str, str]], optional: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the placeholder of `body` for each input, and its result for each output that is not `optional`."""
    pairs = {tensor.removesuffix(":0"): inner.removesuffix(":0") for tensor, inner in mapped}
    nodes = list(body.nodes())
    read = dict.fromkeys(output for node in nodes for output in node.inputs)
    starts = [output.node for output in read if output.node.op in PLACEHOLDERS]
    starts += [node for node in nodes if node.op in PLACEHOLDERS]
    producers = {output.node for output in read}
    unread = [node for node in nodes if node not in producers]
    ends = [n for n in unread if n.op not in PLACEHOLDERS | {"Const", "Print"} and n.output_dtypes != []]
    ends = ends or [n for n in unread if n.op == "Const"]
    ends += [n for n in nodes if n.op == "Const" and n.name in edges.outputs and n not in ends]
    required = [node.name for node in dict.fromkeys(starts) if node.op != "PlaceholderWithDefault"]
    return (
        _by_name_and_order(edges.inputs, required, pairs),
        _by_name_and_order(edges.outputs, [output.name for node in ends for output in node.outputs], pairs, optional),
    )


def _by_name_and_order(
    tensors: Sequence[str], inner: Sequence[str], mapped: dict[str, str], optional: Sequence[str] = ()
) -> dict[str, str]:
    pairs = {tensor: name for tensor, name in mapped.items() if tensor in tensors}
    pairs |= {name: name for name in tensors if name in inner and name not in pairs and name not in pairs.values()}
    left = [tensor for tensor in tensors if tensor not in pairs]
    free = [name for name in inner if name not in pairs.values()]
    if len(free) != len(left):
        left = [tensor for tensor in left if tensor not in optional]
    return pairs | dict(zip(left, free, strict=False))
