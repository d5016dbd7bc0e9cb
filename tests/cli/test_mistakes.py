"""Mistakes on the command line: exit code, code and facts of the error; no file changes.

The exit code is 2 for mistakes with any MODEL, 4 for mistakes with this MODEL, 6 for outputs that cannot be written.
"""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from support import graphs
from support.commands import EARLIER, QUICK
from support.commands import FILES as OTHERS
from support.desk import Desk
from support.graphs import FLOAT, const, graph_bytes, identity, node, placeholder
from support.hostile import X

from gdsurgeon import select
from gdsurgeon.proof.executor import Executor

MODEL = graph_bytes(
    placeholder("x", FLOAT, (-1, 4)), identity("y", "x"), identity("z", "y"), node("done", "NoOp", ["^z"]),
)  # fmt: skip
FILES = {
    "model.pb": MODEL, "edited.pb": MODEL, "pre.pb": graph_bytes(X, identity("x_preprocessed", "x")),
    "tower.pb": OTHERS["model.pb"], "out.pb": EARLIER,
    "edited.edited.pb": EARLIER, "notes.txt": b"y = q\nnothing here\n",
}  # fmt: skip
Facts = dict[str, Any]

ARGUMENTS: list[tuple[int, str, str, Facts]] = [
    (2, "no-such-command", "renam model.pb y=q", {"name": "renam", "near": "rename"}),
    (2, "no-such-command", "transmogrify model.pb", {"name": "transmogrify", "near": None}),
    (2, "no-such-command", "help renam", {"name": "renam", "near": "rename"}),
    *((2, "no-such-command", f"{name} model.pb", {"name": name, "near": near})
      for name, near in (("optimize", "simplify"), ("prune", "simplify"), ("info", "inspect"), ("summary", "inspect"),
                         ("plot", "view"), ("draw", "view"), ("netron", "view"), ("cut", "extract"),
                         ("subgraph", "extract"), ("strip", "strip-weights"), ("fold-bn", "simplify --fold-bn"),
                         ("merge", "import"), ("join", "import"), ("split", "extract"), ("export", "to-savedmodel"),
                         ("set-input-shape", "set-shape"), ("shrink", "quantize"), ("swap-op", "set-attr"),
                         ("control", "control-edges"))),
    (2, "bad-option", "rename model.pb y=q --validat none", {"option": "--validat", "near": "--validate"}),
    (2, "bad-value", "rename model.pb y=q --validate structur", {"option": "--validate"}),
    (2, "not-a-pair", "rename model.pb y q", {"value": "y", "expected": "OLD=NEW"}),
    (2, "not-a-pair", "rename model.pb y:q", {"value": "y:q"}),
    (2, "not-a-pair", "rename model.pb =q", {"value": "=q"}),
    (2, "not-a-pair", "set-attr model.pb y =[]", {"value": "=[]"}),
    (2, "not-a-pair", "set-device model.pb --replace /cpu:0", {"value": "/cpu:0", "expected": "OLD=NEW"}),
    (2, "unreadable", "rename model.pb --map-file nowhere", {"option": "--map-file", "file": "nowhere"}),
    (2, "unreadable", "rename model.pb --map-file .", {"option": "--map-file", "file": "."}),
    (2, "not-text", "rename model.pb --map-file model.pb", {"option": "--map-file", "file": "model.pb"}),
    (2, "not-a-pair", "rename model.pb --map-file notes.txt", {"value": "nothing here"}),
    (2, "not-a-pair", "add-preprocessing model.pb pre.pb --map x=a", {"option": "--map", "value": "x=a"}),
    (2, "not-a-pair", "add-preprocessing model.pb pre.pb --map x,a,b", {"option": "--map", "value": "x,a,b"}),
    (2, "not-a-pair", "rename model.pb y=q --feed x", {"option": "--feed", "value": "x"}),
    (2, "not-a-pair", "rename model.pb y=q --shape 1,2", {"option": "--shape", "value": "1,2"}),
    *((2, "bad-value", f"rename model.pb y=q --shape x={dims}", {"option": "--shape", "value": dims})
      for dims in ("1,b", "-1,4", "1x4")),
    *((2, "bad-value", f"rename model.pb y=q --device {name}", {"option": "--device", "value": name})
      for name in ("tpu", "/device:")),
    *((2, "bad-value", f"rename model.pb y=q {option} {value}", {"option": option})
      for option, value in (("--samples", "0"), ("--samples", "ten"), ("--timeout", "-1"), ("--timeout", "nan"))),
    *((2, "missing-option", f"validate model.pb {words}", {"option": option, "expected": "two models"})
      for option, words in (("strict", "--strict"), ("first_divergence", "--first-divergence"), ("pre", "--pre x"),
                            ("reduce", "--reduce r.pb"), ("names", "--map a=b"))),
    (2, "bad-value", "quantize tower.pb --dtype int4", {"option": "--dtype"}),
    (2, "no-such-release", "compat tower.pb --for 0.12", {"target": "0.12"}),
    (2, "bad-value", "set-device tower.pb --replace /cpu:0=/nonsense", {"value": "/nonsense"}),
    (2, "no-such-pass", "simplify tower.pb --passes foo", {"value": "foo"}),
    (2, "no-such-input", "simplify tower.pb --shape imag=1,2", {"node": "imag"}),
    (2, "bad-rule", "rewrite tower.pb 'Mul($x, ) -> $x'", {"column": 9}),
    (2, "no-such-rule", "rewrite tower.pb --rules builtin:foo", {"name": "foo"}),
    (2, "no-such-step", "insert tower.pb --at tower/scaled --steps foo", {"step": "foo"}),
    (2, "bad-value", "set-shape tower.pb image=x", {"value": "x", "expected": "shape"}),
    (2, "bad-value", "rename tower.pb --rename-scope /=x", {}),
    *((2, "bad-name", f"clone-scope tower.pb {scopes}", {}) for scopes in ("'' copy", "tower /", "tower tower/")),
    # Standard input, outputs and reports.
    (2, "conflicting-options", "add-preprocessing - - -o out.pb", {}),
    (2, "bad-value", "rename - y=q -i", {"option": "in_place"}),
    (2, "conflicting-options", "rename model.pb y=q -o - --report -", {"option": "report"}),
    (2, "file-exists", "rename edited.pb y=q", {"file": "edited.edited.pb"}),
    (2, "would-replace", "rename model.pb y=q -o out.pb --report link.pb", {"file": "link.pb", "other": "model.pb"}),
    (2, "would-replace", "rename model.pb y=q -o new.pb --report ./new.pb", {"file": "./new.pb", "other": "new.pb"}),
    (2, "would-replace", "rename model.pb y=q -i --report model.pb", {"other": "model.pb"}),
    (6, "unwritable", "rename model.pb y=q -o out.pb --report model.pb/r.json", {"file": "model.pb/r.json"}),
    (6, "is-a-folder", "rename model.pb y=q -o out.pb --report folder", {"file": "folder"}),
]  # fmt: skip
PATTERNS = {
    "(": ["remove tower.pb --select (", "rename tower.pb --regex (=x", "reroute tower.pb tower/same=image --only (",
          "reroute tower.pb tower/same=image --except (", "clone-scope tower.pb tower copy --share (",
          "to-savedmodel tower.pb --unfreeze (", "quantize tower.pb --dtype int8 --keep (",
          "strip-weights tower.pb --keep (", "select tower.pb --select ("],
    "[": ["remove tower.pb --op Mul --exclude ["],
    "s": [r"rename tower.pb --regex s=\3"],
}  # fmt: skip
"""Calls with an option that is not a regular expression, or not a substitution, by the pattern."""
TWICE = {
    "scores": "rename tower.pb scores=a scores=b",
    "tower/same": "reroute tower.pb tower/same=tower/scaled tower/same:0=image",
    "image": "set-shape tower.pb image=1,2 image=2,2",
    "T": "set-attr tower.pb --node kept T=float T=int32",
    "--replace /cpu:0": "set-device tower.pb --replace /cpu:0=/cpu:1 --replace /cpu:0=/cpu:2",
    "--map image": "clone-scope tower.pb tower c --map image=a --map image=b",
    "--feed image": "rename tower.pb scores=a --feed image=1 --feed image:0=2",
    "--shape image": "rename tower.pb scores=a --shape image=1,2 --shape image=2,2",
}
"""Calls that give a name two values, by the option and the name."""
NODES: list[tuple[int, str, str, Facts]] = [
    *((4, "nothing-matched", f"rename model.pb {words}", {"value": "nothing"})
      for words in ("--regex nothing=q", "--rename-scope nothing=q", "--regex y=q --regex nothing=r")),
    (4, "nothing-to-do", "rename model.pb y=y --require-change", {}),
    (4, "no-consumers", "reroute model.pb z=y --require-change", {"tensors": ["z"]}),
    (4, "nothing-selected", "reroute model.pb y=x --only nothing --require-change", {"tensors": ["y"]}),
    (4, "same-tensor", "reroute model.pb y=y --require-change", {}),
    *((4, "bad-name", f"rename model.pb y={name}", {"name": name})
      for name in ("", "^a", "_a", "-a", "a:0", "a\x1b[31m")),
    (4, "no-such-node", "remove tower.pb --node nothing", {"node": "nothing", "near": None}),
    (4, "nothing-matched", "quantize tower.pb --dtype int8 --keep nothing", {"value": "nothing"}),
    (4, "not-a-literal", "freeze-input tower.pb keep_prob=text", {"node": "keep_prob", "value": "text"}),
    (4, "bad-value", "set-attr tower.pb kept T=text", {"attr": "T", "value": "text"}),
    (4, "no-such-op", "set-attr tower.pb kept op=Subtract", {"op": "Subtract"}),
    # Selections with a part that matches nothing.
    (4, "nothing-matched", "remove model.pb --op Assert --op Identity --allow-outputs", {"value": "Assert"}),
    (4, "nothing-matched", "set-attr model.pb --op Assert --node y _note:string=x", {"value": "Assert"}),
    (4, "nothing-matched", "fuse-ops model.pb --op Conv2D --name f", {"value": "Conv2D"}),
]  # fmt: skip
MISTAKES = [
    *ARGUMENTS,
    *((2, "bad-pattern", line, {"value": pattern}) for pattern, lines in PATTERNS.items() for line in lines),
    *((2, "given-twice", line, {"option": option, "name": name})
      for key, line in TWICE.items() for option, _, name in [key.rpartition(" ")]),
    (2, "given-twice", "freeze-input tower.pb keep_prob=1 keep_prob=2", {"node": "keep_prob"}),
    *NODES,
]  # fmt: skip


