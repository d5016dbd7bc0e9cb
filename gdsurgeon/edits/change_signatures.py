"""signature: the signatures of a model are renamed, added and removed; its graph stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs, equation
from gdsurgeon.edits.naming import naming, of_field, of_tensors
from gdsurgeon.edits.signatures import Named, pairs, resolved, told, with_added
from gdsurgeon.errors import EditError, NothingToDo, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import INIT, PREDICT, Served, no_signature
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import Entry, nearest, suggestion


@public
@naming(inputs=of_field("tensor", of_tensors), outputs=of_field("tensor", of_tensors))
@edit
def change_signatures(
    graph: Graph,
    *,
    renamed: Pairs[str, str] = (),
    removed: Sequence[str] = (),
    inputs: Sequence[Named] = (),
    outputs: Sequence[Named] = (),
) -> EditResult:
    """Changes the signatures of the model that GRAPH is part of.

    Args:
        graph: stays as it is, but for `Graph.serving`.
        renamed: pairs (``KEY``, new key), or (``KEY/name``, new name) for an input or output.
        removed: keys; or ``KEY/name`` of single inputs and outputs.
        inputs, outputs: what is added to the signatures of their keys, which need not be there yet.

    Raises:
        EditError: GRAPH is part of no model with signatures; there is no such key or name; one is taken; or a signature
            would give nothing, or something that depends on what it does not take.
        NothingToDo: nothing is asked for that is not so already.
    """
    if graph.serving is None:
        message = f"{printable(graph.source_name)} is a plain GraphDef, which has no signatures"
        raise EditError(message, code="wrong-format", facts={"file": graph.source_name})
    before = dict(graph.serving.signatures)
    after = dict(before)
    for item in removed:
        _remove(after, item)
    for old, new in pairs_of(renamed):
        _rename(after, old, new)
    for key in dict.fromkeys(item.key for item in (*inputs, *outputs)):
        after[key] = with_added(after.get(key, Served({}, {}, PREDICT)), key, inputs, outputs)
    if after == before:
        raise NothingToDo("nothing would change: the signatures are already as requested")
    touched = {key: resolved(graph, key, served) for key, served in after.items() if before.get(key) != served}

    graph.serving = graph.serving._replace(signatures=after | touched)
    lines = [told(key, served) for key, served in touched.items()]
    lines += [Entry("removed", f"signature {key}") for key in before if key not in after]
    claim = SameGiven({}, pairs(touched), equation(())) if touched else SameOutputs(even_alone=True)
    return EditResult(Intent(), (claim,), told=lines)


def _found(signatures: Mapping[str, Served], item: str) -> tuple[str, str]:
    """The key that ITEM is, and the name of an input or output of it, where it names one.

    Raises:
        EditError: there is none.
    """
    if item in signatures and item != INIT:
        return item, ""
    key, slash, name = item.partition("/")
    if not slash or key not in signatures:
        missing = no_signature(key, signatures)
        raise EditError(f"the model has {missing}", code=missing.code, facts=missing.facts)
    names = (*signatures[key].inputs, *signatures[key].outputs)
    if name not in names:
        near = nearest(name, names)
        raise EditError(
            f"the signature {quoted(key)} has no input or output {quoted(name)}.{suggestion(near)}".rstrip("."),
            code="no-such-tensor",
            facts={"signature": key, "name": name, "near": near},
        )
    return key, name


def _remove(signatures: dict[str, Served], item: str) -> None:
    key, name = _found(signatures, item)
    if not name:
        del signatures[key]
        return
    served = signatures[key]
    signatures[key] = served._replace(
        inputs={other: tensor for other, tensor in served.inputs.items() if other != name},
        outputs={other: tensor for other, tensor in served.outputs.items() if other != name},
    )


def _rename(signatures: dict[str, Served], old: str, new: str) -> None:
    key, name = _found(signatures, old)
    if not name:
        if new in signatures:
            message = f"the signature {quoted(new)} exists already"
            raise EditError(message, code="name-taken", facts={"signature": new})
        if not new:
            message = f"the new name of the signature {quoted(key)} is empty"
            raise EditError(message, code="bad-name", facts={"signature": key, "name": new})
        signatures[new] = signatures.pop(key)
        return
    served = signatures[key]
    signatures[key] = served._replace(
        inputs=_respelt(served.inputs, name, new, key), outputs=_respelt(served.outputs, name, new, key)
    )


def _respelt(named: Mapping[str, str], old: str, new: str, key: str) -> dict[str, str]:
    if old in named and new in named and old != new:
        message = f"the signature {quoted(key)} already has an input or output {quoted(new)}"
        raise EditError(message, code="name-taken", facts={"signature": key, "name": new})
    return {new if name == old else name: tensor for name, tensor in named.items()}
