"""gdsurgeon diff: its output, its exit codes, and calls by git."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.desk import Desk, check_said
from support.graphs import (
    FLOAT,
    VERSIONS,
    const,
    dtypes,
    func,
    function,
    graph_bytes,
    library,
    node,
    placeholder,
)
from support.paths import ROOT


def model(padding: str = "SAME", name: str = "conv") -> bytes:
    return graph_bytes(placeholder("x"), const("w", [1, 2]), node(name, "Conv2D", ["x", "w"], T=FLOAT, padding=padding))


@pytest.fixture
def two(desk: Desk) -> Desk:
    desk.put("a.pb", model())
    desk.put("b.pb", model("VALID"))
    desk.put("c.pb", model(name="layer"))
    return desk


def test_the_exit_code_tells_whether_something_differs(two: Desk) -> None:
    two.done("diff", "a.pb", "a.pb")
    assert two.run("diff", "a.pb", "b.pb").code == 1
    assert two.run("diff", "a.pb", "c.pb").code == 1
    two.done("diff", "a.pb", "c.pb", "--ignore", "names")
    assert two.run("diff", "a.pb", "missing.pb").code == 3


def test_calls_a_thousand_deep_are_compared_and_drawn(desk: Desk) -> None:
    def call(to: str) -> bytes:
        return node("y", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func(to))

    inner = [function(f"f{n}", call(f"f{n + 1}")) for n in range(1_200)]
    for name, op in (("a.pb", "Neg"), ("b.pb", "Abs")):
        body = function("f1200", node("y", op, ["x"], T=FLOAT))
        desk.put(name, graph_bytes(placeholder("x"), call("f0"), trailer=library(*inner, body) + VERSIONS))
    ran = desk.run("diff", "a.pb", "b.pb", "-o", "page.html", "--json")
    assert ran.code == 1 and json.loads(ran.out)["functions"]
    assert (desk.folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    desk.done("view", "a.pb", "-o", "picture.svg", "--depth", "100")


@pytest.mark.parametrize("option", ["--map-file", "-o"])
@pytest.mark.parametrize("read", ["a.pb", "b.pb"])
def test_what_is_written_does_not_replace_a_model(two: Desk, read: str, option: str) -> None:
    two.refused(2, "would-replace", "diff", "a.pb", "b.pb", option, read, other=read)


@pytest.mark.parametrize(
    "line",
    ["a.pb", "a.pb b.pb c.pb", "- -", "a.pb b.pb --ignore colours", "a.pb b.pb --stat --json", "a.pb b.pb --textconv",
     "a.pb b.pb --git", "a.pb b.pb -o -"],
)  # fmt: skip
def test_what_makes_no_sense_is_said_in_one_line(two: Desk, line: str) -> None:
    ran = two.run("diff", *line.split())
    check_said(ran, code=2)
    assert ran.err.startswith("Error: ")


def test_json_has_all(two: Desk) -> None:
    found = json.loads(two.run("diff", "a.pb", "b.pb", "--json").out)
    assert not found["same"]
    assert found["changed"] == [
        {
            "before": "conv",
            "after": "conv",
            "details": [{"what": "attr", "key": "padding", "before": "'SAME'", "after": "'VALID'"}],
        }
    ]


def test_markdown_begins_with_its_mark_and_escapes_names(desk: Desk) -> None:
    desk.put("a.pb", model())
    desk.put("b.pb", model(name="x_y_z"))
    lines = desk.run("diff", "a.pb", "b.pb", "--markdown").out.decode().splitlines()
    assert lines[0] == "<!-- gdsurgeon diff -->"
    assert any("x\\_y\\_z" in line for line in lines)


def test_one_of_both_comes_from_standard_input(two: Desk) -> None:
    ran = two.run("diff", "a.pb", "-", data=model("VALID"))
    assert ran.code == 1
    assert b"padding: 'SAME' -> 'VALID'" in ran.out


def test_the_mapping_is_what_validate_takes(two: Desk) -> None:
    two.run("diff", "a.pb", "c.pb", "--map-file", "pairs.txt")
    assert (two.folder / "pairs.txt").read_text() == "conv=layer\n"


def test_pairs_on_standard_output_are_alone_there(two: Desk) -> None:
    ran = two.run("diff", "a.pb", "c.pb", "--map-file", "-")
    assert (ran.code, ran.out) == (1, b"conv=layer\n")
    assert two.run("diff", "a.pb", "c.pb", "--map-file", "-", "--json").code == 2


def test_a_page_shows_both(two: Desk) -> None:
    assert two.run("diff", "a.pb", "b.pb", "-o", "d.html").code == 1
    assert "a.pb → b.pb" in (two.folder / "d.html").read_text()


@pytest.mark.tensorflow
def test_exports_under_other_names_are_compared_by_running(desk: Desk) -> None:
    def export(name: str) -> bytes:
        return graph_bytes(
            placeholder(f"{name}x", FLOAT, (2, 2)),
            const(f"{name}w", [1, 2]),
            node(f"{name}sum", "AddV2", [f"{name}x", f"{name}w"], T=FLOAT),
            node(f"{name}neg", "Neg", [f"{name}sum"], T=FLOAT),
        )

    desk.put("a.pb", export("a"))
    desk.put("b.pb", export("b"))
    failed = desk.run("validate", "a.pb", "b.pb")
    assert failed.code == 5
    assert "gdsurgeon diff a.pb b.pb shows what changed" in failed.err
    assert desk.run("diff", "a.pb", "b.pb", "--map-file", "pairs.txt").code == 1
    ran = desk.done("validate", "a.pb", "b.pb", "--map-file", "pairs.txt")
    assert "bit-identical" in ran.err


class Repository:
    """A git repository with a model in two versions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = f"{sys.executable} -m gdsurgeon"
        self.git("init", "-q")
        (folder / ".gitattributes").write_text("*.pb diff=gdsurgeon\n")
        (folder / "model.pb").write_bytes(model())
        self.git("add", ".")
        self.git("commit", "-q", "-m", "One")
        (folder / "model.pb").write_bytes(model("VALID"))

    def git(self, *words: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(self.folder), "GIT_PAGER": "cat"}
        own = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.pager=cat"]
        done = subprocess.run(
            ["git", *own, *words], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_git_calls_it_as_an_external_driver(tmp_path: Path) -> None:
    """A file that is not a model does not stop git."""
    repository = Repository(tmp_path)
    repository.git("config", "diff.gdsurgeon.command", f"{repository.program} diff --git")
    (tmp_path / "new.pb").write_bytes(model())
    repository.git("add", "-N", "new.pb")
    shown = repository.git("diff")
    assert "--- a/model.pb" in shown and "conv (Conv2D)  padding: 'SAME' -> 'VALID'" in shown
    assert "added new.pb" in shown
    (tmp_path / "model.pb").write_bytes(b"\x89PNG no model")
    assert "model.pb: " in repository.git("diff")


def test_git_compares_texts(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("config", "diff.gdsurgeon.textconv", f"{repository.program} diff --textconv")
    changed = [
        line for line in repository.git("diff").splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert changed == [
        "-conv = Conv2D(x, w) T=float32 padding='SAME'",
        "+conv = Conv2D(x, w) T=float32 padding='VALID'",
    ]


def test_the_text_is_in_the_order_of_names_and_without_inferred_shapes(desk: Desk) -> None:
    records = (placeholder("b"), const("a", range(9)), node("c", "Neg", ["b"], T=FLOAT, _output_shapes=(1,)))
    desk.put("a.pb", graph_bytes(*records))
    lines = desk.run("diff", "--textconv", "a.pb").out.decode().splitlines()
    assert [line.split(" = ")[0] for line in lines] == ["a", "b", "c"]
    assert lines[0].startswith("a = Const() float32 [9] #") and lines[2] == "c = Neg(b) T=float32"
