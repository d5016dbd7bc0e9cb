"""The functions with which another package adds an edit to the command line; docs/plugins.md shows an example.

A plugin changes a graph with the library (``import gdsurgeon``). Everything in both is public: it changes only with a
new version, and CHANGELOG.md lists the changes.
"""

from __future__ import annotations

from gdsurgeon.cli.command import Command as Command
from gdsurgeon.cli.command import required as required
from gdsurgeon.cli.command import selection_options as selection_options
from gdsurgeon.cli.edit import edit_options as edit_options
from gdsurgeon.cli.edit import run_edit as run_edit
from gdsurgeon.cli.options import mappings as mappings
from gdsurgeon.cli.options import names_in as names_in
from gdsurgeon.cli.options import pair as pair
from gdsurgeon.cli.options import pairs as pairs
from gdsurgeon.cli.options import tolerance_options as tolerance_options
from gdsurgeon.cli.parts import load_part as load_part
from gdsurgeon.compare.intent import Intent as Intent
from gdsurgeon.edits.claims import Claim as Claim
from gdsurgeon.edits.claims import EditResult as EditResult
from gdsurgeon.edits.claims import SameGiven as SameGiven
from gdsurgeon.edits.claims import SameOutputs as SameOutputs
from gdsurgeon.edits.claims import SameSites as SameSites
from gdsurgeon.edits.claims import SameTensors as SameTensors
from gdsurgeon.edits.claims import Site as Site
from gdsurgeon.edits.claims import Unchanged as Unchanged
from gdsurgeon.errors import EditError as EditError
from gdsurgeon.errors import GdsurgeonError as GdsurgeonError
from gdsurgeon.errors import InputError as InputError
from gdsurgeon.errors import NothingToDo as NothingToDo
from gdsurgeon.errors import UsageError as UsageError
from gdsurgeon.errors import ValidationError as ValidationError
from gdsurgeon.errors import printable as printable
from gdsurgeon.errors import quoted as quoted
from gdsurgeon.operation.edit import Request as Request
from gdsurgeon.values import Tolerance as Tolerance
