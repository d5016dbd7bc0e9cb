"""TensorFlow's message types without TensorFlow: classes made from the descriptors kept as package data."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Literal, overload

from gdsurgeon.wire import protos

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message
    from google.protobuf.unknown_fields import UnknownFieldSet

DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data")


@cache
def _pool() -> DescriptorPool:
    from google.protobuf import descriptor_pb2, descriptor_pool

    # A pool of its own: the classes live beside those of an imported TensorFlow without a clash.
    pool = descriptor_pool.DescriptorPool()
    with open(os.path.join(DATA, "graphdef.fds"), "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    for proto in files.file:
        pool.AddSerializedFile(proto.SerializeToString())
    return pool


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
def message(name: Literal["gdsurgeon.NodeHeaders", "gdsurgeon.NodeRecords"]) -> type[protos.NodeColumns]: ...
@overload
def message(name: Literal["gdsurgeon.NodeBodies"]) -> type[protos.NodeBodies]: ...
@overload
def message(name: str) -> type[Message]: ...
@cache
def message(name: str) -> type[Message]:
    """The class of message NAME, such as ``tensorflow.NodeDef`` or ``gdsurgeon.NodeHeaders``."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))


def unknown_fields(parsed: Message) -> UnknownFieldSet:
    """The fields of a message (not of those inside it) that its type does not know."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    return UnknownFieldSet(parsed)


@cache
def decode_error() -> type[Exception]:
    """The exception that protobuf raises on bytes that are not the message."""
    from google.protobuf.message import DecodeError

    return DecodeError
