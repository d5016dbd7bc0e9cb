"""Makes a SavedModel around a graph that had none: one MetaGraph, tagged to serve, of the kind of TensorFlow 1."""

from __future__ import annotations

import os

from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.container.container import META_GRAPHS
from gdsurgeon.container.meta_graph import GRAPH
from gdsurgeon.container.restoring import INIT_COLLECTIONS
from gdsurgeon.graph.attrs import shape_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.serving import Served, Serving
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.op_defs import table_version
from gdsurgeon.wire.fields import LEN, VARINT, encode_varint
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.protos import SignatureDef, TensorInfo
from gdsurgeon.wire.write import Chunk, size_of

TAG = "serve"
_SCHEMA = 1


def saved_model(graph: Graph) -> list[Chunk]:
    """``saved_model.pb`` with GRAPH, served as `Graph.serving` says; the graph goes from file to file."""
    serving = graph.serving or Serving()
    around = message("tensorflow.MetaGraphDef")()
    around.meta_info_def.tags.append(TAG)
    around.meta_info_def.tensorflow_version = table_version()
    for key, served in serving.signatures.items():
        _put_signature(around.signature_def[key], graph, served)
    if serving.initialising is not None:
        if serving.initialising.targets:
            names = around.collection_def[INIT_COLLECTIONS[0]].node_list.value
            names.extend(serving.initialising.targets)
        for tensor, path in serving.initialising.feeds.items():
            asset = around.asset_file_def.add(filename=os.path.basename(path))
            asset.tensor_info.name = _spelt(tensor)
    inner = graph.chunks()
    meta: list[Chunk] = [
        encode_varint(GRAPH << 3 | LEN) + encode_varint(size_of(inner)),
        *inner,
        around.SerializeToString(deterministic=True),
    ]
    head = encode_varint(1 << 3 | VARINT) + encode_varint(_SCHEMA)
    return [head + encode_varint(META_GRAPHS << 3 | LEN) + encode_varint(size_of(meta)), *meta]


def _put_signature(definition: SignatureDef, graph: Graph, served: Served) -> None:
    definition.method_name = served.method
    for named, infos in ((served.inputs, definition.inputs), (served.outputs, definition.outputs)):
        for name, tensor in named.items():
            _put_info(infos[name], graph, tensor)


def _put_info(info: TensorInfo, graph: Graph, tensor: str) -> None:
    output = graph.tensor(tensor)
    info.name = _spelt(tensor)
    info.dtype = base_dtype(output.dtype)
    info.tensor_shape.CopyFrom(shape_value(graph.derived(infer_shapes).shape(output)).shape)


def _spelt(tensor: str) -> str:
    """A tensor as models spell it, always with its index."""
    ref = parse_tensor(tensor)
    return f"{ref.node}:{ref.port}"
