"""Checks the function library: what a loader would crash on, recursion first of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gdsurgeon.analysis.checks.bodies import Kinds, check_body
from gdsurgeon.errors import quoted
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.protos import FunctionDef


def check_functions(library: FunctionLibrary) -> Iterator[str]:
    """The faults of the library, a sentence each."""
    counts = Counter(function.signature.name for function in library)
    for name, count in counts.items():
        if count > 1:
            yield f"there are {count} functions named {quoted(name)}"
        if op_def(name) is not None:
            yield f"function {quoted(name)} has the name of a TensorFlow op"
    calls: dict[str, tuple[str, ...]] = {}
    kinds = Kinds(library)
    for function in library:
        name = function.signature.name
        yield from _check_signature(function)
        yield from check_body(function, kinds)
        called = library.calls(name)
        for callee in called:
            if callee not in counts:
                yield f"function {quoted(name)} calls {quoted(callee)}, which the library has not"
        calls.setdefault(name, called)
    for gradient in library.gradients():
        for callee in (gradient.function_name, gradient.gradient_func):
            if callee not in counts and op_def(callee) is None:
                yield f"a gradient entry names the function {quoted(callee)}, which the library has not"
    yield from (f"functions call each other without end: {path}" for path in recursions(calls))


def unknown_ops(library: FunctionLibrary) -> dict[str, str]:
    """The ops inside functions that are neither known nor functions, each with a function that has it."""
    out: dict[str, str] = {}
    for function in library:
        for node in function.node_def:
            if node.op not in out and node.op not in library and op_def(node.op) is None:
                out[node.op] = function.signature.name
    return out


def _check_signature(function: FunctionDef) -> Iterator[str]:
    """Its names, and what it says that it returns."""
    signature = function.signature
    where = f"function {quoted(signature.name)}"
    if not signature.name:
        yield "a function has no name"
    for what, names in (
        ("input", [arg.name for arg in signature.input_arg]),
        ("output", [arg.name for arg in signature.output_arg]),
        ("attr", [attr.name for attr in signature.attr]),
        ("node", [node.name for node in function.node_def]),
    ):
        yield from (f"{where} has several {what}s named {quoted(n)}" for n, c in Counter(names).items() if c > 1)
    for arg in signature.output_arg:
        if arg.name not in function.ret:
            yield f"{where} has no ret for its output {quoted(arg.name)}"


def recursions(calls: Mapping[str, Iterable[str]]) -> Iterator[str]:
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
                yield " -> ".join(quoted(name) for name in [*path[path.index(callee) :], callee])
            elif callee in calls and callee not in state:
                state[callee] = 1
                path.append(callee)
                pending.append(iter(calls[callee]))
