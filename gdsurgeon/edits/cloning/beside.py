"""What of a model follows where a scope with variables is cloned: its saver, its initialisers, what stands around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import forward_walk
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import Claim, OwnVariables
from gdsurgeon.edits.cloning.growth import Growth, given, grow, places, planned, save_clones
from gdsurgeon.edits.cloning.left_out import LeftOut
from gdsurgeon.edits.cloning.new_saver import NewSaver
from gdsurgeon.edits.copying.fresh_names import shared_name, shared_names_in_use
from gdsurgeon.edits.copying.node_copy import NodeCopy
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Copied
from gdsurgeon.ops.kinds import ASSIGNMENTS, TEMPORARY, is_variable
from gdsurgeon.text import counted, named


class Beside:
    """What follows a clone of nodes in the model that they are part of; nothing where that is a GraphDef of its own.

    Args:
        topology: of the graph.
        cloned: the nodes that are cloned: those under the scope, and variables that belong to it.
        left: what is not.
        before, after: the scopes, each with a slash at the end.

    Attributes:
        nodes: those of the saver that are cloned.
        replaced: what these read in place of what their originals read.
        notes: what there is to say.

    Raises:
        EditError: the saver's nodes cannot be extended; or others than these restore more than variables.
    """

    def __init__(self, topology: Topology, cloned: Sequence[Node], left: LeftOut, before: str, after: str) -> None:
        self._graph = topology.graph
        self._scopes = before, after
        self.nodes: list[Node] = []
        self.replaced: dict[Output, Output] = {}
        self.notes: list[str] = []
        self._grown: list[Growth] = []
        self._keys: dict[str, str] = {}
        self._variables: list[Node] = []
        self._restored: dict[Node, Node] = {}
        self._new_saver: NewSaver | None = None
        self._assigned: list[tuple[str, str]] = []
        self._serving = serving_of(self._graph)
        if self._serving is None:
            return
        self._variables = self._own(topology, cloned)
        found = places(topology, map(topology.id_of, self._variables), left.saver)
        self._restored = {place.variable: place.path[0] for place in found if place.restores}

        def spelt(key: str) -> str:
            return after + key.removeprefix(before)

        if self._is_restored_by_nodes():
            self._grown, self._keys = planned(found, spelt)
            self.nodes = list(dict.fromkeys(node for place in found for node in place.path))
            self.replaced = given(self._grown)
        else:
            self._new_saver = NewSaver(topology, self._serving, self._variables, spelt)
            self._keys = self._new_saver.keys
            text = "new nodes replace those that save and restore the model's variables"
            self.notes.append(Remark(text, "new-saver"))
        if self._keys:
            names = named(sorted(self._keys), 3, quoted)
            is_there = "added to" if self._serving.checkpoint else "expected in"
            text = f"{counted(len(self._keys), 'key')} {is_there} the checkpoint: {names}"
            self.notes.append(Remark(text, "new-keys", keys=sorted(self._keys)))

    def _own(self, topology: Topology, cloned: Sequence[Node]) -> list[Node]:
        """The variables among CLONED of which nothing else holds the values, too."""
        variables = [node for node in cloned if is_variable(node.op) and node.op not in TEMPORARY]
        if not variables:
            return []
        outside = shared_names_in_use(topology, set(cloned))
        return [node for node in variables if shared_name(node) not in outside]

    def _has_value(self, variable: Node) -> bool:
        """Whether whoever restores the model gives VARIABLE a value."""
        return self._serving is not None and variable.name in self._serving.variables

    def _is_restored_by_nodes(self) -> bool:
        """Whether nodes of the saver that can be extended restore each of the variables that has a value."""
        names = {shared_name(node) or node.name for node in self._restored}
        return all((shared_name(node) or node.name) in names for node in self._variables if self._has_value(node))

    def groups(self, topology: Topology, names: Mapping[Node, str]) -> dict[Node, list[Node]]:
        """What runs initialisers together, with those of which it is to run the copies, called NAMES, too."""
        out: dict[Node, list[Node]] = {}
        if self._serving is None:
            return out
        below = forward_walk(topology, topology.with_ops(filter(is_variable, topology.ops())))
        for node in names:
            if node.op not in ASSIGNMENTS or any(below[topology.id_of(read.node)] for read in node.inputs[1:]):
                continue  # what copies a variable into another is no initialiser
            for user in self._graph.users(node):
                if user.op == "NoOp" and user not in names and node in user.controls:
                    out.setdefault(user, []).append(node)
        return out

    def apply(self, copied: NodeCopy, groups: Mapping[Node, Sequence[Node]], intent: Intent) -> None:
        """Does all of that, once COPIED has been made; INTENT says so."""
        if self._serving is None:
            return
        graph = self._graph
        save_clones(self._grown, copied)
        changed = grow(graph, self._grown)
        for group, originals in groups.items():
            graph.set_controls(group, [*group.controls, *(copied.nodes[node] for node in originals)])
        serving = graph.serving
        assert serving is not None
        note = Copied(*self._scopes, copied.nodes, copied.frames, self._keys)
        saver = serving.saver
        if self._new_saver is not None:
            saver, self._assigned = self._new_saver.apply(graph, copied.nodes, intent)
            keys = {graph[saved.variable].base_name or saved.variable: saved.key for saved in saver.variables}
        else:
            names = {old: new for new, old in self._keys.items()}
            keys = {
                copied.nodes[node].name: key._replace(tensor=names[key.tensor])
                for node in self._variables
                if (key := serving.keys.get(node.base_name or node.name)) is not None and key.tensor in names
            }
            restored = [node for node in self._variables if node in self._restored and self._has_value(node)]
            assigning = [self._restored[node] for node in restored]
            self._assigned = [(node.name, copied.nodes[node].name) for node in assigning]
        graph.serving = serving._replace(
            keys={**serving.keys, **keys},
            saver=saver,
            copies=(*serving.copies, note),
            before=serving.before or serving,
        )
        intent.changed += [node.name for node in (*changed, *groups)]

    def claims(self, copied: NodeCopy, served: Sequence[Output]) -> list[Claim]:
        """That the cloned variables, where they are restored, are the clone's own."""
        if not self._assigned:
            return []
        outputs = tuple((output.name, copied.output(output).name) for output in served)
        source, target = (scope[:-1] for scope in self._scopes)
        return [OwnVariables(tuple(self._assigned), outputs, f"{source} and {target} have separate variables")]
