"""Random edits at once return the same bytes as one by one, and are proven if each of them is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support import every_edit, graphs
from support.graphs import FLOAT
from support.paths import FIXTURES
from support.several import Edit, carried_out, proven_pieces

import gdsurgeon as gds
from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.edits.functions import in_functions
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import placeholder_shape
from gdsurgeon.ops.dtypes import FLOAT32
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.pieces import Joined, joined_steps
from gdsurgeon.proof.proof import DiffersError
from gdsurgeon.select import Selection

Draw = Callable[[Graph, random.Random], Edit]


def random_graph(rng: random.Random) -> bytes:
    """Some ops on vectors of four floats, with constants, control edges, colocations and a function."""
    records = [graphs.placeholder("x", FLOAT, (4,)), graphs.placeholder("s/y", FLOAT, (4,))]
    names = ["x", "s/y"]
    for number in range(rng.randrange(4, 14)):
        name = rng.choice(["", "s/", "s/t/"]) + f"n{number}"
        kind = rng.choice(["Const", "Neg", "Identity", "Sub", "Mul", "Relu", "call"])
        controls = [f"^{rng.choice(names)}"] if rng.random() < 0.2 else []
        inputs = [rng.choice(names), rng.choice(names)]
        if kind == "Const":
            records.append(graphs.const(name, [rng.randrange(-4, 9) for _ in range(4)]))
        elif kind == "call":
            types = graphs.dtypes(FLOAT)
            call = graphs.node(name, "PartitionedCall", inputs[:1], f=graphs.func("F"), Tin=types, Tout=types)
            records.append(call)
        else:
            read = inputs if kind in ("Sub", "Mul") else inputs[:1]
            records.append(graphs.typed(kind, name, *read, *controls))
        names.append(name)
    records.append(graphs.typed("Sub", "end", names[-1], names[-2]))
    body = graphs.function("F", graphs.neg("a", "x"), graphs.typed("Abs", "y", "a:y:0"))
    return graphs.graph_bytes(*records, trailer=graphs.library(body) + graphs.VERSIONS)


def part(source: str, result: str, shape: Shape, op: str) -> Graph:
    """A graph that gives floats of the shape that it takes."""
    placeholder = graphs.placeholder(source, FLOAT, shape)
    constant = graphs.scalar("part_constant", 3)
    inner = graphs.typed("Mul", "part_inner", source, "part_constant")
    last = graphs.typed(op, result, "part_inner")
    return from_bytes(graphs.graph_bytes(placeholder, constant, inner, last), "part.pb")


def _nodes(graph: Graph, rng: random.Random, count: int) -> list[str]:
    return [node.name for node in rng.sample(list(graph.nodes()), min(count, graph.node_count))]


def _float(graph: Graph, rng: random.Random) -> str:
    return rng.choice([o for node in graph.nodes() for o in node.outputs if o.dtype == FLOAT32]).name


def _rename(graph: Graph, rng: random.Random) -> Edit:
    nodes = _nodes(graph, rng, 3)
    scopes = [name.rpartition("/")[0] for name in nodes]
    numbers = [rng.randrange(99) for _ in nodes]
    pairs = [(n, f"{s}/m{i}" if s else f"m{i}") for n, s, i in zip(nodes, scopes, numbers, strict=True)]
    if rng.random() < 0.4:
        pairs = [(nodes[0], nodes[-1]), (nodes[-1], nodes[0])]
    return lambda g: gds.rename(g, pairs)


def _rename_scope(graph: Graph, rng: random.Random) -> Edit:
    scopes = sorted({node.name.partition("/")[0] for node in graph.nodes() if "/" in node.name}) or ["none"]
    pair = (rng.choice(scopes), f"scope{rng.randrange(9)}")
    return lambda g: gds.rename(g, scopes=[pair])


def _device(graph: Graph, rng: random.Random) -> Edit:
    nodes = _nodes(graph, rng, 1)
    if rng.random() < 0.3:
        return lambda g: gds.set_device(g, clear=True)
    return lambda g: gds.set_device(g, device="/cpu:0", nodes=nodes)


def _control(graph: Graph, rng: random.Random) -> Edit:
    waiting = [(node.name, f"^{c.name}") for node in graph.nodes() for c in node.controls]
    one, other = (*_nodes(graph, rng, 1), *_nodes(graph, rng, 1))
    if waiting and rng.random() < 0.5:
        removed = rng.choice(waiting)
        return lambda g: gds.control_edges(g, remove=[removed])
    return lambda g: gds.control_edges(g, add=[(one, f"^{other}")])


def _insert(graph: Graph, rng: random.Random) -> Edit:
    tensor, op = _float(graph, rng), rng.choice(["Neg", "Identity", "Abs"])
    return lambda g: gds.insert(g, tensor, part("given", "made", None, op))


def _import(graph: Graph, rng: random.Random) -> Edit:
    tensor, scope = _float(graph, rng), rng.choice(["", f"beside{rng.randrange(9)}"])
    return lambda g: gds.import_graph(g, part("given", "made", None, "Neg"), connect=[(tensor, "given")], scope=scope)


def _front(graph: Graph, rng: random.Random) -> Edit:
    node = rng.choice(input_nodes(graph))
    name, shape = node.name, placeholder_shape(node)
    return lambda g: gds.add_preprocessing(g, part(name, f"{name}_preprocessed", shape, "Neg"))


def _behind(graph: Graph, rng: random.Random) -> Edit:
    name = rng.choice(output_nodes(graph)).name
    return lambda g: gds.add_postprocessing(g, part(name, f"{name}_postprocessed", None, "Neg"))


def _freeze(graph: Graph, rng: random.Random) -> Edit:
    node = rng.choice([n for n in graph.nodes() if n.op in ("Const", "Placeholder")])
    value: object = [float(rng.randrange(-3, 4)) for _ in range(4)]
    if node.op == "Placeholder":
        value = rng.randrange(1, 5)
        for dim in reversed(placeholder_shape(node) or ()):
            value = [value] * abs(dim)
    name, text = node.name, str(value)
    return lambda g: gds.freeze_input(g, {name: text})


def _bypass(graph: Graph, rng: random.Random) -> Edit:
    names = tuple(_nodes(graph, rng, rng.choice([1, 1, 2])))
    return lambda g: gds.remove(g, Selection(nodes=names), bypass=True, allow_outputs=True)


def _remove(graph: Graph, rng: random.Random) -> Edit:
    name = rng.choice([node.name for node in graph.nodes() if not graph.users(node)])
    return lambda g: gds.remove(g, Selection(nodes=(name,)), allow_outputs=True)


def _extract(graph: Graph, rng: random.Random) -> Edit:
    ends = [*_nodes(graph, rng, 1), rng.choice(output_nodes(graph)).name]
    starts = [_float(graph, rng)] if rng.random() < 0.5 else []
    return lambda g: gds.extract(g, starts, ends)


def _note(graph: Graph, rng: random.Random) -> Edit:
    names = tuple(_nodes(graph, rng, 1))
    return lambda g: gds.set_attr(g, Selection(nodes=names), [("_note:string", "a")])


def _reroute(graph: Graph, rng: random.Random) -> Edit:
    pair = _float(graph, rng), _float(graph, rng)
    return lambda g: gds.reroute(g, [pair])


def _fuse(graph: Graph, rng: random.Random) -> Edit:
    names, number = tuple(_nodes(graph, rng, 2)), rng.randrange(99)
    return lambda g: gds.fuse_ops(g, Selection(nodes=names), f"fused{number}")


def _shape(graph: Graph, rng: random.Random) -> Edit:
    node = rng.choice(input_nodes(graph))
    name = node.name
    wanted = tuple(rng.choice([dim, -1, abs(dim)]) for dim in placeholder_shape(node) or ())
    return lambda g: gds.set_shape(g, [(name, wanted)], batch_check=False)


def _in_function(graph: Graph, rng: random.Random) -> Edit:
    function = rng.choice([f for f in graph.functions]).signature.name  # noqa: C416
    pair = rng.choice([node.name for node in graph.functions[function].node_def]), f"inner{rng.randrange(99)}"
    return lambda g: in_functions(g, [function], lambda body: gds.rename(body, [pair]))


DRAWS: dict[str, Draw] = {
    "rename": _rename, "rename --rename-scope": _rename_scope, "set-device": _device, "control-edges": _control,
    "insert": _insert, "import": _import, "add-preprocessing": _front, "add-postprocessing": _behind,
    "freeze-input": _freeze,
    "remove --bypass": _bypass, "remove": _remove, "extract": _extract, "set-attr": _note, "reroute": _reroute,
    "inline": lambda _graph, _rng: gds.inline, "fuse-ops": _fuse, "set-shape": _shape, "rename --in": _in_function,
}  # fmt: skip


def drawn(model: bytes, kinds: Sequence[tuple[str, int]]) -> tuple[list[tuple[str, Edit]], bytes]:
    """Edits of KINDS (each with a seed) that can be made of MODEL one after the other, and what they make of it."""
    done: list[tuple[str, Edit]] = []
    at = model
    for kind, seed in kinds:
        try:
            edit = DRAWS[kind](from_bytes(at, "model.pb"), random.Random(seed))
        except IndexError:  # there is nothing to choose from
            continue
        graph = from_bytes(at, "model.pb")
        try:
            edit(graph)
        except GdsurgeonError:
            continue
        at = graphs.written(graph)
        done.append((kind, edit))
    return done, at


QUICKLY = (Phase.explicit, Phase.reuse, Phase.generate)
"""To find the smallest example takes long where TensorFlow runs each."""
KINDS = st.lists(st.tuples(st.sampled_from(sorted(DRAWS)), st.integers(0, 999)), min_size=3, max_size=8)
MODELS = ("control_edges.pb", "functions_tf2.pb", "while_v1.pb", "classifier.pb", "every edit")


@cache
def model(name: str) -> bytes:
    if name == "every edit":
        return every_edit.built(every_edit.model)
    return (FIXTURES / name).read_bytes()


def check_same(data: bytes, kinds: list[tuple[str, int]]) -> None:
    done, wanted = drawn(data, kinds)
    if not done:
        return
    steps = carried_out(data, [edit for _, edit in done])
    assert graphs.written(steps[-1].after) == wanted
    assert len(steps) == len(done)


@settings(max_examples=150)
@given(st.integers(0, 9999), KINDS)
def test_random_edits_of_random_graphs_at_once(seed: int, kinds: list[tuple[str, int]]) -> None:
    check_same(random_graph(random.Random(seed)), kinds)


@settings(max_examples=40)
@given(st.sampled_from(MODELS), KINDS)
def test_random_edits_of_models_at_once(name: str, kinds: list[tuple[str, int]]) -> None:
    check_same(model(name), kinds)


def check_proven(executor: Executor, data: bytes, kinds: list[tuple[str, int]]) -> None:
    done, _ = drawn(data, kinds)
    if not done:
        return
    steps = carried_out(data, [edit for _, edit in done])
    try:
        proven_pieces(executor, [Joined([step], step.result) for step in steps])
    except GdsurgeonError:
        return
    for piece in joined_steps(steps):
        try:
            proven_pieces(executor, [piece])
        except DiffersError:
            raise
        except GdsurgeonError:  # no known feeds fit both, so that each is proven separately
            continue


@pytest.mark.slow
@pytest.mark.tensorflow
@settings(max_examples=15, phases=QUICKLY)
@given(st.integers(0, 9999), KINDS)
def test_random_edits_of_random_graphs_are_proven_at_once(
    executor: Executor, seed: int, kinds: list[tuple[str, int]]
) -> None:
    check_proven(executor, random_graph(random.Random(seed)), kinds)


@pytest.mark.slow
@pytest.mark.tensorflow
@settings(max_examples=6, phases=QUICKLY)
@given(st.sampled_from(MODELS), KINDS)
def test_random_edits_of_models_are_proven_at_once(executor: Executor, name: str, kinds: list[tuple[str, int]]) -> None:
    check_proven(executor, model(name), kinds)


def test_edits_are_drawn_of_every_kind() -> None:
    rng = random.Random(3)
    found: set[str] = set()
    for seed in range(12):
        data = random_graph(random.Random(seed))
        found.update(kind for kind, _ in drawn(data, [(kind, rng.randrange(99)) for kind in DRAWS])[0])
    assert found == DRAWS.keys()
    assert from_bytes(data).node_count
