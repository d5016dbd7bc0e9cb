"""simplify: removes redundant nodes; outputs stay bit-identical."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import Claim, EditResult, SameGiven, SameOutputs, Stage, equation
from gdsurgeon.edits.decorator import edit, of_nodes, of_olds, of_tensors
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.simplifying.constants import Evaluate
from gdsurgeon.edits.simplifying.engines import check_room, left_out, spelt_out
from gdsurgeon.edits.simplifying.equal_nodes import equal_nodes
from gdsurgeon.edits.simplifying.fixing import after_fixing, fixed
from gdsurgeon.edits.simplifying.folds import FOLD_BN, TOLERANCE, with_folds
from gdsurgeon.edits.simplifying.functions import after_inlining, inlined, written, written_size
from gdsurgeon.edits.simplifying.graph_view import CHECKS, GraphView, Pass
from gdsurgeon.edits.simplifying.passes import (
    by_rules,
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
from gdsurgeon.edits.simplifying.stages import (
    CONDITIONS,
    CONSTANTS,
    DROPOUT,
    SAME_SHAPE,
    SHAPES,
    How,
    Step,
    decided,
    folded,
    in_bodies,
    passed,
    passed_by,
)
from gdsurgeon.errors import Json, Line, NothingToDo, NotValidatedError, Remark, UsageError, joined, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.elements import require_numpy
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.patterns.exact import RULES
from gdsurgeon.specification.specify import Asked
from gdsurgeon.text import Entry, counted, named, nearest, suggestion

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
MOST_OPS = 12
"""The number of ops in the summary."""


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
            shapes,
            which needs no TensorFlow.
        engine: one of `gdsurgeon.edits.simplifying.engines.ENGINES`: constants store all their elements, and passes
            that
            the engine does not support are skipped; '' is TensorFlow.
        fold_bn: also fold batch norms, paddings and dilations into convolutions.
        tolerance: with `fold_bn`, the largest max |a - b| / max |a| of a tensor; a tenth of it for a fold in isolation.

    Raises:
        UsageError: a pass or engine is unknown, or no pass is left.
        EditError: a tensor does not exist, an input does not accept a shape, a node has a missing input, or constants
            are too large for a file; the graph is unchanged.
        NothingToDo: nothing can be simplified.
        NotValidatedError: `fold_bn` is given, and NumPy is not installed.
    """
    chosen, fold_bn = _asked(passes, skip, engine, has_shapes=bool(shapes), fold_bn=fold_bn)
    if fold_bn:
        require_numpy("folding batch norms")
    ends = list(dict.fromkeys(graph.output(item) for item in outputs))
    named = [end.name for end in ends]
    _check_sound(graph, engine)
    was, inside = topology_of(graph).op_counts(), _nodes_inside(graph)
    fixing = fixed(graph, pairs_of(shapes))
    start = graph.pristine() if fixing is None else written(graph)
    first = _inlined(graph, ends, chosen) if INLINE in chosen else None
    before = start if first is None else written(graph)
    work = _Work(before, graph, [graph.output(name) for name in named], chosen, Folds(evaluate, max_growth), engine)
    result = work.done(was, may_be_nothing=fold_bn)
    result = result if first is None else after_inlining(first, before, result)
    result = result if fixing is None else after_fixing(fixing, start, graph, result)
    if fold_bn:
        ends = [graph.output(name) for name in named]
        result = with_folds(graph, result, ends, _named(graph, ends), tolerance, spells_out=bool(engine))
    result.told += [*_table(was, now := topology_of(graph).op_counts()), *_totals(graph, was, now, inside)]
    return result


def _asked(
    passes: Sequence[str], skip: Sequence[str], engine: str, *, has_shapes: bool, fold_bn: bool
) -> tuple[list[str], bool]:
    """Returns the passes to run, and whether to fold. Raises UsageError if nothing is left."""
    fold_bn = fold_bn and FOLD_BN not in skip
    skip = [name for name in skip if name != FOLD_BN]
    chosen = _chosen(passes, skip, left_out(engine, has_shapes=has_shapes))
    if not chosen and not fold_bn and (passes or not engine):
        raise _nothing_left(passes, skip, engine)
    return chosen, fold_bn


