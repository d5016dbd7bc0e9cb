"""The same rename done by TensorFlow itself, each way in a process of its own.

peers.py parse MODEL OUT OLD NEW    parse the GraphDef, rename the node and its readers, write
peers.py import MODEL OUT OLD NEW   as `parse`, and load the result with tf.import_graph_def
peers.py gtt MODEL OUT OLD NEW      the Graph Transform Tool inside the TensorFlow package
"""

from __future__ import annotations

import sys
from typing import Any


def renamed_input(tensor: str, old: str, new: str) -> str:
    """`tensor` as an input of a node, with `old` replaced where it names the node read."""
    mark = "^" if tensor.startswith("^") else ""
    name, colon, index = tensor[len(mark) :].partition(":")
    return f"{mark}{new}{colon}{index}" if name == old else tensor


def parsed(model: str, old: str, new: str) -> Any:
    """The GraphDef of the file with one node renamed, as a script of a dozen lines does it."""
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef()
    with open(model, "rb") as file:
        graph_def.ParseFromString(file.read())
    for node in graph_def.node:
        if node.name == old:
            node.name = new
        for i, tensor in enumerate(node.input):
            if old in tensor:
                node.input[i] = renamed_input(tensor, old, new)
    return graph_def


def rename_by_parsing(model: str, old: str, new: str) -> bytes:
    content: bytes = parsed(model, old, new).SerializeToString()
    return content


def rename_and_import(model: str, old: str, new: str) -> bytes:
    import tensorflow as tf

    graph_def = parsed(model, old, new)
    content: bytes = graph_def.SerializeToString()  # first: the import adds attrs to what it is given
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
    return content


def rename_by_graph_transform_tool(model: str, old: str, new: str) -> bytes:
    from tensorflow.python.util._pywrap_transform_graph import TransformGraphWithStringInputs

    with open(model, "rb") as file:
        content = file.read()
    transform = f'rename_node(old_node_name="{old}",new_node_name="{new}")'
    renamed: bytes = TransformGraphWithStringInputs(content, "", "", transform)
    return renamed


WAYS = {
    "parse": rename_by_parsing,
    "import": rename_and_import,
    "gtt": rename_by_graph_transform_tool,
}


def main() -> None:
    way, model, out, old, new = sys.argv[1:]
    content = WAYS[way](model, old, new)
    with open(out, "wb") as file:
        file.write(content)


if __name__ == "__main__":
    main()
