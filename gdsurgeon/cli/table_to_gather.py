"""gdsurgeon table-to-gather."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gdsurgeon.cli.command import selection_options
from gdsurgeon.cli.edit import edit_command

if TYPE_CHECKING:
    from gdsurgeon.select import Selection


@edit_command("table-to-gather")
@selection_options
def command(selection: Selection) -> dict[str, Any]:
    """Replace lookups in constant tables by GatherV2.

    The result needs no table initializer. A table is replaced if its keys are the integers 0 to n - 1, in any order,
    and if its keys, values and default are constants. Without a selection, all such tables are replaced, and the
    summary lists the other tables with reasons. With a selection, the command fails if a selected table cannot be
    replaced.

    Proof: all outputs and lookups are bit-identical.

    \b
    Examples:
      gdsurgeon table-to-gather model.pb -o served.pb
      gdsurgeon table-to-gather model.pb label_table -o served.pb
    """
    return {"nodes": None if selection.names_nothing else selection}
