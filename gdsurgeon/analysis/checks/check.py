"""The structural check: everything about a graph and its functions that TensorFlow would refuse or crash on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from gdsurgeon.analysis.checks.attrs import AttrChecks, check_values
from gdsurgeon.analysis.checks.nodes import NO_OUTPUT, Findings, Look, NodeChecks
from gdsurgeon.analysis.traversal.order import find_cycle, has_forward_edges, spelt_cycle
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import public
from gdsurgeon.errors import InputError, Remark, printable, quoted
from gdsurgeon.graph.attrs import attr_value, plain
from gdsurgeon.graph.functions import FunctionLibrary, nodes_of, resolve_op
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import END_OF_NODE, Table
from gdsurgeon.graph.journal import Journal
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import DEBUG_INFO, LIBRARY, VERSION, VERSIONS, Batch, Run, batches, distinct, scan
from gdsurgeon.ops.dtypes import dtype_name, is_dtype, is_readable_as
from gdsurgeon.ops.op_defs import MOST_LISTED, OpDef, arg_count, graph_def_version, op_def, table_version
from gdsurgeon.text import counted
from gdsurgeon.wire.fields import LEN, Field
from gdsurgeon.wire.node_record import Header, read_header
from gdsurgeon.wire.protos import FunctionDef, GraphDebugInfo, decode_error
from gdsurgeon.wire.source import BytesSource

MOST_NODES = 12
"""The maximum number of nodes of a cycle that are named."""


@public
def check(graph: Graph) -> Findings:
    """Finds the faults for which TensorFlow would refuse `graph` in its present state. Does not need TensorFlow.

    Raises:
        InputError: the file is corrupt.
    """
    return check_file(graph.written())


def check_file(graph: Graph) -> Findings:
    """Checks `graph` as stored in its file. Linear in nodes, edges and bytes of attrs; not recursive.

    Raises:
        InputError: the file is corrupt.
    """
    findings = Findings()
    store = graph.store
    table, is_new = (store.table, False) if store.has_table else (Table(graph.source), True)

    @cache
    def library() -> FunctionLibrary:
        """Returns the functions. A node that calls one needs its signature, which is after the nodes in a file."""
        if store.has_table:
            return graph.functions
        fields = (item for item in scan(graph.source) if isinstance(item, Field))
        spans = [field for field in fields if (field.number, field.wire_type) == (LIBRARY, LEN)]
        return FunctionLibrary(graph.source, spans, Journal())

    nodes = NodeChecks(table, AttrChecks(cache(lambda op: op_def(op) or resolve_op(op, library()))))
    for item in batches(graph.source, forms=True):
        if is_new:
            table.add(item)
        nodes.add(item)
    if is_new:
        table.close()
        store.table = table
    table.colocations = nodes.colocated
    if not table.names:
        findings.fault("it has no nodes", "no-nodes")
    _check_fields(graph, findings)
    nodes.finish(store.producer)
    nodes.tell(findings)
    _check_names(table, findings)
    _check_colocations(table, findings)
    check_functions(library(), findings)
    for function, row in nodes.functions.items():
        if function not in library():
            name = table.names[row]
            text = f"node {quoted(name)} calls the function {quoted(function)}, which the library does not have"
            findings.fault(text, "no-such-function", node=name, name=function)
    if not findings.fault_count and (cycle := _cycle_of(graph)) is not None:
        findings.fault(f"its nodes form a cycle outside a while loop: {cycle[0]}", "cycle", nodes=cycle[1])
    return findings


def refusals(graph: Graph, *, custom_ops: bool = False) -> list[Remark]:
    """Returns the reasons for which TensorFlow would refuse `graph`: its faults and, unless `custom_ops`, unknown ops.

    With `custom_ops`, a library that defines the unknown ops may be loaded.

    Raises:
        InputError: the file is corrupt.
    """
    found = check_file(graph)
    unknown = (line for line in found.warnings if isinstance(line, Remark) and line.code == "missing-op")
    return [*found.faults, *(() if custom_ops else unknown)]


def require_sound(graph: Graph, tolerated: str = "") -> Findings:
    """Checks `graph` with `check_file`, and refuses it if it has faults with a code other than `tolerated`.

    Raises:
        InputError: with all faults in its details.
    """
    findings = check_file(graph)
    if findings.counts.keys() - {tolerated}:
        raise findings.as_error(graph.source_name)
    return findings


def apply_repairs(graph: Graph, findings: Findings) -> bool:
    """Repairs nodes: rewrites those with control inputs before data inputs, and removes dangling colocations.

    Returns whether there were any.
    """
    table = graph.store.table
    for row in findings.reordered:
        graph.touch(graph.base_node(table.names[row]))
    for row in findings.dangling_colocations:
        node = graph.base_node(table.names[row])
        graph.set_colocated(node, [other for other in node.colocated if other.exists])
    return bool(findings.reordered or findings.dangling_colocations)


def check_edited(graph: Graph) -> list[Remark]:
    """Returns the faults that an edit has made: wrong or missing attrs, a wrong number of inputs, or wrong dtypes.

    Only changed and added nodes are checked.
    """
    faults: list[Remark] = []
    for node in graph.touched():
        is_plain = node.is_plain_copy
        if node.is_rebuilt and not (is_plain and node.base_name is None):
            # A plain copy has as many inputs as the original.
            wrong = [] if is_plain and _keeps_dtypes(graph.store.table, node) else input_faults(node)
            faults += [fault for fault in wrong if fault.code != "wrong-count" or not is_plain]
        definition = node.op_def if node.is_rebuilt and not is_plain else None
        if definition is None:
            continue
        keys = set(node.attr_keys)
        changed = {key: data for key in keys if (data := node.changed_attrs.get(key)) is not None}
        for fault in check_values(definition, changed, keys):
            faults.append(Remark(f"node {quoted(node.name)}: {fault}", fault.code, node=node.name, **fault.facts))
    return faults


def _keeps_dtypes(table: Table, node: Node) -> bool:
    """Returns whether each input is known to have the dtype of the input in the file; op and attrs are unchanged."""
    if not table.dtypes or node.base_name is None:
        return False
    codes = table.inputs(table.rows[node.base_name])
    for code, read in zip(codes, node.inputs, strict=False):  # `codes` also has the control inputs
        now = read.node
        row = None if now.changed_attrs or now.op_override is not None else table.rows.get(now.base_name or "")
        if row is None or code < 0 or code & Table.CONTROL_PORT or read.index:
            return False
        dtype = table.dtypes[code >> Table.PORT_BITS]
        if dtype in (0, NO_OUTPUT) or dtype != table.dtypes[row]:
            return False
    return len(codes) >= len(node.inputs)


def input_faults(node: Node) -> list[Remark]:
    """Returns the faults of the data inputs of a node: a wrong number, missing outputs, wrong dtypes."""
    required, inputs = node.input_dtypes, node.inputs
    if required is None:
        return []
    if len(required) != len(inputs):
        text = f"{_named(node)} has {counted(len(inputs), 'data input')}, but requires {len(required):,}"
        return [Remark(text, "wrong-count", node=node.name, expected=len(required), found=len(inputs))]
    out: list[Remark] = []
    for slot, (read, dtype) in enumerate(zip(inputs, required, strict=True)):
        dtypes = read.node.output_dtypes if read.node.exists else None
        if dtypes is not None and read.index >= len(dtypes):
            text = f"{_named(node)} reads {quoted(read.name)}, but that node has {counted(len(dtypes), 'output')}"
            out.append(Remark(text, "no-such-tensor", node=node.name, tensor=read.name, count=len(dtypes)))
        elif dtypes is not None and not is_readable_as(dtypes[read.index], dtype):
            expected, found = dtype_name(dtype), dtype_name(dtypes[read.index])
            text = f"{_named(node)} requires {expected} as input {slot}, but {quoted(read.name)} is {found}"
            facts = {"tensor": read.name, "expected": expected, "found": found}
            out.append(Remark(text, "dtype-mismatch", node=node.name, **facts))
    return out


def _named(node: Node) -> str:
    return f"node {quoted(node.name)} ({printable(node.op)})"


def _check_fields(graph: Graph, findings: Findings) -> None:
    """Checks the top-level fields other than nodes."""
    versions = graph.store.versions
    version, ours = graph_def_version(), f"TensorFlow {table_version()} has version {graph_def_version()}"
    if versions.producer < 0:
        text = f"its producer version {versions.producer} does not exist"
        findings.fault(text, "wrong-version", found=versions.producer)
    if versions.min_consumer > version:  # the TensorFlow of the op tables could not read it
        text = f"it requires GraphDef version {versions.min_consumer} or later, but {ours}"
        findings.fault(text, "wrong-version", found=versions.min_consumer)
    if version in versions.bad_consumers:
        findings.fault(f"it excludes GraphDef version {version}, but {ours}", "wrong-version", found=version)
    for _ in debug_infos(graph):
        pass  # raises InputError if it is corrupt
    for other in graph.store.layout.others:
        if (other.number, other.wire_type) not in _GRAPH_FIELDS:
            text = f"it has an unknown field {other.number} (wire type {other.wire_type}), which is kept"
            findings.warn(text, "unknown-field", field=other.number)


def debug_infos(graph: Graph) -> Iterator[GraphDebugInfo]:
    """Yields the debug info of the file. Raises InputError if it is corrupt."""
    for other in graph.store.layout.others:
        if other.number == DEBUG_INFO and other.wire_type == LEN:
            try:
                data = graph.source.read(other.value, other.end - other.value)
                yield GraphDebugInfo.FromString(data)
            except decode_error():
                raise InputError(f"the debug info of {printable(graph.source_name)} is corrupt") from None


_GRAPH_FIELDS = {(LIBRARY, LEN), (VERSION, 0), (VERSIONS, LEN), (DEBUG_INFO, LEN)}


def _check_names(table: Table, findings: Findings) -> None:
    if len(table.rows) + table.names.count("") != len(table.names):
        first: dict[str, int] = {}
        for row, name in enumerate(table.names):
            other = first.setdefault(name, row)
            if other != row and name:
                text = f"two nodes are named {quoted(name)}: numbers {other} and {row}"
                findings.fault(text, "name-taken", node=name, rows=[other, row])


def _check_colocations(table: Table, findings: Findings) -> None:
    missing = [name for name in table.colocations if name not in table.rows]
    illegal = set(table.names).intersection(missing) if missing else ()  # invalid names have no row
    for name in missing:
        if name not in illegal:
            for row in table.colocations[name]:
                findings.dangling_colocations.append(row)
                text = f"node {quoted(table.names[row])} is colocated with {quoted(name)}, which does not exist"
                findings.warn(text, "no-such-node", node=table.names[row], name=name)


def _cycle_of(graph: Graph) -> tuple[str, list[str]] | None:
    """Returns the text and the first nodes of a cycle outside v1 while loops in an unedited graph; None without one."""
    topology = topology_of(graph)
    cycle = find_cycle(topology) if has_forward_edges(topology) else []
    return (spelt_cycle(topology, cycle), [topology.name(number) for number in cycle[:MOST_NODES]]) if cycle else None


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
        for fault in _signature_faults(function, body.rows.names):
            findings.add(fault)
        body.check(define)
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


class _Body(dict[str, tuple[str, ...]]):
    """The nodes of a function as a table, after a row for each argument.

    The dict has the tensors that each input of a node, or result of the function, stands for, as a graph names them.
    """

    def __init__(self, function: FunctionDef, attrs: AttrChecks) -> None:
        super().__init__()
        self._function, self._name, self._attrs = function, function.signature.name, attrs
        self.rows = nodes_of(function)
        self._where = f"function {quoted(self._name)}"
        self.table = Table(BytesSource(b"", self._where))
        self.nodes = NodeChecks(self.table, attrs, self._name)
        self._args = {arg.name: not (arg.number_attr or arg.type_list_attr) for arg in function.signature.input_arg}
        self._args_of: dict[str, dict[str, range] | None] = {}  # of each node, the outputs of each argument of its op
        self._open: set[str] = set()  # inputs that stand for an unknown number of tensors
        self._missing: set[str] = set()  # inputs that do not exist in the function

    def check(self, define: Callable[[str], OpDef | None]) -> None:
        """Checks the nodes."""
        signature, rows = self._function.signature, self.rows
        headers = [read_header(form) for form in rows.forms]
        found = [self._attrs.findings(header, form) for header, form in zip(headers, rows.forms, strict=True)]
        outputs = [
            None if each.gives is None else _outputs(define(header.op), header, form)
            for header, form, each in zip(headers, rows.forms, found, strict=True)
        ]
        names = [*(f" {arg.name}" for arg in signature.input_arg), *rows.names]
        joined = "".join(names)
        is_plain = bool(names) and all(names) and ":" not in joined and "^" not in joined
        form_of = dict(zip(rows.names, rows.form_of, strict=True))
        self._args_of = {name: outputs[form] for name, form in form_of.items()}
        single = [[(arg, at[0]) for arg, at in (args or {}).items() if len(at) == 1] for args in outputs]
        for name, form in form_of.items() if is_plain else ():  # most inputs
            for arg, at in single[form]:
                self[f"{name}:{arg}:0"] = (format_input(name, at),)
        texts_of = [[*chain.from_iterable(map(self.__getitem__, inputs))] for inputs in rows.inputs]
        unsure = self._open | self._missing
        are_known = [unsure.isdisjoint(inputs) for inputs in rows.inputs]
        for inputs, texts in zip(rows.inputs, texts_of, strict=True) if self._open else ():
            # A control input replaces an unknown number of tensors.
            texts += [self._control(text.partition(":")[0]) for text in inputs if text in self._open]
        texts_of = [*([] for _ in signature.input_arg), *texts_of]
        forms = [len(headers)] * len(signature.input_arg) + rows.form_of
        ops = [*(header.op for header in headers), "_Arg"]
        if is_plain:
            flat = [text for texts in texts_of for text in (*texts, "")]
            self.table.add(Batch(Run(0, b"", [0] * len(names)), names, flat, [], ops, forms))
        else:
            for name, form, texts in zip(names, forms, texts_of, strict=True):
                self.table.add_node(name, ops[form], texts, Run(0, b"", [0]))
        dtypes = [arg.type * (self._args[arg.name] and is_dtype(arg.type)) for arg in signature.input_arg]
        self.nodes.add_arguments(dtypes)
        self.table.close()
        kinds = self.table.kinds(len(dtypes), len(names)).split(END_OF_NODE)[:-1]
        looks, look_of = distinct([*zip(rows.form_of, kinds, are_known, strict=True)])
        open_ones = [each._replace(takes=None) for each in found]
        all_looks = [Look((found if is_known else open_ones)[form], own) for form, own, is_known in looks]
        self.nodes.add_nodes(rows.names, all_looks, look_of)
        self.nodes.finish(None)

    def __missing__(self, text: str) -> tuple[str, ...]:
        """Returns the tensors for `text`. A missing tensor gets a colon; of an unknown number of tensors, none."""
        if text[:1] == "^":
            return (self._control(text[1:]),)
        name, *parts = text.split(":")
        if name in self._args and (not parts or (len(parts) == 1 and parts[0].isdecimal())):
            if not self._args[name]:
                self._open.add(text)
                return ()
            if not parts or parts[0] == "0":
                return (f" {name}",)
        elif name in self._args_of and len(parts) in (1, 2):
            args = self._args_of[name]
            places = args.get(parts[0], range(0)) if args is not None else range(0)
            if args is None or (len(parts) == 1 and len(places) > MOST_LISTED):
                self._open.add(text)
                return ()
            if len(parts) == 1 and (places or parts[0] in args):
                return tuple(format_input(name, place) for place in places)
            if len(parts) == 2 and parts[1].isdecimal() and int(parts[1]) < len(places):
                return (format_input(name, places[int(parts[1])]),)
        self._missing.add(text)
        return (f":{text}",)

    def _control(self, name: str) -> str:
        if name in self._args_of:
            return f"^{name}"
        return f"^ {name}" if name in self._args else f"^:{name}"

    def faults(self) -> Iterator[Remark]:
        """Yields the faults of names and results, and a cycle."""
        function = self._function
        for name in self._args:
            if name in self._args_of:
                text = f"a node and an input of {self._where} are named {quoted(name)}"
                yield Remark(text, "name-taken", function=self._name, node=name)
        stated = {arg.name: arg for arg in function.signature.output_arg}
        for key, target in sorted(function.ret.items()):
            inputs, arg = self[target], stated.get(key)
            codes = [self.table.code(text) for text in inputs]
            facts = {"function": self._name, "output": key, "tensor": target}
            ret = f"ret {quoted(key)} of {self._where}"
            if None in codes:
                text = f"{ret} refers to {quoted(target)}, which does not exist in the function"
                yield Remark(text, "no-such-tensor", **facts)
            elif target not in self._open and arg is not None and not (arg.number_attr or arg.type_list_attr):
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
        graph = Graph(self.table.source)
        graph.store.table = self.table
        if (cycle := _cycle_of(graph)) is not None:
            text = f"the nodes of {self._where} form a cycle outside a while loop: {cycle[0]}"
            yield Remark(text, "cycle", function=self._name)


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


def _signature_faults(function: FunctionDef, nodes: Sequence[str]) -> Iterator[Remark]:
    """Yields repeated names in a function with the given `nodes`, and results that are missing."""
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
