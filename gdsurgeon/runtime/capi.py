"""TensorFlow through its C API: it starts in a fifth of the time of `import tensorflow`, with the same results.

The libraries of the installed Python package are found without importing it, and loaded by ctypes.

The C API leaves these tasks to its callers:
- It does not check a fed dtype and shape: `CApiGraph.run` does.
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
import re
import struct
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_char, c_char_p, c_int, c_int64, c_size_t, c_ubyte, c_void_p
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any, TypeVar

from gdsurgeon.ops.dtypes import DTYPES, STRING, base_dtype, dtype_name
from gdsurgeon.runtime.base import (
    FULL_TRACE,
    LoadedGraph,
    RunResult,
    Runtime,
    SessionOptions,
    TensorSpec,
    check_size,
    parse_name,
)
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing, code_name
from gdsurgeon.runtime.protocol import Bytes
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.fields import encode_varint, read_varint

T = TypeVar("T")

_SLOT = 24  # bytes of a TF_TString, which releases before 2.4 have not got: see `packed_strings`
_COPY_BELOW = 1 << 16  # bytes; smaller results are not worth keeping TensorFlow's memory for


# -- the libraries ----------------------------------------------------------------------------------------------------


class TFOutput(ctypes.Structure):
    """TF_Output: one output of an operation."""

    _fields_ = (("operation", c_void_p), ("index", c_int))


class TFBuffer(ctypes.Structure):
    """TF_Buffer: bytes lent to TensorFlow or by it."""

    _fields_ = (("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p))


_TYPES: dict[str, Any] = {
    "v": None, "p": c_void_p, "s": c_char_p, "i": c_int, "l": c_int64, "z": c_size_t, "o": TFOutput,
}  # fmt: skip
FUNCTIONS = """
    TF_Version s
    TF_NewStatus p
    TF_DeleteStatus vp
    TF_GetCode ip
    TF_Message sp
    TF_NewGraph p
    TF_DeleteGraph vp
    TF_NewImportGraphDefOptions p
    TF_DeleteImportGraphDefOptions vp
    TF_ImportGraphDefOptionsSetDefaultDevice vps later
    TF_GraphImportGraphDef vpppp
    TF_GraphOperationByName pps
    TF_OperationNumOutputs ip
    TF_OperationOutputType io
    TF_GraphGetTensorNumDims ipop
    TF_GraphGetTensorShape vpopip
    TF_NewSessionOptions p
    TF_DeleteSessionOptions vp
    TF_SetConfig vpszp
    TF_NewSession pppp
    TF_CloseSession vpp
    TF_DeleteSession vpp
    TF_SessionRun vppppippipipp
    TF_SessionListDevices ppp
    TF_DeviceListCount ip
    TF_DeviceListName spip
    TF_DeleteDeviceList vp
    TF_AllocateTensor pipiz
    TF_DeleteTensor vp
    TF_TensorMaybeMove pp
    TF_TensorType ip
    TF_NumDims ip
    TF_Dim lpi
    TF_TensorByteSize zp
    TF_TensorData pp
    TF_DataTypeSize zi
    TF_StringInit vp later
    TF_StringCopy vpsz later
    TF_StringGetDataPointer pp later
    TF_StringGetSize zp later
    TF_NewBuffer p
    TF_DeleteBuffer vp
    TF_LoadLibrary psp
    TF_LoadPluggableDeviceLibrary psp later