def _check_sound(graph: Graph, engine: str) -> None:
    """Raises EditError if a node has a missing input, or if constants are too large for `engine`."""
    topology = topology_of(graph)
    topology.check_reads(topology.numbers())
    if engine:
        check_room(graph)


def _inlined(graph: Graph, ends: Sequence[Output], chosen: Sequence[str]) -> Stage | None:
    """Returns the stage of inlining if the file does not grow after the other passes; otherwise None."""
    named, rest = [end.name for end in ends], [name for name in chosen if name != INLINE]
    return inlined(graph, _named(graph, ends), lambda other: _after_inlining(other, named, rest))


def _after_inlining(graph: Graph, ends: Sequence[str], passes: Sequence[str]) -> None:
    """Runs the other passes on a copy of a graph, to find its size."""
    with suppress(NothingToDo):
        simplify(graph, ends, passes=passes)


class Folds(NamedTuple):
    """How constants are folded; see `simplify`."""

    evaluate: Evaluate | None
    max_growth: int


class _Work:
    """A graph that is simplified in stages.

    Attributes:
        view: of the current graph.
        stages: the stages so far.
        folded: the names of nodes that became constants.
        opened: the names of shapes that became constants with one dim of -1.
        reshapes: the consumers of `opened` shapes.
        counts: the number of removed nodes and edges by pass.
        idle: nodes whose random values are not used any more.
        as_written: whether calls were removed or changed, whose functions TensorFlow would optimize.
        lost: the number of removed checks in functions, by op.
        notes: notes for the user.
        refusing: removed Reshape nodes that fail for some inputs.
    """

    def __init__(
        self, before: Graph, graph: Graph, ends: Sequence[Output], chosen: Sequence[str], folds: Folds, engine: str
    ) -> None:
        self._before: Graph | None = before  # the graph before the next stage, if it was serialized
        self._graph, self._chosen, self._ends = graph, chosen, ends
        passes: list[Pass] = []
        rules = [name for name in chosen if name in RULES]
        for name in chosen:
            if name in rules[:1]:  # the rules of all passes are applied together
                passes.append(by_rules(rules))
            if (found := PASSES[name]) is not None:
                passes.append(found)
        self._how = How(chosen, passes, folds.evaluate if CONSTANTS in chosen else None, self._snapshot)
        self._room = folds.max_growth
        self._engine = engine
        self._refused: set[str] = set()
        self._kept = _named(graph, ends)
        self.stages: list[Stage] = []
        self.folded: dict[str, None] = {}
        self.opened: dict[str, None] = {}
        self.reshapes: list[str] = []
        self.counts: Counter[str] = Counter()
        self.idle: list[str] = []
        self.as_written = False
        self.lost: Counter[str] = Counter()
        self.notes: list[str] = []
        self.refusing: list[str] = []
        self.view = self._new_view()
        savers = fetched_by_savers(self.view)
        self._kept += [self.view.topology.node(number) for number in savers]
        for number in savers:
            self.view.kept[number] = 1

    def _new_view(self) -> GraphView:
        topology = topology_of(self._graph)
        return GraphView(self._graph, map(topology.id_of, self._kept), keeps_checks="checks" not in self._chosen)

    def done(self, was: Counter[str], *, may_be_nothing: bool) -> EditResult:
        """Runs all stages; returns the result. `was`: the number of nodes by op before."""
        self._run()
        if not self._graph.is_changed and not may_be_nothing:
            raise NothingToDo("nothing would change: no pass found anything to simplify")
        now, intent = self.view.topology.op_counts(), self.intent()
        original = self._graph.pristine()
        sites = sorted(name for name in self.folded if name in self._graph and name in original)
        sites += sorted(name for name in intent.moved if name in original)
        reshapes = (name for name in self.reshapes if name in self._graph and name in original)
        sites = list(dict.fromkeys([*sites, *sorted(reshapes)]))
        idle = tuple(name for name in self.idle if name in original and name not in self._graph)
        claim: Claim = SameOutputs(also=tuple(sites), deployed=True, idle=idle, as_written=self.as_written)
        if self._ends:
            ends = [end.name for end in self._ends]
            named = tuple((name, intent.counterpart(name)) for name in dict.fromkeys([*ends, *sites]))
            inside = tuple(name for name in sites if name not in ends)
            claim = SameGiven({}, named, equation(()), sites=inside, deployed=True, as_written=self.as_written)
        self.notes += _refusals(self.refusing)
        told = _told(self.counts)
        kinds = [stage.result.asked.edit for stage in self.stages if stage.result.asked is not None]
        stages = () if kinds == ["simplify"] else self.stages
        facts: dict[str, Json] = {"passes": dict(self.counts)}
        return EditResult(intent, (claim,), _warnings(was + self.lost, now), self.notes, told, facts, stages=stages)

    def _run(self) -> None:
        """Runs all stages, functions last."""
        while True:
            self._pass()
            self.view.renew()
            has_folded = self._fold()
            self.view.renew()
            has_less = self._same_shape() or has_folded
            if self._decide() or (not has_less and self._in_bodies()):
                self.view = self._new_view()
            elif has_less:
                self.view.renew()
            else:
                break
        if self._engine:
            self._snapshot()
            self._done(spelt_out(self._graph), self._asked("spelt_constants"))
            self.view = self._new_view()
        if FUNCTIONS in self._chosen:
            self.counts[FUNCTIONS] = 0
        if FUNCTIONS in self._chosen and len(self._graph.functions):
            self._snapshot()
            intent = Intent()
            intent.functions.removed = drop_unused_functions(self._graph)
            self.counts[FUNCTIONS] = len(intent.functions.removed)
            self._done(intent, self._asked("simplify", passes=tuple(self._chosen)))

    def _asked(self, stage: str, **arguments: object) -> Asked:
        return Asked(stage, {"outputs": tuple(end.name for end in self._ends), **arguments})

    def _root(self) -> None:
        view = self.view
        view.roots = [number for number, flag in enumerate(view.kept) if flag]
        view.roots += initialising(view) if self._ends else lasting(view)

    def _pass(self) -> None:
        """Runs the passes until no pass changes anything."""
        self._root()
        self._add(passed(self.view, self._how))

    def _fold(self) -> bool:
        """Folds constants; returns False if nothing is constant."""
        if self._graph.is_body:
            return False
        try:
            found = folded(self.view, self._how, self._room, self._refused)
        except NotValidatedError as error:
            self._give_up(error)
            return self._fold()
        if found is None:
            return False
        self._room -= found.growth
        self.reshapes += found.reshapes
        (self.opened if found.reshapes else self.folded).update(dict.fromkeys(found.intent.changed))
        self._add(found)
        return True

    def _same_shape(self) -> bool:
        """Removes nodes that return their input, given known shapes; returns False if no such node exists."""
        self._root()
        found = None if self._graph.is_body else passed_by(self.view, self._how)
        if found is None:
            return False
        self.idle += found.idle
        self._add(found)
        return True

    def _decide(self) -> bool:
        """Makes conditionals with constant conditions calls, and inlines them; returns False if no such node exists."""
        found = None if self._graph.is_body else decided(self.view, self._how)
        if found is None:
            return False
        self._add(found)
        names, ends = [node.name for node in self._kept], [end.name for end in self._ends]
        if INLINE in self._chosen:
            rest = [name for name in self._chosen if name != INLINE]
            stage = inlined(self._graph, self._kept, lambda other: _after_inlining(other, ends, rest))
            if stage is not None:
                self.stages.append(stage)
                self._before = None
                self._kept = [self._graph[name] for name in names]
                self._ends = [self._graph.output(name) for name in ends]
        return True

    def _in_bodies(self) -> bool:
        """Simplifies function bodies; returns False if nothing changed."""
        if BODIES not in self._chosen:
            return False
        changed: set[str] = set()
        is_able = True
        try:
            for done in in_bodies(self._graph, self._how):
                self.counts += done.counts
                self.lost += done.checks
                changed |= done.result.inside.keys()
                self.stages.append(Stage(self._snapshot(), done.result))
                self._before = None
        except NotValidatedError as error:
            self._give_up(error)
            is_able = False
        if changed:
            self.counts[BODIES] = max(self.counts[BODIES], len(changed))
            self.as_written = True
        return bool(changed) or (not is_able and self._in_bodies())

    def _give_up(self, error: NotValidatedError) -> None:
        """Records that values cannot be computed."""
        self.notes.append(Remark(f"{error.message}; these nodes are kept", "not-computed", reason=error.code))
        self._how.evaluate = None

    def _add(self, found: Step) -> None:
        """Records a stage."""
        self.counts += found.counts
        self.as_written = self.as_written or found.as_written
        self.refusing += found.refusing
        self._done(found.intent, self._asked(found.stage, **found.arguments))

    def _done(self, intent: Intent, asked: Asked) -> None:
        if intent.removed or intent.changed or intent.rewired or intent.functions.removed:
            self.stages.append(Stage(self._snapshot(), EditResult(intent, asked=asked)))
            self._before = None

    def _snapshot(self) -> Graph:
        """Returns the graph before the next stage; must be called before the graph changes."""
        if self._before is None:
            self._before = written(self._graph)
        return self._before

    def intent(self) -> Intent:
        """Returns the changes of all stages."""
        if len(self.stages) == 1:
            return self.stages[0].result.intent
        out = Intent()
        for stage in self.stages:
            out = out.then(stage.result.intent)
        out.rewired = [slot for slot in out.rewired if slot.node not in self.folded and slot.node not in self.opened]
        return out


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


