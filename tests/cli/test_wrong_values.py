"""What is wrong with a value whatever MODEL is: exit code 2, of every command; what MODEL has not got: 4."""

from __future__ import annotations

import json

import pytest
from support.commands import FILES, MODEL
from support.desk import Desk, check_refused

QUICK = ("-o", "out", "--validate", "structure")
INT8 = ("shrink", "--to", "int8")
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a selection": (("remove", "--select", "("), "'(' is not a regular expression"),
    "what is excluded": (("remove", "--op", "Mul", "--exclude", "["), "'[' is not a regular expression"),
    "a substitution": (("rename", "--regex", "(=x"), "'(' with 'x' is not a substitution"),
    "a group that there is not": (("rename", "--regex", r"s=\3"), r"'s' with '\3' is not a substitution"),
    "consumers": (("reroute", "tower/same=tower/scaled", "--only", "("), "'(' is not a regular expression"),
    "other consumers": (("reroute", "tower/same=tower/scaled", "--except", "("), "'(' is not a regular expression"),
    "what is shared": (("clone-scope", "tower", "copy", "--share", "("), "'(' is not a regular expression"),
    "no scope": (("clone-scope", "", "copy"), "the scope to clone is empty"),
    "no scope of the clone": (("clone-scope", "tower", "/"), "the scope of the clone is empty"),
    "a clone of itself": (("clone-scope", "tower", "tower/"), "cannot be cloned onto itself"),
    "no scope to rename": (("rename", "--scope", "/=x"), "the scope to rename is empty"),
    "what is unfrozen": (("to-savedmodel", "--unfreeze", "("), "'(' is not a regular expression"),
    "weights that are kept": ((*INT8, "--keep", "("), "'(' is no pattern"),
    "strings that are kept": (("strip-weights", "--keep", "("), "'(' is no pattern"),
    "a form of weights": (("shrink", "--to", "int4"), "'int4'"),
    "a release": (("compat", "--target", "0.12"), "there is no table of TensorFlow '0.12'"),
    "a device": (("set-device", "--map", "/cpu:0=/nonsense"), "'/nonsense' is not a device"),
    "a pass": (("simplify", "--passes", "foo"), "there is no pass 'foo'"),
    "a shape that fixes nothing": (("simplify", "--shape", "imag=1,2"), "'imag' to feed. Did you mean 'image'"),
    "a rule": (("rewrite", "Mul($x, ) -> $x"), "column 9"),
    "a rule of the book": (("rewrite", "--rules", "builtin:foo"), "there is no rule 'foo' in the book"),
    "a step": (("insert", "tower/scaled", "--steps", "foo"), "there is no step 'foo'"),
    "a shape": (("set-shape", "image=x"), "'x' is not a shape"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_whatever_the_model_is(desk: Desk, case: str) -> None:
    (name, *arguments), said = WRONG[case]
    desk.put(MODEL, FILES[MODEL])
    check_refused(desk, 2, (said,), name, MODEL, *arguments, *QUICK)


@pytest.mark.parametrize("case", ["a selection", "a release", "a rule", "a shape"])
def test_a_report_says_so(desk: Desk, case: str) -> None:
    (name, *arguments), said = WRONG[case]
    desk.put(MODEL, FILES[MODEL])
    assert desk.run(name, MODEL, *arguments, *QUICK, "--report", "report.json").code == 2
    error = json.loads((desk.folder / "report.json").read_text())["error"]
    assert error["exit"] == 2 and said in error["message"]


def test_a_question_too(desk: Desk) -> None:
    desk.put(MODEL, FILES[MODEL])
    check_refused(desk, 2, ("'(' is not a regular expression",), "select", MODEL, "--select", "(")
    check_refused(desk, 2, ("there is no table of",), "compat", MODEL, "--target", "0.12", "--check")


@pytest.mark.parametrize(
    "arguments",
    [
        ("rename", "score=x"),
        ("remove", "--node", "nothing"),
        ("rename", "--regex", "nothing=x"),
        (*INT8, "--keep", "nothing"),
        ("freeze-input", "keep_prob=text"),
        ("set-attr", "kept", "T=text"),
        ("swap-op", "Subtract", "--node", "kept"),
    ],
)
def test_what_this_model_has_not_got(desk: Desk, arguments: tuple[str, ...]) -> None:
    desk.put(MODEL, FILES[MODEL])
    name, *others = arguments
    check_refused(desk, 4, (), name, MODEL, *others, *QUICK)


def test_no_report_takes_the_place_of_what_is_read(desk: Desk) -> None:
    desk.put(MODEL, FILES[MODEL])
    ran = check_refused(desk, 2, ("--report",), "rename", MODEL, "scores=x", "--report", MODEL, "-o", "out.pb")
    assert ran.err.count("\n") == 1
