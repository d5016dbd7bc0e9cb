"""Identities: who reads one reads what it reads."""

from __future__ import annotations

from collections.abc import Container

from gdsurgeon.edits.simplifying.draft import Draft

IDENTITIES = frozenset(("Identity", "Snapshot"))
STOPS = frozenset(("StopGradient", "PreventGradient"))
"""Identities that say something to those who ask for gradients."""
CHECKED = frozenset(("CheckNumerics", "CheckNumericsV2"))
"""Identities that refuse what is no number."""


def identities(draft: Draft) -> None:
    """Identity, Snapshot, IdentityN."""
    _pass_by(draft, IDENTITIES, "identities")
    for number in draft.again("identities of several", ("IdentityN",)):
        draft.bypass_each(number, draft.data(number))
    draft.settle("identities")


def stop_gradients(draft: Draft) -> None:
    """StopGradient and PreventGradient."""
    _pass_by(draft, STOPS, "stop-gradients")
    draft.settle("stop-gradients")


def checks(draft: Draft) -> None:
    """CheckNumerics; an Assert goes where nobody has to wait for it."""
    _pass_by(draft, CHECKED, "checks")
    draft.settle("checks")


def _pass_by(draft: Draft, ops: Container[str], what: str) -> None:
    for number in draft.again(what, ops):
        sources = draft.data(number)
        if len(sources) == 1:
            draft.bypass(number, sources[0])
