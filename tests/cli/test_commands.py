"""What all commands have in common: their help, their mistakes, their files, their report."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import pytest
from support import graphs
from support.desk import Desk, check_refused, check_said
from support.graphs import FLOAT, INT32, add, const, graph_bytes, identity, node, placeholder, scalar

from gdsurgeon.cli.command import HEADINGS, SharedOption
from gdsurgeon.cli.main import main
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.registry import COMMANDS
from gdsurgeon.wire.text import to_text

QUICK = ("--validate", "structure")
EARLIER = b"an earlier output"
QUERIES = ("inspect", "select", "validate")
THERE = [name for name, entry in COMMANDS.items() if entry.group != "This program"]
EDITING = [name for name in THERE if name not in QUERIES]

for_each = pytest.mark.parametrize("name", THERE)


def marked(names: Sequence[str]) -> list[Any]:
    """NAMES, those marked that have TensorFlow work for them whatever is to be proven."""
    return [pytest.param(n, marks=pytest.mark.tensorflow) if n in ("add-gradients", "validate") else n for n in names]


for_each_edit = pytest.mark.parametrize("name", marked(EDITING))


def model() -> bytes:
    call = node("called", "PartitionedCall", ["tower/same"], f=graphs.func("F"), Tin=graphs.dtypes(FLOAT),
                Tout=graphs.dtypes(FLOAT))  # fmt: skip
    library = graphs.library(graphs.function("F", node("y", "Neg", ["x"], T=FLOAT)))
    return graph_bytes(
        placeholder("image", FLOAT, (-1, 2)), placeholder("keep_prob", FLOAT, ()), const("tower/scale", [2, 3]),
        node("tower/scaled", "Mul", ["image", "tower/scale"], T=FLOAT), identity("tower/same", "tower/scaled"), call,
        node("guard", "NoOp", ["^keep_prob"]), node("kept", "Mul", ["called", "keep_prob"], T=FLOAT, device="/cpu:0"),
        node("scores", "Abs", ["kept", "^guard"], T=FLOAT), trailer=library + graphs.VERSIONS,
    )  # fmt: skip


def part(name: str, result: str, shape: tuple[int, ...] = (-1, 2)) -> bytes:
    """A graph from NAME to RESULT, with a constant."""
    return graph_bytes(placeholder(name, FLOAT, shape), scalar("seven", 7), add(result, name, "seven"))


FILES = {
    "model.pb": model(),
    "pre.pb": part("image", "image_preprocessed"),
    "post.pb": part("scores", "scores_postprocessed"),
    "other.pb": part("picture", "points"),
    "wrong.pb": part("imagge", "imagge_preprocessed"),
    "wrong_post.pb": part("score", "score_postprocessed"),
}


class Case(NamedTuple):
    """How a command is called.

    Attributes:
        good: arguments with which it does something.
        poor: calls that lack an argument.
        unknown: arguments that name what is not there, and what is said.
    """

    good: tuple[str, ...]
    poor: tuple[tuple[str, ...], ...]
    unknown: tuple[tuple[str, ...], str] | None
    code: int = 4


MODEL = "model.pb"
CASES = {
    "add-gradients": Case(
        (MODEL, "--ys", "tower/same", "--xs", "image"),
        ((MODEL,), (MODEL, "--ys", "scores"), (MODEL, "--xs", "image")),
        ((MODEL, "--ys", "tower/same", "--xs", "imag"), "'image'"),
    ),
    "add-postprocessing": Case((MODEL, "post.pb"), ((MODEL,),), ((MODEL, "wrong_post.pb"), "'scores'")),
    "add-preprocessing": Case((MODEL, "pre.pb"), ((MODEL,),), ((MODEL, "wrong.pb"), "'image'")),
    "clone-scope": Case((MODEL, "tower", "copy"), ((MODEL,), (MODEL, "tower")), ((MODEL, "towr", "copy"), "'tower'")),
    "control": Case((MODEL, "--add", "called=^guard"), ((MODEL,),), ((MODEL, "--add", "called=^gard"), "'guard'")),
    "extract": Case(
        (MODEL, "--inputs", "tower/scaled", "--outputs", "scores"),
        ((MODEL,), (MODEL, "--inputs", "image")),
        ((MODEL, "--inputs", "tower/scald", "--outputs", "scores"), "'tower/scaled'"),
    ),
    "freeze-input": Case((MODEL, "keep_prob=0.5"), ((MODEL,),), ((MODEL, "keep_prb=0.5"), "'keep_prob'")),
    "fuse-ops": Case(
        (MODEL, "--node", "tower/scaled", "--node", "tower/same", "--name", "fused"),
        ((MODEL, "--name", "fused"), (MODEL, "--node", "tower/same")),
        ((MODEL, "--node", "tower/sam", "--name", "fused"), "'tower/same'"),
    ),
    "import": Case(
        (MODEL, "other.pb", "--scope", "o", "--connect", "image=picture"),
        ((MODEL,),),
        ((MODEL, "other.pb", "--connect", "imag=picture"), "'image'"),
    ),
    "inline": Case((MODEL,), (), ((MODEL, "--function", "G"), "'G'")),
    "insert": Case(
        (MODEL, "tower/scaled", "other.pb"),
        ((MODEL,), (MODEL, "tower/scaled")),
        ((MODEL, "tower/scald", "other.pb"), "'tower/scaled'"),
    ),
    "inspect": Case((MODEL,), (), None),
    "remove": Case(
        (MODEL, "--node", "tower/same", "--bypass"), ((MODEL,),), ((MODEL, "--node", "tower/sam"), "'tower/same'")
    ),
    "rename": Case((MODEL, "scores=classes"), ((MODEL,),), ((MODEL, "score=classes"), "'scores'")),
    "reroute": Case((MODEL, "tower/same=tower/scaled"), ((MODEL,),), ((MODEL, "tower/sam=image"), "'tower/same'")),
    "validate": Case((MODEL,), (), ((MODEL, "--outputs", "score"), "'scores'")),
    "select": Case((MODEL, "--op", "Mul"), (), ((MODEL, "--op", "Mull"), "'Mul'")),
    "set-attr": Case(
        (MODEL, "tower/same", "_note:string=hello"),
        ((MODEL,), (MODEL, "tower/same"), (MODEL, "_note:string=hello")),
        ((MODEL, "tower/sam", "_note:string=hello"), "'tower/same'"),
    ),
    "swap-op": Case(
        (MODEL, "--node", "tower/same", "Neg"), ((MODEL,), (MODEL, "Neg")), ((MODEL, "--op", "Mul", "Mull"), "'Mul'")
    ),
    "set-device": Case((MODEL, "--clear"), ((MODEL,),), ((MODEL, "--set", "/cpu:0", "--node", "kep"), "'kept'")),
    "set-shape": Case((MODEL, "image=4,2"), ((MODEL,),), ((MODEL, "imag=4,2"), "'image'")),
}


@pytest.fixture
def files(desk: Desk) -> Desk:
    for name, data in FILES.items():
        desk.put(name, data)
    return desk


def good(name: str, model: str = MODEL) -> tuple[str, ...]:
    """A call that does something, on MODEL."""
    return (name, *(model if word == MODEL else word for word in CASES[name].good))


# -- help ----------------------------------------------------------------------------------------------------


def test_every_command_has_a_case() -> None:
    assert set(CASES) >= set(THERE)


def loaded(name: str) -> click.Command:
    with main.make_context("gdsurgeon", ["--help"], resilient_parsing=True) as context:
        command = main.get_command(context, name)
    assert command is not None
    return command


def examples(name: str) -> list[list[str]]:
    """The calls in the help of a command, without what they are piped into."""
    text = loaded(name).help or ""
    lines = [line.strip() for line in text.split("xample", 1)[-1].splitlines()]
    return [shlex.split(line.split(" | ")[0])[1:] for line in lines if line.startswith("gdsurgeon ")]


@for_each
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(desk: Desk, name: str, flag: str) -> None:
    ran = desk.run(name, flag)
    assert (ran.code, ran.err) == (0, "")
    text = ran.out.decode()
    assert text.startswith(f"Usage: gdsurgeon {name} [OPTIONS] MODEL")
    assert f"gdsurgeon {name} " in text.split("xample", 1)[1]
    assert all(len(line) <= 120 for line in text.splitlines())
    assert desk.files() == {}


@for_each
def test_help_says_what_each_option_does(name: str) -> None:
    for parameter in loaded(name).params:
        if isinstance(parameter, click.Option):
            assert parameter.help and parameter.help.endswith((".", "]", ")")), parameter.name


@for_each
def test_the_list_of_commands_tells_each(desk: Desk, name: str) -> None:
    text = desk.run("--help").out.decode()
    assert f"  {name} " in text and COMMANDS[name].help.split()[0] in text


@for_each
def test_a_command_s_own_options_come_first_and_shared_ones_under_headings(desk: Desk, name: str) -> None:
    text = desk.run(name, "--help").out.decode()
    headings = re.findall(r"^([A-Z]\w+):$", text, re.MULTILINE)
    own = [p for p in loaded(name).params if isinstance(p, click.Option) and not isinstance(p, SharedOption)]
    assert headings == [heading for heading in HEADINGS if heading in headings]
    assert ("Options" in headings) == bool(own)
    assert headings[-1] == "Messages" and "--help" in text.split("\nMessages:\n")[1]
    if name not in QUERIES:
        assert headings[-4:] == ["Output", "Proof", "Feeds", "Messages"]
        assert "-o, --output OUT" in text.split("\nOutput:\n")[1].split("\nProof:\n")[0]


def test_the_list_of_commands_is_grouped(desk: Desk) -> None:
    text = desk.run("--help").out.decode()
    groups = list(dict.fromkeys(entry.group for entry in COMMANDS.values()))
    found = re.findall(r"^([A-Z][\w ]+):$", text, re.MULTILINE)
    assert found == ["Options", *groups]


def test_help_without_a_command_is_the_list(desk: Desk) -> None:
    listed = desk.run("--help")
    assert desk.run() == desk.run("help") == listed == (0, listed.out, "")


@for_each
def test_help_of_a_command(desk: Desk, name: str) -> None:
    assert desk.run("help", name) == desk.run(name, "--help")


def test_help_of_what_is_no_command(desk: Desk) -> None:
    check_refused(desk, 2, ("there is no command 'renam'", "Did you mean 'rename'?"), "help", "renam")


@for_each
def test_examples_are_well_formed(desk: Desk, name: str) -> None:
    """They are usage, whatever else: the first thing that is wrong with them is that the model is not there."""
    found = examples(name)
    assert found
    for words in found:
        assert words[0] == name
        ran = desk.run(*words)
        assert ran.code == 3, (words, ran.err)
        check_said(ran, ".pb")
        assert desk.files() == {}


# -- mistakes ------------------------------------------------------------------------------------------------


@for_each
def test_without_arguments(desk: Desk, name: str) -> None:
    check_refused(desk, 2, ("MODEL", f"gdsurgeon {name} --help"), name)


@for_each
def test_missing_arguments(files: Desk, name: str) -> None:
    for arguments in CASES[name].poor:
        check_refused(files, 2, (), name, *arguments, *(() if name in QUERIES else ("-o", "out.pb")))


@for_each
def test_unknown_options_and_too_many_arguments(files: Desk, name: str) -> None:
    check_refused(files, 2, ("--nonsense",), *good(name), "--nonsense")
    if name not in ("rename", "reroute", "freeze-input", "set-attr", "set-shape", "validate"):
        check_refused(files, 2, ("surplus",), *good(name), "surplus")


@for_each_edit
def test_an_option_that_is_almost_one(files: Desk, name: str) -> None:
    check_refused(files, 2, ("--outptu", "--output"), *good(name), "--outptu", "x")


@for_each
def test_a_model_that_is_not_there(files: Desk, name: str) -> None:
    out = () if name in QUERIES else ("-o", "out.pb", *QUICK)
    check_refused(files, 3, ("gone.pb", "no such file"), *good(name, "gone.pb"), *out)
    check_refused(files, 3, ("gone.pb", "no such file"), *good(name, "./nowhere/gone.pb"), *out)


@for_each_edit
def test_a_second_graph_that_is_not_there(files: Desk, name: str) -> None:
    seconds = [word for word in CASES[name].good if word.endswith(".pb") and word != MODEL]
    for second in seconds:
        words = tuple("gone.pb" if word == second else word for word in CASES[name].good)
        check_refused(files, 3, ("gone.pb", "no such file"), name, *words, "-o", "out.pb", *QUICK)


@pytest.mark.parametrize("name", marked(THERE))
def test_unknown_names_with_a_near_miss(files: Desk, name: str) -> None:
    unknown = CASES[name].unknown
    if unknown is None:
        return
    arguments, near = unknown
    out = () if name in QUERIES else ("-o", "out.pb", *QUICK)
    ran = check_refused(files, 4, (near,), name, *arguments, *out)
    if name != "inline":
        assert "Did you mean" in ran.err, ran.err


@for_each_edit
@pytest.mark.parametrize("level", ["none", "structure"])
def test_refusals_leave_nothing_behind(files: Desk, name: str, level: str) -> None:
    unknown = CASES[name].unknown
    assert unknown is not None
    files.put("report.json", EARLIER)
    files.put("out.pb", EARLIER)
    kept = apart_from(files, "report.json")
    for more in (("-o", "out.pb"), ("-i", "--backup", ".bak"), ("-o", "-"), ("-n",)):
        files.put("report.json", EARLIER)
        ran = files.run(name, *unknown[0], "--validate", level, "--report", "report.json", *more)
        assert (ran.code, ran.out) == (4, b"")
        assert (apart_from(files, "report.json"), files.temporary_files()) == (kept, [])
        report = json.loads((files.folder / "report.json").read_text())
        error = report["error"]
        assert (report["command"], report["passed"], report["output"], error["exit"]) == (name, False, None, 4)
        assert f"Error: {error['message']}\n" in ran.err and error["code"]
        assert (f"Hint: {error['hint']}\n" in ran.err) == (error["hint"] is not None)


@pytest.mark.parametrize("name", ["add-postprocessing", "add-preprocessing", "import", "insert"])
def test_a_report_does_not_replace_a_second_graph_that_is_broken(files: Desk, name: str) -> None:
    files.put("broken.pb", b"no graph")
    words = ["broken.pb" if word.endswith(".pb") and word != MODEL else word for word in CASES[name].good]
    said = ("Warning: --report broken.pb would replace broken.pb, which is read", "Error: broken.pb is not a GraphDef")
    ran = check_refused(files, 3, (), name, *words, "-o", "out.pb", "--report", "broken.pb", *QUICK)
    assert all(line in ran.err for line in said), ran.err


@pytest.mark.parametrize("name", QUERIES)
def test_an_error_is_the_answer_where_json_is_asked_for(files: Desk, name: str) -> None:
    ran = files.run(name, "gone.pb", "--json")
    error = json.loads(ran.out)["error"]
    assert (ran.code, error["exit"], error["code"]) == (3, 3, "bad-input")
    assert f"Error: {error['message']}" in ran.err and set(error) == {
        "code", "message", "details", "hint", "facts", "exit",
    }  # fmt: skip


@pytest.mark.tensorflow
@for_each_edit
def test_what_the_proof_refuses_leaves_nothing_behind(files: Desk, name: str) -> None:
    """Options that only the proof reads are wrong."""
    files.put("out.pb", EARLIER)
    check_refused(files, 2, ("nonsense",), *good(name), "-o", "out.pb", "--feed", "nonsense=1", "--timeout", "60")


@for_each_edit
def test_output_and_model_are_one_file(files: Desk, name: str) -> None:
    check_refused(files, 2, ("model.pb",), *good(name), "-o", "model.pb", *QUICK)
    check_refused(files, 2, ("model.pb",), *good(name), "-o", "./model.pb", *QUICK)


@for_each_edit
def test_the_output_is_none_of_what_is_read(files: Desk, name: str) -> None:
    for second in [word for word in CASES[name].good if word.endswith(".pb") and word != MODEL]:
        check_refused(files, 2, (second,), *good(name), "-o", second, *QUICK)
        check_refused(files, 2, (second,), *good(name), "-o", "out.pb", "--report", second, *QUICK)
    check_refused(files, 2, ("out.pb",), *good(name), "-o", "out.pb", "--report", "out.pb", *QUICK)
    check_refused(files, 2, ("model.pb",), *good(name), "-o", "out.pb", "--report", "model.pb", *QUICK)


@for_each_edit
def test_options_that_contradict_each_other(files: Desk, name: str) -> None:
    check_refused(files, 2, ("-i",), *good(name), "-i", "-o", "out.pb", *QUICK)
    check_refused(files, 2, ("--backup",), *good(name), "--backup", ".bak", *QUICK)
    check_refused(files, 2, ("--backup",), *good(name), "-i", "--backup", "", *QUICK)
    check_refused(files, 2, ("--validate",), *good(name), "--validate", "somewhat")
    check_refused(files, 2, ("--timeout",), *good(name), "--timeout", "0", *QUICK)


@for_each_edit
def test_output_beside_the_model_is_never_overwritten(files: Desk, name: str) -> None:
    files.put("model.edited.pb", EARLIER)
    check_refused(files, 2, ("model.edited.pb",), *good(name), *QUICK)


# -- files ---------------------------------------------------------------------------------------------------


def edited(desk: Desk, name: str) -> bytes:
    """What the command makes of the model."""
    ran = desk.run(*good(name), "-o", "first.pb", *QUICK)
    assert ran.code == 0, ran.err
    data = desk.files()["first.pb"]
    assert isinstance(data, bytes)
    (desk.folder / "first.pb").unlink()
    return data


def apart_from(desk: Desk, *names: str) -> dict[str, bytes | str]:
    return {name: data for name, data in desk.files().items() if name not in names}


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
    ran = files.spawn(*good(name, "-"), *QUICK, data=FILES[MODEL])
    assert (ran.code, ran.out) == (0, expected), ran.err
    assert files.files() == FILES
    assert files.temporary_files() == []


@for_each
def test_an_empty_pipe(files: Desk, name: str) -> None:
    ran = files.spawn(*good(name, "-"), *(() if name in QUERIES else QUICK), data=b"")
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
    assert report["nodes"] == {"before": 9, "after": len(graphs.parsed(expected).node)}
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
    if name not in ("reroute", "set-attr", "swap-op"):
        assert proof["compared"] >= 1
    assert files.temporary_files() == []


def _feed(name: str) -> str:
    """A value for an input that the result still has."""
    return {"extract": "keep_prob=0.25", "freeze-input": "image=[[1, 2]]"}.get(name, "keep_prob=0.25")


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", [n for n in ("remove", "extract", "import", "insert", "freeze-input") if n in EDITING])
def test_proven_in_a_pipe(files: Desk, name: str) -> None:
    expected = edited(files, name)
    ran = files.spawn(*good(name, "-"), data=FILES[MODEL])
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
    assert files.spawn(*good(name, "-"), data=FILES[MODEL]).code == 0


# -- commands in a row ---------------------------------------------------------------------------------------


def test_a_pipeline_of_commands(files: Desk) -> None:
    """What one writes another reads, and the order in which nothing meets does not matter."""

    def through(*calls: Sequence[str]) -> bytes:
        data = FILES[MODEL]
        for call in calls:
            ran = files.spawn(*call, *QUICK, data=data)
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
