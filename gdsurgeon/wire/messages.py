"""TensorFlow's message types without TensorFlow: classes made from the descriptors kept as package data."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from gdsurgeon.resources import exhausted
from gdsurgeon.wire.fields import fields

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
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
        from google.protobuf.message import Message

        # The class already exists if it is the class of a field of a different message.
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
    """Returns the exception class that protobuf raises if bytes cannot be parsed as a message."""
    from google.protobuf.message import DecodeError

    return DecodeError
