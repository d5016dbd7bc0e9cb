"""Bad inputs and faults: what the command line says and does, and what it leaves as it was.

The ids of the cases name the row of the table of faults that they come from.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import hostile
from support.desk import Desk, Ran, check_refused, check_said, finished
from support.hostile import HEAVY, INT32, PLAIN, VERSIONS, identity, no_op, node, placeholder, record

from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import EditError
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.fields import encode_len, encode_varint
from gdsurgeon.wire.text import to_text
from gdsurgeon.wire.write import read_chunks

QUICK = ("--validate", "structure")
RENAME = ("rename", "model.pb", "y=q", *QUICK)
TO_OUT = (*RENAME, "-o", "out.pb")
EARLIER = b"an earlier output"

as_root = os.geteuid() == 0
not_as_root = pytest.mark.skipif(as_root, reason="permissions do not bind root")


def renamed(model: bytes, **names: str) -> bytes:
    """What renaming must give; y becomes q unless NAMES say otherwise."""
    graph = from_bytes(model)
    rename(graph, list((names or {"y": "q"}).items()))
    return read_chunks(graph.chunks())


# -- rows 1-31: what cannot be read, or is broken ------------------------------------------------------------


class Bad(NamedTuple):
    """A file that is refused as input: its bytes, and what is said of it beside its name."""

    row: str
    data: bytes
    words: tuple[str, ...]


def reads(text: str) -> bytes:
    """A graph in which y has the input TEXT."""
    return placeholder("x", -1, 4) + identity("y", text) + VERSIONS


def named(name: str) -> bytes:
    """A graph with a node of that NAME."""
    return PLAIN + no_op(name)


def in_node(body: bytes) -> bytes:
    """A graph with BODY at the end of a node."""
    return PLAIN + record(encode_len(1, b"n") + encode_len(2, b"NoOp") + body)


def recursive(*names: str, by: str = "op") -> bytes:
    """Functions that call each other in a ring."""
    ring = zip(names, (*names[1:], names[0]), strict=True)
    return hostile.with_functions(*(hostile.function(name, called, by=by) for name, called in ring))


OVERLONG = b"\xff" * 10 + b"\x01"
RULE = "letters, digits"

BAD = [
    Bad("4-empty", b"", ("empty",)),
    Bad("5-cut-in-a-small-node", PLAIN[:50], ("truncated",)),
    Bad("5-cut-in-a-weight", HEAVY[:100_000], ("truncated",)),
    Bad("5-cut-in-the-versions", PLAIN[:-1], ("truncated",)),
    Bad("6-cut-between-nodes", identity("y", "x") + identity("z", "w"), ("'y'", "'x'", "'z'", "'w'")),
    Bad("7-two-graphs", PLAIN + PLAIN, ("'x'", "numbers 0 and 3", "'y'", "numbers 1 and 4")),
    Bad("8-saved-model", hostile.SAVED_MODEL, ("SavedModel", "freeze")),
    Bad("9-meta-graph", hostile.META_GRAPH, ("MetaGraph", "freeze")),
    Bad("10-text-that-is-no-graph", b"hello, world\n", ("text",)),
    Bad("10-text-graph-with-a-slip", hostile.TEXT.replace(b"input:", b"imput:"), ("line 9", "imput")),
    Bad("10-text-graph-cut", hostile.TEXT[:-40], ("text GraphDef", "line")),
    Bad("11-git-lfs", hostile.LFS_POINTER, ("git lfs pull",)),
    Bad("12-html", hostile.HTML, ("HTML",)),
    Bad("12-xml", hostile.XML, ("XML",)),
    Bad("13-gzip", hostile.GZIP, ("gzip",)),
    Bad("13-zip", hostile.zipped(), ("zip",)),
    Bad("13-tar", hostile.tarred(), ("tar",)),
    Bad("14-tflite", hostile.TFLITE, ("TFLite",)),
    Bad("14-onnx", hostile.ONNX, ("ONNX",)),
    Bad("14-hdf5", hostile.HDF5, ("HDF5",)),
    Bad("14-png", hostile.PNG, ("PNG",)),
    Bad("15-byte-order-mark", b"\xef\xbb\xbf" + PLAIN, ("corrupt", "text mode")),
    Bad("15-crlf", PLAIN.replace(b"\n", b"\r\n"), ("corrupt", "text mode")),
    Bad("15-line-feed-at-the-end", PLAIN + b"\n", ("corrupt",)),
    Bad("15-zeros-at-the-end", PLAIN + bytes(8), ("corrupt", f"byte {len(PLAIN)}")),
    Bad("15-text-at-the-end", PLAIN + b"Connection closed\n", ("corrupt",)),
    Bad("16-huge-node", PLAIN + b"\n\xff\xff\xff\xff\x0f" + b"abc", ("truncated or corrupt", "4294967295")),
    Bad("16-node-of-2^63", PLAIN + b"\n" + encode_varint((1 << 63) - 1) + b"abc", ("truncated or corrupt",)),
    Bad("16-node-of-2^64-1", PLAIN + b"\n" + encode_varint(-1) + b"abc", ("truncated or corrupt",)),
    Bad("16-huge-name", PLAIN + record(b"\n\xff\xff\xff\xff\x0fabc"), ("truncated or corrupt",)),
    Bad("16-huge-library", PLAIN + b"\x12\xff\xff\xff\xff\x0fabc", ("truncated or corrupt",)),
    Bad("16-huge-attr", in_node(b"\x2a\xff\xff\xff\xff\x0fabc"), ("truncated or corrupt",)),
    Bad("17-varint-of-11-bytes", PLAIN + b"\n" + OVERLONG, ("corrupt", "varint")),
    Bad("17-varint-of-11-bytes-in-a-node", in_node(b"\x18" + OVERLONG), ("corrupt", "varint")),
    Bad("17-tag-0", PLAIN + b"\x00\x00", ("corrupt", "field number 0")),
    Bad("17-tag-0-in-a-node", in_node(b"\x00\x00"), ("corrupt", "field number 0")),
    Bad("17-wire-type-7", PLAIN + b"\x0f\x00", ("corrupt", "wire type 7")),
    Bad("17-wire-type-7-in-a-node", in_node(b"\x0f\x00"), ("corrupt", "wire type 7")),
    Bad("17-open-group", PLAIN + b"\x33\x08\x01", ("corrupt", "group")),
    Bad("17-open-group-in-a-node", in_node(b"\x43\x08\x01"), ("corrupt", "group")),
    Bad("17-groups-100000-deep", PLAIN + b"\x33" * 100_000, ("corrupt", "group")),
    Bad("17-end-of-no-group", PLAIN + b"\x34", ("corrupt", "group")),
    *(
        Bad(f"18-{where}-nested-{depth}-deep", data(depth), ("too deeply nested",))
        for where, data in (
            ("attr", lambda depth: PLAIN + node("n", "NoOp", _f=hostile.nested_func_attr(depth))),
            ("library", hostile.nested_in_library),
        )
        for depth in (45, 200, 2000)
    ),
    Bad("20-name", PLAIN + record(b"\n\x02\xff\xfe" + encode_len(2, b"NoOp")), ("name", "UTF-8")),
    Bad("20-op", PLAIN + record(b"\n\x01n\x12\x02\xff\xfe"), ("op", "UTF-8")),
    Bad("20-input", in_node(b"\x1a\x02\xff\xfe"), ("input", "UTF-8")),
    Bad("20-attr", in_node(encode_len(5, b"\n\x02\xff\xfe\x12\x00")), ("attr", "UTF-8")),
    Bad("21-nul", named("a\0b"), (r"'a\x00b'", RULE)),
    Bad("21-newline", named("a\nError: b"), (r"'a\nError: b'", RULE)),
    Bad("21-escape", named("a\x1b[31mb"), (r"'a\x1b[31mb'", RULE)),
    Bad("21-newline-in-an-input", reads("a\nError: b"), (r"a\nError: b",)),
    Bad("22-no-name", named(""), ("no name", RULE)),
    *(
        Bad(f"22-name-{what}", named(name), (f"'{name}'", "illegal name", RULE))
        for what, name in (
            ("space", "a b"), ("only-a-space", " "), ("caret", "^a"), ("underscore", "_a"), ("dash", "-a"),
            ("colon", "a:0"), ("non-ascii", "é"), ("slash", "/a"),
        )
    ),
    Bad("23-duplicate", PLAIN + identity("y", "x"), ("'y'", "1 and 3")),
    Bad("24-dangling", placeholder("image", 4) + identity("y", "imag") + VERSIONS, ("'y'", "'imag'", "mean 'image'")),
    Bad("25-dangling-control", PLAIN + no_op("n", "^xx"), ("'n'", "'^xx'")),
    Bad("28-output-7-of-1", reads("x:7"), ("'y'", "'x:7'", "has 1 output")),
    *(
        Bad(f"28-{text}", reads(text), ("'y'", f"'{text}'"))
        for text in ("x:-1", "x:abc", "x:99999999999", "x:", ":0", "x:0:0", "x:00", "x:01", "^x:1", "^", "", "x:１")
    ),
    Bad("29-self", PLAIN + identity("n", "n"), ("cycle", "'n' -> 'n'")),
    Bad("29-pair", PLAIN + identity("a", "b") + identity("b", "a"), ("cycle", "'a'", "'b'", "->")),
    Bad("29-by-control", PLAIN + no_op("a", "^b") + no_op("b", "^a"), ("cycle", "'a'", "'b'")),
    Bad("29-back-edge-into-no-merge", PLAIN + identity("a", "n") + node("n", "NextIteration", "a", T=hostile.a_type()),
        ("cycle", "'a'", "'n'")),
    Bad("30-recursion-by-op", recursive("F"), ("'F' -> 'F'",)),
    Bad("30-recursion-by-attr", recursive("F", by="attr"), ("'F' -> 'F'",)),
    Bad("31-two-by-op", recursive("F", "G"), ("'F' -> 'G' -> 'F'",)),
    Bad("31-three-by-op", recursive("F", "G", "H"), ("'F' -> 'G' -> 'H' -> 'F'",)),
    Bad("31-three-by-attr", recursive("F", "G", "H", by="attr"), ("'F' -> 'G' -> 'H' -> 'F'",)),
    Bad("31-two-by-while-body", recursive("F", "G", by="body"), ("'F' -> 'G' -> 'F'",)),
    Bad("31-ring-of-3000", recursive(*(f"F{i}" for i in range(3000))), ("'F0' -> 'F1' -> ",)),
]  # fmt: skip

bad_files = pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.row) for bad in BAD])


@bad_files
def test_bad_file_is_refused(desk: Desk, bad: Bad) -> None:
    desk.put("model.pb", bad.data)
    desk.put("out.pb", EARLIER)
    ran = check_refused(desk, 3, ("model.pb", *bad.words), *TO_OUT)
    assert not any(c in ran.err for c in "\0\x1b")


@bad_files
def test_bad_file_is_refused_by_inspect(desk: Desk, bad: Bad) -> None:
    desk.put("model.pb", bad.data)
    before = desk.files()
    ran = desk.run("inspect", "model.pb")
    assert ran.code == 3
    check_said(ran, "model.pb", *bad.words)
    assert not any(c in ran.out for c in b"\0\x1b")
    assert desk.files() == before


@bad_files
def test_bad_file_without_validation_is_edited_or_refused(desk: Desk, bad: Bad) -> None:
    desk.put("model.pb", bad.data)
    ran = desk.run("rename", "model.pb", "y=q", "--validate", "none", "-o", "out.pb")
    assert ran.code in (0, 3, 4)
    assert ("out.pb" in desk.files()) == (ran.code == 0)
    if ran.code:
        check_said(ran)
    assert desk.files()["model.pb"] == bad.data
    assert desk.temporary_files() == []


@bad_files
def test_bad_second_graph_is_refused(desk: Desk, bad: Bad) -> None:
    desk.put("pre.pb", bad.data)
    desk.put("model.pb", PLAIN)
    check_refused(desk, 3, ("pre.pb", *bad.words), "add-preprocessing", "model.pb", "pre.pb", "-o", "out.pb", *QUICK)


def test_every_cut_is_noticed(desk: Desk) -> None:
    bounds = [0, *(len(placeholder("x", -1, 4)) + n for n in (0, len(identity("y", "x")), 2 * len(identity("y", "x"))))]
    for size in range(len(PLAIN)):
        if size in bounds:
            continue  # a cut between nodes leaves a graph; what it lacks is noticed where somebody reads it
        desk.put("model.pb", PLAIN[:size])
        check_refused(desk, 3, ("model.pb",), *TO_OUT)


def test_no_memory_is_set_aside_for_a_length_that_lies(desk: Desk) -> None:
    desk.put("model.pb", PLAIN + b"\n\xff\xff\xff\xff\x0f" + b"abc")
    tracemalloc.start()
    try:
        desk.run(*TO_OUT)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("op", ["O\x1b[31mp", "Op\nError: forged", "O\0p"], ids=["escape", "newline", "nul"])
def test_ops_are_data_too(desk: Desk, op: str) -> None:
    desk.put("model.pb", PLAIN + node("n", op, ["x"]) + identity("m", "n"))
    desk.put("post.pb", placeholder("n", -1, 4) + identity("n_postprocessed", "n") + VERSIONS)
    desk.put("pre.pb", placeholder("n", -1, 4) + identity("n_preprocessed", "n") + VERSIONS)
    for arguments in (
        ("inspect", "model.pb"),
        ("rename", "model.pb", "y=q", "-n", *QUICK),
        ("reroute", "model.pb", "n=y", "-n", *QUICK),
        ("reroute", "model.pb", "n:1=y", "-n", *QUICK),
        ("add-postprocessing", "model.pb", "post.pb", "-n", *QUICK),
        ("add-preprocessing", "model.pb", "pre.pb", "-n", *QUICK),
        ("add-preprocessing", "post.pb", "model.pb", "-n", *QUICK, "--map", "n=n,m"),
    ):
        ran = desk.run(*arguments)
        assert ran.code in (0, 4), ran
        said = ran.out.decode() + ran.err
        assert not any(c in said for c in "\0\x1b"), arguments
        assert not any(line.startswith("Error: forged") for line in said.splitlines()), arguments


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (("-i", "--backup", ".map"), "model.pb.map"),
        (("-o", "names"), "names"),
        (("-o", "out.pb", "--report", "names"), "names"),
    ],
    ids=["backup", "output", "report"],
)
def test_a_file_of_names_is_not_overwritten(desk: Desk, written: tuple[str, ...], name: str) -> None:
    desk.put("model.pb", PLAIN)
    desk.put(name, b"y=q\n")
    check_refused(desk, 2, (name,), "rename", "model.pb", "--map", name, *QUICK, *written)


def test_a_feed_is_not_overwritten(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("x.npy", b"1")
    check_refused(desk, 2, ("x.npy",), "rename", "model.pb", "y=q", "--feed", "x=@x.npy", *QUICK, "-o", "x.npy")
    check_refused(desk, 2, ("x.npy",), "rename", "model.pb", "y=q", "--feeds", "x.npy", *QUICK, "-o", "x.npy")


def test_a_backup_that_fails_leaves_the_report_alone(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("report.json", b"earlier")
    (desk.folder / "model.pb.d").mkdir()
    check_refused(
        desk, 6, ("backup",), "rename", "model.pb", "y=q", *QUICK, "-i", "--backup", ".d", "--report", "report.json"
    )


class Absent(NamedTuple):
    """A MODEL that is no file."""

    row: str
    model: str
    words: tuple[str, ...]


@pytest.mark.parametrize(
    "absent",
    [
        pytest.param(absent, id=absent.row)
        for absent in (
            Absent("1-missing", "nowhere.pb", ("nowhere.pb", "no such file")),
            Absent("1-missing-folder", "nowhere/model.pb", ("nowhere/model.pb", "no such file")),
            Absent("1-below-a-file", "plain.pb/model.pb", ("plain.pb/model.pb", "not a directory")),
            Absent("1-dangling-link", "dangling.pb", ("dangling.pb", "no such file")),
            Absent("1-link-to-itself", "loop.pb", ("loop.pb", "symbolic links")),
            Absent("1-empty-path", "", ("no such file",)),
            Absent("2-directory", "folder", ("folder", "directory")),
            Absent("2-saved-model", "saved", ("saved", "SavedModel directory", "freeze")),
            Absent("4-nothing-there", "/dev/null", ("/dev/null", "empty")),
        )
    ],
)
@pytest.mark.parametrize("command", ["rename", "inspect"])
def test_model_that_is_no_file(desk: Desk, command: str, absent: Absent) -> None:
    desk.put("plain.pb", PLAIN)
    (desk.folder / "dangling.pb").symlink_to("nowhere.pb")
    (desk.folder / "loop.pb").symlink_to("loop.pb")
    (desk.folder / "folder").mkdir()
    (desk.folder / "saved").mkdir()
    desk.put("saved/saved_model.pb", hostile.SAVED_MODEL)
    desk.put("out.pb", EARLIER)
    arguments = ("x=q", "-o", "out.pb", *QUICK) if command == "rename" else ()
    check_refused(desk, 3, absent.words, command, absent.model, *arguments)


@not_as_root
def test_no_read_permission(desk: Desk) -> None:
    desk.put("model.pb", PLAIN).chmod(0)
    ran = desk.run(*TO_OUT)
    assert ran.code == 3
    check_said(ran, "model.pb", "permission")


@pytest.mark.parametrize("model", ["10-text-as-pb", "10-binary-as-pbtxt", "10-text-with-crlf"])
def test_form_is_told_by_content(desk: Desk, model: str) -> None:
    data = {"10-text-as-pb": hostile.TEXT, "10-binary-as-pbtxt": PLAIN}.get(model, hostile.TEXT.replace(b"\n", b"\r\n"))
    desk.put("model", data)
    assert desk.run("rename", "model", "y=q", *QUICK, "-o", "out.pbtxt").code == 0
    assert desk.run("rename", "model", "y=q", *QUICK, "-o", "out.pb").code == 0
    assert b'name: "q"' in desk.files()["out.pbtxt"]
    assert from_bytes(desk.files()["out.pb"]).find("q") is not None


class Odd(NamedTuple):
    """A file that is edited with a warning: its bytes, what is said, and what the output must and must not hold."""

    row: str
    data: bytes
    words: tuple[str, ...]
    kept: tuple[bytes, ...] = ()
    gone: tuple[bytes, ...] = ()


UNKNOWN = encode_len(200, b"from the future")
UNKNOWN_GROUP = encode_varint(201 << 3 | 3) + b"\x08\x01" + encode_varint(201 << 3 | 4)
NODE_WITH_UNKNOWN = record(
    encode_len(1, b"n") + encode_len(2, b"Identity") + UNKNOWN + encode_len(3, b"y")
    + encode_len(5, encode_len(1, b"T") + encode_len(2, hostile.a_type())) + UNKNOWN_GROUP
)  # fmt: skip

ODD = [
    Odd("19-in-the-graph", UNKNOWN + PLAIN + UNKNOWN_GROUP, ("unknown field 200", "201"), (UNKNOWN, UNKNOWN_GROUP)),
    Odd("19-in-a-node", PLAIN + NODE_WITH_UNKNOWN, ("'n'", "unknown field"), (UNKNOWN, UNKNOWN_GROUP)),
    Odd("26-dangling-colocation", PLAIN + identity("n", "y", _class=hostile.colocated_with("gone", "x")),
        ("'n'", "'gone'"), (b"loc:@x",), (b"loc:@gone",)),
    Odd("26-only-a-dangling-colocation", PLAIN + identity("n", "y", _class=hostile.colocated_with("gone")),
        ("'n'", "'gone'"), (), (b"_class",)),
    Odd("27-control-before-data", PLAIN + identity("n", "^x", "y"), ("'n'", "control input"),
        (encode_len(3, b"q") + encode_len(3, b"^x"),), (encode_len(3, b"^x") + encode_len(3, b"q"),)),
]  # fmt: skip


@pytest.mark.parametrize("odd", [pytest.param(odd, id=odd.row) for odd in ODD])
def test_odd_file_is_edited_with_a_warning(desk: Desk, odd: Odd) -> None:
    desk.put("model.pb", odd.data)
    ran = desk.run(*TO_OUT)
    assert ran.code == 0, ran
    warnings = "\n".join(line for line in ran.err.splitlines() if line.startswith("Warning: "))
    for word in odd.words:
        assert word in warnings
    written = desk.files()["out.pb"]
    assert isinstance(written, bytes)
    assert all(data in written for data in odd.kept)
    assert not any(data in written for data in odd.gone)
    assert desk.files()["model.pb"] == odd.data
    assert desk.run("rename", "out.pb", "q=y", *QUICK, "-o", "back.pb").code == 0
    if odd.row.startswith("19"):
        assert desk.files()["back.pb"] == odd.data
    else:
        assert "Warning" not in desk.run("inspect", "back.pb").err


def test_loops_are_legal(desk: Desk) -> None:
    desk.put("model.pb", hostile.loop())
    assert desk.run("rename", "model.pb", "merge=q", *QUICK, "-o", "out.pb").code == 0


@pytest.mark.tensorflow
@pytest.mark.parametrize("row", ["30-recursion-by-op", "31-three-by-attr", "31-two-by-while-body"])
def test_recursion_is_found_before_tensorflow_crashes(desk: Desk, row: str) -> None:
    bad = next(bad for bad in BAD if bad.row == row)
    desk.put("model.pb", bad.data)
    for level in ("load", "run"):
        check_refused(desk, 3, bad.words, "rename", "model.pb", "x=q", "-o", "out.pb", "--validate", level)


# -- rows 53-56, and mistakes on the command line ------------------------------------------------------------


MODEL = (
    placeholder("x", -1, 4)
    + identity("y", "x")
    + identity("z", "y")
    + placeholder("wide", -1, 8)
    + placeholder("whole", -1, 4, dtype=INT32)
    + no_op("done", "^z")
    + VERSIONS
)


PRE = placeholder("x", -1, 4) + identity("x_preprocessed", "x") + VERSIONS


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
    Mistake("53-same-name", 4, "rename model.pb y=y", ("nothing would change",)),
    Mistake("53-reroute-nobody-reads", 4, "reroute model.pb z=y", ("nothing would change", "'z'")),
    Mistake("53-reroute-only-nobody", 4, "reroute model.pb y=x --only nothing", ("nothing would change", "'y'")),
    Mistake("53-reroute-itself", 4, "reroute model.pb y=y", ("nothing would change",)),
    Mistake("54-name-taken", 4, "rename model.pb y=z", ("'z'", "taken")),
    Mistake("54-two-get-one-name", 4, "rename model.pb y=q z=q", ("'y'", "'z'", "'q'")),
    Mistake("54-one-gets-two-names", 4, "rename model.pb y=q y=r", ("'y'", "'q'", "'r'")),
    Mistake("54-regex-merges", 4, "rename model.pb --regex [yz]=q", ("'y'", "'z'", "'q'")),
    Mistake("54-half-a-swap", 4, "rename model.pb x=y y=z", ("'z'", "taken")),
    Mistake("55-cycle", 4, "reroute model.pb x=z", ("cycle", "'y'", "'z'")),
    Mistake("55-dtype", 4, "reroute model.pb x=whole", ("'x' (float32", "'whole' (int32", "dtypes differ")),
    Mistake("55-shape", 4, "reroute model.pb x=wide", ("'x' (float32 [?,4]", "'wide' (float32 [?,8]", "shapes differ")),
    Mistake("55-no-such-output", 4, "reroute model.pb x=y:1", ("'y'", "1 output")),
    Mistake("55-control-is-no-tensor", 4, "reroute model.pb x=^y", ("'^y'", "not the name of a tensor")),
    Mistake("55-to-two-at-once", 4, "reroute model.pb x=y x=z", ("two others",)),
    *(
        Mistake(f"22-rename-to-{what}", 4, f"rename model.pb y={name}", ("legal", RULE))
        for what, name in (("nothing", ""), ("caret", "^a"), ("underscore", "_a"), ("dash", "-a"), ("colon", "a:0"))
    ),
    Mistake("22-escape-sequence", 4, "rename model.pb y=a\x1b[31m", (r"\x1b[31m", RULE)),
    Mistake("near-miss-node", 4, "rename model.pb whol=q", ("'whol'", "Did you mean 'whole'?")),
    Mistake("near-miss-tensor", 4, "reroute model.pb whol=x", ("'whol'", "Did you mean 'whole'?")),
    Mistake("rename-a-tensor", 4, "rename model.pb x:0=q", ("'x:0'", "index")),
    Mistake("regex-syntax", 4, "rename model.pb --regex (=q", ("'('", "not")),
    Mistake("regex-group", 4, r"rename model.pb --regex y=\1", ("'y'", "not")),
    Mistake("only-syntax", 4, "reroute model.pb x=y --only (", ("'('", "not a regular expression")),
    # The command line itself.
    Mistake("nothing", 2, "", ("command", "Hint: ")),
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


# -- what a run leaves ---------------------------------------------------------------------------------------


def test_dry_run_writes_nothing(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("model.edited.pb", EARLIER)
    desk.put("out.pb", EARLIER)
    before = desk.files()
    for more in ((), ("-o", "out.pb"), ("-i",), ("-i", "--backup", ".bak"), ("-o", "-"), ("-o", "new.pb")):
        ran = desk.run(*RENAME, "--dry-run", *more)
        assert (ran.code, ran.out) == (0, b"")
        assert "nothing written" in ran.err
        assert desk.files() == before
    assert desk.temporary_files() == []


def test_dry_run_finds_what_is_wrong_with_the_output(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    check_refused(desk, 6, ("nowhere",), *RENAME, "--dry-run", "-o", "nowhere/out.pb")


def test_report(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("report.json", EARLIER)
    assert desk.run(*TO_OUT, "--report", "report.json").code == 0
    report = json.loads(desk.files()["report.json"])
    assert (report["command"], report["model"], report["output"]) == ("rename", "model.pb", "out.pb")
    assert report["edit"]["renamed"] == {"y": "q"}
    assert report["nodes"] == {"before": 3, "after": 3}
    assert report["bytes"] == len(renamed(PLAIN))
    assert report["before"]["inputs"] == [{"name": "x", "dtype": "float32", "shape": [None, 4], "op": "Placeholder"}]
    assert [output["name"] for output in report["after"]["outputs"]] == ["z"]
    assert report["claims"] == ["SameOutputs"]
    assert report["proof"]["level"] == "structure"
    assert desk.temporary_files() == []


def test_report_on_standard_output(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    ran = desk.run(*TO_OUT, "--report", "-")
    assert ran.code == 0
    assert json.loads(ran.out)["edit"]["renamed"] == {"y": "q"}
    assert desk.files()["out.pb"] == renamed(PLAIN)


def test_report_is_not_written_where_the_edit_fails(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("report.json", EARLIER)
    arguments = ("rename", "model.pb", "nothing=q", *QUICK, "-o", "out.pb", "--report", "report.json")
    check_refused(desk, 4, ("'nothing'",), *arguments)


def test_in_place_with_backup(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("model.pb.bak", EARLIER)
    assert desk.run(*RENAME, "-i", "--backup", ".bak").code == 0
    assert desk.files() == {"model.pb": renamed(PLAIN), "model.pb.bak": PLAIN}
    assert desk.run("rename", "model.pb", "q=y", *QUICK, "-i", "--backup", ".bak").code == 0
    assert desk.files() == {"model.pb": PLAIN, "model.pb.bak": renamed(PLAIN)}


def test_backup_that_is_a_link_to_the_model(desk: Desk) -> None:
    os.link(desk.put("model.pb", PLAIN), desk.folder / "model.pb.bak")
    assert desk.run(*RENAME, "-i", "--backup", ".bak").code == 0
    assert desk.files() == {"model.pb": renamed(PLAIN), "model.pb.bak": PLAIN}


@pytest.mark.parametrize("suffix", ["/nowhere/x", "d"])
def test_backup_that_cannot_be_written(desk: Desk, suffix: str) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "model.pbd").mkdir()
    check_refused(desk, 6, ("backup",), *RENAME, "-i", "--backup", suffix)


# -- row 62: too big for TensorFlow --------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "structure"])
@pytest.mark.parametrize("destination", [("-o", "out.pb"), ("-i",), ("-o", "-")], ids=["out", "in-place", "stdout"])
def test_over_2_gib_is_refused_before_writing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, destination: tuple[str, ...], level: str
) -> None:
    path = desk.folder / "model.pb"
    hostile.write_huge(str(path), [4096, (1 << 30) + 8192, 1 << 30])
    before = path.stat()
    monkeypatch.setattr("gdsurgeon.wire.output.write_chunks", _must_not_be_called)
    ran = desk.run("rename", "model.pb", "y=q", "--validate", level, *destination)
    assert ran.code == 6
    check_said(ran, "2 GiB", "largest")
    listed = [line.split()[0] for line in ran.err.splitlines() if line.startswith("  ")]
    assert listed[:2] == ["w1", "w2"]
    assert ran.out == b""
    assert os.listdir(desk.folder) == ["model.pb"]
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def _must_not_be_called(*_: Any) -> int:
    raise AssertionError("something is written")


# -- rows 65-67: faults of the disk --------------------------------------------------------------------------


class Fault:
    """Has call number `at` of an os function fail, and every later one where `for_ever`.

    Of close, fsync and write only the calls on regular files count: a folder or a pipe has no disk to run full.
    """

    def __init__(self, name: str, code: int, for_ever: bool) -> None:
        self.name, self.code, self.for_ever = name, code, for_ever
        self.real = getattr(os, name) if name != "fsync" else lambda fd: None
        self.arm(0)

    def disarm(self) -> None:
        self.at = 0

    def arm(self, at: int) -> None:
        self.at, self.calls, self.struck = at, 0, False

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.at and self._counts(*args):
            self.calls += 1
            if self.calls == self.at or (self.for_ever and self.calls > self.at):
                self.struck = True
                if self.name == "close":
                    self.real(*args)  # the descriptor is gone, whatever close says
                raise OSError(self.code, os.strerror(self.code))
        return self.real(*args, **options)

    def _counts(self, *args: Any) -> bool:
        return self.name not in ("close", "fsync", "write") or stat.S_ISREG(os.fstat(args[0]).st_mode)


FAULTS = [
    ("write", errno.ENOSPC), ("write", errno.EDQUOT), ("write", errno.EIO),
    ("copy_file_range", errno.ENOSPC), ("copy_file_range", errno.EIO),
    ("fsync", errno.EIO), ("close", errno.EDQUOT), ("open", errno.EACCES), ("fchmod", errno.EPERM),
    ("replace", errno.EXDEV), ("replace", errno.EACCES), ("link", errno.EPERM),
]  # fmt: skip
RENAME_TWO = ("rename", "model.pb", "y=q", "v=r", *QUICK)
"""One behind each of the two weights of HEAVY: it takes two writes and two copies."""
PLACES = {
    "new": ("-o", "new.pb"),
    "earlier": ("-o", "out.pb"),
    "in-place": ("-i",),
    "backup": ("-i", "--backup", ".bak"),
    "report": ("-o", "out.pb", "--report", "report.json"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize(("call", "code"), FAULTS, ids=[f"{call}-{errno.errorcode[code]}" for call, code in FAULTS])
def test_all_or_nothing_whichever_call_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, code: int, for_ever: bool, place: str
) -> None:
    check_all_or_nothing(desk, monkeypatch, Fault(call, code, for_ever), place)


@pytest.mark.parametrize("place", PLACES)
def test_all_or_nothing_whichever_read_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    check_all_or_nothing(desk, monkeypatch, Fault("pread", errno.EIO, False), place)


def check_all_or_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch, fault: Fault, place: str) -> None:
    before = {"model.pb": HEAVY, "out.pb": EARLIER, "model.pb.bak": EARLIER, "report.json": EARLIER}
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, fault.name, fault)
    for at in range(1, 200):
        _restore(desk, before)
        fault.arm(at)
        ran = desk.run(*RENAME_TWO, *PLACES[place])
        fault.disarm()
        after: dict[str, Any] = desk.files()
        assert desk.temporary_files() == [], f"call {at}"
        if ran.code:
            assert ran.code in (3, 6), ran
            check_said(ran)
            assert os.strerror(fault.code).lower() in ran.err.lower()
            if place == "backup" and after["model.pb.bak"] != EARLIER:
                assert after.pop("model.pb.bak") == HEAVY  # kept before the model was to be replaced
            if place == "report" and fault.name == "replace":
                after.pop("report.json")  # two files cannot appear at once: it may be ahead of the output
            assert after.items() <= before.items(), f"call {at}"
            assert after.keys() >= before.keys() - {"model.pb.bak", "report.json"}, f"call {at}"
        else:
            _check_whole(place, before, after)
        if not fault.struck:
            assert ran.code == 0
            return
    pytest.fail("it never comes to an end")


def _restore(desk: Desk, before: dict[str, bytes]) -> None:
    for name in desk.files():
        os.unlink(name)
    for name, data in before.items():
        desk.put(name, data)


def _check_whole(place: str, before: dict[str, bytes], after: dict[str, Any]) -> None:
    """The folder after success."""
    written = {"new": "new.pb", "in-place": "model.pb", "backup": "model.pb"}.get(place, "out.pb")
    wanted = before | {written: renamed(HEAVY, y="q", v="r")}
    if place == "backup":
        wanted["model.pb.bak"] = HEAVY
    if place == "report":
        wanted["report.json"] = after["report.json"]
        assert json.loads(after["report.json"])["command"] == "rename"
    assert after == wanted


def _short(real: Callable[..., int], position: int, most: int) -> Callable[..., int]:
    """REAL, with at most MOST bytes a call; POSITION is where among the arguments the bytes or their count stand."""

    def call(*args: Any) -> int:
        wanted = args[position]
        less = min(wanted, most) if isinstance(wanted, int) else wanted[:most]
        return real(*args[:position], less, *args[position + 1 :])

    return call


def _fails(code: int) -> Callable[..., int]:
    def call(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    return call


SHORT = {
    "write": {"write": _short(os.write, 1, 100)},
    "pread": {"pread": _short(os.pread, 1, 100)},
    "copy_file_range": {"copy_file_range": _short(os.copy_file_range, 2, 3000)},
    "copy_file_range-nothing": {"copy_file_range": lambda *_: 0},
    "sendfile": {"copy_file_range": _fails(errno.EXDEV), "sendfile": _short(os.sendfile, 3, 3000)},
    **{
        f"neither-{errno.errorcode[code]}": {"copy_file_range": _fails(code), "sendfile": _fails(errno.EINVAL)}
        for code in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
    },
    "neither-and-short": {
        "copy_file_range": _fails(errno.ENOSYS),
        "sendfile": _fails(errno.ENOSYS),
        "write": _short(os.write, 1, 1000),
        "pread": _short(os.pread, 1, 1000),
    },
}


@pytest.mark.parametrize("case", SHORT)
def test_short_and_missing_calls_change_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    desk.put("model.pb", HEAVY)
    for name, call in SHORT[case].items():
        monkeypatch.setattr(os, name, call)
    assert desk.run(*TO_OUT).code == 0
    monkeypatch.undo()
    assert (desk.folder / "out.pb").read_bytes() == renamed(HEAVY)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_text_is_written_whole_or_not_at_all(desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("out.pb", EARLIER)
    fault = Fault(call, errno.ENOSPC, False)
    monkeypatch.setattr(os, call, fault)
    fault.arm(1)
    arguments = (*TO_OUT, "--format", "text")
    check_refused(desk, 6, ("out.pb", "no space left on device"), *arguments)
    assert desk.run(*arguments).code == 0
    assert desk.files()["out.pb"] == to_text(renamed(PLAIN))


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize("call", ["sendfile", "write", "pread"])
def test_faults_behind_a_missing_call(desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, for_ever: bool) -> None:
    """Where copy_file_range is missing the next way is taken, and fails as cleanly."""
    desk.put("model.pb", HEAVY)
    desk.put("out.pb", EARLIER)
    fault = Fault(call, errno.EIO, for_ever)
    monkeypatch.setattr(os, "copy_file_range", _fails(errno.ENOSYS))
    if call != "sendfile":
        monkeypatch.setattr(os, "sendfile", _fails(errno.ENOSYS))
    monkeypatch.setattr(os, call, fault)
    for at in range(1, 100):
        fault.arm(at)
        ran = desk.run(*TO_OUT)
        fault.disarm()
        if not fault.struck:
            assert ran.code == 0
            assert desk.files()["out.pb"] == renamed(HEAVY)
            return
        assert ran.code == (3 if call == "pread" else 6)
        check_said(ran)
        assert "input/output error" in ran.err.lower()
        assert desk.files() == {"model.pb": HEAVY, "out.pb": EARLIER}
    pytest.fail("it never comes to an end")


@pytest.mark.parametrize("room", [0, 4096, 1 << 16])
def test_no_room_for_standard_input(desk: Desk, room: int) -> None:
    """A graph from a pipe that is too big for memory goes to a temporary file, and there may be no room for that."""
    script = (
        "import resource, signal, sys; import gdsurgeon.wire.source as source; from gdsurgeon.cli.main import run;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), -1));"
        "source.SPOOL_IN_MEMORY = 100; run()"
    )
    desk.put("out.pb", EARLIER)
    data = HEAVY if room > 4096 else PLAIN + b"".join(no_op(f"n{i}") for i in range(300))
    arguments = ("-c", script, str(room), "rename", "-", "y=q", *QUICK, "-o", "out.pb")
    process = desk.start_python(*arguments, stdin=subprocess.PIPE)
    ran = finished(process, data)
    assert ran.code in (3, 6), ran
    check_said(ran, "<stdin>", "temporary")
    assert desk.files() == {"out.pb": EARLIER}
    assert desk.temporary_files() == []


# -- rows 67-72: where the output goes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "words"),
    [
        pytest.param("folder", ("folder", "is a directory"), id="67-directory"),
        pytest.param("to-folder", ("to-folder", "is a directory"), id="67-link-to-a-directory"),
        pytest.param("nowhere/out.pb", ("no folder", "nowhere"), id="68-missing-folder"),
        pytest.param("model.pb/out.pb", ("model.pb/out.pb", "cannot be written"), id="68-file-as-a-folder"),
        pytest.param("readonly.pb", ("readonly.pb", "the file is read-only"), id="68-read-only-file"),
        pytest.param("to-readonly", ("to-readonly", "the file is read-only"), id="68-link-to-a-read-only-file"),
        pytest.param("loop", ("loop", "symbolic links"), id="69-loop"),
        pytest.param("loop-a", ("loop-a", "symbolic links"), id="69-loop-of-two"),
        pytest.param("astray", ("astray", "no folder"), id="69-dangling-into-nowhere"),
        pytest.param("o" * 300, ("cannot be written", "name too long"), id="68-name-too-long"),
        pytest.param("", ("cannot be written",), id="68-empty-name"),
        pytest.param("new/", ("new/", "cannot be written"), id="68-slash-at-the-end"),
    ],
)
@pytest.mark.parametrize("dry", [False, True], ids=["", "dry-run"])
def test_output_that_cannot_be_written(desk: Desk, out: str, words: tuple[str, ...], dry: bool) -> None:
    desk.put("model.pb", PLAIN)
    desk.put("readonly.pb", EARLIER).chmod(0o444)
    (desk.folder / "folder").mkdir()
    for name, target in {
        "to-folder": "folder", "to-readonly": "readonly.pb", "loop": "loop", "loop-a": "loop-b", "loop-b": "loop-a",
        "astray": "nowhere/out.pb",
    }.items():  # fmt: skip
        (desk.folder / name).symlink_to(target)
    check_refused(desk, 6, words, *RENAME, "-o", out, *(["--dry-run"] if dry else []))
    assert stat.S_IMODE((desk.folder / "readonly.pb").stat().st_mode) == 0o444


def test_read_only_model_is_not_replaced(desk: Desk) -> None:
    desk.put("model.pb", PLAIN).chmod(0o444)
    check_refused(desk, 6, ("model.pb", "read-only"), *RENAME, "-i")


def test_long_name_leaves_room_for_the_temporary_one(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    assert desk.run(*RENAME, "-o", "o" * 255).code == 0
    assert desk.run(*RENAME, "-o", "é" * 127).code == 0


@not_as_root
def test_read_only_folder(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "folder").mkdir(0o555)
    check_refused(desk, 6, ("folder/out.pb", "permission"), *RENAME, "-o", "folder/out.pb")


@pytest.mark.parametrize("there", [True, False], ids=["there", "dangling"])
@pytest.mark.parametrize("target", ["real.pb", "folder/real.pb", "../beside.pb", "absolute"])
def test_link_is_followed_and_kept(desk: Desk, target: str, there: bool) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "folder").mkdir()
    if target == "absolute":
        target = str(desk.folder / "real.pb")
    (desk.folder / "link.pb").symlink_to(target)
    (desk.folder / "second.pb").symlink_to("link.pb")
    if there:
        (desk.folder / target).write_bytes(EARLIER)
    assert desk.run(*RENAME, "-o", "second.pb").code == 0
    assert (os.readlink("second.pb"), os.readlink("link.pb")) == ("link.pb", target)
    assert (desk.folder / target).read_bytes() == renamed(PLAIN)
    assert desk.temporary_files() == []
    assert not [name for name in os.listdir(desk.folder.parent) if ".tmp" in name]


def test_dev_null(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    assert desk.run(*RENAME, "-o", "/dev/null").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert desk.files() == {"model.pb": PLAIN}


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output(desk: Desk, name: str) -> None:
    desk.put("model.pb", HEAVY)
    assert desk.spawn(*RENAME, "-o", name).out == renamed(HEAVY)
    with open(desk.folder / "out.pb", "wb") as out:
        out.write(EARLIER)
        out.flush()
        assert desk.spawn(*RENAME, "-o", name, stdout=out).code == 0
    assert (desk.folder / "out.pb").read_bytes() == EARLIER + renamed(HEAVY)


def test_fifo(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    os.mkfifo(desk.folder / "pipe")
    process = desk.start(*RENAME, "-o", "pipe")
    assert (desk.folder / "pipe").read_bytes() == renamed(HEAVY)
    assert finished(process).code == 0
    assert stat.S_ISFIFO(os.stat(desk.folder / "pipe").st_mode)
    assert desk.temporary_files() == []


def test_fifo_as_model(desk: Desk) -> None:
    os.mkfifo(desk.folder / "pipe")
    process = desk.start("rename", "pipe", "y=q", *QUICK, "-o", "out.pb")
    (desk.folder / "pipe").write_bytes(HEAVY)
    assert finished(process).code == 0
    assert (desk.folder / "out.pb").read_bytes() == renamed(HEAVY)


def same_file_names(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "folder").mkdir()
    os.link(desk.folder / "model.pb", desk.folder / "hard.pb")
    (desk.folder / "soft.pb").symlink_to("model.pb")


@pytest.mark.parametrize("out", ["model.pb", "./model.pb", "folder/../model.pb", "hard.pb", "soft.pb"])
def test_model_is_not_its_own_output(desk: Desk, out: str) -> None:
    same_file_names(desk)
    check_refused(desk, 2, (out, "MODEL", "-i"), *RENAME, "-o", out)
    check_refused(desk, 2, ("model.pb", "MODEL", "-i"), "rename", out, "y=q", *QUICK, "-o", "model.pb")


def test_standard_input_is_not_its_own_output(desk: Desk) -> None:
    path = desk.put("model.pb", PLAIN)

    def run(*arguments: str) -> Ran:
        with open(path, "rb") as model:
            return desk.spawn(*arguments, stdin=model)

    check_refused(desk, 2, ("model.pb", "MODEL"), "rename", "-", "y=q", *QUICK, "-o", "model.pb", run=run)


@pytest.mark.parametrize("model", ["model.pb", "hard.pb", "soft.pb"])
def test_in_place(desk: Desk, model: str) -> None:
    same_file_names(desk)
    assert desk.run("rename", model, "y=q", *QUICK, "-i", "--backup", "~").code == 0
    new = renamed(PLAIN)
    assert (desk.folder / model).read_bytes() == new
    # A hard link is another name of the old file, and keeps it; a soft one is followed, and kept.
    target = "model.pb" if model == "soft.pb" else model
    other = "hard.pb" if target == "model.pb" else "model.pb"
    expected: dict[str, Any] = {target: new, other: PLAIN, "soft.pb": "-> model.pb", f"{target}~": PLAIN}
    assert desk.files() == expected


MODES = [0o640, 0o600, 0o664, 0o755, 0o444 | 0o200]


@pytest.mark.parametrize("mode", MODES, ids=oct)
@pytest.mark.parametrize("destination", ["out.pb", "in-place"])
def test_mode_is_kept(desk: Desk, destination: str, mode: int) -> None:
    desk.put("model.pb", PLAIN).chmod(mode)
    desk.put("out.pb", EARLIER).chmod(mode)
    assert desk.run(*RENAME, *(["-i"] if destination == "in-place" else ["-o", destination])).code == 0
    assert stat.S_IMODE(os.stat("model.pb" if destination == "in-place" else "out.pb").st_mode) == mode


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664), (0o027, 0o640)])
def test_new_file_has_the_mode_of_the_umask(desk: Desk, umask: int, mode: int) -> None:
    desk.put("model.pb", PLAIN).chmod(0o600)
    before = os.umask(umask)
    try:
        assert desk.run(*TO_OUT, "--report", "report.json").code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("out.pb").st_mode) == mode
    assert stat.S_IMODE(os.stat("report.json").st_mode) == mode


@pytest.mark.skipif(not as_root, reason="only root can give a folder to another group")
def test_group_of_the_folder(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "shared").mkdir()
    os.chown(desk.folder / "shared", -1, 1234)
    (desk.folder / "shared").chmod(0o2775)
    out = desk.folder / "shared" / "out.pb"
    assert desk.run(*RENAME, "-o", str(out)).code == 0
    assert out.stat().st_gid == 1234
    os.chown(out, -1, 4321)
    out.chmod(0o640)
    assert desk.run(*RENAME, "-o", str(out)).code == 0
    assert (out.stat().st_gid, stat.S_IMODE(out.stat().st_mode)) == (4321, 0o640)


# -- rows 75, 76: signals ------------------------------------------------------------------------------------


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
each_signal = pytest.mark.parametrize(("number", "code"), SIGNALS.items(), ids=[s.name for s in SIGNALS])

KILLED_AT = """
import os, signal, sys
from gdsurgeon.cli.main import run
name, number, at = sys.argv.pop(1), int(sys.argv.pop(1)), int(sys.argv.pop(1))
real = getattr(os, name)
calls = 0
def call(*args, **options):
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), number)
    return real(*args, **options)
