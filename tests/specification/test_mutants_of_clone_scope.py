"""Mistakes planted in clone-scope and in what copies nodes inside a graph: each is found without running anything."""

from __future__ import annotations

import pytest
from support import function_savers
from support.cloning import KEYS, layer, table, variable
from support.graphs import FLOAT, INT32, X, add, call, define, graph, identity, library, neg, node, placeholder, scalar
from support.mutants import Mutant, check_caught
from support.trained_model import opened
from support.v1_control_flow import LOOP

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.graph.graph import Graph

CLONE, PLAN, NAMES = "edits.clone_scope", "edits.copying.copy_nodes", "edits.copying.fresh_names"
COPY = "edits.copying.node_copy"
BESIDE, GROWTH, LEFT = "edits.cloning.beside", "edits.cloning.growth", "edits.cloning.left_out"
OUTSIDE, NEW, UNUSED = "edits.cloning.outside", "edits.cloning.new_saver", "edits.functions.unused"
TRAINING = "analysis.queries.training"
COPIES, MERGE = "edits.functions.copies", "edits.functions.merge"


def of_a_layer() -> tuple[Graph, EditResult]:
    """A layer with a device, control edges and colocations, a node called as the scope, and scopes called alike."""
    found = graph(
        X, placeholder("z", FLOAT, (4,)), scalar("axis", 0, INT32),
        node("parts", "Split", ["axis", "z"], T=FLOAT, num_split=2), node("ready", "NoOp"), *layer("s", "x"),
        *layer("s_2", "x"),
        add("s/sum", "s/add", "x", "^s/b", "^ready", device="/cpu:0", _class=["loc:@s/w", "loc:@x"]),
        neg("s", "s/sum"), node("s/mark", "NoOp", ["^s/sum"]), neg("y", "s/sum"),
    )  # fmt: skip
    return found, clone_scope(found, "s", "t", inputs=[("x", "parts:1")])


def beside_another() -> tuple[Graph, EditResult]:
    found = graph(X, *layer("s", "x"), neg("s_2", "s/add"))
    return found, clone_scope(found, "s", "t")


def sharing() -> tuple[Graph, EditResult]:
    found = graph(X, *layer("s", "x"), neg("y", "s/add"))
    return found, clone_scope(found, "s", "t", share=["s/w"])


def in_use() -> tuple[Graph, EditResult]:
    found = graph(X, *layer("s", "x"), *layer("t", "x"), neg("t_1", "x"), neg("y", "s/add"))
    return found, clone_scope(found, "s", "t", unique=True)


def of_a_table() -> tuple[Graph, EditResult]:
    found = graph(KEYS, *table("s", "kept", "init"), identity("y", "s/find"))
    return found, clone_scope(found, "s", "t")


def of_a_common_table() -> tuple[Graph, EditResult]:
    handles = [*table("s", "kept", "s/init"), *table("others", "kept", "init")]
    found = graph(KEYS, *handles, identity("y", "s/find"))
    return found, clone_scope(found, "s", "t")


def of_a_variable() -> tuple[Graph, EditResult]:
    found = graph(X, *variable("s", "init"), neg("other", "init/value"), identity("y", "s/mul"))
    return found, clone_scope(found, "s", "t")


def of_a_loop() -> tuple[Graph, EditResult]:
    found = graph(*LOOP, scalar("other", 10))
    return found, clone_scope(found, "w", "v", inputs=[("start", "other")])


def trained() -> tuple[Graph, EditResult]:
    found = opened()
    return found, clone_scope(found, "net", "copy")


def trained_with_slots() -> tuple[Graph, EditResult]:
    found = opened()
    return found, clone_scope(found, "net", "copy", with_slots=True)


def of_calls() -> tuple[Graph, EditResult]:
    found = function_savers.model()
    return found, clone_scope(found, "net", "copy")


def of_all() -> tuple[Graph, EditResult]:
    found = function_savers.model()
    return found, clone_scope(found, "net", "copy", variables="all")


def of_a_saver_that_computes() -> tuple[Graph, EditResult]:
    """What saves calls the function that the network calls, too."""
    found = function_savers.model(saving="compute")
    return found, clone_scope(found, "net", "copy")


