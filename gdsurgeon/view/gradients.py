"""The place of gradient nodes: in their own scopes, or next to their forward nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SCOPE = re.compile(r"gradients(_[0-9]+)?|gradient_tape")
"""What TensorFlow calls the scope of gradients, and what this program does."""


def beside(names: Sequence[str]) -> list[str]:
    """Where NAMES are to lie: ``gradients/net/conv/Relu_grad/ReluGrad`` at ``net/conv/Relu_grad/ReluGrad``.

    Nodes without a counterpart among the forward nodes are not moved.
    """
    parts = [name.split("/") for name in names]
    begins = [next((i for i, part in enumerate(found[:-1], 1) if _SCOPE.fullmatch(part)), 0) for found in parts]
    forward = {name for name, begin in zip(names, begins, strict=True) if not begin}
    forward |= {"/".join(found[:1]) for found, begin in zip(parts, begins, strict=True) if not begin}
    out = list(names)
    for row, (found, begin) in enumerate(zip(parts, begins, strict=True)):
        if begin and found[begin].removesuffix("_grad") in forward:
            out[row] = "/".join(found[begin:])
    return out
