"""Gradients are those of tf.compat.v1.gradients, as TensorFlow by itself finds: their bits, and the memory in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.aside import Aside
from support.published import ABSENT, FOLDER

import gdsurgeon as gds
from gdsurgeon.proof.models.trace import peak_bytes
from gdsurgeon.runtime.differentiation.differentiator import Differentiator

pytestmark = [pytest.mark.slow, pytest.mark.models, pytest.mark.tensorflow]
published = pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)

MIB = 1 << 20
MOST_ERROR = 1e-5
"""Relative L2 error of a gradient where Grappler rewrites both graphs, each in its own way."""

Shapes = dict[str, tuple[int, ...]]


class Variant(NamedTuple):
    """A graph with gradients: where it is, the nodes that hold them, and the facts of the plan."""

    path: Path
    results: dict[str, str]
    plan: dict[str, Any]

    @property
    def again(self) -> list[str]:
        """The nodes that are computed again."""
        return list(self.plan["recomputed"])


class Subject(NamedTuple):
    """What is differentiated: the sum of YS of a graph, with respect to XS and all weights.

    Attributes:
        feeds: the shapes of what it is fed.
        batch: how many times as large the batch is that is planned for.
    """

    path: Path
    ys: Sequence[str]
    xs: Sequence[str]
    feeds: Shapes
    grad_ys: Sequence[str] = ()
    batch: int = 1

    def variant(self, asked: Differentiator, out: Path, **manner: Any) -> Variant:
        """Adds gradients; what comes into the graph is under their scope, and nothing there becomes another op."""
        graph = gds.load(str(self.path))
        before = {node.name: node.op for node in graph.nodes()}
        made = gds.add_gradients(
            graph,
            self.ys,
            self.xs,
            weights=True,
            grad_ys=self.grad_ys,
            shapes={name: (self.batch * shape[0], *shape[1:]) for name, shape in self.feeds.items()},
            differentiator=asked,
            **manner,
        )
        graph.save(str(out))
        facts = made.facts["gradients"]
        after = {node.name: node.op for node in gds.load(str(out)).nodes()}
        added = after.keys() - before.keys()
        assert [name for name in added if not name.startswith(f"{facts['scope']}/")] == []
        assert {name: after.get(name) for name in before} == before
        assert added == set(made.intent.added) and added >= set(facts["results"].values())
        plan = facts.get("plan", {})
        assert before.keys() >= set(plan.get("recomputed", ()))
        return Variant(out, facts["results"], plan)

    def compare(
        self, reference: Aside, variants: Mapping[str, Variant], deployed: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Asserts that all variants give what TensorFlow does; gives back what it says of its own gradients.

        Grappler is on for those that are DEPLOYED (all of them where none is named), beside a run where it is off.
        """
        sources = [list(variant.results) for variant in variants.values()]
        assert all(names == sources[0] for names in sources)
        answer = reference.ask(
            "compare",
            original=str(self.path),
            ys=tensors(self.ys),
            xs=tensors(sources[0]),
            grad_ys=tensors(self.grad_ys),
            feeds={f"{name}:0": shape for name, shape in self.feeds.items()},
            edited=[
                (str(variant.path), list(variant.results.values()), name in (deployed or variants))
                for name, variant in variants.items()
            ],
        )
        assert answer["unsteady"] == []
        edits = dict(zip(variants, answer["edits"], strict=True))
        assert {name: edit["different"] for name, edit in edits.items()} == {name: [] for name in variants}
        errors = {(name, x): error for name, edit in edits.items() for x, error in edit["errors"].items()}
        assert {key: error for key, error in errors.items() if not error <= MOST_ERROR} == {}
        given = set(tensors(self.xs))
        assert set(answer["weights"]) - given == set(tensors(sources[0])) - given
        return answer


class Workshop:
    """Makes models and variants of them in one folder."""

    def __init__(self, folder: Path, asked: Differentiator, reference: Aside) -> None:
        self.folder, self.asked, self.reference = folder, asked, reference

    def model(self, name: str) -> Path:
        path = self.folder / f"{name}.pb"
        self.reference.ask("make", model=name, path=str(path))
        return path

    def variants(self, subject: Subject, *modes: str) -> dict[str, Variant]:
        return {mode: self.variant(subject, checkpoints=mode) for mode in modes}

    def variant(self, subject: Subject, **manner: Any) -> Variant:
        out = self.folder / f"variant_{len(list(self.folder.iterdir()))}.pb"
        return subject.variant(self.asked, out, **manner)

    def within_budget(self, subject: Subject, part: float, plain: int) -> Variant:
        """A variant that takes at most PART of PLAIN bytes, as predicted."""
        found = self.variant(subject, budget=part * plain / MIB)
        assert found.plan["predicted_peak_bytes"] <= part * plain
        assert found.again
        return found


@pytest.fixture(scope="module")
def reference() -> Iterator[Aside]:
    with Aside("support.gradient_server") as process:
        yield process


