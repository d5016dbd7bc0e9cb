"""Claims about parts of a graph in isolation.

Changed places run on random numbers that the inputs of the graph would not reach. Two parts have separate variables. An
added graph returns recorded values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import chain
from math import prod

from gdsurgeon.analysis.shapes.inference import shape_of_tensor
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.claims import LikeReference, OwnVariables, SameSites, Site
from gdsurgeon.errors import Line, UsageError, ValidationError, printable, quoted
from gdsurgeon.feeds.archive import load, of_dtype
from gdsurgeon.feeds.numbers import input_seed, numbers_of_all_sizes
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import node_of
from gdsurgeon.ops.dtypes import FLOAT16, FLOAT32, FLOAT64
from gdsurgeon.proof.plan import Assigned, FetchPlan, plan_with
from gdsurgeon.proof.same_outputs import something_compared
from gdsurgeon.proof.subject import Subject, variable_spec
from gdsurgeon.proof.trial import (
    EDITED,
    ORIGINAL,
    ComparedPair,
    FeedSource,
    Fetch,
    ProofContext,
    SameFeed,
    Trial,
    TrialRun,
    random_reasons,
)
from gdsurgeon.runtime.protocol import OutputInfo, Result
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.select import is_constant

MOST_INPUTS = 32
"""A site that reads more tensors is compared only by the outputs of the graph."""
LEAST_ROWS = 16
"""The least number of places at which a channel is computed: at a single place its value can be small by chance."""

Sites = Sequence[tuple[Site, list[str]]]
"""Sites with their replaced inputs."""


def prove_same_sites(context: ProofContext, claim: SameSites) -> Trial:
    """Proves sites: their inputs are replaced by numbers between -32 and 32 in both graphs.

    Sites with channels also get numbers that are a million times as large, so that wrong factors show. Only inputs that
    do not depend on other inputs of the site are replaced; the others are computed from them. Sites in loops cannot run
    in isolation, and are covered by the outputs of the graph.
    """
    executor, reads = context.executor, _first_inputs(context.change.before, claim.sites)
    tensors = [*chain(*reads), *(old for site in claim.sites for old, _ in site.outputs)]
    source = context.original(context.plan(ORIGINAL, tensors))
    places, is_random = source.places(), source.plan.sampled or source.plan.random
    found = [
        (site._replace(outputs=outputs), read)
        for site, read in zip(claim.sites, reads, strict=True)
        if (outputs := tuple(pair for pair in site.outputs if pair[0] in places))
        and not is_random
        and read
        and places.keys() >= {*read}
    ]
    channels = [(site, read) for site, read in found if site.channels is not None]
    within = f", within {claim.tolerance.of_largest:g}" if claim.tolerance.of_largest else ""
    numbers_used = f"random numbers from -32 to 32{' and large numbers' if channels else ''}"
    statement = f"each changed site in isolation: edited == original on {numbers_used}{within}"
    trial = Trial(executor, statement, [TrialRun(source, optional="end")] if found else [], [], shown=False)
    trial.samples, trial.tolerance = executor.settings.samples, claim.tolerance
    for sites, label in ((found, ""), (channels, ", large numbers")):
        if sites:
            _add_runs(context, trial, source, sites, label)
    return trial.run()


def _add_runs(context: ProofContext, trial: Trial, source: Subject, sites: Sites, label: str) -> None:
    """Adds the runs of sites with replaced inputs in both graphs, and the pairs of outputs, to `trial`.

    Args:
        context: of the claim.
        trial: is changed.
        source: the run of the original without replaced inputs.
        sites: the sites.
        label: is added to names of runs and tensors; if it is not empty, the numbers are large.
    """
    change, executor, mine, theirs = context.change, context.executor, f"sites{label}", f"other sites{label}"
    pairs = [
        ComparedPair(old + label, new + label, Fetch(mine, old), Fetch(theirs, new), site=True, channels=site.channels)
        for site, _ in sites
        for old, new in site.outputs
    ]
    rows: dict[str, int] = {}
    for site, read in sites:
        for tensor in read:
            shape = shape_of_tensor(change.before, change.before.tensor(tensor))
            # A fixed number of rows may follow from the graph.
            least = LEAST_ROWS if site.any_rows and (not shape or shape[0] < 0) else 0
            rows[tensor] = min(least, rows.get(tensor, LEAST_ROWS))
    made: dict[str, FeedSource] = {}  # tensors that are one tensor after the edit get the same numbers
    fed: dict[str, FeedSource] = {feed: SameFeed(ORIGINAL, feed) for feed in source.feedable}
    for tensor, least in rows.items():
        fed[tensor] = made.setdefault(context.after(tensor), _any_numbers(tensor, least, bool(label)))
    fed |= {feed: made[now] for feed in source.feedable if (now := context.after(feed)) in made}
    old_tensors, new_tensors = [old for site, _ in sites for old, _ in site.outputs], [p.actual.tensor for p in pairs]
    first = TrialRun(Subject(executor, ORIGINAL, change.before, FetchPlan([old_tensors]), name=mine), fed)
    first.optional = "" if any(site.channels is not None for site, _ in sites) else "end"
    second = TrialRun(
        Subject(executor, EDITED, change.after, FetchPlan([new_tensors]), name=theirs),
        {context.after(feed): SameFeed(mine, feed) for feed in fed},
        edited_name=change.called,
    )
    trial.runs += [first, second]
    trial.pairs += pairs


def _any_numbers(tensor: str, rows: int, is_large: bool) -> Callable[[Trial, int], Tensor | Result]:
    """Returns the feed of random positive and negative numbers for a tensor of the original; only floats are replaced.

    Half of the numbers are between 1/8 and 2, and the others between 2 and 32, or a million times as large.
    The first dimension is enlarged until all dimensions except the last have `rows` elements.
    """

    def feed(trial: Trial, sample: int) -> Tensor | Result:
        fetch = Fetch(ORIGINAL, tensor)
        dtype, shape = trial.info(fetch)[:2]
        if dtype not in (FLOAT16, FLOAT32, FLOAT64):
            return trial.result(fetch, sample)
        count = prod(shape[:-1])
        if shape and count < rows:
            shape = (shape[0] * -(-rows // max(count, 1)), *shape[1:])
        seed = input_seed(trial.executor.settings.seed + sample, f"piece {tensor}")
        return Tensor(dtype, shape, numbers_of_all_sizes(dtype, prod(shape), seed, large=is_large))

    return feed


def _first_inputs(graph: Graph, sites: Sequence[Site]) -> list[list[str]]:
    """Returns for each site the inputs that are not constant and do not depend on other inputs of the site."""
    topology = topology_of(graph)
    constant = is_constant(topology)
    out: list[list[str]] = []
    for site in sites:
        numbers = {tensor: topology.id_of(graph[node_of(tensor)]) for tensor in site.inputs}
        varying = {tensor: number for tensor, number in numbers.items() if not constant[number]}
        first = []
        for tensor, number in varying.items() if len(varying) <= MOST_INPUTS else ():
            above = topology.upstream([number]) if len(varying) > 1 else b""
            if not any(above[other] for other in varying.values() if other != number):
                first.append(tensor)
        out.append(first)
    return out


# -- variables ------------------------------------------------------------------------------------------------


def prove_own_variables(context: ProofContext, claim: OwnVariables) -> Trial:
    """Proves that two parts have separate variables.

    The restored graph runs, then the graph with other variables in one part, then in the other. The outputs of the part
    with unchanged variables must not change.
    """
    graph, executor, restored_name = context.change.after, context.executor, "restored"
    tensors = [*chain(*claim.outputs)]
    plan = context.plan(EDITED, tensors).only(tensors)
    restored = Subject(executor, EDITED, graph, plan, context.overrides, name=restored_name)
    fed = {name: SameFeed(restored_name, name) for name in restored.feedable}
    runs = [TrialRun(restored, edited_name=context.change.called)]
    pairs: list[ComparedPair] = []
    reasons, places = random_reasons(plan), restored.places()
    for side, key in enumerate(("the variables of the original assigned", "the variables of the copy assigned")):
        nodes = {graph[pair[side]]: graph[pair[side]].inputs[0].node.name for pair in claim.assigned}
        assigned = [
            Assigned(name, node.name, node.inputs[1].name, f"assigned {name}")
            for node, name in nodes.items()
            if variable_spec(graph, name) is not None
        ]
        if not assigned:
            continue
        subject = Subject(executor, key, graph, FetchPlan(plan.groups, assigned=assigned))
        runs.append(TrialRun(subject, fed, f"the result, with {key},", loads=True))
        for kept in (pair[1 - side] for pair in claim.outputs):
            if kept in places:
                ends = Fetch(restored_name, kept), Fetch(key, kept)
                pairs.append(ComparedPair(kept, kept, *ends, reason=reasons.get(kept, "")))
    trial = Trial(executor, claim.statement, runs if pairs else [], pairs, restored_name, shown=False)
    trial.message = "the copy and the original share variables"
    return trial.run()


# -- recorded values ------------------------------------------------------------------------------------------


def recorded(tensor: str, values: Sequence[object], called: str) -> Callable[[Trial, int, OutputInfo], Tensor]:
    """Returns the expected value of a pair: recorded `values` of `tensor`, one for each sample, in the file `called`.

    The function raises ValidationError if a value has a different kind.
    """

    def expected(_trial: Trial, sample: int, info: OutputInfo) -> Tensor:
        try:
            return of_dtype(values[sample], info.dtype)
        except (TypeError, ValueError) as error:
            what = f"the value of {quoted(tensor)} in {called} cannot be compared"
            raise ValidationError(f"{what}: {printable(str(error))}", code="does-not-run") from error

    return expected


def prove_like_reference(context: ProofContext, claim: LikeReference) -> Trial:
    """Proves that an added graph returns the values in the archive.

    Raises:
        UsageError: the archive cannot be read, or lacks a value.
    """
    key, file = "the reference", printable(os.path.basename(claim.archive))
    samples = load(claim.archive, key)
    for number, sample in enumerate(samples):
        for name in dict.fromkeys(chain(*claim.pairs)):
            if name not in sample:
                has = ", ".join(map(quoted, sample)) or "nothing"
                which = f" for sample {number}" if number else ""
                line = Line(
                    "{against} {file} has {has}{which}, but not {name}",
                    file=file,
                    has=has,
                    which=which,
                    name=quoted(name),
                )
                raise UsageError(line, code="no-such-tensor", name=name, file=file)
    results = [result for _, result in claim.pairs]
    plan = plan_with(context.executor.settings, claim.part, results).only(results)
    part = Subject(context.executor, key, claim.part, plan, Overrides(archive=claim.archive))
    called = printable(claim.part.source_name)
    trial = Trial(
        context.executor,
        f"results of {called} == values in {file}",
        [TrialRun(part, edited_name=called, reported_as=None, loads=True)],
        [
            ComparedPair(f"{file}: {name}", name, recorded(name, [s[name] for s in samples], file), Fetch(key, name))
            for name in results
        ],
        lead=key,
        samples=len(samples),
        tolerance=claim.tolerance,
        skipped=plan.reasons,
        message=f"the results of {called} differ from those in {file} in",
    )
    something_compared(trial.run().proof)
    return trial
