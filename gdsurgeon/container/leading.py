"""What leads on from a path that is no model, and has to do with one: a part of it, a folder that holds some.

The same for a checkpoint that belongs to a different model.
"""

from __future__ import annotations

import os
import re

from gdsurgeon.container.checkpoint.open import open_checkpoint, prefix_of
from gdsurgeon.container.files import FINGERPRINT, saved_model_at
from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.container.restoring import restored_keys
from gdsurgeon.errors import InputError, Json, printable, quoted
from gdsurgeon.text import counted, first_lines, named, near_miss

_STATE = re.compile(r'model_checkpoint_path: "([^"\n]+)"')
_OF_KERAS = "keras_metadata.pb"
MOST_NAMED = 10
"""Missing tensors of a checkpoint that are named."""


def check_whole(path: str) -> None:
    """Does nothing where PATH is no part of a model, and no folder.

    Raises:
        InputError: it is, and says what is meant by it.
    """
    state = _named_by(path)
    checkpoint = _checkpoint(path) if state is None else state
    parts = (FINGERPRINT, _OF_KERAS)
    if checkpoint or os.path.isdir(path) or os.path.basename(path) in parts:
        model = _model_of(checkpoint or path)
        if model:
            raise _meant(f"{printable(path)} is only a part of a model", model)
    if checkpoint:
        what = f"names the checkpoint {printable(checkpoint)}" if state is not None else "is a checkpoint"
        raise _no_graph(f"{printable(path)} {what}", checkpoint)
    if os.path.isdir(path):
        raise _folder(path)


def check_fits(model: MetaGraph, prefix: str) -> None:
    """Raises InputError where the checkpoint PREFIX lacks tensors that MODEL is restored from; they are named."""
    with open_checkpoint(prefix) as checkpoint:
        wanted = dict.fromkeys(key.tensor for key in restored_keys(model).values())
        missing = [key for key in wanted if key not in checkpoint]
        lines = [f"{quoted(key)}.{near_miss(key, checkpoint.keys)}".rstrip(".") for key in missing[:MOST_NAMED]]
    if missing:
        name, source = printable(prefix), printable(model.graph.source_name)
        raise InputError(
            f"{name} lacks {len(missing):,} of the {counted(len(wanted), 'tensor')} that {source} restores:",
            details=first_lines(lines + missing[MOST_NAMED:], MOST_NAMED),
            code="no-such-tensor",
            advice="rename-keys",
            facts={"prefix": name, "key": missing[0], "count": len(missing)},
        )


def _model_of(path: str) -> str:
    """The model that PATH, a file, a folder or the prefix of a checkpoint, is a part of; ''."""
    if os.path.isfile(f"{path}.meta"):
        return path
    folder = os.path.abspath(path)
    for _ in range(2):  # the files of a model lie in its folder, or in one below
        folder = os.path.dirname(folder)
        if saved_model_at(folder):
            return os.path.relpath(folder) if not os.path.isabs(path) else folder
    return ""


def _named_by(path: str) -> str | None:
    """The prefix of the checkpoint that PATH names, a ``checkpoint`` file; None where it is no such file."""
    if os.path.basename(path) != "checkpoint" or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        found = _STATE.match(file.read(1 << 16))
    return os.path.join(os.path.dirname(path), found[1]) if found is not None else None


def _checkpoint(path: str) -> str:
    """The prefix of the checkpoint that PATH is, or is a file of; ''."""
    if os.path.isdir(path) or path.endswith(".meta"):
        return ""
    try:
        open_checkpoint(path).close()
    except InputError:
        return ""
    return prefix_of(path)


def _folder(path: str) -> InputError:
    """Returns the error for a folder that is not a SavedModel."""
    name = printable(path)
    try:
        there = sorted(os.listdir(path))
    except OSError:
        there = []
    models = [entry for entry in there if saved_model_at(os.path.join(path, entry))]
    if models:
        what = f"{name} is a folder of SavedModels ({named(models)})"
        return _meant(what, os.path.join(path, max(models, key=lambda entry: (entry.isdigit() and int(entry), entry))))
    checkpoints = [entry.removesuffix(".index") for entry in there if entry.endswith(".index")]
    if checkpoints:
        prefix = os.path.join(path, checkpoints[-1])
        what = f"{name} is a folder with a checkpoint ({named(checkpoints)})"
        return _meant(what, prefix) if os.path.isfile(f"{prefix}.meta") else _no_graph(what, prefix)
    line = f"{name} is a directory without saved_model.pb, so it is not a SavedModel"
    return InputError(line, code="is-a-folder", facts={"file": path}, advice="which-models")


def _meant(what: str, model: str) -> InputError:
    return InputError(what, code="wrong-format", advice="whole-model", facts={"whole": printable(model)})


def _no_graph(what: str, prefix: str) -> InputError:
    facts: dict[str, Json] = {"prefix": printable(prefix)}
    return InputError(f"{what}, which has no graph", code="wrong-format", advice="no-graph", facts=facts)
