"""The same work done by TensorFlow itself, each way in a process of its own.

peers.py parse MODEL OUT OLD NEW    parse the GraphDef, rename the node and its readers, write
peers.py import MODEL OUT OLD NEW   as `parse`, and load the result with tf.import_graph_def
peers.py gtt MODEL OUT OLD NEW      the Graph Transform Tool inside the TensorFlow package
peers.py freeze-tf1 MODEL OUT y y   freeze a SavedModel whose output is y with freeze_graph
peers.py freeze-tf2 MODEL OUT y y   the same with convert_variables_to_constants_v2
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


def freeze_of_tensorflow_1(model: str, old: str, new: str) -> bytes:
    del new
    from tensorflow.python.tools.freeze_graph import freeze_graph

    frozen = freeze_graph("", "", True, "", old, "", "", "", True, "", input_saved_model_dir=model)
    return bytes(frozen.SerializeToString())


def freeze_of_tensorflow_2(model: str, old: str, new: str) -> bytes:
    del old, new
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    loaded = tf.saved_model.load(model)  # it holds the variables
    signature = loaded.signatures["serving_default"]
    return bytes(convert_variables_to_constants_v2(signature).graph.as_graph_def().SerializeToString())


WAYS = {
    "parse": rename_by_parsing,
    "import": rename_and_import,
    "gtt": rename_by_graph_transform_tool,
    "freeze-tf1": freeze_of_tensorflow_1,
    "freeze-tf2": freeze_of_tensorflow_2,
}


def main() -> None:
    way, model, out, old, new = sys.argv[1:]
    content = WAYS[way](model, old, new)
    with open(out, "wb") as file:
        file.write(content)


if __name__ == "__main__":
    main()
