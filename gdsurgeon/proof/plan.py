"""Decides without execution which outputs of a graph can run, and which inputs must be fed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import starmap
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import (
    external_effect_line,
    external_effects_of,
    is_seeded,
    only_reads,
    ops_in_functions,
    random_nodes,
)
from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.attrs import FullShape, shape_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, nodes_of
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import (
    CHECKPOINT_WRITERS,
    IDENTITY,
    MERGE,
    PLACEHOLDERS,
    RESOURCE_VARIABLES,
    TABLE_INITIALIZERS,
    TENSOR_ARRAY_READERS,
    UNDEFINED,
    UNSET_PLACEHOLDERS,
    VARIABLES,
    changes_variable,
    is_blocking,
    is_random,
    is_step,
    is_table,
    keeps_state,
    undefined_outputs,
)
from gdsurgeon.ops.reach import UNKNOWN, reach_of
from gdsurgeon.proof.proof import ENCLOSED, FED, Skipped
from gdsurgeon.proof.settings import Settings


class Obstacle(NamedTuple):
    """The reason why a node cannot run.

    Attributes:
        reason: the reason.
        advice: the code of advice, if any helps.
        reaches: the op by which the node accesses outside resources; '' for other reasons.
        no_value: whether the node can run, but v1 control flow may leave it without a value, or with several.
        name: the name of an output that does not run.
    """

    reason: str
    advice: str = ""
    reaches: str = ""
    no_value: bool = False
    name: str = ""


class Assigned(NamedTuple):
    """A resource variable without a value in the file, which gets a generated value.

    Attributes:
        variable: its name.
        node: the node that assigns it.
        value: the tensor that `node` assigns, which is fed.
        seed: the name that determines the value.
    """

    variable: str
    node: str
    value: str
    seed: str


@dataclass
class FetchPlan:
    """The runs of a graph. All names are names in the graph at the time of the plan.

    Attributes:
        groups: fetches that can share a run.
        placeholders: nodes that must be fed.
        variables: VariableV2 nodes without values in the file; they are also fed.
        initializers: table initializers, which run first.
        assigned: resource variables, which get a value first.
        defaults: PlaceholderWithDefault nodes upstream of the fetches, which can be fed; also restored variables that
            are inputs of signatures.
        sampled: outputs of random ops: they run once, and every compared graph is fed the same values.
        random: fetches that depend on other random ops, in a loop or a function; they run, but are never compared.
        random_ops: the names of the ops that `random` depends on.
        skipped: outputs that do not run.
        barred: why the model cannot be restored.
        inputs_of_sampled: fetches that are not outputs: inputs of the fed random ops, which no other fetch shows.
        random_nodes: the names of all random ops upstream of the fetches, seeded or not. The value is `FED` if the op
            is fed, `ENCLOSED` if it is in a loop or a function and cannot run once, and otherwise ''.
        keeps_state: whether the fetches depend on state that a run can change for the next run.
    """

    groups: list[list[str]] = field(default_factory=list)
    placeholders: Sequence[str] = ()
    defaults: list[str] = field(default_factory=list)
    variables: Sequence[str] = ()
    initializers: Sequence[str] = ()
    assigned: Sequence[Assigned] = ()
    sampled: Sequence[str] = ()
    random: set[str] = field(default_factory=set)
    random_ops: Sequence[str] = ()
    skipped: list[Obstacle] = field(default_factory=list)
    barred: Obstacle | None = None
    inputs_of_sampled: Sequence[str] = ()
    random_nodes: dict[str, str] = field(default_factory=dict)
    keeps_state: bool = False

    @property
    def fetches(self) -> list[str]:
        """All fetches."""
        return [name for group in self.groups for name in group]

    @property
    def reasons(self) -> Skipped:
        """(output, reason) for outputs that do not run."""
        return [(skipped.name, skipped.reason) for skipped in self.skipped]

    @property
    def unproven(self) -> dict[str, str]:
        """The reasons by output for outputs that do not run because they access outside resources.

        An edit is not proven without these. Nodes that save a checkpoint are not outputs of the model.
        """
        return {found.name: found.reason for found in self.skipped if found.reaches not in ("", *CHECKPOINT_WRITERS)}

    def only(self, tensors: Collection[str]) -> FetchPlan:
        """Returns the plan with only `tensors` as fetches."""
        groups = [[name for name in names if name in tensors] for names in self.groups]
        return replace(self, groups=[names for names in groups if names])


def why_not_loaded(graph: Graph) -> Obstacle | None:
    """Returns why a graph must not even be loaded: TensorFlow may run a node then that accesses outside resources."""
    return next(starmap(_reaches, external_effects_of(graph).evaluated_at_load()), None)


def _reaches(node: Node, op: str) -> Obstacle:
    """Returns the obstacle that `node` accesses outside resources by `op`."""
    if reach_of(op).kind == UNKNOWN:
        return Obstacle(f"{_called(node)} runs an unknown op ({printable(op)})", "custom-ops", op)
    return Obstacle(external_effect_line(node, op), "allow-ops", op)


def _called(node: Node) -> str:
    return f"{quoted(node.name)} ({printable(node.op)})"


def plan_with(
    settings: Settings,
    graph: Graph,
    outputs: Iterable[str] | None = None,
    *,
    not_sampled: Iterable[str] = (),
    trust_seeds: bool = True,
    idle: Iterable[str] = (),
) -> FetchPlan:
    """Returns the plan of a graph.

    Args:
        settings: whether ops that access files, networks or Python may run, and unknown ops.
        graph: before or after an edit.
        outputs: the nodes or tensors to fetch; by default the outputs of the graph.
        not_sampled: random nodes that are not fed; outputs that depend on them are not compared.
        trust_seeds: whether a seeded op in a loop has the same values in each graph; not if one graph runs more often.
        idle: random nodes whose values do not matter; they do not count as random.
    """
    planner = graph.derived(_planner(settings.allow_ops, bool(settings.op_libraries)))
    nodes = [graph[name] for name in nodes_of(outputs)] if outputs is not None else output_nodes(graph)
    return planner.plan(nodes, frozenset(not_sampled), trust_seeds, frozenset(idle))


@cache
def _planner(allow_ops: bool, custom_ops: bool) -> Callable[[Graph], Planner]:
    """Returns the function that makes the planner of a graph; all plans of the present graph share the planner."""
    return lambda graph: Planner(graph, allow_ops, custom_ops)


def variable_shape(node: Node) -> FullShape | None:
    """Returns the shape of a variable; None if a dimension is unknown."""
    stated = node.attr("shape")
    dims = shape_of(stated.shape) if stated is not None else None
    return dims if dims is not None and min(dims, default=0) >= 0 else None


class Planner:
    """The outputs of a graph that can run, found in a few passes over the graph."""

    def __init__(self, graph: Graph, allow_ops: bool, custom_ops: bool) -> None:
        self.graph = graph
        self.top = topology_of(graph)
        self.flow: ControlFlow = control_flow_of(graph)
        self.outside = external_effects_of(graph, trusts_unknown=custom_ops)
        self.allow_ops = allow_ops
        self.custom_ops = custom_ops
        self.obstacles: dict[int, Obstacle] = {}
        self.random: list[int] = []
        self.repeatable: set[int] = set()  # random ops that return the same values in equal sessions
        self.kept: list[int] = []  # nodes that keep state for the next run
        self.writers: list[int] = []  # nodes that change variables, which others may read in the same run
        self._random_nodes = frozenset(random_nodes(graph))
        serving = serving_of(graph) or Serving()
        runs = [graph[name] for run in serving.runs for name in run.targets]
        self._loading = self.top.upstream(map(self.top.id_of, runs))  # runs first, and may read files then
        self._restored = serving.keys
        served = map(self.top.id_of, output_nodes(graph)) if serving.called else ()
        # The outputs of signatures that are references: variables, or nodes that change restored variables.
        self._references = frozenset(n for n in served if self._restored or self.top.op(n) in VARIABLES)
        self._assigned = {n: found for n in self.top.with_ops(RESOURCE_VARIABLES) if (found := self._assigned_to(n))}
        self._undefined = self._find_undefined()
        for number in self.top.with_ops(filter(self._is_suspicious, self.top.ops())):
            self._look_at(number, self.top.op(number))
        blocked = self._downstream_with_origin(self.obstacles)
        for number in self.top.with_ops(TABLE_INITIALIZERS):
            if number in blocked:  # without its initializer, a table cannot be used
                for table in self.top.producers(number)[:1]:
                    self.obstacles.setdefault(table, self.obstacles[blocked[number]])
        self.blocked = self._downstream_with_origin(self.obstacles)

    def _assigned_to(self, number: int) -> Assigned | None:
        """Returns how a resource variable can get a generated value, if the file has none and the shape is known."""
        node = self.top.node(number)
        if self._has_value(number) or variable_shape(node) is None:
            return None
        for user in map(self.top.node, self.top.users(number)):
            if user.op == "AssignVariableOp" and user.inputs[0].node is node and not user.controls:
                return Assigned(node.name, user.name, user.inputs[1].name, node.name)
        return None

    def _find_undefined(self) -> dict[int, frozenset[int]]:
        """Returns the undefined outputs of nodes, also of identities of such outputs."""
        nodes = {number: self.top.node(number) for number in self.top.with_ops(UNDEFINED)}
        found = {number: undefined_outputs(node.op, node.setting) for number, node in nodes.items()}
        pending = [number for number, indices in found.items() if indices]
        consumers = self.top.consumers() if pending else []
        for number in pending:  # grows while it is walked
            for consumer in consumers[number]:
                if self.top.op(consumer) in IDENTITY and consumer not in found:
                    source = self.top.node(consumer).inputs[0]
                    if self.top.id_of(source.node) == number and source.index in found[number]:
                        found[consumer] = frozenset((0,))
                        pending.append(consumer)
        return found

    def _is_suspicious(self, op: str) -> bool:
        """Returns whether consumers of a node with this op may be unable to run, or not comparable."""
        definition = self.graph.op_def(op)
        if definition is None or op in RESOURCE_VARIABLES or is_blocking(op) or is_random(op) or self._keeps_state(op):
            return True
        return self.outside.may_reach(op) or op in self.graph.functions or definition.takes_functions

    def _obstacle(self, number: int, node: Node, ops: Sequence[str]) -> Obstacle | None:
        """Returns why a node cannot run; None if it can. `ops` are its op and the ops in its functions."""
        where = _called(node)
        if node.op_def is None:
            return None if self.custom_ops else Obstacle(f"{where} is an unknown op", "custom-ops")
        if node.op in RESOURCE_VARIABLES and not self._has_value(number) and number not in self._assigned:
            return Obstacle(f"{where} is a variable without a value in the file")
        reached = "" if self.allow_ops else self.outside.reached_by(node)
        if reached and not (self._loading[number] and only_reads(node)):
            return _reaches(node, reached)
        if (self._restored or self._assigned) and is_step(node.op):
            return Obstacle(f"{where} trains variables while other nodes read them")
        return next((Obstacle(f"{where} may wait forever ({op})") for op in ops if is_blocking(op)), None)

    def _look_at(self, number: int, op: str) -> None:
        """Records whether the consumers of a node cannot run, or cannot be compared."""
        node = self.top.node(number)
        ops = (op, *sorted(ops_in_functions(node)))
        obstacle = self._obstacle(number, node, ops)
        if obstacle is not None:
            self.obstacles[number] = obstacle
        if obstacle is not None or node.op_def is None:
            return
        if any(map(self._keeps_state, ops)):
            self.kept.append(number)
        if any(map(self._writes, ops)):
            self.writers.append(number)
        # Outputs that depend on a call with random ops run, but are not compared, whatever their seeds. A seeded op in
        # a loop returns the same in both graphs. Outside a loop it is fed like an unseeded op, because its sequence
        # continues from run to run.
        if number in self._random_nodes:
            self.random.append(number)
            if is_random(op) and not self.flow.runs_once(number) and is_seeded(node):
                self.repeatable.add(number)

    def _keeps_state(self, op: str) -> bool:
        """Returns whether an op can change state for the next run; variables are fed unless the model is restored."""
        return keeps_state(op) or self._writes(op)

    def _writes(self, op: str) -> bool:
        """Returns whether an op changes restored variables."""
        return bool(self._restored or self._assigned) and (is_step(op) or changes_variable(op))

    def _has_value(self, number: int) -> bool:
        """Returns whether a variable has a value after the model is restored."""
        return self.top.name(number) in self._restored or bool(self._loading[number])

    def plan(
        self, nodes: list[Node], not_sampled: frozenset[str], trust_seeds: bool, idle: frozenset[str]
    ) -> FetchPlan:
        """Returns the plan that fetches `nodes`; see `plan_with`."""
        plan = FetchPlan()
        plan.barred = next((found for number, found in self.obstacles.items() if self._loading[number]), None)
        wanted: list[int] = []
        for node in nodes:
            number = self.top.id_of(node)
            obstacle = self._why_not(number) or self.obstacles.get(self.blocked.get(number, -1))
            if obstacle is None:
                wanted.append(number)
            elif obstacle.reason:
                plan.skipped.append(obstacle._replace(name=node.name))
        trusted = self.repeatable if trust_seeds else ()
        random = [n for n in self.random if n not in trusted and self.top.name(n) not in idle]
        read = self._mark_random(wanted, random, not_sampled, plan)
        plan.inputs_of_sampled = [name for number in read for name in self._tensors(number)]
        wanted += read
        plan.groups = self._groups(wanted)
        above = self.top.upstream(wanted)
        for number in self.random:
            if above[number]:
                plan.random_nodes[self.top.name(number)] = "" if self._can_be_sampled(number) else ENCLOSED
        plan.random_nodes |= dict.fromkeys(nodes_of(plan.sampled), FED)
        self._add_needs(plan, above)
        plan.keeps_state = any(above[number] for number in (*self.kept, *self.repeatable))
        return plan

    def _why_not(self, number: int) -> Obstacle | None:
        """Returns why a node cannot be fetched; an empty reason for nodes that are not outputs; None if it can."""
        if self.flow.frames[number]:
            return Obstacle("inside a while loop", no_value=True)
        if self.flow.branches[number]:
            return Obstacle("in a branch that does not always run", no_value=True)
        found = self.top.node(number).output_dtypes
        if found is None:
            op = quoted(self.top.op(number))
            return None if self.custom_ops else Obstacle(f"op {op} is unknown", "custom-ops")
        if all(dtype > dtypes.REF for dtype in found) and number not in self._references:
            return Obstacle("")
        if all(dtype in (dtypes.RESOURCE, dtypes.VARIANT) for dtype in found):
            return Obstacle("a resource or variant, which cannot be fetched")
        if len(self._undefined.get(number, ())) == len(found) > 0:
            return Obstacle("its content is undefined")
        return None

    def _downstream_with_origin(self, origins: Iterable[int]) -> dict[int, int]:
        """Returns for each node that depends on one of `origins`, or is one, this origin."""
        out = {number: number for number in origins}
        pending = list(out)
        consumers = self.top.consumers() if pending else []
        for number in pending:  # grows while it is walked
            for consumer in consumers[number]:
                if consumer not in out:
                    out[consumer] = out[number]
                    pending.append(consumer)
        return out

    def _mark_random(
        self, wanted: list[int], random: list[int], not_sampled: frozenset[str], plan: FetchPlan
    ) -> list[int]:
        """Records which of `wanted` are random; returns the producers that the sampled random ops read.

        Their values are fetched and compared: all graphs get the same random values, which do not show wrong inputs.
        """
        tainted = self._downstream_with_origin(random)
        concerned = [number for number in wanted if number in tainted]
        if not concerned:
            return []
        above = self.top.upstream(concerned)
        random = [number for number in random if above[number]]
        sampled = [n for n in random if self._can_be_sampled(n) and self.top.name(n) not in not_sampled]
        plan.sampled = [name for number in sampled for name in self._tensors(number)]
        unsampled = self._downstream_with_origin(set(random) - set(sampled))
        plan.random = {name for number in concerned if number in unsampled for name in self._tensors(number)}
        plan.random_ops = [self.top.name(number) for number in random if number in unsampled]
        return [
            producer
            for producer in dict.fromkeys(p for number in sampled for p in self.top.producers(number))
            if producer not in tainted
            and self.top.op(producer) not in PLACEHOLDERS | {"Const", "NoOp"}
            and self._why_not(producer) is None
            and producer not in wanted
        ]

    def _can_be_sampled(self, number: int) -> bool:
        """Returns whether a random node has one value in a run, which can be fed."""
        return self.flow.runs_once(number) and is_random(self.top.op(number))

    def _groups(self, wanted: list[int]) -> list[list[str]]:
        """Returns fetches that can share a run: those that depend on the same writers and readers.

        Fetches that change variables cannot share a run with other fetches, because the order is not determined. Two
        readers of one TensorArray cannot share a run, because a read clears the array.
        """
        readers = [number for number in self.top.with_ops(TENSOR_ARRAY_READERS) if not self.flow.frames[number]]
        arrays = {number: self.top.producers(number)[0] for number in readers}
        counts = Counter(arrays.values())
        contested = [number for number in readers if counts[arrays[number]] > 1]
        reached = {number: self._downstream_with_origin([number]) for number in (*self.writers, *contested)}
        groups: dict[frozenset[int], list[str]] = {}
        for number in wanted:
            key = frozenset(origin for origin, found in reached.items() if number in found)
            groups.setdefault(key, []).extend(self._tensors(number))
        return [*groups.values()]

    def _tensors(self, number: int) -> list[str]:
        """Returns the outputs of a node that can be fetched and are defined; for a Merge only the value."""
        node = self.top.node(number)
        found = node.output_dtypes
        if found is None:
            return [node.name]  # a custom op: its first output, whatever else it has
        undefined = self._undefined.get(number, ())
        return [
            format_input(node.name, i)
            for i, dtype in enumerate(found[:1] if node.op in MERGE else found)
            if dtypes.base_dtype(dtype) not in (dtypes.RESOURCE, dtypes.VARIANT)
            and (dtype < dtypes.REF or number in self._references)
            and i not in undefined
        ]

    def _add_needs(self, plan: FetchPlan, needed: bytearray) -> None:
        """Adds the placeholders, variables and table initializers to the plan."""

        def found(ops: Iterable[str]) -> list[int]:
            return [number for number in self.top.with_ops(ops) if needed[number]]

        plan.placeholders = [*map(self.top.name, found(UNSET_PLACEHOLDERS))]
        plan.defaults = [*map(self.top.name, found(PLACEHOLDERS - UNSET_PLACEHOLDERS))]
        taken = {self.top.id_of(node) for node in input_nodes(self.graph) if node.op in VARIABLES} - self._references
        plan.defaults += [self.top.name(n) for n in sorted(taken) if needed[n] and self._has_value(n)]
        plan.variables = [self.top.name(n) for n in found(VARIABLES) if not self._has_value(n)]
        plan.assigned = [assigned for number, assigned in self._assigned.items() if needed[number]]
        tables = {*found(filter(is_table, self.top.ops()))}
        plan.initializers = [
            self.top.name(number)
            for number in self.top.with_ops(TABLE_INITIALIZERS)
            if not (self._loading[number] or tables.isdisjoint(self.top.producers(number)))
        ]
