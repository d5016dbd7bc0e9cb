"""add-preprocessing, add-postprocessing and insert: adds a graph before inputs, after outputs, or after a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape, typed
from gdsurgeon.analysis.shapes.inference import infer_shapes, shape_of_tensor
from gdsurgeon.analysis.traversal.control_flow import control_flow_of
from gdsurgeon.edits.claims import EditResult, LikeReference, SameGiven, SamePart, SameTensors, equation
from gdsurgeon.edits.decorator import edit, of_field, of_nodes, of_sites, of_tensors
from gdsurgeon.edits.functions import FunctionMerge
from gdsurgeon.edits.node_copies import copy_in, plan_copy
from gdsurgeon.edits.replacing import (
    add_identity,
    check_outside_of_loops,
    distinct_outputs,
    move_uses,
    remove_unused,
    unrenamed_outputs,
)
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output, Use, check_typed, same_dtype
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.kinds import PLACEHOLDERS, STATED_SHAPES
from gdsurgeon.select import Selection, nodes_of
from gdsurgeon.text import Entry, an, counted
from gdsurgeon.values import Tolerance


class Mapped(NamedTuple):
    """A binding from the user: a tensor of the model, and a placeholder and a result of the added graph."""

    model: str
    raw: str
    result: str


class Binding(NamedTuple):
    """A placeholder of the added graph, its result, and the corresponding node of the model with the output `port`."""

    node: Node
    placeholder: Node
    result: Output
    port: int = 0

    @property
    def output(self) -> Output:
        """The tensor of the model."""
        return Output(self.node, self.port)

    def called(self, name: str) -> str:
        """The tensor with the same index of the node `name`."""
        return format_input(name, self.port)


def same_part(
    part: Graph, inputs: Mapping[str, str], results: Sequence[tuple[str, str]], copies: Mapping[str, str], role: str
) -> SamePart:
    """Returns the claim that `part`, the graph `role` of a model, computes its results and its other outputs there."""
    pairs = dict(results)
    for node in output_nodes(part):
        for output in node.outputs if node.name in copies else ():
            pairs.setdefault(output.name, format_input(copies[node.name], output.index))
    others = [pair for pair in pairs.items() if pair not in results]
    return SamePart(part, inputs, (*results, *others), copies, in_place=True, role=role)


def bind(model: Graph, part: Graph, suffix: str, mapped: Sequence[Mapped]) -> list[Binding]:
    """Returns a binding for each placeholder of `part`, by name or as `mapped` says.

    Raises:
        EditError: `part` has no placeholder, a result is missing, or a name of `mapped` does not exist.
    """
    file, form = part.source_name, "INPUT=RAW,RESULT" if suffix.startswith("_pre") else "OUTPUT=RAW,RESULT"
    by_raw: dict[str, Mapped] = {}
    for item in mapped:
        placeholder = part[item.raw.removesuffix(":0")]
        check_placeholder(placeholder)
        if placeholder.name in by_raw:
            message = f"the placeholder {quoted(item.raw)} is mapped twice"
            raise EditError(message, code="given-twice", placeholder=placeholder.name)
        by_raw[placeholder.name] = item
    placeholders = [n for n in input_nodes(part) if n.op != "PlaceholderWithDefault" or n.name in by_raw]
    if not placeholders:
        raise EditError(f"{printable(file)} has no placeholder to connect", code="no-such-input", file=file)
    named = [by_raw[p.name].model if p.name in by_raw else p.name for p in placeholders]
    model.prefetch([*named, *part.names()])
    out: list[Binding] = []
    for placeholder, text in zip(placeholders, named, strict=True):
        spelt = by_raw.get(placeholder.name)
        name, index = parse_tensor(text) if spelt else (placeholder.name, 0)
        node = model.find(name)
        where = f"the placeholder {quoted(placeholder.name)} of {printable(file)} has no"
        if node is None:
            missing = model.missing(name)
            raise EditError(
                f"{where} counterpart: {missing.message}",
                code=missing.code,
                advice="map-name",
                facts={**missing.facts, "placeholder": placeholder.name, "form": form},
            )
        if index:
            model.tensor(text)
        result = spelt.result if spelt else placeholder.name + suffix
        if spelt is None and result not in part:
            raise EditError(
                f"{where} result: no node is named {quoted(result)}",
                code="no-result",
                advice="map-result",
                placeholder=placeholder.name,
                node=result,
                form=form,
            )
        out.append(Binding(node, placeholder, part.tensor(result), index))
    doubled = [name for name, count in Counter(binding.output.name for binding in out).items() if count > 1]
    if doubled:
        message = f"two placeholders of {printable(file)} are connected to {quoted(doubled[0])}"
        raise EditError(message, code="given-twice", node=doubled[0])
    return out


def check_placeholder(node: Node) -> None:
    """Raises EditError if a node is not a placeholder."""
    if node.op not in PLACEHOLDERS:
        graph = node.graph.source_name
        message = f"{quoted(node.name)} of {printable(graph)} is {an(node.op)}, not a Placeholder"
        raise EditError(message, code="not-a-placeholder", node=node.name, op=node.op, file=graph)


def check_fits(given: Output, given_in: Graph, wanted: Output, wanted_in: Graph, result: EditResult) -> None:
    """Compares the dtypes and shapes of two tensors, and infers the shapes of the other graph from the given shape.

    Raises:
        EditError: they do not match.
    """
    if not given.dtype or not wanted.dtype:
        unknown = given if not given.dtype else wanted
        op = unknown.node.op
        text = f"the dtype of {quoted(unknown.name)} ({printable(op)}) is unknown, so it was not compared"
        result.warn(text, "unknown-dtype", tensor=unknown.name, op=op)
    what = f"{quoted(given.name)} of {printable(given_in.source_name)} is"
    taking = f"{quoted(wanted.name)} of {printable(wanted_in.source_name)}"
    is_same, stated = same_dtype(given.dtype, wanted.dtype), stated_shape(wanted)
    shape = shape_of_tensor(given_in, given) if is_same else stated_shape(given)
    found, expected = typed(given.dtype, shape), typed(wanted.dtype, stated)
    facts = {
        "tensor": given.name, "file": given_in.source_name, "input": wanted.name, "expected": expected, "found": found
    }  # fmt: skip
    if not is_same or not compatible(shape, stated):
        message = f"{what} {found}, but {taking} expects {expected}"
        raise EditError(message, code="shape-mismatch" if is_same else "dtype-mismatch", facts=facts)
    if shape is None or shape == stated or shape == shape_of_tensor(wanted_in, wanted):
        return
    conflicts = infer_shapes(wanted_in, {wanted: shape}).conflicts
    known = {conflict.node for conflict in infer_shapes(wanted_in).conflicts} if conflicts else set()
    for conflict in conflicts:
        if conflict.node not in known:
            message = f"{what} {found}, which does not fit {taking}: {conflict.text}"
            raise EditError(message, code="shape-mismatch", facts=facts, node=conflict.node.name)


def against(result: EditResult, archive: str, *, rtol: float = 0.0, atol: float = 0.0) -> EditResult:
    """Returns `result` with the additional claim that the added graph returns the values in `archive`.

    Args:
        result: of add_preprocessing, add_postprocessing or insert.
        archive: an .npz file with the values of the placeholders and of the results of the added graph, by name. The
            values of further samples have the names ``NAME@1``, ``NAME@2``, ...
        rtol, atol: by how much floats may differ.
    """
    for claim in result.claims:
        for part in (claim,) if isinstance(claim, SamePart) else claim.parts if isinstance(claim, SameGiven) else ():
            pairs = tuple((name, mine) for name, (mine, _) in zip(part.inputs, part.outputs, strict=False))
            result.claims = (*result.claims, LikeReference(part.part, pairs, archive, Tolerance(rtol, atol)))
    return result


PRE_SUFFIX = "_preprocessed"
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
    bindings = bind(graph, pre, PRE_SUFFIX, mapped)
    result = EditResult()
    uses: dict[Binding, list[Use]] = {}
    for binding in bindings:
        node = binding.node
        check_placeholder(node)
        check_fits(binding.result, pre, node.output, graph, result)
        uses[binding] = graph.uses(node.output)
        if not uses[binding]:
            message = f"nothing would change: {quoted(node.name)} of {printable(graph.source_name)} has no consumers"
            raise EditError(message, code="no-consumers", tensor=node.name)
    last = max((b.node for b in bindings), key=lambda node: node.record.start if node.record else 0)
    copied = copy_in(graph, pre, replace={b.placeholder: b.node.output for b in bindings}, after=last)
    intent = copied.intent()
    result.intent, result.notes = intent, copied.notes(pre)
    defaults = [read.node for binding in bindings for read in binding.node.inputs]
    for binding in bindings:
        node, other, new = binding.node, binding.placeholder, copied.output(binding.result)
        move_uses(graph, {node.output: uses[binding]}, {node.output: new}, intent)
        if node.inputs:
            text = f"{quoted(node.name)} no longer has a default value: callers must feed it"
            result.note(text, "no-default", node=node.name)
        attrs = {key: other.attr_bytes(key) for key in _PLACEHOLDER_ATTRS}
        attrs = {key: value for key, value in attrs.items() if node.attr_bytes(key) != value}
        if node.op != other.op or attrs:
            graph.replace_op(node, other.op, [] if node.op != other.op else None, attrs)
            intent.changed.append(node.name)
    intent.removed += remove_unused(graph, defaults)  # they would become outputs
    given = {b.node.name: copied.output(b.result).name for b in bindings}
    pairs = [(b.result.name, given[b.node.name]) for b in bindings]
    part = same_part(pre, {b.placeholder.name: b.node.name for b in bindings}, pairs, intent.copied, "pre")
    claim = SameGiven(given, (), "edited(raw) == original(pre(raw))", parts=(part,), parts_stated=True)
    result.claims = (claim,)
    return result


POST_SUFFIX = "_postprocessed"
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
    bindings = bind(graph, post, POST_SUFFIX, mapped)
    result = EditResult()
    for binding in bindings:
        node = binding.node
        where = f"{quoted(node.name)} of {printable(graph.source_name)} ({printable(node.op)})"
        if node.op in PLACEHOLDERS:
            message = f"{where} is an input of the model; postprocessing is added after an output"
            raise EditError(message, code="is-input", node=node.name)
        if node.output_dtypes is not None and not node.output_dtypes:
            message = f"{where} has no output; postprocessing needs a node with an output"
            raise EditError(message, code="wrong-count", node=node.name, expected=1, found=0)
        check_fits(binding.output, graph, binding.placeholder.output, post, result)
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
    for binding in bindings:
        if binding not in direct:
            check_typed(binding.result)
    graph.rename(raws)
    copied = plan_copy(
        graph,
        post,
        replace={b.placeholder.output: b.output for b in bindings},
        names={b.result.node: names[b.node] for b in bindings if b in direct},
        reserved=[names[b.node] for b in bindings if b not in direct],
    ).apply()
    intent = copied.intent()
    intent.renamed = {names[node]: name for node, name in raws.items()}
    for node, name in names.items():
        new = {b.output: copied.output(b.result) for b in bindings if b.node is node and b not in direct}
        if new:
            add_identity(graph, name, [new.get(output, output) for output in node.outputs])
            intent.added.append(name)
    pairs = [(b.result.name, b.called(names[b.node])) for b in bindings]
    inputs = {b.placeholder.name: b.called(raws[b.node]) for b in bindings}
    kept = tuple((b.called(names[b.node]), b.called(raws[b.node])) for b in bindings)
    part = same_part(post, inputs, pairs, intent.copied, "post")
    claim = SameGiven({}, kept, "edited(x) == post(original(x))", parts=(part,), parts_stated=True)
    result.intent, result.claims = intent, (claim,)
    for b in bindings:
        end, old, raw = b.result.node, names[b.node], raws[b.node]
        if end.op != "Identity" or end.inputs[0] != b.placeholder.output:
            text = f"the raw value of {quoted(old)} is now {quoted(raw)}"
            result.note(text, "renamed", name=old, found=raw)
    serving = serving_of(graph)
    for node in output_nodes(post) if serving is not None and serving.called else ():
        if node not in results and (copy := intent.copied.get(node.name)):
            text = f"no signature returns {quoted(copy)}; the command signature can add this output"
            result.note(text, "not-served", name=copy)
    result.notes += copied.notes(post)
    return result


class _Site(NamedTuple):
    """A tensor, the graph that is inserted after it, with its input and its output, and the scope of the copy."""

    tensor: Output
    body: Graph
    placeholder: Node
    result: Output
    scope: str


@edit(tensor=of_sites)
def insert(
    graph: Graph,
    tensor: str | Output | Selection | Iterable[str | Output],
    body: Graph | Callable[[Output], Graph],
    *,
    scope: str = "",
) -> EditResult:
    """Makes the consumers of `tensor` read the result of `body` for `tensor`.

    Args:
        graph: changed in place.
        tensor: a tensor, or several, or a selection, which means output 0 of each selected node with consumers. A copy
            of `body` is inserted for each of several tensors, under the name of the tensor.
        body: a graph with one placeholder and one output that have the dtype and shape of `tensor`. It does not change;
            its source must stay open until `graph` is written. Or a function that returns such a graph for a tensor;
            its names are kept.
        scope: the name scope of the copied nodes. Without a scope, names that are taken are made unique. For several
            tensors, it is a scope below the name of the tensor.

    Raises:
        EditError: `body` does not have exactly one input and output, types differ, a name is taken, or `tensor` has no
            consumers. The graph is unchanged.
    """
    is_one = isinstance(tensor, (str, Output))
    result = EditResult()
    tensors = _tensors(graph, tensor, result)
    sites: list[_Site] = []
    for found in tensors:
        own = f"{found.node.name}_{found.index}" if found.index else found.node.name
        below = scope if is_one or not isinstance(body, Graph) else f"{own}/{scope}".strip("/")
        sites.append(_site(graph, found, body if isinstance(body, Graph) else body(found), below, result))

    parts: list[SamePart] = []
    given: dict[str, str] = {}
    merges: dict[Graph, FunctionMerge] = {}
    for site in sites:
        uses, old = {site.tensor: graph.uses(site.tensor)}, site.tensor.name
        copied = plan_copy(graph, site.body, replace={site.placeholder.output: site.tensor}, scope=site.scope)
        merge = merges.setdefault(site.body, copied.merge)
        if merge is not copied.merge and not copied.shared_names:  # the functions of this body have been added
            copied.merge = FunctionMerge(renamed=merge.renamed)
        copied.apply(site.tensor.node)
        new, change = copied.output(site.result), copied.intent()
        move_uses(graph, uses, {site.tensor: new}, result.intent)
        result.intent.added += change.added
        result.intent.copied |= change.copied
        result.intent.renamed_functions |= change.renamed_functions
        result.intent.functions.added += change.functions.added
        given[old] = new.name
        parts.append(SamePart(site.body, {site.placeholder.name: old}, ((site.result.name, new.name),), change.copied))
        result.notes += copied.notes(site.body)
    statement = equation([f"{printable(old)} := {printable(new)}" for old, new in given.items()])
    outputs = unrenamed_outputs(graph)
    result.decided["bodies"] = [site.body for site in sites]
    if is_one:
        result.claims = (SameTensors(tuple(given)), *parts, SameGiven(given, outputs, statement))
        return result
    # One trial compares all tensors; their consumers read the results of the original.
    pairs = dict.fromkeys([*outputs, *((name, name) for name in given)])
    flow = control_flow_of(graph)
    within: list[SamePart] = []
    separate: list[SamePart] = []
    for site, part in zip(sites, parts, strict=True):
        part.in_place = flow.runs_once(flow.topology.id_of(site.tensor.node))
        (within if part.in_place else separate).append(part)
    result.claims = (SameGiven(given, tuple(pairs), statement, parts=within, sites=tuple(given)), *separate)
    result.told = [Entry("inserted", f"{counted(len(sites), 'graph')}")]
    return result


def _tensors(
    graph: Graph, wanted: str | Output | Selection | Iterable[str | Output], result: EditResult
) -> list[Output]:
    """Returns the tensors; `result` gets a note for each selected node without consumers."""
    if isinstance(wanted, (str, Output)):
        return [graph.output(wanted)]
    if not isinstance(wanted, Selection):
        return distinct_outputs(graph, wanted)
    nodes = [node for node in nodes_of(graph, wanted) if node.output_count]
    found = {node.output: None for node in nodes if graph.uses(node.output)}
    if not found:
        message = "nothing would change: the selected nodes have no consumers"
        raise EditError(message, code="no-consumers", tensors=[node.name for node in nodes[:10]])
    for name in (node.name for node in nodes if node.output not in found):
        result.note(f"{quoted(name)} has no consumers: nothing is inserted", "no-consumers", node=name)
    return [*found]


def _site(graph: Graph, tensor: Output, body: Graph, scope: str, report: EditResult) -> _Site:
    """Returns the site of a tensor. Raises EditError; see `insert`."""
    placeholders = [node for node in input_nodes(body) if node.op != "PlaceholderWithDefault"]
    results = [output for node in output_nodes(body) for output in node.outputs]
    for what, found in (("placeholder", [p.name for p in placeholders]), ("output", [r.name for r in results])):
        if len(found) != 1:
            listed = f" ({', '.join(map(quoted, found[:5]))})" if found else ""
            message = f"{printable(body.source_name)} has {len(found)} {what}s{listed}; exactly one is required"
            raise EditError(message, code="wrong-count", facts={f"{what}s": found})
    placeholder, result = placeholders[0], results[0]
    check_fits(tensor, graph, placeholder.output, body, report)
    check_fits(result, body, tensor, graph, report)
    if any(not node.inputs and node is not placeholder for node in body.nodes()):
        check_outside_of_loops(graph, [tensor])
    if not graph.uses(tensor):
        message = f"nothing would change: {quoted(tensor.name)} has no consumers"
        hint = "add-postprocessing adds a graph after an output"
        raise EditError(message, code="no-consumers", tensor=tensor.name, hint=hint)
    return _Site(tensor, body, placeholder, result, scope)
