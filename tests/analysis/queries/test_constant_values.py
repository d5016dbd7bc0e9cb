"""Values of constants: every dtype in every form, statistics compared with NumPy's, values that cannot be read."""

from __future__ import annotations

import io
import math
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bundles import Drawn
from support.graphs import FLOAT, graph, node

from gdsurgeon.analysis.queries import constants
from gdsurgeon.analysis.queries.constants import ConstantValues, ValueStatistics, values_of
from gdsurgeon.compare import distance as distances
from gdsurgeon.errors import EditError, InputError
from gdsurgeon.ops import elements
from gdsurgeon.ops.dtypes import DTYPES, NUMBERS
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import TensorProto
from gdsurgeon.wire.write import read_chunks

NUMERIC = [dtype for dtype in DTYPES.values() if dtype.size]


def values(dtype: int, shape: tuple[int, ...], **elements: Any) -> ConstantValues:
    """The value of a Const whose TensorProto has ELEMENTS."""
    tensor = TensorProto(dtype=dtype, **elements)
    tensor.tensor_shape.SetInParent()
    for dim in shape:
        tensor.tensor_shape.dim.add(size=dim)
    made = graph(node("k", "Const", dtype=FLOAT, value=encode_len(8, tensor.SerializeToString())))
    return values_of(made["k"])


def data_of(name: str, count: int) -> bytes:
    dtype, chance = NUMBERS[name], random.Random(name)
    if name == "bool":
        return bytes(chance.randrange(2) for _ in range(count))
    if name.endswith(("int4", "int2")) or name == "float4_e2m1fn":
        return bytes(chance.randrange(4) for _ in range(count))
    return chance.randbytes(count * dtype.size)


def as_fields(name: str, data: bytes) -> dict[str, Any]:
    """The elements in the field that holds them one by one."""
    dtype = NUMBERS[name]
    if dtype.field == "half_val":
        return {dtype.field: np.frombuffer(data, "<u2").tolist()}
    if dtype.field == "float8_val":
        return {dtype.field: data}
    if dtype.field in ("scomplex_val", "dcomplex_val"):
        return {dtype.field: np.frombuffer(data, f"<f{dtype.size // 2}").tolist()}
    array = np.frombuffer(data, f"<{dtype.kind}{dtype.size}" if dtype.kind != "b" else "u1")
    return {dtype.field: array.tolist()}


@pytest.mark.parametrize("name", [dtype.name for dtype in NUMERIC])
@pytest.mark.parametrize("form", ["content", "fields"])
def test_every_dtype_in_both_forms(name: str, form: str) -> None:
    if form == "fields" and not NUMBERS[name].field:
        pytest.skip("there is no field for it")
    data = data_of(name, 6)
    if form == "fields" and NUMBERS[name].is_float:
        data = bytes(byte & 0x37 for byte in data)  # no NaN, whose bits a list of floats would not keep
    found = values(NUMBERS[name], (2, 3), **({"tensor_content": data} if form == "content" else as_fields(name, data)))
    expected = Drawn("k", NUMBERS[name], (2, 3), data, ()).array()
    assert (found.dtype.name, found.shape, found.count, found.stored, found.nbytes) == (name, (2, 3), 6, 6, len(data))
    wide: Any = complex if NUMBERS[name].is_complex else float if NUMBERS[name].is_float else object
    given = np.array(found.first(100), wide).astype(expected.dtype)
    wide = np.int64 if wide is object and expected.dtype.kind == "V" else expected.dtype if wide is object else wide
    np.testing.assert_equal(given.astype(wide), expected.reshape(-1).astype(wide))
    saved = np.load(io.BytesIO(read_chunks(found.npy())), allow_pickle=False)
    assert saved.shape == (2, 3) and saved.tobytes() == data


def test_what_numpy_lacks_is_saved_as_numpy_saves_it() -> None:
    out = io.BytesIO()
    np.save(out, np.zeros(3, ml_dtypes.bfloat16))
    own = np.load(io.BytesIO(out.getvalue()))
    found = np.load(io.BytesIO(read_chunks(values(14, (3,), half_val=[0]).npy())))
    assert found.dtype.kind == own.dtype.kind == "V" and found.dtype.itemsize == own.dtype.itemsize == 2


