"""strip-weights: removes the weights of a graph, which still loads, runs and has every shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gdsurgeon.analysis.queries.shape_sources import shape_sources, shape_sources_of
from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameShapes
from gdsurgeon.errors import EditError, Json, NothingToDo, printable, quoted
from gdsurgeon.graph.constants import TensorHeader, constant_header, header_of, raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import BOOL, DTYPES, STRING
from gdsurgeon.ops.kinds import TABLE_INITIALIZERS, is_variable
from gdsurgeon.select import compiled
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import Entry, counted, named, nearest, size, suggestion
from gdsurgeon.wire.protos import FunctionDef

MOST_WHOLE = 1024
"""Elements of a constant of whole numbers that shapes follow from, and that therefore stays."""
MOST_FLOATS = 8
"""The same for others: bounds of a range, a scale that a size is multiplied with."""
SMALL = 64
"""Elements of a constant that stays with the strings."""


@public
@edit
def strip_weights(graph: Graph, *, keep_strings: bool = False, keep: str = "") -> EditResult:
    """Takes the values out of constants: each that goes is filled with one 0, False or empty string.

    Those stay from which shapes follow (axes, sizes, paddings, counts of loops; see
    `gdsurgeon.analysis.queries.shape_sources`) and that are small: at most `MOST_WHOLE` whole numbers, or `MOST_FLOATS`
    others. What a look-up table is filled with goes. In functions, too.

    Args:
        graph: changed in place.
        keep_strings: strings stay, and other constants of at most `SMALL` elements.
        keep: a pattern; constants whose names it is found in stay.

    Raises:
        UsageError: KEEP is no pattern.
        EditError: KEEP is found in no name, or variables have values beside the graph.
        NothingToDo: there is nothing that would go.
    """
    rule = _Rule(keep_strings, Keeping(keep))
    _check_frozen(graph)
    going = dict(_in_graph(graph, rule))
    functions = _in_functions(graph, rule)
    rule.keep.check_found()
    if not going and not functions:
        raise NothingToDo("nothing would change: no constant can be stripped")
    for name, value in going.items():
        graph.set_attr(graph[name], "value", value)
    for function in functions:
        graph.functions.replace(function)
    changed = [function.signature.name for function in functions]
    intent = Intent(changed=list(going), functions=FunctionChanges(changed=changed))
    facts: dict[str, Json] = {
        "stripped": {"constants": rule.count, "bytes": rule.bytes},
        "kept": {"for_shapes": list(rule.for_shapes), "by_pattern": list(rule.keep.found)},
    }
    return EditResult(intent, (SameShapes(),), told=list(_told(rule)), facts=facts)


def _check_frozen(graph: Graph) -> None:
    """Refuses a model whose weights are not in the graph: they would be beside it all the same."""
    if graph.serving is not None and graph.serving.weights is not None:
        variables = [node.name for node in graph.nodes() if is_variable(node.op)]
        if variables:
            raise EditError(
                f"the values of {counted(len(variables), 'variable')} are in a checkpoint: {named(variables, 3)}",
                code="not-frozen",
                advice="freeze-first",
                model=printable(graph.source_name),
            )


class _Found(NamedTuple):
    """A constant: its name, the serialised value where it is short, and what is known of it without reading that.

    Attributes:
        is_source: whether shapes follow from it.
        fills_table: whether a look-up table is filled with it.
    """

    name: str
    header: TensorHeader
    value: bytes | None
    is_source: bool
    fills_table: bool

    @property
    def bytes(self) -> int:
        """Bytes that its elements take in the file, about."""
        return self.header.content_bytes + self.header.values * (DTYPES[self.header.dtype].size or 8)


class _Rule:
    """Says which constants go, and counts."""

    def __init__(self, keep_strings: bool, keep: Keeping) -> None:
        self.keep_strings = keep_strings
        self.keep = keep
        self.count = self.bytes = 0
        self.for_shapes: dict[str, None] = {}

    def instead(self, found: _Found) -> bytes | None:
        """The value that takes the place of that of a constant; None where it stays."""
        if self.keep.holds(found.name):
            return None
        value = _filled(found.header)
        if value is None or value == found.value or self._stays(found):
            return None
        self.count += 1
        self.bytes += found.bytes
        return value

    def _stays(self, found: _Found) -> bool:
        dtype, elements = DTYPES[found.header.dtype], found.header.elements
        if self.keep_strings and (dtype == STRING or elements <= SMALL or found.fills_table):
            return True
        if found.fills_table or not found.is_source:
            return False
        stays = elements <= (MOST_WHOLE if dtype.is_integer or dtype in (BOOL, STRING) else MOST_FLOATS)
        if stays:
            self.for_shapes[found.name] = None
        return stays


def _filled(header: TensorHeader) -> bytes | None:
    """A value of that dtype and shape that says no more than that; None where there is none."""
    dtype, shape = DTYPES.get(header.dtype), header.dims
    if dtype is None or not dtype.kind or shape is None or min(shape, default=0) < 0:
        return None
    value = raw_value(dtype, shape)
    if header.elements and (dtype.code or dtype == STRING):  # the others are 0 where nothing is said
        zero = b"" if dtype == STRING else False if dtype == BOOL else 0
        value.tensor.MergeFrom(tensor_value(dtype, (), [zero]).tensor)
    return value.SerializeToString(deterministic=True)


def _in_graph(graph: Graph, rule: _Rule) -> Iterator[tuple[str, bytes]]:
    """The constants of the graph that go, with what takes the place of their values."""
    sources = shape_sources(graph)
    filling = [read for node in graph.nodes() if node.op in TABLE_INITIALIZERS for read in node.inputs[1:]]
    fills = {read.node.name for read in filling}
    for node in graph.nodes():
        header = constant_header(node) if node.op == "Const" else None
        if header is not None and header.dtype in DTYPES:
            short = node.attr_bytes("value") if header.content_bytes + header.values <= SMALL else None
            value = rule.instead(_Found(node.name, header, short, node.name in sources, node.name in fills))
            if value is not None:
                yield node.name, value


def _in_functions(graph: Graph, rule: _Rule) -> list[FunctionDef]:
    """Changed copies of the functions in which a constant goes, called or not."""
    out = []
    for function in () if graph.is_body else graph.functions:
        sources = shape_sources_of(function, graph)
        filling = [node for node in function.node_def if node.op in TABLE_INITIALIZERS]
        fills = {text.partition(":")[0] for node in filling for text in node.input[1:]}
        values: dict[int, bytes] = {}
        for place, node in enumerate(function.node_def):
            data = node.attr["value"].SerializeToString(deterministic=True) if node.op == "Const" else b""
            header = header_of(data)
            if header is not None and header.dtype in DTYPES:
                found = _Found(node.name, header, data, node.name in sources, node.name in fills)
                value = rule.instead(found._replace(name=f"{function.signature.name}/{node.name}"))
                if value is not None:
                    values[place] = value
        if values:
            copy = type(function)()
            copy.CopyFrom(function)
            for place, value in values.items():
                copy.node_def[place].attr["value"].ParseFromString(value)
            out.append(copy)
    return out


def _told(rule: _Rule) -> Iterator[Entry]:
    yield Entry("stripped", f"{counted(rule.count, 'constant')}, {size(rule.bytes)}")
    for kept, why in ((rule.for_shapes, "used to compute shapes"), (rule.keep.found, "selected by the pattern")):
        if kept:
            yield Entry("kept", f"{counted(len(kept), 'constant')} {why}", list(kept))


class Keeping:
    """The constants whose names a pattern is found in.

    Attributes:
        found: those that were asked for and are held.

    Raises:
        UsageError: the text is no pattern.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._others: list[str] = []
        self.found: list[str] = []
        self._pattern = compiled(text) if text else None

    def holds(self, name: str) -> bool:
        """Whether the constant NAME is to be left as it is."""
        is_held = self._pattern is not None and self._pattern.search(name) is not None
        (self.found if is_held else self._others).append(name)
        return is_held

    def check_found(self) -> None:
        """Raises EditError where there is a pattern and no constant that was asked for is held."""
        if self._pattern is not None and not self.found:
            near = nearest(self._text, self._others)
            message = f"no constant matches {quoted(self._text)}.{suggestion(near)}"
            raise EditError(message, code="nothing-matched", facts={"value": self._text, "near": near})
