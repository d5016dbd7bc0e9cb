"""Checks the attrs of one node against the signature of its op, and its constant tensor against its shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, takewhile
from operator import mul
from typing import NamedTuple

from gdsurgeon.errors import Remark, printable, quoted
from gdsurgeon.graph.attrs import (
    functions_in,
    is_too_deeply_nested,
    kinds_in,
    plain,
)
from gdsurgeon.graph.constants import MOST_ELEMENTS, TENSOR, TensorHeader, read_tensor_header
from gdsurgeon.graph.index import colocated_names
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import COLOCATION_ATTR, STATED_SHAPES
from gdsurgeon.ops.op_defs import Arg, AttrDef, OpDef, Run, arg_runs
from gdsurgeon.text import listed
from gdsurgeon.wire.fields import LEN, Buffer, WireError, read_field
from gdsurgeon.wire.node_record import Header
from gdsurgeon.wire.protos import AttrValue, decode_error

MOST_TENSORS = (1 << 31) - 1

LIST, TEXT = 1, 2
"""Field numbers of a list and a string in an AttrValue, and of a string in a list."""
_TEXT_TAG = TEXT << 3 | LEN
_DEVICE = (
    r"/|(?:/job:(?:\*|[A-Za-z][A-Za-z0-9_]*)|/(?:replica|task):(?:\*|[0-9]+)"
    r"|/device:(?:\*|[A-Za-z][A-Za-z0-9_]*)(?::(?:\*|[0-9]+))?|/(?:cpu|CPU|gpu|GPU):(?:\*|[0-9]+))*"
)
_LARGEST = 2**64 - 1
"""The largest number in a device string."""


class AttrFindings(NamedTuple):
    """The findings about the attrs and the device of a node.

    Attributes:
        takes, gives: the tensors that the op requires and returns; None if the op is unknown, or an attr that
            determines them is faulty.
        faults: sentences without the name of the node, with the attr as a fact.
        warnings: the same.
        colocated: names that the node is colocated with.
        functions: names of functions in the attrs.
        removed_in: the version of GraphDefs in which the op was removed; 0 if it was not removed.
        is_defined: whether the op is known.
    """

    takes: tuple[Run, ...] | None = None
    gives: tuple[Run, ...] | None = None
    faults: tuple[Remark, ...] = ()
    warnings: tuple[Remark, ...] = ()
    colocated: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    removed_in: int = 0
    is_defined: bool = False

    @property
    def inputs(self) -> int:
        """The number of tensors that the op requires; -1 if it is unknown."""
        return _count(self.takes)

    @property
    def outputs(self) -> int:
        """The number of tensors that the op returns; -1 if it is unknown."""
        return _count(self.gives)

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to note about the node."""
        return self.takes is not None and not any(self[2:-1])


@lru_cache
def _count(runs: tuple[Run, ...] | None) -> int:
    # A larger number is a fault of the file, and must fit into a column.
    return -1 if runs is None else min(sum(count for _, count in runs), MOST_TENSORS)


class AttrChecks:
    """Checks the attrs of nodes; equal nodes are checked once.

    The content of a string attr is ignored, unless the op allows only some texts.

    Args:
        define: returns the signature of an op, or None.
        in_function: whether the nodes are in a function, so that an attr can refer to an attr of the function.
    """

    _LARGE = 512
    """The largest size in bytes of attrs whose findings are kept."""
    _MOST = 20_000
    """The number of kept findings; with more, all are dropped, because then nodes are rarely equal."""

    def __init__(self, define: Callable[[str], OpDef | None], *, in_function: bool = False) -> None:
        self._define, self._in_function = define, in_function
        self._known: dict[tuple[object, ...], AttrFindings] = {}

    def findings(self, header: Header, buf: Buffer) -> AttrFindings:
        """Returns the findings about the node with `header` in `buf`; large tensors are not read."""
        found = self._without_colocations(header, buf)
        if COLOCATION_ATTR not in header.attrs:
            return found
        return found._replace(colocated=tuple(colocated_names(buf[slice(*header.attrs[COLOCATION_ATTR])])))

    def _without_colocations(self, header: Header, buf: Buffer) -> AttrFindings:
        definition = self._define(header.op)
        if len(buf) > self._LARGE:
            return self._check(definition, header, buf)
        attrs = {} if definition is None else definition.attrs
        limited = {key for key in header.attrs if key in attrs and attrs[key].texts}
        values = [
            buf[start:end] if key in limited else _checked_part(buf, start, end)
            for key, (start, end) in header.attrs.items()
        ]
        same = header.op, header.device, tuple(zip(header.attrs, values, strict=True))
        found = self._known.get(same)
        if found is None:
            found = self._check(definition, header, buf)
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[same] = found
        return found

    def _check(self, definition: OpDef | None, header: Header, buf: Buffer) -> AttrFindings:
        check = _Check(definition, header.op, in_function=self._in_function)
        for key, (start, end) in header.attrs.items():
            check.read(key, buf, start, end)
        found = check.findings(header.attrs)
        if is_device(header.device):
            return found
        text = (
            f"device {quoted(header.device)} is not valid: a device looks like "
            "/job:worker/task:0/device:GPU:0, or a part of it"
        )
        return found._replace(faults=(*found.faults, Remark(text, "bad-device", device=header.device)))


