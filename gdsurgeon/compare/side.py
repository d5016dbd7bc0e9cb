"""One of two graphs that are compared, as integers and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from itertools import pairwise

from gdsurgeon.analysis.checks.check import require_sound
from gdsurgeon.analysis.traversal.order import has_forward_edges, topological_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.forms import Form, form_in, form_of
from gdsurgeon.errors import InputError, printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.records import Batch, Record, batches
from gdsurgeon.ops.kinds import VARIABLE_READS
from gdsurgeon.wire.fields import WireError

_PASSES = VARIABLE_READS | {"PreventGradient", "Snapshot", "StopGradient"}
"""Ops that exporters put behind a constant or a variable, or leave out: they are looked through."""

Read = tuple[int, int]
"""A node, and which of its outputs is read."""


class Interner(dict[Hashable, int]):
    """A small number for each thing that is asked for: the same for equal ones, of whichever graph."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class Side:
    """A graph as integers, as it is in its file.

    Args:
        graph: the graph.
        numbers: for what both sides have in common.
        frozen: whether variables are treated as the constants of a frozen graph.

    Attributes:
        graph: the graph.
        names: the name of each node.
        forms: the form of each node.
        written: the data inputs of each node.
        inputs: the same, where what only passes a constant on is looked through, and reads nothing itself; a node that
            only waits for others reads their output -1.
        controls, waiting: the nodes that each waits for, and those that wait for it.
        users: for each node who reads it: (the reader, its input, the output that it reads).
        order, rank: the nodes, producers first; the place of each in that order.
        passed: the nodes that pass on a constant, and are looked through: the constant of each.
        is_constant: whether each is a constant (FROZEN: or a variable).
        inner: the nodes that are neither, producers first.
        content, structure, kind: a number for each node, of its form alone; see `Form`.
        detailed, shaped: a number for each node, of its content or structure and that of the constants that it reads.

    Raises:
        InputError: the graph is corrupt, or broken so that it cannot be walked.
    """

    def __init__(self, graph: Graph, numbers: Interner, *, frozen: bool = False) -> None:
        self.graph = graph
        self._numbers = numbers
        topology = topology_of(graph)
        table = topology.table
        self.names = table.names
        self.size = len(self.names)
        self._check(len(topology.gone) or len(table.unresolved) or len(table.rows) != self.size)
        self.forms = forms_in(graph)
        if frozen:
            self._freeze()
        # In a file whose edges all lead forward, loops aside, as nearly all do, its order will do.
        self.order = topological_order(topology) if has_forward_edges(topology) else list(range(self.size))
        self._check(len(self.order) != self.size)
        self._read_edges(table)
        self._look_through()
        self.users: list[list[tuple[int, int, int]]] = [[] for _ in range(self.size)]
        for number, reads in enumerate(self.inputs):
            for slot, (producer, port) in enumerate(reads):
                self.users[producer].append((number, slot, port))
        self.waiting: list[list[int]] = [[] for _ in range(self.size)]
        for number, producers in enumerate(self.controls):
            for producer in producers:
                self.waiting[producer].append(number)
        self.rank = [0] * self.size
        for place, number in enumerate(self.order):
            self.rank[number] = place
        passed = self.passed
        self.inner = [n for n in self.order if not self.is_constant[n] and n not in passed]
        places: dict[int, int] = {}
        self._form_of = [places.setdefault(id(form), len(places)) for form in self.forms]
        self._distinct = list({id(form): form for form in self.forms}.values())
        bodies = _Bodies(graph)
        self.content = self._by_form(lambda form: (form.content, bodies.content(form)))
        self.structure = self._by_form(lambda form: ("structure", form.structure, bodies.structure(form)))
        self.kind = self._by_form(lambda form: ("kind", form.kind))

    def _read_edges(self, table: Table) -> None:
        bits, control = Table.PORT_BITS, Table.CONTROL_PORT
        reads = [(code >> bits, code & control) for code in table.edges]
        self.written: list[list[Read]] = [reads[start:end] for start, end in pairwise(table.offsets)]
        self.controls: list[list[int]] = [[] for _ in range(self.size)]
        for number in {table.reader(at) for at in table.odd_edges if reads[at][1] == control}:
            self.controls[number] = [producer for producer, port in self.written[number] if port == control]
            self.written[number] = [read for read in self.written[number] if read[1] != control]

    def _freeze(self) -> None:
        frozen = {id(form): form.frozen() for form in self.forms}
        self.forms = [frozen[id(form)] for form in self.forms]

    def _check(self, is_broken: object) -> None:
        if is_broken:
            require_sound(self.graph)
            raise InputError(f"{printable(self.graph.source_name)} has an input that does not exist")

    def _look_through(self) -> None:
        self.passed: dict[int, int] = {}
        self.inputs = [
            data or [(producer, -1) for producer in controls]
            for data, controls in zip(self.written, self.controls, strict=True)
        ]
        forms = self.forms
        self.is_constant = [form.kind == "Const" for form in forms]
        sources = {number: number for number, is_constant in enumerate(self.is_constant) if is_constant}
        for number in [n for n in self.order if forms[n].op in _PASSES]:
            reads = self.written[number]
            if len(reads) == 1 and not self.controls[number] and reads[0][0] in sources:
                self.passed[number] = sources[number] = sources[reads[0][0]]
        if self.passed:
            seen = self.passed
            self.inputs = [[(seen.get(u, u), port) for u, port in reads] for reads in self.inputs]
            for number in seen:
                self.inputs[number] = []

    def _by_form(self, label: Callable[[Form], Hashable]) -> list[int]:
        """A number for each node, of the LABEL of its form."""
        labels = [self._numbers[label(form)] for form in self._distinct]
        return [labels[place] for place in self._form_of]

    @cached_property
    def served(self) -> dict[tuple[str, str, str], int]:
        """The nodes whose tensors signatures name, by signature, ``inputs`` or ``outputs``, and the name in it."""
        serving, rows = self.graph.serving, topology_of(self.graph).table.rows
        return {
            (key, side, name): row
            for key, signature in (serving.signatures if serving is not None else {}).items()
            for side, tensors in (("inputs", signature.inputs), ("outputs", signature.outputs))
            for name, tensor in tensors.items()
            if (row := rows.get(parse_tensor(tensor).node)) is not None
        }

    def has_weights(self, node: int) -> bool:
        """Whether a node reads a constant that training may have made."""
        forms = self.forms
        return any(forms[producer].is_trained for producer, _ in self.inputs[node])

    @cached_property
    def detailed(self) -> list[int]:
        return self._with_constants("detailed", self.content)

    @cached_property
    def shaped(self) -> list[int]:
        return self._with_constants("shaped", self.structure)

    def _with_constants(self, what: str, labels: list[int]) -> list[int]:
        numbers, is_constant = self._numbers, self.is_constant
        return [
            numbers[what, label, tuple([labels[u] if is_constant[u] else -1 for u, _ in reads])]
            for label, reads in zip(labels, self.inputs, strict=True)
        ]


