"""Shell completion: bash in a pseudo terminal, the other shells by requests and answers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pexpect
import pytest
from support import graphs
from support.desk import Desk
from support.graphs import FLOAT, const, graph_bytes, node, placeholder
from support.paths import ROOT
from support.system import calls

from gdsurgeon.cli import complete
from gdsurgeon.cli.main import main

PROMPT = "ready> "
MODEL = graph_bytes(
    placeholder("image", FLOAT, (-1, 2)), const("tower/scale", [2, 3]), placeholder("size", FLOAT, ()),
    node("tower/scaled", "Mul", ["image", "tower/scale"], T=FLOAT), node("scores", "Abs", ["tower/scaled"], T=FLOAT),
    node("called", "PartitionedCall", ["scores"], f=graphs.func("Negate"), Tin=graphs.dtypes(FLOAT),
         Tout=graphs.dtypes(FLOAT)),
    trailer=graphs.library(graphs.function("Negate", node("y", "Neg", ["x"], T=FLOAT))) + graphs.VERSIONS,
)  # fmt: skip


@pytest.fixture
def folder(desk: Desk) -> Path:
    """A folder with a model in it, and the program on the path."""
    desk.put("model.pb", MODEL)
    desk.put("modern.txt", b"")
    program = desk.folder / "bin" / "gdsurgeon"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gdsurgeon "$@"\n')
    program.chmod(0o755)
    return desk.folder


def environment(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(folder), "TERM": "dumb"}


class Bash:
    """A bash in a pseudo terminal that has read the script."""

    def __init__(self, folder: Path) -> None:
        self._child = pexpect.spawn(
            "bash", ["--norc", "--noprofile", "-i"], cwd=folder, env=environment(folder), encoding="utf-8", timeout=120,
            dimensions=(50, 200), use_poll=True,  # for there may be more open files than select takes
        )  # fmt: skip
        for setting in ("enable-bracketed-paste off", "completion-query-items 0", "page-completions off"):
            self._child.sendline(f"bind 'set {setting}'")
        self._child.sendline(f"PS1='{PROMPT}'")
        self._child.expect(f"\n{PROMPT}")
        self.run('source <(gdsurgeon completion bash); echo "loaded"')

    def run(self, line: str) -> str:
        self._child.sendline(line)
        self._child.expect(f"\r\n{PROMPT}")
        return str(self._child.before).partition("\r\n")[2]

    def completed(self, line: str) -> str:
        """What becomes of LINE, typed behind ``gdsurgeon``, when the tabulator key is pressed once; bash echoes it."""
        self._child.send(f"gdsurgeon {line}\t\x05'END'\x01echo \r")
        self._child.expect(f"\r\n{PROMPT}")
        printed = str(self._child.before).rpartition("\r\n")[2]
        assert printed.endswith("END"), self._child.before
        return printed.removeprefix("gdsurgeon ").removesuffix("END")

    def listed(self, line: str) -> set[str]:
        """What bash lists for LINE, typed behind ``gdsurgeon``, when it is asked for all (Alt-?)."""
        self._child.send(f"gdsurgeon {line}\x1b?")
        self._child.expect(f"\r\n(.*)\r\n{PROMPT}gdsurgeon ")
        found = str(self._child.match.group(1))
        self._child.sendcontrol("u")
        self._child.send("echo cleared\r")
        self._child.expect(f"\r\ncleared\r\n{PROMPT}")
        return set(found.split())

    def close(self) -> None:
        self._child.close(force=True)


@pytest.fixture
def bash(folder: Path) -> Iterator[Bash]:
    found = Bash(folder)
    yield found
    found.close()


def test_bash_completes_what_is_on_the_line(bash: Bash) -> None:
    cases = {
        "ren": "rename ",
        "help set-a": "help set-attr ",
        "rename mode": "rename mode",  # model.pb, modern.txt
        "rename model.pb --dry": "rename model.pb --dry-run ",
        "rename model.pb --format te": "rename model.pb --format text ",
        "rename model.pb --validate=stru": "rename model.pb --validate=structure ",
        "rename model.pb im": "rename model.pb image=",
        "reroute model.pb image=sc": "reroute model.pb image=scores ",
        "rename model.pb --rename-scope tow": "rename model.pb --rename-scope tower=",
        "extract model.pb --outputs scores,ca": "extract model.pb --outputs scores,called ",
        "extract model.pb --outputs=scores,ca": "extract model.pb --outputs=scores,called ",
        "control-edges model.pb --add scores=^im": "control-edges model.pb --add scores=^image ",
        "set-shape model.pb si": "set-shape model.pb size=",
        "rename model.pb --in Negate y": "rename model.pb --in Negate y=",
        "inline model.pb --function Ne": "inline model.pb --function Negate ",
        "add-preprocessing model.pb model": "add-preprocessing model.pb model.pb ",
        "nonsense mod": "nonsense mod",
    }
    assert {line: bash.completed(line) for line in cases} == cases


def test_bash_completes_in_quotes(bash: Bash) -> None:
    wanted = {"scores=^tower/scale", "scores=^tower/scaled"}
    assert bash.listed("control-edges model.pb --add 'scores=^tower/sc") == wanted


def test_bash_lists_what_there_is(bash: Bash) -> None:
    assert bash.listed("re") == {"rename", "repair", "reroute", "rewrite", "remove"}
    assert bash.listed("rename model.pb tower/") == {"tower/scale=", "tower/scaled="}
    assert {"--op", "--scope", "--output"} < bash.listed("remove model.pb --")


# -- answers to the shells ----------------------------------------------------------------------------------


def asked(folder: Path, line: str, shell: str = "bash", **more: str) -> list[str]:
    """The answer to a shell for LINE; click's own protocol is that of zsh and fish."""
    words = {"bash": {"GDSURGEON_LINE": line, "GDSURGEON_BREAKS": "=:@"}, "zsh": {"COMP_WORDS": line}}
    words["fish"] = {"COMP_WORDS": line, "COMP_CWORD": line.split(" ")[-1]}
    words["zsh"]["COMP_CWORD"] = str(line.count(" "))
    done = subprocess.run(
        [folder / "bin" / "gdsurgeon"], cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        env={**environment(folder), "_GDSURGEON_COMPLETE": f"{shell}_complete", **words[shell], **more},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_zsh_and_fish_are_told_names(folder: Path) -> None:
    assert asked(folder, "gdsurgeon remove model.pb --op Part", "zsh") == ["plain", "PartitionedCall", "_"]
    assert asked(folder, "gdsurgeon remove model.pb --op Part", "fish")[-1].endswith("PartitionedCall")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_its_shell(desk: Desk, shell: str) -> None:
    ran = desk.run("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert b"_GDSURGEON_COMPLETE=" + shell.encode() + b"_complete" in ran.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=ran.out, check=True, timeout=60)


def test_completion_for_what_is_no_shell(desk: Desk) -> None:
    assert desk.run("completion", "tcsh").code == 2


def test_many_names_are_folded_into_their_scopes(folder: Path) -> None:
    inside = [const(f"block_{i}/part/c{j}", [1]) for i in range(3) for j in range(50)]
    (folder / "many.pb").write_bytes(graph_bytes(*inside, placeholder("image", FLOAT, ())))
    line = "gdsurgeon select many.pb --node "
    assert asked(folder, line) == ["open\tblock_0/", "open\tblock_1/", "open\tblock_2/", "plain\timage"]
    assert len(asked(folder, line + "block_1/")) == 50
    assert asked(folder, "gdsurgeon select many.pb --scope block_1/") == ["plain\tblock_1/part"]


def found(path: Path, incomplete: str) -> list[str]:
    """What completes the name of a node of the graph at PATH."""
    context = click.Context(main)
    context.params["model"] = str(path)
    return [str(item) for item in complete.nodes(context, click.Option(["--node"]), incomplete)]


def test_a_large_graph_is_not_looked_into(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(folder / "model.pb", "im") == ["image"]
    monkeypatch.setattr(complete, "MOST_NODES", 5)
    assert found(folder / "model.pb", "im") == []


def test_an_answer_is_quick_at_the_limit(folder: Path) -> None:
    count = complete.MOST_NODES - 1000
    (folder / "long.pb").write_bytes(graph_bytes(*(const(f"c{i}", [1]) for i in range(count))))
    assert found(folder / "long.pb", f"c{count - 1}") == [f"c{count - 1}"]
    assert calls(lambda: found(folder / "long.pb", f"c{count - 1}")) < 8 * count  # three a node: 0.13 s


def test_a_broken_model_has_no_completions(folder: Path) -> None:
    (folder / "broken.pb").write_bytes(MODEL[:-7] + b"\xff" * 5)
    assert asked(folder, "gdsurgeon select broken.pb --node im") == []


def test_the_version_is_not_printed_into_an_answer(folder: Path) -> None:
    assert not any(re.search(r"\d", line) for line in asked(folder, "gdsurgeon --version re"))
