"""quantize: weights stored in fewer bytes, and made what they were when the graph runs."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.constant_values import values_of
from gdsurgeon.analysis.queries.function_usage import functions_of
from gdsurgeon.analysis.queries.ranked import chosen_from, reordered
from gdsurgeon.analysis.queries.shape_sources import shape_sources, shape_sources_of
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.smaller import Smaller, as_half, as_whole_numbers
from gdsurgeon.edits.strip_weights import Keeping
from gdsurgeon.errors import EditError, InputError, Json, NothingToDo, Remark, UsageError, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import constant_header, raw_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Use
from gdsurgeon.ops.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT8, DType
from gdsurgeon.ops.kinds import ASSIGNMENTS, ENTER, IDENTITY, PRODUCTS
from gdsurgeon.ops.numpy_dtypes import require_numpy
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import Entry, counted, size
from gdsurgeon.wire.write import Chunk, ChunkSource

FORMS = {"float16": FLOAT16, "bfloat16": BFLOAT16, "int8": INT8}
"""What weights can be stored as."""
LEAST = 64
"""Elements that a constant has at least that is worth it."""
SHOWN = 3
"""Constants of the largest error that the summary names."""
PIECE = 1 << 20
_WANTS_CONSTANTS = re.compile("Quant|FakeQuant|^Assign|InitializeTable|LookupTableImport|^RandomShuffle")
"""Ops whose inputs are constants to whoever reads the graph: ranges of quantised types, first values of variables."""
_TURNED = (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
"""The attrs of a product by which its inputs are turned."""
_PASSING = ENTER | IDENTITY
_RECORD = {FLOAT16: (120, 2), BFLOAT16: (120, 2), INT8: (260, 5)}
"""Bytes that nodes take which are added, about: of their own, and times the length of a name."""


class _Found(NamedTuple):
    """A constant that is stored otherwise: its node, its name for people, its form, bytes before and now."""

    node: Node
    called: str
    form: Smaller
    before: int
    now: int


@public
@edit
def quantize(
    graph: Graph, dtype: str, *, keep: str = "", least: int = LEAST, tolerance: float | None = None
) -> EditResult:
    """Stores weights in fewer bytes: as TO, from which a Cast, or a Cast and a Mul, makes what they were.

    The node that is left under the name of the constant is that Cast or Mul, so that readers are as they were. As
    int8 those of rank 2 and more are stored, each channel with a scale of its own, by 127ths of its largest element.

    What shapes follow from stays, and what fills variables, tables and the ranges of quantised types; and what would
    not be smaller for it. In functions, too.

    Args:
        graph: changed in place.
        dtype: ``float16``, ``bfloat16`` or ``int8``.
        keep: a pattern; constants whose names it is found in stay.
        least: elements that a constant has at least that is stored otherwise.
        tolerance: the largest |a - b| of an output may be this part of its largest |a|; None: the differences are
            measured, and nothing is claimed.

    Raises:
        UsageError: there is no such form, or KEEP is no pattern.
        EditError: KEEP is found in no name, or constants overflow or underflow: all of them are named, and the
            graph is as it was.
        NothingToDo: nothing would be smaller.
        NotValidatedError: NumPy is not installed.
    """
    if dtype not in FORMS:
        message = f"weights can be stored as {', '.join(FORMS)}, not as {quoted(dtype)}"
        raise UsageError(message, code="bad-value", facts={"value": dtype, "expected": list(FORMS)})
    require_numpy("quantizing")
    work = _Work(FORMS[dtype], Keeping(keep), least)
    bodies = [] if graph.is_body else list(_bodies(graph, work))
    sources = shape_sources(graph)
    found = work.found_in(graph, sources)
    deciding = _called_by(graph, sources) if bodies else frozenset()
    inside = {
        body.name: work.found_in(
            body.graph,
            shape_sources_of(graph.functions[body.name], graph, every=body.name in deciding),
            f"{body.name}/",
        )
        for body in bodies
    }
    all_found = [*found, *(each for several in inside.values() for each in several)]
    work.keep.check_found()
    _check_fit(all_found, dtype)
    if not all_found:
        stays = "".join(f"; {note}" for note in work.notes())
        raise NothingToDo(
            f"nothing would change: no constant would be smaller as {dtype}{stays}", stays=dict(work.stays)
        )
    also = _reached(graph, chosen_from(graph), [each.called for each in found] if not any(inside.values()) else None)
    except_for = reordered(graph) if also and tolerance is not None else {}
    for each in all_found:
        _put(each)
    changed = {body.name: body for body in bodies if inside[body.name]}
    for body in changed.values():
        graph.functions.replace(body.function_def())
    intent = _intent(graph)
    intent.functions = FunctionChanges(changed=list(changed))
    allowed = tolerance or 0.0
    claim = SameOutputs(of_largest=allowed, except_for=except_for, also=also, judged=tolerance is not None)
    sizes = _Sizes(*_packed(graph.pristine().chunks()), *_packed(graph.chunks()))
    return EditResult(
        intent,
        (claim,),
        notes=work.notes(),
        told=list(_told(all_found, dtype, sizes)),
        facts=_facts(all_found, dtype, sizes),
        inside={name: (body.graph, EditResult(_intent(body.graph))) for name, body in changed.items()},
    )


_REASONS = {
    "kept": "kept",
    "not-smaller": "would not be smaller",
    "read-as-it-is": "used by a variable, a table or a quantized op",
    "shape-source": "used to compute shapes",
    "typed-by-calls": "in functions whose dtypes depend on the call",
    "unreadable": "cannot be read",
    "vector": "of rank below 2",
}


class _Work:
    """Finds what is stored otherwise.

    Attributes:
        stays: how many constants of floats stay as they are, by the code of the reason; see `_REASONS`.
    """

    def __init__(self, to: DType, keep: Keeping, least: int) -> None:
        self.to = to
        self.keep = keep
        self.least = least
        self.stays: Counter[str] = Counter()

    def found_in(self, graph: Graph, sources: Container[str], prefix: str = "") -> list[_Found]:
        """The constants of GRAPH that are stored otherwise.

        Args:
            graph: the graph, or the body of a function.
            sources: the names of nodes that shapes follow from.
            prefix: what constants are called by before their names.
        """
        out = []
        for node in graph.nodes():
            header = constant_header(node) if node.op == "Const" else None
            called = prefix + node.name
            is_kept = header is not None and self.keep.holds(called)
            if header is None or header.dtype not in (FLOAT32, FLOAT64) or header.elements < max(self.least, 1):
                continue
            why = "kept" if is_kept else self._why_not(node, sources)
            if not why:
                each = self._smaller(node, called)
                if each is not None and (each.form.problem or each.now < each.before):
                    out.append(each)
                    continue
                why = "not-smaller" if each is not None else "unreadable"
            self.stays[why] += 1
        return out

    def notes(self) -> list[str]:
        """How many constants stay, and why: a line for each reason."""
        return [
            Remark(f"{counted(count, 'constant')} {_REASONS[why]}", why, count=count)
            for why, count in self.stays.items()
        ]

    def _why_not(self, node: Node, sources: Container[str]) -> str:
        header = constant_header(node)
        if node.name in sources:
            return "shape-source"
        if any(use.node.op in ASSIGNMENTS or _WANTS_CONSTANTS.search(use.node.op) for use in _readers(node)):
            return "read-as-it-is"
        if self.to == INT8 and header is not None and len(header.dims or ()) < 2:
            return "vector"
        return ""

    def _smaller(self, node: Node, called: str) -> _Found | None:
        try:
            values = values_of(node)
        except InputError:
            return None
        form = (
            as_whole_numbers(values, _channels(node, len(values.shape)))
            if self.to == INT8
            else as_half(values, self.to)
        )
        before = values.stored * values.dtype.size
        own, names = _RECORD[self.to]
        return _Found(node, called, form, before, len(form.content) + len(form.scale) + own + names * len(node.name))


def _called_by(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """The functions that the nodes NAMES come to call."""
    called = [name for node in names for name in functions_of(graph[node])]
    return frozenset(graph.functions.reachable(called))


def _bodies(graph: Graph, work: _Work) -> Iterator[Body]:
    """The functions of the library as graphs; of those that cannot be it is said that they stay."""
    for function in graph.functions:
        if any(node.op == "Const" for node in function.node_def):
            try:
                yield Body(graph, function.signature.name)
            except EditError:
                work.stays["typed-by-calls"] += 1


def _readers(node: Node) -> Iterator[Use]:
    """Where a constant is read, behind those that only pass it on."""
    pending, seen = [node], {node}
    while pending:
        source = pending.pop()
        for user in source.graph.users(source):
            if user.op not in _PASSING:
                yield from (Use(user, slot) for slot, read in enumerate(user.inputs) if read.node is source)
            elif user not in seen:
                seen.add(user)
                pending.append(user)


def _channels(node: Node, rank: int) -> tuple[int, ...]:
    """The axes along which each place has a scale of its own: those of the outputs of the first reader of NODE."""
    for user, slot in _readers(node):
        if user.op == "DepthwiseConv2dNative" and rank == 4:
            return 2, 3
        if user.op in ("Conv2DBackpropInput", "Conv3DBackpropInputV2") and rank >= 4:
            return (rank - 2,)
        if user.op in ("Gather", "GatherV2") and slot == 0:
            return (0,)
        if user.op in PRODUCTS and rank >= 2:
            turned = any(user.setting(key) for key in _TURNED[min(slot, 1)])
            last = rank - 1 if turned != (slot == 1) else rank - 2
            return (*range(rank - 2), last)
    return (rank - 1,)


def _check_fit(found: Sequence[_Found], to: str) -> None:
    """Refuses what does not stand for what it was, all of it by name."""
    unfit = [each for each in found if each.form.problem]
    if unfit:
        names = "|".join(re.escape(each.called) for each in unfit)
        raise EditError(
            f"{counted(len(unfit), 'constant')} cannot be stored as {to}:",
            code="does-not-fit",
            details=tuple(f"{quoted(each.called)}: {each.form.problem}" for each in unfit),
            advice="keep-these",
            facts={
                "pattern": f"^({names})$",
                "constants": [each.called for each in unfit],
                "problems": [each.form.problem.code for each in unfit if each.form.problem is not None],
            },
        )


def _put(found: _Found) -> None:
    """Stores a constant as its form; its node becomes what makes it what it was."""
    node, form = found.node, found.form
    graph = node.graph
    assert isinstance(graph, Graph)
    wide, controls = node.output.dtype, node.controls
    shape = values_of(node).shape

    def constant(name: str, dtype: int, dims: Sequence[int], content: bytes) -> Node:
        value = raw_value(dtype, dims, content).SerializeToString(deterministic=True)
        attrs = {"dtype": type_value(dtype).SerializeToString(), "value": value}
        return graph.add(
            unique(f"{node.name}/{name}"), "Const", (), controls, attrs=attrs, device=node.device, after=node
        )

    unique = graph.unique_names()
    small = constant("small", form.dtype, shape, form.content)
    cast = {
        "SrcT": type_value(form.dtype).SerializeToString(),
        "DstT": type_value(wide).SerializeToString(),
    }
    graph.set_attr(node, "dtype", None)
    graph.set_attr(node, "value", None)
    graph.set_controls(node, [])
    if not form.scale:
        _become(graph, node, "Cast", [small], cast)
        return
    scale = constant("scale", wide, form.scale_shape, form.scale)
    inner = graph.add(unique(f"{node.name}/cast"), "Cast", [small.output], attrs=cast, device=node.device, after=node)
    _become(graph, node, "Mul", [inner, scale], {"T": type_value(wide).SerializeToString()})


def _become(graph: Graph, node: Node, op: str, inputs: Sequence[Node], attrs: dict[str, bytes]) -> None:
    graph.set_op(node, op)
    graph.set_inputs(node, [each.output for each in inputs])
    for key, value in attrs.items():
        graph.set_attr(node, key, value)


def _intent(graph: Graph) -> Intent:
    """What was done to the nodes of a graph."""
    return Intent(
        added=[node.name for node in graph.touched() if node.base_name is None],
        changed=[node.name for node in graph.touched() if node.base_name is not None],
    )


def _reached(graph: Graph, nodes: Sequence[str], stored: Sequence[str] | None) -> tuple[str, ...]:
    """Those of NODES that depend on constants that are STORED otherwise; None: on whichever."""
    reached = depending_on(graph, stored) if stored is not None else frozenset(nodes)
    return tuple(name for name in nodes if name in reached)


# -- what is told ----------------------------------------------------------------------------------------------


class _Sizes(NamedTuple):
    """Bytes of the graph, and as gzip packs them, before and now."""

    before: int
    packed_before: int
    now: int
    packed: int


def _packed(chunks: Sequence[Chunk]) -> tuple[int, int]:
    """The bytes of CHUNKS, and how many are left when they are packed as gzip packs them."""
    source = ChunkSource(list(chunks), "a graph")
    packer, packed = zlib.compressobj(6, zlib.DEFLATED, 31), 0
    for start in range(0, source.size, PIECE):
        packed += len(packer.compress(source.read(start, min(PIECE, source.size - start))))
    return source.size, packed + len(packer.flush())


def _told(found: Sequence[_Found], to: str, sizes: _Sizes) -> Iterator[Entry]:
    yield Entry("stored", f"{counted(len(found), 'constant')} as {to}")
    for what, before, now in (("bytes", sizes.before, sizes.now), ("gzipped", sizes.packed_before, sizes.packed)):
        yield Entry(what, f"{size(before)}  ->  {size(now)} ({now / max(before, 1):.0%})")
    for each in _worst_first(found):
        error = each.form.error
        flushed = f", {error.flushed:,} elements are 0 now" if error.flushed else ""
        yield Entry("error", f"{each.called}: at most {error.largest:.3g} ({error.relative:.2g} relative){flushed}")


def _worst_first(found: Sequence[_Found]) -> list[_Found]:
    return sorted(found, key=lambda each: each.form.error.relative, reverse=True)


def _facts(found: Sequence[_Found], to: str, sizes: _Sizes) -> dict[str, Json]:
    constants: list[Json] = [
        {
            "constant": each.called,
            "bytes_before": each.before,
            "bytes_after": len(each.form.content) + len(each.form.scale),
            **each.form.error.as_json(),
        }
        for each in _worst_first(found)
    ]
    return {
        "to": to,
        "constants": constants,
        "bytes_before": sizes.before,
        "bytes_after": sizes.now,
        "gzipped_before": sizes.packed_before,
        "gzipped_after": sizes.packed,
    }
