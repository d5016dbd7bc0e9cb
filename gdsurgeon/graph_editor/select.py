"""Selects nodes and tensors: by filters and names, by neighbourhood, by walks along the edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from typing import Any, Literal, TypeAlias, TypeVar

from gdsurgeon.analysis.traversal.topology import boundary
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import in_scope
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.match import op_type
from gdsurgeon.graph_editor.util import (
    ControlOutputs,
    check_type,
    get_consuming_ops,
    get_generating_ops,
    is_iterable,
    make_list_of_op,
    make_list_of_t,
    node_outputs,
    tensor_name,
)
from gdsurgeon.select import BAD_PATTERN

__all__ = [
    "can_be_regex", "check_cios", "compute_boundary_ts", "filter_ops", "filter_ops_by_optype", "filter_ops_from_regex",
    "filter_ts", "filter_ts_from_regex", "get_backward_walk_ops", "get_forward_walk_ops", "get_input_ts",
    "get_name_scope_ops", "get_ops_ios", "get_output_ts", "get_walks_intersection_ops", "get_walks_union_ops",
    "get_within_boundary_ops", "make_regex", "ops", "select_ops", "select_ops_and_ts", "select_ts", "ts",
]  # fmt: skip

Keyword: TypeAlias = Any
"""A keyword argument, which is checked by hand as TensorFlow 1 did."""
NodeFilter = Callable[[Node], object]
TensorFilter = Callable[[Output], object]
T = TypeVar("T", Node, Output)

_TENSORS, _NODES = "(?#ts)", "(?#ops)"


def can_be_regex(obj: object) -> bool:
    """Returns whether `obj` is a regular expression, compiled or not."""
    return isinstance(obj, (str, re.Pattern))


def make_regex(obj: object) -> re.Pattern[str]:
    """Returns `obj` as a compiled regular expression.

    Raises:
        ValueError: it is not a regular expression.
    """
    if not isinstance(obj, (str, re.Pattern)):
        found = type(obj).__name__
        line = f"a regular expression is expected, not {found}"
        raise EditError(line, code="bad-pattern", found=found)
    try:
        return re.compile(obj)
    except BAD_PATTERN as error:
        line = f"{quoted(str(obj))} is not a regular expression: {error}"
        raise EditError(line, code="bad-pattern", value=str(obj)) from error


# -- filters; for `ops` and its errors see `make_list_of_op` -----------------------------------------------


def get_input_ts(ops: object) -> list[Output]:
    """Returns the tensors that `ops` read, each once."""
    return list(dict.fromkeys(read for op in make_list_of_op(ops) for read in op.inputs))


def get_output_ts(ops: object) -> list[Output]:
    """Returns the outputs of `ops`."""
    return [output for op in make_list_of_op(ops) for output in node_outputs(op)]


def filter_ts(ops: object, positive_filter: TensorFilter | Literal[True]) -> list[Output]:
    """Returns the inputs and outputs of `ops` that pass the filter; True accepts all."""
    nodes = make_list_of_op(ops)
    found = dict.fromkeys([*get_input_ts(nodes), *get_output_ts(nodes)])
    return [tensor for tensor in found if positive_filter is True or positive_filter(tensor)]


def filter_ts_from_regex(ops: object, regex: str | re.Pattern[str]) -> list[Output]:
    """Returns the inputs and outputs of `ops` whose names (``node:0``) match `regex` (searched)."""
    search = make_regex(regex).search
    return filter_ts(ops, lambda tensor: search(tensor_name(tensor)))


def filter_ops(ops: object, positive_filter: NodeFilter | Literal[True]) -> list[Node]:
    """Returns the nodes in `ops` that pass the filter; True accepts all."""
    return [op for op in make_list_of_op(ops) if positive_filter is True or positive_filter(op)]


def filter_ops_from_regex(ops: object, regex: str | re.Pattern[str]) -> list[Node]:
    """Returns the nodes in `ops` whose names match `regex` (searched)."""
    search = make_regex(regex).search
    return filter_ops(ops, lambda op: search(op.name))


def filter_ops_by_optype(ops: object, op_types: str | Iterable[str]) -> list[Node]:
    """Returns the nodes in `ops` whose op type is one of `op_types`."""
    return filter_ops(ops, op_type(op_types))


def get_name_scope_ops(ops: object, scope: str) -> list[Node]:
    """Returns the nodes in `ops` under a name scope, which is not a regular expression.

    The slash at the end is optional. The node that has the name of the scope belongs to it.
    """
    return filter_ops(ops, lambda op: in_scope(op.name, scope))


# -- neighbourhoods and walks ------------------------------------------------------------------------------


def check_cios(
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> tuple[bool, ControlOutputs | None]:
    """Returns `control_inputs` and `control_outputs`; `control_ios` stands for both.

    Raises:
        TypeError: `control_outputs` or `control_ios` is not a ControlOutputs.
        ValueError: both `control_outputs` and `control_ios` are given.
    """
    for given in (control_outputs, control_ios):
        if given is not None:
            check_type(given, ControlOutputs)
    if control_ios is None:
        return control_inputs, control_outputs
    if control_outputs is not None:
        options = ["control_ios", "control_outputs"]
        line = "give either control_ios or control_outputs, not both"
        raise EditError(line, code="conflicting-options", options=options)
    return True, control_ios


def get_ops_ios(
    ops: object,
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> list[Node]:
    """Returns the producers of the inputs of `ops` and the consumers of their outputs, each once.

    Args:
        ops: nodes.
        control_inputs: include the control inputs.
        control_outputs: include the nodes with a control dependency on `ops`.
        control_ios: both.

    Raises:
        TypeError, ValueError: see `make_list_of_op` and `check_cios`.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    found: dict[Node, None] = {}
    for op in make_list_of_op(ops):
        for neighbours in (_producers(op, (), control_inputs), _users(op, (), control_outputs is not None)):
            found.update(dict.fromkeys(neighbours))
    return list(found)


