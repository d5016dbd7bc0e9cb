"""apply on the command line: a script has the effect of its commands in a row, or none."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.commands import CASES, EARLIER, EDITING, FILES, MODEL, QUICK, part
from support.desk import Desk, Ran
from support.shipped import Shipped

from gdsurgeon.graph.load import from_bytes

NAMES = b"rename scores=classes\n"
IDLE = "set-device --clear --op NoOp"
Facts = dict[str, Any]


def script(desk: Desk, *lines: str, name: str = "s.gds") -> str:
    (desk.folder / name).parent.mkdir(exist_ok=True)
    desk.put(name, "".join(f"{line}\n" for line in lines).encode())
    return name


def refused(desk: Desk, exit_code: int, code: str, lines: tuple[str, ...], *options: str, **facts: Any) -> Ran:
    """The script of LINES is refused, and no file changes."""
    return desk.refused(exit_code, code, "apply", MODEL, script(desk, *lines), *options, *QUICK, **facts)


def applied(desk: Desk, *lines: str, options: tuple[str, ...] = QUICK) -> bytes:
    """Returns the result of the script of LINES for the model."""
    desk.done("apply", MODEL, script(desk, *lines), "-o", "applied.pb", *options)
    return (desk.folder / "applied.pb").read_bytes()


def one_by_one(desk: Desk, *lines: str, model: str = MODEL) -> str:
    """The file that the commands LINES make of MODEL, one after the other."""
    for number, line in enumerate(lines):
        name, *arguments = shlex.split(line)
        desk.done(name, model, *arguments, "-o", f"{number}.pb", *QUICK)
        model = f"{number}.pb"
    return model


def check_same(desk: Desk, *lines: str, options: tuple[str, ...] = QUICK) -> None:
    """The script of LINES makes what the commands make one after the other."""
    assert applied(desk, *lines, options=options) == (desk.folder / one_by_one(desk, *lines)).read_bytes()


# -- what is made ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.tensorflow if name == "add-gradients" else ())
        for name in EDITING
        if name != "apply"
    ],
)
def test_every_edit_is_a_line_between_others(name: str, files: Desk) -> None:
    line = shlex.join([name, *(word.replace("^guard", "^sentry") for word in CASES[name].good[1:])])
    check_same(files, "rename guard=sentry", line, "rename keep_prob=kept_prob")


def test_a_body_that_is_put_in_twice(files: Desk) -> None:
    files.put("more.pb", part("picture", "points"))
    insert = "insert --at tower/scaled"
    check_same(files, f"{insert} other.pb", f"{insert} more.pb --prefix again", "rename points=p")


@pytest.mark.tensorflow
def test_it_is_proven_once(files: Desk) -> None:
    lines = ["rename scores=classes", "add-preprocessing pre.pb", "freeze-input keep_prob=0.5", "rename image=picture"]
    report = files.report("apply", MODEL, script(files, *lines), "-o", "out.pb")
    assert report["proof"]["statement"] == (
        "edited(x) == original(x, keep_prob := its value, image := image_preprocessed), "
        "pre.pb in place == pre.pb in isolation"
    )
    called = [f"s.gds:{number}" for number in range(1, 5)]
    assert [step["line"] if "line" in step else step["called"] for step in report["steps"]] == called
    each = files.report("apply", MODEL, "s.gds", "-o", "each.pb", "--prove-each")["proof"]
    assert [piece["called"] for piece in each["pieces"]] == called
    assert (files.folder / "each.pb").read_bytes() == (files.folder / "out.pb").read_bytes()


def test_the_summary_has_the_lines_as_they_are_written(files: Desk) -> None:
    script(files, "# names", "rename \\", " scores=$NAME  # all", "", "set-device --clear")
    told = files.run("apply", MODEL, "s.gds", "-n", "--var", "NAME=classes", *QUICK).err
    assert "  line     2: rename scores=$NAME\n" in told and "  line     5: set-device --clear\n" in told
    script(files, "rename scores=n0", *(f"rename n{n}=n{n + 1}" for n in range(99)))
    told = files.run("apply", MODEL, "s.gds", "-n", *QUICK).err
    lines = [line for line in told.splitlines() if line.startswith("  line")]
    assert len(lines) == 1 and lines[0].startswith("  line     1: rename scores=n0; ") and lines[0].endswith("97 more")
    assert "  renamed  scores  ->  n99" in told


# -- variables and files -----------------------------------------------------------------------------------------


def test_variables_are_those_of_the_environment_unless_they_are_set(
    files: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME", "of_environment")
    monkeypatch.setenv("UNUSED", "is no mistake")
    script(files, "rename scores=$NAME")
    for options, name in (((), "of_environment"), (("--var", "NAME=set"), "set")):
        files.done("apply", MODEL, "s.gds", "-o", "out.pb", *options, *QUICK)
        assert name in from_bytes((files.folder / "out.pb").read_bytes())


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        *(([value], "not-a-pair", {"option": "--var", "value": value}) for value in ("NAME", "=x", "")),
        *(([f"{name}=x"], "bad-name", {"name": name}) for name in ("A B", "1A", "É", "$NAME")),
        (["NAME=x", "NAME=y"], "given-twice", {"name": "NAME"}),
        (["NAME=x", "NAME=x"], "given-twice", {"name": "NAME"}),
        (["NAME=x", "OTHER=y"], "unused-variable", {"name": "OTHER", "near": None}),
        (["NAME=x", "NAMES=y"], "unused-variable", {"name": "NAMES", "near": "NAME"}),
        (["NAME=x", "PLAIN=y"], "unused-variable", {"name": "PLAIN", "near": "PLAIN"}),
    ],
)
def test_what_is_set_is_a_variable_of_the_script_once(options: list[str], code: str, facts: Facts, files: Desk) -> None:
    pairs = [word for pair in options for word in ("--var", pair)]
    refused(files, 2, code, ("rename scores=$NAME  # $PLAIN",), *pairs, **facts)
    files.refused(2, code, "apply", "--check", "s.gds", *pairs, **facts)


def test_a_variable_between_single_quotes_is_pointed_at(files: Desk) -> None:
    line = "add-postprocessing --at scores --steps 'argmax | labels(file=$FILE)'"
    ran = refused(files, 3, "unreadable", (line,), "--var", "FILE=l.txt", file="$FILE")
    assert ran.error is not None and ran.error.hint and len(ran.error.details) == 1


@pytest.mark.tensorflow
def test_paths_are_relative_to_the_script(files: Desk) -> None:
    script(files, "add-preprocessing mine.pb", "add-postprocessing ../post.pb", "freeze-input keep_prob=@half.npy",
           name="jobs/s.gds")  # fmt: skip
    files.put("jobs/mine.pb", FILES["pre.pb"])
    np.save(files.folder / "jobs" / "half.npy", np.float32(0.5))
    proof = files.report("apply", MODEL, "jobs/s.gds", "-o", "out.pb")["proof"]
    assert proof["compared"] and proof["largest_difference"] == 0


@pytest.mark.parametrize("out", ["s.gds", "./s.gds", "pre.pb", "jobs/mine.pb"])
def test_nothing_that_is_read_is_replaced(out: str, files: Desk) -> None:
    script(files, "", name="jobs/mine.pb")
    files.put("jobs/mine.pb", FILES["pre.pb"])
    for option in ("-o", "--report"):
        lines = ("add-preprocessing pre.pb", "add-preprocessing jobs/mine.pb")
        refused(files, 2, "would-replace", lines, option, out)


# -- standard input and output -----------------------------------------------------------------------------------


def test_scripts_and_models_in_pipes(files: Desk) -> None:
    assert files.run("apply", MODEL, "-", "-o", "out.pb", *QUICK, data=NAMES).code == 0
    wrong = ("apply", MODEL, "-", "-o", "wrong.pb", *QUICK)
    files.refused(4, "no-such-node", *wrong, data=b"rename a=b\n", place="<stdin>:1")
    lines = ("rename scores=classes", "add-preprocessing pre.pb")
    ran = files.run("apply", "-", script(files, *lines), "-o", "-", *QUICK, data=FILES[MODEL])
    assert (ran.code, ran.out) == (0, (files.folder / one_by_one(files, *lines)).read_bytes()), ran.err
    script(files, "add-preprocessing -")
    assert files.run("apply", MODEL, "s.gds", "-o", "out.pb", *QUICK, data=FILES["pre.pb"]).code == 0


@pytest.mark.parametrize(
    ("arguments", "lines", "place"),
    [
        (("-", "-"), ["rename scores=a"], None),
        ((MODEL, "-"), ["rename scores=a", "add-preprocessing -"], "<stdin>:2"),
        ((MODEL, "s.gds"), ["add-preprocessing -", "add-postprocessing -"], "s.gds:2"),
        (("-", "s.gds"), ["add-preprocessing -"], "s.gds:1"),
    ],
)
def test_standard_input_is_read_once(
    arguments: tuple[str, ...], lines: list[str], place: str | None, files: Desk
) -> None:
    data = "\n".join(lines).encode() if arguments[-1] == "-" else FILES["pre.pb"]
    script(files, *lines)
    files.refused(2, "conflicting-options", "apply", *arguments, "-o", "out.pb", *QUICK, data=data, place=place)


# -- nothing to do -----------------------------------------------------------------------------------------------


def test_an_idle_line_is_passed_over(files: Desk) -> None:
    wanted = one_by_one(files, "rename scores=classes", "rename image=picture")
    name = script(files, "rename scores=classes", IDLE, "rename image=picture")
    report = files.report("apply", MODEL, name, "-o", "out.pb", *QUICK)
    assert files.files()["out.pb"] == (files.folder / wanted).read_bytes()
    assert [step["called"] for step in report["steps"]] == ["s.gds:1", "s.gds:3"]
    assert any("s.gds:2: " in note for note in report["edit"]["notes"])
    refused(files, 4, "nothing-to-do", ("rename scores=classes", f"{IDLE} --require-change"), place="s.gds:2")
    refused(files, 4, "nothing-to-do", ("rename scores=classes", IDLE), "--require-change", place="s.gds:2")


UNDONE = (
    ("rename scores=a", "rename a=scores"),
    ("rename scores=a", IDLE, "rename --rename-scope tower=b", "rename a=scores", "rename --rename-scope b=tower"),
)


@pytest.mark.parametrize("lines", [(IDLE, IDLE), *UNDONE])
def test_lines_that_change_nothing_in_all(lines: tuple[str, ...], files: Desk) -> None:
    report = files.report("apply", MODEL, script(files, *lines), "-o", "out.pb", *QUICK)
    assert files.files()["out.pb"] == FILES[MODEL]
    assert bool(report["nothing_to_do"]) == (set(lines) == {IDLE})
    refused(files, 4, "nothing-to-do", tuple(line for line in lines if line != IDLE or not report["changed"]),
            "--require-change")  # fmt: skip


@pytest.mark.parametrize("last", ["rename a=scorez", "rename keep_prob=scores"])
def test_lines_that_do_not(last: str, files: Desk) -> None:
    files.done("apply", MODEL, script(files, "rename scores=a", last), "-n", "--require-change", *QUICK)


# -- what is wrong -----------------------------------------------------------------------------------------------

WRONG: list[tuple[int, str, str, Facts]] = [
    (2, "no-such-command", "renam scores=a", {"name": "renam", "near": "rename"}),
    (2, "not-an-edit", "inspect", {"name": "inspect"}),
    (2, "not-an-edit", "apply s.gds", {"name": "apply"}),
    (2, "bad-script", "rename 'scores=a", {"value": "'"}),
    (2, "no-such-variable", "rename scores=$NO_SUCH_ONE", {"name": "NO_SUCH_ONE"}),
    (2, "model-in-a-script", "gdsurgeon rename scores=a", {}),
    (2, "model-in-a-script", "rename model.pb scores=a", {"value": "model.pb"}),
    (2, "bad-script", "rename scores=a | gdsurgeon rename a=b", {"value": "|"}),
    (2, "missing-argument", "rename", {}),
    (2, "bad-option", "rename scores=a --frob", {"option": "--frob"}),
    (2, "not-in-a-script", "rename --help", {"option": "--help"}),
    (2, "not-in-a-script", "rename scores=a -o x.pb", {"option": "--output"}),
    (2, "not-in-a-script", "rename scores=a --validate none", {"option": "--validate"}),
    (2, "not-in-a-script", "rename scores=a --feed x=1", {"option": "--feed"}),
    (2, "not-in-a-script", "add-preprocessing --at picture --steps divide(2) --emit e.pb", {"option": "--emit"}),
    (3, "unreadable", "add-preprocessing nothere.pb", {"file": "nothere.pb"}),
    (4, "no-such-node", "rename score=a", {"node": "score", "near": "scores"}),
    (4, "no-such-function", "rename --in G a=b", {"function": "G"}),
    (4, "no-such-node", "rename gone=b", {"node": "gone"}),
]


@pytest.mark.parametrize(("exit_code", "code", "line", "facts"), WRONG)
def test_a_wrong_line_in_the_middle_leaves_everything_as_it_was(
    exit_code: int, code: str, line: str, facts: Facts, files: Desk
) -> None:
    first = ("# a comment", "rename keep_prob=gone", "rename gone=keep \\", "  image=picture")
    files.put("out.pb", EARLIER)
    lines = (*first, line, "set-device \\", "  --clear")
    refused(files, exit_code, code, lines, "-o", "out.pb", place="s.gds:5", **facts)
    if exit_code == 2 and MODEL not in line and "emit" not in line:
        files.refused(2, code, "apply", "--check", "s.gds", place="s.gds:5", **facts)


def test_wrong_lines_are_told_up_to_a_number(files: Desk) -> None:
    def places(*lines: str) -> list[str]:
        error = refused(files, 2, code, lines, place="s.gds:1" if lines[0] != "to-savedmodel" else "s.gds:2").error
        assert error is not None
        return [error.facts["place"], *(detail.rpartition(": ")[0][:7] for detail in error.details)]  # type: ignore

    code = "no-such-command"
    lines = ("renam a=b", "rename scores=a", "rename 'b", "set-device --clear -q", "$NO_SUCH_ONE")
    assert len(places(*lines)) == 4
    code = "not-a-pair"
    assert len(places(*["rename scores"] * 500)) == 22
    code = "not-the-last-line"  # said once
    assert len(places("to-savedmodel", "rename scores=a", "rename a", "rename a=b")) == 2


FIRST = ("rename scores=points", "rename tower/same=tower/whole", "rename points=final")
REASON = "line 1 renamed it to 'points', line 3 to 'final'"


@pytest.mark.parametrize(
    ("lines", "code", "facts"),
    [
        (("rename guard=sentry", "remove --select sentry", "control-edges --add scores=^guard"), "no-such-node",
         {"node": "guard", "reason": "line 1 renamed it to 'sentry', line 2 removed that"}),
        (("rename guard=sentry", "remove --select sentry", "rename sentry=a"), "no-such-node",
         {"node": "sentry", "reason": "line 2 removed it"}),
        (("rename --rename-scope tower=spire", "rename --rename-scope tower=a"), "nothing-matched",
         {"value": "tower", "reason": "line 1 renamed 'tower/scale' to 'spire/scale'"}),
        (("rename --rename-scope tower=spire", "clone-scope tower a"), "no-such-scope",
         {"name": "tower", "reason": "line 1 renamed 'tower/scale' to 'spire/scale'"}),
        (("rename scores=a", "rename keep_prob=scores", "rename scores=b", "rename scores=c"), "no-such-node",
         {"node": "scores", "reason": "line 3 renamed it to 'b'"}),
        *(((*FIRST, line), "no-such-node", {"node": node, "reason": reason}) for line, node, reason in (
            ("rename scores=a", "scores", REASON),
            ("rename points=a", "points", "line 3 renamed it to 'final'"),
            ("reroute tower/same=image", "tower/same", "line 2 renamed it to 'tower/whole'"),
            ("add-preprocessing pre.pb --map scores=image,image_preprocessed", "scores", REASON),
            ("add-postprocessing --at scores --steps softmax", "scores", REASON),
            ("rename score=a", "score", None),
        )),
    ],
)  # fmt: skip
def test_what_earlier_lines_did_to_a_name(lines: tuple[str, ...], code: str, facts: Facts, files: Desk) -> None:
    refused(files, 4, code, lines, place=f"s.gds:{len(lines)}", **facts)


@pytest.mark.tensorflow
def test_a_line_that_is_refused_where_it_is_proven(files: Desk) -> None:
    script(files, "rename scores=classes", "add-preprocessing fails.pb", "rename image=picture")
    reshaped = {"T": graphs.FLOAT, "Tshape": graphs.INT32}
    files.put("fails.pb", graphs.graph_bytes(
        graphs.placeholder("image", graphs.FLOAT, (-1, 2)), graphs.const("shape", [7, -1], graphs.INT32),
        graphs.node("checked", "Reshape", ["image", "shape"], **reshaped), graphs.const("back", [-1, 2], graphs.INT32),
        graphs.node("image_preprocessed", "Reshape", ["checked", "back"], **reshaped),
    ))  # fmt: skip
    ran = files.run("apply", MODEL, "s.gds", "-o", "out.pb")
    assert ran.code == 7 and ran.error is not None and ran.error.facts["place"] == "s.gds:2"
    assert "out.pb" not in files.files()


@pytest.mark.parametrize(
    ("data", "exit_code", "code"),
    [
        (b"rename a=\xff\n", 3, "not-a-script"),
        ("rename a=b".encode("utf-16"), 3, "not-a-script"),
        (FILES["pre.pb"], 3, "not-a-script"),
        (b"node {\n  name: 'x'\n}\n", 3, "not-a-script"),
        (b"\x89PNG\r\n\x1a\n\0\0", 3, "not-a-script"),
        (b"cat\ndog\n'a horse\n", 3, "not-a-script"),
        (b"name\nversion\nreadme\nlicense\nkey\n", 3, "not-a-script"),
        (b"cat\ndog\n", 2, "no-such-command"),
        (b"renam a=b\nrenam b=c\nrenam c=d\n", 2, "no-such-command"),
        (b"rename score\n", 2, "not-a-pair"),
        (b"", 2, "no-edit"),
        (b"# nothing\n\n", 2, "no-edit"),
        (None, 3, "unreadable"),
    ],
)
def test_what_is_no_script(data: bytes | None, exit_code: int, code: str, files: Desk) -> None:
    """The report has the error, also of a script that cannot be read."""
    if data is not None:
        files.put("s.gds", data)
    files.refused(exit_code, code, "apply", MODEL, "s.gds", "-o", "out.pb")
    assert files.report("apply", MODEL, "s.gds", "-o", "out.pb", code=exit_code)["error"]["code"] == code


def test_a_script_as_editors_write_it(files: Desk) -> None:
    files.put("s.gds", "\ufeffrename scores=points # ä\r\nrename points=\\\r\nclasses".encode())
    files.done("apply", MODEL, "s.gds", "-o", "out.pb", *QUICK)
    assert "classes" in from_bytes((files.folder / "out.pb").read_bytes())


def test_what_is_missing_is_named(files: Desk) -> None:
    """The hints for MODEL and SCRIPT, and for --check and SCRIPT, are not the same."""
    script(files, "", name="jobs/s.gds")
    for words in (("--check",), (), (MODEL,)):
        files.refused(2, "missing-argument", "apply", *words)
    hints = set()
    for words, code in (((MODEL, "jobs"), "is-a-folder"), (("--check", "jobs"), "is-a-folder"),
                        ((MODEL, MODEL), "not-a-script"), (("--check", MODEL), "not-a-script")):  # fmt: skip
        error = files.refused(3, code, "apply", *words, file=words[1]).error
        assert error is not None and error.hint
        hints.add((words[0] == "--check", error.hint))
    assert len(hints) == 2


def test_check_needs_no_model(files: Desk) -> None:
    script(files, "rename no=such", "set-device --clear")
    for arguments in (("s.gds",), (MODEL, "s.gds"), ("nothere.pb", "s.gds")):
        ran = files.run("apply", "--check", *arguments)
        assert (ran.code, ran.out) == (0, b"") and ran.err.startswith("s.gds  2 edits")
    assert files.run("apply", "--check", "-", data=NAMES).code == 0


# -- the report --------------------------------------------------------------------------------------------------


def test_the_report_has_every_step(files: Desk) -> None:
    name = script(files, "rename scores=classes", IDLE, "add-preprocessing pre.pb")
    told = files.report("apply", MODEL, name, "-o", "out.pb", *QUICK)
    assert told["command"] == "apply" and [step["asked"] for step in told["steps"]] == ["rename", "add-preprocessing"]
    assert told["edit"]["renamed"] == {"scores": "classes"}
    assert set(told["edit"]["added"]) == {"seven", "image_preprocessed"}
    for line, edits in (("rename scores=b", 1), ("rename scores=scores", 0)):
        assert len(files.report("apply", MODEL, script(files, line), "-n", *QUICK)["steps"]) == edits
    assert "steps" not in files.report("rename", MODEL, "scores=b", "-n", *QUICK)


@pytest.mark.tensorflow
def test_values_of_a_later_piece_are_told_beside_those_of_an_earlier_one(files: Desk) -> None:
    lines = ("rename image=picture", "set-attr scores op=Neg")
    proof = files.report("apply", MODEL, script(files, *lines), "-o", "out.pb")["proof"]
    outputs = [output for output in proof["outputs"] if output["edited"] == "scores"]
    assert [output["compared"] for output in outputs] == [True, False]
    assert outputs[0]["value"] != outputs[1]["value"]
    proof = files.report("apply", MODEL, script(files, *lines[::-1]), "-o", "out.pb")["proof"]
    assert [(piece["called"], piece["compared"]) for piece in proof["pieces"]] == [("s.gds:1", 0), ("s.gds:2", 1)]


@pytest.mark.tensorflow
def test_gradients_are_a_line_where_a_process_serves_nobody_else(files: Desk) -> None:
    name = script(files, "rename image=picture", "add-gradients --ys tower/same --xs picture --names slope")
    ran = files.start("apply", MODEL, name, "-o", "out.pb").communicate()
    assert (files.folder / "out.pb").exists(), ran


@pytest.mark.tensorflow
def test_what_is_around_a_shrink_without_a_tolerance_is_proven(files: Desk) -> None:
    lines = ("add-preprocessing pre.pb", "add-postprocessing post.pb", "quantize --dtype float16 --min 1",
             "rename image=picture")  # fmt: skip
    proof = files.report("apply", MODEL, script(files, *lines), "-o", "out.pb")["proof"]
    assert [(p["called"], p["judged"], p["statement"]) for p in proof["pieces"]] == [
        ("s.gds:1 to 2", True, "edited(x) == original(x, image := image_preprocessed), "
                               "pre.pb and post.pb in place == each in isolation"),
        ("s.gds:3", False, "it runs, values not judged"),
        ("s.gds:4", True, "edited(x) == original(x) under the new names"),
    ]  # fmt: skip
    assert proof["judged"]


@pytest.mark.tensorflow
def test_the_same_is_said_once(files: Desk) -> None:
    lines = ("insert --at tower/scaled --steps 'divide(2)'", "add-preprocessing --at image --steps 'divide(3)'")
    proof = files.report("apply", MODEL, script(files, *lines), "-o", "out.pb")["proof"]
    assert proof["statement"] == (
        "edited(x) == original(x, image := image_preprocessed, tower/scaled := tower/scaled_inserted), "
        "the steps in place == the steps in isolation"
    )


@pytest.mark.tensorflow
def test_an_input_is_fed_by_either_of_its_names(files: Desk) -> None:
    name = script(files, "add-preprocessing pre.pb", "rename image=picture")
    for fed in ("image", "picture"):
        proof = files.report("apply", MODEL, name, "-o", "out.pb", "--feed", f"{fed}=[[1, 2]]")["proof"]
        assert proof["compared"] and proof["largest_difference"] == 0
    files.refused(2, "no-such-input", "apply", MODEL, name, "-n", "--feed", "imag=[[1, 2]]", node="imag")


# -- models as they are shipped, and broken ones -----------------------------------------------------------------


@pytest.fixture
def shipped(desk: Desk, saved_models: Shipped) -> Callable[[str], str]:
    """Where a model lies, told from the desk; the scripts lie elsewhere."""

    def at(name: str) -> str:
        (desk.folder / name).symlink_to(saved_models.folder / name)
        return name

    return at


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.tensorflow
def test_a_saved_model_by_its_signatures(desk: Desk, shipped: Callable[[str], str]) -> None:
    lines = ["rename x=image", "signature --rename serving_default=classify", "rename classify/y=scores"]
    script(desk, *lines, name="jobs/s.gds")
    proof = desk.report("apply", shipped("resource"), "jobs/s.gds", "-o", "out")["proof"]
    assert proof["compared"] and proof["largest_difference"] == 0
    assert files_in(desk.folder / "out") == files_in(desk.folder / one_by_one(desk, *lines, model="resource"))


@pytest.mark.tensorflow
def test_freeze_first_and_a_saved_model_last(desk: Desk, shipped: Callable[[str], str]) -> None:
    model = shipped("resource")
    script(desk, "rename x=image", "freeze", "rename image=picture", "to-savedmodel", name="jobs/s.gds")
    proof = desk.report("apply", model, "jobs/s.gds", "-o", "out")["proof"]
    assert proof["compared"] and proof["largest_difference"] == 0
    signatures = json.dumps(desk.answer("inspect", "out")["signatures"])
    assert "serving_default" in signatures and "picture" in signatures
    for code, exit_code, lines in (
        ("not-the-last-line", 2, ("freeze", "to-savedmodel", "rename x=image")),
        ("not-the-last-line", 4, ("clone-scope net copy", "rename x=image")),
    ):
        script(desk, *lines, name="jobs/s.gds")
        place = f"jobs/s.gds:{len(lines)}"
        desk.refused(exit_code, code, "apply", model, "jobs/s.gds", "-o", "other", *QUICK, place=place)
    script(desk, "rename x=image", "clone-scope net copy", name="jobs/s.gds")
    desk.done("apply", model, "jobs/s.gds", "-o", "cloned", *QUICK)
    assert b"copy/b" in (desk.folder / "cloned/variables/variables.index").read_bytes()


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "pair",
    [
        ("rename x=image", "rename image=x"),
        ("signature --rename serving_default=a", "signature --rename a=serving_default"),
    ],
)
def test_lines_that_undo_each_other_in_a_saved_model(pair: tuple[str, str], desk: Desk, saved_models: Shipped) -> None:
    model = str(saved_models.folder / "resource")
    words = ("-o", "out", "--require-change", *QUICK)
    desk.refused(4, "nothing-to-do", "apply", model, script(desk, *pair), *words)
    desk.done("apply", model, script(desk, *pair, pair[0]), *words)


OLD = graphs.graph_bytes(
    graphs.placeholder("x", shape=(2,)), graphs.const("v", [1.0, 2.0]), graphs.identity("y", "a"),
    graphs.node("a", "AssignAdd", ["v", "x"], T=graphs.FLOAT),
)  # fmt: skip
DOUBLED = graphs.graph_bytes(
    graphs.placeholder("x", shape=(2,)), graphs.const("c", [1.0]), graphs.add("y", "x", "c"),
    graphs.const("c", [1.0]), graphs.add("z", "x", "c"),
)  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("broken", [OLD, DOUBLED])
def test_a_broken_model_is_repaired_by_the_first_line(broken: bytes, desk: Desk) -> None:
    desk.put("old.pb", broken)
    lines = ("repair", "rename x=image", "rename y=sum")
    proof = desk.report("apply", "old.pb", script(desk, *lines), "-o", "out.pb")["proof"]
    assert proof["statement"].endswith("edited(x) == original(x) under the new names")
    assert desk.files()["out.pb"] == (desk.folder / one_by_one(desk, *lines, model="old.pb")).read_bytes()
    ran = desk.refused(3, "unsound-graph", "apply", "old.pb", script(desk, "rename x=a", "repair"))
    assert ran.error is not None and "repair-first" in ran.error.advice
