"""clone-scope: all under a scope is there once more under another, with what initialises it; all else is as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.facts import FunctionChanges
from gdsurgeon.comparison.intent import Copies, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.sharing import assignments, called_pairs, names_in_use, sharing_faults


def violations(
    comparison: Comparison,
    source: str,
    target: str,
    inputs: Sequence[tuple[str, str]] = (),
    share: Sequence[str] = (),
    unique: bool = False,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after, facts = comparison.before, comparison.after, comparison.facts
    old, new = source.strip("/"), target.strip("/")
    if unique:
        new = _free(before, new)
    under = {name: new + name[len(old) :] for name in before.store.names if name == old or name.startswith(old + "/")}
    names = {name: copy for name, copy in under.items() if not any(re.search(pattern, name) for pattern in share)}
    for name in _initialising(before, names):
        names[name] = _made_unique(f"{new}/{name}", facts.added, names)
    outside = {was.removesuffix(":0"): now.removesuffix(":0") for was, now in inputs}
    copies = Copies(before, names, outside, True)
    pairs = called_pairs(copies, after)
    functions = {mine: its for mine, its in pairs if mine != its}
    intent = Intent(
        added=list(names.values()),
        renamed_functions=functions,
        functions=FunctionChanges(added=list(functions.values())),
        copies=[copies],
    )
    yield from audit(comparison, intent)
    if len({mine for mine, _ in pairs}) < len(pairs) or len(set(functions.values())) < len(functions):
        yield "one function has become two in the clone, or two have become one"
    common = names_in_use(before, names, functions=False)
    yield from sharing_faults(comparison, copies, dict(pairs), common)
    for read in outside:
        if not any(input.name == read for name in names for input in before[name].inputs):
            yield f"nothing that is cloned reads {quoted(read)}"


def _free(graph: Graph, scope: str) -> str:
    """SCOPE, or SCOPE_1, SCOPE_2, ...: the first under which there is nothing."""
    used = {name[len(scope) :].split("/")[0] for name in graph.store.names if name.startswith(scope)}
    number, ending = 0, ""
    while ending in used:
        number += 1
        ending = f"_{number}"
    return scope + ending


def _made_unique(name: str, added: Sequence[str], names: dict[str, str]) -> str:
    """What of the nodes that were ADDED has NAME, with a number where that is another's."""
    free = [n for n in added if re.fullmatch(re.escape(name) + r"(_\d+)?", n) and n not in names.values()]
    return free[0] if free else name


def _initialising(graph: Graph, names: dict[str, str]) -> list[str]:
    """The nodes outside of those NAMES that assign to variables and tables among them, or serve only such nodes."""
    table = graph.store.table
    inside = {table.rows[name] for name in names}
    found = set(assignments(table, inside)) - inside
    pending = list(found)
    while pending:
        for code in table.inputs(pending.pop()):
            row = code >> Table.PORT_BITS
            serves = {user for user in table.users(row) if user not in inside} if code >= 0 else {-1}
            if row not in inside | found and table.op(row) not in PLACEHOLDERS and serves <= found:
                found.add(row)
                pending.append(row)
    return [table.names[row] for row in sorted(found)]
