"""The checks refuse models with a mistake in the code that writes what is around a graph.

Each case is a command on a SavedModel or a checkpoint. Its result is the files that it writes. A result that differs
from the right one and passes the checks without TensorFlow is then proven by running it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk
from support.graphs import FLOAT, STRING, VERSIONS, add, const, graph_bytes, identity, node, placeholder
from support.mutants import Bench, check_share
from support.shipped import Shipped

from gdsurgeon.wire.protos import message

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

KEY = "serving_default"
SCALED = ("--rename", "scaled/x=seen", "--rename", "scaled=predict", "--delete", "counted",
          "--outputs", "more:k=scaled/k", "--inputs", "more:k=scaled/k")  # fmt: skip
SAVED = ("to-savedmodel", "two.pb", "--inputs", "x=x", "--outputs", "z=y")
COMMANDS: dict[str, tuple[str, ...]] = {
    "signature": ("signature", "several", *SCALED),
    "signature as v1": ("signature", "several", *SCALED, "--as-v1"),
    "signature of nodes": ("signature", "resource", "--rename", f"{KEY}/x=seen", "--rename", f"{KEY}=predict"),
    "signature of a checkpoint": ("signature", "ckpt_ref", "--outputs", "more:y=y", "--inputs", "more:x=x"),
    "rename": ("rename", "table2", "--regex", "^=p/"),
    "rename of nodes": ("rename", "table1", "--regex", "^=p/"),
    "rename of parts": ("rename", "part_ref", "--regex", "^=p/"),
    "rename in a checkpoint": ("rename", "ckpt_part", "--regex", "^=p/"),
    "pre": ("add-preprocessing", "several", "pre.pb", "--map", "scaled/x=raw,used"),
    "pre and objects": ("add-preprocessing", "dense", "pre.pb", "--map", f"{KEY}/x=raw,used"),
    "pre and a table": ("freeze-input", "table2", f"{KEY}/words=a"),
    "pre of nodes": ("add-preprocessing", "part_resource", "pre.pb", "--map", f"{KEY}/x=raw,used"),
    "slim": ("slim", "several"),
    "slim one": ("slim", "several", "--signature", "scaled"),
    "slim a table": ("slim", "table2"),
    "slim objects": ("slim", "keras_saved"),
    "slim nodes": ("slim", "table1"),
    "slim parts": ("slim", "part_ref"),
    "slim a counter": ("slim", "several", "--signature", "counted"),
    "freeze": ("freeze", "several", "--signature", "scaled"),
    "freeze a table": ("freeze", "table2"),
    "freeze rows": ("freeze", "embedding"),
    "freeze nodes": ("freeze", "part_ref"),
    "freeze branches": ("freeze", "branches"),
    "freeze a checkpoint": ("freeze", "ckpt_v1", "--outputs", "y"),
    "to-savedmodel": SAVED,
    "to-savedmodel of variables": (*SAVED, "--unfreeze", "^w"),
    "to-savedmodel with a file": (*SAVED, "--init", "init", "--asset", "path=words.txt"),
    "clone": ("clone-scope", "resource", "net", "copy"),
    "clone parts": ("clone-scope", "part_ref", "net", "copy"),
    "clone in a checkpoint": ("clone-scope", "ckpt_ref", "net", "copy", "--variables", "all"),
    "clone objects": ("clone-scope", "keras_saved", "StatefulPartitionedCall", "copy", "--as-v1"),
    "import": ("import", "resource", "dense", "--prefix", "other"),
    "import nodes": ("import", "ref", "part_resource", "--prefix", "other"),
}
MODULES = [
    f"{package}.{name}"
    for package, names in {
        "container": "container copied_checkpoint mentions meta_graph objects output restoring",
        "edits": "change_signatures clone_scope freeze import_graph saver slim to_savedmodel",
        "operation": "saved_models",
    }.items()
    for name in names.split()
]


class Commanded:
    """A command, with all checks that need no TensorFlow, and then those that do if its result is not the right one.

    Raises:
        ValidationError: a check refuses the result.
        RuntimeError: the command ends with another error.
    """

    def __init__(self, desk: Desk, arguments: tuple[str, ...], out: str) -> None:
        self._desk, self._arguments, self._out = desk, arguments, out
        self.right: set[tuple[Any, ...]] = set()

    def __call__(self) -> bool:
        found = self._result("structure")
        self.right = self.right or found
        if found == self.right:
            return True
        return self._result("run") == self.right

    def _result(self, level: str) -> set[tuple[Any, ...]]:
        folder = self._desk.folder / "results"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        ran = self._desk.run(*self._arguments, "--validate", level, "-o", f"results/{self._out}")
        if ran.code == 5:
            assert ran.error is not None
            raise ran.error
        if ran.code:
            raise RuntimeError(ran.err)
        return {item for file in folder.rglob("*") if file.is_file() for item in content(file)}


def content(file: Path) -> Iterator[tuple[Any, ...]]:
    """Yields the parts of a file: those of a SavedModel without the order of its nodes and functions."""
    data = file.read_bytes()
    if file.name != "saved_model.pb":
        yield file.name, hashlib.sha256(data).hexdigest()
        return
    (meta,) = message("tensorflow.SavedModel").FromString(data).meta_graphs  # type: ignore[attr-defined]
    graph = meta.graph_def
    for item in (*graph.node, *graph.library.function):
        yield file.name, item.SerializeToString(deterministic=True)
    del graph.node[:], graph.library.function[:]
    yield file.name, meta.SerializeToString(deterministic=True)


@pytest.fixture(scope="module")
def bench(saved_models: Shipped, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    desk = Desk(tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("scratch"))
    desk.put("pre.pb", graph_bytes(placeholder("raw", FLOAT, (-1, 4)), identity("used", "raw")))
    constants = const("w1", [1.0]), const("w2", [2.0])
    text = placeholder("path", STRING, ()), node("init", "NoOp", ["^read"]), identity("read", "path", kind=STRING)
    two = graph_bytes(
        placeholder("x", FLOAT, (-1,)), *constants, add("s", "w1", "w2"), add("y", "s", "x"), *text, trailer=VERSIONS
    )
    desk.put("two.pb", two)
    desk.put("words.txt", b"a\n")
    for name in {word for command in COMMANDS.values() for word in command}:
        if (saved_models.folder / name).is_dir():
            (desk.folder / name).symlink_to(saved_models.folder / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk.folder)
        patch.setenv("TMPDIR", str(desk.scratch))
        cases = {}
        for name, command in COMMANDS.items():
            arguments = tuple(saved_models.path(word) if word.startswith("ckpt") else word for word in command)
            is_graph = command[0] == "freeze"
            out = "out.meta" if command[1].startswith("ckpt") and not is_graph else "out.pb" if is_graph else "out"
            cases[name] = Commanded(desk, arguments, out)
        yield Bench(cases, seconds=2)


@pytest.mark.parametrize("module", MODULES)
def test_mistakes_are_caught(module: str, bench: Bench) -> None:
    check_share(bench, module, many=12)
