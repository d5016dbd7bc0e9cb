"""simplify: a smaller graph that gives the same, bit for bit."""

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
from gdsurgeon.edits.simplifying.bodies import in_bodies
from gdsurgeon.edits.simplifying.conditions import conditions
from gdsurgeon.edits.simplifying.control_edges import control_edges
from gdsurgeon.edits.simplifying.draft import CHECKS, Draft, Pass
from gdsurgeon.edits.simplifying.engines import check_room, left_out, spelt_out
from gdsurgeon.edits.simplifying.equal_nodes import equal_nodes
from gdsurgeon.edits.simplifying.fixing import after_fixing, fixed
from gdsurgeon.edits.simplifying.folding import Evaluate
from gdsurgeon.edits.simplifying.folds import FOLD_BN, TOLERANCE, Folded, with_folds
from gdsurgeon.edits.simplifying.identities import checks, identities, stop_gradients
from gdsurgeon.edits.simplifying.inlining import after_inlining, inlined, written, written_size
from gdsurgeon.edits.simplifying.neutral import neutral
from gdsurgeon.edits.simplifying.pairs import pairs
from gdsurgeon.edits.simplifying.roots import fetched_by_savers, initialising, lasting, served_nodes
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
    passed,
    passed_by,
)
from gdsurgeon.edits.simplifying.unread import unread
from gdsurgeon.errors import Json, Line, NothingToDo, NotValidatedError, Remark, UsageError, joined, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.elements import require_numpy
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.asked import Asked
from gdsurgeon.text import Entry, counted, named, nearest, suggestion

FUNCTIONS = "functions"
"""The pass that takes functions out of the library which nobody calls; it comes last."""
INLINE = "inline"
"""The pass that comes first, and once: what it leaves are calls that stay."""
BODIES = "bodies"
"""The pass that has the others go over the functions of calls that stay."""
PASSES: dict[str, Pass | None] = {
    INLINE: None,
    "unread": unread,
    "control-edges": control_edges,
    CONDITIONS: conditions,
    "checks": checks,
    "stop-gradients": stop_gradients,
    "identities": identities,
    "neutral": neutral,
    "pairs": pairs,
    "equal-nodes": equal_nodes,
    SAME_SHAPE: None,
    DROPOUT: None,
    SHAPES: None,
    CONSTANTS: None,
    BODIES: None,
    FUNCTIONS: None,
}
"""What is done, in this order, again and again; what is constant then, and functions, come after the rest."""
MOST_OPS = 12
"""Ops of which it is told how many nodes there were and are."""


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
    """Makes a graph smaller, until nothing is left to be done. What it gives stays the same, bit for bit.

    With FOLD_BN it stays the same but for rounding.

    Inputs and outputs keep their names, and so does what a model's signatures and savers name. What lasts (an
    assignment, a print) stays, but for what no output needs where OUTPUTS are given.

    Args:
        graph: changed in place.
        outputs: tensors that it is there for; by default what nobody reads, or what a model's signatures give.
        passes: what is to be done, some of `PASSES`; all by default.
        skip: what is not to be done; `fold-bn` among these is FOLD_BN taken back.
        shapes: (input, the only shape that it is to take from now on): what follows from it is constant, too.
        max_growth: bytes that constants may take beyond those of what they are computed of.
        evaluate: computes what depends on constants alone, a `gds.Evaluator`; None: of that only arithmetic on shapes
            is folded, which takes no TensorFlow.
        engine: one of `gdsurgeon.edits.simplifying.engines.ENGINES` for which constants are spelt out, and what it
            would not understand is left; '' is TensorFlow.
        fold_bn: fold batch norms, paddings and gaps into convolutions, too.
        tolerance: with `fold_bn`, the largest |a - b| of a tensor may be this part of its largest |a|; a tenth of that
            for a fold in isolation.

    Raises:
        UsageError: there is no such pass or engine, or no pass is left to be done.
        EditError: there is no such tensor, an input does not take the shape that it is to have, a node reads what is
            not there, or constants spelt out are more than a file holds; the graph is as it was.
        NothingToDo: there is nothing to be made simpler.
        NotValidatedError: `fold_bn` is given, and NumPy is not installed.
    """
    chosen, fold_bn = _asked(passes, skip, engine, has_shapes=bool(shapes), fold_bn=fold_bn)
    if fold_bn:
        require_numpy("folding batch norms")
    ends = list(dict.fromkeys(graph.output(item) for item in outputs))
    named = [end.name for end in ends]
    _check_sound(graph, engine)
    was, inside = _ops_of(graph), _nodes_inside(graph)
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
        result = with_folds(graph, result, ends, Folded(_named(graph, ends), tolerance, spells_out=bool(engine)))
    result.told += [*_table(was, now := _ops_of(graph)), *_totals(graph, was, now, inside)]
    return result