class _Bodies:
    """What is inside the functions of a graph, names aside: of each body alone, whatever that calls."""

    def __init__(self, graph: Graph) -> None:
        self._library = graph.functions
        self._contents: dict[str, Hashable] = {}
        self._structures: dict[str, Hashable] = {}

    def content(self, form: Form) -> Hashable:
        """Of the functions that FORM names, with the constants in them."""
        return tuple(self._found(name, self._contents) for names in form.functions.values() for name in names)

    def structure(self, form: Form) -> Hashable:
        """Of the functions that FORM names, their ops alone."""
        return tuple(self._found(name, self._structures) for names in form.functions.values() for name in names)

    def _found(self, name: str, known: dict[str, Hashable]) -> Hashable:
        if name not in known:
            function = self._library.get(name)
            nodes = function.node_def if function is not None else ()
            counts = Counter(node.op for node in nodes)
            inside: Hashable = tuple(sorted(counts.items()))
            if known is self._contents:
                values = (n.attr["value"].SerializeToString(deterministic=True) for n in nodes if n.op == "Const")
                inside = (inside, tuple(sorted(values)))
            known[name] = inside
        return known[name]


def forms_in(graph: Graph) -> list[Form]:
    """The form of each node of GRAPH, in the order of its file. Raises InputError where that is corrupt."""
    known: dict[bytes, Form] = {}
    out: list[Form] = []
    try:
        for item in batches(graph.source, forms=True):
            if isinstance(item, Batch):
                found = list(_known(item.forms, known))
                out += [found[place] for place in item.form_of]
            elif isinstance(item, Record):
                out.append(form_of(item))
    except WireError as error:
        raise InputError(f"{printable(graph.source_name)} is corrupt: {error.reason}") from None
    return out


def _known(forms: Iterable[bytes], known: dict[bytes, Form]) -> Iterable[Form]:
    for data in forms:
        form = known.get(data)
        if form is None:
            form = known[data] = form_in(data)
        yield form
