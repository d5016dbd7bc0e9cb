"""Signals, and a validator that dies or hangs: nothing is left behind."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk, Ran, check_said, finished
from support.failing import children
from support.graphs import counting_loop
from support.hostile import HEAVY, PLAIN
from support.patience import gone, is_alive, until
from support.renaming import EARLIER, QUICK, RENAME, RENAME_TWO, TO_OUT

from gdsurgeon.cli import main
from gdsurgeon.cli.main import Terminated
from gdsurgeon.errors import ValidationError

# -- rows 75, 76: signals ------------------------------------------------------------------------------------


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


each_signal = pytest.mark.parametrize(("number", "code"), SIGNALS.items(), ids=[s.name for s in SIGNALS])


KILLED_AT = """
import os, signal, sys
from gdsurgeon.cli.main import run
name, number, at = sys.argv.pop(1), int(sys.argv.pop(1)), int(sys.argv.pop(1))
real = getattr(os, name)
calls = 0
def call(*args, **options):
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), number)
    return real(*args, **options)
setattr(os, name, call)
run()
"""


def status(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; that of a process that has gone is Z, as while it is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z"]


def is_waiting(pid: int) -> bool:
    """Whether it sleeps, in a read or a write that cannot go on: a signal that comes now interrupts that."""
    return status(pid)[0] == "S"


def unread(pipe: int) -> int:
    """Returns the number of unread bytes in PIPE."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def check_interrupted(desk: Desk, ran: Ran, code: int) -> None:
    assert ran.code == code, ran
    assert ran.out == b""
    assert "Traceback" not in ran.err
    assert ran.errors == []
    assert desk.temporary_files() == []


@pytest.mark.parametrize(
    ("number", "code", "call", "at"),
    [
        *(
            (signal.SIGTERM, 143, call, at)
            for call, at in (
                ("open", 2), ("write", 1), ("write", 2), ("copy_file_range", 1), ("copy_file_range", 2), ("fchmod", 1),
                ("fsync", 1), ("replace", 1),
            )
        ),
        (signal.SIGINT, 130, "copy_file_range", 2),
        (signal.SIGINT, 130, "fsync", 1),
        (signal.SIGHUP, 129, "copy_file_range", 2),
    ],
)  # fmt: skip
def test_signal_while_writing(desk: Desk, number: signal.Signals, code: int, call: str, at: int) -> None:
    before: dict[str, Any] = {"model.pb": HEAVY, "out.pb": EARLIER}
    desk.restore(before)
    arguments = ("-c", KILLED_AT, call, str(number.value), str(at), *RENAME_TWO, "-o", "out.pb")
    check_interrupted(desk, finished(desk.fork_python(*arguments)), code)
    assert desk.files() == before


KILLED_AFTER = KILLED_AT.replace(
    "    if calls == at:\n        os.kill(os.getpid(), number)\n    return real(*args, **options)\n",
    "    found = real(*args, **options)\n    if calls == at:\n        os.kill(os.getpid(), number)\n    return found\n",
)


@pytest.mark.parametrize("at", [1, 2, 3], ids=["backup there was", "model", "report there was"])
def test_signal_when_what_is_replaced_has_just_been_kept(desk: Desk, at: int) -> None:
    """Files that are replaced are linked first: these links are also removed."""
    before: dict[str, Any] = {"model.pb": HEAVY, "model.pb.bak": EARLIER, "report.json": EARLIER}
    desk.restore(before)
    options = ("-i", "--backup", ".bak", "--report", "report.json")
    arguments = ("-c", KILLED_AFTER, "link", str(signal.SIGTERM.value), str(at), *RENAME_TWO, *options)
    check_interrupted(desk, finished(desk.fork_python(*arguments)), 143)
    assert desk.files() == before


