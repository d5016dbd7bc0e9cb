"""add-preprocessing: adds a graph before the inputs of a model; the inputs keep their names."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.compare.intent import Rewired
from gdsurgeon.edits.claims import EditResult, SameGiven
from gdsurgeon.edits.decorator import edit, of_field, of_nodes
from gdsurgeon.edits.node_copies import copy_in
from gdsurgeon.edits.parts import Binding, Mapped, bind, check_fits, check_placeholder, same_part
from gdsurgeon.edits.replacing import remove_unread
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Use
from gdsurgeon.ops.kinds import STATED_SHAPES

SUFFIX = "_preprocessed"
_PLACEHOLDER_ATTRS = ("dtype", "shape", STATED_SHAPES)


@edit(mapped=of_field("model", of_nodes))
def add_preprocessing(graph: Graph, pre: Graph, *, mapped: Sequence[Mapped] = ()) -> EditResult:
    """Adds `pre` before the inputs of `graph`.

    Each Placeholder ``P`` of `pre` must also be a Placeholder of `graph`, and `pre` must contain ``P_preprocessed``.
    The consumers of ``P`` then read ``P_preprocessed``. ``P`` keeps its name, and has the dtype and shape that it has
    in `pre`; a default value is removed. Control inputs from ``P`` do not change. All other nodes of `pre` are copied;
    names that are taken are made unique.

    Args:
        graph: changed in place.
        pre: not changed. Its source must stay open until `graph` is written.
        mapped: bindings for other names.

    Raises:
        EditError: the graphs do not match; the message names the tensors. The graph is unchanged.
    """
    bindings = bind(graph, pre, SUFFIX, mapped)
    warnings: list[str] = []
    uses: dict[Binding, list[Use]] = {}
    for binding in bindings:
        node = binding.node
        check_placeholder(node)
        check_fits(binding.result, pre, node.output, graph, warnings)
        uses[binding] = graph.uses(node.output)
        if not uses[binding]:
            message = f"nothing would change: {quoted(node.name)} of {printable(graph.source_name)} has no consumers"
            raise EditError(message, code="no-consumers", tensor=node.name)
    last = max((b.node for b in bindings), key=lambda node: node.record.start if node.record else 0)
    copied = copy_in(graph, pre, replace={b.placeholder: b.node.output for b in bindings}, after=last)
    intent = copied.intent()
    notes = copied.notes(pre)
    defaults = [read.node for binding in bindings for read in binding.node.inputs]
    for binding in bindings:
        node, other, result = binding.node, binding.placeholder, copied.output(binding.result)
        intent.rewired += [Rewired(use.node.name, use.slot, node.name, result.name) for use in uses[binding]]
        graph.reroute(uses[binding], result)
        if node.inputs:
            text = f"{quoted(node.name)} no longer has a default value: callers must feed it"
            notes.append(Remark(text, "no-default", node=node.name))
        attrs = {key: other.attr_bytes(key) for key in _PLACEHOLDER_ATTRS}
        attrs = {key: value for key, value in attrs.items() if node.attr_bytes(key) != value}
        if node.op != other.op or attrs:
            graph.replace_op(node, other.op, [] if node.op != other.op else None, attrs)
            intent.changed.append(node.name)
    intent.removed += remove_unread(graph, defaults)  # they would become outputs
    given = {b.node.name: copied.output(b.result).name for b in bindings}
    pairs = [(b.result.name, given[b.node.name]) for b in bindings]
    part = same_part(pre, {b.placeholder.name: b.node.name for b in bindings}, pairs, intent.copied, "pre")
    claim = SameGiven(given, (), "edited(raw) == original(pre(raw))", parts=(part,))
    return EditResult(intent, (claim,), warnings, notes)