def _asked(
    passes: Sequence[str], skip: Sequence[str], engine: str, *, has_shapes: bool, fold_bn: bool
) -> tuple[list[str], bool]:
    """The passes that are to be done, and whether folds are. Raises UsageError where nothing is."""
    fold_bn = fold_bn and FOLD_BN not in skip
    skip = [name for name in skip if name != FOLD_BN]
    chosen = _chosen(passes, skip, left_out(engine, has_shapes=has_shapes))
    if not chosen and not fold_bn and (passes or not engine):
        raise _nothing_left(passes, skip, engine)
    return chosen, fold_bn


def _check_sound(graph: Graph, engine: str) -> None:
    """Raises EditError where a node reads what is not there, or constants spelt out for ENGINE are too large."""
    topology = topology_of(graph)
    topology.check_reads(topology.numbers())
    if engine:
        check_room(graph)


def _inlined(graph: Graph, ends: Sequence[Output], chosen: Sequence[str]) -> Stage | None:
    """What was inlined, where the file is not larger for it after the other CHOSEN passes; None: nothing."""
    named, rest = [end.name for end in ends], [name for name in chosen if name != INLINE]
    return inlined(graph, _named(graph, ends), lambda other: _after_inlining(other, named, rest))


def _after_inlining(graph: Graph, ends: Sequence[str], passes: Sequence[str]) -> None:
    """Has the other passes done on a copy of a graph, to see what it comes to."""
    with suppress(NothingToDo):
        simplify(graph, ends, passes=passes)


class Folds(NamedTuple):
    """How constants are folded; see `simplify`."""

    evaluate: Evaluate | None
    max_growth: int


