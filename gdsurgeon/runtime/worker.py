"""The child process in which TensorFlow runs: it may crash or hang there, and say what it likes.

Standard input is the socket to the parent, standard output and error are where the parent wants whatever
TensorFlow prints. Started by `gdsurgeon.runtime.client`.

The main thread reads requests and does nothing else, so that the end of the parent is noticed whatever
TensorFlow is doing. Requests for one graph are worked on one after the other by one thread; different graphs
have different threads. Work that needs the result of an earlier run waits for it, so a parent may send
everything it wants done in one go.
"""

from __future__ import annotations

import ctypes
import gc
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gdsurgeon.resources import exhausted
from gdsurgeon.runtime.base import MAX_GRAPH_BYTES, Device, Operation, SessionOptions, TensorSpec
from gdsurgeon.runtime.checked import LoadedGraph, Runtime
from gdsurgeon.runtime.differentiation.gradients import Derivation
from gdsurgeon.runtime.failures import RuntimeFailure, TensorFlowError, TensorFlowMissing
from gdsurgeon.runtime.lockdown import Opening, lock_in
from gdsurgeon.runtime.process import takes_files
from gdsurgeon.runtime.protocol import (
    Answer,
    Begun,
    Channel,
    Info,
    OutputInfo,
    RequestRefused,
    Result,
    RunSummary,
    WorkerRequest,
)
from gdsurgeon.runtime.signatures import ModelFolder, SignatureCall
from gdsurgeon.runtime.tensor import Tensor

if TYPE_CHECKING:
    from gdsurgeon.runtime.python_tf import PythonRuntime

T = TypeVar("T")

_STACK_BYTES = 8 << 20  # of each thread, as the main thread has; elsewhere than on Linux the default is less
_SIGNAL_STACK_BYTES = 1 << 16
_COLLECT_AFTER = 100_000  # objects; Python itself looks for garbage after every 700


class Slot(Generic[T]):
    """A value that is to come, or the exception that came instead."""

    def __init__(self) -> None:
        self._settled = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def put(self, value: T) -> None:
        """The value is here."""
        self._value = value
        self._settled.set()

    def fail(self, error: BaseException) -> None:
        """The value will never be; `get` raises ERROR."""
        self._error = error
        self._settled.set()

    def get(self) -> T:
        """Wait for the value.

        Raises:
            BaseException: what `fail` was given.
        """
        self._settled.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None only where T allows it


class Job(NamedTuple):
    """WORK to be done in the thread LANE once everything in NEEDS is there; ABANDON is told if it never is."""

    lane: str
    work: Callable[[], object]
    needs: Iterable[Slot[list[Tensor]]] = ()
    abandon: Callable[[BaseException], None] | None = None


