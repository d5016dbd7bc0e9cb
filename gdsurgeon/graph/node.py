"""Nodes and their outputs: handles on records that are decoded on demand, with recorded changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol, TypeVar

from gdsurgeon.errors import EditError, GdsurgeonError, InputError, printable, quoted
from gdsurgeon.graph.attrs import Plain, Shape, attr_value, plain, shape_of
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.index import colocated_names
from gdsurgeon.graph.journal import Journal
from gdsurgeon.graph.names import CONTROL, format_input, parse_input
from gdsurgeon.graph.records import Record
from gdsurgeon.graph.store import Store
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.ops.op_defs import OpDef, arg_count, arg_dtypes
from gdsurgeon.text import counted
from gdsurgeon.wire.fields import VARINT
from gdsurgeon.wire.node_record import Header
from gdsurgeon.wire.protos import AttrValue, decode_error

H = TypeVar("H", bound="Handle")


class Owner(Protocol):
    """The interface of a graph that nodes use."""

    @property
    def source_name(self) -> str:
        """The name of the file, for messages."""

    @property
    def store(self) -> Store:
        """The file."""

    @property
    def functions(self) -> FunctionLibrary:
        """The function library."""

    def op_def(self, op: str) -> OpDef | None:
        """Returns the signature of an op, or None if it is unknown."""

    def users(self, node: Node) -> list[Node]:
        """Returns the nodes that have `node` as an input."""

    def base_node(self, name: str) -> Node:
        """Returns the node with the name `name` in the file."""

    def spell_base_name(self, name: str) -> str:
        """Returns the present name of the node with the name `name` in the file."""

    def spell_base_input(self, text: str) -> str:
        """Returns `text`, an input as the file spells it, with the current name of its node."""


class Handle:
    """A handle on a part of a graph: its attributes cannot be set, and a copy of it is the handle itself.

    The functions and methods that change a graph keep its tables of consumers and names up to date.
    """

    __slots__ = ()

    def __copy__(self: H) -> H:
        return self

    def __deepcopy__(self: H, _: object) -> H:
        return self

    def __reduce__(self) -> NoReturn:
        raise EditError(
            f"a {type(self).__name__} cannot be pickled: pickle its graph instead",
            code="not-picklable",
            value=repr(self),
        )


class Output(Handle):
    """A tensor: output `index` of `node`. Two outputs are equal if both attributes are."""

    __slots__ = ("_index", "_node")

    if TYPE_CHECKING:

        @property
        def node(self) -> Node:
            """The node that computes the tensor."""

        @property
        def index(self) -> int:
            """The index among the outputs of the node."""

    def __init__(self, node: Node, index: int) -> None:
        self._node = node
        self._index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Output) and self._node is other._node and self._index == other._index

    def __hash__(self) -> int:
        return hash((id(self._node), self._index))

    def __repr__(self) -> str:
        return f"<Output {quoted(self.name)}>"

    @property
    def name(self) -> str:
        """``node`` or ``node:index``."""
        return format_input(self._node._name, self._index)

    @property
    def dtype(self) -> int:
        """The DataType; 0 if the op or an attr is unknown. A reference dtype is 100 more."""
        dtypes = self.node.output_dtypes
        return dtypes[self.index] if dtypes is not None and self.index < len(dtypes) else 0


class Unlocated(Enum):
    """Marks the record of a node that was not located yet."""

    UNLOCATED = 0


UNLOCATED = Unlocated.UNLOCATED


class Node(Handle):
    """A node of a graph. Nodes compare by identity; a graph makes one for each name, on first request.

    A node may also represent a name that no record has (a dangling input). Then `exists` is False, and the node can
    only be referred to.

    Attributes cannot be set directly: the graph's methods change a node, and update the tables of consumers.
    """

    __slots__ = (
        "_attrs",
        "_base_name",
        "_colocated",
        "_controls",
        "_device_override",
        "_graph",
        "_header",
        "_inputs",
        "_name",
        "_op_override",
        "_record",
    )

    if TYPE_CHECKING:

        @property
        def graph(self) -> Owner:
            """The graph that contains the node."""

        @property
        def name(self) -> str:
            """The current name."""

        @property
        def base_name(self) -> str | None:
            """The name in the file that the graph was loaded from; None for a node that an edit has added."""

        @property
        def op_override(self) -> str | None:
            """The op that an edit has set; None: the op is that of the record."""

        @property
        def device_override(self) -> str | None:
            """The device that an edit has set; None: the device is that of the record."""

    def __init__(self, graph: Owner, name: str, record: Record | Unlocated | None, *, base_name: str | None) -> None:
        self._graph = graph
        self._name = name
        self._base_name = base_name
        self._record = record
        self._op_override: str | None = None
        self._device_override: str | None = None
        self._header: Header | None = None
        self._inputs: tuple[Output, ...] | None = None
        self._controls: tuple[Node, ...] | None = None
        self._colocated: tuple[Node, ...] | None = None
        self._attrs: dict[str, bytes | None] = {}

    def __repr__(self) -> str:
        try:
            what = printable(self.op) if self.exists else "missing"
        except GdsurgeonError:
            what = "corrupt"
        return f"<Node {quoted(self._name)} ({what})>"

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def record(self) -> Record | None:
        """The record with the node's bytes; of a copied node, in the source of a different graph. None: no record."""
        record = self._record
        if record is UNLOCATED:
            assert self._base_name is not None
            record = self._record = self._graph.store.record(self._base_name)
        return record

    @property
    def extent(self) -> tuple[int, int] | None:
        """The start and the end of the record in its file; (0, 0) without a record, None if the node does not exist."""
        record = self._record
        if record is UNLOCATED:
            assert self._base_name is not None
            return self._graph.store.extent(self._base_name)
        if record is not None:
            return record.start, record.end
        return (0, 0) if self._base_name is None and self._op_override is not None else None

    @property
    def exists(self) -> bool:
        """Whether a node has the name."""
        return self.extent is not None

    @property
    def header(self) -> Header:
        """The header in the record, without edits. Raises InputError if there is no record."""
        if self._header is None:
            if self.record is None:
                raise InputError(
                    f"{quoted(self._graph.source_name)} has no node {quoted(self._name)}",
                    code="no-such-node",
                    node=self._name,
                )
            self._header = self.record.header()
        return self._header

    def release(self) -> None:
        """Frees the memory of the header of a node of the file. The header is read again when needed."""
        if self._record is not None and self._base_name is not None:
            self._header = None

    def become_copy(self, original: Node) -> None:
        """Copies the header, op, device and attrs of `original` to this new node. Called only by the graph."""
        self._header, self._attrs = original.header if original.record is not None else None, dict(original._attrs)
        self._inputs, self._controls, self._colocated = (), (), ()
        self._op_override, self._device_override = original._op_override, original._device_override

    @property
    def is_plain_copy(self) -> bool:
        """Whether the op, the attrs and the number of data inputs are those of the record."""
        if self.record is None or self._attrs or self._op_override is not None:
            return False
        count = sum(text[:1] != "^" for text in self.header.inputs)
        return self._inputs is None or len(self._inputs) == count

    @property
    def changed_attrs(self) -> Mapping[str, bytes | None]:
        """The attrs that differ from the record, serialised; None: removed."""
        return self._attrs

    @property
    def op(self) -> str:
        """The op."""
        if self._op_override is not None:
            return self._op_override
        return self._header.op if self._header is not None else self.header.op

    @property
    def device(self) -> str:
        """The device string, '' if no device is requested."""
        if self._device_override is not None:
            return self._device_override
        return self.header.device if self.record is not None else ""

    @property
    def inputs(self) -> tuple[Output, ...]:
        """The data inputs, in order."""
        if self._inputs is None:
            self._resolve_inputs()
        assert self._inputs is not None
        return self._inputs

    @property
    def controls(self) -> tuple[Node, ...]:
        """The nodes of the control inputs, in order."""
        if self._controls is None:
            self._resolve_inputs()
        assert self._controls is not None
        return self._controls

    def reads(self, node: Node) -> bool:
        """Returns whether `node` is one of the data or control inputs."""
        found = [read.node for read in self.inputs]  # no generator, for speed: this runs for each edge of a graph
        return node in found or node in self.controls

    def _resolve_inputs(self) -> None:
        data: list[Output] = []
        controls: list[Node] = []
        for text in self.header.inputs if self.record is not None else ():
            ref = parse_input(text)
            if ref is None:
                raise InputError(
                    f"node {quoted(self._name)} has the input {quoted(text)}, which is not a tensor name",
                    code="bad-tensor-name",
                    facts={"node": self._name, "tensor": text},
                )
            node = self._graph.base_node(ref.node)
            if ref.port == CONTROL:
                controls.append(node)
            else:
                data.append(Output(node, ref.port))
        if self._inputs is None:
            self._inputs = tuple(data)
        if self._controls is None:
            self._controls = tuple(controls)

    @property
    def has_resolved_inputs(self) -> bool:
        """Whether the inputs are held as nodes, no longer as the names in the record."""
        return self._inputs is not None

    @property
    def has_resolved_colocations(self) -> bool:
        """Whether the colocations are held as nodes, no longer as the names in the record."""
        return self._colocated is not None

    @property
    def is_rebuilt(self) -> bool:
        """Whether the node is new, or its op or attrs were changed, or its inputs are held as nodes."""
        return self._inputs is not None or bool(self._attrs) or self._base_name is None or self._op_override is not None

    @property
    def colocated(self) -> tuple[Node, ...]:
        """The nodes with which this one is colocated (``loc:@`` entries of its ``_class`` attr)."""
        if self._colocated is None:
            data = self.attr_bytes(COLOCATION_ATTR)
            names = colocated_names(data) if data else []
            self._colocated = tuple(self._graph.base_node(name) for name in names)
        return self._colocated

    @property
    def output(self) -> Output:
        """Output 0."""
        return Output(self, 0)

    @property
    def outputs(self) -> list[Output]:
        """All outputs; output 0 if the op is unknown, or has no outputs."""
        return [Output(self, index) for index in range(self.output_count or 1)]

    @property
    def attr_keys(self) -> tuple[str, ...]:
        """The keys of the attrs."""
        keys = dict.fromkeys(self.header.attrs if self.record is not None else ())
        for key, value in self._attrs.items():
            if value is None:
                keys.pop(key, None)
            else:
                keys[key] = None
        return tuple(keys)

    def has_attr(self, key: str) -> bool:
        """Returns whether the node has the attr `key`."""
        if key in self._attrs:
            return self._attrs[key] is not None
        return self.record is not None and key in self.header.attrs

    def attr_bytes(self, key: str) -> bytes | None:
        """Returns the serialised AttrValue of the attr `key`, or None."""
        if key in self._attrs:
            return self._attrs[key]
        record = self.record
        if record is None or key not in (attrs := self.header.attrs):
            return None
        start, end = attrs[key]
        if record.data is not None:
            return record.data[start:end]
        return record.source.read(record.body + start, end - start)

    def attr_size(self, key: str) -> int:
        """Returns the size in bytes of the serialized AttrValue of the attr `key`; 0 without such an attr."""
        if key in self._attrs:
            return len(self._attrs[key] or b"")
        start, end = self.header.attrs.get(key, (0, 0)) if self.record is not None else (0, 0)
        return end - start

    def attr(self, key: str) -> AttrValue | None:
        """Returns a copy of the AttrValue of the attr `key`, or None. Raises InputError if it cannot be decoded."""
        data = self.attr_bytes(key)
        if data is None:
            return None
        try:
            return attr_value(data)
        except decode_error():
            raise InputError(
                f"attr {quoted(key)} of node {quoted(self._name)} is corrupt",
                code="corrupt",
                facts={"node": self._name, "attr": key},
            ) from None

    def attrs(self) -> Iterator[tuple[str, AttrValue]]:
        """Yields the keys and AttrValue messages of all attrs. Raises InputError: see `attr`."""
        for key in self.attr_keys:
            value = self.attr(key)
            assert value is not None
            yield key, value

    def plain_attr(self, key: str) -> Plain | None:
        """Returns the value of the attr `key` if its kind is plain (int, bool, type, ... or lists), else None."""
        data = self.attr_bytes(key)
        if data is not None and len(data) == 2 and data[0] == _TYPE_TAG and data[1] < 128:
            return data[1]  # most attrs are DataTypes
        value = self.attr(key)
        return None if value is None else plain(value)

    def setting(self, key: str) -> object:
        """Returns the plain value of the attr `key`, or its default; None if both are missing."""
        value = self.plain_attr(key)
        definition = self.op_def if value is None else None
        return definition.attrs[key].default if definition is not None and key in definition.attrs else value

    def text_attr(self, key: str) -> str:
        """Returns the value of a string attr; '' without such an attr."""
        value = self.plain_attr(key)
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""

    def ints_attr(self, key: str) -> list[int]:
        """Returns the value of an attr that is a list of ints; [] without such an attr."""
        value = self.attr(key)
        return [] if value is None else list(value.list.i)

    @property
    def op_def(self) -> OpDef | None:
        """The signature of the op, from TensorFlow or from the graph's functions; None if unknown."""
        return self._graph.op_def(self.op)

    @property
    def output_dtypes(self) -> list[int] | None:
        """The DataTypes of the outputs, or None if the op is unknown."""
        definition = self.op_def
        return None if definition is None else arg_dtypes(definition.outputs, definition, self.plain_attr)

    @property
    def output_count(self) -> int | None:
        """The number of outputs, or None if the op is unknown."""
        definition = self.op_def
        return None if definition is None else arg_count(definition.outputs, definition, self.plain_attr)

    @property
    def input_dtypes(self) -> list[int] | None:
        """The DataTypes that the data inputs must have, or None if the op is unknown."""
        definition = self.op_def
        return None if definition is None else arg_dtypes(definition.inputs, definition, self.plain_attr)

    # -- changing: called by the graph --------------------------------------------------------------------

    def become(self, other: Node, same: Callable[[Node], Node]) -> None:
        """Copies the state of `other`, a node of the graph that this graph copies; `same`: see `Overlay.become`."""
        self.become_copy(other)
        self._name, reads = other._name, other._inputs
        self._inputs = None if reads is None else tuple(Output(same(read.node), read.index) for read in reads)
        self._controls = None if other._controls is None else tuple(map(same, other._controls))
        self._colocated = None if other._colocated is None else tuple(map(same, other._colocated))

    def assign_attr(self, journal: Journal, key: str, value: bytes | None) -> None:
        """Sets or (None) removes an attr. Only the graph calls this."""
        journal.set_item(self._attrs, key, value)