def _named(graph: Graph, ends: Sequence[Output]) -> list[Node]:
    """Returns the nodes that must keep their names and values."""
    topology = topology_of(graph)
    inputs = [topology.node(number) for number in topology.with_ops(PLACEHOLDERS)]
    outputs = [end.node for end in ends] or output_nodes(graph)
    return list(dict.fromkeys([*inputs, *outputs, *served_nodes(graph)]))


# -- the summary ----------------------------------------------------------------------------------------------


def _nodes_inside(graph: Graph) -> int:
    """Returns the number of nodes in functions of a standalone graph."""
    is_alone = not graph.is_body and graph.serving is None
    return sum(len(function.node_def) for function in graph.functions) if is_alone else 0


def _told(found: Counter[str]) -> list[Entry]:
    counts = [f"{name} {found[name]:,}" for name in PASSES if found[name]]
    return [Entry("passes", ", ".join(counts))] if counts else []


def _table(was: Counter[str], now: Counter[str]) -> list[Entry]:
    """Returns the ops with fewer or more nodes than before, the largest decrease first."""
    changed = sorted((op for op in was | now if was[op] != now[op]), key=lambda op: (now[op] - was[op], op))
    names = [f"{op} {was[op]:,} -> {now[op]:,}" for op in changed]
    return [Entry("ops", counted(len(names), "op type") if len(names) > 1 else "", names)] if names else []


def _totals(graph: Graph, was: Counter[str], now: Counter[str], inside: int) -> list[Entry]:
    """Returns the number of nodes in functions, and of a standalone graph the bytes."""
    told = [Entry("nodes", f"in functions {inside:,}  ->  {_nodes_inside(graph):,}")] if inside else []
    if not graph.is_body and graph.serving is None:
        told.append(Entry("bytes", f"{graph.source.size:,}  ->  {written_size(graph):,}"))
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
