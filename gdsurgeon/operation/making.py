"""Makes a SavedModel around a graph that had none: one MetaGraph, tagged to serve, of the kind of TensorFlow 1."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

from gdsurgeon.analysis.shapes.arithmetic import compatible, merge, stated_shape
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.container.container import META_GRAPHS
from gdsurgeon.container.meta_graph import GRAPH, MAIN_OP
from gdsurgeon.graph.attrs import Shape, shape_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Output
from gdsurgeon.graph.serving import SavedVariable, Saver, Served, Serving
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.op_defs import table_version
from gdsurgeon.wire.fields import LEN, VARINT, encode_varint
from gdsurgeon.wire.protos import MetaGraphDef, SignatureDef, TensorInfo, VariableDef
from gdsurgeon.wire.write import Chunk, size_of

TAG = "serve"
_SCHEMA = 1
_V2 = 2
"""The version of a saver whose checkpoints are TensorBundles."""


def saved_model(graph: Graph, around: MetaGraphDef | None = None) -> list[Chunk]:
    """``saved_model.pb`` with GRAPH, which goes from file to file; what is AROUND it, None: as `Graph.serving` says."""
    inner = graph.chunks()
    meta: list[Chunk] = [
        encode_varint(GRAPH << 3 | LEN) + encode_varint(size_of(inner)),
        *inner,
        (around if around is not None else _around(graph)).SerializeToString(deterministic=True),
    ]
    head = encode_varint(1 << 3 | VARINT) + encode_varint(_SCHEMA)
    return [head + encode_varint(META_GRAPHS << 3 | LEN) + encode_varint(size_of(meta)), *meta]


def _around(graph: Graph) -> MetaGraphDef:
    serving = graph.serving or Serving()
    around = MetaGraphDef()
    around.meta_info_def.tags.append(TAG)
    around.meta_info_def.tensorflow_version = table_version()
    for key, served in serving.signatures.items():
        put_signature(around.signature_def[key], graph, served)
    put_initialising(around, serving)
    if serving.saver is not None:
        put_saver(around, serving.saver)
        for saved in serving.saver.variables:
            put_variable(around, saved, is_resource=True, is_trained=True)
    return around


def put_saver(around: MetaGraphDef, saver: Saver) -> None:
    """Has AROUND name SAVER, by which checkpoints are saved and restored."""
    around.saver_def.filename_tensor_name = spelt(saver.file_name)
    around.saver_def.save_tensor_name = spelt(saver.save)
    around.saver_def.restore_op_name = saver.restore
    around.saver_def.version = _V2


VARIABLES, TRAINED = "variables", "trainable_variables"
"""Collections of TensorFlow 1."""


def put_variable(
    around: MetaGraphDef, saved: SavedVariable, *, is_resource: bool, is_trained: bool, known: VariableDef | None = None
) -> None:
    """Has AROUND list a variable that its saver restores, with what is KNOWN of it besides."""
    entry = VariableDef()
    if known is not None:
        entry.CopyFrom(known)
    entry.variable_name, entry.initializer_name = spelt(saved.variable), saved.assign
    entry.initial_value_name, entry.snapshot_name = spelt(saved.value), spelt(saved.read)
    entry.is_resource, entry.trainable = is_resource, is_trained
    for collection in (VARIABLES, TRAINED)[: 1 + is_trained]:
        around.collection_def[collection].bytes_list.value.append(entry.SerializeToString(deterministic=True))


def put_initialising(around: MetaGraphDef, serving: Serving) -> None:
    """Has AROUND say what a loader of SERVING runs first, and which files it feeds."""
    run = serving.initialising
    if run is not None and run.targets:
        around.collection_def[MAIN_OP].node_list.value.extend([serving.main_op] if serving.main_op else run.targets)
    for tensor, path in run.feeds.items() if run is not None else ():
        asset = around.asset_file_def.add(filename=os.path.basename(path))
        asset.tensor_info.name = spelt(tensor)


def put_signature(
    definition: SignatureDef, graph: Graph, served: Served, known: Mapping[str, TensorInfo] = MappingProxyType({})
) -> None:
    """Has DEFINITION be SERVED, which names tensors of GRAPH; KNOWN is what is said of some of them already."""
    definition.method_name = served.method
    for named, infos in ((served.inputs, definition.inputs), (served.outputs, definition.outputs)):
        for name, tensor in named.items():
            infos[name].name = spelt(tensor)
            if tensor in known:
                infos[name].CopyFrom(known[tensor])
            else:
                put_type(infos[name], graph, graph.tensor(tensor))


def put_type(info: TensorInfo, graph: Graph, tensor: Output) -> None:
    """Has INFO say the dtype and the shape of TENSOR of GRAPH, as it is now."""
    info.dtype = base_dtype(tensor.dtype)
    info.tensor_shape.CopyFrom(shape_value(known_shape(graph, tensor)).shape)


def known_shape(graph: Graph, tensor: Output) -> Shape:
    """The shape of TENSOR of GRAPH: what is inferred, and what an edit has stated of a node that it has made."""
    inferred = graph.derived(infer_shapes).shape(tensor)
    stated = stated_shape(tensor) if tensor.node.base_name is None else None
    return merge(inferred, stated) if compatible(inferred, stated) else inferred


def spelt(tensor: str) -> str:
    """A tensor as models spell it, always with its index."""
    ref = parse_tensor(tensor)
    return f"{ref.node}:{ref.port}"
