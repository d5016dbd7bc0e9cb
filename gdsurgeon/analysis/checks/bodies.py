"""Checks the nodes of a function and what it returns: what TensorFlow finds when it makes a call ready.

A tensor is spelt ``node:arg:place`` there, and an argument of the function by its name. The name without a place stands
for all the tensors of an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

from gdsurgeon.analysis.checks.attrs import AttrFindings, check_node_attrs
from gdsurgeon.analysis.traversal.order import producers_first
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import plain
from gdsurgeon.graph.functions import FunctionLibrary, resolve_op
from gdsurgeon.graph.names import NAME_RULE, is_valid_name
from gdsurgeon.ops.dtypes import dtype_name, is_readable_as
from gdsurgeon.ops.kinds import MERGE, NEXT_ITERATION
from gdsurgeon.ops.op_defs import MOST_LISTED, Run, arg_runs
from gdsurgeon.wire.protos import ArgDef, FunctionDef, NodeDef

Tensors = tuple[Run, ...] | None
"""The tensors that a name stands for; None where that depends on the call, or is not known here."""


class Kind(NamedTuple):
    """What is to be said of all nodes that have the same op and the same attrs.

    Attributes:
        found: the findings on their attrs.
        outputs: the tensors of each output argument, by its name; None where the op says nothing of them.
    """

    found: AttrFindings
    outputs: dict[str, Tensors] | None


class Kinds:
    """The nodes of the functions of LIBRARY by op and attrs: each kind is looked at once."""

    _LARGE = 512
    """Bytes of attrs that are not worth remembering."""

    def __init__(self, library: FunctionLibrary) -> None:
        self._definition = cache(lambda op: resolve_op(op, library))
        self._known: dict[tuple[str, tuple[tuple[str, bytes], ...]], Kind] = {}

    def of(self, node: NodeDef) -> Kind:
        """The kind of NODE."""
        if node.ByteSize() > self._LARGE:
            return self._look(node)
        key = node.op, tuple((name, node.attr[name].SerializeToString()) for name in sorted(node.attr))
        if key not in self._known:
            self._known[key] = self._look(node)
        return self._known[key]

    def _look(self, node: NodeDef) -> Kind:
        definition = self._definition(node.op)
        found = check_node_attrs(definition, node)
        if definition is None or found.gives is None:
            return Kind(found, None)

        def read(key: str) -> object:
            return plain(node.attr[key]) if key in node.attr else None

        return Kind(found, {arg.name: tuple(arg_runs((arg,), definition, read)) for arg in definition.outputs})


def check_body(function: FunctionDef, kinds: Kinds) -> Iterator[str]:
    """The faults in the body of a function, a sentence each. Linear in its nodes and edges."""
    where = f"function {quoted(function.signature.name)}"
    body = _Body(function, kinds)
    for node, found in zip(function.node_def, body.found, strict=True):
        if not is_valid_name("." + node.name[1:] if node.name[:1] == "_" else node.name):  # one may lead, inside
            yield f"node {quoted(node.name)} of {where} has an illegal name: {NAME_RULE}"
        yield from (f"node {quoted(node.name)} of {where}: {fault}" for fault in found.faults)
        yield from (f"node {quoted(node.name)} of {where} {fault}" for fault in body.check_inputs(node, found))
    yield from (f"{what} of {where} {fault}" for what, fault in body.check_returns())
    if body.has_cycle():
        yield f"the nodes of {where} form a cycle outside a while loop"


class _Body:
    """A function, by the names that its nodes have for tensors."""

    def __init__(self, function: FunctionDef, kinds: Kinds) -> None:
        self._function = function
        self._kinds = kinds
        self._tensors: dict[str, Tensors] = {arg.name: _of_argument(arg) for arg in function.signature.input_arg}
        self._inside = set(self._tensors)
        self._listed: dict[str, list[int]] = {}  # the dtypes of tensors that are read one by one
        self._unknown: set[str] = set()  # nodes whose op says nothing of their outputs
        self.found = [self._enter(node) for node in function.node_def]

    def _enter(self, node: NodeDef) -> AttrFindings:
        """Looks at the attrs of NODE, and puts down what its outputs are called."""
        kind, name = self._kinds.of(node), node.name
        self._inside.add(name)
        if kind.outputs is None:
            self._unknown.add(name)
        elif not kind.outputs:
            self._tensors[name] = ()
        else:
            self._tensors.update((f"{name}:{arg}", tensors) for arg, tensors in kind.outputs.items())
        return kind.found

    def _named(self, text: str) -> tuple[bool, Tensors]:
        """Whether there is what an input or a ret names, and what that is."""
        if text in self._tensors:
            return True, self._tensors[text]
        name, _, place = text.rpartition(":")
        if text.split(":")[0] in self._unknown:
            return True, None
        if name not in self._tensors or not place.isdecimal():
            return False, None
        tensors = self._tensors[name]
        if tensors is None:
            return True, None
        if name not in self._listed:  # one restore op gives the values of all variables
            self._listed[name] = list(islice(_listed(tensors), MOST_LISTED))
        dtypes = self._listed[name]
        dtype = dtypes[int(place)] if int(place) < len(dtypes) else None
        return dtype is not None, None if dtype is None else ((dtype, 1),)

    def check_inputs(self, node: NodeDef, found: AttrFindings) -> Iterator[str]:
        """Whether there is what NODE reads, as many as its op takes, and of their dtypes."""
        given: list[int] | None = []
        is_late = has_control = False
        for text in node.input:
            if text[:1] == "^":
                has_control = True
                if text[1:] not in self._inside:
                    yield f"reads {quoted(text)}, which it has not"
                continue
            is_late = is_late or has_control
            is_there, tensors = self._named(text)
            if not is_there:
                yield f"reads {quoted(text)}, which it has not"
            if tensors is None:
                given = None
            elif given is not None:
                given.extend(_listed(tensors))
        if is_late:
            yield "has a control input before a data input"
        if given is None or found.takes is None:
            return
        wanted = list(_listed(found.takes))
        if len(given) != len(wanted):
            yield f"has {len(given)} data inputs, and {node.op} takes {len(wanted)}"
            return
        for slot, (takes, is_) in enumerate(zip(wanted, given, strict=True)):
            if not is_readable_as(is_, takes):
                yield f"({node.op}) takes {dtype_name(takes)} as input {slot}, and it reads {dtype_name(is_)}"

    def check_returns(self) -> Iterator[tuple[str, str]]:
        """Whether there is what the function returns, of the dtypes that it says: what is said before and behind it."""
        function = self._function
        stated = {arg.name: _of_argument(arg) for arg in function.signature.output_arg}
        for key, target in sorted(function.ret.items()):
            is_there, tensors = self._named(target)
            if not is_there:
                yield f"ret {quoted(key)}", f"names {quoted(target)}, which it has not"
            wanted = stated.get(key)
            if tensors is not None and wanted is not None and not _fit(tensors, wanted):
                yield f"ret {quoted(key)}", f"is to be {_told(wanted)}, and {quoted(target)} is {_told(tensors)}"
        for key, target in sorted(function.control_ret.items()):
            if target not in self._inside:
                yield f"control_ret {quoted(key)}", f"names {quoted(target)}, which it has not"

    def has_cycle(self) -> bool:
        """Whether nodes wait for each other, other than by way of a loop's next iteration."""
        nodes = self._function.node_def
        rows = {node.name: row for row, node in enumerate(nodes)}

        def producers(row: int) -> Iterator[int]:
            node = nodes[row]
            for name in {text.removeprefix("^").split(":")[0] for text in node.input} & rows.keys():
                if node.op not in MERGE or nodes[rows[name]].op not in NEXT_ITERATION:
                    yield rows[name]

        return len(producers_first(range(len(nodes)), len(nodes), producers)) < len(nodes)


def _of_argument(arg: ArgDef) -> Tensors:
    """The tensors that an argument or result of the function stands for."""
    if arg.number_attr or arg.type_list_attr:
        return None
    return ((arg.type, 1),)


def _listed(tensors: Iterable[Run]) -> Iterator[int]:
    """The DataTypes of the tensors one by one."""
    for dtype, count in tensors:
        for _ in range(min(count, MOST_LISTED)):
            yield dtype


def _fit(given: Iterable[Run], wanted: Iterable[Run]) -> bool:
    is_, to_be = list(_listed(given)), list(_listed(wanted))
    return len(is_) == len(to_be) and all(is_readable_as(a, b) for a, b in zip(is_, to_be, strict=True))


def _told(tensors: Iterable[Run]) -> str:
    return ", ".join(dtype_name(dtype) if dtype else "of a dtype" for dtype in _listed(tensors)) or "nothing"
