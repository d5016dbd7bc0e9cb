"""clone-scope on the command line, and its proof."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.cloning import KEYS, MODEL, layer, table, variable
from support.graphs import (
    DOUBLE,
    FLOAT,
    INT32,
    STRING,
    X,
    add,
    const,
    graph_bytes,
    identity,
    neg,
    node,
    placeholder,
    tensor,
)
from support.patience import within
from support.v1_control_flow import LOOP

from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Request, operate


class Command:
    """`gdsurgeon clone-scope model.pb s t`, with what it says and writes."""

    def __init__(self, folder: Path, read: Callable[[], Any]) -> None:
        self.folder, self._read = folder, read

    def __call__(self, records: Sequence[bytes], *options: str) -> tuple[int, str, dict[str, Any]]:
        terminal.__init__()  # type: ignore[misc]
        self._read()
        model, out, report = (self.folder / name for name in ("model.pb", "out.pb", "report.json"))
        model.write_bytes(graph_bytes(*records))
        for old in (out, report):
            old.unlink(missing_ok=True)
        code = exit_code(["clone-scope", str(model), *options, "-o", str(out), "--report", str(report)])
        said = self._read().err
        assert "Traceback" not in said and "internal fault" not in said, said
        assert out.exists() == (code == 0) and report.exists() == (code in (0, 3, 4, 5, 7)), said
        return code, said, json.loads(report.read_text()) if code == 0 else {}


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys.readouterr)


def pairs_of(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(o["original"], o["edited"]) for o in report["proof"]["outputs"] if o["compared"] and o["equal"]}


@pytest.mark.tensorflow
def test_a_clone_is_proven(command: Command) -> None:
    code, said, report = command(MODEL, "s", "t", "--input", "x=z")
    assert code == 0, said
    assert report["proof"]["statement"] == "edited(x) = original(x), t(x) = s(x)"
    assert pairs_of(report) == {("y", "y"), ("s/add", "t/add")}
    assert "bit-identical" in said


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "records",
    [
        [X, *layer("s", "x"), neg("y", "s/add")],
        [X, placeholder("s/in", FLOAT, (2,)), add("s/sum", "s/in", "x"), identity("y", "s/sum")],
        [KEYS, *table("s", "s/table", "s/init"), identity("y", "s/find")],
        [KEYS, *table("s", "s/table", "init"), identity("y", "s/find")],
        [X, *variable("s", "s/init"), identity("y", "s/mul")],
        [X, *variable("s", "init"), identity("y", "s/mul")],
        [r.replace(b"w/", b"s/") for r in LOOP],
        [X, const("s/n", [2], INT32), node("s/r", "RandomUniform", ["s/n"], T=INT32, dtype=FLOAT),
         node("s/mul", "Mul", ["s/r", "x"], T=FLOAT), identity("y", "s/mul")],
    ],
    ids=["layer", "placeholder", "table", "table filled outside", "variable", "variable set outside", "loop", "random"],
)  # fmt: skip
def test_scopes_of_all_kinds_are_proven(command: Command, records: list[bytes]) -> None:
    code, said, report = command(records, "s", "t")
    assert code == 0, said
    assert any(new.startswith("t/") for _, new in pairs_of(report)), report["proof"]


@pytest.mark.tensorflow
def test_a_clone_that_is_wrong_is_caught(tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(graph_bytes(*MODEL))

    def spoilt(how: Callable[[Graph], None]) -> Callable[[Graph], EditResult]:
        def edit(found: Graph) -> EditResult:
            result = clone_scope(found, "s", "t", inputs=[("x", "z")])
            how(found)
            return result

        return edit

    def weight(found: Graph) -> None:
        found.set_attr(found["t/w"], "value", tensor([2.000001, 3]))

    def op(found: Graph) -> None:
        found.set_op(found["t/add"], "Sub")

    def source(found: Graph) -> None:
        found.set_inputs(found["t/mul"], [found["x"].output, found["t/w"].output])

    def original(found: Graph) -> None:
        found.set_attr(found["s/w"], "value", tensor([2.000001, 3]))

    for how in (weight, op, source, original):
        with pytest.raises(Exception, match="the result differs"):
            operate(Request(str(tmp_path / "model.pb"), out=str(tmp_path / "out.pb")), spoilt(how))
        assert not (tmp_path / "out.pb").exists()


@pytest.mark.tensorflow
def test_a_graph_that_runs_on_no_feed_is_given_up_soon(command: Command) -> None:
    """Sounds are made for the input, and not by the million where its shape is not known."""
    records = [
        node("sound", "Placeholder", dtype=STRING),
        node("s/wav", "DecodeWav", ["sound"], desired_channels=1, desired_samples=-1),
        const("s/odd", [7, 11, 13], INT32),
        node("s/cut", "Reshape", ["s/wav", "s/odd"], T=FLOAT, Tshape=INT32),
        identity("y", "s/cut"),
    ]
    with within(15):
        code, said, _ = command(records, "s", "t")
    assert code == 7 and "does not run on the feeds made for it" in said


@pytest.mark.tensorflow
def test_options(command: Command) -> None:
    taken = [*MODEL, const("t/x", [1, 1])]
    code, said, _ = command(taken, "s", "t")
    assert code == 4 and "the scope 't' is in use" in said and "--unique" in said
    code, said, report = command(taken, "s", "t", "--unique", "--share", "w$", "--share", "/b$")
    assert code == 0, said
    assert sorted(report["edit"]["added"]) == ["t_1/add", "t_1/mul"]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["s"], 2, "DST"),
        (["s", "t", "--input", "x"], 2, "'x' is not a pair OLD=NEW"),
        (["s", "t", "--input", "x=d"], 4, "dtypes differ"),
        (["tower", "t"], 4, "there is no scope 'tower'"),
        (["s", "t", "--share", "mul"], 4, "'s/mul' cannot be shared"),
    ],
)
def test_errors(command: Command, options: list[str], code: int, words: str) -> None:
    found, said, _ = command([*MODEL, placeholder("d", DOUBLE, (2,))], *options, "--validate", "none")
    assert found == code and words in said
