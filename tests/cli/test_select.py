"""select on the command line: nodes, tensors and levels, as lines and as JSON."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from support import graphs
from support.desk import Desk, Ran
from support.graphs import FLOAT, add, const, g8, identity, node, placeholder
from support.selecting import short, split

from gdsurgeon.cli import select

HOSTILE = "s/a\x1b[31m\u202eb"


class Select:
    """`gdsurgeon select` in a folder that holds model.pb."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.put(*g8())

    def put(self, *records: bytes) -> None:
        self.desk.put("model.pb", graphs.graph_bytes(*records))

    def __call__(self, *options: str, stdin: bytes | None = None, model: str = "model.pb") -> Ran:
        ran = self.desk.run("select", model, *options, data=stdin)
        assert "Traceback" not in ran.err and "internal error" not in ran.err
        assert (ran.code == 0) == (not ran.err), ran.err
        return ran

    def lines(self, *options: str) -> list[str]:
        ran = self(*options)
        assert ran.code == 0, ran.err
        assert ran.out == b"" or ran.out.endswith(b"\n")
        return ran.out.decode().splitlines()


@pytest.fixture
def command(desk: Desk) -> Select:
    return Select(desk)


def test_names_one_a_line(command: Select) -> None:
    assert command.lines("--scope", "foo/bar") == short("efgh")
    assert command.lines() == short("abcdefgh")
    assert command.lines("--select", "^a$", "--select", "h$", "--op", "Const", "--exclude", "foo/b$") == short("adh")
    assert command.lines("--between", "a,foo/d=foo/bar/e,foo/bar/g") == short("ceg")
    assert command.lines("--forward", "foo/bar/e,foo/bar/g") == short("egh")
    assert command.lines("--backward", "foo/c", "--backward", "foo/d") == short("abcd")
    assert command.lines("--node", "a", "--node", "foo/d") == short("ad")
    assert command.lines("--node", "foo/bar/g", "--with-consts") == short("g")


def test_control_edges_on_the_command_line(command: Select) -> None:
    command.put(const("a", [1]), node("w", "NoOp", ["^a"]))
    assert command.lines("--forward", "a") == ["a"]
    assert command.lines("--forward", "a", "--control-edges") == ["a", "w"]


def test_tensors(command: Select) -> None:
    command.put(*split())
    assert command.lines("--op", "Split", "--tensors") == ["s", "s:1", "s:2"]
    assert command.lines("--node", "w", "--node", "q", "--tensors") == ["q"]


def test_nothing_to_print_is_no_line(command: Select) -> None:
    """A program that reads lines must not get an empty name."""
    command.put(*split())
    assert command("--node", "w", "--tensors").out == b""
    command.put()
    assert command().out == b""


def test_levels_one_a_line(command: Select) -> None:
    assert command.lines("--toposort") == ["a foo/b foo/d", "foo/c", "foo/bar/e foo/bar/f foo/bar/g", "foo/bar/h"]
    assert command.lines("--toposort", "--scope", "foo/bar") == ["foo/bar/e foo/bar/f foo/bar/g", "foo/bar/h"]
    assert command.lines("--toposort", "--scope", "foo/bar", "--tensors")[-1] == "foo/bar/h"


def test_json(command: Select) -> None:
    found = json.loads(command("--node", "foo/bar/h", "--node", "a", "--json").out)
    assert found == [
        {"name": "a", "op": "Const", "inputs": [], "outputs": [{"name": "a", "dtype": "float32", "shape": [2]}]},
        {
            "name": "foo/bar/h",
            "op": "AddV2",
            "inputs": ["foo/bar/f", "foo/bar/g", "^foo/c"],
            "outputs": [{"name": "foo/bar/h", "dtype": "float32", "shape": None}],
        },
    ]


def test_json_of_what_is_not_known(command: Select) -> None:
    command.put(node("u", "MyOp", ["p"]), placeholder("p", FLOAT, (-1, 2)), node("n", "NoOp", ["^u"]))
    found = {n["name"]: n for n in json.loads(command("--json").out)}
    assert found["u"]["outputs"] == [{"name": "u", "dtype": None, "shape": None}]
    assert found["p"]["outputs"] == [{"name": "p", "dtype": "float32", "shape": [None, 2]}]
    assert (found["n"]["outputs"], found["n"]["inputs"]) == ([], ["^u"])


def test_json_of_levels_is_a_list_of_lists(command: Select) -> None:
    for options, levels in (((), ("abd", "c", "efg", "h")), (("--op", "Const"), ("abd",))):
        found = json.loads(command("--json", "--toposort", *options).out)
        assert [[n["name"] for n in level] for level in found] == [*map(short, levels)]


