"""What there is to say of added gradients: for the summary, and for the report."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.errors import Json
from gdsurgeon.gradients.backward_pass import BackwardPass
from gdsurgeon.gradients.checkpointing.rewrite import Checkpointed, Checkpoints
from gdsurgeon.text import Entry, counted, size


def told_of(made: BackwardPass, early: Sequence[str], found: Checkpointed | None, wanted: Checkpoints) -> list[Entry]:
    """The entries of the summary for the results, the sums computed early, and the plan of checkpoints if there is one.

    Args:
        made: the gradients.
        early: names of the sums that are computed in parts.
        found: the checkpoints.
        wanted: the checkpoints that were asked for.
    """
    out = _told_of_results(made)
    if early:
        out.append(Entry("summed", f"{counted(len(early), 'gradient')} in parts, as they are computed", early))
    return out if found is None else out + _told_of_plan(found, wanted)


def journal_of(made: BackwardPass, early: Sequence[str], found: Checkpointed | None) -> dict[str, Json]:
    """The same as `EditResult.facts`."""
    out = _facts_of_results(made) | {"early_sums": list(early)}
    return out if found is None else out | {"plan": _facts_of_plan(found)}


def _told_of_results(made: BackwardPass) -> list[Entry]:
    wanted = made.wanted
    pairs = list(zip(wanted.xs, wanted.names, strict=True))
    telling = [(x, name) for x, name in pairs if name != f"{wanted.scope}/{x.name}"]
    if len(pairs) - len(telling) <= 1:
        telling = pairs
    out = [Entry("gradient", f"{name}  of {source.name}") for source, name in telling]
    if len(pairs) > len(telling):
        count = counted(len(pairs) - len(telling), "tensor")
        out.append(Entry("gradient", f"of {count}: {wanted.scope}/ and the name of the tensor"))
    if made.unconnected:
        out.append(Entry("zeros", "no gradient reaches", [x.name for x in made.unconnected]))
    if made.left_out:
        weights = counted(len(made.left_out), "weight")
        out.append(Entry("left out", f"{weights} without a gradient", [x.name for x in made.left_out]))
    if wanted.in_functions:
        weights = counted(sum(wanted.in_functions.values()), "weight")
        out.append(Entry("left out", f"{weights} in functions (see gdsurgeon inline)", list(wanted.in_functions)))
    if made.calls:
        out.append(Entry("computed", f"by TensorFlow's own gradients: {made.calls[0]} is a call without a gradient"))
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


def _told_of_plan(found: Checkpointed, wanted: Checkpoints) -> list[Entry]:
    plan = found.plan
    on = counted(wanted.threads, "thread")
    if not found.again:
        return [Entry("plan", f"keep everything: predicted peak {size(found.plain_peak)}, on {on}")]
    kept = size(sum(nbytes for _, nbytes in found.kept))
    chosen = wanted.mode or f"{len(wanted.tensors)} given"
    if wanted.budget is not None:
        chosen = f"the fastest under {size(wanted.budget)}"
    ratio = found.plain_peak / max(plan.peak.nbytes, 1)
    return [
        Entry("plan", f"{chosen}: {counted(len(plan.cuts.positions) + 1, 'segment')}, {plan.extra:+.0%} work"),
        Entry("kept", f"{counted(len(found.kept), 'tensor')}, {kept}", [f"{name} {size(n)}" for name, n in found.kept]),
        Entry("recomputed", counted(len(found.again), "node")),
        Entry("memory", f"predicted peak {size(plan.peak.nbytes)}, on {on} (without checkpoints "
                        f"{size(found.plain_peak)}, {ratio:.2f} x)"),
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
