"""A TensorFlow server in a process of its own, and addresses at which there is none.

Run with -m, it is that process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from ctypes import c_char_p, c_size_t, c_void_p
from typing import IO

from gdsurgeon.runtime import library
from gdsurgeon.wire.fields import encode_len
from support.paths import TESTS

_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


class ServerProcess:
    """A server that runs.

    Attributes:
        target: its 'grpc://127.0.0.1:port'.
    """

    def __init__(self, process: subprocess.Popen[str], target: str, log: IO[bytes]) -> None:
        self._process = process
        self._log = log
        self.target = target

    def printed(self) -> bytes:
        """What it has printed: its own log, and what graphs have it print."""
        return os.pread(self._log.fileno(), 1 << 20, 0)

    def kill(self) -> None:
        """End it without a word to those that it serves."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def running_server() -> Iterator[ServerProcess]:
    """A server on the loopback interface, gone at the end whatever happens."""
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **_ENVIRONMENT},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            target = process.stdout.readline().strip()
            assert target, "the server has not come up"
            yield ServerProcess(process, target, log)
        finally:
            process.kill()


@contextlib.contextmanager
def unheard_target() -> Iterator[str]:
    """An address at which nobody listens, and nobody else can: its port is taken."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        yield f"grpc://127.0.0.1:{mute.getsockname()[1]}"


def serve() -> None:
    """Runs one by the C API, as tf.distribute.Server does by Python, until nobody is there to be served.

    It takes a port that is free.
    """
    place = b"127.0.0.1:0"
    job = encode_len(1, b"local") + encode_len(2, encode_len(2, place))  # JobDef: name, tasks by number
    definition = encode_len(1, encode_len(1, job)) + encode_len(2, b"local") + encode_len(5, b"grpc")  # ServerDef
    library._FUNCTIONS |= {
        "TF_NewServer": (c_void_p, [c_char_p, c_size_t, c_void_p]),
        "TF_ServerStart": (None, [c_void_p, c_void_p]),
        "TF_ServerTarget": (c_char_p, [c_void_p]),
    }
    api = library.load()
    server = api.check(api.TF_NewServer, definition, len(definition))
    api.check(api.TF_ServerStart, server)
    port = api.TF_ServerTarget(server).rpartition(b":")[2].decode()
    print(f"grpc://127.0.0.1:{port}", flush=True)
    sys.stdin.read()  # until the test has ended, in whatever way


if __name__ == "__main__":
    serve()
