"""Runs a graph in a different engine or a different release of TensorFlow, on the feeds that TensorFlow gets here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isfinite, prod

from gdsurgeon.analysis.queries.signature import input_nodes
from gdsurgeon.errors import (
    EditError,
    GdsurgeonError,
    Line,
    NotValidatedError,
    UsageError,
    ValidationError,
    printable,
)
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import FullShape, format_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import dtype_name
from gdsurgeon.ops.releases import TITLES
from gdsurgeon.proof.executor import Executor, Refused, await_loaded
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.settings import Event
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import EDITED, ORIGINAL, ComparedPair, Fetch, Trial, TrialRun, nothing_to_run
from gdsurgeon.runtime.compare import Likeness, likeness
from gdsurgeon.runtime.failures import NOT_LOADED, TensorFlowMissing
from gdsurgeon.runtime.packages import PACKAGES, NotThere, engine_at, unpacked
from gdsurgeon.runtime.protocol import OutputInfo
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.text import counted, listed
from gdsurgeon.values import Tolerance
from gdsurgeon.wire.write import read_chunks

RTOL, ATOL = 1e-3, 1e-4
"""By how much floats may differ without a requested tolerance: engines have their own kernels.

RTOL is relative to the largest element.
"""


@dataclass
class EngineRequest:
    """A request to run a graph in an engine.

    Attributes:
        engine: an engine that can run graphs: ``opencv``.
        place: a wheel or a folder with the engine; None: it is installed.
        outputs: tensors to compare; empty: the outputs.
        rtol, atol: by how much floats may differ; if both are None, the larger of `ATOL` and `RTOL` times the largest
            element of an output.
    """

    engine: str
    place: str | None = None
    outputs: Sequence[str] = ()
    rtol: float | None = None
    atol: float | None = None

    def agrees(self, found: Likeness) -> bool:
        """Returns whether an output of the engine is within the tolerance."""
        comparison = found.comparison
        if comparison.close or self.rtol is not None or self.atol is not None:
            return comparison.close
        most = RTOL * (found.largest or 0.0)
        return comparison.max_abs is not None and comparison.max_abs <= max(most, ATOL)


@dataclass
class EngineOutput:
    """An output in all samples.

    Attributes:
        dtype, shape: of TensorFlow's value in the first sample.
        max_abs: the largest difference of an element; infinite if only one of two is finite; None if elements cannot be
            compared, with the `reason`.
        relative: `max_abs` divided by the largest element of the output; None if it has none.
        agrees: whether the output is within the tolerance.
        form, given_shape: of the engine's value, see `gdsurgeon.runtime.compare.Likeness`.
        shows: whether the output has elements that are not NaN.
    """

    name: str
    dtype: int
    shape: FullShape
    max_abs: float | None = 0.0
    relative: float | None = None
    agrees: bool = True
    reason: str = ""
    form: str = ""
    given_shape: FullShape = ()
    shows: bool = False

    def note(self, found: Likeness, agrees: bool) -> None:
        """Adds a further sample."""
        comparison = found.comparison
        self.agrees &= agrees
        self.shows |= bool(comparison.count and not comparison.nan)
        self.reason = self.reason or comparison.reason or ""
        if not self.given_shape:
            self.form, self.given_shape = found.form, found.shape
        if comparison.max_abs is None or self.max_abs is None:
            self.max_abs = None
            return
        self.max_abs = max(self.max_abs, comparison.max_abs)
        if found.largest:
            self.relative = max(self.relative or 0.0, comparison.max_abs / found.largest)


@dataclass
class EngineRun:
    """The results of a graph in an engine.

    Attributes:
        called: the engine with its version.
        outputs: the outputs that ran.
        samples: the number of feeds.
        feeds: the feeds of the first sample as text, by input.
        notes: further remarks.
    """

    called: str
    outputs: dict[str, EngineOutput] = field(default_factory=dict)
    samples: int = 0
    feeds: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[EngineOutput]:
        """The outputs that differ."""
        return [output for output in self.outputs.values() if not output.agrees]


def run_in_engine(executor: Executor, graph: Graph, overrides: Overrides, request: EngineRequest) -> EngineRun:
    """Runs a graph in an engine, and compares the outputs with TensorFlow's.

    Args:
        executor: runs TensorFlow, and loads the graph.
        graph: the graph as it is in the file.
        overrides: the user's feeds.
        request: the engine and the outputs.

    Returns:
        The outputs, also if they differ by more than the tolerance.

    Raises:
        EditError: the engine does not load or run the graph; the code is ``not-loadable``, and the facts are ``engine``
            and ``why``.
        UsageError: the given place does not contain an engine.
        ValidationError: the engine does not answer in time.
        NotValidatedError: the engine is not available, TensorFlow does not run the graph, or nothing can be compared.
    """
    title, name = TITLES[request.engine], printable(graph.source_name)
    if request.engine not in PACKAGES:
        raise NotValidatedError(f"gdsurgeon cannot run {title}; it only knows its list of ops", code="no-engine")
    package = PACKAGES[request.engine]
    here = _in_tensorflow(executor, graph, overrides, request.outputs)
    try:
        with engine_at(request.engine, request.place) as (opened, reads):
            settings = executor.settings.reading(reads)._replace(release=opened, op_libraries=(), device="cpu")
            with Executor(settings) as other:
                other.called[ORIGINAL] = name
                found = EngineRun(f"{title} {other.info().version}")
                _run_samples(other, here, request, found)
                return found
    except NotThere as missing:
        line = "{run_in} {path}: {why}; expected is a wheel of {package}, or a folder with one"
        facts = {"path": printable(request.place or ""), "why": printable(missing.reason)}
        raise UsageError(Line(line, package=package, **facts), code="wrong-format", facts=facts) from missing
    except TensorFlowMissing as missing:
        where = f" from {printable(request.place)}" if request.place is not None else ""
        line = "{title} cannot run on this machine{where}: {why}"
        text = Line(line, title=title, where=where, why=printable(missing.reason))
        raise NotValidatedError(text, code="no-engine", advice="get-engine", package=package) from missing


def _in_tensorflow(executor: Executor, graph: Graph, overrides: Overrides, outputs: Sequence[str]) -> Subject:
    """Returns the graph in TensorFlow, ready to run; random outputs do not run, because engines sample other numbers.

    Raises:
        NotValidatedError: the graph cannot run.
    """
    name = printable(graph.source_name)
    check_names(overrides, [node.name for node in input_nodes(graph)])
    executor.progress(Event("proving"))
    executor.called[ORIGINAL] = graph.source_name
    executor.load_graph(ORIGINAL, graph)
    try:
        await_loaded(executor, ORIGINAL, name)
        tensors = [graph.tensor(output).name for output in outputs]
        plan = plan_with(executor.settings, graph, tensors or None)
        plan = replace(plan.only({*(tensors or plan.fetches)} - plan.random), inputs_of_sampled=[])
        subject = Subject(executor, ORIGINAL, graph, plan, overrides, name="TensorFlow")
        subject.keep_defaults(subject.optional)
        if not plan.fetches:
            raise nothing_to_run(subject, name)
        subject.initialize()
    except ValidationError as error:
        raise NotValidatedError(error.message, details=error.details, advice=error.advice) from error
    except Refused as refused:
        raise NotValidatedError(f"{name} cannot be initialized: {printable(refused.text)}") from refused
    return subject


@contextmanager
def _in_engine(found: EngineRun, name: str, what: str) -> Iterator[None]:
    """Raises EditError if the engine refuses to load or run the graph `name`, or crashes; `what` is the action."""
    try:
        yield
    except (Refused, ValidationError) as error:
        if isinstance(error, Refused):
            why = error.text
            action = "load" if error.code == NOT_LOADED else what
            message = f"{found.called} does not {action} {name}: {printable(why)}"
        elif error.code in ("crashed", "bad-message"):
            why = message = error.message
        else:
            raise
        raise EditError(message, code="not-loadable", engine=found.called, why=why) from error


def _run_samples(other: Executor, here: Subject, request: EngineRequest, found: EngineRun) -> None:
    """Loads, runs and compares the graph, and records the results in `found`. Raises the errors of `run_in_engine`."""
    name, there = printable(here.graph.source_name), "the engine"
    with _in_engine(found, name, "load"):
        other.load(ORIGINAL, read_chunks(here.graph.chunks()))
        other.loaded(ORIGINAL)

    def run(sample: int) -> None:
        """Runs TensorFlow and the engine on one feed, and compares the outputs."""
        try:
            feeds = here.run(sample, {})[0]
        except Refused as refused:
            text = f"{name} does not run: {printable(refused.text)}"
            raise NotValidatedError(text, code="does-not-run") from refused
        except ValidationError as error:
            raise NotValidatedError(error.message, details=error.details, advice=error.advice) from error
        fed = {feed: here.executor.fetched(value) for feed, value in feeds.items()}
        if not sample:
            found.feeds = {name: text for name, text, _ in here.described(feeds)}
        try:
            for group, outputs in enumerate(here.plan.groups):
                with _in_engine(found, name, "run"):
                    other.run(ORIGINAL, there, fed, outputs)
                for place, output in enumerate(outputs):
                    tensor = here.executor.tensor(here.result(sample, group), place)
                    compared = likeness(tensor, other.tensor(there, place), request.rtol or 0.0, request.atol or 0.0)
                    known = found.outputs.setdefault(output, EngineOutput(output, tensor.dtype, tensor.shape))
                    known.note(compared, request.agrees(compared))
        finally:
            here.finish(sample)

    for sample in range(here.needed_samples):
        here.executor.progress(Event("running", sample + 1, here.needed_samples))
        try:
            run(sample)
        except EditError as error:
            if not sample or not here.fix_batch():
                raise
            found.notes.append(f"with a batch of two: {error.message}")
            run(sample)
        found.samples += 1
    found.notes += [f"{printable(output)} was not compared: {reason}" for output, reason in here.plan.reasons]
    if here.plan.random:
        found.notes.append(f"{listed(sorted(map(printable, here.plan.random)), 3)}: random, not compared")
    if not any(output.shows for output in found.outputs.values()):
        text = f"{found.called} runs {name}, but nothing can be compared: TensorFlow returns only NaN or no elements"
        raise NotValidatedError(text, code="nothing-comparable", advice="give-others")


def told(output: EngineOutput) -> str:
    """Returns the difference of an output from TensorFlow's in words."""
    if output.max_abs is None:
        return output.reason or "its elements differ"
    if not output.shows:
        return "all NaN" if prod(output.shape) else "no elements"
    if not output.max_abs:
        return "the same"
    if not isfinite(output.max_abs):
        return "one is a number, and the other is NaN or infinite"
    part = f" ({output.relative:.1e} of the largest element)" if output.relative not in (None, inf) else ""
    return f"largest difference {output.max_abs:.1e}{part}"


