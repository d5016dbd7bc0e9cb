"""--steps on the command line, the files that are written, and the command that lists steps."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
import numpy as np
import pytest
from support.commands import QUICK
from support.desk import Desk, check_said
from support.graphs import FLOAT, INT32, graph_bytes, node, placeholder, scalar
from support.meta_graphs import put, serving
from support.stepping import Array

import gdsurgeon as gds
from gdsurgeon.cli.complete import steps as completed
from gdsurgeon.steps.catalog import FAMILIES, catalog

IN, BEHIND = "resize(4, 4, like=keras) | rescale(1/255)", "clip(0, 0.5) | cast(float16)"

MODEL = graph_bytes(
    placeholder("image", FLOAT, (-1, 4, 4, 3)), placeholder("other", FLOAT, (2,)),
    node("y", "Relu", ["image"], T=FLOAT), node("z", "Neg", ["y"], T=FLOAT), node("w", "Neg", ["other"], T=FLOAT),
)  # fmt: skip


@pytest.fixture
def there(desk: Desk) -> Desk:
    desk.put("model.pb", MODEL)
    return desk


CALLS = {
    "add-preprocessing": (("model.pb",), ("--at", "image", "--raw", "uint8[?,?,3]"), "rescale(1/255) | "
                          "resize(4, 4, like=tf1)"),
    "add-postprocessing": (("model.pb",), ("--at", "z"), BEHIND),
    "insert": (("model.pb", "--at", "y"), (), "clip(0, 6)"),
}  # fmt: skip


@pytest.mark.parametrize("command", CALLS)
def test_what_is_built_is_what_its_file_would_be(there: Desk, command: str) -> None:
    """The emitted graph, handed over as PRE, POST or BODY, gives the same bytes."""
    words, options, steps = CALLS[command]
    called = (command, *words, *options, "--steps", steps, "--emit", "part.pb", *QUICK)
    assert there.run(*called, "-n").code == 0 and list(there.files()) == ["model.pb"]
    ran = there.run(*called, "-o", "out.pb")
    assert (ran.code, ran.out) == (0, b""), ran.err
    there.done(command, *words, "part.pb", "-o", "again.pb", *QUICK)
    files = there.files()
    assert files["out.pb"] == files["again.pb"] and files["model.pb"] == MODEL
    assert any(n.op == "Placeholder" for n in gds.from_bytes(bytes(files["part.pb"])).nodes())  # type: ignore[arg-type]


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("part.pb", "--steps", "clip(0, 1)"), "conflicting-options"),
        ((), "missing-argument"),
        (("part.pb", "--emit", "x.pb"), "missing-option"),
        (("--steps", "clip(0, 1)", "--emit", "-"), "bad-value"),
        (("--steps", "clip(0, 1)", "--emit", "model.pb"), "would-replace"),
        (("--steps", "clip(0, 1)", "--emit", "o.pb", "-o", "./o.pb"), "would-replace"),
        (("--steps", "clip(0, 1)", "--emit", "model.edited.pb"), "would-replace"),
        (("--steps", "clip(0, 1)", "--emit", "r", "--report", "r"), "would-replace"),
        (("--steps", "clip(0, 1)|clop(1)"), "no-such-step"),
        (("--steps", "clip(0)"), "usage"),
        (("--steps", "clip(0, "), "usage"),
    ],
)  # fmt: skip
def test_what_contradicts_itself(there: Desk, command: str, more: tuple[str, ...], code: str) -> None:
    there.put("part.pb", b"")
    before = there.files()
    ran = there.run(command, *CALLS[command][0], *more)
    assert ran.code == 2 and ran.error is not None and ran.error.code == code
    assert there.files() == before


@pytest.mark.parametrize("command", CALLS)
def test_steps_in_the_place_of_a_graph(there: Desk, command: str) -> None:
    ran = there.run(command, *CALLS[command][0], "clip(0, 6) | round")
    assert ran.code == 3 and ran.err == (
        "Error: clip(0, 6) | round cannot be opened: no such file or directory\n"
        "Hint: --steps 'clip(0, 6) | round' builds a graph from steps\n"
    )
    assert "Hint" not in there.run(command, *CALLS[command][0], "clip.pb").err


ALONE: list[tuple[str, str, str]] = [
    *((f"{command} model.pb part.pb {option} x", "missing-option", "--steps") for command, option in (
        ("add-preprocessing", "--raw"), ("add-preprocessing", "--at"), ("add-postprocessing", "--at"))),
    *((f"{command} model.pb --steps clip(0,1) --map x=a,b", "conflicting-options", "--map")
      for command in ("add-preprocessing", "add-postprocessing")),
    ("add-preprocessing model.pb --at image --steps divide(255) --atol 1", "missing-option", "--against"),
    ("add-preprocessing model.pb --at image --steps divide(255) --against r.npz --validate structure",
     "conflicting-options", "--against"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "option"), ALONE)
def test_options_that_do_not_go_together(there: Desk, line: str, code: str, option: str) -> None:
    there.put("part.pb", MODEL)
    there.refused(2, code, *line.split(), option=option)


def test_inputs_and_outputs_that_are_not_meant(there: Desk) -> None:
    def said(command: str, *more: str) -> str:
        ran = there.run(command, "model.pb", "--steps", "clip(0, 1)", *more, *QUICK)
        assert ran.code == 4 and list(there.files()) == ["model.pb"]
        return ran.err

    for command, has in (("add-preprocessing", "inputs: image, other"), ("add-postprocessing", "outputs: z, w")):
        assert said(command) == f"Error: model.pb has 2 {has}\nHint: choose the tensor with --at TENSOR\n"
    assert "no node 'imag'" in said("add-preprocessing", "--at", "imag")
    assert said("add-preprocessing", "--at", "y") == (
        "Error: 'y' of model.pb is a Relu, not a Placeholder\n"
        "Hint: gdsurgeon extract model.pb --inputs y --outputs ... -o OUT makes the tensor an input; a script of apply "
        "can do this and add the steps\n"
    )
    assert "Did you mean" not in said("add-preprocessing", "--at", "nothing")


def test_inputs_one_after_the_other(there: Desk) -> None:
    lines = [
        "add-preprocessing --at image --steps 'decode-image | resize(4, 4, like=keras) | divide(255)'",
        "add-preprocessing --at other --steps 'decode-csv(2)'",
    ]
    there.put("both.gds", "\n".join(lines).encode())
    there.done("apply", "model.pb", "both.gds", "-o", "out.pb", *QUICK)
    signature = gds.signature(gds.load(str(there.folder / "out.pb")))
    assert [found.spelt for found in signature.inputs] == ["string [?]", "string []"]


def test_a_value_that_does_not_fit_is_refused_before_anything_is_written(there: Desk) -> None:
    words = ("add-preprocessing", "model.pb", "--at", "image", "--emit", "pre.pb", "-o", "out.pb", *QUICK)
    ran = there.run(*words, "--steps", "decode-image | resize(4, 4, like=pillow)")
    assert (ran.code, list(there.files())) == (4, ["model.pb"])
    assert ran.err == (
        "Error: the steps return uint8 [?,4,4,3], but 'image' expects float32 [?,4,4,3]: add cast(float32)\n"
    )
    ran = there.run(*words, "--steps", "decode-image(batch=true) | cast(float32)")
    assert ran.err.splitlines()[1].startswith("Hint: add a step that sets one size: resize, letterbox or center-crop")


@pytest.mark.tensorflow
def test_what_is_built_is_proven(there: Desk) -> None:
    steps = ("--at", "image", "--steps", f"decode-image | {IN}")
    ran = there.done("add-preprocessing", "model.pb", *steps, "-o", "out.pb")
    assert "proven   edited(raw) == original(pre(raw)): 2 outputs" in ran.err, ran.err
    ran = there.done("add-postprocessing", "out.pb", "--at", "z", "--steps", BEHIND, "-i")
    assert "proven   edited(x) == post(original(x)):" in ran.err, ran.err
    ran = there.done("insert", "out.pb", "--at", "y", "--steps", "clip(0, 0.25)", "-i")
    assert "  proven   " in ran.err, ran.err


REFERENCE = {
    "image": np.uint8([[[[0, 51, 255]]]]).repeat(4, 1).repeat(4, 2),
    "image_preprocessed": np.float32([[[[0, 0.2, 1]]]]).repeat(4, 1).repeat(4, 2),
}
HELD = (
    "add-preprocessing", "model.pb", "--at", "image", "--raw", "uint8[?,4,4,3]", "-o", "out.pb",
    "--against", "r.npz",
)  # fmt: skip
RIGHT, WRONG = ("--steps", "divide(255)"), ("--steps", "divide(254)")


def second(image: Array, result: Array) -> dict[str, Array]:
    """The reference with a second sample."""
    return {**REFERENCE, "image@1": image, "image_preprocessed@1": result}


@pytest.mark.tensorflow
def test_that_steps_are_not_checked_is_said_unless_they_are(there: Desk) -> None:
    np.savez(there.folder / "r.npz", **REFERENCE)
    alone, held = (there.report(*words, *RIGHT)["edit"]["notes"] for words in (HELD[:-2], HELD))
    assert len(alone) == len(held) + 1


@pytest.mark.tensorflow
def test_values_from_elsewhere_are_compared(there: Desk) -> None:
    image, result = REFERENCE.values()
    np.savez(there.folder / "r.npz", **second(np.concatenate([image, image]), np.concatenate([result, result])))
    ran = there.done(*HELD, *RIGHT)
    assert "results of the steps == values in r.npz" in ran.err and "bit-identical" in ran.err
    ran = there.run(*HELD, *WRONG)
    assert ran.code == 5
    assert ran.err.startswith(
        "Error: the results of the steps differ from those in r.npz in 1 of 1 outputs (feed 1)\n"
        "  image_preprocessed: 32 of 48 elements differ, by up to 0.00394"
    )
    ran = there.done(*HELD, *WRONG, "--atol", "0.004")
    assert "within atol 0.004 (largest absolute difference 0.00394)" in ran.err


@pytest.mark.tensorflow
def test_a_later_sample_that_differs(there: Desk) -> None:
    image, result = REFERENCE.values()
    for given, code, said in (
        (image / 2, 2, "the feed for 'image', sample 1, is float64"),
        (image, 5, "(feed 2)"),
    ):
        np.savez(there.folder / "r.npz", **second(given, result / 2))
        check_said(there.run(*HELD, *RIGHT), said, code=code)


@pytest.mark.tensorflow
def test_a_graph_of_one_s_own_is_compared_too(there: Desk) -> None:
    for words in (("-n",), ("-o", "first.pb")):
        there.done(*HELD[:-4], "--emit", "pre.pb", *RIGHT, *words, *QUICK)
    np.savez(there.folder / "r.npz", **REFERENCE)
    ran = there.done("add-preprocessing", "model.pb", "pre.pb", "--against", "r.npz", "-o", "out.pb")
    assert "results of pre.pb == values in r.npz" in ran.err


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("command", "archive"),
    [
        (("add-postprocessing", "--at", "z"), {"z": [-3.0, 3.0], "z_postprocessed": [0.0, 2.0]}),
        (("insert", "--at", "y"), {"y": [-3.0, 3.0], "y_inserted": [0.0, 2.0]}),
    ],
)
def test_of_other_commands(there: Desk, command: tuple[str, ...], archive: dict[str, list[float]]) -> None:
    wide = {name: np.float32(values * 24).reshape(1, 4, 4, 3) for name, values in archive.items()}
    np.savez(there.folder / "r.npz", **wide)
    words = (command[0], "model.pb", *command[1:], "-o", "out.pb", "--against", "r.npz")
    there.done(*words, "--steps", "clip(0, 2)")
    ran = there.run(*words, "--steps", "clip(0, 1)")
    assert ran.code == 5 and "24 of 48 elements differ, by up to 1" in ran.err


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("image",), "--against r.npz has 'image', but not 'image_preprocessed'\n"),
        (("image", "image_preprocessed", "image@1"),
         "--against r.npz has 'image' for sample 1, but not 'image_preprocessed'\n"),
        ((), "the reference r.npz cannot be read"),
    ],
)  # fmt: skip
def test_an_archive_that_lacks_a_value(there: Desk, names: tuple[str, ...], said: str) -> None:
    if names:
        np.savez(there.folder / "r.npz", **{name: REFERENCE[name.partition("@")[0]] for name in names})
    else:
        there.put("r.npz", b"nothing")
    ran = there.run(*HELD, *RIGHT)
    assert (ran.code, ran.err.startswith(f"Error: {said}"), "out.pb" in there.files()) == (2, True, False), ran


@pytest.mark.tensorflow
def test_in_a_script_it_is_relative_to_that(there: Desk) -> None:
    (there.folder / "there").mkdir()
    np.savez(there.folder / "there" / "r.npz", **REFERENCE)
    line = "add-preprocessing --at image --raw uint8[?,4,4,3] --against r.npz --steps divide({})"
    there.put("there/right.gds", line.format(255).encode())
    there.put("there/wrong.gds", line.format(254).encode())
    ran = there.done("apply", "model.pb", "there/right.gds", "-o", "out.pb")
    assert "results of the steps == values in r.npz" in ran.err, ran.err
    ran = there.run("apply", "model.pb", "there/wrong.gds", "-o", "wrong.pb")
    assert ran.code == 5 and "differ from those in r.npz" in ran.err, ran.err


def test_a_reference_is_not_replaced(there: Desk) -> None:
    np.savez(there.folder / "r.npz", **REFERENCE)
    there.refused(2, "would-replace", *HELD, *RIGHT, "-o", "r.npz", other="r.npz")


def test_the_list_names_every_step_and_its_parameters(desk: Desk) -> None:
    ran = desk.run("steps")
    text = ran.out.decode()
    assert (ran.code, ran.err) == (0, "") and all(len(line) <= 120 for line in text.splitlines())
    for step in catalog().values():
        assert f"  {step.name} " in text and step.summary in text
        assert all(parameter.name in text for parameter in step.parameters)
    assert [line[:-1] for line in text.splitlines() if line.endswith(":")] == list(FAMILIES)


@pytest.mark.parametrize("name", catalog())
def test_a_step_is_explained(desk: Desk, name: str) -> None:
    ran = desk.run("steps", name)
    text = " ".join(ran.out.decode().split())
    step = catalog()[name]
    assert (ran.code, ran.err) == (0, "")
    assert step.explanation in text and f"Example: {step.example}" in text and step.summary in text
    assert all(parameter.help in text and parameter.kind.says in text for parameter in step.parameters)


def test_for_machines(desk: Desk) -> None:
    found = json.loads(desk.run("steps", "--json").out)["steps"]
    assert [step["name"] for step in found] == list(catalog())
    (divide,) = json.loads(desk.run("steps", "divide", "--json").out)["steps"]
    assert divide["parameters"] == [
        {"name": "by", "takes": "a number other than 0", "help": "the divisor", "required": True, "default": None}
    ]


def test_a_default_is_told_as_it_is_written(desk: Desk) -> None:
    text = " ".join(desk.run("steps", "parse-example").out.decode().split())
    assert "int64, string; default: float32)" in text


def test_a_step_that_there_is_not(desk: Desk) -> None:
    desk.refused(2, "no-such-step", "steps", "resiz", step="resiz", near="resize")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("to-", ["to-nchw", "to-nhwc"]),
        ("round | to-nc", ["round | to-nchw"]),
        ("round|to-nc", ["round|to-nchw"]),
        ("nothing", []),
    ],
)
def test_steps_are_completed(typed: str, found: list[str]) -> None:
    context = click.Context(click.Command("x"))
    assert completed(context, click.Argument(["steps"]), typed) == found


def test_the_output_of_a_signature_is_meant(desk: Desk) -> None:
    """A node may have other outputs, and other nodes may be unread."""
    split = scalar("axis", 1, INT32), node("split", "Split", ["axis", "x"], num_split=2, T=FLOAT)
    put(desk.folder / "model", serving({"x": "x:0"}, {"half": "split:1"}, *split))
    desk.done("add-postprocessing", "model", "--steps", "clip(0, 6)", *QUICK, "-o", "out")
    graph = gds.load("out")
    (source, *_) = gds.select_nodes(graph, gds.Selection(nodes=("serving_default/half",)))
    assert [read.name for read in source.inputs] == ["split_raw", "split_postprocessed"]


SCORED = graph_bytes(placeholder("x", FLOAT, (-1, 3)), node("logits", "Relu", ["x"], T=FLOAT))
LABELS = b"ant\nbee\ncat\n"
STEPS = "softmax | top-k(2) | labels(file=names/l.txt)"


def put_below(desk: Desk, name: str, data: bytes) -> None:
    (desk.folder / name).parent.mkdir(parents=True, exist_ok=True)
    desk.put(name, data)


@pytest.fixture
def scored(desk: Desk) -> Desk:
    desk.put("model.pb", SCORED)
    put_below(desk, "names/l.txt", LABELS)
    return desk


def outputs(desk: Desk, name: str) -> list[str]:
    return [node.name for node in gds.load(str(desk.folder / name)).nodes() if node.op == "Identity"]


def added(*words: str, steps: str = STEPS) -> Sequence[str]:
    return "add-postprocessing", "model.pb", "--steps", steps, *words


def test_names_and_scores_are_outputs(scored: Desk) -> None:
    ran = scored.done(*added("-o", "out.pb", *QUICK))
    assert "  output   logits  float32  ->  string\n  output   logits_scores  float32\n" in ran.err
    assert outputs(scored, "out.pb") == ["logits", "logits_scores"]
    steps = f"{STEPS} | rename(names, scores=probabilities)"
    scored.done(*added("-o", "out.pb", *QUICK, steps=steps))
    assert sorted(outputs(scored, "out.pb")) == ["logits", "names", "probabilities"]


@pytest.mark.tensorflow
def test_what_is_beside_the_result_is_proven_too(scored: Desk) -> None:
    ran = scored.done(*added("-o", "out.pb", "--feed", "x=[[1, 3, 2]]"))
    assert "returned logits  string [1,2] = [bee, cat]" in ran.err
    assert "proven   edited(x) == post(original(x)): 3 outputs" in ran.err


def test_a_file_that_a_step_reads_is_not_replaced(scored: Desk) -> None:
    for words in ((), ("out.pb", "--emit"), ("out.pb", "--report")):
        ran = scored.refused(2, "would-replace", *added("-o", *words, "names/l.txt", *QUICK))
        assert "names/l.txt" in ran.err, ran.err


@pytest.mark.parametrize(
    ("steps", "code", "said"),
    [
        ("softmax | top-k(9)", 4, "Error: top-k: 9 of 3 values are requested: float32 [?,3]\n"),
        ("labels(file=names/l.txt)", 4, "Error: labels: requires classes, which are whole numbers, got float32"),
        ("argmax | labels(file=no.txt)", 3, "Error: labels: no.txt cannot be opened: no such file or directory\n"),
        ("argmax | labels(file=names)", 3, "Error: labels: names is a directory, not a text file\n"),
        ("argmax | labels(fil=no.txt)", 2, "Error: labels has no parameter 'fil'. Did you mean 'file'?\n"),
        ("top-k(2) | rename(x)", 4, "Error: rename: model.pb already has 'x'\n"),
    ],
)
def test_what_is_refused_names_the_step(scored: Desk, steps: str, code: int, said: str) -> None:
    ran = scored.run(*added("-o", "out.pb", *QUICK, steps=steps))
    assert (ran.code, ran.err.startswith(said)) == (code, True), ran.err
    assert "out.pb" not in scored.files()


def test_callers_of_a_signature_are_told_what_it_does_not_give(scored: Desk) -> None:
    scored.done("to-savedmodel", "model.pb", "--inputs", "x=x", "--outputs", "logits=logits", "-o", "m", *QUICK)
    ran = scored.done("add-postprocessing", "m", "--steps", STEPS, "-o", "out", *QUICK)
    assert "  note     no signature returns 'logits_scores'; the command signature can add this output\n" in ran.err
    assert "no signature returns 'logits'" not in ran.err
    ran = scored.done("signature", "out", "--outputs", "scores=logits_scores", "-o", "both", *QUICK)
    assert "scores = logits_scores" in ran.err, ran.err
    assert "no signature" not in scored.run(*added("-o", "out.pb", *QUICK)).err


SCRIPT = f"""\
add-postprocessing --steps '{STEPS}'  # the file is next to the script
rename logits=names logits_scores=scores
"""


def test_a_script_whose_file_is_not_there(desk: Desk) -> None:
    desk.put("model.pb", SCORED)
    put_below(desk, "names/l.txt", LABELS)  # next to the model, and not next to the script
    put_below(desk, "scripts/fix.gds", SCRIPT.encode())
    ran = desk.run("apply", "model.pb", "scripts/fix.gds", "-o", "out.pb", *QUICK)
    assert ran.code == 3
    assert ran.err == "Error: scripts/fix.gds:1: labels: names/l.txt cannot be opened: no such file or directory\n"
