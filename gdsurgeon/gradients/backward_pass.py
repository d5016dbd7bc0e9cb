"""The request for gradients, the backward pass by TensorFlow's gradient functions, and the sizes of its tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import external_effect_line, external_effects_of
from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.control_flow import frames_of
from gdsurgeon.analysis.traversal.topology import members, topology_of
from gdsurgeon.errors import EditError, Json, Line, NotValidatedError, Remark, UsageError, printable, quoted
from gdsurgeon.gradients.step_graph import TensorSize, tensor_size
from gdsurgeon.graph.attrs import format_shape, functions_in, shape_value, type_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, check_name, free_scope
from gdsurgeon.graph.node import SCALAR_MEANS_UNKNOWN_BEFORE, Node, Output, placeholder_shape, same_dtype
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops.dtypes import COMPLEX64, COMPLEX128, DTYPES, FLOATING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import COLOCATION_ATTR, LOOPS, PLACEHOLDERS, RESOURCE_VARIABLES, VARIABLES
from gdsurgeon.runtime.base import SEED, Derivation, NoGradient, TensorSpec
from gdsurgeon.runtime.evaluator import Differentiator
from gdsurgeon.text import and_more, counted, first_lines, named, nearest, suggestion
from gdsurgeon.wire.protos import GraphDef, NodeDef


class Weights(NamedTuple):
    """The weights on which tensors depend.

    Attributes:
        constants: the weights, in the order of the file.
        others: counts of other nodes that look like weights, by kind.
        in_functions: the number of weights inside called functions, by the name of the function.
    """

    constants: tuple[Output, ...]
    others: dict[str, int]
    in_functions: dict[str, int]


def weights_of(graph: Graph, targets: Sequence[Output]) -> Weights:
    """Returns the floating-point constants with more than one element on which targets depend."""
    topology = topology_of(graph)
    before = topology.upstream([topology.id_of(tensor.node) for tensor in targets], control=False)
    found = topology.with_ops({"Const"} | VARIABLES | RESOURCE_VARIABLES)
    kinds = {node: _kind(node) for number in found if before[number] for node in (topology.node(number),)}
    others = Counter(kind for kind in kinds.values() if kind not in ("", _WEIGHT))
    called = [name for node, names in calling_nodes(graph) if before[topology.id_of(node)] for name in names]
    in_functions: dict[str, int] = {}
    for name in sorted(graph.functions.reachable(called, gradients=True)):
        tensors = [node.attr["value"].tensor for node in graph.functions[name].node_def if node.op == "Const"]
        floats = [tensor.tensor_shape.dim for tensor in tensors if tensor.dtype in FLOATING]
        if count := sum(prod(dim.size for dim in dims) > 1 for dims in floats):
            in_functions[name] = count
    return Weights(
        tuple(node.output for node, kind in kinds.items() if kind == _WEIGHT),
        dict(others),
        in_functions,
    )


def counted_others(weights: Weights) -> str:
    """Returns the counts of nodes other than weights as text: ``2 scalars and 137 variables``, or ''."""
    parts = [counted(count, kind) for kind, count in weights.others.items()]
    if weights.in_functions:
        parts.append(f"{counted(sum(weights.in_functions.values()), 'weight')} inside functions")
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


_WEIGHT = "weight"


def _kind(node: Node) -> str:
    if node.op != "Const":
        return "variable"
    header = constant_header(node)
    if header is None:
        return ""
    if header.dtype in FLOATING:
        return _WEIGHT if header.elements > 1 else "single-element constant" if header.elements == 1 else ""
    return "quantised constant" if header.dtype in DTYPES and DTYPES[header.dtype].is_quantized else ""


COMPLEX = frozenset((COMPLEX64, COMPLEX128))
SCOPE = "gradients"
MOST_WALKED = 1000
"""The number of nodes that are searched for a suggestion."""


class GradientRequest(NamedTuple):
    """A resolved request.

    Attributes:
        ys: the targets.
        xs: the sources.
        grad_ys: the incoming gradient for each target; if empty, ones.
        names: the names of the result nodes, one for each source.
        scope: the name scope of all other nodes.
        optional: the number of sources, at the end, that are left out if no gradient flows.
        given: the number of names, from the first on, that must be kept; the rest are changed if they are taken.
        in_functions: the number of weights inside functions, which cannot be sources, by the name of the function.
        faults: one line for each wrong type or shape of the tensors.
    """

    ys: tuple[Output, ...]
    xs: tuple[Output, ...]
    grad_ys: tuple[Output, ...]
    names: tuple[str, ...]
    scope: str
    optional: int = 0
    given: int = 0
    in_functions: Mapping[str, int] = MappingProxyType({})
    faults: tuple[Remark, ...] = ()

    @property
    def tensors(self) -> tuple[Output, ...]:
        """All tensors of the request."""
        return (*self.ys, *self.xs, *self.grad_ys)


def wanted_gradients(
    graph: Graph, tensors: Sequence[tuple[Output, ...]], *, weights: bool, scope: str, names: Sequence[str]
) -> GradientRequest:
    """Returns the request for `tensors`, which are ys, xs and grad_ys; see `add_gradients`.

    Raises:
        EditError: a tensor is given twice, or a name is taken or illegal.
        UsageError: the lists do not fit each other.
    """
    targets, sources, given = tensors
    _refuse_twice(targets, "ys")
    _refuse_twice(sources, "xs")
    if not targets:
        raise UsageError("ys is empty: name at least one tensor", code="missing-argument", name="ys")
    for what, items, others, wanted_ in (("grad_ys", given, "ys", targets), ("names", names, "xs", sources)):
        if items and len(items) != len(wanted_):
            message = f"{len(items)} {what} for {len(wanted_)} {others}: give one for each"
            raise UsageError(message, code="wrong-count", name=what, expected=len(wanted_), found=len(items))
    known = set(sources)
    read = weights_of(graph, targets) if weights else Weights((), {}, {})
    further = [tensor for tensor in read.constants if tensor not in known]
    if not sources and not further:
        if not weights:
            message = "xs is empty: name at least one tensor, or use weights"
            raise UsageError(message, code="missing-argument", name="xs")
        others = counted_others(read)
        raise EditError(
            f"{they_do(targets)} not depend on any weight (a floating-point constant of more than one element)"
            + (f", but on {others}" if others else ""),
            code="no-weights",
            facts={"others": dict(read.others), "in_functions": dict(read.in_functions)},
            advice="inline-first" if read.in_functions else "other-sources" if others else (),
        )
    called = scope.strip("/") or SCOPE
    check_name(called)
    free = free_scope(map(str.lower, graph.names()), called.lower())  # TensorFlow ignores the case of names
    if scope and free != called.lower():
        raise EditError(f"the scope {quoted(called)} is in use", code="name-taken", advice="free-scope", name=called)
    scope = called + free[len(called) :]
    wanted = GradientRequest(
        targets, (*sources, *further), given, (), scope, len(further), len(names), read.in_functions
    )
    faults = list(_type_faults(targets, sources, given))
    if given:
        shapes = infer_shapes(graph, wanted=[*targets, *given])
        for target, gradient in zip(targets, given, strict=True):
            expected, found = shapes.shape(target), shapes.shape(gradient)
            if not compatible(expected, found):
                text = f"{quoted(gradient.name)} has the shape {format_shape(found)}, but the gradient of "
                text += f"{quoted(target.name)} has {format_shape(expected)}"
                dims: dict[str, Json] = {"found": [*(found or ())], "expected": [*(expected or ())]}
                faults.append(Remark(text, "shape-mismatch", tensor=gradient.name, of=target.name, **dims))
    return wanted._replace(names=tuple(_names(graph, wanted, names)), faults=tuple(faults))


def tensors_named(graph: Graph, *lists: Sequence[str | Output]) -> list[tuple[Output, ...]]:
    """Returns the tensors of several lists.

    Raises:
        EditError: some tensors do not exist; all of them are listed.
    """
    out: list[tuple[Output, ...]] = []
    errors: list[EditError] = []
    for tensors in lists:
        found: list[Output] = []
        for tensor in tensors:
            try:
                found.append(graph.output(tensor))
            except EditError as error:
                errors.append(error)
        out.append(tuple(found))
    if len(errors) > 1:
        raise EditError(
            f"{len(errors)} tensors do not exist:",
            code="no-such-tensor",
            errors=[{"code": error.code, **error.facts} for error in errors],
            details=tuple(error.message for error in errors),
        )
    if errors:
        raise errors[0]
    return out


def _refuse_twice(tensors: Sequence[Output], what: str) -> None:
    twice = [tensor for tensor, count in Counter(tensors).items() if count > 1]
    if twice:
        message = f"{quoted(twice[0].name)} occurs twice in the {what}"
        raise EditError(message, code="given-twice", tensor=twice[0].name, name=what)


def they_do(targets: Sequence[Output]) -> str:
    """Returns subject and verb of a sentence about targets: ``'a', 'b' do``."""
    names = ", ".join(quoted(y.name) for y in targets[:3]) + (" and others" if len(targets) > 3 else "")
    return f"{names} {'does' if len(targets) == 1 else 'do'}"


def _names(graph: Graph, wanted: GradientRequest, names: Sequence[str]) -> Iterator[str]:
    """Yields the given names, and for all other sources their names in the scope."""
    taken: set[str] = set()
    for name in names:
        check_name(name)
        if name in taken:
            raise EditError(f"the name {quoted(name)} is given twice", code="given-twice", name=name)
        graph.check_free(name)
        taken.add(name)
        yield name
    unique = UniqueNames(lambda name: name in taken or name in graph)
    for source in wanted.xs[len(names) :]:
        yield unique(f"{wanted.scope}/{source.node.name}" + (f"_{source.index}" if source.index else ""))


def _nearest(tensor: Output, dtypes: Container[int], *, before: bool) -> Output | None:
    """Returns the nearest tensor before or after `tensor` with one of the dtypes, except constants."""
    nodes = [tensor.node]
    seen = set(nodes)
    for node in nodes:  # grows while it is walked: breadth first
        if node is not tensor.node and node.op != "Const" and base_dtype(node.output.dtype) in dtypes:
            return node.output
        further = (read.node for read in node.inputs) if before else node.graph.users(node)
        new = [] if len(nodes) > MOST_WALKED else [other for other in dict.fromkeys(further) if other not in seen]
        seen.update(new)
        nodes += new
    return None


def _type_faults(targets: Sequence[Output], sources: Sequence[Output], given: Sequence[Output]) -> Iterator[Remark]:
    for what, tensors, right in (("ys", targets, FLOATING | COMPLEX), ("xs", sources, FLOATING | COMPLEX)):
        for tensor in tensors:
            dtype = base_dtype(tensor.dtype)
            if dtype and dtype not in right:
                near = _nearest(tensor, right, before=what == "ys")
                text = (
                    f"{quoted(tensor.name)} of the {what} is {dtype_name(dtype)}, but only floating-point "
                    "tensors have gradients"
                )
                text += f", such as {quoted(near.name)} {'before' if what == 'ys' else 'after'} it" if near else ""
                facts = {"tensor": tensor.name, "name": what, "found": dtype_name(dtype)}
                yield Remark(text, "not-floating", **facts, near=near.name if near else None)
    if not given:
        for tensor in targets:
            if base_dtype(tensor.dtype) in COMPLEX:
                text = f"{quoted(tensor.name)} of the ys is complex, so grad_ys must give its incoming gradient"
                yield Remark(text, "is-complex", tensor=tensor.name)
    for tensor, gradient in zip(targets, given, strict=False):
        if not same_dtype(tensor.dtype, gradient.dtype):
            found, expected = (dtype_name(base_dtype(item.dtype)) for item in (gradient, tensor))
            text = f"{quoted(gradient.name)} is {found}, but the gradient of {quoted(tensor.name)} is {expected}"
            yield Remark(text, "dtype-mismatch", tensor=gradient.name, found=found, of=tensor.name, expected=expected)


MOST_LISTED = 100


class BackwardPass(NamedTuple):
    """A backward pass.

    Attributes:
        definition: its nodes, changed nodes of the graph, and its functions.
        wanted: the request, without the sources that were left out.
        unconnected: the sources without a gradient, whose results are zeros.
        left_out: the weights without a gradient, which are not sources.
        own: whether the reverse walk made it; otherwise TensorFlow's `gradients` did.
        calls: function calls on the path without a gradient function.
        seeds: the nodes that are the gradients of the targets.
    """

    definition: GraphDef
    wanted: GradientRequest
    unconnected: tuple[Output, ...]
    left_out: tuple[Output, ...]
    own: bool
    calls: tuple[str, ...]
    seeds: tuple[str, ...]


def backward_pass(
    graph: Graph,
    wanted: GradientRequest,
    known: GraphDef,
    differentiator: Differentiator,
    *,
    zeros: bool = False,
) -> BackwardPass:
    """Returns the nodes of a backward pass, as TensorFlow makes them.

    Args:
        graph: the graph; it is not changed.
        wanted: the request.
        known: the necessary part of the graph; see `skeleton`.
        differentiator: has TensorFlow's gradient functions.
        zeros: whether sources on which the targets do not depend have zeros as results.

    Raises:
        EditError: a gradient cannot be computed; all reasons are listed.
        NotValidatedError: TensorFlow may run an op with external effects when it loads that part.
    """
    if any(tensor.node.name not in graph for tensor in wanted.tensors):
        raise EditError("a tensor belongs to a different graph", code="other-graph")
    names = {node.name for node in known.node}
    for node, op in external_effects_of(graph).evaluated_at_load() if not differentiator.allow_ops else ():
        if node.name in names:
            line = "TensorFlow may run nodes to compute the gradients: {reason}"
            refusal = Line(line, reason=external_effect_line(node, op))
            raise NotValidatedError(refusal, code="reaches-outside", advice="allow-ops", node=node.name, op=node.op)
    ys, xs, grad_ys = (tuple(tensor.name for tensor in tensors) for tensors in (wanted.ys, wanted.xs, wanted.grad_ys))
    try:
        found = differentiator.derive(known.SerializeToString(), Derivation(ys, xs, grad_ys, wanted.scope))
    except EditError:
        if wanted.faults:
            raise _refused(wanted.faults) from None
        raise
    reasons = [*wanted.faults, *_reasons(graph, found.missing)]
    if reasons:
        raise _refused(reasons)
    without = [x for x, result in zip(wanted.xs, found.results, strict=True) if result is None]
    optional = set() if zeros else set(wanted.xs[len(wanted.xs) - wanted.optional :])
    lost = [x for x in without if x not in optional]
    left_out = dict.fromkeys(x for x in without if x in optional)
    if lost and not zeros:
        sources = [x.name for x in lost]
        message = f"{they_do(wanted.ys)} not depend on {named(sources, 10, quoted)} in a way that has a gradient"
        raise EditError(message, code="unconnected", tensors=sources, advice="zeros")
    definition = GraphDef.FromString(found.graph)
    kept = [i for i, x in enumerate(wanted.xs) if x not in left_out]
    wanted = wanted._replace(
        xs=tuple(wanted.xs[i] for i in kept), names=tuple(wanted.names[i] for i in kept), optional=0
    )
    taken = {node.name for node in definition.node}
    for name in wanted.names[: wanted.given]:
        if name in taken:
            message = f"the name {quoted(name)} is taken by a node of the backward pass: choose a different name"
            raise EditError(message, code="name-taken", name=name)
    unique = UniqueNames(lambda name: name in taken or name in graph)
    wanted = wanted._replace(names=tuple(map(unique, wanted.names)))
    for source, name, tensor in zip(wanted.xs, wanted.names, (found.results[i] for i in kept), strict=True):
        op = "Identity" if tensor is not None else "ZerosLike"
        added = definition.node.add(name=name, op=op, input=[tensor or source.name])
        added.attr["T"].CopyFrom(type_value(base_dtype(source.dtype)))
    names_of_seeds = {f"{wanted.scope}/{SEED}{number}" for number in range(len(wanted.ys))}
    seeds = tuple(node.name for node in definition.node if node.name in names_of_seeds)
    return BackwardPass(definition, wanted, tuple(lost), tuple(left_out), found.own, found.calls, seeds)


def _refused(reasons: Sequence[Remark]) -> EditError:
    facts = {"reasons": [reason.as_json() for reason in reasons]}
    if len(reasons) == 1:
        return EditError(f"the gradients cannot be computed: {reasons[0]}", code="no-gradient", facts=facts)
    details = first_lines(reasons, MOST_LISTED)
    message = f"the gradients cannot be computed, for {len(reasons)} reasons:"
    return EditError(message, code="no-gradient", facts=facts, details=details)


def _reasons(graph: Graph, missing: Iterable[NoGradient]) -> Iterator[Remark]:
    loops: list[str] = []
    for item in missing:
        if item.op in LOOPS:
            loops.append(item.node)
        elif item.reason:
            text = f"{quoted(item.node)} ({printable(item.op)}) has a custom gradient {quoted(item.reason)}, "
            text += "a Python function that is not in the file"
            yield Remark(text, "custom-gradient", node=item.node, op=item.op, name=item.reason)
        else:
            text = f"{quoted(item.node)}: {printable(item.op)} has no gradient in TensorFlow"
            yield Remark(text, "no-gradient", node=item.node, op=item.op)
    if loops:
        topology = topology_of(graph)
        frames = frames_of(graph)
        inside = dict.fromkeys(frames.of[topology.id_of(graph[name])] for name in loops)
        for frame in dict.fromkeys(frames.names[number] for number in inside if number >= 0):
            text = (
                f"the v1 while loop {quoted(frame)} is on the path, and TensorFlow does not store "
                "gradients of such loops in a file"
            )
            yield Remark(text, "crosses-loop", loop=frame)


MOST_ELEMENTS = 1024
"""The largest number of elements of a constant that may be a shape or an axis; larger constants are weights."""


def skeleton(graph: Graph, tensors: Iterable[Output]) -> GraphDef:
    """Returns the part of a graph on which tensors depend; Placeholders replace its weights.

    Colocations are left out. The function library is complete. The nodes have the order of the file.
    """
    topology = topology_of(graph)
    seeds = [topology.id_of(tensor.node) for tensor in tensors]
    out = GraphDef()
    if graph.store.producer:
        out.versions.producer = graph.store.producer
    for number in members(topology.upstream(seeds)):
        out.node.append(_without_weights(topology.node(number)))
    for function in graph.functions:
        out.library.function.add().CopyFrom(function)
    return out


def _without_weights(node: Node) -> NodeDef:
    header = constant_header(node) if node.op == "Const" else None
    if header is None or header.dims is None or header.elements <= MOST_ELEMENTS:
        definition = node_def(node)
        definition.attr.pop(COLOCATION_ATTR, None)
        return definition
    definition = NodeDef(name=node.name, op="Placeholder", device=node.device)
    definition.input.extend(f"^{control.name}" for control in node.controls)
    definition.attr["dtype"].CopyFrom(type_value(header.dtype))
    definition.attr["shape"].CopyFrom(shape_value(header.dims))
    return definition


def _set_shapes(definition: GraphDef, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Sets the shapes of placeholders: those in `shapes`, by name; of others, 1 for each unknown dimension."""
    for node in definition.node:
        if node.op not in PLACEHOLDERS:
            continue
        if node.name in shapes:
            # In graphs so old that a scalar shape means an unknown shape, only PlaceholderV2 can be a scalar.
            is_old = definition.versions.producer < SCALAR_MEANS_UNKNOWN_BEFORE
            node.op = "PlaceholderV2" if is_old and not shapes[node.name] else "Placeholder"
            node.attr["shape"].CopyFrom(shape_value(shapes[node.name]))
            del node.input[:]
        elif node.op == "PlaceholderWithDefault":
            node.op = "Identity"  # of its default value
            node.attr["T"].CopyFrom(node.attr["dtype"])
            del node.attr["dtype"], node.attr["shape"]
        elif node.attr["shape"].HasField("shape") and not node.attr["shape"].shape.unknown_rank:
            for dim in node.attr["shape"].shape.dim:
                dim.size = 1 if dim.size < 0 else dim.size


