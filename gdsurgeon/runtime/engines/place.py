"""Where an engine is: installed, in a wheel, or in a folder."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from gdsurgeon.ops.engines import TITLES
from gdsurgeon.runtime.failures import TensorFlowMissing

MODULES = {"opencv": "cv2", "openvino": "openvino", "tflite": "tensorflow"}
"""The Python module of each engine that can be run."""
PACKAGES = {"opencv": "opencv-python-headless", "openvino": "openvino", "tflite": "tensorflow"}
"""What pip calls them."""


class NotThere(TensorFlowMissing):
    """What was named has no engine in it; the text says what it has not."""


@contextmanager
def engine_at(engine: str, path: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The name by which `gdsurgeon.runtime.engines.opened` opens ENGINE, and what its process has to be able to read.

    Args:
        engine: one of `MODULES`.
        path: a wheel, a folder into which one was unpacked or installed, or a virtual environment; None: where it is
            installed for this Python.

    Raises:
        NotThere: it is not in PATH.
        TensorFlowMissing: it is not installed.
    """
    if path is None:
        if not is_in(engine, None):
            raise TensorFlowMissing(f"{TITLES[engine]} is not installed")
        yield engine, ()
        return
    if os.path.isdir(path):
        inside = sysconfig.get_path("purelib", vars={"base": path, "platbase": path})
        folder = next((each for each in (path, inside) if is_in(engine, each)), "")
        if not folder:
            raise NotThere(f"it has no module {MODULES[engine]}")
        yield f"{engine}:{os.path.abspath(folder)}", (folder,)
        return
    with tempfile.TemporaryDirectory(prefix="gdsurgeon-engine-") as folder:
        try:
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(folder)
        except (OSError, zipfile.BadZipFile) as error:
            raise NotThere(f"it is not a wheel: {error}") from error
        if not is_in(engine, folder):
            raise NotThere(f"it has no module {MODULES[engine]}")
        yield f"{engine}:{folder}", (folder,)


def is_in(engine: str, folder: str | None) -> bool:
    """Whether the module of ENGINE is in FOLDER, or where this Python looks for modules; it is not imported."""
    return importlib.machinery.PathFinder.find_spec(MODULES[engine], [folder] if folder else sys.path) is not None
