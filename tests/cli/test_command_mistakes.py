"""What all commands have in common: their mistakes."""

from __future__ import annotations

import json

import pytest
from support.commands import (
    CASES,
    EARLIER,
    MODEL,
    QUERIES,
    QUICK,
    THERE,
    apart_from,
    for_each,
    for_each_edit,
    good,
    marked,
)
from support.desk import Desk, check_refused

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
    if name not in ("rename", "reroute", "freeze-input", "set-attr", "set-shape", "show", "validate"):
        check_refused(files, 2, ("surplus",), *good(name), "surplus")


@for_each_edit
def test_an_option_that_is_almost_one(files: Desk, name: str) -> None:
    check_refused(files, 2, ("--outptu", "--output"), *good(name), "--outptu", "x")


def test_what_is_no_number(files: Desk) -> None:
    said = ("Error: Invalid value for '--samples': 'ten' is not a valid integer\n",)
    check_refused(files, 2, said, *good("remove"), "--samples", "ten")
    check_refused(files, 2, ("'1e' is not a valid float\n",), *good("remove"), "--timeout", "1e")


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
    ran = check_refused(files, CASES[name].code, (near,), name, *arguments, *out)
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
        assert (ran.code, ran.out) == (CASES[name].code, b"")
        assert (apart_from(files, "report.json"), files.temporary_files()) == (kept, [])
        if CASES[name].code == 2:
            assert (files.folder / "report.json").read_bytes() == EARLIER
            continue
        report = json.loads((files.folder / "report.json").read_text())
        error = report["error"]
        assert (report["command"], report["passed"], report["output"]) == (name, False, None)
        assert error["exit"] == CASES[name].code
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
    ran = files.run(*good(name, "gone.pb"), "--json")
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
