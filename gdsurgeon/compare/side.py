"""Two graphs that are compared, as integers and labels."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from math import prod
from typing import NamedTuple

from gdsurgeon.analysis.checks.check import require_sound
from gdsurgeon.analysis.traversal.order import any_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import InputError, printable
from gdsurgeon.graph.attrs import attr_value, functions_in, plain, shape_of
from gdsurgeon.graph.constants import TENSOR, decode_tensor, read_tensor_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.records import forms_of
from gdsurgeon.ops.dtypes import BOOL, INT32, INT64, STRING
from gdsurgeon.ops.kinds import ASIDE, VARIABLE_READS, is_variable
from gdsurgeon.ops.op_defs import OpDef, op_def
from gdsurgeon.wire.fields import LEN, Buffer, WireError, fields
from gdsurgeon.wire.node_record import Header, read_header
from gdsurgeon.wire.protos import AttrValue, decode_error

SAME_BUT_NEWER: Mapping[str, str] = {
    "AddV2": "Add", "BatchMatMulV2": "BatchMatMul", "BatchMatMulV3": "BatchMatMul", "BiasAddV1": "BiasAdd",
    "ConcatV2": "Concat", "DivNoNan": "RealDiv", "FusedBatchNormV2": "FusedBatchNorm",
    "FusedBatchNormV3": "FusedBatchNorm", "GatherV2": "Gather", "MatrixSetDiagV3": "MatrixSetDiag",
    "NonMaxSuppressionV2": "NonMaxSuppression", "NonMaxSuppressionV3": "NonMaxSuppression",
    "NonMaxSuppressionV4": "NonMaxSuppression", "NonMaxSuppressionV5": "NonMaxSuppression", "PadV2": "Pad",
    "PlaceholderV2": "Placeholder", "ReverseV2": "Reverse", "SelectV2": "Select", "TopKV2": "TopK",
}  # fmt: skip
"""Ops that different releases write for the same computation, with the oldest version of each."""

STRUCTURAL = frozenset(
    """
    DstT N SrcT axis begin_mask data_format dtype ellipsis_mask end_mask k ksize method mode new_axis_mask num_split
    out_type padding shrink_axis_mask strides transpose_a transpose_b
    """.split()
)
"""Attrs that define a layer. Other attrs depend on the version of TensorFlow."""

MOST_COUNTED = 8
"""Elements of integer and string constants that count as structure (axes, sizes, permutations), not as weights."""
_COUNTED = frozenset((BOOL, INT32, INT64, STRING))
_SMALL, _PIECE = 1 << 10, 1 << 22
_PASSES = VARIABLE_READS | {"PreventGradient", "Snapshot", "StopGradient"}
"""Ops that some exporters add after a constant or a variable: a consumer of such an op reads the constant."""

Read = tuple[int, int]
"""A node, and the index of the output that is read."""


# -- forms -----------------------------------------------------------------------------------------------------


class Tensor(NamedTuple):
    """A constant's value without its elements; `shape` is None if the rank is unknown."""

    dtype: int
    shape: tuple[int, ...] | None


class Form(NamedTuple):
    """The form of a node without its name and edges, read once for all equal nodes.

    Attributes:
        op: the op.
        device: the device of the node, or ''.
        attrs: serialized AttrValues by key, without `ASIDE`, functions, default values, `tensor` and constant values.
        functions: the functions that each of the other attrs names.
        tensor: of a constant or a variable; None for other nodes, or if it cannot be read.
        content: equal for equal nodes, including attrs and values.
        structure: equal for nodes that differ only in trained values and in attrs that depend on the version.
        kind: the oldest version of the op.
        is_trained: whether it is a constant of several elements that is not structure.
        value: of a small constant the serialized AttrValue.
    """

    op: str
    device: str
    attrs: Mapping[str, bytes]
    functions: Mapping[str, tuple[str, ...]]
    tensor: Tensor | None
    content: Hashable
    structure: Hashable
    kind: str
    is_trained: bool = False
    value: bytes = b""


