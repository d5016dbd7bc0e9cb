"""gdsurgeon checkpoint, as it is used."""

from __future__ import annotations

import errno
import json
import os
import signal
import struct
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from support.bundles import SMALL, Drawn, files_of, values
from support.desk import Desk, Ran, check_said, finished
from support.failing import killed
from support.system import faults

from gdsurgeon.cli.main import main
from gdsurgeon.container.checkpoint.bundle import Bundle
from gdsurgeon.container.checkpoint.edit import Compared, Edited
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.stored import OBJECT_GRAPH
from gdsurgeon.operation import checkpoint as operation
from gdsurgeon.wire.protos import TrackableObjectGraph

HELD = {drawn.key: drawn.data for drawn in SMALL}
INDEX = "m.index"
WHOLE = "exists already, and a checkpoint is not replaced file by file"
SHARDS = ("m.data-00000-of-00002", "m.data-00001-of-00002")


def put(desk: Desk, tensors: list[Drawn], prefix: str = "m") -> Desk:
    for name, data in files_of(tensors, prefix).items():
        desk.put(name, data)
    return desk


@pytest.fixture
def small(desk: Desk) -> Desk:
    return put(desk, SMALL)


def held(prefix: str) -> dict[str, bytes | list[bytes]]:
    with open_checkpoint(prefix) as checkpoint:
        assert checkpoint.verify().faults == ()
        return values(checkpoint)


def done(desk: Desk, *arguments: str) -> Ran:
    ran = desk.done("checkpoint", *arguments)
    assert desk.temporary_files() == []
    return ran


def refused(desk: Desk, code: int, said: str, *arguments: str) -> Ran:
    """Checks that ARGUMENTS are refused with CODE and the message SAID, and that no file changes."""
    before = desk.files()
    ran = desk.run("checkpoint", *arguments)
    assert (ran.code, ran.errors) == (code, [f"Error: {said}"]), ran.err
    assert desk.files() == before and desk.temporary_files() == []
    return ran


def test_listed(small: Desk) -> None:
    ran = done(small, "m")
    assert ran.err == ""
    assert ran.out.decode().splitlines() == [
        "bias    float32 [3]",
        "kernel  float32 [4,3]  2 slices",
        "names   string [2]",
        "step    int64 []",
    ]
    assert done(small, INDEX, "--list") == ran
    found = json.loads(done(small, "m", "--json").out)
    assert (found["prefix"], found["form"]) == ("m", "V2")
    assert found["tensors"][1] == {"key": "kernel", "dtype": "float32", "shape": [4, 3], "slices": ["0,2:-", "2,2:-"]}


def test_nothing_is_read_of_shards_to_list_them(small: Desk) -> None:
    for shard in SHARDS:
        (small.folder / shard).unlink()
    assert len(done(small, "m").out.splitlines()) == 4


def test_verified(small: Desk) -> None:
    assert done(small, "m", "--verify").out == b"m  4 tensors, 80 bytes: all checksums are correct\n"
    assert json.loads(done(small, "m", "--verify", "--json").out)["passed"] is True
    data = (small.folder / SHARDS[1]).read_bytes()
    small.put(SHARDS[1], data[:3] + b"!" + data[4:])
    ran = small.run("checkpoint", "m", "--verify")
    assert (ran.code, ran.errors) == (3, ["Error: m is corrupt: 1 fault"])
    assert f"  'kernel' ({SHARDS[1]}, offsets 0 to 24): its checksum is wrong" in ran.err
    ran = small.run("checkpoint", "m", "--verify", "--json")
    assert ran.code == 3 and len(json.loads(ran.out)["faults"]) == 1


def test_renamed_without_a_byte_of_the_shards(small: Desk) -> None:
    ran = done(small, "m", "--rename", "bias=kernel", "--rename", "kernel=bias", "--regex", "^st(.*)=St\\1", "-o", "n")
    new = {"bias": "kernel", "kernel": "bias", "names": "names", "step": "Step"}
    assert held("n") == {new[key]: data for key, data in HELD.items()}
    for n, shard in enumerate(SHARDS):
        assert os.path.samefile(shard, f"n.data-0000{n}-of-00002")
    assert "  proven   tensors identical: 4 tensors, 80 bytes in the unchanged files" in ran.err
    assert ran.err.startswith("n  4 tensors, 2 shards, ") and "step  ->  Step\n" in ran.err
    assert held("m") == HELD


