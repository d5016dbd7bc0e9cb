"""The command gdsurgeon, and ``python -m gdsurgeon``: from here on a signal ends it without a traceback."""

import _signal  # type: ignore[import-not-found]  # not `signal`, which loads enum
import os


def _end(number: int, _frame: object) -> None:
    """Ends the process while modules are loaded: there is nothing yet to clean up."""
    os._exit(128 + number)


for _name in ("SIGINT", "SIGTERM", "SIGHUP"):
    _number = getattr(_signal, _name, None)  # Windows has no SIGHUP
    if _number is not None and _signal.getsignal(_number) != _signal.SIG_IGN:
        _signal.signal(_number, _end)

from gdsurgeon.resources import exhausted  # noqa: E402

try:
    from gdsurgeon.cli.main import run
except Exception as _error:
    if not exhausted(_error):
        raise
    os.write(2, f"Error: {exhausted(_error)}\n".encode())
    os._exit(6)

if __name__ == "__main__":
    run()
