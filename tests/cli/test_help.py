"""What all commands have in common: their help."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from support.commands import (
    CASES,
    QUERIES,
    THERE,
    for_each,
)
from support.desk import Desk, Ran, check_refused, check_said

from gdsurgeon.cli.command import HEADINGS, SharedOption
from gdsurgeon.cli.main import main
from gdsurgeon.registry import COMMANDS

# -- help ----------------------------------------------------------------------------------------------------


def test_every_command_has_a_case() -> None:
    assert set(CASES) >= set(THERE)


def loaded(name: str) -> click.Command:
    with main.make_context("gdsurgeon", ["--help"], resilient_parsing=True) as context:
        command = main.get_command(context, name)
    assert command is not None
    return command


def examples(name: str) -> list[list[str]]:
    """The calls in the help of a command, without what they are piped into."""
    text = loaded(name).help or ""
    lines = [line.strip() for line in text.split("xample", 1)[-1].splitlines()]
    return [shlex.split(line.split(" | ")[0])[1:] for line in lines if line.startswith("gdsurgeon ")]


@for_each
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(desk: Desk, name: str, flag: str) -> None:
    ran = desk.run(name, flag)
    assert (ran.code, ran.err) == (0, "")
    text = ran.out.decode()
    assert text.startswith(f"Usage: gdsurgeon {name} [OPTIONS] MODEL")
    assert f"gdsurgeon {name} " in text.split("xample", 1)[1]
    assert all(len(line) <= 120 for line in text.splitlines())
    assert desk.files() == {}


@for_each
def test_help_says_what_each_option_does(name: str) -> None:
    for parameter in loaded(name).params:
        if isinstance(parameter, click.Option):
            assert parameter.help and parameter.help.endswith((".", "]", ")")), parameter.name


@for_each
def test_the_list_of_commands_tells_each(desk: Desk, name: str) -> None:
    text = desk.run("--help").out.decode()
    assert f"  {name} " in text and COMMANDS[name].help.split()[0] in text


@for_each
def test_a_command_s_own_options_come_first_and_shared_ones_under_headings(desk: Desk, name: str) -> None:
    text = desk.run(name, "--help").out.decode()
    headings = re.findall(r"^([A-Z]\w+):$", text, re.MULTILINE)
    own = [p for p in loaded(name).params if isinstance(p, click.Option) and not isinstance(p, SharedOption)]
    assert headings == [heading for heading in HEADINGS if heading in headings]
    assert ("Options" in headings) == bool(own)
    assert headings[-1] == "Messages" and "--help" in text.split("\nMessages:\n")[1]
    if name not in QUERIES:
        assert headings[-4:] == ["Output", "Proof", "Feeds", "Messages"]
        long = "" if name == "add-postprocessing" else ", --output"  # which names an output of the model there
        assert f"-o{long} OUT" in text.split("\nOutput:\n")[1].split("\nProof:\n")[0]


def test_the_list_of_commands_is_grouped(desk: Desk) -> None:
    text = desk.run("--help").out.decode()
    groups = list(dict.fromkeys(entry.group for entry in COMMANDS.values()))
    found = re.findall(r"^([A-Z][\w ]+):$", text, re.MULTILINE)
    assert found == ["Options", *groups]


def test_help_without_a_command_is_the_list(desk: Desk) -> None:
    listed = desk.run("--help")
    assert desk.run() == desk.run("help") == listed == Ran(0, listed.out, "")


@for_each
def test_help_of_a_command(desk: Desk, name: str) -> None:
    assert desk.run("help", name) == desk.run(name, "--help")


def test_help_of_what_is_no_command(desk: Desk) -> None:
    check_refused(desk, 2, ("there is no command 'renam'", "Did you mean 'rename'?"), "help", "renam")


@for_each
def test_examples_are_well_formed(desk: Desk, name: str) -> None:
    """They are usage, whatever else: the first thing that is wrong with them is that a file is not there."""
    found = examples(name)
    assert found
    for words in found:
        assert words[0] == name
        ran = desk.run(*words)
        assert ran.code == 3, (words, ran.err)
        check_said(ran, "cannot be opened: no such file")
        assert desk.files() == {}
