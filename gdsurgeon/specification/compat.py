"""compat: each node is valid for the release; nodes that were valid are unchanged, others are older forms.

The table of releases is shared with the edit; the check of a node against it is a second implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import NamedTuple

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, FunctionChanges, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import DTYPES, VARIANT
from gdsurgeon.ops.op_defs import AttrDef, OpDef
from gdsurgeon.ops.releases import Release, release, releases
from gdsurgeon.specification.sharing import calling_nodes, named_by_node
from gdsurgeon.wire.protos import AttrValue, NodeDef

FORMS: Mapping[str, tuple[str, ...]] = {
    "AddV2": ("Add",),
    "BatchMatMulV2": ("BatchMatMul",),
    "BatchMatMulV3": ("BatchMatMulV2", "BatchMatMul"),
    "BroadcastTo": ("Tile",),
    "DisableCopyOnRead": ("NoOp",),
    "Einsum": ("Transpose",),
    "EnsureShape": ("Identity",),
    "FusedBatchNormV3": ("FusedBatchNormV2",),
    "LeakyRelu": ("Maximum",),
    "LogSoftmax": ("Reshape",),
    **{f"{op}V{version}": (op,) for op in ("MatrixDiag", "MatrixDiagPart", "MatrixSetDiag") for version in (2, 3)},
    "NonMaxSuppressionV3": ("GatherV2",),
    "NonMaxSuppressionV4": ("NonMaxSuppressionV3", "GatherV2"),
    "NonMaxSuppressionV5": ("NonMaxSuppressionV3", "GatherV2"),
    "ParseExampleV2": ("ParseExample",),
    "RegexFullMatch": ("LogicalAnd",),
    "SelectV2": ("Select",),
    "Softmax": ("Reshape",),
    "StatelessCase": ("Case",),
    "StaticRegexFullMatch": ("RegexFullMatch", "LogicalAnd"),
    "StaticRegexReplace": ("RegexReplace",),
}
"""The older forms of ops that a release lacks."""
GROUPED = ("DepthwiseConv2dNative", "ConcatV2")
"""The forms of a Conv2D with several groups."""
MIDDLES: Mapping[str, tuple[str, ...]] = {"ResizeBilinear": ("Add",), "ResizeNearestNeighbor": ("GatherV2",)}
"""The forms of ops with half_pixel_centers, if the release lacks that attr."""
PADS = {"Conv2D": "Pad", "DepthwiseConv2dNative": "Pad", "MaxPool": "PadV2"}
"""The op that precedes an op with explicit_paddings, if the release lacks that attr."""
LISTS: Mapping[str, tuple[str, ...]] = {
    "TensorListFromTensor": ("TensorArrayScatterV3",),
    "TensorListGetItem": ("TensorArrayReadV3", "Identity"),
    "TensorListLength": ("TensorArraySizeV3",),
    "TensorListReserve": ("Identity", "Fill"),
    "TensorListSetItem": ("TensorArrayWriteV3", "Identity"),
    "TensorListStack": ("TensorArrayGatherV3", "ExpandDims"),
}
"""The forms of lists of tensors, if the release lacks such an op or has it with other inputs."""
RESPELT = {"GatherV2": ("batch_dims", "Taxis"), "MatrixBandPart": ("Tindex",)}
"""Ops with different inputs if the release lacks the first attr, and the attrs that change then."""
BRANCHING = frozenset(("Case", "If", "StatelessCase", "StatelessIf"))
CALLING = BRANCHING | {"PartitionedCall", "StatefulPartitionedCall", "StatelessWhile", "While"}
"""Ops that are replaced by their functions if the release lacks one of them."""
HANDS_ON = frozenset(("Identity", "IdentityN", "NoOp"))
"""The ops of nodes that replace such nodes and return their results."""
ROUND = frozenset(("Enter", "Exit", "Merge", "NextIteration", "Switch"))
OTHER_INPUTS = frozenset(
    """
    ConcatV2 GatherV2 Maximum NoOp NonMaxSuppressionV3 ParseExample Tile Transpose
