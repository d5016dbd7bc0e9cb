"""Converts v2 loops and conditionals to version 1, and inlines calls.

The conversion is that of TensorFlow before it runs a graph (lower_while_op.cc, lower_if_op.cc, lower_case_op.cc):
Enter, Merge, Switch, NextIteration and Exit nodes surround the functions of a loop; Switch and Merge nodes surround
branches. Version 1 has no Switch with several outputs, so each branch of a Case has a comparison. The node becomes an
Identity of the results, with its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gdsurgeon.analysis.checks.check import recursions
from gdsurgeon.analysis.queries.usage import used_functions
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.inline import inline
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import func_value, int_value, string_value, type_value, types_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import BOOL, INT32, dtype_name
from gdsurgeon.ops.kinds import CALLS, CASES, IFS, WHILES
from gdsurgeon.ops.releases import Release
from gdsurgeon.wire.protos import AttrValue

LOWERED = WHILES | IFS | CASES | CALLS
MOST_ROUNDS = 1000
"""The largest depth of nested loops and calls; recursive functions are refused earlier."""


def is_needed(graph: Graph, release: Release) -> bool:
    """Returns whether `graph`, or a function that it uses, has a loop, a conditional or a call that the
    release lacks.
    """
    unknown = {op for op in LOWERED if release.op_def(op) is None}
    if release.op_def("Case") is not None:
        unknown.discard("StatelessCase")  # which is one that says that its functions do nothing but compute
    if not unknown:
        return False
    library = graph.functions
    inner = (node.op for name in used_functions(graph) if name in library for node in library[name].node_def)
    return not unknown.isdisjoint(topology_of(graph).ops()) or not unknown.isdisjoint(inner)


def lower(graph: Graph) -> Counter[str]:
    """Lowers all loops, conditionals and calls, including nested ones; returns their number by op.

    Raises:
        EditError: one of them cannot be lowered; the graph is no longer as it was.
    """
    names = used_functions(graph)
    for path in recursions({name: graph.functions.calls(name) for name in names if name in graph.functions}):
        cycle = " -> ".join(map(quoted, path))
        message = f"recursive functions cannot be inlined: {cycle}"
        raise EditError(message, code="recursion", facts={"functions": path})
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
        controls = [*self.node.controls, *ends]
        keys = [key for key in self.node.attr_keys if not key.startswith("_") or key.startswith("_lower")]
        for key in keys:
            self.graph.set_attr(self.node, key, None)
        op = "NoOp" if not results else "Identity" if len(results) == 1 else "IdentityN"
        self.graph.set_op(self.node, op)
        self.graph.set_inputs(self.node, results)
        self.graph.set_controls(self.node, controls)
        if results:
            value = type_value(self.dtypes[0]) if len(results) == 1 else types_value(self.dtypes)
            self.graph.set_attr(self.node, "T", value.SerializeToString(deterministic=True))

    def _add(
        self, name: str, op: str, inputs: Sequence[Output], controls: Sequence[Node] = (), **attrs: AttrValue
    ) -> Node:
        data = {key: value.SerializeToString(deterministic=True) for key, value in attrs.items()}
        name = self.unique(f"{self.node.name}/{name}")
        return self.graph.add(name, op, inputs, controls, attrs=data, device=self.node.device, after=self.node)

    def _call(
        self,
        key: str,
        inputs: Sequence[Output],
        gives: Sequence[int],
        controls: Sequence[Node] = (),
        called: AttrValue | None = None,
    ) -> Node:
        """Adds a call of the function in the attr `key`, or of `called`."""
        value = called if called is not None else self.node.attr(key)
        assert value is not None
        taken = types_value([read.dtype for read in inputs])
        return self._add(key, "StatefulPartitionedCall", inputs, controls, f=value, Tin=taken, Tout=types_value(gives))

    def _while(self) -> tuple[list[Output], list[Node]]:
        """Returns the Exit nodes of a frame, and further control inputs."""
        node, dtypes = self.node, self.dtypes
        rounds = node.setting("parallel_iterations")
        frame = {"frame_name": string_value(node.name)}
        frame["parallel_iterations"] = int_value(rounds if isinstance(rounds, int) else 10)
        if not dtypes:
            message = f"{quoted(node.name)} is a loop without loop variables, which has no older equivalent"
            raise EditError(message, code="wrong-count", facts={"node": node.name, "count": 0})
        types = [type_value(dtype) for dtype in dtypes]
        enters = [self._add("Enter", "Enter", [read], node.controls, T=t, **frame)
                  for read, t in zip(node.inputs, types, strict=True)]  # fmt: skip
        merges = [self._add("Merge", "Merge", [enter.output, enter.output], T=t, N=int_value(2))
                  for enter, t in zip(enters, types, strict=True)]  # fmt: skip
        going_on = self._call("cond", [merge.output for merge in merges], [self._condition_dtype()])
        condition = self._add("LoopCond", "LoopCond", [going_on.output])
        switches = [self._add("Switch", "Switch", [merge.output, condition.output], T=t)
                    for merge, t in zip(merges, types, strict=True)]  # fmt: skip
        body = self._call("body", [Output(switch, 1) for switch in switches], dtypes)
        exits = [self._add("Exit", "Exit", [switch.output], T=t) for switch, t in zip(switches, types, strict=True)]
        for index, (enter, merge, t) in enumerate(zip(enters, merges, types, strict=True)):
            back = self._add("NextIteration", "NextIteration", [Output(body, index)], T=t)
            self.graph.set_inputs(merge, [enter.output, back.output])
        return [exit_.output for exit_ in exits], []

    def _condition_dtype(self) -> int:
        """Returns the dtype of the condition, which must be bool."""
        name = _function(self.node, "cond")
        function = self.graph.functions.get(name)
        given = list(function.signature.output_arg) if function is not None else []
        if len(given) != 1 or given[0].type != BOOL:
            what = dtype_name(given[0].type) if len(given) == 1 else f"{len(given)} tensors"
            raise EditError(
                f"the condition of the loop {quoted(self.node.name)} is {what}; a version 1 loop needs a bool",
                code="dtype-mismatch",
                facts={"node": self.node.name, "function": name, "expected": "bool", "found": what},
            )
        return BOOL

    def _if(self) -> tuple[list[Output], list[Node]]:
        """Returns the Merge nodes of both branches, and further control inputs."""
        node = self.node
        condition, *inputs = node.inputs
        if condition.dtype != BOOL:
            found = dtype_name(condition.dtype)
            what = f"the condition {quoted(condition.name)} of {quoted(node.name)} is {found}"
            facts = {"node": node.name, "tensor": condition.name, "expected": "bool", "found": found}
            message = f"{what}; a version 1 conditional needs a bool"
            raise EditError(message, code="dtype-mismatch", facts=facts)
        truth = type_value(BOOL)
        decided = self._add("pred_id", "Identity", [condition], node.controls, T=truth)
        pivot = self._add("Switch", "Switch", [decided.output, decided.output], T=truth)
        switches = [self._add("Switch", "Switch", [read, decided.output], T=type_value(read.dtype)) for read in inputs]
        sides = []
        for side, key in ((0, "else_branch"), (1, "then_branch")):
            runs = self._add(f"{key}/pivot", "Identity", [Output(pivot, side)], T=truth)
            call = self._call(key, [Output(switch, side) for switch in switches], self.dtypes, [runs])
            sides.append((call, self._over(key, runs, call)))
        return self._merged(sides)

    def _case(self) -> tuple[list[Output], list[Node]]:
        """Returns the same for several branches; an index out of range selects the last branch."""
        node = self.node
        chosen, *inputs = node.inputs
        value = node.attr("branches")
        functions = list(value.list.func) if value is not None else []
        if not functions:
            raise EditError(f"{quoted(node.name)} has no branches", code="wrong-count", facts={"node": node.name})
        truth, number = type_value(BOOL), type_value(INT32)
        index = self._add("branch_index", "Identity", [chosen], node.controls, T=number)
        others: list[Output] = []
        sides = []
        for place, function in enumerate(functions):
            key = f"branch_{place}"
            if place < len(functions) - 1:
                its = tensor_value(INT32, (), [place])
                known = self._add(f"{key}/place", "Const", [], [index], dtype=number, value=its)  # in the frame of that
                meant = self._add(f"{key}/is_it", "Equal", [index.output, known.output], T=number).output
                others.append(meant)
            else:
                meant = self._is_none_of(others, index)
            pivot = self._add(f"{key}/Switch", "Switch", [meant, meant], T=truth)
            runs = self._add(f"{key}/pivot", "Identity", [Output(pivot, 1)], T=truth)
            given = [Output(self._add(f"{key}/Switch", "Switch", [read, meant], T=type_value(read.dtype)), 1)
                     for read in inputs]  # fmt: skip
            called = func_value("")
            called.func.CopyFrom(function)
            call = self._call(key, given, self.dtypes, [runs], called)
            sides.append((call, self._over(key, runs, call)))
        return self._merged(sides)

    def _is_none_of(self, others: Sequence[Output], index: Node) -> Output:
        """Returns the tensor that is true if no one of `others` is true."""
        if not others:
            return self._add("always", "Equal", [index.output, index.output], T=type_value(INT32)).output
        one = others[0]
        for other in others[1:]:
            one = self._add("is_one", "LogicalOr", [one, other]).output
        return self._add("is_none", "LogicalNot", [one]).output

    def _over(self, key: str, runs: Node, call: Node) -> Node:
        """Adds a node that runs after a branch."""
        return self._add(f"{key}/done", "Identity", [runs.output], [call], T=type_value(BOOL))

    def _merged(self, sides: Sequence[tuple[Node, Node]]) -> tuple[list[Output], list[Node]]:
        """Returns the results of the branch that runs, and a node that runs after it; `sides`: the calls with these
        nodes.
        """
        count = int_value(len(sides))
        done = self._add("done", "Merge", [over.output for _, over in sides], T=type_value(BOOL), N=count)
        merges = [
            self._add("Merge", "Merge", [Output(call, index) for call, _ in sides], T=type_value(dtype), N=count)
            for index, dtype in enumerate(self.dtypes)
        ]
        return [merge.output for merge in merges], [done]
