"""Binds the placeholders and results of an added graph to the tensors of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible, describe, mismatch, stated_shape, typed
from gdsurgeon.analysis.shapes.inference import infer_shapes, shape_of_tensor
from gdsurgeon.edits.claims import EditResult, LikeReference, SameGiven, SamePart
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.text import an


class Mapped(NamedTuple):
    """A binding from the user: a tensor of the model, and a placeholder and a result of the added graph."""

    model: str
    raw: str
    result: str


class Binding(NamedTuple):
    """A placeholder of the added graph, its result, and the corresponding node of the model with the output `port`."""

    node: Node
    placeholder: Node
    result: Output
    port: int = 0

    @property
    def output(self) -> Output:
        """The tensor of the model."""
        return Output(self.node, self.port)

    def called(self, name: str) -> str:
        """The tensor with the same index of the node `name`."""
        return format_input(name, self.port)


def same_part(
    part: Graph, inputs: Mapping[str, str], results: Sequence[tuple[str, str]], copies: Mapping[str, str], role: str
) -> SamePart:
    """Returns the claim that `part`, the graph `role` of a model, computes its results and its other outputs there."""
    pairs = dict(results)
    for node in output_nodes(part):
        for output in node.outputs if node.name in copies else ():
            pairs.setdefault(output.name, format_input(copies[node.name], output.index))
    others = [pair for pair in pairs.items() if pair not in results]
    return SamePart(part, inputs, (*results, *others), copies, in_place=True, role=role)


def bind(model: Graph, part: Graph, suffix: str, mapped: Sequence[Mapped]) -> list[Binding]:
    """Returns a binding for each placeholder of `part`, by name or as `mapped` says.

    Raises:
        EditError: `part` has no placeholder, a result is missing, or a name of `mapped` does not exist.
    """
    file, form = part.source_name, "INPUT=RAW,RESULT" if suffix.startswith("_pre") else "OUTPUT=RAW,RESULT"
    by_raw: dict[str, Mapped] = {}
    for item in mapped:
        placeholder = part[item.raw.removesuffix(":0")]
        check_placeholder(placeholder)
        if placeholder.name in by_raw:
            message = f"the placeholder {quoted(item.raw)} is mapped twice"
            raise EditError(message, code="given-twice", placeholder=placeholder.name)
        by_raw[placeholder.name] = item
    placeholders = [n for n in input_nodes(part) if n.op != "PlaceholderWithDefault" or n.name in by_raw]
    if not placeholders:
        raise EditError(f"{printable(file)} has no placeholder to connect", code="no-such-input", file=file)
    named = [by_raw[p.name].model if p.name in by_raw else p.name for p in placeholders]
    model.prefetch([*named, *part.names()])
    out: list[Binding] = []
    for placeholder, text in zip(placeholders, named, strict=True):
        spelt = by_raw.get(placeholder.name)
        name, index = parse_tensor(text) if spelt else (placeholder.name, 0)
        node = model.find(name)
        where = f"the placeholder {quoted(placeholder.name)} of {printable(file)} has no"
        if node is None:
            missing = model.missing(name)
            raise EditError(
                f"{where} counterpart: {missing.message}",
                code=missing.code,
                advice="map-name",
                facts={**missing.facts, "placeholder": placeholder.name, "form": form},
            )
        if index:
            model.tensor(text)
        result = spelt.result if spelt else placeholder.name + suffix
        if spelt is None and result not in part:
            raise EditError(
                f"{where} result: no node is named {quoted(result)}",
                code="no-result",
                advice="map-result",
                placeholder=placeholder.name,
                node=result,
                form=form,
            )
        out.append(Binding(node, placeholder, part.tensor(result), index))
    doubled = [name for name, count in Counter(binding.output.name for binding in out).items() if count > 1]
    if doubled:
        message = f"two placeholders of {printable(file)} are connected to {quoted(doubled[0])}"
        raise EditError(message, code="given-twice", node=doubled[0])
    return out


def check_placeholder(node: Node) -> None:
    """Raises EditError if a node is not a placeholder."""
    if node.op not in PLACEHOLDERS:
        graph = node.graph.source_name
        message = f"{quoted(node.name)} of {printable(graph)} is {an(node.op)}, not a Placeholder"
        raise EditError(message, code="not-a-placeholder", node=node.name, op=node.op, file=graph)


def check_fits(given: Output, given_in: Graph, wanted: Output, wanted_in: Graph, warnings: list[str]) -> None:
    """Compares the dtypes and shapes of two tensors, and infers the shapes of the other graph from the given shape.

    Raises:
        EditError: they do not match.
    """
    if not given.dtype or not wanted.dtype:
        unknown = given if not given.dtype else wanted
        op = unknown.node.op
        text = f"the dtype of {quoted(unknown.name)} ({printable(op)}) is unknown, so it was not compared"
        warnings.append(Remark(text, "unknown-dtype", tensor=unknown.name, op=op))
    what = f"{quoted(given.name)} of {printable(given_in.source_name)} is"
    taking = f"{quoted(wanted.name)} of {printable(wanted_in.source_name)}"
    facts = {"tensor": given.name, "file": given_in.source_name, "input": wanted.name, "expected": describe(wanted)}
    if code := mismatch(given, wanted):
        facts["found"] = describe(given)
        message = f"{what} {facts['found']}, but {taking} expects {facts['expected']}"
        raise EditError(message, code=code, facts=facts)
    shape = shape_of_tensor(given_in, given)
    facts["found"] = typed(given.dtype, shape)
    if not compatible(shape, stated_shape(wanted)):
        message = f"{what} {facts['found']}, but {taking} expects {facts['expected']}"
        raise EditError(message, code="shape-mismatch", facts=facts)
    if shape is None or shape == stated_shape(wanted):
        return
    conflicts = infer_shapes(wanted_in, {wanted: shape}).conflicts
    known = {conflict.node for conflict in infer_shapes(wanted_in).conflicts} if conflicts else set()
    for conflict in conflicts:
        if conflict.node not in known:
            message = f"{what} {facts['found']}, which does not fit {taking}: {conflict.text}"
            raise EditError(message, code="shape-mismatch", facts=facts, node=conflict.node.name)


def against(result: EditResult, archive: str, *, rtol: float = 0.0, atol: float = 0.0) -> EditResult:
    """Returns `result` with the additional claim that the added graph returns the values in `archive`.

    Args:
        result: of add_preprocessing, add_postprocessing or insert.
        archive: an .npz file with the values of the placeholders and of the results of the added graph, by name. The
            values of further samples have the names ``NAME@1``, ``NAME@2``, ...
        rtol, atol: by how much floats may differ.
    """
    for claim in result.claims:
        for part in (claim,) if isinstance(claim, SamePart) else claim.parts if isinstance(claim, SameGiven) else ():
            pairs = tuple((name, mine) for name, (mine, _) in zip(part.inputs, part.outputs, strict=False))
            result.claims = (*result.claims, LikeReference(part.part, pairs, archive, rtol, atol))
    return result