def _producers(node: Node, stop_at: Container[Output], control: bool) -> list[Node]:
    producers = [read.node for read in node.inputs if read not in stop_at]
    return [producer for producer in (*producers, *(node.controls if control else ())) if producer.exists]


def _users(node: Node, stop_at: Container[Output], control: bool) -> list[Node]:
    return [
        user
        for user in node.graph.users(node)
        if (control and node in user.controls) or any(read.node is node and read not in stop_at for read in user.inputs)
    ]


def compute_boundary_ts(ops: object) -> tuple[list[Output], list[Output], list[Output]]:
    """Returns three lists of tensors: the inputs of `ops` from outside; the outputs that outside nodes read, or no
    node; the inputs from inside. A tensor that is read both outside and inside is in the second and the third list.
    """
    edges = boundary(make_list_of_op(ops))
    return edges.inputs, edges.outputs, edges.inside


def get_within_boundary_ops(
    ops: object,
    seed_ops: object,
    boundary_ops: object = (),
    inclusive: bool = True,
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> list[Node]:
    """Returns the nodes in `ops` that are reachable from the seeds, along edges in any direction.

    Args:
        ops: the nodes that the result can contain, in the order of the result.
        seed_ops: the start of the walk; part of the result.
        boundary_ops: nodes that the walk does not cross.
        inclusive: whether the reached boundary nodes are part of the result.
        control_inputs, control_outputs, control_ios: see `get_ops_ios`.

    Raises:
        TypeError: see `make_list_of_op`.
        ValueError: a seed is in the boundary.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    nodes = make_list_of_op(ops)
    seeds = make_list_of_op(seed_ops, allow_graph=False)
    edge = set(make_list_of_op(boundary_ops))
    for seed in seeds:
        if seed in edge:
            line = f"{quoted(seed.name)} is both a seed and in the boundary"
            raise EditError(line, code="conflicting-options", node=seed.name)

    def neighbours(node: Node) -> list[Node]:
        return [] if node in edge else get_ops_ios(node, control_inputs, control_outputs)

    found = set(walk(seeds, neighbours))
    return [node for node in nodes if node in found and (inclusive or node not in edge)]


def walk(seeds: Iterable[Node], neighbours: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """Returns `seeds` and all nodes that are reachable by `neighbours`, breadth first."""
    found = dict.fromkeys(seeds)
    pending = list(found)
    for node in pending:  # grows during the loop
        new = [other for other in dict.fromkeys(neighbours(node)) if other not in found]
        found.update(dict.fromkeys(new))
        pending += new
    return pending


def get_forward_walk_ops(
    seed_ops: object,
    inclusive: bool = True,
    within_ops: object = None,
    within_ops_fn: NodeFilter | None = None,
    stop_at_ts: object = (),
    control_outputs: ControlOutputs | None = None,
) -> list[Node]:
    """Returns the nodes that depend on the seeds, breadth first.

    Args:
        seed_ops: nodes; or tensors, which stand for their consumers.
        inclusive: whether the seeds are part of the result.
        within_ops: nodes that the walk does not leave; seeds outside of it are ignored.
        within_ops_fn: a predicate; the walk does not enter other nodes.
        stop_at_ts: tensors that the walk does not follow.
        control_outputs: also follow control edges.

    Raises:
        TypeError, ValueError: see `make_list_of_op`, `make_list_of_t` and `check_cios`.
    """
    _, control_outputs = check_cios(False, control_outputs)
    stop, control = frozenset(make_list_of_t(stop_at_ts)), control_outputs is not None
    seeds = _seeds(seed_ops, get_consuming_ops)
    return _walk(seeds, lambda node: _users(node, stop, control), inclusive, within_ops, within_ops_fn)


def get_backward_walk_ops(
    seed_ops: object,
    inclusive: bool = True,
    within_ops: object = None,
    within_ops_fn: NodeFilter | None = None,
    stop_at_ts: object = (),
    control_inputs: bool = False,
) -> list[Node]:
    """Returns the nodes that the seeds depend on, breadth first.

    Args:
        seed_ops: nodes; or tensors, which stand for their producers.
        inclusive, within_ops, within_ops_fn, stop_at_ts: see `get_forward_walk_ops`.
        control_inputs: also follow control edges.

    Raises:
        TypeError, ValueError: see `make_list_of_op` and `make_list_of_t`.
    """
    stop = frozenset(make_list_of_t(stop_at_ts))
    seeds = _seeds(seed_ops, get_generating_ops)
    return _walk(seeds, lambda node: _producers(node, stop, control_inputs), inclusive, within_ops, within_ops_fn)


def _seeds(seed_ops: object, nodes_of: Callable[[object], list[Node]]) -> list[Node]:
    given: list[Any] = list(seed_ops) if is_iterable(seed_ops) else [seed_ops]  # type: ignore[call-overload]
    return nodes_of(given) if given and isinstance(given[0], Output) else make_list_of_op(given)


def _walk(
    seeds: Iterable[Node],
    neighbours: Callable[[Node], Iterable[Node]],
    inclusive: bool,
    within_ops: object,
    within_ops_fn: NodeFilter | None,
) -> list[Node]:
    members = None if within_ops is None else frozenset(make_list_of_op(within_ops, allow_graph=False))
    starts = dict.fromkeys(seed for seed in seeds if members is None or seed in members)

    def is_within(node: Node) -> bool:
        return (members is None or node in members) and (within_ops_fn is None or bool(within_ops_fn(node)))

    found = walk(starts, lambda node: filter(is_within, neighbours(node)))
    return found if inclusive else [node for node in found if node not in starts]


def get_walks_intersection_ops(
    forward_seed_ops: object,
    backward_seed_ops: object,
    forward_inclusive: bool = True,
    backward_inclusive: bool = True,
    within_ops: object = None,
    within_ops_fn: NodeFilter | None = None,
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> list[Node]:
    """Returns the nodes that both a forward and a backward walk reach, in the order of the forward walk.

    For arguments and errors see `get_forward_walk_ops` and `get_backward_walk_ops`; `control_ios` stands for control
    inputs and control outputs.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    within = within_ops, within_ops_fn
    forward = get_forward_walk_ops(forward_seed_ops, forward_inclusive, *within, control_outputs=control_outputs)
    backward = get_backward_walk_ops(backward_seed_ops, backward_inclusive, *within, control_inputs=control_inputs)
    return list(filter(frozenset(backward).__contains__, forward))


def get_walks_union_ops(
    forward_seed_ops: object,
    backward_seed_ops: object,
    forward_inclusive: bool = True,
    backward_inclusive: bool = True,
    within_ops: object = None,
    within_ops_fn: NodeFilter | None = None,
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> list[Node]:
    """Returns the nodes that a forward or a backward walk reaches, each once; see `get_walks_intersection_ops`."""
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    within = within_ops, within_ops_fn
    forward = get_forward_walk_ops(forward_seed_ops, forward_inclusive, *within, control_outputs=control_outputs)
    backward = get_backward_walk_ops(backward_seed_ops, backward_inclusive, *within, control_inputs=control_inputs)
    return list(dict.fromkeys([*forward, *backward]))


# -- selections --------------------------------------------------------------------------------------------

_KEYWORDS = frozenset(("graph", "positive_filter", "restrict_ops_regex", "restrict_ts_regex"))


def select_ops(*args: object, **kwargs: Keyword) -> list[Node]:
    """Returns nodes by regular expressions and nodes that are given directly, each once, in the order of the arguments.

    Args:
        args: regular expressions (searched in the names of nodes; a regular expression that begins with ``(?#ts)`` is
            for tensors and is ignored), nodes, or lists of nodes; tensors are ignored.
        kwargs: `graph` in which to search; `positive_filter`, a predicate that the nodes must pass;
            `restrict_ops_regex` to ignore regular expressions that do not begin with ``(?#ops)``.

    Raises:
        TypeError: an element has a wrong type, or `graph` is not a graph.
        ValueError: a keyword is unknown, or there is a regular expression and no graph.
    """
    begins = _TENSORS, _NODES if kwargs.get("restrict_ops_regex") else ""
    return _selected(args, kwargs, begins, filter_ops_from_regex, lambda arg: make_list_of_op(arg, ignore_ts=True))


def select_ts(*args: object, **kwargs: Keyword) -> list[Output]:
    """Returns tensors by regular expressions and tensors that are given directly; see `select_ops`.

    The regular expressions are searched in ``node:0``; `restrict_ts_regex` ignores regular expressions that do not
    begin with ``(?#ts)``.
    """
    begins = _NODES, _TENSORS if kwargs.get("restrict_ts_regex") else ""
    return _selected(args, kwargs, begins, filter_ts_from_regex, lambda arg: make_list_of_t(arg, ignore_ops=True))


ops, ts = select_ops, select_ts


def select_ops_and_ts(*args: object, **kwargs: Keyword) -> tuple[list[Node], list[Output]]:
    """Returns nodes and tensors; a regular expression is for nodes unless it begins with ``(?#ts)``.

    See `select_ops`.
    """
    nodes = select_ops(*args, **{**kwargs, "restrict_ops_regex": False})
    return nodes, select_ts(*args, **{**kwargs, "restrict_ts_regex": True})


def _selected(
    args: Iterable[object],
    kwargs: dict[str, Keyword],
    begins: tuple[str, str],
    by_regex: Callable[[Graph, re.Pattern[str]], list[T]],
    as_list: Callable[[object], list[T]],
) -> list[T]:
    """Returns the selected items. `begins`: the beginning of ignored regular expressions, and that of all others."""
    unknown = kwargs.keys() - _KEYWORDS
    if unknown:
        raise EditError(f"unknown keyword {quoted(min(unknown))}", code="bad-option", option=min(unknown))
    graph = kwargs.get("graph")
    if graph is not None:
        check_type(graph, Graph)
    found: dict[T, None] = {}
    for arg in args:
        if not can_be_regex(arg):
            found.update(dict.fromkeys(as_list(arg)))
            continue
        regex = make_regex(arg)
        if graph is None:
            line = f"{quoted(regex.pattern)} needs a graph to search: give graph=..."
            raise EditError(line, code="missing-argument", value=regex.pattern)
        if not regex.pattern.startswith(begins[0]) and regex.pattern.startswith(begins[1]):
            found.update(dict.fromkeys(by_regex(graph, regex)))
    keep: Callable[[T], object] | None = kwargs.get("positive_filter")
    return [item for item in found if keep is None or keep(item)]
