"""What is done with a graph in one go, or with the body of a function: the same for both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.simplifying.carry_out import become_constants, carry_out
from gdsurgeon.edits.simplifying.decided_calls import decide_calls
from gdsurgeon.edits.simplifying.draft import Draft, Pass, to_the_end
from gdsurgeon.edits.simplifying.folding import Evaluate, Folding
from gdsurgeon.edits.simplifying.refusing import may_refuse
from gdsurgeon.edits.simplifying.same_shape import same_shape
from gdsurgeon.edits.simplifying.unread import unread
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.values import Data

SAME_SHAPE = "same-shape"
"""The pass that takes away what changes no shape, as far as shapes are known."""
DROPOUT = "dropout"
"""The pass that takes dropout away which drops nothing."""
SHAPES = "shapes"
"""The pass that has constants be what follows from shapes that are known."""
CONSTANTS = "constants"
"""The pass that has constants be what is computed of constants."""
CONDITIONS = "conditions"
"""The pass that has constants choose what is called."""


@dataclass(eq=False, repr=False)
class How(Data):
    """What is to be done.

    Attributes:
        chosen: the names of all passes that are.
        passes: those of them that go over a draft, by their names.
        evaluate: see `gdsurgeon.edits.simplify.simplify`; None where nothing can be computed any longer.
    """

    chosen: Sequence[str]
    passes: Mapping[str, Pass]
    evaluate: Evaluate | None


@dataclass(eq=False, repr=False)
class Step(Data):
    """What was done in one go.

    Attributes:
        stage: what it is called, where it is specified.
        intent: what is different.
        counts: the nodes and edges that went, or became constants, by the pass that took them.
        arguments: what was asked of the stage, beside outputs.
        growth: the bytes by which the file grows at most.
        reshapes: the nodes that read what are constants with one dim open now.
        idle: nodes of which it does not matter any longer what they draw.
        as_written: whether something follows from what a function gives, run as it is written.
        refusing: Reshapes that are removed, and that some inputs did not pass.
    """

    stage: str
    intent: Intent
    counts: Counter[str]
    arguments: dict[str, object] = field(default_factory=dict)
    growth: int = 0
    reshapes: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    as_written: bool = False
    refusing: list[str] = field(default_factory=list)


def passed(draft: Draft, how: How) -> Step:
    """Runs the passes, until none of them finds anything."""
    to_the_end(draft, how.passes.values())
    return Step("simplify", carry_out(draft), Counter(draft.counts), {"passes": tuple(how.chosen)})


def folded(draft: Draft, how: How, room: int, refused: set[str]) -> Step | None:
    """Folds what is constant; None where nothing is.

    Args:
        draft: of the graph as it is.
        how: what is to be done.
        room: bytes by which the file may grow.
        refused: names of nodes that are not folded, to which others come.

    Raises:
        NotValidatedError: constants cannot be computed; nothing was done.
    """
    shapes = draft.shapes() if SHAPES in how.chosen else None
    if shapes is None and how.evaluate is None:
        return None
    folding = Folding(draft, shapes, how.evaluate, refused)
    values = folding.fold(room)
    opened = folding.opened(room) if not values else {}
    if not values and not opened:
        return None
    growth = max(0, folding.price(values or opened))
    by_shape = sum(number in folding.known or number in opened for number in values or opened)
    name = draft.topology.name
    reshapes = [name(user) for number in opened for user in folding.users[number]]
    as_written = folding.comes_of_calls(values)
    counts = Counter({SHAPES: by_shape, CONSTANTS: len(values or opened) - by_shape})
    arguments: dict[str, object] = {"max_growth": room, "evaluate": how.evaluate, "opens": bool(opened)}
    refusing = _refusing(draft, shapes, folding.idle(values or opened)) if shapes is not None else []
    intent = become_constants(folding, values or opened)
    return Step("fold_constants", intent, counts, arguments, growth, reshapes, as_written=as_written, refusing=refusing)


def _refusing(draft: Draft, shapes: Shapes, going: Sequence[int]) -> list[str]:
    """The names of the nodes GOING that some inputs do not pass."""
    return [draft.topology.name(number) for number in going if may_refuse(draft, shapes, number)]


def passed_by(draft: Draft, how: How) -> Step | None:
    """Takes away what changes no shape, and drops nothing; None where nothing is such."""
    if not {SAME_SHAPE, DROPOUT} & {*how.chosen}:
        return None
    moved, idle = same_shape(draft, draft.shapes(), how.chosen)
    if not moved:
        return None
    unread(draft)
    intent = carry_out(draft)
    intent.moved = {name: now for name, now in moved.items() if parse_tensor(now).node in draft.graph}
    counts = Counter({DROPOUT: len(idle), SAME_SHAPE: len(moved) - len(idle)})
    return Step("same_shape", intent, counts, idle=idle)


def decided(draft: Draft, how: How) -> Step | None:
    """Has calls that choose by a constant be plain ones; None where there are none."""
    intent = decide_calls(draft.graph) if CONDITIONS in how.chosen else Intent()
    if not intent.changed:
        return None
    return Step("decide_calls", intent, Counter({CONDITIONS: len(intent.changed)}), as_written=True)