def test_renamed_back_the_index_is_the_same(small: Desk) -> None:
    done(small, "m", "--regex", "^=a/b/", "-o", "n")
    assert sorted(held("n")) == [f"a/b/{key}" for key in sorted(HELD)]
    done(small, "n", "--rename-scope", "a/b=", "-o", "o")
    assert Path("o.index").read_bytes() == Path(INDEX).read_bytes()


def test_a_scope_and_the_tensor_that_is_called_exactly_so(small: Desk) -> None:
    done(small, "m", "--rename", "bias=kernel/b", "-o", "n")
    done(small, "n", "--rename-scope", "kernel/=net/w/", "-o", "o")
    assert sorted(held("o")) == ["names", "net/w", "net/w/b", "step"]


def test_pairs_from_a_file(small: Desk) -> None:
    small.put("pairs.txt", b"# mine\nbias=b\n\nstep=s\n")
    done(small, "m", "--map-file", "pairs.txt", "-o", "n")
    assert sorted(held("n")) == ["b", "kernel", "names", "s"]


def test_without_an_output_it_has_its_own_name(small: Desk) -> None:
    done(small, "m", "--rename", "bias=b")
    assert sorted(held("m.edited")) == ["b", "kernel", "names", "step"]
    refused(small, 6, f"m.edited cannot be written: m.edited.data-00000-of-00002 {WHOLE}", "m", "--rename", "bias=c")
    small.put("n.data-00000-of-00007", b"")
    small.put("n.data-x", b"")
    said = f"n cannot be written: n.data-00000-of-00007 {WHOLE}"
    refused(small, 6, said, "m", "--drop", "step", "-o", "n")


def test_dropped_and_set_in_one_shard(small: Desk) -> None:
    np.save("bias.npy", np.array([1, 2, 3], np.float32))
    np.save("names.npy", np.array([b"", b"gnu"]))
    words = "--drop ^step$ --set bias=@bias.npy --set names=@names.npy --rename bias=b -o n".split()
    ran = done(small, "m", *words)
    assert held("n") == {"b": struct.pack("<3f", 1, 2, 3), "kernel": HELD["kernel"], "names": [b"", b"gnu"]}
    assert sorted(small.folder.glob("n.*")) == [small.folder / "n.data-00000-of-00001", small.folder / "n.index"]
    assert "  dropped  1 tensor: step" in ran.err and "  set      b, names" in ran.err
    assert "  proven   tensors identical: 3 tensors, 69 bytes read back" in ran.err


def test_everything_dropped(small: Desk) -> None:
    done(small, "m", "--drop", ".", "-o", "n")
    assert held("n") == {}
    done(small, "m", "-i", "--drop", ".")
    assert held("m") == {}


def test_in_place_the_index_alone_is_exchanged(small: Desk) -> None:
    before = small.files()
    done(small, "m", "-i", "--backup", ".bak", "--rename", "bias=b", "--drop", "step")
    assert held("m") == {"b": HELD["bias"], "kernel": HELD["kernel"], "names": HELD["names"]}
    after = small.files()
    assert {name: after[name] for name in SHARDS} == {name: before[name] for name in SHARDS}
    assert after["m.index.bak"] == before[INDEX] and set(after) == {*before, "m.index.bak"}
    assert b"8 bytes belong to no tensor" in done(small, "m", "--verify").out


def test_values_set_in_place_are_in_one_more_shard(small: Desk) -> None:
    np.save("step.npy", np.array(7, np.int64))
    done(small, "m", "-i", "--set", "step=@step.npy")
    assert held("m") == {**HELD, "step": struct.pack("<q", 7)}
    shards = sorted(path.name for path in small.folder.glob("m.data*"))
    assert shards == [f"m.data-0000{n}-of-00003" for n in range(3)]
    np.save("step.npy", np.array(8, np.int64))
    for count in (4, 3, 4):
        done(small, "m", "-i", "--set", "step=@step.npy")
        assert held("m") == {**HELD, "step": struct.pack("<q", 8)}
        assert len(list(small.folder.glob("m.data*"))) == count


def test_names_that_a_backup_needs_are_not_taken(small: Desk) -> None:
    for value in (7, 8, 9):
        np.save("step.npy", np.array(value, np.int64))
        done(small, "m", "-i", "--backup", f".{value}", "--set", "step=@step.npy")
    for value, before in ((9, 8), (8, 7)):
        assert held("m") == {**HELD, "step": struct.pack("<q", value)}
        os.replace(f"m.index.{value}", INDEX)
        assert held("m")["step"] == struct.pack("<q", before)
    os.replace("m.index.7", INDEX)
    assert held("m") == HELD


