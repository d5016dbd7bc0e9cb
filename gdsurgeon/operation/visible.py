"""What has to hold of a model around an edited graph: variables get their values, functions compute the signatures."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gdsurgeon.container.container import Container
from gdsurgeon.container.held import Unlike, held_by, held_nodes
from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.container.objects import ObjectGraph
from gdsurgeon.container.restoring import restored_keys
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import EditError, InputError, Json, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import node_now
from gdsurgeon.graph.serving import INIT, Copied
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.text import counted, named


def check_functions(meta: MetaGraph) -> None:
    """Raises InputError if the objects of META name functions that its graph did not have when it was read."""
    functions = meta.graph.pristine().functions
    missing = sorted(name for name in ObjectGraph(meta.around.object_graph_def).functions if name not in functions)
    if missing:
        name = meta.graph.source_name
        line = f"{printable(name)} is corrupt: its objects use the function {quoted(missing[0])}, which does not exist"
        facts: dict[str, Json] = {"file": name, "function": missing[0], "count": len(missing)}
        raise InputError(line, code="no-such-function", facts=facts, advice="without-objects")


def check_restorable(container: Container, result: EditResult) -> None:
    """Raises EditError where RESULT has added variables, which the checkpoint of CONTAINER has no values for.

    Those that are copies of others have the values of these, see `copies_faults`.
    """
    graph = container.graph
    copies = {copy for copied in _copies(graph) for copy in copied.nodes.values()}
    added = [node for name in result.intent.added if (node := graph.find(name)) is not None]
    new = [node.name for node in added if is_variable(node.op) and node not in copies]
    if new:
        raise EditError(
            f"the model would have {counted(len(new), 'variable')} ({named(new, 3)}) without values: neither "
            "its checkpoint nor an initializer has them",
            hint="freeze the model first: its variables become constants, which are copied",
            code="not-restored",
        )


def _copies(graph: Graph) -> tuple[Copied, ...]:
    return graph.serving.copies if graph.serving is not None else ()


def wrong_functions(meta: MetaGraph, written: MetaGraph, touched: Collection[str]) -> Iterator[Remark]:
    """What is wrong with the functions, as they are WRITTEN, that compute the signatures TOUCHED of META.

    Each of them is compared with the nodes of its signature, one by one.
    """
    if not touched:
        return  # the objects are as they were, and may be corrupt
    objects = ObjectGraph(written.around.object_graph_def)
    known = {now: place for name, place in held_nodes(meta).items() if (now := node_now(meta.graph, name)) is not None}
    for key in touched:
        function = objects.signatures.get(key)
        if key == INIT or key not in written.signatures:
            continue
        if function is None:
            yield Remark(f"the objects have no signature {quoted(key)}", "no-such-signature", signature=key)
            continue
        try:
            held = held_by(written.graph, written.signatures[key], function)
        except (Unlike, EditError, InputError) as unlike:
            text = f"the function of the signature {quoted(key)} differs: {unlike}"
            yield Remark(text, "wrong-function", signature=key)
            continue
        for node, place in held.items():
            if known.get(node, place) != place or (node not in known and objects.constant(place) != node):
                text = f"the function of the signature {quoted(key)} gets {quoted(node)} from a different object"
                yield Remark(text, "wrong-function", signature=key, node=node)


def copies_faults(container: Container, written: MetaGraph) -> Iterator[Remark]:
    """What is wrong with the variables that were copied, as they are WRITTEN of CONTAINER, a line each.

    Each is restored where its original is, from a key of its own, which is to hold the same.
    """
    copies = _copies(container.graph)
    if not copies:
        return
    serving = container.graph.serving
    before = (serving.before or serving).keys if serving is not None else {}
    after = restored_keys(written)
    for copied in copies:
        for node, copy in copied.nodes.items():
            if not is_variable(node.op):
                continue
            old, new = before.get(node.base_name or ""), after.get(copy.name)
            if old is None or _is_shared(node, copy):
                continue
            if new is None or new.slice != old.slice or copied.keys.get(new.tensor) != old.tensor:
                key = new.tensor if new is not None else None
                source = "from nothing" if key is None else f"from {quoted(key)}"
                text = f"{quoted(copy.name)} is restored {source}, but {quoted(node.name)} from {quoted(old.tensor)}"
                yield Remark(text, "wrong-key", variable=copy.name, key=key, original=node.name, expected=old.tensor)


def _is_shared(node: Node, copy: Node) -> bool:
    """Whether both are one variable by the name that they share."""
    name = node.text_attr("shared_name")
    return bool(name) and name == copy.text_attr("shared_name")