"""
"""The functions with the types of the result and of the arguments, from tensorflow/c/c_api.h, tf_tensor.h, tf_status.h,
tf_tstring.h, tf_buffer.h and c_api_experimental.h. Older releases, from 1.4 on, lack the later ones.
"""


class Library:
    """The functions of the C API as attributes, with their argument types declared.

    Args:
        libraries: are searched in order.
        is_old: functions that came later may be missing.
    """

    def __init__(self, libraries: list[ctypes.CDLL], *, is_old: bool = False) -> None:
        for name, letters, *kind in map(str.split, FUNCTIONS.strip().splitlines()):
            found = next((getattr(lib, name) for lib in libraries if hasattr(lib, name)), None)
            if found is not None:
                found.restype, *found.argtypes = map(_TYPES.__getitem__, letters)
                setattr(self, name, found)
            elif not (is_old and kind):
                raise TensorFlowMissing(f"TensorFlow's libraries have no {name}")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(name)  # declared for the type checker; reached by functions that came later only

    def check(self, call: Callable[..., T], *arguments: object) -> T:
        """Calls `call` with `arguments` and a TF_Status.

        Raises:
            TensorFlowError: the status is not OK afterwards.
        """
        status = self.TF_NewStatus()
        try:
            result = call(*arguments, status)
            code = self.TF_GetCode(status)
            if code:
                message = self.TF_Message(status).decode("utf-8", "replace")
                raise TensorFlowError(code_name(code), message)
            return result
        finally:
            self.TF_DeleteStatus(status)


def package_folder() -> str:
    """Returns the folder of the installed package tensorflow, without importing it.

    Raises:
        TensorFlowMissing: TensorFlow is not installed.
    """
    from importlib.util import find_spec

    try:
        spec = find_spec("tensorflow")
    except (ImportError, ValueError):  # a half-made module of that name in sys.modules
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise TensorFlowMissing("TensorFlow is not installed")
    return next(iter(spec.submodule_search_locations))


def load_installed() -> Library:
    """Loads the C API, and the kernels and pluggable devices that Python TensorFlow also loads.

    Raises:
        TensorFlowMissing: TensorFlow is not installed, or its libraries do not load or lack a function.
        TensorFlowError: a kernel library or a pluggable device does not load.
    """
    folder = package_folder()
    form = "libtensorflow_{}.2.dylib" if sys.platform == "darwin" else "libtensorflow_{}.so.2"
    library = _loaded([os.path.join(folder, form.format(part)) for part in ("framework", "cc")])  # after dependencies
    # The environment variable names a library or a folder of them, plugins installed by pip are in a folder.
    sites = [place for place in sys.path if os.path.basename(place) in ("site-packages", "dist-packages")]
    plugins = [
        path
        for place in dict.fromkeys([os.path.dirname(folder), *sites])
        for path in _shared_objects(os.path.join(place, "tensorflow-plugins"))
    ]
    for path in (*_shared_objects(os.path.join(folder, "core", "kernels")), *plugins):
        library.check(library.TF_LoadLibrary, os.fsencode(path))
    named = os.environ.get("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "")
    for path in (*plugins, *(_shared_objects(named) or [named] if named else [])):
        library.check(library.TF_LoadPluggableDeviceLibrary, os.fsencode(path))
    return library


def load_release(folder: str) -> Library:
    """Loads the C API of a release whose libraries are below `folder`; see `gdsurgeon.runtime.packages`.

    Raises:
        TensorFlowMissing: the library is missing, or does not load.
    """
    paths = sorted(os.path.join(place, name) for place, _, names in os.walk(folder, followlinks=True) for name in names)
    stems = ("libtensorflow_framework.so", "libtensorflow_cc.so", "_pywrap_tensorflow_internal.so")
    found = [path for stem in stems for path in paths if os.path.basename(path).startswith(stem)]
    return _loaded(found, is_old=True)


def _loaded(paths: Sequence[str], *, is_old: bool = False) -> Library:
    """Loads libraries, each after its dependencies. Raises TensorFlowMissing if one does not load."""
    if sys.platform != "linux":
        return Library([ctypes.CDLL(path) for path in reversed(paths)], is_old=is_old)
    # Not RTLD_GLOBAL: it would lay TensorFlow's BoringSSL over the OpenSSL of Python's own modules.
    # RTLD_LAZY spares some 65 ms of relocations; ctypes always adds RTLD_NOW, so libc is asked directly.
    libc = ctypes.CDLL(None)
    libc.dlopen.restype, libc.dlopen.argtypes, libc.dlerror.restype = c_void_p, [c_char_p, c_int], c_char_p
    libraries: list[ctypes.CDLL] = []
    for path in paths:
        handle = libc.dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_LOCAL)
        if not handle:
            reason = (libc.dlerror() or b"a library does not load").decode("utf-8", "replace")
            raise TensorFlowMissing(f"TensorFlow cannot be loaded: {reason}")
        libraries.insert(0, ctypes.CDLL(path, handle=handle))
    return Library(libraries, is_old=is_old)


def _shared_objects(folder: str) -> list[str]:
    """Returns the shared libraries in a folder: libx.so, libx.so.2, or libx.dylib; [] if it is not one."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in names if re.search(r".\.(so(\.\d.*)?|dylib)$", name)]