def _checked_part(buf: Buffer, start: int, end: int) -> object:
    """Returns the part of an AttrValue that is checked: the header of a tensor, else all.

    None for a short string, 1 for a list of one short string.
    """
    size = end - start
    if 1 < size < 130 and buf[start + 1] == size - 2:
        if buf[start] == _TEXT_TAG:
            return None
        if size > 3 and buf[start] == LIST << 3 | LEN and buf[start + 2] == _TEXT_TAG and buf[start + 3] == size - 4:
            return 1
    try:
        return _tensor_header(buf, start, end) or buf[start:end]
    except WireError:
        return buf[start:end]


def check_values(definition: OpDef, attrs: Mapping[str, bytes], keys: Collection[str] | None = None) -> list[Remark]:
    """Returns the faults of some attrs of a node, which may be in a function: serialized AttrValues, by key.

    With `keys`, the attrs that the node has, attrs that are missing are faults as well.
    """
    check = _Check(definition, definition.name, in_function=True)
    for key, data in attrs.items():
        check.read(key, data, 0, len(data))
    if keys is not None:
        check.require(definition, keys)
    return check.faults


class _Check:
    """Collects the findings about the attrs of a node."""

    def __init__(self, definition: OpDef | None, op: str, *, in_function: bool = False) -> None:
        self._definition = definition
        self._op = printable(op)
        self._in_function = in_function
        self._open: set[str] = set()  # the attrs that each call sets
        self.faults: list[Remark] = []
        self._warnings: list[Remark] = []
        self._functions: list[str] = []
        self._values: dict[str, AttrValue] = {}
        self._tensors: dict[str, TensorHeader] = {}
        self._faulty: set[str] = set()

    def read(self, key: str, buf: Buffer, start: int, end: int) -> None:
        """Checks the attr whose AttrValue is in the bytes `start` to `end` of `buf`."""
        try:
            header = _tensor_header(buf, start, end)
            value = AttrValue() if header is not None else AttrValue.FromString(buf[start:end])
            if value.HasField("tensor"):  # next to other fields
                data = value.tensor.SerializeToString()
                header = read_tensor_header(data, 0, len(data))
        except (WireError, decode_error()):
            what = "too deeply nested" if is_too_deeply_nested(buf[start:end]) else "corrupt"
            self._fault(Remark(f"attr {quoted(key)} is {what}", "corrupt", attr=key))
            return
        if header is not None:
            self._add_tensor(key, header)
        else:
            self._add_value(key, value, value.WhichOneof("value"))

    def _add_value(self, key: str, value: AttrValue, which: str | None) -> None:
        self._values[key] = value
        if which in ("func", "list"):
            self._functions.extend(func.name for func in functions_in(value))
        wanted = self._wanted(key)
        faults: Iterable[Remark] = ()
        if wanted is None:
            if self._definition is None:  # attrs unknown to an op are not read
                faults = _wrong_values(key, value, which)
        elif which == "placeholder":
            self._open.add(key)
            if not self._in_function:
                text = f"attr {quoted(key)} refers to an attr of a function, but the node is not in a function"
                faults = [Remark(text, "no-such-function", attr=key)]
        elif kinds_in(value) != (wanted.kind,) or which in _CHECKED or wanted.is_limited:
            faults = _misfits(self._op, wanted, value, which)
        for fault in faults:
            self._fault(fault)

    def require(self, definition: OpDef, keys: Collection[str]) -> None:
        """Checks that the node has all attrs without a default; `keys` are the attrs that it has."""
        for attr in definition.attrs.values():
            if not attr.has_default and attr.name not in keys:
                text = f"{self._op} requires an attr {quoted(attr.name)} ({attr.kind}), which is missing"
                self._fault(Remark(text, "no-such-attr", attr=attr.name))

    def findings(self, keys: Collection[str]) -> AttrFindings:
        """Returns the findings; `keys` are the present attrs, including unreadable ones."""
        definition = self._definition
        takes = gives = None
        if definition is not None:
            self.require(definition, keys)
            if self._op == "Const":
                self._compare_dtypes()
            takes, gives = self._tensors_of(definition.inputs), self._tensors_of(definition.outputs)
            if not self._in_function:
                self._compare_shapes(_count(gives))
        removed_in = definition.removed_in if definition is not None else 0
        findings = tuple(self.faults), tuple(self._warnings), (), tuple(self._functions)
        return AttrFindings(takes, gives, *findings, removed_in, definition is not None)

    def _fault(self, fault: Remark) -> None:
        self._faulty.add(str(fault.facts["attr"]))
        self.faults.append(fault)

    def _add_tensor(self, key: str, header: TensorHeader) -> None:
        self._tensors[key] = header
        code, wrong = _wrong_tensor(header)
        if code:
            self._fault(Remark(f"the tensor in attr {quoted(key)} has {wrong}", code, attr=key))
        wanted = self._wanted(key)
        if wanted is not None and wanted.kind != "tensor":
            text = f"attr {quoted(key)} is a tensor, but {self._op} requires {wanted.kind}"
            self._fault(Remark(text, "bad-value", attr=key, expected=wanted.kind, found="tensor"))

    def _wanted(self, key: str) -> AttrDef | None:
        """Returns the definition of the attr `key` of the op. Attrs that begin with an underscore belong to no op."""
        if self._definition is None:
            return None
        wanted = self._definition.attrs.get(key)
        if wanted is None and not key.startswith("_"):
            text = f"{self._definition.name} has no attr {quoted(key)}"
            self._warnings.append(Remark(text, "no-such-attr", attr=key, op=self._definition.name))
        return wanted

    def _compare_dtypes(self) -> None:
        """Checks that the dtype attr of a Const equals the dtype of its tensor, if both are stated."""
        if {"value", "dtype"} & (self._faulty | self._open):
            return
        said, is_ = self._values["dtype"].type, self._tensors["value"].dtype
        if said != is_:
            wanted, found = dtypes.dtype_name(said), dtypes.dtype_name(is_)
            text = f"its dtype attr is {wanted}, but its tensor is {found}"
            self._fault(Remark(text, "dtype-mismatch", attr="value", expected=wanted, found=found))

    def _compare_shapes(self, outputs: int) -> None:
        """Checks that a node which states the shapes of its outputs states one for each output."""
        value = self._values.get(STATED_SHAPES)
        if value is not None and kinds_in(value) in ((), ("list()",), ("list(shape)",)):
            shapes = len(value.list.shape)
            if shapes < outputs:
                text = f"it has {outputs} outputs, but {shapes} {STATED_SHAPES}"
                self._fault(Remark(text, "wrong-count", attr=STATED_SHAPES, expected=outputs, found=shapes))

    def _tensors_of(self, args: tuple[Arg, ...]) -> tuple[Run, ...] | None:
        unsure = self._faulty | self._open
        if unsure and any(arg.number_attr in unsure or arg.list_attr in unsure for arg in args):
            return None
        runs = arg_runs(args, self._definition, self._plain)
        return tuple((dtype if dtypes.is_dtype(dtype) else 0, count) for dtype, count in runs)

    def _plain(self, key: str) -> object:
        return plain(self._values[key]) if key in self._values and key not in self._faulty else None