class Child:
    """The state of the child. A public method is a request: it runs in the main thread and gives a Job."""

    def __init__(self, channel: Channel, cpu_only: bool, not_locked_in: str = "") -> None:
        self._channel = channel
        self._cpu_only = cpu_only
        self._not_locked_in = not_locked_in
        self._runtime: Slot[Runtime] = Slot()
        self._graphs: dict[str, LoadedGraph | TensorFlowError] = {}
        self._results: dict[str, Slot[list[Tensor]]] = {}
        self._lanes: dict[str, queue.SimpleQueue[tuple[int, Job]]] = {}

    # --- the machinery ---------------------------------------------------------------------------------

    def start_loading(self, runtime: str | None, op_libraries: Sequence[str]) -> None:
        """Begin to load TensorFlow, in a thread of its own."""
        self._thread("runtime", lambda: self._load_runtime(runtime, op_libraries))

    def serve(self) -> None:
        """Take requests until the parent is gone."""
        while True:
            try:
                request = self._channel.receive()
            except EOFError:
                return
            assert isinstance(request, WorkerRequest)
            self._accept(request)

    def _accept(self, request: WorkerRequest) -> None:
        try:
            if request.method.startswith("_") or request.method in ("start_loading", "serve"):
                raise RuntimeFailure(f"there is no request {request.method!r}")
            job: Job = getattr(self, request.method)(**request.arguments)
        except Exception as error:
            self._refuse(request.number, error)
            return
        lane = self._lanes.get(job.lane)
        if lane is None:
            lane = self._lanes[job.lane] = queue.SimpleQueue()
            jobs = lane
            self._thread(job.lane, lambda: self._work(jobs))
        lane.put((request.number, job))

    def _thread(self, name: str, body: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                body()
            except BaseException as error:  # a request would wait for ever for a thread that is gone
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)

        threading.Thread(target=guarded, name=name, daemon=True).start()

    def _work(self, jobs: queue.SimpleQueue[tuple[int, Job]]) -> None:
        _use_signal_stack()
        while True:
            number, job = jobs.get()
            try:
                self._runtime.get()
                for needed in job.needs:
                    needed.get()
                self._channel.send(Begun(number, threading.get_ident()))
                answer = Answer(number, job.work())
            except Exception as error:
                if job.abandon is not None:
                    job.abandon(error)
                self._refuse(number, error)
            else:
                self._channel.send(answer)
            # Results are freed when they are dropped, not when this thread next has something to do.
            del job
            answer = None  # type: ignore[assignment]

    def _refuse(self, number: int, error: Exception) -> None:
        kind, code, message = "other", "", str(error)
        if isinstance(error, TensorFlowError):
            kind, code = "tensorflow", error.code
        elif isinstance(error, TensorFlowMissing):
            kind = "missing"
        elif exhausted(error):
            kind, message = "unavailable", exhausted(error)
        elif not isinstance(error, RuntimeFailure):
            import traceback

            traceback.print_exc()  # for the log
            message = f"{type(error).__name__}: {error}"
        self._channel.send(RequestRefused(number, kind, code, message))

    def _load_runtime(self, name: str | None, op_libraries: Sequence[str]) -> None:
        _use_signal_stack()
        from gdsurgeon.runtime.choose import open_runtime

        # TensorFlow's Python package makes objects by the million that are all to stay: looking through them again and
        # again takes a fifth of the time in which it is imported, and a third of that in which it builds a graph.
        gc.disable()
        try:
            runtime = open_runtime(name)
            for path in op_libraries:
                runtime.load_op_library(path)
        except Exception as error:
            if not isinstance(error, RuntimeFailure):
                import traceback

                traceback.print_exc()
                error = TensorFlowMissing(f"TensorFlow cannot be loaded: {type(error).__name__}: {error}")
            self._runtime.fail(error)
        else:
            gc.freeze()
            gc.set_threshold(_COLLECT_AFTER, 20, 20)
            gc.enable()
            self._runtime.put(runtime)

    def _graph(self, key: str) -> LoadedGraph:
        graph = self._graphs.get(key)
        if graph is None:
            raise RuntimeFailure(f"no graph {key!r} is loaded")
        if isinstance(graph, TensorFlowError):
            raise graph
        return graph

    def _result(self, result_id: str) -> Slot[list[Tensor]]:
        slot = self._results.get(result_id)
        if slot is None:
            raise RuntimeFailure(f"there is no result {result_id!r}")
        return slot

    # --- requests --------------------------------------------------------------------------------------

    def load(
        self,
        key: str,
        data: bytes | bytearray | memoryview | None,
        default_device: str = "",
        options: SessionOptions | None = None,
    ) -> Job:
        """Load the GraphDef in DATA as KEY, or in the file whose descriptor has come along; None."""
        descriptor = self._channel.take_descriptor()
        session = options if options is not None else SessionOptions(cpu_only=self._cpu_only)

        def work() -> None:
            self._close(key)
            content = data if descriptor is None else _mapped(descriptor)
            try:
                self._graphs[key] = self._runtime.get().load(content or b"", default_device, session)
            except TensorFlowError as error:
                self._graphs[key] = error  # requests that were sent along with this one fail for its reason
                raise

        return Job(key, work)

    def unload(self, key: str) -> Job:
        """Free the graph KEY; None. Its results stay."""
        return Job(key, lambda: self._close(key))

    def _close(self, key: str) -> None:
        graph = self._graphs.pop(key, None)
        if graph is not None and not isinstance(graph, TensorFlowError):
            graph.close()

    def signature(self, key: str, names: Sequence[str]) -> Job:
        """A TensorSpec for each of the tensors NAMES."""

        def work() -> list[TensorSpec]:
            return self._graph(key).signature(names)

        return Job(key, work)

    def operations(self, key: str) -> Job:
        """All operations of the graph KEY."""

        def work() -> list[Operation]:
            return list(self._graph(key).operations())

        return Job(key, work)

    def run(
        self,
        key: str,
        result_id: str,
        feeds: Mapping[str, Tensor | Result],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
        trace: bool = False,
    ) -> Job:
        """Run the graph KEY; the tensors stay here as RESULT_ID; a RunSummary."""
        earlier = {
            name: (self._result(value.result_id), value.index)
            for name, value in feeds.items()
            if isinstance(value, Result)
        }
        slot = self._results[result_id] = Slot()

        def work() -> RunSummary:
            graph = self._graph(key)
            values = {name: value for name, value in feeds.items() if isinstance(value, Tensor)}
            for name, (source, index) in earlier.items():
                values[name] = _member(source.get(), index)
            start = time.perf_counter()
            tensors, metadata = graph.run(values, fetches, targets, trace)
            seconds = time.perf_counter() - start
            slot.put(tensors)
            return RunSummary([OutputInfo(t.dtype, t.shape, t.nbytes) for t in tensors], seconds, metadata)

        return Job(key, work, [source for source, _ in earlier.values()], slot.fail)

    def put(self, result_id: str, tensors: list[Tensor]) -> Job:
        """Keep TENSORS as RESULT_ID, as if a run had given them; None."""
        slot = self._results[result_id] = Slot()
        slot.put(tensors)
        return Job(" put", lambda: None)

    def tensor(self, result_id: str, index: int) -> Job:
        """Output INDEX of the run RESULT_ID."""
        slot = self._result(result_id)
        return Job(" tensor", lambda: _member(slot.get(), index), [slot])

    def compare(
        self,
        result_a: str,
        result_b: str,
        pairs: Sequence[tuple[int, int]],
        rtol: float = 0.0,
        atol: float = 0.0,
        channels: int | None = None,
    ) -> Job:
        """A Comparison for each pair (output of run RESULT_A, output of run RESULT_B)."""
        a, b = self._result(result_a), self._result(result_b)

        def work() -> object:
            from gdsurgeon.runtime.compare import compare

            left, right = a.get(), b.get()
            return [compare(_member(left, i), _member(right, j), rtol, atol, channels) for i, j in pairs]

        return Job(" compare", work, [a, b])

    def likenesses(self, result_a: str, result_b: str, rtol: float = 0.0, atol: float = 0.0) -> Job:
        """A Likeness for each output of the run RESULT_A and that of RESULT_B in its place."""
        a, b = self._result(result_a), self._result(result_b)

        def work() -> object:
            from gdsurgeon.runtime.likeness import likeness

            return [likeness(x, y, rtol, atol) for x, y in zip(a.get(), b.get(), strict=True)]

        return Job(" compare", work, [a, b])

    def statistics(self, result_id: str) -> Job:
        """The Statistics of each tensor of the result RESULT_ID."""
        slot = self._result(result_id)

        def work() -> object:
            from gdsurgeon.runtime.statistics import statistics

            return [statistics(tensor) for tensor in slot.get()]

        return Job(" statistics", work, [slot])

    def positive_channels(self, result_id: str, places: Sequence[tuple[int, int]]) -> Job:
        """For each tensor (index in RESULT_ID, axis of its channels) which of its channels are above zero somewhere."""
        slot = self._result(result_id)

        def work() -> object:
            from gdsurgeon.runtime.statistics import positive_channels

            tensors = slot.get()
            return [positive_channels(tensors[index], axis) for index, axis in places]

        return Job(" positive_channels", work, [slot])

    def drop(self, result_id: str) -> Job:
        """Forget the result RESULT_ID; None. What was asked about it before is still answered."""
        self._results.pop(result_id, None)
        return Job(" drop", lambda: None)

    def devices(self) -> Job:
        """The devices that sessions see."""

        def work() -> list[Device]:
            return self._runtime.get().devices(SessionOptions(cpu_only=self._cpu_only))

        return Job(" devices", work)

    def derive(self, data: bytes | bytearray | memoryview, wanted: Derivation) -> Job:
        """The Backward pass of the GraphDef in DATA; see `gradients.derive`."""
        return Job(" gradients", lambda: self._python().derive(data, wanted))

    def call_signatures(self, folder: ModelFolder, calls: Sequence[SignatureCall]) -> Job:
        """A Served; see `signatures.call_signatures`."""
        return Job(" signatures", lambda: self._python().call_signatures(folder, calls))

    def _python(self) -> PythonRuntime:
        from gdsurgeon.runtime.python_tf import PythonRuntime

        runtime = self._runtime.get()
        if not isinstance(runtime, PythonRuntime):
            raise RuntimeFailure("that needs TensorFlow's Python package")
        return runtime

    def info(self) -> Job:
        """An Info about TensorFlow."""

        def work() -> Info:
            runtime = self._runtime.get()
            return Info(runtime.name, runtime.version, self._not_locked_in)

        return Job(" info", work)


