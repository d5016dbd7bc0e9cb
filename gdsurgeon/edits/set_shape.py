"""set-shape: inputs take other shapes, and what is baked into the graph is looked through for what does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes
from gdsurgeon.analysis.shapes.array_rules import format_target
from gdsurgeon.analysis.shapes.fit import Fix, baked_batch, fit, misfit
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import forward_walk, members
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import Claim, EditResult, RowByRow, SameGiven, SameOutputs, Unchanged, equation
from gdsurgeon.edits.naming import naming, of_nodes, of_olds
from gdsurgeon.edits.replacing import unrenamed_outputs
from gdsurgeon.errors import EditError, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.attrs import Shape, format_shape, shape_value, type_value
from gdsurgeon.graph.constants import raw_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.placeholders import SCALAR_MEANS_UNKNOWN_BEFORE, placeholder_shape
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.dtypes import INT32, INT64
from gdsurgeon.ops.kinds import ENTER, PLACEHOLDERS, UNSET_PLACEHOLDERS
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import an, counted, first_lines, named, nearest, suggestion

MOST_SHOWN = 8
MOST_DETAILS = 100
OPEN = 1
"""Stands for an open batch where it is said how many times it is the old one."""
ROWS = 3
"""Rows of the batch that an input with an open one is proven with."""


@public
@naming(shapes=of_olds(of_nodes))
@edit
def set_shape(
    graph: Graph, shapes: Pairs[str, Shape], *, fix_batch: bool = False, batch_check: bool = True
) -> EditResult:
    """Has inputs take other shapes.

    The shapes behind them are inferred for the new input shapes; an unknown dim that was known is tried at a multiple
    of its old size. Constants that do not fit (a Reshape's with the batch or an image's size in it, weights behind a
    flattened image, a state of a fixed batch, ...) are told, and nothing is changed then. ``_output_shapes`` attrs of
    the inputs and of all that depends on them are taken away. Functions are not looked into.

    Args:
        graph: changed in place.
        shapes: (name of a placeholder, the shape that it is to take: -1 for an unknown dim, None for an unknown rank).
        fix_batch: where the batch is all that does not fit in a Reshape's constant shape, put -1 in its place. Other
            readers of that constant keep it.
        batch_check: where an input takes a larger batch, or any, claim that each row gives what it gives alone.

    Raises:
        EditError: no such placeholder, an illegal shape, nothing would change, or what the graph holds does not fit;
            the graph is as it was.
    """
    new = _changed(graph, _wanted(graph, pairs_of(shapes)))
    old = {node: placeholder_shape(node) for node in new}
    found = fit(graph, old, new)
    lines = found.misfits + [_told(item) for item in found.fixes if not fix_batch]
    if lines:
        raise EditError(
            f"{len(lines)} node{'s do' if len(lines) > 1 else ' does'} not accept {_spelt(new, found.tried)}:",
            code="shape-mismatch",
            facts={
                "tried": {node.name: shape for node, shape in found.tried.items()},
                "misfits": [line.as_json() for line in lines],
            },
            details=first_lines(lines, MOST_DETAILS),
            advice="fix-batch" if found.fixes and not fix_batch else (),
        )
    topology = topology_of(graph)
    behind = [topology.node(n) for n in members(forward_walk(topology, [topology.id_of(node) for node in new]))]
    stale = [node for node in behind if STATED_SHAPES in node.attr_keys]
    plan = _planned(graph, found.fixes)
    warnings = [*found.warnings, *_not_looked_at(graph, behind)]

    intent = Intent(changed=list(dict.fromkeys(node.name for node in (*new, *stale))))
    for node, shape in new.items():
        graph.set_attr(node, "shape", shape_value(shape))
    for node in stale:
        graph.set_attr(node, STATED_SHAPES, None)
    for item in plan:
        item.apply(graph, intent)
    notes = _notes(stale, found.fixes)
    claims = (_claim(graph, old, new), *(_row_by_row(graph, old, new) if batch_check else ()))
    return EditResult(intent, claims, warnings, notes)


def _claim(graph: Graph, old: Mapping[Node, Shape], new: Mapping[Node, Shape]) -> Claim:
    """What holds of the values that both shapes take."""
    if all(_includes(shape, old[node]) for node, shape in new.items()):
        return SameOutputs()
    if all(_includes(old[node], shape) for node, shape in new.items()):
        # Whatever the new shape takes, the old one took.
        return SameGiven({}, unrenamed_outputs(graph), equation([]))
    return Unchanged()


def _row_by_row(graph: Graph, old: Mapping[Node, Shape], new: Mapping[Node, Shape]) -> Iterator[RowByRow]:
    """What holds of a batch where the first dimension of inputs grows, or is left open.

    Inputs whose first dimension is open in any case take part in the batch.
    """
    times = {_times(old[node], shape) for node, shape in new.items()}
    if 0 in times or len(times - {OPEN}) > 1:
        return
    rows = max(times) if times != {OPEN} else ROWS
    rest = [(shape and shape[1:], (old[node] or ())[1:]) for node, shape in new.items()]
    original_takes_rows = all(_includes(shape, before) for shape, before in rest)
    if original_takes_rows or times == {OPEN}:
        beside = [node for node in input_nodes(graph) if node not in new and node.op in UNSET_PLACEHOLDERS]
        names = [node.name for node in (*new, *(n for n in beside if (placeholder_shape(n) or (0,))[0] < 0))]
        yield RowByRow(tuple(names), rows, alone=not original_takes_rows)


def _times(old: Shape, new: Shape) -> int:
    """How many times the batch of the old shape the new one takes; 0 where it takes no larger one."""
    if not old or old[0] < 1 or (new is not None and len(old) != len(new)):
        return 0
    if new is None or new[0] < 0:
        return OPEN
    return new[0] // old[0] if new[0] > old[0] and new[0] % old[0] == 0 else 0


def _wanted(graph: Graph, shapes: Iterable[tuple[str, Shape]]) -> dict[Node, Shape]:
    """The placeholders that are named, and the shape that each is to take."""
    out: dict[Node, Shape] = {}
    for name, shape in shapes:
        node = graph[name.removesuffix(":0")]
        if node.op not in PLACEHOLDERS:
            inputs = [n.name for n in input_nodes(graph)]
            near = nearest(name, inputs)
            raise EditError(
                f"{quoted(name)} is {an(node.op)}, not a placeholder.{suggestion(near)}",
                code="no-such-input",
                facts={"node": name, "op": node.op, "near": near, "inputs": inputs},
                hint=f"the inputs are {', '.join(map(quoted, inputs[:MOST_SHOWN]))}" if inputs else None,
            )
        if shape is not None and any(not -1 <= dim < 1 << 63 for dim in shape):
            line = f"{format_shape(shape)} is not a shape: {min(shape)} is not a valid size"
            raise EditError(line, code="bad-value", shape=shape)
        if out.setdefault(node, shape) != shape:
            line = f"{quoted(node.name)} has two new shapes, {format_shape(out[node])} and {format_shape(shape)}"
            raise EditError(line, code="given-twice", facts={"node": node.name, "shapes": [out[node], shape]})
    return out


def _changed(graph: Graph, wanted: Mapping[Node, Shape]) -> dict[Node, Shape]:
    """Those of WANTED that are other shapes than now."""
    out = {node: shape for node, shape in wanted.items() if placeholder_shape(node) != shape}
    if not out:
        raise NothingToDo("nothing would change: each input already has its new shape")
    for node, shape in out.items():
        if shape == () and node.op == "Placeholder" and graph.store.producer < SCALAR_MEANS_UNKNOWN_BEFORE:
            raise EditError(
                f"{quoted(node.name)} cannot become a scalar: the producer version of "
                f"{printable(graph.source_name)} is {graph.store.producer}, and before "
                f"{SCALAR_MEANS_UNKNOWN_BEFORE} the shape [] meant an unknown shape",
                code="old-producer",
                facts={"node": node.name, "expected": SCALAR_MEANS_UNKNOWN_BEFORE, "found": graph.store.producer},
            )
    return out


def _told(item: Fix) -> Remark:
    return misfit(item.node, baked_batch(item.old, item.got))


def _spelt(wanted: Mapping[Node, Shape], tried: Mapping[Node, Shape]) -> str:
    """The inputs with their new shapes, and the sizes at which unknown dims were tried."""
    out: list[str] = []
    for node, shape in list(wanted.items())[:MOST_SHOWN]:
        as_tried = f" (tried as {format_shape(tried[node])})" if tried[node] != shape else ""
        out.append(f"{quoted(node.name)} {format_shape(shape)}{as_tried}")
    return ", ".join(out)


def _includes(shape: Shape, other: Shape) -> bool:
    """Whether SHAPE allows all that OTHER allows."""
    if shape is None or other is None:
        return shape is None
    return len(shape) == len(other) and all(a in (-1, b) for a, b in zip(shape, other, strict=True))


def _not_looked_at(graph: Graph, nodes: Iterable[Node]) -> list[str]:
    """A line where the shapes run into functions or v1 while loops, in which they are not followed."""
    out: list[str] = []
    calls = [node.name for node in nodes if node.op in graph.functions or _takes_function(node.op)]
    loops = [node.name for node in nodes if node.op in ENTER]
    for names, what in ((calls, "functions, called by"), (loops, "while loops, entered by")):
        if names:
            out.append(Remark(f"not checked: {what} {named(names, 1, quoted)}", "not-followed", nodes=names))
    return out


def _takes_function(op: str) -> bool:
    definition = op_def(op)
    return definition is not None and definition.takes_functions


def _notes(stale: Sequence[Node], fixes: Sequence[Fix]) -> list[str]:
    out: list[str] = []
    if stale:
        names = named([node.name for node in stale], MOST_SHOWN)
        text = f"{STATED_SHAPES} removed from {counted(len(stale), 'node')}: {names}"
        out.append(Remark(text, "shapes-removed", nodes=[node.name for node in stale]))
    return [*out, *map(_reshaped, fixes)]


def _reshaped(fix: Fix) -> Remark:
    text = f"{printable(fix.node.name)} reshapes to {format_target(fix.new)} instead of {format_target(fix.old)}"
    return Remark(text, "reshaped", node=fix.node.name, old=fix.old, new=fix.new)


# The constants of Reshapes.


class _NewShape(NamedTuple):
    """Reshapes that read one tensor as their shape, and what they are to read instead.

    Attributes:
        source: what they read.
        nodes: the Reshapes.
        value: an AttrValue that holds the new shape.
        dtype: its DataType.
        name: of the constant that is added; '' where the one that is there is changed, nobody else reading it.
    """

    source: Output
    nodes: list[Node]
    value: bytes
    dtype: int
    name: str

    def apply(self, graph: Graph, intent: Intent) -> None:
        original = self.source.node
        if not self.name:
            graph.set_attr(original, "value", self.value)
            intent.changed.append(original.name)
            return
        # What holds a constant to its place, such as a branch, is a control input.
        controls = original.controls if original.op == "Const" else ()
        attrs = {"dtype": type_value(self.dtype).SerializeToString(deterministic=True), "value": self.value}
        added = graph.add(self.name, "Const", (), controls, attrs=attrs, device=original.device, after=original)
        intent.added.append(added.name)
        for node in self.nodes:
            intent.rewired.append(Rewired(node.name, 1, self.source.name, added.name))
        graph.set_slots({node: {1: added.output} for node in self.nodes})


def _planned(graph: Graph, fixes: Iterable[Fix]) -> list[_NewShape]:
    """One new constant for all Reshapes that read one tensor and are to have the same shape."""
    groups: dict[tuple[Output, tuple[int, ...]], list[Node]] = {}
    for item in fixes:
        groups.setdefault((item.node.inputs[1], item.new), []).append(item.node)
    sources = Counter(source for source, _ in groups)
    unique = graph.unique_names()
    out: list[_NewShape] = []
    for (source, shape), nodes in groups.items():
        dtype = INT64 if source.dtype == INT64 else INT32
        is_const = source.node.op == "Const"
        uses = graph.uses(source) if is_const and sources[source] == 1 else []
        alone = {use.node for use in uses} == set(nodes) and all(use.slot == 1 for use in uses)
        name = "" if alone else unique(source.node.name if is_const else f"{nodes[0].name}/shape")
        out.append(_NewShape(source, nodes, _vector(shape, dtype), dtype, name))
    return out


def _vector(values: Sequence[int], dtype: int) -> bytes:
    """An AttrValue that holds a vector."""
    content = b"".join(item.to_bytes(8 if dtype == INT64 else 4, "little", signed=True) for item in values)
    return raw_value(dtype, (len(values),), content).SerializeToString(deterministic=True)
