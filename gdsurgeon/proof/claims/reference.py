"""The proof of an edit that substitutes values: a graph that was not edited is run on what the edited one has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.traversal.decisions import deciding_nodes
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.claims import SameGiven, SamePart
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, UsageError, ValidationError, printable, quoted
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.comparing import (
    DO_WITHOUT,
    EDITED,
    ORIGINAL,
    Comparing,
    await_loaded,
    edited_result,
    initialize,
    nothing_to_run,
    show_values,
    warn_of_variables,
)
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.proof import OutputProof, Proof
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.protocol import Result, RunSummary
from gdsurgeon.runtime.tensor import reversed_elements

PART = "part"


class Reference(NamedTuple):
    """The graph that the edited one is compared with, and how.

    Attributes:
        key: its name in the executor.
        graph: as it is in its file.
        given: for tensors of it, the tensors of the edited graph whose values they are fed.
        outputs: pairs of tensors (of it, of the edited graph) that are equal then.
        copies: what its nodes are called in the edited graph, where that is not their own name.
        statement: the claim as an equation.
        constants: the values (serialised AttrValues) that constants of the edited graph have.
        beside: tensors of the edited graph that are run together with the others, and not compared.
        deciding: pairs as in `outputs` by which outputs are decided: compared where that can be done.
    """

    key: str
    graph: Graph
    given: Mapping[str, str]
    outputs: tuple[tuple[str, str], ...]
    copies: Mapping[str, str]
    statement: str
    beside: tuple[str, ...] = ()
    constants: Mapping[str, bytes] = MappingProxyType({})
    deciding: tuple[tuple[str, str], ...] = ()


def original_reference(change: Change, claim: SameGiven) -> Reference:
    """The original graph as CLAIM has it."""
    copies = {**change.journal.renamed, **claim.copies}
    outputs = claim.outputs if claim.copies else (*claim.outputs, *_unlisted(change, claim))
    return Reference(
        ORIGINAL,
        change.before,
        claim.given,
        outputs,
        copies,
        claim.statement,
        claim.beside,
        claim.constants,
        () if claim.copies else _deciding(change, claim, outputs),
    )


def _deciding(change: Change, claim: SameGiven, outputs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """What the outputs are decided by, where it is there before and after."""
    listed = {tensor for tensor, _ in outputs} | claim.given.keys()
    nodes = deciding_nodes(change.before[parse_tensor(tensor).node] for tensor, _ in outputs)
    names = [Output(node, index).name for node in nodes for index in range(node.output_count or 1)]
    pairs = [(name, change.journal.counterpart(name)) for name in names if name not in listed]
    return tuple(pair for pair in pairs if parse_tensor(pair[1]).node in change.after)


def _unlisted(change: Change, claim: SameGiven) -> list[tuple[str, str]]:
    """Outputs of the original that the edit has not removed and the claim does not list, with their names now."""
    listed = {tensor for tensor, _ in claim.outputs} | claim.given.keys()
    gone = set(change.journal.removed)
    names = [
        Output(node, index).name
        for node in output_nodes(change.before)
        if node.name not in gone
        for index in range(node.output_count or 1)
    ]
    return [(name, change.journal.counterpart(name)) for name in names if name not in listed]


def part_reference(change: Change, claim: SamePart) -> Reference:
    """The graph that was added, on its own."""
    name = printable(os.path.basename(claim.part.source_name))
    statement = f"what came from {name} = {name} on its own"
    return Reference(PART, claim.part, claim.inputs, claim.outputs, change.journal.copied, statement)


class ReferenceProof(Comparing):
    """The edited graph runs first; what it has in the place of certain tensors is fed to the reference."""

    def __init__(self, executor: Executor, change: Change, overrides: Overrides, reference: Reference) -> None:
        super().__init__(executor, change, overrides)
        graph = change.after
        self.reference = reference
        self.overrides = overrides
        self.proof = Proof("run", statement=reference.statement)
        wanted = [edited for _, edited in (*reference.outputs, *reference.deciding)]
        lost = [tensor for tensor in wanted if parse_tensor(tensor).node not in graph]
        if lost:
            raise ValidationError(f"the result differs: it has lost its output {quoted(lost[0])}")
        self.edited = Subject(
            executor,
            EDITED,
            graph,
            outputs=_nodes([*wanted, *reference.given.values(), *reference.beside]),
            overrides=overrides,
            trust_seeds=False,
        )
        self.new_inputs = self._new_inputs()
        self.source = self._source_of_new_inputs()
        self.incomparable = dict.fromkeys(
            self.edited.plan.random, f"random: {', '.join(self.edited.plan.random_ops[:3])}"
        )
        self.given = self._available()
        self.subject_of_reference = self._reference_subject()
        self.pairs = self._pairs()
        if reference.key == PART:
            executor.load_source(PART, reference.graph)

    def checked(self, overrides: Overrides) -> Overrides:
        known = [node.name for node in input_nodes(self.graph)]
        for name in overrides.names():
            if name not in known and name in self.original_graph:
                listed = ", ".join(map(quoted, known[:8])) or "nothing"
                raise UsageError(
                    f"{quoted(name)} is no input of the result: it was frozen, or cut away; there is {listed} to feed"
                )
        check_names(overrides, known)
        return overrides.only(())  # the original is fed what the edited graph is fed

    def run(self) -> Proof:
        self.load()
        if not self.pairs:
            raise self._nothing()
        warn_of_variables(self.edited, self.proof)
        self.initialize_edited(self.edited.plan.initializers)
        initialize(self.subject_of_reference, printable(self.reference.graph.source_name))
        self.run_samples(max(self.edited.samples, self.executor.settings.samples if self.source is not None else 1))
        self.check_compared()
        return self.proof

    def batch(self) -> int:
        return self.edited.batch

    def hold_batch(self) -> bool:
        subjects = (self.edited, self.source, self.subject_of_reference)
        held = [subject.hold_batch() for subject in subjects if subject is not None]
        return any(held)

    def load(self) -> None:
        super().load()
        for name, value in self.reference.constants.items():
            node = self.graph.find(name)
            if node is None or node.op != "Const" or node.attr_bytes("value") != value:
                raise ValidationError(f"the result differs: {quoted(name)} has not the value that it was to get")
        if self.reference.key == PART:
            name = printable(self.reference.graph.source_name)
            await_loaded(self.executor, PART, f"TensorFlow does not load {name}")

    def sample(self, sample: int) -> None:
        try:
            feeds, summaries = self._run_edited(sample)
            own = self._run_reference(sample, feeds)
        except (ValidationError, NotValidatedError):
            # One may take a batch of two, and what it gives fit no input of the other that is a batch of one.
            if not sample or not self.hold_batch():
                raise
            feeds, summaries = self._run_edited(sample)
            own = self._run_reference(sample, feeds)
        subject = self.subject_of_reference
        outputs = self._compared_outputs(sample, summaries)
        if sample == 0:
            self.proof.outputs = outputs
            self.proof.made = self.edited.made
            self.proof.feeds = self.edited.describe_feeds(feeds) | subject.describe_feeds(own)
            show_values(self.executor, outputs, self.edited.plan.groups)
        self.proof.note(outputs)
        self.judge(outputs, sample)
        self.edited.finish(sample)
        subject.finish(sample)

    def _run_reference(self, sample: int, feeds: Feeds) -> Feeds:
        """Runs the reference on what the edited graph has; returns what it is fed besides."""
        subject = self.subject_of_reference
        bound = self._bound(sample, feeds)
        try:
            own, runs = subject.start(sample, bound)
            for run in runs:
                self.executor.wait(run)
        except Refused as refused:
            raise self._reference_refused(refused.text) from refused
        except NotValidatedError as error:
            raise self._reference_refused(subject.problem) from error
        return {name: value for name, value in own.items() if name not in bound}

    def _run_edited(self, sample: int) -> tuple[Feeds, list[RunSummary]]:
        try:
            observed = self._observed(sample)
            if observed and sample % 2 == 0:
                try:
                    return self._started(sample, self._turned(observed))
                except (Refused, NotValidatedError):
                    pass  # not every value may be turned round: a shape, say
            return self._started(sample, observed)
        except Refused as refused:
            raise ValidationError(f"the result does not run: {printable(refused.text)}") from refused
        except NotValidatedError as error:
            if not self.new_inputs and self._original_runs():
                text = f"the result does not run: {self.edited.problem}"
                raise ValidationError(text) from error
            raise

    def _started(self, sample: int, bound: Feeds) -> tuple[Feeds, list[RunSummary]]:
        feeds, runs = self.edited.start(sample, bound)
        return feeds, [self.executor.wait(run) for run in runs]

    def _turned(self, feeds: Feeds) -> Feeds:
        """The same values with their elements in reverse: what is fed must not be what would be there in any case."""
        out: Feeds = {}
        for name, value in feeds.items():
            assert isinstance(value, Result)
            out[name] = reversed_elements(self.executor.tensor(value.result_id, value.index))
        return out

    def _new_inputs(self) -> dict[str, str]:
        """The inputs of the edited graph that the original has not, and the tensors of it that they stand for.

        No feed that fits such an input may be known; one that the original itself has there does.
        """
        known = {self.journal.after(node.name) for node in input_nodes(self.original_graph)}
        stand_for = {edited: tensor for tensor, edited in self.reference.given.items()}
        return {spec.name: stand_for.get(spec.name, "") for spec in self.edited.specs if spec.name not in known}

    def _source_of_new_inputs(self) -> Subject | None:
        """The original, to be run for what it has in the place of new inputs; None where that cannot be had."""
        given = set(self.overrides.names()) | ({*self.new_inputs} if self.overrides.archive is not None else set())
        tensors = [tensor for name, tensor in self.new_inputs.items() if tensor and name not in given]
        if not tensors or self.reference.key != ORIGINAL:
            return None
        source = Subject(self.executor, ORIGINAL, self.reference.graph, outputs=_nodes(tensors), overrides=Overrides())
        return source if all(source.place(tensor) is not None for tensor in tensors) else None

    def _observed(self, sample: int) -> Feeds:
        """What the original has in the place of new inputs, on feeds of its own."""
        if self.source is None:
            return {}
        try:
            _, runs = self.source.start(sample, {})
            for run in runs:
                self.executor.wait(run)
        except (Refused, NotValidatedError):
            self.source = None
            return {}
        out: Feeds = {}
        for name, tensor in self.new_inputs.items():
            place = self.source.place(tensor) if tensor else None
            if place is not None:
                out[name] = Result(f"{ORIGINAL} {sample} {place[0]}", place[1])
        return out

    def _original_runs(self) -> bool:
        """Whether the original runs on feeds made for it: that the result does not is the edit's doing then."""
        subject = Subject(self.executor, ORIGINAL, self.original_graph, overrides=Overrides())
        try:
            initialize(subject, self.name)
            _, runs = subject.start(0, {})
            for run in runs:
                self.executor.wait(run)
        except (GdsurgeonError, Refused):
            return False
        finally:
            subject.finish(0)
        return bool(runs)

    def _reference_refused(self, text: str) -> GdsurgeonError:
        name = printable(self.reference.graph.source_name)
        kind = NotValidatedError if self.new_inputs and self.source is None else ValidationError
        return kind(
            f"{name} does not run on what the result has in the place of its inputs: {printable(text)}",
            hint=DO_WITHOUT,
        )

    def _available(self) -> dict[str, str]:
        """The substitutions whose values can be fetched; what has its own value in any case needs none.

        A tensor that stands for itself and cannot be fetched is computed again, unless it depends on another one.
        """
        out: dict[str, str] = {}
        missing: list[str] = []
        for tensor, edited in self.reference.given.items():
            if self.edited.place(edited) is not None:
                out[tensor] = edited
            else:
                missing.append(tensor)
        if not missing:
            return out
        reasons = {s.name: s.reason for s in self.edited.plan.skipped}
        graph = self.reference.graph
        topology = Topology(graph)
        moved = [t for t, e in self.reference.given.items() if e != self._counterpart(t)]
        seeds = [topology.id_of(graph[parse_tensor(t).node]) for t in moved]
        reached = topology.downstream(seeds, topology.consumers())
        for tensor in missing:
            if reached[topology.id_of(graph[parse_tensor(tensor).node])]:
                edited = self.reference.given[tensor]
                why = reasons.get(parse_tensor(edited).node, "its value cannot be fetched")
                raise NotValidatedError(f"nothing could be compared: {quoted(edited)}: {why}", hint=DO_WITHOUT)
        return out

    def _counterpart(self, tensor: str) -> str:
        return self.journal.counterpart(tensor)

    def _reference_subject(self) -> Subject:
        """The reference, to be run for what is compared; it is fed what can be had from the edited graph."""
        graph = self.reference.graph
        pairs = (*self.reference.outputs, *self.reference.deciding)
        wanted = [tensor for tensor, edited in pairs if self.edited.place(edited) is not None]
        subject = Subject(
            self.executor,
            self.reference.key,
            graph,
            outputs=_nodes(wanted),
            overrides=Overrides(),
            trust_seeds=False,
            salt="reference",
            bound=frozenset(self._unneeded(graph, wanted)),
        )
        needed = set(self._needed)
        subject.variables = [variable for variable in subject.variables if variable.name in needed]
        return subject

    def _unneeded(self, graph: Graph, wanted: Iterable[str]) -> list[str]:
        """The inputs of the reference that nothing reads when the given tensors are fed."""
        topology = Topology(graph)
        given = {(topology.id_of(graph[ref.node]), ref.port) for ref in map(parse_tensor, self.given)}
        seen: set[int] = set()
        pending = [topology.id_of(graph[ref.node]) for ref in map(parse_tensor, wanted)]
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            pending.extend(p for p, port in topology.reads(number) if (p, port) not in given)
        self._needed = [topology.name(number) for number in seen]
        names = set(self._needed)
        return [topology.name(n) for n in topology.numbers() if topology.op(n) in PLACEHOLDERS
                and topology.name(n) not in names]  # fmt: skip

    def _pairs(self) -> list[tuple[str, str]]:
        """What is compared; the rest is noted with its reason."""
        out: list[tuple[str, str]] = []
        reasons = {s.name: s.reason for s in (*self.subject_of_reference.plan.skipped, *self.edited.plan.skipped)}
        for tensor, edited in self.reference.outputs:
            if self.edited.place(edited) is not None and self.subject_of_reference.place(tensor) is not None:
                out.append((tensor, edited))
            else:
                reason = reasons.get(parse_tensor(edited).node) or reasons.get(parse_tensor(tensor).node)
                self.proof.skipped.append((edited, reason or "a value that cannot be fetched"))
        for tensor, edited in self.reference.deciding:
            if self.edited.place(edited) is not None and self.subject_of_reference.place(tensor) is not None:
                out.append((tensor, edited))
        return out

    def _bound(self, sample: int, feeds: Feeds) -> Feeds:
        """What the reference is fed: the inputs of the edited graph by their names there, and the substitutes."""
        subject = self.subject_of_reference
        out: Feeds = {}
        names = [spec.name for spec in subject.specs] + [variable.name for variable in subject.variables]
        for name in (*names, *subject.plan.draws):
            ref = parse_tensor(name)
            edited = format_input(self.reference.copies.get(ref.node, ref.node), ref.port)
            if edited in feeds:
                out[name] = feeds[edited]
        for tensor, edited in self.given.items():
            place = self.edited.place(edited)
            assert place is not None
            out[tensor] = Result(self.edited.result(sample, place[0]), place[1])
        return out

    def _compared_outputs(self, sample: int, summaries: list[RunSummary]) -> list[OutputProof]:
        out: list[OutputProof] = []
        for tensor, edited in self.pairs:
            place, counterpart = self.edited.place(edited), self.subject_of_reference.place(tensor)
            assert place is not None and counterpart is not None
            info = summaries[place[0]].outputs[place[1]]
            output = OutputProof(tensor, edited, info.dtype, info.shape, reason=self.incomparable.get(edited, ""))
            output.inside = (tensor, edited) in self.reference.deciding
            if not output.reason:
                pending = self.executor.compare(
                    self.subject_of_reference.result(sample, counterpart[0]),
                    edited_result(sample, place[0]),
                    [(counterpart[1], place[1])],
                )
                output.comparison = self.executor.comparisons(pending)[0]
            out.append(output)
        return out

    def _nothing(self) -> NotValidatedError:
        if not self.edited.plan.fetches:
            return nothing_to_run(self.edited, "the result")
        reasons = "; ".join(dict.fromkeys(reason for _, reason in self.proof.skipped)) or "there is no output"
        return NotValidatedError(f"nothing could be compared: {printable(reasons)}", hint=DO_WITHOUT)


def _nodes(tensors: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(parse_tensor(tensor).node for tensor in tensors))