@pytest.fixture
def there(desk: Desk) -> Desk:
    for name, data in FILES.items():
        desk.put(name, data)
    (desk.folder / "link.pb").symlink_to("model.pb")
    (desk.folder / "folder").mkdir()
    return desk


@pytest.mark.parametrize(("exit_code", "code", "line", "facts"), MISTAKES, ids=[line for _, _, line, _ in MISTAKES])
def test_a_mistake_is_refused(there: Desk, exit_code: int, code: str, line: str, facts: Facts) -> None:
    command, *words = line.split(" ") if "'" not in line else shlex.split(line)
    edits = command not in ("validate", "select", "help") and "--check" not in words and "--validate" not in words
    words += QUICK if edits and words else ()
    words += ["-o", "out.pb"] if exit_code == 4 else ()
    ran = there.refused(exit_code, code, command, *words, **facts)
    assert "\x1b" not in ran.err


def test_a_name_that_is_given_one_value_twice(there: Desk) -> None:
    words = ("scores=a", "scores=a", "--feed", "image=1", "--feed", "image=1", "-o", "new.pb", *QUICK)
    there.done("rename", "tower.pb", *words)


def test_the_advice_for_a_constant_is_another_command(there: Desk) -> None:
    there.put("c.pb", graph_bytes(placeholder("x"), const("c", [1, 2]), node("y", "AddV2", ["x", "c"], T=FLOAT)))
    ran = there.refused(4, "not-text", "set-attr", "c.pb", "c", "value=3", *QUICK)
    assert ran.error and "freeze-input" in ran.error.advice