@pytest.fixture
def workshop(tmp_path: Path, differentiator: Differentiator, reference: Aside) -> Workshop:
    return Workshop(tmp_path, differentiator, reference)


def tensors(names: Sequence[str]) -> list[str]:
    """The names of tensors as TensorFlow spells them."""
    return [name if ":" in name else f"{name}:0" for name in names]


def nodes_with(path: Path, op: str) -> list[str]:
    return [node.name for node in gds.load(str(path)).nodes() if node.op == op]


def test_mobilenet_from_the_gradient_of_its_softmax(workshop: Workshop) -> None:
    path = workshop.model("MobileNetV2")
    (softmax,) = nodes_with(path, "Softmax")
    feeds: Shapes = {"image": (2, 64, 64, 3), "grad_ys": (2, 1000)}
    subject = Subject(path, [softmax], ["image"], feeds, grad_ys=["grad_ys"], batch=8)
    variants = workshop.variants(subject, "none", "memory")
    assert variants["memory"].again
    answer = subject.compare(workshop.reference, variants, deployed=["memory"])
    assert answer["zeros"] == [] and len(answer["weights"]) > 150


def test_resnet_from_its_logits(workshop: Workshop) -> None:
    path = workshop.model("ResNet50")
    (softmax,) = nodes_with(path, "Softmax")
    logits = gds.load(str(path))[softmax].inputs[0].name
    subject = Subject(path, [logits], ["image"], {"image": (2, 64, 64, 3)}, batch=8)
    variants = workshop.variants(subject, "speed")
    assert variants["speed"].again
    answer = subject.compare(workshop.reference, variants)
    assert answer["zeros"] == [] and len(answer["weights"]) > 200


def test_transformer_with_the_sums_of_many_gradients(workshop: Workshop) -> None:
    subject = Subject(workshop.model("transformer"), ["logits"], ["x"], {"x": (8, 16, 32)})
    variants = workshop.variants(subject, "none", "memory", "speed")
    variants["budget"] = workshop.within_budget(subject, 0.7, variants["memory"].plan["predicted_plain_peak_bytes"])
    variants["given"] = workshop.variant(subject, checkpoints=["attended", "block_1"])
    assert max(len(node.inputs) for node in gds.load(str(variants["none"].path)).nodes() if node.op == "AddN") >= 4
    assert all(variants[name].again for name in ("memory", "speed", "given"))
    assert subject.compare(workshop.reference, variants)["zeros"] == []


@published
def test_unet(workshop: Workshop) -> None:
    feeds: Shapes = {"input": (1, 256, 256, 3)}
    subject = Subject(FOLDER / "unet_person_08.pb", ["output/BiasAdd"], ["input"], feeds)
    variants = workshop.variants(subject, "none", "memory", "speed")
    assert variants["memory"].again and variants["speed"].again
    subject.compare(workshop.reference, variants)


@published
def test_dense_layers(workshop: Workshop) -> None:
    subject = Subject(FOLDER / "t2o_fc_layers.pb", ["output"], ["X"], {"X": (5, 784)})
    subject.compare(workshop.reference, workshop.variants(subject, "none", "memory", "speed"))


@published
def test_lstm_in_a_while_loop(workshop: Workshop) -> None:
    subject = Subject(FOLDER / "lstm_tf2_frozen_lib.pb", ["Identity"], ["input_1"], {"input_1": (4, 5, 3)})
    subject.compare(workshop.reference, workshop.variants(subject, "none", "memory", "speed"))


@pytest.mark.parametrize("target", ["scores", "tied"])
def test_embedding(workshop: Workshop, target: str) -> None:
    feeds: Shapes = {"left": (6, 16), "right": (6, 16), "features": (6, 8)}
    subject = Subject(workshop.model("embedding"), [target], ["table", "features"], feeds)
    answer = subject.compare(workshop.reference, workshop.variants(subject, "none", "memory", "speed"))
    assert answer["slices"] == (["table:0"] if target == "scores" else [])


def test_checkpoints_save_the_memory_that_is_predicted(workshop: Workshop) -> None:
    feeds: Shapes = {"x": (512, 512)}
    subject = Subject(workshop.model("tanh_chain"), ["tanh_199"], ["x"], feeds)
    variants = workshop.variants(subject, "none", "memory")
    peaks = {}
    for name, variant in variants.items():
        metadata = variant.path.with_suffix(".metadata")
        fetches = tensors(list(variant.results.values()))
        shapes = {"x:0": feeds["x"]}
        workshop.reference.ask("trace", path=str(variant.path), fetches=fetches, feeds=shapes, metadata=str(metadata))
        peaks[name] = sum(peak_bytes(metadata.read_bytes()).values())
    plan = variants["memory"].plan
    assert peaks["none"] == pytest.approx(plan["predicted_plain_peak_bytes"], rel=0.15)
    assert peaks["memory"] == pytest.approx(plan["predicted_peak_bytes"], rel=0.15)
    assert peaks["none"] >= 5 * peaks["memory"]
    subject.compare(workshop.reference, variants)
