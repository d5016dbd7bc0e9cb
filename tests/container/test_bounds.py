"""Small models that ask for much: memory and time are bounded by the size of the file."""

from __future__ import annotations

import os

import pytest
from support.desk import Desk, check_error
from support.graphs import graph_bytes, node
from support.system import within_memory

from gdsurgeon.container.load import load, open_model
from gdsurgeon.errors import InputError
from gdsurgeon.wire.fields import encode_len

MUCH = 192 << 20
"""Bytes that a reader may take for some MB of input."""
GRAPH = encode_len(2, graph_bytes(node("n", "NoOp")))
META_GRAPH = encode_len(2, GRAPH)
SMALL = {
    "fields": (META_GRAPH + b"\x78\x01" * 2_000_000, {"code": "too-large", "reason": "fields"}),
    "fields of a MetaGraph": (
        encode_len(2, GRAPH + b"\x78\x01" * 2_000_000),
        {"code": "too-large", "reason": "fields"},
    ),
    "graphs": (META_GRAPH * 90_000, {"code": "wrong-format", "count": 90_000}),
}


@pytest.mark.parametrize("function", [b"", encode_len(1, encode_len(1, b"f"))], ids=["empty", "named"])
def test_very_many_functions(desk: Desk, function: bytes) -> None:
    desk.put("m.pb", graph_bytes(node("n", "NoOp"), trailer=encode_len(2, encode_len(1, function) * 1_000_000)))

    def refused() -> None:
        with pytest.raises(InputError) as caught:
            len(load("m.pb").functions)
        check_error(caught.value, "too-large", {"file": "m.pb", "reason": "functions"})

    within_memory(MUCH, refused)


@pytest.mark.parametrize(("data", "wanted"), SMALL.values(), ids=SMALL)
def test_models_of_small_parts(desk: Desk, data: bytes, wanted: dict[str, object]) -> None:
    os.mkdir("model")
    desk.put("model/saved_model.pb", b"\x08\x01" + data)

    def refused() -> None:
        with pytest.raises(InputError) as caught:
            open_model("model")
        facts = dict(wanted)
        check_error(caught.value, str(facts.pop("code")), {"file": "model", **facts})

    within_memory(MUCH, refused)
