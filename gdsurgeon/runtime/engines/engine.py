"""What the engines have in common: a graph in one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from gdsurgeon.ops.engines import TITLES
from gdsurgeon.runtime.base import Device, Operation, RunResult, SessionOptions, TensorSpec
from gdsurgeon.runtime.checked import LoadedGraph, Runtime, TensorName
from gdsurgeon.runtime.engines.nodes import nodes_of
from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.tensor import Tensor

_MEANT_FOR_PEOPLE = ("error:", "Error:", "message:")


class EngineRuntime(Runtime):
    """An engine that is not TensorFlow, loaded into this process."""

    @abstractmethod
    def load(
        self, data: bytes | bytearray | memoryview, default_device: str = "", options: SessionOptions | None = None
    ) -> EngineGraph:
        """See `gdsurgeon.runtime.checked.Runtime.load`; it runs on the CPU, whatever DEFAULT_DEVICE is."""

    def load_op_library(self, path: str) -> None:
        """Raises TensorFlowError: TensorFlow alone takes libraries of its ops."""
        raise TensorFlowError("unimplemented", f"{path}: {TITLES[self.name]} cannot load TensorFlow op libraries")


class EngineGraph(LoadedGraph):
    """A graph that an engine has taken.

    Args:
        data: the serialised GraphDef.

    Attributes:
        nodes: of the graph, by name.
    """

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        try:
            self.nodes = nodes_of(bytes(data))
        except ValueError as error:
            refuse(f"it is not a GraphDef: {error}")

    @abstractmethod
    def run_engine(self, feeds: Mapping[str, Tensor], fetches: Sequence[str]) -> list[Tensor]:
        """What the engine gives for FETCHES, each once, in shapes and types of its own. Raises what it likes."""

    @staticmethod
    @abstractmethod
    def said(error: Exception) -> str:
        """What the engine says by an ERROR, in one line."""

    def run(
        self,
        feeds: Mapping[str, Tensor],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
        trace: bool = False,
    ) -> RunResult:
        """See `gdsurgeon.runtime.checked.LoadedGraph.run`; nothing is traced, and no node is run for what it does."""
        if targets:
            refuse("it cannot run nodes for their effects, such as initializers")
        fed = {name.removesuffix(":0"): value for name, value in feeds.items()}
        wanted = [name.removesuffix(":0") for name in fetches]
        asked = [name for name in dict.fromkeys(wanted) if name not in fed]
        got = dict(fed)
        if asked:
            try:
                got.update(zip(asked, self.run_engine(fed, asked), strict=True))
            except TensorFlowError:
                raise
            except Exception as error:  # of classes of its own
                refuse(self.said(error), NOT_RUN)
        return RunResult([got[name] for name in wanted], b"" if trace else None)

    def check_inputs(self, feeds: Mapping[str, Tensor]) -> None:
        """Raises TensorFlowError where one of FEEDS is no input of the graph, and can be fed to TensorFlow alone."""
        for name in feeds:
            op = self.nodes[name].op if name in self.nodes else "tensor"
            if not op.startswith("Placeholder"):
                refuse(f"only inputs can be fed, but {name!r} is a {op}", NOT_RUN)

    def operations(self) -> Iterator[Operation]:
        """The nodes of the graph as it is in the file: how many outputs each has is not known."""
        return (Operation(name, node.op, -1) for name, node in self.nodes.items())

    def _signature(self, key: TensorName) -> TensorSpec:
        raise TensorFlowError("unimplemented", f"{key[0]!r}: the engine does not report its tensors")

    def _run(
        self, feeds: dict[TensorName, Tensor], fetches: list[TensorName], targets: Sequence[str], trace: bool
    ) -> RunResult:
        raise TensorFlowError("unimplemented", "an engine runs only whole graphs")

    def devices(self) -> list[Device]:
        """See `gdsurgeon.runtime.checked.LoadedGraph.devices`."""
        return [Device("/device:CPU:0", "CPU", 0)]

    def close(self) -> None:
        """See `gdsurgeon.runtime.checked.LoadedGraph.close`."""
        self.nodes = {}


NOT_TAKEN, NOT_RUN = "unimplemented", "internal"
"""The codes of an engine that does not take a graph, and of one that does, and does not run it."""


def refuse(why: str, code: str = NOT_TAKEN) -> NoReturn:
    """Raises TensorFlowError: the engine does not take a graph, or does not run it, and WHY is its reason."""
    raise TensorFlowError(code, why)


def spelt(tensor: str) -> str:
    """The name of a tensor with the number of the output."""
    return tensor if ":" in tensor else f"{tensor}:0"


def one_line(text: str) -> str:
    """What an engine says, in one line: the line that is meant for people, where there are several."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return next((line for line in lines if any(mark in line for mark in _MEANT_FOR_PEOPLE)), lines[0] if lines else "")
