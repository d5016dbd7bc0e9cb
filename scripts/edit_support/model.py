"""The facts about a model that the choices of edits need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import gdsurgeon as gds
from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.analysis.traversal.control_flow import control_flow_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64, REF
from gdsurgeon.ops.kinds import CONTROL_FLOW, PLACEHOLDERS

FLOATS: frozenset[int] = frozenset((FLOAT32, FLOAT64))


class Model:
    """A model, with the facts that the choices need.

    Attributes:
        path: of its file.
        folder: where graphs to be joined to it and values may be written.
        graph: the model.
        inputs, outputs: the nodes; of outputs those that are no variables.
        floats: nodes that compute one tensor of floats, once in each run, from which an output comes; producers first.
        inside: the same of what stands in loops and branches.
        constants: constants of floats from which an output comes.
        dead: what no output needs.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.graph = gds.load(str(path))
        self.outputs = [node for node in output_nodes(self.graph) if node.output.dtype < REF]
        self.inputs = [node for node in self.graph.nodes() if node.op in PLACEHOLDERS]
        self._topology, self._flow = topology_of(self.graph), control_flow_of(self.graph)
        needed = self._topology.upstream(map(self._topology.id_of, self.outputs))
        nodes = [node for node in self.graph.nodes() if needed[self._topology.id_of(node)]]
        floats = [node for node in nodes if node.output_count == 1 and node.output.dtype in FLOATS]
        self.constants = [node for node in floats if node.op == "Const"]
        computed = [node for node in floats if node.inputs and node.op not in CONTROL_FLOW]
        self.floats = [node for node in computed if self.runs_once(node) and node not in self.outputs]
        self.inside = [node for node in computed if not self.runs_once(node)]
        self.dead = [name for number, name in self._names() if not needed[number]]

    def _names(self) -> Iterator[tuple[int, str]]:
        return ((number, self._topology.name(number)) for number in self._topology.numbers())

    def runs_once(self, node: Node) -> bool:
        """Whether it stands in no loop and no branch."""
        return self._flow.runs_once(self._topology.id_of(node))

    def above(self, node: Node) -> list[Node]:
        """Returns `node` and the nodes that it depends on."""
        flags = self._topology.upstream([self._topology.id_of(node)])
        return [found for found in self.graph.nodes() if flags[self._topology.id_of(found)]]

    def with_op(self, *ops: str) -> list[Node]:
        """The nodes of OPS, in the order of the file."""
        return [self._topology.node(number) for number in self._topology.with_ops(ops)]

    def scopes(self) -> list[str]:
        """The name scopes at the top, those with most nodes first."""
        counted = Counter(name.partition("/")[0] for name in self.graph.names() if "/" in name)
        return [scope for scope, _ in counted.most_common()]

    def alike(self) -> tuple[Node, Node] | None:
        """Two constants of one dtype and shape."""
        seen: dict[tuple[int, Shape], Node] = {}
        for node in self.constants:
            if not self.runs_once(node) or node.controls:
                continue
            kind = node.output.dtype, stated_shape(node.output)
            if kind in seen:
                return seen[kind], node
            seen[kind] = node
        return None

    def part(self, op: str, dtype: int, gives: int | None = None, names: tuple[str, str] = ("x", "y")) -> str:
        """The path of a graph that makes one tensor of another: of DTYPE, by OP; of the dtype GIVES, by a Cast."""
        taken, made = names
        attrs = {"T": dtype} if gives is None else {"SrcT": dtype, "DstT": gives}
        text = _node(taken, "Placeholder", "", {"dtype": dtype}) + _node(made, op, taken, attrs)
        path = self.folder / "part.pbtxt"
        path.write_text(text)
        return str(path)

    def values(self, **arrays: np.ndarray) -> str:
        """The path of an archive of ARRAYS."""
        path = self.folder / "values.npz"
        np.savez(path, allow_pickle=False, **arrays)
        return str(path)


def _node(name: str, op: str, source: str, attrs: dict[str, int]) -> str:
    """A node of a GraphDef as text."""
    reads = f'input: "{source}"' if source else ""
    said = " ".join(f'attr {{ key: "{key}" value {{ type: {dtype} }} }}' for key, dtype in attrs.items())
    return f'node {{ name: "{name}" op: "{op}" {reads} {said} }}\n'


def middle(nodes: list[Node]) -> Node | None:
    """The one in the middle."""
    return nodes[len(nodes) // 2] if nodes else None
