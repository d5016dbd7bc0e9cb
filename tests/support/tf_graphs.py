"""Small GraphDefs for the tests of what is run, and short ways to operate on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gdsurgeon as gds
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Outcome, Request, operate
from gdsurgeon.operation.sequence import Edit
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.wire.messages import message

PRODUCER = 2474
NUMPY = {"bool": np.bool_, "string": np.object_}


class Shape(tuple[int, ...]):
    """A shape as an attr value; -1 is an unknown dimension."""


UNKNOWN_RANK = None


class Builder:
    """A GraphDef, node by node. Attr values: a str is a dtype, bytes are a string, a list is a list of one of them."""

    def __init__(self, producer: int = PRODUCER) -> None:
        self.graph_def = message("tensorflow.GraphDef")()
        if producer:
            self.graph_def.versions.producer = producer

    def node(self, name: str, op: str, inputs: Sequence[str] = (), **attrs: Any) -> str:
        return _fill(self.graph_def.node.add(), name, op, inputs, attrs)

    def placeholder(self, name: str, dtype: str = "float32", shape: Sequence[int] | None = UNKNOWN_RANK) -> str:
        attrs: dict[str, Any] = {} if shape is None else {"shape": Shape(shape)}
        return self.node(name, "Placeholder", dtype=dtype, **attrs)

    def const(self, name: str, value: Any, dtype: str = "float32", controls: Sequence[str] = ()) -> str:
        self.node(name, "Const", controls, dtype=dtype, value=tensor(value, dtype))
        return name

    def function(self, name: str, inputs: dict[str, str], outputs: dict[str, str]) -> Any:
        """A function of the library: argument dtypes by name; `ret` and the body are the caller's to fill."""
        function = self.graph_def.library.function.add()
        function.signature.name = name
        for args, given in ((function.signature.input_arg, inputs), (function.signature.output_arg, outputs)):
            for arg, dtype in given.items():
                args.add(name=arg, type=NUMBERS[dtype])
        return function

    def bytes(self) -> bytes:
        return bytes(self.graph_def.SerializeToString(deterministic=True))

    def graph(self, name: str = "part.pb") -> Graph:
        return gds.from_bytes(self.bytes(), name)

    def write(self, path: Path) -> str:
        path.write_bytes(self.bytes())
        return str(path)


def _fill(node: Any, name: str, op: str, inputs: Sequence[str], attrs: dict[str, Any]) -> str:
    node.name, node.op = name, op
    node.input.extend(inputs)
    for key, value in attrs.items():
        node.attr[key].CopyFrom(attr(value))
    return name


def body_node(function: Any, name: str, op: str, inputs: Sequence[str] = (), **attrs: Any) -> str:
    """Adds a node to the body of a FunctionDef."""
    return _fill(function.node_def.add(), name, op, inputs, attrs)


def attr(value: Any) -> Any:
    """An AttrValue."""
    out = message("tensorflow.AttrValue")()
    if isinstance(value, Shape):
        out.shape.SetInParent()
        for size in value:
            out.shape.dim.add(size=size)
    elif isinstance(value, bool):
        out.b = value
    elif isinstance(value, int):
        out.i = value
    elif isinstance(value, float):
        out.f = value
    elif isinstance(value, bytes):
        out.s = value
    elif isinstance(value, str):
        out.type = NUMBERS[value]
    elif isinstance(value, list):
        out.list.SetInParent()
        for item in value:
            _append(out.list, attr(item))
    else:
        out.CopyFrom(value)
    return out


def _append(items: Any, value: Any) -> None:
    field = value.WhichOneof("value")
    if field == "shape":
        items.shape.add().CopyFrom(value.shape)
    else:
        getattr(items, field).append(getattr(value, field))


def function_attr(name: str) -> Any:
    """An AttrValue that names a function."""
    out = message("tensorflow.AttrValue")()
    out.func.name = name
    return out


def tensor(value: Any, dtype: str) -> Any:
    """An AttrValue that holds a tensor."""
    array = np.asarray(value, NUMPY.get(dtype, dtype))
    out = message("tensorflow.AttrValue")()
    proto = out.tensor
    proto.dtype = NUMBERS[dtype]
    proto.tensor_shape.SetInParent()
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if dtype == "string":
        proto.string_val.extend(item if isinstance(item, bytes) else item.encode() for item in array.reshape(-1))
    else:
        proto.tensor_content = from_numpy(array).tobytes()
    return out


