"""A model as TensorFlow 2 saves it, made without TensorFlow: functions compute, restore and save."""

from __future__ import annotations

from collections.abc import Mapping

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Key, Restoring, Served, Serving
from support.graphs import (
    FLOAT,
    INT64,
    RESOURCE,
    STRING,
    add,
    call,
    define,
    dtypes,
    graph,
    library,
    node,
    placeholder,
    tensor,
    typed,
)

KEYS = {"w": Key("net/w"), "u": Key("u", "4 0,2"), "twin": Key("net/w")}
"""The variables, and where the checkpoint has their values: two have the same."""


def _variable(name: str) -> list[bytes]:
    return [
        node(name, "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name=name),
        node(f"{name}/read", "ReadVariableOp", [name], dtype=FLOAT),
    ]


def model(*more: bytes, keys: Mapping[str, Key] = KEYS, saving: str = "saving") -> Graph:
    """``net/call`` gives x * w by a function, and ``net/sum`` adds u to that.

    The function also restores MORE; SAVING is the function that saves, or ``compute``.
    """
    computing = define(
        "compute", {"x": FLOAT, "w": RESOURCE}, {"y": (FLOAT, "m:z:0")},
        node("r", "ReadVariableOp", ["w"], dtype=FLOAT), typed("Mul", "m", "x", "r:value:0"), stateful=True,
    )  # fmt: skip
    handles, others = list(keys), ["other"] * len(more)
    restoring = define(
        "restoring", {"file": STRING} | dict.fromkeys([*handles, *others], RESOURCE), {},
        node("names", "Const", dtype=STRING, value=tensor([key.tensor for key in keys.values()], STRING)),
        node("slices", "Const", dtype=STRING, value=tensor([key.slice for key in keys.values()], STRING)),
        node("values", "RestoreV2", ["file", "names:output:0", "slices:output:0"], dtypes=dtypes(*[FLOAT] * len(keys))),
        *(node(f"set_{n}", "AssignVariableOp", [name, f"values:tensors:{n}"], dtype=FLOAT)
          for n, name in enumerate(handles)),
        effects=[f"set_{n}" for n in range(len(handles))], stateful=True,
    )  # fmt: skip
    copying = define("saving", {"file": STRING}, {"file_out": (STRING, "file")}, stateful=True)
    save = call("save", "saving", ["file"], [STRING], [STRING], stateful=True)
    if saving == "compute":
        save = call("save", "compute", ["x", "w", "^file"], [FLOAT, RESOURCE], [FLOAT], stateful=True)
    found = graph(
        placeholder("x", FLOAT, (2,)), *(record for name in handles for record in _variable(name)),
        call("net/call", "compute", ["x", "w"], [FLOAT, RESOURCE], [FLOAT], stateful=True),
        add("net/sum", "net/call", "u/read"), *more, placeholder("file", STRING, ()),
        save,
        call("restore", "restoring", ["file", *handles, *others],
             [STRING] + [RESOURCE] * len([*handles, *others]), [], stateful=True),
        library(computing, restoring, copying),
    )  # fmt: skip
    found.serving = Serving(
        "SavedModel",
        "checkpoint",
        {"serving_default": Served({"x": "x"}, {"y": "net/sum"})},
        restoring=Restoring({"file": "checkpoint"}, ("restore",)),
        keys=keys,
    )
    return found


TABLE = node("other", "MutableHashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name="t")