def with_shared_variables() -> tuple[Graph, EditResult]:
    found = opened()
    return found, clone_scope(found, "net", "copy", variables="share")


def of_nameless_variables() -> tuple[Graph, EditResult]:
    found = graph(
        X, node("s/v", "VarHandleOp", dtype=FLOAT, shape=(2,)), node("s/read", "ReadVariableOp", ["s/v"], dtype=FLOAT),
        node("s/set", "AssignVariableOp", ["s/v", "x"], dtype=FLOAT), neg("y", "s/read"),
    )  # fmt: skip
    return found, clone_scope(found, "s", "t")


def of_a_temporary_variable() -> tuple[Graph, EditResult]:
    found = graph(
        X, node("s/tmp", "TemporaryVariable", dtype=FLOAT, shape=(2,), var_name=""),
        node("s/set", "Assign", ["s/tmp", "x"], T=FLOAT),
        node("s/end", "DestroyTemporaryVariable", ["s/set"], T=FLOAT, var_name="s/tmp"), neg("y", "s/end"),
    )  # fmt: skip
    return found, clone_scope(found, "s", "t")


def of_functions() -> tuple[Graph, EditResult]:
    """A call of a function that calls one that holds a variable."""
    holding = define(
        "count", {"x": FLOAT}, {"o": (FLOAT, "get:value:0")},
        node("h", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="counter"),
        node("set", "AssignVariableOp", ["h:resource:0", "x"], dtype=FLOAT),
        node("get", "ReadVariableOp", ["h:resource:0", "^set"], dtype=FLOAT), effects=["set", "get"], stateful=True,
    )  # fmt: skip
    inner = call("c", "count", ["x"], [FLOAT], [FLOAT], stateful=True)
    outer = define("outer", {"x": FLOAT}, {"o": (FLOAT, "c:output:0")}, inner, effects=["c"], stateful=True)
    plain = define("plain", {"x": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "x"))
    found = graph(
        X, call("s/a", "outer", ["x"], [FLOAT], [FLOAT], stateful=True),
        call("s/b", "plain", ["s/a"], [FLOAT], [FLOAT]), identity("y", "s/b"), library(holding, outer, plain),
    )  # fmt: skip
    return found, clone_scope(found, "s", "t")


