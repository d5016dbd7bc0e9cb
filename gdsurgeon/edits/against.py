"""Compares the results of an added graph with values that the user recorded."""

from __future__ import annotations

from gdsurgeon.edits.claims import EditResult, LikeReference, SameGiven, SamePart


def against(result: EditResult, archive: str, *, rtol: float = 0.0, atol: float = 0.0) -> EditResult:
    """Returns `result` with the additional claim that the added graph returns the values in `archive`.

    Args:
        result: of add_preprocessing, add_postprocessing or insert.
        archive: an .npz file with the values of the placeholders and of the results of the added graph, by name. The
            values of further samples have the names ``NAME@1``, ``NAME@2``, ...
        rtol, atol: by how much floats may differ.
    """
    for claim in result.claims:
        for part in (claim,) if isinstance(claim, SamePart) else claim.parts if isinstance(claim, SameGiven) else ():
            pairs = tuple((name, mine) for name, (mine, _) in zip(part.inputs, part.outputs, strict=False))
            result.claims = (*result.claims, LikeReference(part.part, pairs, archive, rtol, atol))
    return result
