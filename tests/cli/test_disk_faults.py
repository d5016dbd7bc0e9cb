"""Failing system calls, signals and interrupts: the whole output is written, or nothing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk, Ran, check_said, finished
from support.failing import children, killed
from support.graphs import counting_loop, node
from support.hostile import HEAVY, PLAIN
from support.patience import gone, is_alive, until
from support.renaming import EARLIER, QUICK, RENAME, RENAME_TWO, TO_OUT, renamed
from support.system import faults

from gdsurgeon.cli import main
from gdsurgeon.cli.main import Terminated
from gdsurgeon.errors import ValidationError
from gdsurgeon.wire.text import to_text

FAULTS = [
    ("write", errno.ENOSPC), ("copy_file_range", errno.EIO), ("fsync", errno.EIO), ("close", errno.EDQUOT),
    ("open", errno.EACCES), ("fchmod", errno.EPERM), ("replace", errno.EXDEV), ("link", errno.EPERM),
]  # fmt: skip
OTHER_FAULTS = [
    ("write", errno.EDQUOT), ("write", errno.EIO), ("copy_file_range", errno.ENOSPC), ("replace", errno.EACCES),
]  # fmt: skip
"""The same calls, which fail for other reasons: nothing is made of the reason but a text."""


BEFORE = {"model.pb": HEAVY, "out.pb": EARLIER, "model.pb.bak": EARLIER, "report.json": EARLIER}
PLACES = {
    "new": ("-o", "new.pb"),
    "earlier": ("-o", "out.pb"),
    "in-place": ("-i",),
    "backup": ("-i", "--backup", ".bak"),
    "report": ("-o", "out.pb", "--report", "report.json"),
    "all": ("-i", "--backup", ".bak", "--report", "report.json"),
    "first-report": ("-i", "--backup", ".new", "--report", "new.json"),
    "stream": ("-o", "-", "--report", "report.json"),
}


@pytest.mark.parametrize(
    ("call", "code", "for_ever", "place"),
    [
        *((call, code, for_ever, place) for call, code in FAULTS for for_ever in (False, True) for place in PLACES),
        *((call, code, False, "all") for call, code in OTHER_FAULTS),
        *(("pread", errno.EIO, False, place) for place in ("new", "all", "stream")),
    ],
)
def test_all_or_nothing_whichever_call_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, code: int, for_ever: bool, place: str
) -> None:
    for fault in faults(monkeypatch, call, code, for_ever):
        desk.restore(BEFORE)
        with fault:
            ran = desk.run(*RENAME_TWO, *PLACES[place])
        after: dict[str, Any] = desk.files()
        assert desk.temporary_files() == [], f"call {fault.at}"
        if ran.code:
            assert ran.code in (3, 6) and fault.struck, ran
            check_said(ran)
            assert os.strerror(fault.code).lower() in ran.err.lower()
            for name in ("report.json", "new.json"):
                if ran.code == 3 and name in PLACES[place] and after.get(name) != BEFORE.get(name):
                    assert json.loads(after.pop(name))["passed"] is False
                    after |= {name: BEFORE[name]} if name in BEFORE else {}
            assert after == BEFORE, f"call {fault.at}"
        else:
            _check_whole(place, after)


def _check_whole(place: str, after: dict[str, Any]) -> None:
    """The folder after success."""
    written = {"new": "new.pb", "earlier": "out.pb", "report": "out.pb", "stream": ""}.get(place, "model.pb")
    wanted = BEFORE | ({written: renamed(HEAVY, y="q", v="r")} if written else {})
    options = PLACES[place]
    if "--backup" in options:
        wanted["model.pb" + options[options.index("--backup") + 1]] = HEAVY
    if "--report" in options:
        name = options[-1]
        wanted[name] = after[name]
        assert json.loads(after[name])["passed"] is True
    assert after == wanted


def _short(real: Callable[..., int], position: int, most: int) -> Callable[..., int]:
    """REAL, with at most MOST bytes a call; POSITION is where among the arguments the bytes or their count stand."""

    def call(*args: Any) -> int:
        wanted = args[position]
        less = min(wanted, most) if isinstance(wanted, int) else wanted[:most]
        return real(*args[:position], less, *args[position + 1 :])

    return call


def _fails(code: int) -> Callable[..., int]:
    def call(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    return call


SHORT = {
    "write": {"write": _short(os.write, 1, 100)},
    "pread": {"pread": _short(os.pread, 1, 100)},
    "copy_file_range": {"copy_file_range": _short(os.copy_file_range, 2, 3000)},
    "copy_file_range-nothing": {"copy_file_range": lambda *_: 0},
    "sendfile": {"copy_file_range": _fails(errno.EXDEV), "sendfile": _short(os.sendfile, 3, 3000)},
    **{
        f"neither-{errno.errorcode[code]}": {"copy_file_range": _fails(code), "sendfile": _fails(errno.EINVAL)}
        for code in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
    },
    "neither-and-short": {
        "copy_file_range": _fails(errno.ENOSYS),
        "sendfile": _fails(errno.ENOSYS),
        "write": _short(os.write, 1, 1000),
        "pread": _short(os.pread, 1, 1000),
    },
}


@pytest.mark.parametrize("case", SHORT)
def test_short_and_missing_calls_change_nothing(heavy: Desk, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    for name, call in SHORT[case].items():
        monkeypatch.setattr(os, name, call)
    heavy.done(*TO_OUT)
    monkeypatch.undo()
    assert (heavy.folder / "out.pb").read_bytes() == renamed(HEAVY)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_text_is_written_whole_or_not_at_all(plain: Desk, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    plain.put("out.pb", EARLIER)
    arguments = (*TO_OUT, "--format", "text")
    with next(faults(monkeypatch, call, errno.ENOSPC)):
        plain.refused(6, "unwritable", *arguments, file="out.pb", reason="ENOSPC")
    plain.done(*arguments)
    assert plain.files()["out.pb"] == to_text(renamed(PLAIN))


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize("call", ["sendfile", "write", "pread"])
def test_faults_behind_a_missing_call(heavy: Desk, monkeypatch: pytest.MonkeyPatch, call: str, for_ever: bool) -> None:
    """Where copy_file_range is missing the next way is taken, and fails as cleanly."""
    heavy.put("out.pb", EARLIER)
    monkeypatch.setattr(os, "copy_file_range", _fails(errno.ENOSYS))
    if call != "sendfile":
        monkeypatch.setattr(os, "sendfile", _fails(errno.ENOSYS))
    for fault in faults(monkeypatch, call, errno.EIO, for_ever):
        with fault:
            ran = heavy.run(*TO_OUT)
        if not fault.struck:
            assert ran.code == 0
            assert heavy.files()["out.pb"] == renamed(HEAVY)
            return
        assert ran.code == (3 if call == "pread" else 6)
        check_said(ran)
        assert "input/output error" in ran.err.lower()
        assert heavy.files() == {"model.pb": HEAVY, "out.pb": EARLIER}


@pytest.mark.parametrize("room", [0, 4096, 1 << 16])
def test_no_room_for_standard_input(desk: Desk, room: int) -> None:
    """A graph from a pipe that is too big for memory goes to a temporary file, and there may be no room for that."""
    script = (
        "import resource, signal, sys; import gdsurgeon.wire.source as source; from gdsurgeon.cli.main import run;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), -1));"
        "source.SPOOL_IN_MEMORY = 100; run()"
    )
    desk.put("out.pb", EARLIER)
    data = HEAVY if room > 4096 else PLAIN + b"".join(node(f"n{i}", "NoOp") for i in range(300))
    arguments = ("-c", script, str(room), "rename", "-", "y=q", *QUICK, "-o", "out.pb")
    process = desk.fork_python(*arguments, stdin=subprocess.PIPE)
    ran = finished(process, data)
    assert ran.code in (3, 6), ran
    check_said(ran, "<stdin>", "temporary")
    assert desk.files() == {"out.pb": EARLIER}
    assert desk.temporary_files() == []


KILLS = int(os.environ.get("GDSURGEON_KILLS", "6"))


def test_killed_at_any_instant(desk: Desk) -> None:
    """The files are the earlier ones or the new ones; other files have temporary names."""
    wanted: dict[str, Any] = {}
    for ran, after in killed(desk, (*RENAME_TWO, *PLACES["all"]), KILLS, lambda: desk.restore(BEFORE)):
        wanted = wanted or after.copy()
        assert after["out.pb"] == EARLIER
        if ran.code != -signal.SIGKILL:
            del after["report.json"]  # which tells the time
            assert after.items() <= BEFORE.items() or after.items() <= wanted.items(), ran
            assert desk.temporary_files() == []
        assert after["model.pb"] in (HEAVY, wanted["model.pb"])
        assert after["model.pb.bak"] in (EARLIER, HEAVY)
        if after["model.pb"] != HEAVY:
            assert after["model.pb.bak"] == HEAVY  # the old model is never lost


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
def test_signal_while_streaming(heavy: Desk, number: signal.Signals, code: int) -> None:
    os.mkfifo(heavy.folder / "pipe")
    process = heavy.fork(*RENAME, "-o", "pipe")
    with open(heavy.folder / "pipe", "rb", buffering=0) as pipe:
        assert len(pipe.read(1)) == 1
        assert until(lambda: is_waiting(process.pid))  # the pipe is full
        process.send_signal(number)
        process.wait(60)
    check_interrupted(heavy, finished(process), code)


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
        assert until(lambda: not is_alive(self.child) or sum(map(int, status(self.child)[11:13])) > 70)

    def finished(self) -> Ran:
        ran = finished(self.process)
        assert gone(self.child)
        assert self.desk.files() == self.before
        return ran


@pytest.mark.tensorflow
@pytest.mark.parametrize("keyboard", [False, True])
def test_signal_while_validating(desk: Desk, keyboard: bool) -> None:
    """An interrupt from the keyboard reaches both processes."""
    validation = Validation(desk, start_new_session=keyboard)
    if keyboard:
        os.killpg(validation.process.pid, signal.SIGINT)
    else:
        validation.process.send_signal(signal.SIGTERM)
    check_interrupted(desk, validation.finished(), 130 if keyboard else 143)


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
)
def test_validator_dies(desk: Desk, number: signal.Signals, words: tuple[str, ...]) -> None:
    validation = Validation(desk)
    os.kill(validation.child, number)
    check_said(validation.finished(), *words, code=5)
    assert desk.temporary_files() == []


PROVEN = ("rename", "model.pb", "y=q", "-o", "out.pb")


@pytest.mark.tensorflow
def test_validator_hangs(desk: Desk) -> None:
    desk.restore({"plain.pb": PLAIN, "model.pb": counting_loop(endless=True).bytes(), "out.pb": EARLIER})
    desk.done("rename", "plain.pb", "y=q", "-n")  # TensorFlow is loaded
    desk.refused(5, "timed-out", *PROVEN, "--timeout", "2", doing=["running original"])


@pytest.mark.tensorflow
def test_validator_hangs_before_it_has_a_graph(plain: Desk, own_workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TensorFlow that does not start says nothing about the graph."""
    monkeypatch.setattr("gdsurgeon.runtime.client._BOOT", "import time; time.sleep(1000)")
    plain.put("out.pb", EARLIER)
    plain.refused(7, "timed-out", *PROVEN, "--timeout", "0.5", doing=["starting"])


