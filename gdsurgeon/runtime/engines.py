"""Engines other than TensorFlow in the worker process: each loads a graph and runs it.

An engine gets the same request as in a deployment: the whole graph unchanged, and values for its inputs. An error of
an engine about the graph is therefore a `TensorFlowError`, like an error of TensorFlow, with the code `NOT_LOADED`.
"""

from __future__ import annotations

import os
import re
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.releases import TITLES
from gdsurgeon.runtime.base import LoadedGraph, RunResult, Runtime, parse_name
from gdsurgeon.runtime.failures import NOT_LOADED, NOT_RUN, TensorFlowError, TensorFlowMissing, first_line
from gdsurgeon.runtime.process import unnamed_file
from gdsurgeon.runtime.python_tf import open_python, prepare_import
from gdsurgeon.runtime.tensor import Tensor, from_numpy
from gdsurgeon.wire.protos import GraphDef, decode_error


def open_engine(name: str, folder: str) -> Runtime:
    """Returns the engine `name`, with its Python module from `folder` unless that is ''.

    Raises:
        TensorFlowMissing: it is not installed or cannot be imported.
    """
    if folder:
        sys.path.insert(0, folder)
    prepare_import()
    try:
        return {"opencv": _opencv, "openvino": _openvino, "tflite": _tflite}[name]()
    except TensorFlowMissing:
        raise
    except Exception as error:  # a broken installation fails with more than ImportError
        raise TensorFlowMissing(f"{TITLES[name]} cannot be imported: {first_line(error)}") from error


class _Node(NamedTuple):
    op: str
    inputs: Sequence[str]
    data_format: str


