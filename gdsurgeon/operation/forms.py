"""The forms in which an operation writes a graph: a binary GraphDef, and its text; `saved_models` has the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gdsurgeon.errors import OutputError, Remark, ValidationError, printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.values import Data
from gdsurgeon.wire.output import Output
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks, resolved, size_of

MOST = 100
"""Faults or differences that an error lists."""
FormName = Literal["model", "graph", "saved_model", "slim"]
"""See `gdsurgeon.operation.edit.Request`."""
LARGEST = (1 << 31) - 1
"""Bytes of the largest GraphDef that TensorFlow can load."""


@dataclass(eq=False, repr=False)
class Form(Data):
    """An edited model in the form in which it is written.

    Attributes:
        chunks: of the file.
        graph: chunks of the binary graph in it; the same list if the file is only this graph.
        check: compares the staged file with the expected model, and raises ValidationError if it differs. A graph is
            compared elsewhere (`check_accounted`).
        served: keys of the signatures whose functions for tf.saved_model.load changed; None: it need not load the file.
    """

    chunks: list[Chunk]
    graph: list[Chunk]
    check: Callable[[str], None] = lambda _staged: None
    served: Sequence[str] | None = None


def written(graph: Graph, output: Output, *, text: bool) -> Form:
    """Returns a graph as it is written: as text, or binary. The proof of a text loads the graph that is read from it.

    Raises:
        OutputError: it is larger than TensorFlow can load.
    """
    chunks = list(resolved(graph.chunks()))
    check_size(graph, chunks)
    if not text:
        return Form(chunks, chunks)
    if graph.text is not None and not graph.is_changed:
        return Form([SourceSpan(graph.text, 0, graph.text.size)], [read_chunks(chunks)])
    from gdsurgeon.wire.text import to_binary, to_text

    data = to_text(read_chunks(chunks))
    return Form([data], [to_binary(data, output.name)])


def unsound(message: str, faults: Sequence[Remark]) -> ValidationError:
    """Returns the error for a result with `faults`."""
    listed = faults[:MOST]
    facts = [fault.as_json() for fault in listed]
    return ValidationError(message, details=tuple(listed), code="unsound-graph", faults=facts)


def check_size(graph: Graph, chunks: Sequence[Chunk]) -> None:
    """Raises OutputError if a file with `chunks`, which contains `graph`, is larger than TensorFlow can load."""
    size = size_of(chunks)
    if size <= LARGEST:
        return
    sizes = [(node.record.end - node.record.start, node) for node in graph.nodes() if node.record is not None]
    details = tuple(
        f"{printable(node.name)} ({printable(node.op)}): {length / 2**20:,.1f} MiB"
        for length, node in sorted(sizes, key=lambda item: item[0])[:-6:-1]
        if length > 1 << 20
    )
    raise OutputError(
        f"the result would be {size / 2**30:.2f} GiB, but TensorFlow loads no GraphDef of 2 GiB or more; "
        "the largest nodes:",
        details=details,
        code="too-large",
    )
