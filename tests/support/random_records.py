"""Random graphs that run, as records of nodes."""

from __future__ import annotations

from hypothesis import strategies as st

from support.drawing import pick, pick_some, shuffled
from support.graphs import BOOL, FLOAT, INT32, X, const, identity, neg, node, placeholder, scalar, tensor, typed


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[bytes], list[str]]:
    """A graph of float vectors of two elements in any order, and its names; with control edges and two-output nodes."""
    records = [X, scalar("axis", 0, INT32), const("k0", [0.5, -1.5])]
    tensors, names = ["x", "k0"], ["x", "k0", "axis"]
    for i in range(draw(st.integers(1, 14))):
        name = pick(draw, ["", "s/", "t/u/"]) + f"n{i}"
        reads = st.sampled_from(tensors)
        waits = [f"^{w}" for w in pick_some(draw, names, 1)]
        kind = pick(draw, ["Neg", "Tanh", "AddV2", "Mul", "Sub", "Const", "TopKV2", "NoOp", "RandomUniform"])
        if kind in ("Neg", "Tanh"):
            records.append(typed(kind, name, draw(reads), *waits))
        elif kind == "Const":
            value = pick(draw, [0.25, -3.0, 7.5])
            records.append(node(name, "Const", waits, dtype=FLOAT, value=tensor([value, 1])))
        elif kind == "TopKV2":
            records.append(scalar(f"{name}_k", 2, INT32))
            records.append(typed("TopKV2", name, draw(reads), f"{name}_k", *waits, sorted=True))
            names.append(f"{name}_k")
        elif kind == "NoOp":
            records.append(node(name, "NoOp", waits))
            names.append(name)
            continue
        elif kind == "RandomUniform":
            records.append(const(f"{name}_shape", [2], INT32))
            records.append(typed(kind, name, f"{name}_shape", *waits, kind=INT32, dtype=FLOAT, seed=i + 1, seed2=3))
            names.append(f"{name}_shape")
        else:
            records.append(typed(kind, name, draw(reads), draw(reads), *waits))
        tensors.append(name)
        names.append(name)
    return shuffled(draw, records), names


@st.composite
def conditionals(draw: st.DrawFn) -> tuple[list[bytes], list[str], list[str]]:
    """A graph of v1 conditionals on two predicates, side by side and in one another; its computing nodes; its ends."""
    records = [placeholder("p", BOOL, ()), placeholder("q", BOOL, ()), X, identity("p_id", "p", kind=BOOL)]
    tensors, nodes, read = ["x"], [], set()
    for i in range(draw(st.integers(2, 10))):
        kinds = ["Switch", "Switch", "Neg", "AddV2", "AddV2", "Const", "Merge"]
        kind = pick(draw, kinds) if i > 1 else "Switch"
        reads = st.sampled_from(tensors)
        waits = [f"^{w}" for w in pick_some(draw, nodes, 1)] if nodes else []
        name = f"n{i}"
        if kind == "Switch":
            source = draw(reads)
            read.add(source)
            records.append(typed("Switch", name, source, pick(draw, ["p", "p_id", "q"])))
            tensors += [name, f"{name}:1"]
            continue
        sources = [draw(reads) for _ in range({"Neg": 1, "AddV2": 2, "Const": 0, "Merge": 2}[kind])]
        read.update(sources)
        if kind == "Merge":
            switch = f"{name}_switch"
            records.append(typed("Switch", switch, sources[0], pick(draw, ["p", "p_id", "q"])))
            records += [neg(f"{name}_f", switch), neg(f"{name}_t", f"{switch}:1", *waits)]
            records.append(typed("Merge", name, f"{name}_f", f"{name}_t", N=2))
            nodes += [f"{name}_f", f"{name}_t"]
        elif kind == "Const":
            records.append(node(name, kind, waits, dtype=FLOAT, value=tensor([i + 0.5, 1])))
            nodes.append(name)
        else:
            records.append(typed(kind, name, *sources, *waits))
            nodes.append(name)
        tensors.append(name)
    seen = [tensor_ for tensor_ in tensors[:0:-1] if tensor_ not in read or draw(st.booleans())][:5]
    records += [identity(f"end_{i}", source) for i, source in enumerate(seen)]
    return records, nodes, [f"end_{i}" for i in range(len(seen))]
