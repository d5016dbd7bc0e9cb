"""set-shape: changes the shapes of inputs, and finds constants of the graph that do not match the new shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gdsurgeon.analysis.queries.signature import input_nodes
from gdsurgeon.analysis.shapes.arithmetic import includes
from gdsurgeon.analysis.shapes.array_rules import format_target
from gdsurgeon.analysis.shapes.fit import Fix, baked_batch, fit, misfit
from gdsurgeon.analysis.traversal.topology import forward_walk, members, topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import Claim, EditResult, RowByRow, SameGiven, SameOutputs, Unchanged, equation
from gdsurgeon.edits.decorator import edit, of_nodes, of_olds
from gdsurgeon.edits.replacing import add_constant, move_uses, unrenamed_outputs
from gdsurgeon.errors import EditError, NothingToDo, printable, quoted
from gdsurgeon.graph.attrs import Shape, format_shape, shape_value
from gdsurgeon.graph.constants import raw_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import SCALAR_MEANS_UNKNOWN_BEFORE, Node, Output, Use, placeholder_shape
from gdsurgeon.ops.dtypes import INT32, INT64
from gdsurgeon.ops.kinds import ENTER, PLACEHOLDERS, STATED_SHAPES, UNSET_PLACEHOLDERS
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.text import an, counted, first_lines, named, nearest, suggestion

MOST_SHOWN = 8
MOST_DETAILS = 100
OPEN = 1
"""The factor of an open batch."""
ROWS = 3
"""The rows of the batch for a proof of an input with an open batch."""


@edit(shapes=of_olds(of_nodes))
def set_shape(
    graph: Graph, shapes: Pairs[str, Shape], *, fix_batch: bool = False, batch_check: bool = True
) -> EditResult:
    """Changes the shapes of inputs.

    The shapes of all tensors are inferred from the new input shapes; a multiple of the old size stands for a dimension
    that becomes unknown. Constants that do not match (the shape of a Reshape with the old batch, the weights after a
    flattened image, a state of a fixed batch, ...) are listed in an error. The ``_output_shapes`` attrs of the inputs
    and of all nodes that depend on them are removed. Functions are not checked.

    Args:
        graph: changed in place.
        shapes: pairs (name of a placeholder, new shape); -1 is an unknown dimension, None an unknown rank.
        fix_batch: if only the batch of a Reshape's constant shape does not match, replace it by -1. Other consumers of
            the constant keep it.
        batch_check: if an input accepts a larger batch then, claim that each row is computed as before.

    Raises:
        EditError: no such placeholder, an invalid shape, nothing would change, or constants do not match. The graph is
            unchanged.
    """
    new = _changed(graph, _wanted(graph, pairs_of(shapes)))
    old = {node: placeholder_shape(node) for node in new}
    found = fit(graph, old, new)
    lines = found.misfits + [misfit(fix.node, baked_batch(fix.old, fix.got)) for fix in found.fixes if not fix_batch]
    if lines:
        shown = []
        for node, shape in list(new.items())[:MOST_SHOWN]:
            as_tried = f" (tried as {format_shape(found.tried[node])})" if found.tried[node] != shape else ""
            shown.append(f"{quoted(node.name)} {format_shape(shape)}{as_tried}")
        raise EditError(
            f"{len(lines)} node{'s do' if len(lines) > 1 else ' does'} not accept {', '.join(shown)}:",
            code="shape-mismatch",
            tried={node.name: shape for node, shape in found.tried.items()},
            misfits=[line.as_json() for line in lines],
            details=first_lines(lines, MOST_DETAILS),
            advice="fix-batch" if found.fixes and not fix_batch else (),
        )
    topology = topology_of(graph)
    after = [topology.node(n) for n in members(forward_walk(topology, [topology.id_of(node) for node in new]))]
    stale = [node for node in after if STATED_SHAPES in node.attr_keys]
    result = EditResult(warnings=[*found.warnings])
    calling = {op for op in {node.op for node in after} if (d := op_def(op)) is not None and d.takes_functions}
    calls = [node.name for node in after if node.op in calling or node.op in graph.functions]
    loops = [node.name for node in after if node.op in ENTER]
    for names, what in ((calls, "functions, called by"), (loops, "while loops, entered by")):
        if names:
            result.warn(f"not checked: {what} {named(names, 1, quoted)}", "not-followed", nodes=names)

    result.intent.changed = list(dict.fromkeys(node.name for node in (*new, *stale)))
    for node, shape in new.items():
        graph.set_attr(node, "shape", shape_value(shape))
    for node in stale:
        graph.set_attr(node, STATED_SHAPES, None)
    _reshape(graph, found.fixes, result.intent)
    if stale:
        names = [node.name for node in stale]
        text = f"{STATED_SHAPES} removed from {counted(len(stale), 'node')}: {named(names, MOST_SHOWN)}"
        result.note(text, "shapes-removed", nodes=names)
    for fix in found.fixes:
        text = f"{printable(fix.node.name)} reshapes to {format_target(fix.new)} instead of {format_target(fix.old)}"
        result.note(text, "reshaped", node=fix.node.name, old=fix.old, new=fix.new)
    claim: Claim = Unchanged()
    if all(includes(shape, old[node]) for node, shape in new.items()):
        claim = SameOutputs()
    elif all(includes(old[node], shape) for node, shape in new.items()):  # the old graph accepts all new values
        claim = SameGiven({}, unrenamed_outputs(graph), equation([]))
    result.claims = (claim, *(_row_by_row(graph, old, new) if batch_check else ()))
    return result


def _wanted(graph: Graph, shapes: Iterable[tuple[str, Shape]]) -> dict[Node, Shape]:
    """Returns the new shape of each named placeholder."""
    out: dict[Node, Shape] = {}
    for name, shape in shapes:
        node = graph[name.removesuffix(":0")]
        if node.op not in PLACEHOLDERS:
            inputs = [n.name for n in input_nodes(graph)]
            near = nearest(name, inputs)
            raise EditError(
                f"{quoted(name)} is {an(node.op)}, not a placeholder.{suggestion(near)}",
                code="no-such-input",
                node=name,
                op=node.op,
                near=near,
                inputs=inputs,
                hint=f"the inputs are {', '.join(map(quoted, inputs[:MOST_SHOWN]))}" if inputs else None,
            )
        if shape is not None and any(not -1 <= dim < 1 << 63 for dim in shape):
            line = f"{format_shape(shape)} is not a shape: {min(shape)} is not a valid size"
            raise EditError(line, code="bad-value", shape=shape)
        if out.setdefault(node, shape) != shape:
            line = f"{quoted(node.name)} has two new shapes, {format_shape(out[node])} and {format_shape(shape)}"
            raise EditError(line, code="given-twice", node=node.name, shapes=[out[node], shape])
    return out


def _changed(graph: Graph, wanted: Mapping[Node, Shape]) -> dict[Node, Shape]:
    """Returns the shapes that differ from the present ones."""
    out = {node: shape for node, shape in wanted.items() if placeholder_shape(node) != shape}
    if not out:
        raise NothingToDo("nothing would change: each input already has its new shape")
    producer = graph.store.producer
    for node, shape in out.items():
        if shape == () and node.op == "Placeholder" and producer < SCALAR_MEANS_UNKNOWN_BEFORE:
            raise EditError(
                f"{quoted(node.name)} cannot become a scalar: the producer version of "
                f"{printable(graph.source_name)} is {producer}, and before "
                f"{SCALAR_MEANS_UNKNOWN_BEFORE} the shape [] meant an unknown shape",
                code="old-producer",
                node=node.name,
                expected=SCALAR_MEANS_UNKNOWN_BEFORE,
                found=producer,
            )
    return out


def _row_by_row(graph: Graph, old: Mapping[Node, Shape], new: Mapping[Node, Shape]) -> Iterator[RowByRow]:
    """Yields the claim for a batch if the first dimension of the inputs becomes larger or unknown.

    Other inputs whose first dimension is unknown are also a part of the batch.
    """

    def factor(before: Shape, shape: Shape) -> int:  # the new batch divided by the old one; 0: it is not larger
        if not before or before[0] < 1 or (shape is not None and len(before) != len(shape)):
            return 0
        if shape is None or shape[0] < 0:
            return OPEN
        return shape[0] // before[0] if shape[0] > before[0] and shape[0] % before[0] == 0 else 0

    factors = {factor(old[node], shape) for node, shape in new.items()}
    if 0 in factors or len(factors - {OPEN}) > 1:
        return
    rows = max(factors) if factors != {OPEN} else ROWS
    rest = [(shape and shape[1:], (old[node] or ())[1:]) for node, shape in new.items()]
    original_accepts_rows = all(includes(shape, before) for shape, before in rest)
    if original_accepts_rows or factors == {OPEN}:
        others = [node for node in input_nodes(graph) if node not in new and node.op in UNSET_PLACEHOLDERS]
        names = [node.name for node in (*new, *(n for n in others if (placeholder_shape(n) or (0,))[0] < 0))]
        yield RowByRow(tuple(names), rows, alone=not original_accepts_rows)


def _reshape(graph: Graph, fixes: Iterable[Fix], intent: Intent) -> None:
    """Gives Reshapes new constant shapes: one constant for all that read the same tensor and have the same new shape.

    A constant without other consumers is changed.
    """
    groups: dict[tuple[Output, tuple[int, ...]], list[Node]] = {}
    for fix in fixes:
        groups.setdefault((fix.node.inputs[1], fix.new), []).append(fix.node)
    sources, unique = Counter(source for source, _ in groups), graph.unique_names()
    for (source, shape), nodes in groups.items():
        original, is_const = source.node, source.node.op == "Const"
        dtype, width = (INT64, 8) if source.dtype == INT64 else (INT32, 4)
        content = b"".join(item.to_bytes(width, "little", signed=True) for item in shape)
        value = raw_value(dtype, (len(shape),), content)
        uses = [Use(node, 1) for node in nodes]
        if is_const and sources[source] == 1 and set(graph.uses(source)) == set(uses):
            graph.set_attr(original, "value", value)
            intent.changed.append(original.name)
            continue
        name = unique(original.name if is_const else f"{nodes[0].name}/shape")
        # A constant in a branch of a conditional has a control input.
        added = add_constant(graph, name, value, original, original.controls if is_const else ())
        intent.added.append(added.name)
        move_uses(graph, {source: uses}, {source: added.output}, intent)
