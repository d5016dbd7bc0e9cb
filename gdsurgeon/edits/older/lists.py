"""Lists of tensors as TensorArrays, for releases that have no such lists, or others.

What goes round as a list goes round as the flow of an array, by which reads and writes are ordered; the array itself is
handed into each loop as what does not change. A list is a value: of one that is written, the old one is still there.
An array is not, and each of its elements is written once: where that is not so, running it says so. A list that has one
place goes round as what is in that, which may be written again and again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.older.site import Places, Site, typed
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import Shape, shape_value, type_value, types_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import DTYPES, FLOAT32, INT32, RESOURCE, VARIANT, dtype_name
from gdsurgeon.ops.kinds import ENTER, EXIT, IDENTITY, MERGE, NEXT_ITERATION, STATED_SHAPES, SWITCH
from gdsurgeon.ops.releases import Release, releases
from gdsurgeon.wire.protos import AttrValue

MADE_BY = frozenset(("TensorListFromTensor", "TensorListReserve"))
LISTS = MADE_BY | {"TensorListGetItem", "TensorListLength", "TensorListSetItem", "TensorListStack"}
_ATTRS = ("Tshape", "element_dtype", "num_elements", "resize_if_index_out_of_bounds", "shape_type", STATED_SHAPES)
_WRITTEN = 3
"""The input of TensorArrayWriteV3 that is the flow that it goes on from."""
_PASSED = ENTER | EXIT | IDENTITY | MERGE | NEXT_ITERATION | SWITCH


def is_wanting(graph: Graph, release: Release) -> bool:
    """Whether GRAPH, or a function that it uses, has lists that RELEASE has not got, or has with other inputs."""
    library, newest = graph.functions, releases()[-1]
    ops = {node.op for name in used_functions(graph) if name in library for node in library[name].node_def}
    for op in (ops | topology_of(graph).ops()) & LISTS:
        old, new = release.op_def(op), newest.op_def(op)
        if old is None or (new is not None and len(old.inputs) != len(new.inputs)):
            return True
    return False


def make_arrays(graph: Graph, release: Release) -> int:
    """Has all lists of GRAPH, in which loops are of version 1, be TensorArrays; returns how many.

    Raises:
        EditError: a list is used as no array can be; the graph is no longer as it was.
    """
    topology = topology_of(graph)
    made = [topology.node(number) for number in topology.with_ops(MADE_BY)]
    work = _Arrays(Places(graph, release), made)
    for node in made:
        work.make(node)
    work.follow()
    return len(made)


class _Arrays:
    def __init__(self, places: Places, made: Iterable[Node]) -> None:
        self.places = places
        self.graph = places.graph
        self._handles: dict[Node, Output] = {}  # of who makes a list, and of each Enter that hands one in
        self._flows: dict[Output, Node] = {Output(node, 0): node for node in made}  # lists, and where they are from
        self._pending = list(self._flows)
        self._stacked = {node: self._element_shape(node) for node in made}
        self._dtypes: dict[Node, int] = {}  # of what goes round in the place of a list

    def make(self, node: Node) -> None:
        """Makes who makes a list make an array."""
        site, dtype = Site(self.places, node), node.setting("element_dtype")
        assert isinstance(dtype, int)
        places = site.value(1) if node.op == "TensorListReserve" else None
        if places is not None and places.values == [1]:
            self._make_one(site, dtype)
            return
        self._dtypes[node] = FLOAT32
        is_filled = node.op == "TensorListFromTensor"
        size = self._rows(site, node.inputs[0], dtype) if is_filled else node.inputs[1]
        attrs = {"element_shape": shape_value(self._stacked[node]), "clear_after_read": _false()}
        array = site.add("array", "TensorArrayV3", [size], dtype=type_value(dtype), **attrs)
        self._handles[node] = array
        flow = Output(array.node, 1)
        if is_filled:
            inputs = [array, self._range(site, size), node.inputs[0], flow]
            site.become("TensorArrayScatterV3", inputs, drop=_ATTRS, attrs=typed(T=dtype))
        else:
            site.become("Identity", [flow], drop=_ATTRS, attrs=typed(T=FLOAT32))

    def _make_one(self, site: Site, dtype: int) -> None:
        """Makes a list with one place what is in that: nothing, as yet."""
        known = self._stacked[site.node]
        self._dtypes[site.node] = dtype
        if not DTYPES[dtype].code:
            message = f"{quoted(site.node.name)} is a list of {dtype_name(dtype)}, which has no older equivalent"
            facts = {"node": site.node.name, "dtype": dtype_name(dtype)}
            raise EditError(message, code="unsupported-dtype", facts=facts)
        shape = site.ints("shape", [max(dim, 0) for dim in known] if known is not None else [0])
        site.become("Fill", [shape, site.const("nothing", dtype, 0)], drop=_ATTRS, attrs=typed(T=dtype))

    def follow(self) -> None:
        """Makes all that reads a list read the flow of its array."""
        for flow in self._pending:  # grows while it is walked
            for user in self.graph.users(flow.node):
                slots = [slot for slot, read in enumerate(user.inputs) if read == flow]
                if slots:
                    self._read(user, slots, flow)
        readers = [node for node in {flow.node for flow in self._flows} for node in self.graph.users(node)]
        for node in dict.fromkeys(readers):
            if node.op in LISTS:
                self._become(node)

    def _read(self, user: Node, slots: list[int], flow: Output) -> None:
        origin = self._flows[flow]
        if user.op in _PASSED or user.op == "IdentityN":
            given = slots if user.op == "IdentityN" else [0, 1] if user.op in SWITCH else [0]
            for index in given:
                self._note(Output(user, index), origin)
            self._retype(user, slots, self._dtypes[origin])
        elif user.op == "TensorListSetItem" and slots == [0]:
            self._note(Output(user, 0), origin)
        elif user.op not in LISTS or slots != [0]:
            message = (
                f"{quoted(user.name)} ({user.op}) uses a list of tensors in a way that a TensorArray does not support"
            )
            raise EditError(message, code="unsupported-op", facts={"node": user.name, "op": user.op})

    def _note(self, output: Output, origin: Node) -> None:
        if output not in self._flows:
            self._flows[output] = origin
            self._pending.append(output)
        elif self._flows[output] is not origin:
            message = f"{quoted(output.name)} may be one of two lists of tensors, which has no older equivalent"
            raise EditError(message, code="several-lists", facts={"tensor": output.name})

    def _retype(self, node: Node, slots: list[int], now: int) -> None:
        """Has a node hand on what is of the dtype NOW, and was a list; what is stated of its shape was so of that."""
        if node.has_attr(STATED_SHAPES):
            self.graph.set_attr(node, STATED_SHAPES, None)
        value = node.attr("T")
        if node.op == "IdentityN" and value is not None:
            dtypes = [now if slot in slots else dtype for slot, dtype in enumerate(value.list.type)]
            self._set(node, "T", types_value(dtypes))
        elif value is not None and value.type == VARIANT:
            self._set(node, "T", type_value(now))

    def _set(self, node: Node, key: str, value: AttrValue) -> None:
        self.graph.set_attr(node, key, value.SerializeToString(deterministic=True))

    def _handle(self, flow: Output) -> Output:
        """The array of which a flow is, as it is to be had in the frame of that."""
        entered: list[Node] = []
        seen = set()
        while flow.node not in self._handles:
            node = flow.node
            if node in seen:
                message = f"{quoted(node.name)} is part of a cycle without a start"
                raise EditError(message, code="unsound-graph", facts={"node": node.name})
            seen.add(node)
            if node.op in EXIT:  # what is behind a loop is what was in front of it
                node = node.inputs[0].node.inputs[0].node.inputs[0].node
                flow = node.inputs[0]
                continue
            if node.op in ENTER:
                entered.append(node)
            slot = _WRITTEN if node.op == "TensorArrayWriteV3" else flow.index if node.op == "IdentityN" else 0
            flow = node.inputs[slot]
        handle = self._handles[flow.node]
        for enter in reversed(entered):
            if enter not in self._handles:
                attrs = {key: value for key, value in enter.attrs() if key in ("frame_name", "parallel_iterations")}
                site = Site(self.places, enter)
                given = site.add("array", "Enter", [handle], **attrs, is_constant=_true(), **typed(T=RESOURCE))
                self._handles[enter] = given
            handle = self._handles[enter]
        return handle

    def _become(self, node: Node) -> None:
        """Makes who reads or writes a list read or write the array."""
        site, flow = Site(self.places, node), node.inputs[0]
        if not self._is_array(flow):
            self._become_one(site, flow)
            return
        handle, dtype = self._handle(flow), node.setting("element_dtype")
        if node.op == "TensorListLength":
            site.become("TensorArraySizeV3", [handle, flow])
            return
        assert isinstance(dtype, int)
        if node.op == "TensorListGetItem":
            site.become("TensorArrayReadV3", [handle, node.inputs[1], flow], drop=_ATTRS, attrs=typed(dtype=dtype))
        elif node.op == "TensorListSetItem":
            if node.setting("resize_if_index_out_of_bounds"):
                self._set(self._handles[self._flows[flow]].node, "dynamic_size", _true())
            inputs = [handle, node.inputs[1], node.inputs[2], flow]
            site.become("TensorArrayWriteV3", inputs, drop=_ATTRS, attrs=typed(T=dtype))
        else:
            size = site.add("size", "TensorArraySizeV3", [handle, flow])
            attrs = {**typed(dtype=dtype), "element_shape": shape_value(self._stacked[self._flows[flow]])}
            site.become("TensorArrayGatherV3", [handle, self._range(site, size), flow], drop=_ATTRS, attrs=attrs)

    def _is_array(self, flow: Output) -> bool:
        return self._flows[flow].op in ("Identity", "TensorArrayScatterV3")

    def _become_one(self, site: Site, flow: Output) -> None:
        """Makes who reads or writes a list with one place do so with what is in that."""
        dtype = self._dtypes[self._flows[flow]]
        if site.node.op == "TensorListLength":
            message = f"{quoted(site.node.name)} needs a known list length: set it with freeze-input"
            raise EditError(message, code="value-unknown", facts={"node": site.node.name})
        if site.node.op == "TensorListStack":
            axis = site.ints("axis", 0)
            site.become("ExpandDims", [flow, axis], drop=_ATTRS, attrs=typed(T=dtype, Tdim=INT32))
            return
        read = site.node.inputs[2] if site.node.op == "TensorListSetItem" else flow
        site.become("Identity", [read], drop=_ATTRS, attrs=typed(T=dtype))

    def _element_shape(self, node: Node) -> Shape:
        """What is said of the shape of the elements of a list, by a constant."""
        shape = Site(self.places, node).value(1 if node.op == "TensorListFromTensor" else 0)
        if shape is None or not shape.shape:
            return None
        return tuple(int(dim) for dim in shape.values if isinstance(dim, int))

    @staticmethod
    def _rows(site: Site, read: Output, dtype: int) -> Output:
        """How many rows a tensor has."""
        shape = site.add("shape", "Shape", [read], **typed(T=dtype, out_type=INT32))
        ends = [site.ints("begin", [0]), site.ints("one", [1])]
        first = site.add("first", "Slice", [shape, *ends], **typed(T=INT32, Index=INT32))
        return site.add("rows", "Squeeze", [first], **typed(T=INT32))

    @staticmethod
    def _range(site: Site, size: Output) -> Output:
        """The places of all elements."""
        return site.add("places", "Range", [site.ints("from", 0), size, site.ints("by", 1)], **typed(Tidx=INT32))


def _false() -> AttrValue:
    return AttrValue(b=False)


def _true() -> AttrValue:
    return AttrValue(b=True)
