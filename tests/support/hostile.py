"""Files for tests of reading: small and heavy graphs, too deep or too large ones, and other formats."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.wire.fields import encode_len, encode_varint
from support.graphs import FLOAT, bodies, graph_bytes, identity, node, placeholder, shape_proto, versions

VERSIONS = versions(2483)
X = placeholder("x", FLOAT, (-1, 4))
PLAIN = graph_bytes(X, identity("y", "x"), identity("z", "y"), trailer=VERSIONS)
"""x -> y -> z, float32 [?,4]."""

WEIGHTS = bytes(range(256)) * 800


def _weight(name: str) -> bytes:
    content = b"\x08\x01" + encode_len(2, shape_proto([len(WEIGHTS) // 4])) + encode_len(4, WEIGHTS)
    return node(name, "Const", dtype=FLOAT, value=encode_len(8, content))


HEAVY = graph_bytes(
    X, identity("y", "x"), _weight("w"), identity("v", "w"), _weight("w2"), identity("v2", "w2"), trailer=VERSIONS
)
"""x -> y, and two weights of 200 kB, which are copied by span."""


def nested_func_attr(depth: int) -> bytes:
    """An AttrValue: a func whose attr is a func whose attr is a func ..."""
    value = b""
    for _ in range(depth):
        entry = encode_len(1, b"k") + encode_len(2, value)
        value = encode_len(10, encode_len(1, b"f") + encode_len(2, entry))
    return value


def nested_in_library(depth: int) -> bytes:
    """A graph whose function library holds a node with such an attr."""
    inner = node("n", "NoOp", _f=nested_func_attr(depth))
    return PLAIN + encode_len(2, encode_len(1, encode_len(1, encode_len(1, b"F")) + b"\x1a" + inner[1:]))


# -- what else a file may be -------------------------------------------------------------------------------

ONNX = b"\x08\x07" + encode_len(2, b"pytorch") + encode_len(3, b"1.9") + encode_len(7, encode_len(2, b"g"))
TFLITE = b"\x1c\x00\x00\x00TFL3" + bytes(64)
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(64)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
TEXT = b"""node {
  name: "x"
  op: "Placeholder"
  attr { key: "dtype" value { type: DT_FLOAT } }
}
node {
  name: "y"
  op: "Identity"
  input: "x"
  attr { key: "T" value { type: DT_FLOAT } }
}
"""


def write_huge(path: str, sizes: Sequence[int]) -> None:
    """A graph with a Const of each of SIZES bytes, named w0, w1, ...: a sparse file, which takes no room."""
    with open(path, "wb") as file:
        file.write(X + identity("y", "x"))
        for i, size in enumerate(sizes):
            # The same nesting as in `const`, from the inside out, without the content.
            head = b"\x08\x01" + encode_len(2, shape_proto([size // 4]))
            head += encode_varint(4 << 3 | 2) + encode_varint(size)
            for prefix, number in ((b"", 8), (encode_len(1, b"value"), 2), (b"", 5)):
                length = len(head) + size
                head = prefix + encode_varint(number << 3 | 2) + encode_varint(length) + head
            head = bodies(node(f"w{i}", "Const", dtype=FLOAT))[0] + head
            file.write(b"\x0a" + encode_varint(len(head) + size) + head)
            file.seek(size, 1)
        file.write(VERSIONS)
