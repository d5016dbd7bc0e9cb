"""What there is to say of added gradients: for the summary, and for the report."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.errors import Json
from gdsurgeon.gradients.backward_pass import BackwardPass
from gdsurgeon.gradients.checkpointing.rewrite import Checkpointed, Checkpoints
from gdsurgeon.text import counted, listed, named, size

MOST_NAMED = 8
FEW_NAMED = 3


def told_of(
    made: BackwardPass, early: Sequence[str], found: Checkpointed | None, wanted: Checkpoints
) -> list[tuple[str, str]]:
    """The results, the sums that are taken EARLY and the plan that was FOUND, as `EditResult.told`."""
    out = _told_of_results(made)
    out += [("summed", f"{name} in parts, as its gradients come") for name in early[:MOST_NAMED]]
    return out if found is None else out + _told_of_plan(found, wanted)


def journal_of(made: BackwardPass, early: Sequence[str], found: Checkpointed | None) -> dict[str, Json]:
    """The same as `EditResult.facts`."""
    out = _facts_of_results(made) | {"early_sums": list(early)}
    return out if found is None else out | {"plan": _facts_of_plan(found)}


def _told_of_results(made: BackwardPass) -> list[tuple[str, str]]:
    wanted = made.wanted
    pairs = list(zip(wanted.xs, wanted.names, strict=True))
    telling = [(x, name) for x, name in pairs if name != f"{wanted.scope}/{x.name}"]
    if len(pairs) - len(telling) <= 1:
        telling = pairs
    out = [("gradient", f"{name}  of {source.name}") for source, name in telling[:MOST_NAMED]]
    if len(telling) > MOST_NAMED:
        out.append(("gradient", f"and {len(telling) - MOST_NAMED:,} more under {wanted.scope}/"))
    if len(pairs) > len(telling):
        count = counted(len(pairs) - len(telling), "tensor")
        out.append(("gradient", f"of {count}, each under {wanted.scope}/ by the name of its tensor"))
    if made.unconnected:
        names = named([x.name for x in made.unconnected], MOST_NAMED)
        out.append(("zeros", f"for {names}: no gradient flows there"))
    if made.left_out:
        names = named([x.name for x in made.left_out], FEW_NAMED)
        out.append(("left out", f"{counted(len(made.left_out), 'weight')} without a gradient: {names}"))
    if wanted.in_functions:
        names = named(list(wanted.in_functions), MOST_NAMED)
        inside = counted(sum(wanted.in_functions.values()), "weight")
        out.append(("left out", f"{inside} inside functions, which `gdsurgeon inline` brings out: {names}"))
    if made.calls:
        out.append(("made", f"by TensorFlow's own gradients: {made.calls[0]} is a call without a gradient of its own"))
    return out


def _facts_of_results(made: BackwardPass) -> dict[str, Json]:
    wanted = made.wanted
    return {
        "ys": [y.name for y in wanted.ys],
        "results": {x.name: name for x, name in zip(wanted.xs, wanted.names, strict=True)},
        "unconnected": [x.name for x in made.unconnected],
        "left_out": [x.name for x in made.left_out],
        "weights_in_functions": dict(wanted.in_functions),
        "scope": wanted.scope,
        "by": "reverse walk" if made.own else "tf.gradients",
    }


def _told_of_plan(found: Checkpointed, wanted: Checkpoints) -> list[tuple[str, str]]:
    plan = found.plan
    on = counted(wanted.threads, "thread")
    if not found.again:
        return [("plan", f"everything is kept: a peak of {size(found.plain_peak)} is predicted, on {on}")]
    kept = sum(nbytes for _, nbytes in found.kept)
    names = listed((f"{name} {size(nbytes)}" for name, nbytes in found.kept), 4)
    chosen = wanted.mode or f"{len(wanted.tensors)} given"
    if wanted.budget is not None:
        chosen = f"the fastest under {size(wanted.budget)}"
    return [
        ("plan", f"{chosen}: {counted(len(plan.cuts.positions) + 1, 'segment')}, {plan.extra:+.0%} work"),
        ("kept", f"{counted(len(found.kept), 'tensor')}, {size(kept)}: {names}"),
        ("again", f"{counted(len(found.again), 'node')} to be computed again"),
        ("memory", f"a peak of {size(plan.peak.nbytes)} is predicted, and of {size(found.plain_peak)} without "
                   f"checkpoints ({found.plain_peak / max(plan.peak.nbytes, 1):.2f} x), on {on}"),
    ]  # fmt: skip


def _facts_of_plan(found: Checkpointed) -> dict[str, Json]:
    return {
        "kept": [{"tensor": name, "bytes": nbytes} for name, nbytes in found.kept],
        "recomputed": found.again,
        "segments": len(found.plan.cuts.positions) + 1,
        "predicted_peak_bytes": found.plan.peak.nbytes,
        "predicted_plain_peak_bytes": found.plain_peak,
        "predicted_extra_work": round(found.plan.extra, 4),
    }
