"""The child process in which TensorFlow runs, so a crash or a hang does not affect the command.

Standard input is the socket to the parent; standard output and error are the file for TensorFlow's output. The process
is started by `gdsurgeon.runtime.client`.

The main thread works on the requests in order, so the parent may send all requests at once. A second thread only reads
them, so it notices the end of the parent during any work of TensorFlow.

Only one large graph is in memory at a time, see `_LARGE`: a graph that was replaced in memory is loaded again for its
next request.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, cast, get_type_hints

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
    MOST_REASON,
    REFUSED,
    Channel,
    Info,
    OutputInfo,
    Result,
    RunSummary,
    pack,
)
from gdsurgeon.runtime.tensor import Tensor

if TYPE_CHECKING:
    from gdsurgeon.runtime.capi import CApiGraph
    from gdsurgeon.runtime.checked import LoadedGraph, Runtime

Method = TypeVar("Method", bound=Callable[..., Any])

_LARGE = 1 << 29
"""Bytes from which a graph is large; also smaller graphs are if the memory does not suffice for two of them."""
_MAPPED_ALONE = 1 << 17  # bytes of memory that get a mapping of their own, as is the default of the C library
_COLLECT_AFTER = 100_000  # objects; Python's default for a garbage collection is 700


class GraphFile:
    """A graph that the command has loaded, in a file, and in the runtime unless it is large.

    Attributes:
        descriptor: of the file.
        load: loads it from the file.
        is_large: whether it may be in memory only without other large graphs.
        is_stateful: whether it has a state that is lost when it is loaded again.
        loaded: the graph in the runtime, if it is there, or the reason why it does not load.
    """

    def __init__(self, descriptor: int, load: Callable[[], LoadedGraph], *, is_large: bool) -> None:
        self.descriptor, self.load, self.is_large = descriptor, load, is_large
        self.is_stateful = False
        self.loaded: LoadedGraph | TensorFlowError | None = None

    def free(self) -> None:
        """Frees its memory."""
        loaded, self.loaded = self.loaded, None
        if loaded is not None and not isinstance(loaded, TensorFlowError):
            loaded.close()


class Request(NamedTuple):
    """A request to the worker, and the limits of its answer.

    Attributes:
        method: of `Child`, which returns the answer. Its argument `key` names a graph, `result_id` a new result,
            `result` an earlier result.
        doing: the work of the child.
        items: the argument that has as many items as the answer, or ''. If there is neither, the answer has as many
            items as the earlier result.
        is_large: whether the answer may be as large as the memory of the child.
    """

    method: Callable[..., Any]
    doing: str
    items: str = ""
    is_large: bool = False


@cache
def answer_type(request: Request) -> Any:
    """Returns the type of the answer to a request."""
    return get_type_hints(request.method)["return"]


REQUESTS: dict[str, Request] = {}
"""The requests that the worker accepts, by name."""


def request(doing: str, items: str = "", *, is_large: bool = False) -> Callable[[Method], Method]:
    """Declares a method of `Child` as a request, see `Request`."""

    def declare(method: Method) -> Method:
        REQUESTS[method.__name__] = Request(method, doing, items, is_large)
        return method

    return declare


STARTING = "starting"
"""The work of the process before it has loaded TensorFlow."""


class Child:
    """The state of the child, and its requests."""

    def __init__(self, channel: Channel, cpu_only: bool, not_locked_in: str = "") -> None:
        self._channel = channel
        self._cpu_only = cpu_only
        self._not_locked_in = not_locked_in
        self.runtime: Runtime
        self._failure: Exception | None = None  # to load TensorFlow
        self._graphs: dict[str, GraphFile] = {}
        self._results: dict[str, Sequence[Tensor] | Exception] = {}
        self._requests: queue.SimpleQueue[tuple[Request, memoryview, int | None]] = queue.SimpleQueue()

    # --- the machinery ---------------------------------------------------------------------------------

    def read(self) -> NoReturn:
        """Reads requests until the parent closes the socket, which raises EOFError."""
        while True:
            name, size = self._channel.receive()
            data = self._channel.take(size)
            self._requests.put((REQUESTS[name], data, self._channel.take_descriptor()))

    def work(self, runtime: str | None, op_libraries: Sequence[str]) -> NoReturn:
        """Loads TensorFlow, and works on the requests in order."""
        self._load_runtime(runtime, op_libraries)
        while True:
            self._answer(*self._requests.get())

    def _answer(self, request: Request, data: memoryview, descriptor: int | None) -> None:
        import pickle

        arguments = pickle.loads(data) | ({} if descriptor is None else {"descriptor": descriptor})
        try:
            if self._failure is not None:
                raise self._failure
            answer = pack(ANSWER, request.method(self, **arguments))
        except Exception as error:
            if "result_id" in arguments:
                self._results[arguments["result_id"]] = error
            answer = pack(REFUSED, _refusal(error))
        self._channel.send(answer)

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
        except (TensorFlowError, TensorFlowMissing) as error:
            self._failure = error
        except Exception as error:
            traceback.print_exc()
            self._failure = TensorFlowMissing(f"TensorFlow cannot be loaded: {type(error).__name__}: {error}")
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER, 20, 20)
        gc.enable()

    def _graph(self, key: str) -> LoadedGraph:
        """Returns a graph; if it is large, it replaces other large graphs in memory."""
        file = self._graphs[key]
        if file.loaded is None:
            for other in list(self._graphs.values()) if file.is_large else ():
                if other.is_large and not other.is_stateful:
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
    def load(
        self, key: str, default_device: str = "", options: SessionOptions | None = None, descriptor: int = -1
    ) -> None:
        """Loads a GraphDef as `key`, from the file whose `descriptor` came with the request."""
        self.unload(key)
        session = options if options is not None else SessionOptions(cpu_only=self._cpu_only)
        size, budget = os.fstat(descriptor).st_size, memory_budget()
        file = self._graphs[key] = GraphFile(
            descriptor,
            lambda: self.runtime.load(_mapped(descriptor), default_device, session),
            is_large=size >= _LARGE or 0 < budget < 2 * MEMORY_OF_GRAPH * size,
        )
        if file.is_large:
            _spare_memory()
        self._graph(key)

    @request("loading")
    def reload(self, key: str) -> None:
        """Loads the graph `key` again, which discards its state."""
        file = self._graphs[key]
        file.free()
        file.is_stateful = False
        self._graph(key)

    @request("unloading")
    def unload(self, key: str) -> None:
        """Frees the graph `key`, but not its results."""
        file = self._graphs.pop(key, None)
        if file is not None:
            file.free()
            os.close(file.descriptor)

    @request("inspecting", "names")
    def signature(self, key: str, names: Sequence[str]) -> list[TensorSpec]:
        """Returns DataType number and inferred shape of each of the tensors `names`."""
        return list(map(cast("CApiGraph", self._graph(key)).signature, names))

    @request("inspecting", is_large=True)
    def signatures(self, data: bytes) -> dict[str, list[TensorSpec]]:
        """Returns DataType number and inferred shape of every output of every node; the runtime must be 'python'."""
        from gdsurgeon.runtime.python_tf import signatures  # after TensorFlow was imported

        return signatures(data)

    @request("running", "fetches")
    def run(
        self,
        key: str,
        result_id: str,
        feeds: Mapping[str, Tensor | Result],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
        trace: bool = False,
    ) -> RunSummary:
        """Runs the graph `key`. The fetched tensors stay in the child under the name `result_id`.

        Args:
            key: a graph that was loaded.
            result_id: names the tensors from now on; an earlier result of that name is dropped.
            feeds: values by tensor name; a Result refers to a tensor in the child.
            fetches: tensor names ('node' or 'node:1').
            targets: nodes to run without fetching a result.
            trace: record a full trace (RunMetadata).
        """
        graph = self._graph(key)
        if targets:
            self._graphs[key].is_stateful = True
        values = {
            name: self._result(value.result_id)[value.index] if isinstance(value, Result) else value
            for name, value in feeds.items()
        }
        start = time.perf_counter()
        found, metadata = graph.run(values, fetches, targets, trace)
        seconds = time.perf_counter() - start
        self._results[result_id] = found
        return RunSummary([OutputInfo(t.dtype, t.shape, t.nbytes) for t in found], seconds, metadata)

    @request("taking over tensors", "tensors")
    def put(self, result_id: str, tensors: Sequence[Tensor]) -> None:
        """Stores `tensors` as the result `result_id`, to compare and feed them like those of a run."""
        self._results[result_id] = tensors

    def _result(self, name: str) -> Sequence[Tensor]:
        """Returns the tensors of a result. Raises the error of a run that failed."""
        found = self._results[name]
        if isinstance(found, Exception):
            raise found
        return found

    @request("handing over a result")
    def tensor(self, result: str, index: int) -> Tensor:
        """Returns the tensor that the run `result` returned for its fetch `index`."""
        return self._result(result)[index]

    @request("comparing results", "pairs")
    def compare(
        self,
        result_a: str,
        result_b: str,
        pairs: Sequence[tuple[int, int]],
        rtol: float = 0.0,
        atol: float = 0.0,
        channels: int | None = None,
    ) -> list[Comparison]:
        """Compares fetches of two runs, by pairs of their indices; see `gdsurgeon.runtime.compare.compare`."""
        a, b = self._result(result_a), self._result(result_b)
        return [compare(a[i], b[j], rtol, atol, channels) for i, j in pairs]

    @request("measuring a result")
    def statistics(self, result: str) -> list[Statistics]:
        """Returns the statistics of each tensor of `result`."""
        return list(map(statistics, self._result(result)))

    @request("freeing a result")
    def drop(self, result: str) -> None:
        """Frees `result`."""
        self._results.pop(result, None)

    @request("listing devices")
    def devices(self) -> list[str]:
        """Returns the names of the devices that TensorFlow sees."""
        graph = cast("CApiGraph", self.runtime.load(b"", "", SessionOptions(cpu_only=self._cpu_only)))
        try:
            return graph.devices()
        finally:
            graph.close()

    @request("making gradients", is_large=True)
    def derive(self, data: bytes, wanted: Derivation) -> Backward:
        """Makes the nodes of a backward pass, see `gdsurgeon.runtime.gradients`; the runtime must be 'python'."""
        from gdsurgeon.runtime.python_tf import derive

        return derive(data, wanted)

    @request("asking tf.saved_model.load", is_large=True)
    def call_signatures(self, folder: str, tags: Sequence[str], calls: Sequence[SignatureCall]) -> Served:
        """Loads a SavedModel with tf.saved_model.load and calls its signatures; the runtime must be 'python'.

        `tags` are those of its MetaGraph; none if it has only one.
        """
        from gdsurgeon.runtime.python_tf import call_signatures

        return call_signatures(folder, tags, calls)

    @request(STARTING)
    def info(self) -> Info:
        """Returns the runtime, and TensorFlow's version."""
        return Info(self.runtime.name, self.runtime.version, self._not_locked_in)