class _Work:
    """A graph that is made simpler, in stages: passes on a draft of it, what is constant then, and so on.

    Attributes:
        draft: of the graph as it is now.
        stages: what has been done, in order.
        folded: the names of nodes that are constants now.
        opened: those of shapes that are constants now, in which one dim follows from the rest.
        reshapes: those of the nodes that read these.
        counts: the nodes and edges that went, by the pass that took them.
        idle: nodes of which it does not matter what they draw.
        as_written: whether calls have gone or call others, which TensorFlow optimises by themselves.
        lost: the checks that went in bodies of functions, by their ops.
        notes: what somebody should know.
        refusing: Reshapes that went, and that some inputs did not pass.
    """

    def __init__(
        self, before: Graph, graph: Graph, ends: Sequence[Output], chosen: Sequence[str], folds: Folds, engine: str
    ) -> None:
        self._before, self._graph, self._chosen, self._ends = before, graph, chosen, ends
        passes = {name: found for name in chosen if (found := PASSES[name]) is not None}
        self._how = How(chosen, passes, folds.evaluate if CONSTANTS in chosen else None)
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
        self.draft = self._new_draft()
        savers = fetched_by_savers(self.draft)
        self._kept += [self.draft.topology.node(number) for number in savers]
        for number in savers:
            self.draft.kept[number] = 1

    def _new_draft(self) -> Draft:
        topology = topology_of(self._graph)
        return Draft(self._graph, map(topology.id_of, self._kept), keeps_checks="checks" not in self._chosen)

    def done(self, was: Counter[str], *, may_be_nothing: bool) -> EditResult:
        """What has been done, once all is. WAS: how many nodes there were of each op."""
        self._run()
        if not self._graph.is_changed and not may_be_nothing:
            raise NothingToDo("nothing would change: no pass found anything to simplify")
        now, intent = _ops(self.draft), self.intent()
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
        """Does all that is to be done, functions last."""
        while True:
            self._pass()
            self.draft.renew()
            has_folded = self._fold()
            self.draft.renew()
            has_less = self._same_shape() or has_folded
            if self._decide() or (not has_less and self._in_bodies()):
                self.draft = self._new_draft()
            elif has_less:
                self.draft.renew()
            else:
                break
        if self._engine:
            self._done(spelt_out(self._graph), self._asked("spelt_constants"))
            self.draft = self._new_draft()
        if FUNCTIONS in self._chosen:
            intent = Intent()
            intent.functions.removed = drop_unused_functions(self._graph)
            self.counts[FUNCTIONS] = len(intent.functions.removed)
            self._done(intent, self._asked("simplify", passes=tuple(self._chosen)))

    def _asked(self, stage: str, **arguments: object) -> Asked:
        return Asked(stage, {"outputs": tuple(end.name for end in self._ends), **arguments})

    def _root(self) -> None:
        draft = self.draft
        draft.roots = [number for number, flag in enumerate(draft.kept) if flag]
        draft.roots += initialising(draft) if self._ends else lasting(draft)

    def _pass(self) -> None:
        """Runs the passes, until none of them finds anything."""
        self._root()
        self._add(passed(self.draft, self._how))

    def _fold(self) -> bool:
        """Folds what is constant; False where nothing is."""
        if self._graph.is_body:
            return False
        try:
            found = folded(self.draft, self._how, self._room, self._refused)
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
        """Takes away what changes no shape, and drops nothing; False where nothing is such."""
        self._root()
        found = None if self._graph.is_body else passed_by(self.draft, self._how)
        if found is None:
            return False
        self.idle += found.idle
        self._add(found)
        return True

    def _decide(self) -> bool:
        """Has calls that choose by a constant be plain ones, and inlines these; False where there are none."""
        found = None if self._graph.is_body else decided(self.draft, self._how)
        if found is None:
            return False
        self._add(found)
        names, ends = [node.name for node in self._kept], [end.name for end in self._ends]
        if INLINE in self._chosen:
            rest = [name for name in self._chosen if name != INLINE]
            stage = inlined(self._graph, self._kept, lambda other: _after_inlining(other, ends, rest))
            if stage is not None:
                self.stages.append(stage)
                self._before = written(self._graph)
                self._kept = [self._graph[name] for name in names]
                self._ends = [self._graph.output(name) for name in ends]
        return True

    def _in_bodies(self) -> bool:
        """Has the passes go over the bodies of functions; False where they find nothing."""
        if BODIES not in self._chosen:
            return False
        changed: set[str] = set()
        is_able = True
        try:
            for done in in_bodies(self._graph, self._how):
                self.counts += done.counts
                self.lost += done.checks
                changed |= done.result.inside.keys()
                self.stages.append(Stage(self._before, done.result))
                self._before = written(self._graph)
        except NotValidatedError as error:
            self._give_up(error)
            is_able = False
        if changed:
            self.counts[BODIES] = max(self.counts[BODIES], len(changed))
            self.as_written = True
        return bool(changed) or (not is_able and self._in_bodies())

    def _give_up(self, error: NotValidatedError) -> None:
        """Notes that constants cannot be computed."""
        self.notes.append(Remark(f"{error.message}; these nodes are kept", "not-computed", reason=error.code))
        self._how = How(self._how.chosen, self._how.passes, None)

    def _add(self, found: Step) -> None:
        """Notes what was done in one go."""
        self.counts += found.counts
        self.as_written = self.as_written or found.as_written
        self.refusing += found.refusing
        self._done(found.intent, self._asked(found.stage, **found.arguments))

    def _done(self, intent: Intent, asked: Asked) -> None:
        if intent.removed or intent.changed or intent.rewired or intent.functions.removed:
            self.stages.append(Stage(self._before, EditResult(intent, asked=asked)))
            self._before = written(self._graph)

    def intent(self) -> Intent:
        """What all stages come to."""
        if len(self.stages) == 1:
            return self.stages[0].result.intent
        out = Intent()
        for stage in self.stages:
            out = out.then(stage.result.intent)
        out.rewired = [slot for slot in out.rewired if slot.node not in self.folded and slot.node not in self.opened]
        return out


