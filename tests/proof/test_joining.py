"""What several edits promise together: the joined claims hold where those of each hold, and say as much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support import every_edit, proving
from support.desk import check_error
from support.every_edit import FUSED, beside
from support.graphs import Builder, attr, const, define, node, placeholder, typed
from support.mutants import Bench, check_share
from support.proving import postprocessing, preprocessing
from support.several import Edit, carried_out, pieces_of, proven_pieces

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.functions import in_functions
from gdsurgeon.errors import ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Outcome
from gdsurgeon.proof.executor import EDITED, ORIGINAL, Executor
from gdsurgeon.proof.pieces import joined_steps, prove_pieces
from gdsurgeon.proof.settings import Settings
from gdsurgeon.select import Selection

Spoil = Callable[[Graph], object]
SMALL = every_edit.built(proving.model)
LARGE = every_edit.built(every_edit.model)


def body(factor: float = 2.0, *shape: int, name: str = "in_", result: str = "out_") -> Graph:
    """A graph that multiplies."""
    x = placeholder(name, "float32", shape or (1, 2))
    b = Builder(x, const("factor", factor), typed("Mul", result, name, "factor"))
    return b.graph("body.pb")


def named(*pairs: tuple[str, str]) -> Edit:
    return lambda g: gds.rename(g, pairs)


def inserted(tensor: str, factor: float = 2.0, *shape: int) -> Edit:
    return lambda g: gds.insert(g, tensor, body(factor, *shape))


def frozen(name: str, value: str) -> Edit:
    return lambda g: gds.freeze_input(g, {name: value})


def bypassed(*names: str) -> Edit:
    return lambda g: gds.remove(g, Selection(nodes=names), bypass=True)


def imported(tensor: str, placeholder: str, scope: str, other: Graph) -> Edit:
    return lambda g: gds.import_graph(g, other, connect=[(tensor, placeholder)], scope=scope)


def shaped(name: str, *dims: int) -> Edit:
    return lambda g: gds.set_shape(g, [(name, dims)], batch_check=False)


def behind(name: str) -> Edit:
    return lambda g: gds.add_postprocessing(g, body(name=name, result=f"{name}_postprocessed"))


def in_outer(edit: Edit) -> Edit:
    return lambda g: in_functions(g, ["outer"], edit)


FUSE: Edit = lambda g: gds.fuse_ops(g, FUSED, "f")  # noqa: E731
WAIT: Edit = lambda g: gds.control_edges(g, add=[("y", "^halves")])  # noqa: E731
PART: Edit = lambda g: gds.extract(g, ["scaled"], ["y", "stored"])  # noqa: E731
ON_CPU: Edit = lambda g: gds.set_device(g, device="/cpu:0", nodes=["sum"])  # noqa: E731
INLINE: Edit = lambda g: gds.inline(g)  # noqa: E731


class Row(NamedTuple):
    """Edits of a model, and how many of them are proven together."""

    model: bytes
    edits: Sequence[Edit]
    pieces: list[int]


ROWS = {
    "two graphs in front of one input": Row(SMALL, [preprocessing, preprocessing], [2]),
    "two graphs behind one output": Row(SMALL, [postprocessing, behind("y")], [2]),
    "renames around both": Row(
        SMALL, [named(("stored", "kept")), preprocessing, postprocessing, named(("x", "input"), ("y", "res"))], [4]
    ),
    "two bodies at one tensor": Row(SMALL, [inserted("scaled"), inserted("scaled", 3.0)], [2]),
    "three bodies at one tensor": Row(SMALL, [inserted("scaled"), inserted("scaled", 3.0), inserted("scaled")], [3]),
    "a body behind, and then before": Row(SMALL, [inserted("difference"), inserted("scaled", 3.0)], [2]),
    "a body before, and then behind": Row(SMALL, [inserted("scaled"), inserted("difference", 3.0)], [2]),
    "a body at a body": Row(SMALL, [inserted("scaled"), inserted("out_", 3.0)], [1, 1]),
    "a body behind what is frozen": Row(SMALL, [frozen("scale", "[5,6]"), inserted("scaled")], [2]),
    "what is before a body is frozen": Row(SMALL, [inserted("scaled"), frozen("scale", "[5,6]")], [2]),
    "a body at what was frozen": Row(LARGE, [frozen("t/weights", "[[1,2,3],[4,5,6]]"), inserted("z")], [2]),
    "a body at a constant that was frozen": Row(LARGE, [frozen("t/scale", "[5,6]"), inserted("t/scale", 2.0, 2)], [2]),
    "two bodies at a constant that was frozen": Row(LARGE, [
        frozen("t/scale", "[5,6]"), inserted("t/scale", 2.0, 2), inserted("t/scale", 5.0, 2)], [3]),
    "a constant under a body is frozen": Row(LARGE, [inserted("t/scale", 2.0, 2), frozen("t/scale", "[5,6]")], [2]),
    "frozen twice": Row(SMALL, [frozen("scale", "[5,6]"), frozen("scale", "[7,6]")], [2]),
    "frozen and renamed": Row(SMALL, [frozen("scale", "[5,6]"), named(("scale", "factor"))], [2]),
    "an input with a graph in front is frozen": Row(SMALL, [preprocessing, frozen("x", "[[1,2,3,4]]")], [2]),
    "a constant of what was added is frozen": Row(SMALL, [preprocessing, frozen("seven", "6")], [1, 1]),
    "names change places": Row(
        SMALL, [named(("y", "total"), ("total", "y")), postprocessing, named(("y", "z"))], [3]
    ),
    "names change places by a third": Row(
        SMALL, [named(("y", "yy")), named(("total", "y")), named(("yy", "total"))], [3]
    ),
    "a name that was freed": Row(SMALL, [bypassed("scaled"), named(("difference", "scaled"))], [1, 1]),
    "a name that was freed, later": Row(
        SMALL, [bypassed("scaled"), named(("y", "res")), named(("difference", "scaled"))], [2, 1]
    ),
    "bypassed, and renamed": Row(SMALL, [bypassed("scaled"), named(("difference", "d"), ("y", "res"))], [2]),
    "bypassed in a row, and renamed": Row(SMALL, [bypassed("scaled", "y"), named(("x", "input"))], [2]),
    "one bypassed in front of another": Row(
        SMALL,
        [bypassed("y"), lambda g: gds.remove(g, Selection(nodes=("difference",)), bypass=True, bypass_input=0)],
        [1, 1],
    ),
    "one bypassed after another": Row(SMALL, [bypassed("scaled"), bypassed("y")], [2]),
    "a body behind what is bypassed": Row(SMALL, [bypassed("scaled"), inserted("difference")], [2]),
    "a body at what is read instead": Row(SMALL, [bypassed("scaled"), inserted("halves:1")], [2]),
    "bypassed before a body": Row(SMALL, [inserted("difference"), bypassed("scaled")], [2]),
    "a body is bypassed": Row(SMALL, [inserted("difference"), bypassed("out_")], [1, 1]),
    "a part, in the middle": Row(SMALL, [named(("x", "input")), PART, named(("scaled", "s"))], [3]),
    "a body at a cut": Row(SMALL, [PART, inserted("scaled")], [1, 1]),
    "a body at what was made an output": Row(
        SMALL, [lambda g: gds.extract(g, ["x"], ["scaled", "y"]), inserted("scaled")], [1, 1]
    ),
    "control edges and names": Row(SMALL, [WAIT, named(("halves", "h")), postprocessing], [3]),
    "a body at a raw value": Row(SMALL, [postprocessing, inserted("y_raw"), named(("y_raw", "q"))], [3]),
    "an open batch, and a graph in front": Row(SMALL, [shaped("x", -1, 4), preprocessing], [2]),
    "functions are inlined, and a body follows": Row(LARGE, [INLINE, inserted("t/shifted"), named(("y", "yy"))], [3]),
    "a body, and functions are inlined": Row(LARGE, [inserted("t/shifted"), INLINE, named(("y", "yy"))], [3]),
    "a body at what came from a function": Row(LARGE, [INLINE, inserted("t/turned/r")], [1, 1]),
    "fused and renamed": Row(LARGE, [FUSE, named(("f", "g"), ("y", "yy"))], [2]),
    "a body at what was fused": Row(LARGE, [FUSE, inserted("f")], [1, 1]),
    "names in a function": Row(LARGE, [in_outer(named(("minus", "m"))), ON_CPU, in_outer(named(("m", "minus")))], [3]),
    "a graph next to it, and a body at its input": Row(
        LARGE, [lambda g: gds.import_graph(g, beside(), connect=[("z", "in")]), inserted("z"), named(("out", "o"))], [3]
    ),
    "a graph that reads what is in another": Row(
        LARGE, [imported("z", "in", "p", beside()), imported("p/twice", "in_", "q", body(2.0, 1, 1))], [2]
    ),
    "a graph that reads what another gives": Row(
        LARGE, [imported("z", "in", "p", beside()), imported("p/out", "in_", "q", body())], [2]
    ),
    "values change on purpose, between names": Row(
        SMALL, [named(("y", "res")), lambda g: gds.reroute(g, [("scaled", "halves")], only="^difference$"),
                named(("res", "y"))], [1, 1, 1]
    ),
}  # fmt: skip


def prove_row(executor: Executor, name: str) -> None:
    """Proves a row as it is: raises where it is found wrong."""
    row = ROWS[name]
    steps = carried_out(row.model, row.edits)
    pieces = joined_steps(steps)
    assert pieces_of(steps) == row.pieces
    for piece, proof in zip(pieces, proven_pieces(executor, pieces), strict=True):
        assert all(o.comparison is not None and o.comparison.equal for o in proof.compared)
        if len(piece.steps) > 1:
            assert proof.compared


@pytest.mark.parametrize("name", ROWS)
def test_what_is_right_is_proven_together(name: str, executor: Executor) -> None:
    prove_row(executor, name)


# -- what is wrong -----------------------------------------------------------------------------------------------


class Wrong(NamedTuple):
    """Edits of a model, and what is done behind the back of one of them, which its accounting does not see here."""

    model: bytes
    edits: Sequence[Edit]
    place: int
    spoil: Spoil


def other_op(name: str, op: str) -> Spoil:
    return lambda g: g.set_op(g[name], op)


def other_value(name: str) -> Spoil:
    return partial(_scale_named, name)


def _scale_named(name: str, graph: Graph) -> None:
    value = graph[name].attr("value")
    scaled = (np.frombuffer(value.tensor.tensor_content, np.float32) * 2 if value.tensor.tensor_content
              else np.array(value.tensor.float_val, np.float32) * 2)  # fmt: skip
    del value.tensor.float_val[:]
    value.tensor.tensor_content = scaled.astype(np.float32).tobytes()
    graph.set_attr(graph[name], "value", value.SerializeToString())


def another_raw(graph: Graph) -> None:
    """The tensor `y_raw` that is read after the model differs from the tensor that the model reads itself."""
    graph.rename({graph["y_raw"]: "hidden"})
    types = {"T": attr("float32")}
    other = graph.add("y_raw", "Abs", [graph["difference"].output], attrs=types)
    graph.set_slots({graph["thrice"]: {0: other.output}})


def in_front(graph: Graph) -> EditResult:
    """x -> 2 x - 7, and also -2 x."""
    pre = proving.pre()
    pre.typed("Neg", "besides", "twice")
    return gds.add_preprocessing(graph, pre.graph("pre.pb"))


def another_read(name: str, reader: str) -> Spoil:
    """READER alone reads another tensor, which is called NAME."""

    def spoil(graph: Graph) -> None:
        node = graph[name]
        graph.rename({node: f"{name}_hidden"})
        types = {"T": attr("float32")}
        other = graph.add(name, "Neg", [node.inputs[0]], attrs=types)
        graph.set_slots({graph[reader]: {0: other.output}})

    return spoil


WRONG = {
    "a constant of what is in front": Wrong(SMALL, [preprocessing, named(("x", "input"))], 0, other_value("seven")),
    "a constant of what is behind": Wrong(SMALL, [postprocessing, named(("y", "res"))], 0, other_value("ten")),
    "a constant of a body": Wrong(SMALL, [inserted("scaled"), named(("y", "res"))], 0, other_value("factor")),
    "a constant of a body, later": Wrong(SMALL, [inserted("scaled"), named(("y", "res"))], 1, other_value("factor")),
    "what a body reads": Wrong(SMALL, [inserted("scaled"), named(("y", "res"))], 0, other_op("scaled", "AddV2")),
    "what a body reads, with a body before it": Wrong(
        SMALL, [inserted("difference"), inserted("halves:1", 3.0)], 0, other_op("difference", "AddV2")),
    "what a body reads, with what is frozen before it": Wrong(
        SMALL, [frozen("scale", "[5,6]"), inserted("difference")], 1, other_op("difference", "AddV2")),
    "a value that is served raw": Wrong(SMALL, [postprocessing, named(("stored", "kept"))], 0, another_raw),
    "a value that was frozen": Wrong(SMALL, [frozen("scale", "[5,6]"), named(("y", "res"))], 0, other_value("scale")),
    "a value that was frozen, renamed": Wrong(
        SMALL, [frozen("scale", "[5,6]"), named(("scale", "factor"))], 1, other_value("factor")),
    "what two bodies read": Wrong(
        SMALL, [inserted("scaled"), inserted("scaled", 3.0)], 0, other_op("scaled", "AddV2")
    ),
    "what else came with what is in front": Wrong(
        SMALL, [in_front, named(("y", "res"))], 0, other_op("besides", "Abs")
    ),
    "what a graph reads that is in another": Wrong(
        LARGE,
        [imported("z", "in", "p", beside()), imported("p/twice", "in_", "q", body(2.0, 1, 1))],
        1,
        another_read("p/twice", "q/out_"),
    ),
    "what only a call gave": Wrong(LARGE, [INLINE, named(("y", "yy"))], 0, other_op("t/told/r", "AddV2")),
    "what only a call gave, with a body": Wrong(LARGE, [INLINE, inserted("z")], 0, other_op("t/told/r", "AddV2")),
    "an output behind two": Wrong(SMALL, [preprocessing, postprocessing], 1, other_op("total", "AddV2")),
    "an output behind a part": Wrong(SMALL, [PART, named(("scaled", "s"))], 1, other_op("y", "Abs")),
    "names that were to change places": Wrong(
        SMALL, [named(("y", "total"), ("total", "y")), named(("x", "input"))], 0,
        lambda g: g.rename({g["total"]: "y", g["y"]: "total"})),
    "what is put first in a loop": Wrong(
        LARGE, [inserted("z"), lambda g: gds.import_graph(g, beside(), connect=[("z", "in")], scope="q")], 1,
        other_op("q/twice", "AddV2")),
}  # fmt: skip


def prove_wrong(executor: Executor, name: str) -> None:
    """Tries to prove what is wrong, together: raises ValidationError where it is found."""
    wrong = WRONG[name]
    steps = carried_out(wrong.model, wrong.edits, {wrong.place: wrong.spoil}, check=False)
    pieces = joined_steps(steps)
    assert len(pieces) == 1
    proven_pieces(executor, pieces)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_by_running_alone(name: str, executor: Executor) -> None:
    with pytest.raises(ValidationError):
        prove_wrong(executor, name)


class Joining:
    """The joined claims of the edits of a row. They are proven if they differ from those of the first call."""

    def __init__(self, executor: Executor, name: str) -> None:
        self.prove = partial(prove_row if name in ROWS else self.refuse, executor, name)
        wrong = WRONG.get(name)
        spoils = {wrong.place: wrong.spoil} if wrong is not None else {}
        row = ROWS.get(name) or WRONG[name]
        self.steps = carried_out(row.model, row.edits, spoils, check=wrong is None)
        self.right: object = None

    @staticmethod
    def refuse(executor: Executor, name: str) -> None:
        with suppress(ValidationError):
            prove_wrong(executor, name)
            raise AssertionError(name)

    def __call__(self) -> bool:
        claimed = [piece.result.claims for piece in joined_steps(self.steps)]
        self.right = self.right or claimed
        if claimed != self.right:
            self.prove()
        return claimed == self.right


def test_mistakes_are_caught(executor: Executor) -> None:
    cases = {name: Joining(executor, name) for name in [*ROWS, *WRONG]}
    check_share(Bench(cases, tried=8, one_is_enough=True, seconds=1), "proof.pieces")


def operated(folder: Path, *edits: Edit) -> Outcome:
    path = folder / "model.pb"
    path.write_bytes(every_edit.built(proving.model))
    return gds.operate(str(path), edits, out=str(folder / "out.pb"))


@pytest.mark.tensorflow
def test_what_the_first_graph_does_not_take_is_proven_of_each(tmp_path: Path) -> None:
    """The first graph takes one row alone, the last one two: only what is between takes both."""
    outcome = operated(tmp_path, shaped("x", -1, 4), shaped("x", 2, 4))
    assert pieces_of(outcome.steps) == [2]
    assert outcome.proof.statement == "edit 1: edited(x) == original(x); edit 2: edited(x) == original(x)"
    assert (tmp_path / "out.pb").exists()


@pytest.mark.tensorflow
def test_the_edit_that_is_wrong_is_named(tmp_path: Path) -> None:
    def wrong(graph: Graph) -> EditResult:
        result = gds.rename(graph, [("total", "sum")])
        graph.set_op(graph["sum"], "AddV2")
        result.intent.changed.append("sum")  # it reports so without a request
        result.asked = None
        return result

    with pytest.raises(ValidationError) as error:
        operated(tmp_path, proving.renaming, wrong, lambda g: gds.rename(g, [("sum", "all")]))
    check_error(error.value, "differs", {"place": "edit 2"})
    assert not (tmp_path / "out.pb").exists()


@pytest.mark.tensorflow
def test_the_edit_that_crashes_tensorflow_is_named() -> None:
    def crashing(graph: Graph) -> EditResult:
        result = gds.rename(graph, [("y", "z")])
        graph.functions.add(define("endless", {}, {}, node("again", "endless")))
        graph.add("call", "endless")
        return result

    model = Builder(placeholder("x", "float32", (1, 3)), typed("Neg", "y", "x")).bytes()
    steps = carried_out(model, [named(("x", "w")), crashing], check=False)
    with Executor(Settings()) as executor:
        executor.load_graph(ORIGINAL, steps[0].before)

        def load_last() -> None:
            executor.load_graph(EDITED, steps[-1].after)

        with pytest.raises(ValidationError) as caught:
            prove_pieces(executor, steps, load_last, Overrides(), each=False)
    assert (caught.value.code, caught.value.facts["place"]) == ("crashed", "edit 2")
