"""The object graph in the checkpoints of `tf.train.Checkpoint`: which object has its values under which keys."""

from __future__ import annotations

from collections.abc import Container, Mapping

from gdsurgeon.errors import EditError, InputError, quoted
from gdsurgeon.wire import protos
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import TrackableObjectGraph

KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""What the checkpoint calls it: a tensor of one string, a TrackableObjectGraph."""
VALUE = "VARIABLE_VALUE"
"""The name of the attribute that is the value of a variable."""
_ATTRIBUTE = "/.ATTRIBUTES/"
"""What stands in a key between the path of an object and the name of its attribute."""


def followed(data: bytes, renamed: Mapping[str, str], dropped: Container[str]) -> bytes:
    """The object graph DATA where keys are renamed, and some tensors are no longer there.

    The names of the objects and of their variables (`full_name`) do not change: an object finds its value under the
    new key. An object without any value left is no longer a slot of an optimizer, because TensorFlow would look for
    its values.

    Raises:
        InputError: DATA is no object graph.
        EditError: a new key does not end as the old one does, by which TensorFlow knows the attribute of an object.
    """
    graph = _parsed(data)
    is_changed = False
    emptied: set[int] = set()
    for number, node in enumerate(graph.nodes):
        left = [attribute for attribute in node.attributes if attribute.checkpoint_key not in dropped]
        if len(left) < len(node.attributes):
            _keep(node, left)
            is_changed = True
            if not left:
                emptied.add(number)
        for attribute in node.attributes:
            key = renamed.get(attribute.checkpoint_key)
            if key is not None:
                _check_end(attribute.checkpoint_key, key)
                attribute.checkpoint_key = key
                is_changed = True
    for node in graph.nodes:
        slots = [slot for slot in node.slot_variables if slot.slot_variable_node_id not in emptied]
        if len(slots) < len(node.slot_variables):
            kept = [slot.SerializeToString() for slot in slots]
            del node.slot_variables[:]
            for slot in kept:
                node.slot_variables.add().ParseFromString(slot)
    return graph.SerializeToString() if is_changed else data


def variable_keys(data: bytes) -> dict[int, str]:
    """The keys of the values of variables in the object graph DATA, by the numbers of their objects.

    A SavedModel numbers its objects alike. Raises InputError: DATA is no object graph.
    """
    return {
        number: attribute.checkpoint_key
        for number, node in enumerate(_parsed(data).nodes)
        for attribute in node.attributes
        if attribute.name == VALUE
    }


def _parsed(data: bytes) -> protos.TrackableObjectGraph:
    try:
        return TrackableObjectGraph.FromString(data)
    except decode_error() as error:
        raise InputError(f"{quoted(KEY)} does not hold an object graph") from error


def _keep(node: protos.TrackableObject, left: list[protos.SerializedTensor]) -> None:
    kept = [attribute.SerializeToString() for attribute in left]
    del node.attributes[:]
    for attribute in kept:
        node.attributes.add().ParseFromString(attribute)


def _check_end(old: str, new: str) -> None:
    end = _ATTRIBUTE + old.partition(_ATTRIBUTE)[2]
    if _ATTRIBUTE in old and _ATTRIBUTE + new.partition(_ATTRIBUTE)[2] != end:
        raise EditError(
            f"{quoted(old)} cannot be renamed to {quoted(new)}: objects find their values by the end of the "
            f"key, {quoted(end)}"
        )
