"""Slices as they are spelt, and tensors put together from them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.system import is_linear

from gdsurgeon.container.checkpoint import slices
from gdsurgeon.container.checkpoint.slices import Extents, Piece, extents, parse_slice_spec, slice_key, spell, stretched
from gdsurgeon.errors import InputError
from gdsurgeon.wire.source import BytesSource
from gdsurgeon.wire.write import SourceSpan, read_chunks, size_of


@pytest.mark.parametrize(
    ("text", "shape", "part"),
    [
        ("", (), None),
        ("4 6 0,2:0,6", (4, 6), ((0, 2), (0, 6))),
        ("4 6 0,2:-", (4, 6), ((0, 2), (0, None))),
        ("4 6 -:-", (4, 6), None),
        ("4 6 0,4:-", (4, 6), None),
        ("0 3 -:1,2", (0, 3), ((0, None), (1, 2))),
        ("7 7,0", (7,), ((7, 0),)),
    ],
)
def test_specs(text: str, shape: tuple[int, ...], part: object) -> None:
    assert parse_slice_spec(text) == (shape, part)
    if part is not None:
        assert text.split(" ")[-1] == spell(parse_slice_spec(text)[1] or ())


@pytest.mark.parametrize(
    "text", ["4", "4 6", "4 6 0,2", "4 0,2:-", "4 0,5", "4 -1,2", "a -", "4 0;2", "4 1,-1", " -", "-"]
)
def test_what_is_no_spec(text: str) -> None:
    with pytest.raises(InputError, match="is not a shape with a slice"):
        parse_slice_spec(text)


def test_keys_of_slices() -> None:
    assert slice_key(b"w", ((0, 2), (0, None))) == b"\0w\0\1\1\2\x80\x82\x80\x7f"
    assert slice_key(b"a\0b\xffc", ()) == b"\0a\0\xffb\xff\0c\0\1\0"
    assert slice_key(b"w", ((64, 1 << 20),)) == b"\x00w\x00\x01\x01\x01\xc0@\xf0\x10\x00\x00"


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Extents], Extents]:
    """A shape, boxes that are all of it, and one that is wanted."""
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=3)))
    chance = random.Random(draw(st.integers(0, 1 << 32)))
    cuts = []
    for dim in shape:
        edges = sorted({0, dim, *(chance.randrange(dim + 1) for _ in range(chance.choice((0, 1, 2))))})
        cuts.append([(a, b - a) for a, b in itertools.pairwise(edges)])
    grid: list[Extents] = list(itertools.product(*cuts))
    chance.shuffle(grid)
    starts = [chance.randrange(dim) for dim in shape]
    wanted = tuple((s, chance.choice((0, 1, dim - s, dim - s))) for s, dim in zip(starts, shape, strict=True))
    return shape, grid, wanted if chance.random() < 0.7 else tuple((0, dim) for dim in shape)


def cut(array: np.ndarray, box: Extents) -> bytes:
    return array[tuple(slice(s, s + n) for s, n in box)].tobytes()


@pytest.mark.parametrize("most_runs", [4096, 0])
@given(drawn=boxes())
def test_a_box_put_together_from_boxes(most_runs: int, drawn: tuple[tuple[int, ...], list[Extents], Extents]) -> None:
    shape, grid, wanted = drawn
    array = np.arange(np.prod(shape, dtype=int), dtype="<i4").reshape(shape)
    pieces = []
    for box in grid:
        data = b"padding" + cut(array, box)
        pieces.append(Piece(box, SourceSpan(BytesSource(data), 7, len(data))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "MOST_RUNS", most_runs)
        chunks = stretched(pieces, wanted, 4)
    assert read_chunks(chunks) == cut(array, wanted)
    assert size_of(chunks) == len(cut(array, wanted))
    for chunk in chunks:
        assert isinstance(chunk, SourceSpan)
        whole = chunk.source.read(chunk.start, chunk.end - chunk.start)
        for start in range(0, len(whole), 5):
            assert chunk.source.read(chunk.start + start, 5)[: len(whole) - start] == whole[start : start + 5]


def test_rows_that_follow_each_other_are_one_span() -> None:
    source = BytesSource(bytes(range(96)))
    first, second = SourceSpan(source, 0, 48), SourceSpan(source, 48, 96)
    pieces = [Piece(((2, 2), (0, 24)), second), Piece(((0, 2), (0, 24)), first)]
    assert stretched(pieces, ((0, 4), (0, 24)), 1) == [first, second]


def test_what_no_piece_has_is_missed() -> None:
    source = BytesSource(bytes(16))
    pieces = [Piece(((0, 2), (0, 4)), SourceSpan(source, 0, 8)), Piece(((2, 1), (0, 4)), SourceSpan(source, 8, 12))]
    assert size_of(stretched(pieces, ((0, 3), (0, 4)), 1)) == 12
    for target in (((0, 4), (0, 4)), ((0, 4), (0, 2)), ((2, 2), (1, 1))):
        with pytest.raises(LookupError):
            stretched(pieces, target, 1)


def test_extents_of_all_of_a_dimension() -> None:
    assert extents(((1, None), (0, 2)), (4, 6)) == ((1, 3), (0, 2))


def test_very_many_pieces_are_found_soon() -> None:
    source = BytesSource(bytes(4))

    def put_together(count: int) -> Callable[[], int]:
        pieces = [Piece(((row, 1), (0, 4)), SourceSpan(source, 0, 4)) for row in range(count)]
        return lambda: size_of(stretched(pieces, ((0, count), (0, 4)), 1))

    assert put_together(20_000)() == 80_000
    assert is_linear(put_together, 200, 1600)
