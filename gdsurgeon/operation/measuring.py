"""Measures what an edit makes of a model, before it is decided what that is."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.container.load import reads_of
from gdsurgeon.operation.edit import Request
from gdsurgeon.proof.models.side_times import SideTimes
from gdsurgeon.proof.progress import Progress, silent


def side_times(request: Request, outputs: Sequence[str] = (), progress: Progress = silent) -> SideTimes:
    """What measures graphs that are made of the model of REQUEST, run as that says.

    OUTPUTS and PROGRESS are as in `gdsurgeon.proof.models.side_times.SideTimes`.
    """
    settings = request.settings
    settings = settings._replace(reads=(*settings.reads, *reads_of(request.model, request.wanted)))
    return SideTimes(settings, request.overrides, outputs, progress)
