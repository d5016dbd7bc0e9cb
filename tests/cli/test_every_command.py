"""Checks of every command: files, report, proof, mistakes, help, meanings of options, exit codes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import click
import pytest
from support import graphs
from support.commands import (
    CASES,
    EARLIER,
    EDITING,
    FILES,
    MODEL,
    QUERIES,
    QUICK,
    THERE,
    edited,
    for_each,
    for_each_edit,
    good,
    marked,
)
from support.desk import Desk, check_error, finished
from support.paths import ROOT

from gdsurgeon import errors
from gdsurgeon.analysis.checks.check import check
from gdsurgeon.cli import main as main_module
from gdsurgeon.cli.main import main
from gdsurgeon.cli.options import HEADINGS, MEANINGS
from gdsurgeon.container import load
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.registry import COMMANDS
from gdsurgeon.wire.text import to_binary, to_text

NODES = {name: case.node for name, case in CASES.items() if case.node is not None}

# -- files ---------------------------------------------------------------------------------------------------


@for_each_edit
def test_where_the_result_goes(files: Desk, name: str) -> None:
    wanted = edited(files, name)
    assert wanted != FILES[MODEL] and check(from_bytes(wanted)).faults == []
    before = {**FILES, "out.pb": EARLIER}
    backup = {"model.pb.bak": FILES[MODEL]}
    for words, after in (
        ((), {"model.edited.pb": wanted}),
        (("-o", "out.pb"), {"out.pb": wanted}),
        (("-o", "out.pb", "-q"), {"out.pb": wanted}),
        (("-o", "out.pb", "--validate", "none"), {"out.pb": wanted}),
        (("-i",), {MODEL: wanted}),
        (("-i", "--backup", ".bak"), {MODEL: wanted, **backup}),
        *((("-n", *words), {}) for words in ((), ("-o", "out.pb"), ("-i", "--backup", ".bak"), ("-o", "-"))),
    ):
        files.restore(before)
        ran = files.run(*good(name), *QUICK, *words)
        assert (ran.code, ran.out) == (0, b""), (words, ran.err)
        assert files.files() == {**before, **after}, words
        assert files.temporary_files() == []
        assert "\x1b" not in ran.err and ("Warning: " in ran.err or not ran.err or "-q" not in words)
    files.restore(before)
    for words, data in (((*good(name), *QUICK, "-o", "-"), None), ((*good(name, "-"), *QUICK), FILES[MODEL])):
        ran = files.run(*words, data=data)
        assert (ran.code, ran.out) == (0, wanted), ran.err
        assert files.files() == before and files.temporary_files() == []


@for_each_edit
def test_a_text_graph_stays_text(files: Desk, name: str) -> None:
    wanted = graphs.parsed(edited(files, name))
    files.put("model.pbtxt", to_text(FILES[MODEL]))
    for words in (("-o", "out.pb"), ()):
        files.done(*good(name, "model.pbtxt"), *QUICK, *words)
    binary, text = ((files.folder / path).read_bytes() for path in ("out.pb", "model.edited.pbtxt"))
    assert graphs.parsed(binary) == wanted == graphs.parsed(to_binary(text, "text"))


@for_each_edit
def test_the_report_and_the_summary(files: Desk, name: str) -> None:
    wanted = edited(files, name)
    report = files.report(*good(name), *QUICK, "-o", "out.pb")
    assert (report["command"], report["model"], report["output"]) == (name, "model.pb", "out.pb")
    assert (report["bytes"], report["dry_run"], report["passed"]) == (len(wanted), False, True)
    before = len(graphs.parsed(FILES[MODEL]).node)
    assert report["nodes"] == {"before": before, "after": len(graphs.parsed(wanted).node)}
    assert report["claims"] and report["proof"]["level"] == "structure" and any(report["edit"].values())
    lines = files.run(*good(name), *QUICK, "-o", "out.pb").err.splitlines()
    assert next(line for line in lines if not line.startswith("Warning: ")).startswith("out.pb  ")


@pytest.mark.tensorflow
@for_each_edit
def test_proven(files: Desk, name: str) -> None:
    wanted = edited(files, name)
    feed = "image=[[1, 2]]" if name == "freeze-input" else "keep_prob=0.25"  # an input that the result still has
    proof = files.report(*good(name), "-o", "out.pb", "--feed", feed)["proof"]
    assert files.files()["out.pb"] == wanted
    assert proof["level"] == "run" and proof["statement"] and proof["outputs"]
    assert all(o["equal"] for o in proof["outputs"] if o["compared"])
    assert proof["compared"] or name in ("reroute", "set-attr", "strip-weights")
    assert files.temporary_files() == []


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["extract", "freeze-input", "insert"])
def test_proven_in_a_pipe(files: Desk, name: str) -> None:
    wanted = edited(files, name)
    ran = files.run(*good(name, "-"), data=FILES[MODEL])
    assert (ran.code, ran.out) == (0, wanted), ran.err
    assert files.files() == FILES


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "validate"])
def test_queries_print_and_write_nothing(files: Desk, name: str) -> None:
    ran = files.done(*good(name))
    assert ran.out and not ran.err
    assert files.answer(*good(name)) is not None
    assert files.run(*good(name, "-"), data=FILES[MODEL]).code == 0
    assert files.files() == FILES


# -- mistakes ------------------------------------------------------------------------------------------------

LACKING = ("missing-argument", "missing-option", "nothing-selected", "no-edit", "bad-rule")


@for_each
def test_arguments_that_are_missing_or_unknown(files: Desk, name: str) -> None:
    out = () if name in QUERIES else ("-o", "out.pb")
    files.refused(2, "missing-argument", name)
    for arguments in CASES[name].poor:
        ran = files.run(name, *arguments, *out)
        assert ran.code == 2 and ran.error is not None and ran.error.code in LACKING, ran
    ran = files.refused(2, "bad-option", *good(name), "--nonsense", option="--nonsense")
    assert ran.error is not None and ran.error.hint == f"gdsurgeon {name} --help"
    if name not in ("rename", "reroute", "set-shape", "validate", "diff", *NODES):
        files.refused(2, "usage", *good(name), "surplus")
    assert files.files() == FILES


@for_each
def test_models_that_cannot_be_read(files: Desk, name: str) -> None:
    """A file that does not exist, a folder, no bytes at all."""
    quick = () if name in QUERIES else (*QUICK, "-o", "out.pb")
    for gone in ("gone.pb", "./nowhere/gone.pb"):
        files.refused(3, "unreadable", *good(name, gone), *quick, file=gone)
    (files.folder / "folder").mkdir()
    ran = files.run(*good(name, "folder"), *quick)
    assert (ran.code, ran.out) == (3, b"") and ran.error is not None
    files.refused(3, "wrong-format", *good(name, "-"), *quick, data=b"")
    for second in [word for word in CASES[name].good if word.endswith((".pb", ".gds")) and word != MODEL]:
        words = ["gone.pb" if word == second else word for word in CASES[name].good]
        files.refused(3, "unreadable", name, *words, *quick, file="gone.pb")


@pytest.mark.parametrize("name", marked([name for name in THERE if CASES[name].unknown is not None]))
def test_unknown_names_with_a_near_miss(files: Desk, name: str) -> None:
    """The folder stays as it is, also where a report was asked for, which tells the error."""
    unknown, exit_code = CASES[name].unknown, CASES[name].exit_code
    assert unknown is not None
    arguments, near = unknown
    ran = files.run(name, *arguments, *(() if name in QUERIES else (*QUICK, "-o", "new.pb")))
    assert ran.code == exit_code and ran.error is not None
    assert near in (ran.error.facts.get("near"), *ran.error.facts.get("releases", ())), ran.error.facts
    assert files.files() == FILES
    if name in QUERIES:
        return
    before = {**FILES, "out.pb": EARLIER, "report.json": EARLIER}
    for level in ("none", "structure"):
        for more in (("-o", "out.pb"), ("-i", "--backup", ".bak"), ("-o", "-"), ("-n",)):
            files.restore(before)
            ran = files.run(name, *arguments, "--validate", level, "--report", "report.json", *more)
            assert (ran.code, ran.out, files.temporary_files()) == (exit_code, b"", [])
            after = files.files()
            report = after.pop("report.json")
            assert after == {**FILES, "out.pb": EARLIER}
            if exit_code == 2:
                assert report == EARLIER
                continue
            found = json.loads(report)
            assert (found["command"], found["passed"], found["output"]) == (name, False, None)
            assert ran.error is not None
            error = {"code": ran.error.code, "exit": exit_code, "facts": ran.error.facts}
            assert {key: found["error"][key] for key in error} == json.loads(json.dumps(error))
            assert f"Error: {found['error']['message']}\n" in ran.err
            assert (f"Hint: {found['error']['hint']}\n" in ran.err) == (found["error"]["hint"] is not None)


@for_each_edit
def test_options_that_contradict_each_other(files: Desk, name: str) -> None:
    call = (*good(name), *QUICK)
    for code, words, facts in (
        ("bad-option", ("--outptu", "x"), {"near": "--output"}),
        ("conflicting-options", ("-i", "-o", "out.pb"), {"option": "in_place"}),
        ("missing-option", ("--backup", ".bak"), {"option": "in_place"}),
        ("bad-value", ("-i", "--backup", ""), {"option": "backup"}),
        ("bad-value", ("--validate", "somewhat"), {"option": "--validate"}),
        ("bad-value", ("--timeout", "0"), {"option": "--timeout"}),
        ("would-replace", ("-o", "model.pb"), {"file": "model.pb"}),
        ("would-replace", ("-o", "./model.pb"), {"file": "./model.pb"}),
        ("would-replace", ("-o", "out.pb", "--report", "out.pb"), {"option": "report"}),
        ("would-replace", ("-o", "out.pb", "--report", "model.pb"), {"option": "report"}),
        *(("would-replace", words, {"other": second})
          for second in CASES[name].good if second.endswith(".pb") and second != MODEL
          for words in (("-o", second), ("-o", "out.pb", "--report", second))),
    ):  # fmt: skip
        files.refused(2, code, *call, *words, **facts)
    files.put("model.edited.pb", EARLIER)
    files.refused(2, "file-exists", *call, file="model.edited.pb")


@pytest.mark.tensorflow
@for_each_edit
def test_what_the_proof_refuses_leaves_nothing_behind(files: Desk, name: str) -> None:
    """Options that only the proof reads are wrong."""
    files.put("out.pb", EARLIER)
    files.refused(2, "no-such-input", *good(name), "-o", "out.pb", "--feed", "nonsense=1", node="nonsense")


@pytest.mark.parametrize("name", ["add-postprocessing", "add-preprocessing", "import", "insert"])
def test_a_report_does_not_replace_a_second_graph_that_is_broken(files: Desk, name: str) -> None:
    files.put("broken.pb", b"no graph")
    words = ["broken.pb" if word.endswith(".pb") and word != MODEL else word for word in CASES[name].good]
    ran = files.refused(3, "wrong-format", name, *words, "-o", "out.pb", "--report", "broken.pb", *QUICK)
    assert ran.err.startswith("Warning: --report broken.pb ")


@pytest.mark.parametrize("name", QUERIES)
def test_an_error_is_the_answer_where_json_is_asked_for(files: Desk, name: str) -> None:
    ran = files.run(*good(name, "gone.pb"), "--json")
    error = json.loads(ran.out)["error"]
    assert (ran.code, error["exit"], error["code"], error["facts"]["file"]) == (3, 3, "unreadable", "gone.pb")
    assert f"Error: {error['message']}" in ran.err
    assert set(error) == {"code", "message", "details", "hint", "facts", "exit"}


# -- nodes ---------------------------------------------------------------------------------------------------


def test_every_command_with_a_selection_is_known() -> None:
    selecting = {name for name in COMMANDS if any("--select" in option.opts for option in loaded(name).params)}
    assert selecting == set(NODES)


@pytest.mark.parametrize("name", NODES)
def test_nodes_are_named_by_position_and_by_selection(files: Desk, name: str) -> None:
    node, others, same = NODES[name]
    ways = [(*others, node), (*others, "--node", node), (*others, "--select", f"^{node}$")]
    if same is not None:
        ways.append((*others[:-1], same) if name == "control-edges" else (same,))
    results = set()
    for words in ways:
        ran = files.done(name, MODEL, *words, *(() if name in QUERIES else (*QUICK, "-o", "out.pb")))
        results.add(files.files().get("out.pb", ran.out))
    assert len(results) == 1


# -- help ----------------------------------------------------------------------------------------------------


def test_every_command_has_a_case() -> None:
    assert set(CASES) >= set(THERE) and set(EDITING) < set(THERE)


def loaded(name: str) -> click.Command:
    with main.make_context("gdsurgeon", ["--help"], resilient_parsing=True) as context:
        command = main.get_command(context, name)
    assert command is not None
    return command


@for_each
def test_help(desk: Desk, name: str) -> None:
    """--help shows the command's own options and names the common ones, --help-all shows all under headings."""
    ran = desk.run(name, "--help")
    assert ran[:3] == desk.run(name, "-h")[:3] == desk.run("help", name)[:3] == (0, ran.out, "")
    text, whole = ran.out.decode(), desk.run(name, "--help-all").out.decode()
    assert text.splitlines()[-1].startswith("Common options (--help-all): -")
    for shown in (text, whole):
        assert shown.startswith(f"Usage: gdsurgeon {name} [OPTIONS] MODEL")
        assert all(len(line) <= 120 for line in shown.splitlines())
    options = [parameter for parameter in loaded(name).params if isinstance(parameter, click.Option)]
    assert all(option.help and option.help.endswith((".", "]", ")")) for option in options)
    own = [option for option in options if getattr(option, "heading", None) == HEADINGS[0]]
    assert all(f" {option.opts[-1]} " in f"{text.split('Common options')[0]} " for option in own)
    assert all(f" {option.opts[0]}" in whole for option in options)
    headings = re.findall(r"^([A-Z]\w+):$", whole, re.MULTILINE)
    assert headings == [heading for heading in HEADINGS if heading in headings]
    assert ("Options" in headings) == bool(own)
    assert headings[-1] == "Messages" and "--help" in whole.split("\nMessages:\n")[1]
    if name not in QUERIES:
        assert headings[-4:] == ["Output", "Proof", "Feeds", "Messages"]
        assert "-o, --output OUT" in whole.split("\nOutput:\n")[1].split("\nProof:\n")[0]
    assert desk.files() == {}


