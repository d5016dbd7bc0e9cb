"""gdsurgeon compat."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import ConflictingOptions, option, tolerance_options
from gdsurgeon.errors import UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@edit_command("compat")
@tolerance_options
@option("--for", "target", required=True, help="TensorFlow release, such as 1.15 or tf1.15.")
@option("--run-in", help="Also run the result in this TensorFlow (a wheel or a folder).")
def command(request: Request, target: str, run_in: str | None, **arguments: object) -> dict[str, object]:
    """Convert a model for an older TensorFlow.

    Newer ops and attrs are replaced by older equivalents, also inside functions. If the model has ops without an older
    equivalent, the command lists all of them and writes nothing. check-ops --for lists everything that a release does
    not support.

    Proof: the outputs of the result are bit-identical to the outputs of MODEL. If older ops round differently, the
    outputs can differ by this rounding. --rtol and --atol allow other differences. Each node is checked against the op
    definitions of the release. With --run-in, the older TensorFlow also runs the result on the same inputs, in a
    separate process.

    \b
    Example:
      gdsurgeon compat model.pb --for 1.15 -o older.pb
    """
    target = target.removeprefix("tf")
    if run_in is not None:
        if not os.path.exists(run_in):
            raise UsageError(f"--run-in {printable(run_in)}: no such wheel or folder", code="no-such-file")
        if request.level not in ("load", "run"):
            raise ConflictingOptions(f"--run-in needs --validate run or load, not {request.level}")
        request.run_in, request.target = run_in, target
        request.others = (*request.others, run_in)
    return {"target": target, **arguments}
