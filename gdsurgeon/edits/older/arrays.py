"""Ops that hand elements on, or say less of what they do."""

from __future__ import annotations

from gdsurgeon.edits.older.site import Rule, Site


def _ensure_shape(site: Site) -> str:
    site.note("EnsureShape becomes an Identity: a tensor of another shape is no longer refused")
    return site.become("Identity", drop=("shape",))


def _no_copy_on_read(site: Site) -> str:
    return site.become("NoOp", [])  # it says how a variable is read, and nothing of what


def _case(site: Site) -> str:
    return site.become("Case")  # which does not say that its functions do nothing but compute


RULES = (
    Rule("EnsureShape", "Identity", "", _ensure_shape),
    Rule("StatelessCase", "Case", "", _case),
    Rule("DisableCopyOnRead", "NoOp", "", _no_copy_on_read),
)
