"""Whether the structural check and TensorFlow's import say the same of a graph, and where they are not to."""

from __future__ import annotations

import re

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.load import from_bytes
from support.importer import Importer

OF_TENSORFLOW_ALONE = {
    "with input shapes: |No shape inference function|instantiation included invalid": "shapes are inferred at `load`",
    "Op type not registered": "an op may be in a library of the user's: a warning",
    "expects to be colocated with unknown node": "a warning: the node is written anew without it",
    "Control dependencies must come after": "a warning: the node is written anew in order",
    "Failed to bind all placeholders": "whether a call gives an attr is known where it is called",
}
"""What TensorFlow says when it refuses what `structure` takes, and why that is so."""

OF_STRUCTURE_ALONE = {
    r"call each other in an endless recursion": "TensorFlow crashes when it runs the graph",
    r"has several (in|out)puts named|\d+ functions have the name|has no name|has no ret for|^(control_)?ret ":
        "TensorFlow looks at a function where it is called",
    r"of function '": "TensorFlow looks at a function where it is called, and at attrs where it makes the kernel",
    r"the tensor in attr|its dtype attr is": "TensorFlow looks at a tensor where it makes the kernel",
    r"the function '.*', which the library does not have": "TensorFlow looks for a function where it is called",
    r"refers to an attr of a function": "no kernel can be made of it",
    r"it has no nodes": "it is an empty file, most likely",
    r"is a shape (of|with)": "where no shape is inferred from it, making the kernel fails",
}  # fmt: skip
"""What `structure` says when it refuses what TensorFlow imports, and why that is so."""


def disagreement(importer: Importer, data: bytes) -> str:
    """What the two say of the graph in DATA where they differ and no reason is known; else ''."""
    refusal, faults = importer.refusal(data), _faults(data)
    if refusal is None or bool(refusal) == bool(faults):
        return ""  # None: it has crashed, in the inference of shapes
    said, known = (refusal, OF_TENSORFLOW_ALONE) if refusal else (faults[0], OF_STRUCTURE_ALONE)
    if any(re.search(words, said) for words in known):
        return ""
    return f"TensorFlow alone: {said}" if refusal else f"structure alone: {said}"


def _faults(data: bytes) -> list[str]:
    try:
        return check(from_bytes(data)).faults
    except GdsurgeonError as error:
        return [str(error)]
