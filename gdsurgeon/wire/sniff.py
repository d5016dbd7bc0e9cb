"""Detects the format of a file that is not a GraphDef from its first bytes."""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

from gdsurgeon.errors import InputError, printable
from gdsurgeon.wire.fields import LEN, VARINT, Buffer, WireError, fields, read_field

HEAD = 4096
"""The number of bytes from the beginning of a file that `foreign_format` requires."""


class Foreign(NamedTuple):
    """A format that is not a GraphDef: its short name, the end of a sentence "FILE is ...", and the code of a hint."""

    kind: str
    what: str
    advice: str = ""


def wrong_format(name: str, found: Foreign, advice: str = "") -> InputError:
    """Returns the error that the file `name` has the format `found`; `advice` replaces the hint code of the format."""
    message = f"{printable(name)} is {found.what}"
    return InputError(message, code="wrong-format", advice=advice or found.advice or (), file=name, found=found.kind)


_TEXT_MODE = "; was it transferred in text mode?"
_MAGIC: tuple[tuple[int, bytes, Foreign], ...] = (
    (0, b"version https://git-lfs", Foreign("git-lfs", "a Git LFS pointer, not the file itself: run 'git lfs pull'")),
    (0, b"\x1f\x8b", Foreign("gzip", "gzip data: unpack it first")),
    (257, b"ustar", Foreign("tar", "a tar archive: unpack it first", advice="tar-stream")),
    (0, b"BZh", Foreign("bzip2", "bzip2 data: unpack it first")),
    (0, b"\xfd7zXZ\x00", Foreign("xz", "xz data: unpack it first")),
    (0, b"\x28\xb5\x2f\xfd", Foreign("zstd", "zstd data: unpack it first")),
    (4, b"TFL3", Foreign("tflite", "a TFLite model, not a GraphDef", advice="before-conversion")),
    (0, b"\x89HDF\r\n\x1a\n", Foreign("hdf5", "an HDF5 file (a Keras model?), not a GraphDef", advice="export-keras")),
    (0, b"\x89PNG", Foreign("png", "a PNG image, not a GraphDef")),
    (0, b"\xff\xd8\xff", Foreign("jpeg", "a JPEG image, not a GraphDef")),
    (0, b"\x93NUMPY", Foreign("npy", "a NumPy array, not a GraphDef")),
    (0, b"\xef\xbb\xbf", Foreign("byte-order-mark", "corrupt: it begins with a UTF-8 byte order mark" + _TEXT_MODE)),
    (0, b"\r\n", Foreign("crlf", "corrupt: its line feeds have become CR LF" + _TEXT_MODE)),
    (0, b"\xff\xfe", Foreign("utf-16", "UTF-16 text, not a GraphDef")),
)
_MARKUP = rb"(?i)\s*<(!doctype|html|\?xml|head|body|error)"
_JSON = rb'\s*(\{\s*["}]|\[\s*[\[{"\]])'
_TEXT_FIELDS = {
    "GraphDef": rb"node|library|versions?|debug_info",
    "MetaGraphDef": rb"(meta_info|graph|saver|collection|signature|asset_file|object_graph)_def",
    "SavedModel": rb"saved_model_schema_version|meta_graphs",
}
"""The field names of each message type in its text form, as regular expressions."""
_NOT_TEXT = rb"[\x00-\x08\x0e-\x1f\x7f]"
_DATA = r"\.data-\d{5}-of-\d{5}\Z"
TABLE_END = (0xDB4775248B80FB57).to_bytes(8, "little")
"""The last bytes of a table of sorted strings, as LevelDB writes them."""
_NAME = rb"[A-Za-z0-9_.\\/>-]+\Z"


def foreign_format(head: bytes) -> Foreign | None:
    """Returns the format of a file that begins with `head`; None if the format is not recognised."""
    if not head:
        return Foreign("empty", "empty (0 bytes)")
    for offset, magic, foreign in _MAGIC:
        if head.startswith(magic, offset):
            return foreign
    if head.startswith(b"PK\x03\x04"):
        return _zipped(head)
    if re.match(_MARKUP, head):
        return Foreign("html", "an HTML or XML page (an error page saved as a file?), not a GraphDef")
    if re.match(_JSON, head):
        return Foreign("json", "JSON (a TensorFlow.js model?), not a GraphDef", advice="before-conversion")
    if _looks_like_onnx(head):
        return Foreign("onnx", "an ONNX model, not a GraphDef", advice="before-conversion")
    return None


def _zipped(head: bytes) -> Foreign:
    """Returns the format of a zip archive by the name of its first entry, which follows a header of 30 bytes."""
    first = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if first in (b"metadata.json", b"config.json", b"model.weights.h5"):
        return Foreign("keras", "a Keras model (.keras), not a GraphDef", advice="export-keras")
    if first.endswith(b".npy"):
        return Foreign("npz", "an archive of arrays (.npz), not a GraphDef")
    return Foreign("zip", "a zip archive: unpack it first")


