"""What has become of nodes that a later edit names as they were called before an earlier one."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.errors import printable, quoted
from gdsurgeon.proof.change import Step


def what_became(steps: Sequence[Step], name: str) -> str:
    """What STEPS have made of the node NAME, which is there no longer: ``line 3 renamed it to 'b'``; '' is nothing.

    A name that ends in a slash is a scope; of that, the first of its nodes that have left it is told.
    """
    for place in reversed(range(len(steps))):
        intent = steps[place].result.intent
        if name.endswith("/"):
            left = next((old for old in (*intent.renamed, *intent.removed) if old.startswith(name)), None)
            if left is not None:
                return _told(steps[place:], left, quoted(left))
        elif name in intent.renamed or name in intent.removed:
            return _told(steps[place:], name, "it")
    return ""


def _told(steps: Sequence[Step], name: str, called: str) -> str:
    """What STEPS, of which the first has done something to the node NAME, have made of it, which is CALLED so."""
    out: list[str] = []
    for step in steps:
        intent = step.result.intent
        if name in intent.renamed:
            name = intent.renamed[name]
            what = f"to {quoted(name)}"
            out.append(f"{_place(step.called)} {what if out else f'renamed {called} {what}'}")
        elif name in intent.removed:
            out.append(f"{_place(step.called)} removed {'that' if out else called}")
            break
    return ", ".join(out)


def _place(called: str) -> str:
    """``line 3`` for ``fix.gds:3``; the number of an edit of the library as it is."""
    _, colon, number = called.rpartition(":")
    return f"line {number}" if colon else printable(called)
