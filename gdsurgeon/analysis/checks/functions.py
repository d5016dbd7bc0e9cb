"""Checks the function library for faults that TensorFlow finds when a call is prepared, and recursion.

The nodes of a function are checked like the nodes of a graph. In a function, a tensor is called ``node:arg:place``, and
an argument of the function by its name. The name without a place stands for all tensors of an argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from gdsurgeon.analysis.checks.attrs import AttrChecks
from gdsurgeon.analysis.checks.nodes import Findings, Look, NodeChecks
from gdsurgeon.analysis.traversal.order import producers_first
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.attrs import attr_value, plain
from gdsurgeon.graph.functions import FunctionLibrary, nodes_of, resolve_op
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.records import Batch, input_kind
from gdsurgeon.ops.dtypes import dtype_name, is_dtype, is_readable_as
from gdsurgeon.ops.kinds import MERGE, NEXT_ITERATION
from gdsurgeon.ops.op_defs import MOST_LISTED, OpDef, arg_count, op_def
from gdsurgeon.wire.node_record import Header, read_header
from gdsurgeon.wire.protos import FunctionDef
from gdsurgeon.wire.scan import Run
from gdsurgeon.wire.source import BytesSource

Inputs = tuple[str, ...] | None
"""The tensors that a name in a function refers to, as a graph names them; None if their number is unknown."""


def check_functions(library: FunctionLibrary, findings: Findings) -> None:
    """Adds the faults of the functions in `library` and their unknown ops."""
    counts = Counter(function.signature.name for function in library)
    for name, count in counts.items():
        if count > 1:
            text = f"{count} functions have the name {quoted(name)}"
            findings.fault(text, "name-taken", function=name, count=count)
        if op_def(name) is not None:
            findings.fault(f"function {quoted(name)} has the name of a TensorFlow op", "name-taken", function=name)
    calls: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    define = cache(lambda op: resolve_op(op, library))
    attrs = AttrChecks(define, in_function=True)
    for function in library:
        name, body = function.signature.name, _Body(function, attrs)
        for fault in _signature_faults(function):
            findings.add(fault)
        body.check(define, library)
        body.nodes.tell(findings)
        for fault in body.faults():
            findings.add(fault)
        called = dict.fromkeys((*body.nodes.functions, *(op for op in body.table.op_names if op in library)))
        for callee in called:
            if callee not in counts:
                text = f"function {quoted(name)} calls {quoted(callee)}, which the library does not have"
                findings.fault(text, "no-such-function", function=name, name=callee)
        calls.setdefault(name, list(called))
        for op in body.nodes.unknown:
            unknown.setdefault(op, name)
    for gradient in library.gradients():
        for callee in (gradient.function_name, gradient.gradient_func):
            if callee not in counts and op_def(callee) is None:
                text = f"a gradient entry refers to the function {quoted(callee)}, which does not exist in the library"
                findings.fault(text, "no-such-function", name=callee)
    for path in recursions(calls):
        shown = " -> ".join(map(quoted, path))
        findings.fault(f"functions call each other in an endless recursion: {shown}", "recursion", functions=path)
    for op, name in unknown.items():
        text = f"op {quoted(op)} (function {quoted(name)}) is unknown in this version of TensorFlow"
        findings.warn(text, "missing-op", op=op, function=name)


class _Body:
    """The nodes of a function as a table, after a row for each argument."""

    def __init__(self, function: FunctionDef, attrs: AttrChecks) -> None:
        self._function, self._name, self._attrs = function, function.signature.name, attrs
        self._where = f"function {quoted(self._name)}"
        self.table = Table(BytesSource(b"", self._where))
        self.nodes = NodeChecks(self.table, attrs, self._name)
        self._args = {arg.name: not (arg.number_attr or arg.type_list_attr) for arg in function.signature.input_arg}
        self._args_of: dict[str, dict[str, range] | None] = {}  # of each node, the outputs of each argument of its op
        self._inputs = _Inputs(self._resolved)
        self._missing: set[str] = set()  # inputs that do not exist in the function

    def check(self, define: Callable[[str], OpDef | None], library: FunctionLibrary) -> None:
        """Checks the nodes."""
        signature, rows = self._function.signature, nodes_of(self._function)
        headers = [read_header(form, 0, len(form)) for form in rows.forms]
        found = [self._attrs.findings(header, form) for header, form in zip(headers, rows.forms, strict=True)]
        outputs = [
            None if each.gives is None else _outputs(define(header.op), header, form)
            for header, form, each in zip(headers, rows.forms, found, strict=True)
        ]
        self._args_of = {name: outputs[form] for name, form in zip(rows.names, rows.form_of, strict=True)}
        looks: dict[tuple[int, bytes, bool], int] = {}  # numbered
        look_of: list[int] = []
        texts_of: list[list[str]] = [[] for _ in signature.input_arg]
        for form, inputs in zip(rows.form_of, rows.inputs, strict=True):
            named = [self._inputs[text] for text in inputs]
            texts = [text for tensors in named for text in tensors or ()]
            is_known = None not in named and self._missing.isdisjoint(inputs)
            if None in named:  # a control input stands for an unknown number of tensors
                texts += [self._control(text.partition(":")[0]) for text in inputs if self._inputs[text] is None]
            look = form, b"".join(map(input_kind, texts)), is_known
            look_of.append(looks.setdefault(look, len(looks)))
            texts_of.append(texts)
        names = [*(f" {arg.name}" for arg in signature.input_arg), *rows.names]
        forms = [len(headers)] * len(signature.input_arg) + rows.form_of
        ops = [*(header.op for header in headers), "_Arg"]
        if all(names) and not {":", "^"} & set("".join(names)):
            flat = [text for texts in texts_of for text in (*texts, "")]
            self.table.add(Batch(Run(0, b"", [0] * len(names)), names, flat, [], ops, forms))
        else:
            for name, form, texts in zip(names, forms, texts_of, strict=True):
                self.table.add_node(name, ops[form], texts)
        dtypes = [arg.type * (self._args[arg.name] and is_dtype(arg.type)) for arg in signature.input_arg]
        self.nodes.add_arguments(dtypes)
        self.table.close()
        open_ones = [each._replace(takes=None) for each in found]
        all_looks = [Look((found if is_known else open_ones)[form], kinds) for form, kinds, is_known in looks]
        self.nodes.add_nodes(rows.names, all_looks, look_of)
        self.nodes.finish(library, None)

    def _resolved(self, text: str) -> Inputs:
        """Returns the tensors that an input or a result stands for. A missing tensor gets a colon."""
        name, *parts = text.removeprefix("^").split(":")
        if text[:1] == "^":
            return (f"^:{text[1:]}" if parts else self._control(name),)
        if name in self._args and (not parts or (len(parts) == 1 and parts[0].isdecimal())):
            if not self._args[name]:
                return None
            if not parts or parts[0] == "0":
                return (f" {name}",)
        elif name in self._args_of and len(parts) in (1, 2):
            args = self._args_of[name]
            if args is None:
                return None
            places = args.get(parts[0], range(0))
            if len(parts) == 1 and (places or parts[0] in args):
                return tuple(format_input(name, place) for place in places) if len(places) <= MOST_LISTED else None
            if len(parts) == 2 and parts[1].isdecimal() and int(parts[1]) < len(places):
                return (format_input(name, places[int(parts[1])]),)
        self._missing.add(text)
        return (f":{text}",)

    def _control(self, name: str) -> str:
        if name in self._args_of:
            return f"^{name}"
        return f"^ {name}" if name in self._args else f"^:{name}"

    def faults(self) -> Iterator[Remark]:
        """Yields the faults of the results, and a cycle."""
        function = self._function
        stated = {arg.name: arg for arg in function.signature.output_arg}
        for key, target in sorted(function.ret.items()):
            inputs, arg = self._inputs[target], stated.get(key)
            codes = [self.table.code(text) for text in inputs or ()]
            facts = {"function": self._name, "output": key, "tensor": target}
            ret = f"ret {quoted(key)} of {self._where}"
            if None in codes:
                text = f"{ret} refers to {quoted(target)}, which does not exist in the function"
                yield Remark(text, "no-such-tensor", **facts)
            elif inputs is not None and arg is not None and not (arg.number_attr or arg.type_list_attr):
                dtypes = [self.nodes.dtype(code) for code in codes if code is not None]
                if len(dtypes) != 1 or not is_readable_as(dtypes[0], arg.type):
                    expected, found = _shown([arg.type]), _shown(dtypes)
                    text = f"{ret} must be {expected}, but {quoted(target)} is {found}"
                    yield Remark(text, "dtype-mismatch", **facts, expected=expected, found=found)
        for key, target in sorted(function.control_ret.items()):
            if target not in self._args_of and target not in self._args:
                text = f"control_ret {quoted(key)} of {self._where} refers to {quoted(target)}, which does not exist"
                facts = {"function": self._name, "output": key, "node": target}
                yield Remark(f"{text} in the function", "no-such-node", **facts)
        if self._has_cycle():
            text = f"the nodes of {self._where} form a cycle outside a while loop"
            yield Remark(text, "cycle", function=self._name)

    def _has_cycle(self) -> bool:
        table, count = self.table, len(self.table.names)

        def is_loop(producer: int, consumer: int) -> bool:
            return table.op(producer) in NEXT_ITERATION and table.op(consumer) in MERGE

        def producers(row: int) -> Iterator[int]:
            for producer in {code >> Table.PORT_BITS for code in table.inputs(row) if code >= 0}:
                if not is_loop(producer, row):
                    yield producer

        if all(is_loop(producer, consumer) for producer, consumer in table.forward_edges()):
            return False
        return len(producers_first(range(count), count, producers)) < count


class _Inputs(dict[str, Inputs]):
    """The results of a function by spelling, each computed once."""

    def __init__(self, resolve: Callable[[str], Inputs]) -> None:
        super().__init__()
        self._resolve = resolve

    def __missing__(self, text: str) -> Inputs:
        self[text] = found = self._resolve(text)
        return found


def _outputs(definition: OpDef | None, header: Header, form: bytes) -> dict[str, range] | None:
    """Returns the numbers of the outputs of each output argument of an op; None if the op is unknown."""
    if definition is None:
        return None

    def read(key: str) -> object:
        return plain(attr_value(form[slice(*header.attrs[key])])) if key in header.attrs else None

    out: dict[str, range] = {}
    first = 0
    for arg in definition.outputs:
        out[arg.name] = range(first, first + arg_count((arg,), definition, read))
        first = out[arg.name].stop
    return out


def _shown(dtypes: Sequence[int]) -> str:
    return ", ".join(dtype_name(dtype) if dtype else "of a dtype" for dtype in dtypes) or "nothing"


def _signature_faults(function: FunctionDef) -> Iterator[Remark]:
    """Yields repeated names in a function, and results that are missing."""
    signature = function.signature
    name, where = signature.name, f"function {quoted(signature.name)}"
    if not name:
        yield Remark("a function has no name", "bad-name", function=name)
    for what, names in (
        ("input", [arg.name for arg in signature.input_arg]),
        ("output", [arg.name for arg in signature.output_arg]),
        ("attr", [attr.name for attr in signature.attr]),
        ("node", [node.name for node in function.node_def]),
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
    """Yields the cycles of the call graph that a depth-first walk finds, as paths; never recurses itself."""
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
