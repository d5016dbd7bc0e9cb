"""What is asked of a validation, and what of it contradicts itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from gdsurgeon.container.wanted import ALL, Wanted
from gdsurgeon.edits.parts import Mapped
from gdsurgeon.errors import Line, UsageError, joined
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.operation.paths import check_replaces_nothing
from gdsurgeon.proof.settings import Settings
from gdsurgeon.wire.output import STANDARD_OUTPUT


@dataclass
class ValidateRequest:
    """What to validate, and how.

    Attributes:
        model: a path, or ``-`` for standard input.
        other: likewise a model to compare it with, or None.
        level: how far to go: ``structure``, ``load`` or ``run``.
        names: pairs (name in the model, name in the other one).
        pre, post: paths of graphs that stand before and behind the model, or None.
        pre_map, post_map: how their ends are called where they do not follow the convention.
        outputs: tensors of the model that are looked at; none: all outputs.
        rtol, atol: by how much floats may differ; None: not at all (of two devices: as much as they do).
        devices: two devices to run the model on and compare; none: one, that of the settings.
        first_divergence: find the node that is to blame for a difference.
        lockstep: with that, give both models the same tensors.
        reduce: where to write the smallest piece that differs, or None.
        profile: measure the runs, node by node.
        save_outputs, save_feeds: .npz files to write, or None.
        golden: an .npz file with recorded outputs, or None.
        grappler: whether the verdict is also on the graphs as TensorFlow's optimiser makes them, as deployed ones run.
        strict: whether a difference between two models that no output shows is a failure.
        wanted: what of the models is meant.
        settings, overrides: how to run.
        all_recorded: whether as many samples are run as were recorded, if those are more.
        others: paths of what else is read.
        as_json: whether standard output is taken by the verdict.
    """

    model: str
    other: str | None = None
    level: str = "run"
    names: Sequence[tuple[str, str]] = ()
    pre: str | None = None
    post: str | None = None
    pre_map: Sequence[Mapped] = ()
    post_map: Sequence[Mapped] = ()
    outputs: Sequence[str] = ()
    rtol: float | None = None
    atol: float | None = None
    devices: tuple[str, ...] = ()
    first_divergence: bool = False
    lockstep: bool = False
    reduce: str | None = None
    profile: bool = False
    save_outputs: str | None = None
    save_feeds: str | None = None
    golden: str | None = None
    grappler: bool = True
    strict: bool = False
    wanted: Wanted = ALL
    settings: Settings = field(default_factory=Settings)
    overrides: Overrides = field(default_factory=Overrides)
    all_recorded: bool = True
    others: tuple[str, ...] = ()
    as_json: bool = False


def check_request(request: ValidateRequest) -> None:
    """Raises UsageError where options contradict each other."""
    two = request.other is not None or bool(request.devices)
    sources = [path for path in (request.model, request.other, request.pre, request.post) if path is not None]
    if sources.count("-") > 1:
        raise UsageError("only one graph can be read from standard input", code="conflicting-options")
    is_other, has_tolerance = request.other is not None, two or request.golden is not None
    for argument, given, is_there, needed in (
        (Line("{first_divergence}"), request.first_divergence, two, "two models"),
        (Line("{reduce}"), request.reduce is not None, two, "two models"),
        (Line("{names}"), bool(request.names), is_other, "two models"),
        (Line("{pre}"), request.pre is not None, is_other, "two models"),
        (Line("{post}"), request.post is not None, is_other, "two models"),
        (Line("{pre_map}"), bool(request.pre_map), request.pre is not None, Line("{pre}")),
        (Line("{post_map}"), bool(request.post_map), request.post is not None, Line("{post}")),
        (Line("{rtol}"), request.rtol is not None, has_tolerance, Line("two models, or {golden}")),
        (Line("{atol}"), request.atol is not None, has_tolerance, Line("two models, or {golden}")),
        (Line("{strict}"), request.strict, is_other, "two models"),
        (
            Line("{lockstep}"),
            request.lockstep,
            request.first_divergence or request.reduce is not None,
            Line("{first_divergence}"),
        ),
    ):
        if given and not is_there:
            raise UsageError(
                Line("{argument} needs {needed}", argument=argument, needed=needed),
                code="missing-option",
                facts={"option": argument, "expected": needed},
            )
    for argument, tolerance in ((Line("{rtol}"), request.rtol), (Line("{atol}"), request.atol)):
        if tolerance is not None and not math.isfinite(tolerance):
            line = "{argument} {tolerance}: a tolerance is a number"
            raise UsageError(
                Line(line, argument=argument, tolerance=str(tolerance)), code="bad-value", facts={"option": argument}
            )
    if request.devices and request.other is not None:
        raise UsageError(
            "with two devices, a model is compared with itself: give only one MODEL, or only one device",
            code="conflicting-options",
            facts={"option": "devices"},
        )
    if request.golden is not None and two:
        raise UsageError(
            Line("{golden} compares only one model with recorded outputs"),
            code="conflicting-options",
            facts={"option": "golden"},
        )
    idle = (request.golden, request.profile, request.save_outputs, request.save_feeds, request.outputs)
    if request.level != "run" and (two or any(idle)):
        line = "{level} {given} runs no graph, so nothing can be compared, measured or saved"
        raise UsageError(Line(line, given=request.level), code="conflicting-options", facts={"option": "level"})
    outputs = (
        (Line("{reduce}"), request.reduce),
        (Line("{save_outputs}"), request.save_outputs),
        (Line("{save_feeds}"), request.save_feeds),
    )
    written = [(argument, path) for argument, path in outputs if path is not None]
    streams = [argument for argument, path in written if path in STANDARD_OUTPUT] + [
        Line("{as_json}")
    ] * request.as_json
    if len(streams) > 1:
        raise UsageError(
            Line("{names} cannot all be written to standard output", names=joined(" and ", streams)),
            code="conflicting-options",
        )
    read = [*sources, *request.others, *((request.golden,) if request.golden is not None else ())]
    check_replaces_nothing(written, [path for path in read if path != "-"])
