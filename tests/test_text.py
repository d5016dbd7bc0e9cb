from __future__ import annotations

import pytest

from gdsurgeon.text import counted, size, told_apart


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
