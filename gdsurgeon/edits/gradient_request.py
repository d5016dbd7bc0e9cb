"""What is to be differentiated with respect to what: the request, resolved and checked against the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.topology import Topology
from gdsurgeon.analysis.walks import backward_walk
from gdsurgeon.errors import EditError, UsageError, quoted
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.dtypes import base_dtype, dtype_name
from gdsurgeon.graph.graph import Graph, check_name
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Output, same_dtype

FLOATING = frozenset((1, 2, 14, 19))
COMPLEX = frozenset((8, 18))
SCOPE = "gradients"


class Wanted(NamedTuple):
    """A resolved request.

    Attributes:
        ys: the targets.
        xs: the sources.
        grad_ys: the gradient that comes in for each target; none at all: ones.
        names: what the nodes of the results are called, one for each source.
        scope: the name scope of all other nodes.
        optional: how many sources, at the end, may be left out where no gradient flows.
        given: how many names, from the first on, are to be as they are; others give way to nodes of the same name.
    """

    ys: tuple[Output, ...]
    xs: tuple[Output, ...]
    grad_ys: tuple[Output, ...]
    names: tuple[str, ...]
    scope: str
    optional: int = 0
    given: int = 0

    @property
    def tensors(self) -> tuple[Output, ...]:
        """All tensors of the graph that are named."""
        return (*self.ys, *self.xs, *self.grad_ys)


def wanted_gradients(
    graph: Graph,
    ys: Sequence[str | Output],
    xs: Sequence[str | Output],
    *,
    weights: bool = False,
    grad_ys: Sequence[str | Output] = (),
    scope: str = "",
    names: Sequence[str] = (),
) -> tuple[Wanted, list[str]]:
    """The request, and what is wrong with the types of its tensors, a line each; see `add_gradients`.

    Raises:
        EditError: a tensor is not there, is given twice, or a name is taken or illegal.
        UsageError: the lists do not fit each other.
    """
    targets = _resolved(graph, ys, "ys")
    sources = _resolved(graph, xs, "xs")
    given = tuple(graph.output(tensor) for tensor in grad_ys)
    if not targets:
        raise UsageError("gradients of nothing: ys names no tensor")
    if given and len(given) != len(targets):
        raise UsageError(f"{len(given)} grad_ys for {len(targets)} ys: one for each is needed")
    if names and len(names) != len(sources):
        raise UsageError(f"{len(names)} names for {len(sources)} xs: one for each is needed")
    known = set(sources)
    further = [tensor for tensor in _weights(graph, targets) if tensor not in known] if weights else []
    if not sources and not further:
        raise EditError("there is nothing to differentiate with respect to: xs names no tensor, and no weight is read")
    scope = _scope(graph, scope)
    wanted = Wanted(targets, (*sources, *further), given, (), scope, len(further), len(names))
    wanted = wanted._replace(names=tuple(_names(graph, wanted, names)))
    return wanted, [*_type_faults(targets, sources, given)]


def _resolved(graph: Graph, tensors: Sequence[str | Output], what: str) -> tuple[Output, ...]:
    out: dict[Output, None] = {}
    for tensor in tensors:
        output = graph.output(tensor)
        if output in out:
            raise EditError(f"{quoted(output.name)} is given twice as one of the {what}")
        out[output] = None
    return tuple(out)


def _weights(graph: Graph, targets: Sequence[Output]) -> Iterator[Output]:
    """The floating constants of more than one element on which TARGETS depend, in the order of the file."""
    topology = Topology(graph)
    before = backward_walk(topology, [topology.id_of(tensor.node) for tensor in targets])
    for number in topology.with_ops(("Const",)):
        if before[number]:
            header = constant_header(topology.node(number))
            if header is not None and header.dtype in FLOATING and header.elements > 1:
                yield topology.node(number).output


def _scope(graph: Graph, scope: str) -> str:
    """The scope for the new nodes: a free one."""
    wanted = scope.strip("/") or SCOPE
    check_name(wanted)
    prefixes = _prefixes(graph)
    if scope and wanted.lower() in prefixes:
        raise EditError(f"the scope {quoted(wanted)} is in use")
    return UniqueNames(lambda name: name.lower() in prefixes)(wanted)


def _prefixes(graph: Graph) -> set[str]:
    """All names of nodes, and of scopes that they are in, in lower case: TensorFlow tells no others apart."""
    out: set[str] = set()
    for name in map(str.lower, graph.names()):
        while name and name not in out:
            out.add(name)
            name = name.rpartition("/")[0]
    return out


def _names(graph: Graph, wanted: Wanted, names: Sequence[str]) -> Iterator[str]:
    """Those given, and for the other sources their own names under the scope."""
    taken: set[str] = set()
    for name in names:
        check_name(name)
        if name in graph or name in taken:
            raise EditError(f"the name {quoted(name)} is taken")
        taken.add(name)
        yield name
    unique = UniqueNames(lambda name: name in taken or name in graph)
    for source in wanted.xs[len(names) :]:
        yield unique(f"{wanted.scope}/{source.node.name}" + (f"_{source.index}" if source.index else ""))


def _type_faults(targets: Sequence[Output], sources: Sequence[Output], given: Sequence[Output]) -> Iterator[str]:
    for what, tensors, right in (("ys", targets, FLOATING | COMPLEX), ("xs", sources, FLOATING | COMPLEX)):
        for tensor in tensors:
            dtype = base_dtype(tensor.dtype)
            if dtype and dtype not in right:
                yield f"{quoted(tensor.name)} of the {what} is {dtype_name(dtype)}: only floating ones have gradients"
    if not given:
        for tensor in targets:
            if base_dtype(tensor.dtype) in COMPLEX:
                yield f"{quoted(tensor.name)} of the ys is complex: its own gradient has to be given (grad_ys)"
    for tensor, gradient in zip(targets, given, strict=False):
        if not same_dtype(tensor.dtype, gradient.dtype):
            yield (
                f"{quoted(gradient.name)} is {dtype_name(base_dtype(gradient.dtype))}, and the gradient of "
                f"{quoted(tensor.name)} is {dtype_name(base_dtype(tensor.dtype))}"
            )
