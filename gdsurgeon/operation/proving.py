"""The proof in the course of an operation: TensorFlow starts early, so that it loads while the graph is edited.

And while the modules are loaded by which the edit is proven: here is imported what starts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from gdsurgeon.errors import GdsurgeonError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.change import Step, with_restoring
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.settings import Event, Progress, Settings, silent
from gdsurgeon.values import Closing
from gdsurgeon.wire.write import Chunk, read_chunks

if TYPE_CHECKING:
    from gdsurgeon.proof.elsewhere import Released
    from gdsurgeon.proof.served import Folders, Loader
    from gdsurgeon.runtime.evaluator import Evaluator


_MOST_FEEDS = 3
"""How many feeds are tried that tf.saved_model.load refuses for the original as well."""
_NEXT_SEED = 1_000_003
"""The step between their seeds."""


class Proving(Closing):
    """A worker process for one operation, as a context manager.

    Args:
        settings: how to run.
        overrides: what the user says of feeds.
        level: ``load`` or ``run``.
        progress: called with every step.
    """

    def __init__(self, settings: Settings, overrides: Overrides, level: str, progress: Progress = silent) -> None:
        self._executor = Executor(settings)
        self._executor.progress = progress
        self._overrides = overrides
        self._level = level
        self._original: Callable[[Executor], None] | None = None
        self._loader: Loader | None = None

    def __enter__(self) -> Proving:
        self._executor.start()
        return self

    def close(self) -> None:
        """Ends the processes."""
        if self._loader is not None:
            self._loader.close()
        self._executor.close()

    def begin(self, graph: Graph) -> None:
        """Has the original loaded, before GRAPH is edited."""
        if self._level == "run":
            from gdsurgeon.proof.trial import ORIGINAL

            self._begin(lambda executor: executor.load_source(ORIGINAL, graph))

    def lend(self, evaluator: Evaluator) -> None:
        """Has EVALUATOR ask the process that proves, for as long as that lives."""
        self._executor.lend(evaluator)

    def begin_mended(self, graph: Graph) -> None:
        """Has GRAPH, the original with its small faults mended, loaded in the original's place."""
        if self._level == "run":
            from gdsurgeon.proof.trial import ORIGINAL

            data = with_restoring(graph, read_chunks(graph.chunks()))
            self._begin(lambda executor: executor.load_bytes(ORIGINAL, data))

    def _begin(self, load: Callable[[Executor], None]) -> None:
        self._original = load
        load(self._executor)

    def begin_again(self, folder: str) -> None:
        """Has the original loaded by another process, which may read FOLDER besides."""
        before = self._executor
        before.close()
        self._executor = Executor(before.settings._replace(reads=(*before.settings.reads, folder)))
        self._executor.progress = before.progress
        self._executor.start()
        if self._original is not None:
            self._original(self._executor)

    def prove(
        self, steps: Sequence[Step], chunks: Sequence[Chunk], edited: str | bytes, *, each: bool = False
    ) -> Proof:
        """Proves what was edited, and has every difference that the last edit makes accounted for.

        Args:
            steps: the edits, in order; those before the last are accounted for.
            chunks: the graph after the last.
            edited: the path of the staged file, or the bytes of a graph that is staged as text.
            each: prove one edit after the other; else as few times as can be.

        Raises:
            ValidationError, NotValidatedError, UsageError: see `prove` and `prove_loads`.
        """
        self._executor.progress(Event("proving"))
        fault = cache(partial(_unaccounted, steps[-1], chunks))
        try:
            proof = self._run(steps, edited, fault, each=each)
        except ValidationError:
            raise
        except GdsurgeonError:
            if (found := fault()) is not None:  # that it could not be run may be the edit's doing
                raise found from None
            raise
        if (found := fault()) is not None:
            raise found
        return proof

    def check_served(self, graph: Graph, folders: Folders, keys: Sequence[str]) -> str:
        """What tf.saved_model.load makes of the edited model; see `gdsurgeon.proof.served.check_served`."""
        from gdsurgeon.proof.served import check_served, served_by_objects

        keys = keys if self._level == "run" else ()
        if not graph.is_changed and (shown := served_by_objects(self._executor, graph, self._overrides, folders, keys)):
            return shown
        from gdsurgeon.proof.served import RefusedBefore

        assert self._loader is not None
        settings = self._executor.settings
        seeds = [settings.seed + attempt * _NEXT_SEED for attempt in range(_MOST_FEEDS)]
        try:
            for seed in seeds:
                self._executor.settings = settings._replace(seed=seed)
                try:
                    return check_served(self._executor, graph, self._overrides, folders, keys, self._loader)
                except RefusedBefore:
                    if seed == seeds[-1]:
                        raise
        finally:
            self._executor.settings = settings
        raise AssertionError  # the last seed returns or raises

    def begin_serving(self, graph: Graph, folders: Folders) -> None:
        """Starts the process that `check_served` asks about GRAPH, so that its import runs during the proof."""
        from gdsurgeon.proof.served import ComparingLoader

        self._loader = ComparingLoader(self._executor.settings, folders, graph)
        if graph.is_changed:
            self._loader.start()

    def check_released(self, graph: Graph, edited: str | bytes, path: str) -> Released:
        """What another release makes of the edited GRAPH; see `gdsurgeon.proof.elsewhere.check_released`.

        EDITED is as in `prove`, PATH a wheel or a folder of the release.
        """
        from gdsurgeon.proof.elsewhere import check_released
        from gdsurgeon.proof.trial import EDITED

        def load(executor: Executor) -> None:
            if isinstance(edited, bytes):
                executor.load_bytes(EDITED, with_restoring(graph, edited))
            else:
                executor.load_file(EDITED, edited)

        runs = self._level == "run"
        return check_released(self._executor, graph, self._overrides, path, load, runs=runs)

    def _run(self, steps: Sequence[Step], edited: str | bytes, meanwhile: Callable[[], object], *, each: bool) -> Proof:
        """Runs what was edited; see `prove_pieces`."""
        from gdsurgeon.feeds.given import as_meant
        from gdsurgeon.proof.pieces import prove_pieces
        from gdsurgeon.proof.prove import prove_loads
        from gdsurgeon.proof.trial import EDITED

        def load_last() -> None:
            graph = steps[-1].after
            self._executor.is_barred(EDITED, graph)
            if isinstance(edited, bytes):
                self._executor.load_bytes(EDITED, with_restoring(graph, edited))
            else:
                self._executor.load_file(EDITED, edited)

        if self._level == "load":
            load_last()
            meanwhile()
            return prove_loads(self._executor)
        overrides = as_meant(self._overrides, steps[0].before)
        return prove_pieces(self._executor, steps, load_last, overrides, each=each, meanwhile=meanwhile)


def _unaccounted(last: Step, chunks: Sequence[Chunk]) -> GdsurgeonError | None:
    """What is wrong with the differences that the LAST edit makes, which is written as CHUNKS; None: nothing."""
    from gdsurgeon.proof.accounting import check_accounted

    try:
        check_accounted(last.after, last.result, chunks)
    except GdsurgeonError as error:
        error.place_at(last.called)
        return error
    return None
