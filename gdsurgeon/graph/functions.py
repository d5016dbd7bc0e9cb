"""The function library: carried through by span, decoded when somebody looks, extended by whole functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gdsurgeon.errors import InputError, printable
from gdsurgeon.graph.attrs import functions_in, is_too_deeply_nested
from gdsurgeon.graph.op_defs import Arg, AttrDef, OpDef, op_def
from gdsurgeon.wire.fields import LEN, Field, encode_len, encode_varint
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.scan import LIBRARY
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, SourceSpan


class FunctionLibrary:
    """The functions of a graph.

    Args:
        source: the graph's source.
        spans: its top-level library fields (protobuf allows several; they add up).
    """

    def __init__(self, source: Source, spans: list[Field]) -> None:
        self._source = source
        self._spans = spans
        self._decoded: dict[str, Any] | None = None
        self._all: list[Any] = []
        self._added: list[bytes] = []

    def __len__(self) -> int:
        return len(self._functions())

    def __contains__(self, name: str) -> bool:
        return bool(self._spans or self._added) and name in self._functions()

    def __iter__(self) -> Iterator[Any]:
        """The FunctionDef messages in file order, doubled names included."""
        self._functions()
        return iter(self._all)

    def get(self, name: str) -> Any:
        """The FunctionDef NAME, or None."""
        return self._functions().get(name) if self._spans or self._added else None

    def gradients(self) -> list[Any]:
        """The GradientDefs (function name, name of its gradient function)."""
        return [g for library in self._libraries() for g in library.gradient]

    def _libraries(self) -> list[Any]:
        out: list[Any] = []
        for span in self._spans:
            data = self._source.read(span.value, span.end - span.value)
            try:
                out.append(message("tensorflow.FunctionDefLibrary").FromString(data))
            except decode_error():
                nested = _nested_too_deep(data)
                what = "too deeply nested (function attrs inside function attrs)" if nested else "corrupt"
                raise InputError(f"the function library of {printable(self._source.name)} is {what}") from None
        return out

    def _functions(self) -> dict[str, Any]:
        if self._decoded is None:
            self._all = [f for library in self._libraries() for f in library.function]
            self._decoded = {}
            for function in self._all:
                self._decoded.setdefault(function.signature.name, function)
        return self._decoded

    def add(self, function: Any) -> None:
        """Adds a FunctionDef; its name must be free."""
        functions = self._functions()
        assert function.signature.name not in functions
        functions[function.signature.name] = function
        self._all.append(function)
        self._added.append(encode_len(1, function.SerializeToString(deterministic=True)))

    def add_gradient(self, gradient: Any) -> None:
        """Adds a GradientDef."""
        self._added.append(encode_len(2, gradient.SerializeToString(deterministic=True)))

    @property
    def is_changed(self) -> bool:
        """Whether functions were added."""
        return bool(self._added)

    def chunks_of(self, field: Field | None) -> list[Chunk]:
        """A library FIELD of the file as it is now; the added functions come with the last, or (None) on their own."""
        added = b"".join(self._added)
        if field is None:
            return [encode_len(LIBRARY, added)] if added else []
        if not added or field != self._spans[-1]:
            return [SourceSpan(self._source, field.start, field.end)]
        size = field.end - field.value + len(added)
        head = encode_varint(LIBRARY << 3 | LEN) + encode_varint(size)
        return [head, SourceSpan(self._source, field.value, field.end), added]


def called_functions(node: Any, library: FunctionLibrary) -> list[str]:
    """The functions that a NodeDef message calls or passes on: its op, and those named in its attrs."""
    called = [func.name for value in node.attr.values() for func in functions_in(value)]
    if node.op in library:
        called.append(node.op)
    return called


def function_op_def(function: Any) -> OpDef:
    """The signature of a library function, as that of an op."""
    signature = function.signature
    attrs = {a.name: AttrDef(a.name, a.type, a.HasField("default_value"), None) for a in signature.attr}
    return OpDef(
        signature.name,
        tuple(_arg(arg) for arg in signature.input_arg),
        tuple(_arg(arg) for arg in signature.output_arg),
        attrs,
        signature.is_stateful,
    )


def _arg(arg: Any) -> Arg:
    return Arg(arg.name, arg.type, arg.type_attr, arg.number_attr, arg.type_list_attr, arg.is_ref)


def resolve_op(name: str, library: FunctionLibrary) -> OpDef | None:
    """The signature of an op or of a library function of that name."""
    found = op_def(name)
    if found is None:
        function = library.get(name)
        if function is not None:
            return function_op_def(function)
    return found


def _nested_too_deep(data: bytes) -> bool:
    """Whether an attr inside a function nests too deeply; walks FunctionDef.node_def.attr by hand."""
    from gdsurgeon.wire.fields import WireError, fields

    paths = [(0, len(data), 0)]
    # FunctionDefLibrary.function, FunctionDef.node_def, NodeDef.attr, AttrEntry.value; and FunctionDef.attr.
    steps: tuple[tuple[int, ...], ...] = ((1,), (3, 5), (5, 2), (2,))
    try:
        while paths:
            start, end, depth = paths.pop()
            if depth == len(steps):
                if is_too_deeply_nested(data[start:end]):
                    return True
                continue
            for field in fields(data, start, end):
                if field.wire_type == LEN and field.number in steps[depth]:
                    paths.append((field.value, field.end, depth + 1))
    except WireError:
        return False
    return False
