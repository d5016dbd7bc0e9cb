"""Nodes and their outputs: handles on records, decoded when somebody looks, and what has been changed of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from gdsurgeon.errors import EditError, InputError, printable, quoted
from gdsurgeon.graph.attrs import attr_value, plain
from gdsurgeon.graph.index import COLOCATION, COLOCATION_ATTR, Record, colocated_names
from gdsurgeon.graph.names import CONTROL, format_input, parse_input
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.op_defs import OpDef, arg_count, arg_dtypes
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.node_record import Changes, Header, Piece, encode_node, patched

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph


class Output:
    """A tensor: output `index` of `node`. Equal where both are."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Output) and self.node is other.node and self.index == other.index

    def __hash__(self) -> int:
        return hash((id(self.node), self.index))

    def __repr__(self) -> str:
        return f"<Output {self.name}>"

    @property
    def name(self) -> str:
        """``node`` or ``node:index``."""
        return format_input(self.node.name, self.index)

    @property
    def dtype(self) -> int:
        """The DataType; 0 where the op or an attr is unknown. A reference is 100 more."""
        dtypes = self.node.output_dtypes
        return dtypes[self.index] if dtypes is not None and self.index < len(dtypes) else 0


class Unlocated(Enum):
    """The record of a node that nobody has asked for yet."""

    UNLOCATED = 0


UNLOCATED = Unlocated.UNLOCATED


