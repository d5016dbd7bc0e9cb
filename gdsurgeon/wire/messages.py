"""TensorFlow's message types without TensorFlow: classes made from the descriptors kept as package data."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, overload

from gdsurgeon.resources import exhausted
from gdsurgeon.wire import protos
from gdsurgeon.wire.fields import fields

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message
    from google.protobuf.unknown_fields import UnknownFieldSet


DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data")


@cache
def _upb() -> Any:
    """protobuf's C implementation, or None where another one is in use.

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
    # It loads this itself, and crashes where that fails.
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


@cache
def _pool_of_models() -> DescriptorPool:
    """The same pool, with the messages of what stands around a graph: most commands do without."""
    _add_files(_pool(), "models.fds")
    return _pool()


def _add_files(pool: DescriptorPool, name: str) -> None:
    with open(os.path.join(DATA, name), "rb") as file:
        data = file.read()
    for field in fields(data, 0, len(data)):  # of a FileDescriptorSet, which has nothing but files
        try:
            pool.AddSerializedFile(data[field.value : field.end])
        except (
            TypeError
        ) as error:  # they are this package's own: what protobuf cannot parse is what it got no memory for
            raise MemoryError(str(error)) from error


_OF_MODELS = frozenset(
    f"tensorflow.{name}"
    for name in (
        "AssetFileDef", "BundleEntryProto", "BundleHeaderProto", "CollectionDef", "CondContextDef", "MetaGraphDef",
        "QueueRunnerDef", "SavedBareConcreteFunction", "SavedConcreteFunction", "SavedModel", "SavedObject",
        "SavedObjectGraph", "SavedTensorSlices", "SaverDef", "SignatureDef", "TensorInfo", "TrackableObjectGraph",
        "VariableDef", "WhileContextDef",
    )
)  # fmt: skip
"""The messages that are not needed for a GraphDef."""


@overload
def message(name: Literal["tensorflow.AttrValue"]) -> type[protos.AttrValue]: ...
@overload
def message(name: Literal["tensorflow.FunctionDef"]) -> type[protos.FunctionDef]: ...
@overload
def message(name: Literal["tensorflow.FunctionDefLibrary"]) -> type[protos.FunctionDefLibrary]: ...
@overload
def message(name: Literal["tensorflow.GradientDef"]) -> type[protos.GradientDef]: ...
@overload
def message(name: Literal["tensorflow.GraphDebugInfo"]) -> type[protos.GraphDebugInfo]: ...
@overload
def message(name: Literal["tensorflow.GraphDef"]) -> type[protos.GraphDef]: ...
@overload
def message(name: Literal["tensorflow.NodeDef"]) -> type[protos.NodeDef]: ...
@overload
def message(name: Literal["tensorflow.StepStats"]) -> type[protos.StepStats]: ...
@overload
def message(name: Literal["tensorflow.TensorProto"]) -> type[protos.TensorProto]: ...
@overload
def message(name: Literal["tensorflow.VersionDef"]) -> type[protos.VersionDef]: ...
@overload
def message(name: Literal["tensorflow.AssetFileDef"]) -> type[protos.AssetFileDef]: ...
@overload
def message(name: Literal["tensorflow.MetaGraphDef"]) -> type[protos.MetaGraphDef]: ...
@overload
def message(name: Literal["tensorflow.WhileContextDef", "tensorflow.CondContextDef"]) -> type[protos.ContextDef]: ...
@overload
def message(name: Literal["tensorflow.QueueRunnerDef"]) -> type[protos.QueueRunnerDef]: ...
@overload
def message(name: Literal["tensorflow.SaverDef"]) -> type[protos.SaverDef]: ...
@overload
def message(name: Literal["tensorflow.SavedBareConcreteFunction"]) -> type[protos.SavedBareConcreteFunction]: ...
@overload
def message(name: Literal["tensorflow.SavedConcreteFunction"]) -> type[protos.SavedConcreteFunction]: ...
@overload
def message(name: Literal["tensorflow.SavedObject"]) -> type[protos.SavedObject]: ...
@overload
def message(name: Literal["tensorflow.SavedObjectGraph"]) -> type[protos.SavedObjectGraph]: ...
@overload
def message(name: Literal["tensorflow.SignatureDef"]) -> type[protos.SignatureDef]: ...
@overload
def message(name: Literal["tensorflow.VariableDef"]) -> type[protos.VariableDef]: ...
@overload
def message(name: Literal["gdsurgeon.NodeHeaders", "gdsurgeon.NodeLinks"]) -> type[protos.NodeColumns]: ...
@overload
def message(name: Literal["gdsurgeon.NodeBodies"]) -> type[protos.NodeBodies]: ...
@overload
def message(name: Literal["tensorflow.BundleEntryProto"]) -> type[protos.BundleEntryProto]: ...
@overload
def message(name: Literal["tensorflow.BundleHeaderProto"]) -> type[protos.BundleHeaderProto]: ...
@overload
def message(name: Literal["tensorflow.SavedTensorSlices"]) -> type[protos.SavedTensorSlices]: ...
@overload
def message(name: Literal["tensorflow.TrackableObjectGraph"]) -> type[protos.TrackableObjectGraph]: ...
@overload
def message(name: str) -> type[Message]: ...
@cache
def message(name: str) -> type[Message]:
    """The class of message NAME, such as ``tensorflow.NodeDef`` or ``gdsurgeon.NodeHeaders``."""
    pool = _pool_of_models() if name in _OF_MODELS else _pool()
    descriptor, upb = pool.FindMessageTypeByName(name), _upb()
    if upb is not None:
        from google.protobuf.message import Message

        # Where there is a class of that descriptor already, as that of a field of another message, this is it.
        made: type[Message] = upb.MessageMeta(descriptor.name, (Message,), {"DESCRIPTOR": descriptor})
        return made
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(descriptor)


def unknown_fields(parsed: Message) -> UnknownFieldSet:
    """Returns the fields of a message (not of its submessages) that its type does not know."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    return UnknownFieldSet(parsed)


@cache
def decode_error() -> type[Exception]:
    """The exception that protobuf raises on bytes that are not the message."""
    from google.protobuf.message import DecodeError

    return DecodeError
