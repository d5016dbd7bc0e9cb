"""Every command that takes a graph, and a call of it that does something."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from gdsurgeon.registry import COMMANDS
from support import graphs
from support.desk import Desk
from support.graphs import FLOAT, add, const, graph_bytes, identity, neg, node, placeholder, scalar, typed

QUICK = ("--validate", "structure")


EARLIER = b"an earlier output"


QUERIES = ("check-ops", "diff", "inspect", "select", "show", "validate", "view")


_OTHERS = ("This program", "SavedModels and checkpoints")
THERE = [name for name, entry in COMMANDS.items() if entry.group not in _OTHERS and name not in ("repair", "steps")]


EDITING = [name for name in THERE if name not in QUERIES]


for_each = pytest.mark.parametrize("name", THERE)


def marked(names: Sequence[str]) -> list[Any]:
    """Returns NAMES; those that need TensorFlow for every level of proof are marked."""
    return [pytest.param(n, marks=pytest.mark.tensorflow) if n in ("add-gradients", "validate") else n for n in names]


for_each_edit = pytest.mark.parametrize("name", marked(EDITING))


def model(*more: bytes) -> bytes:
    """The model, with the additional nodes `more`."""
    call = node("called", "PartitionedCall", ["tower/same"], f=graphs.func("F"), Tin=graphs.dtypes(FLOAT),
                Tout=graphs.dtypes(FLOAT))  # fmt: skip
    library = graphs.library(graphs.function("F", neg("y", "x")))
    return graph_bytes(
        placeholder("image", FLOAT, (-1, 2)), placeholder("keep_prob", FLOAT, ()), const("tower/scale", [2, 3]),
        typed("Mul", "tower/scaled", "image", "tower/scale"), identity("tower/same", "tower/scaled"), call,
        node("guard", "NoOp", ["^keep_prob", "^weights"]), const("weights", [0.5] * 512),
        typed("Mul", "kept", "called", "keep_prob", device="/cpu:0"),
        typed("Abs", "scores", "kept", "^guard"), *more, trailer=library + graphs.VERSIONS,
    )  # fmt: skip


def part(name: str, result: str, shape: tuple[int, ...] = (-1, 2)) -> bytes:
    """A graph from NAME to RESULT, with a constant."""
    return graph_bytes(placeholder(name, FLOAT, shape), scalar("seven", 7), add(result, name, "seven"))


FILES = {
    "model.pb": model(),
    "pre.pb": part("image", "image_preprocessed"),
    "post.pb": part("scores", "scores_postprocessed"),
    "other.pb": part("picture", "points"),
    "fix.gds": b"# names that callers use\nrename scores=classes\nadd-preprocessing pre.pb\n",
    "wrong.gds": b"rename image=picture\nrename score=classes\n",
    "nothing.gds": b"# nothing\n",
    "wrong.pb": part("imagge", "imagge_preprocessed"),
    "wrong_post.pb": part("score", "score_postprocessed"),
}


class Case(NamedTuple):
    """How a command is called.

    Attributes:
        good: arguments with which it does something.
        poor: calls that lack an argument.
        unknown: arguments with a name that does not exist, and a name like it.
        exit_code: what these end with.
        node: for a command with a selection: a node, other arguments, and a pair that means the same for this node.
        more: nodes that the model needs in addition for this command.
    """

    good: tuple[str, ...]
    poor: tuple[tuple[str, ...], ...]
    unknown: tuple[tuple[str, ...], str] | None
    exit_code: int = 4
    node: tuple[str, tuple[str, ...], str | None] | None = None
    more: Sequence[bytes] = ()


MODEL = "model.pb"


CASES: dict[str, Case] = {
    "add-gradients": Case(
        (MODEL, "--ys", "tower/same", "--xs", "image"),
        ((MODEL,), (MODEL, "--ys", "scores"), (MODEL, "--xs", "image")),
        ((MODEL, "--ys", "tower/same", "--xs", "imag"), "image"),
    ),
    "add-postprocessing": Case((MODEL, "post.pb"), ((MODEL,),), ((MODEL, "wrong_post.pb"), "scores")),
    "add-preprocessing": Case((MODEL, "pre.pb"), ((MODEL,),), ((MODEL, "wrong.pb"), "image")),
    "apply": Case((MODEL, "fix.gds"), ((MODEL,), (MODEL, "nothing.gds")), ((MODEL, "wrong.gds"), "scores")),
    "check-ops": Case(
        (MODEL, "--for", "openvino"),
        ((MODEL,),),
        ((MODEL, "--for", "tflite", "--run", "--outputs", "score"), "scores"),
    ),
    "clone-scope": Case((MODEL, "tower", "copy"), ((MODEL,), (MODEL, "tower")), ((MODEL, "towr", "copy"), "tower")),
    "compat": Case((MODEL, "--for", "1.15"), ((MODEL,),), ((MODEL, "--for", "v1.15"), "1.15"), exit_code=2),
    "control-edges": Case(
        (MODEL, "--add", "called=^guard"),
        ((MODEL,),),
        ((MODEL, "--add", "called=^gard"), "guard"),
        node=("called", ("--add", "^guard"), "called=^guard"),
    ),
    "diff": Case((MODEL, "./model.pb"), ((MODEL,),), ((MODEL, "./model.pb", "--in", "f"), "F")),
    "extract": Case(
        (MODEL, "--inputs", "tower/scaled", "--outputs", "scores"),
        ((MODEL,), (MODEL, "--inputs", "image")),
        ((MODEL, "--inputs", "tower/scald", "--outputs", "scores"), "tower/scaled"),
    ),
    "freeze-input": Case(
        (MODEL, "keep_prob=0.5"),
        ((MODEL,),),
        ((MODEL, "keep_prb=0.5"), "keep_prob"),
        node=("keep_prob", ("--value", "0.5"), "keep_prob=0.5"),
    ),
    "fuse-ops": Case(
        (MODEL, "--node", "tower/scaled", "--node", "tower/same", "--name", "fused"),
        ((MODEL, "--name", "fused"), (MODEL, "--node", "tower/same")),
        ((MODEL, "--node", "tower/sam", "--name", "fused"), "tower/same"),
        node=("tower/same", ("--name", "fused"), None),
    ),
    "import": Case(
        (MODEL, "other.pb", "--prefix", "o", "--map", "image=picture"),
        ((MODEL,),),
        ((MODEL, "other.pb", "--map", "imag=picture"), "image"),
    ),
    "inline": Case((MODEL,), (), ((MODEL, "--function", "f"), "F")),
    "insert": Case(
        (MODEL, "other.pb", "--at", "tower/scaled"),
        ((MODEL,), (MODEL, "--at", "tower/scaled")),
        ((MODEL, "other.pb", "--at", "tower/scald"), "tower/scaled"),
        node=("tower/same", ("other.pb",), None),
    ),
    "inspect": Case((MODEL,), (), None),
    "remove": Case(
        (MODEL, "--node", "tower/same", "--bypass"),
        ((MODEL,),),
        ((MODEL, "--node", "tower/sam"), "tower/same"),
        node=("tower/same", ("--bypass",), None),
    ),
    "rename": Case((MODEL, "scores=classes"), ((MODEL,),), ((MODEL, "score=classes"), "scores")),
    "reroute": Case((MODEL, "tower/same=tower/scaled"), ((MODEL,),), ((MODEL, "tower/sam=image"), "tower/same")),
    "validate": Case((MODEL,), (), ((MODEL, "--outputs", "score"), "scores")),
    "select": Case((MODEL, "--op", "Mul"), (), ((MODEL, "--op", "Mull"), "Mul"), node=("tower/same", (), None)),
    "show": Case(
        (MODEL, "tower/same"), ((MODEL,),), ((MODEL, "tower/sam"), "tower/same"), node=("tower/same", (), None)
    ),
    "view": Case((MODEL, "--scope", "tower"), (), ((MODEL, "--scope", "towr"), "tower")),
    "set-attr": Case(
        (MODEL, "tower/same", "_note:string=hello"),
        ((MODEL,), (MODEL, "tower/same"), (MODEL, "_note:string=hello")),
        ((MODEL, "tower/sam", "_note:string=hello"), "tower/same"),
        node=("tower/same", ("_note:string=hello",), None),
    ),
    "rewrite": Case(
        (MODEL, "Abs($x) -> Maximum($x, Neg($x))"),
        ((MODEL,), (MODEL, "Mul($x)")),
        ((MODEL, "Mull($x, $y) -> $x"), "Mul"),
    ),
    "simplify": Case((MODEL,), (), ((MODEL, "--outputs", "score"), "scores")),
    "quantize": Case(
        (MODEL, "--dtype", "float16"),
        ((MODEL,),),
        ((MODEL, "--dtype", "int8", "--keep", "tower/scaled"), "tower/scale"),
    ),
    "strip-weights": Case((MODEL,), (), ((MODEL, "--keep", "tower/scaled"), "tower/scale")),
    "set-shape": Case((MODEL, "image=4,2"), ((MODEL,),), ((MODEL, "imag=4,2"), "image")),
}
"""The cases of commands whose tests do not have the case as `COMMAND`."""


CASES |= {
    name: Case(**import_module(f"edits.test_{name.replace('-', '_')}").COMMAND) for name in THERE if name not in CASES
}


def good(name: str, model: str = MODEL) -> tuple[str, ...]:
    """A call that does something, on MODEL."""
    return (name, *(model if word == MODEL else word for word in CASES[name].good))


def edited(desk: Desk, name: str) -> bytes:
    """Returns the result of the command for the model."""
    desk.done(*good(name), "-o", "first.pb", *QUICK)
    data = desk.files()["first.pb"]
    assert isinstance(data, bytes)
    (desk.folder / "first.pb").unlink()
    return data
