"""Tests whether ``tf.saved_model.load`` serves the values of the graph; it runs functions of the model's objects."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import nodes_of
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import difference
from gdsurgeon.proof.settings import Event, Settings
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import EDITED
from gdsurgeon.runtime.base import Served, SignatureCall
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.text import named
from gdsurgeon.values import Closing, Tolerance

_TOLERANCE = Tolerance(1e-4, 1e-5)
"""By how much floats may differ: functions are compiled and placed separately."""
LOADER = "tf.saved_model.load"


class Folders(NamedTuple):
    """The folder of the original model ('' if it is not a SavedModel), the staged folder, and the tags of the graph."""

    before: str
    after: str
    tags: tuple[str, ...] = ()


def check_served(executor: Executor, graph: Graph, overrides: Overrides, keys: Sequence[str], loader: Loader) -> str:
    """Serves the signatures `keys` of an edited model with tf.saved_model.load, and compares with the values of its
    graph.

    Args:
        executor: has loaded `graph` as the edited graph.
        graph: the edited graph.
        overrides: the user's feeds.
        keys: of signatures whose functions changed; empty: the model must only load.
        loader: of the folders of the model.

    Returns:
        The result in words.

    Raises:
        ValidationError: the model does not load, does not run, or returns other values.
    """
    executor.progress(Event("proving"))
    ask, folders = loader.ask, loader.folders
    runs: list[_Run] = []
    not_run: dict[str, str] = {}
    for key in keys:
        try:
            runs.append(_run(executor, graph, overrides, key))
        except NotValidatedError as error:
            not_run[key] = error.message
    # A call can change state for the next call, so each starts from the loaded model.
    rounds = [[run] for run in runs] if any(run.plan.keeps_state for run in runs) else [runs]
    for together in rounds:
        answers = ask(folders.after, [run.call for run in together])
        if answers.not_loaded:
            if not folders.before or not ask(folders.before, []).not_loaded:
                text = f"{answers.loader} does not load the result: {printable(answers.not_loaded)}"
                raise ValidationError(text, code="does-not-load")
            return f"does not load even the original model: {printable(answers.not_loaded)}"
        if answers.refused:
            call = together[len(answers.outputs)].call
            may_run = folders.before and _fits(graph.pristine(), call)
            before = ask(folders.before, [call]).refused if may_run else ""
            if before:
                text = f"for these inputs, {LOADER} does not run the signature {quoted(call.key)} of the original"
                raise RefusedBefore(
                    f"{text} either: {printable(before)}", code="unfeedable", signature=call.key, advice="give-others"
                )
            text = f"{LOADER} does not run the signature {quoted(call.key)}: {printable(answers.refused)}"
            raise ValidationError(text, code="does-not-run", signature=call.key)
        for run, outputs in zip(together, answers.outputs, strict=True):
            _compare(executor, run, outputs)
    chance = [run.call.key for run in runs if run.plan.random_nodes]
    but = f", except random results of {named(chance, 3)}" if chance else ""
    text = f"returns the same for {named([run.call.key for run in runs], 3)}{but}" if runs else "loads it"
    return text + "".join(f"; {printable(key)} was not run: {printable(why)}" for key, why in not_run.items())


class _Run(NamedTuple):
    """A run of the graph for a signature.

    Attributes:
        call: the call with the same inputs.
        outputs: by name, their places in the executor.
        plan: of the outputs, which shows whether they are random, or depend on state that an earlier run changed.
    """

    call: SignatureCall
    outputs: dict[str, Result]
    plan: FetchPlan


class Loader(Closing):
    """TensorFlow's Python package in a separate process, which calls the signatures of a folder.

    Args:
        settings: of the run.
        folders: of the model.
    """

    def __init__(self, settings: Settings, folders: Folders) -> None:
        self._timeout, self.folders = settings.timeout, folders
        reads = tuple(filter(None, (folders.before, folders.after)))
        self._worker = Worker("cpu", settings.op_libraries, runtime="python", verbose=settings.verbose,
                              allow_ops=settings.allow_ops, reads=reads)  # fmt: skip

    def start(self) -> None:
        """Begins to import the package; if it does not start, `ask` raises the error."""
        with suppress(GdsurgeonError):
            self._worker.start()

    def ask(self, folder: str, calls: Sequence[SignatureCall]) -> Served:
        """Returns the answers of a loader of `folder`.

        Raises:
            ValidationError: the process crashed, or does not answer in time.
            NotValidatedError: the package does not exist, does not start, or runs out of memory.
        """
        try:
            return self._worker.call_signatures(folder, self.folders.tags, calls).result(self._timeout)
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

    def close(self) -> None:
        """Ends the process."""
        self._worker.close()


def _run(executor: Executor, graph: Graph, overrides: Overrides, key: str) -> _Run:
    """Runs the edited graph, newly loaded, for the signature `key` on a generated feed."""
    serving = serving_of(graph)
    assert serving is not None
    served = serving.signatures[key]
    plan = plan_with(executor.settings, graph, served.outputs.values())
    plan = replace(plan, groups=[[*served.tensors]], inputs_of_sampled=[])
    known = {name: shape for name, shape in executor.shapes.get(EDITED, {}).items() if name in plan.placeholders}
    overrides = replace(overrides, shapes={**known, **overrides.shapes})
    subject = Subject(executor, EDITED, graph, plan, overrides, name=f"{LOADER} {key}")
    subject.keep_defaults(subject.optional - {*nodes_of(served.inputs.values())})  # a caller cannot feed other inputs
    if plan.skipped:
        raise NotValidatedError(plan.skipped[0].reason)
    executor.load_again(EDITED)
    subject.initialize()
    subject.run(0, {})
    results = {tensor: Result(subject.result(0, 0), place) for place, tensor in enumerate(plan.groups[0])}
    inputs = {name: executor.fetched(results[tensor]) for name, tensor in served.inputs.items()}
    outputs = {name: results[tensor] for name, tensor in served.outputs.items()}
    return _Run(SignatureCall(key, inputs), outputs, plan)


def _compare(executor: Executor, run: _Run, found: dict[str, Tensor]) -> None:
    """Raises ValidationError if `found` differs from the values of the graph in `run`; of random outputs only the
    names."""
    key = quoted(run.call.key)
    if found.keys() != run.outputs.keys():
        raise ValidationError(
            f"{LOADER} returns {named(sorted(found))} for the signature {key}, not {named(sorted(run.outputs))}",
            code="differs",
            signature=key,
        )
    if run.plan.random_nodes or not found:
        return
    names = sorted(found)
    executor.put(LOADER, [found[name] for name in names])
    pairs = [(run.outputs[name].index, place) for place, name in enumerate(names)]
    comparisons = executor.compare(run.outputs[names[0]].result_id, LOADER, pairs, _TOLERANCE)
    wrong = [f"{printable(name)}: {difference(c)}" for name, c in zip(names, comparisons, strict=True) if not c.close]
    if wrong:
        raise ValidationError(
            f"for the signature {key}, {LOADER} returns different values than the graph",
            code="differs",
            signature=key,
            details=tuple(wrong),
        )


class RefusedBefore(NotValidatedError):
    """The original refuses the call as well."""


def _fits(graph: Graph, call: SignatureCall) -> bool:
    """Returns whether a signature of `graph` has the key, the names and the types of `call`."""
    served = graph.serving.signatures.get(call.key) if graph.serving is not None else None
    if served is None or served.inputs.keys() != call.inputs.keys():
        return False
    pairs = [(graph.tensor(text), call.inputs[name]) for name, text in served.inputs.items()]
    return all(
        base_dtype(tensor.dtype) == value.dtype and compatible(value.shape, stated_shape(tensor))
        for tensor, value in pairs
    )
