#!/usr/bin/env python3
"""Makes gdsurgeon/data/ from the TensorFlow that is installed: the message descriptors and the op signatures.

    python scripts/make_tensorflow_tables.py            write gdsurgeon/data/
    python scripts/make_tensorflow_tables.py --check    exit 1 where what is there differs

Editing never imports TensorFlow, so what it has to know of TensorFlow is kept as package data:

graphdef.fds   a FileDescriptorSet of graph.proto, step_stats.proto and what they import, without source info,
               and of three flattened views (`gdsurgeon.NodeBodies`, `gdsurgeon.NodeHeaders`, `gdsurgeon.NodeLinks`)
               by which many nodes are cut apart or parsed in one call.
models.fds     the same of what stands around a graph: MetaGraphDef, SavedModel, the collections' messages, and the
               index of a checkpoint; without the files of graphdef.fds.
ops.txt        one op a line, sorted: the name, a tab, and JSON with the keys
                 i, o  input and output args: [name, type, number_attr, is_ref], short forms cut at the end;
                       type is a DataType number, the name of a type attr, or ["name"] for a list(type) attr
                 a     attrs: [name, type, default]; no third item: no default; null: a default not kept here
                 t     for attrs that allow some DataTypes or texts only, these
                 m     for attrs that have one, the least number, or the least length of a list
                 d     the version of GraphDefs from which on the op is not to be had
                 s     1 where the op is stateful
               The first line is "#", the TensorFlow version and its version of GraphDefs, with tabs between.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "gdsurgeon" / "data"


def graph_descriptors() -> list[Any]:
    """The files of GraphDefs as FileDescriptorProtos, in an order in which each follows what it imports."""
    from tensorflow.core.framework import graph_pb2, step_stats_pb2

    return [*files([graph_pb2.DESCRIPTOR, step_stats_pb2.DESCRIPTOR]), flattened_views()]


def model_descriptors() -> list[Any]:
    """The files of what stands around a graph, without those of GraphDefs; see `graph_descriptors`."""
    from tensorflow.core.example import example_pb2
    from tensorflow.core.framework import variable_pb2
    from tensorflow.core.protobuf import (
        control_flow_pb2,
        meta_graph_pb2,
        queue_runner_pb2,
        saved_model_pb2,
        tensor_bundle_pb2,
        trackable_object_graph_pb2,
    )
    from tensorflow.core.util import saved_tensor_slice_pb2

    modules = (
        meta_graph_pb2, saved_model_pb2, variable_pb2, control_flow_pb2, trackable_object_graph_pb2, tensor_bundle_pb2,
        saved_tensor_slice_pb2, queue_runner_pb2, example_pb2,
    )  # fmt: skip
    known = {file.name for file in graph_descriptors()}
    return [file for file in files([module.DESCRIPTOR for module in modules]) if file.name not in known]


def files(wanted: list[Any], known: dict[str, Any] | None = None) -> list[Any]:
    """Returns the files `wanted` and their imports, imports first, without comments and options."""
    from google.protobuf import descriptor_pb2

    out = known if known is not None else {}
    for file in wanted:
        if file.name not in out:
            files(list(file.dependencies), out)
            proto = descriptor_pb2.FileDescriptorProto()
            file.CopyToProto(proto)
            proto.ClearField("source_code_info")
            proto.ClearField("options")
            out[file.name] = proto
    return list(out.values())


def descriptor_set(wanted: list[Any]) -> bytes:
    """A serialised FileDescriptorSet."""
    from google.protobuf import descriptor_pb2

    return descriptor_pb2.FileDescriptorSet(file=wanted).SerializeToString(deterministic=True)


def flattened_views() -> Any:
    """Messages whose fields gather the same field of many concatenated NodeDefs."""
    from google.protobuf import descriptor_pb2

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="gdsurgeon/views.proto", package="gdsurgeon", syntax="proto3")
    columns = {"name": 1, "op": 2, "input": 3}
    for message, names in (("NodeHeaders", ("name", "op", "input")), ("NodeLinks", ("name", "input"))):
        entry = file.message_type.add(name=message)
        for name in names:
            entry.field.add(name=name, number=columns[name], type=field.TYPE_STRING, label=field.LABEL_REPEATED)
    entry = file.message_type.add(name="NodeBodies")
    entry.field.add(name="node", number=1, type=field.TYPE_BYTES, label=field.LABEL_REPEATED)
    return file


def installed_ops() -> list[Any]:
    """Returns the OpDefs of the installed TensorFlow, sorted by name."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    data = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return sorted(op_def_pb2.OpList.FromString(data).op, key=lambda op: op.name)


def op_table() -> bytes:
    """Returns the text of ops.txt."""
    import tensorflow as tf

    rows = (f"{op.name}\t{json.dumps(op_row(op, plain_value), separators=(',', ':'))}" for op in installed_ops())
    head = f"#\t{tf.version.VERSION}\t{tf.version.GRAPH_DEF_VERSION}"
    return ("\n".join([head, *rows]) + "\n").encode()


def op_row(op: Any, default: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns the entry of an op in a table, without empty fields; `default` converts a default to JSON."""
    row = {
        "i": [arg_row(arg) for arg in op.input_arg],
        "o": [arg_row(arg) for arg in op.output_arg],
        "a": [[a.name, a.type, *([default(a.default_value)] if a.HasField("default_value") else [])] for a in op.attr],
        "t": {attr.name: allowed_values(attr) for attr in op.attr if attr.HasField("allowed_values")},
        "m": {attr.name: attr.minimum for attr in op.attr if attr.has_minimum},
        "d": op.deprecation.version if op.HasField("deprecation") else None,
        "s": int(op.is_stateful),
    }
    return {key: value for key, value in row.items() if value or (key == "d" and value is not None)}


def arg_row(arg: Any) -> list[Any]:
    kind: Any = [arg.type_list_attr] if arg.type_list_attr else arg.type_attr or arg.type
    row: list[Any] = [arg.name, kind, arg.number_attr or None, int(arg.is_ref)]
    while not row[-1]:
        row.pop()
    return row


def allowed_values(attr: Any) -> list[Any]:
    values = attr.allowed_values.list
    return [text.decode() for text in values.s] or list(values.type)


def plain_value(value: Any) -> Any:
    """A JSON form of a default, or None where there is no simple one (tensors, shapes, functions, bytes)."""
    which = value.WhichOneof("value")
    if which in ("i", "b", "type"):
        return getattr(value, which)
    if which == "f":
        return value.f if value.f == value.f and abs(value.f) != float("inf") else None
    if which == "s":
        return value.s.decode() if value.s.isascii() else None
    if which == "list":
        for field in ("i", "b", "type"):
            items = list(getattr(value.list, field))
            if items:
                return items
        return [] if not value.list.ListFields() else None
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Make gdsurgeon/data/ from the installed TensorFlow.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 where something differs")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    DATA.mkdir(exist_ok=True)
    differs = False
    made = {
        "graphdef.fds": descriptor_set(graph_descriptors()),
        "models.fds": descriptor_set(model_descriptors()),
        "ops.txt": op_table(),
    }
    for name, content in made.items():
        path = DATA / name
        if arguments.check:
            same = path.exists() and path.read_bytes() == content
            differs |= not same
            print(f"{name}: {'up to date' if same else 'differs'}")
        else:
            path.write_bytes(content)
            print(f"{name}: {len(content)} bytes")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
