"""Opens a model: a GraphDef, the folder of a SavedModel, a MetaGraph; or reports the model that a path belongs to."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.arguments import StrPath, public
from gdsurgeon.container.files import ALL, ASSETS, FINGERPRINT, GRAPH_FILE, TEXT_FILE, VARIABLES, Wanted, saved_model_at
from gdsurgeon.errors import InputError, printable, quoted, unreadable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_source
from gdsurgeon.text import counted, first_lines, named, near_miss
from gdsurgeon.wire import sniff
from gdsurgeon.wire.folder import State, state_of
from gdsurgeon.wire.source import STANDARD_INPUT, STANDARD_INPUT_NAME, BytesSource, Source, Window, open_source

if TYPE_CHECKING:
    from gdsurgeon.container.container import Container
    from gdsurgeon.container.meta_graph import MetaGraph


class Model(NamedTuple):
    """A graph, and its container; the container is None if the file is a GraphDef."""

    graph: Graph
    container: Container | None


@public
def load(path: StrPath) -> Graph:
    """Returns the graph in the file or folder `path` (``-``: standard input).

    It is a GraphDef in binary or text form, or the GraphDef inside a SavedModel or a MetaGraph.

    Raises:
        InputError: it cannot be read, or has a different format, which the message names.
        UsageError: a SavedModel has several graphs.
    """
    return open_model(os.fspath(path)).graph


def open_model(path: str, wanted: Wanted = ALL) -> Model:
    """Returns the model at `path`; `wanted` selects among several graphs or signatures. Raises: see `load`."""
    found = _opened(path, wanted)
    if wanted.checkpoint and found.container is not None:
        check_fits(found.container.meta, wanted.checkpoint)
    return found


def _opened(path: str, wanted: Wanted) -> Model:
    folder = model_folder(path)
    if folder:
        return _in_folder(folder, wanted, STANDARD_INPUT_NAME if path in STANDARD_INPUT else folder)
    path = meta_of(path)
    is_named = path not in STANDARD_INPUT
    if is_named and (os.path.isdir(path) or not os.path.exists(path)):
        check_whole(path)
    source = open_source(path)
    window = Window(source, 0, source.size)
    if sniff.is_binary_graph(window):
        return Model(from_source(source), None)
    if sniff.container_format(window) is not sniff.META_GRAPH:
        if is_named and os.path.isfile(path):
            check_whole(path)
        return Model(from_source(source), None)
    from gdsurgeon.container.container import Container

    found = Container(path, source, wanted)
    return Model(found.graph, found)


def model_folder(path: str) -> str:
    """Returns the folder of the SavedModel at `path`, or ''; a tar stream on standard input is unpacked to a folder.

    Raises:
        InputError: the archive is broken, or holds no SavedModel.
        OutputError: it cannot be unpacked.
    """
    if path not in STANDARD_INPUT:
        return saved_model_at(path)
    from gdsurgeon.container.tar import arrived

    return arrived()


def meta_of(path: str) -> str:
    """Returns the MetaGraph file of the checkpoint with the prefix `path` if there is one; else `path`."""
    if path in STANDARD_INPUT or not os.path.isfile(f"{path}.meta"):
        return path
    if os.path.exists(path):
        from gdsurgeon.container.checkpoint.table import is_table

        source = open_source(path)
        is_checkpoint = is_table(source)  # a checkpoint in one file, as in TensorFlow before 1.0
        source.close()
        if not is_checkpoint:
            return path
    return f"{path}.meta"


def reads_of(path: str, wanted: Wanted = ALL) -> tuple[str, ...]:
    """Returns the paths that TensorFlow reads to restore the model at `path`; some may not exist."""
    if path in STANDARD_INPUT:
        from gdsurgeon.container.tar import room

        return (folder,) if (folder := room()) else ()
    folder = saved_model_at(path)
    prefix = wanted.checkpoint
    own = [os.path.join(folder, name) for name in (VARIABLES, ASSETS)] if folder else []
    if not prefix and not folder:
        meta = meta_of(path)
        prefix = meta.removesuffix(".meta") if meta.endswith(".meta") else ""
    if prefix:
        from gdsurgeon.container.checkpoint.open import listed

        beside, name = os.path.split(prefix)
        own += [os.path.join(beside, found) for found in listed(beside) if found.startswith(name)]
    return tuple(own)


def _in_folder(folder: str, wanted: Wanted, name: str) -> Model:
    from gdsurgeon.container.container import Container

    files = folder_state(folder)
    path = os.path.join(folder, GRAPH_FILE)
    source = open_source(path) if os.path.isfile(path) else _from_text(os.path.join(folder, TEXT_FILE))
    source.name = name
    found = Container(folder, source, wanted, files)
    return Model(found.graph, found)


def folder_state(folder: str) -> State:
    """Returns the state of the SavedModel `folder`. Raises InputError: it contains a link or a special file."""
    try:
        return state_of(folder)
    except OSError as error:
        raise unreadable(folder, error) from error


def _from_text(path: str) -> Source:
    """Returns the binary form of the text SavedModel at `path`, as a source."""
    from gdsurgeon.wire.text import to_binary

    source = open_source(path)
    return BytesSource(to_binary(source.read(0, source.size), source.name, "SavedModel"), path)


_OF_KERAS = "keras_metadata.pb"
MOST_NAMED = 10
"""Missing tensors of a checkpoint that are named."""


def check_whole(path: str) -> None:
    """Checks that `path` is neither a folder nor only a part of a model.

    Raises:
        InputError: `path` is a folder or a part of a model; the message suggests the model to use.
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
    """Raises InputError, with their names, if the checkpoint `prefix` lacks tensors that `model` restores."""
    from gdsurgeon.container.checkpoint.open import open_checkpoint
    from gdsurgeon.container.restoring import restored_keys

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
            prefix=name,
            key=missing[0],
            count=len(missing),
        )


def _model_of(path: str) -> str:
    """Returns the model that contains `path`, a file, a folder or a checkpoint prefix; '' if not found."""
    if os.path.isfile(f"{path}.meta"):
        return path
    folder = os.path.abspath(path)
    for _ in range(2):  # the files of a model lie in its folder, or in one below
        folder = os.path.dirname(folder)
        if saved_model_at(folder):
            return os.path.relpath(folder) if not os.path.isabs(path) else folder
    return ""


def _named_by(path: str) -> str | None:
    """Returns the checkpoint prefix recorded in `path`, a ``checkpoint`` file; None if it is not such a file."""
    if os.path.basename(path) != "checkpoint" or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        found = re.match(r'model_checkpoint_path: "([^"\n]+)"', file.read(1 << 16))
    return os.path.join(os.path.dirname(path), found[1]) if found is not None else None


def _checkpoint(path: str) -> str:
    """Returns the prefix of the checkpoint at `path`, which is the prefix or a file of the checkpoint; else ''."""
    if os.path.isdir(path) or path.endswith(".meta"):
        return ""
    from gdsurgeon.container.checkpoint.open import open_checkpoint, prefix_of

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
    return InputError(line, code="is-a-folder", file=path, advice="which-models")


def _meant(what: str, model: str) -> InputError:
    return InputError(what, code="wrong-format", advice="whole-model", whole=printable(model))


def _no_graph(what: str, prefix: str) -> InputError:
    return InputError(f"{what}, which has no graph", code="wrong-format", advice="no-graph", prefix=printable(prefix))
