"""TensorFlow through its C API: it starts in a fifth of the time of `import tensorflow`, with the same results.

The C API leaves these tasks to its callers:
- It does not check a fed shape: `gdsurgeon.runtime.checked` does.
- A tensor whose bytes do not fit its shape is allocated as NULL, and TF_TensorData(NULL) crashes: `Tensor` refuses such
  bytes.
- TensorFlow may use the memory of a feed after the run (a queue, a fetched Identity): feeds are copied.
- A fetched tensor may share memory with a variable that a later run changes: TF_TensorMaybeMove shows whether it has
  its own memory; if not, it is copied.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator, Sequence
from ctypes import c_char, c_char_p, c_int64, c_size_t, c_ubyte, c_void_p
from functools import partial
from math import prod

from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.runtime.base import FULL_TRACE, Device, Operation, RunResult, SessionOptions, TensorSpec
from gdsurgeon.runtime.checked import Bytes, Runtime, TensorFlowGraph, TensorName, check_output, check_size, no_node
from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.library import Library, TFBuffer, TFOutput, load_release
from gdsurgeon.runtime.library import load as load_library
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.fields import encode_varint, read_varint

_SLOT = 24  # bytes of a TF_TString, which releases before 2.4 have not got: see `packed_strings`
_COPY_BELOW = 1 << 16  # bytes; smaller results are not worth keeping TensorFlow's memory for


def open_capi(folder: str = "") -> Runtime:
    """Returns TensorFlow over the C API.

    Args:
        folder: of the libraries of a release; '' for the TensorFlow that is installed.

    Raises:
        TensorFlowMissing, LibraryUnusable, TensorFlowError: see `gdsurgeon.runtime.library.load`.
    """
    library = load_release(folder) if folder else load_library()

    def load_op_library(path: str) -> None:
        library.check(library.TF_LoadLibrary, os.fsencode(path))

    return Runtime("capi", library.TF_Version().decode(), partial(CApiGraph, library), load_op_library)


class CApiGraph(TensorFlowGraph):
    """`gdsurgeon.runtime.checked.LoadedGraph` over the C API: a TF_Graph and its TF_Session."""

    def __init__(self, library: Library, data: Bytes, default_device: str, options: SessionOptions) -> None:
        self._library = library
        self._session: int | None = None
        self._graph: int | None = library.TF_NewGraph()
        try:
            self._import(data, default_device)
            self._session = self._open_session(options)
        except BaseException:
            self.close()
            raise

    def _import(self, data: Bytes, default_device: str) -> None:
        library = self._library
        view = memoryview(data)
        check_size(view.nbytes)
        holder: c_char_p | ctypes.Array[c_char]  # what keeps the memory at `buffer.data` in place
        if isinstance(data, bytes):
            holder = c_char_p(data)
        elif view.readonly or not view.nbytes:
            holder = c_char_p(view.tobytes())
        else:
            holder = (c_char * view.nbytes).from_buffer(view)
        buffer = TFBuffer(ctypes.cast(holder, c_void_p), view.nbytes, None)
        options = library.TF_NewImportGraphDefOptions()
        try:
            if default_device:
                library.TF_ImportGraphDefOptionsSetDefaultDevice(options, default_device.encode())
            library.check(library.TF_GraphImportGraphDef, self._graph, ctypes.byref(buffer), options)
        finally:
            library.TF_DeleteImportGraphDefOptions(options)

    def _open_session(self, options: SessionOptions) -> int:
        library = self._library
        config = options.config_proto()
        settings = library.TF_NewSessionOptions()
        try:
            library.check(library.TF_SetConfig, settings, config, len(config))
            session: int = library.check(library.TF_NewSession, self._graph, settings)
        finally:
            library.TF_DeleteSessionOptions(settings)
        return session

    def close(self) -> None:
        library = self._library
        session, self._session = self._session, None
        graph, self._graph = self._graph, None
        if session:
            # Nothing can be done about a session that does not close, and its memory must be freed anyway.
            with contextlib.suppress(TensorFlowError):
                library.check(library.TF_CloseSession, session)
            with contextlib.suppress(TensorFlowError):
                library.check(library.TF_DeleteSession, session)
        if graph:
            library.TF_DeleteGraph(graph)

    def operations(self) -> Iterator[Operation]:
        library = self._library
        position = c_size_t(0)
        while node := library.TF_GraphNextOperation(self._graph, ctypes.byref(position)):
            yield Operation(
                library.TF_OperationName(node).decode("utf-8", "surrogateescape"),
                library.TF_OperationOpType(node).decode("utf-8", "surrogateescape"),
                library.TF_OperationNumOutputs(node),
            )

    def devices(self) -> list[Device]:
        library = self._library
        listed = library.check(library.TF_SessionListDevices, self._session)
        try:
            return [
                Device(
                    library.check(library.TF_DeviceListName, listed, k).decode(),
                    library.check(library.TF_DeviceListType, listed, k).decode(),
                    library.check(library.TF_DeviceListMemoryBytes, listed, k),
                )
                for k in range(library.TF_DeviceListCount(listed))
            ]
        finally:
            library.TF_DeleteDeviceList(listed)

    def _node(self, name: str) -> int:
        encoded = name.encode("utf-8", "surrogateescape")
        node: int | None = self._library.TF_GraphOperationByName(self._graph, encoded)
        if not node or b"\0" in encoded:
            raise no_node(name)
        return node

    def _output(self, key: TensorName) -> TFOutput:
        name, index = key
        node = self._node(name)
        check_output(name, index, self._library.TF_OperationNumOutputs(node))
        return TFOutput(node, index)

    def _signature(self, key: TensorName) -> TensorSpec:
        library = self._library
        output = self._output(key)
        dtype = base_dtype(library.TF_OperationOutputType(output))
        rank = library.check(library.TF_GraphGetTensorNumDims, self._graph, output)
        if rank < 0:
            return TensorSpec(dtype, None)
        sizes = (c_int64 * max(rank, 1))()
        library.check(library.TF_GraphGetTensorShape, self._graph, output, sizes, rank)
        return TensorSpec(dtype, tuple(sizes[:rank]))

    def _run(
        self, feeds: dict[TensorName, Tensor], fetches: list[TensorName], targets: Sequence[str], trace: bool
    ) -> RunResult:
        library = self._library
        fed = (TFOutput * max(len(feeds), 1))(*map(self._output, feeds))
        wanted = (TFOutput * max(len(fetches), 1))(*map(self._output, fetches))
        nodes = (c_void_p * max(len(targets), 1))(*map(self._node, targets))
        got = (c_void_p * max(len(fetches), 1))()
        options = metadata = None
        if trace:
            options = ctypes.byref(TFBuffer(ctypes.cast(c_char_p(FULL_TRACE), c_void_p), len(FULL_TRACE), None))
            metadata = library.TF_NewBuffer()
        values = (c_void_p * max(len(feeds), 1))()
        try:
            for k, value in enumerate(feeds.values()):
                values[k] = self._to_tensorflow(value)
            library.check(
                library.TF_SessionRun,
                self._session,
                options,
                *(fed, values, len(feeds)),
                *(wanted, got, len(fetches)),
                *(nodes, len(targets)),
                metadata,
            )
            report = None
            if metadata is not None:
                written = metadata.contents
                report = ctypes.string_at(written.data, written.length) if written.length else b""
        finally:
            for pointer in values:
                if pointer:
                    library.TF_DeleteTensor(pointer)
            if metadata is not None:
                library.TF_DeleteBuffer(metadata)
        fetched = [pointer for pointer in got[: len(fetches)] if pointer]
        return RunResult([self._from_tensorflow(pointer) for pointer in fetched], report)

    def _to_tensorflow(self, value: Tensor) -> int:
        """Returns a new TF_Tensor with a copy of `value`."""
        library = self._library
        rank = len(value.shape)
        sizes = (c_int64 * max(rank, 1))(*value.shape)
        data = value.data
        if isinstance(data, list) and not hasattr(library, "TF_StringInit"):
            data = memoryview(packed_strings(data))
        nbytes = _SLOT * len(data) if isinstance(data, list) else data.nbytes
        pointer: int | None = library.TF_AllocateTensor(value.dtype, sizes, rank, nbytes)
        if not pointer:
            raise TensorFlowError("resource_exhausted", f"no memory for a feed of {nbytes} bytes")
        if nbytes:
            base = library.TF_TensorData(pointer)
            if isinstance(data, list):
                # TensorFlow may go on using the strings after the run, so they are left to it for good.
                for k, text in enumerate(data):
                    library.TF_StringInit(base + _SLOT * k)
                    library.TF_StringCopy(base + _SLOT * k, text, len(text))
            else:
                memoryview((c_ubyte * nbytes).from_address(base)).cast("B")[:] = data
        return pointer

    def _from_tensorflow(self, pointer: int) -> Tensor:
        """Returns the value of a TF_Tensor and takes ownership of it; large values keep TensorFlow's memory."""
        library = self._library
        moved: int | None = library.TF_TensorMaybeMove(pointer)  # NULL if its memory is shared
        owner = _Owner(library, moved or pointer)
        pointer = owner.pointer
        dtype, size = library.TF_TensorType(pointer), library.TF_TensorByteSize(pointer)
        shape = tuple(library.TF_Dim(pointer, k) for k in range(library.TF_NumDims(pointer)))
        base = library.TF_TensorData(pointer) if size else 0
        if dtype == STRING:
            if not hasattr(library, "TF_StringInit"):
                packed = ctypes.string_at(base, size) if size else b""
                return Tensor(dtype, shape, unpacked_strings(packed, prod(shape)))
            # TF_TensorByteSize counts the slots.
            slots = range(base, base + size, _SLOT) if size else ()
            data, length = library.TF_StringGetDataPointer, library.TF_StringGetSize
            return Tensor(dtype, shape, [ctypes.string_at(data(slot), length(slot)) for slot in slots])
        if not moved or size < _COPY_BELOW:
            return Tensor(dtype, shape, ctypes.string_at(base, size) if size else b"")
        array = (c_ubyte * size).from_address(base)
        array.owner = owner  # frees the memory with the last view of it
        return Tensor(dtype, shape, memoryview(array))


class _Owner:
    """Deletes a TF_Tensor when the last reference to it is dropped."""

    __slots__ = ("_delete", "pointer")

    def __init__(self, library: Library, pointer: int) -> None:
        self.pointer = pointer
        self._delete = library.TF_DeleteTensor

    def __del__(self) -> None:
        self._delete(self.pointer)


def packed_strings(texts: Sequence[bytes]) -> bytes:
    """Returns the memory of a tensor of strings in releases before 2.4: offsets, then lengths and bytes."""
    places, parts, at = [], [], 0
    for text in texts:
        part = encode_varint(len(text)) + text
        places.append(at)
        parts.append(part)
        at += len(part)
    return struct.pack(f"={len(places)}Q", *places) + b"".join(parts)


def unpacked_strings(data: bytes, count: int) -> list[bytes]:
    """Returns the `count` strings of a tensor with the memory `data`; see `packed_strings`."""
    out, begin = [], 8 * count
    for place in struct.unpack_from(f"={count}Q", data):
        length, at = read_varint(data, begin + place, len(data))
        out.append(data[at : at + length])
    return out
