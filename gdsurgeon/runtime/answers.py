"""What may answer a request: its types, its size and its counts follow from the request.

The worker may run anything, so the command accepts no answer that it did not ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gdsurgeon.ops.dtypes import DTYPES, STRING
from gdsurgeon.runtime.encoding import BadMessage, elements
from gdsurgeon.runtime.failures import Stage
from gdsurgeon.runtime.protocol import OutputInfo, RunSummary, request_types
from gdsurgeon.runtime.tensor import Tensor

_ROOM = 1 << 16
"""Bytes that the large columns of any answer may have."""
_ROOM_OF_ITEM = 1 << 12
"""Bytes that each item of an answer adds."""
_ROOM_OF_BYTE = 4
"""Bytes that each byte of a graph adds: names and ops of its nodes, each with its length."""


class Request(NamedTuple):
    """A request, and what may answer it.

    Attributes:
        method: of the child.
        stage: the work of the child; the key is the name of the argument that names the graph.
        items: the argument that has as many items as the answer, or ''.
        result: the argument that names an earlier result, or ''. Without `items` the answer has as many items.
        is_large: whether the answer may be as large as the memory of the child.
    """

    method: Callable[..., Any]
    stage: Stage
    items: str = ""
    result: str = ""
    is_large: bool = False


class Expected:
    """What may answer a request.

    Args:
        request: the request.
        arguments: its arguments, by name.
        results: the requests that made the results in the child, by name. A request that makes a result is added.
        size: bytes of the graph that the request names, or 0.
    """

    def __init__(
        self, request: Request, arguments: Mapping[str, Any], results: dict[str, Expected], size: int = 0
    ) -> None:
        self.types = [request_types(request.method)[1]]
        self._source = results.get(arguments.get(request.result, ""))
        items = arguments.get(request.items)
        self._count: int | None = len(items) if items is not None else self._source._count if self._source else None
        self._index: int | None = arguments.get("index")
        self._is_traced: bool = arguments.get("trace", False)
        self._is_large = request.is_large or self._is_traced
        self._size = size
        # The tensors of the result that the request makes: those of a run are known when it is answered.
        self._outputs = [OutputInfo(each.dtype, each.shape, each.nbytes) for each in arguments.get("tensors", ())]
        if "result_id" in arguments and not request.result:
            results[arguments["result_id"]] = self

    def _tensors(self) -> list[OutputInfo]:
        """The tensors that the answer is about."""
        outputs = self._source._outputs if self._source else []
        return outputs if self._index is None else outputs[self._index : self._index + 1]

    def room(self, most: int) -> int:
        """How many bytes the large columns of the answer may have; MOST is the memory of the child."""
        if self._is_large:
            return most
        room = _ROOM + _ROOM_OF_ITEM * (self._count or 0) + _ROOM_OF_BYTE * self._size
        for dtype, shape, nbytes in self._tensors():
            room += nbytes + (8 * elements(dtype, shape) if dtype == STRING else 0)  # with the lengths of strings
        return min(room, most)

    def check(self, value: object) -> None:
        """Raises BadMessage if VALUE, which has the right type, is not an answer."""
        if isinstance(value, Tensor) and [(value.dtype, value.shape, value.nbytes)] != self._tensors():
            raise BadMessage("a tensor that is not the one of the run")
        if isinstance(value, RunSummary):
            if value.metadata is not None and not self._is_traced:
                raise BadMessage("a trace that was not asked for")
            for dtype, shape, nbytes in value.outputs:
                count = elements(dtype, shape)
                if nbytes < 0 or (dtype != STRING and nbytes != count * DTYPES[dtype].size):
                    raise BadMessage(f"{nbytes} bytes for a tensor of {count} elements")
            self._outputs = value.outputs
        items = value.outputs if isinstance(value, RunSummary) else value
        if isinstance(items, list) and self._count is not None and len(items) != self._count:
            raise BadMessage(f"{len(items)} items, but {self._count} are expected")
