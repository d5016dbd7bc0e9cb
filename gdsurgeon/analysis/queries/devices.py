"""Device strings: their parts, and which nodes ask for one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import Record, parsed_nodes
from gdsurgeon.wire.source import Source

Device = Mapping[str, str]
"""The parts that a device string states: ``job``, ``replica``, ``task``, ``type`` and ``id``."""

USUAL_TYPES = frozenset(("CPU", "GPU", "TPU"))

_PART = re.compile(
    r"/job:(?P<job>[A-Za-z][A-Za-z0-9_]*|\*)"
    r"|/replica:(?P<replica>[0-9]{1,9}|\*)"
    r"|/task:(?P<task>[0-9]{1,9}|\*)"
    r"|/device:(?P<type>[A-Za-z][A-Za-z0-9_]*|\*)(?::(?P<id>[0-9]{1,9}|\*))?"
    r"|/(?P<short>(?i:cpu|gpu|tpu))(?::(?P<short_id>[0-9]{1,9}|\*))?"
)

_DEVICE = re.compile(
    r"/|(?:/job:(?:\*|[A-Za-z][A-Za-z0-9_]*)|/(?:replica|task):(?:\*|[0-9]+)"
    r"|/device:(?:\*|[A-Za-z][A-Za-z0-9_]*)(?::(?:\*|[0-9]+))?|/(?:cpu|CPU|gpu|GPU):(?:\*|[0-9]+))*"
)
_LARGEST = 2**64 - 1
"""Number in a device string."""


def is_device(text: str) -> bool:
    """Whether TensorFlow accepts TEXT as the device string of a node; '' is any device.

    The grammar is that of ParseFullName in device_name_utils.cc: stricter than `parse_device`, which is for users.
    """
    if not text:
        return True
    numbers = (part.rpartition(":")[2] for part in text.split("/"))
    return _DEVICE.fullmatch(text) is not None and all(int(n) <= _LARGEST for n in numbers if n.isdecimal())


def parse_device(text: str) -> Device | None:
    """Returns the parts of a device string, with ``/gpu:0`` equal to ``/device:GPU:0``; None if it is invalid.

    A part ``*`` counts as not stated. The grammar is that of TensorFlow's device_name_utils.cc.
    """
    out: dict[str, str] = {}
    pos = 0
    while pos < len(text):
        match = _PART.match(text, pos)
        if match is None or (match.end() < len(text) and text[match.end()] != "/"):
            return None
        for part, value in match.groupdict().items():
            if value is not None and value != "*":
                _put(out, part, value)
        pos = match.end()
    return out if out else None


def _put(out: dict[str, str], part: str, value: str) -> None:
    part = {"short": "type", "short_id": "id"}.get(part, part)
    if part == "type":
        out[part] = value.upper() if value.upper() in USUAL_TYPES else value
    else:
        out[part] = value if part == "job" else str(int(value))


def format_device(device: Device) -> str:
    """The device string in its full spelling: ``/job:worker/task:0/device:GPU:0``."""
    out = "".join(f"/{part}:{device[part]}" for part in ("job", "replica", "task") if part in device)
    if "type" in device or "id" in device:
        out += f"/device:{device.get('type', '*')}:{device.get('id', '*')}"
    return out


def has_parts(device: Device, wanted: Device) -> bool:
    """Whether DEVICE states all that WANTED states; a device type in any case."""
    return all(device.get(part, "").lower() == value.lower() for part, value in wanted.items())


def placed_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of GRAPH that ask for a device, those of functions not among them; one pass over the file."""
    touched, removed = set(graph.touched()), set(graph.removed())
    for name in _placed_names(graph.source):
        node = graph.base_node(name)
        if node not in touched and node not in removed:
            yield node
    yield from (node for node in graph.touched() if node.device)


def _placed_names(source: Source) -> Iterator[str]:
    """The names of the nodes that have a device in the file."""
    for node in parsed_nodes(source):
        header = node.header() if isinstance(node, Record) else node
        if header.device:
            yield header.name
