"""The functions with which another package adds an edit to the command line; docs/plugins.md shows an example.

A plugin changes a graph with the library (``import gdsurgeon``). Everything in both is public: it changes only with a
new version, and CHANGELOG.md lists the changes.
"""

from __future__ import annotations

from gdsurgeon.cli.command import Command, required, selection_options
from gdsurgeon.cli.edit import edit_options, run_edit
from gdsurgeon.cli.options import mappings, names_in, pair, pairs, tolerance_options
from gdsurgeon.cli.parts import load_part
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import (
    Claim,
    EditResult,
    SameGiven,
    SameOutputs,
    SamePiece,
    SameTensors,
    Unchanged,
)
from gdsurgeon.errors import (
    EditError,
    GdsurgeonError,
    InputError,
    NothingToDo,
    UsageError,
    ValidationError,
    printable,
    quoted,
)
from gdsurgeon.operation.edit import Request

__all__ = [
    "Claim",
    "Command",
    "EditError",
    "EditResult",
    "GdsurgeonError",
    "InputError",
    "Intent",
    "NothingToDo",
    "Request",
    "SameGiven",
    "SameOutputs",
    "SamePiece",
    "SameTensors",
    "Unchanged",
    "UsageError",
    "ValidationError",
    "edit_options",
    "load_part",
    "mappings",
    "names_in",
    "pair",
    "pairs",
    "printable",
    "quoted",
    "required",
    "run_edit",
    "selection_options",
    "tolerance_options",
]
