"""Whether another engine takes a model: by the list of its ops, and by having it run the model."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.analysis.queries.compatibility import LackingOp, OpsOfGraph, lacking_ops
from gdsurgeon.arguments import StrPath, path_of, public
from gdsurgeon.container.load import open_model, reads_of
from gdsurgeon.container.wanted import ALL, Wanted
from gdsurgeon.edits.simplifying.going import HANDING_ON, is_read, may_all_go
from gdsurgeon.errors import EditError, Json, Line, UsageError, printable, quoted
from gdsurgeon.feeds.overrides import Feeds, Overrides, Shapes, overrides_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.served import tensor_meant
from gdsurgeon.ops.engines import TITLES, Engine, engine
from gdsurgeon.ops.kinds import CALLS, changes_variable, is_variable
from gdsurgeon.proof.settings import Progress, Settings, silent
from gdsurgeon.text import listed
from gdsurgeon.values import Data

if TYPE_CHECKING:
    from gdsurgeon.proof.elsewhere import EngineRequest, EngineRun


@dataclass
class CheckOpsRequest:
    """What is asked for.

    Attributes:
        model: a path.
        engine: one of `gdsurgeon.ops.engines.TITLES`.
        run: also have the engine run the model, and how; None: only look at the list.
        wanted: which part of a model that holds several.
        settings, overrides: how it is run, on what.
    """

    model: str
    engine: str
    run: EngineRequest | None = None
    wanted: Wanted = ALL
    settings: Settings = field(default_factory=Settings)
    overrides: Overrides = field(default_factory=Overrides)


class Help(NamedTuple):
    """What helps against an op that is lacking: a code, as advice of an error has, and the facts that go with it."""

    code: str
    facts: dict[str, Json]


@dataclass(eq=False, repr=False)
class CheckedOps(Data):
    """What was found out.

    Attributes:
        graph: the model's.
        engine: as the list has it.
        found: what the list lacks.
        run: what the engine made of it; None where it was not run, or to no end.
        refusal: why the engine does not take it, or does not run it; None where it does, or was not asked.
    """

    graph: Graph
    engine: Engine
    found: OpsOfGraph
    run: EngineRun | None = None
    refusal: EditError | None = None

    def helps(self) -> Iterator[tuple[LackingOp, Help | None]]:
        """What is lacking, each with what helps."""
        for lacking in self.found.lacking:
            yield lacking, _help(self, lacking)


@public
def check_ops(
    model: StrPath,
    engine: str,
    *,
    run: bool = False,
    place: StrPath | None = None,
    outputs: Sequence[str] = (),
    rtol: float | None = None,
    atol: float | None = None,
    feeds: Feeds | None = None,
    archive: StrPath | None = None,
    shapes: Shapes | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> CheckedOps:
    """Lists the ops of the model in the file MODEL that an ENGINE (``opencv``, ``openvino``, ``tflite``, ...) lacks.

    Args:
        model: a path.
        engine: its name.
        run: also run the model in the engine, and compare its outputs with TensorFlow's.
        place: a wheel or a folder of the engine; None: it is installed.
        outputs: the tensors to compare; by default the outputs.
        rtol, atol: how much floats may differ, element by element.
        feeds, archive, shapes, settings, progress: as for `operate`.

    Raises:
        GdsurgeonError: see `carry_out`.
    """
    if engine not in TITLES:
        raise UsageError(
            f"{quoted(engine)} is not a known engine; known are {', '.join(TITLES)}",
            code="no-engine",
            facts={"name": engine},
        )
    asked = None
    if run:
        from gdsurgeon.proof.elsewhere import EngineRequest

        asked = EngineRequest(engine, path_of(place), outputs, rtol, atol)
    overrides = overrides_of(feeds, archive, shapes)
    request = CheckOpsRequest(os.fspath(model), engine, asked, settings=settings or Settings(), overrides=overrides)
    return carry_out(request, progress)


def carry_out(request: CheckOpsRequest, progress: Progress = silent) -> CheckedOps:
    """Carries out the request. PROGRESS is called with every step.

    Raises:
        InputError: the model cannot be read.
        UsageError, ValidationError, NotValidatedError: see `gdsurgeon.proof.elsewhere.run_in_engine`.
    """
    graph = open_model(request.model, request.wanted).graph
    asked = engine(request.engine)
    checked = CheckedOps(graph, asked, lacking_ops(graph, asked))
    if request.run is not None:
        try:
            checked.run = _run(request, request.run, graph, progress)
        except EditError as error:
            if error.code != "not-loadable":
                raise
            _say_what_may_help(error, checked, request.model)
            checked.refusal = error
    return checked


def _say_what_may_help(error: EditError, checked: CheckedOps, model: str) -> None:
    """Has ERROR, of an engine that does not take the model, say what its list lacks, and what may help."""
    lacking = [printable(each.op) for each in checked.found.lacking]
    if lacking:
        error.details = (*error.details, f"{checked.engine.called}, by its op list, lacks {listed(lacking, 6)}")
    codes = {found.code for _, found in checked.helps() if found}
    error.facts["model"] = shlex.quote(printable(model))
    error.advice = ("freeze-first",) if "op-freeze" in codes else ()
    error.advice += ("inline-first",) if "op-inline" in codes else ()
    if may_all_go(checked.graph, checked.found.lacking):
        has_passes_of_its_own = checked.engine.name == "opencv"
        error.advice += ("simplify-for-opencv",) if has_passes_of_its_own else ("simplify-first",)


def _run(request: CheckOpsRequest, wanted: EngineRequest, graph: Graph, progress: Progress) -> EngineRun:
    from gdsurgeon.analysis.checks.check import require_sound
    from gdsurgeon.feeds.given import as_meant
    from gdsurgeon.proof.elsewhere import run_in_engine
    from gdsurgeon.proof.executor import Executor

    if wanted.place is not None and not os.path.exists(wanted.place):
        raise UsageError(
            Line("{run_in} {path}: there is no such wheel or folder", path=printable(wanted.place)),
            code="no-such-file",
            facts={"option": "run_in", "file": wanted.place},
        )
    require_sound(graph)
    wanted = replace(wanted, outputs=[graph.tensor(tensor_meant(graph, name)).name for name in wanted.outputs])
    reads = (*request.settings.reads, *reads_of(request.model, request.wanted))
    executor = Executor(request.settings._replace(reads=reads))
    executor.progress = progress
    with executor:
        return run_in_engine(executor, graph, as_meant(request.overrides, graph), wanted)


def _help(checked: CheckedOps, lacking: LackingOp) -> Help | None:
    op = lacking.op
    if op in CALLS:
        return Help("op-inline", {})
    if op in HANDING_ON and is_read(checked.graph, lacking):
        return Help("op-simplify", {})
    if is_variable(op) or changes_variable(op) or op == "ReadVariableOp":
        return Help("op-freeze", {})
    if lacking.is_select:
        return Help("op-select", {})
    return _older(checked.engine, op)


def _older(asked: Engine, op: str) -> Help | None:
    """The older form of OP, where the engine takes that, and a release that has it."""
    from gdsurgeon.edits.downgrade.forms import RULES
    from gdsurgeon.ops.releases import names_with, releases

    rule, known = RULES.get(op), names_with(op)
    older = rule.to.partition(",")[0] if rule is not None else ""
    if not known or older not in asked.ops:
        return None
    names = [release.name for release in releases()]
    place = names.index(known[0])
    return Help("op-older", {"older": older, "release": names[place - 1]}) if place else None
