"""Selecting nodes and tensors: by filters and names, by neighbourhood, by walks along the edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from gdsurgeon.analysis.traversal.boundary import boundary
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import in_scope
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.control_outputs import ControlOutputs
from gdsurgeon.graph_editor.lists import get_consuming_ops, is_iterable, make_list_of_op, make_list_of_t
from gdsurgeon.graph_editor.names import tensor_name
from gdsurgeon.graph_editor.refusal import Refusal, WrongType
from gdsurgeon.graph_editor.view import backward_nodes, consumers, forward_nodes, node_outputs
from gdsurgeon.select import BAD_PATTERN

Keyword: TypeAlias = Any
"""A keyword argument, which is checked by hand as TensorFlow 1 did."""
NodeFilter = Callable[[Node], object]
TensorFilter = Callable[[Output], object]

_TENSORS, _NODES = "(?#ts)", "(?#ops)"


def can_be_regex(obj: object) -> bool:
    """Whether OBJ is a regular expression, compiled or not."""
    return isinstance(obj, (str, re.Pattern))


def make_regex(obj: object) -> re.Pattern[str]:
    """OBJ compiled, or OBJ itself where it is compiled.

    Raises:
        ValueError: it is no regular expression.
    """
    if isinstance(obj, re.Pattern):
        return obj
    if not isinstance(obj, str):
        raise Refusal(f"a regular expression is expected, not {type(obj).__name__}", code="bad-pattern",
                      facts={"found": type(obj).__name__})  # fmt: skip
    try:
        return re.compile(obj)
    except BAD_PATTERN as error:
        raise Refusal(f"{quoted(obj)} is not a regular expression: {error}", code="bad-pattern",
                      facts={"value": obj}) from error  # fmt: skip


# Filters. OPS is whatever make_list_of_op makes nodes of, with the errors that it raises.


def get_input_ts(ops: object) -> list[Output]:
    """The tensors that OPS read, each once."""
    return list(dict.fromkeys(read for op in make_list_of_op(ops) for read in op.inputs))


def get_output_ts(ops: object) -> list[Output]:
    """The tensors that OPS give."""
    return [output for op in make_list_of_op(ops) for output in node_outputs(op)]


def filter_ts(ops: object, positive_filter: TensorFilter | Literal[True]) -> list[Output]:
    """The tensors that OPS read or give and that pass the filter; True lets all pass."""
    nodes = make_list_of_op(ops)
    found = dict.fromkeys([*get_input_ts(nodes), *get_output_ts(nodes)])
    return [tensor for tensor in found if positive_filter is True or positive_filter(tensor)]


def filter_ts_from_regex(ops: object, regex: str | re.Pattern[str]) -> list[Output]:
    """The tensors that OPS read or give in whose names (``node:0``) REGEX is found."""
    search = make_regex(regex).search
    return filter_ts(ops, lambda tensor: search(tensor_name(tensor)))


def filter_ops(ops: object, positive_filter: NodeFilter | Literal[True]) -> list[Node]:
    """Those of OPS that pass the filter; True lets all pass."""
    return [op for op in make_list_of_op(ops) if positive_filter is True or positive_filter(op)]


def filter_ops_from_regex(ops: object, regex: str | re.Pattern[str]) -> list[Node]:
    """Those of OPS in whose names REGEX is found."""
    search = make_regex(regex).search
    return filter_ops(ops, lambda op: search(op.name))


def filter_ops_by_optype(ops: object, op_types: str | Iterable[str]) -> list[Node]:
    """Returns the nodes in `ops` whose op type is one of `op_types`."""
    wanted = frozenset((op_types,) if isinstance(op_types, str) else op_types)
    return filter_ops(ops, lambda op: op.op in wanted)


def get_name_scope_ops(ops: object, scope: str) -> list[Node]:
    """Those of OPS under a name scope, which is taken literally, with or without a slash at its end.

    The node that is named exactly like the scope belongs to it.
    """
    return filter_ops(ops, lambda op: in_scope(op.name, scope))


# Neighbourhoods and walks.


def check_cios(
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> tuple[bool, ControlOutputs | None]:
    """The two ways of saying that control edges count, made one: (control inputs, control outputs).

    Raises:
        TypeError: `control_outputs` is not a ControlOutputs.
        ValueError: both CONTROL_OUTPUTS and CONTROL_IOS are given.
    """
    for given in (control_outputs, control_ios):
        if given is not None and not isinstance(given, ControlOutputs):
            raise WrongType("ControlOutputs", given)
    if control_ios is None:
        return control_inputs, control_outputs
    if control_outputs is not None:
        raise Refusal("give either control_ios or control_outputs, not both", code="conflicting-options",
                      facts={"options": ["control_ios", "control_outputs"]})  # fmt: skip
    return True, control_ios


def get_ops_ios(
    ops: object,
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> list[Node]:
    """The nodes that OPS read and those that read OPS, each once.

    Args:
        ops: nodes.
        control_inputs: the nodes of control inputs too.
        control_outputs: the nodes that wait for OPS too.
        control_ios: both.

    Raises:
        TypeError, ValueError: as `make_list_of_op` and `check_cios` do.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    found: dict[Node, None] = {}
    for op in make_list_of_op(ops):
        found.update((read.node, None) for read in op.inputs)
        found.update((user, None) for output in node_outputs(op) for user in consumers(output))
        if control_outputs is not None:
            found.update((user, None) for user in control_outputs.get(op))
        if control_inputs:
            found.update((control, None) for control in op.controls)
    return list(found)


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
    """Those of OPS that can be reached from the seeds, along edges in any direction, without crossing the boundary.

    Args:
        ops: the nodes that may be part of the answer; its order is theirs.
        seed_ops: where to start; part of the answer.
        boundary_ops: nodes that are not crossed.
        inclusive: whether the boundary nodes that are reached are part of the answer.
        control_inputs, control_outputs, control_ios: see `get_ops_ios`.

    Raises:
        TypeError: as `make_list_of_op` does.
        ValueError: a seed is in the boundary.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    nodes = make_list_of_op(ops)
    pending = list(dict.fromkeys(make_list_of_op(seed_ops, allow_graph=False)))
    edge = set(make_list_of_op(boundary_ops))
    for seed in pending:
        if seed in edge:
            raise Refusal(f"{quoted(seed.name)} is both a seed and in the boundary", code="conflicting-options",
                          facts={"node": seed.name})  # fmt: skip
    found = set(pending)
    for node in pending:  # grows while it is walked
        for neighbour in get_ops_ios(node, control_inputs, control_outputs):
            if neighbour not in found and neighbour not in edge:
                found.add(neighbour)
                pending.append(neighbour)
            elif inclusive:
                found.add(neighbour)
    return [node for node in nodes if node in found]


def get_forward_walk_ops(
    seed_ops: object,
    inclusive: bool = True,
    within_ops: object = None,
    within_ops_fn: NodeFilter | None = None,
    stop_at_ts: object = (),
    control_outputs: ControlOutputs | None = None,
) -> list[Node]:
    """The nodes that depend on the seeds, in the order in which a walk comes upon them.

    Args:
        seed_ops: nodes; or tensors, which stand for the nodes that read them.
        inclusive: whether the seeds are part of the answer.
        within_ops: nodes that the walk does not leave; seeds that are not among them are no seeds.
        within_ops_fn: a predicate; the walk does not come to other nodes.
        stop_at_ts: tensors that are not followed.
        control_outputs: follow control edges too.

    Raises:
        TypeError, ValueError: as `make_list_of_op`, `make_list_of_t` and `check_cios` do.
    """
    _, control_outputs = check_cios(False, control_outputs)
    seeds, within = _walk(seed_ops, get_consuming_ops, within_ops, within_ops_fn)
    stop = frozenset(make_list_of_t(stop_at_ts))
    found = forward_nodes(seeds, within=within, stop_at=stop, control=control_outputs is not None)
    return found if inclusive else [node for node in found if node not in seeds]


def get_backward_walk_ops(
    seed_ops: object,
    inclusive: bool = True,
    within_ops: object = None,
    within_ops_fn: NodeFilter | None = None,
    stop_at_ts: object = (),
    control_inputs: bool = False,
) -> list[Node]:
    """The nodes that the seeds depend on, in the order in which a walk comes upon them.

    Args:
        seed_ops: nodes; or tensors, which stand for the nodes that give them.
        inclusive, within_ops, within_ops_fn, stop_at_ts: see `get_forward_walk_ops`.
        control_inputs: follow control edges too.

    Raises:
        TypeError, ValueError: as `make_list_of_op` and `make_list_of_t` do.
    """
    seeds, within = _walk(seed_ops, lambda ts: [tensor.node for tensor in ts], within_ops, within_ops_fn)
    stop = frozenset(make_list_of_t(stop_at_ts))
    found = backward_nodes(seeds, within=within, stop_at=stop, control=control_inputs)
    return found if inclusive else [node for node in found if node not in seeds]


def _walk(
    seed_ops: object,
    nodes_of: Callable[[list[Output]], list[Node]],
    within_ops: object,
    within_ops_fn: NodeFilter | None,
) -> tuple[dict[Node, None], Callable[[Node], bool] | None]:
    """The seeds as nodes, and the predicate of the nodes that a walk may come to."""
    given = list(seed_ops) if is_iterable(seed_ops) else [seed_ops]  # type: ignore[call-overload]
    if given and isinstance(given[0], Output):
        nodes = nodes_of(make_list_of_t(given, allow_graph=False))
    else:
        nodes = make_list_of_op(given, allow_graph=False)
    members = None if within_ops is None else frozenset(make_list_of_op(within_ops, allow_graph=False))
    seeds = dict.fromkeys(node for node in nodes if members is None or node in members)
    if members is None and within_ops_fn is None:
        return seeds, None

    def within(node: Node) -> bool:
        return (members is None or node in members) and (within_ops_fn is None or bool(within_ops_fn(node)))

    return seeds, within


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
    """The nodes that both a forward and a backward walk come upon, in the order of the first.

    Args and raises: see `get_forward_walk_ops` and `get_backward_walk_ops`; CONTROL_IOS stands for control inputs and
    control outputs.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    forward = get_forward_walk_ops(
        forward_seed_ops, forward_inclusive, within_ops, within_ops_fn, control_outputs=control_outputs
    )
    backward = get_backward_walk_ops(
        backward_seed_ops, backward_inclusive, within_ops, within_ops_fn, control_inputs=control_inputs
    )
    members = set(backward)
    return [node for node in forward if node in members]


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
    """The nodes that a forward or a backward walk comes upon, each once; see `get_walks_intersection_ops`."""
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    forward = get_forward_walk_ops(
        forward_seed_ops, forward_inclusive, within_ops, within_ops_fn, control_outputs=control_outputs
    )
    backward = get_backward_walk_ops(
        backward_seed_ops, backward_inclusive, within_ops, within_ops_fn, control_inputs=control_inputs
    )
    return list(dict.fromkeys([*forward, *backward]))


