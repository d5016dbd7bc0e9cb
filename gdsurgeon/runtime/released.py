"""A release of TensorFlow that is not installed: its libraries out of a wheel, to be loaded by a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from gdsurgeon.runtime.failures import TensorFlowMissing
from gdsurgeon.runtime.process import PRELOADED

_LIBRARIES = re.compile(r"(_pywrap_tensorflow_internal\.so|libtensorflow_(framework|cc)\.so[.0-9]*|\.libs/[^/]+)$")
_TENSORFLOW = re.compile(r"(_pywrap_tensorflow_internal\.so|libtensorflow_(framework|cc)\.so[.0-9]*)$")
_MISSED = "int _Py_CheckRecursionLimit = 1000; void *_PyThreadState_Current;"
"""What wheels of 1.x want of the Python for which they were made, and what Pythons of today have no more."""


@contextmanager
def unpacked(path: str) -> Iterator[str]:
    """A folder with the libraries of a release, by which a `gdsurgeon.runtime.client.Worker` runs.

    Args:
        path: a wheel, or a folder into which one was unpacked or installed.

    Raises:
        TensorFlowMissing: it is neither, or has no library of TensorFlow in it; the text says so.
    """
    with tempfile.TemporaryDirectory(prefix="gdsurgeon-release-") as folder:
        try:
            if os.path.isdir(path):
                os.symlink(os.path.abspath(path), os.path.join(folder, "release"))
            else:
                with zipfile.ZipFile(path) as wheel:
                    wheel.extractall(folder, [name for name in wheel.namelist() if _LIBRARIES.search(name)])
        except (OSError, zipfile.BadZipFile) as error:
            raise TensorFlowMissing(f"it is neither a wheel nor a folder of TensorFlow: {error}") from error
        if not _has_library(folder):
            raise TensorFlowMissing("it contains no TensorFlow library")
        _make_up(folder)
        yield folder


def _has_library(folder: str) -> bool:
    places = os.walk(folder, followlinks=True)
    return any(_TENSORFLOW.search(name) for _, _, names in places for name in names)


def _make_up(folder: str) -> None:
    """Makes a library of the symbols that a release of 1.x misses; without a compiler the others do without."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return
    library = os.path.join(folder, PRELOADED)
    asked = [compiler, "-shared", "-fPIC", "-x", "c", "-o", library, "-"]
    done = subprocess.run(asked, input=_MISSED.encode(), capture_output=True, check=False)
    if done.returncode and os.path.exists(library):
        os.unlink(library)
