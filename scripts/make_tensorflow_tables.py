#!/usr/bin/env python3
"""Writes gdsurgeon/data/ from the installed TensorFlow: the message descriptors and the op signatures.

    python scripts/make_tensorflow_tables.py            write gdsurgeon/data/
    python scripts/make_tensorflow_tables.py --check    write nothing; exit 1 if a file differs

Editing never imports TensorFlow, so the package contains these facts about TensorFlow:

graphdef.fds   a FileDescriptorSet of graph.proto, step_stats.proto and their imports, without source info. It also has
               three flattened views (`gdsurgeon.NodeBodies`, `gdsurgeon.NodeHeaders`, `gdsurgeon.NodeLinks`), with
               which one call splits or parses many nodes.
models.fds     the same for the messages around a graph: MetaGraphDef, SavedModel, the messages of collections, and the
               index of a checkpoint; without the files of graphdef.fds.
ops.txt        one op a line, sorted: the name, a tab, and JSON with the keys
                 i, o  input and output args: [name, type, number_attr, is_ref], without the empty items at the end;
                       type is a DataType number, the name of a type attr, or ["name"] for a list(type) attr
                 a     attrs: [name, type, default]; no third item: no default; null: a default that is not recorded
                 t     allowed DataTypes or texts, by attr
                 m     the smallest number, or the smallest length of a list, by attr
                 d     the version of GraphDefs that removed the op
                 s     1 if the op is stateful
               The first line is "#", the TensorFlow version and its version of GraphDefs, separated by tabs.
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
    """Returns the files of GraphDefs as FileDescriptorProtos; each file follows its imports."""
    from tensorflow.core.framework import graph_pb2, step_stats_pb2

    return [*files([graph_pb2.DESCRIPTOR, step_stats_pb2.DESCRIPTOR]), flattened_views()]


def model_descriptors() -> list[Any]:
    """Returns the files of the messages around a graph, without those of `graph_descriptors`."""
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


def flattened_views() -> Any:
    """Returns messages whose fields collect the same field of many concatenated NodeDefs."""
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
        "t": {
            attr.name: [text.decode() for text in attr.allowed_values.list.s] or list(attr.allowed_values.list.type)
            for attr in op.attr
            if attr.HasField("allowed_values")
        },
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


def plain_value(value: Any) -> Any:
    """Returns a default as JSON; None for a tensor, shape, function, or bytes."""
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


def is_up_to_date(path: Path, content: bytes, check: bool) -> bool:
    """Returns whether a file has this content, and prints it; without `check`, writes a file that differs."""
    is_same = path.exists() and path.read_bytes() == content
    if not is_same and not check:
        path.write_bytes(content)
    print(f"{path.name}: {len(content):,} bytes, {'up to date' if is_same else 'differs' if check else 'written'}")
    return is_same


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    check = parser.parse_args().check
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    made = {"ops.txt": op_table()}
    for name, descriptors in {"graphdef.fds": graph_descriptors(), "models.fds": model_descriptors()}.items():
        made[name] = FileDescriptorSet(file=descriptors).SerializeToString(deterministic=True)
    same = [is_up_to_date(DATA / name, content, check) for name, content in made.items()]
    return int(check and not all(same))


if __name__ == "__main__":
    sys.exit(main())