# Everything at once.

_KEYWORDS = frozenset(("graph", "positive_filter", "restrict_ops_regex", "restrict_ts_regex"))


def select_ops(*args: object, **kwargs: Keyword) -> list[Node]:
    """Nodes by regular expressions and as they are, each once, in the order in which the arguments name them.

    Args:
        args: regular expressions (searched in the names of nodes; one that begins with ``(?#ts)`` is for tensors and
            passed over), nodes, or lists of nodes; tensors are passed over.
        kwargs: `graph` in which to search; `positive_filter`, a predicate that the nodes must pass;
            `restrict_ops_regex` to pass over regular expressions that do not begin with ``(?#ops)``.

    Raises:
        TypeError: an element has a wrong type, or `graph` is not a graph.
        ValueError: a keyword is unknown, or there is a regular expression and no graph.
    """
    graph = _graph(kwargs)
    found: dict[Node, None] = {}
    for arg in args:
        if can_be_regex(arg):
            regex = _applicable(arg, graph, _TENSORS, _NODES if kwargs.get("restrict_ops_regex") else "")
            nodes = [] if regex is None else filter_ops_from_regex(graph, regex)
        else:
            nodes = make_list_of_op(arg, ignore_ts=True)
        found.update((node, None) for node in nodes)
    return filter_ops(found, kwargs.get("positive_filter") or True)


