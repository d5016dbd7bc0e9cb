"""Runs graphs in the worker process, and reports its failures.

The process takes longest to start. Modules that are not needed to start it are therefore imported later.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from gdsurgeon.errors import Line, NotValidatedError, UsageError, ValidationError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.change import with_restoring
from gdsurgeon.proof.settings import Progress, Settings, is_cpu, silent
from gdsurgeon.resources import MEMORY
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.client import Pending, Worker
from gdsurgeon.runtime.failures import TensorFlowError, for_user
from gdsurgeon.runtime.protocol import Result, RunSummary
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.values import EXACT, Closing, Tolerance

if TYPE_CHECKING:
    from gdsurgeon.proof.plan import Obstacle
    from gdsurgeon.runtime.compare import Comparison
    from gdsurgeon.runtime.evaluator import Evaluator


P = ParamSpec("P")
T = TypeVar("T")

ORIGINAL, EDITED = "original", "edited"
"""The names of the two graphs in the executor and in messages, and of their runs in a trial."""
DO_WITHOUT = "do-without-running"
"""The code of the advice to leave out the run."""

Refused = TensorFlowError
"""TensorFlow refuses a graph or a run."""


def _answer(method: Callable[Concatenate[Worker, P], Pending[T]]) -> Callable[Concatenate[Executor, P], T]:
    """Returns the method of `Executor` that sends a request and waits for its answer."""

    def ask(self: Executor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.wait(method(self._worker, *args, **kwargs))

    ask.__doc__ = method.__doc__
    return ask


class Executor(Closing):
    """A worker process and the graphs in it. The start does not block: TensorFlow loads in the other process.

    Failures of the process (a crash, no answer, no TensorFlow) are raised as errors for users. If TensorFlow refuses a
    graph or run, `Refused` is raised, and the caller decides what that means.
    """

    def __init__(self, settings: Settings, progress: Progress = silent) -> None:
        self.settings = settings
        self.shapes: dict[str, dict[str, tuple[int, ...]]] = {}  # shapes of the last feeds, by key
        self.progress = progress
        self.called: dict[str, str] = {}
        self._make_worker()

    def _make_worker(self) -> None:
        settings = self.settings
        self._worker = Worker(
            settings.device,
            settings.op_libraries,
            settings.release or None,
            verbose=settings.verbose,
            allow_ops=settings.allow_ops,
            reads=settings.reads,
            onednn=settings.onednn,
        )
        self._worker.called = self.called
        self._loads: dict[str, Pending[None]] = {}
        self._barred: dict[str, Obstacle] = {}
        self._initialized: dict[str, set[str]] = {}

    def start(self) -> Executor:
        """Starts the process.

        Raises:
            UsageError: GDSURGEON_MEMORY has an invalid value.
        """
        memory = os.environ.get(MEMORY, "")
        if memory and not (memory.isascii() and memory.isdigit()):
            raise UsageError(f"{MEMORY} must be a number of MiB, not {quoted(memory)}", code="bad-value", option=MEMORY)
        self._worker.start()
        return self

    def restart(self, *reads: str) -> None:
        """Replaces the process by one that may also read the files `reads`, and has no graphs."""
        self._worker.close()
        self.settings = self.settings.reading(reads)
        self._make_worker()
        self.start()

    def __enter__(self) -> Executor:
        return self.start()

    def close(self) -> None:
        """Ends the process immediately."""
        self._worker.close()

    def lend(self, evaluator: Evaluator) -> None:
        """Makes `evaluator` use this process."""
        evaluator.borrow(self._worker)

    # -- graphs --------------------------------------------------------------------------------------------

    def load_graph(self, key: str, graph: Graph, *, device: str | None = None, optimize: bool = False) -> None:
        """Begins to load `graph` in its current state, from its file if it is unchanged; see `with_restoring`.

        `device` is by default that of the settings. With `optimize`, TensorFlow optimizes the graph (Grappler) as in
        deployment; otherwise it runs the graph as written.
        """
        if self.is_barred(key, graph):
            return
        # Not its path, which may name a different file by now.
        opened = graph.source.fileno() if not graph.is_changed else None
        self.load(key, with_restoring(graph) if opened is None else opened, device=device, optimize=optimize)

    def load(self, key: str, source: str | int | bytes, *, device: str | None = None, optimize: bool = False) -> None:
        """Begins to load the GraphDef in `source`, a file, its descriptor, or bytes; see `load_graph`."""
        if key in self._barred:
            return
        device = self.settings.device if device is None else device
        self._initialized.pop(key, None)
        self._loads[key] = self._worker.load(
            key,
            source,
            default_device=device if device.startswith("/") else "",
            options=SessionOptions(optimize=optimize, cpu_only=is_cpu(device)),
        )

    def load_again(self, key: str) -> None:
        """Begins to load the graph `key` again, which discards its state."""
        self._initialized.pop(key, None)
        if key in self._loads and key not in self._barred:
            self._loads[key] = self._worker.reload(key)

    def is_barred(self, key: str, graph: Graph) -> bool:
        """Returns whether a graph must not be loaded, because TensorFlow may run a node that accesses outside
        resources.

        Then nothing is loaded as `key`, and `loaded` raises the reason.
        """
        self._barred.pop(key, None)
        if not self.settings.allow_ops:
            from gdsurgeon.proof.plan import why_not_loaded

            obstacle = why_not_loaded(graph)
            if obstacle is not None:
                self._barred[key] = obstacle
        return key in self._barred

    def loaded(self, key: str) -> None:
        """Waits until the graph `key` is loaded.

        Raises:
            Refused: TensorFlow refuses the graph.
            NotValidatedError: the graph was not loaded, see `is_barred`.
        """
        if key in self._barred:
            reason, advice = self._barred[key][:2]
            name = printable(self.called.get(key, key))
            line = Line("loading {graph} may already run nodes: {reason}", graph=name, reason=reason)
            raise NotValidatedError(line, code="reaches-outside", advice=(advice, "do-without-running"))
        self.wait(self._loads[key])

    def unload(self, key: str) -> None:
        """Frees the memory of the graph."""
        self._worker.unload(key)

    signature = _answer(Worker.signature)

    # -- running -------------------------------------------------------------------------------------------

    def begin(
        self,
        key: str,
        result: str,
        feeds: Mapping[str, Tensor | Result],
        fetches: Sequence[str],
    ) -> Pending[RunSummary]:
        """Begins a run; the fetched tensors stay in the process as `result`."""
        self.shapes[key] = {name: value.shape for name, value in feeds.items() if isinstance(value, Tensor)}
        return self._worker.run(key, result, feeds, fetches)

    run = _answer(Worker.run)
    put = _answer(Worker.put)
    tensor = _answer(Worker.tensor)
    statistics = _answer(Worker.statistics)

    def initialize(
        self, key: str, targets: Sequence[str], feeds: Mapping[str, Tensor | Result] = MappingProxyType({})
    ) -> None:
        """Runs nodes such as table initializers, each once for a loaded graph. Raises Refused."""
        done = self._initialized.setdefault(key, set())
        new = [target for target in targets if target not in done]
        if new:
            self.wait(self._worker.run(key, f"{key} initialised", dict(feeds), [], new))
            done.update(new)

    def fetched(self, value: Tensor | Result) -> Tensor:
        """Returns a value, and fetches it from the process if necessary."""
        return self.tensor(value.result_id, value.index) if isinstance(value, Result) else value

    def compare(
        self,
        a: str,
        b: str,
        pairs: Sequence[tuple[int, int]],
        tolerance: Tolerance = EXACT,
        *,
        channels: int | None = None,
    ) -> list[Comparison]:
        """Returns the comparisons of pairs of tensors of two results, by their indices."""
        rtol, atol, _ = tolerance
        return self.wait(self._worker.compare(a, b, pairs, rtol=rtol, atol=atol, channels=channels))

    def drop(self, result: str) -> None:
        """Frees the tensors of a result."""
        self._worker.drop(result)

    # -- devices -------------------------------------------------------------------------------------------

    def check_device(self, device: str | None = None) -> str:
        """Returns the device of the graphs in a word for the report; `device` is by default that of the settings.

        Raises:
            NotValidatedError: TensorFlow does not find the requested device.
        """
        device = self.settings.device if device is None else device
        if device == "cpu":
            return "CPU"
        names = [name.rpartition("device:")[2] for name in self.wait(self._worker.devices())]
        wanted = device.rpartition("device:")[2].upper()
        for name in names:
            if name.upper().startswith(wanted if ":" in wanted else f"{wanted}:"):
                return name
        raise NotValidatedError(
            f"TensorFlow finds no {wanted} on this machine, only {', '.join(names)}",
            code="no-device",
            device=wanted,
            advice="on-the-cpu",
        )

    def version(self) -> str:
        """Returns TensorFlow's version and interface, and whether its process is not isolated."""
        info = self.info()
        text = f"TensorFlow {info.version} ({'C API' if info.runtime == 'capi' else info.runtime})"
        return f"{text}, without a sandbox" if info.not_locked_in else text

    info = _answer(Worker.info)

    def wait(self, pending: Pending[T]) -> T:
        """Returns the answer of the process. Raises Refused."""
        try:
            return pending.result(self.settings.timeout)
        except TensorFlowError as error:
            raise for_user(error, self.settings.op_libraries) from error


def await_loaded(executor: Executor, key: str, called: str) -> None:
    """Waits until the graph `key` is loaded; `called` is its name in messages.

    Raises:
        ValidationError: TensorFlow refuses the graph.
        NotValidatedError: this TensorFlow lacks an op.
    """
    try:
        executor.loaded(key)
    except Refused as refused:
        if "Op type not registered" in refused.text:
            raise NotValidatedError(
                f"this version of TensorFlow cannot run the graph: {printable(refused.text)}",
                code="does-not-load",
                advice=("custom-ops", "structure-only"),
            ) from refused
        # If the result does not load, it does not help to leave out the run.
        raise ValidationError(
            f"TensorFlow does not load {called}: {printable(refused.text)}",
            code="does-not-load",
            advice=() if key == EDITED else DO_WITHOUT,
        ) from refused
