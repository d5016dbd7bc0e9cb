"""Mistakes on the command line: what it says, and what it leaves as it was.

The ids of the cases name the row of the table of faults that they come from.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from support.desk import Desk, check_refused
from support.hostile import INT32, PLAIN, VERSIONS, identity, no_op, placeholder
from support.renaming import EARLIER, PRE, QUICK, RULE

from gdsurgeon.errors import EditError
from gdsurgeon.graph.load import from_bytes

MODEL = (
    placeholder("x", -1, 4)
    + identity("y", "x")
    + identity("z", "y")
    + placeholder("wide", -1, 8)
    + placeholder("whole", -1, 4, dtype=INT32)
    + no_op("done", "^z")
    + VERSIONS
)


class Mistake(NamedTuple):
    """A command line that is refused."""

    row: str
    code: int
    line: str
    words: tuple[str, ...]


MISTAKES = [
    Mistake("53-regex", 4, "rename model.pb --regex nothing=q", ("'nothing'", "matched 0 nodes")),
    Mistake("53-scope", 4, "rename model.pb --scope nothing=q", ("'nothing'", "matched 0 nodes")),
    Mistake("53-one-of-two-patterns", 4, "rename model.pb --regex y=q --regex nothing=r", ("'nothing'", "0 nodes")),
    Mistake("53-same-name", 4, "rename model.pb y=y --require-change", ("nothing would change",)),
    Mistake("53-reroute-nobody-reads", 4, "reroute model.pb z=y", ("nothing would change", "'z'")),
    Mistake("53-reroute-only-nobody", 4, "reroute model.pb y=x --only nothing", ("nothing would change", "'y'")),
    Mistake("53-reroute-itself", 4, "reroute model.pb y=y", ("nothing would change",)),
    Mistake("54-name-taken", 4, "rename model.pb y=z", ("'z'", "taken")),
    Mistake("54-two-get-one-name", 4, "rename model.pb y=q z=q", ("'y'", "'z'", "'q'")),
    Mistake("54-one-gets-two-names", 2, "rename model.pb y=q y=r", ("'y'", "'q'", "'r'")),
    Mistake("54-regex-merges", 4, "rename model.pb --regex [yz]=q", ("'y'", "'z'", "'q'")),
    Mistake("54-half-a-swap", 4, "rename model.pb x=y y=z", ("'z'", "taken")),
    Mistake("55-cycle", 4, "reroute model.pb x=z", ("cycle", "'y'", "'z'")),
    Mistake("55-dtype", 4, "reroute model.pb x=whole", ("'x' (float32", "'whole' (int32", "dtypes differ")),
    Mistake("55-shape", 4, "reroute model.pb x=wide", ("'x' (float32 [?,4]", "'wide' (float32 [?,8]", "shapes differ")),
    Mistake("55-no-such-output", 4, "reroute model.pb x=y:1", ("'y'", "1 output")),
    Mistake("55-control-is-no-tensor", 4, "reroute model.pb x=^y", ("'^y'", "not the name of a tensor")),
    Mistake("55-to-two-at-once", 2, "reroute model.pb x=y x=z", ("two values",)),
    *(
        Mistake(f"22-rename-to-{what}", 4, f"rename model.pb y={name}", ("legal", RULE))
        for what, name in (("nothing", ""), ("caret", "^a"), ("underscore", "_a"), ("dash", "-a"), ("colon", "a:0"))
    ),
    Mistake("22-escape-sequence", 4, "rename model.pb y=a\x1b[31m", (r"\x1b[31m", RULE)),
    Mistake("near-miss-node", 4, "rename model.pb whol=q", ("'whol'", "Did you mean 'whole'?")),
    Mistake("near-miss-tensor", 4, "reroute model.pb whol=x", ("'whol'", "Did you mean 'whole'?")),
    Mistake("rename-a-tensor", 4, "rename model.pb x:0=q", ("'x:0'", "index")),
    Mistake("regex-syntax", 2, "rename model.pb --regex (=q", ("'('", "not")),
    Mistake("regex-group", 2, r"rename model.pb --regex y=\1", ("'y'", "not")),
    Mistake("only-syntax", 2, "reroute model.pb x=y --only (", ("'('", "not a regular expression")),
    # The command line itself.
    Mistake("misspelt-command", 2, "renam model.pb y=q", ("'renam'", "Did you mean 'rename'?", "Hint: ")),
    Mistake("no-such-command", 2, "transmogrify model.pb", ("'transmogrify'", "Hint: ")),
    Mistake("misspelt-option", 2, "rename model.pb y=q --validat none", ("'--validat'", "--validate")),
    Mistake("misspelt-choice", 2, "rename model.pb y=q --validate structur", ("'structur'", "structure")),
    Mistake("no-model", 2, "rename", ("MODEL",)),
    Mistake("no-pairs", 2, "rename model.pb", ("OLD=NEW",)),
    Mistake("no-tensors", 2, "reroute model.pb", ("OLD=NEW",)),
    Mistake("no-second-graph", 2, "add-preprocessing model.pb", ("PRE",)),
    Mistake("too-many-graphs", 2, "add-preprocessing model.pb model.pb more.pb", ("more.pb",)),
    Mistake("no-equals", 2, "rename model.pb y q", ("'y'", "OLD=NEW")),
    Mistake("colon-for-equals", 2, "rename model.pb y:q", ("'y:q'", "OLD=NEW")),
    Mistake("no-old", 2, "rename model.pb =q", ("'=q'", "OLD=NEW")),
    Mistake("map-file-missing", 2, "rename model.pb --map nowhere", ("nowhere", "no such file")),
    Mistake("map-file-without-pairs", 2, "rename model.pb --map notes.txt", ("notes.txt", "OLD=NEW")),
    Mistake("map-file-not-text", 2, "rename model.pb --map model.pb", ("model.pb",)),
    Mistake("map-file-is-a-folder", 2, "rename model.pb --map .", ("directory",)),
    Mistake("map-one-end", 2, "add-preprocessing model.pb model.pb --map x=a", ("'x=a'", "NAME=RAW,RESULT")),
    Mistake("map-no-equals", 2, "add-preprocessing model.pb model.pb --map x,a,b", ("--map", "'x,a,b'")),
    Mistake("feed-no-equals", 2, "rename model.pb y=q --feed x", ("--feed", "'x'", "NAME=VALUE")),
    Mistake("shape-no-equals", 2, "rename model.pb y=q --shape 1,2", ("--shape", "'1,2'")),
    Mistake("shape-words", 2, "rename model.pb y=q --shape x=1,b", ("--shape", "1,224,224,3")),
    Mistake("shape-unknown", 2, "rename model.pb y=q --shape x=-1,4", ("--shape", "1,224,224,3")),
    Mistake("shape-with-x", 2, "rename model.pb y=q --shape x=1x4", ("--shape", "1,224,224,3")),
    Mistake("device", 2, "rename model.pb y=q --device tpu", ("--device", "cpu, gpu")),
    Mistake("samples", 2, "rename model.pb y=q --samples 0", ("--samples",)),
    Mistake("timeout", 2, "rename model.pb y=q --timeout -1", ("--timeout",)),
    Mistake("timeout-nan", 2, "rename model.pb y=q --timeout nan", ("--timeout",)),
    Mistake("device-without-a-name", 2, "rename model.pb y=q --device /device:", ("--device", "cpu, gpu")),
    Mistake("default-output-is-there", 2, "rename edited.pb y=q", ("edited.edited.pb", "-o")),
    Mistake("in-place-and-out", 2, "rename model.pb y=q -i -o out.pb", ("-i", "-o")),
    Mistake("backup-without-in-place", 2, "rename model.pb y=q --backup .bak", ("--backup", "-i")),
    Mistake("backup-without-suffix", 2, "rename model.pb y=q -i --backup=", ("--backup",)),
    Mistake("both-from-standard-input", 2, "add-preprocessing - - -o out.pb", ("standard input", "both")),
    Mistake("standard-input-in-place", 2, "rename - y=q -i", ("standard input", "-i")),
    *(
        Mistake(f"one-model{option[1:]}", 2, f"validate model.pb {option}{value}", (f"{option} needs two models",))
        for option, value in (
            ("--strict", ""), ("--first-divergence", ""), ("--reduce", " r.pb"), ("--map", " a=b"), ("--pre", " x"),
        )
    ),
    # The report.
    Mistake("report-folder-missing", 6, "rename model.pb y=q -o out.pb --report nowhere/r.json", ("nowhere",)),
    Mistake("report-is-a-folder", 6, "rename model.pb y=q -o out.pb --report folder", ("folder", "directory")),
    Mistake("report-over-model", 2, "rename model.pb y=q -o out.pb --report model.pb", ("--report", "model.pb")),
    Mistake("report-over-model-link", 2, "rename model.pb y=q -o out.pb --report link.pb", ("--report", "link.pb")),
    Mistake("report-over-output", 2, "rename model.pb y=q -o out.pb --report out.pb", ("--report", "out.pb")),
    Mistake("report-over-new-output", 2, "rename model.pb y=q -o new.pb --report ./new.pb", ("--report", "new.pb")),
    Mistake("report-over-replaced", 2, "rename model.pb y=q -i --report model.pb", ("--report", "model.pb")),
    Mistake("report-over-second-graph", 2, "add-preprocessing model.pb pre.pb -o out.pb --report pre.pb",
            ("--report", "pre.pb")),
    Mistake("report-and-graph-on-stdout", 2, "rename model.pb y=q -o - --report -", ("--report", "standard output")),
    Mistake("output-over-second-graph", 2, "add-preprocessing model.pb pre.pb -o pre.pb", ("pre.pb",)),
]  # fmt: skip


def table(desk: Desk) -> None:
    """What the command lines above find."""
    desk.put("model.pb", MODEL)
    desk.put("out.pb", EARLIER)
    desk.put("edited.pb", MODEL)
    desk.put("edited.edited.pb", EARLIER)
    desk.put("pre.pb", PRE)
    desk.put("notes.txt", b"y = q\nnothing here\n")
    (desk.folder / "link.pb").symlink_to("model.pb")
    (desk.folder / "folder").mkdir()


@pytest.mark.parametrize("mistake", [pytest.param(mistake, id=mistake.row) for mistake in MISTAKES])
def test_mistake_is_refused(desk: Desk, mistake: Mistake) -> None:
    table(desk)
    arguments = mistake.line.split(" ") if mistake.line else []
    editing = mistake.code != 2 or "--validate" not in mistake.line
    if editing and arguments and arguments[0] in ("rename", "reroute", "add-preprocessing"):
        arguments += QUICK
    if mistake.code == 4:
        arguments += ["-o", "out.pb"]
    check_refused(desk, mistake.code, mistake.words, *arguments)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        pytest.param("y=z z=y", "x z y", id="54-swap"),
        pytest.param("x=y y=z z=x", "y z x", id="54-ring"),
        pytest.param(r"--regex ^(.)$=\1\1", "xx yy zz", id="54-all"),
        pytest.param(r"--regex ^([yz])$=\1/in", "x y/in z/in", id="54-some"),
    ],
)
def test_renames_happen_at_once(desk: Desk, line: str, names: str) -> None:
    desk.put("model.pb", PLAIN)
    assert desk.run("rename", "model.pb", *line.split(), *QUICK, "-o", "out.pb").code == 0
    graph = from_bytes(desk.files()["out.pb"])
    assert list(graph.names()) == names.split()
    x, y, z = graph.nodes()
    assert (y.inputs[0].node, z.inputs[0].node) == (x, y)


def test_what_is_read_cannot_be_removed() -> None:
    graph = from_bytes(PLAIN)
    with pytest.raises(EditError, match=r"'y' cannot be removed: 'z' reads it"):
        graph.remove([graph["y"]])
    assert not graph.is_changed
    graph = from_bytes(PLAIN + no_op("n", "^z"))
    with pytest.raises(EditError, match=r"'z' cannot be removed: 'n' reads it"):
        graph.remove([graph["z"]])
    assert not graph.is_changed


def test_where_no_name_is_near_it_says_where_to_look(desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    far, near = (desk.run("set-shape", "model.pb", f"{name}=4", *QUICK) for name in ("nothing", "wyde"))
    assert far.code == near.code == 4
    assert "has no node 'nothing' (6 nodes)" in far.err and "Hint: gdsurgeon inspect MODEL shows inputs" in far.err
    assert "Did you mean 'wide'?" in near.err and "Hint" not in near.err
