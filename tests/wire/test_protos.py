"""What type checkers are told of the messages is what the descriptors say, and little is left untold."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

import gdsurgeon
from gdsurgeon.wire import protos

ROOTS = (
    protos.GraphDef,
    protos.StepStats,
    protos.BundleEntryProto,
    protos.BundleHeaderProto,
    protos.SavedTensorSlices,
    protos.TrackableObjectGraph,
    protos.MetaGraphDef,
    protos.QueueRunnerDef,
    protos.VariableDef,
    protos.NodeBodies,
)
"""Messages of which all other declared messages are fields."""

SCALARS = {
    "str": {FieldDescriptor.TYPE_STRING},
    "bytes": {FieldDescriptor.TYPE_BYTES},
    "bool": {FieldDescriptor.TYPE_BOOL},
    "float": {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE},
    "int": {
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_FIXED32,
        FieldDescriptor.TYPE_ENUM,
    },
}


def faults(kind: type, descriptor: Descriptor, seen: set[type]) -> list[str]:
    """Fields of the class KIND and of those it refers to that are not what DESCRIPTOR says."""
    if kind in seen:
        return []
    seen.add(kind)
    out: list[str] = []
    for name, spelt in inspect.get_annotations(kind).items():
        where = f"{kind.__name__}.{name}"
        found = re.fullmatch(r"(?:(Messages|Scalars|MessageMap|ScalarMap)\[)?(?:\w+, )?(\w+)\]?", spelt)
        field = descriptor.fields_by_name.get(name)
        if field is None or found is None:
            out.append(where)
            continue
        container, item = found.groups()
        entry = (
            field.message_type if field.message_type is not None and field.message_type.GetOptions().map_entry else None
        )
        value = entry.fields_by_name["value"] if entry is not None else field
        is_message = value.message_type is not None
        wanted = {
            (False, False): (None,),
            (True, False): ("Messages" if is_message else "Scalars",),
            (True, True): ("MessageMap" if is_message else "ScalarMap",),
        }[field.is_repeated, entry is not None]
        if container not in wanted:
            out.append(where)
        elif is_message:
            out += faults(getattr(protos, item), value.message_type, seen)
        elif value.type not in SCALARS[item]:
            out.append(where)
    return out


def test_the_types_are_those_of_the_descriptors() -> None:
    seen: set[type] = set()
    assert [fault for kind in ROOTS for fault in faults(kind, kind.DESCRIPTOR, seen)] == []
    assert faults(protos.ContextDef, protos.WhileContextDef.DESCRIPTOR, seen) == []
    assert faults(protos.NodeColumns, protos.NodeHeaders.DESCRIPTOR, seen) == []
    assert seen == set(protos.Message.__subclasses__())


@pytest.mark.parametrize("spelt", ["int", "Scalars[str]", "Messages[NodeDef]", "MessageMap[str, AttrValue]"])
def test_a_type_that_is_wrong_is_found(spelt: str) -> None:
    kind = type("Wrong", (), {"__annotations__": {"name": spelt}})
    assert faults(kind, protos.NodeDef.DESCRIPTOR, set()) == ["Wrong.name"]


def test_any_is_rare() -> None:
    files = Path(gdsurgeon.__file__).parent.rglob("*.py")
    texts = (text for path in files if "Any" in (text := path.read_text()))
    names = (item for text in texts for item in ast.walk(ast.parse(text)))
    assert sum(isinstance(item, ast.Name) and item.id == "Any" for item in names) < 150