def loop(m: Builder, scope: str, source: str, rounds: int = 3) -> str:
    """A v1 loop in which SOURCE becomes 2 s - 1, ROUNDS times."""
    enter = {"frame_name": f"{scope}/frame".encode(), "is_constant": False, "parallel_iterations": 10}
    n = f"{scope}/"
    m.const(n + "zero", 0, "int32")
    m.const(n + "rounds", rounds, "int32")
    m.node(n + "enter_i", "Enter", [n + "zero"], T="int32", **enter)
    m.node(n + "enter_s", "Enter", [source], T="float32", **enter)
    m.node(n + "limit", "Enter", [n + "rounds"], T="int32", **enter | {"is_constant": True})
    m.node(n + "merge_i", "Merge", [n + "enter_i", n + "next_i"], T="int32", N=2)
    m.node(n + "merge_s", "Merge", [n + "enter_s", n + "next_s"], T="float32", N=2)
    m.node(n + "less", "Less", [n + "merge_i", n + "limit"], T="int32")
    m.node(n + "cond", "LoopCond", [n + "less"])
    m.node(n + "switch_i", "Switch", [n + "merge_i", n + "cond"], T="int32")
    m.node(n + "switch_s", "Switch", [n + "merge_s", n + "cond"], T="float32")
    m.const(n + "one", 1, "int32", controls=[f"^{n}again"])
    m.const(n + "shift", 1.0, controls=[f"^{n}again"])
    m.node(n + "again", "Identity", [n + "switch_i:1"], T="int32")
    m.node(n + "add_i", "AddV2", [n + "again", n + "one"], T="int32")
    m.node(n + "twice", "AddV2", [n + "switch_s:1", n + "switch_s:1"], T="float32")
    m.node(n + "less_s", "Sub", [n + "twice", n + "shift"], T="float32")
    m.node(n + "next_i", "NextIteration", [n + "add_i"], T="int32")
    m.node(n + "next_s", "NextIteration", [n + "less_s"], T="float32")
    return m.node(n + "done", "Exit", [n + "switch_s"], T="float32")


def counting_loop(*, endless: bool = False, says: bytes = b"") -> Builder:
    """A v1 while loop that counts to 3, or does not; inside, `square` and `fixed` are read by nobody.

    What it SAYS it prints in its first round.
    """
    m = Builder()
    m.const("start", 0, "int32")
    frame = {"frame_name": b"frame", "is_constant": False, "parallel_iterations": 1}
    m.node("enter", "Enter", ["start"], T="int32", **frame)
    m.node("merge", "Merge", ["enter", "next"], T="int32", N=2)
    m.const("limit", 3, "int32", ["^merge"])
    m.node("less", "Less", ["merge", "limit"], T="int32")
    m.const("always", True, "bool", ["^merge"])
    m.node("condition", "LoopCond", ["always" if endless else "less"])
    m.node("switch", "Switch", ["merge", "condition"], T="int32")
    m.node("body", "Identity", ["switch:1"], T="int32")
    m.const("one", 1, "int32", ["^body"])
    if says:
        m.node("said", "Print", ["body", "body"], T="int32", U=["int32"], message=says, first_n=1, summarize=1)
    m.node("added", "AddV2", ["said" if says else "body", "one"], T="int32")
    m.node("square", "Square", ["body"], T="int32")
    m.node("fixed", "Neg", ["one"], T="int32")
    m.node("next", "NextIteration", ["added"], T="int32")
    m.node("exit", "Exit", ["switch"], T="int32")
    m.node("y", "Neg", ["exit"], T="int32")
    return m


def operated(
    folder: Path,
    model: Builder,
    edit: Edit,
    *,
    overrides: Overrides | None = None,
    level: str = "run",
    dry_run: bool = False,
    **settings: Any,
) -> Outcome:
    """Operates on MODEL, written to FOLDER; the output is ``out.pb`` there."""
    path = model.write(folder / "model.pb")
    request = Request(
        path,
        out=str(folder / "out.pb"),
        level=level,
        dry_run=dry_run,
        settings=Settings(**settings),
        overrides=overrides or Overrides(),
    )
    return operate(request, edit)


def refused(folder: Path, model: Builder, edit: Edit, **options: Any) -> GdsurgeonError:
    """The error of `operated`, with which nothing but the input may be left in FOLDER."""
    others = sorted(p.name for p in folder.iterdir() if p.name != "model.pb")
    with pytest.raises(GdsurgeonError) as caught:
        operated(folder, model, edit, **options)
    assert sorted(p.name for p in folder.iterdir() if p.name != "model.pb") == others
    assert (folder / "model.pb").read_bytes() == model.bytes()
    return caught.value
