"""A graph that was added, run apart: on its own feeds, and with them where it is now."""

from __future__ import annotations

import os

from gdsurgeon.edits.claims import SamePart
from gdsurgeon.edits.replacing import known_shapes
from gdsurgeon.errors import printable
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.proof.claims.side_by_side import something_compared
from gdsurgeon.proof.loading import await_loaded
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.statement import stated
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    EDITED,
    ComparedPair,
    FeedSource,
    Fetch,
    SameFeed,
    Trial,
    TrialContext,
    TrialRun,
    both_load,
    chance_reasons,
    nodes_of,
)

_PLACED = "the part in the result"


def part_apart_trial(context: TrialContext, claim: SamePart, key: str) -> Trial:
    """What was added gives in the edited graph what it gives on its own, whatever it is given.

    What it reads of the edited graph is fed in both. That can be done where its values cannot be fetched (in a branch
    that may not be taken), and where the part does not take them.

    Args:
        context: of the claim.
        claim: has inputs.
        key: of the part in the executor.
    """
    copied = claim.copies
    plan = plan_with(context.executor.settings, claim.part, nodes_of(tensor for tensor, _ in claim.outputs))
    part = Subject(context.executor, key, claim.part, plan=plan, overrides=_shapes(context, claim))
    places = part.places()
    outputs = [(tensor, after) for tensor, after in claim.outputs if tensor in places]
    placed_plan = FetchPlan(
        [[after for _, after in outputs]], initializers=[copied.get(n, n) for n in plan.initializers]
    )
    placed = Subject(context.executor, EDITED, context.change.after, plan=placed_plan, options=SubjectOptions(_PLACED))
    fed: dict[str, FeedSource] = {}
    for name in part.feedable:
        ref = parse_tensor(name)
        after = claim.inputs.get(ref.node) or format_input(copied.get(ref.node, ref.node), ref.port)
        fed[after] = SameFeed(part.name, name)
    name = printable(os.path.basename(claim.part.source_name))
    chance = chance_reasons(plan)
    return Trial(
        f"{stated([], [name])} on any inputs",
        [TrialRun(part, reported_as=None), TrialRun(placed, fed, accused=context.change.called, reported_as=None)],
        [ComparedPair(t, a, Fetch(part.name, t), Fetch(placed.name, a), chance.get(t, "")) for t, a in outputs],
        both_load(context.change),
        lead=part.name,
        samples=part.calls,
        conditions=[something_compared],
        skipped=plan.reasons,
        shown=False,
    )


def _shapes(context: TrialContext, claim: SamePart) -> Overrides:
    """The shapes of the tensors that the part reads now, as far as they are known; an open dimension is 1.

    TensorFlow knows more of them than is known here, and takes no feed of another shape.
    """
    tensors = {name: context.change.after.tensor(tensor) for name, tensor in claim.inputs.items()}
    known = known_shapes(context.change.after, tensors.values())
    shapes = {name: known[tensor] for name, tensor in tensors.items()}
    unknown = [name for name, shape in shapes.items() if shape is None]
    if unknown:
        await_loaded(context.executor, EDITED, both_load(context.change)[EDITED])
        told = context.executor.signature(EDITED, [tensors[name].name for name in unknown])
        shapes |= {name: spec.shape for name, spec in zip(unknown, told, strict=True)}
    return Overrides(
        shapes={n: tuple(max(dim, 1) for dim in shape) for n, shape in shapes.items() if shape is not None}
    )