def test_help_of_the_common_options_and_its_length(desk: Desk) -> None:
    assert all(len(desk.run(name, "--help").out.splitlines()) <= 60 for name in COMMANDS)
    text = desk.run("help", "options").out.decode()
    assert re.findall(r"^([A-Z]\w+):$", text, re.MULTILINE) == ["Model", "Output", "Proof", "Feeds", "Messages"]
    assert all(
        f"{name} " in text for name in ("--tags", "-o, --output", "--json", "--validate", "--feed", "-q, --quiet")
    )


WITHOUT = ("freeze --as-v1", "freeze --no-v2-check", "slim --as-v1", "to-savedmodel --as-v1",
           "to-savedmodel --checkpoint", "select --checkpoint", "view --checkpoint")  # fmt: skip


@pytest.mark.parametrize("call", WITHOUT)
def test_an_option_without_an_effect_is_not_there(desk: Desk, call: str) -> None:
    name, option = call.split()
    assert option not in desk.run(name, "--help-all").out.decode()
    desk.refused(2, "bad-option", name, "model.pb", option, option=option)


@for_each
def test_examples_are_well_formed(desk: Desk, name: str) -> None:
    """The first thing that is wrong with an example is that its file is not there."""
    lines = [line.strip() for line in (loaded(name).help or "").split("xample", 1)[-1].splitlines()]
    found = [shlex.split(line.split(" | ")[0])[1:] for line in lines if line.startswith("gdsurgeon ")]
    assert found and all(words[0] == name for words in found)
    for words in found:
        ran = desk.run(*words)
        assert ran.code == 3, (words, ran.err)
        check_error(ran.error, "unreadable", {})
    assert desk.files() == {}


