"""What a graph that an edit adds is held against: values that its user has from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.edits.claims import EditResult, Interface, LikeReference, Postprocessed, Preprocessed, SamePart


def against(result: EditResult, archive: str, *, rtol: float = 0.0, atol: float = 0.0) -> EditResult:
    """RESULT, which claims besides that what was added gives the values in ARCHIVE.

    Args:
        result: of add_preprocessing, add_postprocessing or insert.
        archive: an .npz file: what the placeholder of the added graph is fed, by its name, and what has to come of it,
            by the name of the result; those of further samples behind ``@1``, ``@2``, ...
        rtol, atol: by how much floats may differ.
    """
    for claim in result.claims:
        if isinstance(claim, Preprocessed):
            part, pairs = claim.pre, _ends(claim.inputs)
        elif isinstance(claim, Postprocessed):
            part, pairs = claim.post, _ends(claim.outputs)
        elif isinstance(claim, SamePart):
            part, pairs = claim.part, tuple((name, mine) for name in claim.inputs for mine, _ in claim.outputs)
        else:
            continue
        result.claims = (*result.claims, LikeReference(part, pairs, archive, rtol, atol))
    return result


def _ends(interfaces: Sequence[Interface]) -> tuple[tuple[str, str], ...]:
    return tuple((interface.part_input, interface.part_result) for interface in interfaces)
