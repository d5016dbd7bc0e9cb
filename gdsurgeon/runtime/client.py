"""The parent's side of the worker: starts the process in which TensorFlow runs, asks it, survives it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from gdsurgeon.resources import is_memory_limited, lacked_at_end, memory_budget, out_of_memory_kills
from gdsurgeon.runtime.answers import Expected
from gdsurgeon.runtime.encoding import BadMessage
from gdsurgeon.runtime.failures import (
    STARTING,
    BadAnswer,
    FileUnreadable,
    RuntimeFailure,
    Stage,
    TensorFlowError,
    TensorFlowMissing,
    WorkerDied,
    WorkerTimeout,
    WorkerUnavailable,
)
from gdsurgeon.runtime.process import above_standard, environment, kill, module_path, who_runs
from gdsurgeon.runtime.protocol import (
    ANSWER,
    BEGUN,
    BEGUN_TYPES,
    MOST_REASON,
    REFUSED,
    REFUSED_TYPES,
    Channel,
    packed,
    request_types,
)
from gdsurgeon.runtime.worker import REQUESTS, Child
from gdsurgeon.values import Closing

if TYPE_CHECKING:
    from gdsurgeon.runtime.base import SessionOptions
    from gdsurgeon.runtime.encoding import Bytes
    from gdsurgeon.runtime.log import Log
    from gdsurgeon.runtime.protocol import Types
    from gdsurgeon.runtime.worker import Job

P = ParamSpec("P")
T = TypeVar("T", covariant=True)
R = TypeVar("R")

_BOOT = """import sys
sys.path[:] = {path}
from gdsurgeon.runtime.worker import main
main({runtime}, {op_libraries}, {opening}, {reads})
"""
_TAIL_BYTES = 1 << 16
_GRACE = 2.0  # seconds for a process to end whose socket is closed


def _asks(method: Callable[Concatenate[Child, P], Job[R]]) -> Callable[Concatenate[Worker, P], Pending[R]]:
    """The method of `Worker` that sends the request METHOD."""
    code, given = method.__code__, method.__defaults__ or ()
    names = code.co_varnames[1 : code.co_argcount]
    defaults = dict(zip(reversed(names), reversed(given), strict=False))

    def ask(self: Worker, /, *args: P.args, **kwargs: P.kwargs) -> Pending[R]:
        return self._submit(code.co_name, {**defaults, **dict(zip(names, args, strict=False)), **kwargs})

    ask.__doc__ = method.__doc__
    return ask


class Pending(Generic[T]):
    """The answer to a request, which may still have to come.

    Attributes:
        stage: the work of the child.
    """

    _expected: Expected

    def __init__(self, worker: Worker, stage: Stage, key: object, error: RuntimeFailure | None = None) -> None:
        self.stage = stage
        self._worker = worker
        self._key = key
        self._thread: int | None = None  # of the child, once the work has begun
        self._done = error is not None
        self._value: object = None
        self._error = error

    @property
    def done(self) -> bool:
        """Whether `result` gives its answer at once."""
        return self._done

    def result(self, timeout: float | None = None) -> T:
        """Wait for the answer.

        Args:
            timeout: seconds from now; None waits as long as it takes. When they are over, the child is
                killed, and every other request fails too.

        Raises:
            TensorFlowError: TensorFlow refuses.
            TensorFlowMissing: there is no TensorFlow.
            WorkerDied: TensorFlow has crashed or been killed, or has sent what is not an answer.
            WorkerTimeout: the time is over.
            RuntimeFailure: anything else, such as a request that makes no sense.
        """
        if not self._done:
            self._worker._wait(self, timeout)
        if self._error is not None:
            raise self._error
        return cast(T, self._value)


class Worker(Closing):
    """TensorFlow in a process of its own. Not for several threads at once.

    Requests are methods that return at once with a `Pending`. They may be sent without waiting for each
    other: those for one graph are done in turn, those for different graphs at the same time, and one that
    needs an earlier result waits for that result.

    Args:
        device: 'cpu' hides the GPUs from TensorFlow; 'gpu' or a device name leaves them in sight (nodes go
            there by the DEFAULT_DEVICE of `load`).
        op_libraries: libraries of custom ops (.so) to load with TensorFlow.
        runtime: 'capi' or 'python' to have that one, the folder of a release (`released`), or another engine
            (`engines.opened.open_engine`); by default what GDSURGEON_RUNTIME says, else the C API if it can be had.
        verbose: pass TensorFlow's own log on to standard error, line by line, as data.
        allow_ops: leave files and the network open to the process, which is locked in otherwise.
        reads: files and folders that graphs may read.
        onednn: let TensorFlow choose kernels of oneDNN, as it does by default.
    """

    def __init__(
        self,
        device: str = "cpu",
        op_libraries: Sequence[str] = (),
        runtime: str | None = None,
        verbose: bool = False,
        *,
        allow_ops: bool = False,
        reads: Sequence[str] = (),
        onednn: bool = True,
    ) -> None:
        self._reads = [os.path.abspath(path) for path in reads]
        self._cpu_only = device.lower() == "cpu" or device.upper().startswith("/DEVICE:CPU")
        self._op_libraries = [os.path.abspath(path) for path in op_libraries]
        self._runtime = runtime
        self._verbose = verbose
        self._allow_ops = allow_ops
        self._onednn = onednn
        self._channel: Channel | None = None
        self._pid: int | None = None
        self._owner = os.getpid()  # a fork of this process must not end the child along with itself
        self._log: Log | None = None
        self._tail = ""
        self._pending: dict[int, Pending[object]] = {}
        self._tensors: dict[str, Expected] = {}
        self._sizes: dict[str, int] = {}  # bytes of graphs
        self._count = 0
        self._most = 0  # bytes of memory that it can use
        self._kills = 0  # of processes, by the kernel, before this one was started
        self._resident = 0  # bytes that the process used at most, once it has ended
        self._ready = False  # TensorFlow has loaded and taken up work
        self._failure: RuntimeFailure | None = None

    # --- the process -----------------------------------------------------------------------------------

    def start(self) -> Worker:
        """Start the process and return without waiting for it: TensorFlow loads meanwhile.

        Raises:
            RuntimeFailure: no process can be started.
        """
        if self._pid is not None or self._failure is not None:
            return self
        import atexit
        import socket

        from gdsurgeon.runtime.log import Log

        self._owner = os.getpid()
        self._kills = out_of_memory_kills()
        self._most = memory_budget() or sys.maxsize
        ours, theirs = socket.socketpair()
        try:
            self._log = Log(self._verbose)
            end = above_standard(theirs.fileno())
            try:
                self._pid = self._spawn(end, self._log.descriptor)
            finally:
                os.close(end)
        except OSError as error:
            ours.close()
            self._end(WorkerUnavailable(f"cannot start a process for TensorFlow: {error.strerror or error}"))
            raise cast(RuntimeFailure, self._failure) from error
        finally:
            theirs.close()
        self._channel = Channel(ours)
        atexit.register(self.close)
        return self

    def _spawn(self, socket_fd: int, log_fd: int) -> int:
        # The command is ASCII whatever the paths are: no locale can spoil it.
        boot = _BOOT.format(
            path=ascii(module_path()),
            runtime=ascii(self._runtime),
            op_libraries=ascii(self._op_libraries),
            reads=ascii(self._reads),
            opening=(self._allow_ops, not self._cpu_only),
        )
        # -S: the module path is ours already, with what .pth files have added to it.
        flags = ["-S", *(["-B"] if sys.dont_write_bytecode else [])]
        return os.posix_spawn(
            sys.executable or "python3",
            [sys.executable or "python3", *flags, "-c", boot],
            environment(self._verbose, self._cpu_only, self._runtime, onednn=self._onednn),
            # All other descriptors are closed: Python opens none that a child inherits.
            file_actions=[
                (os.POSIX_SPAWN_DUP2, log_fd, 1),
                (os.POSIX_SPAWN_DUP2, log_fd, 2),
                (os.POSIX_SPAWN_DUP2, socket_fd, 0),
            ],
        )

    def close(self) -> None:
        """Kill the process, whatever it is doing. Idempotent; takes milliseconds."""
        self._end(RuntimeFailure("the TensorFlow process has been closed", "closed"))

    def __enter__(self) -> Worker:
        return self.start()

    def log_tail(self, max_bytes: int = _TAIL_BYTES) -> str:
        """The last of what TensorFlow and Python printed in the child; '' if it was VERBOSE, and shown therefore."""
        return "" if self._verbose else self._printed(max_bytes)

    def _printed(self, max_bytes: int = _TAIL_BYTES) -> str:
        return self._tail[-max_bytes:] if self._log is None else self._log.tail(max_bytes)

    def _reap(self, patience: float) -> int | None:
        """Wait for the process to end, killing it after PATIENCE seconds; its exit status."""
        pid, self._pid = self._pid, None
        if pid is None or self._owner != os.getpid():
            return None
        try:
            give_up = time.monotonic() + patience
            while time.monotonic() < give_up:
                found, status, usage = os.wait4(pid, os.WNOHANG)
                if found:
                    self._resident = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                    return os.waitstatus_to_exitcode(status)
                time.sleep(0.001)
            kill(pid)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # other code has waited for all children
            return None

    def _end(self, failure: RuntimeFailure, patience: float = 0.0) -> int | None:
        """End the process; all that is pending, and all that is asked from now on, fails with FAILURE."""
        self._failure = self._failure or failure
        for pending in self._pending.values():
            pending._done, pending._error = True, self._failure
        self._pending.clear()
        status = self._reap(patience)
        if self._channel is not None:
            import atexit

            self._channel.close()
            self._channel = None
            atexit.unregister(self.close)
        if self._log is not None:
            self._tail = self._printed()
            self._log.close()
            self._log = None
        return status

    # --- asking ----------------------------------------------------------------------------------------

    def _submit(self, method: str, arguments: Mapping[str, Any], descriptor: int | None = None) -> Pending[Any]:
        """Send a request. Starts the process. Never raises for a dead or failing child: `Pending.result` does."""
        if self._pid is None and self._failure is None:
            self.start()
        request = REQUESTS[method]
        key = arguments.get("key")
        pending: Pending[object] = Pending(self, request.stage.of(arguments), key, self._failure)
        if self._channel is None:
            return pending
        types, _ = request_types(request.method)
        if arguments.keys() != types.keys():
            raise TypeError(f"{method} takes {', '.join(types)}")
        message = packed(self._count + 1, method, list(types.values()), [arguments[name] for name in types])
        pending._expected = Expected(request, arguments, self._tensors, self._sizes.get(key or "", 0))
        if method == "drop":
            self._tensors.pop(arguments["result_id"], None)
        self._count += 1
        self._pending[self._count] = pending
        try:
            self._channel.send(message, False, descriptor)
        except TimeoutError:
            self._time_out(pending, 60.0)
        except OSError:
            self._bury()
        except BaseException:  # an interrupt: a part of the message may be on its way
            self.close()
            raise
        return pending

    def load(
        self,
        key: str,
        *,
        path: str | int | None = None,
        data: Bytes | None = None,
        default_device: str = "",
        options: SessionOptions | None = None,
    ) -> Pending[None]:
        """Load a GraphDef under the name KEY, which is used in messages too; replaces an earlier one.

        Args:
            key: names the graph from now on.
            path: its file, or a descriptor of it (mapped by the child; it must not change meanwhile), or
            data: its bytes.
            default_device: where nodes go that name no device themselves, such as '/device:GPU:1'.
            options: of its session; None: as it is written, on what the worker's DEVICE allows.
        """
        wanted: dict[str, Any] = {"key": key, "data": None, "default_device": default_device, "options": options}
        if path is None:
            self._sizes[key] = len(data or b"")
            return self._submit("load", {**wanted, "data": data or b""})
        try:
            descriptor = os.dup(path) if isinstance(path, int) else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.unload(key)
            unreadable = FileUnreadable(f"cannot read {path!r}: {error.strerror}")
            return Pending(self, Stage("loading", key), key, unreadable)
        try:
            self._sizes[key] = os.fstat(descriptor).st_size
            return self._submit("load", wanted, descriptor)
        finally:
            os.close(descriptor)

    unload = _asks(Child.unload)
    signature = _asks(Child.signature)
    operations = _asks(Child.operations)
    run = _asks(Child.run)
    put = _asks(Child.put)
    tensor = _asks(Child.tensor)
    compare = _asks(Child.compare)
    likenesses = _asks(Child.likenesses)
    statistics = _asks(Child.statistics)
    positive_channels = _asks(Child.positive_channels)
    drop = _asks(Child.drop)
    devices = _asks(Child.devices)
    derive = _asks(Child.derive)
    call_signatures = _asks(Child.call_signatures)
    info = _asks(Child.info)

    # --- answers ---------------------------------------------------------------------------------------

    def _wait(self, wanted: Pending[object], timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not wanted._done and self._channel is not None:
            try:
                message = self._channel.receive(self._expected, deadline)
                self._note(*message)
            except TimeoutError:
                self._time_out(wanted, timeout or 0.0)
            except BadMessage as error:
                self._end(BadAnswer(str(error), self._stages(), who_runs(self._runtime)))
            except (EOFError, OSError):
                self._bury()
            except BaseException:  # an interrupt: a part of a message may have been read
                self.close()
                raise

    def _expected(self, number: int, kind: str) -> tuple[Types, int]:
        pending = self._pending.get(number)
        if pending is not None and kind == REFUSED:
            return REFUSED_TYPES, 4 * MOST_REASON
        if pending is not None and kind == BEGUN and pending._thread is None:
            return BEGUN_TYPES, 0
        if pending is not None and kind == ANSWER and pending._thread is not None:
            return pending._expected.types, pending._expected.room(self._most)
        raise BadMessage(f"{kind[:20]!r} for request {number}, which is not expected")

    def _note(self, number: int, kind: str, values: list[Any]) -> None:
        pending = self._pending[number]
        if kind == BEGUN:
            self._ready = True
            (pending._thread,) = values
            return
        if kind == ANSWER:
            (pending._value,) = values
            pending._expected.check(pending._value)
        else:
            pending._error = _refusal(*values)
        pending._done = True
        del self._pending[number]

    def _time_out(self, wanted: Pending[object], seconds: float) -> None:
        begun = [p for p in self._pending.values() if p._thread is not None]
        if wanted in begun:
            stage = wanted.stage
        else:  # it waits for another: the one before it for the same graph, or whichever it is
            same = [p for p in begun if p._key == wanted._key]
            stage = (same or begun)[0].stage if begun else wanted.stage if self._ready else STARTING
        self._end(WorkerTimeout(seconds, stage, who_runs(self._runtime)))

    def _bury(self) -> None:
        """The child is dead: find out of what, and while doing what."""
        from gdsurgeon.runtime.log import crashed_thread

        status = self._reap(_GRACE)
        log = self._printed()
        stages = self._stages(crashed_thread(log))
        lacked = lacked_at_end(status, log, self._resident, out_of_memory_kills() - self._kills)
        says_nothing = stages == [STARTING] or is_memory_limited()
        who = who_runs(self._runtime)
        self._end(WorkerDied(status, stages, says_nothing, who, lacked=lacked, limit=memory_budget()))

    def _stages(self, thread: int | None = None) -> list[Stage]:
        """What the child is doing, in THREAD if it does something there."""
        begun = [p for p in self._pending.values() if p._thread is not None]
        stages = list(dict.fromkeys(p.stage for p in [p for p in begun if p._thread == thread] or begun))
        return stages or [Stage("waiting") if self._ready or not self._pending else STARTING]


def _refusal(kind: str, code: str, reason: str) -> RuntimeFailure:
    """The error that a child has refused a request with."""
    if kind == "tensorflow":
        return TensorFlowError(code, reason)
    if kind == "missing":
        return TensorFlowMissing(reason, code)
    if kind == "unavailable":
        return WorkerUnavailable(f"TensorFlow does not work here: {reason}")
    return RuntimeFailure(reason, code)