def _chosen(passes: Sequence[str], skip: Sequence[str], unfit: Sequence[str]) -> list[str]:
    """The passes that are done, in their order, without those that are UNFIT. Raises UsageError: there is no such."""
    for name in (*passes, *skip):
        if name not in PASSES:
            near = nearest(name, PASSES)
            there = suggestion(near) or f" The passes are {', '.join(PASSES)}."
            message = f"{quoted(name)} is not a pass.{there}"
            raise UsageError(message, code="no-such-pass", facts={"value": name, "near": near})
    return [name for name in PASSES if name in (passes or PASSES) and name not in (*skip, *unfit)]


def _nothing_left(passes: Sequence[str], skip: Sequence[str], engine: str) -> UsageError:
    """The error for PASSES (all, where there are none) all of which are left out: by SKIP, or for an ENGINE."""
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
    """The nodes whose names stay, with what they give."""
    topology = topology_of(graph)
    inputs = [topology.node(number) for number in topology.with_ops(PLACEHOLDERS)]
    outputs = [end.node for end in ends] or output_nodes(graph)
    return list(dict.fromkeys([*inputs, *outputs, *served_nodes(graph)]))


# -- what is told ---------------------------------------------------------------------------------------------


def _ops_of(graph: Graph) -> Counter[str]:
    topology = topology_of(graph)
    return Counter(map(topology.op, topology.numbers()))


def _nodes_inside(graph: Graph) -> int:
    """The nodes of the functions of a graph that is no function itself, and no part of a model."""
    is_alone = not graph.is_body and graph.serving is None
    return sum(len(function.node_def) for function in graph.functions) if is_alone else 0


def _ops(draft: Draft) -> Counter[str]:
    return Counter(draft.topology.op(number) for number in draft.topology.numbers() if not draft.gone[number])


def _told(found: Counter[str]) -> list[Entry]:
    counts = [f"{name} {found[name]:,}" for name in PASSES if found[name]]
    return [Entry("passes", ", ".join(counts))] if counts else []


def _table(was: Counter[str], now: Counter[str]) -> list[Entry]:
    """The ops of which the graph has fewer nodes than before, or more; the largest decrease first."""
    changed = sorted((op for op in was | now if was[op] != now[op]), key=lambda op: (now[op] - was[op], op))
    names = [f"{op} {was[op]:,} -> {now[op]:,}" for op in changed]
    return [Entry("ops", counted(len(names), "op type") if len(names) > 1 else "", names)] if names else []


def _totals(graph: Graph, was: Counter[str], now: Counter[str], inside: int) -> list[Entry]:
    """Nodes, those of functions (INSIDE, before), and bytes; these not of a model, of which the graph is a part."""
    told = [Entry("nodes", f"in functions {inside:,}  ->  {_nodes_inside(graph):,}")] if inside else []
    if not graph.is_body and graph.serving is None:
        told.append(Entry("bytes", f"{graph.source.size:,}  ->  {written_size(graph):,}"))
    return told


def _refusals(names: Sequence[str]) -> list[Remark]:
    """That the Reshapes NAMES are gone, which some inputs did not pass."""
    if not names:
        return []
    text = f"{counted(len(names), 'Reshape')} removed that would fail for some inputs ({named(names, 3)}): for these"
    text += " inputs, a constant that follows from the shape is now returned"
    return [Remark(text, "checks-removed", ops={"Reshape": len(names)}, nodes=list(names))]


def _warnings(was: Counter[str], now: Counter[str]) -> list[str]:
    """That checks are gone."""
    lost = {op: was[op] - now[op] for op in sorted(CHECKS) if now[op] < was[op]}
    what = " and ".join(f"{count:,} {op}" for op, count in lost.items())
    text = f"{what} removed: values that they refused are now accepted"
    return [Remark(text, "checks-removed", ops=lost)] if lost else []
