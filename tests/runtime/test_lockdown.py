"""The worker is isolated: the kernel refuses access to files and servers, whatever graph is run."""

from __future__ import annotations

import _struct
import errno
import os
import shutil
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.graphs import FLOAT, doubling, dtypes, func, function, graph_bytes, library, node, placeholder
from support.paths import ROOT
from support.patience import LONG_ENOUGH
from support.reaching import CONNECTING, CONTENT, REACHING, SECRET
from support.workers import LentWorker

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.operation.validate import validate
from gdsurgeon.runtime import client, lockdown
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.lockdown import AUDIT_ARCH, Opening, call_filter, call_numbers, landlock_version
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.view.verdict import verdict_summary

X = Tensor(1, (1, 4), bytes(16))
UNLOCKED = client._BOOT.replace(
    "main(", "import gdsurgeon.runtime.lockdown as l; l.lock_in = lambda _: {missing}\nmain(", 1
)

needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
HELD_BY_TENSORFLOW = ("an attr of a call inside",)
"""Requests that TensorFlow refuses."""


@pytest.fixture(scope="module")
def unlocked() -> Iterator[LentWorker]:
    """A worker that is not locked in, and does not say so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "_BOOT", UNLOCKED.replace("{missing}", "[]"))
        worker = LentWorker(None)
        worker.start()
    yield worker
    worker.lent = False
    worker.close()


@pytest.fixture(scope="module")
def locked() -> Iterator[Worker]:
    with Worker() as worker:
        yield worker


def prepared(folder: Path) -> Path:
    (folder / "d").mkdir()
    (folder / "d" / SECRET).write_text(CONTENT)
    return folder / "d"


def outcome(worker: Worker, data: bytes, folder: Path, *, seconds: float = LONG_ENOUGH) -> tuple[list[str], str]:
    """The files that loading and running DATA creates in FOLDER, and the result."""
    from gdsurgeon.runtime.base import SessionOptions

    try:
        worker.load("g", data, options=SessionOptions(optimize=b"api_implements" in data, cpu_only=True))
        worker.run("g", "r", {"x": X} if b"Placeholder" in data else {}, ["y"]).result(seconds)
        got = worker.tensor("r", 0).result(seconds)
        said = f"{got.shape} {got.data if isinstance(got.data, list) else bytes(got.data)!r}"
    except (GdsurgeonError, TensorFlowError) as failure:
        said = str(failure)
    return sorted(str(path.name) for path in folder.iterdir() if path.name != SECRET), said


@pytest.mark.tensorflow
@needs_landlock
@pytest.mark.parametrize("way", [way for way in REACHING if way not in HELD_BY_TENSORFLOW])
def test_a_way_to_files_that_is_open_is_shut(way: str, tmp_path: Path, unlocked: Worker, locked: Worker) -> None:
    data = REACHING[way](prepared(tmp_path))
    made, said = outcome(locked, data, tmp_path / "d")
    assert made == []
    # No file is found in a folder that cannot be listed.
    assert any(text in said for text in ("Permission denied", "Failed to create directory", "(0,)")), said
    assert outcome(unlocked, data, tmp_path / "d") != ([], said)


@pytest.mark.tensorflow
@pytest.mark.parametrize("way", REACHING)
def test_nothing_is_reached_though_the_process_is_not_locked_in(
    way: str, tmp_path: Path, unlocked: LentWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lent(*_: object, **__: object) -> Worker:
        unlocked.lent = True
        return unlocked

    monkeypatch.setattr("gdsurgeon.proof.executor.Worker", lent)
    folder = prepared(tmp_path)
    model = tmp_path / "m.pb"
    model.write_bytes(REACHING[way](folder))
    for level in ("load", "run"):
        try:
            verdict = validate(str(model), level=level)
        except GdsurgeonError as error:
            assert error.code in ("reaches-outside", "nothing-comparable") and error.advice[0] == "allow-ops", error
        else:
            assert level == "load" or (verdict.proof is not None and not verdict.proof.outputs)
    assert [path.name for path in folder.iterdir()] == [SECRET]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("way", ["RegisterDatasetV2", "debug_urls of grpc"])
def test_a_server_is_connected_to_only_where_that_is_allowed(way: str, allowed: bool, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, Worker(allow_ops=allowed) as worker:
        listening.settimeout(LONG_ENOUGH if allowed else 4)
        data = CONNECTING[way](f"127.0.0.1:{listening.getsockname()[1]}")
        worker.load("g", data)
        worker.run("g", "r", {"x": X} if b"Placeholder" in data else {}, ["y"])
        if allowed:
            listening.accept()[0].close()
        else:
            worker.info().result(LONG_ENOUGH)
            with pytest.raises(TimeoutError):
                listening.accept()


@pytest.mark.tensorflow
def test_what_is_right_runs_as_ever(tmp_path: Path) -> None:
    """A graph, one whose kernels are compiled, and a library of ops wherever it is."""
    compiled = function("F", node("y", "Exp", ["x"], T=FLOAT), ret="y:y:0")
    compiled.attr["_XlaMustCompile"].b = True
    kinds = {"Tin": dtypes(FLOAT), "Tout": dtypes(FLOAT), "config": "", "config_proto": "", "executor_type": ""}
    made = node("y", "StatefulPartitionedCall", ["x"], f=func("F", _XlaMustCompile=True), _XlaMustCompile=True, **kinds)
    data = {"doubled": doubling(), "compiled": graph_bytes(placeholder("x", FLOAT, (1, 4)), made, library(compiled))}
    ops = shutil.copy(_struct.__file__, tmp_path / "ops.so")  # nothing to TensorFlow, and can be loaded
    with Worker(op_libraries=[ops]) as worker:
        for key, value in (("doubled", 0.0), ("compiled", 1.0)):
            worker.load(key, data[key])
            worker.run(key, "r", {"x": X}, ["y"])
            assert worker.tensor("r", 0).result(LONG_ENOUGH).numpy().tolist() == [[value] * 4]
        assert (worker.info().result(LONG_ENOUGH).not_locked_in == "") is bool(landlock_version())


@pytest.mark.tensorflow
@pytest.mark.usefixtures("own_workers")
def test_the_verdict_says_where_the_kernel_cannot_lock_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BOOT", UNLOCKED.replace("{missing}", "['no Landlock']"))
    verdict = validate(str(ROOT / "fixtures" / "tiny.pbtxt"))
    assert verdict.loaded.endswith("), without a sandbox")
    assert any("(CPU, without a sandbox, " in entry.text for entry in verdict_summary(verdict)[1])


# --- the kernel's part -------------------------------------------------------------------------------------


def attempts(opening: str, *statements: str) -> list[str]:
    """The result of each of STATEMENTS in an isolated process: 'done', or the name of the error."""
    script = textwrap.dedent("""
        import ctypes, errno, fcntl, mmap, os, resource, signal, socket, sys, threading
        from gdsurgeon.runtime.lockdown import Opening, call_numbers, kernel_call, lock_in
        def call(name, *arguments):
            return kernel_call("syscall", NUMBERS[name], *arguments)
        NUMBERS = {{name: number for _, name, number in call_numbers(os.uname().machine)}}
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        room, parent = ctypes.create_string_buffer(4096), os.getppid()
        assert lock_in({opening}) == []
        for statement in {statements}:
            try:
                exec(statement)
                print("done")
            except OSError as error:
                print(errno.errorcode[error.errno])
            except Exception as error:
                print(type(error).__name__)
    """).format(opening=opening, statements=statements)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_landlock
def test_what_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("here")
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    taken = {
        f"open({here!r})": "EACCES",
        f"open({there!r}, 'w')": "EACCES",
        f"os.mkdir({there!r})": "EACCES",
        f"os.unlink({here!r})": "EACCES",
        f"os.listdir({str(tmp_path)!r})": "EACCES",
        f"os.truncate({here!r}, 0)": "EPERM",
        f"os.chmod({here!r}, 0)": "EPERM",
        f"os.utime({here!r})": "EPERM",
        "open('/proc/self/environ').read()": "EACCES",
        "open('/etc/passwd')": "EACCES",
        "open('/dev/zero')": "EACCES",
        "socket.socket()": "EPERM",
        "socket.socket(socket.AF_UNIX)": "EPERM",
        "os.fork()": "EPERM",
        "os.execv('/bin/true', ['true'])": "EPERM",
        "os.kill(os.getppid(), 0)": "EPERM",
    }
    assert dict(zip(taken, attempts("Opening()", *taken), strict=True)) == taken
    assert (tmp_path / "here").read_text() == "here" and not (tmp_path / "there").exists()


# The calls that reach other processes, outlive this one, or watch the system; 'room' is memory, 'parent' a process.
OUTWARDS = (
    "socket.socketpair()",
    "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "near.connect({path!r})",
    "near.sendto(b'x', {path!r})",
    "near.sendmsg([b'x'], [], 0, {path!r})",
    "socket.send_fds(near, [b'x'], [0])",
    "call('sendmmsg', near.fileno(), room, 1, 0)",
    "call('prlimit64', parent, 7, None, room)",
    "call('prlimit64', 0, 7, room, None)",
    "call('setrlimit', 7, room)",
    "os.setpriority(os.PRIO_PROCESS, parent, 19)",
    "os.nice(1)",
    "os.sched_setaffinity(parent, os.sched_getaffinity(0))",
    "os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0))",
    "os.sched_setparam(parent, os.sched_param(0))",
    "call('sched_setattr', parent, room, 0)",
    "call('ioprio_set', 1, parent, 3 << 13)",
    "call('migrate_pages', parent, 0, None, None)",
    "call('move_pages', parent, 0, None, None, None, 0)",
    "call('get_robust_list', parent, room, room)",
    "call('shmget', 0, 4096, 0o1600)",
    "call('shmat', 0, None, 0)",
    "call('semget', 0, 1, 0o1600)",
    "call('semop', 0, room, 1)",
    "call('msgget', 0, 0o1600)",
    "call('msgsnd', 0, room, 1, 0)",
    "call('mq_open', ctypes.create_string_buffer(b'queue'), 0o102, 0o600, None)",
    "call('mq_unlink', ctypes.create_string_buffer(b'queue'))",
    "call('inotify_init1', 0)",
    "call('fanotify_init', 0, 0)",
    "fcntl.fcntl(near, fcntl.F_SETOWN, parent)",
    "fcntl.fcntl(near, fcntl.F_SETSIG, 9)",
    "fcntl.fcntl(near, 15, bytes(8))",
    "fcntl.fcntl(0, fcntl.F_SETLEASE, 0)",
    "fcntl.fcntl(0, fcntl.F_NOTIFY, 1)",
    "fcntl.ioctl(near, 0x8901, bytes(4))",
    "fcntl.ioctl(near, 0x8902, bytes(4))",
    "fcntl.ioctl(0, 0x40086602, bytes(8))",
    "fcntl.ioctl(0, 0x401C5820, bytes(28))",
    "call('adjtimex', room)",
    "call('ptrace', 16, parent, 0, 0)",
    "call('process_vm_readv', parent, None, 0, None, 0, 0)",
    "call('process_vm_writev', parent, None, 0, None, 0, 0)",
    "call('process_madvise', 0, None, 0, 0, 0)",
    "call('process_mrelease', 0, 0)",
    "call('kcmp', parent, parent, 0, 0, 0)",
    "call('pidfd_open', parent, 0)",
    "call('pidfd_getfd', 0, 0, 0)",
    "call('pidfd_send_signal', 0, 0, None, 0)",
    "call('keyctl', 0, 0)",
    "call('add_key', room, room, None, 0, 0)",
    "call('userfaultfd', 0)",
    "call('perf_event_open', room, 0, -1, -1, 0)",
    "call('io_uring_setup', 1, room)",
    "call('bpf', 0, room, 0)",
)


def test_nothing_outside_of_the_process_is_reached(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        path = str(tmp_path / "s")
        listening.bind(path)
        statements = [statement.format(path=path) for statement in OUTWARDS]
        told = dict(zip(statements, attempts("Opening()", *statements), strict=True))
        assert told == dict.fromkeys(statements, "EPERM")
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.recv(1)


@needs_landlock
def test_what_is_left() -> None:
    left = [
        "threading.Thread(target=print).start()",
        "ctypes.CDLL('libm.so.6')",
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
        "os.memfd_create('m')",
        "open('/proc/self/maps').read()",
        "open('/proc/cpuinfo').read()",
        "open('/dev/null', 'w').write('nothing')",
        "os.urandom(4)",
        "near.send(b'to the command')",
        "far.recvmsg(9)",
        "os.kill(os.getpid(), 0)",
        "os.sched_setaffinity(0, os.sched_getaffinity(os.getpid()))",
        "os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))",
        "resource.getrlimit(resource.RLIMIT_NOFILE)",
        "fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)",
        "os.set_blocking(near.fileno(), False)",
        "import json.tool",
    ]
    assert attempts("Opening()", *left) == ["done"] * len(left)


def test_files_and_the_network_are_open_where_that_is_allowed(tmp_path: Path) -> None:
    there = str(tmp_path / "there")
    statements = [f"open({there!r}, 'w')", f"os.chmod({there!r}, 0o600)", "socket.socket()", "socket.socketpair()"]
    shut = ["os.fork()", "os.nice(1)", "call('shmget', 0, 4096, 0o1600)", "fcntl.fcntl(near, fcntl.F_SETOWN, parent)"]
    told = attempts("Opening(files_and_network=True)", *statements, *shut)
    assert told == ["done"] * len(statements) + ["EPERM"] * len(shut)


# --- other kernels and machines ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "size", "access"),
    [(1, 8, 13), (2, 8, 14), (3, 8, 15), (4, 16, 15), (5, 16, 16), (6, 24, 16), (9, 24, 16)],
)
def test_each_version_of_landlock_gets_what_it_knows(
    version: int, size: int, access: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[object, ...]] = []

    def record(_: str, number: int, *arguments: object) -> int:
        calls.append((number, *arguments))
        return 3

    monkeypatch.setattr(lockdown, "kernel_call", record)
    lockdown.new_ruleset(version)
    ((number, attr, given, flags),) = calls
    assert (number, given, flags) == (444, size, 0)
    assert struct.unpack("=QQQ", bytes(attr)[:24])[0] == (1 << access) - 1  # type: ignore[call-overload]


def decided(machine: str, opening: Opening, call: int, *arguments: int, architecture: int | None = None) -> str:
    """The decision of the filter for MACHINE about a system call, computed as the kernel does."""
    program = call_filter(machine, opening)
    arch = AUDIT_ARCH[machine] if architecture is None else architecture
    data = struct.pack("<IIQ6Q", call, arch, 0, *[*arguments, *[0] * 6][:6])
    at = value = 0
    while True:
        code, number, if_true, if_false = program[at]
        at += 1
        if code == 0x20:
            value = struct.unpack_from("<I", data, number)[0]
        elif code == 0x54:
            value &= number
        elif code == 0x06:
            return "" if number == 0x7FFF0000 else errno.errorcode[number & 0xFFFF]
        else:
            holds = {0x15: value == number, 0x45: bool(value & number), 0x35: value >= number}[code]
            at += if_true if holds else if_false


@pytest.mark.parametrize(
    ("machine", "left"), [("x86_64", {"read": 0, "openat": 257}), ("aarch64", {"read": 63, "openat": 56})]
)
def test_the_filter_of_each_machine(machine: str, left: dict[str, int]) -> None:
    def told(name: str, *arguments: int, **opening: object) -> str:
        number = {**{each: number for _, each, number in call_numbers(machine)}, **left}[name]
        return decided(machine, Opening(**opening), number, *arguments)  # type: ignore[arg-type]

    pid, high = os.getpid(), 1 << 32
    assert (told("read"), told("openat")) == ("", "")
    assert told("execve") == told("execve", files_and_network=True) == "EPERM"
    assert (told("clone", 0x3D0F00), told("clone", 17)) == ("", "EPERM")
    assert (told("kill", pid), told("kill", 1), told("kill", 0)) == ("", "EPERM", "EPERM")
    assert [told("ioctl", 0, request) for request in (0x5401, 0x5421, 0xC020462A)] == [""] * 3
    assert [told("ioctl", 0, request) for request in (0x5412, 0x541C, 0x8901, 0xC0045877)] == ["EPERM"] * 4
    assert (told("socket", 2), told("socket", 1)) == ("EPERM", "EPERM")
    assert (told("socket", 17, files_and_network=True), told("socket", 1, accelerators=True)) == ("", "")
    assert (told("sendto", 3, 0, 0, 0, 0), told("sendto", 3, 0, 0, 0, 8), told("sendto", 3, 0, 0, 0, high)) == (
        "", "EPERM", "EPERM",
    )  # fmt: skip
    assert (told("connect"), told("connect", accelerators=True), told("sendto", 3, 0, 0, 0, 8, accelerators=True)) == (
        "EPERM", "", "",
    )  # fmt: skip
    assert [told("prlimit64", *arguments) for arguments in ((0, 7, 0), (pid, 7, 0))] == ["", ""]
    assert [told("prlimit64", *arguments) for arguments in ((1, 7, 0), (0, 7, high))] == ["EPERM", "EPERM"]
    assert (told("sched_setaffinity", 0), told("sched_setaffinity", 1)) == ("", "EPERM")
    assert (told("fcntl", 0, 3), told("fcntl", 0, 8)) == ("", "EPERM")
    assert (told("clone3"), told("io_uring_enter")) == ("ENOSYS", "EPERM")
    assert decided(machine, Opening(), left["read"], architecture=0x40000003) == "EPERM"  # 32 bits


def test_the_second_set_of_calls_is_shut() -> None:
    assert decided("x86_64", Opening(), 0x40000000) == "EPERM"