def _form(header: Header, data: Buffer) -> Form:
    """Returns the form of the node in `data`. Raises WireError."""
    if header.op == "Const":
        return _constant(header, data)
    definition = op_def(header.op)
    attrs: dict[str, bytes] = {}
    functions: dict[str, tuple[str, ...]] = {}
    structure: list[Hashable] = [kind := SAME_BUT_NEWER.get(header.op, header.op)]
    for key, (start, end) in sorted(header.attrs.items()):
        raw = bytes(data[start:end])
        try:
            value = attr_value(raw)
        except decode_error():
            attrs[key] = raw
            continue
        named = tuple(func.name for func in functions_in(value))
        if named:
            functions[key] = named
        elif key not in ASIDE and not _is_default(definition, key, value):
            attrs[key] = raw
            if key in STRUCTURAL:
                structure.append((key, raw))
    if not is_variable(header.op):
        content = (header.op, tuple(attrs.items()), tuple(functions))
        return Form(header.op, header.device, attrs, functions, None, content, tuple(structure), kind)
    try:
        dtype, shape = (attr_value(bytes(data[slice(*header.attrs.get(key, (0, 0)))])) for key in ("dtype", "shape"))
        tensor = Tensor(dtype.type, shape_of(shape.shape))
        attrs = {key: raw for key, raw in attrs.items() if key not in ("dtype", "shape")}
    except decode_error():
        tensor = None
    label = (header.op, tensor)
    return Form(header.op, header.device, attrs, {}, tensor, label, label, header.op)


def _is_default(definition: OpDef | None, key: str, value: AttrValue) -> bool:
    if definition is None or key not in definition.attrs or not definition.attrs[key].has_default:
        return False
    default, given = definition.attrs[key].default, plain(value)
    if isinstance(default, str) and isinstance(given, bytes):
        return default.encode() == given
    return default is not None and given is not None and given == default


def _constant(header: Header, data: Buffer) -> Form:
    attrs = {
        k: bytes(data[s:e]) for k, (s, e) in header.attrs.items() if k not in ASIDE and k not in ("value", "dtype")
    }
    start, end = header.attrs.get("value", (0, 0))
    tensor = _tensor(data, start, end)
    small = bytes(data[start:end]) if end - start <= _SMALL else b""
    counted: Hashable = None
    if small and tensor is not None and tensor.dtype in _COUNTED and prod(tensor.shape or ()) <= MOST_COUNTED:
        elements = decode_tensor(attr_value(small).tensor)
        counted = None if elements is None else tuple(elements.values)
    value = counted if counted is not None else _digest(data, start, end)
    is_trained = counted is None and tensor is not None and prod(tensor.shape or ()) > 1
    content, structure = ("Const", tuple(sorted(attrs.items())), tensor, value), ("Const", tensor, counted)
    return Form("Const", header.device, attrs, {}, tensor, content, structure, "Const", is_trained, small)


def _tensor(data: Buffer, start: int, end: int) -> Tensor | None:
    """Returns dtype and shape of the tensor in the AttrValue from `start` to `end`; None if it is corrupt."""
    if end - start <= _SMALL:
        try:
            value = attr_value(bytes(data[start:end]))
        except decode_error():
            return None
        return Tensor(value.tensor.dtype, shape_of(value.tensor.tensor_shape)) if value.HasField("tensor") else None
    try:
        for field in fields(data, start, end):
            if field.number == TENSOR and field.wire_type == LEN:
                header = read_tensor_header(data, field.value, field.end)
                return Tensor(header.dtype, header.dims)
    except WireError:
        pass  # it is compared as bytes
    return None


def _digest(data: Buffer, start: int, end: int) -> bytes:
    """Returns the bytes, or their hash if there are more than 32."""
    if end - start <= 32:
        return bytes(data[start:end])
    digest = hashlib.blake2b(digest_size=16)
    for at in range(start, end, _PIECE):
        digest.update(data[at : min(at + _PIECE, end)])
    return digest.digest()