_TYPE_TAG = 6 << 3 | VARINT
"""The tag of a DataType in an AttrValue."""

_CHANGES = {
    "name": "gds.rename(graph, {node.name: NAME})",
    "op": 'gds.set_attr(graph, node, {"op": OP})',
    "device": "gds.set_device(graph, nodes=node, device=DEVICE)",
    "inputs": "graph.set_inputs(node, OUTPUTS), or gds.reroute",
    "controls": "graph.set_controls(node, NODES), or gds.control_edges",
    "colocated": "graph.set_colocated(node, NODES)",
}
"""The call that changes each attribute of a node."""


class _ReadOnly(property):
    """A property that raises an error when set; the error names the call that changes the value."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __set__(self, item: object, value: object) -> None:
        del value
        hint = _CHANGES.get(self._name)
        raise ReadOnlyError(
            f"{type(item).__name__}.{self._name} cannot be set",
            code="read-only",
            facts={"attr": self._name, "value": repr(item)},
            hint=f"{hint} changes it" if hint else None,
        )

    def __delete__(self, item: object) -> None:
        self.__set__(item, None)


class ReadOnlyError(EditError, AttributeError):
    """An attribute of a node or tensor was set directly."""


def _guard(kind: type, slots: Iterable[str] = ()) -> None:
    """Makes the properties of `kind`, and `slots` under their public names, raise a `ReadOnlyError` when set."""
    for key in slots:
        setattr(kind, key[1:], _ReadOnly(attrgetter(key)))  # no Python function, for speed: they are read for each edge
    for key, value in list(vars(kind).items()):
        if type(value) is property:
            setattr(kind, key, _ReadOnly(value.fget, None, None, value.__doc__))
    for key, value in vars(kind).items():
        if isinstance(value, _ReadOnly):
            value.__set_name__(kind, key)


_guard(Output, ("_node", "_index"))
_guard(Node, ("_graph", "_name", "_base_name", "_op_override", "_device_override"))


def check_output(output: Output) -> None:
    """Raises EditError if the node does not exist, or its op is known and has no such output."""
    node = output.node
    if not node.exists:
        raise EditError(f"the graph has no node {quoted(node.name)}", code="no-such-node", node=node.name)
    dtypes = node.output_dtypes
    if dtypes is not None and output.index >= len(dtypes):
        count = counted(len(dtypes), "output")
        raise EditError(
            f"the graph has no tensor {quoted(output.name)}: node {quoted(node.name)} ({printable(node.op)}) "
            f"has {count}",
            code="no-such-tensor",
            facts={"tensor": output.name, "op": node.op, "count": len(dtypes)},
        )


def check_typed(output: Output) -> None:
    """Raises EditError if the dtype of `output` is not known."""
    if not base_dtype(output.dtype):
        raise EditError(
            f"the dtype of {quoted(output.name)} ({printable(output.node.op)}) is unknown",
            code="unknown-dtype",
            facts={"tensor": output.name, "op": output.node.op},
        )


def check_reads(node: Node) -> None:
    """Raises EditError if an input or control input of `node` does not exist."""
    for read in (*(output.node for output in node.inputs), *node.controls):
        if not read.exists:
            raise EditError(
                f"{quoted(node.name)} has the input {quoted(read.name)}, which does not exist",
                code="unsound-graph",
                facts={"node": node.name, "input": read.name},
            )


def same_dtype(a: int, b: int) -> bool:
    """Returns whether two DataTypes match: unknown (0) matches all, and a reference matches its base dtype."""
    return not a or not b or base_dtype(a) == base_dtype(b)


class Use(NamedTuple):
    """A use of a tensor: data input `slot` of `node`."""

    node: Node
    slot: int


SCALAR_MEANS_UNKNOWN_BEFORE = 24
"""In graphs with a lower producer version, a placeholder with the shape of a scalar has an unknown shape."""


def placeholder_shape(node: Node) -> Shape:
    """Returns the shape of a placeholder, from its attr; None if unknown."""
    value = node.attr("shape")
    if value is None or value.WhichOneof("value") != "shape":
        return None
    shape = shape_of(value.shape)
    if shape == () and node.op == "Placeholder" and node.graph.store.producer < SCALAR_MEANS_UNKNOWN_BEFORE:
        return None
    return shape