# -- graphs -----------------------------------------------------------------------------------------------------------


def open_capi(folder: str = "") -> Runtime:
    """Returns TensorFlow over the C API.

    Args:
        folder: of the libraries of a release; '' for the TensorFlow that is installed.

    Raises:
        TensorFlowMissing, TensorFlowError: see `load_installed`.
    """
    library = load_release(folder) if folder else load_installed()

    def load_op_library(path: str) -> None:
        library.check(library.TF_LoadLibrary, os.fsencode(path))

    return Runtime("capi", library.TF_Version().decode(), partial(CApiGraph, library), load_op_library)


class CApiGraph(LoadedGraph):
    """`gdsurgeon.runtime.base.LoadedGraph` over the C API: a TF_Graph and its TF_Session."""

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
        content = (c_char * view.nbytes).from_buffer(bytearray(view) if view.readonly else view)
        # Not ctypes.cast, which makes a cycle of references, so the memory would be freed late.
        buffer = TFBuffer(ctypes.addressof(content), view.nbytes, None)
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
        for end in (library.TF_CloseSession, library.TF_DeleteSession) if session else ():
            # Nothing can be done about a session that does not close, and its memory must be freed anyway.
            with contextlib.suppress(TensorFlowError):
                library.check(end, session)
        if graph:
            library.TF_DeleteGraph(graph)

    def devices(self) -> list[str]:
        """Returns the names of the devices that the session sees."""
        library = self._library
        listed = library.check(library.TF_SessionListDevices, self._session)
        try:
            numbers = range(library.TF_DeviceListCount(listed))
            return [library.check(library.TF_DeviceListName, listed, number).decode() for number in numbers]
        finally:
            library.TF_DeleteDeviceList(listed)

    def _node(self, name: str) -> int:
        encoded = name.encode("utf-8", "surrogateescape")
        node: int | None = self._library.TF_GraphOperationByName(self._graph, encoded)
        if not node or b"\0" in encoded:
            raise TensorFlowError("not_found", f"the graph has no node {name!r}")
        return node

    def _output(self, tensor: tuple[str, int]) -> TFOutput:
        name, index = tensor
        node = self._node(name)
        count = self._library.TF_OperationNumOutputs(node)
        if index >= count:
            has = f"has {count} output{'s' if count != 1 else ''}"
            raise TensorFlowError("not_found", f"{name!r} {has}, no output {index}")
        return TFOutput(node, index)

    def signature(self, tensor: str) -> TensorSpec:
        """Returns dtype and shape of a tensor ('node' or 'node:1').

        Raises:
            TensorFlowError: 'not_found' for a name that no node or output has.
        """
        library = self._library
        output = self._output(parse_name(tensor))
        dtype = base_dtype(library.TF_OperationOutputType(output))
        rank = library.check(library.TF_GraphGetTensorNumDims, self._graph, output)
        if rank < 0:
            return TensorSpec(dtype, None)
        sizes = (c_int64 * rank)()
        library.check(library.TF_GraphGetTensorShape, self._graph, output, sizes, rank)
        return TensorSpec(dtype, tuple(sizes))

    def run(
        self, feeds: Mapping[str, Tensor], fetches: Sequence[str], targets: Sequence[str] = (), trace: bool = False
    ) -> RunResult:
        """See `LoadedGraph.run`. Checks the dtypes and shapes of `feeds`, because TensorFlow does not."""
        fed: dict[tuple[str, int], Tensor] = {}
        for name, value in feeds.items():
            if parse_name(name) in fed:
                raise TensorFlowError("invalid_argument", f"{name!r} is fed twice")
            _check_feed(name, value, self.signature(name))
            fed[parse_name(name)] = value
        for name in fetches:
            dtype = self.signature(name).dtype
            if dtype not in DTYPES or not DTYPES[dtype].kind:
                raise TensorFlowError("invalid_argument", f"{name!r} is a {dtype_name(dtype)}, which cannot be fetched")
        wanted = list(map(parse_name, fetches))
        # TensorFlow refuses to fetch a fed tensor; Python's Session returns the fed value, and so does this method.
        asked = list(dict.fromkeys(key for key in wanted if key not in fed))
        if not wanted and not targets:
            raise TensorFlowError("invalid_argument", "a run needs something to fetch or to run")
        metadata = b"" if trace else None
        if asked or targets:
            tensors, metadata = self._run(fed, asked, targets, trace)
            fed.update(zip(asked, tensors, strict=True))
        return RunResult([fed[key] for key in wanted], metadata)

    def _run(
        self,
        feeds: Mapping[tuple[str, int], Tensor],
        fetches: Sequence[tuple[str, int]],
        targets: Sequence[str],
        trace: bool,
    ) -> RunResult:
        """Runs with checked arguments: no fetch is repeated or fed."""
        library = self._library
        fed = (TFOutput * len(feeds))(*map(self._output, feeds))
        wanted = (TFOutput * len(fetches))(*map(self._output, fetches))
        nodes = (c_void_p * len(targets))(*map(self._node, targets))
        values, got = (c_void_p * len(feeds))(), (c_void_p * len(fetches))()
        options = metadata = report = None
        if trace:
            full = ctypes.create_string_buffer(FULL_TRACE)
            options = ctypes.byref(TFBuffer(ctypes.addressof(full), len(FULL_TRACE), None))
            metadata = library.TF_NewBuffer()
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
            if metadata is not None:
                written = TFBuffer.from_address(metadata)
                report = ctypes.string_at(written.data, written.length) if written.length else b""
        finally:
            for pointer in values:
                if pointer:
                    library.TF_DeleteTensor(pointer)
            if metadata is not None:
                library.TF_DeleteBuffer(metadata)
        return RunResult([self._from_tensorflow(pointer) for pointer in got if pointer], report)

    def _to_tensorflow(self, value: Tensor) -> int:
        """Returns a new TF_Tensor with a copy of `value`."""
        library = self._library
        rank = len(value.shape)
        sizes = (c_int64 * rank)(*value.shape)
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
        pointer = moved or pointer
        dtype, size = library.TF_TensorType(pointer), library.TF_TensorByteSize(pointer)
        shape = tuple(library.TF_Dim(pointer, k) for k in range(library.TF_NumDims(pointer)))
        base = library.TF_TensorData(pointer) if size else 0
        if moved and dtype != STRING and size >= _COPY_BELOW:
            array = (c_ubyte * size).from_address(base)
            weakref.finalize(array, library.TF_DeleteTensor, pointer)  # with the last view of it
            return Tensor(dtype, shape, memoryview(array))
        try:
            if dtype == STRING and hasattr(library, "TF_StringInit"):
                data, length = library.TF_StringGetDataPointer, library.TF_StringGetSize
                slots = range(base, base + size, _SLOT)  # their size is that of the tensor
                return Tensor(dtype, shape, [ctypes.string_at(data(slot), length(slot)) for slot in slots])
            copy = ctypes.string_at(base, size) if size else b""
            return Tensor(dtype, shape, unpacked_strings(copy, prod(shape)) if dtype == STRING else copy)
        finally:
            library.TF_DeleteTensor(pointer)


