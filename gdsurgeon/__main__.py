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

try:
    from gdsurgeon.errors import INTERNAL_FAULT, OutputError, printable
    from gdsurgeon.resources import exhausted
except (MemoryError, SystemError):  # the second: C code that got no memory and raised nothing
    os.write(2, b"Error: out of memory\n")
    os._exit(6)

try:
    from gdsurgeon.cli.main import run
except Exception as _error:  # too little of something, or an installation that is not whole
    _want = exhausted(_error)
    _said = _want or f"internal error ({type(_error).__name__}: {printable(str(_error))})"
    os.write(2, f"Error: {_said}\n".encode())
    os._exit(OutputError.exit_code if _want else INTERNAL_FAULT)

if __name__ == "__main__":
    run()
