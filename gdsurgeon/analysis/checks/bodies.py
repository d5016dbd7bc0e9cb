"""Checks the nodes of a function and what it returns: what TensorFlow finds when it makes a call ready.

A tensor is spelt ``node:arg:place`` there, and an argument of the function by its name. The name without a place stands
for all the tensors of an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import NamedTuple

from gdsurgeon.analysis.checks.attrs import AttrChecks, AttrFindings
from gdsurgeon.analysis.traversal.order import producers_first
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.attrs import attr_value, plain
from gdsurgeon.graph.functions import FunctionLibrary, nodes_of, resolve_op
from gdsurgeon.graph.names import NAME_RULE, is_valid_name
from gdsurgeon.ops.dtypes import dtype_name, is_dtype, is_readable_as
from gdsurgeon.ops.kinds import MERGE, NEXT_ITERATION
from gdsurgeon.ops.op_defs import MOST_LISTED, Run, arg_runs
from gdsurgeon.wire.node_record import read_header
from gdsurgeon.wire.protos import ArgDef, FunctionDef

Tensors = tuple[Run, ...] | None
"""The tensors that a name stands for; None where that depends on the call, or is not known here."""


class Kind(NamedTuple):
    """The findings about all nodes that are equal except for their names and inputs.

    Attributes:
        op: their op.
        is_known: whether that is an op, or a function of the library.
        calls: the functions that they call or pass on.
        found: the findings on their attrs.
        outputs: the tensors of each output argument, by its name; None where the op says nothing of them.
        single: of the arguments that are one tensor each, how it is spelt behind a node's name, and its dtype, a byte.
        wanted: the dtypes of what they read, a byte for each; None where these are not known, or too many.
    """

    op: str
    is_known: bool
    calls: tuple[str, ...]
    found: AttrFindings
    outputs: dict[str, Tensors] | None
    single: tuple[tuple[str, bytes], ...]
    wanted: bytes | None


class Kinds:
    """The kinds of the nodes in the functions of LIBRARY."""

    def __init__(self, library: FunctionLibrary) -> None:
        self._library = library
        self._definition = cache(lambda op: resolve_op(op, library))
        self._attrs = AttrChecks(in_function=True)

    def of(self, form: bytes) -> Kind:
        """The kind of the nodes of FORM."""
        header = read_header(form, 0, len(form))
        op, definition = header.op, self._definition(header.op)
        found = self._attrs.findings(definition, op, form, header.attrs).on(header.device)
        calls = (*found.functions, op) if op in self._library else found.functions
        if definition is None or found.gives is None:
            return Kind(op, definition is not None, calls, found, None, (), _bytes(found.takes))

        def read(key: str) -> object:
            return plain(attr_value(form[slice(*header.attrs[key])])) if key in header.attrs else None

        outputs: dict[str, Tensors] = {a.name: tuple(arg_runs((a,), definition, read)) for a in definition.outputs}
        dtypes = ((f":{arg}:0", _bytes(tensors) or b"") for arg, tensors in outputs.items())
        single = tuple((spelt, dtype) for spelt, dtype in dtypes if len(dtype) == 1)
        return Kind(op, True, calls, found, outputs, single, _bytes(found.takes))


class Body:
    """The nodes of a function and what it returns, by the names that it has for tensors.

    Attributes:
        names: of the nodes.
        kinds: the known kinds.
    """

    def __init__(self, function: FunctionDef, kinds: Kinds) -> None:
        self._function = function
        self._name = function.signature.name
        self._where = f"function {quoted(self._name)}"
        self.names, self._inputs, forms, self._kind_of = nodes_of(function)
        self.kinds = list(map(kinds.of, forms))
        self._tensors: dict[str, Tensors] = {arg.name: _of_argument(arg) for arg in function.signature.input_arg}
        self._inside = set(self._tensors)
        self._listed: dict[str, list[int]] = {}  # the dtypes of tensors that are read one by one
        self._unknown: set[str] = set()  # nodes whose op says nothing of their outputs

    def faults(self) -> Iterator[Remark]:
        """What is wrong, a sentence each. Linear in nodes and edges."""
        suspects = self._suspects()
        for row in suspects:
            name = self.names[row]
            where = {"function": self._name, "node": name}
            what = f"node {quoted(name)} of {self._where}"
            if not _is_valid(name):
                yield Remark(f"{what} has an illegal name: {NAME_RULE}", "bad-name", **where)
            kind = self.kinds[self._kind_of[row]]
            for fault in kind.found.faults:
                yield Remark(f"{what}: {fault}", fault.code, **where, **fault.facts)
            for fault in self._check_inputs(self._inputs[row], kind):
                yield Remark(f"{what} {fault}", fault.code, **where, **fault.facts)
        yield from self._check_returns()
        if suspects and self._has_cycle(suspects[0]):
            text = f"the nodes of {self._where} form a cycle outside a while loop"
            yield Remark(text, "cycle", function=self._name)

    def _suspects(self) -> Sequence[int]:
        """Returns the nodes that may have a fault, ascending.

        Of the others the name is legal and there but once, the attrs are as they should be, and what they read is what
        their op takes, and stands before them: none before the first suspect is on a cycle.
        """
        rows = range(len(self.names))
        nodes = [self.kinds[number] for number in self._kind_of]
        names = {*self._tensors, *self.names}
        if len(names) < len(self._tensors) + len(rows) or not all(map(_is_valid, names)):
            for name, kind in zip(self.names, nodes, strict=True):
                self._enter(name, kind)
            return rows
        read, out = _Read(self), []
        for row, name, inputs, kind in zip(rows, self.names, self._inputs, nodes, strict=True):
            if b"".join(map(read.__getitem__, inputs)).rstrip(_CONTROL) != kind.wanted or kind.found.faults:
                out.append(row)
            self._enter(name, kind)
            for spelt, dtype in kind.single:
                read[name + spelt] = dtype
        return out

    def _enter(self, name: str, kind: Kind) -> None:
        """Puts down what the outputs of the node NAME are called."""
        self._inside.add(name)
        if kind.outputs is None:
            self._unknown.add(name)
        elif not kind.outputs:
            self._tensors[name] = ()
        else:
            for arg, tensors in kind.outputs.items():
                self._tensors[f"{name}:{arg}"] = tensors

    def read(self, text: str) -> bytes:
        """What an input spelt TEXT reads of the nodes so far: its dtypes, `_CONTROL`, or something else."""
        if text[:1] == "^":
            return _CONTROL if text[1:] in self._inside else _ODD
        is_there, tensors = self._named(text)
        return (_bytes(tensors) or _ODD) if is_there else _ODD

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

    def _check_inputs(self, inputs: Sequence[str], kind: Kind) -> Iterator[Remark]:
        """Whether there are the INPUTS of a node, as many as its op takes, and of their dtypes."""
        given: list[int] | None = []
        is_late = has_control = False
        for text in inputs:
            if text[:1] == "^":
                has_control = True
                if text[1:] not in self._inside:
                    yield Remark(
                        f"reads {quoted(text)}, which the function does not have", "no-such-tensor", tensor=text
                    )
                continue
            is_late = is_late or has_control
            is_there, tensors = self._named(text)
            if not is_there:
                yield Remark(f"reads {quoted(text)}, which the function does not have", "no-such-tensor", tensor=text)
            if tensors is None:
                given = None
            elif given is not None:
                given.extend(_listed(tensors))
        if is_late:
            yield Remark("has a control input before a data input", "out-of-order")
        if given is None or kind.found.takes is None:
            return
        wanted = list(_listed(kind.found.takes))
        if len(given) != len(wanted):
            text = f"has {len(given)} data inputs, but {kind.op} requires {len(wanted)}"
            yield Remark(text, "wrong-count", expected=len(wanted), found=len(given))
            return
        for slot, (takes, is_) in enumerate(zip(wanted, given, strict=True)):
            if not is_readable_as(is_, takes):
                text = f"({kind.op}) requires {dtype_name(takes)} as input {slot}, but reads {dtype_name(is_)}"
                yield Remark(text, "dtype-mismatch", expected=dtype_name(takes), found=dtype_name(is_))

    def _check_returns(self) -> Iterator[Remark]:
        """Whether there is what the function returns, of the dtypes that it says."""
        function = self._function
        stated = {arg.name: _of_argument(arg) for arg in function.signature.output_arg}
        for key, target in sorted(function.ret.items()):
            ret = f"ret {quoted(key)} of {self._where}"
            facts = {"function": self._name, "output": key, "tensor": target}
            is_there, tensors = self._named(target)
            if not is_there:
                yield Remark(
                    f"{ret} refers to {quoted(target)}, which does not exist in the function", "no-such-tensor", **facts
                )
            wanted = stated.get(key)
            if tensors is not None and wanted is not None and not _fit(tensors, wanted):
                text = f"{ret} must be {_told(wanted)}, but {quoted(target)} is {_told(tensors)}"
                yield Remark(text, "dtype-mismatch", **facts, expected=_told(wanted), found=_told(tensors))
        for key, target in sorted(function.control_ret.items()):
            if target not in self._inside:
                text = (
                    f"control_ret {quoted(key)} of {self._where} refers to {quoted(target)}, which does "
                    "not exist in the function"
                )
                yield Remark(text, "no-such-node", function=self._name, output=key, node=target)

    def _has_cycle(self, first: int) -> bool:
        """Whether nodes from row FIRST on wait for each other, other than by way of a loop's next iteration."""
        rows = {name: row for row, name in enumerate(self.names) if row >= first}
        ops = [self.kinds[number].op for number in self._kind_of]

        def producers(row: int) -> Iterator[int]:
            for name in {text.removeprefix("^").split(":")[0] for text in self._inputs[row]} & rows.keys():
                if ops[row] not in MERGE or ops[rows[name]] not in NEXT_ITERATION:
                    yield rows[name]

        return len(producers_first(range(first, len(ops)), len(ops), producers)) < len(ops) - first


class _Read(dict[str, bytes]):
    """The tensors that inputs of `body` read, by spelling, if such a tensor exists."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self._body = body

    def __missing__(self, text: str) -> bytes:
        found = self._body.read(text)
        if found != _ODD:
            self[text] = found
        return found


_CONTROL, _ODD = b"\xff", b"\xfe"
"""Among the dtypes of what a node reads: a control input, and what is not there, not known, or many tensors."""


def _is_valid(name: str) -> bool:
    """Whether a node in a function may have NAME: there it may begin with an underscore."""
    return is_valid_name("." + name[1:] if name[:1] == "_" else name)


@lru_cache
def _bytes(tensors: Tensors) -> bytes | None:
    """Returns the DataTypes of `tensors`, one byte each; None if they are unknown, too many, or invalid."""
    if tensors is None or sum(count for _, count in tensors) > _MANY:
        return None
    return bytes(_listed(tensors)) if all(map(is_dtype, dict(tensors))) else None


_MANY = 1 << 10
"""Tensors of one node that are looked at one by one."""


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