""".split()
)
"""Older forms with more or fewer inputs than the original op."""
UNSAID = {"Equal": "incompatible_shape_error", "NotEqual": "incompatible_shape_error"}
UNSAID |= {"TensorArrayV3": "identical_element_shapes", "VarHandleOp": "debug_name"}
"""Attrs that may go whatever they hold; of the others only those that hold the default."""
UNREAD = frozenset(("tensor", "func", "list(func)"))
"""Kinds of attrs that a release does not restrict."""
UNSAID_OF_CALLS = frozenset(("output_shapes", "parallel_iterations", "config", "config_proto", "executor_type"))


def compat(comparison: Comparison, target: str, rtol: float | None = None, atol: float | None = None) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del rtol, atol  # of the proof
    wanted = release(target)
    assert wanted is not None
    before, after = comparison.before, comparison.after
    library = after.functions
    for name, lines in _unfit(after, wanted):
        yield from (f"{name} {line}" for line in lines)
    yield from _versions(before, after, wanted)
    old = {name for name, _ in _unfit_functions(before, wanted)}
    lowered = _lowered(before, wanted)
    intent = _node_intent(comparison, wanted, lowered)
    intent.functions = FunctionChanges(
        changed=[name for name in comparison.inside if name in old and name in library],
        removed=comparison.facts.functions.removed if lowered else [],
    )
    if "versions" in comparison.facts.graph_fields:
        intent.graph_fields["versions"] = comparison.facts.graph_fields["versions"][1]
    for name in lowered:
        yield from _wrong_results(before[name], after.find(name), lowered, before.functions)
    yield from _wrong_inputs(comparison, wanted)
    yield from audit(comparison, intent)
    for name, inside in comparison.inside.items():
        lines = [*audit(inside, _node_intent(inside, wanted, set())), *_wrong_inputs(inside, wanted)]
        yield from (f"in the function {quoted(name)} {line}" for line in lines)


def _versions(before: Graph, after: Graph, wanted: Release) -> Iterator[str]:
    was, now = before.store.versions, after.store.versions
    if (now.producer, now.min_consumer) != (
        min(was.producer, wanted.version),
        min(was.min_consumer, wanted.version),
    ):
        yield f"the versions are {now.producer} and {now.min_consumer}"
    if list(now.bad_consumers) != [version for version in was.bad_consumers if version != wanted.version]:
        yield f"the bad_consumers are {list(now.bad_consumers)}"


# -- permitted changes ---------------------------------------------------------------------------------------


def _ops_of(graph: Graph) -> set[str]:
    """Returns the ops of a graph and of the functions that it uses."""
    named = dict.fromkeys(name for node in calling_nodes(graph) for name in named_by_node(node))
    functions = graph.functions.reachable(named, gradients=True)
    return {*graph.store.table.op_names, *(n.op for name in functions for n in graph.functions[name].node_def)}


def _has_other_lists(ops: Iterable[str], wanted: Release) -> bool:
    """Returns whether the release lacks today's lists of tensors."""
    pairs = [(wanted.op_def(op), releases()[-1].op_def(op)) for op in ops if op in LISTS]
    return any(old is None or new is None or len(old.inputs) != len(new.inputs) for old, new in pairs)


def _lowered(before: Graph, wanted: Release) -> set[str]:
    """Returns the nodes that are replaced by their functions: all calls, if the release lacks one of the ops."""
    ops = _ops_of(before)
    called = {"Case" if op == "StatelessCase" else op for op in ops & CALLING}  # which becomes one
    if all(wanted.op_def(op) is not None for op in called) and not _has_other_lists(ops, wanted):
        return set()
    nodes = calling_nodes(before)
    return {node.name for node in nodes if node.op in CALLING or node.op in before.functions}


def _node_intent(comparison: Comparison, wanted: Release, lowered: set[str]) -> Intent:
    """Returns the permitted changes of nodes; `lowered` are nodes that are replaced by their functions."""
    facts, intent = comparison.facts, Intent()
    before, after = comparison.before, comparison.after
    lists = _has_other_lists(_ops_of(before), wanted)
    becoming = {name for name, altered in facts.altered.items() if "op" in altered} | lowered
    becoming |= {
        name for name in facts.altered if _is_padded(before[name], wanted) or _is_respelt(before[name], wanted)
    }
    added = {name for name in facts.added if _scopes(name) & becoming}
    kept = {name for name in lowered if name in after and after[name].op in HANDS_ON and "op" in facts.altered[name]}
    intent.added = [*sorted(added), *kept]
    intent.removed = [name for name in facts.removed if name in lowered]
    passed = {read.node.name for name in lowered for read in before[name].inputs}
    for name, altered in facts.altered.items():
        old, new = before[name], after[name]
        found = [Altered(name, what, now) for what, (_, now) in altered.items()
                 if _may_differ(what, old, new, wanted, lists)]  # fmt: skip
        waited = {control.name for control in old.controls}
        if waited & lowered and {control.name for control in new.controls} <= waited | added | passed:
            controls = tuple(control.name for control in new.controls)
            found += [Altered(name, "controls", controls)] if "controls" in altered else []
        intent.altered += found
        intent.changed += [name] if found else []
    for slot in facts.rewired:
        source, target = (text.partition(":")[0] for text in (slot.old, slot.new))
        is_lowered = source in lowered and (target in added or target in passed)
        is_own = slot.node in becoming and (target in added or after[slot.node].op in OTHER_INPUTS)
        if lists and slot.node in becoming and before[slot.node].op in LISTS:  # it goes on from the same, elsewhere
            is_own |= target in {read.node.name for read in before[slot.node].inputs}
        intent.rewired += [slot] if is_lowered or is_own else []
    return intent


