"""set-shape: set and cleared shapes, misfits, repairs by --fix-batch; accepted results run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.aside import Answers, ShapesTold
from support.desk import Desk, check_error
from support.expecting import expect, refused
from support.graphs import (
    FLOAT,
    INT32,
    add,
    const,
    graph,
    identity,
    node,
    placeholder,
    relu,
    scalar,
    tensor,
    typed,
    versions,
)
from support.running import run

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.analysis.shapes.fit import trial_shape
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.compare.intent import Rewired
from gdsurgeon.edits.claims import Claim, EditResult, SameGiven, SameOutputs, Unchanged
from gdsurgeon.edits.set_shape import MOST_DETAILS, set_shape
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import Shape, attr_value, shape_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.graph.node import placeholder_shape

STRIDES = b"\x0a\x06\x1a\x04\x01\x02\x02\x01"  # [1, 2, 2, 1]


def reshape(name: str, source: str, target: str, **attrs: Any) -> bytes:
    return typed("Reshape", name, source, target, Tshape=INT32, **attrs)


def weights(name: str, *shape: int) -> bytes:
    values = np.random.default_rng(len(name)).random(shape, np.float32)
    return const(name, values.reshape(-1).tolist(), FLOAT, shape)


def matmul(name: str, a: str, b: str) -> bytes:
    return typed("MatMul", name, a, b)


def classifier(batch: int = 1, target: tuple[int, ...] = (1, 12), outputs: bool = False) -> list[bytes]:
    """A convolution, flattened to a shape with the batch in it, and weights behind that."""
    extra = {"_output_shapes": [(batch, 4, 6, 2)]} if outputs else {}
    more = {"_output_shapes": [(batch, 5)]} if outputs else {}
    return [
        placeholder("x", FLOAT, (batch, 4, 6, 2)),
        weights("filter", 1, 1, 2, 2),
        typed("Conv2D", "conv", "x", "filter", strides=STRIDES, padding="SAME"),
        relu("relu", "conv"),
        const("shape", list(target), INT32),
        reshape("flat", "relu", "shape"),
        weights("w", 12, 5),
        matmul("fc", "flat", "w"),
        identity("y", "fc", **more),
        identity("size", "x", **extra),
    ]


def misfits(found: Graph, shapes: list[tuple[str, Shape]], **options: Any) -> list[dict[str, Any]]:
    """What does not fit SHAPES, in the facts of the error, which leaves FOUND unchanged; at least one."""
    error = refused(found, "shape-mismatch", lambda g: set_shape(g, shapes, **options))
    assert len(error.details) == min(len(error.facts["misfits"]), MOST_DETAILS + 1)
    out: list[dict[str, Any]] = error.facts["misfits"]
    return out


def shape_attr(found: Graph, name: str) -> Shape:
    return shape_of(graphs.attrs(found, name)["shape"].shape)


def edited(found: Graph, name: str, shape: Shape, **options: Any) -> EditResult:
    result = set_shape(found, [(name, shape)], **options)
    assert shape_attr(found, name) == shape
    assert check(from_bytes(graphs.written(found))).faults == []
    return result


Y = identity("y", "x")


class TestWhatIsSet:
    @pytest.mark.parametrize(
        ("old", "shape"),
        [
            *((placeholder("x", FLOAT, (1, 3)), shape) for shape in ((2, 3), (-1, 3), (-1, -1), (), (0, 3), None)),
            (node("x", "Placeholder", dtype=FLOAT), (2, 3)),
        ],
    )
    def test_the_shape_of_a_placeholder(self, old: bytes, shape: Shape) -> None:
        text = "..." if shape is None else ",".join(map(str, shape))
        result = expect(
            [old, Y],
            lambda g: edited(g, "x", shape),
            [placeholder("x", FLOAT, shape), Y],
            command=f"set-shape x={text}",
        )
        assert result.intent.changed == ["x"]

    def test_an_input_with_a_default(self) -> None:
        default = node("x", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=(2, 3))
        found = graph(weights("d", 2, 3), default, Y)
        (misfit,) = misfits(found, [("x", (4, 3))])
        assert misfit == {"code": "wrong-default", "node": "x", "op": "PlaceholderWithDefault", "shape": (2, 3)}
        edited(found, "x", (-1, 3))

    def test_stated_shapes_behind_the_input_are_taken_away(self) -> None:
        found = graph(
            placeholder("x", FLOAT, (1, 3)),
            node("p", "Placeholder", dtype=FLOAT, shape=(1, 3), _output_shapes=[(1, 3)]),
            identity("a", "p", _output_shapes=[(1, 3)], _note=3),
            identity("b", "a", _output_shapes=[(1, 3)]),
            identity("waits", "x", "^b", _output_shapes=[(1, 3)]),
            node("c", "MyOp", ["b"], _output_shapes=[(1, 3)]),
        )
        before = graphs.bodies_by_name(found)
        result = edited(found, "p", (2, 3))
        after = graphs.bodies_by_name(found)
        assert {name for name in after if after[name] != before[name]} == {"p", "a", "b", "c"}
        assert [name for name in after if "_output_shapes" in graphs.attrs(found, name)] == ["waits"]
        assert graphs.attrs(found, "a")["_note"].i == 3
        assert result.intent.changed == ["p", "a", "b", "c"]
        (note,) = result.notes
        check_error(note, "shapes-removed", {"nodes": ["p", "a", "b", "c"]})

    @pytest.mark.parametrize(
        ("old", "new", "claim", "rows"),
        [
            ((1, 3), (-1, 3), SameOutputs, [(3, False)]),
            ((1, 3), (-1, -1), SameOutputs, [(3, False)]),
            ((1, 3), None, SameOutputs, [(3, False)]),
            ((-1, 3), (4, 3), SameGiven, []),
            (None, (4, 3), SameGiven, []),
            ((1, 3), (2, 3), Unchanged, [(2, False)]),
            ((1, 3), (-1, 1, 3), Unchanged, []),
            ((1, 3), (5, 3), Unchanged, [(5, False)]),
            ((2, 3), (6, 3), Unchanged, [(3, False)]),
            ((1, 3), (-1, 4), Unchanged, [(3, True)]),
            ((1, 3), (2, 4), Unchanged, []),
            ((2, 3), (3, 3), Unchanged, []),
            ((4, 3), (1, 3), Unchanged, []),
        ],
    )
    def test_the_claims(self, old: Shape, new: Shape, claim: type[Claim], rows: list[tuple[int, bool]]) -> None:
        """Feeds that fit the old shape or the new shape fit both; or no such feed exists."""
        records = [placeholder("x", FLOAT, old), Y]
        first, *others = edited(graph(*records), "x", new).claims
        assert (type(first), [(each.rows, each.alone) for each in others]) == (claim, rows)
        assert [type(each) for each in set_shape(graph(*records), [("x", new)], batch_check=False).claims] == [claim]


def unfit(name: str, op: str, shapes: list[Shape], unmoved: list[str]) -> dict[str, Any]:
    return {"code": "shape-mismatch", "node": name, "op": op, "shapes": shapes, "unmoved": unmoved}


class TestRefused:
    @pytest.mark.parametrize(
        ("shapes", "code", "facts"),
        [
            ([("xx", (2, 3))], "no-such-node", {"node": "xx"}),
            ([("x:1", (2, 3))], "no-such-node", {"node": "x:1"}),
            ([("flat", (2, 3))], "no-such-input", {"node": "flat", "op": "Reshape", "inputs": ["x"]}),
            ([("x", (1, 4, 6, 2))], "nothing-to-do", {}),
            ([], "nothing-to-do", {}),
            ([("x", (1, 2)), ("x:0", (2, 2))], "given-twice", {"node": "x", "shapes": [(1, 2), (2, 2)]}),
            ([("x", (1, -2))], "bad-value", {"shape": (1, -2)}),
        ],
    )
    def test_what_is_no_shape_of_an_input(self, shapes: Any, code: str, facts: dict[str, Any]) -> None:
        refused(graph(*classifier()), code, lambda g: set_shape(g, shapes), **facts)

    @pytest.mark.parametrize(
        ("old", "producer", "new", "code"),
        [
            ((1, 3), 23, (), "old-producer"),
            ((1, 3), 24, (), ""),
            ((), 23, (), "old-producer"),
            ((), 23, None, "nothing-to-do"),
            ((), 24, None, ""),
            (None, 24, None, "nothing-to-do"),
        ],
    )
    def test_an_old_scalar_is_an_unknown_shape(self, old: Shape, producer: int, new: Shape, code: str) -> None:
        found = graph(placeholder("x", FLOAT, old), Y, trailer=versions(producer))
        if not code:
            edited(found, "x", new)
            return
        facts = {"node": "x", "expected": 24, "found": 23} if code == "old-producer" else {}
        refused(found, code, lambda g: set_shape(g, [("x", new)]), **facts)

    @pytest.mark.parametrize("fix", [False, True])
    @pytest.mark.parametrize("shape", [(1, 8, 6, 2), (-1, 8, 6, 2), (1, -1, 6, 2)])
    def test_the_size_of_an_image_in_a_reshape(self, shape: Shape, fix: bool) -> None:
        edit = partial(set_shape, shapes=[("x", shape)], fix_batch=fix)
        error = refused(graph(*classifier()), "shape-mismatch", edit)
        ((code, name, target),) = ((each["code"], each["node"], each["target"]) for each in error.facts["misfits"])
        assert (code, name, target) == ("baked-batch" if shape[0] < 0 else "wrong-size", "flat", (1, 12))  # type: ignore[index]
        assert hint_of(error) is None

    @pytest.mark.parametrize(("batch", "tried"), [(1, 2), (-1, -1)])
    def test_rows_of_another_length_do_not_become_more_rows(self, batch: int, tried: int) -> None:
        (misfit,) = misfits(graph(*classifier(batch=batch, target=(-1, 12))), [("x", (-1, 8, 6, 2))])
        wanted = {"node": "flat", "op": "Reshape", "target": (-1, 12), "shape": (tried, 4, 3, 2)}
        assert misfit == {"code": "baked-row", "expected": 12, "found": 24} | wanted

    def test_weights_behind_a_flattened_image(self) -> None:
        records = [
            placeholder("x", FLOAT, (-1, 4, 3)),
            *(const(name, [value], INT32) for name, value in [("zero", 0), ("one", 1), ("minus", -1)]),
            typed("Shape", "n", "x", out_type=INT32),
            typed("StridedSlice", "batch", "n", "zero", "one", "one", kind=INT32, Index=INT32),
            typed("ConcatV2", "shape", "batch", "minus", "axis", kind=INT32, N=2, Tidx=INT32),
            scalar("axis", 0, INT32),
            reshape("flat", "x", "shape"),
            weights("w", 12, 5),
            matmul("fc", "flat", "w"),
        ]
        edited(graph(*records), "x", (7, 4, 3))
        for batch, tried in ((7, 7), (-1, 2)):
            (misfit,) = misfits(graph(*records), [("x", (batch, 8, 3))])
            assert misfit == unfit("fc", "MatMul", [(tried, 24), (12, 5)], ["w"])

    @pytest.mark.parametrize(
        ("op", "inputs", "attrs", "shapes", "unmoved"),
        [
            ("AddV2", ["x", "table"], {}, [(4, 3), (2, 3)], ["table"]),
            ("BroadcastTo", ["x", "pair"], {"Tidx": INT32}, [(4, 3), (2,)], []),
            ("Pack", ["x", "table"], {"N": 2}, [(4, 3), (2, 3)], ["table"]),
            ("Unpack", ["x"], {"num": 2}, [(4, 3)], []),
            ("Split", ["one", "x"], {"num_split": 2}, [], []),
        ],
    )
    def test_constants_of_a_fixed_batch(
        self, op: str, inputs: list[str], attrs: dict[str, Any], shapes: list[Shape], unmoved: list[str]
    ) -> None:
        found = graph(
            placeholder("x", FLOAT, (2, 3)), weights("table", 2, 3), const("pair", [2, 3], INT32),
            scalar("one", 0, INT32), node("y", op, inputs, T=FLOAT, **attrs),
        )  # fmt: skip
        if shapes:
            assert misfits(found, [("x", (-1, 3))]) == [unfit("y", op, shapes, unmoved)]
        else:
            edited(found, "x", (-1, 3))

    def test_a_transposed_convolution(self) -> None:
        found = graph(
            placeholder("x", FLOAT, (1, 2, 2, 3)), weights("filter", 2, 2, 5, 3), const("sizes", [1, 4, 4, 5], INT32),
            typed("Conv2DBackpropInput", "y", "sizes", "filter", "x", strides=STRIDES, padding="SAME"),
        )  # fmt: skip
        wanted = unfit("y", "Conv2DBackpropInput", [(4,), (2, 2, 5, 3), (2, 2, 2, 3)], ["filter"])
        assert misfits(found, [("x", (-1, 2, 2, 3))]) == [wanted]

    def test_what_did_not_fit_before_is_not_told(self) -> None:
        records = [placeholder("x", FLOAT, (2, 3)), weights("w", 5, 4), node("v", "Placeholder", dtype=FLOAT),
                   matmul("y", "v", "w"), weights("a", 3, 7), matmul("broken", "a", "w"),
                   identity("z", "x")]  # fmt: skip
        edited(graph(*records), "x", (4, 3))

    @pytest.mark.parametrize(("old", "new"), [((-1, 4, 6, 2), (4, 4, 6, 2)), (None, (-1, 4, 6, 2))])
    def test_a_batch_that_was_open_may_stay_so_or_not(self, old: Shape, new: Shape) -> None:
        """Without a stated size a batch is tried."""
        records = [placeholder("x", FLOAT, old), *classifier()[1:]]
        (misfit,) = misfits(graph(*records), [("x", new)])
        assert (misfit["code"], misfit["target"]) == ("baked-batch", (1, 12))
        edited(graph(*records), "x", (1, 4, 6, 2))
        edited(graph(*classifier(batch=-1, target=(-1, 12))), "x", (4, 4, 6, 2))

    def test_the_minus_one_may_take_the_batch_in(self) -> None:
        found = graph(placeholder("x", FLOAT, (1, 12)), const("s", [1, -1, 12], INT32), reshape("y", "x", "s"))
        result = edited(found, "x", (-1, 12))
        (warning,) = result.warnings
        facts = {"node": "y", "target": (1, -1, 12), "shape": (2, 12), "found": (1, 2, 12)}
        check_error(warning, "batch-absorbed", facts)

    def test_cuts_that_took_all_are_warned_about(self) -> None:
        found = graph(
            placeholder("x", FLOAT, (1, 8, 3)), const("begin", [0, 0, 0], INT32), const("size", [-1, 8, -1], INT32),
            const("first", [0], INT32), const("one", [1], INT32),
            typed("Slice", "crop", "x", "begin", "size", Index=INT32),
            typed("StridedSlice", "head", "x", "first", "one", "one", Index=INT32, shrink_axis_mask=1),
        )  # fmt: skip
        result = edited(found, "x", (-1, 16, 3))
        crop, head = result.warnings
        check_error(crop, "cuts-off", {"node": "crop", "axis": 1, "took": 8, "takes": 8, "size": 16})
        check_error(head, "takes-one", {"node": "head", "size": 2})

    def test_what_is_not_looked_into_is_told(self) -> None:
        body = graphs.function("f", identity("y", "x"), ret="y:output:0")
        call = graph(placeholder("x", FLOAT, (1, 3)), node("call", "f", ["x"]), graphs.library(body))
        for found, name, shape, where in ((call, "x", (2, 3), "call"), (graph(*graphs.loop()), "n", None, "w/Limit")):
            (warning,) = edited(found, name, shape).warnings
            check_error(warning, "not-followed", {"nodes": [where]})


class TestFixBatch:
    @pytest.mark.parametrize("shape", [(-1, 4, 6, 2), (3, 4, 6, 2)])
    @pytest.mark.parametrize("target", [(1, 12), (1, -1)])
    def test_a_constant_of_its_own_is_changed(self, target: tuple[int, ...], shape: Shape) -> None:
        found = graph(*classifier(target=target))
        before = graphs.bodies_by_name(found)
        result = edited(found, "x", shape, fix_batch=True)
        after = graphs.bodies_by_name(found)
        assert {name for name in after if after[name] != before.get(name)} == {"x", "shape"}
        assert graphs.attrs(found, "shape")["value"] == attr_value(tensor([-1, 12], INT32))
        assert (result.intent.changed, result.intent.added) == (["x", "shape"], [])
        (note,) = result.notes
        check_error(note, "reshaped", {"node": "flat", "old": target, "new": (-1, 12)})

    def test_a_constant_that_others_read_stays(self) -> None:
        found = graph(*classifier(), identity("also", "shape", kind=INT32))
        result = edited(found, "x", (-1, 4, 6, 2), fix_batch=True)
        assert graphs.inputs(found)["flat"] == ["relu", "shape_1"]
        assert graphs.inputs(found)["also"] == ["shape"]
        assert graphs.attrs(found, "shape_1")["value"] == attr_value(tensor([-1, 12], INT32))
        assert graphs.names(found).index("shape_1") == graphs.names(found).index("shape") + 1
        assert result.intent.added == ["shape_1"]
        assert result.intent.rewired == [Rewired("flat", 1, "shape", "shape_1")]
        assert result.intent.changed == ["x"]

    def test_a_shape_that_is_computed_from_constants(self) -> None:
        records = classifier()
        records[4] = typed("Pack", "shape", "one", "twelve", kind=INT32, N=2, axis=0)
        found = graph(*records, scalar("one", 1, INT32), scalar("twelve", 12, INT32))
        result = edited(found, "x", (-1, 4, 6, 2), fix_batch=True)
        assert graphs.inputs(found)["flat"] == ["relu", "flat/shape"]
        assert result.intent.rewired == [Rewired("flat", 1, "shape", "flat/shape")]

    def test_a_constant_in_a_branch_keeps_its_control_input(self) -> None:
        records = classifier()
        records[4] = node("shape", "Const", ["^relu"], device="/cpu:0", dtype=INT32, value=tensor([1, 12], INT32))
        found = graph(*records, identity("also", "shape", kind=INT32))
        edited(found, "x", (-1, 4, 6, 2), fix_batch=True)
        assert graphs.inputs(found)["shape_1"] == ["^relu"]
        assert found["shape_1"].device == "/cpu:0"

    def test_no_size_that_was_only_tried_gets_into_a_constant(self) -> None:
        for target in [(4, -1), (4, -1, 3)]:
            found = graph(
                placeholder("x", FLOAT, (4, -1, 1, 3)), typed("Squeeze", "narrow", "x"),
                const("s", target, INT32), reshape("y", "narrow", "s"),
            )  # fmt: skip
            (misfit,) = misfits(found, [("x", (-1, -1, 1, 3))], fix_batch=True)
            assert (misfit["node"], misfit["target"]) == ("y", target)
        found = graph(*classifier(target=(1, -1))[:-4], identity("y", "flat"))
        (misfit,) = misfits(found, [("x", (-1, -1, 6, 2))], fix_batch=True)
        assert (misfit["code"], misfit["node"], misfit["target"]) == ("baked-batch", "flat", (1, -1))
        edited(found, "x", (-1, 8, 6, 2), fix_batch=True)
        assert graphs.attrs(found, "shape")["value"] == attr_value(tensor([-1, 24], INT32))

    def test_nothing_is_fixed_where_something_else_does_not_fit(self) -> None:
        found = graph(*classifier(), weights("table", 2, 5), add("sum", "fc", "table"))
        assert [each["node"] for each in misfits(found, [("x", (-1, 4, 6, 2))])] == ["flat"]
        found = graph(*classifier(), const("three", [1, 3, 4], INT32), const("z", [4, 1, 3], INT32),
                      reshape("a", "flat", "three"), reshape("moved", "t", "z"), const("order", [2, 0, 1], INT32),
                      typed("Transpose", "t", "a", "order", Tperm=INT32))  # fmt: skip
        (misfit,) = misfits(found, [("x", (-1, 4, 6, 2))], fix_batch=True)
        wanted = {"code": "wrong-size", "node": "moved", "op": "Reshape", "target": (4, 1, 3), "shape": (4, 2, 3)}
        assert misfit == wanted


@pytest.mark.tensorflow
class TestExecution:
    @pytest.mark.parametrize("target", [(1, 12), (1, -1)])
    def test_a_fixed_batch_gives_each_row_what_it_was_alone(self, target: tuple[int, ...]) -> None:
        found = graph(*classifier(target=target, outputs=True))
        edited(found, "x", (-1, 4, 6, 2), fix_batch=True)
        images = np.random.default_rng(3).random((3, 4, 6, 2), np.float32).tolist()
        alone = [run(found.pristine(), "y", x=[image])[0][0] for image in images]
        for batch in (1, 3):
            (together,) = run(found, "y", x=images[:batch])
            np.testing.assert_allclose(together, alone[:batch], rtol=1e-6, strict=True)

    def test_what_is_accepted_runs(self, shapes_told: ShapesTold, random_answers: Answers, tmp_path: Path) -> None:
        """Of random graphs: after an edit that is not refused no op fails that did not fail before."""
        accepted: dict[int, list[str]] = {0: [], 1: []}
        for axis, names in accepted.items():
            for path in sorted(random_answers.folder.glob("*.pb")):
                found = load(str(path))
                inputs = [n for n in found.nodes() if n.op == "Placeholder" and (placeholder_shape(n) or [0])[0] == 4]
                old = {n: placeholder_shape(n) or () for n in inputs}
                new = {n: (*shape[:axis], -1, *shape[axis + 1 :]) for n, shape in old.items()}
                tried = [(n.name, trial_shape(old[n], shape)) for n, shape in new.items()]
                try:
                    set_shape(load(str(path)), [(n.name, shape) for n, shape in new.items()])
                    set_shape(found, tried)
                except EditError:
                    continue
                names.append(path.stem)
                (tmp_path / f"{axis} {path.name}").write_bytes(graphs.written(found))
        answers = shapes_told.of(tmp_path)
        for axis, names in accepted.items():
            assert len(names) > 10
            for name in names:
                answer = answers(f"{axis} {name}")
                assert "error" not in answer, (axis, name, answer["error"])
                assert random_answers(name)["actual"].keys() <= answer["actual"].keys(), (axis, name)


MODEL = graphs.graph_bytes(placeholder("x", FLOAT, (1, 3)), identity("y", "x"))


def test_what_is_no_shape_on_the_command_line(desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    for text, code in (("x=2,a", "bad-value"), ("x", "not-a-pair")):
        desk.refused(2, code, "set-shape", "model.pb", text, value=text.removeprefix("x="))