setattr(os, name, call)
run()
"""


def children(pid: int) -> list[int]:
    """The processes whose parent is PID."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and status(int(entry.name))[1:2] == [str(pid)]:
            found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], Any]) -> Any:
    """What CONDITION gives, once that is true."""
    give_up = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < give_up, "it never came about"
        time.sleep(0.005)
    return found


def status(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; that of a process that has gone is Z, as while it is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z"]


def is_running(pid: int) -> bool:
    return status(pid)[0] != "Z"


def is_waiting(pid: int) -> bool:
    """Whether it sleeps, in a read or a write that cannot go on: a signal that comes now interrupts that."""
    return status(pid)[0] == "S"


def unread(pipe: int) -> int:
    """How many bytes in PIPE nobody has read."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def check_interrupted(desk: Desk, ran: Ran, code: int) -> None:
    assert ran.code == code, ran
    assert ran.out == b""
    assert "Traceback" not in ran.err
    assert ran.errors == []
    assert desk.temporary_files() == []


@pytest.mark.parametrize(
    ("number", "code", "call", "at"),
    [
        *(
            (signal.SIGTERM, 143, call, at)
            for call, at in (
                ("open", 2), ("write", 1), ("write", 2), ("copy_file_range", 1), ("copy_file_range", 2), ("fchmod", 1),
                ("fsync", 1), ("replace", 1),
            )
        ),
        (signal.SIGINT, 130, "copy_file_range", 2),
        (signal.SIGINT, 130, "fsync", 1),
        (signal.SIGHUP, 129, "copy_file_range", 2),
    ],
)  # fmt: skip
def test_signal_while_writing(desk: Desk, number: signal.Signals, code: int, call: str, at: int) -> None:
    before: dict[str, Any] = {"model.pb": HEAVY, "out.pb": EARLIER}
    _restore(desk, before)
    arguments = ("-c", KILLED_AT, call, str(number.value), str(at), *RENAME_TWO, "-o", "out.pb")
    check_interrupted(desk, finished(desk.start_python(*arguments)), code)
    assert desk.files() == before


@each_signal
def test_signal_while_reading(desk: Desk, number: signal.Signals, code: int) -> None:
    desk.put("out.pb", EARLIER)
    process = desk.start("rename", "-", "y=q", *QUICK, "-o", "out.pb", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(HEAVY)  # more than a pipe holds: when all is written, some has been read
    process.stdin.flush()
    pipe = process.stdin.fileno()
    wait_for(lambda: unread(pipe) == 0 and is_waiting(process.pid))
    process.send_signal(number)
    process.wait(60)
    check_interrupted(desk, finished(process), code)
    assert desk.files() == {"out.pb": EARLIER}


@each_signal
def test_signal_while_streaming(desk: Desk, number: signal.Signals, code: int) -> None:
    desk.put("model.pb", HEAVY)
    os.mkfifo(desk.folder / "pipe")
    process = desk.start(*RENAME, "-o", "pipe")
    with open(desk.folder / "pipe", "rb", buffering=0) as pipe:
        assert len(pipe.read(1)) == 1
        wait_for(lambda: is_waiting(process.pid))  # the pipe is full
        process.send_signal(number)
        process.wait(60)
    check_interrupted(desk, finished(process), code)


def processor_ticks(pid: int) -> int:
    """How long the process PID has computed."""
    return sum(map(int, status(pid)[11:13]))


class Validation:
    """A command in the middle of its validation, which will not end by itself."""

    def __init__(self, desk: Desk, *arguments: str, **options: Any) -> None:
        desk.put("model.pb", hostile.loop(endless=True))
        desk.put("out.pb", EARLIER)
        self.desk = desk
        self.before = desk.files()
        self.process = desk.start("rename", "model.pb", "result=q", "-o", "out.pb", *arguments, **options)
        wait_for(lambda: [name for name in desk.files() if name.startswith(".out.pb.gdsurgeon-")])
        (self.child,) = children(self.process.pid)
        # Longer than TensorFlow takes to load: it is in the loop, or about to be.
        wait_for(lambda: not is_running(self.child) or processor_ticks(self.child) > 60)

    def finished(self) -> Ran:
        ran = finished(self.process)
        wait_for(lambda: not is_running(self.child))
        assert self.desk.files() == self.before
        return ran


@pytest.mark.tensorflow
@each_signal
def test_signal_while_validating(desk: Desk, number: signal.Signals, code: int) -> None:
    validation = Validation(desk)
    validation.process.send_signal(number)
    check_interrupted(desk, validation.finished(), code)


@pytest.mark.tensorflow
def test_interrupt_from_the_keyboard_reaches_both_processes(desk: Desk) -> None:
    validation = Validation(desk, start_new_session=True)
    os.killpg(validation.process.pid, signal.SIGINT)
    check_interrupted(desk, validation.finished(), 130)


@pytest.mark.parametrize("call", ["copy_file_range", "fsync", "replace"])
def test_kill_while_writing(desk: Desk, call: str) -> None:
    before: dict[str, Any] = {"model.pb": HEAVY, "out.pb": EARLIER}
    _restore(desk, before)
    arguments = ("-c", KILLED_AT, call, str(signal.SIGKILL.value), "1", *TO_OUT)
    assert finished(desk.start_python(*arguments)).code == -signal.SIGKILL
    after = desk.files()
    left = set(after) - set(before)
    assert all(name.startswith(".out.pb.gdsurgeon-") and name.endswith(".tmp") for name in left)
    assert len(left) == 1
    assert after.items() >= before.items()


@pytest.mark.tensorflow
def test_kill_while_validating_ends_the_child(desk: Desk) -> None:
    validation = Validation(desk)
    validation.process.kill()
    finished(validation.process)
    wait_for(lambda: not is_running(validation.child))


# -- row 63: the validator dies ------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSEGV, ("TensorFlow crashed (SIGSEGV) while",)),
        (signal.SIGABRT, ("TensorFlow crashed (SIGABRT) while",)),
        (signal.SIGKILL, ("TensorFlow was killed (SIGKILL", "out of memory", " while")),
    ],
    ids=["SIGSEGV", "SIGABRT", "SIGKILL"],
)
def test_validator_dies(desk: Desk, number: signal.Signals, words: tuple[str, ...]) -> None:
    validation = Validation(desk)
    os.kill(validation.child, number)
    ran = validation.finished()
    assert ran.code == 5
    check_said(ran, *words)
    assert desk.temporary_files() == []


@pytest.mark.tensorflow
def test_validator_hangs(desk: Desk) -> None:
    ran = Validation(desk, "--timeout", "1").finished()
    assert ran.code == 5
    check_said(ran, "did not finish running", "within 1 s", "--timeout")
    assert desk.temporary_files() == []


@pytest.mark.tensorflow
@pytest.mark.parametrize("seconds", ["inf", "1e300"])
def test_patience_without_end(desk: Desk, seconds: str) -> None:
    desk.put("model.pb", PLAIN)
    ran = desk.run("rename", "model.pb", "y=q", "-o", "out.pb", "--timeout", seconds)
    assert ran.code in (0, 2), ran
    assert "internal fault" not in ran.err


@pytest.mark.tensorflow
@pytest.mark.parametrize("library", ["nowhere.so", "model.pb", "folder"])
def test_op_library_that_is_none(desk: Desk, library: str) -> None:
    desk.put("model.pb", PLAIN)
    (desk.folder / "folder").mkdir()
    arguments = ("rename", "model.pb", "y=q", "-o", "out.pb", "--op-lib", library)
    check_refused(desk, 2, ("--op-lib", library), *arguments)


@pytest.mark.tensorflow
def test_op_library_crashes(desk: Desk, tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void crash(void) { abort(); }\n")
    library = tmp_path / "crash.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no C compiler")
    desk.put("model.pb", PLAIN)
    desk.put("out.pb", EARLIER)
    arguments = ("rename", "model.pb", "y=q", "-o", "out.pb", "--op-lib", str(library))
    check_refused(desk, 5, ("TensorFlow crashed (SIGABRT)",), *arguments)


# -- rows 77-81: pipes, terminals, locales -------------------------------------------------------------------


def shell(desk: Desk, line: str) -> Ran:
    """Runs LINE in bash, where $g is the program; the code is that of the first command of a pipe."""
    script = f'g="{sys.executable} -m gdsurgeon"; {line}; exit ${{PIPESTATUS[0]}}'
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=desk.folder, env=desk.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return finished(process)


WRITERS = {
    "graph": "rename model.pb y=q --validate structure -o -",
    "text": "rename model.pb y=q --validate structure -o - --format text",
    "report": "rename model.pb y=q --validate structure -o out.pb --report -",
    "inspect": "inspect model.pb",
    "json": "inspect model.pb --json",
    "help": "--help",
    "command-help": "rename --help",
    "version": "--version",
}
to_every_writer = pytest.mark.parametrize("writer", WRITERS)


@to_every_writer
def test_full_device(desk: Desk, writer: str) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, f"$g {WRITERS[writer]} >/dev/full")
    assert ran.code == 6, ran
    check_said(ran, "<stdout>", "no space left on device")


@to_every_writer
def test_closed_standard_output(desk: Desk, writer: str) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, f"$g {WRITERS[writer]} >&-")
    assert ran.code == 6, ran
    check_said(ran, "<stdout>", "closed")


@to_every_writer
def test_reader_has_gone(desk: Desk, writer: str) -> None:
    desk.put("model.pb", HEAVY)
    reader, written = os.pipe()
    os.close(reader)
    try:
        ran = desk.spawn(*WRITERS[writer].split(), stdout=written)
    finally:
        os.close(written)
    assert ran.code == 141, ran
    assert "Error" not in ran.err
    assert "Exception ignored" not in ran.err
    assert "Traceback" not in ran.err


def test_reader_goes_after_a_byte(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, f"$g {WRITERS['graph']} | head -c1")
    assert (ran.code, ran.out) == (141, HEAVY[:1])
    assert "Exception ignored" not in ran.err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("level", ["structure", pytest.param("run", marks=pytest.mark.tensorflow)])
def test_closed_streams_that_are_not_needed(desk: Desk, level: str, closed: str) -> None:
    desk.put("model.pb", HEAVY)
    ran = shell(desk, f"$g rename model.pb y=q --validate {level} -o out.pb {closed}")
    assert ran.code == 0, ran
    assert desk.files() == {"model.pb": HEAVY, "out.pb": renamed(HEAVY)}
    assert desk.temporary_files() == []


def test_closed_standard_input_that_is_needed(desk: Desk) -> None:
    ran = shell(desk, "$g rename - y=q --validate structure -o out.pb <&-")
    assert ran.code == 3
    check_said(ran, "standard input is closed")


def test_error_with_nobody_to_read_it(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    for closed in ("2>&-", "2>/dev/full"):
        ran = shell(desk, f"$g rename model.pb nothing=q --validate structure -o out.pb {closed}")
        assert (ran.code, ran.out, ran.err) == (4, b"", "")


@pytest.fixture
def tty() -> Iterator[int]:
    """A terminal."""
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


def test_standard_input_is_a_terminal(desk: Desk, tty: int) -> None:
    def run(*arguments: str) -> Ran:
        return desk.spawn(*arguments, stdin=tty)

    check_refused(desk, 2, ("standard input is a terminal",), "rename", "-", "y=q", "-o", "out.pb", *QUICK, run=run)
    check_refused(desk, 2, ("standard input is a terminal",), "inspect", "-", run=run)


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/tty"])
def test_standard_output_is_a_terminal(desk: Desk, tty: int, name: str) -> None:
    desk.put("model.pb", PLAIN)

    def run(*arguments: str) -> Ran:
        return desk.spawn(*arguments, stdout=tty)

    if name == "/dev/tty":
        name = os.ttyname(tty)
    check_refused(desk, 2, ("binary", "terminal"), *RENAME, "-o", name, run=run)


def test_text_may_go_to_a_terminal(desk: Desk, tty: int) -> None:
    desk.put("model.pb", PLAIN)
    assert desk.spawn(*RENAME, "-o", "-", "--format", "text", stdout=tty).code == 0
    desk.put("model.pbtxt", hostile.TEXT)
    assert desk.spawn("rename", "model.pbtxt", "y=q", *QUICK, "-o", "-", stdout=tty).code == 0


@pytest.mark.parametrize("data", [b"", HEAVY[:100_000]], ids=["nothing", "half"])
def test_upstream_has_failed(desk: Desk, data: bytes) -> None:
    desk.put("out.pb", EARLIER)

    def run(*arguments: str) -> Ran:
        return desk.spawn(*arguments, data=data)

    words = ("<stdin>", "truncated" if data else "empty")
    check_refused(desk, 3, words, "rename", "-", "y=q", *QUICK, run=run)
    check_refused(desk, 3, words, "rename", "-", "y=q", *QUICK, "-o", "out.pb", run=run)


def test_pipe_fails_at_its_end_without_pipefail(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    line = "$g rename model.pb nothing=q -o - --validate none | $g rename - y=q --validate none > out.pb"
    ran = shell(desk, f"{line}; exit $?")
    assert ran.code == 3
    assert ran.errors == [
        "Error: model.pb has no node 'nothing' (3 nodes).",
        "Error: <stdin> is empty (0 bytes)",
    ]


def test_pipe_there_and_back_again(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    there, back = f"$g rename - y=q {' '.join(QUICK)}", f"$g rename - q=y {' '.join(QUICK)}"
    ran = shell(desk, f"cat model.pb | {there} | {back} > out.pb")
    assert "Error" not in ran.err
    assert desk.files() == {"model.pb": HEAVY, "out.pb": HEAVY}
    assert desk.temporary_files() == []


def test_standard_input_by_its_path(desk: Desk) -> None:
    try:
        ran = desk.spawn("rename", "/dev/stdin", "y=q", *QUICK, data=HEAVY)
        assert (ran.code, ran.out) == (0, renamed(HEAVY))
        assert not os.path.exists("/dev/stdin.edited")
    finally:
        Path("/dev/stdin.edited").unlink(missing_ok=True)


def test_standard_output_is_the_model(desk: Desk) -> None:
    path = desk.put("model.pb", PLAIN)

    def run(*arguments: str) -> Ran:
        with open(path, "ab") as model:
            return desk.spawn(*arguments, stdout=model)

    check_refused(desk, 2, ("model.pb",), *RENAME, "-o", "-", run=run)


def test_standard_input_from_a_file(desk: Desk) -> None:
    path = desk.put("model.pb", HEAVY)
    with open(path, "rb") as model:
        assert desk.spawn("rename", "-", "y=q", *QUICK, stdin=model).out == renamed(HEAVY)
    with open(path, "rb") as model:
        model.seek(0)
        os.lseek(model.fileno(), 100, os.SEEK_SET)  # somebody has read a part of it
        assert desk.spawn("rename", "-", "y=q", *QUICK, stdin=model).code == 3


def test_second_graph_from_standard_input(desk: Desk) -> None:
    desk.put("model.pb", PLAIN)
    ran = desk.spawn("add-preprocessing", "model.pb", "-", "-o", "out.pb", *QUICK, data=PRE)
    assert ran.code == 0, ran
    assert from_bytes((desk.folder / "out.pb").read_bytes()).find("x_preprocessed") is not None


@pytest.mark.tensorflow
def test_nothing_of_tensorflow_on_the_streams(desk: Desk) -> None:
    desk.put("model.pb", HEAVY)
    assert desk.spawn("rename", "model.pb", "y=q", "-o", "out.pb").code == 0
    ran = desk.spawn("rename", "model.pb", "y=q", "-o", "-")
    assert ran.code == 0
    assert ran.out == (desk.folder / "out.pb").read_bytes()
    assert "tensorflow" not in ran.err.lower()
    loud = desk.spawn("rename", "model.pb", "y=q", "-o", "-", "-v", env=desk.environment(TF_CPP_MIN_LOG_LEVEL="0"))
    assert (loud.code, loud.out) == (0, ran.out)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("name", [b"m\xff.pb", "modèle.pb".encode(), b"a b\tc\nd.pb", b"-model.pb", b"'$(x)*.pb"])
def test_names_of_files(desk: Desk, name: bytes, locale: str) -> None:
    path = os.path.join(os.fsencode(desk.folder), name)
    with open(path, "wb") as file:
        file.write(PLAIN)
    environment = desk.environment(LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    report = ("--report", "report.json")
    ran = desk.spawn("rename", *QUICK, *report, "--", name, "y=q", env=environment)
    assert ran.code == 0, ran
    stem, suffix = os.path.splitext(path)
    with open(stem + b".edited" + suffix, "rb") as file:
        assert file.read() == renamed(PLAIN)
    assert os.fsencode(json.loads((desk.folder / "report.json").read_bytes())["model"]) == name
    assert len(ran.err.splitlines()) == 5
    assert desk.spawn("inspect", "--", name, env=environment).code == 0
    ran = desk.spawn("rename", *QUICK, "--", name, "y=q", env=environment)
    assert ran.code == 2  # the output is there by now
    check_said(ran, "-o")


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}], ids=["C", "ascii"])
def test_names_in_graphs(desk: Desk, environment: dict[str, str]) -> None:
    """Ops may be called anything; what cannot be printed is escaped."""
    desk.put("modèle.pb", PLAIN + node("n", "Öp", ["x"]))
    for arguments in (("inspect", "modèle.pb"), ("inspect", "--json", "modèle.pb")):
        ran = desk.spawn(*arguments, env=desk.environment(**environment))
        assert ran.code == 0, ran
    ran = desk.spawn("rename", "modèle.pb", "y=q", *QUICK, "-o", "out.pb", env=desk.environment(**environment))
    assert ran.code == 0, ran


@pytest.mark.tensorflow
def test_file_name_that_is_not_utf8_is_executed(desk: Desk) -> None:
    path = os.path.join(os.fsencode(desk.folder), b"-m\xff.pb")
    with open(path, "wb") as file:
        file.write(PLAIN)
    ran = desk.spawn("rename", "--", b"-m\xff.pb", "y=q", env=desk.environment(LC_ALL="C"))
    assert ran.code == 0, ran
    assert "bit-identical" in ran.err


def test_dash_as_the_name_of_a_file(desk: Desk) -> None:
    desk.put("-", PLAIN)
    assert desk.run("rename", "./-", "y=q", *QUICK, "-o", "./-x").code == 0
    assert desk.files()["-x"] == renamed(PLAIN)
