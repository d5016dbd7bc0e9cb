"""Processes that run the command line without a start of Python: forks of this process, in which it is loaded.

For tests of commands in a separate process, for example of killed commands. Tests of the start (closed streams, the
environment, signals while modules are loaded) and tests that run TensorFlow start a process: see `Desk.start`.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from gdsurgeon.cli.terminal import terminal

HIGHEST = 1 << 16
"""Above all descriptors that are open."""


def fork(arguments: Sequence[str], *, env: Mapping[str, str], **options: Any) -> subprocess.Popen[bytes]:
    """A process that does what `python ARGUMENTS` does, which are ``-m gdsurgeon ...`` or ``-c SOURCE ...``.

    ENV is its environment; OPTIONS are those of `subprocess.Popen`, which has nothing executed here.
    """
    return subprocess.Popen(["python", *arguments], preexec_fn=partial(_run, arguments, env), **options)


def fork_traced(arguments: Sequence[str], strace: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """The same, traced by strace, as its arguments STRACE say, from the moment on at which everything is loaded."""
    held, go = os.pipe()
    try:
        run = partial(_run, arguments, options.pop("env"), held)
        process = subprocess.Popen(["python", *arguments], preexec_fn=run, pass_fds=[held], **options)
        tracing = subprocess.Popen(["strace", "-p", str(process.pid), *strace], stderr=subprocess.PIPE)
        assert tracing.stderr is not None
        said = tracing.stderr.readline()
        assert b"attached" in said, said
        return process
    finally:
        os.close(held)
        os.close(go)


def _run(arguments: Sequence[str], environment: Mapping[str, str], held: int = HIGHEST) -> NoReturn:
    """Runs ARGUMENTS in the forked process, when HELD has reached its end; and ends the process."""
    code = 1
    try:
        os.closerange(3, held)  # reports to subprocess that the process has started
        os.closerange(held + 1, HIGHEST)
        _begin_anew(environment)
        if held < HIGHEST:
            os.read(held, 1)
            os.close(held)
        kind, what, *rest = arguments
        sys.argv = [kind, *rest]
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "program", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _begin_anew(environment: Mapping[str, str]) -> None:
    """Has what an earlier command or the tests have set be as it is in a process that begins."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    terminal.__init__()  # type: ignore[misc]
