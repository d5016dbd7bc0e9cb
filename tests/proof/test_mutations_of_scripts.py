"""Several edits, one of them done wrong in every way: its accounting catches it, and so does running all at once."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from support import every_edit
from support.every_edit import EDITS, beside
from support.mutations import Mutation, mutations
from support.several import Edit, carried_out, proven_pieces

import gdsurgeon as gds
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.errors import EditError, GdsurgeonError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.pieces import joined_steps
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.wire.write import read_chunks


def named(*pairs: tuple[str, str]) -> Edit:
    return lambda g: gds.rename(g, pairs)


def behind(g: Graph) -> EditResult:
    return gds.add_postprocessing(g, beside("result", "result_postprocessed"))


SCRIPTS: dict[str, tuple[Edit, ...]] = {
    "a body, and a graph behind": (
        named(("y", "result"), ("t/difference", "d")), lambda g: gds.insert(g, "t/scaled", beside(), scope="b"),
        behind, EDITS["freeze-input"], named(("result_raw", "raw"), ("t/scaled", "s")),
    ),
    "a graph in front": (
        EDITS["add-preprocessing"], named(("x", "input"), ("map", "picture")), EDITS["control-edges"],
        EDITS["set-device"], EDITS["inline"],
    ),
    "bypassed, and a graph beside": (
        EDITS["remove --bypass"], lambda g: gds.insert(g, "t/difference", beside(), scope="b"),
        lambda g: gds.import_graph(g, beside(), connect=[("t/difference", "in")], scope="q"), EDITS["rename"],
    ),
}  # fmt: skip
OF_VALUES = (
    "inputs swapped", "another tensor read", "original read", "next output", "weight scaled", "another op",
    "vector turned round", "inputs swapped in a function", "weight of another sign in a function",
    "another function called",
)  # fmt: skip
"""Kinds that change a value, mostly."""


def places(name: str) -> tuple[int, int, int]:
    count = len(SCRIPTS[name])
    return 0, count // 2, count - 1


@cache
def found(name: str, place: int) -> dict[tuple[str, str], list[Mutation]]:
    """All mutations of what the edit at PLACE makes, by kind and by what the edit has done there."""
    (step,) = carried_out(every_edit.built(every_edit.model), SCRIPTS[name][: place + 1])[-1:]
    groups: dict[tuple[str, str], list[Mutation]] = {}
    for mutation in mutations(step.after, step.result):
        groups.setdefault((mutation.kind, mutation.where), []).append(mutation)
    return groups


def cases(step: int, kinds: tuple[str, ...] = ()) -> list[Any]:
    """Every STEP-th of the cases: one mutation of each kind, a different one for each script and place."""
    every = [
        pytest.param(name, place, group[(turn * 7) % len(group)], id=f"{name}, {place + 1}: {kind}, {where}")
        for turn, (name, place) in enumerate((name, place) for name in SCRIPTS for place in places(name))
        for (kind, where), group in found(name, place).items()
        if not kinds or kind in kinds
    ]
    return every[::step]


def test_right_scripts_pass() -> None:
    for edits in SCRIPTS.values():
        assert len(joined_steps(carried_out(every_edit.built(every_edit.model), edits))) == 1


MODEL = every_edit.built(every_edit.model)


def is_an_edit_of_its_own(name: str, place: int, mutation: Mutation) -> bool:
    """Whether it is nothing but what the edit itself may do: see `test_mutations.is_wrong`."""
    return SCRIPTS[name][place] is EDITS["control-edges"] and mutation.kind == "control edge added"


@pytest.mark.parametrize(("name", "place", "mutation"), cases(7))
def test_a_wrong_edit_of_several_is_accounted_for(name: str, place: int, mutation: Mutation) -> None:
    if is_an_edit_of_its_own(name, place, mutation):
        return
    with pytest.raises(ValidationError) as error:
        carried_out(MODEL, SCRIPTS[name], {place: mutation.spoil})
    assert place == len(SCRIPTS[name]) - 1 or error.value.facts["place"] == f"edit {place + 1}"


def differs(executor: Executor, right: Graph, wrong: Graph) -> bool:
    """Returns whether the outputs of the two graphs differ by more than the last bits, on the same feeds."""
    graphs = [from_bytes(read_chunks(graph.chunks()), "model.pb") for graph in (right, wrong)]
    executor.load_source(ORIGINAL, graphs[0])
    executor.load_graph(EDITED, graphs[1])
    try:
        prove(executor, Change(*graphs, EditResult(Intent(), (SameOutputs(1e-5, 1e-5),))), Overrides())
    except ValidationError:
        return True
    except GdsurgeonError:
        return False
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place", "mutation"), cases(3, OF_VALUES))
def test_a_wrong_value_is_found_by_running_all_at_once(
    name: str, place: int, mutation: Mutation, executor: Executor
) -> None:
    try:
        steps = carried_out(MODEL, SCRIPTS[name], {place: mutation.spoil}, check=False)
    except EditError:  # a later edit refuses it
        return
    try:
        proven_pieces(executor, joined_steps(steps))
    except GdsurgeonError:
        return
    right = carried_out(MODEL, SCRIPTS[name])[-1].after
    assert not differs(executor, right, steps[-1].after)


@pytest.mark.parametrize("kind", ["inputs swapped", "next output", "another tensor read"])
def test_what_waits_for_another_reads_what_it_read(kind: str) -> None:
    name = "a graph in front"
    for mutation in found(name, 2)[kind, "said to be another"]:
        with pytest.raises(ValidationError) as error:
            carried_out(MODEL, SCRIPTS[name], {2: mutation.spoil})
        assert error.value.facts["place"] == "edit 3"
