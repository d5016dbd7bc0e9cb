"""Passes that remove nodes or edges without changing a value."""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.analysis.queries.training import needed_initialisers
from gdsurgeon.analysis.traversal.control_flow import decided, loop_heads, untaken_branches
from gdsurgeon.edits.simplifying.graph_view import BITS, CHECKS, CONTROL, GraphView
from gdsurgeon.edits.simplifying.shapes import dims_of, may_refuse, refuses_as_much
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import RESOURCE
from gdsurgeon.ops.kinds import CONTROL_FLOW, MERGE, SWITCH, is_random


def remove_unused(view: GraphView) -> None:
    """Removes nodes that are not upstream of an output and have no lasting effect."""
    if view.changed_since("unread") == []:
        return
    needed = view.topology.upstream(view.roots)
    view.remove([number for number in view.topology.numbers() if not needed[number]], "unread")


def served_nodes(graph: Graph) -> list[Node]:
    """Returns the nodes that signatures, savers and initializers of a model name."""
    serving = serving_of(graph)
    return [graph[name] for name in serving.nodes if name in graph] if serving is not None else []


def lasting(view: GraphView) -> list[int]:
    """Returns the nodes with a lasting effect, and NoOp nodes that run them."""
    noops = (number for number in view.with_ops(("NoOp",)) if not view.pure_cone[number])
    ends = [number for number in noops if not view.topology.users(number)]  # they may be fetched
    return ends + [number for number in view.not_pure() if _lasts(view, number)]


def fetched_by_savers(view: GraphView) -> list[int]:
    """In a model, returns nodes without consumers that depend on a lasting effect: savers fetch them by name."""
    if view.graph.serving is None:
        return []
    top = view.topology
    awaiting = (n for n in view.order() if n in view.waiting and not top.users(n))
    return [n for n in awaiting if any(port < 0 and _lasts(view, other) for other, port in top.reads(n))]


def _lasts(view: GraphView, number: int) -> bool:
    op = view.topology.op(number)
    if op in CONTROL_FLOW or view.is_pure(number) or (op in CHECKS and not view.keeps_checks):
        return False
    definition = view.graph.op_def(op) if is_random(op) else None
    return definition is None or any(arg.dtype == RESOURCE for arg in definition.inputs)


def initialising(view: GraphView) -> list[int]:
    """Returns the nodes that initialize the variables and tables upstream of kept nodes."""
    kept = view.topology.upstream(number for number, flag in enumerate(view.kept) if flag)
    return needed_initialisers(view.topology, kept)


def identities(view: GraphView) -> None:
    """Removes IdentityN nodes."""
    for number in view.dirty_nodes("identities", ("IdentityN",)):
        view.replace_each_use(number, view.data(number))
    view.commit("identities")


RESHAPES = frozenset(("ExpandDims", "Reshape", "Squeeze"))


def pairs(view: GraphView) -> None:
    """Makes consumers of a Pack of an Unpack read its input, and the reverse; merges chains of Reshape."""
    _unpack(view)
    for number in view.dirty_nodes("pairs of Packs", ("Pack",), reach=2):
        source = _packed_again(view, number)
        if source is not None:
            view.replace_all_uses(number, source)
    view.commit("pairs")
    for number in view.dirty_nodes("pairs of reshapes", ("Reshape",), reach=2, through=RESHAPES):
        _read_past(view, number)


def _unpack(view: GraphView) -> None:
    """Makes consumers of an Unpack of a Pack read the inputs of the Pack."""
    for number in view.dirty_nodes("pairs of Unpacks", ("Unpack",), reach=2):
        reads = view.data(number)
        inner = reads[0] >> BITS if reads and not reads[0] & CONTROL else -1
        if inner < 0 or view.topology.op(inner) != "Pack" or inner in view.waiting:
            continue
        sources = view.data(inner)
        if _are_alike(view, inner, number, len(sources)):
            view.replace_each_use(number, sources)
    view.commit("pairs")


def _are_alike(view: GraphView, pack: int, unpack: int, count: int) -> bool:
    """Returns whether a Pack and an Unpack have `count` tensors and the same axis."""
    packs, unpacks = view.topology.node(pack), view.topology.node(unpack)
    return unpacks.setting("num") == packs.setting("N") == count and packs.setting("axis") == unpacks.setting("axis")


def _read_past(view: GraphView, number: int) -> None:
    """Makes a Reshape read the input of the Reshape nodes before it."""
    codes = list(view.topology.inputs(number))
    source = start = codes[0]
    while view.topology.op(source >> BITS) in RESHAPES and source >> BITS not in view.waiting:
        above = view.data(source >> BITS)
        if not all(view.pure_cone[code >> BITS] for code in above[1:]) or _is_needed(view, source >> BITS, number):
            break
        source = above[0]
    if source != start and not view.may_be_reference(source):
        view.set_inputs(number, [source, *codes[1:]])
        view.counts["pairs"] += 1