@each_signal
def test_signal_while_reading(desk: Desk, number: signal.Signals, code: int) -> None:
    desk.put("out.pb", EARLIER)
    process = desk.fork("rename", "-", "y=q", *QUICK, "-o", "out.pb", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(HEAVY)  # more than a pipe holds: when all is written, some has been read
    process.stdin.flush()
    pipe = process.stdin.fileno()
    assert until(lambda: unread(pipe) == 0 and is_waiting(process.pid))
    process.send_signal(number)
    process.wait(60)
    check_interrupted(desk, finished(process), code)
    assert desk.files() == {"out.pb": EARLIER}


@each_signal
def test_signal_while_streaming(desk: Desk, number: signal.Signals, code: int) -> None:
    desk.put("model.pb", HEAVY)
    os.mkfifo(desk.folder / "pipe")
    process = desk.fork(*RENAME, "-o", "pipe")
    with open(desk.folder / "pipe", "rb", buffering=0) as pipe:
        assert len(pipe.read(1)) == 1
        assert until(lambda: is_waiting(process.pid))  # the pipe is full
        process.send_signal(number)
        process.wait(60)
    check_interrupted(desk, finished(process), code)


def processor_ticks(pid: int) -> int:
    """How long the process PID has computed."""
    return sum(map(int, status(pid)[11:13]))


class Validation:
    """A command in the middle of its validation, which never ends."""

    def __init__(self, desk: Desk, **options: Any) -> None:
        desk.put("model.pb", counting_loop(endless=True).bytes())
        desk.put("out.pb", EARLIER)
        self.desk = desk
        self.before = desk.files()
        self.process = desk.start("rename", "model.pb", "y=q", "-o", "out.pb", **options)
        assert until(lambda: [name for name in desk.files() if name.startswith(".out.pb.gdsurgeon-")])
        (self.child,) = children(self.process.pid)
        # Longer than TensorFlow takes to load: it is in the loop, or about to be.
        assert until(lambda: not is_alive(self.child) or processor_ticks(self.child) > 70)

    def finished(self) -> Ran:
        ran = finished(self.process)
        assert gone(self.child)
        assert self.desk.files() == self.before
        return ran


@pytest.mark.tensorflow
def test_signal_while_validating(desk: Desk) -> None:
    validation = Validation(desk)
    validation.process.send_signal(signal.SIGTERM)
    check_interrupted(desk, validation.finished(), 143)


@pytest.mark.tensorflow
def test_interrupt_from_the_keyboard_reaches_both_processes(desk: Desk) -> None:
    validation = Validation(desk, start_new_session=True)
    os.killpg(validation.process.pid, signal.SIGINT)
    check_interrupted(desk, validation.finished(), 130)


@pytest.mark.tensorflow
def test_kill_while_validating_ends_the_child(desk: Desk) -> None:
    validation = Validation(desk)
    validation.process.kill()
    finished(validation.process)
    assert gone(validation.child)


# -- row 63: the validator dies ------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSEGV, ("TensorFlow crashed (SIGSEGV) while",)),
        (signal.SIGKILL, ("TensorFlow was killed (SIGKILL", "out of memory", " while")),
    ],
    ids=["SIGSEGV", "SIGKILL"],
)
def test_validator_dies(desk: Desk, number: signal.Signals, words: tuple[str, ...]) -> None:
    validation = Validation(desk)
    os.kill(validation.child, number)
    ran = validation.finished()
    check_said(ran, *words, code=5)
    assert desk.temporary_files() == []


@pytest.mark.tensorflow
def test_validator_hangs(desk: Desk) -> None:
    desk.restore({"plain.pb": PLAIN, "model.pb": counting_loop(endless=True).bytes(), "out.pb": EARLIER})
    assert desk.run("rename", "plain.pb", "y=q", "-n").code == 0  # TensorFlow is loaded
    arguments = ("rename", "model.pb", "y=q", "-o", "out.pb", "--timeout")
    desk.refused(5, "timed-out", *arguments, "2", doing=["running original"])


@pytest.mark.tensorflow
def test_validator_hangs_before_it_has_a_graph(desk: Desk, own_workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TensorFlow that does not start says nothing about the graph."""
    monkeypatch.setattr("gdsurgeon.runtime.client._BOOT", "import time; time.sleep(1000)")
    desk.restore({"model.pb": PLAIN, "out.pb": EARLIER})
    arguments = ("rename", "model.pb", "y=q", "-o", "out.pb", "--timeout")
    desk.refused(7, "timed-out", *arguments, "0.5", doing=["starting"])


@pytest.mark.tensorflow
@pytest.mark.parametrize("seconds", ["inf", "1e300"])
def test_patience_without_end(desk: Desk, seconds: str) -> None:
    desk.put("model.pb", PLAIN)
    ran = desk.run("rename", "model.pb", "y=q", "-o", "out.pb", "--timeout", seconds)
    assert ran.code in (0, 2), ran
    assert "internal error" not in ran.err


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("library", "code"), [("nowhere.so", "no-such-file"), ("model.pb", "wrong-format"), ("folder", "no-such-file")]
)
def test_op_library_that_is_none(desk: Desk, library: str, code: str) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "folder").mkdir()
    arguments = ("rename", "model.pb", "y=q", "-o", "out.pb", "--op-lib", library)
    desk.refused(2, code, *arguments, file=library)


@pytest.mark.tensorflow
def test_op_library_crashes(desk: Desk, tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void crash(void) { abort(); }\n")
    library = tmp_path / "crash.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no C compiler")
    desk.put("model.pb", PLAIN)
    desk.put("out.pb", EARLIER)
    arguments = ("rename", "model.pb", "y=q", "-o", "out.pb", "--op-lib", str(library))
    desk.refused(5, "crashed", *arguments, signal="SIGABRT")


# -- signals while modules are loaded, and signals that something else hides ----------------------------------

KILLED_AT_IMPORT = """
import os, runpy, sys
module, number = sys.argv.pop(1), int(sys.argv.pop(1))
class Killer:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Killer())
if sys.argv[1] == "-m":
    sys.argv.pop(1)
    runpy.run_module("gdsurgeon", run_name="__main__", alter_sys=True)
