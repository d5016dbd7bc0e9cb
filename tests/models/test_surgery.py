"""fuse-ops, inline and clone-scope on the published graphs, each proven by running."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.desk import Desk
from support.patience import within
from support.published import EXECUTABLE, FOLDER, needs_models

import gdsurgeon as gds

pytestmark = [*needs_models, pytest.mark.slow, pytest.mark.tensorflow]

BRIEF = ("--samples", "1", "--timeout", "60")


def operated(
    desk: Desk, command: str, model: str, *options: str, refusals: Sequence[str] = ()
) -> tuple[str, str, set[tuple[str, str]]]:
    """Runs COMMAND on MODEL.

    Returns the output, the messages, and what of the original was compared with what of the result, and was equal:
    nothing if the command is refused with one of REFUSALS.
    """
    out = f"after_{Path(model).name}"
    ran = desk.run(command, str(FOLDER / model), *options, "-o", out, "--report", "report.json", *BRIEF)
    if ran.code == 4 and any(words in ran.err for words in refusals):
        return "", ran.err, set()
    assert ran.code == 0, ran
    proof = json.loads((desk.folder / "report.json").read_text())["proof"]
    compared = {(o["original"], o["edited"]) for o in proof["outputs"] if o["compared"] and o["equal"]}
    assert compared or proof["skipped"]
    return str(desk.folder / out), ran.err, compared


# -- fuse-ops ----------------------------------------------------------------------------------------------


LOOP = "LSTM-Layer/lstm/rnn/while/"


@pytest.mark.parametrize(
    "selection",
    [
        ["--scope", f"{LOOP}rnn/lstm_cell", "--exclude", "/Enter$"],
        ["--select", "while/rnn/lstm_cell/(split|add|mul|Sigmoid|Tanh)", "--exclude", "/Enter$"],
        ["--node", f"{LOOP}add", "--with-consts"],
        ["--node", f"{LOOP}Less"],
    ],
    ids=["cell", "cell with constants", "counter", "condition"],
)
def test_the_body_of_a_loop(desk: Desk, selection: list[str]) -> None:
    out, _, compared = operated(desk, "fuse-ops", "kws_lstm_s.pb", *selection, "--name", f"{LOOP}fused")
    assert ("labels_softmax", "labels_softmax") in compared & operated(desk, "inline", out)[2]


# -- clone-scope -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["LSTM-Layer/lstm/rnn/while", "LSTM-Layer/lstm/rnn/TensorArrayUnstack"])
def test_what_reads_or_fills_an_array_that_is_not_cloned_with_it(desk: Desk, scope: str) -> None:
    """An array is written once, and read once where a read clears it: refused, or proven run by run."""
    with within(30):
        out, _, compared = operated(desk, "clone-scope", "kws_lstm_s.pb", scope, "second", refusals=["TensorArray"])
    assert not out or ("labels_softmax", "labels_softmax") in compared


# -- all of them -------------------------------------------------------------------------------------------

REFUSALS = (
    "a path leaves it and comes back",
    "it is version 1 control flow",
    "it is an input of the graph",
    "it has a reference as input or output",
    "other nodes can share the state of this node",
    "while loop",
    "different branches of a conditional",
    "holds nothing but large constants",
    "the model has no call in the graph to inline",
)
"""Reasons why a random selection, scope or graph can be refused."""


@pytest.mark.parametrize("name", sorted(EXECUTABLE))
def test_the_biggest_scope_is_cloned(name: str, desk: Desk) -> None:
    found = gds.load(str(FOLDER / name))
    scopes = Counter(node.partition("/")[0] for node in found.names() if "/" in node)
    if not scopes:
        pytest.skip("it has no scopes")
    scope = scopes.most_common(1)[0][0]
    out, _, compared = operated(desk, "clone-scope", name, scope, "cloned_by_test", refusals=REFUSALS)
    skipped = out and json.loads((desk.folder / "report.json").read_text())["proof"]["skipped"]
    assert not out or skipped or any(new.startswith("cloned_by_test") for _, new in compared)
