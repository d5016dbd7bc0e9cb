"""TensorFlow's DataType numbers, their names and sizes."""

from __future__ import annotations

NAMES: dict[int, str] = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64",
    9: "int64", 10: "bool", 11: "qint8", 12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16", 16: "quint16",
    17: "uint16", 18: "complex128", 19: "float16", 20: "resource", 21: "variant", 22: "uint32", 23: "uint64",
    24: "float8_e5m2", 25: "float8_e4m3fn", 26: "float8_e4m3fnuz", 27: "float8_e4m3b11fnuz", 28: "float8_e5m2fnuz",
    29: "int4", 30: "uint4", 31: "int2", 32: "uint2", 33: "float4_e2m1fn",
}  # fmt: skip
NUMBERS = {name: number for number, name in NAMES.items()}

FLOAT32, FLOAT64, INT32, UINT8, STRING, INT64, BOOL = 1, 2, 3, 4, 7, 9, 10
FLOAT16, RESOURCE, VARIANT = 19, 20, 21
REF = 100
"""A reference to a tensor of dtype n has the DataType 100 + n."""

SIZES: dict[int, int] = {
    1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 8: 8, 9: 8, 10: 1, 11: 1, 12: 1, 13: 4, 14: 2, 15: 2, 16: 2, 17: 2, 18: 16,
    19: 2, 22: 4, 23: 8, 24: 1, 25: 1, 26: 1, 27: 1, 28: 1, 29: 1, 30: 1, 31: 1, 32: 1, 33: 1,
}  # fmt: skip
"""Bytes of one element, where the dtype has a fixed size."""


def dtype_name(number: int) -> str:
    """The name of a DataType; a reference ends in ``_ref``, an unknown number is ``dtype 999``."""
    if number > REF and number - REF in NAMES:
        return NAMES[number - REF] + "_ref"
    return NAMES.get(number, f"dtype {number}")


def is_dtype(number: int) -> bool:
    """Whether NUMBER is a DataType, references included."""
    return number in NAMES or number - REF in NAMES


def base_dtype(number: int) -> int:
    """The DataType without the reference."""
    return number - REF if number > REF else number
