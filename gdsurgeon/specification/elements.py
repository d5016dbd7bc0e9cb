"""The elements of constants, by the rules of TensorProto; shares no code with the edits."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import BFLOAT16, DTYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


class Elements(NamedTuple):
    """The DataType, the dims and the elements of a tensor, as in memory."""

    dtype: int
    shape: tuple[int, ...]
    data: bytes

    def array(self) -> Array:
        """The elements in their shape; bfloat16 as float32."""
        import numpy as np

        if self.dtype == BFLOAT16:
            return (np.frombuffer(self.data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(self.shape)
        return np.frombuffer(self.data, np.dtype(DTYPES[self.dtype].name)).reshape(self.shape)


def elements(node: Node) -> Elements | None:
    """Returns the elements of a constant; None for other dtypes than numbers."""
    tensor = attr_value(node.attr_bytes("value") or b"").tensor
    kind = DTYPES.get(tensor.dtype)
    if kind is None or not kind.size:
        return None
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    count, data = prod(shape), tensor.tensor_content
    if count and not data:
        code = "H" if kind.field == "half_val" else kind.code
        if not code:
            return None
        values = list(getattr(tensor, kind.field)) or [0]
        data = struct.pack(f"<{len(values)}{code}", *values)
    data += data[-kind.size :] * (count - len(data) // kind.size)
    return Elements(tensor.dtype, shape, data[: count * kind.size])
