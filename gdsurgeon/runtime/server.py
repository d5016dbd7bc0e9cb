"""A TensorFlow server at the other end of a session, and how a call to it ends even if the server does not answer.

What TensorFlow does by itself: opening a session with a target connects to nothing; the first call does, and
waits for ever for a server that is not there, or that dies. Only a limit on the time of all calls would end it
(`ConfigProto.operation_timeout_in_ms`), and with it a run that merely takes long. So a call is made in a thread of
its own while the one that wants its result keeps knocking at the server's door. Where nobody opens, the call and
its thread are left to themselves: nothing can end them, save the end of the process.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from gdsurgeon.runtime.failures import TensorFlowError

T = TypeVar("T")

_PATIENCE = 5.0  # seconds for a connection to be accepted, which the kernel does however busy the server is
_PAUSE = 1.0  # seconds between two knocks
_MISSES = 2  # in a row: a single one may be the network's fault
ANSWER_WITHIN = 10.0  # seconds for what a server has only to look up, such as its devices
_TARGET = re.compile(r"grpc://(?:\[(?P<bracketed>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s/:@,\[\]]+)):(?P<port>[0-9]{1,5})/?")


class Server:
    """The TensorFlow server at TARGET, a 'grpc://host:port'. For several threads at once.

    Attributes:
        target: its address.
        lost: what every call raises since one of them was left hanging, or None.

    Raises:
        TensorFlowError: 'invalid_argument' for anything else than such an address.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.lost: TensorFlowError | None = None
        self._address = parse_target(target)

    def check(self) -> None:
        """Knock once.

        Raises:
            TensorFlowError: 'unavailable': nobody listens there, after 5 s at most.
        """
        reason = self._knock()
        if reason is not None:
            raise self._unanswered(reason)

    def silent(self, seconds: float) -> TensorFlowError:
        """The error for a server that has not answered for SECONDS, although something listens there."""
        return self._unanswered(f"something listens, and has not answered for {seconds:g} s")

    def call(self, work: Callable[[], T], limit: float | None = None) -> T:
        """What WORK gives, which calls the server.

        Args:
            work: runs in another thread; it may go on after this has raised, and for ever.
            limit: seconds after which a server that listens but does not answer counts as none.

        Raises:
            TensorFlowError: 'unavailable': the server has gone; at once where that is so beforehand, some 2 s
                after its process has ended, 12 s after its machine has vanished. Where WORK was left hanging,
                every later call raises the same at once.
            BaseException: what WORK raises.
        """
        if self.lost is not None:
            raise self.lost
        reason = self._knock()
        if reason is not None:
            raise self._gone(reason)
        results: list[T] = []
        errors: list[BaseException] = []
        done = threading.Event()

        def body() -> None:
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)
            done.set()

        threading.Thread(target=body, name=f"call of {self.target}", daemon=True).start()
        self._attend(done, limit)
        if errors:
            raise errors[0]
        return results[0]

    def _attend(self, done: threading.Event, limit: float | None) -> None:
        """Wait until DONE is set, knocking meanwhile; see `call` for what it raises."""
        give_up = None if limit is None else time.monotonic() + limit
        misses = 0
        while True:
            pause = _PAUSE if give_up is None else min(_PAUSE, max(give_up - time.monotonic(), 0.0))
            if done.wait(pause):
                return
            if limit is not None and give_up is not None and time.monotonic() >= give_up:
                self.lost = self.silent(limit)
                raise self.lost
            reason = self._knock()
            misses = misses + 1 if reason is not None else 0
            if misses >= _MISSES and not done.is_set():
                self.lost = self._gone(reason)
                raise self.lost

    def _unanswered(self, reason: str) -> TensorFlowError:
        return TensorFlowError("unavailable", f"no TensorFlow server answers at {self.target}: {reason}")

    def _gone(self, reason: str | None) -> TensorFlowError:
        return TensorFlowError("unavailable", f"the TensorFlow server at {self.target} has gone: {reason}")

    def _knock(self) -> str | None:
        """Why nobody listens at the address, or None where somebody does."""
        try:
            socket.create_connection(self._address, _PATIENCE).close()
        except TimeoutError:
            return f"no connection within {_PATIENCE:g} s"
        except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
            return (getattr(error, "strerror", None) or str(error)).lower()
        return None


def parse_target(target: str) -> tuple[str, int]:
    """Host and port of TARGET.

    Raises:
        TensorFlowError: 'invalid_argument' for anything else than 'grpc://host:port'.
    """
    found = _TARGET.fullmatch(target)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise TensorFlowError(
            "invalid_argument", f"{target!r} is not the address of a TensorFlow server, a grpc://host:port"
        )
    return found["bracketed"] or found["host"], int(found["port"])
