"""Strings that are baked into a graph: in constants, in attrs and in its debug info, file paths above all.

A frozen graph can contain data that should not be published: the names of training images in a string constant, the
path of a vocabulary in a shared name, source files of the author in the debug info.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from gdsurgeon.analysis.checks.check import debug_infos
from gdsurgeon.errors import InputError
from gdsurgeon.graph.constants import SMALL, TENSOR, packed_strings, read_tensor_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.records import Record, parsed_nodes
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.wire.fields import LEN, Buffer, WireError, fields
from gdsurgeon.wire.node_record import Header, read_header
from gdsurgeon.wire.protos import NodeDef

LONGEST = 4096
"""The maximum number of bytes of a string that are examined."""
MOST_TEXTS = 20
"""The maximum number of texts kept for one place; all paths are kept."""


@dataclass
class Strings:
    """The strings in one place.

    Attributes:
        node: the node, or '' for the graph's debug info.
        function: the function that the node is in, or ''.
        attr: the attr; ``value`` for a constant.
        is_tensor: whether the attr is a tensor, not a string attr of the node.
        count: the number of strings that are text or paths.
        paths: the strings that are or contain a file path or a URL; cut after `LONGEST` bytes.
        texts: the first `MOST_TEXTS` of the other texts.
        binary: the number of strings that are not text.
        unread_bytes: the bytes of a tensor content that is too large to be split into strings.
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
        """Adds a string, or the beginning of one."""
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
        """Whether it has no strings, binary data or unread bytes."""
        return not (self.count or self.binary or self.unread_bytes)


def baked_strings(graph: Graph) -> list[Strings]:
    """Returns the strings in `graph` as stored in its file, those with paths first; one pass, linear in its bytes.

    All strings of string tensors are included. String attrs are included if they are text with spaces, paths or URLs;
    the others are names and settings (``SAME``, ``NHWC``).
    """
    found: list[Strings] = []
    with suppress(InputError):  # the structural check reports this
        for info in debug_infos(graph):
            if info.files:
                found.append(Strings("", "", "debug_info", False, count=len(info.files), paths=list(info.files)))
    for item in parsed_nodes(graph.source):
        found += _in_node(item.header(), item.buffer()) if isinstance(item, Record) else _in_message(item)
    for function in graph.functions:
        for node in function.node_def:
            found += _in_message(node, function.signature.name)
    return sorted(found, key=lambda strings: not strings.paths)


# -- text and paths --------------------------------------------------------------------------------------


def as_text(data: bytes) -> str | None:
    """Returns `data` as text, or None if it is binary; at most the first `LONGEST` bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data[:LONGEST], final=len(data) <= LONGEST)
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that text does not contain: control characters other than tabs and line ends."""


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
    """Returns whether `text` is or contains a file path or a URL. This is a guess by its form, sometimes wrong."""
    return _PATH.search(text) is not None


def _is_worth_saying(text: str) -> bool:
    """Returns whether a string attr is more than a name or a setting."""
    return holds_path(text) or (any(c.isspace() for c in text.strip()) and any(c.isalpha() for c in text))


# -- places of strings ------------------------------------------------------------------------------------


def _in_message(node: NodeDef, function: str = "") -> Iterator[Strings]:
    data = node.SerializeToString(deterministic=True)
    return _in_node(read_header(data), data, function)


def _in_node(header: Header, buf: Buffer, function: str = "") -> Iterator[Strings]:
    """Yields the strings in a node, whose record may be too large to read at once."""
    for key, (start, end) in header.attrs.items():
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
            continue  # the structural check reports this
        if not found.is_empty:
            yield found


def _beginning(buf: Buffer, start: int, end: int) -> bytes:
    """Returns the part of a string that is examined, and one more byte if the string is longer."""
    return buf[start : min(end, start + LONGEST + 1)]


def _add_attr(found: Strings, items: Iterable[bytes]) -> None:
    """Adds the relevant strings of a node's own attrs. Binary strings are serialized messages, and are skipped."""
    if found.attr == COLOCATION_ATTR:
        return
    for data in items:
        text = as_text(data)
        if text is not None and _is_worth_saying(text):
            found.add(data)


def _add_tensor(found: Strings, buf: Buffer, start: int, end: int) -> None:
    """Adds the strings of the TensorProto in the bytes `start` to `end`, one at a time."""
    header = read_tensor_header(buf, start, end)
    if dtypes.base_dtype(header.dtype) != dtypes.STRING:
        return
    for field_ in fields(buf, start, end):
        if field_.number == dtypes.ELEMENT_FIELDS["string_val"] and field_.wire_type == LEN:
            found.add(_beginning(buf, field_.value, field_.end))
        elif field_.number == dtypes.CONTENT and field_.wire_type == LEN:
            if field_.end - field_.value > SMALL:
                found.unread_bytes += field_.end - field_.value
            else:
                for item in packed_strings(buf[field_.value : field_.end], header.elements):
                    found.add(item)
