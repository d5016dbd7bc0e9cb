"""Lists of tensors as TensorArrays, for releases without such lists or with different ones.

A list that a loop carries becomes the flow of an array, which orders reads and writes; the array enters each loop as a
loop invariant. A list is a value: after a write the old list still exists. An array is not a value, and each of its
elements can be written once; at run time an error reports a second write. A list of one element becomes that element,
which can be written again and again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.downgrade.candidate import Analysis, Candidate
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import Shape, bool_value, shape_value, type_value, types_value
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


def is_needed(graph: Graph, release: Release) -> bool:
    """Returns whether `graph`, or a function that it uses, has lists that `release` lacks or has with other inputs."""
    library, newest = graph.functions, releases()[-1]
    ops = {node.op for name in used_functions(graph) if name in library for node in library[name].node_def}
    for op in (ops | topology_of(graph).ops()) & LISTS:
        old, new = release.op_def(op), newest.op_def(op)
        if old is None or (new is not None and len(old.inputs) != len(new.inputs)):
            return True
    return False


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

    def make(self, node: Node) -> None:
        """Makes a node that makes a list make an array."""
        site, dtype = Candidate(self.analysis, node), node.setting("element_dtype")
        assert isinstance(dtype, int)
        count = site.value(1) if node.op == "TensorListReserve" else None
        if count is not None and count.values == [1]:
            self._make_element(site, dtype)
            return
        self._dtypes[node] = FLOAT32
        is_filled = node.op == "TensorListFromTensor"
        size = "Squeeze(Slice{Index=int32}(Shape(n.0), [0], [1]))" if is_filled else "n.1"
        array = site.add(f"TensorArrayV3{{dtype={dtype_name(dtype)}, clear_after_read=false}}({size})")
        self._set(array.node, "element_shape", shape_value(self._element_shapes[node]))
        self._arrays[node] = array
        flow, rows = Output(array.node, 1), array.node.inputs[0]
        if is_filled:
            site.become("TensorArrayScatterV3($array, Range(0, $rows, 1), n.0, $flow)",
                        {"array": array, "rows": rows, "flow": flow})  # fmt: skip
        else:
            site.become("Identity($flow)", {"flow": flow})
        self._forget_shapes(node)

    def _make_element(self, site: Candidate, dtype: int) -> None:
        """Makes a list of one element that element, which is zeros before it is written."""
        shape = self._element_shapes[site.node]
        self._dtypes[site.node] = dtype
        if not DTYPES[dtype].code:
            text = f"{quoted(site.node.name)} is a list of {dtype_name(dtype)}, which has no older equivalent"
            facts = {"node": site.node.name, "dtype": dtype_name(dtype)}
            raise EditError(text, code="unsupported-dtype", facts=facts)
        dims = [max(dim, 0) for dim in shape] if shape is not None else [0]
        site.become(f"Fill{{T={dtype_name(dtype)}}}({dims}, 0)")
        self._forget_shapes(site.node)

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
            raise EditError(text, code="unsupported-op", facts={"node": user.name, "op": user.op})

    def _note(self, output: Output, origin: Node) -> None:
        if output not in self._lists:
            self._lists[output] = origin
            self._pending.append(output)
        elif self._lists[output] is not origin:
            text = f"{quoted(output.name)} may be one of two lists of tensors, which has no older equivalent"
            raise EditError(text, code="several-lists", facts={"tensor": output.name})

    def _retype(self, node: Node, slots: list[int], now: int) -> None:
        """Makes a node that forwards a list forward a tensor of the dtype `now`."""
        self._forget_shapes(node)
        value = node.attr("T")
        if node.op == "IdentityN" and value is not None:
            dtypes = [now if slot in slots else dtype for slot, dtype in enumerate(value.list.type)]
            self._set(node, "T", types_value(dtypes))
        elif value is not None and value.type == VARIANT:
            self._set(node, "T", type_value(now))

    def _forget_shapes(self, node: Node) -> None:
        """Removes the stated shapes of a node's outputs, which were those of lists."""
        if node.has_attr(STATED_SHAPES):
            self.graph.set_attr(node, STATED_SHAPES, None)

    def _set(self, node: Node, key: str, value: AttrValue) -> None:
        self.graph.set_attr(node, key, value.SerializeToString(deterministic=True))

    def _array_of(self, flow: Output) -> Output:
        """Returns the array of a flow, as a tensor in the frame of the flow."""
        entered: list[Node] = []
        seen = set()
        while flow.node not in self._arrays:
            node = flow.node
            if node in seen:
                text = f"{quoted(node.name)} is part of a cycle without a start"
                raise EditError(text, code="unsound-graph", facts={"node": node.name})
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
                attrs = "frame_name=n.frame_name, parallel_iterations=n.parallel_iterations, is_constant=true"
                self._arrays[enter] = Candidate(self.analysis, enter).add(f"Enter{{{attrs}}}($array)", {"array": array})
            array = self._arrays[enter]
        return array

    def _replace(self, node: Node) -> None:
        """Makes a node that reads or writes a list read or write the array."""
        site, flow = Candidate(self.analysis, node), node.inputs[0]
        origin = self._lists[flow]
        dtype = node.setting("element_dtype")
        if origin.op not in ("Identity", "TensorArrayScatterV3"):
            self._replace_element(site, flow)
            return
        array = self._array_of(flow)
        name = dtype_name(dtype) if isinstance(dtype, int) else ""
        if node.op == "TensorListLength":
            site.become("TensorArraySizeV3($array, $flow)", {"array": array, "flow": flow})
        elif node.op == "TensorListGetItem":
            site.become(f"TensorArrayReadV3{{dtype={name}}}($array, n.1, $flow)", {"array": array, "flow": flow})
        elif node.op == "TensorListSetItem":
            if node.setting("resize_if_index_out_of_bounds"):
                self._set(self._arrays[origin].node, "dynamic_size", bool_value(True))
            site.become("TensorArrayWriteV3($array, n.1, n.2, $flow)", {"array": array, "flow": flow})
        else:
            rows = "Range(0, TensorArraySizeV3($array, $flow), 1)"
            text = f"TensorArrayGatherV3{{dtype={name}}}($array, {rows}, $flow)"
            site.become(text, {"array": array, "flow": flow})
            self._set(node, "element_shape", shape_value(self._element_shapes[origin]))
        self._forget_shapes(node)

    def _replace_element(self, site: Candidate, read: Output) -> None:
        """Makes a node that reads or writes a list of one element read or write that element."""
        node = site.node
        if node.op == "TensorListLength":
            text = f"{quoted(node.name)} needs a known list length: set it with freeze-input"
            raise EditError(text, code="value-unknown", facts={"node": node.name})
        if node.op == "TensorListStack":
            site.become("ExpandDims($element, 0)", {"element": read})
        else:
            site.become("Identity($element)", {"element": node.inputs[2] if node.op == "TensorListSetItem" else read})
        self._forget_shapes(node)

    def _element_shape(self, node: Node) -> Shape:
        """Returns the shape of a list's elements if it is a constant; otherwise None."""
        shape = Candidate(self.analysis, node).value(1 if node.op == "TensorListFromTensor" else 0)
        if shape is None or not shape.shape:
            return None
        return tuple(int(dim) for dim in shape.values if isinstance(dim, int))
