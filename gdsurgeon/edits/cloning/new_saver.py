"""A saver in the place of one that cannot be extended: functions, which know the variables that they were made for, or
ops that restore one tensor each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gdsurgeon.analysis.queries.function_usage import functions_of
from gdsurgeon.analysis.queries.training import saver_behind
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.cloning.left_out import files_restored
from gdsurgeon.edits.copying.replacing import drop_colocations
from gdsurgeon.edits.copying.saver import add_restoring, add_saving, restored_once, saver_in
from gdsurgeon.edits.functions.unused import drop_left
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, free_scope
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Key, Saver, Serving
from gdsurgeon.ops.kinds import holds_state, is_variable, keeps_state

SCOPE = "saver"
"""Under which names its nodes are put."""


class NewSaver:
    """Restores and saves all that a model's checkpoint has values for, and clones of some of it.

    Args:
        topology: of the graph.
        serving: how that is served.
        variables: those that are cloned.
        spelt: makes the key of a clone of that of its original; it is made unique.

    Attributes:
        keys: those that the checkpoint is to have, too, and for each the key of the tensor that it is to hold.

    Raises:
        EditError: what restores the model restores something else, too.
    """

    def __init__(
        self, topology: Topology, serving: Serving, variables: Sequence[Node], spelt: Callable[[str], str]
    ) -> None:
        _check_variables_alone(topology, serving)
        known = sorted(topology.id_of(topology.graph[name]) for name in serving.keys if name in topology.graph)
        found = restored_once(map(topology.node, known), serving.keys)
        taken = {key.tensor for key in serving.keys.values()}
        unique = UniqueNames(taken.__contains__)
        self.keys: dict[str, str] = {}
        self._saved: dict[Node, Key] = {}
        self._clones: dict[Node, Key] = {}
        new: dict[str, str] = {}  # keys of the clones, by those of the originals: slices have one
        seen: set[Key] = set()
        own = set(variables)
        for node, key in found.items():
            tensor = key.tensor if key not in seen else unique(node.name)  # two cannot be saved under one key
            seen.add(key)
            if tensor != key.tensor:
                self.keys[tensor] = key.tensor
            self._saved[node] = key._replace(tensor=tensor)
            if node in own:
                if tensor not in new:
                    new[tensor] = unique(spelt(tensor))
                self.keys[new[tensor]] = key.tensor
                self._clones[node] = key._replace(tensor=new[tensor])
        self._gone = [topology.node(n) for n in sorted(saver_behind(topology, files_restored(topology)))]

    def apply(self, graph: Graph, copies: Mapping[Node, Node], intent: Intent) -> tuple[Saver, list[tuple[str, str]]]:
        """Puts it into GRAPH, where COPIES are the clones, and takes the old one out; INTENT says so.

        Returns it, and the names of the nodes that assign to each original and its clone.
        """
        scope = free_scope(graph.names(), SCOPE)
        clones = {copies[node]: key for node, key in self._clones.items()}
        keys = self._saved | clones
        intent.added += [node.name for node in (*add_restoring(graph, keys, scope), *add_saving(graph, keys, scope))]
        intent.removed += [node.name for node in self._gone]
        functions = [name for node in self._gone for name in functions_of(node)]
        drop_colocations(graph, self._gone)
        graph.remove(self._gone)
        intent.functions.removed = drop_left(graph, functions)
        saver = saver_in(scope, keys)
        assigned = {saved.variable: saved.assign for saved in saver.variables}
        return saver, [(assigned[node.name], assigned[copies[node].name]) for node in self._clones]


def _check_variables_alone(topology: Topology, serving: Serving) -> None:
    """Raises EditError where what restores a model restores tables, or variables of which the keys are not known."""
    run = serving.restoring
    targets = [topology.id_of(topology.graph[name]) for name in (run.targets if run is not None else ())]
    for number in members(topology.upstream(targets)):
        op, name = topology.op(number), topology.name(number)
        if (holds_state(op) or keeps_state(op)) and not (is_variable(op) and name in serving.keys):
            raise EditError(
                f"{quoted(name)} ({printable(op)}) is also restored from the checkpoint, but a new saver "
                "would restore only variables",
                code="outside-uses",
                facts={"node": name, "op": op},
                advice="inline-first",  # then nodes restore it, which can be extended
            )