def test_names_from_a_file(command: Select, desk: Desk) -> None:
    desk.put("names.txt", b"\xef\xbb\xbffoo/d\r\n\n  foo/bar/h:0  \na:1\n")
    assert command.lines("--nodes", "names.txt") == short("adh")
    assert command.lines("--nodes", "names.txt", "--op", "Const", "--exclude", "^a$") == short("bdh")


def test_what_it_prints_it_reads(command: Select) -> None:
    command.put(*split())
    for options in (["--op", "Split"], ["--op", "Split", "--tensors"], ["--exclude", "s"]):
        printed = command(*options).out
        assert command(*options[:2]).out == command("--nodes", "-", stdin=printed).out


def test_the_model_and_the_names_cannot_both_come_from_standard_input(command: Select) -> None:
    ran = command("--nodes", "-", model="-", stdin=b"")
    assert ran.code == 2 and "only one of MODEL and --nodes can be read from standard input" in ran.err


def test_an_empty_list_of_names_selects_nothing(command: Select) -> None:
    """Where a pipe has found nothing to select, everything is not what is meant."""
    for options in ([], ["--exclude", "foo"]):
        assert command("--nodes", "-", *options, stdin=b"\n").code in (2, 4)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00a"])
def test_a_list_of_names_that_cannot_be_read(command: Select, desk: Desk, content: bytes | None) -> None:
    if content is not None:
        desk.put("names.txt", content)
    ran = command("--nodes", "names.txt")
    assert ran.code == 2 and "--nodes names.txt" in ran.err


@pytest.mark.parametrize(
    ("code", "options", "words"),
    [
        (4, ["--op", "Convolution"], "--op 'Convolution' matched 0 nodes"),
        (4, ["--scope", "bar"], "--scope 'bar' matched 0 nodes"),
        (2, ["--select", "["], "is not a regular expression"),
        (4, ["--exclude", "."], "the selection is empty"),
        (4, ["--between", "foo/bar/h=a"], "--between 'foo/bar/h'='a' matched 0 nodes"),
        (4, ["--node", "foo/bar"], "has no node 'foo/bar'"),
        (4, ["--forward", "a:1"], "'a:1': node 'a' (Const) has 1 output"),
        (2, ["--between", "a"], "--between 'a' is not IN,...=OUT,..."),
        (2, ["--between", "=a"], "is not IN,...=OUT,..."),
        (2, ["--between", "a="], "is not IN,...=OUT,..."),
        (2, ["--between", ",=a"], "is not IN,...=OUT,..."),
        (2, ["--frobnicate"], "--frobnicate"),
    ],
)
def test_errors(command: Select, code: int, options: list[str], words: str) -> None:
    ran = command(*options)
    assert ran.code == code and words in ran.err and ran.out == b""
    assert ran.err.startswith("Error: ") and ran.err.count("Error:") == 1


def test_a_graph_that_is_broken_can_be_looked_at(command: Select) -> None:
    """Broken nodes can be selected."""
    command.put(const("a", [1]), add("b", "a", "gone"), add("c", "b", "c"), identity("p", "q"), identity("q", "p"))
    assert command.lines("--op", "AddV2") == ["b", "c"]
    assert command.lines("--forward", "a") == ["a", "b", "c"]
    assert command.lines("--backward", "b") == ["a", "b"]


def test_a_cycle_has_no_levels(command: Select) -> None:
    """A graph with nodes without an order is not printed without these nodes."""
    command.put(const("a", [1]), identity("p", "q"), identity("q", "p"))
    ran = command("--toposort")
    assert ran.code != 0 or {"p", "q"} <= set(ran.out.decode().split())


def test_several_nodes_of_one_name(command: Select) -> None:
    command.put(const("a", [1]), const("a", [2]), identity("b", "a"))
    ran = command("--node", "a")
    assert ran.code == 3 and "several nodes named 'a'" in ran.err


@pytest.mark.parametrize("options", [(), ("--tensors",), ("--toposort",)])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_names_are_exact_for_programs_and_escaped_for_terminals(
    command: Select, monkeypatch: pytest.MonkeyPatch, is_terminal: bool, options: tuple[str, ...]
) -> None:
    command.put(placeholder(HOSTILE))
    stdout = SimpleNamespace(isatty=lambda: is_terminal)
    monkeypatch.setattr(select, "sys", SimpleNamespace(stdout=stdout))
    assert command.lines(*options) == ["s/a\\x1b[31m\\u202eb" if is_terminal else HOSTILE]


def test_a_name_of_any_length_is_cut_in_an_error(command: Select) -> None:
    assert len(command("--node", "n" * 1_000_000).err) < 1_000
