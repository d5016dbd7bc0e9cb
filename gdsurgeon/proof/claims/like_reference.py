"""A graph that was added, run on what its user has kept, against what is to come of it."""

from __future__ import annotations

import os

from gdsurgeon.edits.claims import LikeReference
from gdsurgeon.errors import Line, UsageError, printable, quoted
from gdsurgeon.feeds.archive import load
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.claims.side_by_side import something_compared
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import ComparedPair, Fetch, Recorded, Trial, TrialContext, TrialRun, nodes_of

KEY = "the reference"


def like_reference_trial(context: TrialContext, claim: LikeReference) -> Trial:
    """The part gives what the archive says of it.

    Raises:
        UsageError: the archive cannot be read, or lacks a value.
    """
    file = printable(os.path.basename(claim.archive))
    samples = load(claim.archive, "the reference")
    for number, sample in enumerate(samples):
        for name in dict.fromkeys(name for pair in claim.pairs for name in pair):
            if name not in sample:
                has = ", ".join(map(quoted, sample)) or "nothing"
                which = f" for sample {number}" if number else ""
                line = "{against} {file} has {has}{which}, but not {name}"
                raise UsageError(
                    Line(line, file=file, has=has, which=which, name=quoted(name)),
                    code="no-such-tensor",
                    facts={"name": name, "file": file},
                )
    results = [result for _, result in claim.pairs]
    context.executor.load_source(KEY, claim.part)
    plan = plan_with(context.executor.settings, claim.part, nodes_of(results)).only(results)
    part = Subject(context.executor, KEY, claim.part, plan=plan, overrides=Overrides(archive=claim.archive))
    called = printable(claim.part.source_name)
    return Trial(
        f"results of {called} == values in {file}",
        [TrialRun(part, accused=called, reported_as=None)],
        [
            ComparedPair(
                f"{file}: {result}", result, Recorded(result, [s[result] for s in samples], file), Fetch(KEY, result)
            )
            for result in results
        ],
        {KEY: f"TensorFlow does not load {called}"},
        lead=KEY,
        samples=len(samples),
        rtol=claim.rtol,
        atol=claim.atol,
        conditions=[something_compared],
        skipped=plan.reasons,
        complaint=f"the results of {called} differ from those in {file} in",
    )
