"""Strings that are baked into a graph: in constants, in attrs and in its debug info, file paths above all.

A frozen graph can contain data that should not be published: the names of training images in a string constant, the
    path of a vocabulary in a shared name, source files of the author in the debug info.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gdsurgeon.analysis.checks.check import debug_infos
from gdsurgeon.errors import InputError
from gdsurgeon.graph.constants import SMALL, TENSOR, packed_strings, read_tensor_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.records import Record, parsed_nodes
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.wire.fields import LEN, Buffer, WireError, fields, read_varint
from gdsurgeon.wire.protos import NodeDef

LONGEST = 4096
"""Bytes of a string that are looked at."""
MOST_TEXTS = 20
"""Texts of one place that are kept; paths are kept all."""


@dataclass
class Strings:
    """The strings in one place.

    Attributes:
        node: the node, or '' for the graph's debug info.
        function: the function that the node is in, or ''.
        attr: the attr; of a constant ``value``.
        is_tensor: whether it is a tensor, and not a string of the node's own.
        count: strings that are text or paths.
        paths: those that are a file path or a URL, or hold one; shortened where they are longer than `LONGEST` bytes.
        texts: the first `MOST_TEXTS` of the others.
        binary: strings that are no text; they are only counted.
        unread_bytes: of a tensor that is too large in one piece to be taken apart.
    """

    node: str
    function: str
    attr: str
    is_tensor: bool
    count: int = 0
    paths: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    binary: int = 0
    unread_bytes: int = 0

    def add(self, data: bytes) -> None:
        """Takes a string in; the beginning of one will do."""
        text = as_text(data)
        if text is None:
            self.binary += 1
        elif text:
            self.count += 1
            if holds_path(text):
                self.paths.append(text)
            elif len(self.texts) < MOST_TEXTS:
                self.texts.append(text)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say of it."""
        return not (self.count or self.binary or self.unread_bytes)


def baked_strings(graph: Graph) -> list[Strings]:
    """The strings in GRAPH as it is in its file, those with paths first; one pass, linear in its bytes.

    Of string tensors all strings are taken, wherever they are. Of string attrs those that are text with spaces, paths
    or URLs: what remains are names and settings (``SAME``, ``NHWC``).
    """
    found = list(_in_debug_info(graph))
    for node in parsed_nodes(graph.source):
        found += _in_node(node)
    for function in graph.functions:
        for node in function.node_def:
            found += _in_node(node, function.signature.name)
    return sorted(found, key=lambda strings: not strings.paths)


# -- what is text, and what is a path ---------------------------------------------------------------------


def as_text(data: bytes) -> str | None:
    """DATA as text, or None where it is binary; of a long one the beginning."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data[:LONGEST], final=len(data) <= LONGEST)
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What no text holds: control characters, but for tabs and line ends."""


_EXTENSIONS = (
    "jpe?g|png|gif|bmp|tiff?|webp|svg|ppm|txt|csv|tsv|json|ya?ml|xml|toml|ini|cfg|log|md|html?|py|ipynb|sh|cc|cpp|hpp"
    "|pb|pbtxt|ckpt|meta|npy|npz|h5|hdf5|pkl|pickle|mat|tfrecords?|tfr|record|parquet|arrow|db|sqlite|lmdb"
    "|wav|mp3|flac|ogg|mp4|avi|mov|mkv|zip|gz|bz2|xz|tar|tgz|7z|so|dll|dylib|exe|tflite|onnx|pt|pth|vocab|model|bin"
)
_ROOTS = "home|users|root|mnt|data|var|tmp|opt|usr|srv|media|etc|private|workspace|content|kaggle|scratch|nfs|gpfs|cns"
_PATH = re.compile(
    rf"""
    (?<![a-z0-9])(?:file|gs|s3a?|hdfs|viewfs|https?|ftp|abfss?|wasbs?|dbfs):/{{2,3}}[^\s/]  # a URL, anywhere
    | (?<![a-z0-9./-])/(?:{_ROOTS})/[^\s/]                   # /home/..., anywhere
    | (?<![a-z0-9])[a-z]:[\\/][^\s\\/:]                      # C:\..., anywhere
    | ^\\\\[^\s\\]+\\[^\s\\]                                # \\host\share
    | ^(?:~|\.\.?)/[^\s/]                                   # ~/... ./... ../...
    | ^/[^\s/:]+(?:/[^\s/:]+)+/?$                           # /a/b
    | ^(?:[^\r\n/\\:]+[/\\])+[^\r\n/\\:]*\.(?:{_EXTENSIONS})$  # a/b.jpg, a dir/b.jpg
    | ^[^\s/\\:]*[^\s/\\:.]\.(?:{_EXTENSIONS})$              # b.jpg
    """,
    re.VERBOSE | re.IGNORECASE,
)


