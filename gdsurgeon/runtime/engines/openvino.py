"""OpenVINO, which reads frozen graphs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.engines.engine import EngineGraph, EngineRuntime, refuse, spelt
from gdsurgeon.runtime.process import unnamed_file
from gdsurgeon.runtime.tensor import Tensor, from_numpy

# It sends usage data when it is imported, and fails if it cannot write into the home folder.
cast(dict[str, object], sys.modules)["openvino_telemetry"] = None
import openvino  # noqa: E402
from openvino.frontend import FrontEndManager  # noqa: E402


class OpenVinoRuntime(EngineRuntime):
    """`gdsurgeon.runtime.checked.Runtime` on OpenVINO, on the CPU and in float32."""

    name = "openvino"

    def __init__(self) -> None:
        self.version = str(openvino.__version__).partition("-")[0]
        self._core: Any = openvino.Core()
        self._frontend: Any = FrontEndManager().load_by_framework("tf")

    def load(
        self, data: bytes | bytearray | memoryview, default_device: str = "", options: SessionOptions | None = None
    ) -> OpenVinoGraph:
        """See `gdsurgeon.runtime.checked.Runtime.load`."""
        return OpenVinoGraph(self._core, self._frontend, data)


class OpenVinoGraph(EngineGraph):
    """A model of OpenVINO."""

    def __init__(self, core: Any, frontend: Any, data: bytes | bytearray | memoryview) -> None:
        super().__init__(data)
        self._core = core
        file = unnamed_file()  # it reads files alone, and this process may write none
        try:
            with os.fdopen(os.dup(file), "wb") as out:
                out.write(data)
            self._model: Any = frontend.convert(frontend.load(f"/proc/self/fd/{file}"))
        except Exception as error:  # of classes of its own
            refuse(self.said(error))
        finally:
            os.close(file)
        self._compiled: Any = None
        self._outputs: list[str] = []

    def run_engine(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> list[Tensor]:
        """See `EngineGraph.run_engine`."""
        self.check_inputs(feeds)
        if self._compiled is None or self._outputs != list(fetches):
            self._compile(feeds, fetches)
        given = self._compiled({spelt(name): _array(value) for name, value in feeds.items()})
        return [from_numpy(np.asarray(given[place])) for place in self._places(fetches)]

    def _places(self, fetches: Sequence[str]) -> list[Any]:
        """Where the outputs are: by their names, and where there is one only, whatever it is called."""
        if len(fetches) == len(self._compiled.outputs) == 1:
            return [self._compiled.outputs[0]]
        return [self._compiled.output(spelt(name)) for name in fetches]

    @staticmethod
    def said(error: Exception) -> str:
        """What OpenVINO says, in one line: which ops it has no rule for or cannot convert, with the first reason."""
        text = str(error)
        found = re.findall(
            r"^-- (No conversion rule found for operations: .+|Conversion is failed for: .+)$", text, re.M
        )
        why = re.search(r"^-- (.+ with a message:)\s+(?:Check .*\s+.*\s+)?(.+)$", text, re.M)
        if found:
            return "; ".join([*found, *([f"{why[1]} {why[2]}"] if why else [])])
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        plain = [
            line for line in lines if not line.startswith(("Check '", "Exception from src", "FrontEnd API failed"))
        ]
        return (plain or lines or [type(error).__name__])[0]

    def _compile(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> None:
        unranked = {name for given in self._model.inputs if given.partial_shape.rank.is_dynamic for name in given.names}
        shapes = {spelt(name): list(value.shape) for name, value in feeds.items() if spelt(name) in unranked}
        if shapes:  # it does not run without them, and users of such a model give them
            self._model.reshape(shapes)
        known = {name for output in self._model.outputs for name in output.names}
        missing = [spelt(name) for name in fetches if spelt(name) not in known]
        if missing and not len(fetches) == len(self._model.outputs) == 1:
            self._model.add_outputs(missing)
        self._compiled = self._core.compile_model(self._model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self._outputs = list(fetches)


def _array(value: Tensor) -> Any:
    array: Any = value.numpy()
    if value.dtype != STRING:
        return np.array(array)  # it wants what can be written
    return np.array([item.decode("utf-8", "surrogateescape") for item in array.ravel()]).reshape(array.shape)
