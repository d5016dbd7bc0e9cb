"""A graph that is going to run: its fetches, feeds and shapes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from gdsurgeon.errors import Line, NotValidatedError, printable, quoted
from gdsurgeon.feeds.input_spec import (
    InputSpec,
    description,
    input_spec,
    make_feed,
    narrowed,
    overridden,
)
from gdsurgeon.feeds.numbers import input_seed, numbers
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import FullShape, format_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Restoring
from gdsurgeon.ops.dtypes import STRING, base_dtype, dtype_name, element_size
from gdsurgeon.proof.change import restoring_runs
from gdsurgeon.proof.executor import DO_WITHOUT, Executor, Refused
from gdsurgeon.proof.plan import FetchPlan, variable_shape
from gdsurgeon.runtime.client import Pending
from gdsurgeon.runtime.protocol import Result, RunSummary
from gdsurgeon.runtime.tensor import Tensor

MOST_TRIALS = 24
"""The number of combinations of shapes that are tried for inputs without a stated shape."""
FEW_TRIALS = 4
"""The number of combinations for other values, after TensorFlow refused the first ones in all shapes."""
LENGTHS = (1, 8)
"""The sizes of unknown dimensions that several inputs share."""
_OUT_OF_RANGE = re.compile(r" is not in \[0, (?P<most>\d+)\)")
"""TensorFlow's message for an index that is too large."""

Feeds = dict[str, Tensor | Result]
Started = tuple[Feeds, list[Pending[RunSummary]]]
Finished = tuple[Feeds, list[RunSummary]]
Shapes = Mapping[str, FullShape]


class VariableSpec(NamedTuple):
    """A variable that needs a generated value."""

    name: str
    dtype: int
    shape: FullShape

    def value(self, seed: int) -> Tensor:
        """Returns a generated value."""
        return Tensor(self.dtype, self.shape, numbers(self.dtype, prod(self.shape), 0, seed))


class _SampleFeeds(NamedTuple):
    """The feeds of a sample: the shapes, the inputs, whether floats are also negative, and the batch size."""

    shapes: Shapes
    specs: list[InputSpec]
    wide: bool
    batch: int


