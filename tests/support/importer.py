"""TensorFlow's import of graphs, and the known differences between its verdict and the structural check."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from types import TracebackType

from typing_extensions import Self

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.load import from_bytes


class Importer:
    """TensorFlow's TF_GraphImportGraphDef in a process of its own; `crashes` counts the graphs that ended one."""

    def __init__(self) -> None:
        self.crashes = 0
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        return subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment,
        )  # fmt: skip

    def refusal(self, data: bytes) -> str | None:
        """Returns TensorFlow's error for a graph, '' without an error, None if TensorFlow has crashed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(struct.pack("<I", len(data)) + data)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        head = self._process.stdout.read(4)
        if len(head) < 4:
            self.close()
            self.crashes += 1
            self._process = self._started()
            return None
        return self._process.stdout.read(struct.unpack("<I", head)[0]).decode("utf-8", "replace")

    def close(self) -> None:
        """Ends the process."""
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:
                pass
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _serve() -> None:
    from gdsurgeon.runtime.base import SessionOptions
    from gdsurgeon.runtime.capi import CApiGraph, load_installed
    from gdsurgeon.runtime.failures import TensorFlowError

    class Imported(CApiGraph):
        """A graph without a session, which takes longer to open than the graph to import."""

        def _open_session(self, options: SessionOptions) -> int:
            return 0

    library = load_installed()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    while head := sys.stdin.buffer.read(4):
        said, data = "", sys.stdin.buffer.read(*struct.unpack("<I", head))
        try:
            Imported(library, data, "", SessionOptions()).close()
        except TensorFlowError as error:
            said = f"{error.code}: {error}"
        answer = said.encode()
        out.write(struct.pack("<I", len(answer)) + answer)
        out.flush()


OF_TENSORFLOW_ALONE = {
    "with input shapes: |No shape inference function|instantiation included invalid": "shapes are inferred at `load`",
    "Op type not registered": "an op may be in a library of the user's: a warning",
    "expects to be colocated with unknown node": "a warning: the node is written anew without it",
    "Control dependencies must come after": "a warning: the node is written anew in order",
    "Failed to bind all placeholders": "whether a call gives an attr is known where it is called",
}
"""What TensorFlow says when it refuses what `structure` takes, and why that is so."""

OF_STRUCTURE_ALONE = {
    r"call each other in an endless recursion": "TensorFlow crashes when it runs the graph",
    r"has several (in|out)puts named|\d+ functions have the name|has no name|has no ret for|^(control_)?ret ":
        "TensorFlow looks at a function where it is called",
    r"of function '": "TensorFlow looks at a function where it is called, and at attrs where it makes the kernel",
    r"the tensor in attr|its dtype attr is": "TensorFlow looks at a tensor where it makes the kernel",
    r"the function '.*', which the library does not have": "TensorFlow looks for a function where it is called",
    r"refers to an attr of a function": "no kernel can be made of it",
    r"it has no nodes": "it is an empty file, most likely",
    r"is a shape (of|with)": "where no shape is inferred from it, making the kernel fails",
}  # fmt: skip
"""What `structure` says when it refuses what TensorFlow imports, and why that is so."""


def disagreement(importer: Importer, data: bytes) -> str:
    """Returns the results of both sides for the graph in DATA if they differ for no known reason; else ''."""
    refusal, faults = importer.refusal(data), _faults(data)
    if refusal is None or bool(refusal) == bool(faults):
        return ""  # None: it has crashed, in the inference of shapes
    said, known = (refusal, OF_TENSORFLOW_ALONE) if refusal else (faults[0], OF_STRUCTURE_ALONE)
    if any(re.search(words, said) for words in known):
        return ""
    return f"TensorFlow alone: {said}" if refusal else f"structure alone: {said}"


def _faults(data: bytes) -> list[str]:
    try:
        return check(from_bytes(data)).faults
    except GdsurgeonError as error:
        return [str(error)]


if __name__ == "__main__":
    _serve()
