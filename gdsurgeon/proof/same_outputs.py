"""Claims about the original and the edited graph on the same feeds: equal values, equal shapes, or no claim.

The original leads: its feeds are generated, and the edited graph gets the same values by its own names. The plan of the
original determines the fetches of both graphs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from gdsurgeon.analysis.queries.deciding import chosen_from, deciding_nodes
from gdsurgeon.analysis.queries.effects import DETERMINISTIC
from gdsurgeon.analysis.queries.signature import can_be_fetched, output_nodes
from gdsurgeon.analysis.queries.usage import calling, op_counts, op_usage
from gdsurgeon.analysis.traversal.topology import depending_on, topology_of
from gdsurgeon.edits.claims import SameOutputs, SameShapes, SameSites, Unchanged, nodes_of_sites
from gdsurgeon.edits.functions import NO_OPTIMIZER_OF_ITS_OWN
from gdsurgeon.errors import GdsurgeonError, Line, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.graph.attrs import bool_value, bytes_value, int_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import node_of, nodes_of, parse_tensor
from gdsurgeon.ops.dtypes import FLOATING
from gdsurgeon.ops.kinds import CALLS, is_random
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.proof.executor import Refused, await_loaded
from gdsurgeon.proof.plan import Assigned, FetchPlan, Obstacle
from gdsurgeon.proof.proof import DiffersError, Proof
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import (
    DO_WITHOUT,
    EDITED,
    ORIGINAL,
    ComparedPair,
    Fetch,
    ProofContext,
    RunRefused,
    SameFeed,
    Trial,
    TrialRun,
    nothing_comparable,
    random_reasons,
)
from gdsurgeon.text import counted, listed, named
from gdsurgeon.wire.protos import AttrValue

MOST_FETCHED = 100
"""The number of tensors of `SameOutputs.finite` that are fetched after a difference."""


def prove_same_outputs(context: ProofContext, claim: SameOutputs) -> Trial:
    """Proves that the outputs of both graphs, and the other tensors of the claim, are equal.

    If the original does not run, `even_alone` proves only that the edited graph runs. If outputs depend on random ops
    in functions, both graphs run again with one seed for all random ops.
    """
    plan, inside = same_outputs_plan(context, claim)
    trial = side_by_side(context, plan, claim, inside)
    if not claim.judged:
        trial.judged, trial.varying_run = False, None
        return trial.run()
    seeds = _with_one_seed(context.change.after) if plan.random else {}
    try:
        if seeds or claim.even_alone:
            context.executor.loaded(ORIGINAL)
        return _judged(trial.run(), claim)
    except DiffersError as differs:
        raise _outside_domain(context, claim, trial, differs) if claim.finite else differs from differs.__cause__
    except (Refused, NotValidatedError) as error:
        if not (seeds or claim.even_alone):
            raise
        why = trial.reason(error)
    if not seeds:
        return prove_alone(context, why)
    # Random ops in functions cannot be fed. Graphs that differ may have sampled in a different order.
    load_with(context, (AS_WRITTEN if claim.as_written else {}) | seeds)
    names = listed(map(quoted, plan.random_ops), 3)
    plan = replace(plan, random=set(), sampled=[], random_nodes={})
    again = side_by_side(context, plan, claim, inside)
    again.warnings, again.varying_run = [f"{names}: random; both graphs run with the same seed"], None
    try:
        return _judged(again.run(), claim)
    except DiffersError as differs:
        raise NotValidatedError(why, code="nothing-comparable", advice=DO_WITHOUT) from differs


def _judged(trial: Trial, claim: SameOutputs) -> Trial:
    if not any(pair.accepted_because for pair in trial.pairs):
        something_compared(trial.proof, by_sites=not claim.may_differ)
    return trial


def _outside_domain(context: ProofContext, claim: SameOutputs, trial: Trial, differs: DiffersError) -> GdsurgeonError:
    """Returns the error for outputs that differ; nothing is shown if `claim` does not hold for the fed values.

    Tensors inside loops cannot be fetched; the tensors that they are computed from are fetched instead.
    """
    executor, names = context.executor, _fetchable(context.change.before, claim.finite)
    result = "values that must be finite"
    executor.run(ORIGINAL, result, trial.fed[ORIGINAL], names)
    bad = [n for n, found in zip(names, executor.statistics(result), strict=True) if found.nan or found.infinite]
    executor.drop(result)
    if not bad:
        return differs
    text = f"outputs differ, but {listed(map(quoted, bad), 3)} is not finite for these inputs"
    return NotValidatedError(
        text, code="not-finite", tensors=bad, details=differs.details, advice=("give-others", DO_WITHOUT)
    )


def _fetchable(graph: Graph, tensors: Sequence[str]) -> list[str]:
    """Returns floating-point tensors that can be fetched: `tensors`, or the nearest tensors upstream."""
    pending = dict.fromkeys(graph.tensor(name) for name in tensors if node_of(name) in graph)
    found: list[str] = []
    for tensor in (queue := list(pending)):  # grows during the loop
        is_array = tensor.node.op.startswith("TensorArray")  # a different node computes its values
        if not is_array and tensor.dtype in FLOATING and can_be_fetched(graph, tensor.node):
            found.append(tensor.name)
        else:
            more = [read for read in tensor.node.inputs if read not in pending]
            pending |= dict.fromkeys(more)
            queue += more
    return found[:MOST_FETCHED]


def prove_alone(context: ProofContext, why: str) -> Trial:
    """Proves that the edited graph runs, because the original does not run here, for the reason `why`."""
    trial = _unchanged(context, is_measured=False)
    trial.runs = [replace(trial.runs[-1], fed={})]
    trial.warnings = [f"{context.change.name} does not run here, so nothing can be compared: {printable(why)}"]
    for pair in trial.pairs:
        pair.reason = "the original does not run here"
    return trial.run()


# -- both graphs on the same feeds ----------------------------------------------------------------------------


def deciding(context: ProofContext, outputs: Iterable[str]) -> list[str]:
    """Returns the nodes of the original by which `outputs` are decided, if they exist after the edit."""
    nodes = deciding_nodes(context.change.before[name] for name in dict.fromkeys(outputs))
    return [node.name for node in nodes if context.has_after(node.name)]


def same_outputs_plan(context: ProofContext, claim: SameOutputs) -> tuple[FetchPlan, set[str]]:
    """Returns the plan of the original, and its nodes that are not outputs."""
    change = context.change
    intent, after = change.intent, change.after
    served = dict.fromkeys(node.name for node in output_nodes(change.before))
    inside = deciding(context, served)
    if claim.may_differ:  # folds are sites; tensors that outputs are chosen from, and that no fold changed, decide
        sites = [site for each in change.result.claims if isinstance(each, SameSites) for site in each.sites]
        inside += {*chosen_from(change.before, picks=True)} & {*claim.also} - {*nodes_of_sites(sites)}
    plan = context.plan(ORIGINAL, [*served, *claim.also, *inside], not_sampled=intent.removed, idle=claim.idle)
    adds_dependencies = intent.added or intent.changed or intent.functions.added or intent.functions.changed
    barred = (context.barred(plan.fetches) if adds_dependencies else {}) | {
        name: why for name, why in claim.except_for.items() if name in plan.fetches and not context.has_after(name)
    }
    skipped = [skipped for skipped in plan.skipped if skipped.name in served]
    plan.skipped = skipped + [Obstacle(reason, name=name) for name, reason in barred.items()]

    def is_paired(tensor: str) -> bool:
        """Returns whether a tensor is compared: each output, and other tensors that have a counterpart."""
        ref = parse_tensor(tensor)
        if ref.node in served or tensor in intent.moved:
            return True
        counterpart = after.find(intent.after(ref.node))
        count = counterpart.output_count if counterpart is not None else 0
        return count is None or ref.port < count

    kept = {name for name in plan.fetches if name not in barred and is_paired(name)}
    return plan.only(kept), {name for name in inside if name not in served}


def side_by_side(context: ProofContext, plan: FetchPlan, claim: SameOutputs, inside: Collection[str] = ()) -> Trial:
    """Returns the trial of the fetches of `plan`, a plan of the original; `inside` are nodes that are not outputs.

    The edited graph runs on the feeds of the original. The report has the names of the inputs after the edit.
    """
    change, after = context.change, context.after
    original = context.original(plan)
    sites = {*claim.also} - {*inside} - {node.name for node in output_nodes(change.before)}
    reasons = random_reasons(plan) | ({} if claim.may_differ else dict(claim.except_for))
    pairs = [
        ComparedPair(
            name,
            after(name),
            Fetch(ORIGINAL, name),
            Fetch(EDITED, after(name)),
            reasons.get(name, ""),
            inside=node_of(name) in inside or name in plan.inputs_of_sampled,
            site=node_of(name) in sites,
            accepted_because=claim.except_for.get(name, "") if claim.may_differ else "",
        )
        for name in plan.fetches
    ]
    edited = Subject(context.executor, EDITED, change.after, plan=_edited_plan(context, plan))
    fed = {after(name): SameFeed(ORIGINAL, name) for name in original.feedable}
    intent = change.intent
    trial = Trial(
        context.executor,
        f"edited(x) == original(x){' under the new names' if intent.renamed or intent.moved else ''}",
        [
            TrialRun(original, reported_as={spec.name: after(spec.name) for spec in original.specs}),
            TrialRun(edited, fed, edited_name=change.called, alongside=ORIGINAL),
        ],
        pairs,
        samples=original.needed_samples,
        tolerance=claim.tolerance,
        skipped=plan.reasons,
        varying_run=ORIGINAL,
    )
    only_downstream(context, trial)
    return trial


def _edited_plan(context: ProofContext, original: FetchPlan) -> FetchPlan:
    """Returns the plan of the edited graph: the counterparts of the plan of the original."""
    groups = [[context.after(name) for name in names] for names in original.groups]
    assigned: list[Assigned] = []
    if original.assigned:
        nodes = nodes_of(tensor for names in groups for tensor in names)
        seeds = {context.after(found.variable): found.seed for found in original.assigned}
        own = context.plan(EDITED, (name for name in nodes if name in context.change.after)).assigned
        assigned = [found._replace(seed=seeds.get(found.variable, found.seed)) for found in own]
    initializers = [context.after(name) for name in original.initializers if context.has_after(name)]
    return FetchPlan(groups, initializers=initializers, assigned=assigned)


def only_downstream(context: ProofContext, trial: Trial) -> None:
    """Requires exact equality of tensors that do not depend on the edit."""
    if not trial.tolerance.is_exact:
        reached = reached_after(context)
        for pair in trial.pairs:
            pair.exact = node_of(pair.after) not in reached


def reached_after(context: ProofContext) -> AbstractSet[str]:
    """Returns the nodes of the edited graph that the edit added or changed, and the nodes that depend on them."""
    intent = context.change.intent
    names = [*intent.added, *intent.changed, *(slot.node for slot in intent.rewired)]
    others = [*intent.functions.added, *intent.functions.changed]
    names += [node.name for node in calling(context.change.after, others)] if others else []
    return depending_on(context.change.after, names)


def something_compared(proof: Proof, *, by_sites: bool | None = None) -> None:
    """Raises NotValidatedError if nothing was compared.

    Inner tensors at sites count if `by_sites` is true; None: unless differences are parts of the largest element.
    """
    sites = not proof.tolerance.of_largest if by_sites is None else by_sites
    if not any(not o.inside or (o.site and sites) for o in proof.compared):
        raise nothing_comparable(proof)
    empty = [o.after for o in proof.compared if o.after not in proof.non_empty]
    if len(empty) == len(proof.compared):
        raise NotValidatedError(
            f"nothing could be compared: on these feeds {named(empty, 5)} "
            f"{'has' if len(empty) == 1 else 'have'} no elements",
            code="nothing-comparable",
            tensors=empty,
            advice=("give-others", DO_WITHOUT),
        )
    all_nan = proof.non_empty - proof.numeric
    nan = [o.after for o in proof.compared if o.after in all_nan]
    line = "on these feeds {names} {what}, so there is nothing in {them} to compare; use {feeds} to give other inputs"
    for names, one, many in ((empty, "has no elements", "have no elements"), (nan, "is all NaN", "are all NaN")):
        what, them = (one, "it") if len(names) == 1 else (many, "them")
        proof.warnings += [Line(line, names=named(names, 5), what=what, them=them)] if names else []


# -- no claim about values that the edit changes --------------------------------------------------------------


def prove_unchanged(context: ProofContext, claim: Unchanged) -> Trial:
    """Proves an edit that changes values on purpose: the other outputs are the same; differences can be measured."""
    trial = _unchanged(context, is_measured=claim.measured)
    if not claim.measured:
        return trial.run()
    try:
        context.executor.loaded(EDITED)
        return trial.run()
    except (Refused, NotValidatedError) as error:
        return prove_alone(context, trial.reason(error))


def _unchanged(context: ProofContext, *, is_measured: bool) -> Trial:
    """Returns the trial; the edited graph has its own plan, because it may need other inputs and other ops."""
    change = context.change
    before, after, intent = change.before, change.after, change.intent
    served = [node.name for node in output_nodes(before)]
    inside = [name for name in deciding(context, served) if name not in served] if is_measured else []
    original = context.original(context.plan(ORIGINAL, [*served, *inside]))
    names = [*map(context.after, [*served, *inside]), *(node.name for node in output_nodes(after))]
    plan = context.plan(EDITED, (name for name in names if name in after))
    overrides = context.overrides_of(ORIGINAL)
    edited = Subject(context.executor, EDITED, after, plan, overrides)
    for subject in (original, edited):
        subject.fix_batch()  # the edit may have fixed the batch of one input
    changed, reached = {*intent.changed, *(slot.node for slot in intent.rewired)}, reached_after(context)
    decided = {context.after(name) for name in inside}
    reasons = random_reasons(plan) | random_reasons(original.plan)
    old_names = {context.after(name): name for name in original.plan.fetches}
    pairs: list[ComparedPair] = []
    for name in plan.fetches:
        node, old = node_of(name), old_names.get(name)
        pair = ComparedPair(old or name, name, None, Fetch(EDITED, name), reasons.get(name, ""), node in decided)
        if not pair.reason and node in reached:
            pair.reason, pair.measured = "downstream of the edit", is_measured and old is not None
        elif not pair.reason and old is None:
            pair.reason = "not an output before"
        pair.expected = Fetch(ORIGINAL, pair.before) if pair.measured or not pair.reason else None
        pairs.append(pair)

    def on_refusal(refused: RunRefused) -> GdsurgeonError:
        """Returns the error for an edited graph that does not run; the edit is wrong if the original runs."""
        if refused.error is None or run.fed or context.original_runs():
            return ValidationError(f"the result does not run: {refused.text}", code="does-not-run")
        return refused.error

    run = TrialRun(edited, edited_name=change.called, on_refusal=on_refusal)
    runs = [run]
    if any(pair.expected is not None for pair in pairs):
        # The edit may have changed the shape of an input, so a changed input gets a feed of its own.
        run.fed = {n: SameFeed(ORIGINAL, n) for n in original.feedable if node_of(n) not in changed}
        runs = [TrialRun(original), run]
    statement = "outputs not downstream of the edit == original(x)"
    trial = Trial(context.executor, statement, runs, pairs, EDITED, edited.needed_samples)
    trial.skipped = plan.reasons
    return trial


# -- equal shapes ---------------------------------------------------------------------------------------------

SAME_SHAPE = "same dtype and shape; values are not compared"
_SHAPED_BY_VALUES = re.compile(
    "Where$|Unique|NonMaxSuppression|DynamicPartition|ListDiff|StringSplit|Ragged|Sparse|Deserialize|Parse|CTC|Exit$"
    "|While|If$|Case$|Call|TensorArray|TensorList|Decode|Range$|Sample|Bincount|Merge"
)
"""Ops whose output shapes can depend on the values of their inputs."""


def prove_same_shapes(context: ProofContext, claim: SameShapes) -> Trial:
    """Proves that the outputs have the dtypes and shapes of the original on the same feeds."""
    del claim  # it has no fields
    plan, inside = same_outputs_plan(context, SameOutputs())
    trial = side_by_side(context, plan.only({*plan.fetches} - inside), SameOutputs())
    trial.statement = "dtypes and shapes of edited(x) == dtypes and shapes of original(x)"
    trial.varying_run, trial.runs[1].on_refusal = None, _without_weights
    for pair in trial.pairs:
        pair.reason = SAME_SHAPE
    graph = context.change.before
    shaping = [op for op in op_counts(graph) if _SHAPED_BY_VALUES.search(op) or op in graph.functions]
    by_values = depending_on(graph, [node.name for node in graph.nodes() if node.op in shaping])
    try:
        context.executor.loaded(ORIGINAL)
        for sample in trial.each_sample():
            _compare_shapes(trial, by_values, sample)
    except (Refused, NotValidatedError) as error:
        return prove_alone(context, trial.reason(error))
    return trial


def _compare_shapes(trial: Trial, by_values: AbstractSet[str], sample: int) -> None:
    """Raises DiffersError if an output does not have the dtype and shape of the original."""
    wrong = []
    for pair, output in zip(trial.pairs, trial.proof.outputs, strict=True):
        assert isinstance(pair.expected, Fetch)
        old, new = trial.info(pair.expected), trial.info(pair.actual)
        if (old.dtype, len(old.shape)) == (new.dtype, len(new.shape)) and node_of(pair.before) in by_values:
            output.reason = SAME_SHAPE if old.shape == new.shape else "its size depends on values"
        elif (old.dtype, old.shape) != (new.dtype, new.shape):
            wrong.append(f"{quoted(pair.after)} has the shape {list(new.shape)}, but had {list(old.shape)}")
    if wrong:
        raise DiffersError(
            f"{counted(len(wrong), 'output')} with a different shape, on sample {sample + 1}:",
            trial.proof,
            details=tuple(wrong),
            advice="keep-constants",
        )


def _without_weights(refusal: RunRefused) -> GdsurgeonError:
    if refusal.error is not None:
        return NotValidatedError(refusal.error.message, code=refusal.error.code, advice=DO_WITHOUT)
    text = f"the result does not run without its weights: {refusal.text}"
    return ValidationError(text, code="does-not-run", advice="keep-constants")


# -- graphs with other attributes --------------------------------------------------------------------------------


Attrs = dict[str, dict[str, AttrValue]]
"""For some ops, new values of some attributes of all nodes with this op, also in functions."""


AS_WRITTEN: Attrs = {op: {"config_proto": bytes_value(NO_OPTIMIZER_OF_ITS_OWN)} for op in CALLS}
"""The attributes of function calls that are not optimized separately.

