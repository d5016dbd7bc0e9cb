"""What all commands have in common: their files, their report, what they prove."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from support import graphs
from support.commands import (
    EARLIER,
    EDITING,
    FILES,
    MODEL,
    QUERIES,
    QUICK,
    THERE,
    apart_from,
    edited,
    for_each,
    for_each_edit,
    good,
)
from support.desk import Desk, check_refused, check_said
from support.graphs import FLOAT, INT32, const, graph_bytes, identity, node, placeholder

from gdsurgeon import select
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.executor import Executor
from gdsurgeon.wire.text import to_text

# -- files ---------------------------------------------------------------------------------------------------


@for_each_edit
def test_the_default_output_is_beside_the_model(files: Desk, name: str) -> None:
    expected = edited(files, name)
    assert expected != FILES[MODEL]
    ran = files.run(*good(name), *QUICK)
    assert (ran.code, ran.out) == (0, b"")
    assert files.files()["model.edited.pb"] == expected
    assert apart_from(files, "model.edited.pb") == FILES
    assert files.temporary_files() == []
    assert "model.edited.pb" in ran.err


@for_each_edit
def test_the_same_bytes_each_time(files: Desk, name: str) -> None:
    assert edited(files, name) == edited(files, name)


@for_each_edit
def test_the_result_is_sound_and_is_loaded_again(files: Desk, name: str) -> None:
    from gdsurgeon.analysis.checks.check import check

    assert check(from_bytes(edited(files, name))).faults == []


@for_each_edit
def test_dry_run_writes_nothing(files: Desk, name: str) -> None:
    files.put("out.pb", EARLIER)
    before = files.files()
    for more in ((), ("-o", "out.pb"), ("-i",), ("-i", "--backup", ".bak"), ("-o", "-"), ("-o", "new.pb")):
        ran = files.run(*good(name), *QUICK, "-n", *more)
        assert (ran.code, ran.out) == (0, b""), ran.err
        assert "nothing written" in ran.err
        assert files.files() == before
    assert files.temporary_files() == []


@for_each_edit
def test_in_place_with_backup(files: Desk, name: str) -> None:
    expected = edited(files, name)
    ran = files.run(*good(name), *QUICK, "-i", "--backup", ".bak")
    assert (ran.code, ran.out) == (0, b""), ran.err
    assert files.files()[MODEL] == expected
    assert files.files()["model.pb.bak"] == FILES[MODEL]
    assert apart_from(files, MODEL, "model.pb.bak") == {k: v for k, v in FILES.items() if k != MODEL}
    assert files.temporary_files() == []


@for_each_edit
def test_in_place_without_backup(files: Desk, name: str) -> None:
    expected = edited(files, name)
    assert files.run(*good(name), *QUICK, "-i").code == 0
    assert files.files() == {**FILES, MODEL: expected}


@for_each_edit
def test_an_output_is_replaced(files: Desk, name: str) -> None:
    files.put("out.pb", EARLIER)
    expected = edited(files, name)
    assert files.run(*good(name), *QUICK, "-o", "out.pb").code == 0
    assert files.files()["out.pb"] == expected


@for_each_edit
def test_to_standard_output(files: Desk, name: str) -> None:
    expected = edited(files, name)
    ran = files.run(*good(name), *QUICK, "-o", "-")
    assert (ran.code, ran.out) == (0, expected)
    assert files.files() == FILES


@for_each_edit
def test_in_a_pipe(files: Desk, name: str) -> None:
    expected = edited(files, name)
    ran = files.run(*good(name, "-"), *QUICK, data=FILES[MODEL])
    assert (ran.code, ran.out) == (0, expected), ran.err
    assert files.files() == FILES
    assert files.temporary_files() == []


@for_each
def test_an_empty_pipe(files: Desk, name: str) -> None:
    ran = files.run(*good(name, "-"), *(() if name in QUERIES else QUICK), data=b"")
    assert (ran.code, ran.out) == (3, b"")
    check_said(ran, "empty")


@for_each_edit
def test_a_text_graph(files: Desk, name: str) -> None:
    """It stays text, and is edited as the binary one is."""
    files.put("model.pbtxt", to_text(FILES[MODEL]))
    ran = files.run(*good(name, "model.pbtxt"), *QUICK, "-o", "out.pb")
    assert ran.code == 0, ran.err
    out = files.files()["out.pb"]
    assert isinstance(out, bytes)
    assert graphs.parsed(out) == graphs.parsed(edited(files, name))
    ran = files.run(*good(name, "model.pbtxt"), *QUICK)
    assert ran.code == 0
    text = files.files()["model.edited.pbtxt"]
    assert isinstance(text, bytes)
    assert b"node {" in text and graphs.parsed(edited(files, name)) == _parsed_text(text)


def _parsed_text(text: bytes) -> object:
    from gdsurgeon.wire.text import to_binary

    return graphs.parsed(to_binary(text, "text"))


# -- what is told --------------------------------------------------------------------------------------------


@for_each_edit
def test_report(files: Desk, name: str) -> None:
    expected = edited(files, name)
    ran = files.run(*good(name), *QUICK, "-o", "out.pb", "--report", "report.json")
    assert ran.code == 0
    found = files.files()["report.json"]
    assert isinstance(found, bytes)
    report = json.loads(found)
    assert (report["command"], report["model"], report["output"]) == (name, "model.pb", "out.pb")
    assert (report["bytes"], report["dry_run"]) == (len(expected), False)
    assert report["nodes"] == {"before": 10, "after": len(graphs.parsed(expected).node)}
    assert report["claims"] and report["proof"]["level"] == "structure"
    assert any(report["edit"].values())
    assert apart_from(files, "out.pb", "report.json") == FILES


@for_each_edit
def test_what_is_said_is_said_on_standard_error(files: Desk, name: str) -> None:
    ran = files.run(*good(name), *QUICK, "-o", "out.pb")
    assert (ran.code, ran.out) == (0, b"")
    warnings = [line for line in ran.err.splitlines() if line.startswith("Warning: ")]
    assert ran.err.splitlines()[len(warnings)].startswith("out.pb  ")
    assert "structure only: not run" in ran.err
    quiet = files.run(*good(name), *QUICK, "-o", "out.pb", "-q")
    assert (quiet.code, quiet.out, quiet.err.splitlines()) == (0, b"", warnings)
    assert "\x1b" not in ran.err


@for_each_edit
def test_without_validation(files: Desk, name: str) -> None:
    ran = files.run(*good(name), "--validate", "none", "-o", "out.pb")
    assert ran.code == 0, ran.err
    assert files.files()["out.pb"] == edited(files, name)


@pytest.mark.tensorflow
@for_each_edit
def test_proven(files: Desk, name: str) -> None:
    expected = edited(files, name)
    ran = files.run(*good(name), "-o", "out.pb", "--report", "report.json", "--feed", _feed(name))
    assert (ran.code, ran.out) == (0, b""), ran.err
    assert "proven   " in ran.err and "not run" not in ran.err
    assert files.files()["out.pb"] == expected
    report = files.files()["report.json"]
    assert isinstance(report, bytes)
    proof = json.loads(report)["proof"]
    assert proof["level"] == "run" and proof["statement"]
    assert proof["outputs"] and all(o["equal"] for o in proof["outputs"] if o["compared"])
    if name not in ("reroute", "set-attr", "strip-weights", "swap-op"):
        assert proof["compared"] >= 1
    assert files.temporary_files() == []


def _feed(name: str) -> str:
    """A value for an input that the result still has."""
    return {"extract": "keep_prob=0.25", "freeze-input": "image=[[1, 2]]"}.get(name, "keep_prob=0.25")


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", [n for n in ("remove", "extract", "import", "insert", "freeze-input") if n in EDITING])
def test_proven_in_a_pipe(files: Desk, name: str) -> None:
    expected = edited(files, name)
    ran = files.run(*good(name, "-"), data=FILES[MODEL])
    assert (ran.code, ran.out) == (0, expected), ran.err
    assert "proven   " in ran.err
    assert files.files() == FILES


@pytest.mark.parametrize("name", [name for name in QUERIES if name in THERE and name != "validate"])
def test_queries_print_and_write_nothing(files: Desk, name: str) -> None:
    ran = files.run(*good(name))
    assert ran.code == 0 and ran.out and not ran.err
    shown = files.run(*good(name), "--json")
    assert shown.code == 0
    json.loads(shown.out)
    assert files.files() == FILES
    assert files.run(*good(name, "-"), data=FILES[MODEL]).code == 0


# -- commands in a row ---------------------------------------------------------------------------------------


def test_a_pipeline_of_commands(files: Desk) -> None:
    """What one writes another reads, and the order in which nothing meets does not matter."""

    def through(*calls: Sequence[str]) -> bytes:
        data = FILES[MODEL]
        for call in calls:
            ran = files.forked(*call, *QUICK, data=data)
            assert ran.code == 0, ran.err
            data = ran.out
        return data

    calls = (("rename", "-", "scores=classes"), ("freeze-input", "-", "keep_prob=0.5"),
             ("remove", "-", "--node", "tower/same", "--bypass"), ("inline", "-"))  # fmt: skip
    forth, back = through(*calls), through(*reversed(calls))
    assert sorted(graphs.parsed(forth).node, key=lambda n: n.name) == sorted(
        graphs.parsed(back).node, key=lambda n: n.name
    )
    assert graphs.ops(forth)["keep_prob"] == "Const"
    assert not graphs.parsed(forth).library.function


def test_second_graphs_that_do_not_fit(files: Desk) -> None:
    """Graphs that do not fit are refused as an edit, and not as input."""
    files.put("int.pb", graph_bytes(placeholder("picture", INT32, (2,)), identity("points", "picture", kind=INT32)))
    for arguments in (
        ("import", MODEL, "int.pb", "--connect", "image=picture"),
        ("insert", MODEL, "image", "int.pb"),
        ("add-preprocessing", MODEL, "int.pb", "--map", "image=picture,points"),
        ("add-postprocessing", MODEL, "int.pb", "--map", "scores=picture,points"),
    ):
        check_refused(files, 4, ("int32", "float32", "int.pb"), *arguments, "-o", "out.pb", *QUICK)


def test_what_an_edit_points_to(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(placeholder("x"), const("c", [1, 2]), node("y", "AddV2", ["x", "c"], T=FLOAT)))
    for line, *words in (
        ("set-attr model.pb c value=3", "of kind tensor", "Hint: freeze-input MODEL NAME=VALUE"),
        ("rename model.pb x:0=q", "'x:0' is not a node", "write 'x'"),
        ("rename model.pb x=y", "is taken by an AddV2 node"),
    ):
        check_refused(desk, 4, tuple(words), *line.split(), "--validate", "structure")


def test_to_look_at_the_structure_nothing_is_started(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.put("model.pb", graph_bytes(placeholder("x"), node("y", "Relu", ["x"], T=FLOAT)))
    monkeypatch.setattr(Executor, "start", lambda _: pytest.fail("a process is started"))
    assert desk.run("validate", "model.pb", "--validate", "structure").code == 0


@pytest.mark.parametrize(
    "line",
    [
        "select model.pb --select",
        "rename model.pb --regex",
        "reroute model.pb x=y --only",
        "clone-scope model.pb s t --share",
    ],
)
def test_a_pattern_that_takes_for_ever_is_refused(line: str, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "PATIENCE", 0.05)
    name = "s/" + "a" * 40 + "b"
    desk.put("model.pb", graph_bytes(placeholder("x"), identity("y", "x"), identity(name, "x")))
    pattern = "(a+)+$" + "=q" * line.endswith("--regex")
    more = () if line.startswith("select") else ("--validate", "structure")
    words = ("a regular expression has not come to an end", "Hint: a repetition inside a repetition")
    check_refused(desk, 4, words, *line.split(), pattern, *more)
