"""TensorFlow's messages without TensorFlow: classes made from the descriptors kept as package data.

`NodeDef(name="x")` and `NodeDef.FromString(data)` create messages of the class that `message` makes of the descriptor
when it is first used. No object is an instance of the classes in this file, which declare the fields that are used
here; a DataType is an int.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from gdsurgeon.resources import exhausted
from gdsurgeon.wire.fields import fields

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.internal.containers import MessageMap, ScalarMap
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
    from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
    from google.protobuf.message import Message
    from google.protobuf.unknown_fields import UnknownFieldSet

DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data")


@cache
def _upb() -> Any:
    """Returns protobuf's C implementation, or None if a different implementation is used.

    Its public modules import these, but also load the pure Python implementation, which takes longer than a small
    edit.
    """
    if os.environ.get("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "upb") != "upb":
        return None
    try:
        from google._upb import _message
    except ImportError as error:
        if exhausted(error):
            raise
        return None
    # The C implementation loads this module itself, and crashes if that fails.
    import google.protobuf.internal.well_known_types  # noqa: F401

    return _message


@cache
def _pool() -> DescriptorPool:
    upb = _upb()
    if upb is None:
        from google.protobuf import descriptor_pool as upb
    # A separate pool, so that the classes do not clash with those of an imported TensorFlow.
    pool: DescriptorPool = upb.DescriptorPool()
    _add_files(pool, "graphdef.fds")
    return pool


def _add_files(pool: DescriptorPool, name: str) -> None:
    with open(os.path.join(DATA, name), "rb") as file:
        data = file.read()
    for field in fields(data, 0, len(data)):  # of a FileDescriptorSet, which holds only files
        try:
            pool.AddSerializedFile(data[field.value : field.end])
        except TypeError as error:  # the data belong to this package and are valid, so protobuf is out of memory
            raise MemoryError(str(error)) from error


@cache
def message(name: str) -> type[Message]:
    """Returns the class of the message with the full name `name`, such as ``tensorflow.NodeDef``."""
    try:
        descriptor = _pool().FindMessageTypeByName(name)
    except KeyError:  # a message outside the graph, which most commands do not need
        _add_files(_pool(), "models.fds")
        descriptor = _pool().FindMessageTypeByName(name)
    upb = _upb()
    if upb is not None:
        from google.protobuf.message import Message as Base

        # The class already exists if it is the class of a field of a different message.
        made: type[Message] = upb.MessageMeta(descriptor.name, (Base,), {"DESCRIPTOR": descriptor})
        return made
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(descriptor)


def unknown_fields(parsed: Message) -> UnknownFieldSet:
    """Returns the fields of a message (not of its submessages) that its type does not know."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    return UnknownFieldSet(parsed)


@cache
def decode_error() -> type[Exception]:
    """Returns the exception class that protobuf raises if bytes cannot be parsed as a message."""
    from google.protobuf.message import DecodeError

    return DecodeError


if not TYPE_CHECKING:

    class _Lazy(type):
        """The type of the classes in this file: calls and attributes are those of the message class."""

        def __call__(cls, **fields):
            return cls.message_class(**fields)

        def __getattr__(cls, name):
            package = "gdsurgeon" if issubclass(cls, (NodeColumns, NodeBodies)) else "tensorflow"
            made = message(f"{package}.{cls.__name__}")
            setattr(cls, name, made if name == "message_class" else getattr(made, name))
            return getattr(cls, name)

    class Message(metaclass=_Lazy):
        pass


class Dim(Message):
    size: int


class TensorShapeProto(Message):
    dim: Messages[Dim]
    unknown_rank: bool


class TensorProto(Message):
    dtype: int
    tensor_shape: TensorShapeProto
    tensor_content: bytes
    string_val: Scalars[bytes]


class ListValue(Message):
    s: Scalars[bytes]
    i: Scalars[int]
    f: Scalars[float]
    b: Scalars[bool]
    type: Scalars[int]
    shape: Messages[TensorShapeProto]
    tensor: Messages[TensorProto]
    func: Messages[NameAttrList]


class AttrValue(Message):
    s: bytes
    i: int
    f: float
    b: bool
    type: int
    shape: TensorShapeProto
    tensor: TensorProto
    list: ListValue
    func: NameAttrList
    placeholder: str


class NameAttrList(Message):
    name: str
    attr: MessageMap[str, AttrValue]


class DebugInfo(Message):
    original_node_names: Scalars[str]
    original_func_names: Scalars[str]


class NodeDef(Message):
    name: str
    op: str
    input: Scalars[str]
    device: str
    attr: MessageMap[str, AttrValue]
    experimental_debug_info: DebugInfo


class DtypeAndShape(Message):
    dtype: int
    shape: TensorShapeProto


class ArgDef(Message):
    name: str
    type: int
    type_attr: str
    number_attr: str
    type_list_attr: str
    is_ref: bool
    handle_data: Messages[DtypeAndShape]


class AttrDef(Message):
    name: str
    type: str
    default_value: AttrValue


class OpDef(Message):
    name: str
    input_arg: Messages[ArgDef]
    output_arg: Messages[ArgDef]
    control_output: Scalars[str]
    attr: Messages[AttrDef]
    description: str
    is_stateful: bool


class ArgAttrs(Message):
    attr: MessageMap[str, AttrValue]


class FunctionDef(Message):
    signature: OpDef
    attr: MessageMap[str, AttrValue]
    arg_attr: MessageMap[int, ArgAttrs]
    resource_arg_unique_id: ScalarMap[int, int]
    node_def: Messages[NodeDef]
    ret: ScalarMap[str, str]
    control_ret: ScalarMap[str, str]


class GradientDef(Message):
    function_name: str
    gradient_func: str


