"""The command's side of the worker: it starts the process in which TensorFlow runs, sends requests, and survives it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from gdsurgeon.errors import printable
from gdsurgeon.ops.dtypes import DTYPES, STRING
from gdsurgeon.resources import lacked_at_end, memory_budget, out_of_memory_kills
from gdsurgeon.runtime.base import MEMORY_OF_GRAPH
from gdsurgeon.runtime.failures import FAILED, STARTING, UNAVAILABLE, UNREADABLE, Failure, Stage, died
from gdsurgeon.runtime.process import (
    Log,
    above_standard,
    crashed_thread,
    environment,
    module_path,
    unnamed_file,
    who_runs,
)
from gdsurgeon.runtime.protocol import (
    ANSWER,
    BEGUN,
    MOST_REASON,
    REFUSED,
    BadMessage,
    Bytes,
    Channel,
    OutputInfo,
    RunSummary,
    elements,
    pack_request,
    unpack,
)
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.runtime.worker import REQUESTS, Child, Request, answer_type
from gdsurgeon.values import Closing

if TYPE_CHECKING:
    from gdsurgeon.runtime.base import SessionOptions
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

_ROOM = 1 << 16
"""Bytes that any answer may have."""
_ROOM_OF_ITEM = 1 << 12
"""Bytes that each item of an answer adds."""
_ROOM_OF_TEXT = 16
"""Bytes that each text of a tensor adds: its length as JSON."""


def _asks(method: Callable[Concatenate[Child, P], Job[R]]) -> Callable[Concatenate[Worker, P], Pending[R]]:
    """Returns the method of `Worker` that sends the request `method`."""
    code = method.__code__
    names = code.co_varnames[1 : code.co_argcount]

    def ask(self: Worker, /, *args: P.args, **kwargs: P.kwargs) -> Pending[R]:
        return self._submit(code.co_name, {**dict(zip(names, args, strict=False)), **kwargs})

    ask.__doc__ = method.__doc__
    return ask


class Pending(Generic[T]):
    """The answer to a request, which may not have arrived yet.

    The worker may run anything. Its answers are therefore accepted only if they have the type, the size and the number
    of items that follow from the request.

    Attributes:
        stage: the work of the child.
        done: whether `result` returns immediately.
    """

    def __init__(
        self, worker: Worker, request: Request, arguments: Mapping[str, Any], failure: Failure | None = None
    ) -> None:
        self.stage = Stage(request.doing, arguments.get("key", ""))
        self.done = failure is not None
        self._worker = worker
        self._request = request
        self._thread: int | None = None  # of the child, once the work has begun
        self._value: object = None
        self._failure = failure
        self._source = worker._makers.get(arguments.get("result", ""))
        items = arguments.get(request.items)
        self._count: int | None = len(items) if items is not None else self._source._count if self._source else None
        self._index: int | None = arguments.get("index")
        self._is_traced: bool = arguments.get("trace", False)
        # The tensors of the result that the request makes; those of a run are known after its answer.
        self._outputs = [OutputInfo(each.dtype, each.shape, each.nbytes) for each in arguments.get("tensors", ())]

    def result(self, timeout: float | None = None) -> T:
        """Waits for the answer.

        Args:
            timeout: seconds from now; without a limit if None. After that time the child is killed, and every other
                request fails as well.

        Raises:
            TensorFlowError: TensorFlow refuses.
            TensorFlowMissing: TensorFlow is not installed.
            InputError: the file of the graph cannot be read.
            NotValidatedError: the process does not start, or lacks memory.
            ValidationError: the process crashed, was killed, timed out, or sent an invalid message.
        """
        if not self.done:
            self._worker._wait(self, timeout)
        if self._failure is not None:
            raise self._failure.error()
        return cast(T, self._value)

    def _tensors(self) -> list[OutputInfo]:
        """Returns the tensors in the answer."""
        outputs = self._source._outputs if self._source else []
        return outputs if self._index is None else outputs[self._index : self._index + 1]

    def _room(self, most: int) -> int:
        """Returns the most bytes that the answer may have; `most` is the memory of the child."""
        if self._request.is_large or self._is_traced:
            return most
        room = _ROOM + _ROOM_OF_ITEM * (self._count or 0)
        for dtype, shape, nbytes in self._tensors():
            room += nbytes + (_ROOM_OF_TEXT * elements(dtype, shape) if dtype == STRING else 0)
        return min(room, most)

    def _accept(self, value: object) -> None:
        """Stores the answer. Raises BadMessage if `value`, which has the right type, does not answer the request."""
        if isinstance(value, Tensor) and [(value.dtype, value.shape, value.nbytes)] != self._tensors():
            raise BadMessage("a tensor that is not from the run")
        items = value
        if isinstance(value, RunSummary):
            if value.metadata is not None and not self._is_traced:
                raise BadMessage("a trace that was not requested")
            for dtype, shape, nbytes in value.outputs:
                count = elements(dtype, shape)
                if nbytes < 0 or (dtype != STRING and nbytes != count * DTYPES[dtype].size):
                    raise BadMessage(f"{nbytes} bytes for a tensor of {count} elements")
            self._outputs = items = value.outputs
        if isinstance(items, list) and self._count is not None and len(items) != self._count:
            raise BadMessage(f"{len(items)} items, but {self._count} are expected")
        self._value = value


class Worker(Closing):
    """TensorFlow in a process of its own. Not for several threads at the same time.

    Requests are methods that return immediately with a `Pending`. Several requests may be sent without waiting:
    requests for one graph run in order, those for different graphs at the same time, and a request that needs an
    earlier result waits for that result.

    Args:
        device: 'cpu' hides the GPUs from TensorFlow; 'gpu' or a device name leaves them visible (nodes run there if
            `load` gets a default device).
        op_libraries: libraries of custom ops (.so) to load with TensorFlow.
        runtime: see `gdsurgeon.runtime.worker.open_runtime`.
        verbose: copy TensorFlow's log to standard error, line by line, as data.
        allow_ops: let the process access files and the network; otherwise it is isolated.
        reads: files and folders that graphs may read.
        onednn: let TensorFlow choose kernels of oneDNN, as it does by default.

    Attributes:
        called: the names of graphs in messages, by their keys.
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
        self.called: dict[str, str] = {}
        self._reads = [os.path.abspath(path) for path in reads]
        self._cpu_only = device.lower() == "cpu" or device.upper().startswith("/DEVICE:CPU")
        self._op_libraries = [os.path.abspath(path) for path in op_libraries]
        self._runtime = runtime
        self._verbose = verbose
        self._allow_ops = allow_ops
        self._onednn = onednn
        self._channel: Channel | None = None
        self._pid: int | None = None
        self._owner = os.getpid()  # a fork of this process must not end the child when it ends
        self._log: Log | None = None
        self._tail = ""
        self._pending: dict[int, Pending[object]] = {}
        self._makers: dict[str, Pending[object]] = {}  # the requests that made the results in the child, by name
        self._sizes: dict[str, int] = {}  # bytes of graphs
        self._count = 0
        self._most = 0  # bytes of memory that it can use
        self._kills = 0  # of processes, by the kernel, before this one was started
        self._resident = 0  # bytes that the process used at most, once it has ended
        self._ready = False  # TensorFlow has loaded and accepts requests
        self._failure: Failure | None = None

    # --- the process -----------------------------------------------------------------------------------

    def start(self) -> Worker:
        """Starts the process and returns immediately, so TensorFlow loads in the background.

        Raises:
            NotValidatedError: no process can be started.
        """
        if self._pid is not None or self._failure is not None:
            return self
        import atexit
        import socket

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
            line = f"cannot start a process for TensorFlow: {error.strerror or error}"
            failure = Failure(UNAVAILABLE, "no-tensorflow", line)
            self._end(failure)
            raise failure.error() from error
        finally:
            theirs.close()
        self._channel = Channel(ours)
        atexit.register(self.close)
        return self

    def _spawn(self, socket_fd: int, log_fd: int) -> int:
        # The command is ASCII for all paths, so no locale can change it.
        boot = _BOOT.format(
            path=ascii(module_path()),
            runtime=ascii(self._runtime),
            op_libraries=ascii(self._op_libraries),
            reads=ascii(self._reads),
            opening=(self._allow_ops, not self._cpu_only),
        )
        # -S: the module path already has the entries that .pth files have added.
        flags = ["-S", *(["-B"] if sys.dont_write_bytecode else [])]
        python = sys.executable or "python3"
        return os.posix_spawn(
            python,
            [python, *flags, "-c", boot],
            environment(self._verbose, self._cpu_only, self._runtime, onednn=self._onednn),
            # All other descriptors are closed: Python opens none that a child inherits.
            file_actions=[
                (os.POSIX_SPAWN_DUP2, log_fd, 1),
                (os.POSIX_SPAWN_DUP2, log_fd, 2),
                (os.POSIX_SPAWN_DUP2, socket_fd, 0),
            ],
        )

    def close(self) -> None:
        """Kills the process immediately, also during work. Idempotent; takes milliseconds."""
        self._end(Failure(FAILED, "closed", "the TensorFlow process has been closed"))

    def __enter__(self) -> Worker:
        return self.start()

    def log_tail(self) -> str:
        """Returns the last output of TensorFlow and Python in the child."""
        return self._tail if self._log is None else self._log.tail(_TAIL_BYTES)

    def _reap(self, patience: float) -> int | None:
        """Waits for the process to end, and kills it after `patience` seconds; returns its exit status."""
        pid, self._pid = self._pid, None
        if pid is None or self._owner != os.getpid():
            return None
        import signal

        try:
            give_up = time.monotonic() + patience
            while time.monotonic() < give_up:
                found, status, usage = os.wait4(pid, os.WNOHANG)
                if found:
                    self._resident = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                    return os.waitstatus_to_exitcode(status)
                time.sleep(0.001)
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except (ChildProcessError, ProcessLookupError):  # other code has waited for all children
            return None

    def _end(self, failure: Failure) -> None:
        """Ends the process; all pending and all later requests fail with `failure`."""
        self._failure = self._failure or failure
        for pending in self._pending.values():
            pending.done, pending._failure = True, self._failure
        self._pending.clear()
        self._reap(0.0)
        if self._channel is not None:
            import atexit

            self._channel.close()
            self._channel = None
            atexit.unregister(self.close)
        if self._log is not None:
            self._tail = self.log_tail()
            self._log.close()
            self._log = None

    # --- requests --------------------------------------------------------------------------------------

    def _submit(self, method: str, arguments: Mapping[str, Any], descriptor: int | None = None) -> Pending[Any]:
        """Sends a request, and starts the process. If the child is dead or fails, only `Pending.result` raises."""
        self.start()
        pending: Pending[object] = Pending(self, REQUESTS[method], arguments, self._failure)
        if self._channel is None:
            return pending
        if method == "drop":
            self._makers.pop(arguments["result"], None)
        elif "result_id" in arguments:
            self._makers[arguments["result_id"]] = pending
        self._count += 1
        message = pack_request(self._count, method, arguments)
        self._pending[self._count] = pending
        try:
            self._channel.send(message, False, descriptor)
        except TimeoutError:
            self._time_out(pending, 60.0)
        except OSError:
            self._bury()
        except BaseException:  # an interrupt: a part of the message may already be sent
            self.close()
            raise
        return pending

    def load(
        self,
        key: str,
        graph: str | int | Bytes,
        *,
        default_device: str = "",
        options: SessionOptions | None = None,
    ) -> Pending[None]:
        """Loads a GraphDef under the name `key`, which messages also use; replaces an earlier graph with that name.

        Args:
            key: names the graph from now on.
            graph: its file, or a descriptor of it (the child maps it; it must not change until it is unloaded), or its
                bytes. They are written to a file in memory, and not kept here.
            default_device: the device of nodes without a device, such as '/device:GPU:1'.
            options: of its session; None: the graph runs as written, on the devices of the worker.
        """
        arguments = {"key": key, "default_device": default_device, "options": options}
        descriptor = -1
        if key in self._sizes:
            self.unload(key)
        try:
            if isinstance(graph, str):
                descriptor = os.open(graph, os.O_RDONLY | os.O_CLOEXEC)
            elif isinstance(graph, int):
                descriptor = os.dup(graph)
            else:
                descriptor = unnamed_file()
                with open(descriptor, "wb", closefd=False) as file:
                    file.write(graph)
            self._sizes[key] = os.fstat(descriptor).st_size
            return self._submit("load", arguments, descriptor)
        except OSError as error:
            line = f"cannot read {error.filename or key!r}: {error.strerror}"
            unreadable = Failure(UNREADABLE, "unreadable", line)
            return Pending(self, REQUESTS["load"], arguments, unreadable)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    reload = _asks(Child.reload)
    unload = _asks(Child.unload)
    signature = _asks(Child.signature)
    signatures = _asks(Child.signatures)
    run = _asks(Child.run)
    put = _asks(Child.put)
    tensor = _asks(Child.tensor)
    compare = _asks(Child.compare)
    statistics = _asks(Child.statistics)
    drop = _asks(Child.drop)
    devices = _asks(Child.devices)
    derive = _asks(Child.derive)
    call_signatures = _asks(Child.call_signatures)
    info = _asks(Child.info)

    # --- answers ---------------------------------------------------------------------------------------

    def _wait(self, wanted: Pending[object], timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not wanted.done and self._channel is not None:
            try:
                number, kind, size = self._channel.receive(deadline)
                self._accept(number, kind, size, deadline)
            except TimeoutError:
                self._time_out(wanted, timeout or 0.0)
            except BadMessage as error:
                doing = self._doing()
                line = f"the process of {who_runs(self._runtime)} sent an invalid message while {' or '.join(doing)}"
                reason = printable(str(error))
                self._end(Failure(FAILED, "bad-message", f"{line}: {reason}", {"doing": doing, "reason": reason}))
            except (EOFError, OSError):
                self._bury()
            except BaseException:  # an interrupt: a part of a message may have been read
                self.close()
                raise

    def _accept(self, number: int, kind: str, size: int, deadline: float | None) -> None:
        """Receives the rest of a message. Raises BadMessage if it is not expected."""
        assert self._channel is not None
        take = partial(self._channel.take, deadline=deadline)
        pending = self._pending.get(number)
        if pending is not None and kind == BEGUN and pending._thread is None:
            pending._thread = unpack(int, size, take, _ROOM)
            self._ready = True
            return
        if pending is not None and kind == REFUSED:
            refusal = unpack(list[str], size, take, _ROOM + 12 * MOST_REASON)  # JSON has up to 12 bytes for a character
            if len(refusal) != 3:
                raise BadMessage("a refusal without a reason")
            pending._failure = Failure(*refusal)
        elif pending is not None and kind == ANSWER and pending._thread is not None:
            pending._accept(unpack(answer_type(pending._request), size, take, pending._room(self._most)))
        else:
            raise BadMessage(f"{kind[:20]!r} for request {number}, which is not expected")
        pending.done = True
        del self._pending[number]

    def _time_out(self, wanted: Pending[object], seconds: float) -> None:
        begun = [p.stage for p in self._pending.values() if p._thread is not None]
        # It may wait for a different request: the one before it for the same graph, or any.
        before = [stage for stage in begun if stage.key == wanted.stage.key] or begun
        stage = wanted.stage if self._ready else STARTING
        if wanted._thread is None and before:
            stage = before[0]
        doing = stage.called(self.called)
        line = f"{who_runs(self._runtime)} did not finish {doing} within {seconds:g} s"
        kind = UNAVAILABLE if stage == STARTING and not self._op_libraries else FAILED
        self._end(Failure(kind, "timed-out", line, {"doing": [doing], "seconds": seconds}))

    def _bury(self) -> None:
        """Handles the end of the child: finds out its cause, and its work at that time."""
        status = self._reap(_GRACE)
        log = self.log_tail()
        lacked = lacked_at_end(status, log, self._resident, out_of_memory_kills() - self._kills)
        self._end(
            died(
                status,
                self._doing(crashed_thread(log)),
                who_runs(self._runtime),
                lacked=lacked,
                needed=int(MEMORY_OF_GRAPH * max(self._sizes.values(), default=0)),
                has_libraries=bool(self._op_libraries),
            )
        )

    def _doing(self, thread: int | None = None) -> list[str]:
        """Returns the work of the child, only in `thread` if there is work in it."""
        begun = [p for p in self._pending.values() if p._thread is not None]
        stages = dict.fromkeys(p.stage for p in [p for p in begun if p._thread == thread] or begun)
        idle = Stage("waiting") if self._ready or not self._pending else STARTING
        return [stage.called(self.called) for stage in stages or (idle,)]
