"""Tests whether ``tf.saved_model.load`` serves the values of the graph; it runs functions of the model's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape
from gdsurgeon.container.load import open_model
from gdsurgeon.container.wanted import Wanted
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.objects import NotReadable, by_objects
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import difference
from gdsurgeon.proof.settings import Event, Settings
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import EDITED, nodes_of
from gdsurgeon.runtime.base import ModelFolder, Served, SignatureCall
from gdsurgeon.runtime.base import Served as Answers
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.text import named
from gdsurgeon.values import Closing

RTOL, ATOL = 1e-4, 1e-5
"""By how much floats may differ: functions are compiled and placed separately."""
LOADER = "tf.saved_model.load"


class Folders(NamedTuple):
    """The folder of the original model ('' if it is not a SavedModel), the staged folder, and the tags of the graph."""

    before: str
    after: str
    tags: tuple[str, ...] = ()


def check_served(
    executor: Executor, graph: Graph, overrides: Overrides, folders: Folders, keys: Sequence[str], loader: Loader
) -> str:
    """Serves the signatures `keys` of an edited model with tf.saved_model.load, and compares with the values of its
    graph.

    Args:
        executor: has loaded `graph` as the edited graph.
        graph: the edited graph.
        overrides: the user's feeds.
        folders: of the model.
        keys: of signatures whose functions changed; empty: the model must only load.
        loader: of these folders.

    Returns:
        The result in words.

    Raises:
        ValidationError: the model does not load, does not run, or returns other values.
    """
    executor.progress(Event("proving"))
    ask = loader.ask
    runs, not_run = _runs(executor, graph, overrides, keys)
    # A call can change state for the next call, so each starts from the loaded model.
    rounds = [[run] for run in runs] if any(run.keeps_state for run in runs) else [runs]
    for together in rounds or [[]]:
        answers = ask(folders.after, [run.call for run in together])
        if answers.not_loaded:
            if not folders.before or not ask(folders.before, []).not_loaded:
                text = f"{answers.loader} does not load the result: {printable(answers.not_loaded)}"
                raise ValidationError(text, code="does-not-load")
            return f"does not load even the original model: {printable(answers.not_loaded)}"
        if answers.refused:
            key = together[len(answers.outputs)].call.key
            raise ValidationError(
                f"{LOADER} does not run the signature {quoted(key)}: {printable(answers.refused)}",
                code="does-not-run",
                facts={"signature": key},
            )
        for run, outputs in zip(together, answers.outputs, strict=True):
            _compare(executor, run, outputs)
    chance = [run.call.key for run in runs if run.is_random]
    but = f", except random results of {named(chance, 3)}" if chance else ""
    text = f"returns the same for {named([run.call.key for run in runs], 3)}{but}" if runs else "loads it"
    return text + "".join(f"; {printable(key)} was not run: {printable(why)}" for key, why in not_run.items())


def served_by_objects(
    executor: Executor, graph: Graph, overrides: Overrides, folders: Folders, keys: Sequence[str]
) -> str:
    """Runs the functions that the objects of a staged model name for the signatures `keys`, next to its graph.

    `check_served` shows more, but needs TensorFlow's Python package, whose import takes most of its time. This is
    enough if
    only signatures changed.

    Args:
        executor: runs them.
        graph: the edited graph.
        overrides: the user's feeds.
        folders: of the model.
        keys: of the signatures whose functions changed.

    Returns:
        The result in words; '' if tf.saved_model.load must be used.
    """
    try:
        container = open_model(folders.after, Wanted(folders.tags)).container
        if container is None:
            return ""
        found = by_objects(container, keys, graph.pristine())
        executor.load_graph(LOADER, found.graph)
        executor.loaded(LOADER)
        for key, outputs in found.outputs.items():
            run = _run(executor, found.graph, overrides, key, loaded=LOADER, more=tuple(outputs.values()))
            if run.is_random or _wrong(executor, run, {name: run.more[text] for name, text in outputs.items()}):
                return ""
    except (NotReadable, Refused, GdsurgeonError):
        return ""  # tf.saved_model.load says why, or that it is fine
    if not keys:
        return "was not started: no function of a signature changed, and the functions of the objects exist"
    return f"was not started: the functions that it would call return the same for {named(sorted(keys), 3)}"


def _runs(
    executor: Executor, graph: Graph, overrides: Overrides, keys: Sequence[str]
) -> tuple[list[_Run], dict[str, str]]:
    """Returns the runs of a graph for the signatures `keys`, and why some of these cannot run."""
    runs: list[_Run] = []
    not_run: dict[str, str] = {}
    for key in keys:
        try:
            runs.append(_run(executor, graph, overrides, key))
        except NotValidatedError as error:
            not_run[key] = error.message
    return runs, not_run


class _Run(NamedTuple):
    """A run of the graph for a signature.

    Attributes:
        call: the call with the same inputs.
        outputs: by name, their places in the executor.
        more: other tensors of the run, by name.
        is_random: whether outputs are random.
        keeps_state: whether outputs depend on state that an earlier run changed.
    """

    call: SignatureCall
    outputs: dict[str, Result]
    more: dict[str, Result]
    is_random: bool
    keeps_state: bool


class Loader(Closing):
    """TensorFlow's Python package in a separate process, which calls the signatures of a folder.

    Args:
        settings: of the run.
        folders: of the model.
    """

    def __init__(self, settings: Settings, folders: Folders) -> None:
        self._settings, self._folders = settings, folders
        self._workers: list[Worker] = []

    def start(self) -> None:
        """Begins to import the package; if it does not start, `ask` raises the error."""
        with suppress(GdsurgeonError):
            self._started("loader")

    def ask(self, folder: str, calls: Sequence[SignatureCall]) -> Answers:
        """Returns the answers of a loader of `folder`.

        Raises:
            ValidationError: the process crashed, or does not answer in time.
            NotValidatedError: the package does not exist, does not start, or runs out of memory.
        """
        try:
            worker = self._workers[-1] if self._workers else self._started("loader")
            try:
                return self._called(worker, folder, calls)
            except TensorFlowMissing:
                if len(self._workers) > 1:
                    raise
                return self._called(self._started("python"), folder, calls)  # all of the package
        except TensorFlowMissing as missing:
            raise NotValidatedError(
                f"{LOADER} cannot be used here: {missing.reason}",
                code="no-tensorflow",
                advice=("install-tensorflow", "not-loaded"),
            ) from missing
        except TensorFlowError as refused:
            raise ValidationError(f"{LOADER}: {printable(refused.message)}") from refused
        except GdsurgeonError as error:
            error.place_at(LOADER)
            raise

    def _called(self, worker: Worker, folder: str, calls: Sequence[SignatureCall]) -> Answers:
        model = ModelFolder(folder, self._folders.tags)
        return worker.call_signatures(model, calls).result(self._settings.timeout)

    def _started(self, runtime: str) -> Worker:
        settings, folders = self._settings, self._folders
        reads = tuple(filter(None, (folders.before, folders.after)))
        worker = Worker("cpu", settings.op_libraries, runtime=runtime, verbose=settings.verbose,
                        allow_ops=settings.allow_ops, reads=reads)  # fmt: skip
        self._workers.append(worker)
        worker.start()
        return worker

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._workers:
            worker.close()


def _run(
    executor: Executor,
    graph: Graph,
    overrides: Overrides,
    key: str,
    *,
    loaded: str = EDITED,
    more: tuple[str, ...] = (),
) -> _Run:
    """Runs GRAPH, which is LOADED in the executor, for the signature KEY and the tensors MORE.

    It runs on a generated feed, from the state in which a loader leaves the model.
    """
    serving = serving_of(graph)
    assert serving is not None
    served = serving.signatures[key]
    plan = plan_with(executor.settings, graph, nodes_of((*served.outputs.values(), *more)))
    plan = replace(plan, groups=[[*served.tensors, *more]], beside=[])
    known = {name: shape for name, shape in executor.shapes.get(EDITED, {}).items() if name in plan.placeholders}
    overrides = replace(overrides, shapes={**known, **overrides.shapes})
    subject = Subject(
        executor, loaded, graph, plan=plan, overrides=overrides, options=SubjectOptions(name=f"{LOADER} {key}")
    )
    subject.leave(subject.optional - {*nodes_of(served.inputs.values())})  # a caller cannot say others
    if plan.skipped:
        raise NotValidatedError(plan.skipped[0].reason)
    executor.load_again(loaded)
    subject.initialize()
    _, begun = subject.start(0, {})
    subject.wait(begun)
    results = {tensor: Result(subject.result(0, 0), place) for place, tensor in enumerate(plan.groups[0])}
    inputs = {name: executor.fetched(results[tensor]) for name, tensor in served.inputs.items()}
    outputs = {name: results[tensor] for name, tensor in served.outputs.items()}
    others = {tensor: results[tensor] for tensor in more}
    return _Run(SignatureCall(key, inputs), outputs, others, bool(plan.chance), plan.keeps_state)


def _compare(executor: Executor, run: _Run, found: dict[str, Tensor]) -> None:
    """Raises ValidationError if `found` differs from the values of the graph in `run`; of random outputs only the
    names."""
    key = quoted(run.call.key)
    if found.keys() != run.outputs.keys():
        raise ValidationError(
            f"{LOADER} returns {named(sorted(found))} for the signature {key}, not {named(sorted(run.outputs))}",
            code="differs",
            facts={"signature": key},
        )
    if run.is_random:
        return
    executor.put(LOADER, [found[name] for name in sorted(found)])
    wrong = _wrong(executor, run, {name: Result(LOADER, place) for place, name in enumerate(sorted(found))})
    if wrong:
        raise ValidationError(
            f"for the signature {key}, {LOADER} returns different values than the graph",
            code="differs",
            facts={"signature": key},
            details=tuple(wrong),
        )


def _wrong(executor: Executor, run: _Run, found: Mapping[str, Result]) -> list[str]:
    """Returns the outputs of `run` that differ from `found`, each with the difference."""
    names = sorted(found)
    if not names:
        return []
    source, other = run.outputs[names[0]].result_id, found[names[0]].result_id
    pairs = [(run.outputs[name].index, found[name].index) for name in names]
    comparisons = executor.comparisons(executor.compare(source, other, pairs, rtol=RTOL, atol=ATOL))
    return [f"{printable(name)}: {difference(c)}" for name, c in zip(names, comparisons, strict=True) if not c.close]


class RefusedBefore(NotValidatedError):
    """The original refuses the call as well."""


class ComparingLoader(Loader):
    """A `Loader` that repeats a refused call on the original model.

    Args:
        settings: of the run.
        folders: of the model.
        graph: the edited graph.
    """

    def __init__(self, settings: Settings, folders: Folders, graph: Graph) -> None:
        super().__init__(settings, folders)
        self._graph = graph

    def ask(self, folder: str, calls: Sequence[SignatureCall]) -> Served:
        """See `Loader.ask`. Raises RefusedBefore if both models refuse a call."""
        answers = super().ask(folder, calls)
        before = self._folders.before
        if answers.refused and before and folder == self._folders.after:
            call = calls[len(answers.outputs)]
            refused = super().ask(before, [call]).refused if _fits(self._graph.pristine(), call) else ""
            if refused:
                raise RefusedBefore(
                    f"for these inputs, {LOADER} does not run the signature {quoted(call.key)} of the original either: "
                    f"{printable(refused)}",
                    code="unfeedable",
                    facts={"signature": call.key},
                    advice="give-others",
                )
        return answers


def _fits(graph: Graph, call: SignatureCall) -> bool:
    """Returns whether a signature of GRAPH has the key, the names and the types of CALL."""
    served = graph.serving.signatures.get(call.key) if graph.serving is not None else None
    if served is None or served.inputs.keys() != call.inputs.keys():
        return False
    pairs = [(graph.tensor(text), call.inputs[name]) for name, text in served.inputs.items()]
    return all(
        base_dtype(tensor.dtype) == value.dtype and compatible(value.shape, stated_shape(tensor))
        for tensor, value in pairs
    )
