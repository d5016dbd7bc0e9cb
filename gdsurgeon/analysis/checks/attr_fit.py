"""Whether inputs still fit what they read when attrs of nodes change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gdsurgeon.errors import InputError, Remark, printable, quoted
from gdsurgeon.graph.attrs import plain
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.node import Node, Output, same_dtype
from gdsurgeon.ops.dtypes import dtype_name
from gdsurgeon.ops.op_defs import Arg, AttrReader, OpDef, arg_count, arg_dtypes
from gdsurgeon.text import counted
from gdsurgeon.wire.protos import AttrValue

AttrChanges = Mapping[Node, Mapping[str, AttrValue | None]]
"""For each node its new AttrValues, by key; None removes the attr."""


def misfits(changes: AttrChanges) -> list[Remark]:
    """Where, after CHANGES, an input and the output that it reads would differ in dtype or in number; a line each.

    What does not fit before and is not touched is no misfit of the changes: they may be one step of several that
    repair a graph. Linear in the inputs and consumers of the nodes.
    """
    before, after = _Typing({}), _Typing(changes)
    found: dict[Remark, None] = {}
    for node, attrs in changes.items():
        definition = node.op_def
        if definition is None:
            continue
        dtype = attrs.get("dtype")
        if node.op == "Const" and dtype is not None:
            wrong = list(_of_constant(node, dtype.type))
            found.update(dict.fromkeys(wrong))
            if wrong:
                continue
        for args, look in ((definition.inputs, _of_inputs), (definition.outputs, _of_outputs)):
            if _uses(args, attrs):
                negative = _of_counts(node, args, after.reader(node))
                found.update(dict.fromkeys(negative or look(node, definition, before, after)))
    return list(found)


def _uses(args: Iterable[Arg], keys: Iterable[str]) -> bool:
    """Whether the number or the dtypes of ARGS depend on one of the attrs KEYS."""
    names = set(keys)
    return any(names.intersection((arg.type_attr, arg.number_attr, arg.list_attr)) for arg in args)


class _Typing:
    """Dtypes of inputs and outputs as they would be after changes; each node's are worked out once."""

    def __init__(self, changes: AttrChanges) -> None:
        self._changes = changes
        self._inputs: dict[Node, list[int] | None] = {}
        self._outputs: dict[Node, list[int] | None] = {}

    def reader(self, node: Node) -> AttrReader:
        """Gives the plain values of the attrs of NODE; a corrupt one counts as absent."""
        attrs = self._changes.get(node, {})

        def read(key: str) -> object:
            try:
                value = attrs[key] if key in attrs else node.attr(key)
            except InputError:
                return None
            return None if value is None else plain(value)

        return read

    def inputs(self, node: Node) -> list[int] | None:
        """What the data inputs must have; None where the op is unknown."""
        if node not in self._inputs:
            definition = node.op_def
            self._inputs[node] = definition and arg_dtypes(definition.inputs, definition, self.reader(node))
        return self._inputs[node]

    def outputs(self, node: Node) -> list[int] | None:
        """What the outputs have; None where the op is unknown, or there is no node."""
        if node not in self._outputs:
            definition = node.op_def if node.exists else None
            self._outputs[node] = definition and arg_dtypes(definition.outputs, definition, self.reader(node))
        return self._outputs[node]

    def edge(self, user: Node, slot: int, source: Output) -> tuple[int, int]:
        """What data input SLOT of USER must have, and what SOURCE has; 0 where that is not known."""
        return _at(self.inputs(user), slot), _at(self.outputs(source.node), source.index)


def _at(dtypes: list[int] | None, index: int) -> int:
    return dtypes[index] if dtypes is not None and index < len(dtypes) else 0


def _of_counts(node: Node, args: Iterable[Arg], read: AttrReader) -> list[Remark]:
    """The counts of tensors that are negative."""
    out = []
    for key in dict.fromkeys(arg.number_attr for arg in args if arg.number_attr):
        number = read(key)
        if isinstance(number, int) and number < 0:
            text = f"attr {quoted(key)} of {quoted(node.name)} is a number of tensors and cannot be {number}"
            out.append(Remark(text, "bad-value", node=node.name, attr=key, value=number))
    return out


def _of_inputs(node: Node, definition: OpDef, before: _Typing, after: _Typing) -> Iterator[Remark]:
    op, read = printable(node.op), after.reader(node)
    count = arg_count(definition.inputs, definition, read)
    if count != len(node.inputs):
        if arg_count(definition.inputs, definition, before.reader(node)) != count:
            has = f"but has {len(node.inputs):,}"
            text = f"{quoted(node.name)} ({op}) would require {counted(count, 'input')}, {has}"
            yield Remark(text, "wrong-count", node=node.name, expected=count, found=len(node.inputs))
        return
    for slot, source in enumerate(node.inputs):
        wanted, given = after.edge(node, slot, source)
        if not same_dtype(wanted, given) and (wanted, given) != before.edge(node, slot, source):
            text = f"{quoted(node.name)} ({op}) would require {dtype_name(wanted)} as input {slot}, "
            yield _mismatch(f"{text}but {quoted(source.name)} is {dtype_name(given)}", node, source, wanted, given)


def _of_outputs(node: Node, definition: OpDef, before: _Typing, after: _Typing) -> Iterator[Remark]:
    op, read = printable(node.op), after.reader(node)
    had = arg_count(definition.outputs, definition, before.reader(node))
    count = arg_count(definition.outputs, definition, read)
    for user in node.graph.users(node):
        for slot, source in enumerate(user.inputs):
            if source.node is not node:
                continue
            if source.index >= count:
                if source.index < had:
                    has = f"would have {counted(count, 'output')}"
                    text = f"{quoted(node.name)} ({op}) {has}, but {quoted(user.name)} reads {quoted(source.name)}"
                    yield Remark(text, "no-such-tensor", node=user.name, tensor=source.name, count=count)
                continue
            wanted, given = after.edge(user, slot, source)
            if not same_dtype(wanted, given) and (wanted, given) != before.edge(user, slot, source):
                reads = f"{quoted(user.name)} ({printable(user.op)}) requires {dtype_name(wanted)}"
                text = f"{quoted(source.name)} ({op}) would be {dtype_name(given)}, but {reads}"
                yield _mismatch(text, user, source, wanted, given)


def _mismatch(text: str, node: Node, source: Output, wanted: int, given: int) -> Remark:
    """The line TEXT that NODE would read SOURCE as the DataType WANTED, and SOURCE would be GIVEN."""
    facts = {"node": node.name, "tensor": source.name, "expected": dtype_name(wanted), "found": dtype_name(given)}
    return Remark(text, "dtype-mismatch", **facts)


def _of_constant(node: Node, dtype: int) -> Iterator[Remark]:
    header = constant_header(node)
    if header is not None and header.dtype != dtype:
        what = f"the tensor of {quoted(node.name)} is {dtype_name(header.dtype)}"
        text = f"{what}, and the edit would not convert it to {dtype_name(dtype)}"
        yield Remark(text, "dtype-mismatch", node=node.name, expected=dtype_name(dtype), found=dtype_name(header.dtype))
