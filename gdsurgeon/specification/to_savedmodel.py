"""to-savedmodel: the graph stays as it is, but for constants that are variables now, which are restored and saved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.intent import Altered, Intent, made
from gdsurgeon.graph.attrs import bytes_value, shape_value, type_value, types_value
from gdsurgeon.graph.constants import constant_header, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOATING, STRING


def violations(comparison: Comparison, unfreeze: str | None = None, **asked: object) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del asked  # what else is asked is said around the graph
    intent = Intent()
    if unfreeze is not None:
        before = comparison.before
        nodes = [node for node in before.nodes() if node.op == "Const" and re.search(unfreeze, node.name)]
        constants = [node for node in nodes if node.output.dtype in FLOATING]
        handles = _variables(intent, before, constants)
        _saver(intent, before, constants, handles)
    yield from audit(comparison, intent)


def _variables(intent: Intent, before: Graph, constants: list[Node]) -> list[str]:
    """Has INTENT say that each of CONSTANTS is read from a variable; returns the names of the handles."""
    handles: list[str] = []
    for node in constants:
        name, number = f"{node.name}/handle", 0
        while name in before or name in handles:
            number += 1
            name = f"{node.name}/handle_{number}"
        handles.append(name)
        header = constant_header(node)
        dims = header.dims if header is not None else None
        attrs = {"shape": shape_value(dims), "shared_name": bytes_value(node.name.encode())}
        own = {"dtype": _dtypes(node)["dtype"], **{key: value.SerializeToString() for key, value in attrs.items()}}
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


def _saver(intent: Intent, before: Graph, constants: list[Node], handles: list[str]) -> None:
    """Has INTENT say what restores the variables from tensors of the constants' names, and saves them so."""
    scopes = {name.split("/")[0] for name in (*before.names(), *handles)}
    scope, number = "save", 0
    while scope in scopes:
        number += 1
        scope = f"save_{number}"
    path, names, slices = f"{scope}/file_name", f"{scope}/names", f"{scope}/slices"
    texts = [node.name.encode() for node in constants]
    dtypes = {"dtypes": types_value([node.output.dtype for node in constants]).SerializeToString()}
    restored = [f"{scope}/RestoreV2" + (f":{n}" if n else "") for n in range(len(constants))]
    assigned = [f"{scope}/Assign_{n}" for n in range(len(constants))]
    reads = [f"{scope}/Read_{n}" for n in range(len(constants))]
    new = [
        *made(path, "Placeholder"),
        *_texts(names, texts),
        *_texts(slices, [b""] * len(texts)),
        *made(f"{scope}/RestoreV2", "RestoreV2", [path, names, slices], attrs=dtypes),
        *made(f"{scope}/restore", "NoOp", (), assigned, attrs={}),
        *made(f"{scope}/SaveV2", "SaveV2", [path, names, slices, *reads], attrs=dtypes),
        *made(f"{scope}/save", "Identity", [path], [f"{scope}/SaveV2"]),
    ]
    for n, (node, handle) in enumerate(zip(constants, handles, strict=True)):
        new += made(assigned[n], "AssignVariableOp", [handle, restored[n]], attrs=_dtypes(node))
        new += made(reads[n], "ReadVariableOp", [handle], attrs=_dtypes(node))
    intent.added += dict.fromkeys(item.node for item in new)
    intent.altered += new


def _texts(name: str, texts: list[bytes]) -> list[Altered]:
    value = tensor_value(STRING, (len(texts),), texts).SerializeToString()
    return made(name, "Const", attrs={"dtype": type_value(STRING).SerializeToString(), "value": value})


def _dtypes(node: Node) -> Mapping[str, bytes]:
    return {"dtype": type_value(node.output.dtype).SerializeToString()}
