"""What a signature is made of, for the edits that make and change signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output
from gdsurgeon.graph.serving import Served, Serving, no_signature
from gdsurgeon.ops.dtypes import REF, RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import UNSET_PLACEHOLDERS, VARIABLES
from gdsurgeon.text import Entry

DEFAULT_KEY = "serving_default"


class Named(NamedTuple):
    """A tensor of a signature: what callers call it, which it is, and the key of the signature."""

    name: str
    tensor: str
    key: str = DEFAULT_KEY


def signature_of(graph: Graph, serving: Serving, key: str) -> Served:
    """The signature KEY of those that are called. Raises EditError: there is none."""
    found = serving.called.get(key)
    if found is None:
        missing = no_signature(key, serving.called)
        raise EditError(f"{printable(graph.source_name)} has {missing}", code=missing.code, facts=missing.facts)
    return found


def with_added(served: Served, key: str, inputs: Sequence[Named], outputs: Sequence[Named]) -> Served:
    """SERVED, the signature KEY, with what of INPUTS and OUTPUTS is of that key. Raises EditError: a name is taken."""
    sides = []
    for what, items, named in (("input", inputs, served.inputs), ("output", outputs, served.outputs)):
        side = dict(named)
        for item in items:
            if item.key == key:
                if item.name in side:
                    raise EditError(
                        f"the signature {quoted(key)} has two {what}s {quoted(item.name)}",
                        code="name-taken",
                        facts={"signature": key, "name": item.name},
                    )
                side[item.name] = item.tensor
        sides.append(side)
    return Served(sides[0], sides[1], served.method)


def resolved(graph: Graph, key: str, served: Served) -> Served:
    """SERVED, the signature KEY, with its tensors as GRAPH spells them.

    Raises:
        EditError: there is no such tensor, or it cannot be fed or fetched; the signature gives nothing, or something
            that depends on a placeholder that it does not take.
    """
    if not served.outputs:
        message = f"the signature {quoted(key)} has no outputs: name at least one"
        raise EditError(message, code="no-such-output", facts={"signature": key})
    starts = {name: _dense(graph, tensor, "fed") for name, tensor in served.inputs.items()}
    ends = {name: _dense(graph, tensor, "fetched") for name, tensor in served.outputs.items()}
    for tensor in starts.values():
        if tensor.node.op == "Const":
            raise EditError(
                f"{quoted(tensor.name)} is a constant and cannot be an input: callers expect that its value "
                "depends on the call",
                code="is-constant",
                facts={"signature": key, "tensor": tensor.name},
            )
    topology = topology_of(graph)
    given = {topology.code(tensor) for tensor in starts.values()}
    above = topology.upstream([topology.id_of(tensor.node) for tensor in ends.values()], given=given)
    for number in topology.with_ops(UNSET_PLACEHOLDERS):
        node = topology.node(number)
        if above[number] and node.output not in starts.values():
            line = f"the outputs of the signature {quoted(key)} depend on {quoted(node.name)}"
            facts = {"signature": key, "node": node.name}
            raise EditError(f"{line}, which is not an input of the signature", code="no-such-input", facts=facts)
    return Served(
        {name: tensor.name for name, tensor in starts.items()},
        {name: tensor.name for name, tensor in ends.items()},
        served.method,
    )


def _dense(graph: Graph, text: str, done: str) -> Output:
    tensor = graph.tensor(text)
    is_reference = tensor.dtype > REF and done == "fed" and tensor.node.op not in VARIABLES
    if is_reference or base_dtype(tensor.dtype) in (RESOURCE, VARIANT):
        message = f"{quoted(tensor.name)} is a reference, a resource or a variant, which cannot be {done}"
        raise EditError(message, code="unfeedable", facts={"tensor": tensor.name})
    return tensor


def told(key: str, served: Served) -> Entry:
    """A signature as an entry of the summary."""
    return Entry("signature", f"{printable(key)}({_side(served.inputs)}) -> {_side(served.outputs)}")


def _side(named: Mapping[str, str]) -> str:
    pairs = (name if name == tensor else f"{name} = {tensor}" for name, tensor in named.items())
    return ", ".join(map(printable, pairs))


def pairs(signatures: Mapping[str, Served]) -> tuple[tuple[str, str], ...]:
    """The tensors that SIGNATURES give, each with itself: they are what they were."""
    tensors = dict.fromkeys(tensor for served in signatures.values() for tensor in served.outputs.values())
    return tuple((tensor, tensor) for tensor in tensors)
