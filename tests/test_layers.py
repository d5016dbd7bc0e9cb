"""The import arrows between the packages, and what the command line does not import."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

import gdsurgeon

PACKAGE = Path(gdsurgeon.__file__).parent
FIXTURES = PACKAGE.parent / "fixtures"

ROOMS = (
    "plugin",
    "cli",
    "registry",
    "view",
    "operation",
    "proof",
    "feeds",
    "graph_editor",
    "steps",
    "edits",
    "gradients",
    "select",
    "specification",
    "patterns",
    "compare",
    "analysis",
    "container",
    "graph",
    "runtime",
    "ops",
    "wire",
    "parser",
    "selection",
    "arguments",
    "text",
    "errors",
    "values",
    "resources",
)
"""The rooms, from top to bottom: arrows point down only."""

FILES = ("arguments", "errors", "parser", "plugin", "registry", "resources", "select", "selection", "text", "values")
"""The rooms that are one file."""

BESIDE = {
    "graph_editor": {"runtime", "gradients", "feeds", "steps"},
    "feeds": {"graph_editor", "steps", "edits", "gradients"},
    "proof": {"graph_editor", "steps"},
    "operation": {"graph_editor", "steps"},
    "view": {"graph_editor"},
    "steps": {"gradients", "runtime", "container"},
    "cli": {"graph_editor"},
    "graph": {"runtime"},
    "container": {"runtime"},
    "analysis": {"runtime"},
    "specification": {"runtime", "analysis"},
    "compare": {"runtime"},
    "patterns": {"runtime", "container", "compare", "analysis"},
    "select": {"runtime"},
}
"""Rooms that are below, and none of a room's business."""


def modules() -> list[Path]:
    top = [f"{name}.py" for name in FILES]
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name in top)


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The modules of this package that a module imports anywhere, inside functions and for type checking too."""
    parts = ("gdsurgeon", *path.relative_to(PACKAGE).with_suffix("").parts)
    return tuple(_imported(ast.parse(path.read_text()), parts))


def _imported(tree: ast.Module, parts: tuple[str, ...]) -> Iterator[str]:
    pending: list[ast.AST] = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            base = ".".join(parts[: -item.level]) if item.level else ""
            module = ".".join(filter(None, (base, item.module)))
            yield from (f"{module}.{alias.name}" for alias in item.names)
        elif not isinstance(item, ast.expr):  # there are no statements in an expression
            pending += ast.iter_child_nodes(item)


def module_of(name: str) -> str:
    """The module that an imported NAME is, or is defined in."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return name if path.with_suffix(".py").exists() or path.is_dir() else name.rpartition(".")[0]


def test_the_rooms_are_those_that_are_there() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS) - set(FILES)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_down(path: Path) -> None:
    own = room(path)
    allowed = {*ROOMS[ROOMS.index(own) :]} - BESIDE.get(own, set())
    wrong = []
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "gdsurgeon" or len(parts) < 2 or parts[1] == "__version__":
            continue
        if parts[1] not in allowed:
            wrong.append(name)
    assert not wrong


@cache
def arrows() -> dict[str, set[str]]:
    """Returns the modules that each module imports."""
    out: dict[str, set[str]] = {}
    for path in modules():
        own = ".".join(("gdsurgeon", *path.relative_to(PACKAGE).with_suffix("").parts))
        out[own] = {module_of(name) for name in imports(path) if name.startswith("gdsurgeon.")} - {own}
    return out


def test_no_module_imports_itself_through_others() -> None:
    TopologicalSorter(arrows()).prepare()  # raises CycleError


def test_specifications_do_not_reach_the_analysis_that_edits_use() -> None:
    found, pending = set[str](), [name for name in arrows() if name.startswith("gdsurgeon.specification.")]
    assert pending
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += arrows().get(name, ())
    assert not [name for name in found if name.split(".")[1] in ("analysis", "edits")]


def test_the_import_walk_sees_functions_type_checking_and_relative_imports(tmp_path: Path) -> None:
    path = PACKAGE / "graph" / "not_there.py"
    source = "if TYPE_CHECKING:\n    from gdsurgeon.cli import main\ndef f():\n    from ..edits import rename\n"

    class Source(type(path)):  # type: ignore[misc]
        def read_text(self, *_args: object, **_options: object) -> str:
            return source

    assert set(imports(Source(path))) == {"gdsurgeon.cli.main", "gdsurgeon.edits.rename"}