def _wrong_results(old: Node, new: Node | None, lowered: set[str], library: FunctionLibrary) -> Iterator[str]:
    """Yields faults of the node that replaces a loop or a conditional.

    It must return the results in order, and keep the control dependencies and the effects of its branches.
    """
    where = quoted(old.name)
    if old.op not in CALLING or "Call" in old.op:
        return
    if new is None or new.op not in HANDS_ON or len(new.inputs) != len(old.output_dtypes or ()):
        yield f"{where} does not have its former outputs"
        return
    lost = {control.name for control in old.controls} - lowered - {control.name for control in new.controls}
    yield from (f"{where} lost its control dependency on {quoted(name)}" for name in sorted(lost))
    if old.op in BRANCHING and not _waits_for_branches(old, new, library):
        yield f"{where} has no control dependency on the effects of its branches"
    for index, read in enumerate(new.inputs):
        if old.op in BRANCHING:
            branches = old.attr("branches")
            count = 2 if branches is None else len(branches.list.func)
            if read.node.op != "Merge" or read.index or len(read.node.inputs) != count:
                yield f"{where} reads {quoted(read.name)}, which is not the result of its branches"
            continue
        at, way = read, []
        while at.node.op in ("Exit", "Switch", "Merge", "Enter") and at.index == 0:
            way.append(at.node.op)
            at = at.node.inputs[0]
        begins = old.inputs[index]
        if way != ["Exit", "Switch", "Merge", "Enter"] or (begins.node.name not in lowered and at.name != begins.name):
            yield f"{where} reads {quoted(read.name)}, which is not the loop's result for {quoted(begins.name)}"


def _waits_for_branches(old: Node, new: Node, library: FunctionLibrary) -> bool:
    """Returns whether a node has a control dependency on a Merge of nodes after each branch.

    The branches of an If are in the order of the outputs of a Switch.
    """
    branches = old.attr("branches")
    sides = (old.attr("else_branch"), old.attr("then_branch"))
    functions = [side.func for side in sides if side is not None] if branches is None else branches.list.func
    for merge in new.controls:
        if merge.op == "Merge" and len(merge.inputs) == len(functions):
            ends = [read.node for read in merge.inputs]
            pairs = zip(functions, ends, strict=True)
            return all(
                not library[function.name].control_ret or {*end.controls} - {read.node for read in end.inputs}
                for function, end in pairs
            )
    return False


def _is_padded(node: Node, wanted: Release) -> bool:
    """Returns whether a node has explicit_paddings, which the release lacks."""
    definition = wanted.op_def(node.op)
    is_unknown = definition is not None and "explicit_paddings" not in definition.attrs
    return node.op in PADS and is_unknown and node.text_attr("padding") == "EXPLICIT"


def _is_respelt(node: Node, wanted: Release) -> bool:
    """Returns whether a node has an attr with an effect, which the release lacks."""
    key, definition = RESPELT.get(node.op, ("",))[0], wanted.op_def(node.op)
    is_unknown = definition is not None and node.has_attr(key) and key not in definition.attrs
    return is_unknown and not _says_nothing(node, key, releases()[-1])


def _reads_respelt(old: Node, new: Node) -> bool:
    """Returns whether a node reads its former inputs, reshaped or cast."""
    if old.op == "MatrixBandPart":
        found = [new.inputs[0], *(read.node.inputs[0] for read in new.inputs[1:] if read.node.op == "Cast")]
        return [read.name for read in found] == [read.name for read in old.inputs]
    rows, places = (read.node for read in new.inputs[:2])
    read = [node.inputs[0].name for node, op in ((rows, "Reshape"), (places, "Add")) if node.op == op]
    return read == [each.name for each in old.inputs[:2]]


