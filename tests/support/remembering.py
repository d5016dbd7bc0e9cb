"""What TensorFlow has said once of a graph, for all tests that ask it of that graph."""

from __future__ import annotations

import copy
import hashlib

from gdsurgeon.runtime.base import Backward, Derivation
from gdsurgeon.runtime.evaluator import Differentiator

_derived: dict[tuple[bytes, Derivation], Backward] = {}


class RememberingDifferentiator(Differentiator):
    """A differentiator that computes each backward pass once: mutants of a graph with gradients share the passes."""

    def derive(self, data: bytes, wanted: Derivation) -> Backward:
        asked = hashlib.sha256(data).digest(), wanted
        if asked not in _derived:
            _derived[asked] = super().derive(data, wanted)
        return copy.deepcopy(_derived[asked])
