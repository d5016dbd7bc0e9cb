"""Converts v2 loops and conditionals to version 1, and inlines calls.

The conversion is that of TensorFlow before it runs a graph (lower_while_op.cc, lower_if_op.cc, lower_case_op.cc):
Enter, Merge, Switch, NextIteration and Exit nodes surround the functions of a loop; Switch and Merge nodes surround
branches. Version 1 has no Switch with several outputs, so each branch of a Case has a comparison. The node becomes an
Identity of the results, with its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from gdsurgeon.analysis.checks.check import recursions
from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.inline import inline
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import int_value, string_value, type_value, types_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import BOOL, INT32, base_dtype, dtype_name
from gdsurgeon.ops.kinds import CALLS, CASES, IFS, WHILES
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.ops.releases import Release
from gdsurgeon.wire.protos import AttrValue

LOWERED = WHILES | IFS | CASES | CALLS
MOST_ROUNDS = 1000
"""The largest depth of nested loops and calls; recursive functions are refused earlier."""


def is_needed(ops: AbstractSet[str], release: Release) -> bool:
    """Returns whether the release lacks a loop, a conditional or a call among `ops`; StatelessCase becomes Case."""
    called = {"Case" if op == "StatelessCase" else op for op in ops & LOWERED}
    return any(release.op_def(op) is None for op in called)


def lower(graph: Graph) -> Counter[str]:
    """Lowers all loops, conditionals and calls, including nested ones; returns their number by op.

    Raises:
        EditError: one of them cannot be lowered; the graph is no longer as it was.
    """
    names = used_functions(graph)
    for path in recursions({name: graph.functions.calls(name) for name in names if name in graph.functions}):
        cycle = " -> ".join(map(quoted, path))
        message = f"recursive functions cannot be inlined: {cycle}"
        raise EditError(message, code="recursion", functions=path)
    done: Counter[str] = Counter()
    for _ in range(MOST_ROUNDS):
        topology = topology_of(graph)
        found = [topology.node(number) for number in topology.with_ops(LOWERED)]
        if not found:
            break
        done.update(node.op for node in found if node.op in CALLS)
        for node in found:
            if node.op not in CALLS:
                done[node.op] += 1
                _Lowering(graph, node).carry_out()
        topology = topology_of(graph)
        calls = [topology.node(number) for number in topology.with_ops(CALLS)]
        inline(graph, list(dict.fromkeys(_function(call, "f") for call in calls)))
    return done


def _function(node: Node, key: str) -> str:
    value = node.attr(key)
    return "" if value is None else value.func.name


class _Lowering:
    """Lowers one node, with calls of its functions, which are inlined afterwards."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node
        self.unique = graph.unique_names()
        self.dtypes = [int(dtype) for dtype in node.output_dtypes or ()]

    def carry_out(self) -> None:
        """Makes the node an Identity of its results."""
        form = self._while if self.node.op in WHILES else self._if if self.node.op in IFS else self._case
        results, ends = form()
        keys = [key for key in self.node.attr_keys if not key.startswith("_") or key.startswith("_lower")]
        attrs: dict[str, AttrValue | None] = dict.fromkeys(keys)
        if results:
            attrs["T"] = type_value(self.dtypes[0]) if len(results) == 1 else types_value(self.dtypes)
        op = "NoOp" if not results else "Identity" if len(results) == 1 else "IdentityN"
        self.graph.replace_op(self.node, op, results, attrs)
        self.graph.set_controls(self.node, [*self.node.controls, *ends])

    def _add(
        self, op: str, inputs: Sequence[Output], controls: Sequence[Node] = (), name: str = "", /, **attrs: AttrValue
    ) -> Node:
        """Adds a node; its attr T is the dtype of its first input."""
        definition = op_def(op)
        if inputs and definition is not None and "T" in definition.attrs:
            attrs["T"] = type_value(base_dtype(inputs[0].dtype))
        name = self.unique(f"{self.node.name}/{name or op}")
        return self.graph.add(name, op, inputs, controls, attrs=attrs, device=self.node.device, after=self.node)

    def _call(
        self, name: str, called: AttrValue | None, inputs: Sequence[Output], gives: Sequence[int], *controls: Node
    ) -> Node:
        """Adds a call of the function `called`."""
        assert called is not None
        types = {"Tin": types_value([read.dtype for read in inputs]), "Tout": types_value(gives)}
        return self._add("StatefulPartitionedCall", inputs, controls, name, f=called, **types)

    def _while(self) -> tuple[list[Output], list[Node]]:
        """Returns the Exit nodes of a frame, and further control inputs."""
        node, dtypes = self.node, self.dtypes
        rounds = node.setting("parallel_iterations")
        frame = {"frame_name": string_value(node.name)}
        frame["parallel_iterations"] = int_value(rounds if isinstance(rounds, int) else 10)
        if not dtypes:
            message = f"{quoted(node.name)} is a loop without loop variables, which has no older equivalent"
            raise EditError(message, code="wrong-count", node=node.name, count=0)
        name = _function(node, "cond")
        function = self.graph.functions.get(name)
        given = [arg.type for arg in function.signature.output_arg] if function is not None else []
        if given != [BOOL]:
            found = dtype_name(given[0]) if len(given) == 1 else f"{len(given)} tensors"
            what = f"the condition of the loop {quoted(node.name)} is {found}; a version 1 loop needs a bool"
            raise EditError(what, code="dtype-mismatch", node=node.name, function=name, expected="bool", found=found)
        enters = [self._add("Enter", [read], node.controls, **frame).output for read in node.inputs]
        merges = [self._add("Merge", [enter, enter], N=int_value(2)) for enter in enters]
        going_on = self._call("cond", node.attr("cond"), [merge.output for merge in merges], [BOOL])
        condition = self._add("LoopCond", [going_on.output]).output
        switches = [self._add("Switch", [merge.output, condition]) for merge in merges]
        body = self._call("body", node.attr("body"), [Output(switch, 1) for switch in switches], dtypes)
        exits = [self._add("Exit", [switch.output]).output for switch in switches]
        for index, (enter, merge) in enumerate(zip(enters, merges, strict=True)):
            self.graph.set_inputs(merge, [enter, self._add("NextIteration", [Output(body, index)]).output])
        return exits, []

    def _if(self) -> tuple[list[Output], list[Node]]:
        """Returns the Merge nodes of both branches, and further control inputs."""
        node = self.node
        condition, *inputs = node.inputs
        if condition.dtype != BOOL:
            name, found = condition.name, dtype_name(condition.dtype)
            what = f"the condition {quoted(name)} of {quoted(node.name)} is {found}"
            what += "; a version 1 conditional needs a bool"
            raise EditError(what, code="dtype-mismatch", node=node.name, tensor=name, expected="bool", found=found)
        chosen = self._add("Identity", [condition], node.controls, "pred_id").output
        branches = [(chosen, side, node.attr(key)) for side, key in ((0, "else_branch"), (1, "then_branch"))]
        return self._branches(inputs, branches)

    def _case(self) -> tuple[list[Output], list[Node]]:
        """Returns the same for several branches; an index out of range selects the last branch."""
        node = self.node
        chosen, *inputs = node.inputs
        value = node.attr("branches")
        functions = list(value.list.func) if value is not None else []
        if not functions:
            raise EditError(f"{quoted(node.name)} has no branches", code="wrong-count", node=node.name)
        index = self._add("Identity", [chosen], node.controls, "branch_index")
        meant: list[Output] = []
        for place in range(len(functions) - 1):
            its = {"dtype": type_value(INT32), "value": tensor_value(INT32, (), [place])}
            known = self._add("Const", [], [index], f"branch_{place}/place", **its)  # in its frame
            meant.append(self._add("Equal", [index.output, known.output], (), f"branch_{place}/is_it").output)
        if not meant:
            meant.append(self._add("Equal", [index.output, index.output], (), "always").output)
        else:
            is_one = meant[0]
            for each in meant[1:]:
                is_one = self._add("LogicalOr", [is_one, each], (), "is_one").output
            meant.append(self._add("LogicalNot", [is_one], (), "is_none").output)
        return self._branches(inputs, [(at, 1, AttrValue(func=f)) for at, f in zip(meant, functions, strict=True)])

    def _branches(
        self, inputs: Sequence[Output], branches: Sequence[tuple[Output, int, AttrValue | None]]
    ) -> tuple[list[Output], list[Node]]:
        """Returns the results of the branch that runs, and a node that runs after it.

        Args:
            inputs: the inputs of each branch.
            branches: for each branch a condition, 1 if the branch runs when the condition is true and 0 otherwise, and
                the function.
        """
        count = int_value(len(branches))
        switched: dict[Output, list[Node]] = {}
        calls: list[Node] = []
        ends: list[Output] = []
        for at, (condition, side, function) in enumerate(branches):
            if condition not in switched:
                switched[condition] = [self._add("Switch", [read, condition]) for read in (condition, *inputs)]
            pivot, *given = [Output(switch, side) for switch in switched[condition]]
            runs = self._add("Identity", [pivot], (), f"branch_{at}/pivot")
            calls.append(self._call(f"branch_{at}", function, given, self.dtypes, runs))
            ends.append(self._add("Identity", [runs.output], [calls[-1]], f"branch_{at}/done").output)
        done = self._add("Merge", ends, (), "done", N=count)
        results = [[Output(call, index) for call in calls] for index in range(len(self.dtypes))]
        return [self._add("Merge", reads, N=count).output for reads in results], [done]
