from __future__ import annotations

import time

import pytest

from gdsurgeon.text import counted, near_miss, size, told_apart


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (19187913, "18.3 MiB"),
        (1024**3, "1.00 GiB"),
        (5 * 1024**4, "5,120.00 GiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_one_byte_is_no_plural() -> None:
    assert size(1) == "1 byte"


def test_counts() -> None:
    assert [counted(n, "node") for n in (0, 1, 2, 2727)] == ["0 nodes", "1 node", "2 nodes", "2,727 nodes"]


def test_sizes_that_look_the_same_are_told_apart() -> None:
    assert told_apart(1 << 20, 2 << 20) == ("1.0 MiB", "2.0 MiB")
    assert told_apart(1 << 20, (1 << 20) + 1) == ("1,048,576 bytes", "1,048,577 bytes")
    assert told_apart(5, 5) == ("5 bytes", "5 bytes")


@pytest.mark.parametrize(
    ("name", "names", "found"),
    [
        ("image_tensr", ["boxes", "image_tensor"], "image_tensor"),
        ("Image", ["x", "image"], "image"),
        ("logits", ["model/head/logits"], "model/head/logits"),
        ("zzz", ["image", "boxes"], None),
        ("x", [], None),
    ],
)
def test_near_misses(name: str, names: list[str], found: str | None) -> None:
    assert near_miss(name, names) == (f" Did you mean '{found}'?" if found else "")


def test_a_near_miss_among_very_many_names_is_found_soon() -> None:
    started = time.monotonic()
    near_miss("layer_77/weights_x", (f"layer_{i}/weights" for i in range(300_000)))
    assert time.monotonic() - started < 10


def test_a_near_miss_among_long_names_that_are_alike_costs_little() -> None:
    names = ["".join("ab"[(i >> bit) & 1] for bit in range(10)) * 9 for i in range(1000)]
    begun = time.process_time()
    near_miss("c" + names[700][1:], names)
    assert time.process_time() - begun < 2.5
