"""apply: what earlier lines did to what a line names, and lines that undo each other."""

from __future__ import annotations

import pytest
from support import graphs
from support.commands import FILES, MODEL, QUICK
from support.desk import Desk, check_refused
from support.shipped import Shipped

FIRST = ("rename scores=points", "rename tower/same=tower/whole", "rename points=final")


def script(desk: Desk, *lines: str) -> str:
    desk.put("s.gds", "".join(f"{line}\n" for line in lines).encode())
    return "s.gds"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rename scores=a", "there is no node 'scores' any more: line 1 renamed it to 'points', line 3 to 'final'"),
        ("rename points=a", "there is no node 'points' any more: line 3 renamed it to 'final'"),
        ("reroute tower/same=image", "there is no node 'tower/same' any more: line 2 renamed it to 'tower/whole'"),
        ("add-preprocessing pre.pb --map scores=image,image_preprocessed",
         "there is no node 'scores' any more: line 1 renamed it"),
        ("add-postprocessing --output scores --steps softmax", "there is no node 'scores' any more: line 1 renamed it"),
        ("rename score=a", "model.pb has no node 'score' (10 nodes)."),
    ],
)  # fmt: skip
def test_what_an_earlier_line_renamed_is_told_with_its_new_name(line: str, said: str, files: Desk) -> None:
    check_refused(files, 4, ("s.gds:4: ", said), "apply", MODEL, script(files, *FIRST, line), *QUICK)


def test_what_an_earlier_line_removed(files: Desk) -> None:
    lines = ("rename guard=sentry", "remove --select sentry", "control --add scores=^guard")
    check_refused(
        files, 4, ("s.gds:3: there is no node 'guard' any more: line 1 renamed it to 'sentry', line 2 removed that",),
        "apply", MODEL, script(files, *lines), *QUICK,
    )  # fmt: skip
    check_refused(
        files, 4, ("s.gds:3: there is no node 'sentry' any more: line 2 removed it",),
        "apply", MODEL, script(files, *lines[:2], "rename sentry=a"), *QUICK,
    )  # fmt: skip


@pytest.mark.parametrize("line", ["rename --scope tower=a", "clone-scope tower a"])
def test_a_scope_that_an_earlier_line_renamed(line: str, files: Desk) -> None:
    said = "line 1 renamed 'tower/scale' to 'spire/scale'"
    name = script(files, "rename --scope tower=spire", line)
    check_refused(files, 4, ("s.gds:2: ", said), "apply", MODEL, name, *QUICK)


def test_a_name_that_came_back_is_a_node(files: Desk) -> None:
    lines = ("rename scores=a", "rename keep_prob=scores", "rename scores=b", "rename scores=c")
    said = "there is no node 'scores' any more: line 3 renamed it to 'b'"
    check_refused(files, 4, ("s.gds:4: ", said), "apply", MODEL, script(files, *lines), *QUICK)


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
    ran = desk.run("apply", "old.pb", script(desk, "repair", "rename x=image", "rename y=sum"), "-o", "out.pb")
    assert ran.code == 0, ran.err
    assert "edited(x) = original(x) under the new names" in ran.err
    for number, line in enumerate((["repair"], ["rename", "x=image"], ["rename", "y=sum"])):
        assert desk.run(line[0], f"{number}.pb" if number else "old.pb", *line[1:], "-o", f"{number + 1}.pb").code == 0
    assert desk.files()["out.pb"] == desk.files()["3.pb"]
    hint = "Hint: repair, as the first line of the script, mends what it can\n"
    check_refused(desk, 3, ("old.pb is broken", hint), "apply", "old.pb", script(desk, "rename x=a", "repair"))


UNDONE = (
    ("rename scores=a", "rename a=scores"),
    ("rename scores=a", "set-device --clear --op NoOp", "rename --scope tower=b", "rename a=scores",
     "rename --scope b=tower"),
)  # fmt: skip


@pytest.mark.parametrize("lines", UNDONE)
def test_lines_that_undo_each_other_change_nothing(lines: tuple[str, ...], files: Desk) -> None:
    name = script(files, *(line for line in lines if "NoOp" not in line))
    check_refused(files, 4, ("nothing would change: the edits undo each other",),
                  "apply", MODEL, name, "-o", "out.pb", "--require-change", *QUICK)  # fmt: skip
    ran = files.run("apply", MODEL, script(files, *lines), "-o", "out.pb", *QUICK)
    assert ran.code == 0, ran.err
    assert "note     the edits undo each other: the result is what MODEL was\n" in ran.err
    assert files.files()["out.pb"] == FILES[MODEL]


@pytest.mark.parametrize(
    "lines", [("rename scores=a", "rename a=scorez"), ("rename scores=a", "rename keep_prob=scores")]
)
def test_lines_that_do_not(lines: tuple[str, ...], files: Desk) -> None:
    ran = files.run("apply", MODEL, script(files, *lines), "-o", "out.pb", "--require-change", *QUICK)
    assert ran.code == 0, ran.err
    assert "undo" not in ran.err


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "pair",
    [
        ("rename x=image", "rename image=x"),
        ("signature --rename serving_default=a", "signature --rename a=serving_default"),
    ],
)
def test_lines_that_undo_each_other_in_a_saved_model(pair: tuple[str, str], desk: Desk, saved_models: Shipped) -> None:
    name, model = script(desk, *pair), str(saved_models.folder / "resource")
    check_refused(desk, 4, ("nothing would change: the edits undo each other",),
                  "apply", model, name, "-o", "out", "--require-change", *QUICK)  # fmt: skip
    again = script(desk, *pair, pair[0])
    assert desk.run("apply", model, again, "-o", "out", "--require-change", *QUICK).code == 0