def test_a_dry_run_writes_nothing(small: Desk) -> None:
    np.save("step.npy", np.array(7, np.int64))
    before = small.files()
    for more in ((), ("-i",), ("-o", "n")):
        ran = done(small, "m", "-n", "--rename", "bias=b", "--set", "step=@step.npy", *more)
        assert "(dry run: nothing written)" in ran.err and "tensors identical" in ran.err
    assert small.files() == before


def test_nothing_to_do_is_passed_on(small: Desk) -> None:
    ran = done(small, "m", "--rename", "bias=bias", "-o", "n")
    said = "nothing would change: each tensor already has its new key"
    assert f"Note: {said}; the output is the unchanged checkpoint" in ran.err
    assert held("n") == HELD and Path("n.index").read_bytes() == Path(INDEX).read_bytes()
    ran = done(small, "m", "--drop", "Adam", "-o", "o")
    assert "Note: nothing would change: pattern 'Adam' matched none of 4 keys" in ran.err
    refused(small, 4, said, "m", "--rename", "bias=bias", "--require-change")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--rename", "bia=b"), 4, "m has no tensor 'bia' (4 tensors). Did you mean 'bias'?"),
        (("--rename", "bias=kernel"), 4, "two tensors would have the key 'kernel'"),
        (("--rename", "bias="), 4, "'' cannot be the key of a tensor: a key is UTF-8 text and not empty"),
        (("--rename", "bias=b", "--regex", "^bias$=c"), 4,
         "'bias' cannot be renamed to both 'b' (bias=b) and 'c' (pattern '^bias$')"),
        (("--regex", "layer=l"), 4, "pattern 'layer' matched none of 4 keys"),
        (("--rename-scope", "layer=l"), 4, "scope 'layer' matched none of 4 keys"),
        (("--rename-scope", "/=l"), 2, "the name of the scope to rename is empty"),
        (("--regex", "(=l"), 2,
         "'(' with the replacement 'l' is not a valid substitution: missing ), unterminated subpattern at position 0"),
        (("--drop", "("), 2, "'(' is not a regular expression: missing ), unterminated subpattern at position 0"),
        (("--drop", "bias", "--drop", "Adam"), 4, "pattern 'Adam' matched none of 4 keys"),
        (("--rename", "bias"), 2, "--rename 'bias' is not a pair OLD=NEW"),
        (("--set", "bias=1"), 2, "--set 'bias=1' is not a pair KEY=@FILE.npy"),
        (("--set", "bias=@none.npy"), 2, "the value none.npy for 'bias' cannot be read: no such file or directory"),
        (("--set", "bis=@none.npy"), 4, "m has no tensor 'bis' (4 tensors). Did you mean 'bias'?"),
        (("--set", "step=@five.npy"), 4, "'step' is int64 [], but its new value is float32 [5]"),
        (("--drop", "bias", "--set", "bias=@three.npy"), 4, "'bias' is both dropped and given a new value"),
        (("--list", "--verify"), 2, "give only one of --list, --verify and edits"),
        (("--verify", "--drop", "bias"), 2, "give only one of --list, --verify and edits"),
        (("-o", "n"), 2, "nothing to write: give --rename, --rename-scope, --regex, --map-file, --drop or --set"),
        (("--drop", "bias", "-o", "m"), 2, "m is the input checkpoint itself"),
        (("--drop", "bias", "-o", "m.index"), 2, "m is the input checkpoint itself"),
        (("--drop", "bias", "-o", "-"), 2, "a checkpoint has several files and cannot be written to standard output"),
        (("--drop", "bias", "-i", "-o", "n"), 2, "-i and -o exclude each other: give only one"),
        (("--drop", "bias", "--backup", ".b"), 2, "--backup keeps the file that -i replaces; it needs -i"),
    ],
)  # fmt: skip
def test_what_is_refused(small: Desk, arguments: tuple[str, ...], code: int, said: str) -> None:
    np.save("five.npy", np.zeros(5, np.float32))
    np.save("three.npy", np.zeros(3, np.float32))
    refused(small, code, said, "m", *arguments)