def select_ts(*args: object, **kwargs: Keyword) -> list[Output]:
    """Tensors by regular expressions and as they are; see `select_ops`, with the parts exchanged.

    The regular expressions are searched in ``node:0``; `restrict_ts_regex` passes over those that do not begin with
    ``(?#ts)``.
    """
    graph = _graph(kwargs)
    found: dict[Output, None] = {}
    for arg in args:
        if can_be_regex(arg):
            regex = _applicable(arg, graph, _NODES, _TENSORS if kwargs.get("restrict_ts_regex") else "")
            tensors = [] if regex is None else filter_ts_from_regex(graph, regex)
        else:
            tensors = make_list_of_t(arg, ignore_ops=True)
        found.update((tensor, None) for tensor in tensors)
    keep = kwargs.get("positive_filter")
    return [tensor for tensor in found if keep is None or keep(tensor)]


def select_ops_and_ts(*args: object, **kwargs: Keyword) -> tuple[list[Node], list[Output]]:
    """Nodes and tensors; a regular expression is for nodes unless it begins with ``(?#ts)``. See `select_ops`."""
    nodes = select_ops(*args, **{**kwargs, "restrict_ops_regex": False})
    return nodes, select_ts(*args, **{**kwargs, "restrict_ts_regex": True})


def _graph(kwargs: dict[str, Keyword]) -> Graph | None:
    unknown = kwargs.keys() - _KEYWORDS
    if unknown:
        raise Refusal(f"unknown keyword {quoted(min(unknown))}", code="bad-option", facts={"option": min(unknown)})
    graph = kwargs.get("graph")
    if graph is not None and not isinstance(graph, Graph):
        raise WrongType("Graph", graph)
    return graph


def _applicable(arg: object, graph: Graph | None, unwanted: str, wanted: str) -> re.Pattern[str] | None:
    """ARG compiled, or None where its beginning says that it is for something else."""
    regex = make_regex(arg)
    if graph is None:
        raise Refusal(f"{quoted(regex.pattern)} needs a graph to search: give graph=...", code="missing-argument",
                      facts={"value": regex.pattern})  # fmt: skip
    if regex.pattern.startswith(unwanted) or not regex.pattern.startswith(wanted):
        return None
    return regex