def holds_path(text: str) -> bool:
    """Whether TEXT is a file path or a URL, or holds one; by its looks, so now and then wrongly."""
    return _PATH.search(text) is not None


def _is_worth_saying(text: str) -> bool:
    """Whether a string attr is more than a name or a setting."""
    return holds_path(text) or (any(c.isspace() for c in text.strip()) and any(c.isalpha() for c in text))


# -- where strings are ------------------------------------------------------------------------------------


def _in_debug_info(graph: Graph) -> Iterator[Strings]:
    """The source files that the graph's debug info names."""
    try:
        for info in debug_infos(graph):
            if info.files:
                yield Strings("", "", "debug_info", False, count=len(info.files), paths=list(info.files))
    except InputError:
        return  # the structural check says so


def _in_node(node: NodeDef | Record, function: str = "") -> Iterator[Strings]:
    """The strings in a node, whose record may be too large to be read whole."""
    header = node.header() if isinstance(node, Record) else node
    attrs: Iterable[tuple[str, Buffer, int, int]]
    if isinstance(node, Record):
        buf = node.buffer()
        attrs = ((key, buf, *span) for key, span in node.header().attrs.items())
    else:
        encoded = ((key, value.SerializeToString()) for key, value in node.attr.items())
        attrs = ((key, data, 0, len(data)) for key, data in encoded)
    for key, buf, start, end in attrs:
        found = Strings(header.name, function, key, False)
        try:
            for field_ in fields(buf, start, end):
                if field_.number == TENSOR and field_.wire_type == LEN:
                    found.is_tensor = True
                    _add_tensor(found, buf, field_.value, field_.end)
                elif field_.number == 2 and field_.wire_type == LEN:  # AttrValue.s
                    _add_attr(found, [_beginning(buf, field_.value, field_.end)])
                elif field_.number == 1 and field_.wire_type == LEN:  # AttrValue.list, its field 2 is s
                    inner = [f for f in fields(buf, field_.value, field_.end) if (f.number, f.wire_type) == (2, LEN)]
                    _add_attr(found, [_beginning(buf, f.value, f.end) for f in inner])
        except WireError:
            continue  # the structural check says so
        if not found.is_empty:
            yield found


def _beginning(buf: Buffer, start: int, end: int) -> bytes:
    """As much of a string as is looked at, and a byte more where there is more."""
    return buf[start : min(end, start + LONGEST + 1)]


def _add_attr(found: Strings, items: Iterable[bytes]) -> None:
    """Adds the relevant strings of a node's own attrs; binary ones there are serialized messages."""
    if found.attr == COLOCATION_ATTR:
        return
    for data in items:
        text = as_text(data)
        if text is not None and _is_worth_saying(text):
            found.add(data)


def _add_tensor(found: Strings, buf: Buffer, start: int, end: int) -> None:
    """Adds the strings of the TensorProto from START to END, one at a time."""
    if _dtype(buf, start, end) % dtypes.REF != dtypes.STRING:
        return
    for field_ in fields(buf, start, end):
        if field_.number == dtypes.ELEMENT_FIELDS["string_val"] and field_.wire_type == LEN:
            found.add(_beginning(buf, field_.value, field_.end))
        elif field_.number == dtypes.CONTENT and field_.wire_type == LEN:
            if field_.end - field_.value > SMALL:
                found.unread_bytes += field_.end - field_.value
            else:
                count = read_tensor_header(buf, start, end).elements
                for item in packed_strings(buf[field_.value : field_.end], count):
                    found.add(item)


def _dtype(buf: Buffer, start: int, end: int) -> int:
    for field_ in fields(buf, start, end):
        if field_.number == 1 and field_.wire_type == 0:
            return read_varint(buf, field_.value, field_.end)[0]
    return 0
