"""The child process in which TensorFlow runs: it may crash or hang there, and say what it likes.

Standard input is the socket to the parent, standard output and error are where the parent wants whatever
TensorFlow prints. Started by `gdsurgeon.runtime.client`.

The main thread reads requests and does nothing else, so that the end of the parent is noticed whatever
TensorFlow is doing. Requests for one graph are worked on one after the other by one thread; different graphs
have different threads. Work that needs the result of an earlier run waits for it, so a parent may send
everything it wants done in one go.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gdsurgeon.resources import exhausted
from gdsurgeon.runtime.answers import Request
from gdsurgeon.runtime.base import MAX_GRAPH_BYTES, Device, Operation, SessionOptions, TensorSpec
from gdsurgeon.runtime.encoding import BadMessage, Bytes
from gdsurgeon.runtime.failures import RuntimeFailure, Stage, TensorFlowError, TensorFlowMissing
from gdsurgeon.runtime.lockdown import Opening, lock_in
from gdsurgeon.runtime.process import takes_files
from gdsurgeon.runtime.protocol import (
    ANSWER,
    BEGUN,
    BEGUN_TYPES,
    MOST_REASON,
    REFUSED,
    REFUSED_TYPES,
    Channel,
    Info,
    OutputInfo,
    Result,
    RunSummary,
    Types,
    packed,
    request_types,
)
from gdsurgeon.runtime.tensor import Tensor

if TYPE_CHECKING:
    from gdsurgeon.runtime.checked import LoadedGraph, Runtime
    from gdsurgeon.runtime.compare import Comparison
    from gdsurgeon.runtime.differentiation.gradients import Backward, Derivation
    from gdsurgeon.runtime.likeness import Likeness
    from gdsurgeon.runtime.python_tf import PythonRuntime
    from gdsurgeon.runtime.signatures import ModelFolder, Served, SignatureCall
    from gdsurgeon.runtime.statistics import Statistics

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., "Job[Any]"])

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


class Job(Generic[T]):
    """Work that a request asks for.

    Attributes:
        lane: the thread that does it. A thread does its jobs one after the other.
        work: returns the answer.
        needs: results that the work waits for.
        settle: called after the answer was sent, with None, or with the error after a refusal.
    """

    def __init__(
        self,
        lane: str,
        work: Callable[[], T],
        needs: Sequence[Slot[list[Tensor]]] = (),
        settle: Callable[[Exception | None], None] = lambda _: None,
    ) -> None:
        self.lane = lane
        self.work = work
        self.needs = needs
        self.settle = settle


REQUESTS: dict[str, Request] = {}
"""The requests that the worker accepts, by name."""


def request(doing: str = "starting", key: str = "", **how: Any) -> Callable[[Method], Method]:
    """Declare a method of `Child` as a request, see `Request`. Its annotations are the types on the wire."""

    def declare(method: Method) -> Method:
        REQUESTS[method.__name__] = Request(method, Stage(doing, key), **how)
        return method

    return declare


class Child:
    """The state of the child. A request runs in the main thread and returns the Job that it asks for."""

    def __init__(self, channel: Channel, cpu_only: bool, not_locked_in: str = "") -> None:
        self._channel = channel
        self._cpu_only = cpu_only
        self._not_locked_in = not_locked_in
        self._runtime: Slot[Runtime] = Slot()
        self._graphs: dict[str, LoadedGraph | TensorFlowError] = {}
        self._results: dict[str, Slot[list[Tensor]]] = {}
        self._lanes: dict[str, queue.SimpleQueue[tuple[int, Job[Any], Any]]] = {}

    # --- the machinery ---------------------------------------------------------------------------------

    def start_loading(self, runtime: str | None, op_libraries: Sequence[str]) -> None:
        """Begin to load TensorFlow, in a thread of its own."""
        self._thread("runtime", lambda: self._load_runtime(runtime, op_libraries))

    def serve(self) -> None:
        """Take requests until the parent closes the socket.

        Raises:
            BadMessage: a message is not a request.
        """
        while True:
            try:
                number, name, values = self._channel.receive(self._expected)
            except EOFError:
                return
            self._accept(number, REQUESTS[name].method, values)
            if self._channel.take_descriptor() is not None:
                raise BadMessage(f"a descriptor came with a request to {name}")

    def _expected(self, _: int, name: str) -> tuple[Types, int]:
        if name not in REQUESTS:
            raise BadMessage(f"there is no request {name!r}")
        return list(request_types(REQUESTS[name].method)[0].values()), sys.maxsize

    def _accept(self, number: int, method: Callable[..., Job[Any]], values: Sequence[Any]) -> None:
        try:
            job = method(self, *values)
        except Exception as error:
            self._refuse(number, error)
            return
        lane = self._lanes.get(job.lane)
        if lane is None:
            lane = self._lanes[job.lane] = queue.SimpleQueue()
            jobs = lane
            self._thread(job.lane, lambda: self._work(jobs))
        lane.put((number, job, request_types(method)[1]))

    def _thread(self, name: str, body: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                body()
            except BaseException as error:  # a request would wait for ever for a thread that has ended
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)

        threading.Thread(target=guarded, name=name, daemon=True).start()

    def _work(self, jobs: queue.SimpleQueue[tuple[int, Job[Any], Any]]) -> None:
        _use_signal_stack()
        while True:
            number, job, kind = jobs.get()
            failure: Exception | None = None
            try:
                self._runtime.get()
                for needed in job.needs:
                    needed.get()
                self._channel.send(packed(number, BEGUN, BEGUN_TYPES, [threading.get_ident()]))
                answer = packed(number, ANSWER, [kind], [job.work()])
            except Exception as error:
                failure = error
                self._refuse(number, error)
            else:
                self._channel.send(answer)
            job.settle(failure)
            # Results are freed when they are dropped, not when this thread next has something to do.
            del job, failure
            answer = []

    def _refuse(self, number: int, error: Exception) -> None:
        kind, code, message = "other", getattr(error, "error_code", ""), str(error)
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
        self._channel.send(packed(number, REFUSED, REFUSED_TYPES, [kind, code, message[:MOST_REASON]]))

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
            raise RuntimeFailure(f"no graph {key!r} is loaded", "no-such-graph")
        if isinstance(graph, TensorFlowError):
            raise graph
        return graph

    def _result(self, result_id: str) -> Slot[list[Tensor]]:
        slot = self._results.get(result_id)
        if slot is None:
            raise RuntimeFailure(f"there is no result {result_id!r}", "no-such-result")
        return slot

    # --- requests --------------------------------------------------------------------------------------

    @request("loading", "key")
    def load(
        self,
        key: str,
        data: Bytes | None,
        default_device: str = "",
        options: SessionOptions | None = None,
    ) -> Job[None]:
        """Load a GraphDef as KEY: the one in DATA, or in the file whose descriptor came with the request."""
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

    @request("unloading", "key")
    def unload(self, key: str) -> Job[None]:
        """Free the graph KEY. Its results stay."""
        return Job(key, lambda: self._close(key))

    def _close(self, key: str) -> None:
        graph = self._graphs.pop(key, None)
        if graph is not None and not isinstance(graph, TensorFlowError):
            graph.close()

    @request("inspecting", "key", items="names")
    def signature(self, key: str, names: Sequence[str]) -> Job[list[TensorSpec]]:
        """DataType number and inferred shape of each of the tensors NAMES."""
        return Job(key, lambda: self._graph(key).signature(names))

    @request("inspecting", "key")
    def operations(self, key: str) -> Job[list[Operation]]:
        """Name, type and number of outputs of all nodes, as TensorFlow has loaded them."""
        return Job(key, lambda: list(self._graph(key).operations()))

    @request("running", "key", items="fetches")
    def run(
        self,
        key: str,
        result_id: str,
        feeds: Mapping[str, Tensor | Result],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
        trace: bool = False,
    ) -> Job[RunSummary]:
        """Run the graph KEY. The fetched tensors stay in the child under the name RESULT_ID.

        Args:
            key: a graph that was loaded, or whose loading was asked for.
            result_id: names the tensors from now on; an earlier result of that name is dropped.
            feeds: values by tensor name; a Result stands for a tensor that is still in the child.
            fetches: tensor names ('node' or 'node:1').
            targets: nodes to run without fetching anything.
            trace: record a full trace (RunMetadata).
        """
        earlier = {
            name: (self._result(value.result_id), value.index)
            for name, value in feeds.items()
            if isinstance(value, Result)
        }
        slot: Slot[list[Tensor]] = Slot()
        self._results[result_id] = slot
        fetched: list[Tensor] = []

        def work() -> RunSummary:
            graph = self._graph(key)
            values = {name: value for name, value in feeds.items() if isinstance(value, Tensor)}
            for name, (source, index) in earlier.items():
                values[name] = _member(source.get(), index)
            start = time.perf_counter()
            tensors, metadata = graph.run(values, fetches, targets, trace)
            seconds = time.perf_counter() - start
            fetched.extend(tensors)
            return RunSummary([OutputInfo(t.dtype, t.shape, t.nbytes) for t in tensors], seconds, metadata)

        def settle(error: Exception | None) -> None:
            # Not before the summary was sent: the command accepts a tensor only as the summary describes it.
            slot.put(fetched) if error is None else slot.fail(error)

        return Job(key, work, [source for source, _ in earlier.values()], settle)

    @request("taking over tensors", items="tensors")
    def put(self, result_id: str, tensors: Sequence[Tensor]) -> Job[None]:
        """Keep TENSORS as the result RESULT_ID, to be compared and fed like those of a run.

        Requests that are sent after this one find them, whether it has been answered or not.
        """
        slot = self._results[result_id] = Slot()
        slot.put(list(tensors))
        return Job(" put", lambda: None)

    @request("handing over a result", result="result_id")
    def tensor(self, result_id: str, index: int) -> Job[Tensor]:
        """The tensor that the run RESULT_ID returned for its fetch INDEX."""
        slot = self._result(result_id)
        return Job(" tensor", lambda: _member(slot.get(), index), [slot])

    @request("comparing results", items="pairs")
    def compare(
        self,
        result_a: str,
        result_b: str,
        pairs: Sequence[tuple[int, int]],
        rtol: float = 0.0,
        atol: float = 0.0,
        channels: int | None = None,
    ) -> Job[list[Comparison]]:
        """Compare fetches of two runs, pair by pair of their indices; see `compare.compare`."""
        from gdsurgeon.runtime.compare import compare

        a, b = self._result(result_a), self._result(result_b)

        def work() -> list[Comparison]:
            left, right = a.get(), b.get()
            return [compare(_member(left, i), _member(right, j), rtol, atol, channels) for i, j in pairs]

        return Job(" compare", work, [a, b])

    @request("comparing results", result="result_a")
    def likenesses(self, result_a: str, result_b: str, rtol: float = 0.0, atol: float = 0.0) -> Job[list[Likeness]]:
        """Compare the fetches of RESULT_B, which a different engine returned, with those of RESULT_A, one by one."""
        from gdsurgeon.runtime.likeness import likeness

        a, b = self._result(result_a), self._result(result_b)
        return Job(
            " compare",
            lambda: [likeness(x, y, rtol, atol) for x, y in zip(a.get(), b.get(), strict=True)],
            [a, b],
        )

    @request("measuring a result", result="result_id")
    def statistics(self, result_id: str) -> Job[list[Statistics]]:
        """Extremes and counts of each tensor of the result RESULT_ID, in the order of its fetches."""
        from gdsurgeon.runtime.statistics import statistics

        slot = self._result(result_id)
        return Job(" statistics", lambda: list(map(statistics, slot.get())), [slot])

    @request("measuring a result", items="places", result="result_id")
    def positive_channels(self, result_id: str, places: Sequence[tuple[int, int]]) -> Job[list[bytes]]:
        """For tensors of RESULT_ID (index, axis) 1 for each channel that is above zero somewhere, and 0 for others."""
        from gdsurgeon.runtime.statistics import positive_channels

        slot = self._result(result_id)
        return Job(
            " positive_channels",
            lambda: [positive_channels(_member(slot.get(), index), axis) for index, axis in places],
            [slot],
        )

    @request("freeing a result", result="result_id")
    def drop(self, result_id: str) -> Job[None]:
        """Free the result RESULT_ID, once all earlier requests for it are answered."""
        self._results.pop(result_id, None)
        return Job(" drop", lambda: None)

    @request("listing devices")
    def devices(self) -> Job[list[Device]]:
        """The devices that TensorFlow sees."""
        return Job(" devices", lambda: self._runtime.get().devices(SessionOptions(cpu_only=self._cpu_only)))

    @request("making gradients", is_large=True)
    def derive(self, data: Bytes, wanted: Derivation) -> Job[Backward]:
        """Make the nodes of the backward pass of a GraphDef, see `gradients.derive`; the runtime must be 'python'."""
        return Job(" gradients", lambda: self._python().derive(data, wanted))

    @request("asking tf.saved_model.load", is_large=True)
    def call_signatures(self, folder: ModelFolder, calls: Sequence[SignatureCall]) -> Job[Served]:
        """Load a SavedModel with tf.saved_model.load and call its signatures; the runtime must be 'python'."""
        return Job(" signatures", lambda: self._python().call_signatures(folder, calls))

    def _python(self) -> PythonRuntime:
        from gdsurgeon.runtime.python_tf import PythonRuntime

        runtime = self._runtime.get()
        if not isinstance(runtime, PythonRuntime):
            raise RuntimeFailure("that needs TensorFlow's Python package", "no-tensorflow")
        return runtime

    @request()
    def info(self) -> Job[Info]:
        """The runtime, and TensorFlow's version."""
        runtime = self._runtime
        return Job(" info", lambda: Info(runtime.get().name, runtime.get().version, self._not_locked_in))