def main(runtime: str | None, op_libraries: Sequence[str], opening: tuple[bool, bool], reads: Sequence[str]) -> None:
    """Run the child until its parent is gone. Does not return.

    Args:
        runtime: as `gdsurgeon.runtime.choose.open_runtime` takes it, or None for the best there is.
        op_libraries: paths of libraries with custom ops, to be loaded along with TensorFlow.
        opening: what is left open to the process, as `Opening` has it.
        reads: files and folders that graphs may read.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which decides
    own = os.dup(0)  # not inheritable: nothing TensorFlow may start can keep the socket open
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _prepare_for_crashes()
    threading.stack_size(_STACK_BYTES)
    import gdsurgeon.runtime.capi  # noqa: F401  # before it is too late to keep what it is compiled to

    left = Opening(*opening, libraries=op_libraries, reads=reads)
    if takes_files(runtime):
        left = left._replace(unnamed_bytes=2 * MAX_GRAPH_BYTES)
    missing = lock_in(left)
    for reason in missing:
        print(f"not locked in: {reason}", file=sys.stderr)
    child = Child(Channel(socket.socket(fileno=own)), not left.accelerators, "; ".join(missing))
    child.start_loading(runtime, op_libraries)
    try:
        child.serve()
    except OSError:
        pass  # the parent is gone
    # TensorFlow's threads may be in the middle of something; nobody waits for it, nor for its destructors.
    os._exit(0)


def _mapped(descriptor: int) -> memoryview | bytes:
    """The content of a file, writable in memory (as the C API wants it) and not read before use; closes DESCRIPTOR.

    Raises:
        RuntimeFailure: it cannot be read.
    """
    import mmap

    try:
        if not os.fstat(descriptor).st_size:
            return b""
        return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise RuntimeFailure(f"cannot read the file: {error.strerror or error}") from error
    finally:
        os.close(descriptor)


def _member(tensors: Sequence[Tensor], index: int) -> Tensor:
    if not 0 <= index < len(tensors):
        raise RuntimeFailure(f"the result has {len(tensors)} outputs, no output {index}")
    return tensors[index]


def _prepare_for_crashes() -> None:
    """A note in the log of which thread crashed."""
    import faulthandler

    try:
        faulthandler.enable(file=2)
    except (OSError, ValueError, RuntimeError):
        pass


class _StackT(ctypes.Structure):
    """stack_t of Linux."""

    _fields_ = (("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


def _use_signal_stack() -> None:
    """Let this thread report a stack overflow: a signal handler needs a stack, and that one is used up.

    Malformed graphs crash TensorFlow by endless recursion, so this is the usual case. faulthandler itself
    provides for the main thread only.
    """
    if sys.platform != "linux":
        return
    memory = ctypes.create_string_buffer(_SIGNAL_STACK_BYTES)
    _signal_stacks.append(memory)
    stack = _StackT(ctypes.addressof(memory), 0, _SIGNAL_STACK_BYTES)
    ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None)


_signal_stacks: list[ctypes.Array[ctypes.c_char]] = []
