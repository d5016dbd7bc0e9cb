"""The modules of TensorFlow's Python package that load SavedModels: importing only these takes half of the time."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import cast

from gdsurgeon.runtime.library import package_folder
from gdsurgeon.runtime.python_tf import PythonRuntime


class LoaderRuntime(PythonRuntime):
    """`PythonRuntime` for `call_signatures` alone.

    Raises:
        TensorFlowMissing: it is not installed, or its modules are arranged differently.
    """

    name = "loader"

    def _imported(self) -> ModuleType:
        # The package's own __init__ imports all that TensorFlow offers: an empty module stands in for it.
        package = ModuleType("tensorflow")
        package.__path__ = [package_folder()]
        sys.modules["tensorflow"] = package
        from tensorflow.python import tf2

        tf2.enable()
        from tensorflow.python.client.session import Session
        from tensorflow.python.compat.v2_compat import enable_v2_behavior
        from tensorflow.python.framework import config, constant_op, dtypes, load_library, ops, versions
        from tensorflow.python.saved_model import load, loader_impl

        enable_v2_behavior()
        v1 = SimpleNamespace(Session=Session, saved_model=SimpleNamespace(load=loader_impl.load))
        optimizer = SimpleNamespace(set_experimental_options=config.set_optimizer_experimental_options)
        found = SimpleNamespace(
            __version__=versions.VERSION,
            Graph=ops.Graph,
            compat=SimpleNamespace(v1=v1),
            config=SimpleNamespace(optimizer=optimizer),
            constant=constant_op.constant,
            dtypes=dtypes,
            load_library=load_library.load_library,
            saved_model=SimpleNamespace(load=load.load),
        )
        return cast("ModuleType", found)
