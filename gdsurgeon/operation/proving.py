"""The proof during an operation. TensorFlow starts first, so it loads while the graph is edited."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from gdsurgeon.errors import GdsurgeonError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.change import Step, with_restoring
from gdsurgeon.proof.executor import EDITED, ORIGINAL, Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.settings import Event, Progress, Settings
from gdsurgeon.values import Closing
from gdsurgeon.wire.write import Chunk, read_chunks

if TYPE_CHECKING:
    from gdsurgeon.proof.served import Folders, Loader

_MOST_FEEDS = 3
"""The number of feeds to try if tf.saved_model.load refuses them for the original as well."""
_NEXT_SEED = 1_000_003
"""The difference between the seeds of two such feeds."""


class Proving(Closing):
    """A worker process for one operation, as a context manager.

    Args:
        settings: how to run.
        overrides: the user's feeds.
        level: ``load`` or ``run``.
        progress: called with every step.

    Attributes:
        executor: the process.
    """

    def __init__(self, settings: Settings, overrides: Overrides, level: str, progress: Progress) -> None:
        self.executor = Executor(settings, progress)
        self._overrides = overrides
        self._level = level
        self._original: Graph | None = None
        self._loader: Loader | None = None

    def __enter__(self) -> Proving:
        self.executor.start()
        return self

    def close(self) -> None:
        """Ends the processes."""
        if self._loader is not None:
            self._loader.close()
        self.executor.close()

    def begin(self, graph: Graph, *, repaired: bool = False) -> None:
        """Begins to load the original, before `graph` is edited: its file, or the graph if that was repaired."""
        if self._level != "run":
            return
        self._original = graph.copy() if repaired else graph.pristine()
        self.executor.load_graph(ORIGINAL, self._original)

    def restart(self, folder: str) -> None:
        """Replaces the process by one that may also read `folder`, and begins to load the original."""
        self.executor.restart(folder)
        if self._original is not None:
            self.executor.load_graph(ORIGINAL, self._original)

    def prove(self, steps: Sequence[Step], chunks: Sequence[Chunk], path: str = "", *, each: bool = False) -> Proof:
        """Proves the edits, and compares the differences of the last edit with its intent and the request.

        Args:
            steps: the edits, in order; earlier differences were compared already.
            chunks: the graph after the last edit.
            path: of the file that contains only `chunks`; '' without such a file.
            each: prove each edit separately; otherwise together if possible.

        Raises:
            ValidationError, NotValidatedError, UsageError: see `prove_pieces` and `prove_loads`.
        """
        from gdsurgeon.feeds.given import as_meant
        from gdsurgeon.proof.accounting import check_accounted
        from gdsurgeon.proof.pieces import prove_pieces
        from gdsurgeon.proof.prove import prove_loads

        self.executor.progress(Event("proving"))
        last = steps[-1]
        self._edited = last.after, path or read_chunks(chunks)
        load = partial(self._load_edited, self.executor)

        @cache
        def fault() -> GdsurgeonError | None:
            """Returns the error for undeclared or unrequested differences of the last edit; or None."""
            try:
                check_accounted(last.after, last.result, chunks)
            except GdsurgeonError as error:
                error.place_at(last.called)
                return error
            return None

        try:
            if self._level == "load":
                load()
                fault()
                proof = prove_loads(self.executor)
            else:
                overrides = as_meant(self._overrides, steps[0].before)
                proof = prove_pieces(self.executor, steps, load, overrides, each=each, meanwhile=fault)
        except GdsurgeonError as error:
            if isinstance(error, ValidationError) or (found := fault()) is None:
                raise
            raise found from None  # the edit may be the reason why it could not run
        if (found := fault()) is not None:
            raise found
        return proof

    def begin_serving(self, folders: Folders) -> None:
        """Starts the process that `check_served` uses, so that its import runs during the proof."""
        from gdsurgeon.proof.served import Loader

        self._loader = Loader(self.executor.settings, folders)
        self._loader.start()

    def check_served(self, keys: Sequence[str]) -> str:
        """Returns the result of tf.saved_model.load for the proven model; see `gdsurgeon.proof.served.check_served`.

        Returns "was not used" if `begin_serving` was not called.
        """
        from gdsurgeon.proof.served import RefusedBefore, check_served

        executor, loader, graph, overrides = self.executor, self._loader, self._edited[0], self._overrides
        if loader is None:
            return "was not used"
        keys = keys if self._level == "run" else ()
        settings = executor.settings
        for attempt in range(_MOST_FEEDS):
            executor.settings = settings._replace(seed=settings.seed + attempt * _NEXT_SEED)
            try:
                return check_served(executor, graph, overrides, keys, loader)
            except RefusedBefore:
                if attempt == _MOST_FEEDS - 1:
                    raise
            finally:
                executor.settings = settings
        raise AssertionError  # the last attempt returns or raises

    def check_released(self, path: str) -> tuple[str, str]:
        """Returns the version of a different release, and its result for the proven graph; see
        `elsewhere.check_released`.

        `path` is a wheel or a folder of the release.
        """
        from gdsurgeon.proof.elsewhere import check_released

        graph, runs = self._edited[0], self._level == "run"
        return check_released(self.executor, graph, self._overrides, path, self._load_edited, runs=runs)

    def _load_edited(self, executor: Executor) -> None:
        graph, edited = self._edited
        executor.is_barred(EDITED, graph)
        if isinstance(edited, bytes):
            executor.load(EDITED, with_restoring(graph, edited))
        else:
            executor.load(EDITED, edited)
