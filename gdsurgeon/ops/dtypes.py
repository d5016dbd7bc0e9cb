"""TensorFlow's element types, with all properties of each."""

from __future__ import annotations

DTYPES: dict[int, DType] = {}
"""All dtypes by DataType number. A file may contain unknown numbers, so code that reads files uses plain ints."""
MOST_DIMS = 254
"""The largest rank of a tensor."""


class DType(int):
    """An element type, which is TensorFlow's DataType number.

    It is an int with properties. An `IntEnum` takes ten times as long to create at each start of the command, and ten
    times as long to look up a name.

    Attributes:
        name: TensorFlow's, such as float32.
        kind: 'f' floating point, 'c' complex, 'i' signed, 'u' unsigned integer, 'b' bool, 'O' string, '' opaque
            (resource and variant: never outside a session).
        size: bytes of an element in memory, 1 for int4 and similar types; 0 if the size is not fixed.
        field: the field of a TensorProto that holds elements one by one; '' if none does.
        code: the `struct` format character of an element; '' if `struct` cannot unpack it to the right Python value.
    """

    name: str
    kind: str
    size: int
    field: str
    code: str

    def __new__(cls, number: int, name: str, kind: str, size: int, field: str = "", code: str = "") -> DType:
        dtype = super().__new__(cls, number)
        dtype.name, dtype.kind, dtype.size, dtype.field, dtype.code = name, kind, size, field, code
        DTYPES[number] = dtype
        return dtype

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)  # messages to a worker contain only the number

    @property
    def is_float(self) -> bool:
        """Whether it is floating point, of any precision; complex numbers are not."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether its elements are complex numbers."""
        return self.kind == "c"

    @property
    def is_inexact(self) -> bool:
        """Whether its elements are rounded: floating-point and complex numbers."""
        return self.kind in ("f", "c")

    @property
    def is_integer(self) -> bool:
        """Whether its elements are whole numbers, quantised ones included."""
        return self.kind in ("i", "u")

    @property
    def is_quantized(self) -> bool:
        """Whether its elements are integers that stand for other numbers."""
        return self.name.startswith("q")

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest integer of this size and signedness."""
        bits = 8 * self.size
        return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if self.kind == "i" else (0, (1 << bits) - 1)

    @property
    def numpy(self) -> str:
        """The name of the type of numpy or ml_dtypes with the same memory layout; '' if neither has one."""
        return "object" if self.kind == "O" else self.name.removeprefix("q") if self.kind else ""


FLOAT32 = DType(1, "float32", "f", 4, "float_val", "f")
FLOAT64 = DType(2, "float64", "f", 8, "double_val", "d")
INT32 = DType(3, "int32", "i", 4, "int_val", "i")
UINT8 = DType(4, "uint8", "u", 1, "int_val", "B")
INT16 = DType(5, "int16", "i", 2, "int_val", "h")
INT8 = DType(6, "int8", "i", 1, "int_val", "b")
STRING = DType(7, "string", "O", 0, "string_val")
COMPLEX64 = DType(8, "complex64", "c", 8, "scomplex_val")
INT64 = DType(9, "int64", "i", 8, "int64_val", "q")
BOOL = DType(10, "bool", "b", 1, "bool_val", "?")
QINT8 = DType(11, "qint8", "i", 1, "int_val")
QUINT8 = DType(12, "quint8", "u", 1, "int_val")
QINT32 = DType(13, "qint32", "i", 4, "int_val")
BFLOAT16 = DType(14, "bfloat16", "f", 2, "half_val")
QINT16 = DType(15, "qint16", "i", 2, "int_val")
QUINT16 = DType(16, "quint16", "u", 2, "int_val")
UINT16 = DType(17, "uint16", "u", 2, "int_val", "H")
COMPLEX128 = DType(18, "complex128", "c", 16, "dcomplex_val")
FLOAT16 = DType(19, "float16", "f", 2, "half_val", "e")
RESOURCE = DType(20, "resource", "", 0, "resource_handle_val")
VARIANT = DType(21, "variant", "", 0, "variant_val")
UINT32 = DType(22, "uint32", "u", 4, "uint32_val", "I")
UINT64 = DType(23, "uint64", "u", 8, "uint64_val", "Q")
FLOAT8_E5M2 = DType(24, "float8_e5m2", "f", 1, "float8_val")
FLOAT8_E4M3FN = DType(25, "float8_e4m3fn", "f", 1, "float8_val")
FLOAT8_E4M3FNUZ = DType(26, "float8_e4m3fnuz", "f", 1, "float8_val")
FLOAT8_E4M3B11FNUZ = DType(27, "float8_e4m3b11fnuz", "f", 1, "float8_val")
FLOAT8_E5M2FNUZ = DType(28, "float8_e5m2fnuz", "f", 1, "float8_val")
INT4 = DType(29, "int4", "i", 1, "int_val")
UINT4 = DType(30, "uint4", "u", 1, "int_val")
INT2 = DType(31, "int2", "i", 1, "int_val")
UINT2 = DType(32, "uint2", "u", 1, "int_val")
FLOAT4_E2M1FN = DType(33, "float4_e2m1fn", "f", 1)

NUMBERS: dict[str, DType] = {dtype.name: dtype for dtype in DTYPES.values()}
"""By name."""
REF = 100
"""A reference to a tensor of dtype n has the DataType 100 + n."""

CONTENT = 4
"""The field of a TensorProto that holds all elements in their memory layout; for strings, first the lengths."""
ELEMENT_FIELDS = {
    "float_val": 5, "double_val": 6, "int_val": 7, "string_val": 8, "scomplex_val": 9, "int64_val": 10, "bool_val": 11,
    "dcomplex_val": 12, "half_val": 13, "uint32_val": 16, "uint64_val": 17, "float8_val": 18,
}  # fmt: skip
"""The numbers of the TensorProto fields that hold elements one by one; see `DType.field`."""
AS_IN_MEMORY = frozenset(("float_val", "double_val", "scomplex_val", "dcomplex_val", "float8_val"))
"""The fields of `ELEMENT_FIELDS` with elements in their memory layout, single or packed; the others use varints."""

FLOATING = frozenset(dtype for dtype in DTYPES.values() if dtype.is_float and dtype.size > 1)
"""The floating-point types that models use for computation and training."""


def dtype_name(number: int) -> str:
    """Returns the name of a DataType; a reference ends in ``_ref``, an unknown number is ``dtype 999``."""
    known = DTYPES.get(base_dtype(number))
    return f"dtype {number}" if known is None else known.name + ("_ref" if number > REF else "")


def is_dtype(number: int) -> bool:
    """Returns whether `number` is a DataType, references included."""
    return base_dtype(number) in DTYPES


def base_dtype(number: int) -> int:
    """Returns the DataType without the reference."""
    return number - REF if number > REF else number


def is_readable_as(given: int, wanted: int) -> bool:
    """Returns whether an input of dtype `wanted` may read a tensor of dtype `given`.

    A reference can be read as a value, but not the reverse. An unknown dtype, 0, fits all.
    """
    return not given or not wanted or wanted in (given, base_dtype(given))


def is_inexact(number: int) -> bool:
    """Returns whether a DataType, or the base of a reference, is a floating-point or complex type."""
    known = DTYPES.get(base_dtype(number))
    return known is not None and known.is_inexact


def element_size(number: int) -> int:
    """Returns the bytes of one element; 0 if the dtype has no fixed size or does not exist."""
    known = DTYPES.get(number)
    return known.size if known is not None else 0