def _tensor_header(buf: Buffer, start: int, end: int) -> TensorHeader | None:
    """Returns the header of the tensor in an AttrValue, or None if the AttrValue is not exactly one tensor."""
    if start == end or buf[start] != TENSOR << 3 | LEN:
        return None
    field = read_field(buf, start, end)
    return read_tensor_header(buf, field.value, field.end) if field.end == end else None


_CHECKED = ("type", "shape", "list")
"""Kinds of AttrValues that may hold an invalid value."""


def _misfits(op: str, wanted: AttrDef, value: AttrValue, which: str | None) -> Iterator[Remark]:
    """Yields the findings about a value, of kind `which`, that does not have the required kind, or is not allowed."""
    kinds = kinds_in(value)
    # Old files have no value if the list is empty.
    is_empty_list = wanted.kind.startswith("list(") and kinds in ((), ("list()",))
    if not is_empty_list and kinds != (wanted.kind,):
        what = " and ".join(kinds) or "without a value"
        text = f"attr {quoted(wanted.name)} is {what}, but {op} requires {wanted.kind}"
        yield Remark(text, "bad-value", attr=wanted.name, expected=wanted.kind, found=list(kinds))
        return
    yield from _wrong_values(wanted.name, value, which, wanted)
    if wanted.minimum is not None:
        length = sum(len(items) for _, items in value.list.ListFields())
        number = value.i if wanted.kind == "int" else length
        if number < wanted.minimum:
            has = str(number) if wanted.kind == "int" else f"a list of {number}"
            text = f"attr {quoted(wanted.name)} is {has}, but at least {wanted.minimum} is required"
            yield Remark(text, "bad-value", attr=wanted.name, expected=wanted.minimum, found=number)
    for item in ([value.s] if which == "s" else value.list.s) if wanted.texts else ():
        found = item.decode("utf-8", "surrogateescape")
        if found not in wanted.texts:
            text = f"attr {quoted(wanted.name)} is {quoted(found)}, but must be one of {listed(wanted.texts, 20)}"
            yield Remark(text, "bad-value", attr=wanted.name, found=found)


