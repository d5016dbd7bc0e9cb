"""Pipes, terminals and locales: standard input and output as a shell gives them, and names of files."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import hostile
from support.desk import Desk, Ran, check_said, finished
from support.graphs import node
from support.hostile import HEAVY, PLAIN
from support.renaming import EARLIER, QUICK, RENAME, renamed


def shell(desk: Desk, line: str) -> Ran:
    """Runs LINE in bash, where $g is the program; the code is that of the first command of a pipe."""
    script = f'g="{sys.executable} -m gdsurgeon"; {line}; exit ${{PIPESTATUS[0]}}'
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=desk.folder, env=desk.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return finished(process)


WRITERS = {
    "graph": "rename model.pb y=q --validate structure -o -",
    "text": "rename model.pb y=q --validate structure -o - --format text",
    "report": "rename model.pb y=q --validate structure -o out.pb --report -",
    "inspect": "inspect model.pb",
    "json": "inspect model.pb --json",
    "help": "--help",
    "command-help": "rename --help",
    "version": "--version",
}


to_every_writer = pytest.mark.parametrize("writer", WRITERS)


@to_every_writer
def test_full_device(desk: Desk, writer: str) -> None:
    desk.put("model.pb", HEAVY)
    with open("/dev/full", "wb") as full:
        ran = desk.forked(*WRITERS[writer].split(), stdout=full)
    check_said(ran, "<stdout>", "no space left on device", code=6)


@pytest.mark.parametrize("writer", ["graph", "report", "inspect", "help"])
def test_closed_standard_output(desk: Desk, writer: str) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, f"$g {WRITERS[writer]} >&-")
    check_said(ran, "<stdout>", "closed", code=6)


@to_every_writer
def test_reader_has_gone(desk: Desk, writer: str) -> None:
    desk.put("model.pb", HEAVY)
    reader, written = os.pipe()
    os.close(reader)
    try:
        ran = desk.forked(*WRITERS[writer].split(), stdout=written)
    finally:
        os.close(written)
    assert ran.code == 141, ran
    assert "Error" not in ran.err
    assert "Exception ignored" not in ran.err
    assert "Traceback" not in ran.err


def test_reader_goes_after_a_byte(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, f"$g {WRITERS['graph']} | head -c1")
    assert (ran.code, ran.out) == (141, HEAVY[:1])
    assert "Exception ignored" not in ran.err


@pytest.mark.parametrize(
    ("level", "closed"),
    [
        *(("structure", closed) for closed in (">&-", "2>&-", "<&-")),
        pytest.param("run", ">&- 2>&- <&-", marks=pytest.mark.tensorflow),
    ],
)
def test_closed_streams_that_are_not_needed(desk: Desk, level: str, closed: str) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, f"$g rename model.pb y=q --validate {level} -o out.pb {closed}")
    assert ran.code == 0, ran
    assert desk.files() == {"model.pb": HEAVY, "out.pb": renamed(HEAVY)}
    assert desk.temporary_files() == []


def test_closed_standard_input_that_is_needed(desk: Desk) -> None:
    ran = shell(desk, "$g rename - y=q --validate structure -o out.pb <&-")
    check_said(ran, "standard input is closed", code=3)


def test_error_with_nobody_to_read_it(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    for closed in ("2>&-", "2>/dev/full"):
        ran = shell(desk, f"$g rename model.pb nothing=q --validate structure -o out.pb {closed}")
        assert (ran.code, ran.out, ran.err) == (4, b"", "")


@pytest.fixture
def tty() -> Iterator[int]:
    """A terminal."""
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


def test_standard_input_is_a_terminal(desk: Desk, tty: int) -> None:
    for arguments in (("rename", "-", "y=q", "-o", "out.pb", *QUICK), ("inspect", "-")):
        ran = desk.forked(*arguments, stdin=tty)
        assert (ran.code, len(ran.errors), ran.out, desk.files()) == (2, 1, b"", {})


def test_standard_output_is_a_terminal(desk: Desk, tty: int) -> None:
    desk.put("model.pb", PLAIN)
    desk.refused(2, "is-a-terminal", *RENAME, "-o", os.ttyname(tty))
    for name in ("-", "/dev/stdout"):
        ran = desk.forked(*RENAME, "-o", name, stdout=tty)
        assert (ran.code, len(ran.errors)) == (2, 1)


def test_text_may_go_to_a_terminal(desk: Desk, tty: int) -> None:
    desk.put("model.pb", PLAIN)
    assert desk.forked(*RENAME, "-o", "-", "--format", "text", stdout=tty).code == 0
    desk.put("model.pbtxt", hostile.TEXT)
    assert desk.forked("rename", "model.pbtxt", "y=q", *QUICK, "-o", "-", stdout=tty).code == 0


@pytest.mark.parametrize("data", [b"", HEAVY[:100_000]], ids=["nothing", "half"])
def test_upstream_has_failed(desk: Desk, data: bytes) -> None:
    desk.put("out.pb", EARLIER)

    for out in ((), ("-o", "out.pb")):
        code = "corrupt" if data else "wrong-format"
        desk.refused(3, code, "rename", "-", "y=q", *QUICK, *out, data=data, file="<stdin>")


def test_pipe_there_and_back_again(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    there, back = f"$g rename - y=q {' '.join(QUICK)}", f"$g rename - q=y {' '.join(QUICK)}"
    ran = shell(desk, f"cat model.pb | {there} | {back} > out.pb")
    assert "Error" not in ran.err
    assert desk.files() == {"model.pb": HEAVY, "out.pb": HEAVY}
    assert desk.temporary_files() == []


def test_standard_input_by_its_path(desk: Desk) -> None:
    try:
        ran = desk.forked("rename", "/dev/stdin", "y=q", *QUICK, data=HEAVY)
        assert (ran.code, ran.out) == (0, renamed(HEAVY))
        assert not os.path.exists("/dev/stdin.edited")
    finally:
        Path("/dev/stdin.edited").unlink(missing_ok=True)


def test_standard_output_is_the_model(desk: Desk) -> None:
    path = desk.put("model.pb", PLAIN)

    with open(path, "ab") as model:
        ran = desk.forked(*RENAME, "-o", "-", stdout=model)
    assert (ran.code, len(ran.errors), desk.files()) == (2, 1, {"model.pb": PLAIN})


def test_standard_input_from_a_file(desk: Desk) -> None:
    path = desk.put("model.pb", HEAVY)
    with open(path, "rb") as model:
        assert desk.forked("rename", "-", "y=q", *QUICK, stdin=model).out == renamed(HEAVY)
    with open(path, "rb") as model:
        model.seek(0)
        os.lseek(model.fileno(), 100, os.SEEK_SET)  # a part of the file is already read
        assert desk.forked("rename", "-", "y=q", *QUICK, stdin=model).code == 3


@pytest.mark.tensorflow
def test_nothing_of_tensorflow_on_the_streams(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    assert desk.spawn("rename", "model.pb", "y=q", "-o", "out.pb").code == 0
    ran = desk.spawn("rename", "model.pb", "y=q", "-o", "-")
    assert ran.code == 0
    assert ran.out == (desk.folder / "out.pb").read_bytes()
    assert "tensorflow" not in ran.err.lower()
    loud = desk.spawn("rename", "model.pb", "y=q", "-o", "-", "-v", env=desk.environment(TF_CPP_MIN_LOG_LEVEL="0"))
    assert (loud.code, loud.out) == (0, ran.out)


THREE_COMMANDS = f"""
import sys
from gdsurgeon.cli.main import exit_code
codes = []
for number, name in enumerate(sys.argv[1:]):
    rename = ["rename", *{QUICK}, "--report", f"{{number}}.json", "--", name, "y=q"]
    for command in (rename, ["inspect", "--", name], rename):
        codes.append(exit_code(command))
        print(file=sys.stderr, end="\\f")
