"""rename: the selected nodes have their new names, and nothing else is different."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent

Pair = tuple[str, str]


def violations(
    comparison: Comparison, pairs: Sequence[Pair] = (), scopes: Sequence[Pair] = (), patterns: Sequence[Pair] = ()
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    names = dict(pairs)
    parts = [(old.strip("/").split("/"), [part for part in new.split("/") if part]) for old, new in scopes]
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in patterns]
    for name in comparison.before.store.names if parts or compiled else ():
        path = name.split("/")
        for old, new in parts:
            if path[: len(old)] == old and (len(path) > len(old) or new):
                names[name] = "/".join(new + path[len(old) :])
        for pattern, replacement in compiled:
            if pattern.search(name):
                names[name] = pattern.sub(replacement, name)
    renamed = {old: new for old, new in names.items() if old != new}
    yield from audit(comparison, Intent(renamed=renamed))
