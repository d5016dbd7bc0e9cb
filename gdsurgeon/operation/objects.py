"""What the objects of a model are to be after an edit: each signature that it touches is one function again.

Loaders of TensorFlow 1 run the nodes of the graph, those of TensorFlow 2 the objects' functions. Measured with
TensorFlow 2.21: ``tf.saved_model.load`` and Keras' TFSMLayer run the functions that the object graph names, and none
of the nodes beside them; the C API, servers and ``tf.compat.v1.saved_model.load`` run the nodes that signatures name.
Names of nodes, and what is inside functions, all of them see.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.container.container import Container
from gdsurgeon.container.held import held_nodes
from gdsurgeon.container.meta_graph import MetaGraph, Objects
from gdsurgeon.container.objects import ObjectGraph, SignatureFunction
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.functions import signature_function
from gdsurgeon.errors import EditError, InputError, Json, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import node_now, serving_of
from gdsurgeon.graph.serving import INIT
from gdsurgeon.operation.signatures import is_as_before
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.text import counted, named
from gdsurgeon.wire.protos import FunctionDef, SignatureDef

_UNSEEN = "tf.saved_model.load would ignore this edit: "
_ADVICE = "without-objects"


def objects_after(
    meta: MetaGraph, touched: Collection[str], definitions: Mapping[str, SignatureDef] | None
) -> Objects | None:
    """The objects of META after an edit; None where they are what they were.

    Args:
        meta: its graph is edited.
        touched: keys of the signatures that are computed by other nodes than before, or are others.
        definitions: the signatures as they are written, where some are not as before.

    Raises:
        EditError: a touched signature cannot be a function, or needs a node that no object stands for.
    """
    graph, objects = meta.graph, ObjectGraph(meta.objects_now())
    serving = serving_of(graph)
    assert serving is not None
    added = _lost(graph, objects)
    keys = [key for key in serving.signatures if key != INIT]
    if definitions is None:
        return Objects(objects.proto, added) if added else None
    was = ObjectGraph(meta.around.object_graph_def).signatures
    if not objects.has_signature_map:
        raise EditError(f"{_UNSEEN}the model's objects have no signatures", advice=_ADVICE, code="not-served")
    held = _held_now(graph, held_nodes(meta))
    made: dict[str, SignatureFunction] = {}
    for key in keys:
        if key in touched or key not in was:
            _check_plain(key, definitions[key])
            function, captured = signature_function(graph, key, serving.signatures[key], held)
            for node in captured:
                if node not in held:
                    held[node] = objects.add_constant(node.name)
            made[key] = SignatureFunction(function.signature.name, [held[node] for node in captured])
            added.append(function)
    objects.set_signatures(definitions, keys, made)
    replaced = {was[key].name for key in was if key in made or key not in keys}
    return Objects(objects.proto, added, sorted(replaced - objects.functions - used_functions(graph)))


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

    Those that are copies of others have the values of these, see `gdsurgeon.operation.surroundings.copies_faults`.
    """
    graph = container.graph
    scopes = graph.serving.copies if graph.serving is not None else ()
    copies = {copy for copied in scopes for copy in copied.nodes.values()}
    added = [node for name in result.intent.added if (node := graph.find(name)) is not None]
    new = [node.name for node in added if is_variable(node.op) and node not in copies]
    if new:
        raise EditError(
            f"the model would have {counted(len(new), 'variable')} ({named(new, 3)}) without values: neither "
            "its checkpoint nor an initializer has them",
            hint="freeze the model first: its variables become constants, which are copied",
            code="not-restored",
        )


def check_no_new_variables(graph: Graph) -> None:
    """Raises EditError where copies of variables of GRAPH have values of their own: no object stands for these."""
    copies = graph.serving.copies if graph.serving is not None else ()
    new = [copy.name for copied in copies if copied.keys for copy in copied.nodes.values() if is_variable(copy.op)]
    if new:
        which = f"{counted(len(new), 'new variable')} ({named(new, 3, quoted)})"
        advice = (_ADVICE, "share-variables")
        message = f"{_UNSEEN}the model's objects cannot hold {which}"
        raise EditError(message, advice=advice, code="not-served", facts={"variables": new})


def unseen(objects: Objects, touched: Collection[str]) -> list[str]:
    """What tf.saved_model.load does not see of an edit that touches the signatures TOUCHED."""
    out = []
    callables = ObjectGraph(objects.graph).callables
    if callables and set(touched) - {INIT}:
        out.append(
            f"the model's other functions ({named(callables, 3)}) are unchanged: only its signatures have the edit"
        )
    if INIT in touched:
        out.append(
            "tf.saved_model.load initializes the model by its unchanged objects, although the graph's "
            "initializer differs"
        )
    return out


def _lost(graph: Graph, objects: ObjectGraph) -> list[FunctionDef]:
    """The functions that OBJECTS need and that the edit of GRAPH has left without a caller there."""
    lost = [name for name in sorted(objects.functions) if name not in graph.functions]
    before = graph.pristine().functions
    return [before[name] for name in before.reachable(lost) if name not in graph.functions]


def _check_plain(key: str, definition: SignatureDef) -> None:
    for name, info in (*definition.inputs.items(), *definition.outputs.items()):
        if info.WhichOneof("encoding") != "name":
            raise EditError(
                f"{_UNSEEN}{quoted(name)} of the signature {quoted(key)} is not a dense tensor",
                advice=_ADVICE,
                code="not-served",
            )


def _held_now(graph: Graph, held: Mapping[str, int]) -> dict[Node, int]:
    """The objects that nodes of the edited GRAPH stand for; HELD has them by the names in the file.

    Raises:
        EditError: such a node is another than it was: a loader makes it anew from the object.
    """
    out: dict[Node, int] = {}
    for name, place in held.items():
        now = node_now(graph, name)
        if now is not None:
            out[graph[now]] = place
            if graph[now].op != "Const" and not is_as_before(graph, graph[now]):  # the object is what the Const holds
                raise EditError(
                    f"{_UNSEEN}the edit changes {quoted(now)} ({printable(graph[now].op)}), "
                    "but the loader creates this node from the model's objects",
                    advice=_ADVICE,
                    code="not-served",
                    facts={"node": now},
                )
    return out
