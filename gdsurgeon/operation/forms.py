"""The forms in which an operation writes a graph: a binary GraphDef, and its text; `saved_models` has the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gdsurgeon.errors import OutputError, printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.output import Output
from gdsurgeon.wire.write import Chunk, SourceSpan, read_chunks, size_of

FormName = Literal["model", "graph", "saved_model", "slim"]
"""See `gdsurgeon.operation.edit.Request`."""
LARGEST = (1 << 31) - 1
"""Bytes of the largest GraphDef that TensorFlow can load."""


class Form:
    """A binary GraphDef, and the base class of the other forms. A form is written when it is made.

    Attributes:
        chunks: of the file.
        graph: chunks of the binary graph in it.
        served: keys of the signatures whose functions for tf.saved_model.load changed; None: it need not load the file.

    Raises:
        OutputError: it is larger than TensorFlow can load.
    """

    served: Sequence[str] | None = None

    def __init__(self, graph: Graph) -> None:
        self.graph = self.chunks = graph.chunks()
        check_size(graph, self.graph)

    def check(self, staged: str) -> None:
        """Compares the staged file with the expected model. A graph is compared elsewhere (`check_accounted`).

        Raises:
            ValidationError: it differs.
        """

    def loads_from(self, staged: str) -> str | bytes:
        """Returns the binary graph for the proof: the path of its file, or its bytes."""
        return staged


class TextForm(Form):
    """A GraphDef as text. The proof loads the graph that is read from the text."""

    def __init__(self, graph: Graph, output: Output) -> None:
        super().__init__(graph)
        binary = read_chunks(self.graph)
        if graph.text is not None and not graph.is_changed:
            self.chunks = [SourceSpan(graph.text, 0, graph.text.size)]
        else:
            from gdsurgeon.wire.text import to_binary, to_text

            text = to_text(binary)
            self.chunks, binary = [text], to_binary(text, output.name)
        self._binary = binary
        self.graph = [binary]

    def loads_from(self, staged: str) -> str | bytes:
        return self._binary


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
