"""The claim that replaced values are the only difference between two graphs.

Usually each sample has these runs: the edited graph on generated feeds; the original on the same feeds, except that the
replaced tensors get the values that the edited graph computed; each added graph in isolation, on the values that its
copy read in the edited graph. Equal pairs of tensors show the claim. For add-preprocessing, the original gets the
preprocessed value of the edited graph, and the preprocessing graph must return the same value for the same raw input.

Three functions handle special cases, and otherwise have no effect: `_rewired` if a replaced tensor can be
neither fetched nor fed, `_cut` if it is also compared, and `_observe` if no generated feed may fit a new input.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.analysis.queries.deciding import deciding_nodes
from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.analysis.shapes.inference import infer_shapes, shape_of_tensor
from gdsurgeon.analysis.traversal.topology import depending_on, members, topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import SameGiven, SamePart, SameTensors, TensorPairs
from gdsurgeon.edits.replacing import add_placeholder, known_shapes
from gdsurgeon.edits.reroute import check_acyclic
from gdsurgeon.errors import EditError, GdsurgeonError, Line, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.feeds.input_spec import InputSpec, input_spec
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import FullShape, Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import node_of, nodes_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.proof.executor import Refused, await_loaded
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import SAME, Proof, Skipped, equations_of
from gdsurgeon.proof.same_outputs import only_downstream, something_compared
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
    nothing_comparable,
    random_outputs,
    random_reasons,
)

PART, REWIRED, CUT, _OBSERVED = "part", "rewired", "original, cut", "observed"


class _Reference(NamedTuple):
    """A graph that runs on values of the edited graph: the original, or an added graph in isolation.

    Attributes:
        key: its name in the executor.
        graph: the graph as it is in its file.
        given: tensors of the graph, each with the tensor of the edited graph whose value it gets.
        pairs: tensors of the graph, each with the tensor of the edited graph that must be equal.
        copies: nodes of the graph and nodes of the edited graph that get the same feeds.
        deciding: further pairs, which are compared if possible: tensors by which outputs are decided, and inputs of
            sampled random ops.
        sites: tensors among `pairs` that are inner tensors at which the edit changed the computation.
        constants: expected values of constants of the edited graph.
        fetched: further tensors of the edited graph that its run must compute.
        part_name: the name of the added graph in messages; '' for the original.
        role, results: of the added graph, see `SamePart`.
    """

    key: str
    graph: Graph
    given: Mapping[str, str]
    pairs: Sequence[tuple[str, str]]
    copies: Mapping[str, str]
    deciding: Sequence[tuple[str, str]] = ()
    sites: Sequence[str] = ()
    constants: Mapping[str, bytes] = MappingProxyType({})
    fetched: Sequence[str] = ()
    part_name: str = ""
    role: str = ""
    results: TensorPairs = ()


def prove_same_given(context: ProofContext, claim: SameGiven) -> Trial:
    """Proves that the edited graph returns the values of the original with replaced values of some tensors."""
    change, pairs = context.change, [*claim.outputs]
    before, renamed, removed = change.before, change.intent.renamed, {*change.intent.removed}
    for name, value in claim.constants.items():
        node = change.after.find(name)
        if node is None or node.op != "Const" or node.attr_bytes("value") != value:
            text = f"the result differs: {quoted(name)} does not have its new value"
            raise ValidationError(text, code="differs", node=name)

    def unlisted(nodes: Iterable[Node]) -> list[tuple[str, str]]:
        """Returns the outputs of `nodes` that are neither compared nor replaced, as pairs."""
        listed = {tensor for tensor, _ in pairs} | claim.given.keys()
        names = [output.name for node in nodes for output in node.outputs]
        return [(name, context.after(name)) for name in names if name not in listed]

    deciding: list[tuple[str, str]] = []
    if not claim.copies:
        pairs += unlisted(node for node in output_nodes(before) if node.name not in removed)
        nodes = deciding_nodes(before[node_of(tensor)] for tensor, _ in pairs)
        deciding = [pair for pair in unlisted(nodes) if node_of(pair[1]) in change.after]
    # The originals of copies run together with the copies.
    fetched = [tensor for tensor, _ in claim.outputs] if claim.copies else []
    copies = {**renamed, **claim.copies}
    original = _Reference(ORIGINAL, before, claim.given, pairs, copies, deciding, claim.sites, claim.constants, fetched)
    added = [_of_part(context, part, f"{PART} {number}") for number, part in enumerate(claim.parts)]
    trial = _trial(context, claim.statement, [original, *added], parts_stated=claim.parts_stated)
    trial.tolerance = claim.tolerance
    only_downstream(context, trial)
    for pair in trial.pairs:
        pair.accepted_because = claim.except_for.get(pair.before, "")
    trial.run()
    if not claim.except_for:
        something_compared(trial.proof)
    for part in claim.parts:
        _check_part_compared(before, claim.given, part, trial.proof)
    return trial


def _check_part_compared(graph: Graph, given: Mapping[str, str], part: SamePart, proof: Proof) -> None:
    """Raises NotValidatedError unless each result of `part`, or a tensor that depends on it, was compared.

    This holds only for preprocessing and postprocessing.
    """
    compared = {output.after for output in proof.compared}
    nodes = {output.before.partition(":")[0] for output in proof.compared}
    for _, result in part.results if part.role else ():
        replaced = nodes_of(tensor for tensor, value in given.items() if value == result)
        if nodes.isdisjoint(depending_on(graph, replaced)) if replaced else result not in compared:
            name = (replaced or [result])[0]
            subject = f"no output that depends on {quoted(name)} could" if replaced else f"{quoted(name)} could not"
            raise nothing_comparable(proof, f"{subject} be compared", "no output depends on it", node=name)


def prove_same_tensors(context: ProofContext, claim: SameTensors) -> Trial:
    """Proves that tensors have the values that they had; tensors that cannot be fetched are left out.

    The proof of the tensors that depend on these covers them.
    """
    change = context.change
    pairs = [(tensor, context.after(tensor)) for tensor in claim.tensors]
    original = _Reference(ORIGINAL, change.before, claim.given, pairs, change.intent.renamed)
    trial = _trial(context, "" if claim.given else SAME, [original])
    trial.skipped, trial.runs = [], trial.runs if trial.pairs else []
    return trial.run()


# -- added graphs ---------------------------------------------------------------------------------------------


def prove_same_part(context: ProofContext, claim: SamePart) -> Trial:
    """Proves that an added graph computes the same in the edited graph as in isolation."""
    if not claim.outputs:
        return Trial(context.executor, "", [], []).run()
    warnings: list[str] = []
    reference = _of_part(context, claim, PART)
    tensors = {*claim.inputs.values(), *(after for _, after in claim.outputs)}
    must_be_in_place = not claim.inputs or claim.in_place
    if must_be_in_place or tensors <= _edited(context, [reference]).places().keys():
        trial = _trial(context, "", [reference])
        try:
            if not must_be_in_place:
                trial.runs[0].on_refusal = lambda refused: NotValidatedError(refused.text, code="does-not-run")
                context.executor.loaded(EDITED)
            something_compared(trial.run().proof)
            _check_part_compared(claim.part, {}, claim, trial.proof)
            return trial
        except (Refused, NotValidatedError) as error:
            if must_be_in_place:
                raise
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
    """Returns the added graph of `claim`, as `key` in the executor.

    Raises:
        NotValidatedError: the results of preprocessing or postprocessing are random.
    """
    outputs = claim.outputs
    if claim.role:
        plan = plan_with(context.executor.settings, claim.part, (tensor for tensor, _ in outputs))
        random = random_outputs(claim.part, plan)
        if any(tensor in random for tensor, _ in claim.results):
            text = f"{printable(claim.part.source_name)} is random, so its results cannot be compared"
            raise NotValidatedError(text, code="random-output", advice=DO_WITHOUT)
        outputs = tuple(pair for pair in outputs if pair[0] not in random)
    return _Reference(
        key,
        claim.part,
        claim.inputs,
        outputs,
        claim.copies,
        part_name=_file_name(claim.part),
        role=claim.role,
        results=claim.results,
    )


def _isolated_trial(context: ProofContext, claim: SamePart) -> Trial:
    """Returns the trial of an added graph on generated values, which the edited graph gets at the same place.

    This is possible if the values of the edited graph cannot be fetched, as in a branch, or the added graph refuses
    them.
    """
    executor = context.executor
    plan = plan_with(executor.settings, claim.part, (tensor for tensor, _ in claim.outputs))
    part = Subject(executor, PART, claim.part, plan, _shapes(context, claim))
    places, random = part.places(), random_reasons(plan)
    outputs = [(tensor, after) for tensor, after in claim.outputs if tensor in places]
    initializers = [claim.copies.get(name, name) for name in plan.initializers]
    placed_plan = FetchPlan([[after for _, after in outputs]], initializers=initializers)
    placed = Subject(executor, EDITED, context.change.after, placed_plan, name="the part in the result")
    copy = Intent(renamed={**claim.copies}).counterpart
    fed = {claim.inputs.get(node_of(name)) or copy(name): SameFeed(part.name, name) for name in part.feedable}
    return Trial(
        executor,
        f"{equations_of([], [_file_name(claim.part)])[0]} on any inputs",
        [TrialRun(part, loads=True), TrialRun(placed, fed, edited_name=context.change.called)],
        [ComparedPair(t, a, Fetch(part.name, t), Fetch(placed.name, a), random.get(t, "")) for t, a in outputs],
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
        await_loaded(context.executor, EDITED, context.change.called)
        specs = context.executor.signature(EDITED, [tensors[name].name for name in unknown])
        shapes |= {name: spec.shape for name, spec in zip(unknown, specs, strict=True)}
    return Overrides(
        shapes={n: tuple(max(dim, 1) for dim in shape) for n, shape in shapes.items() if shape is not None}
    )


# -- the trial ------------------------------------------------------------------------------------------------


def _trial(
    context: ProofContext, statement: str, references: Sequence[_Reference], *, parts_stated: bool = False
) -> Trial:
    """Returns the trial: the runs are `observed` (seldom), the edited graph, and each reference.

    The values of the edited graph are fed to the later runs.

    Args:
        context: of the claim.
        statement: the claim as an equation.
        references: the original, if it runs, and then the added graphs.
        parts_stated: whether `statement` contains the added graphs.
    """
    change, edited, first = context.change, _edited(context, references), references[0]
    if first.key == ORIGINAL:
        statement, first, edited = _rewired(context, statement, references, edited)
        first = _cut(first, edited)
    known = {change.intent.after(node.name) for node in input_nodes(change.before)}
    new_inputs = [spec.name for spec in edited.specs if spec.name not in known]
    run = TrialRun(edited, edited_name=change.called, reverses_feeds=True, loads=edited.key == REWIRED)
    observed = _observe(context, first, edited, new_inputs, run)

    def on_edit_refusal(refused: RunRefused) -> GdsurgeonError:
        is_added = refused.node in change.intent.copied.values()
        if is_added and refused.error is not None and any(reference.role == "pre" for reference in references[1:]):
            return refused.error  # no feed fits the preprocessing
        if first.given and is_added:
            names = ", ".join(map(quoted, first.given))
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
    trial = Trial(context.executor, statement, runs, [], EDITED)
    trial.samples = max(edited.needed_samples, context.executor.settings.samples if observed is not None else 1)
    trial.varying_run = None if {first.key, edited.key} & {REWIRED, CUT} else first.key
    for reference in (first, *references[1:]):
        other, pairs, skipped = _reference_run(context, reference, run)
        other.on_refusal = on_reference_refusal
        other.alongside = other.alongside if observed is None or reference.part_name else None
        runs.append(other)
        trial.skipped += skipped
        if reference.part_name and parts_stated:
            for pair in pairs[: len(reference.given)] if reference.role == "pre" else ():
                pair.hidden = True
            trial.pairs[:0] = pairs
        else:
            trial.pairs += pairs
            trial.parts += [reference.part_name] if reference.part_name else []
    return trial


def _edited(
    context: ProofContext, references: Sequence[_Reference], key: str = EDITED, graph: Graph | None = None
) -> Subject:
    """Returns the edited graph, or a rewired version `graph` of it with the key `key`."""
    change = context.change
    graph = change.after if graph is None else graph
    tensors = [after for reference in references for _, after in (*reference.pairs, *reference.deciding)]
    lost = [tensor for tensor in tensors if node_of(tensor) not in change.after]
    if lost:
        text = f"the result differs: its output {quoted(lost[0])} is missing"
        raise ValidationError(text, code="differs", node=lost[0])
    tensors += [after for reference in references for after in (*reference.fetched, *reference.given.values())]
    plan = plan_with(context.executor.settings, graph, tensors, trust_seeds=False)
    # Other outputs of the nodes are not fetched, because TensorFlow's optimizer may remove them.
    plan = plan.only({*tensors, *plan.inputs_of_sampled})
    given = references[0].given if references[0].key == ORIGINAL else {}
    own = {
        name: (input_spec(node), after)
        for before, after in given.items()
        if (name := context.after(before)) in plan.placeholders
        and (node := change.before.find(before)) is not None
        and node.op in PLACEHOLDERS
    }
    subject = Subject(
        context.executor,
        key,
        graph,
        plan=plan,
        overrides=context.overrides_of(EDITED),
        name=EDITED,
        picture=next(filter(None, (_image_sides(spec.stated) for spec, _ in own.values())), None),
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

    def misfits(shape: FullShape) -> bool:
        return not compatible(infer_shapes(graph, {raw: shape}, wanted=[read]).shape(read), own.stated)

    more = [shape for shape in own.shapes if compatible(shape, spec.stated)]
    is_first = spec.stated is None and spec.dtype != STRING  # one text may be a whole image
    shapes = dict.fromkeys([*more, *spec.shapes] if is_first else [*spec.shapes, *more])
    return spec._replace(shapes=tuple(sorted(shapes, key=misfits)))


def _observe(
    context: ProofContext, reference: _Reference, edited: Subject, new_inputs: list[str], run: TrialRun
) -> Subject | None:
    """Returns the original, to be run first for the tensors that new inputs replace; `run` gets their values as feeds.

    No generated feed may fit such an input, for example an index, but the value of the original fits. None if the edit
    adds no input, the user gives the values, or the tensors cannot be fetched.
    """
    tensors = {after: tensor for tensor, after in reference.given.items()}
    by_user = {*edited.overrides.names(), *(new_inputs if edited.overrides.archive is not None else ())}
    replaced = {name: tensors[name] for name in new_inputs if name in tensors and name not in by_user}
    if not replaced or reference.key != ORIGINAL:
        return None

    def original(*wanted: str) -> Subject:
        plan = replace(context.plan(ORIGINAL, wanted), defaults=[])  # these inputs keep their defaults
        return Subject(context.executor, ORIGINAL, reference.graph, plan, name=_OBSERVED)

    observed = original(*replaced.values())
    if any(spec.stated is None or sum(dim < 0 for dim in spec.stated) > 1 for spec in observed.specs):
        # The outputs also run, so that the whole graph accepts the shapes.
        observed = original(*replaced.values(), *(tensor for tensor, _ in reference.pairs))
    if not observed.places().keys() >= {*replaced.values()}:
        return None
    fed: dict[str, FeedSource] = {name: Fetch(_OBSERVED, tensor) for name, tensor in replaced.items()}
    if not edited.overrides.names():
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
    out = graph.copy()
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


def _rewired(
    context: ProofContext, statement: str, references: Sequence[_Reference], edited: Subject
) -> tuple[str, _Reference, Subject]:
    """Returns the statement, the original and the edited graph; one graph is rewired if a replaced tensor cannot be
    fetched or fed.

    Otherwise nothing changes. In the rewired original, the consumers of the tensor read its replacement, also in loops
    and branches. If the replacement was added, it does not exist in the original. Then the consumers in the edited
    graph read the tensor itself, and the edited graph must return the values of the original.
    """
    change, original, places = context.change, references[0], edited.places()

    def is_fed(tensor: str, after: str) -> bool:
        ends = (change.before, tensor), (change.after, after)
        return after in places and compatible(*(shape_of_tensor(graph, graph.tensor(name)) for graph, name in ends))

    missing = {tensor: after for tensor, after in original.given.items() if not is_fed(tensor, after)}
    nodes = {*nodes_of(missing)}
    constants = {name: value for name, value in original.constants.items() if name in nodes}
    moved = {tensor: after for tensor, after in missing.items() if after != context.after(tensor)}
    rest = {t: a for t, a in original.given.items() if t not in moved and node_of(t) not in constants}
    if moved and {*nodes_of(moved.values())} <= {*change.intent.added}:
        again = {after: context.after(tensor) for tensor, after in moved.items()}
        graph = _with_other_inputs(change.after, again, {})
        if graph is not None:
            shown = [f"{printable(new)} := {printable(old)}" for new, old in again.items()]
            more = ", ..." if len(shown) > 3 else ""
            statement = f"edited(x, {', '.join(shown[:3])}{more}) == original(x)"
            original = original._replace(given=rest)
            await_loaded(context.executor, EDITED, change.called)  # only the rewired graph runs
            edited = _edited(context, [original, *references[1:]], REWIRED, graph)
    elif moved or constants:
        origin = change.intent.origins()
        graph = _with_other_inputs(original.graph, {t: origin(a) or a for t, a in moved.items()}, constants)
        if graph is not None:
            original = original._replace(key=REWIRED, graph=graph, given=rest)
    return statement, original, edited


def _cut(reference: _Reference, edited: Subject) -> _Reference:
    """Returns `reference`; if tensors are both replaced and compared, their consumers read placeholders.

    A fed tensor does not have its own value, so its consumers read a placeholder instead.
    """
    places = edited.places()
    compared = {tensor for tensor, after in reference.pairs if after in places}
    both = {tensor: after for tensor, after in reference.given.items() if tensor in compared and after in places}
    if not both:
        return reference
    graph = reference.graph.copy()
    unique = graph.unique_names()
    given = {tensor: after for tensor, after in reference.given.items() if tensor not in both}
    for name, after in both.items():
        tensor = graph.tensor(name)
        uses, shape = graph.uses(tensor), shape_of_tensor(reference.graph, reference.graph.tensor(name))
        stand_in = add_placeholder(graph, unique(f"{tensor.node.name}/given"), tensor.dtype, shape, after=tensor.node)
        graph.reroute(uses, stand_in.output)
        given[stand_in.name] = after
    return reference._replace(key=CUT, graph=graph, given=given)


# -- the run of the reference ---------------------------------------------------------------------------------


def _reference_run(
    context: ProofContext, reference: _Reference, edited: TrialRun
) -> tuple[TrialRun, list[ComparedPair], Skipped]:
    """Returns the run of a reference on values of `edited`, the pairs, and the outputs that are not compared.

    A given tensor that keeps its value is computed again, unless it depends on a replaced tensor.

    Raises:
        NotValidatedError: the run of the edited graph cannot return a value that the reference needs.
    """
    graph, role, places = reference.graph, reference.role, edited.subject.places()
    copy = Intent(renamed={**reference.copies}).counterpart
    reasons = dict(edited.subject.plan.reasons)
    given = {tensor: after for tensor, after in reference.given.items() if after in places}
    needed = [*reference.given.values(), *(after for _, after in reference.results)] if role else []
    if len(given) < len(reference.given):
        moved = [tensor for tensor, after in reference.given.items() if after != context.after(tensor)]
        reached = depending_on(graph, nodes_of(moved))
        needed += [after for tensor, after in reference.given.items() if node_of(tensor) in reached]
    for after in needed:
        if after not in places:
            why = reasons.get(node_of(after), "its value cannot be fetched")
            line = Line("the proof cannot compute {tensor}: {why}", tensor=quoted(after), why=why)
            raise NotValidatedError(line, code="nothing-comparable", advice=DO_WITHOUT)
    tensors = [tensor for tensor, after in (*reference.pairs, *reference.deciding) if after in places]
    plan = plan_with(context.executor.settings, graph, tensors, trust_seeds=False)
    read = [name for name in plan.inputs_of_sampled if copy(name) in places and name not in {*given, *tensors}]
    tensors += read
    topology = topology_of(graph)
    flags = topology.upstream(
        [topology.id_of(graph[node]) for node in nodes_of(tensors)],
        given={topology.code(graph.tensor(name)) for name in given},
    )
    run_nodes = frozenset(map(topology.name, members(flags)))  # if the given tensors are fed

    def in_run(names: Iterable[str]) -> list[str]:
        return [name for name in names if node_of(name) in run_nodes]

    plan = replace(
        plan.only(tensors),
        sampled=in_run(plan.sampled),
        placeholders=in_run(plan.placeholders),
        defaults=in_run(plan.defaults),
        variables=in_run(plan.variables),
        assigned=[a._replace(seed=reference.copies.get(a.variable, a.variable)) for a in plan.assigned],
    )
    subject = Subject(context.executor, reference.key, graph, plan, seed_suffix="reference")
    feeds = {*edited.subject.feedable, *edited.fed}
    fed: dict[str, FeedSource] = {
        name: SameFeed(edited.name, after) for name in subject.feedable if (after := copy(name)) in feeds
    }
    fed |= {tensor: Fetch(edited.name, after) for tensor, after in given.items()}
    subject.keep_defaults(subject.optional - fed.keys())
    run = TrialRun(subject, fed, loads=reference.key != ORIGINAL)
    # Otherwise the shapes of the other inputs must be found by trial.
    run.alongside = EDITED if all(name in fed for name in subject.feedable) else None

    skipped: Skipped = []
    out: list[ComparedPair] = []
    reasons = dict(plan.reasons) | reasons
    random, mine = random_reasons(edited.subject.plan), subject.places()
    compared, results = {*reference.pairs}, dict(reference.results)
    for tensor, after in (*reference.pairs, *reference.deciding, *((name, copy(name)) for name in read)):
        inside, is_site = (tensor, after) not in compared, tensor in reference.sites
        before = f"{role}({after if role == 'post' and tensor in results else tensor})" if role else tensor
        if after in places and tensor in mine:
            ends = Fetch(subject.name, tensor), Fetch(EDITED, after)
            out.append(ComparedPair(before, after, *ends, random.get(after, ""), inside, is_site))
        elif not (inside or is_site):
            reason = reasons.get(node_of(after)) or reasons.get(node_of(tensor))
            skipped.append((after, reason or "a value that cannot be fetched"))
    return run, out, skipped
