"""to-savedmodel: the graph stays as it is, but for constants that are variables now, which are restored and saved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.intent import Altered, Intent, made
from gdsurgeon.graph.attrs import bytes_value, shape_value, type_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Key
from gdsurgeon.ops.dtypes import FLOATING
from gdsurgeon.specification.savers import Saved, say_saver


def violations(
    comparison: Comparison, unfreeze: str | None = None, init: Sequence[str] = (), **asked: object
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del asked  # what else is asked is said around the graph
    intent = Intent()
    if unfreeze is not None:
        before = comparison.before
        nodes = [node for node in before.nodes() if node.op == "Const" and re.search(unfreeze, node.name)]
        constants = [node for node in nodes if node.output.dtype in FLOATING]
        handles = _variables(intent, before, constants)
        saved = [Saved(handle, node.name, Key(node.name)) for node, handle in zip(constants, handles, strict=True)]
        say_saver(before, saved, intent, "save")
    if len(init) > 1:
        group = UniqueNames(lambda name: name in comparison.before or name in intent.added)("init")
        intent.added.append(group)
        intent.altered += made(group, "NoOp", (), [name.partition(":")[0] for name in init])
    yield from audit(comparison, intent)


def _variables(intent: Intent, before: Graph, constants: list[Node]) -> list[str]:
    """Has INTENT say that each of CONSTANTS is read from a variable; returns the names of the handles."""
    handles: list[str] = []
    unique = UniqueNames(lambda name: name in before)
    for node in constants:
        handles.append(name := unique(f"{node.name}/handle"))
        header = constant_header(node)
        dims = header.dims if header is not None else None
        attrs = {"dtype": type_value(node.output.dtype), "shape": shape_value(dims),
                 "shared_name": bytes_value(node.name.encode())}  # fmt: skip
        own = {key: value.SerializeToString() for key, value in attrs.items()}
        intent.added.append(name)
        intent.altered += made(name, "VarHandleOp", device=node.device, attrs=own)
        intent.changed.append(node.name)
        kept = tuple(sorted(set(node.attr_keys) - {"value"}))
        intent.altered += [
            Altered(node.name, "op", "ReadVariableOp"),
            Altered(node.name, "inputs", (name,)),
            Altered(node.name, "attrs", kept),
            Altered(node.name, "attr value", None),
        ]
    return handles