def test_the_list_of_commands_is_grouped(desk: Desk) -> None:
    listed = desk.run("--help")
    assert desk.run()[:3] == desk.run("help")[:3] == listed[:3] == (0, listed.out, "")
    text = listed.out.decode()
    groups = list(dict.fromkeys(entry.group for entry in COMMANDS.values()))
    assert re.findall(r"^([A-Z][\w ]+):$", text, re.MULTILINE) == ["Options", *groups]
    for name, entry in COMMANDS.items():
        assert f"  {name} " in text and entry.help.split()[0] in text


def options() -> Iterator[tuple[str, click.Option]]:
    """Each option of each command, with its command."""
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        yield from ((name, each) for each in command.params if isinstance(each, click.Option))


@pytest.mark.parametrize("long_name", [*MEANINGS])
def test_an_option_has_one_meaning(long_name: str) -> None:
    meaning = MEANINGS[long_name]
    found = {name: each for name, each in options() if long_name in each.opts}
    assert found, "no command has this option"
    for name, each in found.items():
        assert each.is_flag == (meaning.type is None), name
        if not each.is_flag:
            assert (each.metavar or "", each.multiple) == (meaning.metavar, meaning.multiple), name
            choices = each.type.choices if isinstance(each.type, click.Choice) else ()
            assert set(choices) <= set(meaning.choices) and bool(choices) == bool(meaning.choices), name
            assert choices or repr(each.type) == repr(meaning.type), name
        assert each.help and "\n" not in each.help and len(each.help) <= 78 + len("  [default: none]"), (
            name,
            each.help,
        )
    short = {opt for each in found.values() for opt in each.opts if not opt.startswith("--")}
    assert len(short) <= 1, short