def _wrong_values(key: str, value: AttrValue, which: str | None, wanted: AttrDef | None = None) -> Iterator[Remark]:
    """Yields findings about DataTypes and shapes that do not exist, or that the definition `wanted` does not allow."""
    for dtype in [value.type] if which == "type" else value.list.type if which == "list" else ():
        name = dtypes.dtype_name(dtype)
        if not dtypes.is_dtype(dtype):
            text = f"attr {quoted(key)} is DataType {dtype}, which does not exist"
            yield Remark(text, "bad-value", attr=key, found=dtype)
        elif wanted is not None and dtype > dtypes.REF:
            text = f"attr {quoted(key)} is {name}, but an attr cannot be a reference"
            yield Remark(text, "bad-value", attr=key, dtype=name)
        elif wanted is not None and wanted.allowed and dtype not in wanted.allowed:
            allowed = listed(map(dtypes.dtype_name, wanted.allowed), 20)
            yield Remark(
                f"attr {quoted(key)} is {name}, but must be one of {allowed}", "bad-value", attr=key, found=name
            )
    for shape in [value.shape] if which == "shape" else value.list.shape if which == "list" else ():
        if fault := _wrong_dims([dim.size for dim in shape.dim], -1):
            yield Remark(f"attr {quoted(key)} is a shape with {fault}", "bad-value", attr=key)


def _wrong_dims(dims: Sequence[int], least: int) -> str:
    """Returns the fault of the dims of a shape, which must be at least `least`, or ''."""
    if len(dims) > dtypes.MOST_DIMS:
        return f"{len(dims)} dimensions; at most {dtypes.MOST_DIMS} are allowed"
    if min(dims, default=0) < least:
        return f"the dimension {min(dims)}"
    known = takewhile(lambda dim: dim >= 0, dims)  # TensorFlow does not count the dims after an unknown one
    return "more than 2^63 elements" if max(accumulate(known, mul), default=0) >= MOST_ELEMENTS else ""


def _wrong_tensor(header: TensorHeader) -> tuple[str, str]:
    """Returns the code and the text of the fault of a tensor; both are '' if the tensor is valid."""
    if not dtypes.is_dtype(header.dtype):
        return "bad-value", f"DataType {header.dtype}, which does not exist"
    if header.dims is None:
        return "bad-value", "an unknown rank"
    if fault := _wrong_dims(header.dims, 0):
        return "bad-value", fault
    elements = header.elements
    size = dtypes.element_size(header.dtype)
    if header.content_bytes and size and header.content_bytes != elements * size:
        shape = f"{dtypes.dtype_name(header.dtype)} {list(header.dims)}"
        return "wrong-count", f"{header.content_bytes:,} bytes of content, but {shape} requires {elements * size:,}"
    if not header.has_texts:
        return "corrupt", f"a tensor_content that does not hold {elements:,} strings"
    if header.values > elements:
        return "wrong-count", f"{header.values:,} values, but its shape {list(header.dims)} requires {elements:,}"
    return "", ""


def is_device(text: str) -> bool:
    """Returns whether TensorFlow accepts `text` as the device string of a node; '' means any device.

    The grammar is that of ParseFullName in device_name_utils.cc: stricter than `parse_device`, which is for users.
    """
    if not text:
        return True
    numbers = (part.rpartition(":")[2] for part in text.split("/"))
    return re.fullmatch(_DEVICE, text) is not None and all(int(n) <= _LARGEST for n in numbers if n.isdecimal())