@pytest.mark.tensorflow
@pytest.mark.parametrize("seconds", ["inf", "1e300"])
def test_patience_without_end(plain: Desk, seconds: str) -> None:
    ran = plain.run(*PROVEN, "--timeout", seconds)
    assert ran.code in (0, 2), ran
    assert "internal error" not in ran.err


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("library", "code"), [("nowhere.so", "no-such-file"), ("model.pb", "wrong-format"), ("folder", "no-such-file")]
)
def test_op_library_that_is_none(plain: Desk, library: str, code: str) -> None:
    (plain.folder / "folder").mkdir()
    plain.refused(2, code, *PROVEN, "--op-lib", library, file=library)


@pytest.mark.tensorflow
def test_op_library_crashes(plain: Desk, tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void crash(void) { abort(); }\n")
    library = tmp_path / "crash.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no C compiler")
    plain.put("out.pb", EARLIER)
    plain.refused(5, "crashed", *PROVEN, "--op-lib", str(library), signal="SIGABRT")


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
def test_a_signal_after_the_output_has_appeared_comes_too_late(plain: Desk, name: str) -> None:
    ran = finished(plain.fork_python("-c", PUBLISHED, *TO_OUT, name))
    assert (ran.code, "Interrupted" in ran.err, "out.pb" in plain.files()) == (0, False, True), ran


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
def test_a_signal_where_python_lets_no_exception_out(
    plain: Desk, number: signal.Signals, code: int, where: str
) -> None:
    check_interrupted(plain, finished(plain.fork_python("-c", UNNOTICED, *TO_OUT, where, str(number.value))), code)
    assert [*plain.files()] == ["model.pb"]
