"""Opens a model: a GraphDef, the folder of a SavedModel, a MetaGraph."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.arguments import StrPath, public
from gdsurgeon.container.checkpoint.open import listed
from gdsurgeon.container.files import ASSETS, GRAPH_FILE, TEXT_FILE, VARIABLES, saved_model_at
from gdsurgeon.container.wanted import ALL, Wanted
from gdsurgeon.errors import unreadable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_source
from gdsurgeon.wire import sniff
from gdsurgeon.wire.folder import State, state_of
from gdsurgeon.wire.source import STANDARD_INPUT, STANDARD_INPUT_NAME, BytesSource, Source, Window, open_source

if TYPE_CHECKING:
    from gdsurgeon.container.container import Container


class Model(NamedTuple):
    """A graph, and the container around it; None where it is a GraphDef of its own."""

    graph: Graph
    container: Container | None


@public
def load(path: StrPath) -> Graph:
    """The graph in the file or folder PATH (``-``: standard input).

    It is a GraphDef in binary or text form, or the GraphDef inside a SavedModel or a MetaGraph.

    Raises:
        InputError: it cannot be read, or is something else; the message says what.
        UsageError: a SavedModel has several graphs.
    """
    return open_model(os.fspath(path)).graph


def open_model(path: str, wanted: Wanted = ALL) -> Model:
    """The model at PATH; of several graphs or signatures those that are WANTED. Raises: see `load`."""
    found = _opened(path, wanted)
    if wanted.checkpoint and found.container is not None:
        from gdsurgeon.container.leading import check_fits

        check_fits(found.container.meta, wanted.checkpoint)
    return found


def _opened(path: str, wanted: Wanted) -> Model:
    folder = model_folder(path)
    if folder:
        return _in_folder(folder, wanted, STANDARD_INPUT_NAME if path in STANDARD_INPUT else folder)
    path = meta_of(path)
    is_named = path not in STANDARD_INPUT
    if is_named and (os.path.isdir(path) or not os.path.exists(path)):
        _check_whole(path)
    source = open_source(path)
    window = Window(source, 0, source.size)
    if sniff.is_binary_graph(window):
        return Model(from_source(source), None)
    if sniff.container_format(window) is not sniff.META_GRAPH:
        if is_named and os.path.isfile(path):
            _check_whole(path)
        return Model(from_source(source), None)
    from gdsurgeon.container.container import MetaGraphFile

    found = MetaGraphFile(path, source, wanted)
    return Model(found.graph, found)


def model_folder(path: str) -> str:
    """The folder of the SavedModel at PATH, that which has come at standard input as a tar stream included; ''.

    Raises:
        InputError: the archive is broken, or holds no SavedModel.
        OutputError: it cannot be unpacked.
    """
    if path not in STANDARD_INPUT:
        return saved_model_at(path)
    from gdsurgeon.container.incoming import arrived

    return arrived()


def _check_whole(path: str) -> None:
    from gdsurgeon.container.leading import check_whole

    check_whole(path)


def meta_of(path: str) -> str:
    """The MetaGraph of the checkpoint with the prefix PATH, where there is one; else PATH."""
    if path in STANDARD_INPUT or not os.path.isfile(f"{path}.meta"):
        return path
    if os.path.exists(path):
        from gdsurgeon.container.checkpoint.table import is_table

        source = open_source(path)
        is_checkpoint = is_table(source)  # in one file, as checkpoints of TensorFlow 1 were
        source.close()
        if not is_checkpoint:
            return path
    return f"{path}.meta"


def reads_of(path: str, wanted: Wanted = ALL) -> tuple[str, ...]:
    """The files and folders that TensorFlow reads where the model at PATH is restored; they may not be there."""
    if path in STANDARD_INPUT:
        from gdsurgeon.container.incoming import room

        return (folder,) if (folder := room()) else ()
    folder = saved_model_at(path)
    prefix = wanted.checkpoint
    own = [os.path.join(folder, name) for name in (VARIABLES, ASSETS)] if folder else []
    if not prefix and not folder:
        meta = meta_of(path)
        prefix = meta.removesuffix(".meta") if meta.endswith(".meta") else ""
    if prefix:
        beside, name = os.path.split(prefix)
        own += [os.path.join(beside, found) for found in listed(beside) if found.startswith(name)]
    return tuple(own)


def _in_folder(folder: str, wanted: Wanted, name: str) -> Model:
    from gdsurgeon.container.container import SavedModel

    files = folder_state(folder)
    path = os.path.join(folder, GRAPH_FILE)
    source = open_source(path) if os.path.isfile(path) else _from_text(os.path.join(folder, TEXT_FILE))
    source.name = name
    found = SavedModel(folder, source, wanted, files)
    return Model(found.graph, found)


def folder_state(folder: str) -> State:
    """The state of FOLDER, a SavedModel. Raises InputError: something in it is neither a file nor a folder."""
    try:
        return state_of(folder)
    except OSError as error:
        raise unreadable(folder, error) from error


def _from_text(path: str) -> Source:
    """The bytes that the text of a SavedModel stands for."""
    from gdsurgeon.wire.text import to_binary

    source = open_source(path)
    return BytesSource(to_binary(source.read(0, source.size), source.name, "SavedModel"), path)
