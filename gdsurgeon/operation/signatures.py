"""The signatures of a model after an edit: which of them it touches, and how they are written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.mentions import respell
from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor, plain_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of, tensor_now
from gdsurgeon.graph.serving import INIT, Served
from gdsurgeon.operation.making import known_shape, put_signature, put_type
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.wire.protos import MetaGraphDef, SignatureDef, TensorInfo

if TYPE_CHECKING:
    from google.protobuf.internal.containers import MessageMap


def touched_signatures(meta: MetaGraph, intent: Intent) -> list[str]:
    """The keys of the signatures of META that compute something by other nodes after an edit, or are others.

    INTENT is what the edit says. Names of nodes, and what is inside functions, do not count.
    """
    graph = meta.graph
    serving = serving_of(graph)
    if serving is None or graph.serving is None:
        return []
    others = {key for key, served in graph.serving.signatures.items() if meta.signatures.get(key) != served}
    names = {*intent.added, *intent.changed, *(rewired.node for rewired in intent.rewired)}
    nodes = [node for name in names if (node := graph.find(name)) is not None]
    others_than_before = [node for node in nodes if not is_as_before(graph, node)]
    return [
        key
        for key, served in serving.signatures.items()
        if key in others or _depends(graph, served, nodes if key != INIT else others_than_before)
    ]


def is_as_before(graph: Graph, node: Node) -> bool:
    """Whether NODE of GRAPH computes what it did in the file, from the same, wherever it does so."""
    if node.base_name is None or node.op_override is not None or node.changed_attrs:
        return False
    then = graph.pristine().base_node(node.base_name)
    return _reads(node) == _reads(then)


def _reads(node: Node) -> tuple[list[tuple[str | None, int]], set[str | None]]:
    """What NODE reads and waits for, by the names in the file."""
    return [(read.node.base_name, read.index) for read in node.inputs], {other.base_name for other in node.controls}


def _depends(graph: Graph, served: Served, nodes: Collection[Node]) -> bool:
    """Whether the signature SERVED, in today's names, takes or depends on one of NODES."""
    if not nodes:
        return False
    inputs = [graph.tensor(text) for text in served.inputs.values()]
    ends = [graph[parse_tensor(text).node] for text in served.outputs.values()]  # an initialiser gives no tensor
    topology = topology_of(graph)
    given = {topology.code(tensor) for tensor in inputs}
    above = topology.upstream(map(topology.id_of, ends), given=given)
    fed = {tensor.node for tensor in inputs}
    return any(node in fed or above[topology.id_of(node)] for node in nodes)


def definitions(meta: MetaGraph, touched: Collection[str]) -> dict[str, SignatureDef] | None:
    """The signatures of META as they are now, after an edit by which TOUCHED are others; None where none is.

    What is said there of a tensor stays, where the tensor is what it was.
    """
    graph = meta.graph
    serving = serving_of(graph)
    if (
        serving is None
        or graph.serving is None
        or (not touched and graph.serving.signatures.keys() == meta.signatures.keys())
    ):
        return None
    own = meta.around.signature_def
    known = {
        plain_tensor(info.name): info
        for old in own.values()
        for side in (old.inputs, old.outputs)
        for info in side.values()
        if info.WhichOneof("encoding") == "name"
    }
    part = MetaGraphDef()
    for key, served in graph.serving.signatures.items():
        same = next((old for old in (key, *own) if meta.signatures.get(old) == served), None)
        if same is not None:
            part.signature_def[key].CopyFrom(own[same])
        else:
            is_new = any(parse_tensor(text).node not in graph.pristine() for text in served.tensors)
            put_signature(part.signature_def[key], graph if is_new else graph.pristine(), served, known)
            _put_defaults(part.signature_def[key], served, own)
    respell(part, lambda text: tensor_now(graph, text))
    for key in touched:
        if key == INIT:
            continue
        served, definition = graph.serving.signatures[key], part.signature_def[key]
        for name in set(served.inputs) - set(serving.signatures[key].inputs):
            definition.inputs.pop(name, None)
            definition.defaults.pop(name, None)
        for named, infos in ((served.inputs, definition.inputs), (served.outputs, definition.outputs)):
            for name in _renew(graph, named, infos):
                definition.defaults.pop(name, None)
    return dict(part.signature_def)


def _put_defaults(definition: SignatureDef, served: Served, own: Mapping[str, SignatureDef]) -> None:
    """Has DEFINITION, of SERVED, keep what its inputs are by default in the signatures that are there, OWN."""
    for old in own.values():
        kept = {
            plain_tensor(old.inputs[name].name): value for name, value in old.defaults.items() if name in old.inputs
        }
        for name, tensor in served.inputs.items():
            if tensor in kept:
                definition.defaults[name].CopyFrom(kept[tensor])


def _renew(graph: Graph, named: Mapping[str, str], infos: MessageMap[str, TensorInfo]) -> Iterator[str]:
    """Has INFOS, in today's names, say the types of the tensors NAMED, in those of the file, where they are others.

    Yields the names of these.
    """
    then = graph.pristine()
    for name, text in named.items():
        now = graph.tensor(tensor_now(graph, text) or text)
        if parse_tensor(text).node not in then:
            continue  # of a node that was added: it is said as it is now
        if name in infos and _type(graph, now) != _type(then, then.tensor(text)):
            put_type(infos[name], graph, now)
            yield name


def _type(graph: Graph, tensor: Output) -> tuple[int, Shape]:
    return base_dtype(tensor.dtype), known_shape(graph, tensor)
