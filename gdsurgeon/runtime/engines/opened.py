"""Which engine runs in this process."""

from __future__ import annotations

import os
import sys
import tempfile

from gdsurgeon.ops.engines import TITLES
from gdsurgeon.runtime.checked import Runtime
from gdsurgeon.runtime.engines.place import MODULES
from gdsurgeon.runtime.failures import TensorFlowMissing


def open_engine(name: str) -> Runtime | None:
    """The runtime of the engine NAME, ``opencv``, or ``opencv:FOLDER`` where its module is there.

    None where no engine is so called.

    Raises:
        TensorFlowMissing: it is not installed or cannot be imported.
    """
    engine, _, folder = name.partition(":")
    if engine not in MODULES:
        return None
    if folder:
        sys.path.insert(0, folder)
    # Modules that look for a folder of temporary files when they are imported find it by writing, which a process that
    # is locked in cannot.
    tempfile.tempdir = tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"
    try:
        if engine == "opencv":
            from gdsurgeon.runtime.engines.opencv import OpenCvRuntime

            return OpenCvRuntime()
        if engine == "openvino":
            from gdsurgeon.runtime.engines.openvino import OpenVinoRuntime

            return OpenVinoRuntime()
        from gdsurgeon.runtime.engines.tflite import TfLiteRuntime

        return TfLiteRuntime()
    except TensorFlowMissing:
        raise
    except Exception as error:  # a broken installation fails with more than ImportError
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TensorFlowMissing(f"{TITLES[engine]} cannot be imported: {first}") from error
