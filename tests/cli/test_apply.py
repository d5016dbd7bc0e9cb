"""apply on the command line: what is done is what the commands do in a row, or nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.commands import CASES, EDITING, FILES, MODEL, QUICK, apart_from, part
from support.desk import Desk, check_refused, check_said
from support.shipped import Shipped

from gdsurgeon.graph.load import from_bytes

APPLY = ("apply", MODEL)
NAMES = b"rename scores=classes\n"


def script(desk: Desk, *lines: str, name: str = "s.gds") -> str:
    desk.put(name, "".join(f"{line}\n" for line in lines).encode())
    return name


def applied(desk: Desk, *lines: str, options: tuple[str, ...] = QUICK, model: str = MODEL) -> bytes:
    """What the script of LINES makes of MODEL."""
    ran = desk.run("apply", model, script(desk, *lines), "-o", "applied.pb", *options)
    assert ran.code == 0, ran.err
    return (desk.folder / "applied.pb").read_bytes()


def one_by_one(desk: Desk, *lines: str, options: tuple[str, ...] = QUICK, model: str = MODEL) -> bytes:
    """What the commands LINES make of MODEL, one after the other."""
    at = model
    for number, line in enumerate(lines):
        name, *arguments = shlex.split(line)
        ran = desk.run(name, at, *arguments, "-o", f"{number}.pb", *options)
        assert ran.code == 0, ran.err
        at = f"{number}.pb"
    return (desk.folder / at).read_bytes()


# -- what is made ------------------------------------------------------------------------------------------------

ROW = [name for name in EDITING if name not in ("apply", "add-gradients")]


def as_line(name: str) -> str:
    """The call of the command NAME in `CASES`, as a line of a script in which `guard` has another name."""
    return shlex.join([name, *(word.replace("^guard", "^sentry") for word in CASES[name].good[1:])])


@pytest.mark.parametrize("name", [*ROW, pytest.param("add-gradients", marks=pytest.mark.tensorflow)])
def test_every_edit_is_a_line_between_others(name: str, files: Desk) -> None:
    lines = ("rename guard=sentry", as_line(name), "rename keep_prob=kept_prob")
    assert applied(files, *lines) == one_by_one(files, *lines)


def test_what_all_lines_do_is_one_write(files: Desk) -> None:
    lines = ["rename scores=classes", "add-preprocessing pre.pb", "set-device --clear", "rename image=picture"]
    assert applied(files, *lines, options=("--validate", "none")) == one_by_one(files, *lines)
    left = apart_from(files, "applied.pb", "s.gds", *(f"{n}.pb" for n in range(4)))
    assert left == FILES
    assert files.temporary_files() == []


@pytest.mark.tensorflow
def test_it_is_proven_once(files: Desk) -> None:
    lines = ["rename scores=classes", "add-preprocessing pre.pb", "freeze-input keep_prob=0.5", "rename image=picture"]
    ran = files.run(*APPLY, script(files, *lines), "-o", "out.pb", "--report", "r.json")
    assert ran.code == 0, ran.err
    report = json.loads((files.folder / "r.json").read_text())
    assert report["proof"]["statement"] == (
        "edited(x) = original(x, keep_prob := its value, image := image_preprocessed), "
        "what came from pre.pb = pre.pb on its own"
    )
    assert [step["line"] if "line" in step else step["called"] for step in report["steps"]] == [
        f"s.gds:{number}" for number in range(1, 5)
    ]
    each = files.run(*APPLY, "s.gds", "-o", "each.pb", "--prove-each")
    assert each.code == 0, each.err
    assert each.err.count("s.gds:1: edited(x)") == 1 and each.err.count("s.gds:4: edited(x)") == 1
    assert (files.folder / "each.pb").read_bytes() == (files.folder / "out.pb").read_bytes()


def test_the_summary_has_the_lines_as_they_are_written(files: Desk) -> None:
    ran = files.run(*APPLY, script(files, "# names", "rename \\", " scores=$NAME  # all", "", "set-device --clear"),
                    "-o", "out.pb", "--set", "NAME=classes", *QUICK)  # fmt: skip
    assert ran.code == 0
    assert "  line 2   rename scores=$NAME\n" in ran.err
    assert "  line 5   set-device --clear\n" in ran.err


def test_of_a_long_script_the_first_lines_are_shown(files: Desk) -> None:
    lines = ["rename scores=n0", *(f"rename n{n}=n{n + 1}" for n in range(499))]
    ran = files.run(*APPLY, script(files, *lines), "-n", *QUICK)
    assert ran.code == 0, ran.err
    told = [line for line in ran.err.splitlines() if line.startswith("  line")]
    assert told[0] == "  line 1   rename scores=n0" and told[24:] == ["  line     and 476 lines more"]
    assert "  renamed  scores  ->  n499" in ran.err


# -- variables and files -----------------------------------------------------------------------------------------


def test_variables_are_those_of_the_environment_unless_they_are_set(
    files: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME", "of_environment")
    script(files, "rename scores=$NAME")
    for options, name in (((), "of_environment"), (("--set", "NAME=set"), "set")):
        assert files.run(*APPLY, "s.gds", "-o", "out.pb", *options, *QUICK).code == 0
        assert name in from_bytes((files.folder / "out.pb").read_bytes())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["NAME"], "--set 'NAME' is not a pair VAR=VALUE"),
        (["=x"], "--set '=x' is not a pair VAR=VALUE"),
        ([""], "--set '' is not a pair VAR=VALUE"),
        (["A B=x"], "--set 'A B=x': 'A B' names no variable (letters, digits and _, no digit first)"),
        (["1A=x"], "--set '1A=x': '1A' names no variable"),
        (["É=x"], "names no variable"),
        (["$NAME=x"], "'$NAME' names no variable (letters, digits and _, no digit first, without $)"),
        (["NAME=x", "NAME=y"], "--set gives 'NAME' twice"),
        (["NAME=x", "NAME=x"], "--set gives 'NAME' twice"),
        (["NAME=x", "OTHER=y"], "--set OTHER: s.gds uses no $OTHER"),
        (["NAME=x", "NAMES=y"], "--set NAMES: s.gds uses no $NAMES. Did you mean 'NAME'?"),
        (["NAME=x", "PLAIN=y"], "s.gds uses no $PLAIN: between ' and ', behind a backslash and in comments it stands"),
    ],
)
def test_what_is_set_is_a_variable_of_the_script_once(options: list[str], said: str, files: Desk) -> None:
    script(files, "rename scores=$NAME  # $PLAIN")
    pairs = [word for pair in options for word in ("--set", pair)]
    check_refused(files, 2, (said,), *APPLY, "s.gds", *pairs)
    check_refused(files, 2, (said,), "apply", "--check", "s.gds", *pairs)


def test_a_variable_between_single_quotes_is_pointed_at(files: Desk) -> None:
    name = script(files, "add-postprocessing --output scores --steps 'argmax | labels(file=$FILE)'")
    hint = "Hint: between ' and ' $VAR stands for itself: \" and \" have its value"
    unused = "--set FILE: s.gds uses no $FILE: between ' and '"
    check_refused(files, 3, ("s.gds:1: labels: $FILE", unused, hint), *APPLY, name, "--set", "FILE=l.txt", *QUICK)


def test_a_variable_of_the_environment_may_be_unused(files: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "a")
    assert files.run(*APPLY, script(files, "rename scores=b"), "-n", *QUICK).code == 0


@pytest.mark.tensorflow
def test_paths_are_relative_to_the_script(files: Desk) -> None:
    (files.folder / "jobs").mkdir()
    files.put("jobs/mine.pb", FILES["pre.pb"])
    script(files, "add-preprocessing mine.pb", "add-postprocessing ../post.pb", name="jobs/s.gds")
    ran = files.run(*APPLY, "jobs/s.gds", "-o", "out.pb")
    assert ran.code == 0, ran.err
    assert "bit-identical" in ran.err


def test_values_are_read_where_the_script_is(files: Desk) -> None:
    (files.folder / "jobs").mkdir()
    np.save(files.folder / "jobs" / "half.npy", np.float32(0.5))
    script(files, "freeze-input keep_prob=@half.npy", name="jobs/s.gds")
    assert files.run(*APPLY, "jobs/s.gds", "-o", "out.pb", *QUICK).code == 0


@pytest.mark.parametrize("out", ["s.gds", "./s.gds", "pre.pb", "jobs/mine.pb"])
def test_nothing_that_is_read_is_replaced(out: str, files: Desk) -> None:
    (files.folder / "jobs").mkdir()
    files.put("jobs/mine.pb", FILES["pre.pb"])
    script(files, "add-preprocessing pre.pb", "add-preprocessing jobs/mine.pb")
    for option in ("-o", "--report"):
        check_refused(files, 2, ("would replace",), *APPLY, "s.gds", option, out, *QUICK)


# -- standard input and output -----------------------------------------------------------------------------------


def test_a_script_from_standard_input(files: Desk) -> None:
    ran = files.run(*APPLY, "-", "-o", "out.pb", *QUICK, data=NAMES)
    assert ran.code == 0, ran.err
    wrong = files.run(*APPLY, "-", "-o", "wrong_out.pb", *QUICK, data=b"rename a=b\n")
    assert wrong.code == 4
    check_said(wrong, "<stdin>:1: ")
    assert "wrong_out.pb" not in files.files()


def test_models_in_pipes(files: Desk) -> None:
    script(files, "rename scores=classes", "add-preprocessing pre.pb")
    ran = files.run("apply", "-", "s.gds", "-o", "-", *QUICK, data=FILES[MODEL])
    assert ran.code == 0, ran.err
    assert ran.out == one_by_one(files, "rename scores=classes", "add-preprocessing pre.pb")
    script(files, "add-preprocessing -")
    assert files.run(*APPLY, "s.gds", "-o", "out.pb", *QUICK, data=FILES["pre.pb"]).code == 0


@pytest.mark.parametrize(
    ("arguments", "lines", "said"),
    [
        (("apply", "-", "-"), ["rename scores=a"], "MODEL and SCRIPT cannot both come from standard input"),
        ((*APPLY, "-"), ["rename scores=a", "add-preprocessing -"], "<stdin>:2: standard input is read already"),
        ((*APPLY, "s.gds"), ["add-preprocessing -", "add-postprocessing -"],
         "s.gds:2: standard input is read already: by s.gds:1"),
        (("apply", "-", "s.gds"), ["add-preprocessing -"], "s.gds:1: both graphs cannot come from standard input"),
    ],
)  # fmt: skip
def test_standard_input_is_read_once(arguments: tuple[str, ...], lines: list[str], said: str, files: Desk) -> None:
    script(files, *lines)
    data = (files.folder / "s.gds").read_bytes() if arguments[-1] == "-" else FILES["pre.pb"]
    before = files.files()
    ran = files.run(*arguments, "-o", "out.pb", *QUICK, data=data)
    assert ran.code == 2
    check_said(ran, said)
    assert files.files() == before


def test_text_stays_text(files: Desk) -> None:
    assert files.run("convert", MODEL, "-o", "model.pbtxt").code == 0
    script(files, "rename scores=classes", "set-device --clear", "rename image=picture")
    assert files.run("apply", "model.pbtxt", "s.gds", "-o", "out.pbtxt", *QUICK).code == 0
    one_by_one(files, "rename scores=classes", "set-device --clear", "rename image=picture")
    assert files.run("convert", "2.pb", "-o", "wanted.pbtxt").code == 0
    there = files.files()
    assert there["out.pbtxt"] == there["wanted.pbtxt"]


# -- where it is written -----------------------------------------------------------------------------------------


def test_in_place_with_a_backup(files: Desk) -> None:
    wanted = one_by_one(files, "rename scores=classes", "set-device --clear")
    script(files, "rename scores=classes", "set-device --clear")
    assert files.run(*APPLY, "s.gds", "-i", "--backup", ".old", *QUICK).code == 0
    there = files.files()
    assert there[MODEL] == wanted and there[f"{MODEL}.old"] == FILES[MODEL]


def test_a_dry_run_and_a_default_name(files: Desk) -> None:
    script(files, "rename scores=classes", "set-device --clear")
    before = files.files()
    assert files.run(*APPLY, "s.gds", "-n", *QUICK).code == 0
    assert files.files() == before
    assert files.run(*APPLY, "s.gds", *QUICK).code == 0
    assert "model.edited.pb" in files.files()


# -- nothing to do -----------------------------------------------------------------------------------------------

IDLE = "set-device --clear --op NoOp"


def test_an_idle_line_is_passed_over(files: Desk) -> None:
    assert applied(files, "rename scores=classes", IDLE, "rename image=picture") == one_by_one(
        files, "rename scores=classes", "rename image=picture"
    )
    ran = files.run(*APPLY, "s.gds", "-n", *QUICK)
    assert "  line 2 " not in ran.err
    assert "note     s.gds:2: nothing would change: no node asks for a device\n" in ran.err


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["rename scores=classes", f"{IDLE} --require-change"], ()),
        (["rename scores=classes", IDLE], ("--require-change",)),
    ],
)
def test_a_line_that_has_to_do_something(lines: list[str], options: tuple[str, ...], files: Desk) -> None:
    check_refused(files, 4, ("s.gds:2: ",), *APPLY, script(files, *lines), "-o", "out.pb", *options, *QUICK)


def test_all_lines_are_idle(files: Desk) -> None:
    ran = files.run(*APPLY, script(files, IDLE, IDLE), "-o", "out.pb", *QUICK)
    assert ran.code == 0, ran.err
    assert files.files()["out.pb"] == FILES[MODEL]
    assert "the graph is passed on as it is" in ran.err
    assert "undo each other" not in ran.err


# -- what is wrong -----------------------------------------------------------------------------------------------

WRONG = {
    "no command": ("renam scores=a", 2, "there is no command 'renam'. Did you mean 'rename'?"),
    "no edit": ("inspect", 2, "'inspect' is no edit: a script holds edits, a line each"),
    "itself": ("apply s.gds", 2, "'apply' is no edit"),
    "a quote": ("rename 'scores=a", 2, "a quote ' is not closed"),
    "a variable": ("rename scores=$NO_SUCH_ONE", 2, "the variable 'NO_SUCH_ONE' is not set"),
    "the program": ("gdsurgeon rename scores=a", 2, "a line is written without 'gdsurgeon' and without MODEL: 'rename"),
    "a pipe": ("rename scores=a | gdsurgeon rename a=b", 2, "'|' joins no edits: write the next edit on a line of its"),
    "no arguments": ("rename", 2, "nothing to rename"),
    "no such option": ("rename scores=a --frob", 2, "No such option"),
    "help": ("rename --help", 2, "'rename' is asked for help: gdsurgeon help rename"),
    "an option of the whole": ("rename scores=a -o x.pb", 2, "--output is for the whole script"),
    "a level": ("rename scores=a --validate none", 2, "--validate is for the whole script"),
    "a feed": ("rename scores=a --feed x=1", 2, "--feed is for the whole script"),
    "no such file": ("add-preprocessing nothere.pb", 3, "nothere.pb cannot be opened"),
    "no such node": ("rename score=a", 4, "Did you mean 'scores'?"),
    "no such function": ("rename --in G a=b", 4, "'G'"),
    "a node that is gone": ("rename gone=b", 4, "'gone'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_line_in_the_middle_leaves_everything_as_it_was(name: str, files: Desk) -> None:
    line, code, said = WRONG[name]
    first = ("# a comment", "rename keep_prob=gone", "rename gone=keep \\", "  image=picture")
    script(files, *first, line, "set-device \\", "  --clear")
    files.put("out.pb", b"an earlier output")
    check_refused(files, code, ("s.gds:5: ", said), *APPLY, "s.gds", "-o", "out.pb", *QUICK)
    if code == 2:
        check_refused(files, code, ("s.gds:5: ", said), "apply", "--check", "s.gds")


def test_a_line_leaves_the_model_out(files: Desk) -> None:
    name = script(files, f"rename {MODEL} scores=a")
    said = f"s.gds:1: a line is written without MODEL: leave '{MODEL}' out"
    check_refused(files, 2, (said,), *APPLY, name, *QUICK)
    check_refused(files, 2, (said,), "apply", str(files.folder / MODEL), name, *QUICK)


def test_of_many_wrong_lines_the_first_are_told(files: Desk) -> None:
    ran = check_refused(files, 2, (), *APPLY, script(files, *["rename scores"] * 500), *QUICK)
    lines = ran.err.splitlines()
    assert len(lines) == 22 and lines[-1] == "  and 479 other lines"


def test_a_line_that_has_to_be_the_last_is_told_once(files: Desk) -> None:
    name = script(files, "to-savedmodel", "rename scores=a", "rename a", "rename a=b")
    ran = check_refused(files, 2, (), *APPLY, name, "-o", "out", *QUICK)
    assert ran.err.count("s.gds:2: what s.gds:1 makes is not edited further: that line has to be the last") == 1
    assert ran.err.count("s.gds:3: ") == 1 and "s.gds:4" not in ran.err


def test_all_wrong_lines_are_told(files: Desk) -> None:
    script(files, "renam a=b", "rename scores=a", "rename 'b", "set-device --clear -q", "$NO_SUCH_ONE")
    ran = check_refused(files, 2, (), *APPLY, "s.gds", *QUICK)
    assert [line.strip().removeprefix("Error: ")[:8] for line in ran.err.splitlines()] == [
        f"s.gds:{number}:" for number in (1, 3, 4, 5)
    ]


@pytest.mark.tensorflow
def test_a_line_that_is_refused_where_it_is_proven(files: Desk) -> None:
    script(files, "rename scores=classes", "add-preprocessing fails.pb", "rename image=picture")
    check = graphs.node("checked", "Reshape", ["image", "shape"], T=graphs.FLOAT, Tshape=graphs.INT32)
    result = graphs.node("image_preprocessed", "Reshape", ["checked", "back"], T=graphs.FLOAT, Tshape=graphs.INT32)
    fails = graphs.graph_bytes(
        graphs.placeholder("image", graphs.FLOAT, (-1, 2)), graphs.const("shape", [7, -1], graphs.INT32), check,
        graphs.const("back", [-1, 2], graphs.INT32), result,
    )  # fmt: skip
    files.put("fails.pb", fails)
    before = files.files()
    ran = files.run(*APPLY, "s.gds", "-o", "out.pb")
    assert ran.code == 7, ran.err
    check_said(ran, "s.gds:2: ")
    assert files.files() == before


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (b"rename a=\xff\n", 3, "s.gds is no script: it is not UTF-8 text"),
        ("rename a=b".encode("utf-16"), 3, "s.gds is no script: it is UTF-16 text, and a script is UTF-8"),
        (FILES["pre.pb"], 3, "s.gds is no script: it is a GraphDef"),
        (b"node {\n  name: 'x'\n}\n", 3, "s.gds is no script: it is a GraphDef as text"),
        (b"\x89PNG\r\n\x1a\n\0\0", 3, "s.gds is no script: it is a PNG image"),
        (b"cat\ndog\n'a horse\n", 3, "s.gds is no script: no line of it begins with a command, the first with 'cat'"),
        (b"name\nversion\nreadme\nlicense\nkey\n", 3, "no line of it begins with a command, the first with 'name'"),
        (b"cat\ndog\n", 2, "s.gds:1: there is no command 'cat'"),
        (b"renam a=b\nrenam b=c\nrenam c=d\n", 2, "s.gds:1: there is no command 'renam'. Did you mean 'rename'?"),
        (b"", 2, "s.gds holds no edit"),
        (b"# nothing\n\n", 2, "s.gds holds no edit"),
    ],
)
def test_what_is_no_script(data: bytes, code: int, said: str, files: Desk) -> None:
    files.put("s.gds", data)
    check_refused(files, code, (said,), *APPLY, "s.gds", "-o", "out.pb")


def test_a_script_as_editors_write_it(files: Desk) -> None:
    files.put("s.gds", "\ufeffrename scores=points # ä\r\nrename points=\\\r\nclasses".encode())
    assert files.run(*APPLY, "s.gds", "-o", "out.pb", *QUICK).code == 0
    assert "classes" in from_bytes((files.folder / "out.pb").read_bytes())


def test_a_script_that_is_not_there(files: Desk) -> None:
    check_refused(files, 3, ("nothere.gds cannot be opened",), *APPLY, "nothere.gds")
    check_refused(files, 2, ("apply takes a MODEL and a SCRIPT",), "apply", MODEL)


def test_what_is_missing_is_named(files: Desk) -> None:
    hint = "Hint: gdsurgeon apply --help"
    check_refused(files, 2, ("Error: SCRIPT is missing: apply --check SCRIPT says", hint), "apply", "--check")
    check_refused(files, 2, ("Error: MODEL and SCRIPT are missing: apply MODEL SCRIPT\n", hint), "apply")
    check_refused(files, 3, ("jobs is no script: it is a folder\nHint: MODEL comes first",), *APPLY, make_folder(files))
    check_refused(files, 3, ("jobs is no script: it is a folder\nHint: --check takes",), "apply", "--check", "jobs")
    check_refused(files, 3, ("model.pb is no script: it is a GraphDef\nHint: --check",), "apply", "--check", MODEL)


def make_folder(desk: Desk) -> str:
    (desk.folder / "jobs").mkdir()
    return "jobs"


def test_check_needs_no_model(files: Desk) -> None:
    script(files, "rename no=such", "set-device --clear")
    for arguments in (("s.gds",), (MODEL, "s.gds"), ("nothere.pb", "s.gds")):
        ran = files.run("apply", "--check", *arguments)
        assert (ran.code, ran.err) == (0, "s.gds  2 edits, nothing wrong\n")
    assert files.run("apply", "--check", "-", data=NAMES).err == "<stdin>  1 edit, nothing wrong\n"


# -- the report --------------------------------------------------------------------------------------------------


def report(desk: Desk, *lines: str) -> Any:
    ran = desk.run(*APPLY, script(desk, *lines), "-o", "out.pb", "--report", "r.json", *QUICK)
    return ran, json.loads((desk.folder / "r.json").read_text())


def test_the_report_has_every_step(files: Desk) -> None:
    _, told = report(files, "rename scores=classes", IDLE, "add-preprocessing pre.pb")
    assert told["command"] == "apply" and told["passed"]
    assert len(told["steps"]) == 2
    assert told["edit"]["renamed"] == {"scores": "classes"}
    assert set(told["edit"]["added"]) == {"seven", "image_preprocessed"}


def test_the_report_of_a_line_that_is_refused(files: Desk) -> None:
    ran, told = report(files, "rename scores=classes", "rename score=a")
    assert ran.code == 4
    assert not told["passed"] and told["error"]["message"].startswith("s.gds:2: ")
    assert "out.pb" not in files.files()


# -- models as they are shipped ----------------------------------------------------------------------------------


@pytest.fixture
def shipped(desk: Desk, saved_models: Shipped) -> Callable[[str], str]:
    """Where a model lies, told from the desk; the scripts lie elsewhere."""
    (desk.folder / "jobs").mkdir()

    def at(name: str) -> str:
        link = desk.folder / name
        link.symlink_to(saved_models.folder / name)
        return name

    return at


@pytest.mark.tensorflow
def test_a_saved_model_by_its_signatures(desk: Desk, shipped: Callable[[str], str]) -> None:
    lines = ["rename x=image", "signature --rename serving_default=classify", "rename classify/y=scores"]
    script(desk, *lines, name="jobs/s.gds")
    ran = desk.run("apply", shipped("resource"), "jobs/s.gds", "-o", "out")
    assert ran.code == 0, ran.err
    assert "bit-identical" in ran.err
    at = "resource"
    for number, line in enumerate(lines):
        name, *arguments = line.split()
        assert desk.run(name, at, *arguments, "-o", str(number), *QUICK).code == 0
        at = str(number)
    assert files_in(desk.folder / "out") == files_in(desk.folder / at)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.tensorflow
def test_freeze_first_and_a_saved_model_last(desk: Desk, shipped: Callable[[str], str]) -> None:
    model = shipped("resource")
    script(desk, "rename x=image", "freeze", "rename image=picture", "to-savedmodel", name="jobs/s.gds")
    ran = desk.run("apply", model, "jobs/s.gds", "-o", "out")
    assert ran.code == 0, ran.err
    assert "bit-identical" in ran.err
    told = desk.run("inspect", "out").out.decode()
    assert "serving_default(picture) -> y" in told
    script(desk, "freeze", "to-savedmodel", "rename x=image", name="jobs/s.gds")
    check_refused(desk, 2, ("jobs/s.gds:3: what jobs/s.gds:2 makes is not edited further",), "apply", model,
                  "jobs/s.gds", "-o", "other")  # fmt: skip


@pytest.mark.tensorflow
def test_a_clone_of_variables_is_the_last_line(desk: Desk, shipped: Callable[[str], str]) -> None:
    model = shipped("resource")
    script(desk, "clone-scope net copy", "rename x=image", name="jobs/s.gds")
    for options in ((), QUICK):
        check_refused(desk, 4, ("jobs/s.gds:2: what jobs/s.gds:1 makes is not edited further",), "apply", model,
                      "jobs/s.gds", "-o", "out", *options)  # fmt: skip
    script(desk, "rename x=image", "clone-scope net copy", name="jobs/s.gds")
    ran = desk.run("apply", model, "jobs/s.gds", "-o", "out", *QUICK)
    assert ran.code == 0, ran.err
    assert b"copy/b" in (desk.folder / "out/variables/variables.index").read_bytes()


# -- edits of others ---------------------------------------------------------------------------------------------


def test_a_body_that_is_put_in_twice(files: Desk) -> None:
    files.put("more.pb", part("picture", "points"))
    lines = ("insert tower/scaled other.pb", "insert tower/scaled more.pb --scope again", "rename points=p")
    assert applied(files, *lines) == one_by_one(files, *lines)


def test_the_report_has_each_edit_also_where_there_is_one(files: Desk) -> None:
    for script, edits in (("rename scores=b", 1), ("rename scores=scores", 0), ("rename scores=b\nrename image=i", 2)):
        files.put("s.gds", script.encode())
        assert files.run("apply", MODEL, "s.gds", "-o", "out.pb", *QUICK, "--report", "r.json").code == 0
        steps = json.loads((files.folder / "r.json").read_text())["steps"]
        assert [step["asked"] for step in steps] == ["rename"] * edits
    assert files.run("rename", MODEL, "scores=b", "-o", "out.pb", *QUICK, "--report", "r.json").code == 0
    assert "steps" not in json.loads((files.folder / "r.json").read_text())


@pytest.mark.parametrize(("script", "code"), [(b"rename score\n", 2), (b"foo bar\n", 2), (b"\xff\xfe", 3), (None, 3)])
def test_a_script_that_cannot_be_read_is_reported(files: Desk, script: bytes | None, code: int) -> None:
    if script is not None:
        files.put("s.gds", script)
    assert files.run("apply", MODEL, "s.gds", "-o", "out.pb", "--report", "r.json").code == code
    report = json.loads((files.folder / "r.json").read_text())
    assert (report["command"], report["passed"], report["error"]["exit"]) == ("apply", False, code)
    assert report["error"]["message"].startswith("s.gds")
