"""Files that cannot be read, are broken or are odd: the command line reports them and does not change them.

The ids of the cases name the row of the table of faults that they come from.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from support import hostile
from support.desk import Desk, check_said
from support.graphs import FLOAT, dtypes, func, function, graph_bytes, identity, library, node, placeholder
from support.hostile import HEAVY, PLAIN, VERSIONS, X
from support.renaming import EARLIER, QUICK, RULE, TO_OUT
from support.system import memory

from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.fields import encode_len, encode_varint


class Bad(NamedTuple):
    """A file that is refused as input: its bytes, and words of the message in addition to its name."""

    row: str
    data: bytes
    words: tuple[str, ...]


def reads(text: str) -> bytes:
    """A graph in which y has the input TEXT."""
    return X + identity("y", text) + VERSIONS


def named(name: str) -> bytes:
    """A graph with a node of that NAME."""
    return PLAIN + node(name, "NoOp")


def in_node(body: bytes) -> bytes:
    """A graph with BODY at the end of a node."""
    return PLAIN + encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + body)


def recursive(*names: str, by: str = "op") -> bytes:
    """Functions that call each other in a ring."""
    kinds = {"Tin": dtypes(FLOAT), "Tout": dtypes(FLOAT)}
    ring = [
        function(name, node("c", called, ["x"]) if by == "op" else node("c", "PartitionedCall", ["x"], f=func(called),
                 **kinds), identity("y", "x"))
        for name, called in zip(names, (*names[1:], names[0]), strict=True)
    ]  # fmt: skip
    return graph_bytes(X, node("n", names[0], ["x"]), library(*ring), trailer=VERSIONS)


BAD = [
    Bad("4-empty", b"", ("empty",)),
    Bad("5-cut-in-a-small-node", PLAIN[:50], ("truncated",)),
    Bad("5-cut-in-a-weight", HEAVY[:100_000], ("truncated",)),
    Bad("5-cut-in-the-versions", PLAIN[:-1], ("truncated",)),
    Bad("6-cut-between-nodes", identity("y", "x") + identity("z", "w"), ("'y'", "'x'", "'z'", "'w'")),
    Bad("7-two-graphs", PLAIN + PLAIN, ("'x'", "numbers 0 and 3", "'y'", "numbers 1 and 4")),
    Bad("10-text-graph-with-a-slip", hostile.TEXT.replace(b"input:", b"imput:"), ("line 9", "imput")),
    Bad("10-text-graph-cut", hostile.TEXT[:-40], ("text GraphDef", "line")),
    Bad("14-png", hostile.PNG, ("PNG",)),
    Bad("15-zeros-at-the-end", PLAIN + bytes(8), ("corrupt", f"byte {len(PLAIN)}")),
    Bad("15-text-at-the-end", PLAIN + b"Connection closed\n", ("corrupt",)),
    Bad("16-huge-node", PLAIN + b"\n\xff\xff\xff\xff\x0f" + b"abc", ("truncated or corrupt", "4294967295")),
    Bad("16-huge-attr", in_node(b"\x2a\xff\xff\xff\xff\x0fabc"), ("truncated or corrupt",)),
    Bad("17-varint-of-11-bytes-in-a-node", in_node(b"\x18" + (b"\xff" * 10 + b"\x01")), ("corrupt", "varint")),
    Bad("17-tag-0-in-a-node", in_node(b"\x00\x00"), ("corrupt", "field number 0")),
    Bad("17-wire-type-7-in-a-node", in_node(b"\x0f\x00"), ("corrupt", "wire type 7")),
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
    Bad("20-name", PLAIN + encode_len(1, b"\n\x02\xff\xfe" + encode_len(2, b"NoOp")), ("name", "UTF-8")),
    Bad("21-escape", named("a\x1b[31mb"), (r"'a\x1b[31mb'", RULE)),
    Bad("21-newline-in-an-input", reads("a\nError: b"), (r"a\nError: b",)),
    Bad("22-name-space", named("a b"), ("'a b'", "illegal name", RULE)),
    Bad("24-dangling", placeholder("image") + identity("y", "imag") + VERSIONS, ("'y'", "'imag'", "mean 'image'")),
    Bad("28-output-7-of-1", reads("x:7"), ("'y'", "'x:7'", "has 1 output")),
    Bad("28-output-that-is-no-number", reads("x:１"), ("'y'", "'x:１'")),
    Bad("29-self", PLAIN + identity("n", "n"), ("cycle", "'n' -> 'n'")),
    Bad("29-back-edge-into-no-merge", PLAIN + identity("a", "n") + node("n", "NextIteration", "a", T=FLOAT),
        ("cycle", "'a'", "'n'")),
    Bad("30-recursion-by-op", recursive("F"), ("'F' -> 'F'",)),
    Bad("31-three-by-op", recursive("F", "G", "H"), ("'F' -> 'G' -> 'H' -> 'F'",)),
    Bad("31-three-by-attr", recursive("F", "G", "H", by="attr"), ("'F' -> 'G' -> 'H' -> 'F'",)),
    Bad("31-ring-of-3000", recursive(*(f"F{i}" for i in range(3000))), ("'F0' -> 'F1' -> ",)),
]  # fmt: skip


bad_files = pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.row) for bad in BAD])


@bad_files
def test_bad_file_is_refused(desk: Desk, bad: Bad) -> None:
    """As MODEL by an edit and by a query, and as the second graph."""
    for name, data in (("model.pb", bad.data), ("out.pb", EARLIER), ("plain.pb", PLAIN)):
        desk.put(name, data)
    for arguments in (TO_OUT, ("inspect", "model.pb"), ("add-preprocessing", "plain.pb", "model.pb", *QUICK)):
        ran = desk.run(*arguments)
        check_said(ran, "model.pb", *bad.words, code=3)
        assert not any(c in ran.out.decode() + ran.err for c in "\0\x1b")
    assert desk.files() == {"model.pb": bad.data, "out.pb": EARLIER, "plain.pb": PLAIN}


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


def test_every_cut_is_noticed(desk: Desk) -> None:
    bounds = [0, *(len(X) + n for n in (0, len(identity("y", "x")), 2 * len(identity("y", "x"))))]
    for size in range(len(PLAIN)):
        if size in bounds:
            continue  # a cut between nodes leaves a graph; missing nodes are noticed at their consumers
        desk.put("model.pb", PLAIN[:size])
        desk.refused(3, "corrupt" if size > 3 else "wrong-format", *TO_OUT, file="model.pb")


def test_no_memory_is_set_aside_for_a_length_that_lies(desk: Desk) -> None:
    desk.put("model.pb", PLAIN + b"\n\xff\xff\xff\xff\x0f" + b"abc")
    assert memory(lambda: desk.run(*TO_OUT)) < 64 << 20


@pytest.mark.parametrize("op", ["O\x1b[31mp", "Op\nError: forged", "O\0p"], ids=["escape", "newline", "nul"])
def test_ops_are_data_too(desk: Desk, op: str) -> None:
    desk.put("model.pb", PLAIN + node("n", op, ["x"]) + identity("m", "n"))
    desk.put("post.pb", placeholder("n", FLOAT, (-1, 4)) + identity("n_postprocessed", "n") + VERSIONS)
    desk.put("pre.pb", placeholder("n", FLOAT, (-1, 4)) + identity("n_preprocessed", "n") + VERSIONS)
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
    ("read", "written", "name"),
    [
        ("--map-file model.pb.map", "-i --backup .map", "model.pb.map"),
        ("--map-file names", "-o names", "names"),
        ("--map-file names", "-o out.pb --report names", "names"),
        ("y=q --feed x=@x.npy", "-o x.npy", "x.npy"),
        ("y=q --feeds x.npy", "-o x.npy", "x.npy"),
    ],
)
def test_a_file_of_names_or_a_feed_is_not_overwritten(plain: Desk, read: str, written: str, name: str) -> None:
    plain.put(name, b"y=q\n")
    plain.refused(2, "would-replace", "rename", "model.pb", *read.split(), *QUICK, *written.split(), other=name)


@pytest.mark.parametrize(
    ("model", "reason"),
    [("plain.pb/model.pb", "ENOTDIR"), ("dangling.pb", "ENOENT"), ("loop.pb", "ELOOP"), ("", "ENOENT")],
)
@pytest.mark.parametrize("command", ["rename", "inspect"])
def test_model_that_is_no_file(desk: Desk, command: str, model: str, reason: str) -> None:
    desk.put("plain.pb", PLAIN)
    (desk.folder / "dangling.pb").symlink_to("nowhere.pb")
    (desk.folder / "loop.pb").symlink_to("loop.pb")
    desk.put("out.pb", EARLIER)
    arguments = ("x=q", "-o", "out.pb", *QUICK) if command == "rename" else ()
    desk.refused(3, "unreadable", command, model, *arguments, file=model, reason=reason)


@pytest.mark.parametrize("model", ["10-text-as-pb", "10-binary-as-pbtxt", "10-text-with-crlf"])
def test_form_is_told_by_content(desk: Desk, model: str) -> None:
    data = {"10-text-as-pb": hostile.TEXT, "10-binary-as-pbtxt": PLAIN}.get(model, hostile.TEXT.replace(b"\n", b"\r\n"))
    desk.put("model", data)
    desk.done("rename", "model", "y=q", *QUICK, "-o", "out.pbtxt")
    desk.done("rename", "model", "y=q", *QUICK, "-o", "out.pb")
    assert b'name: "q"' in desk.files()["out.pbtxt"]
    assert from_bytes(desk.files()["out.pb"]).find("q") is not None


class Odd(NamedTuple):
    """A file that is edited with a warning: its bytes, the message, and bytes that the output must or must not have."""

    row: str
    data: bytes
    words: tuple[str, ...]
    kept: tuple[bytes, ...] = ()
    gone: tuple[bytes, ...] = ()


UNKNOWN = encode_len(200, b"from the future")


UNKNOWN_GROUP = encode_varint(201 << 3 | 3) + b"\x08\x01" + encode_varint(201 << 3 | 4)


NODE_WITH_UNKNOWN = encode_len(
    1,
    encode_len(1, b"n") + encode_len(2, b"Identity") + UNKNOWN + encode_len(3, b"y")
    + encode_len(5, encode_len(1, b"T") + encode_len(2, FLOAT)) + UNKNOWN_GROUP
)  # fmt: skip


ODD = [
    Odd("19-in-the-graph", UNKNOWN + PLAIN + UNKNOWN_GROUP, ("unknown field 200", "201"), (UNKNOWN, UNKNOWN_GROUP)),
    Odd("19-in-a-node", PLAIN + NODE_WITH_UNKNOWN, ("'n'", "unknown field"), (UNKNOWN, UNKNOWN_GROUP)),
    Odd("26-dangling-colocation", PLAIN + identity("n", "y", _class=["loc:@gone", "loc:@x"]),
        ("'n'", "'gone'"), (b"loc:@x",), (b"loc:@gone",)),
    Odd("26-only-a-dangling-colocation", PLAIN + identity("n", "y", _class=["loc:@gone"]),
        ("'n'", "'gone'"), (), (b"_class",)),
    Odd("27-control-before-data", PLAIN + identity("n", "^x", "y"), ("'n'", "control input"),
        (encode_len(3, b"q") + encode_len(3, b"^x"),), (encode_len(3, b"^x") + encode_len(3, b"q"),)),
]  # fmt: skip


@pytest.mark.parametrize("odd", [pytest.param(odd, id=odd.row) for odd in ODD])
def test_odd_file_is_edited_with_a_warning(desk: Desk, odd: Odd) -> None:
    desk.put("model.pb", odd.data)
    ran = desk.done(*TO_OUT)
    warnings = "\n".join(line for line in ran.err.splitlines() if line.startswith("Warning: "))
    for word in odd.words:
        assert word in warnings
    written = desk.files()["out.pb"]
    assert isinstance(written, bytes)
    assert all(data in written for data in odd.kept)
    assert not any(data in written for data in odd.gone)
    assert desk.files()["model.pb"] == odd.data
    desk.done("rename", "out.pb", "q=y", *QUICK, "-o", "back.pb")
    if odd.row.startswith("19"):
        assert desk.files()["back.pb"] == odd.data
    else:
        assert "Warning" not in desk.run("inspect", "back.pb").err