def _check_feed(name: str, value: Tensor, expected: TensorSpec) -> None:
    if expected.dtype != value.dtype:
        line = f"{name!r} requires {dtype_name(expected.dtype)}, got {dtype_name(value.dtype)}"
        raise TensorFlowError("invalid_argument", line)
    if expected.shape is not None and (
        len(expected.shape) != len(value.shape)
        or any(want not in (-1, have) for want, have in zip(expected.shape, value.shape, strict=True))
    ):
        want = ",".join("?" if size < 0 else str(size) for size in expected.shape)
        have = ",".join(map(str, value.shape))
        raise TensorFlowError("invalid_argument", f"{name!r} requires the shape [{want}], got [{have}]")


def packed_strings(texts: Sequence[bytes]) -> bytes:
    """Returns the memory of a tensor of strings in releases before 2.4: offsets, then lengths and bytes."""
    parts = [encode_varint(len(text)) + text for text in texts]
    *places, _ = accumulate(map(len, parts), initial=0)
    return struct.pack(f"={len(places)}Q", *places) + b"".join(parts)


def unpacked_strings(data: bytes, count: int) -> list[bytes]:
    """Returns the `count` strings of a tensor with the memory `data`; see `packed_strings`."""
    out, begin = [], 8 * count
    for place in struct.unpack_from(f"={count}Q", data):
        length, at = read_varint(data, begin + place, len(data))
        out.append(data[at : at + length])
    return out
