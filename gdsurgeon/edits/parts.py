"""Binds the placeholders and results of an added graph to the tensors of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes
from gdsurgeon.analysis.shapes.inference import infer_shapes, shape_of_tensor
from gdsurgeon.analysis.shapes.stated import compatible, describe, mismatch, stated_shape, typed
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output, check_output
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.text import an


class Mapped(NamedTuple):
    """A binding that a user has spelt out: for the model's tensor, the placeholder and the result of the part."""

    model: str
    raw: str
    result: str


class Binding(NamedTuple):
    """A placeholder of the part, its result, and the node of the model that they belong to: its output PORT."""

    node: Node
    placeholder: Node
    result: Output
    port: int = 0

    @property
    def output(self) -> Output:
        """The tensor of the model."""
        return Output(self.node, self.port)

    def called(self, name: str) -> str:
        """The same output of the node NAME."""
        return format_input(name, self.port)


def bind(model: Graph, part: Graph, suffix: str, mapped: Sequence[Mapped]) -> list[Binding]:
    """The bindings of PART to MODEL, by name or as MAPPED has them, one for each placeholder of PART.

    Raises:
        EditError: PART has no placeholder, lacks a result, or a mapped name is not there.
    """
    by_raw = _by_placeholder(part, mapped)
    placeholders = [n for n in input_nodes(part) if n.op != "PlaceholderWithDefault" or n.name in by_raw]
    if not placeholders:
        message = f"{printable(part.source_name)} has no placeholder to connect"
        raise EditError(message, code="no-such-input", file=part.source_name)
    named = [by_raw[p.name].model if p.name in by_raw else p.name for p in placeholders]
    model.prefetch([*named, *part.names()])
    out: list[Binding] = []
    for placeholder in placeholders:
        spelt = by_raw.get(placeholder.name)
        name, index = parse_tensor(spelt.model) if spelt else (placeholder.name, 0)
        node = model.find(name)
        if node is None:
            missing = model.missing(name)
            raise EditError(
                f"the placeholder {quoted(placeholder.name)} of {printable(part.source_name)} has no "
                f"counterpart: {missing.message}",
                code=missing.code,
                advice="map-name",
                facts={**missing.facts, "placeholder": placeholder.name, "form": _map_form(suffix)},
            )
        if index:
            model.tensor(spelt.model if spelt else name)
        out.append(Binding(node, placeholder, _result(part, placeholder, spelt, suffix), index))
    doubled = {b.output.name for b in out if sum(other.output == b.output for other in out) > 1}
    if doubled:
        name = doubled.pop()
        message = f"two placeholders of {printable(part.source_name)} are connected to {quoted(name)}"
        raise EditError(message, code="given-twice", node=name)
    return out


def _by_placeholder(part: Graph, mapped: Sequence[Mapped]) -> Mapping[str, Mapped]:
    out: dict[str, Mapped] = {}
    for item in mapped:
        node = part[item.raw.removesuffix(":0")]
        if node.op not in PLACEHOLDERS:
            raise no_placeholder(node)
        if node.name in out:
            message = f"the placeholder {quoted(item.raw)} is mapped twice"
            raise EditError(message, code="given-twice", placeholder=node.name)
        out[node.name] = item
    return out


def no_placeholder(node: Node) -> EditError:
    """The error that NODE is to be a placeholder, and is none."""
    graph = node.graph.source_name
    message = f"{quoted(node.name)} of {printable(graph)} is {an(node.op)}, not a Placeholder"
    return EditError(message, code="not-a-placeholder", facts={"node": node.name, "op": node.op, "file": graph})


def _result(part: Graph, placeholder: Node, spelt: Mapped | None, suffix: str) -> Output:
    name = spelt.result if spelt else placeholder.name + suffix
    if spelt is None and name not in part:
        raise EditError(
            f"the placeholder {quoted(placeholder.name)} of {printable(part.source_name)} has no result: no "
            f"node is named {quoted(name)}",
            code="no-result",
            advice="map-result",
            facts={"placeholder": placeholder.name, "node": name, "form": _map_form(suffix)},
        )
    output = part.tensor(name)
    check_output(output)
    return output


def _map_form(suffix: str) -> str:
    return "INPUT=RAW,RESULT" if suffix.startswith("_pre") else "OUTPUT=RAW,RESULT"


def check_fits(given: Output, given_in: Graph, wanted: Output, wanted_in: Graph, warnings: list[str]) -> None:
    """Compares dtypes, and the shapes that are stated or follow from others; tries what is given in the other graph.

    Raises:
        EditError: they do not fit; the message says which tensor of which graph was expected to be what.
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
        message = f"{what} {describe(given)}, but {taking} expects {describe(wanted)}"
        raise EditError(message, code=code, facts={**facts, "found": describe(given)})
    shape = shape_of_tensor(given_in, given)
    facts["found"] = typed(given.dtype, shape)
    if not compatible(shape, stated_shape(wanted)):
        message = f"{what} {facts['found']}, but {taking} expects {describe(wanted)}"
        raise EditError(message, code="shape-mismatch", facts=facts)
    if shape is None or shape == stated_shape(wanted):
        return
    conflicts = infer_shapes(wanted_in, {wanted: shape}).conflicts
    known = {conflict.node for conflict in infer_shapes(wanted_in).conflicts} if conflicts else set()
    for conflict in conflicts:
        if conflict.node not in known:
            message = f"{what} {facts['found']}, which does not fit {taking}: {conflict.text}"
            raise EditError(message, code="shape-mismatch", facts={**facts, "node": conflict.node.name})