def described(output: EngineOutput) -> str:
    """Returns the name, dtype and shape of an output."""
    return f"{printable(output.name)}  {dtype_name(output.dtype)} {format_shape(output.shape)}"


def agreement(found: EngineRun) -> str:
    """Returns a summary of a run in which all outputs agree."""
    most = max((output.max_abs or 0.0 for output in found.outputs.values()), default=0.0)
    largest = f"largest difference {most:.1e}" if most else "bit-identical"
    return f"{counted(len(found.outputs), 'output')}, {counted(found.samples, 'input set')}, {largest}"


def check_released(
    executor: Executor,
    graph: Graph,
    overrides: Overrides,
    path: str,
    load: Callable[[Executor], None],
    *,
    runs: bool = True,
) -> tuple[str, str]:
    """Runs the edited graph in a different release on the feeds of this TensorFlow, and compares the outputs.

    Args:
        executor: has loaded the edited graph.
        graph: the edited graph.
        overrides: the user's feeds.
        path: a wheel, or a folder with the contents of one.
        load: makes an executor load the edited graph.
        runs: whether the graph runs; otherwise it must only load.

    Returns:
        The version of the release, and a summary with its name.

    Raises:
        ValidationError: the release does not load or run the graph, or returns other values; the facts contain the
            version as ``released``.
        UsageError: `path` does not contain a release.
        NotValidatedError: its libraries cannot be loaded here.
    """
    executor.progress(Event("proving"))
    try:
        with unpacked(path) as folder:
            settings = executor.settings.reading([folder, path])._replace(release=folder)
            with Executor(settings) as other:
                name = other.version().partition(" (")[0]
                version = other.info().version
                try:
                    load(other)
                    load(executor)
                    other.loaded(EDITED)
                    told = _compared(executor, other, graph, overrides) if runs else "loads it"
                    return version, f"{name} {told}"
                except Refused as refused:
                    what = f"{name} does not load or run the result: {printable(refused.text)}"
                    raise ValidationError(what, code="does-not-load", released=version) from refused
                except GdsurgeonError as error:
                    text = f"in {name}: {error.message}"
                    raise ValidationError(
                        text, code=error.code, details=error.details, facts=error.facts, released=version
                    ) from error
    except NotThere as missing:
        line = "{run_in} {path}: {reason}; expected is a wheel of a release, or a folder with one"
        facts = {"path": printable(path), "reason": printable(missing.reason)}
        raise UsageError(Line(line, **facts), code="no-such-release", facts=facts) from missing