By default, a call optimizes its function in its first run, even if the session does not optimize. The results are then
rounded differently from the same nodes outside a function.
"""


def _with_one_seed(graph: Graph) -> Attrs:
    """Returns the attributes that make all random ops sample the same numbers; {} if an op of `graph` has no seed."""
    seeds, out = {"seed": int_value(1), "seed2": int_value(1)}, Attrs()
    for op in {usage.op for usage in op_usage(graph) if is_random(usage.op)}:
        definition = op_def(op)
        if definition is None or not seeds.keys() <= definition.attrs.keys():
            return {}
        out[op] = seeds | ({DETERMINISTIC: bool_value(True)} if DETERMINISTIC in definition.attrs else {})
    return out


def load_with(context: ProofContext, attrs: Attrs) -> None:
    """Loads both graphs again with other attributes, under the same keys. The edited graph must have loaded.

    Raises:
        ValidationError, NotValidatedError: see `gdsurgeon.proof.executor.await_loaded`.
    """
    change, executor = context.change, context.executor
    for key, graph, called in ((ORIGINAL, change.before, change.name), (EDITED, change.after, change.called)):
        copy = graph.copy()
        version = copy.version
        _set_attrs(copy, attrs)
        if copy.version != version:
            await_loaded(executor, key, called)
            executor.load_graph(key, copy)


def _set_attrs(graph: Graph, attrs: Attrs) -> None:
    topology = topology_of(graph)
    for node in map(topology.node, topology.with_ops(attrs)):
        for key, value in attrs[node.op].items():
            data = value.SerializeToString(deterministic=True)
            if node.attr_bytes(key) != data:
                graph.set_attr(node, key, data)
    for function in list(graph.functions):
        changed = type(function)()
        changed.CopyFrom(function)
        for node_def in changed.node_def:
            for key, value in attrs.get(node_def.op, {}).items():
                node_def.attr[key].CopyFrom(value)
        if changed != function:
            graph.functions.replace(changed)