def _wrong_inputs(comparison: Comparison, wanted: Release) -> Iterator[str]:
    """Yields faults of changed inputs."""
    for name in comparison.facts.altered:
        old, new = comparison.before[name], comparison.after[name]
        if old.op == "Conv2D" and new.op in GROUPED:
            if not _convolves_groups(old, new, wanted):
                yield f"{quoted(name)} does not compute the grouped convolution of the original"
        elif _is_padded(old, wanted) and not _is_alike(old, new, new.inputs[0], wanted):
            yield f"{quoted(name)} does not read its former input, padded by its explicit_paddings"
        elif _is_padded(old, wanted) and [read.name for read in new.inputs[1:]] != [r.name for r in old.inputs[1:]]:
            yield f"{quoted(name)} does not read its former filters"
        if _is_respelt(old, wanted) and not _reads_respelt(old, new):
            yield f"{quoted(name)} does not read its former inputs"
        if (old.op, new.op) == ("ParseExampleV2", "ParseExample") and not _parses(old, new):
            yield f"{quoted(name)} does not parse with its former keys and defaults"


def _is_alike(old: Node, new: Node, read: Output, wanted: Release) -> bool:
    """Returns whether `read` is the first input of a node, padded if the release needs that, and `new` pads
    the rest.
    """
    if not _is_padded(old, wanted):
        return read.name == old.inputs[0].name and new.text_attr("padding") == old.text_attr("padding")
    if read.node.op != PADS[old.op] or read.node.inputs[0].name != old.inputs[0].name:
        return False
    amounts = constant(read.node.inputs[1].node)
    filling = constant(read.node.inputs[2].node) if read.node.op == "PadV2" else None
    least = DTYPES[filling.dtype].bounds[0] if filling is not None and not DTYPES[filling.dtype].is_float else -inf
    is_least = filling is None or filling.values == [least]
    is_right = amounts is not None and amounts.values == old.ints_attr("explicit_paddings")
    return is_right and is_least and new.text_attr("padding") == "VALID"


def _convolves_groups(old: Node, new: Node, wanted: Release) -> bool:
    """Returns whether a node computes a grouped convolution of its former inputs."""
    filters, header = old.inputs[1].name, constant_header(old.inputs[1].node)
    across = 1 if old.text_attr("data_format") == "NCHW" else 3
    if new.op == "DepthwiseConv2dNative":
        turned = new.inputs[1].node
        shape = constant(turned.inputs[1].node) if turned.op == "Reshape" else None
        if shape is None or turned.inputs[0].name != filters:
            return False
        height, width, channels, times = (int(size) for size in shape.values)
        is_right = header is None or (height, width, 1, channels * times) == header.dims
        return is_right and _is_alike(old, new, new.inputs[0], wanted)
    *parts, axis = new.inputs
    for index, part in enumerate(parts):
        for read, along in zip(part.node.inputs, (across, 3), strict=True):
            where = constant(read.node.inputs[0].node)
            if read.node.op != "Split" or read.index != index or where is None or where.values != [along]:
                return False
        given, theirs = (read.node.inputs[1] for read in part.node.inputs)
        if part.node.op != "Conv2D" or theirs.name != filters or not _is_alike(old, part.node, given, wanted):
            return False
    last = constant(axis.node)
    return last is not None and last.values == [across]


def _parses(old: Node, new: Node) -> bool:
    """Returns whether ParseExample has the former keys as single inputs, and all other inputs unchanged."""
    vectors = [constant(read.node) for read in old.inputs[2:4]]
    keys = [item for value in vectors if value is not None for item in value.values]
    first, last = new.inputs[:2], new.inputs[2 + len(keys) :]
    singles = [constant(read.node) for read in new.inputs[2 : 2 + len(keys)]]
    held = [value.values for value in singles if value is not None and not value.shape]
    others = [read.name for read in (*first, *last)]
    return held == [[key] for key in keys] and others == [read.name for read in (*old.inputs[:2], *old.inputs[5:])]


def _scopes(name: str) -> set[str]:
    """Returns the name scopes of `name`."""
    parts = name.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))}


