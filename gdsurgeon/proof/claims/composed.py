"""Graphs put in front of a model and behind it: the parts are run apart, one on what the other gives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.edits.claims import Interface, Postprocessed, Preprocessed
from gdsurgeon.errors import Line, NotValidatedError, joined, printable, quoted
from gdsurgeon.feeds.input_spec import InputSpec, input_spec
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.placeholders import placeholder_shape
from gdsurgeon.proof.claims.same_outputs import (
    counterpart_pairs,
    deciding,
    edited_plan,
    edited_run,
    original_run,
    something_compared,
)
from gdsurgeon.proof.plan import FetchPlan, Skipped, plan_with
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    DO_WITHOUT,
    EDITED,
    ORIGINAL,
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

PRE, POST = "preprocessing", "postprocessing"


class Parts(NamedTuple):
    """A model as it is run, and the graphs that stand before and behind it.

    Attributes:
        model: the model.
        taken: its inputs that the graph in front gives.
        served: its outputs that the graph behind takes.
        pre, post: the graphs, as they are run; None where there is none.
    """

    model: Subject
    taken: tuple[Interface, ...] = ()
    served: tuple[Interface, ...] = ()
    pre: Subject | None = None
    post: Subject | None = None

    def subjects(self) -> list[Subject]:
        """The graphs around the model."""
        return [part for part in (self.pre, self.post) if part is not None]


def composed_trial(context: TrialContext, claim: Preprocessed | Postprocessed) -> Trial:
    """``edited(raw) == post(original(pre(raw)))``, where one of PRE and POST is missing.

    Behind POST the raw values of what it takes are available under their new names, and compared too.
    """
    before = context.change.before
    front = claim if isinstance(claim, Preprocessed) else None
    back = claim if isinstance(claim, Postprocessed) else None
    served = back.outputs if back is not None else ()
    outputs = [node.name for node in output_nodes(before)] + nodes_of(i.name for i in served)
    inside = deciding(context, outputs)
    plan = plan_with(context.executor.settings, before, list(dict.fromkeys([*outputs, *inside])))
    parts = parts_around(context, plan, front, back)
    statement = "edited(raw) == original(pre(raw))" if front is not None else "edited(x) == post(original(x))"
    trial = parts_trial(context, parts, statement)
    trial.pairs = [*trial.pairs, *counterpart_pairs(context, plan, {*inside} - {*outputs})]
    return trial


def parts_around(
    context: TrialContext, plan: FetchPlan, front: Preprocessed | None, back: Postprocessed | None
) -> Parts:
    """The original, run as PLAN says, with the graphs of FRONT and BACK around it; these begin to be loaded."""
    taken = front.inputs if front is not None else ()
    return Parts(
        context.original(plan, SubjectOptions(bound=frozenset(i.name for i in taken))),
        taken,
        back.outputs if back is not None else (),
        _front(context, front) if front is not None else None,
        _back(context, back, plan) if back is not None else None,
    )


def _front(context: TrialContext, front: Preprocessed) -> Subject:
    names = {i.name: i.part_input for i in front.inputs}
    plan = _part_plan(context, front.pre, nodes_of(i.part_result for i in front.inputs))
    options = SubjectOptions(picture=_picture(context, front))
    overrides = context.overrides_before().only(names).renamed(names)
    subject = Subject(context.executor, PRE, front.pre, plan=plan, overrides=overrides, options=options)
    taken = {i.part_input: i for i in front.inputs}
    subject.specs = [
        _fitting(context, front.pre, spec, taken[spec.name]) if spec.name in taken and not spec.given else spec
        for spec in subject.specs
    ]
    return _begun(subject)


def _fitting(context: TrialContext, pre: Graph, spec: InputSpec, interface: Interface) -> InputSpec:
    """SPEC with what is taken behind PRE, and the shapes first of which PRE makes what the model takes."""
    wanted = input_spec(context.change.before[interface.name])
    whole = input_spec(context.change.after[context.after(interface.name)])
    raw, result = pre[spec.name].output, pre.tensor(interface.part_result)

    def misfits(shape: tuple[int, ...]) -> bool:
        return not compatible(infer_shapes(pre, {raw: shape}, wanted=[result]).shape(result), wanted.stated)

    shapes = spec.shapes
    if len(shapes) > 1:
        own = [shape for shape in wanted.shapes if compatible(shape, spec.stated)]
        found = dict.fromkeys([*own, *shapes] if spec.stated is None else [*shapes, *own])
        shapes = tuple(sorted(found, key=misfits))
    return spec._replace(shapes=shapes, content=whole.content)


def _picture(context: TrialContext, front: Preprocessed) -> tuple[int, int] | None:
    """Height and width of the images that the model takes, for a graph in front that does not resize them."""
    for interface in front.inputs:
        shape = placeholder_shape(context.change.before[interface.name])
        if shape is not None and len(shape) in (3, 4) and shape[-1] in (1, 3, 4):
            height, width = shape[-3:-1]
            if height > 0 and width > 0:
                return height, width
    return None


def _back(context: TrialContext, back: Postprocessed, model: FetchPlan) -> Subject:
    plan = _part_plan(context, back.post, nodes_of(i.part_result for i in back.outputs))
    options = SubjectOptions(bound=frozenset(i.part_input for i in back.outputs))
    post = Subject(context.executor, POST, back.post, plan=plan, options=options)
    served = [i.name for i in back.outputs]
    unserved = [skipped for skipped in model.skipped if skipped.name in nodes_of(served)]
    return _begun(post, unserved or [Skipped(name, "it is a variable") for name in served if name not in model.fetches])


def _part_plan(context: TrialContext, graph: Graph, results: list[str]) -> FetchPlan:
    """What is run of an added graph: RESULTS, and what else it gives that can be run, which are outputs now."""
    settings, copied = context.executor.settings, context.change.intent.copied
    alone = {n.name: plan_with(settings, graph, [n.name]) for n in output_nodes(graph) if n.name in copied}
    others = [name for name, plan in alone.items() if plan.fetches and not (plan.skipped or plan.random or plan.draws)]
    return plan_with(settings, graph, list(dict.fromkeys([*results, *others])))


def _begun(part: Subject, unserved: Sequence[Skipped] = ()) -> Subject:
    """PART, which begins to be loaded; it can be run whole, and UNSERVED, what it takes and is not run, is nothing."""
    name = printable(part.graph.source_name)
    for output, reason, *_ in (*unserved, *part.plan.skipped):
        line = Line(
            "the proof cannot compute {output} of {part}: {reason}", output=quoted(output), part=name, reason=reason
        )
        raise NotValidatedError(line, code="nothing-comparable", advice=DO_WITHOUT)
    if part.plan.random or part.plan.draws:
        raise NotValidatedError(
            f"{name} is random, so its results cannot be compared", code="random-output", advice=DO_WITHOUT
        )
    part.executor.load_source(part.key, part.graph)
    return part


def parts_trial(
    context: TrialContext,
    parts: Parts,
    statement: str,
    specs: Sequence[InputSpec] = (),
    unfed: Collection[str] = (),
) -> Trial:
    """The trial of a model and what stands around it; of its pairs only what is served, behind POST.

    Args:
        context: of the claim.
        parts: what is run.
        statement: of the trial.
        specs: inputs that the edited graph alone has.
        unfed: inputs of the model that the edited graph has not.
    """
    change, model = context.change, parts.model
    around = parts.subjects()
    loads = {p.key: f"TensorFlow does not load {printable(p.graph.source_name)}" for p in around}
    return Trial(
        statement,
        _runs(context, parts, _edited(context, parts, specs, unfed)),
        [*_served_pairs(parts), *_other_pairs(context, parts)],
        both_load(change) | loads,
        samples=max(part.calls for part in (model, parts.pre) if part is not None),
        conditions=[something_compared, partial(_served_compared, parts), partial(_inputs_reached, parts)],
        skipped=model.plan.reasons,
        planned=model.plan,
        steady=ORIGINAL,
    )


def _edited(context: TrialContext, parts: Parts, specs: Sequence[InputSpec], unfed: Collection[str]) -> TrialRun:
    """The edited graph; what is served is fetched in the run of its raw value: chance and state are the same for both.

    The tables of the parts are its own; their initialisers have come along.
    """
    copied = context.change.intent.copied
    plan = edited_plan(context, parts.model.plan)
    places = parts.model.places()
    for interface in parts.served:
        plan.groups[places[interface.name][0]].append(interface.name)
    groups = [places[i.name][0] for i in parts.served] or [0]
    for _, _, after in _others(context, parts):
        plan.groups[groups[0]].append(after)
    plan.initializers += [copied.get(name, name) for part in parts.subjects() for name in part.plan.initializers]
    fed: dict[str, FeedSource] = {}
    if parts.pre is not None:
        inputs = {spec.name for spec in parts.pre.specs}
        fed = {context.after(i.name): SameFeed(PRE, i.part_input) for i in parts.taken if i.part_input in inputs}
        fed |= {copied.get(v.name, v.name): SameFeed(PRE, v.name) for v in parts.pre.variables}
    run = edited_run(context, parts.model, plan, fed=fed, specs=specs, unfed=unfed)
    if parts.post is not None:
        run.subject.variables = [v._replace(name=copied.get(v.name, v.name)) for v in parts.post.variables]
    return run


def _runs(context: TrialContext, parts: Parts, edited: TrialRun) -> list[TrialRun]:
    given: dict[str, FeedSource] = {i.name: Fetch(PRE, i.part_result) for i in parts.taken}
    runs = [original_run(context, parts.model, given), edited]
    if parts.pre is not None:
        names = {i.part_input: context.after(i.name) for i in parts.taken}
        runs.insert(0, TrialRun(parts.pre, reported_as=names))
    if parts.post is not None:
        copied = context.change.intent.copied
        raw: dict[str, FeedSource] = {i.part_input: Fetch(ORIGINAL, i.name) for i in parts.served}
        raw |= {v.name: SameFeed(EDITED, copied.get(v.name, v.name)) for v in parts.post.variables}
        runs.append(TrialRun(parts.post, raw))
    return runs


def _served_pairs(parts: Parts) -> list[ComparedPair]:
    chance = chance_reasons(parts.model.plan)
    return [
        ComparedPair(
            f"post({i.name})", i.name, Fetch(POST, i.part_result), Fetch(EDITED, i.name), chance.get(i.name, "")
        )
        for i in parts.served
    ]


def _others(context: TrialContext, parts: Parts) -> list[tuple[str, str, str]]:
    """The run, the name and the name now of what the graphs around the model give besides."""
    taken = {i.part_result for i in (*parts.taken, *parts.served)}
    copied = context.change.intent.copied
    refs = [(part.name, name, parse_tensor(name)) for part in parts.subjects() for name in part.plan.fetches]
    return [
        (run, name, format_input(copied[ref.node], ref.port))
        for run, name, ref in refs
        if name not in taken and ref.node in copied
    ]


def _other_pairs(context: TrialContext, parts: Parts) -> list[ComparedPair]:
    called = {PRE: "pre", POST: "post"}
    return [
        ComparedPair(f"{called[run]}({name})", after, Fetch(run, name), Fetch(EDITED, after))
        for run, name, after in _others(context, parts)
    ]


def _served_compared(parts: Parts, proof: Proof) -> None:
    """What is served must have been compared."""
    names = {i.name for i in parts.served}
    for output in proof.outputs:
        if output.after in names and output.comparison is None:
            line = "{output} could not be compared: {reason}"
            facts = {"output": quoted(output.after), "reason": printable(output.reason)}
            raise NotValidatedError(Line(line, **facts), code="nothing-comparable", advice=DO_WITHOUT)


def _inputs_reached(parts: Parts, proof: Proof) -> None:
    """Something that depends on each of the inputs must have been compared."""
    compared = {i.name for i in parts.served}
    compared.update(nodes_of(o.before for o in proof.compared if not o.before.startswith(("pre(", "post("))))
    for interface in parts.taken:
        if compared.isdisjoint(depending_on(parts.model.graph, [interface.name])):
            reasons = joined("; ", dict.fromkeys(reason for _, reason in proof.skipped)) or "no output depends on it"
            line = "no output that depends on {input} could be compared: {reasons}"
            raise NotValidatedError(
                Line(line, input=quoted(interface.name), reasons=reasons),
                code="nothing-comparable",
                facts={"node": interface.name},
                advice=DO_WITHOUT,
            )
