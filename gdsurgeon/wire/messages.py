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


@cache
def message(name: str) -> type[Message]:
    """The class of the message with the full name `name`, such as ``tensorflow.NodeDef``."""
    try:
        descriptor = _pool().FindMessageTypeByName(name)
    except KeyError:  # a message outside the graph: most commands do without
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
    """The exception that protobuf raises on bytes that are not the message."""
    from google.protobuf.message import DecodeError

    return DecodeError
