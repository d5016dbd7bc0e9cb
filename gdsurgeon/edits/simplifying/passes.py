"""Passes that remove nodes or edges without changing a value."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from math import copysign

from gdsurgeon.analysis.queries.training import needed_initialisers
from gdsurgeon.analysis.traversal.control_flow import decided, loop_heads, untaken_branches
from gdsurgeon.edits.simplifying.graph_view import BITS, CHECKS, CONTROL, REDUCTIONS, GraphView
from gdsurgeon.edits.simplifying.shapes import dims_of, may_refuse, refuses_as_much, shape_of_tensor
from gdsurgeon.graph.constants import Constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import BOOL, DTYPES, RESOURCE, DType
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
    ends = [number for number in view.with_ops(("NoOp",)) if _is_end(view, number)]
    return ends + [number for number in view.not_pure() if _lasts(view, number)]


def fetched_by_savers(view: GraphView) -> list[int]:
    """In a model, returns nodes without consumers that depend on a lasting effect: savers fetch them by name."""
    if view.graph.serving is None:
        return []
    top = view.topology
    awaiting = (n for n in view.order() if view.has_control_inputs(n) and not top.users(n))
    return [n for n in awaiting if any(port < 0 and _lasts(view, other) for other, port in top.reads(n))]


def _lasts(view: GraphView, number: int) -> bool:
    op = view.topology.op(number)
    if op in CONTROL_FLOW or view.is_pure(number) or (op in CHECKS and not view.keeps_checks):
        return False
    return not (is_random(op) and not _takes_resource(view.graph, op))


def _is_end(view: GraphView, number: int) -> bool:
    """Returns whether a node is a NoOp that may be fetched to run its control inputs."""
    is_noop = view.topology.op(number) == "NoOp"
    return is_noop and not view.pure_cone[number] and not view.topology.users(number)


def _takes_resource(graph: Graph, op: str) -> bool:
    definition = graph.op_def(op)
    return definition is None or any(arg.dtype == RESOURCE for arg in definition.inputs)


def initialising(view: GraphView) -> list[int]:
    """Returns the nodes that initialize the variables and tables upstream of kept nodes."""
    kept = view.topology.upstream(number for number, flag in enumerate(view.kept) if flag)
    return needed_initialisers(view.topology, kept)


IDENTITIES = frozenset(("Identity", "Snapshot"))
STOPS = frozenset(("StopGradient", "PreventGradient"))
"""Identity ops that only affect gradients."""
CHECKED = frozenset(("CheckNumerics", "CheckNumericsV2"))
"""Identity ops that refuse NaN and infinity."""


def identities(view: GraphView) -> None:
    """Removes Identity, Snapshot and IdentityN nodes."""
    _pass_by(view, IDENTITIES, "identities")
    for number in view.dirty_nodes("identities of several", ("IdentityN",)):
        view.replace_each_use(number, view.data(number))
    view.commit("identities")


def stop_gradients(view: GraphView) -> None:
    """Removes StopGradient and PreventGradient nodes."""
    _pass_by(view, STOPS, "stop-gradients")
    view.commit("stop-gradients")


def checks(view: GraphView) -> None:
    """Removes CheckNumerics nodes; an Assert is removed if no control edge needs it."""
    _pass_by(view, CHECKED, "checks")
    view.commit("checks")


def _pass_by(view: GraphView, ops: Container[str], what: str) -> None:
    for number in view.dirty_nodes(what, ops):
        sources = view.data(number)
        if len(sources) == 1:
            view.replace_all_uses(number, sources[0])


def neutral(view: GraphView) -> None:
    """Removes nodes that return their input because of the value of a constant, bit for bit."""
    for number in view.dirty_nodes("neutral", _RULES):
        reads = view.data(number)
        slot = _RULES[view.topology.op(number)](view, number, reads)
        if slot is not None and slot < len(reads):
            view.replace_all_uses(number, reads[slot], reads[:slot] + reads[slot + 1 :])
    view.commit("neutral")


_Rule = Callable[[GraphView, int, list[int]], "int | None"]


def _is_scalar(value: Constant | None, wanted: float) -> bool:
    """Returns whether a constant is a scalar with the value `wanted` and the same sign."""
    if value is None or value.shape or not value.values:
        return False
    dtype, found = DTYPES.get(value.dtype), value.values[0]
    if dtype is None or not (dtype.is_float or dtype.is_integer) or not isinstance(found, (int, float)):
        return False
    return found == wanted and copysign(1, found) == copysign(1, wanted)


def _times(view: GraphView, number: int, reads: list[int]) -> int | None:
    del number
    ones = [_is_scalar(view.constant(code), 1) for code in reads]
    return ones.index(True) ^ 1 if True in ones else None


def _by(neutral_value: float) -> _Rule:
    """Returns the rule that the second of two inputs is `neutral_value`."""

    def rule(view: GraphView, number: int, reads: list[int]) -> int | None:
        del number
        return 0 if len(reads) == 2 and _is_scalar(view.constant(reads[1]), neutral_value) else None

    return rule


def _plus(view: GraphView, number: int, reads: list[int]) -> int | None:
    """The neutral value: -0.0 for floats, because 0.0 + -0.0 is 0.0."""
    del number
    values = [view.constant(code) for code in reads]
    for slot, value in enumerate(values):
        dtype = DTYPES.get(value.dtype) if value is not None else None
        if dtype is not None and _is_scalar(value, -0.0 if dtype.is_float else 0):
            return slot ^ 1
    return None


def _same_type(view: GraphView, number: int, reads: list[int]) -> int | None:
    del reads
    node = view.topology.node(number)
    given = node.attr_bytes("SrcT")
    return 0 if given is not None and given == node.attr_bytes("DstT") else None


def _of_one(view: GraphView, number: int, reads: list[int]) -> int | None:
    del view, number
    return 0 if len(reads) == 1 else None


def _filled(wanted: int) -> _Rule:
    """Returns the rule that all elements of the constant input 1 are `wanted`."""

    def rule(view: GraphView, number: int, reads: list[int]) -> int | None:
        del number
        value = view.constant(reads[1]) if len(reads) > 1 else None
        return 0 if value is not None and all(item == wanted for item in value.values) else None

    return rule


def _over_nothing(view: GraphView, number: int, reads: list[int]) -> int | None:
    """Reductions over no axis: TensorFlow returns the input, bit for bit."""
    del number
    value = view.constant(reads[1]) if len(reads) == 2 else None
    return 0 if value is not None and value.shape == (0,) else None


def _into_one(view: GraphView, number: int, reads: list[int]) -> int | None:
    """A split into one part."""
    del reads
    node = view.topology.node(number)
    return _SPLIT[node.op] if node.setting("num_split") == 1 else None


def _in_order(view: GraphView, number: int, reads: list[int]) -> int | None:
    del number
    value = view.constant(reads[1]) if len(reads) > 1 else None
    return 0 if value is not None and list(value.values) == list(range(len(value.values))) else None


_SPLIT = {"Split": 1, "SplitV": 0}
"""The input that is split."""
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(REDUCTIONS, _over_nothing),
    "Add": _plus,
    "AddN": _of_one,
    "AddV2": _plus,
    "Cast": _same_type,
    "Div": _by(1),
    "MirrorPad": _filled(0),
    "Mul": _times,
    "Pad": _filled(0),
    "PadV2": _filled(0),
    "RealDiv": _by(1),
    "Split": _into_one,
    "SplitV": _into_one,
    "Sub": _by(0),
    "Tile": _filled(1),
    "Transpose": _in_order,
}


TWICE_IS_ONCE = frozenset(("Abs", "Ceil", "Floor", "Relu", "Relu6", "Rint", "Round"))
TWICE_IS_NOTHING = frozenset(("LogicalNot", "Neg"))
RESHAPES = frozenset(("ExpandDims", "Reshape", "Squeeze"))


def pairs(view: GraphView) -> None:
    """Makes consumers of the second of two ops that cancel read the input of the first; merges chains of Reshape."""
    _unpack(view)
    for number in view.dirty_nodes("pairs", _SECOND, reach=2):
        reads = view.data(number)
        inner = reads[0] >> BITS if reads and not reads[0] & CONTROL else -1
        if inner < 0 or view.has_control_inputs(inner):
            continue
        first = view.data(inner)
        source = _SECOND[view.topology.op(number)](view, number, inner) if first else None
        if source is not None:
            view.replace_all_uses(number, source, [*first[1:], *reads[1:]])
    view.commit("pairs")
    for number in view.dirty_nodes("pairs of reshapes", ("Reshape",), reach=2, through=RESHAPES):
        _read_past(view, number)


def _unpack(view: GraphView) -> None:
    """Makes consumers of an Unpack of a Pack read the inputs of the Pack."""
    for number in view.dirty_nodes("pairs of Unpacks", ("Unpack",), reach=2):
        reads = view.data(number)
        inner = reads[0] >> BITS if reads and not reads[0] & CONTROL else -1
        if inner < 0 or view.topology.op(inner) != "Pack" or view.has_control_inputs(inner):
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
    while view.topology.op(source >> BITS) in RESHAPES and not view.has_control_inputs(source >> BITS):
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


_PairRule = Callable[[GraphView, int, int], "int | None"]


def _same_op(view: GraphView, number: int, inner: int) -> bool:
    return view.topology.op(number) == view.topology.op(inner)


def _once(view: GraphView, number: int, inner: int) -> int | None:
    return inner << BITS if _same_op(view, number, inner) else None


def _nothing(view: GraphView, number: int, inner: int) -> int | None:
    return view.data(inner)[0] if _same_op(view, number, inner) else None


def _back(view: GraphView, number: int, inner: int) -> int | None:
    """Two Transpose nodes that restore the order of dims."""
    orders = [view.constant(code) for each in (inner, number) for code in view.data(each)[1:2]]
    if not _same_op(view, number, inner) or len(orders) < 2 or orders[0] is None or orders[1] is None:
        return None
    first, then = ([int(place) for place in order.values] for order in orders if order is not None)
    size = len(first)
    if len(then) != size or not all(0 <= place < size for place in then):
        return None
    return view.data(inner)[0] if [first[place] for place in then] == list(range(size)) else None


def _cast_back(view: GraphView, number: int, inner: int) -> int | None:
    """A Cast to a dtype that holds all values, and back."""
    if not _same_op(view, number, inner):
        return None
    nodes = [view.topology.node(each) for each in (inner, number)]
    kinds = [node.plain_attr(key) for node in nodes for key in ("SrcT", "DstT")]
    types = [DTYPES.get(kind) if isinstance(kind, int) else None for kind in kinds]
    given, wide, _, back = types
    if given is None or wide is None or back != given or not _holds(wide, given):
        return None
    return view.data(inner)[0]


def _packed_again(view: GraphView, number: int, inner: int) -> int | None:
    """A Pack of all outputs of an Unpack, in order."""
    reads = view.data(number)
    if view.topology.op(inner) != "Unpack" or reads != [inner << BITS | port for port in range(len(reads))]:
        return None
    if not _are_alike(view, number, inner, len(reads)):
        return None
    source, axis = view.data(inner)[0], view.topology.node(inner).setting("axis")
    shape = shape_of_tensor(view, view.shapes(), source)
    if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return source if shape[axis] == len(reads) else None  # for other sizes it fails


_DIGITS = {"half": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""The number of bits of integers that a float dtype represents exactly."""


