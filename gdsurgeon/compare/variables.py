"""The values of variables, which are in checkpoints: whether they are the same bytes there."""

from __future__ import annotations

from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.stored import Checkpoint, StoredTensor
from gdsurgeon.errors import InputError
from gdsurgeon.graph.graph import Graph


def has_value(graph: Graph, name: str) -> bool:
    """Returns whether `name` is a constant, or a variable with a value in a checkpoint."""
    serving = graph.serving
    if graph[name].op == "Const":
        return True
    return serving is not None and name in serving.keys and serving.keys[name].tensor in _checkpoint(graph)


def are_stored_alike(a: Graph, name: str, b: Graph, other: str) -> bool:
    """Whether what checkpoints have of two variables is the same by their checksums; False where these cannot tell."""
    one, two = _stored(a, name), _stored(b, other)
    if one is None or two is None or (one.dtype, one.shape, one.slices) != (two.dtype, two.shape, two.slices):
        return False
    sums = [[(p.crc, p.span.end - p.span.start) for p in stored.parts] for stored in (one, two)]
    return sums[0] == sums[1] and all(crc is not None for crc, _ in sums[0])


def _stored(graph: Graph, name: str) -> StoredTensor | None:
    serving = graph.serving
    if serving is None or name not in serving.keys:
        return None
    key = serving.keys[name]
    try:
        return None if key.slice else _checkpoint(graph).tensor(key.tensor)
    except InputError:
        return None


def _checkpoint(graph: Graph) -> Checkpoint:
    """The checkpoint of GRAPH, opened once. Raises InputError."""
    return graph.derived(_opened)


def _opened(graph: Graph) -> Checkpoint:
    assert graph.serving is not None
    return open_checkpoint(graph.serving.checkpoint)