MUTANTS = [
    Mutant("the node named like the scope is left out", CLONE, "list(under_scope(topology, source))",
           "[n for n in under_scope(topology, source) if topology.name(n) != source]", of_a_layer),
    Mutant("a scope takes in names that only begin like it", CLONE, "list(under_scope(topology, source))",
           "[n for n in topology.numbers() if topology.name(n).startswith(source)]", beside_another),
    Mutant("the copies' names lose their first part", CLONE, "return after + name[len(before) :]",
           "return after + name[len(before) :].rpartition('/')[2] + '_'", of_a_layer),
    Mutant("--input OLD=NEW:1 reads NEW:0", CLONE, "        out[old] = new\n",
           "        out[old] = Output(new.node, 0)\n", of_a_layer),
    Mutant("--input is not looked at", CLONE, "        out[old] = new\n", "        out[old] = old\n", of_a_layer),
    Mutant("--input is exchanged", CLONE, "        out[old] = new\n", "        out[new] = old\n", of_a_layer),
    Mutant("weights are shared", CLONE, "shared = _shared(topology, nodes, share)",
           "shared = {node for node in nodes if node.op == 'Const'}", of_a_layer),
    Mutant("--share is not looked at", CLONE, "shared = _shared(topology, nodes, share)", "shared = set()", sharing),
    Mutant("--share takes all constants", CLONE, "found = [node for node in nodes if search(node.name)]",
           "found = [node for node in nodes if node.op == 'Const']", sharing),
    Mutant("a scope in use is cloned into", CLONE, '    return free + "/"\n', '    return stem + "_1/"\n', in_use),
    Mutant("initialisers outside of the scope are not cloned", CLONE,
           "    assigned = _initialisers(topology, own, left)", "    assigned = []", of_a_table),
    Mutant("of the initialisers only the assignments are cloned", CLONE,
           "    assigned = _initialisers(topology, own, left)",
           "    assigned = [n for n in _initialisers(topology, own, left) if n.op in ASSIGNMENTS]", of_a_variable),
    Mutant("initialisers are found for tables only", "analysis.queries.initialisers",
           "if first == holder and topology.op(user) in ASSIGNMENTS:",
           "if first == holder and topology.op(user) != 'Assign' and topology.op(user) in ASSIGNMENTS:", of_a_variable),
    Mutant("what others use of the initialisers is cloned too", "analysis.traversal.walks",
           "            if not waiting[producer]:\n", "            if True:\n", of_a_variable),
    Mutant("copies read the originals", COPY,
           "self.graph.set_inputs(copy, [self.output(read) for read in node.inputs])",
           "self.graph.set_inputs(copy, node.inputs)", of_a_layer),
    Mutant("copies read output 0 of what they read", COPY,
           "return original if node is None else Output(node, original.index)",
           "return original if node is None else Output(node, 0)", of_a_loop),
    Mutant("copies read their inputs backwards", COPY, "[self.output(read) for read in node.inputs])",
           "[self.output(read) for read in node.inputs[::-1]])", of_a_layer),
    Mutant("control edges are lost", COPY, "            if node.controls:\n", "            if False:\n", of_a_layer),
    Mutant("control edges lead to the originals", COPY, "[self.node(control) for control in node.controls]",
           "node.controls", of_a_layer),
    Mutant("control edges from outside are lost", COPY, "[self.node(control) for control in node.controls]",
           "[self.nodes[control] for control in node.controls if control in self.nodes]", of_a_layer),
    Mutant("colocations are lost", COPY, "if node.attr_bytes(COLOCATION_ATTR) or node.colocated:", "if False:",
           of_a_layer),
    Mutant("copies stand beside the originals", COPY,
           "[self.node(other) for other in node.colocated if other.exists]",
           "[other for other in node.colocated if other.exists]", of_a_layer),
    Mutant("frames are shared", PLAN, "fresh_frame_names(top, frame_names(originals), spelling)", "{}", of_a_loop),
    Mutant("only the first Enter of a loop gets the new frame", COPY, "        for key, text in spelt.items():\n",
           "        for key, text in spelt.items() if not node.name.endswith('limit') else ():\n", of_a_loop),
    Mutant("shared names are shared", COPY, "        for key, text in spelt.items():\n",
           "        for key, text in spelt.items() if 'shared_name' not in spelt else ():\n", of_a_table),
    Mutant("a common table becomes the clone's own", PLAN, "- outside\n", "\n", of_a_common_table),
    Mutant("variables without a name are shared", PLAN, "nameless_variables(names) | clashing_node_names(top, names)",
           "{}", of_nameless_variables),
    Mutant("temporary variables are shared", PLAN, "{old: spelling(old) for old in temporary_variables(originals)}",
           "{}", of_a_temporary_variable),
    Mutant("the end of a temporary variable is the original's", NAMES, "if temporary and node.op in TEMPORARY and",
           "if temporary and node.op == 'TemporaryVariable' and", of_a_temporary_variable),
    Mutant("functions that hold a variable are shared", PLAN,
           "plan_function_copies(graph.functions, originals, shared)",
           "plan_function_copies(graph.functions, [], shared)", of_functions),
    Mutant("the copied function keeps the original's variable", COPIES,
           "respell_shared_names([respelt(library[name], renamed) for name in renamed], shared)",
           "[respelt(library[name], renamed) for name in renamed]", of_functions),
    Mutant("callers of a function with a variable are not copied", COPIES,
           "library.reaching(name for name in called if any(held in shared for held in _shared_names(library[name])))",
           "{name for name in called if any(held in shared for held in _shared_names(library[name]))}", of_functions),
    Mutant("copied functions call the originals", MERGE, "    respell_body(copy, renamed)\n    return copy",
           "    return copy", of_functions),
    Mutant("copied calls call the originals", COPY, "            if self.functions:\n", "            if False:\n",
           of_functions),
    Mutant("no function is thought to hold a name", COPIES,
           "if SHARED_NAME in node.attr and node.attr[SHARED_NAME].s\n    ]", "if not node.attr\n    ]", of_functions),
    Mutant("slots are cloned", LEFT, "kept = [] if with_slots else slots(topology, numbers)", "kept = []", trained),
    Mutant("slots are never cloned", LEFT, "kept = [] if with_slots else slots(topology, numbers)",
           "kept = slots(topology, numbers)", trained_with_slots),
    Mutant("what needs a slot is cloned", TRAINING, "if inside[user] and user not in found and", "if not user and",
           trained),
    Mutant("clones wait for what initialises slots", LEFT,
           "if any(control in self.nodes for control in node.controls):", "if False:", trained),
    Mutant("variables are not shared", LEFT, "if shares:", "if False:", with_shared_variables),
    Mutant("shared variables are initialised twice", LEFT, "gone |= own | first_values(topology, own, inside)",
           "gone |= own", with_shared_variables),
    Mutant("the saver is cloned", LEFT,
           "saver_nodes(topology) | (saver_behind(topology, files) if files else set())", "set()", trained),
    Mutant("the clone is restored from the original's key", BESIDE, "self.replaced = given(self._grown)",
           "self.replaced = {}", trained),
    Mutant("the clones are restored from each other's keys", GROWTH,
           "Output(growth.op, growth.had + number)", "Output(growth.op, growth.had + len(growth.places) - 1 - number)",
           trained),
    Mutant("the clone is saved as the original is", GROWTH, "more = [copied.output(place.held) for place",
           "more = [place.held for place", trained),
    Mutant("the clone has the original's key", BESIDE, "return after + key.removeprefix(before)", "return key",
           trained),
    Mutant("shapes that are no longer so are stated", GROWTH, "if node.has_attr(STATED_SHAPES):", "if False:", trained),
    Mutant("what restores does not wait for the clone", BESIDE,
           "graph.set_controls(group, [*group.controls, *(copied.nodes[node] for node in originals)])", "pass",
           trained),
    Mutant("what copies a variable into another initialises", BESIDE,
           "any(below[topology.id_of(read.node)] for read in node.inputs[1:])", "False", trained),
    Mutant("variables that calls are given are shared", OUTSIDE, "if is_call(node.op, topology.graph)]", "if False]",
           of_calls),
    Mutant("of what is given to calls all variables are cloned", OUTSIDE,
           "_above(topology, calls, without, PASSES_ON, RES", "_above(topology, nodes, without, VARIABLE_READS, RES",
           of_calls),
    Mutant("variables that are read elsewhere are shared", OUTSIDE, 'if which == "clone":', "if True:", of_all),
    Mutant("what reads a variable is shared", OUTSIDE, "leads.update((number, found) for number in path)",
           "leads[path[-1]] = found", of_all),
    Mutant("variables that nodes outside read are shared", OUTSIDE, "PASSES_ON | VARIABLE_READS, var",
           "PASSES_ON, var", of_all),
    Mutant("a clone is not restored", NEW, "keys = self._saved | clones", "keys = clones | self._saved", of_calls),
    Mutant("originals are not restored", NEW, "keys = self._saved | clones",
           "keys = {n: k for n, k in self._saved.items() if n in self._clones} | clones", of_calls),
    Mutant("the clone has the key of the original", NEW, "unique(spelt(tensor))", "tensor", of_calls),
    Mutant("two are saved under one key", NEW, "key.tensor if key not in seen else unique(node.name)", "key.tensor",
           of_calls),
    Mutant("slices are forgotten", NEW, "key._replace(tensor=new[tensor])", "Key(new[tensor])", of_all),
    Mutant("the old saver stays", NEW, "        graph.remove(self._gone)\n", "        intent.removed.clear()\n",
           of_calls),
    Mutant("its functions stay", NEW, "= drop_left(graph, functions)", "= []", of_calls),
    Mutant("functions that are still called go with it", UNUSED, "sorted(lost - used_functions(graph) - ",
           "sorted(lost - ", of_a_saver_that_computes),
    Mutant("a copy loses its device", "graph.graph", "        node.device_override = original.device_override\n",
           "        node.device_override = ''\n", of_a_layer),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
