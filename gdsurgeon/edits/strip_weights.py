"""strip-weights: removes the weights of a graph, which still loads and runs, with the same shapes."""

from __future__ import annotations

from gdsurgeon.analysis.queries.deciding import shape_sources
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameShapes
from gdsurgeon.edits.decorator import edit
from gdsurgeon.edits.functions import changed_functions, replace_functions
from gdsurgeon.errors import EditError, Json, NothingToDo, printable, quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import constant_header, raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import BOOL, DTYPES, STRING
from gdsurgeon.ops.kinds import TABLE_INITIALIZERS, is_variable
from gdsurgeon.select import compiled
from gdsurgeon.text import Entry, counted, named, nearest, size, suggestion
from gdsurgeon.wire.protos import FunctionDef

MOST_WHOLE = 1024
"""The largest number of elements of an integer constant that stays because shapes depend on it."""
MOST_FLOATS = 8
"""The same for other constants, for example the bounds of a range."""
SMALL = 64
"""The largest number of elements of a constant that stays with `keep_strings`."""


@edit()
def strip_weights(graph: Graph, *, keep_strings: bool = False, keep: str = "") -> EditResult:
    """Removes the values of constants, also inside functions: each element becomes 0, False or an empty string.

    A constant stays if shapes depend on it (axes, sizes, paddings, numbers of iterations; see
    `gdsurgeon.analysis.queries.deciding`), and if it is small: at most `MOST_WHOLE` integers, or `MOST_FLOATS`
    other elements. The contents of lookup tables are removed.

    Args:
        graph: changed in place.
        keep_strings: keep strings, and other constants of at most `SMALL` elements.
        keep: a regular expression (searched); constants with matching names stay.

    Raises:
        UsageError: `keep` is not a valid regular expression.
        EditError: `keep` matches no name, or the values of variables are in a checkpoint.
        NothingToDo: no constant would change.
    """
    rule = _Rule(keep_strings, KeepPattern(keep))
    if graph.serving is not None and graph.serving.weights is not None:
        variables = [node.name for node in graph.nodes() if is_variable(node.op)]
        if variables:
            raise EditError(
                f"the values of {counted(len(variables), 'variable')} are in a checkpoint: {named(variables, 3)}",
                code="not-frozen",
                advice="freeze-first",
                model=printable(graph.source_name),
            )
    going = rule.stripped(graph)

    def strip(function: FunctionDef) -> bool:
        name = function.signature.name
        values = rule.stripped(Body(graph, name, {}, lenient=True).graph, f"{name}/")
        for node in function.node_def if values else ():
            if node.name in values:
                node.attr["value"].ParseFromString(values[node.name])
        return bool(values)

    functions = changed_functions(() if graph.is_body else graph.functions, strip)
    rule.keep.check_found()
    if not going and not functions:
        raise NothingToDo("nothing would change: no constant can be stripped")
    for name, value in going.items():
        graph.set_attr(graph[name], "value", value)
    intent = Intent(changed=list(going), functions=replace_functions(graph, functions))
    facts: dict[str, Json] = {
        "stripped": {"constants": rule.count, "bytes": rule.bytes},
        "kept": {"for_shapes": list(rule.for_shapes), "by_pattern": list(rule.keep.found)},
    }
    told = [Entry("stripped", f"{counted(rule.count, 'constant')}, {size(rule.bytes)}")]
    for kept, why in ((rule.for_shapes, "used to compute shapes"), (rule.keep.found, "selected by the pattern")):
        if kept:
            told.append(Entry("kept", f"{counted(len(kept), 'constant')} {why}", list(kept)))
    return EditResult(intent, (SameShapes(),), told=told, facts=facts)


class _Rule:
    """Decides which constants are stripped, and counts them."""

    def __init__(self, keep_strings: bool, keep: KeepPattern) -> None:
        self.keep_strings = keep_strings
        self.keep = keep
        self.count = self.bytes = 0
        self.for_shapes: dict[str, None] = {}

    def stripped(self, graph: Graph, prefix: str = "") -> dict[str, bytes]:
        """Returns the new values of constants of a graph or function, by name. `prefix` precedes names in messages."""
        out: dict[str, bytes] = {}
        sources = shape_sources(graph)
        filling = {read for node in graph.nodes() if node.op in TABLE_INITIALIZERS for read in node.inputs[1:]}
        for node in graph.nodes():
            header = constant_header(node) if node.op == "Const" else None
            if header is None or header.dtype not in DTYPES or self.keep.matches(prefix + node.name):
                continue
            dtype, elements, fills = DTYPES[header.dtype], header.elements, node.output in filling
            if not dtype.kind or header.dims is None or min(header.dims, default=0) < 0:
                continue
            filled = raw_value(dtype, header.dims)  # a short value of the same dtype and shape
            if elements and (dtype.code or dtype == STRING):  # elements of other dtypes are 0 by default
                zero = b"" if dtype == STRING else False if dtype == BOOL else 0
                filled.tensor.MergeFrom(tensor_value(dtype, (), [zero]).tensor)
            value = filled.SerializeToString(deterministic=True)
            if header.content_bytes + header.values <= SMALL and value == node.attr_bytes("value"):
                continue
            if self.keep_strings and (dtype == STRING or elements <= SMALL or fills):
                continue
            most = MOST_WHOLE if dtype.is_integer or dtype in (BOOL, STRING) else MOST_FLOATS
            if node.name in sources and not fills and elements <= most:
                self.for_shapes[prefix + node.name] = None
                continue
            self.count += 1
            self.bytes += header.content_bytes + header.values * (dtype.size or 8)
            out[node.name] = value
        return out


class KeepPattern:
    """A regular expression for the names of constants that stay; an empty text matches no name.

    Attributes:
        found: the matching names that `matches` was called with.

    Raises:
        UsageError: the text is not a valid regular expression.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._others: list[str] = []
        self.found: list[str] = []
        self._pattern = compiled(text) if text else None

    def matches(self, name: str) -> bool:
        """Returns whether the constant `name` stays."""
        is_kept = self._pattern is not None and self._pattern.search(name) is not None
        (self.found if is_kept else self._others).append(name)
        return is_kept

    def check_found(self) -> None:
        """Raises EditError if there is a pattern and no name matched it."""
        if self._pattern is not None and not self.found:
            near = nearest(self._text, self._others)
            message = f"no constant matches {quoted(self._text)}.{suggestion(near)}"
            raise EditError(message, code="nothing-matched", value=self._text, near=near)