def _compared(executor: Executor, other: Executor, graph: Graph, overrides: Overrides) -> str:
    """Runs the graph in both releases. Raises ValidationError if outputs differ by more than the tolerance."""
    plan = plan_with(executor.settings, graph)
    plan = replace(plan.only({*plan.fetches} - plan.random), inputs_of_sampled=[])
    if not plan.fetches:
        return "loads it, but nothing can be compared"
    here = Subject(executor, EDITED, graph, plan, overrides, name="here")
    there = Subject(other, EDITED, graph, replace(plan, placeholders=[], defaults=[]))
    places = there.places()
    there.initialize()

    def expected(name: str, trial: Trial, sample: int, _info: OutputInfo) -> Tensor:
        if name == plan.fetches[0]:
            if sample:
                there.finish(sample - 1)
            there.run(sample, {feed: executor.fetched(value) for feed, value in trial.fed[here.name].items()})
        group, place = places[name]
        return other.tensor(there.result(sample, group), place)

    pairs = [ComparedPair(name, name, partial(expected, name), Fetch(here.name, name)) for name in plan.fetches]
    trial = Trial(executor, "", [TrialRun(here)], pairs, here.name, here.needed_samples)
    trial.tolerance, trial.message = Tolerance(RTOL, ATOL, RTOL), "other values are returned for"
    proof = trial.run().proof
    equal = "bit-identical" if proof.is_exact else f"largest difference {proof.largest_difference:.1e}"
    return f"returns the same: {counted(len(pairs), 'output')}, {counted(proof.samples, 'input set')}, {equal}"