def python(code: str, *arguments: str, **environment: str) -> list[Any]:
    """Runs CODE, which prints a JSON list on its last line."""
    env = os.environ | environment
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


LOADED = "print(json.dumps([m for m in {names!r} if m in sys.modules]))"


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    names = ["tensorflow", "numpy", "google.protobuf", "rich"]
    assert python("import json, sys, gdsurgeon.cli.main\n" + LOADED.format(names=names)) == []


def test_importing_the_library_imports_nothing_heavy() -> None:
    names = ["tensorflow", "numpy", "google.protobuf", "rich", "click"]
    assert python("import json, sys, gdsurgeon\n" + LOADED.format(names=names)) == []


EDITS = {
    "rename": ["rename", "control_edges.pb", "shifted=moved"],
    "rename --rename-scope": ["rename", "while_v1.pb", "--rename-scope", "while=loop"],
    "reroute": ["reroute", "control_edges.pb", "split:1=split"],
    "add-preprocessing": ["add-preprocessing", "classifier.pb", "decode_jpeg.pb"],
    "steps": ["add-preprocessing", "classifier.pb", "--steps", "decode-image | resize(64, 64, like=tf1) | divide(255)"],
    "add-postprocessing": ["add-postprocessing", "classifier.pb", "label_lookup.pb"],
    "text": ["rename", "tiny.pbtxt", "y=z"],
    "functions": ["rename", "functions_tf2.pb", "y=z"],
}

RUN = """\
import json, sys
from gdsurgeon.cli.main import exit_code
code = exit_code(sys.argv[1:])
assert code == 0, code
"""


def command(name: str, out: Path) -> list[str]:
    return [str(FIXTURES / word) if (FIXTURES / word).exists() else word for word in EDITS[name]] + ["-o", str(out)]


RUN_EACH = """\
import json, sys
from gdsurgeon.cli.main import exit_code
loaded = {}
for name, arguments in json.loads(sys.argv[1]).items():
    code = exit_code(arguments)
    assert code == 0, (name, code)
    loaded[name] = [m for m in ("tensorflow", "numpy") if m in sys.modules]
print(json.dumps(list(loaded.items())))
"""


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], Path]]:
    """The imports of each edit, which one process makes in turn, and the result."""
    folder = tmp_path_factory.mktemp("edited")
    outs = {name: folder / f"{number}.pb" for number, name in enumerate(EDITS)}
    arguments = {name: [*command(name, out), "--validate", "structure"] for name, out in outs.items()}
    return {name: (loaded, outs[name]) for name, loaded in python(RUN_EACH, json.dumps(arguments))}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_with_its_structure_checked_imports_neither_tensorflow_nor_numpy(
    name: str, edited: dict[str, tuple[list[str], Path]]
) -> None:
    loaded, out = edited[name]
    assert loaded == []
    assert out.stat().st_size


def test_the_table_of_releases_is_small_and_is_read_by_compat_alone(tmp_path: Path) -> None:
    assert (PACKAGE / "data" / "releases.z").stat().st_size < 150_000
    arguments = [*command("rename", tmp_path / "out.pb"), "--validate", "structure"]
    assert python(RUN + LOADED.format(names=["gdsurgeon.ops.releases"]), *arguments) == []
    arguments = ["check-ops", str(FIXTURES / "tiny.pbtxt"), "--for", "tf2.21", "-q"]
    assert python(RUN + LOADED.format(names=["gdsurgeon.ops.releases", "tensorflow"]), *arguments) == [
        "gdsurgeon.ops.releases"
    ]


def test_the_table_of_engines_is_read_by_check_ops_alone(tmp_path: Path) -> None:
    names = ["gdsurgeon.ops.releases", "gdsurgeon.proof.elsewhere"]
    arguments = [*command("rename", tmp_path / "out.pb"), "--validate", "structure"]
    assert python(RUN + LOADED.format(names=names), *arguments) == []
    arguments = ["check-ops", str(FIXTURES / "tiny.pbtxt"), "--for", "tfjs"]
    assert python(RUN + LOADED.format(names=[*names, "numpy", "tensorflow"]), *arguments) == ["gdsurgeon.ops.releases"]


@pytest.mark.tensorflow
def test_an_edit_with_its_proof_does_not_import_tensorflow_into_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out.pb"
    names = ["tensorflow"]
    assert python(RUN + LOADED.format(names=names), *command("rename", out)) == []
    assert out.stat().st_size