@dataclass(eq=False)
class Subject:
    """A graph in the executor, and its runs.

    Attributes:
        executor: has loaded, or is loading, the graph as `key`.
        key: the name of the graph there.
        graph: the graph as it is in the file.
        plan: the fetches and the required feeds.
        overrides: the user's feeds.
        name: of its runs; '': `key`.
        picture: height and width of images for string inputs; None: any.
        seed_suffix: changes the values, compared with inputs of the same name.
    """

    executor: Executor
    key: str
    graph: Graph
    plan: FetchPlan
    overrides: Overrides = field(default_factory=Overrides)
    name: str = ""
    picture: tuple[int, int] | None = None
    seed_suffix: str = ""

    def __post_init__(self) -> None:
        graph, overrides = self.graph, self.overrides
        self.name = self.name or self.key
        loaded = {
            name.removesuffix(":0"): value for run in restoring_runs(graph) for name, value in _paths(run).items()
        }
        self.paths: Feeds = {name: value for name, value in loaded.items() if name in self.plan.placeholders}
        """The inputs that a loader feeds."""
        self.specs: list[InputSpec] = [
            overridden(input_spec(graph[name]), overrides) for name in self.plan.placeholders if name not in loaded
        ]
        for name in self.plan.defaults:
            if name in loaded:
                continue
            with suppress(NotValidatedError):  # no feed can be generated, so the input keeps its default
                spec = overridden(input_spec(graph[name]), overrides)
                if spec.given or spec.content.kind != "none":
                    self.specs.append(spec)
        self.optional = {spec.name for spec in self.specs if spec.has_default and not spec.given}
        self.optional -= {*overrides.names()}
        """The inputs that keep their defaults in the last sample."""
        self.variables = [found for name in self.plan.variables if (found := variable_spec(graph, name)) is not None]
        self.shapes: Shapes = {}
        self.problem = ""  # the message if TensorFlow refused all feeds
        self.failing_node = ""  # the node in this message
        self.batch = 1  # of the last sample
        self.unfed: Collection[str] = ()  # inputs that keep their defaults, as in other runs of the trial
        self._wide = True  # whether every second sample has negative floats as well
        self._most = sys.maxsize  # the limit of numbers, if their content has no lower one
        self._fed_as: dict[int, _SampleFeeds] = {}  # the feeds of earlier samples, for repetitions
        self._settled = False
        self._untried: list[Shapes] | None = None  # the likeliest first
        # Whether every other sample is a batch of two if the shapes allow it.
        self._varies_batch = not overrides.shapes and not any(spec.given for spec in self.specs)

    def keep_defaults(self, names: Collection[str]) -> None:
        """Leaves inputs with a default at this default in all samples, unless the user gave values."""
        self.specs = [spec for spec in self.specs if spec.name not in self.optional or spec.name not in names]
        self.optional -= {*names}

    @property
    def feedable(self) -> list[str]:
        """The tensors that are fed: inputs, variables, and outputs of random ops."""
        names = [spec.name for spec in self.specs] + [variable.name for variable in self.variables]
        return [*names, *self.paths, *self.plan.sampled]

    @property
    def samples(self) -> int:
        """The number of useful samples: the requested number, or the number of given values.

        One additional sample leaves inputs at their defaults.
        """
        return self._fed_samples + bool(self.optional)

    @property
    def _fed_samples(self) -> int:
        """The number of samples that feed all inputs."""
        if not (self.variables or self.plan.sampled) and all(len(spec.given) == 1 for spec in self.specs):
            return 1  # a second sample would be the same
        given = [len(spec.given) for spec in self.specs if spec.name not in self.optional]
        if self.optional:
            return max(self.executor.settings.samples, *given, 1)
        return max(given) if given and all(given) else self.executor.settings.samples

    @property
    def needed_samples(self) -> int:
        """The number of useful samples for comparing two graphs: state of a graph shows in the second run."""
        return max(self.samples, 2) if self.plan.keeps_state else self.samples

    def fix_batch(self) -> bool:
        """Makes all further samples batches of one; returns False if they are anyway."""
        varied, self._varies_batch = self._varies_batch, False
        self._fed_as = {sample: way for sample, way in self._fed_as.items() if way.batch == 1}
        return varied

    def try_other_shapes(self) -> bool:
        """Searches for shapes that a consumer of the results accepts; returns False if no shapes are left."""
        self._settled = self._settled and not self._untried
        self._fed_as = self._fed_as if self._settled else {}
        return not self._settled

    def initialize(self) -> None:
        """Restores the model and runs the table initializers. Raises Refused, NotValidatedError."""
        if self.plan.barred is not None:
            reason, advice = self.plan.barred[:2]
            name = printable(self.graph.source_name)
            raise NotValidatedError(
                Line("{model} cannot be restored: {reason}", model=name, reason=reason),
                code="not-restored",
                advice=advice,
            )
        for run in restoring_runs(self.graph):
            self.executor.initialize(self.key, run.targets, _paths(run))
        self.executor.initialize(self.key, self.plan.initializers)
        for found in self.plan.assigned:
            variable = variable_spec(self.graph, found.variable)
            if variable is not None:
                value = variable.value(input_seed(self.executor.settings.seed, found.seed))
                self.executor.initialize(self.key, [found.node], {found.value: value})

    def begin(self, sample: int, bound: Feeds) -> Started:
        """Begins the runs of a sample in the likeliest shapes, without waiting; see `run`."""
        self.shapes = {spec.name: spec.shapes[0] for spec in self.specs}
        return self._begin(sample, self.shapes, bound)

    def run(self, sample: int, bound: Feeds, alongside: Callable[[Feeds], None] | None = None) -> Finished:
        """Does the runs of a sample, one for each group of fetches; the first sample finds shapes that fit.

        Args:
            sample: its number, which determines the feeds.
            bound: feeds from other code.
            alongside: is called with the feeds after the runs have begun, to begin other runs on the same feeds. The
                first run of a graph is slow, and two graphs can have their first runs at the same time. It is called
                again if other feeds must be tried.

        Returns the feeds and the summaries of the runs; `result` has the names of the results.

        Raises:
            NotValidatedError: the graph does not run on any generated feed.
            Refused: TensorFlow refuses a sample after the first.
        """

        def attempt(shapes: Shapes, batch: int = 1) -> Finished:
            """Does the runs in `shapes`. Raises Refused."""
            feeds, runs = self._begin(sample, shapes, bound)
            if alongside is not None:
                alongside(feeds)
            summaries = [self.executor.wait(run) for run in runs]
            self.batch, self._fed_as[sample] = batch, _SampleFeeds(shapes, self.specs, self._wide, batch)
            return feeds, summaries

        if sample in self._fed_as:
            shapes, self.specs, self._wide, batch = self._fed_as[sample]
            return attempt(shapes, batch)
        if not self._settled:
            return self._find_shapes(sample, attempt)
        doubled = self._doubled(bound) if sample % 2 and self._varies_batch else None
        if doubled is not None:
            try:
                return attempt(doubled, 2)
            except Refused:
                self._varies_batch = False
        while True:
            try:
                return attempt(self.shapes)
            except Refused as refused:
                if self._is_unfixable(refused) or not self._change_feeds(refused.text, sample):
                    raise

    def _doubled(self, bound: Feeds) -> Shapes | None:
        """Returns the shapes of a batch of two, if unbound inputs allow it; otherwise None."""
        free = {
            spec.name: (2 * shape[0], *shape[1:])
            for spec in self.specs
            if spec.name not in bound
            and (shape := self.shapes[spec.name])
            and shape[0] == 1
            and (spec.stated is None or spec.stated[0] < 0)
        }
        return {**self.shapes, **free} if free else None

    def _begin(self, sample: int, shapes: Shapes, bound: Feeds) -> Started:
        feeds = self._feeds(sample, shapes, bound) | bound
        sampled = [name for name in self.plan.sampled if name not in feeds]
        if sampled:  # random ops run once; their values are then fed to every compared graph
            result = f"{self.name} {sample} sampled"
            self.executor.run(self.key, result, feeds, sampled)
            feeds |= {name: Result(result, i) for i, name in enumerate(sampled)}
        runs = [
            self.executor.begin(self.key, self.result(sample, group), feeds, names)
            for group, names in enumerate(self.plan.groups)
        ]
        return feeds, runs

    def result(self, sample: int, group: int) -> str:
        """Returns the name of the result of a run."""
        return f"{self.name} {sample} {group}"

    def places(self) -> dict[str, tuple[int, int]]:
        """Returns for each fetched tensor its group and its index there."""
        found = [(name, (group, i)) for group, names in enumerate(self.plan.groups) for i, name in enumerate(names)]
        return dict(reversed(found))  # the first place of a tensor that is fetched twice

    def finish(self, sample: int) -> None:
        """Frees the results of a sample."""
        for group in range(len(self.plan.groups)):
            self.executor.drop(self.result(sample, group))

    def described(self, feeds: Feeds) -> Iterator[tuple[str, str, str]]:
        """Yields the names of inputs, their feeds as text, such as ``float32 [1,3]``, and how these are generated."""
        for spec in self.specs:
            value = feeds.get(spec.name)
            if isinstance(value, Tensor):
                text = f"{dtype_name(value.dtype)} {format_shape(value.shape)}"
                yield spec.name, text, description(spec, self.shapes.get(spec.name))

    def _find_shapes(self, sample: int, attempt: Callable[[Shapes], Finished]) -> Finished:
        """Does the runs of the first sample in the first shapes that TensorFlow accepts; `attempt` does one of them."""
        problem, tried = "", 0
        if self._untried is None:
            self._untried = _combinations(self.specs)
        while self._untried and tried < MOST_TRIALS:
            tried += 1
            self.shapes = self._untried.pop(0)
            try:
                done = attempt(self.shapes)
                self._settled = True
                return done
            except Refused as refused:
                if self._is_unfixable(refused):
                    what = f"{printable(self.graph.source_name)} does not run: {printable(refused.text)}"
                    at = f" (at {quoted(refused.node)})" if refused.node else ""
                    self.problem = printable(refused.text)
                    raise NotValidatedError(
                        what + at, code="does-not-run", node=refused.node, advice=DO_WITHOUT
                    ) from refused
                problem, self.failing_node = problem or refused.text, self.failing_node or refused.node
                is_last = not self._untried or tried == MOST_TRIALS
                if (is_last or _OUT_OF_RANGE.search(refused.text)) and self._change_feeds(refused.text, sample):
                    self._untried = _combinations(self.specs)[:FEW_TRIALS]
                    tried = min(tried, MOST_TRIALS - FEW_TRIALS)
        self._untried = None
        self.problem = printable(problem)
        names = ", ".join(f"{s.name} {format_shape(s.shapes[0])}" for s in self.specs)
        raise NotValidatedError(
            f"{printable(self.graph.source_name)} does not run on generated "
            f"feeds{f' ({printable(names)})' if names else ''}: {printable(problem)}",
            code="unfeedable",
            node=self.failing_node,
            advice="clear-devices" if "Cannot assign a device" in problem else "other-feeds",
        )

    def _change_feeds(self, reason: str, sample: int) -> bool:
        """Changes the feeds after TensorFlow refused them for `reason`; returns False if there are no others.

        First numbers become integers below the limit in the reason, if it has one. Then all floats become positive,
        then inputs with a default keep it, and then numbers become integers below 2, or 0.
        """
        said = _OUT_OF_RANGE.search(reason)
        limit = max(int(said["most"]), 1) if said is not None else self._most
        if limit < self._most:
            return self._narrow(limit)
        if self._wide and sample % 2:
            self._wide = False
            return True
        if self.optional:
            self.keep_defaults({*self.optional})
            return True
        return any(self._narrow(most) for most in (2, 1) if most < self._most)

    def _narrow(self, most: int) -> bool:
        """Makes numbers integers below `most`; returns False if no input changes."""
        specs, self._most = self.specs, most
        self.specs = [narrowed(spec, most) for spec in specs]
        return self.specs != specs

    def _is_unfixable(self, refused: Refused) -> bool:
        """Returns whether no other feed would help, because the graph itself is wrong or too large."""
        is_elsewhere = "No OpKernel" in refused.text or "Cannot assign a device" in refused.text
        return (
            refused.code in ("resource_exhausted", "failed_precondition")
            or refused.text.startswith("Cannot parse tensor from proto")
            or (bool(self.specs) and all(spec.given for spec in self.specs) and not is_elsewhere)
        )

    def _feeds(self, sample: int, shapes: Shapes, bound: Feeds) -> Feeds:
        """Returns values for unbound inputs and variables; equal names get equal values in every graph."""
        out: Feeds = {name: value for name, value in self.paths.items() if name not in bound}
        left = self.optional if self.optional and sample >= self._fed_samples else self.unfed
        for spec in self.specs:
            if spec.name not in bound and spec.name not in left:
                seed = self._seed(sample, spec.name)
                wide = self._wide and sample % 2 == 1
                out[spec.name] = make_feed(spec, shapes[spec.name], seed, self.picture, wide=wide, sample=sample)
        return out | {v.name: v.value(self._seed(sample, v.name)) for v in self.variables if v.name not in bound}

    def _seed(self, sample: int, name: str) -> int:
        return input_seed(self.executor.settings.seed + sample, name + self.seed_suffix)


