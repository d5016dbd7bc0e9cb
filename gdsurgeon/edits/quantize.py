"""quantize: stores weights in fewer bytes, and adds nodes that restore their dtype when the graph runs."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from math import inf, isfinite, prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from gdsurgeon.analysis.queries.constants import BLOCK, ConstantValues, values_of
from gdsurgeon.analysis.queries.deciding import chosen_from, reordered, shape_sources
from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.traversal.topology import depending_on
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.decorator import edit
from gdsurgeon.edits.functions import replace_functions
from gdsurgeon.edits.replacing import add_constant
from gdsurgeon.edits.strip_weights import KeepPattern
from gdsurgeon.errors import EditError, InputError, Json, NothingToDo, Remark, UsageError, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import constant_header, raw_value
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Use
from gdsurgeon.ops.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT8, DType
from gdsurgeon.ops.elements import numpy_dtype, require_numpy
from gdsurgeon.ops.kinds import ASSIGNMENTS, ENTER, IDENTITY, PRODUCTS
from gdsurgeon.text import Entry, counted, size
from gdsurgeon.values import Tolerance
from gdsurgeon.wire.write import Chunk, ChunkSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FORMS = {"float16": FLOAT16, "bfloat16": BFLOAT16, "int8": INT8}
"""The dtypes in which weights can be stored."""
LEAST = 64
"""The default of the smallest number of elements of a constant that is quantized."""
PIECE = 1 << 20
_READS_CONSTANTS = re.compile("Quant|FakeQuant|^Assign|InitializeTable|LookupTableImport|^RandomShuffle")
"""Ops whose inputs must stay constants: ranges of quantized types, initial values of variables."""
_TRANSPOSED = (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
"""The attrs of a product that transpose its inputs."""
_FORWARDING = ENTER | IDENTITY
_RECORD = {FLOAT16: (120, 2), BFLOAT16: (120, 2), INT8: (260, 5)}
"""The approximate size in bytes of the added nodes: a fixed part, and a factor for the length of the name."""
_LARGEST = 127
"""The largest int8 value that is used; the smallest one is its negative."""
_ROUNDING = {FLOAT16: 2.0**-11, BFLOAT16: 2.0**-8}
"""The largest relative rounding error of normal numbers."""


class _Form(NamedTuple):
    """A constant in fewer bytes.

    Attributes:
        dtype: the dtype of the elements.
        content: the elements as they lie in memory.
        error: the rounding errors.
        problem: the reason why the form cannot replace the constant, or None.
        scale: the factors of the elements, in the dtype of the constant, as they lie in memory; b"" without factors.
        scale_shape: the shape of the factors.
    """

    dtype: DType
    content: bytes
    error: _Errors
    problem: Remark | None = None
    scale: bytes = b""
    scale_shape: tuple[int, ...] = ()


class _Found(NamedTuple):
    """A quantized constant: its node, its name for users, its new form, its size in bytes before and after."""

    node: Node
    called: str
    form: _Form
    before: int
    now: int


@edit()
def quantize(
    graph: Graph, dtype: str, *, keep: str = "", least: int = LEAST, tolerance: float | None = None
) -> EditResult:
    """Stores weights as `dtype`; a Cast, or a Cast and a Mul, restores their dtype.

    The Cast or Mul has the name of the constant, so the consumers do not change. Only constants of rank 2 or more
    become int8: each channel has a scale, which is 1/127 of its largest absolute value.

    These constants stay: shapes depend on them; they are initial values of variables, contents of tables, or ranges
    of quantized types; or they would not become smaller. Functions are also changed.

    Args:
        graph: changed in place.
        dtype: ``float16``, ``bfloat16`` or ``int8``.
        keep: a regular expression (searched); constants with matching names stay.
        least: the smallest number of elements of a constant that is quantized.
        tolerance: the largest allowed |a - b| of an output, relative to its largest |a|. None: the differences are
            only measured.

    Raises:
        UsageError: unknown dtype, or `keep` is not a valid regular expression.
        EditError: `keep` matches no name, or constants overflow or underflow; the details list them. The graph is
            unchanged.
        NothingToDo: no constant would become smaller.
        NotValidatedError: NumPy is not installed.
    """
    if dtype not in FORMS:
        message = f"weights can be stored as {', '.join(FORMS)}, not as {quoted(dtype)}"
        raise UsageError(message, code="bad-value", value=dtype, expected=list(FORMS))
    require_numpy("quantizing")
    pattern, stays = KeepPattern(keep), Counter[str]()
    bodies: dict[str, Body] = {}
    for function in () if graph.is_body else graph.functions:
        if any(node.op == "Const" for node in function.node_def):
            try:
                bodies[function.signature.name] = Body(graph, function.signature.name)
            except EditError:  # the function cannot be converted to a graph
                stays["typed-by-calls"] += 1

    def found_in(part: Graph, sources: Container[str], prefix: str = "") -> list[_Found]:
        return list(_found_in(part, FORMS[dtype], pattern, max(least, 1), sources, prefix, stays))

    sources = shape_sources(graph)
    found = found_in(graph, sources)
    called = [name for node in sources for name in functions_of(graph[node])] if bodies else []
    deciding = frozenset(graph.functions.reachable(called)) if bodies else frozenset()
    inside = {
        name: found_in(body.graph, shape_sources(body.graph, every=name in deciding), f"{name}/")
        for name, body in bodies.items()
    }
    all_found = [*found, *(each for several in inside.values() for each in several)]
    pattern.check_found()
    notes = [Remark(f"{counted(n, 'constant')} {_REASONS[why]}", why, count=n) for why, n in stays.items()]
    if unfit := [each for each in all_found if each.form.problem]:
        names = "|".join(re.escape(each.called) for each in unfit)
        raise EditError(
            f"{counted(len(unfit), 'constant')} cannot be stored as {dtype}:",
            code="does-not-fit",
            details=tuple(f"{quoted(each.called)}: {each.form.problem}" for each in unfit),
            advice="keep-these",
            pattern=f"^({names})$",
            constants=[each.called for each in unfit],
            problems=[each.form.problem.code for each in unfit if each.form.problem is not None],
        )
    if not all_found:
        line = f"nothing would change: no constant would be smaller as {dtype}"
        raise NothingToDo("; ".join((line, *notes)), stays=dict(stays))
    chosen = chosen_from(graph)
    reached = chosen if any(inside.values()) else depending_on(graph, [each.called for each in found])
    also = tuple(name for name in chosen if name in reached)
    except_for = reordered(graph) if also and tolerance is not None else {}
    for each in all_found:
        _store(each)
    changed = {name: body for name, body in bodies.items() if inside[name]}
    functions = replace_functions(graph, (body.function_def() for body in changed.values()))
    intent = _intent(graph)
    intent.functions = functions
    claim = SameOutputs(
        Tolerance(of_largest=tolerance or 0.0), except_for=except_for, also=also, judged=tolerance is not None
    )
    result = EditResult(intent, (claim,), notes=list(notes))
    result.inside = {name: (body.graph, EditResult(_intent(body.graph))) for name, body in changed.items()}
    _summarize(result, sorted(all_found, key=lambda each: each.form.error.relative, reverse=True), dtype, graph)
    return result


_REASONS = {
    "kept": "kept",
    "not-smaller": "would not be smaller",
    "read-as-it-is": "used by a variable, a table or a quantized op",
    "shape-source": "used to compute shapes",
    "typed-by-calls": "in functions whose dtypes depend on the call",
    "unreadable": "cannot be read",
    "vector": "of rank below 2",
}


def _found_in(
    graph: Graph, to: DType, keep: KeepPattern, least: int, sources: Container[str], prefix: str, stays: Counter[str]
) -> Iterator[_Found]:
    """Yields the constants to quantize.

    Args:
        graph: the graph, or the body of a function.
        to: the new dtype.
        keep: matches the names of constants that stay.
        least: the smallest number of elements.
        sources: the names of nodes that shapes depend on.
        prefix: a prefix for the names of the constants in messages.
        stays: gets the number of floating-point constants that stay, by the code of the reason; see `_REASONS`.
    """
    for node in graph.nodes():
        header = constant_header(node) if node.op == "Const" else None
        called = prefix + node.name
        is_kept = header is not None and keep.matches(called)
        if header is None or header.dtype not in (FLOAT32, FLOAT64) or header.elements < least:
            continue
        if is_kept:
            why = "kept"
        elif node.name in sources:
            why = "shape-source"
        elif any(use.node.op in ASSIGNMENTS or _READS_CONSTANTS.search(use.node.op) for use in _consumers(node)):
            why = "read-as-it-is"
        elif to == INT8 and len(header.dims or ()) < 2:
            why = "vector"
        else:
            try:
                values = values_of(node)
            except InputError:
                stays["unreadable"] += 1
                continue
            form = as_int8(values, _channels(node, len(values.shape))) if to == INT8 else as_half(values, to)
            own, names = _RECORD[to]
            now = len(form.content) + len(form.scale) + own + names * len(node.name)
            before = values.stored * values.dtype.size
            if form.problem or now < before:
                yield _Found(node, called, form, before, now)
                continue
            why = "not-smaller"
        stays[why] += 1


def _consumers(node: Node) -> Iterator[Use]:
    """Yields the uses of a constant, directly or after nodes that only forward it."""
    pending, seen = [node], {node}
    while pending:
        source = pending.pop()
        for use in graph_of(source).uses(source.output):
            if use.node.op not in _FORWARDING:
                yield use
            elif use.node not in seen:
                seen.add(use.node)
                pending.append(use.node)


def _channels(node: Node, rank: int) -> tuple[int, ...]:
    """Returns the axes of the channels that have a scale each: the output channels of the first known consumer."""
    for user, slot in _consumers(node):
        if user.op == "DepthwiseConv2dNative" and rank == 4:
            return 2, 3
        if user.op in ("Conv2DBackpropInput", "Conv3DBackpropInputV2") and rank >= 4:
            return (rank - 2,)
        if user.op in ("Gather", "GatherV2") and slot == 0:
            return (0,)
        if user.op in PRODUCTS and rank >= 2:
            transposed = any(user.setting(key) for key in _TRANSPOSED[min(slot, 1)])
            last = rank - 1 if transposed != (slot == 1) else rank - 2
            return (*range(rank - 2), last)
    return (rank - 1,)


def _store(found: _Found) -> None:
    """Adds the new constants, and makes the node of the old constant the Cast or Mul that restores its value."""
    node, form = found.node, found.form
    graph = graph_of(node)
    wide, controls, shape = node.output.dtype, node.controls, values_of(node).shape
    unique = graph.unique_names()

    def constant(name: str, dtype: int, dims: Sequence[int], content: bytes) -> Node:
        return add_constant(graph, unique(f"{node.name}/{name}"), raw_value(dtype, dims, content), node, controls)

    small = constant("small", form.dtype, shape, form.content)
    cast = {"SrcT": type_value(form.dtype), "DstT": type_value(wide)}
    graph.set_controls(node, [])
    if not form.scale:
        graph.replace_op(node, "Cast", [small.output], {"dtype": None, "value": None, **cast})
        return
    scale = constant("scale", wide, form.scale_shape, form.scale)
    inner = graph.add(unique(f"{node.name}/cast"), "Cast", [small.output], attrs=cast, device=node.device, after=node)
    graph.replace_op(node, "Mul", [inner.output, scale.output], {"dtype": None, "value": None, "T": type_value(wide)})


def _intent(graph: Graph) -> Intent:
    return Intent(
        added=[node.name for node in graph.touched() if node.base_name is None],
        changed=[node.name for node in graph.touched() if node.base_name is not None],
    )


# -- the new forms -----------------------------------------------------------------------------------------


class _Errors:
    """The rounding errors of a form, summed up over blocks of elements.

    Attributes:
        most: the largest absolute value of an element.
        flushed: the number of elements that have become 0.
        infinite: the number of elements that have become infinite.
    """

    def __init__(self) -> None:
        self.most = self._largest = self._squares = self._all = 0.0
        self.flushed = self.infinite = 0

    def add(self, exact: Array, found: Array) -> None:
        """Adds the errors of a block."""
        import numpy as np

        finite = np.isfinite(exact)
        self.infinite += int((finite & ~np.isfinite(found)).sum())
        self.flushed += int(((found == 0) & (exact != 0)).sum())
        if finite.any():
            self.most = max(self.most, float(np.abs(exact[finite]).max()))
        both = finite & np.isfinite(found)
        numbers = exact[both].astype(np.float64)
        if numbers.size:
            off = np.abs(numbers - found[both].astype(np.float64))
            self._largest = max(self._largest, float(off.max()))
            with np.errstate(over="ignore"):
                self._squares += float(np.square(off).sum())
                self._all += float(np.square(numbers).sum())

    @property
    def largest(self) -> float:
        """The largest absolute difference of an element."""
        return inf if self.infinite else self._largest

    @property
    def relative(self) -> float:
        """The root of the sum of all squared differences, relative to that of all squared elements."""
        if self._all and isfinite(self._all):
            return sqrt(self._squares / self._all)
        return self._largest / self.most if self.most else 0.0  # the squares overflow or underflow

    def overflow(self, count: int, more: str = "") -> Remark | None:
        """Returns the problem that some of `count` elements overflow, or None."""
        text = f"{self.infinite:,} of {count:,} elements overflow{more}"
        return Remark(text, "overflow", count=self.infinite) if self.infinite else None


def as_half(values: ConstantValues, to: DType) -> _Form:
    """Rounds elements to float16 or bfloat16, to the nearest number; NaN and infinities stay."""
    import numpy as np

    errors, parts = _Errors(), []
    with np.errstate(all="ignore"):
        for start in range(0, values.count, BLOCK):
            block = values.numbers(start, min(BLOCK, values.count - start))
            if to == FLOAT16:
                small: Array = block.astype(np.float16)
                wide: Array = small.astype(block.dtype)
            else:  # the upper halves of float32, rounded to even; NaN stays NaN
                words = block.astype(np.float32).view(np.uint32)
                rounded = (words + (0x7FFF + ((words >> 16) & 1)).astype(np.uint32)) >> 16
                is_nan = (words & 0x7FFFFFFF) > 0x7F800000
                small = np.where(is_nan, (words >> 16) | 0x40, rounded).astype(np.uint16)
                wide = (small.astype(np.uint32) << 16).view(np.float32).astype(block.dtype)
            parts.append(small.tobytes())
            errors.add(block, wide)
    problem = errors.overflow(values.count, f"; the largest is {errors.most:.3g}")
    if problem is None and errors.largest > errors.most * _ROUNDING[to]:
        text = f"it underflows: its largest element is {errors.most:.3g}, the largest error {errors.largest:.3g}"
        problem = Remark(text, "underflow")
    return _Form(to, b"".join(parts), errors, problem)


def as_int8(values: ConstantValues, axes: Sequence[int]) -> _Form:
    """Rounds elements to int8 with a scale for each place along `axes`; its largest element is 127 scales."""
    import numpy as np

    array: Array = values.numbers(0, values.count).reshape(values.shape)
    others = tuple(axis for axis in range(array.ndim) if axis not in axes)
    shape = tuple(size if axis in axes else 1 for axis, size in enumerate(values.shape))
    errors = _Errors()
    if infinite := values.count - int(np.isfinite(array).sum()):
        text = f"{infinite:,} of {values.count:,} elements are NaN or infinite, which int8 cannot represent"
        return _Form(INT8, b"", errors, Remark(text, "not-finite", count=infinite), scale_shape=shape)
    with np.errstate(all="ignore"):
        most: Array = np.abs(array).max(axis=others, keepdims=True) if values.count else np.zeros(shape, array.dtype)
        scale: Array = (most / array.dtype.type(_LARGEST)).astype(array.dtype)
        tiny = int(((most > 0) & (scale < np.finfo(array.dtype).tiny)).sum())
        scale = np.where(most > 0, scale, array.dtype.type(1))
        whole = np.clip(np.rint(array / np.where(scale > 0, scale, 1)), -_LARGEST, _LARGEST).astype(np.int8)
        errors.add(array, whole.astype(array.dtype) * scale)
    problem = errors.overflow(values.count)
    if problem is None and tiny:
        text = f"it underflows: {tiny:,} of its {prod(shape):,} scales would be subnormal"
        problem = Remark(text, "underflow", count=tiny)
    assert scale.dtype == numpy_dtype(values.dtype)
    return _Form(INT8, whole.tobytes(), errors, problem, scale.tobytes(), shape)


# -- the summary -------------------------------------------------------------------------------------------


def _packed(chunks: Sequence[Chunk]) -> tuple[int, int]:
    """Returns the size of `chunks` in bytes, and their size after compression by gzip."""
    source = ChunkSource(list(chunks), "a graph")
    packer, packed = zlib.compressobj(6, zlib.DEFLATED, 31), 0
    for start in range(0, source.size, PIECE):
        packed += len(packer.compress(source.read(start, min(PIECE, source.size - start))))
    return source.size, packed + len(packer.flush())


def _summarize(result: EditResult, found: Sequence[_Found], to: str, graph: Graph) -> None:
    """Adds the sizes before and after, and the errors of the constants, to the summary and the report."""
    constants: list[Json] = []
    sizes: dict[str, Json] = {}
    result.told.append(Entry("stored", f"{counted(len(found), 'constant')} as {to}"))
    both = zip(_packed(graph.pristine().chunks()), _packed(graph.chunks()), strict=True)
    for what, (before, now) in zip(("bytes", "gzipped"), both, strict=True):
        result.told.append(Entry(what, f"{size(before)}  ->  {size(now)} ({now / max(before, 1):.0%})"))
        sizes |= {f"{what}_before": before, f"{what}_after": now}
    for each in found:
        error, form = each.form.error, each.form
        flushed = f", {error.flushed:,} elements are 0 now" if error.flushed else ""
        text = f"{each.called}: at most {error.largest:.3g} ({error.relative:.2g} relative){flushed}"
        result.told.append(Entry("error", text))
        constants.append(
            {
                "constant": each.called,
                "bytes_before": each.before,
                "bytes_after": len(form.content) + len(form.scale),
                "max_error": error.largest,
                "relative_error": error.relative,
                "flushed": error.flushed,
            }
        )
    result.facts = {"to": to, "constants": constants, **sizes}
