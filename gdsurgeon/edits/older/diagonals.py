"""Diagonals of matrices, for releases that know the main one alone."""

from __future__ import annotations

from gdsurgeon.edits.older.site import Rule, Site
from gdsurgeon.errors import Remark

_WHERE = "the main diagonal, zeros elsewhere"
_DROPPED = ("align",)


def _diag(site: Site) -> str:
    """A square matrix with zeros beside its diagonal."""
    why = _other_than(
        site, (1, 0, "diagonals"), (2, -1, "rows"), (3, -1, "columns"), (4, 0, "the values off the diagonal")
    )
    return why or site.become("MatrixDiag", site.node.inputs[:1], drop=_DROPPED)


def _diag_part(site: Site) -> str:
    why = _other_than(site, (1, 0, "diagonals"))
    return why or site.become("MatrixDiagPart", site.node.inputs[:1], drop=_DROPPED)


def _set_diag(site: Site) -> str:
    why = _other_than(site, (2, 0, "diagonals"))
    return why or site.become("MatrixSetDiag", site.node.inputs[:2], drop=_DROPPED)


def _other_than(site: Site, *wanted: tuple[int, int, str]) -> str:
    """Why it does something else: an input is not the constant that it has for the main diagonal; '' where it is."""
    for slot, number, what in wanted:
        value = site.value(slot)
        if value is None or {*value.values} != {number}:
            return Remark(
                f"{what}: only the main diagonal of square matrices, with zeros elsewhere, has an older equivalent",
                "other-diagonal",
                what=what,
            )
    return ""


RULES = tuple(
    Rule(f"{op}V{version}", op, _WHERE, apply)
    for op, apply in (("MatrixDiag", _diag), ("MatrixDiagPart", _diag_part), ("MatrixSetDiag", _set_diag))
    for version in (2, 3)
)
