"""Device strings, and who has one."""

from __future__ import annotations

import random

import pytest
from support import graphs
from support.graphs import add, const, graph, graph_bytes, identity

from gdsurgeon.analysis.checks.attrs import is_device
from gdsurgeon.analysis.queries.attr_text import format_device, parse_device, placed_nodes
from gdsurgeon.graph.records import LARGE
from gdsurgeon.proof.executor import Executor, Refused


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("/gpu:0", "/device:GPU:0"),
        ("/GPU:0", "/device:GPU:0"),
        ("/cpu:*", "/device:CPU:*"),
        ("/cpu", "/device:CPU:*"),
        ("/device:GPU", "/device:GPU:*"),
        ("/device:gpu:01", "/device:GPU:1"),
        ("/device:XLA_CPU:0", "/device:XLA_CPU:0"),
        ("/device:MyNpu:3", "/device:MyNpu:3"),
        ("/job:worker/replica:0/task:3/device:TPU:2", "/job:worker/replica:0/task:3/device:TPU:2"),
        ("/device:GPU:0/job:ps", "/job:ps/device:GPU:0"),
        ("/job:ps/task:*", "/job:ps"),
        ("/device:*:1", "/device:*:1"),
    ],
)
def test_one_device_has_one_full_spelling(text: str, full: str) -> None:
    device = parse_device(text)
    assert device is not None
    assert format_device(device) == full
    assert parse_device(full) == device


@pytest.mark.parametrize(
    "text", ["", "gpu:0", "/", "/foo", "/gpu:", "/gpu:x", "/job:", "/cpux:0", "/gpu:0x", "/a/b", "*"]
)
def test_what_is_no_device(text: str) -> None:
    assert parse_device(text) is None


NUMBERS = ("0", "1", "*", "07", "", "x", "-1", str(2**31), str(2**64 - 1), str(2**64))
JOBS = ("worker", "ps", "*", "", "a_1", "1a", "_a", "A", "wo-rker", "\u00e9")
TYPES = ("GPU", "CPU", "cpu", "gPu", "*", "", "XLA_CPU", "9", "a-b")
USUAL = (
    "bogus", "gpu:0", "/gpu:0", "/GPU:*", "/cpu:*", "/cpu", "/Cpu:0", "/tpu:0", "/device:GPU", "/device:GPU:*", "/",
    "/device:*:1", "/job:*", "/job:x/replica:0/task:0/device:GPU:0", "/task:0", "/gpu:0/cpu:0", "/cpu:0 ", "@x",
)  # fmt: skip


def device_strings(count: int) -> list[str]:
    """The usual ones and COUNT that are made of parts, right ones and wrong ones, the same in every run."""
    draw = random.Random(20)
    parts = [
        lambda: "/job:" + draw.choice(JOBS),
        lambda: draw.choice(("/replica:", "/task:")) + draw.choice(NUMBERS),
        lambda: "/device:" + draw.choice(TYPES) + draw.choice(("", ":" + draw.choice(NUMBERS))),
        lambda: draw.choice(("/cpu", "/gpu", "/CPU", "/GPU", "/Gpu")) + draw.choice((":", "")) + draw.choice(NUMBERS),
        lambda: draw.choice(("/", "/foo:1", "job:a", "//", ":", "*", " ", "@y", "bogus")),
    ]
    made = ("".join(draw.choice(parts)() for _ in range(draw.randint(1, 3))) for _ in range(count))
    return list(dict.fromkeys((*USUAL, *made)))


@pytest.mark.tensorflow
def test_a_device_string_is_one_if_tensorflow_says_so(executor: Executor) -> None:
    refused = set()
    texts = device_strings(400)
    for text in texts:
        executor.load("placed", graph_bytes(const("x", [1.0]), identity("y", "x", device=text)))
        executor.loaded("placed")
        try:
            executor.run("placed", "y", {}, ["y:0"])
        except Refused as error:  # or there is no such device here
            if "Malformed device specification" in error.text:
                refused.add(text)
    assert refused == {text for text in texts if not is_device(text)}
    assert 100 < len(refused) < len(texts) - 50


def test_what_states_nothing_is_no_device() -> None:
    assert parse_device("/job:*") is None


def test_the_nodes_that_ask_for_one() -> None:
    large = const("large", [0.0] * (LARGE // 4))
    placed_large = graphs.node("big", "Const", device="/gpu:1", dtype=graphs.FLOAT, value=graphs.tensor([0.0] * 20_000))
    found = graph(
        graphs.node("a", "NoOp", device="/cpu:0"), large, identity("b", "large"), placed_large,
        graphs.node("c", "NoOp", ["^a"], device="/gpu:0"), add("d", "b", "big"),
    )  # fmt: skip
    assert [(node.name, node.device) for node in placed_nodes(found)] == [
        ("a", "/cpu:0"), ("big", "/gpu:1"), ("c", "/gpu:0")
    ]  # fmt: skip


def test_records_that_only_the_wire_format_can_read() -> None:
    broken = graphs.node("a", "NoOp", device="/cpu:0", bad=b"\x32\x7f")
    assert [node.name for node in placed_nodes(graph(broken, graphs.node("b", "NoOp")))] == ["a"]
