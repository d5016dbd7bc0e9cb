"""TFLite, as TensorFlow's package has it: the graph is converted for the inputs' shapes, and interpreted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.engines.engine import NOT_RUN, EngineGraph, EngineRuntime, refuse, spelt
from gdsurgeon.runtime.python_tf import PythonRuntime
from gdsurgeon.runtime.tensor import Tensor, from_numpy


class TfLiteRuntime(EngineRuntime):
    """`gdsurgeon.runtime.checked.Runtime` on TensorFlow's converter to TFLite and TFLite's interpreter."""

    name = "tflite"

    def __init__(self) -> None:
        python = PythonRuntime()
        self.version = python.version
        import tensorflow

        self._tf: Any = tensorflow

    def load(
        self, data: bytes | bytearray | memoryview, default_device: str = "", options: SessionOptions | None = None
    ) -> TfLiteGraph:
        """See `gdsurgeon.runtime.checked.Runtime.load`."""
        return TfLiteGraph(self._tf, data)


class TfLiteGraph(EngineGraph):
    """A graph that is converted when it is run: the converter wants to know what is fed and fetched."""

    def __init__(self, tf: Any, data: bytes | bytearray | memoryview) -> None:
        super().__init__(data)
        self._tf = tf
        self._graph_def: Any = tf.compat.v1.GraphDef.FromString(bytes(data))
        self._converted: dict[object, bytes] = {}

    def run_engine(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> list[Tensor]:
        """See `EngineGraph.run_engine`."""
        key = tuple((name, value.shape) for name, value in feeds.items()), tuple(fetches)
        if key not in self._converted:
            try:
                self._converted = {key: self._convert(feeds, fetches)}
            except Exception as error:
                refuse(self.said(error))
        return self._interpret(self._converted[key], feeds, len(fetches))

    @staticmethod
    def said(error: Exception) -> str:
        """What the converter or the interpreter says, in one line: the ops that TFLite has not got, if it names any."""
        text = str(error)
        ops = list(dict.fromkeys(re.findall(r"^\s*((?:TF Select|Custom|Flex) ops: .+?)\s*$", text, re.M)))
        if ops:
            return "it lacks " + "; ".join(ops)
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        first = (lines or [type(error).__name__])[0]
        return re.sub(r"^<unknown>:0: error: |loc\(.*?\): (?=')", "", first)

    def _convert(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> bytes:
        tf = self._tf
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(self._graph_def, name="")
        inputs = [graph.get_tensor_by_name(spelt(name)) for name in feeds]
        for tensor, value in zip(inputs, feeds.values(), strict=True):
            tensor.set_shape(value.shape)
        outputs = [graph.get_tensor_by_name(spelt(name)) for name in fetches]
        converter = tf.compat.v1.lite.TFLiteConverter(self._graph_def, inputs, outputs)
        return bytes(converter.convert())

    def _interpret(self, model: bytes, feeds: Mapping[str, Tensor], count: int) -> list[Tensor]:
        interpreter = self._tf.lite.Interpreter(model_content=model)
        # By the order in which they were named, because their names were changed.
        given, results = interpreter.get_input_details(), interpreter.get_output_details()
        interpreter.allocate_tensors()
        by_name = {detail["name"].partition(":")[0]: detail for detail in given}
        for place, (name, value) in enumerate(feeds.items()):
            detail = by_name.get(name.partition(":")[0], given[place])
            array: Any = value.numpy()
            interpreter.set_tensor(detail["index"], array if value.dtype == STRING else array.astype(detail["dtype"]))
        interpreter.invoke()
        if len(results) != count:
            refuse(f"it has {len(results)} outputs, not {count}", NOT_RUN)
        return [from_numpy(np.asarray(interpreter.get_tensor(detail["index"]))) for detail in results]