def test_every_option_has_a_meaning() -> None:
    unknown = [(name, opt) for name, each in options() for opt in each.opts if opt[:2] == "--" and opt not in MEANINGS]
    assert not unknown
    assert all(meaning.text.endswith((".", "]", ")")) for meaning in MEANINGS.values())


FAULT = "Error: internal error (RuntimeError: no\\nway)\n"
RAISES = "def raising(*_): raise RuntimeError('no\\nway')\n"


def test_each_kind_of_error_has_its_code() -> None:
    kinds = [errors.GdsurgeonError, *errors.GdsurgeonError.__subclasses__()]
    assert {kind.__name__: kind.exit_code for kind in kinds if kind.__module__ == errors.__name__} == {
        "GdsurgeonError": 70, "UsageError": 2, "InputError": 3, "EditError": 4, "ValidationError": 5, "OutputError": 6,
        "NotValidatedError": 7,
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [("inspect", "m.pb"), ("inspect", "m.pb", "--json"), ("select", "m.pb")])
def test_an_exception_is_a_fault_of_ours(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def raising(*_: object) -> None:
        raise RuntimeError("no\nway")

    monkeypatch.setattr(load, "open_model", raising)
    ran = desk.run(*arguments)
    assert (ran.code, ran.out) == (70, b"")
    assert ran.err == FAULT + "Hint: please report it with the output of --debug\n"


@pytest.mark.parametrize("place", ["main.forget", "main.exit_code", "main.terminal.error"])
def test_what_cleans_up_or_tells_of_errors_may_fail_too(desk: Desk, place: str) -> None:
    source = f"from gdsurgeon.cli import main\n{RAISES}{place} = raising\nmain.run()"
    ran = finished(desk.start_python("-c", source, "inspect"))
    assert ran.code == 70
    assert FAULT in ran.err and "Traceback" not in ran.err
    assert main_module.INTERNAL_FAULT == 70


def test_an_installation_that_is_not_whole(desk: Desk) -> None:
    desk.put("click.py", RAISES.encode() + b"raising()\n")
    path = f"{desk.folder}:{ROOT}"
    ran = finished(desk.start_python("-m", "gdsurgeon", "--help", env=desk.environment(PYTHONPATH=path)))
    assert (ran.code, ran.err) == (70, FAULT)


@pytest.mark.parametrize(("asked", "code"), [("bash_complete", 70), ("tcsh_complete", 2), ("bash_source", 0)])
def test_a_shell_that_cannot_be_answered(desk: Desk, asked: str, code: int) -> None:
    environment = desk.environment(_GDSURGEON_COMPLETE=asked)  # without the line to complete
    assert finished(desk.start_python("-m", "gdsurgeon", env=environment)).code == code
