"""A TensorFlow server in a process of its own, and addresses at which there is none.

Run with -m, and a port, it is that process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from ctypes import c_char_p, c_size_t, c_void_p

from gdsurgeon.runtime import library
from gdsurgeon.wire.fields import encode_len
from support.paths import TESTS

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
    command = [sys.executable, "-m", __name__, str(free_port())]
    with subprocess.Popen(
        command,
        cwd=TESTS,
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


def serve(port: int) -> None:
    """Runs one by the C API, as tf.distribute.Server does by Python, until nobody is there to be served."""
    place = f"127.0.0.1:{port}".encode()
    job = encode_len(1, b"local") + encode_len(2, encode_len(2, place))  # JobDef: name, tasks by number
    definition = encode_len(1, encode_len(1, job)) + encode_len(2, b"local") + encode_len(5, b"grpc")  # ServerDef
    library._FUNCTIONS |= {
        "TF_NewServer": (c_void_p, [c_char_p, c_size_t, c_void_p]),
        "TF_ServerStart": (None, [c_void_p, c_void_p]),
    }
    api = library.load()
    api.check(api.TF_ServerStart, api.check(api.TF_NewServer, definition, len(definition)))
    print(f"grpc://{place.decode()}", flush=True)
    sys.stdin.read()  # until the test has ended, in whatever way


if __name__ == "__main__":
    serve(int(sys.argv[1]))
