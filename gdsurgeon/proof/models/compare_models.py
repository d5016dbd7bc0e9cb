"""The comparison of two models from two files: paired by name, run on the same feeds, output by output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.edits.claims import Postprocessed, Preprocessed
from gdsurgeon.errors import UsageError, ValidationError, printable, quoted
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.input_spec import InputSpec, description, input_spec, make_feed, overridden
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, near_miss, parse_tensor
from gdsurgeon.ops import dtypes
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.claims.composed import POST, PRE, ComposedProof
from gdsurgeon.proof.comparing import ORIGINAL
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.models.divergence import End, Reference, Search
from gdsurgeon.proof.models.recording import Recording
from gdsurgeon.proof.plan import Plan, Skipped, make_plan
from gdsurgeon.proof.proof import OutputProof, Proof, describe_tensor
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.protocol import RunSummary
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.text import first_lines

OPTIMIZED_TOLERANCE = 1e-4
"""By how much floats may differ by default, relatively or absolutely, where TensorFlow has optimised the graphs.

It merges and reorders arithmetic, and does so by what stands around it: two graphs that give the same bits as they are
written need not do so then.
"""
HOW_TO_PAIR = "--map OLD=NEW pairs names, --outputs NAME,... says what is compared"


class ModelsProof(ComposedProof):
    """``other(x) = model(x)``, perhaps with a graph before and behind the model; whatever has no partner fails.

    Args:
        executor: is loading the model as the original and the other one as the edited graph.
        change: the two; its journal says which names of the one are which of the other.
        overrides: what the user says of feeds, by the names of either.
        outputs: tensors of the model to compare; none: the outputs of both.
        rtol, atol: by how much floats may differ.
        front, back: what stands before and behind the model.
        judged: whether a difference is a failure; else it is only reported.
        recording: is told of each sample.
    """

    def __init__(
        self,
        executor: Executor,
        change: Change,
        overrides: Overrides,
        *,
        outputs: Sequence[str] = (),
        rtol: float = 0.0,
        atol: float = 0.0,
        front: Preprocessed | None = None,
        back: Postprocessed | None = None,
        judged: bool = True,
        recording: Recording | None = None,
    ) -> None:
        self.wanted = tuple(outputs)
        self.recording = recording
        self.judged = judged
        self.extra: list[InputSpec] = []
        super().__init__(executor, change, overrides, front, back)
        self.proof.rtol, self.proof.atol = rtol, atol
        inner = f"{_stem(change.before)}({'pre(x)' if front is not None else 'x'})"
        self.proof.statement = f"{_stem(change.after)}(x) = " + (f"post({inner})" if back is not None else inner)
        self._pair_inputs(overrides)

    def again(self) -> Proof:
        """Runs the same once more on the graphs that are loaded now, which TensorFlow optimises.

        Raises:
            ValidationError, NotValidatedError: see `run`.
        """
        first = self.proof
        given = first.rtol or first.atol
        rtol, atol = (first.rtol, first.atol) if given else (OPTIMIZED_TOLERANCE, OPTIMIZED_TOLERANCE)
        self.proof = Proof("run", statement=first.statement, rtol=rtol, atol=atol, optimized=True)
        self.recording = None
        return self.run()

    # -- pairing ------------------------------------------------------------------------------------------------

    def checked(self, overrides: Overrides) -> Overrides:
        known = [node.name for node in input_nodes(self.original_graph)]
        theirs = [node.name for node in input_nodes(self.graph)]
        before = {new: old for old, new in self.journal.renamed.items()}
        after = {name: before[name] for name in theirs if name in before and name not in known}
        overrides = overrides.renamed(after)
        check_names(overrides, [*known, *(name for name in theirs if name not in after)])
        return overrides.only(known)

    def subject(self) -> Subject:
        tensors = self._tensors()
        nodes = [parse_tensor(tensor).node for tensor in tensors]
        deciding = self.deciding(nodes) if not self.wanted else []
        subject = Subject(
            self.executor,
            ORIGINAL,
            self.original_graph,
            outputs=list(dict.fromkeys([*nodes, *(i.name for i in self.served), *deciding])),
            overrides=self.overrides,
            bound=frozenset(i.name for i in self.taken),
            undrawable=frozenset(name for name in self._draws() if self.after(name) not in self.graph),
        )
        barred = self.barred(subject.plan.fetches)
        subject.plan.skipped += [Skipped(name, reason) for name, reason in barred.items()]
        groups = [[name for name in names if name not in barred] for names in subject.plan.groups]
        if self.wanted:
            asked = {*tensors, *(i.name for i in self.served)}
            groups = [[name for name in names if name in asked] for names in groups]
        subject.plan.groups = [names for names in groups if names]
        return subject

    def _draws(self) -> list[str]:
        return [parse_tensor(name).node for name in make_plan(self.original_graph).draws]

    def _tensors(self) -> list[str]:
        """What is compared, by the names in the model; a node stands for all of its outputs."""
        if self.wanted:
            for name in self.wanted:
                self.original_graph.tensor(name)
                ref = parse_tensor(self.after(name.removesuffix(":0")))
                if ref.node not in self.graph:
                    raise ValidationError(
                        f"{self.change.called} has no {quoted(ref.node)}.{near_miss(ref.node, self.graph.names())}",
                        hint=HOW_TO_PAIR,
                    )
            return [name.removesuffix(":0") for name in self.wanted]
        mine = [node.name for node in output_nodes(self.original_graph)]
        theirs = [node.name for node in output_nodes(self.graph)]
        pairs = (*self.journal.renamed.items(), *self.journal.moved.items())
        before = {parse_tensor(new).node: old for old, new in pairs}
        inside = [name for other in theirs if (name := before.get(other, other)) in self.original_graph]
        gone = [name for name in mine if parse_tensor(self.after(name)).node not in self.graph]
        lonely = [f"{self.change.name} gives {quoted(name)}" for name in gone]
        lonely += [
            f"{printable(self.graph.source_name)} gives {quoted(n)}"
            for n in theirs
            if before.get(n, n) not in self.original_graph and n not in {i.name for i in self.served}
        ]
        if lonely:
            raise ValidationError(
                f"{len(lonely)} output{'s have' if len(lonely) > 1 else ' has'} no partner in the other model:",
                details=first_lines(lonely, 20),
                hint=HOW_TO_PAIR,
            )
        return list(dict.fromkeys([*mine, *(parse_tensor(name).node for name in inside)]))

    def _pair_inputs(self, overrides: Overrides) -> None:
        """Sees to it that both take the same inputs, in shapes that both take."""
        mine = self.original.specs + (self.pre.specs if self.pre is not None else [])
        fed = {self.after(spec.name): spec for spec in self.original.specs}
        fed |= {self.after(i.name): _named(mine, i.part_input) for i in self.taken}
        variables = {self.after(variable.name) for variable in self.original.variables}
        plan = self._other_plan()
        back = {self.after(name): name for name in self.original.plan.fetches}
        chance = f"random: {', '.join(plan.random_ops[:3])}"
        self.incomparable |= {back[name]: chance for name in plan.random if name in back}
        lonely: list[str] = []
        for name in plan.placeholders:
            spec = overridden(input_spec(self.graph, self.graph[name]), overrides)
            if name not in fed and spec.given:
                self.extra.append(spec)
            elif name not in fed:
                lonely.append(name)
            else:
                self._fit(fed[name], spec)
        if self.extra:
            self.original.hold_batch()  # what one of them alone is given is of one batch
        lonely += [name for name in plan.variables if name not in variables]
        if lonely:
            names = ", ".join(map(quoted, lonely[:8]))
            raise ValidationError(
                f"{self.change.called} takes {names}, which {self.change.name} does not",
                hint="--map OLD=NEW pairs names, --feed NAME=VALUE gives a value to one of the two alone",
            )
        self.alone = {name for name in fed if name not in plan.placeholders and name not in self.graph}
        given = {spec.name for spec in self.original.specs if spec.given}
        unfed = [s.name for n, s in fed.items() if n in self.alone and s.name not in given]
        if unfed:
            raise ValidationError(
                f"{self.change.name} takes {', '.join(map(quoted, unfed[:8]))}, which {self.change.called} does not",
                hint="--map OLD=NEW pairs names, --feed NAME=VALUE gives a value to one of the two alone",
            )

    def _other_plan(self) -> Plan:
        """What the other model needs for what is compared; its own random ops are not drawn for both."""
        nodes = dict.fromkeys(parse_tensor(self.after(name)).node for name in self.original.plan.fetches)
        drawn = {parse_tensor(self.after(name)).node for name in self.original.plan.draws}

        def plan(undrawable: frozenset[str]) -> Plan:
            return make_plan(
                self.graph,
                allow_ops=self.executor.settings.allow_ops,
                custom_ops=bool(self.executor.settings.op_libraries),
                outputs=[name for name in nodes if name in self.graph],
                undrawable=undrawable,
            )

        own = frozenset(node for name in plan(frozenset()).draws if (node := parse_tensor(name).node) not in drawn)
        return plan(own)

    def _fit(self, mine: InputSpec, theirs: InputSpec) -> None:
        """Has the input be made in shapes that the other model takes too."""
        names = f"{quoted(mine.name)} of {self.change.name}", f"{quoted(theirs.name)} of {self.change.called}"
        if mine.dtype != theirs.dtype:
            raise ValidationError(
                f"{names[0]} is {dtypes.dtype_name(mine.dtype)}, and {names[1]} is {dtypes.dtype_name(theirs.dtype)}",
                hint="--pre PRE.pb names a graph that makes the one of the other",
            )
        shapes = [s for s in mine.shapes if compatible(s, theirs.stated)]
        shapes = shapes or [s for s in theirs.shapes if compatible(s, mine.stated)]
        if not shapes:
            raise ValidationError(f"{names[0]} and {names[1]} take no common shape")
        stated = mine.stated
        if stated is not None and theirs.stated is not None:
            stated = tuple(max(a, b) for a, b in zip(stated, theirs.stated, strict=True))
        fitted = mine._replace(shapes=tuple(shapes), stated=stated if stated is not None else theirs.stated)
        for subject in (self.original, self.pre):
            if subject is not None:
                subject.specs = [fitted if spec is mine else spec for spec in subject.specs]

    # -- running ------------------------------------------------------------------------------------------------

    def bound(self, sample: int) -> tuple[Feeds, Feeds]:
        to_original, to_edited = super().bound(sample)
        for spec in self.extra:
            feed = make_feed(spec, spec.given[0].shape, self.executor.settings.seed, sample=sample)
            to_edited[spec.name] = self.executor.encoded(feed)
        return to_original, to_edited

    def described(self, feeds: Feeds, edited_feeds: Feeds) -> dict[str, str]:
        extra = {s.name: describe_tensor(v) for s in self.extra if isinstance(v := edited_feeds[s.name], Tensor)}
        return super().described(feeds, edited_feeds) | extra

    def made(self) -> dict[str, str]:
        return super().made() | {spec.name: description(spec) for spec in self.extra}

    def shared(self, feeds: Feeds, to_original: Feeds) -> Feeds:
        fed = super().shared(feeds, to_original)
        return {name: value for name, value in fed.items() if parse_tensor(name).node not in self.alone}

    def compared(self, sample: int, summaries: list[RunSummary]) -> list[OutputProof]:
        """Of what stands behind POST only what is served has a partner."""
        raw = {i.name for i in self.served}
        outputs = [o for o in super().compared(sample, summaries) if o.before not in raw]
        if self.recording is not None:
            fed = self.fed[1] if self.pre is not None else self.fed[0]
            self.recording.note(self.executor, sample, fed, self.original)
        return outputs

    def excuse(self, wrong: list[OutputProof], spread: Mapping[str, float]) -> None:
        if self.judged:
            super().excuse(wrong, spread)

    def judge(self, outputs: list[OutputProof], sample: int) -> bool:
        return self.judged and super().judge(outputs, sample)

    # -- what is to blame ---------------------------------------------------------------------------------------

    def search(self) -> Search:
        """The search for what is to blame for the first sample that differed; its values are still there."""
        assert self.failure is not None
        to_model, to_other = self.failure.fed
        back = {theirs: mine for mine, theirs in self.journal.renamed.items()}
        moved = {theirs: mine for mine, theirs in self.journal.moved.items()}
        served = {i.name: i.part_result for i in self.served}

        def of_model(tensor: str) -> str | None:
            ref = parse_tensor(tensor)
            if ref.node in served:
                return None
            return moved.get(tensor) or format_input(back.get(ref.node, ref.node), ref.port)

        taken = {i.name: i.part_result for i in self.taken}
        references = [
            Reference(
                ORIGINAL,
                self.original_graph,
                to_model,
                of_model,
                lambda tensor: taken.get(tensor) or self.after(tensor),
            )
        ]
        for part, fed in ((self.pre, self.part_feeds.get(PRE)), (self.post, self.part_feeds.get(POST))):
            if part is not None and fed is not None:
                results = served if part is self.post else {}
                names = {i.part_input: i.name for i in (self.served if part is self.post else self.taken)}
                references.append(
                    Reference(
                        part.key,
                        part.graph,
                        fed,
                        partial(_renamed, results),
                        partial(_renamed, names),
                    )
                )
        wrong = self.differing(self.failure.outputs)
        ends = [End(o.before, o.after, o.comparison) for o in wrong if o.comparison is not None]
        return Search(
            self.executor, self.change, references, to_other, ends, rtol=self.proof.rtol, atol=self.proof.atol
        )


def _named(specs: Sequence[InputSpec], name: str) -> InputSpec:
    found = next((spec for spec in specs if spec.name == name), None)
    if found is None:
        raise UsageError(f"the graph in front has no input {quoted(name)}")
    return found


def _renamed(names: Mapping[str, str], tensor: str) -> str:
    return names.get(tensor, tensor)


def _stem(graph: Graph) -> str:
    """A short name for a graph, in an equation."""
    import os

    return printable(os.path.splitext(os.path.basename(graph.source_name))[0]) or "model"
