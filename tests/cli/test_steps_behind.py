"""--steps of add-postprocessing: results that become outputs, files that are read, and lines of a script."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.commands import QUICK
from support.desk import Desk
from support.graphs import FLOAT, graph_bytes, node, placeholder

import gdsurgeon as gds

MODEL = graph_bytes(placeholder("x", FLOAT, (-1, 3)), node("logits", "Relu", ["x"], T=FLOAT))
LABELS = b"ant\nbee\ncat\n"
STEPS = "softmax | top-k(2) | labels(file=names/l.txt)"


def put(desk: Desk, name: str, data: bytes) -> None:
    (desk.folder / name).parent.mkdir(parents=True, exist_ok=True)
    desk.put(name, data)


@pytest.fixture
def there(desk: Desk) -> Desk:
    desk.put("model.pb", MODEL)
    put(desk, "names/l.txt", LABELS)
    return desk


def outputs(desk: Desk, name: str) -> list[str]:
    return [node.name for node in gds.load(str(desk.folder / name)).nodes() if node.op == "Identity"]


def added(*words: str, steps: str = STEPS) -> Sequence[str]:
    return "add-postprocessing", "model.pb", "--steps", steps, *words


def test_names_and_scores_are_outputs(there: Desk) -> None:
    ran = there.run(*added("-o", "out.pb", *QUICK))
    assert ran.code == 0, ran.err
    assert "  output   logits  float32  ->  string\n  output   logits_scores  float32\n" in ran.err
    assert outputs(there, "out.pb") == ["logits", "logits_scores"]
    steps = f"{STEPS} | rename(names, scores=probabilities)"
    assert there.run(*added("-o", "out.pb", *QUICK, steps=steps)).code == 0
    assert sorted(outputs(there, "out.pb")) == ["logits", "names", "probabilities"]


@pytest.mark.tensorflow
def test_what_is_beside_the_result_is_proven_too(there: Desk) -> None:
    ran = there.run(*added("-o", "out.pb", "--feed", "x=[[1, 3, 2]]"))
    assert ran.code == 0, ran.err
    assert "returned logits  string [1,2] = [bee, cat]" in ran.err
    assert "proven   edited(x) == post(original(x)): 3 outputs" in ran.err


def test_a_file_that_a_step_reads_is_not_replaced(there: Desk) -> None:
    before = there.files()
    for words in (("-o", "names/l.txt"), ("-o", "out.pb", "--emit", "names/l.txt"),
                  ("-o", "out.pb", "--report", "names/l.txt")):  # fmt: skip
        ran = there.run(*added(*words, *QUICK))
        assert ran.code == 2 and "names/l.txt" in ran.err, ran.err
    assert there.files() == before


@pytest.mark.parametrize(
    ("steps", "code", "said"),
    [
        ("softmax | top-k(9)", 4, "Error: top-k: 9 of 3 values are requested: float32 [?,3]\n"),
        ("labels(file=names/l.txt)", 4, "Error: labels: requires classes, which are whole numbers, got float32"),
        ("argmax | labels(file=no.txt)", 3, "Error: labels: no.txt cannot be opened: no such file or directory\n"),
        ("argmax | labels(fil=no.txt)", 2, "Error: labels has no parameter 'fil'. Did you mean 'file'?\n"),
        ("top-k(2) | rename(x)", 4, "Error: rename: model.pb already has 'x'\n"),
    ],
)
def test_what_is_refused_names_the_step(there: Desk, steps: str, code: int, said: str) -> None:
    ran = there.run(*added("-o", "out.pb", *QUICK, steps=steps))
    assert (ran.code, ran.err.startswith(said)) == (code, True), ran.err
    assert "out.pb" not in there.files()


def test_callers_of_a_signature_are_told_what_it_does_not_give(there: Desk) -> None:
    made = there.run("to-savedmodel", "model.pb", "--inputs", "x=x", "--outputs", "logits=logits", "-o", "m", *QUICK)
    assert made.code == 0, made.err
    ran = there.run("add-postprocessing", "m", "--steps", STEPS, "-o", "out", *QUICK)
    assert ran.code == 0, ran.err
    assert "  note     no signature returns 'logits_scores'; the command signature can add this output\n" in ran.err
    assert "no signature returns 'logits'" not in ran.err
    ran = there.run("signature", "out", "--outputs", "scores=logits_scores", "-o", "both", *QUICK)
    assert ran.code == 0 and "scores = logits_scores" in ran.err, ran.err
    assert "no signature" not in there.run(*added("-o", "out.pb", *QUICK)).err


SCRIPT = f"""\
add-postprocessing --steps '{STEPS}'  # the file is next to the script
rename logits=names logits_scores=scores
"""


def test_a_script_whose_file_is_not_there(desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    put(desk, "names/l.txt", LABELS)  # next to the model, and not next to the script
    put(desk, "scripts/fix.gds", SCRIPT.encode())
    ran = desk.run("apply", "model.pb", "scripts/fix.gds", "-o", "out.pb", *QUICK)
    assert ran.code == 3
    assert ran.err == "Error: scripts/fix.gds:1: labels: names/l.txt cannot be opened: no such file or directory\n"
