"""to-savedmodel: signatures around a graph that stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.desk import Desk, check_refused
from support.paths import FIXTURES

import gdsurgeon as gds
from gdsurgeon.edits.signatures import Named
from gdsurgeon.edits.to_savedmodel import Asset
from gdsurgeon.errors import EditError
from gdsurgeon.wire.messages import message

CLASSIFIER = str(FIXTURES / "classifier.pb")


def saved(desk: Desk, *words: str) -> object:
    """What to-savedmodel makes of the classifier with these words."""
    ran = desk.run("to-savedmodel", CLASSIFIER, *words, "-o", "out", "--validate", "structure")
    assert ran.code == 0, ran.err
    return message("tensorflow.SavedModel").FromString((desk.folder / "out" / "saved_model.pb").read_bytes())


def test_the_graph_is_that_of_the_file_and_what_stands_around_it_names_it(desk: Desk) -> None:
    model = saved(desk, "--input", "picture=image", "--output", "scores=probabilities")
    (meta,) = model.meta_graphs  # type: ignore[attr-defined]
    assert meta.graph_def == message("tensorflow.GraphDef").FromString(Path(CLASSIFIER).read_bytes())
    assert list(meta.meta_info_def.tags) == ["serve"]
    (signature,) = meta.signature_def.values()
    assert {key: info.name for key, info in signature.inputs.items()} == {"picture": "image:0"}
    assert {key: info.name for key, info in signature.outputs.items()} == {"scores": "probabilities:0"}
    assert signature.method_name == "tensorflow/serving/predict"
    assert signature.inputs["picture"].dtype == 1
    assert [dim.size for dim in signature.inputs["picture"].tensor_shape.dim] == [-1, 64, 64, 3]


def test_it_is_read_again_as_it_was_meant(desk: Desk) -> None:
    saved(desk, "--input", "picture=image", "--output", "scores=probabilities", "--input", "b:x=image", "--output",
          "b:y=classes")  # fmt: skip
    serving = gds.load(str(desk.folder / "out")).serving
    assert serving is not None
    found = {key: (dict(served.inputs), dict(served.outputs)) for key, served in serving.called.items()}
    assert found == {
        "b": ({"x": "image"}, {"y": "classes"}),
        "serving_default": ({"picture": "image"}, {"scores": "probabilities"}),
    }


def test_without_names_it_serves_all_inputs_and_outputs(desk: Desk) -> None:
    saved(desk)
    serving = gds.load(str(desk.folder / "out")).serving
    assert serving is not None
    (served,) = serving.called.values()
    assert dict(served.inputs) == {"image": "image"}
    assert set(served.outputs) == {"classes"}


def test_what_a_loader_runs_and_feeds_first(desk: Desk) -> None:
    (desk.folder / "words.txt").write_text("a\nb\n")
    graph = gds.load(str(FIXTURES / "tiny.pbtxt"))
    path = graph.add("path", "Placeholder", attrs={"dtype": b"\x30\x07"})
    graph.add("init", "NoOp", controls=[path])
    graph.save(str(desk.folder / "model.pb"))
    words = ("--init", "init", "--asset", "path=words.txt", "--validate", "structure")
    ran = desk.run("to-savedmodel", "model.pb", *words, "-o", "out")
    assert ran.code == 0, ran.err
    assert (desk.folder / "out" / "assets" / "words.txt").read_text() == "a\nb\n"
    serving = gds.load(str(desk.folder / "out")).serving
    assert serving is not None
    assert serving.initialising is not None
    assert serving.initialising.targets == ("init",)
    assert dict(serving.initialising.feeds) == {"path": f"{desk.folder}/out/assets/words.txt"}


@pytest.mark.parametrize(
    ("inputs", "outputs", "what"),
    [
        (["x=imag"], ["y=classes"], "'image'"),
        (["x=image"], ["y=clases"], "'classes'"),
        (["x=image", "x=image"], ["y=classes"], "has two inputs 'x'"),
        (["x=MobilenetV2/Conv/weights"], ["y=classes"], "is a constant"),
        (["a:x=image"], ["y=classes"], "the signature 'a' gives nothing"),
        (["x=probabilities"], ["y=MobilenetV2/Conv/Relu6"], "depend on 'image'"),
    ],
)
def test_what_is_refused(inputs: list[str], outputs: list[str], what: str) -> None:
    def named(texts: list[str]) -> list[Named]:
        pairs = [text.split("=") for text in texts]
        return [Named(name.split(":")[-1], tensor, *name.split(":")[:-1]) for name, tensor in pairs]

    graph = gds.load(CLASSIFIER)
    with pytest.raises(EditError) as refused:
        gds.to_savedmodel(graph, named(inputs), named(outputs))
    assert what in refused.value.message
    assert graph.serving is None


def test_an_asset_is_fed_to_a_string() -> None:
    graph = gds.load(CLASSIFIER)
    with pytest.raises(EditError, match="no path can be fed"):
        gds.to_savedmodel(graph, [], [], assets=[Asset("image", "words.txt")])


def test_mistakes_of_the_command_line(desk: Desk) -> None:
    (desk.folder / "taken").mkdir()
    (desk.folder / "taken" / "file").write_text("kept")
    check_refused(desk, 6, ("no SavedModel",), "to-savedmodel", CLASSIFIER, "-o", "taken")
    check_refused(desk, 2, ("-o names it",), "to-savedmodel", CLASSIFIER, "-i")
    check_refused(desk, 2, ("[KEY:]NAME=TENSOR",), "to-savedmodel", CLASSIFIER, "--output", "scores")
    assert (desk.folder / "taken" / "file").read_text() == "kept"


@pytest.mark.tensorflow
def test_the_signatures_are_run(desk: Desk) -> None:
    ran = desk.run(
        "to-savedmodel", CLASSIFIER, "--input", "picture=image", "--output", "scores=probabilities", "-o", "out"
    )
    assert ran.code == 0, ran.err
    assert "serves   serving_default(picture = image) -> scores = probabilities" in ran.err
    assert "1 output, 2 samples (batches of 1 and 2), bit-identical" in ran.err
    assert sorted(path.name for path in desk.folder.iterdir()) == ["out"]