class FunctionDefLibrary(Message):
    function: Messages[FunctionDef]
    gradient: Messages[GradientDef]


class VersionDef(Message):
    producer: int
    min_consumer: int
    bad_consumers: Scalars[int]


class GraphDebugInfo(Message):
    files: Scalars[str]


class GraphDef(Message):
    node: Messages[NodeDef]
    versions: VersionDef
    library: FunctionDefLibrary
    debug_info: GraphDebugInfo


class AllocationRecord(Message):
    alloc_micros: int
    alloc_bytes: int


class AllocatorMemoryUsed(Message):
    allocator_name: str
    allocation_records: Messages[AllocationRecord]


class NodeExecStats(Message):
    node_name: str
    memory: Messages[AllocatorMemoryUsed]
    op_start_rel_micros: int
    op_end_rel_micros: int
    op_start_rel_nanos: int
    op_end_rel_nanos: int


class DeviceStepStats(Message):
    device: str
    node_stats: Messages[NodeExecStats]


class StepStats(Message):
    dev_stats: Messages[DeviceStepStats]


class NodeColumns(Message):
    """Many nodes as columns: NodeHeaders, or NodeLinks, which has no `op`."""

    name: Scalars[str]
    op: Scalars[str]
    input: Scalars[str]


class NodeHeaders(NodeColumns): ...


class NodeLinks(NodeColumns): ...


class NodeBodies(Message):
    node: Scalars[bytes]


class Extent(Message):
    start: int
    length: int


class TensorSliceProto(Message):
    extent: Messages[Extent]


class BundleHeaderProto(Message):
    num_shards: int
    endianness: int
    version: VersionDef


class BundleEntryProto(Message):
    dtype: int
    shape: TensorShapeProto
    shard_id: int
    offset: int
    size: int
    crc32c: int
    slices: Messages[TensorSliceProto]


class SavedSliceMeta(Message):
    name: str
    shape: TensorShapeProto
    type: int
    slice: Messages[TensorSliceProto]


class SavedTensorSliceMeta(Message):
    tensor: Messages[SavedSliceMeta]


class SavedTensorSlices(Message):
    meta: SavedTensorSliceMeta


class SerializedTensor(Message):
    name: str
    full_name: str
    checkpoint_key: str


class SlotVariableReference(Message):
    slot_variable_node_id: int


class TrackableObject(Message):
    attributes: Messages[SerializedTensor]
    slot_variables: Messages[SlotVariableReference]


class TrackableObjectGraph(Message):
    nodes: Messages[TrackableObject]


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
    defaults: MessageMap[str, TensorProto]


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
    version: int


class QueueRunnerDef(Message):
    queue_name: str
    enqueue_op_name: Scalars[str]
    close_op_name: str
    cancel_op_name: str


class MetaInfo(Message):
    tags: Scalars[str]
    tensorflow_version: str


class TensorSpecProto(Message):
    name: str
    shape: TensorShapeProto
    dtype: int


class NoneValue(Message):
    pass


class ListOfStructures(Message):
    values: Messages[StructuredValue]


class DictOfStructures(Message):
    fields: MessageMap[str, StructuredValue]


class PairOfStructures(Message):
    key: str
    value: StructuredValue


class NamedTupleOfStructures(Message):
    name: str
    values: Messages[PairOfStructures]


class StructuredValue(Message):
    none_value: NoneValue
    string_value: str
    tensor_spec_value: TensorSpecProto
    list_value: ListOfStructures
    tuple_value: ListOfStructures
    dict_value: DictOfStructures
    named_tuple_value: NamedTupleOfStructures


class FunctionSpec(Message):
    fullargspec: StructuredValue
    input_signature: StructuredValue


class SavedConstant(Message):
    operation: str


class SavedFunction(Message):
    concrete_functions: Scalars[str]


class SavedBareConcreteFunction(Message):
    concrete_function_name: str
    argument_keywords: Scalars[str]
    allowed_positional_arguments: int
    function_spec: FunctionSpec


class SavedUserObject(Message):
    identifier: str


class ObjectReference(Message):
    node_id: int
    local_name: str


class SavedVariable(Message):
    name: str
    dtype: int
    shape: TensorShapeProto
    trainable: bool


class SavedAsset(Message):
    asset_file_def_index: int


class SavedObject(Message):
    children: Messages[ObjectReference]
    slot_variables: Messages[SlotVariableReference]
    user_object: SavedUserObject
    asset: SavedAsset
    constant: SavedConstant
    function: SavedFunction
    variable: SavedVariable
    bare_concrete_function: SavedBareConcreteFunction


class SavedConcreteFunction(Message):
    bound_inputs: Scalars[int]
    canonicalized_input_signature: StructuredValue
    output_signature: StructuredValue


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


class ValuesDef(Message):
    values: Scalars[str]
    external_values: ScalarMap[str, str]


class ControlFlowContextDef(Message):
    cond_ctxt: ContextDef
    while_ctxt: ContextDef


class ContextDef(Message):
    """The base of WhileContextDef and of CondContextDef, which lacks the first fields."""

    pivot_for_pred_name: str
    pivot_for_body_name: str
    maximum_iterations_name: str
    loop_exit_names: Scalars[str]
    loop_enter_names: Scalars[str]
    context_name: str
    pivot_name: str
    values_def: ValuesDef
    nested_contexts: Messages[ControlFlowContextDef]


class WhileContextDef(ContextDef): ...


class CondContextDef(ContextDef): ...


class SliceInfo(Message):
    full_name: str


class VariableDef(Message):
    variable_name: str
    initial_value_name: str
    initializer_name: str
    snapshot_name: str
    is_resource: bool
    trainable: bool
    save_slice_info_def: SliceInfo
