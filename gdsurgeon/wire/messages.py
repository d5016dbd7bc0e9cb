"""TensorFlow's message types without TensorFlow: classes made from the descriptors kept as package data."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data")


@cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    # A pool of its own: the classes live beside those of an imported TensorFlow without a clash.
    pool = descriptor_pool.DescriptorPool()
    with open(os.path.join(DATA, "graphdef.fds"), "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    for proto in files.file:
        pool.AddSerializedFile(proto.SerializeToString())
    return pool


@cache
def message(name: str) -> Any:
    """The class of message NAME, such as ``tensorflow.NodeDef`` or ``gdsurgeon.NodeHeaders``."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))


def unknown_fields(parsed: Any) -> Any:
    """The fields of a message (not of those inside it) that its type does not know."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    return UnknownFieldSet(parsed)


@cache
def decode_error() -> type[Exception]:
    """The exception that protobuf raises on bytes that are not the message."""
    from google.protobuf.message import DecodeError

    error: type[Exception] = DecodeError
    return error
