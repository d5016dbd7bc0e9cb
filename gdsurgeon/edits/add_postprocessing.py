"""add-postprocessing: adds a graph after the outputs of a model; the new outputs have the old names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.edits.claims import EditResult, SameGiven
from gdsurgeon.edits.decorator import edit, of_field, of_tensors
from gdsurgeon.edits.node_copies import plan_copy
from gdsurgeon.edits.parts import Mapped, bind, check_fits, same_part
from gdsurgeon.edits.replacing import hand_on
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import check_typed
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.kinds import PLACEHOLDERS

SUFFIX = "_postprocessed"
RAW_SUFFIX = "_raw"


@edit(mapped=of_field("model", of_tensors))
def add_postprocessing(graph: Graph, post: Graph, *, mapped: Sequence[Mapped] = ()) -> EditResult:
    """Adds `post` after the outputs of `graph`.

    Each Placeholder ``X`` of `post` must be a node of `graph`, and `post` must contain ``X_postprocessed``. The result
    gets the name ``X``. The raw value is renamed to ``X_raw`` (made unique), and its consumers in `graph` do not
    change. A mapping can name ``X:1``; the other outputs of ``X`` keep their values.

    Args:
        graph: changed in place.
        post: not changed. Its source must stay open until `graph` is written.
        mapped: bindings for other names.

    Raises:
        EditError: the graphs do not match; the message names the tensors. The graph is unchanged.
    """
    bindings = bind(graph, post, SUFFIX, mapped)
    warnings: list[str] = []
    for binding in bindings:
        node = binding.node
        where = f"{quoted(node.name)} of {printable(graph.source_name)} ({printable(node.op)})"
        if node.op in PLACEHOLDERS:
            message = f"{where} is an input of the model; postprocessing is added after an output"
            raise EditError(message, code="is-input", node=node.name)
        if node.output_dtypes is not None and not node.output_dtypes:
            message = f"{where} has no output; postprocessing needs a node with an output"
            raise EditError(message, code="wrong-count", node=node.name, expected=1, found=0)
        check_fits(binding.output, graph, binding.placeholder.output, post, warnings)
    unique = graph.unique_names()
    raws = {node: unique(node.name + RAW_SUFFIX) for node in dict.fromkeys(b.node for b in bindings)}
    names = {node: node.name for node in raws}
    # A result with one output can have the name itself; otherwise an Identity has the name.
    results = Counter(binding.result.node for binding in bindings)
    placeholders = {binding.placeholder for binding in bindings}
    direct = {
        b
        for b in bindings
        if results[b.result.node] == 1
        and b.result.node not in placeholders
        and len(b.result.node.outputs) == 1
        and len(b.node.outputs) <= 1
    }
    plan = plan_copy(
        graph,
        post,
        replace={b.placeholder: b.output for b in bindings},
        names={b.result.node: names[b.node] for b in bindings if b in direct},
        reserved=(*names.values(), *raws.values()),
    )
    for binding in bindings:
        if binding not in direct:
            check_typed(binding.result)

    graph.rename(raws)
    copied = plan.apply()
    intent = copied.intent()
    intent.renamed = {names[node]: name for node, name in raws.items()}
    for node, name in names.items():
        new = {b.output: copied.output(b.result) for b in bindings if b.node is node and b not in direct}
        if new:
            hand_on(graph, name, [new.get(output, output) for output in node.outputs])
            intent.added.append(name)
    pairs = [(b.result.name, b.called(names[b.node])) for b in bindings]
    inputs = {b.placeholder.name: b.called(raws[b.node]) for b in bindings}
    kept = tuple((b.called(names[b.node]), b.called(raws[b.node])) for b in bindings)
    part = same_part(post, inputs, pairs, intent.copied, "post")
    claim = SameGiven({}, kept, "edited(x) == post(original(x))", parts=(part,))
    notes: list[str] = []
    for b in bindings:
        result, old, raw = b.result.node, names[b.node], raws[b.node]
        if result.op != "Identity" or result.inputs[0] != b.placeholder.output:
            text = f"the raw value of {quoted(old)} is now {quoted(raw)}"
            notes.append(Remark(text, "renamed", name=old, found=raw))
    serving = serving_of(graph)
    for node in output_nodes(post) if serving is not None and serving.called else ():
        if node not in results and (copy := intent.copied.get(node.name)):
            text = f"no signature returns {quoted(copy)}; the command signature can add this output"
            notes.append(Remark(text, "not-served", name=copy))
    return EditResult(intent, (claim,), warnings, notes + copied.notes(post))
