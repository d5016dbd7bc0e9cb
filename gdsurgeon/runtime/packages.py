"""Releases of TensorFlow and other engines that are installed elsewhere: in a wheel, or in a folder.

A separate process loads them. Of a release of TensorFlow it only loads the libraries.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from gdsurgeon.ops.releases import TITLES
from gdsurgeon.runtime.failures import TensorFlowMissing
from gdsurgeon.runtime.process import PRELOADED

MODULES = {"opencv": "cv2", "openvino": "openvino", "tflite": "tensorflow"}
"""The Python module of each engine that can run."""
PACKAGES = {"opencv": "opencv-python-headless", "openvino": "openvino", "tflite": "tensorflow"}
"""Their packages for pip."""

_TENSORFLOW = re.compile(r"(_pywrap_tensorflow_internal\.so|libtensorflow_(framework|cc)\.so[.0-9]*)$")
_LIBRARIES = re.compile(rf"{_TENSORFLOW.pattern}|\.libs/[^/]+$")
_SYMBOLS = "int _Py_CheckRecursionLimit = 1000; void *_PyThreadState_Current;"
"""Symbols that wheels of 1.x use from their version of Python, and that newer versions do not have."""


class NotThere(TensorFlowMissing):
    """The named wheel or folder contains neither the release nor the engine; `reason` says what is missing."""


@contextmanager
def unpacked(path: str) -> Iterator[str]:
    """Yields a folder with the libraries of a release, for the argument `runtime` of a `Worker`.

    Args:
        path: a wheel, or a folder into which a wheel was unpacked or installed.

    Raises:
        NotThere: it is neither, or contains no library of TensorFlow.
    """
    with _extracted("" if os.path.isdir(path) else path, _LIBRARIES) as folder:
        if os.path.isdir(path):
            os.symlink(os.path.abspath(path), os.path.join(folder, "release"))
        names = (name for _, _, files in os.walk(folder, followlinks=True) for name in files)
        if not any(map(_TENSORFLOW.search, names)):
            raise NotThere("it contains no TensorFlow library")
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is not None:  # only releases of 1.x need the library
            library = os.path.join(folder, PRELOADED)
            command = [compiler, "-shared", "-fPIC", "-x", "c", "-o", library, "-"]
            done = subprocess.run(command, input=_SYMBOLS.encode(), capture_output=True, check=False)
            if done.returncode and os.path.exists(library):
                os.unlink(library)
        yield folder


@contextmanager
def _extracted(wheel: str, wanted: re.Pattern[str]) -> Iterator[str]:
    """Yields a temporary folder with the `wanted` files of a wheel; without a wheel, it is empty. Raises NotThere."""
    with tempfile.TemporaryDirectory(prefix="gdsurgeon-release-") as folder:
        try:
            if wheel:
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(folder, [name for name in archive.namelist() if wanted.search(name)])
        except (OSError, zipfile.BadZipFile) as error:
            raise NotThere(f"it is neither a wheel nor a folder: {error}") from error
        yield folder


@contextmanager
def engine_at(engine: str, path: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the name of `engine` for `open_runtime`, and the folders that its process must be able to read.

    Args:
        engine: one of `MODULES`.
        path: a wheel, a folder into which a wheel was unpacked or installed, or a virtual environment; None: it is
            installed for this Python.

    Raises:
        NotThere: it is not in `path`.
        TensorFlowMissing: it is not installed.
    """
    if path is None:
        if not is_in(engine, None):
            raise TensorFlowMissing(f"{TITLES[engine]} is not installed")
        yield engine, ()
    elif os.path.isdir(path):
        inside = sysconfig.get_path("purelib", vars={"base": path, "platbase": path})
        yield _found(engine, path, inside)
    else:
        with _extracted(path, re.compile("")) as folder:
            yield _found(engine, folder)


def _found(engine: str, *folders: str) -> tuple[str, tuple[str, ...]]:
    for folder in folders:
        if is_in(engine, folder):
            return f"{engine}:{os.path.abspath(folder)}", (folder,)
    raise NotThere(f"it has no module {MODULES[engine]}")


def is_in(engine: str, folder: str | None) -> bool:
    """Returns whether the module of `engine` is in `folder` or, without a folder, on the module path."""
    return importlib.machinery.PathFinder.find_spec(MODULES[engine], [folder] if folder else sys.path) is not None
