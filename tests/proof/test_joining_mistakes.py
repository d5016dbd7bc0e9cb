"""Mistakes in how claims are joined: each makes something right fail, or lets something wrong pass."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from support.mutants import Mutant, planted

from gdsurgeon.errors import ValidationError
from gdsurgeon.proof.executor import Executor
from proof.test_joining import ROWS, WRONG, prove_row, prove_wrong

pytestmark = pytest.mark.tensorflow


class Mistake(NamedTuple):
    """A text of the source, what is there instead, and what goes wrong with it."""

    what: str
    old: str
    new: str
    row: str


MISTAKES = [
    Mistake("a part is not carried over", "[*parts, *later.parts]", "[*later.parts]", "two graphs behind one output"),
    Mistake("a later part is left out", "[*parts, *later.parts]", "[*parts]", "what is put first in a loop"),
    Mistake(
        "a given left out",
        "before | {old: names.seen(new) for old, new in first.given.items()}",
        "before",
        "two graphs in front of one input",
    ),
    Mistake(
        "a later given left out",
        "before | {old: names.seen(new) for old, new in first.given.items()}",
        "{old: names.seen(new) for old, new in first.given.items()}",
        "a body before, and then behind",
    ),
    Mistake(
        "a substitute by the name it had",
        "        before | {old: names.seen(new) for",
        "        before | {old: new for",
        "a body at a constant that was frozen",
    ),
    Mistake(
        "a substitute not as it is read",
        "        before | {old: names.seen(new) for old",
        "        before | {old: names.now(new) for old",
        "two bodies at a constant that was frozen",
    ),
    Mistake(
        "inputs of a part by names they had",
        "inputs={name: names.seen(tensor)",
        "inputs={name: tensor",
        "two graphs in front of one input",
    ),
    Mistake(
        "inputs of a part not moved on",
        "inputs={name: names.seen(tensor)",
        "inputs={name: names.now(tensor)",
        "two bodies at one tensor",
    ),
    Mistake(
        "results of a part by names they had",
        "outputs=tuple((mine, names.now(tensor))",
        "outputs=tuple((mine, tensor)",
        "two graphs behind one output",
    ),
    Mistake(
        "tensors before dropped",
        "                out.append(SameTensors((tensor,), given))",
        "                pass",
        "what a body reads",
    ),
    Mistake(
        "tensors between dropped",
        "return [] if is_frozen else [SameTensors((tensor,), given)]",
        "return []",
        "what a body reads, with what is frozen before it",
    ),
    Mistake(
        "tensors claim not made",
        "    for known, names in tensors.items():",
        "    for known, names in ():",
        "what a body reads, with a body before it",
    ),
    Mistake(
        "tensors before without what is before them",
        "            given = before | {old: names.seen(new) for old, new in claim.given.items()}",
        "            given = {old: names.seen(new) for old, new in claim.given.items()}",
        "a body behind, and then before",
    ),
    Mistake(
        "tensors between without what the first gives",
        "given = {**beside, **{old: names.now(new) for old, new in first.given.items()}}",
        "given = {**beside}",
        "a body before, and then behind",
    ),
    Mistake(
        "frozen forgotten",
        "    return [] if is_frozen else",
        "    return [] if False else",
        "a body at a constant that was frozen",
    ),
    Mistake(
        "frozen twice forgotten",
        " or parse_tensor(now).node in first.constants",
        "",
        "two bodies at a constant that was frozen",
    ),
    Mistake(
        "constants dropped",
        "{names.now(name): value for name, value in first.constants.items()} | later.constants",
        "dict(later.constants)",
        "a value that was frozen",
    ),
    Mistake(
        "constants by names they had",
        "{names.now(name): value for name,",
        "{name: value for name,",
        "frozen and renamed",
    ),
    Mistake(
        "later constants dropped",
        "first.constants.items()} | later.constants",
        "first.constants.items()}",
        "frozen twice",
    ),
    Mistake(
        "freed names",
        "    if not {*whole.removed}.isdisjoint([*whole.renamed.values(), *whole.added]):",
        "    if False:",
        "a name that was freed",
    ),
    Mistake(
        "added tensors given",
        "    if any(names.stood_for(tensor) is None for tensor in later.given):",
        "    if False:",
        "a constant of what was added is frozen",
    ),
    Mistake(
        "gone substitutes",
        "    if any(map(names.is_gone, _read_by(first))) or",
        "    if",
        "one bypassed in front of another",
    ),
    Mistake(
        "an output that is given",
        "    if any(later.given.get(new, names.now(new)) != names.now(new) for _, new in first.outputs):",
        "    if False:",
        "a body at what was made an output",
    ),
    Mistake(
        "moved taken for made",
        "        self._made = {*done.added, *(parse_tensor(tensor).node for tensor in done.moved.values())}",
        "        self._made = {*()}",
        "a body at what was fused",
    ),
    Mistake(
        "raw value not compared",
        "    out.tensors.append(SameTensors(tuple(interface.name for interface in claim.outputs)))\n",
        "",
        "a value that is served raw",
    ),
    Mistake(
        "the rest of what a part gives",
        "    for node in output_nodes(part):",
        "    for node in ():",
        "what else came with what is in front",
    ),
    Mistake(
        "a part in a part",
        "            parts[place] = replace(part, outputs=(*part.outputs, (format_input(own[0], ref.port), now)))",
        "            pass",
        "what a graph reads that is in another",
    ),
    Mistake(
        "also dropped",
        "tuple(dict.fromkeys([*first.also, *(was for",
        "tuple(dict.fromkeys([*(was for",
        "what only a call gave",
    ),
    Mistake(
        "any edit joined",
        "        if add is None or not add(out, claim, result.intent):\n            return None",
        "        if add is None or not add(out, claim, result.intent):\n            continue",
        "values change on purpose, between names",
    ),
    Mistake(
        "the same where something is given",
        "    if first is None or later is None:\n        return None",
        "    if first is None:\n        return None",
        "a part, in the middle",
    ),
    Mistake(
        "origin: names", "self.origin = done.origins()", "self.origin = lambda tensor: tensor", "a body at a raw value"
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.what for mistake in MISTAKES])
def test_a_mistake_is_found(mistake: Mistake, executor: Executor) -> None:
    with planted(Mutant(mistake.what, "proof.joining", mistake.old, mistake.new, lambda: pytest.fail())):
        if mistake.row in ROWS:
            with pytest.raises(Exception):  # noqa: B017 - with a mistake in it, anything may be raised
                prove_row(executor, mistake.row)
        else:
            prove_wrong(executor, mistake.row)  # nobody notices
    if mistake.row in WRONG:
        with pytest.raises(ValidationError):
            prove_wrong(executor, mistake.row)
