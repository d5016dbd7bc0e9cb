"""TensorFlow's C API out of the installed Python package: found without importing it, loaded by ctypes."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Collection
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any, TypeVar

from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing, code_name


class LibraryUnusable(Exception):
    """TensorFlow is installed, but its libraries are not found, do not load or lack a function."""


class TFOutput(ctypes.Structure):
    """TF_Output: one output of an operation."""

    _fields_ = (("operation", c_void_p), ("index", c_int))


class TFBuffer(ctypes.Structure):
    """TF_Buffer: bytes lent to TensorFlow or by it."""

    _fields_ = (("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p))


_SIZES = POINTER(c_int64)
_OUTPUTS = POINTER(TFOutput)
_BUFFER = POINTER(TFBuffer)
_POINTERS = POINTER(c_void_p)

# name: (result, arguments), from tensorflow/c/c_api.h, tf_tensor.h, tf_tstring.h, tf_status.h, tf_buffer.h.
_FUNCTIONS: dict[str, tuple[type | None, list[type]]] = {
    "TF_Version": (c_char_p, []),
    "TF_NewStatus": (c_void_p, []),
    "TF_DeleteStatus": (None, [c_void_p]),
    "TF_GetCode": (c_int, [c_void_p]),
    "TF_Message": (c_char_p, [c_void_p]),
    "TF_NewGraph": (c_void_p, []),
    "TF_DeleteGraph": (None, [c_void_p]),
    "TF_NewImportGraphDefOptions": (c_void_p, []),
    "TF_DeleteImportGraphDefOptions": (None, [c_void_p]),
    "TF_ImportGraphDefOptionsSetDefaultDevice": (None, [c_void_p, c_char_p]),
    "TF_GraphImportGraphDef": (None, [c_void_p, _BUFFER, c_void_p, c_void_p]),
    "TF_GraphOperationByName": (c_void_p, [c_void_p, c_char_p]),
    "TF_GraphNextOperation": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "TF_OperationName": (c_char_p, [c_void_p]),
    "TF_OperationOpType": (c_char_p, [c_void_p]),
    "TF_OperationNumOutputs": (c_int, [c_void_p]),
    "TF_OperationOutputType": (c_int, [TFOutput]),
    "TF_GraphGetTensorNumDims": (c_int, [c_void_p, TFOutput, c_void_p]),
    "TF_GraphGetTensorShape": (None, [c_void_p, TFOutput, _SIZES, c_int, c_void_p]),
    "TF_NewSessionOptions": (c_void_p, []),
    "TF_DeleteSessionOptions": (None, [c_void_p]),
    "TF_SetConfig": (None, [c_void_p, c_char_p, c_size_t, c_void_p]),
    "TF_NewSession": (c_void_p, [c_void_p, c_void_p, c_void_p]),
    "TF_CloseSession": (None, [c_void_p, c_void_p]),
    "TF_DeleteSession": (None, [c_void_p, c_void_p]),
    "TF_SessionRun": (
        None,
        [
            c_void_p,
            _BUFFER,
            *(_OUTPUTS, _POINTERS, c_int),
            *(_OUTPUTS, _POINTERS, c_int),
            *(_POINTERS, c_int),
            _BUFFER,
            c_void_p,
        ],
    ),
    "TF_SessionListDevices": (c_void_p, [c_void_p, c_void_p]),
    "TF_DeviceListCount": (c_int, [c_void_p]),
    "TF_DeviceListName": (c_char_p, [c_void_p, c_int, c_void_p]),
    "TF_DeviceListType": (c_char_p, [c_void_p, c_int, c_void_p]),
    "TF_DeviceListMemoryBytes": (c_int64, [c_void_p, c_int, c_void_p]),
    "TF_DeleteDeviceList": (None, [c_void_p]),
    "TF_AllocateTensor": (c_void_p, [c_int, _SIZES, c_int, c_size_t]),
    "TF_DeleteTensor": (None, [c_void_p]),
    "TF_TensorMaybeMove": (c_void_p, [c_void_p]),
    "TF_TensorType": (c_int, [c_void_p]),
    "TF_NumDims": (c_int, [c_void_p]),
    "TF_Dim": (c_int64, [c_void_p, c_int]),
    "TF_TensorByteSize": (c_size_t, [c_void_p]),
    "TF_TensorData": (c_void_p, [c_void_p]),
    "TF_DataTypeSize": (c_size_t, [c_int]),
    "TF_StringInit": (None, [c_void_p]),
    "TF_StringCopy": (None, [c_void_p, c_char_p, c_size_t]),
    "TF_StringGetDataPointer": (c_void_p, [c_void_p]),
    "TF_StringGetSize": (c_size_t, [c_void_p]),
    "TF_NewBuffer": (_BUFFER, []),
    "TF_DeleteBuffer": (None, [_BUFFER]),
    "TF_LoadLibrary": (c_void_p, [c_char_p, c_void_p]),
    "TF_LoadPluggableDeviceLibrary": (c_void_p, [c_char_p, c_void_p]),
}
OPTIONAL = frozenset(("TF_LoadPluggableDeviceLibrary",))  # c_api_experimental.h
LATER = OPTIONAL | set(
    """
    TF_ImportGraphDefOptionsSetDefaultDevice TF_StringCopy TF_StringGetDataPointer TF_StringGetSize TF_StringInit
    """.split()
)
"""Functions that older releases, from 1.4 on, do not have."""

T = TypeVar("T")


class Library:
    """The functions of the C API as attributes, with their argument types declared.

    Args:
        libraries: are searched in order.
        optional: functions that may be missing.
    """

    def __init__(self, libraries: list[ctypes.CDLL], optional: Collection[str] = OPTIONAL) -> None:
        for name, (result, arguments) in _FUNCTIONS.items():
            found = next((getattr(lib, name) for lib in libraries if hasattr(lib, name)), None)
            if found is None:
                if name in optional:
                    continue
                raise LibraryUnusable(f"TensorFlow's libraries have no {name}")
            found.restype, found.argtypes = result, arguments
            setattr(self, name, found)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(name)  # declared for the type checker; reached by optional functions only

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


def load() -> Library:
    """Loads the C API, and the kernels and pluggable devices that Python TensorFlow also loads.

    Raises:
        TensorFlowMissing: TensorFlow is not installed.
        LibraryUnusable: it is installed, but cannot be used here.
        TensorFlowError: a kernel library or a pluggable device does not load.
    """
    folder = package_folder()
    libraries = []
    for path in _library_paths(folder):
        if not os.path.exists(path):
            raise LibraryUnusable(f"{path} does not exist")
        try:
            libraries.append(_open(path))
        except OSError as error:
            raise LibraryUnusable(str(error)) from error
    library = Library(libraries[::-1])
    _load_plugins(library, folder)
    return library


def load_release(folder: str) -> Library:
    """Loads the C API of a release whose libraries are below `folder`; see `gdsurgeon.runtime.packages`.

    Raises:
        LibraryUnusable: the library is missing, or does not load.
    """
    paths = sorted(os.path.join(place, name) for place, _, names in os.walk(folder, followlinks=True) for name in names)
    found = [
        path
        for stem in ("libtensorflow_framework.so", "libtensorflow_cc.so", "_pywrap_tensorflow_internal.so")
        for path in paths
        if os.path.basename(path).startswith(stem)
    ]
    if not found:
        raise LibraryUnusable("it contains no TensorFlow library")
    try:
        return Library([_open(path) for path in found][::-1], LATER)
    except OSError as error:
        raise LibraryUnusable(str(error)) from error


def _library_paths(folder: str) -> list[str]:
    """Returns the libraries of the package, each after its dependencies."""
    if sys.platform == "win32":
        return [os.path.join(folder, "python", "_pywrap_tensorflow_common.dll")]
    form = "lib{}.2.dylib" if sys.platform == "darwin" else "lib{}.so.2"
    return [os.path.join(folder, form.format(name)) for name in ("tensorflow_framework", "tensorflow_cc")]


def _open(path: str) -> ctypes.CDLL:
    # Not RTLD_GLOBAL: it would lay TensorFlow's BoringSSL over the OpenSSL of Python's own modules.
    # RTLD_LAZY spares some 65 ms of relocations; ctypes always adds RTLD_NOW, so libc is asked directly.
    if sys.platform != "linux":
        return ctypes.CDLL(path)
    libc = ctypes.CDLL(None)
    libc.dlopen.restype, libc.dlopen.argtypes = c_void_p, [c_char_p, c_int]
    libc.dlerror.restype, libc.dlerror.argtypes = c_char_p, []
    handle = libc.dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_LOCAL)
    if not handle:
        raise OSError((libc.dlerror() or b"the library does not load").decode("utf-8", "replace"))
    return ctypes.CDLL(path, handle=handle)


def _load_plugins(library: Library, folder: str) -> None:
    """Loads the additional libraries that `import tensorflow` loads, from the same folders."""
    for path in _shared_objects(os.path.join(folder, "core", "kernels")):
        library.check(library.TF_LoadLibrary, os.fsencode(path))
    sites = [place for place in sys.path if os.path.basename(place) in ("site-packages", "dist-packages")]
    # The environment variable names a library or a folder of them, plugins installed by pip are in a folder.
    devices = []
    for place in dict.fromkeys([os.path.dirname(folder), *sites]):
        plugins = _shared_objects(os.path.join(place, "tensorflow-plugins"))
        for path in plugins:
            library.check(library.TF_LoadLibrary, os.fsencode(path))
        devices += plugins
    named = os.environ.get("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "")
    if named:
        devices += _shared_objects(named) if os.path.isdir(named) else [named]
    for path in devices:
        if not hasattr(library, "TF_LoadPluggableDeviceLibrary"):
            raise LibraryUnusable("this TensorFlow loads pluggable devices through Python only")
        library.check(library.TF_LoadPluggableDeviceLibrary, os.fsencode(path))


def _shared_objects(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if _is_shared_object(name)]


def _is_shared_object(name: str) -> bool:
    """Returns whether `name` is the name of a shared library: libx.so, libx.so.2, or as on other systems."""
    if sys.platform == "win32":
        return name.endswith(".dll")
    stem, _, version = name.rpartition(".so")
    return (bool(stem) and (not version or version[1:2].isdigit())) or name.endswith(".dylib")