def _paths(run: Restoring) -> dict[str, Tensor]:
    """Returns the file names that a loader feeds."""
    return {tensor: Tensor(STRING, (), [os.fsencode(os.path.abspath(path))]) for tensor, path in run.feeds.items()}


def variable_spec(graph: Graph, name: str) -> VariableSpec | None:
    """Returns how to generate a value for a variable; None if its shape or dtype does not allow one."""
    node = graph[name]
    dims, kind = variable_shape(node), node.plain_attr("dtype")
    dtype = kind if isinstance(kind, int) else base_dtype(node.output.dtype)
    return VariableSpec(name, dtype, dims) if dims is not None and element_size(dtype) else None


def _combinations(specs: list[InputSpec]) -> list[Shapes]:
    """Returns shapes for all inputs: the likeliest ones, shapes that agree, and then less likely ones."""
    names = [spec.name for spec in specs]
    return [dict(zip(names, chosen, strict=True)) for chosen in dict.fromkeys(_choices(specs))]


def _choices(specs: list[InputSpec]) -> Iterator[tuple[FullShape, ...]]:
    yield tuple(spec.shapes[0] for spec in specs)
    if len(specs) > 1:
        yield from (tuple(_agreeing(spec, specs, length) for spec in specs) for length in LENGTHS)
    longest = max((len(spec.shapes) for spec in specs), default=1)
    for step in range(1, longest):
        for alone in (None, *range(len(specs))):
            # First all inputs change their shapes together, then one at a time.
            yield tuple(
                spec.shapes[min(step, len(spec.shapes) - 1) if alone in (None, i) else 0]
                for i, spec in enumerate(specs)
            )


def _agreeing(spec: InputSpec, specs: list[InputSpec], length: int) -> FullShape:
    """Returns a shape in which unknown dimensions are those of other inputs, or `length`; a batch is 1."""
    if spec.stated is None or len(spec.shapes) == 1:
        return spec.shapes[0]
    # The first input with a known dimension determines it.
    known = {i: dim for other in reversed(specs) for i, dim in enumerate(other.stated or ()) if dim >= 0}
    return tuple(dim if dim >= 0 else known.get(i, length if i else 1) for i, dim in enumerate(spec.stated))