def test_a_missing_shard_keeps_an_edit_from_being_made(small: Desk) -> None:
    (small.folder / SHARDS[0]).unlink()
    said = f"{SHARDS[0]} cannot be opened: no such file or directory"
    for arguments in (("--drop", "step"), ("--rename", "step=s"), ("-i", "--rename", "step=s")):
        refused(small, 3, said, "m", *arguments)


@pytest.mark.parametrize("name", [INDEX, *SHARDS])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_checkpoint_that_changes_meanwhile(
    small: Desk, monkeypatch: pytest.MonkeyPatch, name: str, replaced: bool
) -> None:
    """As one does that is being trained."""
    real = operation.check_identical

    def meanwhile(written: Bundle, edited: Edited) -> Compared:
        data = (small.folder / name).read_bytes()
        if replaced:
            (small.folder / name).unlink()
        small.put(name, data + b"!")
        return real(written, edited)

    monkeypatch.setattr(operation, "check_identical", meanwhile)
    before = sorted(small.files())
    ran = small.run("checkpoint", "m", "--drop", "step", "-o", "n")
    said = f"{name} was replaced while it was being read" if replaced else f"{name} changed while it was being read"
    assert (ran.code, ran.errors) == (3, [f"Error: {said}"])
    assert sorted(small.files()) == before and small.temporary_files() == []


def test_as_json(small: Desk) -> None:
    ran = done(small, "m", "--rename", "step=s", "-o", "n", "--json", "-q")
    found = json.loads(ran.out)
    assert found["renamed"] == {"step": "s"} and found["output"] == "n" and ran.err == ""


GRAPH = TrackableObjectGraph


def with_objects() -> list[Drawn]:
    graph = GRAPH()
    for key in ("bias", "kernel"):
        graph.nodes.add().attributes.add(name="VARIABLE_VALUE", full_name=f"net/{key}", checkpoint_key=key)
    graph.nodes.add().slot_variables.add(slot_variable_node_id=1)
    data = [graph.SerializeToString()]
    return sorted([*SMALL, Drawn(OBJECT_GRAPH, SMALL[2].dtype, (), data, ((None, 1),))])


def keys_of_objects(prefix: str) -> list[list[tuple[str, str]]]:
    with open_checkpoint(prefix) as checkpoint:
        graph = GRAPH.FromString(checkpoint.tensor(OBJECT_GRAPH).strings()[0])
    return [[(a.full_name, a.checkpoint_key) for a in node.attributes] for node in graph.nodes]


def test_the_object_graph_follows(desk: Desk) -> None:
    put(desk, with_objects())
    ran = done(desk, "m", "--regex", "^=x/", "-o", "n")
    assert keys_of_objects("n") == [[("net/bias", "x/bias")], [("net/kernel", "x/kernel")], []]
    assert "  changed  the object graph: " in ran.err
    done(desk, "m", "--drop", "kernel", "-o", "o")
    assert keys_of_objects("o") == [[("net/bias", "bias")], [], []]
    done(desk, "m", "-i", "--rename", "bias=b")
    assert keys_of_objects("m") == [[("net/bias", "b")], [("net/kernel", "kernel")], []]
    with open_checkpoint("m") as checkpoint:
        assert isinstance(checkpoint, Bundle) and checkpoint.header.num_shards == 3
    said = f"'{OBJECT_GRAPH}' is the key of TensorFlow's object graph and cannot be renamed"
    refused(desk, 4, said, "m", "--rename", f"{OBJECT_GRAPH}=x")
    assert "the object graph" not in done(desk, "m", "--rename", "step=s", "-o", "p").err


def test_objects_know_their_values_by_the_end_of_a_key(desk: Desk) -> None:
    graph = GRAPH()
    key = "w/.ATTRIBUTES/VARIABLE_VALUE"
    graph.nodes.add().attributes.add(name="VARIABLE_VALUE", full_name="w", checkpoint_key=key)
    data = [graph.SerializeToString()]
    put(desk, [Drawn(OBJECT_GRAPH, SMALL[2].dtype, (), data, ((None, 0),)), SMALL[0]._replace(key=key)])
    end = "objects find their values by the end of the key, '/.ATTRIBUTES/VARIABLE_VALUE'"
    for new in ("w", "w/.ATTRIBUTES/VALUE", f"{key}_"):
        refused(desk, 4, f"'{key}' cannot be renamed to '{new}': {end}", "m", "--rename", f"{key}={new}")
    done(desk, "m", "--rename", f"{key}=net/{key}", "-o", "n")
    assert keys_of_objects("n") == [[("w", f"net/{key}")]]


