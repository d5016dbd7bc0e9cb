"""The child process in which TensorFlow runs, so a crash or a hang does not affect the command.

Standard input is the socket to the parent; standard output and error are the file for TensorFlow's output. The process
is started by `gdsurgeon.runtime.client`.

The main thread only reads requests, so it notices the end of the parent during any work of TensorFlow. One thread works
on the requests for one graph in order; different graphs have different threads. Work that needs the result of an
earlier run waits for it, so the parent may send all requests at once.

A graph is large if the memory does not suffice for two graphs of its size. Only one large graph is in memory at a time:
requests for large graphs do not overlap, and a graph that was replaced in memory is loaded again for its next request.
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
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gdsurgeon.resources import exhausted, memory_budget
from gdsurgeon.runtime import failures
from gdsurgeon.runtime.base import (
    MAX_GRAPH_BYTES,
    MEMORY_OF_GRAPH,
    Backward,
    Derivation,
    Device,
    ModelFolder,
    Operation,
    Served,
    SessionOptions,
    SignatureCall,
    TensorSpec,
)
from gdsurgeon.runtime.compare import Comparison, Statistics, compare, positive_channels, statistics
from gdsurgeon.runtime.encoding import BadMessage, Bytes, Types
from gdsurgeon.runtime.failures import BadRequest, Failure, Stage, TensorFlowError, TensorFlowMissing
from gdsurgeon.runtime.lockdown import Opening, lock_in
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
    Request,
    Result,
    RunSummary,
    packed,
    request_types,
)
from gdsurgeon.runtime.tensor import Tensor

if TYPE_CHECKING:
    from gdsurgeon.runtime.checked import LoadedGraph, Runtime, TensorFlowGraph
    from gdsurgeon.runtime.python_tf import PythonRuntime

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., "Job[Any]"])

VARIABLE = "GDSURGEON_RUNTIME"  # environment: 'capi' or 'python' forces one
_STACK_BYTES = 8 << 20  # of each thread, as the main thread has; on systems other than Linux the default is less
_SIGNAL_STACK_BYTES = 1 << 16
_COLLECT_AFTER = 100_000  # objects; Python's default for a garbage collection is 700


class Slot(Generic[T]):
    """A value that is computed later, or the exception that was raised instead."""

    def __init__(self) -> None:
        self._settled = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def put(self, value: T) -> None:
        """Stores the value."""
        self._value = value
        self._settled.set()

    def fail(self, error: BaseException) -> None:
        """Makes `get` raise `error`."""
        self._error = error
        self._settled.set()

    def get(self) -> T:
        """Waits for the value. Raises the exception of `fail`."""
        self._settled.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None only if T allows it


class Job(Generic[T]):
    """The work of a request.

    Attributes:
        work: returns the answer; its arguments are the values of `needs`.
        needs: results that the work waits for.
        settle: called after the answer was sent, with None, or with the error after a refusal.
    """

    def __init__(self, work: Callable[..., T], *needs: Slot[list[Tensor]]) -> None:
        self.work = work
        self.needs = needs
        self.settle: Callable[[Exception | None], None] = lambda _: None


REQUESTS: dict[str, Request] = {}
"""The requests that the worker accepts, by name."""


def request(doing: str = "starting", key: str = "", **how: Any) -> Callable[[Method], Method]:
    """Declares a method of `Child` as a request, see `Request`. Its annotations are the types on the wire."""

    def declare(method: Method) -> Method:
        REQUESTS[method.__name__] = Request(method, Stage(doing, key), **how)
        return method

    return declare


class Child:
    """The state of the child. A request runs in the main thread and returns its Job."""

    def __init__(self, channel: Channel, cpu_only: bool, not_locked_in: str = "") -> None:
        self._channel = channel
        self._cpu_only = cpu_only
        self._not_locked_in = not_locked_in
        self._runtime: Slot[Runtime] = Slot()
        self._graphs: dict[str, LoadedGraph | TensorFlowError] = {}
        self._large: set[str] = set()  # the keys of large graphs
        self._loaders: dict[str, Callable[[], LoadedGraph]] = {}  # load large graphs again
        self._stateful: set[str] = set()  # large graphs that cannot be loaded again without losing their state
        self._turn = threading.Lock()  # of large graphs
        self._results: dict[str, Slot[list[Tensor]]] = {}
        self._lanes: dict[str, queue.SimpleQueue[tuple[int, Job[Any], Request]]] = {}
        self._lanes_lock = threading.Lock()

    # --- the machinery ---------------------------------------------------------------------------------

    def start_loading(self, runtime: str | None, op_libraries: Sequence[str]) -> None:
        """Begins to load TensorFlow, in a thread of its own."""
        self._thread("runtime", lambda: self._load_runtime(runtime, op_libraries))

    def serve(self) -> None:
        """Accepts requests until the parent closes the socket.

        Raises:
            BadMessage: a message is not a request.
        """
        while True:
            try:
                number, name, values = self._channel.receive(self._expected)
            except EOFError:
                return
            self._accept(number, REQUESTS[name], values)
            if self._channel.take_descriptor() is not None:
                raise BadMessage(f"a descriptor came with a request to {name}")

    def _expected(self, _: int, name: str) -> tuple[Types, int]:
        if name not in REQUESTS:
            raise BadMessage(f"there is no request {name!r}")
        return list(request_types(REQUESTS[name].method)[0].values()), sys.maxsize

    def _accept(self, number: int, request: Request, values: Sequence[Any]) -> None:
        types, _ = request_types(request.method)
        try:
            job = request.method(self, *values)
        except Exception as error:
            self._refuse(number, error)
            return
        stage = request.stage.of(dict(zip(types, values, strict=True)))
        name = stage.key if request.stage.key else f" {request.method.__name__}"  # a key may be any text
        with self._lanes_lock:
            if name not in self._lanes:
                jobs = self._lanes[name] = queue.SimpleQueue()
                self._thread(name, lambda: self._work(name, jobs))
            self._lanes[name].put((number, job, request))

    def _thread(self, name: str, body: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                body()
            except BaseException as error:  # a request would wait forever for a thread that has ended
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)

        threading.Thread(target=guarded, name=name, daemon=True).start()

    def _work(self, lane: str, jobs: queue.SimpleQueue[tuple[int, Job[Any], Request]]) -> None:
        """Works on the requests for one graph, in order; ends when the graph is unloaded and no request is left."""
        _use_signal_stack()
        while True:
            number, job, request = jobs.get()
            failure: Exception | None = None
            try:
                self._runtime.get()
                values = [needed.get() for needed in job.needs]
                with self._turn if lane in self._large else nullcontext():
                    self._channel.send(packed(number, BEGUN, BEGUN_TYPES, [threading.get_ident()]))
                    answer = packed(number, ANSWER, [request_types(request.method)[1]], [job.work(*values)])
            except Exception as error:
                failure = error
                self._refuse(number, error)
            else:
                self._channel.send(answer)
            job.settle(failure)
            # Dropped results are freed immediately, and not when this thread gets its next job.
            del job, failure
            answer = []
            values = []
            with self._lanes_lock:
                if request.method is Child.unload and jobs.empty():
                    del self._lanes[lane]
                    return

    def _refuse(self, number: int, error: Exception) -> None:
        if isinstance(error, TensorFlowError):
            failure = Failure(failures.REFUSED, error.code, error.message)
        elif isinstance(error, TensorFlowMissing):
            failure = Failure(failures.MISSING, error.code, error.reason)
        elif exhausted(error):
            line = f"TensorFlow does not work here: {exhausted(error)}"
            failure = Failure(failures.UNAVAILABLE, "no-tensorflow", line)
        elif isinstance(error, BadRequest):
            failure = Failure(failures.FAILED, error.code, str(error))
        else:
            import traceback

            traceback.print_exc()  # for the log
            failure = Failure(failures.FAILED, "failed", f"{type(error).__name__}: {error}")
        values = [failure.kind, failure.code, failure.reason[:MOST_REASON]]
        self._channel.send(packed(number, REFUSED, REFUSED_TYPES, values))

    def _load_runtime(self, name: str | None, op_libraries: Sequence[str]) -> None:
        _use_signal_stack()
        # TensorFlow's Python package makes millions of objects that are never freed. Collecting garbage takes a fifth
        # of the time of its import, and a third of the time in which it builds a graph.
        gc.disable()
        try:
            runtime = open_runtime(name)
            for path in op_libraries:
                runtime.load_op_library(path)
        except Exception as error:
            if not isinstance(error, (BadRequest, TensorFlowError, TensorFlowMissing)):
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
        if graph is None and key in self._loaders:
            graph = self._loaded(key, self._loaders[key])
        if graph is None:
            raise BadRequest(f"no graph {key!r} is loaded", "no-such-graph")
        if isinstance(graph, TensorFlowError):
            raise graph
        return graph

    def _tensorflow_graph(self, key: str) -> TensorFlowGraph:
        from gdsurgeon.runtime.checked import TensorFlowGraph

        graph = self._graph(key)
        assert isinstance(graph, TensorFlowGraph)
        return graph

    def _result(self, result_id: str) -> Slot[list[Tensor]]:
        slot = self._results.get(result_id)
        if slot is None:
            raise BadRequest(f"there is no result {result_id!r}", "no-such-result")
        return slot

    def _python(self) -> PythonRuntime:
        from gdsurgeon.runtime.python_tf import PythonRuntime

        runtime = self._runtime.get()
        if not isinstance(runtime, PythonRuntime):
            raise BadRequest("that needs TensorFlow's Python package", "no-tensorflow")
        return runtime

    # --- requests --------------------------------------------------------------------------------------

    @request("loading", "key")
    def load(
        self, key: str, data: Bytes | None, default_device: str = "", options: SessionOptions | None = None
    ) -> Job[None]:
        """Loads a GraphDef as `key`: the one in `data`, or in the file whose descriptor came with the request."""
        descriptor = self._channel.take_descriptor()
        session = options if options is not None else SessionOptions(cpu_only=self._cpu_only)
        size = len(data or b"") if descriptor is None else os.fstat(descriptor).st_size
        is_large = bool(memory_budget()) and 2 * MEMORY_OF_GRAPH * size > memory_budget()

        def work() -> None:
            self._close(key)
            content = (data if descriptor is None else _mapped(descriptor)) or b""

            def load() -> LoadedGraph:
                return self._runtime.get().load(content, default_device, session)

            if is_large:
                self._loaders[key] = load
            self._loaded(key, load)

        if is_large:
            self._large.add(key)
        return Job(work)

    def _loaded(self, key: str, load: Callable[[], LoadedGraph]) -> LoadedGraph:
        """Loads a graph; if it is large, it replaces other large graphs in memory."""
        for other in self._loaders if key in self._loaders else ():
            if other not in self._stateful and other in self._graphs:
                self._free(other)
        try:
            self._graphs[key] = graph = load()
        except TensorFlowError as error:
            self._graphs[key] = error  # requests that were sent after this one fail for the same reason
            raise
        return graph

    @request("unloading", "key")
    def unload(self, key: str) -> Job[None]:
        """Frees the graph `key`, but not its results."""
        return Job(lambda: self._close(key))

    def _close(self, key: str) -> None:
        self._loaders.pop(key, None)
        self._stateful.discard(key)
        self._free(key)

    def _free(self, key: str) -> None:
        graph = self._graphs.pop(key, None)
        if graph is not None and not isinstance(graph, TensorFlowError):
            graph.close()

    @request("inspecting", "key", items="names")
    def signature(self, key: str, names: Sequence[str]) -> Job[list[TensorSpec]]:
        """Returns DataType number and inferred shape of each of the tensors `names`."""
        return Job(lambda: self._tensorflow_graph(key).signature(names))

    @request("inspecting", "key")
    def operations(self, key: str) -> Job[list[Operation]]:
        """Returns name, type and number of outputs of all nodes, as TensorFlow has loaded them."""
        return Job(lambda: list(self._tensorflow_graph(key).operations()))

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
        """Runs the graph `key`. The fetched tensors stay in the child under the name `result_id`.

        Args:
            key: a graph that was loaded, or whose loading was requested.
            result_id: names the tensors from now on; an earlier result of that name is dropped.
            feeds: values by tensor name; a Result refers to a tensor in the child.
            fetches: tensor names ('node' or 'node:1').
            targets: nodes to run without fetching a result.
            trace: record a full trace (RunMetadata).
        """
        earlier = {name: value for name, value in feeds.items() if isinstance(value, Result)}
        needs = [self._result(value.result_id) for value in earlier.values()]
        slot: Slot[list[Tensor]] = Slot()
        self._results[result_id] = slot
        fetched: list[Tensor] = []

        def work(*results: list[Tensor]) -> RunSummary:
            graph = self._graph(key)
            if targets:
                self._stateful.add(key)
            values = {name: value for name, value in feeds.items() if isinstance(value, Tensor)}
            for (name, value), tensors in zip(earlier.items(), results, strict=True):
                values[name] = _member(tensors, value.index)
            start = time.perf_counter()
            found, metadata = graph.run(values, fetches, targets, trace)
            seconds = time.perf_counter() - start
            fetched.extend(found)
            return RunSummary([OutputInfo(t.dtype, t.shape, t.nbytes) for t in found], seconds, metadata)

        job = Job(work, *needs)
        # After the summary was sent: the command accepts a tensor only as the summary describes it.
        job.settle = lambda error: slot.put(fetched) if error is None else slot.fail(error)
        return job

    @request("taking over tensors", items="tensors")
    def put(self, result_id: str, tensors: Sequence[Tensor]) -> Job[None]:
        """Stores `tensors` as the result `result_id`, to compare and feed them like those of a run.

        Requests that are sent after this one find them, also before it is answered.
        """
        slot = self._results[result_id] = Slot()
        slot.put(list(tensors))
        return Job(lambda: None)

    @request("handing over a result", result="result_id")
    def tensor(self, result_id: str, index: int) -> Job[Tensor]:
        """Returns the tensor that the run `result_id` returned for its fetch `index`."""
        return Job(lambda found: _member(found, index), self._result(result_id))

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
        """Compares fetches of two runs, by pairs of their indices; see `gdsurgeon.runtime.compare.compare`."""

        def work(a: list[Tensor], b: list[Tensor]) -> list[Comparison]:
            return [compare(_member(a, i), _member(b, j), rtol, atol, channels) for i, j in pairs]

        return Job(work, self._result(result_a), self._result(result_b))

    @request("measuring a result", result="result_id")
    def statistics(self, result_id: str) -> Job[list[Statistics]]:
        """Returns the statistics of each tensor of the result `result_id`, in the order of its fetches."""
        return Job(lambda found: list(map(statistics, found)), self._result(result_id))

    @request("measuring a result", items="places", result="result_id")
    def positive_channels(self, result_id: str, places: Sequence[tuple[int, int]]) -> Job[list[bytes]]:
        """Returns for tensors of `result_id` (index, axis) 1 for each channel with an element above zero, else 0."""
        return Job(
            lambda found: [positive_channels(_member(found, index), axis) for index, axis in places],
            self._result(result_id),
        )

    @request("freeing a result", result="result_id")
    def drop(self, result_id: str) -> Job[None]:
        """Frees the result `result_id`, once all earlier requests for it are answered."""
        self._results.pop(result_id, None)
        return Job(lambda: None)

    @request("listing devices")
    def devices(self) -> Job[list[Device]]:
        """Returns the devices that TensorFlow sees."""

        def work() -> list[Device]:
            self._graphs[""] = self._runtime.get().load(b"", "", SessionOptions(cpu_only=self._cpu_only))
            try:
                return self._tensorflow_graph("").devices()
            finally:
                self._close("")

        return Job(work)

    @request("making gradients", is_large=True)
    def derive(self, data: Bytes, wanted: Derivation) -> Job[Backward]:
        """Makes the nodes of a backward pass, see `gdsurgeon.runtime.gradients`; the runtime must be 'python'."""
        return Job(lambda: self._python().derive(data, wanted))

    @request("asking tf.saved_model.load", is_large=True)
    def call_signatures(self, folder: ModelFolder, calls: Sequence[SignatureCall]) -> Job[Served]:
        """Loads a SavedModel with tf.saved_model.load and calls its signatures; the runtime must be 'python'."""
        return Job(lambda: self._python().call_signatures(folder, calls))

    @request()
    def info(self) -> Job[Info]:
        """Returns the runtime, and TensorFlow's version."""
        runtime = self._runtime
        return Job(lambda: Info(runtime.get().name, runtime.get().version, self._not_locked_in))


