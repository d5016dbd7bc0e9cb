"""A MetaGraph as a trainer leaves it, made without TensorFlow: two variables with slots, a saver, a training step."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gdsurgeon.container.container import Container
from gdsurgeon.container.files import ALL
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import FLOAT32
from gdsurgeon.wire.protos import AttrValue, MetaGraphDef, QueueRunnerDef, VariableDef, WhileContextDef
from gdsurgeon.wire.source import BytesSource
from support.bundles import Drawn, files_of
from support.graphs import (
    FLOAT,
    STRING,
    VERSIONS,
    add,
    dtypes,
    graph_bytes,
    identity,
    node,
    placeholder,
    scalar,
    tensor,
    typed,
)

VARIABLES = {"net/v": "net/v", "net/v/Momentum": "net/v/Momentum", "net/w": "of_old/w", "net/w/Momentum": "old_slot"}
"""The key of each."""


def _variable(name: str, of: str, value: Sequence[float]) -> list[bytes]:
    """A variable, colocated with that it is a slot OF, and what initialises and reads it."""
    together = [f"loc:@{of}"]
    return [
        node(name, "VariableV2", dtype=FLOAT, shape=(2,), **({"_class": together} if of != name else {})),
        node(f"{name}/initial", "Const", dtype=FLOAT, value=tensor(value)),
        typed("Assign", f"{name}/Assign", name, f"{name}/initial", _class=together),
        identity(f"{name}/read", name, _class=together),
    ]


def _step(name: str) -> bytes:
    taken = [name, f"{name}/Momentum", "net/rate", f"net/gradient_of_{name[-1]}", "net/rate"]
    return node(f"net/train_{name[-1]}", "ApplyMomentum", taken, T=FLOAT, _class=[f"loc:@{name}"])


def graph() -> bytes:
    """y = x * w + v under ``net``, with a training step and an initialiser there; the saver is under ``save``."""
    keys, names = list(VARIABLES.values()), list(VARIABLES)

    def text(name: str, values: Sequence[str], shape: Sequence[int] | None = None) -> bytes:
        stated = {} if shape is not None else {"_output_shapes": _stated()}
        return node(name, "Const", dtype=STRING, value=tensor(values, STRING, shape), **stated)

    def places(op: str) -> list[str]:
        return ["save/file", f"save/{op}/names", f"save/{op}/slices"]

    slices = ["2 0,2", "", "", ""]
    kinds = dtypes(*[FLOAT] * len(names))
    return graph_bytes(
        placeholder("x", FLOAT, (2,)),
        *(n for name in names for n in _variable(name, name.removesuffix("/Momentum"), [1, 2])),
        typed("Mul", "net/mul", "x", "net/w/read"), add("net/y", "net/mul", "net/v/read"), scalar("net/rate", 0.5),
        typed("Mul", "net/gradient_of_w", "net/y", "x"), identity("net/gradient_of_v", "net/y"),
        _step("net/w"), _step("net/v"),
        node("net/train", "NoOp", ["^net/train_w", "^net/train_v"]),
        node("net/init", "NoOp", [f"^{name}/Assign" for name in names]),
        node("init", "NoOp", [f"^{name}/Assign" for name in names]),
        typed("Assign", "follow/Assign", "net/v", "net/w/read"), node("follow", "NoOp", ["^follow/Assign"]),
        identity("out", "net/y"),
        text("save/file", ["model"], ()),
        text("save/SaveV2/names", keys), text("save/SaveV2/slices", slices),
        node("save/SaveV2", "SaveV2", [*places("SaveV2"), *names], dtypes=kinds),
        identity("save/saved", "save/file", "^save/SaveV2", kind=STRING),
        text("save/RestoreV2/names", keys), text("save/RestoreV2/slices", slices),
        node("save/RestoreV2", "RestoreV2", places("RestoreV2"), dtypes=kinds),
        *(typed("Assign", f"save/Assign_{at}", name, f"save/RestoreV2:{at}" if at else "save/RestoreV2",
                _class=[f"loc:@{name.removesuffix('/Momentum')}"]) for at, name in enumerate(names)),
        node("save/restore_shard", "NoOp", [f"^save/Assign_{at}" for at in range(len(names))]),
        node("save/restore_all", "NoOp", ["^save/restore_shard"]),
        trailer=VERSIONS,
    )  # fmt: skip


def _stated() -> bytes:
    """A list of one shape, of four elements, as an attr."""
    value = AttrValue()
    value.list.shape.add().dim.add(size=len(VARIABLES))  # type: ignore[attr-defined]
    return value.SerializeToString()


def meta_graph() -> Any:
    """The MetaGraphDef around `graph`."""
    out = MetaGraphDef()
    out.graph_def.MergeFromString(graph())  # type: ignore[attr-defined]
    out.saver_def.filename_tensor_name, out.saver_def.save_tensor_name = "save/file:0", "save/saved:0"
    out.saver_def.restore_op_name = "save/restore_all"
    for name, key in VARIABLES.items():
        found = VariableDef(variable_name=f"{name}:0", initializer_name=f"{name}/Assign")
        found.initial_value_name, found.snapshot_name = f"{name}/initial:0", f"{name}/read:0"
        found.save_slice_info_def.full_name = key
        for collection in ("variables", "trainable_variables")[: 1 + ("Momentum" not in name)]:
            out.collection_def[collection].bytes_list.value.append(found.SerializeToString())
    out.collection_def["train_op"].node_list.value.append("net/train")
    out.collection_def["losses"].node_list.value.extend(["net/y:0", "out:0"])
    loop = WhileContextDef(context_name="net/loop", pivot_name="net/mul:0")
    loop.values_def.values.extend(["net/mul:0", "x:0"])
    loop.values_def.external_values["x:0"] = "net/y:0"
    inner = loop.nested_contexts.add().cond_ctxt
    inner.context_name, inner.pivot_name = "net/loop/choice", "net/y:0"
    around = WhileContextDef(context_name="around", pivot_name="x:0")
    around.values_def.values.extend(["net/y:0", "x:0"])
    around.nested_contexts.add().while_ctxt.CopyFrom(loop)
    runner = QueueRunnerDef(
        queue_name="net/mul", enqueue_op_name=["net/w/read", "x"], close_op_name="net/y", cancel_op_name="x"
    )
    out.collection_def["queue_runners"].bytes_list.value.append(runner.SerializeToString())
    out.collection_def["while_context"].bytes_list.value.extend([loop.SerializeToString(), around.SerializeToString()])
    return out


@cache
def _data() -> bytes:
    return bytes(meta_graph().SerializeToString(deterministic=True))


def opened() -> Graph:
    """The graph, as part of its model, which has no checkpoint."""
    return Container("model.meta", BytesSource(_data(), "model.meta"), ALL).graph


def put(folder: Path, keys: Iterable[str] = VARIABLES.values()) -> Path:
    """Writes model.meta and its checkpoint, which has KEYS; returns the path of the first."""
    drawn = [
        Drawn(key, FLOAT32, (2,), struct.pack("<2f", at, at + 1), (((((0, 2),), at),) if at == 0 else ((None, at),)))
        for at, key in enumerate(keys)
    ]
    for path, content in files_of(drawn, "model").items():
        (folder / path).write_bytes(content)
    (folder / "model.meta").write_bytes(meta_graph().SerializeToString(deterministic=True))
    return folder / "model.meta"