def test_to_look_at_the_structure_nothing_is_started(there: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executor, "start", lambda _: pytest.fail("a process is started"))
    there.done("validate", "model.pb", "--validate", "structure")


@pytest.mark.parametrize(
    "line",
    ["select p.pb --select {}", "rename p.pb --regex {}=q", "reroute p.pb x=y --only {}",
     "clone-scope p.pb s t --share {}"],
)  # fmt: skip
def test_a_pattern_that_takes_for_ever_is_refused(line: str, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "PATIENCE", 0.05)
    desk.put("p.pb", graph_bytes(placeholder("x"), identity("y", "x"), identity("s/" + "a" * 40 + "b", "x")))
    more = () if line.startswith("select") else QUICK
    desk.refused(4, "timed-out", *line.format("(a+)+$").split(), *more)


def test_names_that_are_no_text(desk: Desk) -> None:
    desk.put("M", graphs.graph_bytes(placeholder("x"), identity("y", "x"), identity("z", "y")))
    for line in ("set-attr M y \udcff:int=3", "rename M y=\udcff", "fuse-ops M --node y --name \udcff",
                 "set-device M --node y \udcff"):  # fmt: skip
        ran = desk.run(*line.split(), *QUICK, "-n")
        assert ran.error is not None and ran.code in (2, 4), (line, ran)