def _may_differ(what: str, old: Node, new: Node, wanted: Release, lists: bool) -> bool:
    """Returns whether a part of a node may change from `old` to `new`; `lists`: whether all lists of tensors are
    replaced.
    """
    newest = releases()[-1]
    is_other = old.op != new.op
    is_taken = wanted.op_def(old.op) is not None and not wanted.takes_matrices_only(old.op)
    forms = LISTS[old.op] if lists and old.op in LISTS else FORMS.get(old.op, ()) if not is_taken else ()
    has = wanted.op_def(old.op)
    if old.setting("half_pixel_centers") and has is not None and "half_pixel_centers" not in has.attrs:
        forms = MIDDLES.get(old.op, ())
    if wanted.takes_one_group(old.op):
        forms = GROUPED
    if is_other and new.op not in forms:
        return False
    if lists and what in ("attr T", "attr _output_shapes") and old.op in HANDS_ON | ROUND and VARIANT in _dtypes(old):
        return True
    if what in ("op", "inputs"):
        return is_other or (what == "inputs" and (_is_padded(old, wanted) or _is_respelt(old, wanted)))
    if what in ("attr padding", "attr explicit_paddings") and _is_padded(old, wanted):
        return True
    if not what.startswith("attr "):
        return False
    key = what[5:]
    if key in RESPELT.get(old.op, ()) and _is_respelt(old, wanted):
        return True
    has = wanted.op_def(new.op)
    if has is None:
        return False
    if key not in has.attrs:
        return not new.has_attr(key) and (is_other or _says_nothing(old, key, newest))
    if old.has_attr(key):
        return is_other and key in ("T", "Tparams", "Tindices", "Taxis")
    latest = newest.op_def(new.op)
    value = new.attr(key)
    return is_other or (latest is not None and value is not None and _is_default(value, latest.attrs.get(key)))


def _dtypes(node: Node) -> list[int]:
    value = node.attr("T")
    return [] if value is None else [value.type, *value.list.type]


def _says_nothing(node: Node, key: str, newest: Release) -> bool:
    if UNSAID.get(node.op) == key or ("func" in _kinds(node.op, newest) and key in UNSAID_OF_CALLS):
        return True
    definition, value = newest.op_def(node.op), node.attr(key)
    return definition is not None and value is not None and _is_default(value, definition.attrs.get(key))


def _kinds(op: str, newest: Release) -> set[str]:
    definition = newest.op_def(op)
    attrs = definition.attrs.values() if definition is not None else ()
    return {attr.kind.removeprefix("list(").rstrip(")") for attr in attrs}


def _is_default(value: AttrValue, attr: AttrDef | None) -> bool:
    """Returns whether `value` is the default of `attr`."""
    if attr is None or not attr.has_default:
        return False
    if isinstance(attr.default, dict):
        return value == attr_value(bytes.fromhex(attr.default["x"]))
    which = value.WhichOneof("value")
    if which == "list":
        items = [item for _, held in value.list.ListFields() for item in held]
        return [item.decode() if isinstance(item, bytes) else item for item in items] == attr.default
    held = getattr(value, which) if which else None
    return (held.decode("utf-8", "replace") if isinstance(held, bytes) else held) == attr.default


# -- validity for the release --------------------------------------------------------------------------------


class _Record(NamedTuple):
    """A node that is compared with the definition of its op."""

    op: str
    keys: Iterable[str]
    value: Callable[[str], AttrValue | None]
    reads: int


def _unfit(graph: Graph, wanted: Release) -> Iterator[tuple[str, list[str]]]:
    """Yields the nodes of a graph and its used functions that the release does not support, with the reasons."""
    producer = graph.store.versions.producer
    seen: dict[tuple[object, ...], list[str]] = {}  # most nodes are like others
    for node in graph.nodes():
        definition, count = wanted.op_def(node.op), len(node.inputs)
        kinds = definition.attrs if definition is not None else {}
        keys = node.attr_keys
        held = (node.attr_bytes(key) for key in keys if key in kinds and kinds[key].kind not in UNREAD)
        form = (node.op, keys, count, *held)
        if form not in seen:
            record = _Record(node.op, keys, node.attr, count)
            seen[form] = list(_faults(record, wanted, graph.functions, producer))
        if seen[form]:
            yield quoted(node.name), seen[form]
    for name, lines in _unfit_functions(graph, wanted):
        yield f"in the function {quoted(name)}", lines


