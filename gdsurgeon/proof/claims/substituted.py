"""The claim that replaced values are the only difference between two graphs.

The edited graph runs first. Then the original runs on the same feeds, and on the values with which the edit replaces
tensors. An added graph runs in the same way: in isolation, on the values that it gets in the edited graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from gdsurgeon.analysis.queries.discrete_choices import deciding_nodes
from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.analysis.shapes.inference import infer_shapes, shape_of_tensor
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import depending_on, members
from gdsurgeon.edits.claims import SameGiven, SameOutputs, SamePart, SameTensors
from gdsurgeon.edits.replacing import add_placeholder, known_shapes
from gdsurgeon.errors import (
    EditError,
    GdsurgeonError,
    Line,
    NotValidatedError,
    UsageError,
    ValidationError,
    joined,
    printable,
    quoted,
)
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.input_spec import InputSpec, input_spec
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.claims.same_outputs import (
    barred_counterparts,
    side_by_side_trial,
    something_compared,
    within_tolerance,
)
from gdsurgeon.proof.executor import await_loaded
from gdsurgeon.proof.graphs import as_written, load_with, rewired
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import Proof, stated
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    DO_WITHOUT,
    EDITED,
    ORIGINAL,
    ComparedPair,
    FeedSource,
    Fetch,
    RunRefusal,
    SameFeed,
    Trial,
    TrialContext,
    TrialRun,
    both_load,
    chance_reasons,
    nodes_of,
)

PART, REWIRED, CUT = "part", "original, rewired", "original, cut"
_OBSERVED = "observed"
NamePairs = tuple[tuple[str, str], ...]


class Substitution(NamedTuple):
    """A graph that runs on values of the edited graph, and the tensors of both that are equal then.

    Attributes:
        key: its name in the executor.
        graph: the graph as it is in its file.
        claim: the replaced tensors and the compared tensors.
        deciding: further pairs by which outputs are decided; they are compared if possible.
        part: the name of the added graph; '' for the original.
        role: as in `SamePart`.
    """

    key: str
    graph: Graph
    claim: SameGiven
    deciding: NamePairs = ()
    part: str = ""
    role: str = ""

    @property
    def pairs(self) -> NamePairs:
        """All pairs that are compared."""
        return (*self.claim.outputs, *self.deciding)


def same_given_trial(context: TrialContext, claim: SameGiven) -> Trial:
    """Returns the trial of the original with replaced values of some tensors."""
    change = context.change
    if claim.as_written:
        load_with(context, [as_written()])
    for name, value in claim.constants.items():
        node = change.after.find(name)
        if node is None or node.op != "Const" or node.attr_bytes("value") != value:
            raise ValidationError(
                f"the result differs: {quoted(name)} does not have its new value",
                code="differs",
                facts={"node": name},
            )
    if claim.copies:
        claim = replace(claim, copies={**change.intent.renamed, **claim.copies})
        return _trial(context, Substitution(ORIGINAL, change.before, claim))
    gone = set(change.intent.removed)
    kept = [node for node in output_nodes(change.before) if node.name not in gone]
    outputs = (*claim.outputs, *_unlisted(change, claim, kept))
    claim = replace(claim, copies=change.intent.renamed, outputs=outputs)
    nodes = deciding_nodes(change.before[parse_tensor(tensor).node] for tensor, _ in outputs)
    deciding = [pair for pair in _unlisted(change, claim, nodes) if parse_tensor(pair[1]).node in change.after]
    trial = _trial(context, Substitution(ORIGINAL, change.before, claim, tuple(deciding)))
    trial.of_largest = claim.of_largest
    for pair in trial.pairs:
        pair.excuse = claim.except_for.get(pair.before, "")
    if claim.except_for:
        trial.conditions = []
    trial.conditions += [partial(_part_shown, change.before, claim, part) for part in claim.parts if part.role]
    return within_tolerance(context, trial)


def _part_shown(before: Graph, claim: SameGiven, part: SamePart, proof: Proof) -> None:
    """Raises NotValidatedError unless each result of `part`, or a tensor that depends on the result, was compared."""
    compared = {output.after for output in proof.compared}
    names = [output.before for output in proof.compared]
    nodes = {*nodes_of(name for name in names if not name.startswith(("pre(", "post(")))}
    for _, result in part.outputs[: len(part.inputs)]:
        given = nodes_of(tensor for tensor, value in claim.given.items() if value == result)
        if nodes.isdisjoint(depending_on(before, given)) if given else result not in compared:
            name = (given or [result])[0]
            reasons = [output.reason for output in proof.outputs if output.reason] + [why for _, why in proof.skipped]
            why = joined("; ", dict.fromkeys(reasons)) or "no output depends on it"
            subject = f"no output that depends on {quoted(name)} could" if given else f"{quoted(name)} could not"
            line = Line("{subject} be compared: {why}", subject=subject, why=why)
            raise NotValidatedError(line, code="nothing-comparable", facts={"node": name}, advice=DO_WITHOUT)


def same_tensors_trial(context: TrialContext, claim: SameTensors) -> Trial:
    """Returns the trial that tensors have the values that they had; tensors that cannot be fetched are left out.

    The proof of the tensors that depend on these covers them.
    """
    if claim.given:
        pairs = tuple((tensor, context.after(tensor)) for tensor in claim.tensors)
        given = SameGiven(claim.given, pairs, "", copies=context.change.intent.renamed)
        trial = _trial(context, Substitution(ORIGINAL, context.change.before, given))
        return trial if trial.pairs else replace(trial, runs=[], conditions=[])
    plan = plan_with(context.executor.settings, context.change.before, nodes_of(claim.tensors))
    plan = replace(plan.only({*claim.tensors} - barred_counterparts(context, plan).keys()), skipped=[])
    trial = side_by_side_trial(context, plan, SameOutputs(), ())
    return replace(trial, runs=trial.runs if plan.fetches else [], conditions=[])


def same_part_trial(context: TrialContext, claim: SamePart) -> Trial:
    """Returns the trial of an added graph in isolation."""
    wanted = _of_part(context, claim, PART)
    if not claim.outputs:  # it computes nothing
        return Trial("", [], [], both_load(context.change))
    loads = _load_part(context, wanted)
    edited = _edited(context, wanted).places().keys()
    fetched = {*claim.inputs.values(), *(after for _, after in claim.outputs)}
    if claim.inputs and not claim.in_place and not fetched <= edited:
        trial = part_apart_trial(context, claim, PART)
    else:
        trial = _trial(context, wanted)
        if claim.role:
            trial.conditions.append(partial(_part_shown, claim.part, SameGiven({}, (), ""), claim))
        if claim.inputs and not claim.in_place:
            trial.runs = [replace(r, blame=_not_taken) if r.name == EDITED else r for r in trial.runs]
            trial.otherwise = partial(_apart, context, claim, loads)
    trial.loads = {**trial.loads, **loads}
    return trial


def _of_part(context: TrialContext, claim: SamePart, key: str) -> Substitution:
    """Returns the run of the part of `claim`, as `key` in the executor, on the values of the edited graph.

    Raises:
        NotValidatedError: the results of preprocessing or postprocessing are random.
    """
    name = printable(os.path.basename(claim.part.source_name))
    outputs = claim.outputs
    if claim.role:

        def is_random(tensor: str) -> bool:
            plan = plan_with(context.executor.settings, claim.part, nodes_of([tensor]))
            return bool(plan.random or plan.draws)

        results = outputs[: len(claim.inputs)]
        if any(is_random(tensor) for tensor, _ in results):
            text = f"{printable(claim.part.source_name)} is random, so its results cannot be compared"
            raise NotValidatedError(text, code="random-output", advice=DO_WITHOUT)
        outputs = (*results, *(pair for pair in outputs[len(results) :] if not is_random(pair[0])))
    given = SameGiven(claim.inputs, outputs, "", copies=claim.copies)
    return Substitution(key, claim.part, given, part=name, role=claim.role)


def _check_computed(part: SamePart, edited: Subject) -> None:
    """Raises NotValidatedError if the run of the edited graph cannot return what `part` reads, or its results."""
    places, reasons = edited.places(), dict(edited.plan.reasons)
    for tensor in (*part.inputs.values(), *(after for _, after in part.outputs[: len(part.inputs)])):
        if tensor not in places:
            line = "the proof cannot compute {output} of {part}: {reason}"
            reason = reasons.get(parse_tensor(tensor).node, "its value cannot be fetched")
            facts = {"output": quoted(tensor), "part": printable(part.part.source_name), "reason": reason}
            raise NotValidatedError(Line(line, **facts), code="nothing-comparable", advice=DO_WITHOUT)


def _load_part(context: TrialContext, part: Substitution) -> dict[str, str]:
    """Begins to load an added graph; returns the message for a graph that does not load."""
    context.executor.load_source(part.key, part.graph)
    return {part.key: f"TensorFlow does not load {printable(part.graph.source_name)}"}


def _not_taken(refusal: RunRefusal) -> GdsurgeonError:
    return NotValidatedError(refusal.text, code="does-not-run")


def _apart(context: TrialContext, claim: SamePart, loads: Mapping[str, str], why: str) -> Trial:
    """Returns the trial for an added graph that TensorFlow refuses on values of the model, for the reason `why`."""
    trial = part_apart_trial(context, claim, PART)
    names = ", ".join(map(quoted, claim.inputs.values()))
    warning = (
        f"{printable(os.path.basename(claim.part.source_name))} cannot run on the values of {names} from these feeds"
    )
    return replace(
        trial, loads={**trial.loads, **loads}, warnings=[f"{warning} ({printable(why)}), so it was run separately"]
    )


def _unlisted(change: Change, claim: SameGiven, nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """Returns the outputs of `nodes` that the claim does not list, with their names in the edited graph."""
    listed = {tensor for tensor, _ in claim.outputs} | claim.given.keys()
    names = [output.name for node in nodes for output in node.outputs]
    return [(name, change.intent.counterpart(name)) for name in names if name not in listed]


def _trial(context: TrialContext, wanted: Substitution) -> Trial:
    """Returns the trial in which the edited graph runs first, and its values are fed to the other graph."""
    change, settings = context.change, context.executor.settings
    edited = _edited(context, wanted)
    if wanted.key == ORIGINAL:
        wanted, edited = _rewired(context, wanted, edited)
        wanted = _cut(context, wanted, edited)
    known = {change.intent.after(node.name) for node in input_nodes(change.before)}
    new_inputs = [spec.name for spec in edited.specs if spec.name not in known]
    run = TrialRun(edited, accused=change.called, turned=True)
    runs = [run]
    stand_for = _stand_for(context, wanted, new_inputs)
    observed = _observed(context, wanted, stand_for)
    if observed is not None:
        run.fed = {**_shared(context, observed, edited), **{n: Fetch(_OBSERVED, t) for n, t in stand_for.items()}}
        runs.insert(0, TrialRun(observed, reported_as=None, optional="omit"))

    def edits_doing(refusal: RunRefusal) -> GdsurgeonError:
        is_added = refusal.node in change.intent.copied.values()
        if is_added and refusal.error is not None and any(part.role == "pre" for part in wanted.claim.parts):
            return refusal.error  # no feed fits the preprocessing
        if wanted.claim.given and is_added:
            names = ", ".join(quoted(tensor) for tensor in wanted.claim.given)
            what = f"the new node {quoted(refusal.node)} cannot run on the values of {names}"
            return EditError(f"{what}: {refusal.text}", code="part-refuses", advice="give-others")
        if refusal.error is None or (not new_inputs and context.original_runs()):
            return ValidationError(
                f"the result does not run: {refusal.text}", code="does-not-run", facts={"reason": refusal.text}
            )
        return refusal.error

    def blame(graph: Graph, refusal: RunRefusal) -> GdsurgeonError:
        kind = NotValidatedError if new_inputs and (observed is None or refusal.omitted) else ValidationError
        text = f"does not run with the inputs that the result computes: {refusal.text}"
        return kind(f"{printable(graph.source_name)} {text}", advice=DO_WITHOUT)

    run.blame = edits_doing
    held, pairs, skipped = _held_against(context, wanted, run, blame)
    if observed is None and _is_given_early(edited, held):
        held.beside = EDITED
    runs.append(held)
    used = {wanted.key, edited.key} & {REWIRED, CUT}
    loads = dict.fromkeys(used, f"{change.called} does not load when it is rewired")
    parts = [wanted.part] if wanted.part else []
    for number, claim in enumerate(wanted.claim.parts):
        part = _of_part(context, claim, f"{PART} {number}")
        loads |= _load_part(context, part)
        if part.role:
            _check_computed(claim, edited)
        alone, found, left = _held_against(context, part, run, blame)
        alone.beside = EDITED if _is_fed(alone) else None
        runs.append(alone)
        is_named = bool(part.role) and f"{part.role}(" in wanted.claim.statement
        for pair in found[: len(claim.inputs)] if is_named and part.role == "pre" else ():
            pair.hidden = True
        pairs = [*found, *pairs] if is_named else [*pairs, *found]
        skipped = [*skipped, *left]
        parts += [] if is_named else [part.part]
    return Trial(
        wanted.claim.statement,
        runs,
        pairs,
        both_load(change) | loads,
        lead=EDITED,
        samples=max(edited.calls, settings.samples if observed is not None else 1),
        conditions=[something_compared],
        skipped=skipped,
        steady=None if used else held.name,
        parts=parts,
    )


def _held_against(
    context: TrialContext, wanted: Substitution, run: TrialRun, blame: Callable[[Graph, RunRefusal], GdsurgeonError]
) -> tuple[TrialRun, list[ComparedPair], list[tuple[str, str]]]:
    """Returns the run of the graph of `wanted` on values of `run`, the pairs, and the outputs that are not compared."""
    given = _available(context, wanted, run.subject)
    subject = _reference(context, wanted, run.subject, given)
    fed = _fed(wanted, run, subject, given)
    subject.leave(subject.optional - fed.keys())
    held = TrialRun(subject, fed, blame=partial(blame, wanted.graph))
    return held, *_pairs(wanted, run.subject, subject)


# -- the edited graph -----------------------------------------------------------------------------------------


def _edited(context: TrialContext, wanted: Substitution, key: str = EDITED, graph: Graph | None = None) -> Subject:
    """Returns the edited graph, or a rewired version `graph` of it with the key `key`."""
    change = context.change
    graph = change.after if graph is None else graph
    tensors = [edited for _, edited in wanted.pairs]
    tensors += [edited for part in wanted.claim.parts for _, edited in part.outputs]
    lost = [tensor for tensor in tensors if parse_tensor(tensor).node not in change.after]
    if lost:
        raise ValidationError(
            f"the result differs: its output {quoted(lost[0])} is missing", code="differs", facts={"node": lost[0]}
        )
    read = [edited for part in wanted.claim.parts for edited in part.inputs.values()]
    nodes = nodes_of([*tensors, *wanted.claim.given.values(), *wanted.claim.beside, *read])
    plan = plan_with(context.executor.settings, graph, nodes, trust_seeds=False)
    # Other outputs of the nodes are not fetched, because TensorFlow's optimizer may remove them.
    plan = plan.only({*tensors, *wanted.claim.given.values(), *wanted.claim.beside, *read, *plan.beside})
    nodes_taken = {context.after(name): change.before.find(name) for name in wanted.claim.given}
    taken = {
        name: input_spec(node)
        for name, node in nodes_taken.items()
        if name in plan.placeholders and node is not None and node.op in PLACEHOLDERS
    }
    sides = [side for spec in taken.values() if (side := _image_sides(spec.stated)) is not None]
    options = SubjectOptions(EDITED, picture=sides[0] if sides else None)
    subject = Subject(context.executor, key, graph, plan=plan, overrides=_overrides(context), options=options)
    subject.specs = [
        _fitting(graph, spec, taken[spec.name], wanted.claim.given[_before(change, spec.name)])
        if spec.name in taken and not spec.given
        else spec
        for spec in subject.specs
    ]
    return subject


def _image_sides(shape: Shape) -> tuple[int, int] | None:
    """Returns the height and width of the images that an input accepts, for graphs that do not resize images."""
    if shape is None or len(shape) not in (3, 4) or shape[-1] not in (1, 3, 4) or min(shape[-3:-1]) <= 0:
        return None
    return shape[-3], shape[-2]


def _fitting(graph: Graph, spec: InputSpec, own: InputSpec, result: str) -> InputSpec:
    """Returns `spec`, an input whose consumers read `result` now; the shapes that fit the original input are first.

    Args:
        graph: the edited graph.
        spec: the input of the edited graph.
        own: the input as it was in the original.
        result: the tensor that the consumers read.
    """
    if len(spec.shapes) <= 1:
        return spec
    raw, read = graph[spec.name].output, graph.tensor(result)

    def misfits(shape: tuple[int, ...]) -> bool:
        return not compatible(infer_shapes(graph, {raw: shape}, wanted=[read]).shape(read), own.stated)

    more = [shape for shape in own.shapes if compatible(shape, spec.stated)]
    shapes = dict.fromkeys([*more, *spec.shapes] if spec.stated is None else [*spec.shapes, *more])
    return spec._replace(shapes=tuple(sorted(shapes, key=misfits)))


def _overrides(context: TrialContext) -> Overrides:
    """Returns the overrides of the inputs of the edited graph; the original gets the same feeds."""
    known = [node.name for node in input_nodes(context.change.after)]
    renamed = {old: new for old, new in context.change.intent.renamed.items() if new in known and old not in known}
    overrides = context.overrides.renamed(renamed)
    for name in overrides.names():
        if name not in known and name in context.change.before:
            listed = ", ".join(map(quoted, known[:8])) or "nothing"
            raise UsageError(
                f"{quoted(name)} is not an input of the result, because it was frozen or cut off; its inputs "
                f"are {listed}",
                code="no-such-input",
                facts={"node": name},
            )
    check_names(overrides, known)
    return overrides


def _is_given_early(edited: Subject, held: TrialRun) -> bool:
    """Returns whether `held` can run at the same time as the edited graph: its feeds are known, or computed early.

    The first run of a graph is slow, and two graphs can have their first runs at the same time. The fed tensors are
    then
    computed by a separate run before the others.
    """
    if not _is_fed(held):
        return False
    plan, topology = edited.plan, topology_of(edited.graph)
    first = list(dict.fromkeys(source.tensor for source in held.fed.values() if isinstance(source, Fetch)))
    if not first:
        return True
    rest = [name for name in plan.fetches if name not in first]
    if plan.keeps_state or plan.chance or len(plan.groups) != 1 or not rest:
        return False

    def count(tensors: Iterable[str]) -> int:
        return sum(topology.upstream([topology.id_of(edited.graph[node]) for node in nodes_of(tensors)]))

    if count(first) > _SOON * count(rest):
        return False
    edited.plan = replace(plan, groups=[first, rest])
    return True


def _is_fed(run: TrialRun) -> bool:
    """Returns whether all inputs of `run` are fed; otherwise the shapes of the others must be found by trial."""
    return all(name in run.fed for name in run.subject.feedable)


_SOON = 1 / 4
"""The largest part of the nodes that may be computed twice for this."""


def _stand_for(context: TrialContext, wanted: Substitution, new_inputs: Sequence[str]) -> dict[str, str]:
    """Returns the tensors of the original that new inputs replace, if the user gives no values for the inputs.

    No generated feed may fit such an input, but the value of the original fits.
    """
    overrides = _overrides(context)
    tensors = {after: tensor for tensor, after in wanted.claim.given.items()}
    given = {*overrides.names(), *(new_inputs if overrides.archive is not None else ())}
    return {name: tensors[name] for name in new_inputs if name in tensors and name not in given}


def _observed(context: TrialContext, wanted: Substitution, stand_for: Mapping[str, str]) -> Subject | None:
    """Returns the original, to be run for the tensors that new inputs replace; None if they cannot be fetched."""
    if not stand_for or wanted.key != ORIGINAL:
        return None
    observed = _to_observe(context, wanted, stand_for.values())
    if any(spec.stated is None or sum(dim < 0 for dim in spec.stated) > 1 for spec in observed.specs):
        # The outputs also run, so that the whole graph accepts the shapes.
        observed = _to_observe(context, wanted, [*stand_for.values(), *(tensor for tensor, _ in wanted.claim.outputs)])
    return observed if observed.places().keys() >= {*stand_for.values()} else None


def _to_observe(context: TrialContext, wanted: Substitution, tensors: Iterable[str]) -> Subject:
    plan = plan_with(context.executor.settings, wanted.graph, nodes_of(tensors))
    return Subject(
        context.executor, ORIGINAL, wanted.graph, plan=plan, options=SubjectOptions(_OBSERVED, defaults=False)
    )


def _shared(context: TrialContext, observed: Subject, edited: Subject) -> dict[str, FeedSource]:
    """Returns the inputs of the edited graph that get the feeds of the original."""
    if context.overrides.names() or context.overrides.shapes:
        return {}
    own = {spec.name for spec in edited.specs}
    after = {context.after(spec.name): spec.name for spec in observed.specs}
    return {name: SameFeed(_OBSERVED, before) for name, before in after.items() if name in own}


# -- the reference ------------------------------------------------------------------------------------------


def _rewired(context: TrialContext, wanted: Substitution, edited: Subject) -> tuple[Substitution, Subject]:
    """Returns the original and the edited graph, one of them rewired if a replaced tensor cannot be fetched or fed.

    In the rewired original, the consumers of the tensor read its replacement, also in loops and branches. If the
    replacement was added, it does not exist in the original. Then the consumers in the edited graph read the tensor
    itself,
    and the edited graph must return the values of the original.
    """
    change, claim = context.change, wanted.claim
    places = edited.places()
    missing = {t: a for t, a in claim.given.items() if a not in places or not _is_taken(change, t, a)}
    nodes = {parse_tensor(tensor).node for tensor in missing}
    constants = {name: value for name, value in claim.constants.items() if name in nodes}
    moved = {tensor: after for tensor, after in missing.items() if after != context.after(tensor)}
    rest = {t: a for t, a in claim.given.items() if t not in moved and parse_tensor(t).node not in constants}
    added = {tensor for tensor, after in moved.items() if parse_tensor(after).node in change.intent.added}
    if moved and added == moved.keys():
        again = {after: context.after(tensor) for tensor, after in moved.items()}
        graph = rewired(change.after, again, {})
        if graph is not None:
            wanted = wanted._replace(claim=replace(claim, given=rest, statement=_back(again)))
            context.executor.load_graph(REWIRED, graph)
            return wanted, _edited(context, wanted, REWIRED, graph)
    elif moved or constants:
        graph = rewired(wanted.graph, {t: _before(change, after) for t, after in moved.items()}, constants)
        if graph is not None:
            context.executor.load_graph(REWIRED, graph)
            return wanted._replace(key=REWIRED, graph=graph, claim=replace(claim, given=rest)), edited
    return wanted, edited


def _cut(context: TrialContext, wanted: Substitution, edited: Subject) -> Substitution:
    """Returns `wanted` with placeholders for tensors that are both replaced and compared.

    A fed tensor does not have its own value, so its consumers read a placeholder instead.
    """
    claim, places = wanted.claim, edited.places()
    compared = {tensor for tensor, after in claim.outputs if after in places}
    both = {tensor: after for tensor, after in claim.given.items() if tensor in compared and after in places}
    graph = rewired(wanted.graph, {}, {}) if both else None
    if graph is None:
        return wanted
    unique = graph.unique_names()
    given = {tensor: after for tensor, after in claim.given.items() if tensor not in both}
    for name, after in both.items():
        tensor = graph.tensor(name)
        uses, shape = graph.uses(tensor), shape_of_tensor(wanted.graph, wanted.graph.tensor(name))
        stand_in = add_placeholder(graph, unique(f"{tensor.node.name}/given"), tensor.dtype, shape, after=tensor.node)
        graph.reroute(uses, stand_in.output)
        given[stand_in.name] = after
    context.executor.load_graph(CUT, graph)
    return wanted._replace(key=CUT, graph=graph, claim=replace(claim, given=given))


def _is_taken(change: Change, tensor: str, after: str) -> bool:
    """Returns whether a tensor of the original can be fed the value of `after`, as far as shapes are known."""
    theirs, mine = (change.before.tensor(tensor), change.after.tensor(after))
    return compatible(shape_of_tensor(change.before, theirs), shape_of_tensor(change.after, mine))


def _back(again: Mapping[str, str]) -> str:
    pairs = [f"{printable(new)} := {printable(old)}" for new, old in again.items()]
    return f"edited(x, {', '.join(pairs[:3])}{', ...' if len(pairs) > 3 else ''}) == original(x)"


def _before(change: Change, tensor: str) -> str:
    """Returns the name in the original of a tensor of the edited graph."""
    ref = parse_tensor(tensor)
    names = {new: old for old, new in change.intent.renamed.items()}
    return format_input(names.get(ref.node, ref.node), ref.port)


def _available(context: TrialContext, wanted: Substitution, edited: Subject) -> dict[str, str]:
    """Returns the replaced tensors whose values can be fetched.

    A tensor that keeps its value is computed again, unless it depends on a replaced tensor.
    """
    places = edited.places()
    missing = [tensor for tensor, after in wanted.claim.given.items() if after not in places]
    if missing:
        moved = [tensor for tensor, after in wanted.claim.given.items() if after != context.after(tensor)]
        reached = depending_on(wanted.graph, nodes_of(moved))
        reasons = dict(edited.plan.reasons)
        for tensor in missing:
            if parse_tensor(tensor).node in reached:
                after = wanted.claim.given[tensor]
                why = reasons.get(parse_tensor(after).node, "its value cannot be fetched")
                line = Line("nothing could be compared: {tensor}: {why}", tensor=quoted(after), why=why)
                raise NotValidatedError(line, code="nothing-comparable", advice=DO_WITHOUT)
    return {tensor: after for tensor, after in wanted.claim.given.items() if after in places}


def _reference(context: TrialContext, wanted: Substitution, edited: Subject, given: Mapping[str, str]) -> Subject:
    """Returns the other graph, to be run for the compared tensors; values of the edited graph are fed."""
    graph, places = wanted.graph, edited.places()
    tensors = [tensor for tensor, after in wanted.pairs if after in places]
    plan = plan_with(context.executor.settings, graph, nodes_of(tensors), trust_seeds=False)
    needed = _needed(graph, tensors, given)
    plan = replace(plan.only(tensors), draws=[draw for draw in plan.draws if parse_tensor(draw).node in needed])
    bound = frozenset((*plan.placeholders, *plan.defaults)) - needed
    names = wanted.claim.copies
    plan.assigned = [found._replace(seed=names.get(found.variable, found.variable)) for found in plan.assigned]
    options = SubjectOptions(bound=bound, salt="reference")
    subject = Subject(context.executor, wanted.key, graph, plan=plan, options=options)
    subject.variables = [variable for variable in subject.variables if variable.name in needed]
    return subject


def _needed(graph: Graph, tensors: Iterable[str], given: Iterable[str]) -> frozenset[str]:
    """Returns the nodes that are computed for `tensors` if the tensors `given` are fed."""
    topology = topology_of(graph)
    cut = {topology.code(graph.tensor(name)) for name in given}
    needed = topology.upstream([topology.id_of(graph[node]) for node in nodes_of(tensors)], given=cut)
    return frozenset(map(topology.name, members(needed)))


def _fed(wanted: Substitution, edited: TrialRun, reference: Subject, given: Mapping[str, str]) -> dict[str, FeedSource]:
    """Returns the feeds of the reference: the inputs of the edited graph, and the replaced values."""
    out: dict[str, FeedSource] = {}
    feeds = {*edited.subject.feedable, *edited.fed}
    for name in reference.feedable:
        ref = parse_tensor(name)
        after = format_input(wanted.claim.copies.get(ref.node, ref.node), ref.port)
        if after in feeds:
            out[name] = SameFeed(edited.name, after)
    return out | {tensor: Fetch(edited.name, after) for tensor, after in given.items()}


def _pairs(
    wanted: Substitution, edited: Subject, reference: Subject
) -> tuple[list[ComparedPair], list[tuple[str, str]]]:
    """Returns the compared pairs, and the other outputs with the reasons."""
    skipped: list[tuple[str, str]] = []
    out: list[ComparedPair] = []
    reasons = {**dict(reference.plan.reasons), **dict(edited.plan.reasons)}
    chance, mine, theirs = chance_reasons(edited.plan), reference.places(), edited.places()
    sites = frozenset(wanted.claim.sites)
    results = dict(wanted.claim.outputs[: len(wanted.claim.given)]) if wanted.role else {}
    for inside, pairs in ((False, wanted.claim.outputs), (True, wanted.deciding)):
        for tensor, after in pairs:
            is_site = not inside and tensor in sites
            before = tensor
            if wanted.role:
                before = f"{wanted.role}({after if wanted.role == 'post' and tensor in results else tensor})"
            if after in theirs and tensor in mine:
                ends = Fetch(reference.name, tensor), Fetch(EDITED, after)
                why = chance.get(after, "")
                out.append(ComparedPair(before, after, *ends, reason=why, inside=inside or is_site, site=is_site))
            elif not (inside or is_site):
                reason = reasons.get(parse_tensor(after).node) or reasons.get(parse_tensor(tensor).node)
                skipped.append((after, reason or "a value that cannot be fetched"))
    return out, skipped


_PLACED = "the part in the result"


def part_apart_trial(context: TrialContext, claim: SamePart, key: str) -> Trial:
    """Returns the trial of an added graph on generated values, which the edited graph gets at the same place.

    This is possible if the values of the edited graph cannot be fetched, as in a branch, or the added graph refuses
    them.

    Args:
        context: of the claim.
        claim: has inputs.
        key: of the added graph in the executor.
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
    """Returns the shapes of the tensors that the added graph reads; an unknown dimension is 1.

    TensorFlow may infer more dimensions, and refuses feeds with other shapes.
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
