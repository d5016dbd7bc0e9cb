"""The equations that a proof shows, as text: of outputs, and of the graphs that were added."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.text import and_more

MOST_PARTS = 4
SAME, GIVEN = "edited(x) == original(x)", "edited(x) == original(x, "
"""The first words of equations: of edits that change no value, and of edits that set some and keep the others."""


def equations_of(equations: Sequence[str], parts: Sequence[str] = ()) -> list[str]:
    """Each of the equations once, without those that a different one includes, and one for the added graphs."""
    are_given = any(equation.startswith(GIVEN) for equation in equations)
    found = [equation for equation in equations if equation and not (are_given and equation.startswith(SAME))]
    names = list(dict.fromkeys(parts))
    if len(names) == 1:
        found.append(f"{names[0]} in place == {names[0]} in isolation")
    elif names:
        shown = names if len(names) <= MOST_PARTS else names[:MOST_PARTS]
        more = and_more(len(names) - MOST_PARTS) or f" and {shown.pop()}"
        found.append(f"{', '.join(shown)}{more} in place == each in isolation")
    return list(dict.fromkeys(found))


def stated(equations: Sequence[str], parts: Sequence[str] = ()) -> str:
    """`equations_of` as one line; '' if there is none."""
    return ", ".join(equations_of(equations, parts))