class EngineGraph(LoadedGraph):
    """A graph that an engine has loaded.

    Args:
        data: the serialised GraphDef.

    Attributes:
        nodes: of the graph, by name.
    """

    def __init__(self, data: bytes) -> None:
        try:
            nodes = GraphDef.FromString(data).node
        except decode_error() as error:
            refuse(f"it is not a GraphDef: {error}")
        self.nodes = {
            node.name: _Node(node.op, tuple(node.input), node.attr["data_format"].s.decode("utf-8", "replace"))
            for node in nodes
        }

    @abstractmethod
    def run_engine(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> list[Tensor]:
        """Returns the results of `fetches`, which do not repeat. Dtypes, shapes and errors are those of the engine."""

    @staticmethod
    @abstractmethod
    def reason(error: Exception) -> str:
        """Returns the message of an error of the engine in one line."""

    def run(
        self, feeds: Mapping[str, Tensor], fetches: Sequence[str], targets: Sequence[str] = (), trace: bool = False
    ) -> RunResult:
        """See `LoadedGraph.run`. It cannot record traces, or run nodes for their effects."""
        if targets:
            refuse("it cannot run nodes for their effects, such as initializers")
        fed = {name.removesuffix(":0"): value for name, value in feeds.items()}
        wanted = [name.removesuffix(":0") for name in fetches]
        asked = [name for name in dict.fromkeys(wanted) if name not in fed]
        if asked:
            try:
                fed.update(zip(asked, self.run_engine(fed, asked), strict=True))
            except TensorFlowError:
                raise
            except Exception as error:  # the engine has classes of its own
                refuse(self.reason(error), NOT_RUN)
        return RunResult([fed[name] for name in wanted], b"" if trace else None)

    def check_inputs(self, feeds: Mapping[str, Tensor]) -> None:
        """Raises TensorFlowError if one of `feeds` is not an input of the graph; only TensorFlow can feed others."""
        for name in feeds:
            op = self.nodes[name].op if name in self.nodes else "tensor"
            if not op.startswith("Placeholder"):
                refuse(f"only inputs can be fed, but {name!r} is a {op}", NOT_RUN)

    def close(self) -> None:
        self.nodes = {}


def refuse(why: str, code: str = NOT_LOADED) -> NoReturn:
    """Raises TensorFlowError: the engine does not load or run the graph, with `why` as the reason."""
    raise TensorFlowError(code, why)


def _spelled(tensor: str) -> str:
    """Returns the name of a tensor with the number of the output."""
    return tensor if ":" in tensor else f"{tensor}:0"


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


# -- OpenCV -----------------------------------------------------------------------------------------------------------

_CHANNELS_LAST = ("NHWC", "NDHWC")
_MERGED = ("BiasAdd", "Identity")
"""Ops that OpenCV may merge into the layer of their input."""


def _opencv() -> Runtime:
    import cv2

    return Runtime("opencv", str(cv2.__version__), lambda data, *_: OpenCvGraph(cv2, bytes(data)))


class OpenCvGraph(EngineGraph):
    """A net of OpenCV's dnn module.

    OpenCV expects images with channels first: inputs of rank 4 and 5 are transposed if a node has the data format NHWC
    or NDHWC, as OpenCV's importer does; outputs are returned with channels first. It only has types of 32 bits. It
    merges nodes: the layer of a convolution also adds the bias. If an output was merged, and is the only one, the last
    layer of the net returns it.
    """

    def __init__(self, cv2: Any, data: bytes) -> None:
        super().__init__(data)
        self._is_channels_last = any(node.data_format in _CHANNELS_LAST for node in self.nodes.values())
        try:
            self._net: Any = cv2.dnn.readNetFromTensorflow(np.frombuffer(data, np.uint8))
        except cv2.error as error:
            refuse(self.reason(error))
        if self._net.empty():
            refuse("its net has no layers")

    def run_engine(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> list[Tensor]:
        self.check_inputs(feeds)
        for name, value in feeds.items():
            self._net.setInput(self._blob(name, value), name)
        layers = [self._layer(name, len(fetches)) for name in fetches]
        if any(port for _, port in layers):
            ports = [self._net.forwardAndRetrieve([layer])[0] for layer, _ in layers]
            return [from_numpy(np.asarray(given[port])) for given, (_, port) in zip(ports, layers, strict=True)]
        wanted = list(dict.fromkeys(layer for layer, _ in layers))
        given = dict(zip(wanted, self._net.forward(wanted), strict=True))
        return [from_numpy(np.asarray(given[layer])) for layer, _ in layers]

    @staticmethod
    def reason(error: Exception) -> str:
        """Returns OpenCV's message without the place in its source."""
        lines = _lines(str(getattr(error, "err", "") or error))
        text = next((line for line in lines if re.search("error:|Error:|message:", line)), lines[0] if lines else "")
        where = str(getattr(error, "func", "") or "")
        return text.removeprefix("> ") + (f" (in {where})" if where.isidentifier() else "")

    def _blob(self, name: str, value: Tensor) -> Any:
        if value.dtype == STRING:
            refuse(f"it does not support strings, such as the input {name!r}", NOT_RUN)
        array = value.numpy()
        if array.ndim in (4, 5) and self._is_channels_last:
            array = np.moveaxis(array, -1, 1)
        return np.ascontiguousarray(array, array.dtype if array.dtype == np.uint8 else np.float32)

    def _layer(self, tensor: str, count: int) -> tuple[str, int]:
        """Returns the layer of `tensor`, one of `count` fetches, and the number of its output."""
        known = set(self._net.getLayerNames())
        name, port = parse_name(tensor)
        while name not in known and name in self.nodes and self.nodes[name].op in _MERGED and self.nodes[name].inputs:
            name, port = parse_name(self.nodes[name].inputs[0])
        last = self._net.getUnconnectedOutLayersNames()
        if name not in known and count == len(last) == 1:
            return last[0], 0
        return name, port


# -- OpenVINO ---------------------------------------------------------------------------------------------------------


def _openvino() -> Runtime:
    # It sends usage data when it is imported, and fails if it cannot write into the home folder.
    cast(dict[str, object], sys.modules)["openvino_telemetry"] = None
    import openvino
    from openvino.frontend import FrontEndManager

    core, manager = openvino.Core(), FrontEndManager()
    frontend = manager.load_by_framework("tf")
    version = str(openvino.__version__).partition("-")[0]
    return Runtime("openvino", version, lambda data, *_: OpenVinoGraph(core, frontend, bytes(data)))


class OpenVinoGraph(EngineGraph):
    """A model of OpenVINO, on the CPU and in float32."""

    def __init__(self, core: Any, frontend: Any, data: bytes) -> None:
        super().__init__(data)
        self._core = core
        file = unnamed_file()  # it only reads files, and this process may not write files
        try:
            with os.fdopen(os.dup(file), "wb") as out:
                out.write(data)
            self._model: Any = frontend.convert(frontend.load(f"/proc/self/fd/{file}"))
        except Exception as error:  # it has classes of its own
            refuse(self.reason(error))
        finally:
            os.close(file)
        self._compiled: Any = None
        self._outputs: list[str] = []

    def run_engine(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> list[Tensor]:
        self.check_inputs(feeds)
        if self._compiled is None or self._outputs != list(fetches):
            self._compile(feeds, fetches)
        given = self._compiled({_spelled(name): self._array(value) for name, value in feeds.items()})
        outputs = self._compiled.outputs
        if len(fetches) != 1 or len(outputs) != 1:  # the name of an only output does not matter
            outputs = [self._compiled.output(_spelled(name)) for name in fetches]
        return [from_numpy(np.asarray(given[output])) for output in outputs]

    @staticmethod
    def reason(error: Exception) -> str:
        """Returns OpenVINO's message: the ops without a conversion rule or with a failed one, with the first reason."""
        text = str(error)
        rules = r"^-- (No conversion rule found for operations: .+|Conversion is failed for: .+)$"
        found = re.findall(rules, text, re.M)
        why = re.search(r"^-- (.+ with a message:)\s+(?:Check .*\s+.*\s+)?(.+)$", text, re.M)
        if found:
            return "; ".join([*found, *([f"{why[1]} {why[2]}"] if why else [])])
        lines, internal = _lines(text), ("Check '", "Exception from src", "FrontEnd API failed")
        plain = [line for line in lines if not line.startswith(internal)]
        return (plain or lines or [type(error).__name__])[0]

    def _compile(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> None:
        unranked = {name for given in self._model.inputs if given.partial_shape.rank.is_dynamic for name in given.names}
        shapes = {_spelled(name): list(value.shape) for name, value in feeds.items() if _spelled(name) in unranked}
        if shapes:  # it does not run without them, and users of such a model set them
            self._model.reshape(shapes)
        known = {name for output in self._model.outputs for name in output.names}
        missing = [_spelled(name) for name in fetches if _spelled(name) not in known]
        if missing and not len(fetches) == len(self._model.outputs) == 1:
            self._model.add_outputs(missing)
        self._compiled = self._core.compile_model(self._model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self._outputs = list(fetches)

    @staticmethod
    def _array(value: Tensor) -> Any:
        array = value.numpy()
        if value.dtype != STRING:
            return np.array(array)  # it requires writable arrays
        return np.array([item.decode("utf-8", "surrogateescape") for item in array.ravel()]).reshape(array.shape)


# -- TFLite -----------------------------------------------------------------------------------------------------------


def _tflite() -> Runtime:
    return Runtime("tflite", open_python().version, lambda data, *_: TfLiteGraph(bytes(data)))


class TfLiteGraph(EngineGraph):
    """A graph for TensorFlow's converter and TFLite's interpreter.

    It is converted when it runs, because the converter needs the feeds, their shapes, and the fetches.
    """

    def __init__(self, data: bytes) -> None:
        import tensorflow as tf

        super().__init__(data)
        self._tf: Any = tf
        self._graph_def: Any = tf.compat.v1.GraphDef.FromString(data)
        self._converted: dict[object, bytes] = {}

    def run_engine(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> list[Tensor]:
        key = tuple((name, value.shape) for name, value in feeds.items()), tuple(fetches)
        if key not in self._converted:
            try:
                self._converted = {key: self._convert(feeds, fetches)}
            except Exception as error:
                refuse(self.reason(error))
        return self._interpret(self._converted[key], feeds, len(fetches))

    @staticmethod
    def reason(error: Exception) -> str:
        """Returns the message of the converter or interpreter: the ops that TFLite lacks, if it names them."""
        text = str(error)
        ops = list(dict.fromkeys(re.findall(r"^\s*((?:TF Select|Custom|Flex) ops: .+?)\s*$", text, re.M)))
        if ops:
            return "it lacks " + "; ".join(ops)
        return re.sub(r"^<unknown>:0: error: |loc\(.*?\): (?=')", "", (_lines(text) or [type(error).__name__])[0])

    def _convert(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> bytes:
        tf = self._tf
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(self._graph_def, name="")
        inputs = [graph.get_tensor_by_name(_spelled(name)) for name in feeds]
        for tensor, value in zip(inputs, feeds.values(), strict=True):
            tensor.set_shape(value.shape)
        outputs = [graph.get_tensor_by_name(_spelled(name)) for name in fetches]
        return bytes(tf.compat.v1.lite.TFLiteConverter(self._graph_def, inputs, outputs).convert())

    def _interpret(self, model: bytes, feeds: Mapping[str, Tensor], count: int) -> list[Tensor]:
        interpreter = self._tf.lite.Interpreter(model_content=model)
        # Matched by their order, because the converter changes names.
        given, results = interpreter.get_input_details(), interpreter.get_output_details()
        interpreter.allocate_tensors()
        by_name = {detail["name"].partition(":")[0]: detail for detail in given}
        for place, (name, value) in enumerate(feeds.items()):
            detail = by_name.get(name.partition(":")[0], given[place])
            array = value.numpy()
            interpreter.set_tensor(detail["index"], array if value.dtype == STRING else array.astype(detail["dtype"]))
        interpreter.invoke()
        if len(results) != count:
            refuse(f"it has {len(results)} outputs, not {count}", NOT_RUN)
        return [from_numpy(np.asarray(interpreter.get_tensor(detail["index"]))) for detail in results]
