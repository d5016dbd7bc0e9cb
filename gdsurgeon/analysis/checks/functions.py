"""Checks the function library for faults that crash a loader, such as recursion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gdsurgeon.analysis.checks.bodies import Body, Kinds
from gdsurgeon.analysis.checks.findings import Findings
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.protos import FunctionDef


def check_functions(library: FunctionLibrary, findings: Findings) -> None:
    """Notes what is wrong with the functions of LIBRARY, and which ops in them are not known."""
    counts = Counter(function.signature.name for function in library)
    for name, count in counts.items():
        if count > 1:
            text = f"{count} functions have the name {quoted(name)}"
            findings.fault(text, "name-taken", function=name, count=count)
        if op_def(name) is not None:
            findings.fault(f"function {quoted(name)} has the name of a TensorFlow op", "name-taken", function=name)
    calls: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    kinds = Kinds(library)
    for function in library:
        name, body = function.signature.name, Body(function, kinds)
        for fault in (*_check_signature(function, body.names), *body.faults()):
            findings.add(fault)
        called = list(dict.fromkeys(callee for kind in body.kinds for callee in kind.calls))
        for callee in called:
            if callee not in counts:
                text = f"function {quoted(name)} calls {quoted(callee)}, which the library does not have"
                findings.fault(text, "no-such-function", function=name, name=callee)
        calls.setdefault(name, called)
        for kind in body.kinds:
            if not kind.is_known:
                unknown.setdefault(kind.op, name)
    for gradient in library.gradients():
        for callee in (gradient.function_name, gradient.gradient_func):
            if callee not in counts and op_def(callee) is None:
                text = f"a gradient entry refers to the function {quoted(callee)}, which does not exist in the library"
                findings.fault(text, "no-such-function", name=callee)
    for path in recursions(calls):
        told = " -> ".join(map(quoted, path))
        findings.fault(f"functions call each other in an endless recursion: {told}", "recursion", functions=path)
    for op, name in unknown.items():
        text = f"op {quoted(op)} (function {quoted(name)}) is unknown in this version of TensorFlow"
        findings.warn(text, "missing-op", op=op, function=name)


def _check_signature(function: FunctionDef, nodes: Sequence[str]) -> Iterator[Remark]:
    """The names of its arguments and NODES, and what it says that it returns."""
    signature = function.signature
    name, where = signature.name, f"function {quoted(signature.name)}"
    if not name:
        yield Remark("a function has no name", "bad-name", function=name)
    for what, names in (
        ("input", [arg.name for arg in signature.input_arg]),
        ("output", [arg.name for arg in signature.output_arg]),
        ("attr", [attr.name for attr in signature.attr]),
        ("node", nodes),
    ):
        for doubled, count in Counter(names).items() if len(set(names)) < len(names) else ():
            if count > 1:
                text = f"{where} has several {what}s named {quoted(doubled)}"
                yield Remark(text, "name-taken", function=name, **{what: doubled})
    for arg in signature.output_arg:
        if arg.name not in function.ret:
            text = f"{where} has no ret for its output {quoted(arg.name)}"
            yield Remark(text, "no-such-output", function=name, output=arg.name)


def recursions(calls: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """The cycles of the call graph that a depth-first walk comes upon, as paths; never recurses itself."""
    state: dict[str, int] = {}  # 1: on the path, 2: done
    for start in calls:
        if start in state:
            continue
        path = [start]
        state[start] = 1
        pending = [iter(calls[start])]
        while pending:
            callee = next(pending[-1], None)
            if callee is None:
                state[path.pop()] = 2
                pending.pop()
            elif state.get(callee) == 1:
                yield [*path[path.index(callee) :], callee]
            elif callee in calls and callee not in state:
                state[callee] = 1
                path.append(callee)
                pending.append(iter(calls[callee]))
