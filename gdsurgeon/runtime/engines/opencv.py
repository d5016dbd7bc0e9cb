"""OpenCV's dnn module, which reads frozen graphs.

It has images channels first: inputs of rank 4 and 5 are given so where a node of the graph says NHWC or NDHWC, by which
OpenCV's importer tells, and outputs come so. It knows numbers of 32 bits, and merges nodes: the layer of a convolution
adds the bias. Where the name of an output has gone so, and it is the only one, it is what the net gives at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.checked import parse_name
from gdsurgeon.runtime.engines.engine import NOT_RUN, EngineGraph, EngineRuntime, one_line, refuse
from gdsurgeon.runtime.tensor import Tensor, from_numpy

_CHANNELS_LAST = ("NHWC", "NDHWC")
_MERGED = ("BiasAdd", "Identity")
"""Ops of which OpenCV may make no layer: the layer of what they read gives what they give."""


class OpenCvRuntime(EngineRuntime):
    """`gdsurgeon.runtime.checked.Runtime` on cv2.dnn."""

    name = "opencv"

    def __init__(self) -> None:
        self.version = str(cv2.__version__)

    def load(
        self, data: bytes | bytearray | memoryview, default_device: str = "", options: SessionOptions | None = None
    ) -> OpenCvGraph:
        """See `gdsurgeon.runtime.checked.Runtime.load`."""
        return OpenCvGraph(data)


class OpenCvGraph(EngineGraph):
    """A net of OpenCV."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        super().__init__(data)
        self._is_channels_last = any(node.data_format in _CHANNELS_LAST for node in self.nodes.values())
        try:
            self._net: Any = cv2.dnn.readNetFromTensorflow(np.frombuffer(bytes(data), np.uint8))
        except cv2.error as error:
            refuse(self.said(error))
        if self._net.empty():
            refuse("its net has no layers")

    def run_engine(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> list[Tensor]:
        """See `EngineGraph.run_engine`."""
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
    def said(error: Exception) -> str:
        """What OpenCV says, without where in its source it says so."""
        text = str(getattr(error, "err", "") or error)
        where = str(getattr(error, "func", "") or "")
        return one_line(text).removeprefix("> ") + (f" (in {where})" if where.isidentifier() else "")

    def _blob(self, name: str, value: Tensor) -> Any:
        if value.dtype == STRING:
            refuse(f"it does not support strings, such as the input {name!r}", NOT_RUN)
        array: Any = value.numpy()
        if array.ndim in (4, 5) and self._is_channels_last:
            array = np.moveaxis(array, -1, 1)
        return np.ascontiguousarray(array, array.dtype if array.dtype == np.uint8 else np.float32)

    def _layer(self, tensor: str, count: int) -> tuple[str, int]:
        """The layer that gives TENSOR, one of COUNT that are wanted, and which of its outputs that is."""
        known = set(self._net.getLayerNames())
        name, port = parse_name(tensor)
        while name not in known and name in self.nodes and self.nodes[name].op in _MERGED and self.nodes[name].inputs:
            name, port = parse_name(self.nodes[name].inputs[0])
        last = self._net.getUnconnectedOutLayersNames()
        if name not in known and count == len(last) == 1:
            return last[0], 0
        return name, port
