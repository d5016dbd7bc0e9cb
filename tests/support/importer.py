"""Asks TensorFlow whether it imports graphs: one process for many, and another where a graph has killed it."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from types import TracebackType

from typing_extensions import Self


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

    def refusal(self, data: bytes, *, call: str = "") -> str | None:
        """What TensorFlow says against the graph in DATA, '' where it takes it, None where it has crashed.

        With CALL, the name of a node, TensorFlow also makes ready what that calls, and runs nothing of it.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(struct.pack("<II", len(data), len(call)) + data + call.encode())
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
    from gdsurgeon.runtime.capi import CApiGraph, CApiRuntime
    from gdsurgeon.runtime.failures import TensorFlowError

    class Imported(CApiGraph):
        """A graph without a session, which takes longer to open than the graph to import."""

        def _open_session(self, options: SessionOptions) -> int:
            return super()._open_session(options) if is_called else 0

    runtime = CApiRuntime()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    while head := sys.stdin.buffer.read(8):
        size, is_called = struct.unpack("<II", head)
        data, call = sys.stdin.buffer.read(size), sys.stdin.buffer.read(is_called).decode()
        said = ""
        try:
            graph = Imported(runtime._library, data, "", SessionOptions())
            try:
                if call:
                    graph.run({}, [], [call])
            finally:
                graph.close()
        except TensorFlowError as error:
            said = f"{error.code}: {error}"
        answer = said.encode()
        out.write(struct.pack("<I", len(answer)) + answer)
        out.flush()


if __name__ == "__main__":
    _serve()
