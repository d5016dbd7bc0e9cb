"""A place to run the command line in, and what must hold there after every run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, Remark
from support.paths import ROOT
from support.patience import LONG_ENOUGH

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


PIPES: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

_close, _dup, _dup2 = os.close, os.dup, os.dup2
"""As they are where a test has calls of the system fail."""


class Ran(NamedTuple):
    """A finished command: exit code, standard output, standard error, and the error if it ran in this process."""

    code: int
    out: bytes
    err: str
    error: GdsurgeonError | None = None

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("Error: ")]


class Desk:
    """An empty folder to work in, an empty folder for temporary files, and ways to run a command there."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch
        _files()

    def put(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def run(self, *arguments: str, data: bytes | None = None) -> Ran:
        """Runs the command line in this process, DATA in a pipe at its standard input.

        Work in TensorFlow is done by a worker that other tests share.
        """
        terminal.__init__()  # type: ignore[misc]  # what an earlier command has set
        errors: list[GdsurgeonError] = []
        say = type(terminal).error

        def record(self: Any, error: GdsurgeonError) -> None:
            errors.append(error)
            say(self, error)

        with pytest.MonkeyPatch.context() as patch, contextlib.nullcontext() if data is None else piped(data):
            patch.setattr(type(terminal), "error", record)
            ran = self._ran(lambda: exit_code(list(arguments)))
        return ran._replace(error=errors[-1] if errors else None)

    def done(self, *arguments: str) -> Ran:
        """Runs a command that must end with 0."""
        ran = self.run(*arguments)
        assert ran.code == 0, ran
        return ran

    def refused(self, exit_code: int, code: str, *arguments: str, data: bytes | None = None, **facts: Any) -> Ran:
        """Runs a command that must end with EXIT_CODE and the error CODE, and leave the folder as it was.

        Args:
            facts: facts that the error must have, among others.
        """
        before = self.files()
        ran = self.run(*arguments, data=data)
        check_failed(ran, exit_code, code, **facts)
        assert ran.out == b""
        assert self.files() == before
        assert self.temporary_files() == []
        return ran

    def report(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Runs a command that must end with CODE; its report, which is not left in the folder."""
        path = self.folder / "the_report.json"
        ran = self.run(*arguments, "--report", path.name)
        assert ran.code == code, ran
        found: dict[str, Any] = json.loads(path.read_text())
        path.unlink()
        return found

    def answer(self, *arguments: str, code: int = 0) -> Any:
        """Runs a command that must end with CODE; returns its answer as JSON."""
        ran = self.run(*arguments, "--json")
        assert ran.code == code, ran
        return json.loads(ran.out)

    def run_program(self, source: str, *arguments: str) -> Ran:
        """Runs a Python program in this process, as `python -c` does; the error comes last."""

        def executed() -> int:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", ["program", *arguments])
                try:
                    exec(compile(source, "program", "exec"), {"__name__": "__main__"})
                except SystemExit as ended:
                    return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
                except Exception:
                    traceback.print_exc()
                    return 1
            return 0

        return self._ran(executed)

    def _ran(self, work: Callable[[], int]) -> Ran:
        with captured() as found:
            code = work()
        out, err = found
        return Ran(code, out, err.decode(errors="surrogateescape"))

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.scratch), **more}

    def start(self, *arguments: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
        """Starts the command line in a process of its own; everything is piped unless OPTIONS say otherwise."""
        return self.start_python("-m", "gdsurgeon", *arguments, **options)

    def start_python(self, *arguments: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
        options = PIPES | {"env": self.environment(), "cwd": self.folder} | options
        # These tests run in the background of a shell, or under nohup: signals ignored here would be ignored there.
        ignored = [n for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_IGN]
        if ignored:
            options.setdefault("preexec_fn", lambda: [signal.signal(n, signal.SIG_DFL) for n in ignored])
        return subprocess.Popen([sys.executable, *arguments], **options)

    def spawn(self, *arguments: str | bytes, data: bytes | None = None, **options: Any) -> Ran:
        """Runs the command line in a process of its own, DATA at its standard input, to its end."""
        if data is not None:
            options["stdin"] = subprocess.PIPE
        return finished(self.start(*arguments, **options), data)

    def forked(self, *arguments: str, data: bytes | None = None, **options: Any) -> Ran:
        """The same as `spawn` in a tenth of the time, where neither the start is tested nor TensorFlow runs."""
        if data is not None:
            options["stdin"] = subprocess.PIPE
        return finished(self.fork(*arguments, **options), data)

    def fork(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """The same as `start`, likewise."""
        return self.fork_python("-m", "gdsurgeon", *arguments, **options)

    def fork_python(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        return fork(arguments, **PIPES | {"env": self.environment(), "cwd": self.folder} | options)

    def traced(self, strace: Sequence[str], *arguments: str) -> Ran:
        """Runs the command line under strace, as its arguments STRACE say, from the moment on when all is loaded."""
        line = ("-m", "gdsurgeon", *arguments)
        return finished(fork_traced(line, strace, env=self.environment(), cwd=self.folder, **PIPES))

    def files(self) -> dict[str, bytes | str]:
        """Everything in the folder: files by their bytes, links by their targets."""
        return {
            str(path.relative_to(self.folder)): f"-> {os.readlink(path)}" if path.is_symlink() else path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_symlink() or path.is_file()
        }

    def restore(self, before: dict[str, bytes]) -> None:
        """Has the folder hold the files BEFORE, and nothing else."""
        there = self.files()
        for name in there.keys() - {name for name, data in before.items() if there.get(name) == data}:
            os.unlink(self.folder / name)
        for name, data in before.items():
            if there.get(name) != data:
                self.put(name, data)

    def temporary_files(self) -> list[str]:
        """Returns the temporary files that are left."""
        left = (path for path in self.folder.rglob("*.tmp*") if path.is_symlink() or path.is_file())
        return [str(path.relative_to(self.folder)) for path in left] + os.listdir(self.scratch)


@cache
def _files() -> tuple[io.FileIO, io.FileIO]:
    """What takes the place of standard output and of standard error; made once."""
    return tempfile.TemporaryFile(buffering=0), tempfile.TemporaryFile(buffering=0)


@contextlib.contextmanager
def captured() -> Iterator[list[bytes]]:
    """Captures standard output and standard error, of Python and of the descriptors; complete at the end.

    pytest's own fixture for it takes longer than many a command.
    """
    found: list[bytes] = []
    with _redirected(1, "stdout"), _redirected(2, "stderr"):
        yield found
        for name, file in zip(("stdout", "stderr"), _files(), strict=True):
            getattr(sys, name).flush()
            file.seek(0)
            found.append(file.read())


@contextlib.contextmanager
def _redirected(fd: int, name: str) -> Iterator[None]:
    file, before = _files()[fd - 1], getattr(sys, name)
    before.flush()
    file.seek(0)
    file.truncate()
    kept = _dup(fd)
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="", write_through=True)
    setattr(sys, name, text)
    _dup2(file.fileno(), fd)
    try:
        yield
    finally:
        setattr(sys, name, before)
        text.detach()
        _dup2(kept, fd)
        _close(kept)


@contextlib.contextmanager
def piped(data: bytes) -> Iterator[None]:
    """DATA comes through a pipe at the standard input of this process."""
    end, written = os.pipe()

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), open(written, "wb") as pipe:
            pipe.write(data)

    writer = threading.Thread(target=write)
    with pytest.MonkeyPatch.context() as patch:
        with open(end, encoding="utf-8") as source:
            patch.setattr(sys, "stdin", source)
            writer.start()
            yield
        writer.join()


def finished(process: subprocess.Popen[bytes], data: bytes | None = None) -> Ran:
    """Returns the output and the exit code of PROCESS when it ends."""
    with process:
        try:
            out, err = process.communicate(data, timeout=LONG_ENOUGH)
        finally:
            process.kill()
    return Ran(process.returncode, out or b"", (err or b"").decode(errors="surrogateescape"))


def check_error(error: GdsurgeonError | str | None, code: str, facts: Mapping[str, Any]) -> None:
    """ERROR, or a warning or note, has the code CODE, and FACTS among its facts."""
    assert isinstance(error, (GdsurgeonError, Remark)), error
    assert error.code == code, (error.code, str(error), error.facts)
    assert {name: error.facts.get(name) for name in facts} == dict(facts), (str(error), error.facts)


def check_raised(kind: type[GdsurgeonError], code: str, work: Callable[[], object], /, **facts: Any) -> GdsurgeonError:
    """WORK ends with an error of the KIND, which has the code CODE, and FACTS among its facts."""
    with pytest.raises(kind) as caught:
        work()
    check_error(caught.value, code, facts)
    return caught.value


def check_failed(ran: Ran, exit_code: int, code: str, **facts: Any) -> None:
    """RAN has ended with EXIT_CODE and one error, which has the code CODE, and FACTS among its facts."""
    assert ran.code == exit_code, ran
    check_error(ran.error, code, facts)
    check_said(ran)


def check_said(ran: Ran, *words: str, code: int | None = None) -> None:
    """Checks the exit code, and that one line of error, with its details and hint, has WORDS; and no traceback."""
    assert code in (None, ran.code), ran
    assert "Traceback" not in ran.err, ran.err
    assert "internal error" not in ran.err, ran.err
    assert len(ran.errors) == 1, ran.err
    said = ran.err[ran.err.index("Error: ") :]
    for line in said.splitlines()[1:]:
        assert line.startswith(("  ", "Hint: ")), ran.err
    for word in words:
        assert word in said, f"{word!r} is not in {said!r}"
