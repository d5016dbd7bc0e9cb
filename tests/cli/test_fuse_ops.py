"""The command fuse-ops: what it proves, says and writes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.fusing import GRADS, chain, fused, tanh, tanh_grad2
from support.graphs import FLOAT, INT32, STRING, X, add, const, graph, identity, neg, node, placeholder, unary
from support.running import run

from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.fields import encode_len


class Command:
    """`gdsurgeon fuse-ops model.pb`, with what it says and writes."""

    def __init__(self, folder: Path, read: Callable[[], Any]) -> None:
        self.folder, self._read = folder, read

    def put(self, name: str, what: Graph) -> str:
        (self.folder / name).write_bytes(graphs.written(what))
        return str(self.folder / name)

    def __call__(self, *options: str) -> tuple[int, str, dict[str, Any]]:
        """The exit code, standard error, and the report."""
        terminal.__init__()  # type: ignore[misc]
        self._read()
        before = (self.folder / "model.pb").read_bytes()
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        code = exit_code(["fuse-ops", str(self.folder / "model.pb"), "-o", str(self.folder / "out.pb"), "--report",
                          str(report), *options])  # fmt: skip
        said = self._read().err
        assert "Traceback" not in said and "internal fault" not in said
        assert (self.folder / "model.pb").read_bytes() == before
        assert (self.folder / "out.pb").exists() == (code == 0), said
        if report.exists():  # of what differs, too
            assert json.loads(report.read_text())["passed"] == (code == 0)
        assert report.exists() or code, said
        return code, said, json.loads(report.read_text()) if code == 0 else {}


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys.readouterr)


@pytest.mark.tensorflow
def test_fusing_is_proven(command: Command) -> None:
    command.put("model.pb", graph(*chain()))
    code, said, report = command("--between", "x=mul", "--with-consts", "--name", "block")
    assert code == 0 and "bit-identical" in said
    assert report["edit"]["moved"] == {"mul": "block"}
    assert {(o["original"], o["edited"], o["equal"]) for o in report["proof"]["outputs"]} == {
        ("y", "y", True), ("mul", "block", True)
    }  # fmt: skip


@pytest.mark.tensorflow
def test_all_up_to_an_output_is_fused_with_its_constants(command: Command) -> None:
    command.put("model.pb", graph(*chain()))
    code, said, report = command("--between", "x=y", "--with-consts", "--name", "block")
    assert code == 0, said
    assert sorted(report["edit"]["removed"]) == ["mul", "neg", "one", "sum"]
    assert [o["edited"] for o in report["proof"]["outputs"]] == ["y"]


@pytest.mark.tensorflow
def test_another_body_is_proven(command: Command) -> None:
    command.put("model.pb", graph(*tanh()))
    body = command.put("body.pb", tanh_grad2("p", "q"))
    code, said, report = command("--select", GRADS, "--name", "tanh_grad2", "--with", body, "--map", "a2=p", "--map",
                                 "dy=q")  # fmt: skip
    assert code == 0, said
    assert "bit-identical" in said and "'a3' is not needed by" in said
    assert {o["original"] for o in report["proof"]["outputs"]} >= {"a1_grad"}


@pytest.mark.tensorflow
def test_a_wrong_body_is_caught(command: Command) -> None:
    command.put("model.pb", graph(*tanh()))
    body = command.put("body.pb", graph(placeholder("a2"), placeholder("dy"), unary("Tanh", "again", "a2"),
                                        node("a2_grad", "TanhGrad", ["again", "dy"], T=FLOAT)))  # fmt: skip
    code, said, _ = command("--select", GRADS, "--name", "tanh_grad2", "--with", body)
    assert code == 5 and "the result differs" in said
    code, said, _ = command("--select", GRADS, "--name", "tanh_grad2", "--with", body, "--rtol", "1e-9")
    assert code == 5
    code, said, _ = command("--select", GRADS, "--name", "tanh_grad2", "--with", body, "--atol", "100")
    assert code == 0, said


@pytest.mark.tensorflow
def test_a_body_that_rounds_otherwise_passes_within_a_tolerance(command: Command) -> None:
    command.put("model.pb", graph(X, const("three", [3, 3]), node("d", "RealDiv", ["x", "three"], T=FLOAT),
                                  identity("y", "d")))  # fmt: skip
    third = const("third", [1 / 3, 1 / 3])
    body = command.put("body.pb", graph(placeholder("x"), placeholder("three"), third,
                                        node("d", "Mul", ["x", "third"], T=FLOAT)))  # fmt: skip
    options = ("--node", "d", "--name", "m", "--with", body, "--feed", "x=[7, 1e10]")
    assert command(*options)[0] == 5
    code, said, report = command(*options, "--rtol", "1e-6")
    assert code == 0, said
    assert report["proof"]["tolerance"]["rtol"] == 1e-6


@pytest.mark.tensorflow
def test_xla_compiles_and_is_compared_within_a_tolerance(command: Command) -> None:
    records = [placeholder("x", FLOAT, (64, 64)), unary("Tanh", "a", "x"), unary("Exp", "b", "a"), add("c", "b", "a"),
               unary("Sigmoid", "d", "c"), identity("y", "d")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, report = command("--select", "^[abcd]$", "--name", "fast", "--xla")
    assert code == 0, said
    assert report["proof"]["tolerance"]["rtol"] > 0
    assert graphs.attrs((command.folder / "out.pb").read_bytes(), "fast")["_XlaMustCompile"].b


@pytest.mark.tensorflow
def test_what_xla_cannot_compile_is_said_in_its_words(command: Command) -> None:
    records = [placeholder("x", FLOAT, (2,)), node("s", "AsString", ["x"], T=FLOAT),
               node("n", "StringLength", ["s"]), identity("y", "n", kind=INT32)]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, _ = command("--select", "^[sn]$", "--name", "fast", "--xla")
    assert code == 5 and "AsString" in said, said


@pytest.mark.tensorflow
def test_a_convolution_under_xla_is_warned_about(command: Command) -> None:
    records = [placeholder("x", FLOAT, (1, 4, 4, 1)), const("k", [1, 2, 3, 4], shape=(2, 2, 1, 1)),
               node("conv", "Conv2D", ["x", "k"], T=FLOAT, strides=ints(1, 1, 1, 1), padding="SAME"),
               unary("Relu", "r", "conv"), identity("y", "r")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, report = command("--select", "conv|r$", "--name", "fast", "--xla")
    assert code == 0, said
    assert any("convolution (Conv2D)" in warning for warning in report["warnings"])


def ints(*values: int) -> bytes:
    return encode_len(1, b"".join(bytes([0x18, value]) for value in values))


@pytest.mark.tensorflow
def test_a_random_op_is_said_to_be_of_one_seed(command: Command) -> None:
    records = [const("shape", [3], INT32), node("r", "RandomUniform", ["shape"], T=INT32, dtype=FLOAT), neg("n", "r"),
               identity("y", "n")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, _ = command("--select", "^[rn]$", "--name", "call")
    assert code == 0 and "'r': random, and given the same seed in both graphs" in said


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["FractionalAvgPool", "FractionalMaxPool"])
def test_a_random_op_whose_seed_counts_only_when_it_is_told_so_is_told(command: Command, op: str) -> None:
    ratio = encode_len(1, encode_len(4, struct.pack("<4f", 1, 1.5, 1.5, 1)))
    records = [placeholder("x", FLOAT, (1, 20, 20, 1)), node("r", op, ["x"], T=FLOAT, pooling_ratio=ratio),
               neg("n", "r"), identity("y", "n")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, _ = command("--select", "^[rn]$", "--name", "call")
    assert code == 0 and "'r': random, and given the same seed in both graphs" in said, said


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--name", "call"], 2, "no nodes are selected"),
        (["--select", "neg"], 2, "--name"),
        (["--select", "neg", "--name", "call", "--map", "a=b"], 2, "--with BODY gives one"),
        (["--select", "neg", "--name", "call", "--with", "missing.pb"], 3, "missing.pb"),
        (["--select", "neg", "--name", "x", "--validate", "none"], 4, "the name 'x' is taken"),
        (["--node", "sum", "--node", "mul", "--name", "c", "--validate", "none"], 4, "'sum' -> 'neg' -> 'mul'"),
    ],
)
def test_errors(command: Command, options: list[str], code: int, words: str) -> None:
    command.put("model.pb", graph(*chain()))
    found, said, _ = command(*options)
    assert found == code and words in said


def test_without_running(command: Command) -> None:
    command.put("model.pb", graph(*chain()))
    for level in ("none", "structure"):
        (command.folder / "out.pb").unlink(missing_ok=True)
        assert command("--select", "neg|mul", "--name", "call", "--validate", level)[0] == 0
    assert "call" in graphs.names((command.folder / "out.pb").read_bytes())


def text(name: str, value: bytes) -> bytes:
    return node(name, "Const", dtype=STRING, value=encode_len(8, b"\x08\x07\x12\x00" + encode_len(8, value)))


@pytest.mark.tensorflow
def test_a_proof_writes_no_file_unless_that_is_allowed(command: Command, tmp_path: Path) -> None:
    """Nobody who fetches y writes a file; everybody who calls the function would."""
    written = tmp_path / "written.txt"
    records = [X, text("name", str(written).encode()), text("content", b"text"),
               node("write", "WriteFile", ["name", "content"]), neg("n", "x"), identity("y", "n")]  # fmt: skip
    command.put("model.pb", graph(*records))
    code, said, _ = command("--node", "write", "--node", "n", "--name", "call")
    assert not written.exists()
    assert code in (4, 7), said


@pytest.mark.tensorflow
def test_a_body_that_writes_a_file_is_not_run_unless_that_is_allowed(command: Command, tmp_path: Path) -> None:
    written = tmp_path / "written.txt"
    command.put("model.pb", graph(X, neg("n", "x"), identity("y", "n")))
    body = graph(placeholder("x"), text("name", str(written).encode()), text("content", b"text"),
                 node("write", "WriteFile", ["name", "content"]), neg("n", "x", "^write"))  # fmt: skip
    code, said, _ = command("--node", "n", "--name", "call", "--with", command.put("body.pb", body))
    assert not written.exists()
    assert code in (4, 7), said
    code, said, _ = command("--node", "n", "--name", "call", "--with", str(tmp_path / "body.pb"), "--allow-ops")
    assert code in (0, 4), said
    assert written.exists() == (code == 0)


@pytest.mark.tensorflow
def test_a_string_constant_is_fused_like_any_other() -> None:
    words = node("words", "Const", dtype=STRING, value=encode_len(8, b"\x08\x07\x12\x04\x12\x02\x08\x02B\x01aB\x02bc"))
    records = [words, node("length", "StringLength", ["words"]), identity("y", "length", kind=INT32)]
    found = graph(*records)
    fused(found, ["words", "length"])
    assert run(found, "y") == [[1, 2]]
