"""Which of the two ways to TensorFlow is taken."""

from __future__ import annotations

import os

from gdsurgeon.runtime.checked import Runtime
from gdsurgeon.runtime.failures import RuntimeFailure, TensorFlowMissing

VARIABLE = "GDSURGEON_RUNTIME"  # environment: 'capi' or 'python' forces one


def open_runtime(name: str | None = None) -> Runtime:
    """Load TensorFlow into this process: through the C API if that can be, else by importing it.

    Args:
        name: 'capi' or 'python' to have that one and no other; 'loader' for that part of the latter which loads
            SavedModels; by default what the environment variable
            GDSURGEON_RUNTIME says; or the absolute path of a folder with the libraries of a release, or another
            engine, as `gdsurgeon.runtime.engines.opened.open_engine` takes it.

    Raises:
        TensorFlowMissing: TensorFlow is not installed or cannot be loaded.
        RuntimeFailure: NAME is neither.
    """
    wanted = name or os.environ.get(VARIABLE) or "auto"
    if name and os.path.isabs(name):
        from gdsurgeon.runtime.capi import CApiRuntime
        from gdsurgeon.runtime.library import LibraryUnusable

        try:
            return CApiRuntime(name)
        except LibraryUnusable as error:
            raise TensorFlowMissing(f"the release cannot be loaded: {error}") from error
    if name == "loader":
        from gdsurgeon.runtime.loader_tf import LoaderRuntime

        return LoaderRuntime()
    if wanted not in ("auto", "capi", "python"):
        from gdsurgeon.runtime.engines.opened import open_engine

        engine = open_engine(name or "")
        if engine is not None:
            return engine
        raise RuntimeFailure(f"{VARIABLE} must be capi or python, not {wanted!r}", "bad-value")
    if wanted != "python":
        from gdsurgeon.runtime.capi import CApiRuntime
        from gdsurgeon.runtime.library import LibraryUnusable

        try:
            return CApiRuntime()
        except LibraryUnusable as error:
            if wanted == "capi":
                raise TensorFlowMissing(f"TensorFlow's C API cannot be loaded: {error}") from error
    from gdsurgeon.runtime.python_tf import PythonRuntime

    return PythonRuntime()
