"""A TensorFlow server in a process of its own, and addresses at which there is none."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

_SOURCE = """
import sys
import tensorflow as tf
place = "127.0.0.1:" + sys.argv[1]
server = tf.distribute.Server({"local": [place]}, job_name="local", task_index=0, start=True)
print("grpc://" + place, flush=True)
sys.stdin.read()  # until the test has ended, in whatever way
"""
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


class ServerProcess:
    """A server that runs.

    Attributes:
        target: its 'grpc://127.0.0.1:port'.
    """

    def __init__(self, process: subprocess.Popen[str], target: str) -> None:
        self._process = process
        self.target = target

    def kill(self) -> None:
        """End it without a word to those that it serves."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def running_server() -> Iterator[ServerProcess]:
    """A server on the loopback interface, gone at the end whatever happens."""
    command = [sys.executable, "-c", _SOURCE, str(free_port())]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **_ENVIRONMENT},
    ) as process:
        try:
            assert process.stdout is not None
            target = process.stdout.readline().strip()
            assert target, "the server has not come up"
            yield ServerProcess(process, target)
        finally:
            process.kill()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
