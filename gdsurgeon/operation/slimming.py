"""What a slim SavedModel holds beside its graph: a checkpoint with the tensors that it restores, and its assets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.container.checkpoint.bundle import Shard, index_path, shard_path
from gdsurgeon.container.checkpoint.edit import Edited, check_identical, edit, rewritten
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.files import ASSETS, CHECKPOINT
from gdsurgeon.container.mentions import respell
from gdsurgeon.container.meta_graph import MetaGraph
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.served import serving_of, tensor_now
from gdsurgeon.graph.serving import INIT, Saver, Serving
from gdsurgeon.operation.making import TAG, put_initialising, put_saver
from gdsurgeon.operation.saver_around import put_variables
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.wire.protos import MetaGraphDef
from gdsurgeon.wire.source import open_source
from gdsurgeon.wire.write import Chunk, SourceSpan


class Beside(NamedTuple):
    """What is in the folder of a SavedModel beside its graph.

    Attributes:
        files: by their paths in the folder.
        tensors: what its checkpoint is to hold; None where it has none.
    """

    files: Mapping[str, Shard]
    tensors: Edited | None


def beside(graph: Graph) -> Beside:
    """What belongs beside GRAPH, as it is served.

    Raises:
        EditError: its checkpoint has no value for a variable.
        InputError: the checkpoint or an asset cannot be read.
    """
    serving = serving_of(graph) or Serving()
    files: dict[str, Sequence[Chunk]] = {}
    tensors = None
    if serving.saver is not None:
        tensors = _tensors(serving.checkpoint, serving.saver)
        made = rewritten(tensors)
        (shard,) = made.shards
        assert not isinstance(shard, str)
        files = {index_path(CHECKPOINT): [made.table], shard_path(CHECKPOINT, 0, 1): shard}
    for path in serving.initialising.feeds.values() if serving.initialising is not None else ():
        source = open_source(path)
        files[os.path.join(ASSETS, os.path.basename(path))] = [SourceSpan(source, 0, source.size)]
    return Beside(files, tensors)


def _tensors(prefix: str, saver: Saver) -> Edited:
    """The tensors of the checkpoint PREFIX from which SAVER restores variables."""
    checkpoint = open_checkpoint(prefix)
    wanted = {saved.key.tensor: saved.variable for saved in saver.variables}
    for key, variable in wanted.items():
        if key not in checkpoint:
            near = nearest(key, checkpoint.keys)
            what = f"has no tensor {quoted(key)}, from which the variable {quoted(variable)} is restored"
            facts = {"file": prefix, "tensor": key, "node": variable, "near": near}
            raise EditError(
                f"{printable(prefix)} {what}.{suggestion(near)}".rstrip("."), code="no-such-tensor", facts=facts
            )
    return edit(checkpoint, {}, frozenset(checkpoint.keys) - wanted.keys(), {})


def around(meta: MetaGraph) -> MetaGraphDef:
    """What stands around the graph of META once that is slim: no objects, and what is known of its signatures.

    Variables are listed as TensorFlow 1 lists them, by which tf.saved_model.load makes them variables again.
    """
    graph, serving = meta.graph, serving_of(meta.graph) or Serving()
    old, new = meta.around, MetaGraphDef()
    for key in serving.signatures:
        if key != INIT:
            new.signature_def[key].CopyFrom(old.signature_def[key])
    respell(new, lambda text: tensor_now(graph, text))
    new.meta_info_def.tags.extend(sorted(meta.tags) or [TAG])
    new.meta_info_def.tensorflow_version = old.meta_info_def.tensorflow_version
    put_initialising(new, serving)
    if serving.saver is not None:
        put_saver(new, serving.saver)
        put_variables(new, serving.saver, meta)
    return new


def check_beside(path: str, wanted: Beside) -> None:
    """Compares the checkpoint next to the file PATH, as it is written, with the tensors that are WANTED.

    Raises:
        ValidationError: it is another.
    """
    if wanted.tensors is not None:
        with open_checkpoint(os.path.join(os.path.dirname(path), CHECKPOINT)) as checkpoint:
            check_identical(checkpoint, wanted.tensors)