def _unfit_functions(graph: Graph, wanted: Release) -> Iterator[tuple[str, list[str]]]:
    """Yields the used functions with nodes that the release does not support."""
    named = dict.fromkeys(name for node in calling_nodes(graph) for name in named_by_node(node))
    for name in graph.functions.reachable(named, gradients=True):
        function = graph.functions[name]
        lines = [
            f"{quoted(node.name)} {line}"
            for node in function.node_def
            for line in _faults(_of_function(node), wanted, graph.functions, graph.store.versions.producer)
        ]
        if lines or any(_leaves_out(node, wanted) or wanted.takes_less(node.op) for node in function.node_def):
            yield name, lines


def _leaves_out(node: NodeDef, wanted: Release) -> bool:
    """Returns whether a node relies on a default value that differs in the release."""
    old, new = wanted.op_def(node.op), releases()[-1].op_def(node.op)
    if old is None or new is None:
        return False
    pairs = [(attr, new.attrs[attr.name]) for attr in old.attrs.values() if attr.name in new.attrs]
    return any(b.has_default and a.name not in node.attr and a.default != b.default for a, b in pairs)


def _of_function(node: NodeDef) -> _Record:
    reads = -1 if any(text[:1] != "^" and text.count(":") == 1 for text in node.input) else 0
    reads = reads or sum(text[:1] != "^" for text in node.input)
    return _Record(node.op, tuple(node.attr), lambda key: _held(node, key), reads)


def _held(node: NodeDef, key: str) -> AttrValue | None:
    return node.attr[key] if key in node.attr else None  # noqa: SIM401  # a map of messages adds missing keys


def _faults(record: _Record, wanted: Release, library: FunctionLibrary, producer: int) -> Iterator[str]:
    definition = wanted.op_def(record.op)
    if definition is None:
        if record.op not in library:
            yield f"is a {record.op}, which TensorFlow {wanted.name} does not have"
        return
    if definition.removed_in and min(producer, wanted.version) >= definition.removed_in:
        yield f"is a {record.op}, which GraphDefs of that version no longer allow"
    keys = set(record.keys)
    yield from (f"has {key}" for key in sorted(keys - definition.attrs.keys()) if key[:1] != "_")
    needed = (attr.name for attr in definition.attrs.values() if not attr.has_default)
    yield from (f"lacks {name}" for name in needed if name not in keys)
    for attr in definition.attrs.values():
        if attr.name in keys and attr.kind not in UNREAD:
            value = record.value(attr.name)
            if value is not None and value.WhichOneof("value") not in (None, "placeholder"):
                yield from (f"has {attr.name} {what}" for what in _wrong(value, attr, wanted))
    wants = _count(definition, record)
    if record.reads >= 0 and wants is not None and wants != record.reads:
        yield f"has {record.reads} inputs, but {record.op} expects {wants}"


def _wrong(value: AttrValue, attr: AttrDef, wanted: Release) -> Iterator[str]:
    kind, listed = attr.kind.removeprefix("list(").rstrip(")"), attr.kind.startswith("list(")
    field = {"type": "type", "string": "s", "int": "i", "bool": "b", "float": "f", "shape": "shape"}.get(kind, "")
    which = value.WhichOneof("value")
    if not field or which != ("list" if listed else field):
        yield f"of a wrong type: {which}"
        return
    held = list(getattr(value.list, field)) if listed else [getattr(value, field)]
    if kind == "type":
        taken = attr.allowed or range(wanted.last_dtype + 1)
        yield from (f"{item}" for item in held if item not in taken and item - 100 not in taken)
    if kind == "string" and attr.texts:
        yield from (repr(item) for item in held if item.decode("utf-8", "replace") not in attr.texts)
    if attr.minimum is not None and (len(held) if listed else held[0]) < attr.minimum:
        yield f"less than {attr.minimum}"


def _count(definition: OpDef, record: _Record) -> int | None:
    """Returns the number of inputs that an op requires; None if an attr for it is missing."""
    total = 0
    for arg in definition.inputs:
        key = arg.number_attr or arg.list_attr
        value = record.value(key) if key else None
        if key and value is None:
            default = definition.attrs[key].default
            if not isinstance(default, (int, list)):
                return None
            total += default if isinstance(default, int) else len(default)
        elif value is not None:
            total += value.i if arg.number_attr else len(value.list.type)
        else:
            total += 1
    return total
