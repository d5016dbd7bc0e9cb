"""What the child is started with."""

from __future__ import annotations

import pytest

from gdsurgeon.resources import MEMORY
from gdsurgeon.runtime import process


def test_memory_is_taken_in_large_pieces_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(process, "is_memory_limited", lambda: False)
    monkeypatch.setenv(MEMORY, "8192")
    assert "top_pad" in process.environment(verbose=False, cpu_only=True)["GLIBC_TUNABLES"]
    monkeypatch.setenv(MEMORY, "1024")
    assert "GLIBC_TUNABLES" not in process.environment(verbose=False, cpu_only=True)
    monkeypatch.setenv(MEMORY, "8192")
    monkeypatch.setattr(process, "is_memory_limited", lambda: True)
    assert "GLIBC_TUNABLES" not in process.environment(verbose=False, cpu_only=True)


def test_what_the_user_says_of_the_allocator_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.perturb=1")
    assert process.environment(verbose=False, cpu_only=True)["GLIBC_TUNABLES"] == "glibc.malloc.perturb=1"
