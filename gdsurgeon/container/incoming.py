"""What comes at standard input as a tar stream: the folder of a SavedModel, unpacked until the command ends."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gdsurgeon.errors import InputError, OutputError
from gdsurgeon.text import named
from gdsurgeon.wire.source import STANDARD_INPUT_NAME, head_of_standard_input, read_standard_input

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


class _Arrival:
    """What has come so far at one standard input.

    Attributes:
        stream: that standard input.
        room: the folder for unpacked files; None if it was not needed yet, or cannot be made.
        model: the folder of the model; '' if standard input is not a tar stream, None if not examined yet.
    """

    def __init__(self) -> None:
        self.stream: object = sys.stdin
        self.room: TemporaryDirectory[str] | None = None
        self.model: str | None = None


_arrival = _Arrival()


def _current() -> _Arrival:
    if _arrival.stream is not sys.stdin:
        forget()
    return _arrival


def forget() -> None:
    """Removes what was unpacked."""
    if _arrival.room is not None:
        _arrival.room.cleanup()
    _arrival.__init__()  # type: ignore[misc]


def room() -> str:
    """The folder in which a model will be unpacked, should one come; '' where none can be made."""
    found = _current()
    if found.room is None:
        from tempfile import TemporaryDirectory

        try:
            found.room = TemporaryDirectory(prefix="gdsurgeon-", suffix=".tmp", ignore_cleanup_errors=True)
        except OSError:
            return ""
    return found.room.name


def arrived() -> str:
    """The folder of the SavedModel that has come as a tar stream; '' where something else comes.

    Raises:
        InputError: the archive is broken, or holds no SavedModel.
        OutputError: it cannot be unpacked.
    """
    found = _current()
    if found.model is None:
        from gdsurgeon.container.tar import BLOCK, is_tar

        found.model = _unpacked(room()) if is_tar(head_of_standard_input(BLOCK)) else ""
    return found.model


def _unpacked(folder: str) -> str:
    from gdsurgeon.container.files import saved_model_at
    from gdsurgeon.container.tar import unpack

    if not folder:
        line = f"{STANDARD_INPUT_NAME} cannot be unpacked: no folder for temporary files was found"
        raise OutputError(line, code="unwritable", facts={"file": STANDARD_INPUT_NAME})
    unpack(read_standard_input, folder, STANDARD_INPUT_NAME)
    there = os.listdir(folder)
    for model in (folder, *(os.path.join(folder, name) for name in there if len(there) == 1)):
        if saved_model_at(model):
            return model
    line = f"{STANDARD_INPUT_NAME} is a tar archive without a SavedModel; it contains {named(sorted(there))}"
    raise InputError(line, code="wrong-format", facts={"file": STANDARD_INPUT_NAME, "found": sorted(there)})