def test_a_saved_model_beside_it_is_warned_of(small: Desk) -> None:
    (small.folder / "variables").mkdir()
    for name, data in files_of(SMALL, "variables").items():
        small.put(f"variables/{name}", data)
    small.put("saved_model.pb", b"")
    ran = done(small, "variables/variables", "-i", "--rename", "step=s")
    assert "saved_model.pb still restores its variables from the old keys" in ran.err


def test_completed(small: Desk) -> None:
    shell = ShellComplete(main, {}, "gdsurgeon", "_GDSURGEON_COMPLETE")

    def found(*words: str) -> list[str]:
        return [item.value for item in shell.get_completions(["checkpoint", "m", *words[:-1]], words[-1])]

    assert found("--rename", "") == ["bias=", "kernel=", "names=", "step="]
    assert found("--set", "k") == ["kernel="]


@pytest.mark.parametrize(
    "arguments", [("--list",), ("--verify",), ("--regex", "kernel=w"), ("--drop", "step", "-o", "n")]
)
def test_neither_tensorflow_nor_numpy_is_imported(small: Desk, arguments: tuple[str, ...]) -> None:
    source = (
        "import sys\nfrom gdsurgeon.cli.main import exit_code\n"
        "assert exit_code(sys.argv[1:]) == 0\nassert not {'tensorflow', 'numpy'} & {*sys.modules}"
    )
    ran = finished(small.start_python("-c", source, "checkpoint", "m", *arguments))
    assert ran.code == 0, ran.err


KILLS = int(os.environ.get("GDSURGEON_KILLS", "4"))
FAULTS = [
    ("write", errno.ENOSPC), ("copy_file_range", errno.EIO), ("fsync", errno.EIO), ("open", errno.EACCES),
    ("replace", errno.EACCES), ("link", errno.EPERM), ("pread", errno.EIO),
]  # fmt: skip
EDITS = {
    "linked": ("--rename", "step=s", "-o", "n"),
    "written": ("--drop", "^step$", "-o", "n"),
    "index": ("-i", "--backup", ".bak", "--rename", "step=s"),
    "one-more-shard": ("-i", "--set", "step=@step.npy"),
}
BEFORE = {**files_of(SMALL, "m"), "m.index.bak": b"an earlier backup"}


def laid_out(desk: Desk) -> dict[str, bytes]:
    desk.restore(BEFORE)
    np.save("step.npy", np.array(7, np.int64))
    return {**BEFORE, "step.npy": (desk.folder / "step.npy").read_bytes()}


def check_done(edit: str) -> None:
    """That the result of an edit is there, whole."""
    with open_checkpoint("n" if "-o" in EDITS[edit] else "m") as checkpoint:
        held = values(checkpoint)
    assert len(held) == (3 if edit == "written" else 4)
    assert ("s" in held) == (edit in ("linked", "index"))


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize(("call", "code"), FAULTS, ids=[call for call, _ in FAULTS])
def test_all_or_nothing_whichever_call_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, call: str, code: int, for_ever: bool, edit: str
) -> None:
    for fault in faults(monkeypatch, call, code, for_ever):
        before = laid_out(desk)
        with fault:
            ran = desk.run("checkpoint", "m", *EDITS[edit])
        assert desk.temporary_files() == [], f"call {fault.at}"
        if ran.code:
            assert ran.code in (2, 3, 6) and fault.struck, ran
            check_said(ran)
            assert os.strerror(code).lower() in ran.err.lower()
            assert desk.files() == before, f"call {fault.at}"
        else:
            check_done(edit)


@pytest.mark.parametrize("edit", EDITS)
def test_killed_at_any_instant(desk: Desk, edit: str) -> None:
    """The checkpoint is the earlier one or the new one, and can be read; other files have temporary names."""
    before = laid_out(desk)
    for ran, after in killed(desk, ("checkpoint", "m", *EDITS[edit]), KILLS, lambda: laid_out(desk), 0.5, 1.1):
        with open_checkpoint("m") as checkpoint:
            assert len(values(checkpoint)) == 4
        if ran.code == 0 or "n.index" in after:
            check_done(edit)
        elif ran.code != -signal.SIGKILL:
            assert after == before, ran
            assert desk.temporary_files() == []
