"""The request for gradients, resolved and checked against the graph, and the weights of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.analysis.queries.usage import calling_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import EditError, Json, Remark, UsageError, quoted
from gdsurgeon.graph.attrs import format_shape
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, check_name, free_scope
from gdsurgeon.graph.node import Node, Output, same_dtype
from gdsurgeon.ops.dtypes import COMPLEX64, COMPLEX128, DTYPES, FLOATING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES, VARIABLES
from gdsurgeon.text import counted


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
