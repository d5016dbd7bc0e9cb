"""signature: renames, adds and removes the signatures of a model; the graph does not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import members, topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs, equation
from gdsurgeon.edits.decorator import edit, of_field, of_tensors
from gdsurgeon.errors import EditError, NothingToDo, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output
from gdsurgeon.graph.serving import INIT, PREDICT, Served, Serving, no_signature
from gdsurgeon.ops.dtypes import REF, RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import UNSET_PLACEHOLDERS, VARIABLES, is_variable
from gdsurgeon.text import Entry, nearest, suggestion


@edit(inputs=of_field("tensor", of_tensors), outputs=of_field("tensor", of_tensors))
def change_signatures(
    graph: Graph,
    *,
    renamed: Pairs[str, str] = (),
    removed: Sequence[str] = (),
    inputs: Sequence[Named] = (),
    outputs: Sequence[Named] = (),
) -> EditResult:
    """Changes the signatures of the model of the graph.

    Args:
        graph: only `Graph.serving` changes.
        renamed: pairs (``KEY``, new key), or (``KEY/name``, new name) for an input or output.
        removed: keys, or ``KEY/name`` of single inputs and outputs.
        inputs, outputs: tensors to add to the signatures of their keys, which can be new.

    Raises:
        EditError: the graph is not part of a model with signatures; no such key or name; a name is taken; or a
            signature would have no outputs, or outputs that depend on a placeholder that is not an input.
        NothingToDo: the signatures are already as requested.
    """
    if graph.serving is None:
        message = f"{printable(graph.source_name)} is a plain GraphDef, which has no signatures"
        raise EditError(message, code="wrong-format", file=graph.source_name)
    before = dict(graph.serving.signatures)
    after = dict(before)
    for item in removed:
        key, name = _found(after, item)
        if name:
            sides = [{n: t for n, t in side.items() if n != name} for side in after[key][:2]]
            after[key] = Served(sides[0], sides[1], after[key].method)
        else:
            del after[key]
    for old, new in pairs_of(renamed):
        key, name = _found(after, old)
        if name:
            if name != new and any(name in side and new in side for side in after[key][:2]):
                message = f"the signature {quoted(key)} already has an input or output {quoted(new)}"
                raise EditError(message, code="name-taken", signature=key, name=new)
            sides = [{new if n == name else n: tensor for n, tensor in side.items()} for side in after[key][:2]]
            after[key] = Served(sides[0], sides[1], after[key].method)
            continue
        if new in after:
            raise EditError(f"the signature {quoted(new)} exists already", code="name-taken", signature=new)
        if not new:
            message = f"the new name of the signature {quoted(key)} is empty"
            raise EditError(message, code="bad-name", signature=key, name=new)
        after[new] = after.pop(key)
    for key in dict.fromkeys(item.key for item in (*inputs, *outputs)):
        after[key] = with_added(after.get(key, Served({}, {}, PREDICT)), key, inputs, outputs)
    if after == before:
        raise NothingToDo("nothing would change: the signatures are already as requested")
    changed = {key: resolved(graph, key, served) for key, served in after.items() if before.get(key) != served}

    graph.serving = graph.serving._replace(signatures=after | changed)
    summary = [told(key, served) for key, served in changed.items()]
    summary += [Entry("removed", f"signature {key}") for key in before if key not in after]
    claim = SameGiven({}, pairs(changed), equation(())) if changed else SameOutputs(even_alone=True)
    return EditResult(Intent(), (claim,), told=summary)


def _found(signatures: Mapping[str, Served], item: str) -> tuple[str, str]:
    """Returns the key in `item`, a key or ``KEY/name``, and the name, which can be ''. Raises EditError."""
    if item in signatures and item != INIT:
        return item, ""
    key, slash, name = item.partition("/")
    if not slash or key not in signatures:
        missing = no_signature(key, signatures)
        raise EditError(f"the model has {missing}", code=missing.code, facts=missing.facts)
    names = (*signatures[key].inputs, *signatures[key].outputs)
    if name not in names:
        near = nearest(name, names)
        message = f"the signature {quoted(key)} has no input or output {quoted(name)}.{suggestion(near)}".rstrip(".")
        raise EditError(message, code="no-such-tensor", signature=key, name=name, near=near)
    return key, name


DEFAULT_KEY = "serving_default"


class Named(NamedTuple):
    """A tensor of a signature: its name for callers, the tensor, and the key of the signature."""

    name: str
    tensor: str
    key: str = DEFAULT_KEY


def signature_of(graph: Graph, serving: Serving, key: str) -> Served:
    """Returns the signature `key`. Raises EditError if it does not exist."""
    found = serving.called.get(key)
    if found is None:
        missing = no_signature(key, serving.called)
        raise EditError(f"{printable(graph.source_name)} has {missing}", code=missing.code, facts=missing.facts)
    return found


def with_added(served: Served, key: str, inputs: Sequence[Named], outputs: Sequence[Named]) -> Served:
    """Returns the signature `key` with its further `inputs` and `outputs`. Raises EditError if a name is taken."""
    sides = []
    for what, items, named in (("input", inputs, served.inputs), ("output", outputs, served.outputs)):
        side = dict(named)
        for item in items:
            if item.key == key:
                if item.name in side:
                    raise EditError(
                        f"the signature {quoted(key)} has two {what}s {quoted(item.name)}",
                        code="name-taken",
                        signature=key,
                        name=item.name,
                    )
                side[item.name] = item.tensor
        sides.append(side)
    return Served(sides[0], sides[1], served.method)


def resolved(graph: Graph, key: str, served: Served, *, is_frozen: bool = False) -> Served:
    """Returns the signature `key` with the names of its tensors in the graph. A frozen graph has no variables.

    Raises:
        EditError: no such tensor, or it cannot be fed or fetched; the signature has no outputs, or outputs that depend
            on a placeholder that is not an input, or in a frozen graph on a variable.
    """
    if not served.outputs:
        message = f"the signature {quoted(key)} has no outputs: name at least one"
        raise EditError(message, code="no-such-output", signature=key)
    starts = {name: _dense(graph, tensor, "fed") for name, tensor in served.inputs.items()}
    ends = {name: _dense(graph, tensor, "fetched") for name, tensor in served.outputs.items()}
    for tensor in starts.values():
        if tensor.node.op == "Const":
            raise EditError(
                f"{quoted(tensor.name)} is a constant and cannot be an input: callers expect that its value "
                "depends on the call",
                code="is-constant",
                signature=key,
                tensor=tensor.name,
            )
    topology = topology_of(graph)
    given = {topology.code(tensor) for tensor in starts.values()}
    above = topology.upstream([topology.id_of(tensor.node) for tensor in ends.values()], given=given)
    for number in topology.with_ops(UNSET_PLACEHOLDERS):
        node = topology.node(number)
        if above[number] and node.output not in starts.values():
            line = f"the outputs of the signature {quoted(key)} depend on {quoted(node.name)}"
            raise EditError(
                f"{line}, which is not an input of the signature", code="no-such-input", signature=key, node=node.name
            )
    for number in members(above) if is_frozen else ():
        if is_variable(topology.op(number)):
            name = topology.name(number)
            message = f"{quoted(name)} is a variable, but {printable(graph.source_name)} does not hold its value"
            raise EditError(message, code="is-variable", node=name)
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
        raise EditError(message, code="unfeedable", tensor=tensor.name)
    return tensor


def told(key: str, served: Served) -> Entry:
    """Returns a signature as an entry of the summary."""
    return Entry("signature", f"{printable(key)}({_side(served.inputs)}) -> {_side(served.outputs)}")


def _side(named: Mapping[str, str]) -> str:
    pairs = (name if name == tensor else f"{name} = {tensor}" for name, tensor in named.items())
    return ", ".join(map(printable, pairs))


def pairs(signatures: Mapping[str, Served]) -> tuple[tuple[str, str], ...]:
    """Returns the outputs of signatures, each with itself: their values do not change."""
    tensors = dict.fromkeys(tensor for served in signatures.values() for tensor in served.outputs.values())
    return tuple((tensor, tensor) for tensor in tensors)
