"""set-shape: what is accepted runs; and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.ask_tensorflow import Answers, ShapesTold
from support.desk import Desk
from support.graphs import FLOAT, identity, placeholder
from support.setting_shapes import classifier, edited, shape_attr

from gdsurgeon.analysis.shapes.fit import trial_shape
from gdsurgeon.edits.set_shape import set_shape
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.graph.placeholders import placeholder_shape
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.tensor import from_numpy


@pytest.mark.tensorflow
class TestExecution:
    @staticmethod
    def outputs(worker: Worker, data: bytes, path: Path, value: Any) -> Any:
        path.write_bytes(data)
        worker.load("m", path=str(path))
        worker.run("m", "r", {"x": from_numpy(value)}, ["y"])
        found = worker.tensor("r", 0).result(60)
        return np.frombuffer(found.tobytes(), np.float32).reshape(found.shape)

    @pytest.mark.parametrize("target", [(1, 12), (1, -1)])
    def test_a_fixed_batch_gives_each_row_what_it_was_alone(
        self, worker: Worker, tmp_path: Path, target: tuple[int, ...]
    ) -> None:
        original = graphs.graph_bytes(*classifier(target=target, outputs=True))
        found = from_bytes(original)
        edited(found, "x", (-1, 4, 6, 2), fix_batch=True)
        images = np.random.default_rng(3).random((3, 4, 6, 2), np.float32)
        alone = [self.outputs(worker, original, tmp_path / "a.pb", images[i : i + 1]) for i in range(3)]
        for batch in (1, 3):
            together = self.outputs(worker, graphs.written(found), tmp_path / "b.pb", images[:batch])
            assert together.shape == (batch, 5)
            np.testing.assert_allclose(together, np.concatenate(alone[:batch]), rtol=1e-6)

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


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x=?,3", (-1, 3)),
        ("x=-1,None", (-1, -1)),
        ("x=[4,3]", (4, 3)),
        ("x=...", None),
        ("x=", ()),
        ("x=[]", ()),
    ],
)
def test_shapes_on_the_command_line(text: str, shape: Shape, desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    assert desk.run("set-shape", "model.pb", text, "-q", "--validate", "structure", "-o", "out.pb").code == 0
    assert shape_attr(load("out.pb"), "x") == shape


def test_what_is_no_shape_on_the_command_line(desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    for text, code in (("x=2,a", "bad-value"), ("x", "not-a-pair")):
        desk.refused(2, code, "set-shape", "model.pb", text, value=text.removeprefix("x="))
