"""What was compared with what, as a sentence: equations, and the graphs that were added."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.text import and_more

MOST_PARTS = 4
SAME, GIVEN = "edited(x) = original(x)", "edited(x) = original(x, "
"""How equations begin: of edits that change no value, and of those that give some, which say as much of the rest."""


def stated(equations: Sequence[str], parts: Sequence[str] = ()) -> str:
    """EQUATIONS, each once, and that what came from PARTS gives what these give on their own; '' where there is none.

    What another equation says besides is left out.
    """
    are_given = any(equation.startswith(GIVEN) for equation in equations)
    found = [equation for equation in equations if equation and not (are_given and equation.startswith(SAME))]
    names = list(dict.fromkeys(parts))
    if len(names) == 1:
        own = "their own" if names[0].startswith("the ") else "its own"
        found.append(f"what came from {names[0]} = {names[0]} on {own}")
    elif names:
        shown = names if len(names) <= MOST_PARTS else names[:MOST_PARTS]
        more = and_more(len(names) - MOST_PARTS) or f" and {shown.pop()}"
        found.append(f"what came from {', '.join(shown)}{more} = each on its own")
    return ", ".join(dict.fromkeys(found))
