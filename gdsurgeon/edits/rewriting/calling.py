"""A graph in the place of matches: it becomes a function, and each match a call of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.edits.functions import check_fusible, make_function, name_function
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.ops.kinds import UNSET_PLACEHOLDERS
from gdsurgeon.patterns.check import bound_by, replacement_of
from gdsurgeon.patterns.terms import Rule
from gdsurgeon.text import counted, nearest, suggestion
from gdsurgeon.wire.protos import FunctionDef

STEM = "rewritten"
"""What the names of such functions begin with."""


def function_of(body: Graph) -> FunctionDef:
    """BODY as a function of its placeholders, in their order, that gives what nobody reads in it.

    Raises:
        EditError: it has functions of its own, or something that none can hold.
    """
    if any(True for _ in body.functions):
        message = f"{printable(body.source_name)} has functions of its own: inline them first"
        raise EditError(message, code="has-functions", facts={"file": body.source_name})
    inputs, nodes = _inputs(body), [node for node in body.nodes() if node.op not in UNSET_PLACEHOLDERS]
    for node in nodes:
        check_fusible(node)
    function = make_function(nodes, inputs, _results(body), attrs={})
    name_function(function, STEM)
    return function


def calling(rule: Rule, body: Graph, function: FunctionDef) -> Rule:
    """RULE with a call of FUNCTION, which BODY has become, as what takes the place of its pattern.

    Raises:
        EditError: a placeholder is called like no variable of the pattern, or there are more or fewer results.
    """
    bound, where = bound_by(rule.pattern).tensors, printable(body.source_name)
    for tensor in _inputs(body):
        name = tensor.node.name
        if name not in bound:
            near = nearest(f"${name}", [f"${each}" for each in sorted(bound)])
            what = f"is a placeholder, but the pattern does not bind {quoted('$' + name)} in every match"
            message = f"{quoted(name)} of {where} {what}.{suggestion(near)}"
            raise EditError(message, code="unbound-input", facts={"node": name, "near": near})
    results = _results(body)
    if len(results) != len(rule.pattern):
        given = counted(len(results), "result")
        facts = {"expected": len(rule.pattern), "found": len(results)}
        message = f"{where} has {given}, but the pattern has {len(rule.pattern):,}"
        raise EditError(message, code="wrong-count", facts=facts)
    op = "StatefulPartitionedCall" if function.signature.is_stateful else "PartitionedCall"
    types = f"Tin={_types(_inputs(body))}, Tout={_types(results)}"
    read = ", ".join(f"${tensor.node.name}" for tensor in _inputs(body))
    call = f'rewritten={op}{{f="{function.signature.name}", {types}}}({read})'
    text = f"({', '.join([call, *(f'rewritten:{index}' for index in range(1, len(results)))])})"
    return replace(rule, replacement=replacement_of(rule, text), make=None, text=text, place="replacement, column ")


def _inputs(body: Graph) -> list[Output]:
    return [node.output for node in body.nodes() if node.op in UNSET_PLACEHOLDERS]


def _results(body: Graph) -> list[Output]:
    return [output for node in output_nodes(body) for output in node.outputs if node.op not in UNSET_PLACEHOLDERS]


def _types(tensors: Sequence[Output]) -> str:
    return f"[{', '.join(dtype_name(base_dtype(tensor.dtype)) for tensor in tensors)}]"
