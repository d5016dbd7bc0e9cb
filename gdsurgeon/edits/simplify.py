"""simplify: removes redundant nodes; outputs stay bit-identical."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import includes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.claims import Claim, EditResult, SameGiven, SameOutputs, Stage, equation
from gdsurgeon.edits.decorator import edit, of_nodes, of_olds, of_tensors
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.replacing import unrenamed_outputs
from gdsurgeon.edits.set_shape import set_shape
from gdsurgeon.edits.simplifying.constants import Evaluate
from gdsurgeon.edits.simplifying.engines import check_room, left_out, spelt_out
from gdsurgeon.edits.simplifying.equal_nodes import equal_nodes
from gdsurgeon.edits.simplifying.fold_sites import Sites
from gdsurgeon.edits.simplifying.folds import FOLD_BN, TOLERANCE, check_folded, fold, fold_body, with_folds
from gdsurgeon.edits.simplifying.functions import inlined, written
from gdsurgeon.edits.simplifying.graph_view import CHECKS, GraphView, Pass
from gdsurgeon.edits.simplifying.passes import (
    conditions,
    control_edges,
    fetched_by_savers,
    identities,
    initialising,
    lasting,
    pairs,
    remove_unused,
    served_nodes,
)
from gdsurgeon.edits.simplifying.rules import by_rules
from gdsurgeon.edits.simplifying.stages import (
    CONDITIONS,
    CONSTANTS,
    DROPOUT,
    SAME_SHAPE,
    SHAPES,
    SUMS,
    How,
    Step,
    decided,
    in_bodies,
    regrouped,
    simplified_body,
    simplify_nodes,
)
from gdsurgeon.errors import EditError, Json, Line, NothingToDo, Remark, UsageError, joined, quoted
from gdsurgeon.graph.attrs import Shape, format_shape
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output, placeholder_shape
from gdsurgeon.ops.elements import require_numpy
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.patterns.exact import RULES
from gdsurgeon.specification.specify import Asked
from gdsurgeon.text import Entry, counted, named, nearest, suggestion
from gdsurgeon.wire.write import size_of

FUNCTIONS = "functions"
"""The last pass: removes unused functions."""
INLINE = "inline"
"""The first pass: inlines functions."""
BODIES = "bodies"
"""The pass that simplifies the functions of the remaining calls."""
PASSES: dict[str, Pass | None] = {
    INLINE: None,
    "unread": remove_unused,
    "control-edges": control_edges,
    CONDITIONS: conditions,
    "checks": None,
    "stop-gradients": None,
    "identities": identities,
    "neutral": None,
    "pairs": pairs,
    "equal-nodes": equal_nodes,
    SAME_SHAPE: None,
    DROPOUT: None,
    SHAPES: None,
    CONSTANTS: None,
    BODIES: None,
    FUNCTIONS: None,
}
"""The passes, which are repeated in this order; constants and functions come last. None: other code applies the pass,
or it consists only of rules in `RULES`.
"""
_NOT_IN_BODIES = frozenset((CONSTANTS, DROPOUT, SAME_SHAPE, SHAPES))
"""Passes that need the shapes of arguments, and values: not run on a function body that is edited as a graph."""


@edit(outputs=of_tensors, shapes=of_olds(of_nodes))
def simplify(
    graph: Graph,
    outputs: Sequence[str | Output] = (),
    *,
    passes: Sequence[str] = (),
    skip: Sequence[str] = (),
    shapes: Pairs[str, Shape] = (),
    max_growth: int = 0,
    evaluate: Evaluate | None = None,
    engine: str = "",
    fold_bn: bool = False,
    tolerance: float = TOLERANCE,
) -> EditResult:
    """Removes redundant nodes until no pass changes anything. Outputs stay bit-identical; with `fold_bn`, up to
    rounding.

    Inputs and outputs, and nodes that signatures and savers name, keep their names. Lasting effects (an assignment, a
    print) are kept, except those that `outputs` do not need.

    Args:
        graph: changed in place.
        outputs: the tensors to keep; by default those without consumers, or those of a model's signatures.
        passes: the passes to run, some of `PASSES`; all by default.
        skip: the passes to skip; `fold-bn` among them cancels `fold_bn`.
        shapes: pairs (input, its only shape from now on); values that follow from it are folded.
        max_growth: by how many bytes folded constants may be larger than the constants that they replace.
        evaluate: computes values that depend only on constants, a `gds.Evaluator`; None folds only arithmetic on
            shapes, which needs no TensorFlow.
        engine: one of `gdsurgeon.edits.simplifying.engines.ENGINES`: constants store all their elements, and passes
            that the engine does not support are skipped; '' is TensorFlow.
        fold_bn: also fold batch norms, factors, paddings and dilations into convolutions.
        tolerance: with `fold_bn`, the largest max |a - b| / max |a| of a tensor; a tenth of it for a fold in isolation.

    Raises:
        UsageError: a pass or engine is unknown, or no pass is left.
        EditError: a tensor does not exist, an input does not accept a shape, a node has a missing input, or constants
            are too large for a file; the graph is unchanged.
        NothingToDo: nothing can be simplified.
        NotValidatedError: `fold_bn` is given, and NumPy is not installed.
    """
    fold_bn = fold_bn and FOLD_BN not in skip
    skip = [name for name in skip if name != FOLD_BN]
    chosen = _chosen(passes, skip, left_out(engine, has_shapes=bool(shapes)))
    if not chosen and not fold_bn and (passes or not engine):
        raise _nothing_left(passes, skip, engine)
    if fold_bn:
        require_numpy("folding batch norms")
    ends = list(dict.fromkeys(graph.output(item) for item in outputs))
    topology = topology_of(graph)
    topology.check_reads(topology.numbers())
    if engine:
        check_room(graph)
    was, inside = topology.op_counts(), _nodes_inside(graph)
    work = _Work(graph, [end.name for end in ends], chosen, evaluate, max_growth)
    work.fix(pairs_of(shapes))
    if INLINE in chosen:
        work.inline()
    work.run()
    if engine:
        work.spell_out()
    if FUNCTIONS in chosen:
        work.drop_functions()
    if not graph.is_changed and not fold_bn:
        raise NothingToDo("nothing would change: no pass found anything to simplify")
    sites = work.fold(spells_out=bool(engine)) if fold_bn else None
    result = work.result(was)
    if sites is not None:
        result = with_folds(graph, result, sites, tolerance)
    result.told += [*_table(was, now := topology_of(graph).op_counts()), *_totals(graph, was, now, inside)]
    return result


class _Work:
    """A graph that is simplified in stages.

    Attributes:
        stages: the stages so far.
        counts: the number of removed nodes and edges by pass.
        inlined: the number of inlined calls.
        steps: the changes of nodes so far.
        as_written: whether calls were removed or changed, whose functions TensorFlow would optimize.
        lost: the number of removed checks in functions, by op.
        fixed: the inputs whose shapes were fixed, for the summary.
    """

    def __init__(
        self, graph: Graph, ends: Sequence[str], chosen: Sequence[str], evaluate: Evaluate | None, room: int
    ) -> None:
        self._graph, self._ends, self._room = graph, ends, room
        self._chosen = chosen if not graph.is_body else [name for name in chosen if name not in _NOT_IN_BODIES]
        passes: list[Pass] = []
        rules = [name for name in self._chosen if name in RULES]
        for name in self._chosen:
            if name in rules[:1]:  # the rules of all passes are applied together
                passes.append(by_rules(rules))
            if (found := PASSES[name]) is not None:
                passes.append(found)
        evaluate = evaluate if CONSTANTS in self._chosen else None
        self._how = How(self._chosen, passes, evaluate, self._snapshot, [])
        self._before: Graph | None = graph.pristine()  # the graph before the next stage, if it was serialized
        self._refused: set[str] = set()
        self.stages: list[Stage] = []
        self.counts: Counter[str] = Counter()
        self.inlined = 0
        self.steps: list[Step] = []
        self.as_written = False
        self.lost: Counter[str] = Counter()
        self.fixed: list[Entry] = []

    # -- the stages ------------------------------------------------------------------------------------------

    def fix(self, shapes: Sequence[tuple[str, Shape]]) -> None:
        """Fixes the shapes of inputs that do not have these shapes.

        Raises:
            EditError: an input does not exist, does not accept the shape, or the graph does not fit.
        """
        graph, new = self._graph, []
        for name, shape in shapes:
            node = graph[name.removesuffix(":0")]
            old = placeholder_shape(node) if node.op in PLACEHOLDERS else None
            if not includes(old, shape):
                line = f"the shape {format_shape(shape)} does not fit {quoted(name)}, which accepts {format_shape(old)}"
                hint = "set-shape changes the shapes of inputs"
                raise EditError(line, code="wrong-shape", node=name, expected=old, found=shape, hint=hint)
            if node.op not in PLACEHOLDERS or old != shape:
                new.append((name, shape))
        if new:
            before = graph.pristine()
            result = set_shape(graph, new, batch_check=False)
            self._append(Stage(before, result))
            nodes = [node for name in result.intent.changed if (node := graph[name]).op in PLACEHOLDERS]
            self.fixed = [Entry("fixed", f"{node.name} {format_shape(placeholder_shape(node))}") for node in nodes]

    def inline(self) -> None:
        """Inlines functions if the file does not grow after the other passes."""

        def other_passes(graph: Graph) -> None:
            with suppress(NothingToDo):
                simplify(graph, self._ends, passes=[name for name in self._chosen if name != INLINE])

        stage = inlined(self._graph, self._kept(), other_passes)
        if stage is not None:
            self._append(stage)
            self.as_written = True
            self.inlined += sum(len(claim.also) for claim in stage.result.claims if isinstance(claim, SameOutputs))

    def run(self) -> None:
        """Runs the passes, on nodes, on calls and on the bodies of functions, until nothing changes."""
        names = [node.name for node in self._kept()]
        savers: list[str] | None = None
        refused = defaultdict[str, set[str]](set)
        while True:
            topology = topology_of(self._graph)
            kept = (topology.id_of(self._graph[name]) for name in (*names, *(savers or ())))
            view = GraphView(self._graph, kept, keeps_checks="checks" not in self._chosen)
            if savers is None:
                numbers = fetched_by_savers(view)
                savers = list(map(topology.name, numbers))
                for number in numbers:
                    view.kept[number] = 1
            effects = initialising if self._ends else lasting
            self._add(simplify_nodes(view, self._how, self._room, self._refused, effects))
            step = regrouped(view, self._how)
            if step is None and not self._graph.is_body:
                step = decided(self._graph, self._how)
            if step is not None:
                self._add(step)
                if step.as_written and INLINE in self._chosen:
                    self.inline()
            elif not self._in_bodies(lambda body: simplified_body(body, self._how, refused[body.name])):
                break

    def spell_out(self) -> None:
        """Makes each constant store all its elements."""
        self._snapshot()
        self._record("spelt_constants", spelt_out(self._graph), {})

    def drop_functions(self) -> None:
        """Removes unused functions."""
        self.counts[FUNCTIONS] = 0
        if len(self._graph.functions):
            self._snapshot()
            intent = Intent()
            intent.functions.removed = drop_unused_functions(self._graph)
            self.counts[FUNCTIONS] = len(intent.functions.removed)
            self._record("simplify", intent, {"passes": tuple(self._chosen)})

    def fold(self, *, spells_out: bool) -> Sites:
        """Folds into convolutions; returns the folds."""
        ends = [self._graph.output(name) for name in self._ends]
        self._snapshot()
        sites = fold(self._graph, ends, self._kept(), spells_out=spells_out)
        self._record("fold_batch_norms", sites.intent(), {})
        self._in_bodies(lambda body: fold_body(body, sites))
        check_folded(self._graph, sites)
        return sites

    def _in_bodies(self, simplified: Callable[[Body], Step | None]) -> bool:
        """Simplifies function bodies; returns False if nothing changed."""
        changed: set[str] = set()
        is_chosen = BODIES in self._chosen
        for result, counts, checks in in_bodies(self._graph, self._snapshot, simplified) if is_chosen else ():
            self.counts += counts
            self.lost += checks
            changed |= result.inside.keys()
            self._append(Stage(self._snapshot(), result))
        if changed:
            self.counts[BODIES] = max(self.counts[BODIES], len(changed))
            self.as_written = True
        return bool(changed)

    def _add(self, step: Step) -> None:
        """Records the changes of nodes."""
        self.steps.append(step)
        self._room -= step.growth
        self.counts += step.counts
        self.as_written |= step.as_written
        decided = {} if step.certificate is None else {"certificate": step.certificate}
        self._record(step.stage, step.intent, step.arguments, **decided)

    def _record(self, stage: str, intent: Intent, arguments: Mapping[str, object], **decided: object) -> None:
        """Records a stage that changed the graph."""
        if intent.added or intent.removed or intent.changed or intent.rewired or intent.functions.removed:
            asked = Asked(stage, {"outputs": tuple(self._ends), **arguments})
            self._append(Stage(self._snapshot(), EditResult(intent, asked=asked, decided=decided)))

    def _append(self, stage: Stage) -> None:
        self.stages.append(stage)
        self._before = None

    def _snapshot(self) -> Graph:
        """Returns the graph before the next stage; must be called before the graph changes."""
        if self._before is None:
            self._before = written(self._graph)
        return self._before

    def _kept(self) -> list[Node]:
        """Returns the nodes that must keep their names and values."""
        graph, topology = self._graph, topology_of(self._graph)
        inputs = [topology.node(number) for number in topology.with_ops(PLACEHOLDERS)]
        outputs = [graph.output(name).node for name in self._ends] or output_nodes(graph)
        return list(dict.fromkeys([*inputs, *outputs, *served_nodes(graph)]))

    # -- the result ------------------------------------------------------------------------------------------

    def result(self, was: Counter[str]) -> EditResult:
        """Returns the result of all stages; `was` is the number of nodes by op before."""
        results = [stage.result for stage in self.stages]
        intent = reduce(Intent.then, (each.intent for each in results)) if results else Intent()
        if len(results) > 1:
            intent.rewired = [slot for slot in intent.rewired if _is_read(self._graph, slot)]
        now = topology_of(self._graph).op_counts()
        counts = ", ".join(f"{name} {self.counts[name]:,}" for name in PASSES if self.counts[name])
        told = [*self.fixed, *([Entry("inlined", counted(self.inlined, "call"))] if self.inlined else [])]
        told += [Entry("passes", counts)] if counts else []
        return EditResult(
            intent,
            (self._claim(intent),),
            [*(text for each in results for text in each.warnings), *_warnings(was + self.lost, now)],
            [
                *(text for each in results for text in each.notes),
                *self._how.notes,
                *_refusals([name for step in self.steps for name in step.refusing]),
            ],
            told,
            {"passes": {**({INLINE: self.inlined} if self.inlined else {}), **self.counts}},
            stages=self.stages,
        )

    def _claim(self, intent: Intent) -> Claim:
        """Returns the claim about the outputs, and about the tensors that the proof also compares."""
        graph, original = self._graph, self._graph.pristine()
        moved = {name for step in self.steps for name in step.intent.moved if name in intent.moved}
        folded = {name for step in self.steps for name in step.folded if name in graph}
        folded -= {name for step in self.steps if step.stage == SUMS for name in step.intent.changed}  # other values
        sites = [name for name in dict.fromkeys([*sorted(folded), *sorted(moved)]) if name in original]
        if not self._ends and not self.fixed:
            idle = tuple(name for step in self.steps for name in step.idle if name in original and name not in graph)
            return SameOutputs(also=tuple(sites), deployed=True, idle=idle, as_written=self.as_written)
        outputs = [(name, intent.counterpart(name)) for name in self._ends] or unrenamed_outputs(graph)
        pairs = dict.fromkeys((*outputs, *((name, intent.counterpart(name)) for name in sites)))
        inside = tuple(name for name in sites if name not in dict(outputs))
        return SameGiven({}, tuple(pairs), equation(()), sites=inside, deployed=True, as_written=self.as_written)


def _is_read(graph: Graph, slot: Rewired) -> bool:
    """Returns whether an input still reads the tensor of an earlier stage."""
    node = graph.find(slot.node)
    return node is not None and slot.slot < len(node.inputs) and node.inputs[slot.slot].name == slot.new


def _chosen(passes: Sequence[str], skip: Sequence[str], unfit: Sequence[str]) -> list[str]:
    """Returns the passes to run, in order, without those in `unfit`. Raises UsageError if a pass is unknown."""
    for name in (*passes, *skip):
        if name not in PASSES:
            near = nearest(name, PASSES)
            there = suggestion(near) or f" The passes are {', '.join(PASSES)}."
            message = f"{quoted(name)} is not a pass.{there}"
            raise UsageError(message, code="no-such-pass", facts={"value": name, "near": near})
    return [name for name in PASSES if name in (passes or PASSES) and name not in (*skip, *unfit)]


def _nothing_left(passes: Sequence[str], skip: Sequence[str], engine: str) -> UsageError:
    """Returns the error if all passes are excluded by `skip` or the engine."""
    asked = [name for name in PASSES if name in (passes or PASSES)]
    others = ",".join(name for name in asked if name not in skip)
    skipped = ",".join(name for name in asked if name in skip)
    facts: dict[str, Json] = {"passes": asked if passes else None, "skip": skipped.split(",") if skipped else []}
    parts: list[str] = [Line("{passes} {asked}", asked=",".join(asked)) if passes else "all passes"]
    parts += [Line("{skip} {skipped}", skipped=skipped)] if skipped else []
    parts += [Line("{engine} {name}, which excludes {others},", name=engine, others=others)] if others else []
    line = Line("no pass is left: {parts} exclude all passes", parts=joined(" and ", parts))
    return UsageError(line, code="conflicting-options", facts=facts | {"engine": engine if others else None})


# -- the summary ----------------------------------------------------------------------------------------------


def _nodes_inside(graph: Graph) -> int:
    """Returns the number of nodes in functions of a standalone graph."""
    is_alone = not graph.is_body and graph.serving is None
    return sum(len(function.node_def) for function in graph.functions) if is_alone else 0


def _table(was: Counter[str], now: Counter[str]) -> list[Entry]:
    """Returns the ops with fewer or more nodes than before, the largest decrease first."""
    changed = sorted((op for op in was | now if was[op] != now[op]), key=lambda op: (now[op] - was[op], op))
    names = [f"{op} {was[op]:,} -> {now[op]:,}" for op in changed]
    return [Entry("ops", counted(len(names), "op type") if len(names) > 1 else "", names)] if names else []


def _totals(graph: Graph, was: Counter[str], now: Counter[str], inside: int) -> list[Entry]:
    """Returns the number of nodes in functions, and of a standalone graph the bytes."""
    told = [Entry("nodes", f"in functions {inside:,}  ->  {_nodes_inside(graph):,}")] if inside else []
    if not graph.is_body and graph.serving is None:
        told.append(Entry("bytes", f"{graph.source.size:,}  ->  {size_of(graph.chunks()):,}"))
    return told


def _refusals(names: Sequence[str]) -> list[Remark]:
    """Returns a note about removed Reshape nodes that fail for some inputs."""
    if not names:
        return []
    text = f"{counted(len(names), 'Reshape')} removed that would fail for some inputs ({named(names, 3)}): for these"
    text += " inputs, a constant that follows from the shape is now returned"
    return [Remark(text, "checks-removed", ops={"Reshape": len(names)}, nodes=list(names))]


def _warnings(was: Counter[str], now: Counter[str]) -> list[str]:
    """Returns a warning about removed checks."""
    lost = {op: was[op] - now[op] for op in sorted(CHECKS) if now[op] < was[op]}
    what = " and ".join(f"{count:,} {op}" for op, count in lost.items())
    text = f"{what} removed: values that they refused are now accepted"
    return [Remark(text, "checks-removed", ops=lost)] if lost else []