def test_floats_are_as_numpy_spells_them() -> None:
    assert values(1, (3,), float_val=[0.1, 1e-05, math.inf]).first(3) == [0.1, 1e-05, math.inf]
    assert values(14, (1,), half_val=[0x3DCD]).first(1) == [0.100098]
    assert values(2, (1,), double_val=[0.1 + 0.2]).first(1) == [0.1 + 0.2]
    assert values(1, (2,), float_val=[0.1, 0.7]).statistics.maximum == 0.7


@given(
    st.sampled_from(["float32", "float64", "float16", "bfloat16", "int8", "uint64", "int64", "int4", "bool"]),
    st.lists(st.sampled_from([0, 0, 1, 2.5, 3, 1000.0, math.nan, math.inf, -math.inf]), min_size=1, max_size=12),
    st.integers(0, 9),
)
def test_statistics_are_those_of_numpy(name: str, items: list[float], filled: int) -> None:
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    if not NUMBERS[name].is_float:
        items = [item if math.isfinite(item) and item < 8 else 0 for item in items]
    array = np.array(items).astype(kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "BLOCK", 5)
        found = values(NUMBERS[name], (len(items) + filled,), **as_fields(name, array.tobytes())).statistics
    whole = np.concatenate([array, np.repeat(array[-1:], filled)]).astype(np.float64)
    finite = whole[np.isfinite(whole)]
    assert found[:4] == (whole.size, (whole == 0).sum(), np.isnan(whole).sum(), np.isinf(whole).sum())
    if not finite.size:
        assert found[4:] == (None, None, None, None)
        return
    assert (found.minimum, found.maximum) == (finite.min(), finite.max())
    assert found.mean == pytest.approx(finite.mean(), rel=1e-12)
    assert found.std == pytest.approx(finite.std(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int8", "uint16", "int64", "bool"])
def test_the_same_without_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, other = (bytes(byte & 0x37 for byte in data_of(name, count)) for count in (3000, 3001))
    size = NUMBERS[name].size
    data = data if name[0] != "f" else np.array([np.nan, np.inf, -0.0], name).tobytes() + data[3 * size :]
    pair = [values(NUMBERS[name], (3000,), tensor_content=each[: 3000 * size]) for each in (data, other)]
    few = values(NUMBERS[name], (3000,), **as_fields(name, data[: 5 * size]))
    results: list[Any] = []
    for has_numpy in (True, False):
        if not has_numpy:
            for module in (constants, distances, elements):
                monkeypatch.setattr(module, "has_numpy", lambda: False)
        for one in (*pair, few):
            one.__dict__.pop("statistics", None)
        results.append(
            (pair[0].first(3000), few.first(9), [one.statistics for one in (*pair, few)],
             distances.distance(*pair)[:4], distances.distance(few, pair[1])[:4])
        )  # fmt: skip
    for with_numpy, without in zip(results[0][:2], results[1][:2], strict=True):
        np.testing.assert_equal(np.array(without, name), np.array(with_numpy, name))
        assert (
            sum(map(len, map(str, without))) <= sum(map(len, map(str, with_numpy))) + 9
        )  # a tie may take a digit more
    for with_numpy, without in zip((*results[0][2], *results[0][3:]), (*results[1][2], *results[1][3:]), strict=True):
        assert without == pytest.approx(with_numpy, rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("has_numpy", [True, False])
def test_no_number_is_warned_of(has_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (constants, elements):
        monkeypatch.setattr(module, "has_numpy", lambda: has_numpy)
    signalling = values(1, (2,), tensor_content=b"\x01\x00\x80\x7f\x00\x00\x80\x3f").statistics
    assert (signalling.nan, signalling.minimum, signalling.mean) == (1, 1.0, 1.0)
    for name, largest in (("float64", 1.7e308), ("float32", 3.4e38)):
        data = np.array([largest, largest, -largest, 1e-300], name).tobytes()
        found = values(NUMBERS[name], (4,), tensor_content=data).statistics
        assert found.maximum == largest and (found.mean is None) == (name == "float64")
        assert found.std is None or math.isfinite(found.std)


def test_what_one_element_fills_is_not_made() -> None:
    found = values(1, (1 << 40, 2), float_val=[7.0, 2.5])
    assert (found.count, found.stored, found.nbytes) == (1 << 41, 2, 1 << 43)
    assert found.first(4) == [7.0, 2.5, 2.5, 2.5]
    assert found.statistics == ValueStatistics(
        1 << 41, 0, 0, 0, 2.5, 7.0, pytest.approx(2.5), pytest.approx(0.0, abs=1e-5)
    )
    header, span = found.npy()[0], found.npy()[-1]
    assert isinstance(header, bytes) and not isinstance(span, bytes)
    assert span.source.read(6, 7) == np.array([2.5] * 4, "<f4").tobytes()[2:9]
    assert values(1, (3,)).first(9) == [0.0, 0.0, 0.0]
    assert values(1, (0, 3)).first(9) == [] and values(1, (0, 3)).statistics == ValueStatistics(0, 0)


def test_of_a_large_value_the_first_elements_are_a_few_bytes() -> None:
    made = graph(node("k", "Const", dtype=FLOAT, value=b""))
    read: list[int] = []

    class Watched:
        name, size = "watched", 1 << 40

        def read(self, offset: int, size: int) -> bytes:
            read.append(size)
            return bytes(size)

    chunks = constants.ChunkSource([constants.SourceSpan(Watched(), 0, 1 << 40)], "k")  # type: ignore[arg-type]
    assert ConstantValues(NUMBERS["float32"], (1 << 38,), chunks).first(4) == [0.0] * 4
    assert sum(read) == 16 and made.node_count == 1


def test_strings() -> None:
    found = values(7, (2, 2), string_val=[b"a", b"", b"\xff\n"])
    assert found.first(9) == [b"a", b"", b"\xff\n", b"\xff\n"] and found.nbytes == 5
    assert found.statistics == ValueStatistics(4, 1)
    assert np.load(io.BytesIO(read_chunks(found.npy()))).tolist() == [[b"a", b""], [b"\xff\n", b"\xff\n"]]
    packed = values(7, (2,), tensor_content=b"\x02\x03abcde")
    assert packed.first(9) == [b"ab", b"cde"]
    for texts, said in (([b"a\0"], "lose the zeros"), ([b"x" * 3_000_000, b"", b"", b"", b""], "for each of 5")):
        with pytest.raises(EditError, match=said):
            values(7, (len(texts),), string_val=texts).npy()


@pytest.mark.parametrize(
    ("dtype", "shape", "elements", "said"),
    [
        (1, (2,), {"tensor_content": b"1234567"}, "1.75 elements for 2 positions"),
        (1, (3,), {"tensor_content": bytes(8)}, "2 elements for 3 positions"),
        (1, (), {"float_val": [1.0, 2.0]}, "2 elements for 1 position"),
        (7, (1,), {"string_val": [b"a", b"b"]}, "2 elements for 1 position"),
        (7, (2,), {"tensor_content": b"\x02\x03abc"}, "it is corrupt"),
        (8, (1,), {"scomplex_val": [1.0]}, "0.50 elements"),
        (1, (-1,), {}, "its shape is not valid"),
        (1, (1 << 62, 4), {}, "its shape is not valid"),
        (20, (), {}, "elements of resource exist only inside TensorFlow"),
        (21, (), {}, "elements of variant"),
        (0, (), {}, "elements of dtype 0"),
        (999, (), {}, "elements of dtype 999"),
    ],
)
def test_what_cannot_be_read(dtype: int, shape: tuple[int, ...], elements: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        values(dtype, shape, **elements)


def test_a_constant_without_a_value() -> None:
    for records in (node("k", "Const", dtype=FLOAT), node("k", "Const", dtype=FLOAT, value=b"\x42\x7f")):
        with pytest.raises(InputError, match="is missing or corrupt"):
            values_of(graph(records)["k"])
