"""Checks whether a different engine supports a model, by the list of its ops, and by running the model."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gdsurgeon.analysis.queries.compatibility import LackingOp, OpsOfGraph, lacking_ops
from gdsurgeon.arguments import StrPath, path_of, public
from gdsurgeon.container.files import Wanted
from gdsurgeon.container.load import open_model, reads_of
from gdsurgeon.edits.simplifying.engines import HANDING_ON, is_read, may_all_go
from gdsurgeon.errors import EditError, Json, Line, UsageError, printable, quoted
from gdsurgeon.feeds.overrides import Feeds, Shapes, overrides_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.served import tensor_meant
from gdsurgeon.ops.kinds import CALLS, changes_variable, is_variable
from gdsurgeon.ops.releases import TITLES, Engine
from gdsurgeon.ops.releases import engine as ops_of_engine
from gdsurgeon.proof.settings import Progress, Settings, silent
from gdsurgeon.text import listed
from gdsurgeon.values import Data

if TYPE_CHECKING:
    from gdsurgeon.proof.elsewhere import EngineRun


Help = tuple[str, dict[str, Json]]
"""Advice for an unsupported op: its code, as in errors, and its facts."""


@dataclass(eq=False, repr=False)
class CheckedOps(Data):
    """The result of a check.

    Attributes:
        graph: of the model.
        engine: with its list of ops.
        found: the ops that the list lacks.
        run: the run in the engine; None if it did not run.
        refusal: why the engine does not load or run the model; None if it does, or was not used.
    """

    graph: Graph
    engine: Engine
    found: OpsOfGraph
    run: EngineRun | None = None
    refusal: EditError | None = None

    def helps(self) -> dict[str, Help]:
        """Returns the advice for unsupported ops, by their names."""
        return {each.op: found for each in self.found.lacking if (found := _help(self, each)) is not None}


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
    tags: Sequence[str] = (),
    signatures: Sequence[str] = (),
    checkpoint: StrPath = "",
    feeds: Feeds | None = None,
    archive: StrPath | None = None,
    shapes: Shapes | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> CheckedOps:
    """Lists the ops of the model in the file `model` that `engine` (``opencv``, ``openvino``, ``tflite``, ...) lacks.

    Args:
        model: a path.
        engine: its name.
        run: also run the model in the engine, and compare its outputs with TensorFlow's.
        place: a wheel or a folder of the engine; None: it is installed.
        outputs: the tensors to compare; by default the outputs.
        rtol, atol: how much floats may differ, element by element.
        tags, signatures, checkpoint: the part of a SavedModel or MetaGraph to use.
        feeds, archive, shapes, settings, progress: as for `operate`.

    Raises:
        InputError: the model cannot be read.
        UsageError, ValidationError, NotValidatedError: see `gdsurgeon.proof.elsewhere.run_in_engine`.
    """
    if engine not in TITLES:
        raise UsageError(
            f"{quoted(engine)} is not a known engine; known are {', '.join(TITLES)}",
            code="no-engine",
            name=engine,
        )
    path, wanted = os.fspath(model), Wanted(tuple(tags), tuple(signatures), os.fspath(checkpoint))
    graph, ops = open_model(path, wanted).graph, ops_of_engine(engine)
    checked = CheckedOps(graph, ops, lacking_ops(graph, ops))
    if not run:
        return checked
    from gdsurgeon.analysis.checks.check import require_sound
    from gdsurgeon.feeds.given import as_meant
    from gdsurgeon.proof.elsewhere import EngineRequest, run_in_engine
    from gdsurgeon.proof.executor import Executor

    there = path_of(place)
    if there is not None and not os.path.exists(there):
        raise UsageError(
            Line("{run_in} {path}: there is no such wheel or folder", path=printable(there)),
            code="no-such-file",
            option="run_in",
            file=there,
        )
    settings = (settings or Settings()).reading(reads_of(path, wanted))
    try:
        require_sound(graph)
        tensors = [graph.tensor(tensor_meant(graph, name)).name for name in outputs]
        request = EngineRequest(engine, there, tensors, rtol, atol)
        with Executor(settings, progress) as executor:
            overrides = as_meant(overrides_of(feeds, archive, shapes), graph)
            checked.run = run_in_engine(executor, graph, overrides, request)
    except EditError as error:
        if error.code != "not-loadable":
            raise
        _add_advice(error, checked, path)
        checked.refusal = error
    return checked


_FIRST = {"op-freeze": "freeze-first", "op-inline": "inline-first"}
"""Advice for a model, by the code of the advice for an op."""


def _add_advice(error: EditError, checked: CheckedOps, model: str) -> None:
    """Adds the ops that the list lacks, and advice, to the error of an engine that does not load the model."""
    lacking = [printable(each.op) for each in checked.found.lacking]
    if lacking:
        error.details = (*error.details, f"{checked.engine.called}, by its op list, lacks {listed(lacking, 6)}")
    codes = {code for code, _ in checked.helps().values()}
    error.facts["model"] = shlex.quote(printable(model))
    advice = [advice for code, advice in _FIRST.items() if code in codes]
    if may_all_go(checked.graph, checked.found.lacking):  # OpenCV has passes of its own
        advice.append("simplify-for-opencv" if checked.engine.name == "opencv" else "simplify-first")
    error.advice = tuple(advice)


def _help(checked: CheckedOps, lacking: LackingOp) -> Help | None:
    """Returns how to remove an unsupported op, such as by its older form, if the engine supports that."""
    op = lacking.op
    if op in CALLS:
        return ("op-inline", {})
    if op in HANDING_ON and is_read(checked.graph, lacking):
        return ("op-simplify", {})
    if is_variable(op) or changes_variable(op) or op == "ReadVariableOp":
        return ("op-freeze", {})
    if lacking.is_select:
        return ("op-select", {})
    from gdsurgeon.edits.downgrade.forms import RULES
    from gdsurgeon.ops.releases import names_with, releases

    rule, known = RULES.get(op), names_with(op)
    older = rule.to.partition(",")[0] if rule is not None else ""
    if not known or older not in checked.engine.ops:
        return None
    names = [release.name for release in releases()]
    place = names.index(known[0])
    return ("op-older", {"older": older, "release": names[place - 1]}) if place else None