def main(runtime: str | None, op_libraries: Sequence[str], opening: tuple[bool, bool], reads: Sequence[str]) -> None:
    """Runs the child until its parent closes the socket. Does not return.

    Args:
        runtime: see `open_runtime`; None for the best that is available.
        op_libraries: paths of libraries with custom ops, which are loaded with TensorFlow.
        opening: the first fields of `Opening`: the access that the process keeps.
        reads: files and folders that graphs may read.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which decides
    own = os.dup(0)  # not inheritable: a process that TensorFlow may start cannot keep the socket open
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    import faulthandler

    try:
        faulthandler.enable(file=2)  # it writes the thread that crashes into the log
    except (OSError, ValueError, RuntimeError):
        pass
    threading.stack_size(_STACK_BYTES)
    import gdsurgeon.runtime.capi  # noqa: F401  # later, its compiled form could not be stored

    left = Opening(*opening, libraries=op_libraries, reads=reads)
    if (runtime or "").startswith("openvino"):  # it only reads graphs from files
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


def open_runtime(name: str | None = None) -> Runtime:
    """Loads TensorFlow into this process: through the C API if possible, otherwise by importing its Python package.

    Args:
        name: 'capi', 'python', 'loader' (only the part of 'python' that loads SavedModels), the absolute path of a
            folder with the libraries of a release, or an engine: ``opencv``, or ``opencv:FOLDER`` if its module is
            there. By default the value of GDSURGEON_RUNTIME.

    Raises:
        TensorFlowMissing: it is not installed or cannot be loaded.
        BadRequest: the runtime is unknown.
    """
    wanted = name or os.environ.get(VARIABLE) or "auto"
    if wanted in ("python", "loader"):
        from gdsurgeon.runtime.python_tf import LoaderRuntime, PythonRuntime

        return PythonRuntime() if wanted == "python" else LoaderRuntime()
    folder = name if name and os.path.isabs(name) else ""
    if not folder and wanted not in ("auto", "capi"):
        from gdsurgeon.runtime.packages import MODULES

        engine, _, place = (name or "").partition(":")
        if engine not in MODULES:
            raise BadRequest(f"{VARIABLE} must be capi or python, not {wanted!r}", "bad-value")
        from gdsurgeon.runtime.engines import open_engine

        return open_engine(engine, place)
    from gdsurgeon.runtime.capi import open_capi
    from gdsurgeon.runtime.library import LibraryUnusable

    try:
        return open_capi(folder)
    except LibraryUnusable as error:
        if folder or wanted == "capi":
            what = "the release" if folder else "TensorFlow's C API"
            raise TensorFlowMissing(f"{what} cannot be loaded: {error}") from error
    return open_runtime("python")


def _mapped(descriptor: int) -> memoryview | bytes:
    """Returns the content of a file, writable in memory (as the C API requires) and not read before use.

    Closes `descriptor`.

    Raises:
        BadRequest: the file cannot be read.
    """
    import mmap

    try:
        if not os.fstat(descriptor).st_size:
            return b""
        return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise BadRequest(f"cannot read the file: {error.strerror or error}", "unreadable") from error
    finally:
        os.close(descriptor)


def _member(tensors: Sequence[Tensor], index: int) -> Tensor:
    if not 0 <= index < len(tensors):
        raise BadRequest(f"the result has {len(tensors)} outputs, no output {index}", "no-such-output")
    return tensors[index]


def _use_signal_stack() -> None:
    """Lets this thread report a stack overflow: a signal handler needs a stack of its own.

    Malformed graphs usually crash TensorFlow by endless recursion. faulthandler only handles the main thread.
    """
    if sys.platform != "linux":
        return
    import ctypes

    memory = ctypes.create_string_buffer(_SIGNAL_STACK_BYTES)
    _of_thread.signal_stack = memory
    stack = struct.pack("PiN", ctypes.addressof(memory), 0, _SIGNAL_STACK_BYTES)  # stack_t of Linux
    ctypes.CDLL(None).sigaltstack(stack, None)


_of_thread = threading.local()
