"""The result of `inspect`, as text and as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gdsurgeon.analysis.queries.training import saver_of, saver_scopes
from gdsurgeon.analysis.queries.usage import op_counts
from gdsurgeon.errors import Json, Line, printable, quoted
from gdsurgeon.graph.attrs import format_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.dtypes import dtype_name
from gdsurgeon.ops.kinds import ASSIGNMENTS, is_variable
from gdsurgeon.ops.op_defs import table_version
from gdsurgeon.text import and_more, columns, counted, listed, ops, size
from gdsurgeon.values import Data
from gdsurgeon.view.report import to_json

if TYPE_CHECKING:
    from gdsurgeon.analysis.checks.nodes import Findings
    from gdsurgeon.analysis.queries.constants import ConstantSize, ConstantSizes
    from gdsurgeon.analysis.queries.model_contents import Contents, LoadingProblem, ModelVariable
    from gdsurgeon.analysis.queries.signature import Signature, TensorInfo
    from gdsurgeon.analysis.queries.strings import Strings
    from gdsurgeon.analysis.queries.usage import FunctionSummary, OpUsage

MOST_ARGUMENTS = 8
MOST_NAMES = 5
MOST_OPS = 12
LONGEST_LINE = 160
MOST_LINES = 60
"""Lines that are printed if no part is asked for and nothing asks for all."""
MANY, FEW = 30, 8
"""Inputs, outputs, signatures or problems that are shown: in a short answer, and in one that would be too long."""
MOST_STRINGS = 3
WIDEST_NAME = 80
"""The maximum width to which names are padded."""
LONGEST_STRING = 100
"""Characters of a string that are shown to people."""
WIDEST_PLACE = 48
"""The maximum width to which places are padded."""


@dataclass(eq=False, repr=False)
class Inspection(Data):
    """Facts about a graph that need no run.

    Attributes:
        op_usage, sizes, functions, strings: None if not requested.
        contents, troubles: for a model: its parts outside the graph; the problems of loaders, each with its repair.
        most: places with strings that are shown to people.
        whole: whether people are shown all inputs, outputs and variables, and each node of a saver.
    """

    graph: Graph
    signature: Signature
    findings: Findings
    op_usage: list[OpUsage] | None = None
    sizes: ConstantSizes | None = None
    functions: list[FunctionSummary] | None = None
    strings: list[Strings] | None = None
    contents: Contents | None = None
    troubles: Sequence[tuple[LoadingProblem, str]] = ()
    most: int = 10
    whole: bool = False

    @property
    def variables(self) -> int:
        """Variables: their values are not in the file."""
        return sum(n for op, n in op_counts(self.graph).items() if is_variable(op))


def lines(inspection: Inspection) -> list[str]:
    """Returns lines for users: the file, its inputs and outputs, its ops, and the requested parts."""
    out = _overview(inspection, sys.maxsize if inspection.whole else MANY)
    if not inspection.whole and len(out) > MOST_LINES:
        out = _overview(inspection, FEW)
    if inspection.op_usage is not None:
        out += _op_lines(inspection.op_usage)
    if inspection.sizes is not None:
        out += _size_lines(inspection.sizes)
    if inspection.functions is not None:
        out += _function_lines(inspection.functions)
    if inspection.strings is not None:
        out += _string_lines(inspection.strings, inspection.most)
    return out


def _overview(inspection: Inspection, most: int) -> list[str]:
    """Returns lines about the file, and up to `most` inputs, outputs, signatures, variables and problems."""
    graph = inspection.graph
    counts = op_counts(graph)
    form = "text" if graph.text else "binary"
    kind = graph.serving.kind if graph.serving is not None else f"{form} GraphDef"
    head = f"{printable(graph.source_name)}  {kind}, {size(graph.file_bytes)}, "
    head += f"{counted(graph.node_count, 'node')}, {counted(len(counts), 'op type')}"
    head += f", {counted(len(graph.functions), 'function')}" if len(graph.functions) else ""
    head += f", producer {graph.store.producer}" if graph.store.producer else ""
    out = [head]
    for label, tensors in (("inputs", inspection.signature.inputs), ("outputs", inspection.signature.outputs)):
        out.append(f"  {label}" + ("" if tensors else "  none"))
        out += _tensor_lines(inspection, tensors, most)
    if graph.serving is not None and graph.serving.called:
        out += ["  signatures", *_first(_signature_lines(graph.serving), most)]
    if inspection.variables:
        where = _restored(graph.serving) or "whose values are not in the file"
        out.append(f"  {counted(inspection.variables, 'variable')}, {where}")
    if inspection.contents is not None:
        out += _contents_lines(inspection.contents, most if inspection.whole else FEW)
        out += _first(_trouble_lines(inspection.troubles), most)
    if inspection.op_usage is None:
        out.append(_first_ops(counts))
    return out


def _first_ops(counts: Mapping[str, int]) -> str:
    """Returns the most frequent ops as one line of limited length."""
    for most in range(min(MOST_OPS, len(counts)), -1, -1):
        rest = len(counts) - most
        more = f" and {counted(rest, 'other op')}" if rest else ""
        line = f"  ops       {ops(dict(list(counts.items())[:most]), most)}{more}"
        if len(line) <= LONGEST_LINE:
            break
    return line


def _first(found: Iterable[str], most: int) -> Iterator[str]:
    """Yields the first `most` lines, then a line with the number of the rest if there are more."""
    rows = list(found)
    yield from rows[:most]
    if len(rows) > most:
        yield Line("    and {more} more ({verbose} and {as_json} print all)", more=f"{len(rows) - most:,}")


def _tensor_lines(inspection: Inspection, tensors: Sequence[TensorInfo], most: int) -> Iterator[str]:
    """Yields the inputs or outputs; tensors of savers and initial assignments of variables are only counted."""
    scopes = [] if inspection.whole or not tensors else saver_scopes(inspection.graph)
    assigning = frozenset() if inspection.whole else ASSIGNMENTS
    owners = [saver_of(tensor.name, scopes) for tensor in tensors] if scopes else [""] * len(tensors)
    savers = Counter(filter(None, owners))
    shown = [tensor for tensor, owner in zip(tensors, owners, strict=True) if not owner]
    found = [tensor for tensor in shown if tensor.op not in assigning]
    yield from _first_rows([(printable(tensor.name), tensor.spelt) for tensor in found[:most]], len(found), most)
    saved = (f"    {printable(scope)}/...  {counted(count, 'tensor')} of a saver" for scope, count in savers.items())
    yield from _first(saved, most // 2)
    if len(shown) > len(found):
        yield f"    {counted(len(shown) - len(found), 'assignment')} to variables or tables"


def _first_rows(cells: Sequence[Sequence[str]], count: int, most: int) -> Iterator[str]:
    """Yields the first `most` of `count` rows as a table, then a line with the number of the rest if there are more."""
    yield from _first([*(columns(cells, widest=WIDEST_NAME) if cells else ()), *[""] * (count - len(cells))], most)


def _signature_lines(serving: Serving) -> Iterator[str]:
    """Yields the callable signatures, with the names that callers use."""
    for key, served in serving.called.items():
        sides = [
            ", ".join(name if name == tensor else f"{name} = {tensor}" for name, tensor in side.items())
            for side in (served.inputs, served.outputs)
        ]
        yield f"    {printable(key)}({printable(sides[0])}) -> {printable(sides[1])}"


def _restored(serving: Serving | None) -> str:
    """Returns the number of restored variables; '' if none is restored."""
    apart = len(serving.apart) if serving is not None else 0
    restored = len(serving.keys) - apart if serving is not None else 0
    by_objects = f"{apart:,} only by objects" if apart else ""
    return ", ".join(filter(None, [f"{restored:,} of them restored" if restored else "", by_objects]))


def _contents_lines(contents: Contents, most: int) -> Iterator[str]:
    """Yields up to `most` variables, those that signatures need first; then the assets and the collections."""
    variables = sorted(contents.variables, key=lambda variable: not variable.signatures)
    cells = [_variable_row(variable, contents.signatures) for variable in variables[:most]]
    yield from _first_rows(cells, len(variables), most)
    if contents.assets:
        yield f"  assets    {listed((printable(asset.path) for asset in contents.assets), MOST_NAMES)}"
    if contents.collections:
        held = (f"{printable(key)} x {count}" for key, count in contents.collections.items())
        yield f"  collections  {listed(held, MOST_ARGUMENTS)}"


def _variable_row(variable: ModelVariable, signatures: int) -> list[str]:
    from gdsurgeon.analysis.queries.model_contents import BY_NODES

    key = f"{printable(variable.key.tensor)} {variable.key.slice}".strip() if variable.key is not None else ""
    by = variable.by if variable.by != BY_NODES else ""
    how = ", ".join(filter(None, [by, "no signature needs it" if signatures and not variable.signatures else ""]))
    return [dtype_name(variable.dtype), format_shape(variable.shape), printable(variable.name), key, how]


def _trouble_lines(troubles: Sequence[tuple[LoadingProblem, str]]) -> Iterator[str]:
    """Yields the problems of loaders, grouped by loader."""
    loaders = ""
    for trouble, repair in troubles:
        if trouble.loaders != loaders:
            loaders = trouble.loaders
            yield f"  problems for {loaders}"
        yield f"    {trouble.what}"
        if repair:
            yield f"      {repair}"


def _op_lines(usage: Sequence[OpUsage]) -> Iterator[str]:
    inner = any(op.nodes_in_functions for op in usage)
    head = ["op", "nodes", *(["in functions"] if inner else []), ""]
    rows = [head]
    for op in usage:
        known = "" if op.is_known else "a function" if op.is_function else f"unknown in TensorFlow {table_version()}"
        rows.append([printable(op.op), f"{op.nodes:,}", *([f"{op.nodes_in_functions:,}"] if inner else []), known])
    yield "  ops"
    yield from columns(rows, right=range(1, len(head) - 1))


def _size_lines(sizes: ConstantSizes) -> Iterator[str]:
    if not sizes.count:
        yield "  constants  none"
        return
    yield f"  constants  {sizes.count:,}, {size(sizes.bytes)}"
    yield from columns([_size_row(constant) for constant in sizes.largest], right=[0], widest=WIDEST_NAME)
    more = sizes.count - len(sizes.largest)
    if more:
        rest = sizes.bytes - sum(constant.bytes for constant in sizes.largest)
        yield f"    and {more:,} more, {size(rest)}"


def _size_row(constant: ConstantSize) -> list[str]:
    name = printable(constant.name)
    if constant.function:
        name += f"  (in function {printable(constant.function)})"
    if constant.loaded_bytes > 2 * constant.bytes:
        name += f"  (expands to {size(constant.loaded_bytes)})"
    dtype = dtype_name(constant.dtype) if constant.dtype else "unreadable"
    return [size(constant.bytes), dtype, format_shape(constant.shape), name]


def _function_lines(functions: Sequence[FunctionSummary]) -> Iterator[str]:
    if not functions:
        yield "  functions  none"
        return
    unused = sum(not function.is_used for function in functions)
    yield f"  functions  {len(functions):,}" + (f", {unused:,} unused" if unused else "")
    for function in functions:
        inputs, outputs = _arguments(function.inputs), _arguments(function.outputs)
        yield f"    {printable(function.name)}({inputs}) -> ({outputs})"
        facts = [counted(function.nodes, "node")]
        if function.is_stateful:
            facts.append("stateful")
        if not function.is_used:
            facts.append("unused")
        yield f"      {', '.join(facts)}"
        for label, names in (
            ("called by node", function.called_by_nodes),
            ("called by function", function.called_by_functions),
            ("gradient of", function.gradient_of),
            ("calls", function.calls),
        ):
            if names:
                plural = "s" if len(names) > 1 and label.startswith("called") else ""
                yield f"      {label}{plural} {listed(map(printable, names), MOST_NAMES)}"


def _arguments(arguments: Sequence[tuple[str, str]]) -> str:
    return listed((f"{printable(name)}: {printable(kind)}" for name, kind in arguments), MOST_ARGUMENTS)


def _string_lines(found: Sequence[Strings], most: int) -> Iterator[str]:
    with_paths = [strings for strings in found if strings.paths]
    with_texts = [strings for strings in found if not strings.paths and strings.count]
    others = [strings for strings in found if strings.binary or strings.unread_bytes]
    if not found:
        yield "  strings  none"
    for label, places in (("paths", with_paths), ("texts", with_texts)):
        if places:
            count = sum(len(place.paths) if label == "paths" else place.count for place in places)
            yield f"  {label}  {count:,} in {counted(len(places), 'place')}"
            yield from columns([_string_row(place) for place in places[:most]], widest=WIDEST_PLACE)
            if len(places) > most:
                yield Line("    and {more} ({top})", more=counted(len(places) - most, "more place"))
    if others:
        binary = sum(place.binary for place in others)
        unread = sum(place.unread_bytes for place in others)
        what = [f"{counted(binary, 'string')} of binary data"] if binary else []
        what += [f"{size(unread)} of packed strings, not read"] if unread else []
        names = listed(dict.fromkeys(map(_place, others)), MOST_NAMES)
        yield f"  binary  {', '.join(what)}: {names}"


def _place(strings: Strings) -> str:
    inside = f" (in function {printable(strings.function)})" if strings.function else ""
    return (printable(strings.node) or "debug info") + inside


def _string_row(strings: Strings) -> tuple[str, str]:
    shown = strings.paths or strings.texts
    count = len(strings.paths) if strings.paths else strings.count
    text = ", ".join(map(_shortened, shown[:MOST_STRINGS])) + and_more(count - MOST_STRINGS)
    where = _place(strings)
    return where if strings.is_tensor or not strings.node else f"{where}  {printable(strings.attr)}", text


def _shortened(text: str) -> str:
    return quoted(text) if len(text) <= LONGEST_STRING else f"{quoted(text[:LONGEST_STRING])[:-1]}...'"


def as_json(inspection: Inspection) -> dict[str, Json]:
    """Returns the result as JSON, without parts that were not requested."""
    graph = inspection.graph
    out: dict[str, Json] = {
        "file": graph.source_name,
        "format": "text" if graph.text else "binary",
        **to_json(graph, bytes="file_bytes", nodes="node_count", producer="store.producer"),
        "functions": [function.signature.name for function in graph.functions],
        "variables": inspection.variables,
        **(_serving_json(graph.serving) if graph.serving is not None else {}),
        **to_json(inspection.signature),
        "ops": op_counts(graph),
        **to_json(inspection.findings, "faults", "fault_count", "warnings"),
    }
    if inspection.contents is not None:
        out |= _contents_json(inspection.contents)
        out["troubles"] = [
            {"loaders": trouble.loaders, "what": str(trouble.what), "repair": repair or None}
            for trouble, repair in inspection.troubles
        ]
    if inspection.op_usage is not None:
        out["op_details"] = [to_json(op) for op in inspection.op_usage]
    if inspection.sizes is not None:
        constants = [to_json(each) | {"loaded_bytes": each.loaded_bytes or None} for each in inspection.sizes.largest]
        out["constants"] = to_json(inspection.sizes, "count", "bytes") | {"largest": constants}
    if inspection.functions is not None:
        out["function_details"] = [
            to_json(function)
            | {
                side: [{"name": name, "type": kind} for name, kind in getattr(function, side)]
                for side in ("inputs", "outputs")
            }
            for function in inspection.functions
        ]
    if inspection.strings is not None:
        shown = ("node", "function", "attr", "count", "paths", "texts", "binary", "unread_bytes")
        out["strings"] = [to_json(strings, *shown) for strings in inspection.strings]
    return out


def _serving_json(serving: Serving) -> dict[str, Json]:
    signatures = {key: to_json(served, "inputs", "outputs", "method") for key, served in serving.called.items()}
    found = to_json(serving, "kind", "checkpoint")
    return found | {"signatures": signatures, "restored": len(serving.keys)}


def _contents_json(contents: Contents) -> dict[str, Json]:
    variables = [
        to_json(variable, "name", "dtype", "shape", "by", "signatures")
        | (to_json(variable, key="key.tensor", slice="key.slice") if variable.key else {"key": None, "slice": None})
        for variable in contents.variables
    ]
    assets = [to_json(asset, "tensor", file="path", present="is_there") for asset in contents.assets]
    return {"variable_details": variables, "assets": assets, "collections": dict(contents.collections)}