assert codes == [0, 0, 2] * (len(sys.argv) - 1), codes  # at last the output is there
"""
NAMES = (b"m\xff.pb", "modèle.pb".encode(), b"a b\tc\nd.pb", b"-model.pb", b"'$(x)*.pb")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_of_files(desk: Desk, locale: str) -> None:
    paths = [os.path.join(os.fsencode(desk.folder), name) for name in NAMES]
    for path in paths:
        Path(os.fsdecode(path)).write_bytes(PLAIN)
    environment = desk.environment(LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    ran = finished(desk.start_python("-c", THREE_COMMANDS, *NAMES, env=environment))
    assert ran.code == 0, ran
    said = iter(ran.err.split("\f"))
    for number, (name, path) in enumerate(zip(NAMES, paths, strict=True)):
        stem, suffix = os.path.splitext(path)
        assert Path(os.fsdecode(stem + b".edited" + suffix)).read_bytes() == renamed(PLAIN)
        assert os.fsencode(json.loads((desk.folder / f"{number}.json").read_bytes())["model"]) == name
        assert [len(next(said).splitlines()) for _ in range(2)] == [5, 0]
        check_said(Ran(2, b"", next(said)), "-o")


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}], ids=["C", "ascii"])
def test_names_in_graphs(desk: Desk, environment: dict[str, str]) -> None:
    """Ops may be called anything; what cannot be printed is escaped."""
    desk.put("modèle.pb", PLAIN + node("n", "Öp", ["x"]))
    for arguments in (("inspect", "modèle.pb"), ("rename", "modèle.pb", "y=q", *QUICK, "-o", "out.pb")):
        ran = desk.spawn(*arguments, env=desk.environment(**environment))
        assert ran.code == 0, ran


@pytest.mark.tensorflow
def test_file_name_that_is_not_utf8_is_executed(desk: Desk) -> None:
    path = os.path.join(os.fsencode(desk.folder), b"-m\xff.pb")
    with open(path, "wb") as file:
        file.write(PLAIN)
    ran = desk.spawn("rename", "--", b"-m\xff.pb", "y=q", env=desk.environment(LC_ALL="C"))
    assert ran.code == 0, ran
    assert "bit-identical" in ran.err


def test_dash_as_the_name_of_a_file(desk: Desk) -> None:
    desk.put("-", PLAIN)
    assert desk.run("rename", "./-", "y=q", *QUICK, "-o", "./-x").code == 0
    assert desk.files()["-x"] == renamed(PLAIN)


def test_in_a_pipe_an_error_names_the_command_and_the_model(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, "$g rename model.pb nothing=q --validate structure -o - | $g remove - --op Relu | $g inspect -")
    assert ran.code == 4
    assert sorted(ran.errors) == [
        "Error: inspect: <stdin> is empty (0 bytes)",
        "Error: remove: <stdin> is empty (0 bytes)",
        "Error: rename: model.pb has no node 'nothing' (6 nodes).",
    ]


def test_a_pipe_into_which_nothing_is_written(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, "$g rename model.pb y=q --validate none -q | $g inspect -")
    check_said(ran, "Error: inspect: <stdin> is empty", "Hint: the command before the pipe", "-o -", code=0)


def test_outside_of_a_pipe_nothing_is_said_of_the_command(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, "$g rename - nothing=q --validate structure < model.pb > out.pb")
    assert ran.errors == ["Error: <stdin> has no node 'nothing' (6 nodes)."]


@pytest.mark.parametrize("name", ["--level", "--validate"])
def test_how_far_to_go_has_two_names_and_one_is_shown(desk: Desk, name: str) -> None:
    desk.put("model.pb", HEAVY)
    assert "structure only" in desk.run("rename", "model.pb", "y=q", name, "structure", "-o", "out.pb").err
    assert "checked  the structure is sound" in desk.run("validate", "model.pb", name, "structure").err
    for command in ("rename", "validate"):
        assert "--level" not in desk.run(command, "--help").out.decode()
        desk.refused(2, "bad-value", command, "model.pb", name, "x", option="--validate")
