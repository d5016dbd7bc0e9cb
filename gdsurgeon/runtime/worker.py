"""The child process in which TensorFlow runs, so a crash or a hang does not affect the command.

Standard input is the socket to the parent; standard output and error are the file for TensorFlow's output. The process
is started by `gdsurgeon.runtime.client`.

The main thread only reads requests, so it notices the end of the parent during any work of TensorFlow. A thread for
each graph works on the requests for it in order, and a thread for each other kind of request on those. Work that needs
the result of an earlier run waits for it, so the parent may send all requests at once.

Only one large graph is in memory at a time, see `_LARGE`: requests for large graphs do not overlap, and a graph that
was replaced in memory is loaded again for its next request.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast, get_args, get_type_hints

from gdsurgeon.resources import exhausted, memory_budget
from gdsurgeon.runtime import failures
from gdsurgeon.runtime.base import (
    MAX_GRAPH_BYTES,
    MEMORY_OF_GRAPH,
    Backward,
    Derivation,
    Served,
    SessionOptions,
    SignatureCall,
    TensorSpec,
)
from gdsurgeon.runtime.compare import Comparison, Statistics, compare, statistics
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing
from gdsurgeon.runtime.protocol import (
    ANSWER,
    BEGUN,
    MOST_REASON,
    REFUSED,
    BadMessage,
    Channel,
    Info,
    OutputInfo,
    Result,
    RunSummary,
    pack,
)
from gdsurgeon.runtime.tensor import Tensor

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from gdsurgeon.runtime.base import LoadedGraph, Runtime
    from gdsurgeon.runtime.capi import CApiGraph

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., "Job[Any]"])

_LARGE = 1 << 29
"""Bytes from which a graph is large; also smaller graphs are if the memory does not suffice for two of them."""
_STACK_BYTES = 8 << 20  # of each thread, as the main thread has; on systems other than Linux the default is less
_SIGNAL_STACK_BYTES = 1 << 16
_MAPPED_ALONE = 1 << 17  # bytes of memory that get a mapping of their own, as is the default of the C library
_COLLECT_AFTER = 100_000  # objects; Python's default for a garbage collection is 700


class GraphFile:
    """A graph that the command has loaded, in a file, and in the runtime unless it is large.

    Args:
        load: loads it from the file.
        descriptor: of the file.
        is_large: whether it may be in memory only without other large graphs.

    Attributes:
        lane: works on the requests for the graph in order.
        is_stateful: whether it has a state that is lost when it is loaded again.
        loaded: the graph in the runtime, if it is there, or the reason why it does not load.
    """

    def __init__(self, load: Callable[[], LoadedGraph], descriptor: int, *, is_large: bool) -> None:
        self.load, self.descriptor, self.is_large = load, descriptor, is_large
        self.lane = new_lane()
        self.is_stateful = False
        self.loaded: LoadedGraph | TensorFlowError | None = None

    def free(self) -> None:
        """Frees its memory."""
        loaded, self.loaded = self.loaded, None
        if loaded is not None and not isinstance(loaded, TensorFlowError):
            loaded.close()

    def close(self) -> None:
        """Frees its memory, closes the file, and ends the thread."""
        self.free()
        os.close(self.descriptor)
        self.lane.shutdown(wait=False)


class Job(Generic[T]):
    """The work of a request.

    Attributes:
        work: returns the answer; its arguments are the tensors of `needs`.
        needs: earlier results that the work waits for.
        tensors: the tensors that it leaves to later requests.
        graph: the graph that the request is for, if it is for one.
    """

    def __init__(
        self,
        work: Callable[..., T],
        *needs: Future[Sequence[Tensor]],
        tensors: Sequence[Tensor] = (),
        graph: GraphFile | None = None,
    ) -> None:
        self.work, self.needs, self.tensors, self.graph = work, needs, tensors, graph


def new_lane() -> ThreadPoolExecutor:
    """Returns a thread that does its work in order."""
    from concurrent.futures import ThreadPoolExecutor  # not in the command, which would import it for nothing

    return ThreadPoolExecutor(1, initializer=_use_signal_stack)


class Request(NamedTuple):
    """A request to the worker, and the limits of its answer.

    Attributes:
        method: of `Child`. Its argument `key` names a graph, `result_id` a new result, `result` an earlier result.
        doing: the work of the child.
        items: the argument that has as many items as the answer, or ''. If there is neither, the answer has as many
            items as the earlier result.
        is_large: whether the answer may be as large as the memory of the child.
    """

    method: Callable[..., Job[Any]]
    doing: str
    items: str = ""
    is_large: bool = False


@cache
def answer_type(request: Request) -> Any:
    """Returns the type of the answer to a request."""
    return get_args(get_type_hints(request.method)["return"])[0]


REQUESTS: dict[str, Request] = {}
"""The requests that the worker accepts, by name."""


def request(doing: str, items: str = "", *, is_large: bool = False) -> Callable[[Method], Method]:
    """Declares a method of `Child` as a request, see `Request`."""

    def declare(method: Method) -> Method:
        REQUESTS[method.__name__] = Request(method, doing, items, is_large)
        return method

    return declare


class Child:
    """The state of the child. A request runs in the main thread and returns its Job."""

    def __init__(self, channel: Channel, cpu_only: bool, not_locked_in: str = "") -> None:
        self._channel = channel
        self._cpu_only = cpu_only
        self._not_locked_in = not_locked_in
        self.runtime: Runtime
        self.start: Future[None]  # ends when there is a runtime
        self._graphs: dict[str, GraphFile] = {}
        self._large: set[GraphFile] = set()
        self._turn = threading.Lock()  # of large graphs
        self._results: dict[str, Future[Sequence[Tensor]]] = {}
        self._lanes: dict[str, ThreadPoolExecutor] = defaultdict(new_lane)  # of the requests that are not for a graph

    # --- the machinery ---------------------------------------------------------------------------------

    def start_loading(self, runtime: str | None, op_libraries: Sequence[str]) -> None:
        """Begins to load TensorFlow, in a thread of its own."""
        self.start = new_lane().submit(self._load_runtime, runtime, op_libraries)

    def serve(self) -> None:
        """Accepts requests until the parent closes the socket.

        Raises:
            BadMessage: a message is not a request.
        """
        import pickle

        while True:
            try:
                number, name, size = self._channel.receive()
                data = self._channel.take(size)
            except EOFError:
                return
            if name not in REQUESTS:
                raise BadMessage(f"there is no request {name!r}")
            try:
                self._accept(number, REQUESTS[name], pickle.loads(data))
            except Exception as error:
                self._refuse(number, error)
            if self._channel.take_descriptor() is not None:
                raise BadMessage(f"a descriptor came with a request to {name}")

    def _accept(self, number: int, request: Request, arguments: Mapping[str, Any]) -> None:
        job = request.method(self, **arguments)
        lane = job.graph.lane if job.graph is not None else self._lanes[request.method.__name__]
        done = lane.submit(self._answer, number, job)
        if "result_id" in arguments:
            self._results[arguments["result_id"]] = done

    def _answer(self, number: int, job: Job[Any]) -> Sequence[Tensor]:
        """Does the work of a request and sends the answer; returns the tensors for later requests."""
        try:
            self.start.result()
            needed = [need.result() for need in job.needs]
            with self._turn if job.graph is not None and job.graph.is_large else nullcontext():
                self._channel.send(pack(number, BEGUN, threading.get_ident()))
                answer = pack(number, ANSWER, job.work(*needed))
            self._channel.send(answer)
        except BaseException as error:  # TensorFlow's Python code may also raise SystemExit
            self._refuse(number, error)
            raise
        return job.tensors

    def _refuse(self, number: int, error: BaseException) -> None:
        kind, code, reason = failures.FAILED, "failed", f"{type(error).__name__}: {error}"
        if isinstance(error, TensorFlowError):
            kind, code, reason = failures.REFUSED, error.code, error.message
        elif isinstance(error, TensorFlowMissing):
            kind, code, reason = failures.MISSING, error.code, error.reason
        elif exhausted(error):
            kind, code = failures.UNAVAILABLE, "no-tensorflow"
            reason = f"TensorFlow does not work here: {exhausted(error)}"
        else:
            import traceback

            traceback.print_exc()  # for the log
        self._channel.send(pack(number, REFUSED, [kind, code, reason[:MOST_REASON]]))

    def _load_runtime(self, name: str | None, op_libraries: Sequence[str]) -> None:
        # TensorFlow's Python package makes millions of objects that are never freed. Collecting garbage takes a fifth
        # of the time of its import, and a third of the time in which it builds a graph.
        gc.disable()
        try:
            self.runtime = open_runtime(name)
            for path in op_libraries:
                if self.runtime.load_op_library is None:
                    line = f"{path}: {self.runtime.name} cannot load TensorFlow op libraries"
                    raise TensorFlowError("unimplemented", line)
                self.runtime.load_op_library(path)
        except (TensorFlowError, TensorFlowMissing):
            raise
        except Exception as error:
            import traceback

            traceback.print_exc()
            raise TensorFlowMissing(f"TensorFlow cannot be loaded: {type(error).__name__}: {error}") from error
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER, 20, 20)
        gc.enable()

    def _graph(self, file: GraphFile) -> LoadedGraph:
        """Returns a graph; if it is large, it replaces other large graphs in memory."""
        if file.loaded is None:
            for other in list(self._large) if file.is_large else ():
                if not other.is_stateful:
                    other.free()
            try:
                file.loaded = file.load()
            except TensorFlowError as error:
                file.loaded = error  # requests that were sent after this one fail for the same reason
        if isinstance(file.loaded, TensorFlowError):
            raise file.loaded
        return file.loaded

    # --- requests --------------------------------------------------------------------------------------

    @request("loading")
    def load(self, key: str, default_device: str = "", options: SessionOptions | None = None) -> Job[None]:
        """Loads a GraphDef as `key`, from the file whose descriptor came with the request."""
        descriptor = self._channel.take_descriptor()
        assert descriptor is not None
        session = options if options is not None else SessionOptions(cpu_only=self._cpu_only)
        size, budget = os.fstat(descriptor).st_size, memory_budget()
        file = self._graphs[key] = GraphFile(
            lambda: self.runtime.load(_mapped(descriptor), default_device, session),
            descriptor,
            is_large=size >= _LARGE or 0 < budget < 2 * MEMORY_OF_GRAPH * size,
        )
        if file.is_large:
            self._large.add(file)
            _spare_memory()

        def work() -> None:
            self._graph(file)

        return Job(work, graph=file)

    @request("loading")
    def reload(self, key: str) -> Job[None]:
        """Loads the graph `key` again, which discards its state."""
        file = self._graphs[key]

        def work() -> None:
            file.free()
            file.is_stateful = False
            self._graph(file)

        return Job(work, graph=file)

    @request("unloading")
    def unload(self, key: str) -> Job[None]:
        """Frees the graph `key`, but not its results."""
        file = self._graphs.pop(key, None)

        def work() -> None:
            if file is not None:
                file.close()
                self._large.discard(file)

        return Job(work, graph=file)

    @request("inspecting", "names")
    def signature(self, key: str, names: Sequence[str]) -> Job[list[TensorSpec]]:
        """Returns DataType number and inferred shape of each of the tensors `names`."""
        file = self._graphs[key]
        return Job(lambda: list(map(cast("CApiGraph", self._graph(file)).signature, names)), graph=file)

    @request("inspecting", is_large=True)
    def signatures(self, data: bytes) -> Job[dict[str, list[TensorSpec]]]:
        """Returns DataType number and inferred shape of every output of every node; the runtime must be 'python'."""

        def work() -> dict[str, list[TensorSpec]]:
            from gdsurgeon.runtime.python_tf import signatures  # after TensorFlow, whose absence is reported first

            return signatures(data)

        return Job(work)

    @request("running", "fetches")
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
        file = self._graphs[key]
        earlier = {name: value for name, value in feeds.items() if isinstance(value, Result)}
        fetched: list[Tensor] = []

        def work(*results: list[Tensor]) -> RunSummary:
            graph = self._graph(file)
            if targets:
                file.is_stateful = True
            values = {name: value for name, value in feeds.items() if isinstance(value, Tensor)}
            for (name, value), tensors in zip(earlier.items(), results, strict=True):
                values[name] = tensors[value.index]
            start = time.perf_counter()
            found, metadata = graph.run(values, fetches, targets, trace)
            seconds = time.perf_counter() - start
            fetched.extend(found)
            return RunSummary([OutputInfo(t.dtype, t.shape, t.nbytes) for t in found], seconds, metadata)

        needs = [self._results[value.result_id] for value in earlier.values()]
        return Job(work, *needs, tensors=fetched, graph=file)

    @request("taking over tensors", "tensors")
    def put(self, result_id: str, tensors: Sequence[Tensor]) -> Job[None]:
        """Stores `tensors` as the result `result_id`, to compare and feed them like those of a run."""
        return Job(lambda: None, tensors=tensors)

    @request("handing over a result")
    def tensor(self, result: str, index: int) -> Job[Tensor]:
        """Returns the tensor that the run `result` returned for its fetch `index`."""
        return Job(lambda found: found[index], self._results[result])

    @request("comparing results", "pairs")
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
            return [compare(a[i], b[j], rtol, atol, channels) for i, j in pairs]

        return Job(work, self._results[result_a], self._results[result_b])

    @request("measuring a result")
    def statistics(self, result: str) -> Job[list[Statistics]]:
        """Returns the statistics of each tensor of `result`."""
        return Job(lambda found: list(map(statistics, found)), self._results[result])

    @request("freeing a result")
    def drop(self, result: str) -> Job[None]:
        """Frees `result`, once all earlier requests for it are answered."""
        self._results.pop(result, None)
        return Job(lambda: None)

    @request("listing devices")
    def devices(self) -> Job[list[str]]:
        """Returns the names of the devices that TensorFlow sees."""

        def work() -> list[str]:
            loaded = self.runtime.load(b"", "", SessionOptions(cpu_only=self._cpu_only))
            with closing(cast("CApiGraph", loaded)) as graph:
                return graph.devices()

        return Job(work)

    @request("making gradients", is_large=True)
    def derive(self, data: bytes, wanted: Derivation) -> Job[Backward]:
        """Makes the nodes of a backward pass, see `gdsurgeon.runtime.gradients`; the runtime must be 'python'."""

        def work() -> Backward:
            from gdsurgeon.runtime.python_tf import derive

            return derive(data, wanted)

        return Job(work)

    @request("asking tf.saved_model.load", is_large=True)
    def call_signatures(self, folder: str, tags: Sequence[str], calls: Sequence[SignatureCall]) -> Job[Served]:
        """Loads a SavedModel with tf.saved_model.load and calls its signatures; the runtime must be 'python'.

        `tags` are those of its MetaGraph; none if it has only one.
        """

        def work() -> Served:
            from gdsurgeon.runtime.python_tf import call_signatures

            return call_signatures(folder, tags, calls)

        return Job(work)

    @request("starting")
    def info(self) -> Job[Info]:
        """Returns the runtime, and TensorFlow's version."""
        return Job(lambda: Info(self.runtime.name, self.runtime.version, self._not_locked_in))


