"""Fields and records of nodes in the wire format."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from support.drawing import shuffled
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
    read_field,
    read_varint,
)
from gdsurgeon.wire.node_record import (
    Changes,
    Header,
    Piece,
    Span,
    encode_attr,
    encode_node,
    patched,
    read_header,
    record_body,
    record_tag,
)
from gdsurgeon.wire.protos import AttrValue, NodeDef


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


INT = b"\x18\x05"
TYPE = b"\x30\x01"


def text(number: int, value: str) -> bytes:
    return encode_len(number, value.encode())


NAME, OP, DEVICE = text(1, "n"), text(2, "Op"), text(4, "/cpu:0")


def joined(buf: bytes, pieces: Sequence[Piece]) -> bytes:
    return b"".join(p if isinstance(p, bytes) else buf[p.start : p.end] for p in pieces)


def patch(buf: bytes, **changes: Any) -> bytes:
    pieces = patched(buf, Changes(**changes))
    out = joined(buf, pieces)
    assert all(type(a) is not type(b) or (isinstance(a, Span) and a.end != b.start) for a, b in pairwise(pieces))
    return out


def parse(buf: bytes) -> Any:
    return NodeDef.FromString(buf)


def header(buf: bytes) -> Header:
    return read_header(buf)


# Reading.


def test_a_header() -> None:
    buf = encode_node("n", "Op", ["a", "b:1", "^c"], "/cpu:0", {"T": TYPE, "N": INT})
    found = header(buf)
    assert found[:4] == ("n", "Op", ("a", "b:1", "^c"), "/cpu:0")
    assert {key: buf[a:b] for key, (a, b) in found.attrs.items()} == {"T": TYPE, "N": INT}
    assert not found.unknown_fields


@pytest.mark.parametrize("unknown", [b"\x78\x05", b"\x7a\x01x", b"\x08\x05", b"\x7b\x08\x01\x7c", b"\x3d1234"])
def test_unknown_fields_are_noticed(unknown: bytes) -> None:
    assert header(NAME + unknown + OP) == header(NAME + OP)._replace(unknown_fields=True)


def test_an_attr_without_a_value_lies_nowhere() -> None:
    found = header(NAME + OP + encode_len(5, text(1, "k")))
    start, end = found.attrs["k"]
    assert start == end


@pytest.mark.parametrize(
    "bad",
    [
        encode_len(1, b"\xff"),
        encode_len(2, b"\xff"),
        encode_len(3, b"\xff"),
        encode_len(4, b"\xff"),
        encode_len(5, encode_len(1, b"\xff")),
        encode_len(5, b"\x0a\x05ab"),
        b"\x0a\x05ab",
    ],
)
def test_what_is_no_node_is_refused(bad: bytes) -> None:
    with pytest.raises(WireError):
        header(OP + bad)


# Patching.


def test_without_changes_all_of_it_is_one_span() -> None:
    buf = encode_node("n", "Op", ["a", "^c"], "/cpu:0", {"T": TYPE}) + b"\x78\x05"
    assert patched(buf, Changes()) == [Span(0, len(buf))]
    same = Changes(name="n", op="Op", device="/cpu:0", inputs=("a", "^c"), attrs={"T": TYPE, "not there": None})
    assert patched(buf, same) == [Span(0, len(buf))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (NAME + OP + DEVICE, NAME + OP + text(3, "x") + DEVICE),
        (OP + NAME + DEVICE, OP + text(3, "x") + NAME + DEVICE),
        (NAME + DEVICE, NAME + text(3, "x") + DEVICE),
        (DEVICE, text(3, "x") + DEVICE),
        (b"", text(3, "x")),
    ],
)
def test_the_first_inputs_stand_after_the_op_or_the_name_or_at_the_start(before: bytes, after: bytes) -> None:
    assert patch(before, inputs=("x",)) == after


def test_a_big_attr_is_not_read() -> None:
    class Wary(bytes):
        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, slice):
                assert key.stop - key.start < 100
            return super().__getitem__(key)

    buf = Wary(encode_node("n", "Const", [], "", {"value": encode_len(8, bytes(10_000)), "dtype": TYPE}))
    pieces = patched(buf, Changes(name="longer", inputs=("^c",), attrs={"dtype": INT}))
    assert sum(len(p) for p in pieces if isinstance(p, bytes)) < 60
    assert header(joined(bytes(buf), pieces)).name == "longer"


FIELDS = st.one_of(
    st.builds(text, st.sampled_from([1, 2, 4]), st.sampled_from(["n", "m", "a/b"])),
    st.builds(lambda t: text(3, t), st.sampled_from(["a", "b:1", "^c", "a:0"])),
    st.builds(encode_attr, st.sampled_from(["T", "N", "_class"]), st.sampled_from([TYPE, INT, b""])),
    st.sampled_from([b"\x78\x05", b"\x7b\x08\x01\x7c", b"\x08\x07"]),
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A node with a name and an op, and perhaps more, in any order."""
    return b"".join(shuffled(draw, [NAME, OP, *draw(st.lists(FIELDS, max_size=6))]))


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "longer/name"]),
        "op": st.sampled_from(["X", "Y"]),
        "device": st.sampled_from(["/gpu:0", "/cpu:1"]),
        "inputs": st.lists(st.sampled_from(["p", "q:1", "^r"]), max_size=3).map(tuple),
        "attrs": st.dictionaries(
            st.sampled_from(["T", "N", "new"]), st.sampled_from([TYPE, INT, b"\x28\x01", None]), max_size=3
        ),
    },
)


@given(records(), CHANGES)
def test_a_patched_node_is_what_protobuf_makes_of_the_same_changes(buf: bytes, changes: dict[str, Any]) -> None:
    expected = parse(buf)
    for field in ("name", "op", "device"):
        if field in changes:
            setattr(expected, field, changes[field])
    if "inputs" in changes:
        expected.input[:] = changes["inputs"]
    for key, value in changes.get("attrs", {}).items():
        if value is None:
            expected.attr.pop(key, None)
        else:
            expected.attr[key].CopyFrom(AttrValue.FromString(value))
    assert parse(patch(buf, **changes)) == expected


@given(records(), st.sampled_from(["x", "longer/name"]), st.sampled_from(["X"]), st.sampled_from(["/gpu:0"]))
def test_texts_changed_and_changed_back_give_the_bytes(buf: bytes, name: str, op: str, device: str) -> None:
    before = header(buf)
    changes = {"name": name, "op": op} | ({"device": device} if before.device else {})
    there = patch(buf, **changes)
    back = {"name": before.name, "op": before.op} | ({"device": before.device} if before.device else {})
    assert patch(there, **back) == buf


@given(records())
def test_inputs_renamed_and_renamed_back_give_the_bytes(buf: bytes) -> None:
    there = patch(buf, rename_input=lambda t: t.replace("a", "longer"))
    assert patch(there, rename_input=lambda t: t.replace("longer", "a")) == buf


@given(records(), st.sampled_from(["T", "N"]))
def test_an_attr_changed_and_changed_back_gives_the_bytes(buf: bytes, key: str) -> None:
    found = header(buf)
    count = buf.count(encode_len(1, key.encode()))
    if key not in found.attrs or count != 1:
        return
    start, end = found.attrs[key]
    there = patch(buf, attrs={key: b"\x28\x01"})
    assert there != buf
    assert patch(there, attrs={key: buf[start:end]}) == buf


def test_the_record_around_a_node() -> None:
    for size in (0, 1, 127, 128, 20_000, 1 << 40):
        tag = record_tag(size)
        assert record_body(tag) == len(tag)
