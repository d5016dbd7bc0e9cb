"""What there is to say of added gradients: for the summary, and for the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.edits.backward_pass import BackwardPass
from gdsurgeon.edits.byte_counts import amount
from gdsurgeon.edits.checkpoints import Checkpointed, Checkpoints

MOST_NAMED = 8


def told_of(
    made: BackwardPass, early: Sequence[str], found: Checkpointed | None, wanted: Checkpoints
) -> list[tuple[str, str]]:
    """The results, the sums that are taken EARLY and the plan that was FOUND, as `EditResult.told`."""
    out = _told_of_results(made)
    out += [("summed", f"{name} in parts, as its gradients come") for name in early[:MOST_NAMED]]
    return out if found is None else out + _told_of_plan(found, wanted)


def facts_of(made: BackwardPass, early: Sequence[str], found: Checkpointed | None) -> dict[str, Any]:
    """The same as `EditResult.facts`."""
    out = _facts_of_results(made) | {"early_sums": list(early)}
    return out if found is None else out | {"plan": _facts_of_plan(found)}


def _told_of_results(made: BackwardPass) -> list[tuple[str, str]]:
    pairs = list(zip(made.wanted.xs, made.wanted.names, strict=True))
    out = [("gradient", f"{name}  of {source.name}") for source, name in pairs[:MOST_NAMED]]
    if len(pairs) > MOST_NAMED:
        out.append(("gradient", f"and {len(pairs) - MOST_NAMED:,} more under {made.wanted.scope}/"))
    if made.unconnected:
        names = ", ".join(x.name for x in made.unconnected[:MOST_NAMED])
        out.append(("zeros", f"for {names}: no gradient flows there"))
    if made.calls:
        out.append(("made", f"by TensorFlow's own gradients: {made.calls[0]} is a call without a gradient of its own"))
    return out


def _facts_of_results(made: BackwardPass) -> dict[str, Any]:
    wanted = made.wanted
    return {
        "ys": [y.name for y in wanted.ys],
        "results": {x.name: name for x, name in zip(wanted.xs, wanted.names, strict=True)},
        "unconnected": [x.name for x in made.unconnected],
        "scope": wanted.scope,
        "by": "reverse walk" if made.own else "tf.gradients",
    }


def _told_of_plan(found: Checkpointed, wanted: Checkpoints) -> list[tuple[str, str]]:
    plan = found.plan
    on = f"{wanted.threads} thread{'' if wanted.threads == 1 else 's'}"
    if not found.again:
        return [("plan", f"everything is kept: {amount(found.plain_peak)} at most, as predicted on {on}")]
    kept = sum(nbytes for _, nbytes in found.kept)
    names = ", ".join(f"{name} {amount(nbytes)}" for name, nbytes in found.kept[:4])
    more = f" and {len(found.kept) - 4:,} more" if len(found.kept) > 4 else ""
    chosen = wanted.mode or f"{len(wanted.tensors)} given"
    if wanted.budget is not None:
        chosen = f"the fastest under {amount(wanted.budget)}"
    return [
        ("plan", f"{chosen}: {len(plan.cuts.positions) + 1} segments, {plan.extra:+.0%} work"),
        ("kept", f"{len(found.kept)} tensors, {amount(kept)}: {names}{more}"),
        ("again", f"{len(found.again)} nodes are computed again"),
        ("memory", f"{amount(plan.peak.nbytes)} at most, {amount(found.plain_peak)} without checkpoints "
                   f"({found.plain_peak / max(plan.peak.nbytes, 1):.2f} x), as predicted on {on}"),
    ]  # fmt: skip


def _facts_of_plan(found: Checkpointed) -> dict[str, Any]:
    return {
        "kept": [{"tensor": name, "bytes": nbytes} for name, nbytes in found.kept],
        "recomputed": found.again,
        "segments": len(found.plan.cuts.positions) + 1,
        "predicted_peak_bytes": found.plan.peak.nbytes,
        "predicted_plain_peak_bytes": found.plain_peak,
        "predicted_extra_work": round(found.plan.extra, 4),
    }