def main(runtime: str | None, op_libraries: Sequence[str], opening: tuple[bool, bool], reads: Sequence[str]) -> None:
    """Runs the child until its parent closes the socket. Does not return.

    Args:
        runtime: see `open_runtime`.
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
    from gdsurgeon.runtime.lockdown import Opening, lock_in

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
    """Loads TensorFlow, or a different engine, into this process.

    Args:
        name: None or 'capi' for TensorFlow's C API, 'python' for its Python package, the absolute path of a folder with
            the libraries of a release, or an engine: ``opencv``, or ``opencv:FOLDER`` if its module is there.

    Raises:
        TensorFlowMissing: it is not installed or cannot be loaded.
    """
    if name == "python":
        from gdsurgeon.runtime.python_tf import open_python

        return open_python()
    folder = name if name and os.path.isabs(name) else ""
    if not folder and name not in (None, "capi"):
        from gdsurgeon.runtime.engines import open_engine

        engine, _, place = name.partition(":")
        return open_engine(engine, place)
    from gdsurgeon.runtime.capi import open_capi

    return open_capi(folder)


def _mapped(descriptor: int) -> memoryview | bytes:
    """Returns the content of a file, writable in memory (as the C API requires) and not read before use."""
    import mmap

    if not os.fstat(descriptor).st_size:
        return b""
    return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))


def _spare_memory() -> None:
    """Makes the C library return freed memory to the system, rather than keep it for later as `environment` asks for.

    A graph takes a quarter less memory then, and leaves room for the next, but TensorFlow runs more slowly.
    """
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option in (-1, -2, -3):  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
            library.mallopt(option, _MAPPED_ALONE)


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