def _is_needed(view: GraphView, inner: int, outer: int) -> bool:
    """Returns whether the inner Reshape fails for tensors that the outer one accepts: known shapes rely on that."""
    if view.topology.op(inner) != "Reshape":
        return False
    shapes = view.shapes()
    if not may_refuse(view, shapes, inner):
        return False
    first, then = dims_of(view, shapes, inner), dims_of(view, shapes, outer)
    return first is None or then is None or not refuses_as_much(then, first)


def _packed_again(view: GraphView, number: int) -> int | None:
    """Returns the input of an Unpack if a node is a Pack of all its outputs, in order; otherwise None."""
    reads = view.data(number)
    inner = reads[0] >> BITS if reads else -1
    if inner < 0 or view.topology.op(inner) != "Unpack" or inner in view.waiting:
        return None
    if reads != [inner << BITS | port for port in range(len(reads))] or not _are_alike(view, number, inner, len(reads)):
        return None
    source, axis = view.data(inner)[0], view.topology.node(inner).setting("axis")
    shape = view.shapes().shape(view.topology.tensor(source))
    if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return source if shape[axis] == len(reads) else None  # for other sizes it fails


def control_edges(view: GraphView) -> None:
    """Removes control edges from nodes without effects (`GraphView.pure_cone`), and from nodes that are also read.

    A NoOp with one control input is replaced by that input.
    """
    top = view.topology
    for number in view.dirty_nodes("control-edges", {view.ops[number] for number in view.waiting}):
        codes = list(top.inputs(number))
        needed = list(_needed(view, codes)) if number in view.waiting else codes
        if needed != codes:
            view.counts["control-edges"] += len(codes) - len(needed)
            view.set_inputs(number, needed)
    for number in view.dirty_nodes("control-edges of NoOps", ("NoOp",)):
        awaited = list(top.inputs(number))
        if len(awaited) == 1 and not view.must_keep(number) and top.users(number):
            view.replace_control_uses(number, awaited[0] >> BITS)
    view.commit("control-edges")


def _needed(view: GraphView, codes: list[int]) -> Iterator[int]:
    read = {code >> BITS for code in codes if code & CONTROL != CONTROL}
    for code in codes:
        producer = code >> BITS
        if code & CONTROL != CONTROL:
            yield code
        elif producer not in read and not view.pure_cone[producer]:
            read.add(producer)
            yield code


def conditions(view: GraphView) -> None:
    """Removes Switch nodes with a constant predicate, and Merge nodes with one remaining input.

    Nothing is changed if one of the Switch or Merge nodes is not part of a plain v1 conditional.
    """
    top = view.topology
    dead = untaken_branches(top, {})
    sides = _sides(view, dead)
    if not sides:
        return
    heads = loop_heads(top)
    merges: dict[int, int] = {}
    for number in view.with_ops(MERGE):
        if dead[number] or number in heads:
            continue
        codes = list(top.inputs(number))
        alive = [code for code in codes if not dead[code >> BITS] and sides.get(code >> BITS) in (None, code & CONTROL)]
        if len(alive) == len(codes):
            continue
        is_index_read = any(number << BITS | 1 in top.inputs(user) for user in top.users(number))
        if len(alive) != 1 or top.op(number) != "Merge" or is_index_read:
            return
        merges[number] = alive[0]
    going = [number for number in range(top.size) if dead[number] and not view.removed[number]]
    if any(map(view.kept.__getitem__, going)) or not view.waiting.isdisjoint((*sides, *merges)):
        return
    for number, side in sides.items():
        data = view.data(number)[0]
        view.replace_uses(number << BITS | side, data)
        view.replace_control_uses(number, data >> BITS)
    _join(view, merges)
    view.remove(going, "conditions")
    view.commit("conditions")
    view.refresh()


def _sides(view: GraphView, dead: bytearray) -> dict[int, int]:
    """Returns the taken output of each Switch with a constant predicate; {} if one of them cannot be removed."""
    out: dict[int, int] = {}
    for number in view.with_ops(SWITCH):
        reads = view.data(number)
        value = decided(view.topology, reads[1] >> BITS, {}) if len(reads) > 1 and not dead[number] else None
        if value is None:
            continue
        is_plain = view.topology.op(number) == "Switch" and not view.may_be_reference(reads[0])
        if not is_plain or view.must_keep(number) or not view.pure_cone[reads[1] >> BITS]:
            return {}
        out[number] = int(value)
    return out


def _join(view: GraphView, merges: dict[int, int]) -> None:
    for number, code in merges.items():
        source = view.now(code)
        is_bare = view.topology.op(source >> BITS) in CONTROL_FLOW and view.has_control_outputs(number)
        if view.must_keep(number) or is_bare or view.may_be_reference(source):
            view.become_identity(number, code)
        else:
            view.replace_uses(number << BITS, source)
            view.replace_control_uses(number, source >> BITS)
