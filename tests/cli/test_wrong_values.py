"""What is wrong with a value whatever MODEL is: exit code 2, of every command; what MODEL has not got: 4."""

from __future__ import annotations

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


TWICE: dict[str, tuple[str, ...]] = {
    "'scores' is given two values: 'a' and 'b'": ("rename", "scores=a", "scores=b"),
    "'tower/same' is given two values": ("reroute", "tower/same=tower/scaled", "tower/same:0=image"),
    "'image' is given two values: '1,2' and '2,2'": ("set-shape", "image=1,2", "image=2,2"),
    "'T' is given two values": ("set-attr", "--node", "kept", "T=float", "T=int32"),
    "--set 'T' is given two values": ("swap-op", "Sub", "--node", "kept", "--set", "T=float", "--set", "T=int32"),
    "--map '/cpu:0' is given two values": ("set-device", "--map", "/cpu:0=/cpu:1", "--map", "/cpu:0=/cpu:2"),
    "--input 'image' is given two": ("clone-scope", "tower", "c", "--input", "image=a", "--input", "image=b"),
    "--feed 'image' is given two values": ("rename", "scores=a", "--feed", "image=1", "--feed", "image:0=2"),
    "--shape 'image' is given two values": ("rename", "scores=a", "--shape", "image=1,2", "--shape", "image=2,2"),
    "keep_prob is given two values": ("freeze-input", "keep_prob=1", "keep_prob=2"),
}


@pytest.mark.parametrize("said", TWICE)
def test_a_name_that_is_given_two_values(desk: Desk, said: str) -> None:
    desk.put(MODEL, FILES[MODEL])
    name, *arguments = TWICE[said]
    check_refused(desk, 2, (said,), name, MODEL, *arguments, *QUICK)


def test_a_name_that_is_given_one_value_twice(desk: Desk) -> None:
    desk.put(MODEL, FILES[MODEL])
    ran = desk.run("rename", MODEL, "scores=a", "scores=a", "--feed", "image=1", "--feed", "image=1", *QUICK)
    assert ran.code == 0, ran.err
