from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import is_message

import gdsurgeon
from gdsurgeon.wire import protos
from gdsurgeon.wire.fields import (
    FIXED32,
    FIXED64,
    GROUP,
    LEN,
    VARINT,
    Field,
    WireError,
    encode_len,
    encode_varint,
    fields,
    read_field,
    read_varint,
)


def test_a_varint_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(WireError, match="more than ten bytes") as caught:
        read_varint(b"\x00" + b"\x80" * 10 + b"\x01", 1, 12)
    assert caught.value.offset == 1


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_a_varint_that_is_cut_is_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="cut short"):
        read_varint(data, 0, len(data))


def test_the_end_counts_and_not_the_buffer() -> None:
    with pytest.raises(WireError, match="cut short"):
        read_varint(b"\x80\x01", 0, 1)
    with pytest.raises(WireError, match="cut short"):
        read_field(b"\x0a\x02ab", 0, 3)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"\x08\x96\x01", Field(1, VARINT, 0, 1, 3)),
        (b"\x11" + bytes(8), Field(2, FIXED64, 0, 1, 9)),
        (b"\x1a\x03abc", Field(3, LEN, 0, 2, 5)),
        (b"\x1a\x83\x80\x00abc", Field(3, LEN, 0, 4, 7)),
        (b"\x23\x08\x01\x24", Field(4, GROUP, 0, 1, 4)),
        (b"\x2d" + bytes(4), Field(5, FIXED32, 0, 1, 5)),
        (b"\xf8\xff\xff\xff\x0f\x00", Field((1 << 29) - 1, VARINT, 0, 5, 6)),
    ],
)
def test_each_wire_type(data: bytes, field: Field) -> None:
    assert read_field(data, 0, len(data)) == field
    assert is_message(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00", "field number 0"),
        (b"\x02\x00", "field number 0"),
        (b"\xf8\xff\xff\xff\x1f\x00", "field number"),
        (b"\x0e\x00", "wire type 6"),
        (b"\x0f\x00", "wire type 7"),
        (b"\x0c", "never began"),
        (b"\x0b", "group 1 is never closed"),
        (b"\x0b\x14", "group 2 ends but never began"),
        (b"\x0b\x13\x0c\x14", "group 1 ends but never began"),
        (b"\x0b\x0a\x05a\x0c", "cut short"),
        (b"\x0a\x05abcd", "cut short: field 1 needs 5 bytes, 4 are left"),
        (b"\x0a\xff\xff\xff\xff\x0f", "cut short"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "cut short"),
        (b"\x0d\x00\x00\x00", "cut short"),
        (b"\x09" + bytes(7), "cut short"),
        (b"\x08\x80", "cut short"),
    ],
)
def test_what_is_no_field_is_refused(data: bytes, reason: str) -> None:
    assert not is_message(data)
    with pytest.raises(WireError, match=reason):
        read_field(data, 0, len(data))


def test_groups_nest_without_recursion() -> None:
    depth = 50_000
    data = b"\x0b" * depth + b"\x08\x01" + b"\x0c" * depth
    assert read_field(data, 0, len(data)) == Field(1, GROUP, 0, 1, len(data))
    with pytest.raises(WireError, match="never closed"):
        read_field(data, 0, len(data) - 1)


MESSAGES = st.recursive(
    st.one_of(
        st.builds(lambda n, v: encode_varint(n << 3) + encode_varint(v), st.integers(1, 40), st.integers(0, 1 << 63)),
        st.builds(lambda n, v: encode_len(n, v), st.integers(1, 40), st.binary(max_size=8)),
        st.builds(lambda n, v: encode_varint(n << 3 | 5) + v, st.integers(1, 40), st.binary(min_size=4, max_size=4)),
        st.builds(lambda n, v: encode_varint(n << 3 | 1) + v, st.integers(1, 40), st.binary(min_size=8, max_size=8)),
    ),
    lambda inner: st.builds(
        lambda n, parts: encode_varint(n << 3 | 3) + b"".join(parts) + encode_varint(n << 3 | 4),
        st.integers(1, 40),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.data())
def test_agrees_with_protobuf_on_what_is_a_message(parts: list[bytes], data: st.DataObject) -> None:
    mutated = bytearray(b"".join(parts))
    for _ in range(data.draw(st.integers(0, 2))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    mutated = mutated[: data.draw(st.integers(0, len(mutated)))]
    buf = bytes(mutated)
    try:
        found = list(fields(buf, 0, len(buf)))
    except WireError as error:
        # Inside a group that it does not know protobuf lets a field number 0 pass.
        assert not is_message(buf) or error.reason == "field number 0"
        return
    # protobuf wants tags and lengths in five bytes; the one thing in which it is stricter.
    assert is_message(buf) or any(f.value - f.start > 6 for f in found) or has_long_tag(buf)


def has_long_tag(buf: bytes) -> bool:
    """Whether some varint here is of more than five bytes: nested in a group it may be a tag or a length."""
    run = 0
    for byte in buf:
        run = run + 1 if byte > 127 else 0
        if run >= 5:
            return True
    return False


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
"""Messages that have all other declared messages as fields."""

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
    """Fields of the class KIND, and of the classes it refers to, that differ from DESCRIPTOR."""
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
