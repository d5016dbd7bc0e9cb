"""Checks the attrs of one node against the signature of its op, and its constant tensor against its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import (
    functions_in,
    is_too_deeply_nested,
    kind_of,
    plain,
)
from gdsurgeon.graph.constants import MOST_DIMS, MOST_ELEMENTS, TENSOR, TensorHeader, read_tensor_header
from gdsurgeon.graph.index import COLOCATION_ATTR, colocated_names
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.op_defs import OpDef, arg_count
from gdsurgeon.wire.fields import LEN, Buffer, WireError, read_field
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.protos import AttrValue

MOST_TENSORS = (1 << 31) - 1

AttrSpans = Mapping[str, tuple[int, int]]


class AttrFindings(NamedTuple):
    """What the attrs of a node say.

    Attributes:
        inputs, outputs: how many tensors the op takes and gives; -1 where the op is unknown.
        faults: sentences without the node's name.
        warnings: likewise.
        colocated: names that the node is colocated with.
        functions: names of functions that the attrs pass on.
    """

    inputs: int
    outputs: int
    faults: tuple[str, ...]
    warnings: tuple[str, ...]
    colocated: tuple[str, ...]
    functions: tuple[str, ...]
    is_plain: bool
    """Whether there is nothing more to say of the node."""


def check_attrs(definition: OpDef | None, op: str, buf: Buffer, spans: AttrSpans) -> AttrFindings:
    """Checks the attrs whose AttrValues lie at SPANS of BUF; big tensors are not read."""
    faults: list[str] = []
    warnings: list[str] = []
    functions: list[str] = []
    colocated: list[str] = []
    values: dict[str, AttrValue] = {}
    tensors: dict[str, TensorHeader] = {}
    for key, (start, end) in spans.items():
        try:
            header = _tensor_header(buf, start, end)
        except WireError:
            faults.append(f"attr {quoted(key)} is corrupt")
            continue
        if header is not None:
            tensors[key] = header
            faults.extend(_check_tensor(key, header))
            if definition is not None and key in definition.attrs and definition.attrs[key].kind != "tensor":
                faults.append(f"attr {quoted(key)} is a tensor, and {op} wants {definition.attrs[key].kind}")
            elif definition is not None:
                _check_known(definition, key, "tensor", faults, warnings)
            continue
        data = buf[start:end]
        try:
            value = message("tensorflow.AttrValue").FromString(data)
        except decode_error():
            nested = is_too_deeply_nested(data)
            faults.append(f"attr {quoted(key)} is {'too deeply nested' if nested else 'corrupt'}")
            continue
        values[key] = value
        functions.extend(func.name for func in functions_in(value))
        if key == COLOCATION_ATTR:
            colocated.extend(colocated_names(data))
        _check_value(key, value, faults)
        if definition is not None:
            _check_known(definition, key, kind_of(value), faults, warnings)
    if definition is None:
        return AttrFindings(-1, -1, tuple(faults), tuple(warnings), tuple(colocated), tuple(functions), False)
    for attr in definition.attrs.values():
        if not attr.has_default and attr.name not in spans:
            faults.append(f"{op} needs an attr {quoted(attr.name)} ({attr.kind}), and it is missing")
    if op == "Const" and "value" in tensors and "dtype" in values and values["dtype"].type != tensors["value"].dtype:
        said, is_ = dtypes.dtype_name(values["dtype"].type), dtypes.dtype_name(tensors["value"].dtype)
        faults.append(f"its dtype attr says {said} and its tensor is {is_}")

    def read(name: str) -> object:
        return plain(values[name]) if name in values else None

    # Beyond any real node's: the number is a fault of the file, and must fit what it is kept in.
    inputs = min(arg_count(definition.inputs, definition, read), MOST_TENSORS)
    outputs = min(arg_count(definition.outputs, definition, read), MOST_TENSORS)
    plain_node = not (faults or warnings or colocated or functions)
    return AttrFindings(inputs, outputs, tuple(faults), tuple(warnings), tuple(colocated), tuple(functions), plain_node)


def _tensor_header(buf: Buffer, start: int, end: int) -> TensorHeader | None:
    """The header of the tensor where the AttrValue is one."""
    if start == end or buf[start] != TENSOR << 3 | LEN:
        return None
    field = read_field(buf, start, end)
    return read_tensor_header(buf, field.value, field.end)


def _check_known(definition: OpDef, key: str, kind: str, faults: list[str], warnings: list[str]) -> None:
    """Whether the op has an attr of that name and kind; what begins with an underscore is anybody's."""
    wanted = definition.attrs.get(key)
    if wanted is None:
        if not key.startswith("_"):
            warnings.append(f"{definition.name} has no attr {quoted(key)}")
        return
    if wanted.kind == kind or (kind == "list()" and wanted.kind.startswith("list(")):
        return
    if kind == "placeholder":
        return  # stands for an attr of the function around it
    faults.append(f"attr {quoted(key)} is {kind or 'without a value'}, and {definition.name} wants {wanted.kind}")


def _check_value(key: str, value: AttrValue, faults: list[str]) -> None:
    """DataTypes that are none, and shapes that cannot be."""
    kind = kind_of(value)
    for dtype in [value.type] if kind == "type" else value.list.type if kind == "list(type)" else ():
        if not dtypes.is_dtype(dtype):
            faults.append(f"attr {quoted(key)} is DataType {dtype}, which there is not")
    for shape in [value.shape] if kind == "shape" else value.list.shape if kind == "list(shape)" else ():
        dims = [dim.size for dim in shape.dim]
        if len(dims) > MOST_DIMS:
            faults.append(f"attr {quoted(key)} is a shape of {len(dims)} dimensions; {MOST_DIMS} are the most")
        elif min(dims, default=0) < -1:
            faults.append(f"attr {quoted(key)} is a shape with the dimension {min(dims)}")


def _check_tensor(key: str, header: TensorHeader) -> list[str]:
    """Whether a tensor's content is as long as its shape and dtype say."""
    where = f"the tensor in attr {quoted(key)}"
    if not dtypes.is_dtype(header.dtype):
        return [f"{where} has DataType {header.dtype}, which there is not"]
    if header.dims is None:
        return [f"{where} has an unknown rank"]
    if len(header.dims) > MOST_DIMS:
        return [f"{where} has {len(header.dims)} dimensions; {MOST_DIMS} are the most"]
    if min(header.dims, default=0) < 0:
        return [f"{where} has the dimension {min(header.dims)}"]
    elements = header.elements
    if elements >= MOST_ELEMENTS:
        return [f"{where} has a shape of more than 2^63 elements"]
    size = dtypes.element_size(header.dtype)
    if header.content_bytes and size and header.content_bytes != elements * size:
        shape = f"{dtypes.dtype_name(header.dtype)} {list(header.dims)}"
        return [f"{where} has {header.content_bytes:,} bytes of content, and {shape} takes {elements * size:,}"]
    if header.values > elements:
        return [f"{where} has {header.values:,} values, and its shape {list(header.dims)} takes {elements:,}"]
    return []