def _holds(wide: DType, given: DType) -> bool:
    """Returns whether `wide` represents each value of `given` exactly."""
    if given == BOOL:
        return wide.is_integer or wide.is_float
    if given.is_integer and wide.is_integer:
        (low, high), (least, most) = given.bounds, wide.bounds
        return least <= low and high <= most
    if given.is_integer and wide.is_float:
        low, high = given.bounds
        return max(-low, high) <= 1 << _DIGITS.get(wide.name, 0)
    if given.is_float and wide.is_float:
        return wide == given or (wide.name == "float64" and given.name in _DIGITS) or (
            wide.name == "float32" and given.name in ("half", "float16", "bfloat16")
        )  # fmt: skip
    return False


_SECOND: dict[str, _PairRule] = {
    **dict.fromkeys(sorted(TWICE_IS_ONCE), _once),
    **dict.fromkeys(sorted(TWICE_IS_NOTHING), _nothing),
    "Cast": _cast_back,
    "Pack": _packed_again,
    "Transpose": _back,
}


def control_edges(view: GraphView) -> None:
    """Removes control edges from nodes without effects (`GraphView.pure_cone`), and from nodes that are also read.

    A NoOp with one control input is replaced by that input.
    """
    top = view.topology
    for number in view.dirty_nodes("control-edges", top.ops()):
        codes = top.inputs(number)
        if [code for code in codes if code & CONTROL == CONTROL]:
            codes = list(codes)
            needed = list(_needed(view, codes))
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
        if len(alive) != 1 or top.op(number) != "Merge" or _is_counted(view, number):
            return
        merges[number] = alive[0]
    going = [number for number in range(top.size) if dead[number] and not view.removed[number]]
    if any(map(view.kept.__getitem__, going)) or any(map(view.has_control_inputs, (*sides, *merges))):
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


def _is_counted(view: GraphView, number: int) -> bool:
    """Returns whether a node reads output 1 of a Merge, the index of the input."""
    code = number << BITS | 1
    return any(code in view.topology.inputs(user) for user in view.topology.users(number))


def _join(view: GraphView, merges: dict[int, int]) -> None:
    for number, code in merges.items():
        source = view.now(code)
        is_bare = view.topology.op(source >> BITS) in CONTROL_FLOW and view.has_control_outputs(number)
        if view.must_keep(number) or is_bare or view.may_be_reference(source):
            view.become_identity(number, code)
        else:
            view.replace_uses(number << BITS, source)
            view.replace_control_uses(number, source >> BITS)
