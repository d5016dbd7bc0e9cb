"""The summary of a conversion, as text and as JSON."""

from __future__ import annotations

from gdsurgeon.errors import Json, printable
from gdsurgeon.operation.convert import Converted
from gdsurgeon.text import Entry, size


def summary(done: Converted, model: str, *, dry_run: bool) -> tuple[str, list[Entry]]:
    """The first line, which names the output, and what was read and proven."""
    what = printable(done.out) + (" (dry run: nothing written)" if dry_run else "")
    return f"{what}  {_form(done.is_text)} {done.kind}, {size(done.after)}", [
        Entry("of", f"{model}, {_form(done.was_text)}, {size(done.before)}"),
        Entry("proven", f"{_proof(done)} ({done.seconds:.1f} s)"),
    ]


def _proof(done: Converted) -> str:
    return "the file is copied" if done.idle else f"read back: field by field equal to the input {done.kind}"


def as_json(done: Converted, model: str) -> dict[str, Json]:
    """The same for machines."""
    return {
        "model": model,
        "output": done.out,
        "kind": done.kind,
        "from": _form(done.was_text),
        "to": _form(done.is_text),
        "bytes": {"before": done.before, "after": done.after},
        "nothing_to_do": done.idle or None,
        "warnings": done.warnings,
        "seconds": round(done.seconds, 3),
    }


def _form(is_text: bool) -> str:
    return "text" if is_text else "binary"