def main(runtime: str | None, op_libraries: Sequence[str], opening: tuple[bool, bool], reads: Sequence[str]) -> None:
    """Run the child until its parent closes the socket. Does not return.

    Args:
        runtime: as `gdsurgeon.runtime.choose.open_runtime` takes it, or None for the best there is.
        op_libraries: paths of libraries with custom ops, to be loaded along with TensorFlow.
        opening: the first fields of `Opening`: the access that the process keeps.
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
    child = Child(Channel(socket.socket(fileno=own), most_descriptors=1), not left.accelerators, "; ".join(missing))
    child.start_loading(runtime, op_libraries)
    try:
        child.serve()
    except OSError:
        pass  # the parent has closed the socket
    # TensorFlow's threads may still be at work. The process waits neither for them nor for destructors.
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
        raise RuntimeFailure(f"cannot read the file: {error.strerror or error}", "unreadable") from error
    finally:
        os.close(descriptor)


def _member(tensors: Sequence[Tensor], index: int) -> Tensor:
    if not 0 <= index < len(tensors):
        raise RuntimeFailure(f"the result has {len(tensors)} outputs, no output {index}", "no-such-output")
    return tensors[index]


def _prepare_for_crashes() -> None:
    """Write the thread that crashes into the log."""
    import faulthandler

    try:
        faulthandler.enable(file=2)
    except (OSError, ValueError, RuntimeError):
        pass


def _use_signal_stack() -> None:
    """Let this thread report a stack overflow: a signal handler needs a stack, and that one is used up.

    Malformed graphs crash TensorFlow by endless recursion, so this is the usual case. faulthandler itself
    provides for the main thread only.
    """
    if sys.platform != "linux":
        return
    import ctypes

    memory = ctypes.create_string_buffer(_SIGNAL_STACK_BYTES)
    _signal_stacks.append(memory)
    stack = struct.pack("PiN", ctypes.addressof(memory), 0, _SIGNAL_STACK_BYTES)  # stack_t of Linux
    ctypes.CDLL(None).sigaltstack(stack, None)


_signal_stacks: list[object] = []