else:
    from gdsurgeon.__main__ import run
    run()
"""
LOADED = ("gdsurgeon.cli.main", "click", "gdsurgeon.cli.rename", "gdsurgeon.operation.edit", "gdsurgeon.edits.rename")


@pytest.mark.parametrize(
    ("module", "number", "code", "way"),
    [
        *((module, signal.SIGTERM, 143, ("-m",)) for module in LOADED),
        (LOADED[0], signal.SIGINT, 130, ()),
        (LOADED[0], signal.SIGHUP, 129, ("-m",)),
        (LOADED[-1], signal.SIGINT, 130, ()),
    ],
)
def test_signal_while_modules_are_loaded(
    desk: Desk, number: signal.Signals, code: int, module: str, way: tuple[str, ...]
) -> None:
    before = {"model.pb": PLAIN, "out.pb": EARLIER}
    desk.restore(before)
    arguments = ("-c", KILLED_AT_IMPORT, module, str(number.value), *way, *TO_OUT)
    check_interrupted(desk, finished(desk.start_python(*arguments)), code)
    assert desk.files() == before


@pytest.mark.parametrize(("signalled", "code"), [(KeyboardInterrupt(), 130), (Terminated(signal.SIGHUP), 129)])
def test_what_fails_on_the_way_out_does_not_hide_a_signal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, signalled: BaseException, code: int
) -> None:
    def interrupted(_: list[str]) -> int:
        try:
            raise signalled
        finally:
            raise ValidationError("the TensorFlow process has been closed")

    monkeypatch.setattr(main, "_exit_code", interrupted)
    check_interrupted(desk, desk.run("rename"), code)


PUBLISHED = """\
import os, signal, sys
from gdsurgeon.cli.main import run
from gdsurgeon.wire import output
name, replace = sys.argv.pop(), output.os.replace
def replacing(source, target):
    replace(source, target)
    os.kill(os.getpid(), getattr(signal, name))
output.os.replace = replacing
run()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_after_the_output_has_appeared_comes_too_late(desk: Desk, name: str) -> None:
    desk.put("model.pb", PLAIN)
    line = ["rename", "model.pb", "y=q", "--validate", "structure", "-o", "out.pb"]
    ran = finished(desk.fork_python("-c", PUBLISHED, *line, name))
    assert (ran.code, "Interrupted" in ran.err, "out.pb" in desk.files()) == (0, False, True), ran


UNNOTICED = """\
import os, signal, sys, time
from gdsurgeon.cli.main import run
from gdsurgeon.operation.sequence import Instruction
number, where, edited = int(sys.argv.pop()), sys.argv.pop(), Instruction.apply
class Dying:
    def __del__(self):
        os.kill(os.getpid(), number)
def generated():
    try:
        yield
    finally:
        os.kill(os.getpid(), number)
def leaving(*arguments, **named):
    if where == "destructor":
        Dying()
    else:
        next(generated())
    for _ in range(600):
        time.sleep(0.1)
    return edited(*arguments, **named)
Instruction.apply = leaving
run()
"""


@pytest.mark.parametrize("where", ["destructor", "generator"])
@each_signal
def test_a_signal_where_python_lets_no_exception_out(desk: Desk, number: signal.Signals, code: int, where: str) -> None:
    desk.put("model.pb", PLAIN)
    line = ["rename", "model.pb", "y=q", "--validate", "structure", "-o", "out.pb"]
    check_interrupted(desk, finished(desk.fork_python("-c", UNNOTICED, *line, where, str(number.value))), code)
    assert [*desk.files()] == ["model.pb"]