_SMALL = frozenset((("FusedBatchNormV3", 5),))
"""Outputs of ops that are tiny, although their inferred shape is unknown."""


class Sizes(NamedTuple):
    """The sizes of the outputs of nodes, by the name of the node.

    Attributes:
        signatures: dtypes and shapes.
        tensors: shapes and bytes.
        warnings: one line for each unknown fact about them.
        has_batch: whether an input has more than one example.
    """

    signatures: Mapping[str, Sequence[TensorSpec]]
    tensors: Mapping[str, Sequence[TensorSize]]
    warnings: list[str]
    has_batch: bool


def tensor_sizes(
    graph: Graph,
    known: GraphDef,
    definition: GraphDef,
    shapes: Mapping[str, tuple[int, ...]],
    differentiator: Differentiator,
) -> Sizes:
    """Returns the sizes of all tensors of two GraphDefs; open dimensions of inputs count as 1.

    Args:
        graph: the graph.
        known: the differentiated part; see `skeleton`.
        definition: its backward pass.
        shapes: the shapes of inputs, by name.
        differentiator: infers the shapes.

    Raises:
        UsageError: a shape is given for a node that is not an input.
    """
    inputs = {node.name: node for node in known.node if node.op in PLACEHOLDERS}
    for name in shapes:
        found = graph.find(name)
        if found is None or found.op not in PLACEHOLDERS:
            near = nearest(name, inputs)
            message = f"{quoted(name)}, for which a shape is given, is not an input{'.' if near else ''}"
            raise UsageError(message + suggestion(near), code="no-such-input", node=name, near=near)
    given = {name: shape for name, shape in shapes.items() if name in inputs}
    definition = together(known, definition)
    _set_shapes(definition, given)
    signatures = differentiator.signatures(definition.SerializeToString())
    tensors = {
        name: [tensor_size(base_dtype(found.dtype), found.shape) for found in outputs]
        for name, outputs in signatures.items()
    }
    ops = {node.name: node.op for node in definition.node}
    stated = {name: placeholder_shape(graph[name]) for name in inputs if graph[name].op in PLACEHOLDERS}
    shapeless = [name for name, shape in stated.items() if name not in given and shape is None]
    is_open = [name for name, shape in stated.items() if name not in given and shape and min(shape) < 0]
    unknown = [
        name
        for name, outputs in signatures.items()
        for index, found in enumerate(outputs)
        if (found.shape is None or min(found.shape, default=0) < 0)
        and base_dtype(found.dtype) in FLOATING
        and (ops[name], index) not in _SMALL
    ]
    warnings: list[str] = []
    if is_open:
        line = "the tensors to keep are chosen with size 1 for the open dimensions of {names}; set sizes with {shapes}"
        warnings.append(Line(line, names=", ".join(map(quoted, is_open[:3]))))
    if shapeless and unknown:
        line = "the tensors to keep are chosen without the shapes of {names} and of tensors computed from {names}; "
        line += "set shapes with {shapes}"
        warnings.append(Line(line, names=", ".join(map(quoted, shapeless[:3]))))
    elif unknown:
        count = f"{len(unknown):,} tensors" if len(unknown) > 1 else "a tensor"
        text = f"the tensors to keep are chosen as if {count} of unknown size used no memory: {quoted(unknown[0])}"
        warnings.append(Remark(text, "size-unknown", node=unknown[0], count=len(unknown)))
    library = {function.signature.name for function in definition.library.function}
    callers = [n for n in definition.node if n.op in library or any(map(functions_in, n.attr.values()))]
    if callers:
        called = f"{quoted(callers[0].name)} ({printable(callers[0].op)}){and_more(len(callers) - 1)}"
        text = f"the plan does not count tensors inside functions: {called}"
        warnings.append(Remark(text, "inside-functions", node=callers[0].name, op=callers[0].op, count=len(callers)))
    has_batch = any((signatures[name][0].shape or (1,))[0] > 1 for name in stated)
    return Sizes(signatures, tensors, warnings, has_batch)


def together(known: GraphDef, definition: GraphDef) -> GraphDef:
    """Returns two GraphDefs as one; nodes and functions of the second one replace those with the same name."""
    out = type(known)()
    out.versions.CopyFrom(known.versions)
    out.node.extend({node.name: node for part in (known, definition) for node in part.node}.values())
    functions = {f.signature.name: f for part in (known, definition) for f in part.library.function}
    out.library.function.extend(functions.values())
    return out