def is_data_of_checkpoint(path: str) -> bool:
    """Returns whether `path` is named like a data file of a checkpoint; such a file has no recognisable first bytes."""
    return re.search(_DATA, path) is not None


def is_binary_graph(buf: Buffer) -> bool:
    """Returns whether the bytes begin with a node. Nearly every GraphDef does, and no other known format."""
    try:
        first = read_field(buf, 0, len(buf))
        return first.number == 1 and first.wire_type == LEN and _is_node(buf, first.value, first.end)
    except WireError:
        return False


def is_text(head: bytes) -> bool:
    """Returns whether a file that begins with `head` is text: every node of a binary GraphDef has a control byte."""
    return not re.search(_NOT_TEXT, head)


def kind_of_text(head: bytes) -> str:
    """Returns the message type whose text form begins like `head`: GraphDef, MetaGraphDef, SavedModel, or ''."""
    for kind, names in _TEXT_FIELDS.items():
        if re.match(rb"(?:\s|#[^\n]*\n)*(" + names + rb")\s*[:{<\[]", head) is not None:
            return kind
    return ""


INDEX = Foreign("index", "the index of a checkpoint (its .index file), not a model", advice="which-models")
DATA = Foreign("data", "the values of a checkpoint (its .data file), not a model", advice="which-models")
FINGERPRINT = Foreign(
    "fingerprint", "the fingerprint of a SavedModel (its fingerprint.pb), not a model", advice="which-models"
)
SAVED_MODEL = Foreign("saved-model", "the saved_model.pb of a SavedModel, not a GraphDef", advice="which-models")
META_GRAPH = Foreign("meta-graph", "a MetaGraphDef (a checkpoint's .meta file), not a GraphDef", advice="which-models")


def container_format(buf: Buffer) -> Foreign | None:
    """Returns the container format of `buf`, or None.

    Data files of checkpoints are not recognised, because they have no recognisable first bytes.
    """
    size = len(buf)
    if size >= len(TABLE_END) and buf[size - len(TABLE_END) : size] == TABLE_END:
        return INDEX
    try:
        if _is_fingerprint(buf, size):
            return FINGERPRINT
        first = read_field(buf, 0, size)
        if first.number == 1 and first.wire_type == VARINT:
            second = read_field(buf, first.end, size)
            if second.number == 2 and second.wire_type == LEN and _is_meta_graph(buf, second.value, second.end):
                return SAVED_MODEL
        elif not is_binary_graph(buf) and _is_meta_graph(buf, 0, size):
            return META_GRAPH
    except WireError:
        pass
    return None


def _is_fingerprint(buf: Buffer, size: int) -> bool:
    """Returns whether fields 1 to 5 of the message are varints, as in FingerprintDef (in GraphDef only field 3 is)."""
    found = {(field.number, field.wire_type) for field in islice(fields(buf, 0, size), 20)}
    return (1, VARINT) in found and found <= {(number, VARINT) for number in range(1, 6)} | {(6, LEN), (7, LEN)}


def _is_meta_graph(buf: Buffer, start: int, end: int) -> bool:
    """Returns whether field 2 of the message is a GraphDef, as in MetaGraphDef (in GraphDef it is the library)."""
    for count, field in enumerate(fields(buf, start, end)):
        if field.number == 1 and field.wire_type == LEN and _is_node(buf, field.value, field.end):
            return False
        if field.number == 2 and field.wire_type == LEN:
            return _begins_with_node(buf, field.value, field.end)
        if count > 1000:
            return False
    return False


def _begins_with_node(buf: Buffer, start: int, end: int) -> bool:
    for field in islice(fields(buf, start, end), 10):
        if field.number == 1 and field.wire_type == LEN:
            return _is_node(buf, field.value, field.end)
    return False


def _is_node(buf: Buffer, start: int, end: int) -> bool:
    """Returns whether the message is a NodeDef: its name and op are text (a FunctionDef begins with a message)."""
    texts: dict[int, bytes] = {}
    for field in islice(fields(buf, start, end), 20):
        if field.number in (1, 2) and field.wire_type == LEN and field.end - field.value < 1 << 16:
            texts[field.number] = buf[field.value : field.end]
    return all(number in texts and re.match(_NAME, texts[number]) is not None for number in (1, 2))


def _looks_like_onnx(head: bytes) -> bool:
    """Returns whether `head` looks like an ONNX ModelProto.

    Such a file begins with ir_version (a varint), then the producer's name (printable ASCII), the opset or the graph.
    """
    try:
        first = read_field(head, 0, len(head))
        if first.number != 1 or first.wire_type != VARINT or first.end >= len(head):
            return False
        if head[first.end] in (0x3A, 0x42):  # graph, opset_import
            return True
        second = read_field(head, first.end, len(head))
    except WireError:
        return False
    text = head[second.value : second.end]
    return second.number == 2 and second.wire_type == LEN and text.isascii() and text.decode().isprintable()
