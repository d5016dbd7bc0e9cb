"""What nothing that stays depends on."""

from __future__ import annotations

from gdsurgeon.edits.simplifying.draft import Draft


def unread(draft: Draft) -> None:
    """Takes away what does not reach an output, and does nothing that lasts."""
    if draft.news("unread") == []:
        return
    needed = draft.topology.upstream(draft.roots)
    draft.remove([number for number in draft.topology.numbers() if not needed[number]], "unread")