class Node:
    """A node of a graph. Nodes compare by identity; a graph makes one for each name, when it is asked for.

    A node may also stand for a name that no record has (a dangling input): `exists` is False, and all that can be
    done with it is to refer to it.

    Nothing is set on a node directly: the graph's methods change it, so that the tables of consumers keep up.
    """

    __slots__ = (
        "_attrs",
        "_colocated",
        "_controls",
        "_header",
        "_inputs",
        "_record",
        "base_name",
        "device_override",
        "graph",
        "name",
        "op_override",
    )

    def __init__(self, graph: Graph, name: str, record: Record | Unlocated | None, *, base_name: str | None) -> None:
        self.graph = graph
        self.name = name
        self.base_name = base_name
        """The name in the file that the graph was loaded from; None for a node that an edit has added."""
        self._record = record
        self.op_override: str | None = None
        self.device_override: str | None = None
        self._header: Header | None = None
        self._inputs: tuple[Output, ...] | None = None
        self._controls: tuple[Node, ...] | None = None
        self._colocated: tuple[Node, ...] | None = None
        self._attrs: dict[str, bytes | None] = {}

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def record(self) -> Record | None:
        """Where the node's bytes are; for a copied node in the source of another graph. None: nowhere."""
        record = self._record
        if record is UNLOCATED:
            assert self.base_name is not None
            record = self._record = self.graph.locate(self.base_name)
        return record

    @property
    def exists(self) -> bool:
        """Whether there is a node behind the name."""
        return self.record is not None or (self.base_name is None and self.op_override is not None)

    @property
    def header(self) -> Header:
        """The header as the record has it. Raises InputError where there is no record."""
        if self._header is None:
            if self.record is None:
                raise InputError(f"{quoted(self.graph.source_name)} has no node {quoted(self.name)}")
            self._header = self.record.header()
        return self._header

    def share_header(self, original: Node) -> None:
        """Takes over the header of a node of which this is a copy. Only the graph calls this."""
        self._header = original._header

    @property
    def is_plain_copy(self) -> bool:
        """Whether the op and attrs are those of the record, and there are as many data inputs as it has."""
        if self.record is None or self._attrs or self.op_override is not None:
            return False
        count = sum(text[:1] != "^" for text in self.header.inputs)
        return self._inputs is None or len(self._inputs) == count

    @property
    def changed_attrs(self) -> Mapping[str, bytes | None]:
        """The attrs that are not those of the record, serialised; None: removed."""
        return self._attrs

    @property
    def op(self) -> str:
        """The op."""
        if self.op_override is not None:
            return self.op_override
        return self._header.op if self._header is not None else self.header.op

    @property
    def device(self) -> str:
        """The device string, '' where none is asked for."""
        if self.device_override is not None:
            return self.device_override
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

    def _resolve_inputs(self) -> None:
        data: list[Output] = []
        controls: list[Node] = []
        for text in self.header.inputs if self.record is not None else ():
            ref = parse_input(text)
            if ref is None:
                raise InputError(f"node {quoted(self.name)} has an input {quoted(text)}, which is no tensor's name")
            node = self.graph.base_node(ref.node)
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
        """Whether the inputs are held as nodes, and no longer as the record spells them."""
        return self._inputs is not None

    @property
    def is_rebuilt(self) -> bool:
        """Whether more of the node was changed than names: its inputs, attrs or op, or it is new."""
        return self._inputs is not None or bool(self._attrs) or self.base_name is None or self.op_override is not None

    @property
    def colocated(self) -> tuple[Node, ...]:
        """The nodes with which this one is colocated (``loc:@`` entries of its ``_class`` attr)."""
        if self._colocated is None:
            data = self.attr_bytes(COLOCATION_ATTR)
            names = colocated_names(data) if data else []
            self._colocated = tuple(self.graph.base_node(name) for name in names)
        return self._colocated

    @property
    def output(self) -> Output:
        """Output 0."""
        return Output(self, 0)

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
        """Whether the node has the attr KEY."""
        if key in self._attrs:
            return self._attrs[key] is not None
        return self.record is not None and key in self.header.attrs

    def attr_bytes(self, key: str) -> bytes | None:
        """The serialised AttrValue of attr KEY, or None."""
        if key in self._attrs:
            return self._attrs[key]
        if self.record is None or key not in self.header.attrs:
            return None
        start, end = self.header.attrs[key]
        return self.record.source.read(self.record.body + start, end - start)

    def attr(self, key: str) -> Any:
        """The AttrValue message of attr KEY (a copy), or None. Raises InputError where it cannot be decoded."""
        data = self.attr_bytes(key)
        if data is None:
            return None
        try:
            return attr_value(data)
        except decode_error():
            raise InputError(f"attr {quoted(key)} of node {quoted(self.name)} is corrupt") from None

    def plain_attr(self, key: str) -> Any:
        """The value of attr KEY where it is of a plain kind (int, bool, type, ..., or a list of them), or None."""
        value = self.attr(key)
        return None if value is None else plain(value)

    @property
    def op_def(self) -> OpDef | None:
        """The signature of the op, from TensorFlow or from the graph's functions; None where it is unknown."""
        return self.graph.op_def(self.op)

    @property
    def output_dtypes(self) -> list[int] | None:
        """The DataTypes of the outputs, or None where the op is unknown."""
        definition = self.op_def
        return None if definition is None else arg_dtypes(definition.outputs, definition, self.plain_attr)

    @property
    def output_count(self) -> int | None:
        """How many outputs there are, or None where the op is unknown."""
        definition = self.op_def
        return None if definition is None else arg_count(definition.outputs, definition, self.plain_attr)

    @property
    def input_dtypes(self) -> list[int] | None:
        """The DataTypes that the data inputs must have, or None where the op is unknown."""
        definition = self.op_def
        return None if definition is None else arg_dtypes(definition.inputs, definition, self.plain_attr)

    # -- writing: called by the graph ---------------------------------------------------------------------

    def assign(
        self,
        *,
        inputs: Iterable[Output] | None = None,
        controls: Iterable[Node] | None = None,
        colocated: Iterable[Node] | None = None,
    ) -> None:
        """Sets what is given. Only the graph calls this."""
        if inputs is not None:
            self._inputs = tuple(inputs)
        if controls is not None:
            self._controls = tuple(controls)
        if colocated is not None:
            self._colocated = tuple(colocated)

    def assign_attr(self, key: str, value: bytes | None) -> None:
        """Sets or (None) removes an attr. Only the graph calls this."""
        self._attrs[key] = value

    def pieces(self) -> list[Piece]:
        """The NodeDef as it is now: fresh bytes, and spans of the record's body counted from its beginning."""
        if self.record is None:
            attrs = {key: value for key, value in self._attrs.items() if value is not None}
            colocation = self._colocation_attr()
            if colocation:
                attrs[COLOCATION_ATTR] = colocation
            return [encode_node(self.name, self.op, self._spelt_inputs(), self.device, attrs)]
        attrs_now: dict[str, bytes | None] = dict(self._attrs)
        if self._colocated or COLOCATION_ATTR in self.header.attrs:
            now, before = self._colocation_attr(), self.attr_bytes(COLOCATION_ATTR)
            if now != before:
                attrs_now[COLOCATION_ATTR] = now
        resolved = self._inputs is not None
        changes = Changes(
            name=self.name,
            op=self.op_override,
            device=self.device_override,
            inputs=tuple(self._spelt_inputs()) if resolved else None,
            rename_input=None if resolved else self.graph.spell_base_input,
            attrs=attrs_now,
        )
        return patched(self.record.buffer(), 0, self.record.end - self.record.body, changes)

    def node_def(self) -> Any:
        """The node as a NodeDef message; its weights are read. Raises InputError where it cannot be decoded."""
        parts: list[bytes] = []
        for piece in self.pieces():
            if isinstance(piece, bytes):
                parts.append(piece)
            else:
                assert self.record is not None
                parts.append(self.record.source.read(self.record.body + piece.start, piece.end - piece.start))
        try:
            return message("tensorflow.NodeDef").FromString(b"".join(parts))
        except decode_error():
            raise InputError(f"node {quoted(self.name)} is corrupt") from None

    def _spelt_inputs(self) -> list[str]:
        spelt = [output.name for output in self.inputs]
        for i, text in enumerate(self.header.inputs if self.base_name is not None else ()):
            # An input that is what it was keeps its spelling, also where that is with a needless ":0".
            if text.endswith(":0") and i < len(spelt) and spelt[i] == self.graph.spell_base_name(text[:-2]):
                spelt[i] += ":0"
        spelt += ["^" + node.name for node in self.controls]
        return spelt

    def _colocation_attr(self) -> bytes | None:
        """The ``_class`` attr with the names as they are now; other entries than ``loc:@`` stay."""
        data = self.attr_bytes(COLOCATION_ATTR)
        entries: list[bytes] = []
        if data:
            try:
                entries = list(message("tensorflow.AttrValue").FromString(data).list.s)
            except decode_error():
                return data
        if self._colocated is not None:
            names = iter([node.name for node in self._colocated])
        else:
            spell = self.graph.spell_base_name
            names = iter([spell(name) for name in colocated_names(data)] if data else [])
        out: list[bytes] = []
        for entry in entries:
            if not entry.startswith(COLOCATION):
                out.append(entry)
            elif (name := next(names, None)) is not None:
                out.append(COLOCATION + name.encode("utf-8", "surrogateescape"))
        out.extend(COLOCATION + name.encode("utf-8", "surrogateescape") for name in names)
        if out == entries:
            return data
        if not out:
            return None
        value = message("tensorflow.AttrValue")()
        value.list.s.extend(out)
        return bytes(value.SerializeToString())


def check_output(output: Output) -> None:
    """Raises EditError where the node is not there, or has no such output as far as is known."""
    node = output.node
    if not node.exists:
        raise EditError(f"there is no node {quoted(node.name)}")
    dtypes = node.output_dtypes
    if dtypes is not None and output.index >= len(dtypes):
        count = f"{len(dtypes)} output{'s' if len(dtypes) != 1 else ''}"
        raise EditError(f"{quoted(output.name)}: node {quoted(node.name)} ({printable(node.op)}) has {count}")


def same_dtype(a: int, b: int) -> bool:
    """Whether DataTypes fit: unknown ones (0) fit all, and a reference can be read as its value."""
    return not a or not b or base_dtype(a) == base_dtype(b)
