"""What of a model is meant, as the user says it; nothing heavy is imported for it."""

from __future__ import annotations

from typing import NamedTuple


class Wanted(NamedTuple):
    """What of a model is meant.

    Attributes:
        tags: of the MetaGraph; () where there is one alone, or one to serve.
        signatures: keys of the selected signatures; () for all.
        checkpoint: prefix of the checkpoint; '' for the model's own.
    """

    tags: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    checkpoint: str = ""


ALL = Wanted()
"""All of it."""
