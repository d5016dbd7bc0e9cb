"""The parent's side of the worker: starts the process in which TensorFlow runs, asks it, survives it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from gdsurgeon.resources import is_memory_limited, lacked_at_end, memory_budget, out_of_memory_kills
from gdsurgeon.runtime.failures import (
    STARTING,
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
from gdsurgeon.values import Closing

if TYPE_CHECKING:
    from gdsurgeon.runtime.base import Device, Operation, SessionOptions, TensorSpec
    from gdsurgeon.runtime.compare import Comparison
    from gdsurgeon.runtime.differentiation.gradients import Backward, Derivation
    from gdsurgeon.runtime.likeness import Likeness
    from gdsurgeon.runtime.log import Log
    from gdsurgeon.runtime.protocol import Channel, Info, Result, RunSummary
    from gdsurgeon.runtime.signatures import ModelFolder, Served, SignatureCall
    from gdsurgeon.runtime.statistics import Statistics
    from gdsurgeon.runtime.tensor import Tensor

T = TypeVar("T", covariant=True)

_BOOT = """import sys
sys.path[:] = {path}
from gdsurgeon.runtime.worker import main
main({runtime}, {op_libraries}, {opening}, {reads})
"""
_TAIL_BYTES = 1 << 16
_GRACE = 2.0  # seconds for a process to end whose socket is closed

_STAGES = {
    "load": Stage("loading", "key"),
    "unload": Stage("unloading", "key"),
    "signature": Stage("inspecting", "key"),
    "operations": Stage("inspecting", "key"),
    "run": Stage("running", "key"),
    "put": Stage("taking over tensors"),
    "tensor": Stage("handing over a result"),
    "compare": Stage("comparing results"),
    "likenesses": Stage("comparing results"),
    "statistics": Stage("measuring a result"),
    "positive_channels": Stage("measuring a result"),
    "devices": Stage("listing devices"),
    "derive": Stage("making gradients"),
    "call_signatures": Stage("asking tf.saved_model.load"),
}
"""By the method; the key is that of the argument that says of what."""


class Pending(Generic[T]):
    """The answer to a request, which may still have to come.

    Attributes:
        stage: what the child is doing when it works on it.
    """

    def __init__(self, worker: Worker, stage: Stage, key: object) -> None:
        self.stage = stage
        self._worker = worker
        self._key = key
        self._thread: int | None = None  # of the child, once the work has begun
        self._done = False
        self._value: object = None
        self._error: RuntimeFailure | None = None

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
            WorkerDied: TensorFlow has crashed or been killed.
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
    needs an earlier result waits for it by itself.

    Args:
        device: 'cpu' hides the GPUs from TensorFlow; 'gpu' or a device name leaves them in sight (nodes go
            there by the DEFAULT_DEVICE of `load`).
        op_libraries: libraries of custom ops (.so) to load with TensorFlow.
        runtime: 'capi' or 'python' to have that one, the folder of a release (`released`), or another engine
            (`engines.opened.open_engine`); by default what GDSURGEON_RUNTIME says, else the C API if it can be had.
        verbose: pass TensorFlow's own log on to standard error, line by line, as data.
        allow_ops: leave files and the network open to the process, which is locked in otherwise.
        reads: files and folders that graphs may read.
        onednn: let TensorFlow take kernels of oneDNN, where it would by itself.
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
        self._count = 0
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
        from gdsurgeon.runtime.protocol import Channel

        self._owner = os.getpid()
        self._kills = out_of_memory_kills()
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
        self._end(RuntimeFailure("the TensorFlow process has been closed"))

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
        except ChildProcessError:  # somebody else has waited for all children
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

    def submit(self, method: str, **arguments: object) -> Pending[Any]:
        """Send a request by its name; the methods below are the same with types. Starts the process.

        Never raises for a dead or failing child: `Pending.result` does.
        """
        return self._submit(method, arguments)

    def _submit(self, method: str, arguments: Mapping[str, object], descriptor: int | None = None) -> Pending[Any]:
        from gdsurgeon.runtime.protocol import WorkerRequest

        if self._pid is None and self._failure is None:
            self.start()
        stage = _STAGES.get(method, STARTING)
        if stage.key:
            stage = stage._replace(key=str(arguments[stage.key]))
        pending: Pending[object] = Pending(self, stage, arguments.get("key"))
        if self._failure is not None or self._channel is None:
            pending._done, pending._error = True, self._failure
            return pending
        self._count += 1
        self._pending[self._count] = pending
        try:
            self._channel.send(WorkerRequest(self._count, method, dict(arguments)), False, descriptor)
        except TimeoutError:
            self._time_out(pending, 60.0)
        except OSError:
            self._bury()
        except BaseException:  # an interrupt: a part of the message may be on its way
            self.close()
            raise
        return pending

    def call(self, method: str, timeout: float | None = None, **arguments: object) -> object:
        """`submit` and wait; see `Pending.result` for what it raises."""
        return self.submit(method, **arguments).result(timeout)

    def load(
        self,
        key: str,
        *,
        path: str | int | None = None,
        data: bytes | bytearray | memoryview | None = None,
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
        import pickle

        wanted: dict[str, object] = {"key": key, "default_device": default_device, "options": options}
        if path is None:
            return self.submit("load", data=pickle.PickleBuffer(data or b""), **wanted)  # not copied into the message
        try:
            descriptor = os.dup(path) if isinstance(path, int) else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.unload(key)
            pending: Pending[None] = Pending(self, _STAGES["load"], key)
            pending._done, pending._error = True, FileUnreadable(f"cannot read {path!r}: {error.strerror}")
            return pending
        try:
            return self._submit("load", {**wanted, "data": None}, descriptor)
        finally:
            os.close(descriptor)

    def unload(self, key: str) -> Pending[None]:
        """Free the graph KEY. Its results stay."""
        return self.submit("unload", key=key)

    def signature(self, key: str, names: Sequence[str]) -> Pending[list[TensorSpec]]:
        """DataType number and inferred shape of the tensors NAMES."""
        return self.submit("signature", key=key, names=list(names))

    def operations(self, key: str) -> Pending[list[Operation]]:
        """Name, type and number of outputs of all nodes, as TensorFlow has loaded them."""
        return self.submit("operations", key=key)

    def run(
        self,
        key: str,
        result_id: str,
        feeds: Mapping[str, Tensor | Result],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
        trace: bool = False,
    ) -> Pending[RunSummary]:
        """Run the graph KEY; the fetched tensors stay in the child under the name RESULT_ID.

        Args:
            key: a graph that was loaded, or whose loading was asked for.
            result_id: names the tensors from now on; an earlier result of that name is dropped.
            feeds: values by tensor name; a Result stands for a tensor that is still in the child.
            fetches: tensor names ('node' or 'node:1').
            targets: nodes to run without fetching anything.
            trace: record a full trace (RunMetadata).
        """
        return self.submit(
            "run",
            key=key,
            result_id=result_id,
            feeds=dict(feeds),
            fetches=list(fetches),
            targets=list(targets),
            trace=trace,
        )

    def put(self, result_id: str, tensors: Sequence[Tensor]) -> Pending[None]:
        """Hand TENSORS to the child as the result RESULT_ID, to be compared and fed like those of a run.

        Requests that are sent after this one find them, whether it has been answered or not.
        """
        return self.submit("put", result_id=result_id, tensors=list(tensors))

    def tensor(self, result_id: str, index: int) -> Pending[Tensor]:
        """The tensor that the run RESULT_ID gave for its fetch INDEX."""
        return self.submit("tensor", result_id=result_id, index=index)

    def compare(
        self, a: str, b: str, pairs: Sequence[tuple[int, int]], **how: float | None
    ) -> Pending[list[Comparison]]:
        """Compare fetches of the runs A and B, pair by pair of their indices, in the child. HOW: see `compare`."""
        return self.submit("compare", result_a=a, result_b=b, pairs=list(pairs), **how)

    def likenesses(self, result_a: str, result_b: str, rtol: float = 0.0, atol: float = 0.0) -> Pending[list[Likeness]]:
        """Compare the fetches of RESULT_B, which another engine gave, with those of RESULT_A, each with its own."""
        return self.submit("likenesses", result_a=result_a, result_b=result_b, rtol=rtol, atol=atol)

    def statistics(self, result_id: str) -> Pending[list[Statistics]]:
        """Extremes and counts of each tensor of the result RESULT_ID, in the order of its fetches."""
        return self.submit("statistics", result_id=result_id)

    def positive_channels(self, result_id: str, places: Sequence[tuple[int, int]]) -> Pending[list[bytes]]:
        """For tensors of RESULT_ID (index, axis) 1 for each channel that is above zero somewhere, and 0 for others."""
        return self.submit("positive_channels", result_id=result_id, places=list(places))

    def drop(self, result_id: str) -> Pending[None]:
        """Free the tensors of the run RESULT_ID once what was asked about them before is answered."""
        return self.submit("drop", result_id=result_id)

    def derive(self, data: bytes, wanted: Derivation) -> Pending[Backward]:
        """Make the nodes of the backward pass of a GraphDef; the worker's runtime must be 'python'."""
        return self.submit("derive", data=data, wanted=wanted)

    def call_signatures(self, folder: ModelFolder, calls: Sequence[SignatureCall]) -> Pending[Served]:
        """Load a SavedModel with tf.saved_model.load and call its signatures; the runtime must be 'python'."""
        return self.submit("call_signatures", folder=folder, calls=list(calls))

    def devices(self) -> Pending[list[Device]]:
        """The devices that TensorFlow sees."""
        return self.submit("devices")

    def info(self) -> Pending[Info]:
        """Which runtime it is, and TensorFlow's version."""
        return self.submit("info")

    # --- answers ---------------------------------------------------------------------------------------

    def _wait(self, wanted: Pending[object], timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not wanted._done and self._channel is not None:
            try:
                message = self._channel.receive(deadline)
            except TimeoutError:
                self._time_out(wanted, timeout or 0.0)
            except (EOFError, OSError):
                self._bury()
            except BaseException:  # an interrupt: a part of a message may have been read
                self.close()
                raise
            else:
                self._note(message)

    def _note(self, message: object) -> None:
        from gdsurgeon.runtime.protocol import Answer, Begun, RequestRefused

        if isinstance(message, Begun):
            self._ready = True
            pending = self._pending.get(message.number)
            if pending is not None:
                pending._thread = message.thread
            return
        assert isinstance(message, (Answer, RequestRefused))
        pending = self._pending.pop(message.number, None)
        if pending is None:
            return
        pending._done = True
        if isinstance(message, Answer):
            pending._value = message.value
        elif message.kind == "tensorflow":
            pending._error = TensorFlowError(message.code, message.message)
        elif message.kind == "missing":
            pending._error = TensorFlowMissing(message.message)
        elif message.kind == "unavailable":
            pending._error = WorkerUnavailable(f"TensorFlow does not get by here: {message.message}")
        else:
            pending._error = RuntimeFailure(message.message)

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
        crashed = crashed_thread(log)
        begun = [p for p in self._pending.values() if p._thread is not None]
        guilty = [p for p in begun if p._thread == crashed] or begun
        stages = list(dict.fromkeys(p.stage for p in guilty))
        if not stages:
            stages = [Stage("waiting") if self._ready or not self._pending else STARTING]
        lacked = lacked_at_end(status, log, self._resident, out_of_memory_kills() - self._kills)
        says_nothing = stages == [STARTING] or is_memory_limited()
        who = who_runs(self._runtime)
        self._end(WorkerDied(status, stages, says_nothing, who, lacked=lacked, limit=memory_budget()))
