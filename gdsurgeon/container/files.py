"""The names of the files in the folder of a SavedModel, and the selection of a part of a model."""

from __future__ import annotations

import os
from typing import NamedTuple

from gdsurgeon.wire.source import STANDARD_INPUT

GRAPH_FILE = "saved_model.pb"
TEXT_FILE = "saved_model.pbtxt"
FINGERPRINT = "fingerprint.pb"
VARIABLES = "variables"
CHECKPOINT = os.path.join(VARIABLES, "variables")
"""The prefix of the checkpoint."""
ASSETS = "assets"


def saved_model_at(path: str) -> str:
    """Returns the folder of the SavedModel at `path`, which is the folder or its graph file; '' if it is neither."""
    if path in STANDARD_INPUT:
        return ""
    folder, name = os.path.split(path)
    if name in (GRAPH_FILE, TEXT_FILE) and os.path.isfile(path):
        return folder or "."
    return path if any(os.path.isfile(os.path.join(path, name)) for name in (GRAPH_FILE, TEXT_FILE)) else ""


class Wanted(NamedTuple):
    """The selected part of a model.

    Attributes:
        tags: of the MetaGraph; () if there is only one, or one tagged ``serve``.
        signatures: keys of the selected signatures; () for all.
        checkpoint: prefix of the checkpoint; '' for the model's own.
    """

    tags: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    checkpoint: str = ""


ALL = Wanted()
"""All of it."""