def forms_in(graph: Graph) -> list[Form]:
    """Returns the form of each node of `graph`, in the order of its file. Raises InputError if the file is corrupt."""
    known: dict[bytes, Form] = {}
    out: list[Form] = []
    try:
        for form in forms_of(graph.source):
            if isinstance(form, bytes):
                if form not in known:
                    known[form] = _form(read_header(form), form)
                out.append(known[form])
            else:
                out.append(_form(form.header(), form.buffer()))
    except WireError as error:
        raise InputError(f"{printable(graph.source_name)} is corrupt: {error.reason}") from None
    return out


# -- sides -----------------------------------------------------------------------------------------------------


class Interner(dict[Hashable, int]):
    """Assigns a small number to each key; equal keys have the same number."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class _Sparse(dict[int, Sequence[int]]):
    """Nodes by a node; most nodes have none."""

    def __missing__(self, node: int) -> Sequence[int]:
        return ()


class Side:
    """One of two graphs that are compared, as integers, as it is in its file.

    Args:
        graph: the graph.
        frozen: whether variables are treated as the constants of a frozen graph.

    Attributes:
        graph: the graph.
        names: the name of each node.
        forms: the form of each node.
        written: the data inputs of each node.
        inputs: the same, but consumers of a node in `passed` read its constant instead, and nodes in `passed` have no
            inputs. A node with only control inputs reads output -1 of each.
        controls, waiting: the control inputs and control outputs of each node.
        users: the consumers of each node, see `uses`: (consumer, its input, the output that it reads), in one tuple.
        order: the nodes, producers first.
        passed: the nodes that only forward a constant, with the constant.
        is_constant: whether each node is a constant (or, if `frozen`, a variable).
        inner: the nodes that are neither constants nor in `passed`, producers first.
        content, structure, kind: a number for each node, from these fields of its form; `sides` sets them.
        detailed, shaped: a number for each node, from its content or structure and those of its constants.

    Raises:
        InputError: the graph is corrupt, or its edges are invalid.
    """

    content: list[int]
    structure: list[int]
    kind: list[int]
    detailed: list[int]
    shaped: list[int]

    def __init__(self, graph: Graph, *, frozen: bool = False) -> None:
        self.graph = graph
        topology = topology_of(graph)
        table = topology.table
        self.names = table.names
        self.size = len(self.names)
        self._check(len(topology.gone) or len(table.unresolved) or len(table.rows) != self.size)
        self.forms = forms_in(graph)
        if frozen:
            constants = {
                id(form): form._replace(structure=("Const", form.tensor, None), kind="Const")
                for form in self.forms
                if is_variable(form.op)
            }
            self.forms = [constants.get(id(form), form) for form in self.forms]
        self.order = any_order(topology)
        self._check(len(self.order) != self.size)
        self._read_edges(table)
        self.inner = [n for n in self.order if not self.is_constant[n] and n not in self.passed]

    def _check(self, is_broken: object) -> None:
        if is_broken:
            require_sound(self.graph)
            raise InputError(f"{printable(self.graph.source_name)} has an input that does not exist")

    def _read_edges(self, table: Table) -> None:
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        # Equal numbers and pairs are one object, which saves a third of the memory of large graphs.
        numbers = list(range(self.size))
        known: dict[int, Read] = {}
        for code in table.edges:
            if code not in known:
                known[code] = numbers[code >> bits], code & control
        reads = list(map(known.__getitem__, table.edges))
        del known
        self.written = [tuple(reads[start:end]) for start, end in pairwise(table.offsets)]
        self.controls, self.waiting = _Sparse(), _Sparse()
        waiting: dict[int, list[int]] = defaultdict(list)
        for number in {table.reader(at) for at in table.odd_edges if reads[at][1] == control}:
            self.controls[number] = producers = [producer for producer, port in self.written[number] if port == control]
            self.written[number] = tuple([read for read in self.written[number] if read[1] != control])
            for producer in producers:
                waiting[producer].append(number)
        self.waiting.update(waiting)
        self.inputs = list(self.written)
        for number, controls in self.controls.items():
            if not self.written[number]:
                self.inputs[number] = tuple([(producer, -1) for producer in controls])
        self.is_constant = bytearray(form.kind == "Const" for form in self.forms)
        self.passed: dict[int, int] = {}
        for number in self.order:
            source = self.written[number]
            if self.forms[number].op in _PASSES and len(source) == 1 and not self.controls[number]:
                constant = self.passed.get(source[0][0], source[0][0])
                if self.is_constant[constant]:
                    self.passed[number] = constant
        if passed := self.passed:
            for number, found in enumerate(self.inputs):
                if any(producer in passed for producer, _ in found):
                    self.inputs[number] = tuple([(passed.get(producer, producer), port) for producer, port in found])
            for number in passed:
                self.inputs[number] = ()
        users: list[list[int]] = [[] for _ in numbers]
        for number, found in zip(numbers, self.inputs, strict=True):
            for slot, (producer, port) in enumerate(found):
                users[producer] += (number, slot, port)
        self.users = list(map(tuple, users))

    def uses(self, node: int) -> Iterator[tuple[int, int, int]]:
        """Returns an iterator over the uses of `node`: a consumer, its input, and the output that it reads."""
        found = iter(self.users[node])
        return zip(found, found, found, strict=False)

    def count_uses(self, node: int) -> int:
        """Returns the number of inputs that read `node`."""
        return len(self.users[node]) // 3

    @cached_property
    def served(self) -> dict[tuple[str, str, str], int]:
        """The nodes whose tensors signatures name, by signature, ``inputs`` or ``outputs``, and the name in it."""
        serving, rows = self.graph.serving, topology_of(self.graph).table.rows
        return {
            (key, side, name): row
            for key, signature in (serving.signatures if serving is not None else {}).items()
            for side, tensors in (("inputs", signature.inputs), ("outputs", signature.outputs))
            for name, tensor in tensors.items()
            if (row := rows.get(parse_tensor(tensor).node)) is not None
        }

    def labels(self, numbers: Interner, label: Callable[[Form], Hashable]) -> list[int]:
        """Returns a number for each node, from the `label` of its form."""
        found = {id(form): form for form in self.forms}
        numbered = {key: numbers[label(form)] for key, form in found.items()}
        return [numbered[id(form)] for form in self.forms]

    def with_constants(self, numbers: Interner, labels: list[int]) -> list[int]:
        """Returns a number for each node, from its label and those of the constants that it reads."""
        is_constant = self.is_constant
        return [
            numbers[label, tuple([labels[u] if is_constant[u] else -1 for u, _ in reads])]
            for label, reads in zip(labels, self.inputs, strict=True)
        ]


def sides(a: Graph, b: Graph, *, frozen: bool = False) -> tuple[Side, Side]:
    """Returns both graphs with their labels, which are equal for equal nodes of either graph."""
    both = Side(a, frozen=frozen), Side(b, frozen=frozen)
    content, structure, kind, detailed, shaped = (Interner() for _ in range(5))
    for side in both:
        inside, shaped_inside = _bodies(side.graph, values=True), _bodies(side.graph, values=False)
        side.content = side.labels(content, lambda form, inside=inside: (form.content, inside(form)))  # type: ignore[misc]
        side.structure = side.labels(structure, lambda form, inside=shaped_inside: (form.structure, inside(form)))  # type: ignore[misc]
        side.kind = side.labels(kind, lambda form: form.kind)
        side.detailed = side.with_constants(detailed, side.content)
        side.shaped = side.with_constants(shaped, side.structure)
    return both


def _bodies(graph: Graph, *, values: bool) -> Callable[[Form], Hashable]:
    """Returns a function from a form to the ops of the functions that it names, and their constants if `values`.

    Functions that these call are not included.
    """
    library = graph.functions

    @cache
    def body(name: str) -> Hashable:
        function = library.get(name)
        nodes = function.node_def if function is not None else ()
        constants = [node for node in nodes if values and node.op == "Const"]
        texts = sorted(node.attr["value"].SerializeToString(deterministic=True) for node in constants)
        return tuple(sorted(Counter(node.op for node in nodes).items())), tuple(texts)

    return lambda form: tuple(body(name) for names in form.functions.values() for name in names)
