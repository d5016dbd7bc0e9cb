"""Lists of tensors as TensorArrays, for releases without such lists or with different ones.

A list that a loop carries becomes the flow of an array, which orders reads and writes; the array enters each loop as a
loop invariant. A list is a value: after a write the old list still exists. An array is not a value, and each of its
elements can be written once; at run time an error reports a second write. A list of one element becomes that element,
which can be written again and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.downgrade.candidate import Analysis, Candidate
from gdsurgeon.edits.rewriting.rounds import RewriteLog
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import Shape, bool_value, type_value, types_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import DTYPES, FLOAT32, VARIANT, dtype_name
from gdsurgeon.ops.kinds import ENTER, EXIT, IDENTITY, MERGE, NEXT_ITERATION, STATED_SHAPES, SWITCH
from gdsurgeon.ops.releases import Release, releases
from gdsurgeon.wire.protos import AttrValue

MADE_BY = frozenset(("TensorListFromTensor", "TensorListReserve"))
LISTS = MADE_BY | {"TensorListGetItem", "TensorListLength", "TensorListSetItem", "TensorListStack"}
_FLOW_OF_WRITE = 3
"""The input of TensorArrayWriteV3 with the flow before the write."""
_FORWARDING = ENTER | EXIT | IDENTITY | MERGE | NEXT_ITERATION | SWITCH


def is_needed(ops: AbstractSet[str], release: Release) -> bool:
    """Returns whether `ops` are of lists that `release` lacks or has with other inputs."""
    pairs = [(release.op_def(op), releases()[-1].op_def(op)) for op in ops & LISTS]
    return any(old is None or (new is not None and len(old.inputs) != len(new.inputs)) for old, new in pairs)


def make_arrays(graph: Graph, release: Release) -> int:
    """Replaces all lists of `graph`, which has v1 loops only, by TensorArrays; returns their number.

    Raises:
        EditError: an array cannot be used in the same way; the graph is no longer as it was.
    """
    topology = topology_of(graph)
    made = [topology.node(number) for number in topology.with_ops(MADE_BY)]
    work = _Arrays(Analysis(graph, release), made)
    for node in made:
        work.make(node)
    work.follow()
    return len(made)


class _Arrays:
    def __init__(self, analysis: Analysis, made: Iterable[Node]) -> None:
        self.analysis = analysis
        self.graph = analysis.graph
        self._arrays: dict[Node, Output] = {}  # the array of each node that makes a list, and in each frame
        self._lists: dict[Output, Node] = {Output(node, 0): node for node in made}  # lists, and where they are made
        self._pending = list(self._lists)
        self._element_shapes = {node: self._element_shape(node) for node in made}
        self._dtypes: dict[Node, int] = {}  # what replaces a list: a flow, or its only element
        self._log, self._kept, self._unique = RewriteLog(self.graph), {*self.graph.nodes()}, self.graph.unique_names()

    def make(self, node: Node) -> None:
        """Makes a node that makes a list make an array."""
        dtype = node.setting("element_dtype")
        assert isinstance(dtype, int)
        count = Candidate(self.analysis, node).value(1) if node.op == "TensorListReserve" else None
        if count is not None and count.values == [1]:
            self._make_element(node, dtype)
            return
        self._dtypes[node] = FLOAT32
        is_filled = node.op == "TensorListFromTensor"
        size = "r=Squeeze(Slice{Index=int32}(Shape(n.0), [0], [1]))" if is_filled else "n.1"
        attrs = f"dtype={dtype_name(dtype)}, clear_after_read=false{self._shape_attr(node)}"
        array = f"a=TensorArrayV3{{{attrs}}}({size})"
        filled = f"TensorArrayScatterV3({array}, Range(0, r, 1), n.0, a:1)"
        made = self._become(node, filled if is_filled else f"Identity({array}:1)")
        self._arrays[node] = next(each.output for each in made if each.op == "TensorArrayV3")

    def _shape_attr(self, node: Node) -> str:
        shape = self._element_shapes[node]
        return "" if shape is None else f", element_shape={[*shape]}"

    def _become(self, node: Node, text: str, **tensors: Output) -> list[Node]:
        """Makes `node` the last node of the replacement `text`; returns all nodes of the replacement."""
        self._log.carry_out([self.analysis.planned(node, text, tensors)], self._kept, 0, 0)
        return [self.graph[name] for name in self._log.replaced[-1].made]

    def _make_element(self, node: Node, dtype: int) -> None:
        """Makes a list of one element that element, which is zeros before it is written."""
        shape = self._element_shapes[node]
        self._dtypes[node] = dtype
        if not DTYPES[dtype].code:
            text = f"{quoted(node.name)} is a list of {dtype_name(dtype)}, which has no older equivalent"
            raise EditError(text, code="unsupported-dtype", node=node.name, dtype=dtype_name(dtype))
        dims = [max(dim, 0) for dim in shape] if shape is not None else [0]
        self._become(node, f"Fill{{T={dtype_name(dtype)}}}({dims}, 0)")

    def follow(self) -> None:
        """Makes all consumers of a list read the flow of its array."""
        for read in self._pending:  # grows during the iteration
            for user in self.graph.users(read.node):
                slots = [slot for slot, each in enumerate(user.inputs) if each == read]
                if slots:
                    self._read(user, slots, read)
        users = [node for node in {read.node for read in self._lists} for node in self.graph.users(node)]
        for node in dict.fromkeys(users):
            if node.op in LISTS:
                self._replace(node)

    def _read(self, user: Node, slots: list[int], read: Output) -> None:
        origin = self._lists[read]
        if user.op in _FORWARDING or user.op == "IdentityN":
            for index in slots if user.op == "IdentityN" else [0, 1] if user.op in SWITCH else [0]:
                self._note(Output(user, index), origin)
            self._retype(user, slots, self._dtypes[origin])
        elif user.op == "TensorListSetItem" and slots == [0]:
            self._note(Output(user, 0), origin)
        elif user.op not in LISTS or slots != [0]:
            text = (
                f"{quoted(user.name)} ({user.op}) uses a list of tensors in a way that a TensorArray does not support"
            )
            raise EditError(text, code="unsupported-op", node=user.name, op=user.op)

    def _note(self, output: Output, origin: Node) -> None:
        if output not in self._lists:
            self._lists[output] = origin
            self._pending.append(output)
        elif self._lists[output] is not origin:
            text = f"{quoted(output.name)} may be one of two lists of tensors, which has no older equivalent"
            raise EditError(text, code="several-lists", tensor=output.name)

    def _retype(self, node: Node, slots: list[int], now: int) -> None:
        """Makes a node that forwards a list forward a tensor of the dtype `now`."""
        if node.has_attr(STATED_SHAPES):
            self.graph.set_attr(node, STATED_SHAPES, None)  # these were shapes of lists
        value = node.attr("T")
        if node.op == "IdentityN" and value is not None:
            dtypes = [now if slot in slots else dtype for slot, dtype in enumerate(value.list.type)]
            self.graph.set_attr(node, "T", types_value(dtypes))
        elif value is not None and value.type == VARIANT:
            self.graph.set_attr(node, "T", type_value(now))

    def _array_of(self, flow: Output) -> Output:
        """Returns the array of a flow, as a tensor in the frame of the flow."""
        entered: list[Node] = []
        seen = set()
        while flow.node not in self._arrays:
            node = flow.node
            if node in seen:
                text = f"{quoted(node.name)} is part of a cycle without a start"
                raise EditError(text, code="unsound-graph", node=node.name)
            seen.add(node)
            if node.op in EXIT:  # after a loop the array is the one before it: past Exit, Switch, Merge, Enter
                flow = node.inputs[0].node.inputs[0].node.inputs[0].node.inputs[0]
                continue
            if node.op in ENTER:
                entered.append(node)
            slot = _FLOW_OF_WRITE if node.op == "TensorArrayWriteV3" else flow.index if node.op == "IdentityN" else 0
            flow = node.inputs[slot]
        array = self._arrays[flow.node]
        for enter in reversed(entered):
            if enter not in self._arrays:
                frame = {key: enter.attr_bytes(key) for key in ("frame_name", "parallel_iterations")}
                attrs: dict[str, bytes | AttrValue] = {key: data for key, data in frame.items() if data is not None}
                attrs |= {"T": type_value(array.dtype), "is_constant": bool_value(True)}
                name = self._unique(f"{enter.name}/Enter")
                added = self.graph.add(name, "Enter", [array], attrs=attrs, device=enter.device, after=enter)
                self._arrays[enter] = added.output
            array = self._arrays[enter]
        return array

    def _replace(self, node: Node) -> None:
        """Makes a node that reads or writes a list read or write the array, or the only element."""
        flow = node.inputs[0]
        origin = self._lists[flow]
        if origin not in self._arrays:
            if node.op == "TensorListLength":
                text = f"{quoted(node.name)} needs a known list length: set it with freeze-input"
                raise EditError(text, code="value-unknown", node=node.name)
            form = {"TensorListStack": "ExpandDims($element, 0)", "TensorListSetItem": "Identity(n.2)"}
            self._become(node, form.get(node.op, "Identity($element)"), element=flow)
            return
        dtype = node.setting("element_dtype")
        attr = f"dtype={dtype_name(dtype) if isinstance(dtype, int) else ''}"
        form = {
            "TensorListLength": "TensorArraySizeV3($array, $flow)",
            "TensorListGetItem": f"TensorArrayReadV3{{{attr}}}($array, n.1, $flow)",
            "TensorListSetItem": "TensorArrayWriteV3($array, n.1, n.2, $flow)",
            "TensorListStack": f"TensorArrayGatherV3{{{attr}{self._shape_attr(origin)}}}"
            "($array, Range(0, TensorArraySizeV3($array, $flow), 1), $flow)",
        }
        if node.op == "TensorListSetItem" and node.setting("resize_if_index_out_of_bounds"):
            self.graph.set_attr(self._arrays[origin].node, "dynamic_size", bool_value(True))
        self._become(node, form[node.op], array=self._array_of(flow), flow=flow)

    def _element_shape(self, node: Node) -> Shape:
        """Returns the shape of a list's elements if it is a constant; otherwise None."""
        shape = Candidate(self.analysis, node).value(1 if node.op == "TensorListFromTensor" else 0)
        if shape is None or not shape.shape:
            return None
        return tuple(int(dim) for dim in shape.values if isinstance(dim, int))
