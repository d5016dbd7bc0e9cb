"""FunctionDefs and their calls, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.messages import message
from support import graphs
from support.graphs import (
    FLOAT,
    dtypes,
    func,
    node,
    placeholder,
)

NO_OPTIMIZER = encode_len(2, b"R\x05R\x03\x98\x01\x01")


def call(
    name: str,
    function: str,
    inputs: Sequence[str],
    taken: Sequence[bytes],
    given: Sequence[bytes],
    *,
    stateful: bool = False,
    config_proto: bytes = NO_OPTIMIZER,
    **attrs: Any,
) -> bytes:
    """The record of a call; TAKEN and GIVEN are dtypes."""
    return node(
        name,
        "StatefulPartitionedCall" if stateful else "PartitionedCall",
        inputs,
        Tin=dtypes(*taken),
        Tout=dtypes(*given),
        f=func(function),
        config="",
        config_proto=config_proto,
        executor_type="",
        **attrs,
    )


def function(
    name: str,
    inputs: dict[str, bytes],
    outputs: dict[str, tuple[bytes, str]],
    *body: bytes,
    effects: Sequence[str] = (),
    stateful: bool = False,
) -> Any:
    """A FunctionDef; OUTPUTS: for each the dtype and what it returns; EFFECTS: nodes that run with every call."""
    out = message("tensorflow.FunctionDef")()
    out.signature.name = name
    out.signature.is_stateful = stateful
    for arg, kind in inputs.items():
        out.signature.input_arg.add(name=arg, type=kind[1])
    for arg, (kind, source) in outputs.items():
        out.signature.output_arg.add(name=arg, type=kind[1])
        out.ret[arg] = source
    out.node_def.extend(graphs.proto(*body, trailer=b"").node)
    for effect in effects:
        out.signature.control_output.append(effect)
        out.control_ret[effect] = effect
    return out


def only_function(found: Graph) -> Any:
    (function_,) = list(graphs.parsed(found).library.function)
    return function_


def body_of(function_: Any) -> dict[str, list[str]]:
    """The inputs of each node of a function."""
    return {n.name: list(n.input) for n in function_.node_def}


X = placeholder("x", FLOAT, (2,))


def unary(op: str, name: str, source: str, *controls: str, kind: bytes = FLOAT, **attrs: Any) -> bytes:
    return node(name, op, [source, *controls], T=kind, **attrs)


def neg(name: str, source: str, *controls: str, **attrs: Any) -> bytes:
    return unary("Neg", name, source, *controls, **attrs)


VARIABLE = node("v", "VariableV2", dtype=FLOAT, shape=(2,))
