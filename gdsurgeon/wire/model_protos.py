"""The messages of what stands around a graph, as type checkers see them; see `gdsurgeon.wire.protos`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.wire.protos import TensorShapeProto

if TYPE_CHECKING:
    from google.protobuf.internal.containers import MessageMap
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
    from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
    from google.protobuf.message import Message
else:
    Message = object


class CooSparse(Message):
    values_tensor_name: str
    indices_tensor_name: str
    dense_shape_tensor_name: str


class CompositeTensor(Message):
    components: Messages[TensorInfo]


class TensorInfo(Message):
    name: str
    coo_sparse: CooSparse
    composite_tensor: CompositeTensor
    dtype: int
    tensor_shape: TensorShapeProto


class SignatureDef(Message):
    inputs: MessageMap[str, TensorInfo]
    outputs: MessageMap[str, TensorInfo]
    method_name: str


class AssetFileDef(Message):
    tensor_info: TensorInfo
    filename: str


class NodeList(Message):
    value: Scalars[str]


class BytesList(Message):
    value: Scalars[bytes]


class AnyMessage(Message):
    type_url: str
    value: bytes


class AnyList(Message):
    value: Messages[AnyMessage]


class CollectionDef(Message):
    node_list: NodeList
    bytes_list: BytesList
    any_list: AnyList


class SaverDef(Message):
    filename_tensor_name: str
    save_tensor_name: str
    restore_op_name: str


class MetaInfo(Message):
    tags: Scalars[str]


class SavedConstant(Message):
    operation: str


class SavedFunction(Message):
    concrete_functions: Scalars[str]


class SavedObject(Message):
    constant: SavedConstant
    function: SavedFunction


class SavedConcreteFunction(Message):
    bound_inputs: Scalars[int]


class SavedObjectGraph(Message):
    nodes: Messages[SavedObject]
    concrete_functions: MessageMap[str, SavedConcreteFunction]


class MetaGraphDef(Message):
    meta_info_def: MetaInfo
    saver_def: SaverDef
    collection_def: MessageMap[str, CollectionDef]
    signature_def: MessageMap[str, SignatureDef]
    asset_file_def: Messages[AssetFileDef]
    object_graph_def: SavedObjectGraph


class VariableDef(Message):
    variable_name: str
    initial_value_name: str
    initializer_name: str
    snapshot_name: str
