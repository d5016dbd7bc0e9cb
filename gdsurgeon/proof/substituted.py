"""The claim that replaced values are the only difference between two graphs.

Usually each sample has these runs: the edited graph on generated feeds; the original on the same feeds, and on the
values that the edited graph computed for the replaced tensors; each added graph in isolation, on the values that its
copy read in the edited graph. Equal pairs of tensors show the claim. For add-preprocessing, the original gets the
preprocessed value of the edited graph, and the preprocessing graph must return the same value for the same raw input.

Three functions handle special cases, and otherwise return their arguments: `_rewired` if a replaced tensor can be
neither fetched nor fed, `_cut` if it is also compared, and `_observe` if no generated feed may fit a new input.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gdsurgeon.analysis.queries.deciding import deciding_nodes
from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.analysis.shapes.inference import infer_shapes, shape_of_tensor
from gdsurgeon.analysis.traversal.topology import depending_on, members, topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import SameGiven, SameOutputs, SamePart, SameTensors
from gdsurgeon.edits.replacing import add_placeholder, known_shapes
from gdsurgeon.edits.reroute import check_acyclic
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
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import node_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.proof.change import opened_again
from gdsurgeon.proof.executor import Refused, await_loaded
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import Proof, stated
from gdsurgeon.proof.same_outputs import (
    as_written,
    barred_counterparts,
    load_with,
    only_downstream,
    side_by_side,
    something_compared,
)
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import (
    DO_WITHOUT,
    EDITED,
    ORIGINAL,
    ComparedPair,
    FeedSource,
    Fetch,
    ProofContext,
    RunRefused,
    SameFeed,
    Trial,
    TrialRun,
    nodes_of,
    random_reasons,
)
from gdsurgeon.wire.write import read_chunks

PART, REWIRED, CUT, _OBSERVED = "part", "rewired", "original, cut", "observed"


class _Reference(NamedTuple):
    """A graph that runs on values of the edited graph: the original, or an added graph in isolation.

    Attributes:
        key: its name in the executor.
        graph: the graph as it is in its file.
        claim: the replaced tensors and the compared tensors.
        deciding: further pairs, which are compared if possible: tensors by which outputs are decided, and inputs of
            sampled random ops.
        part: the claim about the added graph; None for the original.
    """

    key: str
    graph: Graph
    claim: SameGiven
    deciding: Sequence[tuple[str, str]] = ()
    part: SamePart | None = None


def prove_same_given(context: ProofContext, claim: SameGiven) -> Trial:
    """Proves that the edited graph returns the values of the original with replaced values of some tensors."""
    change = context.change
    before, intent = change.before, change.intent
    if claim.as_written:
        load_with(context, [as_written()])
    for name, value in claim.constants.items():
        node = change.after.find(name)
        if node is None or node.op != "Const" or node.attr_bytes("value") != value:
            text = f"the result differs: {quoted(name)} does not have its new value"
            raise ValidationError(text, code="differs", node=name)
    deciding: list[tuple[str, str]] = []
    whole = replace(claim, copies={**intent.renamed, **claim.copies})
    if not claim.copies:
        removed = {*intent.removed}
        kept = [node for node in output_nodes(before) if node.name not in removed]
        whole = replace(whole, outputs=(*claim.outputs, *_unlisted(context, whole, kept)))
        nodes = deciding_nodes(before[node_of(tensor)] for tensor, _ in whole.outputs)
        deciding = [pair for pair in _unlisted(context, whole, nodes) if node_of(pair[1]) in change.after]
    trial = _trial(context, whole, deciding)
    trial.tolerance = claim.tolerance
    only_downstream(context, trial)
    for pair in trial.pairs:
        pair.accepted_because = claim.except_for.get(pair.before, "")
    trial.run()
    if not claim.except_for:
        something_compared(trial.proof)
    for part in claim.parts:
        if part.role:
            _check_part_compared(before, claim.given, part, trial.proof)
    return trial


def _unlisted(context: ProofContext, claim: SameGiven, nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """Returns the outputs of `nodes` that the claim does not list, with their names in the edited graph."""
    listed = {tensor for tensor, _ in claim.outputs} | claim.given.keys()
    names = [output.name for node in nodes for output in node.outputs]
    return [(name, context.after(name)) for name in names if name not in listed]


def _check_part_compared(graph: Graph, given: Mapping[str, str], part: SamePart, proof: Proof) -> None:
    """Raises NotValidatedError unless each result of `part`, or a tensor that depends on the result, was compared."""
    compared = {output.after for output in proof.compared}
    nodes = {output.before.partition(":")[0] for output in proof.compared}
    for _, result in part.results:
        replaced = nodes_of(tensor for tensor, value in given.items() if value == result)
        if nodes.isdisjoint(depending_on(graph, replaced)) if replaced else result not in compared:
            name = (replaced or [result])[0]
            reasons = [output.reason for output in proof.outputs if output.reason] + [why for _, why in proof.skipped]
            why = joined("; ", dict.fromkeys(reasons)) or "no output depends on it"
            subject = f"no output that depends on {quoted(name)} could" if replaced else f"{quoted(name)} could not"
            line = Line("{subject} be compared: {why}", subject=subject, why=why)
            raise NotValidatedError(line, code="nothing-comparable", node=name, advice=DO_WITHOUT)


def prove_same_tensors(context: ProofContext, claim: SameTensors) -> Trial:
    """Proves that tensors have the values that they had; tensors that cannot be fetched are left out.

    The proof of the tensors that depend on these covers them.
    """
    if claim.given:
        pairs = tuple((tensor, context.after(tensor)) for tensor in claim.tensors)
        trial = _trial(context, SameGiven(claim.given, pairs, "", copies=context.change.intent.renamed))
    else:
        plan = context.plan(ORIGINAL, nodes_of(claim.tensors))
        plan = replace(plan.only({*claim.tensors} - barred_counterparts(context, plan).keys()), skipped=[])
        trial = side_by_side(context, plan, SameOutputs())
    trial.runs = trial.runs if trial.pairs else []
    return trial.run()


# -- added graphs ---------------------------------------------------------------------------------------------


def prove_same_part(context: ProofContext, claim: SamePart) -> Trial:
    """Proves that an added graph computes the same in the edited graph as in isolation."""
    if not claim.outputs:
        return Trial(context.executor, "", [], [], context.both_load()).run()
    whole = SameGiven({}, (), "", parts=(claim,))
    warnings: list[str] = []
    if not claim.inputs or claim.in_place:
        trial = _trial(context, whole, with_original=False)
        something_compared(trial.run().proof)
        if claim.role:
            _check_part_compared(claim.part, {}, claim, trial.proof)
        return trial
    if {*claim.inputs.values(), *(after for _, after in claim.outputs)} <= _edited(context, whole).places().keys():
        trial = _trial(context, whole, with_original=False)
        trial.runs[0].on_refusal = lambda refused: NotValidatedError(refused.text, code="does-not-run")
        try:
            context.executor.loaded(EDITED)
            something_compared(trial.run().proof)
            return trial
        except (Refused, NotValidatedError) as error:
            names, name = ", ".join(map(quoted, claim.inputs.values())), _file_name(claim.part)
            text = f"{name} cannot run on the values of {names} from these feeds ({printable(trial.reason(error))})"
            warnings = [f"{text}, so it was run separately"]
    trial = _isolated_trial(context, claim)
    trial.warnings = warnings
    something_compared(trial.run().proof)
    return trial


def _file_name(graph: Graph) -> str:
    return printable(os.path.basename(graph.source_name))


def _of_part(context: ProofContext, claim: SamePart, key: str) -> _Reference:
    """Returns the added graph of `claim`, as `key` in the executor, on the values of the edited graph.

    Raises:
        NotValidatedError: the results of preprocessing or postprocessing are random.
    """
    outputs = claim.outputs
    if claim.role:

        def is_random(tensor: str) -> bool:
            plan = plan_with(context.executor.settings, claim.part, nodes_of([tensor]))
            return bool(plan.random or plan.sampled)

        if any(is_random(tensor) for tensor, _ in claim.results):
            text = f"{printable(claim.part.source_name)} is random, so its results cannot be compared"
            raise NotValidatedError(text, code="random-output", advice=DO_WITHOUT)
        outputs = tuple(pair for pair in outputs if not is_random(pair[0]))
    return _Reference(key, claim.part, SameGiven(claim.inputs, outputs, "", copies=claim.copies), part=claim)


def _load_part(context: ProofContext, key: str, part: Graph) -> dict[str, str]:
    """Begins to load an added graph; returns the message for a graph that does not load."""
    context.executor.load_source(key, part)
    return {key: f"TensorFlow does not load {printable(part.source_name)}"}


def _check_computed(part: SamePart, edited: Subject) -> None:
    """Raises NotValidatedError if the run of the edited graph cannot return what `part` reads, or its results."""
    places, reasons = edited.places(), dict(edited.plan.reasons)
    for tensor in (*part.inputs.values(), *(after for _, after in part.results)):
        if tensor not in places:
            line = "the proof cannot compute {output} of {part}: {reason}"
            reason = reasons.get(node_of(tensor), "its value cannot be fetched")
            facts = {"output": quoted(tensor), "part": printable(part.part.source_name), "reason": reason}
            raise NotValidatedError(Line(line, **facts), code="nothing-comparable", advice=DO_WITHOUT)


def _isolated_trial(context: ProofContext, claim: SamePart) -> Trial:
    """Returns the trial of an added graph on generated values, which the edited graph gets at the same place.

    This is possible if the values of the edited graph cannot be fetched, as in a branch, or the added graph refuses
    them.
    """
    executor = context.executor
    plan = plan_with(executor.settings, claim.part, nodes_of(tensor for tensor, _ in claim.outputs))
    part = Subject(executor, PART, claim.part, plan=plan, overrides=_shapes(context, claim))
    places, random = part.places(), random_reasons(plan)
    outputs = [(tensor, after) for tensor, after in claim.outputs if tensor in places]
    initializers = [claim.copies.get(name, name) for name in plan.initializers]
    placed_plan = FetchPlan([[after for _, after in outputs]], initializers=initializers)
    placed = Subject(executor, EDITED, context.change.after, plan=placed_plan, name="the part in the result")
    copy = Intent(renamed={**claim.copies}).counterpart
    fed = {claim.inputs.get(node_of(name)) or copy(name): SameFeed(part.name, name) for name in part.feedable}
    return Trial(
        executor,
        f"{stated([], [_file_name(claim.part)])} on any inputs",
        [TrialRun(part), TrialRun(placed, fed, edited_name=context.change.called)],
        [ComparedPair(t, a, Fetch(part.name, t), Fetch(placed.name, a), random.get(t, "")) for t, a in outputs],
        context.both_load() | _load_part(context, PART, claim.part),
        lead=part.name,
        samples=part.needed_samples,
        skipped=plan.reasons,
        shown=False,
    )


def _shapes(context: ProofContext, claim: SamePart) -> Overrides:
    """Returns the shapes of the tensors that the added graph reads; an unknown dimension is 1.

    TensorFlow may infer more dimensions, and refuses feeds with other shapes.
    """
    tensors = {name: context.change.after.tensor(tensor) for name, tensor in claim.inputs.items()}
    known = known_shapes(context.change.after, tensors.values())
    shapes = {name: known[tensor] for name, tensor in tensors.items()}
    unknown = [name for name, shape in shapes.items() if shape is None]
    if unknown:
        await_loaded(context.executor, EDITED, context.both_load()[EDITED])
        specs = context.executor.signature(EDITED, [tensors[name].name for name in unknown])
        shapes |= {name: spec.shape for name, spec in zip(unknown, specs, strict=True)}
    return Overrides(
        shapes={n: tuple(max(dim, 1) for dim in shape) for n, shape in shapes.items() if shape is not None}
    )


# -- the trial ------------------------------------------------------------------------------------------------


def _trial(
    context: ProofContext, claim: SameGiven, deciding: Sequence[tuple[str, str]] = (), *, with_original: bool = True
) -> Trial:
    """Returns the trial: the runs are `observed` (seldom), the edited graph, the original, and each added graph.

    The values of the edited graph are fed to the later runs.

    Args:
        context: of the claim.
        claim: the replaced and the compared tensors, and the added graphs.
        deciding: further pairs by which outputs are decided; they are compared if possible.
        with_original: whether the original runs; otherwise only the added graphs run.
    """
    change, edited = context.change, _edited(context, claim, deciding)
    references: list[_Reference] = []
    if with_original:
        original, edited = _rewired(context, _Reference(ORIGINAL, change.before, claim, deciding), edited)
        references = [_cut(context, original, edited)]
    for number, added in enumerate(claim.parts):
        references.append(_of_part(context, added, f"{PART} {number}" if with_original else PART))
    first = references[0]
    used = {first.key, edited.key} & {REWIRED, CUT}
    loads = context.both_load() | dict.fromkeys(used, "a rewired graph does not load")
    known = {change.intent.after(node.name) for node in input_nodes(change.before)}
    new_inputs = [spec.name for spec in edited.specs if spec.name not in known]
    run = TrialRun(edited, edited_name=change.called, reverses_feeds=True)
    observed = _observe(context, first, edited, new_inputs, run)

    def on_edit_refusal(refused: RunRefused) -> GdsurgeonError:
        is_added = refused.node in change.intent.copied.values()
        if is_added and refused.error is not None and with_original and any(p.role == "pre" for p in claim.parts):
            return refused.error  # no feed fits the preprocessing
        if first.claim.given and is_added:
            names = ", ".join(map(quoted, first.claim.given))
            what = f"the new node {quoted(refused.node)} cannot run on the values of {names}"
            return EditError(f"{what}: {refused.text}", code="part-refuses", advice="give-others")
        if refused.error is None or (not new_inputs and context.original_runs()):
            text = f"the result does not run: {refused.text}"
            return ValidationError(text, code="does-not-run", reason=refused.text)
        return refused.error

    def on_reference_refusal(refused: RunRefused) -> GdsurgeonError:
        kind = NotValidatedError if new_inputs and (observed is None or refused.omitted) else ValidationError
        text = f"does not run with the inputs that the result computes: {refused.text}"
        return kind(f"{printable(refused.run.subject.graph.source_name)} {text}", advice=DO_WITHOUT)

    run.on_refusal = on_edit_refusal
    runs = [TrialRun(observed, reported_as=None, optional="omit"), run] if observed is not None else [run]
    pairs: list[ComparedPair] = []
    skipped: list[tuple[str, str]] = []
    names: list[str] = []
    for reference in references:
        part = reference.part
        if part is not None:
            loads |= _load_part(context, reference.key, part.part)
            if part.role and with_original:
                _check_computed(part, edited)
        other, found, left = _reference_run(context, reference, run)
        other.on_refusal = on_reference_refusal
        other.alongside = other.alongside if observed is None or part is not None else None
        runs.append(other)
        if part is not None and claim.parts_stated:
            for pair in found[: len(part.inputs)] if part.role == "pre" else ():
                pair.hidden = True
            pairs = [*found, *pairs]
        else:
            pairs += found
            names += [_file_name(part.part)] if part is not None else []
        skipped += left
    samples = max(edited.needed_samples, context.executor.settings.samples if observed is not None else 1)
    trial = Trial(context.executor, first.claim.statement, runs, pairs, loads, EDITED, samples)
    trial.skipped, trial.varying_run, trial.parts = skipped, None if used else first.key, names
    return trial


def _edited(
    context: ProofContext,
    claim: SameGiven,
    deciding: Sequence[tuple[str, str]] = (),
    key: str = EDITED,
    graph: Graph | None = None,
) -> Subject:
    """Returns the edited graph, or a rewired version `graph` of it with the key `key`."""
    change = context.change
    graph = change.after if graph is None else graph
    tensors = [edited for _, edited in (*claim.outputs, *deciding)]
    tensors += [edited for part in claim.parts for _, edited in part.outputs]
    lost = [tensor for tensor in tensors if node_of(tensor) not in change.after]
    if lost:
        text = f"the result differs: its output {quoted(lost[0])} is missing"
        raise ValidationError(text, code="differs", node=lost[0])
    tensors += [*claim.given.values(), *claim.fetched]
    tensors += [edited for part in claim.parts for edited in part.inputs.values()]
    plan = plan_with(context.executor.settings, graph, nodes_of(tensors), trust_seeds=False)
    # Other outputs of the nodes are not fetched, because TensorFlow's optimizer may remove them.
    plan = plan.only({*tensors, *plan.inputs_of_sampled})
    replaced = {context.after(name): (change.before.find(name), after) for name, after in claim.given.items()}
    own = {
        name: (input_spec(node), after)
        for name, (node, after) in replaced.items()
        if name in plan.placeholders and node is not None and node.op in PLACEHOLDERS
    }
    sides = [side for spec, _ in own.values() if (side := _image_sides(spec.stated)) is not None]
    subject = Subject(
        context.executor,
        key,
        graph,
        plan=plan,
        overrides=_overrides(context),
        name=EDITED,
        picture=sides[0] if sides else None,
    )
    subject.specs = [
        _fitting(graph, spec, *own[spec.name]) if spec.name in own and not spec.given else spec
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
    is_first = spec.stated is None and spec.dtype != STRING  # one text may be a whole image
    shapes = dict.fromkeys([*more, *spec.shapes] if is_first else [*spec.shapes, *more])
    return spec._replace(shapes=tuple(sorted(shapes, key=misfits)))


def _overrides(context: ProofContext) -> Overrides:
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
                node=name,
            )
    check_names(overrides, known)
    return overrides


def _observe(
    context: ProofContext, reference: _Reference, edited: Subject, new_inputs: list[str], run: TrialRun
) -> Subject | None:
    """Returns the original, to be run first for the tensors that new inputs replace; `run` gets their values as feeds.

    No generated feed may fit such an input, for example an index, but the value of the original fits. None if the edit
    adds no input, the user gives the values, or the tensors cannot be fetched.
    """
    overrides = _overrides(context)
    tensors = {after: tensor for tensor, after in reference.claim.given.items()}
    by_user = {*overrides.names(), *(new_inputs if overrides.archive is not None else ())}
    replaced = {name: tensors[name] for name in new_inputs if name in tensors and name not in by_user}
    if not replaced or reference.key != ORIGINAL:
        return None

    def original(*wanted: str) -> Subject:
        plan = context.plan(ORIGINAL, nodes_of(wanted))
        return Subject(context.executor, ORIGINAL, reference.graph, plan=plan, name=_OBSERVED, defaults=False)

    observed = original(*replaced.values())
    if any(spec.stated is None or sum(dim < 0 for dim in spec.stated) > 1 for spec in observed.specs):
        # The outputs also run, so that the whole graph accepts the shapes.
        observed = original(*replaced.values(), *(tensor for tensor, _ in reference.claim.outputs))
    if not observed.places().keys() >= {*replaced.values()}:
        return None
    fed: dict[str, FeedSource] = {name: Fetch(_OBSERVED, tensor) for name, tensor in replaced.items()}
    if not (context.overrides.names() or context.overrides.shapes):
        own, after = {spec.name for spec in edited.specs}, {context.after(s.name): s.name for s in observed.specs}
        fed = {name: SameFeed(_OBSERVED, before) for name, before in after.items() if name in own} | fed
    run.fed = fed
    return observed


def _with_other_inputs(graph: Graph, places: Mapping[str, str], constants: Mapping[str, bytes]) -> Graph | None:
    """Returns `graph` with other inputs of some nodes, and other values of constants.

    Args:
        graph: is not changed.
        places: for tensors of `graph` the tensor that their consumers read instead.
        constants: for Const nodes of `graph` the serialised AttrValue of their new value.

    Returns:
        The graph; None if it lacks a tensor or a constant, or would have a cycle.
    """
    if graph.is_edited:
        out = from_bytes(read_chunks(graph.chunks()), graph.source_name)
        out.serving = serving_of(graph)
    else:
        out = opened_again(graph)
    slots: dict[Node, dict[int, Output]] = {}
    try:
        for old, new in places.items():
            source = out.tensor(new)
            for use in out.uses(out.tensor(old)):
                slots.setdefault(use.node, {})[use.slot] = source
        check_acyclic(topology_of(out), slots)
    except EditError:
        return None
    for name, value in constants.items():
        node = out.find(name)
        if node is None or node.op != "Const":
            return None
        out.set_attr(node, "value", value)
    out.set_slots(slots)
    return out


def _rewired(context: ProofContext, reference: _Reference, edited: Subject) -> tuple[_Reference, Subject]:
    """Returns the original and the edited graph, one of them rewired if a replaced tensor cannot be fetched or fed.

    Otherwise returns the arguments. In the rewired original, the consumers of the tensor read its replacement, also in
    loops and branches. If the replacement was added, it does not exist in the original. Then the consumers in the
    edited graph read the tensor itself, and the edited graph must return the values of the original.
    """
    change, claim, executor = context.change, reference.claim, context.executor
    places = edited.places()

    def is_fed(tensor: str, after: str) -> bool:
        shapes = (
            shape_of_tensor(change.before, change.before.tensor(tensor)),
            shape_of_tensor(change.after, change.after.tensor(after)),
        )
        return after in places and compatible(*shapes)

    missing = {tensor: after for tensor, after in claim.given.items() if not is_fed(tensor, after)}
    nodes = {*nodes_of(missing)}
    constants = {name: value for name, value in claim.constants.items() if name in nodes}
    moved = {tensor: after for tensor, after in missing.items() if after != context.after(tensor)}
    rest = {t: a for t, a in claim.given.items() if t not in moved and node_of(t) not in constants}
    if moved and {*nodes_of(moved.values())} <= {*change.intent.added}:
        again = {after: context.after(tensor) for tensor, after in moved.items()}
        graph = _with_other_inputs(change.after, again, {})
        if graph is not None:
            shown = [f"{printable(new)} := {printable(old)}" for new, old in again.items()]
            more = ", ..." if len(shown) > 3 else ""
            statement = f"edited(x, {', '.join(shown[:3])}{more}) == original(x)"
            reference = reference._replace(claim=replace(claim, given=rest, statement=statement))
            executor.load_graph(REWIRED, graph)
            return reference, _edited(context, reference.claim, reference.deciding, REWIRED, graph)
    elif moved or constants:
        origin = change.intent.origins()
        graph = _with_other_inputs(reference.graph, {t: origin(a) or a for t, a in moved.items()}, constants)
        if graph is not None:
            executor.load_graph(REWIRED, graph)
            return reference._replace(key=REWIRED, graph=graph, claim=replace(claim, given=rest)), edited
    return reference, edited


def _cut(context: ProofContext, reference: _Reference, edited: Subject) -> _Reference:
    """Returns `reference`; if tensors are both replaced and compared, their consumers read placeholders.

    A fed tensor does not have its own value, so its consumers read a placeholder instead.
    """
    claim, places = reference.claim, edited.places()
    compared = {tensor for tensor, after in claim.outputs if after in places}
    both = {tensor: after for tensor, after in claim.given.items() if tensor in compared and after in places}
    graph = _with_other_inputs(reference.graph, {}, {}) if both else None
    if graph is None:
        return reference
    unique = graph.unique_names()
    given = {tensor: after for tensor, after in claim.given.items() if tensor not in both}
    for name, after in both.items():
        tensor = graph.tensor(name)
        uses, shape = graph.uses(tensor), shape_of_tensor(reference.graph, reference.graph.tensor(name))
        stand_in = add_placeholder(graph, unique(f"{tensor.node.name}/given"), tensor.dtype, shape, after=tensor.node)
        graph.reroute(uses, stand_in.output)
        given[stand_in.name] = after
    context.executor.load_graph(CUT, graph)
    return reference._replace(key=CUT, graph=graph, claim=replace(claim, given=given))


# -- the run of the reference ---------------------------------------------------------------------------------


def _reference_run(
    context: ProofContext, reference: _Reference, edited: TrialRun
) -> tuple[TrialRun, list[ComparedPair], list[tuple[str, str]]]:
    """Returns the run of a reference on values of `edited`, the pairs, and the outputs that are not compared."""
    claim, graph, places = reference.claim, reference.graph, edited.subject.places()
    copy = Intent(renamed={**claim.copies}).counterpart
    tensors = [tensor for tensor, after in (*claim.outputs, *reference.deciding) if after in places]
    plan = plan_with(context.executor.settings, graph, nodes_of(tensors), trust_seeds=False)
    given = _fetched(context, reference, edited.subject)
    read = [name for name in plan.inputs_of_sampled if copy(name) in places and name not in {*given, *tensors}]
    reference = reference._replace(deciding=[*reference.deciding, *((name, copy(name)) for name in read)])
    tensors += read
    topology = topology_of(graph)
    flags = topology.upstream(
        [topology.id_of(graph[node]) for node in nodes_of(tensors)],
        given={topology.code(graph.tensor(name)) for name in given},
    )
    needed = frozenset(map(topology.name, members(flags)))  # the nodes that run if the given tensors are fed
    plan = replace(plan.only(tensors), sampled=[draw for draw in plan.sampled if node_of(draw) in needed])
    plan.assigned = [a._replace(seed=claim.copies.get(a.variable, a.variable)) for a in plan.assigned]
    bound = frozenset((*plan.placeholders, *plan.defaults)) - needed
    subject = Subject(context.executor, reference.key, graph, plan=plan, bound=bound, seed_suffix="reference")
    subject.variables = [variable for variable in subject.variables if variable.name in needed]
    feeds = {*edited.subject.feedable, *edited.fed}
    fed: dict[str, FeedSource] = {
        name: SameFeed(edited.name, after) for name in subject.feedable if (after := copy(name)) in feeds
    }
    fed |= {tensor: Fetch(edited.name, after) for tensor, after in given.items()}
    subject.keep_defaults(subject.optional - fed.keys())
    run = TrialRun(subject, fed)
    # Otherwise the shapes of the other inputs must be found by trial.
    run.alongside = EDITED if all(name in fed for name in subject.feedable) else None
    return run, *_pairs(reference, edited.subject, subject)


def _fetched(context: ProofContext, reference: _Reference, edited: Subject) -> dict[str, str]:
    """Returns the replaced tensors whose values can be fetched.

    A tensor that keeps its value is computed again, unless it depends on a replaced tensor.
    """
    places, given = edited.places(), reference.claim.given
    missing = [tensor for tensor, after in given.items() if after not in places]
    if missing:
        moved = [tensor for tensor, after in given.items() if after != context.after(tensor)]
        reached, reasons = depending_on(reference.graph, nodes_of(moved)), dict(edited.plan.reasons)
        for after in (given[tensor] for tensor in missing if node_of(tensor) in reached):
            why = reasons.get(node_of(after), "its value cannot be fetched")
            line = Line("nothing could be compared: {tensor}: {why}", tensor=quoted(after), why=why)
            raise NotValidatedError(line, code="nothing-comparable", advice=DO_WITHOUT)
    return {tensor: after for tensor, after in given.items() if after in places}


def _pairs(
    reference: _Reference, edited: Subject, subject: Subject
) -> tuple[list[ComparedPair], list[tuple[str, str]]]:
    """Returns the compared pairs, and the other outputs with the reasons."""
    skipped: list[tuple[str, str]] = []
    out: list[ComparedPair] = []
    reasons = {**dict(subject.plan.reasons), **dict(edited.plan.reasons)}
    random, mine, theirs = random_reasons(edited.plan), subject.places(), edited.places()
    claim, role = reference.claim, reference.part.role if reference.part is not None else ""
    results = dict(claim.outputs[: len(claim.given)])
    for inside, pairs in ((False, claim.outputs), (True, reference.deciding)):
        for tensor, after in pairs:
            is_site = not inside and tensor in claim.sites
            before = f"{role}({after if role == 'post' and tensor in results else tensor})" if role else tensor
            if after in theirs and tensor in mine:
                pair = ComparedPair(before, after, Fetch(subject.name, tensor), Fetch(EDITED, after))
                pair.reason, pair.inside, pair.site = random.get(after, ""), inside or is_site, is_site
                out.append(pair)
            elif not (inside or is_site):
                reason = reasons.get(node_of(after)) or reasons.get(node_of(tensor))
                skipped.append((after, reason or "a value that cannot be fetched"))
    return out, skipped