def _refusal(error: Exception) -> list[str]:
    """Returns the kind, the code and the reason of a `Failure`."""
    kind, code, reason = failures.FAILED, "failed", f"{type(error).__name__}: {error}"
    if isinstance(error, TensorFlowError):
        kind, code, reason = failures.REFUSED, error.code, error.message
    elif isinstance(error, TensorFlowMissing):
        kind, code, reason = failures.MISSING, error.code, error.reason
    elif exhausted(error):
        kind, code = failures.UNAVAILABLE, "no-tensorflow"
        reason = f"TensorFlow does not work here: {exhausted(error)}"
    else:
        traceback.print_exception(error)  # for the log
    return [kind, code, reason[:MOST_REASON]]


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
    import gdsurgeon.runtime.capi  # noqa: F401  # later, its compiled form could not be stored
    from gdsurgeon.runtime.lockdown import Opening, lock_in

    left = Opening(*opening, libraries=op_libraries, reads=reads)
    if (runtime or "").startswith("openvino"):  # it only reads graphs from files
        left = left._replace(unnamed_bytes=2 * MAX_GRAPH_BYTES)
    missing = lock_in(left)
    for reason in missing:
        print(f"not locked in: {reason}", file=sys.stderr)
    child = Child(Channel(socket.socket(fileno=own), most_descriptors=1), not left.accelerators, "; ".join(missing))
    threading.Thread(target=_to_the_end, args=(child.read,), daemon=True).start()
    _to_the_end(lambda: child.work(runtime, op_libraries))


def _to_the_end(body: Callable[[], NoReturn]) -> NoReturn:
    """Runs `body` until an exception, which ends the process; the parent has closed the socket if it is EOFError.

    The process waits neither for TensorFlow's threads, which may still be at work, nor for destructors.
    """
    try:
        body()
    except EOFError:
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


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
    """Returns the content of a file, writable in memory (as the C API requires) and not read before use.

    Raises:
        OSError: the file cannot be read.
    """
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
